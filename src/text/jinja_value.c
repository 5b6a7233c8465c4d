/* jinja_value.c - lists, dicts, iterators; truth, equality, order; values as text.
 *
 * Semantics are Python's, messages included where templates' authors know them
 * ("'list object' has no attribute 'x'").  Dicts keep insertion order; up to
 * eight entries are searched in a row, beyond that through an index of entry
 * numbers.  1, 1.0 and true are one key, as in Python. */
#include <math.h>
#include <stdio.h>

#include "text/jinja.h"

const char *fx_jj_type_name(jj_val v)
{
    static const char *const view[] = { "dict_keys", "dict_values", "dict_items" };

    switch ((jj_type)v.type) {
    case JJ_MISSING: case JJ_UNDEF: return "Undefined";
    case JJ_NONE: return "NoneType";
    case JJ_BOOL: return "bool";
    case JJ_INT: return "int";
    case JJ_FLOAT: return "float";
    case JJ_STR: return v.u.s->markup ? "Markup" : "str";
    case JJ_LIST: return "list";
    case JJ_TUPLE: return "tuple";
    case JJ_DICT: return "dict";
    case JJ_VIEW: return view[v.u.view->kind];
    case JJ_RANGE: return "range";
    case JJ_ITER: return v.u.iter->what;
    case JJ_NS: return "Namespace";
    case JJ_MACRO: return "Macro";
    case JJ_LOOP: return "LoopContext";
    case JJ_FUNC: return "function";
    case JJ_METHOD: return "builtin_function_or_method";
    case JJ_CYCLER: return "Cycler";
    case JJ_JOINER: return "Joiner";
    }
    return "object";
}

const char *fx_jj_obj_name(jj_val v)
{
    switch ((jj_type)v.type) {
    case JJ_NONE: return "None";
    case JJ_BOOL: return "bool object";
    case JJ_INT: return "int object";
    case JJ_FLOAT: return "float object";
    case JJ_STR: return v.u.s->markup ? "markupsafe.Markup object" : "str object";
    case JJ_LIST: return "list object";
    case JJ_TUPLE: return "tuple object";
    case JJ_DICT: return "dict object";
    case JJ_RANGE: return "range object";
    case JJ_ITER: return "generator object";
    case JJ_NS: return "jinja2.utils.Namespace object";
    case JJ_MACRO: return "jinja2.runtime.Macro object";
    case JJ_LOOP: return "jinja2.runtime.LoopContext object";
    case JJ_VIEW: return v.u.view->kind == JJ_KEYS ? "dict_keys object" :
                         v.u.view->kind == JJ_VALUES ? "dict_values object" : "dict_items object";
    case JJ_FUNC: return "function object";
    case JJ_CYCLER: return "jinja2.utils.Cycler object";
    case JJ_JOINER: return "jinja2.utils.Joiner object";
    default: return "builtin_function_or_method object";
    }
}

/* ---- undefined ------------------------------------------------------------------ */

bool fx_jj_undef(jj_run *r, const char *obj, jj_val name, jj_val *out)
{
    jj_undef *u = fx_jj_alloc(r, sizeof *u);

    JJ_TRY(u);
    u->obj = obj;
    u->name = name;
    *out = (jj_val){ .type = JJ_UNDEF, .u.undef = u };
    return true;
}

bool fx_jj_undef_hint(jj_run *r, jj_str *hint, jj_val name, jj_val *out)
{
    JJ_TRY(hint && fx_jj_undef(r, NULL, name, out));
    out->u.undef->hint = hint;
    return true;
}

bool fx_jj_undef_fail(jj_run *r, jj_val v)
{
    const jj_undef *u = v.u.undef;
    jj_str *name;

    if (u->hint)
        return fx_jj_fail(r, "%.*s", FX_STR_ARG(fx_jj_view(u->hint)));
    if (u->cond_at)
        return fx_jj_fail(r, "the inline if-expression on line %u evaluated to false and no else section was defined.",
                          fx_diag_pos(r->t->source, u->cond_at).line);
    name = fx_jj_repr(r, u->name);
    if (!name)
        return false;
    if (!u->obj)
        return fx_jj_fail(r, "%.*s is undefined", FX_STR_ARG(fx_jj_view(name)));
    if (u->name.type != JJ_STR)
        return fx_jj_fail(r, "%s has no element %.*s", u->obj, FX_STR_ARG(fx_jj_view(name)));
    return fx_jj_fail(r, "'%s' has no attribute %.*s", u->obj, FX_STR_ARG(fx_jj_view(name)));
}

/* ---- lists ------------------------------------------------------------------------- */

jj_list *fx_jj_list(jj_run *r, size_t cap)
{
    jj_list *l = fx_jj_alloc(r, sizeof *l);

    if (!l || !cap)
        return l;
    if (cap > r->max_bytes / sizeof *l->at) {
        fx_jj_fail(r, "a list exceeds the memory limit");
        return NULL;
    }
    l->at = fx_jj_alloc(r, cap * sizeof *l->at);
    l->cap = cap;
    return l->at ? l : NULL;
}

bool fx_jj_push(jj_run *r, jj_list *l, jj_val v)
{
    if (v.type == JJ_MISSING)
        return false;                   /* the maker of v has failed */
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 8;
        jj_val *at = fx_jj_alloc(r, cap * sizeof *at);

        JJ_TRY(at);
        if (l->n)
            memcpy(at, l->at, l->n * sizeof *at);
        l->at = at;
        l->cap = cap;
    }
    l->at[l->n++] = v;
    return true;
}

jj_val fx_jj_lv(jj_list *l)
{
    return l ? (jj_val){ .type = JJ_LIST, .u.l = l } : (jj_val){ 0 };
}

jj_val fx_jj_tuple2(jj_run *r, jj_val a, jj_val b)
{
    jj_list *l = fx_jj_list(r, 2);

    if (!l || !fx_jj_push(r, l, a) || !fx_jj_push(r, l, b))
        return (jj_val){ 0 };
    return (jj_val){ .type = JJ_TUPLE, .u.l = l };
}

/* ---- dicts -------------------------------------------------------------------------- */

jj_dict *fx_jj_dict(jj_run *r)
{
    return fx_jj_alloc(r, sizeof(jj_dict));
}

jj_val fx_jj_dv(jj_dict *d)
{
    return d ? (jj_val){ .type = JJ_DICT, .u.d = d } : (jj_val){ 0 };
}

static uint64_t hash_bytes(const void *p, size_t n)
{
    return fx_hash64(p, n, 0);
}

/* False: the value can't be a key. */
static bool hash_value(jj_val v, uint64_t *out, int depth)
{
    switch ((jj_type)v.type) {
    case JJ_STR:
        *out = hash_bytes(v.u.s->p, v.u.s->n);
        return true;
    case JJ_BOOL:
        v.u.i = v.u.b;
        /* fall through */
    case JJ_INT:
        *out = hash_bytes(&v.u.i, sizeof v.u.i);
        return true;
    case JJ_FLOAT:
        if (v.u.f >= -9.2e18 && v.u.f <= 9.2e18 && v.u.f == floor(v.u.f))
            return hash_value(fx_jj_int((int64_t)v.u.f), out, depth);
        *out = hash_bytes(&v.u.f, sizeof v.u.f);
        return true;
    case JJ_TUPLE: {
        uint64_t h = 7, one;

        if (depth > 64)
            return false;
        for (size_t i = 0; i < v.u.l->n; i++) {
            if (!hash_value(v.u.l->at[i], &one, depth + 1))
                return false;
            h = h * 0x9E3779B97F4A7C15u + one;
        }
        *out = h;
        return true;
    }
    case JJ_LIST: case JJ_DICT: case JJ_NS: case JJ_VIEW:
        return false;
    case JJ_NONE: case JJ_UNDEF: case JJ_MISSING:
        *out = v.type;
        return true;
    default:
        *out = hash_bytes(&v.u.s, sizeof v.u.s);
        return true;
    }
}

static bool same_key(jj_run *r, jj_val a, jj_val b)
{
    if (a.type == JJ_STR && b.type == JJ_STR)
        return fx_str_eq(fx_jj_view(a.u.s), fx_jj_view(b.u.s));
    return r && fx_jj_eq(r, a, b) == 1;
}

/* The entry number, or SIZE_MAX. */
static size_t dict_find(jj_run *r, const jj_dict *d, jj_val key, uint64_t hash)
{
    if (!d->index) {
        for (size_t i = 0; i < d->n; i++)
            if (d->at[i].hash == hash && same_key(r, d->at[i].key, key))
                return i;
        return SIZE_MAX;
    }
    for (size_t k = hash & (d->index_cap - 1);; k = (k + 1) & (d->index_cap - 1)) {
        uint32_t e = d->index[k];

        if (!e)
            return SIZE_MAX;
        if (d->at[e - 1].hash == hash && same_key(r, d->at[e - 1].key, key))
            return e - 1;
    }
}

static void index_add(jj_dict *d, size_t entry)
{
    size_t k = d->at[entry].hash & (d->index_cap - 1);

    while (d->index[k])
        k = (k + 1) & (d->index_cap - 1);
    d->index[k] = (uint32_t)entry + 1;
}

static bool dict_grow(jj_run *r, jj_dict *d)
{
    size_t cap = d->cap ? d->cap * 2 : 8;
    jj_entry *at;

    if (cap > UINT32_MAX / 4)
        return fx_jj_fail(r, "a dict exceeds the memory limit");
    at = fx_jj_alloc(r, cap * sizeof *at);
    JJ_TRY(at);
    if (d->n)
        memcpy(at, d->at, d->n * sizeof *at);
    d->at = at;
    d->cap = cap;
    if (cap <= 8)
        return true;
    d->index = fx_jj_alloc(r, cap * 2 * sizeof *d->index);
    JJ_TRY(d->index);
    d->index_cap = cap * 2;
    for (size_t i = 0; i < d->n; i++)
        index_add(d, i);
    return true;
}

static bool unhashable(jj_run *r, jj_val v)
{
    return fx_jj_fail(r, "unhashable type: '%s'", fx_jj_type_name(v));
}

bool fx_jj_dict_put(jj_run *r, jj_dict *d, jj_val key, jj_val v)
{
    uint64_t hash;
    size_t i;

    if (key.type == JJ_MISSING || v.type == JJ_MISSING)
        return false;
    if (!hash_value(key, &hash, 0))
        return unhashable(r, key);
    i = dict_find(r, d, key, hash);
    if (i != SIZE_MAX) {
        d->at[i].value = v;
        return true;
    }
    if (d->n == d->cap)
        JJ_TRY(dict_grow(r, d));
    d->at[d->n] = (jj_entry){ key, v, hash };
    if (d->index)
        index_add(d, d->n);
    d->n++;
    return true;
}

bool fx_jj_ns_put(jj_run *r, jj_dict *ns, jj_val name, jj_val v)
{
    if (name.type == JJ_STR && name.u.s->n && name.u.s->p[0] == '_')
        return fx_jj_fail(r, "Chat templates cannot store underscore-prefixed attributes on a namespace, but got '%.*s'. "
                          "Please rename the attribute.", (int)FX_MIN(name.u.s->n, 100), name.u.s->p);
    return fx_jj_dict_put(r, ns, name, v);
}

int fx_jj_dict_get(jj_run *r, const jj_dict *d, jj_val key, jj_val *v, bool raise)
{
    uint64_t hash;
    size_t i;

    if (!hash_value(key, &hash, 0)) {
        if (raise)
            unhashable(r, key);
        return -1;
    }
    i = dict_find(r, d, key, hash);
    if (i == SIZE_MAX)
        return 0;
    *v = d->at[i].value;
    return 1;
}

bool fx_jj_dict_getz(const jj_dict *d, fx_str key, jj_val *v)
{
    jj_str s = { .p = key.p, .n = key.n };
    size_t i = dict_find(NULL, d, (jj_val){ .type = JJ_STR, .u.s = &s }, hash_bytes(key.p, key.n));

    if (i != SIZE_MAX)
        *v = d->at[i].value;
    return i != SIZE_MAX;
}

/* ---- truth, equality, order -------------------------------------------------------------- */

int64_t fx_jj_len(jj_val v)
{
    switch ((jj_type)v.type) {
    case JJ_STR: return (int64_t)fx_jj_chars(v.u.s);
    case JJ_LIST: case JJ_TUPLE: return (int64_t)v.u.l->n;
    case JJ_DICT: return (int64_t)v.u.d->n;
    case JJ_VIEW: return (int64_t)v.u.view->dict.u.d->n;
    case JJ_RANGE: return (int64_t)v.u.range->n;
    case JJ_UNDEF: return 0;
    default: return -1;
    }
}

bool fx_jj_truth(jj_val v)
{
    switch ((jj_type)v.type) {
    case JJ_MISSING: case JJ_UNDEF: case JJ_NONE: return false;
    case JJ_BOOL: return v.u.b;
    case JJ_INT: return v.u.i != 0;
    case JJ_FLOAT: return v.u.f != 0;
    case JJ_STR: return v.u.s->n != 0;
    case JJ_LIST: case JJ_TUPLE: case JJ_DICT: case JJ_VIEW: case JJ_RANGE: return fx_jj_len(v) != 0;
    default: return true;
    }
}

/* -1, 0, 1; 2: not a number is involved. */
static int compare_numbers(jj_val a, jj_val b)
{
    int64_t i, j;
    double f;

    if (fx_jj_is_int(a, &i) && fx_jj_is_int(b, &j))
        return (i > j) - (i < j);
    if (a.type == JJ_FLOAT && b.type == JJ_FLOAT) {
        if (isnan(a.u.f) || isnan(b.u.f))
            return 2;
        return (a.u.f > b.u.f) - (a.u.f < b.u.f);
    }
    if (b.type == JJ_FLOAT) {           /* exact, as Python: an int may not fit a double */
        if (isnan(b.u.f))
            return 2;
        if (b.u.f >= 9223372036854775808.0)
            return -1;
        if (b.u.f < -9223372036854775808.0)
            return 1;
        fx_jj_is_int(a, &i);
        f = floor(b.u.f);
        j = (int64_t)f;
        if (i != j)
            return i > j ? 1 : -1;
        return b.u.f > f ? -1 : 0;
    }
    i = compare_numbers(b, a);
    return i == 2 ? 2 : (int)-i;
}

static bool is_number(jj_val v)
{
    return v.type == JJ_BOOL || v.type == JJ_INT || v.type == JJ_FLOAT;
}

static int eq_lists(jj_run *r, const jj_list *a, const jj_list *b)
{
    if (a->n != b->n)
        return 0;
    for (size_t i = 0; i < a->n; i++) {
        int eq = fx_jj_eq(r, a->at[i], b->at[i]);

        if (eq != 1)
            return eq;
    }
    return 1;
}

static int eq_dicts(jj_run *r, const jj_dict *a, const jj_dict *b)
{
    if (a->n != b->n)
        return 0;
    for (size_t i = 0; i < a->n; i++) {
        jj_val v;
        int eq = fx_jj_dict_get(r, b, a->at[i].key, &v, true);

        if (eq == 1)
            eq = fx_jj_eq(r, a->at[i].value, v);
        if (eq != 1)
            return eq;
    }
    return 1;
}

static int eq_ranges(const jj_range *a, const jj_range *b)
{
    return a->n == b->n && (!a->n || (a->start == b->start && (a->n == 1 || a->step == b->step)));
}

int fx_jj_eq(jj_run *r, jj_val a, jj_val b)
{
    int eq = 0;

    if (a.type == JJ_STR && b.type == JJ_STR)
        return fx_str_eq(fx_jj_view(a.u.s), fx_jj_view(b.u.s));
    if (is_number(a) && is_number(b))
        return compare_numbers(a, b) == 0;
    if (a.type != b.type)
        return 0;
    if (!fx_jj_enter(r))
        return -1;
    switch ((jj_type)a.type) {
    case JJ_NONE: case JJ_UNDEF: case JJ_MISSING:
        eq = 1;
        break;
    case JJ_LIST: case JJ_TUPLE:
        eq = eq_lists(r, a.u.l, b.u.l);
        break;
    case JJ_DICT:
        eq = eq_dicts(r, a.u.d, b.u.d);
        break;
    case JJ_RANGE:
        eq = eq_ranges(a.u.range, b.u.range);
        break;
    default:
        eq = a.u.s == b.u.s;
    }
    fx_jj_leave(r);
    return eq;
}

static bool order_holds(int cmp, jj_op op)
{
    return op == JJO_LT ? cmp < 0 : op == JJO_LE ? cmp <= 0 : op == JJO_GT ? cmp > 0 : cmp >= 0;
}

static int less_lists(jj_run *r, const jj_list *a, const jj_list *b, jj_op op)
{
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        int eq = fx_jj_eq(r, a->at[i], b->at[i]);

        if (eq < 0)
            return -1;
        if (!eq)
            return fx_jj_less(r, a->at[i], b->at[i], op);
    }
    return order_holds((a->n > b->n) - (a->n < b->n), op);
}

int fx_jj_less(jj_run *r, jj_val a, jj_val b, jj_op op)
{
    static const char *const sign[] = { "<", "<=", ">", ">=" };
    int got;

    if (a.type == JJ_STR && b.type == JJ_STR) {
        if (!fx_jj_work(r, FX_MIN(a.u.s->n, b.u.s->n) / 64))
            return -1;
        return order_holds(fx_str_cmp(fx_jj_view(a.u.s), fx_jj_view(b.u.s)), op);
    }
    if (is_number(a) && is_number(b)) {
        got = compare_numbers(a, b);
        return got == 2 ? 0 : order_holds(got, op);
    }
    if (a.type == b.type && (a.type == JJ_LIST || a.type == JJ_TUPLE)) {
        if (!fx_jj_enter(r))
            return -1;
        got = less_lists(r, a.u.l, b.u.l, op);
        fx_jj_leave(r);
        return got;
    }
    if (a.type == JJ_UNDEF)
        fx_jj_undef_fail(r, a);
    else if (b.type == JJ_UNDEF)
        fx_jj_undef_fail(r, b);
    else
        fx_jj_fail(r, "'%s' not supported between instances of '%s' and '%s'", sign[op - JJO_LT],
                   fx_jj_type_name(a), fx_jj_type_name(b));
    return -1;
}

int fx_jj_contains(jj_run *r, jj_val seq, jj_val item)
{
    jj_iter *it;
    jj_val v;
    int got;

    if (seq.type == JJ_STR) {
        if (item.type != JJ_STR) {
            fx_jj_fail(r, "'in <string>' requires string as left operand, not %s", fx_jj_type_name(item));
            return -1;
        }
        if (!fx_jj_work(r, seq.u.s->n / 64))
            return -1;
        return fx_str_find(fx_jj_view(seq.u.s), fx_jj_view(item.u.s), 0) != FX_STR_NONE;
    }
    if (seq.type == JJ_DICT)
        return fx_jj_dict_get(r, seq.u.d, item, &v, true);
    if (seq.type == JJ_VIEW && seq.u.view->kind == JJ_KEYS)
        return fx_jj_dict_get(r, seq.u.view->dict.u.d, item, &v, true);
    if (!fx_jj_iterable(seq)) {
        fx_jj_fail(r, "argument of type '%s' is not iterable", fx_jj_type_name(seq));
        return -1;
    }
    if (!fx_jj_iter(r, seq, &it))
        return -1;
    while ((got = fx_jj_next(r, it, &v)) == 1) {
        got = fx_jj_work(r, 1) ? fx_jj_eq(r, v, item) : -1;
        if (got != 0)
            return got;
    }
    return got;
}

/* ---- iteration ----------------------------------------------------------------------------- */

static int next_item(jj_run *r, jj_iter *it, jj_val *out)
{
    const jj_list *l = it->src.u.l;

    (void)r;
    if (it->i >= l->n)
        return 0;
    *out = l->at[it->i++];
    return 1;
}

static int next_entry(jj_run *r, jj_iter *it, jj_val *out)
{
    bool view = it->src.type == JJ_VIEW;
    const jj_dict *d = view ? it->src.u.view->dict.u.d : it->src.u.d;
    jj_view_kind kind = view ? it->src.u.view->kind : JJ_KEYS;
    const jj_entry *e;

    if (it->i >= d->n)
        return 0;
    e = &d->at[it->i++];
    *out = kind == JJ_KEYS ? e->key : kind == JJ_VALUES ? e->value : fx_jj_tuple2(r, e->key, e->value);
    return out->type == JJ_MISSING ? -1 : 1;
}

static int next_char(jj_run *r, jj_iter *it, jj_val *out)
{
    jj_str *s = it->src.u.s;
    size_t at = it->i;

    if (at >= s->n)
        return 0;
    fx_utf8_next(fx_jj_view(s), &it->i);
    *out = fx_jj_sv(fx_jj_sub(r, s, at, it->i));
    if (out->type == JJ_MISSING)
        return -1;
    out->u.s->markup = false;           /* Python's iteration knows no subclass */
    return 1;
}

static int next_number(jj_run *r, jj_iter *it, jj_val *out)
{
    const jj_range *g = it->src.u.range;

    (void)r;
    if (it->i >= g->n)
        return 0;
    *out = fx_jj_int(g->start + (int64_t)it->i++ * g->step);
    return 1;
}

static int next_nothing(jj_run *r, jj_iter *it, jj_val *out)
{
    (void)r;
    (void)it;
    (void)out;
    return 0;
}

static jj_next_fn next_of(jj_val v)
{
    switch ((jj_type)v.type) {
    case JJ_LIST: case JJ_TUPLE: return next_item;
    case JJ_DICT: case JJ_VIEW: return next_entry;
    case JJ_STR: return next_char;
    case JJ_RANGE: return next_number;
    case JJ_UNDEF: return next_nothing;
    default: return NULL;
    }
}

bool fx_jj_iterable(jj_val v)
{
    return v.type == JJ_ITER || next_of(v);
}

bool fx_jj_iter(jj_run *r, jj_val v, jj_iter **out)
{
    jj_next_fn next = next_of(v);

    if (v.type == JJ_ITER) {
        *out = v.u.iter;
        return true;
    }
    if (!next)
        return fx_jj_fail(r, "'%s' object is not iterable", fx_jj_type_name(v));
    *out = fx_jj_alloc(r, sizeof **out);
    JJ_TRY(*out);
    (*out)->next = next;
    (*out)->src = v;
    (*out)->what = "iterator";
    return true;
}

int fx_jj_next(jj_run *r, jj_iter *it, jj_val *out)
{
    int got;

    if (!fx_jj_enter(r))
        return -1;
    got = it->next(r, it, out);
    fx_jj_leave(r);
    return got;
}

jj_val fx_jj_generator(jj_run *r, jj_next_fn next, jj_iter *from, void *user)
{
    jj_iter *it = fx_jj_alloc(r, sizeof *it);

    if (!it)
        return (jj_val){ 0 };
    it->next = next;
    it->from = from;
    it->user = user;
    it->what = "generator";
    return (jj_val){ .type = JJ_ITER, .u.iter = it };
}

jj_list *fx_jj_collect(jj_run *r, jj_val v)
{
    int64_t n = v.type == JJ_STR ? -1 : fx_jj_len(v);
    jj_list *l;
    jj_iter *it;
    int got;

    if (!fx_jj_iter(r, v, &it))
        return NULL;
    l = fx_jj_list(r, n > 0 ? (size_t)n : 0);
    while (l) {
        jj_val item;

        got = fx_jj_work(r, 1) ? fx_jj_next(r, it, &item) : -1;
        if (got == 0)
            return l;
        if (got < 0 || !fx_jj_push(r, l, item))
            break;
    }
    return NULL;
}

/* ---- as text --------------------------------------------------------------------------------- */

static void repr_value(jj_buf *b, jj_val v);

static void repr_items(jj_buf *b, const jj_val *at, size_t n, bool data)
{
    for (size_t i = 0; i < n && b->run->status == FORNAX_OK; i++) {
        if (i)
            fx_jj_buf_z(b, ", ", data);
        repr_value(b, at[i]);
    }
}

static void repr_dict(jj_buf *b, const jj_dict *d, bool data)
{
    fx_jj_buf_z(b, "{", data);
    for (size_t i = 0; i < d->n && b->run->status == FORNAX_OK; i++) {
        if (i)
            fx_jj_buf_z(b, ", ", data);
        repr_value(b, d->at[i].key);
        fx_jj_buf_z(b, ": ", data);
        repr_value(b, d->at[i].value);
    }
    fx_jj_buf_z(b, "}", data);
}

static void repr_view(jj_buf *b, const jj_view *v, bool data)
{
    static const char *const open[] = { "dict_keys([", "dict_values([", "dict_items([" };
    const jj_dict *d = v->dict.u.d;

    fx_jj_buf_z(b, open[v->kind], data);
    for (size_t i = 0; i < d->n && b->run->status == FORNAX_OK; i++) {
        if (i)
            fx_jj_buf_z(b, ", ", data);
        if (v->kind == JJ_ITEMS)
            fx_jj_buf_z(b, "(", data);
        if (v->kind != JJ_VALUES)
            repr_value(b, d->at[i].key);
        if (v->kind == JJ_ITEMS)
            fx_jj_buf_z(b, ", ", data);
        if (v->kind != JJ_KEYS)
            repr_value(b, d->at[i].value);
        if (v->kind == JJ_ITEMS)
            fx_jj_buf_z(b, ")", data);
    }
    fx_jj_buf_z(b, "])", data);
}

static void repr_range(jj_buf *b, const jj_range *g)
{
    char text[96];

    if (g->step == 1)
        snprintf(text, sizeof text, "range(%lld, %lld)", (long long)g->start, (long long)g->stop);
    else
        snprintf(text, sizeof text, "range(%lld, %lld, %lld)", (long long)g->start, (long long)g->stop,
                 (long long)g->step);
    fx_jj_buf_z(b, text, false);
}

static void repr_macro(jj_buf *b, const jj_macro *m)
{
    fx_str name;

    if (m->node->sym == JJ_NO_SYM) {
        fx_jj_buf_z(b, "<Macro anonymous>", false);
        return;
    }
    name = b->run->t->syms[m->node->sym];
    fx_jj_buf_z(b, "<Macro '", false);
    fx_jj_buf_add(b, name.p, name.n, false);
    fx_jj_buf_z(b, "'>", false);
}

static void repr_object(jj_buf *b, jj_val v)
{
    char text[96];

    if (v.type == JJ_LOOP) {
        jj_val n;
        bool found;

        if (!fx_jj_loop_attr(b->run, v, FX_STR("length"), &n, &found))
            return;
        snprintf(text, sizeof text, "<LoopContext %lld/%lld>", (long long)v.u.loop->index0 + 1, (long long)n.u.i);
    } else if (v.type == JJ_FUNC) {
        snprintf(text, sizeof text, "<function %s>", v.u.def->name);
    } else if (v.type == JJ_METHOD) {
        snprintf(text, sizeof text, "<built-in method %s of %s>", v.u.method->def->name,
                 fx_jj_obj_name(v.u.method->self));
    } else {
        snprintf(text, sizeof text, "<%s object>", fx_jj_type_name(v));
    }
    fx_jj_buf_z(b, text, false);
}

static void repr_value(jj_buf *b, jj_val v)
{
    char text[40];

    if (!fx_jj_enter(b->run))
        return;
    switch ((jj_type)v.type) {
    case JJ_MISSING: case JJ_UNDEF: fx_jj_buf_z(b, "Undefined", false); break;
    case JJ_NONE: fx_jj_buf_z(b, "None", v.data); break;
    case JJ_BOOL: fx_jj_buf_z(b, v.u.b ? "True" : "False", v.data); break;
    case JJ_INT:
        fx_jj_buf_add(b, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)v.u.i), v.data);
        break;
    case JJ_FLOAT: fx_jj_buf_add(b, text, fx_jj_float_repr(text, v.u.f), v.data); break;
    case JJ_STR: fx_jj_repr_str(b, v.u.s); break;
    case JJ_LIST:
        fx_jj_buf_z(b, "[", v.data);
        repr_items(b, v.u.l->at, v.u.l->n, v.data);
        fx_jj_buf_z(b, "]", v.data);
        break;
    case JJ_TUPLE:
        fx_jj_buf_z(b, "(", v.data);
        repr_items(b, v.u.l->at, v.u.l->n, v.data);
        fx_jj_buf_z(b, v.u.l->n == 1 ? ",)" : ")", v.data);
        break;
    case JJ_DICT: repr_dict(b, v.u.d, v.data); break;
    case JJ_NS:
        fx_jj_buf_z(b, "<Namespace ", false);
        repr_dict(b, v.u.d, false);
        fx_jj_buf_z(b, ">", false);
        break;
    case JJ_VIEW: repr_view(b, v.u.view, v.u.view->dict.data); break;
    case JJ_RANGE: repr_range(b, v.u.range); break;
    case JJ_MACRO: repr_macro(b, v.u.macro); break;
    default: repr_object(b, v);
    }
    fx_jj_leave(b->run);
}

void fx_jj_buf_value(jj_buf *b, jj_val v)
{
    if (v.type == JJ_STR)
        fx_jj_buf_str(b, v.u.s);
    else if (v.type != JJ_UNDEF)
        repr_value(b, v);
}

jj_str *fx_jj_to_str(jj_run *r, jj_val v)
{
    jj_buf b;

    if (v.type == JJ_STR)
        return v.u.s;
    fx_jj_buf_init(&b, r);
    fx_jj_buf_value(&b, v);
    return fx_jj_buf_take(r, &b);
}

jj_str *fx_jj_repr(jj_run *r, jj_val v)
{
    jj_buf b;

    fx_jj_buf_init(&b, r);
    repr_value(&b, v);
    return fx_jj_buf_take(r, &b);
}
