/* meta.c - typed lookups of GGUF metadata.
 *
 * The reader has checked every value and array against the file (format/gguf.c), so
 * what stands here only concerns types and ranges. */
#include "format/weights_int.h"

#include <math.h>

static const char *const type_names[FX_META_TYPES] = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64",
};

const char *fx_meta_type_name(fx_meta_type t)
{
    return (unsigned)t < FX_META_TYPES ? type_names[t] : "type?";
}

size_t fx_meta_count(const fx_weights *w)
{
    return w->meta.n;
}

const fx_meta *fx_meta_at(const fx_weights *w, size_t i)
{
    FX_ASSERT(i < w->meta.n);
    return &w->meta.at[i];
}

const fx_meta *fx_meta_find(const fx_weights *w, const char *key)
{
    uint64_t i;

    return fx_map_get(&w->by_key, fx_str_of(key), &i) ? &w->meta.at[i] : NULL;
}

int fx_meta_version(const fx_weights *w)
{
    return w->gguf_version;
}

/* ---- Sentences ------------------------------------------------------------------------ */

static fx_status missing(const fx_weights *w, const char *key, const char *expected, fx_error *err)
{
    return fx_fail_param(err, FORNAX_ENOTFOUND, key, "%s: key %s: expected %s, found no such key", w->path, key,
                         expected);
}

static fx_status mistyped(const fx_weights *w, const fx_meta *m, const char *expected, fx_error *err)
{
    bool array = m->type == FX_META_ARRAY;

    return fx_fail_param(err, FORNAX_EFORMAT, FX_SHOW(m->key), "%s: key %s: expected %s, found %s%s", w->path,
                         FX_SHOW(m->key), expected, array ? "an array of " : "",
                         fx_meta_type_name(array ? m->v.array.type : m->type));
}

static fx_status out_of_range(const fx_weights *w, const fx_meta *m, const char *expected, double found,
                              fx_error *err)
{
    return fx_fail_param(err, FORNAX_EFORMAT, FX_SHOW(m->key), "%s: key %s: expected %s, found %.17g", w->path,
                         FX_SHOW(m->key), expected, found);
}

/* ---- Values as they stand in the file ----------------------------------------------------- */

const uint8_t fx_meta_bytes[FX_META_TYPES] = {
    [FX_META_U8] = 1,  [FX_META_I8] = 1,  [FX_META_U16] = 2,  [FX_META_I16] = 2, [FX_META_U32] = 4,
    [FX_META_I32] = 4, [FX_META_F32] = 4, [FX_META_BOOL] = 1, [FX_META_U64] = 8, [FX_META_I64] = 8,
    [FX_META_F64] = 8,
};

static double float_of_bits(uint64_t u, int n)
{
    double d;

    if (n == 4)
        return (double)fx_f32_of_bits((uint32_t)u);
    memcpy(&d, &u, sizeof(d));
    return d;
}

static int64_t sign_extended(uint64_t u, int n)
{
    uint64_t sign = (uint64_t)1 << (8 * n - 1);

    return (int64_t)((u ^ sign) - sign);
}

/* Past an array whose bytes the reader has checked. */
static const char *skip_array(const char *p, fx_meta *m)
{
    fx_meta_iter it;
    fx_meta e;

    m->v.array.type = (fx_meta_type)fx_le_read(p, 4);
    m->v.array.n = fx_le_read(p + 4, 8);
    m->v.array.bytes.p = p + 12;
    it = fx_meta_iter_of(m);
    if (fx_meta_bytes[it.type])
        it.p += it.left * fx_meta_bytes[it.type];
    else
        while (fx_meta_next(&it, &e)) {
        }
    m->v.array.bytes.n = (size_t)(it.p - m->v.array.bytes.p);
    return it.p;
}

const char *fx_meta_decode(const char *p, fx_meta *m)
{
    int n = fx_meta_bytes[m->type];
    uint64_t u;

    if (m->type == FX_META_ARRAY)
        return skip_array(p, m);
    u = fx_le_read(p, n ? n : 8);
    switch (m->type) {
    case FX_META_STR:
        m->v.s = fx_str_n(p + 8, (size_t)u);
        return p + 8 + u;
    case FX_META_BOOL: m->v.b = u != 0; break;
    case FX_META_F32:
    case FX_META_F64: m->v.f = float_of_bits(u, n); break;
    case FX_META_I8:
    case FX_META_I16:
    case FX_META_I32:
    case FX_META_I64: m->v.i = sign_extended(u, n); break;
    default: m->v.u = u;
    }
    return p + n;
}

/* ---- Single values ----------------------------------------------------------------------- */

static bool is_signed(fx_meta_type t)
{
    return t == FX_META_I8 || t == FX_META_I16 || t == FX_META_I32 || t == FX_META_I64;
}

static bool is_unsigned(fx_meta_type t)
{
    return t == FX_META_U8 || t == FX_META_U16 || t == FX_META_U32 || t == FX_META_U64;
}

static bool is_float(fx_meta_type t)
{
    return t == FX_META_F32 || t == FX_META_F64;
}

fx_status fx_meta_opt_i64(const fx_weights *w, const char *key, int64_t *io, fx_error *err)
{
    const fx_meta *m = fx_meta_find(w, key);

    if (!m)
        return FORNAX_OK;
    if (is_signed(m->type)) {
        *io = m->v.i;
        return FORNAX_OK;
    }
    if (!is_unsigned(m->type))
        return mistyped(w, m, "an integer", err);
    if (m->v.u > INT64_MAX)
        return out_of_range(w, m, "an integer below 2^63", (double)m->v.u, err);
    *io = (int64_t)m->v.u;
    return FORNAX_OK;
}

fx_status fx_meta_opt_f64(const fx_weights *w, const char *key, double *io, fx_error *err)
{
    const fx_meta *m = fx_meta_find(w, key);

    if (!m)
        return FORNAX_OK;
    if (is_float(m->type))
        *io = m->v.f;
    else if (is_signed(m->type))
        *io = (double)m->v.i;
    else if (is_unsigned(m->type))
        *io = (double)m->v.u;
    else
        return mistyped(w, m, "a number", err);
    return FORNAX_OK;
}

fx_status fx_meta_opt_bool(const fx_weights *w, const char *key, bool *io, fx_error *err)
{
    const fx_meta *m = fx_meta_find(w, key);

    if (!m)
        return FORNAX_OK;
    if (m->type != FX_META_BOOL)
        return mistyped(w, m, "a bool", err);
    *io = m->v.b;
    return FORNAX_OK;
}

fx_status fx_meta_opt_str(const fx_weights *w, const char *key, fx_str *io, fx_error *err)
{
    const fx_meta *m = fx_meta_find(w, key);

    if (!m)
        return FORNAX_OK;
    if (m->type != FX_META_STR)
        return mistyped(w, m, "a string", err);
    *io = m->v.s;
    return FORNAX_OK;
}

fx_status fx_meta_i64(const fx_weights *w, const char *key, int64_t *out, fx_error *err)
{
    return fx_meta_find(w, key) ? fx_meta_opt_i64(w, key, out, err) : missing(w, key, "an integer", err);
}

fx_status fx_meta_f64(const fx_weights *w, const char *key, double *out, fx_error *err)
{
    return fx_meta_find(w, key) ? fx_meta_opt_f64(w, key, out, err) : missing(w, key, "a number", err);
}

fx_status fx_meta_bool(const fx_weights *w, const char *key, bool *out, fx_error *err)
{
    return fx_meta_find(w, key) ? fx_meta_opt_bool(w, key, out, err) : missing(w, key, "a bool", err);
}

fx_status fx_meta_str(const fx_weights *w, const char *key, fx_str *out, fx_error *err)
{
    return fx_meta_find(w, key) ? fx_meta_opt_str(w, key, out, err) : missing(w, key, "a string", err);
}

/* ---- Arrays -------------------------------------------------------------------------------- */

fx_meta_iter fx_meta_iter_of(const fx_meta *array)
{
    FX_ASSERT(array->type == FX_META_ARRAY);
    return (fx_meta_iter){ array->v.array.bytes.p, array->v.array.n, array->v.array.type };
}

bool fx_meta_next(fx_meta_iter *it, fx_meta *element)
{
    if (it->left == 0)
        return false;
    memset(element, 0, sizeof(*element));
    element->type = it->type;
    it->p = fx_meta_decode(it->p, element);
    it->left--;
    return true;
}

/* The element as an integer of 64 bits; false if it isn't one. */
static bool integer_of(const fx_meta *e, int64_t *out)
{
    *out = e->v.i;               /* shares its bits with v.u */
    return is_signed(e->type) || (is_unsigned(e->type) && e->v.u <= INT64_MAX);
}

static double number_of(const fx_meta *e)
{
    return is_float(e->type) ? e->v.f : is_signed(e->type) ? (double)e->v.i : (double)e->v.u;
}

static bool is_int_array(const fx_meta *m)
{
    return m->type == FX_META_ARRAY && (is_signed(m->v.array.type) || is_unsigned(m->v.array.type));
}

static bool is_number_array(const fx_meta *m)
{
    return is_int_array(m) || (m->type == FX_META_ARRAY && is_float(m->v.array.type));
}

/* The array of 'key' if it is one of the wanted sort, and room for its elements. */
static fx_status find_array(const fx_weights *w, const char *key, bool (*wanted)(const fx_meta *),
                            const char *expected, const fx_meta **out, fx_error *err)
{
    const fx_meta *m = fx_meta_find(w, key);

    *out = m;
    if (!m)
        return missing(w, key, expected, err);
    if (!wanted(m))
        return mistyped(w, m, expected, err);
    return FORNAX_OK;
}

/* One more than asked for, so that an empty array isn't NULL. */
static void *room(fx_arena *a, uint64_t n, size_t each)
{
    return n < SIZE_MAX ? fx_arena_array(a, (size_t)n + 1, each) : NULL;
}

fx_status fx_meta_i32s(const fx_weights *w, const char *key, fx_arena *a, int32_t **out, size_t *n, fx_error *err)
{
    const fx_meta *m;
    fx_meta_iter it;
    fx_meta e;
    int32_t *at;

    FX_TRY(find_array(w, key, is_int_array, "an array of integers", &m, err));
    at = room(a, m->v.array.n, sizeof(*at));
    if (!at)
        return fx_nomem(err, key);
    it = fx_meta_iter_of(m);
    for (size_t i = 0; fx_meta_next(&it, &e); i++) {
        int64_t x;

        if (!integer_of(&e, &x) || x < INT32_MIN || x > INT32_MAX)
            return out_of_range(w, m, "an array of 32-bit integers", number_of(&e), err);
        at[i] = (int32_t)x;
    }
    *out = at;
    *n = (size_t)m->v.array.n;
    return FORNAX_OK;
}

fx_status fx_meta_f32s(const fx_weights *w, const char *key, fx_arena *a, float **out, size_t *n, fx_error *err)
{
    const fx_meta *m;
    fx_meta_iter it;
    fx_meta e;
    float *at;

    FX_TRY(find_array(w, key, is_number_array, "an array of numbers", &m, err));
    at = room(a, m->v.array.n, sizeof(*at));
    if (!at)
        return fx_nomem(err, key);
    it = fx_meta_iter_of(m);
    for (size_t i = 0; fx_meta_next(&it, &e); i++) {
        double x = number_of(&e);

        if (isfinite(x) && fabs(x) > 0x1.ffffffp127)         /* would round to infinity */
            return out_of_range(w, m, "an array of 32-bit floats", x, err);
        at[i] = (float)x;
    }
    *out = at;
    *n = (size_t)m->v.array.n;
    return FORNAX_OK;
}

static bool is_bool_array(const fx_meta *m)
{
    return m->type == FX_META_ARRAY && m->v.array.type == FX_META_BOOL;
}

fx_status fx_meta_bools(const fx_weights *w, const char *key, fx_arena *a, bool **out, size_t *n, fx_error *err)
{
    const fx_meta *m;
    bool *at;

    FX_TRY(find_array(w, key, is_bool_array, "an array of bools", &m, err));
    at = room(a, m->v.array.n, sizeof(*at));
    if (!at)
        return fx_nomem(err, key);
    for (size_t i = 0; i < m->v.array.n; i++)
        at[i] = m->v.array.bytes.p[i] != 0;
    *out = at;
    *n = (size_t)m->v.array.n;
    return FORNAX_OK;
}

static bool is_str_array(const fx_meta *m)
{
    return m->type == FX_META_ARRAY && m->v.array.type == FX_META_STR;
}

fx_status fx_meta_strs(const fx_weights *w, const char *key, fx_arena *a, fx_str **out, size_t *n, fx_error *err)
{
    const fx_meta *m;
    fx_meta_iter it;
    fx_meta e;
    fx_str *at;

    FX_TRY(find_array(w, key, is_str_array, "an array of strings", &m, err));
    at = room(a, m->v.array.n, sizeof(*at));
    if (!at)
        return fx_nomem(err, key);
    it = fx_meta_iter_of(m);
    for (size_t i = 0; fx_meta_next(&it, &e); i++)
        at[i] = e.v.s;
    *out = at;
    *n = (size_t)m->v.array.n;
    return FORNAX_OK;
}
