/* schema_apply_not.c - what a place leaves out.
 *
 * The complement of a conjunction is the union of the complements of its keywords.  Merging first and
 * complementing the records then would multiply them. */
#include "grammar/schema_int.h"

static const fx_split *not_any(fx_sc *c, const fx_skeys *k, const fx_jv *list)
{
    const fx_split *s = c->all;

    for (uint32_t i = 0; i < list->n && s; i++) {
        const fx_split *other = fx_sc_except(c, &list->items[i], k->scope);

        s = other ? fx_split_and(c, s, other) : NULL;
    }
    return s;
}

/* None of them, or two. */
static const fx_split *not_one(fx_sc *c, const fx_skeys *k, const fx_jv *list)
{
    const fx_split *s = not_any(c, k, list);

    for (uint32_t i = 0; i < list->n; i++)
        for (uint32_t j = i + 1; j < list->n && s; j++) {
            const fx_split *a = fx_sc_in_place(c, &list->items[i], k->scope, false);
            const fx_split *b = a ? fx_sc_in_place(c, &list->items[j], k->scope, false) : NULL;

            if (!b)
                return NULL;
            if (!fx_split_disjoint(c, a, b))
                s = (a = fx_split_and(c, a, b)) ? fx_split_or(c, s, a) : NULL;
        }
    return s;
}

/* 'test' and not 'then', where both are given; 'no': not 'test'. */
static const fx_split *not_branch(fx_sc *c, const fx_skeys *k, const fx_jv *then, bool no)
{
    const fx_jv *test = k->kw[FX_KW_IF];
    const fx_split *a, *b;

    if (!test || !then)
        return c->none;
    a = no ? fx_sc_except(c, test, k->scope) : fx_sc_in_place(c, test, k->scope, false);
    b = a ? fx_sc_except(c, then, k->scope) : NULL;
    return b ? fx_split_and(c, a, b) : NULL;
}

/* Has a name without what that asks for. */
static const fx_split *not_depends(fx_sc *c, const fx_skeys *k, const fx_jv *map)
{
    const fx_split *s = c->none;

    for (uint32_t i = 0; map && i < map->n && s; i++) {
        const fx_jv *what = &map->items[i];
        const fx_split *has = fx_sc_with_names(c, &map->keys[i], 1, true, false), *missing = c->none;

        if (what->type != FX_JARRAY)
            missing = fx_sc_except(c, what, k->scope);
        for (uint32_t m = 0; what->type == FX_JARRAY && m < what->n && missing; m++) {
            const fx_split *one = fx_sc_with_names(c, &what->items[m].text, 1, false, false);

            missing = one ? fx_split_or(c, missing, one) : NULL;
        }
        has = has && missing ? fx_split_and(c, has, missing) : NULL;
        s = has ? fx_split_or(c, s, has) : NULL;
    }
    return s;
}

typedef const fx_split *negation(fx_sc *c, const fx_skeys *k);

static const fx_split *not_own(fx_sc *c, const fx_skeys *k)
{
    const fx_split *s = fx_sc_own(c, k, false);

    return s ? fx_split_not(c, s) : NULL;
}

static const fx_split *not_refs(fx_sc *c, const fx_skeys *k)
{
    static const fx_kw list[] = { FX_KW_REF, FX_KW_DYNAMIC_REF, FX_KW_RECURSIVE_REF };
    const fx_split *s = c->none;

    for (size_t i = 0; i < FX_COUNT(list) && s; i++) {
        const fx_jv *ref = k->kw[list[i]], *to = ref ? fx_sc_resolve(c, k->at, ref, i > 0, k->scope) : NULL;
        const fx_split *other = to ? fx_sc_except(c, to, k->scope) : NULL;

        if (ref)
            s = other ? fx_split_or(c, s, other) : NULL;
    }
    return s;
}

static const fx_split *not_all_of(fx_sc *c, const fx_skeys *k)
{
    const fx_jv *list = k->kw[FX_KW_ALL_OF];
    const fx_split *s = c->none;

    for (uint32_t i = 0; list && i < list->n && s; i++) {
        const fx_split *other = fx_sc_except(c, &list->items[i], k->scope);

        s = other ? fx_split_or(c, s, other) : NULL;
    }
    return s;
}

static const fx_split *not_any_of(fx_sc *c, const fx_skeys *k)
{
    return k->kw[FX_KW_ANY_OF] ? not_any(c, k, k->kw[FX_KW_ANY_OF]) : c->none;
}

static const fx_split *not_one_of(fx_sc *c, const fx_skeys *k)
{
    return k->kw[FX_KW_ONE_OF] ? not_one(c, k, k->kw[FX_KW_ONE_OF]) : c->none;
}

static const fx_split *not_not(fx_sc *c, const fx_skeys *k)
{
    return k->kw[FX_KW_NOT] ? fx_sc_in_place(c, k->kw[FX_KW_NOT], k->scope, false) : c->none;
}

static const fx_split *not_then(fx_sc *c, const fx_skeys *k) { return not_branch(c, k, k->kw[FX_KW_THEN], false); }
static const fx_split *not_else(fx_sc *c, const fx_skeys *k) { return not_branch(c, k, k->kw[FX_KW_ELSE], true); }

static const fx_split *not_dependencies(fx_sc *c, const fx_skeys *k)
{
    static const fx_kw list[] = { FX_KW_DEPENDENT_REQUIRED, FX_KW_DEPENDENT_SCHEMAS, FX_KW_DEPENDENCIES };
    const fx_split *s = c->none;

    for (size_t i = 0; i < FX_COUNT(list) && s; i++) {
        const fx_split *one = not_depends(c, k, k->kw[list[i]]);

        s = one ? fx_split_or(c, s, one) : NULL;
    }
    return s;
}

const fx_split *fx_sc_negation(fx_sc *c, const fx_jv *jv, uint32_t scope)
{
    static negation *const parts[] = { not_own, not_refs, not_all_of, not_any_of, not_one_of, not_not, not_then,
                                       not_else, not_dependencies };
    fx_skeys k;
    const fx_split *s = c->none;

    if (!fx_sc_keys(c, jv, scope, &k))
        return NULL;
    if (k.dialect <= FX_D7 && k.kw[FX_KW_REF])
        return not_refs(c, &k);
    if (k.kw[FX_KW_UNEVALUATED_PROPERTIES] || k.kw[FX_KW_UNEVALUATED_ITEMS]) {
        s = fx_split_place(c, jv, scope, FX_PLACE_PLAIN);
        return s ? fx_split_not(c, s) : NULL;
    }
    for (size_t i = 0; i < FX_COUNT(parts) && s; i++) {
        const fx_split *one = parts[i](c, &k);

        s = one ? fx_split_or(c, s, one) : NULL;
    }
    return s;
}
