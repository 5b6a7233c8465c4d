/* fuzz_schema.c - JSON Schema: any text, compiled for generation and for judging.
 *
 * The first byte chooses options, the rest is the schema.  Checked: an error has a sentence, a compiled
 * schema's language never leads into a dead end (some byte goes on wherever the text may not end), all
 * memory comes back. */
#include <stdlib.h>

#include "grammar/run.h"
#include "grammar/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LIMIT ((size_t)128 << 20)
#define STEPS 48

static void *limited(void *user, void *p, size_t old_size, size_t new_size)
{
    size_t *used = user;

    if (new_size > old_size && new_size - old_size > LIMIT - *used)
        return NULL;
    p = fx_mem_libc.fn(NULL, p, old_size, new_size);
    if (p || !new_size)
        *used += new_size - old_size;
    return p;
}

/* The place after one more byte, its text known. */
static fx_place step(fx_run *r, fx_place at, const char *text, size_t n)
{
    fx_place to = fx_run_step(r, at, (unsigned char)text[n - 1]);

    if (to > FX_PLACE_ENDED && to != FX_PLACE_FAIL && (fx_run_set(r, to)->flags & FX_SET_PENDING))
        to = fx_run_settle(r, to, fx_str_n(text, n));
    return to;
}

static void walk(fx_gram *g, const uint8_t *data, size_t size)
{
    fx_run *r = g->run;
    fx_place at = r->start;
    char text[STEPS + 1];

    for (size_t n = 0; n < STEPS; n++) {
        unsigned first = size ? data[n % size] * 7u + (unsigned)n : 0;
        fx_place to = FX_PLACE_DEAD;

        for (unsigned k = 0; k < 256 && to == FX_PLACE_DEAD; k++) {
            text[n] = (char)((first + k) & 255);
            to = step(r, at, text, n + 1);
        }
        if (to == FX_PLACE_FAIL)
            return;
        if (to == FX_PLACE_DEAD) {
            if (!(fx_run_set(r, at)->flags & FX_SET_ACCEPT))
                abort();
            return;
        }
        at = to;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t flags = size ? data[0] : 0;
    fx_schema_options o = { .any_order = flags & 1, .any_number = flags & 2, .annotate_formats = flags & 4,
                            .strict_formats = flags & 8 };
    fx_gram_limits limits = { .max_nodes = 20000, .max_re_nodes = 200000, .max_bytes = (size_t)32 << 20, .max_depth = 100 };
    size_t used = 0;
    fx_mem mem = { limited, &used };
    fx_gram_builder *b = fx_gram_builder_new(&mem, &limits);
    fx_buf warnings;
    fx_error err = { 0 };
    fx_gnode root;
    fx_gram *g = NULL;

    if (!b)
        abort();
    fx_buf_init(&warnings, &mem);
    if (fx_schema_build(&root, b, &mem, fx_str_n((const char *)data + (size > 0), size - (size > 0)), &o, &warnings, &err)
        != FORNAX_OK || root == FX_GNODE_NEVER) {
        if (root != FX_GNODE_NEVER || (err.status && !err.text[0]))
            abort();
        fx_gram_builder_free(b);
    } else if (fx_gram_finish(&g, b, root, &err) == FORNAX_OK) {
        walk(g, data, size);
    } else if (!err.text[0]) {
        abort();
    }
    fx_gram_unref(g);
    fx_buf_done(&warnings);
    if (used)
        abort();
    return 0;
}
