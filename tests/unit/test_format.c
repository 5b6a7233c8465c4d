/* test_format.c - opening model files: what good ones hold, and the sentence for each
 * way of being bad. */
#include "fxtest.h"

#include "format/inspect.h"
#include "format_files.h"

#define DATA FXTEST_DATA "/format/"

static fx_weights *open_ok(const char *path, unsigned flags)
{
    fx_error err = { 0 };
    fx_weights *w = NULL;

    CHECK_OK(fx_weights_open(&w, &fx_mem_libc, path, flags, &err), err);
    return w;
}

/* Opening fails with this status and a sentence that holds 'text' and the file's path. */
static void open_bad(const char *what, const char *path, fx_status st, const char *text)
{
    fx_error err = { 0 };
    fx_weights *w = NULL;
    fx_status got = fx_weights_open(&w, &fx_mem_libc, path, 0, &err);

    if (got != st || !strstr(err.text, text) || w || !strstr(err.text, "/tmp/fxformat"))
        FXTEST_FAIL("%s: status %d, expected %d; sentence \"%s\", expected \"%s\" in it", what, (int)got, (int)st,
                    err.text, text);
    fx_weights_close(w);
}

/* ---- GGUF ------------------------------------------------------------------------------ */

TEST(gguf_tensors)
{
    static const struct {
        const char *name;
        fx_dtype t;
        int rank;
        int64_t shape[4];
        size_t bytes;
    } cases[] = {
        { "q4_0", FX_Q4_0, 2, { 2, 64, 1, 1 }, 72 },   { "q6_k", FX_Q6_K, 2, { 2, 512, 1, 1 }, 840 },
        { "f32", FX_F32, 3, { 2, 3, 4, 1 }, 96 },      { "f16", FX_F16, 1, { 5, 1, 1, 1 }, 10 },
        { "bf16", FX_BF16, 2, { 3, 2, 1, 1 }, 12 },    { "i32", FX_I32, 3, { 1, 2, 3, 1 }, 24 },
        { "mxfp4", FX_MXFP4, 2, { 2, 64, 1, 1 }, 68 },
    };
    fx_weights *w = open_ok(DATA "tiny.gguf", 0);

    REQUIRE(w);
    CHECK_EQ_I64(fx_weights_kind_of(w), FX_WEIGHTS_GGUF);
    CHECK_EQ_I64(fx_meta_version(w), 3);
    CHECK_EQ_U64(fx_weights_count(w), 17);
    CHECK_EQ_U64(fx_weights_file_bytes(w), 6176);
    for (size_t i = 0; i < FX_COUNT(cases); i++) {
        const fx_weight *t = fx_weights_find(w, fx_str_of(cases[i].name));

        REQUIRE(t);
        CHECK(t->dtype == cases[i].t && t->rank == cases[i].rank && t->bytes == cases[i].bytes);
        CHECK_MEM(t->shape, cases[i].shape, sizeof(cases[i].shape));
        CHECK(t->data == fx_file_bytes(t->file).p + t->offset && !t->copied);
    }
    const float *x = fx_weights_find(w, FX_STR("f32"))->data;
    for (int i = 0; i < 24; i++)
        CHECK(x[i] == (float)i);
    CHECK(!fx_weights_find(w, FX_STR("f3")));
    CHECK(!fx_weights_find(w, FX_STR("")));
    fx_weights_release(w, fx_weights_find(w, FX_STR("f32")));
    CHECK(x[23] == 23);
    fx_weights_close(w);
}

TEST(gguf_values)
{
    fx_weights *w = open_ok(DATA "tiny.gguf", 0);
    fx_error err = { 0 };
    int64_t i = 0;
    double f = 0;
    bool b = false;
    fx_str s;

    REQUIRE(w);
    static const struct {
        const char *key;
        int64_t value;
    } ints[] = { { "t.u8", 200 },        { "t.i8", -100 },       { "t.u16", 60000 },      { "t.i16", -30000 },
                 { "t.u32", 4000000000 }, { "t.i32", -2000000000 }, { "t.i64", -9000000000000000000 } };
    for (size_t k = 0; k < FX_COUNT(ints); k++) {
        CHECK_OK(fx_meta_i64(w, ints[k].key, &i, &err), err);
        CHECK_EQ_I64(i, ints[k].value);
    }
    CHECK_EQ_I64(fx_meta_i64(w, "t.u64", &i, &err), FORNAX_EFORMAT);
    CHECK(strstr(err.text, "t.u64") && strcmp(err.param, "t.u64") == 0);
    CHECK_EQ_U64(fx_meta_find(w, "t.u64")->v.u, 18000000000000000000u);
    CHECK_OK(fx_meta_f64(w, "t.u64", &f, &err), err);
    CHECK(f == 18000000000000000000.0);
    CHECK_OK(fx_meta_f64(w, "t.f32", &f, &err), err);
    CHECK(f == (double)0.1f);
    CHECK_OK(fx_meta_f64(w, "t.f64", &f, &err), err);
    CHECK(f == 0.1);
    CHECK_OK(fx_meta_bool(w, "t.bool", &b, &err), err);
    CHECK(b);
    CHECK_OK(fx_meta_str(w, "t.str", &s, &err), err);
    CHECK(fx_str_is(s, "gr\xc3\xbc\xc3\x9f" "e"));
    CHECK_EQ_I64(fx_meta_i64(w, "t.none", &i, &err), FORNAX_ENOTFOUND);
    CHECK(strstr(err.text, "t.none"));
    i = 42;
    CHECK_OK(fx_meta_opt_i64(w, "t.none", &i, &err), err);
    CHECK_EQ_I64(i, 42);
    CHECK_EQ_I64(fx_meta_opt_i64(w, "t.str", &i, &err), FORNAX_EFORMAT);
    CHECK(strstr(err.text, "t.str: expected an integer, found string"));
    CHECK_EQ_I64(fx_meta_str(w, "t.strs", &s, &err), FORNAX_EFORMAT);
    CHECK(strstr(err.text, "found an array of string"));
    CHECK_EQ_I64(fx_meta_bool(w, "t.u8", &b, &err), FORNAX_EFORMAT);
    CHECK_EQ_I64(fx_meta_f64(w, "t.bool", &f, &err), FORNAX_EFORMAT);
    fx_weights_close(w);
}

TEST(gguf_arrays)
{
    fx_weights *w = open_ok(DATA "tiny.gguf", 0);
    fx_error err = { 0 };
    fx_arena a;
    int32_t *i;
    float *f;
    bool *b;
    fx_str *s;
    size_t n;

    REQUIRE(w);
    fx_arena_init(&a, &fx_mem_libc, 0);
    CHECK_OK(fx_meta_i32s(w, "t.ints", &a, &i, &n, &err), err);
    CHECK(n == 3 && i[0] == 1 && i[1] == -2 && i[2] == 3);
    CHECK_OK(fx_meta_i32s(w, "t.long", &a, &i, &n, &err), err);
    CHECK(n == 100 && i[99] == 99);
    CHECK_OK(fx_meta_f32s(w, "t.floats", &a, &f, &n, &err), err);
    CHECK(n == 2 && f[0] == 0.5f && f[1] == -1.5f);
    CHECK_OK(fx_meta_f32s(w, "t.ints", &a, &f, &n, &err), err);
    CHECK(n == 3 && f[1] == -2.0f);
    CHECK_OK(fx_meta_bools(w, "t.bools", &a, &b, &n, &err), err);
    CHECK(n == 3 && b[0] && !b[1] && b[2]);
    CHECK_OK(fx_meta_strs(w, "t.strs", &a, &s, &n, &err), err);
    CHECK(n == 3 && fx_str_is(s[0], "a") && fx_str_is(s[1], "") && fx_str_is(s[2], "\xe6\x97\xa5\xe6\x9c\xac"));
    CHECK_EQ_I64(fx_meta_i32s(w, "t.u64s", &a, &i, &n, &err), FORNAX_EFORMAT);
    CHECK_EQ_I64(fx_meta_i32s(w, "t.floats", &a, &i, &n, &err), FORNAX_EFORMAT);
    CHECK_EQ_I64(fx_meta_strs(w, "t.str", &a, &s, &n, &err), FORNAX_EFORMAT);
    CHECK_EQ_I64(fx_meta_strs(w, "t.none", &a, &s, &n, &err), FORNAX_ENOTFOUND);
    fx_arena_done(&a);
    fx_weights_close(w);
}

TEST(gguf_headers_only)
{
    scratch s;
    fx_buf b;

    REQUIRE(scratch_open(&s));
    fx_buf_init(&b, &fx_mem_libc);
    gguf_head(&b, 3, 5, 1);                              /* five tensors that aren't there */
    gguf_u32(&b, "k", 7);
    fx_weights *w = open_ok(scratch_write(&s, "m", fx_buf_view(&b)), FX_OPEN_HEADERS);
    REQUIRE(w);
    CHECK_EQ_U64(fx_weights_count(w), 0);
    CHECK(fx_meta_find(w, "k"));
    fx_weights_close(w);
    scratch_remove(&s, "m");
    rmdir(s.dir);
    fx_buf_done(&b);
}

/* ---- Bad GGUF files, one fault each ------------------------------------------------------- */

static void plain_tensor(fx_buf *b, uint32_t type, uint64_t offset, uint64_t dim)
{
    gguf_head(b, 3, 1, 0);
    gguf_tensor(b, "w", type, offset, 1, dim);
    gguf_data(b, 32, 64);
}

static void bad_empty(fx_buf *b) { (void)b; }
static void bad_magic(fx_buf *b) { fx_buf_puts(b, "GGML\3\0\0\0"); }
static void bad_version_1(fx_buf *b) { gguf_head(b, 1, 0, 0); }
static void bad_version_4(fx_buf *b) { gguf_head(b, 4, 0, 0); }
static void bad_big_endian(fx_buf *b) { gguf_head(b, 0x03000000, 0, 0); }
static void bad_big_magic(fx_buf *b) { fx_buf_puts(b, "FUGG\0\0\0\3"); }
static void bad_many_keys(fx_buf *b) { gguf_head(b, 3, 0, UINT64_MAX); }
static void bad_many_tensors(fx_buf *b) { gguf_head(b, 3, (uint64_t)1 << 60, 0); }

static void bad_key_length(fx_buf *b)
{
    gguf_head(b, 3, 0, 1);
    put_le(b, UINT64_MAX - 4, 8);
    fx_buf_puts(b, "key and some more");
}

static void bad_value_type(fx_buf *b)
{
    gguf_head(b, 3, 0, 1);
    put_str(b, "some.key");
    put_le(b, 13, 4);
    put_le(b, 0, 8);
}

static void bad_bool(fx_buf *b)
{
    gguf_head(b, 3, 0, 1);
    gguf_key(b, "some.flag", FX_META_BOOL);
    put_le(b, 2, 1);
}

static void bad_string(fx_buf *b)
{
    gguf_head(b, 3, 0, 1);
    gguf_key(b, "some.text", FX_META_STR);
    put_le(b, 100, 8);
    fx_buf_puts(b, "short");
}

static void bad_array_length(fx_buf *b)
{
    gguf_head(b, 3, 0, 1);
    gguf_key(b, "some.list", FX_META_ARRAY);
    put_le(b, FX_META_I32, 4);
    put_le(b, (uint64_t)1 << 62, 8);
    put_le(b, 0, 8);
}

static void bad_array_string(fx_buf *b)
{
    gguf_head(b, 3, 0, 1);
    gguf_key(b, "some.list", FX_META_ARRAY);
    put_le(b, FX_META_STR, 4);
    put_le(b, 2, 8);
    put_str(b, "fine");
    put_le(b, 5, 8);
}

static void bad_nesting(fx_buf *b)
{
    gguf_head(b, 3, 0, 1);
    gguf_key(b, "deep.list", FX_META_ARRAY);
    for (int i = 0; i < 40; i++) {
        put_le(b, FX_META_ARRAY, 4);
        put_le(b, 1, 8);
    }
}

static void bad_array_half(fx_buf *b)
{
    gguf_head(b, 3, 0, 1);
    gguf_key(b, "some.list", FX_META_ARRAY);
    put_le(b, FX_META_U32, 4);
    put_le(b, (uint64_t)1 << 63, 8);
}

static void bad_deep_nesting(fx_buf *b)
{
    gguf_head(b, 3, 0, 1);
    gguf_key(b, "deep.list", FX_META_ARRAY);
    for (int i = 0; i < 20000; i++) {
        put_le(b, FX_META_ARRAY, 4);
        put_le(b, 1, 8);
    }
}

static void bad_version_0(fx_buf *b) { gguf_head(b, 0, 0, 0); }
static void bad_version_all(fx_buf *b) { gguf_head(b, UINT32_MAX, 0, 0); }
static void bad_magic_alone(fx_buf *b) { fx_buf_puts(b, "GGUF"); }

static void bad_same_key(fx_buf *b)
{
    gguf_head(b, 3, 0, 2);
    gguf_u32(b, "same.key", 1);
    gguf_u32(b, "same.key", 1);
}

static void bad_same_tensor(fx_buf *b)
{
    gguf_head(b, 3, 2, 0);
    gguf_tensor(b, "same.weight", 0, 0, 1, (uint64_t)4);
    gguf_tensor(b, "same.weight", 0, 32, 1, (uint64_t)4);
    gguf_data(b, 32, 64);
}

static void bad_overlap(fx_buf *b)
{
    gguf_head(b, 3, 3, 0);
    gguf_tensor(b, "first", 0, 0, 1, (uint64_t)12);
    gguf_tensor(b, "none", 0, 32, 1, (uint64_t)0);
    gguf_tensor(b, "second", 0, 32, 1, (uint64_t)4);
    gguf_data(b, 32, 64);
}

static void bad_alignment_zero(fx_buf *b)
{
    gguf_head(b, 3, 0, 1);
    gguf_u32(b, "general.alignment", 0);
}

static void bad_alignment_odd(fx_buf *b)
{
    gguf_head(b, 3, 0, 1);
    gguf_u32(b, "general.alignment", 48);
}

static void bad_alignment_three(fx_buf *b)
{
    gguf_head(b, 3, 0, 1);
    gguf_u32(b, "general.alignment", 3);
}

static void bad_alignment_large(fx_buf *b)
{
    gguf_head(b, 3, 0, 1);
    gguf_u32(b, "general.alignment", 1u << 31);
}

static void bad_alignment_signed(fx_buf *b)
{
    gguf_head(b, 3, 0, 1);
    gguf_key(b, "general.alignment", FX_META_I32);
    put_le(b, 32, 4);
}

static void bad_alignment_twice(fx_buf *b)
{
    gguf_head(b, 3, 0, 2);
    gguf_u32(b, "general.alignment", 32);
    gguf_u32(b, "general.alignment", 64);
}

static void bad_alignment_type(fx_buf *b)
{
    gguf_head(b, 3, 0, 1);
    gguf_key(b, "general.alignment", FX_META_STR);
    put_str(b, "32");
}

static void bad_dims(fx_buf *b)
{
    gguf_head(b, 3, 1, 0);
    gguf_tensor(b, "w", 0, 0, 5, (uint64_t)1, (uint64_t)1, (uint64_t)1, (uint64_t)1, (uint64_t)1);
    gguf_data(b, 32, 64);
}

static void bad_product(fx_buf *b)
{
    gguf_head(b, 3, 1, 0);
    gguf_tensor(b, "w", 0, 0, 3, (uint64_t)1 << 40, (uint64_t)1 << 40, (uint64_t)1 << 40);
    gguf_data(b, 32, 64);
}

static void bad_split(fx_buf *b)
{
    gguf_head(b, 3, 0, 1);
    gguf_key(b, "split.count", FX_META_U16);
    put_le(b, 3, 2);
}

static void bad_split_number(fx_buf *b)
{
    gguf_head(b, 3, 0, 2);
    gguf_u32(b, "split.count", 3);
    gguf_u32(b, "split.no", 3);
}

static void bad_dim(fx_buf *b) { plain_tensor(b, 0, 0, (uint64_t)1 << 63); }
static void bad_bytes(fx_buf *b) { plain_tensor(b, 28, 0, (uint64_t)1 << 61); }
static void bad_block(fx_buf *b) { plain_tensor(b, 2, 0, 33); }
static void bad_type_number(fx_buf *b) { plain_tensor(b, 999, 0, 4); }
static void bad_type_unsupported(fx_buf *b) { plain_tensor(b, 15, 0, 292); }
static void bad_type_dropped(fx_buf *b) { plain_tensor(b, 4, 0, 32); }
static void bad_offset(fx_buf *b) { plain_tensor(b, 0, 4, 4); }
static void bad_offset_far(fx_buf *b) { plain_tensor(b, 0, UINT64_MAX - 31, 4); }
static void bad_data_short(fx_buf *b) { plain_tensor(b, 0, 32, 9); }

static const struct {
    void (*make)(fx_buf *b);
    fx_status st;
    const char *text;
} bad_ggufs[] = {
    { bad_empty, FORNAX_EFORMAT, "found an empty file" },
    { bad_magic, FORNAX_EFORMAT, "found GGML" },
    { bad_version_1, FORNAX_EUNSUP, "version 2 or 3, found 1" },
    { bad_version_4, FORNAX_EUNSUP, "found 4" },
    { bad_big_endian, FORNAX_EUNSUP, "big-endian" },
    { bad_big_magic, FORNAX_EUNSUP, "big-endian" },
    { bad_many_keys, FORNAX_EFORMAT, "number of keys that fits" },
    { bad_many_tensors, FORNAX_EFORMAT, "number of tensors that fits" },
    { bad_key_length, FORNAX_EFORMAT, "offset 32: expected the name of a key" },
    { bad_value_type, FORNAX_EFORMAT, "key some.key: offset 40: expected a value type from 0 to 12, found 13" },
    { bad_bool, FORNAX_EFORMAT, "key some.flag" },
    { bad_string, FORNAX_EFORMAT, "found 5 bytes to the end" },
    { bad_array_length, FORNAX_EFORMAT, "key some.list: offset 45" },
    { bad_array_string, FORNAX_EFORMAT, "a string of an array" },
    { bad_nesting, FORNAX_EUNSUP, "key deep.list" },
    { bad_array_half, FORNAX_EFORMAT, "key some.list: offset 45" },
    { bad_deep_nesting, FORNAX_EUNSUP, "key deep.list" },
    { bad_version_0, FORNAX_EFORMAT, "found 0" },
    { bad_version_all, FORNAX_EUNSUP, "found 4294967295" },
    { bad_magic_alone, FORNAX_EFORMAT, "offset 4: expected the version" },
    { bad_same_key, FORNAX_EFORMAT, "key same.key: offset 48: expected each key once" },
    { bad_same_tensor, FORNAX_EFORMAT, "tensor same.weight: expected each name once" },
    { bad_overlap, FORNAX_EFORMAT, "tensor second: expected its data after that of first" },
    { bad_alignment_zero, FORNAX_EFORMAT, "general.alignment: expected a power of two up to 65536, found 0" },
    { bad_alignment_odd, FORNAX_EFORMAT, "found 48" },
    { bad_alignment_three, FORNAX_EFORMAT, "general.alignment: expected a power of two up to 65536, found 3" },
    { bad_alignment_large, FORNAX_EFORMAT, "general.alignment: expected a power of two up to 65536, found 2147483648" },
    { bad_alignment_signed, FORNAX_EFORMAT, "general.alignment: expected a u32, found i32" },
    { bad_alignment_twice, FORNAX_EFORMAT, "key general.alignment" },
    { bad_alignment_type, FORNAX_EFORMAT, "general.alignment: expected a u32, found string" },
    { bad_dims, FORNAX_EFORMAT, "tensor w: offset 33: expected at most 4 dimensions, found 5" },
    { bad_product, FORNAX_EFORMAT, "tensor w: expected a number of elements below 2^63" },
    { bad_dim, FORNAX_EFORMAT, "expected a dimension below 2^63" },
    { bad_bytes, FORNAX_EFORMAT, "expected a size below 2^63" },
    { bad_block, FORNAX_EFORMAT, "multiple of 32 elements (type q4_0), found 33" },
    { bad_type_number, FORNAX_EFORMAT, "found 999" },
    { bad_type_unsupported, FORNAX_EUNSUP, "tensor w: GGML type Q8_K (15) is not supported" },
    { bad_type_dropped, FORNAX_EUNSUP, "Q4_2 (4)" },
    { bad_offset, FORNAX_EFORMAT, "multiple of 32, found 4" },
    { bad_offset_far, FORNAX_EFORMAT, "expected its data within" },
    { bad_data_short, FORNAX_EFORMAT, "expected its data within" },
    { bad_split, FORNAX_EFORMAT, "expected a name that ends in -00001-of-00003.gguf" },
    { bad_split_number, FORNAX_EFORMAT, "keys split.no and split.count: expected a part" },
};

TEST(gguf_faults)
{
    scratch s;
    fx_buf b;

    REQUIRE(scratch_open(&s));
    fx_buf_init(&b, &fx_mem_libc);
    for (size_t i = 0; i < FX_COUNT(bad_ggufs); i++) {
        char what[32];

        snprintf(what, sizeof(what), "gguf fault %zu", i);
        fx_buf_clear(&b);
        bad_ggufs[i].make(&b);
        open_bad(what, scratch_write(&s, "bad.gguf", fx_buf_view(&b)), bad_ggufs[i].st, bad_ggufs[i].text);
    }
    scratch_remove(&s, "bad.gguf");
    rmdir(s.dir);
    fx_buf_done(&b);
}

/* Part 'no' of 'count' of a model with a tensor a part. */
static const char *write_part(scratch *s, const char *name, uint32_t no, uint32_t count, uint32_t tensors)
{
    char tensor[16];
    const char *path;
    fx_buf b;

    fx_buf_init(&b, &fx_mem_libc);
    gguf_head(&b, 3, 1, no == 0 ? 4 : 3);
    gguf_u32(&b, "split.no", no);
    gguf_u32(&b, "split.count", count);
    gguf_u32(&b, "split.tensors.count", tensors);
    if (no == 0)
        gguf_u32(&b, "general.some", 42);
    snprintf(tensor, sizeof(tensor), "t%u", no);
    gguf_tensor(&b, tensor, 0, 0, 1, (uint64_t)(no + 1));
    gguf_data(&b, 32, 4 * (no + 1));
    path = scratch_write(s, name, fx_buf_view(&b));
    fx_buf_done(&b);
    return path;
}

static const char *const part_names[] = { "m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf" };

TEST(gguf_parts)
{
    scratch s;
    int64_t some = 0;
    fx_error err = { 0 };

    REQUIRE(scratch_open(&s));
    for (uint32_t i = 0; i < 3; i++)
        write_part(&s, part_names[i], i, 3, 3);
    for (int i = 0; i < 3; i++) {        /* whichever part is named */
        fx_weights *w = open_ok(scratch_path(&s, part_names[i]), 0);

        REQUIRE(w);
        CHECK_EQ_U64(fx_weights_count(w), 3);
        CHECK_EQ_U64(fx_weights_files(w), 3);
        CHECK_OK(fx_meta_i64(w, "general.some", &some, &err), err);
        CHECK_EQ_I64(some, 42);
        CHECK_EQ_U64(fx_weights_find(w, FX_STR("t2"))->bytes, 12);
        CHECK(fx_weights_find(w, FX_STR("t1"))->file == fx_weights_file(w, 1));
        touch_all(w);
        fx_weights_close(w);
        w = open_ok(s.path, FX_OPEN_HEADERS);
        REQUIRE(w);
        CHECK_OK(fx_meta_i64(w, "general.some", &some, &err), err);
        fx_weights_close(w);
    }
    for (int i = 0; i < 3; i++)
        scratch_remove(&s, part_names[i]);
    rmdir(s.dir);
}

TEST(gguf_part_faults)
{
    scratch s;
    char first[256];

    REQUIRE(scratch_open(&s));
    strcpy(first, scratch_path(&s, part_names[0]));
    write_part(&s, part_names[0], 0, 3, 3);
    write_part(&s, part_names[1], 1, 3, 3);
    open_bad("a part is missing", first, FORNAX_ENOTFOUND, "expected part 3 of 3 beside it");
    write_part(&s, part_names[2], 1, 3, 3);
    open_bad("a part twice", first, FORNAX_EFORMAT, "expected part 3 of 3, found part 2 of 3");
    write_part(&s, part_names[2], 2, 4, 3);
    open_bad("of another model", first, FORNAX_EFORMAT, "found part 3 of 4");
    write_part(&s, part_names[2], 2, 3, 3);
    write_part(&s, part_names[0], 0, 3, 4);
    open_bad("a tensor is missing", first, FORNAX_EFORMAT, "expected 4 tensors in its 3 parts, found 3");
    write_part(&s, part_names[0], 1, 3, 3);
    open_bad("the first isn't", scratch_path(&s, part_names[2]), FORNAX_EFORMAT, "expected part 1 of 3");
    scratch_remove(&s, part_names[0]);
    open_bad("no first", scratch_path(&s, part_names[2]), FORNAX_ENOTFOUND, "expected part 1 of 3 beside it");
    for (int i = 1; i < 3; i++)
        scratch_remove(&s, part_names[i]);
    rmdir(s.dir);
}

TEST(gguf_small_alignment)
{
    scratch s;
    fx_buf b;

    REQUIRE(scratch_open(&s));
    fx_buf_init(&b, &fx_mem_libc);
    gguf_head(&b, 2, 3, 1);
    gguf_u32(&b, "general.alignment", 1);
    gguf_tensor(&b, "byte", 24, 0, 1, (uint64_t)1);
    gguf_tensor(&b, "odd", 0, 1, 2, (uint64_t)2, (uint64_t)3);
    gguf_tensor(&b, "scalar", 24, 25, 0);
    gguf_data(&b, 1, 26);
    fx_weights *w = open_ok(scratch_write(&s, "m", fx_buf_view(&b)), 0);
    REQUIRE(w);
    const fx_weight *t = fx_weights_find(w, FX_STR("odd"));
    REQUIRE(t && t->bytes == 24 && t->shape[0] == 3 && t->shape[1] == 2);
    CHECK((uintptr_t)t->data % 4 == 0);
    CHECK_MEM(t->data, fx_file_bytes(t->file).p + t->offset, 24);
    CHECK_EQ_I64(fx_weights_find(w, FX_STR("scalar"))->n_elems, 1);
    fx_weights_close(w);
    scratch_remove(&s, "m");
    rmdir(s.dir);
    fx_buf_done(&b);
}

/* ---- safetensors ---------------------------------------------------------------------------- */

TEST(safetensors_tensors)
{
    static const struct {
        const char *name;
        fx_dtype t;
        int rank;
        int64_t shape[5];
        size_t bytes;
    } cases[] = {
        { "a.f32", FX_F32, 2, { 2, 3, 1, 1, 1 }, 24 }, { "b.f16", FX_F16, 1, { 4, 1, 1, 1, 1 }, 8 },
        { "c.bf16", FX_BF16, 3, { 2, 1, 2, 1, 1 }, 8 }, { "d.i64", FX_I64, 0, { 1, 1, 1, 1, 1 }, 8 },
        { "e.u8", FX_U8, 1, { 3, 1, 1, 1, 1 }, 3 },    { "f.bool", FX_BOOL, 1, { 2, 1, 1, 1, 1 }, 2 },
        { "g.empty", FX_F32, 2, { 0, 4, 1, 1, 1 }, 0 }, { "h.f8", FX_F8E4M3, 1, { 3, 1, 1, 1, 1 }, 3 },
        { "i.rank5", FX_I16, 5, { 1, 2, 1, 2, 1 }, 8 }, { "j.f64", FX_F64, 1, { 1, 1, 1, 1, 1 }, 8 },
        { "k.i8", FX_I8, 1, { 1, 1, 1, 1, 1 }, 1 },    { "l.i32", FX_I32, 1, { 2, 1, 1, 1, 1 }, 8 },
    };
    fx_weights *w = open_ok(DATA "tiny.safetensors", 0);
    float x[6];

    REQUIRE(w);
    CHECK_EQ_U64(fx_weights_count(w), FX_COUNT(cases));
    for (size_t i = 0; i < FX_COUNT(cases); i++) {
        const fx_weight *t = fx_weights_find(w, fx_str_of(cases[i].name));

        REQUIRE(t);
        CHECK(t->dtype == cases[i].t && t->rank == cases[i].rank && t->bytes == cases[i].bytes);
        CHECK_MEM(t->shape, cases[i].shape, sizeof(cases[i].shape));
    }
    memcpy(x, fx_weights_find(w, FX_STR("a.f32"))->data, sizeof(x));
    CHECK(x[0] == 0 && x[5] == 5);
    CHECK_EQ_I64(*(const int64_t *)fx_weights_find(w, FX_STR("d.i64"))->data, -5);
    CHECK(!fx_weights_config(w) && fx_meta_count(w) == 0);
    fx_weights_close(w);
}

#define W "\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"

static const struct {
    const char *header;
    size_t data;
    fx_status st;                /* FORNAX_OK: opens */
    const char *text;
} safetensors_cases[] = {
    { "{}", 0, FORNAX_OK, "" },
    { "{" W "}    ", 8, FORNAX_OK, "" },
    { "{\"__metadata__\":{\"a\":\"b\"}," W "}", 8, FORNAX_OK, "" },
    { "{\"w\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4],\"extra\":1}}", 4, FORNAX_OK, "" },
    { "{" W ",\"v\":{\"dtype\":\"U8\",\"shape\":[0,9223372036854775807,9],\"data_offsets\":[8,8]}}", 8, FORNAX_OK, "" },
    { "{" W "}", 9, FORNAX_EFORMAT, "expected 8 bytes of data for its tensors, found 9" },
    { "{" W "}", 7, FORNAX_EFORMAT, "tensor w: expected data_offsets in order within the 7 bytes" },
    { "{", 0, FORNAX_EFORMAT, "line 1" },
    { "", 0, FORNAX_EFORMAT, "begins with {" },
    { "[]", 0, FORNAX_EFORMAT, "begins with {" },
    { " {}", 0, FORNAX_EFORMAT, "begins with {" },
    { "{\"__metadata__\":null}", 0, FORNAX_OK, "" },
    { "{" W "} x", 8, FORNAX_EFORMAT, "line 1" },
    { "{" W "," W "}", 8, FORNAX_EFORMAT, "line 1" },
    { "{\"__metadata__\":{\"a\":1}," W "}", 8, FORNAX_EFORMAT, "__metadata__: a: expected a string" },
    { "{\"__metadata__\":[]," W "}", 8, FORNAX_EFORMAT, "__metadata__: expected an object" },
    { "{\"w\":1}", 0, FORNAX_EFORMAT, "tensor w: expected an object" },
    { "{\"w\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, FORNAX_EFORMAT, "tensor w: expected dtype" },
    { "{\"w\":{\"dtype\":\"F33\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, FORNAX_EFORMAT, "found F33" },
    { "{\"w\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,1]}}", 1, FORNAX_EUNSUP, "F4 is not supported" },
    { "{\"w\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, FORNAX_EFORMAT, "shape: a list" },
    { "{\"w\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, FORNAX_EFORMAT, "not below 0" },
    { "{\"w\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}", 8, FORNAX_EFORMAT, "integers" },
    { "{\"w\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,8]}}", 8, FORNAX_EUNSUP,
      "at most 8 dimensions, found 9" },
    { "{\"w\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,8]}}", 8, FORNAX_EFORMAT,
      "below 2^63" },
    { "{\"w\":{\"dtype\":\"F32\",\"shape\":[4611686018427387905],\"data_offsets\":[0,4]}}", 4, FORNAX_EFORMAT,
      "size below 2^63" },
    { "{\"w\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8, FORNAX_EFORMAT, "expected 12 bytes" },
    { "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, FORNAX_EFORMAT, "found [8, 0]" },
    { "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", 8, FORNAX_EFORMAT, "found [-8, 0]" },
    { "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", 8, FORNAX_EFORMAT, "two integers" },
    { "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,8]}}", 8, FORNAX_EFORMAT, "two integers" },
    { "{\"w\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, FORNAX_EFORMAT, "two integers" },
    { "{" W ",\"v\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[7,9]}}", 9, FORNAX_EFORMAT,
      "tensor v: expected its data at 8" },
    { "{" W ",\"v\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[9,11]}}", 11, FORNAX_EFORMAT,
      "tensor v: expected its data at 8" },
    { "{\"w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}", 3, FORNAX_EFORMAT, "expected its data at 0" },
    { "{\"\\u0000\":{}}", 0, FORNAX_EFORMAT, "line 1" },
    { "{\"\xff\":{}}", 0, FORNAX_EFORMAT, "line 1" },
    { "{\"w\":{\"dtype\":\"U8\",\"shape\":[99999999999999999999],\"data_offsets\":[0,8]}}", 8, FORNAX_EFORMAT, "line 1" },
};

TEST(safetensors_headers)
{
    scratch s;
    fx_buf b;

    REQUIRE(scratch_open(&s));
    fx_buf_init(&b, &fx_mem_libc);
    for (size_t i = 0; i < FX_COUNT(safetensors_cases); i++) {
        fx_buf_clear(&b);
        safetensors(&b, safetensors_cases[i].header, safetensors_cases[i].data);
        const char *path = scratch_write(&s, "m.safetensors", fx_buf_view(&b));
        if (safetensors_cases[i].st != FORNAX_OK) {
            open_bad(safetensors_cases[i].header, path, safetensors_cases[i].st, safetensors_cases[i].text);
            continue;
        }
        fx_weights *w = open_ok(path, 0);
        if (w)
            touch_all(w);
        fx_weights_close(w);
    }
    scratch_remove(&s, "m.safetensors");
    rmdir(s.dir);
    fx_buf_done(&b);
}

TEST(safetensors_length)
{
    static const uint64_t lengths[] = { UINT64_MAX, (uint64_t)1 << 40, 1000, 100000001 };
    scratch s;
    fx_buf b;

    REQUIRE(scratch_open(&s));
    fx_buf_init(&b, &fx_mem_libc);
    for (size_t i = 0; i < FX_COUNT(lengths); i++) {
        fx_buf_clear(&b);
        put_le(&b, lengths[i], 8);
        fx_buf_puts(&b, "{}");
        open_bad("length", scratch_write(&s, "m.safetensors", fx_buf_view(&b)), FORNAX_EFORMAT, "the length");
    }
    open_bad("short", scratch_write(&s, "m.safetensors", FX_STR("1234567")), FORNAX_EFORMAT, "found 7 bytes");
    open_bad("other", scratch_write(&s, "m.safetensors.txt", FX_STR("what is this?")), FORNAX_EFORMAT, "none of these");
    scratch_remove(&s, "m.safetensors");
    scratch_remove(&s, "m.safetensors.txt");
    rmdir(s.dir);
    fx_buf_done(&b);
}

TEST(safetensors_misaligned)
{
    scratch s;
    fx_buf b;

    REQUIRE(scratch_open(&s));
    fx_buf_init(&b, &fx_mem_libc);
    safetensors(&b, "{" W "}", 8);
    REQUIRE((b.n - 8) % 4 != 0);
    const char *path = scratch_write(&s, "m.safetensors", fx_buf_view(&b));
    fx_weights *w = open_ok(path, 0);
    REQUIRE(w);
    const fx_weight *t = fx_weights_at(w, 0);
    CHECK(t->copied && (uintptr_t)t->data % 4 == 0);
    CHECK_MEM(t->data, "\0\1\2\3\4\5\6\7", 8);
    fx_weights_release(w, t);
    fx_weights_close(w);
    w = open_ok(path, FX_OPEN_INSPECT);
    REQUIRE(w);
    CHECK(!fx_weights_at(w, 0)->copied);
    fx_weights_close(w);
    scratch_remove(&s, "m.safetensors");
    rmdir(s.dir);
    fx_buf_done(&b);
}

/* ---- Hub folders ------------------------------------------------------------------------------ */

static const char *const hub_files[] = {
    "config.json", "generation_config.json", "model.safetensors", "model.safetensors.index.json", "a.safetensors",
    "b.safetensors", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "pytorch_model.bin",
};

static void put_file(scratch *s, const char *name, const char *text)
{
    scratch_write(s, name, fx_str_of(text));
}

static void put_shard(scratch *s, const char *name, const char *header, size_t data)
{
    fx_buf b;

    fx_buf_init(&b, &fx_mem_libc);
    safetensors(&b, header, data);
    scratch_write(s, name, fx_buf_view(&b));
    fx_buf_done(&b);
}

static void scratch_clear(scratch *s)
{
    for (size_t i = 0; i < FX_COUNT(hub_files); i++)
        scratch_remove(s, hub_files[i]);
}

TEST(hub_single)
{
    scratch s;

    REQUIRE(scratch_open(&s));
    open_bad("empty folder", s.dir, FORNAX_ENOTFOUND, "expected a config.json");
    put_file(&s, "config.json", "{\"hidden_size\": 64}");
    open_bad("no weights", s.dir, FORNAX_ENOTFOUND, "found neither");
    put_file(&s, "pytorch_model.bin", "");
    open_bad("torch weights", s.dir, FORNAX_ENOTFOUND, "pytorch_model.bin, which is not supported");
    put_shard(&s, "model.safetensors", "{" W "}", 8);
    put_file(&s, "tokenizer.json", "not JSON, not our business");
    put_file(&s, "chat_template.jinja", "");
    fx_weights *w = open_ok(s.dir, 0);
    REQUIRE(w);
    CHECK_EQ_I64(fx_weights_kind_of(w), FX_WEIGHTS_HUB);
    CHECK_EQ_U64(fx_weights_count(w), 1);
    CHECK(fx_str_is(fx_weights_text(w, FX_TEXT_TOKENIZER), "not JSON, not our business"));
    CHECK(fx_weights_text(w, FX_TEXT_TEMPLATE).p && fx_weights_text(w, FX_TEXT_TEMPLATE).n == 0);
    CHECK(!fx_weights_text(w, FX_TEXT_TOKENIZER_CONFIG).p);
    CHECK(!fx_weights_generation_config(w));
    fx_weights_close(w);
    scratch_clear(&s);
    rmdir(s.dir);
}

TEST(hub_headers)
{
    scratch s;

    REQUIRE(scratch_open(&s));
    put_file(&s, "tokenizer.json", "{}");
    put_file(&s, "tokenizer_config.json", "{\"a\":1}");
    fx_weights *w = open_ok(s.dir, FX_OPEN_HEADERS);
    REQUIRE(w);
    CHECK(!fx_weights_config(w) && fx_weights_text(w, FX_TEXT_TOKENIZER).n == 2);
    fx_weights_close(w);
    w = open_ok(scratch_path(&s, "tokenizer.json"), FX_OPEN_HEADERS);
    REQUIRE(w);
    CHECK(fx_weights_text(w, FX_TEXT_TOKENIZER).n == 2 && fx_weights_text(w, FX_TEXT_TOKENIZER_CONFIG).n == 7);
    fx_weights_close(w);
    w = open_ok(scratch_path(&s, "tokenizer_config.json"), FX_OPEN_HEADERS);
    REQUIRE(w);
    CHECK(fx_weights_text(w, FX_TEXT_TOKENIZER).n == 7 && !fx_weights_text(w, FX_TEXT_TOKENIZER_CONFIG).p);
    fx_weights_close(w);
    scratch_clear(&s);
    rmdir(s.dir);
}

#define V "\"v\":{\"dtype\":\"I16\",\"shape\":[1],\"data_offsets\":[0,2]}"

TEST(hub_shards)
{
    static const struct {
        const char *index;
        fx_status st;
        const char *text;
    } bad[] = {
        { "{}", FORNAX_EFORMAT, "weight_map: expected an object, found none" },
        { "{\"weight_map\":[]}", FORNAX_EFORMAT, "weight_map: expected an object" },
        { "{\"weight_map\":{\"w\":1}}", FORNAX_EFORMAT, "weight_map: w: expected the name of a file" },
        { "{\"weight_map\":{\"w\":\"../a.safetensors\"}}", FORNAX_EFORMAT, "found ../a.safetensors" },
        { "{\"weight_map\":{\"w\":\"/etc/passwd\"}}", FORNAX_EFORMAT, "found /etc/passwd" },
        { "{\"weight_map\":{\"w\":\"x\\\\y\"}}", FORNAX_EFORMAT, "expected the name of a file" },
        { "{\"weight_map\":{\"w\":\"..\"}}", FORNAX_EFORMAT, "expected the name of a file" },
        { "{\"weight_map\":{\"w\":\"\"}}", FORNAX_EFORMAT, "expected the name of a file" },
        { "{\"weight_map\":{\"w\":\"c.safetensors\"}}", FORNAX_ENOTFOUND, "expected the file c.safetensors" },
        { "{\"weight_map\":{\"w\":\"b.safetensors\",\"v\":\"a.safetensors\"}}", FORNAX_EFORMAT, "expected tensor w in b" },
        { "{\"weight_map\":{\"w\":\"a.safetensors\",\"u\":\"b.safetensors\"}}", FORNAX_EFORMAT, "found it nowhere" },
        { "{\"weight_map\":{\"w\":", FORNAX_EFORMAT, "index.json: line 1" },
    };
    scratch s;

    REQUIRE(scratch_open(&s));
    put_file(&s, "config.json", "{}");
    put_shard(&s, "a.safetensors", "{" W "}", 8);
    put_shard(&s, "b.safetensors", "{" V "}", 2);
    put_file(&s, "model.safetensors.index.json", "{\"metadata\":{},\"weight_map\":{\"v\":\"b.safetensors\",\"w\":\"a.safetensors\"}}");
    fx_weights *w = open_ok(s.dir, 0);
    REQUIRE(w);
    CHECK_EQ_U64(fx_weights_count(w), 2);
    CHECK_EQ_U64(fx_weights_files(w), 2);
    CHECK(fx_str_is(fx_weights_at(w, 0)->name, "w") && fx_weights_at(w, 1)->dtype == FX_I16);
    fx_weights_close(w);
    for (size_t i = 0; i < FX_COUNT(bad); i++) {
        put_file(&s, "model.safetensors.index.json", bad[i].index);
        open_bad(bad[i].index, s.dir, bad[i].st, bad[i].text);
    }
    put_shard(&s, "b.safetensors", "{" W "}", 8);
    put_file(&s, "model.safetensors.index.json", "{\"weight_map\":{\"v\":\"b.safetensors\",\"w\":\"a.safetensors\"}}");
    open_bad("a name in two shards", s.dir, FORNAX_EFORMAT, "tensor w: expected each name once");
    scratch_clear(&s);
    rmdir(s.dir);
}

TEST(hub_config)
{
    fx_error err = { 0 };
    int64_t i = 0;
    double f = 0;
    bool b = false;
    fx_str z;
    scratch s;

    REQUIRE(scratch_open(&s));
    put_file(&s, "config.json",
             "{\"int\": 7, \"whole\": 8192.0, \"part\": 0.5, \"yes\": true, \"text\": \"llama\", \"none\": null,\n"
             " \"rope_scaling\": {\"factor\": 8, \"deep\": {\"x\": 1}}, \"list\": [1, 2], \"big\": 1e300,\n"
             " \"limit\": [0.0, Infinity, -Infinity, NaN], \"quote\": \"a \\\\\\\" NaN Infinity\", \"id\": 5, \"bad_ids\": [1, \"x\"]}");
    put_file(&s, "generation_config.json", "{\"eos_token_id\": [128001, 128009]}");
    fx_weights *w = open_ok(s.dir, FX_OPEN_HEADERS);
    REQUIRE(w);
    CHECK_OK(fx_config_i64(w, "int", &i, &err), err);
    CHECK_EQ_I64(i, 7);
    CHECK_OK(fx_config_i64(w, "whole", &i, &err), err);
    CHECK_EQ_I64(i, 8192);
    CHECK_OK(fx_config_f64(w, "rope_scaling.factor", &f, &err), err);
    CHECK(f == 8);
    CHECK_OK(fx_config_i64(w, "rope_scaling.deep.x", &i, &err), err);
    CHECK_OK(fx_config_bool(w, "yes", &b, &err), err);
    CHECK(b);
    CHECK_OK(fx_config_str(w, "text", &z, &err), err);
    CHECK(fx_str_is(z, "llama"));
    CHECK_OK(fx_config_str(w, "quote", &z, &err), err);
    CHECK(fx_str_is(z, "a \\\" NaN Infinity"));
    CHECK(json_real_value(json_array_get(fx_config_find(w, "limit"), 1)) > 1e308);
    CHECK(json_real_value(json_array_get(fx_config_find(w, "limit"), 2)) < -1e308);
    CHECK(json_is_null(json_array_get(fx_config_find(w, "limit"), 3)));
    CHECK_EQ_I64(fx_config_i64(w, "part", &i, &err), FORNAX_EFORMAT);
    CHECK_EQ_I64(fx_config_i64(w, "big", &i, &err), FORNAX_EFORMAT);
    CHECK_EQ_I64(fx_config_i64(w, "text", &i, &err), FORNAX_EFORMAT);
    CHECK(strstr(err.text, "config.json: text: expected an integer, found a string") && !strcmp(err.param, "text"));
    CHECK_EQ_I64(fx_config_i64(w, "none", &i, &err), FORNAX_ENOTFOUND);
    CHECK_EQ_I64(fx_config_i64(w, "text.x", &i, &err), FORNAX_ENOTFOUND);
    CHECK_EQ_I64(fx_config_bool(w, "int", &b, &err), FORNAX_EFORMAT);
    CHECK_EQ_I64(fx_config_opt_f64(w, "text", &f, &err), FORNAX_EFORMAT);
    i = 3;
    CHECK_OK(fx_config_opt_i64(w, "none", &i, &err), err);
    CHECK_OK(fx_config_opt_i64(w, "rope_scaling.none", &i, &err), err);
    CHECK_EQ_I64(i, 3);

    fx_arena a;
    int32_t *ids;
    size_t n;
    fx_arena_init(&a, &fx_mem_libc, 0);
    CHECK_OK(fx_config_ids(w, fx_weights_generation_config(w), "eos_token_id", &a, &ids, &n, &err), err);
    CHECK(n == 2 && ids[1] == 128009);
    CHECK_OK(fx_config_ids(w, fx_weights_config(w), "id", &a, &ids, &n, &err), err);
    CHECK(n == 1 && ids[0] == 5);
    CHECK_OK(fx_config_ids(w, fx_weights_config(w), "none", &a, &ids, &n, &err), err);
    CHECK(n == 0);
    CHECK_OK(fx_config_ids(w, NULL, "id", &a, &ids, &n, &err), err);
    CHECK(n == 0);
    CHECK_EQ_I64(fx_config_ids(w, fx_weights_config(w), "bad_ids", &a, &ids, &n, &err), FORNAX_EFORMAT);
    fx_arena_done(&a);
    fx_weights_close(w);
    put_file(&s, "config.json", "[1]");
    open_bad("config is a list", s.dir, FORNAX_EFORMAT, "config.json: expected a JSON object");
    put_file(&s, "config.json", "{\n\"a\":}");
    open_bad("config is broken", s.dir, FORNAX_EFORMAT, "config.json: line 2");
    put_file(&s, "config.json", "");
    open_bad("config is empty", s.dir, FORNAX_EFORMAT, "config.json: line 1");
    scratch_clear(&s);
    rmdir(s.dir);
}

/* ---- Inspect ------------------------------------------------------------------------------------ */

static json_t *inspect_json(const char *path)
{
    fx_weights *w = open_ok(path, FX_OPEN_INSPECT);
    fx_error err = { 0 };
    json_t *j = NULL;
    fx_buf b;

    fx_buf_init(&b, &fx_mem_libc);
    if (w && fx_inspect(w, true, &b, &err) == FORNAX_OK)
        j = json_loadb(b.p, b.n, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, NULL);
    fx_buf_done(&b);
    fx_weights_close(w);
    return j;
}

TEST(inspect_as_json)
{
    json_t *j = inspect_json(DATA "tiny.gguf"), *m = json_object_get(j, "metadata"), *t;

    REQUIRE(j);
    CHECK_STR(json_string_value(json_object_get(j, "format")), "gguf");
    CHECK_EQ_I64(json_number_value(json_object_get(j, "parameter_count")), 7081);
    CHECK(json_number_value(json_object_get(m, "t.u64")) == 18e18);
    CHECK_EQ_I64(json_number_value(json_object_get(json_object_get(m, "t.long"), "count")), 100);
    CHECK_STR(json_string_value(json_object_get(json_object_get(m, "t.long"), "type")), "i32");
    CHECK_EQ_U64(json_array_size(json_object_get(m, "t.strs")), 3);
    t = json_array_get(json_object_get(j, "tensors"), 0);
    CHECK_STR(json_string_value(json_object_get(t, "name")), "q4_0");
    CHECK_EQ_I64(json_number_value(json_object_get(t, "bytes")), 72);
    CHECK_EQ_I64(json_number_value(json_array_get(json_object_get(t, "shape"), 1)), 64);
    json_decref(j);
    j = inspect_json(DATA "tiny.safetensors");
    REQUIRE(j);
    CHECK_EQ_U64(json_array_size(json_object_get(j, "tensors")), 12);
    CHECK_STR(json_string_value(json_object_get(json_object_get(j, "metadata"), "format")), "pt");
    json_decref(j);
}

TEST(inspect_as_text)
{
    fx_weights *w = open_ok(DATA "tiny.gguf", FX_OPEN_INSPECT);
    fx_error err = { 0 };
    fx_buf b;

    REQUIRE(w);
    fx_buf_init(&b, &fx_mem_libc);
    CHECK_OK(fx_inspect(w, false, &b, &err), err);
    CHECK(strstr(b.p, "t.long = [0, 1, 2, 3, 4, 5, ...] (100 of i32)\n"));
    CHECK(strstr(b.p, "q4_k    q4_k [2,512]  576 bytes at 3104\n"));
    CHECK(strstr(b.p, "all     17 tensors, 7081 parameters, 4194 bytes\n"));
    fx_buf_done(&b);
    fx_weights_close(w);
}

/* ---- Out of memory --------------------------------------------------------------------------------- */

typedef struct failing {
    int left;                    /* allocations that still succeed */
    int64_t live;                /* bytes */
} failing;

static void *failing_alloc(void *user, void *p, size_t old_size, size_t new_size)
{
    failing *f = user;

    if (new_size > old_size && f->left-- <= 0)
        return NULL;
    f->live += (int64_t)new_size - (int64_t)old_size;
    return fx_mem_libc.fn(fx_mem_libc.user, p, old_size, new_size);
}

/* Opening with ever more successful allocations: ENOMEM until it works, nothing left over. */
static void starve(const char *path)
{
    for (int n = 0; n < 1000; n++) {
        failing f = { n, 0 };
        fx_mem mem = { failing_alloc, &f };
        fx_error err = { 0 };
        fx_weights *w = NULL;
        fx_status st = fx_weights_open(&w, &mem, path, 0, &err);

        CHECK(st == FORNAX_ENOMEM || st == FORNAX_OK);
        fx_weights_close(w);
        CHECK_EQ_I64(f.live, 0);
        if (st != FORNAX_ENOMEM)
            return;
    }
    FXTEST_FAIL("%s needs too many allocations", path);
}

TEST(out_of_memory)
{
    scratch s;

    starve(DATA "tiny.gguf");
    starve(DATA "tiny.safetensors");
    REQUIRE(scratch_open(&s));
    put_file(&s, "config.json", "{\"x\": Infinity}");
    put_file(&s, "tokenizer.json", "{}");
    put_shard(&s, "a.safetensors", "{" W "}", 8);
    put_shard(&s, "b.safetensors", "{" V "}", 2);
    put_file(&s, "model.safetensors.index.json", "{\"weight_map\":{\"v\":\"b.safetensors\",\"w\":\"a.safetensors\"}}");
    starve(s.dir);
    scratch_clear(&s);
    rmdir(s.dir);
}

FXTEST_MAIN()
