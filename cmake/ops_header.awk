# ops_header.awk - writes fornax_ops.h, an inline function for each op, from src/tensor/ops.def.
#
# A row is   OP(CODE, "name", "operands", "results", A(X) A(Y), KIND, rule, FLAGS, "sentence"),
# perhaps on several lines; an attribute   ATTR(KEY, "text", KIND, default).  Chains and seeds are
# no parameters: the library adds them. Ops that need more than operands and attributes, and those
# of language models, have no function.

BEGIN {
    split("INPUT WEIGHT CONSTANT CHAIN OUTPUT YIELD COND WHILE CALL RESHAPE", list, " ")
    for (i in list)
        skip[list[i]] = 1
    c_type["INT"] = "int64_t";        maker["INT"] = "int"
    c_type["BOOL"] = "int";           maker["BOOL"] = "int"
    c_type["DTYPE"] = "fornax_dtype"; maker["DTYPE"] = "int"
    c_type["FLOAT"] = "double";       maker["FLOAT"] = "float"
    c_type["STR"] = "const char *";   maker["STR"] = "text"
    c_type["WORD"] = "const char *";  maker["WORD"] = "text"
    c_type["DIM"] = "fornax_dim";     maker["DIM"] = "size"
    item["TYPE"] = "fornax_type";     item["TYPES"] = "fornax_type"
    item["DIMS"] = "fornax_dim";      item["INTS"] = "int64_t"
    item["PARAMS"] = "fornax_param"
    print "/* fornax_ops.h - an inline function for each op, made from the table of ops when Fornax is built."
    print " *"
    print " * Included by fornax_graph.h. Optional operands may be NULL; lists are a pointer and a number, NULL"
    print " * and 0 for the default. A function returns the result, or the op where it has none or several. */"
    print "#ifndef FORNAX_OPS_H"
    print "#define FORNAX_OPS_H"
    print "\n#include \"fornax_graph.h\"\n"
    print "#ifdef __cplusplus\nextern \"C\" {\n#endif\n"
}

/^ATTR\(/ {
    split($0, q, "\"")
    key = q[1]
    gsub(/ATTR\(|[, ]/, "", key)
    kind = q[3]
    sub(/^, */, "", kind)
    sub(/[,)].*/, "", kind)
    text[key] = q[2]
    attr_kind[key] = kind
}

/^OP\(/ { row = "" }
/^OP\(/, /"\)$/ {
    row = row " " $0
    if ($0 ~ /"\)$/)
        make(row)
}

# Adds a parameter's declaration.
function param(type, name)
{
    decls = decls ", " type (type ~ /\*$/ ? "" : " ") name
}

function attribute(key, i,    kind, name)
{
    kind = attr_kind[key]
    name = text[key]
    if (kind in c_type) {
        param(c_type[kind], name)
        body = body "    at_[" i "] = fornax_attr_" maker[kind] "(\"" name "\", " name ");\n"
        return
    }
    param("const " item[kind] " *", name)
    if (kind != "TYPE")
        param("size_t", "n_" name)
    body = body "    at_[" i "] = fornax_attr_list(\"" name "\", " name ", " (kind == "TYPE" ? "1" : "n_" name) ");\n"
}

function operands(signature,    parts, n, i, name)
{
    n = split(signature, parts, /, */)
    n_in = 0
    variadic = ""
    for (i = 1; i <= n; i++) {
        name = parts[i]
        if (name ~ /^(chain|seed)/)
            continue
        if (sub(/\.\.\.$/, "", name)) {
            param("fornax_value *const *", name)
            param("size_t", "n_" name)
            variadic = name
            continue
        }
        sub(/\?$/, "", name)
        param("fornax_value *", name)
        body = body "    in_[" n_in++ "] = " name ";\n"
    }
}

function results(signature,    parts, n, i)
{
    n_out = 0
    n = split(signature, parts, /, */)
    for (i = 1; i <= n; i++)
        n_out += parts[i] ~ /\.\.\.$/ ? 2 : parts[i] != "chain"
}

function make(row,    q, code, rest, parts, n, i, call)
{
    split(row, q, "\"")
    code = q[1]
    gsub(/OP\(|[, ]/, "", code)
    rest = q[7]
    if (code in skip || rest ~ /FX_OPF_(MODEL|STEP)/)
        return
    decls = body = ""
    operands(q[4])
    results(q[6])
    sub(/^, */, "", rest)
    sub(/,.*/, "", rest)
    n = split(rest, parts, /\) *A\(/)
    n = rest ~ /A\(/ ? n : 0
    for (i = 1; i <= n; i++) {
        gsub(/A\(|[ )]/, "", parts[i])
        attribute(parts[i], i - 1)
    }
    call = "(fornax_op_make)(g, \"" q[2] "\", " (variadic != "" ? variadic ", n_" variadic : n_in ? "in_, " n_in : "NULL, 0") \
           ", " (n ? "at_, " n : "NULL, 0") ")"
    print "/* " q[8] " */"
    print "static inline fornax_" (n_out == 1 ? "value" : "op") " *fornax_op_" q[2] "(fornax_graph *g" decls ")\n{"
    if (n_in)
        print "    fornax_value *in_[" n_in "];"
    if (n)
        print "    fornax_attr at_[" n "];"
    printf "%s%s", n_in || n ? "\n" : "", body
    print "    return " (n_out == 1 ? "fornax_op_result(" call ", 0)" : call) ";\n}"
    print "#define fornax_op_" q[2] "(g, ...) (fornax_op_" q[2] ")(FORNAX_HERE(g), __VA_ARGS__)\n"
}

END {
    print "#ifdef __cplusplus\n}\n#endif\n\n#endif"
}
