/* pack.c - puts 16 rows of weights, as they stand in a file, into a tile (pack.h).
 *
 * Most types are near enough to the tile's layout that a lane's line is made of whole
 * 32-bit words of the block: a Q4_0 tile is a transpose of words. */
#include "kernels/pack.h"

#include "tensor/blocks.h"
#include "tensor/grids.h"

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

/* Of block i of a super block. */
static uint8_t *quants_of(uint8_t *super, fx_dtype t, int i) { return super + fx_pack_quants_at(fx_pack_of(t), i); }
static uint8_t *scales_of(uint8_t *super, fx_dtype t, int i) { return super + fx_pack_scales_at(fx_pack_of(t), i); }

/* Two bytes for each row, one behind the 16 of the other. */
static void put_scales(uint8_t *scales, int lane, uint8_t a, uint8_t b)
{
    scales[lane] = a;
    scales[FX_TILE + lane] = b;
}

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

/* The third or fifth bits of the 32 k whose bits are bit i of 32 bytes. */
static uint32_t gather_high(const uint8_t *bits, int i)
{
    uint32_t v = 0;

    for (int g = 0; g < 8; g++)
        v |= (load32(bits + 4 * g) >> i & 0x01010101u) << g;
    return v;
}

static void put_q4_0(uint8_t *super, int lane, const fx_block_q4_0 *b, int i)
{
    put_nibbles(quants_of(super, FX_Q4_0, i), lane, b->qs);
    put16(scales_of(super, FX_Q4_0, i), lane, b->d);
}

static void put_q4_1(uint8_t *super, int lane, const fx_block_q4_1 *b, int i)
{
    put_nibbles(quants_of(super, FX_Q4_1, i), lane, b->qs);
    put16(scales_of(super, FX_Q4_1, i), lane, b->d);
    put16(scales_of(super, FX_Q4_1, i) + 32, lane, b->m);
}

static void put_q5_0(uint8_t *super, int lane, const fx_block_q5_0 *b, int i)
{
    put_nibbles(quants_of(super, FX_Q5_0, i), lane, b->qs);
    put32(quants_of(super, FX_Q5_0, i), 4, lane, spread_high(load32(b->qh)));
    put16(scales_of(super, FX_Q5_0, i), lane, b->d);
}

static void put_q5_1(uint8_t *super, int lane, const fx_block_q5_1 *b, int i)
{
    put_nibbles(quants_of(super, FX_Q5_1, i), lane, b->qs);
    put32(quants_of(super, FX_Q5_1, i), 4, lane, spread_high(load32(b->qh)));
    put16(scales_of(super, FX_Q5_1, i), lane, b->d);
    put16(scales_of(super, FX_Q5_1, i) + 32, lane, b->m);
}

static void put_q8_0(uint8_t *super, int lane, const fx_block_q8_0 *b, int i)
{
    for (int g = 0; g < 8; g++)
        put32(quants_of(super, FX_Q8_0, i), g, lane, load32(b->qs + 4 * g) ^ 0x80808080u);
    put16(scales_of(super, FX_Q8_0, i), lane, b->d);
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

static void put_q4_k(uint8_t *super, int lane, const fx_block_q4_k *b, int unused)
{
    (void)unused;
    for (int i = 0; i < 8; i++) {
        uint8_t *scales = scales_of(super, FX_Q4_K, i);

        put_sub_nibbles(quants_of(super, FX_Q4_K, i), lane, b->qs + i / 2 * 32, i % 2);
        fx_k4_scale(b->scales, i, scales + lane, scales + FX_TILE + lane);
    }
    put16(super, lane, b->d);
    put16(super + 32, lane, b->dmin);
}

static void put_q5_k(uint8_t *super, int lane, const fx_block_q5_k *b, int unused)
{
    (void)unused;
    for (int i = 0; i < 8; i++) {
        uint8_t *scales = scales_of(super, FX_Q5_K, i);

        put_sub_nibbles(quants_of(super, FX_Q5_K, i), lane, b->qs + i / 2 * 32, i % 2);
        put32(quants_of(super, FX_Q5_K, i), 4, lane, gather_high(b->qh, i));
        fx_k4_scale(b->scales, i, scales + lane, scales + FX_TILE + lane);
    }
    put16(super, lane, b->d);
    put16(super + 32, lane, b->dmin);
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
        put_q6_sub(quants_of(super, FX_Q6_K, i), lane, b->ql + i / 4 * 64, b->qh + i / 4 * 32, i % 4);
        put_scales(scales_of(super, FX_Q6_K, i), lane, (uint8_t)b->scales[2 * i], (uint8_t)b->scales[2 * i + 1]);
    }
    put16(super, lane, b->d);
}

/* Two lines of two-bit codes, which are bits 2c and 2c + 1 of 32 bytes. */
static void put_pairs(uint8_t *quants, int lane, const uint8_t *qs, int c)
{
    uint32_t v[2] = { 0, 0 };

    for (int g = 0; g < 8; g++)
        v[g % 2] |= (load32(qs + 4 * g) >> 2 * c & 0x03030303u) << g / 2 * 2;
    put32(quants, 0, lane, v[0]);
    put32(quants, 1, lane, v[1]);
}

static void put_q2_k(uint8_t *super, int lane, const fx_block_q2_k *b, int unused)
{
    (void)unused;
    for (int i = 0; i < 8; i++) {
        put_pairs(quants_of(super, FX_Q2_K, i), lane, b->qs + i / 4 * 32, i % 4);
        put_scales(scales_of(super, FX_Q2_K, i), lane, b->scales[2 * i], b->scales[2 * i + 1]);
    }
    put16(super, lane, b->d);
    put16(super + 32, lane, b->dmin);
}

/* d * (q - 1) as d*1*q - d*1 */
static void put_ternary(uint8_t *super, int lane, const uint8_t qs[64], uint16_t d)
{
    fx_block_q2_k b = { .d = d, .dmin = d };

    memcpy(b.qs, qs, sizeof(b.qs));
    memset(b.scales, 0x11, sizeof(b.scales));
    put_q2_k(super, lane, &b, 0);
}

static void put_tq2_0(uint8_t *super, int lane, const fx_block_tq2_0 *b, int unused)
{
    (void)unused;
    put_ternary(super, lane, b->qs, b->d);
}

static void put_tq1_0(uint8_t *super, int lane, const fx_block_tq1_0 *b, int unused)
{
    uint8_t qs[64] = { 0 };

    (void)unused;
    for (int i = 0; i < 256; i++)
        qs[i / 128 * 32 + i % 32] |= (uint8_t)(fx_tq1_digit(b, i) << i % 128 / 32 * 2);
    put_ternary(super, lane, qs, b->d);
}

static void put_q3_k(uint8_t *super, int lane, const fx_block_q3_k *b, int unused)
{
    (void)unused;
    for (int i = 0; i < 8; i++) {
        put_pairs(quants_of(super, FX_Q3_K, i), lane, b->qs + i / 4 * 32, i % 4);
        put32(quants_of(super, FX_Q3_K, i), 2, lane, gather_high(b->hmask, i));
        put_scales(scales_of(super, FX_Q3_K, i), lane, (uint8_t)(fx_k3_scale(b->scales, 2 * i) - 32),
                   (uint8_t)(fx_k3_scale(b->scales, 2 * i + 1) - 32));
    }
    put16(super, lane, b->d);
}

static void put_iq4_nl(uint8_t *super, int lane, const fx_block_iq4_nl *b, int i)
{
    put_nibbles(quants_of(super, FX_IQ4_NL, i), lane, b->qs);
    put16(scales_of(super, FX_IQ4_NL, i), lane, b->d);
}

/* 2^(e - 128) is a bf16, subnormal below e = 2. */
static void put_mxfp4(uint8_t *super, int lane, const fx_block_mxfp4 *b, int i)
{
    put_nibbles(quants_of(super, FX_MXFP4, i), lane, b->qs);
    put16(scales_of(super, FX_MXFP4, i), lane, (uint16_t)(b->e < 2 ? 0x20 << b->e : (b->e - 1) << 7));
}

static void put_group4(uint8_t *super, int lane, const fx_block_group4 *b, int i)
{
    put_nibbles(quants_of(super, FX_GROUP4, i), lane, b->qs);
    memcpy(scales_of(super, FX_GROUP4, i) + lane * 4, &b->d, 4);
    super[fx_pack_d_at(fx_pack_of(FX_GROUP4), i) + lane] = b->zero;
}

static void put_group8(uint8_t *super, int lane, const fx_block_group8 *b, int i)
{
    for (int g = 0; g < 8; g++)
        put32(quants_of(super, FX_GROUP8, i), g, lane, load32(b->qs + 4 * g) ^ 0x80808080u);
    memcpy(scales_of(super, FX_GROUP8, i) + lane * 4, &b->d, 4);
}

/* A block of grids.h: its integers as indices into the type's table, which goes along. */
static void put_grid(uint8_t *super, int lane, fx_dtype type, const void *block)
{
    const fx_pack p = fx_pack_of(fx_grid_scales_16(type) ? FX_IQ2_XS : FX_IQ4_XS);
    const int8_t *values = fx_grid_values(type);
    float factor = fx_grid_factor(type);
    uint8_t index[256] = { 0 }, qs[16];
    fx_grid_block b;
    uint16_t d;

    for (int i = 15; i >= 0; i--)
        index[(uint8_t)values[i]] = (uint8_t)i;
    fx_grid_expand(type, block, &b);
    for (int i = 0; i < 8; i++) {
        for (int l = 0; l < 16; l++)
            qs[l] = (uint8_t)(index[(uint8_t)b.v[32 * i + l]] | index[(uint8_t)b.v[32 * i + 16 + l]] << 4);
        put_nibbles(super + fx_pack_quants_at(p, i), lane, qs);
        super[fx_pack_scales_at(p, i) + lane] = (uint8_t)b.scale[2 * i];
        if (p.form == FX_PACK_K16)
            super[fx_pack_scales_at(p, i) + FX_TILE + lane] = (uint8_t)b.scale[2 * i + 1];
    }
    d = fx_f32_to_f16(b.d);              /* it was one */
    put16(super, lane, d);
    for (int i = 0; i < 16; i++)
        super[FX_PACK_TABLE_AT + i] = (uint8_t)(values[i] + 128);
    memcpy(super + FX_PACK_FACTOR_AT, &factor, 4);
}

#define PUT_GRID(T, t)                                                                          \
    static void put_##t(uint8_t *super, int lane, const fx_block_##t *b, int unused)           \
    {                                                                                          \
        (void)unused;                                                                          \
        put_grid(super, lane, FX_##T, b);                                                      \
    }
PUT_GRID(IQ4_XS, iq4_xs)
PUT_GRID(IQ1_S, iq1_s)
PUT_GRID(IQ1_M, iq1_m)
PUT_GRID(IQ2_XXS, iq2_xxs)
PUT_GRID(IQ2_XS, iq2_xs)
PUT_GRID(IQ2_S, iq2_s)
PUT_GRID(IQ3_XXS, iq3_xxs)
PUT_GRID(IQ3_S, iq3_s)

/* As: the type whose layout it is. file_elems: of a block of the file. */
#define PACK_QUANT(t, As, file_elems)                                                          \
    void fx_pack_tile_##t(const void *const rows[FX_TILE], int64_t k, void *tile)              \
    {                                                                                          \
        const size_t super_bytes = (size_t)fx_pack_of(FX_##As).bytes;                          \
        const int64_t n = k / (file_elems), file_blocks = fx_pack_of(FX_##As).blocks * 32 / (file_elems); \
                                                                                               \
        memset(tile, 0, fx_pack_tile_bytes_##t(k));                                            \
        for (int lane = 0; lane < FX_TILE; lane++) {                                           \
            const fx_block_##t *b = rows[lane];                                                \
                                                                                               \
            for (int64_t i = 0; b && i < n; i++)                                               \
                put_##t((uint8_t *)tile + (size_t)(i / file_blocks) * super_bytes, lane, b + i, \
                        (int)(i % file_blocks));                                               \
        }                                                                                      \
    }                                                                                          \
    size_t fx_pack_tile_bytes_##t(int64_t k)                                                   \
    {                                                                                          \
        const fx_pack p = fx_pack_of(FX_##As);                                                 \
                                                                                               \
        return (size_t)FX_DIV_UP(k, 32 * p.blocks) * (size_t)p.bytes;                          \
    }

PACK_QUANT(q4_0, Q4_0, 32)
PACK_QUANT(q4_1, Q4_1, 32)
PACK_QUANT(q5_0, Q5_0, 32)
PACK_QUANT(q5_1, Q5_1, 32)
PACK_QUANT(q8_0, Q8_0, 32)
PACK_QUANT(iq4_nl, IQ4_NL, 32)
PACK_QUANT(mxfp4, MXFP4, 32)
PACK_QUANT(group4, GROUP4, 32)
PACK_QUANT(group8, GROUP8, 32)
PACK_QUANT(q2_k, Q2_K, 256)
PACK_QUANT(q3_k, Q3_K, 256)
PACK_QUANT(q4_k, Q4_K, 256)
PACK_QUANT(q5_k, Q5_K, 256)
PACK_QUANT(q6_k, Q6_K, 256)
PACK_QUANT(tq1_0, Q2_K, 256)
PACK_QUANT(tq2_0, Q2_K, 256)
PACK_QUANT(iq4_xs, IQ4_XS, 256)
PACK_QUANT(iq1_s, IQ4_XS, 256)
PACK_QUANT(iq2_xxs, IQ4_XS, 256)
PACK_QUANT(iq3_xxs, IQ4_XS, 256)
PACK_QUANT(iq3_s, IQ4_XS, 256)
PACK_QUANT(iq1_m, IQ2_XS, 256)
PACK_QUANT(iq2_xs, IQ2_XS, 256)
PACK_QUANT(iq2_s, IQ2_XS, 256)

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
