/* gguf.c - the reader of GGUF files, versions 2 and 3.
 *
 *     "GGUF" | version u32 | n_tensors u64 | n_keys u64
 *     key:     name string | type u32 | value                        n_keys times
 *     tensor:  name string | n_dims u32 | dims u64 each, innermost first
 *              | type u32 | offset u64                                n_tensors times
 *     padding to general.alignment (32 unless the file says otherwise)
 *     data; offsets count from here
 *
 * A string is its length (u64) and that many bytes; an array is the type of its
 * elements (u32), their number (u64) and their values.  All little-endian.
 *
 * A model may be split into several such files, whose tensors come together here.
 *
 * One pass over the header through a cursor that can't leave the file.  Nothing is
 * allocated for a number that the file claims: lists grow as their entries are read,
 * and arrays stay where they are, checked but not copied (format/meta.c). */
#include "format/weights_int.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_DIMS = 4, MAX_NESTING = 4 };
#define MAX_ALIGNMENT 65536u

typedef struct cursor {
    const char *file;            /* for sentences */
    fx_str bytes;
    size_t at;
    fx_error *err;
} cursor;

/* ---- Numbers and strings ------------------------------------------------------------- */

static size_t left(const cursor *c)
{
    return c->bytes.n - c->at;
}

static fx_status ends_early(const cursor *c, const char *what, uint64_t n)
{
    return fx_fail(c->err, FORNAX_EFORMAT, "%s: offset %zu: expected %s (%llu bytes), found %zu bytes to the end",
                   c->file, c->at, what, (unsigned long long)n, left(c));
}

static fx_status take(cursor *c, int n, const char *what, uint64_t *out)
{
    *out = 0;
    if (left(c) < (size_t)n)
        return ends_early(c, what, (uint64_t)n);
    *out = fx_le_read(c->bytes.p + c->at, n);
    c->at += (size_t)n;
    return FORNAX_OK;
}

static fx_status take_str(cursor *c, const char *what, fx_str *out)
{
    uint64_t n;

    FX_TRY(take(c, 8, what, &n));
    if (n > left(c))
        return ends_early(c, what, n);
    *out = fx_str_n(c->bytes.p + c->at, (size_t)n);
    c->at += (size_t)n;
    return FORNAX_OK;
}

/* ---- Values ----------------------------------------------------------------------------- */

static fx_status take_type(cursor *c, fx_str key, fx_meta_type *out)
{
    uint64_t t;

    FX_TRY(take(c, 4, "the type of a value", &t));
    if (t >= FX_META_TYPES)
        return fx_fail_param(c->err, FORNAX_EFORMAT, FX_SHOW(key), "%s: key %s: offset %zu: expected a value type "
                             "from 0 to %d, found %llu", c->file, FX_SHOW(key), c->at - 4, FX_META_TYPES - 1,
                             (unsigned long long)t);
    *out = (fx_meta_type)t;
    return FORNAX_OK;
}

static fx_status check_bool(const cursor *c, fx_str key, size_t at)
{
    unsigned char b = (unsigned char)c->bytes.p[at];

    if (b > 1)
        return fx_fail_param(c->err, FORNAX_EFORMAT, FX_SHOW(key), "%s: key %s: offset %zu: expected a bool, 0 or 1, "
                             "found %d", c->file, FX_SHOW(key), at, b);
    return FORNAX_OK;
}

static fx_status skip_array(cursor *c, fx_str key, fx_meta *m, int nesting);

/* Elements without a fixed size: walked, so that getters may trust them. */
static fx_status skip_elements(cursor *c, fx_str key, fx_meta_type type, uint64_t n, int nesting)
{
    fx_meta inner;
    fx_str s;

    for (uint64_t i = 0; i < n; i++) {
        if (type == FX_META_STR)
            FX_TRY(take_str(c, "a string of an array", &s));
        else
            FX_TRY(skip_array(c, key, &inner, nesting + 1));
    }
    return FORNAX_OK;
}

static fx_status skip_array(cursor *c, fx_str key, fx_meta *m, int nesting)
{
    size_t at = c->at, each;
    fx_meta_type type;
    uint64_t n;

    if (nesting > MAX_NESTING)
        return fx_fail_param(c->err, FORNAX_EUNSUP, FX_SHOW(key), "%s: key %s: offset %zu: expected arrays nested at "
                             "most %d deep", c->file, FX_SHOW(key), at, MAX_NESTING);
    FX_TRY(take_type(c, key, &type));
    FX_TRY(take(c, 8, "the length of an array", &n));
    /* the least an element takes: a string's or an array's own length */
    each = fx_meta_bytes[type] ? fx_meta_bytes[type] : type == FX_META_STR ? 8 : 12;
    if (n > left(c) / each)
        return fx_fail_param(c->err, FORNAX_EFORMAT, FX_SHOW(key), "%s: key %s: offset %zu: expected an array that "
                             "fits in the file, found %llu elements of type %s and %zu bytes to the end", c->file,
                             FX_SHOW(key), at, (unsigned long long)n, fx_meta_type_name(type), left(c));
    m->type = FX_META_ARRAY;
    m->v.array.type = type;
    m->v.array.n = n;
    m->v.array.bytes.p = c->bytes.p + c->at;
    if (type == FX_META_BOOL)
        for (size_t i = 0; i < n; i++)
            FX_TRY(check_bool(c, key, c->at + i));
    if (fx_meta_bytes[type])
        c->at += (size_t)n * each;
    else
        FX_TRY(skip_elements(c, key, type, n, nesting));
    m->v.array.bytes.n = (size_t)(c->bytes.p + c->at - m->v.array.bytes.p);
    return FORNAX_OK;
}

static fx_status take_value(cursor *c, fx_meta *m)
{
    size_t n = fx_meta_bytes[m->type];

    if (m->type == FX_META_STR)
        return take_str(c, "a string value", &m->v.s);
    if (m->type == FX_META_ARRAY)
        return skip_array(c, m->key, m, 0);
    if (n > left(c))
        return ends_early(c, "a value", n);
    if (m->type == FX_META_BOOL)
        FX_TRY(check_bool(c, m->key, c->at));
    fx_meta_decode(c->bytes.p + c->at, m);
    c->at += n;
    return FORNAX_OK;
}

static fx_status read_keys(fx_weights *w, cursor *c, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        size_t at = c->at;
        uint64_t other;
        fx_meta m = { 0 };

        FX_TRY(take_str(c, "the name of a key", &m.key));
        FX_TRY(take_type(c, m.key, &m.type));
        FX_TRY(take_value(c, &m));
        if (fx_map_get(&w->by_key, m.key, &other))
            return fx_fail_param(c->err, FORNAX_EFORMAT, FX_SHOW(m.key), "%s: key %s: offset %zu: expected each key "
                                 "once, found it again", c->file, FX_SHOW(m.key), at);
        if (!fx_map_put(&w->by_key, m.key, w->meta.n) || !FX_VEC_PUSH(&w->meta, w->mem, m))
            return fx_nomem(c->err, "the keys of a GGUF file");
    }
    return FORNAX_OK;
}

/* ---- Tensors ------------------------------------------------------------------------------ */

/* The element types by the number that stands in files; dtype FX_CHAIN: known to GGML,
 * not to this build; name NULL: never given out, or withdrawn. */
static const struct {
    const char *name;
    fx_dtype dtype;
} ggml_types[] = {
    [0] = { "F32", FX_F32 },          [1] = { "F16", FX_F16 },          [2] = { "Q4_0", FX_Q4_0 },
    [3] = { "Q4_1", FX_Q4_1 },        [4] = { "Q4_2", FX_CHAIN },       [5] = { "Q4_3", FX_CHAIN },
    [6] = { "Q5_0", FX_Q5_0 },        [7] = { "Q5_1", FX_Q5_1 },        [8] = { "Q8_0", FX_Q8_0 },
    [9] = { "Q8_1", FX_CHAIN },       [10] = { "Q2_K", FX_Q2_K },       [11] = { "Q3_K", FX_Q3_K },
    [12] = { "Q4_K", FX_Q4_K },       [13] = { "Q5_K", FX_Q5_K },       [14] = { "Q6_K", FX_Q6_K },
    [15] = { "Q8_K", FX_CHAIN },      [16] = { "IQ2_XXS", FX_IQ2_XXS },   [17] = { "IQ2_XS", FX_IQ2_XS },
    [18] = { "IQ3_XXS", FX_IQ3_XXS },   [19] = { "IQ1_S", FX_IQ1_S },     [20] = { "IQ4_NL", FX_IQ4_NL },
    [21] = { "IQ3_S", FX_IQ3_S },     [22] = { "IQ2_S", FX_IQ2_S },     [23] = { "IQ4_XS", FX_IQ4_XS },
    [24] = { "I8", FX_I8 },           [25] = { "I16", FX_I16 },         [26] = { "I32", FX_I32 },
    [27] = { "I64", FX_I64 },         [28] = { "F64", FX_F64 },         [29] = { "IQ1_M", FX_IQ1_M },
    [30] = { "BF16", FX_BF16 },       [31] = { "Q4_0_4_4", FX_CHAIN },  [32] = { "Q4_0_4_8", FX_CHAIN },
    [33] = { "Q4_0_8_8", FX_CHAIN },  [34] = { "TQ1_0", FX_TQ1_0 },     [35] = { "TQ2_0", FX_TQ2_0 },
    [36] = { "IQ4_NL_4_4", FX_CHAIN }, [37] = { "IQ4_NL_4_8", FX_CHAIN }, [38] = { "IQ4_NL_8_8", FX_CHAIN },
    [39] = { "MXFP4", FX_MXFP4 },     [40] = { "NVFP4", FX_CHAIN },     [41] = { "Q1_0", FX_CHAIN },
};

int fx_gguf_type_number(fx_dtype t)
{
    for (size_t i = 0; t != FX_CHAIN && i < FX_COUNT(ggml_types); i++) {
        if (ggml_types[i].name && ggml_types[i].dtype == t)
            return (int)i;
    }
    return -1;
}

static fx_status take_dtype(cursor *c, fx_weight *t)
{
    uint64_t number;

    FX_TRY(take(c, 4, "the type of a tensor", &number));
    if (number >= FX_COUNT(ggml_types) || !ggml_types[number].name)
        return fx_fail_param(c->err, FORNAX_EFORMAT, FX_SHOW(t->name), "%s: tensor %s: offset %zu: expected a GGML "
                             "type from 0 to %d, found %llu", c->file, FX_SHOW(t->name), c->at - 4,
                             (int)FX_COUNT(ggml_types) - 1, (unsigned long long)number);
    t->dtype = ggml_types[number].dtype;
    if (t->dtype == FX_CHAIN)
        return fx_fail_param(c->err, FORNAX_EUNSUP, FX_SHOW(t->name), "%s: tensor %s: GGML type %s (%llu) is not "
                             "supported", c->file, FX_SHOW(t->name), ggml_types[number].name,
                             (unsigned long long)number);
    return FORNAX_OK;
}

static fx_status take_shape(cursor *c, fx_weight *t)
{
    uint64_t n_dims, dim;

    FX_TRY(take(c, 4, "the number of dimensions of a tensor", &n_dims));
    if (n_dims > MAX_DIMS)
        return fx_fail_param(c->err, FORNAX_EFORMAT, FX_SHOW(t->name), "%s: tensor %s: offset %zu: expected at most "
                             "%d dimensions, found %llu", c->file, FX_SHOW(t->name), c->at - 4, MAX_DIMS,
                             (unsigned long long)n_dims);
    t->rank = (int)n_dims;
    for (int i = t->rank - 1; i >= 0; i--) {         /* the file has the innermost first */
        FX_TRY(take(c, 8, "a dimension of a tensor", &dim));
        if (dim > INT64_MAX)
            return fx_fail_param(c->err, FORNAX_EFORMAT, FX_SHOW(t->name), "%s: tensor %s: offset %zu: expected a "
                                 "dimension below 2^63, found %llu", c->file, FX_SHOW(t->name), c->at - 8,
                                 (unsigned long long)dim);
        t->shape[i] = (int64_t)dim;
    }
    return FORNAX_OK;
}

typedef FX_VEC(fx_weight) weight_list;

/* Offsets of the list count from the start of the data until check_data. */
static fx_status read_tensors(fx_weights *w, fx_file *file, cursor *c, uint64_t n, weight_list *list)
{
    for (uint64_t i = 0; i < n; i++) {
        fx_weight t = { .file = file };

        FX_TRY(take_str(c, "the name of a tensor", &t.name));
        FX_TRY(take_shape(c, &t));
        FX_TRY(take_dtype(c, &t));
        FX_TRY(take(c, 8, "the offset of a tensor", &t.offset));
        FX_TRY(fx_weight_measure(&t, c->file, c->err));
        if (!FX_VEC_PUSH(list, w->mem, t))
            return fx_nomem(c->err, "the tensors of a GGUF file");
    }
    return FORNAX_OK;
}

static fx_status check_place(const cursor *c, fx_weight *t, size_t start, uint64_t alignment)
{
    size_t room = c->bytes.n - start;

    if (t->offset % alignment != 0)
        return fx_fail_param(c->err, FORNAX_EFORMAT, FX_SHOW(t->name), "%s: tensor %s: expected an offset that is a "
                             "multiple of %llu, found %llu", c->file, FX_SHOW(t->name),
                             (unsigned long long)alignment, (unsigned long long)t->offset);
    if (t->offset > room || t->bytes > room - t->offset)
        return fx_fail_param(c->err, FORNAX_EFORMAT, FX_SHOW(t->name), "%s: tensor %s: expected its data within the "
                             "%zu bytes after offset %zu, found %zu bytes at %llu there (is the file incomplete?)",
                             c->file, FX_SHOW(t->name), room, start, t->bytes, (unsigned long long)t->offset);
    t->offset += start;
    return FORNAX_OK;
}

static int by_offset(const void *a, const void *b)
{
    const fx_weight *x = *(fx_weight *const *)a, *y = *(fx_weight *const *)b;

    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static fx_status check_overlap(fx_weights *w, const cursor *c, weight_list *list)
{
    fx_weight **sorted = fx_mem_array(w->mem, list->n + 1, sizeof(*sorted));
    const fx_weight *last = NULL;
    fx_status st = FORNAX_OK;

    if (!sorted)
        return fx_nomem(c->err, "the tensors of a GGUF file");
    for (size_t i = 0; i < list->n; i++)
        sorted[i] = &list->at[i];
    qsort(sorted, list->n, sizeof(*sorted), by_offset);
    for (size_t i = 0; i < list->n && st == FORNAX_OK; i++) {
        const fx_weight *b = sorted[i];

        if (b->bytes == 0)
            continue;
        if (last && last->offset + last->bytes > b->offset)
            st = fx_fail_param(c->err, FORNAX_EFORMAT, FX_SHOW(b->name), "%s: tensor %s: expected its data after that "
                               "of %s, which ends at offset %llu, found it at %llu", c->file, FX_SHOW(b->name),
                               FX_SHOW(last->name), (unsigned long long)(last->offset + last->bytes),
                               (unsigned long long)b->offset);
        last = b;
    }
    fx_mem_free(w->mem, sorted, (list->n + 1) * sizeof(*sorted));
    return st;
}

/* general.alignment: a u32, a power of two; a large one would only make a small file claim much. */
static fx_status find_alignment(const fx_weights *w, const cursor *c, uint64_t *out)
{
    const fx_meta *m = fx_meta_find(w, "general.alignment");

    *out = m && m->type == FX_META_U32 ? m->v.u : 32;
    if (m && m->type != FX_META_U32)
        return fx_fail_param(c->err, FORNAX_EFORMAT, "general.alignment", "%s: key general.alignment: expected a u32, found %s",
                             c->file, fx_meta_type_name(m->type));
    if (*out == 0 || *out > MAX_ALIGNMENT || (*out & (*out - 1)) != 0)
        return fx_fail_param(c->err, FORNAX_EFORMAT, "general.alignment", "%s: key general.alignment: expected a power "
                             "of two up to %u, found %llu", c->file, MAX_ALIGNMENT, (unsigned long long)*out);
    return FORNAX_OK;
}

/* keys: of this file. */
static fx_status add_tensors(fx_weights *w, const fx_weights *keys, cursor *c, weight_list *list)
{
    uint64_t alignment;
    size_t pad, start;

    FX_TRY(find_alignment(keys, c, &alignment));
    pad = (size_t)((alignment - c->at % alignment) % alignment);
    start = pad > left(c) ? c->bytes.n : c->at + pad;        /* a file without data may end before it */
    for (size_t i = 0; i < list->n; i++)
        FX_TRY(check_place(c, &list->at[i], start, alignment));
    FX_TRY(check_overlap(w, c, list));
    if (!fx_map_reserve(&w->by_name, list->n))
        return fx_nomem(c->err, "the names of tensors");
    for (size_t i = 0; i < list->n; i++)
        FX_TRY(fx_weights_add(w, &list->at[i], c->err));
    return FORNAX_OK;
}

static fx_status read_data(fx_weights *w, const fx_weights *keys, fx_file *file, cursor *c, uint64_t n_tensors)
{
    weight_list list = { 0 };
    fx_status st;

    if (n_tensors > left(c) / 24)
        return fx_fail(c->err, FORNAX_EFORMAT, "%s: offset 8: expected a number of tensors that fits in the file, "
                       "found %llu", c->file, (unsigned long long)n_tensors);
    st = read_tensors(w, file, c, n_tensors, &list);
    if (st == FORNAX_OK)
        st = add_tensors(w, keys, c, &list);
    FX_VEC_FREE(&list, w->mem);
    return st;
}

/* ---- The file ------------------------------------------------------------------------------- */

static fx_status check_version(fx_weights *w, cursor *c)
{
    uint64_t version;

    if (!fx_str_starts(c->bytes, FX_STR("GGUF"))) {
        if (fx_str_starts(c->bytes, FX_STR("FUGG")))
            return fx_fail(c->err, FORNAX_EUNSUP, "%s: big-endian GGUF files are not supported", c->file);
        return fx_fail(c->err, FORNAX_EFORMAT, "%s: expected a file that begins with GGUF, found %s", c->file,
                       c->bytes.n ? FX_SHOW(fx_str_n(c->bytes.p, FX_MIN(c->bytes.n, (size_t)4))) : "an empty file");
    }
    c->at = 4;
    FX_TRY(take(c, 4, "the version", &version));
    if (version == 2 || version == 3) {
        w->gguf_version = (int)version;
        return FORNAX_OK;
    }
    if ((version & 0xffff) == 0 && version != 0)
        return fx_fail(c->err, FORNAX_EUNSUP, "%s: big-endian GGUF files are not supported", c->file);
    return fx_fail(c->err, version == 1 || version > 3 ? FORNAX_EUNSUP : FORNAX_EFORMAT,
                   "%s: expected GGUF version 2 or 3, found %llu", c->file, (unsigned long long)version);
}

/* The keys go to 'keys'; c is left where the tensors begin. */
static fx_status read_header(fx_weights *keys, cursor *c, uint64_t *n_tensors)
{
    uint64_t n_keys;

    FX_TRY(check_version(keys, c));
    FX_TRY(take(c, 8, "the number of tensors", n_tensors));
    FX_TRY(take(c, 8, "the number of keys", &n_keys));
    /* the least a key takes is 13 bytes, a tensor 24 */
    if (n_keys > left(c) / 13)
        return fx_fail(c->err, FORNAX_EFORMAT, "%s: offset 16: expected a number of keys that fits in the file, found "
                       "%llu", c->file, (unsigned long long)n_keys);
    return read_keys(keys, c, n_keys);
}

fx_status fx_gguf_read_keys(fx_weights *w, fx_str bytes, uint64_t n, fx_error *err)
{
    cursor c = { w->path, bytes, 0, err };

    w->gguf_version = 3;
    FX_TRY(read_keys(w, &c, n));
    FX_ASSERT(left(&c) == 0);
    return FORNAX_OK;
}

/* ---- Models in several files ------------------------------------------------------------------
 *
 * Part i of n is NAME-0000i-of-0000n.gguf; split.no counts from 0.  The first part has the
 * model's metadata, the others what places them. */

enum { MAX_PARTS = 99999, SUFFIX = 20 };         /* "-00001-of-00003.gguf" */

static void part_suffix(char out[SUFFIX + 16], int64_t i, int64_t n)
{
    snprintf(out, SUFFIX + 16, "-%05lld-of-%05lld.gguf", (long long)i + 1, (long long)n);
}

/* split.no and split.count of a file; a whole model is part 0 of 1. */
static fx_status read_place(const fx_weights *keys, const cursor *c, int64_t *no, int64_t *count)
{
    *no = 0;
    *count = 1;
    FX_TRY(fx_meta_opt_i64(keys, "split.count", count, c->err));
    FX_TRY(fx_meta_opt_i64(keys, "split.no", no, c->err));
    if (*count == 0 && *no == 0)
        *count = 1;
    if (*count < 1 || *count > MAX_PARTS || *no < 0 || *no >= *count)
        return fx_fail_param(c->err, FORNAX_EFORMAT, "split.no", "%s: keys split.no and split.count: expected a part "
                             "of at most %d, found %lld of %lld", c->file, MAX_PARTS, (long long)*no,
                             (long long)*count);
    return FORNAX_OK;
}

/* The path of part i, from that of part 'no'. */
static fx_status part_path(fx_weights *w, const cursor *c, int64_t no, int64_t i, int64_t count, const char **out)
{
    char suffix[SUFFIX + 16];
    size_t n = strlen(c->file);

    part_suffix(suffix, no, count);
    if (n < SUFFIX || strcmp(c->file + n - SUFFIX, suffix) != 0)
        return fx_fail_param(c->err, FORNAX_EFORMAT, "split.no", "%s: expected a name that ends in %s, because the "
                             "file is part %lld of %lld", c->file, suffix, (long long)no + 1, (long long)count);
    part_suffix(suffix, i, count);
    *out = fx_arena_printf(&w->arena, "%.*s%s", (int)(n - SUFFIX), c->file, suffix);
    return *out ? FORNAX_OK : fx_nomem(c->err, "a path");
}

static fx_status map_part(fx_weights *w, const char *path, const cursor *from, int64_t i, int64_t count, fx_file **out)
{
    if (!fx_path_exists(path))
        return fx_fail_param(from->err, FORNAX_ENOTFOUND, "split.count", "%s: expected part %lld of %lld beside it, "
                             "found no file %s", from->file, (long long)i + 1, (long long)count, path);
    return fx_weights_map(w, path, out, from->err);
}

/* Reads a part whose keys are wanted for this only. */
static fx_status read_part(fx_weights *w, fx_file *file, int64_t i, int64_t count, fx_error *err)
{
    cursor c = { fx_file_path(file), fx_file_bytes(file), 0, err };
    fx_weights keys = { .mem = w->mem, .flags = w->flags };
    int64_t no, of;
    uint64_t n_tensors;
    fx_status st;

    fx_map_init(&keys.by_key, w->mem);
    st = read_header(&keys, &c, &n_tensors);
    if (st == FORNAX_OK)
        st = read_place(&keys, &c, &no, &of);
    if (st == FORNAX_OK && (no != i || of != count))
        st = fx_fail_param(err, FORNAX_EFORMAT, "split.no", "%s: expected part %lld of %lld, found part %lld of %lld",
                           c.file, (long long)i + 1, (long long)count, (long long)no + 1, (long long)of);
    if (st == FORNAX_OK)
        st = read_data(w, &keys, file, &c, n_tensors);
    fx_map_done(&keys.by_key);
    FX_VEC_FREE(&keys.meta, w->mem);
    return st;
}

/* All parts, of which c is the first, its keys read. */
static fx_status read_parts(fx_weights *w, fx_file *file, cursor *c, uint64_t n_tensors, int64_t count)
{
    int64_t expected = -1;

    FX_TRY(read_data(w, w, file, c, n_tensors));
    for (int64_t i = 1; i < count; i++) {
        const char *path;
        fx_file *part;

        FX_TRY(part_path(w, c, 0, i, count, &path));
        FX_TRY(map_part(w, path, c, i, count, &part));
        FX_TRY(read_part(w, part, i, count, c->err));
    }
    FX_TRY(fx_meta_opt_i64(w, "split.tensors.count", &expected, c->err));
    if (expected >= 0 && (uint64_t)expected != w->tensors.n)
        return fx_fail_param(c->err, FORNAX_EFORMAT, "split.tensors.count", "%s: expected %lld tensors in its %lld "
                             "parts, found %zu", c->file, (long long)expected, (long long)count, w->tensors.n);
    return FORNAX_OK;
}

/* A part that isn't the first was opened: the first takes its place. */
static fx_status go_to_first(fx_weights *w, const cursor *c, int64_t no, int64_t count, fx_file **file)
{
    const char *path;
    fx_file *first;

    FX_TRY(part_path(w, c, no, 0, count, &path));
    FX_TRY(map_part(w, path, c, 0, count, &first));
    FX_ASSERT(w->files.n == 2);
    w->files.n = 0;
    FX_VEC_PUSH(&w->files, w->mem, first);
    fx_map_done(&w->by_key);
    fx_map_init(&w->by_key, w->mem);
    w->meta.n = 0;
    fx_file_unmap(*file);
    *file = first;
    return FORNAX_OK;
}

fx_status fx_gguf_read(fx_weights *w, fx_file *file, fx_error *err)
{
    cursor c = { fx_file_path(file), fx_file_bytes(file), 0, err };
    int64_t no, count, first_count;
    uint64_t n_tensors;

    FX_TRY(read_header(w, &c, &n_tensors));
    FX_TRY(read_place(w, &c, &no, &count));
    if (no > 0) {
        FX_TRY(go_to_first(w, &c, no, count, &file));
        c = (cursor){ fx_file_path(file), fx_file_bytes(file), 0, err };
        FX_TRY(read_header(w, &c, &n_tensors));
        FX_TRY(read_place(w, &c, &no, &first_count));
        if (no != 0 || first_count != count)
            return fx_fail_param(err, FORNAX_EFORMAT, "split.no", "%s: expected part 1 of %lld, found part %lld of "
                                 "%lld", c.file, (long long)count, (long long)no + 1, (long long)first_count);
    }
    if (w->flags & FX_OPEN_HEADERS)
        return FORNAX_OK;
    return count > 1 ? read_parts(w, file, &c, n_tensors, count) : read_data(w, w, file, &c, n_tensors);
}
