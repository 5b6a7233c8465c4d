/* opencl.c - writes a kernel as OpenCL C.
 *
 * Vectors are taken apart: lane j of op 5 is the variable v5_j, so that a kernel of any lanes is plain C. Blocks
 * of kir are blocks of C. What isn't an operator of C is a function of the prelude. */
#include "codegen/opencl.h"

#include <stdio.h>

#include "kir/kir_eval.h"

typedef struct writer {
    fx_buf *out;
    const fx_kir_kernel *k;
    bool alone;                  /* in a region that one work-item runs, or as one of its iterations */
    fx_error *err;
    fx_status st;
} writer;

#define PUT(...) fx_buf_printf(w->out, __VA_ARGS__)

static const char *type_of(fx_dtype t)
{
    switch (t) {
    case FX_I8: return "char";
    case FX_I16: return "short";
    case FX_I32: return "int";
    case FX_I64: return "long";
    case FX_U16: case FX_F16: case FX_BF16: return "ushort";
    case FX_U32: return "uint";
    case FX_U64: return "ulong";
    case FX_F32: return "float";
    case FX_F64: return "double";
    default: return "uchar";             /* bool, u8, f8 */
    }
}

/* ---- Values ------------------------------------------------------------------------------------- */

typedef struct name {
    char text[32];
} name;

/* The variable of a lane; a scalar's is that of all lanes. */
static name value(const fx_kop *op, int lane)
{
    name n;

    if (op->type.lanes > 1)
        snprintf(n.text, sizeof(n.text), "v%d_%d", op->id, lane);
    else
        snprintf(n.text, sizeof(n.text), "v%d", op->id);
    return n;
}

static void put_bits(writer *w, fx_dtype t, uint64_t x)
{
    switch (t) {
    case FX_F32: PUT("as_float(0x%xu)", (unsigned)x); break;
    case FX_F64: PUT("as_double(0x%llxul)", (unsigned long long)x); break;
    default: PUT("(%s)0x%llxul", type_of(t), (unsigned long long)x); break;
    }
}

/* Operators of C; the others are functions of the prelude, by name and type. */
static const char *const operators[FX_KIR_COUNT] = {
    [FX_KIR_AND] = "&", [FX_KIR_OR] = "|", [FX_KIR_XOR] = "^", [FX_KIR_EQ] = "==", [FX_KIR_NE] = "!=", [FX_KIR_LT] = "<", [FX_KIR_LE] = "<=",
};
static const char *const float_operators[FX_KIR_COUNT] = {
    [FX_KIR_ADD] = "+", [FX_KIR_SUB] = "-", [FX_KIR_MUL] = "*", [FX_KIR_DIV] = "/",
};
static const char *const float_functions[FX_KIR_COUNT] = {
    [FX_KIR_FMA] = "fma", [FX_KIR_ABS] = "fabs", [FX_KIR_SQRT] = "sqrt", [FX_KIR_FLOOR] = "floor", [FX_KIR_CEIL] = "ceil",
    [FX_KIR_TRUNC] = "trunc", [FX_KIR_RINT] = "rint", [FX_KIR_COPYSIGN] = "copysign", [FX_KIR_NEG] = "-",
};

static void put_arithmetic(writer *w, const fx_kop *op, int lane)
{
    fx_dtype t = op->in[0]->type.t;
    bool f = fx_dtype_is_float(t);
    const char *infix = operators[op->code] ? operators[op->code] : f ? float_operators[op->code] : NULL;

    if (infix) {
        PUT("%s %s %s", value(op->in[0], lane).text, infix, value(op->in[1], lane).text);
        return;
    }
    if (op->code == FX_KIR_NOT) {
        PUT("%s%s", t == FX_BOOL ? "!" : "~", value(op->in[0], lane).text);
        return;
    }
    if (f && float_functions[op->code])
        PUT("%s(", float_functions[op->code]);
    else
        PUT("%s_%s(", fx_kir_name(op->code), type_of(t));
    for (int i = 0; i < op->n_in; i++)
        PUT("%s%s", i ? ", " : "", value(op->in[i], lane).text);
    fx_buf_putc(w->out, ')');
}

static bool is_narrow(fx_dtype t) { return fx_dtype_is_float(t) && fx_dtype_size(t) < 4; }

static void put_convert(writer *w, const fx_kop *op, int lane)
{
    fx_dtype from = op->in[0]->type.t, to = op->type.t;
    name x = value(op->in[0], lane), wide;

    if (is_narrow(from))
        snprintf(wide.text, sizeof(wide.text), "wide_%s(%.12s)", fx_dtype_name(from), x.text);
    else
        wide = x;
    if (from == to)
        PUT("%s", x.text);
    else if (to == FX_BOOL)
        PUT("%s != 0", wide.text);
    else if (is_narrow(to))
        PUT("narrow_%s(%s(%s))", fx_dtype_name(to), from == FX_F64 ? "fx_odd" : "(float)", wide.text);
    else if (fx_dtype_is_float(from) && !fx_dtype_is_float(to))
        PUT("sat_%s((double)%s)", type_of(to), wide.text);
    else
        PUT("(%s)%s", type_of(to), wide.text);
}

/* A lane's bits as an unsigned number. */
static void put_lane_bits(writer *w, const fx_kop *op, int lane)
{
    name x = value(op, lane);

    switch (op->type.t) {
    case FX_F32: PUT("(ulong)as_uint(%s)", x.text); break;
    case FX_F64: PUT("as_ulong(%s)", x.text); break;
    case FX_I8: PUT("(ulong)(uchar)%s", x.text); break;
    case FX_I16: PUT("(ulong)(ushort)%s", x.text); break;
    case FX_I32: PUT("(ulong)(uint)%s", x.text); break;
    default: PUT("(ulong)%s", x.text); break;
    }
}

/* Lane j of the result is made of the bytes there: of several lanes, or of part of one. */
static void put_bitcast(writer *w, const fx_kop *op, int lane)
{
    const fx_kop *from = op->in[0];
    int had = (int)fx_dtype_size(from->type.t), has = (int)fx_dtype_size(op->type.t), first = lane * has / had;

    if (op->type.t == FX_F32)
        PUT("as_float((uint)(");
    else if (op->type.t == FX_F64)
        PUT("as_double((ulong)(");
    else
        PUT("(%s)((", type_of(op->type.t));
    for (int i = 0; i < FX_MAX(has / had, 1); i++) {
        PUT(i ? " | (" : "(");
        put_lane_bits(w, from, first + i);
        PUT(") %s %d", has >= had ? "<<" : ">>", 8 * (has >= had ? i * had : lane * has % had));
    }
    PUT("))");
}

static void put_lane(writer *w, const fx_kop *op, int lane)
{
    uint64_t lanes[FX_KIR_MAX_LANES];
    int n;

    switch (op->code) {
    case FX_KIR_CONST:
        fx_kir_eval(op, NULL, lanes);
        put_bits(w, op->type.t, lanes[0]);
        break;
    case FX_KIR_SELECT: PUT("%s ? %s : %s", value(op->in[0], lane).text, value(op->in[1], lane).text, value(op->in[2], lane).text); break;
    case FX_KIR_CONVERT: put_convert(w, op, lane); break;
    case FX_KIR_BITCAST: put_bitcast(w, op, lane); break;
    case FX_KIR_SPLAT: PUT("%s", value(op->in[0], 0).text); break;
    case FX_KIR_IOTA: PUT("%d", lane); break;
    case FX_KIR_EXTRACT: PUT("%s", value(op->in[0], (int)op->u.i).text); break;
    case FX_KIR_INSERT: PUT("%s", lane == op->u.i ? value(op->in[1], 0).text : value(op->in[0], lane).text); break;
    case FX_KIR_SHUFFLE:
        n = op->in[0]->type.lanes;
        PUT("%s", op->u.lanes[lane] < n ? value(op->in[0], op->u.lanes[lane]).text : value(op->in[1], op->u.lanes[lane] - n).text);
        break;
    default: put_arithmetic(w, op, lane); break;
    }
}

static void put_pure(writer *w, const fx_kop *op)
{
    if ((fx_kir_rows[op->code].flags & FX_KOPF_MATH) && w->st == FORNAX_OK)
        w->st = fx_fail(w->err, FORNAX_EUNSUP, "kernel %.*s: no OpenCL C for %s; its math was to be expanded first", FX_STR_ARG(w->k->name),
                        fx_kir_name(op->code));
    for (int i = 0; i < op->type.lanes; i++) {
        PUT("const %s %s = ", type_of(op->type.t), value(op, i).text);
        put_lane(w, op, i);
        PUT(";\n");
    }
}

/* ---- Memory ------------------------------------------------------------------------------------------ */

static void put_size(writer *w, const fx_kop *size)
{
    if (size->code == FX_KIR_CONST)
        PUT("%lldL", (long long)size->u.i);
    else
        PUT("%s", value(size, 0).text);
}

/* long e5_0 = extent, s5_0 = stride, ...: the last axis first, as strides are made of what follows. */
static void put_extents(writer *w, const fx_kop *op)
{
    const fx_kir_buf *b = op->u.buf;

    for (int i = b->rank - 1; i >= 0; i--) {
        PUT("const long e%d_%d = ", op->id, i);
        put_size(w, b->extent[i]);
        PUT(", s%d_%d = ", op->id, i);
        if (b->stride[i])
            put_size(w, b->stride[i]);
        else if (i == b->rank - 1)
            PUT("1");
        else
            PUT("s%d_%d * e%d_%d", op->id, i + 1, op->id, i + 1);
        PUT(";\n");
    }
}

static uint64_t elements(const fx_kop *alloc)
{
    uint64_t n = 1;

    for (int i = 0; i < alloc->u.buf->rank; i++)
        n *= (uint64_t)alloc->u.buf->extent[i]->u.i;
    return n;
}

static void together(writer *w)
{
    if (!w->alone)
        PUT("fx_together();\n");
}

/* Arrays of all work-items of a group were declared at the kernel's begin: OpenCL C wants them there. */
static void put_alloc(writer *w, const fx_kop *op)
{
    if (w->alone)
        PUT("%s b%d[%llu];\n", type_of(op->u.buf->dtype), op->id, (unsigned long long)FX_MAX(elements(op), 1u));
    put_extents(w, op);
    together(w);
    PUT("for (long i = %s; i < %lluL; i += %s)\nb%d[i] = 0;\n", w->alone ? "0" : "get_local_id(0)", (unsigned long long)elements(op),
        w->alone ? "1" : "get_local_size(0)", op->id);
    together(w);
}

/* Lane 'lane' of an access: if it is on, and each index inside, 'what' happens. */
static void put_access(writer *w, const fx_kop *op, int lane)
{
    const fx_kop *buf = fx_kir_buffer_of(op), *mask = fx_kir_mask_of(op);
    bool store = op->code == FX_KIR_STORE || op->code == FX_KIR_SCATTER, contiguous = op->code == FX_KIR_LOAD || op->code == FX_KIR_STORE;
    int rank = buf->u.buf->rank, from = fx_kir_index_from(op);

    if (mask)
        PUT("if (%s) ", value(mask, lane).text);
    PUT("{\n");
    for (int i = 0; i < rank; i++)
        PUT("const long i%d = (long)((ulong)%s + %d);\n", i, value(op->in[from + i], lane).text, contiguous && i == rank - 1 ? lane : 0);
    for (int i = 0; i < rank; i++)
        PUT("if ((ulong)i%d >= (ulong)e%d_%d) fx_note(fault, %d, %d, i%d, e%d_%d); else\n", i, buf->id, i, op->id, i, i, buf->id, i);
    if (!store)
        PUT("%s = ", value(op, lane).text);
    PUT("b%d[0", buf->id);
    for (int i = 0; i < rank; i++)
        PUT(" + i%d * s%d_%d", i, buf->id, i);
    PUT("]");
    if (store)
        PUT(" = %s", value(op->in[1], lane).text);
    PUT("%s;\n}\n", !store && op->type.t == FX_BOOL ? " != 0" : "");
}

static void put_load(writer *w, const fx_kop *op)
{
    for (int i = 0; i < op->type.lanes; i++) {
        PUT("%s %s = 0;\n", type_of(op->type.t), value(op, i).text);
        put_access(w, op, i);
    }
}

static void put_store(writer *w, const fx_kop *op)
{
    together(w);
    if (!w->alone)
        PUT("if (get_local_id(0) == 0) {\n");
    for (int i = 0; i < op->in[1]->type.lanes; i++)
        put_access(w, op, i);
    if (!w->alone)
        PUT("}\n");
    together(w);
}

/* ---- Structure -------------------------------------------------------------------------------------------- */

static void put_block(writer *w, const fx_kir_block *b);

static void put_region(writer *w, const fx_kop *op)
{
    int id = op->block[0]->arg->id;
    bool forall = op->code != FX_KIR_THREADS, spread = !w->alone && op->code != FX_KIR_FOR;
    name lo = value(op->in[0], 0), hi = value(op->in[forall ? 1 : 0], 0);

    if (spread) {
        together(w);
        PUT("for (long v%d = (long)get_local_id(0) + %s; v%d < %s; v%d += get_local_size(0)) {\n", id, forall ? lo.text : "0", id, hi.text, id);
        w->alone = true;
        put_block(w, op->block[0]);
        w->alone = false;
        PUT("}\n");
        together(w);
    } else if (op->code == FX_KIR_FOR) {
        PUT("if (%s < %s) for (long v%d = %s, z%d = fx_last(%s, %s, %s); ; v%d += %s) {\n", lo.text, hi.text, id, lo.text, id, lo.text, hi.text,
            value(op->in[2], 0).text, id, value(op->in[2], 0).text);
        put_block(w, op->block[0]);
        PUT("if (v%d == z%d) break;\n}\n", id, id);
    } else {
        PUT("for (long v%d = %s; v%d < %s; v%d++) {\n", id, forall ? lo.text : "0", id, hi.text, id);
        put_block(w, op->block[0]);
        PUT("}\n");
    }
}

static void put_branch(writer *w, const fx_kop *op)
{
    PUT("if (%s) {\n", value(op->in[0], 0).text);
    put_block(w, op->block[0]);
    if (op->block[1]) {
        PUT("} else {\n");
        put_block(w, op->block[1]);
    }
    PUT("}\n");
}

static void put_while(writer *w, const fx_kop *op)
{
    PUT("for (;;) {\n");
    put_block(w, op->block[0]);
    PUT("if (!%s) break;\n", value(op->block[0]->last->in[0], 0).text);
    put_block(w, op->block[1]);
    PUT("}\n");
}

/* 'to' = 'to' combined with x (and y). */
static void put_combined(writer *w, fx_kir_combine kind, fx_dtype t, const char *to, const char *x, const char *y)
{
    static const char *const names[FX_KIR_COMBINES] = {
        [FX_KIR_SUM] = "add", [FX_KIR_PROD] = "mul", [FX_KIR_LEAST] = "min", [FX_KIR_GREATEST] = "max",
    };
    const char *type = type_of(t);
    bool f = fx_dtype_is_float(t);

    if (kind == FX_KIR_DOT)
        PUT("%s = fma(%s, %s, %s);\n", to, x, y, to);
    else if (kind == FX_KIR_ALL || kind == FX_KIR_ANY || (f && kind <= FX_KIR_PROD))
        PUT("%s = %s %s %s;\n", to, to, kind == FX_KIR_ALL ? "&" : kind == FX_KIR_ANY ? "|" : kind == FX_KIR_SUM ? "+" : "*", x);
    else
        PUT("%s = %s_%s(%s, %s);\n", to, names[kind], type, to, x);
}

/* long v5; of what the block yields the lanes are in r5[]. */
static void put_reduce(writer *w, const fx_kop *op)
{
    fx_kir_combine kind = op->u.reduce.kind, tree = kind == FX_KIR_DOT ? FX_KIR_SUM : kind;
    int id = op->id, k = op->block[0]->arg->id, lanes = op->u.reduce.lanes;
    const fx_kop *yield = op->block[0]->last;
    name x = value(yield->in[0], 0), lo = value(op->in[0], 0), hi = value(op->in[1], 0);
    char to[64], other[64];

    PUT("%s r%d[%d];\nfor (int i = 0; i < %d; i++)\nr%d[i] = ", type_of(op->type.t), id, lanes, lanes, id);
    put_bits(w, op->type.t, fx_kir_neutral(kind, op->type.t));
    PUT(";\nfor (long v%d = %s; v%d < %s; v%d++) {\n", k, lo.text, k, hi.text, k);
    put_block(w, op->block[0]);
    snprintf(to, sizeof(to), "r%d[((ulong)v%d - (ulong)%.12s) %% %d]", id, k, lo.text, lanes);
    put_combined(w, kind, op->type.t, to, x.text, yield->n_in > 1 ? value(yield->in[1], 0).text : "");
    PUT("}\n");
    for (int half = lanes / 2; half; half /= 2) {
        for (int j = 0; j < half; j++) {
            snprintf(to, sizeof(to), "r%d[%d]", id, j);
            snprintf(other, sizeof(other), "r%d[%d]", id, j + half);
            put_combined(w, tree, op->type.t, to, other, "");
        }
    }
    PUT("const %s v%d = r%d[0];\n", type_of(op->type.t), id, id);
}

static void put_arg_reduce(writer *w, const fx_kop *op)
{
    bool least = op->u.reduce.kind == FX_KIR_ARGLEAST;
    int id = op->id, k = op->block[0]->arg->id;
    const fx_kop *yield = op->block[0]->last;
    name x = value(yield->in[0], 0);

    PUT("long v%d = -1;\n%s r%d = 0;\n", id, type_of(yield->in[0]->type.t), id);
    PUT("for (long v%d = %s; v%d < %s; v%d++) {\n", k, value(op->in[0], 0).text, k, value(op->in[1], 0).text, k);
    put_block(w, op->block[0]);
    PUT("if (v%d == %s || %s %s r%d || (%s != %s && r%d == r%d)) {\nr%d = %s;\nv%d = v%d;\n}\n}\n", k, value(op->in[0], 0).text, x.text,
        least ? "<" : ">", id, x.text, x.text, id, id, id, x.text, id, k);
}

static void put_local(writer *w, const fx_kop *op, const char *type, const fx_kop *to, const fx_kop *from)
{
    for (int i = 0; i < (op->type.lanes ? op->type.lanes : to->type.lanes); i++)
        PUT("%s%s = %s;\n", type, value(to, i).text, value(from, i).text);
}

static void put_op(writer *w, const fx_kop *op)
{
    char type[24];

    snprintf(type, sizeof(type), "%s ", op->type.lanes ? type_of(op->type.t) : "");
    switch (op->code) {
    case FX_KIR_ALLOC: put_alloc(w, op); break;
    case FX_KIR_LOAD: case FX_KIR_GATHER: put_load(w, op); break;
    case FX_KIR_STORE: case FX_KIR_SCATTER: put_store(w, op); break;
    case FX_KIR_LOCAL: case FX_KIR_GET: put_local(w, op, type, op, op->in[0]); break;
    case FX_KIR_SET: put_local(w, op, "", op->in[0], op->in[1]); break;
    case FX_KIR_FOR: case FX_KIR_FORALL: case FX_KIR_THREADS: put_region(w, op); break;
    case FX_KIR_IF: put_branch(w, op); break;
    case FX_KIR_WHILE: put_while(w, op); break;
    case FX_KIR_REDUCE: op->u.reduce.kind >= FX_KIR_ARGLEAST ? put_arg_reduce(w, op) : put_reduce(w, op); break;
    case FX_KIR_YIELD: break;
    default: put_pure(w, op); break;
    }
}

static void put_block(writer *w, const fx_kir_block *b)
{
    for (const fx_kop *op = b->first; op; op = op->next)
        put_op(w, op);
}

/* Declares the arrays that all work-items of a group see: those outside of FORALL and THREADS. */
static void put_shared(writer *w, const fx_kir_block *b)
{
    for (const fx_kop *op = b->first; op; op = op->next) {
        if (op->code == FX_KIR_ALLOC)
            PUT("__local %s b%d[%llu];\n", type_of(op->u.buf->dtype), op->id, (unsigned long long)FX_MAX(elements(op), 1u));
        for (int i = 0; i < 2; i++) {
            if (op->block[i] && op->code != FX_KIR_FORALL && op->code != FX_KIR_THREADS)
                put_shared(w, op->block[i]);
        }
    }
}

/* Whether b has iterations to share out, or arrays that a group would share: else one work-item does all, without barriers. */
static bool wants_group(const fx_kir_block *b)
{
    bool any = false;

    for (const fx_kop *op = b->first; op && !any; op = op->next) {
        any = op->code == FX_KIR_FORALL || op->code == FX_KIR_THREADS || op->code == FX_KIR_ALLOC;
        for (int i = 0; i < 2 && !any; i++)
            any = op->block[i] && wants_group(op->block[i]);
    }
    return any;
}

static void put_params(writer *w)
{
    PUT("__kernel void %.*s(__global const ulong *args, long t0, long t1, __global fx_fault *fault", FX_STR_ARG(w->k->name));
    for (size_t i = 0; i < w->k->params.n; i++) {
        const fx_kop *op = w->k->params.at[i];

        if (op->code == FX_KIR_BUFFER)
            PUT(", __global %s *b%d", type_of(op->u.buf->dtype), op->id);
    }
    PUT(")\n{\n");
    for (size_t i = 0; i < w->k->params.n; i++) {
        const fx_kop *op = w->k->params.at[i];
        fx_dtype t = op->type.t;

        if (op->code == FX_KIR_ARG)
            PUT("const %s v%d = %s(%sargs[%d])%s;\n", type_of(t), op->id, t == FX_F32 ? "as_float" : t == FX_F64 ? "as_double" : "",
                t == FX_F32 ? "(uint)" : t == FX_BOOL ? "1 & " : "", (int)op->u.i, "");
    }
    for (size_t i = 0; i < w->k->params.n; i++) {
        if (w->k->params.at[i]->code == FX_KIR_BUFFER)
            put_extents(w, w->k->params.at[i]);
    }
}

fx_status fx_opencl_print(fx_buf *out, fx_kir_kernel *k, fx_error *err)
{
    writer writer_ = { .out = out, .k = k, .err = err }, *w = &writer_;

    fx_kir_number(k);
    fx_buf_puts(out, fx_opencl_prelude);
    put_params(w);
    put_shared(w, k->body);
    w->alone = !wants_group(k->body);
    PUT("const long v%d = t0 + (long)get_group_id(0);\nif (v%d < t1%s) {\n", k->task->id, k->task->id, w->alone ? " && get_local_id(0) == 0" : "");
    put_block(w, k->body);
    PUT("}\n}\n");
    return out->failed ? fx_nomem(err, "OpenCL C") : w->st;
}
