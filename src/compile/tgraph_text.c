/* tgraph_text.c - a plan as a text, and back.
 *
 * One item a line, counts first: numbers in decimal, names as lengths and bytes, constants' data as it is behind its length.
 * A reader checks every index against what it points into, so that a plan that was read runs like one that was made. */
#include "compile/tgraph_int.h"

#include "fornax_graph.h"

/* ---- Writing ----------------------------------------------------------------------------------------- */

static void put(fx_buf *b, int64_t n) { fx_buf_printf(b, "%lld ", (long long)n); }

static void put_bytes(fx_buf *b, const void *p, size_t n)
{
    put(b, (int64_t)n);
    fx_buf_add(b, p, n);
    fx_buf_putc(b, '\n');
}

static void put_ints(fx_buf *b, const int32_t *at, int32_t n)
{
    put(b, n);
    for (int32_t i = 0; i < n; i++)
        put(b, at[i]);
    fx_buf_putc(b, '\n');
}

static void put_tensor(fx_buf *b, const fx_ktensor *t)
{
    put(b, t->kind);
    put(b, t->dtype);
    put(b, t->index);
    put(b, t->first);
    put(b, t->last);
    put_ints(b, t->dim, t->rank);
    put_bytes(b, t->name.p, t->name.n);
    put_bytes(b, t->data, t->data ? (size_t)t->data_bytes : 0);
}

static void put_custom(fx_buf *b, const fx_kcustom *c)
{
    put_bytes(b, c->kernel.p, c->kernel.n);
    put(b, c->n_in);
    put(b, c->n_params);
    for (int32_t i = 0; i < c->n_params; i++) {
        put_bytes(b, c->params[i].name.p, c->params[i].name.n);
        put(b, c->params[i].kind);
        put(b, c->params[i].i);
        put_bytes(b, c->params[i].s.p, c->params[i].s.n);
    }
}

void fx_kplan_write(const fx_kplan *p, const fx_str *names, fx_buf *b)
{
    put(b, FX_KPLAN_VERSION);
    put(b, p->n_kernels);
    for (int32_t i = 0; i < p->n_kernels; i++)
        put_bytes(b, names[i].p, names[i].n);
    put(b, p->n_symbols);
    for (int32_t i = 0; i < p->n_symbols; i++)
        put_bytes(b, p->symbols[i].p, p->symbols[i].n);
    put(b, p->n_steps);
    for (int32_t i = 0; i < p->n_steps; i++) {
        put(b, p->steps[i].code);
        put(b, p->steps[i].n);
    }
    put(b, p->n_sizes);
    for (int32_t i = 0; i < p->n_sizes; i++) {
        put(b, p->sizes[i].first);
        put(b, p->sizes[i].n);
    }
    put(b, p->n_tensors);
    for (int32_t i = 0; i < p->n_tensors; i++)
        put_tensor(b, &p->tensors[i]);
    put(b, p->n_launches);
    for (int32_t i = 0; i < p->n_launches; i++) {
        put(b, p->launches[i].kind);
        put(b, p->launches[i].pred);
        put(b, p->launches[i].n_first);
        put(b, p->launches[i].n_second);
        put(b, p->launches[i].kernel);
        put_ints(b, p->launches[i].args, p->launches[i].n_args);
        put_ints(b, p->launches[i].buffers, p->launches[i].n_buffers);
        put_bytes(b, p->launches[i].origin.p, p->launches[i].origin.n);
        put_bytes(b, p->launches[i].op.p, p->launches[i].op.n);
        put_bytes(b, p->launches[i].text.p, p->launches[i].text.n);
    }
    put_ints(b, p->inputs, p->n_inputs);
    put_ints(b, p->outputs, p->n_outputs);
    put(b, p->n_libraries);
    for (int32_t i = 0; i < p->n_libraries; i++)
        put_bytes(b, p->libraries[i].p, p->libraries[i].n);
    put(b, p->n_customs);
    for (int32_t i = 0; i < p->n_customs; i++)
        put_custom(b, &p->customs[i]);
}

/* ---- Reading --------------------------------------------------------------------------------------------- */

#define MAX_NESTING 64           /* of loops and choices */

typedef struct reader {
    fx_arena *arena;
    fx_str text;
    size_t at;
    bool bad, no_memory;
} reader;

static int64_t get(reader *r, int64_t lo, int64_t hi)
{
    bool minus = false, any = false;
    uint64_t n = 0;

    if (r->at < r->text.n && r->text.p[r->at] == '\n')
        r->at++;
    if (r->at < r->text.n && r->text.p[r->at] == '-') {
        minus = true;
        r->at++;
    }
    for (; r->at < r->text.n && r->text.p[r->at] >= '0' && r->text.p[r->at] <= '9' && n < UINT64_MAX / 20; r->at++) {
        n = n * 10 + (uint64_t)(r->text.p[r->at] - '0');
        any = true;
    }
    if (!any || r->at >= r->text.n || r->text.p[r->at++] != ' ' || n > (uint64_t)INT64_MAX)
        r->bad = true;
    n = minus ? 0 - n : n;
    if (r->bad || (int64_t)n < lo || (int64_t)n > hi) {
        r->bad = true;
        return lo;
    }
    return (int64_t)n;
}

/* A count of things that take at least a byte each. */
static int32_t count(reader *r)
{
    int64_t left = (int64_t)(r->text.n - r->at);

    return (int32_t)get(r, 0, FX_MIN(left, INT32_MAX / 2));
}

static void *room(reader *r, int32_t n, size_t each)
{
    void *p = r->bad ? NULL : fx_arena_array(r->arena, (size_t)n + 1, each);

    if (!p && !r->bad)
        r->no_memory = true;
    r->bad = r->bad || !p;
    return p;
}

static fx_str get_bytes(reader *r)
{
    int32_t n = count(r);
    fx_str s = { "", 0 };
    char *p;

    if (r->bad || r->text.n - r->at < (size_t)n + 1)
        r->bad = true;
    p = r->bad ? NULL : room(r, n + 16, 1);
    if (!p)
        return s;
    memcpy(p, r->text.p + r->at, (size_t)n);
    r->at += (size_t)n;
    r->bad = r->text.p[r->at++] != '\n';
    return fx_str_n(p, (size_t)n);
}

static int32_t *get_ints(reader *r, int32_t *n, int64_t hi)
{
    int32_t *p;

    *n = count(r);
    p = room(r, *n, sizeof(*p));
    for (int32_t i = 0; p && i < *n; i++)
        p[i] = (int32_t)get(r, 0, hi);
    return p;
}

static fx_str *get_names(reader *r, int32_t *n)
{
    fx_str *p;

    *n = count(r);
    p = room(r, *n, sizeof(*p));
    for (int32_t i = 0; p && i < *n && !r->bad; i++)
        p[i] = get_bytes(r);
    return p;
}

static void get_sizes(reader *r, fx_kplan *p)
{
    p->n_steps = count(r);
    p->steps = room(r, p->n_steps, sizeof(*p->steps));
    for (int32_t i = 0; i < p->n_steps && !r->bad; i++) {
        p->steps[i].code = (fx_size_code)get(r, FX_SIZE_NUM, FX_SIZE_DIV);
        p->steps[i].n = p->steps[i].code == FX_SIZE_SYMBOL ? get(r, 0, p->n_symbols - 1) : get(r, INT64_MIN / 4, INT64_MAX / 4);
    }
    p->n_sizes = count(r);
    p->sizes = room(r, p->n_sizes, sizeof(*p->sizes));
    for (int32_t i = 0; i < p->n_sizes && !r->bad; i++) {
        p->sizes[i].first = (int32_t)get(r, 0, p->n_steps);
        p->sizes[i].n = (int32_t)get(r, 1, p->n_steps - p->sizes[i].first);
    }
}

static void get_tensor(reader *r, const fx_kplan *p, fx_ktensor *t)
{
    int32_t *dim;
    fx_str data;

    t->kind = (fx_ktensor_kind)get(r, FX_KTENSOR_INPUT, FX_KTENSOR_CONST);
    t->dtype = (fx_dtype)get(r, FX_BOOL, FX_F8E5M2);
    t->index = (int32_t)get(r, 0, INT32_MAX / 2);
    t->first = (int32_t)get(r, -1, INT32_MAX / 2);
    t->last = (int32_t)get(r, -1, INT32_MAX / 2);
    dim = get_ints(r, &t->rank, p->n_sizes - 1);
    r->bad = r->bad || t->rank > FX_KIR_MAX_RANK;
    for (int i = 0; !r->bad && i < t->rank; i++)
        t->dim[i] = dim[i];
    t->name = get_bytes(r);
    data = get_bytes(r);
    t->data = data.n ? data.p : NULL;
    t->data_bytes = (int64_t)data.n;
}

/* What a choice or loop has behind it must be there, in the one around it too; a kernel has nothing. */
static void check_nesting(reader *r, const fx_kplan *p, int32_t i, int32_t end, int depth)
{
    while (i < end && !r->bad) {
        const fx_klaunch *n = &p->launches[i++];
        const fx_ktensor *pred = &p->tensors[n->pred];

        if (n->kind != FX_KLAUNCH_COND && n->kind != FX_KLAUNCH_WHILE) {
            r->bad = n->n_first || n->n_second;
            continue;
        }
        r->bad = depth > MAX_NESTING || p->n_tensors == 0 || n->n_first > end - i || n->n_second > end - i - n->n_first ||
                 pred->dtype != FX_BOOL || pred->rank != 0;
        if (r->bad)
            return;
        check_nesting(r, p, i, i + n->n_first, depth + 1);
        check_nesting(r, p, i + n->n_first, i + n->n_first + n->n_second, depth + 1);
        i += n->n_first + n->n_second;
    }
}

static void get_launch(reader *r, const fx_kplan *p, fx_klaunch *n)
{
    n->kind = (fx_klaunch_kind)get(r, FX_KLAUNCH_KERNEL, FX_KLAUNCH_PRINT);
    n->pred = (int32_t)get(r, 0, FX_MAX(p->n_tensors - 1, 0));
    n->n_first = (int32_t)get(r, 0, p->n_launches);
    n->n_second = (int32_t)get(r, 0, p->n_launches);
    n->kernel = (int32_t)get(r, 0, n->kind == FX_KLAUNCH_KERNEL ? p->n_kernels - 1 : INT32_MAX / 2);
    n->args = get_ints(r, &n->n_args, p->n_sizes - 1);
    n->buffers = get_ints(r, &n->n_buffers, p->n_tensors - 1);
    n->origin = get_bytes(r);
    n->op = get_bytes(r);
    n->text = get_bytes(r);
}

static void get_custom(reader *r, fx_kcustom *c)
{
    fx_kparam *params;

    c->kernel = get_bytes(r);
    c->n_in = (int32_t)get(r, 0, FX_KCUSTOM_MAX);
    c->n_params = (int32_t)get(r, 0, FX_KCUSTOM_MAX);
    c->params = params = room(r, c->n_params, sizeof(*params));
    for (int32_t i = 0; i < c->n_params && !r->bad; i++) {
        params[i].name = get_bytes(r);
        params[i].kind = (int32_t)get(r, 0, FORNAX_PARAM_DTYPE);
        params[i].i = get(r, INT64_MIN / 4, INT64_MAX / 4);
        params[i].s = get_bytes(r);
    }
}

/* A launch of a package's kernel names one of them, with its operands. */
static void check_customs(reader *r, const fx_kplan *p)
{
    for (int32_t i = 0; i < p->n_launches && !r->bad; i++) {
        const fx_klaunch *n = &p->launches[i];

        if (n->kind == FX_KLAUNCH_CUSTOM)
            r->bad = n->kernel >= p->n_customs || n->n_buffers > FX_KCUSTOM_MAX || n->n_buffers < p->customs[n->kernel].n_in;
    }
}

/* Launches that are no kernels have operands of the kinds that they take. */
static void check_plain(reader *r, const fx_kplan *p)
{
    for (int32_t i = 0; i < p->n_launches && !r->bad; i++) {
        const fx_klaunch *n = &p->launches[i];
        const fx_ktensor *pred = &p->tensors[n->pred], *from = n->n_buffers > 0 ? &p->tensors[n->buffers[0]] : NULL,
                         *to = n->n_buffers > 1 ? &p->tensors[n->buffers[1]] : NULL;

        if (n->kind == FX_KLAUNCH_SIZE)
            r->bad = n->n_args < 1 || n->n_args > 2 || (n->n_args == 1 && p->n_tensors == 0) ||
                     (n->n_args == 1 && (pred->dtype != FX_I64 || pred->rank != 0));
        else if (n->kind == FX_KLAUNCH_PRINT)
            r->bad = n->n_buffers > 1;
        else if (n->kind == FX_KLAUNCH_UNPACK)
            r->bad = n->n_buffers != 2 || n->kernel >= FX_DTYPE_COUNT || !fx_dtype_is_quant((fx_dtype)n->kernel) ||
                     !fx_dequantize_supports((fx_dtype)n->kernel) || from->dtype != FX_U8 || to->dtype != FX_F32 ||
                     from->rank < 1 || from->rank != to->rank;
    }
}

/* Inputs and outputs are tensors of that kind, and say so. */
static void check_ends(reader *r, const fx_kplan *p)
{
    for (int32_t i = 0; i < p->n_tensors && !r->bad; i++) {
        const fx_ktensor *t = &p->tensors[i];
        int32_t n = t->kind == FX_KTENSOR_INPUT ? p->n_inputs : t->kind == FX_KTENSOR_OUTPUT ? p->n_outputs : INT32_MAX;

        r->bad = t->index >= n;
    }
    for (int32_t i = 0; i < p->n_inputs && !r->bad; i++)
        r->bad = p->tensors[p->inputs[i]].kind != FX_KTENSOR_INPUT || p->tensors[p->inputs[i]].index != i;
    for (int32_t i = 0; i < p->n_outputs && !r->bad; i++)
        r->bad = p->tensors[p->outputs[i]].kind != FX_KTENSOR_OUTPUT || p->tensors[p->outputs[i]].index != i;
}

static void get_plan(reader *r, fx_kplan *p, fx_str **names)
{
    get(r, FX_KPLAN_VERSION, FX_KPLAN_VERSION);
    *names = get_names(r, &p->n_kernels);
    p->symbols = get_names(r, &p->n_symbols);
    get_sizes(r, p);
    p->n_tensors = count(r);
    p->tensors = room(r, p->n_tensors, sizeof(*p->tensors));
    for (int32_t i = 0; i < p->n_tensors && !r->bad; i++)
        get_tensor(r, p, &p->tensors[i]);
    p->n_launches = count(r);
    p->launches = room(r, p->n_launches, sizeof(*p->launches));
    for (int32_t i = 0; i < p->n_launches && !r->bad; i++)
        get_launch(r, p, &p->launches[i]);
    if (!r->bad)
        check_nesting(r, p, 0, p->n_launches, 0);
    p->inputs = get_ints(r, &p->n_inputs, p->n_tensors - 1);
    p->outputs = get_ints(r, &p->n_outputs, p->n_tensors - 1);
    p->libraries = get_names(r, &p->n_libraries);
    p->n_customs = count(r);
    p->customs = room(r, p->n_customs, sizeof(*p->customs));
    for (int32_t i = 0; i < p->n_customs && !r->bad; i++)
        get_custom(r, &p->customs[i]);
    if (!r->bad)
        check_customs(r, p);
    if (!r->bad)
        check_plain(r, p);
    if (!r->bad)
        check_ends(r, p);
    if (r->at < r->text.n && r->text.p[r->at] == '\n')
        r->at++;
    r->bad = r->bad || r->at != r->text.n;
}

fx_status fx_kplan_read(fx_arena *arena, const char *path, fx_str text, fx_kplan **out, fx_str **names, fx_error *err)
{
    reader r = { .arena = arena, .text = text };
    fx_kplan *p = FX_ARENA_NEW(arena, fx_kplan);

    if (!p)
        return fx_nomem(err, "a plan");
    get_plan(&r, p, names);
    if (r.no_memory)
        return fx_nomem(err, "a plan");
    if (r.bad)
        return fx_fail(err, FORNAX_EFORMAT, "%s: its plan is malformed near byte %zu", path, r.at);
    *out = p;
    return FORNAX_OK;
}
