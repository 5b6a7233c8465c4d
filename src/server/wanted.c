/* wanted.c - see wanted.h. */
#include "server/wanted.h"

#include <stdlib.h>
#include <string.h>

#define SCHEMA_FIELD "response_format.json_schema.schema"

/* Only the schema matters: it is always enforced, as "strict" asks for. The rest is held to its types. */
typedef struct schema_fields {
    fx_str name, description;
    const json_t *schema;
    bool strict;
} schema_fields;

static fx_status set(fx_wanted *f, const char *field, const char *kind, fx_str text, fx_error *err)
{
    if (f->on)
        return fx_fail_param(err, FORNAX_EARG, field, "%s: not together with %s", field, f->field);
    f->text = malloc(text.n + 1);
    if (!f->text)
        return fx_nomem(err, field);
    memcpy(f->text, text.p, text.n);
    f->text[text.n] = 0;
    f->on = true;
    f->field = field;
    f->o = (fornax_grammar_options)FORNAX_OPTIONS(fornax_grammar_options);
    f->o.kind = kind;
    f->n = text.n;
    return FORNAX_OK;
}

static fx_status set_json(fx_wanted *f, const char *field, const char *kind, const json_t *v, fx_error *err)
{
    char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
    fx_status st = text ? set(f, field, kind, fx_str_of(text), err) : fx_nomem(err, field);

    free(text);
    return st;
}

static fx_status read_schema(fx_wanted *f, const json_t *v, fx_error *err)
{
    static const fx_field rows[] = {
        { "name", FX_F_STR, offsetof(schema_fields, name), 0, 0 },
        { "description", FX_F_STR, offsetof(schema_fields, description), 0, 0 },
        { "schema", FX_F_JSON, offsetof(schema_fields, schema), 0, 0 },
        { "strict", FX_F_BOOL, offsetof(schema_fields, strict), 0, 0 },
        { 0 },
    };
    schema_fields s = { 0 };

    if (!json_is_object(v))
        return fx_fail_param(err, FORNAX_EARG, "response_format.json_schema", "response_format.json_schema: expected an object");
    FX_TRY(fx_fields_read(v, rows, &s, "response_format.json_schema", NULL, err));
    if (!s.schema)
        return fx_fail_param(err, FORNAX_EARG, SCHEMA_FIELD, SCHEMA_FIELD ": missing");
    return set_json(f, SCHEMA_FIELD, "json_schema", s.schema, err);
}

static fx_status read_response_format(fx_wanted *f, const json_t *v, fx_error *err)
{
    const char *type = json_string_value(json_object_get(v, "type"));

    if (!v || (type && strcmp(type, "text") == 0))
        return FORNAX_OK;
    if (type && strcmp(type, "json_object") == 0)
        return set(f, "response_format", "json_schema", FX_STR("{\"type\":\"object\"}"), err);
    if (type && strcmp(type, "json_schema") == 0)
        return read_schema(f, json_object_get(v, "json_schema"), err);
    return fx_fail_param(err, FORNAX_EARG, "response_format",
                         "response_format: expected an object whose type is \"text\", \"json_object\" or \"json_schema\"");
}

fx_status fx_wanted_read(fx_wanted *f, const fx_gen_body *b, fx_error *err)
{
    *f = (fx_wanted){ 0 };
    FX_TRY(read_response_format(f, b->response_format, err));
    if (b->regex.p)
        FX_TRY(set(f, "regex", "regex", b->regex, err));
    if (b->grammar.p)
        FX_TRY(set(f, "grammar", "ebnf", b->grammar, err));
    if (b->choice)
        FX_TRY(set_json(f, "choice", "choice", b->choice, err));
    return FORNAX_OK;
}

void fx_wanted_free(fx_wanted *f)
{
    free(f->text);
    *f = (fx_wanted){ 0 };
}

void fx_wanted_fault(const fx_wanted *f, fx_error *err)
{
    char inner[sizeof err->param];

    if (!f->on || strncmp(err->param, "tools", 5) == 0 || strcmp(err->param, f->field) == 0)
        return;
    memcpy(inner, err->param, sizeof inner);
    snprintf(err->param, sizeof err->param, "%.40s%.50s", f->field, inner[0] == '#' ? inner : "");
}
