/* turn.c - see turn.h. */
#include "agent/turn.h"

#include <string.h>

typedef FX_VEC(fx_gnode) nodes;

typedef struct turn {
    fx_gram_builder *b;
    fx_re_pool *re;
    const fx_mem *mem;
    const fx_turn_spec *spec;
    fx_error *err;
    bool no_memory;
} turn;

/* ---- The request ---- */

static const json_t *function_of(const json_t *tool) { return json_object_get(tool, "function"); }

static fx_str name_of(const json_t *tool)
{
    const json_t *n = json_object_get(function_of(tool), "name");

    return fx_str_n(json_string_value(n), json_string_length(n));
}

/* The name that a choice object picks: {"type": "function", "function": {"name": ...}}. */
static const char *picked(const json_t *choice)
{
    return json_string_value(json_object_get(json_object_get(choice, "function"), "name"));
}

static const json_t *allowed_list(const json_t *choice)
{
    const json_t *a = json_object_get(choice, "allowed_tools");

    return json_object_get(a ? a : choice, "tools");
}

static const char *mode_of(const json_t *choice)
{
    const char *type = json_string_value(json_object_get(choice, "type"));
    const json_t *a = json_object_get(choice, "allowed_tools");
    const char *mode = json_string_value(json_object_get(a ? a : choice, "mode"));

    if (!choice || json_is_null(choice))
        return "auto";
    if (json_is_string(choice))
        return json_string_value(choice);
    if (type && strcmp(type, "allowed_tools") == 0)
        return mode ? mode : "auto";
    return type && strcmp(type, "function") == 0 ? "function" : "";
}

static bool is_allowed(const json_t *choice, fx_str name)
{
    const json_t *list = allowed_list(choice);
    const char *mode = mode_of(choice), *pick = picked(choice);

    if (strcmp(mode, "function") == 0)
        return pick && fx_str_is(name, pick);
    if (!json_is_array(list))
        return true;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *n = json_object_get(function_of(json_array_get(list, i)), "name");

        if (json_is_string(n) && fx_str_is(name, json_string_value(n)))
            return true;
    }
    return false;
}

static fx_status bad_tool(fx_error *err, size_t i, const char *what)
{
    char param[48];

    snprintf(param, sizeof param, "tools[%zu]", i);
    return fx_fail_param(err, FORNAX_EARG, param, "tools[%zu]%s", i, what);
}

static fx_status check_tool(const json_t *tools, size_t i, fx_error *err)
{
    const json_t *tool = json_array_get(tools, i), *f = function_of(tool), *parameters = json_object_get(f, "parameters");
    fx_str name = name_of(tool);

    if (!json_is_object(f) || json_string_length(json_object_get(tool, "type")) != 8 ||
        strcmp(json_string_value(json_object_get(tool, "type")), "function") != 0)
        return bad_tool(err, i, ": expected {\"type\": \"function\", \"function\": {...}}");
    if (name.n == 0 || name.n > 256)
        return bad_tool(err, i, ".function.name: expected a string of 1 to 256 bytes");
    if (parameters && !json_is_null(parameters) && !json_is_object(parameters))
        return bad_tool(err, i, ".function.parameters: expected a JSON Schema object");
    for (size_t k = 0; k < i; k++)
        if (fx_str_eq(name, name_of(json_array_get(tools, k))))
            return bad_tool(err, i, ".function.name: an earlier tool has the same name");
    return FORNAX_OK;
}

fx_status fx_turn_check(const json_t *tools, const json_t *choice, fx_error *err)
{
    static const char *const modes[] = { "auto", "none", "required", "function" };
    const char *mode = mode_of(choice);
    bool known = false, any = false;

    if (tools && !json_is_null(tools) && !json_is_array(tools))
        return fx_fail_param(err, FORNAX_EARG, "tools", "tools: expected a list");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        FX_TRY(check_tool(tools, i, err));
        any |= is_allowed(choice, name_of(json_array_get(tools, i)));
    }
    for (size_t i = 0; i < FX_COUNT(modes); i++)
        known |= strcmp(mode, modes[i]) == 0;
    if (!known)
        return fx_fail_param(err, FORNAX_EARG, "tool_choice", "tool_choice: expected \"auto\", \"none\", \"required\", "
                             "a function or allowed_tools");
    if (!any && (strcmp(mode, "required") == 0 || strcmp(mode, "function") == 0 || json_is_array(allowed_list(choice))))
        return fx_fail_param(err, FORNAX_EARG, "tool_choice", "tool_choice: no tool of the request is chosen by it");
    return FORNAX_OK;
}

bool fx_turn_has_calls(const json_t *tools, const json_t *tool_choice)
{
    return json_array_size(tools) > 0 && strcmp(mode_of(tool_choice), "none") != 0;
}

/* ---- Pieces ---- */

static fx_gnode literal(turn *t, fx_str s) { return s.n > 0 ? fx_gram_lexeme(t->b, fx_re_literal(t->re, s)) : FX_GNODE_EMPTY; }

static void push(turn *t, nodes *v, fx_gnode n)
{
    if (!FX_VEC_PUSH(v, t->mem, n))
        t->no_memory = true;
}

static fx_gnode seq_of(turn *t, nodes *v)
{
    fx_gnode n = fx_gram_seq(t->b, v->at, v->n);

    FX_VEC_FREE(v, t->mem);
    return n;
}

static fx_gnode alt_of(turn *t, nodes *v)
{
    fx_gnode n = fx_gram_alt(t->b, v->at, v->n);

    FX_VEC_FREE(v, t->mem);
    return n;
}

static fx_gnode pair(turn *t, fx_gnode a, fx_gnode b) { return fx_gram_seq(t->b, (fx_gnode[]){ a, b }, 2); }
static fx_gnode maybe(turn *t, fx_gnode a) { return fx_gram_alt(t->b, (fx_gnode[]){ FX_GNODE_EMPTY, a }, 2); }

/* Text that the form prescribes: control tokens where the tokenizer has them, the rest by its bytes. */
static fx_gnode spelled(turn *t, const char *text)
{
    fx_str s = fx_str_of(text ? text : "");
    nodes out = { 0 };
    fx_buf run;
    fx_ids ids;

    fx_ids_init(&ids, t->mem);
    fx_buf_init(&run, t->mem);
    if (s.n > 0 && fx_tokenizer_encode(t->spec->tokenizer, s, NULL, 0, FX_ENCODE_SPECIAL, &ids, t->err) != FORNAX_OK)
        t->no_memory = true;
    for (size_t i = 0; i < ids.n; i++) {
        if (!fx_tokenizer_special(t->spec->tokenizer, ids.at[i])) {
            fx_buf_str(&run, fx_tokenizer_bytes(t->spec->tokenizer, ids.at[i]));
            continue;
        }
        push(t, &out, literal(t, fx_buf_view(&run)));
        fx_buf_clear(&run);
        push(t, &out, fx_gram_token(t->b, ids.at[i]));
    }
    push(t, &out, literal(t, fx_buf_view(&run)));
    t->no_memory |= run.failed;
    fx_buf_done(&run);
    fx_ids_done(&ids);
    return seq_of(t, &out);
}

static fx_re blanks(turn *t)
{
    static const fx_rune_range ranges[] = { { '\n', '\n' }, { ' ', ' ' } };

    return fx_re_repeat(t->re, fx_re_runes(t->re, FX_SPELL_UTF8, ranges, 2), 0, 8);
}

static fx_re containing(turn *t, const char *tag)
{
    fx_re any = fx_re_any_text(t->re, FX_SPELL_UTF8);

    return fx_re_cat(t->re, any, fx_re_cat(t->re, fx_re_literal(t->re, fx_str_of(tag)), any));
}

/* A tag's spelling without the blanks at its ends. */
static fx_re containing_tag(turn *t, const char *tag)
{
    fx_str s = fx_str_of(tag ? tag : "");
    char z[64];

    while (s.n > 0 && s.p[s.n - 1] == '\n')
        s.n--;
    while (s.n > 0 && s.p[0] == '\n')
        s = fx_str_n(s.p + 1, s.n - 1);
    if (s.n == 0 || s.n >= sizeof z)
        return FX_RE_NONE;
    memcpy(z, s.p, s.n);
    z[s.n] = 0;
    return containing(t, z);
}

/* What every family's parser would take for a call's beginning. */
static fx_re call_beginnings(turn *t)
{
    fx_re any = fx_re_any_text(t->re, FX_SPELL_UTF8), all = FX_RE_NONE;
    const fx_codec *c;

    for (size_t i = 0; (c = fx_codec_at(i)); i++) {
        all = fx_re_alt(t->re, all, containing_tag(t, c->section_open));
        all = fx_re_alt(t->re, all, containing_tag(t, c->open));
    }
    if (t->spec->codec->open && t->spec->codec->open[0])
        return all;
    /* without tags a reply that begins as a call is one */
    any = fx_re_cat(t->re, fx_re_runes(t->re, FX_SPELL_UTF8, (fx_rune_range[]){ { '{', '{' }, { '[', '[' } }, 2), any);
    return fx_re_alt(t->re, all, fx_re_cat(t->re, blanks(t), any));
}

static fx_gnode free_text(turn *t, bool calls)
{
    if (t->spec->text != FX_GNODE_FAIL)
        return t->spec->text;
    return fx_gram_lexeme(t->b, calls ? fx_re_text_not(t->re, FX_SPELL_UTF8, call_beginnings(t))
                                      : fx_re_any_text(t->re, FX_SPELL_UTF8));
}

static fx_gnode text_without(turn *t, const char *tag)
{
    return fx_gram_lexeme(t->b, fx_re_text_not(t->re, FX_SPELL_UTF8, containing_tag(t, tag)));
}

/* ---- Arguments ---- */

static fx_status schema_node(fx_gnode *out, turn *t, const json_t *schema, size_t i, fx_error *err)
{
    const fx_schema_options o = { 0 };
    char *text = schema ? json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    fx_status st;

    if (schema && !text)
        return fx_nomem(err, "a tool's schema");
    st = fx_schema_build(out, t->b, t->mem, text ? fx_str_of(text) : FX_STR("{\"type\":\"object\"}"), &o, NULL, err);
    if (text) {
        json_malloc_t take;
        json_free_t give;

        json_get_alloc_funcs(&take, &give);
        give(text);
    }
    if (st != FORNAX_OK && st != FORNAX_ENOMEM && err) {
        char inner[sizeof err->param];

        memcpy(inner, err->param, sizeof inner);
        snprintf(err->param, sizeof err->param, "tools[%zu].function.parameters%.40s", i, inner);
    }
    return st;
}

static const json_t *parameters_of(const json_t *tool)
{
    const json_t *p = json_object_get(function_of(tool), "parameters");

    return json_is_object(p) && json_object_size(p) > 0 ? p : NULL;
}

/* The name as it stands inside a JSON string. */
static fx_gnode json_name(turn *t, fx_str name)
{
    fx_buf b;
    fx_gnode n;

    fx_buf_init(&b, t->mem);
    fx_buf_json(&b, name);
    t->no_memory |= b.failed;
    n = literal(t, fx_buf_view(&b));
    fx_buf_done(&b);
    return n;
}

static fx_status json_body(fx_gnode *out, turn *t, const json_t *tool, size_t i, fx_error *err)
{
    const fx_codec *c = t->spec->codec;
    char head[32], mid[40];
    fx_gnode args;

    FX_TRY(schema_node(&args, t, parameters_of(tool), i, err));
    snprintf(head, sizeof head, "{\"%s\": \"", c->name_key);
    snprintf(mid, sizeof mid, "\", \"%s\": ", c->args_key);
    *out = fx_gram_seq(t->b, (fx_gnode[]){ spelled(t, head), json_name(t, name_of(tool)), spelled(t, mid), args, spelled(t, "}") }, 5);
    return FORNAX_OK;
}

static fx_status named_body(fx_gnode *out, turn *t, const json_t *tool, size_t i, fx_error *err)
{
    const fx_codec *c = t->spec->codec;
    bool kimi = strcmp(c->name, "kimi") == 0;
    fx_re digit = fx_re_runes(t->re, FX_SPELL_UTF8, (fx_rune_range[]){ { '0', '9' } }, 1);
    fx_gnode args, index = FX_GNODE_EMPTY;

    FX_TRY(schema_node(&args, t, parameters_of(tool), i, err));
    if (kimi)                            /* functions.NAME:INDEX */
        index = pair(t, literal(t, FX_STR(":")), fx_gram_lexeme(t->b, fx_re_repeat(t->re, digit, 1, 3)));
    *out = fx_gram_seq(t->b, (fx_gnode[]){ spelled(t, kimi ? "functions." : c->before_name), literal(t, name_of(tool)), index,
                                           spelled(t, c->after_name), args }, 5);
    return FORNAX_OK;
}

/* ---- Arguments that aren't JSON: parameter by parameter, in the schema's order ---- */

static bool is_required(const json_t *schema, const char *key)
{
    const json_t *list = json_object_get(schema, "required");

    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_is_string(json_array_get(list, i)) && strcmp(json_string_value(json_array_get(list, i)), key) == 0)
            return true;
    return false;
}

static fx_status refuse(fx_error *err, size_t i, const char *keyword, const turn *t)
{
    char param[80];

    snprintf(param, sizeof param, "tools[%zu].function.parameters#/%.30s", i, keyword);
    return fx_fail_param(err, FORNAX_EUNSUP, param, "%s: the %s form of calls can't hold arguments to this", param, t->spec->codec->name);
}

/* A string as plain text that doesn't hold 'close'. */
static fx_status plain_string(fx_gnode *out, turn *t, const json_t *schema, const char *close, size_t i, fx_error *err)
{
    static const char *const understood[] = { "type", "enum", "const", "title", "description", "default", "examples" };
    const json_t *list = json_object_get(schema, "enum"), *one = json_object_get(schema, "const");
    fx_re re = FX_RE_NONE;
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)schema, key, v) {
        bool known = false;

        for (size_t k = 0; k < FX_COUNT(understood); k++)
            known |= strcmp(key, understood[k]) == 0;
        if (!known)
            return refuse(err, i, key, t);
    }
    if (one)
        list = one;
    for (size_t k = 0; list && k < (one ? 1 : json_array_size(list)); k++) {
        const json_t *e = one ? one : json_array_get(list, k);

        if (json_is_string(e))
            re = fx_re_alt(t->re, re, fx_re_literal(t->re, fx_str_n(json_string_value(e), json_string_length(e))));
    }
    if (!list)
        re = fx_re_any_text(t->re, FX_SPELL_UTF8);
    *out = fx_gram_lexeme(t->b, fx_re_and(t->re, re, fx_re_text_not(t->re, FX_SPELL_UTF8, containing_tag(t, close))));
    return FORNAX_OK;
}

typedef struct pair_form {
    const char *before, *after_key, *after_value, *between;
    bool plain;                          /* strings are plain text */
} pair_form;

static fx_status one_parameter(fx_gnode *out, turn *t, const pair_form *f, const char *key, const json_t *schema, size_t i, fx_error *err)
{
    const json_t *type = json_object_get(schema, "type");
    bool plain = f->plain && json_is_string(type) && strcmp(json_string_value(type), "string") == 0;
    fx_gnode value;

    if (plain)
        FX_TRY(plain_string(&value, t, schema, f->after_value, i, err));
    else
        FX_TRY(schema_node(&value, t, schema, i, err));
    *out = fx_gram_seq(t->b, (fx_gnode[]){ spelled(t, f->before), literal(t, fx_str_of(key)), spelled(t, f->after_key), value,
                                           spelled(t, f->after_value) }, 5);
    return FORNAX_OK;
}

/* Separators stand before every parameter but the first that comes, so two sequences are built from the back:
 * what may follow once one came, and what may follow while none did. */
static fx_status parameters(fx_gnode *out, turn *t, const pair_form *f, const json_t *schema, size_t i, fx_error *err)
{
    static const char *const understood[] = { "type", "properties", "required", "additionalProperties", "title", "description",
                                              "$schema" };
    const json_t *props = json_object_get(schema, "properties");
    fx_gnode later = FX_GNODE_EMPTY, first = FX_GNODE_EMPTY;
    size_t n = json_object_size(props);
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)schema, key, v) {
        bool known = false;

        for (size_t k = 0; k < FX_COUNT(understood); k++)
            known |= strcmp(key, understood[k]) == 0;
        if (!known)
            return refuse(err, i, key, t);
    }
    for (size_t k = n; k-- > 0;) {
        void *at = json_object_iter((json_t *)props);
        fx_gnode one, with_sep, then = later;

        for (size_t s = 0; s < k; s++)
            at = json_object_iter_next((json_t *)props, at);
        key = json_object_iter_key(at);
        FX_TRY(one_parameter(&one, t, f, key, json_object_iter_value(at), i, err));
        with_sep = fx_gram_seq(t->b, (fx_gnode[]){ spelled(t, f->between), one, then }, 3);
        later = is_required(schema, key) ? with_sep : fx_gram_alt(t->b, (fx_gnode[]){ with_sep, then }, 2);
        one = pair(t, one, then);
        first = is_required(schema, key) ? one : fx_gram_alt(t->b, (fx_gnode[]){ one, first }, 2);
    }
    *out = first;
    return FORNAX_OK;
}

static fx_status pairs_body(fx_gnode *out, turn *t, const json_t *tool, size_t i, fx_error *err)
{
    static const pair_form forms[] = {
        [FX_CALL_XML_PAIRS] = { "<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n", "", true },
        [FX_CALL_XML_FUNCTION] = { "<parameter=", ">\n", "\n</parameter>\n", "", true },
        [FX_CALL_PYTHON] = { "", "=", "", ", ", false },
    };
    static const char *const around[][3] = {
        [FX_CALL_XML_PAIRS] = { "", "\n", "" },
        [FX_CALL_XML_FUNCTION] = { "<function=", ">\n", "</function>" },
        [FX_CALL_PYTHON] = { "", "(", ")" },
    };
    fx_call_form form = t->spec->codec->form;
    fx_gnode args = FX_GNODE_NEVER;

    FX_TRY(parameters(&args, t, &forms[form], parameters_of(tool), i, err));
    *out = fx_gram_seq(t->b, (fx_gnode[]){ spelled(t, around[form][0]), literal(t, name_of(tool)), spelled(t, around[form][1]), args,
                                           spelled(t, around[form][2]) }, 5);
    return FORNAX_OK;
}

/* ---- Calls ---- */

static fx_status body(fx_gnode *out, turn *t, const json_t *tool, size_t i, fx_error *err)
{
    switch (t->spec->codec->form) {
    case FX_CALL_JSON:
    case FX_CALL_JSON_LIST: return json_body(out, t, tool, i, err);
    case FX_CALL_NAME_JSON: return named_body(out, t, tool, i, err);
    case FX_CALL_HARMONY: return FORNAX_OK;
    default: return pairs_body(out, t, tool, i, err);
    }
}

static fx_status harmony_body(fx_gnode *out, turn *t, const json_t *tool, size_t i, fx_error *err)
{
    fx_gnode args;

    FX_TRY(schema_node(&args, t, parameters_of(tool), i, err));
    *out = fx_gram_seq(t->b, (fx_gnode[]){ spelled(t, "<|channel|>commentary to=functions."), literal(t, name_of(tool)),
                                           spelled(t, " <|constrain|>json<|message|>"), args }, 4);
    return FORNAX_OK;
}

/* One call of any tool that is open. */
static fx_status any_call(fx_gnode *out, turn *t, fx_error *err)
{
    const json_t *tools = t->spec->tools;
    bool harmony = t->spec->codec->form == FX_CALL_HARMONY;
    nodes calls = { 0 };
    fx_status st = FORNAX_OK;

    for (size_t i = 0; st == FORNAX_OK && i < json_array_size(tools); i++) {
        const json_t *tool = json_array_get(tools, i);
        fx_gnode one = FX_GNODE_NEVER;

        if (!is_allowed(t->spec->tool_choice, name_of(tool)))
            continue;
        st = harmony ? harmony_body(&one, t, tool, i, err) : body(&one, t, tool, i, err);
        push(t, &calls, one);
    }
    *out = alt_of(t, &calls);
    return st;
}

/* All calls of a reply, with the tags around and between them. */
static fx_status all_calls(fx_gnode *out, turn *t, fx_error *err)
{
    const fx_codec *c = t->spec->codec;
    bool bracketed = c->form == FX_CALL_JSON_LIST || c->form == FX_CALL_PYTHON;
    bool several = !t->spec->single && strcmp(mode_of(t->spec->tool_choice), "function") != 0 && c->form != FX_CALL_HARMONY;
    bool inside = c->form == FX_CALL_PYTHON;     /* the tags are around the list, not around each call */
    const char *between = c->between ? c->between : inside ? ", " : "";
    fx_gnode one, list;

    FX_TRY(any_call(&one, t, err));
    if (!inside)
        one = fx_gram_seq(t->b, (fx_gnode[]){ spelled(t, c->form == FX_CALL_HARMONY ? "" : c->open), one, spelled(t, c->close) }, 3);
    list = several ? pair(t, one, fx_gram_repeat(t->b, pair(t, spelled(t, between), one), 0, FX_GRAM_INF)) : one;
    if (bracketed)
        list = fx_gram_seq(t->b, (fx_gnode[]){ spelled(t, "["), list, spelled(t, "]") }, 3);
    if (inside)
        list = fx_gram_seq(t->b, (fx_gnode[]){ spelled(t, c->open), list, spelled(t, c->close) }, 3);
    *out = fx_gram_seq(t->b, (fx_gnode[]){ spelled(t, c->section_open), list, spelled(t, c->section_close) }, 3);
    return FORNAX_OK;
}

/* ---- Replies ---- */

static fx_gnode thought(turn *t)
{
    const fx_codec *c = t->spec->codec;
    fx_gnode rest;

    if (!c->think_open)
        return FX_GNODE_EMPTY;
    rest = fx_gram_seq(t->b, (fx_gnode[]){ text_without(t, c->think_close), spelled(t, c->think_close), fx_gram_lexeme(t->b, blanks(t)) }, 3);
    if (t->spec->thinking)
        return rest;
    return t->spec->no_thoughts ? FX_GNODE_EMPTY : maybe(t, pair(t, spelled(t, c->think_open), rest));
}

static fx_gnode harmony_message(turn *t, const char *head, fx_gnode text, const char *tail)
{
    return fx_gram_seq(t->b, (fx_gnode[]){ spelled(t, head), text, spelled(t, tail) }, 3);
}

static fx_gnode harmony(turn *t, fx_gnode calls, bool must_call, bool may_call)
{
    fx_gnode any = fx_gram_lexeme(t->b, fx_re_any_text(t->re, FX_SPELL_UTF8));
    fx_gnode think = maybe(t, harmony_message(t, "<|channel|>analysis<|message|>", any, "<|end|><|start|>assistant"));
    fx_gnode final = harmony_message(t, "<|channel|>final<|message|>", t->spec->text != FX_GNODE_FAIL ? t->spec->text : any, "");

    if (!may_call)
        return pair(t, think, final);
    return pair(t, think, must_call ? calls : fx_gram_alt(t->b, (fx_gnode[]){ final, calls }, 2));
}

fx_status fx_turn_build(fx_gnode *root, fx_gram_builder *b, const fx_mem *mem, const fx_turn_spec *spec, fx_error *err)
{
    turn t = { .b = b, .re = fx_gram_regexes(b), .mem = mem, .spec = spec, .err = err };
    bool may = fx_turn_has_calls(spec->tools, spec->tool_choice);
    bool must = may && strcmp(mode_of(spec->tool_choice), "auto") != 0;
    fx_gnode calls = FX_GNODE_NEVER, rest;

    fx_gram_set_space(b, FX_SPACE_COMPACT);
    if (may)
        FX_TRY(all_calls(&calls, &t, err));
    if (spec->codec->form == FX_CALL_HARMONY) {
        *root = harmony(&t, calls, must, may);
    } else {
        rest = must ? calls : may ? pair(&t, free_text(&t, true), maybe(&t, calls)) : free_text(&t, false);
        if (may && !must && spec->codec->form != FX_CALL_JSON_LIST && (!spec->codec->open || !spec->codec->open[0]))
            rest = fx_gram_alt(b, (fx_gnode[]){ free_text(&t, true), calls }, 2);     /* untagged calls are the whole reply */
        else if (may && !must && spec->text != FX_GNODE_FAIL)
            rest = fx_gram_alt(b, (fx_gnode[]){ spec->text, calls }, 2);
        *root = pair(&t, thought(&t), rest);
    }
    return t.no_memory ? fx_nomem(err, "the request's tools") : FORNAX_OK;
}
