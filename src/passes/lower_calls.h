/* lower_calls.h - the launches of a plan become kernels of the loop IR.
 *
 * A launch of a kind that has a maker (lower_calls.c) gets a call, alone or with those behind it that go through the same rows
 * element by element.  Others keep their hand-written kernel and get none. */
#ifndef FX_LOWER_CALLS_H
#define FX_LOWER_CALLS_H

#include "kir/pcalls.h"
#include "tensor/rows.h"

/* In 'arena'; nothing of it points into the plan.  tables: for each of the plan's weights the dtype that a table (FX_USE_TABLE) is bound
 * in; others aren't read.  state: as bound (offsets, dtype). */
fx_status fx_lower_calls(fx_arena *arena, const fx_plan *plan, const fx_dtype *tables, const fx_state_table *state,
                         fx_plan_calls **out, fx_error *err);

#endif
