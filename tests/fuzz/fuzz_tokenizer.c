/* fuzz_tokenizer.c - tokenizer.json with any content, encoding any text.
 *
 * An input is a tokenizer.json, a zero byte, and a text. Checked: ids are within the
 * vocabulary, decoding yields valid UTF-8, all memory comes back. */
#include <stdlib.h>

#include "base/text.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LIMIT ((size_t)256 << 20)

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

static void use(const fx_tokenizer *t, const fx_mem *mem, fx_str text)
{
    fx_span middle = { text.n / 4, text.n / 2 };
    size_t size = fx_tokenizer_size(t);
    fx_error err = { 0 };
    fx_detok d;
    fx_ids ids;
    fx_buf b;

    fx_ids_init(&ids, mem);
    fx_buf_init(&b, mem);
    if (fx_tokenizer_encode(t, text, &middle, middle.begin < middle.end, FX_ENCODE_SPECIAL | FX_ENCODE_ADD, &ids,
                            &err) == FORNAX_OK) {
        fx_detok_init(&d, t, false);
        for (size_t i = 0; i < ids.n; i++) {
            if (ids.at[i] < 0 || (size_t)ids.at[i] >= size)
                abort();
            fx_detok_push(&d, ids.at[i], &b);
            if (!fx_utf8_valid(fx_buf_view(&b)))
                abort();
        }
        fx_detok_flush(&d, &b);
        if (!fx_utf8_valid(fx_buf_view(&b)))
            abort();
    } else if (!err.text[0]) {
        abort();
    }
    fx_tokenizer_find(t, text);
    fx_tokenizer_bytes(t, (int32_t)size);
    fx_tokenizer_bytes(t, -1);
    fx_buf_done(&b);
    fx_ids_done(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fx_str json = fx_str_n((const char *)data, size), text = FX_STR("Hello, w\xc3\xb6rld 123\n\n <s>");
    size_t used = 0, cut = fx_str_find(json, (fx_str){ "", 1 }, 0);
    fx_mem mem = { limited, &used };
    fx_error err = { 0 };
    fx_tokenizer *t = NULL;

    if (cut != FX_STR_NONE) {
        text = fx_str_n(json.p + cut + 1, json.n - cut - 1);
        json.n = cut;
    }
    if (fx_tokenizer_from_json(&t, &mem, json, FX_STR(""), &err) == FORNAX_OK)
        use(t, &mem, text);
    else if (t || !err.text[0])
        abort();
    fx_tokenizer_free(t);
    if (used)
        abort();
    return 0;
}
