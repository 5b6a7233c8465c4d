/* fuzz_weights.c - GGUF and safetensors readers on any bytes.
 *
 * What opens is used: each view is read at both ends, and the file is inspected as
 * text and as JSON (which must be JSON, though
 * with integers too wide for jansson). An allocator with a limit of 64 MB notices
 * memory that a file merely claims. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format/inspect.h"
#include "format/weights.h"
#include "limited.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const fx_weights *w, const fx_mem *mem)
{
    volatile unsigned sink = 0;          /* a read that no compiler leaves out */
    json_error_t where;
    json_t *json;
    fx_buf b;

    for (size_t i = 0; i < fx_weights_count(w); i++) {
        const fx_weight *t = fx_weights_at(w, i);
        const unsigned char *p = t->data;

        if (t->bytes)
            sink = sink + p[0] + p[t->bytes - 1];
        if (!fx_weights_find(w, t->name))
            abort();
    }
    fx_buf_init(&b, mem);
    fx_inspect(w, false, &b, NULL);
    fx_buf_clear(&b);
    if (fx_inspect(w, true, &b, NULL) == FORNAX_OK) {
        json = json_loadb(b.p, b.n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &where);
        /* jansson has no keys with a zero byte. */
        if (!json && json_error_code(&where) != json_error_null_byte_in_key) {
            fprintf(stderr, "%s: %s\n", where.text, b.p);
            abort();
        }
        json_decref(json);
    }
    fx_buf_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned flags[] = { 0, FX_OPEN_HEADERS, FX_OPEN_INSPECT };
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    limit l = { 0, (size_t)64 << 20 };
    fx_mem mem = { limited, &l };
    char path[64];

    if (fd < 0)
        return 0;
    if (write(fd, data, size) == (ssize_t)size) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        for (size_t i = 0; i < FX_COUNT(flags); i++) {
            fx_error err = { 0 };
            fx_weights *w = NULL;
            fx_status st = fx_weights_open(&w, &mem, path, flags[i], &err);

            if ((st == FORNAX_OK) != (w != NULL) || (st != FORNAX_OK && !err.text[0]))
                abort();
            if (w)
                use(w, &mem);
            fx_weights_close(w);
            if (l.used != 0)
                abort();
        }
    }
    close(fd);
    return 0;
}
