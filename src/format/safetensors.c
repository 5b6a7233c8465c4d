/* safetensors.c - the reader of one safetensors file.
 *
 *     n u64, little-endian | header: n bytes of JSON | data
 *     header: {"__metadata__": {name: text, ...},
 *              tensor: {"dtype": "BF16", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
 *
 * Offsets count from the start of the data.  As in the reference library the tensors
 * must cover the data exactly: in order of their offsets each begins where the one
 * before ends, and the last ends with the file. */
#include "format/weights_int.h"

#include <stdlib.h>

/* The reference library's own limit. */
#define HEADER_LIMIT 100000000u

typedef struct reader {
    fx_weights *w;
    fx_file *file;
    const char *path;
    size_t start;                /* of the data, in the file */
    size_t room;                 /* bytes of data */
    FX_VEC(fx_weight) list;
    fx_error *err;
} reader;

static fx_status bad(const reader *r, fx_str name, const char *expected, const char *found)
{
    return fx_fail_param(r->err, FORNAX_EFORMAT, FX_SHOW(name), "%s: tensor %s: expected %s, found %s", r->path,
                         FX_SHOW(name), expected, found);
}

static const struct {
    const char *name;
    fx_dtype dtype;              /* FX_CHAIN: known, but not to this build */
} dtypes[] = {
    { "F64", FX_F64 },   { "F32", FX_F32 },   { "F16", FX_F16 },   { "BF16", FX_BF16 },
    { "I64", FX_I64 },   { "I32", FX_I32 },   { "I16", FX_I16 },   { "I8", FX_I8 },
    { "U64", FX_U64 },   { "U32", FX_U32 },   { "U16", FX_U16 },   { "U8", FX_U8 },
    { "BOOL", FX_BOOL }, { "F8_E4M3", FX_F8E4M3 }, { "F8_E5M2", FX_F8E5M2 },
    { "F8_E8M0", FX_CHAIN }, { "F8_E4M3FNUZ", FX_CHAIN }, { "F8_E5M2FNUZ", FX_CHAIN }, { "F4", FX_CHAIN },
    { "F6_E2M3", FX_CHAIN }, { "F6_E3M2", FX_CHAIN }, { "C64", FX_CHAIN },
};

static fx_status read_dtype(const reader *r, fx_weight *t, json_t *j)
{
    const char *z = json_string_value(j);

    if (!z)
        return bad(r, t->name, "dtype: a string", "something else");
    for (size_t i = 0; i < FX_COUNT(dtypes); i++) {
        if (strcmp(z, dtypes[i].name) != 0)
            continue;
        t->dtype = dtypes[i].dtype;
        if (t->dtype == FX_CHAIN)
            return fx_fail_param(r->err, FORNAX_EUNSUP, FX_SHOW(t->name), "%s: tensor %s: element type %s is not "
                                 "supported", r->path, FX_SHOW(t->name), z);
        return FORNAX_OK;
    }
    return bad(r, t->name, "dtype: a name of an element type", FX_SHOW(fx_str_of(z)));
}

static fx_status read_shape(const reader *r, fx_weight *t, json_t *j)
{
    if (!json_is_array(j))
        return bad(r, t->name, "shape: a list of integers", "something else");
    if (json_array_size(j) > FX_WEIGHT_RANK)
        return fx_fail_param(r->err, FORNAX_EUNSUP, FX_SHOW(t->name), "%s: tensor %s: expected at most %d dimensions, "
                             "found %zu", r->path, FX_SHOW(t->name), FX_WEIGHT_RANK, json_array_size(j));
    t->rank = (int)json_array_size(j);
    for (int i = 0; i < t->rank; i++) {
        json_t *d = json_array_get(j, (size_t)i);

        if (!json_is_integer(d) || json_integer_value(d) < 0)
            return bad(r, t->name, "shape: integers not below 0", "something else");
        t->shape[i] = json_integer_value(d);
    }
    return FORNAX_OK;
}

/* Offsets as they stand, from the start of the data. */
static fx_status read_offsets(const reader *r, fx_weight *t, json_t *j)
{
    json_t *b = json_array_get(j, 0), *e = json_array_get(j, 1);
    json_int_t begin, end;

    if (json_array_size(j) != 2 || !json_is_integer(b) || !json_is_integer(e))
        return bad(r, t->name, "data_offsets: two integers", "something else");
    begin = json_integer_value(b);
    end = json_integer_value(e);
    if (begin < 0 || end < begin || (uint64_t)end > r->room)
        return fx_fail_param(r->err, FORNAX_EFORMAT, FX_SHOW(t->name), "%s: tensor %s: expected data_offsets in order "
                             "within the %zu bytes of data, found [%lld, %lld] (is the file incomplete?)", r->path,
                             FX_SHOW(t->name), r->room, (long long)begin, (long long)end);
    if ((uint64_t)(end - begin) != t->bytes)
        return fx_fail_param(r->err, FORNAX_EFORMAT, FX_SHOW(t->name), "%s: tensor %s: expected %zu bytes for its type "
                             "and shape, found data_offsets [%lld, %lld]", r->path, FX_SHOW(t->name), t->bytes,
                             (long long)begin, (long long)end);
    t->offset = (uint64_t)begin;
    return FORNAX_OK;
}

static fx_status read_tensor(reader *r, const char *key, json_t *j)
{
    fx_weight t = { .file = r->file };
    char *name = fx_arena_strdup(&r->w->arena, key, strlen(key));

    if (!name)
        return fx_nomem(r->err, "the names of tensors");
    t.name = fx_str_of(name);
    if (!json_is_object(j))
        return bad(r, t.name, "an object with dtype, shape, data_offsets", "something else");
    FX_TRY(read_dtype(r, &t, json_object_get(j, "dtype")));
    FX_TRY(read_shape(r, &t, json_object_get(j, "shape")));
    FX_TRY(fx_weight_measure(&t, r->path, r->err));
    FX_TRY(read_offsets(r, &t, json_object_get(j, "data_offsets")));
    return FX_VEC_PUSH(&r->list, r->w->mem, t) ? FORNAX_OK : fx_nomem(r->err, "the list of tensors");
}

static fx_status take_metadata(const reader *r, json_t *j)
{
    const char *key;
    json_t *v;

    if (json_is_null(j))
        return FORNAX_OK;
    if (!json_is_object(j))
        return fx_fail(r->err, FORNAX_EFORMAT, "%s: __metadata__: expected an object of strings, found something else",
                       r->path);
    json_object_foreach(j, key, v) {
        if (!json_is_string(v))
            return fx_fail(r->err, FORNAX_EFORMAT, "%s: __metadata__: %s: expected a string, found something else",
                           r->path, FX_SHOW(fx_str_of(key)));
    }
    if (!r->w->st_metadata)
        r->w->st_metadata = json_incref(j);
    return FORNAX_OK;
}

static int by_offset(const void *a, const void *b)
{
    const fx_weight *x = a, *y = b;

    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return fx_str_cmp(x->name, y->name);
}

/* Exact cover, then the list is handed over in file order. */
static fx_status add_tensors(reader *r)
{
    uint64_t end = 0;

    if (r->list.n > 0)
        qsort(r->list.at, r->list.n, sizeof(*r->list.at), by_offset);
    for (size_t i = 0; i < r->list.n; i++) {
        fx_weight *t = &r->list.at[i];

        if (t->offset != end)
            return fx_fail_param(r->err, FORNAX_EFORMAT, FX_SHOW(t->name), "%s: tensor %s: expected its data at %llu, "
                                 "where that of the tensor before it ends, found it at %llu", r->path,
                                 FX_SHOW(t->name), (unsigned long long)end, (unsigned long long)t->offset);
        end = t->offset + t->bytes;
        t->offset += r->start;
    }
    if (end != r->room)
        return fx_fail(r->err, FORNAX_EFORMAT, "%s: expected %llu bytes of data for its tensors, found %zu", r->path,
                       (unsigned long long)end, r->room);
    for (size_t i = 0; i < r->list.n; i++)
        FX_TRY(fx_weights_add(r->w, &r->list.at[i], r->err));
    return FORNAX_OK;
}

static fx_status read_header(reader *r, json_t *header)
{
    const char *key;
    json_t *v;

    json_object_foreach(header, key, v) {
        if (strcmp(key, "__metadata__") == 0)
            FX_TRY(take_metadata(r, v));
        else
            FX_TRY(read_tensor(r, key, v));
    }
    return add_tensors(r);
}

fx_status fx_safetensors_read(fx_weights *w, fx_file *file, fx_error *err)
{
    reader r = { .w = w, .file = file, .path = fx_file_path(file), .err = err };
    fx_str bytes = fx_file_bytes(file);
    json_t *header;
    uint64_t n;
    fx_status st;

    if (bytes.n < 8)
        return fx_fail(err, FORNAX_EFORMAT, "%s: expected the 8-byte length of a safetensors header, found %zu bytes",
                       r.path, bytes.n);
    n = fx_le_read(bytes.p, 8);
    if (n > HEADER_LIMIT || n > bytes.n - 8)
        return fx_fail(err, FORNAX_EFORMAT, "%s: expected a header of at most %zu bytes, found the length %llu", r.path,
                       FX_MIN(bytes.n - 8, (size_t)HEADER_LIMIT), (unsigned long long)n);
    r.start = 8 + (size_t)n;
    r.room = bytes.n - r.start;
    if (n == 0 || bytes.p[8] != '{')
        return fx_fail(err, FORNAX_EFORMAT, "%s: offset 8: expected a header that begins with {, found none", r.path);
    FX_TRY(fx_format_json(&header, r.path, fx_str_n(bytes.p + 8, (size_t)n), JSON_REJECT_DUPLICATES, err));
    st = read_header(&r, header);
    json_decref(header);
    FX_VEC_FREE(&r.list, w->mem);
    return st;
}
