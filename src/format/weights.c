/* weights.c - opening by what the file is, and the list of tensors. */
#include "format/weights.h"

#include "format/weights_int.h"

/* ---- For the readers --------------------------------------------------------------- */

fx_status fx_weights_map(fx_weights *w, const char *path, fx_file **out, fx_error *err)
{
    FX_TRY(fx_file_map(out, w->mem, path, err));
    if (!FX_VEC_PUSH(&w->files, w->mem, *out)) {
        fx_file_unmap(*out);
        return fx_nomem(err, path);
    }
    return FORNAX_OK;
}

fx_status fx_weight_measure(fx_weight *t, const char *file, fx_error *err)
{
    int64_t last = t->rank > 0 ? t->shape[t->rank - 1] : 1, n = 1;
    int block = fx_dtype_rows[t->dtype].block_elems;
    bool empty = false;

    for (int i = 0; i < t->rank; i++)
        empty = empty || t->shape[i] == 0;
    for (int i = 0; i < t->rank && !empty; i++) {
        if (t->shape[i] > INT64_MAX / n)
            return fx_fail(err, FORNAX_EFORMAT, "%s: tensor %s: expected a number of elements below 2^63, "
                           "found a larger product of its dimensions", file, FX_SHOW(t->name));
        n *= t->shape[i];
    }
    if (last % block != 0)
        return fx_fail(err, FORNAX_EFORMAT, "%s: tensor %s: expected rows of a multiple of %d elements "
                       "(type %s), found %lld", file, FX_SHOW(t->name), block, fx_dtype_name(t->dtype),
                       (long long)last);
    t->n_elems = empty ? 0 : n;
    t->bytes = fx_dtype_row_bytes(t->dtype, t->n_elems);
    if (t->bytes == FX_ROW_BAD)
        return fx_fail(err, FORNAX_EFORMAT, "%s: tensor %s: expected a size below 2^63 bytes, found %lld "
                       "elements of type %s", file, FX_SHOW(t->name), (long long)t->n_elems,
                       fx_dtype_name(t->dtype));
    return FORNAX_OK;
}

/* Where t's bytes are; in an aligned copy if the file has them at an odd place. */
static fx_status place(fx_weights *w, fx_weight *t, fx_error *err)
{
    const char *p = fx_file_bytes(t->file).p + t->offset;

    t->data = p;
    if ((w->flags & FX_OPEN_INSPECT) || (uintptr_t)p % fx_dtype_rows[t->dtype].align == 0)
        return FORNAX_OK;
    t->copied = true;
    t->data = fx_arena_alloc(&w->arena, t->bytes);
    if (!t->data)
        return fx_nomem(err, "an aligned copy of a tensor");
    memcpy((void *)t->data, p, t->bytes);
    return FORNAX_OK;
}

fx_status fx_weights_add(fx_weights *w, fx_weight *t, fx_error *err)
{
    const char *file = fx_file_path(t->file);
    fx_str all = fx_file_bytes(t->file);
    uint64_t other;

    FX_ASSERT(t->offset <= all.n && t->bytes <= all.n - t->offset);
    if (fx_map_get(&w->by_name, t->name, &other)) {
        const char *first = fx_file_path(w->tensors.at[other].file);

        return fx_fail(err, FORNAX_EFORMAT, "%s: tensor %s: expected each name once, found it again%s%s", file,
                       FX_SHOW(t->name), first == file ? "" : " after ", first == file ? "" : first);
    }
    for (int i = t->rank; i < FX_WEIGHT_RANK; i++)
        t->shape[i] = 1;
    FX_TRY(place(w, t, err));
    if (!fx_map_put(&w->by_name, t->name, w->tensors.n) || !FX_VEC_PUSH(&w->tensors, w->mem, *t))
        return fx_nomem(err, "the list of tensors");
    return FORNAX_OK;
}

/* ---- Open and close ------------------------------------------------------------------ */

static bool is_gguf(fx_str b)
{
    return fx_str_starts(b, FX_STR("GGUF")) || fx_str_starts(b, FX_STR("FUGG"));
}

/* A length that fits, then an opening brace. */
static bool is_safetensors(fx_str b)
{
    return b.n > 8 && b.p[8] == '{' && b.p[7] == 0 && b.p[6] == 0 && b.p[5] == 0;
}

static fx_status read_file(fx_weights *w, fx_error *err)
{
    fx_str name = fx_str_of(w->path), bytes;
    fx_file *file;

    FX_TRY(fx_weights_map(w, w->path, &file, err));
    bytes = fx_file_bytes(file);
    if (is_gguf(bytes) || fx_str_ends(name, FX_STR(".gguf"))) {
        w->kind = FX_WEIGHTS_GGUF;
        return fx_gguf_read(w, file, err);
    }
    if (is_safetensors(bytes) || fx_str_ends(name, FX_STR(".safetensors"))) {
        w->kind = FX_WEIGHTS_SAFETENSORS;
        return w->flags & FX_OPEN_HEADERS ? FORNAX_OK : fx_safetensors_read(w, file, err);
    }
    return fx_fail(err, FORNAX_EFORMAT, "%s: expected a GGUF file, a safetensors file or a model folder, "
                   "found none of these", w->path);
}

static fx_status read_any(fx_weights *w, fx_error *err)
{
    fx_str name = fx_str_of(w->path);

    if (fx_path_is_dir(w->path) || ((w->flags & FX_OPEN_HEADERS) && fx_str_ends(name, FX_STR(".json")))) {
        w->kind = FX_WEIGHTS_HUB;
        return fx_hub_read(w, w->path, err);
    }
    return read_file(w, err);
}

/* An empty one; NULL: no memory. */
static fx_weights *new_weights(const fx_mem *mem, const char *path)
{
    fx_weights *w = fx_mem_zalloc(mem, sizeof(*w));

    if (!w)
        return NULL;
    w->mem = mem;
    fx_arena_init(&w->arena, mem, 0);
    fx_map_init(&w->by_name, mem);
    fx_map_init(&w->by_key, mem);
    w->path = fx_arena_strdup(&w->arena, path, strlen(path));
    if (w->path)
        return w;
    fx_weights_close(w);
    return NULL;
}

fx_status fx_weights_open(fx_weights **out, const fx_mem *mem, const char *path, unsigned flags, fx_error *err)
{
    fx_weights *w = new_weights(mem, path);
    fx_status st;

    *out = NULL;
    if (!w)
        return fx_nomem(err, path);
    w->flags = flags;
    st = read_any(w, err);
    if (st != FORNAX_OK) {
        fx_weights_close(w);
        return st;
    }
    *out = w;
    return FORNAX_OK;
}

static fx_status fill(fx_weights *w, fx_str keys, uint64_t n_keys, const fx_weight *tensors, size_t n, fx_error *err)
{
    char *copy = fx_arena_strdup(&w->arena, keys.p, keys.n);

    if (!copy)
        return fx_nomem(err, "metadata");
    w->kind = FX_WEIGHTS_GGUF;
    FX_TRY(fx_gguf_read_keys(w, fx_str_n(copy, keys.n), n_keys, err));
    for (size_t i = 0; i < n; i++) {
        fx_weight t = tensors[i];
        char *name = fx_arena_strdup(&w->arena, t.name.p, t.name.n);

        if (!name)
            return fx_nomem(err, "the names of tensors");
        t.name.p = name;
        if (!fx_map_put(&w->by_name, t.name, w->tensors.n) || !FX_VEC_PUSH(&w->tensors, w->mem, t))
            return fx_nomem(err, "the list of tensors");
    }
    return FORNAX_OK;
}

fx_status fx_weights_make(fx_weights **out, const fx_mem *mem, const char *path, fx_str keys, uint64_t n_keys,
                          const fx_weight *tensors, size_t n, fx_error *err)
{
    fx_weights *w = new_weights(mem, path);
    fx_status st;

    *out = NULL;
    if (!w)
        return fx_nomem(err, path);
    st = fill(w, keys, n_keys, tensors, n, err);
    if (st != FORNAX_OK)
        fx_weights_close(w);
    else
        *out = w;
    return st;
}

void fx_weights_close(fx_weights *w)
{
    if (!w)
        return;
    json_decref(w->config);
    json_decref(w->generation_config);
    json_decref(w->st_metadata);
    for (int i = 0; i < FX_TEXT_FILES; i++)
        fx_file_unmap(w->text[i]);
    for (size_t i = 0; i < w->files.n; i++)
        fx_file_unmap(w->files.at[i]);
    for (size_t i = 0; i < w->made.n; i++)
        fx_pages_free(w->made.at[i].p, w->made.at[i].bytes);
    FX_VEC_FREE(&w->made, w->mem);
    FX_VEC_FREE(&w->files, w->mem);
    FX_VEC_FREE(&w->tensors, w->mem);
    FX_VEC_FREE(&w->meta, w->mem);
    fx_map_done(&w->by_name);
    fx_map_done(&w->by_key);
    fx_arena_done(&w->arena);
    fx_mem_free(w->mem, w, sizeof(*w));
}

/* ---- Queries ---------------------------------------------------------------------------- */

fx_weights_kind fx_weights_kind_of(const fx_weights *w)
{
    return w->kind;
}

const char *fx_weights_path(const fx_weights *w)
{
    return w->path;
}

size_t fx_weights_count(const fx_weights *w)
{
    return w->tensors.n;
}

const fx_weight *fx_weights_at(const fx_weights *w, size_t i)
{
    FX_ASSERT(i < w->tensors.n);
    return &w->tensors.at[i];
}

const fx_weight *fx_weights_find(const fx_weights *w, fx_str name)
{
    uint64_t i;

    return fx_map_get(&w->by_name, name, &i) ? &w->tensors.at[i] : NULL;
}

size_t fx_weights_files(const fx_weights *w)
{
    return w->files.n;
}

const fx_file *fx_weights_file(const fx_weights *w, size_t i)
{
    FX_ASSERT(i < w->files.n);
    return w->files.at[i];
}

uint64_t fx_weights_file_bytes(const fx_weights *w)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < w->files.n; i++)
        sum += fx_file_bytes(w->files.at[i]).n;
    return sum;
}

void fx_weights_release(const fx_weights *w, const fx_weight *t)
{
    (void)w;
    if (t->made)
        return;
    fx_file_release(t->file, fx_file_bytes(t->file).p + t->offset, t->bytes);
}
