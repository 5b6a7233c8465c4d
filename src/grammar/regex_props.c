/* regex_props.c - the characters of a Unicode property: general categories from utf8proc, scripts
 * and binary properties from PCRE2, asked about every plane that has characters. */
#include <utf8proc.h>

#include "base/text.h"
#include "grammar/regex_ecma.h"
#include "text/split_regex.h"

static const struct { const char *name; uint32_t set; } categories[] = {
#define BIT(x) (1u << UTF8PROC_CATEGORY_##x)
    { "Lu", BIT(LU) }, { "Uppercase_Letter", BIT(LU) }, { "Ll", BIT(LL) }, { "Lowercase_Letter", BIT(LL) },
    { "Lt", BIT(LT) }, { "Titlecase_Letter", BIT(LT) }, { "LC", BIT(LU) | BIT(LL) | BIT(LT) },
    { "Cased_Letter", BIT(LU) | BIT(LL) | BIT(LT) }, { "Lm", BIT(LM) }, { "Modifier_Letter", BIT(LM) },
    { "Lo", BIT(LO) }, { "Other_Letter", BIT(LO) }, { "L", BIT(LU) | BIT(LL) | BIT(LT) | BIT(LM) | BIT(LO) },
    { "Letter", BIT(LU) | BIT(LL) | BIT(LT) | BIT(LM) | BIT(LO) }, { "Mn", BIT(MN) }, { "Nonspacing_Mark", BIT(MN) },
    { "Mc", BIT(MC) }, { "Spacing_Mark", BIT(MC) }, { "Me", BIT(ME) }, { "Enclosing_Mark", BIT(ME) },
    { "M", BIT(MN) | BIT(MC) | BIT(ME) }, { "Mark", BIT(MN) | BIT(MC) | BIT(ME) },
    { "Combining_Mark", BIT(MN) | BIT(MC) | BIT(ME) }, { "Nd", BIT(ND) }, { "Decimal_Number", BIT(ND) },
    { "digit", BIT(ND) }, { "Nl", BIT(NL) }, { "Letter_Number", BIT(NL) }, { "No", BIT(NO) }, { "Other_Number", BIT(NO) },
    { "N", BIT(ND) | BIT(NL) | BIT(NO) }, { "Number", BIT(ND) | BIT(NL) | BIT(NO) }, { "Pc", BIT(PC) },
    { "Connector_Punctuation", BIT(PC) }, { "Pd", BIT(PD) }, { "Dash_Punctuation", BIT(PD) }, { "Ps", BIT(PS) },
    { "Open_Punctuation", BIT(PS) }, { "Pe", BIT(PE) }, { "Close_Punctuation", BIT(PE) }, { "Pi", BIT(PI) },
    { "Initial_Punctuation", BIT(PI) }, { "Pf", BIT(PF) }, { "Final_Punctuation", BIT(PF) }, { "Po", BIT(PO) },
    { "Other_Punctuation", BIT(PO) },
    { "P", BIT(PC) | BIT(PD) | BIT(PS) | BIT(PE) | BIT(PI) | BIT(PF) | BIT(PO) },
    { "Punctuation", BIT(PC) | BIT(PD) | BIT(PS) | BIT(PE) | BIT(PI) | BIT(PF) | BIT(PO) },
    { "punct", BIT(PC) | BIT(PD) | BIT(PS) | BIT(PE) | BIT(PI) | BIT(PF) | BIT(PO) }, { "Sm", BIT(SM) },
    { "Math_Symbol", BIT(SM) }, { "Sc", BIT(SC) }, { "Currency_Symbol", BIT(SC) }, { "Sk", BIT(SK) },
    { "Modifier_Symbol", BIT(SK) }, { "So", BIT(SO) }, { "Other_Symbol", BIT(SO) },
    { "S", BIT(SM) | BIT(SC) | BIT(SK) | BIT(SO) }, { "Symbol", BIT(SM) | BIT(SC) | BIT(SK) | BIT(SO) },
    { "Zs", BIT(ZS) }, { "Space_Separator", BIT(ZS) }, { "Zl", BIT(ZL) }, { "Line_Separator", BIT(ZL) },
    { "Zp", BIT(ZP) }, { "Paragraph_Separator", BIT(ZP) }, { "Z", BIT(ZS) | BIT(ZL) | BIT(ZP) },
    { "Separator", BIT(ZS) | BIT(ZL) | BIT(ZP) }, { "Cc", BIT(CC) }, { "Control", BIT(CC) }, { "cntrl", BIT(CC) },
    { "Cf", BIT(CF) }, { "Format", BIT(CF) }, { "Co", BIT(CO) }, { "Private_Use", BIT(CO) }, { "Cn", BIT(CN) },
    { "Unassigned", BIT(CN) }, { "C", BIT(CC) | BIT(CF) | BIT(CS) | BIT(CO) | BIT(CN) },
    { "Other", BIT(CC) | BIT(CF) | BIT(CS) | BIT(CO) | BIT(CN) },
    { "Any", UINT32_MAX }, { "Assigned", UINT32_MAX & ~BIT(CN) },
#undef BIT
};

static bool add_rune(fx_rune_ranges *out, const fx_mem *mem, size_t first, uint32_t r)
{
    if (out->n > first && out->at[out->n - 1].hi + 1 == r) {
        out->at[out->n - 1].hi = r;
        return true;
    }
    return FX_VEC_PUSH(out, mem, ((fx_rune_range){ r, r }));
}

static fx_status of_categories(fx_rune_ranges *out, const fx_mem *mem, uint32_t set, fx_error *err)
{
    size_t first = out->n;

    if (set == UINT32_MAX)
        return FX_VEC_PUSH(out, mem, ((fx_rune_range){ 0, 0x10ffff })) ? FORNAX_OK : fx_nomem(err, "a character class");
    for (uint32_t r = 0; r <= 0x10ffff; r++)
        if (set >> utf8proc_category((utf8proc_int32_t)r) & 1 && !add_rune(out, mem, first, r))
            return fx_nomem(err, "a character class");
    return FORNAX_OK;
}

/* All characters of a plane, in order, as text. */
static bool plane_text(fx_buf *text, uint32_t plane)
{
    char u[4];

    fx_buf_clear(text);
    for (uint32_t r = plane << 16; r < (plane + 1) << 16; r++)
        if (r < 0xd800 || r > 0xdfff)
            fx_buf_add(text, u, fx_utf8_put(u, r));
    return !text->failed;
}

static fx_status scan_plane(fx_rune_ranges *out, const fx_mem *mem, const fx_regex *re, fx_match *m, fx_str text,
                            fx_error *err)
{
    fx_scan scan = FX_SCAN_START;

    for (;;) {
        FX_TRY(fx_regex_scan(re, m, text, &scan, err));
        if (!scan.found)
            return FORNAX_OK;
        for (size_t i = scan.begin; i < scan.end;)
            if (!add_rune(out, mem, 0, fx_utf8_next(text, &i)))
                return fx_nomem(err, "a character class");
    }
}

static fx_status of_pcre(fx_rune_ranges *out, const fx_mem *mem, fx_str name, fx_error *err)
{
    static const uint8_t planes[] = { 0, 1, 2, 3, 14, 15, 16 };
    char pattern[96];
    fx_regex *re = NULL;
    fx_match *m = NULL;
    fx_buf text;
    fx_status st;

    fx_buf_init(&text, mem);
    fx_format(pattern, sizeof(pattern), "\\p{%.*s}+", FX_STR_ARG(name));
    st = fx_regex_compile(&re, mem, fx_str_of(pattern), "property", NULL);
    if (st == FORNAX_OK && !(m = fx_match_new(re, mem)))
        st = FORNAX_ENOMEM;
    if (st == FORNAX_ENOMEM)
        st = fx_nomem(err, "a character class");
    else if (st != FORNAX_OK)
        st = fx_fail(err, FORNAX_EUNSUP, "no Unicode property is called '%.*s'", FX_STR_ARG(name));
    for (size_t i = 0; i < FX_COUNT(planes) && st == FORNAX_OK; i++)
        st = plane_text(&text, planes[i]) ? scan_plane(out, mem, re, m, fx_buf_view(&text), err)
                                          : fx_nomem(err, "a character class");
    fx_match_free(m);
    fx_regex_free(re);
    fx_buf_done(&text);
    return st;
}

fx_status fx_ecma_property(fx_rune_ranges *out, const fx_mem *mem, fx_str name, fx_error *err)
{
    size_t eq = fx_str_find(name, FX_STR("="), 0);
    fx_str key = fx_str_n(name.p, eq == FX_STR_NONE ? 0 : eq), value = name;
    bool category = eq == FX_STR_NONE || fx_str_is(key, "gc") || fx_str_is(key, "General_Category");

    if (eq != FX_STR_NONE)
        value = fx_str_n(name.p + eq + 1, name.n - eq - 1);
    if (category)
        for (size_t i = 0; i < FX_COUNT(categories); i++)
            if (fx_str_is(value, categories[i].name))
                return of_categories(out, mem, categories[i].set, err);
    for (size_t i = 0; i < value.n; i++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_", value.p[i]) || !value.p[i])
            value.n = 0;
    if (value.n == 0 || value.n > 60 || (key.n && category))
        return fx_fail(err, FORNAX_EUNSUP, "no Unicode property is called '%.*s'", FX_STR_ARG(name));
    if (key.n == 0 || fx_str_is(key, "sc") || fx_str_is(key, "Script")) {
        char full[80];

        /* In ECMA a bare name is never a script. */
        fx_format(full, sizeof(full), "%s%.*s", key.n ? "sc:" : "", FX_STR_ARG(value));
        return of_pcre(out, mem, fx_str_of(full), err);
    }
    if (fx_str_is(key, "scx") || fx_str_is(key, "Script_Extensions")) {
        char full[80];

        fx_format(full, sizeof(full), "scx:%.*s", FX_STR_ARG(value));
        return of_pcre(out, mem, fx_str_of(full), err);
    }
    return fx_fail(err, FORNAX_EUNSUP, "no Unicode property is called '%.*s'", FX_STR_ARG(name));
}
