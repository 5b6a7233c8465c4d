/* test_rowops_attend.c - every variant of attention against sums in double over keys and
 * values that the test laid into pages itself, and the reduction contract: a row's bytes
 * are those of the row computed alone, whatever the chunk, the batch, the cut into tasks,
 * the order of pages, and whatever lies at positions that the row doesn't see. */
#include "base/pool.h"
#include "kernels/quant.h"
#include "kerneltest.h"

typedef struct shape {
    int heads, kv_heads, head_dim, v_dim, page_tokens, window;
    float softcap;
    fx_dtype type;
    float slope;                             /* of head 0, halved from head to head; 0: none */
    bool latent;
} shape;

static const shape shapes[] = {
    { 1, 1, 16, 16, 32, 0, 0, FX_F16, 0, false },      { 3, 1, 64, 64, 32, 0, 0, FX_F16, 0, false },
    { 4, 2, 64, 64, 64, 0, 0, FX_F32, 0, false },      { 9, 3, 64, 64, 32, 0, 0, FX_F16, 0, false },
    { 6, 2, 128, 128, 32, 0, 0, FX_F16, 0, false },    { 8, 8, 32, 48, 96, 0, 0, FX_F16, 0, false },
    { 7, 1, 80, 80, 32, 0, 0, FX_F16, 0, false },      { 16, 1, 24, 40, 32, 0, 0, FX_F32, 0, false },
    { 40, 1, 16, 16, 32, 0, 0, FX_F16, 0, false },     { 100, 1, 8, 12, 64, 0, 0, FX_F16, 0, false },
    { 2, 1, 2, 2, 32, 0, 0, FX_F16, 0, false },        { 3, 3, 6, 30, 32, 0, 0, FX_F32, 0, false },
    { 2, 2, 72, 8, 256, 0, 0, FX_F16, 0, false },      { 5, 1, 256, 200, 32, 0, 0, FX_F16, 0, false },
    { 3, 1, 64, 64, 32, 1, 0, FX_F16, 0, false },      { 3, 1, 64, 64, 32, 5, 0, FX_F32, 0, false },
    { 4, 4, 64, 64, 32, 33, 0, FX_F16, 0, false },     { 6, 2, 64, 64, 64, 512, 0, FX_F16, 0, false },
    { 8, 4, 48, 64, 32, 700, 0, FX_F16, 0, false },    { 4, 2, 64, 64, 32, 0, 30, FX_F16, 0, false },
    { 4, 1, 48, 48, 32, 100, 5, FX_F32, 0, false },    { 5, 5, 32, 32, 32, 0, 0, FX_F16, 0.5f, false },
    { 6, 2, 64, 64, 32, 40, 0, FX_F32, 0.25f, false },
    { 4, 4, 32, 32, 32, FX_WINDOW_BOTH, 0, FX_F32, 0, false }, { 6, 2, 64, 48, 64, FX_WINDOW_BOTH, 0, FX_F16, 0, false },
    { 4, 1, 40, 32, 32, 0, 0, FX_F16, 0, true },  { 16, 1, 72, 64, 64, 0, 0, FX_F16, 0, true },
    { 2, 1, 30, 22, 32, 0, 0, FX_F32, 0, true },  { 100, 1, 48, 40, 32, 0, 0, FX_F32, 0, true },
    { 6, 2, 32, 32, 32, 0, 0, FX_F16, 0, true },  { 1, 1, 288, 256, 32, 700, 0, FX_F16, 0, true },
    { 9, 3, 64, 64, 32, 0, 0, FX_I8, 0, false },       { 2, 1, 128, 128, 64, 0, 0, FX_I8, 0, false },
    { 7, 1, 81, 50, 32, 0, 0, FX_I8, 0, false },       { 40, 1, 16, 20, 96, 0, 0, FX_I8, 0, false },
    { 4, 4, 64, 64, 32, 33, 0, FX_I8, 0, false },      { 6, 2, 66, 65, 64, 512, 30, FX_I8, 0, false },
    { 5, 5, 32, 32, 32, 0, 0, FX_I8, 0.5f, false },    { 1, 1, 3, 1, 32, 1, 0, FX_I8, 0, false },
    { 6, 2, 64, 48, 64, FX_WINDOW_BOTH, 0, FX_I8, 0, false }, { 3, 1, 600, 130, 32, 0, 0, FX_I8, 0, false },
    { 16, 1, 72, 64, 64, 0, 0, FX_I8, 0, true },       { 2, 1, 30, 22, 32, 40, 0, FX_I8, 0, true },
    { 9, 3, 64, 64, 32, 0, 0, FX_BF16, 0, false },     { 7, 1, 40, 44, 32, 40, 0, FX_BF16, 0, false },
    { 6, 2, 32, 24, 32, 0, 0, FX_BF16, 0, true },
};

/* Sequences of one scenario: how many positions before the step, how many rows in it. */
static const int seq_pos0[] = { 0, 31, 800, 3, 511, 64, 517, 0, 1023 };
static const int seq_rows[] = { 70, 1, 1, 13, 2, 64, 100, 1, 3 };
#define N_SEQS ((int)FX_COUNT(seq_pos0))

typedef struct scene {
    shape sh;
    fx_step step;
    fx_step_seq seqs[N_SEQS];
    int32_t *pos, *seq;
    size_t k_offset, v_offset, kv_bytes;
    float *k[N_SEQS], *v[N_SEQS];            /* [position][kv_head][dim], as stored */
    float *q, *slopes;
    float *sinks;                            /* where heads are a multiple of 3 */
    fx_attend_args args;
} scene;

/* What a byte stands for in a head of n numbers; NaN if one isn't finite. */
static float byte_scale(const float *x, int64_t n)
{
    float max = 0;

    for (int64_t d = 0; d < n; d++)
        max = isfinite(x[d]) ? FX_MAX(max, fabsf(x[d])) : INFINITY;
    return isfinite(max) ? max / 127.0f : NAN;
}

/* The n numbers of a head as they are stored. */
static void round_head(fx_dtype type, float *x, int64_t n)
{
    float scale = byte_scale(x, n);

    for (int64_t d = 0; d < n; d++)
        x[d] = type == FX_F16    ? fx_f16_to_f32(fx_f32_to_f16(x[d]))
               : type == FX_BF16 ? fx_bf16_to_f32(fx_f32_to_bf16(x[d]))
               : type == FX_I8   ? rintf(x[d] / scale) * scale
                                 : x[d];
}

/* Bytes of a token of one head. */
static size_t token_bytes(const shape *sh, int width)
{
    return sh->type == FX_I8 ? FX_ROUND_UP((size_t)width, 4u) + 4 : (size_t)width * (sh->type == FX_F32 ? 4 : 2);
}

static void put(const shape *sh, uint8_t *block, int64_t i, float x, float scale)
{
    uint16_t h = sh->type == FX_F16 ? fx_f32_to_f16(x) : fx_f32_to_bf16(x);

    if (sh->type == FX_I8)
        ((int8_t *)block)[i] = (int8_t)(isnan(scale) ? 77 : rintf(x / scale));
    else if (sh->type == FX_F32)
        memcpy(block + i * 4, &x, 4);
    else
        memcpy(block + i * 2, &h, 2);
}

/* A head of 'width' numbers of the token at 'in' of a page: the part of which begins at 'part'. */
static void put_head(scene *s, uint8_t *part, const float *x, int width, bool key, int64_t h, int64_t in, bool hide)
{
    const shape *sh = &s->sh;
    int64_t j = in % 32, fours = FX_ROUND_UP(width, 4);
    uint8_t *block = part + token_bytes(sh, width) * (size_t)(h * sh->page_tokens + in - j);
    float scale = hide ? NAN : byte_scale(x, width);

    for (int64_t d = 0; d < width; d++) {
        int64_t i = key ? d * 32 + j : j * width + d;

        if (sh->type == FX_I8)
            i = key ? d / 4 * 128 + j * 4 + d % 4 : (j / 4 * fours + d) * 4 + j % 4;
        put(sh, block, i, hide ? NAN : x[d], scale);
    }
    if (sh->type == FX_I8)
        memcpy(block + 32 * fours + j * 4, &scale, 4);
}

/* Positions [p0, p1) of a sequence into its pages, by the layout that rows.h describes; or NaNs. */
static void store_seq(scene *s, int i, int64_t p0, int64_t p1, bool hide)
{
    const shape *sh = &s->sh;

    for (int64_t p = p0; p < p1; p++) {
        uint8_t *page = s->step.kv + (size_t)s->seqs[i].pages[p / sh->page_tokens] * s->step.page_bytes;
        int64_t in = p % sh->page_tokens;

        for (int64_t h = 0; h < sh->kv_heads; h++) {
            put_head(s, page + s->k_offset, s->k[i] + (p * sh->kv_heads + h) * sh->head_dim, sh->head_dim, true, h, in, hide);
            if (!sh->latent)
                put_head(s, page + s->v_offset, s->v[i] + (p * sh->kv_heads + h) * sh->v_dim, sh->v_dim, false, h, in, hide);
        }
    }
}

static void make_pages(scene *s)
{
    const shape *sh = &s->sh;
    size_t tokens = (size_t)(sh->kv_heads * sh->page_tokens);
    int32_t n_pages = 0, next = 0;

    s->k_offset = 64;                        /* as if other layers lay around it */
    s->v_offset = FX_ROUND_UP(s->k_offset + tokens * token_bytes(sh, sh->head_dim), (size_t)64);
    s->step.page_bytes = FX_ROUND_UP(s->v_offset + tokens * token_bytes(sh, sh->v_dim), (size_t)64) + 64;
    s->step.page_tokens = sh->page_tokens;
    s->step.n_columns = 1;
    for (int i = 0; i < N_SEQS; i++)
        n_pages += FX_DIV_UP(seq_pos0[i] + seq_rows[i], sh->page_tokens);
    s->kv_bytes = (size_t)n_pages * s->step.page_bytes;
    s->step.kv = kt_alloc(s->kv_bytes);      /* all NaN */
    for (int i = 0; i < N_SEQS; i++) {
        int32_t n = FX_DIV_UP(seq_pos0[i] + seq_rows[i], sh->page_tokens);
        fx_page *pages = kt_alloc((size_t)n * sizeof *pages);

        for (int32_t p = 0; p < n; p++, next++)              /* odd order: far apart, downwards */
            pages[p] = (fx_page)(next % 2 ? next / 2 : n_pages - 1 - next / 2);
        s->seqs[i].pages = pages;
    }
}

static void scene_new(scene *s, const shape *sh)
{
    int32_t n = 0;

    *s = (scene){ .sh = *sh };
    make_pages(s);
    for (int i = 0; i < N_SEQS; i++)
        n += seq_rows[i];
    s->pos = kt_alloc((size_t)n * 4);
    s->seq = kt_alloc((size_t)n * 4);
    n = 0;
    for (int i = 0; i < N_SEQS; i++) {
        int64_t tokens = seq_pos0[i] + seq_rows[i];

        s->k[i] = kt_floats(tokens * sh->kv_heads * sh->head_dim, 1);
        s->v[i] = kt_floats(tokens * sh->kv_heads * sh->v_dim, 1);
        for (int64_t j = 0; j < tokens * sh->kv_heads; j++) {
            round_head(sh->type, s->k[i] + j * sh->head_dim, sh->head_dim);
            round_head(sh->type, s->v[i] + j * sh->v_dim, sh->v_dim);
        }
        for (int64_t j = 0; sh->latent && j < tokens * sh->kv_heads; j++)
            memcpy(s->v[i] + j * sh->v_dim, s->k[i] + (j + 1) * sh->head_dim - sh->v_dim, (size_t)sh->v_dim * sizeof(float));
        s->seqs[i].row0 = n;
        s->seqs[i].n_rows = seq_rows[i];
        s->seqs[i].pos0 = seq_pos0[i];
        s->seqs[i].adapter = -1;
        for (int r = 0; r < seq_rows[i]; r++, n++) {
            s->pos[n] = seq_pos0[i] + r;
            s->seq[n] = i;
        }
        store_seq(s, i, 0, tokens, false);
    }
    s->step.n_rows = n;
    s->step.n_seqs = N_SEQS;
    s->step.pos = s->pos;
    s->step.seq = s->seq;
    s->step.seqs = s->seqs;
    s->q = kt_floats((int64_t)n * (sh->heads * sh->head_dim + 3), 1);
    s->sinks = kt_floats(sh->heads, 4);
    s->args = (fx_attend_args){ .sinks = sh->heads % 3 ? NULL : s->sinks, .q = { s->q, sh->heads * sh->head_dim + 3 }, .heads = sh->heads,
                                .kv_heads = sh->kv_heads, .head_dim = sh->head_dim, .v_dim = sh->v_dim,
                                .scale = 1.0f / sqrtf((float)sh->head_dim), .window = sh->window,
                                .softcap = sh->softcap, .kv_dtype = sh->type, .k_offset = s->k_offset,
                                .v_offset = s->v_offset, .latent = sh->latent, .step = &s->step };
    s->slopes = kt_alloc((size_t)sh->heads * sizeof(float));
    for (int h = 0; h < sh->heads; h++)
        s->slopes[h] = ldexpf(sh->slope, -h);
    s->args.slopes = sh->slope > 0 ? s->slopes : NULL;
}

static void scene_free(scene *s)
{
    for (int i = 0; i < N_SEQS; i++) {
        free((void *)(uintptr_t)s->seqs[i].pages);
        free(s->k[i]);
        free(s->v[i]);
    }
    free(s->step.kv);
    free(s->pos);
    free(s->seq);
    free(s->q);
    free(s->sinks);
    free(s->slopes);
}

/* out[r][head] by the textbook. */
static void truth(const scene *s, int r, int head, double *out)
{
    const shape *sh = &s->sh;
    int i = s->seq[r], kv = head / (sh->heads / sh->kv_heads), end = s->pos[r] + 1;
    int begin = sh->window > 0 && end > sh->window ? end - sh->window : 0;

    if (sh->window == FX_WINDOW_BOTH)
        end = seq_pos0[i] + seq_rows[i];
    double max = -INFINITY, sum = 0, *score = kt_alloc((size_t)end * sizeof *score);

    for (int j = begin; j < end; j++) {
        double dot = 0;

        for (int d = 0; d < sh->head_dim; d++)
            dot += (double)s->q[r * s->args.q.ld + head * sh->head_dim + d] *
                   (double)s->k[i][((int64_t)j * sh->kv_heads + kv) * sh->head_dim + d];
        dot *= (double)s->args.scale;
        score[j] = sh->softcap > 0 ? (double)sh->softcap * tanh(dot / (double)sh->softcap) : dot;
        if (sh->slope > 0)
            score[j] -= (double)s->slopes[head] * (s->pos[r] - j);
        max = fmax(max, score[j]);
    }
    for (int d = 0; d < sh->v_dim; d++)
        out[d] = 0;
    if (s->args.sinks)
        sum = exp((double)s->sinks[head] - max);
    for (int j = begin; j < end; j++) {
        double e = exp(score[j] - max);

        sum += e;
        for (int d = 0; d < sh->v_dim; d++)
            out[d] += e * (double)s->v[i][((int64_t)j * sh->kv_heads + kv) * sh->v_dim + d];
    }
    for (int d = 0; d < sh->v_dim; d++)
        out[d] /= sum;
    free(score);
}

/* What was rounded is what was written. */
static void check_rounded(const fx_attend_args *a, const fx_kernel *k)
{
    fx_q8 want = { kt_alloc(fx_q8_bytes(a->step->n_rows, a->q8.k)), a->q8.k };

    fx_q8_put(&want, a->step->n_rows, 0, a->step->n_rows, 0, want.k, (fx_cmat){ a->out.p, a->out.ld });
    if (memcmp(want.data, a->q8.data, (size_t)(a->step->n_rows * (want.k / 32) * FX_Q8_WORDS) * 4) != 0)
        FXTEST_FAIL("%s: heads %d/%d dim %d/%d: what is rounded isn't the result", k->name, a->heads, a->kv_heads, a->head_dim,
                    a->v_dim);
    free(want.data);
}

/* The whole scene by kernel k, tasks cut by 'grain'; rows of the result are 'ld' apart. */
static float *run_scene(const scene *s, const fx_kernel *k, int64_t grain, int64_t ld)
{
    fx_attend_args a = s->args;

    a.out = (fx_mat){ kt_alloc((size_t)(s->step.n_rows * ld) * sizeof(float)), ld };
    a.q8.k = a.heads * a.v_dim;
    if (a.v_dim % 32 == 0)
        a.q8.data = kt_alloc(fx_q8_bytes(s->step.n_rows, a.q8.k));
    kt_run(k, &a, grain);
    if (a.q8.data)
        check_rounded(&a, k);
    free(a.q8.data);
    return a.out.p;
}

/* Some rows of all heads, [picked row][heads * v_dim]. */
static int picked(int i) { return i * (i + 1) / 2; }

static double *truths(const scene *s)
{
    int64_t columns = s->sh.heads * s->sh.v_dim, n = 0;
    double *out;

    while (picked((int)n) < s->step.n_rows)
        n++;
    out = kt_alloc((size_t)(n * columns) * sizeof *out);
    for (int i = 0; i < n; i++)
        for (int h = 0; h < s->sh.heads; h++)
            truth(s, picked(i), h, out + i * columns + h * s->sh.v_dim);
    return out;
}

static void check_truth(const scene *s, const fx_kernel *k, const double *want, const float *y, int64_t ld)
{
    double worst = 0;

    for (int i = 0; picked(i) < s->step.n_rows; i++)
        for (int64_t c = 0; c < s->sh.heads * s->sh.v_dim; c++) {
            double e = fabs((double)y[picked(i) * ld + c] - want[i * s->sh.heads * s->sh.v_dim + c]);

            worst = e <= worst ? worst : e;                  /* NaN sticks */
        }
    /* Over bytes, queries and weights have 15 bits. */
    if (!(worst < (s->sh.type == FX_I8 ? 2e-4 : 1e-5)))
        FXTEST_FAIL("%s: heads %d/%d dim %d/%d window %d: error %g", k->name, s->sh.heads, s->sh.kv_heads,
                    s->sh.head_dim, s->sh.v_dim, s->sh.window, worst);
}

/* Rows [r0, r0 + n) of sequence i as a step of its own; what none of them sees is NaN. */
static void run_chunk(const scene *s, const fx_kernel *k, int i, int r0, int n, float *y)
{
    scene c = *s;
    fx_step_seq one = s->seqs[i];
    int32_t zeros[256] = { 0 };
    size_t shared = (size_t)1 << 20;         /* enough for some of the chunks */

    store_seq(&c, i, one.pos0 + r0 + n, one.pos0 + one.n_rows, true);
    one.row0 = 0;
    one.n_rows = n;
    one.pos0 += r0;
    c.step.n_rows = n;
    c.step.n_seqs = 1;
    c.step.seqs = &one;
    c.step.pos = s->pos + s->seqs[i].row0 + r0;
    c.step.seq = zeros;
    c.args.step = &c.step;
    c.args.q.p += (s->seqs[i].row0 + r0) * c.args.q.ld;
    c.args.out = (fx_mat){ y, s->sh.heads * s->sh.v_dim };
    c.args.shared = kt_alloc(shared);
    c.args.shared_bytes = shared;
    memset(c.args.shared, 0, shared);
    kt_run(k, &c.args, 3);
    free(c.args.shared);
    store_seq(&c, i, seq_pos0[i] + r0 + n, seq_pos0[i] + seq_rows[i], false);
}

static void check_chunks(const scene *s, const fx_kernel *k, const float *y, int64_t ld)
{
    static const int sizes[] = { 1, 7, 64 };
    int64_t columns = s->sh.heads * s->sh.v_dim;
    float *part = kt_alloc((size_t)(64 * columns) * sizeof(float));
    int n_sizes = k->level == FX_CPU_SCALAR ? 1 : (int)FX_COUNT(sizes);

    for (int i = 0; i < N_SEQS; i++)
        for (int c = 0; c < n_sizes; c++)
            for (int r = 0; r < seq_rows[i]; r += sizes[c] == 1 ? 1 + seq_rows[i] / 4 : sizes[c]) {
                int n = FX_MIN(sizes[c], seq_rows[i] - r), bad = 0;

                run_chunk(s, k, i, r, n, part);
                for (int j = 0; j < n; j++)
                    bad += memcmp(part + j * columns, y + (s->seqs[i].row0 + r + j) * ld,
                                  (size_t)columns * sizeof(float)) != 0;
                if (bad)
                    FXTEST_FAIL("%s: heads %d/%d dim %d/%d window %d: rows %d..%d of sequence %d differ", k->name,
                                s->sh.heads, s->sh.kv_heads, s->sh.head_dim, s->sh.v_dim, s->sh.window, r, r + n, i);
            }
    free(part);
}

TEST(against_double_and_the_contract)
{
    for (size_t i = 0; i < FX_COUNT(shapes); i++) {
        const fx_kernel *k;
        scene s;

        double *want;

        scene_new(&s, &shapes[i]);
        want = truths(&s);
        for (size_t v = 0; (k = kt_variant(FX_K_ATTEND, v)) != NULL; v++) {
            int64_t ld = s.sh.heads * s.sh.v_dim, wide = ld + 5;
            float *y = run_scene(&s, k, 1, ld), *z;

            check_truth(&s, k, want, y, ld);
            for (int64_t grain = 2; grain < 1000 && k->level != FX_CPU_SCALAR; grain = grain * 3 + 1) {
                z = run_scene(&s, k, grain, wide);
                for (int64_t r = 0; r < s.step.n_rows; r++)
                    CHECK_MEM(y + r * ld, z + r * wide, (size_t)ld * sizeof(float));
                CHECK(isnan(z[ld]) && isnan(z[wide * s.step.n_rows - 1]));       /* nothing beyond */
                free(z);
            }
            if (k->level != FX_CPU_SCALAR || i % 5 == 0)     /* the reference is slow */
                if (shapes[i].window != FX_WINDOW_BOTH)      /* whose rows need the whole sequence */
                    check_chunks(&s, k, y, ld);
            free(y);
        }
        free(want);
        scene_free(&s);
    }
}

typedef struct launch {
    const fx_kernel *k;
    const void *args;
    void *scratch[4];
} launch;

static void run_launch(void *user, int64_t t0, int64_t t1, int worker)
{
    launch *l = user;

    l->k->run(l->args, t0, t1, l->scratch[worker]);
}

/* A few sequences alone, on 1 to 4 threads, again and again with the same shared memory:
 * the keys are cut into parts, and who finishes last merges. */
TEST(threads_share_long_sequences)
{
    static const shape few[] = { { 3, 1, 64, 64, 32, 0, 0, FX_F16, 0, false }, { 4, 2, 32, 40, 64, 700, 0, FX_F32, 0, false },
                                 { 3, 1, 64, 50, 32, 0, 0, FX_I8, 0, false } };
    size_t shared = FX_ATTEND_SHARED;

    for (size_t i = 0; i < FX_COUNT(few); i++)
        for (int threads = 1; threads <= 4; threads++) {
            const fx_kernel *k;
            fx_pool *pool;
            scene s;

            scene_new(&s, &few[i]);
            REQUIRE(fx_pool_new(&pool, &fx_mem_libc, threads, NULL) == FORNAX_OK);
            s.args.shared_bytes = shared;
            for (size_t v = 0; (k = kt_variant(FX_K_ATTEND, v)) != NULL; v++) {
                int64_t ld = few[i].heads * few[i].v_dim;
                launch l = { .k = k, .args = &s.args };
                float *y, *z;

                if (k->level == FX_CPU_SCALAR)               /* cuts by row anyway */
                    continue;
                y = run_scene(&s, k, 1, ld);
                z = kt_alloc((size_t)(s.step.n_rows * ld) * 4);
                for (int w = 0; w < threads; w++)
                    l.scratch[w] = kt_alloc(k->scratch_bytes(&s.args));
                s.args.shared = kt_alloc(shared);
                memset(s.args.shared, 0, shared);
                s.args.out = (fx_mat){ z, ld };
                if (few[i].v_dim % 32 == 0)
                    s.args.q8 = (fx_q8){ kt_alloc(fx_q8_bytes(s.step.n_rows, ld)), ld };
                for (int n_seqs = N_SEQS; n_seqs > 0; n_seqs--) {       /* the last sequences */
                    fx_step step = s.step;
                    int64_t at = s.seqs[N_SEQS - n_seqs].row0 * ld;

                    step.seqs += N_SEQS - n_seqs;
                    step.n_seqs = n_seqs;
                    s.args.step = &step;
                    memset(z, 0xff, (size_t)(s.step.n_rows * ld) * 4);
                    fx_pool_run(pool, run_launch, &l, k->tasks(&s.args), 1);
                    CHECK_MEM(y + at, z + at, (size_t)(s.step.n_rows * ld - at) * 4);
                    if (n_seqs == N_SEQS && s.args.q8.data)
                        check_rounded(&s.args, k);
                    s.args.step = &s.step;
                }
                for (int w = 0; w < threads; w++)
                    free(l.scratch[w]);
                free(s.args.shared);
                s.args.shared = NULL;
                free(s.args.q8.data);
                s.args.q8.data = NULL;
                free(y);
                free(z);
            }
            fx_pool_free(pool);
            scene_free(&s);
        }
}

static void check_bad_values(shape sh)
{
    static const float bad[] = { NAN, INFINITY, -INFINITY, 3e38f };
    const fx_kernel *k;

    for (size_t b = 0; b < FX_COUNT(bad); b++)
        for (size_t v = 0; (k = kt_variant(FX_K_ATTEND, v)) != NULL; v++) {
            scene s;
            float *y, *z;
            int64_t columns = sh.heads * sh.v_dim;

            if (k->level == FX_CPU_SCALAR && b > 0)
                continue;
            scene_new(&s, &sh);
            y = run_scene(&s, k, 1, columns);
            s.q[20 * s.args.q.ld + 5] = bad[b];              /* row 20, head 0 */
            s.k[0][(40 * sh.kv_heads + 1) * sh.head_dim + 3] = bad[b];      /* position 40, kv head 1 */
            s.v[0][(50 * sh.kv_heads + 0) * sh.v_dim + 9] = bad[b];
            store_seq(&s, 0, 40, 51, false);
            z = run_scene(&s, k, 1, columns);
            for (int64_t r = 0; r < s.step.n_rows; r++)
                for (int64_t h = 0; h < sh.heads; h++) {
                    bool hit = s.seq[r] == 0 && ((r == 20 && h == 0) || (h >= 3 && s.pos[r] >= 40) ||
                                                 (h < 3 && s.pos[r] >= 50));

                    if (hit && isnan(bad[b]))
                        CHECK(isnan(z[r * columns + h * sh.v_dim + 9]));
                    if (!hit)
                        CHECK_MEM(y + r * columns + h * sh.v_dim, z + r * columns + h * sh.v_dim,
                                  (size_t)sh.v_dim * sizeof(float));
                }
            free(y);
            free(z);
            scene_free(&s);
        }
}

/* A NaN or infinity in one query or value stays in the rows that see it. */
TEST(bad_values_stay_where_they_are)
{
    check_bad_values((shape){ 6, 2, 64, 64, 32, 0, 0, FX_F32, 0, false });
    check_bad_values((shape){ 6, 2, 64, 64, 32, 0, 0, FX_I8, 0, false });
}

FXTEST_MAIN()
