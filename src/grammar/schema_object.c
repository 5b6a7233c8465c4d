/* schema_object.c - the records that the keywords for objects and arrays say. */
#include "grammar/schema_int.h"

bool fx_sc_count(fx_sc *c, const fx_skeys *k, fx_kw kw, uint32_t *out)
{
    fx_dec d;

    if (!k->kw[kw])
        return true;
    if (!fx_dec_parse(c, k->kw[kw], &d))
        return false;
    return fx_dec_count(d, out)
           || fx_sc_fail(c, FORNAX_EFORMAT, k->kw[kw], NULL, "a whole number from 0 was expected");
}

/* ---- arrays ---------------------------------------------------------------------------- */

static bool read_items(fx_sc *c, const fx_skeys *k, fx_arec *r, bool *all_seen)
{
    const fx_jv *items = k->kw[FX_KW_ITEMS], *list = k->kw[FX_KW_PREFIX_ITEMS], *rest = items;
    fx_sn *prefix;

    if (!list && items && items->type == FX_JARRAY) {
        list = items;
        rest = k->kw[FX_KW_ADDITIONAL_ITEMS];
    }
    if (rest && rest->type == FX_JARRAY)
        return fx_sc_fail(c, FORNAX_EFORMAT, rest, NULL, "a list of schemas beside prefixItems");
    *all_seen = rest != NULL;
    r->rest = rest ? fx_sn_place(c, rest, k->scope) : FX_SN_TRUE;
    if (!list || c->st)
        return !c->st;
    if (!(prefix = FX_SC_NEWN(c, fx_sn, list->n)))
        return false;
    for (uint32_t i = 0; i < list->n && !c->st; i++)
        prefix[i] = fx_sn_place(c, &list->items[i], k->scope);
    r->prefix = prefix;
    r->n_prefix = list->n;
    return !c->st;
}

static bool read_contains(fx_sc *c, const fx_skeys *k, fx_arec *r, bool seen)
{
    fx_scontains *one;
    fx_sn *node;

    if (!k->kw[FX_KW_CONTAINS])
        return true;
    one = FX_SC_NEWN(c, fx_scontains, 1);
    node = FX_SC_NEWN(c, fx_sn, 1);
    if (!one || !node)
        return false;
    *node = fx_sn_place(c, k->kw[FX_KW_CONTAINS], k->scope);
    *one = (fx_scontains){ *node, 1, FX_S_INF, 0 };
    if (!fx_sc_count(c, k, FX_KW_MIN_CONTAINS, &one->min) || !fx_sc_count(c, k, FX_KW_MAX_CONTAINS, &one->max))
        return false;
    if (*node == FX_SN_TRUE) {
        r->min = FX_MAX(r->min, one->min);
        r->max = FX_MIN(r->max, one->max);
    } else if (one->min || one->max != FX_S_INF) {
        r->contains = one;
        r->n_contains = 1;
    }
    if (seen && k->dialect == FX_D2020) {
        r->seen_contains = node;
        r->n_seen_contains = 1;
    }
    return !c->st;
}

const fx_arec *fx_sc_array(fx_sc *c, const fx_skeys *k, bool seen)
{
    fx_arec *r = FX_SC_NEWN(c, fx_arec, 1);
    bool all_seen = false;

    if (!r)
        return NULL;
    r->max = FX_S_INF;
    if (!read_items(c, k, r, &all_seen) || !fx_sc_count(c, k, FX_KW_MIN_ITEMS, &r->min)
        || !fx_sc_count(c, k, FX_KW_MAX_ITEMS, &r->max) || !read_contains(c, k, r, seen))
        return NULL;
    r->unique = k->kw[FX_KW_UNIQUE_ITEMS] && k->kw[FX_KW_UNIQUE_ITEMS]->boolean;
    if (seen)
        r->seen_prefix = all_seen ? FX_S_INF : r->n_prefix;
    return r;
}

/* ---- objects ------------------------------------------------------------------------------ */

typedef struct patterns {
    fx_re *re;
    fx_sn *value;
    uint32_t n;
} patterns;

static bool read_patterns(fx_sc *c, const fx_skeys *k, patterns *p)
{
    const fx_jv *map = k->kw[FX_KW_PATTERN_PROPERTIES];

    p->n = map ? map->n : 0;
    p->re = FX_SC_NEWN(c, fx_re, p->n);
    p->value = FX_SC_NEWN(c, fx_sn, p->n);
    if (!p->re || !p->value)
        return false;
    for (uint32_t i = 0; i < p->n; i++) {
        if (!fx_sc_pattern(c, &map->items[i], NULL, map->keys[i], &p->re[i]))
            return false;
        p->value[i] = fx_sn_place(c, &map->items[i], k->scope);
    }
    return !c->st;
}

/* A declared name: its own schema and those of the patterns that match it. */
static fx_sprop declared(fx_sc *c, const fx_skeys *k, const patterns *p, fx_str name, const fx_jv *schema)
{
    const fx_jv *more = k->kw[FX_KW_ADDITIONAL_PROPERTIES];
    fx_sprop out = { .name = name, .value = FX_SN_TRUE, .seen = schema != NULL };

    if (schema)
        out.value = fx_sn_place(c, schema, k->scope);
    for (uint32_t i = 0; i < p->n && !c->st; i++)
        if (fx_re_has_text(c, p->re[i], name)) {
            out.value = fx_sn_and(c, out.value, p->value[i]);
            out.seen = true;
        }
    if (!out.seen && more) {
        out.value = fx_sn_and(c, out.value, fx_sn_place(c, more, k->scope));
        out.seen = true;
    }
    return out;
}

static bool read_props(fx_sc *c, const fx_skeys *k, const patterns *p, fx_orec *r)
{
    const fx_jv *map = k->kw[FX_KW_PROPERTIES], *req = k->kw[FX_KW_REQUIRED];
    uint32_t n_map = map ? map->n : 0, n_req = req ? req->n : 0, n = n_map;
    fx_sprop *props = FX_SC_NEWN(c, fx_sprop, (size_t)n_map + n_req);

    if (!props)
        return false;
    for (uint32_t i = 0; i < n_map && !c->st; i++)
        props[i] = declared(c, k, p, map->keys[i], &map->items[i]);
    r->props = props;
    r->n_props = n;
    if (c->st || !fx_orec_sort(c, r))
        return false;
    for (uint32_t i = 0; i < n_req && !c->st; i++) {
        fx_sprop *known = (fx_sprop *)fx_orec_find(r, req->items[i].text);

        for (uint32_t m = n_map; m < n && !known; m++)
            if (fx_str_eq(props[m].name, req->items[i].text))
                known = &props[m];
        if (!known) {
            known = &props[n];
            props[n++] = declared(c, k, p, req->items[i].text, NULL);
        }
        known->required = true;
    }
    r->n_props = n;
    return !c->st && (n == n_map || fx_orec_sort(c, r));
}

/* Free names fall into disjoint classes by the patterns that match them. */
static bool read_classes(fx_sc *c, const fx_skeys *k, const patterns *p, fx_orec *r)
{
    const fx_jv *more = k->kw[FX_KW_ADDITIONAL_PROPERTIES];
    fx_sclass *v = FX_SC_NEWN(c, fx_sclass, FX_S_MAX_CLASSES * 2 + 4);
    fx_re rest = c->any_text;
    uint32_t n = 0;

    if (!v)
        return false;
    for (uint32_t i = 0; i < p->n; i++) {
        uint32_t known = n;
        fx_re alone = rest == c->any_text ? p->re[i] : fx_re_and(c->re, rest, p->re[i]);

        for (uint32_t m = 0; m < known; m++) {
            fx_re both = fx_re_and(c->re, v[m].name, p->re[i]);
            fx_sn value = fx_sn_and(c, v[m].value, p->value[i]);

            if (fx_re_empty(c, both) || value == v[m].value)
                continue;
            v[n++] = (fx_sclass){ both, value };
            v[m].name = fx_re_minus(c, v[m].name, p->re[i]);
        }
        if (!fx_re_empty(c, alone)) {
            v[n++] = (fx_sclass){ alone, p->value[i] };
            rest = fx_re_minus(c, rest, p->re[i]);
        }
        if (n > FX_S_MAX_CLASSES)
            return fx_sc_fail(c, FORNAX_EUNSUP, k->kw[FX_KW_PATTERN_PROPERTIES], NULL, "more than %u classes of "
                              "overlapping names", FX_S_MAX_CLASSES);
    }
    v[n++] = (fx_sclass){ rest, more ? fx_sn_place(c, more, k->scope) : FX_SN_TRUE };
    r->n_classes = 0;
    for (uint32_t i = 0; i < n; i++)
        if (v[i].value != FX_SN_FALSE && (i == n - 1 || !fx_re_empty(c, v[i].name)))
            v[r->n_classes++] = v[i];
    r->classes = v;
    return !c->st;
}

static bool restrict_names(fx_sc *c, const fx_skeys *k, fx_orec *r)
{
    const fx_split *s;
    fx_re names;
    uint32_t n = 0;
    fx_sclass *v = (fx_sclass *)r->classes;
    fx_sprop *props = (fx_sprop *)r->props;

    if (!k->kw[FX_KW_PROPERTY_NAMES])
        return true;
    s = fx_sn_expand(c, fx_sn_place(c, k->kw[FX_KW_PROPERTY_NAMES], k->scope));
    if (!s)
        return false;
    names = fx_sstr_re(c, s->str);
    if (names == c->any_text)
        return true;
    for (uint32_t i = 0; i < r->n_props; i++)
        if (!fx_re_has_text(c, names, props[i].name))
            props[i].value = FX_SN_FALSE;
    for (uint32_t i = 0; i < r->n_classes; i++) {
        fx_re both = v[i].name == c->any_text ? names : fx_re_and(c->re, v[i].name, names);

        if (!fx_re_empty(c, both))
            v[n++] = (fx_sclass){ both, v[i].value };
    }
    r->n_classes = n;
    return !c->st;
}

const fx_orec *fx_sc_object(fx_sc *c, const fx_skeys *k, bool seen)
{
    fx_orec *r = FX_SC_NEWN(c, fx_orec, 1);
    patterns p;

    if (!r)
        return NULL;
    r->max = FX_S_INF;
    r->seen = FX_RE_NONE;
    r->saw = seen;
    if (!read_patterns(c, k, &p) || !read_props(c, k, &p, r) || !read_classes(c, k, &p, r)
        || !restrict_names(c, k, r) || !fx_sc_count(c, k, FX_KW_MIN_PROPERTIES, &r->min)
        || !fx_sc_count(c, k, FX_KW_MAX_PROPERTIES, &r->max))
        return NULL;
    if (seen && k->kw[FX_KW_ADDITIONAL_PROPERTIES])
        r->seen = c->any_text;
    else if (seen)
        for (uint32_t i = 0; i < p.n; i++)
            r->seen = r->seen == FX_RE_NONE ? p.re[i] : fx_re_alt(c->re, r->seen, p.re[i]);
    for (uint32_t i = 0; i < r->n_props && !seen; i++)
        ((fx_sprop *)r->props)[i].seen = false;
    return r;
}

/* ---- what no keyword has evaluated ---------------------------------------------------------- */

static const fx_orec *unseen_props(fx_sc *c, const fx_orec *r, fx_sn rest, bool seen)
{
    fx_orec *out = fx_orec_copy(c, r, 0);
    fx_sclass *v = FX_SC_NEWN(c, fx_sclass, (size_t)r->n_classes * 2);
    uint32_t n = 0;
    bool some = r->seen != FX_RE_NONE, all = r->seen == c->any_text;

    if (!out || !v)
        return NULL;
    for (uint32_t i = 0; i < out->n_props; i++) {
        fx_sprop *p = (fx_sprop *)&out->props[i];

        if (!p->seen && !(some && fx_re_has_text(c, r->seen, p->name)))
            p->value = fx_sn_and(c, p->value, rest);
        p->seen = seen;
    }
    for (uint32_t i = 0; i < r->n_classes && rest != FX_SN_TRUE && !c->st; i++) {
        fx_sclass one = r->classes[i];
        fx_sn both = fx_sn_and(c, one.value, rest);
        fx_re old = all ? one.name : some ? fx_re_and(c->re, one.name, r->seen) : FX_RE_NONE;
        fx_re new = all ? FX_RE_NONE : some ? fx_re_minus(c, one.name, r->seen) : one.name;

        if (some && !fx_re_empty(c, old))
            v[n++] = (fx_sclass){ old, one.value };
        if (both != FX_SN_FALSE && !fx_re_empty(c, new))
            v[n++] = (fx_sclass){ new, both };
    }
    if (rest != FX_SN_TRUE) {
        out->classes = v;
        out->n_classes = n;
    }
    out->seen = seen ? c->any_text : FX_RE_NONE;
    out->saw = seen;
    return c->st ? NULL : out;
}

const fx_split *fx_sc_unseen_props(fx_sc *c, const fx_split *s, fx_sn rest, bool seen)
{
    fx_split *out = fx_split_copy(c, s);
    fx_orecs v = { 0 };

    if (!out)
        return NULL;
    for (uint32_t i = 0; i < s->n_obj && !c->st; i++)
        fx_orecs_add(c, &v, unseen_props(c, s->obj[i], rest, seen));
    fx_split_keep_objects(c, out, &v);
    return c->st ? NULL : out;
}

static const fx_arec *unseen_items(fx_sc *c, const fx_arec *r, fx_sn rest, bool seen)
{
    fx_arec *out = FX_SC_NEWN(c, fx_arec, 1);
    uint32_t n = r->seen_prefix == FX_S_INF ? r->n_prefix : FX_MAX(r->n_prefix, r->seen_prefix);
    fx_sn *prefix = FX_SC_NEWN(c, fx_sn, n);

    if (!out || !prefix)
        return NULL;
    *out = *r;
    for (uint32_t i = 0; i < r->n_seen_contains; i++)
        rest = fx_sn_or(c, rest, r->seen_contains[i]);
    for (uint32_t i = 0; i < n; i++)
        prefix[i] = i < r->seen_prefix ? fx_arec_item(r, i) : fx_sn_and(c, fx_arec_item(r, i), rest);
    if (r->seen_prefix != FX_S_INF)
        out->rest = fx_sn_and(c, r->rest, rest);
    out->prefix = prefix;
    out->n_prefix = n;
    out->seen_prefix = seen ? FX_S_INF : 0;
    out->n_seen_contains = 0;
    return c->st ? NULL : out;
}

const fx_split *fx_sc_unseen_items(fx_sc *c, const fx_split *s, fx_sn rest, bool seen)
{
    fx_split *out = fx_split_copy(c, s);
    fx_arecs v = { 0 };

    if (!out)
        return NULL;
    for (uint32_t i = 0; i < s->n_arr && !c->st; i++)
        fx_arecs_add(c, &v, unseen_items(c, s->arr[i], rest, seen));
    fx_split_keep_arrays(c, out, &v);
    return c->st ? NULL : out;
}
