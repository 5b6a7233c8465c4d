/* codegen_plugin.c - the number by which libfornax and its LLVM part know each other; linked into both. */
#include "codegen/codegen_plugin.h"

uint64_t fx_codegen_abi(void)
{
    const uint64_t shape[] = {
        FORNAX_VERSION_MAJOR, FORNAX_VERSION_MINOR, FORNAX_VERSION_PATCH, sizeof(fx_kop), sizeof(fx_kir_buf), sizeof(fx_kir_block),
        sizeof(fx_kir_kernel), sizeof(fx_kir_module), sizeof(fx_kir_fault), sizeof(fx_target), sizeof(fx_codegen_options),
        sizeof(fx_codegen_plugin), sizeof(fx_buf), sizeof(fx_mem), sizeof(fx_error), offsetof(fx_kop, u), offsetof(fx_kop, id),
        offsetof(fx_kir_kernel, body), FX_DTYPE_COUNT, FX_KIR_COMBINES,
    };
    uint64_t h = fx_hash64(shape, sizeof(shape), 0);

    for (int i = 0; i < FX_KIR_COUNT; i++)
        h = fx_hash64(fx_kir_rows[i].text, strlen(fx_kir_rows[i].text), h);
    return h;
}
