/* experts.h - the table of a step's slots (fx_dispatch_args), as int32:
 *
 *     | number of experts in use | their numbers, ascending: [experts] | first slot of each expert: [experts + 1] |
 *     | slot of (row, choice): [n_rows * top] | row * top + choice of a slot: [n_rows * top] |
 */
#ifndef FX_EXPERTS_H
#define FX_EXPERTS_H

#include "tensor/args.h"

typedef struct fx_experts_table {
    int32_t *used, *expert, *first, *slot, *entry;
} fx_experts_table;

static inline fx_experts_table fx_experts_table_of(const float *p, int64_t n_rows, int32_t experts, int32_t top)
{
    int32_t *at = (int32_t *)(void *)(uintptr_t)p;

    return (fx_experts_table){ at, at + 1, at + 1 + experts, at + 2 * (experts + 1),
                               at + 2 * (experts + 1) + n_rows * top };
}

#endif
