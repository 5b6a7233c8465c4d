/* jinja_sequences.c - filters on sequences and mappings.
 *
 * map, select, reject, unique, batch, slice, items and reverse give generators,
 * as in Jinja: nothing happens until somebody draws, each item is made once, and
 * there is no length.  A template that prints one or asks for its length gets
 * what it would get from Jinja. */
#include "text/jinja.h"

#define FILTER(name) \
    static bool name(jj_run *r, jj_val self, const jj_val *a, const jj_args *all, jj_val *out)
#define UNUSED2 (void)a, (void)all
#define UNUSED1 (void)all

static bool flag(jj_val v, bool otherwise)
{
    return fx_jj_given(v) ? fx_jj_truth(v) : otherwise;
}

static bool absent(jj_val v)
{
    return !fx_jj_given(v) || v.type == JJ_NONE;
}

/* ---- attribute paths: "a.b.0" ------------------------------------------------------ */

typedef struct path {
    jj_list *parts;         /* strings and integers; empty: the item itself */
    jj_val otherwise;       /* instead of undefined; MISSING or none: nothing */
    bool fold;              /* lower-case strings at the end */
} path;

static bool all_digits(fx_str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
    return s.n > 0;
}

static bool path_of(jj_run *r, jj_str *s, size_t from, size_t to, path *p)
{
    for (size_t i = from; i <= to; i++) {
        jj_str *part;
        int64_t n;

        if (i < to && s->p[i] != '.')
            continue;
        part = fx_jj_sub(r, s, from, i);
        JJ_TRY(part);
        if (all_digits(fx_jj_view(part)) && fx_parse_i64(fx_jj_view(part), &n))
            JJ_TRY(fx_jj_push(r, p->parts, fx_jj_int(n)));
        else
            JJ_TRY(fx_jj_push(r, p->parts, fx_jj_sv(part)));
        from = i + 1;
    }
    return true;
}

static bool new_path(jj_run *r, jj_val attribute, bool fold, path *p)
{
    *p = (path){ .parts = fx_jj_list(r, 0), .fold = fold };
    JJ_TRY(p->parts);
    if (absent(attribute))
        return true;
    if (attribute.type == JJ_STR)
        return path_of(r, attribute.u.s, 0, attribute.u.s->n, p);
    return fx_jj_push(r, p->parts, attribute);
}

static bool follow(jj_run *r, const path *p, jj_val item, jj_val *out)
{
    *out = item;
    for (size_t i = 0; i < p->parts->n; i++) {
        JJ_TRY(fx_jj_getitem(r, *out, p->parts->at[i], out));
        if (out->type == JJ_UNDEF && !absent(p->otherwise))
            *out = p->otherwise;
    }
    if (p->fold && out->type == JJ_STR)
        *out = fx_jj_sv(fx_jj_str_case(r, out->u.s, JJ_LOWER));
    return fx_jj_given(*out);
}

/* ---- sorting ------------------------------------------------------------------------- */

typedef struct keyed {
    jj_val key, v;
} keyed;

static bool merge_sort(jj_run *r, keyed *at, keyed *scratch, size_t n)
{
    size_t half = n / 2, i = 0, j = half, k = 0;

    if (n < 2)
        return true;
    JJ_TRY(merge_sort(r, at, scratch, half) && merge_sort(r, at + half, scratch, n - half));
    while (i < half && j < n) {
        int less = fx_jj_work(r, 1) ? fx_jj_less(r, at[j].key, at[i].key, JJO_LT) : -1;

        if (less < 0)
            return false;
        scratch[k++] = less ? at[j++] : at[i++];
    }
    while (i < half)
        scratch[k++] = at[i++];
    memcpy(at, scratch, k * sizeof *at);
    return true;
}

static void reverse_keyed(keyed *at, size_t n)
{
    for (size_t i = 0; i + i + 1 < n; i++) {
        keyed t = at[i];

        at[i] = at[n - 1 - i];
        at[n - 1 - i] = t;
    }
}

/* Stable both ways, as Python's sorted. */
static bool sort_keyed(jj_run *r, keyed *at, size_t n, bool reverse)
{
    keyed *scratch = fx_jj_alloc(r, n * sizeof *scratch + 1);

    JJ_TRY(scratch);
    if (reverse)
        reverse_keyed(at, n);
    JJ_TRY(merge_sort(r, at, scratch, n));
    if (reverse)
        reverse_keyed(at, n);
    return true;
}

static keyed *new_keyed(jj_run *r, size_t n)
{
    return fx_jj_alloc(r, n * sizeof(keyed) + 1);
}

static bool give_sorted(jj_run *r, const keyed *at, size_t n, jj_val *out)
{
    jj_list *l = fx_jj_list(r, n);

    JJ_TRY(l);
    for (size_t i = 0; i < n; i++)
        JJ_TRY(fx_jj_push(r, l, at[i].v));
    *out = fx_jj_lv(l);
    return true;
}

/* The paths of "a.b,c": one sort key each. */
static bool sort_paths(jj_run *r, jj_val attribute, bool fold, path paths[8], size_t *n)
{
    size_t from = 0;
    jj_str *s;

    *n = 1;
    if (attribute.type != JJ_STR)
        return new_path(r, attribute, fold, &paths[0]);
    s = attribute.u.s;
    for (*n = 0; from <= s->n; ++*n) {
        size_t to = from;

        while (to < s->n && s->p[to] != ',')
            to++;
        if (*n == 8)
            return fx_jj_fail(r, "sort: more than 8 attributes are not supported");
        JJ_TRY(new_path(r, fx_jj_none(), fold, &paths[*n]) && path_of(r, s, from, to, &paths[*n]));
        from = to + 1;
    }
    return true;
}

FILTER(f_sort)
{
    jj_list *items = fx_jj_collect(r, self);
    path paths[8];
    size_t n_paths;
    keyed *at;

    UNUSED1;
    JJ_TRY(items && sort_paths(r, a[2], !flag(a[1], false), paths, &n_paths));
    JJ_TRY((at = new_keyed(r, items->n)));
    for (size_t i = 0; i < items->n; i++) {
        jj_list *key = fx_jj_list(r, n_paths);

        JJ_TRY(key);
        for (size_t k = 0; k < n_paths; k++) {
            jj_val v;

            JJ_TRY(follow(r, &paths[k], items->at[i], &v) && fx_jj_push(r, key, v));
        }
        at[i] = (keyed){ fx_jj_lv(key), items->at[i] };
    }
    return sort_keyed(r, at, items->n, flag(a[0], false)) && give_sorted(r, at, items->n, out);
}

FILTER(f_dictsort)
{
    bool by_value = false;
    path p = { 0 };
    keyed *at;
    size_t n;

    UNUSED1;
    if (self.type == JJ_UNDEF)
        return fx_jj_undef_fail(r, self);
    if (self.type != JJ_DICT)
        return fx_jj_fail(r, "dictsort: expected a mapping, found '%s'", fx_jj_type_name(self));
    if (fx_jj_given(a[1])) {
        by_value = a[1].type == JJ_STR && fx_str_is(fx_jj_view(a[1].u.s), "value");
        if (!by_value && !(a[1].type == JJ_STR && fx_str_is(fx_jj_view(a[1].u.s), "key")))
            return fx_jj_fail(r, "You can only sort by either \"key\" or \"value\"");
    }
    n = self.u.d->n;
    JJ_TRY(new_path(r, fx_jj_none(), !flag(a[0], false), &p) && (at = new_keyed(r, n)));
    for (size_t i = 0; i < n; i++) {
        const jj_entry *e = &self.u.d->at[i];

        at[i].v = fx_jj_tuple2(r, e->key, e->value);
        JJ_TRY(fx_jj_given(at[i].v) && follow(r, &p, by_value ? e->value : e->key, &at[i].key));
    }
    return sort_keyed(r, at, n, flag(a[2], false)) && give_sorted(r, at, n, out);
}

FILTER(f_groupby)
{
    jj_list *items = fx_jj_collect(r, self), *groups = fx_jj_list(r, 0), *group = NULL;
    path fold, real;
    keyed *at;

    UNUSED1;
    JJ_TRY(items && groups && new_path(r, a[0], !flag(a[2], false), &fold) && new_path(r, a[0], false, &real));
    fold.otherwise = real.otherwise = a[1];
    JJ_TRY((at = new_keyed(r, items->n)));
    for (size_t i = 0; i < items->n; i++) {
        at[i].v = items->at[i];
        JJ_TRY(follow(r, &fold, at[i].v, &at[i].key));
    }
    JJ_TRY(sort_keyed(r, at, items->n, false));
    for (size_t i = 0; i < items->n; i++) {
        int same = i ? fx_jj_eq(r, at[i - 1].key, at[i].key) : 0;

        if (same < 0)
            return false;
        if (!same) {
            jj_val key, pair;

            JJ_TRY((group = fx_jj_list(r, 0)) && follow(r, &real, at[i].v, &key));
            pair = fx_jj_tuple2(r, key, fx_jj_lv(group));
            JJ_TRY(fx_jj_push(r, groups, pair));
            pair.u.l->group = true;
        }
        JJ_TRY(fx_jj_push(r, group, at[i].v));
    }
    *out = fx_jj_lv(groups);
    return true;
}

static bool extreme(jj_run *r, jj_val self, const jj_val *a, jj_op better, jj_val *out)
{
    jj_val item, key, best = { 0 };
    jj_iter *it;
    path p;
    int got;

    JJ_TRY(fx_jj_iter(r, self, &it) && new_path(r, a[1], !flag(a[0], false), &p));
    while ((got = fx_jj_next(r, it, &item)) == 1) {
        int less;

        JJ_TRY(fx_jj_work(r, 1) && follow(r, &p, item, &key));
        less = fx_jj_given(best) ? fx_jj_less(r, key, best, better) : 1;
        if (less < 0)
            return false;
        if (less) {
            best = key;
            *out = item;
        }
    }
    if (got == 0 && !fx_jj_given(best))
        return fx_jj_undef_hint(r, fx_jj_strz(r, "No aggregated item, sequence was empty."), fx_jj_none(), out);
    return got == 0;
}

FILTER(f_min) { UNUSED1; return extreme(r, self, a, JJO_LT, out); }
FILTER(f_max) { UNUSED1; return extreme(r, self, a, JJO_GT, out); }

FILTER(f_sum)
{
    jj_iter *it;
    jj_val v;
    path p;
    int got;

    UNUSED1;
    *out = fx_jj_given(a[1]) ? a[1] : fx_jj_int(0);
    if (out->type == JJ_STR)
        return fx_jj_fail(r, "sum() can't sum strings [use ''.join(seq) instead]");
    JJ_TRY(fx_jj_iter(r, self, &it) && new_path(r, a[0], false, &p));
    while ((got = fx_jj_next(r, it, &v)) == 1)
        JJ_TRY(fx_jj_work(r, 1) && follow(r, &p, v, &v) && fx_jj_arith(r, JJO_ADD, *out, v, out));
    return got == 0;
}

/* ---- plain access ----------------------------------------------------------------------- */

FILTER(f_length)
{
    int64_t n = fx_jj_len(self);

    UNUSED2;
    if (self.type == JJ_LOOP) {
        bool found;

        return fx_jj_loop_attr(r, self, FX_STR("length"), out, &found);
    }
    if (n < 0)
        return fx_jj_fail(r, "object of type '%s' has no len()", fx_jj_type_name(self));
    *out = fx_jj_int(n);
    return true;
}

FILTER(f_first)
{
    jj_iter *it;
    int got;

    UNUSED2;
    JJ_TRY(fx_jj_iter(r, self, &it));
    got = fx_jj_next(r, it, out);
    if (got == 0)
        return fx_jj_undef_hint(r, fx_jj_strz(r, "No first item, sequence was empty."), fx_jj_none(), out);
    return got == 1;
}

static bool reversible(jj_val v)
{
    return fx_jj_len(v) >= 0;
}

FILTER(f_last)
{
    jj_list *l;

    UNUSED2;
    if (!reversible(self))
        return fx_jj_fail(r, "'%s' object is not reversible", fx_jj_type_name(self));
    if (fx_jj_len(self) == 0)
        return fx_jj_undef_hint(r, fx_jj_strz(r, "No last item, sequence was empty."), fx_jj_none(), out);
    if (self.type == JJ_LIST || self.type == JJ_TUPLE) {
        *out = self.u.l->at[self.u.l->n - 1];
        return true;
    }
    l = fx_jj_collect(r, self);
    JJ_TRY(l);
    *out = l->at[l->n - 1];
    return true;
}

FILTER(f_list)
{
    UNUSED2;
    *out = fx_jj_lv(fx_jj_collect(r, self));
    return fx_jj_given(*out);
}

FILTER(f_join)
{
    jj_str *sep = NULL;
    bool first = true;
    jj_iter *it;
    jj_val v;
    jj_buf b;
    path p;
    int got;

    UNUSED1;
    if (fx_jj_given(a[0]))
        JJ_TRY((sep = fx_jj_to_str(r, a[0])));
    JJ_TRY(new_path(r, a[1], false, &p) && fx_jj_iter(r, self, &it));
    fx_jj_buf_init(&b, r);
    for (; (got = fx_jj_next(r, it, &v)) == 1; first = false) {
        JJ_TRY(fx_jj_work(r, 1) && follow(r, &p, v, &v));
        if (!first && sep)
            fx_jj_buf_str(&b, sep);
        fx_jj_buf_value(&b, v);
        JJ_TRY(r->status == FORNAX_OK);
    }
    JJ_TRY(got == 0);
    *out = fx_jj_sv(fx_jj_buf_take(r, &b));
    return fx_jj_given(*out);
}

/* ---- generators ---------------------------------------------------------------------------- */

static bool give_generator(jj_run *r, jj_next_fn next, jj_val src, void *user, jj_val *out)
{
    *out = user ? fx_jj_generator(r, next, NULL, user) : (jj_val){ 0 };
    JJ_TRY(fx_jj_given(*out));
    out->u.iter->src = src;
    return true;
}

/* Draws from the source, which is opened at the first draw. */
static int draw(jj_run *r, jj_iter *it, jj_val *out)
{
    if (!it->from && !fx_jj_iter(r, it->src, &it->from))
        return -1;
    return fx_jj_work(r, 1) ? fx_jj_next(r, it->from, out) : -1;
}

/* map, select, reject and their attr forms.  What the arguments mean is worked
 * out at the first draw: a generator nobody draws from never fails. */
typedef struct picker {
    jj_args args;           /* as given; what the filter or test gets once ready */
    bool by_attr, want;     /* selectattr, rejectattr; select, selectattr */
    bool ready;
    path p;
    const jj_def *def;      /* NULL: none, the item itself counts */
} picker;

/* The name at position 'at' of the arguments, and what follows it. */
static bool take_name(jj_run *r, picker *k, size_t at, bool is_test)
{
    jj_str *name;

    if (at < k->args.n) {
        JJ_TRY(fx_jj_arg_str(r, k->args.pos[at], is_test ? "select" : "map", &name));
        k->def = is_test ? fx_jj_test(fx_jj_view(name)) : fx_jj_filter(fx_jj_view(name));
        if (!k->def)
            return fx_jj_fail(r, "no %s named '%.*s'", is_test ? "test" : "filter", (int)FX_MIN(name->n, 100), name->p);
        at++;
    }
    k->args.pos += FX_MIN(at, k->args.n);
    k->args.n -= FX_MIN(at, k->args.n);
    return true;
}

static jj_val keyword(const jj_args *all, const char *name)
{
    for (size_t i = 0; i < all->n_kw; i++)
        if (fx_str_is(fx_jj_view(all->kw[i].name), name))
            return all->kw[i].v;
    return (jj_val){ 0 };
}

static bool map_ready(jj_run *r, picker *k)
{
    jj_val attribute = keyword(&k->args, "attribute");

    if (k->ready)
        return true;
    k->ready = true;
    if (k->args.n || !fx_jj_given(attribute)) {
        if (!k->args.n)
            return fx_jj_fail(r, "map requires a filter argument");
        return new_path(r, fx_jj_none(), false, &k->p) && take_name(r, k, 0, false);
    }
    for (size_t i = 0; i < k->args.n_kw; i++) {
        fx_str name = fx_jj_view(k->args.kw[i].name);

        if (!fx_str_is(name, "attribute") && !fx_str_is(name, "default"))
            return fx_jj_fail(r, "Unexpected keyword argument '%.*s'", (int)FX_MIN(name.n, 100), name.p);
    }
    JJ_TRY(new_path(r, attribute, false, &k->p));
    k->p.otherwise = keyword(&k->args, "default");
    return true;
}

static bool select_ready(jj_run *r, picker *k)
{
    if (k->ready)
        return true;
    k->ready = true;
    if (k->by_attr && !k->args.n)
        return fx_jj_fail(r, "Missing parameter for attribute name");
    return new_path(r, k->by_attr ? k->args.pos[0] : fx_jj_none(), false, &k->p) &&
           take_name(r, k, k->by_attr ? 1 : 0, true);
}

static int next_mapped(jj_run *r, jj_iter *it, jj_val *out)
{
    picker *k = it->user;
    jj_val v;
    int got;

    if (!it->from && !fx_jj_truth(it->src))
        return 0;
    if (!map_ready(r, k))
        return -1;
    got = draw(r, it, &v);
    if (got != 1)
        return got;
    if (!follow(r, &k->p, v, out))
        return -1;
    return !k->def || fx_jj_call_def(r, k->def, *out, &k->args, out) ? 1 : -1;
}

static int next_selected(jj_run *r, jj_iter *it, jj_val *out)
{
    picker *k = it->user;
    int got;

    if (!it->from && !fx_jj_truth(it->src))
        return 0;
    if (!select_ready(r, k))
        return -1;
    while ((got = draw(r, it, out)) == 1) {
        jj_val v;

        if (!follow(r, &k->p, *out, &v) || (k->def && !fx_jj_call_def(r, k->def, v, &k->args, &v)))
            return -1;
        if (fx_jj_truth(v) == k->want)
            return 1;
    }
    return got;
}

FILTER(f_map)
{
    picker *k = fx_jj_alloc(r, sizeof *k);

    (void)a;
    JJ_TRY(k);
    k->args = *all;
    return give_generator(r, next_mapped, self, k, out);
}

static bool select_from(jj_run *r, jj_val self, const jj_args *all, bool want, bool by_attr, jj_val *out)
{
    picker *k = fx_jj_alloc(r, sizeof *k);

    JJ_TRY(k);
    *k = (picker){ .args = *all, .want = want, .by_attr = by_attr };
    return give_generator(r, next_selected, self, k, out);
}

FILTER(f_select) { (void)a; return select_from(r, self, all, true, false, out); }
FILTER(f_reject) { (void)a; return select_from(r, self, all, false, false, out); }
FILTER(f_selectattr) { (void)a; return select_from(r, self, all, true, true, out); }
FILTER(f_rejectattr) { (void)a; return select_from(r, self, all, false, true, out); }

typedef struct distinct {
    path p;
    jj_dict *seen;
} distinct;

static int next_distinct(jj_run *r, jj_iter *it, jj_val *out)
{
    distinct *u = it->user;
    int got;

    while ((got = draw(r, it, out)) == 1) {
        size_t before = u->seen->n;
        jj_val key;

        if (!follow(r, &u->p, *out, &key) || !fx_jj_dict_put(r, u->seen, key, fx_jj_none()))
            return -1;
        if (u->seen->n > before)
            return 1;
    }
    return got;
}

FILTER(f_unique)
{
    distinct *u = fx_jj_alloc(r, sizeof *u);

    UNUSED1;
    JJ_TRY(u && (u->seen = fx_jj_dict(r)) && new_path(r, a[1], !flag(a[0], false), &u->p));
    return give_generator(r, next_distinct, self, u, out);
}

typedef struct batches {
    int64_t size;
    jj_val fill;
    int64_t i;              /* slice: the part to be made next */
    jj_list *all;           /* slice: what is parted */
} batches;

static int next_batch(jj_run *r, jj_iter *it, jj_val *out)
{
    batches *b = it->user;
    jj_list *l = fx_jj_list(r, 0);
    int got = 1;
    jj_val v;

    if (!l)
        return -1;
    /* Jinja tests for a full batch before it adds, so sizes below 1 never fill one. */
    while ((b->size < 1 || (int64_t)l->n < b->size) && (got = draw(r, it, &v)) == 1)
        if (!fx_jj_push(r, l, v))
            return -1;
    if (got < 0 || !l->n)
        return got < 0 ? -1 : 0;
    while (!absent(b->fill) && (int64_t)l->n < b->size)
        if (!fx_jj_push(r, l, b->fill))
            return -1;
    *out = fx_jj_lv(l);
    return 1;
}

FILTER(f_batch)
{
    batches *b = fx_jj_alloc(r, sizeof *b);

    UNUSED1;
    JJ_TRY(b && fx_jj_arg_int(r, a[0], "batch", &b->size));
    if (b->size == 0)
        return fx_jj_fail(r, "batch: expected a size of at least 1");
    b->fill = a[1];
    return give_generator(r, next_batch, self, b, out);
}

static int next_part(jj_run *r, jj_iter *it, jj_val *out)
{
    batches *b = it->user;
    int64_t each, extra, start, end;
    jj_list *l;

    if (!b->all && !(b->all = fx_jj_collect(r, it->src)))
        return -1;
    if (b->i >= b->size)
        return 0;
    each = (int64_t)b->all->n / b->size;
    extra = (int64_t)b->all->n % b->size;
    start = b->i * each + FX_MIN(b->i, extra);
    end = start + each + (b->i < extra);
    l = fx_jj_list(r, (size_t)(end - start) + 1);
    if (!l || !fx_jj_work(r, (size_t)(end - start) + 1))
        return -1;
    for (; start < end; start++)
        l->at[l->n++] = b->all->at[start];
    if (!absent(b->fill) && b->i >= extra)
        l->at[l->n++] = b->fill;
    b->i++;
    *out = fx_jj_lv(l);
    return 1;
}

FILTER(f_slice)
{
    batches *b = fx_jj_alloc(r, sizeof *b);

    UNUSED1;
    JJ_TRY(b && fx_jj_arg_int(r, a[0], "slice", &b->size));
    if (b->size == 0)
        return fx_jj_fail(r, "integer division or modulo by zero");
    b->fill = a[1];
    return give_generator(r, next_part, self, b, out);
}

static int next_pair(jj_run *r, jj_iter *it, jj_val *out)
{
    jj_view *v;

    if (!it->from) {
        if (it->src.type == JJ_UNDEF)
            return 0;
        if (it->src.type != JJ_DICT) {
            fx_jj_fail(r, "Can only get item pairs from a mapping.");
            return -1;
        }
        v = fx_jj_alloc(r, sizeof *v);
        if (!v)
            return -1;
        *v = (jj_view){ it->src, JJ_ITEMS };
        it->src = (jj_val){ .type = JJ_VIEW, .u.view = v };
    }
    return draw(r, it, out);
}

FILTER(f_items)
{
    UNUSED2;
    *out = fx_jj_generator(r, next_pair, NULL, NULL);
    JJ_TRY(fx_jj_given(*out));
    out->u.iter->src = self;
    return true;
}

FILTER(f_reverse)
{
    jj_list *l;
    jj_iter *it;

    UNUSED2;
    if (self.type == JJ_STR) {
        int64_t n = (int64_t)fx_jj_chars(self.u.s);

        *out = fx_jj_sv(fx_jj_slice_chars(r, self.u.s, n - 1, -1, n));
        return fx_jj_given(*out);
    }
    if (!fx_jj_iterable(self))
        return fx_jj_fail(r, "argument must be iterable");
    JJ_TRY((l = fx_jj_collect(r, self)));
    for (size_t i = 0; i + i + 1 < l->n; i++) {
        jj_val t = l->at[i];

        l->at[i] = l->at[l->n - 1 - i];
        l->at[l->n - 1 - i] = t;
    }
    *out = fx_jj_lv(l);
    if (!reversible(self))
        return true;                    /* a generator is read out into a list */
    JJ_TRY(fx_jj_iter(r, *out, &it));
    it->what = "list_reverseiterator";
    *out = (jj_val){ .type = JJ_ITER, .u.iter = it };
    return true;
}

static const jj_def filters[] = {
    { "batch", f_batch, "linecount fill_with?" },
    { "count", f_length, "" },
    { "dictsort", f_dictsort, "case_sensitive? by? reverse?" },
    { "first", f_first, "" },
    { "groupby", f_groupby, "attribute default? case_sensitive?" },
    { "items", f_items, "" },
    { "join", f_join, "d? attribute?" },
    { "last", f_last, "" },
    { "length", f_length, "" },
    { "list", f_list, "" },
    { "map", f_map, "*" },
    { "max", f_max, "case_sensitive? attribute?" },
    { "min", f_min, "case_sensitive? attribute?" },
    { "reject", f_reject, "*" },
    { "rejectattr", f_rejectattr, "*" },
    { "reverse", f_reverse, "" },
    { "select", f_select, "*" },
    { "selectattr", f_selectattr, "*" },
    { "slice", f_slice, "slices fill_with?" },
    { "sort", f_sort, "reverse? case_sensitive? attribute?" },
    { "sum", f_sum, "attribute? start?" },
    { "unique", f_unique, "case_sensitive? attribute?" },
};

const jj_def *fx_jj_sequence_filter(fx_str name)
{
    return fx_jj_find(filters, FX_COUNT(filters), name);
}
