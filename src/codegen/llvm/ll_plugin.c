/* ll_plugin.c - the one symbol of libfornax-llvm.so. */
#include "codegen/codegen_plugin.h"
#include "codegen/llvm/ll.h"

#include <llvm/Config/llvm-config.h>

const fx_codegen_plugin *fornax_llvm_plugin(void)
{
    static const fx_codegen_plugin plugin = { fx_codegen_abi, LLVM_VERSION_STRING, fx_ll_compile };

    return &plugin;
}
