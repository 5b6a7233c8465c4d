/* matmul_quant_avxvnni.c - quantized weights times int8 activations with AVX-VNNI, at level AVX2:
 * the body of matmul_quant_ymm.def, and the bits of AVX2. */
#include "base/cpu.h"

static bool usable(const fx_cpu *cpu) { return cpu->avx_vnni; }

#define FX_SIMD_AVX2
#define VNNI 1
#define USABLE usable
#define NAMED(op) op "_avxvnni"
#define SET fx_matmul_quant_avxvnni
#include "kernels/matmul_quant_ymm.def"
