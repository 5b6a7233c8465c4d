/* fuzz_folder.c - model folders and GGUF files in parts, through the readers of format/ (checkpoints of other
 * quantizers included) and the architectures' parameters, to a graph.
 *
 * The input is a bundle (folder.h) of config.json, generation_config.json, model.safetensors, an index with shards,
 * or of two parts of a GGUF file.  What comes without weights gets a file with one small tensor. */
#include "folder.h"
#include "format/inspect.h"
#include "limited.h"
#include "models/models.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PART "m-00001-of-00002.gguf"

static const char *const names[] = { "config.json", "generation_config.json", "model.safetensors", "model.safetensors.index.json",
                                     "a.safetensors", "b.safetensors", PART, "m-00002-of-00002.gguf", NULL };

static void use(const fx_weights *w, const fx_mem *mem)
{
    static const fx_model_options opt = { .kv_auto = true };
    volatile unsigned sink = 0;
    fx_error err = { 0 };
    fx_model_desc d;
    fx_arena a;

    for (size_t i = 0; i < fx_weights_count(w); i++) {
        const fx_weight *t = fx_weights_at(w, i);

        if (t->bytes)
            sink += ((const unsigned char *)t->data)[0] + ((const unsigned char *)t->data)[t->bytes - 1];
    }
    (void)sink;
    fx_arena_init(&a, mem, 0);
    if (fx_model_build(&a, w, &opt, &d, &err) != FORNAX_OK && (!err.text[0] || strchr(err.text, '\n') || err.status == FORNAX_EINTERNAL))
        abort();
    fx_arena_done(&a);
}

static void write_small(void)
{
    static const char header[] = "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    char file[8 + sizeof(header) - 1 + 8] = { (char)(sizeof(header) - 1) };

    memcpy(file + 8, header, sizeof(header) - 1);
    fuzz_write("model.safetensors", fx_str_n(file, sizeof(file)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    limit l = { 0, (size_t)64 << 20 };
    fx_mem mem = { limited, &l };
    fx_error err = { 0 };
    fx_weights *w = NULL;
    const char *dir = fuzz_folder(data, size, names);
    char path[256];
    fx_status st;

    if (access(fuzz_path(path, "model.safetensors"), F_OK) && access(fuzz_path(path, "model.safetensors.index.json"), F_OK))
        write_small();
    st = fx_weights_open(&w, &mem, access(fuzz_path(path, PART), F_OK) == 0 ? path : dir, 0, &err);
    if ((st == FORNAX_OK) != (w != NULL) || (st != FORNAX_OK && (!err.text[0] || strchr(err.text, '\n'))))
        abort();
    if (w)
        use(w, &mem);
    fx_weights_close(w);
    if (l.used != 0)
        abort();
    return 0;
}
