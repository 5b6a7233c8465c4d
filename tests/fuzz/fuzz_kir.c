/* fuzz_kir.c - the text form of kernels: what parses prints to a text that parses back to the same text, and passes the verifier or is
 * refused with a sentence. */
#include <stdlib.h>

#include "kir/kir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The verifier's verdict comes with a sentence. */
static void check(fx_kir_kernel *k)
{
    fx_error err = { 0 };

    if (fx_kir_check(k, &err) != FORNAX_OK && !err.text[0])
        abort();
}

/* Parses s and appends what it prints to; false if it doesn't parse. */
static bool reprint(fx_str s, fx_buf *out)
{
    fx_error err = { 0 };
    fx_kir_module *m = NULL;
    fx_arena arena;
    bool ok;

    fx_arena_init(&arena, &fx_mem_libc, 0);
    ok = fx_kir_parse(&m, &arena, "fuzz", s, &err) == FORNAX_OK;
    if (ok) {
        fx_kir_print(m, out);
        for (fx_kir_kernel *k = m->first; k; k = k->next)
            check(k);
    } else if (!err.text[0]) {
        abort();
    }
    fx_arena_done(&arena);
    return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fx_buf once, twice;

    fx_buf_init(&once, &fx_mem_libc);
    fx_buf_init(&twice, &fx_mem_libc);
    if (reprint(fx_str_n((const char *)data, size), &once) && !once.failed) {
        if (!reprint(fx_buf_view(&once), &twice) || !fx_str_eq(fx_buf_view(&once), fx_buf_view(&twice)))
            abort();
    }
    fx_buf_done(&once);
    fx_buf_done(&twice);
    return 0;
}
