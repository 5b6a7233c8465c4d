/* graph_index.c - reshape with a size left open, and NumPy's indexing in terms of slices.
 *
 * An index is worked off item by item.  'axis' is the axis of the value so far that the next item is
 * about: a range moves on by one, a number takes its axis away, a new axis adds one before it. */
#include <stdio.h>

#include "api/graph_api.h"

#undef fornax_op_reshape
#undef fornax_op_index

enum { AT, RANGE, SIZED, NEW_AXIS, REST, BY };

static fx_dim in_dim(fornax_dim d) { return (fx_dim){ d.n, d.expr }; }

static bool is_open(fx_dim d)
{
    return fx_dim_is_static(d) && d.n == -1;
}

/* Whether the size came out; records the fault. */
static bool made(fornax_graph *g, fx_status st)
{
    if (st == FORNAX_ENOMEM)
        return fx_api_no_memory(g);
    return st == FORNAX_OK || fx_api_fault(g, st, "a size is too large, or divided by 0");
}

/* A fault about these types: "what i32[4,5] and i32[3,-1]"; the second may be NULL. */
static void *type_fault(fornax_graph *g, const char *what, const fx_type *a, const fx_type *b)
{
    fx_buf text;

    fx_buf_init(&text, g->owner->arena.mem);
    fx_type_print(a, &text);
    if (b) {
        fx_buf_puts(&text, " to ");
        fx_type_print(b, &text);
    }
    fx_api_fault(g, FORNAX_EARG, "%s%.*s", what, text.failed ? 0 : (int)text.n, text.p ? text.p : "");
    fx_buf_done(&text);
    return NULL;
}

/* ---- Reshape ------------------------------------------------------------------------------ */

/* The size that is left for the open one: what all elements make divided by the others. */
static bool fill_open(fornax_graph *g, const fx_type *x, fx_type *y, int open)
{
    fx_arena *a = &g->owner->arena;
    fx_dim all, others, back;

    y->dim[open] = fx_dim_of(1);
    if (!made(g, fx_count_elements(a, x, &all)) || !made(g, fx_count_elements(a, y, &others)))
        return false;
    if (fx_dim_is_static(others) && others.n == 0)
        return fx_api_fault(g, FORNAX_EARG, "reshape: -1 beside a size of 0 can be anything");
    if (!made(g, fx_dim_div(a, all, others, &y->dim[open])) || !made(g, fx_dim_mul(a, y->dim[open], others, &back)))
        return false;
    if (fx_dim_eq(back, all))
        return true;
    y->dim[open] = fx_dim_of(-1);
    return type_fault(g, "reshape: no size for -1 makes as many elements: ", x, y);
}

fornax_value *fornax_op_reshape(fornax_graph *g, fornax_value *x, const fornax_dim *dims, size_t n)
{
    const fx_value *v = fx_api_value(x);
    fx_type y = { 0 };
    int open = -1;

    if (fx_api_broken(g))
        return NULL;
    if (!v || n > FX_MAX_RANK || (n && !dims))
        return fx_api_fault(g, FORNAX_EARG, "reshape: its value or sizes are NULL, or the sizes too many");
    y.dtype = v->type.dtype;
    y.rank = (int)n;
    for (int i = 0; i < y.rank; i++) {
        y.dim[i] = in_dim(dims[i]);
        if (is_open(y.dim[i]) && open >= 0)
            return fx_api_fault(g, FORNAX_EARG, "reshape: more than one size is -1");
        if (is_open(y.dim[i]))
            open = i;
        else if (fx_dim_is_static(y.dim[i]) && y.dim[i].n < 0)
            return fx_api_fault(g, FORNAX_EARG, "reshape: a size can't be negative");
    }
    if (open >= 0 && !fill_open(g, &v->type, &y, open))
        return NULL;
    return fx_api_of_value(fx_op_result(fx_api_make(
        g, (fx_op_init){ .code = FX_OP_RESHAPE, FX_IN(fx_api_value(x)), FX_ATTRS(FX_AT(TYPE, &y)) })));
}

/* ---- Indexing ------------------------------------------------------------------------------- */

static fx_value *slice(fornax_graph *g, fx_value *v, int axis, fx_dim start, fx_dim size, int64_t step)
{
    if (fx_dim_is_static(start) && start.n == 0 && step == 1 && fx_dim_eq(size, v->type.dim[axis]))
        return v;
    return fx_op_result(fx_api_make(g, (fx_op_init){ .code = FX_OP_SLICE, FX_IN(v),
                                                     FX_ATTRS(FX_AD(START, start), FX_AD(LENGTH, size), FX_AI(AXIS, axis),
                                                              FX_AI(STEP, step)) }));
}

static fx_value *on_axis(fornax_graph *g, fx_opcode code, fx_value *v, int axis)
{
    return fx_op_result(fx_api_make(g, (fx_op_init){ .code = code, FX_IN(v), FX_ATTRS(FX_AI(AXIS, axis)) }));
}

/* A place that may count from the end. */
static bool from_front(fornax_graph *g, fx_dim size, fx_dim *at)
{
    return !fx_dim_is_static(*at) || at->n >= 0 || made(g, fx_dim_add(&g->owner->arena, size, *at, at));
}

/* NumPy's start, stop and step of an axis whose size is a number: clamped, as a start and a length. */
static void clamp_range(const fornax_index *x, int64_t size, int64_t *start, int64_t *length)
{
    bool back = x->step < 0;
    int64_t low = back ? -1 : 0, high = back ? size - 1 : size;
    int64_t a = !(x->given & 1) ? (back ? high : low) : x->start.n < 0 ? FX_MAX(x->start.n + size, low) : FX_MIN(x->start.n, high);
    int64_t b = !(x->given & 2) ? (back ? low : high) : x->stop.n < 0 ? FX_MAX(x->stop.n + size, low) : FX_MIN(x->stop.n, high);
    int64_t reach = back ? a - b : b - a, step = back ? -x->step : x->step;

    *length = reach > 0 ? (reach - 1) / step + 1 : 0;
    *start = *length ? a : 0;
}

static fx_value *take_range(fornax_graph *g, fx_value *v, int axis, const fornax_index *x)
{
    fx_dim size = v->type.dim[axis], start = in_dim(x->start), stop = in_dim(x->stop), length;
    fx_arena *a = &g->owner->arena;
    int64_t first, n;

    if (x->step == 0 || x->step > INT32_MAX || x->step < -INT32_MAX)
        return fx_api_fault(g, FORNAX_EARG, "index: a step is 0 or too large");
    if (fx_dim_is_static(size) && fx_dim_is_static(start) && fx_dim_is_static(stop)) {
        clamp_range(x, size.n, &first, &n);
        return slice(g, v, axis, fx_dim_of(first), fx_dim_of(n), x->step);
    }
    if (x->step < 0)
        return fx_api_fault(g, FORNAX_EARG, "index: backwards only where sizes are numbers; see fornax_index_sized");
    if (!(x->given & 2))
        stop = size;
    if (!from_front(g, size, &start) || !from_front(g, size, &stop) || !made(g, fx_dim_sub(a, stop, start, &length)) ||
        !made(g, fx_dim_add(a, length, fx_dim_of(x->step - 1), &length)) ||
        !made(g, fx_dim_div(a, length, fx_dim_of(x->step), &length)))
        return NULL;
    return slice(g, v, axis, start, length, x->step);
}

static fx_value *take_number(fornax_graph *g, fx_value *v, int axis, const fornax_index *x)
{
    fx_dim start = in_dim(x->start);

    if (!from_front(g, v->type.dim[axis], &start))
        return NULL;
    v = slice(g, v, axis, start, fx_dim_of(1), 1);
    return v ? on_axis(g, FX_OP_SQUEEZE, v, axis) : NULL;
}

/* One item; *axis moves behind what it made. */
static fx_value *take_item(fornax_graph *g, fx_value *v, const fornax_index *x, int *axis)
{
    const fx_value *by = fx_api_value(x->indices);

    switch (x->kind) {
    case AT:
        return take_number(g, v, *axis, x);
    case RANGE:
        return take_range(g, v, (*axis)++, x);
    case SIZED:
        return slice(g, v, (*axis)++, in_dim(x->start), in_dim(x->stop), x->step);
    case NEW_AXIS:
        return on_axis(g, FX_OP_UNSQUEEZE, v, (*axis)++);
    default:
        if (!by)
            return fx_api_fault(g, FORNAX_EARG, "index: a value of indices is NULL");
        v = fx_op_result(fx_api_make(g, (fx_op_init){ .code = FX_OP_GATHER, FX_IN(v, fx_api_value(x->indices)),
                                                      FX_ATTRS(FX_AI(AXIS, *axis)) }));
        *axis += by->type.rank;
        return v;
    }
}

/* How many axes the items take; -1 after a fault. */
static int axes_taken(fornax_graph *g, const fornax_index *items, size_t n, const fx_type *t)
{
    char what[80];
    int taken = 0, rests = 0, by = 0;

    for (size_t i = 0; i < n; i++) {
        if (items[i].kind < AT || items[i].kind > BY)
            return fx_api_fault(g, FORNAX_EARG, "index: item %zu is of no kind", i), -1;
        rests += items[i].kind == REST;
        by += items[i].kind == BY;
        taken += items[i].kind != REST && items[i].kind != NEW_AXIS;
    }
    if (rests > 1 || by > 1)
        return fx_api_fault(g, FORNAX_EARG, "index: more than one rest, or value of indices"), -1;
    if (taken <= t->rank)
        return taken;
    snprintf(what, sizeof(what), "index: %d items for %d axes, of ", taken, t->rank);
    return type_fault(g, what, t, NULL), -1;
}

fornax_value *fornax_op_index(fornax_graph *g, fornax_value *x, const fornax_index *items, size_t n)
{
    fx_value *v = fx_api_value(x);
    int taken, axis = 0;

    if (fx_api_broken(g))
        return NULL;
    if (!v || n > 2 * FX_MAX_RANK || (n && !items))
        return fx_api_fault(g, FORNAX_EARG, "index: its value or items are NULL, or the items too many");
    taken = axes_taken(g, items, n, &v->type);
    if (taken < 0)
        return NULL;
    taken = v->type.rank - taken;
    for (size_t i = 0; v && i < n; i++) {
        if (items[i].kind == REST)
            axis += taken;
        else
            v = take_item(g, v, &items[i], &axis);
    }
    return fx_api_of_value(v);
}
