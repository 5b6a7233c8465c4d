/* gguf_write.c - see gguf.c for the layout. */
#include "format/gguf_write.h"

#include "format/weights_int.h"

static void put_le(fx_buf *b, uint64_t u, int n)
{
    for (int i = 0; i < n; i++)
        fx_buf_putc(b, (char)(u >> (8 * i)));
}

static void put_str(fx_buf *b, fx_str s)
{
    put_le(b, s.n, 8);
    fx_buf_str(b, s);
}

static void put_key(fx_gguf_keys *k, const char *key, fx_meta_type type)
{
    k->n++;
    put_str(&k->bytes, fx_str_of(key));
    put_le(&k->bytes, type, 4);
}

static void put_array(fx_gguf_keys *k, const char *key, fx_meta_type type, size_t n)
{
    put_key(k, key, FX_META_ARRAY);
    put_le(&k->bytes, type, 4);
    put_le(&k->bytes, n, 8);
}

void fx_gguf_put_str(fx_gguf_keys *k, const char *key, fx_str value)
{
    put_key(k, key, FX_META_STR);
    put_str(&k->bytes, value);
}

void fx_gguf_put_u32(fx_gguf_keys *k, const char *key, uint32_t value)
{
    put_key(k, key, FX_META_U32);
    put_le(&k->bytes, value, 4);
}

void fx_gguf_put_f32(fx_gguf_keys *k, const char *key, float value)
{
    put_key(k, key, FX_META_F32);
    put_le(&k->bytes, fx_f32_bits(value), 4);
}

void fx_gguf_put_bool(fx_gguf_keys *k, const char *key, bool value)
{
    put_key(k, key, FX_META_BOOL);
    put_le(&k->bytes, value, 1);
}

void fx_gguf_put_strs(fx_gguf_keys *k, const char *key, const fx_str *values, size_t n)
{
    put_array(k, key, FX_META_STR, n);
    for (size_t i = 0; i < n; i++)
        put_str(&k->bytes, values[i]);
}

void fx_gguf_put_i32s(fx_gguf_keys *k, const char *key, const int32_t *values, size_t n)
{
    put_array(k, key, FX_META_I32, n);
    for (size_t i = 0; i < n; i++)
        put_le(&k->bytes, (uint32_t)values[i], 4);
}

void fx_gguf_put_f32s(fx_gguf_keys *k, const char *key, const float *values, size_t n)
{
    put_array(k, key, FX_META_F32, n);
    for (size_t i = 0; i < n; i++)
        put_le(&k->bytes, fx_f32_bits(values[i]), 4);
}

static void put_value(fx_buf *b, const fx_meta *m)
{
    float f = (float)m->v.f;
    uint64_t u;

    switch (m->type) {
    case FX_META_STR: put_str(b, m->v.s); break;
    case FX_META_BOOL: fx_buf_putc(b, m->v.b ? 1 : 0); break;
    case FX_META_F32: put_le(b, fx_f32_bits(f), 4); break;
    case FX_META_F64:
        memcpy(&u, &m->v.f, sizeof(u));
        put_le(b, u, 8);
        break;
    case FX_META_ARRAY:
        put_le(b, m->v.array.type, 4);
        put_le(b, m->v.array.n, 8);
        fx_buf_str(b, m->v.array.bytes);
        break;
    default: put_le(b, m->v.u, fx_meta_bytes[m->type]);   /* signed ones are two's complement in v.i */
    }
}

/* Keys that describe the file, not the model. */
static bool is_dropped(fx_str key)
{
    return fx_str_starts(key, FX_STR("split.")) || fx_str_is(key, "general.file_type") ||
           fx_str_is(key, "general.quantization_version");
}

static void put_meta(fx_gguf_keys *k, const fx_weights *w, const fx_gguf_plan *plan)
{
    for (size_t i = 0; i < fx_meta_count(w); i++) {
        const fx_meta *m = fx_meta_at(w, i);

        if (is_dropped(m->key))
            continue;
        k->n++;
        put_str(&k->bytes, m->key);
        put_le(&k->bytes, m->type, 4);
        put_value(&k->bytes, m);
    }
    fx_gguf_put_u32(k, "general.file_type", (uint32_t)plan->file_type);
    if (plan->quantized)
        fx_gguf_put_u32(k, "general.quantization_version", 2);
}

fx_status fx_gguf_head(const fx_weights *w, fx_gguf_plan *plan, fx_buf *out, fx_error *err)
{
    size_t start = out->n;
    int64_t alignment = 32;
    uint64_t offset = 0;
    fx_gguf_keys keys = { .n = 0 };

    FX_TRY(fx_meta_opt_i64(w, "general.alignment", &alignment, err));
    plan->alignment = (uint64_t)alignment;
    fx_buf_puts(out, "GGUF");
    put_le(out, 3, 4);
    put_le(out, fx_weights_count(w), 8);
    fx_buf_init(&keys.bytes, out->mem);
    put_meta(&keys, w, plan);
    put_le(out, keys.n, 8);
    fx_buf_str(out, fx_buf_view(&keys.bytes));
    out->failed = out->failed || keys.bytes.failed;
    fx_buf_done(&keys.bytes);
    for (size_t i = 0; i < fx_weights_count(w); i++) {
        const fx_weight *t = fx_weights_at(w, i);
        int number = fx_gguf_type_number(plan->types[i]);

        FX_ASSERT(number >= 0);
        put_str(out, t->name);
        put_le(out, (uint64_t)t->rank, 4);
        for (int d = t->rank - 1; d >= 0; d--)
            put_le(out, (uint64_t)t->shape[d], 8);
        put_le(out, (uint64_t)number, 4);
        put_le(out, offset, 8);
        offset += FX_ROUND_UP(fx_dtype_row_bytes(plan->types[i], t->n_elems), plan->alignment);
    }
    while ((out->n - start) % plan->alignment != 0 && !out->failed)
        fx_buf_putc(out, 0);
    return out->failed ? fx_nomem(err, "the head of a GGUF file") : FORNAX_OK;
}
