/* test_engine.c - the engine stepped by hand: same tokens whatever the batch, chunks, cache
 * hits and preemptions; prefix sharing; stops, limits, cancel, deadlines, queue. */
#include "toy_model.h"

#include <poll.h>
#include <unistd.h>

#include "engine/engine_int.h"
#include "engine/memory.h"

static void check_all(rig *r)
{
    fx_sched_check(&r->engine->sched);
}

static fornax_engine_stats stats_of(rig *r)
{
    fornax_engine_stats s = FORNAX_OPTIONS(fornax_engine_stats);

    fx_engine_get_stats(r->engine, &s);
    return s;
}

/* ---- Determinism -------------------------------------------------------------------------- */

#define MANY 16
static int32_t prompts[MANY][200];
static int lengths[MANY];
static gotten alone[MANY], together[MANY];

/* Prompts of many lengths, some sharing beginnings; sampled, with penalties. */
static fornax_request_options many(int i)
{
    fornax_request_options o;

    lengths[i] = 1 + (i * 37) % 190;
    make_prompt(prompts[i], lengths[i], i % 3 == 0 ? 5 : (uint32_t)(100 + i));
    o = asks(prompts[i], (size_t)lengths[i], 30);
    o.temperature = i % 4 == 0 ? 0 : 1.0f;
    o.top_p = i % 2 ? 0.9f : 0;
    o.top_k = i % 5 ? 0 : 20;
    o.repetition_penalty = 1.2f;
    o.frequency_penalty = 0.3f;
    o.logprobs = 1;
    o.seed = (uint64_t)i;
    return o;
}

static void run_all_alone(void)
{
    rig r;

    if (!rig_open(&r, 8, 64, manual(4, 512, 0), 512))
        return;
    for (int i = 0; i < MANY; i++) {
        fornax_request_options o = many(i);

        run_alone(&r, &o, &alone[i]);
        CHECK(alone[i].status == FORNAX_OK && alone[i].at[0].n > 0);
        fx_engine_drop_cache(r.engine);
    }
    rig_close(&r);
}

static void run_all_together(int page_tokens, int pages, fornax_engine_options opt)
{
    fx_request *q[MANY] = { 0 };
    fx_error err = { 0 };
    rig r;

    if (!rig_open(&r, page_tokens, pages, opt, 512))
        return;
    memset(together, 0, sizeof together);
    for (int i = 0; i < MANY; i++) {
        fornax_request_options o = many(i);

        CHECK_OK(fx_request_submit(&q[i], r.engine, &o, &err), err);
        if (i % 3 == 2)
            rig_steps(&r, 2);
    }
    while (rig_steps(&r, 1))
        check_all(&r);
    for (int i = 0; i < MANY; i++) {
        take_events(q[i], &together[i], 0);
        if (!same_output(&alone[i].at[0], &together[i].at[0]))
            FXTEST_FAIL("request %d: other tokens (%d, alone %d), pages %d of %d, chunk %d", i,
                        together[i].at[0].n, alone[i].at[0].n, pages, page_tokens, opt.prefill_chunk);
        fx_request_close(q[i]);
    }
    CHECK(r.model.most_rows <= r.opt.step_tokens);
    rig_close(&r);
}

TEST(same_tokens_whatever_happens_around)
{
    static const int chunks[] = { 1, 7, 64, 512 };

    run_all_alone();
    for (size_t c = 0; c < FX_COUNT(chunks); c++)
        run_all_together(8, 600, manual(16, 512, chunks[c]));
    run_all_together(32, 200, manual(16, 64, 0));
    run_all_together(1, 3000, manual(5, 20, 0));
    run_all_together(8, 28, manual(16, 64, 0));       /* room for one long sequence: preemption */
    run_all_together(8, 40, manual(16, 40, 5));
    fornax_engine_options o = manual(16, 64, 0);
    o.no_prefix_cache = 1;
    run_all_together(8, 60, o);
    o.kv_bytes = 0;
}

TEST(preemption_happens_and_changes_nothing)
{
    int32_t ids[4][40];
    fx_request *q[4];
    gotten a[4], b[4];
    fornax_engine_stats s;
    rig r;

    REQUIRE(rig_open(&r, 4, 30, manual(4, 64, 0), 120));
    r.model.no_eos = true;
    for (int i = 0; i < 4; i++) {
        fornax_request_options o;

        make_prompt(ids[i], 20, (uint32_t)(40 + i));
        o = asks(ids[i], 20, 60);
        o.temperature = 1;
        run_alone(&r, &o, &a[i]);
        fx_engine_drop_cache(r.engine);
    }
    CHECK_EQ_I64(stats_of(&r).preemptions, 0);
    for (int i = 0; i < 4; i++) {
        fornax_request_options o = asks(ids[i], 20, 60);

        o.temperature = 1;
        CHECK(fx_request_submit(&q[i], r.engine, &o, NULL) == FORNAX_OK);
    }
    while (rig_steps(&r, 1))
        check_all(&r);
    for (int i = 0; i < 4; i++) {
        memset(&b[i], 0, sizeof b[i]);
        take_events(q[i], &b[i], 0);
        CHECK(same_output(&a[i].at[0], &b[i].at[0]));
        fx_request_close(q[i]);
    }
    s = stats_of(&r);
    CHECK(s.preemptions > 0);
    CHECK_EQ_I64(s.pages_used, 0);
    CHECK_EQ_I64(s.requests_done, 8);
    rig_close(&r);
}

/* Random requests (choices, priorities, cancels, shared beginnings) on pools that are too
 * small: whoever ends well has the tokens of running alone. */
#define LOAD 60
static int32_t load_ids[LOAD][64];

static fornax_request_options load_request(int i)
{
    uint64_t h = toy_mix(77, (uint64_t)i);
    int n = 1 + (int)(h % 60), shared = (int)((h >> 8) % 40);
    fornax_request_options o;

    make_prompt(load_ids[i], n, (uint32_t)(100 + i));
    make_prompt(load_ids[i], FX_MIN(shared, n), (uint32_t)(h >> 16) % 3);
    o = asks(load_ids[i], (size_t)n, 1 + (int64_t)((h >> 20) % 30));
    o.n = 1 + (int)((h >> 26) % 4);
    o.priority = (int)((h >> 30) % 3);
    o.temperature = (h >> 33) % 2 ? 1.0f : 0.0f;
    o.cache_salt = (h >> 34) % 4 ? NULL : "other";
    o.presence_penalty = (h >> 37) % 2 ? 0.5f : 0;
    return o;
}

static void random_load(int page_tokens, int pages, fornax_engine_options e, uint32_t seed)
{
    static gotten g[LOAD], want;
    fx_request *q[LOAD] = { 0 };
    int sent = 0;
    rig r, solo;

    if (!rig_open(&r, page_tokens, pages, e, 96) || !rig_open(&solo, 8, 100, manual(8, 64, 0), 96))
        return;
    memset(g, 0, sizeof g);
    for (uint32_t step = 0; sent < LOAD || rig_steps(&r, 1); step++) {
        uint32_t dice = (uint32_t)toy_mix(seed, step);

        if (sent < LOAD && dice % 3) {
            fornax_request_options o = load_request(sent);

            CHECK(fx_request_submit(&q[sent++], r.engine, &o, NULL) == FORNAX_OK);
        }
        rig_steps(&r, (int)(dice >> 4) % 3);
        if (sent > 0 && (dice >> 8) % 8 == 0)
            fx_request_cancel(q[(dice >> 12) % (uint32_t)sent]);
        if ((dice >> 20) % 40 == 0)
            fx_engine_drop_cache(r.engine);
        check_all(&r);
    }
    for (int i = 0; i < LOAD; i++) {
        fornax_request_options o = load_request(i);

        take_events(q[i], &g[i], 0);
        fx_request_close(q[i]);
        CHECK(g[i].done && (g[i].status == FORNAX_OK || g[i].status == FORNAX_ECANCEL));
        if (g[i].status != FORNAX_OK)
            continue;
        run_alone(&solo, &o, &want);
        for (int c = 0; c < o.n; c++)
            if (!same_output(&want.at[c], &g[i].at[c]))
                FXTEST_FAIL("request %d choice %d of seed %u differs", i, c, seed);
    }
    CHECK_EQ_I64(stats_of(&r).pages_used, 0);
    rig_close(&solo);
    rig_close(&r);
}

TEST(random_load_on_small_pools)
{
    fornax_engine_options o = manual(6, 24, 9);

    for (uint32_t seed = 1; seed <= 6; seed++) {
        random_load(8, 12, manual(8, 64, 0), seed);       /* exactly one longest sequence */
        random_load(8, 20, manual(5, 40, 0), seed);
        random_load(4, 60, manual(16, 20, 3), seed);
        o.no_prefix_cache = (int)seed % 2;
        random_load(1, 150, o, seed);
        random_load(32, 6, manual(4, 16, 0), seed);
    }
}

/* ---- Prefixes ------------------------------------------------------------------------------- */

/* Whole pages, and the beginning of one: all but the last token of what was asked before. */
TEST(prefix_hits)
{
    static const struct {
        int n, cached, computed;             /* cached: in whole pages */
    } rows[] = { { 100, 0, 100 }, { 100, 96, 1 }, { 96, 88, 1 }, { 97, 96, 1 }, { 7, 0, 1 }, { 8, 0, 1 }, { 9, 8, 1 }, { 64, 56, 1 } };
    int32_t ids[100];
    gotten g;
    rig r;

    REQUIRE(rig_open(&r, 8, 64, manual(4, 512, 0), 512));
    make_prompt(ids, 100, 1);
    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        fornax_request_options o = asks(ids, (size_t)rows[i].n, 1);
        int64_t before = r.model.rows;

        run_alone(&r, &o, &g);
        CHECK_EQ_I64(g.cached, rows[i].cached);
        CHECK_EQ_I64(g.at[0].cached, rows[i].cached);
        CHECK_EQ_I64(g.prompt, rows[i].n);
        CHECK_EQ_I64(r.model.rows - before, rows[i].computed);
        check_all(&r);
    }
    fx_engine_drop_cache(r.engine);
    CHECK_EQ_I64(stats_of(&r).pages_cached, 0);
    rig_close(&r);
}

/* What was generated is found again too, as the next turn of a conversation needs it. */
TEST(generated_pages_are_found)
{
    int32_t ids[200];
    gotten g;
    fornax_request_options o;
    rig r;

    REQUIRE(rig_open(&r, 8, 64, manual(4, 512, 0), 512));
    r.model.no_eos = true;
    make_prompt(ids, 20, 1);
    o = asks(ids, 20, 45);
    run_alone(&r, &o, &g);
    memcpy(ids + 20, g.at[0].ids, 45 * sizeof *ids);
    o = asks(ids, 66, 1);                      /* 64 tokens were computed, the 65th was only sampled */
    ids[65] = 3;
    run_alone(&r, &o, &g);
    CHECK_EQ_I64(g.cached, 64);
    rig_close(&r);
}

TEST(salts_separate)
{
    int32_t ids[50];
    gotten g;
    fornax_request_options o;
    rig r;

    REQUIRE(rig_open(&r, 8, 64, manual(4, 512, 0), 512));
    make_prompt(ids, 50, 1);
    o = asks(ids, 50, 1);
    run_alone(&r, &o, &g);
    o.cache_salt = "tenant";
    run_alone(&r, &o, &g);
    CHECK_EQ_I64(g.cached, 0);
    run_alone(&r, &o, &g);
    CHECK_EQ_I64(g.cached, 48);
    o.cache_salt = "";
    run_alone(&r, &o, &g);
    CHECK_EQ_I64(g.cached, 48);
    rig_close(&r);
}

TEST(no_prefix_cache_never_reuses)
{
    int32_t ids[50];
    gotten g;
    fornax_request_options o;
    fornax_engine_options e = manual(4, 512, 0);
    rig r;

    e.no_prefix_cache = 1;
    REQUIRE(rig_open(&r, 8, 64, e, 512));
    make_prompt(ids, 50, 1);
    for (int i = 0; i < 2; i++) {
        o = asks(ids, 50, 1);
        run_alone(&r, &o, &g);
        CHECK_EQ_I64(g.cached, 0);
    }
    CHECK_EQ_I64(r.model.rows, 100);
    CHECK_EQ_I64(stats_of(&r).pages_cached, 0);
    rig_close(&r);
}

/* Eight requests with one prefix, submitted at once, compute it once. */
TEST(a_prefix_in_the_making_is_waited_for)
{
    int32_t ids[8][90];
    fx_request *q[8];
    gotten g;
    rig r;

    REQUIRE(rig_open(&r, 8, 200, manual(8, 32, 0), 512));
    for (int i = 0; i < 8; i++) {
        fornax_request_options o;

        make_prompt(ids[i], 80, 1);
        make_prompt(ids[i] + 80, 10, (uint32_t)(50 + i));
        o = asks(ids[i], 90, 1);
        CHECK(fx_request_submit(&q[i], r.engine, &o, NULL) == FORNAX_OK);
    }
    while (rig_steps(&r, 1))
        check_all(&r);
    CHECK_EQ_I64(r.model.rows, 80 + 8 * 10);
    for (int i = 0; i < 8; i++) {
        memset(&g, 0, sizeof g);
        take_events(q[i], &g, 0);
        CHECK_EQ_I64(g.cached, i == 0 ? 0 : 80);
        fx_request_close(q[i]);
    }
    rig_close(&r);
}

/* The one who computes the prefix goes away: another goes on. */
TEST(a_prefix_whose_maker_is_cancelled)
{
    int32_t ids[3][90];
    fx_request *q[3];
    gotten g[3] = { 0 }, want;
    fornax_request_options o;
    rig r;

    REQUIRE(rig_open(&r, 8, 200, manual(8, 16, 0), 512));
    for (int i = 0; i < 3; i++) {
        make_prompt(ids[i], 80, 1);
        make_prompt(ids[i] + 80, 10, (uint32_t)(50 + i));
        o = asks(ids[i], 90, 5);
        CHECK(fx_request_submit(&q[i], r.engine, &o, NULL) == FORNAX_OK);
    }
    rig_steps(&r, 2);
    fx_request_cancel(q[0]);
    rig_steps(&r, 1000);
    for (int i = 0; i < 3; i++) {
        take_events(q[i], &g[i], 0);
        fx_request_close(q[i]);
    }
    CHECK(g[0].status == FORNAX_ECANCEL);
    CHECK(r.model.rows < 80 + 3 * 16);
    o = asks(ids[2], 90, 5);
    run_alone(&r, &o, &want);
    CHECK(same_output(&want.at[0], &g[2].at[0]));
    rig_close(&r);
}

/* ---- Choices ---------------------------------------------------------------------------------- */

static void run_choices(int n_prompt, int n, int pages, bool cache)
{
    int32_t ids[64];
    gotten g, again;
    fornax_engine_options e = manual(8, 64, 0);
    fornax_request_options o;
    rig r;

    e.no_prefix_cache = !cache;
    if (!rig_open(&r, 8, pages, e, 100))
        return;
    r.model.no_eos = true;
    make_prompt(ids, n_prompt, 9);
    o = asks(ids, (size_t)n_prompt, 12);
    o.temperature = 1;
    o.logprobs = 1;
    o.n = n;
    run_alone(&r, &o, &g);
    CHECK(g.status == FORNAX_OK);
    CHECK_EQ_I64(g.prompt, n_prompt);
    CHECK_EQ_I64(g.generated, 12 * n);
    if (pages > 30)                                   /* the prompt was computed once */
        CHECK_EQ_I64(r.model.rows, n_prompt + (n - 1) + n * 11);
    for (int i = 0; i < n; i++)
        CHECK_EQ_I64(g.at[i].n, 12);
    for (int i = 1; i < n; i++)
        CHECK(memcmp(g.at[i].ids, g.at[0].ids, 12 * sizeof *ids) != 0);
    fx_engine_drop_cache(r.engine);
    run_alone(&r, &o, &again);                        /* again: the same */
    for (int i = 0; i < n; i++)
        CHECK(same_output(&g.at[i], &again.at[i]));
    o.n = 1;
    run_alone(&r, &o, &again);                        /* the first doesn't depend on the others */
    CHECK(same_output(&g.at[0], &again.at[0]));
    check_all(&r);
    CHECK_EQ_I64(stats_of(&r).pages_used, 0);
    rig_close(&r);
}

TEST(choices_fork_from_one_prompt)
{
    for (int n_prompt = 1; n_prompt < 40; n_prompt += n_prompt < 20 ? 1 : 7) {
        run_choices(n_prompt, 4, 100, true);
        run_choices(n_prompt, 8, 100, false);
        run_choices(n_prompt, 8, 13, true);           /* scarcely room for two: preemption */
    }
}

/* The hook gets each choice's own row. */
static void force(void *user, int choice, const int32_t *tokens, size_t n, float *logits, int64_t vocab)
{
    int *calls = user;

    ++*calls;
    CHECK(vocab == TOY_VOCAB);
    for (size_t i = 0; i < n; i++)
        CHECK_EQ_I64(tokens[i], 1 + choice * 3 + (int)i);
    for (int64_t i = 0; i < vocab; i++)
        logits[i] = i == 1 + choice * 3 + (int64_t)n ? 0.0f : -INFINITY;
}

TEST(hooks_see_each_choice)
{
    const int32_t ids[] = { 5, 6, 7 };
    fornax_request_options o = asks(ids, 3, 4);
    int calls = 0;
    gotten g;
    rig r;

    REQUIRE(rig_open(&r, 8, 64, manual(8, 64, 0), 100));
    o.n = 3;
    o.logits_hook = force;
    o.logits_user = &calls;
    run_alone(&r, &o, &g);
    CHECK_EQ_I64(calls, 12);
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 4; i++)
            CHECK_EQ_I64(g.at[c].ids[i], 1 + c * 3 + i);
    rig_close(&r);
}

/* Rows of two requests: one greedy with a mask, one sampled. */
static void masked(void *user, int choice, const int32_t *tokens, size_t n, float *logits, int64_t vocab)
{
    (void)user, (void)choice, (void)tokens, (void)n;
    for (int64_t i = 0; i < vocab; i++)
        logits[i] = -INFINITY;
    logits[1] = 1;
    logits[3] = 0.5f;
}

static void three_tokens(void *user, int choice, const int32_t *tokens, size_t n, float *logits, int64_t vocab)
{
    masked(user, choice, tokens, n, logits, vocab);
    logits[1] = 0.1f, logits[2] = 0.2f, logits[3] = 0.3f;
}

/* A greedy row with banned tokens and a sampled one don't disturb each other in a batch. */
TEST(a_masked_greedy_row_beside_a_sampled_one)
{
    const int32_t ids[] = { 5, 6, 7 };
    fornax_request_options greedy = asks(ids, 3, 20), drawn = asks(ids, 3, 20);
    gotten solo, g = { 0 }, d = { 0 };
    fx_request *q[2];
    rig r;

    greedy.logits_hook = masked;
    drawn.logits_hook = three_tokens;
    drawn.temperature = 0.7f;
    drawn.seed = 3;
    drawn.has_seed = 1;
    REQUIRE(rig_open(&r, 8, 64, manual(8, 64, 0), 100));
    run_alone(&r, &drawn, &solo);
    CHECK(fx_request_submit(&q[0], r.engine, &greedy, NULL) == FORNAX_OK);
    CHECK(fx_request_submit(&q[1], r.engine, &drawn, NULL) == FORNAX_OK);
    rig_steps(&r, 30);
    take_events(q[0], &g, 0);
    take_events(q[1], &d, 0);
    CHECK(g.at[0].n == 20 && d.at[0].n == 20 && solo.at[0].n == 20);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ_I64(g.at[0].ids[i], 1);
        CHECK_EQ_I64(d.at[0].ids[i], solo.at[0].ids[i]);
        CHECK(d.at[0].ids[i] >= 1 && d.at[0].ids[i] <= 3);
    }
    fx_request_close(q[0]);
    fx_request_close(q[1]);
    rig_close(&r);
}

/* ---- Ends ---------------------------------------------------------------------------------------- */

/* a b c gree n ... with the end token at the given place. */
static gotten run_script(const int32_t *script, int n_script, fornax_request_options o)
{
    static const int32_t ids[] = { 10, 11, 12, 13, 14 };
    gotten g;
    rig r;

    memset(&g, 0, sizeof g);
    if (!rig_open(&r, 8, 16, manual(4, 64, 0), 64))
        return g;
    r.model.n_prompt = 5;
    r.model.script = script;
    r.model.n_script = n_script;
    o.ids = ids;
    o.n_ids = 5;
    run_alone(&r, &o, &g);
    rig_close(&r);
    return g;
}

TEST(how_a_choice_ends)
{
    static const int32_t green[] = { 32, 14, TOY_EOS, 1, 2, 3 }, abc[] = { 1, 2, 3, 33, 4, 5, 6, 7 };
    static const int32_t smile[] = { 1, 28, 29, 30, 31 };
    static const fornax_string nothing[] = { { "nothing", 7 } }, cst[] = { { "cst", SIZE_MAX } };
    static const int32_t stop_c[] = { 3 };
    fornax_request_options o = asks(NULL, 0, 6);
    gotten g;

    o.stop = nothing;
    o.n_stop = 1;
    g = run_script(green, 6, o);                       /* held text comes out at the end */
    CHECK_STR(g.at[0].text, "green");
    CHECK(g.at[0].finish == FORNAX_FINISH_STOP && g.at[0].end == TOY_EOS && g.at[0].n == 2);
    CHECK_EQ_I64(g.at[0].generated, 3);
    CHECK_STR(g.at[0].stop, "");
    o.ignore_eos = 1;
    g = run_script(green, 6, o);
    CHECK_STR(g.at[0].text, "greenabc");
    CHECK(g.at[0].finish == FORNAX_FINISH_LENGTH && g.at[0].n == 6 && g.at[0].end == -1);
    o.ignore_eos = 0;
    o.stop = cst;
    g = run_script(abc, 8, o);
    CHECK_STR(g.at[0].text, "ab");
    CHECK_STR(g.at[0].stop, "cst");
    CHECK(g.at[0].finish == FORNAX_FINISH_STOP && g.at[0].n == 4);
    o.stop_ids = stop_c;
    o.n_stop_ids = 1;
    g = run_script(abc, 8, o);
    CHECK_STR(g.at[0].text, "ab");
    CHECK(g.at[0].finish == FORNAX_FINISH_STOP && g.at[0].end == 3 && g.at[0].n == 2);
    o = asks(NULL, 0, 4);
    g = run_script(smile, 5, o);                       /* cut inside a character */
    CHECK_STR(g.at[0].text, "a\xEF\xBF\xBD");
    CHECK(g.at[0].finish == FORNAX_FINISH_LENGTH);
    o.max_tokens = 5;
    CHECK_STR(run_script(smile, 5, o).at[0].text, "a\xF0\x9F\x99\x82");
}

TEST(min_tokens_masks_ends)
{
    static const int32_t script[] = { TOY_EOS, TOY_EOS, TOY_EOS, TOY_EOS, TOY_EOS };
    fornax_request_options o = asks(NULL, 0, 5);
    gotten g = run_script(script, 5, o);

    CHECK(g.at[0].n == 0 && g.at[0].generated == 1 && g.at[0].finish == FORNAX_FINISH_STOP);
    o.min_tokens = 3;
    g = run_script(script, 5, o);
    CHECK_EQ_I64(g.at[0].n, 3);
    CHECK_EQ_I64(g.at[0].generated, 4);
    CHECK(g.at[0].finish == FORNAX_FINISH_STOP);
}

TEST(logit_bias_bans_and_forces)
{
    static const fornax_logit_bias ban[] = { { 1, -100 } }, forces[] = { { 40, 2000 } };
    static const int32_t script[] = { 1, 1 };
    fornax_request_options o = asks(NULL, 0, 2);
    gotten g;

    o.temperature = 1;
    o.logit_bias = ban;
    o.n_logit_bias = 1;
    g = run_script(script, 2, o);
    CHECK(g.at[0].ids[0] != 1 && g.at[0].ids[1] != 1);
    o.logit_bias = forces;
    g = run_script(script, 2, o);
    CHECK(g.at[0].ids[0] == 40 && g.at[0].ids[1] == 40);
}

TEST(context_end_is_length)
{
    int32_t ids[64];
    fornax_request_options o;
    fx_error err = { 0 };
    fx_request *q = NULL;
    gotten g;
    rig r;

    REQUIRE(rig_open(&r, 8, 100, manual(4, 512, 0), 60));
    r.model.no_eos = true;
    make_prompt(ids, 64, 1);
    o = asks(ids, 50, 0);
    run_alone(&r, &o, &g);
    CHECK(g.at[0].finish == FORNAX_FINISH_LENGTH && g.at[0].n == 10);
    o = asks(ids, 59, 50);
    run_alone(&r, &o, &g);
    CHECK(g.at[0].finish == FORNAX_FINISH_LENGTH && g.at[0].n == 1);
    o = asks(ids, 60, 5);
    CHECK(fx_request_submit(&q, r.engine, &o, &err) == FORNAX_EARG && !q);
    CHECK_STR(err.param, "context_length");
    CHECK(strstr(err.text, "60 tokens"));
    rig_close(&r);
    REQUIRE(rig_open(&r, 8, 4, manual(4, 512, 0), 60));      /* a pool of 32 tokens */
    r.model.no_eos = true;
    CHECK_EQ_I64(fx_engine_context(r.engine), 32);
    o = asks(ids, 32, 5);
    CHECK(fx_request_submit(&q, r.engine, &o, &err) == FORNAX_EARG);
    o = asks(ids, 31, 5);
    run_alone(&r, &o, &g);
    CHECK(g.at[0].n == 1 && g.at[0].finish == FORNAX_FINISH_LENGTH);
    rig_close(&r);
}

TEST(prompt_only)
{
    int32_t ids[64];
    fornax_request_options o;
    gotten g;
    rig r;

    REQUIRE(rig_open(&r, 8, 100, manual(4, 20, 0), 64));
    make_prompt(ids, 64, 1);
    o = asks(ids, 64, -1);
    o.n = 2;
    run_alone(&r, &o, &g);
    CHECK(g.status == FORNAX_OK && g.at[0].n == 0 && g.generated == 0 && g.finish == FORNAX_FINISH_LENGTH);
    CHECK(g.at[1].finish == FORNAX_FINISH_LENGTH);
    CHECK_EQ_I64(r.model.rows, 64);
    run_alone(&r, &o, &g);
    CHECK_EQ_I64(g.cached, 56);
    o = asks(ids, 63, 1);
    run_alone(&r, &o, &g);
    CHECK_EQ_I64(g.cached, 56);
    rig_close(&r);
}

TEST(nan_fails_the_request_alone)
{
    int32_t ids[3][30];
    fx_request *q[3];
    gotten g[3] = { 0 };
    rig r;

    REQUIRE(rig_open(&r, 8, 100, manual(4, 64, 0), 64));
    r.model.no_eos = true;
    r.model.nan_at = 22;
    for (int i = 0; i < 3; i++) {
        fornax_request_options o;

        make_prompt(ids[i], 30, (uint32_t)i);
        o = asks(ids[i], i == 1 ? 20 : 25, 10);
        CHECK(fx_request_submit(&q[i], r.engine, &o, NULL) == FORNAX_OK);
    }
    rig_steps(&r, 1000);
    for (int i = 0; i < 3; i++) {
        take_events(q[i], &g[i], 0);
        fx_request_close(q[i]);
    }
    CHECK(g[1].status == FORNAX_EINTERNAL && strstr(g[1].error, "23"));
    CHECK(g[1].at[0].finish == FORNAX_FINISH_ERROR && g[1].at[0].n == 3);
    CHECK(g[0].status == FORNAX_OK && g[2].status == FORNAX_OK);
    CHECK_EQ_I64(stats_of(&r).requests_failed, 1);
    rig_close(&r);
}

/* ---- Scheduling -------------------------------------------------------------------------------------- */

TEST(a_long_prompt_freezes_nobody)
{
    static int32_t big[2000], small[4];
    fx_request *slow, *fast;
    fornax_request_options o;
    gotten g = { 0 };
    rig r;

    REQUIRE(rig_open(&r, 32, 200, manual(4, 64, 0), 4096));
    r.model.no_eos = true;
    make_prompt(big, 2000, 1);
    make_prompt(small, 4, 2);
    o = asks(small, 4, 25);
    CHECK(fx_request_submit(&fast, r.engine, &o, NULL) == FORNAX_OK);
    rig_steps(&r, 1);
    o = asks(big, 2000, 1);
    CHECK(fx_request_submit(&slow, r.engine, &o, NULL) == FORNAX_OK);
    for (int i = 0; i < 24; i++) {                    /* one token a step, all along */
        rig_steps(&r, 1);
        take_events(fast, &g, 0);
        CHECK_EQ_I64(g.at[0].n, i + 2);
    }
    CHECK(g.done);
    CHECK(r.model.mixed > 20);
    rig_steps(&r, 1000);
    fx_request_close(slow);
    fx_request_close(fast);
    rig_close(&r);
}

/* A short prompt gets part of the budget beside a long one. */
TEST(a_long_prompt_leaves_room_for_short_ones)
{
    static int32_t big[2000], small[10];
    fx_request *slow, *fast;
    fornax_request_options o;
    gotten g = { 0 };
    rig r;

    REQUIRE(rig_open(&r, 32, 200, manual(4, 64, 0), 4096));
    make_prompt(big, 2000, 1);
    make_prompt(small, 10, 2);
    o = asks(big, 2000, 1);
    CHECK(fx_request_submit(&slow, r.engine, &o, NULL) == FORNAX_OK);
    o = asks(small, 10, 1);
    CHECK(fx_request_submit(&fast, r.engine, &o, NULL) == FORNAX_OK);
    rig_steps(&r, 1);
    take_events(fast, &g, 0);
    CHECK(g.done);
    fx_request_cancel(slow);
    rig_steps(&r, 10);
    fx_request_close(slow);
    fx_request_close(fast);
    rig_close(&r);
}

TEST(priority_then_arrival)
{
    int32_t ids[4] = { 1, 2, 3, 4 };
    static const int priority[] = { 0, 0, 5, 1 }, order[] = { 2, 3, 0, 1 };
    fx_request *q[4];
    gotten g[4] = { 0 };
    rig r;

    REQUIRE(rig_open(&r, 8, 16, manual(1, 64, 0), 64));
    r.model.no_eos = true;
    for (int i = 0; i < 4; i++) {
        fornax_request_options o = asks(ids, 4, 3);

        o.priority = priority[i];
        CHECK(fx_request_submit(&q[i], r.engine, &o, NULL) == FORNAX_OK);
    }
    for (int k = 0; k < 4; k++) {
        rig_steps(&r, 3);
        for (int i = 0; i < 4; i++)
            take_events(q[i], &g[i], 0);
        CHECK(g[order[k]].done);
        for (int j = k + 1; j < 4; j++)
            CHECK(!g[order[j]].done);
    }
    for (int i = 0; i < 4; i++)
        fx_request_close(q[i]);
    rig_close(&r);
}

TEST(a_higher_priority_displaces)
{
    int32_t ids[4] = { 1, 2, 3, 4 };
    fx_request *low, *high;
    fornax_request_options o = asks(ids, 4, 20);
    gotten g = { 0 }, l = { 0 }, want;
    rig r;

    REQUIRE(rig_open(&r, 4, 16, manual(1, 64, 0), 64));
    r.model.no_eos = true;
    o.temperature = 1;
    CHECK(fx_request_submit(&low, r.engine, &o, NULL) == FORNAX_OK);
    rig_steps(&r, 10);
    o.priority = 1;
    o.max_tokens = 2;
    CHECK(fx_request_submit(&high, r.engine, &o, NULL) == FORNAX_OK);
    rig_steps(&r, 2);
    take_events(high, &g, 0);
    CHECK(g.done);
    rig_steps(&r, 100);
    take_events(low, &l, 0);
    o.priority = 0;
    o.max_tokens = 20;
    run_alone(&r, &o, &want);
    CHECK(same_output(&l.at[0], &want.at[0]));
    CHECK_EQ_I64(stats_of(&r).preemptions, 1);
    fx_request_close(low);
    fx_request_close(high);
    rig_close(&r);
}

TEST(cancel_in_every_phase)
{
    static int32_t ids[60];
    rig r;

    make_prompt(ids, 60, 3);
    for (int when = 0; when < 12; when++) {           /* steps before it: queue, prefill, decode */
        fx_request *other, *q;
        fornax_request_options o = asks(ids, 60, 8);
        gotten g = { 0 }, h = { 0 };

        REQUIRE(rig_open(&r, 8, 32, manual(3, 16, 0), 100));
        r.model.no_eos = true;
        o.max_tokens = 20;
        CHECK(fx_request_submit(&other, r.engine, &o, NULL) == FORNAX_OK);
        o.n = 2;
        CHECK(fx_request_submit(&q, r.engine, &o, NULL) == FORNAX_OK);
        rig_steps(&r, when);
        fx_request_cancel(q);
        rig_steps(&r, 1);
        check_all(&r);
        take_events(q, &g, 0);
        CHECK(g.done);
        CHECK(g.status == FORNAX_ECANCEL && g.finish == FORNAX_FINISH_CANCEL);
        CHECK(g.at[0].finish == FORNAX_FINISH_CANCEL && g.at[1].finish == FORNAX_FINISH_CANCEL);
        CHECK_EQ_I64(stats_of(&r).running, 1);
        rig_steps(&r, 100);
        take_events(other, &h, 0);
        CHECK(h.status == FORNAX_OK && h.at[0].n == 20);
        CHECK_EQ_I64(stats_of(&r).requests_cancelled, 1);
        CHECK_EQ_I64(stats_of(&r).pages_used, 0);
        fx_request_close(q);
        fx_request_close(other);
        rig_close(&r);
    }
}

/* While prompts are computed one can see how far they have come; what runs on from its prompt doesn't count. */
TEST(prompts_in_the_making_are_counted)
{
    static int32_t ids[60];
    fornax_request_options o = asks(ids, 60, 8);
    fx_request *q[2];
    rig r;

    make_prompt(ids, 60, 3);
    REQUIRE(rig_open(&r, 8, 64, manual(4, 16, 0), 100));
    r.model.no_eos = true;
    CHECK(fx_request_submit(&q[0], r.engine, &o, NULL) == FORNAX_OK);
    for (int done = 16; done < 60; done += 16) {
        rig_steps(&r, 1);
        CHECK_EQ_I64(stats_of(&r).prefill_tokens, 60);
        CHECK_EQ_I64(stats_of(&r).prefill_done, done);
    }
    rig_steps(&r, 1);
    CHECK_EQ_I64(stats_of(&r).prefill_tokens, 0);
    CHECK_EQ_I64(stats_of(&r).prefill_done, 0);
    o.n_ids = 40;
    ids[0]++;
    CHECK(fx_request_submit(&q[1], r.engine, &o, NULL) == FORNAX_OK);
    rig_steps(&r, 1);
    CHECK_EQ_I64(stats_of(&r).prefill_tokens, 40);
    CHECK(stats_of(&r).prefill_done > 0 && stats_of(&r).prefill_done < 40);
    CHECK_EQ_I64(stats_of(&r).context_tokens, 100);
    fx_request_close(q[0]);
    fx_request_close(q[1]);
    rig_steps(&r, 1);
    CHECK_EQ_I64(stats_of(&r).prefill_tokens, 0);
    rig_close(&r);
}

static int count_at_done(void *user, const fornax_event *ev)
{
    rig *r = user;

    if (ev->kind == FORNAX_EVENT_DONE) {
        CHECK_EQ_I64(stats_of(r).requests_done, 1);
        CHECK_EQ_I64(stats_of(r).prompt_tokens, 4);
        CHECK_EQ_I64(stats_of(r).generated_tokens, 3);
    }
    return 0;
}

/* Who has the answer finds it counted. */
TEST(counts_are_there_with_the_last_event)
{
    static int32_t ids[4] = { 1, 2, 3, 4 };
    fornax_request_options o = asks(ids, 4, 3);
    fx_request *q;
    rig r;

    REQUIRE(rig_open(&r, 8, 64, manual(4, 16, 0), 100));
    r.model.no_eos = true;
    o.on_event = count_at_done;
    o.event_user = &r;
    CHECK(fx_request_submit(&q, r.engine, &o, NULL) == FORNAX_OK);
    rig_steps(&r, 5);
    CHECK_EQ_I64(stats_of(&r).requests_done, 1);
    fx_request_close(q);
    rig_close(&r);
}

TEST(queue_limit)
{
    int32_t ids[4] = { 1, 2, 3, 4 };
    fornax_engine_options e = manual(1, 64, 0);
    fornax_request_options o = asks(ids, 4, 4);
    fx_request *q[5], *extra;
    fx_error err = { 0 };
    rig r;

    e.queue_limit = 3;
    REQUIRE(rig_open(&r, 8, 16, e, 64));
    for (int i = 0; i < 3; i++)
        CHECK(fx_request_submit(&q[i], r.engine, &o, NULL) == FORNAX_OK);
    CHECK(fx_request_submit(&extra, r.engine, &o, &err) == FORNAX_EBUSY && !extra);
    CHECK(err.retry_after_ms >= 50);
    CHECK_EQ_I64(stats_of(&r).waiting, 3);
    rig_steps(&r, 1);                                 /* one runs now */
    CHECK(fx_request_submit(&q[3], r.engine, &o, NULL) == FORNAX_OK);
    CHECK(fx_request_submit(&extra, r.engine, &o, NULL) == FORNAX_EBUSY);
    CHECK_EQ_I64(stats_of(&r).requests_rejected, 2);
    fx_request_cancel(q[3]);
    rig_steps(&r, 1);
    CHECK(fx_request_submit(&q[4], r.engine, &o, NULL) == FORNAX_OK);
    rig_steps(&r, 100);
    CHECK_EQ_I64(stats_of(&r).waiting, 0);
    CHECK_EQ_I64(stats_of(&r).requests_total, 5);
    CHECK_EQ_I64(stats_of(&r).requests_done, 4);
    for (int i = 0; i < 5; i++)
        fx_request_close(q[i]);
    rig_close(&r);
}

TEST(deadline)
{
    int32_t ids[4] = { 1, 2, 3, 4 };
    fornax_request_options o = asks(ids, 4, 50);
    fx_request *q, *w;
    gotten g = { 0 }, h = { 0 };
    rig r;

    REQUIRE(rig_open(&r, 8, 16, manual(1, 64, 0), 64));
    r.model.no_eos = true;
    r.model.delay_us = 5000;
    o.deadline_ms = 30;
    CHECK(fx_request_submit(&q, r.engine, &o, NULL) == FORNAX_OK);
    CHECK(fx_request_submit(&w, r.engine, &o, NULL) == FORNAX_OK);     /* never gets its turn */
    rig_steps(&r, 1000);
    take_events(q, &g, 0);
    take_events(w, &h, 0);
    CHECK(g.status == FORNAX_ETIMEOUT && g.finish == FORNAX_FINISH_ERROR);
    CHECK(g.at[0].n > 0 && g.at[0].n < 50);
    CHECK(h.status == FORNAX_ETIMEOUT && h.at[0].n == 0);
    fx_request_close(q);
    fx_request_close(w);
    rig_close(&r);
}

/* ---- Options --------------------------------------------------------------------------------------------- */

TEST(options_out_of_range_are_named)
{
    static const int32_t ids[] = { 1, 2 }, bad_ids[] = { 1, TOY_VOCAB }, negative[] = { -1 };
    static const fornax_logit_bias bad_bias[] = { { TOY_VOCAB, 1 } }, nan_bias[] = { { 1, NAN } };
    static const fornax_string empty[] = { { "", 0 } };
    fornax_request_options o;
    fx_request *q;
    fx_error err;
    rig r;
#define BAD(name, change)                                                       \
    do {                                                                        \
        o = asks(ids, 2, 3);                                                    \
        change;                                                                 \
        err = (fx_error){ 0 };                                                  \
        CHECK(fx_request_submit(&q, r.engine, &o, &err) != FORNAX_OK && !q);    \
        CHECK_STR(err.param, name);                                             \
        CHECK(err.text[0]);                                                     \
    } while (0)

    REQUIRE(rig_open(&r, 8, 16, manual(4, 64, 0), 64));
    BAD("temperature", o.temperature = -1);
    BAD("temperature", o.temperature = NAN);
    BAD("temperature", o.temperature = INFINITY);
    BAD("top_k", o.top_k = -1);
    BAD("top_p", o.top_p = 1.5f);
    BAD("top_p", o.top_p = NAN);
    BAD("min_p", o.min_p = -0.1f);
    BAD("repetition_penalty", o.repetition_penalty = -1);
    BAD("frequency_penalty", o.frequency_penalty = 2.5f);
    BAD("presence_penalty", o.presence_penalty = NAN);
    BAD("max_tokens", o.max_tokens = -2);
    BAD("min_tokens", o.min_tokens = -1);
    BAD("min_tokens", o.min_tokens = 4);
    BAD("n", o.n = 5);
    BAD("n", o.n = -1);
    BAD("logprobs", o.logprobs = 2);
    BAD("top_logprobs", o.top_logprobs = 3);
    BAD("top_logprobs", (o.logprobs = 1, o.top_logprobs = 21));
    BAD("prompt_logprobs", o.prompt_logprobs = 1);
    BAD("deadline_ms", o.deadline_ms = -1);
    BAD("ids", o.n_ids = 0);
    BAD("ids", o.ids = NULL);
    BAD("ids", o.ids = bad_ids);
    BAD("ids", (o.ids = negative, o.n_ids = 1));
    BAD("stop_ids", (o.stop_ids = bad_ids, o.n_stop_ids = 2));
    BAD("logit_bias", (o.logit_bias = bad_bias, o.n_logit_bias = 1));
    BAD("logit_bias", (o.logit_bias = nan_bias, o.n_logit_bias = 1));
    BAD("stop", (o.stop = empty, o.n_stop = 1));
    BAD("stop", o.n_stop = 1);
    CHECK_EQ_I64(stats_of(&r).requests_total, 0);
    CHECK_EQ_I64(stats_of(&r).waiting, 0);
    rig_close(&r);
#undef BAD
}

TEST(engine_options)
{
    toy t;
    fornax_engine_options o = FORNAX_OPTIONS(fornax_engine_options), out;
    fx_error err;

    toy_init(&t, 32);
    CHECK(fx_engine_resolve(&out, NULL, &t.state, 1000, &err) == FORNAX_OK);
    CHECK(out.max_batch == 64 && out.step_tokens == 512 && out.prefill_chunk == 512 && out.queue_limit == 256);
    CHECK_EQ_I64(out.kv_bytes, 512 * (int64_t)t.state.page_bytes);       /* 4 * 4096 tokens */
    CHECK(fx_engine_resolve(&out, NULL, &t.state, 40000, &err) == FORNAX_OK);
    CHECK_EQ_I64(out.kv_bytes, 1250 * (int64_t)t.state.page_bytes);
    o.step_tokens = 8;
    CHECK(fx_engine_resolve(&out, &o, &t.state, 1000, &err) == FORNAX_OK && out.max_batch == 8);
    o.max_batch = 9;
    CHECK(fx_engine_resolve(&out, &o, &t.state, 1000, &err) == FORNAX_EARG);
    CHECK_STR(err.param, "max_batch");
    o.step_tokens = 0;
    o.max_batch = 1000;
    CHECK(fx_engine_resolve(&out, &o, &t.state, 1000, &err) == FORNAX_OK && out.step_tokens == 1000);
    o.max_batch = -1;
    CHECK(fx_engine_resolve(&out, &o, &t.state, 1000, &err) == FORNAX_EARG);
    o.max_batch = 0;
    o.page_tokens = 64;
    CHECK(fx_engine_resolve(&out, &o, &t.state, 1000, &err) == FORNAX_EUNSUP);
    CHECK_STR(err.param, "page_tokens");
    o.page_tokens = 0;
    o.kv_bytes = 10;
    CHECK(fx_engine_resolve(&out, &o, &t.state, 1000, &err) == FORNAX_EARG);
    CHECK_STR(err.param, "kv_bytes");
    free(t.logits);
}

/* ---- Seeds, descriptors, memory ------------------------------------------------------------------------------ */

TEST(seeds)
{
    static const int32_t ids[] = { 1, 2, 3 };
    fornax_request_options o = asks(ids, 3, 12);
    gotten first, g;
    bool differs = false;
    fx_request *q;
    rig r;

    REQUIRE(rig_open(&r, 8, 16, manual(4, 64, 0), 64));
    o.temperature = 1;
    run_alone(&r, &o, &first);
    run_alone(&r, &o, &g);
    CHECK(same_output(&first.at[0], &g.at[0]));
    o.has_seed = 0;
    for (int i = 0; i < 8; i++) {
        run_alone(&r, &o, &g);
        differs = differs || !same_output(&first.at[0], &g.at[0]);
    }
    CHECK(differs);
    CHECK(fx_request_submit(&q, r.engine, &o, NULL) == FORNAX_OK);      /* a drawn seed can be given again */
    rig_steps(&r, 100);
    memset(&first, 0, sizeof first);
    take_events(q, &first, 0);
    o.has_seed = 1;
    o.seed = fx_request_seed(q);
    run_alone(&r, &o, &g);
    CHECK(same_output(&first.at[0], &g.at[0]));
    fx_request_close(q);
    rig_close(&r);
}

static bool readable(int fd)
{
    struct pollfd p = { fd, POLLIN, 0 };

    return poll(&p, 1, 0) == 1;
}

TEST(descriptors)
{
    static const int32_t ids[] = { 1, 2, 3 };
    fornax_request_options o = asks(ids, 3, 2);
    const fornax_event *e;
    fx_error err;
    fx_request *q;
    rig r;

    REQUIRE(rig_open(&r, 8, 16, manual(4, 64, 0), 64));
    r.model.no_eos = true;
    CHECK(!readable(fx_engine_fd(r.engine)));
    CHECK(fx_request_submit(&q, r.engine, &o, NULL) == FORNAX_OK);
    CHECK(readable(fx_engine_fd(r.engine)));
    CHECK(!readable(fx_request_fd(q)));
    CHECK(fx_request_next(q, &e, 0, &err) == FORNAX_ETIMEOUT);
    CHECK(fx_request_next(q, &e, 5, &err) == FORNAX_ETIMEOUT);
    rig_steps(&r, 1);
    CHECK(readable(fx_request_fd(q)) && readable(fx_engine_fd(r.engine)));
    CHECK(fx_request_next(q, &e, 0, &err) == FORNAX_OK && e->kind == FORNAX_EVENT_TOKEN);
    CHECK(!readable(fx_request_fd(q)));
    rig_steps(&r, 1);
    CHECK(!readable(fx_engine_fd(r.engine)));
    for (int i = 0; i < 3; i++) {
        CHECK(readable(fx_request_fd(q)));
        CHECK(fx_request_next(q, &e, -1, &err) == FORNAX_OK);
    }
    CHECK(e->kind == FORNAX_EVENT_DONE && e->status == FORNAX_OK && e->finish == FORNAX_FINISH_LENGTH);
    CHECK(!readable(fx_request_fd(q)));
    CHECK(fx_request_next(q, &e, -1, &err) == FORNAX_ENOTFOUND);
    fx_request_close(q);
    rig_close(&r);
}

TEST(decoding_allocates_nothing)
{
    static const fornax_string stops[] = { { "qqqqq", 5 }, { "t40.t41.", 8 } };
    int32_t ids[6][100];
    fx_request *q[6];
    static gotten g[6];
    int64_t before = 0;
    rig r;

    memset(g, 0, sizeof g);
    REQUIRE(rig_open(&r, 8, 300, manual(16, 64, 0), 512));
    r.model.no_eos = true;
    for (int i = 0; i < 6; i++) {
        fornax_request_options o;

        make_prompt(ids[i], 100, (uint32_t)i);
        o = asks(ids[i], (size_t)(20 + 15 * i), 300);
        o.temperature = 1;
        o.top_p = 0.95f;
        o.repetition_penalty = 1.1f;
        o.logprobs = 1;
        o.top_logprobs = i * 4;
        o.stop = stops;
        o.n_stop = 2;
        o.n = i == 5 ? 3 : 1;
        CHECK(fx_request_submit(&q[i], r.engine, &o, NULL) == FORNAX_OK);
    }
    for (int step = 0; step < 400; step++) {
        if (step == 3)
            before = r.mem.calls;
        rig_steps(&r, 1);
        for (int i = 0; i < 6; i++)
            take_events(q[i], &g[i], 0);
    }
    CHECK_EQ_I64(r.mem.calls - before, 0);
    for (int i = 0; i < 6; i++) {
        CHECK(g[i].done && g[i].status == FORNAX_OK);
        fx_request_close(q[i]);
    }
    rig_close(&r);
}

/* The allocation number n fails, for every n: no leak, and ENOMEM or success. */
TEST(submit_without_memory)
{
    static const fornax_string stops[] = { { "stop", 4 }, { "ab", 2 } };
    static const fornax_logit_bias bias[] = { { 4, 1 } };
    int32_t ids[40];
    fornax_request_options o;
    rig r;
    int64_t live;
    int n = 1;

    REQUIRE(rig_open(&r, 8, 64, manual(4, 64, 0), 256));
    make_prompt(ids, 40, 1);
    o = asks(ids, 40, 6);
    o.stop = stops;
    o.n_stop = 2;
    o.logit_bias = bias;
    o.n_logit_bias = 1;
    o.n = 2;
    o.cache_salt = "salt";
    o.repetition_penalty = 1.5f;
    live = r.mem.live;
    for (; n < 200; n++) {
        fx_request *q;
        fx_error err = { 0 };
        fx_status st;

        r.mem.failed = false;
        r.mem.fail_at = n;
        st = fx_request_submit(&q, r.engine, &o, &err);
        if (!r.mem.failed) {
            r.mem.fail_at = 0;
            CHECK(st == FORNAX_OK);
            fx_request_close(q);
            rig_steps(&r, 100);
            break;
        }
        CHECK(st == FORNAX_ENOMEM && !q && err.text[0]);
        CHECK_EQ_I64(r.mem.live, live);
        CHECK_EQ_I64(stats_of(&r).waiting, 0);
    }
    CHECK(n > 5 && n < 200);
    rig_close(&r);
}

TEST(open_without_memory)
{
    int n = 1;

    for (; n < 200; n++) {
        rig r;
        fx_error err = { 0 };
        fx_engine *e = NULL;
        fx_status st;

        if (!rig_open(&r, 8, 64, manual(4, 64, 0), 256))
            return;
        fx_engine_close(r.engine);
        r.engine = NULL;
        r.mem.failed = false;
        r.mem.fail_at = n;
        st = fx_engine_open(&e, &r.config, &err);
        CHECK(r.mem.failed ? st == FORNAX_ENOMEM && !e : st == FORNAX_OK);
        r.engine = e;
        if (!r.mem.failed) {
            rig_close(&r);
            break;
        }
        rig_close(&r);
    }
    CHECK(n > 5 && n < 200);
}

/* Events that can't be queued end the request with ENOMEM, others go on. */
TEST(events_without_memory)
{
    static const int32_t ids[] = { 1, 2, 3 };
    fornax_request_options o = asks(ids, 3, 400);
    fx_request *q;
    gotten *g = calloc(1, sizeof *g);
    rig r;

    REQUIRE(rig_open(&r, 8, 100, manual(4, 64, 0), 512));
    r.model.no_eos = true;
    o.logprobs = 1;
    o.top_logprobs = 20;
    CHECK(fx_request_submit(&q, r.engine, &o, NULL) == FORNAX_OK);
    rig_steps(&r, 1);
    r.mem.fail_at = 1;                                /* nobody takes the events */
    rig_steps(&r, 1000);
    CHECK(r.mem.failed);
    take_events(q, g, 0);
    CHECK(g->done && g->status == FORNAX_ENOMEM && g->finish == FORNAX_FINISH_ERROR);
    CHECK(g->at[0].n > 10);
    fx_request_close(q);
    rig_close(&r);
    free(g);
}

static void put_file(const char *root, const char *path, const char *text)
{
    char full[512];
    FILE *f;

    snprintf(full, sizeof full, "mkdir -p $(dirname %s/%s)", root, path);
    CHECK(system(full) == 0);
    snprintf(full, sizeof full, "%s/%s", root, path);
    f = fopen(full, "w");
    REQUIRE(f);
    fputs(text, f);
    fclose(f);
}

TEST(memory_of_cgroups)
{
    char root[] = "/tmp/fxtest_memory_XXXXXX", command[64];
    uint64_t whole;

    REQUIRE(mkdtemp(root));
    whole = fx_memory_bytes(&fx_mem_libc, root);           /* no cgroups at all */
    CHECK(whole > 1 << 20);
    put_file(root, "proc/self/cgroup", "0::/a/b\n");
    put_file(root, "sys/fs/cgroup/a/b/memory.max", "max\n");
    CHECK(fx_memory_bytes(&fx_mem_libc, root) == whole);
    put_file(root, "sys/fs/cgroup/a/memory.max", "1000000\n");
    CHECK(fx_memory_bytes(&fx_mem_libc, root) == 1000000);
    put_file(root, "sys/fs/cgroup/a/b/memory.max", "300000\n");
    CHECK(fx_memory_bytes(&fx_mem_libc, root) == 300000);
    put_file(root, "proc/self/cgroup", "5:cpu:/x\n4:memory:/d/e\n0::/\n");
    CHECK(fx_memory_bytes(&fx_mem_libc, root) == whole);
    put_file(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "777777");
    CHECK(fx_memory_bytes(&fx_mem_libc, root) == 777777);
    put_file(root, "sys/fs/cgroup/memory/d/e/memory.limit_in_bytes", "9223372036854771712");
    CHECK(fx_memory_bytes(&fx_mem_libc, root) == 777777);
    snprintf(command, sizeof command, "rm -rf %s", root);
    CHECK(system(command) == 0);
}

/* ---- Other kinds of state --------------------------------------------------------------------- */

static void run_kind(fx_state_kind kind, int32_t window, int64_t snapshots)
{
    fornax_engine_options o = manual(16, 64, 0), small = manual(4, 16, 7);

    toy_kind = kind;
    toy_window = window;
    run_all_alone();
    o.snapshot_bytes = small.snapshot_bytes = FX_MAX(64 * snapshots, 1);
    run_all_together(8, 600, o);
    run_all_together(8, 40, o);
    o.prefill_chunk = 1;
    run_all_together(8, 200, o);
    run_all_together(1, 3000, small);
    for (uint32_t seed = 1; seed <= 3; seed++) {
        random_load(8, 12, o, seed);
        random_load(4, 60, small, seed);
        small.no_prefix_cache = (int)seed % 2;
        random_load(8, 20, small, seed);
    }
    for (int n_prompt = 1; n_prompt < 40; n_prompt += 7) {
        run_choices(n_prompt, 4, 100, true);
        run_choices(n_prompt, 8, 13, true);
    }
    toy_kind = FX_STATE_FULL;
}

TEST(windows_change_nothing)
{
    run_kind(FX_STATE_WINDOW, 1, 0);
    run_kind(FX_STATE_WINDOW, 20, 0);
    run_kind(FX_STATE_WINDOW, 1000, 0);
}

TEST(windows_beside_full_attention_change_nothing)
{
    static const int32_t windows[] = { 1, 20, 1000 };

    for (size_t i = 0; i < FX_COUNT(windows); i++) {
        toy_second = windows[i];
        run_kind(FX_STATE_FULL, 0, 0);
    }
    toy_second = 9;
    run_kind(FX_STATE_RECURRENT, 0, 3);
    toy_second = 0;
}

TEST(recurrent_state_changes_nothing)
{
    run_kind(FX_STATE_RECURRENT, 0, 1000);
    run_kind(FX_STATE_RECURRENT, 0, 3);
    run_kind(FX_STATE_RECURRENT, 0, 0);
}

/* A sequence longer than the pool: what is behind the window comes back. */
TEST(a_window_needs_few_pages)
{
    int32_t ids[300];
    fornax_request_options o;
    gotten g;
    rig r;

    toy_kind = FX_STATE_WINDOW;
    toy_window = 20;
    REQUIRE(rig_open(&r, 8, 9, manual(4, 16, 0), 512));
    r.model.no_eos = true;
    CHECK_EQ_I64(fx_engine_context(r.engine), 512);
    make_prompt(ids, 300, 1);
    o = asks(ids, 300, 150);
    run_alone(&r, &o, &g);
    CHECK(g.status == FORNAX_OK && g.at[0].n == 150);
    CHECK_EQ_I64(stats_of(&r).pages_used, 0);
    rig_close(&r);
    toy_kind = FX_STATE_FULL;
}

/* Of 450 tokens the first group holds all in a column of 57 pages; the other for 20 tokens and a step of 16 in two of at
 * most 8. The pool has just these. */
TEST(a_window_beside_full_attention_needs_few_pages)
{
    int32_t ids[300];
    fornax_request_options o;
    fx_request *q = NULL;
    gotten g;
    rig r;

    toy_second = 20;
    REQUIRE(rig_open(&r, 8, 24, manual(4, 16, 0), 512));          /* 24 in each of 3 columns */
    r.model.no_eos = true;
    CHECK_EQ_I64(stats_of(&r).pages_total, 57 + 2 * 8 - 1);
    CHECK_EQ_I64(fx_engine_context(r.engine), 56 * 8);
    rig_close(&r);
    REQUIRE(rig_open(&r, 8, 25, manual(4, 16, 0), 472));
    r.model.no_eos = true;
    CHECK_EQ_I64(fx_engine_context(r.engine), 472);
    make_prompt(ids, 300, 1);
    memset(&g, 0, sizeof g);
    o = asks(ids, 300, 150);
    REQUIRE(fx_request_submit(&q, r.engine, &o, NULL) == FORNAX_OK);
    while (rig_steps(&r, 1)) {
        const fx_seq *seq = r.engine->sched.n_running > 0 ? r.engine->sched.running[0] : NULL;
        uint64_t used = stats_of(&r).pages_used;

        check_all(&r);
        if (seq)
            CHECK(used >= (uint64_t)seq->n_pages && used <= (uint64_t)seq->n_pages + 2 * FX_MIN(seq->n_pages, 8));
        if (seq && seq->n_tokens > 320)          /* one row a step now: two pages that the window ends in, and two between */
            CHECK(used <= (uint64_t)seq->n_pages + 2 * 4);
    }
    take_events(q, &g, 0);
    fx_request_close(q);
    CHECK(g.status == FORNAX_OK && g.at[0].n == 150);
    CHECK_EQ_I64(stats_of(&r).pages_used, 0);
    rig_close(&r);
    toy_second = 0;
}

/* The n ids, others from 'branch' on than a prompt before had, asked for twice: so many are found the first and the second time,
 * and only the rest is computed. */
static void ask_for_prefix(rig *r, int32_t *ids, int n, int branch, const int cached[2])
{
    for (int k = branch; k < n; k++)
        ids[k] = 1 + ids[k] % (TOY_VOCAB - 2);
    for (int again = 0; again < 2; again++) {
        fornax_request_options o = asks(ids, (size_t)n, 1);
        int64_t before = r->model.rows;
        gotten g;

        run_alone(r, &o, &g);
        check_all(r);
        CHECK_EQ_I64(r->model.rows - before, n - g.cached);
        CHECK_EQ_I64(g.cached, cached[again]);
    }
}

/* Where the second group's window before it is still there a prefix is found: everywhere while there is room; else where
 * a sequence ended, or its prompt did, and where a second one forked. */
TEST(prefixes_with_a_window_beside_full_attention)
{
    static const struct {
        int pages, first, answer;        /* the first prompt's ids and new tokens */
        int n, branch;                   /* the second's ids, others than the first's from 'branch' on */
        int cached, again;               /* of the second, and of it once more */
    } rows[] = {
        { 64, 100, 1, 100, 100, 96, 96 }, { 64, 100, 1, 100, 50, 48, 96 }, { 64, 100, 1, 96, 100, 88, 88 },
        { 64, 100, 1, 30, 100, 24, 24 },  { 64, 100, 1, 8, 100, 0, 0 },    { 64, 40, 60, 100, 100, 40, 96 },
        { 64, 40, 60, 100, 20, 16, 96 },  { 20, 100, 1, 100, 100, 96, 96 }, { 20, 100, 1, 100, 50, 0, 96 },
        { 20, 40, 60, 100, 100, 40, 96 }, { 20, 40, 60, 100, 20, 0, 96 },
    };

    toy_second = 20;
    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        fornax_request_options o;
        int32_t ids[100], others[100];
        gotten g;
        rig r;

        REQUIRE(rig_open(&r, 8, rows[i].pages, manual(4, 16, 0), 128));
        r.model.no_eos = true;
        make_prompt(ids, 100, 1);
        o = asks(ids, (size_t)rows[i].first, rows[i].answer);
        run_alone(&r, &o, &g);
        CHECK_EQ_I64(g.cached, 0);
        make_prompt(others, 100, 2);     /* who takes what is free, and what is unlikely to be of use */
        o = asks(others, 100, 1);
        run_alone(&r, &o, &g);
        ask_for_prefix(&r, ids, rows[i].n, rows[i].branch, (const int[]){ rows[i].cached, rows[i].again });
        rig_close(&r);
    }
    toy_second = 0;
}

/* A prefix is found up to the last page end that has a snapshot, and what is found is said. */
TEST(recurrent_prefixes)
{
    static const struct {
        int64_t snapshots;
        int n, branch;                   /* a prompt of n ids, others than the first prompt's from 'branch' on */
        int cached, again;               /* of that prompt, and of it once more */
    } rows[] = {
        { 100, 100, 100, 96, 96 }, { 100, 100, 50, 48, 96 }, { 100, 96, 100, 88, 88 }, { 100, 8, 100, 0, 0 },
        { 1, 100, 100, 96, 96 },   { 1, 100, 50, 0, 48 },    { 0, 100, 100, 0, 0 },
    };

    toy_kind = FX_STATE_RECURRENT;
    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        fornax_engine_options e = manual(4, 512, 0);
        fornax_request_options o;
        int32_t ids[100];
        gotten g;
        rig r;

        e.snapshot_bytes = FX_MAX(64 * rows[i].snapshots, 1);
        REQUIRE(rig_open(&r, 8, 64, e, 512));
        make_prompt(ids, 100, 1);
        o = asks(ids, 100, 1);
        run_alone(&r, &o, &g);
        ask_for_prefix(&r, ids, rows[i].n, rows[i].branch, (const int[]){ rows[i].cached, rows[i].again });
        rig_close(&r);
    }
    toy_kind = FX_STATE_FULL;
}

/* With few snapshots, the end of what two prompts share gets one when the second meets it. */
TEST(recurrent_forks_are_kept)
{
    fornax_engine_options e = manual(4, 512, 0);
    fornax_request_options o;
    int32_t ids[100];
    gotten g;
    rig r;

    toy_kind = FX_STATE_RECURRENT;
    e.snapshot_bytes = 64 * 3;
    REQUIRE(rig_open(&r, 8, 64, e, 512));
    for (int i = 0; i < 3; i++) {
        make_prompt(ids, 100, 1);
        for (int k = 60; k < 100; k++)
            ids[k] = 1 + (k * (i + 3)) % (TOY_VOCAB - 2);
        o = asks(ids, 100, 1);
        run_alone(&r, &o, &g);
        CHECK_EQ_I64(g.cached, i == 0 ? 0 : i == 1 ? 16 : 56);
    }
    rig_close(&r);
    toy_kind = FX_STATE_FULL;
}

FXTEST_MAIN()
