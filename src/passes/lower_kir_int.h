/* lower_kir_int.h - between the files that lower graphs to the loop IR. */
#ifndef FX_LOWER_KIR_INT_H
#define FX_LOWER_KIR_INT_H

#include "kir/kir_eval.h"
#include "passes/lower_kir.h"

typedef struct fx_lower fx_lower;
typedef struct fx_lk fx_lk;

/* For people: the ops that the kernel of a launch computes. */
typedef struct fx_launch_ops {
    size_t launch;
    const char *ops;
} fx_launch_ops;

/* A pattern that was found (lower_fuse.def). Inner values are computed where they are read; results are kept, and stored by
 * one kernel that is launched at 'at'. */
#define FX_FUSE_RESULTS 4
#define FX_FUSE_INNER 32
typedef struct fx_fused fx_fused;
struct fx_fused {
    const char *kept;            /* why its results are */
    int n_results, n_inner;
    fx_value *result[FX_FUSE_RESULTS], *inner[FX_FUSE_INNER];
    fx_op *at;
    fx_op *part[FX_FUSE_RESULTS];        /* what 'make' works on, as its rule has it */
    void (*make)(fx_lk *c, const fx_fused *f, const int32_t *tensor);       /* NULL: results are lowered as others are */
    fx_value *beside;            /* one more that is kept, by a kernel of its own; NULL: none */
    const char *why_beside;
};

#define FX_LOWER_STATE 64        /* values of a loop */
struct fx_lower {
    const fx_graph *g;
    int lanes;                   /* of f32 in a vector of the machine */
    bool unfused;
    const char *const *print;
    size_t n_print;
    uint64_t print_found;        /* a bit for each of 'print' */
    fx_buf *explain;
    fx_map reasons;              /* if explained: value to why it is kept, a text */
    FX_VEC(fx_launch_ops) made_of;
    fx_arena *arena;             /* of the plan */
    const fx_mem *mem;
    fx_error *err;
    fx_kir_module *m;
    FX_VEC(fx_dim) dims;         /* of sizes, one for one */
    FX_VEC(fx_plan_size) sizes;
    FX_VEC(fx_size_step) steps;
    FX_VEC(fx_str) symbols;
    FX_VEC(bool) known;          /* of symbols: an input or a launch so far gives it its value */
    FX_VEC(fx_ktensor) tensors;
    FX_VEC(fx_klaunch) launches;
    FX_VEC(fx_kir_kernel *) kernels;
    FX_VEC(int32_t) inputs, outputs;
    FX_VEC(fx_str) libraries;
    FX_VEC(fx_kcustom) customs;
    fx_map kept;                 /* value to its tensor + 1, or 0: to be kept */
    fx_map inner, results;       /* value to the fx_fused that it belongs to */
    fx_dim_rename rename;        /* in a subgraph: what its names stand for; NULL: they are the plan's */
    void *rename_user;
    int in_call;                 /* how deep: a callee's inputs and outputs aren't the plan's */
    int calls;                   /* lowered so far */
    int32_t aside[FX_LOWER_STATE];           /* lower_flow.c's, for the loop at hand */
    fx_map texts;                /* text of a kernel to its number */
    bool no_memory;
};


/* What was computed at an index, in this kernel; part: 0 the value, others what its op keeps for
 * a row. */
typedef struct fx_lk_memo {
    const fx_value *value;
    int part, n;
    fx_kop *index[FX_MAX_RANK], *mask, *at;
} fx_lk_memo;

/* A place where code is made. */
typedef struct fx_lk_scope {
    fx_kir_block *at;
    fx_kop *before;
} fx_lk_scope;

/* A mask that was made of another to keep an index inside its axis. */
typedef struct fx_lk_guarded {
    fx_kop *mask, *was, *of;
} fx_lk_guarded;

/* A kernel being made. */
struct fx_lk {
    fx_lower *l;
    fx_kir_module *m;
    fx_kir_kernel *k;
    FX_VEC(int32_t) args, tensors;           /* sizes of ARGs, tensors of BUFFERs */
    FX_VEC(fx_kop *) arg_ops, buffer_ops;
    FX_VEC(fx_lk_memo) memo;
    fx_kop *mask;                /* where loads are allowed; NULL: everywhere */
    FX_VEC(fx_lk_guarded) guards;
    bool flat;                   /* all tensors are one row of flat_size, or one element */
    fx_dim flat_size;
};

/* ---- lower_kir.c ------------------------------------------------------------------------------------ */

fx_status fx_lower_unsupported(fx_lower *l, const fx_op *op, const char *what);
/* Which values of a block and those inside are kept; then its ops. */
fx_status fx_lower_choose(fx_lower *l, const fx_block *b);
fx_status fx_lower_block(fx_lower *l, const fx_block *b);
/* A tensor of v's type and name; and: v is kept in tensor - 1. */
fx_status fx_lower_tensor(fx_lower *l, const fx_value *v, fx_ktensor_kind kind, int32_t index, int32_t *out);
bool fx_lower_keep(fx_lower *l, const fx_value *v, uint64_t tensor);
/* A tensor of this type; of op, for messages. */
fx_status fx_lower_scratch(fx_lower *l, const fx_op *op, const fx_type *t, fx_str name, int32_t *out);
int32_t fx_lower_size_number(fx_lower *l, fx_dim d);
/* If d is a name, it has a value from now on. */
void fx_lower_know(fx_lower *l, fx_dim d);
/* A launch that copies a tensor of type t; from -1: zeroes. */
fx_status fx_lower_copy(fx_lower *l, const fx_type *t, int32_t from, int32_t to, const fx_op *op);
fx_kop *fx_lower_zero(fx_lk *c, fx_ktype t);
/* A kernel, whose body is to be filled if c->k isn't NULL; its launch. */
void fx_lk_begin(fx_lower *l, fx_lk *c);
fx_status fx_lk_end(fx_lk *c, const fx_op *op);
/* lower_explain.c: what is noted and told if somebody asks; false: no memory. */
bool fx_lower_note_reason(fx_lower *l, const fx_value *v, const char *why);
bool fx_lower_note_ops(const fx_lk *c, const fx_op *op);                 /* of the launch just made */
void fx_lower_explain_values(fx_lower *l, const fx_block *b, int depth);
void fx_lower_explain_launches(fx_lower *l);
/* lower_flow.c: ops that are more than a launch, or none; NULL: not one of those. */
typedef fx_status (*fx_flow_fn)(fx_lower *l, fx_op *op);
fx_flow_fn fx_flow_of(const fx_op *op);
/* A tensor for v, which is kept there; and: where v is kept, for op. */
fx_status fx_lower_own_tensor(fx_lower *l, const fx_value *v, int32_t *tensor);
fx_status fx_lower_kept_in(fx_lower *l, const fx_op *op, const fx_value *v, int32_t *tensor);
/* A launch that is no kernel, to be filled: l->launches.at[*at]. */
fx_status fx_lower_launch(fx_lower *l, fx_klaunch_kind kind, const fx_op *op, size_t *at);
/* v goes to the log behind this text; NULL: only the text. */
fx_status fx_lower_print(fx_lower *l, const fx_op *op, const fx_value *v, fx_str text);
bool fx_lower_printed(fx_lower *l, const fx_value *v);   /* by the options */
/* lower_sized.c: ops whose values tell how large the result is; and what an op that is computed where it is read tells of sizes. */
fx_status fx_lower_nonzero(fx_lower *l, fx_op *op);
fx_status fx_lower_nms(fx_lower *l, fx_op *op);
fx_status fx_lower_repeats(fx_lower *l, fx_op *op);
fx_status fx_lower_sizes(fx_lower *l, fx_op *op);

/* The tensor that v is kept in; -1: it is computed where it is read. */
int32_t fx_lower_kept(const fx_lower *l, const fx_value *v);
bool fx_lower_is_map(fx_opcode code);        /* has a row in lower_at.c's table */
bool fx_lower_by_element(fx_opcode code);    /* that, or a cast, choice or all-reduce */
fx_dim fx_lower_rows(fx_lower *l, const fx_type *t, int rank);       /* the product of the first axes */
bool fx_lower_moves_only(fx_opcode code);    /* a view, a cast and the like: never kept for being read again */
bool fx_lower_same_shape(const fx_type *a, const fx_type *b, bool last);     /* last: a may have 1 where b has a last axis */
bool fx_lower_is_rowwise(const fx_op *op);   /* a reduction along the last axis, or an op that keeps rows as they are */
/* Tasks of 'piece' of n; the loop over this task's: its counter, code goes inside. */
fx_kop *fx_lk_task_loop(fx_lk *c, fx_dim n, int64_t piece);
int64_t fx_lower_rows_of_task(const fx_value *v);
/* v itself, which others would load. */
fx_kop *fx_lk_root(fx_lk *c, fx_value *v, fx_kop *const *index);

/* ---- lower_fuse.c ------------------------------------------------------------------------------------ */

/* Finds the patterns of a block and those inside. */
fx_status fx_lower_fuse(fx_lower *l, const fx_block *b);
fx_fused *fx_fused_inner(const fx_lower *l, const fx_value *v);       /* that v is inside of; NULL: none */
fx_fused *fx_fused_result(const fx_lower *l, const fx_value *v);

/* A rule: NULL where it found its pattern at root and filled f, "" where there is none, else why it gave up. */
typedef const char *(*fx_fuse_fn)(fx_lower *l, fx_op *root, fx_fused *f);
#define FX_NO_PATTERN ""
#define FUSE(name, text) const char *fx_fuse_##name(fx_lower *l, fx_op *root, fx_fused *f);
#include "passes/lower_fuse.def"

bool fx_fuse_inner(fx_fused *f, fx_value *v);        /* one more; false: too many */
bool fx_fuse_result(fx_fused *f, fx_value *v);
/* Sets f->at: where everything that its results are computed from is there, and nobody has read them yet. NULL, or why there is no such place. */
const char *fx_fuse_place(fx_fused *f);
/* The op 'code' that v is, or is computed from element by element by values with one reader, all of v's shape; these go to f. NULL: none, or
 * *why: one that doesn't do. */
fx_op *fx_fuse_chain(fx_fused *f, fx_value *v, fx_opcode code, const char **why);
/* f's results, each of one shape or with one element a row, by a loop over rows. */
void fx_fuse_make_rows(fx_lk *c, const fx_fused *f, const int32_t *tensor);
/* lower_attention.c: heads of up to so many columns. */
#define FX_ATTENTION_WIDTH 128
void fx_fuse_make_attention(fx_lk *c, const fx_fused *f, const int32_t *tensor);

/* lower_tile.c: the products of matrices that v is computed from element by element, one, or two that may be summed together; their
 * number, 0 if they aren't for tiles. */
int fx_lower_products(fx_lower *l, const fx_value *v, fx_op *product[2]);
/* Why two products can't be summed in one loop; NULL: they can. */
const char *fx_lower_apart(const fx_op *a, const fx_op *b);
void fx_lower_tile_kernel(fx_lk *c, fx_value *v, fx_op *const *product, int n, int32_t tensor, int lanes);

/* The same for f's results, each made of the product f->part[i] of one and the same first operand. */
void fx_fuse_make_merged(fx_lk *c, const fx_fused *f, const int32_t *tensor);

/* Loops and branches: what is made until fx_lk_end_loop goes into them. */
typedef struct fx_lk_loop {
    fx_lk_scope outside;
    fx_kop *i;                   /* the counter */
} fx_lk_loop;
fx_lk_loop fx_lk_in_order(fx_lk *c, fx_kop *n);
fx_lk_loop fx_lk_together(fx_lk *c, fx_kop *from, fx_kop *n);
fx_lk_loop fx_lk_when(fx_lk *c, fx_kop *cond);
void fx_lk_end_loop(fx_lk *c, const fx_lk_loop *l);
/* An element of an array of two axes, or several side by side. */
fx_kop *fx_lk_load2(fx_lk *c, fx_kop *from, fx_kop *i, fx_kop *j, int lanes);
void fx_lk_store2(fx_lk *c, fx_kop *to, fx_kop *x, fx_kop *i, fx_kop *j);

/* to[r, at + j] (+)= sum over i below n of x[r, from + i] * y[i, j] for rows r and columns j, in order of i; arrays have room for whole tiles. */
typedef struct fx_lk_factors {
    fx_kop *x, *y, *to, *from, *n, *at, *rows;
    int64_t most_rows, cols;     /* of the arrays; in whole tiles */
    int lanes, tile, vectors;    /* tile, vectors: rows and vectors of columns whose sums are in registers */
    fx_dtype t;
    bool more;                   /* added to what 'to' holds */
} fx_lk_factors;
void fx_lk_multiply(fx_lk *c, const fx_lk_factors *f);
int fx_lk_tile_rows(int lanes, fx_dim rows);
int fx_lk_tile_vectors(int lanes, int tile, int64_t cols);

/* to[i, j] = v[.., row + i, col + j], as t; v's outer axes are those of 'index' (of so many axes), or 1. */
typedef struct fx_lk_piece {
    fx_value *v;
    fx_kop *const *index, *row, *col, *rows, *cols;
    int rank;
    fx_dtype t;
} fx_lk_piece;
void fx_lk_take(fx_lk *c, const fx_lk_piece *p, fx_kop *to);
/* Whether elements side by side along v's last axis lie apart in what it is a view of. */
bool fx_lower_is_turned(const fx_lower *l, const fx_value *v);

/* What of v lies at index (v's rank entries of i64). Like all makers: NULL after a fault, which the module keeps. */
fx_kop *fx_lk_value(fx_lk *c, fx_value *v, fx_kop *const *index);
/* Operand i at an index of a result that it broadcasts to. */
fx_kop *fx_lk_operand(fx_lk *c, const fx_op *op, int i, const fx_type *result, fx_kop *const *index);
fx_kop *fx_lk_size(fx_lk *c, fx_dim d);
/* A buffer of these axes over a tensor. */
fx_kop *fx_lk_buffer_as(fx_lk *c, int32_t tensor, fx_kir_access access, const fx_dim *dim, int rank);
/* A buffer to read a tensor of type t by, and an element of it. */
fx_kop *fx_lk_buffer(fx_lk *c, int32_t tensor, const fx_type *t);
fx_kop *fx_lk_load(fx_lk *c, int32_t tensor, const fx_type *t, fx_kop *const *index);
void *fx_lk_fail(fx_lk *c, const fx_op *op, const char *what);
fx_kop *fx_lk_const(fx_lk *c, const fx_kop *like, double x);
/* The dtype that an op on t computes in. */
static inline fx_dtype fx_lk_wide(fx_dtype t) { return fx_dtype_is_float(t) && t != FX_F64 ? FX_F32 : t; }

/* What code is written with, in short. */
static inline fx_kop *op1(fx_lk *c, fx_kir_code code, fx_kop *a) { return fx_kir_op1(c->m, code, a); }
static inline fx_kop *op2(fx_lk *c, fx_kir_code code, fx_kop *a, fx_kop *b) { return fx_kir_op2(c->m, code, a, b); }
static inline fx_kop *select3(fx_lk *c, fx_kop *on, fx_kop *a, fx_kop *b) { return fx_kir_op3(c->m, FX_KIR_SELECT, on, a, b); }

/* Arithmetic on indices (not negative where divided); constants are folded. */
fx_kop *fx_lk_num(fx_lk *c, int64_t n);
fx_kop *fx_lk_add(fx_lk *c, fx_kop *a, fx_kop *b);
fx_kop *fx_lk_sub(fx_lk *c, fx_kop *a, fx_kop *b);
fx_kop *fx_lk_mul(fx_lk *c, fx_kop *a, fx_kop *b);
fx_kop *fx_lk_div(fx_lk *c, fx_kop *a, fx_kop *b);
fx_kop *fx_lk_rem(fx_lk *c, fx_kop *a, fx_kop *b);
fx_kop *fx_lk_ceil_div(fx_lk *c, fx_kop *n, int64_t by);
/* The index of the linear place 'at' of a tensor; and back. */
void fx_lk_unravel(fx_lk *c, fx_kop *at, const fx_dim *dim, int rank, fx_kop **index);
fx_kop *fx_lk_ravel(fx_lk *c, fx_kop *const *index, const fx_dim *dim, int rank);

/* Loads are made under 'on' too, until c->mask is put back to what this returns. */
fx_kop *fx_lk_mask(fx_lk *c, fx_kop *on);
/* The same, where 'on' only keeps the index 'of' inside its axis (NULL: none): what doesn't depend on 'of' needs no mask. */
fx_kop *fx_lk_guard(fx_lk *c, fx_kop *on, fx_kop *of);
/* The mask that a load at these indices needs. */
fx_kop *fx_lk_mask_for(const fx_lk *c, fx_kop *const *index, int n);

/* Looked up and kept by (value, part, index); what isn't visible from here isn't found. */
fx_kop *fx_lk_recall(fx_lk *c, const fx_value *v, int part, fx_kop *const *index, int n);
fx_kop *fx_lk_remember(fx_lk *c, const fx_value *v, int part, fx_kop *const *index, int n, fx_kop *at);
/* Goes on in front of the outermost loop that none of these indices depends on: what is made there is made
 * once for all its turns. own: the indices to use there. */
fx_lk_scope fx_lk_hoist(fx_lk *c, fx_kop *const *index, int n, fx_kop **own);
void fx_lk_leave(fx_lk *c, fx_lk_scope s);

/* A reduction being made: between begin and end code goes into it, once for each k below n. end: what is combined (b: the
 * second factor of FX_KIR_DOT, else NULL); the result. */
typedef struct fx_lk_fold {
    fx_kop *loop, *k;            /* the reduction; its counter */
    fx_lk_scope outside;
} fx_lk_fold;
fx_lk_fold fx_lk_fold_begin(fx_lk *c, fx_kir_combine kind, int lanes, fx_dtype t, fx_kop *n);
fx_kop *fx_lk_fold_end(fx_lk *c, const fx_lk_fold *f, fx_kop *a, fx_kop *b);
/* lo <= at < hi */
fx_kop *fx_lk_within(fx_lk *c, fx_kop *at, fx_kop *lo, fx_kop *hi);

/* A number of a tensor as index in an axis of n; negative ones count from its end. */
fx_kop *fx_lk_from_end(fx_lk *c, fx_kop *at, fx_dim n);

/* lower_own.c: makes the kernel of an op whose results are kept in these tensors; NULL: it has none of its own. */
typedef void (*fx_own_fn)(fx_lk *c, fx_op *op, const int32_t *result);
fx_own_fn fx_own_of(fx_opcode code);
/* One more tensor like v, for the launch being made; -1: no memory. */
int32_t fx_lower_spare(fx_lower *l, const fx_value *v);

/* How an op's result is computed at an index; NULL: it has a kernel of its own, or none. */
typedef fx_kop *(*fx_at_fn)(fx_lk *c, fx_op *op, int result, fx_kop *const *index);
fx_at_fn fx_at_of(const fx_op *op);
#define AT_FN(name) fx_kop *name(fx_lk *c, fx_op *op, int result, fx_kop *const *index)
AT_FN(fx_at_map);
AT_FN(fx_at_cast);
AT_FN(fx_at_where);
#define AT(code, fn) AT_FN(fn);
#include "passes/lower_at.def"

#endif
