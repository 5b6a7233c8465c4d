/* lower_flow.c - choices, loops, calls, buffers, prints, quantized blocks, kernels of packages: ops that are several launches, a
 * place in memory, or somebody else's code.
 *
 * The results of a choice are tensors that both branches copy to; the values of a loop likewise, before it and at the end
 * of each turn.  A call is the callee's ops, once more, with its names of sizes standing for the caller's.
 * A load of a buffer is a copy of what it holds then, so later stores don't reach it. */
#include "passes/lower_kir_int.h"

static fx_status no_memory(fx_lower *l) { return fx_nomem(l->err, "a plan"); }
static bool is_chain(const fx_value *v) { return v->type.dtype == FX_CHAIN; }

fx_status fx_lower_kept_in(fx_lower *l, const fx_op *op, const fx_value *v, int32_t *tensor)
{
    *tensor = fx_lower_kept(l, v);
    return *tensor >= 0 ? FORNAX_OK : fx_lower_unsupported(l, op, "an operand that isn't a tensor");
}

fx_status fx_lower_own_tensor(fx_lower *l, const fx_value *v, int32_t *tensor)
{
    FX_TRY(fx_lower_tensor(l, v, FX_KTENSOR_TEMP, 0, tensor));
    return fx_lower_keep(l, v, (uint64_t)*tensor + 1) ? FORNAX_OK : no_memory(l);
}

fx_status fx_lower_launch(fx_lower *l, fx_klaunch_kind kind, const fx_op *op, size_t *at)
{
    fx_str label = fx_op_label(op);
    char *origin = fx_arena_strdup(l->arena, label.p, label.n);
    fx_klaunch n = { .kind = kind, .origin = { origin ? origin : "", origin ? label.n : 0 },
                     .op = fx_str_of(fx_opcode_name(op->code)) };

    *at = l->launches.n;
    return origin && FX_VEC_PUSH(&l->launches, l->mem, n) ? FORNAX_OK : no_memory(l);
}

static const fx_op *yield_of(const fx_op *op, int region) { return op->regions[region]->first->last; }

/* ---- Choices ---------------------------------------------------------------------------------------- */

static fx_status lower_branch(fx_lower *l, const fx_op *op, int region)
{
    const fx_op *yield = yield_of(op, region);
    int32_t from;

    FX_TRY(fx_lower_block(l, op->regions[region]->first));
    for (int i = 0; i < op->n_out; i++) {
        if (is_chain(&op->out[i]))
            continue;
        FX_TRY(fx_lower_kept_in(l, op, fx_op_in(yield, i), &from));
        FX_TRY(fx_lower_copy(l, &op->out[i].type, from, fx_lower_kept(l, &op->out[i]), op));
    }
    return FORNAX_OK;
}

static fx_status lower_cond(fx_lower *l, fx_op *op)
{
    int32_t pred, tensor;
    size_t at, second;

    FX_TRY(fx_lower_kept_in(l, op, fx_op_in(op, 0), &pred));
    for (int i = 0; i < op->n_out; i++) {
        if (!is_chain(&op->out[i]))
            FX_TRY(fx_lower_own_tensor(l, &op->out[i], &tensor));
    }
    FX_TRY(fx_lower_launch(l, FX_KLAUNCH_COND, op, &at));
    FX_TRY(lower_branch(l, op, 0));
    second = l->launches.n;
    FX_TRY(lower_branch(l, op, 1));
    l->launches.at[at].pred = pred;
    l->launches.at[at].n_first = (int32_t)(second - at - 1);
    l->launches.at[at].n_second = (int32_t)(l->launches.n - second);
    return FORNAX_OK;
}

/* ---- Loops ------------------------------------------------------------------------------------------- */

/* Both blocks' arguments and the results are one tensor each, which begins as the operand. */
static fx_status make_state(fx_lower *l, fx_op *op)
{
    int32_t from, tensor;

    for (int i = 0; i < op->n_out; i++) {
        if (is_chain(&op->out[i]))
            continue;
        FX_TRY(fx_lower_kept_in(l, op, fx_op_in(op, i), &from));
        FX_TRY(fx_lower_own_tensor(l, &op->out[i], &tensor));
        for (int r = 0; r < 2; r++) {
            if (!fx_lower_keep(l, &op->regions[r]->first->args[i], (uint64_t)tensor + 1))
                return no_memory(l);
        }
        FX_TRY(fx_lower_copy(l, &op->out[i].type, from, tensor, op));
    }
    return FORNAX_OK;
}

/* The yielded values become the state. One that is itself a value of the state is set aside first: its place may be
 * written before it is read. */
static fx_status next_state(fx_lower *l, fx_op *op)
{
    const fx_op *yield = yield_of(op, 1);
    int32_t from, aside;

    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < op->n_out; i++) {
            fx_value *v = fx_op_in(yield, i);
            bool argument = v && !v->def && v->block == op->regions[1]->first;

            if (is_chain(&op->out[i]) || (pass == 0 && !argument))
                continue;
            if (pass == 0) {
                FX_TRY(fx_lower_tensor(l, &op->out[i], FX_KTENSOR_TEMP, 0, &aside));
                FX_TRY(fx_lower_copy(l, &op->out[i].type, fx_lower_kept(l, v), aside, op));
                l->aside[i] = aside;
                continue;
            }
            from = argument ? l->aside[i] : fx_lower_kept(l, v);
            if (from < 0)
                return fx_lower_unsupported(l, op, "an operand that isn't a tensor");
            FX_TRY(fx_lower_copy(l, &op->out[i].type, from, fx_lower_kept(l, &op->out[i]), op));
        }
    }
    return FORNAX_OK;
}

static fx_status lower_while(fx_lower *l, fx_op *op)
{
    size_t at, second;
    int32_t pred;

    if (op->n_out > FX_LOWER_STATE)
        return fx_lower_unsupported(l, op, "a loop of so many values");
    FX_TRY(make_state(l, op));
    FX_TRY(fx_lower_launch(l, FX_KLAUNCH_WHILE, op, &at));
    FX_TRY(fx_lower_block(l, op->regions[0]->first));
    FX_TRY(fx_lower_kept_in(l, op, fx_op_in(yield_of(op, 0), 0), &pred));
    second = l->launches.n;
    FX_TRY(fx_lower_block(l, op->regions[1]->first));
    FX_TRY(next_state(l, op));
    l->launches.at[at].pred = pred;
    l->launches.at[at].n_first = (int32_t)(second - at - 1);
    l->launches.at[at].n_second = (int32_t)(l->launches.n - second);
    return FORNAX_OK;
}

/* ---- Calls --------------------------------------------------------------------------------------------- */

/* What surrounds a subgraph: its names are those of its inputs' axes, given by the call's operands. */
typedef struct call {
    fx_op *op;
    const fx_graph *callee;
    fx_lower *l;
    fx_dim_rename outer;
    void *outer_user;
    int number;                  /* of the call, among all of the plan */
} call;

/* What the call's operands have where the callee's inputs have that name. */
static bool size_of_operands(const call *c, fx_str name, fx_dim *now)
{
    int i = 0;

    for (const fx_op *op = fx_graph_body(c->callee)->first; op && op->code == FX_OP_INPUT; op = op->next, i++) {
        const fx_type *t = &op->out[0].type, *given = &fx_op_in(c->op, i)->type;

        for (int k = 0; k < t->rank; k++) {
            fx_str own;

            if (!fx_dim_is_symbol(t->dim[k], &own) || !fx_str_eq(own, name))
                continue;
            *now = given->dim[k];
            return true;
        }
    }
    return false;
}

static void note_name(void *user, fx_str name)
{
    fx_str *wanted = user;

    if (fx_str_eq(*wanted, name))
        *wanted = fx_str_n(NULL, 0);
}

static void ignore_num(void *user, int64_t n) { (void)user, (void)n; }
static void ignore_op(void *user, char op) { (void)user, (void)op; }

/* Whether a result's size has that name: then it is the caller's too. */
static bool is_of_results(const call *c, fx_str name)
{
    const fx_op *end = fx_graph_output(c->callee);

    for (int i = 0; i < end->n_in; i++) {
        for (int k = 0; k < fx_op_in(end, i)->type.rank && name.p; k++)
            fx_dim_walk(fx_op_in(end, i)->type.dim[k], &(fx_dim_sink){ ignore_num, note_name, ignore_op, &name });
    }
    return !name.p;
}

/* A name that is only the callee's is another one in each call. */
static bool rename_size(void *user, fx_str name, fx_dim *now)
{
    call *c = user;
    fx_lower *l = c->l;
    char *own;

    if (!size_of_operands(c, name, now)) {
        bool shared = is_of_results(c, name);

        own = shared ? NULL : fx_arena_printf(l->arena, "%.*s of call %d", FX_STR_ARG(name), c->number);
        l->no_memory = l->no_memory || (!shared && !own) || fx_dim_symbol(l->arena, own ? fx_str_of(own) : name, now) != FORNAX_OK;
        if (!shared)
            return !l->no_memory;
    }
    if (l->no_memory)
        return false;
    return !c->outer || fx_dim_is_static(*now) || fx_dim_subst(l->arena, *now, c->outer, c->outer_user, now) == FORNAX_OK;
}

/* Inputs are the operands' tensors. */
static fx_status lower_callee(fx_lower *l, call *c, const fx_map *outside)
{
    int i = 0;

    FX_TRY(fx_lower_choose(l, fx_graph_body(c->callee)));
    for (fx_op *op = fx_graph_body(c->callee)->first; op; op = op->next) {
        const fx_value *given;
        uint64_t tensor = 0;

        if (op->code != FX_OP_INPUT)
            continue;
        given = fx_op_in(c->op, i++);
        if (!given || is_chain(given))
            continue;
        if (!fx_map_get(outside, fx_str_n((const char *)&given, sizeof(given)), &tensor) || !tensor)
            return fx_lower_unsupported(l, c->op, "an operand that isn't a tensor");
        if (!fx_lower_keep(l, &op->out[0], tensor))
            return no_memory(l);
    }
    l->in_call++;
    return fx_lower_block(l, fx_graph_body(c->callee));
}

static fx_status lower_call(fx_lower *l, fx_op *op)
{
    call c = { .op = op, .callee = fx_graph_find(l->g->module, fx_op_attr(op, FX_A_CALLEE)->u.s), .l = l,
               .outer = l->rename, .outer_user = l->rename_user, .number = ++l->calls };
    fx_map outside = l->kept;
    const fx_op *end = fx_graph_output(c.callee);
    int32_t *results = FX_ARENA_NEWN(l->arena, int32_t, (size_t)op->n_out + 1);
    int depth = l->in_call;
    fx_status st;

    if (!results)
        return no_memory(l);
    fx_map_init(&l->kept, l->mem);
    l->rename = rename_size;
    l->rename_user = &c;
    st = lower_callee(l, &c, &outside);
    for (int i = 0; i < op->n_out && st == FORNAX_OK; i++)
        results[i] = is_chain(&op->out[i]) ? -1 : fx_lower_kept(l, fx_op_in(end, i));
    fx_map_done(&l->kept);
    l->kept = outside;
    l->rename = c.outer;
    l->rename_user = c.outer_user;
    l->in_call = depth;
    for (int i = 0; i < op->n_out && st == FORNAX_OK; i++) {
        if (!is_chain(&op->out[i]) && !fx_lower_keep(l, &op->out[i], (uint64_t)results[i] + 1))
            st = no_memory(l);
    }
    return st;
}

/* ---- Buffers -------------------------------------------------------------------------------------------- */

static fx_status lower_create(fx_lower *l, fx_op *op)
{
    int32_t tensor;

    FX_TRY(fx_lower_own_tensor(l, &op->out[0], &tensor));
    return fx_lower_copy(l, &op->out[0].type, -1, tensor, op);
}

static fx_status lower_load(fx_lower *l, fx_op *op)
{
    int32_t from, tensor;

    FX_TRY(fx_lower_kept_in(l, op, fx_op_in(op, 0), &from));
    FX_TRY(fx_lower_own_tensor(l, &op->out[0], &tensor));
    return fx_lower_copy(l, &op->out[0].type, from, tensor, op);
}

static fx_status lower_store(fx_lower *l, fx_op *op)
{
    int32_t from, to;

    FX_TRY(fx_lower_kept_in(l, op, fx_op_in(op, 0), &to));
    FX_TRY(fx_lower_kept_in(l, op, fx_op_in(op, 1), &from));
    return fx_lower_copy(l, &fx_op_in(op, 1)->type, from, to, op);
}

/* One task: buffer[start + i * step] = x[i]. */
static void make_store_slice(fx_lk *c, fx_op *op, int32_t buffer)
{
    const fx_type *b = &fx_op_in(op, 0)->type, *x = &fx_op_in(op, 1)->type;
    const fx_attr *starts = fx_op_attr(op, FX_A_STARTS);
    fx_kop *to = fx_lk_buffer_as(c, buffer, FX_KIR_INOUT, b->dim, b->rank), *index[FX_MAX_RANK], *at[FX_MAX_RANK], *one;

    fx_kir_at(c->m, c->k->grid);
    one = fx_lk_num(c, 1);
    fx_kir_yield(c->m, &one, 1);
    fx_kir_at(c->m, c->k->body);
    for (int i = 0; i < x->rank; i++) {
        fx_kop *loop = fx_kir_for(c->m, fx_lk_num(c, 0), fx_lk_size(c, x->dim[i]), NULL);

        if (!loop)
            return;
        fx_kir_at(c->m, loop->block[0]);
        index[i] = loop->block[0]->arg;
        at[i] = fx_lk_mul(c, index[i], fx_lk_num(c, fx_op_int_at(op, FX_A_STEPS, i, 1)));
        at[i] = fx_lk_add(c, fx_lk_size(c, starts->u.dims.at[i]), at[i]);
    }
    fx_kir_store(c->m, to, fx_lk_value(c, fx_op_in(op, 1), index), at, x->rank, NULL);
}

static fx_status lower_store_slice(fx_lower *l, fx_op *op)
{
    int32_t buffer;
    fx_lk c;

    FX_TRY(fx_lower_kept_in(l, op, fx_op_in(op, 0), &buffer));
    fx_lk_begin(l, &c);
    if (c.k)
        make_store_slice(&c, op, buffer);
    return fx_lk_end(&c, op);
}

/* ---- Kernels of packages ------------------------------------------------------------------------------------ */

static fx_str kept_text(fx_lower *l, fx_str s)
{
    char *p = fx_arena_strdup(l->arena, s.p, s.n);

    l->no_memory = l->no_memory || !p;
    return fx_str_n(p ? p : "", p ? s.n : 0);
}

/* All of the module's, with the first op that needs them. */
static fx_status add_libraries(fx_lower *l)
{
    if (l->customs.n > 0)
        return FORNAX_OK;
    for (const fx_library *at = l->g->module->libraries; at; at = at->next) {
        if (!FX_VEC_PUSH(&l->libraries, l->mem, kept_text(l, at->path)))
            return no_memory(l);
    }
    return FORNAX_OK;
}

static fx_status add_custom(fx_lower *l, const fx_op *op, int32_t n_in)
{
    const fx_attr *params = fx_op_attr(op, FX_A_PARAMS);
    fx_kparam *kept = FX_ARENA_NEWN(l->arena, fx_kparam, (size_t)params->u.params.n + 1);
    fx_kcustom c = { .kernel = kept_text(l, fx_op_attr(op, FX_A_KERNEL_NAME)->u.s), .n_in = n_in, .n_params = (int32_t)params->u.params.n,
                     .params = kept };

    if (!kept)
        return no_memory(l);
    for (int64_t i = 0; i < params->u.params.n; i++) {
        const fx_kernel_param *p = &params->u.params.at[i];

        kept[i] = (fx_kparam){ kept_text(l, p->name), (int32_t)p->kind, p->i, kept_text(l, p->s) };
    }
    return FX_VEC_PUSH(&l->customs, l->mem, c) && !l->no_memory ? FORNAX_OK : no_memory(l);
}

static fx_status lower_custom(fx_lower *l, fx_op *op)
{
    int32_t *buffers = FX_ARENA_NEWN(l->arena, int32_t, FX_KCUSTOM_MAX), n = 0, n_in;
    size_t at;

    if (!buffers)
        return no_memory(l);
    if (op->n_in + op->n_out > FX_KCUSTOM_MAX || fx_op_attr(op, FX_A_PARAMS)->u.params.n > FX_KCUSTOM_MAX)
        return fx_lower_unsupported(l, op, "more than 32 operands and results, or parameters");
    FX_TRY(add_libraries(l));
    for (int i = 0; i < op->n_in; i++) {
        if (!is_chain(fx_op_in(op, i)))
            FX_TRY(fx_lower_kept_in(l, op, fx_op_in(op, i), &buffers[n++]));
    }
    n_in = n;
    for (int i = 0; i < op->n_out; i++) {
        if (!is_chain(&op->out[i]))
            FX_TRY(fx_lower_own_tensor(l, &op->out[i], &buffers[n++]));
    }
    FX_TRY(add_custom(l, op, n_in));
    FX_TRY(fx_lower_launch(l, FX_KLAUNCH_CUSTOM, op, &at));
    l->launches.at[at].kernel = (int32_t)l->customs.n - 1;
    l->launches.at[at].buffers = buffers;
    l->launches.at[at].n_buffers = n;
    return FORNAX_OK;
}

/* ---- Prints and blocks ---------------------------------------------------------------------------------------- */

fx_status fx_lower_print(fx_lower *l, const fx_op *op, const fx_value *v, fx_str text)
{
    int32_t *tensor = FX_ARENA_NEWN(l->arena, int32_t, 1);
    size_t at;

    if (!tensor)
        return no_memory(l);
    if (v)
        FX_TRY(fx_lower_kept_in(l, op, v, tensor));
    FX_TRY(fx_lower_launch(l, FX_KLAUNCH_PRINT, op, &at));
    l->launches.at[at].buffers = tensor;
    l->launches.at[at].n_buffers = v != NULL;
    l->launches.at[at].text = kept_text(l, text);
    return l->no_memory ? no_memory(l) : FORNAX_OK;
}

static fx_status lower_print(fx_lower *l, fx_op *op) { return fx_lower_print(l, op, fx_op_in(op, 0), fx_op_attr(op, FX_A_LABEL)->u.s); }

/* The blocks in tensor 'from' become floats in 'to'. */
static fx_status unpack(fx_lower *l, const fx_op *op, int32_t from, int32_t to)
{
    int32_t *buffers = FX_ARENA_NEWN(l->arena, int32_t, 2);
    size_t at;

    if (!buffers)
        return no_memory(l);
    FX_TRY(fx_lower_launch(l, FX_KLAUNCH_UNPACK, op, &at));
    buffers[0] = from;
    buffers[1] = to;
    l->launches.at[at].buffers = buffers;
    l->launches.at[at].n_buffers = 2;
    l->launches.at[at].kernel = (int32_t)fx_op_i(op, FX_A_DTYPE);
    return FORNAX_OK;
}

static fx_status lower_dequantize(fx_lower *l, fx_op *op)
{
    int32_t from, to;

    FX_TRY(fx_lower_kept_in(l, op, fx_op_in(op, 0), &from));
    FX_TRY(fx_lower_own_tensor(l, &op->out[0], &to));
    return unpack(l, op, from, to);
}

#define PRODUCT_LANES 64         /* as fx_at_linear has them: both factors lie along k */

static void make_qmatmul(fx_lk *c, fx_op *op, int32_t unpacked, int32_t result)
{
    const fx_type *x = &fx_op_in(op, 0)->type, *y = &op->out[0].type;
    fx_dim xd[2] = { fx_lower_rows(c->l, x, x->rank - 1), fx_type_last(x) }, yd[2] = { xd[0], fx_type_last(y) }, wd[2] = { yd[1], xd[1] };
    fx_kop *out = fx_lk_buffer_as(c, result, FX_KIR_OUT, yd, 2), *a = fx_lk_buffer_as(c, fx_lower_kept(c->l, fx_op_in(op, 0)), FX_KIR_IN, xd, 2);
    fx_kop *w = fx_lk_buffer_as(c, unpacked, FX_KIR_IN, wd, 2), *n, *columns, *j, *p;
    fx_lk_fold f;

    fx_kir_at(c->m, c->k->grid);
    n = fx_lk_size(c, xd[0]);
    fx_kir_yield(c->m, &n, 1);
    fx_kir_at(c->m, c->k->body);
    columns = fx_kir_forall(c->m, fx_lk_num(c, 0), fx_lk_size(c, yd[1]));
    if (!columns)
        return;
    fx_kir_at(c->m, columns->block[0]);
    j = columns->block[0]->arg;
    f = fx_lk_fold_begin(c, FX_KIR_DOT, PRODUCT_LANES, FX_F32, fx_lk_size(c, xd[1]));
    p = fx_kir_load(c->m, a, (fx_kop *const[]){ c->k->task, f.k }, 2, 1, NULL);
    p = fx_lk_fold_end(c, &f, p, fx_kir_load(c->m, w, (fx_kop *const[]){ j, f.k }, 2, 1, NULL));
    fx_kir_store(c->m, out, p, (fx_kop *const[]){ c->k->task, j }, 2, NULL);
}

static fx_status lower_qmatmul(fx_lower *l, fx_op *op)
{
    fx_type t = fx_type2(FX_F32, fx_type_last(&op->out[0].type), fx_type_last(&fx_op_in(op, 0)->type));
    int32_t from, x, w, y;
    fx_lk c;

    FX_TRY(fx_lower_kept_in(l, op, fx_op_in(op, 0), &x));
    FX_TRY(fx_lower_kept_in(l, op, fx_op_in(op, 1), &from));
    FX_TRY(fx_lower_scratch(l, op, &t, FX_STR(""), &w));
    FX_TRY(unpack(l, op, from, w));
    FX_TRY(fx_lower_own_tensor(l, &op->out[0], &y));
    fx_lk_begin(l, &c);
    if (c.k)
        make_qmatmul(&c, op, w, y);
    return fx_lk_end(&c, op);
}

/* ---- The table ------------------------------------------------------------------------------------------- */

fx_flow_fn fx_flow_of(const fx_op *op)
{
    switch (op->code) {
    case FX_OP_COND: return lower_cond;
    case FX_OP_WHILE: return lower_while;
    case FX_OP_CALL: return lower_call;
    case FX_OP_BUFFER_CREATE: return lower_create;
    case FX_OP_BUFFER_LOAD: return lower_load;
    case FX_OP_BUFFER_STORE: return lower_store;
    case FX_OP_BUFFER_STORE_SLICE: return lower_store_slice;
    case FX_OP_CUSTOM: case FX_OP_INPLACE_CUSTOM: return lower_custom;
    case FX_OP_PRINT: return lower_print;
    case FX_OP_DEQUANTIZE: return lower_dequantize;
    case FX_OP_QMATMUL: return lower_qmatmul;
    case FX_OP_NONZERO: return fx_lower_nonzero;
    case FX_OP_NMS: return fx_lower_nms;
    case FX_OP_REPEAT_INTERLEAVE: return fx_op_in(op, 1) ? fx_lower_repeats : NULL;
    default: return NULL;
    }
}
