/* toy_model.h - a model for the engine's tests: it keeps the tokens it saw in the pages, and
 * reads its whole history back through the page tables.
 *
 * A slot of a page holds the token, its position and a hash of the history up to it; each
 * row checks the slots before it and its logits are made from the hash.  So a page that
 * holds the wrong tokens, a stale page or a wrong table shows as a fault, and as other
 * tokens.  With a script, position p is followed by script[p + 1 - n_prompt].
 *
 * With a window it reads back only so far, and what it reads must hang together; with a second group
 * it keeps the same in three columns, and reads all of the first, a window of the others.  Recurrent, it
 * keeps position and hash in the slot too, and makes logits from that; a slot that isn't
 * as of the row before shows as a fault.
 *
 * Also: an allocator that counts and fails on demand, a vocabulary, and the gathering of
 * a request's events. */
#ifndef TOY_MODEL_H
#define TOY_MODEL_H

#include <stdatomic.h>
#include <time.h>

#include "engine/engine.h"
#include "fxtest.h"

#define TOY_VOCAB 96
#define TOY_EOS 0

typedef struct toy_slot {
    int32_t token, pos;
    uint64_t hash;
} toy_slot;

typedef struct toy {
    fx_state_table state;
    fx_state_layer layer;
    float *logits;                       /* [n_logits of the step][TOY_VOCAB] */
    int32_t n_prompt;
    const int32_t *script;
    int32_t n_script;
    int32_t nan_at;                      /* position whose logits are NaN, or -1 */
    bool no_eos;
    int delay_us;
    _Atomic int64_t rows, steps, faults, most_rows, mixed;
    const fx_step *last;
} toy;

static inline uint64_t toy_mix(uint64_t h, uint64_t x)
{
    h ^= x + 0x9E3779B97F4A7C15u + (h << 6) + (h >> 2);
    h ^= h >> 31;
    h *= 0xD6E8FEB86659FD93u;
    return h ^ h >> 32;
}

static inline toy_slot *toy_at(const fx_step *s, const fx_step_seq *q, int32_t column, int32_t pos)
{
    fx_page page = q->pages[pos / s->page_tokens * s->n_columns + column];

    return (toy_slot *)(void *)(s->kv + (size_t)page * s->page_bytes) + pos % s->page_tokens;
}

/* The first position that a row at pos reads. */
static inline int32_t toy_low(const fx_state_group *g, int32_t pos)
{
    return g->window > 0 && pos + 1 > g->window ? pos + 1 - g->window : 0;
}

static inline uint64_t toy_read(toy *t, const fx_step *s, const fx_step_seq *q, int32_t column, int32_t low, int32_t pos)
{
    uint64_t h = low > 0 ? toy_at(s, q, column, low)->hash : 1;

    for (int32_t p = low; p <= pos; p++) {
        const toy_slot *slot = toy_at(s, q, column, p);

        h = p == low && low > 0 ? h : toy_mix(h, (uint64_t)slot->token);
        t->faults += slot->pos != p || slot->hash != h;
    }
    return h;
}

static inline uint64_t toy_history(toy *t, const fx_step *s, const fx_step_seq *q, int32_t pos)
{
    uint64_t first = 0;

    for (int g = 0; g < t->state.n_groups; g++) {
        const fx_state_group *group = &t->state.groups[g];

        for (int32_t c = group->first; c < group->first + group->n; c++) {
            uint64_t h = toy_read(t, s, q, c, toy_low(group, pos), pos);

            first = c == 0 ? h : first;
            t->faults += h != first;
        }
    }
    return first;
}

/* What the sequence's first row reads of others is there. */
static inline void toy_check_before(toy *t, const fx_step *s, const fx_step_seq *q)
{
    for (int g = 0; g < t->state.n_groups; g++) {
        const fx_state_group *group = &t->state.groups[g];

        for (int32_t c = group->first; c < group->first + group->n; c++)
            if (toy_low(group, q->pos0) < q->pos0)
                toy_read(t, s, q, c, toy_low(group, q->pos0), q->pos0 - 1);
    }
}

static inline void toy_write(toy *t, const fx_step *s, const fx_step_seq *q, int32_t pos, int32_t token)
{
    uint64_t before = pos > 0 ? toy_at(s, q, 0, pos - 1)->hash : 1;

    for (int32_t c = 0; c < t->state.n_columns; c++)
        *toy_at(s, q, c, pos) = (toy_slot){ token, pos, toy_mix(before, (uint64_t)token) };
}

/* What a recurrent toy's slot holds: the position of the next row, and the hash of those before. */
typedef struct toy_state {
    uint64_t next, hash;
} toy_state;

static inline void toy_step_slot(toy *t, const fx_step *s, const fx_step_seq *q, int32_t pos, int32_t token)
{
    toy_state *state = (toy_state *)(void *)q->slot;
    uint64_t before = pos > 0 ? state->hash : 1;

    t->faults += state->next != (uint64_t)pos || (pos == 0 && state->hash != 0);
    *state = (toy_state){ (uint64_t)pos + 1, toy_mix(before, (uint64_t)token) };
    if (q->snapshots && (pos + 1) % s->page_tokens == 0) {
        uint8_t *to = q->snapshots[pos / s->page_tokens - q->pos0 / s->page_tokens];

        if (to)
            memcpy(to, q->slot, t->state.slot_bytes);
    }
}

static inline void toy_fill(const toy *t, float *row, int32_t pos, uint64_t h)
{
    int32_t next = pos + 1 - t->n_prompt;

    for (int i = 0; i < TOY_VOCAB; i++)
        row[i] = (float)(toy_mix(h, (uint64_t)i) % 4096) / 512.0f;
    if (t->no_eos)
        row[TOY_EOS] = -50;
    if (t->script && next >= 0 && next < t->n_script)
        row[t->script[next]] = 1000;
    if (pos == t->nan_at)
        row[5] = NAN;
}

static inline void toy_run(void *user, const fx_step *s)
{
    toy *t = user;
    int32_t singles = 0;

    for (int32_t i = 0; i < s->n_seqs; i++) {
        const fx_step_seq *q = &s->seqs[i];

        singles += q->n_rows == 1;
        toy_check_before(t, s, q);
        for (int32_t r = 0; r < q->n_rows; r++) {
            int32_t row = q->row0 + r, pos = q->pos0 + r;

            if (t->state.slot_bytes)
                toy_step_slot(t, s, q, pos, s->token[row]);

            t->faults += s->pos[row] != pos || s->seq[row] != i;
            toy_write(t, s, q, pos, s->token[row]);
        }
    }
    for (int32_t i = 0; i < s->n_logits; i++) {
        int32_t row = s->logit_rows[i];
        const fx_step_seq *q = &s->seqs[s->seq[row]];

        uint64_t h = toy_history(t, s, q, s->pos[row]);

        t->faults += t->state.slot_bytes && ((toy_state *)(void *)q->slot)->hash != h;
        toy_fill(t, t->logits + (size_t)i * TOY_VOCAB, s->pos[row], h);
    }
    t->rows += s->n_rows;
    t->steps++;
    t->mixed += singles > 0 && singles < s->n_seqs;
    if (s->n_rows > t->most_rows)
        t->most_rows = s->n_rows;
    t->last = s;
    if (t->delay_us) {
        struct timespec ts = { 0, t->delay_us * 1000L };

        nanosleep(&ts, NULL);
    }
}

static inline float *toy_logits(void *user, int64_t i)
{
    return ((toy *)user)->logits + i * TOY_VOCAB;
}

/* Before a rig is opened: what its model keeps. */
static fx_state_kind toy_kind = FX_STATE_FULL;
static int32_t toy_window, toy_second;   /* second: the window of a second group; 0: there is none */

static inline void toy_init(toy *t, int32_t page_tokens)
{
    memset(t, 0, sizeof *t);
    t->layer = (fx_state_layer){ .kind = FX_STATE_FULL, .kv_heads = 1, .k_dim = 1, .v_dim = 1 };
    t->state = (fx_state_table){ .n_layers = 1, .layers = &t->layer, .kv_dtype = FX_F32, .page_tokens = page_tokens,
                                 .page_bytes = (size_t)page_tokens * sizeof(toy_slot), .n_columns = 1, .n_groups = 1,
                                 .groups = { { .n = 1 } } };
    t->layer.kind = toy_kind;
    if (toy_kind == FX_STATE_WINDOW)
        t->state.groups[0].window = t->layer.window = toy_window;
    if (toy_second > 0) {
        t->state.n_groups = 2;
        t->state.n_columns = 3;
        t->state.groups[1] = (fx_state_group){ .window = toy_second, .first = 1, .n = 2 };
    }
    if (toy_kind == FX_STATE_RECURRENT)
        t->state.slot_bytes = 64;
    t->nan_at = -1;
    t->logits = malloc(512 * TOY_VOCAB * sizeof *t->logits);
}

/* ---- Vocabulary ---------------------------------------------------------------------- */

/* id 0: the end token; 1..26: a..z; 27: space; 28..31: the bytes of U+1F642; then words. */
static const char *const toy_words[] = {
    "<eos>", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t", "u",
    "v", "w", "x", "y", "z", "\xC4\xA0", "\xC3\xB0", "\xC5\x81", "\xC4\xBB", "\xC4\xA4", "gree", "stop", "ab", "bc",
    "abc", "aab", "\xC4\xA0the", "nothing", "xabcab", "\xC3\x83\xC2\xA9",
};

static inline fx_tokenizer *toy_tokenizer(const fx_mem *mem)
{
    static fx_str tokens[TOY_VOCAB];
    static int32_t types[TOY_VOCAB];
    static char spare[TOY_VOCAB][8];
    static const fx_str merges[] = { { "a b", 3 } };
    fx_gguf_vocab v = { .model = FX_STR("gpt2"), .pre = FX_STR("gpt-2"), .tokens = tokens, .types = types,
                        .n = TOY_VOCAB, .merges = merges, .n_merges = 1, .bos = -1, .eos = TOY_EOS, .eot = -1, .eom = -1, .unk = -1, .pad = -1,
                        .add_bos = 0, .add_eos = 0, .add_space_prefix = -1 };
    fx_tokenizer *t = NULL;
    fx_error err;

    for (int i = 0; i < TOY_VOCAB; i++) {
        if (i < (int)FX_COUNT(toy_words)) {
            tokens[i] = fx_str_of(toy_words[i]);
        } else {
            snprintf(spare[i], sizeof spare[i], "t%d.", i);
            tokens[i] = fx_str_of(spare[i]);
        }
        types[i] = i == TOY_EOS ? 3 : 1;
    }
    CHECK_OK(fx_tokenizer_from_gguf(&t, mem, &v, &err), err);
    return t;
}

/* ---- An allocator that counts ------------------------------------------------------------ */

typedef struct toy_mem {
    fx_mem mem;
    _Atomic int64_t calls, live;
    _Atomic int64_t fail_at;             /* the allocation that fails, counted from now; 0: none */
    bool failed;
} toy_mem;

static inline void *toy_alloc(void *user, void *p, size_t old_size, size_t new_size)
{
    toy_mem *m = user;
    void *q;

    if (new_size == 0) {
        m->live -= (int64_t)old_size;
        free(p);
        return NULL;
    }
    m->calls++;
    if (m->fail_at > 0 && --m->fail_at == 0) {
        m->failed = true;
        return NULL;
    }
    q = realloc(p, new_size);
    if (q)
        m->live += (int64_t)new_size - (p ? (int64_t)old_size : 0);
    return q;
}

static inline void toy_mem_init(toy_mem *m)
{
    memset(m, 0, sizeof *m);
    m->mem = (fx_mem){ toy_alloc, m };
}

/* ---- An engine with all of that ------------------------------------------------------------ */

typedef struct rig {
    toy model;
    toy_mem mem;
    fx_pool *pool;
    fx_tokenizer *tok;
    fx_engine *engine;
    fx_engine_config config;
    fornax_engine_options opt;
    int32_t eos[1];
} rig;

/* pages: in each column. */
static inline bool rig_open(rig *r, int32_t page_tokens, int64_t pages, fornax_engine_options opt, int64_t context)
{
    fx_error err = { 0 };

    memset(r, 0, sizeof *r);
    toy_init(&r->model, page_tokens);
    toy_mem_init(&r->mem);
    r->eos[0] = TOY_EOS;
    opt.size = sizeof opt;
    opt.kv_bytes = pages * r->model.state.n_columns * (int64_t)r->model.state.page_bytes;
    CHECK_OK(fx_pool_new(&r->pool, &fx_mem_libc, 2, &err), err);
    r->tok = toy_tokenizer(&fx_mem_libc);
    CHECK_OK(fx_engine_resolve(&r->opt, &opt, &r->model.state, context, &err), err);
    r->config = (fx_engine_config){
        .mem = &r->mem.mem, .pool = r->pool, .tokenizer = r->tok, .options = &r->opt, .eos = r->eos, .n_eos = 1,
        .stepper = { &r->model, &r->model.state, TOY_VOCAB, toy_run, toy_logits },
        .identity = FX_STR("toy"), .max_context = context,
    };
    CHECK_OK(fx_engine_open(&r->engine, &r->config, &err), err);
    return r->engine != NULL;
}

static inline void rig_close(rig *r)
{
    fx_engine_close(r->engine);
    CHECK_EQ_I64(r->mem.live, 0);
    CHECK_EQ_I64(r->model.faults, 0);
    fx_tokenizer_free(r->tok);
    fx_pool_free(r->pool);
    free(r->model.logits);
}

/* What came out of one choice, or of a request. */
#define TOY_LONGEST 4096
typedef struct got {
    int32_t ids[TOY_LONGEST];
    float logprob[TOY_LONGEST];
    int n;
    char text[TOY_LONGEST * 4];
    size_t text_n;
    fornax_finish finish;
    char stop[64];
    int32_t end;
    int64_t prompt, cached, generated;
} got;

typedef struct gotten {
    got at[8];
    bool done;
    fornax_status status;
    fornax_finish finish;
    char error[256];
    int64_t prompt, cached, generated;
} gotten;

static inline void got_event(gotten *g, const fornax_event *e)
{
    got *c = &g->at[e->choice];

    CHECK(!g->done);
    CHECK(e->text && e->text[e->text_n] == 0);
    CHECK(fx_str_eq(fx_str_n(e->text, strlen(e->text)), fx_str_n(e->text, e->text_n)));
    if (e->kind == FORNAX_EVENT_DONE) {
        g->done = true;
        g->status = e->status;
        g->finish = e->finish;
        snprintf(g->error, sizeof g->error, "%s", e->error ? e->error : "");
        g->prompt = e->prompt_tokens;
        g->cached = e->cached_tokens;
        g->generated = e->generated_tokens;
        return;
    }
    CHECK(c->finish == FORNAX_FINISH_NONE);
    memcpy(c->text + c->text_n, e->text, e->text_n + 1);
    c->text_n += e->text_n;
    if (e->kind == FORNAX_EVENT_TOKEN) {
        c->logprob[c->n] = e->logprob;
        c->ids[c->n++] = e->token;
        return;
    }
    CHECK(e->finish != FORNAX_FINISH_NONE);
    c->finish = e->finish;
    c->end = e->token;
    snprintf(c->stop, sizeof c->stop, "%s", e->stop_string ? e->stop_string : "");
    c->prompt = e->prompt_tokens;
    c->cached = e->cached_tokens;
    c->generated = e->generated_tokens;
}

static inline void take_events(fx_request *r, gotten *g, int timeout_ms)
{
    const fornax_event *e;

    while (!g->done && fx_request_next(r, &e, timeout_ms, NULL) == FORNAX_OK)
        got_event(g, e);
}

/* Steps a manual engine until it has nothing to do. */
static inline int rig_steps(rig *r, int most)
{
    int did = 1, n = 0;

    while (n < most && fx_engine_step(r->engine, &did, NULL) == FORNAX_OK && did)
        n++;
    return n;
}

/* Of an engine that the test steps. */
static inline fornax_engine_options manual(int max_batch, int step_tokens, int chunk)
{
    fornax_engine_options o = FORNAX_OPTIONS(fornax_engine_options);

    o.manual = 1;
    o.max_batch = max_batch;
    o.step_tokens = step_tokens;
    o.prefill_chunk = chunk;
    return o;
}

static inline fornax_request_options asks(const int32_t *ids, size_t n, int64_t max_tokens)
{
    fornax_request_options o = FORNAX_OPTIONS(fornax_request_options);

    o.ids = ids;
    o.n_ids = n;
    o.max_tokens = max_tokens;
    o.seed = 1;
    o.has_seed = 1;
    return o;
}

/* Submits, steps to the end, gathers. */
static inline void run_alone(rig *r, const fornax_request_options *o, gotten *g)
{
    fx_request *q = NULL;
    fx_error err = { 0 };

    memset(g, 0, sizeof *g);
    CHECK_OK(fx_request_submit(&q, r->engine, o, &err), err);
    if (!q)
        return;
    rig_steps(r, 1 << 20);
    take_events(q, g, 0);
    CHECK(g->done);
    fx_request_close(q);
}

static inline void make_prompt(int32_t *ids, int n, uint32_t seed)
{
    for (int i = 0; i < n; i++)
        ids[i] = 1 + (int32_t)(toy_mix(seed, (uint64_t)i) % (TOY_VOCAB - 1));
}

static inline bool same_output(const got *a, const got *b)
{
    return a->n == b->n && memcmp(a->ids, b->ids, (size_t)a->n * sizeof *a->ids) == 0 && a->text_n == b->text_n &&
           memcmp(a->text, b->text, a->text_n) == 0 && a->finish == b->finish && a->end == b->end &&
           memcmp(a->logprob, b->logprob, (size_t)a->n * sizeof *a->logprob) == 0;
}

#endif
