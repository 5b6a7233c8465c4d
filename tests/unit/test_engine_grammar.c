/* test_engine_grammar.c - requests held to a grammar: every choice by itself, ends, limits, bias, stops,
 * preemption, forced text, failing memory; and others in the batch, which notice nothing. */
#include "toy_model.h"

#include "engine/engine_int.h"
#include "grammar/regex_ecma.h"

typedef struct held {
    fx_request_grammar with;
} held;

static fx_str vocab_bytes(const void *user, int32_t id) { return fx_tokenizer_bytes(user, id); }
static bool vocab_special(const void *user, int32_t id) { return fx_tokenizer_special(user, id); }

static fx_status held_try(held *h, rig *r, const char *pattern, fx_error *err)
{
    const fx_gvocab_desc d = { .n = TOY_VOCAB, .bytes = vocab_bytes, .special = vocab_special, .user = r->tok,
                               .eos = r->eos, .n_eos = 1 };
    fx_gram_builder *b = fx_gram_builder_new(&r->mem.mem, NULL);
    fx_re re = FX_RE_FAIL;
    fx_status st;

    memset(h, 0, sizeof *h);
    if (!b)
        return fx_nomem(err, "a grammar");
    st = fx_re_ecma(&re, fx_gram_regexes(b), FX_SPELL_UTF8, fx_str_of(pattern), true, err);
    if (st != FORNAX_OK) {
        fx_gram_builder_free(b);
        return st;
    }
    FX_TRY(fx_gram_finish(&h->with.gram, b, fx_gram_lexeme(b, re), err));
    return fx_gvocab_new(&h->with.vocab, &r->mem.mem, &d, err);
}

static void held_open(held *h, rig *r, const char *pattern)
{
    fx_error err = { 0 };

    CHECK_OK(held_try(h, r, pattern, &err), err);
}

static void held_close(held *h)
{
    if (h->with.vocab)
        fx_gvocab_unref(h->with.vocab);
    if (h->with.gram)
        fx_gram_unref(h->with.gram);
}

static fx_request *submit(rig *r, const fornax_request_options *o, const held *h)
{
    fx_request *q = NULL;
    fx_error err = { 0 };

    CHECK_OK(fx_request_submit_with(&q, r->engine, o, NULL, h ? &h->with : NULL, &err), err);
    return q;
}

static void finish(rig *r, fx_request *q, gotten *g)
{
    memset(g, 0, sizeof *g);
    rig_steps(r, 1 << 20);
    take_events(q, g, 0);
    CHECK(g->done);
    fx_request_close(q);
}

/* Whether the text is a word of the language, or the beginning of one. */
static bool fits(const held *h, const got *g, bool whole)
{
    fx_matcher *m = NULL;
    fx_error err = { 0 };
    bool ok;

    if (fx_matcher_new(&m, &fx_mem_libc, h->with.gram, h->with.vocab, &err) != FORNAX_OK)
        return false;
    ok = fx_matcher_accept_bytes(m, fx_str_n(g->text, g->text_n), &err) == FORNAX_OK && (!whole || fx_matcher_can_end(m));
    fx_matcher_free(m);
    return ok;
}

static int32_t prompt[20];
static gotten g;

static fornax_request_options asks_for(int64_t max_tokens, uint64_t seed)
{
    fornax_request_options o;

    make_prompt(prompt, 20, 3);
    o = asks(prompt, 20, max_tokens);
    o.temperature = 1;
    o.seed = seed;
    return o;
}

static bool open_both(rig *r, held *h, const char *pattern)
{
    if (!rig_open(r, 8, 200, manual(16, 64, 0), 256))
        return false;
    held_open(h, r, pattern);
    return true;
}

static void close_both(rig *r, held *h)
{
    held_close(h);
    rig_close(r);
}

/* ---- What comes ------------------------------------------------------------------------------ */

TEST(each_choice_has_a_place_of_its_own)
{
    int different = 0;
    held h;
    rig r;

    REQUIRE(open_both(&r, &h, "[ab]{3}c|x[yz]{2,9}w|(q|r)+s"));
    for (uint64_t seed = 0; seed < 20; seed++) {
        fornax_request_options o = asks_for(100, seed);

        o.n = 6;
        o.presence_penalty = seed % 2 ? 1.0f : 0;
        finish(&r, submit(&r, &o, &h), &g);
        for (int i = 0; i < 6; i++) {
            CHECK_EQ_I64(g.at[i].finish, FORNAX_FINISH_STOP);
            CHECK(fits(&h, &g.at[i], true));
            different += strcmp(g.at[i].text, g.at[0].text) != 0;
        }
    }
    CHECK(different > 10);
    close_both(&r, &h);
}

TEST(the_end_token_comes_only_after_a_whole_text)
{
    int ended = 0, cut = 0;
    held h;
    rig r;

    REQUIRE(open_both(&r, &h, "([a-m]{3}z)*"));
    for (uint64_t seed = 0; seed < 60; seed++) {
        fornax_request_options o = asks_for(41, seed);
        fornax_logit_bias bias = { TOY_EOS, 6 };

        o.logit_bias = &bias;                       /* tempting */
        o.n_logit_bias = seed % 2;
        finish(&r, submit(&r, &o, &h), &g);
        CHECK_EQ_I64(g.status, FORNAX_OK);
        if (g.at[0].end == TOY_EOS)
            ended += fits(&h, &g.at[0], true);
        else
            cut += g.at[0].finish == FORNAX_FINISH_LENGTH && g.at[0].n == 41 && fits(&h, &g.at[0], false);
    }
    CHECK_EQ_I64(ended + cut, 60);
    CHECK(ended > 0 && cut > 0);
    close_both(&r, &h);
}

TEST(where_nothing_can_follow_no_end_token_is_asked_for)
{
    fornax_request_options o = asks_for(100, 1);
    held h;
    rig r;

    REQUIRE(open_both(&r, &h, "a[bc]d"));
    o.min_tokens = 50;                              /* the text can't be longer than it is */
    finish(&r, submit(&r, &o, &h), &g);
    CHECK_EQ_I64(g.status, FORNAX_OK);
    CHECK_EQ_I64(g.at[0].finish, FORNAX_FINISH_STOP);
    CHECK_EQ_I64(g.at[0].end, -1);
    CHECK_EQ_I64(g.at[0].generated, g.at[0].n);
    CHECK(fits(&h, &g.at[0], true));
    close_both(&r, &h);
}

TEST(min_tokens_put_the_end_off)
{
    held h;
    rig r;

    REQUIRE(open_both(&r, &h, "[ab]*"));
    for (uint64_t seed = 0; seed < 20; seed++) {
        fornax_request_options o = asks_for(60, seed);

        o.min_tokens = 12;
        finish(&r, submit(&r, &o, &h), &g);
        CHECK(g.at[0].generated >= 12 && fits(&h, &g.at[0], true));
    }
    close_both(&r, &h);
}

TEST(a_bias_brings_nothing_back)
{
    fornax_logit_bias all[TOY_VOCAB];
    fornax_request_options o = asks_for(100, 2);
    held h;
    rig r;

    REQUIRE(open_both(&r, &h, "[ab]{30}"));
    for (int i = 0; i < TOY_VOCAB; i++)
        all[i] = (fornax_logit_bias){ i, i == 1 || i == 2 ? 0.0f : 100.0f };
    o.logit_bias = all;
    o.n_logit_bias = TOY_VOCAB;
    finish(&r, submit(&r, &o, &h), &g);
    CHECK_EQ_I64(g.at[0].finish, FORNAX_FINISH_STOP);
    CHECK(g.at[0].text_n == 30 && fits(&h, &g.at[0], true));
    close_both(&r, &h);
}

TEST(a_ban_on_the_only_way_ends_the_request)
{
    fornax_logit_bias ban = { 7, -100 };             /* "g" */
    fornax_request_options o = asks_for(100, 2);
    held h;
    rig r;

    REQUIRE(open_both(&r, &h, "[ab]fgh"));
    o.logit_bias = &ban;
    o.n_logit_bias = 1;
    finish(&r, submit(&r, &o, &h), &g);
    CHECK_EQ_I64(g.status, FORNAX_EARG);
    CHECK(strstr(g.error, "banned") && strcmp(g.at[0].text + 1, "f") == 0);
    close_both(&r, &h);
}

static int hook_rows, hook_masked;

static void look(void *user, int choice, const int32_t *tokens, size_t n, float *logits, int64_t vocab)
{
    (void)user, (void)choice, (void)tokens, (void)n;
    hook_rows++;
    for (int64_t i = 0; i < vocab; i++)
        hook_masked += !(logits[i] >= 0);
    logits[3] = 1e9f;                                /* "c" isn't allowed, whatever the hook wants */
}

TEST(the_hook_sees_raw_logits_of_every_token)
{
    fornax_request_options o = asks_for(100, 2);
    held h;
    rig r;

    REQUIRE(open_both(&r, &h, "[ab]{4}zebra"));
    o.logits_hook = look;
    hook_rows = hook_masked = 0;
    finish(&r, submit(&r, &o, &h), &g);
    CHECK(fits(&h, &g.at[0], true));
    CHECK_EQ_I64(hook_rows, g.at[0].n);
    CHECK_EQ_I64(hook_masked, 0);
    close_both(&r, &h);
}

/* ---- Forced text ----------------------------------------------------------------------------- */

TEST(forced_tokens_take_no_steps)
{
    fornax_request_options o = asks_for(100, 4);
    held h;
    rig r;

    REQUIRE(open_both(&r, &h, "(nothing much|quick brown foxes)[xy](zebra crossing)"));
    o.logprobs = 1;
    finish(&r, submit(&r, &o, &h), &g);
    CHECK(fits(&h, &g.at[0], true));
    CHECK(g.at[0].n > 25 && r.model.steps < 9);
    CHECK_EQ_I64(g.at[0].generated, g.at[0].n);
    for (int i = 1; i < g.at[0].n; i++)
        CHECK(g.at[0].logprob[i] <= 0);
    CHECK(g.at[0].logprob[g.at[0].n - 1] >= 0);
    close_both(&r, &h);
}

TEST(forced_text_respects_limits_and_stops)
{
    held h;
    rig r;

    REQUIRE(open_both(&r, &h, "[qr]uick stop foxes[xy]"));
    for (int most = 1; most < 16; most++) {
        fornax_request_options o = asks_for(most, 4);

        finish(&r, submit(&r, &o, &h), &g);
        CHECK_EQ_I64(g.at[0].finish, FORNAX_FINISH_LENGTH);
        CHECK(g.at[0].n == most && g.at[0].generated == most && fits(&h, &g.at[0], false));
    }
    for (int32_t i = 0; i < 2; i++) {
        fornax_request_options o = asks_for(90, 4);
        fornax_string stop = { i ? "p f" : "stop", SIZE_MAX };

        o.stop = &stop;
        o.n_stop = 1;
        finish(&r, submit(&r, &o, &h), &g);
        CHECK_EQ_I64(g.at[0].finish, FORNAX_FINISH_STOP);
        CHECK(strcmp(g.at[0].stop, stop.p) == 0);
        CHECK(strcmp(g.at[0].text + 1, i ? "uick sto" : "uick ") == 0);
    }
    for (int32_t id = 6; id < 7; id++) {             /* "f" ends the request, and isn't part of the text */
        fornax_request_options o = asks_for(90, 4);

        o.stop_ids = &id;
        o.n_stop_ids = 1;
        finish(&r, submit(&r, &o, &h), &g);
        CHECK_EQ_I64(g.at[0].end, 6);
        CHECK(strcmp(g.at[0].text + 1, "uick stop ") == 0);
    }
    close_both(&r, &h);
}

typedef struct stopper {
    int seen, at, after;
    bool done;
    fornax_status status;
} stopper;

static int stop_at(void *user, const fornax_event *e)
{
    stopper *s = user;

    if (e->kind == FORNAX_EVENT_TOKEN)
        s->after += ++s->seen > s->at;
    if (e->kind == FORNAX_EVENT_DONE)
        s->done = true, s->status = e->status;
    return s->seen >= s->at;
}

TEST(a_callback_stops_among_forced_tokens)
{
    held h;
    rig r;

    REQUIRE(open_both(&r, &h, "[qr]uick brown foxes[xy]"));
    for (int at = 1; at < 12; at++) {
        fornax_request_options o = asks_for(90, 4);
        stopper s = { .at = at };
        fx_request *q;

        o.on_event = stop_at;
        o.event_user = &s;
        q = submit(&r, &o, &h);
        rig_steps(&r, 1 << 20);
        CHECK(s.done && s.status == FORNAX_ECANCEL && s.seen == at && s.after == 0);
        fx_request_close(q);
    }
    close_both(&r, &h);
}

/* ---- Whatever happens around ------------------------------------------------------------------- */

enum { MANY = 12 };
static const char *const patterns[] = { "([a-f]{2}zebra)+", "[ab]*(nothing much|none at all)[a-z ]*", "[a-z ]{20,90}", "[q-z]{1,3}(abcab){9}" };
static gotten alone[MANY], beside[MANY];
static int32_t prompts[MANY][80];

/* Every third is free. */
static fornax_request_options one_of_many(int i)
{
    int n = 5 + i * 29 % 70;
    fornax_request_options o;

    make_prompt(prompts[i], n, i % 4 == 0 ? 5 : (uint32_t)(50 + i));
    o = asks(prompts[i], (size_t)n, 60);
    o.temperature = i % 5 ? 1.0f : 0;
    o.repetition_penalty = i % 2 ? 1.2f : 0;
    o.logprobs = 1;
    o.seed = (uint64_t)i;
    return o;
}

static const held *grammar_for(const held *h, int i) { return i % 3 == 2 ? NULL : &h[i % 4]; }

static void all_alone(void)
{
    held h[4];
    rig r;

    if (!rig_open(&r, 8, 200, manual(16, 512, 0), 256))
        return;
    for (int k = 0; k < 4; k++)
        held_open(&h[k], &r, patterns[k]);
    for (int i = 0; i < MANY; i++) {
        fornax_request_options o = one_of_many(i);

        finish(&r, submit(&r, &o, grammar_for(h, i)), &alone[i]);
        CHECK_EQ_I64(alone[i].status, FORNAX_OK);
        CHECK(!grammar_for(h, i) || fits(grammar_for(h, i), &alone[i].at[0], alone[i].at[0].finish == FORNAX_FINISH_STOP));
        fx_engine_drop_cache(r.engine);
    }
    for (int k = 0; k < 4; k++)
        held_close(&h[k]);
    rig_close(&r);
}

static uint64_t all_beside(int page_tokens, int pages, fornax_engine_options opt)
{
    fx_request *q[MANY];
    held h[4];
    rig r;

    if (!rig_open(&r, page_tokens, pages, opt, 256))
        return 0;
    for (int k = 0; k < 4; k++)
        held_open(&h[k], &r, patterns[k]);
    for (int i = 0; i < MANY; i++) {
        fornax_request_options o = one_of_many(i);

        q[i] = submit(&r, &o, grammar_for(h, i));
        rig_steps(&r, i % 3);
    }
    while (rig_steps(&r, 1))
        fx_sched_check(&r.engine->sched);
    for (int i = 0; i < MANY; i++) {
        memset(&beside[i], 0, sizeof beside[i]);
        take_events(q[i], &beside[i], 0);
        if (!same_output(&alone[i].at[0], &beside[i].at[0]))
            FXTEST_FAIL("request %d: '%s', alone '%s'; pages %d of %d", i, beside[i].at[0].text, alone[i].at[0].text, pages,
                        page_tokens);
        fx_request_close(q[i]);
    }
    for (int k = 0; k < 4; k++)
        held_close(&h[k]);
    uint64_t preemptions = r.engine->sched.preemptions;

    rig_close(&r);
    return preemptions;
}

TEST(same_tokens_alone_and_beside_others)
{
    static const struct { fx_state_kind kind; int32_t window, second; } keeps[] = {
        { FX_STATE_FULL, 0, 0 }, { FX_STATE_WINDOW, 12, 0 }, { FX_STATE_RECURRENT, 0, 0 }, { FX_STATE_FULL, 0, 12 },
    };

    for (size_t k = 0; k < FX_COUNT(keeps); k++) {
        toy_kind = keeps[k].kind;
        toy_window = keeps[k].window;
        toy_second = keeps[k].second;
        all_alone();
        all_beside(8, 300, manual(16, 512, 0));
        all_beside(8, 300, manual(12, 12, 1));
        all_beside(4, 600, manual(5, 20, 7));
        CHECK(all_beside(4, 66, manual(16, 64, 0)) > 0 || toy_window + toy_second > 0);
    }
    toy_kind = FX_STATE_FULL;
    toy_window = toy_second = 0;
}

/* ---- Failing memory ------------------------------------------------------------------------------ */

TEST(any_allocation_may_fail)
{
    int ok = 0, refused = 0;

    for (int at = 1; at < 4000 && ok < 3; at++) {
        fornax_request_options o = asks_for(60, 4);
        fx_request *q = NULL;
        fx_error err = { 0 };
        fx_status st;
        held h;
        rig r;

        REQUIRE(rig_open(&r, 8, 200, manual(4, 64, 0), 256));
        o.n = 2;
        r.mem.fail_at = at;
        st = held_try(&h, &r, "([a-f]{2}zebra crossing){3}", &err);
        if (st == FORNAX_OK)
            st = fx_request_submit_with(&q, r.engine, &o, NULL, &h.with, &err);
        memset(&g, 0, sizeof g);
        rig_steps(&r, 1 << 20);
        if (q) {
            take_events(q, &g, 0);
            CHECK(g.done);
            st = g.status;
        }
        CHECK(st == FORNAX_OK || st == FORNAX_ENOMEM);
        CHECK(st != FORNAX_OK || fits(&h, &g.at[1], g.at[1].finish == FORNAX_FINISH_STOP));
        ok += st == FORNAX_OK && !r.mem.failed;
        refused += st == FORNAX_ENOMEM;
        r.mem.fail_at = 0;
        fx_request_close(q);
        held_close(&h);
        rig_close(&r);
    }
    CHECK(ok == 3 && refused > 20);
}

FXTEST_MAIN()
