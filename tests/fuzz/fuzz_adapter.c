/* fuzz_adapter.c - LoRA adapters for a small model: a bundle (folder.h) of PEFT's adapter_config.json and
 * adapter_model.safetensors, or of one adapter.gguf.  An adapter that opens is evaluated. */
#include "folder.h"
#include "fornax.h"
#include "limited.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static limit l = { 0, (size_t)256 << 20 };

static int take(void *user, int64_t position, const float *logits, int64_t vocab)
{
    (void)position;
    *(volatile float *)user = logits[vocab - 1];
    return 0;
}

static fornax_model *base(void)
{
    static fornax_context *ctx;
    static fornax_model *model;
    fornax_context_options co = FORNAX_OPTIONS(fornax_context_options);
    fornax_model_options mo = FORNAX_OPTIONS(fornax_model_options);

    co.threads = 1;
    co.alloc = limited;
    co.alloc_user = &l;
    mo.adapters = 1;
    if (!model && (fornax_context_open(&ctx, &co, NULL) || fornax_model_open(&model, ctx, FUZZ_DATA "/models/lora_llama3", &mo, NULL)))
        abort();
    return model;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = { "adapter_config.json", "adapter_model.safetensors", "adapter.gguf", NULL };
    static const int32_t ids[] = { 1, 2, 3 };
    fornax_model *model = base();
    size_t before = l.used;
    fornax_adapter *a = NULL;
    fornax_error err = { 0 };
    volatile float sink = 0;
    const char *dir = fuzz_folder(data, size, names);
    char gguf[256];
    fornax_status st = fornax_adapter_open(&a, model, access(fuzz_path(gguf, "adapter.gguf"), F_OK) ? dir : gguf, NULL, &err);

    if ((st == FORNAX_OK) != (a != NULL) || (st != FORNAX_OK && (!err.text[0] || strchr(err.text, '\n') || st == FORNAX_EINTERNAL)))
        abort();
    if (a && fornax_adapter_evaluate(a, ids, 3, 0, take, (void *)&sink, &err) != FORNAX_OK)
        abort();
    fornax_adapter_close(a);
    if (l.used > before + (1 << 20))     /* what the model keeps for later calls */
        abort();
    return 0;
}
