/* custom_op.c - a graph with an op of your own: relu(affine(x)), where affine is a kernel of a package.
 *
 *     custom_op ./custom_op.so 1 -2 3          (the package: custom_op_kernel.c)      prints 5 0 11 */
#include <fornax_graph.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 16 };

static fornax_graph *build(fornax_module *m)
{
    static const fornax_param params[] = { { "factor", FORNAX_PARAM_INT, 3, NULL }, { "shift", FORNAX_PARAM_INT, 2, NULL } };
    fornax_graph *g = fornax_graph_new(m, "custom");
    fornax_type t = fornax_type1(FORNAX_F32, fornax_dim_named(m, "n"));
    fornax_value *x = fornax_graph_input(g, "x", &t), *y;

    y = fornax_op_result(fornax_op_custom(g, &x, 1, "affine", &t, 1, params, 2), 0);
    y = fornax_op_relu(g, y);
    fornax_graph_output(g, &y, 1);
    return g;
}

static fornax_status compile(fornax_compiled **c, fornax_program **p, fornax_context *ctx, const char *package, fornax_error *err)
{
    fornax_module *m = NULL;
    fornax_status st = fornax_module_open(&m, ctx, err);

    if (st == FORNAX_OK)
        st = fornax_module_add_library(m, package, err);
    if (st == FORNAX_OK)
        st = fornax_graph_compile(c, build(m), NULL, err);
    fornax_module_close(m);
    return st == FORNAX_OK ? fornax_program_open(p, *c, err) : st;
}

int main(int argc, char **argv)
{
    fornax_error err = { 0 };
    fornax_context *ctx = NULL;
    fornax_compiled *c = NULL;
    fornax_program *p = NULL;
    float x[MOST];
    fornax_tensor in = { FORNAX_F32, 1, { argc - 2 }, x }, out = { 0 };

    if (argc < 3 || argc > MOST + 2)
        return fprintf(stderr, "usage: custom_op PACKAGE NUMBER...\n"), 2;
    for (int i = 2; i < argc; i++)
        x[i - 2] = (float)atof(argv[i]);
    if (fornax_context_open(&ctx, NULL, &err) || compile(&c, &p, ctx, argv[1], &err) || fornax_program_run(p, &in, 1, &out, 1, &err))
        fprintf(stderr, "%s\n", err.text);
    else
        for (int64_t i = 0; i < out.dim[0]; i++)
            printf(i + 1 < out.dim[0] ? "%g " : "%g\n", (double)((const float *)out.data)[i]);
    fornax_program_close(p);
    fornax_compiled_close(c);
    fornax_context_close(ctx);
    return err.status != FORNAX_OK;
}
