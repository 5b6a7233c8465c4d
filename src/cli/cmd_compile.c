/* cmd_compile.c - fornax compile GRAPH.txt: a graph of tensors, as text (docs/graph.md), to code for this machine or another;
 * fornax compile MODEL: what later starts of the model find in the cache folder. */
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"
#include "fornax_graph.h"

typedef struct compile_opts {
    fx_model_opts model;
    const char *graph, *target, *emit, *out, *dump;
    bool targets;
} compile_opts;

static const fx_opt opts[] = {
    { "graph", 'g', FX_OPT_STR, offsetof(compile_opts, graph), "NAME", "this graph of the module (default: the last one)", 0, 0 },
    { "target", 0, FX_OPT_STR, offsetof(compile_opts, target), "CPU", "the machine that will run it (default: host)", 0, 0 },
    { "emit", 'e', FX_OPT_STR, offsetof(compile_opts, emit), "FORM", "artifact (a file to load), kir, llvm, asm (default: artifact)", 0, 0 },
    { "out", 'o', FX_OPT_STR, offsetof(compile_opts, out), "FILE", "where to write it (texts: default is standard output)", 0, 0 },
    { "dump", 0, FX_OPT_STR, offsetof(compile_opts, dump), "DIR", "the text of each stage, from the graph to assembly, goes to this folder", 0, 0 },
    { "targets", 0, FX_OPT_FLAG, offsetof(compile_opts, targets), NULL, "list the targets", 0, 0 },
    { "adapters", 0, FX_OPT_FLAG, offsetof(compile_opts, model.adapters), NULL, "of a model: for starts with --lora", 0, 0 },
    FX_MODEL_OPTS(compile_opts, model),
    { 0 },
};

static const fornax_graph *find_graph(const fornax_module *m, const char *name)
{
    const fornax_graph *g, *last = NULL;

    for (size_t i = 0; (g = fornax_module_graph(m, i)); i++) {
        if (name && strcmp(fornax_graph_name(g), name) == 0)
            return g;
        last = g;
    }
    return name ? NULL : last;
}

static fornax_status emit_text(fornax_compiled *c, const compile_opts *o, fornax_error *err)
{
    fornax_text *text = NULL;
    fornax_status st = fornax_compiled_print(&text, c, o->emit, err);
    const char *p;
    size_t n;

    if (st != FORNAX_OK)
        return st;
    p = fornax_text_bytes(text, &n);
    if (o->out)
        st = fx_file_write_atomic(o->out, fx_str_n(p, n), err);
    else
        fwrite(p, 1, n, stdout);
    fornax_text_close(text);
    return st;
}

static fornax_status compile(fornax_module *m, const compile_opts *o, fornax_error *err)
{
    fornax_compile_options opt = FORNAX_OPTIONS(fornax_compile_options);
    const fornax_graph *g = find_graph(m, o->graph);
    fornax_compiled *c = NULL;
    fornax_status st;

    if (!g)
        return fx_fail(err, FORNAX_ENOTFOUND, o->graph ? "the module has no graph %s" : "the module has no graph", o->graph);
    opt.target = o->target;
    opt.dump_dir = o->dump;
    st = fornax_graph_compile(&c, g, &opt, err);
    if (st == FORNAX_OK)
        st = strcmp(o->emit, "artifact") == 0 ? fornax_compiled_save(c, o->out, err) : emit_text(c, o, err);
    fornax_compiled_close(c);
    return st;
}

static fornax_status run_file(const char *path, const compile_opts *o, fornax_error *err)
{
    fornax_context *ctx = NULL;
    fornax_module *m = NULL;
    fx_buf text;
    fornax_status st;

    fx_buf_init(&text, &fx_mem_libc);
    st = fx_file_read(&text, path, (size_t)64 << 20, err);
    if (st == FORNAX_OK)
        st = fx_cli_context(&ctx, &(fx_model_opts){ .no_cache = true }, err);
    if (st == FORNAX_OK)
        st = fornax_module_parse(&m, ctx, path, text.p, text.n, err);
    if (st == FORNAX_OK)
        st = compile(m, o, err);
    fornax_module_close(m);
    fornax_context_close(ctx);
    fx_buf_done(&text);
    return st;
}

/* Opens it, which leaves its packed weights in the cache folder, and waits for its code. */
static int run_model(const char *path, compile_opts *o)
{
    fornax_context *ctx = NULL;
    fornax_model *model = NULL;
    fornax_error err = { 0 };
    fornax_status st;

    if (o->graph || o->target || o->emit || o->out)
        return fx_cli_usage("--graph, --target, --emit and --out are for graphs, which are in files that end in .txt");
    if (o->model.no_cache || o->model.code)
        return fx_cli_usage("--no-cache and --code: what is compiled of a model goes to the cache folder");
    fx_cli_catch_interrupt();
    o->model.code = "auto";
    st = fx_cli_model(&ctx, &model, path, &o->model, &err);
    if (st == FORNAX_OK)
        st = fornax_model_compile(model, &err);
    fornax_model_close(model);
    fornax_context_close(ctx);
    return st == FORNAX_OK ? FX_EXIT_OK : fx_cli_fail(&err);
}

static bool is_graph(const char *path)
{
    size_t n = strlen(path);

    return n > 4 && strcmp(path + n - 4, ".txt") == 0;
}

static int run(const void *given, int n, char **args)
{
    compile_opts o = *(const compile_opts *)given;
    fornax_error err = { 0 };

    if (o.targets) {
        for (size_t i = 0; fornax_target_name(i); i++)
            puts(fornax_target_name(i));
        return FX_EXIT_OK;
    }
    if (n != 1)
        return fx_cli_usage("a model, or a file with a graph, is missing");
    if (!is_graph(args[0]))
        return run_model(args[0], &o);
    o.emit = o.emit ? o.emit : "artifact";
    if (strcmp(o.emit, "artifact") == 0 && !o.out)
        return fx_cli_usage("--out is missing: an artifact goes to a file");
    return run_file(args[0], &o, &err) == FORNAX_OK ? FX_EXIT_OK : fx_cli_fail(&err);
}

const fx_cmd fx_cmd_compile = {
    .name = "compile", .args = "MODEL|GRAPH.txt", .min_args = 0, .max_args = 1,
    .summary = "compile a graph of tensors to code, or fill the cache folder for a model's starts",
    .examples = "  fornax compile model.gguf\n"
                "  fornax compile mlp.txt -o mlp.fxa\n"
                "  fornax compile mlp.txt --emit kir\n"
                "  fornax compile mlp.txt --emit asm --target x86-64-v3\n",
    .opts = opts, .opts_bytes = sizeof(compile_opts), .run = run,
};
