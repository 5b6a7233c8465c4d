/* fuzz_text.c - UTF-8, JSON escapes and number parsing of base on any bytes. */
#include <stdlib.h>

#include "base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fx_str s = fx_str_n((const char *)data, size);
    uint64_t u;
    int64_t i64;
    double x;
    fx_buf b;

    fx_buf_init(&b, &fx_mem_libc);
    fx_buf_json(&b, s);
    if (!b.failed && !fx_utf8_valid(fx_buf_view(&b)))
        abort();
    if (fx_utf8_valid(s) && fx_utf8_open_tail(s) != 0)
        abort();
    fx_buf_clear(&b);
    if (fx_parse_double(s, &x)) {
        double back;

        fx_buf_double(&b, x);
        if (!fx_parse_double(fx_buf_view(&b), &back) || back != x)
            abort();
    }
    fx_parse_i64(s, &i64);
    fx_parse_u64(s, &u);
    fx_buf_done(&b);
    return 0;
}
