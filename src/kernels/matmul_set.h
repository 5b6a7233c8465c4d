/* matmul_set.h - how a file of matmul kernels offers its rows to the table (matmul.c). */
#ifndef FX_MATMUL_SET_H
#define FX_MATMUL_SET_H

#include "kernels/kernels.h"

typedef struct fx_matmul_set {
    const fx_matmul_kernel *rows;
    size_t n;
} fx_matmul_set;

extern const fx_matmul_set fx_matmul_ref;
extern const fx_matmul_set fx_matmul_plain_avx2, fx_matmul_plain_avx512, fx_matmul_bf16_avx512bf16;
extern const fx_matmul_set fx_matmul_plain_neon, fx_matmul_quant_neon, fx_matmul_quant_neondot, fx_matmul_quant_neoni8mm;
extern const fx_matmul_set fx_matmul_quant_avx2, fx_matmul_quant_avxvnni, fx_matmul_quant_avx512;

#endif
