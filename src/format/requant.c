/* requant.c - checkpoints quantized by other tools, as ordinary matrices.
 *
 * A hub folder's quantization_config says how a linear layer X.weight [out, in] is stored; here
 * it becomes a tensor of that name, in a block type that holds the same numbers (blocks.h):
 *
 *   gptq                X.qweight [in*bits/32, out]: words hold consecutive k of one column
 *                       X.qzeros [groups, out*bits/32], X.scales [groups, out], X.g_idx [in]
 *                       w = (q - zero) * scale; stored zeros are one less ("gptq_v2": not)
 *   awq (gemm)          X.qweight [in, out/8]: words hold eight columns, in the order 0 2 4 6 1 3 5 7
 *                       X.qzeros [groups, out/8] alike, X.scales [groups, out]
 *   compressed-tensors  X.weight_packed [out, in/n], n = 32/bits, X.weight_scale [out, groups],
 *                       X.weight_zero_point [out/n, groups] packed along out, X.weight_g_idx [in]
 *                       X.weight [out, in] of int8 or E4M3, X.weight_scale
 *   fp8 and others      X.weight [out, in] of E4M3, X.weight_scale (one, a row's, or blocks') or
 *                       X.weight_scale_inv (the same; the name notwithstanding it multiplies)
 *
 * Scales of groups of a multiple of 32 columns keep 4 or 8 bits (GROUP4, GROUP8, GROUPF8).  Columns
 * whose groups are in no order (desc_act), other group sizes and 8-bit codes with other zeros than
 * 128 are multiplied out to f32 (the dtype modes bf16 and f16 halve that).
 * What says how activations are quantized isn't imitated. */
#include "format/weights_int.h"

#include "tensor/blocks.h"

typedef struct source {
    fx_weights *w;
    fx_error *err;
    fx_str stem;                         /* "model.layers.0.self_attn.q_proj" */
    const fx_weight *q, *zeros, *scales, *g_idx;
    int64_t out, in, groups, group;      /* group: columns of one */
    int64_t scale_rows, scale_cols;      /* of the scales, after broadcasting rules: 1 or more */
    int64_t block_rows;                  /* rows that share a row of scales */
    int bits, zero_add;
    void (*codes)(const struct source *s, int64_t row, int64_t k, uint8_t q[32]);
    int (*zero)(const struct source *s, int64_t row, int64_t group);
    float (*scale)(const struct source *s, int64_t row, int64_t group);
} source;

static fx_status bad(const source *s, const char *part, const char *what)
{
    return fx_fail_param(s->err, FORNAX_EFORMAT, part, "%s: layer %s: %s: expected %s", fx_weights_path(s->w),
                         FX_SHOW(s->stem), part, what);
}

static fx_status unsupported(const source *s, const char *what)
{
    return fx_fail_param(s->err, FORNAX_EUNSUP, "quantization_config", "%s: layer %s: %s is not supported",
                         fx_weights_path(s->w), FX_SHOW(s->stem), what);
}

static const fx_weight *part_of(const source *s, const char *suffix)
{
    char name[512];

    if (s->stem.n + strlen(suffix) + 1 > sizeof(name))
        return NULL;
    memcpy(name, s->stem.p, s->stem.n);
    memcpy(name + s->stem.n, suffix, strlen(suffix) + 1);
    return fx_weights_find(s->w, fx_str_of(name));
}

static bool has_shape(const fx_weight *t, int64_t rows, int64_t cols)
{
    return t && t->rank == 2 && t->shape[0] == rows && t->shape[1] == cols;
}

static float number_at(const fx_weight *t, int64_t i)
{
    const uint8_t *p = (const uint8_t *)t->data + (size_t)i * fx_dtype_size(t->dtype);
    float v;

    fx_dequantize_row(t->dtype, p, &v, 1);
    return v;
}

/* Value i of a stream of 'bits' each; words are 'step' apart. */
static int stream(const uint32_t *words, int64_t step, int bits, int64_t i)
{
    int64_t at = i * bits / 32;
    int shift = (int)(i * bits % 32);
    uint64_t v = words[at * step];

    if (shift + bits > 32)
        v |= (uint64_t)words[(at + 1) * step] << 32;
    return (int)(v >> shift & ((1u << bits) - 1));
}

/* ---- GPTQ ---- */

static void gptq_codes(const source *s, int64_t row, int64_t k, uint8_t q[32])
{
    const uint32_t *words = (const uint32_t *)s->q->data + k / 32 * s->bits * s->out + row;

    for (int i = 0; i < 32; i++)
        q[i] = (uint8_t)stream(words, s->out, s->bits, i);
}

static int gptq_zero(const source *s, int64_t row, int64_t group)
{
    const uint32_t *words = (const uint32_t *)s->zeros->data + group * (s->out * s->bits / 32);

    return (stream(words, 1, s->bits, row) + s->zero_add) & ((1 << s->bits) - 1);
}

static float column_scale(const source *s, int64_t row, int64_t group)
{
    return number_at(s->scales, group * s->out + row);
}

static fx_status gptq_open(source *s, const json_t *config)
{
    const json_t *bits = json_object_get(config, "bits"), *format = json_object_get(config, "checkpoint_format");
    const char *z = json_string_value(format);

    if (!json_is_integer(bits))
        return bad(s, "quantization_config.bits", "an integer");
    s->bits = (int)FX_MIN(FX_MAX(json_integer_value(bits), -1), 99);
    if (s->bits != 2 && s->bits != 3 && s->bits != 4 && s->bits != 8)
        return unsupported(s, "gptq with bits other than 2, 3, 4 and 8");
    if (z && strcmp(z, "gptq") != 0 && strcmp(z, "gptq_v2") != 0)
        return unsupported(s, "a gptq checkpoint_format other than gptq and gptq_v2");
    s->zero_add = z && strcmp(z, "gptq_v2") == 0 ? 0 : 1;
    s->zeros = part_of(s, ".qzeros");
    s->scales = part_of(s, ".scales");
    s->g_idx = part_of(s, ".g_idx");
    if (s->q->rank != 2 || s->q->dtype != FX_I32 || s->q->shape[0] % s->bits != 0)
        return bad(s, "qweight", "[in * bits / 32, out] of i32");
    s->in = s->q->shape[0] / s->bits * 32;
    s->out = s->q->shape[1];
    if (!s->scales || s->scales->rank != 2 || s->scales->shape[1] != s->out || !fx_dtype_is_float(s->scales->dtype))
        return bad(s, "scales", "[groups, out] of floats");
    s->groups = s->scales->shape[0];
    if (s->out % 32 != 0 || !has_shape(s->zeros, s->groups, s->out / 32 * s->bits) || s->zeros->dtype != FX_I32)
        return bad(s, "qzeros", "[groups, out * bits / 32] of i32");
    s->codes = gptq_codes;
    s->zero = gptq_zero;
    s->scale = column_scale;
    return FORNAX_OK;
}

/* ---- AWQ ---- */

static int awq_value(const uint32_t *words, int64_t row)
{
    static const uint8_t place[8] = { 0, 4, 1, 5, 2, 6, 3, 7 };

    return (int)(words[row / 8] >> 4 * place[row % 8] & 15);
}

static void awq_codes(const source *s, int64_t row, int64_t k, uint8_t q[32])
{
    for (int i = 0; i < 32; i++)
        q[i] = (uint8_t)awq_value((const uint32_t *)s->q->data + (k + i) * (s->out / 8), row);
}

static int awq_zero(const source *s, int64_t row, int64_t group)
{
    return s->zeros ? awq_value((const uint32_t *)s->zeros->data + group * (s->out / 8), row) : 8;
}

static fx_status awq_open(source *s, const json_t *config)
{
    const json_t *bits = json_object_get(config, "bits");
    const char *version = json_string_value(json_object_get(config, "version"));

    if (bits && json_integer_value(bits) != 4)
        return unsupported(s, "awq with bits other than 4");
    if (version && strcmp(version, "gemm") != 0 && strcmp(version, "GEMM") != 0)
        return unsupported(s, "an awq version other than gemm");
    s->bits = 4;
    s->zeros = part_of(s, ".qzeros");
    s->scales = part_of(s, ".scales");
    if (s->q->rank != 2 || s->q->dtype != FX_I32 || s->q->shape[0] % 32 != 0 || s->q->shape[1] > INT64_MAX / 8)
        return bad(s, "qweight", "[in, out / 8] of i32, in a multiple of 32");
    s->in = s->q->shape[0];
    s->out = s->q->shape[1] * 8;
    if (!s->scales || s->scales->rank != 2 || s->scales->shape[1] != s->out || !fx_dtype_is_float(s->scales->dtype))
        return bad(s, "scales", "[groups, out] of floats");
    s->groups = s->scales->shape[0];
    if (s->zeros && (!has_shape(s->zeros, s->groups, s->out / 8) || s->zeros->dtype != FX_I32))
        return bad(s, "qzeros", "[groups, out / 8] of i32");
    s->codes = awq_codes;
    s->zero = awq_zero;
    s->scale = column_scale;
    return FORNAX_OK;
}

/* ---- compressed-tensors, packed ---- */

static void packed_codes(const source *s, int64_t row, int64_t k, uint8_t q[32])
{
    const uint32_t *words = (const uint32_t *)s->q->data + row * s->q->shape[1];
    int per = 32 / s->bits;

    for (int i = 0; i < 32; i++)
        q[i] = (uint8_t)(words[(k + i) / per] >> (k + i) % per * s->bits & ((1u << s->bits) - 1));
}

static int packed_zero(const source *s, int64_t row, int64_t group)
{
    int per = 32 / s->bits;

    if (!s->zeros)
        return 1 << (s->bits - 1);
    return (int)(((const uint32_t *)s->zeros->data)[row / per * s->groups + group] >> row % per * s->bits &
                 ((1u << s->bits) - 1));
}

static float row_scale(const source *s, int64_t row, int64_t group)
{
    int64_t r = s->scale_rows == 1 ? 0 : row / s->block_rows;

    return number_at(s->scales, r * s->scale_cols + (s->scale_cols == 1 ? 0 : group));
}

static fx_status packed_open(source *s, const json_t *config)
{
    const fx_weight *shape = part_of(s, ".weight_shape");
    const char *key;
    json_t *group;

    if (!shape || shape->dtype != FX_I64 || shape->n_elems != 2)
        return bad(s, "weight_shape", "two i64");
    memcpy(&s->out, shape->data, 8);
    memcpy(&s->in, (const char *)shape->data + 8, 8);
    json_object_foreach(json_object_get(config, "config_groups"), key, group) {
        int bits = (int)json_integer_value(json_object_get(json_object_get(group, "weights"), "num_bits"));

        if (s->bits && s->bits != bits)
            return unsupported(s, "more than one number of bits");
        s->bits = bits;
    }
    if (s->bits != 4 && s->bits != 8)
        return unsupported(s, "a number of bits other than 4 and 8");
    if (s->in <= 0 || s->in % 32 != 0 || !has_shape(s->q, s->out, s->in / (32 / s->bits)) || s->q->dtype != FX_I32)
        return bad(s, "weight_packed", "[out, in * bits / 32] of i32, in a multiple of 32");
    s->scales = part_of(s, ".weight_scale");
    s->zeros = part_of(s, ".weight_zero_point");
    s->g_idx = part_of(s, ".weight_g_idx");
    if (!s->scales || s->scales->rank != 2 || s->scales->shape[0] != s->out || !fx_dtype_is_float(s->scales->dtype))
        return bad(s, "weight_scale", "[out, groups] of floats");
    s->groups = s->scale_cols = s->scales->shape[1];
    s->scale_rows = s->out;
    s->block_rows = 1;
    if (s->zeros && (!has_shape(s->zeros, FX_DIV_UP(s->out, 32 / s->bits), s->groups) || s->zeros->dtype != FX_I32))
        return bad(s, "weight_zero_point", "[out * bits / 32, groups] of i32");
    s->codes = packed_codes;
    s->zero = packed_zero;
    s->scale = row_scale;
    return FORNAX_OK;
}

/* ---- Eight bits as they are ---- */

/* One scale, one a row, one a group of columns of a row, or one a block of rows and columns. */
static fx_status eight_open(source *s, const json_t *config)
{
    const fx_weight *t;
    const json_t *size = json_object_get(config, "weight_block_size");

    s->zeros = part_of(s, ".weight_zero_point");
    t = s->scales = part_of(s, ".weight_scale") ? part_of(s, ".weight_scale") : part_of(s, ".weight_scale_inv");
    if (s->q->rank != 2)
        return bad(s, "weight", "two axes");
    for (int64_t i = 0; s->zeros && i < (int64_t)s->zeros->bytes; i++) {
        if (((const char *)s->zeros->data)[i] != 0)
            return unsupported(s, "a zero point of 8-bit weights");
    }
    s->out = s->q->shape[0];
    s->in = s->q->shape[1];
    if (!t || t->rank > 2 || !fx_dtype_is_float(t->dtype) || t->n_elems < 1)
        return bad(s, "weight_scale", "one scale, one a row, or a matrix of them");
    s->scale_rows = t->rank > 0 ? t->shape[0] : 1;
    s->scale_cols = t->rank > 1 ? t->shape[1] : 1;
    s->groups = s->scale_cols;
    s->block_rows = 1;
    if (json_is_array(size) && t->rank == 2) {
        s->block_rows = json_integer_value(json_array_get(size, 0));
        s->group = json_integer_value(json_array_get(size, 1));
        if (s->block_rows < 1 || s->group < 1 || FX_DIV_UP(s->out, s->block_rows) != s->scale_rows ||
            FX_DIV_UP(s->in, s->group) != s->scale_cols)
            return bad(s, "weight_scale", "a scale for each block of weight_block_size");
    } else if (s->scale_rows != 1 && s->scale_rows != s->out) {
        return bad(s, "weight_scale", "one scale, one a row, or a matrix of them");
    }
    s->scale = row_scale;
    return FORNAX_OK;
}

/* ---- Rows of the result ------------------------------------------------------------------------------ */

/* g_idx[k] is a group; *ordered: k / group for all. */
static fx_status check_groups(source *s, bool *ordered)
{
    const int32_t *g = s->g_idx ? s->g_idx->data : NULL;

    *ordered = true;
    if (!s->group) {
        if (s->groups < 1 || s->in % s->groups != 0)
            return bad(s, "scales", "groups that divide the columns");
        s->group = s->in / s->groups;
    }
    if (g && (s->g_idx->dtype != FX_I32 || s->g_idx->n_elems != s->in))
        return bad(s, "g_idx", "[in] of i32");
    for (int64_t k = 0; g && k < s->in; k++) {
        if (g[k] < 0 || g[k] >= s->groups)
            return bad(s, "g_idx", "numbers of groups");
        *ordered = *ordered && g[k] == k / s->group;
    }
    return FORNAX_OK;
}

static int64_t group_of(const source *s, int64_t k) { return s->g_idx ? ((const int32_t *)s->g_idx->data)[k] : k / s->group; }

static bool zeros_are_128(const source *s)
{
    for (int64_t g = 0; g < s->groups; g++)
        for (int64_t r = 0; r < s->out; r++) {
            if (s->zero(s, r, g) != 128)
                return false;
        }
    return true;
}

static fx_dtype choose_type(const source *s, bool ordered)
{
    bool whole = ordered && s->group % 32 == 0 && s->in % 32 == 0;

    if (!s->codes)
        return !whole ? FX_F32 : s->q->dtype == FX_I8 ? FX_GROUP8 : s->q->dtype == FX_F8E4M3 ? FX_GROUPF8 : FX_F32;
    if (whole && s->bits <= 4)
        return FX_GROUP4;
    if (whole && s->bits == 8 && zeros_are_128(s))
        return FX_GROUP8;
    return FX_F32;
}

static float eight_bit(const fx_weight *t, int64_t i)
{
    return t->dtype == FX_I8 ? (float)((const int8_t *)t->data)[i] : number_at(t, i);
}

/* 32 columns (or what is left of them) from k on, multiplied out. */
static void put_values(const source *s, int64_t row, int64_t k, int64_t n, float *dst)
{
    uint8_t q[32];

    if (s->codes)
        s->codes(s, row, k, q);
    for (int64_t i = 0; i < n; i++) {
        int64_t g = group_of(s, k + i);
        float v = s->codes ? (float)(q[i] - s->zero(s, row, g)) : eight_bit(s->q, row * s->in + k + i);

        dst[k + i] = v * s->scale(s, row, g);
    }
}

static void put_block(const source *s, fx_dtype to, int64_t row, int64_t k, void *dst)
{
    int64_t g = k / s->group;
    float d = s->scale(s, row, g);
    const uint8_t *bytes = (const uint8_t *)s->q->data + row * s->in + k;
    uint8_t q[32];

    if (to == FX_GROUP4) {
        fx_block_group4 *b = (fx_block_group4 *)dst + k / 32;

        s->codes(s, row, k, q);
        b->d = d;
        b->zero = (uint8_t)s->zero(s, row, g);
        for (int i = 0; i < 16; i++)
            b->qs[i] = (uint8_t)(q[i] | q[i + 16] << 4);
    } else if (to == FX_GROUP8) {
        fx_block_group8 *b = (fx_block_group8 *)dst + k / 32;

        if (s->codes)
            s->codes(s, row, k, q);
        b->d = d;
        for (int i = 0; i < 32; i++)
            b->qs[i] = s->codes ? (int8_t)(q[i] - 128) : (int8_t)bytes[i];
    } else {
        fx_block_groupf8 *b = (fx_block_groupf8 *)dst + k / 32;

        b->d = d;
        memcpy(b->qs, bytes, 32);
    }
}

static fx_status make(source *s, fx_weight *out)
{
    fx_made_pages made;
    size_t row_bytes;
    bool ordered;
    fx_dtype to;
    char *name;

    FX_TRY(check_groups(s, &ordered));
    to = choose_type(s, ordered);
    name = fx_arena_printf(&s->w->arena, "%.*s.weight", FX_STR_ARG(s->stem));
    *out = (fx_weight){ .name = fx_str_of(name), .dtype = to, .rank = 2, .shape = { s->out, s->in }, .file = s->q->file,
                        .offset = s->q->offset, .made = true };
    if (!name)
        return fx_nomem(s->err, "the names of tensors");
    for (int i = 2; i < FX_WEIGHT_RANK; i++)
        out->shape[i] = 1;
    FX_TRY(fx_weight_measure(out, fx_weights_path(s->w), s->err));
    made = (fx_made_pages){ fx_pages_alloc(FX_MAX(out->bytes, (size_t)64)), FX_MAX(out->bytes, (size_t)64) };
    if (!made.p || !FX_VEC_PUSH(&s->w->made, s->w->mem, made)) {
        fx_pages_free(made.p, made.bytes);
        return fx_nomem(s->err, "a quantized matrix");
    }
    out->data = made.p;
    row_bytes = fx_dtype_row_bytes(to, s->in);
    for (int64_t r = 0; r < s->out; r++)
        for (int64_t k = 0; k < s->in; k += 32) {
            void *dst = (char *)made.p + (size_t)r * row_bytes;

            if (fx_dtype_is_quant(to))
                put_block(s, to, r, k, dst);
            else
                put_values(s, r, k, FX_MIN(s->in - k, 32), dst);
        }
    return FORNAX_OK;
}

/* ---- The folder -------------------------------------------------------------------------------------- */

static bool strip(fx_str name, const char *suffix, fx_str *stem)
{
    size_t n = strlen(suffix);

    if (!fx_str_ends(name, fx_str_of(suffix)))
        return false;
    *stem = fx_str_n(name.p, name.n - n);
    return true;
}

/* Is t the codes of a layer? Then s is opened. */
static fx_status open_source(source *s, const fx_weight *t, const char *method, const json_t *config, bool *found)
{
    bool eight = t->dtype == FX_I8 || t->dtype == FX_F8E4M3 || t->dtype == FX_F8E5M2;

    s->q = t;
    *found = t->n_elems > 0;
    if (!*found)
        return FORNAX_OK;
    if (strcmp(method, "gptq") == 0 && strip(t->name, ".qweight", &s->stem))
        return gptq_open(s, config);
    if (strcmp(method, "awq") == 0 && strip(t->name, ".qweight", &s->stem))
        return awq_open(s, config);
    if (strcmp(method, "compressed-tensors") == 0 && strip(t->name, ".weight_packed", &s->stem))
        return t->dtype == FX_I32 ? packed_open(s, config) : unsupported(s, "a packed format other than of i32");
    if (eight && strip(t->name, ".weight", &s->stem) && (part_of(s, ".weight_scale") || part_of(s, ".weight_scale_inv")))
        return eight_open(s, config);
    *found = false;
    return FORNAX_OK;
}

/* Belongs to a layer that was made, or to how activations are quantized. */
static bool is_part(fx_str name)
{
    static const char *const suffixes[] = {
        ".qweight", ".qzeros", ".scales", ".g_idx", ".weight_packed", ".weight_scale", ".weight_scale_inv", ".weight_shape",
        ".weight_zero_point", ".weight_g_idx", ".input_scale", ".input_zero_point", ".input_global_scale",
        ".activation_scale", ".output_scale", ".k_scale", ".v_scale", ".q_scale",
    };

    for (size_t i = 0; i < FX_COUNT(suffixes); i++) {
        if (fx_str_ends(name, fx_str_of(suffixes[i])))
            return true;
    }
    return false;
}

static fx_status method_of(const fx_weights *w, const json_t *config, const char **method, fx_error *err)
{
    static const char *const known[] = { "gptq", "awq", "fp8", "fbgemm_fp8", "compressed-tensors",
                                         "mxfp4" };         /* the last is read by architectures */
    const char *z = json_string_value(json_object_get(config, "quant_method"));

    *method = z ? z : "";
    for (size_t i = 0; config && i < FX_COUNT(known); i++) {
        if (z && strcmp(z, known[i]) == 0)
            return FORNAX_OK;
    }
    if (!config || json_is_null(config))
        return FORNAX_OK;
    return fx_fail_param(err, FORNAX_EUNSUP, "quantization_config.quant_method", "%s: quantization_config: quant_method %s "
                         "is not supported", fx_weights_path(w), z ? FX_SHOW(fx_str_of(z)) : "(none)");
}

/* The tensors anew: made ones for what they are made of. */
static fx_status replace(fx_weights *w, const fx_weight *list, size_t n, fx_error *err)
{
    fx_map_done(&w->by_name);
    fx_map_init(&w->by_name, w->mem);
    w->tensors.n = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t other;

        if (fx_map_get(&w->by_name, list[i].name, &other))
            return fx_fail(err, FORNAX_EFORMAT, "%s: tensor %s: expected it either quantized or not, found both",
                           fx_weights_path(w), FX_SHOW(list[i].name));
        if (!fx_map_put(&w->by_name, list[i].name, i) || !FX_VEC_PUSH(&w->tensors, w->mem, list[i]))
            return fx_nomem(err, "the list of tensors");
    }
    return FORNAX_OK;
}

fx_status fx_hub_requant(fx_weights *w, fx_error *err)
{
    const json_t *config = fx_config_find(w, "quantization_config");
    size_t n = w->tensors.n, kept = 0, n_made = 0;
    fx_weight *list;
    const char *method;
    fx_status st = FORNAX_OK;

    FX_TRY(method_of(w, config, &method, err));
    list = fx_mem_array(w->mem, n + 1, sizeof(*list));
    if (!list)
        return fx_nomem(err, "the list of tensors");
    for (size_t i = 0; i < n && st == FORNAX_OK; i++) {
        source s = { .w = w, .err = err };
        bool found;

        st = open_source(&s, &w->tensors.at[i], method, config, &found);
        if (st == FORNAX_OK && found) {
            st = make(&s, &list[kept++]);
            n_made++;
        } else if (!found && !is_part(w->tensors.at[i].name)) {
            list[kept++] = w->tensors.at[i];
        }
    }
    if (st == FORNAX_OK && n_made > 0)
        st = replace(w, list, kept, err);
    fx_mem_free(w->mem, list, (n + 1) * sizeof(*list));
    return st;
}
