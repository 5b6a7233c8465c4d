/* kernels.h - the tables of hand-written kernels.
 *
 * One row per (op, instruction-set level); at start the best row that the chosen
 * level allows wins, once.  ref/ is the definition; variants are checked against
 * it by tests/kernels.  Reduction contract: the operations that make an output
 * element depend only on its inputs, absolute position and static sizes: never
 * on the number of rows, the row's place, threads, tiles or batch mates.
 *
 *     const fx_kernel *k = fx_kernel_find(FX_K_RMSNORM, &cpu);
 *     k->run(&args, 0, k->tasks(&args), scratch);
 *
 * Kernels allocate nothing; 'scratch' is 64-byte aligned and private to the worker,
 * k->scratch_bytes(&args) long (an upper bound over all n_rows up to that of args). */
#ifndef FX_KERNELS_H
#define FX_KERNELS_H

#include "base/cpu.h"
#include "tensor/args.h"

typedef enum fx_kernel_op {
    FX_K_EMBED,        /* fx_embed_args       task: a row        */
    FX_K_RMSNORM,      /* fx_rmsnorm_args     task: see tasks()  */
    FX_K_LAYERNORM,    /* fx_layernorm_args   task: a row        */
    FX_K_QUANT,        /* fx_quant_args       task: see tasks()  */
    FX_K_ROPE_STORE,   /* fx_rope_store_args  task: a row        */
    FX_K_ATTEND,       /* fx_attend_args      task: see tasks()  */
    FX_K_GATHER,       /* fx_gather_args      task: a row        */
    FX_K_ADD, FX_K_MUL, FX_K_SCALE, FX_K_SILU, FX_K_GELU, FX_K_GELU_TANH, FX_K_RELU, FX_K_RELU2,
    FX_K_CLAMP, FX_K_SIGMOID, FX_K_TANH,
    FX_K_SWIGLU,       /* fx_map_args: silu(a) * b */
    FX_K_SOFTMAX,      /* fx_softmax_args     task: a row        */
    FX_K_ROUTE,        /* fx_route_args       task: a row        */
    FX_K_DISPATCH,     /* fx_dispatch_args    one task           */
    FX_K_SLOTS,        /* fx_slots_args       task: a slot       */
    FX_K_EXPERT_MATMUL, /* fx_expert_matmul_args  see tasks()    */
    FX_K_BY_HEAD,      /* fx_by_head_args     see tasks()        */
    FX_K_GLU,          /* fx_glu_args         task: a row        */
    FX_K_COMBINE,      /* fx_combine_args     task: a row        */
    FX_K_MUL_ROWS,     /* fx_map_args: a * b, b of one column    */
    FX_K_CONV1D,       /* fx_conv1d_args      task: see tasks()  */
    FX_K_SSM_SCAN,     /* fx_ssm_scan_args    task: see tasks()  */
    FX_K_DELTA_RULE,   /* fx_delta_rule_args  task: see tasks()  */
    FX_K_GATED_NORM,   /* fx_gated_norm_args  task: a row        */
    FX_K_SPLICE,       /* fx_splice_args      task: a row        */
    FX_K_OPS
} fx_kernel_op;

typedef struct fx_kernel {
    fx_kernel_op op;
    fx_cpu_level level;
    const char *name;                              /* "rmsnorm_avx512" */
    int64_t (*tasks)(const void *args);
    void (*run)(const void *args, int64_t t0, int64_t t1, void *scratch);
    size_t (*scratch_bytes)(const void *args);     /* NULL: none */
} fx_kernel;

/* Never NULL: the reference stands behind every op. */
const fx_kernel *fx_kernel_find(fx_kernel_op op, const fx_cpu *cpu);
size_t fx_kernel_count(void);                      /* all rows, for tests and benches */
const fx_kernel *fx_kernel_at(size_t i);

/* How the weights of a product are held and multiplied. */
typedef enum fx_act {
    FX_ACT_F32,
    FX_ACT_Q8,
    FX_ACT_BF16                                    /* f32 rows that the kernel rounds to bf16 */
} fx_act;

typedef struct fx_matmul_kernel {
    fx_dtype weight;                               /* source dtype of a row */
    fx_act act;
    fx_cpu_level level;
    bool (*usable)(const fx_cpu *cpu);             /* NULL: the level suffices */
    const char *name;
    size_t (*tile_bytes)(int64_t k);               /* of 16 packed rows; multiple of 64 */
    /* rows[i]: source row i in its file form, NULL: a row of zeros. */
    void (*pack)(const void *const rows[16], int64_t k, void *tile);
    /* Task t: tile t (paired: tiles 2t and 2t+1); all rows of x. The epilogue gets a row's tiles in their order. */
    void (*run)(const fx_matmul_args *a, int64_t t0, int64_t t1, void *scratch);
    size_t (*scratch_bytes)(const fx_matmul_args *a);
} fx_matmul_kernel;

static inline int64_t fx_matmul_tasks(const fx_matmul_args *a) { return (a->n + 15) / 16; }

/* How many tiles an epilogue is given at once at least: of results that are rounded, those of a block. */
#define FX_ROUND_TILES 2
static inline int64_t fx_matmul_tiles(const fx_matmul_args *a) { return a->epi.q8.data ? FX_ROUND_TILES : 1; }

/* The kernel for weights of 'weight' (k columns) at this level; NULL: none (caller reports). */
const fx_matmul_kernel *fx_matmul_find(fx_dtype weight, fx_act act, int64_t k, const fx_cpu *cpu);
/* The activations that a product takes: q8 says that they come as int8. Decides bits. */
fx_act fx_matmul_act(fx_dtype weight, bool q8, const fx_cpu *cpu);
/* May m run where 'cpu' was chosen? */
bool fx_matmul_usable(const fx_matmul_kernel *m, const fx_cpu *cpu);
size_t fx_matmul_count(void);
const fx_matmul_kernel *fx_matmul_at(size_t i);

/* Bytes of quantized activations for n_rows rows of k, and for any number up to n_rows. */
size_t fx_q8_bytes(int64_t n_rows, int64_t k);

/* The standard epilogue: y = scale * acc (+ bias) (+ residual), each operation rounded: the
 * same bits at all levels. For paired weights the kernel calls it with silu(gate)*up formed. */
typedef void (*fx_epilogue_fn)(const fx_epilogue *e, const float *acc, int64_t ld, int64_t row0, int64_t m,
                               int64_t col0, int64_t n);
void fx_epilogue_store(const fx_epilogue *e, const float *acc, int64_t ld, int64_t row0, int64_t m, int64_t col0,
                       int64_t n);
/* The epilogue of sums to which adapters add (args.h). */
void fx_epilogue_add(const fx_epilogue *e, const float *acc, int64_t ld, int64_t row0, int64_t m, int64_t col0, int64_t n);
/* The epilogue that rounds (args.h). A block is two tiles: a thread is given both, and by kernels with int8 activations
 * at once. Only these do without y, which then is the sums as they are. */
void fx_epilogue_round(const fx_epilogue *e, const float *acc, int64_t ld, int64_t row0, int64_t m, int64_t col0, int64_t n);
fx_epilogue_fn fx_epilogue_find(const fx_cpu *cpu);

#endif
