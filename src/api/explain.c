/* explain.c - what compiling does to a model's graph or to a graph given as text, for people. */
#include <string.h>

#include "api/api.h"
#include "base/file.h"
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
        fx_buf_printf(out, "graph @%.*s\n", FX_STR_ARG(g->name));
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
