/* pack.h - how the weights of a product lie in memory: tiles of 16 rows.
 *
 * Lane = row: every vector holds one value (or four bytes, or two halves) of each of the
 * 16 rows, so that a sum over k runs in one order whatever the number of x rows is.
 *
 * Plain types, one line (lane: row) after another:
 *     F32      k lines of 16 floats
 *     F16      k lines of 16 halves
 *     BF16     lines of 16 pairs: k even in the low, k odd in the high half; odd k: the last high half is 0
 *
 * Quantized types: blocks of 32 k, 'blocks' of them in a super block.  A line is 64 bytes:
 * a 32-bit lane per row, whose byte j belongs to k = 4g + j of the block, g = 0..7 the group.
 *
 *     super block  | head | unit | unit | ...
 *     unit         as many blocks as have their scales in one line: | that line | quants of each, quant_bytes |
 *                  (a unit's bytes are thus read in the order in which they lie: streams stay streams)
 *     quants       4 bits: 4 lines, line i has group i in the low nibbles, group i+4 in the high ones
 *                  5: a 5th line of fifth bits: bit 8j + g of the lane is bit 4 of k = 4g + j
 *                  6: lines 5 and 6 of upper bits: line 5 + g/4, bits 2(g%4) of byte j
 *                  8: 8 lines of bytes, value + 128
 *                  2: 2 lines, group g in bits 2(g/2) of the bytes of line g%2
 *                  3: a 3rd line of third bits, as fifth bits are
 *     scales       form D: 16 d (f16; MXFP4: bf16; GROUP8: f32).  DM: 16 f16 d, 16 f16 m.  DZ: 16 f32 d
 *                  K: 16 u8 sc, 16 u8 mn.  KS: 16 s8 sc.  K16: 16 s8 sc of k < 16, 16 s8 of the rest
 *                  K16M: the same with sc in the low nibble, mn in the high one
 *     head         K forms: a line with the super block's 16 f16 d, then 16 f16 dmin, or of types that have a table in
 *                  the tile: its 16 bytes, then a f32 factor of d.  DZ: 16 u8 zero of each block.  D, DM: none
 *
 * Codes of types with a table are looked up in it: a value + 128, as codes of 8 bits are.
 * A last super block that k doesn't fill is padded with zeros.
 *
 * Types of one form that differ in tables and scales only share a layout and a kernel: all
 * types of tensor/grids.h, whose codes become 4-bit indices whatever they take in the file
 * (4.4 or 4.6 bits a weight instead of 1.6 to 4.25), and the ternary ones (as Q2_K: 2.6). */
#ifndef FX_PACK_H
#define FX_PACK_H

#include "kernels/kernels.h"

#define FX_TILE 16                   /* rows of a tile */

typedef enum fx_pack_form {
    FX_PACK_D,                       /* d*(q - bias) */
    FX_PACK_DM,                      /* d*q + m */
    FX_PACK_DZ,                      /* d*(q - zero) */
    FX_PACK_K,                       /* d*sc*q - dmin*mn */
    FX_PACK_KS,                      /* d*sc*(q - bias) */
    FX_PACK_K16,                     /* d*sc*(q - bias), two sc a block */
    FX_PACK_K16M                     /* d*sc*q - dmin*mn, two sc and mn a block */
} fx_pack_form;

typedef enum fx_pack_scale { FX_PACK_F16, FX_PACK_BF16, FX_PACK_F32 } fx_pack_scale;

typedef enum fx_pack_table { FX_PACK_CODES, FX_PACK_IQ4, FX_PACK_MXFP4, FX_PACK_IN_TILE } fx_pack_table;

typedef struct fx_pack {
    fx_pack_form form;
    int bits;                        /* 2, 3, 4, 5, 6, 8 */
    int bias_shift;                  /* bias = 1 << bias_shift; forms D, KS and K16 */
    int blocks;                      /* of 32 k in a super block */
    int quant_bytes;                 /* of a block's lines */
    int scale_bytes;                 /* of a block; 64, or as many blocks have one line */
    fx_pack_scale scale;             /* forms D, DM, DZ */
    fx_pack_table table;
    int head, unit, unit_bytes;      /* bytes; blocks; bytes */
    int bytes;                       /* of the super block, a multiple of 64 */
} fx_pack;

#define FX_PACK_TABLE_AT 32          /* in the head, behind d */
#define FX_PACK_FACTOR_AT 48

static FX_ALWAYS_INLINE fx_pack fx_pack_row(fx_pack_form form, int bits, int bias_shift, int blocks, int quant_bytes, int scale_bytes,
                                            fx_pack_scale scale, fx_pack_table table)
{
    int head = form == FX_PACK_D || form == FX_PACK_DM ? 0 : 64, unit = 64 / scale_bytes;

    return (fx_pack){ form, bits, bias_shift, blocks, quant_bytes, scale_bytes, scale, table, head, unit, unit * quant_bytes + 64,
                      head + blocks / unit * (unit * quant_bytes + 64) };
}

/* Where block i of a super block has its quants, and its scales. */
static FX_ALWAYS_INLINE int fx_pack_quants_at(const fx_pack p, int i) { return p.head + i / p.unit * p.unit_bytes + 64 + i % p.unit * p.quant_bytes; }
static FX_ALWAYS_INLINE int fx_pack_scales_at(const fx_pack p, int i)
{
    return p.head + i / p.unit * p.unit_bytes + i % p.unit * p.scale_bytes;
}
/* ... and its d, or its zeros. */
static FX_ALWAYS_INLINE int fx_pack_d_at(const fx_pack p, int i) { return p.form == FX_PACK_DZ ? i * FX_TILE : 0; }

/* As an inline switch, so that kernels made for one type see constants. */
static FX_ALWAYS_INLINE fx_pack fx_pack_of(fx_dtype t)
{
    switch (t) {
    case FX_Q4_0: return fx_pack_row(FX_PACK_D, 4, 3, 2, 256, 32, FX_PACK_F16, FX_PACK_CODES);
    case FX_Q4_1: return fx_pack_row(FX_PACK_DM, 4, 0, 1, 256, 64, FX_PACK_F16, FX_PACK_CODES);
    case FX_Q5_0: return fx_pack_row(FX_PACK_D, 5, 4, 2, 320, 32, FX_PACK_F16, FX_PACK_CODES);
    case FX_Q5_1: return fx_pack_row(FX_PACK_DM, 5, 0, 1, 320, 64, FX_PACK_F16, FX_PACK_CODES);
    case FX_Q8_0: return fx_pack_row(FX_PACK_D, 8, 7, 2, 512, 32, FX_PACK_F16, FX_PACK_CODES);
    case FX_IQ4_NL: return fx_pack_row(FX_PACK_D, 4, 7, 2, 256, 32, FX_PACK_F16, FX_PACK_IQ4);
    case FX_MXFP4: return fx_pack_row(FX_PACK_D, 4, 7, 2, 256, 32, FX_PACK_BF16, FX_PACK_MXFP4);
    case FX_GROUP8: return fx_pack_row(FX_PACK_D, 8, 7, 1, 512, 64, FX_PACK_F32, FX_PACK_CODES);
    case FX_GROUP4: return fx_pack_row(FX_PACK_DZ, 4, 0, 4, 256, 64, FX_PACK_F32, FX_PACK_CODES);
    case FX_Q2_K: return fx_pack_row(FX_PACK_K16M, 2, 0, 8, 128, 32, FX_PACK_F16, FX_PACK_CODES);
    case FX_Q3_K: return fx_pack_row(FX_PACK_K16, 3, 2, 8, 192, 32, FX_PACK_F16, FX_PACK_CODES);
    case FX_Q4_K: return fx_pack_row(FX_PACK_K, 4, 0, 8, 256, 32, FX_PACK_F16, FX_PACK_CODES);
    case FX_Q5_K: return fx_pack_row(FX_PACK_K, 5, 0, 8, 320, 32, FX_PACK_F16, FX_PACK_CODES);
    case FX_Q6_K: return fx_pack_row(FX_PACK_K16, 6, 5, 8, 384, 32, FX_PACK_F16, FX_PACK_CODES);
    /* of all types of grids.h with scales of 32, and of 16 */
    case FX_IQ4_XS: return fx_pack_row(FX_PACK_KS, 4, 7, 8, 256, 16, FX_PACK_F16, FX_PACK_IN_TILE);
    case FX_IQ2_XS: return fx_pack_row(FX_PACK_K16, 4, 7, 8, 256, 32, FX_PACK_F16, FX_PACK_IN_TILE);
    default: return (fx_pack){ 0 };
    }
}

/* Are the bytes that are multiplied a value + 128 (else small unsigned codes)? */
static FX_ALWAYS_INLINE bool fx_pack_wide(const fx_pack p) { return p.bits == 8 || p.table != FX_PACK_CODES; }

/* For each type: bytes of a tile (a multiple of 64), and the packing of one from
 * rows[i]: row i in its file form, k values; NULL: zeros. */
#define FX_PACK_PLAIN(X) X(F32, f32) X(F16, f16) X(BF16, bf16)
/* Types with a kernel of their own, and those that use another's: X(TYPE, type, that one). */
#define FX_PACK_QUANT(X)                                                          \
    X(Q4_0, q4_0) X(Q4_1, q4_1) X(Q5_0, q5_0) X(Q5_1, q5_1) X(Q8_0, q8_0)          \
    X(Q4_K, q4_k) X(Q5_K, q5_k) X(Q6_K, q6_k) X(Q2_K, q2_k) X(Q3_K, q3_k)          \
    X(IQ4_NL, iq4_nl) X(MXFP4, mxfp4) X(IQ4_XS, iq4_xs) X(IQ2_XS, iq2_xs)          \
    X(GROUP4, group4) X(GROUP8, group8)
#define FX_PACK_SHARED(X)                                                         \
    X(IQ1_S, iq1_s, iq4_xs) X(IQ2_XXS, iq2_xxs, iq4_xs) X(IQ3_XXS, iq3_xxs, iq4_xs) \
    X(IQ3_S, iq3_s, iq4_xs) X(IQ1_M, iq1_m, iq2_xs) X(IQ2_S, iq2_s, iq2_xs)         \
    X(TQ1_0, tq1_0, q2_k) X(TQ2_0, tq2_0, q2_k)
#define FX_PACK_DECLARE(T, t, ...)                                                \
    size_t fx_pack_tile_bytes_##t(int64_t k);                                      \
    void fx_pack_tile_##t(const void *const rows[FX_TILE], int64_t k, void *tile);
FX_PACK_PLAIN(FX_PACK_DECLARE)
FX_PACK_QUANT(FX_PACK_DECLARE)
FX_PACK_SHARED(FX_PACK_DECLARE)
#undef FX_PACK_DECLARE

#endif
