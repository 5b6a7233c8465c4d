/* vocab.c - the token table, its index, and the byte-level alphabet. */
#include "text/vocab.h"

#include "base/text.h"

bool fx_vocab_init(fx_vocab *v, fx_arena *arena, size_t n, size_t bytes)
{
    size_t slots = 16;

    while (slots < n * 2)
        slots *= 2;
    *v = (fx_vocab){ .n = n, .block_cap = bytes, .mask = slots - 1 };
    v->block = fx_arena_alloc(arena, bytes + 1);
    v->pieces = FX_ARENA_NEWN(arena, fx_piece, n + 1);
    v->slots = FX_ARENA_NEWN(arena, fx_vocab_slot, slots);
    if (!v->block || !v->pieces || !v->slots)
        return false;
    v->seed = (uint64_t)(uintptr_t)v->slots;
    memset(v->pieces, 0xff, (n + 1) * sizeof(*v->pieces));     /* at = FX_NO_TOKEN */
    memset(v->slots, 0xff, slots * sizeof(*v->slots));         /* id = -1 */
    return true;
}

static inline bool is_slot(const fx_vocab *v, const fx_vocab_slot *slot, uint32_t tag, fx_str s)
{
    return slot->tag == tag && slot->text.n == s.n && memcmp(v->block + slot->text.at, s.p, s.n) == 0;
}

void fx_vocab_put(fx_vocab *v, int32_t id, fx_str spelling)
{
    fx_piece p = { (uint32_t)v->block_n, (uint32_t)spelling.n };

    FX_ASSERT(spelling.n <= v->block_cap - v->block_n);
    if (spelling.n)
        memcpy(v->block + v->block_n, spelling.p, spelling.n);
    v->block_n += spelling.n;
    fx_vocab_put_piece(v, id, p);
}

void fx_vocab_put_piece(fx_vocab *v, int32_t id, fx_piece p)
{
    fx_str s = { v->block + p.at, p.n };
    uint64_t hash = fx_vocab_hash(v, s);
    uint32_t tag = (uint32_t)(hash >> 32);

    FX_ASSERT(id >= 0 && (size_t)id < v->n);
    v->pieces[id] = p;
    for (size_t i = hash & v->mask;; i = (i + 1) & v->mask) {
        fx_vocab_slot *slot = &v->slots[i];

        if (slot->id >= 0 && !is_slot(v, slot, tag, s))
            continue;
        *slot = (fx_vocab_slot){ tag, id, p };
        return;
    }
}

int32_t fx_vocab_find_hashed(const fx_vocab *v, fx_str spelling, uint64_t hash)
{
    uint32_t tag = (uint32_t)(hash >> 32);

    for (size_t i = hash & v->mask;; i = (i + 1) & v->mask) {
        const fx_vocab_slot *slot = &v->slots[i];

        if (slot->id < 0)
            return -1;
        if (is_slot(v, slot, tag, spelling))
            return slot->id;
    }
}

int32_t fx_vocab_find(const fx_vocab *v, fx_str spelling)
{
    return fx_vocab_find_hashed(v, spelling, fx_vocab_hash(v, spelling));
}

void fx_vocab_find_bytes(const fx_vocab *v, int32_t ids[256])
{
    static const char digits[] = "0123456789ABCDEF";

    for (int i = 0; i < 256; i++) {
        char text[] = { '<', '0', 'x', digits[i >> 4], digits[i & 15], '>' };

        ids[i] = fx_vocab_find(v, fx_str_n(text, sizeof(text)));
    }
}

/* Bytes that print stand for themselves; the other 68 are U+0100.. in byte order:
 * 0x00-0x20, 0x7f-0xa0, 0xad. */
uint32_t fx_bytelevel_rune(unsigned char b)
{
    if (b <= 0x20)
        return 0x100u + b;
    if (b >= 0x7f && b <= 0xa0)
        return 0x121u + (b - 0x7fu);
    return b == 0xad ? 0x143u : b;
}

int fx_bytelevel_byte(uint32_t r)
{
    if (r >= 0x100 && r <= 0x120)
        return (int)(r - 0x100);
    if (r >= 0x121 && r <= 0x142)
        return (int)(r - 0x121 + 0x7f);
    if (r == 0x143)
        return 0xad;
    return r > 0x20 && r < 0x100 && fx_bytelevel_rune((unsigned char)r) == r ? (int)r : -1;
}

void fx_bytelevel_write(fx_buf *out, fx_str text)
{
    if (!fx_buf_reserve(out, text.n * 2))
        return;
    for (size_t i = 0; i < text.n; i++)
        out->n += fx_utf8_put(out->p + out->n, fx_bytelevel_rune((unsigned char)text.p[i]));
    out->p[out->n] = 0;
}

size_t fx_bytelevel_read(char *out, fx_str s)
{
    size_t n = 0;

    for (size_t i = 0; i < s.n;) {
        unsigned char c = (unsigned char)s.p[i];
        int byte;

        if (c < 0x80) {
            byte = c > 0x20 && c < 0x7f ? c : -1;
            i++;
        } else {
            byte = fx_bytelevel_byte(fx_utf8_next(s, &i));
        }
        if (byte < 0)
            return SIZE_MAX;
        out[n++] = (char)byte;
    }
    return n;
}
