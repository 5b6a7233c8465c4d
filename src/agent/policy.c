/* policy.c - a policy read and checked. */
#include "agent/policy.h"

#include <string.h>

/* ---- Sentences with arguments in them ---- */

static bool of_value(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
}

/* Well made: names in braces, and behind each something that can't be part of its value. */
static bool good_pattern(const char *p)
{
    size_t n = 0;

    for (; *p; p++) {
        if (*p == '}')
            return false;
        if (*p != '{')
            continue;
        for (n = 1; p[n] && p[n] != '}' && p[n] != '{'; n++)
            ;
        if (p[n] != '}' || n == 1 || of_value(p[n + 1]) || p[n + 1] == '{')
            return false;
        p += n;
    }
    return n > 0;
}

/* False: the name stands for another text already, or no memory. */
static bool bind(json_t *bound, fx_str name, fx_str text)
{
    const json_t *before = json_object_getn(bound, name.p, name.n);

    if (before)
        return fx_str_eq(text, fx_str_n(json_string_value(before), json_string_length(before)));
    return json_object_setn_new(bound, name.p, name.n, json_stringn(text.p, text.n)) == 0;
}

bool fx_policy_matches(const char *pattern, fx_str text, json_t *bound)
{
    size_t at = 0;

    for (const char *p = pattern; *p; p++) {
        size_t from = at, n;

        if (*p != '{') {
            if (at == text.n || text.p[at++] != *p)
                return false;
            continue;
        }
        n = strcspn(p, "}");
        while (at < text.n && of_value(text.p[at]))
            at++;
        if (at == from || at - from > 128 || !bind(bound, fx_str_n(p + 1, n - 1), fx_str_n(text.p + from, at - from)))
            return false;
        p += n;
    }
    return at == text.n;
}

/* ---- Reading ---- */

static fx_status fault(fx_error *err, const char *tool, const char *rule, const char *what)
{
    char param[160];

    snprintf(param, sizeof param, "/tools/%s%s%s", tool, rule[0] ? "/" : "", rule);
    return fx_fail_param(err, FORNAX_EFORMAT, param, "policy: %s: %s", param, what);
}

/* Each says what it expected, or NULL. */
static const char *bad_open(const json_t *v)
{
    const char *s = json_string_value(v);

    return s && (strcmp(s, "always") == 0 || strcmp(s, "never") == 0) ? NULL : "expected \"always\" or \"never\"";
}

static const char *bad_name(const json_t *v) { return json_string_length(v) > 0 ? NULL : "expected a tool's name"; }

static const char *bad_count(const json_t *v)
{
    return json_is_integer(v) && json_integer_value(v) >= 0 ? NULL : "expected a whole number from 0 on";
}

static const char *bad_sentence(const json_t *v)
{
    bool ok = json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v) && good_pattern(json_string_value(v));

    return ok ? NULL : "expected a sentence with an {argument} in it, and behind that none of letters, digits, '_', '-', '{'";
}

static const char *bad_sets(const json_t *v)
{
    const char *key;
    json_t *set;

    if (!json_is_object(v))
        return "expected an object of lists";
    json_object_foreach((json_t *)v, key, set)
        if (json_array_size(set) == 0)
            return "expected a list of values for each argument";
    return NULL;
}

static const char *bad_sources(const json_t *v)
{
    const char *key, *dot;
    json_t *from;

    if (!json_is_object(v))
        return "expected an object of \"TOOL.ARGUMENT\"";
    json_object_foreach((json_t *)v, key, from) {
        dot = json_is_string(from) ? strrchr(json_string_value(from), '.') : NULL;
        if (!dot || dot == json_string_value(from) || !dot[1])
            return "expected \"TOOL.ARGUMENT\" for each argument";
    }
    return NULL;
}

static fx_status check_rule(const char *tool, const char *name, const json_t *v, fx_error *err)
{
    static const struct {
        const char *name;
        const char *(*bad)(const json_t *v);
    } rules[] = {
        { "open", bad_open }, { "after_call", bad_name }, { "at_most", bad_count }, { "arguments", bad_sets },
        { "same_as", bad_sources }, { "confirmed", bad_sentence },
    };

    for (size_t i = 0; i < FX_COUNT(rules); i++) {
        const char *what = strcmp(name, rules[i].name) == 0 ? rules[i].bad(v) : NULL;

        if (what)
            return fault(err, tool, name, what);
        if (strcmp(name, rules[i].name) == 0)
            return FORNAX_OK;
    }
    return fault(err, tool, name, "there is no such rule");
}

static fx_status check_tools(const json_t *tools, fx_error *err)
{
    const char *tool, *rule;
    json_t *rules, *v;

    if (!json_is_object(tools))
        return fx_fail_param(err, FORNAX_EFORMAT, "/tools", "policy: /tools: expected an object of tools");
    json_object_foreach((json_t *)tools, tool, rules) {
        if (!json_is_object(rules) || json_object_size(rules) == 0)
            return fault(err, tool, "", "expected an object of rules");
        json_object_foreach(rules, rule, v)
            FX_TRY(check_rule(tool, rule, v, err));
    }
    return FORNAX_OK;
}

static fx_status check(const json_t *rules, fx_error *err)
{
    const char *key;
    json_t *v;

    if (!json_is_object(rules))
        return fx_fail(err, FORNAX_EFORMAT, "policy: expected an object");
    json_object_foreach((json_t *)rules, key, v) {
        if (strcmp(key, "default") != 0 && strcmp(key, "tools") != 0)
            return fx_fail_param(err, FORNAX_EFORMAT, key, "policy: there is no field '%.60s'", key);
        if (strcmp(key, "default") == 0 && bad_open(v))
            return fx_fail_param(err, FORNAX_EFORMAT, "/default", "policy: /default: %s", bad_open(v));
    }
    return check_tools(json_object_get(rules, "tools"), err);
}

fx_status fx_policy_new(fx_policy **out, const fx_mem *mem, fx_str json, fx_error *err)
{
    json_error_t je;
    fx_policy *p = fx_mem_zalloc(mem, sizeof *p);
    fx_status st;

    *out = NULL;
    if (!p)
        return fx_nomem(err, "a policy");
    p->mem = mem;
    p->rules = json_loadb(json.p, json.n, JSON_REJECT_DUPLICATES, &je);
    st = p->rules ? check(p->rules, err) : fx_fail(err, FORNAX_EFORMAT, "policy: line %d, column %d: %s", je.line, je.column, je.text);
    if (st != FORNAX_OK) {
        fx_policy_free(p);
        return st;
    }
    *out = p;
    return FORNAX_OK;
}

void fx_policy_free(fx_policy *p)
{
    if (!p)
        return;
    json_decref(p->rules);
    fx_mem_free(p->mem, p, sizeof *p);
}
