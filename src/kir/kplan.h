/* kplan.h - the plan of a graph of tensors: launches of kernels of the loop IR.
 *
 * passes/lower_kir*.c make it, runtime/kexec.c runs it, with kernels interpreted or compiled.  Nothing
 * of it points into the graph.
 *
 * Sizes: an input's axes give the plan's symbols their values, or a launch of kind SIZE does; all other sizes are computed
 * from those, by small programs in 'steps' for a stack.  Tensors lie row by row; those
 * of kind TEMP share memory where their lifetimes (first to last launch) don't meet. */
#ifndef FX_KPLAN_H
#define FX_KPLAN_H

#include "kir/kir.h"

typedef enum fx_size_code { FX_SIZE_NUM, FX_SIZE_SYMBOL, FX_SIZE_ADD, FX_SIZE_MUL, FX_SIZE_DIV } fx_size_code;
typedef struct fx_size_step {
    fx_size_code code;           /* DIV: toward minus infinity */
    int64_t n;                   /* NUM: it; SYMBOL: its index */
} fx_size_step;

typedef struct fx_plan_size {
    int32_t first, n;            /* of steps */
} fx_plan_size;

typedef enum fx_ktensor_kind { FX_KTENSOR_INPUT, FX_KTENSOR_OUTPUT, FX_KTENSOR_TEMP, FX_KTENSOR_WEIGHT, FX_KTENSOR_CONST } fx_ktensor_kind;
typedef struct fx_ktensor {
    fx_ktensor_kind kind;
    fx_dtype dtype;
    int32_t rank, dim[FX_KIR_MAX_RANK];      /* sizes */
    int32_t index;               /* of INPUT and OUTPUT: which */
    fx_str name;                 /* of WEIGHT and INPUT */
    const void *data;            /* of CONST */
    int64_t data_bytes;
    int32_t first, last;         /* of TEMP: launches */
} fx_ktensor;

/* What is done in order. A choice or a loop is one of the launches behind it: n_first, then n_second of them. */
typedef enum fx_klaunch_kind {
    FX_KLAUNCH_KERNEL,
    FX_KLAUNCH_COND,             /* the first ones if pred, else the second */
    FX_KLAUNCH_WHILE,            /* the first ones; as long as they leave pred true, the second and the first again */
    FX_KLAUNCH_CUSTOM,           /* a kernel of a package: 'kernel' is its number among customs */
    FX_KLAUNCH_SIZE,             /* size args[0] is what the one i64 of 'pred' says; with two args, what size args[1] is. A symbol that
                                  * has no value yet gets it; else both must be equal. 'text' says why, "" if nothing is to be said */
    FX_KLAUNCH_UNPACK,           /* blocks of the dtype 'kernel', as bytes, become floats: from buffers[0] to buffers[1] */
    FX_KLAUNCH_PRINT             /* 'text' and what buffers[0], if there is one, holds go to the log */
} fx_klaunch_kind;

/* A kernel of a package (runtime/packages.h): its operands come first among the launch's buffers, then its results. */
typedef struct fx_kparam {
    fx_str name;
    int32_t kind;                /* fornax_param's */
    int64_t i;
    fx_str s;
} fx_kparam;

#define FX_KCUSTOM_MAX 32        /* operands and results */
typedef struct fx_kcustom {
    fx_str kernel;
    int32_t n_in, n_params;
    const fx_kparam *params;
} fx_kcustom;

typedef struct fx_klaunch {
    fx_klaunch_kind kind;
    int32_t kernel;
    int32_t n_args, n_buffers;
    const int32_t *args;         /* sizes, one for each ARG of the kernel */
    const int32_t *buffers;      /* tensors, one for each BUFFER */
    int32_t pred, n_first, n_second;         /* pred: a tensor of one bool */
    fx_str origin, op;           /* its value's name in the graph, or a like label, and its op: for messages */
    fx_str text;                 /* of SIZE and PRINT */
} fx_klaunch;

/* The symbol that a size is, and nothing else; -1: it isn't one. */
static inline int32_t fx_ksize_symbol(const fx_size_step *steps, const fx_plan_size *s)
{
    const fx_size_step *at = steps + s->first;

    /* A name alone is 1 * name. */
    return s->n == 3 && at[0].code == FX_SIZE_NUM && at[0].n == 1 && at[1].code == FX_SIZE_SYMBOL ? (int32_t)at[1].n : -1;
}

typedef struct fx_kplan {
    fx_kir_module *module;
    int32_t n_kernels, n_symbols, n_steps, n_sizes, n_tensors, n_launches, n_inputs, n_outputs, n_libraries, n_customs;
    fx_kir_kernel **kernels;
    fx_str *symbols;
    fx_size_step *steps;
    fx_plan_size *sizes;
    fx_ktensor *tensors;
    fx_klaunch *launches;
    int32_t *inputs, *outputs;   /* tensors */
    fx_str *libraries;           /* paths of packages, if there are customs */
    fx_kcustom *customs;
} fx_kplan;

#endif
