/* lower_explain.c - what lowering did to a graph of tensors, for people: each value and why it is kept, each launch and what it computes. */
#include "passes/lower_kir_int.h"

static fx_str key_of(const fx_value *const *v) { return fx_str_n((const char *)v, sizeof(*v)); }

bool fx_lower_note_reason(fx_lower *l, const fx_value *v, const char *why)
{
    const fx_value **key = l->explain ? FX_ARENA_NEW(l->arena, const fx_value *) : NULL;

    if (!l->explain)
        return true;
    if (key)
        *key = v;
    return key && fx_map_put(&l->reasons, key_of(key), (uint64_t)(uintptr_t)why);
}

/* Whether the kernel reads v from memory. */
static bool is_read(const fx_lk *c, const fx_value *v)
{
    int32_t tensor = fx_lower_kept(c->l, v);

    for (size_t i = 0; i < c->tensors.n; i++) {
        if (c->tensors.at[i] == tensor && c->buffer_ops.at[i]->u.buf->access == FX_KIR_IN)
            return true;
    }
    return !v->def || v->def->code == FX_OP_CONSTANT;
}

static bool is_first(const fx_lk *c, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (c->memo.at[k].value == c->memo.at[i].value)
            return false;
    }
    return true;
}

bool fx_lower_note_ops(const fx_lk *c, const fx_op *op)
{
    fx_launch_ops n = { .launch = c->l->launches.n - 1 };
    bool itself = false;
    fx_buf b;

    if (!c->l->explain)
        return true;
    fx_buf_init(&b, c->l->mem);
    for (size_t i = 0; i < c->memo.n; i++) {
        const fx_value *v = c->memo.at[i].value;

        if (is_read(c, v) || !is_first(c, i))
            continue;
        itself = itself || v->def == op;
        fx_buf_printf(&b, "%s%s", b.n ? ", " : "", fx_opcode_name(v->def->code));
    }
    if (!itself)
        fx_buf_printf(&b, "%s%s", b.n ? ", " : "", fx_opcode_name(op->code));
    n.ops = b.failed ? NULL : fx_arena_strdup(c->l->arena, b.p, b.n);
    fx_buf_done(&b);
    return n.ops && FX_VEC_PUSH(&c->l->made_of, c->l->mem, n);
}

void fx_lower_explain_values(fx_lower *l, const fx_block *b, int depth)
{
    for (const fx_op *op = b->first; op; op = op->next) {
        for (int i = 0; i < op->n_out; i++) {
            const fx_value *v = &op->out[i];
            uint64_t why = 0;
            fx_str name = v->name.n ? v->name : fx_op_label(op);

            if (!v->uses || v->type.dtype == FX_CHAIN)
                continue;
            fx_buf_printf(l->explain, "%*s%%%.*s = %s  ", 2 * depth, "", FX_STR_ARG(name), fx_opcode_name(op->code));
            fx_type_print(&v->type, l->explain);
            if (fx_map_get(&l->reasons, key_of(&v), &why))
                fx_buf_printf(l->explain, "    kept: %s\n", (const char *)(uintptr_t)why);
            else
                fx_buf_puts(l->explain, "    computed where it is read\n");
        }
        for (int i = 0; i < op->n_regions; i++)
            fx_lower_explain_values(l, op->regions[i]->first, depth + 1);
    }
}

static const char *ops_of(const fx_lower *l, size_t launch)
{
    for (size_t i = 0; i < l->made_of.n; i++) {
        if (l->made_of.at[i].launch == launch)
            return l->made_of.at[i].ops;
    }
    return NULL;
}

void fx_lower_explain_launches(fx_lower *l)
{
    static const char *const kinds[] = { [FX_KLAUNCH_KERNEL] = "kernel", [FX_KLAUNCH_COND] = "choice", [FX_KLAUNCH_WHILE] = "loop",
                                         [FX_KLAUNCH_CUSTOM] = "kernel of a package", [FX_KLAUNCH_SIZE] = "size",
                                         [FX_KLAUNCH_UNPACK] = "blocks unpacked", [FX_KLAUNCH_PRINT] = "print" };

    for (size_t i = 0; i < l->launches.n; i++) {
        const fx_klaunch *n = &l->launches.at[i];
        fx_str name = n->kind == FX_KLAUNCH_KERNEL ? l->kernels.at[n->kernel]->name
                      : n->kind == FX_KLAUNCH_CUSTOM ? l->customs.at[n->kernel].kernel : FX_STR("");

        fx_buf_printf(l->explain, "launch %zu: %s%s%.*s, for %%%.*s", i + 1, kinds[n->kind], name.n ? " " : "", FX_STR_ARG(name),
                      FX_STR_ARG(n->origin));
        fx_buf_printf(l->explain, "%s%s\n", ops_of(l, i) ? ": " : "", ops_of(l, i) ? ops_of(l, i) : "");
    }
}
