/* forced.c - text that the grammar leaves no choice about, as tokens.
 *
 * They join the sequence without being sampled, and are computed together, like a prompt. The
 * tokens are those of the tokenizer. The last one is left to the sampler unless the text ends with it: a longer
 * token that goes on beyond the forced text might be the better one. */
#include "engine/engine_int.h"

enum { MOST_BYTES = 512 };

fx_status fx_forced_init(fx_forced *f, const fx_mem *mem, fx_error *err)
{
    fx_buf_init(&f->text, mem);
    fx_ids_init(&f->ids, mem);
    return fx_buf_reserve(&f->text, MOST_BYTES) && FX_VEC_RESERVE(&f->ids, mem, MOST_BYTES) ? FORNAX_OK
                                                                                        : fx_nomem(err, "the engine");
}

void fx_forced_done(fx_forced *f)
{
    if (!f->text.mem)
        return;
    fx_buf_done(&f->text);
    fx_ids_done(&f->ids);
}

/* A token that the request has wishes about is the sampler's. */
static bool is_plain(const fx_request *r, int32_t id)
{
    for (size_t i = 0; i < r->params.n_bias; i++)
        if (r->params.bias[i].id == id)
            return false;
    return !fx_request_ends_with(r, id);
}

/* Cuts the ids where they stop spelling the text. Bytes that are spelled. */
static size_t keep_spelled(fx_forced *f, const fx_request *r, const fx_tokenizer *t)
{
    size_t at = 0;

    for (size_t i = 0; i < f->ids.n; i++) {
        fx_str b = fx_tokenizer_bytes(t, f->ids.at[i]);

        if (b.n == 0 || b.n > f->text.n - at || memcmp(b.p, f->text.p + at, b.n) != 0 ||
            fx_tokenizer_special(t, f->ids.at[i]) || !is_plain(r, f->ids.at[i])) {
            f->ids.n = i;
            break;
        }
        at += b.n;
    }
    return at;
}

/* Whether nothing can follow all of these tokens. */
static fx_status ends_there(bool *ends, const fx_forced *f, fx_matcher *m, fx_error *err)
{
    FX_TRY(fx_matcher_accept_bytes(m, fx_buf_view(&f->text), err));
    *ends = fx_matcher_must_end(m);
    fx_matcher_rollback(m, 1);
    return FORNAX_OK;
}

fx_status fx_forced_find(fx_forced *f, const fx_choice *c, fx_error *err)
{
    const fx_request *r = c->req;
    const fx_tokenizer *t = r->engine->tokenizer;
    bool ends = false;

    fx_buf_clear(&f->text);
    f->ids.n = 0;
    if (!c->matcher || !t || r->opt.logits_hook)         /* the hook is to see every row */
        return FORNAX_OK;
    FX_TRY(fx_matcher_forced(c->matcher, MOST_BYTES, &f->text, err));
    if (f->text.n < 2)
        return FORNAX_OK;
    FX_TRY(fx_tokenizer_encode(t, fx_buf_view(&f->text), NULL, 0, 0, &f->ids, err));
    if (keep_spelled(f, r, t) < f->text.n || f->ids.n == 0)
        return FORNAX_OK;
    FX_TRY(ends_there(&ends, f, c->matcher, err));
    f->ids.n -= !ends;
    return FORNAX_OK;
}
