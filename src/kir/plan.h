/* plan.h - what the runtime is handed: a list of launches over planned buffers.
 *
 * passes/ lowers a graph to a plan; runtime/ binds pointers and runs it.  A launch
 * carries its kernel's argument struct (tensor/args.h) with the static fields set,
 * and says by 'in' and 'out' which buffer, weight or constant each pointer
 * field gets (slots are listed at fx_launch_op).  A launch doesn't know whether its
 * code is hand-written or compiled.
 *
 * A buffer is rows of f32 columns or of quantized blocks; its number of rows is the
 * step's rows or its rows that want logits, so the same plan serves any step.
 * first/last are the launches that write it first and read it last: fx_plan_layout
 * gives buffers with disjoint lifetimes the same bytes.  In-place is said by using
 * the same buffer as input and output.
 *
 * The plan lives in the arena that it was made in. */
#ifndef FX_PLAN_H
#define FX_PLAN_H

#include "base/mem.h"
#include "base/status.h"
#include "base/str.h"
#include "tensor/args.h"

typedef enum fx_rows_of { FX_ROWS_STEP, FX_ROWS_LOGITS } fx_rows_of;

typedef struct fx_plan_buf {
    fx_rows_of rows;
    int64_t cols;
    bool q8;                     /* quantized activations of 'cols' instead of f32 */
    int32_t first, last;         /* launches; last == n_launches: an output */
    size_t offset;               /* set by fx_plan_layout */
} fx_plan_buf;

#define FX_PLAN_MAX_SRC 8
typedef enum fx_weight_use {
    FX_USE_TABLE,                /* rows in file form (embedding) */
    FX_USE_VECTOR,               /* one f32 vector, converted */
    FX_USE_MATMUL                /* packed by the kernel for (dtype, act) */
} fx_weight_use;

/* Which rows of a tensor: row i is row start + i / run * stride + i % run.  Of a vector, its
 * elements.  rows 0: the whole tensor. */
typedef struct fx_plan_part {
    int64_t start, rows, run, stride;
    bool transposed;             /* of the tensor with its axes exchanged */
} fx_plan_part;

typedef struct fx_plan_weight {
    fx_weight_use use;
    fx_str name;                 /* for messages: "blk.0.attn_q+attn_k+attn_v" */
    int32_t n_src;
    fx_str src[FX_PLAN_MAX_SRC]; /* tensor names in the file; rows are put one after another */
    fx_plan_part part[FX_PLAN_MAX_SRC];
    bool paired;                 /* n_src == 2: tiles alternate gate, up */
    int32_t half;                /* of experts, not paired: 1 gate, 2 up of tensors that hold both; else 0 */
    bool q8;                     /* MATMUL: activations come quantized */
    fx_dtype dtype;              /* to hold it in; FX_DTYPE_COUNT: as stored (all src alike) */
    int64_t rows, cols;          /* of all sources together / of each row */
    int32_t experts;             /* MATMUL: so many matrices of rows / experts rows; 0: one */
    fx_str *expert_src;          /* of experts, instead of src: [n_src], a stacked tensor or one for each; paired
                                  * apart: those of gate, then those of up */
    fx_expert_layout layout;
    bool by_head;                /* experts are heads: each is part[0] of an equal share of the rows of expert_src[0], of which
                                  * 'stride' is the size; transposed: of such a part */
} fx_plan_weight;

typedef struct fx_plan_const {   /* f32 vector computed at compile (rope frequencies) */
    const float *at;
    int64_t n;
} fx_plan_const;

typedef enum fx_ref_kind { FX_REF_NONE, FX_REF_BUF, FX_REF_WEIGHT, FX_REF_CONST } fx_ref_kind;
typedef struct fx_ref {
    fx_ref_kind kind;
    int32_t index;
    int64_t col;                 /* BUF: first column used (a view) */
} fx_ref;

typedef enum fx_launch_op {
    /*                    in                                                out            */
    FX_L_EMBED,        /* table                                             y              */
    FX_L_RMSNORM,      /* x, [residual], w                                  [sum],[y],[q8] */
    FX_L_LAYERNORM,    /* x, [w], [b]                                       y              */
    FX_L_QUANT,        /* x                                                 q8             */
    FX_L_MATMUL,       /* x or q8, w, [bias], [residual], [plain x]         [y], [q8]      */
    FX_L_ROPE_STORE,   /* q, k, [v], [q_norm], [k_norm], [inv_freq]           q              */
    FX_L_ATTEND,       /* q, [slopes], [sinks]                              y, [q8]        */
    FX_L_GATHER,       /* x        (rows that want logits)                  y              */
    FX_L_ADD, FX_L_MUL, FX_L_SCALE, FX_L_SILU, FX_L_GELU, FX_L_GELU_TANH, FX_L_RELU, FX_L_RELU2,
    FX_L_CLAMP, FX_L_SIGMOID, FX_L_TANH,
    FX_L_SWIGLU,       /* a, [b]                                            y              */
    FX_L_SOFTMAX,      /* x                                                 y              */
    FX_L_ROUTE,        /* logits, [bias]                                    routes         */
    FX_L_DISPATCH,     /* routes                                            table          */
    FX_L_SLOTS,        /* x, table                                          y or q8        */
    FX_L_EXPERT_MATMUL, /* x or q8, w, [bias], table, [plain x]             y              */
    FX_L_GLU,          /* gate, [up]                                        y              */
    FX_L_COMBINE,      /* x, routes, table                                  y              */
    FX_L_MUL_ROWS,     /* a, b                                              y              */
    FX_L_BY_HEAD,      /* x, w                                              y              */
    FX_L_CONV1D,       /* x, w, [bias]                                      y              */
    FX_L_SSM_SCAN,     /* x, dt, b, c, a, [d], [dt_bias]                    y              */
    FX_L_DELTA_RULE,   /* q, k, v, b, a, a_log, dt_bias                     y              */
    FX_L_GATED_NORM,   /* x, z, w                                           y              */
    FX_L_SPLICE,       /* a, [b]                                            y              */
    FX_L_OPS
} fx_launch_op;

const char *fx_launch_name(fx_launch_op op);     /* "rmsnorm" */

typedef struct fx_launch {
    fx_launch_op op;
    fx_rows_of rows;             /* of its outputs */
    fx_ref in[8], out[3];
    bool beside;                 /* a MATMUL that needs nothing of the ones before it, with which it may run at once */
    int32_t layer;               /* ROPE_STORE, ATTEND, scans: row of the state table; else -1 */
    fx_str origin;               /* node name, for explain and faults */
    union {                      /* static fields set; pointers, n_rows, step, state offsets are bound later */
        fx_embed_args embed;
        fx_rmsnorm_args rmsnorm;
        fx_layernorm_args layernorm;
        fx_quant_args quant;
        fx_matmul_args matmul;
        fx_rope_store_args rope_store;
        fx_attend_args attend;
        fx_gather_args gather;
        fx_map_args map;
        fx_softmax_args softmax;
        fx_route_args route;
        fx_dispatch_args dispatch;
        fx_slots_args slots;
        fx_expert_matmul_args experts;
        fx_by_head_args by_head;
        fx_glu_args glu;
        fx_combine_args combine;
        fx_conv1d_args conv1d;
        fx_ssm_scan_args ssm_scan;
        fx_delta_rule_args delta_rule;
        fx_gated_norm_args gated_norm;
        fx_splice_args splice;
    } args;
} fx_launch;

typedef struct fx_plan {
    fx_launch *launches;
    fx_plan_buf *bufs;
    fx_plan_weight *weights;
    fx_plan_const *consts;
    int32_t n_launches, n_bufs, n_weights, n_consts;
    fx_ref logits;               /* the output: buffer of FX_ROWS_LOGITS rows */
    int64_t vocab;               /* its columns */
    size_t bytes;                /* of all buffers; set by fx_plan_layout */
} fx_plan;

/* Assigns offsets (64-byte aligned) for at most these rows. q8_bytes tells the size of
 * quantized rows (kernels/). Greedy by size over lifetimes. */
fx_status fx_plan_layout(fx_plan *p, const fx_mem *mem, int64_t max_rows, int64_t max_logits,
                         size_t (*q8_bytes)(int64_t n_rows, int64_t k), fx_error *err);
/* One line a launch, for explain, tests and recorded plans. */
void fx_plan_print(const fx_plan *p, fx_buf *out);
/* Asserts: references in range, slots filled, lifetimes cover their uses, views inside buffers. */
void fx_plan_check(const fx_plan *p);

#endif
