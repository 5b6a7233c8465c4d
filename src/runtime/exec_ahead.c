/* exec_ahead.c - what attention will read is fetched during the products before it.
 *
 * In a step of many sequences products multiply and attention reads: while the ones run the memory has little to do, and the
 * others wait for it.  So the last products before an attention, the one of its queries and the one before that, are given
 * its pages to ask for (fx_matmul_args.ahead), as many as the cache that cores share holds beside weights; each a share of them
 * by the bytes of its own weights, with which it goes through them.  Products of one panel of rows have no time for that. */
#include "kernels/quant.h"
#include "runtime/exec_int.h"

/* The first and the last byte behind of what the layer keeps in a page. */
static size_t begin_of(const fx_attend_args *a) { return a->latent ? a->k_offset : FX_MIN(a->k_offset, a->v_offset); }

static size_t end_of(const fx_attend_args *a, int32_t page_tokens)
{
    size_t blocks = (size_t)a->kv_heads * (size_t)(page_tokens / FX_KV_BLOCK);
    size_t k = a->k_offset + blocks * fx_kv_block_bytes(a->kv_dtype, a->head_dim);

    return a->latent ? k : FX_MAX(k, a->v_offset + blocks * fx_kv_block_bytes(a->kv_dtype, a->v_dim));
}

static size_t weight_bytes(const fx_exec_launch *e)
{
    const fx_matmul_args *a = &e->l.args.matmul;

    return (size_t)fx_matmul_tasks(a) * a->tile_bytes * (a->paired ? 2 : 1);
}

/* The products before launch 'at', an attention, are told of it. */
static void tell_products(fx_exec *x, int32_t at)
{
    fx_exec_launch *told[FX_AHEAD_PRODUCTS];
    size_t all = 0, before = 0;
    int32_t n = 0;

    for (int32_t i = at - 1; i >= 0 && n < FX_AHEAD_PRODUCTS && x->launches[i].l.op != FX_L_ATTEND; i--)
        if (x->launches[i].matmul && x->launches[i].l.rows == FX_ROWS_STEP) {
            all += weight_bytes(&x->launches[i]);
            told[n++] = &x->launches[i];
        }
    while (n-- > 0) {
        told[n]->ahead_of = &x->launches[at];
        told[n]->ahead_list = n;
        told[n]->ahead_from = (double)before / (double)all;
        before += weight_bytes(told[n]);
        told[n]->ahead_to = (double)before / (double)all;
    }
}

void fx_exec_join_ahead(fx_exec *x)
{
    x->ahead_most = fx_cpu_shared_cache() / 2;
    for (int32_t i = 0; i < x->plan.n_launches; i++)
        if (x->launches[i].l.op == FX_L_ATTEND)
            tell_products(x, i);
}

/* Whether the launch fetches page i of those that are read: the shares are mixed evenly, for a thread that has some part of
 * the product's tiles most likely has the same part of the attention's. */
static bool fetches(const fx_exec_launch *e, int64_t i)
{
    double at = (double)(i % 16 * 7 % 16) / 16;

    return at >= e->ahead_from && at < e->ahead_to;
}

/* Those of the attention's pages that the launch fetches, sequence by sequence, into its list; returns how many. At most 'most'
 * are thought of. */
static int64_t find_pages(fx_exec *x, const fx_exec_launch *e, int64_t most)
{
    const fx_attend_args *a = &e->ahead_of->l.args.attend;
    const fx_step *s = x->step;
    int64_t seen = 0, n = 0;

    for (int32_t i = 0; i < s->n_seqs && seen < most; i++) {
        const fx_step_seq *seq = &s->seqs[i];
        int64_t first = a->window > 0 ? FX_MAX(0, (int64_t)seq->pos0 + 1 - a->window) : 0;

        for (int64_t j = first / s->page_tokens; j * s->page_tokens < seq->pos0 && seen < most; j++, seen++)
            if (fetches(e, seen))
                x->ahead_pages[e->ahead_list][n++] = seq->pages[j * s->n_columns + a->column];
    }
    return n;
}

void fx_exec_set_ahead(fx_exec *x, fx_exec_launch *e)
{
    const fx_attend_args *a = e->ahead_of ? &e->ahead_of->l.args.attend : NULL;
    size_t begin, bytes;

    if (!a)
        return;
    e->l.args.matmul.ahead = NULL;
    if (x->step->n_rows <= FX_Q8_PANEL)
        return;
    begin = begin_of(a);
    bytes = end_of(a, x->step->page_tokens) - begin;
    e->ahead = (fx_ahead){ .base = x->step->kv + begin, .pages = x->ahead_pages[e->ahead_list],
                           .page_bytes = x->step->page_bytes, .bytes = bytes };
    e->ahead.n = find_pages(x, e, FX_MIN(FX_AHEAD_PAGES, (int64_t)(x->ahead_most / bytes)));
    if (e->ahead.n > 0)
        e->l.args.matmul.ahead = &e->ahead;
}
