/* test_format_mutate.c - damaged model files as format/ reads them (mutate.h).  Each must give a sentence, or open
 * and be readable whole; the sanitizers watch.  test_model_mutate.c goes on to models. */
#include "fxtest.h"

#include "format/inspect.h"
#include "format_files.h"
#include "mutate.h"

static bool inside(const fx_file *f, const void *p, size_t n)
{
    fx_str b = fx_file_bytes(f);
    const char *q = p;

    return n == 0 || (q >= b.p && n <= b.n && (size_t)(q - b.p) <= b.n - n);
}

static void check_value(const fx_weights *w, const fx_meta *m)
{
    const fx_file *f = fx_weights_file(w, 0);
    fx_meta e;

    if (m->type == FX_META_STR)
        CHECK(inside(f, m->v.s.p, m->v.s.n));
    if (m->type != FX_META_ARRAY)
        return;
    CHECK(inside(f, m->v.array.bytes.p, m->v.array.bytes.n));
    for (fx_meta_iter it = fx_meta_iter_of(m); fx_meta_next(&it, &e);)
        check_value(w, &e);
}

static void use_arrays(const fx_weights *w, const fx_meta *m, fx_arena *a)
{
    char key[256];
    fx_str *s;
    int32_t *i;
    float *f;
    bool *b;
    size_t n;

    if (m->key.n >= sizeof(key) || memchr(m->key.p, 0, m->key.n))
        return;
    memcpy(key, m->key.p, m->key.n);
    key[m->key.n] = 0;
    fx_meta_strs(w, key, a, &s, &n, NULL);
    fx_meta_i32s(w, key, a, &i, &n, NULL);
    fx_meta_f32s(w, key, a, &f, &n, NULL);
    fx_meta_bools(w, key, a, &b, &n, NULL);
}

static void use(const fx_weights *w)
{
    fx_error err = { 0 };
    fx_arena a;
    fx_buf b;

    fx_arena_init(&a, &fx_mem_libc, 0);
    fx_buf_init(&b, &fx_mem_libc);
    touch_all(w);
    for (size_t i = 0; i < fx_weights_count(w); i++) {
        const fx_weight *t = fx_weights_at(w, i);

        CHECK(t->copied || inside(t->file, t->data, t->bytes));
        CHECK((uintptr_t)t->data % fx_dtype_rows[t->dtype].align == 0);
        CHECK(fx_weights_find(w, t->name) == t);
    }
    for (size_t i = 0; i < fx_meta_count(w); i++) {
        check_value(w, fx_meta_at(w, i));
        use_arrays(w, fx_meta_at(w, i), &a);
    }
    CHECK_OK(fx_inspect(w, false, &b, &err), err);
    fx_buf_clear(&b);
    CHECK_OK(fx_inspect(w, true, &b, &err), err);
    json_t *j = json_loadb(b.p, b.n, JSON_DECODE_INT_AS_REAL, NULL);
    if (!j && !strstr(b.p, "\\u0000"))               /* jansson refuses those; they are JSON */
        FXTEST_FAIL("not JSON: %s", b.p);
    json_decref(j);
    fx_buf_done(&b);
    fx_arena_done(&a);
}

static bool clean_sentence(const fx_error *err)
{
    size_t n = strlen(err->text);

    return n > 0 && n < sizeof(err->text) && !strchr(err->text, '\n');
}

/* 'path' (what is opened) opens or says why not, with and without its weights. */
static void try_open(const char *path, const char *what, int number)
{
    static const unsigned flags[] = { 0, FX_OPEN_HEADERS, FX_OPEN_INSPECT };
    int before = fxtest_bad;

    for (size_t i = 0; i < FX_COUNT(flags); i++) {
        fx_error err = { 0 };
        fx_weights *w = NULL;
        fx_status st = fx_weights_open(&w, &fx_mem_libc, path, flags[i], &err);

        if (st == FORNAX_OK && flags[i] != FX_OPEN_INSPECT)
            use(w);
        else if (st != FORNAX_OK)
            CHECK((st == FORNAX_EFORMAT || st == FORNAX_EUNSUP || st == FORNAX_ENOTFOUND) && !w && clean_sentence(&err));
        fx_weights_close(w);
    }
    if (fxtest_bad > before)
        printf("... in %s %d\n", what, number);
}

/* ---- Files ------------------------------------------------------------------------------- */

typedef struct target {
    scratch *s;
    const char *name, *path;     /* the file that is damaged, and what is opened */
} target;

static void write_and_open(void *user, fx_str damaged, const char *what, int number)
{
    target *t = user;

    scratch_write(t->s, t->name, damaged);
    try_open(t->path, what, number);
}

/* Cuts and changes 'data', writes it as 'name' and opens 'path'. */
static void torture(scratch *s, const char *name, const char *path, fx_str data, size_t head)
{
    each_damage(data, head, write_and_open, &(target){ s, name, path });
    scratch_remove(s, name);
}

static void torture_data_file(const char *name, size_t head)
{
    fx_error err = { 0 };
    char from[512], to[256];
    scratch s;
    fx_buf b;

    REQUIRE(scratch_open(&s));
    fx_buf_init(&b, &fx_mem_libc);
    snprintf(from, sizeof(from), FXTEST_DATA "/format/%s", name);
    CHECK_OK(fx_file_read(&b, from, 1 << 20, &err), err);
    snprintf(to, sizeof(to), "%s", scratch_path(&s, name));
    torture(&s, name, to, fx_buf_view(&b), head);
    fx_buf_done(&b);
    rmdir(s.dir);
}

TEST(gguf)
{
    torture_data_file("tiny.gguf", 1760);
}

TEST(safetensors)
{
    torture_data_file("tiny.safetensors", 800);
}

static const char config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 64, \"rope_theta\": 1e4, \"x\": [0.0, Infinity],\n"
    " \"rope_scaling\": {\"factor\": 8.0, \"rope_type\": \"llama3\"}, \"eos_token_id\": [1, 2], \"t\": true}";
static const char one[] = "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
static const char index_json[] =
    "{\"metadata\": {\"total_size\": 16}, \"weight_map\": {\"w\": \"a.safetensors\"}}";

TEST(folder)
{
    scratch s;
    fx_buf b;

    REQUIRE(scratch_open(&s));
    fx_buf_init(&b, &fx_mem_libc);
    safetensors(&b, one, 8);
    scratch_write(&s, "a.safetensors", fx_buf_view(&b));
    scratch_write(&s, "model.safetensors.index.json", fx_str_of(index_json));
    torture(&s, "config.json", s.dir, fx_str_of(config), sizeof(config) - 1);
    scratch_write(&s, "config.json", fx_str_of(config));
    torture(&s, "model.safetensors.index.json", s.dir, fx_str_of(index_json), sizeof(index_json) - 1);
    scratch_remove(&s, "config.json");
    scratch_remove(&s, "a.safetensors");
    rmdir(s.dir);
    fx_buf_done(&b);
}

FXTEST_MAIN()
