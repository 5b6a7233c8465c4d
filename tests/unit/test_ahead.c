/* test_ahead.c - which pages the products before an attention fetch for it (runtime/exec_ahead.c). */
#include "fxtest.h"

#include "kernels/quant.h"
#include "runtime/exec_int.h"

enum { SEQS = 20, COLUMNS = 2, COLUMN = 1, TOKENS = 32, PAGES = 4, PAGE_BYTES = 1 << 16, K_OFFSET = 4096, V_OFFSET = 12288 };
enum { EARLY, FIRST, LAST, ATTEND, LAUNCHES };   /* three products, of which two fetch, with weights of 1, 1 and 3 parts */

/* An exec with nothing but what is looked at here. */
typedef struct made {
    fx_exec x;
    fx_exec_launch launches[LAUNCHES];
    fx_matmul_kernel kernel;
    fx_step step;
    fx_step_seq seqs[SEQS];
    fx_page pages[SEQS][PAGES * COLUMNS];
    uint8_t pool;
    fx_page want[SEQS * PAGES];          /* what is read, in order */
    int64_t n_want;
    int times[SEQS * PAGES];             /* how often each of these is fetched */
} made;

/* The pages of positions [pos0 + 1 - window, pos0) of each sequence. */
static void find_wanted(made *m, int32_t window)
{
    for (int i = 0; i < SEQS; i++)
        for (int p = 0; p < PAGES; p++)
            if (p * TOKENS < m->seqs[i].pos0 && (window == 0 || (p + 1) * TOKENS > m->seqs[i].pos0 + 1 - window))
                m->want[m->n_want++] = m->pages[i][p * COLUMNS + COLUMN];
}

static made *make(int32_t window, bool latent)
{
    static const int64_t n[] = { 64, 64, 192 };
    made *m = calloc(1, sizeof *m);

    m->x.launches = m->launches;
    m->x.plan.n_launches = LAUNCHES;
    for (int i = 0; i < ATTEND; i++) {
        m->launches[i].matmul = &m->kernel;
        m->launches[i].l.op = FX_L_MATMUL;
        m->launches[i].l.rows = FX_ROWS_STEP;
        m->launches[i].l.args.matmul.n = n[i];
        m->launches[i].l.args.matmul.tile_bytes = 1024;
    }
    m->launches[ATTEND].l.op = FX_L_ATTEND;
    m->launches[ATTEND].l.args.attend = (fx_attend_args){ .kv_heads = 2, .head_dim = 64, .v_dim = 48, .kv_dtype = FX_F16, .column = COLUMN,
                                                          .window = window, .latent = latent, .k_offset = K_OFFSET, .v_offset = V_OFFSET };
    for (int i = 0; i < SEQS; i++) {
        for (int p = 0; p < PAGES * COLUMNS; p++)
            m->pages[i][p] = (fx_page)(100 * i + p);
        m->seqs[i] = (fx_step_seq){ .row0 = i, .n_rows = 1, .pos0 = 5 * i, .pages = m->pages[i] };
    }
    m->step = (fx_step){ .n_rows = SEQS, .n_seqs = SEQS, .seqs = m->seqs, .kv = &m->pool, .page_bytes = PAGE_BYTES,
                         .page_tokens = TOKENS, .n_columns = COLUMNS };
    m->x.step = &m->step;
    fx_exec_join_ahead(&m->x);
    m->x.ahead_most = 64 << 20;
    find_wanted(m, window);
    return m;
}

/* Sets both products; returns how many pages they fetch, each counted in m->times. */
static int64_t fetched(made *m)
{
    int64_t n = 0;

    memset(m->times, 0, sizeof m->times);
    for (int i = FIRST; i <= LAST; i++)
        fx_exec_set_ahead(&m->x, &m->launches[i]);
    for (int i = FIRST; i <= LAST; i++) {
        const fx_ahead *a = m->launches[i].l.args.matmul.ahead;

        for (int64_t p = 0; a && p < a->n; p++, n++)
            for (int64_t w = 0; w < m->n_want; w++)
                m->times[w] += a->pages[p] == m->want[w];
    }
    return n;
}

TEST(two_products_fetch_each_page_once)
{
    static const int32_t windows[] = { 0, 1, 10, 32, 33, 64 };

    for (size_t i = 0; i < FX_COUNT(windows); i++) {
        made *m = make(windows[i], false);

        CHECK_EQ_I64(fetched(m), m->n_want);
        for (int64_t w = 0; w < m->n_want; w++)
            CHECK_EQ_I64(m->times[w], 1);
        CHECK(m->launches[EARLY].l.args.matmul.ahead == NULL);
        free(m);
    }
}

/* A fourth of the weights is the first product's: of 16 pages four, all over the sequences. */
TEST(shares_are_mixed)
{
    made *m = make(0, false);
    const fx_ahead *a = &m->launches[FIRST].ahead;

    fetched(m);
    CHECK(a->n >= m->n_want / 16 * 4 && a->n <= FX_DIV_UP(m->n_want, 16) * 4);
    CHECK(a->pages[0] < 400 && a->pages[a->n - 1] >= 1600);
    for (int64_t p = 1; p < a->n; p++)
        CHECK(a->pages[p] > a->pages[p - 1]);
    free(m);
}

TEST(bytes_are_those_of_the_layer)
{
    for (int latent = 0; latent <= 1; latent++) {
        made *m = make(0, latent);

        fx_exec_set_ahead(&m->x, &m->launches[LAST]);
        CHECK(m->launches[LAST].ahead.base == m->step.kv + K_OFFSET);
        CHECK_EQ_I64((int64_t)m->launches[LAST].ahead.bytes, latent ? 2 * 64 * 32 * 2 : V_OFFSET + 2 * 48 * 32 * 2 - K_OFFSET);
        CHECK_EQ_I64((int64_t)m->launches[LAST].ahead.page_bytes, PAGE_BYTES);
        free(m);
    }
}

TEST(no_more_than_the_cache_holds)
{
    made *m = make(0, false);

    m->x.ahead_most = 10 * (V_OFFSET + 2 * 48 * 32 * 2 - K_OFFSET);
    CHECK_EQ_I64(fetched(m), 10);
    for (int64_t w = 0; w < m->n_want; w++)
        CHECK_EQ_I64(m->times[w], w < 10);
    m->x.ahead_most = 0;
    CHECK_EQ_I64(fetched(m), 0);
    free(m);
}

/* A product of one panel has no time for it; what an earlier step fetched is forgotten. */
TEST(few_rows_fetch_nothing)
{
    made *m = make(0, false);

    CHECK_EQ_I64(fetched(m), m->n_want);
    m->step.n_rows = m->step.n_seqs = FX_Q8_PANEL;
    CHECK_EQ_I64(fetched(m), 0);
    free(m);
}

FXTEST_MAIN()
