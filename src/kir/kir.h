/* kir.h - the loop IR: what graphs and the kernel language become before machine code.
 *
 * module -> kernels -> blocks -> ops.  A kernel is one function over a grid of tasks: its 'grid'
 * block yields how many there are, its 'body' does one.  An op is its own result (at most one); a
 * block's arguments are ops too.  Values are made once, before they are used, in the block
 * or one around it; what changes is in locals and memory.  docs/kir.md defines every op: nothing is
 * undefined, and all executions give the same bits.
 *
 *     fx_kir_module *m = fx_kir_module_new(arena);
 *     fx_kir_kernel *k = fx_kir_kernel_new(m, FX_STR("double"));
 *     fx_kop *n = fx_kir_size(k, "n"), *x = fx_kir_buffer(k, &(fx_kir_buf){ ... });
 *     fx_kir_at(m, k->grid);  fx_kir_yield(m, FX_KIN(n));
 *     fx_kir_at(m, k->body);  v = fx_kir_load(m, x, FX_KIN(k->task)); ...
 *     st = fx_kir_check(k, err);
 *
 * Building: ops go to the end of the current block, or in front of an op of it.  Makers infer the result's type; a fault (types
 * that don't fit, no memory) is kept in the module, later makers return NULL, fx_kir_status
 * tells.  The verifier holds a finished kernel to everything else.
 *
 * Everything lives in the arena.  Threads: one at a time a module. */
#ifndef FX_KIR_H
#define FX_KIR_H

#include "base/status.h"
#include "base/str.h"
#include "tensor/dtype.h"

enum {
    FX_KOPF_F = 1, FX_KOPF_I = 2, FX_KOPF_B = 4,
    FX_KOPF_ANY = 7,
    FX_KOPF_COMMUTES = 8,
    FX_KOPF_EFFECT = 16,
    FX_KOPF_REGION = 32,
    FX_KOPF_END = 64,
    FX_KOPF_MATH = 128           /* kir_math.c replaces it */
};

typedef enum fx_kir_code {
#define KOP(code, text, operands, form, flags, doc) FX_KIR_##code,
#include "kir/kir_ops.def"
    FX_KIR_COUNT
} fx_kir_code;

typedef enum fx_kir_form {
    FX_KFORM_NONE, FX_KFORM_CONST, FX_KFORM_SAME, FX_KFORM_COMPARE, FX_KFORM_SELECT, FX_KFORM_CONVERT,
    FX_KFORM_BITCAST, FX_KFORM_TYPED
} fx_kir_form;

typedef struct fx_kir_row {
    const char *text;
    int operands;
    fx_kir_form form;
    int flags;
    const char *doc;
} fx_kir_row;
extern const fx_kir_row fx_kir_rows[FX_KIR_COUNT];

/* ---- Types --------------------------------------------------------------------------------- */

/* A plain dtype (bool, integers, floats) in so many lanes: 1, 2, 4, ... 64.  Arithmetic is on f32, f64,
 * integers and bool; narrower floats are loaded, converted and stored. */
#define FX_KIR_MAX_LANES 64
typedef struct fx_ktype {
    fx_dtype t;                  /* FX_CHAIN: no value */
    uint8_t lanes;
} fx_ktype;
#define FX_KVOID ((fx_ktype){ FX_CHAIN, 0 })
static inline fx_ktype fx_ktype_of(fx_dtype t, int lanes) { return (fx_ktype){ t, (uint8_t)lanes }; }
static inline bool fx_ktype_eq(fx_ktype a, fx_ktype b) { return a.t == b.t && a.lanes == b.lanes; }
void fx_ktype_print(fx_ktype t, fx_buf *out);            /* f32, i64x8 */

/* ---- Structure ------------------------------------------------------------------------------ */

typedef struct fx_kop fx_kop;
typedef struct fx_kir_block fx_kir_block;
typedef struct fx_kir_kernel fx_kir_kernel;
typedef struct fx_kir_module fx_kir_module;

#define FX_KIR_MAX_RANK 8
#define FX_KIR_MAX_ARRAYS (1 << 18)      /* bytes of all arrays of a kernel */
typedef enum fx_kir_access { FX_KIR_IN = 1, FX_KIR_OUT = 2, FX_KIR_INOUT = 3 } fx_kir_access;
typedef enum fx_kir_space { FX_KIR_GLOBAL, FX_KIR_SHARED, FX_KIR_PRIVATE } fx_kir_space;
typedef enum fx_kir_combine {
    FX_KIR_SUM, FX_KIR_PROD, FX_KIR_LEAST, FX_KIR_GREATEST, FX_KIR_ALL, FX_KIR_ANY,
    FX_KIR_DOT,                  /* two values are yielded: acc = fma(a, b, acc) */
    FX_KIR_ARGLEAST, FX_KIR_ARGGREATEST,   /* i64: the first i of the least; a NaN is less (greater) than all */
    FX_KIR_COMBINES
} fx_kir_combine;
const char *fx_kir_combine_name(fx_kir_combine c);       /* "sum" ... "argmax" */

/* Of a BUFFER or ALLOC.  Extents are numbers (fx_kir_dim) or sizes (ARGs of the kernel), strides also scalars of i64 (they may be
 * negative); strides in elements, NULL entries: as extent and stride of the axis after it make it. */
typedef struct fx_kir_buf {
    fx_dtype dtype;              /* of elements */
    int rank;
    fx_kop *extent[FX_KIR_MAX_RANK], *stride[FX_KIR_MAX_RANK];
    fx_kir_access access;        /* of BUFFER */
    fx_kir_space space;
    /* Of an 'out' or 'inout' buffer: the number of another BUFFER that may be the same memory with the same
     * extents and strides, plus 1; 0: shares memory with none. */
    int same_as;
    fx_str name;
} fx_kir_buf;

struct fx_kop {
    fx_kir_code code;
    fx_ktype type;
    int n_in;
    fx_kop **in;
    bool masked;                 /* of LOAD ... SCATTER: the last operand is a mask */
    bool size;                   /* of an ARG of a kernel: 0 to FX_KIR_MAX_SIZE */
    union {
        int64_t i;               /* CONST of integers and bool; EXTRACT, INSERT; ARG: its number */
        double f;                /* CONST of f32, f64 */
        fx_kir_buf *buf;         /* BUFFER, ALLOC */
        const uint8_t *lanes;    /* SHUFFLE: [type.lanes] */
        struct {
            fx_kir_combine kind;
            uint8_t lanes;       /* 1 ... 64 */
        } reduce;
    } u;
    fx_kir_block *block[2];      /* of REGION ops; IF without else: the second is NULL */
    fx_kir_block *parent;        /* where it stands */
    fx_kop *prev, *next;
    int32_t id;                  /* number in the kernel, by fx_kir_number */
    fx_str name;                 /* a hint; "" none */
    uint32_t line;               /* of the source it comes from; 0: unknown */
};

struct fx_kir_block {
    fx_kir_kernel *kernel;
    fx_kop *owner;               /* NULL: grid or body */
    fx_kop *arg;                 /* counter of FOR, FORALL, REDUCE, THREADS; task of a body; else NULL */
    fx_kop *first, *last;
};

struct fx_kir_kernel {
    fx_kir_module *module;
    fx_kir_kernel *next;
    fx_str name;
    FX_VEC(fx_kop *) params;     /* ARGs (sizes and scalars) and BUFFERs, in order of making */
    int n_args, n_buffers;
    fx_kir_block *grid, *body;
    fx_kop *task;                /* body->arg */
    int32_t n_ops;               /* by fx_kir_number */
    fx_str origin;               /* op of the graph, or file of the source; for messages */
};

struct fx_kir_module {
    fx_arena *arena;
    const fx_mem *mem;
    fx_kir_kernel *first, *last;
    fx_kir_block *at;
    fx_kop *before;              /* NULL: the end of 'at' */
    uint32_t line;               /* given to ops as they are made */
    bool failed;
    fx_error err;
};

/* ---- Building (kir.c) --------------------------------------------------------------------------- */

fx_kir_module *fx_kir_module_new(fx_arena *arena);       /* NULL: no memory */
fx_status fx_kir_status(const fx_kir_module *m, fx_error *err);
/* Records a fault unless there is one; NULL for 'return'. */
void *fx_kir_fail(fx_kir_module *m, fx_status st, const char *fmt, ...) FX_PRINTF(3, 4);
fx_kir_kernel *fx_kir_kernel_new(fx_kir_module *m, fx_str name);
fx_kir_kernel *fx_kir_kernel_find(const fx_kir_module *m, fx_str name);
/* Parameters: a size (i64, 0 to FX_KIR_MAX_SIZE), a scalar, a tensor.  'buf' is copied. */
#define FX_KIR_MAX_SIZE ((int64_t)1 << 48)
fx_kop *fx_kir_size(fx_kir_kernel *k, fx_str name);
fx_kop *fx_kir_scalar(fx_kir_kernel *k, fx_str name, fx_dtype t);
fx_kop *fx_kir_buffer(fx_kir_kernel *k, const fx_kir_buf *buf);
/* A number as an extent or stride: a CONST that stands in no block. */
fx_kop *fx_kir_dim(fx_kir_module *m, int64_t n);

/* Builds at the end of b from now on; returns the block that was built in. */
fx_kir_block *fx_kir_at(fx_kir_module *m, fx_kir_block *b);
/* Builds in front of op from now on. */
void fx_kir_before(fx_kir_module *m, fx_kop *op);

#define FX_KIN(...) (fx_kop *const[]){ __VA_ARGS__ }, (int)(sizeof((fx_kop *const[]){ __VA_ARGS__ }) / sizeof(fx_kop *))
fx_kop *fx_kir_op(fx_kir_module *m, fx_kir_code code, fx_kop *const *in, int n);     /* forms SAME, COMPARE, SELECT */
static inline fx_kop *fx_kir_op1(fx_kir_module *m, fx_kir_code c, fx_kop *a) { return fx_kir_op(m, c, &a, 1); }
static inline fx_kop *fx_kir_op2(fx_kir_module *m, fx_kir_code c, fx_kop *a, fx_kop *b)
{
    return fx_kir_op(m, c, (fx_kop *const[]){ a, b }, 2);
}
static inline fx_kop *fx_kir_op3(fx_kir_module *m, fx_kir_code c, fx_kop *a, fx_kop *b, fx_kop *d)
{
    return fx_kir_op(m, c, (fx_kop *const[]){ a, b, d }, 3);
}
fx_kop *fx_kir_int(fx_kir_module *m, fx_ktype t, int64_t x);          /* also bool; u64 by its bits */
fx_kop *fx_kir_float(fx_kir_module *m, fx_ktype t, double x);         /* rounded to t */
static inline fx_kop *fx_kir_index(fx_kir_module *m, int64_t x) { return fx_kir_int(m, fx_ktype_of(FX_I64, 1), x); }
fx_kop *fx_kir_convert(fx_kir_module *m, fx_kop *x, fx_dtype t);      /* x itself if it is that */
fx_kop *fx_kir_bitcast(fx_kir_module *m, fx_kop *x, fx_ktype t);
fx_kop *fx_kir_splat(fx_kir_module *m, fx_kop *x, int lanes);         /* x itself for 1 */
fx_kop *fx_kir_iota(fx_kir_module *m, fx_ktype t);
fx_kop *fx_kir_extract(fx_kir_module *m, fx_kop *x, int lane);
fx_kop *fx_kir_insert(fx_kir_module *m, fx_kop *x, fx_kop *lane_value, int lane);
fx_kop *fx_kir_shuffle(fx_kir_module *m, fx_kop *a, fx_kop *b, const uint8_t *lanes, int n);

/* Memory: indices one an axis; mask NULL: none. */
fx_kop *fx_kir_alloc(fx_kir_module *m, fx_kir_space space, fx_dtype t, const int64_t *extent, int rank, fx_str name);
fx_kop *fx_kir_load(fx_kir_module *m, fx_kop *buf, fx_kop *const *index, int n, int lanes, fx_kop *mask);
fx_kop *fx_kir_store(fx_kir_module *m, fx_kop *buf, fx_kop *value, fx_kop *const *index, int n, fx_kop *mask);
fx_kop *fx_kir_gather(fx_kir_module *m, fx_kop *buf, fx_kop *const *index, int n, fx_kop *mask);
fx_kop *fx_kir_scatter(fx_kir_module *m, fx_kop *buf, fx_kop *value, fx_kop *const *index, int n, fx_kop *mask);
fx_kop *fx_kir_local(fx_kir_module *m, fx_kop *init, fx_str name);
fx_kop *fx_kir_get(fx_kir_module *m, fx_kop *local);
fx_kop *fx_kir_set(fx_kir_module *m, fx_kop *local, fx_kop *value);

/* Structure: the op; its blocks are to be filled (fx_kir_at). */
fx_kop *fx_kir_for(fx_kir_module *m, fx_kop *lo, fx_kop *hi, fx_kop *step);      /* step NULL: 1 */
fx_kop *fx_kir_forall(fx_kir_module *m, fx_kop *lo, fx_kop *hi);
fx_kop *fx_kir_if(fx_kir_module *m, fx_kop *cond, bool with_else);
fx_kop *fx_kir_while(fx_kir_module *m);
fx_kop *fx_kir_threads(fx_kir_module *m, fx_kop *n);
/* t: of what the block will yield (ARG kinds: of the values compared; the result is i64). */
fx_kop *fx_kir_reduce(fx_kir_module *m, fx_kir_combine kind, int lanes, fx_dtype t, fx_kop *lo, fx_kop *hi);
fx_kop *fx_kir_yield(fx_kir_module *m, fx_kop *const *in, int n);

/* ---- Reading -------------------------------------------------------------------------------------- */

/* Of LOAD ... SCATTER: */
static inline fx_kop *fx_kir_buffer_of(const fx_kop *op) { return op->in[0]; }
static inline int fx_kir_index_from(const fx_kop *op) { return op->code == FX_KIR_STORE || op->code == FX_KIR_SCATTER ? 2 : 1; }
static inline fx_kop *fx_kir_mask_of(const fx_kop *op) { return op->masked ? op->in[op->n_in - 1] : NULL; }
static inline const char *fx_kir_name(fx_kir_code c) { return fx_kir_rows[c].text; }
bool fx_kir_code_of_name(fx_kir_code *out, fx_str name);
/* Numbers all ops of a kernel from 0, parameters first, in order of text. */
void fx_kir_number(fx_kir_kernel *k);

/* ---- Check, text, rewriting, running --------------------------------------------------------------------- */

/* kir_check.c */
fx_status fx_kir_check(fx_kir_kernel *k, fx_error *err);
/* Whether index i of this access is always within its axis, as far as loops, sizes and conditions around it show.
 * After fx_kir_check; makes the code that guards the others. */
bool fx_kir_in_bounds(const fx_kop *access, int i);

/* kir_print.c, kir_parse.c: text that parses back to the same module.  What parses is not yet checked; its ops have the lines of
 * the text. */
void fx_kir_print(const fx_kir_module *m, fx_buf *out);
void fx_kir_kernel_print(const fx_kir_kernel *k, fx_buf *out);
fx_status fx_kir_parse(fx_kir_module **out, fx_arena *arena, const char *name, fx_str text, fx_error *err);

/* kir_math.c: EXP and its like become arithmetic; every execution runs the result. */
fx_status fx_kir_expand_math(fx_kir_kernel *k, fx_error *err);
/* kir_widen.c: FORALLs and REDUCEs without inner loops become loops over vectors of up to 'lanes' lanes.
 * Bits stay. */
fx_status fx_kir_widen(fx_kir_kernel *k, int lanes, fx_error *err);

/* What a launch is given, by every execution.  args[i]: the i-th ARG of the kernel, integers sign- or
 * zero-extended, floats by their bits; buffers[i]: the i-th BUFFER. */
typedef struct fx_kir_launch {
    const uint64_t *args;
    void *const *buffers;
} fx_kir_launch;

/* An index outside its axis: the access does nothing (a load gives 0), the kernel goes on, and the first one of a
 * task is noted here. */
typedef struct fx_kir_fault {
    int32_t op;                  /* id of the access; -1: none */
    int32_t axis;                /* FX_KIR_UNWRITTEN: the element at place 'index' of the 'extent'-th BUFFER is read before it was written */
    int64_t index, extent;
} fx_kir_fault;
#define FX_KIR_UNWRITTEN (-1)

/* kir_interp.c: the definition. Runs tasks [t0, t1). */
typedef struct fx_kir_interp fx_kir_interp;
fx_status fx_kir_interp_new(fx_kir_interp **out, const fx_mem *mem, fx_kir_kernel *k, fx_error *err);
void fx_kir_interp_free(fx_kir_interp *x);
/* From now on: a byte for each element of each BUFFER, not 0 if it has been written; NULL entries: all of it has. Stores set it, a load of
 * what isn't is a fault and gives 0. NULL: nobody looks. */
void fx_kir_interp_watch(fx_kir_interp *x, uint8_t *const *written);
int64_t fx_kir_interp_tasks(fx_kir_interp *x, const fx_kir_launch *l);
void fx_kir_interp_run(fx_kir_interp *x, const fx_kir_launch *l, int64_t t0, int64_t t1, fx_kir_fault *fault);

#endif
