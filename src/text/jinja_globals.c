/* jinja_globals.c - the functions that every chat template may call by name. */
#include "text/jinja.h"

#define GLOBAL(name) \
    static bool name(jj_run *r, jj_val self, const jj_val *a, const jj_args *all, jj_val *out)

static size_t range_length(const jj_range *g)
{
    if (g->step > 0 ? g->start >= g->stop : g->start <= g->stop)
        return 0;
    return g->step > 0 ? ((uint64_t)g->stop - (uint64_t)g->start - 1) / (uint64_t)g->step + 1
                       : ((uint64_t)g->start - (uint64_t)g->stop - 1) / (0 - (uint64_t)g->step) + 1;
}

GLOBAL(g_range)
{
    jj_range *g = fx_jj_alloc(r, sizeof *g);

    (void)self;
    (void)all;
    JJ_TRY(g && fx_jj_arg_int(r, a[0], "range", &g->stop));
    g->step = 1;
    if (fx_jj_given(a[1])) {
        g->start = g->stop;
        JJ_TRY(fx_jj_arg_int(r, a[1], "range", &g->stop));
    }
    if (fx_jj_given(a[2]))
        JJ_TRY(fx_jj_arg_int(r, a[2], "range", &g->step));
    if (g->step == 0)
        return fx_jj_fail(r, "range() arg 3 must not be zero");
    g->n = range_length(g);
    if (g->n > JJ_MAX_RANGE)
        return fx_jj_fail(r, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", JJ_MAX_RANGE);
    *out = (jj_val){ .type = JJ_RANGE, .u.range = g };
    return true;
}

/* dict(mapping or pairs, **more) */
static jj_dict *make_dict(jj_run *r, const jj_args *all, const char *what)
{
    jj_dict *d = fx_jj_dict(r);

    if (!d)
        return NULL;
    if (all->n > 1) {
        fx_jj_fail(r, "%s expected at most 1 argument, got %zu", what, all->n);
        return NULL;
    }
    if (all->n && all->pos[0].type == JJ_DICT) {
        const jj_dict *from = all->pos[0].u.d;

        for (size_t i = 0; i < from->n; i++)
            if (!fx_jj_dict_put(r, d, from->at[i].key, from->at[i].value))
                return NULL;
    } else if (all->n) {
        jj_list *pairs = fx_jj_collect(r, all->pos[0]);

        for (size_t i = 0; pairs && i < pairs->n; i++) {
            jj_list *pair = fx_jj_collect(r, pairs->at[i]);

            if (!pair)
                return NULL;
            if (pair->n != 2) {
                fx_jj_fail(r, "dictionary update sequence element #%zu has length %zu; 2 is required", i, pair->n);
                return NULL;
            }
            if (!fx_jj_dict_put(r, d, pair->at[0], pair->at[1]))
                return NULL;
        }
    }
    for (size_t i = 0; i < all->n_kw; i++)
        if (!fx_jj_dict_put(r, d, fx_jj_sv(all->kw[i].name), all->kw[i].v))
            return NULL;
    return r->status == FORNAX_OK ? d : NULL;
}

GLOBAL(g_dict)
{
    (void)self;
    (void)a;
    *out = fx_jj_dv(make_dict(r, all, "dict"));
    return fx_jj_given(*out);
}

GLOBAL(g_namespace)
{
    jj_dict *d = make_dict(r, all, "namespace"), *ns = fx_jj_dict(r);

    (void)self;
    (void)a;
    JJ_TRY(d && ns);
    for (size_t i = 0; i < d->n; i++)
        JJ_TRY(fx_jj_ns_put(r, ns, d->at[i].key, d->at[i].value));
    *out = fx_jj_dv(ns);
    out->type = JJ_NS;
    return true;
}

GLOBAL(g_cycler)
{
    jj_cycler *c = fx_jj_alloc(r, sizeof *c);

    (void)self;
    (void)a;
    JJ_TRY(c);
    if (!all->n || all->n_kw)
        return fx_jj_fail(r, "at least one item has to be provided");
    for (size_t i = 0; i < all->n; i++)
        JJ_TRY(fx_jj_push(r, &c->items, all->pos[i]));
    *out = (jj_val){ .type = JJ_CYCLER, .u.cycler = c };
    return true;
}

GLOBAL(g_joiner)
{
    jj_cycler *c = fx_jj_alloc(r, sizeof *c);

    (void)self;
    (void)all;
    JJ_TRY(c && fx_jj_push(r, &c->items, fx_jj_given(a[0]) ? a[0] : fx_jj_sv(fx_jj_strz(r, ", "))));
    *out = (jj_val){ .type = JJ_JOINER, .u.cycler = c };
    return true;
}

GLOBAL(g_lipsum)
{
    (void)self;
    (void)a;
    (void)all;
    (void)out;
    return fx_jj_fail(r, "lipsum is random and not supported in chat templates");
}

GLOBAL(g_raise_exception)
{
    jj_str *s = fx_jj_to_str(r, a[0]);

    (void)self;
    (void)all;
    (void)out;
    return s && fx_jj_fail(r, "%.*s", (int)FX_MIN(s->n, 4096), s->p);
}

GLOBAL(g_strftime_now)
{
    jj_str *fmt;

    (void)self;
    (void)all;
    JJ_TRY(fx_jj_arg_str(r, a[0], "strftime_now", &fmt));
    *out = fx_jj_sv(fx_jj_strftime(r, fmt, r->now));
    return fx_jj_given(*out);
}

static const jj_def globals[] = {
    { "cycler", g_cycler, "*" },
    { "dict", g_dict, "*" },
    { "joiner", g_joiner, "sep?" },
    { "lipsum", g_lipsum, "*" },
    { "namespace", g_namespace, "*" },
    { "raise_exception", g_raise_exception, "message" },
    { "range", g_range, "/start stop? step?" },
    { "strftime_now", g_strftime_now, "format" },
};

const jj_def *fx_jj_global(fx_str name)
{
    return fx_jj_find(globals, FX_COUNT(globals), name);
}
