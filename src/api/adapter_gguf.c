/* adapter_gguf.c - LoRA adapters in GGUF files, as llama.cpp's converter writes them.
 *
 * general.type is "adapter", adapter.type "lora"; adapter.lora.alpha over the pair's rank is the scale (no
 * alpha, or 0: 1).  Tensors are named after the model's: "blk.0.attn_q.weight.lora_a" [rank, in] and
 * ".lora_b" [out, rank]; of experts stacked [experts, ...]; of the embedding table a is [tokens, rank]. */
#include "api/adapter_file.h"

static fx_status expect(const fx_lora_file *f, const char *key, const char *want, fx_error *err)
{
    fx_str found = FX_STR("");

    FX_TRY(fx_meta_opt_str(f->w, key, &found, err));
    if (fx_str_is(found, want))
        return FORNAX_OK;
    return fx_fail_param(err, FORNAX_EUNSUP, key, "%s: %s: expected \"%s\", found \"%s\"", f->path, key, want,
                         FX_SHOW(found));
}

static fx_status check_meta(const fx_lora_file *f, double *alpha, fx_error *err)
{
    const char *arch = f->model->arch ? fx_arch_gguf_name(f->model->arch) : f->model->info.architecture;

    FX_TRY(expect(f, "general.type", "adapter", err));
    FX_TRY(expect(f, "adapter.type", "lora", err));
    FX_TRY(expect(f, "general.architecture", arch ? arch : f->model->info.architecture, err));
    if (fx_meta_find(f->w, "adapter.alora.invocation_tokens"))
        return fx_fail_param(err, FORNAX_EUNSUP, "adapter", "%s: adapter.alora.invocation_tokens: adapters that begin at a text "
                             "aren't supported", f->path);
    return fx_meta_opt_f64(f->w, "adapter.lora.alpha", alpha, err);
}

static fx_status add_tensor(fx_lora_file *f, const fx_weight *t, fx_error *err)
{
    bool is_a = fx_str_ends(t->name, FX_STR(".lora_a"));
    fx_lora_entry *e;

    if (!is_a && !fx_str_ends(t->name, FX_STR(".lora_b")))
        return fx_lora_fault(f, t->name, FORNAX_EUNSUP, err, "only .lora_a and .lora_b of the model's tensors are supported");
    e = fx_lora_entry_of(f, fx_str_n(t->name.p, t->name.n - sizeof(".lora_a") + 1));
    if (!e)
        return fx_nomem(err, "an adapter");
    *(is_a ? &e->a.of : &e->b.of) = t;
    return FORNAX_OK;
}

static fx_status finish(const fx_lora_file *f, fx_lora_entry *e, double alpha, fx_error *err)
{
    const int64_t *a, *b;
    int skip;

    e->place = fx_place_of(&f->places, e->name, true);
    e->form = e->place.part != FX_PART_WHOLE && e->place.expert < 0 ? FX_LORA_STACK : FX_LORA_PRODUCT;
    if (e->place.role && (strcmp(e->place.role, "token_embd") == 0 || strcmp(e->place.role, "word") == 0))
        e->form = FX_LORA_TABLE;
    skip = e->form == FX_LORA_STACK;
    FX_TRY(fx_lora_check_pair(f, e, 2 + skip, err));
    a = e->a.of->shape;
    b = e->b.of->shape;
    e->experts = skip ? a[0] : 1;
    e->rank = b[1 + skip];
    e->k = e->form == FX_LORA_TABLE ? b[0] : a[1 + skip];
    e->n = e->form == FX_LORA_TABLE ? a[0] : b[skip];
    if (e->rank != a[e->form == FX_LORA_TABLE ? 1 : skip] || (skip && a[0] != b[0]))
        return fx_lora_fault(f, e->name, FORNAX_EFORMAT, err, "lora_a has rank %lld, lora_b %lld",
                             (long long)a[e->form == FX_LORA_TABLE ? 1 : skip], (long long)e->rank);
    if (e->rank < 1 || e->rank > FX_ADAPTER_MAX_RANK)
        return fx_lora_fault(f, e->name, FORNAX_EUNSUP, err, "rank: expected 1 to %d, found %lld", FX_ADAPTER_MAX_RANK,
                             (long long)e->rank);
    e->scale = alpha != 0 ? alpha / (double)e->rank : 1;
    e->a.each = e->rank * e->k;
    e->b.each = e->rank * e->n;
    e->a.rows = e->form == FX_LORA_TABLE ? 1 : e->k;
    e->a.cols = e->form == FX_LORA_TABLE ? e->rank : 1;
    e->b.rows = e->rank;
    e->b.cols = 1;
    return FORNAX_OK;
}

fx_status fx_lora_read_gguf(fx_lora_file *f, const char *path, fx_error *err)
{
    double alpha = 0;

    FX_TRY(fx_weights_open(&f->w, &f->model->ctx->mem, path, 0, err));
    if (fx_weights_kind_of(f->w) != FX_WEIGHTS_GGUF)
        return fx_fail_param(err, FORNAX_EFORMAT, "adapter", "%s: expected a folder with adapter_config.json, or a .gguf file", path);
    FX_TRY(check_meta(f, &alpha, err));
    for (size_t i = 0; i < fx_weights_count(f->w); i++)
        FX_TRY(add_tensor(f, fx_weights_at(f->w, i), err));
    for (size_t i = 0; i < f->n; i++)
        FX_TRY(finish(f, &f->entries[i], alpha, err));
    return FORNAX_OK;
}
