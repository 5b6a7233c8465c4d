/* fusion_bench.c - graphs of tensors as they are compiled, against the same graphs with a kernel for each op.
 *
 *     fusion_bench [--llvm FILE] [--turns N] [NAME...]
 *
 * One thread; both run in turn, N times after a first one each (default 21). Prints the launches and the median processor time of both, and the unfused
 * one's over the fused one's: above 1 is faster. Their results must be the same bits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "compile/tgraph.h"

typedef struct bench_case {
    const char *name, *graph;
} bench_case;

#define QKV(n, keys) \
    "%q = input f32[8," #n ",64]\n%k = input f32[8," #keys ",64]\n%v = input f32[8," #keys ",64]\n%t = transpose %k\n" \
    "%s = matmul %q, %t\n%z = scale %s, factor=0.125\n"
#define ROPE \
    "%a = slice %h, start=0, length=32\n%b = slice %h, start=32, length=32\n%m = negate %b\n%r = concat %m, %a\n" \
    "%hc = mul %h, %cos\n%rs = mul %r, %sin\n%y = add %hc, %rs\n"

static const bench_case cases[] = {
    { "bias+gelu", "%x = input f32[128,512]\n%w = input f32[512,512]\n%b = input f32[512]\n%h = matmul %x, %w\n%s = add %h, %b\n%y = gelu %s\n"
      "output %y" },
    { "swiglu mlp", "%x = input f32[64,512]\n%g = input f32[512,1024]\n%u = input f32[512,1024]\n%d = input f32[1024,512]\n%a = matmul %x, %g\n"
      "%b = matmul %x, %u\n%s = silu %a\n%m = mul %s, %b\n%o = matmul %m, %d\n%y = add %x, %o\noutput %y" },
    { "swiglu, one row", "%x = input f32[1,512]\n%g = input f32[512,1024]\n%u = input f32[512,1024]\n%d = input f32[1024,512]\n%a = matmul %x, %g\n"
      "%b = matmul %x, %u\n%s = silu %a\n%m = mul %s, %b\n%o = matmul %m, %d\n%y = add %x, %o\noutput %y" },
    { "q, k, v", "%x = input f32[16,512]\n%a = input f32[512,512]\n%b = input f32[512,128]\n%c = input f32[512,128]\n%q = matmul %x, %a\n"
      "%k = matmul %x, %b\n%v = matmul %x, %c\noutput %q, %k, %v" },
    { "norm+residual", "%x = input f32[512,1024]\n%r = input f32[512,1024]\n%w = input f32[1024]\n%s = add %x, %r\n%y = rmsnorm %s, %w, eps=1e-5\n"
      "output %s, %y" },
    { "double norm", "%x = input f32[512,1024]\n%r = input f32[512,1024]\n%v = input f32[1024]\n%w = input f32[1024]\n%n = rmsnorm %x, %v, eps=1e-5\n"
      "%s = add %n, %r\n%y = rmsnorm %s, %w, eps=1e-5\noutput %s, %y" },
    { "norm+rope", "%x = input f32[512,16,64]\n%w = input f32[64]\n%cos = input f32[512,1,64]\n%sin = input f32[512,1,64]\n"
      "%h = rmsnorm %x, %w, eps=1e-6\n" ROPE "output %y" },
    { "norm+quantize", "%x = input f32[512,1024]\n%w = input f32[1024]\n%most = constant f32, {127}\n%h = rmsnorm %x, %w, eps=1e-5\n%m = abs %h\n"
      "%g = reduce_max %m\n%d = div %g, %most\n%s = div %h, %d\n%r = round %s\n%q = cast %r, i8\noutput %d, %q" },
    { "softmax chain", "%x = input f32[512,1024]\n%m = input f32[1024]\n%f = constant f32, {0.125}\n%a = mul %x, %f\n%b = add %a, %m\n%p = softmax %b\n"
      "%y = cast %p, bf16\noutput %y" },
    { "gather+sum", "%x = input f32[4096,256]\n%i = input i64[256,16]\n%g = gather %x, %i, axis=0\n%y = sum %g, axis=1\noutput %y" },
    { "attention", QKV(256, 256) "%p = softmax %z\n%y = matmul %p, %v\noutput %y" },
    { "attention, masked", "%mask = input f32[256,256]\n" QKV(256, 256) "%c = add %z, %mask\n%p = softmax %c\n%y = matmul %p, %v\noutput %y" },
    { "attention, long", QKV(64, 4096) "%p = softmax %z\n%y = matmul %p, %v\noutput %y" },
    { "attention, one row", QKV(1, 1024) "%p = softmax %z\n%y = matmul %p, %v\noutput %y" },
};

static void die(const char *what)
{
    fprintf(stderr, "fusion_bench: %s\n", what);
    exit(1);
}

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* ---- One way to compile ------------------------------------------------------------------------------- */

#define MAX_ENDS 8
typedef struct way {
    fx_tgraph *t;
    fx_kexec *x;
    fx_kvalue in[MAX_ENDS], out[MAX_ENDS];
    double *us;
} way;

static int64_t elements(const fx_kvalue *v)
{
    int64_t n = 1;

    for (int i = 0; i < v->rank; i++)
        n *= v->dim[i];
    return n;
}

/* Numbers around 0; indices below 1000. */
static void make_input(const fx_kplan *p, const fx_ktensor *t, fx_kvalue *v)
{
    int64_t n;

    *v = (fx_kvalue){ .dtype = t->dtype, .rank = t->rank };
    for (int i = 0; i < t->rank; i++)
        v->dim[i] = p->steps[p->sizes[t->dim[i]].first].n;
    n = elements(v);
    v->data = aligned_alloc(64, ((size_t)n * fx_dtype_size(t->dtype) + 127) & ~(size_t)63);
    if (!v->data)
        die("no memory");
    for (int64_t k = 0; k < n; k++) {
        if (t->dtype == FX_F32)
            ((float *)v->data)[k] = (float)(k * 37 % 101) * 0.02f - 1;
        else
            ((int64_t *)v->data)[k] = k * 37 % 1000;
    }
}

static void run(way *w)
{
    fx_error err = { 0 };

    for (int i = 0; i < MAX_ENDS; i++)
        w->out[i].data = NULL;
    if (fx_kexec_run(w->x, w->in, w->out, &err) != FORNAX_OK)
        die(err.text);
}

static void open_way(way *w, const fx_graph *g, const fx_tgraph_options *o)
{
    fx_error err = { 0 };

    if (fx_tgraph_compile(&w->t, &fx_mem_libc, g, o, &err) != FORNAX_OK ||
        fx_kexec_new(&w->x, &fx_mem_libc, fx_tgraph_plan(w->t), fx_tgraph_code(w->t), NULL, &err) != FORNAX_OK)
        die(err.text);
    for (int32_t i = 0; i < fx_tgraph_plan(w->t)->n_inputs; i++)
        make_input(fx_tgraph_plan(w->t), &fx_tgraph_plan(w->t)->tensors[fx_tgraph_plan(w->t)->inputs[i]], &w->in[i]);
    run(w);
}

static void close_way(way *w)
{
    for (int i = 0; i < MAX_ENDS; i++)
        free(w->in[i].data);
    fx_kexec_free(w->x);
    fx_tgraph_free(w->t);
    free(w->us);
}

/* ---- Both ----------------------------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

static double median(way *w, int turns)
{
    qsort(w->us, (size_t)turns, sizeof(*w->us), by_time);
    return w->us[turns / 2];
}

static void compare(const bench_case *b, const way *fused, const way *plain)
{
    for (int32_t i = 0; i < fx_tgraph_plan(fused->t)->n_outputs; i++) {
        const fx_kvalue *v = &fused->out[i];

        if (memcmp(v->data, plain->out[i].data, (size_t)elements(v) * fx_dtype_size(v->dtype)) != 0) {
            fprintf(stderr, "fusion_bench: %s: fused, result %d has other bits\n", b->name, (int)i);
            exit(1);
        }
    }
}

static double measure(const bench_case *b, const fx_codegen *cg, const fx_target *host, int turns)
{
    fx_error err = { 0 };
    way ways[2] = { 0 };
    double us[2];
    fx_module *m;
    fx_arena a;

    fx_arena_init(&a, &fx_mem_libc, 0);
    if (fx_module_parse(&m, &a, b->name, fx_str_of(b->graph), &err) != FORNAX_OK)
        die(err.text);
    for (int i = 0; i < 2; i++) {
        open_way(&ways[i], m->last, &(fx_tgraph_options){ .codegen = cg, .target = host, .unfused = i == 1 });
        ways[i].us = calloc((size_t)turns, sizeof(double));
    }
    compare(b, &ways[0], &ways[1]);
    for (int turn = 0; turn < turns; turn++) {
        for (int i = 0; i < 2; i++) {
            double t0 = now_us();

            run(&ways[i]);
            ways[i].us[turn] = now_us() - t0;
        }
    }
    for (int i = 0; i < 2; i++)
        us[i] = median(&ways[i], turns);
    printf("%-20s %8d %8d %12.1f %12.1f %8.2f\n", b->name, (int)fx_tgraph_plan(ways[0].t)->n_launches,
           (int)fx_tgraph_plan(ways[1].t)->n_launches, us[0], us[1], us[1] / us[0]);
    for (int i = 0; i < 2; i++)
        close_way(&ways[i]);
    fx_arena_done(&a);
    return us[1] / us[0];
}

static bool is_wanted(int argc, char **argv, int first, const char *name)
{
    for (int k = first; k < argc; k++) {
        if (strcmp(argv[k], name) == 0)
            return true;
    }
    return first == argc;
}

int main(int argc, char **argv)
{
    const char *llvm = NULL;
    double least = 1e9;
    int turns = 21, first = 1;
    fx_error err = { 0 };
    fx_codegen *cg;
    fx_target host;

    for (; first + 1 < argc && argv[first][0] == '-'; first += 2) {
        if (strcmp(argv[first], "--llvm") == 0)
            llvm = argv[first + 1];
        else if (strcmp(argv[first], "--turns") != 0 || (turns = atoi(argv[first + 1])) < 1)
            die("options are --llvm FILE and --turns N");
    }
    if (fx_codegen_open(&cg, &fx_mem_libc, llvm, &err) != FORNAX_OK || fx_target_named(&host, FX_STR("host"), &err) != FORNAX_OK)
        die(err.text);
    printf("%-20s %8s %8s %12s %12s %8s\n", "graph", "launches", "unfused", "fused, us", "unfused, us", "ratio");
    for (size_t i = 0; i < FX_COUNT(cases); i++) {
        double ratio = is_wanted(argc, argv, first, cases[i].name) ? measure(&cases[i], cg, &host, turns) : least;

        least = FX_MIN(least, ratio);
    }
    printf("least ratio %.2f\n", least);
    fx_codegen_close(cg);
    return 0;
}
