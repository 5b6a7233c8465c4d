/* compile.c - the way from a graph to a program, blocking. */
#include "compile/compile.h"

#include "passes/passes.h"

static fx_status build(fx_program *p, fx_graph *graph, const fx_state_table *state, const fx_weight_source *source,
                       const fx_compile_options *opt, fx_error *err)
{
    const fx_pass_options passes = { .mode = opt->mode, .adapters = opt->adapters };
    fx_plan *plan = NULL;

    if (opt->adapters)
        fx_program_allow_adapters(p);
    FX_TRY(fx_passes_run(graph, &passes, err));
    FX_TRY(fx_lower_plan(fx_program_arena(p), graph, opt->adapters, &plan, err));
    return fx_program_bind(p, plan, state, source, opt->pool, &opt->cpu, err);
}

fx_status fx_compile(fx_program **out, const fx_mem *mem, fx_graph *graph, const fx_state_table *state,
                     const fx_weight_source *source, const fx_compile_options *opt, fx_error *err)
{
    fx_program *p = NULL;
    fx_status st = fx_program_new(&p, mem, err);

    *out = NULL;
    if (st == FORNAX_OK)
        st = build(p, graph, state, source, opt, err);
    if (st != FORNAX_OK) {
        fx_program_free(p);
        return st;
    }
    *out = p;
    return FORNAX_OK;
}
