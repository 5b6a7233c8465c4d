/* kexec_int.h - between the files that run plans of kernels. */
#ifndef FX_KEXEC_INT_H
#define FX_KEXEC_INT_H

#include "runtime/kexec.h"
#include "runtime/packages.h"

/* What is known of sizes when: stage 0 with the inputs, stage s when the s-th launch that gives a name its value has run. */
typedef struct fx_kexec_memory {
    void *p;
    size_t bytes;
} fx_kexec_memory;

struct fx_kexec {
    const fx_mem *mem;
    const fx_kplan *plan;
    const fx_kcode *code;
    fx_pool *pool;
    const fx_log *log;
    fx_kexec_device_fn device;   /* NULL: none */
    void *device_user;
    fx_kexec_checks checks;
    uint8_t **written;           /* if reads are checked: of each tensor, a byte for each element; NULL: all of it is written */
    size_t *n_written;           /* bytes there */
    uint8_t **watched;           /* of the launch at hand */
    fx_kir_interp **interps;     /* [n_kernels] where there is no code */
    bool laid_out;               /* what inputs tell */
    int64_t *symbols, *sizes, *bytes;    /* [n_symbols], [n_sizes], of each tensor; the last two -1 where not known yet */
    int32_t *binder;             /* of each symbol: the launch that gave it its value, n_launches: an input, -1: none */
    int32_t *symbol_stage, *size_stage, *tensor_stage;
    int32_t n_stages;            /* beside stage 0 */
    size_t *offset;              /* of each tensor in its stage's memory */
    const void **weights;        /* of each tensor */
    void **data;
    fx_kexec_memory *memory;     /* [n_stages + 1] */
    size_t arrays_bytes;
    void *arrays;
    fx_packages *packages;
    const fornax_kernel **customs;       /* [n_customs] */
    uint64_t *args;              /* of the launch at hand */
    void **buffers;
};

/* ---- kexec_sizes.c ---- */

/* Which stage tells what; memory for none yet. */
fx_status fx_kexec_stages(fx_kexec *x, fx_error *err);
/* Sizes and memory that these inputs tell; the rest isn't known. */
fx_status fx_kexec_prepare(fx_kexec *x, const fx_kvalue *in, fx_error *err);
/* Launch n, of kind SIZE: a size is 'value'. */
fx_status fx_kexec_bind(fx_kexec *x, int32_t n, int64_t value, fx_error *err);
/* Names that launches [from, to) gave values have none any more. */
void fx_kexec_unbind(fx_kexec *x, int32_t from, int32_t to);
/* The types of results; sizes that aren't known are -1. */
void fx_kexec_tell_outputs(const fx_kexec *x, fx_kvalue *out);

/* ---- kexec_other.c: launches of what isn't a kernel of the loop IR ---- */

fx_status fx_kexec_custom(fx_kexec *x, const fx_klaunch *n, fx_error *err);
fx_status fx_kexec_unpack(fx_kexec *x, const fx_klaunch *n, fx_error *err);
fx_status fx_kexec_print(fx_kexec *x, const fx_klaunch *n, fx_error *err);
/* "f32[2] [1, 2]"; of a large one its edges. */
void fx_kexec_put_tensor(const fx_kexec *x, int32_t tensor, fx_buf *b);

/* ---- kexec_check.c ---- */

typedef fx_status (*fx_kexec_run_fn)(fx_kexec *x, const fx_klaunch *n, fx_error *err);
/* A launch, by run, looked at as x->checks says. */
fx_status fx_kexec_checked(fx_kexec *x, const fx_klaunch *n, fx_kexec_run_fn run, fx_error *err);
void fx_kexec_check_begin(fx_kexec *x);                  /* before a run's first launch, and behind its last */
fx_status fx_kexec_check_end(fx_kexec *x, fx_error *err);
void fx_kexec_check_done(fx_kexec *x);
/* The sentence for a kernel's fault of the kind FX_KIR_UNWRITTEN. */
fx_status fx_kexec_unwritten(const fx_kexec *x, const fx_klaunch *n, const fx_kir_fault *f, fx_error *err);

#endif
