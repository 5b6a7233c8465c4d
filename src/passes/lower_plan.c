/* lower_plan.c - a graph becomes launches over buffers.
 *
 * Ops are taken in order, each by the function of its row in lowerings[].  A value of rows
 * lies in a place: a buffer and its first column.  Views (slice, reshape) make no launch: their
 * place is inside another's.  A result goes in place of an operand where the kernel allows it
 * (tensor/args.h) and nothing that lies there is read later.
 *
 * Values known before a step (weights, constants, and concat or cast of such) become plan
 * weights and constants at the slot that reads them. */
#include "passes/passes.h"

typedef struct place {
    bool set;
    int32_t buf;
    int64_t col, cols;
    int32_t last;                /* op that reads it last */
    struct place *next;          /* in the same buffer */
} place;

typedef struct lower {
    const fx_graph *g;
    fx_arena *arena;             /* of the plan */
    fx_arena scratch;
    const fx_mem *mem;
    fx_error *err;
    fx_plan *plan;
    FX_VEC(fx_launch) launches;
    FX_VEC(fx_plan_buf) bufs;
    FX_VEC(fx_plan_weight) weights;
    FX_VEC(fx_plan_const) consts;
    FX_VEC(place *) in_buf;      /* head of the places in each buffer */
    fx_map places;               /* value to place* */
    fx_map weight_ids;           /* spelling of a plan weight to its index */
    int32_t at;                  /* op being lowered */
    bool adapters;
    bool no_memory;
} lower;

static fx_status unsupported(lower *l, const fx_op *op, const char *what)
{
    return fx_fail(l->err, FORNAX_EUNSUP, "graph %.*s: %s (%.*s): %s", FX_STR_ARG(l->g->name), fx_opcode_name(op->code),
                   FX_STR_ARG(fx_op_label(op)), what);
}

static fx_status no_memory(lower *l)
{
    return fx_nomem(l->err, "a plan");
}

static fx_str keep(lower *l, fx_str s)
{
    char *p = fx_arena_strdup(l->arena, s.p, s.n);

    if (!p)
        l->no_memory = true;
    return fx_str_n(p ? p : "", p ? s.n : 0);
}

/* ---- Places ------------------------------------------------------------------------------------ */

static place *place_of(lower *l, fx_value *v)
{
    uint64_t at = 0;

    return fx_map_get(&l->places, fx_str_n((const char *)&v, sizeof(v)), &at) ? (place *)(uintptr_t)at : NULL;
}

static int32_t last_reader(const fx_value *v)
{
    int32_t last = -1;

    for (const fx_use *u = v->uses; u; u = u->next)
        last = FX_MAX(last, u->user->order);
    return last;
}

static bool set_place(lower *l, fx_value *v, int32_t buf, int64_t col, int64_t cols)
{
    place *p = FX_ARENA_NEW(&l->scratch, place);
    fx_value **key = FX_ARENA_NEW(&l->scratch, fx_value *);

    if (!p || !key)
        return false;
    *key = v;
    *p = (place){ true, buf, col, cols, last_reader(v), l->in_buf.at[buf] };
    l->in_buf.at[buf] = p;
    return fx_map_put(&l->places, fx_str_n((const char *)key, sizeof(*key)), (uint64_t)(uintptr_t)p);
}

/* The step's rows or those wanted; false if the first axis is neither. */
static bool rows_of(const fx_type *t, fx_rows_of *out)
{
    fx_str name;

    if (t->rank < 1 || !fx_dim_is_symbol(t->dim[0], &name))
        return false;
    *out = fx_str_is(name, "outs") ? FX_ROWS_LOGITS : FX_ROWS_STEP;
    return fx_str_is(name, "rows") || fx_str_is(name, "outs");
}

static bool cols_of(const fx_type *t, int64_t *out)
{
    int64_t n = 1;

    for (int i = 1; i < t->rank; i++) {
        if (!fx_dim_is_static(t->dim[i]) || t->dim[i].n < 1 || n > INT64_MAX / t->dim[i].n)
            return false;
        n *= t->dim[i].n;
    }
    *out = n;
    return true;
}

/* A buffer of its own for v. */
static fx_status new_place(lower *l, fx_value *v)
{
    fx_plan_buf buf = { .q8 = v->type.dtype == FX_Q8_ACT };

    if (!rows_of(&v->type, &buf.rows) || !cols_of(&v->type, &buf.cols) || (v->type.dtype != FX_F32 && !buf.q8))
        return unsupported(l, v->def, "a result that isn't rows of f32 or q8");
    if (!FX_VEC_PUSH(&l->bufs, l->mem, buf) || !FX_VEC_PUSH(&l->in_buf, l->mem, NULL) ||
        !set_place(l, v, (int32_t)l->bufs.n - 1, 0, buf.cols))
        return no_memory(l);
    return FORNAX_OK;
}

static bool overlap(const place *a, const place *b)
{
    return a->buf == b->buf && a->col < b->col + b->cols && b->col < a->col + a->cols;
}

/* Whether the op being lowered is the last to read anything that lies where v lies. */
static bool dies_here(lower *l, fx_value *v)
{
    const place *p = v ? place_of(l, v) : NULL;

    if (!p)
        return false;
    for (const place *q = l->in_buf.at[p->buf]; q; q = q->next) {
        if (overlap(p, q) && q->last > l->at)
            return false;
    }
    return true;
}

static bool overlaps(lower *l, fx_value *a, fx_value *b)
{
    const place *pa = a ? place_of(l, a) : NULL, *pb = b ? place_of(l, b) : NULL;

    return pa && pb && overlap(pa, pb);
}

/* v goes where 'over' lies if that dies here and is of the same width, else to a new buffer. */
static fx_status place_over(lower *l, fx_value *v, fx_value *over)
{
    const place *p = dies_here(l, over) ? place_of(l, over) : NULL;
    int64_t cols;

    if (!p || !cols_of(&v->type, &cols) || cols != p->cols)
        return new_place(l, v);
    return set_place(l, v, p->buf, p->col, p->cols) ? FORNAX_OK : no_memory(l);
}

static fx_ref buf_ref(lower *l, fx_value *v)
{
    const place *p = place_of(l, v);

    return (fx_ref){ FX_REF_BUF, p->buf, p->col };
}

/* ---- Weights and constants --------------------------------------------------------------------------- */

/* A tensor, or rows of one or of a transposed one, as source of w; false: it is something else. */
static bool add_tensor(fx_plan_weight *w, fx_op *op)
{
    fx_plan_part part = { 0 };

    if (w->n_src >= FX_PLAN_MAX_SRC)
        return false;
    if (op->code == FX_OP_ROWS) {
        part.start = fx_op_i(op, FX_A_START);
        part.rows = fx_op_i(op, FX_A_LENGTH);
        part.run = fx_op_i(op, FX_A_RUN) ? fx_op_i(op, FX_A_RUN) : part.rows;
        part.stride = fx_op_i(op, FX_A_STRIDE) ? fx_op_i(op, FX_A_STRIDE) : part.run;
        op = fx_op_in(op, 0)->def;
    }
    if (op && op->code == FX_OP_TRANSPOSE) {
        if (op->out[0].type.rank != 2 || fx_op_axis(op, FX_A_AXIS_A, 2) == fx_op_axis(op, FX_A_AXIS_B, 2))
            return false;
        part.transposed = true;
        op = fx_op_in(op, 0)->def;
    }
    if (!op || op->code != FX_OP_WEIGHT)
        return false;
    fx_str name = fx_op_attr(op, FX_A_NAME)->u.s;
    w->part[w->n_src] = part;
    w->src[w->n_src++] = name.n ? name : op->out[0].name;
    return true;
}

/* Adds the tensors that v is made of to w; false if it is made of something else. */
static bool add_sources(fx_plan_weight *w, const fx_value *v, bool *cast)
{
    fx_op *op = v->def;

    if (!op)
        return false;
    if (op->code == FX_OP_CONCAT) {
        if (fx_op_i(op, FX_A_AXIS) != 0 && fx_op_i(op, FX_A_AXIS) != -op->out[0].type.rank)
            return false;
        for (int i = 0; i < op->n_in; i++) {
            if (!add_sources(w, fx_op_in(op, i), cast))
                return false;
        }
        return true;
    }
    if (op->code == FX_OP_CAST) {
        *cast = true;
        return add_sources(w, fx_op_in(op, 0), cast);
    }
    return op && add_tensor(w, op);
}

/* "blk.0.attn_q+attn_k": the first name, then what follows the last dot of the others; of
 * biases "blk.0.attn_q+attn_k.bias". */
static fx_str spell(lower *l, const fx_plan_weight *w)
{
    bool bias = fx_str_ends(w->src[0], FX_STR(".bias"));
    fx_str suffix = bias ? FX_STR(".bias") : FX_STR(".weight");
    fx_buf b;
    fx_str out;

    fx_buf_init(&b, l->mem);
    for (int32_t i = 0; i < w->n_src; i++) {
        fx_str s = w->src[i];

        if (fx_str_ends(s, suffix))
            s.n -= suffix.n;
        for (size_t k = s.n; i > 0 && k > 0; k--) {
            if (s.p[k - 1] == '.') {
                s = fx_str_n(s.p + k, s.n - k);
                break;
            }
        }
        fx_buf_puts(&b, i ? "+" : "");
        fx_buf_str(&b, s);
    }
    fx_buf_puts(&b, bias ? ".bias" : "");
    out = keep(l, fx_buf_view(&b));
    l->no_memory = l->no_memory || b.failed;
    fx_buf_done(&b);
    return out;
}

/* The key of a plan weight: everything that makes it another. */
static fx_str weight_key(lower *l, const fx_plan_weight *w)
{
    fx_buf b;
    char *p;
    fx_str out = { NULL, 0 };

    fx_buf_init(&b, l->mem);
    fx_buf_printf(&b, "%d %d %d %d", (int)w->use, w->paired, w->q8, (int)w->dtype);
    for (int32_t i = 0; i < w->n_src; i++) {
        const fx_plan_part *t = &w->part[i];

        fx_buf_printf(&b, "\n%lld %lld %lld %lld %d ", (long long)t->start, (long long)t->rows, (long long)t->run,
                      (long long)t->stride, t->transposed);
        fx_buf_str(&b, w->src[i]);
    }
    p = b.failed ? NULL : fx_arena_strdup(&l->scratch, b.p, b.n);
    if (p)
        out = fx_str_n(p, b.n);
    fx_buf_done(&b);
    return out;
}

static fx_status weight_index(lower *l, fx_plan_weight *w, fx_ref *out)
{
    fx_str key = weight_key(l, w);
    uint64_t index;

    if (!key.p)
        return no_memory(l);
    if (!fx_map_get(&l->weight_ids, key, &index)) {
        w->name = spell(l, w);
        for (int32_t i = 0; i < w->n_src; i++)
            w->src[i] = keep(l, w->src[i]);
        index = l->weights.n;
        if (!FX_VEC_PUSH(&l->weights, l->mem, *w) || !fx_map_put(&l->weight_ids, key, index) || l->no_memory)
            return no_memory(l);
    }
    *out = (fx_ref){ FX_REF_WEIGHT, (int32_t)index, 0 };
    return FORNAX_OK;
}

static fx_status weight_ref(lower *l, const fx_op *op, fx_weight_use use, const fx_value *a, const fx_value *b,
                            bool q8, fx_ref *out)
{
    fx_plan_weight w = { .use = use, .q8 = q8, .paired = b != NULL, .dtype = FX_DTYPE_COUNT };
    bool cast = false;

    if (!add_sources(&w, a, &cast) || (b && !add_sources(&w, b, &cast)))
        return unsupported(l, op, "weights that aren't tensors of the file, casts or rows of such");
    if (b && w.n_src != 2)
        return unsupported(l, op, "a gate of weights in several parts");
    w.rows = a->type.rank == 2 ? a->type.dim[0].n : 1;
    w.cols = fx_type_last(&a->type).n;
    if (b)
        w.rows += b->type.dim[0].n;
    if (cast)
        w.dtype = a->type.dtype;
    if (cast && use == FX_USE_VECTOR && a->type.dtype != FX_F32)
        return unsupported(l, op, "a rounded vector");
    if (use == FX_USE_TABLE && w.n_src != 1)
        return unsupported(l, op, "a table of several tensors");
    if (use == FX_USE_VECTOR) {          /* of any shape */
        w.dtype = FX_F32;
        w.rows = 1;
        for (int i = 0; i + 1 < a->type.rank; i++)
            w.rows *= a->type.dim[i].n;
    }
    return weight_index(l, &w, out);
}

static bool same_floats(const fx_plan_const *c, const float *at, int64_t n)
{
    return c->n == n && memcmp(c->at, at, (size_t)n * sizeof(float)) == 0;
}

/* A vector slot: a constant, or a vector of the file. NULL v leaves the slot empty. */
static fx_status vector_ref(lower *l, const fx_op *op, const fx_value *v, fx_ref *out)
{
    const fx_attr *a;
    fx_plan_const c;
    float *copy;

    if (!v)
        return FORNAX_OK;
    if (!fx_def_of(v, FX_OP_CONSTANT))
        return weight_ref(l, op, FX_USE_VECTOR, v, NULL, false, out);
    a = fx_op_attr(v->def, FX_A_VALUES);
    for (size_t i = 0; i < l->consts.n; i++) {
        if (same_floats(&l->consts.at[i], a->u.v.at, a->u.v.n)) {
            *out = (fx_ref){ FX_REF_CONST, (int32_t)i, 0 };
            return FORNAX_OK;
        }
    }
    copy = FX_ARENA_NEWN(l->arena, float, (size_t)a->u.v.n + 1);
    if (!copy)
        return no_memory(l);
    memcpy(copy, a->u.v.at, (size_t)a->u.v.n * sizeof(float));
    c = (fx_plan_const){ copy, a->u.v.n };
    *out = (fx_ref){ FX_REF_CONST, (int32_t)l->consts.n, 0 };
    return FX_VEC_PUSH(&l->consts, l->mem, c) ? FORNAX_OK : no_memory(l);
}

/* ---- Ops ------------------------------------------------------------------------------------------------ */

/* A launch for op, its rows those of v. */
static fx_launch launch_of(lower *l, const fx_op *op, fx_launch_op code, const fx_value *v)
{
    fx_launch n = { .op = code, .layer = -1, .origin = keep(l, fx_op_label(op)) };

    rows_of(&v->type, &n.rows);
    return n;
}

static fx_status push(lower *l, const fx_launch *n)
{
    return FX_VEC_PUSH(&l->launches, l->mem, *n) && !l->no_memory ? FORNAX_OK : no_memory(l);
}

/* Operand i as rows of a buffer. */
static fx_status row_ref(lower *l, const fx_op *op, int i, fx_ref *out)
{
    fx_value *v = fx_op_in(op, i);

    if (!v)
        return FORNAX_OK;
    if (!place_of(l, v))
        return unsupported(l, op, "an operand that isn't rows made by another op");
    *out = buf_ref(l, v);
    return FORNAX_OK;
}

/* Operand i must be the graph's input with this name ("tokens"), which the row table has. */
static fx_status step_input(lower *l, const fx_op *op, int i, const char *name)
{
    const fx_value *v = fx_op_in(op, i);

    if (!fx_def_of(v, FX_OP_INPUT) || !fx_str_is(v->name, name))
        return unsupported(l, op, "row numbers that aren't the step's own");
    return FORNAX_OK;
}

static fx_status lower_nothing(lower *l, fx_op *op)
{
    (void)l, (void)op;
    return FORNAX_OK;
}

static fx_status lower_unsupported(lower *l, fx_op *op)
{
    return unsupported(l, op, "has no kernel here");
}

/* Known before the step: its readers find it. */
static fx_status lower_known(lower *l, fx_op *op)
{
    return fx_value_is_const(&op->out[0]) ? FORNAX_OK : lower_unsupported(l, op);
}

static fx_status lower_embed(lower *l, fx_op *op)
{
    fx_launch n = launch_of(l, op, FX_L_EMBED, &op->out[0]);
    const fx_type *table = &fx_op_in(op, 1)->type;

    n.args.embed.by_position = fx_str_is(fx_op_in(op, 0)->name, "positions");
    FX_TRY(step_input(l, op, 0, n.args.embed.by_position ? "positions" : "tokens"));
    FX_TRY(new_place(l, &op->out[0]));
    FX_TRY(weight_ref(l, op, FX_USE_TABLE, fx_op_in(op, 1), NULL, false, &n.in[0]));
    n.out[0] = buf_ref(l, &op->out[0]);
    n.args.embed.n_vocab = table->dim[0].n;
    n.args.embed.dim = table->dim[1].n;
    n.args.embed.scale = (float)fx_op_f(op, FX_A_SCALE);
    return push(l, &n);
}

/* sum over x or residual, y over x where the sum isn't there. */
static fx_status place_norm(lower *l, fx_value *x, fx_value *residual, fx_value *sum, fx_value *y, fx_value *q)
{
    if (sum && sum->uses)
        FX_TRY(place_over(l, sum, dies_here(l, x) ? x : residual));
    if (y && y->uses)
        FX_TRY(sum && sum->uses && overlaps(l, sum, x) ? new_place(l, y) : place_over(l, y, x));
    if (q && q->uses)
        FX_TRY(new_place(l, q));
    return FORNAX_OK;
}

static fx_status lower_norm(lower *l, fx_op *op)
{
    bool plain = op->code == FX_OP_RMSNORM;
    fx_value *x = fx_op_in(op, 0), *residual = plain ? NULL : fx_op_in(op, 1), *w = fx_op_in(op, plain ? 1 : 2);
    fx_value *out[3] = { plain ? NULL : &op->out[0], plain ? &op->out[0] : &op->out[1],
                         op->code == FX_OP_RMSNORM_QUANT ? &op->out[2] : NULL };
    fx_launch n = launch_of(l, op, FX_L_RMSNORM, x);

    FX_TRY(row_ref(l, op, 0, &n.in[0]));
    if (residual)
        FX_TRY(row_ref(l, op, 1, &n.in[1]));
    FX_TRY(vector_ref(l, op, w, &n.in[2]));
    FX_TRY(place_norm(l, x, residual, out[0], out[1], out[2]));
    for (int i = 0; i < 3; i++) {
        if (out[i] && out[i]->uses)
            n.out[i] = buf_ref(l, out[i]);
    }
    n.args.rmsnorm.eps = (float)fx_op_f(op, FX_A_EPS);
    n.args.rmsnorm.w_offset = (float)fx_op_f(op, FX_A_OFFSET);
    n.args.rmsnorm.dim = w->type.dim[0].n;
    n.args.rmsnorm.n_groups = place_of(l, x)->cols / w->type.dim[0].n;
    return push(l, &n);
}

static fx_status lower_layernorm(lower *l, fx_op *op)
{
    fx_value *x = fx_op_in(op, 0), *w = fx_op_in(op, 1), *b = fx_op_in(op, 2);
    fx_launch n = launch_of(l, op, FX_L_LAYERNORM, x);
    fx_layernorm_args *a = &n.args.layernorm;

    FX_TRY(row_ref(l, op, 0, &n.in[0]));
    FX_TRY(vector_ref(l, op, w, &n.in[1]));
    FX_TRY(vector_ref(l, op, b, &n.in[2]));
    FX_TRY(place_over(l, &op->out[0], x));
    n.out[0] = buf_ref(l, &op->out[0]);
    a->eps = (float)fx_op_f(op, FX_A_EPS);
    a->w_offset = (float)fx_op_f(op, FX_A_OFFSET);
    a->n_groups = fx_op_i(op, FX_A_GROUPS);
    a->dim = fx_type_last(&x->type).n / a->n_groups;
    a->w_step = w && w->type.dim[0].n != a->dim ? a->dim : 0;
    a->b_step = b && b->type.dim[0].n != a->dim ? a->dim : 0;
    return push(l, &n);
}

/* The launch behind which op comes, if it can round its result x by itself: a product's tiles and attention's heads must
 * be whole blocks. */
static fx_launch *rounding(lower *l, fx_value *x)
{
    const place *p = place_of(l, x);
    fx_launch *n = l->launches.n ? &l->launches.at[l->launches.n - 1] : NULL;
    int64_t cols, piece;

    if (!p || !n || (n->op != FX_L_MATMUL && n->op != FX_L_ATTEND) || n->out[0].kind == FX_REF_NONE || n->out[1].kind != FX_REF_NONE)
        return NULL;
    cols = n->op == FX_L_MATMUL ? n->args.matmul.n : (int64_t)n->args.attend.heads * n->args.attend.v_dim;
    piece = n->op == FX_L_MATMUL ? cols : n->args.attend.v_dim;
    return n->out[0].index == p->buf && n->out[0].col == p->col && cols == p->cols && piece % 32 == 0 ? n : NULL;
}

/* Whether n's result is a buffer of its own with nothing but the sums of int8 products: if it is only rounded, it need not be there. */
static bool sums_alone(lower *l, const fx_launch *n)
{
    return n->op == FX_L_MATMUL && l->bufs.at[n->in[0].index].q8 && n->in[2].kind == FX_REF_NONE && n->in[3].kind == FX_REF_NONE &&
           n->args.matmul.epi.scale == 1 && !l->in_buf.at[n->out[0].index]->next;
}

static fx_status lower_quant(lower *l, fx_op *op)
{
    fx_launch *by = rounding(l, fx_op_in(op, 0)), n;

    if (by) {
        FX_TRY(new_place(l, &op->out[0]));
        by->out[1] = buf_ref(l, &op->out[0]);
        if (sums_alone(l, by) && !fx_op_in(op, 0)->uses->next) {
            l->bufs.at[by->out[0].index].cols = 0;
            by->out[0] = (fx_ref){ 0 };
        }
        return FORNAX_OK;
    }
    n = launch_of(l, op, FX_L_QUANT, &op->out[0]);
    FX_TRY(row_ref(l, op, 0, &n.in[0]));
    FX_TRY(new_place(l, &op->out[0]));
    n.out[0] = buf_ref(l, &op->out[0]);
    return push(l, &n);
}

static fx_status lower_product(lower *l, fx_op *op)
{
    bool gate = op->code == FX_OP_GATE;
    fx_value *x = fx_op_in(op, 0), *w = fx_op_in(op, 1), *y = &op->out[0], *residual = gate ? NULL : fx_op_in(op, 3);
    fx_launch n = launch_of(l, op, FX_L_MATMUL, y);

    if (!fx_dim_is_static(w->type.dim[0]) || !fx_dim_is_static(w->type.dim[1]))
        return unsupported(l, op, "weights of unknown size");
    FX_TRY(row_ref(l, op, 0, &n.in[0]));
    FX_TRY(weight_ref(l, op, FX_USE_MATMUL, w, gate ? fx_op_in(op, 2) : NULL, x->type.dtype == FX_Q8_ACT, &n.in[1]));
    if (!gate) {
        FX_TRY(vector_ref(l, op, fx_op_in(op, 2), &n.in[2]));
        FX_TRY(row_ref(l, op, 3, &n.in[3]));
        FX_TRY(row_ref(l, op, 4, &n.in[4]));
    }
    FX_TRY(place_over(l, y, residual && !overlaps(l, x, residual) ? residual : NULL));
    n.out[0] = buf_ref(l, y);
    n.args.matmul.n = w->type.dim[0].n;
    n.args.matmul.k = w->type.dim[1].n;
    n.args.matmul.epi.scale = gate ? 1 : (float)fx_op_f(op, FX_A_SCALE);
    return push(l, &n);
}

/* ---- Experts: one op, several launches ---- */

static fx_status lower_route(lower *l, fx_op *op)
{
    fx_launch n = launch_of(l, op, FX_L_ROUTE, &op->out[0]);
    fx_route_args *a = &n.args.route;

    FX_TRY(row_ref(l, op, 0, &n.in[0]));
    FX_TRY(vector_ref(l, op, fx_op_in(op, 1), &n.in[1]));
    FX_TRY(new_place(l, &op->out[0]));
    n.out[0] = buf_ref(l, &op->out[0]);
    a->experts = (int32_t)fx_op_in(op, 0)->type.dim[1].n;
    a->top = (int32_t)fx_op_i(op, FX_A_TOP);
    a->groups = (int32_t)fx_op_i(op, FX_A_GROUPS);
    a->top_groups = (int32_t)fx_op_i(op, FX_A_TOP_GROUPS);
    a->group_best = (int32_t)fx_op_i(op, FX_A_GROUP_BEST);
    a->score = (fx_route_score)fx_op_i(op, FX_A_SCORE);
    a->normalize = fx_op_i(op, FX_A_NORMALIZE) != 0;
    a->scale = (float)fx_op_f(op, FX_A_SCALE);
    return push(l, &n);
}

/* What the launches of one experts op share. */
typedef struct experts {
    fx_op *op;
    fx_rows_of rows;
    int32_t n, top;
    int64_t dim, ffn, out;       /* columns of x, of what down multiplies, of y */
    fx_ref table;
} experts;

/* A buffer that is no value's. */
static fx_status inner_buf(lower *l, fx_rows_of rows, int64_t cols, bool q8, fx_ref *out)
{
    fx_plan_buf buf = { .rows = rows, .cols = cols, .q8 = q8 };

    *out = (fx_ref){ FX_REF_BUF, (int32_t)l->bufs.n, 0 };
    return FX_VEC_PUSH(&l->bufs, l->mem, buf) && FX_VEC_PUSH(&l->in_buf, l->mem, NULL) ? FORNAX_OK : no_memory(l);
}

static fx_launch expert_launch(lower *l, const experts *e, fx_launch_op code)
{
    return (fx_launch){ .op = code, .rows = e->rows, .layer = -1, .origin = keep(l, fx_op_label(e->op)) };
}

/* Slots of x (or what is in slots already) as f32 or rounded. */
static fx_status push_slots(lower *l, const experts *e, fx_ref x, bool x_slots, int64_t dim, bool q8, fx_ref *out)
{
    fx_launch n = expert_launch(l, e, FX_L_SLOTS);

    if (x_slots && !q8) {
        *out = x;
        return FORNAX_OK;
    }
    FX_TRY(inner_buf(l, e->rows, dim * e->top, q8, out));
    n.in[0] = x;
    n.in[1] = e->table;
    n.out[0] = *out;
    n.args.slots.dim = dim;
    n.args.slots.experts = e->n;
    n.args.slots.top = e->top;
    n.args.slots.x_slots = x_slots;
    return push(l, &n);
}

/* The tensors of v, one of each expert or one for all, are added to w. */
static fx_status expert_sources(lower *l, const experts *e, const fx_value *v, fx_plan_weight *w)
{
    fx_op *op = v->def;

    if (op && op->code == FX_OP_CAST)
        w->dtype = v->type.dtype, op = fx_op_in(op, 0)->def;
    if (!op || (op->code != FX_OP_CONCAT && op->code != FX_OP_WEIGHT))
        return unsupported(l, e->op, "weights that aren't tensors of the file");
    for (int i = 0; i < (op->code == FX_OP_CONCAT ? op->n_in : 1); i++) {
        const fx_op *t = op->code == FX_OP_CONCAT ? fx_arg_of(op, i, FX_OP_WEIGHT) : op;
        fx_str name;

        if (!t || w->n_src >= 2 * e->n)
            return unsupported(l, e->op, "weights that aren't a tensor of each expert");
        name = fx_op_attr(t, FX_A_NAME)->u.s;
        w->expert_src[w->n_src++] = name.n ? name : t->out[0].name;
    }
    return FORNAX_OK;
}

/* A product of slots with weights of all experts. */
typedef struct product {
    fx_ref x, plain;             /* slots; where x is rounded, what adapters multiply instead */
    fx_value *a, *b, *bias;      /* b: up, paired with gate */
    bool paired, q8, in_slots;   /* halves of a are paired too; in_slots: plain is */
    int32_t half;                /* as in plan.h */
    int64_t rows, cols;          /* of each expert; of pairs and halves, those that are used */
} product;

static fx_status expert_weight(lower *l, const experts *e, const product *p, fx_ref *out)
{
    fx_plan_weight w = { .use = FX_USE_MATMUL, .q8 = p->q8, .paired = p->paired, .half = p->half, .dtype = FX_DTYPE_COUNT,
                         .experts = e->n, .rows = p->rows * e->n, .cols = p->cols,
                         .layout = (fx_expert_layout)fx_op_i(e->op, FX_A_LAYOUT) };

    w.expert_src = FX_ARENA_NEWN(l->arena, fx_str, (size_t)e->n * 2);
    if (!w.expert_src)
        return no_memory(l);
    FX_TRY(expert_sources(l, e, p->a, &w));
    if (w.n_src != 1 && w.n_src != e->n)
        return unsupported(l, e->op, "weights that aren't a tensor of each expert");
    if (p->b) {
        int32_t half = w.n_src;

        FX_TRY(expert_sources(l, e, p->b, &w));
        if (w.n_src != 2 * half)
            return unsupported(l, e->op, "gate and up in different forms");
    }
    w.name = keep(l, p->a->name.n ? p->a->name : w.expert_src[0]);
    for (int32_t i = 0; i < w.n_src; i++)
        w.expert_src[i] = keep(l, w.expert_src[i]);
    *out = (fx_ref){ FX_REF_WEIGHT, (int32_t)l->weights.n, 0 };
    return FX_VEC_PUSH(&l->weights, l->mem, w) && !l->no_memory ? FORNAX_OK : no_memory(l);
}

static fx_status push_product(lower *l, const experts *e, const product *p, fx_ref *out)
{
    fx_launch n = expert_launch(l, e, FX_L_EXPERT_MATMUL);

    n.in[0] = p->x;
    FX_TRY(expert_weight(l, e, p, &n.in[1]));
    FX_TRY(vector_ref(l, e->op, p->bias, &n.in[2]));
    n.in[3] = e->table;
    if (l->adapters && p->q8)
        n.in[4] = p->plain;
    n.args.experts.x_slots = !p->q8 || p->in_slots;
    n.args.experts.m.n = p->paired ? p->rows / 2 : p->rows;
    n.args.experts.m.k = p->cols;
    n.args.experts.m.epi.scale = 1;
    n.args.experts.experts = e->n;
    n.args.experts.top = e->top;
    FX_TRY(inner_buf(l, e->rows, n.args.experts.m.n * e->top, false, out));
    n.out[0] = *out;
    return push(l, &n);
}

static bool is_rounded(const experts *e, const fx_value *w)
{
    return fx_op_i(e->op, FX_A_Q8) && fx_dtype_is_quant(w->type.dtype);
}

/* h = silu(gate x) * (up x), bit for bit what paired products make, with sums that adapters can add to. */
static fx_status push_apart(lower *l, const experts *e, const product *gate, const product *up, fx_ref *out)
{
    fx_launch n = expert_launch(l, e, FX_L_SWIGLU);

    FX_TRY(push_product(l, e, gate, &n.in[0]));
    FX_TRY(push_product(l, e, up, &n.in[1]));
    FX_TRY(inner_buf(l, e->rows, e->ffn * e->top, false, out));
    n.out[0] = *out;
    n.args.map.dim = e->ffn * e->top;
    return push(l, &n);
}

/* h = act(gate x, up x) in slots. */
static fx_status push_gated(lower *l, const experts *e, fx_ref x, fx_ref *out)
{
    fx_value *gate = fx_op_in(e->op, 2), *up = fx_op_in(e->op, 3), *bias = fx_op_in(e->op, 5);
    bool q8 = is_rounded(e, gate), up_q8 = up ? is_rounded(e, up) : q8;
    product g = { .plain = x, .a = gate, .bias = bias, .q8 = q8, .rows = up ? e->ffn : 2 * e->ffn, .cols = e->dim };
    product u = { .plain = x, .a = up, .bias = fx_op_in(e->op, 6), .q8 = up_q8, .rows = e->ffn, .cols = e->dim };
    fx_launch n = expert_launch(l, e, FX_L_GLU);

    FX_TRY(push_slots(l, e, x, false, e->dim, q8, &g.x));
    u.x = g.x;
    if (fx_op_i(e->op, FX_A_ACT) == FX_GLU_SILU && !bias && !u.bias && (!up || up->type.dtype == gate->type.dtype)) {
        if (!l->adapters)
            return push_product(l, e, &(product){ .x = g.x, .a = gate, .b = up, .paired = true, .q8 = q8,
                                                  .rows = 2 * e->ffn, .cols = e->dim }, out);
        if (!up) {
            u = g;
            g.rows = u.rows = e->ffn;
            g.half = 1;
            u.half = 2;
        }
        return push_apart(l, e, &g, &u, out);
    }
    FX_TRY(push_product(l, e, &g, &n.in[0]));
    if (up) {
        if (up_q8 != q8)
            FX_TRY(push_slots(l, e, x, false, e->dim, up_q8, &u.x));
        FX_TRY(push_product(l, e, &u, &n.in[1]));
    }
    FX_TRY(inner_buf(l, e->rows, e->ffn * e->top, false, out));
    n.out[0] = *out;
    n.args.glu = (fx_glu_args){ .dim = e->ffn, .slots = e->top, .act = (fx_glu_act)fx_op_i(e->op, FX_A_ACT),
                                .interleaved = fx_op_i(e->op, FX_A_LAYOUT) >= FX_EXPERTS_TRANSPOSED,
                                .alpha = (float)fx_op_f(e->op, FX_A_SCALE),
                                .limit = (float)fx_op_f(e->op, FX_A_LIMIT) };
    return push(l, &n);
}

static fx_status push_combine(lower *l, const experts *e, fx_ref x, fx_ref routes)
{
    fx_launch n = expert_launch(l, e, FX_L_COMBINE);

    n.in[0] = x;
    n.in[1] = routes;
    n.in[2] = e->table;
    FX_TRY(new_place(l, &e->op->out[0]));
    n.out[0] = buf_ref(l, &e->op->out[0]);
    n.args.combine.dim = e->out;
    n.args.combine.experts = e->n;
    n.args.combine.top = e->top;
    return push(l, &n);
}

static fx_status lower_experts(lower *l, fx_op *op)
{
    experts e = { .op = op, .n = (int32_t)fx_op_i(op, FX_A_EXPERTS), .top = (int32_t)fx_op_i(op, FX_A_TOP) };
    fx_value *gate = fx_op_in(op, 2), *down = fx_op_in(op, 4);
    bool turned = fx_op_i(op, FX_A_LAYOUT) == FX_EXPERTS_TRANSPOSED;
    fx_launch n;
    fx_ref x, routes, h, y;

    e.dim = fx_op_in(op, 0)->type.dim[1].n;
    e.out = op->out[0].type.dim[1].n;
    e.ffn = turned ? down->type.dim[1].n : fx_type_last(&down->type).n;
    if (!rows_of(&op->out[0].type, &e.rows))
        return unsupported(l, op, "rows that aren't the step's");
    if (turned && (fx_dtype_is_quant(gate->type.dtype) || fx_dtype_is_quant(down->type.dtype)))
        return unsupported(l, op, "transposed weights of a quantized type");
    FX_TRY(row_ref(l, op, 0, &x));
    FX_TRY(row_ref(l, op, 1, &routes));
    n = expert_launch(l, &e, FX_L_DISPATCH);
    FX_TRY(inner_buf(l, e.rows, fx_experts_table_cols(e.n, e.top), false, &e.table));
    n.in[0] = routes;
    n.out[0] = e.table;
    n.args.dispatch.experts = e.n;
    n.args.dispatch.top = e.top;
    FX_TRY(push(l, &n));
    FX_TRY(push_gated(l, &e, x, &h));
    FX_TRY(push_slots(l, &e, h, true, e.ffn, is_rounded(&e, down), &x));
    FX_TRY(push_product(l, &e, &(product){ .x = x, .plain = h, .a = down, .bias = fx_op_in(op, 7), .q8 = is_rounded(&e, down),
                                           .in_slots = true, .rows = e.out, .cols = e.ffn }, &y));
    return push_combine(l, &e, y, routes);
}

/* The weights of all heads. */
static fx_status head_weight(lower *l, const fx_op *op, fx_launch *n)
{
    const fx_value *v = fx_op_in(op, 1);
    const fx_op *def = v->def;
    int64_t rows = v->type.rank == 3 ? v->type.dim[1].n : v->type.dim[0].n / fx_op_i(op, FX_A_HEADS);
    fx_plan_weight w = { .use = FX_USE_MATMUL, .dtype = FX_DTYPE_COUNT, .experts = (int32_t)fx_op_i(op, FX_A_HEADS),
                         .n_src = 1, .cols = n->args.by_head.m.k, .by_head = true };
    fx_str name;

    w.rows = n->args.by_head.m.n * w.experts;
    w.part[0] = (fx_plan_part){ .start = fx_op_i(op, FX_A_START), .rows = fx_op_i(op, FX_A_LENGTH),
                                .run = fx_op_i(op, FX_A_LENGTH), .stride = rows,
                                .transposed = fx_op_i(op, FX_A_TRANSPOSED) != 0 };
    if (def && def->code == FX_OP_CAST) {
        w.dtype = v->type.dtype;
        def = fx_op_in(def, 0)->def;
    }
    if (!def || def->code != FX_OP_WEIGHT)
        return unsupported(l, op, "weights that aren't a tensor of the file");
    name = fx_op_attr(def, FX_A_NAME)->u.s;
    w.expert_src = FX_ARENA_NEW(l->arena, fx_str);
    if (!w.expert_src)
        return no_memory(l);
    w.name = w.expert_src[0] = keep(l, name.n ? name : def->out[0].name);
    n->in[1] = (fx_ref){ FX_REF_WEIGHT, (int32_t)l->weights.n, 0 };
    return FX_VEC_PUSH(&l->weights, l->mem, w) && !l->no_memory ? FORNAX_OK : no_memory(l);
}

static fx_status lower_by_head(lower *l, fx_op *op)
{
    fx_launch n = launch_of(l, op, FX_L_BY_HEAD, &op->out[0]);
    fx_by_head_args *a = &n.args.by_head;

    a->heads = fx_op_i(op, FX_A_HEADS);
    a->m.k = fx_op_in(op, 0)->type.dim[1].n / a->heads;
    a->m.n = op->out[0].type.dim[1].n / a->heads;
    a->m.epi.scale = 1;
    FX_TRY(row_ref(l, op, 0, &n.in[0]));
    FX_TRY(head_weight(l, op, &n));
    FX_TRY(new_place(l, &op->out[0]));
    n.out[0] = buf_ref(l, &op->out[0]);
    return push(l, &n);
}

/* q' over q unless k or v lie there too; a store alone (no rotation was fused) isn't a kernel. */
static fx_status lower_rope_store(lower *l, fx_op *op)
{
    fx_value *q = fx_op_in(op, 0), *out = &op->out[0];
    bool apart = !overlaps(l, q, fx_op_in(op, 1)) && !overlaps(l, q, fx_op_in(op, 2));
    fx_launch n = launch_of(l, op, FX_L_ROPE_STORE, q);
    fx_rope_store_args *a = &n.args.rope_store;

    for (int i = 0; i < 3; i++)
        FX_TRY(row_ref(l, op, i, &n.in[i]));     /* v may be missing */
    for (int i = 3; i < 6; i++)
        FX_TRY(vector_ref(l, op, fx_op_in(op, i), &n.in[i]));
    a->k_free = dies_here(l, fx_op_in(op, 1)) && !overlaps(l, fx_op_in(op, 1), q) && !overlaps(l, fx_op_in(op, 1), fx_op_in(op, 2));
    FX_TRY(place_over(l, out, apart ? q : NULL));
    n.out[0] = buf_ref(l, out);
    n.layer = (int32_t)fx_op_i(op, FX_A_LAYER);
    a->eps = (float)fx_op_f(op, FX_A_EPS);
    a->norm_offset = (float)fx_op_f(op, FX_A_OFFSET);
    a->long_from = (int32_t)fx_op_i(op, FX_A_LONG_FROM);
    a->growth = (float)fx_op_f(op, FX_A_GROWTH);
    a->norm_last = fx_op_i(op, FX_A_NORM_LAST) != 0;
    a->style = (fx_rope_style)fx_op_i(op, FX_A_STYLE);
    a->rot_dim = (int32_t)fx_op_i(op, FX_A_ROT_DIM);
    a->attn_scale = (float)fx_op_f(op, FX_A_ATTN_SCALE);
    a->heads = (int32_t)fx_op_i(op, FX_A_HEADS);
    a->kv_heads = (int32_t)fx_op_i(op, FX_A_KV_HEADS);
    a->head_dim = (int32_t)fx_op_i(op, FX_A_HEAD_DIM);
    a->v_dim = (int32_t)fx_op_i(op, FX_A_V_DIM);
    return push(l, &n);
}

static fx_status lower_attend(lower *l, fx_op *op)
{
    fx_launch n = launch_of(l, op, FX_L_ATTEND, &op->out[0]);
    fx_attend_args *a = &n.args.attend;

    FX_TRY(row_ref(l, op, 0, &n.in[0]));
    FX_TRY(vector_ref(l, op, fx_op_in(op, 2), &n.in[1]));
    FX_TRY(vector_ref(l, op, fx_op_in(op, 3), &n.in[2]));
    FX_TRY(new_place(l, &op->out[0]));
    n.out[0] = buf_ref(l, &op->out[0]);
    n.layer = (int32_t)fx_op_i(op, FX_A_LAYER);
    a->heads = (int32_t)fx_op_i(op, FX_A_HEADS);
    a->kv_heads = (int32_t)fx_op_i(op, FX_A_KV_HEADS);
    a->head_dim = (int32_t)fx_op_i(op, FX_A_HEAD_DIM);
    a->v_dim = (int32_t)fx_op_i(op, FX_A_V_DIM);
    a->scale = (float)fx_op_f(op, FX_A_SCALE);
    a->window = (int32_t)fx_op_i(op, FX_A_WINDOW);
    a->softcap = (float)fx_op_f(op, FX_A_SOFTCAP);
    a->latent = fx_op_i(op, FX_A_LATENT) != 0;
    return push(l, &n);
}

static fx_status lower_conv1d(lower *l, fx_op *op)
{
    const fx_type *w = &fx_op_in(op, 1)->type;
    fx_launch n = launch_of(l, op, FX_L_CONV1D, &op->out[0]);

    FX_TRY(row_ref(l, op, 0, &n.in[0]));
    FX_TRY(vector_ref(l, op, fx_op_in(op, 1), &n.in[1]));
    FX_TRY(vector_ref(l, op, fx_op_in(op, 2), &n.in[2]));
    FX_TRY(new_place(l, &op->out[0]));
    n.out[0] = buf_ref(l, &op->out[0]);
    n.layer = (int32_t)fx_op_i(op, FX_A_LAYER);
    n.args.conv1d.dim = w->dim[0].n;
    n.args.conv1d.width = fx_type_last(w).n;
    n.args.conv1d.silu = fx_op_i(op, FX_A_SILU) != 0;
    return push(l, &n);
}

static fx_status lower_ssm_scan(lower *l, fx_op *op)
{
    const fx_type *a_type = &fx_op_in(op, 4)->type;
    fx_launch n = launch_of(l, op, FX_L_SSM_SCAN, &op->out[0]);
    fx_ssm_scan_args *a = &n.args.ssm_scan;

    for (int i = 0; i < 4; i++)
        FX_TRY(row_ref(l, op, i, &n.in[i]));
    for (int i = 4; i < 7; i++)
        FX_TRY(vector_ref(l, op, fx_op_in(op, i), &n.in[i]));
    FX_TRY(new_place(l, &op->out[0]));
    n.out[0] = buf_ref(l, &op->out[0]);
    n.layer = (int32_t)fx_op_i(op, FX_A_LAYER);
    a->heads = (int32_t)fx_op_i(op, FX_A_HEADS);
    a->head_dim = (int32_t)(fx_type_last(&op->out[0].type).n / a->heads);
    a->groups = (int32_t)fx_op_i(op, FX_A_GROUPS);
    a->n_state = (int32_t)(fx_type_last(&fx_op_in(op, 2)->type).n / a->groups);
    a->a_per_state = a_type->rank == 2 && a_type->dim[1].n == a->n_state;
    a->log_a = fx_op_i(op, FX_A_LOG_A) != 0;
    a->dt_min = (float)fx_op_f(op, FX_A_DT_MIN);
    a->dt_max = (float)fx_op_f(op, FX_A_DT_MAX);
    return push(l, &n);
}

static fx_status lower_delta_rule(lower *l, fx_op *op)
{
    fx_launch n = launch_of(l, op, FX_L_DELTA_RULE, &op->out[0]);
    fx_delta_rule_args *a = &n.args.delta_rule;

    for (int i = 0; i < 5; i++)
        FX_TRY(row_ref(l, op, i, &n.in[i]));
    for (int i = 5; i < 7; i++)
        FX_TRY(vector_ref(l, op, fx_op_in(op, i), &n.in[i]));
    FX_TRY(new_place(l, &op->out[0]));
    n.out[0] = buf_ref(l, &op->out[0]);
    n.layer = (int32_t)fx_op_i(op, FX_A_LAYER);
    a->v_heads = (int32_t)fx_op_i(op, FX_A_HEADS);
    a->k_heads = (int32_t)fx_op_i(op, FX_A_KV_HEADS);
    a->k_dim = (int32_t)(fx_type_last(&fx_op_in(op, 0)->type).n / a->k_heads);
    a->v_dim = (int32_t)(fx_type_last(&fx_op_in(op, 2)->type).n / a->v_heads);
    a->log_a = fx_op_i(op, FX_A_LOG_A) != 0;
    a->tiled = fx_op_i(op, FX_A_TILED) != 0;
    return push(l, &n);
}

static fx_status lower_gated_norm(lower *l, fx_op *op)
{
    fx_value *x = fx_op_in(op, 0), *z = fx_op_in(op, 1);
    fx_launch n = launch_of(l, op, FX_L_GATED_NORM, x);
    fx_gated_norm_args *a = &n.args.gated_norm;

    FX_TRY(row_ref(l, op, 0, &n.in[0]));
    FX_TRY(row_ref(l, op, 1, &n.in[1]));
    FX_TRY(vector_ref(l, op, fx_op_in(op, 2), &n.in[2]));
    FX_TRY(place_over(l, &op->out[0], dies_here(l, x) ? x : z));
    n.out[0] = buf_ref(l, &op->out[0]);
    a->n_groups = fx_op_i(op, FX_A_GROUPS);
    a->dim = fx_type_last(&x->type).n / a->n_groups;
    a->w_step = fx_op_in(op, 2)->type.dim[0].n != a->dim ? a->dim : 0;
    a->eps = (float)fx_op_f(op, FX_A_EPS);
    a->gate_first = fx_op_i(op, FX_A_GATE_FIRST) != 0;
    return push(l, &n);
}

static fx_status lower_gather(lower *l, fx_op *op)
{
    fx_launch n = launch_of(l, op, FX_L_GATHER, &op->out[0]);

    if (!fx_gather_is_rows(op))
        return unsupported(l, op, "a gather that isn't of rows");
    FX_TRY(step_input(l, op, 1, "logit_rows"));
    FX_TRY(row_ref(l, op, 0, &n.in[0]));
    FX_TRY(new_place(l, &op->out[0]));
    n.out[0] = buf_ref(l, &op->out[0]);
    n.args.gather.dim = place_of(l, &op->out[0])->cols;
    return push(l, &n);
}

static const struct { fx_opcode op; fx_launch_op launch; } maps[] = {
    { FX_OP_ADD, FX_L_ADD },         { FX_OP_MUL, FX_L_MUL },   { FX_OP_SCALE, FX_L_SCALE },
    { FX_OP_SILU, FX_L_SILU },       { FX_OP_GELU, FX_L_GELU }, { FX_OP_GELU_TANH, FX_L_GELU_TANH },
    { FX_OP_RELU, FX_L_RELU },       { FX_OP_RELU2, FX_L_RELU2 }, { FX_OP_CLAMP, FX_L_CLAMP },
         { FX_OP_TANH, FX_L_TANH }, { FX_OP_SIGMOID, FX_L_SIGMOID },
    { FX_OP_SWIGLU, FX_L_SWIGLU },
};

/* A factor for each row: [rows, 1] against [rows, n]. */
static fx_status lower_mul_rows(lower *l, fx_op *op, int factor)
{
    fx_value *x = fx_op_in(op, 1 - factor), *y = &op->out[0];
    fx_launch n = launch_of(l, op, FX_L_MUL_ROWS, y);

    FX_TRY(row_ref(l, op, 1 - factor, &n.in[0]));
    FX_TRY(row_ref(l, op, factor, &n.in[1]));
    FX_TRY(place_over(l, y, x));
    n.out[0] = buf_ref(l, y);
    n.args.map.dim = place_of(l, y)->cols;
    return push(l, &n);
}

/* Which operand of a product is one column of the other's rows; -1: none. */
static int row_factor(const fx_op *op)
{
    for (int i = 0; op->code == FX_OP_MUL && i < 2; i++) {
        const fx_type *f = &fx_op_in(op, i)->type, *y = &op->out[0].type;

        if (f->rank == 2 && y->rank == 2 && fx_dim_eq(f->dim[0], y->dim[0]) && fx_dim_eq(f->dim[1], fx_dim_of(1)) &&
            !fx_dim_eq(y->dim[1], fx_dim_of(1)) && fx_type_eq(&fx_op_in(op, 1 - i)->type, y))
            return i;
    }
    return -1;
}

/* One row of n numbers that are known before any step. */
static bool is_vector(const fx_value *v, int64_t n)
{
    const fx_type *t = &v->type;

    return fx_value_is_const(v) && (t->rank == 1 || (t->rank == 2 && fx_dim_eq(t->dim[0], fx_dim_of(1)))) &&
           fx_dim_eq(fx_type_last(t), fx_dim_of(n));
}

/* Elementwise over rows; in place of either operand. The second may be one row for all. */
static fx_status lower_map(lower *l, fx_op *op)
{
    fx_value *a = fx_op_in(op, 0), *b = fx_op_in(op, 1), *y = &op->out[0];
    bool shared;
    fx_launch n;
    size_t i = 0;

    if (fx_value_is_const(y))
        return unsupported(l, op, "arithmetic on weights");
    if (row_factor(op) >= 0)
        return lower_mul_rows(l, op, row_factor(op));
    while (maps[i].op != op->code)
        i++;
    n = launch_of(l, op, maps[i].launch, y);
    shared = b && is_vector(b, fx_type_last(&y->type).n);
    if (!fx_type_eq(&a->type, &y->type) || (b && !shared && !fx_type_eq(&b->type, &y->type)))
        return unsupported(l, op, "operands of different shapes");
    FX_TRY(row_ref(l, op, 0, &n.in[0]));
    if (b)
        FX_TRY(shared ? vector_ref(l, op, b, &n.in[1]) : row_ref(l, op, 1, &n.in[1]));
    FX_TRY(place_over(l, y, dies_here(l, a) || shared ? a : b));
    n.out[0] = buf_ref(l, y);
    n.args.map.dim = place_of(l, y)->cols;
    n.args.map.alpha = op->code == FX_OP_SCALE   ? (float)fx_op_f(op, FX_A_FACTOR)
                       : op->code == FX_OP_CLAMP ? (float)fx_op_f(op, FX_A_LIMIT)
                                                 : 1;
    return push(l, &n);
}

static fx_status lower_softmax(lower *l, fx_op *op)
{
    fx_launch n = launch_of(l, op, FX_L_SOFTMAX, &op->out[0]);

    if (op->out[0].type.rank != 2 || fx_op_axis(op, FX_A_AXIS, 2) != 1)
        return unsupported(l, op, "more than two axes, or not along the last");
    FX_TRY(row_ref(l, op, 0, &n.in[0]));
    FX_TRY(new_place(l, &op->out[0]));
    n.out[0] = buf_ref(l, &op->out[0]);
    n.args.softmax.dim = place_of(l, &op->out[0])->cols;
    return push(l, &n);
}

/* Columns of another place; of more axes only where they are one run of columns. */
static fx_status lower_slice(lower *l, fx_op *op)
{
    const place *p;
    int64_t cols;

    if (fx_value_is_const(&op->out[0]))
        return unsupported(l, op, "a part of a weight");
    p = place_of(l, fx_op_in(op, 0));
    if (!p || op->out[0].type.rank != 2 || !cols_of(&op->out[0].type, &cols) || !fx_slice_is_columns(op))
        return unsupported(l, op, "a slice that isn't columns of rows");
    return set_place(l, &op->out[0], p->buf, p->col + fx_op_i(op, FX_A_START), cols) ? FORNAX_OK : no_memory(l);
}

/* From head to head of operand i; 0: it is one head for all. */
static int64_t head_width(const fx_op *op, int i, int64_t need)
{
    int64_t n = fx_op_i(op, FX_A_HEADS), cols = fx_op_in(op, i)->type.dim[1].n;

    return cols % n == 0 && cols / n >= need ? cols / n : 0;
}

static fx_status lower_splice(lower *l, fx_op *op)
{
    fx_launch n = launch_of(l, op, FX_L_SPLICE, &op->out[0]);
    fx_splice_args *a = &n.args.splice;

    FX_TRY(row_ref(l, op, 0, &n.in[0]));
    FX_TRY(row_ref(l, op, 1, &n.in[1]));
    FX_TRY(new_place(l, &op->out[0]));
    n.out[0] = buf_ref(l, &op->out[0]);
    a->heads = fx_op_i(op, FX_A_HEADS);
    a->a_start = fx_op_i(op, FX_A_START);
    a->a_len = fx_op_i(op, FX_A_LENGTH);
    a->b_len = fx_op_i(op, FX_A_MORE);
    a->a_width = head_width(op, 0, a->a_start + a->a_len);
    a->b_width = a->b_len ? head_width(op, 1, a->b_len) : 0;
    return push(l, &n);
}

static fx_status lower_reshape(lower *l, fx_op *op)
{
    const place *p = place_of(l, fx_op_in(op, 0));
    int64_t cols;

    if (!p || !fx_dim_eq(fx_op_in(op, 0)->type.dim[0], op->out[0].type.dim[0]) || !cols_of(&op->out[0].type, &cols))
        return unsupported(l, op, "a reshape that changes rows");
    return set_place(l, &op->out[0], p->buf, p->col, cols) ? FORNAX_OK : no_memory(l);
}

static fx_status lower_output(lower *l, fx_op *op)
{
    fx_value *logits = fx_op_in(op, 0);
    const place *p = logits ? place_of(l, logits) : NULL;

    if (!p || l->bufs.at[p->buf].rows != FX_ROWS_LOGITS || l->bufs.at[p->buf].q8)
        return unsupported(l, op, "the first result isn't f32 rows of logits");
    for (int i = 1; i < op->n_in; i++) {
        if (fx_op_in(op, i)->type.dtype != FX_CHAIN)
            return unsupported(l, op, "more than one result");
    }
    l->plan->logits = buf_ref(l, logits);
    l->plan->vocab = p->cols;
    return FORNAX_OK;
}

typedef fx_status (*lower_fn)(lower *l, fx_op *op);
static const lower_fn lowerings[FX_OP_COUNT] = {
    [FX_OP_INPUT] = lower_nothing,
    [FX_OP_WEIGHT] = lower_nothing,
    [FX_OP_CONSTANT] = lower_nothing,
    [FX_OP_CHAIN] = lower_nothing,
    [FX_OP_CONCAT] = lower_known,
    [FX_OP_CAST] = lower_known,
    [FX_OP_ROWS] = lower_known,
    [FX_OP_TRANSPOSE] = lower_known,
    [FX_OP_EMBED] = lower_embed,
    [FX_OP_RMSNORM] = lower_norm,
    [FX_OP_ADD_RMSNORM] = lower_norm,
    [FX_OP_RMSNORM_QUANT] = lower_norm,
    [FX_OP_LAYERNORM] = lower_layernorm,
    [FX_OP_QUANT] = lower_quant,
    [FX_OP_LINEAR] = lower_product,
    [FX_OP_GATE] = lower_product,
    [FX_OP_BY_HEAD] = lower_by_head,
    [FX_OP_ROPE_STORE] = lower_rope_store,
    [FX_OP_ATTEND] = lower_attend,
    [FX_OP_GATHER] = lower_gather,
    [FX_OP_ADD] = lower_map,
    [FX_OP_MUL] = lower_map,
    [FX_OP_SCALE] = lower_map,
    [FX_OP_SILU] = lower_map,
    [FX_OP_GELU] = lower_map,
    [FX_OP_GELU_TANH] = lower_map,
    [FX_OP_RELU] = lower_map,
    [FX_OP_RELU2] = lower_map,
    [FX_OP_CLAMP] = lower_map,
    [FX_OP_SIGMOID] = lower_map,
    [FX_OP_TANH] = lower_map,
    [FX_OP_SWIGLU] = lower_map,
    [FX_OP_SOFTMAX] = lower_softmax,
    [FX_OP_ROUTE] = lower_route,
    [FX_OP_SPLICE] = lower_splice,
    [FX_OP_EXPERTS] = lower_experts,
    [FX_OP_CONV1D] = lower_conv1d,
    [FX_OP_SSM_SCAN] = lower_ssm_scan,
    [FX_OP_DELTA_RULE] = lower_delta_rule,
    [FX_OP_GATED_NORM] = lower_gated_norm,
    [FX_OP_SLICE] = lower_slice,
    [FX_OP_RESHAPE] = lower_reshape,
    [FX_OP_OUTPUT] = lower_output,
};

/* ---- The plan ------------------------------------------------------------------------------------------------ */

static void *copy_vec(lower *l, const void *at, size_t n, size_t each)
{
    void *p = fx_arena_array(l->arena, n + 1, each);

    if (p && n)
        memcpy(p, at, n * each);
    if (!p)
        l->no_memory = true;
    return p;
}

/* ---- Launches that may run at once ---------------------------------------------------------------------- */

static bool writes_buffer(const fx_launch *n, const fx_ref *r)
{
    for (size_t i = 0; i < FX_COUNT(n->out); i++) {
        if (r->kind == FX_REF_BUF && n->out[i].kind == FX_REF_BUF && n->out[i].index == r->index)
            return true;
    }
    return false;
}

/* Whether a writes something that b reads or writes. */
static bool disturbs(const fx_launch *a, const fx_launch *b)
{
    bool any = false;

    for (size_t i = 0; i < FX_COUNT(b->in); i++)
        any = any || writes_buffer(a, &b->in[i]);
    for (size_t i = 0; i < FX_COUNT(b->out); i++)
        any = any || writes_buffer(a, &b->out[i]);
    return any;
}

static bool fits_beside(const fx_launch *a, const fx_launch *b)
{
    return a->op == FX_L_MATMUL && b->op == FX_L_MATMUL && a->rows == b->rows && !disturbs(a, b) && !disturbs(b, a);
}

/* Products of one operand with weights of several types, which merge-matmuls can't merge. */
static void mark_beside(fx_plan *p)
{
    int32_t first = 0;

    for (int32_t i = 1; i < p->n_launches; i++) {
        bool fits = p->launches[i].in[0].index == p->launches[first].in[0].index;

        for (int32_t k = first; k < i && fits; k++)
            fits = fits_beside(&p->launches[k], &p->launches[i]);
        p->launches[i].beside = fits;
        first = fits ? first : i;
    }
}

/* ---- Lifetimes -------------------------------------------------------------------------------------------- */

static void touch(fx_plan *p, const fx_ref *r, int32_t first, int32_t last)
{
    fx_plan_buf *b;

    if (r->kind != FX_REF_BUF)
        return;
    b = &p->bufs[r->index];
    b->first = b->first < 0 ? first : b->first;
    b->last = last;
}

/* Those of launches that may run at once begin and end together. */
static void set_lifetimes(fx_plan *p)
{
    int32_t first = 0, last = 0;

    for (int32_t i = 0; i < p->n_bufs; i++)
        p->bufs[i].first = p->bufs[i].last = -1;
    for (int32_t i = 0; i < p->n_launches; i++) {
        const fx_launch *n = &p->launches[i];

        first = n->beside ? first : i;
        for (last = i; last + 1 < p->n_launches && p->launches[last + 1].beside;)
            last++;
        for (size_t k = 0; k < FX_COUNT(n->in); k++)
            touch(p, &n->in[k], first, last);
        for (size_t k = 0; k < FX_COUNT(n->out); k++)
            touch(p, &n->out[k], first, last);
    }
    p->bufs[p->logits.index].last = p->n_launches;
}

static fx_status finish(lower *l)
{
    fx_plan *p = l->plan;

    if (p->logits.kind == FX_REF_NONE)
        return fx_fail(l->err, FORNAX_EUNSUP, "graph %.*s: has no output", FX_STR_ARG(l->g->name));
    p->launches = copy_vec(l, l->launches.at, l->launches.n, sizeof(*p->launches));
    p->bufs = copy_vec(l, l->bufs.at, l->bufs.n, sizeof(*p->bufs));
    p->weights = copy_vec(l, l->weights.at, l->weights.n, sizeof(*p->weights));
    p->consts = copy_vec(l, l->consts.at, l->consts.n, sizeof(*p->consts));
    if (l->no_memory)
        return no_memory(l);
    p->n_launches = (int32_t)l->launches.n;
    p->n_bufs = (int32_t)l->bufs.n;
    p->n_weights = (int32_t)l->weights.n;
    p->n_consts = (int32_t)l->consts.n;
    mark_beside(p);
    set_lifetimes(p);
    fx_plan_check(p);
    return FORNAX_OK;
}

static fx_status lower_body(lower *l, fx_block *body)
{
    int32_t order = 0;

    for (fx_op *op = body->first; op; op = op->next)
        op->order = order++;
    for (fx_op *op = body->first; op; op = op->next) {
        l->at = op->order;
        FX_TRY((lowerings[op->code] ? lowerings[op->code] : lower_unsupported)(l, op));
    }
    return FORNAX_OK;
}

fx_status fx_lower_plan(fx_arena *arena, const fx_graph *g, bool adapters, fx_plan **out, fx_error *err)
{
    lower l = { .g = g, .arena = arena, .mem = arena->mem, .err = err, .adapters = adapters };
    fx_status st;

    *out = NULL;
    l.plan = FX_ARENA_NEW(arena, fx_plan);
    if (!l.plan)
        return fx_nomem(err, "a plan");
    fx_arena_init(&l.scratch, l.mem, 0);
    fx_map_init(&l.places, l.mem);
    fx_map_init(&l.weight_ids, l.mem);
    st = lower_body(&l, fx_graph_body(g));
    if (st == FORNAX_OK)
        st = finish(&l);
    if (st == FORNAX_OK)
        *out = l.plan;
    fx_map_done(&l.weight_ids);
    fx_map_done(&l.places);
    fx_arena_done(&l.scratch);
    FX_VEC_FREE(&l.launches, l.mem);
    FX_VEC_FREE(&l.bufs, l.mem);
    FX_VEC_FREE(&l.weights, l.mem);
    FX_VEC_FREE(&l.consts, l.mem);
    FX_VEC_FREE(&l.in_buf, l.mem);
    return st;
}
