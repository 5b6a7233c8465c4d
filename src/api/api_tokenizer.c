/* api_tokenizer.c - fornax_tokenizer: what format/ found in a file, handed to text/.
 *
 * GGUF keeps everything in its header; a hub folder in tokenizer.json,
 * tokenizer_config.json and chat_template.jinja.  A folder with a chat template
 * alone still opens: it can render, not tokenize. */
#include <string.h>

#include "api/api.h"

/* ---- GGUF ---- */

static fx_status gguf_vocab(fx_gguf_vocab *v, fx_weights *w, fx_arena *tmp, fx_error *err)
{
    struct { const char *key; int64_t *at; } ids[] = {
        { "tokenizer.ggml.bos_token_id", &v->bos }, { "tokenizer.ggml.eos_token_id", &v->eos },
        { "tokenizer.ggml.eot_token_id", &v->eot }, { "tokenizer.ggml.eom_token_id", &v->eom },
        { "tokenizer.ggml.unknown_token_id", &v->unk }, { "tokenizer.ggml.padding_token_id", &v->pad },
        { "tokenizer.ggml.cls_token_id", &v->cls }, { "tokenizer.ggml.seperator_token_id", &v->sep },
    };
    struct { const char *key; int *at; } flags[] = {
        { "tokenizer.ggml.add_bos_token", &v->add_bos }, { "tokenizer.ggml.add_eos_token", &v->add_eos },
        { "tokenizer.ggml.add_space_prefix", &v->add_space_prefix },
        { "tokenizer.ggml.remove_extra_whitespaces", &v->remove_extra },
    };
    fx_str *strs;
    int32_t *types;
    float *scores;
    size_t n;

    const fx_meta *charsmap = fx_meta_find(w, "tokenizer.ggml.precompiled_charsmap");

    *v = (fx_gguf_vocab){ .pre = FX_STR(""), .charsmap = FX_STR("") };
    if (charsmap && (charsmap->type != FX_META_ARRAY ||
                     (charsmap->v.array.type != FX_META_U8 && charsmap->v.array.type != FX_META_I8)))
        return fx_fail(err, FORNAX_EFORMAT, "%s: tokenizer.ggml.precompiled_charsmap: expected an array of bytes",
                       fx_weights_path(w));
    if (charsmap)
        v->charsmap = charsmap->v.array.bytes;
    FX_TRY(fx_meta_str(w, "tokenizer.ggml.model", &v->model, err));
    FX_TRY(fx_meta_opt_str(w, "tokenizer.ggml.pre", &v->pre, err));
    FX_TRY(fx_meta_strs(w, "tokenizer.ggml.tokens", tmp, &strs, &v->n, err));
    v->tokens = strs;
    if (fx_meta_find(w, "tokenizer.ggml.token_type")) {
        FX_TRY(fx_meta_i32s(w, "tokenizer.ggml.token_type", tmp, &types, &n, err));
        if (n != v->n)
            return fx_fail(err, FORNAX_EFORMAT, "%s: tokenizer.ggml.token_type: expected %zu entries, found %zu",
                           fx_weights_path(w), v->n, n);
        v->types = types;
    }
    if (fx_meta_find(w, "tokenizer.ggml.scores")) {
        FX_TRY(fx_meta_f32s(w, "tokenizer.ggml.scores", tmp, &scores, &n, err));
        if (n != v->n)
            return fx_fail(err, FORNAX_EFORMAT, "%s: tokenizer.ggml.scores: expected %zu entries, found %zu",
                           fx_weights_path(w), v->n, n);
        v->scores = scores;
    }
    if (fx_meta_find(w, "tokenizer.ggml.merges")) {
        FX_TRY(fx_meta_strs(w, "tokenizer.ggml.merges", tmp, &strs, &v->n_merges, err));
        v->merges = strs;
    }
    for (size_t i = 0; i < FX_COUNT(ids); i++) {
        *ids[i].at = -1;
        FX_TRY(fx_meta_opt_i64(w, ids[i].key, ids[i].at, err));
        if (*ids[i].at < -1 || *ids[i].at >= (int64_t)v->n)
            return fx_fail(err, FORNAX_EFORMAT, "%s: %s: expected an id below %zu, found %lld", fx_weights_path(w),
                           ids[i].key, v->n, (long long)*ids[i].at);
    }
    for (size_t i = 0; i < FX_COUNT(flags); i++) {
        bool b = false;

        *flags[i].at = -1;
        if (!fx_meta_find(w, flags[i].key))
            continue;
        FX_TRY(fx_meta_bool(w, flags[i].key, &b, err));
        *flags[i].at = b;
    }
    return FORNAX_OK;
}

/* Spellings that end a turn in the model families in use; a GGUF names one end token, while
 * the family's generation settings list several. Only control tokens count. */
static const char *const end_spellings[] = {
    "<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<|end|>",
    "<|end_of_turn|>", "<|return|>", "<EOT>", "<_EOT>", ("<\xef\xbd\x9c" "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"),
};

static bool add_eos(fornax_tokenizer *tok, size_t cap, int64_t id)
{
    if (id < 0 || id > INT32_MAX)
        return true;
    for (size_t i = 0; i < tok->n_eos; i++) {
        if (tok->eos[i] == id)
            return true;
    }
    if (tok->n_eos == cap)
        return false;
    tok->eos[tok->n_eos++] = (int32_t)id;
    return true;
}

static fx_status gguf_eos(fornax_tokenizer *tok, const fx_gguf_vocab *v, fx_error *err)
{
    size_t cap = FX_COUNT(end_spellings) + 4;

    tok->eos = FX_ARENA_NEWN(&tok->arena, int32_t, cap);
    if (!tok->eos)
        return fx_nomem(err, "end tokens");
    add_eos(tok, cap, v->eos);
    add_eos(tok, cap, v->eot);
    add_eos(tok, cap, v->eom);
    for (size_t i = 0; i < FX_COUNT(end_spellings); i++) {
        int32_t id = fx_tokenizer_find(tok->t, fx_str_of(end_spellings[i]));
        if (id >= 0 && fx_tokenizer_special(tok->t, id))
            add_eos(tok, cap, id);
    }
    return FORNAX_OK;
}

static fx_status set_trusted(fornax_tokenizer *tok, const char *name, fx_str value, fx_error *err)
{
    json_t *s = json_stringn(value.p, value.n);

    if (!s)                              /* not UTF-8: templates can't use it */
        return FORNAX_OK;
    return json_object_set_new(tok->trusted, name, s) == 0 ? FORNAX_OK : fx_nomem(err, "special tokens");
}

static fx_status gguf_trusted(fornax_tokenizer *tok, const fx_gguf_vocab *v, fx_error *err)
{
    const struct { const char *name; int64_t id; } rows[] = {
        { "bos_token", v->bos }, { "eos_token", v->eos }, { "unk_token", v->unk }, { "pad_token", v->pad },
    };

    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        if (rows[i].id >= 0)
            FX_TRY(set_trusted(tok, rows[i].name, fx_tokenizer_spelling(tok->t, (int32_t)rows[i].id), err));
    }
    return FORNAX_OK;
}

static fx_status open_gguf(fornax_tokenizer *tok, fx_weights *w, fx_error *err)
{
    fx_gguf_vocab v;
    fx_arena tmp;
    fx_str text = { 0 };
    fx_status st;

    fx_arena_init(&tmp, &tok->ctx->mem, 1 << 20);
    st = gguf_vocab(&v, w, &tmp, err);
    if (st == FORNAX_OK)
        st = fx_tokenizer_from_gguf(&tok->t, &tok->ctx->mem, &v, err);
    if (st == FORNAX_OK)
        st = gguf_eos(tok, &v, err);
    if (st == FORNAX_OK)
        st = gguf_trusted(tok, &v, err);
    fx_arena_done(&tmp);
    FX_TRY(st);
    FX_TRY(fx_meta_opt_str(w, "tokenizer.chat_template", &text, err));
    if (text.p && !(tok->template_text = fx_arena_strdup(&tok->arena, text.p, text.n)))
        return fx_nomem(err, "the chat template");
    text = (fx_str){ 0 };
    FX_TRY(fx_meta_opt_str(w, "tokenizer.chat_template.tool_use", &text, err));
    if (text.p && !(tok->tool_template = fx_arena_strdup(&tok->arena, text.p, text.n)))
        return fx_nomem(err, "the chat template for tools");
    return FORNAX_OK;
}

/* ---- Hub folders ---- */

static fx_status parse_config(json_t **out, fx_weights *w, fx_text_file which, fx_error *err)
{
    fx_str text = fx_weights_text(w, which);
    json_error_t je;

    *out = NULL;
    if (!text.p)
        return FORNAX_OK;
    *out = json_loadb(text.p, text.n, JSON_ALLOW_NUL, &je);
    if (!*out)
        return fx_fail(err, FORNAX_EFORMAT, "%s: %s:%d:%d: %s", fx_weights_path(w), fx_text_file_name(which), je.line,
                       je.column, je.text);
    if (!json_is_object(*out)) {
        json_decref(*out);
        *out = NULL;
        return fx_fail(err, FORNAX_EFORMAT, "%s: %s: expected an object", fx_weights_path(w), fx_text_file_name(which));
    }
    return FORNAX_OK;
}

/* A special token in a configuration is a string or {"content": string, ...}. */
static fx_str token_spelling(const json_t *v)
{
    if (json_is_object(v))
        v = json_object_get(v, "content");
    return json_is_string(v) ? fx_str_n(json_string_value(v), json_string_length(v)) : (fx_str){ 0 };
}

static fx_status hub_trusted(fornax_tokenizer *tok, const json_t *config, fx_error *err)
{
    static const char *const names[] = { "bos_token", "eos_token", "unk_token", "sep_token",
                                         "pad_token", "cls_token", "mask_token" };
    const json_t *extra = json_object_get(config, "additional_special_tokens");
    json_t *list;

    for (size_t i = 0; i < FX_COUNT(names); i++) {
        fx_str s = token_spelling(json_object_get(config, names[i]));
        if (s.p)
            FX_TRY(set_trusted(tok, names[i], s, err));
    }
    if (!json_is_array(extra) || json_object_get(tok->trusted, "additional_special_tokens"))
        return FORNAX_OK;
    list = json_array();
    for (size_t i = 0; list && i < json_array_size(extra); i++) {
        fx_str s = token_spelling(json_array_get(extra, i));
        if (s.p && json_array_append_new(list, json_stringn(s.p, s.n)) != 0) {
            json_decref(list);
            return fx_nomem(err, "special tokens");
        }
    }
    if (!list || json_object_set_new(tok->trusted, "additional_special_tokens", list) != 0)
        return fx_nomem(err, "special tokens");
    return FORNAX_OK;
}

static fx_status keep_text(fornax_tokenizer *tok, const char **at, fx_str s, fx_error *err)
{
    *at = fx_arena_strdup(&tok->arena, s.p, s.n);
    return *at ? FORNAX_OK : fx_nomem(err, "the chat template");
}

/* "chat_template" of a configuration: one text, or a list of {name, template}. */
static fx_status config_template(fornax_tokenizer *tok, const json_t *v, fx_error *err)
{
    if (json_is_string(v) && !tok->template_text)
        return keep_text(tok, &tok->template_text, token_spelling(v), err);
    for (size_t i = 0; json_is_array(v) && i < json_array_size(v); i++) {
        const json_t *one = json_array_get(v, i);
        fx_str name = token_spelling(json_object_get(one, "name"));
        fx_str text = token_spelling(json_object_get(one, "template"));

        if (!name.p || !text.p)
            continue;
        if (fx_str_is(name, "default") && !tok->template_text)
            FX_TRY(keep_text(tok, &tok->template_text, text, err));
        else if (fx_str_is(name, "tool_use") && !tok->tool_template)
            FX_TRY(keep_text(tok, &tok->tool_template, text, err));
    }
    return FORNAX_OK;
}

static fx_status hub_template(fornax_tokenizer *tok, fx_weights *w, const json_t *config, fx_error *err)
{
    fx_str text = fx_weights_text(w, FX_TEXT_TEMPLATE);
    json_t *json = NULL;

    if (text.p)
        FX_TRY(keep_text(tok, &tok->template_text, text, err));
    FX_TRY(parse_config(&json, w, FX_TEXT_TEMPLATE_JSON, err));
    fx_status st = config_template(tok, json_object_get(json, "chat_template"), err);
    json_decref(json);
    FX_TRY(st);
    return config_template(tok, json_object_get(config, "chat_template"), err);
}

static fx_status hub_eos(fornax_tokenizer *tok, fx_weights *w, fx_error *err)
{
    json_t *const objects[] = { fx_weights_generation_config(w), fx_weights_config(w) };
    int32_t *ids[2] = { NULL, NULL };
    size_t n[2] = { 0, 0 }, cap;

    for (int i = 0; i < 2; i++)
        FX_TRY(fx_config_ids(w, objects[i], "eos_token_id", &tok->arena, &ids[i], &n[i], err));
    cap = n[0] + n[1] + 1;
    tok->eos = FX_ARENA_NEWN(&tok->arena, int32_t, cap);
    if (!tok->eos)
        return fx_nomem(err, "end tokens");
    for (int i = 0; i < 2 && (i == 0 || n[0] == 0); i++) {
        for (size_t j = 0; j < n[i]; j++)
            add_eos(tok, cap, ids[i][j]);
    }
    if (tok->t)
        add_eos(tok, cap, fx_tokenizer_eos(tok->t));
    return FORNAX_OK;
}

/* A fault of a folder's tokenizer files, which don't know where they are. */
static fx_status in_folder(const fx_weights *w, fx_status st, fx_error *err)
{
    if (st == FORNAX_OK || st == FORNAX_ENOMEM || !err || fx_str_starts(fx_str_of(err->text), fx_str_of(fx_weights_path(w))))
        return st;
    return fx_fail_param(err, st, err->param, "%s/%s", fx_weights_path(w), err->text);
}

static fx_status open_hub(fornax_tokenizer *tok, fx_weights *w, fx_error *err)
{
    fx_str json = fx_weights_text(w, FX_TEXT_TOKENIZER), raw = fx_weights_text(w, FX_TEXT_TOKENIZER_CONFIG);
    const fx_spm_texts spm = { .model = fx_weights_text(w, FX_TEXT_SENTENCEPIECE), .config = raw,
                               .special = fx_weights_text(w, FX_TEXT_SPECIAL_TOKENS),
                               .added = fx_weights_text(w, FX_TEXT_ADDED_TOKENS) };
    json_t *config = NULL, *map = NULL;
    fx_status st = parse_config(&config, w, FX_TEXT_TOKENIZER_CONFIG, err);

    if (st == FORNAX_OK)
        st = parse_config(&map, w, FX_TEXT_SPECIAL_TOKENS, err);
    if (st == FORNAX_OK && json.p)
        st = in_folder(w, fx_tokenizer_from_json(&tok->t, &tok->ctx->mem, json, raw.p ? raw : FX_STR(""), err), err);
    else if (st == FORNAX_OK && spm.model.p)
        st = in_folder(w, fx_tokenizer_from_spm(&tok->t, &tok->ctx->mem, &spm, err), err);
    if (st == FORNAX_OK && map)
        st = hub_trusted(tok, map, err);
    if (st == FORNAX_OK && config)
        st = hub_trusted(tok, config, err);
    if (st == FORNAX_OK)
        st = hub_template(tok, w, config, err);
    if (st == FORNAX_OK)
        st = hub_eos(tok, w, err);
    if (st == FORNAX_OK && !tok->t && !tok->template_text)
        st = fx_fail(err, FORNAX_ENOTFOUND, "%s: no tokenizer.json, tokenizer.model or chat template", fx_weights_path(w));
    json_decref(config);
    json_decref(map);
    return st;
}

/* ---- Open and close ---- */

fx_status fx_api_tokenizer_new(fornax_tokenizer **out, fornax_context *ctx, fx_weights *w, const char *chat_template,
                               fx_error *err)
{
    fornax_tokenizer *tok = fx_mem_zalloc(&ctx->mem, sizeof *tok);
    fx_status st;

    *out = NULL;
    if (!tok)
        return fx_nomem(err, "a tokenizer");
    tok->ctx = ctx;
    tok->serial = atomic_fetch_add(&ctx->serial, 1);
    fx_arena_init(&tok->arena, &ctx->mem, 0);
    pthread_mutex_init(&tok->lock, NULL);
    tok->trusted = json_object();
    st = tok->trusted ? FORNAX_OK : fx_nomem(err, "special tokens");
    if (st == FORNAX_OK && fx_weights_kind_of(w) == FX_WEIGHTS_SAFETENSORS)
        st = fx_fail(err, FORNAX_EUNSUP, "%s: weights alone; open the folder that has config.json and tokenizer.json too",
                     fx_weights_path(w));
    if (st == FORNAX_OK)
        st = fx_weights_kind_of(w) == FX_WEIGHTS_GGUF ? open_gguf(tok, w, err) : open_hub(tok, w, err);
    if (st == FORNAX_OK && chat_template) {
        tok->tool_template = NULL;
        st = keep_text(tok, &tok->template_text, fx_str_of(chat_template), err);
    }
    if (st != FORNAX_OK) {
        fornax_tokenizer_close(tok);
        return st;
    }
    *out = tok;
    return FORNAX_OK;
}

fornax_status fornax_tokenizer_open(fornax_tokenizer **out, fornax_context *ctx, const char *path, fornax_error *err)
{
    fx_weights *w = NULL;
    fx_status st;

    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(ctx);
    FX_API_NEED(path);
    FX_TRY(fx_api_usable(ctx, err));
    FX_TRY(fx_weights_open(&w, &ctx->mem, path, FX_OPEN_HEADERS, err));
    fx_fpmode old = fx_fpmode_enter();
    st = fx_api_tokenizer_new(out, ctx, w, NULL, err);
    fx_fpmode_leave(old);
    if (st == FORNAX_OK)
        (*out)->weights = w;
    else
        fx_weights_close(w);
    return st;
}

void fornax_tokenizer_close(fornax_tokenizer *tok)
{
    if (!tok)
        return;
    fx_template_free(tok->parsed);
    fx_template_free(tok->parsed_tool);
    fx_tokenizer_free(tok->t);
    json_decref(tok->trusted);
    fx_weights_close(tok->weights);
    pthread_mutex_destroy(&tok->lock);
    fx_arena_done(&tok->arena);
    fx_mem_free(&tok->ctx->mem, tok, sizeof *tok);
}

/* ---- Use ---- */

static fx_status need_vocabulary(const fornax_tokenizer *tok, fx_error *err)
{
    FX_TRY(fx_api_usable(tok->ctx, err));
    if (!tok->t)
        return fx_fail(err, FORNAX_ENOTFOUND, "%s: no tokenizer here, only a chat template",
                       tok->weights ? fx_weights_path(tok->weights) : "model");
    return FORNAX_OK;
}

fornax_status fornax_tokenize(const fornax_tokenizer *tok, const char *text, size_t text_n, unsigned flags, int32_t *ids,
                              size_t cap, size_t *n, fornax_error *err)
{
    unsigned f = (flags & FORNAX_TOKENIZE_SPECIAL ? FX_ENCODE_SPECIAL : 0u) |
                 (flags & FORNAX_TOKENIZE_ADD ? FX_ENCODE_ADD : 0u);
    fx_str s = text_n == SIZE_MAX ? fx_str_of(text) : fx_str_n(text, text_n);
    fx_ids all;
    fx_status st;

    FX_API_NEED(n);
    *n = 0;
    FX_API_NEED(tok);
    if (text_n > 0)
        FX_API_NEED(text);
    if (cap > 0)
        FX_API_NEED(ids);
    if (flags & ~(unsigned)(FORNAX_TOKENIZE_SPECIAL | FORNAX_TOKENIZE_ADD))
        return fx_fail_param(err, FORNAX_EARG, "flags", "flags: expected a sum of FORNAX_TOKENIZE_*, found %u", flags);
    FX_TRY(need_vocabulary(tok, err));
    fx_ids_init(&all, &tok->ctx->mem);
    fx_fpmode old = fx_fpmode_enter();
    st = fx_tokenizer_encode(tok->t, s, NULL, 0, f, &all, err);
    fx_fpmode_leave(old);
    if (st == FORNAX_OK) {
        *n = all.n;
        if (cap > 0 && all.n > 0)
            memcpy(ids, all.at, FX_MIN(cap, all.n) * sizeof *ids);
    }
    fx_ids_done(&all);
    return st;
}

fornax_status fornax_detokenize(const fornax_tokenizer *tok, const int32_t *ids, size_t n, int skip_special,
                                fornax_text **out, fornax_error *err)
{
    fx_buf b;

    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(tok);
    if (n > 0)
        FX_API_NEED(ids);
    FX_TRY(need_vocabulary(tok, err));
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || (size_t)ids[i] >= fx_tokenizer_size(tok->t))
            return fx_fail_param(err, FORNAX_EARG, "ids", "ids[%zu]: expected an id below %zu, found %d", i,
                                 fx_tokenizer_size(tok->t), ids[i]);
    }
    fx_buf_init(&b, &tok->ctx->mem);
    fx_tokenizer_decode(tok->t, ids, n, skip_special != 0, &b);
    return fx_api_text(out, &tok->ctx->mem, &b, err);
}

const char *fornax_token_bytes(const fornax_tokenizer *tok, int32_t id, size_t *n)
{
    fx_str s = tok->t ? fx_tokenizer_bytes(tok->t, id) : (fx_str){ 0 };

    if (n)
        *n = s.n;
    return s.p;
}

int fornax_token_is_special(const fornax_tokenizer *tok, int32_t id) { return tok->t && fx_tokenizer_special(tok->t, id); }

int fornax_token_is_eos(const fornax_tokenizer *tok, int32_t id)
{
    for (size_t i = 0; i < tok->n_eos; i++) {
        if (tok->eos[i] == id)
            return 1;
    }
    return 0;
}

int32_t fornax_token_find(const fornax_tokenizer *tok, const char *text, size_t n)
{
    return tok->t ? fx_tokenizer_find(tok->t, n == SIZE_MAX ? fx_str_of(text) : fx_str_n(text, n)) : -1;
}

int64_t fornax_tokenizer_size(const fornax_tokenizer *tok) { return tok->t ? (int64_t)fx_tokenizer_size(tok->t) : 0; }
const char *fornax_tokenizer_template(const fornax_tokenizer *tok) { return tok->template_text; }
