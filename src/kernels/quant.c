/* quant.c - reference kernel: activations to int8 blocks; the numbers are defined in quant.h. */
#include "kernels/quant.h"

size_t fx_q8_bytes(int64_t n_rows, int64_t k)
{
    return FX_ROUND_UP((size_t)n_rows * (size_t)(k / 32) * FX_Q8_WORDS * 4, 64);
}

/* max|x| as bits: NaN and infinity are the largest. */
static uint32_t largest(const float *x)
{
    uint32_t max = 0;

    for (int i = 0; i < 32; i++) {
        uint32_t u = fx_f32_bits(x[i]) & 0x7fffffffu;

        max = FX_MAX(max, u);
    }
    return max;
}

static void quantize(fx_q8_block *b, const float *x)
{
    uint32_t max = largest(x);
    float inv;

    if (fx_q8_special(b, max))
        return;
    b->d = fx_f32_of_bits(max) / 127.0f;
    inv = 1.0f / b->d;
    b->sum = b->sum16 = 0;
    for (int i = 0; i < 32; i++) {
        /* adding 1.5 * 2^23 rounds to nearest even whatever libm does; |x * inv| < 128 */
        int32_t q = (int32_t)((x[i] * inv + 0x1.8p23f) - 0x1.8p23f);

        b->q[i] = (int8_t)q;
        b->sum += q;
        b->sum16 += i < 16 ? q : 0;
    }
}

int64_t fx_q8_tasks(const void *quant_args) { return fx_q8_panels(((const fx_quant_args *)quant_args)->n_rows); }

void fx_q8_run(const fx_quant_args *a, int64_t t0, int64_t t1, fx_q8_put_fn put)
{
    for (int64_t t = t0; t < t1; t++) {
        fx_q8_panel p = fx_q8_panel_at(a->n_rows, t);

        put(&a->q8, a->n_rows, p.row0, p.width, 0, a->q8.k, (fx_cmat){ a->x.p + p.row0 * a->x.ld, a->x.ld });
    }
}

#define PUT fx_q8_put
#define LEVEL FX_CPU_SCALAR
#define NAMED(op) op "_ref"
#define SET fx_kernels_quant
#include "kernels/quant_rows.def"

fx_q8_put_fn fx_q8_put_find(const fx_cpu *cpu) { return FX_OF_LEVEL(cpu, fx_q8_put); }
