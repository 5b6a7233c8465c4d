/* code_load.h - an object file with compiled kernels becomes callable memory, without LLVM.
 *
 * Takes what codegen makes for this machine: an ELF relocatable object that refers to nothing outside. Its bytes may come
 * from a file, so all of them are checked; what the instructions do is not.
 *
 *     fx_code *code;
 *     FX_TRY(fx_code_load(&code, mem, object, "silu_mul", err));
 *     fx_code_run run = (fx_code_run)fx_code_find(code, FX_STR("silu_mul"));
 *
 * Threads: loaded code doesn't change; any number may run it. */
#ifndef FX_CODE_LOAD_H
#define FX_CODE_LOAD_H

#include "base/status.h"
#include "base/str.h"

typedef struct fx_code fx_code;
typedef void (*fx_code_fn)(void);

/* name: for messages. The object's bytes aren't needed afterwards. FORNAX_EFORMAT: not an object of this machine's
 * kind, or one that isn't whole. */
fx_status fx_code_load(fx_code **out, const fx_mem *mem, fx_str object, const char *name, fx_error *err);
void fx_code_free(fx_code *code);                        /* nobody may be in it; NULL is fine */
fx_code_fn fx_code_find(const fx_code *code, fx_str function);      /* NULL: not there */
/* A symbol that the object (of any machine) uses and doesn't define, into *name; false: none, or not an ELF64 object. */
bool fx_code_undefined(fx_str object, fx_str *name);
size_t fx_code_bytes(const fx_code *code);               /* of memory */

#endif
