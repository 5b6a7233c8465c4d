/* turn_calls.c - the calls of a reply, in the family's own form. */
#include <string.h>

#include "agent/turn_int.h"

/* ---- Arguments that are one JSON object ---- */

/* A schema's fault is the request's: where it lies in the list of tools. */
static void blame_tool(fx_error *err, size_t tool, const char *where)
{
    char inner[sizeof err->param];

    if (!err)
        return;
    memcpy(inner, err->param, sizeof inner);
    snprintf(err->param, sizeof err->param, "tools[%zu].function.parameters%s%.*s", tool, where, (int)(sizeof inner - strlen(where) - 48),
             inner[0] == '#' && where[0] ? inner + 1 : inner);
}

static int append(const char *p, size_t n, void *user)
{
    fx_buf_add(user, p, n);
    return 0;
}

void fx_put_json(fx_buf *out, const json_t *v)
{
    if (json_dump_callback(v, append, out, JSON_COMPACT | JSON_ENCODE_ANY) != 0)
        out->failed = true;
}

fx_status fx_turn_schema(fx_gnode *out, fx_turn *t, const json_t *schema, size_t tool, const char *where, fx_error *err)
{
    const fx_schema_options o = { 0 };
    fx_buf text;
    fx_status st;

    fx_buf_init(&text, t->mem);
    if (schema)
        fx_put_json(&text, schema);
    else
        fx_buf_puts(&text, "{\"type\":\"object\"}");
    st = text.failed ? fx_nomem(err, "a tool's schema") : fx_schema_build(out, t->b, t->mem, fx_buf_view(&text), &o, NULL, err);
    fx_buf_done(&text);
    if (st != FORNAX_OK && st != FORNAX_ENOMEM)
        blame_tool(err, tool, where);
    return st;
}

/* The name as it stands inside a JSON string. */
static fx_status json_name(fx_gnode *out, fx_turn *t, fx_str name, fx_error *err)
{
    fx_buf b;
    bool ok;

    fx_buf_init(&b, t->mem);
    fx_buf_json(&b, name);
    ok = !b.failed;
    *out = fx_turn_literal(t, fx_buf_view(&b));
    fx_buf_done(&b);
    return ok ? FORNAX_OK : fx_nomem(err, "a tool's name");
}

static fx_status json_call(fx_gnode *out, fx_turn *t, const json_t *tool, size_t i, fx_error *err)
{
    const fx_codec *c = t->spec->codec;
    fx_gnode name, args;

    FX_TRY(json_name(&name, t, fx_turn_name(tool), err));
    FX_TRY(fx_turn_schema(&args, t, fx_turn_parameters(tool), i, "", err));
    return fx_turn_form(out, t, err, "sssnsssns", "{\"", c->name_key, "\": \"", name, "\", \"", c->args_key, "\": ", args, "}");
}

/* A number behind the name, where the family counts its calls there. */
static fx_gnode call_index(fx_turn *t)
{
    fx_re digit = fx_re_runes(t->re, FX_SPELL_UTF8, (fx_rune_range[]){ { '0', '9' } }, 1);

    return t->spec->codec->indexed ? fx_turn_pair(t, fx_turn_literal(t, FX_STR(":")), fx_gram_lexeme(t->b, fx_re_repeat(t->re, digit, 1, 3)))
                                   : FX_GNODE_EMPTY;
}

static fx_status named_call(fx_gnode *out, fx_turn *t, const json_t *tool, size_t i, fx_error *err)
{
    const fx_codec *c = t->spec->codec;
    fx_gnode args;

    FX_TRY(fx_turn_schema(&args, t, fx_turn_parameters(tool), i, "", err));
    return fx_turn_form(out, t, err, "snnsn", c->before_name, fx_turn_literal(t, fx_turn_name(tool)), call_index(t), c->after_name, args);
}

/* ---- One call, all calls ---- */

static fx_status one_call(fx_gnode *out, fx_turn *t, const json_t *tool, size_t i, fx_error *err)
{
    static fx_status (*const forms[])(fx_gnode *, fx_turn *, const json_t *, size_t, fx_error *) = {
        [FX_CALL_JSON] = json_call, [FX_CALL_JSON_LIST] = json_call, [FX_CALL_NAME_JSON] = named_call, [FX_CALL_HARMONY] = named_call,
        [FX_CALL_XML_PAIRS] = fx_turn_pairs, [FX_CALL_XML_FUNCTION] = fx_turn_pairs, [FX_CALL_XML_INVOKE] = fx_turn_pairs,
        [FX_CALL_PYTHON] = fx_turn_pairs,
    };

    return forms[t->spec->codec->form](out, t, tool, i, err);
}

/* One call of any tool that is open. */
static fx_status any_call(fx_gnode *out, fx_turn *t, fx_error *err)
{
    const json_t *tools = t->spec->tools;
    fx_turn_nodes calls = { 0 };
    fx_status st = FORNAX_OK;

    for (size_t i = 0; st == FORNAX_OK && i < json_array_size(tools); i++) {
        const json_t *tool = json_array_get(tools, i);
        fx_gnode one;

        if (!fx_turn_allows(t->spec->tool_choice, fx_turn_name(tool)))
            continue;
        st = one_call(&one, t, tool, i, err);
        if (st == FORNAX_OK && !FX_VEC_PUSH(&calls, t->mem, one))
            st = fx_nomem(err, "the request's tools");
    }
    if (st == FORNAX_OK)
        *out = fx_gram_alt(t->b, calls.at, calls.n);
    FX_VEC_FREE(&calls, t->mem);
    return st;
}

/* One or, where they may be, several calls with what stands between them. */
static fx_status list_calls(fx_gnode *out, fx_turn *t, fx_gnode one, const char *between, fx_error *err)
{
    const fx_codec *c = t->spec->codec;
    bool single = t->spec->single || strcmp(fx_turn_mode(t->spec->tool_choice), "function") == 0 || c->form == FX_CALL_HARMONY;
    fx_gnode more;

    *out = one;
    if (single)
        return FORNAX_OK;
    FX_TRY(fx_turn_form(&more, t, err, "sn", between, one));
    *out = fx_turn_pair(t, one, fx_gram_repeat(t->b, more, 0, FX_GRAM_INF));
    return FORNAX_OK;
}

fx_status fx_turn_calls(fx_gnode *out, fx_turn *t, fx_error *err)
{
    const fx_codec *c = t->spec->codec;
    fx_gnode one;

    FX_TRY(any_call(&one, t, err));
    if (c->form == FX_CALL_PYTHON) {             /* the tags are around the list, not around each call */
        FX_TRY(list_calls(&one, t, one, ", ", err));
        return fx_turn_form(out, t, err, "ssnss", c->open, "[", one, "]", c->close);
    }
    if (c->form != FX_CALL_HARMONY)
        FX_TRY(fx_turn_form(&one, t, err, "sns", c->open, one, c->close));
    FX_TRY(list_calls(&one, t, one, c->between, err));
    if (c->form == FX_CALL_JSON_LIST)
        FX_TRY(fx_turn_form(&one, t, err, "sns", "[", one, "]"));
    return fx_turn_form(out, t, err, "sns", c->section_open, one, c->section_close);
}
