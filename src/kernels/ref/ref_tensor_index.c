/* ref_tensor_index.c - what gathers, scatters and sorting ops compute. */
#include "kernels/ref/ref_tensor.h"

#include <math.h>

/* ---- Gathers ------------------------------------------------------------------------------- */

fx_status fx_ref_gather(const fx_ref_call *c)
{
    const fx_tensor *x = c->in[0], *indices = c->in[1], *y = &c->out[0];
    int axis = fx_ref_axis(c, FX_A_AXIS, x->rank), r = indices->rank;
    int64_t i[FX_MAX_RANK] = { 0 }, k[FX_MAX_RANK];

    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    do {
        int64_t at = fx_tensor_i64(indices, i + axis);

        memcpy(k, i, sizeof(int64_t) * (size_t)axis);
        memcpy(k + axis + 1, i + axis + r, sizeof(int64_t) * (size_t)(x->rank - axis - 1));
        k[axis] = at;
        if (!fx_ref_index(&k[axis], x->dim[axis]))
            return fx_ref_outside(c, at, x->dim[axis]);
        fx_tensor_copy(y, i, x, k);
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}

/* The place in x, from its axis 'first' on, that the last axis of indices names at 'row'. */
static fx_status place_of(const fx_ref_call *c, const fx_tensor *x, const fx_tensor *indices, const int64_t *row, int first,
                          int64_t *place)
{
    int64_t at[FX_MAX_RANK];
    int last = indices->rank - 1;

    memcpy(at, row, sizeof(int64_t) * (size_t)last);
    for (at[last] = 0; at[last] < indices->dim[last]; at[last]++) {
        int64_t index = fx_tensor_i64(indices, at), *to = &place[first + at[last]];

        *to = index;
        if (!fx_ref_index(to, x->dim[first + at[last]]))
            return fx_ref_outside(c, index, x->dim[first + at[last]]);
    }
    return FORNAX_OK;
}

fx_status fx_ref_gather_nd(const fx_ref_call *c)
{
    const fx_tensor *x = c->in[0], *indices = c->in[1], *y = &c->out[0];
    int batch = (int)fx_ref_i(c, FX_A_BATCH_DIMS), rows = indices->rank - 1, n = (int)indices->dim[rows];
    int64_t i[FX_MAX_RANK] = { 0 }, k[FX_MAX_RANK];

    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    do {
        memcpy(k, i, sizeof(int64_t) * (size_t)batch);
        FX_TRY(place_of(c, x, indices, i, batch, k));
        memcpy(k + batch + n, i + rows, sizeof(int64_t) * (size_t)(x->rank - batch - n));
        fx_tensor_copy(y, i, x, k);
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}

/* ---- Scatters --------------------------------------------------------------------------------- */

static fx_status copy_first(const fx_ref_call *c)
{
    fx_ref_call copy = *c;

    copy.n_in = 1;
    return fx_ref_reshape(&copy);
}

/* What the op does to an element that is there: the arithmetic op, or 0 to put the update in its place. */
static fx_opcode combines_by(fx_opcode op)
{
    switch (op) {
    case FX_OP_SCATTER_ADD: case FX_OP_SCATTER_ND_ADD: return FX_OP_ADD;
    case FX_OP_SCATTER_MAX: case FX_OP_SCATTER_ND_MAX: return FX_OP_MAX;
    case FX_OP_SCATTER_MIN: case FX_OP_SCATTER_ND_MIN: return FX_OP_MIN;
    case FX_OP_SCATTER_MUL: case FX_OP_SCATTER_ND_MUL: return FX_OP_MUL;
    default: return FX_OP_COUNT;
    }
}

static fx_tensor element_of(const fx_tensor *t, const int64_t *index)
{
    return (fx_tensor){ .dtype = t->dtype, .data = fx_tensor_at(t, index) };
}

/* y[k] combined with update[i]. */
static fx_status combine(const fx_ref_call *c, const fx_tensor *y, const int64_t *k, const fx_tensor *update, const int64_t *i)
{
    fx_tensor to = element_of(y, k), from = element_of(update, i);
    const fx_tensor *in[2] = { &to, &from };
    fx_ref_call one = { .op = combines_by(c->op), .n_in = 2, .n_out = 1, .in = in, .out = &to, .err = c->err };

    if (one.op != FX_OP_COUNT)
        return fx_ref_binary(&one);
    memcpy(to.data, from.data, fx_dtype_size(to.dtype));
    return FORNAX_OK;
}

fx_status fx_ref_scatter(const fx_ref_call *c)
{
    const fx_tensor *updates = c->in[1], *indices = c->in[2], *y = &c->out[0];
    int axis = fx_ref_axis(c, FX_A_AXIS, y->rank);
    int64_t i[FX_MAX_RANK] = { 0 }, k[FX_MAX_RANK];

    FX_TRY(copy_first(c));
    if (fx_tensor_count(updates) == 0)
        return FORNAX_OK;
    do {
        memcpy(k, i, sizeof(k));
        k[axis] = fx_tensor_i64(indices, i);
        if (!fx_ref_index(&k[axis], y->dim[axis]))
            return fx_ref_outside(c, fx_tensor_i64(indices, i), y->dim[axis]);
        for (int a = 0; a < y->rank; a++) {
            if (k[a] >= y->dim[a])
                return fx_ref_outside(c, k[a], y->dim[a]);
        }
        FX_TRY(combine(c, y, k, updates, i));
    } while (fx_tensor_next(updates, i));
    return FORNAX_OK;
}

fx_status fx_ref_scatter_nd(const fx_ref_call *c)
{
    const fx_tensor *updates = c->in[1], *indices = c->in[2], *y = &c->out[0];
    int rows = indices->rank - 1, n = (int)indices->dim[rows];
    int64_t i[FX_MAX_RANK] = { 0 }, k[FX_MAX_RANK];

    FX_TRY(copy_first(c));
    if (fx_tensor_count(updates) == 0)
        return FORNAX_OK;
    do {
        FX_TRY(place_of(c, y, indices, i, 0, k));
        memcpy(k + n, i + rows, sizeof(int64_t) * (size_t)(y->rank - n));
        FX_TRY(combine(c, y, k, updates, i));
    } while (fx_tensor_next(updates, i));
    return FORNAX_OK;
}

fx_status fx_ref_masked_scatter(const fx_ref_call *c)
{
    const fx_tensor *x = c->in[0], *updates = c->in[2], *y = &c->out[0];
    fx_tensor mask = fx_tensor_broadcast(c->in[1], y);
    int64_t i[FX_MAX_RANK] = { 0 }, next[FX_MAX_RANK] = { 0 }, left = fx_tensor_count(updates);

    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    do {
        if (!fx_tensor_i64(&mask, i)) {
            fx_tensor_copy(y, i, x, i);
            continue;
        }
        if (left-- == 0)
            return fx_ref_fail(c, "the mask has more places than there are updates");
        fx_tensor_copy(y, i, updates, next);
        fx_tensor_next(updates, next);
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}

fx_status fx_ref_nonzero(const fx_ref_call *c)
{
    const fx_tensor *x = c->in[0], *y = &c->out[0];
    int64_t i[FX_MAX_RANK] = { 0 }, at[2] = { 0, 0 };

    if (fx_tensor_count(x) != 0) {
        do {
            if (fx_dtype_is_float(x->dtype) ? fx_tensor_f64(x, i) == 0 : fx_tensor_i64(x, i) == 0)
                continue;
            if (at[0] == y->dim[0])
                return fx_ref_fail(c, "more places than out_dim");
            for (at[1] = 0; at[1] < x->rank; at[1]++)
                fx_tensor_set_i64(y, at, i[at[1]]);
            at[0]++;
        } while (fx_tensor_next(x, i));
    }
    return at[0] == y->dim[0] ? FORNAX_OK : fx_ref_fail(c, "fewer places than out_dim");
}

/* ---- Order ---------------------------------------------------------------------------------------- */

/* Whether element a of the axis comes before b; ties to the lower. */
static bool comes_first(const fx_tensor *x, int64_t *index, int axis, int64_t a, int64_t b, bool falling)
{
    int64_t other[FX_MAX_RANK];

    memcpy(other, index, sizeof(other));
    index[axis] = a;
    other[axis] = b;
    if (falling ? fx_ref_less(x, other, index) : fx_ref_less(x, index, other))
        return true;
    if (falling ? fx_ref_less(x, index, other) : fx_ref_less(x, other, index))
        return false;
    return a < b;
}

/* How many elements of the axis come before e. */
static int64_t rank_of(const fx_tensor *x, int64_t *index, int axis, int64_t e, bool falling)
{
    int64_t n = 0;

    for (int64_t other = 0; other < x->dim[axis]; other++)
        n += other != e && comes_first(x, index, axis, other, e, falling);
    return n;
}

fx_status fx_ref_argsort(const fx_ref_call *c)
{
    const fx_tensor *x = c->in[0], *y = &c->out[0];
    int64_t i[FX_MAX_RANK] = { 0 };

    for (int64_t e = 0; e < x->dim[0]; e++) {
        int64_t rank = rank_of(x, i, 0, e, !fx_ref_i(c, FX_A_ASCENDING));

        fx_tensor_set_i64(y, &rank, e);
    }
    return FORNAX_OK;
}

fx_status fx_ref_top_k(const fx_ref_call *c)
{
    const fx_tensor *x = c->in[0], *values = &c->out[0], *places = &c->out[1];
    int axis = fx_ref_axis(c, FX_A_AXIS, x->rank);
    int64_t i[FX_MAX_RANK] = { 0 }, k[FX_MAX_RANK], work[FX_MAX_RANK];

    if (values->dim[axis] > x->dim[axis])
        return fx_ref_fail(c, "k is more than the axis has");
    if (fx_tensor_count(x) == 0)
        return FORNAX_OK;
    do {
        memcpy(work, i, sizeof(work));
        memcpy(k, i, sizeof(k));
        k[axis] = rank_of(x, work, axis, i[axis], c->op == FX_OP_TOP_K);
        if (k[axis] >= values->dim[axis])
            continue;
        fx_tensor_copy(values, k, x, i);
        fx_tensor_set_i64(places, k, i[axis]);
    } while (fx_tensor_next(x, i));
    return FORNAX_OK;
}

/* ---- Boxes ------------------------------------------------------------------------------------------ */

/* Corners in order: low y, low x, high y, high x. */
static void read_box(const fx_tensor *boxes, int64_t batch, int64_t box, double out[4])
{
    double raw[4];

    for (int64_t e = 0; e < 4; e++)
        raw[e] = fx_tensor_f64(boxes, (int64_t[]){ batch, box, e });
    for (int e = 0; e < 2; e++) {
        out[e] = fmin(raw[e], raw[e + 2]);
        out[e + 2] = fmax(raw[e], raw[e + 2]);
    }
}

/* What two boxes share, as part of what they cover together. */
static double overlap(const double a[4], const double b[4])
{
    double h = fmin(a[2], b[2]) - fmax(a[0], b[0]), w = fmin(a[3], b[3]) - fmax(a[1], b[1]);
    double shared = h > 0 && w > 0 ? h * w : 0;
    double all = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared;

    return all > 0 ? shared / all : 0;
}

/* The best box that nobody has looked at: -1 if there is none above the threshold. */
static int64_t next_box(const fx_ref_call *c, int64_t batch, int64_t cls, const bool *seen)
{
    const fx_tensor *scores = c->in[1];
    int64_t best = -1;
    double most = 0;

    for (int64_t box = 0; box < scores->dim[2]; box++) {
        double score = fx_tensor_f64(scores, (int64_t[]){ batch, cls, box });

        if (!seen[box] && score > fx_ref_f(c, FX_A_MIN_SCORE) && (best < 0 || score > most)) {
            best = box;
            most = score;
        }
    }
    return best;
}

/* The boxes of a class, written from row *n on; kept: room for as many as there are boxes. */
static fx_status one_class(const fx_ref_call *c, int64_t batch, int64_t cls, bool *seen, int64_t *kept, int64_t *n)
{
    const fx_tensor *y = &c->out[0];
    int64_t n_kept = 0, box;

    while (n_kept < fx_ref_i(c, FX_A_MAX_BOXES) && (box = next_box(c, batch, cls, seen)) >= 0) {
        double a[4], b[4];
        bool keep = true;

        seen[box] = true;
        read_box(c->in[0], batch, box, a);
        for (int64_t i = 0; i < n_kept; i++) {
            read_box(c->in[0], batch, kept[i], b);
            keep = keep && !(overlap(a, b) > fx_ref_f(c, FX_A_MAX_OVERLAP));
        }
        if (!keep)
            continue;
        if (*n == y->dim[0])
            return fx_ref_fail(c, "more boxes than out_dim");
        kept[n_kept++] = box;
        for (int64_t e = 0; e < 3; e++)
            fx_tensor_set_i64(y, (int64_t[]){ *n, e }, e == 0 ? batch : e == 1 ? cls : box);
        ++*n;
    }
    return FORNAX_OK;
}

fx_status fx_ref_nms(const fx_ref_call *c)
{
    const fx_tensor *scores = c->in[1];
    size_t boxes = (size_t)scores->dim[2];
    bool *seen = fx_mem_array(c->mem, boxes + 1, sizeof(*seen));
    int64_t *kept = fx_mem_array(c->mem, boxes + 1, sizeof(*kept)), n = 0;
    fx_status st = seen && kept ? FORNAX_OK : fx_nomem(c->err, "boxes");

    for (int64_t batch = 0; st == FORNAX_OK && batch < scores->dim[0]; batch++) {
        for (int64_t cls = 0; st == FORNAX_OK && cls < scores->dim[1]; cls++) {
            memset(seen, 0, boxes);
            st = one_class(c, batch, cls, seen, kept, &n);
        }
    }
    fx_mem_free(c->mem, seen, (boxes + 1) * sizeof(*seen));
    fx_mem_free(c->mem, kept, (boxes + 1) * sizeof(*kept));
    if (st == FORNAX_OK && n != c->out[0].dim[0])
        return fx_ref_fail(c, "fewer boxes than out_dim");
    return st;
}
