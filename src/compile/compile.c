/* compile.c - the way from a graph to a program, blocking; packed weights go by way of the store. */
#include "compile/compile.h"

#include "passes/passes.h"

/* ---- Packed weights in the store ---- */

/* Of a program, until it is freed. */
typedef struct keeping {
    const fx_compile_options *opt;       /* while compiling */
    const fx_mem *mem;
    fx_artifact *artifact;               /* whose weights the program has, or NULL */
    void *copy;                          /* of its weights, or NULL */
    size_t copy_bytes;
    fx_store_write *write;               /* of the program's weights, or NULL */
} keeping;

#define PACKED "packed"

static fx_artifact_id id_of(const keeping *k, fx_hash128 recipe)
{
    const fx_hash128 parts[] = { k->opt->content, recipe };

    return fx_artifact_id_make(k->opt->library, fx_cpu_level_name(k->opt->cpu.level), fx_hash128_of(parts, sizeof parts, 0));
}

static const void *find_packed(void *user, fx_hash128 recipe, size_t bytes)
{
    keeping *k = user;
    const fx_artifact_id id = id_of(k, recipe);
    fx_error err = { 0 };
    const fx_section *s;
    fx_str got;

    if (bytes < k->opt->store_min)
        return NULL;
    k->artifact = fx_store_find(k->opt->store, &id);
    if (!k->artifact)
        return NULL;
    s = fx_artifact_find(k->artifact, FX_SECTION_WEIGHTS, PACKED);
    if (!s || s->bytes != bytes)
        fx_fail(&err, FORNAX_EFORMAT, "%s: expected %zu bytes of packed weights", fx_artifact_path(k->artifact), bytes);
    else if (fx_artifact_read_huge(k->artifact, s, k->opt->pool, &got, &k->copy, &err) == FORNAX_OK) {
        k->copy_bytes = got.n;
        return got.p;
    }
    fx_store_reject(k->opt->store, k->artifact, &err);
    fx_artifact_close(k->artifact);
    k->artifact = NULL;
    return NULL;
}

static void keep_packed(void *user, fx_hash128 recipe, const void *at, size_t bytes)
{
    keeping *k = user;
    const fx_artifact_id id = id_of(k, recipe);
    const fx_section_data section = { FX_SECTION_WEIGHTS, PACKED, 4096, at, bytes };

    if (bytes >= k->opt->store_min)
        k->write = fx_store_write_begin(k->opt->store, &id, k->opt->label, &section, 1);
}

static void stop_keeping(void *user)
{
    keeping *k = user;

    fx_store_write_end(k->write);
    fx_artifact_close(k->artifact);
    fx_pages_free(k->copy, k->copy_bytes);
    fx_mem_free(k->mem, k, sizeof *k);
}

/* ---- Compiling ---- */

static fx_status bind(fx_program *p, const fx_mem *mem, const fx_plan *plan, const fx_state_table *state,
                      const fx_weight_source *source, const fx_compile_options *opt, fx_error *err)
{
    keeping *k = opt->store ? fx_mem_zalloc(mem, sizeof *k) : NULL;
    const fx_weight_keep keep = { find_packed, keep_packed, k };
    fx_weight_source with = *source;
    fx_status st;

    if (opt->store && !k)
        return fx_nomem(err, "a program");
    if (k) {
        *k = (keeping){ .opt = opt, .mem = mem };
        fx_program_on_free(p, stop_keeping, k);
        with.keep = &keep;
    }
    st = fx_program_bind(p, plan, state, &with, opt->pool, &opt->cpu, err);
    if (k)
        k->opt = NULL;
    return st;
}

static fx_status build(fx_program *p, const fx_mem *mem, fx_graph *graph, const fx_state_table *state,
                       const fx_weight_source *source, const fx_compile_options *opt, fx_error *err)
{
    const fx_pass_options passes = { .mode = opt->mode, .adapters = opt->adapters };
    fx_plan *plan = NULL;

    if (opt->adapters)
        fx_program_allow_adapters(p);
    FX_TRY(fx_passes_run(graph, &passes, err));
    FX_TRY(fx_lower_plan(fx_program_arena(p), graph, opt->adapters, &plan, err));
    return bind(p, mem, plan, state, source, opt, err);
}

fx_status fx_compile(fx_program **out, const fx_mem *mem, fx_graph *graph, const fx_state_table *state,
                     const fx_weight_source *source, const fx_compile_options *opt, fx_error *err)
{
    fx_program *p = NULL;
    fx_status st = fx_program_new(&p, mem, err);

    *out = NULL;
    if (st == FORNAX_OK)
        st = build(p, mem, graph, state, source, opt, err);
    if (st != FORNAX_OK) {
        fx_program_free(p);
        return st;
    }
    *out = p;
    return FORNAX_OK;
}
