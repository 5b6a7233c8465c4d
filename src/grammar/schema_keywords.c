/* schema_keywords.c - the keywords of one place, checked, and what the place says itself: type, enum, bounds,
 * properties, items.  Keywords that apply other schemas to the same value are in schema_apply.c. */
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

/* Lists of names, and schemas unless only lists are allowed. */
static bool name_lists(const fx_jv *map, bool only)
{
    for (uint32_t i = 0; i < map->n; i++)
        if (map->items[i].type == FX_JARRAY ? !all_of_type(&map->items[i], FX_JSTRING) : only)
            return false;
    return map->type == FX_JOBJECT;
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
        return v->type == FX_JOBJECT ? NULL : "an object";
    case FX_KWS_DEPENDS:
        return name_lists(v, false) ? NULL : "an object of schemas and lists of strings";
    case FX_KWS_NAME_LISTS:
        return name_lists(v, true) ? NULL : "an object of lists of strings";
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

bool fx_sc_keys(fx_sc *c, const fx_jv *at, uint32_t scope, fx_skeys *k)
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

const fx_split *fx_sc_own(fx_sc *c, const fx_skeys *k, bool seen)
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
