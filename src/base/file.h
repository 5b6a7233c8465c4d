/* file.h - files: mapped for reading, replaced whole for writing, folders listed. */
#ifndef FX_FILE_H
#define FX_FILE_H

#include "base/status.h"
#include "base/str.h"

typedef struct fx_file fx_file;

/* Maps the whole file read-only.  Empty files map to an empty view. */
fx_status fx_file_map(fx_file **out, const fx_mem *mem, const char *path, fx_error *err);
void fx_file_unmap(fx_file *f);
fx_str fx_file_bytes(const fx_file *f);
const char *fx_file_path(const fx_file *f);
/* Tells the system that these bytes aren't needed resident (they can be read
 * again later); p[0..n) within the mapping. */
void fx_file_release(const fx_file *f, const void *p, size_t n);
void fx_file_prefetch(const fx_file *f, const void *p, size_t n);
typedef struct fx_file_id {
    uint64_t device, inode, size, mtime_ns;
} fx_file_id;
fx_file_id fx_file_identity(const fx_file *f);

/* Reads a small file whole into *out (appended).  More than 'limit' bytes is an error. */
fx_status fx_file_read(fx_buf *out, const char *path, size_t limit, fx_error *err);
/* Temporary name beside it, write, fsync, rename, fsync of the folder. */
fx_status fx_file_write_atomic(const char *path, fx_str data, fx_error *err);

/* The same a piece at a time.  Until commit, 'path' keeps what it had.
 *
 *     fx_file_writer *w;
 *     FX_TRY(fx_file_writer_open(&w, mem, path, err));
 *     st = fx_file_writer_put(w, data, err);  ...
 *     st == FORNAX_OK ? fx_file_writer_commit(w, err) : fx_file_writer_abort(w);
 */
typedef struct fx_file_writer fx_file_writer;
fx_status fx_file_writer_open(fx_file_writer **out, const fx_mem *mem, const char *path, fx_error *err);
fx_status fx_file_writer_put(fx_file_writer *w, fx_str data, fx_error *err);
fx_status fx_file_writer_commit(fx_file_writer *w, fx_error *err);      /* frees w, also on failure */
void fx_file_writer_abort(fx_file_writer *w);                           /* NULL is fine */

bool fx_path_is_dir(const char *path);
bool fx_path_exists(const char *path);
/* dir/name into out; false if it doesn't fit or memory ran out. */
bool fx_path_join(fx_buf *out, const char *dir, const char *name);

#endif
