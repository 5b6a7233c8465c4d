/* schema_merge.c - splits and records: both of two, one of two.
 *
 * A record says everything about the values that it admits, so "and" of two unions is the union of the
 * merged pairs.  Pairs that are plainly empty (a required member whose value can't be, more than the most)
 * are dropped at once: that is what keeps chains of if/then and oneOf small. */
#include <stdlib.h>

#include "grammar/schema_int.h"

#define MAX_ABSORB 300          /* records that a new one is compared with */

/* ---- arrays ----------------------------------------------------------------------------- */

const fx_arec *fx_arec_any(fx_sc *c)
{
    fx_arec *r = FX_SC_NEWN(c, fx_arec, 1);

    if (r)
        *r = (fx_arec){ .rest = FX_SN_TRUE, .max = FX_S_INF };
    return r;
}

fx_sn fx_arec_item(const fx_arec *r, uint32_t i)
{
    return i < r->n_prefix ? r->prefix[i] : r->rest;
}

static bool array_is_any(const fx_arec *r)
{
    return !r->n_prefix && r->rest == FX_SN_TRUE && !r->min && r->max == FX_S_INF && !r->n_contains && !r->unique
           && !r->seen_prefix && !r->n_seen_contains;
}

static bool array_dead(fx_sc *c, fx_arec *r)
{
    if (fx_sn_is_empty(c, r->rest))
        r->max = FX_MIN(r->max, r->n_prefix);
    for (uint32_t i = 0; i < FX_MIN(r->n_prefix, r->max); i++)
        if (fx_sn_is_empty(c, r->prefix[i]))
            r->max = i;
    for (uint32_t i = 0; i < r->n_contains; i++)
        if (r->contains[i].min > r->contains[i].max
            || (r->contains[i].min && (r->max <= r->contains[i].from || fx_sn_is_empty(c, r->contains[i].node))))
            return true;
    return r->min > r->max;
}

bool fx_arecs_add(fx_sc *c, fx_arecs *v, const fx_arec *r)
{
    fx_arec *copy;

    if (!r || c->st)
        return !c->st;
    for (size_t i = 0; i < v->n; i++)
        if (v->at[i] == r)
            return true;
    if (!(copy = FX_SC_NEWN(c, fx_arec, 1)))
        return false;
    *copy = *r;
    if (array_dead(c, copy))
        return !c->st;
    if (v->n >= FX_S_MAX_UNION)
        return fx_sc_over(c, "alternatives of arrays");
    return FX_VEC_PUSH(v, c->mem, copy) || fx_sc_nomem(c);
}

static bool merge_contains(fx_sc *c, fx_arec *r, const fx_arec *a, const fx_arec *b)
{
    fx_scontains *all = FX_SC_NEWN(c, fx_scontains, (size_t)a->n_contains + b->n_contains);
    uint32_t n = 0;

    if (!all)
        return false;
    for (uint32_t i = 0; i < a->n_contains + b->n_contains; i++) {
        fx_scontains one = i < a->n_contains ? a->contains[i] : b->contains[i - a->n_contains];
        uint32_t k = 0;

        while (k < n && (all[k].node != one.node || all[k].from != one.from))
            k++;
        if (k == n) {
            all[n++] = one;
        } else {
            all[k].min = FX_MAX(all[k].min, one.min);
            all[k].max = FX_MIN(all[k].max, one.max);
        }
    }
    r->contains = all;
    r->n_contains = n;
    return true;
}

static bool merge_seen_items(fx_sc *c, fx_arec *r, const fx_arec *a, const fx_arec *b)
{
    fx_sn *seen;

    r->seen_prefix = FX_MAX(a->seen_prefix, b->seen_prefix);
    r->n_seen_contains = a->n_seen_contains + b->n_seen_contains;
    if (!r->n_seen_contains)
        return true;
    if (!(seen = FX_SC_NEWN(c, fx_sn, r->n_seen_contains)))
        return false;
    for (uint32_t i = 0; i < r->n_seen_contains; i++)
        seen[i] = i < a->n_seen_contains ? a->seen_contains[i] : b->seen_contains[i - a->n_seen_contains];
    r->seen_contains = seen;
    return true;
}

const fx_arec *fx_arec_and(fx_sc *c, const fx_arec *a, const fx_arec *b)
{
    fx_arec *r;
    fx_sn *prefix;

    if (array_is_any(a) || array_is_any(b))
        return array_is_any(a) ? b : a;
    r = FX_SC_NEWN(c, fx_arec, 1);
    if (!r)
        return NULL;
    r->n_prefix = FX_MAX(a->n_prefix, b->n_prefix);
    prefix = FX_SC_NEWN(c, fx_sn, r->n_prefix);
    if (!prefix || !merge_contains(c, r, a, b) || !merge_seen_items(c, r, a, b))
        return NULL;
    for (uint32_t i = 0; i < r->n_prefix; i++)
        prefix[i] = fx_sn_and(c, fx_arec_item(a, i), fx_arec_item(b, i));
    r->prefix = prefix;
    r->rest = fx_sn_and(c, a->rest, b->rest);
    r->min = FX_MAX(a->min, b->min);
    r->max = FX_MIN(a->max, b->max);
    r->unique = a->unique || b->unique;
    return c->st ? NULL : r;
}

/* ---- objects ------------------------------------------------------------------------------ */

const fx_orec *fx_orec_any(fx_sc *c)
{
    fx_orec *r = FX_SC_NEWN(c, fx_orec, 1);
    fx_sclass *any = FX_SC_NEWN(c, fx_sclass, 1);

    if (!r || !any)
        return NULL;
    *any = (fx_sclass){ c->any_text, FX_SN_TRUE };
    *r = (fx_orec){ .classes = any, .n_classes = 1, .max = FX_S_INF, .seen = FX_RE_NONE };
    return r;
}

static bool object_is_any(fx_sc *c, const fx_orec *r)
{
    return !r->n_props && r->n_classes == 1 && r->classes[0].name == c->any_text && r->classes[0].value == FX_SN_TRUE
           && !r->min && r->max == FX_S_INF && !r->n_some && r->seen == FX_RE_NONE;
}

fx_orec *fx_orec_copy(fx_sc *c, const fx_orec *r, uint32_t more)
{
    fx_orec *copy = FX_SC_NEWN(c, fx_orec, 1);
    fx_sprop *props = FX_SC_NEWN(c, fx_sprop, (size_t)r->n_props + more);

    if (!copy || !props)
        return NULL;
    *copy = *r;
    if (r->n_props)
        memcpy(props, r->props, r->n_props * sizeof(*props));
    copy->props = props;
    return copy;
}

typedef struct named {
    fx_str name;
    uint32_t at;
} named;

static int by_name(const void *a, const void *b)
{
    return fx_str_cmp(((const named *)a)->name, ((const named *)b)->name);
}

bool fx_orec_sort(fx_sc *c, fx_orec *r)
{
    named *v = FX_SC_NEWN(c, named, r->n_props);
    uint32_t *order = FX_SC_NEWN(c, uint32_t, r->n_props);

    if (!v || !order)
        return false;
    for (uint32_t i = 0; i < r->n_props; i++)
        v[i] = (named){ r->props[i].name, i };
    qsort(v, r->n_props, sizeof(*v), by_name);
    for (uint32_t i = 0; i < r->n_props; i++)
        order[i] = v[i].at;
    r->by_name = order;
    return true;
}

const fx_sprop *fx_orec_find(const fx_orec *r, fx_str name)
{
    uint32_t lo = 0, hi = r->n_props;

    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        const fx_sprop *p = &r->props[r->by_name[mid]];
        int order = fx_str_cmp(p->name, name);

        if (!order)
            return p;
        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

fx_sn fx_orec_value(fx_sc *c, const fx_orec *r, fx_str name)
{
    const fx_sprop *p = fx_orec_find(r, name);

    if (p)
        return p->value;
    for (uint32_t i = 0; i < r->n_classes; i++)
        if (fx_re_has_text(c, r->classes[i].name, name))
            return r->classes[i].value;
    return FX_SN_FALSE;
}

static bool object_dead(fx_sc *c, const fx_orec *r)
{
    uint32_t required = 0, possible = 0;

    for (uint32_t i = 0; i < r->n_props; i++) {
        required += r->props[i].required;
        possible += r->props[i].value != FX_SN_FALSE;
        if (r->props[i].required && r->props[i].value == FX_SN_FALSE)
            return true;
    }
    if (r->min > r->max || required > r->max || (!r->n_classes && possible < r->min))
        return true;
    for (uint32_t i = 0; i < r->n_props; i++)
        if (r->props[i].required && fx_sn_is_empty(c, r->props[i].value))
            return true;
    return false;
}

/* Is some member of an open class able to be the one that 'some' asks for? */
static bool class_could(fx_sc *c, const fx_orec *r, const fx_ssome *some)
{
    for (uint32_t i = 0; i < r->n_classes; i++)
        if (!fx_sn_is_empty(c, fx_sn_and(c, r->classes[i].value, some->value))
            && !fx_re_empty(c, some->name == c->any_text ? r->classes[i].name
                                                         : fx_re_and(c->re, r->classes[i].name, some->name)))
            return true;
    return false;
}

/* Is there a required member that satisfies it already? */
static bool some_holds(fx_sc *c, const fx_orec *r, const fx_ssome *some)
{
    for (uint32_t i = 0; i < r->n_props; i++)
        if (r->props[i].required && (some->value == FX_SN_TRUE || some->value == r->props[i].value)
            && fx_re_has_text(c, some->name, r->props[i].name))
            return true;
    return false;
}

static bool drop_some(fx_sc *c, fx_orec *r, uint32_t at)
{
    fx_ssome *v = FX_SC_NEWN(c, fx_ssome, r->n_some);

    if (!v)
        return false;
    for (uint32_t i = 0, n = 0; i < r->n_some; i++)
        if (i != at)
            v[n++] = r->some[i];
    r->some = v;
    r->n_some--;
    return true;
}

bool fx_orec_candidates(fx_sc *c, fx_orecs *v, const fx_orec *r, uint32_t at)
{
    const fx_ssome *some = &r->some[at];

    for (uint32_t i = 0; i < r->n_props && !c->st; i++) {
        const fx_sprop *p = &r->props[i];
        fx_sn value = fx_sn_and(c, p->value, some->value);
        fx_orec *copy;

        if (value == FX_SN_FALSE || !fx_re_has_text(c, some->name, p->name))
            continue;
        if (!(copy = fx_orec_copy(c, r, 0)))
            return false;
        ((fx_sprop *)copy->props)[i].value = value;
        ((fx_sprop *)copy->props)[i].required = true;
        if (!drop_some(c, copy, at) || !fx_orecs_add(c, v, copy))
            return false;
    }
    return !c->st;
}

/* ---- which record takes in which: plainly, or false ---------------------------------------- */

/* Is every conjunct of b one of a? */
static bool node_within(const fx_sc *c, fx_sn a, fx_sn b)
{
    const fx_snode *x = &c->nodes.at[a], *y = &c->nodes.at[b];
    const fx_sn *kx = x->kind == FX_SNK_AND ? x->kids : &a, *ky = y->kind == FX_SNK_AND ? y->kids : &b;
    uint32_t nx = x->kind == FX_SNK_AND ? x->n_kids : 1, ny = y->kind == FX_SNK_AND ? y->n_kids : 1, i = 0;

    if (a == b || a == FX_SN_FALSE || b == FX_SN_TRUE)
        return true;
    for (uint32_t k = 0; k < ny; k++) {         /* both sorted */
        while (i < nx && kx[i] < ky[k])
            i++;
        if (i == nx || kx[i] != ky[k])
            return false;
    }
    return true;
}

static bool classes_within(fx_sc *c, const fx_orec *a, const fx_orec *b)
{
    for (uint32_t i = 0; i < a->n_classes; i++) {
        bool found = false;

        for (uint32_t k = 0; k < b->n_classes && !found; k++)
            found = (b->classes[k].name == c->any_text || b->classes[k].name == a->classes[i].name)
                    && node_within(c, a->classes[i].value, b->classes[k].value);
        if (!found)
            return false;
    }
    return true;
}

static bool object_within(fx_sc *c, const fx_orec *a, const fx_orec *b)
{
    if ((b->must & ~a->must) || a->min < b->min || a->max > b->max || (b->n_some && b->some != a->some)
        || !classes_within(c, a, b))
        return false;
    for (uint32_t i = 0; i < b->n_props; i++) {
        const fx_sprop *p = &b->props[i], *q = fx_orec_find(a, p->name);

        if (p->required && !(q && q->required))
            return false;
        if (!node_within(c, q ? q->value : fx_orec_value(c, a, p->name), p->value))
            return false;
    }
    for (uint32_t i = 0; i < a->n_props; i++)
        if (!fx_orec_find(b, a->props[i].name)
            && !node_within(c, a->props[i].value, fx_orec_value(c, b, a->props[i].name)))
            return false;
    return true;
}

static void note_required(fx_orec *r)
{
    r->must = 0;
    for (uint32_t i = 0; i < r->n_props; i++)
        if (r->props[i].required)
            r->must |= 1ull << (fx_hash64(r->props[i].name.p, r->props[i].name.n, 0) & 63);
}

/* Drops from v what is within r; true: r is within one of v. */
static bool absorb(fx_sc *c, fx_orecs *v, const fx_orec *r)
{
    size_t n = 0;

    if (v->n > MAX_ABSORB || r->saw)
        return false;
    for (size_t i = 0; i < v->n; i++)
        if (!v->at[i]->saw && object_within(c, r, v->at[i]))
            return true;
    for (size_t i = 0; i < v->n; i++)
        if (v->at[i]->saw || !object_within(c, v->at[i], r))
            v->at[n++] = v->at[i];
    v->n = n;
    return false;
}

bool fx_orecs_add(fx_sc *c, fx_orecs *v, const fx_orec *r)
{
    if (!r || c->st)
        return !c->st;
    for (size_t i = 0; i < v->n; i++)
        if (v->at[i] == r)
            return true;
    while (r->n_some && some_holds(c, r, &r->some[0])) {
        fx_orec *copy = fx_orec_copy(c, r, 0);

        if (!copy)
            return false;
        copy->some++;
        copy->n_some--;
        r = copy;
    }
    if (object_dead(c, r))
        return !c->st;
    if (r->n_some && !class_could(c, r, &r->some[0]))
        return fx_orec_candidates(c, v, r, 0);
    note_required((fx_orec *)r);
    if (absorb(c, v, r))
        return !c->st;
    if (v->n >= FX_S_MAX_UNION)
        return fx_sc_over(c, "alternatives of objects");
    return FX_VEC_PUSH(v, c->mem, r) || fx_sc_nomem(c);
}

static bool merge_props(fx_sc *c, fx_orec *r, const fx_orec *a, const fx_orec *b)
{
    fx_sprop *props = FX_SC_NEWN(c, fx_sprop, (size_t)a->n_props + b->n_props);
    uint32_t n = 0;

    if (!props)
        return false;
    for (uint32_t i = 0; i < a->n_props; i++) {
        fx_sprop p = a->props[i];
        const fx_sprop *other = fx_orec_find(b, p.name);

        p.value = fx_sn_and(c, p.value, other ? other->value : fx_orec_value(c, b, p.name));
        p.required |= other && other->required;
        p.seen |= other ? other->seen : fx_re_has_text(c, b->seen, p.name);
        props[n++] = p;
    }
    for (uint32_t i = 0; i < b->n_props; i++) {
        fx_sprop p = b->props[i];

        if (fx_orec_find(a, p.name))
            continue;
        p.value = fx_sn_and(c, fx_orec_value(c, a, p.name), p.value);
        p.seen |= fx_re_has_text(c, a->seen, p.name);
        props[n++] = p;
    }
    r->props = props;
    r->n_props = n;
    return fx_orec_sort(c, r);
}

static fx_re names_and(fx_sc *c, fx_re a, fx_re b)
{
    if (a == c->any_text || a == b)
        return b;
    return b == c->any_text ? a : fx_re_and(c->re, a, b);
}

static bool merge_classes(fx_sc *c, fx_orec *r, const fx_orec *a, const fx_orec *b)
{
    size_t most = (size_t)a->n_classes * b->n_classes;
    fx_sclass *v = FX_SC_NEWN(c, fx_sclass, most);
    uint32_t n = 0;

    if (!v)
        return false;
    for (uint32_t i = 0; i < a->n_classes; i++)
        for (uint32_t k = 0; k < b->n_classes; k++) {
            fx_sn value = fx_sn_and(c, a->classes[i].value, b->classes[k].value);
            fx_re name;

            if (value == FX_SN_FALSE)
                continue;
            name = names_and(c, a->classes[i].name, b->classes[k].name);
            if (most > 1 && fx_re_empty(c, name))
                continue;
            v[n++] = (fx_sclass){ name, value };
        }
    r->classes = v;
    r->n_classes = n;
    return n <= FX_S_MAX_CLASSES || fx_sc_over(c, "overlapping classes of property names");
}

static bool merge_some(fx_sc *c, fx_orec *r, const fx_orec *a, const fx_orec *b)
{
    fx_ssome *v;

    if (!a->n_some || !b->n_some) {
        r->some = a->n_some ? a->some : b->some;
        r->n_some = a->n_some + b->n_some;
        return true;
    }
    if (!(v = FX_SC_NEWN(c, fx_ssome, (size_t)a->n_some + b->n_some)))
        return false;
    memcpy(v, a->some, a->n_some * sizeof(*v));
    memcpy(v + a->n_some, b->some, b->n_some * sizeof(*v));
    r->some = v;
    r->n_some = a->n_some + b->n_some;
    return true;
}

const fx_orec *fx_orec_and(fx_sc *c, const fx_orec *a, const fx_orec *b)
{
    fx_orec *r;

    if (object_is_any(c, a) || object_is_any(c, b))
        return object_is_any(c, a) ? b : a;
    r = FX_SC_NEWN(c, fx_orec, 1);
    if (!r || !merge_props(c, r, a, b) || !merge_classes(c, r, a, b) || !merge_some(c, r, a, b))
        return NULL;
    r->min = FX_MAX(a->min, b->min);
    r->max = FX_MIN(a->max, b->max);
    r->saw = a->saw || b->saw;
    r->seen = a->seen == FX_RE_NONE || b->seen == c->any_text || a->seen == b->seen ? b->seen
              : b->seen == FX_RE_NONE || a->seen == c->any_text ? a->seen : fx_re_alt(c->re, a->seen, b->seen);
    return c->st ? NULL : r;
}

/* ---- splits ---------------------------------------------------------------------------------- */

bool fx_split_init(fx_sc *c)
{
    fx_split *all = FX_SC_NEWN(c, fx_split, 1), *none = FX_SC_NEWN(c, fx_split, 1);
    const fx_arec **arr = FX_SC_NEWN(c, const fx_arec *, 1);
    const fx_orec **obj = FX_SC_NEWN(c, const fx_orec *, 1);

    if (!all || !none || !arr || !obj)
        return false;
    arr[0] = fx_arec_any(c);
    obj[0] = fx_orec_any(c);
    *all = (fx_split){ .null = true, .bools = 3, .num = fx_snum_all(c), .str = { c->any_text, NULL, 0 },
                       .arr = arr, .obj = obj, .n_arr = 1, .n_obj = 1 };
    none->str.gen = FX_RE_NONE;
    c->all = all;
    c->none = none;
    return !c->st;
}

fx_split *fx_split_copy(fx_sc *c, const fx_split *s)
{
    fx_split *copy = FX_SC_NEWN(c, fx_split, 1);

    if (copy)
        *copy = *s;
    return copy;
}

bool fx_split_is_none(const fx_split *s)
{
    return !s->null && !s->bools && !s->num.n_recs && !s->num.n_fin && s->str.gen == FX_RE_NONE && !s->str.n_fin
           && !s->n_arr && !s->n_obj;
}

bool fx_split_keep_arrays(fx_sc *c, fx_split *s, fx_arecs *v)
{
    const fx_arec **at = FX_SC_NEWN(c, const fx_arec *, v->n);

    if (at && v->n)
        memcpy(at, v->at, v->n * sizeof(*at));
    s->arr = at;
    s->n_arr = at ? (uint32_t)v->n : 0;
    FX_VEC_FREE(v, c->mem);
    return at != NULL;
}

bool fx_split_keep_objects(fx_sc *c, fx_split *s, fx_orecs *v)
{
    const fx_orec **at = FX_SC_NEWN(c, const fx_orec *, v->n);

    if (at && v->n)
        memcpy(at, v->at, v->n * sizeof(*at));
    s->obj = at;
    s->n_obj = at ? (uint32_t)v->n : 0;
    FX_VEC_FREE(v, c->mem);
    return at != NULL;
}

/* For one more pair, which has led to n records so far; 'size' says how large the two are. */
static bool spend(fx_sc *c, size_t n, size_t size)
{
    if (n >= FX_S_MAX_RECORDS)
        return fx_sc_over(c, "alternatives of arrays or objects");
    if (fx_re_pool_bytes(c->re) - c->re_bytes > FX_S_MAX_POOL_BYTES)
        return fx_sc_over(c, "states of patterns");
    return (c->work += 1 + size / 4) < FX_S_MAX_WORK || fx_sc_over(c, "combinations of alternatives");
}

static void and_arrays(fx_sc *c, fx_split *s, const fx_split *a, const fx_split *b)
{
    fx_arecs v = { 0 };

    for (uint32_t i = 0; i < a->n_arr && !c->st; i++)
        for (uint32_t k = 0; k < b->n_arr && !c->st; k++)
            if (spend(c, a->n_arr > 1 && b->n_arr > 1 ? v.n : 0, 0))
                fx_arecs_add(c, &v, fx_arec_and(c, a->arr[i], b->arr[k]));
    fx_split_keep_arrays(c, s, &v);
}

static void and_objects(fx_sc *c, fx_split *s, const fx_split *a, const fx_split *b)
{
    fx_orecs v = { 0 };

    for (uint32_t i = 0; i < a->n_obj && !c->st; i++)
        for (uint32_t k = 0; k < b->n_obj && !c->st; k++)
            if (spend(c, a->n_obj > 1 && b->n_obj > 1 ? v.n : 0, a->obj[i]->n_props + b->obj[k]->n_props))
                fx_orecs_add(c, &v, fx_orec_and(c, a->obj[i], b->obj[k]));
    fx_split_keep_objects(c, s, &v);
}

const fx_split *fx_split_and(fx_sc *c, const fx_split *a, const fx_split *b)
{
    fx_split *s;

    if (a == c->all || b == c->none || a == b)
        return b;
    if (b == c->all || a == c->none)
        return a;
    if (!(s = FX_SC_NEWN(c, fx_split, 1)))
        return NULL;
    s->null = a->null && b->null;
    s->bools = a->bools & b->bools;
    s->num = fx_snum_and(c, a->num, b->num);
    s->str = fx_sstr_and(c, a->str, b->str);
    and_arrays(c, s, a, b);
    and_objects(c, s, a, b);
    return c->st ? NULL : s;
}

/* "Any" takes in the others, unless they have evaluated something that it hasn't.  Those of a have been
 * compared with each other before. */
static void or_arrays(fx_sc *c, fx_split *s, const fx_split *a, const fx_split *b)
{
    fx_arecs v = { 0 };
    bool any = false;

    for (uint32_t i = 0; i < a->n_arr + b->n_arr; i++)
        any = any || array_is_any(i < a->n_arr ? a->arr[i] : b->arr[i - a->n_arr]);
    for (uint32_t i = 0; i < a->n_arr + b->n_arr && !c->st; i++) {
        const fx_arec *r = i < a->n_arr ? a->arr[i] : b->arr[i - a->n_arr];

        if (any && !array_is_any(r) && !r->seen_prefix && !r->n_seen_contains)
            continue;
        if (i >= a->n_arr)
            fx_arecs_add(c, &v, r);
        else if (!FX_VEC_PUSH(&v, c->mem, r))
            fx_sc_nomem(c);
    }
    fx_split_keep_arrays(c, s, &v);
}

static void or_objects(fx_sc *c, fx_split *s, const fx_split *a, const fx_split *b)
{
    fx_orecs v = { 0 };
    bool any = false;

    for (uint32_t i = 0; i < a->n_obj + b->n_obj; i++)
        any = any || object_is_any(c, i < a->n_obj ? a->obj[i] : b->obj[i - a->n_obj]);
    for (uint32_t i = 0; i < a->n_obj + b->n_obj && !c->st; i++) {
        const fx_orec *r = i < a->n_obj ? a->obj[i] : b->obj[i - a->n_obj];

        if (any && !object_is_any(c, r) && !r->saw)
            continue;
        if (i >= a->n_obj)
            fx_orecs_add(c, &v, r);
        else if (!FX_VEC_PUSH(&v, c->mem, r))
            fx_sc_nomem(c);
    }
    fx_split_keep_objects(c, s, &v);
}

const fx_split *fx_split_or(fx_sc *c, const fx_split *a, const fx_split *b)
{
    fx_split *s;

    if (a == c->none || a == b)
        return b;
    if (b == c->none)
        return a;
    if (!(s = FX_SC_NEWN(c, fx_split, 1)))
        return NULL;
    s->null = a->null || b->null;
    s->bools = a->bools | b->bools;
    s->num = fx_snum_or(c, a->num, b->num);
    s->str = fx_sstr_or(c, a->str, b->str);
    or_arrays(c, s, a, b);
    or_objects(c, s, a, b);
    return c->st ? NULL : s;
}

/* ---- plainly disjoint -------------------------------------------------------------------------- */

/* A member that has to be there and can't have both values. */
static bool objects_disjoint(fx_sc *c, const fx_orec *a, const fx_orec *b)
{
    for (int turn = 0; turn < 2; turn++) {
        const fx_orec *x = turn ? b : a, *y = turn ? a : b;

        for (uint32_t i = 0; i < x->n_props; i++) {
            const fx_sprop *p = &x->props[i];

            if (p->required && fx_sn_is_empty(c, fx_sn_and(c, p->value, fx_orec_value(c, y, p->name))))
                return true;
        }
    }
    return a->min > b->max || b->min > a->max;
}

static bool arrays_disjoint(fx_sc *c, const fx_arec *a, const fx_arec *b)
{
    uint32_t min = FX_MAX(a->min, b->min), n = FX_MIN(min, FX_MAX(a->n_prefix, b->n_prefix) + 1u);

    if (min > FX_MIN(a->max, b->max))
        return true;
    for (uint32_t i = 0; i < n; i++)
        if (fx_sn_is_empty(c, fx_sn_and(c, fx_arec_item(a, i), fx_arec_item(b, i))))
            return true;
    return false;
}

static bool scalars_disjoint(fx_sc *c, const fx_split *a, const fx_split *b)
{
    fx_snum num;

    if ((a->null && b->null) || (a->bools & b->bools))
        return false;
    num = fx_snum_and(c, a->num, b->num);
    return !num.n_recs && !num.n_fin && fx_sstr_is_none(c, fx_sstr_and(c, a->str, b->str), 1000);
}

bool fx_split_disjoint(fx_sc *c, const fx_split *a, const fx_split *b)
{
    if (!spend(c, 0, 0) || !scalars_disjoint(c, a, b))
        return false;
    for (uint32_t i = 0; i < a->n_arr && !c->st; i++)
        for (uint32_t k = 0; k < b->n_arr && !c->st; k++)
            if (!spend(c, 0, 0) || !arrays_disjoint(c, a->arr[i], b->arr[k]))
                return false;
    for (uint32_t i = 0; i < a->n_obj && !c->st; i++)
        for (uint32_t k = 0; k < b->n_obj && !c->st; k++)
            if (!spend(c, 0, 0) || !objects_disjoint(c, a->obj[i], b->obj[k]))
                return false;
    return !c->st;
}
