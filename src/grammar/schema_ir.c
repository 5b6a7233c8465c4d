/* schema_ir.c - nodes: Boolean formulas over places of the schema.
 *
 * Interned by content: a conjunction is its sorted set of kids, negation stands at atoms only.  Two ways
 * to the same formula are one node, which is expanded and emitted once, so recursion ends. */
#include <stdarg.h>
#include <stdlib.h>

#include "base/text.h"
#include "grammar/schema_int.h"

#define MAX_ALIASES 100         /* $ref to $ref to ... */
#define MAX_PROBES 4            /* nested questions whether a node is empty */
#define PROBE_BUDGET 400        /* states of a language looked at for that */

/* ---- faults and memory ------------------------------------------------------------------ */

void *fx_sc_alloc(fx_sc *c, size_t n, size_t each)
{
    void *p = fx_arena_array(&c->arena, FX_MAX(n, 1u), each);

    if (!p)
        fx_sc_nomem(c);
    return p;
}

bool fx_sc_nomem(fx_sc *c)
{
    if (c->st != FORNAX_ENOMEM)
        c->st = fx_nomem(c->err, "a schema");
    return false;
}

static void where(fx_sc *c, fx_buf *b, const fx_jv *at, const char *kw)
{
    const fx_jv *root = at;

    while (root && root->parent)
        root = root->parent;
    for (size_t i = 1; i < c->documents.n; i++)
        if (c->documents.at[i] == root)
            fx_buf_str(b, c->document_names.at[i]);
    if (at)
        fx_jv_pointer(b, at);
    if (at && kw)
        fx_buf_printf(b, "/%s", kw);
}

bool fx_sc_fail(fx_sc *c, fx_status st, const fx_jv *at, const char *kw, const char *fmt, ...)
{
    char what[512];
    fx_buf b;
    va_list ap;

    if (c->st)
        return false;
    c->st = st;
    if (c->probing)
        return false;
    va_start(ap, fmt);
    fx_vformat(what, sizeof(what), fmt, ap);
    va_end(ap);
    fx_buf_init(&b, c->mem);
    where(c, &b, at, kw);
    fx_fail_param(c->err, st, b.n ? b.p : "", "%s%s%s", b.n ? b.p : "", b.n ? ": " : "", what);
    fx_buf_done(&b);
    return false;
}

bool fx_sc_over(fx_sc *c, const char *what)
{
    return fx_sc_fail(c, FORNAX_EUNSUP, c->place, NULL, "the schema is too complex: too many %s", what);
}

bool fx_sc_cannot(fx_sc *c, const char *what)
{
    return fx_sc_fail(c, FORNAX_EUNSUP, c->place, NULL, "%s can't be enforced", what);
}

void fx_sc_warn(fx_sc *c, const fx_jv *at, fx_str kw, const char *what)
{
    uint64_t seen;
    fx_buf b;

    if (!c->warnings || fx_map_get(&c->warned, kw, &seen))
        return;
    if (!fx_map_put(&c->warned, kw, 1)) {
        fx_sc_nomem(c);
        return;
    }
    fx_buf_init(&b, c->mem);
    where(c, &b, at, NULL);
    fx_buf_printf(c->warnings, "%s: \"%.*s\": %s\n", b.p ? b.p : "", (int)FX_MIN(kw.n, 100u), kw.p, what);
    fx_buf_done(&b);
}

/* ---- interning ------------------------------------------------------------------------------ */

typedef struct node_key {
    uint64_t kind, scope;
    const fx_jv *jv;
} node_key;

static fx_sn add_node(fx_sc *c, fx_str key, fx_snode n)
{
    n.g = n.rule = FX_GNODE_FAIL;
    if (c->nodes.n >= FX_S_MAX_NODES) {
        fx_sc_over(c, "combinations of schemas");
        return FX_SN_FALSE;
    }
    if (!FX_VEC_PUSH(&c->nodes, c->mem, n) || !fx_map_put(&c->node_ids, key, c->nodes.n - 1)) {
        fx_sc_nomem(c);
        return FX_SN_FALSE;
    }
    return (fx_sn)c->nodes.n - 1;
}

static fx_sn leaf(fx_sc *c, fx_snkind kind, const fx_jv *jv, uint32_t scope)
{
    node_key key = { kind, scope, jv }, *kept;
    uint64_t id;

    if (fx_map_get(&c->node_ids, fx_str_n((char *)&key, sizeof(key)), &id))
        return (fx_sn)id;
    if (!(kept = FX_SC_NEWN(c, node_key, 1)))
        return FX_SN_FALSE;
    *kept = key;
    return add_node(c, fx_str_n((char *)kept, sizeof(key)), (fx_snode){ .kind = kind, .jv = jv, .scope = scope });
}

/* 'kids' lies in the arena behind one word for the kind. */
static fx_sn branch(fx_sc *c, fx_snkind kind, fx_sn *words, uint32_t n)
{
    fx_str key = { (const char *)words, (n + 1u) * sizeof(*words) };
    uint64_t id;

    words[0] = kind;
    if (fx_map_get(&c->node_ids, key, &id))
        return (fx_sn)id;
    return add_node(c, key, (fx_snode){ .kind = kind, .kids = words + 1, .n_kids = n });
}

fx_sn fx_sn_const(fx_sc *c, const fx_jv *jv)
{
    return leaf(c, FX_SNK_CONST, jv, 0);
}

/* ---- places ----------------------------------------------------------------------------------- */

static bool is_annotation(fx_kw kw)
{
    return kw == FX_KW_TITLE || kw == FX_KW_DESCRIPTION || kw == FX_KW_DEFAULT || kw == FX_KW_EXAMPLES
           || kw == FX_KW_COMMENT || kw == FX_KW_READ_ONLY || kw == FX_KW_WRITE_ONLY || kw == FX_KW_DEPRECATED
           || kw == FX_KW_DEFS || kw == FX_KW_DEFINITIONS;
}

/* Is a place nothing but a $ref?  *plain: it says nothing at all. */
static const fx_jv *only_ref(fx_sc *c, const fx_jv *jv, bool *plain)
{
    const fx_jv *ref = NULL;
    bool other = false, old = jv->resource && c->resources.at[jv->resource - 1].dialect <= FX_D7;

    for (uint32_t i = 0; i < jv->n; i++) {
        fx_kw kw = fx_kw_find(jv->keys[i]);

        if (kw == FX_KW_REF && jv->items[i].type == FX_JSTRING)
            ref = &jv->items[i];
        else if (kw == FX_KW_COUNT || !is_annotation(kw))
            other = true;
    }
    *plain = !ref && !other;
    return ref && (!other || old) ? ref : NULL;
}

fx_sn fx_sn_place(fx_sc *c, const fx_jv *jv, uint32_t scope)
{
    for (int i = 0; i < MAX_ALIASES; i++) {
        const fx_jv *ref;
        bool plain;

        if (jv->type == FX_JBOOL)
            return jv->boolean ? FX_SN_TRUE : FX_SN_FALSE;
        if (jv->type != FX_JOBJECT) {
            fx_sc_fail(c, FORNAX_EFORMAT, jv, NULL, "a schema is an object, true or false");
            return FX_SN_FALSE;
        }
        scope = fx_sc_enter(c, scope, jv);
        ref = only_ref(c, jv, &plain);
        if (!ref)
            return plain ? FX_SN_TRUE : leaf(c, FX_SNK_ATOM, jv, scope);
        jv = fx_sc_resolve(c, jv, ref, false, scope);
        if (!jv)
            return FX_SN_FALSE;
    }
    fx_sc_fail(c, FORNAX_EUNSUP, jv, "$ref", "references in a circle");
    return FX_SN_FALSE;
}

/* ---- and, or, not -------------------------------------------------------------------------------- */

static bool has_kid(const fx_sn *kids, uint32_t n, fx_sn kid)
{
    uint32_t lo = 0, hi = n;

    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;

        if (kids[mid] < kid)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && kids[lo] == kid;
}

static fx_sn combine(fx_sc *c, fx_snkind kind, fx_sn a, fx_sn b)
{
    fx_snode na = c->nodes.at[a], nb = c->nodes.at[b];
    const fx_sn *ka = na.kind == kind ? na.kids : &a, *kb = nb.kind == kind ? nb.kids : &b;
    uint32_t n_a = na.kind == kind ? na.n_kids : 1, n_b = nb.kind == kind ? nb.n_kids : 1, n = 0;
    fx_sn *words = FX_SC_NEWN(c, fx_sn, n_a + n_b + 1u), *kids;

    if (!words)
        return FX_SN_FALSE;
    kids = words + 1;
    for (uint32_t i = 0, k = 0; i < n_a || k < n_b;) {
        fx_sn next = k == n_b || (i < n_a && ka[i] <= kb[k]) ? ka[i] : kb[k];

        i += i < n_a && ka[i] == next;
        k += k < n_b && kb[k] == next;
        kids[n++] = next;
    }
    for (uint32_t i = 0; i < n; i++)        /* x and not x */
        if (c->nodes.at[kids[i]].kind == FX_SNK_NOT && has_kid(kids, n, c->nodes.at[kids[i]].kids[0]))
            return kind == FX_SNK_AND ? FX_SN_FALSE : FX_SN_TRUE;
    if (n == 1)
        return kids[0];
    fx_sn out = branch(c, kind, words, n);
    if (out > FX_SN_TRUE && !c->nodes.at[out].left) {
        c->nodes.at[out].left = a;
        c->nodes.at[out].right = b;
    }
    return out;
}

fx_sn fx_sn_and(fx_sc *c, fx_sn a, fx_sn b)
{
    if (a == b || a == FX_SN_FALSE || b == FX_SN_TRUE)
        return a;
    return b == FX_SN_FALSE || a == FX_SN_TRUE ? b : combine(c, FX_SNK_AND, a, b);
}

fx_sn fx_sn_or(fx_sc *c, fx_sn a, fx_sn b)
{
    if (a == b || a == FX_SN_TRUE || b == FX_SN_FALSE)
        return a;
    return b == FX_SN_TRUE || a == FX_SN_FALSE ? b : combine(c, FX_SNK_OR, a, b);
}

fx_sn fx_sn_not(fx_sc *c, fx_sn a)
{
    fx_snode n = c->nodes.at[a];
    fx_sn out;

    switch (n.kind) {
    case FX_SNK_FALSE:
        return FX_SN_TRUE;
    case FX_SNK_TRUE:
        return FX_SN_FALSE;
    case FX_SNK_NOT:
        return n.kids[0];
    case FX_SNK_AND:
    case FX_SNK_OR:
        out = n.kind == FX_SNK_AND ? FX_SN_FALSE : FX_SN_TRUE;
        for (uint32_t i = 0; i < n.n_kids && !c->st; i++) {
            fx_sn kid = fx_sn_not(c, n.kids[i]);

            out = n.kind == FX_SNK_AND ? fx_sn_or(c, out, kid) : fx_sn_and(c, out, kid);
        }
        return out;
    default:
        break;
    }
    fx_sn *words = FX_SC_NEWN(c, fx_sn, 2);
    if (!words)
        return FX_SN_FALSE;
    words[1] = a;
    return branch(c, FX_SNK_NOT, words, 1);
}

/* ---- expansion -------------------------------------------------------------------------------------- */

static const fx_split *expand_kids(fx_sc *c, fx_snode n)
{
    const fx_split *s = n.kind == FX_SNK_AND ? c->all : c->none, *left, *right;

    /* The halves are made already, as a rule. */
    if (n.left && (c->nodes.at[n.left].split || c->depth < FX_S_MAX_DEPTH / 2)) {
        left = fx_sn_expand(c, n.left);
        right = left ? fx_sn_expand(c, n.right) : NULL;
        if (!right)
            return NULL;
        return n.kind == FX_SNK_AND ? fx_split_and(c, left, right) : fx_split_or(c, left, right);
    }
    for (uint32_t i = 0; i < n.n_kids && !c->st; i++) {
        const fx_split *kid = fx_sn_expand(c, n.kids[i]);

        if (kid)
            s = n.kind == FX_SNK_AND ? fx_split_and(c, s, kid) : fx_split_or(c, s, kid);
    }
    return s;
}

static const fx_split *expand(fx_sc *c, fx_snode n)
{
    const fx_split *kid;

    switch (n.kind) {
    case FX_SNK_FALSE:
        return c->none;
    case FX_SNK_TRUE:
        return c->all;
    case FX_SNK_ATOM:
        return fx_split_place(c, n.jv, n.scope, FX_PLACE_PLAIN);
    case FX_SNK_CONST:
        return fx_split_const(c, n.jv);
    case FX_SNK_NOT:
        if (c->nodes.at[n.kids[0]].kind == FX_SNK_ATOM)
            return fx_split_place(c, c->nodes.at[n.kids[0]].jv, c->nodes.at[n.kids[0]].scope, FX_PLACE_NOT);
        kid = fx_sn_expand(c, n.kids[0]);
        return kid ? fx_split_not(c, kid) : NULL;
    default:
        return expand_kids(c, n);
    }
}

const fx_split *fx_sn_expand(fx_sc *c, fx_sn id)
{
    const fx_split *s = c->st ? NULL : c->nodes.at[id].split;

    if (s || c->st)
        return s;
    if (c->depth >= FX_S_MAX_DEPTH) {
        fx_sc_over(c, "levels");
        return NULL;
    }
    c->depth++;
    s = expand(c, c->nodes.at[id]);
    c->depth--;
    if (c->st || !s)
        return NULL;
    c->nodes.at[id].split = s;
    return s;
}

bool fx_sn_is_empty(fx_sc *c, fx_sn id)
{
    const fx_split *s;
    bool none, gave_up;

    if (id <= FX_SN_TRUE || c->nodes.at[id].empty || c->st)
        return id == FX_SN_FALSE || c->nodes.at[id].empty == 1;
    if (c->probing >= MAX_PROBES || c->depth >= FX_S_MAX_DEPTH / 2)
        return false;
    c->probing++;
    s = fx_sn_expand(c, id);
    none = s && !s->null && !s->bools && !s->num.n_recs && !s->num.n_fin && !s->n_arr && !s->n_obj
           && fx_sstr_is_none(c, s->str, PROBE_BUDGET);
    c->probing--;
    gave_up = c->st != FORNAX_OK;
    if (gave_up && c->st != FORNAX_ENOMEM)      /* not known here; whoever needs it says why */
        c->st = FORNAX_OK;
    if (!gave_up)
        c->nodes.at[id].empty = none ? 1 : 2;
    return none;
}
