/* fuzz_code.c - the loader of compiled code on any bytes: an object is loaded or refused with a sentence; what it exports is looked
 * up, never run. */
#include <stdlib.h>

#include "codegen/code_load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fx_str bytes = fx_str_n((const char *)data, size), name;
    fx_error err = { 0 };
    fx_code *code;

    if (fx_code_load(&code, &fx_mem_libc, bytes, "fuzz", &err) == FORNAX_OK) {
        if (!fx_code_bytes(code))
            abort();
        fx_code_find(code, FX_STR("saxpy"));
        fx_code_free(code);
    } else if (!err.text[0]) {
        abort();
    }
    if (fx_code_undefined(bytes, &name) && name.n > size)
        abort();
    return 0;
}
