/* fornax_graph.h - build tensor programs: values, ops, blocks, graphs, modules.
 *
 * C99 (or C++). It brings fornax.h and fornax_ops.h, which has an inline function for each op.
 *
 *     fornax_module *m = NULL;
 *     fornax_graph *g;
 *     fornax_dim n;
 *     fornax_type xt, wt;
 *     fornax_value *x, *w, *y;
 *     if (fornax_module_open(&m, ctx, &err))
 *         ...
 *     g = fornax_graph_new(m, "layer");
 *     n = fornax_dim_named(m, "n");
 *     xt = fornax_type2(FORNAX_F32, n, fornax_dim_of(64));
 *     wt = fornax_type2(FORNAX_F32, fornax_dim_of(64), fornax_dim_of(8));
 *     x = fornax_graph_input(g, "x", &xt);
 *     w = fornax_graph_weight(g, "w", &wt);
 *     y = fornax_op_relu(g, fornax_op_matmul(g, x, w));
 *     fornax_graph_output(g, &y, 1);
 *     if (fornax_module_check(m, &err))
 *         fprintf(stderr, "%s\n", err.text);
 *
 * Objects:   module   graphs that belong together, and the kernel libraries of their custom ops.
 *            graph    inputs, ops, outputs. A subgraph is one that others call.
 *            block    the body of a cond's branch or of a loop, built before the op that owns it.
 *            op       a row of the table of ops (docs/ops.md); value: one of its results.
 *            All but modules live as long as their module and are never freed alone.
 * Faults:    each op is checked as it is made. The first fault of a module stays: the call returns
 *            NULL, later makers do nothing and return NULL too, and fornax_module_check says what
 *            it was ("layer.c:41: matmul: inner axes differ; operands f32[n,64], f32[8,8]"). So a
 *            builder need not look until its end. NULL for a graph or value is fine after a fault.
 * Order:     ops go to the end of the current block, or where fornax_graph_insert says.
 * Effects:   loads and stores of buffers, prints and kernels that change buffers happen in the
 *            order of their making. The chain that orders them is passed along by the library;
 *            loops, branches and calls carry it on.
 * Threads:   a module is used by one thread at a time; different modules by as many as you like.
 * The rest is as in fornax.h. */
#ifndef FORNAX_GRAPH_H
#define FORNAX_GRAPH_H

#include "fornax.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fornax_module fornax_module;
typedef struct fornax_graph fornax_graph;
typedef struct fornax_block fornax_block;
typedef struct fornax_op fornax_op;
typedef struct fornax_value fornax_value;

/* ---- Types --------------------------------------------------------------------- */

/* Elements of tensors. The blocks of GGUF are for weights, casts and dequantize. */
typedef enum fornax_dtype {
    FORNAX_BOOL = 0,
    FORNAX_I8 = 1, FORNAX_I16 = 2, FORNAX_I32 = 3, FORNAX_I64 = 4,
    FORNAX_U8 = 5, FORNAX_U16 = 6, FORNAX_U32 = 7, FORNAX_U64 = 8,
    FORNAX_F16 = 9, FORNAX_BF16 = 10, FORNAX_F32 = 11, FORNAX_F64 = 12,
    FORNAX_F8E4M3 = 13, FORNAX_F8E5M2 = 14,
    FORNAX_Q4_0 = 15, FORNAX_Q4_1 = 16, FORNAX_Q5_0 = 17, FORNAX_Q5_1 = 18, FORNAX_Q8_0 = 19,
    FORNAX_Q2_K = 20, FORNAX_Q3_K = 21, FORNAX_Q4_K = 22, FORNAX_Q5_K = 23, FORNAX_Q6_K = 24,
    FORNAX_IQ4_NL = 25, FORNAX_IQ4_XS = 26, FORNAX_MXFP4 = 27
} fornax_dtype;

/* The size of an axis: a number, a name whose value a run tells, or an expression of both.
 * Equal expressions are equal sizes: n+1+1 is n+2. */
typedef struct fornax_dim {
    int64_t n;              /* the number, where expr is NULL */
    const void *expr;       /* belongs to the module */
} fornax_dim;

#define FORNAX_MAX_RANK 8
typedef struct fornax_type {
    fornax_dtype dtype;
    int buffer;             /* 1: memory that ops can write to */
    int rank;               /* of dim; the rest isn't looked at */
    fornax_dim dim[FORNAX_MAX_RANK];
} fornax_type;

static inline fornax_dim fornax_dim_of(int64_t n)
{
    fornax_dim d;

    d.n = n;
    d.expr = NULL;
    return d;
}

/* A type of 'rank' axes (at most FORNAX_MAX_RANK), whose sizes lie at 'dims'. */
static inline fornax_type fornax_type_of(fornax_dtype dtype, int rank, const fornax_dim *dims)
{
    fornax_type t;
    int i;

    t.dtype = dtype;
    t.buffer = 0;
    t.rank = rank;
    for (i = 0; i < FORNAX_MAX_RANK; i++)
        t.dim[i] = i < rank ? dims[i] : fornax_dim_of(0);
    return t;
}

/* Types of no axis (a scalar), one, two. */
static inline fornax_type fornax_type0(fornax_dtype dtype) { return fornax_type_of(dtype, 0, NULL); }
static inline fornax_type fornax_type1(fornax_dtype dtype, fornax_dim a) { return fornax_type_of(dtype, 1, &a); }
static inline fornax_type fornax_type2(fornax_dtype dtype, fornax_dim a, fornax_dim b)
{
    fornax_dim dims[2];

    dims[0] = a;
    dims[1] = b;
    return fornax_type_of(dtype, 2, dims);
}

/* The size called 'name': a letter or _, then letters, digits and _. Equal names are equal sizes. */
FORNAX_API fornax_dim fornax_dim_named(fornax_module *m, const char *name);
/* a + b, a - b, a * b, or a / b rounded down; op is that character. */
FORNAX_API fornax_dim fornax_dim_math(fornax_module *m, fornax_dim a, char op, fornax_dim b);
/* 1 if two sizes are equal whatever their names stand for. */
FORNAX_API int fornax_dim_equal(fornax_dim a, fornax_dim b);
/* "f32[n,64]", "buffer i8[2*n+1]". */
FORNAX_API fornax_status fornax_type_print(fornax_text **out, fornax_module *m, const fornax_type *type,
                                           fornax_error *err);

/* ---- Modules ----------------------------------------------------------------------- */

FORNAX_API fornax_status fornax_module_open(fornax_module **out, fornax_context *ctx, fornax_error *err);
/* With all that was made in it. */
FORNAX_API void fornax_module_close(fornax_module *m);

/* FORNAX_OK if nothing failed so far and all graphs are complete and sound; else the first fault. */
FORNAX_API fornax_status fornax_module_check(const fornax_module *m, fornax_error *err);

/* The text form (docs/ops.md), which parses back to the same graphs. */
FORNAX_API fornax_status fornax_module_print(fornax_text **out, const fornax_module *m, fornax_error *err);
/* 'name' is the text's, for faults: "name:line:column: what". Parsed graphs are complete: they are
 * looked at, called and compiled, not built on. */
FORNAX_API fornax_status fornax_module_parse(fornax_module **out, fornax_context *ctx, const char *name,
                                             const char *text, size_t text_n, fornax_error *err);

/* Where custom ops find their kernels: a package (a shared object), or a folder of sources.
 * Anything else is FORNAX_EFORMAT. The path is kept with the module, also in its text. */
FORNAX_API fornax_status fornax_module_add_library(fornax_module *m, const char *path, fornax_error *err);
/* Path i in the order of adding, and graph i in the order of making; NULL past the last. */
FORNAX_API const char *fornax_module_library(const fornax_module *m, size_t i);
FORNAX_API fornax_graph *fornax_module_graph(const fornax_module *m, size_t i);

/* ---- Graphs ------------------------------------------------------------------------- */

/* A graph of that name, the only one in its module; it is complete with its output. */
FORNAX_API fornax_graph *fornax_graph_new(fornax_module *m, const char *name);
/* ... that others call: compiled once, apart from its callers, however often it is called. */
FORNAX_API fornax_graph *fornax_subgraph_new(fornax_module *m, const char *name);
FORNAX_API const char *fornax_graph_name(const fornax_graph *g);

/* What the graph is given at each run. Sizes may be named here for the first time. */
FORNAX_API fornax_value *fornax_graph_input(fornax_graph *g, const char *name, const fornax_type *type);
/* What it is given once, by name, before the first run. All sizes are numbers. The same name and
 * type again is the same value. */
FORNAX_API fornax_value *fornax_graph_weight(fornax_graph *g, const char *name, const fornax_type *type);
/* Elements known now: row-major, as many as the type has, copied. */
FORNAX_API fornax_value *fornax_graph_constant(fornax_graph *g, const fornax_type *type, const void *data);
/* A scalar of the dtype of 'like'. It must hold the number exactly (f32: integers up to 2^24) if
 * that is an integer; a float doesn't go to an integer. */
FORNAX_API fornax_value *fornax_graph_int(fornax_graph *g, const fornax_value *like, int64_t x);
FORNAX_API fornax_value *fornax_graph_float(fornax_graph *g, const fornax_value *like, double x);
/* What random ops start from: an i64 scalar, or where that is NULL the number. Each op that draws adds 1. */
FORNAX_API void fornax_graph_seed(fornax_graph *g, fornax_value *seed, int64_t number);
/* Ends the graph: its results. */
FORNAX_API void fornax_graph_output(fornax_graph *g, fornax_value *const *values, size_t n);

enum { FORNAX_AT_END, FORNAX_BEFORE, FORNAX_AFTER };
/* Where ops go from now on: before or after one, or (NULL) at the end of the current block. Effects
 * go to the end only. Back at the end is where building goes on. */
FORNAX_API void fornax_graph_insert(fornax_graph *g, int where, fornax_op *op);

/* Remembers the line that the next faults are about; returns g. */
FORNAX_API fornax_graph *fornax_graph_at(fornax_graph *g, const char *file, int line);
#define FORNAX_HERE(g) fornax_graph_at((g), __FILE__, __LINE__)

/* ---- Ops and values -------------------------------------------------------------------- */

/* One attribute of an op by its name in the table. Which member counts depends on its kind. */
typedef struct fornax_attr {
    const char *name;
    int64_t i;                  /* int, bool, dtype */
    double f;                   /* float */
    const char *s;              /* string; word: NULL is its default */
    fornax_dim dim;             /* size */
    const void *list;           /* fornax_dim, int64_t, fornax_type, fornax_param; a type: one fornax_type */
    size_t n;                   /* elements of list */
} fornax_attr;

static inline fornax_attr fornax_attr_int(const char *name, int64_t i)
{
    fornax_attr a = { name, i, 0, NULL, { 0, NULL }, NULL, 0 };
    return a;
}
static inline fornax_attr fornax_attr_float(const char *name, double f)
{
    fornax_attr a = { name, 0, f, NULL, { 0, NULL }, NULL, 0 };
    return a;
}
static inline fornax_attr fornax_attr_text(const char *name, const char *s)
{
    fornax_attr a = { name, 0, 0, s, { 0, NULL }, NULL, 0 };
    return a;
}
static inline fornax_attr fornax_attr_size(const char *name, fornax_dim dim)
{
    fornax_attr a = { name, 0, 0, NULL, dim, NULL, 0 };
    return a;
}
static inline fornax_attr fornax_attr_list(const char *name, const void *list, size_t n)
{
    fornax_attr a = { name, 0, 0, NULL, { 0, NULL }, list, n };
    return a;
}

/* A parameter of a custom op; kind says which member counts. */
enum { FORNAX_PARAM_BOOL, FORNAX_PARAM_INT, FORNAX_PARAM_TEXT, FORNAX_PARAM_DTYPE };
typedef struct fornax_param {
    const char *name;
    int kind;
    int64_t i;
    const char *s;
} fornax_param;

/* Any op by its name ("add"), with operands in order (NULL: an optional one left out) and those of
 * its attributes that aren't at their default. Chains and seeds aren't among the operands: they are
 * added. fornax_ops.h has an inline function for each: fornax_op_add(g, a, b). */
FORNAX_API fornax_op *fornax_op_make(fornax_graph *g, const char *name, fornax_value *const *in, size_t n_in,
                                     const fornax_attr *attrs, size_t n_attrs);
/* Result i; NULL past the last, and of NULL. */
FORNAX_API fornax_value *fornax_op_result(fornax_op *op, size_t i);

/* x in another shape of as many elements; one size may be -1: what is left for it. */
FORNAX_API fornax_value *fornax_op_reshape(fornax_graph *g, fornax_value *x, const fornax_dim *dims, size_t n);

/* One item of an index as NumPy writes it, made by the functions below. */
typedef struct fornax_index {
    int kind;
    unsigned given;             /* 1: start, 2: stop */
    fornax_dim start, stop;     /* stop: the size of the result for fornax_index_sized */
    int64_t step;
    fornax_value *indices;
} fornax_index;

static inline fornax_index fornax_index_make(int kind, unsigned given, fornax_dim start, fornax_dim stop, int64_t step)
{
    fornax_index x;

    x.kind = kind;
    x.given = given;
    x.start = start;
    x.stop = stop;
    x.step = step;
    x.indices = NULL;
    return x;
}

#define FORNAX_INDEX_ZERO fornax_dim_of(0)
/* x[i]: the axis goes */
static inline fornax_index fornax_index_at(fornax_dim i) { return fornax_index_make(0, 1, i, FORNAX_INDEX_ZERO, 1); }
/* x[start:stop:step]; where sizes are names, step must be positive and start <= stop <= size hold */
static inline fornax_index fornax_index_range(fornax_dim start, fornax_dim stop, int64_t step)
{
    return fornax_index_make(1, 3, start, stop, step);
}
static inline fornax_index fornax_index_from(fornax_dim start) { return fornax_index_make(1, 1, start, FORNAX_INDEX_ZERO, 1); }
static inline fornax_index fornax_index_to(fornax_dim stop) { return fornax_index_make(1, 2, FORNAX_INDEX_ZERO, stop, 1); }
/* x[:] and x[::step] */
static inline fornax_index fornax_index_all(int64_t step)
{
    return fornax_index_make(1, 0, FORNAX_INDEX_ZERO, FORNAX_INDEX_ZERO, step);
}
/* a range of which you say how many elements it has */
static inline fornax_index fornax_index_sized(fornax_dim start, int64_t step, fornax_dim size)
{
    return fornax_index_make(2, 3, start, size, step);
}
/* x[None] and x[...] */
static inline fornax_index fornax_index_new_axis(void)
{
    return fornax_index_make(3, 0, FORNAX_INDEX_ZERO, FORNAX_INDEX_ZERO, 1);
}
static inline fornax_index fornax_index_rest(void)
{
    return fornax_index_make(4, 0, FORNAX_INDEX_ZERO, FORNAX_INDEX_ZERO, 1);
}
/* x[indices]: the axis becomes those of an integer value */
static inline fornax_index fornax_index_by(fornax_value *indices)
{
    fornax_index x = fornax_index_make(5, 0, FORNAX_INDEX_ZERO, FORNAX_INDEX_ZERO, 1);

    x.indices = indices;
    return x;
}

/* x[items]: one item an axis from the first on; axes without one stay whole. At most one rest. */
FORNAX_API fornax_value *fornax_op_index(fornax_graph *g, fornax_value *x, const fornax_index *items, size_t n);

/* The type of a value (all zero for NULL), what it is called (a hint, "" if nothing) and the op that
 * makes it (NULL: an argument of a block). */
FORNAX_API fornax_type fornax_value_type(const fornax_value *v);
FORNAX_API const char *fornax_value_name(const fornax_value *v);
FORNAX_API fornax_op *fornax_value_op(const fornax_value *v);
/* Calls it by another name, in text and faults. */
FORNAX_API fornax_value *fornax_value_set_name(fornax_graph *g, fornax_value *v, const char *name);

/* ---- Control flow ------------------------------------------------------------------------ */

/* Begins a block whose arguments have these types, where ops go until its end. It sees all values
 * made before the op that will own it. Blocks nest; each is owned once. */
FORNAX_API fornax_block *fornax_block_new(fornax_graph *g, const fornax_type *types, size_t n);
FORNAX_API fornax_value *fornax_block_argument(fornax_block *b, size_t i);   /* NULL past the last */
/* Ends the block: what it gives to its owner. Ops go on where they went before it. */
FORNAX_API void fornax_block_end(fornax_block *b, fornax_value *const *values, size_t n);

/* The results of 'then' where the bool scalar p is true, else those of 'otherwise': as many, of the
 * same types. The blocks have no arguments. */
FORNAX_API fornax_op *fornax_op_cond(fornax_graph *g, fornax_value *p, fornax_block *then, fornax_block *otherwise);
/* Values that 'next' makes of the last ones while 'test' yields true of them. Both blocks take
 * arguments of the values' types; test yields one bool scalar and has no effects. No buffers. */
FORNAX_API fornax_op *fornax_op_while(fornax_graph *g, fornax_value *const *values, size_t n, fornax_block *test,
                                      fornax_block *next);
/* The results of a complete subgraph of the module for these inputs. Its named sizes take what the
 * inputs have. */
FORNAX_API fornax_op *fornax_op_call(fornax_graph *g, fornax_graph *callee, fornax_value *const *in, size_t n);

/* ---- Compiling and running ----------------------------------------------------------------- */

/* A graph as machine code: its plan and its kernels. Doesn't change; any number of programs and threads may use it. */
typedef struct fornax_compiled fornax_compiled;
/* A compiled graph with its weights. One thread at a time; several of one fornax_compiled share its code. */
typedef struct fornax_program fornax_program;

typedef struct fornax_compile_options {
    size_t size;                /* sizeof(fornax_compile_options) */
    const char *target;         /* "host" or NULL: this machine; else one that fornax_target_name knows: to be saved or printed, or
                                 * run if this machine runs its code too. GPUs' kernels can only be printed. */
    int interpret;              /* 1: kernels are interpreted, slowly and without LLVM; they compute the same bits */
    /* For finding faults, at the cost of time; the results are the same. Code made with one of these isn't kept in the cache folder. */
    int check_nan;              /* 1: a NaN among an op's results ends a run (FORNAX_EARG, with the op and the place) if none of its operands has
                                 * one. Nothing is fused then, so it is that op's */
    int check_unset;            /* 1: a kernel's read of an element that nobody wrote ends a run likewise, as does such an element of a result.
                                 * Kernels are interpreted then; one of a package counts as writing all of its results */
    int log_launches;           /* 1: each launch of a run is a line of the context's log, as information: op, what it reads and writes, time */
    const char *const *print;   /* [n_print] names of values, at most 64: each is kept and goes to the log when it is there, as op print does.
                                 * FORNAX_ENOTFOUND: no value has that name */
    size_t n_print;
    const char *dump_dir;       /* a folder, made if it isn't there, for the text of each stage: 1-graph.txt, 2-plan.txt (what is kept and why, the
                                 * launches), 3-kir.txt, 4-math.txt (functions as arithmetic), 5-wide.txt (vectors), 6-llvm.txt, 7-asm.txt */
} fornax_compile_options;

/* Needs no weights and keeps nothing of g, which must be complete. FORNAX_EUNSUP: an op that has no form in the loop IR, or
 * no LLVM on this machine: libfornax-llvm is looked for beside this library and where the system looks, or is the file that the
 * environment's FORNAX_LLVM names. opt may be NULL. */
FORNAX_API fornax_status fornax_graph_compile(fornax_compiled **out, const fornax_graph *g, const fornax_compile_options *opt,
                                              fornax_error *err);
/* Returns when the graph is planned (it may be closed then); code is made by a thread of its own. What fails there is told by
 * fornax_compiled_wait and by whatever needs the code. */
FORNAX_API fornax_status fornax_graph_compile_async(fornax_compiled **out, const fornax_graph *g,
                                                    const fornax_compile_options *opt, fornax_error *err);
/* Asks the context's cache folder (fornax_context_options) first, and leaves there what it compiles. */
FORNAX_API fornax_status fornax_graph_compile_reusing(fornax_compiled **out, const fornax_graph *g,
                                                      const fornax_compile_options *opt, fornax_error *err);
FORNAX_API fornax_status fornax_compiled_wait(fornax_compiled *c, fornax_error *err);
/* Programs must be closed before. Waits. */
FORNAX_API void fornax_compiled_close(fornax_compiled *c);
/* To a file, which appears whole or not at all; and from one, for which no LLVM is needed. FORNAX_EFORMAT: damaged, of another
 * version, or for another machine. */
FORNAX_API fornax_status fornax_compiled_save(fornax_compiled *c, const char *path, fornax_error *err);
FORNAX_API fornax_status fornax_compiled_load(fornax_compiled **out, fornax_context *ctx, const char *path, fornax_error *err);
/* What it was compiled to: "kir"; "llvm" and "asm", which are made anew. FORNAX_EUNSUP of a loaded one. */
FORNAX_API fornax_status fornax_compiled_print(fornax_text **out, fornax_compiled *c, const char *form, fornax_error *err);
/* The n-th name of a target; NULL past the last. */
FORNAX_API const char *fornax_target_name(size_t n);

/* Numbers of a program's caller: row-major. */
typedef struct fornax_tensor {
    fornax_dtype dtype;
    int rank;
    int64_t dim[FORNAX_MAX_RANK];
    void *data;
} fornax_tensor;

FORNAX_API fornax_status fornax_program_open(fornax_program **out, fornax_compiled *c, fornax_error *err);
FORNAX_API void fornax_program_close(fornax_program *p);
/* A weight, borrowed until the program is closed. FORNAX_ENOTFOUND: the graph has none of that name; FORNAX_EARG: another type. */
FORNAX_API fornax_status fornax_program_set_weight(fornax_program *p, const char *name, const fornax_tensor *w, fornax_error *err);
/* All weights that aren't set yet from the tensors of those names in a .safetensors or .gguf file, or a folder of a hub. */
FORNAX_API fornax_status fornax_program_load_weights(fornax_program *p, const char *path, fornax_error *err);
/* inputs and outputs are in the order of the graph's. An output whose data is NULL comes in memory of the program, until its next run; else
 * the results go there: give it the room that fornax_program_shapes tells for these inputs. A size that only the run tells (that of
 * nonzero's result, say) is -1 there; an output that has one comes in memory of the program. All threads of the context compute.
 * FORNAX_EARG: an input has another type than the graph, a weight is missing, an index that was given is outside its axis, or a named size
 * would have two values. What ops print goes to the context's log as information, a line each. */
FORNAX_API fornax_status fornax_program_run(fornax_program *p, const fornax_tensor *inputs, size_t n_inputs, fornax_tensor *outputs,
                                            size_t n_outputs, fornax_error *err);
FORNAX_API fornax_status fornax_program_shapes(fornax_program *p, const fornax_tensor *inputs, size_t n_inputs, fornax_tensor *outputs,
                                               size_t n_outputs, fornax_error *err);

/* Faults name the line of these calls, and of those of fornax_ops.h. */
#define fornax_graph_input(g, ...) (fornax_graph_input)(FORNAX_HERE(g), __VA_ARGS__)
#define fornax_graph_weight(g, ...) (fornax_graph_weight)(FORNAX_HERE(g), __VA_ARGS__)
#define fornax_graph_constant(g, ...) (fornax_graph_constant)(FORNAX_HERE(g), __VA_ARGS__)
#define fornax_graph_int(g, ...) (fornax_graph_int)(FORNAX_HERE(g), __VA_ARGS__)
#define fornax_graph_float(g, ...) (fornax_graph_float)(FORNAX_HERE(g), __VA_ARGS__)
#define fornax_graph_seed(g, ...) (fornax_graph_seed)(FORNAX_HERE(g), __VA_ARGS__)
#define fornax_graph_output(g, ...) (fornax_graph_output)(FORNAX_HERE(g), __VA_ARGS__)
#define fornax_graph_insert(g, ...) (fornax_graph_insert)(FORNAX_HERE(g), __VA_ARGS__)
#define fornax_op_make(g, ...) (fornax_op_make)(FORNAX_HERE(g), __VA_ARGS__)
#define fornax_op_reshape(g, ...) (fornax_op_reshape)(FORNAX_HERE(g), __VA_ARGS__)
#define fornax_op_index(g, ...) (fornax_op_index)(FORNAX_HERE(g), __VA_ARGS__)
#define fornax_block_new(g, ...) (fornax_block_new)(FORNAX_HERE(g), __VA_ARGS__)
#define fornax_op_cond(g, ...) (fornax_op_cond)(FORNAX_HERE(g), __VA_ARGS__)
#define fornax_op_while(g, ...) (fornax_op_while)(FORNAX_HERE(g), __VA_ARGS__)
#define fornax_op_call(g, ...) (fornax_op_call)(FORNAX_HERE(g), __VA_ARGS__)

#ifdef __cplusplus
}
#endif

#include "fornax_ops.h"

#endif
