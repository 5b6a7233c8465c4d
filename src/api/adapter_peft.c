/* adapter_peft.c - LoRA adapters as PEFT writes them: a folder with adapter_config.json and
 * adapter_model.safetensors.
 *
 * The configuration says rank and scale (lora_alpha / r, or / sqrt(r) with use_rslora; patterns
 * override them by module), the tensors' names say where: base_model.model.<module>.lora_A.weight
 * [r, in] and .lora_B.weight [out, r]; lora_embedding_A [r, tokens] and lora_embedding_B [dim, r].
 * target_parameters names stacked experts: A [experts * r, in], expert by expert, and B [out, r * experts] with
 * the experts of a column of r side by side; where one module has several such parameters, each
 * after the last wraps those before, whose tensors lie below one more ".base_layer".
 * What would change the computation and isn't done here is refused by name. */
#include <math.h>
#include <string.h>

#include "api/adapter_file.h"
#include "base/file.h"
#include "text/split_regex.h"

typedef struct peft {
    fx_lora_file *file;
    const char *folder;
    json_t *config;
    double alpha, rank;
    bool rslora;
} peft;

/* ---- The configuration ---- */

/* Absent, null, false, empty: nothing. */
static bool is_nothing(const json_t *v)
{
    return !v || json_is_null(v) || json_is_false(v) || (json_is_object(v) && json_object_size(v) == 0) ||
           (json_is_array(v) && json_array_size(v) == 0);
}

/* Ways to begin that also change the model's own weights. */
static fx_status check_init(const peft *p, fx_error *err)
{
    static const char *const refused[] = { "pissa", "olora", "corda", "loftq", "lora_ga" };
    const char *init = json_string_value(json_object_get(p->config, "init_lora_weights"));

    for (size_t i = 0; init && i < FX_COUNT(refused); i++) {
        if (strncmp(init, refused[i], strlen(refused[i])) == 0)
            return fx_fail_param(err, FORNAX_EUNSUP, "init_lora_weights",
                                 "%s: adapter_config.json: init_lora_weights: \"%s\" changes the model's weights too, which isn't supported",
                                 p->folder, init);
    }
    return FORNAX_OK;
}

static fx_status check_config(peft *p, fx_error *err)
{
    static const char *const refused[] = { "use_dora", "use_qalora", "use_bdlora", "lora_bias", "modules_to_save",
                                           "trainable_token_indices", "layer_replication", "alora_invocation_tokens", "arrow_config",
                                           "monteclora_config", "megatron_config", "kasa_config", "velora_config", "ensure_weight_tying" };
    const json_t *type = json_object_get(p->config, "peft_type"), *bias = json_object_get(p->config, "bias");
    const json_t *r = json_object_get(p->config, "r"), *alpha = json_object_get(p->config, "lora_alpha");

    if (!json_is_string(type) || strcmp(json_string_value(type), "LORA") != 0)
        return fx_fail_param(err, FORNAX_EUNSUP, "peft_type", "%s: adapter_config.json: peft_type: only LORA is supported", p->folder);
    if (bias && (!json_is_string(bias) || strcmp(json_string_value(bias), "none") != 0))
        return fx_fail_param(err, FORNAX_EUNSUP, "bias", "%s: adapter_config.json: bias: only \"none\" is supported", p->folder);
    for (size_t i = 0; i < FX_COUNT(refused); i++) {
        if (!is_nothing(json_object_get(p->config, refused[i])))
            return fx_fail_param(err, FORNAX_EUNSUP, refused[i], "%s: adapter_config.json: %s isn't supported", p->folder, refused[i]);
    }
    if (!json_is_integer(r) || json_integer_value(r) < 1 || !json_is_number(alpha) || !isfinite(json_number_value(alpha)))
        return fx_fail_param(err, FORNAX_EFORMAT, "r", "%s: adapter_config.json: expected r from 1 and a number lora_alpha", p->folder);
    p->rank = (double)json_integer_value(r);
    p->alpha = json_number_value(alpha);
    p->rslora = json_is_true(json_object_get(p->config, "use_rslora"));
    return check_init(p, err);
}

static fx_status read_config(peft *p, fx_error *err)
{
    const fx_mem *mem = &p->file->model->ctx->mem;
    fx_buf path, text;
    json_error_t je;
    fx_status st = FORNAX_OK;

    fx_buf_init(&path, mem);
    fx_buf_init(&text, mem);
    if (!fx_path_join(&path, p->folder, "adapter_config.json"))
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

/* ---- Patterns ---- */

static bool is_plain(fx_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (strchr("^$*+?()[]{}|\\", s.p[i]))
            return false;
    }
    return true;
}

/* Whether the module, or its end after a dot, matches a regular expression of the setting 'name'. */
static fx_status matches(const peft *p, const char *name, const char *key, fx_str module, bool *out, fx_error *err)
{
    const fx_mem *mem = &p->file->model->ctx->mem;
    fx_str k = fx_str_of(key);
    fx_scan scan = FX_SCAN_START;
    fx_regex *re = NULL;
    fx_match *m = NULL;
    fx_buf text, where;
    fx_status st;

    if (is_plain(k)) {
        *out = fx_str_eq(module, k) || (module.n > k.n && module.p[module.n - k.n - 1] == '.' && fx_str_ends(module, k));
        return FORNAX_OK;
    }
    fx_buf_init(&text, mem);
    fx_buf_init(&where, mem);
    fx_buf_printf(&where, "%s: adapter_config.json: %s", p->folder, name);
    fx_buf_printf(&text, "\\A(?:.*\\.)?(?:%s)\\z", key);
    st = text.failed || where.failed ? fx_nomem(err, "a pattern")
                                     : fx_regex_compile(&re, mem, fx_buf_view(&text), fx_buf_view(&where).p, err);
    if (st == FORNAX_OK && !(m = fx_match_new(re, mem)))
        st = fx_nomem(err, "a pattern");
    if (st == FORNAX_OK)
        st = fx_regex_scan(re, m, module, &scan, err);
    *out = scan.found;
    fx_match_free(m);
    fx_regex_free(re);
    fx_buf_done(&where);
    fx_buf_done(&text);
    return st;
}

/* rank_pattern and alpha_pattern: the first that matches. */
static fx_status pattern(const peft *p, const char *name, fx_str module, double *io, fx_error *err)
{
    const char *key;
    json_t *v;

    json_object_foreach(json_object_get(p->config, name), key, v) {
        bool yes;

        if (!json_is_number(v))
            return fx_fail_param(err, FORNAX_EFORMAT, name, "%s: adapter_config.json: %s: \"%s\": expected a number", p->folder, name, key);
        FX_TRY(matches(p, name, key, module, &yes, err));
        if (!yes)
            continue;
        *io = json_number_value(v);
        return FORNAX_OK;
    }
    return FORNAX_OK;
}

/* ---- The tensors ---- */

/* Sum of squares of a's numbers, and of their differences to b's. */
static fx_status compare(peft *p, const fx_weight *a, const fx_weight *b, double *size, double *off, fx_error *err)
{
    int64_t n = a->shape[a->rank - 1];
    float *x = fx_arena_array(&p->file->arena, (size_t)n * 2, sizeof *x), *y = x + n;
    const uint8_t *from[] = { a->data, b->data };

    *size = *off = 0;
    if (!x)
        return fx_nomem(err, "an adapter");
    for (int64_t r = 0; r < a->n_elems / n; r++) {
        fx_dequantize_row(a->dtype, from[0] + (size_t)r * fx_dtype_row_bytes(a->dtype, n), x, n);
        fx_dequantize_row(b->dtype, from[1] + (size_t)r * fx_dtype_row_bytes(b->dtype, n), y, n);
        for (int64_t i = 0; i < n; i++) {
            *size += (double)x[i] * (double)x[i];
            *off += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        }
    }
    return FORNAX_OK;
}

/* PEFT saves the tables that it adapts beside the pairs. They must be the model's own, up to what
 * rounding and quantizing change. */
static fx_status check_copy(peft *p, const fx_weight *t, fx_str module, const char *suffix, fx_error *err)
{
    fx_lora_file *f = p->file;
    fx_place place = fx_place_of(&f->places, module, false);
    const fx_weight *own = f->model->arch ? fx_place_tensor(&f->places, &place, suffix) : NULL;
    double size, off, most;

    if (!own || own->rank != t->rank || own->shape[0] != t->shape[0] || own->shape[1] != t->shape[1] || own->n_elems != t->n_elems ||
        !fx_dequantize_supports(t->dtype))
        return fx_lora_fault(f, t->name, FORNAX_EUNSUP, err, "a matrix that takes the place of the model's isn't supported");
    FX_TRY(compare(p, own, t, &size, &off, err));
    most = fx_dtype_is_quant(own->dtype) ? 0.3 : 0.02;
    if (!(off <= most * most * size))
        return fx_lora_fault(f, t->name, FORNAX_EUNSUP, err, "it differs from the model's own, and taking its place isn't supported");
    return FORNAX_OK;
}

static fx_status add_tensor(peft *p, const fx_weight *t, fx_error *err)
{
    static const struct { const char *end; bool a, table; } ends[] = {
        { ".lora_A.weight", true, false }, { ".lora_B.weight", false, false },
        { ".lora_embedding_A", true, true }, { ".lora_embedding_B", false, true },
    };
    static const char *const copies[] = { ".base_layer.weight", ".base_layer.bias" };
    fx_lora_file *f = p->file;
    fx_str name = t->name, front = FX_STR("base_model.model.");
    size_t i = 0;
    fx_lora_entry *e;

    if (fx_str_starts(name, front))
        name = fx_str_n(name.p + front.n, name.n - front.n);
    for (size_t k = 0; k < FX_COUNT(copies); k++) {
        fx_str copy = fx_str_of(copies[k]);

        if (fx_str_ends(name, copy))
            return check_copy(p, t, fx_str_n(name.p, name.n - copy.n), copies[k] + strlen(".base_layer"), err);
    }
    while (i < FX_COUNT(ends) && !fx_str_ends(name, fx_str_of(ends[i].end)))
        i++;
    if (i == FX_COUNT(ends))
        return fx_lora_fault(f, name, FORNAX_EUNSUP, err, "only lora_A and lora_B, lora_embedding_A and lora_embedding_B are supported");
    name.n -= strlen(ends[i].end);
    e = fx_lora_entry_of(f, name);
    if (!e)
        return fx_nomem(err, "an adapter");
    if ((e->a.of || e->b.of) && ends[i].table != (e->form == FX_LORA_TABLE))
        return fx_lora_fault(f, name, FORNAX_EFORMAT, err, "it is both a table and a product");
    e->form = ends[i].table ? FX_LORA_TABLE : FX_LORA_PRODUCT;
    *(ends[i].a ? &e->a.of : &e->b.of) = t;
    return FORNAX_OK;
}

/* Whether target_parameters' "s" means a parameter of the module. One without a parent means that of any module
 * which has it: the experts. */
static bool is_parameter(const peft *p, const char *s, fx_str module)
{
    const char *dot = strrchr(s, '.');
    fx_str parent = fx_str_n(s, dot ? (size_t)(dot - s) : 0);
    fx_place_part part;
    int64_t layer, expert;
    char *whole;

    if (parent.n)
        return fx_str_eq(module, parent) ||
               (module.n > parent.n && fx_str_ends(module, parent) && module.p[module.n - parent.n - 1] == '.');
    whole = fx_arena_printf(&p->file->arena, "%.*s.%s", FX_STR_ARG(module), s);
    return whole && fx_expert_name(fx_place_bare(fx_str_of(whole)), false, &part, &layer, &expert);
}

/* Parameters of a module that target_parameters names, in the order of the module's own list: what makes a
 * hidden row before what makes the result. */
static size_t parameters_of(const peft *p, fx_str module, const char *out[4])
{
    const json_t *list = json_object_get(p->config, "target_parameters");
    size_t n = 0;

    for (size_t i = 0; i < json_array_size(list) && n < 4; i++) {
        const char *s = json_string_value(json_array_get(list, i)), *name;
        size_t at = n, same = 0;

        if (!s || !is_parameter(p, s, module))
            continue;
        name = strrchr(s, '.') ? strrchr(s, '.') + 1 : s;
        while (same < n && strcmp(out[same], name) != 0)
            same++;
        if (same < n)
            continue;
        if (n && strstr(out[n - 1], "down") && !strstr(name, "down"))
            out[at--] = out[n - 1];
        out[at] = name;
        n++;
    }
    return n;
}

/* The module that an entry is for: its name, or that of the parameter which it wraps. */
static fx_status resolve(const peft *p, const fx_lora_entry *e, fx_str *module, fx_error *err)
{
    fx_lora_file *f = p->file;
    fx_str end = FX_STR(".base_layer");
    const char *names[4];
    size_t depth = 0, n;
    char *name;

    for (*module = e->name; fx_str_ends(*module, end); depth++)
        module->n -= end.n;
    n = parameters_of(p, *module, names);
    if (n == 0 && depth == 0)
        return FORNAX_OK;
    if (depth >= n)
        return fx_lora_fault(f, e->name, FORNAX_EFORMAT, err, "expected %zu of its parameters in target_parameters, found %zu", depth + 1, n);
    if (strcmp(names[n - 1 - depth], "weight") == 0)
        return FORNAX_OK;
    name = fx_arena_printf(&f->arena, "%.*s.%s", FX_STR_ARG(*module), names[n - 1 - depth]);
    if (!name)
        return fx_nomem(err, "an adapter");
    *module = fx_str_of(name);
    return FORNAX_OK;
}

/* Columns and rows of a part of an expert. */
static void sizes_of(const fx_model_params *p, fx_place_part part, int64_t *in, int64_t *out)
{
    int64_t ffn = p->moe.ffn ? p->moe.ffn : p->ffn;

    *in = part == FX_PART_DOWN ? ffn : p->dim;
    *out = part == FX_PART_DOWN ? p->dim : part == FX_PART_GATE_UP ? 2 * ffn : ffn;
}

/* Early versions of PEFT took parameters [experts, out, in] for [experts, in, out], so that A and B have changed places. */
static fx_status set_stack(const fx_lora_file *f, fx_lora_entry *e, fx_error *err)
{
    const fx_weight *a = e->a.of, *b = e->b.of;
    int64_t rank = e->rank, experts = f->model->params.moe.experts, in, out;
    bool turned;

    sizes_of(&f->model->params, e->place.part, &in, &out);
    turned = !(a->shape[1] == in && b->shape[0] == out) && a->shape[1] == out && b->shape[0] == in;
    if (a->shape[0] != rank * experts || b->shape[1] != rank * experts || (!turned && (a->shape[1] != in || b->shape[0] != out)))
        return fx_lora_fault(f, e->name, FORNAX_EFORMAT, err,
                             "expected A [%lld,%lld] and B [%lld,%lld] for %lld experts of rank %lld, found [%lld,%lld] and [%lld,%lld]",
                             (long long)(rank * experts), (long long)in, (long long)out, (long long)(rank * experts), (long long)experts,
                             (long long)rank, (long long)a->shape[0], (long long)a->shape[1], (long long)b->shape[0], (long long)b->shape[1]);
    e->k = in;
    e->n = out;
    e->experts = experts;
    e->a = turned ? (fx_lora_view){ b, 1, experts, rank * experts } : (fx_lora_view){ a, rank * in, in, 1 };
    e->b = turned ? (fx_lora_view){ a, rank * out, 1, out } : (fx_lora_view){ b, 1, rank * experts, experts };
    return FORNAX_OK;
}

static fx_status set_pair(const fx_lora_file *f, fx_lora_entry *e, fx_error *err)
{
    const fx_weight *a = e->a.of, *b = e->b.of;

    if (e->form == FX_LORA_STACK)
        return set_stack(f, e, err);
    if (a->shape[0] != e->rank || b->shape[1] != e->rank)
        return fx_lora_fault(f, e->name, FORNAX_EFORMAT, err, "expected rank %lld, found %lld in A and %lld in B", (long long)e->rank,
                             (long long)a->shape[0], (long long)b->shape[1]);
    e->experts = 1;
    e->k = e->form == FX_LORA_TABLE ? b->shape[0] : a->shape[1];
    e->n = e->form == FX_LORA_TABLE ? a->shape[1] : b->shape[0];
    e->a.rows = a->shape[1];
    e->b.rows = e->rank;
    e->a.cols = e->b.cols = 1;
    return FORNAX_OK;
}

static fx_status finish(const peft *p, fx_lora_entry *e, fx_error *err)
{
    fx_lora_file *f = p->file;
    double rank = p->rank, alpha = p->alpha;
    fx_str module;

    FX_TRY(fx_lora_check_pair(f, e, 2, err));
    FX_TRY(resolve(p, e, &module, err));
    FX_TRY(pattern(p, "rank_pattern", module, &rank, err));
    FX_TRY(pattern(p, "alpha_pattern", module, &alpha, err));
    if (!(rank >= 1 && rank <= FX_ADAPTER_MAX_RANK) || rank != floor(rank))
        return fx_lora_fault(f, e->name, FORNAX_EUNSUP, err, "rank: expected 1 to %d, found %g", FX_ADAPTER_MAX_RANK, rank);
    e->rank = (int64_t)rank;
    e->scale = alpha / (p->rslora ? sqrt(rank) : rank);
    e->place = fx_place_of(&f->places, module, false);
    if (e->form == FX_LORA_PRODUCT && e->place.part != FX_PART_WHOLE && e->place.expert < 0)
        e->form = FX_LORA_STACK;
    return set_pair(f, e, err);
}

static fx_status read_tensors(peft *p, fx_error *err)
{
    fx_lora_file *f = p->file;

    for (size_t i = 0; i < fx_weights_count(f->w); i++)
        FX_TRY(add_tensor(p, fx_weights_at(f->w, i), err));
    for (size_t i = 0; i < f->n; i++)
        FX_TRY(finish(p, &f->entries[i], err));
    return FORNAX_OK;
}

fx_status fx_lora_read_peft(fx_lora_file *f, const char *folder, fx_error *err)
{
    peft p = { .file = f, .folder = folder };
    char *path = fx_arena_printf(&f->arena, "%s/adapter_model.safetensors", folder);
    fx_status st = path ? read_config(&p, err) : fx_nomem(err, "a path");

    if (st == FORNAX_OK) {
        f->path = path;
        st = fx_weights_open(&f->w, &f->model->ctx->mem, path, 0, err);
    }
    if (st == FORNAX_OK)
        st = read_tensors(&p, err);
    json_decref(p.config);
    return st;
}
