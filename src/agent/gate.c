/* gate.c - a policy judged from the transcript: what is open, what is bound, and why. */
#include <string.h>

#include "agent/policy.h"
#include "agent/turn_int.h"

/* One tool being judged. */
typedef struct gate {
    const fx_policy *policy;
    const json_t *messages, *tool;
    size_t last_user;                /* the latest user message; the number of messages: there is none */
    json_t *sets;                    /* values left for each bound argument */
    bool once;                       /* it may be called only once more */
    bool no_memory;
    const char *why;                 /* it's closed */
} gate;

/* ---- The transcript ---- */

static fx_str text_of(const json_t *v) { return fx_str_n(json_string_value(v), json_string_length(v)); }
static bool has_role(const json_t *m, const char *role) { return fx_str_is(text_of(json_object_get(m, "role")), role); }

/* What the user said: a string, or one part of text. Nothing else counts. */
static fx_str said(const json_t *message)
{
    const json_t *content = json_object_get(message, "content"), *part = json_array_get(content, 0);

    if (json_array_size(content) == 1 && fx_str_is(text_of(json_object_get(part, "type")), "text"))
        content = json_object_get(part, "text");
    return text_of(content);
}

/* A tool's answer that isn't {"error": ...}. */
static bool went_well(const json_t *answer)
{
    fx_str text = said(answer);
    json_t *v = text.p ? json_loadb(text.p, text.n, 0, NULL) : NULL;
    bool ok = text.p && !json_object_get(v, "error");

    json_decref(v);
    return ok;
}

/* Whether call number k of message i was answered, before anybody else spoke. */
static bool answered(const json_t *messages, size_t i, const json_t *call)
{
    const json_t *id = json_object_get(call, "id");

    for (size_t k = i + 1; json_is_string(id) && k < json_array_size(messages) && has_role(json_array_get(messages, k), "tool"); k++) {
        const json_t *m = json_array_get(messages, k);

        if (json_equal(id, json_object_get(m, "tool_call_id")))
            return went_well(m);
    }
    return false;
}

typedef struct found {
    size_t n;                        /* calls of the tool */
    const json_t *latest;            /* the last one that was answered well, or NULL */
} found;

/* Calls of a tool from message 'from' on. */
static found calls_of(const json_t *messages, size_t from, fx_str name)
{
    found f = { 0, NULL };

    for (size_t i = from; i < json_array_size(messages); i++) {
        const json_t *m = json_array_get(messages, i), *calls = json_object_get(m, "tool_calls");

        for (size_t k = 0; has_role(m, "assistant") && k < json_array_size(calls); k++) {
            const json_t *call = json_array_get(calls, k);

            if (!fx_str_eq(fx_turn_name(call), name))
                continue;
            f.n++;
            f.latest = answered(messages, i, call) ? call : f.latest;
        }
    }
    return f;
}

/* An argument of a call, whose arguments are an object or its JSON text; new reference or NULL. */
static json_t *argument(const json_t *call, const char *key)
{
    json_t *args = json_incref(json_object_get(json_object_get(call, "function"), "arguments")), *value;

    if (json_is_string(args)) {
        value = json_loadb(json_string_value(args), json_string_length(args), JSON_ALLOW_NUL, NULL);
        json_decref(args);
        args = value;
    }
    value = json_incref(json_object_get(args, key));
    json_decref(args);
    return value;
}

/* ---- Bound arguments ---- */

static bool stands_for(const json_t *value, const json_t *wanted, bool as_text)
{
    char number[32];

    if (!as_text || !json_is_integer(value))
        return json_equal(value, wanted);
    snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    return fx_str_is(text_of(wanted), number);
}

static bool wants_integer(const gate *g, const char *key)
{
    const json_t *props = json_object_get(fx_turn_parameters(g->tool), "properties");

    return fx_str_is(text_of(json_object_get(json_object_get(props, key), "type")), "integer");
}

/* The only value that text can mean where no rule has listed any; new reference, NULL: none. */
static json_t *meant(const gate *g, const char *key, const json_t *text)
{
    json_t *v;

    if (!wants_integer(g, key))
        return json_copy((json_t *)text);
    v = json_loadb(json_string_value(text), json_string_length(text), JSON_DECODE_ANY, NULL);
    if (json_is_integer(v) && stands_for(v, text, true))
        return v;
    json_decref(v);
    return NULL;
}

/* Of an argument's values those in 'allowed' are left. as_text: allowed are texts, which may mean numbers. */
static void narrow(gate *g, const char *key, const json_t *allowed, bool as_text)
{
    const json_t *before = json_object_get(g->sets, key);
    json_t *left = json_array();

    for (size_t i = 0; i < json_array_size(allowed); i++) {
        const json_t *a = json_array_get(allowed, i);

        if (!before)
            json_array_append_new(left, as_text ? meant(g, key, a) : json_incref((json_t *)a));
        for (size_t k = 0; k < json_array_size(before); k++)
            if (stands_for(json_array_get(before, k), a, as_text))
                json_array_append(left, json_array_get(before, k));
    }
    if (json_array_size(left) == 0)
        g->why = "its rules leave no value for an argument";
    g->no_memory |= json_object_set_new(g->sets, key, left) != 0;
}

static void narrow_to_one(gate *g, const char *key, const json_t *value, bool as_text)
{
    json_t *one = json_pack("[O]", value);

    g->no_memory |= !one;
    narrow(g, key, one, as_text);
    json_decref(one);
}

/* ---- Rules ---- */

static void judge_open(gate *g, const json_t *rule)
{
    if (fx_str_is(text_of(rule), "never"))
        g->why = "it's never open";
}

static void judge_at_most(gate *g, const json_t *rule)
{
    json_int_t left = json_integer_value(rule) - (json_int_t)calls_of(g->messages, 0, fx_turn_name(g->tool)).n;

    if (left <= 0)
        g->why = "it was called as often as it may be";
    g->once = true;                  /* whatever is left: the rest is for later turns */
}

static void judge_after_call(gate *g, const json_t *rule)
{
    if (!calls_of(g->messages, 0, text_of(rule)).latest)
        g->why = "the tool that comes before it wasn't called with success";
}

static void judge_arguments(gate *g, const json_t *rule)
{
    const char *key;
    json_t *set;

    json_object_foreach((json_t *)rule, key, set)
        narrow(g, key, set, false);
}

static void judge_same_as(gate *g, const json_t *rule)
{
    const char *key;
    json_t *from;

    json_object_foreach((json_t *)rule, key, from) {
        const char *z = json_string_value(from), *dot = strrchr(z, '.');
        const json_t *call = calls_of(g->messages, 0, fx_str_n(z, (size_t)(dot - z))).latest;
        json_t *value = call ? argument(call, dot + 1) : NULL;

        if (value)
            narrow_to_one(g, key, value, false);
        else
            g->why = "no call yet has the value of an argument";
        json_decref(value);
    }
}

/* The latest user message is the sentence, all of it, and no call was made on it yet. */
static void judge_confirmed(gate *g, const json_t *rule)
{
    const json_t *message = json_array_get(g->messages, g->last_user);
    json_t *texts = json_object(), *text;
    const char *key;

    g->once = true;
    g->no_memory |= !texts;
    if (!message || !said(message).p || !fx_policy_matches(json_string_value(rule), said(message), texts))
        g->why = "the user's latest message isn't the sentence that confirms it";
    else if (calls_of(g->messages, g->last_user, fx_turn_name(g->tool)).n > 0)
        g->why = "the confirmation was used";
    else
        json_object_foreach(texts, key, text)
            narrow_to_one(g, key, text, true);
    json_decref(texts);
}

static void judge_rules(gate *g, const json_t *rules)
{
    static const struct {
        const char *name;
        void (*judge)(gate *g, const json_t *rule);
    } all[] = {                      /* those that list values come before those that pick one */
        { "open", judge_open }, { "at_most", judge_at_most }, { "after_call", judge_after_call }, { "arguments", judge_arguments },
        { "same_as", judge_same_as }, { "confirmed", judge_confirmed },
    };

    for (size_t i = 0; i < FX_COUNT(all) && !g->why; i++) {
        const json_t *rule = json_object_get(rules, all[i].name);

        if (rule)
            all[i].judge(g, rule);
    }
}

/* ---- The tool with its schema narrowed ---- */

/* One bound argument: its own type and description, and the values. */
static json_t *bound_property(const json_t *before, json_t *set)
{
    json_t *p = json_object(), *type = json_object_get(before, "type");
    bool strings = true;

    for (size_t i = 0; i < json_array_size(set); i++)
        strings &= json_is_string(json_array_get(set, i));
    if (strings && fx_str_is(text_of(type), "string"))
        json_object_set(p, "type", type);
    if (json_array_size(set) == 1)
        json_object_set(p, "const", json_array_get(set, 0));
    else
        json_object_set(p, "enum", set);
    return p;
}

static void require(json_t *schema, const char *key)
{
    json_t *list = json_object_get(schema, "required");

    if (!json_is_array(list)) {
        json_object_set_new(schema, "required", json_array());
        list = json_object_get(schema, "required");
    }
    for (size_t i = 0; i < json_array_size(list); i++)
        if (fx_str_is(text_of(json_array_get(list, i)), key))
            return;
    json_array_append_new(list, json_string(key));
}

/* A copy of the tool; NULL with g->why where its schema can't be narrowed. */
static json_t *narrowed(gate *g)
{
    json_t *tool = json_deep_copy(g->tool), *function = json_object_get(tool, "function");
    json_t *schema = json_object_get(function, "parameters"), *props, *set;
    const char *key;

    g->no_memory |= !tool;
    if (json_object_size(g->sets) == 0)
        return tool;
    if (!json_is_object(schema)) {
        json_object_set_new(function, "parameters", json_pack("{s:s}", "type", "object"));
        schema = json_object_get(function, "parameters");
    }
    if (!json_object_get(schema, "properties"))
        json_object_set_new(schema, "properties", json_object());
    props = json_object_get(schema, "properties");
    if (json_object_get(schema, "$ref") || json_object_get(schema, "$dynamicRef") || !json_is_object(props)) {
        g->why = "its schema is a reference, so its arguments can't be bound";
        json_decref(tool);
        return NULL;
    }
    json_object_del(schema, "$schema");          /* of a draft where other keywords may hide what is bound */
    json_object_set_new(schema, "type", json_string("object"));
    json_object_foreach(g->sets, key, set) {
        g->no_memory |= json_object_set_new(props, key, bound_property(json_object_get(props, key), set)) != 0;
        require(schema, key);
    }
    return tool;
}

/* ---- All tools ---- */

static const json_t *rules_of(const fx_policy *p, fx_str name)
{
    return json_object_getn(json_object_get(p->rules, "tools"), name.p, name.n);
}

static bool judge_tool(fx_gates *out, gate *g)
{
    fx_str name = fx_turn_name(g->tool);
    const json_t *rules = rules_of(g->policy, name);
    json_t *tool = NULL, *row;

    g->sets = json_object();
    g->no_memory = !g->sets;
    if (rules)
        judge_rules(g, rules);
    else if (!fx_str_is(text_of(json_object_get(g->policy->rules, "default")), "always"))
        g->why = "the policy doesn't name it";
    if (!g->why)
        tool = narrowed(g);
    row = json_pack("{s:s%}", "name", name.p, name.n);
    if (tool && !g->no_memory) {
        g->no_memory |= json_object_set(row, "arguments", g->sets) != 0 || json_array_append(out->tools, tool) != 0;
        out->single |= g->once;
    } else {
        json_object_set_new(row, "why", json_string(g->why ? g->why : "no memory"));
    }
    g->no_memory |= json_array_append_new(json_object_get(out->report, tool ? "open" : "closed"), row) != 0;
    json_decref(tool);
    json_decref(g->sets);
    return !g->no_memory;
}

fx_status fx_policy_judge(fx_gates *out, const fx_policy *p, const json_t *tools, const json_t *messages, fx_error *err)
{
    size_t last = json_array_size(messages);
    bool ok = true;

    *out = (fx_gates){ json_array(), json_pack("{s:[],s:[]}", "open", "closed"), false };
    if (messages && !json_is_array(messages))
        return fx_fail_param(err, FORNAX_EARG, "messages", "messages: expected a list");
    for (size_t i = 0; i < json_array_size(messages); i++)
        last = has_role(json_array_get(messages, i), "user") ? i : last;
    for (size_t i = 0; ok && i < json_array_size(tools); i++) {
        gate g = { .policy = p, .messages = messages, .tool = json_array_get(tools, i), .last_user = last };

        ok = judge_tool(out, &g);
    }
    return ok && out->tools && out->report ? FORNAX_OK : fx_nomem(err, "the policy's judgement");
}

void fx_gates_done(fx_gates *g)
{
    json_decref(g->tools);
    json_decref(g->report);
    *g = (fx_gates){ 0 };
}
