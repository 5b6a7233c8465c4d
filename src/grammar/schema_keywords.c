/* schema_keywords.c - one place of a schema: its keywords, checked, and the split that they say.
 *
 * First what a place says itself (type, enum, bounds, properties, items), then the keywords that apply
 * other schemas to the same value are merged in.  'seen' asks for what was evaluated, for the sake of
 * unevaluatedProperties and unevaluatedItems further out: branches of anyOf are then kept apart, each
 * alone and together with others, since a value that satisfies both has both evaluated. */
#include <stdlib.h>

#include "grammar/schema_int.h"

#define KEYWORD(id, name, dialects, shape) [FX_KW_##id] = { name, dialects, shape },
const fx_kwrow fx_kw_rows[FX_KW_COUNT] = {
#include "grammar/schema_keywords.def"
};
#undef KEYWORD

static int by_name(const void *key, const void *row)
{
    return fx_str_cmp(*(const fx_str *)key, fx_str_of(((const fx_kwrow *)row)->name));
}

fx_kw fx_kw_find(fx_str name)
{
    const fx_kwrow *row = bsearch(&name, fx_kw_rows, FX_KW_COUNT, sizeof(*fx_kw_rows), by_name);

    return row ? (fx_kw)(row - fx_kw_rows) : FX_KW_COUNT;
}

/* ---- shapes ----------------------------------------------------------------------------- */

static bool all_of_type(const fx_jv *v, fx_jtype type)
{
    for (uint32_t i = 0; i < v->n; i++)
        if (v->items[i].type != type)
            return false;
    return true;
}

/* NULL: it has the shape; else what was expected.  Schemas within are checked when they are used. */
static const char *misshapen(const fx_jv *v, fx_kwshape shape)
{
    switch (shape) {
    case FX_KWS_STRING:
        return v->type == FX_JSTRING ? NULL : "a string";
    case FX_KWS_NUMBER:
    case FX_KWS_COUNT:
        return v->type == FX_JNUMBER ? NULL : "a number";
    case FX_KWS_BOUND:
        return v->type == FX_JNUMBER || v->type == FX_JBOOL ? NULL : "a number";
    case FX_KWS_BOOL:
        return v->type == FX_JBOOL ? NULL : "true or false";
    case FX_KWS_LIST:
        return v->type == FX_JARRAY ? NULL : "a list";
    case FX_KWS_STRINGS:
        return v->type == FX_JARRAY && all_of_type(v, FX_JSTRING) ? NULL : "a list of strings";
    case FX_KWS_SCHEMAS:
        return v->type == FX_JARRAY && v->n ? NULL : "a list of schemas";
    case FX_KWS_SCHEMA_MAP:
    case FX_KWS_DEPENDS:
        return v->type == FX_JOBJECT ? NULL : "an object";
    case FX_KWS_NAME_LISTS:
        return v->type == FX_JOBJECT && all_of_type(v, FX_JARRAY) ? NULL : "an object of lists";
    case FX_KWS_TYPE:
        return v->type == FX_JSTRING || (v->type == FX_JARRAY && all_of_type(v, FX_JSTRING)) ? NULL
               : "a type or a list of types";
    default:
        return NULL;
    }
}

static const char *const quiet[] = { "id", "example" };

static void unknown(fx_sc *c, const fx_jv *at, fx_str name)
{
    for (size_t i = 0; i < FX_COUNT(quiet); i++)
        if (fx_str_is(name, quiet[i]))
            return;
    fx_sc_warn(c, at, name, "an unknown keyword, without effect");
}

static bool read_keys(fx_sc *c, const fx_jv *at, uint32_t scope, fx_skeys *k)
{
    memset(k, 0, sizeof(*k));
    k->at = at;
    k->scope = scope;
    k->dialect = at->resource ? c->resources.at[at->resource - 1].dialect : FX_D2020;
    for (uint32_t i = 0; i < at->n; i++) {
        fx_kw kw = fx_kw_find(at->keys[i]);
        const char *expected;

        if (kw == FX_KW_COUNT) {
            unknown(c, at, at->keys[i]);
            continue;
        }
        if (!(fx_kw_rows[kw].dialects & k->dialect)) {
            fx_sc_warn(c, at, at->keys[i], "not a keyword of the dialect in $schema, without effect");
            continue;
        }
        expected = misshapen(&at->items[i], fx_kw_rows[kw].shape);
        if (expected)
            return fx_sc_fail(c, FORNAX_EFORMAT, &at->items[i], NULL, "%s was expected", expected);
        k->kw[kw] = &at->items[i];
    }
    return !c->st;
}

/* ---- scalars ------------------------------------------------------------------------------- */

static bool read_bound(fx_sc *c, const fx_skeys *k, fx_kw kw, bool upper, fx_numrec *r)
{
    const fx_jv *v = k->kw[kw];
    bool ex = kw == FX_KW_EXCLUSIVE_MAXIMUM || kw == FX_KW_EXCLUSIVE_MINIMUM;
    fx_dec d;

    if (v && v->type == FX_JBOOL) {         /* draft 4: says how the other bound is meant */
        if (v->boolean)
            *(upper ? &r->hi_ex : &r->lo_ex) = upper ? r->has_hi : r->has_lo;
        return true;
    }
    if (!v)
        return true;
    if (!fx_dec_parse(c, v, &d))
        return false;
    if (upper && (!r->has_hi || fx_dec_cmp(d, r->hi) < (ex ? 1 : 0))) {
        r->has_hi = true;
        r->hi = d;
        r->hi_ex = ex;
    }
    if (!upper && (!r->has_lo || fx_dec_cmp(d, r->lo) > (ex ? -1 : 0))) {
        r->has_lo = true;
        r->lo = d;
        r->lo_ex = ex;
    }
    return true;
}

static bool read_number(fx_sc *c, const fx_skeys *k, fx_numrec *r)
{
    const fx_jv *m = k->kw[FX_KW_MULTIPLE_OF];
    fx_dec *d;
    uint64_t p;
    int64_t s;

    if (!read_bound(c, k, FX_KW_MAXIMUM, true, r) || !read_bound(c, k, FX_KW_EXCLUSIVE_MAXIMUM, true, r)
        || !read_bound(c, k, FX_KW_MINIMUM, false, r) || !read_bound(c, k, FX_KW_EXCLUSIVE_MINIMUM, false, r))
        return false;
    if (!m)
        return true;
    if (!(d = FX_SC_NEWN(c, fx_dec, 1)) || !fx_dec_parse(c, m, d))
        return false;
    if (!d->n || d->neg)
        return fx_sc_fail(c, FORNAX_EFORMAT, m, NULL, "a number above 0 was expected");
    if (!fx_dec_ratio(*d, &p, &s) || (!c->opt->any_number && s < 0 && s < -9))
        return fx_sc_fail(c, FORNAX_EUNSUP, m, NULL, "more than nine digits");
    r->mult = d;
    r->n_mult = 1;
    return true;
}

static bool read_string(fx_sc *c, const fx_skeys *k, fx_re *gen)
{
    uint32_t min = 0, max = FX_S_INF;
    fx_re re;

    if (!fx_sc_count(c, k, FX_KW_MIN_LENGTH, &min) || !fx_sc_count(c, k, FX_KW_MAX_LENGTH, &max))
        return false;
    *gen = fx_re_length(c, min, max);
    if (!k->kw[FX_KW_PATTERN])
        return true;
    if (!fx_sc_pattern(c, k->kw[FX_KW_PATTERN], NULL, k->kw[FX_KW_PATTERN]->text, &re))
        return false;
    *gen = *gen == c->any_text ? re : fx_re_and(c->re, *gen, re);
    return true;
}

static bool read_format(fx_sc *c, const fx_skeys *k, fx_re *gen, fx_snum *num)
{
    const fx_jv *f = k->kw[FX_KW_FORMAT];
    const fx_numrec *range = NULL;
    fx_re re = c->any_text;

    if (!f || c->opt->annotate_formats)
        return true;
    if (!fx_sc_format(c, f->text, &re, &range)) {
        if (c->opt->strict_formats)
            return fx_sc_fail(c, FORNAX_EUNSUP, f, NULL, "the format \"%.*s\" isn't known",
                              (int)FX_MIN(f->text.n, 100u), f->text.p);
        fx_sc_warn(c, f, f->text, "an unknown format, without effect");
        return !c->st;
    }
    if (range)
        *num = fx_snum_and(c, *num, fx_snum_of(c, range));
    else
        *gen = *gen == c->any_text ? re : fx_re_and(c->re, *gen, re);
    return !c->st;
}

/* ---- types and values ------------------------------------------------------------------------ */

static bool add_type(fx_sc *c, const fx_jv *at, fx_str name, unsigned *types, bool *integer)
{
    static const struct { const char *name; fx_jtype type; } rows[] = {
        { "null", FX_JNULL }, { "boolean", FX_JBOOL }, { "number", FX_JNUMBER }, { "integer", FX_JNUMBER },
        { "string", FX_JSTRING }, { "array", FX_JARRAY }, { "object", FX_JOBJECT },
    };

    if (fx_str_is(name, "any")) {           /* draft 3 */
        *types = 0x3F;
        *integer = false;
        return true;
    }
    for (size_t i = 0; i < FX_COUNT(rows); i++)
        if (fx_str_is(name, rows[i].name)) {
            if (rows[i].type == FX_JNUMBER)
                *integer = name.p[0] == 'i' && (*integer || !(*types & 1u << FX_JNUMBER));
            *types |= 1u << rows[i].type;
            return true;
        }
    return fx_sc_fail(c, FORNAX_EFORMAT, at, NULL, "\"%.*s\" isn't a type", (int)FX_MIN(name.n, 100u), name.p);
}

static bool read_types(fx_sc *c, const fx_jv *t, unsigned *types, bool *integer)
{
    *types = t ? 0 : 0x3F;
    *integer = false;
    if (t && t->type == FX_JSTRING)
        return add_type(c, t, t->text, types, integer);
    for (uint32_t i = 0; t && i < t->n; i++)
        if (!add_type(c, t, t->items[i].text, types, integer))
            return false;
    return true;
}

static bool const_array(fx_sc *c, const fx_jv *v, fx_arecs *out)
{
    fx_arec *r = FX_SC_NEWN(c, fx_arec, 1);
    fx_sn *prefix = FX_SC_NEWN(c, fx_sn, v->n);

    if (!r || !prefix)
        return false;
    for (uint32_t i = 0; i < v->n; i++)
        prefix[i] = fx_sn_const(c, &v->items[i]);
    *r = (fx_arec){ .prefix = prefix, .n_prefix = v->n, .min = v->n, .max = v->n };
    return fx_arecs_add(c, out, r);
}

static bool const_object(fx_sc *c, const fx_jv *v, fx_orecs *out)
{
    fx_orec *r = FX_SC_NEWN(c, fx_orec, 1);
    fx_sprop *props = FX_SC_NEWN(c, fx_sprop, v->n);

    if (!r || !props)
        return false;
    for (uint32_t i = 0; i < v->n; i++)
        props[i] = (fx_sprop){ v->keys[i], fx_sn_const(c, &v->items[i]), true, false };
    *r = (fx_orec){ .props = props, .n_props = v->n, .max = FX_S_INF, .seen = FX_RE_NONE };
    return fx_orec_sort(c, r) && fx_orecs_add(c, out, r);
}

typedef struct values {
    fx_str *texts;
    fx_dec *numbers;
    fx_arecs arrays;
    fx_orecs objects;
} values;

static bool add_value(fx_sc *c, fx_split *s, values *u, const fx_jv *v)
{
    switch (v->type) {
    case FX_JNULL:
        s->null = true;
        return true;
    case FX_JBOOL:
        s->bools |= (uint8_t)(1 << v->boolean);
        return true;
    case FX_JNUMBER:
        return fx_dec_parse(c, v, &u->numbers[s->num.n_fin++]);
    case FX_JSTRING:
        u->texts[s->str.n_fin++] = v->text;
        return true;
    case FX_JARRAY:
        return const_array(c, v, &u->arrays);
    default:
        return const_object(c, v, &u->objects);
    }
}

/* The values of an enum. */
static const fx_split *split_values(fx_sc *c, const fx_jv *list, uint32_t n)
{
    fx_split *s = fx_split_copy(c, c->none);
    values u = { .texts = FX_SC_NEWN(c, fx_str, n), .numbers = FX_SC_NEWN(c, fx_dec, n) };
    bool ok = s && u.texts && u.numbers;

    for (uint32_t i = 0; i < n && ok; i++)
        ok = add_value(c, s, &u, &list[i]);
    if (ok) {
        fx_sort_texts(u.texts, &s->str.n_fin);
        fx_sort_decs(u.numbers, &s->num.n_fin);
        s->str.fin = u.texts;
        s->num.fin = u.numbers;
        ok = fx_split_keep_arrays(c, s, &u.arrays) && fx_split_keep_objects(c, s, &u.objects);
    }
    FX_VEC_FREE(&u.arrays, c->mem);
    FX_VEC_FREE(&u.objects, c->mem);
    return ok && !c->st ? s : NULL;
}

const fx_split *fx_split_const(fx_sc *c, const fx_jv *v)
{
    return split_values(c, v, 1);
}

/* ---- what a place says itself ------------------------------------------------------------------ */

static bool any_of(const fx_skeys *k, const fx_kw *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (k->kw[list[i]])
            return true;
    return false;
}

static const fx_kw array_keys[] = { FX_KW_ITEMS, FX_KW_PREFIX_ITEMS, FX_KW_CONTAINS, FX_KW_MIN_ITEMS, FX_KW_MAX_ITEMS,
                                    FX_KW_UNIQUE_ITEMS };
static const fx_kw object_keys[] = { FX_KW_PROPERTIES, FX_KW_PATTERN_PROPERTIES, FX_KW_ADDITIONAL_PROPERTIES,
                                     FX_KW_PROPERTY_NAMES, FX_KW_REQUIRED, FX_KW_MIN_PROPERTIES,
                                     FX_KW_MAX_PROPERTIES };

static bool own_records(fx_sc *c, const fx_skeys *k, unsigned types, bool seen, fx_split *s)
{
    fx_arecs arrays = { 0 };
    fx_orecs objects = { 0 };

    if (!(types & 1u << FX_JARRAY)) {
        s->n_arr = 0;
    } else if (any_of(k, array_keys, FX_COUNT(array_keys))) {
        fx_arecs_add(c, &arrays, fx_sc_array(c, k, seen));
        fx_split_keep_arrays(c, s, &arrays);
    }
    if (!(types & 1u << FX_JOBJECT)) {
        s->n_obj = 0;
    } else if (any_of(k, object_keys, FX_COUNT(object_keys))) {
        fx_orecs_add(c, &objects, fx_sc_object(c, k, seen));
        fx_split_keep_objects(c, s, &objects);
    }
    return !c->st;
}

static const fx_split *own(fx_sc *c, const fx_skeys *k, bool seen)
{
    fx_split *s = fx_split_copy(c, c->all);
    const fx_split *given = NULL;
    fx_numrec num = { 0 };
    unsigned types;
    bool integer;

    if (!s || !read_types(c, k->kw[FX_KW_TYPE], &types, &integer) || !read_number(c, k, &num)
        || !read_string(c, k, &s->str.gen))
        return NULL;
    s->num = fx_snum_of(c, &num);
    if (integer)
        s->num = fx_snum_and(c, s->num, fx_snum_integers(c, k->dialect == FX_D4 && c->opt->any_number));
    if (!read_format(c, k, &s->str.gen, &s->num) || !own_records(c, k, types, seen, s))
        return NULL;
    s->null = types >> FX_JNULL & 1;
    s->bools = types >> FX_JBOOL & 1 ? 3 : 0;
    if (!(types & 1u << FX_JNUMBER))
        s->num = (fx_snum){ NULL, NULL, 0, 0 };
    if (!(types & 1u << FX_JSTRING))
        s->str = (fx_sstr){ FX_RE_NONE, NULL, 0 };
    if (k->kw[FX_KW_ENUM])
        given = split_values(c, k->kw[FX_KW_ENUM]->items, k->kw[FX_KW_ENUM]->n);
    if (given)
        s = (fx_split *)fx_split_and(c, s, given);
    if (s && k->kw[FX_KW_CONST] && (given = split_values(c, k->kw[FX_KW_CONST], 1)))
        s = (fx_split *)fx_split_and(c, s, given);
    return c->st ? NULL : s;
}

/* ---- keywords that apply other schemas to the value ----------------------------------------------- */

static const fx_split *in_place(fx_sc *c, const fx_jv *jv, uint32_t scope, bool seen)
{
    if (!seen || jv->type != FX_JOBJECT)
        return fx_sn_expand(c, fx_sn_place(c, jv, scope));
    return fx_split_place(c, jv, fx_sc_enter(c, scope, jv), FX_PLACE_SEEN);
}

static const fx_split *except(fx_sc *c, const fx_jv *jv, uint32_t scope)
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
        other = to ? in_place(c, to, k->scope, seen) : NULL;
        s = other ? fx_split_and(c, s, other) : NULL;
    }
    return s;
}

static const fx_split *all_of(fx_sc *c, const fx_skeys *k, const fx_split *s, bool seen)
{
    const fx_jv *list = k->kw[FX_KW_ALL_OF];

    for (uint32_t i = 0; list && i < list->n && s; i++) {
        const fx_split *one = in_place(c, &list->items[i], k->scope, seen);

        s = one ? fx_split_and(c, s, one) : NULL;
    }
    return s;
}

static const fx_split *any_branch(fx_sc *c, const fx_skeys *k, const fx_split *s, bool seen)
{
    const fx_jv *list = k->kw[FX_KW_ANY_OF];
    const fx_split *sum = c->none;

    if (!list || !s)
        return s;
    for (uint32_t i = 0; i < list->n && sum; i++) {
        const fx_split *one = in_place(c, &list->items[i], k->scope, seen), *both;

        if (!one)
            return NULL;
        both = seen ? fx_split_and(c, sum, one) : c->none;
        sum = both ? fx_split_or(c, sum, one) : NULL;
        if (sum)
            sum = fx_split_or(c, sum, both);
    }
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

/* Exactly one: where two can't be told apart plainly, one and not the other. */
static const fx_split *one_branch(fx_sc *c, const fx_skeys *k, const fx_split *s, bool seen)
{
    const fx_jv *list = k->kw[FX_KW_ONE_OF];
    const fx_split **with, *sum = c->none;
    bool apart;

    if (!list || !s)
        return s;
    if (!(with = FX_SC_NEWN(c, const fx_split *, list->n)))
        return NULL;
    for (uint32_t i = 0; i < list->n; i++) {
        const fx_split *one = in_place(c, &list->items[i], k->scope, seen);

        if (!one || !(with[i] = fx_split_and(c, s, one)))
            return NULL;
    }
    apart = has_tag(c, with, list->n);
    for (uint32_t i = 0; i < list->n && sum; i++) {
        const fx_split *alone = with[i];

        for (uint32_t j = 0; j < list->n && !apart && alone && !fx_split_is_none(alone); j++) {
            const fx_split *other;

            if (i == j || fx_split_disjoint(c, alone, with[j]))
                continue;
            other = except(c, &list->items[j], k->scope);
            alone = other ? fx_split_and(c, alone, other) : NULL;
        }
        sum = alone ? fx_split_or(c, sum, alone) : NULL;
    }
    return sum;
}

static const fx_split *negated(fx_sc *c, const fx_skeys *k, const fx_split *s)
{
    const fx_split *other;

    if (!s || !k->kw[FX_KW_NOT])
        return s;
    other = except(c, k->kw[FX_KW_NOT], k->scope);
    return other ? fx_split_and(c, s, other) : NULL;
}

/* (if and then) or (not if and else) */
static const fx_split *condition(fx_sc *c, const fx_skeys *k, const fx_split *s, bool seen)
{
    const fx_jv *test = k->kw[FX_KW_IF], *then = k->kw[FX_KW_THEN], *other = k->kw[FX_KW_ELSE];
    const fx_split *yes, *no, *part;

    if (!s || !test || (!then && !other && !seen))
        return s;
    yes = in_place(c, test, k->scope, seen);
    no = except(c, test, k->scope);
    if (!yes || !no)
        return NULL;
    yes = fx_split_and(c, s, yes);
    no = fx_split_and(c, s, no);
    if (then && yes && !fx_split_is_none(yes)) {
        part = in_place(c, then, k->scope, seen);
        yes = part ? fx_split_and(c, yes, part) : NULL;
    }
    if (other && no && !fx_split_is_none(no)) {
        part = in_place(c, other, k->scope, seen);
        no = part ? fx_split_and(c, no, part) : NULL;
    }
    return yes && no ? fx_split_or(c, yes, no) : NULL;
}

/* ---- dependencies ------------------------------------------------------------------------------------ */

/* Objects with the names of the list, or without the one name; other types too if 'others'. */
static const fx_split *with_names(fx_sc *c, const fx_str *names, uint32_t n, bool present, bool others)
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
    return with_names(c, names, kept, true, false);
}

/* Without the name, or with it and what it asks for: a list of names, or a schema. */
static const fx_split *depends(fx_sc *c, const fx_skeys *k, const fx_split *s, const fx_jv *map, bool seen)
{
    for (uint32_t i = 0; map && i < map->n && s; i++) {
        const fx_jv *what = &map->items[i];
        const fx_split *without, *with, *more;

        if (what->type == FX_JARRAY && !all_of_type(what, FX_JSTRING)) {
            fx_sc_fail(c, FORNAX_EFORMAT, what, NULL, "a list of strings was expected");
            return NULL;
        }
        without = with_names(c, &map->keys[i], 1, false, true);
        with = has_names(c, map->keys[i], what);
        if (!without || !with || !(without = fx_split_and(c, s, without)) || !(with = fx_split_and(c, s, with)))
            return NULL;
        if (what->type != FX_JARRAY) {
            more = in_place(c, what, k->scope, seen);
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

    if (!read_keys(c, jv, scope, &k))
        return NULL;
    if (k.dialect <= FX_D7 && k.kw[FX_KW_REF])
        return refs(c, &k, c->all, seen);
    inner = seen || k.kw[FX_KW_UNEVALUATED_PROPERTIES] || k.kw[FX_KW_UNEVALUATED_ITEMS];
    s = own(c, &k, inner);
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

/* ---- what a place leaves out ------------------------------------------------------------------------------
 * The complement of a conjunction is the union of the complements of its keywords.  Merging first and
 * complementing the records then would multiply them. */

static const fx_split *not_any(fx_sc *c, const fx_skeys *k, const fx_jv *list)
{
    const fx_split *s = c->all;

    for (uint32_t i = 0; i < list->n && s; i++) {
        const fx_split *other = except(c, &list->items[i], k->scope);

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
            const fx_split *a = in_place(c, &list->items[i], k->scope, false);
            const fx_split *b = a ? in_place(c, &list->items[j], k->scope, false) : NULL;

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
    a = no ? except(c, test, k->scope) : in_place(c, test, k->scope, false);
    b = a ? except(c, then, k->scope) : NULL;
    return b ? fx_split_and(c, a, b) : NULL;
}

/* Has a name without what that asks for. */
static const fx_split *not_depends(fx_sc *c, const fx_skeys *k, const fx_jv *map)
{
    const fx_split *s = c->none;

    for (uint32_t i = 0; map && i < map->n && s; i++) {
        const fx_jv *what = &map->items[i];
        const fx_split *has = with_names(c, &map->keys[i], 1, true, false), *missing = c->none;

        if (what->type != FX_JARRAY)
            missing = except(c, what, k->scope);
        for (uint32_t m = 0; what->type == FX_JARRAY && m < what->n && missing; m++) {
            const fx_split *one = with_names(c, &what->items[m].text, 1, false, false);

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
    const fx_split *s = own(c, k, false);

    return s ? fx_split_not(c, s) : NULL;
}

static const fx_split *not_refs(fx_sc *c, const fx_skeys *k)
{
    static const fx_kw list[] = { FX_KW_REF, FX_KW_DYNAMIC_REF, FX_KW_RECURSIVE_REF };
    const fx_split *s = c->none;

    for (size_t i = 0; i < FX_COUNT(list) && s; i++) {
        const fx_jv *ref = k->kw[list[i]], *to = ref ? fx_sc_resolve(c, k->at, ref, i > 0, k->scope) : NULL;
        const fx_split *other = to ? except(c, to, k->scope) : NULL;

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
        const fx_split *other = except(c, &list->items[i], k->scope);

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
    return k->kw[FX_KW_NOT] ? in_place(c, k->kw[FX_KW_NOT], k->scope, false) : c->none;
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

static const fx_split *read_negation(fx_sc *c, const fx_jv *jv, uint32_t scope)
{
    static negation *const parts[] = { not_own, not_refs, not_all_of, not_any_of, not_one_of, not_not, not_then,
                                       not_else, not_dependencies };
    fx_skeys k;
    const fx_split *s = c->none;

    if (!read_keys(c, jv, scope, &k))
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
    s = how == FX_PLACE_NOT ? read_negation(c, jv, scope) : read_place(c, jv, scope, how == FX_PLACE_SEEN);
    c->depth--;
    c->place = outer;
    if (c->st)
        s = NULL;
    if (!fx_map_put(&c->splits, text, (uintptr_t)s))
        fx_sc_nomem(c);
    return s;
}
