/* messages.c - reads the messages of a chat request; see messages.h. */
#include "server/messages.h"

#include "base/str.h"

static fx_status fault(fx_error *err, size_t i, const char *what)
{
    char param[64];

    snprintf(param, sizeof param, "messages[%zu]", i);
    return fx_fail_param(err, FORNAX_EARG, param, "messages[%zu]%s", i, what);
}

static bool has_role(const json_t *message, const char *role)
{
    const char *found = json_string_value(json_object_get(message, "role"));

    return found && strcmp(found, role) == 0;
}

/* Content given as parts becomes one string, text parts a line each. */
static fx_status join_parts(json_t *message, size_t i, const json_t *parts, fx_error *err)
{
    fx_buf b;
    fx_status st = FORNAX_OK;

    fx_buf_init(&b, &fx_mem_libc);
    for (size_t p = 0; st == FORNAX_OK && p < json_array_size(parts); p++) {
        const json_t *part = json_array_get(parts, p), *type = json_object_get(part, "type");
        const json_t *text = json_object_get(part, "text");

        if (!json_is_string(type) || strcmp(json_string_value(type), "text") != 0 || !json_is_string(text)) {
            st = fault(err, i, ".content: only parts of type \"text\" with a string \"text\" are supported");
        } else {
            fx_buf_puts(&b, p ? "\n" : "");
            fx_buf_add(&b, json_string_value(text), json_string_length(text));
        }
    }
    if (st == FORNAX_OK && (b.failed || json_object_set_new(message, "content", json_stringn(fx_buf_view(&b).p, b.n)) != 0))
        st = fx_nomem(err, "a message");
    fx_buf_done(&b);
    return st;
}

static fx_status check_calls(const json_t *calls, size_t i, fx_error *err)
{
    for (size_t k = 0; k < json_array_size(calls); k++) {
        const json_t *function = json_object_get(json_array_get(calls, k), "function");

        if (!json_is_object(function) || !json_is_string(json_object_get(function, "name")))
            return fault(err, i, ".tool_calls: expected objects with a function that has a name");
    }
    return FORNAX_OK;
}

/* Only an assistant says nothing: it may have called tools instead, or ended its turn at once. */
static fx_status read_content(json_t *m, size_t i, fx_error *err)
{
    json_t *content = json_object_get(m, "content");
    bool nothing = !content || json_is_null(content);

    if (json_is_array(content))
        return join_parts(m, i, content, err);
    if (nothing ? !has_role(m, "assistant") : !json_is_string(content))
        return fault(err, i, ".content: expected a string or a list of text parts");
    if (nothing && json_object_set_new(m, "content", json_string("")) != 0)
        return fx_nomem(err, "a message");
    return FORNAX_OK;
}

static fx_status read_message(json_t *m, size_t i, bool keep_developer, fx_error *err)
{
    static const char *const roles[] = { "system", "developer", "user", "assistant", "tool", "function" };
    json_t *calls = json_object_get(m, "tool_calls");
    bool known = false;

    if (!json_is_object(m) || !json_is_string(json_object_get(m, "role")))
        return fault(err, i, ": expected an object with a role");
    for (size_t r = 0; r < FX_COUNT(roles); r++)
        known |= has_role(m, roles[r]);
    if (!known)
        return fault(err, i, ".role: expected system, developer, user, assistant, tool or function");
    if (has_role(m, "developer") && !keep_developer && json_object_set_new(m, "role", json_string("system")) != 0)
        return fx_nomem(err, "a message");
    FX_TRY(read_content(m, i, err));
    if (!calls || json_is_null(calls))
        return FORNAX_OK;
    return json_is_array(calls) ? check_calls(calls, i, err) : fault(err, i, ".tool_calls: expected a list");
}

fx_status fx_messages_read(json_t *messages, bool keep_developer, fx_error *err)
{
    if (!json_is_array(messages) || json_array_size(messages) == 0)
        return fx_fail_param(err, FORNAX_EARG, "messages", "messages: expected a list with at least one message");
    for (size_t i = 0; i < json_array_size(messages); i++)
        FX_TRY(read_message(json_array_get(messages, i), i, keep_developer, err));
    return FORNAX_OK;
}

/* ---- Lists of messages ---- */

/* The second system message's text behind the first one's. */
static bool merge_two(json_t *first, const json_t *second)
{
    const json_t *a = json_object_get(first, "content"), *b = json_object_get(second, "content");
    bool ok;
    fx_buf both;

    fx_buf_init(&both, &fx_mem_libc);
    fx_buf_add(&both, json_string_value(a), json_string_length(a));
    fx_buf_puts(&both, "\n\n");
    fx_buf_add(&both, json_string_value(b), json_string_length(b));
    ok = !both.failed && json_object_set_new(first, "content", json_stringn(both.p, both.n)) == 0;
    fx_buf_done(&both);
    return ok;
}

bool fx_messages_merge_system(json_t *messages)
{
    json_t *first = json_array_get(messages, 0);
    bool merged = false;

    while (has_role(first, "system") && has_role(json_array_get(messages, 1), "system")) {
        if (!merge_two(first, json_array_get(messages, 1)))
            return false;
        json_array_remove(messages, 1);
        merged = true;
    }
    return merged;
}

size_t fx_messages_turns(const json_t *messages)
{
    size_t n = 0;

    for (size_t i = 0; i < json_array_size(messages); i++)
        n += has_role(json_array_get(messages, i), "user");
    return n;
}

json_t *fx_messages_without(const json_t *messages, size_t n)
{
    json_t *rest = json_array();
    size_t turn = 0;

    for (size_t i = 0; rest && i < json_array_size(messages); i++) {
        json_t *m = json_array_get(messages, i);

        turn += has_role(m, "user");
        if ((turn == 0 || turn > n) && json_array_append(rest, m) != 0) {
            json_decref(rest);
            rest = NULL;
        }
    }
    return rest;
}
