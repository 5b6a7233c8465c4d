/* grids.c - expands blocks of the IQ types (layouts in blocks.h).
 *
 * A code book entry holds the magnitudes of 8 (IQ2) or 4 (IQ3) elements; signs stand
 * apart, eight to a byte, or seven bits of which the eighth is the parity.  IQ1's
 * entries are signed themselves and shifted by an eighth. */
#include "tensor/grids.h"

#include "tensor/blocks.h"
#include "tensor/grid_books.def"

typedef struct grid_type {
    int8_t values[16];
    float factor;
    bool scales_16;
    void (*expand)(const void *block, fx_grid_block *out);
} grid_type;

static const int8_t magnitudes_2[4] = { 8, 25, 43, 0 };
static const int8_t magnitudes_3xxs[8] = { 4, 12, 20, 28, 36, 44, 52, 62 };

static uint32_t load32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void set_scales_32(fx_grid_block *o, int ib, int scale)
{
    o->scale[2 * ib] = o->scale[2 * ib + 1] = (int8_t)scale;
}

/* Eight elements of an IQ2 entry. */
static void put_2(int8_t v[8], uint16_t entry, uint8_t signs)
{
    for (int i = 0; i < 8; i++) {
        int m = magnitudes_2[entry >> 2 * i & 3];

        v[i] = (int8_t)(signs >> i & 1 ? -m : m);
    }
}

/* Eight elements of two IQ3 entries. */
static void put_3(int8_t v[8], uint16_t first, uint16_t second, uint8_t signs, const int8_t *magnitudes)
{
    for (int i = 0; i < 8; i++) {
        int code = (i < 4 ? first >> 4 * i : second >> 4 * (i - 4)) & 7;
        int m = magnitudes ? magnitudes[code] : 2 * code + 1;

        v[i] = (int8_t)(signs >> i & 1 ? -m : m);
    }
}

/* Seven signs; the eighth makes their number even. */
static uint8_t even_signs(uint32_t seven)
{
    uint32_t s = seven & 127, p = s ^ s >> 4;

    p ^= p >> 2;
    p ^= p >> 1;
    return (uint8_t)(s | (p & 1) << 7);
}

static void expand_iq2_xxs(const void *block, fx_grid_block *o)
{
    const fx_block_iq2_xxs *b = block;

    o->d = fx_f16_to_f32(b->d);
    for (int ib = 0; ib < 8; ib++) {
        const uint8_t *q = b->qs + 8 * ib;
        uint32_t aux = load32(q + 4);

        set_scales_32(o, ib, (int)(2 * (aux >> 28) + 1));
        for (int g = 0; g < 4; g++)
            put_2(o->v + 32 * ib + 8 * g, grid_iq2_xxs[q[g]], even_signs(aux >> 7 * g));
    }
}

static void expand_iq2_xs(const void *block, fx_grid_block *o)
{
    const fx_block_iq2_xs *b = block;

    o->d = fx_f16_to_f32(b->d);
    for (int i = 0; i < 16; i++)
        o->scale[i] = (int8_t)(2 * (b->scales[i / 2] >> i % 2 * 4 & 15) + 1);
    for (int g = 0; g < 32; g++)
        put_2(o->v + 8 * g, grid_iq2_xs[b->qs[g] & 511], even_signs(b->qs[g] >> 9));
}

static void expand_iq2_s(const void *block, fx_grid_block *o)
{
    const fx_block_iq2_s *b = block;

    o->d = fx_f16_to_f32(b->d);
    for (int i = 0; i < 16; i++)
        o->scale[i] = (int8_t)(2 * (b->scales[i / 2] >> i % 2 * 4 & 15) + 1);
    for (int g = 0; g < 32; g++) {
        int high = b->qh[g / 4] >> g % 4 * 2 & 3;

        put_2(o->v + 8 * g, grid_iq2_s[b->qs[g] | high << 8], b->signs[g]);
    }
}

static void expand_iq3_xxs(const void *block, fx_grid_block *o)
{
    const fx_block_iq3_xxs *b = block;

    o->d = fx_f16_to_f32(b->d);
    for (int ib = 0; ib < 8; ib++) {
        const uint8_t *q = b->qs + 8 * ib;
        uint32_t aux = load32(b->signs_scales + 4 * ib);

        set_scales_32(o, ib, (int)(2 * (aux >> 28) + 1));
        for (int g = 0; g < 4; g++)
            put_3(o->v + 32 * ib + 8 * g, grid_iq3_xxs[q[2 * g]], grid_iq3_xxs[q[2 * g + 1]],
                  even_signs(aux >> 7 * g), magnitudes_3xxs);
    }
}

static void expand_iq3_s(const void *block, fx_grid_block *o)
{
    const fx_block_iq3_s *b = block;

    o->d = fx_f16_to_f32(b->d);
    for (int ib = 0; ib < 8; ib++) {
        const uint8_t *q = b->qs + 8 * ib;

        set_scales_32(o, ib, 2 * (b->scales[ib / 2] >> ib % 2 * 4 & 15) + 1);
        for (int g = 0; g < 4; g++) {
            int first = q[2 * g] | (b->qh[ib] >> 2 * g & 1) << 8;
            int second = q[2 * g + 1] | (b->qh[ib] >> (2 * g + 1) & 1) << 8;

            put_3(o->v + 32 * ib + 8 * g, grid_iq3_s[first], grid_iq3_s[second], b->signs[4 * ib + g], NULL);
        }
    }
}

/* Eight times the elements of an entry -1, 0, 1 that are shifted by an eighth. */
static void put_1(int8_t v[8], uint16_t entry, bool down)
{
    for (int i = 0; i < 8; i++)
        v[i] = (int8_t)(8 * ((int)(entry >> 2 * i & 3) - 1) + (down ? -1 : 1));
}

static void expand_iq1_s(const void *block, fx_grid_block *o)
{
    const fx_block_iq1_s *b = block;

    o->d = fx_f16_to_f32(b->d);
    for (int ib = 0; ib < 8; ib++) {
        int qh = b->qh[ib];

        set_scales_32(o, ib, 2 * (qh >> 12 & 7) + 1);
        for (int g = 0; g < 4; g++)
            put_1(o->v + 32 * ib + 8 * g, grid_iq1[b->qs[4 * ib + g] | (qh >> 3 * g & 7) << 8], qh >> 15 & 1);
    }
}

static void expand_iq1_m(const void *block, fx_grid_block *o)
{
    const fx_block_iq1_m *b = block;
    uint16_t s[4], d = 0;

    for (int i = 0; i < 4; i++) {
        s[i] = (uint16_t)(b->scales[2 * i] | b->scales[2 * i + 1] << 8);
        d = (uint16_t)(d | s[i] >> 12 << 4 * i);
    }
    o->d = fx_f16_to_f32(d);
    for (int i = 0; i < 16; i++)
        o->scale[i] = (int8_t)(2 * (s[i / 4] >> i % 4 * 3 & 7) + 1);
    for (int g = 0; g < 32; g++) {
        int qh = b->qh[g / 2] >> g % 2 * 4;

        put_1(o->v + 8 * g, grid_iq1[b->qs[g] | (qh & 7) << 8], qh >> 3 & 1);
    }
}

static void expand_iq4_xs(const void *block, fx_grid_block *o)
{
    const fx_block_iq4_xs *b = block;

    o->d = fx_f16_to_f32(b->d);
    for (int ib = 0; ib < 8; ib++) {
        int low = b->scales_l[ib / 2] >> ib % 2 * 4 & 15;

        set_scales_32(o, ib, (low | (b->scales_h >> 2 * ib & 3) << 4) - 32);
        for (int i = 0; i < 16; i++) {
            o->v[32 * ib + i] = fx_iq4_values[b->qs[16 * ib + i] & 15];
            o->v[32 * ib + 16 + i] = fx_iq4_values[b->qs[16 * ib + i] >> 4];
        }
    }
}

#define VALUES_IQ1 { -9, -7, -1, 1, 7, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9 }
#define VALUES_IQ2 { -43, -25, -8, 8, 25, 43, 43, 43, 43, 43, 43, 43, 43, 43, 43, 43 }

static const grid_type types[FX_DTYPE_COUNT] = {
    [FX_IQ1_S] = { VALUES_IQ1, 0.125f, false, expand_iq1_s },
    [FX_IQ1_M] = { VALUES_IQ1, 0.125f, true, expand_iq1_m },
    [FX_IQ2_XXS] = { VALUES_IQ2, 0.125f, false, expand_iq2_xxs },
    [FX_IQ2_XS] = { VALUES_IQ2, 0.125f, true, expand_iq2_xs },
    [FX_IQ2_S] = { VALUES_IQ2, 0.125f, true, expand_iq2_s },
    [FX_IQ3_XXS] = { { -62, -52, -44, -36, -28, -20, -12, -4, 4, 12, 20, 28, 36, 44, 52, 62 },
                     0.25f, false, expand_iq3_xxs },
    [FX_IQ3_S] = { { -15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15 }, 1, false, expand_iq3_s },
    [FX_IQ4_XS] = { { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 },
                    1, false, expand_iq4_xs },
};

bool fx_grid_has(fx_dtype t) { return (unsigned)t < FX_DTYPE_COUNT && types[t].expand; }
const int8_t *fx_grid_values(fx_dtype t) { return types[t].values; }
bool fx_grid_scales_16(fx_dtype t) { return types[t].scales_16; }
float fx_grid_factor(fx_dtype t) { return types[t].factor; }

void fx_grid_expand(fx_dtype t, const void *block, fx_grid_block *out)
{
    FX_ASSERT(fx_grid_has(t));
    out->factor = types[t].factor;
    types[t].expand(block, out);
}
