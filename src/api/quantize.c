/* quantize.c - fornax_quantize: a GGUF, or a hub folder as the GGUF that it would be, in other types, streamed.
 *
 * A tensor goes in pieces of whole rows: file -> f32 -> blocks -> file.  The rows of a piece
 * are quantized by all threads, each for itself, so that the bytes depend on neither the
 * number of threads nor the size of pieces.  Memory holds one piece. */
#include "api/convert.h"
#include "format/gguf_write.h"
#include "format/mix.h"
#include "tensor/quantize.h"

#define PIECE_ELEMS (4 << 20)            /* about this many, at least a row */

typedef struct job {
    fornax_context *ctx;
    const fornax_quantize_options *opt;
    fx_weights *w;
    const int64_t *turn;                 /* as in fx_export; NULL: no tensor is turned */
    fx_dtype *types;
    fx_file_writer *out;
    fx_buf blocks;                       /* of a piece */
    float *wide;                         /* a row for each thread */
    int64_t wide_elems;                  /* of one such row */
    uint64_t done, total;                /* bytes of the source */
} job;

/* Rows [row0, ...) of t, in tasks of a row. */
typedef struct piece {
    job *j;
    const fx_weight *t;
    fx_dtype to;
    int64_t row0, cols;
    int64_t head_rows;                   /* of a head whose halves become neighbours; 0: rows stay in order */
    size_t src_bytes, dst_bytes;         /* of a row */
    int bad;                             /* written by any thread, only ever to 1 */
} piece;

/* The source's row that becomes row r. */
static int64_t source_row(const piece *p, int64_t r)
{
    int64_t i = p->head_rows ? r % p->head_rows : 0;

    return p->head_rows ? r - i + i / 2 + i % 2 * (p->head_rows / 2) : r;
}

static void quantize_rows(void *user, int64_t r0, int64_t r1, int worker)
{
    piece *p = user;
    float *wide = p->j->wide + worker * p->j->wide_elems;

    for (int64_t r = r0; r < r1; r++) {
        const uint8_t *src = (const uint8_t *)p->t->data + (size_t)source_row(p, p->row0 + r) * p->src_bytes;

        fx_dequantize_row(p->t->dtype, src, wide, p->cols);
        if (!fx_quantize_row(p->to, wide, p->j->blocks.p + (size_t)r * p->dst_bytes, p->cols))
            __atomic_store_n(&p->bad, 1, __ATOMIC_RELAXED);
    }
}

static fx_status report(job *j, uint64_t bytes, fx_error *err)
{
    j->done += bytes;
    if (j->opt->progress && j->opt->progress(j->opt->progress_user, (double)j->done / (double)FX_MAX(j->total, 1)) != 0)
        return fx_fail(err, FORNAX_ECANCEL, "quantization was cancelled");
    return FORNAX_OK;
}

/* heads: to be turned; 0: none. A vector that is turned has rows of one. */
static fx_status convert(job *j, const fx_weight *t, fx_dtype to, int64_t heads, fx_error *err)
{
    piece p = { .j = j, .t = t, .to = to, .cols = heads ? t->n_elems / t->shape[0] : t->shape[t->rank - 1] };
    int64_t rows = t->n_elems / p.cols, step = FX_MAX(PIECE_ELEMS / p.cols, (int64_t)1);

    p.head_rows = heads ? rows / heads : 0;
    p.src_bytes = fx_dtype_row_bytes(t->dtype, p.cols);
    p.dst_bytes = fx_dtype_row_bytes(to, p.cols);
    for (; p.row0 < rows; p.row0 += step) {
        int64_t n = FX_MIN(step, rows - p.row0);

        fx_buf_clear(&j->blocks);
        if (!fx_buf_reserve(&j->blocks, (size_t)n * p.dst_bytes))
            return fx_nomem(err, "quantized rows");
        fx_pool_run(j->ctx->pool, quantize_rows, &p, n, 1);
        if (p.bad)
            return fx_fail(err, FORNAX_EFORMAT, "%s: tensor %s: expected finite values within the range of %s, found "
                           "others", fx_weights_path(j->w), FX_SHOW(t->name), fx_dtype_name(to));
        FX_TRY(fx_file_writer_put(j->out, fx_str_n(j->blocks.p, (size_t)n * p.dst_bytes), err));
        FX_TRY(report(j, (uint64_t)n * p.src_bytes, err));
    }
    return FORNAX_OK;
}

static fx_status copy(job *j, const fx_weight *t, fx_error *err)
{
    FX_TRY(fx_file_writer_put(j->out, fx_str_n(t->data, t->bytes), err));
    return report(j, t->bytes, err);
}

static fx_status write_tensors(job *j, const fx_gguf_plan *plan, fx_error *err)
{
    static const char zeros[64];

    for (size_t i = 0; i < fx_weights_count(j->w); i++) {
        const fx_weight *t = fx_weights_at(j->w, i);
        fx_dtype to = plan->types[i];
        size_t bytes = fx_dtype_row_bytes(to, t->n_elems);
        uint64_t pad = FX_ROUND_UP(bytes, plan->alignment) - bytes;
        int64_t heads = j->turn ? j->turn[i] : 0;

        if (t->n_elems > 0)
            FX_TRY(to == t->dtype && !heads ? copy(j, t, err) : convert(j, t, to, heads, err));
        for (; pad > 0; pad -= FX_MIN(pad, sizeof(zeros)))
            FX_TRY(fx_file_writer_put(j->out, fx_str_n(zeros, (size_t)FX_MIN(pad, sizeof(zeros))), err));
        fx_weights_release(j->w, t);
    }
    return FORNAX_OK;
}

static fx_status make_room(job *j, fx_error *err)
{
    int threads = fx_pool_threads(j->ctx->pool);

    for (size_t i = 0; i < fx_weights_count(j->w); i++) {
        const fx_weight *t = fx_weights_at(j->w, i);

        j->total += t->bytes;
        if (j->types[i] != t->dtype || (j->turn && j->turn[i]))
            j->wide_elems = FX_MAX(j->wide_elems, t->shape[t->rank - 1]);
    }
    j->wide = fx_mem_array(&j->ctx->mem, (size_t)FX_MAX(j->wide_elems, 1) * (size_t)threads, sizeof(float));
    return j->wide ? FORNAX_OK : fx_nomem(err, "rows to quantize");
}

/* What isn't quantized is f32 in a GGUF, whatever the folder had. */
static void widen_kept(job *j)
{
    for (size_t i = 0; i < fx_weights_count(j->w); i++) {
        if (fx_mix_keeps(fx_weights_at(j->w, i)) && fx_dequantize_supports(j->types[i]))
            j->types[i] = FX_F32;
    }
}

static fx_status run(job *j, const fx_mix *mix, const char *out, fx_error *err)
{
    fx_gguf_plan plan = { .file_type = mix->file_type, .quantized = fx_dtype_is_quant(mix->base) };
    fx_buf head;
    fx_status st;

    j->types = fx_mem_array(&j->ctx->mem, fx_weights_count(j->w) + 1, sizeof(*j->types));
    if (!j->types)
        return fx_nomem(err, "the types of tensors");
    plan.types = j->types;
    FX_TRY(fx_mix_types(mix, j->w, j->opt->pure != 0, j->types, err));
    if (j->turn)
        widen_kept(j);
    FX_TRY(make_room(j, err));
    FX_TRY(fx_file_writer_open(&j->out, &j->ctx->mem, out, err));
    fx_buf_init(&head, &j->ctx->mem);
    st = fx_gguf_head(j->w, &plan, &head, err);
    if (st == FORNAX_OK)
        st = fx_file_writer_put(j->out, fx_buf_view(&head), err);
    fx_buf_done(&head);
    return st == FORNAX_OK ? write_tensors(j, &plan, err) : st;
}

static fx_status find_mix(const fx_mem *mem, const char *type, const fx_mix **out, fx_error *err)
{
    fx_buf names;

    *out = type ? fx_mix_find(fx_str_of(type)) : NULL;
    if (*out)
        return FORNAX_OK;
    fx_buf_init(&names, mem);
    for (size_t i = 0; i < fx_mix_count(); i++)
        fx_buf_printf(&names, i ? ", %s" : "%s", fx_mix_at(i)->name);
    fx_fail_param(err, FORNAX_EARG, "type", "type: expected one of %s, found %s", fx_buf_view(&names).p,
                  type ? type : "none");
    fx_buf_done(&names);
    return FORNAX_EARG;
}

static fx_status quantize(job *j, const fx_mix *mix, const char *out, fx_error *err)
{
    size_t wide;
    fx_status st;

    fx_buf_init(&j->blocks, &j->ctx->mem);
    st = run(j, mix, out, err);
    if (st == FORNAX_OK)
        st = fx_file_writer_commit(j->out, err);
    else
        fx_file_writer_abort(j->out);
    fx_buf_done(&j->blocks);
    wide = (size_t)FX_MAX(j->wide_elems, 1) * (size_t)fx_pool_threads(j->ctx->pool) * sizeof(float);
    fx_mem_free(&j->ctx->mem, j->wide, wide);
    fx_mem_free(&j->ctx->mem, j->types, (fx_weights_count(j->w) + 1) * sizeof(*j->types));
    return st;
}

static fx_status quantize_folder(job *j, fx_weights *folder, const fx_mix *mix, const char *out, fx_error *err)
{
    fx_converted c;
    fx_status st;

    FX_TRY(fx_api_convert(j->ctx, folder, &c, err));
    j->w = c.w;
    j->turn = c.turn;
    st = quantize(j, mix, out, err);
    fx_api_converted_done(&c);
    return st;
}

fornax_status fornax_quantize(fornax_context *ctx, const char *in, const char *out, const fornax_quantize_options *given,
                              fornax_error *err)
{
    fornax_quantize_options opt = FORNAX_OPTIONS(fornax_quantize_options);
    job j = { .ctx = ctx, .opt = &opt };
    const fx_mix *mix;
    fx_weights *w;
    fx_fpmode old;
    fx_status st;

    FX_API_NEED(ctx);
    FX_API_NEED(in);
    FX_API_NEED(out);
    FX_TRY(fx_api_usable(ctx, err));
    FX_TRY(fx_api_options(&opt, sizeof opt, given, "fornax_quantize_options", err));
    FX_TRY(find_mix(&ctx->mem, opt.type, &mix, err));
    FX_TRY(fx_weights_open(&w, &ctx->mem, in, 0, err));
    old = fx_fpmode_enter();
    j.w = w;
    if (fx_weights_kind_of(w) == FX_WEIGHTS_GGUF)
        st = quantize(&j, mix, out, err);
    else if (fx_weights_kind_of(w) == FX_WEIGHTS_HUB)
        st = quantize_folder(&j, w, mix, out, err);
    else
        st = fx_fail(err, FORNAX_EUNSUP, "%s: a safetensors file has no configuration; name the folder", in);
    fx_fpmode_leave(old);
    fx_weights_close(w);
    return st;
}
