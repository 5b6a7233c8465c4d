/* lower_fuse.c - finds the patterns of lower_fuse.def, before it is decided which values are kept.
 *
 * Each rule in turn is tried at each op, from the first to the last; where it fires it takes its values, which no other may
 * take then.  A rule changes no bits: its kernel computes what the ops of its pattern say, in their order, only
 * elsewhere. */
#include "passes/lower_kir_int.h"

static const struct {
    const char *name, *kept;     /* kept: why its results are */
    fx_fuse_fn find;
} rules[] = {
#define FUSE(name, text) { text, "it is stored by the kernel of " text, fx_fuse_##name },
#include "passes/lower_fuse.def"
};

static fx_str key_of(const fx_value *const *v) { return fx_str_n((const char *)v, sizeof(*v)); }

static fx_fused *look_up(const fx_map *m, const fx_value *v)
{
    uint64_t at;

    return fx_map_get(m, key_of(&v), &at) ? (fx_fused *)(uintptr_t)at : NULL;
}

fx_fused *fx_fused_inner(const fx_lower *l, const fx_value *v) { return look_up(&l->inner, v); }
fx_fused *fx_fused_result(const fx_lower *l, const fx_value *v) { return look_up(&l->results, v); }

static bool note(fx_lower *l, fx_map *m, const fx_value *v, const fx_fused *f)
{
    const fx_value **key = FX_ARENA_NEW(l->arena, const fx_value *);

    if (key)
        *key = v;
    return key && fx_map_put(m, key_of(key), (uint64_t)(uintptr_t)f);
}

static bool is_taken(const fx_lower *l, const fx_value *v) { return fx_fused_inner(l, v) || fx_fused_result(l, v); }

static bool overlaps(const fx_lower *l, const fx_fused *f)
{
    bool taken = false;

    for (int i = 0; i < f->n_inner; i++)
        taken = taken || is_taken(l, f->inner[i]);
    for (int i = 0; i < f->n_results; i++)
        taken = taken || is_taken(l, f->result[i]);
    return taken;
}

static bool is_printed(fx_lower *l, const fx_fused *f)
{
    bool printed = false;

    for (int i = 0; i < f->n_inner; i++)
        printed = printed || fx_lower_printed(l, f->inner[i]);
    return printed;
}

static fx_status take(fx_lower *l, const fx_fused *found)
{
    fx_fused *f = FX_ARENA_NEW(l->arena, fx_fused), *beside = FX_ARENA_NEW(l->arena, fx_fused);
    bool ok = f && beside;

    if (ok && found->beside && !is_taken(l, found->beside)) {
        *beside = (fx_fused){ .kept = found->why_beside, .n_results = 1, .result = { found->beside } };
        ok = note(l, &l->results, found->beside, beside);
    }
    for (int i = 0; ok && i < found->n_inner; i++)
        ok = note(l, &l->inner, found->inner[i], f);
    for (int i = 0; ok && i < found->n_results; i++)
        ok = note(l, &l->results, found->result[i], f);
    if (!ok)
        return fx_nomem(l->err, "a plan");
    *f = *found;
    return FORNAX_OK;
}

static void explain(fx_lower *l, const char *rule, const fx_op *root, const char *why)
{
    if (l->explain && why)
        fx_buf_printf(l->explain, "# rule %s: not at %%%.*s (%s): %s\n", rule, FX_STR_ARG(fx_op_label(root)), fx_opcode_name(root->code), why);
    else if (l->explain)
        fx_buf_printf(l->explain, "# rule %s: fires at %%%.*s (%s)\n", rule, FX_STR_ARG(fx_op_label(root)), fx_opcode_name(root->code));
}

static fx_status try_rule(fx_lower *l, size_t rule, fx_op *op)
{
    fx_fused f = { .kept = rules[rule].kept, .at = op };
    const char *why = rules[rule].find(l, op, &f);

    if (why && !*why)
        return FORNAX_OK;
    if (!why && overlaps(l, &f))
        why = "a part of it belongs to another kernel";
    if (!why && is_printed(l, &f))
        why = "a value inside of it is printed";
    explain(l, rules[rule].name, op, why);
    return why ? FORNAX_OK : take(l, &f);
}

static fx_status try_in_block(fx_lower *l, size_t rule, const fx_block *b)
{
    for (fx_op *op = b->first; op; op = op->next) {
        for (int i = 0; i < op->n_regions; i++)
            FX_TRY(try_in_block(l, rule, op->regions[i]->first));
        FX_TRY(try_rule(l, rule, op));
    }
    return FORNAX_OK;
}

fx_status fx_lower_fuse(fx_lower *l, const fx_block *b)
{
    for (size_t i = 0; i < FX_COUNT(rules); i++)
        FX_TRY(try_in_block(l, i, b));
    return FORNAX_OK;
}

/* ---- For rules ----------------------------------------------------------------------------------------- */

static bool has(fx_value *const *list, int n, const fx_value *v)
{
    for (int i = 0; i < n; i++) {
        if (list[i] == v)
            return true;
    }
    return false;
}

static bool is_part(const fx_fused *f, const fx_value *v) { return has(f->inner, f->n_inner, v) || has(f->result, f->n_results, v); }

bool fx_fuse_inner(fx_fused *f, fx_value *v)
{
    if (is_part(f, v))
        return true;
    if (f->n_inner == FX_FUSE_INNER)
        return false;
    f->inner[f->n_inner++] = v;
    return true;
}

bool fx_fuse_result(fx_fused *f, fx_value *v)
{
    if (has(f->result, f->n_results, v))
        return true;
    if (f->n_results == FX_FUSE_RESULTS)
        return false;
    f->result[f->n_results++] = v;
    return true;
}

/* Whether all that v's op reads is part of the pattern, or there in front of op. */
static bool is_before(const fx_fused *f, const fx_value *v, fx_op *op)
{
    for (int i = 0; i < v->def->n_in; i++) {
        const fx_value *in = fx_op_in(v->def, i);

        if (in && in->def && in->def->block == op->block && in->def->n_in && !is_part(f, in) && !fx_op_before(in->def, op))
            return false;
    }
    return true;
}

static bool all_before(const fx_fused *f, fx_op *op)
{
    bool ok = true;

    for (int i = 0; i < f->n_results; i++)
        ok = ok && is_before(f, f->result[i], op);
    for (int i = 0; i < f->n_inner; i++)
        ok = ok && is_before(f, f->inner[i], op);
    return ok;
}

/* The op of op's block that op is, or stands in. */
static const fx_op *in_block(const fx_op *op, const fx_block *b)
{
    while (op && op->block != b)
        op = op->block->region ? op->block->region->op : NULL;
    return op;
}

/* Whether someone else reads a result before op. */
static bool is_read_before(const fx_fused *f, fx_op *op)
{
    for (int i = 0; i < f->n_results; i++) {
        for (const fx_use *u = f->result[i]->uses; u; u = u->next) {
            const fx_op *user = in_block(u->user, op->block);

            if (u->user->n_out && is_part(f, &u->user->out[0]))
                continue;
            if (user && user != op && fx_op_before((fx_op *)(uintptr_t)user, op))
                return true;
        }
    }
    return false;
}

const char *fx_fuse_place(fx_fused *f)
{
    fx_op *first = f->result[0]->def, *last = first;

    for (int i = 1; i < f->n_results; i++) {
        fx_op *op = f->result[i]->def;

        first = fx_op_before(op, first) ? op : first;
        last = fx_op_before(last, op) ? op : last;
    }
    f->at = is_read_before(f, last) ? first : last;
    return f->at == last || all_before(f, first) ? NULL : "one of its results is read before all that the others need is there";
}

fx_op *fx_fuse_chain(fx_fused *f, fx_value *v, fx_opcode code, const char **why)
{
    fx_op *op = v->def, *found = NULL;
    int n = 0;

    if (!op || (op->code != code && (!fx_lower_by_element(op->code) || !fx_single_use(v))))
        return NULL;
    if (op->code == code)
        found = op;
    for (int i = 0; op->code != code && i < op->n_in; i++) {
        fx_fused branch = { .n_inner = 0 };
        fx_op *below = fx_fuse_chain(&branch, fx_op_in(op, i), code, why);

        if (!below)
            continue;
        n++;
        found = below;
        if (!fx_lower_same_shape(&fx_op_in(op, i)->type, &v->type, false))
            *why = "a step between is broadcast";
        for (int k = 0; k < branch.n_inner; k++) {
            if (!fx_fuse_inner(f, branch.inner[k]))
                *why = "so many steps lie between";
        }
    }
    if (n > 1)
        *why = "a step between has two of them";
    if (found && !fx_single_use(v))
        *why = code == FX_OP_MATMUL ? "a product has another reader" : "its first operand has another reader";
    if (found && !fx_fuse_inner(f, v))
        *why = "so many steps lie between";
    return found;
}

/* ---- Rows --------------------------------------------------------------------------------------------------- */

static bool is_one(const fx_value *v) { return fx_dim_eq(fx_type_last(&v->type), fx_dim_of(1)); }

static void store_row(fx_lk *c, fx_value *v, fx_kop *out, fx_kop *const *index, fx_kop *row, fx_kop *col)
{
    fx_kop *y = fx_lk_root(c, v, index);

    fx_lk_remember(c, v, 0, index, v->type.rank, y);
    fx_kir_store(c->m, out, y, (fx_kop *const[]){ row, col }, 2, NULL);
}

/* Those of one element a row first, as others may be made of them. */
void fx_fuse_make_rows(fx_lk *c, const fx_fused *f, const int32_t *tensor)
{
    fx_kop *out[FX_FUSE_RESULTS], *index[FX_MAX_RANK], *row, *loop;
    const fx_value *wide = f->result[0];
    int rank = wide->type.rank;
    fx_dim rows = fx_lower_rows(c->l, &wide->type, rank - 1);

    for (int i = 0; i < f->n_results; i++) {
        fx_dim dim[2] = { rows, fx_type_last(&f->result[i]->type) };

        out[i] = fx_lk_buffer_as(c, tensor[i], FX_KIR_OUT, dim, 2);
        wide = is_one(wide) ? f->result[i] : wide;
    }
    row = fx_lk_task_loop(c, rows, fx_lower_rows_of_task(wide));
    fx_lk_unravel(c, row, wide->type.dim, rank - 1, index);
    index[rank - 1] = fx_lk_num(c, 0);
    for (int i = 0; i < f->n_results; i++) {
        if (is_one(f->result[i]))
            store_row(c, f->result[i], out[i], index, row, index[rank - 1]);
    }
    if (is_one(wide))
        return;
    loop = fx_kir_forall(c->m, fx_lk_num(c, 0), fx_lk_size(c, fx_type_last(&wide->type)));
    if (!loop)
        return;
    fx_kir_at(c->m, loop->block[0]);
    index[rank - 1] = loop->block[0]->arg;
    for (int i = 0; i < f->n_results; i++) {
        if (!is_one(f->result[i]))
            store_row(c, f->result[i], out[i], index, row, index[rank - 1]);
    }
}
