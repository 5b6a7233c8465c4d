/* matcher.c - one sequence's place in a grammar.
 *
 * The places after each accepted token are on a stack, so that rolling back is popping.  The bytes that
 * came are kept too: names and values that may not come twice are read from them (run.h). */
#include "grammar/matcher.h"

#include "grammar/mask.h"

typedef struct mark {
    fx_place at;
    uint32_t n_text;            /* bytes before it */
} mark;

struct fx_matcher {
    const fx_mem *mem;
    fx_gram *g;
    fx_run *run;
    fx_gvocab *v;
    FX_VEC(mark) marks;         /* [0] is the start */
    fx_buf text;
};

static const mark *top(const fx_matcher *m) { return &m->marks.at[m->marks.n - 1]; }

static fx_status too_large(fx_error *err)
{
    return fx_fail(err, FORNAX_ENOMEM, "the grammar's states outgrew their limit");
}

/* On 'run', whose reference it takes, also on failure. */
static fx_status new_on(fx_matcher **out, const fx_mem *mem, fx_gram *g, fx_run *run, fx_gvocab *v, fx_error *err)
{
    fx_matcher *m = fx_mem_zalloc(mem, sizeof(*m));

    *out = NULL;
    if (!m || !FX_VEC_PUSH(&m->marks, mem, ((mark){ run->start, 0 }))) {
        fx_mem_free(mem, m, sizeof(*m));
        fx_run_drop(run);
        return fx_nomem(err, "a matcher");
    }
    m->mem = mem;
    fx_buf_init(&m->text, mem);
    m->run = run;
    m->g = fx_gram_ref(g);
    m->v = fx_gvocab_ref(v);
    *out = m;
    return FORNAX_OK;
}

fx_status fx_matcher_new(fx_matcher **out, const fx_mem *mem, fx_gram *g, fx_gvocab *v, fx_error *err)
{
    fx_run *run;

    *out = NULL;
    FX_TRY(fx_run_take(&run, g, err));
    return new_on(out, mem, g, run, v, err);
}

fx_status fx_matcher_copy(fx_matcher **out, const fx_matcher *m, fx_error *err)
{
    fx_matcher *c;

    pthread_mutex_lock(&m->g->lock);
    m->run->refs++;
    pthread_mutex_unlock(&m->g->lock);
    FX_TRY(new_on(&c, m->mem, m->g, m->run, m->v, err));
    fx_buf_str(&c->text, fx_buf_view(&m->text));
    if (c->text.failed || !FX_VEC_RESERVE(&c->marks, m->mem, m->marks.n)) {
        fx_matcher_free(c);
        *out = NULL;
        return fx_nomem(err, "a matcher");
    }
    memcpy(c->marks.at, m->marks.at, m->marks.n * sizeof(*m->marks.at));
    c->marks.n = m->marks.n;
    *out = c;
    return FORNAX_OK;
}

void fx_matcher_free(fx_matcher *m)
{
    if (!m)
        return;
    FX_VEC_FREE(&m->marks, m->mem);
    fx_buf_done(&m->text);
    fx_run_drop(m->run);
    fx_gram_unref(m->g);
    fx_gvocab_unref(m->v);
    fx_mem_free(m->mem, m, sizeof(*m));
}

/* The place after 'bytes', which go onto the text; under the lock. */
static fx_place advance(fx_matcher *m, fx_place at, fx_str bytes)
{
    fx_run *r = m->run;

    for (size_t i = 0; i < bytes.n && at != FX_PLACE_DEAD && at != FX_PLACE_FAIL; i++) {
        at = fx_run_step(r, at, (unsigned char)bytes.p[i]);
        if (at == FX_PLACE_FAIL)
            return at;
        fx_buf_putc(&m->text, bytes.p[i]);
        if (m->text.failed)
            return FX_PLACE_FAIL;
        if (fx_run_set(r, at)->flags & FX_SET_PENDING)
            at = fx_run_settle(r, at, fx_buf_view(&m->text));
    }
    return at;
}

static void cut_text(fx_matcher *m, size_t n)
{
    if (m->text.p) {
        m->text.n = n;
        m->text.p[n] = 0;
    }
}

static bool attempt(void *user, int32_t id)
{
    fx_matcher *m = user;
    size_t n = m->text.n;
    fx_place at = advance(m, top(m)->at, m->v->bytes[id]);

    cut_text(m, n);
    return at != FX_PLACE_DEAD && at != FX_PLACE_FAIL;
}

fx_status fx_matcher_mask(fx_matcher *m, uint32_t *bits, fx_error *err)
{
    bool ok;

    pthread_mutex_lock(&m->g->lock);
    ok = fx_run_mask(m->run, m->v, top(m)->at, bits, attempt, m) && !m->run->failed;
    pthread_mutex_unlock(&m->g->lock);
    if (ok)
        return FORNAX_OK;
    memset(bits, 0, m->v->words * sizeof(*bits));
    return too_large(err);
}

/* Makes 'at' the place after one more token, or puts the text back. */
static fx_status arrive(fx_matcher *m, fx_place at, size_t n_text, fx_error *err)
{
    if (at != FX_PLACE_DEAD && at != FX_PLACE_FAIL &&
        FX_VEC_PUSH(&m->marks, m->mem, ((mark){ at, (uint32_t)m->text.n })))
        return FORNAX_OK;
    cut_text(m, n_text);
    if (at == FX_PLACE_DEAD)
        return fx_fail(err, FORNAX_EARG, "the grammar doesn't allow this here");
    return too_large(err);
}

static bool is_eos(const fx_gvocab *v, int32_t id)
{
    for (size_t i = 0; i < v->n_eos; i++)
        if (v->eos[i] == id)
            return true;
    return false;
}

fx_status fx_matcher_accept(fx_matcher *m, int32_t id, fx_error *err)
{
    size_t n_text = m->text.n;
    fx_place at = FX_PLACE_DEAD, token;

    if (id < 0 || (size_t)id >= m->v->n)
        return fx_fail(err, FORNAX_EARG, "no token %d", (int)id);
    pthread_mutex_lock(&m->g->lock);
    if (m->v->bytes[id].n)
        at = advance(m, top(m)->at, m->v->bytes[id]);
    token = fx_run_token(m->run, top(m)->at, id);
    if (token != FX_PLACE_DEAD)             /* the grammar may ask for a token by its id, too */
        at = at == FX_PLACE_FAIL || token == FX_PLACE_FAIL ? FX_PLACE_FAIL : fx_run_join(m->run, at, token);
    if (at == FX_PLACE_DEAD && top(m)->at != FX_PLACE_ENDED && is_eos(m->v, id) && (fx_run_set(m->run, top(m)->at)->flags & FX_SET_ACCEPT))
        at = FX_PLACE_ENDED;
    pthread_mutex_unlock(&m->g->lock);
    return arrive(m, at, n_text, err);
}

fx_status fx_matcher_accept_bytes(fx_matcher *m, fx_str bytes, fx_error *err)
{
    size_t n_text = m->text.n;
    fx_place at;

    pthread_mutex_lock(&m->g->lock);
    at = advance(m, top(m)->at, bytes);
    pthread_mutex_unlock(&m->g->lock);
    return arrive(m, at, n_text, err);
}

void fx_matcher_rollback(fx_matcher *m, size_t n_tokens)
{
    FX_ASSERT(n_tokens < m->marks.n);
    m->marks.n -= n_tokens;
    cut_text(m, top(m)->n_text);
}

size_t fx_matcher_length(const fx_matcher *m) { return m->marks.n - 1; }

static fx_set place_of(const fx_matcher *m, bool *goes_on)
{
    fx_set s;

    pthread_mutex_lock(&m->g->lock);
    s = *fx_run_set(m->run, top(m)->at);
    *goes_on = s.n > 0;
    pthread_mutex_unlock(&m->g->lock);
    return s;
}

bool fx_matcher_can_end(const fx_matcher *m)
{
    bool goes_on;

    return place_of(m, &goes_on).flags & FX_SET_ACCEPT;
}

bool fx_matcher_must_end(const fx_matcher *m)
{
    bool goes_on;

    return (place_of(m, &goes_on).flags & FX_SET_ACCEPT) && !goes_on;
}

/* The only byte that may come at 'at'; -1: several, or it may end. */
static int only_byte(fx_run *r, fx_place at)
{
    const fx_set *s = fx_run_set(r, at);
    int only = -1;
    uint32_t n = s->n;

    if ((s->flags & FX_SET_ACCEPT) || n > 4)
        return -1;
    for (uint32_t i = 0; i < n; i++) {
        fx_re re = r->threads.at[r->sets.at[at].first + i].re;

        if (re & FX_THREAD_TOKEN)
            return -1;
        for (int b = 0; b < 256; b++)
            if (fx_run_next(r, re, (unsigned char)b) != FX_RE_NONE) {
                if (only >= 0 && only != b)
                    return -1;
                only = b;
            }
    }
    return only;
}

fx_status fx_matcher_forced(fx_matcher *m, size_t limit, fx_buf *out, fx_error *err)
{
    size_t n_text = m->text.n;
    fx_place at = top(m)->at;

    pthread_mutex_lock(&m->g->lock);
    for (int b; limit > 0 && at != FX_PLACE_FAIL && at != FX_PLACE_DEAD && (b = only_byte(m->run, at)) >= 0; limit--) {
        char c = (char)b;

        at = advance(m, at, fx_str_n(&c, 1));
        if (at != FX_PLACE_FAIL && at != FX_PLACE_DEAD)
            fx_buf_putc(out, c);
    }
    pthread_mutex_unlock(&m->g->lock);
    cut_text(m, n_text);
    if (at == FX_PLACE_FAIL || m->run->failed)
        return too_large(err);
    return out->failed ? fx_nomem(err, "forced text") : FORNAX_OK;
}
