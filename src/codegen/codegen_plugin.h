/* codegen_plugin.h - what libfornax and its LLVM part must agree on.
 *
 * They are built from one tree but are two files, so each computes a number from its version, the ops of kir and
 * the layout of what passes between them; a library opens no part with another number. */
#ifndef FX_CODEGEN_PLUGIN_H
#define FX_CODEGEN_PLUGIN_H

#include "codegen/codegen.h"

typedef struct fx_codegen_plugin {
    uint64_t (*abi)(void);       /* first, for good: the rest is read only if it gives our number */
    const char *llvm;            /* version */
    fx_status (*compile)(fx_buf *out, fx_kir_module *m, const fx_target *t, const fx_codegen_options *o, fx_error *err);
} fx_codegen_plugin;

uint64_t fx_codegen_abi(void);
/* The one symbol that the shared object shows. */
FORNAX_API const fx_codegen_plugin *fornax_llvm_plugin(void);

#endif
