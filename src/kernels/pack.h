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
 *     super block  | quants of its blocks, quant_bytes each | scales of its blocks, 32 or 64 each | d 16 | dmin 16 |
 *     quants       4 lines: line i has group i in the low nibbles, group i+4 in the high ones
 *                  Q8_0: 8 lines of bytes, value + 128
 *                  Q5: a 5th line of fifth bits: bit 8j + g of the lane is bit 4 of k = 4g + j
 *                  Q6_K: lines 5 and 6 of upper bits: line 5 + g/4, bits 2(g%4) of byte j
 *     scales       Q4_0 Q5_0 Q8_0: 16 f16 d.  Q4_1 Q5_1: 16 f16 d, 16 f16 m.
 *                  Q4_K Q5_K: 16 u8 sc, 16 u8 mn.  Q6_K: 16 s8 sc of k < 16, 16 s8 of the rest
 *     d, dmin      K types: f16, of the super block
 *
 * A value is, as in tensor/blocks.h, d*(q - bias), d*q + m, d*sc*q - dmin*mn or d*sc*(q - 32).
 * A last super block that k doesn't fill is padded with zeros. */
#ifndef FX_PACK_H
#define FX_PACK_H

#include "kernels/kernels.h"

#define FX_TILE 16                   /* rows of a tile */

typedef enum fx_pack_form {
    FX_PACK_D,                       /* d*(q - bias) */
    FX_PACK_DM,                      /* d*q + m */
    FX_PACK_K,                       /* d*sc*q - dmin*mn */
    FX_PACK_K16                      /* d*sc*(q - bias), two sc a block */
} fx_pack_form;

typedef struct fx_pack {
    fx_pack_form form;
    int bits;                        /* 4, 5, 6, 8 */
    int bias_shift;                  /* bias = 1 << bias_shift; forms D and K16 */
    int blocks;                      /* of 32 k in a super block */
    int quant_bytes;                 /* of a block's lines */
    int scales_at, scale_bytes;      /* in the super block; a block's */
    int d_at;                        /* K forms; dmin 32 bytes behind */
    int bytes;                       /* of the super block, a multiple of 64 */
} fx_pack;

/* As an inline switch, so that kernels made for one type see constants. */
static FX_ALWAYS_INLINE fx_pack fx_pack_of(fx_dtype t)
{
    switch (t) {
    case FX_Q4_0: return (fx_pack){ FX_PACK_D, 4, 3, 2, 256, 512, 32, 0, 576 };
    case FX_Q4_1: return (fx_pack){ FX_PACK_DM, 4, 0, 1, 256, 256, 64, 0, 320 };
    case FX_Q5_0: return (fx_pack){ FX_PACK_D, 5, 4, 2, 320, 640, 32, 0, 704 };
    case FX_Q5_1: return (fx_pack){ FX_PACK_DM, 5, 0, 1, 320, 320, 64, 0, 384 };
    case FX_Q8_0: return (fx_pack){ FX_PACK_D, 8, 7, 2, 512, 1024, 32, 0, 1088 };
    case FX_Q4_K: return (fx_pack){ FX_PACK_K, 4, 0, 8, 256, 2048, 32, 2304, 2368 };
    case FX_Q5_K: return (fx_pack){ FX_PACK_K, 5, 0, 8, 320, 2560, 32, 2816, 2880 };
    case FX_Q6_K: return (fx_pack){ FX_PACK_K16, 6, 5, 8, 384, 3072, 32, 3328, 3392 };
    default: return (fx_pack){ 0 };
    }
}


/* For each type: bytes of a tile (a multiple of 64), and the packing of one from
 * rows[i]: row i in its file form, k values; NULL: zeros. */
#define FX_PACK_PLAIN(X) X(F32, f32) X(F16, f16) X(BF16, bf16)
#define FX_PACK_QUANT(X)                                                          \
    X(Q4_0, q4_0) X(Q4_1, q4_1) X(Q5_0, q5_0) X(Q5_1, q5_1) X(Q8_0, q8_0)          \
    X(Q4_K, q4_k) X(Q5_K, q5_k) X(Q6_K, q6_k)
#define FX_PACK_DECLARE(T, t)                                                     \
    size_t fx_pack_tile_bytes_##t(int64_t k);                                      \
    void fx_pack_tile_##t(const void *const rows[FX_TILE], int64_t k, void *tile);
FX_PACK_PLAIN(FX_PACK_DECLARE)
FX_PACK_QUANT(FX_PACK_DECLARE)
#undef FX_PACK_DECLARE

#endif
