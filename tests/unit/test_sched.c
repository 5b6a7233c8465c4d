/* test_sched.c - the scheduler alone: budgets, order of preemption, who waits for whom,
 * and its invariants under random use. */
#include "fxtest.h"
#include "sched/sched.h"

#define PT 4
#define CAP 64

static fx_state_table table = { .page_tokens = PT, .page_bytes = 64, .n_columns = 1,
                                .n_groups = 1, .groups = { { .n = 1 }, { .first = 1, .n = 2 } } };
static uint32_t snapshots = 64;

typedef struct bench {
    fx_kv *kv;
    fx_sched sched;
    fx_kv_scope *scope;
    uint64_t arrivals;
} bench;

typedef struct test_seq {
    fx_seq seq;
    int32_t tokens[CAP];
    fx_page pages[CAP / PT * 3];
    fx_hash128 keys[CAP / PT];
} test_seq;

/* pages: in each column. */
static void open_bench(bench *b, uint32_t pages, int32_t batch, int32_t rows, int32_t chunk)
{
    fx_sched_limits limits = { batch, rows, chunk, true };
    fx_error err = { 0 };

    memset(b, 0, sizeof *b);
    CHECK_OK(fx_kv_open(&b->kv, &fx_mem_libc, &table, pages * (uint32_t)table.n_columns, FX_STR("m"), &err), err);
    if (table.slot_bytes)
        CHECK_OK(fx_kv_add_slots(b->kv, (uint32_t)batch, snapshots, &err), err);
    CHECK_OK(fx_sched_init(&b->sched, &fx_mem_libc, b->kv, &limits, &err), err);
    b->scope = fx_kv_scope_join(b->kv, fx_kv_scope_new(&fx_mem_libc, FX_STR(""), FX_STR("")));
}

static void close_bench(bench *b)
{
    fx_sched_check(&b->sched);
    CHECK_EQ_I64(fx_kv_count(b->kv).used, 0);
    fx_sched_done(&b->sched);
    fx_kv_scope_leave(b->kv, b->scope);
    fx_kv_close(b->kv);
}

static void set(bench *b, test_seq *t, int32_t n, int32_t first_token, int32_t priority)
{
    memset(t, 0, sizeof *t);
    for (int32_t i = 0; i < n; i++)
        t->tokens[i] = first_token + i;
    t->seq = (fx_seq){ .tokens = t->tokens, .pages = t->pages, .keys = t->keys, .cap = CAP, .n_prompt = n,
                       .n_tokens = n, .priority = priority, .arrival = b->arrivals++, .wants_logits = true,
                       .scope = b->scope, .owner = t };
}

static void add(bench *b, test_seq *t, int32_t n, int32_t first_token, int32_t priority)
{
    set(b, t, n, first_token, priority);
    fx_sched_add(&b->sched, &t->seq);
}

/* What rows of the step read and write has pages. */
static void check_pages(const fx_step *s)
{
    for (int32_t i = 0; i < s->n_seqs; i++) {
        const fx_step_seq *q = &s->seqs[i];

        for (int g = 0; g < table.n_groups; g++) {
            int32_t window = table.groups[g].window, low = window > 0 ? FX_MAX(q->pos0 + 1 - window, 0) : 0;

            for (int32_t p = low / table.page_tokens; p <= (q->pos0 + q->n_rows - 1) / table.page_tokens; p++)
                for (int32_t c = table.groups[g].first; c < table.groups[g].first + table.groups[g].n; c++)
                    CHECK(q->pages[p * table.n_columns + c] != FX_PAGE_NONE);
        }
    }
}

/* One step; sequences that want a token get one, those at their end leave. Rows computed. */
static int step(bench *b)
{
    const fx_step *s = fx_sched_plan(&b->sched);
    int rows = s ? s->n_rows : 0;

    fx_sched_check(&b->sched);
    if (!s)
        return 0;
    CHECK(rows <= b->sched.limits.step_tokens);
    check_pages(s);
    fx_sched_commit(&b->sched);
    for (int32_t i = 0; i < b->sched.n_items; i++) {
        fx_seq *seq = b->sched.items[i].seq;

        CHECK(b->sched.items[i].n_rows <= b->sched.limits.prefill_chunk);
        if (b->sched.items[i].logit < 0)
            continue;
        if (seq->n_tokens < seq->cap)
            fx_sched_push(&b->sched, seq, 1000 + seq->n_tokens);
        else
            fx_sched_remove(&b->sched, seq);
    }
    fx_sched_check(&b->sched);
    return rows;
}

TEST(budget_goes_to_decoding_first)
{
    static test_seq t[4];
    bench b;

    open_bench(&b, 64, 4, 10, 10);
    add(&b, &t[0], 3, 100, 0);
    add(&b, &t[1], 5, 200, 0);
    CHECK_EQ_I64(step(&b), 8);                    /* both prompts fit */
    add(&b, &t[2], 40, 300, 0);
    add(&b, &t[3], 40, 400, 0);
    CHECK_EQ_I64(step(&b), 10);                   /* 2 decode rows; 6 of the first prompt, 2 of the second */
    CHECK_EQ_I64(t[2].seq.n_computed, 6);
    CHECK_EQ_I64(t[3].seq.n_computed, 2);
    CHECK_EQ_I64(t[0].seq.n_tokens, 5);
    for (int i = 0; i < 4; i++)
        fx_sched_remove(&b.sched, &t[i].seq);
    close_bench(&b);
}

TEST(the_last_in_order_is_preempted)
{
    static test_seq t[3];
    bench b;

    open_bench(&b, 16, 3, 64, 64);                /* pages for 64 tokens */
    add(&b, &t[0], 16, 100, 0);
    add(&b, &t[1], 16, 200, 1);
    add(&b, &t[2], 16, 300, 0);
    for (int i = 0; i < 14; i++)
        step(&b);
    CHECK(t[2].seq.state == FX_SEQ_WAITING && t[2].seq.n_pages == 0);
    CHECK(t[0].seq.state == FX_SEQ_RUNNING && t[1].seq.state == FX_SEQ_RUNNING);
    while (t[1].seq.state != FX_SEQ_IDLE)         /* the highest is never stopped */
        step(&b);
    CHECK_EQ_I64(t[1].seq.n_tokens, CAP);
    for (int i = 0; i < 500 && b.sched.n_running + b.sched.n_waiting > 0; i++)
        step(&b);
    CHECK(t[0].seq.n_tokens == CAP && t[2].seq.n_tokens == CAP);
    CHECK(b.sched.preemptions > 0);
    close_bench(&b);
}

/* A page that is being computed is waited for, also when it is the prompt's last. */
TEST(no_page_is_computed_twice)
{
    static test_seq t[3];
    int rows = 0;
    bench b;

    open_bench(&b, 64, 3, 8, 8);
    add(&b, &t[0], 16, 100, 0);
    add(&b, &t[1], 20, 100, 0);
    add(&b, &t[2], 17, 100, 0);
    for (int i = 0; i < 3; i++)
        rows += step(&b);
    CHECK_EQ_I64(rows, 16 + 4 + 1 + (t[0].seq.n_tokens - 17));
    CHECK_EQ_I64(t[0].seq.n_cached, 0);
    CHECK_EQ_I64(t[1].seq.n_cached, 16);
    CHECK_EQ_I64(t[2].seq.n_cached, 16);
    for (int i = 0; i < 3; i++)
        CHECK(t[i].pages[3] == t[0].pages[3]);
    for (int i = 0; i < 3; i++)
        fx_sched_remove(&b.sched, &t[i].seq);
    close_bench(&b);
}

/* Runs until it has its first token, then ends. */
static void run_prompt(bench *b, test_seq *t, int32_t want_found)
{
    int rows = 0;

    fx_sched_add(&b->sched, &t->seq);
    while (t->seq.n_tokens == t->seq.n_prompt)
        rows += step(b);
    CHECK_EQ_I64(t->seq.n_prompt - rows, want_found);
    CHECK_EQ_I64(t->seq.n_cached, want_found / table.page_tokens * table.page_tokens);
    fx_sched_remove(&b->sched, &t->seq);
}

typedef struct beginning_row {
    int32_t n, first, other_from, found;          /* tokens first, first + 1, ... and others from there on */
} beginning_row;

static void run_prompts(bench *b, const beginning_row *rows, size_t n)
{
    static test_seq t;

    for (size_t i = 0; i < n; i++) {
        set(b, &t, rows[i].n, rows[i].first, 0);
        for (int32_t k = rows[i].other_from; k < rows[i].n; k++)
            t.tokens[k] += 5000;
        run_prompt(b, &t, rows[i].found);
    }
}

/* Of a page that begins alike the beginning is copied; the page that a sequence ended in is there too. */
TEST(pages_serve_in_part)
{
    static test_seq t;
    static const beginning_row rows[] = {
        { 14, 100, 64, 0 },  { 14, 100, 64, 13 }, { 20, 100, 64, 14 }, { 20, 100, 11, 11 }, { 20, 100, 11, 19 },
        { 20, 100, 64, 19 }, { 3, 100, 64, 2 },   { 3, 100, 1, 1 },    { 20, 200, 64, 0 },  { 20, 200, 2, 2 },
    };
    static const beginning_row long_pages[] = {          /* of 32: from 4 tokens on */
        { 35, 100, 64, 0 }, { 40, 100, 64, 32 }, { 40, 100, 35, 32 }, { 40, 100, 36, 36 }, { 3, 100, 64, 0 }, { 5, 100, 64, 4 },
    };
    bench b;

    open_bench(&b, 64, 3, 8, 8);
    run_prompts(&b, rows, FX_COUNT(rows));
    CHECK_EQ_I64(fx_kv_count(b.kv).cached, 4 + 2 + 3 + 1 + 5 + 5);       /* nothing twice */
    close_bench(&b);
    table.page_tokens = 32;
    open_bench(&b, 64, 3, 40, 40);
    run_prompts(&b, long_pages, FX_COUNT(long_pages));
    close_bench(&b);
    table.page_tokens = PT;
    open_bench(&b, 4, 1, 8, 8);                   /* no page for a copy beside the one that it is made of */
    for (int i = 0; i < 2; i++) {
        set(&b, &t, 15, 100, 0);
        t.seq.cap = 16;
        run_prompt(&b, &t, i == 0 ? 0 : 12);
    }
    close_bench(&b);
}

TEST(what_is_preempted_computes_one_token_again)
{
    static test_seq t;
    bench b;

    open_bench(&b, 64, 1, 8, 8);
    add(&b, &t, 14, 100, 0);
    step(&b);
    step(&b);
    CHECK_EQ_I64(t.seq.n_computed, 14);
    fx_sched_preempt(&b.sched, &t.seq);
    CHECK_EQ_I64(step(&b), 1);
    fx_sched_remove(&b.sched, &t.seq);
    close_bench(&b);
}

static uint64_t state = 99;
static uint32_t rnd(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

static void use_randomly(void)
{
    static test_seq t[24];

    for (int round = 0; round < 20; round++) {
        bench b;

        open_bench(&b, 16 + rnd(40), 1 + (int32_t)rnd(8), 8 + (int32_t)rnd(20), 1 + (int32_t)rnd(20));
        memset(t, 0, sizeof t);
        for (int op = 0; op < 600; op++) {
            test_seq *s = &t[rnd(24)];

            if (s->seq.state == FX_SEQ_IDLE && rnd(2)) {
                add(&b, s, 1 + (int32_t)rnd(50), (int32_t)rnd(3), (int32_t)rnd(3));
                for (int k = (int)rnd((uint32_t)FX_MIN(b.sched.limits.max_batch, 3)); k > 0; k--) {
                    test_seq *f = &t[rnd(24)];

                    if (f->seq.state != FX_SEQ_IDLE)
                        continue;
                    set(&b, f, s->seq.n_prompt, s->tokens[0], s->seq.priority);
                    fx_sched_follow(&b.sched, &f->seq, &s->seq);
                }
            } else if (rnd(12) == 0) {
                fx_sched_remove(&b.sched, &s->seq);
            } else if (s->seq.state == FX_SEQ_RUNNING && rnd(12) == 0) {
                fx_sched_preempt(&b.sched, &s->seq);
            } else if (b.sched.n_running + b.sched.n_waiting > 0) {
                CHECK(step(&b) > 0);
            }
        }
        for (int i = 0; i < 24; i++)
            fx_sched_remove(&b.sched, &t[i].seq);
        close_bench(&b);
    }
}

TEST(random_use) { use_randomly(); }

TEST(random_use_with_a_window)
{
    for (table.groups[0].window = 1; table.groups[0].window < 40; table.groups[0].window += 6)
        use_randomly();
    table.groups[0].window = 0;
}

static void use_two_groups(bool on)
{
    table.n_groups = on ? 2 : 1;
    table.n_columns = on ? 3 : 1;
}

TEST(random_use_with_two_groups)
{
    use_two_groups(true);
    for (table.groups[1].window = 1; table.groups[1].window < 40; table.groups[1].window += 6)
        use_randomly();
    table.slot_bytes = 64;                        /* and recurrent state beside them */
    snapshots = 10;
    table.groups[1].window = 9;
    use_randomly();
    table.slot_bytes = 0;
    use_two_groups(false);
}

TEST(random_use_with_recurrent_state)
{
    table.slot_bytes = 64;
    for (snapshots = 0; snapshots < 40; snapshots += 5)
        use_randomly();
    table.slot_bytes = 0;
}

/* Pages behind the window come back while the sequence runs on: 3 + DIV_UP(window + chunk) at most. */
TEST(a_window_bounds_the_pages)
{
    static test_seq t;
    bench b;

    table.groups[0].window = 6;
    open_bench(&b, 7, 1, 8, 8);
    CHECK_EQ_I64(fx_sched_pages(&b.sched, CAP), 7);
    add(&b, &t, 20, 100, 0);
    while (t.seq.state != FX_SEQ_IDLE && step(&b) > 0)
        CHECK(t.seq.n_tokens < 30 || t.seq.n_pages - t.seq.n_behind[0] <= 4);
    CHECK_EQ_I64(t.seq.n_tokens, CAP);
    close_bench(&b);
    table.groups[0].window = 0;
}

/* Where a group keeps all and another a window, only the latter's come back. */
TEST(each_group_returns_its_own_pages)
{
    static test_seq t;
    bench b;

    use_two_groups(true);
    table.groups[1].window = 6;
    open_bench(&b, 10, 1, 8, 8);                  /* 30 pages: a column of 16, two of 7 */
    CHECK_EQ_I64(fx_sched_pages(&b.sched, CAP), 16 + 2 * 7);
    CHECK_EQ_I64(fx_sched_longest(&b.sched, CAP), CAP);
    add(&b, &t, 20, 100, 0);
    while (t.seq.state != FX_SEQ_IDLE && step(&b) > 0) {
        fx_kv_counts c = fx_kv_count(b.kv);

        if (t.seq.state == FX_SEQ_RUNNING)
            CHECK_EQ_I64(c.used, t.seq.n_pages + 2 * (t.seq.n_pages - t.seq.n_behind[1]));
        CHECK(t.seq.n_behind[0] == 0 && (t.seq.n_tokens < 30 || t.seq.n_pages - t.seq.n_behind[1] <= 4));
    }
    CHECK_EQ_I64(t.seq.n_tokens, CAP);
    close_bench(&b);
    open_bench(&b, 8, 1, 8, 8);                   /* 24: 10 pages beside those 14 */
    CHECK_EQ_I64(fx_sched_longest(&b.sched, CAP), 10 * PT);
    close_bench(&b);
    use_two_groups(false);
}

FXTEST_MAIN()
