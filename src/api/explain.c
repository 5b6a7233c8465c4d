/* explain.c - what compiling does to a model's graph or to a graph given as text, for people. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/file.h"
#include "passes/lower_calls.h"
#include "passes/lower_kir.h"
#include "passes/passes.h"

/* ---- Models ------------------------------------------------------------------------------------------ */

/* The graph before the first pass and after each that changed something; a line for those that didn't. */
static void after_pass(void *user, const char *pass, const fx_graph *g, int64_t changes)
{
    fx_buf *b = user;
    bool start = strcmp(pass, "start") == 0;

    if (!start)
        fx_buf_printf(b, "# pass %s: %lld rewrites\n", pass, (long long)changes);
    if (start || changes > 0)
        fx_graph_print(g, b);
}

static void missed(void *user, const char *pass, const fx_op *root, const char *why)
{
    fx_buf_printf(user, "# pass %s: not at %%%.*s (%s): %s\n", pass, FX_STR_ARG(fx_op_label(root)), fx_opcode_name(root->code), why);
}

/* The dtypes of the plan's tables, as binding would leave them. */
static fx_dtype *tables_of(fx_arena *arena, const fx_weights *w, const fx_plan *plan)
{
    fx_dtype *tables = FX_ARENA_NEWN(arena, fx_dtype, (size_t)plan->n_weights + 1);

    for (int32_t i = 0; tables && i < plan->n_weights; i++) {
        const fx_weight *t = plan->weights[i].use == FX_USE_TABLE ? fx_weights_find(w, plan->weights[i].src[0]) : NULL;

        tables[i] = t ? fx_table_dtype(&plan->weights[i], t->dtype) : FX_DTYPE_COUNT;
    }
    return tables;
}

/* The launches, and which of them a generated kernel does, or ends the tiles of. */
static fx_status print_launches(const fornax_context *ctx, const fx_plan *plan, const fx_plan_calls *calls, fx_buf *out, fx_error *err)
{
    const fx_plan_call *c = calls->calls, *end = c + calls->n_calls;
    size_t at = 0;
    fx_str text;
    fx_buf b;

    fx_buf_init(&b, &ctx->mem);
    fx_plan_print(plan, &b);
    text = fx_buf_view(&b);
    fx_buf_puts(out, "# launches\n");
    for (int32_t i = 0; i < plan->n_launches && !b.failed; i++) {        /* a line each */
        size_t line_end = fx_str_find(text, FX_STR("\n"), at);

        fx_buf_add(out, text.p + at, line_end - at);
        at = line_end + 1;
        c += c < end && i >= c->first + c->n;
        if (c < end && i >= c->first)
            fx_buf_printf(out, ": %s @%.*s", c->epilogue ? "tiles end in" : "generated,", FX_STR_ARG(calls->kernels[c->kernel]->name));
        fx_buf_putc(out, '\n');
    }
    if (b.failed)
        fx_nomem(err, "a plan's text");
    fx_buf_done(&b);
    return b.failed ? FORNAX_ENOMEM : FORNAX_OK;
}

/* Whether there is code for them, or could be. */
static fx_status print_code(fornax_context *ctx, const fx_plan_calls *calls, fx_buf *out, fx_error *err)
{
    fx_artifact *a = NULL;
    fx_codegen *cg = NULL;
    fx_artifact_id id;
    fx_target target;
    fx_error why;

    if (fx_target_of_level(&target, ctx->cpu.level, &why) != FORNAX_OK) {
        fx_buf_printf(out, "# hand-written kernels do it all: %s\n", why.text);
        return FORNAX_OK;
    }
    FX_TRY(fx_pcode_identity(calls, &target, fornax_version(), &ctx->mem, &id, err));
    a = ctx->store ? fx_store_find(ctx->store, &id) : NULL;
    if (a)
        fx_buf_printf(out, "# their code for %s is kept in %s\n", target.cpu, fx_artifact_path(a));
    else if (fx_codegen_open(&cg, &ctx->mem, getenv("FORNAX_LLVM"), &why) == FORNAX_OK)
        fx_buf_printf(out, "# their code for %s isn't kept yet; LLVM %s can make it\n", target.cpu, fx_codegen_version(cg));
    else
        fx_buf_printf(out, "# hand-written kernels do it all: %s\n", why.text);
    fx_artifact_close(a);
    fx_codegen_close(cg);
    return FORNAX_OK;
}

static fx_status explain_plan(fornax_context *ctx, fx_arena *arena, const fx_weights *w, const fx_model_desc *d, fx_buf *out, fx_error *err)
{
    fx_plan_calls *calls;
    fx_dtype *tables;
    fx_plan *plan;

    FX_TRY(fx_lower_plan(arena, d->step, false, &plan, err));
    tables = tables_of(arena, w, plan);
    if (!tables)
        return fx_nomem(err, "a plan");
    FX_TRY(fx_lower_calls(arena, plan, tables, &d->state, &calls, err));
    FX_TRY(print_launches(ctx, plan, calls, out, err));
    fx_buf_printf(out, "# %d launches, %d generated kernels in %d places\n", (int)plan->n_launches, (int)calls->n_kernels, (int)calls->n_calls);
    return print_code(ctx, calls, out, err);
}

static fx_status explain_model(fornax_context *ctx, const char *path, fx_buf *out, fx_error *err)
{
    fx_model_options mo = { .kv_auto = true, .mode = FX_MODE_AUTO };
    fx_pass_options po = { .mode = FX_MODE_AUTO, .trace = after_pass, .miss = missed, .trace_user = out };
    fx_model_desc desc;
    fx_weights *w;
    fx_arena arena;
    fx_status st;

    FX_TRY(fx_weights_open(&w, &ctx->mem, path, 0, err));
    mo.hidden = fx_embed_meant(w);
    fx_arena_init(&arena, &ctx->mem, 1 << 18);
    st = fx_model_build(&arena, w, &mo, &desc, err);
    if (st == FORNAX_OK)
        st = fx_passes_run(desc.step, &po, err);
    if (st == FORNAX_OK)
        st = explain_plan(ctx, &arena, w, &desc, out, err);
    fx_arena_done(&arena);
    fx_weights_close(w);
    return st;
}

/* ---- Graphs --------------------------------------------------------------------------------------------- */

static fx_status explain_graphs(fornax_context *ctx, const char *path, fx_str text, fx_buf *out, fx_error *err)
{
    fx_module *m;
    fx_arena arena;
    fx_kplan *plan;
    fx_status st;

    fx_arena_init(&arena, &ctx->mem, 0);
    st = fx_module_parse(&m, &arena, path, text, err);
    for (const fx_graph *g = st == FORNAX_OK ? m->first : NULL; g && st == FORNAX_OK; g = g->next) {
        fx_graph_print(g, out);
        st = fx_lower_kir(&arena, g, &(fx_lower_options){ .lanes = 16, .explain = out }, &plan, err);
    }
    fx_arena_done(&arena);
    return st;
}

/* A file that ends in .txt is a graph; all else is for the reader of models. */
static bool is_text(const char *path)
{
    size_t n = strlen(path);

    return n > 4 && strcmp(path + n - 4, ".txt") == 0;
}

fornax_status fornax_explain(fornax_text **out, fornax_context *ctx, const char *path, fornax_error *err)
{
    fx_buf text, b;
    fx_fpmode was;
    fx_status st;

    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(ctx);
    FX_API_NEED(path);
    FX_TRY(fx_api_usable(ctx, err));
    was = fx_fpmode_enter();
    fx_buf_init(&text, &ctx->mem);
    fx_buf_init(&b, &ctx->mem);
    if (!is_text(path))
        st = explain_model(ctx, path, &b, err);
    else {
        st = fx_file_read(&text, path, (size_t)64 << 20, err);
        if (st == FORNAX_OK)
            st = explain_graphs(ctx, path, fx_buf_view(&text), &b, err);
    }
    fx_buf_done(&text);
    fx_fpmode_leave(was);
    if (st == FORNAX_OK)
        return fx_api_text(out, &ctx->mem, &b, err);
    fx_buf_done(&b);
    return st;
}
