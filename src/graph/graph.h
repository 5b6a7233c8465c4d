/* graph.h - what a model computes: ops on typed values, in blocks, in regions.
 *
 * module -> graphs -> region -> blocks -> ops -> values.  A graph owns one region whose
 * entry block is its body; an op may own regions too (cond, while).  Values are results of
 * ops or arguments of blocks, and are used only after they were made, in their block
 * or one inside it.  Effects are ordered by values of dtype FX_CHAIN.  Weights are named
 * constants, bound when a program is made.
 *
 *     fx_module *m = fx_module_new(arena);
 *     fx_graph *g = fx_graph_new(m, FX_STR("step"));
 *     fx_value *x = fx_input(m, "x", fx_type_make(m, FX_F32, 2, rows, fx_dim_of(64)));
 *     fx_value *y = FX_OP1(m, SILU, FX_IN(x), FX_NOATTR);
 *     FX_OP0(m, OUTPUT, FX_IN(y), FX_NOATTR);
 *     st = fx_module_check(m, err);
 *
 * Building: ops go to an insertion point, the end of the current block unless set.
 * Each is verified as it is made; the first fault is kept in the module ("file:line: op:
 * what, and the shapes"), every later make returns NULL, and fx_module_status tells.
 * So a builder needs no check until its end.  A block may be built before the op that
 * will own it: its terminator is held against its owner once it has one.
 *
 * Everything lives in the arena.  Threads: one at a time a module.
 * Invariant (fx_module_check): uses and definitions agree, definitions come first, types
 * are what the shape rules give, every block ends in a terminator, chains don't fork. */
#ifndef FX_GRAPH_H
#define FX_GRAPH_H

#include "base/status.h"
#include "graph/graph_dim.h"
#include "tensor/args.h"
#include "tensor/ops.h"
#include "tensor/tensor.h"

/* ---- Types ------------------------------------------------------------------------- */

/* Activations quantized by the op 'quant': no dtype of a file, so it lies past them. */
#define FX_Q8_ACT ((fx_dtype)FX_DTYPE_COUNT)
const char *fx_vtype_name(fx_dtype t);                  /* also knows FX_Q8_ACT: "q8" */
bool fx_vtype_of_name(fx_dtype *out, fx_str name);

typedef enum fx_device_kind { FX_DEVICE_CPU } fx_device_kind;

typedef struct fx_type {
    fx_dtype dtype;
    fx_device_kind device;
    bool buffer;                 /* can be written: takes part in effects only */
    int rank;
    fx_dim dim[FX_MAX_RANK];
} fx_type;

typedef struct fx_module fx_module;
bool fx_type_eq(const fx_type *a, const fx_type *b);
void fx_type_print(const fx_type *t, fx_buf *out);      /* f32[rows,576], buffer f32[4] */
static inline fx_type fx_type0(fx_dtype t) { return (fx_type){ .dtype = t, .rank = 0 }; }
static inline fx_type fx_type1(fx_dtype t, fx_dim a) { return (fx_type){ .dtype = t, .rank = 1, .dim = { a } }; }
static inline fx_type fx_type2(fx_dtype t, fx_dim a, fx_dim b)
{
    return (fx_type){ .dtype = t, .rank = 2, .dim = { a, b } };
}
/* The product of the sizes; the statuses of fx_dim_mul. */
fx_status fx_count_elements(fx_arena *a, const fx_type *t, fx_dim *out);
static inline fx_dim fx_type_last(const fx_type *t) { return t->rank ? t->dim[t->rank - 1] : fx_dim_of(1); }

/* ---- Structure ------------------------------------------------------------------------ */

typedef struct fx_value fx_value;
typedef struct fx_op fx_op;
typedef struct fx_block fx_block;
typedef struct fx_region fx_region;
typedef struct fx_graph fx_graph;

/* A parameter of a custom op. */
typedef enum fx_kernel_param_kind { FX_KPARAM_BOOL, FX_KPARAM_INT, FX_KPARAM_STR, FX_KPARAM_DTYPE } fx_kernel_param_kind;
typedef struct fx_kernel_param {
    fx_str name;
    fx_kernel_param_kind kind;
    int64_t i;                   /* BOOL, INT, DTYPE */
    fx_str s;                    /* STR */
} fx_kernel_param;

typedef struct fx_attr {
    fx_attr_key key;
    union {
        int64_t i;               /* INT, DTYPE, BOOL, WORD; a DIM that is a number */
        fx_dim dim;              /* DIM */
        double f;                /* FLOAT */
        fx_str s;                /* STR */
        const fx_type *type;     /* TYPE */
        struct {
            const void *at;      /* DATA: n elements, row-major */
            int64_t n;
            fx_dtype dtype;
        } v;
        struct {
            const fx_dim *at;    /* DIMS */
            int64_t n;
        } dims;
        struct {
            const int64_t *at;   /* INTS */
            int64_t n;
        } ints;
        struct {
            const fx_type *at;   /* TYPES */
            int64_t n;
        } types;
        struct {
            const fx_kernel_param *at;  /* PARAMS */
            int64_t n;
        } params;
    } u;
} fx_attr;

typedef struct fx_use fx_use;
struct fx_use {                  /* an operand; NULL value: an optional one left out */
    fx_value *value;
    fx_op *user;
    fx_use *next, **link;        /* list of the value's uses */
};

struct fx_value {
    fx_type type;
    fx_op *def;                  /* NULL: argument of 'block' */
    fx_block *block;
    int index;                   /* among the results or arguments */
    fx_str name;                 /* a hint, may repeat; "" none */
    fx_use *uses;
};

struct fx_op {
    fx_opcode code;
    int n_in, n_out, n_attrs, n_regions;
    fx_use *in;
    fx_value *out;
    fx_attr *attrs;              /* all of its row, in its order */
    fx_region **regions;
    fx_block *block;             /* NULL: taken out */
    fx_op *prev, *next;
    int32_t order;               /* place in the block, when block->ordered */
    const char *file;            /* of who made it */
    int line;
};

struct fx_block {
    fx_region *region;           /* NULL: not owned yet */
    fx_block *next;
    fx_op *first, *last;
    int n_args;
    fx_value *args;
    bool ordered;
};

struct fx_region {
    fx_graph *graph;             /* exactly one of graph and op owns it */
    fx_op *op;
    fx_block *first, *last;
};

struct fx_graph {
    fx_module *module;
    fx_graph *next;
    fx_str name;
    bool subgraph;               /* made to be called */
    fx_region *region;
};

typedef struct fx_library fx_library;
struct fx_library {              /* of kernels: a package's file or a folder of sources */
    fx_str path;
    fx_library *next;
};

typedef struct fx_point {
    fx_block *block;
    fx_op *before;               /* NULL: the end */
} fx_point;

struct fx_module {
    fx_arena *arena;
    fx_graph *first, *last;
    fx_library *libraries;       /* where custom ops are looked for, in this order */
    fx_point at;
    bool failed;
    fx_error err;
};

/* ---- Building --------------------------------------------------------------------------- */

fx_module *fx_module_new(fx_arena *arena);               /* NULL: no memory */
/* The first fault, or FORNAX_OK. */
fx_status fx_module_status(const fx_module *m, fx_error *err);
/* Records a fault unless there is one already; NULL for 'return'. */
void *fx_module_fail(fx_module *m, fx_status st, const char *fmt, ...) FX_PRINTF(3, 4);

/* A graph with an empty body, where the insertion point moves to. */
fx_graph *fx_graph_new(fx_module *m, fx_str name);
fx_graph *fx_graph_find(const fx_module *m, fx_str name);
static inline fx_block *fx_graph_body(const fx_graph *g) { return g->region->first; }
/* The OUTPUT op; NULL before there is one. */
fx_op *fx_graph_output(const fx_graph *g);

/* Adds a path to the module's kernel libraries, unless it is there; false: no memory. */
bool fx_module_add_library(fx_module *m, fx_str path);

/* A block without an owner yet, with these arguments. */
fx_block *fx_block_new(fx_module *m, const fx_type *args, int n_args);
fx_region *fx_region_new(fx_module *m, fx_block *block);
/* Moves the insertion point; returns the old one. before NULL: the end of block. */
fx_point fx_insert_at(fx_module *m, fx_point at);
static inline fx_point fx_before(fx_op *op) { return (fx_point){ op->block, op }; }

typedef struct fx_op_init {
    fx_opcode code;
    fx_value *const *in;         /* NULL entries: optional operands left out */
    int n_in;
    const fx_attr *attrs;        /* those not given take their default */
    int n_attrs;
    fx_region *const *regions;
    int n_regions;
    fx_str name;                 /* hint for its first result */
    const char *file;
    int line;
} fx_op_init;
fx_op *fx_op_make(fx_module *m, const fx_op_init *init);

/* FX_OP(m, LINEAR, FX_IN(x, w), FX_ATTRS(FX_AF(SCALE, 2))): the op;
 * FX_OP1: its first result;  FX_OP0: for ops without.  NULL operands: see FX_IN. */
#define FX_IN(...) .in = (fx_value *const[]){ __VA_ARGS__ }, \
    .n_in = (int)(sizeof((fx_value *const[]){ __VA_ARGS__ }) / sizeof(fx_value *))
#define FX_NOIN .n_in = 0
#define FX_ATTRS(...) .attrs = (const fx_attr[]){ __VA_ARGS__ }, \
    .n_attrs = (int)(sizeof((const fx_attr[]){ __VA_ARGS__ }) / sizeof(fx_attr))
#define FX_NOATTR .n_attrs = 0
#define FX_AI(k, x) { .key = FX_A_##k, .u.dim = { (x), NULL } }       /* also a DIM: i is its first member */
#define FX_AD(k, x) { .key = FX_A_##k, .u.dim = (x) }
#define FX_ADS(k, p, len) { .key = FX_A_##k, .u.dims = { (p), (len) } }
#define FX_AIS(k, p, len) { .key = FX_A_##k, .u.ints = { (p), (len) } }
#define FX_AF(k, x) { .key = FX_A_##k, .u.f = (x) }
#define FX_AS(k, x) { .key = FX_A_##k, .u.s = (x) }
#define FX_AT(k, x) { .key = FX_A_##k, .u.type = (x) }
#define FX_AV(k, p, len) { .key = FX_A_##k, .u.v = { (p), (len), FX_F32 } }
#define FX_AVT(k, t, p, len) { .key = FX_A_##k, .u.v = { (p), (len), (t) } }
#define FX_OP(m, c, ...) \
    fx_op_make((m), &(fx_op_init){ .code = FX_OP_##c, __VA_ARGS__, .file = __FILE__, .line = __LINE__ })
#define FX_OP1(m, c, ...) fx_op_result(FX_OP(m, c, __VA_ARGS__))
#define FX_OP0(m, c, ...) ((void)FX_OP(m, c, __VA_ARGS__))
static inline fx_value *fx_op_result(fx_op *op) { return op ? &op->out[0] : NULL; }

/* ---- Reading ------------------------------------------------------------------------------- */

const fx_attr *fx_op_attr(const fx_op *op, fx_attr_key key);       /* asserts that the op has it */
static inline int64_t fx_op_i(const fx_op *op, fx_attr_key key) { return fx_op_attr(op, key)->u.i; }
static inline double fx_op_f(const fx_op *op, fx_attr_key key) { return fx_op_attr(op, key)->u.f; }
static inline fx_dim fx_op_dim(const fx_op *op, fx_attr_key key) { return fx_op_attr(op, key)->u.dim; }
static inline bool fx_op_has(const fx_op *op, fx_attr_key key) { return fx_opcode_has(op->code, key); }
/* Element i of an INTS attribute, 'dflt' where it is shorter. */
int64_t fx_op_int_at(const fx_op *op, fx_attr_key key, int i, int64_t dflt);
/* The op's axis attribute, counted from the front. */
int fx_op_axis(const fx_op *op, fx_attr_key key, int rank);
/* Operand i; NULL if left out. */
static inline fx_value *fx_op_in(const fx_op *op, int i) { return i < op->n_in ? op->in[i].value : NULL; }
/* The op with this code that makes operand i, or NULL. */
fx_op *fx_arg_of(const fx_op *op, int i, fx_opcode code);
fx_op *fx_def_of(const fx_value *v, fx_opcode code);
int fx_value_uses(const fx_value *v);                              /* how many */
static inline bool fx_single_use(const fx_value *v) { return v->uses && !v->uses->next; }
/* Whether a comes before b; both in one block. */
bool fx_op_before(fx_op *a, fx_op *b);
/* A weight, a constant, or made of nothing but such by cast, concat, slice, rows, transpose or reshape. */
bool fx_value_is_const(const fx_value *v);
/* Whether a slice takes columns [start, start + length), both numbers, of a last axis that is a number. */
bool fx_slice_is_columns(const fx_op *op);
/* Whether a gather takes f32 rows by i32 numbers. */
bool fx_gather_is_rows(const fx_op *op);
/* "blk.0.attn_q", or the opcode where there is no name. */
fx_str fx_op_label(const fx_op *op);

/* ---- Changing ------------------------------------------------------------------------------ */

/* All users of 'was' use 'now' instead. Types must be equal. */
void fx_value_replace(fx_value *was, fx_value *now);
void fx_op_set_in(fx_op *op, int i, fx_value *v);
/* Takes an op without users out of its block (and its regions with it). */
void fx_op_erase(fx_op *op);
/* Moves what v is made of (see fx_value_is_const) in front of 'op' where it isn't already. */
void fx_value_hoist(fx_value *v, fx_op *op);

/* ---- Checks and text ------------------------------------------------------------------------ */

/* Sets out[] types from operands and attributes, and checks them; records faults. */
bool fx_shape_infer(fx_module *m, fx_op *op);
/* The block's terminator against its owner (if there is one already). */
bool fx_terminator_check(fx_module *m, const fx_block *b);
fx_status fx_module_check(const fx_module *m, fx_error *err);

/* Text that parses back to the same module. */
void fx_module_print(const fx_module *m, fx_buf *out);
void fx_graph_print(const fx_graph *g, fx_buf *out);
/* Reads what the printers wrote; text without "graph" lines is one graph "main".
 * Faults as base/diag.h has it. 'name' is the file's, for them. */
fx_status fx_module_parse(fx_module **out, fx_arena *arena, const char *name, fx_str text, fx_error *err);

#endif
