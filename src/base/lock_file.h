/* lock_file.h - locks between processes (and threads): any number of them by number, in one file.
 *
 *     fx_lock_file *l;
 *     FX_TRY(fx_lock_file_open(&l, mem, "/folder/lock", err));
 *     if (fx_lock_try(l, number)) { ...; fx_lock_drop(l, number); }
 *     fx_lock_file_close(l);
 *
 * The system drops the locks of a process that ends, however it ends. Locks belong to the open file: two opens in one
 * process exclude each other. */
#ifndef FX_LOCK_FILE_H
#define FX_LOCK_FILE_H

#include "base/mem.h"
#include "base/status.h"

typedef struct fx_lock_file fx_lock_file;

fx_status fx_lock_file_open(fx_lock_file **out, const fx_mem *mem, const char *path, fx_error *err);
void fx_lock_file_close(fx_lock_file *l);                        /* drops its locks; NULL is fine */
bool fx_lock_try(fx_lock_file *l, uint64_t number);              /* false: another has it */
bool fx_lock_take(fx_lock_file *l, uint64_t number);             /* waits; false: the filesystem has no locks */
void fx_lock_drop(fx_lock_file *l, uint64_t number);

#endif
