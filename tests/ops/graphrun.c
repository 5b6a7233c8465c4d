/* graphrun.c - runs graphs in the execution that its command line names: ref, interp, compiled or opencl.
 *
 * usage: graphrun ref|interp|compiled|opencl < cases > results
 *
 * A case:    "case TEXT_BYTES SYMBOLS INPUTS\n", the graph's text, for each symbol "NAME VALUE\n", for each
 *            input "DTYPE RANK SIZES... STRIDES... OFFSET BYTES\n" and its bytes; strides and offset count elements.
 * A result:  "ok OUTPUTS\n", for each "DTYPE RANK SIZES... BYTES\n" and its bytes; or "fault STATUS BYTES\n" and a sentence.
 *
 * The last graph of the text is run. ref runs it op by op as it stands; the others lower it to kernels. interp also looks that nobody
 * reads what nobody wrote. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "compile/tgraph.h"
#include "device_run.h"
#include "ref_graph.h"

enum { MAX_ENDS = 64, MAX_BYTES = 1 << 26 };

typedef struct one_case {
    fx_arena arena;
    fx_str text;
    fx_ref_symbol symbols[MAX_ENDS];
    fx_tensor in[MAX_ENDS], out[MAX_ENDS];
    int n_symbols, n_in, n_out;
} one_case;

static void *device;             /* of execution opencl */

/* ---- Reading and writing ------------------------------------------------------------------------ */

static void die(const char *what)
{
    fprintf(stderr, "graphrun: %s\n", what);
    exit(2);
}

/* The next line's words; false at the end of the input. */
static int read_words(char *line, size_t cap, char **words, int max)
{
    int n = 0;

    if (!fgets(line, (int)cap, stdin))
        return 0;
    for (char *p = line; n < max;) {
        p += strspn(p, " \n");
        if (!*p)
            break;
        words[n++] = p;
        p += strcspn(p, " \n");
        if (*p)
            *p++ = 0;
    }
    return n;
}

static int64_t number(const char *word)
{
    int64_t n;

    if (!fx_parse_i64(fx_str_of(word), &n))
        die("expected a number");
    return n;
}

static void *read_bytes(one_case *c, int64_t n)
{
    void *p = n >= 0 && n <= MAX_BYTES ? fx_arena_alloc(&c->arena, (size_t)n + 8) : NULL;

    if (!p || (n && fread(p, (size_t)n, 1, stdin) != 1))
        die("bytes are missing, or too many");
    return p;
}

static void read_input(one_case *c, fx_tensor *t)
{
    char line[1024], *w[32];
    int n = read_words(line, sizeof(line), w, 32), rank = n > 1 ? (int)number(w[1]) : -1;
    int64_t offset;

    if (rank < 0 || rank > FX_MAX_RANK || n != 2 * rank + 4 || !fx_dtype_of_name(&t->dtype, fx_str_of(w[0])))
        die("expected an input");
    t->rank = rank;
    for (int i = 0; i < rank; i++) {
        t->dim[i] = number(w[2 + i]);
        t->stride[i] = number(w[2 + rank + i]);
    }
    offset = number(w[2 + 2 * rank]);
    t->data = (char *)read_bytes(c, number(w[3 + 2 * rank])) + offset * (int64_t)fx_dtype_size(t->dtype);
}

static bool read_case(one_case *c)
{
    char line[1024], *w[8];
    int n = read_words(line, sizeof(line), w, 8);

    if (n == 0)
        return false;
    if (n != 4 || strcmp(w[0], "case"))
        die("expected a case");
    fx_arena_init(&c->arena, &fx_mem_libc, 0);
    c->n_symbols = (int)number(w[2]);
    c->n_in = (int)number(w[3]);
    if (c->n_symbols < 0 || c->n_symbols > MAX_ENDS || c->n_in < 0 || c->n_in > MAX_ENDS)
        die("too many inputs or symbols");
    c->text.n = (size_t)number(w[1]);
    c->text.p = read_bytes(c, (int64_t)c->text.n);
    for (int i = 0; i < c->n_symbols; i++) {
        if (read_words(line, sizeof(line), w, 8) != 2)
            die("expected a symbol");
        c->symbols[i].name = fx_str_of(fx_arena_strdup(&c->arena, w[0], strlen(w[0])));
        c->symbols[i].value = number(w[1]);
    }
    for (int i = 0; i < c->n_in; i++)
        read_input(c, &c->in[i]);
    return true;
}

static fx_tensor make_dense(one_case *c, const fx_tensor *t)
{
    fx_tensor d = fx_tensor_dense(t->dtype, t->rank, t->dim,
                                  fx_arena_alloc(&c->arena, (size_t)fx_tensor_count(t) * fx_dtype_size(t->dtype) + 8));
    int64_t i[FX_MAX_RANK] = { 0 };

    if (fx_tensor_count(t)) {
        do {
            fx_tensor_copy(&d, i, t, i);
        } while (fx_tensor_next(t, i));
    }
    return d;
}

static void write_results(one_case *c)
{
    printf("ok %d\n", c->n_out);
    for (int i = 0; i < c->n_out; i++) {
        fx_tensor t = make_dense(c, &c->out[i]);
        size_t n = (size_t)fx_tensor_count(&t) * fx_dtype_size(t.dtype);

        printf("%s %d", fx_dtype_name(t.dtype), t.rank);
        for (int k = 0; k < t.rank; k++)
            printf(" %lld", (long long)t.dim[k]);
        printf(" %zu\n", n);
        fwrite(t.data, 1, n, stdout);
    }
}

/* ---- Executions ------------------------------------------------------------------------------------- */

static fx_status run_ref(one_case *c, const fx_graph *g, fx_error *err)
{
    if (fx_graph_output(g)->n_in > MAX_ENDS)
        return fx_fail(err, FORNAX_EARG, "too many results");
    return fx_ref_graph_run(g, &c->arena, c->in, c->n_in, c->symbols, c->n_symbols, c->out, &c->n_out, err);
}

static fx_status run_plan(one_case *c, const fx_tgraph *t, fx_error *err)
{
    const fx_kplan *p = fx_tgraph_plan(t);
    fx_kvalue in[MAX_ENDS] = { 0 }, out[MAX_ENDS] = { 0 };
    fx_kexec *x = NULL;
    fx_status st;

    if (p->n_inputs != c->n_in || p->n_outputs > MAX_ENDS)
        return fx_fail(err, FORNAX_EARG, "other inputs than the graph has, or too many results");
    for (int i = 0; i < c->n_in; i++) {
        fx_tensor d = make_dense(c, &c->in[i]);

        in[i] = (fx_kvalue){ .dtype = d.dtype, .rank = d.rank, .data = d.data };
        memcpy(in[i].dim, d.dim, (size_t)d.rank * sizeof(int64_t));
    }
    st = fx_kexec_new(&x, &fx_mem_libc, p, fx_tgraph_code(t), NULL, err);
    if (st == FORNAX_OK && device)
        fx_kexec_device(x, device_run, device);
    else if (st == FORNAX_OK && !fx_tgraph_code(t))
        st = fx_kexec_check(x, &(fx_kexec_checks){ .unset = true }, err);
    if (st == FORNAX_OK)
        st = fx_kexec_run(x, in, out, err);
    c->n_out = st == FORNAX_OK ? p->n_outputs : 0;
    for (int i = 0; i < c->n_out; i++) {
        fx_tensor t_out = fx_tensor_dense(out[i].dtype, out[i].rank, out[i].dim, out[i].data);

        c->out[i] = make_dense(c, &t_out);
    }
    fx_kexec_free(x);
    return st;
}

static fx_status run_lowered(one_case *c, const fx_graph *g, const fx_codegen *cg, const fx_target *target, fx_error *err)
{
    fx_tgraph *t = NULL;
    fx_status st = fx_tgraph_compile(&t, &fx_mem_libc, g, &(fx_tgraph_options){ .codegen = cg, .target = cg ? target : NULL }, err);

    if (st == FORNAX_OK)
        st = run_plan(c, t, err);
    fx_tgraph_free(t);
    return st;
}

int main(int argc, char **argv)
{
    static one_case c;
    fx_codegen *cg = NULL;
    fx_target target;
    fx_error err = { 0 };
    bool ref = argc == 2 && !strcmp(argv[1], "ref"), compiled = argc == 2 && !strcmp(argv[1], "compiled");
    bool opencl = argc == 2 && !strcmp(argv[1], "opencl");

    if (argc != 2 || (!ref && !compiled && !opencl && strcmp(argv[1], "interp")))
        die("usage: graphrun ref|interp|compiled|opencl < cases > results");
    if (compiled && (fx_codegen_open(&cg, &fx_mem_libc, FXTEST_LLVM, &err) != FORNAX_OK ||
                     fx_target_named(&target, FX_STR("host"), &err) != FORNAX_OK))
        die(err.text);
    if (opencl && !(device = device_open()))
        die("no OpenCL device, such as PoCL");
    while (read_case(&c)) {
        fx_module *m;
        fx_status st = fx_module_parse(&m, &c.arena, "graph", c.text, &err);

        if (st == FORNAX_OK)
            st = ref ? run_ref(&c, m->last, &err) : run_lowered(&c, m->last, cg, &target, &err);
        if (st == FORNAX_OK)
            write_results(&c);
        else
            printf("fault %d %zu\n%s", (int)st, strlen(err.text), err.text);
        fflush(stdout);
        fx_arena_done(&c.arena);
        memset(&c, 0, sizeof(c));
    }
    device_close(device);
    fx_codegen_close(cg);
    return 0;
}
