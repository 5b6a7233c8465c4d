/* fuzz_spm.c - tokenizer.model files of any bytes, and texts in the vocabularies that they make. */
#include "limited.h"
#include "text/spm_file.h"
#include "text/tokenizer_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const fx_str text = { "Hello  there's 12 \xc3\xa9\xcc\x81 \xff\xe4\xb8\xad\n<s> \xe2\x96\x81", 34 };
    fx_spm_texts texts = { .model = fx_str_n((const char *)data, size) };
    limit l = { 0, (size_t)64 << 20 };
    fx_mem mem = { limited, &l };
    fx_error err = { 0 };
    fx_tokenizer *t = NULL;
    fx_status st = fx_tokenizer_from_spm(&t, &mem, &texts, &err);
    fx_ids ids;
    fx_buf back;

    if ((st == FORNAX_OK) != (t != NULL) || (st != FORNAX_OK && !err.text[0]))
        abort();
    fx_ids_init(&ids, &mem);
    fx_buf_init(&back, &mem);
    for (unsigned flags = 0; t && flags < 4; flags++) {
        ids.n = 0;
        if (fx_tokenizer_encode(t, text, NULL, 0, flags, &ids, &err) == FORNAX_OK)
            fx_tokenizer_decode(t, ids.at, ids.n, true, &back);
        for (size_t i = 0; i < ids.n; i++)
            if (ids.at[i] < 0 || (size_t)ids.at[i] >= fx_tokenizer_size(t))
                abort();
    }
    fx_ids_done(&ids);
    fx_buf_done(&back);
    fx_tokenizer_free(t);
    if (l.used != 0)
        abort();
    return 0;
}
