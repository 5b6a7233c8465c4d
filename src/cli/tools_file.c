/* tools_file.c - the tools file read and checked; see tools.h. Keys are rows. */
#include <math.h>
#include <stdlib.h>

#include "base/text.h"
#include "cli/tools.h"

typedef struct key_row {
    const char *key;
    const char *type;            /* one of those below; "!" in front: it must be there */
    double min, max;
} key_row;

static const key_row file_keys[] = { { "tools", "list", 0, 0 }, { "mcpServers", "object", 0, 0 }, { 0 } };
static const key_row tool_keys[] = {
    { "name", "!string", 0, 0 }, { "description", "string", 0, 0 }, { "parameters", "object", 0, 0 }, { "argv", "!list", 0, 0 },
    { "stdin", "stdin", 0, 0 }, { "directory", "string", 0, 0 }, { "env", "strings by name", 0, 0 }, { "timeout", "number", 0.1, 86400 },
    { "max_output", "integer", 1, 16 << 20 }, { 0 },
};
static const key_row server_keys[] = {
    { "command", "!string", 0, 0 }, { "args", "list of strings", 0, 0 }, { "env", "strings by name", 0, 0 }, { "type", "stdio", 0, 0 },
    { "directory", "string", 0, 0 }, { "timeout", "number", 0.1, 86400 }, { "start_timeout", "number", 0.1, 86400 },
    { "max_output", "integer", 1, 16 << 20 }, { "tools", "list of strings", 0, 0 }, { "prefix", "string", 0, 0 }, { 0 },
};

typedef struct where {
    const char *path;
    char pointer[160];
} where;

static fx_status fault(const where *w, const char *key, const char *what, fx_error *err)
{
    const char *at = *key || w->pointer[0] ? ": " : "";

    return fx_fail(err, FORNAX_EFORMAT, "%s: %s%s%s%s%s", FX_SHOW(fx_str_of(w->path)), w->pointer, *key ? "/" : "",
                   FX_SHOW(fx_str_of(key)), at, what);
}

/* ---- Values ---- */

/* A string that can be handed to the system. */
static bool plain(const json_t *v) { return json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v); }

static bool all_plain(const json_t *v)
{
    size_t i;
    const char *key;
    json_t *e;

    json_array_foreach((json_t *)v, i, e)
        if (!plain(e))
            return false;
    json_object_foreach((json_t *)v, key, e)
        if (!plain(e) || (json_is_object(v) && (!*key || strchr(key, '='))))
            return false;
    return true;
}

static bool has_type(const json_t *v, const char *type)
{
    static const char *const words[][2] = { { "stdin", "arguments" }, { "stdin", "none" }, { "stdio", "stdio" } };

    for (size_t i = 0; i < FX_COUNT(words); i++)
        if (strcmp(type, words[i][0]) == 0 && plain(v) && strcmp(json_string_value(v), words[i][1]) == 0)
            return true;
    return strcmp(type, "string") == 0 ? plain(v) : strcmp(type, "list") == 0 ? json_is_array(v)
           : strcmp(type, "object") == 0 ? json_is_object(v) : strcmp(type, "number") == 0 ? json_is_number(v)
           : strcmp(type, "integer") == 0 ? json_is_integer(v) : strcmp(type, "list of strings") == 0 ? json_is_array(v) && all_plain(v)
           : strcmp(type, "strings by name") == 0 && json_is_object(v) && all_plain(v);
}

static fx_status check_value(const where *w, const key_row *row, const json_t *v, fx_error *err)
{
    const char *type = row->type + (row->type[0] == '!');
    char what[120];

    if (!has_type(v, type)) {
        const char *words = strcmp(type, "stdin") == 0 ? "\"arguments\" or \"none\"" : strcmp(type, "stdio") == 0 ? "\"stdio\"" : NULL;

        fx_format(what, sizeof what, "expected %s%s", words ? "" : "a value of this kind: ", words ? words : type);
        return fault(w, row->key, what, err);
    }
    if (json_is_number(v) && !(json_number_value(v) >= row->min && json_number_value(v) <= row->max)) {
        fx_format(what, sizeof what, "expected a number from %g to %.0f", row->min, row->max);
        return fault(w, row->key, what, err);
    }
    return FORNAX_OK;
}

static fx_status check_keys(const where *w, const json_t *object, const key_row *rows, fx_error *err)
{
    const char *key;
    json_t *v;

    if (!json_is_object(object))
        return fault(w, "", "expected an object", err);
    json_object_foreach((json_t *)object, key, v) {
        const key_row *row = rows;

        while (row->key && strcmp(row->key, key) != 0)
            row++;
        if (!row->key)
            return fault(w, key, "no such key", err);
        FX_TRY(check_value(w, row, v, err));
    }
    for (const key_row *row = rows; row->key; row++)
        if (row->type[0] == '!' && !json_object_get(object, row->key))
            return fault(w, row->key, "is missing", err);
    return FORNAX_OK;
}

/* ---- "argv" ---- */

/* Each {NAME} is a property of the parameters. */
static const char *check_word(const char *p, const json_t *properties, bool *any)
{
    for (; *p; p++) {
        const char *end = *p == '{' ? strchr(p, '}') : NULL;

        if ((*p == '{' || *p == '}') && p[1] == *p) {
            p++;
        } else if (*p == '}' || (*p == '{' && !end)) {
            return "a brace by itself; {{ and }} stand for braces";
        } else if (*p == '{') {
            if (!json_object_getn(properties, p + 1, (size_t)(end - p) - 1))
                return "names in braces must be properties of \"parameters\"";
            *any = true;
            p = end;
        }
    }
    return NULL;
}

static const char *check_list(const json_t *argv, const json_t *properties, bool inner)
{
    for (size_t i = 0; i < json_array_size(argv); i++) {
        const json_t *e = json_array_get(argv, i);
        bool any = false;
        const char *why = plain(e) ? check_word(json_string_value(e), properties, &any)
                          : json_is_array(e) && !inner && i > 0 ? check_list(e, properties, true)
                                                                : "expected strings, and behind the first lists of strings";

        if (why)
            return why;
        if (!inner && i == 0 && (any || !*json_string_value(e)))
            return "the program itself can't depend on arguments";
    }
    return json_array_size(argv) > 0 ? NULL : "expected at least one string";
}

/* ---- The whole ---- */

static json_t *declare(const char *name, const json_t *description, const json_t *parameters)
{
    json_t *f = json_pack("{s:s,s:O*,s:O*}", "name", name, "description", description, "parameters", parameters);

    return json_pack("{s:s,s:o}", "type", "function", "function", f);
}

static fx_status add_command(fx_tools *t, json_t *spec, const where *w, fx_error *err)
{
    json_t *parameters = json_object_get(spec, "parameters");
    const char *why;
    fx_tool tool = { .spec = spec, .timeout_s = 30, .max_output = 16384 };

    FX_TRY(check_keys(w, spec, tool_keys, err));
    why = check_list(json_object_get(spec, "argv"), json_object_get(parameters, "properties"), false);
    if (why)
        return fault(w, "argv", why, err);
    tool.name = json_string_value(json_object_get(spec, "name"));
    if (fx_tools_find(t, fx_str_of(tool.name)))
        return fault(w, "name", "an earlier tool has the same name", err);
    if (json_object_get(spec, "timeout"))
        tool.timeout_s = json_number_value(json_object_get(spec, "timeout"));
    if (json_object_get(spec, "max_output"))
        tool.max_output = (size_t)json_integer_value(json_object_get(spec, "max_output"));
    parameters = parameters ? json_incref(parameters) : json_pack("{s:s,s:{},s:b}", "type", "object", "properties", "additionalProperties", 0);
    tool.declared = declare(tool.name, json_object_get(spec, "description"), parameters);
    json_decref(parameters);
    if (tool.declared && FX_VEC_PUSH(&t->list, &fx_mem_libc, tool))
        return FORNAX_OK;
    json_decref(tool.declared);
    return fx_nomem(err, "tools");
}

static fx_status add_server(fx_tools *t, const char *name, const json_t *spec, const where *w, fx_error *err)
{
    const json_t *args = json_object_get(spec, "args");
    fx_tool_server s = { .name = name, .spec = spec };

    FX_TRY(check_keys(w, spec, server_keys, err));
    s.argv = calloc(json_array_size(args) + 2, sizeof *s.argv);
    if (!s.argv || !FX_VEC_PUSH(&t->servers, &fx_mem_libc, s)) {
        free(s.argv);
        return fx_nomem(err, "servers");
    }
    s.argv[0] = json_string_value(json_object_get(spec, "command"));
    for (size_t i = 0; i < json_array_size(args); i++)
        s.argv[i + 1] = json_string_value(json_array_get(args, i));
    return s.argv[0][0] ? FORNAX_OK : fault(w, "command", "expected the name of a program", err);
}

fx_status fx_tools_read(fx_tools *t, fx_str json, const char *path, fx_error *err)
{
    where w = { .path = path };
    json_error_t je;
    const char *name;
    json_t *v;
    size_t i;

    *t = (fx_tools){ .path = path };
    t->file = json_loadb(json.p, json.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &je);
    if (!t->file)
        return fx_fail(err, FORNAX_EFORMAT, "%s:%d:%d: %s", FX_SHOW(fx_str_of(path)), je.line, je.column, je.text);
    FX_TRY(check_keys(&w, t->file, file_keys, err));
    json_array_foreach(json_object_get(t->file, "tools"), i, v) {
        fx_format(w.pointer, sizeof w.pointer, "/tools/%zu", i);
        FX_TRY(add_command(t, v, &w, err));
    }
    json_object_foreach(json_object_get(t->file, "mcpServers"), name, v) {
        fx_format(w.pointer, sizeof w.pointer, "/mcpServers/%s", FX_SHOW(fx_str_of(name)));
        FX_TRY(add_server(t, name, v, &w, err));
    }
    return FORNAX_OK;
}
