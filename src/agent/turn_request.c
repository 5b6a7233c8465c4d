/* turn_request.c - a request's tools and its choice among them. */
#include <string.h>

#include "agent/turn_int.h"

fx_str fx_turn_name(const json_t *tool)
{
    const json_t *n = json_object_get(json_object_get(tool, "function"), "name");

    return fx_str_n(json_string_value(n), json_string_length(n));
}

const json_t *fx_turn_parameters(const json_t *tool)
{
    const json_t *p = json_object_get(json_object_get(tool, "function"), "parameters");

    return json_is_object(p) && json_object_size(p) > 0 ? p : NULL;
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

const char *fx_turn_mode(const json_t *choice)
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

bool fx_turn_allows(const json_t *choice, fx_str name)
{
    const json_t *list = allowed_list(choice);
    const char *mode = fx_turn_mode(choice), *pick = picked(choice);

    if (strcmp(mode, "function") == 0)
        return pick && fx_str_is(name, pick);
    if (!json_is_array(list))
        return true;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *n = json_object_get(json_object_get(json_array_get(list, i), "function"), "name");

        if (json_is_string(n) && fx_str_is(name, json_string_value(n)))
            return true;
    }
    return false;
}

/* Letters, digits, '_', '-', '.', '/' and what isn't ASCII: nothing that any family's form could take for its own marks. */
static bool plain_name(fx_str name)
{
    for (size_t i = 0; i < name.n; i++) {
        unsigned char c = (unsigned char)name.p[i];

        if (c < 0x80 && !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && (!c || !strchr("_-./", c)))
            return false;
    }
    return name.n > 0 && name.n <= 256;
}

static fx_status bad_tool(fx_error *err, size_t i, const char *field, const char *what)
{
    char param[64];

    snprintf(param, sizeof param, "tools[%zu]%s", i, field);
    return fx_fail_param(err, FORNAX_EARG, param, "%s: %s", param, what);
}

static fx_status check_tool(const json_t *tools, size_t i, fx_error *err)
{
    const json_t *tool = json_array_get(tools, i), *type = json_object_get(tool, "type");
    const json_t *f = json_object_get(tool, "function"), *parameters = json_object_get(f, "parameters");
    fx_str name = fx_turn_name(tool);

    if (!json_is_object(f) || !fx_str_is(fx_str_n(json_string_value(type), json_string_length(type)), "function"))
        return bad_tool(err, i, "", "expected {\"type\": \"function\", \"function\": {...}}");
    if (!plain_name(name))
        return bad_tool(err, i, ".function.name", "expected 1 to 256 letters, digits, '_', '-', '.' or '/'");
    if (parameters && !json_is_null(parameters) && !json_is_object(parameters))
        return bad_tool(err, i, ".function.parameters", "expected a JSON Schema object");
    for (size_t k = 0; k < i; k++)
        if (fx_str_eq(name, fx_turn_name(json_array_get(tools, k))))
            return bad_tool(err, i, ".function.name", "an earlier tool has the same name");
    return FORNAX_OK;
}

/* Without a list that can be read, nothing would be closed. */
static fx_status check_allowed(const json_t *choice, fx_error *err)
{
    const char *type = json_string_value(json_object_get(choice, "type"));
    const json_t *a = json_object_get(choice, "allowed_tools"), *mode = json_object_get(a ? a : choice, "mode");
    const char *word = json_string_value(mode);

    if (!type || strcmp(type, "allowed_tools") != 0)
        return FORNAX_OK;
    if (!json_is_array(allowed_list(choice)))
        return fx_fail_param(err, FORNAX_EARG, "tool_choice", "tool_choice: allowed_tools needs a list of tools");
    if (mode && !(word && (strcmp(word, "auto") == 0 || strcmp(word, "required") == 0)))
        return fx_fail_param(err, FORNAX_EARG, "tool_choice", "tool_choice: expected the mode \"auto\" or \"required\"");
    return FORNAX_OK;
}

fx_status fx_turn_check(const json_t *tools, const json_t *choice, fx_error *err)
{
    static const char *const modes[] = { "auto", "none", "required", "function" };
    const char *mode = fx_turn_mode(choice);
    bool known = false, any = false;

    FX_TRY(check_allowed(choice, err));
    if (tools && !json_is_null(tools) && !json_is_array(tools))
        return fx_fail_param(err, FORNAX_EARG, "tools", "tools: expected a list");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        FX_TRY(check_tool(tools, i, err));
        any |= fx_turn_allows(choice, fx_turn_name(json_array_get(tools, i)));
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
    return json_array_size(tools) > 0 && strcmp(fx_turn_mode(tool_choice), "none") != 0;
}
