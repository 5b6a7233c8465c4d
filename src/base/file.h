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
/* All of it will be read, again and again: on huge pages, where the system has such for files. */
void fx_file_huge(const fx_file *f);
/* How many of its bytes lie on huge pages now, as far as the system says. */
size_t fx_file_huge_bytes(const fx_file *f);
void fx_file_prefetch(const fx_file *f, const void *p, size_t n);
/* Whether another user than this one and root owns it, or everybody may write it. */
bool fx_file_is_others(const fx_file *f);
/* As it was when it was mapped. ctime, which nobody can set back, tells a file whose times were copied with it. */
typedef struct fx_file_id {
    uint64_t device, inode, size, mtime_ns, ctime_ns;
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
/* Room for so many bytes, so that a disk which is too full says so now; where a filesystem can't tell, nothing happens. */
fx_status fx_file_writer_reserve(fx_file_writer *w, uint64_t bytes, fx_error *err);
fx_status fx_file_writer_put(fx_file_writer *w, fx_str data, fx_error *err);
fx_status fx_file_writer_commit(fx_file_writer *w, fx_error *err);      /* frees w, also on failure */
void fx_file_writer_abort(fx_file_writer *w);                           /* NULL is fine */

/* The name ends as those of files that a writer hasn't committed do: one that nobody writes was left by a crash. */
bool fx_file_is_temporary(const char *name);
/* NULL err is fine. FORNAX_ENOTFOUND: there was none. */
fx_status fx_file_remove(const char *path, fx_error *err);
fx_status fx_file_touch(const char *path, fx_error *err);       /* its time of change is now */

/* Makes a folder and those above it, for the user alone, where they are missing. */
fx_status fx_folder_make(const char *path, fx_error *err);
/* Each regular file of a folder, in no order; 'each' returns false to stop. */
typedef struct fx_folder_entry {
    const char *name;
    uint64_t bytes, mtime_ns;
} fx_folder_entry;
fx_status fx_folder_list(const char *path, bool (*each)(void *user, const fx_folder_entry *e), void *user, fx_error *err);

bool fx_path_is_dir(const char *path);
bool fx_path_exists(const char *path);
/* dir/name into out; false if it doesn't fit or memory ran out. */
bool fx_path_join(fx_buf *out, const char *dir, const char *name);

#endif
