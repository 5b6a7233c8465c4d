/* hub.c - a model folder as the Hugging Face hub has it.
 *
 *     config.json                      what the model is; required to run it
 *     generation_config.json           optional
 *     model.safetensors                all weights, or else
 *     model.safetensors.index.json     {"weight_map": {tensor: file name, ...}}
 *     tokenizer.json ...               texts, mapped and handed out as they are
 *
 * File names in the index are taken only if they name a file of this folder. */
#include "format/weights_int.h"

#include <stdlib.h>

#define MIB ((size_t)1 << 20)
#define CONFIG_LIMIT (16 * MIB)
#define INDEX_LIMIT (128 * MIB)
#define TEXT_LIMIT (512 * MIB)

static const char *const text_names[FX_TEXT_FILES] = {
    [FX_TEXT_TOKENIZER] = "tokenizer.json",
    [FX_TEXT_TOKENIZER_CONFIG] = "tokenizer_config.json",
    [FX_TEXT_TEMPLATE] = "chat_template.jinja",
    [FX_TEXT_TEMPLATE_JSON] = "chat_template.json",
    [FX_TEXT_SPECIAL_TOKENS] = "special_tokens_map.json",
    [FX_TEXT_ADDED_TOKENS] = "added_tokens.json",
    [FX_TEXT_SENTENCEPIECE] = "tokenizer.model",
    [FX_TEXT_VOCAB_JSON] = "vocab.json",
    [FX_TEXT_MERGES] = "merges.txt",
    [FX_TEXT_VOCAB_TXT] = "vocab.txt",
    [FX_TEXT_MODULES] = "modules.json",
};

const char *fx_text_file_name(fx_text_file t)
{
    return text_names[t];
}

fx_str fx_weights_text(const fx_weights *w, fx_text_file t)
{
    return w->text[t] ? fx_file_bytes(w->text[t]) : fx_str_n(NULL, 0);
}

/* ---- JSON files ------------------------------------------------------------------------ */

/* Out-of-range values and nesting are jansson's to refuse; it also checks UTF-8. */
fx_status fx_format_json(json_t **out, const char *where, fx_str text, size_t flags, fx_error *err)
{
    json_error_t e;
    json_t *j = json_loadb(text.p, text.n, flags, &e);

    *out = NULL;
    if (!j && json_error_code(&e) == json_error_out_of_memory)
        return fx_nomem(err, where);
    if (!j)
        return fx_fail(err, FORNAX_EFORMAT, "%s: line %d, column %d: %s", where, e.line, e.column,
                       FX_SHOW(fx_str_of(e.text)));
    if (!json_is_object(j)) {
        json_decref(j);
        return fx_fail(err, FORNAX_EFORMAT, "%s: expected a JSON object, found a list", where);
    }
    *out = j;
    return FORNAX_OK;
}

static fx_status check_size(const fx_file *f, size_t limit, fx_error *err)
{
    if (fx_file_bytes(f).n > limit)
        return fx_fail(err, FORNAX_EFORMAT, "%s: expected at most %zu bytes, found %zu", fx_file_path(f), limit,
                       fx_file_bytes(f).n);
    return FORNAX_OK;
}

/* dir/name in the arena. */
static fx_status join(fx_weights *w, const char *dir, const char *name, const char **out, fx_error *err)
{
    fx_buf b;

    fx_buf_init(&b, w->mem);
    *out = fx_path_join(&b, dir, name) ? fx_arena_strdup(&w->arena, b.p, b.n) : NULL;
    fx_buf_done(&b);
    return *out ? FORNAX_OK : fx_nomem(err, "a path");
}

/* Python writes numbers that JSON doesn't have.  The same text with the largest double
 * for infinity and null for NaN; as many lines, so that places in sentences hold. */
static void put_finite(fx_buf *out, fx_str s)
{
    static const struct {
        fx_str word, number;
    } names[] = {
        { { "Infinity", 8 }, { "1.7976931348623157e308", 22 } },      /* a sign stays before it */
        { { "NaN", 3 }, { "null", 4 } },
    };
    bool quoted = false;

    for (size_t i = 0; i < s.n; i++) {
        size_t k = quoted ? FX_COUNT(names) : 0;

        while (k < FX_COUNT(names) && !fx_str_starts(fx_str_n(s.p + i, s.n - i), names[k].word))
            k++;
        if (k < FX_COUNT(names)) {
            fx_buf_str(out, names[k].number);
            i += names[k].word.n - 1;
            continue;
        }
        if (s.p[i] == '"')
            quoted = !quoted;
        else if (quoted && s.p[i] == '\\' && i + 1 < s.n)
            fx_buf_putc(out, s.p[i++]);
        fx_buf_putc(out, s.p[i]);
    }
}

static bool has_infinity(fx_str s)
{
    return fx_str_find(s, FX_STR("Infinity"), 0) != FX_STR_NONE || fx_str_find(s, FX_STR("NaN"), 0) != FX_STR_NONE;
}

static fx_status parse_config(const fx_mem *mem, const char *path, fx_str text, json_t **out, fx_error *err)
{
    fx_status st;
    fx_buf b;

    if (!has_infinity(text))
        return fx_format_json(out, path, text, 0, err);
    fx_buf_init(&b, mem);
    put_finite(&b, text);
    st = b.failed ? fx_nomem(err, path) : fx_format_json(out, path, fx_buf_view(&b), 0, err);
    fx_buf_done(&b);
    return st;
}

static fx_status load_json(fx_weights *w, const char *path, size_t limit, bool python, json_t **out, fx_error *err)
{
    fx_file *f;
    fx_status st;

    *out = NULL;
    FX_TRY(fx_file_map(&f, w->mem, path, err));
    st = check_size(f, limit, err);
    if (st == FORNAX_OK && python)
        st = parse_config(w->mem, path, fx_file_bytes(f), out, err);
    else if (st == FORNAX_OK)
        st = fx_format_json(out, path, fx_file_bytes(f), 0, err);
    fx_file_unmap(f);
    return st;
}

/* *out stays NULL if there is no such file. */
static fx_status load_config(fx_weights *w, const char *dir, const char *name, json_t **out, fx_error *err)
{
    const char *path;

    FX_TRY(join(w, dir, name, &path, err));
    return fx_path_exists(path) ? load_json(w, path, CONFIG_LIMIT, true, out, err) : FORNAX_OK;
}

/* ---- Shards ------------------------------------------------------------------------------ */

static bool is_plain_name(const char *z)
{
    return z[0] && z[0] != '.' && !strchr(z, '/') && !strchr(z, '\\') && strlen(z) < 256;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

typedef FX_VEC(const char *) name_list;

/* The distinct file names of a weight_map, sorted; borrowed from the JSON. */
static fx_status shard_names(fx_weights *w, const char *index, json_t *map, name_list *out, fx_error *err)
{
    fx_status st = FORNAX_OK;
    const char *tensor;
    uint64_t seen;
    fx_map names;
    json_t *v;

    fx_map_init(&names, w->mem);
    json_object_foreach(map, tensor, v) {
        const char *z = json_string_value(v);

        if (!z || !is_plain_name(z)) {
            st = fx_fail_param(err, FORNAX_EFORMAT, "weight_map", "%s: weight_map: %s: expected the name of a file in "
                               "this folder, found %s", index, FX_SHOW(fx_str_of(tensor)),
                               z ? FX_SHOW(fx_str_of(z)) : "something else");
            break;
        }
        if (fx_map_get(&names, fx_str_of(z), &seen))
            continue;
        if (!fx_map_put(&names, fx_str_of(z), 1) || !FX_VEC_PUSH(out, w->mem, z)) {
            st = fx_nomem(err, "the list of shards");
            break;
        }
    }
    fx_map_done(&names);
    if (st == FORNAX_OK && out->n > 0)
        qsort(out->at, out->n, sizeof(*out->at), by_name);
    return st;
}

static fx_status read_shard(fx_weights *w, const char *dir, const char *index, const char *name, fx_error *err)
{
    const char *path;
    fx_file *file;

    FX_TRY(join(w, dir, name, &path, err));
    if (!fx_path_exists(path))
        return fx_fail_param(err, FORNAX_ENOTFOUND, "weight_map", "%s: expected the file %s beside it, found none",
                             index, FX_SHOW(fx_str_of(name)));
    FX_TRY(fx_weights_map(w, path, &file, err));
    return fx_safetensors_read(w, file, err);
}

/* Each tensor of the map is in the file that the map names. */
static fx_status check_map(const fx_weights *w, const char *index, json_t *map, fx_error *err)
{
    const char *tensor;
    json_t *v;

    json_object_foreach(map, tensor, v) {
        const fx_weight *t = fx_weights_find(w, fx_str_of(tensor));
        const char *name = json_string_value(v);
        fx_str path = fx_str_of(t ? fx_file_path(t->file) : "");
        size_t n = strlen(name);

        if (!t || path.n <= n || memcmp(path.p + path.n - n, name, n) != 0 || path.p[path.n - n - 1] != '/')
            return fx_fail_param(err, FORNAX_EFORMAT, FX_SHOW(fx_str_of(tensor)), "%s: weight_map: expected tensor %s "
                                 "in %s, found it %s%s", index, FX_SHOW(fx_str_of(tensor)), FX_SHOW(fx_str_of(name)),
                                 t ? "in " : "nowhere", path.p);
    }
    return FORNAX_OK;
}

static fx_status read_shards(fx_weights *w, const char *dir, const char *index, json_t *json, fx_error *err)
{
    json_t *map = json_object_get(json, "weight_map");
    name_list names = { 0 };
    fx_status st;

    if (!json_is_object(map))
        return fx_fail_param(err, FORNAX_EFORMAT, "weight_map", "%s: weight_map: expected an object, found %s", index,
                             map ? "something else" : "none");
    st = shard_names(w, index, map, &names, err);
    for (size_t i = 0; i < names.n && st == FORNAX_OK; i++)
        st = read_shard(w, dir, index, names.at[i], err);
    FX_VEC_FREE(&names, w->mem);
    return st == FORNAX_OK ? check_map(w, index, map, err) : st;
}

static fx_status read_weights(fx_weights *w, const char *dir, fx_error *err)
{
    const char *single, *index, *torch;
    json_t *json;
    fx_file *file;
    fx_status st;

    FX_TRY(join(w, dir, "model.safetensors", &single, err));
    FX_TRY(join(w, dir, "model.safetensors.index.json", &index, err));
    FX_TRY(join(w, dir, "pytorch_model.bin", &torch, err));
    if (fx_path_exists(single)) {
        FX_TRY(fx_weights_map(w, single, &file, err));
        return fx_safetensors_read(w, file, err);
    }
    if (!fx_path_exists(index))
        return fx_fail(err, FORNAX_ENOTFOUND, "%s: expected model.safetensors or model.safetensors.index.json, found "
                       "%s", dir, fx_path_exists(torch) ? "only pytorch_model.bin, which is not supported" : "neither");
    FX_TRY(load_json(w, index, INDEX_LIMIT, false, &json, err));
    st = read_shards(w, dir, index, json, err);
    json_decref(json);
    return st;
}

/* ---- The folder ----------------------------------------------------------------------------- */

static fx_status map_text(fx_weights *w, const char *path, fx_text_file t, fx_error *err)
{
    FX_TRY(fx_file_map(&w->text[t], w->mem, path, err));
    return check_size(w->text[t], TEXT_LIMIT, err);
}

static fx_status map_texts(fx_weights *w, const char *dir, fx_error *err)
{
    for (int t = 0; t < FX_TEXT_FILES; t++) {
        const char *path;

        FX_TRY(join(w, dir, text_names[t], &path, err));
        if (!w->text[t] && fx_path_exists(path))
            FX_TRY(map_text(w, path, (fx_text_file)t, err));
    }
    return FORNAX_OK;
}

static fx_status read_folder(fx_weights *w, const char *dir, fx_error *err)
{
    FX_TRY(load_config(w, dir, "config.json", &w->config, err));
    FX_TRY(load_config(w, dir, "generation_config.json", &w->generation_config, err));
    FX_TRY(map_texts(w, dir, err));
    if (w->flags & FX_OPEN_HEADERS)
        return FORNAX_OK;
    if (!w->config && !(w->flags & FX_OPEN_INSPECT))
        return fx_fail(err, FORNAX_ENOTFOUND, "%s: expected a config.json, found none", dir);
    FX_TRY(read_weights(w, dir, err));
    return w->flags & FX_OPEN_INSPECT ? FORNAX_OK : fx_hub_requant(w, err);
}

/* "a/b.json" is a tokenizer.json by any name; its neighbours belong to it only if it has
 * the usual one. */
static fx_status read_tokenizer_file(fx_weights *w, const char *path, fx_error *err)
{
    const char *slash = strrchr(path, '/'), *dir = ".";

    FX_TRY(map_text(w, path, FX_TEXT_TOKENIZER, err));
    if (strcmp(slash ? slash + 1 : path, text_names[FX_TEXT_TOKENIZER]) != 0)
        return FORNAX_OK;
    if (slash)
        dir = fx_arena_strdup(&w->arena, path, slash == path ? 1 : (size_t)(slash - path));
    return dir ? read_folder(w, dir, err) : fx_nomem(err, "a path");
}

fx_status fx_hub_read(fx_weights *w, const char *path, fx_error *err)
{
    return fx_path_is_dir(path) ? read_folder(w, path, err) : read_tokenizer_file(w, path, err);
}
