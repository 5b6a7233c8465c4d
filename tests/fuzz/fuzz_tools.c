/* fuzz_tools.c - tools files of `fornax agent`: any text is read or refused with a sentence; what is read can be called with any
 * arguments.  Behind a zero byte: the arguments. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/tools.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expand(const fx_tool *tool, const json_t *arguments)
{
    fx_error err = { 0 };
    char **argv = NULL;

    if (!tool->spec)
        return;
    if (fx_tool_argv(&argv, tool, arguments, &err) == FORNAX_OK ? !argv[0] : !err.text[0])
        abort();
    fx_tool_argv_free(argv);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data, *zero = memchr(text, 0, size);
    size_t n = zero ? (size_t)(zero - text) : size;
    json_t *arguments = zero ? json_loadb(zero + 1, size - n - 1, JSON_ALLOW_NUL, NULL) : json_object(), *declared;
    fx_error err = { 0 };
    fx_tools t;

    if (fx_tools_read(&t, fx_str_n(text, n), "tools.json", &err) == FORNAX_OK) {
        declared = fx_tools_declared(&t);
        if (json_array_size(declared) != t.list.n)
            abort();
        json_decref(declared);
        for (size_t i = 0; i < t.list.n; i++)
            expand(&t.list.at[i], arguments);
    } else if (!err.text[0]) {
        abort();
    }
    fx_tools_done(&t);
    json_decref(arguments);
    return 0;
}
