/* frames.h - what frames.c and frames_json.c share: a closure being made. */
#ifndef FX_GRAMMAR_FRAMES_H
#define FX_GRAMMAR_FRAMES_H

#include "grammar/run.h"

typedef struct closure {
    fx_run *r;
    size_t n_items;             /* in 'visited' */
    uint32_t flags;
} closure;

uint32_t fx_frame_intern(fx_run *r, fx_frame f);            /* UINT32_MAX: failed */
uint32_t fx_frame_with(fx_run *r, const fx_frame *f, uint32_t phase);
fx_place fx_place_intern(fx_run *r, size_t bottom, uint32_t flags);     /* of the threads on scratch */
fx_place fx_run_enter(fx_run *r, fx_gnode node, uint32_t frame);

void fx_closure_enter(closure *c, fx_gnode node, uint32_t frame);
void fx_closure_return(closure *c, uint32_t frame);
void fx_closure_thread(closure *c, fx_re re, uint32_t frame);
void fx_closure_work(closure *c, size_t bottom);            /* does the items above 'bottom' */

void fx_json_enter(closure *c, fx_gnode node, uint32_t parent);
void fx_json_return(closure *c, const fx_frame *f);
/* The frame to return to when the expression of a thread is done: a declared name's number is in 're'. */
uint32_t fx_json_done(fx_run *r, uint32_t frame, fx_re re);

/* mask.c */
void fx_walks_free(struct fx_walks *w);
size_t fx_walks_bytes(const struct fx_walks *w);

#endif
