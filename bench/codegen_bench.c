/* codegen_bench.c - generated kernels against the same loops in C, compiled by clang -O3 -march=native -ffast-math.
 *
 *     codegen_bench [--llvm FILE] [NAME...]
 *
 * Prints for each kernel the least time of both, one thread, taken in turn, and C's time over ours: above 1 is
 * faster. The C compiler is $FORNAX_BENCH_CC, else clang-19. Ours keep the order of every sum and round where the graph
 * says so; C's may do what it likes. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "compile/tgraph.h"

typedef struct bench_case {
    const char *name, *graph, *c;        /* c: the body of void f(float *const *in, float *out) */
    int64_t out;                         /* elements of the result, in 4 bytes each at most */
} bench_case;

#define ROWS 512
#define COLS 1024
#define SIZES "enum { R = 512, C = 1024 };"

static const bench_case cases[] = {
    { "saxpy", "%x = input f32[1048576]\n%y = input f32[1048576]\n%a = input f32[1]\n%s = mul %x, %a\n%z = add %s, %y\noutput %z",
      "const float *x = in[0], *y = in[1]; float a = in[2][0]; for (long i = 0; i < 1048576; i++) out[i] = a * x[i] + y[i];", 1048576 },
    { "bias_gelu", "%x = input f32[512,1024]\n%b = input f32[1024]\n%y = add %x, %b\n%z = gelu %y\noutput %z",
      "for (long i = 0; i < R; i++) for (long j = 0; j < C; j++) { float v = in[0][i * C + j] + in[1][j]; out[i * C + j] = 0.5f * v * (1 + erff(v * 0.70710678f)); }", ROWS * COLS },
    { "silu_mul", "%x = input f32[512,1024]\n%y = input f32[512,1024]\n%s = silu %x\n%z = mul %s, %y\noutput %z",
      "for (long i = 0; i < R * C; i++) { float v = in[0][i]; out[i] = v / (1 + expf(-v)) * in[1][i]; }", ROWS * COLS },
    { "softmax", "%x = input f32[512,1024]\n%y = softmax %x\noutput %y",
      "for (long i = 0; i < R; i++) { const float *x = in[0] + i * C; float *y = out + i * C, m = x[0], s = 0; for (long j = 0; j < C; j++) m = x[j] > m ? x[j] : m;"
      " for (long j = 0; j < C; j++) { y[j] = expf(x[j] - m); s += y[j]; } s = 1 / s; for (long j = 0; j < C; j++) y[j] *= s; }", ROWS * COLS },
    { "rms_norm", "%x = input f32[512,1024]\n%w = input f32[1024]\n%y = rmsnorm %x, %w, eps=1e-05\noutput %y",
      "for (long i = 0; i < R; i++) { const float *x = in[0] + i * C; float s = 0; for (long j = 0; j < C; j++) s += x[j] * x[j]; s = 1 / sqrtf(s / C + 1e-5f);"
      " for (long j = 0; j < C; j++) out[i * C + j] = x[j] * s * in[1][j]; }", ROWS * COLS },
    { "layer_norm", "%x = input f32[512,1024]\n%w = input f32[1024]\n%b = input f32[1024]\n%y = layernorm %x, %w, %b, eps=1e-05\noutput %y",
      "for (long i = 0; i < R; i++) { const float *x = in[0] + i * C; float m = 0, s = 0; for (long j = 0; j < C; j++) m += x[j]; m /= C; for (long j = 0; j < C; j++) s += (x[j] - m) * (x[j] - m);"
      " s = 1 / sqrtf(s / C + 1e-5f); for (long j = 0; j < C; j++) out[i * C + j] = (x[j] - m) * s * in[1][j] + in[2][j]; }", ROWS * COLS },
    { "norm_residual", "%x = input f32[512,1024]\n%r = input f32[512,1024]\n%w = input f32[1024]\n%s = add %x, %r\n%y = rmsnorm %s, %w, eps=1e-05\noutput %y",
      "float t[C]; for (long i = 0; i < R; i++) { const float *x = in[0] + i * C, *r = in[1] + i * C; float s = 0; for (long j = 0; j < C; j++) { t[j] = x[j] + r[j]; s += t[j] * t[j]; }"
      " s = 1 / sqrtf(s / C + 1e-5f); for (long j = 0; j < C; j++) out[i * C + j] = t[j] * s * in[2][j]; }", ROWS * COLS },
    { "rope", "%x = input f32[512,16,64]\n%c = input f32[512,1,32]\n%s = input f32[512,1,32]\n%a = slice %x, start=0, length=32, axis=2\n%b = slice %x, start=32, length=32, axis=2\n"
      "%ac = mul %a, %c\n%bs = mul %b, %s\n%y0 = sub %ac, %bs\n%bc = mul %b, %c\n%as = mul %a, %s\n%y1 = add %bc, %as\noutput %y0, %y1",
      "float *o2 = out + 512 * 16 * 32; for (long t = 0; t < 512; t++) for (long h = 0; h < 16; h++) for (long j = 0; j < 32; j++) { const float *x = in[0] + (t * 16 + h) * 64; float a = x[j], b = x[32 + j], c = in[1][t * 32 + j], s = in[2][t * 32 + j];"
      " out[(t * 16 + h) * 32 + j] = a * c - b * s; o2[(t * 16 + h) * 32 + j] = b * c + a * s; }", ROWS * COLS },
    { "row_sum", "%x = input f32[512,1024]\n%y = sum %x\noutput %y",
      "for (long i = 0; i < R; i++) { float s = 0; for (long j = 0; j < C; j++) s += in[0][i * C + j]; out[i] = s; }", ROWS },
    { "argmax", "%x = input f32[512,1024]\n%y = argmax %x\noutput %y",
      "long *o = (long *)out; for (long i = 0; i < R; i++) { const float *x = in[0] + i * C; float m = x[0]; long at = 0; for (long j = 1; j < C; j++) if (x[j] > m) { m = x[j]; at = j; } o[i] = at; }", 2 * ROWS },
    { "transpose", "%x = input f32[512,1024]\n%t = transpose %x\n%y = negate %t\noutput %y",
      "for (long j = 0; j < C; j++) for (long i = 0; i < R; i++) out[j * R + i] = -in[0][i * C + j];", ROWS * COLS },
    { "matmul", "%x = input f32[512,512]\n%w = input f32[512,512]\n%y = matmul %x, %w\noutput %y",
      "for (long i = 0; i < 512; i++) { float *y = out + i * 512; for (long j = 0; j < 512; j++) y[j] = 0; for (long k = 0; k < 512; k++) { float a = in[0][i * 512 + k]; const float *b = in[1] + k * 512;"
      " for (long j = 0; j < 512; j++) y[j] += a * b[j]; } }", 512 * 512 },
};

typedef void (*c_fn)(float *const *in, float *out);

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void die(const char *what)
{
    fprintf(stderr, "codegen_bench: %s\n", what);
    exit(1);
}

/* All of C's functions in one shared object: f0, f1, ... */
static void *compile_c(void)
{
    char dir[] = "/tmp/codegen-bench-XXXXXX", path[64], so[64], command[400];
    const char *cc = getenv("FORNAX_BENCH_CC") ? getenv("FORNAX_BENCH_CC") : "clang-19";
    void *handle;
    FILE *f;

    if (!mkdtemp(dir))
        die("no folder for the C kernels");
    snprintf(path, sizeof(path), "%s/k.c", dir);
    snprintf(so, sizeof(so), "%s/k.so", dir);
    f = fopen(path, "w");
    if (!f)
        die("can't write the C kernels");
    fprintf(f, "#include <math.h>\n%s\n", SIZES);
    for (size_t i = 0; i < FX_COUNT(cases); i++)
        fprintf(f, "void f%zu(float *const *restrict in, float *restrict out) { %s }\n", i, cases[i].c);
    fclose(f);
    snprintf(command, sizeof(command), "%s -O3 -march=native -ffast-math -shared -fPIC -o %s %s -lm", cc, so, path);
    if (system(command) != 0)
        die("the C compiler failed");
    handle = dlopen(so, RTLD_NOW);
    unlink(path);
    unlink(so);
    rmdir(dir);
    return handle ? handle : (die(dlerror()), NULL);
}

static int64_t elements(const fx_kplan *p, const fx_ktensor *t, fx_kvalue *v)
{
    int64_t n = 1;

    v->dtype = t->dtype;
    v->rank = t->rank;
    for (int i = 0; i < t->rank; i++)
        n *= v->dim[i] = p->steps[p->sizes[t->dim[i]].first].n;
    return n;
}

static void *room(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 127) & ~(size_t)63);

    return p ? p : (die("no memory"), NULL);
}

/* Least times of both, in microseconds, taken in turn. */
static void measure(const bench_case *b, c_fn f, const fx_kplan *p, fx_kexec *x, double best[2])
{
    fx_kvalue in[8] = { 0 }, out[4] = { 0 };
    float *data[8], *c_out = room((size_t)b->out * 4);
    fx_error err = { 0 };

    for (int32_t i = 0; i < p->n_inputs; i++) {
        int64_t n = elements(p, &p->tensors[p->inputs[i]], &in[i]);

        in[i].data = data[i] = room((size_t)n * 4);
        for (int64_t k = 0; k < n; k++)
            data[i][k] = (float)(k * 37 % 101) * 0.02f - 1;
    }
    best[0] = best[1] = 1e12;
    for (int turn = 0; turn < 60; turn++) {
        double t0 = now_us(), t1;

        if (fx_kexec_run(x, in, out, &err) != FORNAX_OK)
            die(err.text);
        t1 = now_us();
        f(data, c_out);
        best[0] = FX_MIN(best[0], t1 - t0);
        best[1] = FX_MIN(best[1], now_us() - t1);
        for (int i = 0; i < 4; i++)
            out[i].data = NULL;
    }
    for (int32_t i = 0; i < p->n_inputs; i++)
        free(data[i]);
    free(c_out);
}

static double run_case(const bench_case *b, c_fn f, const fx_codegen *cg, const fx_target *host)
{
    fx_error err = { 0 };
    fx_module *m;
    fx_tgraph *t;
    fx_kexec *x;
    fx_arena a;
    double best[2];

    fx_arena_init(&a, &fx_mem_libc, 0);
    if (fx_module_parse(&m, &a, b->name, fx_str_of(b->graph), &err) != FORNAX_OK ||
        fx_tgraph_compile(&t, &fx_mem_libc, m->last, &(fx_tgraph_options){ .codegen = cg, .target = host }, &err) != FORNAX_OK ||
        fx_kexec_new(&x, &fx_mem_libc, fx_tgraph_plan(t), fx_tgraph_code(t), NULL, &err) != FORNAX_OK)
        die(err.text);
    measure(b, f, fx_tgraph_plan(t), x, best);
    printf("%-14s %10.1f %10.1f %8.2f\n", b->name, best[0], best[1], best[1] / best[0]);
    fx_kexec_free(x);
    fx_tgraph_free(t);
    fx_arena_done(&a);
    return best[1] / best[0];
}

int main(int argc, char **argv)
{
    const char *llvm = argc > 2 && strcmp(argv[1], "--llvm") == 0 ? argv[2] : NULL;
    void *c = compile_c();
    fx_error err = { 0 };
    fx_codegen *cg;
    fx_target host;
    double least = 1e9;

    if (fx_codegen_open(&cg, &fx_mem_libc, llvm, &err) != FORNAX_OK || fx_target_named(&host, FX_STR("host"), &err) != FORNAX_OK)
        die(err.text);
    printf("%-14s %10s %10s %8s\n", "kernel", "ours, us", "C, us", "ratio");
    for (size_t i = 0; i < FX_COUNT(cases); i++) {
        bool wanted = argc < (llvm ? 4 : 2);
        char name[24];

        for (int k = llvm ? 3 : 1; k < argc; k++)
            wanted = wanted || strcmp(argv[k], cases[i].name) == 0;
        snprintf(name, sizeof(name), "f%zu", i);
        if (wanted) {
            c_fn f = (c_fn)(uintptr_t)dlsym(c, name);
            double r = run_case(&cases[i], f, cg, &host);

            least = FX_MIN(least, r);
        }
    }
    printf("least ratio %.2f\n", least);
    fx_codegen_close(cg);
    return 0;
}
