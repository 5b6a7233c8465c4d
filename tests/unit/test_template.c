/* test_template.c - chat templates against what Jinja2 makes of them.
 *
 * tests/cases/template/models.json holds conversations and what the reference
 * renders for the templates in tests/data/templates; snippets.json holds small
 * templates for each filter, test, method, whitespace rule and error, with the
 * reference's output (written by tools/make_template_cases.py). */
#include "fxtest.h"

#include "base/file.h"
#include "text/template.h"

#define NOW 1796040000          /* 2026-11-30 12:00:00 UTC */

static json_t *load(const char *path)
{
    json_error_t e;
    json_t *j = json_load_file(path, 0, &e);

    if (!j)
        FXTEST_FAIL("%s:%d: %s", path, e.line, e.text);
    return j;
}

static const char *str_of(const json_t *obj, const char *key)
{
    return json_string_value(json_object_get(obj, key));
}

typedef struct outcome {
    fx_status st;
    fx_error err;
    fx_rendered r;
} outcome;

static outcome render(fx_str source, const json_t *vars, const json_t *trusted)
{
    outcome o = { 0 };
    fx_render_options opt = { .vars = vars, .trusted = trusted, .now = NOW };
    fx_template *t;

    o.st = fx_template_parse(&t, &fx_mem_libc, "chat_template", source, &o.err);
    if (o.st == FORNAX_OK)
        o.st = fx_template_render(t, &opt, &o.r, &o.err);
    fx_template_free(t);
    return o;
}

static void done(outcome *o)
{
    if (o->st == FORNAX_OK)
        fx_rendered_done(&o->r, &fx_mem_libc);
}

/* 'error' is "Type: message"; the message is compared if 'exact'. */
static void check_outcome(const char *what, const outcome *o, const json_t *c, bool exact)
{
    const char *want = str_of(c, "expect"), *error = str_of(c, "error");

    if (want && o->st != FORNAX_OK)
        FXTEST_FAIL("%s: %s", what, o->err.text);
    else if (want && (o->r.text.n != strlen(want) || memcmp(o->r.text.p ? o->r.text.p : "", want, o->r.text.n) != 0))
        FXTEST_FAIL("%s: got \"%s\", expected \"%s\"", what, o->r.text.p ? o->r.text.p : "", want);
    else if (!want && o->st != FORNAX_EFORMAT)
        FXTEST_FAIL("%s: status %d, expected the error %s", what, o->st, error);
    else if (error && exact && !strstr(o->err.text, strchr(error, ':') + 2))
        FXTEST_FAIL("%s: %s; expected %s", what, o->err.text, error);
}

/* Spans ascend, don't touch, and lie in the text. */
static void check_spans(const char *what, const fx_rendered *r)
{
    size_t end = 0;

    for (size_t i = 0; i < r->data.n; i++) {
        fx_span s = r->data.at[i];

        if (s.begin >= s.end || s.end > r->text.n || (i && s.begin <= end))
            FXTEST_FAIL("%s: span %zu is [%zu,%zu)", what, i, s.begin, s.end);
        end = s.end;
    }
}

static json_t *variables(const json_t *conversation, const json_t *c)
{
    json_t *vars = json_pack("{s:O, s:O*, s:n, s:O}", "messages", json_object_get(conversation, "messages"), "tools",
                             json_object_get(conversation, "tools"), "documents", "add_generation_prompt",
                             json_object_get(c, "add_generation_prompt"));

    if (!json_object_get(vars, "tools"))
        json_object_set_new(vars, "tools", json_null());
    if (json_object_get(c, "kwargs"))
        json_object_update(vars, json_object_get(c, "kwargs"));
    return vars;
}

static void check_model(const json_t *model, const json_t *conversations)
{
    fx_buf source;
    json_t *c;
    size_t i;
    char path[512];

    snprintf(path, sizeof path, "%s/templates/%s", FXTEST_DATA, str_of(model, "file"));
    fx_buf_init(&source, &fx_mem_libc);
    REQUIRE(fx_file_read(&source, path, 1 << 20, NULL) == FORNAX_OK);
    json_array_foreach(json_object_get(model, "cases"), i, c) {
        json_t *vars = variables(json_object_get(conversations, str_of(c, "conversation")), c);
        outcome o = render(fx_buf_view(&source), vars, json_object_get(model, "special_tokens"));
        char what[256];

        snprintf(what, sizeof what, "%s, %s", str_of(model, "file"), str_of(c, "conversation"));
        check_outcome(what, &o, c, true);
        if (o.st == FORNAX_OK)
            check_spans(what, &o.r);
        done(&o);
        json_decref(vars);
    }
    fx_buf_done(&source);
}

TEST(templates_of_models)
{
    json_t *all = load(FXTEST_SOURCE "/tests/cases/template/models.json"), *model;
    size_t i;

    REQUIRE(all);
    json_array_foreach(json_object_get(all, "templates"), i, model)
        check_model(model, json_object_get(all, "conversations"));
    json_decref(all);
}

FXTEST_MAIN()
