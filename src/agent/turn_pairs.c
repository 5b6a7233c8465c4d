/* turn_pairs.c - calls whose arguments aren't one JSON object: parameter by parameter, in the schema's order. */
#include <string.h>

#include "agent/turn_int.h"

typedef struct pair_form {
    const char *before, *after_name, *close;               /* around the name and the parameters */
    const char *before_key, *after_key, *after_value, *between;
    bool plain;                                            /* strings are plain text */
} pair_form;

static const pair_form *form_of(const fx_codec *c)
{
    static const pair_form forms[] = {
        [FX_CALL_XML_PAIRS] = { "", "\n", "", "<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n", "", true },
        [FX_CALL_XML_FUNCTION] = { "<function=", ">\n", "</function>", "<parameter=", ">\n", "\n</parameter>\n", "", true },
        [FX_CALL_XML_INVOKE] = { "", "\">\n", "", "<parameter name=\"", "\">", "</parameter>\n", "", true },
        [FX_CALL_PYTHON] = { "", "(", ")", "", "=", "", ", ", false },
    };
    static const pair_form compact = { "", "", "", "<arg_key>", "</arg_key><arg_value>", "</arg_value>", "", true };

    return c->compact ? &compact : &forms[c->form];
}

/* Where in the request: a tool's schema, and what lies at 'where' below it. */
typedef struct place {
    size_t tool;
    char where[64];                      /* "" or "#/properties/KEY" */
} place;

static fx_status refuse(fx_error *err, const fx_turn *t, const place *p, const char *keyword)
{
    char param[160];

    snprintf(param, sizeof param, "tools[%zu].function.parameters%s/%.20s", p->tool, p->where[0] ? p->where : "#", keyword);
    return fx_fail_param(err, FORNAX_EUNSUP, param, "%s: the %s form of calls can't hold arguments to this", param, t->spec->codec->name);
}

/* Every keyword is one of these; they end with NULL. */
static fx_status check_keywords(const fx_turn *t, const json_t *schema, const char *const *understood, const place *p, fx_error *err)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)schema, key, v) {
        size_t i = 0;

        while (understood[i] && strcmp(key, understood[i]) != 0)
            i++;
        if (!understood[i])
            return refuse(err, t, p, key);
    }
    return FORNAX_OK;
}

static bool is_required(const json_t *schema, const char *key)
{
    const json_t *list = json_object_get(schema, "required");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));

        if (name && strcmp(name, key) == 0)
            return true;
    }
    return false;
}

/* ---- One parameter ---- */

/* The strings that "const" or "enum" leave; FX_RE_ALL: every one. */
static fx_re listed(fx_turn *t, const json_t *schema)
{
    const json_t *one = json_object_get(schema, "const"), *list = json_object_get(schema, "enum");
    size_t n = one ? 1 : json_array_size(list);
    fx_re re = FX_RE_NONE;

    if (!one && !list)
        return FX_RE_ALL;
    for (size_t i = 0; i < n; i++) {
        const json_t *e = one ? one : json_array_get(list, i);

        if (json_is_string(e))
            re = fx_re_alt(t->re, re, fx_re_literal(t->re, fx_str_n(json_string_value(e), json_string_length(e))));
    }
    if (one && list)                     /* both hold */
        for (size_t i = 0, found = 0; i <= json_array_size(list); i++) {
            found |= json_equal(one, json_array_get(list, i));
            re = i == json_array_size(list) && !found ? FX_RE_NONE : re;
        }
    return re;
}

/* A string as plain text that holds neither the tag behind it nor, where that matters, a call's beginning. */
static fx_status plain_string(fx_gnode *out, fx_turn *t, const json_t *schema, const char *close, const place *p, fx_error *err)
{
    static const char *const understood[] = { "type", "enum", "const", "title", "description", "default", "examples", NULL };
    fx_re not = fx_turn_containing(t, close);

    FX_TRY(check_keywords(t, schema, understood, p, err));
    if (t->spec->strict)
        not = fx_re_alt(t->re, not, fx_turn_call_beginnings(t));
    *out = fx_gram_lexeme(t->b, fx_re_and(t->re, listed(t, schema), fx_re_text_not(t->re, FX_SPELL_UTF8, not)));
    return FORNAX_OK;
}

/* What stands for a name in every one of these forms. */
static bool plain_key(const char *key)
{
    for (const char *p = key; *p; p++)
        if ((unsigned char)*p < 0x80 && !strchr("_-.", *p) && !(*p >= '0' && *p <= '9') && !(*p >= 'a' && *p <= 'z') && !(*p >= 'A' && *p <= 'Z'))
            return false;
    return key[0] != 0;
}

static fx_status one_parameter(fx_gnode *out, fx_turn *t, const pair_form *f, const char *key, const json_t *schema, place *p, fx_error *err)
{
    const char *type = json_string_value(json_object_get(schema, "type"));
    fx_gnode value;

    snprintf(p->where, sizeof p->where, "#/properties/%.40s", key);
    if (!plain_key(key))
        return refuse(err, t, p, "");
    if (f->plain && type && strcmp(type, "string") == 0)
        FX_TRY(plain_string(&value, t, schema, f->after_value, p, err));
    else
        FX_TRY(fx_turn_schema(&value, t, schema, p->tool, p->where, err));
    return fx_turn_form(out, t, err, "snsns", f->before_key, fx_turn_literal(t, fx_str_of(key)), f->after_key, value, f->after_value);
}

/* ---- All of them ---- */

static fx_status check_object(const fx_turn *t, const json_t *schema, const place *p, fx_error *err)
{
    static const char *const understood[] = { "type", "properties", "required", "additionalProperties", "title", "description", "$schema",
                                              NULL };
    const json_t *props = json_object_get(schema, "properties"), *type = json_object_get(schema, "type");
    const json_t *list = json_object_get(schema, "required"), *name;
    size_t i;

    FX_TRY(check_keywords(t, schema, understood, p, err));
    if (type && (!json_is_string(type) || strcmp(json_string_value(type), "object") != 0))
        return refuse(err, t, p, "type");
    if (props && !json_is_object(props))
        return refuse(err, t, p, "properties");
    if (list && !json_is_array(list))
        return refuse(err, t, p, "required");
    json_array_foreach((json_t *)list, i, name)
        if (!json_is_string(name) || !json_object_get(props, json_string_value(name)))
            return refuse(err, t, p, "required");
    return FORNAX_OK;
}

/* Separators stand before every parameter but the first that comes, so two sequences are built from the back:
 * what may follow once one came, and what may follow while none did. */
static fx_status parameters(fx_gnode *out, fx_turn *t, const pair_form *f, const json_t *schema, place *p, fx_error *err)
{
    json_t *props = json_object_get(schema, "properties");
    fx_gnode later = FX_GNODE_EMPTY, first = FX_GNODE_EMPTY;

    FX_TRY(check_object(t, schema, p, err));
    for (size_t k = json_object_size(props); k-- > 0;) {
        void *at = json_object_iter(props);
        fx_gnode one, with_sep, then = later;
        const char *key;

        for (size_t s = 0; s < k; s++)
            at = json_object_iter_next(props, at);
        key = json_object_iter_key(at);
        FX_TRY(one_parameter(&one, t, f, key, json_object_iter_value(at), p, err));
        FX_TRY(fx_turn_form(&with_sep, t, err, "snn", f->between, one, then));
        later = is_required(schema, key) ? with_sep : fx_gram_alt(t->b, (fx_gnode[]){ with_sep, then }, 2);
        one = fx_turn_pair(t, one, then);
        first = is_required(schema, key) ? one : fx_gram_alt(t->b, (fx_gnode[]){ one, first }, 2);
    }
    *out = first;
    return FORNAX_OK;
}

fx_status fx_turn_pairs(fx_gnode *out, fx_turn *t, const json_t *tool, size_t i, fx_error *err)
{
    const pair_form *f = form_of(t->spec->codec);
    place p = { .tool = i };
    fx_gnode args = FX_GNODE_FAIL;

    FX_TRY(parameters(&args, t, f, fx_turn_parameters(tool), &p, err));
    return fx_turn_form(out, t, err, "snsns", f->before, fx_turn_literal(t, fx_turn_name(tool)), f->after_name, args, f->close);
}
