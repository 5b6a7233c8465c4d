/* fuzz_tokenizer.c - tokenizer.json, and text, of any bytes.
 *
 * The input up to its first zero byte is a tokenizer.json; what follows is a text
 * for it (a fixed one if nothing follows), the first half of it data. An allocator
 * with a limit notices memory that a file merely claims. */
#include <stdlib.h>

#include "base/text.h"
#include "limited.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Streamed text is whole characters at every moment, and the same as all at once but
 * for runs of byte tokens. */
static void decode(const fx_tokenizer *t, const fx_ids *ids, const fx_mem *mem)
{
    fx_buf whole, stream;
    fx_detok d;

    fx_buf_init(&whole, mem);
    fx_buf_init(&stream, mem);
    fx_tokenizer_decode(t, ids->at, ids->n, true, &whole);
    fx_detok_init(&d, t, true);
    for (size_t i = 0; i < ids->n; i++)
        fx_detok_push(&d, ids->at[i], &stream);
    fx_detok_flush(&d, &stream);
    if (!fx_utf8_valid(fx_buf_view(&whole)) || !fx_utf8_valid(fx_buf_view(&stream)))
        abort();
    fx_buf_done(&whole);
    fx_buf_done(&stream);
}

static void use(const fx_tokenizer *t, fx_str text, const fx_mem *mem)
{
    fx_span half = { 0, text.n / 2 };

    for (unsigned flags = 0; flags < 4; flags++) {
        fx_error err = { 0 };
        fx_ids ids;

        fx_ids_init(&ids, mem);
        if (fx_tokenizer_encode(t, text, &half, 1, flags, &ids, &err) == FORNAX_OK) {
            for (size_t i = 0; i < ids.n; i++)
                if (ids.at[i] < 0 || (size_t)ids.at[i] >= fx_tokenizer_size(t))
                    abort();
            decode(t, &ids, mem);
        } else if (!err.text[0]) {
            abort();
        }
        fx_ids_done(&ids);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char usual[] = "Hi <s> there's 12 \xc3\xa9\xcc\x81 \xff\xe4\xb8\xad\n\n  <|im_end|> [SEP]";
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    fx_str json = { (const char *)data, zero ? (size_t)(zero - data) : size };
    fx_str text = zero ? fx_str_n((const char *)zero + 1, size - json.n - 1) : fx_str_of(usual);
    limit l = { 0, (size_t)512 << 20 };
    fx_mem mem = { limited, &l };
    fx_error err = { 0 };
    fx_tokenizer *t = NULL;
    fx_status st = fx_tokenizer_from_json(&t, &mem, json, FX_STR(""), &err);

    if ((st == FORNAX_OK) != (t != NULL) || (st != FORNAX_OK && !err.text[0]))
        abort();
    if (t)
        use(t, text, &mem);
    fx_tokenizer_free(t);
    if (l.used != 0)
        abort();
    return 0;
}
