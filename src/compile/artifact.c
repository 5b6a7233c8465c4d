/* artifact.c - writes artifacts, and reads them with distrust (artifact.h). */
#include "compile/artifact.h"

#include <string.h>

#define MAGIC 0x3154434152415846u        /* "FXARACT1" of a little-endian machine */
#define CHUNK ((size_t)1 << 20)          /* what a sum covers */
#define PUT_BYTES ((size_t)64 << 20)     /* between looks at 'stop' */

typedef struct disk_head {
    uint64_t magic;
    uint32_t version, n_sections;
    uint64_t file_bytes, head_bytes;     /* head_bytes: with table and sums */
    fx_artifact_id id;
    fx_hash128 sum;                      /* of head_bytes, itself zero */
} disk_head;

typedef struct disk_row {
    uint32_t kind, align;
    char name[FX_ARTIFACT_NAME];
    uint64_t offset, bytes;
} disk_row;

_Static_assert(sizeof(disk_head) == 128 && sizeof(disk_row) == 48 && sizeof(fx_hash128) == 16, "the format has no padding");

static uint64_t chunks_of(uint64_t bytes) { return bytes / CHUNK + (bytes % CHUNK != 0); }

/* ---- Identities ---- */

static void copy_word(char *to, size_t size, const char *from)
{
    size_t n = FX_MIN(strlen(from), size - 1);

    memset(to, 0, size);
    memcpy(to, from, n);
}

fx_artifact_id fx_artifact_id_make(const char *library, const char *target, fx_hash128 content)
{
    fx_artifact_id id = { .content = content };

    copy_word(id.library, sizeof id.library, library);
    copy_word(id.target, sizeof id.target, target);
    return id;
}

bool fx_artifact_id_eq(const fx_artifact_id *a, const fx_artifact_id *b) { return memcmp(a, b, sizeof *a) == 0; }

/* ---- Writing ---- */

static bool valid_section(const fx_section_data *s)
{
    return s->kind > 0 && s->kind < FX_SECTION_KINDS && strlen(s->name) < FX_ARTIFACT_NAME &&
           (s->align == 64 || s->align == 4096) && s->bytes <= PTRDIFF_MAX;
}

/* Where the sections of a file begin: behind head, table and sums. 0: such a file can't be. */
static uint64_t head_bytes_of(const fx_section_data *s, size_t n)
{
    uint64_t bytes = sizeof(disk_head) + n * sizeof(disk_row);

    if (n > FX_ARTIFACT_MAX_SECTIONS)
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (!valid_section(&s[i]))
            return 0;
        bytes += chunks_of(s[i].bytes) * sizeof(fx_hash128);
    }
    return bytes;
}

uint64_t fx_artifact_file_bytes(const fx_section_data *s, size_t n)
{
    uint64_t bytes = head_bytes_of(s, n);

    for (size_t i = 0; bytes && i < n; i++)
        bytes = FX_ROUND_UP(bytes, (uint64_t)s[i].align) + s[i].bytes;
    return bytes <= PTRDIFF_MAX ? bytes : 0;
}

/* Head, table and sums in head_bytes cleared bytes. */
static void fill_head(uint8_t *to, uint64_t head_bytes, const fx_artifact_id *id, const fx_section_data *s, size_t n)
{
    disk_head head = { .magic = MAGIC, .version = FX_ARTIFACT_VERSION, .n_sections = (uint32_t)n,
                       .file_bytes = fx_artifact_file_bytes(s, n), .head_bytes = head_bytes, .id = *id };
    uint8_t *row_at = to + sizeof head, *sum_at = row_at + n * sizeof(disk_row);
    uint64_t end = head_bytes;

    for (size_t i = 0; i < n; i++, row_at += sizeof(disk_row)) {
        disk_row row = { .kind = (uint32_t)s[i].kind, .align = s[i].align, .offset = FX_ROUND_UP(end, (uint64_t)s[i].align),
                         .bytes = s[i].bytes };

        copy_word(row.name, sizeof row.name, s[i].name);
        memcpy(row_at, &row, sizeof row);
        end = row.offset + row.bytes;
        for (size_t at = 0; at < s[i].bytes; at += CHUNK, sum_at += sizeof(fx_hash128)) {
            fx_hash128 sum = fx_hash128_of((const uint8_t *)s[i].at + at, FX_MIN(CHUNK, s[i].bytes - at), 0);

            memcpy(sum_at, &sum, sizeof sum);
        }
    }
    memcpy(to, &head, sizeof head);
    head.sum = fx_hash128_of(to, head_bytes, 0);
    memcpy(to, &head, sizeof head);
}

static fx_status put(fx_file_writer *w, const void *at, size_t n, const atomic_bool *stop, fx_error *err)
{
    for (size_t done = 0; done < n; done += FX_MIN(n - done, PUT_BYTES)) {
        if (stop && atomic_load(stop))
            return fx_fail(err, FORNAX_ECANCEL, "writing an artifact was cancelled");
        FX_TRY(fx_file_writer_put(w, fx_str_n((const char *)at + done, FX_MIN(n - done, PUT_BYTES)), err));
    }
    return FORNAX_OK;
}

static fx_status put_all(fx_file_writer *w, const uint8_t *head, uint64_t head_bytes, const fx_section_data *s, size_t n,
                         const atomic_bool *stop, fx_error *err)
{
    static const uint8_t zeros[4096];
    uint64_t end = head_bytes;

    FX_TRY(fx_file_writer_reserve(w, fx_artifact_file_bytes(s, n), err));
    FX_TRY(put(w, head, head_bytes, stop, err));
    for (size_t i = 0; i < n; i++) {
        uint64_t offset = FX_ROUND_UP(end, (uint64_t)s[i].align);

        FX_TRY(put(w, zeros, offset - end, stop, err));
        FX_TRY(put(w, s[i].at, s[i].bytes, stop, err));
        end = offset + s[i].bytes;
    }
    return FORNAX_OK;
}

fx_status fx_artifact_write(const char *path, const fx_mem *mem, const fx_artifact_id *id, const fx_section_data *s, size_t n,
                            const atomic_bool *stop, fx_error *err)
{
    uint64_t head_bytes = head_bytes_of(s, n);
    fx_file_writer *w = NULL;
    uint8_t *head;
    fx_status st;

    if (!fx_artifact_file_bytes(s, n))
        return fx_fail(err, FORNAX_EARG, "%s: such sections can't be in an artifact", path);
    head = fx_mem_zalloc(mem, head_bytes);
    if (!head)
        return fx_nomem(err, path);
    fill_head(head, head_bytes, id, s, n);
    st = fx_file_writer_open(&w, mem, path, err);
    if (st == FORNAX_OK)
        st = put_all(w, head, head_bytes, s, n, stop, err);
    if (st == FORNAX_OK)
        st = fx_file_writer_commit(w, err);
    else
        fx_file_writer_abort(w);
    fx_mem_free(mem, head, head_bytes);
    return st;
}

/* ---- Reading ---- */

typedef struct section {
    fx_section public;                   /* first: a const fx_section * of ours is one */
    const uint8_t *at;
    const uint8_t *sums;
    atomic_bool checked;
} section;

struct fx_artifact {
    const fx_mem *mem;
    fx_file *file;
    disk_head head;
    section *sections;
};

static fx_status damaged(const fx_artifact *a, const char *what, fx_error *err)
{
    return fx_fail(err, FORNAX_EFORMAT, "%s: %s", fx_file_path(a->file), what);
}

/* The head: who wrote it and whether all of it is there. After this, head, table and sums are as written. */
static fx_status check_head(fx_artifact *a, fx_str bytes, fx_error *err)
{
    fx_hash128 sum = { 0, 0 }, want;
    disk_head *h = &a->head;
    uint8_t *copy;

    if (bytes.n < sizeof *h)
        return damaged(a, "shorter than the head of an artifact", err);
    memcpy(h, bytes.p, sizeof *h);
    if (h->magic != MAGIC)
        return damaged(a, "no artifact of such a machine", err);
    if (h->version != FX_ARTIFACT_VERSION)
        return fx_fail(err, FORNAX_EFORMAT, "%s: an artifact of version %u, expected %d", fx_file_path(a->file), h->version,
                       FX_ARTIFACT_VERSION);
    if (h->file_bytes != bytes.n)
        return fx_fail(err, FORNAX_EFORMAT, "%s: expected %llu bytes, found %zu", fx_file_path(a->file),
                       (unsigned long long)h->file_bytes, bytes.n);
    if (h->n_sections > FX_ARTIFACT_MAX_SECTIONS || h->head_bytes > bytes.n ||
        h->head_bytes < sizeof *h + h->n_sections * sizeof(disk_row))
        return damaged(a, "its table doesn't fit", err);
    copy = fx_mem_alloc(a->mem, h->head_bytes);                  /* at most the file; its sum is zero there */
    if (!copy)
        return fx_nomem(err, fx_file_path(a->file));
    memcpy(copy, bytes.p, h->head_bytes);
    memset(copy + offsetof(disk_head, sum), 0, sizeof sum);
    want = fx_hash128_of(copy, h->head_bytes, 0);
    fx_mem_free(a->mem, copy, h->head_bytes);
    if (memcmp(&want, &h->sum, sizeof want) != 0)
        return damaged(a, "its head isn't what was written", err);
    return h->id.library[FX_ARTIFACT_WORD - 1] || h->id.target[FX_ARTIFACT_WORD - 1] ? damaged(a, "its texts have no end", err)
                                                                                    : FORNAX_OK;
}

static bool all_zero(const uint8_t *p, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (p[i])
            return false;
    return true;
}

/* The rows: in order, aligned, within the file, nothing but zeros between, sums for all. */
static fx_status read_table(fx_artifact *a, fx_str bytes, fx_error *err)
{
    const uint8_t *base = (const uint8_t *)bytes.p, *rows = base + sizeof a->head;
    uint64_t end = a->head.head_bytes, sums = sizeof a->head + a->head.n_sections * sizeof(disk_row);

    for (uint32_t i = 0; i < a->head.n_sections; i++) {
        section *s = &a->sections[i];
        disk_row r;

        memcpy(&r, rows + i * sizeof r, sizeof r);
        if (r.kind == 0 || r.kind >= FX_SECTION_KINDS || (r.align != 64 && r.align != 4096) || r.name[FX_ARTIFACT_NAME - 1])
            return fx_fail(err, FORNAX_EFORMAT, "%s: section %u has no meaning", fx_file_path(a->file), i);
        if (r.offset % r.align || r.offset < end || r.offset - end >= r.align || r.offset > bytes.n ||
            r.bytes > bytes.n - r.offset || !all_zero(base + end, r.offset - end))
            return fx_fail(err, FORNAX_EFORMAT, "%s: section %u lies wrong", fx_file_path(a->file), i);
        s->public.kind = (fx_section_kind)r.kind;
        memcpy(s->public.name, r.name, sizeof r.name);
        s->public.bytes = (size_t)r.bytes;
        s->at = base + r.offset;
        s->sums = base + sums;
        sums += chunks_of(r.bytes) * sizeof(fx_hash128);         /* at most bytes.n of them in all */
        if (sums > a->head.head_bytes)
            return damaged(a, "its table doesn't fit", err);
        end = r.offset + r.bytes;
    }
    return sums == a->head.head_bytes && end == bytes.n ? FORNAX_OK : damaged(a, "its table doesn't fit", err);
}

fx_status fx_artifact_open(fx_artifact **out, const fx_mem *mem, const char *path, fx_error *err)
{
    fx_artifact *a = fx_mem_zalloc(mem, sizeof *a);
    fx_status st;

    *out = NULL;
    if (!a)
        return fx_nomem(err, path);
    a->mem = mem;
    st = fx_file_map(&a->file, mem, path, err);
    if (st == FORNAX_OK)
        st = check_head(a, fx_file_bytes(a->file), err);
    if (st == FORNAX_OK && !(a->sections = fx_mem_array(mem, a->head.n_sections + 1u, sizeof *a->sections)))
        st = fx_nomem(err, path);
    if (st == FORNAX_OK)
        st = read_table(a, fx_file_bytes(a->file), err);
    if (st == FORNAX_OK)
        *out = a;
    else
        fx_artifact_close(a);
    return st;
}

void fx_artifact_close(fx_artifact *a)
{
    if (!a)
        return;
    if (a->sections)
        fx_mem_free(a->mem, a->sections, (a->head.n_sections + 1u) * sizeof *a->sections);
    fx_file_unmap(a->file);
    fx_mem_free(a->mem, a, sizeof *a);
}

const fx_artifact_id *fx_artifact_id_of(const fx_artifact *a) { return &a->head.id; }
bool fx_artifact_is_others(const fx_artifact *a) { return fx_file_is_others(a->file); }
const char *fx_artifact_path(const fx_artifact *a) { return fx_file_path(a->file); }
size_t fx_artifact_sections(const fx_artifact *a) { return a->head.n_sections; }
const fx_section *fx_artifact_at(const fx_artifact *a, size_t i) { return &a->sections[i].public; }

const fx_section *fx_artifact_find(const fx_artifact *a, fx_section_kind kind, const char *name)
{
    for (uint32_t i = 0; i < a->head.n_sections; i++) {
        const fx_section *s = &a->sections[i].public;

        if (s->kind == kind && strcmp(s->name, name) == 0)
            return s;
    }
    return NULL;
}

/* A task is a chunk. */
typedef struct check_job {
    const section *s;
    atomic_bool wrong;
} check_job;

static void check_chunks(void *user, int64_t c0, int64_t c1, int worker)
{
    check_job *j = user;

    (void)worker;
    for (int64_t c = c0; c < c1 && !atomic_load_explicit(&j->wrong, memory_order_relaxed); c++) {
        size_t at = (size_t)c * CHUNK;
        fx_hash128 sum = fx_hash128_of(j->s->at + at, FX_MIN(CHUNK, j->s->public.bytes - at), 0);

        if (memcmp(&sum, j->s->sums + (size_t)c * sizeof sum, sizeof sum) != 0)
            atomic_store(&j->wrong, true);
    }
}

static void each_chunk(fx_pool *pool, fx_task_fn fn, void *user, int64_t n)
{
    if (pool)
        fx_pool_run(pool, fn, user, n, 1);
    else
        fn(user, 0, n, 0);
}

fx_status fx_artifact_read(fx_artifact *a, const fx_section *of, fx_pool *pool, fx_str *out, fx_error *err)
{
    section *s = &a->sections[(size_t)((const section *)(const void *)of - a->sections)];
    int64_t n = (int64_t)chunks_of(s->public.bytes);
    check_job j = { .s = s };

    if (!atomic_load(&s->checked)) {
        each_chunk(pool, check_chunks, &j, n);
        if (atomic_load(&j.wrong))
            return fx_fail(err, FORNAX_EFORMAT, "%s: section %s isn't what was written", fx_file_path(a->file), s->public.name);
        atomic_store(&s->checked, true);
    }
    *out = fx_str_n((const char *)s->at, s->public.bytes);
    return FORNAX_OK;
}

/* ---- Huge pages ---- */

#define HUGE_PAGE ((size_t)2 << 20)

typedef struct copy_job {
    const fx_file *file;
    fx_str from;
    uint8_t *to;
} copy_job;

/* What is copied is let go at once: never do both lie in memory. */
static void copy_chunks(void *user, int64_t c0, int64_t c1, int worker)
{
    const copy_job *j = user;

    (void)worker;
    for (int64_t c = c0; c < c1; c++) {
        size_t at = (size_t)c * CHUNK, n = FX_MIN(CHUNK, j->from.n - at);

        memcpy(j->to + at, j->from.p + at, n);
        fx_file_release(j->file, j->from.p + at, n);
    }
}

fx_status fx_artifact_read_huge(fx_artifact *a, const fx_section *s, fx_pool *pool, fx_str *out, void **copy, fx_error *err)
{
    copy_job j;

    *copy = NULL;
    fx_file_huge(a->file);
    FX_TRY(fx_artifact_read(a, s, pool, out, err));
    if (out->n < 2 * HUGE_PAGE || fx_file_huge_bytes(a->file) >= out->n / 4 * 3)
        return FORNAX_OK;                        /* few bytes need few pages of any size */
    j = (copy_job){ a->file, *out, fx_pages_alloc(out->n) };
    if (!j.to)
        return FORNAX_OK;                        /* slower, not wrong */
    each_chunk(pool, copy_chunks, &j, (int64_t)chunks_of(out->n));
    out->p = (const char *)j.to;
    *copy = j.to;
    return FORNAX_OK;
}
