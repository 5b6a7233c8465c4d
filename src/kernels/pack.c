/* pack.c - puts 16 rows of weights, as they stand in a file, into a tile (pack.h).
 *
 * Most types are near enough to the tile's layout that a lane's line is made of whole
 * 32-bit words of the block: a Q4_0 tile is a transpose of words. */
#include "kernels/pack.h"

#include "tensor/blocks.h"

static uint32_t load32(const void *p)
{
    const uint8_t *b = p;

    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* Lane 'lane' of line 'line' = v. Lanes are little-endian as the file's words are. */
static void put32(uint8_t *quants, int line, int lane, uint32_t v)
{
    uint8_t *p = quants + line * 64 + lane * 4;

    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
    p[2] = (uint8_t)(v >> 16);
    p[3] = (uint8_t)(v >> 24);
}

static void put16(uint8_t *p, int lane, uint16_t v) { memcpy(p + lane * 2, &v, 2); }

/* 16 bytes split in halves (elem i low, elem i + 16 high) are the four lines as they are. */
static void put_nibbles(uint8_t *quants, int lane, const uint8_t *qs)
{
    for (int i = 0; i < 4; i++)
        put32(quants, i, lane, load32(qs + 4 * i));
}

/* Bit i of 'high' is bit 4 of k = i. */
static uint32_t spread_high(uint32_t high)
{
    uint32_t v = 0;

    for (int g = 0; g < 8; g++)      /* the multiply puts bit j of a nibble into bit 0 of byte j */
        v |= ((high >> 4 * g & 15) * 0x204081u & 0x01010101u) << g;
    return v;
}

static void put_q4_0(uint8_t *super, int lane, const fx_block_q4_0 *b, int i)
{
    put_nibbles(super + i * 256, lane, b->qs);
    put16(super + 512 + i * 32, lane, b->d);
}

static void put_q4_1(uint8_t *super, int lane, const fx_block_q4_1 *b, int i)
{
    (void)i;
    put_nibbles(super, lane, b->qs);
    put16(super + 256, lane, b->d);
    put16(super + 288, lane, b->m);
}

static void put_q5_0(uint8_t *super, int lane, const fx_block_q5_0 *b, int i)
{
    put_nibbles(super + i * 320, lane, b->qs);
    put32(super + i * 320, 4, lane, spread_high(load32(b->qh)));
    put16(super + 640 + i * 32, lane, b->d);
}

static void put_q5_1(uint8_t *super, int lane, const fx_block_q5_1 *b, int i)
{
    (void)i;
    put_nibbles(super, lane, b->qs);
    put32(super, 4, lane, spread_high(load32(b->qh)));
    put16(super + 320, lane, b->d);
    put16(super + 352, lane, b->m);
}

static void put_q8_0(uint8_t *super, int lane, const fx_block_q8_0 *b, int i)
{
    for (int g = 0; g < 8; g++)
        put32(super + i * 512, g, lane, load32(b->qs + 4 * g) ^ 0x80808080u);
    put16(super + 1024 + i * 32, lane, b->d);
}

/* Lines of one sub-block of Q4_K and Q5_K: its nibbles (upper or lower) of 32 bytes. */
static void put_sub_nibbles(uint8_t *quants, int lane, const uint8_t *qs, int upper)
{
    for (int i = 0; i < 4; i++) {
        uint32_t a = load32(qs + 4 * i) >> 4 * upper & 0x0f0f0f0fu;
        uint32_t b = load32(qs + 16 + 4 * i) >> 4 * upper & 0x0f0f0f0fu;

        put32(quants, i, lane, a | b << 4);
    }
}

/* The 6-bit scale and min of sub-block i (drawn in blocks.h). */
static void scale_min(const uint8_t *s, int i, uint8_t *sc, uint8_t *mn)
{
    if (i < 4) {
        *sc = s[i] & 63;
        *mn = s[i + 4] & 63;
    } else {
        *sc = (uint8_t)((s[i + 4] & 15) | (s[i - 4] >> 6) << 4);
        *mn = (uint8_t)((s[i + 4] >> 4) | (s[i] >> 6) << 4);
    }
}

static void put_q4_k(uint8_t *super, int lane, const fx_block_q4_k *b, int unused)
{
    (void)unused;
    for (int i = 0; i < 8; i++) {
        put_sub_nibbles(super + i * 256, lane, b->qs + i / 2 * 32, i % 2);
        scale_min(b->scales, i, super + 2048 + i * 32 + lane, super + 2048 + i * 32 + 16 + lane);
    }
    put16(super + 2304, lane, b->d);
    put16(super + 2336, lane, b->dmin);
}

static void put_q5_k(uint8_t *super, int lane, const fx_block_q5_k *b, int unused)
{
    (void)unused;
    for (int i = 0; i < 8; i++) {
        uint32_t high = 0;

        for (int g = 0; g < 8; g++)
            high |= (load32(b->qh + 4 * g) >> i & 0x01010101u) << g;
        put_sub_nibbles(super + i * 320, lane, b->qs + i / 2 * 32, i % 2);
        put32(super + i * 320, 4, lane, high);
        scale_min(b->scales, i, super + 2560 + i * 32 + lane, super + 2560 + i * 32 + 16 + lane);
    }
    put16(super + 2816, lane, b->d);
    put16(super + 2848, lane, b->dmin);
}

/* A Q6_K sub-block of 32: c = 0..3 within a half of 128. */
static void put_q6_sub(uint8_t *quants, int lane, const uint8_t *ql, const uint8_t *qh, int c)
{
    uint32_t high[2] = { 0, 0 };

    put_sub_nibbles(quants, lane, ql + c % 2 * 32, c / 2);
    for (int g = 0; g < 8; g++)
        high[g / 4] |= (load32(qh + 4 * g) >> 2 * c & 0x03030303u) << 2 * (g % 4);
    put32(quants, 4, lane, high[0]);
    put32(quants, 5, lane, high[1]);
}

static void put_q6_k(uint8_t *super, int lane, const fx_block_q6_k *b, int unused)
{
    (void)unused;
    for (int i = 0; i < 8; i++) {
        put_q6_sub(super + i * 384, lane, b->ql + i / 4 * 64, b->qh + i / 4 * 32, i % 4);
        super[3072 + i * 32 + lane] = (uint8_t)b->scales[2 * i];
        super[3072 + i * 32 + 16 + lane] = (uint8_t)b->scales[2 * i + 1];
    }
    put16(super + 3328, lane, b->d);
}

/* file_blocks: of the file's in a super block of the tile. */
#define PACK_QUANT(T, t, file_elems, file_blocks)                                              \
    void fx_pack_tile_##t(const void *const rows[FX_TILE], int64_t k, void *tile)              \
    {                                                                                          \
        const size_t super_bytes = (size_t)fx_pack_of(FX_##T).bytes;                           \
        const int64_t n = k / (file_elems);                                                    \
                                                                                               \
        memset(tile, 0, fx_pack_tile_bytes_##t(k));                                            \
        for (int lane = 0; lane < FX_TILE; lane++) {                                           \
            const fx_block_##t *b = rows[lane];                                                \
                                                                                               \
            for (int64_t i = 0; b && i < n; i++)                                               \
                put_##t((uint8_t *)tile + (size_t)(i / (file_blocks)) * super_bytes, lane, b + i, \
                        (int)(i % (file_blocks)));                                             \
        }                                                                                      \
    }                                                                                          \
    size_t fx_pack_tile_bytes_##t(int64_t k)                                                   \
    {                                                                                          \
        const fx_pack p = fx_pack_of(FX_##T);                                                  \
                                                                                               \
        return (size_t)FX_DIV_UP(k, 32 * p.blocks) * (size_t)p.bytes;                          \
    }

PACK_QUANT(Q4_0, q4_0, 32, 2)
PACK_QUANT(Q4_1, q4_1, 32, 1)
PACK_QUANT(Q5_0, q5_0, 32, 2)
PACK_QUANT(Q5_1, q5_1, 32, 1)
PACK_QUANT(Q8_0, q8_0, 32, 2)
PACK_QUANT(Q4_K, q4_k, 256, 1)
PACK_QUANT(Q5_K, q5_k, 256, 1)
PACK_QUANT(Q6_K, q6_k, 256, 1)

size_t fx_pack_tile_bytes_f32(int64_t k) { return (size_t)k * 64; }
size_t fx_pack_tile_bytes_f16(int64_t k) { return FX_ROUND_UP((size_t)k * 32, 64); }
size_t fx_pack_tile_bytes_bf16(int64_t k) { return FX_DIV_UP((size_t)k, 2) * 64; }

void fx_pack_tile_f32(const void *const rows[FX_TILE], int64_t k, void *tile)
{
    float *t = tile;

    for (int lane = 0; lane < FX_TILE; lane++) {
        const uint8_t *row = rows[lane];

        for (int64_t i = 0; i < k; i++) {
            if (row)
                memcpy(&t[i * 16 + lane], row + i * 4, 4);
            else
                t[i * 16 + lane] = 0;
        }
    }
}

void fx_pack_tile_f16(const void *const rows[FX_TILE], int64_t k, void *tile)
{
    memset(tile, 0, fx_pack_tile_bytes_f16(k));
    for (int lane = 0; lane < FX_TILE; lane++) {
        const uint8_t *row = rows[lane];

        for (int64_t i = 0; row && i < k; i++)
            memcpy((uint8_t *)tile + (i * 16 + lane) * 2, row + i * 2, 2);
    }
}

void fx_pack_tile_bf16(const void *const rows[FX_TILE], int64_t k, void *tile)
{
    memset(tile, 0, fx_pack_tile_bytes_bf16(k));
    for (int lane = 0; lane < FX_TILE; lane++) {
        const uint8_t *row = rows[lane];

        for (int64_t i = 0; row && i < k; i++)
            memcpy((uint8_t *)tile + ((i / 2 * 16 + lane) * 2 + i % 2) * 2, row + i * 2, 2);
    }
}
