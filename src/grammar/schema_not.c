/* schema_not.c - complements.
 *
 * What a record leaves out is a union of small records, one for each thing that it says: a missing name, a
 * value of its complement, one item too many.  The complement of a union is the conjunction of those. */
#include "grammar/schema_int.h"

/* ---- arrays ---------------------------------------------------------------------------- */

static bool add_array(fx_sc *c, fx_arecs *v, fx_arec r)
{
    fx_arec *copy = FX_SC_NEWN(c, fx_arec, 1);

    if (!copy)
        return false;
    *copy = r;
    return fx_arecs_add(c, v, copy);
}

static bool add_contains(fx_sc *c, fx_arecs *v, fx_scontains one)
{
    fx_scontains *kept = FX_SC_NEWN(c, fx_scontains, 1);

    if (!kept)
        return false;
    *kept = one;
    return add_array(c, v, (fx_arec){ .rest = FX_SN_TRUE, .max = FX_S_INF, .contains = kept, .n_contains = 1 });
}

static bool not_item(fx_sc *c, fx_arecs *v, uint32_t i, fx_sn node)
{
    fx_sn *prefix = FX_SC_NEWN(c, fx_sn, i + 1u);

    if (!prefix)
        return false;
    for (uint32_t k = 0; k < i; k++)
        prefix[k] = FX_SN_TRUE;
    prefix[i] = fx_sn_not(c, node);
    return prefix[i] == FX_SN_FALSE
           || add_array(c, v, (fx_arec){ .prefix = prefix, .n_prefix = i + 1, .rest = FX_SN_TRUE, .min = i + 1,
                                         .max = FX_S_INF });
}

static void not_array(fx_sc *c, const fx_arec *r, fx_arecs *v)
{
    if (r->unique) {
        fx_sc_cannot(c, "the negation of uniqueItems");
        return;
    }
    if (r->min)
        add_array(c, v, (fx_arec){ .rest = FX_SN_TRUE, .max = r->min - 1 });
    if (r->max != FX_S_INF)
        add_array(c, v, (fx_arec){ .rest = FX_SN_TRUE, .min = r->max + 1, .max = FX_S_INF });
    for (uint32_t i = 0; i < r->n_prefix; i++)
        not_item(c, v, i, r->prefix[i]);
    if (r->rest != FX_SN_TRUE)
        add_contains(c, v, (fx_scontains){ fx_sn_not(c, r->rest), 1, FX_S_INF, r->n_prefix });
    for (uint32_t i = 0; i < r->n_contains; i++) {
        fx_scontains one = r->contains[i];

        if (one.min)
            add_contains(c, v, (fx_scontains){ one.node, 0, one.min - 1, one.from });
        if (one.max != FX_S_INF)
            add_contains(c, v, (fx_scontains){ one.node, one.max + 1, FX_S_INF, one.from });
    }
}

/* ---- objects ------------------------------------------------------------------------------ */

static fx_orec *blank(fx_sc *c, uint32_t n_props)
{
    const fx_orec *any = fx_orec_any(c);

    return any ? fx_orec_copy(c, any, n_props) : NULL;
}

static bool add_member(fx_sc *c, fx_orecs *v, fx_str name, fx_sn value, bool required)
{
    fx_orec *r = blank(c, 1);

    if (!r)
        return false;
    ((fx_sprop *)r->props)[0] = (fx_sprop){ .name = name, .value = value, .required = required };
    r->n_props = 1;
    return fx_orec_sort(c, r) && fx_orecs_add(c, v, r);
}

static bool add_counts(fx_sc *c, fx_orecs *v, uint32_t min, uint32_t max)
{
    fx_orec *r = blank(c, 0);

    if (!r)
        return false;
    r->min = min;
    r->max = max;
    return fx_orecs_add(c, v, r);
}

static bool add_some(fx_sc *c, fx_orecs *v, fx_re name, fx_sn value)
{
    fx_orec *r = blank(c, 0);
    fx_ssome *some = FX_SC_NEWN(c, fx_ssome, 1);

    if (!r || !some)
        return false;
    *some = (fx_ssome){ name, value };
    r->some = some;
    r->n_some = 1;
    return value == FX_SN_FALSE || fx_orecs_add(c, v, r);
}

/* No member whose name is in 'some' has its value. */
static bool add_none(fx_sc *c, fx_orecs *v, const fx_ssome *some)
{
    fx_orec *r = blank(c, 0);
    fx_sclass *classes = FX_SC_NEWN(c, fx_sclass, 2);
    uint32_t n = 0;

    if (!r || !classes)
        return false;
    if (some->value != FX_SN_TRUE)
        classes[n++] = (fx_sclass){ some->name, fx_sn_not(c, some->value) };
    if (some->name != c->any_text)
        classes[n++] = (fx_sclass){ fx_re_minus(c, c->any_text, some->name), FX_SN_TRUE };
    r->classes = classes;
    r->n_classes = n;
    return fx_orecs_add(c, v, r);
}

/* The declared names as a language; NONE where there are none. */
static fx_re declared(fx_sc *c, const fx_orec *r)
{
    fx_str *names = FX_SC_NEWN(c, fx_str, r->n_props);
    uint32_t n = r->n_props;

    if (!names)
        return FX_RE_NONE;
    for (uint32_t i = 0; i < n; i++)
        names[i] = r->props[r->by_name[i]].name;
    return n ? fx_texts_re(c, names, n) : FX_RE_NONE;
}

static void not_classes(fx_sc *c, const fx_orec *r, fx_orecs *v)
{
    fx_re names = declared(c, r), rest = c->any_text;

    for (uint32_t i = 0; i < r->n_classes && !c->st; i++) {
        rest = fx_re_minus(c, rest, r->classes[i].name);
        if (r->classes[i].value != FX_SN_TRUE)
            add_some(c, v, fx_re_minus(c, r->classes[i].name, names), fx_sn_not(c, r->classes[i].value));
    }
    if (!c->st && !fx_re_empty(c, rest))
        add_some(c, v, fx_re_minus(c, rest, names), FX_SN_TRUE);
}

static void not_object(fx_sc *c, const fx_orec *r, fx_orecs *v)
{
    if (r->min)
        add_counts(c, v, 0, r->min - 1);
    if (r->max != FX_S_INF)
        add_counts(c, v, r->max + 1, FX_S_INF);
    for (uint32_t i = 0; i < r->n_props && !c->st; i++) {
        const fx_sprop *p = &r->props[i];

        if (p->required)
            add_member(c, v, p->name, FX_SN_FALSE, false);
        if (p->value != FX_SN_TRUE)
            add_member(c, v, p->name, fx_sn_not(c, p->value), true);
    }
    not_classes(c, r, v);
    for (uint32_t i = 0; i < r->n_some && !c->st; i++)
        add_none(c, v, &r->some[i]);
}

/* ---- splits --------------------------------------------------------------------------------- */

const fx_split *fx_split_not(fx_sc *c, const fx_split *a)
{
    fx_split *scalars;
    const fx_split *s;

    if (a == c->all || a == c->none)
        return a == c->all ? c->none : c->all;
    if (!(scalars = fx_split_copy(c, c->all)))
        return NULL;
    scalars->null = !a->null;
    scalars->bools = a->bools ^ 3;
    scalars->num = fx_snum_not(c, a->num);
    scalars->str = fx_sstr_not(c, a->str);
    s = scalars;
    for (uint32_t i = 0; i < a->n_arr && s && !c->st; i++) {
        fx_split *one = fx_split_copy(c, c->all);
        fx_arecs v = { 0 };

        if (!one)
            return NULL;
        not_array(c, a->arr[i], &v);
        fx_split_keep_arrays(c, one, &v);
        s = fx_split_and(c, s, one);
    }
    for (uint32_t i = 0; i < a->n_obj && s && !c->st; i++) {
        fx_split *one = fx_split_copy(c, c->all);
        fx_orecs v = { 0 };

        if (!one)
            return NULL;
        not_object(c, a->obj[i], &v);
        fx_split_keep_objects(c, one, &v);
        s = fx_split_and(c, s, one);
    }
    return c->st ? NULL : s;
}
