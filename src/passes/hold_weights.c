/* hold_weights.c - casts the weights of products to the type that the dtype mode holds them in.
 *
 * Why:       rounding is explicit in the graph, and later passes compare what is held.
 * auto:      as stored; f64 goes to f32 and f8 to bf16 (which holds it exactly, but for the scales
 *            of groupf8), as no kernel multiplies those.
 * f32:       all to f32: exact.
 * bf16, f16: f32, f16, bf16 (and f64, f8) to that; quantized blocks stay.
 * Tables of embeddings go the same way, but for f32: a look-up yields exact f32 rows anyhow.
 * Products by head have no rounded activations: their quantized weights are held in f32.
 * Leaves:    vectors (converted to f32 at load, exactly). */
#include "passes/passes.h"

static fx_dtype held(fx_dtype stored, fx_dtype_mode mode)
{
    bool f8 = stored == FX_F8E4M3 || stored == FX_F8E5M2 || stored == FX_GROUPF8;

    if (mode == FX_MODE_F32)
        return FX_F32;
    if (fx_dtype_is_quant(stored) && !f8)
        return stored;
    if (mode == FX_MODE_BF16)
        return FX_BF16;
    if (mode == FX_MODE_F16)
        return FX_F16;
    return stored == FX_F64 ? FX_F32 : f8 ? FX_BF16 : stored;
}

/* The cast of w to t that is there before op, or a new one in front of op. */
static fx_value *cast_of(fx_graph *g, fx_value *w, fx_dtype t, fx_op *op)
{
    fx_value *v;

    for (const fx_use *u = w->uses; u; u = u->next) {
        if (u->user->code == FX_OP_CAST && fx_op_i(u->user, FX_A_DTYPE) == t && u->user->block == op->block &&
            fx_op_before(u->user, op))
            return &u->user->out[0];
    }
    fx_point was = fx_insert_at(g->module, fx_before(op));
    v = FX_OP1(g->module, CAST, FX_IN(w), FX_ATTRS(FX_AI(DTYPE, t)), .name = w->name);
    fx_insert_at(g->module, was);
    return v;
}

static void hold(fx_graph *g, fx_dtype_mode mode, fx_op *op, int i, int64_t *changes)
{
    fx_value *w = fx_op_in(op, i), *v;
    fx_dtype t = held(w->type.dtype, mode);

    if (t == w->type.dtype || !fx_value_is_const(w))
        return;
    v = cast_of(g, w, t, op);
    if (!v)
        return;
    fx_op_set_in(op, i, v);
    ++*changes;
}

static void hold_block(fx_graph *g, fx_dtype_mode mode, fx_block *b, int64_t *changes)
{
    for (fx_op *op = b->first; op && !g->module->failed; op = op->next) {
        if (op->code == FX_OP_LINEAR || (op->code == FX_OP_EMBED && (mode == FX_MODE_BF16 || mode == FX_MODE_F16)))
            hold(g, mode, op, 1, changes);
        if (op->code == FX_OP_BY_HEAD)
            hold(g, fx_dtype_is_quant(fx_op_in(op, 1)->type.dtype) ? FX_MODE_F32 : mode, op, 1, changes);
        for (int i = 2; op->code == FX_OP_EXPERTS && i <= 4; i++) {
            if (fx_op_in(op, i))
                hold(g, mode, op, i, changes);
        }
        for (int i = 0; i < op->n_regions; i++)
            hold_block(g, mode, op->regions[i]->first, changes);
    }
}

static fx_status run(fx_graph *g, const fx_pass_options *opt, int64_t *changes, fx_error *err)
{
    hold_block(g, opt->mode, fx_graph_body(g), changes);
    return fx_module_status(g->module, err);
}

const fx_pass fx_pass_hold_weights = { .name = "hold-weights", .run = run };
