/* runes.c - kinds of characters, from utf8proc's categories. */
#include "text/runes.h"

#include <utf8proc.h>

static utf8proc_category_t category(uint32_t r)
{
    return utf8proc_category((utf8proc_int32_t)r);
}

bool fx_rune_is_space(uint32_t r)
{
    if (r < 0x80)
        return r == ' ' || (r >= 9 && r <= 13);
    return r == 0x85 || r == 0xa0 || r == 0x1680 || (r >= 0x2000 && r <= 0x200a) || r == 0x2028 || r == 0x2029 ||
           r == 0x202f || r == 0x205f || r == 0x3000;
}

bool fx_rune_is_numeric(uint32_t r)
{
    utf8proc_category_t c;

    if (r < 0x80)
        return r >= '0' && r <= '9';
    c = category(r);
    return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool fx_rune_is_punctuation(uint32_t r)
{
    utf8proc_category_t c;

    if (r < 0x80)
        return (r >= 0x21 && r <= 0x2f) || (r >= 0x3a && r <= 0x40) || (r >= 0x5b && r <= 0x60) ||
               (r >= 0x7b && r <= 0x7e);
    c = category(r);
    return c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO;
}

bool fx_rune_is_mark(uint32_t r)
{
    utf8proc_category_t c = r < 0x300 ? UTF8PROC_CATEGORY_LL : category(r);

    return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_MC || c == UTF8PROC_CATEGORY_ME;
}

bool fx_rune_is_nonspacing(uint32_t r)
{
    return r >= 0x300 && category(r) == UTF8PROC_CATEGORY_MN;
}

bool fx_rune_is_other(uint32_t r)
{
    utf8proc_category_t c = category(r);

    return c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_CS ||
           c == UTF8PROC_CATEGORY_CO;
}

bool fx_rune_is_word(uint32_t r)
{
    utf8proc_category_t c = category(r);

    if (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_NL)    /* L*, M*, Nd, Nl */
        return true;
    return c == UTF8PROC_CATEGORY_PC || r == 0x200c || r == 0x200d || (r >= 0x24b6 && r <= 0x24e9) ||
           (r >= 0x1f130 && r <= 0x1f149) || (r >= 0x1f150 && r <= 0x1f169) || (r >= 0x1f170 && r <= 0x1f189);
}

bool fx_rune_is_cjk(uint32_t r)
{
    static const struct { uint32_t first, last; } ranges[] = {
        { 0x3400, 0x4dbf }, { 0x4e00, 0x9fff }, { 0xf900, 0xfaff }, { 0x20000, 0x2a6df }, { 0x2a700, 0x2b73f },
        { 0x2b740, 0x2b81f }, { 0x2b920, 0x2ceaf }, { 0x2f800, 0x2fa1f },
    };

    for (size_t i = 0; i < FX_COUNT(ranges); i++)
        if (r >= ranges[i].first && r <= ranges[i].last)
            return true;
    return false;
}

/* The full mapping, one character at a time: only U+0130 becomes two. */
int fx_rune_lower(uint32_t r, uint32_t out[2])
{
    if (r == 0x130) {
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    if (r < 0x80)
        out[0] = r >= 'A' && r <= 'Z' ? r + 32 : r;
    else
        out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)r);
    return 1;
}
