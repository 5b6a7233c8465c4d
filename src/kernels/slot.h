/* slot.h - a layer's recurrent state in the slots of a step (tensor/rows.h).
 *
 * A scan takes the rows of a sequence in order: it starts from the numbers at 'offset' of
 * the slot, leaves there what they are after the last row, and writes them as of page ends
 * to the snapshots that the step asks for.  So bits don't depend on how a prompt is cut. */
#ifndef FX_SLOT_H
#define FX_SLOT_H

#include "tensor/args.h"

static inline float *fx_slot_at(const fx_step_seq *seq, size_t offset)
{
    return (float *)(void *)(seq->slot + offset);
}

/* Where the state after row j of the sequence's rows goes as well; NULL: nowhere. */
static inline float *fx_snapshot_at(const fx_step *s, const fx_step_seq *seq, int64_t j, size_t offset)
{
    int64_t next = (int64_t)seq->pos0 + j + 1;
    uint8_t *snapshot;

    if (!seq->snapshots || next % s->page_tokens != 0)
        return NULL;
    snapshot = seq->snapshots[next / s->page_tokens - 1 - seq->pos0 / s->page_tokens];
    return snapshot ? (float *)(void *)(snapshot + offset) : NULL;
}

#endif
