/* fuzz_artifact.c - the artifact reader on any bytes.
 *
 * Each input is read as it is, and once more with the sum of its head put right: what is behind that is the reader's to
 * check. What opens is used: each section is read whole. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/text.h"
#include "compile/artifact.h"
#include "limited.h"

enum { HEAD = 128, HEAD_BYTES_AT = 24, SUM_AT = 112 };           /* artifact.c: disk_head */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(fx_artifact *a)
{
    volatile unsigned sink = 0;          /* a read that no compiler leaves out */

    for (size_t i = 0; i < fx_artifact_sections(a); i++) {
        const fx_section *s = fx_artifact_at(a, i);
        fx_error err = { 0 };
        fx_str got;

        if (!fx_artifact_find(a, s->kind, s->name))
            abort();
        if (fx_artifact_read(a, s, NULL, &got, &err) != FORNAX_OK) {
            if (!err.text[0])
                abort();
            continue;
        }
        if (got.n != s->bytes)
            abort();
        if (got.n)
            sink = sink + (unsigned char)got.p[0] + (unsigned char)got.p[got.n - 1];
    }
}

static void read_file(const uint8_t *data, size_t size)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    limit l = { 0, (size_t)64 << 20 };
    fx_mem mem = { limited, &l };
    fx_error err = { 0 };
    fx_artifact *a = NULL;
    char path[64];

    if (fd >= 0 && write(fd, data, size) == (ssize_t)size) {
        fx_format(path, sizeof path, "/proc/self/fd/%d", fd);
        if ((fx_artifact_open(&a, &mem, path, &err) == FORNAX_OK) != (a != NULL) || (!a && !err.text[0]))
            abort();
        if (a)
            use(a);
        fx_artifact_close(a);
        if (l.used != 0)
            abort();
    }
    if (fd >= 0)
        close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t head_bytes;
    fx_hash128 sum = { 0, 0 };
    uint8_t *copy;

    read_file(data, size);
    if (size < HEAD)
        return 0;
    memcpy(&head_bytes, data + HEAD_BYTES_AT, sizeof head_bytes);
    copy = malloc(size);
    if (!copy || head_bytes > size || head_bytes < HEAD) {
        free(copy);
        return 0;
    }
    memcpy(copy, data, size);
    memcpy(copy + SUM_AT, &sum, sizeof sum);
    sum = fx_hash128_of(copy, head_bytes, 0);
    memcpy(copy + SUM_AT, &sum, sizeof sum);
    read_file(copy, size);
    free(copy);
    return 0;
}
