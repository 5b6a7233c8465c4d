/* test_kir_math.c - the functions of kir: errors in units of the last place against C's in greater precision, special values, and
 * the same bits in vectors. */
#include "fxtest.h"

#include "kir/kir.h"

#define CHUNK 4096

typedef struct function {
    fx_kir_code code;
    double (*f32)(double);                   /* the reference of f32 */
    long double (*f64)(long double);
    double bound32, bound64;                 /* ulp */
    double lo, hi;                           /* where f64 is sampled, beside everywhere */
} function;

static const function functions[] = {
    { FX_KIR_EXP, exp, expl, 1, 1, -746, 710 },        { FX_KIR_EXP2, exp2, exp2l, 1, 1, -1076, 1025 },
    { FX_KIR_LOG, log, logl, 1, 1, 0, 4 },             { FX_KIR_LOG1P, log1p, log1pl, 1.5, 1.5, -1, 4 },
    { FX_KIR_SIN, sin, sinl, 2, 2, -200, 200 },        { FX_KIR_COS, cos, cosl, 2, 2, -200, 200 },
    { FX_KIR_ACOS, acos, acosl, 1.5, 1.5, -1, 1 },     { FX_KIR_TANH, tanh, tanhl, 2.5, 2.5, -20, 20 },
    { FX_KIR_ATANH, atanh, atanhl, 2.5, 2.5, -1, 1 },  { FX_KIR_ERF, erf, erfl, 1.5, 1.5, -6, 6 },
};

/* y[i] = f(x[i], z[i]) for CHUNK elements, in so many lanes. */
typedef struct runner {
    fx_arena arena;
    fx_kir_interp *x;
} runner;

static void open_runner(runner *r, fx_kir_code code, fx_dtype t, int lanes)
{
    fx_kir_buf buf = { .dtype = t, .rank = 1, .access = FX_KIR_IN, .name = FX_STR("x") };
    fx_error err = { 0 };
    fx_kir_module *m;
    fx_kir_kernel *k;
    fx_kop *x, *y, *z, *loop, *in[2];

    r->x = NULL;
    fx_arena_init(&r->arena, &fx_mem_libc, 0);
    m = fx_kir_module_new(&r->arena);
    k = fx_kir_kernel_new(m, FX_STR("f"));
    buf.extent[0] = fx_kir_dim(m, CHUNK);
    x = fx_kir_buffer(k, &buf);
    z = fx_kir_buffer(k, &buf);
    buf.access = FX_KIR_OUT;
    y = fx_kir_buffer(k, &buf);
    fx_kir_at(m, k->grid);
    fx_kir_yield(m, FX_KIN(fx_kir_index(m, 1)));
    fx_kir_at(m, k->body);
    in[0] = fx_kir_index(m, 0);
    in[1] = fx_kir_index(m, CHUNK);
    loop = fx_kir_for(m, in[0], in[1], fx_kir_index(m, lanes));
    fx_kir_at(m, loop->block[0]);
    in[0] = fx_kir_load(m, x, FX_KIN(loop->block[0]->arg), lanes, NULL);
    in[1] = fx_kir_load(m, z, FX_KIN(loop->block[0]->arg), lanes, NULL);
    fx_kir_store(m, y, fx_kir_op(m, code, in, fx_kir_rows[code].operands), FX_KIN(loop->block[0]->arg), NULL);
    CHECK_OK(fx_kir_check(k, &err), err);
    CHECK_OK(fx_kir_expand_math(k, &err), err);
    CHECK_OK(fx_kir_check(k, &err), err);
    CHECK_OK(fx_kir_interp_new(&r->x, &fx_mem_libc, k, &err), err);
}

static void close_runner(runner *r)
{
    fx_kir_interp_free(r->x);
    fx_arena_done(&r->arena);
}

static void run(runner *r, const void *x, const void *z, void *y)
{
    void *buffers[] = { (void *)(uintptr_t)x, (void *)(uintptr_t)z, y };
    fx_kir_fault fault = { .op = -1 };

    fx_kir_interp_run(r->x, &(fx_kir_launch){ NULL, buffers }, 0, 1, &fault);
    CHECK_EQ_I64(fault.op, -1);
}

static uint64_t random_bits(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    return *s ^= *s << 17;
}

/* The distance of got from want in units of want's last place; 0 if both are NaN or the same infinity. */
static long double ulps(long double got, long double want, int digits, int least)
{
    int e;

    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want) ? 0 : HUGE_VALL;
    if (got == want)
        return signbit(got) == signbit(want) ? 0 : HUGE_VALL;
    frexpl(want, &e);
    if (isinf(got))              /* beyond what is finite by less than the bound counts as the number there */
        got = copysignl(ldexpl(1, digits == 24 ? 128 : 1024), got);
    return fabsl(got - want) / ldexpl(1, (e < least ? least : e) - digits);
}

static double from_f32(const void *p, int i) { return ((const float *)p)[i]; }
static double from_f64(const void *p, int i) { return ((const double *)p)[i]; }

static void measure(const function *f, fx_dtype t, const void *x, const void *y, long double *worst, double *at)
{
    for (int i = 0; i < CHUNK; i++) {
        double in = (t == FX_F32 ? from_f32 : from_f64)(x, i), got = (t == FX_F32 ? from_f32 : from_f64)(y, i);
        long double want = t == FX_F32 ? (long double)f->f32(in) : f->f64(in), u;

        if (t == FX_F32 && isinf((float)want))
            want = (float)want;
        if (t == FX_F64 && (isinf((double)want) || (double)want == 0))
            want = (double)want;
        if (t == FX_F64 && (f->code == FX_KIR_SIN || f->code == FX_KIR_COS) && fabs(in) > 0x1p38 && isfinite(in))
            u = fabs(got) <= 1 ? 0 : HUGE_VALL;
        else
            u = t == FX_F32 ? ulps(got, want, 24, -125) : ulps(got, want, 53, -1021);
        if (u > *worst) {
            *worst = u;
            *at = in;
        }
    }
}

static void report(const function *f, const char *type, long double worst, double at, double bound)
{
    if (!(worst <= (long double)bound))
        FXTEST_FAIL("%s of %s: %.3Lf ulp at %a, at most %g", fx_kir_name(f->code), type, worst, at, bound);
}

/* Bits from a stride through all of f32, and special values. */
TEST(errors_of_f32)
{
    static float x[CHUNK], y[CHUNK];
    uint32_t step = getenv("FXTEST_LONG") ? 4057 : 1299709;

    for (size_t i = 0; i < FX_COUNT(functions); i++) {
        long double worst = 0;
        double at = 0;
        runner r;

        open_runner(&r, functions[i].code, FX_F32, 1);
        for (uint64_t b = 0; r.x && b < UINT64_C(1) << 32;) {
            for (int k = 0; k < CHUNK; k++, b += step)
                x[k] = fx_f32_of_bits((uint32_t)FX_MIN(b, UINT32_MAX));
            run(&r, x, x, y);
            measure(&functions[i], FX_F32, x, y, &worst, &at);
        }
        report(&functions[i], "f32", worst, at, functions[i].bound32);
        close_runner(&r);
    }
}

TEST(errors_of_f64)
{
    static double x[CHUNK], y[CHUNK];
    uint64_t seed = 88172645463325252;

    for (size_t i = 0; i < FX_COUNT(functions); i++) {
        const function *f = &functions[i];
        long double worst = 0;
        double at = 0;
        runner r;

        open_runner(&r, f->code, FX_F64, 1);
        for (int n = 0; r.x && n < 3; n++) {
            for (int k = 0; k < CHUNK; k++) {
                uint64_t b = random_bits(&seed);

                memcpy(&x[k], &b, sizeof(b));
                if (k % 4)
                    x[k] = ldexp(f->lo + (f->hi - f->lo) * ldexp((double)(b >> 11), -53), k % 4 == 2 ? -5 : 0);
            }
            run(&r, x, x, y);
            measure(f, FX_F64, x, y, &worst, &at);
        }
        report(f, "f64", worst, at, f->bound64);
        close_runner(&r);
    }
}

TEST(errors_of_pow)
{
    static float x[CHUNK], z[CHUNK], y[CHUNK];
    static double x2[CHUNK], z2[CHUNK], y2[CHUNK];
    uint64_t seed = 3;
    long double worst = 0, worst2 = 0;
    runner r, r2;

    open_runner(&r, FX_KIR_POW, FX_F32, 1);
    open_runner(&r2, FX_KIR_POW, FX_F64, 1);
    for (int k = 0; k < CHUNK; k++) {
        uint64_t a = random_bits(&seed), b = random_bits(&seed);

        x2[k] = ldexp((double)(int64_t)a, -(int)(b % 126)) * (k % 3 ? 1 : -1);
        z2[k] = k % 2 ? (double)(int)(b >> 8 & 63) - 32 : ldexp((double)(int64_t)b, -(int)(a % 10) - 58);
        x[k] = (float)x2[k];
        z[k] = (float)z2[k];
    }
    run(&r, x, z, y);
    run(&r2, x2, z2, y2);
    for (int k = 0; k < CHUNK; k++) {
        long double want = pow((double)x[k], (double)z[k]), want2 = powl(x2[k], z2[k]);

        want = isinf((float)want) || (float)want == 0 ? (float)want : want;
        want2 = isinf((double)want2) || (double)want2 == 0 ? (double)want2 : want2;
        worst = FX_MAX(worst, ulps(y[k], want, 24, -125));
        worst2 = FX_MAX(worst2, ulps(y2[k], want2, 53, -1021));
    }
    CHECK(worst <= 1);
    CHECK(worst2 <= 1.5L);
    close_runner(&r2);
    close_runner(&r);
}

TEST(special_values_are_those_of_c)
{
    static const double v[] = { 0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, HUGE_VAL, -HUGE_VAL, NAN, 0x1p-149, -0x1p-149, 1e30, -1e30, 2.5 };
    static double x[CHUNK], z[CHUNK], y[CHUNK];
    static float xf[CHUNK], zf[CHUNK], yf[CHUNK];
    int n = (int)FX_COUNT(v);
    runner r, rf;

    open_runner(&r, FX_KIR_POW, FX_F64, 1);
    open_runner(&rf, FX_KIR_POW, FX_F32, 1);
    for (int i = 0; i < n * n; i++) {
        xf[i] = (float)(x[i] = v[i / n]);
        zf[i] = (float)(z[i] = v[i % n]);
    }
    run(&r, x, z, y);
    run(&rf, xf, zf, yf);
    for (int i = 0; i < n * n; i++) {
        double want = pow(x[i], z[i]), wantf = (float)pow(xf[i], zf[i]);

        if (!(ulps(y[i], want, 53, -1021) <= 1.5L) || !(ulps(yf[i], wantf, 24, -125) <= 1))
            FXTEST_FAIL("pow(%g, %g) is %g, of f32 %g, expected %g, %g", x[i], z[i], y[i], (double)yf[i], want, wantf);
    }
    close_runner(&rf);
    close_runner(&r);
}

TEST(vectors_have_the_bits_of_scalars)
{
    static float x[CHUNK], y[CHUNK], y16[CHUNK];
    uint64_t seed = 5;

    for (size_t i = 0; i < FX_COUNT(functions); i++) {
        runner one, many;

        open_runner(&one, functions[i].code, FX_F32, 1);
        open_runner(&many, functions[i].code, FX_F32, 16);
        for (int k = 0; k < CHUNK; k++)
            x[k] = fx_f32_of_bits((uint32_t)random_bits(&seed));
        run(&one, x, x, y);
        run(&many, x, x, y16);
        for (int k = 0; k < CHUNK; k++)
            CHECK(fx_f32_bits(y[k]) == fx_f32_bits(y16[k]) || (isnan(y[k]) && isnan(y16[k])));
        close_runner(&many);
        close_runner(&one);
    }
}

FXTEST_MAIN()
