/* schema_apply.c - keywords that apply other schemas to the same value are merged into what a place says.
 *
 * 'seen' asks for what was evaluated, for the sake of unevaluatedProperties and unevaluatedItems further out:
 * branches of anyOf are then kept apart, each alone and together with others, since a value that satisfies
 * both has both evaluated. */
#include <stdlib.h>

#include "grammar/schema_int.h"

/* ---- keywords that apply other schemas to the value ----------------------------------------------- */

const fx_split *fx_sc_in_place(fx_sc *c, const fx_jv *jv, uint32_t scope, bool seen)
{
    if (!seen || jv->type != FX_JOBJECT)
        return fx_sn_expand(c, fx_sn_place(c, jv, scope));
    return fx_split_place(c, jv, fx_sc_enter(c, scope, jv), FX_PLACE_SEEN);
}

const fx_split *fx_sc_except(fx_sc *c, const fx_jv *jv, uint32_t scope)
{
    return fx_sn_expand(c, fx_sn_not(c, fx_sn_place(c, jv, scope)));
}

static const fx_split *refs(fx_sc *c, const fx_skeys *k, const fx_split *s, bool seen)
{
    static const fx_kw list[] = { FX_KW_REF, FX_KW_DYNAMIC_REF, FX_KW_RECURSIVE_REF };

    for (size_t i = 0; i < FX_COUNT(list) && s; i++) {
        const fx_jv *ref = k->kw[list[i]], *to = ref ? fx_sc_resolve(c, k->at, ref, i > 0, k->scope) : NULL;
        const fx_split *other;

        if (!ref)
            continue;
        other = to ? fx_sc_in_place(c, to, k->scope, seen) : NULL;
        s = other ? fx_split_and(c, s, other) : NULL;
    }
    return s;
}

static const fx_split *all_of(fx_sc *c, const fx_skeys *k, const fx_split *s, bool seen)
{
    const fx_jv *list = k->kw[FX_KW_ALL_OF];

    for (uint32_t i = 0; list && i < list->n && s; i++) {
        const fx_split *one = fx_sc_in_place(c, &list->items[i], k->scope, seen);

        s = one ? fx_split_and(c, s, one) : NULL;
    }
    return s;
}

/* In halves: a long list of small branches isn't copied for each of them. */
static const fx_split *sum_of(fx_sc *c, const fx_split *const *v, uint32_t n)
{
    const fx_split *a, *b;

    if (n < 2)
        return n ? v[0] : c->none;
    a = sum_of(c, v, n / 2);
    b = a ? sum_of(c, v + n / 2, n - n / 2) : NULL;
    return b ? fx_split_or(c, a, b) : NULL;
}

static const fx_split *any_branch(fx_sc *c, const fx_skeys *k, const fx_split *s, bool seen)
{
    const fx_jv *list = k->kw[FX_KW_ANY_OF];
    const fx_split *sum = c->none, **v;

    if (!list || !s)
        return s;
    if (!(v = FX_SC_NEWN(c, const fx_split *, list->n)))
        return NULL;
    for (uint32_t i = 0; i < list->n; i++)
        if (!(v[i] = fx_sc_in_place(c, &list->items[i], k->scope, seen)))
            return NULL;
    for (uint32_t i = 0; i < list->n && seen && sum; i++) {     /* alone, and with those before */
        const fx_split *both = fx_split_and(c, sum, v[i]);

        sum = both ? fx_split_or(c, sum, v[i]) : NULL;
        sum = sum ? fx_split_or(c, sum, both) : NULL;
    }
    if (!seen)
        sum = sum_of(c, v, list->n);
    return sum ? fx_split_and(c, s, sum) : NULL;
}

/* ---- oneOf: a member that tells the branches apart --------------------------------------------- */

/* The texts that a required member may have in all records of a split, if it has no other values. */
static bool member_texts(fx_sc *c, const fx_split *s, fx_str name, fx_sstr *out)
{
    *out = (fx_sstr){ FX_RE_NONE, NULL, 0 };
    if (s->null || s->bools || s->num.n_recs || s->num.n_fin || s->str.gen != FX_RE_NONE || s->str.n_fin || s->n_arr)
        return false;
    for (uint32_t i = 0; i < s->n_obj; i++) {
        const fx_sprop *p = fx_orec_find(s->obj[i], name);
        const fx_split *v = p && p->required ? fx_sn_expand(c, p->value) : NULL;

        if (!v || v->null || v->bools || v->num.n_recs || v->num.n_fin || v->n_arr || v->n_obj
            || v->str.gen != FX_RE_NONE)
            return false;
        *out = fx_sstr_or(c, *out, v->str);
    }
    return !c->st;
}

typedef struct tagged {
    fx_str text;
    uint32_t branch;
} tagged;

static int by_tag(const void *a, const void *b)
{
    return fx_str_cmp(((const tagged *)a)->text, ((const tagged *)b)->text);
}

/* Do all branches have different texts in the member 'name'? */
static bool told_apart(fx_sc *c, const fx_split *const *with, uint32_t n, fx_str name)
{
    FX_VEC(tagged) v = { 0 };
    bool ok = true;

    for (uint32_t i = 0; i < n && ok; i++) {
        fx_sstr texts;

        ok = member_texts(c, with[i], name, &texts);
        for (uint32_t k = 0; ok && k < texts.n_fin; k++)
            ok = FX_VEC_PUSH(&v, c->mem, ((tagged){ texts.fin[k], i })) || fx_sc_nomem(c);
    }
    if (ok && v.n)
        qsort(v.at, v.n, sizeof(*v.at), by_tag);
    for (size_t i = 1; i < v.n && ok; i++)
        ok = v.at[i - 1].branch == v.at[i].branch || !fx_str_eq(v.at[i - 1].text, v.at[i].text);
    FX_VEC_FREE(&v, c->mem);
    return ok && !c->st;
}

static bool has_tag(fx_sc *c, const fx_split *const *with, uint32_t n)
{
    const fx_orec *first = with[0]->n_obj ? with[0]->obj[0] : NULL;
    bool found = false;

    c->probing++;
    for (uint32_t i = 0; first && i < first->n_props && !found && c->st != FORNAX_ENOMEM; i++) {
        found = first->props[i].required && told_apart(c, with, n, first->props[i].name);
        if (c->st != FORNAX_ENOMEM)
            c->st = FORNAX_OK;
    }
    c->probing--;
    return found;
}

/* ---- oneOf of plain values -------------------------------------------------------------------------- */

static bool all_finite(const fx_split *const *with, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (with[i]->num.n_recs || with[i]->str.gen != FX_RE_NONE || with[i]->n_arr || with[i]->n_obj)
            return false;
    return true;
}

static int by_text(const void *a, const void *b) { return fx_str_cmp(*(const fx_str *)a, *(const fx_str *)b); }
static int by_value(const void *a, const void *b) { return fx_dec_cmp(*(const fx_dec *)a, *(const fx_dec *)b); }

/* Keeps what comes once of a sorted list. */
static uint32_t only_once(char *v, uint32_t n, size_t each, int (*order)(const void *, const void *))
{
    uint32_t kept = 0;

    qsort(v, n, each, order);
    for (uint32_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && order(v + i * each, v + end * each) == 0; end++)
            ;
        if (end == i + 1)
            memmove(v + kept++ * each, v + i * each, each);
    }
    return kept;
}

/* The values that one branch alone has. */
static const fx_split *once(fx_sc *c, const fx_split *const *with, uint32_t n)
{
    fx_split *s = fx_split_copy(c, c->none);
    uint32_t texts = 0, numbers = 0, count[3] = { 0 };
    fx_str *t;
    fx_dec *d;

    for (uint32_t i = 0; i < n; i++) {
        texts += with[i]->str.n_fin;
        numbers += with[i]->num.n_fin;
        count[0] += with[i]->bools & 1;
        count[1] += with[i]->bools >> 1;
        count[2] += with[i]->null;
    }
    t = FX_SC_NEWN(c, fx_str, texts);
    d = FX_SC_NEWN(c, fx_dec, numbers);
    if (!s || !t || !d)
        return NULL;
    texts = numbers = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t m = 0; m < with[i]->str.n_fin; m++)
            t[texts++] = with[i]->str.fin[m];
        for (uint32_t m = 0; m < with[i]->num.n_fin; m++)
            d[numbers++] = with[i]->num.fin[m];
    }
    s->null = count[2] == 1;
    s->bools = (uint8_t)((count[0] == 1) | (count[1] == 1) << 1);
    s->str.fin = t;
    s->str.n_fin = only_once((char *)t, texts, sizeof(*t), by_text);
    s->num.fin = d;
    s->num.n_fin = only_once((char *)d, numbers, sizeof(*d), by_value);
    return s;
}

/* Exactly one: where two can't be told apart plainly, one and not the other. */
static const fx_split *one_branch(fx_sc *c, const fx_skeys *k, const fx_split *s, bool seen)
{
    const fx_jv *list = k->kw[FX_KW_ONE_OF];
    const fx_split **with, **alone;
    bool apart;

    if (!list || !s)
        return s;
    with = FX_SC_NEWN(c, const fx_split *, list->n);
    alone = FX_SC_NEWN(c, const fx_split *, list->n);
    if (!with || !alone)
        return NULL;
    for (uint32_t i = 0; i < list->n; i++) {
        const fx_split *one = fx_sc_in_place(c, &list->items[i], k->scope, seen);

        if (!one || !(with[i] = fx_split_and(c, s, one)))
            return NULL;
    }
    if (all_finite(with, list->n))
        return once(c, with, list->n);
    apart = has_tag(c, with, list->n);
    for (uint32_t i = 0; i < list->n; i++) {
        alone[i] = with[i];
        for (uint32_t j = 0; j < list->n && !apart && alone[i] && !fx_split_is_none(alone[i]); j++) {
            const fx_split *other;

            if (i == j || fx_split_disjoint(c, alone[i], with[j]))
                continue;
            other = fx_sc_except(c, &list->items[j], k->scope);
            alone[i] = other ? fx_split_and(c, alone[i], other) : NULL;
        }
        if (!alone[i] || c->st)
            return NULL;
    }
    return sum_of(c, alone, list->n);
}

static const fx_split *negated(fx_sc *c, const fx_skeys *k, const fx_split *s)
{
    const fx_split *other;

    if (!s || !k->kw[FX_KW_NOT])
        return s;
    other = fx_sc_except(c, k->kw[FX_KW_NOT], k->scope);
    return other ? fx_split_and(c, s, other) : NULL;
}

/* (if and then) or (not if and else) */
static const fx_split *condition(fx_sc *c, const fx_skeys *k, const fx_split *s, bool seen)
{
    const fx_jv *test = k->kw[FX_KW_IF], *then = k->kw[FX_KW_THEN], *other = k->kw[FX_KW_ELSE];
    const fx_split *yes, *no, *part;

    if (!s || !test || (!then && !other && !seen))
        return s;
    yes = fx_sc_in_place(c, test, k->scope, seen);
    no = fx_sc_except(c, test, k->scope);
    if (!yes || !no)
        return NULL;
    yes = fx_split_and(c, s, yes);
    no = fx_split_and(c, s, no);
    if (then && yes && !fx_split_is_none(yes)) {
        part = fx_sc_in_place(c, then, k->scope, seen);
        yes = part ? fx_split_and(c, yes, part) : NULL;
    }
    if (other && no && !fx_split_is_none(no)) {
        part = fx_sc_in_place(c, other, k->scope, seen);
        no = part ? fx_split_and(c, no, part) : NULL;
    }
    return yes && no ? fx_split_or(c, yes, no) : NULL;
}

/* ---- dependencies ------------------------------------------------------------------------------------ */

/* Objects with the names of the list, or without the one name; other types too if 'others'. */
const fx_split *fx_sc_with_names(fx_sc *c, const fx_str *names, uint32_t n, bool present, bool others)
{
    fx_split *s = fx_split_copy(c, others ? c->all : c->none);
    const fx_orec *any = fx_orec_any(c);
    fx_orec *r = any ? fx_orec_copy(c, any, n) : NULL;
    fx_orecs v = { 0 };

    if (!s || !r)
        return NULL;
    for (uint32_t i = 0; i < n; i++)
        ((fx_sprop *)r->props)[i] = (fx_sprop){ names[i], present ? FX_SN_TRUE : FX_SN_FALSE, present, false };
    r->n_props = n;
    if (!fx_orec_sort(c, r) || !fx_orecs_add(c, &v, r)) {
        FX_VEC_FREE(&v, c->mem);
        return NULL;
    }
    return fx_split_keep_objects(c, s, &v) ? s : NULL;
}

/* The name and, if 'list' is one, all of its names, each once. */
static const fx_split *has_names(fx_sc *c, fx_str name, const fx_jv *list)
{
    uint32_t n = 1 + (list->type == FX_JARRAY ? list->n : 0), kept = 0;
    fx_str *names = FX_SC_NEWN(c, fx_str, n);

    if (!names)
        return NULL;
    for (uint32_t i = 0; i < n; i++) {
        fx_str one = i ? list->items[i - 1].text : name;
        bool known = false;

        for (uint32_t m = 0; m < kept; m++)
            known = known || fx_str_eq(names[m], one);
        if (!known)
            names[kept++] = one;
    }
    return fx_sc_with_names(c, names, kept, true, false);
}

/* Without the name, or with it and what it asks for: a list of names, or a schema. */
static const fx_split *depends(fx_sc *c, const fx_skeys *k, const fx_split *s, const fx_jv *map, bool seen)
{
    for (uint32_t i = 0; map && i < map->n && s; i++) {
        const fx_jv *what = &map->items[i];
        const fx_split *without, *with, *more;

        without = fx_sc_with_names(c, &map->keys[i], 1, false, true);
        with = has_names(c, map->keys[i], what);
        if (!without || !with || !(without = fx_split_and(c, s, without)) || !(with = fx_split_and(c, s, with)))
            return NULL;
        if (what->type != FX_JARRAY) {
            more = fx_sc_in_place(c, what, k->scope, seen);
            with = more ? fx_split_and(c, with, more) : NULL;
        }
        s = with ? fx_split_or(c, without, with) : NULL;
    }
    return s;
}

/* ---- a place ------------------------------------------------------------------------------------------- */

/* Also forgets what was seen unless it is asked for. */
static const fx_split *unseen(fx_sc *c, const fx_skeys *k, const fx_split *s, bool seen)
{
    const fx_jv *props = k->kw[FX_KW_UNEVALUATED_PROPERTIES], *items = k->kw[FX_KW_UNEVALUATED_ITEMS];

    if (s && (props || !seen))
        s = fx_sc_unseen_props(c, s, props ? fx_sn_place(c, props, k->scope) : FX_SN_TRUE, seen);
    if (s && (items || !seen))
        s = fx_sc_unseen_items(c, s, items ? fx_sn_place(c, items, k->scope) : FX_SN_TRUE, seen);
    return s;
}

static const fx_split *read_place(fx_sc *c, const fx_jv *jv, uint32_t scope, bool seen)
{
    fx_skeys k;
    const fx_split *s = NULL;
    bool inner;

    if (!fx_sc_keys(c, jv, scope, &k))
        return NULL;
    if (k.dialect <= FX_D7 && k.kw[FX_KW_REF])
        return refs(c, &k, c->all, seen);
    inner = seen || k.kw[FX_KW_UNEVALUATED_PROPERTIES] || k.kw[FX_KW_UNEVALUATED_ITEMS];
    s = fx_sc_own(c, &k, inner);
    s = refs(c, &k, s, inner);
    s = all_of(c, &k, s, inner);
    s = negated(c, &k, s);
    s = any_branch(c, &k, s, inner);
    s = one_branch(c, &k, s, inner);
    s = condition(c, &k, s, inner);
    s = depends(c, &k, s, k.kw[FX_KW_DEPENDENT_REQUIRED], inner);
    s = depends(c, &k, s, k.kw[FX_KW_DEPENDENT_SCHEMAS], inner);
    s = depends(c, &k, s, k.kw[FX_KW_DEPENDENCIES], inner);
    return inner ? unseen(c, &k, s, seen) : s;
}

typedef struct place_key {
    const fx_jv *jv;
    uint32_t scope, how;
} place_key;

static const fx_split in_progress;

const fx_split *fx_split_place(fx_sc *c, const fx_jv *jv, uint32_t scope, fx_place_how how)
{
    const fx_jv *outer = c->place;
    place_key *key = FX_SC_NEWN(c, place_key, 1);
    fx_str text = { (const char *)key, sizeof(*key) };
    const fx_split *s = NULL;
    uint64_t found;

    if (!key)
        return NULL;
    *key = (place_key){ jv, scope, how };
    if (fx_map_get(&c->splits, text, &found))
        s = (const fx_split *)(uintptr_t)found;
    if (s == &in_progress) {
        fx_sc_fail(c, FORNAX_EUNSUP, jv, NULL, "the schema applies itself to the same value: recursion without an end");
        return NULL;
    }
    if (s)
        return s;
    if (c->depth >= FX_S_MAX_DEPTH) {
        fx_sc_over(c, "levels");
        return NULL;
    }
    if (!fx_map_put(&c->splits, text, (uintptr_t)&in_progress)) {
        fx_sc_nomem(c);
        return NULL;
    }
    c->depth++;
    c->place = jv;
    s = how == FX_PLACE_NOT ? fx_sc_negation(c, jv, scope) : read_place(c, jv, scope, how == FX_PLACE_SEEN);
    c->depth--;
    c->place = outer;
    if (c->st)
        s = NULL;
    if (!fx_map_put(&c->splits, text, (uintptr_t)s))
        fx_sc_nomem(c);
    return s;
}
