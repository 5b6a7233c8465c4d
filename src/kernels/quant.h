/* quant.h - rows of activations become int8 blocks (fx_q8, tensor/args.h).
 *
 * Kernels that produce rows and hand them on quantized (rmsnorm, attend) call fx_q8_put of
 * their level.  All levels give the same numbers:
 *
 *     d = max|x| / 127,  q = x * (1 / d) rounded to nearest even, in blocks of 32 along k
 *
 * A block with a NaN or an infinity has d = NaN and q = 0; one whose max|x| is below
 * FX_Q8_TINY is all zeros, d too.
 *
 * Layout: rows lie in panels of at most FX_Q8_PANEL rows, as equal as possible (fx_q8_panel),
 * so that a product can broadcast from consecutive memory.  In a panel of width w, block
 * after block:
 *
 *     | 8 groups of w words: word r of group g holds the q of k = 4g..4g+3 of row r |
 *     | w floats d | w int32 -(sum of the q) | w int32 -(sum of the q of k < 16)    |
 *
 * A row of n_rows == 1 is thus contiguous.  Sums are negated because what products need
 * is -bias * sum, by which they start. */
#ifndef FX_QUANT_H
#define FX_QUANT_H

#include "kernels/kernel_set.h"

#define FX_Q8_PANEL 14
#define FX_Q8_WORDS 11               /* 32-bit words a block and row */
#define FX_Q8_TINY 0x1p-96f

/* q8's columns [col0, col0 + n) of rows [row, row + m) of 'n_rows' = x; whole blocks. They may be put in any order and by any
 * thread, but rows of a panel share cache lines: give a thread whole panels where it matters. */
void fx_q8_put(const fx_q8 *q8, int64_t n_rows, int64_t row, int64_t m, int64_t col0, int64_t n, fx_cmat x);
void fx_q8_put_avx2(const fx_q8 *q8, int64_t n_rows, int64_t row, int64_t m, int64_t col0, int64_t n, fx_cmat x);
void fx_q8_put_avx512(const fx_q8 *q8, int64_t n_rows, int64_t row, int64_t m, int64_t col0, int64_t n, fx_cmat x);
void fx_q8_put_neon(const fx_q8 *q8, int64_t n_rows, int64_t row, int64_t m, int64_t col0, int64_t n, fx_cmat x);

fx_q8_put_fn fx_q8_put_find(const fx_cpu *cpu);

/* FX_K_QUANT with a level's put; a task is a panel. */
int64_t fx_q8_tasks(const void *quant_args);
void fx_q8_run(const fx_quant_args *a, int64_t t0, int64_t t1, fx_q8_put_fn put);

static inline int64_t fx_q8_panels(int64_t n_rows) { return (n_rows + FX_Q8_PANEL - 1) / FX_Q8_PANEL; }

typedef struct fx_q8_panel {
    int64_t row0;
    int width;
} fx_q8_panel;

/* Panel i of n_rows rows, and the panel that a row is in. The first n_rows % panels are one wider. */
static inline fx_q8_panel fx_q8_panel_at(int64_t n_rows, int64_t i)
{
    int64_t panels = fx_q8_panels(n_rows), width = n_rows / panels, wider = n_rows % panels;

    return (fx_q8_panel){ i * width + FX_MIN(i, wider), (int)(width + (i < wider)) };
}

static inline fx_q8_panel fx_q8_panel_of_row(int64_t n_rows, int64_t row)
{
    int64_t panels = fx_q8_panels(n_rows), width = n_rows / panels, wider = n_rows % panels;
    int64_t edge = wider * (width + 1);

    return fx_q8_panel_at(n_rows, row < edge ? row / (width + 1) : wider + (row - edge) / width);
}

/* The first word of a panel. */
static inline uint32_t *fx_q8_panel_words(const fx_q8 *q8, int64_t row0)
{
    return (uint32_t *)q8->data + row0 * (q8->k / 32) * FX_Q8_WORDS;
}

/* A quantized block on its way to a panel. */
typedef struct fx_q8_block {
    int8_t q[32];
    float d;
    int32_t sum, sum16;              /* of all, of the first 16 */
} fx_q8_block;

/* The block of 32 values whose largest |x| has the bits 'max' is special: NaN or all zeros. */
static inline bool fx_q8_special(fx_q8_block *b, uint32_t max)
{
    if (max < 0x7f800000u && fx_f32_of_bits(max) >= FX_Q8_TINY)
        return false;
    memset(b, 0, sizeof(*b));
    if (max >= 0x7f800000u)
        b->d = fx_f32_of_bits(0x7fc00000u);
    return true;
}

/* p: word 0 of the row's block in a panel of 'width' rows. */
static inline void fx_q8_put_block(uint32_t *p, int width, const fx_q8_block *b)
{
    uint32_t w[FX_Q8_WORDS];

    memcpy(w, b->q, 32);
    memcpy(&w[8], &b->d, 4);
    w[9] = (uint32_t)-b->sum;
    w[10] = (uint32_t)-b->sum16;
    FX_UNROLL
    for (int i = 0; i < FX_Q8_WORDS; i++)
        p[i * width] = w[i];
}

#endif
