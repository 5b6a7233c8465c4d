/* artifact.h - one file of named sections that a start makes and later starts use: packed weights; plan, code, constants.
 *
 *     fx_artifact *a;
 *     FX_TRY(fx_artifact_open(&a, mem, path, err));          maps it, checks its head
 *     const fx_section *s = fx_artifact_find(a, FX_SECTION_WEIGHTS, "packed");
 *     FX_TRY(fx_artifact_read(a, s, pool, &bytes, err));      checks every byte of the section, once
 *     fx_artifact_close(a);
 *
 * The file, numbers as the machine has them (another byte order is another magic number):
 *
 *     head      magic, format version, number of sections, sizes, fx_artifact_id, hash of head, table and sums
 *     table     a row a section: kind, alignment, name, offset, bytes
 *     sums      hashes (XXH3-128) of each MiB of each section, in order
 *     sections  each at its alignment, zeros between
 *
 * Opening reads the head, the table and the sums only; a section's bytes are checked when they are first asked for, by all
 * threads. Any changed byte is noticed, of a file that wasn't made to deceive; nothing in any file is trusted before it is checked.
 *
 * A file appears whole or not at all: it is written under another name, synced, renamed. */
#ifndef FX_ARTIFACT_H
#define FX_ARTIFACT_H

#include <stdatomic.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/status.h"
#include "base/str.h"

#define FX_ARTIFACT_VERSION 1            /* of the container */
enum { FX_ARTIFACT_MAX_SECTIONS = 1024, FX_ARTIFACT_NAME = 24, FX_ARTIFACT_WORD = 32 };

typedef enum fx_section_kind {           /* numbers of the file */
    FX_SECTION_PLAN = 1,
    FX_SECTION_CODE = 2,
    FX_SECTION_CONSTANTS = 3,
    FX_SECTION_WEIGHTS = 4,              /* in the kernels' layout */
    FX_SECTION_KINDS
} fx_section_kind;

/* By what, for which machine and from what it was made: one that differs is foreign. The texts end with zeros. */
typedef struct fx_artifact_id {
    char library[FX_ARTIFACT_WORD], target[FX_ARTIFACT_WORD];
    fx_hash128 content;
} fx_artifact_id;

fx_artifact_id fx_artifact_id_make(const char *library, const char *target, fx_hash128 content);
bool fx_artifact_id_eq(const fx_artifact_id *a, const fx_artifact_id *b);

/* ---- Writing ---- */

typedef struct fx_section_data {
    fx_section_kind kind;
    const char *name;                    /* shorter than FX_ARTIFACT_NAME */
    uint32_t align;                      /* 64 or 4096 */
    const void *at;
    size_t bytes;
} fx_section_data;

/* *stop (may be NULL), set by another thread: FORNAX_ECANCEL. 'path' is what it was if this fails. */
fx_status fx_artifact_write(const char *path, const fx_mem *mem, const fx_artifact_id *id, const fx_section_data *sections,
                            size_t n, const atomic_bool *stop, fx_error *err);
/* The size of the file that this would be; 0: it can't be (names, alignments, too many or too large). */
uint64_t fx_artifact_file_bytes(const fx_section_data *sections, size_t n);

/* ---- Reading; once open, any number of threads ---- */

typedef struct fx_artifact fx_artifact;

typedef struct fx_section {
    fx_section_kind kind;
    char name[FX_ARTIFACT_NAME];
    size_t bytes;
} fx_section;

/* FORNAX_EFORMAT: no artifact, damaged, or of another version. */
fx_status fx_artifact_open(fx_artifact **out, const fx_mem *mem, const char *path, fx_error *err);
void fx_artifact_close(fx_artifact *a);                          /* NULL is fine */
const fx_artifact_id *fx_artifact_id_of(const fx_artifact *a);
bool fx_artifact_is_others(const fx_artifact *a);        /* base/file.h */
const char *fx_artifact_path(const fx_artifact *a);
size_t fx_artifact_sections(const fx_artifact *a);
const fx_section *fx_artifact_at(const fx_artifact *a, size_t i);
const fx_section *fx_artifact_find(const fx_artifact *a, fx_section_kind kind, const char *name);      /* NULL: none */
/* The section's bytes, checked; they stay until close. 'pool' may be NULL. */
fx_status fx_artifact_read(fx_artifact *a, const fx_section *s, fx_pool *pool, fx_str *out, fx_error *err);
/* The same for bytes that will be read over and over: on huge pages. Where the file's aren't, *out is a copy and
 * *copy what fx_pages_free takes; else *copy is NULL. */
fx_status fx_artifact_read_huge(fx_artifact *a, const fx_section *s, fx_pool *pool, fx_str *out, void **copy, fx_error *err);

#endif
