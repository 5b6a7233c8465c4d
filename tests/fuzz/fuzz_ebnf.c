/* fuzz_ebnf.c - GBNF and Lark-like grammars: any text is refused with a sentence or compiled, and a compiled one is
 * walked by its own masks without a dead end. */
#include <stdlib.h>

#include "grammar/ebnf.h"
#include "grammar/matcher.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char singles[256];

static fx_str byte_of(const void *user, int32_t id)
{
    (void)user;
    singles[id] = (char)id;
    return fx_str_n(&singles[id], 1);
}

/* Up to 40 steps, each by the mask's bit that the data choose. */
static void walk(fx_gram *g, fx_gvocab *v, const uint8_t *data, size_t size)
{
    uint32_t bits[8];
    fx_matcher *m;
    fx_error err;

    if (fx_matcher_new(&m, &fx_mem_libc, g, v, &err) != FORNAX_OK)
        return;
    for (size_t step = 0; step < 40 && fx_matcher_mask(m, bits, &err) == FORNAX_OK; step++) {
        int pick = -1;

        for (int k = 0; k < 256 && pick < 0; k++) {
            int b = (k + data[step % size]) & 255;

            if (bits[b / 32] >> b % 32 & 1)
                pick = b;
        }
        if (pick < 0) {
            if (!fx_matcher_can_end(m))
                abort();
            break;
        }
        if (fx_matcher_accept(m, pick, &err) == FORNAX_EARG)
            abort();
    }
    fx_matcher_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fx_gram_limits limits = { .max_nodes = 20000, .max_re_nodes = 100000, .max_bytes = 8 << 20, .max_depth = 500 };
    fx_gram_builder *b = size && size <= 2000 ? fx_gram_builder_new(&fx_mem_libc, &limits) : NULL;
    fx_gvocab_desc d = { .n = 256, .bytes = byte_of };
    fx_error err = { 0 };
    fx_gvocab *v = NULL;
    fx_gram *g = NULL;
    fx_gnode root;
    fx_status st;

    if (!b)
        return 0;
    st = fx_ebnf_build(&root, b, &fx_mem_libc, fx_str_n((const char *)data, size), &(fx_ebnf_options){ .name = "g" }, NULL, &err);
    if (st != FORNAX_OK)
        fx_gram_builder_free(b);
    else
        st = fx_gram_finish(&g, b, root, &err);
    if (st != FORNAX_OK && !err.text[0])
        abort();
    if (st == FORNAX_OK && fx_gvocab_new(&v, &fx_mem_libc, &d, &err) == FORNAX_OK)
        walk(g, v, data, size);
    fx_gram_unref(g);
    fx_gvocab_unref(v);
    return 0;
}
