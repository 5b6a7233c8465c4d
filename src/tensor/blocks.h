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
 *     TQ1_0   | qs 48 | qh 4 | d |                        x = d * (t - 1), t a ternary digit
 *     TQ2_0   | qs 64 | d |                               x = d * (q - 1), two bits
 *
 * Blocks of 256 with code books (grids.c): a code names the magnitudes of a group of
 * 8 elements (IQ1, IQ2) or 4 (IQ3).  s is a 4-bit number (3-bit: IQ1).  "signs 7" are seven
 * sign bits of 8 elements, the eighth being their parity.
 *
 *     IQ2_XXS | d | 8 x { codes 4 bytes | signs 7 x 4, s } |       x = d*(2s+1)/8 * m
 *     IQ2_XS  | d | 32 x { code 9 bits, signs 7 } | s of 16 |     the same
 *     IQ2_S   | d | code 8 bits x 32 | signs 32 | qh 8 | s of 16 | the same; upper two bits in qh
 *     IQ3_XXS | d | codes 64 | 8 x { signs 7 x 4, s } |            x = d*(2s+1)/4 * m
 *     IQ3_S   | d | code 8 bits x 64 | qh 8 | signs 32 | s 4 |      x = d*(2s+1) * m; ninth bit in qh
 *     IQ1_S   | d | code 8 bits x 32 | qh 16 bits x 8 |            x = d*(2s+1) * (m + delta)
 *             qh: 3 upper bits of each of 4 codes, s, sign of delta = 1/8
 *     IQ1_M   | code 8 bits x 32 | qh 16 | scales 16 bits x 4 |    the same, s of 16, delta of 8
 *             qh: 4 bits a code: its upper 3, sign of delta; d: the upper nibbles of the scales
 *
 * Blocks of 32 that no file holds: what the loader makes of checkpoints quantized by other
 * tools, whose scales belong to groups of 32 or more columns (format/requant.h).  d is f32.
 *
 *     GROUP4  | d | zero | qs 16 |          x = d * (q - zero), nibbles in halves
 *     GROUP8  | d | qs 32 |                 x = d * q, q signed
 *     GROUPF8 | d | qs 32 |                 x = d * q, q in E4M3
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
 *     TQ2_0       as Q2_K.
 *     TQ1_0       a byte holds five digits, the most significant first, as a fraction of 256:
 *                 digit n = (byte * 3^n mod 256) * 3 / 256.  Elements 0..159 are the digits of
 *                 the first 32 bytes (32 first digits, 32 second ...), 160..239 those of the
 *                 next 16, 240..255 four digits of each byte of qh.
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

typedef struct fx_block_iq2_xxs {
    uint16_t d;
    uint8_t qs[64];
} fx_block_iq2_xxs;

typedef struct fx_block_iq2_xs {
    uint16_t d;
    uint16_t qs[32];
    uint8_t scales[8];
} fx_block_iq2_xs;

typedef struct fx_block_iq2_s {
    uint16_t d;
    uint8_t qs[32];
    uint8_t signs[32];
    uint8_t qh[8];
    uint8_t scales[8];
} fx_block_iq2_s;

typedef struct fx_block_iq3_xxs {
    uint16_t d;
    uint8_t qs[64];
    uint8_t signs_scales[32];
} fx_block_iq3_xxs;

typedef struct fx_block_iq3_s {
    uint16_t d;
    uint8_t qs[64];
    uint8_t qh[8];
    uint8_t signs[32];
    uint8_t scales[4];
} fx_block_iq3_s;

typedef struct fx_block_iq1_s {
    uint16_t d;
    uint8_t qs[32];
    uint16_t qh[8];
} fx_block_iq1_s;

typedef struct fx_block_iq1_m {
    uint8_t qs[32];
    uint8_t qh[16];
    uint8_t scales[8];
} fx_block_iq1_m;

typedef struct fx_block_tq1_0 {
    uint8_t qs[48];
    uint8_t qh[4];
    uint16_t d;
} fx_block_tq1_0;

typedef struct fx_block_tq2_0 {
    uint8_t qs[64];
    uint16_t d;
} fx_block_tq2_0;

typedef struct fx_block_mxfp4 {
    uint8_t e;                   /* E8M0 */
    uint8_t qs[16];
} fx_block_mxfp4;

typedef struct fx_block_group4 {
    float d;
    uint8_t zero;
    uint8_t unused[3];
    uint8_t qs[16];
} fx_block_group4;

typedef struct fx_block_group8 {
    float d;
    int8_t qs[32];
} fx_block_group8;

typedef struct fx_block_groupf8 {
    float d;
    uint8_t qs[32];
} fx_block_groupf8;

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
_Static_assert(sizeof(fx_block_iq2_xxs) == 66, "block size");
_Static_assert(sizeof(fx_block_iq2_xs) == 74, "block size");
_Static_assert(sizeof(fx_block_iq2_s) == 82, "block size");
_Static_assert(sizeof(fx_block_iq3_xxs) == 98, "block size");
_Static_assert(sizeof(fx_block_iq3_s) == 110, "block size");
_Static_assert(sizeof(fx_block_iq1_s) == 50, "block size");
_Static_assert(sizeof(fx_block_iq1_m) == 56, "block size");
_Static_assert(sizeof(fx_block_tq1_0) == 54, "block size");
_Static_assert(sizeof(fx_block_tq2_0) == 66, "block size");
_Static_assert(sizeof(fx_block_group4) == 24, "block size");
_Static_assert(sizeof(fx_block_group8) == 36, "block size");
_Static_assert(sizeof(fx_block_groupf8) == 36, "block size");

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

/* The 6-bit scale of sub-block j (0..15) of Q3_K, before 32 is taken off. */
static inline int fx_k3_scale(const uint8_t s[12], int j)
{
    int low = j < 8 ? s[j] & 15 : s[j - 8] >> 4;

    return low | (s[8 + j % 4] >> (j / 4 * 2) & 3) << 4;
}

/* The ternary digit (0..2) of element i of a TQ1_0 block. */
static inline int fx_tq1_digit(const fx_block_tq1_0 *b, int i)
{
    static const uint8_t power[5] = { 1, 3, 9, 27, 81 };
    uint8_t byte = i < 160   ? (uint8_t)(b->qs[i % 32] * power[i / 32])
                   : i < 240 ? (uint8_t)(b->qs[32 + i % 16] * power[(i - 160) / 16])
                             : (uint8_t)(b->qh[i % 4] * power[(i - 240) / 4]);

    return byte * 3 >> 8;
}

/* What the four bits of IQ4_NL and IQ4_XS stand for. */
extern const int8_t fx_iq4_values[16];
/* The sixteen values of E2M1, doubled. */
extern const int8_t fx_mxfp4_values[16];

#endif
