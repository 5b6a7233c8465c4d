/* blocks.h - the quantized blocks of GGML, byte for byte as they stand in files.
 *
 * All numbers are little-endian.  d, dmin, m are f16 unless said otherwise; x is the
 * value that a block stands for, q the integer of element i.
 *
 * Blocks of 32 elements.  Nibbles are split in halves, not interleaved:
 *
 *     byte of qs:    0        1       ...     15
 *     low nibble   elem 0   elem 1    ...   elem 15
 *     high nibble  elem 16  elem 17   ...   elem 31
 *
 *     Q4_0    | d | qs 16 |                 x = d * (q - 8)
 *     Q4_1    | d | m | qs 16 |             x = d * q + m
 *     Q5_0    | d | qh 4 | qs 16 |          x = d * (q - 16), bit i of qh is bit 4 of q
 *     Q5_1    | d | m | qh 4 | qs 16 |      x = d * q + m
 *     Q8_0    | d | qs 32 |                 x = d * q, q signed
 *     IQ4_NL  | d | qs 16 |                 x = d * table[q]
 *     MXFP4   | e | qs 16 |                 x = 2^(e-128) * table[q]; table holds doubled E2M1
 *
 * Blocks of 256 elements ("K"): sub-blocks with small integer scales, which are scaled
 * in turn by the block's d (and dmin).  sc and mn belong to the element's sub-block.
 *
 *     Q2_K    | scales 16 | qs 64 | d | dmin |           16 sub-blocks of 16
 *             x = d*sc * q - dmin*mn;  scale byte: sc low nibble, mn high nibble
 *     Q3_K    | hmask 32 | qs 64 | scales 12 | d |       16 sub-blocks of 16
 *             x = d*(sc-32) * (q - 4), bit 2 of q is in hmask; 6-bit scales
 *     Q4_K    | d | dmin | scales 12 | qs 128 |          8 sub-blocks of 32
 *             x = d*sc * q - dmin*mn;  6-bit sc and mn
 *     Q5_K    | d | dmin | scales 12 | qh 32 | qs 128 |  as Q4_K with a fifth bit in qh
 *     Q6_K    | ql 128 | qh 64 | scales 16 | d |         16 sub-blocks of 16
 *             x = d*sc * (q - 32), sc signed 8-bit
 *     IQ4_XS  | d | scales_h 2 | scales_l 4 | qs 128 |   8 sub-blocks of 32
 *             x = d*(sc-32) * table[q]
 *
 * Where the quants of a K block lie:
 *
 *     Q4_K, Q5_K  32 bytes of qs hold two sub-blocks: 64 elements j..j+63 are the low
 *                 nibbles of 32 bytes, then their high nibbles.  qh has one byte per
 *                 position in a sub-block, bit s for sub-block s.
 *     Q2_K, Q3_K  32 bytes of qs hold 128 elements, two bits each: bits 0-1 of the 32
 *                 bytes, then bits 2-3, 4-5, 6-7.  Q3_K: bit s of hmask[l] belongs to
 *                 element 32*s + l.
 *     Q6_K        halves of 128 elements: 64 bytes of ql, 32 of qh.
 *                   elem l       ql[l]    low    qh[l] bits 0-1      l = 0..31
 *                   elem l + 32  ql[l+32] low    qh[l] bits 2-3
 *                   elem l + 64  ql[l]    high   qh[l] bits 4-5
 *                   elem l + 96  ql[l+32] high   qh[l] bits 6-7
 *     IQ4_XS      each sub-block's 16 bytes are laid out like Q4_0's.
 *
 * The 12 scale bytes of Q4_K and Q5_K (capital letters sc, small mn; A for sub-block 0):
 *
 *      0 EEAAAAAA    4 eeaaaaaa     8 eeeeEEEE
 *      1 FFBBBBBB    5 ffbbbbbb     9 ffffFFFF
 *      2 GGCCCCCC    6 ggcccccc    10 ggggGGGG
 *      3 HHDDDDDD    7 hhdddddd    11 hhhhHHHH
 *
 * and of Q3_K (A..P for sub-blocks 0..15):
 *
 *      0 IIIIAAAA    4 MMMMEEEE     8 MMIIEEAA
 *      1 JJJJBBBB    5 NNNNFFFF     9 NNJJFFBB
 *      2 KKKKCCCC    6 OOOOGGGG    10 OOKKGGCC
 *      3 LLLLDDDD    7 PPPPHHHH    11 PPLLHHDD */
#ifndef FX_BLOCKS_H
#define FX_BLOCKS_H

#include <stdint.h>

#define FX_QK 32                 /* elements in a small block */
#define FX_QK_K 256              /* elements in a K block */

typedef struct fx_block_q4_0 {
    uint16_t d;
    uint8_t qs[16];
} fx_block_q4_0;

typedef struct fx_block_q4_1 {
    uint16_t d, m;
    uint8_t qs[16];
} fx_block_q4_1;

typedef struct fx_block_q5_0 {
    uint16_t d;
    uint8_t qh[4];
    uint8_t qs[16];
} fx_block_q5_0;

typedef struct fx_block_q5_1 {
    uint16_t d, m;
    uint8_t qh[4];
    uint8_t qs[16];
} fx_block_q5_1;

typedef struct fx_block_q8_0 {
    uint16_t d;
    int8_t qs[32];
} fx_block_q8_0;

typedef struct fx_block_q2_k {
    uint8_t scales[16];
    uint8_t qs[64];
    uint16_t d, dmin;
} fx_block_q2_k;

typedef struct fx_block_q3_k {
    uint8_t hmask[32];
    uint8_t qs[64];
    uint8_t scales[12];
    uint16_t d;
} fx_block_q3_k;

typedef struct fx_block_q4_k {
    uint16_t d, dmin;
    uint8_t scales[12];
    uint8_t qs[128];
} fx_block_q4_k;

typedef struct fx_block_q5_k {
    uint16_t d, dmin;
    uint8_t scales[12];
    uint8_t qh[32];
    uint8_t qs[128];
} fx_block_q5_k;

typedef struct fx_block_q6_k {
    uint8_t ql[128];
    uint8_t qh[64];
    int8_t scales[16];
    uint16_t d;
} fx_block_q6_k;

typedef struct fx_block_iq4_nl {
    uint16_t d;
    uint8_t qs[16];
} fx_block_iq4_nl;

typedef struct fx_block_iq4_xs {
    uint16_t d;
    uint16_t scales_h;           /* two bits a sub-block */
    uint8_t scales_l[4];         /* four bits a sub-block */
    uint8_t qs[128];
} fx_block_iq4_xs;

typedef struct fx_block_mxfp4 {
    uint8_t e;                   /* E8M0 */
    uint8_t qs[16];
} fx_block_mxfp4;

_Static_assert(sizeof(fx_block_q4_0) == 18, "block size");
_Static_assert(sizeof(fx_block_q4_1) == 20, "block size");
_Static_assert(sizeof(fx_block_q5_0) == 22, "block size");
_Static_assert(sizeof(fx_block_q5_1) == 24, "block size");
_Static_assert(sizeof(fx_block_q8_0) == 34, "block size");
_Static_assert(sizeof(fx_block_q2_k) == 84, "block size");
_Static_assert(sizeof(fx_block_q3_k) == 110, "block size");
_Static_assert(sizeof(fx_block_q4_k) == 144, "block size");
_Static_assert(sizeof(fx_block_q5_k) == 176, "block size");
_Static_assert(sizeof(fx_block_q6_k) == 210, "block size");
_Static_assert(sizeof(fx_block_iq4_nl) == 18, "block size");
_Static_assert(sizeof(fx_block_iq4_xs) == 136, "block size");
_Static_assert(sizeof(fx_block_mxfp4) == 17, "block size");

/* sc and mn of sub-block j (0..7) of the 12 scale bytes of Q4_K and Q5_K. */
static inline void fx_k4_scale(const uint8_t s[12], int j, uint8_t *sc, uint8_t *mn)
{
    if (j < 4) {
        *sc = s[j] & 63;
        *mn = s[j + 4] & 63;
    } else {
        *sc = (uint8_t)((s[j + 4] & 15) | (s[j - 4] >> 6 << 4));
        *mn = (uint8_t)((s[j + 4] >> 4) | (s[j] >> 6 << 4));
    }
}

/* What the four bits of IQ4_NL and IQ4_XS stand for. */
extern const int8_t fx_iq4_values[16];
/* The sixteen values of E2M1, doubled. */
extern const int8_t fx_mxfp4_values[16];

#endif
