/* graph_mlp.c - a two-layer network as a graph: built, compiled, kept in a file, loaded, run with batches of two sizes.
 *
 *     graph_mlp FILE            where the compiled graph is kept */
#include <stdio.h>
#include <stdlib.h>

#include "fornax_graph.h"

enum { IN = 8, HIDDEN = 16, OUT = 4 };

static void check(fornax_status st, const fornax_error *err)
{
    if (st != FORNAX_OK) {
        fprintf(stderr, "graph_mlp: %s\n", err->text);
        exit(1);
    }
}

static fornax_graph *build(fornax_module *m)
{
    fornax_graph *g = fornax_graph_new(m, "mlp");
    fornax_type x_type = fornax_type2(FORNAX_F32, fornax_dim_named(m, "batch"), fornax_dim_of(IN));
    fornax_type w1_type = fornax_type2(FORNAX_F32, fornax_dim_of(IN), fornax_dim_of(HIDDEN));
    fornax_type w2_type = fornax_type2(FORNAX_F32, fornax_dim_of(HIDDEN), fornax_dim_of(OUT));
    fornax_value *x = fornax_graph_input(g, "x", &x_type);
    fornax_value *w1 = fornax_graph_weight(g, "w1", &w1_type), *w2 = fornax_graph_weight(g, "w2", &w2_type);
    fornax_value *h = fornax_op_relu(g, fornax_op_matmul(g, x, w1));
    fornax_value *y = fornax_op_softmax(g, fornax_op_matmul(g, h, w2), -1);

    fornax_graph_output(g, &y, 1);
    return g;
}

static void run(fornax_program *p, int64_t batch)
{
    static float x[3 * IN];
    fornax_tensor in = { FORNAX_F32, 2, { batch, IN }, x }, out = { 0 };
    fornax_error err = { 0 };

    for (int i = 0; i < 3 * IN; i++)
        x[i] = (float)(i % 5) - 2;
    check(fornax_program_run(p, &in, 1, &out, 1, &err), &err);
    for (int64_t i = 0; i < batch * OUT; i++)
        printf(i % OUT < OUT - 1 ? "%.4f " : "%.4f\n", (double)((const float *)out.data)[i]);
}

int main(int argc, char **argv)
{
    static float w1[IN * HIDDEN], w2[HIDDEN * OUT];
    fornax_tensor t1 = { FORNAX_F32, 2, { IN, HIDDEN }, w1 }, t2 = { FORNAX_F32, 2, { HIDDEN, OUT }, w2 };
    const char *file = argc > 1 ? argv[1] : "mlp.fxa";
    fornax_context *ctx = NULL;
    fornax_module *m = NULL;
    fornax_compiled *c = NULL;
    fornax_program *p = NULL;
    fornax_error err = { 0 };

    for (int i = 0; i < IN * HIDDEN; i++)
        w1[i] = (float)(i % 7) * 0.1f - 0.3f;
    for (int i = 0; i < HIDDEN * OUT; i++)
        w2[i] = (float)(i % 3) * 0.2f - 0.2f;
    check(fornax_context_open(&ctx, NULL, &err), &err);
    check(fornax_module_open(&m, ctx, &err), &err);
    check(fornax_graph_compile(&c, build(m), NULL, &err), &err);
    fornax_module_close(m);
    check(fornax_compiled_save(c, file, &err), &err);
    fornax_compiled_close(c);
    check(fornax_compiled_load(&c, ctx, file, &err), &err);
    check(fornax_program_open(&p, c, &err), &err);
    check(fornax_program_set_weight(p, "w1", &t1, &err), &err);
    check(fornax_program_set_weight(p, "w2", &t2, &err), &err);
    run(p, 1);
    run(p, 3);
    fornax_program_close(p);
    fornax_compiled_close(c);
    fornax_context_close(ctx);
    return 0;
}
