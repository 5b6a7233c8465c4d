/* adapter_peft.c - fornax_adapter: a PEFT folder checked and handed to the runtime.
 *
 * adapter_config.json says rank and scale (lora_alpha / r, or / sqrt(r) with use_rslora; patterns
 * override them by module), the tensors' names say where: base_model.model.<module>.lora_A.weight
 * [r, in] and .lora_B.weight [out, r].  What would change the computation and isn't done
 * here (DoRA, biases, whole modules saved, embeddings) is refused by name. */
#include <math.h>
#include <string.h>

#include "api/api.h"
#include "base/file.h"

typedef struct peft {
    fornax_model *model;
    const char *path;
    json_t *config;
    fx_weights *w;
    fx_arena arena;              /* names, f32 copies */
    double alpha, rank;
    bool rslora;
    struct { fx_str module; const fx_weight *a, *b; bool used; } *pairs;
    size_t n_pairs;
    fx_hash128 identity;
    double scale;                /* the caller's */
} peft;

/* ---- The configuration ---- */

/* Absent, null, false, empty: nothing. */
static bool is_nothing(const json_t *v)
{
    return !v || json_is_null(v) || json_is_false(v) || (json_is_object(v) && json_object_size(v) == 0) ||
           (json_is_array(v) && json_array_size(v) == 0);
}

static fx_status check_config(peft *p, fx_error *err)
{
    static const char *const refused[] = { "use_dora", "use_qalora", "use_bdlora", "lora_bias", "modules_to_save",
                                           "trainable_token_indices", "layer_replication", "target_parameters",
                                           "alora_invocation_tokens", "arrow_config", "monteclora_config", "megatron_config" };
    const json_t *type = json_object_get(p->config, "peft_type"), *bias = json_object_get(p->config, "bias");
    const json_t *r = json_object_get(p->config, "r"), *alpha = json_object_get(p->config, "lora_alpha");

    if (!json_is_string(type) || strcmp(json_string_value(type), "LORA") != 0)
        return fx_fail_param(err, FORNAX_EUNSUP, "peft_type", "%s: adapter_config.json: peft_type: only LORA is supported", p->path);
    if (bias && (!json_is_string(bias) || strcmp(json_string_value(bias), "none") != 0))
        return fx_fail_param(err, FORNAX_EUNSUP, "bias", "%s: adapter_config.json: bias: only none is supported", p->path);
    for (size_t i = 0; i < FX_COUNT(refused); i++) {
        if (!is_nothing(json_object_get(p->config, refused[i])))
            return fx_fail_param(err, FORNAX_EUNSUP, refused[i], "%s: adapter_config.json: %s isn't supported", p->path, refused[i]);
    }
    if (!json_is_integer(r) || json_integer_value(r) < 1 || !json_is_number(alpha) || !isfinite(json_number_value(alpha)))
        return fx_fail_param(err, FORNAX_EFORMAT, "r", "%s: adapter_config.json: expected r from 1 and a number lora_alpha", p->path);
    p->rank = (double)json_integer_value(r);
    p->alpha = json_number_value(alpha);
    p->rslora = json_is_true(json_object_get(p->config, "use_rslora"));
    return FORNAX_OK;
}

static fx_status read_config(peft *p, fx_error *err)
{
    fx_buf path, text;
    json_error_t je;
    fx_status st = FORNAX_OK;

    fx_buf_init(&path, &p->model->ctx->mem);
    fx_buf_init(&text, &p->model->ctx->mem);
    if (!fx_path_join(&path, p->path, "adapter_config.json"))
        st = fx_nomem(err, "a path");
    if (st == FORNAX_OK)
        st = fx_file_read(&text, path.p, 1 << 20, err);
    if (st == FORNAX_OK) {
        p->config = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, &je);
        if (!json_is_object(p->config))
            st = fx_fail(err, FORNAX_EFORMAT, "%s: line %d: %s", path.p, je.line,
                         p->config ? "expected an object" : je.text);
    }
    fx_buf_done(&text);
    fx_buf_done(&path);
    return st == FORNAX_OK ? check_config(p, err) : st;
}

/* rank_pattern and alpha_pattern: module (or its end after a dot) to number. */
static double pattern(const peft *p, const char *key, fx_str module, double otherwise)
{
    const char *name;
    json_t *v;

    json_object_foreach(json_object_get(p->config, key), name, v) {
        fx_str end = fx_str_of(name);
        bool whole = fx_str_eq(module, end);
        bool tail = module.n > end.n && module.p[module.n - end.n - 1] == '.' && fx_str_ends(module, end);

        if ((whole || tail) && json_is_number(v))
            return json_number_value(v);
    }
    return otherwise;
}

/* ---- The tensors ---- */

static fx_status unknown_tensor(const peft *p, fx_str name, fx_error *err)
{
    return fx_fail_param(err, FORNAX_EUNSUP, "adapter", "%s: tensor %.*s: only lora_A.weight and lora_B.weight of products are supported",
                         p->path, FX_STR_ARG(name));
}

static fx_status read_tensors(peft *p, fx_error *err)
{
    fx_str front = FX_STR("base_model.model."), a_end = FX_STR(".lora_A.weight"), b_end = FX_STR(".lora_B.weight");
    size_t n = fx_weights_count(p->w);

    p->pairs = fx_arena_array(&p->arena, n + 1, sizeof *p->pairs);
    if (!p->pairs)
        return fx_nomem(err, "an adapter");
    for (size_t i = 0; i < n; i++) {
        const fx_weight *t = fx_weights_at(p->w, i);
        fx_str name = t->name;
        bool is_a = fx_str_ends(name, a_end), is_b = fx_str_ends(name, b_end);
        size_t k;

        if ((!is_a && !is_b) || t->rank != 2 || !fx_dtype_is_float(t->dtype))
            return unknown_tensor(p, name, err);
        name.n -= a_end.n;
        if (fx_str_starts(name, front))
            name = fx_str_n(name.p + front.n, name.n - front.n);
        for (k = 0; k < p->n_pairs && !fx_str_eq(p->pairs[k].module, name); k++)
            continue;
        p->n_pairs = FX_MAX(p->n_pairs, k + 1);
        p->pairs[k].module = name;
        *(is_a ? &p->pairs[k].a : &p->pairs[k].b) = t;
    }
    for (size_t k = 0; k < p->n_pairs; k++) {
        if (!p->pairs[k].a || !p->pairs[k].b)
            return fx_fail(err, FORNAX_EFORMAT, "%s: %.*s: lora_A and lora_B must both be there", p->path,
                           FX_STR_ARG(p->pairs[k].module));
        if (p->pairs[k].a->shape[0] != p->pairs[k].b->shape[1])
            return fx_fail(err, FORNAX_EFORMAT, "%s: %.*s: lora_A has rank %lld, lora_B %lld", p->path,
                           FX_STR_ARG(p->pairs[k].module), (long long)p->pairs[k].a->shape[0], (long long)p->pairs[k].b->shape[1]);
    }
    return FORNAX_OK;
}

static const float *as_f32(peft *p, const fx_weight *t)
{
    float *out = FX_ARENA_NEWN(&p->arena, float, (size_t)t->n_elems);

    if (out)
        fx_dequantize_row(t->dtype, t->data, out, t->n_elems);
    return out;
}

static void mix(fx_hash128 *h, const void *p, size_t n)
{
    struct { fx_hash128 before, now; } part = { *h, fx_hash128_of(p, n, 2) };

    *h = fx_hash128_of(&part, sizeof part, 3);
}

/* The pair for "model.layers.0.self_attn.q_proj.weight". */
static bool find_pair(void *user, fx_str name, fx_adapter_pair *out)
{
    peft *p = user;
    fx_str end = FX_STR(".weight");

    if (!fx_str_ends(name, end))
        return false;
    name.n -= end.n;
    for (size_t k = 0; k < p->n_pairs; k++) {
        const fx_weight *a = p->pairs[k].a, *b = p->pairs[k].b;
        double rank, alpha;

        if (!fx_str_eq(p->pairs[k].module, name))
            continue;
        rank = pattern(p, "rank_pattern", name, p->rank);
        alpha = pattern(p, "alpha_pattern", name, p->alpha);
        *out = (fx_adapter_pair){ as_f32(p, a), as_f32(p, b), a->shape[0], a->shape[1], b->shape[0],
                                  (float)(p->scale * alpha / (p->rslora ? sqrt(rank) : rank)) };
        p->pairs[k].used = out->a && out->b;
        return p->pairs[k].used;         /* else: no memory, which 'used' tells */
    }
    return false;
}

static int64_t base_rows(void *user, fx_str name)
{
    const fx_weight *t = fx_weights_find(((peft *)user)->model->weights, name);

    return t && t->rank > 1 ? t->shape[0] : 0;
}

static fx_status check_used(peft *p, fx_error *err)
{
    for (size_t k = 0; k < p->n_pairs; k++) {
        const fx_weight *pair[] = { p->pairs[k].a, p->pairs[k].b };
        double rank = pattern(p, "rank_pattern", p->pairs[k].module, p->rank);
        double alpha = pattern(p, "alpha_pattern", p->pairs[k].module, p->alpha);

        if (!p->pairs[k].used)
            return fx_fail_param(err, FORNAX_EUNSUP, "adapter", "%s: %.*s: the model has no such product that an adapter can change",
                                 p->path, FX_STR_ARG(p->pairs[k].module));
        if ((double)p->pairs[k].a->shape[0] != rank)
            return fx_fail(err, FORNAX_EFORMAT, "%s: %.*s: expected rank %g, found %lld", p->path,
                           FX_STR_ARG(p->pairs[k].module), rank, (long long)p->pairs[k].a->shape[0]);
        mix(&p->identity, p->pairs[k].module.p, p->pairs[k].module.n);
        mix(&p->identity, (const double[]){ rank, alpha, p->rslora, p->scale }, 4 * sizeof(double));
        for (int i = 0; i < 2; i++) {
            mix(&p->identity, &pair[i]->dtype, sizeof pair[i]->dtype);
            mix(&p->identity, pair[i]->data, pair[i]->bytes);
        }
    }
    return FORNAX_OK;
}

/* ---- Opening ---- */

static fx_status load(peft *p, fx_adapter **out, fx_error *err)
{
    const fx_adapter_source source = { find_pair, base_rows, p };
    fx_buf path;
    fx_status st;

    if (fx_weights_kind_of(p->model->weights) == FX_WEIGHTS_GGUF)
        return fx_fail_param(err, FORNAX_EUNSUP, "adapter", "%s: adapters need the model's hub form, not a GGUF file", p->path);
    FX_TRY(read_config(p, err));
    fx_buf_init(&path, &p->model->ctx->mem);
    st = fx_path_join(&path, p->path, "adapter_model.safetensors")
             ? fx_weights_open(&p->w, &p->model->ctx->mem, path.p, 0, err)
             : fx_nomem(err, "a path");
    fx_buf_done(&path);
    FX_TRY(st);
    FX_TRY(read_tensors(p, err));
    FX_TRY(fx_adapter_new(out, p->model->program, &source, err));
    st = check_used(p, err);
    if (st != FORNAX_OK) {
        fx_adapter_free(*out);
        *out = NULL;
    }
    return st;
}

fornax_status fornax_adapter_open(fornax_adapter **out, fornax_model *model, const char *path,
                                  const fornax_adapter_options *opt, fornax_error *err)
{
    fornax_adapter_options o = FORNAX_OPTIONS(fornax_adapter_options);
    peft p = { .model = model, .path = path };
    fx_fpmode old;
    fornax_adapter *a;
    fx_status st;

    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(model);
    FX_API_NEED(path);
    FX_TRY(fx_api_usable(model->ctx, err));
    FX_TRY(fx_api_options(&o, sizeof o, opt, "fornax_adapter_options", err));
    if (!isfinite(o.scale))
        return fx_fail_param(err, FORNAX_EARG, "scale", "scale: expected a finite number, found %g", o.scale);
    p.scale = o.scale != 0 ? o.scale : 1;
    a = fx_mem_zalloc(&model->ctx->mem, sizeof *a);
    if (!a)
        return fx_nomem(err, "an adapter");
    old = fx_fpmode_enter();
    fx_arena_init(&p.arena, &model->ctx->mem, 1 << 18);
    st = load(&p, &a->adapter, err);
    fx_arena_done(&p.arena);
    fx_weights_close(p.w);
    json_decref(p.config);
    fx_fpmode_leave(old);
    if (st != FORNAX_OK) {
        fx_mem_free(&model->ctx->mem, a, sizeof *a);
        return st;
    }
    a->model = model;
    a->identity = p.identity;
    atomic_init(&a->refs, 1);
    *out = a;
    return FORNAX_OK;
}

void fx_api_adapter_drop(void *adapter)
{
    fornax_adapter *a = adapter;

    if (atomic_fetch_sub(&a->refs, 1) > 1)
        return;
    fx_adapter_free(a->adapter);
    fx_mem_free(&a->model->ctx->mem, a, sizeof *a);
}

void fornax_adapter_close(fornax_adapter *adapter)
{
    if (adapter)
        fx_api_adapter_drop(adapter);
}

fornax_status fornax_adapter_evaluate(fornax_adapter *adapter, const int32_t *ids, size_t n, size_t first,
                                      fornax_logits_fn each, void *user, fornax_error *err)
{
    FX_API_NEED(adapter);
    return fx_api_evaluate(adapter->model, adapter->adapter, ids, n, first, each, user, err);
}
