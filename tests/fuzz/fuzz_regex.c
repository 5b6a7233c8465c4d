/* fuzz_regex.c - ECMA patterns: any text, in both spellings.
 *
 * The first byte chooses the spelling and whether the whole text is matched; up to the first zero byte comes the
 * pattern, then a text.  Checked: an error has a sentence; a text is matched as its derivatives say; an
 * expression that was found empty matches nothing; sizes are bounded. */
#include <stdlib.h>

#include "grammar/regex_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NODES_MAX 200000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fx_re_pool *p = fx_re_pool_new(&fx_mem_libc, NODES_MAX);
    fx_error err = { 0 };
    fx_str pattern, text;
    fx_re re;
    size_t end = 1;

    if (!p || size == 0 || size > 2000) {
        fx_re_pool_free(p);
        return 0;
    }
    while (end < size && data[end])
        end++;
    pattern = fx_str_n((const char *)data + 1, end - 1);
    text = end < size ? fx_str_n((const char *)data + end + 1, size - end - 1) : fx_str_n("", 0);
    if (fx_re_ecma(&re, p, data[0] & 1 ? FX_SPELL_JSON : FX_SPELL_UTF8, pattern, data[0] & 2, &err) != FORNAX_OK) {
        if (!err.text[0])
            abort();
    } else {
        bool matches = fx_re_matches(p, re, text);
        fx_tristate none = fx_re_is_none(p, re, 500);

        if (matches && none == FX_YES)
            abort();
        if (matches && !fx_re_pool_failed(p) && fx_re_matches(p, fx_re_not(p, re), text))
            abort();
        if (p->nodes.n > NODES_MAX)
            abort();
    }
    fx_re_pool_free(p);
    return 0;
}
