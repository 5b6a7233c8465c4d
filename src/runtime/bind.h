/* bind.h - from a plan and a source of weights to a program that can run.
 *
 *     fx_program *p;
 *     fx_program_new(&p, mem);
 *     ... lower a plan into fx_program_arena(p) ...
 *     fx_program_bind(p, plan, &state, &source, pool, &cpu, err);
 *
 * Weights of products are packed, all threads together, into the layout of the
 * kernel that the CPU level chooses; after that the source's pages are released,
 * so one resident copy remains.  Embedding tables stay views of the source.  Where the
 * source can keep packed weights, a later program with the same recipe packs nothing. */
#ifndef FX_BIND_H
#define FX_BIND_H

#include "base/cpu.h"
#include "kir/pcalls.h"
#include "runtime/kexec.h"
#include "runtime/program.h"

/* A matrix as the file holds it; 'data' stays valid as long as the program. */
typedef struct fx_weight_view {
    const void *data;
    fx_dtype dtype;
    int64_t rows, cols;
    size_t row_bytes;
} fx_weight_view;

/* Where packed weights outlive the program that packed them. */
typedef struct fx_weight_keep {
    /* Those of an equal recipe, 'bytes' of them, which stay as long as the program (fx_program_on_free); NULL: none. */
    const void *(*find)(void *user, fx_hash128 recipe, size_t bytes);
    /* They were packed, and stay as long as the program. */
    void (*keep)(void *user, fx_hash128 recipe, const void *at, size_t bytes);
    void *user;
} fx_weight_keep;

typedef struct fx_weight_source {
    bool (*find)(void *user, fx_str name, fx_weight_view *out);
    void (*release)(void *user, fx_str name);                      /* no longer needed resident; may be NULL */
    bool (*progress)(void *user, double fraction);                 /* false: stop with ECANCEL; may be NULL */
    const fx_weight_keep *keep;                                    /* may be NULL */
    void *user;
} fx_weight_source;

fx_status fx_program_new(fx_program **out, const fx_mem *mem, fx_error *err);
fx_arena *fx_program_arena(fx_program *p);
/* 'plan' lives in the program's arena; 'state' is copied. Once. */
/* Room for adapters, before bind: the plan was made for them. */
void fx_program_allow_adapters(fx_program *p);
fx_status fx_program_bind(fx_program *p, const fx_plan *plan, const fx_state_table *state,
                          const fx_weight_source *source, fx_pool *pool, const fx_cpu *cpu, fx_error *err);
/* Generated kernels that stand for launches of the bound plan, before the first exec; they outlive the program. */
void fx_program_set_calls(fx_program *p, const fx_plan_calls *calls);
/* Code for them, one for each of their kernels, by any thread, once: steps that begin from then on run it. */
void fx_program_give_code(fx_program *p, const fx_kcode *code);
const fx_plan_calls *fx_program_calls(const fx_program *p);      /* or NULL */
bool fx_program_has_code(const fx_program *p);
const fx_plan *fx_program_plan(const fx_program *p);
/* The dtype that a weight is held in; for a table, before it is bound. */
fx_dtype fx_program_weight_dtype(const fx_program *p, int32_t weight);
fx_dtype fx_table_dtype(const fx_plan_weight *w, fx_dtype stored);
size_t fx_program_weight_bytes(const fx_program *p);
bool fx_program_found_weights(const fx_program *p);      /* nothing was packed */
/* Called when the program is freed, while its weights are still there. One. */
void fx_program_on_free(fx_program *p, void (*fn)(void *user), void *user);

#endif
