/* charsmap.c - walking the trie of replacements.
 *
 * A unit has a label (bits 0-7 and 31), a flag that a value follows (bit 8) and the offset
 * of its children (bits 10-30, times 256 if bit 9 is set); positions are combined by xor. */
#include "text/charsmap.h"

static uint32_t unit_at(const fx_charsmap *m, size_t i)
{
    const unsigned char *p = m->units + i * 4;

    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static size_t offset_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << (unit & 1u << 9 ? 8 : 0);
}

fx_status fx_charsmap_init(fx_charsmap *m, fx_str blob, const char *where, fx_error *err)
{
    fx_charsmap head = { .units = (const unsigned char *)blob.p, .n_units = 1 };
    uint32_t bytes;

    *m = (fx_charsmap){ 0 };
    if (!blob.n)
        return FORNAX_OK;
    bytes = blob.n >= 4 ? unit_at(&head, 0) : 0;
    if (blob.n < 4 || bytes < 4 || bytes % 4 || bytes > blob.n - 4)
        return fx_fail(err, FORNAX_EFORMAT, "%s: expected a table of replacements, found %zu bytes of another form", where,
                       blob.n);
    m->units = (const unsigned char *)blob.p + 4;
    m->n_units = bytes / 4;
    m->texts = fx_str_n(blob.p + 4 + bytes, blob.n - 4 - bytes);
    return FORNAX_OK;
}

/* The zero-terminated text at 'at'; false if that is not within the block. */
static bool text_at(const fx_charsmap *m, size_t at, fx_str *out)
{
    const char *end;

    if (at > m->texts.n)
        return false;
    end = at < m->texts.n ? memchr(m->texts.p + at, 0, m->texts.n - at) : NULL;
    *out = fx_str_n(m->texts.p + at, end ? (size_t)(end - (m->texts.p + at)) : m->texts.n - at);
    return true;
}

size_t fx_charsmap_match(const fx_charsmap *m, fx_str s, bool longest, fx_str *out)
{
    size_t node, found = 0;

    if (!m->units)
        return 0;
    node = offset_of(unit_at(m, 0));
    for (size_t i = 0; i < s.n && i < FX_CHARSMAP_LONGEST; i++) {
        unsigned char c = (unsigned char)s.p[i];
        uint32_t unit;

        node ^= c;
        if (c == 0 || node >= m->n_units)
            break;
        unit = unit_at(m, node);
        if ((unit & (1u << 31 | 0xff)) != c)
            break;
        node ^= offset_of(unit);
        if (!(unit & 1u << 8))
            continue;
        if (node >= m->n_units || !text_at(m, unit_at(m, node) & 0x7fffffffu, out))
            break;
        found = i + 1;
        if (!longest)
            break;
    }
    return found;
}
