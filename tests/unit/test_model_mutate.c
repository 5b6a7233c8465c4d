/* test_model_mutate.c - damaged files of every format, all the way to a model that runs: GGUF of both versions and in
 * parts, hub folders with one file of weights and with an index, quantized ones, tokenizers, adapters.
 *
 * Each damaged file (mutate.h) gives one sentence, or a model, tokenizer or adapter that is then used; in memory and
 * time that its size bounds.  The sanitizers watch. */
#include "fxtest.h"

#include <time.h>

#include "fornax.h"
#include "model_files.h"
#include "mutate.h"

enum { MEMORY = 48 << 20, SECONDS = 5 };

#define SPEC .arch = "llama", .layers = 1, .dim = 32, .heads = 2, .kv_heads = 1, .head_dim = 16, .ffn = 32, .vocab = 34

/* ---- What has so much memory and no more ------------------------------------------------------- */

static size_t used;

static void *limited(void *user, void *p, size_t old_size, size_t new_size)
{
    size_t now = __atomic_load_n(&used, __ATOMIC_RELAXED);

    (void)user;
    if (new_size > old_size && new_size - old_size > MEMORY - FX_MIN(now, (size_t)MEMORY))
        return NULL;
    p = fx_mem_libc.fn(NULL, p, old_size, new_size);
    if (p || !new_size)
        __atomic_add_fetch(&used, new_size - old_size, __ATOMIC_RELAXED);
    return p;
}

static fornax_context *open_context(void)
{
    fornax_context_options co = FORNAX_OPTIONS(fornax_context_options);
    fornax_context *ctx = NULL;
    fornax_error err;

    co.threads = 1;
    co.alloc = limited;
    CHECK_OK(fornax_context_open(&ctx, &co, &err), err);
    return ctx;
}

/* ---- Opening and using --------------------------------------------------------------------------- */

typedef struct target target;
struct target {
    scratch s;
    const char *file, *path;     /* what is damaged and what is opened, in s */
    fornax_context *ctx;
    fornax_model *base;          /* of adapters */
    fornax_status (*open)(target *t, const char *path, fornax_error *err);
};

static int take(void *user, int64_t position, const float *logits, int64_t vocab)
{
    (void)position;
    *(float *)user += logits[0] + logits[vocab - 1];
    return 0;
}

static fornax_status use_model(target *t, const char *path, fornax_error *err)
{
    static const int32_t ids[] = { 1, 2, 3, 1 };
    fornax_model_options mo = FORNAX_OPTIONS(fornax_model_options);
    fornax_model *m = NULL;
    float sum = 0;
    fornax_status st = fornax_model_open(&m, t->ctx, path, &mo, err);

    if (st == FORNAX_OK && fornax_model_get_info(m)->vocab_size > 3)
        st = fornax_model_evaluate(m, ids, FX_COUNT(ids), 0, take, &sum, err);
    if (st == FORNAX_EARG && strcmp(err->param, "context_length") == 0)
        st = FORNAX_OK;                  /* a context shorter than that */
    fornax_model_close(m);
    return st;
}

static fornax_status use_tokenizer(target *t, const char *path, fornax_error *err)
{
    static const char text[] = "hello <s> there's 12 \xc3\xa9\xcc\x81 \xff\xe4\xb8\xad\n\n  abc";
    fornax_tokenizer *tok = NULL;
    fornax_text *back = NULL;
    int32_t ids[256];
    size_t n = 0;
    fornax_status st = fornax_tokenizer_open(&tok, t->ctx, path, err);

    if (st == FORNAX_OK && fornax_tokenize(tok, text, sizeof(text) - 1, FORNAX_TOKENIZE_ADD, ids, FX_COUNT(ids), &n, err) == FORNAX_OK)
        st = fornax_detokenize(tok, ids, FX_MIN(n, FX_COUNT(ids)), 0, &back, err);
    fornax_text_close(back);
    fornax_tokenizer_close(tok);
    return st;
}

static fornax_status use_adapter(target *t, const char *path, fornax_error *err)
{
    static const int32_t ids[] = { 1, 2, 3 };
    fornax_adapter *a = NULL;
    float sum = 0;
    fornax_status st = fornax_adapter_open(&a, t->base, path, NULL, err);

    if (st == FORNAX_OK)
        st = fornax_adapter_evaluate(a, ids, FX_COUNT(ids), 0, take, &sum, err);
    fornax_adapter_close(a);
    return st;
}

static void try_damaged(void *user, fx_str damaged, const char *what, int number)
{
    target *t = user;
    size_t before = used;
    fornax_error err = { 0 };
    char path[256];
    clock_t start;
    fornax_status st;
    double seconds;

    scratch_write(&t->s, t->file, damaged);
    snprintf(path, sizeof(path), "%s", *t->path ? scratch_path(&t->s, t->path) : t->s.dir);
    start = clock();
    st = t->open(t, path, &err);
    seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (used != before || seconds > SECONDS ||
        (st && (st == FORNAX_EINTERNAL || st == FORNAX_ENOMEM || !*err.text || strchr(err.text, '\n'))))
        FXTEST_FAIL("%s, %s %d: %zu bytes left, %.1f s, status %d: %s", t->file, what, number, used - before, seconds, (int)st, err.text);
}

/* Damages a file of the folder t->s; 'head': where most of what decides is. */
static void torture(target *t, const char *file, const char *path, size_t head)
{
    fx_error err = { 0 };
    fx_buf good;

    fx_buf_init(&good, &fx_mem_libc);
    t->file = file;
    t->path = path;
    CHECK_OK(fx_file_read(&good, scratch_path(&t->s, file), 1 << 20, &err), err);
    try_damaged(t, fx_buf_view(&good), "undamaged", 0);
    {
        fornax_error e = { 0 };
        char full[256];

        snprintf(full, sizeof(full), "%s", *path ? scratch_path(&t->s, path) : t->s.dir);
        CHECK_OK(t->open(t, full, &e), e);
    }
    each_damage(fx_buf_view(&good), FX_MIN(head, good.n), try_damaged, t);
    scratch_write(&t->s, file, fx_buf_view(&good));
    fx_buf_done(&good);
}

static void begin(target *t, fornax_status (*open)(target *t, const char *path, fornax_error *err))
{
    *t = (target){ .open = open };
    CHECK(scratch_open(&t->s));
    used = 0;
    t->ctx = open_context();
}

static void finish(target *t, const char *const *files)
{
    fornax_model_close(t->base);
    fornax_context_close(t->ctx);
    CHECK_EQ_U64(used, 0);
    for (; *files; files++)
        scratch_remove(&t->s, *files);
    CHECK(rmdir(t->s.dir) == 0);
}

/* ---- GGUF ------------------------------------------------------------------------------------------ */

static void vocabulary(fx_buf *b, int *n)
{
    *n = 5;
    if (!b)
        return;
    gguf_key(b, "tokenizer.ggml.model", FX_META_STR);
    put_str(b, "gpt2");
    gguf_key(b, "tokenizer.ggml.tokens", FX_META_ARRAY);
    put_le(b, FX_META_STR, 4);
    put_le(b, 34, 8);
    for (int i = 0; i < 34; i++)
        put_str(b, i == 33 ? "ab" : (char[]){ (char)(i < 26 ? 'a' + i : '0' + i - 26), 0 });
    gguf_key(b, "tokenizer.ggml.merges", FX_META_ARRAY);
    put_le(b, FX_META_STR, 4);
    put_le(b, 1, 8);
    put_str(b, "a b");
    gguf_u32(b, "tokenizer.ggml.eos_token_id", 2);
    gguf_key(b, "tokenizer.chat_template", FX_META_STR);
    put_str(b, "{{ messages[0].content }}");
}

static void gguf_of_version(uint32_t version)
{
    model_spec s = { SPEC, .gguf = true, .dtype = FX_Q8_0, .tied = true, .more_keys = vocabulary };
    fx_error err = { 0 };
    target t;
    fx_buf b;

    begin(&t, use_model);
    model_write(&t.s, &s);
    fx_buf_init(&b, &fx_mem_libc);
    CHECK_OK(fx_file_read(&b, scratch_path(&t.s, "model.gguf"), 1 << 20, &err), err);
    b.p[4] = (char)version;
    scratch_write(&t.s, "model.gguf", fx_buf_view(&b));
    torture(&t, "model.gguf", "model.gguf", 1800);
    fx_buf_done(&b);
    finish(&t, (const char *const[]){ "model.gguf", NULL });
}

TEST(gguf_v3) { gguf_of_version(3); }
TEST(gguf_v2) { gguf_of_version(2); }

/* Keys in the first part, all tensors but the table in the second. */
static void write_parts(target *t)
{
    model_spec s = { SPEC, .gguf = true, .dtype = FX_Q8_0, .tied = true, .more_keys = vocabulary };
    model_list l, part = { .n = 0 };
    fx_buf b;

    model_tensors(&l, &s);
    fx_buf_init(&b, &fx_mem_libc);
    for (int p = 0; p < 2; p++) {
        size_t offset = 0;
        int more;

        vocabulary(NULL, &more);
        part.n = p ? l.n - 1 : 1;
        memcpy(part.at, p ? l.at + 1 : l.at, (size_t)part.n * sizeof(l.at[0]));
        fx_buf_clear(&b);
        gguf_head(&b, 3, (uint64_t)part.n, p ? 3 : 12 + 3 + (uint64_t)more);
        if (!p) {
            model_gguf_keys(&b, &s);
            vocabulary(&b, &more);
        }
        gguf_u32(&b, "split.no", (uint32_t)p);
        gguf_u32(&b, "split.count", 2);
        gguf_u32(&b, "split.tensors.count", (uint32_t)l.n);
        for (int i = 0; i < part.n; i++) {
            const model_tensor *m = &part.at[i];

            if (m->rank == 2)
                gguf_tensor(&b, m->name, model_gguf_type(m->dtype), offset, 2, (uint64_t)m->shape[1], (uint64_t)m->shape[0]);
            else
                gguf_tensor(&b, m->name, model_gguf_type(m->dtype), offset, 1, (uint64_t)m->shape[0]);
            offset = FX_ROUND_UP(offset + model_bytes(m), (size_t)32);
        }
        gguf_data(&b, 32, offset);
        scratch_write(&t->s, p ? "m-00002-of-00002.gguf" : "m-00001-of-00002.gguf", fx_buf_view(&b));
    }
    fx_buf_done(&b);
}

TEST(gguf_in_parts)
{
    target t;

    begin(&t, use_model);
    write_parts(&t);
    torture(&t, "m-00001-of-00002.gguf", "m-00001-of-00002.gguf", 1500);
    torture(&t, "m-00002-of-00002.gguf", "m-00001-of-00002.gguf", 700);
    finish(&t, (const char *const[]){ "m-00001-of-00002.gguf", "m-00002-of-00002.gguf", NULL });
}

/* ---- Hub folders ------------------------------------------------------------------------------------- */

/* What of 'from' comes before a zero byte, if it is text. */
static void copy_file(target *t, const char *from, const char *name, bool is_text)
{
    fx_error err = { 0 };
    fx_buf b;

    fx_buf_init(&b, &fx_mem_libc);
    CHECK_OK(fx_file_read(&b, from, 1 << 20, &err), err);
    scratch_write(&t->s, name, is_text ? fx_str_of(b.p) : fx_buf_view(&b));
    fx_buf_done(&b);
}

static void write_hub(target *t)
{
    model_spec s = { SPEC, .dtype = FX_BF16, .tied = true };

    model_write(&t->s, &s);
    copy_file(t, FXTEST_SOURCE "/tests/fuzz/corpus/tokenizer/wordlevel.json", "tokenizer.json", true);
    scratch_write(&t->s, "generation_config.json", FX_STR("{\"eos_token_id\": [2, 3], \"bos_token_id\": 1}"));
    scratch_write(&t->s, "tokenizer_config.json",
                  FX_STR("{\"bos_token\": \"<s>\", \"add_bos_token\": true, \"chat_template\": \"{{ messages[0]['content'] }}\"}"));
}

TEST(hub_folder)
{
    target t;

    begin(&t, use_model);
    write_hub(&t);
    torture(&t, "config.json", "", 1000);
    torture(&t, "generation_config.json", "", 1000);
    torture(&t, "tokenizer_config.json", "", 1000);
    torture(&t, "model.safetensors", "", 1300);
    finish(&t, (const char *const[]){ "config.json", "generation_config.json", "tokenizer_config.json", "model.safetensors",
                                      "tokenizer.json", NULL });
}

TEST(hub_folder_with_an_index)
{
    model_spec s = { SPEC, .dtype = FX_BF16, .tied = true };
    model_list l, part;
    fx_buf b, index;
    target t;

    begin(&t, use_model);
    write_hub(&t);
    scratch_remove(&t.s, "model.safetensors");
    model_tensors(&l, &s);
    fx_buf_init(&b, &fx_mem_libc);
    fx_buf_init(&index, &fx_mem_libc);
    fx_buf_puts(&index, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {");
    for (int p = 0; p < 2; p++) {
        part.n = p ? l.n - 4 : 4;
        memcpy(part.at, p ? l.at + 4 : l.at, (size_t)part.n * sizeof(l.at[0]));
        fx_buf_clear(&b);
        model_safetensors(&b, &part);
        scratch_write(&t.s, p ? "b.safetensors" : "a.safetensors", fx_buf_view(&b));
        for (int i = 0; i < part.n; i++)
            fx_buf_printf(&index, "%s\"%s\": \"%s\"", p || i ? ", " : "", part.at[i].name, p ? "b.safetensors" : "a.safetensors");
    }
    fx_buf_puts(&index, "}}");
    scratch_write(&t.s, "model.safetensors.index.json", fx_buf_view(&index));
    torture(&t, "model.safetensors.index.json", "", 2000);
    torture(&t, "b.safetensors", "", 900);
    fx_buf_done(&b);
    fx_buf_done(&index);
    finish(&t, (const char *const[]){ "config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json",
                                      "a.safetensors", "b.safetensors", "model.safetensors.index.json", NULL });
}

/* ---- Quantized folders ---------------------------------------------------------------------------------- */

typedef struct part {
    const char *suffix, *dtype;
    int bytes;
    int rows, cols;              /* 1: as many; 8: an eighth; 0: a group of 32 has one; -1: no such axis */
} part;

static const struct { const char *config; bool turned; part parts[5]; } quants[] = {
    { "{\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 32, \"desc_act\": false, \"sym\": false}", true,
      { { "qweight", "I32", 4, 8, 1 }, { "qzeros", "I32", 4, 0, 8 }, { "scales", "F16", 2, 0, 1 } } },
    { "{\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": 32, \"zero_point\": true, \"version\": \"gemm\"}", true,
      { { "qweight", "I32", 4, 1, 8 }, { "qzeros", "I32", 4, 0, 8 }, { "scales", "F16", 2, 0, 1 } } },
    { "{\"quant_method\": \"compressed-tensors\", \"format\": \"int-quantized\", \"config_groups\": {\"group_0\": {\"targets\": [\"Linear\"],"
      " \"weights\": {\"num_bits\": 8, \"type\": \"int\", \"symmetric\": true, \"strategy\": \"channel\"}}}}", false,
      { { "weight", "I8", 1, 1, 1 }, { "weight_scale", "BF16", 2, 1, -2 } } },
    { "{\"quant_method\": \"fp8\"}", false, { { "weight", "F8_E4M3", 1, 1, 1 }, { "weight_scale", "F32", 4, -1, -1 } } },
};

static int axis(int how, int n) { return how == 1 ? n : how == 8 ? n / 8 : how == 0 ? n / 32 : 1; }

/* A layer's matrix by its parts, each with its place. */
static void put_parts(fx_buf *head, size_t *offset, const char *stem, const part *p, int in, int out, bool turned)
{
    for (; p->suffix; p++) {
        int a = axis(p->rows, turned ? in : out), b = axis(p->cols, turned ? out : in);
        size_t n = (size_t)a * (size_t)b * (size_t)p->bytes;

        fx_buf_printf(head, ", \"%s.%s\": {\"dtype\": \"%s\", \"shape\": [", stem, p->suffix, p->dtype);
        if (p->rows >= 0)
            fx_buf_printf(head, p->cols == -1 ? "%d" : "%d, ", a);
        if (p->cols != -1)
            fx_buf_printf(head, "%d", b);
        fx_buf_printf(head, "], \"data_offsets\": [%zu, %zu]}", *offset, *offset + n);
        *offset += n;
    }
}

static void write_quantized(target *t, size_t q)
{
    char more[600];
    model_spec s = { SPEC, .dtype = FX_BF16, .tied = true, .config = more };

    size_t offset = 0;
    model_list l;
    fx_buf head, file;

    s.kv_heads = 2;
    snprintf(more, sizeof(more), ", \"quantization_config\": %s", quants[q].config);
    model_tensors(&l, &s);
    fx_buf_init(&head, &fx_mem_libc);
    fx_buf_init(&file, &fx_mem_libc);
    model_config(&file, &s);
    scratch_write(&t->s, "config.json", fx_buf_view(&file));
    fx_buf_clear(&file);
    fx_buf_puts(&head, "{\"__metadata__\": {}");
    for (int i = 0; i < l.n; i++) {
        const model_tensor *m = &l.at[i];
        int n = (int)strlen(m->name) - (int)strlen(".weight");
        char stem[96];

        snprintf(stem, sizeof(stem), "%.*s", n, m->name);
        if (m->rank == 2 && i > 0) {
            put_parts(&head, &offset, stem, quants[q].parts, (int)m->shape[1], (int)m->shape[0], quants[q].turned);
            continue;
        }
        fx_buf_printf(&head, ", \"%s\": {\"dtype\": \"%s\", \"shape\": [%d", m->name, m->dtype == FX_BF16 ? "BF16" : "F32", (int)m->shape[0]);
        fx_buf_printf(&head, m->rank == 2 ? ", %d]" : "]", (int)m->shape[1]);
        fx_buf_printf(&head, ", \"data_offsets\": [%zu, %zu]}", offset, offset + model_bytes(m));
        offset += model_bytes(m);
    }
    fx_buf_putc(&head, '}');
    while (head.n % 8)
        fx_buf_putc(&head, ' ');
    safetensors(&file, head.p, offset);
    scratch_write(&t->s, "model.safetensors", fx_buf_view(&file));
    fx_buf_done(&head);
    fx_buf_done(&file);
}

static void quantized(size_t q)
{
    target t;

    begin(&t, use_model);
    write_hub(&t);
    write_quantized(&t, q);
    torture(&t, "config.json", "", 1000);
    torture(&t, "model.safetensors", "", 3000);
    finish(&t, (const char *const[]){ "config.json", "generation_config.json", "tokenizer_config.json", "model.safetensors",
                                      "tokenizer.json", NULL });
}

TEST(gptq) { quantized(0); }
TEST(awq) { quantized(1); }
TEST(compressed_tensors) { quantized(2); }
TEST(fp8) { quantized(3); }

/* ---- Tokenizers and adapters ------------------------------------------------------------------------------ */

TEST(tokenizer_json)
{
    static const char *const files[] = { "bpe", "unigram", "wordpiece", "llama" };
    target t;

    begin(&t, use_tokenizer);
    for (size_t i = 0; i < FX_COUNT(files); i++) {
        char from[512];

        snprintf(from, sizeof(from), FXTEST_SOURCE "/tests/fuzz/corpus/tokenizer/%s.json", files[i]);
        copy_file(&t, from, "tokenizer.json", true);
        torture(&t, "tokenizer.json", "tokenizer.json", 1 << 20);
    }
    finish(&t, (const char *const[]){ "tokenizer.json", NULL });
}

TEST(tokenizer_model)
{
    target t;

    begin(&t, use_tokenizer);
    copy_file(&t, FXTEST_DATA "/tokenizer/spm/llama.model", "tokenizer.model", false);
    scratch_write(&t.s, "config.json", FX_STR("{\"architectures\": [\"LlamaForCausalLM\"]}"));
    torture(&t, "tokenizer.model", "", 1 << 20);
    finish(&t, (const char *const[]){ "tokenizer.model", "config.json", NULL });
}

/* Of lora_llama3's first layer: q, [64, 64], of rank 2. */
static void write_gguf_adapter(target *t)
{
    fx_buf b;

    fx_buf_init(&b, &fx_mem_libc);
    gguf_head(&b, 3, 2, 4);
    gguf_key(&b, "general.architecture", FX_META_STR);
    put_str(&b, "llama");
    gguf_key(&b, "general.type", FX_META_STR);
    put_str(&b, "adapter");
    gguf_key(&b, "adapter.type", FX_META_STR);
    put_str(&b, "lora");
    gguf_key(&b, "adapter.lora.alpha", FX_META_F32);
    put_le(&b, 0x40800000, 4);
    gguf_tensor(&b, "blk.0.attn_q.weight.lora_a", 0, 0, 2, (uint64_t)64, (uint64_t)2);
    gguf_tensor(&b, "blk.0.attn_q.weight.lora_b", 0, 512, 2, (uint64_t)2, (uint64_t)64);
    gguf_data(&b, 32, 1024);
    scratch_write(&t->s, "adapter.gguf", fx_buf_view(&b));
    fx_buf_done(&b);
}

TEST(adapter)
{
    fornax_model_options mo = FORNAX_OPTIONS(fornax_model_options);
    fornax_error err = { 0 };
    target t;

    begin(&t, use_adapter);
    mo.adapters = 1;
    CHECK_OK(fornax_model_open(&t.base, t.ctx, FXTEST_DATA "/models/lora_llama3", &mo, &err), err);
    copy_file(&t, FXTEST_DATA "/models/lora_llama3/adapter/adapter_config.json", "adapter_config.json", true);
    copy_file(&t, FXTEST_DATA "/models/lora_llama3/adapter/adapter_model.safetensors", "adapter_model.safetensors", false);
    torture(&t, "adapter_config.json", "", 2000);
    torture(&t, "adapter_model.safetensors", "", 4000);
    write_gguf_adapter(&t);
    torture(&t, "adapter.gguf", "adapter.gguf", 400);
    finish(&t, (const char *const[]){ "adapter_config.json", "adapter_model.safetensors", "adapter.gguf", NULL });
}

FXTEST_MAIN()
