/* kernel_set.h - how a file of kernels offers its rows to the table (kernels.c).
 *
 * Each file of kernels defines one set; kernels.c lists the sets.  The order of
 * rows and sets has no meaning: the best level that the processor has wins. */
#ifndef FX_KERNEL_SET_H
#define FX_KERNEL_SET_H

#include "kernels/kernels.h"

typedef struct fx_kernel_set {
    const fx_kernel *rows;
    size_t n;
} fx_kernel_set;

extern const fx_kernel_set fx_kernels_ref_embed, fx_kernels_ref_norm, fx_kernels_ref_rope, fx_kernels_ref_attend,
    fx_kernels_ref_map, fx_kernels_experts, fx_kernels_by_head;
extern const fx_kernel_set fx_kernels_quant, fx_kernels_quant_avx2, fx_kernels_quant_avx512;   /* quant.h */
extern const fx_kernel_set fx_kernels_ref_scan, fx_kernels_scan_avx2, fx_kernels_scan_avx512;
extern const fx_kernel_set fx_kernels_rowops_avx2, fx_kernels_attend_avx2;
extern const fx_kernel_set fx_kernels_rowops_avx512, fx_kernels_attend_avx512;
extern const fx_kernel_set fx_kernels_rowops_neon, fx_kernels_attend_neon, fx_kernels_scan_neon, fx_kernels_quant_neon;

#endif
