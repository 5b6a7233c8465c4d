/* kir_interp.c - runs a kernel op by op: the definition of what kernels do.
 *
 * Each op has room for its lanes (64 bits each, kir_eval.h) in one array; what a local holds lies at the local's
 * own place.  Arrays of ALLOC are laid out when the interpreter is made and zeroed when their op is reached.
 * Extents and strides are looked up once a launch. */
#include "kir/kir_eval.h"

typedef struct place {
    uint8_t *p;
    uint8_t *written;            /* of a BUFFER that is watched: a byte for each element */
    int number;                  /* of a BUFFER */
    size_t offset;               /* of an array, in 'memory' */
    int64_t extent[FX_KIR_MAX_RANK], stride[FX_KIR_MAX_RANK];
} place;

struct fx_kir_interp {
    const fx_mem *mem;
    fx_kir_kernel *k;
    size_t n_lanes, alloc_bytes;
    uint32_t *at;                /* [n_ops] first lane of each op */
    uint64_t *lanes;
    place *places;               /* [n_ops], of BUFFERs and ALLOCs */
    uint8_t *memory;             /* of ALLOCs */
    fx_kir_fault *fault;
    uint8_t *const *written;
};

static uint64_t *lanes_of(fx_kir_interp *x, const fx_kop *op) { return x->lanes + x->at[op->id]; }
static int64_t int_of(fx_kir_interp *x, const fx_kop *op) { return (int64_t)*lanes_of(x, op); }

/* ---- Making one ---------------------------------------------------------------------------------- */

#define MAX_ALLOC ((int64_t)1 << 31)     /* bytes of all arrays of a kernel */

static fx_status lay_out_alloc(fx_kir_interp *x, const fx_kop *op, fx_error *err)
{
    const fx_kir_buf *b = op->u.buf;
    int64_t n = (int64_t)fx_dtype_size(b->dtype);

    for (int i = b->rank - 1; i >= 0; i--) {
        int64_t e = b->extent[i]->u.i;

        x->places[op->id].extent[i] = e;
        x->places[op->id].stride[i] = n / (int64_t)fx_dtype_size(b->dtype);
        if (e < 0 || (e > 0 && n > MAX_ALLOC / e))
            return fx_fail(err, FORNAX_EARG, "kernel %.*s: an array of more than 2 GiB", FX_STR_ARG(x->k->name));
        n *= e;
    }
    x->places[op->id].offset = x->alloc_bytes;
    x->alloc_bytes += ((size_t)n + 63) & ~(size_t)63;
    return x->alloc_bytes <= (size_t)MAX_ALLOC ? FORNAX_OK
           : fx_fail(err, FORNAX_EARG, "kernel %.*s: arrays of more than 2 GiB", FX_STR_ARG(x->k->name));
}

static fx_status lay_out_op(fx_kir_interp *x, const fx_kop *op, fx_error *err)
{
    x->at[op->id] = (uint32_t)x->n_lanes;
    x->n_lanes += FX_MAX(op->type.lanes, 1);
    return op->code == FX_KIR_ALLOC ? lay_out_alloc(x, op, err) : FORNAX_OK;
}

static fx_status lay_out(fx_kir_interp *x, const fx_kir_block *b, fx_error *err)
{
    if (b->arg)
        FX_TRY(lay_out_op(x, b->arg, err));
    for (const fx_kop *op = b->first; op; op = op->next) {
        FX_TRY(lay_out_op(x, op, err));
        for (int i = 0; i < 2; i++) {
            if (op->block[i])
                FX_TRY(lay_out(x, op->block[i], err));
        }
    }
    return FORNAX_OK;
}

static void place_allocs(fx_kir_interp *x, const fx_kir_block *b)
{
    for (const fx_kop *op = b->first; op; op = op->next) {
        if (op->code == FX_KIR_ALLOC)
            x->places[op->id].p = x->memory + x->places[op->id].offset;
        for (int i = 0; i < 2; i++) {
            if (op->block[i])
                place_allocs(x, op->block[i]);
        }
    }
}

static fx_status lay_out_kernel(fx_kir_interp *x, fx_error *err)
{
    for (size_t i = 0; i < x->k->params.n; i++)
        FX_TRY(lay_out_op(x, x->k->params.at[i], err));
    FX_TRY(lay_out(x, x->k->grid, err));
    FX_TRY(lay_out(x, x->k->body, err));
    x->lanes = fx_mem_array(x->mem, x->n_lanes, sizeof(*x->lanes));
    x->memory = fx_mem_array(x->mem, x->alloc_bytes + 1, 1);
    if (!x->lanes || !x->memory)
        return fx_nomem(err, "an interpreter");
    place_allocs(x, x->k->body);
    return FORNAX_OK;
}

fx_status fx_kir_interp_new(fx_kir_interp **out, const fx_mem *mem, fx_kir_kernel *k, fx_error *err)
{
    fx_kir_interp *x = fx_mem_zalloc(mem, sizeof(*x));
    fx_status st;

    *out = NULL;
    if (!x)
        return fx_nomem(err, "an interpreter");
    x->mem = mem;
    x->k = k;
    fx_kir_number(k);
    x->at = fx_mem_array(mem, (size_t)k->n_ops + 1, sizeof(*x->at));
    x->places = fx_mem_array(mem, (size_t)k->n_ops + 1, sizeof(*x->places));
    st = x->at && x->places ? lay_out_kernel(x, err) : fx_nomem(err, "an interpreter");
    if (st != FORNAX_OK) {
        fx_kir_interp_free(x);
        return st;
    }
    *out = x;
    return FORNAX_OK;
}

void fx_kir_interp_free(fx_kir_interp *x)
{
    if (!x)
        return;
    fx_mem_free(x->mem, x->at, ((size_t)x->k->n_ops + 1) * sizeof(*x->at));
    fx_mem_free(x->mem, x->places, ((size_t)x->k->n_ops + 1) * sizeof(*x->places));
    fx_mem_free(x->mem, x->lanes, x->n_lanes * sizeof(*x->lanes));
    fx_mem_free(x->mem, x->memory, x->alloc_bytes + 1);
    fx_mem_free(x->mem, x, sizeof(*x));
}

/* ---- Memory ------------------------------------------------------------------------------------------ */

static void note_fault(fx_kir_interp *x, const fx_kop *op, int axis, int64_t index, int64_t extent)
{
    if (x->fault->op < 0)
        *x->fault = (fx_kir_fault){ op->id, axis, index, extent };
}

/* Where lane 'lane' of an access lies; NULL: outside, which is noted. */
static uint8_t *element(fx_kir_interp *x, const fx_kop *op, int lane)
{
    const fx_kop *buf = fx_kir_buffer_of(op);
    const place *p = &x->places[buf->id];
    int from = fx_kir_index_from(op), rank = buf->u.buf->rank;
    bool side_by_side = op->code == FX_KIR_LOAD || op->code == FX_KIR_STORE;
    int64_t at = 0;

    for (int i = 0; i < rank; i++) {
        const fx_kop *index = op->in[from + i];
        int64_t n = (int64_t)lanes_of(x, index)[index->type.lanes > 1 ? lane : 0];

        if (side_by_side && i == rank - 1)
            n = (int64_t)((uint64_t)n + (uint64_t)lane);
        if (n < 0 || n >= p->extent[i]) {
            note_fault(x, op, i, n, p->extent[i]);
            return NULL;
        }
        at += n * p->stride[i];
    }
    if (p->written && from == 1 && !p->written[at]) {
        note_fault(x, op, FX_KIR_UNWRITTEN, at, p->number);
        return NULL;
    }
    if (p->written)
        p->written[at] = 1;
    return p->p + at * (int64_t)fx_dtype_size(buf->u.buf->dtype);
}

static bool lane_on(fx_kir_interp *x, const fx_kop *op, int lane)
{
    const fx_kop *mask = fx_kir_mask_of(op);

    return !mask || lanes_of(x, mask)[mask->type.lanes > 1 ? lane : 0];
}

static void run_load(fx_kir_interp *x, const fx_kop *op)
{
    uint64_t *out = lanes_of(x, op);

    for (int i = 0; i < op->type.lanes; i++) {
        const uint8_t *p = lane_on(x, op, i) ? element(x, op, i) : NULL;

        out[i] = p ? fx_kir_read(op->type.t, p) : 0;
    }
}

static void run_store(fx_kir_interp *x, const fx_kop *op)
{
    const fx_kop *value = op->in[1];

    for (int i = 0; i < value->type.lanes; i++) {
        uint8_t *p = lane_on(x, op, i) ? element(x, op, i) : NULL;

        if (p)
            fx_kir_write(value->type.t, p, lanes_of(x, value)[i]);
    }
}

static void run_alloc(fx_kir_interp *x, const fx_kop *op)
{
    int64_t n = (int64_t)fx_dtype_size(op->u.buf->dtype);

    for (int i = 0; i < op->u.buf->rank; i++)
        n *= x->places[op->id].extent[i];
    memset(x->places[op->id].p, 0, (size_t)n);
}

/* ---- Structure ------------------------------------------------------------------------------------------ */

static void run_block(fx_kir_interp *x, const fx_kir_block *b);

static void run_loop(fx_kir_interp *x, const fx_kop *op)
{
    int64_t lo = int_of(x, op->in[0]), hi = int_of(x, op->in[1]), step = op->n_in > 2 ? int_of(x, op->in[2]) : 1;

    for (int64_t i = lo; i < hi; i += step) {
        *lanes_of(x, op->block[0]->arg) = (uint64_t)i;
        run_block(x, op->block[0]);
        if (step <= 0 || i > hi - step)  /* a step that isn't positive: once */
            break;
    }
}

static void run_threads(fx_kir_interp *x, const fx_kop *op)
{
    for (int64_t i = 0, n = int_of(x, op->in[0]); i < n; i++) {
        *lanes_of(x, op->block[0]->arg) = (uint64_t)i;
        run_block(x, op->block[0]);
    }
}

static void run_while(fx_kir_interp *x, const fx_kop *op)
{
    for (;;) {
        run_block(x, op->block[0]);
        if (!*lanes_of(x, op->block[0]->last->in[0]))
            return;
        run_block(x, op->block[1]);
    }
}

/* What the block yields for counter i, from the yield's operands. */
static void iterate(fx_kir_interp *x, const fx_kop *op, int64_t i, uint64_t out[2])
{
    const fx_kop *yield = op->block[0]->last;

    *lanes_of(x, op->block[0]->arg) = (uint64_t)i;
    run_block(x, op->block[0]);
    out[0] = *lanes_of(x, yield->in[0]);
    out[1] = yield->n_in > 1 ? *lanes_of(x, yield->in[1]) : 0;
}

static uint64_t run_sums(fx_kir_interp *x, const fx_kop *op)
{
    fx_kir_combine kind = op->u.reduce.kind, tree = kind == FX_KIR_DOT ? FX_KIR_SUM : kind;
    int64_t lo = int_of(x, op->in[0]), hi = int_of(x, op->in[1]);
    int lanes = op->u.reduce.lanes;
    uint64_t acc[FX_KIR_MAX_LANES], v[2];

    for (int j = 0; j < lanes; j++)
        acc[j] = fx_kir_neutral(kind, op->type.t);
    for (int64_t i = lo, j = 0; i < hi; i++, j++) {
        iterate(x, op, i, v);
        acc[j % lanes] = fx_kir_combined(kind, op->type.t, acc[j % lanes], v[0], v[1]);
    }
    for (int half = lanes / 2; half; half /= 2) {
        for (int j = 0; j < half; j++)
            acc[j] = fx_kir_combined(tree, op->type.t, acc[j], acc[j + half], 0);
    }
    return acc[0];
}

static uint64_t run_arg(fx_kir_interp *x, const fx_kop *op)
{
    fx_dtype t = op->block[0]->last->in[0]->type.t;
    int64_t lo = int_of(x, op->in[0]), hi = int_of(x, op->in[1]), at = -1;
    uint64_t best = 0, v[2];

    for (int64_t i = lo; i < hi; i++) {
        iterate(x, op, i, v);
        if (at < 0 || fx_kir_beats(op->u.reduce.kind, t, v[0], best)) {
            best = v[0];
            at = i;
        }
    }
    return (uint64_t)at;
}

static void run_pure(fx_kir_interp *x, const fx_kop *op)
{
    const uint64_t *in[3] = { NULL };

    for (int i = 0; i < op->n_in; i++)
        in[i] = lanes_of(x, op->in[i]);
    fx_kir_eval(op, in, lanes_of(x, op));
}

static void run_op(fx_kir_interp *x, const fx_kop *op)
{
    switch (op->code) {
    case FX_KIR_ALLOC: run_alloc(x, op); break;
    case FX_KIR_LOAD: case FX_KIR_GATHER: run_load(x, op); break;
    case FX_KIR_STORE: case FX_KIR_SCATTER: run_store(x, op); break;
    case FX_KIR_LOCAL: case FX_KIR_GET:
        memcpy(lanes_of(x, op), lanes_of(x, op->in[0]), op->type.lanes * sizeof(uint64_t));
        break;
    case FX_KIR_SET:
        memcpy(lanes_of(x, op->in[0]), lanes_of(x, op->in[1]), op->in[0]->type.lanes * sizeof(uint64_t));
        break;
    case FX_KIR_FOR: case FX_KIR_FORALL: run_loop(x, op); break;
    case FX_KIR_IF:
        if (*lanes_of(x, op->in[0]))
            run_block(x, op->block[0]);
        else if (op->block[1])
            run_block(x, op->block[1]);
        break;
    case FX_KIR_WHILE: run_while(x, op); break;
    case FX_KIR_REDUCE: *lanes_of(x, op) = op->u.reduce.kind >= FX_KIR_ARGLEAST ? run_arg(x, op) : run_sums(x, op); break;
    case FX_KIR_THREADS: run_threads(x, op); break;
    case FX_KIR_YIELD: break;
    default: run_pure(x, op); break;
    }
}

static void run_block(fx_kir_interp *x, const fx_kir_block *b)
{
    for (const fx_kop *op = b->first; op; op = op->next)
        run_op(x, op);
}

/* ---- Launches ---------------------------------------------------------------------------------------------- */

static void place_buffer(fx_kir_interp *x, const fx_kop *op, void *p)
{
    const fx_kir_buf *b = op->u.buf;
    place *at = &x->places[op->id];
    int64_t next = 1;

    at->p = p;
    for (int i = b->rank - 1; i >= 0; i--) {
        at->extent[i] = b->extent[i]->code == FX_KIR_CONST ? b->extent[i]->u.i : int_of(x, b->extent[i]);
        at->stride[i] = !b->stride[i] ? next : b->stride[i]->code == FX_KIR_CONST ? b->stride[i]->u.i : int_of(x, b->stride[i]);
        next = at->stride[i] * at->extent[i];
    }
}

static void bind(fx_kir_interp *x, const fx_kir_launch *l)
{
    int buffer = 0;

    for (size_t i = 0; i < x->k->params.n; i++) {
        const fx_kop *op = x->k->params.at[i];

        if (op->code == FX_KIR_ARG)
            *lanes_of(x, op) = fx_kir_lane(op->type.t, l->args[op->u.i]);
    }
    for (size_t i = 0; i < x->k->params.n; i++) {
        const fx_kop *op = x->k->params.at[i];

        if (op->code != FX_KIR_BUFFER)
            continue;
        place_buffer(x, op, l->buffers ? l->buffers[buffer] : NULL);
        x->places[op->id].written = x->written ? x->written[buffer] : NULL;
        x->places[op->id].number = buffer++;
    }
}

void fx_kir_interp_watch(fx_kir_interp *x, uint8_t *const *written) { x->written = written; }

int64_t fx_kir_interp_tasks(fx_kir_interp *x, const fx_kir_launch *l)
{
    bind(x, &(fx_kir_launch){ l->args, NULL });
    run_block(x, x->k->grid);
    return int_of(x, x->k->grid->last->in[0]);
}

void fx_kir_interp_run(fx_kir_interp *x, const fx_kir_launch *l, int64_t t0, int64_t t1, fx_kir_fault *fault)
{
    x->fault = fault;
    bind(x, l);
    for (int64_t t = t0; t < t1; t++) {
        *lanes_of(x, x->k->task) = (uint64_t)t;
        run_block(x, x->k->body);
    }
}
