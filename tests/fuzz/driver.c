/* driver.c - the main program of every fuzz target: replay, then mutate.
 *
 *     fuzz_gguf [--seconds N] [--seed N] [FILE or FOLDER...]
 *
 * A target is a file fuzz_<name>.c that defines LLVMFuzzerTestOneInput, the entry
 * that libFuzzer and AFL++ know too. This driver needs neither: it runs the target
 * on each file of its corpus (tests/fuzz/corpus/<name>/, where every past crash is
 * kept), then for N seconds on inputs made from them by flipping, cutting, doubling
 * and splicing. On a crash the input lies in ./crash-<pid>.bin. */
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_BYTES ((size_t)1 << 20)

typedef struct input {
    uint8_t *p;
    size_t n;
} input;

static input *corpus;
static size_t n_corpus;
static const uint8_t *volatile running;
static volatile size_t running_n;

/* Keeps the input that brought the process down. Sanitizers end by abort or exit. */
static void keep(int sig)
{
    char name[64];
    FILE *f;

    snprintf(name, sizeof(name), "crash-%ld.bin", (long)getpid());
    f = fopen(name, "wb");
    if (f) {
        fwrite((const void *)running, 1, running_n, f);
        fclose(f);
        fprintf(stderr, "input kept in %s\n", name);
    }
    signal(sig, SIG_DFL);
    raise(sig);
}

/* An exact copy on the heap, so that a sanitizer sees a read past its end. */
static void run_one(const uint8_t *p, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);

    if (!copy)
        return;
    if (n)
        memcpy(copy, p, n);
    running = copy;
    running_n = n;
    LLVMFuzzerTestOneInput(copy, n);
    running = NULL;
    running_n = 0;
    free(copy);
}

static void add_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    input in = { malloc(INPUT_BYTES), 0 }, *grown = realloc(corpus, (n_corpus + 1) * sizeof(*corpus));

    if (!f || !in.p || !grown) {
        fprintf(stderr, "%s: can't be read\n", path);
        exit(2);
    }
    corpus = grown;
    in.n = fread(in.p, 1, INPUT_BYTES, f);
    fclose(f);
    corpus[n_corpus++] = in;
}

static void add_path(const char *path)
{
    struct dirent **names;
    struct stat info;
    int n;

    if (stat(path, &info) != 0) {
        fprintf(stderr, "%s: not there\n", path);
        exit(2);
    }
    if (!S_ISDIR(info.st_mode)) {
        add_file(path);
        return;
    }
    n = scandir(path, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char full[4096];

        snprintf(full, sizeof(full), "%s/%s", path, names[i]->d_name);
        if (stat(full, &info) == 0 && S_ISREG(info.st_mode))
            add_file(full);
        free(names[i]);
    }
    if (n >= 0)
        free(names);
}

static uint64_t state;

static uint64_t rnd(uint64_t below)
{
    state += 0x9E3779B97F4A7C15u;               /* splitmix64 */
    uint64_t z = state;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return below ? z % below : 0;
}

/* Writes one of the numbers that tend to break parsers at p, 1 to 8 bytes wide. */
static void put_number(uint8_t *p, size_t room)
{
    static const uint64_t odd[] = { 0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000u, 0xFFFFFFFFu,
                                    0x7FFFFFFFFFFFFFFFu, 0x8000000000000000u, 0xFFFFFFFFFFFFFFFFu,
                                    0x4000000000000000u, 0x2000000000000001u };
    uint64_t x = odd[rnd(sizeof(odd) / sizeof(odd[0]))];
    size_t width = (size_t)1 << rnd(4);

    for (size_t i = 0; i < width && i < room; i++)
        p[i] = (uint8_t)(x >> (8 * i));
}

/* One change to the n bytes of p (room for INPUT_BYTES); returns the new length. */
static size_t mutate(uint8_t *p, size_t n)
{
    size_t at = rnd(n + 1), len = rnd(rnd(4) ? 16 : 4096) + 1;
    const input *other = &corpus[rnd(n_corpus)];

    switch (rnd(7)) {
    case 0:                                     /* a bit */
        if (n)
            p[rnd(n)] ^= (uint8_t)(1u << rnd(8));
        break;
    case 1:                                     /* a byte */
        if (n)
            p[rnd(n)] = (uint8_t)rnd(256);
        break;
    case 2:                                     /* an odd number */
        put_number(p + at, n - at);
        break;
    case 3:                                     /* cut out */
        len = len < n - at ? len : n - at;
        memmove(p + at, p + at + len, n - at - len);
        return n - len;
    case 4:                                     /* cut off */
        return rnd(4) ? n : at;
    case 5:                                     /* double a piece */
        len = len < n - at ? len : n - at;
        if (n + len > INPUT_BYTES)
            break;
        memmove(p + at + len, p + at, n - at);
        return n + len;
    default:                                    /* a piece of another input */
        if (!other->n)
            break;
        at = at < n ? at : (n ? n - 1 : 0);
        size_t from = rnd(other->n);
        len = len < other->n - from ? len : other->n - from;
        if (at + len > INPUT_BYTES)
            break;
        memcpy(p + at, other->p + from, len);
        return at + len > n ? at + len : n;
    }
    return n;
}

int main(int argc, char **argv)
{
    uint8_t *work = malloc(INPUT_BYTES);
    double seconds = 0;
    uint64_t runs = 0;
    time_t start;

    state = 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
            seconds = atof(argv[++i]);
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            state = strtoull(argv[++i], NULL, 10);
        else
            add_path(argv[i]);
    }
    signal(SIGABRT, keep);
    signal(SIGSEGV, keep);
    signal(SIGFPE, keep);
    signal(SIGBUS, keep);
    for (size_t i = 0; i < n_corpus; i++)
        run_one(corpus[i].p, corpus[i].n);
    run_one((const uint8_t *)"", 0);
    if (!n_corpus && seconds > 0) {
        printf("no corpus\n");
        return 2;
    }
    start = time(NULL);
    while (seconds > 0 && difftime(time(NULL), start) < seconds) {
        const input *from = &corpus[rnd(n_corpus)];
        size_t n = from->n;

        memcpy(work, from->p, n);
        for (uint64_t k = rnd(4) + 1; k > 0; k--)
            n = mutate(work, n);
        run_one(work, n);
        runs++;
    }
    printf("%zu inputs of the corpus, %" PRIu64 " made from them\n", n_corpus, runs);
    printf("1 passed, 0 failed, 0 skipped\n");
    for (size_t i = 0; i < n_corpus; i++)
        free(corpus[i].p);
    free(corpus);
    free(work);
    return 0;
}
