/* calltest.h - a launch run by hand-written code and by its call, interpreted and compiled, on the same memory.
 *
 * A case builds a scene: a plan of one launch (or a few), its buffers, and the launches' arguments over memory that the scene has for
 * the run at hand. All buffers must come out equal, byte for byte but for what a NaN holds. */
#ifndef CALLTEST_H
#define CALLTEST_H

#include "codegen/code_load.h"
#include "codegen/codegen.h"
#include "kernels/epilogue.h"
#include "kernels/quant.h"
#include "kerneltest.h"
#include "passes/lower_calls.h"

enum { X, Z, SUM, Y, BYTES, BUFS };      /* buffers of a scene */
enum { MAX_WEIGHTS = 4, MAX_LAUNCHES = 8, MAX_ROWS = 64 };

typedef struct call_case call_case;
typedef struct scene {
    fx_plan plan;
    fx_plan_buf bufs[BUFS];
    fx_plan_weight weights[MAX_WEIGHTS];
    fx_dtype tables[MAX_WEIGHTS];
    fx_launch launches[MAX_LAUNCHES];
    fx_state_table state;
    int64_t n_rows;
    void *at[BUFS];              /* memory of this run */
    const void *vector[MAX_WEIGHTS];
    const int32_t *numbers;      /* [MAX_ROWS], then as many zeroes */
    int spoilt;                  /* a buffer that a call may leave as it likes, or 0 */
    fx_call_tile tile;           /* of the product that the first launch is */
    fx_step step;
    fx_step_seq seqs[MAX_ROWS];
    fx_page pages[MAX_ROWS];
    int32_t pos[MAX_ROWS], seq[MAX_ROWS];
} scene;

struct call_case {
    const char *name;
    fx_launch_op op;
    fx_kernel_op kernel;         /* of the launch; of the second one, if the first is a product */
    void (*build)(scene *s, const call_case *c);
    int64_t dim, groups;
    int flags;
    float number;
    fx_dtype table;
};

/* Of those that go element by element. */
static inline fx_kernel_op kernel_of(fx_launch_op op)
{
    static const fx_kernel_op rows[FX_L_OPS] = {
        [FX_L_ADD] = FX_K_ADD, [FX_L_MUL] = FX_K_MUL, [FX_L_SCALE] = FX_K_SCALE, [FX_L_TANH] = FX_K_TANH, [FX_L_GELU] = FX_K_GELU,
        [FX_L_CLAMP] = FX_K_CLAMP, [FX_L_RELU2] = FX_K_RELU2, [FX_L_SILU] = FX_K_SILU,
    };

    return rows[op];
}

/* ---- Building ------------------------------------------------------------------------------------- */

static inline void scene_buf(scene *s, int i, int64_t cols, bool q8)
{
    s->bufs[i] = (fx_plan_buf){ .rows = FX_ROWS_STEP, .cols = cols, .q8 = q8, .last = MAX_LAUNCHES };
}
static inline fx_mat scene_mat(const scene *s, int i, int64_t col)
{
    return (fx_mat){ s->at[i] ? (float *)s->at[i] + col : NULL, s->bufs[i].cols };
}
static inline fx_cmat scene_cmat(const scene *s, int i, int64_t col)
{
    fx_mat m = scene_mat(s, i, col);

    return (fx_cmat){ m.p, m.ld };
}
static inline fx_ref buf_ref(int i, int64_t col) { return (fx_ref){ FX_REF_BUF, i, col }; }
static inline fx_ref weight_ref(int i) { return (fx_ref){ FX_REF_WEIGHT, i, 0 }; }

static inline void scene_init(scene *s, const call_case *c, int64_t n_rows)
{
    s->n_rows = n_rows;
    s->plan = (fx_plan){ .launches = s->launches, .bufs = s->bufs, .weights = s->weights, .n_launches = 1, .n_bufs = BUFS,
                         .n_weights = MAX_WEIGHTS };
    memset(s->bufs, 0, sizeof(s->bufs));
    memset(s->launches, 0, sizeof(s->launches));
    for (int i = 0; i < MAX_WEIGHTS; i++) {
        s->weights[i] = (fx_plan_weight){ .use = FX_USE_VECTOR };
        s->tables[i] = FX_F32;
    }
    s->launches[0].op = c->op;
    s->launches[0].layer = -1;
    c->build(s, c);
}

/* ---- Memory ------------------------------------------------------------------------------------------- */

static inline size_t buf_bytes(const scene *s, int i)
{
    const fx_plan_buf *b = &s->bufs[i];

    return b->q8 ? fx_q8_bytes(s->n_rows, b->cols) : (size_t)(s->n_rows * b->cols) * sizeof(float);
}

/* Random numbers; in every third row some of those that are special. */
static inline void *random_buf(const scene *s, int i)
{
    static const float odd[] = { NAN, INFINITY, -INFINITY, 0, -0.0f, 1e-45f, -1e-40f, 3e38f, -3e38f, 0.5f, 89, -104, 1e-30f };
    const fx_plan_buf *b = &s->bufs[i];
    float *p = b->cols ? kt_alloc(buf_bytes(s, i)) : NULL;

    for (int64_t k = 0; p && !b->q8 && k < s->n_rows * b->cols; k++) {
        bool special = k / b->cols % 3 == 1 && kt_random() % 16 == 0;

        p[k] = special ? odd[kt_random() % FX_COUNT(odd)] : kt_normal() * (k / b->cols % 3 == 2 ? 30 : 2);
    }
    return p;
}

static inline void *copy_of(const void *p, size_t n)
{
    void *q = p ? kt_alloc(n) : NULL;

    return q ? memcpy(q, p, n) : NULL;
}

static inline bool same_word(uint32_t a, uint32_t b)
{
    return a == b || ((a & 0x7fffffff) > 0x7f800000 && (b & 0x7fffffff) > 0x7f800000);
}

static inline void compare_buf(const scene *s, const char *what, int i, const uint32_t *want, const uint32_t *got)
{
    for (size_t k = 0; want && k < buf_bytes(s, i) / 4; k++) {
        if (s->bufs[i].q8 ? want[k] != got[k] : !same_word(want[k], got[k])) {
            int64_t cols = s->bufs[i].q8 ? 1 : s->bufs[i].cols;

            FXTEST_FAIL("%s, %d rows: buffer %d, row %d, column %d: %08x (%.9g), by hand %08x (%.9g)", what, (int)s->n_rows, i,
                        (int)((int64_t)k / cols), (int)((int64_t)k % cols), got[k], (double)fx_f32_of_bits(got[k]), want[k],
                        (double)fx_f32_of_bits(want[k]));
            return;
        }
    }
}

/* ---- Calls ----------------------------------------------------------------------------------------------- */

static inline fx_call_panels panels_of(const fx_q8 *q, int64_t n)
{
    int64_t panels = fx_q8_panels(n), width = n / panels, wide = n % panels;

    return (fx_call_panels){ .n_wide = wide, .wide = width + 1, .n_narrow = panels - wide, .narrow = width, .data = q->data,
                             .rest = fx_q8_panel_words(q, wide * (width + 1)) };
}

/* What a ref says: the bytes of a size or a pointer. */
static inline uint64_t ref_value(const scene *s, const fx_call_ref *r)
{
    const char *args = (const char *)&s->launches[r->launch].args;
    fx_call_panels panels;
    uint64_t x = 0;

    if (r->from == FX_FROM_STEP)
        args = (const char *)&s->step;
    if (r->from == FX_FROM_TILE)
        args = (const char *)&s->tile;
    if (r->from == FX_FROM_PANELS) {
        panels = panels_of((const fx_q8 *)(const void *)(args + r->q8), s->n_rows);
        args = (const char *)&panels;
    }
    memcpy(&x, args + r->at, r->narrow ? 4 : 8);
    return r->narrow ? (uint64_t)(int64_t)(int32_t)x : x;
}

typedef struct made {
    fx_arena arena;
    fx_plan_calls *calls;
    fx_code *code;               /* NULL: interpreted */
    char target[32];
} made;

static inline bool make_calls(made *m, const scene *s)
{
    fx_error err = { 0 };

    *m = (made){ .code = NULL };
    fx_arena_init(&m->arena, &fx_mem_libc, 0);
    CHECK_OK(fx_lower_calls(&m->arena, &s->plan, s->tables, &s->state, &m->calls, &err), err);
    for (int32_t i = 0; m->calls && i < m->calls->n_kernels; i++)
        CHECK_OK(fx_kir_expand_math(m->calls->kernels[i], &err), err);
    return m->calls != NULL;
}

static inline bool compile_calls(made *m, const scene *s, const fx_codegen *cg, const char *target)
{
    fx_error err = { 0 };
    fx_target t;
    fx_buf object;

    if (!make_calls(m, s))
        return false;
    CHECK_OK(fx_target_named(&t, fx_str_of(target), &err), err);
    for (int32_t i = 0; i < m->calls->n_kernels; i++) {
        CHECK_OK(fx_kir_widen(m->calls->kernels[i], fx_target_lanes(&t), &err), err);
        CHECK_OK(fx_kir_check(m->calls->kernels[i], &err), err);
    }
    snprintf(m->target, sizeof(m->target), "%s", target);
    fx_buf_init(&object, &fx_mem_libc);
    CHECK_OK(fx_codegen_compile(cg, &object, m->calls->module, &t, &(fx_codegen_options){ .form = FX_CODE_OBJECT }, &err), err);
    CHECK_OK(fx_code_load(&m->code, &fx_mem_libc, fx_buf_view(&object), "calls", &err), err);
    fx_buf_done(&object);
    return m->code != NULL;
}

static inline void made_done(made *m)
{
    fx_code_free(m->code);
    fx_arena_done(&m->arena);
}

/* What a call leaves to the launch's own kernel, of whichever level. */
static inline void run_rest(scene *s, const fx_plan_call *call, const fx_kernel *k)
{
    fx_launch *l = &s->launches[call->first];

    l->args.rope_store.turned = true;
    kt_run(k, &l->args, 2);
}

static inline void run_call(const made *m, const scene *s, const fx_plan_call *call)
{
    fx_kir_kernel *k = m->calls->kernels[call->kernel];
    uint64_t args[FX_CALL_MAX];
    void *buffers[FX_CALL_MAX];
    fx_kir_fault fault = { .op = -1 };
    fx_kir_interp *x = NULL;
    fx_error err = { 0 };
    char name[96];
    int64_t n;

    for (int i = 0; i < call->n_args; i++)
        args[i] = ref_value(s, &call->args[i]);
    for (int i = 0; i < call->n_buffers; i++)
        buffers[i] = (void *)(uintptr_t)ref_value(s, &call->buffers[i]);
    if (m->code) {
        snprintf(name, sizeof(name), "%.*s_tasks", FX_STR_ARG(k->name));
        n = ((fx_code_tasks)fx_code_find(m->code, fx_str_of(name)))(args);
        for (int64_t t = (n - 1) / 3 * 3; t >= 0; t -= 3)        /* ranges backwards */
            ((fx_code_run)fx_code_find(m->code, k->name))(args, buffers, t, FX_MIN(n, t + 3), &fault);
    } else {
        CHECK_OK(fx_kir_interp_new(&x, &fx_mem_libc, k, &err), err);
        n = x ? fx_kir_interp_tasks(x, &(fx_kir_launch){ args, buffers }) : 0;
        if (x)
            fx_kir_interp_run(x, &(fx_kir_launch){ args, buffers }, 0, n, &fault);
        fx_kir_interp_free(x);
    }
    CHECK_EQ_I64(n, s->n_rows);
    CHECK_EQ_I64(call->n, s->plan.n_launches);
    CHECK_EQ_I64(fault.op, -1);
}

/* ---- Comparing -------------------------------------------------------------------------------------------- */

/* Fresh copies of the buffers; the case's arguments over them. */
static inline void put_on(scene *s, const call_case *c, void *const *from)
{
    for (int i = 0; i < BUFS; i++)
        s->at[i] = copy_of(from[i], buf_bytes(s, i));
    scene_init(s, c, s->n_rows);
}

static inline void take_off(scene *s, void **to)
{
    for (int i = 0; i < BUFS; i++) {
        to[i] = s->at[i];
        s->at[i] = NULL;
    }
}

static inline void free_bufs(void **at)
{
    for (int i = 0; i < BUFS; i++)
        free(at[i]);
}

static inline fx_epilogue_fn epilogue_of(fx_cpu_level level)
{
#if defined(__x86_64__)
    return level == FX_CPU_AVX512 ? fx_epilogue_store_avx512 : level == FX_CPU_AVX2 ? fx_epilogue_store_avx2 : fx_epilogue_store;
#elif defined(__aarch64__)
    return level == FX_CPU_NEON ? fx_epilogue_store_neon : fx_epilogue_store;
#else
    (void)level;
    return fx_epilogue_store;
#endif
}

/* All launches: the first at kernel k's level by k, others by the kernel of their op at that level. */
static inline void run_by_hand(const scene *s, const fx_kernel *k)
{
    for (int32_t i = 0; i < s->plan.n_launches; i++) {
        const fx_launch *l = &s->launches[i];
        const fx_kernel *own = k;

        if (l->op == FX_L_MATMUL) {
            epilogue_of(k->level)(&l->args.matmul.epi, s->tile.acc, s->tile.ld, 0, s->tile.m, 0, s->tile.n);
            continue;
        }
        for (size_t v = 0; i > 0 && (own = kt_variant(kernel_of(l->op), v)) != NULL && own->level != k->level; v++)
            continue;
        REQUIRE(own);
        kt_run(own, &l->args, 3);
    }
}

/* All levels by hand and all ways of making the call with this many rows. */
static inline void compare_rows(const call_case *c, scene *s, const made *ways, int n_ways, int64_t n_rows)
{
    void *start[BUFS], *want[BUFS], *got[BUFS];
    const fx_kernel *k;
    char what[400];
    bool first = true;

    s->n_rows = n_rows;
    scene_init(s, c, n_rows);
    for (int i = 0; i < BUFS; i++)
        start[i] = random_buf(s, i);
    for (size_t v = 0; (k = kt_variant(c->kernel, v)) != NULL; v++) {
        if (k->level == FX_CPU_SCALAR && kt_variant(c->kernel, 1))       /* the reference, in double */
            continue;
        put_on(s, c, start);
        run_by_hand(s, k);
        take_off(s, first ? want : got);
        for (int i = 0; !first && i < BUFS; i++)
            compare_buf(s, k->name, i, want[i], got[i]);
        if (!first)
            free_bufs(got);
        first = false;
    }
    for (int w = 0; w < n_ways && !first; w++) {
        if (!ways[w].code && n_rows * (s->bufs[X].cols + s->bufs[Y].cols) > 8192)    /* slow */
            continue;
        put_on(s, c, start);
        for (int32_t i = 0; i < ways[w].calls->n_calls; i++) {
            run_call(&ways[w], s, &ways[w].calls->calls[i]);
            if (ways[w].calls->calls[i].rest)
                run_rest(s, &ways[w].calls->calls[i], kt_variant(c->kernel, (size_t)w % 2));
        }
        take_off(s, got);
        snprintf(what, sizeof(what), "%s %s", c->name, ways[w].code ? ways[w].target : "interpreted");
        for (int i = 0; i < BUFS; i++) {
            if (i != s->spoilt || i == 0)
                compare_buf(s, what, i, want[i], got[i]);
        }
        free_bufs(got);
    }
    if (!first)
        free_bufs(want);
    free_bufs(start);
}

#define MAX_WAYS 4
static inline int all_ways(made *ways, const scene *s)
{
    fx_codegen *cg = NULL;
    fx_error err = { 0 };
    fx_target t;
    int n = 0;

    n += make_calls(&ways[n], s);
    if (!*FXTEST_LLVM)
        return n;
    CHECK_OK(fx_codegen_open(&cg, &fx_mem_libc, FXTEST_LLVM, &err), err);
    for (const char *const *name = (const char *const[]){ "x86-64-v3", "x86-64-v4", "aarch64", NULL }; cg && *name; name++) {
        if (fx_target_named(&t, fx_str_of(*name), &err) == FORNAX_OK && fx_target_runs_here(&t))
            n += compile_calls(&ways[n], s, cg, *name);
    }
    fx_codegen_close(cg);
    return n;
}

static inline void compare_case(const call_case *c, scene *s)
{
    static const int64_t rows[] = { 1, 2, 5, 14, 15, 29, 64 };
    made ways[MAX_WAYS];
    int n;

    scene_init(s, c, 1);
    n = all_ways(ways, s);
    if (n && ways[0].calls->n_calls == 0)
        FXTEST_FAIL("%s: no call", c->name);
    for (size_t i = 0; i < FX_COUNT(rows); i++)
        compare_rows(c, s, ways, n, rows[i]);
    for (int i = 0; i < n; i++)
        made_done(&ways[i]);
}

#endif
