/* store.h - artifacts that earlier starts left in a folder: found by identity, kept under a cap.
 *
 *     fx_store_open(&store, mem, &log, dir, cap_bytes, err);
 *     fx_artifact *a = fx_store_find(store, &id);                   NULL: make it, then
 *     fx_store_write *w = fx_store_write_begin(store, &id, "model.gguf", sections, n);     on a thread of its own
 *     ...  the sections' bytes must stay as they are until  ...
 *     fx_store_write_end(w);
 *
 * A file is named by the hash of its identity. Any number of processes may share the folder: files appear whole, by a
 * rename; one of several that would write the same does; the least recently used go before the sum passes the cap; what
 * a writer that was killed left behind goes with the next write. 'manifest', a line a file, says what is there, for people
 * and for the names of models; the folder itself is what counts.
 *
 * Nothing here fails a caller: a folder that can't be made or written, a full disk or a bad file costs one warning
 * (of the first), a count of the faults, and the time of making the artifact again. */
#ifndef FX_STORE_H
#define FX_STORE_H

#include "base/log.h"
#include "compile/artifact.h"

typedef struct fx_store fx_store;
typedef struct fx_store_write fx_store_write;

typedef struct fx_store_counts {
    uint64_t hits, misses, written, removed, faults;
} fx_store_counts;

/* Touches nothing yet. 'log' is copied. */
fx_status fx_store_open(fx_store **out, const fx_mem *mem, const fx_log *log, const char *dir, uint64_t cap_bytes, fx_error *err);
void fx_store_close(fx_store *s);                                /* writes must have ended; NULL is fine */
bool fx_store_writable(const fx_store *s);                       /* its folder, which is made if need be */
fx_store_counts fx_store_count(fx_store *s);

/* The artifact of that identity, or NULL. It is yours: fx_artifact_close. Any thread. */
fx_artifact *fx_store_find(fx_store *s, const fx_artifact_id *id);
/* It turned out to be damaged (its sentence in 'err'): removed, so that the next write replaces it. */
void fx_store_reject(fx_store *s, const fx_artifact *a, const fx_error *err);

/* 'label' says what it was made from, for people. NULL: it won't be kept (the cap is smaller, or a fault). */
fx_store_write *fx_store_write_begin(fx_store *s, const fx_artifact_id *id, const char *label, const fx_section_data *sections,
                                     size_t n);
void fx_store_write_end(fx_store_write *w);                      /* waits until it is done; NULL is fine */

#endif
