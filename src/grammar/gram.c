/* gram.c - building a grammar, and printing it. */
#include "grammar/gram_int.h"

#include <stdlib.h>

#include "base/text.h"
#include "grammar/regex_int.h"
#include "grammar/run.h"

#define NODES_MAX 1000000u
#define BYTES_MAX ((size_t)256 << 20)
#define DEPTH_MAX 10000u
#define BLANKS_MAX 64           /* in a row, where spacing is bounded */
#define INDENT_MAX 32           /* spaces at the beginning of a line, where it is neat */

struct fx_gram_builder {
    const fx_mem *mem;
    fx_gram *g;
    bool failed;                /* memory or a limit ran out */
    fx_gram_space space;
    bool exact;                 /* separators are given */
    fx_re comma, colon;
    bool have_punct;
    fx_gpunct punct;            /* for the space that holds now */
};

static fx_gnode add(fx_gram_builder *b, fx_gkind kind, uint32_t a, uint32_t x, uint32_t c)
{
    fx_gram *g = b->g;

    if (b->failed || g->nodes.n >= g->limits.max_nodes ||
        !FX_VEC_PUSH(&g->nodes, g->mem, ((fx_gnode_data){ .kind = (uint8_t)kind, .a = a, .b = x, .c = c }))) {
        b->failed = true;
        return FX_GNODE_FAIL;
    }
    return (fx_gnode)g->nodes.n - 1;
}

static fx_gram *new_gram(const fx_mem *mem, const fx_gram_limits *limits)
{
    fx_gram *g = fx_mem_zalloc(mem, sizeof(*g));

    if (!g)
        return NULL;
    g->mem = mem;
    fx_arena_init(&g->arena, mem, 0);
    if (pthread_mutex_init(&g->lock, NULL)) {
        fx_mem_free(mem, g, sizeof(*g));
        return NULL;
    }
    atomic_init(&g->refs, 1);
    g->limits = limits ? *limits : (fx_gram_limits){ 0 };
    g->limits.max_nodes = g->limits.max_nodes ? FX_MIN(g->limits.max_nodes, (size_t)UINT32_MAX / 2) : NODES_MAX;
    g->limits.max_bytes = g->limits.max_bytes ? g->limits.max_bytes : BYTES_MAX;
    g->limits.max_depth = g->limits.max_depth ? g->limits.max_depth : DEPTH_MAX;
    g->pool = fx_re_pool_new(mem, g->limits.max_re_nodes ? g->limits.max_re_nodes : (size_t)4 << 20);
    return g;
}

static void free_gram(fx_gram *g)
{
    fx_run_free(g->run);
    for (size_t i = 0; i < g->objects.n; i++)
        fx_names_free(g->objects.at[i].dict);
    fx_re_pool_free(g->pool);
    FX_VEC_FREE(&g->nodes, g->mem);
    FX_VEC_FREE(&g->kids, g->mem);
    FX_VEC_FREE(&g->rule_names, g->mem);
    FX_VEC_FREE(&g->objects, g->mem);
    FX_VEC_FREE(&g->arrays, g->mem);
    fx_arena_done(&g->arena);
    pthread_mutex_destroy(&g->lock);
    fx_mem_free(g->mem, g, sizeof(*g));
}

fx_gram_builder *fx_gram_builder_new(const fx_mem *mem, const fx_gram_limits *limits)
{
    fx_gram_builder *b = fx_mem_zalloc(mem, sizeof(*b));

    if (!b)
        return NULL;
    b->mem = mem;
    b->g = new_gram(mem, limits);
    if (b->g && b->g->pool && add(b, FX_G_NEVER, 0, 0, 0) == FX_GNODE_NEVER && add(b, FX_G_EMPTY, 0, 0, 0) == FX_GNODE_EMPTY)
        return b;
    fx_gram_builder_free(b);
    return NULL;
}

void fx_gram_builder_free(fx_gram_builder *b)
{
    if (!b)
        return;
    if (b->g)
        free_gram(b->g);
    fx_mem_free(b->mem, b, sizeof(*b));
}

fx_re_pool *fx_gram_regexes(fx_gram_builder *b) { return b->g->pool; }

/* ---- Spacing ------------------------------------------------------------------------------ */

void fx_gram_set_space(fx_gram_builder *b, fx_gram_space space)
{
    b->space = space;
    b->have_punct = false;
}

void fx_gram_set_separators(fx_gram_builder *b, fx_str comma, fx_str colon)
{
    b->exact = comma.p != NULL;
    b->have_punct = false;
    if (b->exact) {
        b->comma = fx_re_literal(b->g->pool, comma);
        b->colon = fx_re_literal(b->g->pool, colon);
    }
}

static fx_re up_to(fx_re_pool *p, const char *text, uint32_t n) { return fx_re_repeat(p, fx_re_literal(p, fx_str_of(text)), 0, n); }

/* Nothing, a space, or a line's end and an indentation. A model that would go on with blanks can't. */
static fx_re neat_blanks(fx_re_pool *p)
{
    fx_re indent = fx_re_alt(p, up_to(p, " ", INDENT_MAX), up_to(p, "\t", INDENT_MAX / 4));
    fx_re line = fx_re_cat(p, up_to(p, "\r", 1), fx_re_cat(p, fx_re_literal(p, FX_STR("\n")), indent));

    return fx_re_alt(p, up_to(p, " ", 1), line);
}

static fx_re blanks_of(fx_gram_builder *b)
{
    static const fx_rune_range blanks[] = { { ' ', ' ' }, { '\t', '\n' }, { '\r', '\r' } };
    fx_re_pool *p = b->g->pool;

    if (b->exact || b->space == FX_SPACE_COMPACT)
        return FX_RE_EMPTY;
    if (b->space == FX_SPACE_NEAT)
        return neat_blanks(p);
    return fx_re_repeat(p, fx_re_runes(p, FX_SPELL_UTF8, blanks, FX_COUNT(blanks)), 0,
                        b->space == FX_SPACE_BOUNDED ? BLANKS_MAX : FX_RE_INF);
}

/* A comma or colon with blanks: before it none where they are neat, behind it 'after'. */
static fx_re spaced(fx_gram_builder *b, const char *mark, fx_re before, fx_re after)
{
    fx_re_pool *p = b->g->pool;
    fx_re x = fx_re_cat(p, fx_re_literal(p, fx_str_of(mark)), after);

    return b->space == FX_SPACE_NEAT ? x : fx_re_cat(p, before, x);
}

static const fx_gpunct *punct_of(fx_gram_builder *b)
{
    fx_re_pool *p = b->g->pool;
    fx_gpunct *x = &b->punct;
    fx_re w;

    if (b->have_punct)
        return x;
    w = blanks_of(b);
    x->empty_object = fx_re_literal(p, FX_STR("}"));
    x->empty_array = fx_re_literal(p, FX_STR("]"));
    x->open_object = fx_re_cat(p, fx_re_literal(p, FX_STR("{")), w);
    x->open_array = fx_re_cat(p, fx_re_literal(p, FX_STR("[")), w);
    x->close_object = fx_re_cat(p, w, x->empty_object);
    x->close_array = fx_re_cat(p, w, x->empty_array);
    x->comma = b->exact ? b->comma : spaced(b, ",", w, w);
    x->colon = b->exact ? b->colon : spaced(b, ":", w, b->space == FX_SPACE_NEAT ? up_to(p, " ", 1) : w);
    b->have_punct = true;
    return x;
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

fx_gnode fx_gram_lexeme(fx_gram_builder *b, fx_re re)
{
    if (re == FX_RE_FAIL)
        b->failed = true;
    if (re == FX_RE_NONE)
        return FX_GNODE_NEVER;
    if (re == FX_RE_EMPTY)
        return FX_GNODE_EMPTY;
    return add(b, FX_G_LEXEME, re, 0, 0);
}

fx_gnode fx_gram_blanks(fx_gram_builder *b) { return fx_gram_lexeme(b, blanks_of(b)); }
fx_gnode fx_gram_comma(fx_gram_builder *b) { return fx_gram_lexeme(b, punct_of(b)->comma); }
fx_gnode fx_gram_token(fx_gram_builder *b, int32_t id) { return add(b, FX_G_TOKEN, (uint32_t)id, 0, 0); }

static bool all_made(fx_gram_builder *b, const fx_gnode *kids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (kids[i] >= b->g->nodes.n)
            b->failed = true;
    return !b->failed;
}

static fx_gnode add_kids(fx_gram_builder *b, fx_gkind kind, const fx_gnode *kids, size_t n, fx_gnode left_out)
{
    fx_gram *g = b->g;
    uint32_t first = (uint32_t)g->kids.n;

    if (!all_made(b, kids, n) || !FX_VEC_RESERVE(&g->kids, g->mem, n)) {
        b->failed = true;
        return FX_GNODE_FAIL;
    }
    for (size_t i = 0; i < n; i++)
        if (kids[i] != left_out)
            g->kids.at[g->kids.n++] = kids[i];
    n = g->kids.n - first;
    if (n > 1)
        return add(b, kind, first, (uint32_t)n, 0);
    g->kids.n = first;
    return n ? g->kids.at[first] : left_out;
}

fx_gnode fx_gram_seq(fx_gram_builder *b, const fx_gnode *kids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (kids[i] == FX_GNODE_NEVER && all_made(b, kids, n))
            return FX_GNODE_NEVER;
    return add_kids(b, FX_G_SEQ, kids, n, FX_GNODE_EMPTY);
}

fx_gnode fx_gram_alt(fx_gram_builder *b, const fx_gnode *kids, size_t n)
{
    return add_kids(b, FX_G_ALT, kids, n, FX_GNODE_NEVER);
}

fx_gnode fx_gram_repeat(fx_gram_builder *b, fx_gnode kid, uint32_t min, uint32_t max)
{
    if (!all_made(b, &kid, 1))
        return FX_GNODE_FAIL;
    if (min > max)
        return FX_GNODE_NEVER;
    if (max == 0 || kid == FX_GNODE_EMPTY || (kid == FX_GNODE_NEVER && min == 0))
        return FX_GNODE_EMPTY;
    if (kid == FX_GNODE_NEVER || (min == 1 && max == 1))
        return kid;
    return add(b, FX_G_REPEAT, kid, min, max);
}

static fx_str keep(fx_gram_builder *b, fx_str s)
{
    char *p = fx_arena_strdup(&b->g->arena, s.n ? s.p : "", s.n);

    b->failed |= !p;
    return fx_str_n(p, s.n);
}

fx_gnode fx_gram_rule(fx_gram_builder *b, fx_str name)
{
    fx_str own = keep(b, name);

    if (b->failed || !FX_VEC_PUSH(&b->g->rule_names, b->g->mem, own)) {
        b->failed = true;
        return FX_GNODE_FAIL;
    }
    return add(b, FX_G_RULE, FX_GNODE_FAIL, (uint32_t)b->g->rule_names.n - 1, 0);
}

void fx_gram_define(fx_gram_builder *b, fx_gnode rule, fx_gnode body)
{
    fx_gnode both[2] = { rule, body };

    if (!all_made(b, both, 2))
        return;
    FX_ASSERT(b->g->nodes.at[rule].kind == FX_G_RULE && b->g->nodes.at[rule].a == FX_GNODE_FAIL);
    b->g->nodes.at[rule].a = body;
}

/* ---- Objects and arrays ------------------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
    const fx_gram_prop *x = *(const fx_gram_prop *const *)a, *y = *(const fx_gram_prop *const *)b;

    return fx_str_cmp(x->name, y->name);
}

static bool object_arrays(fx_gram_builder *b, fx_gobject *o)
{
    fx_arena *a = &b->g->arena;
    size_t n = o->n + 1, words = o->n / 64 + 1;

    o->names = FX_ARENA_NEWN(a, fx_str, n);
    o->values = FX_ARENA_NEWN(a, fx_gnode, n);
    o->place = FX_ARENA_NEWN(a, uint32_t, n);
    o->by_place = FX_ARENA_NEWN(a, uint32_t, n);
    o->required = FX_ARENA_NEWN(a, uint64_t, words);
    o->allowed = FX_ARENA_NEWN(a, uint64_t, words);
    o->others = FX_ARENA_NEWN(a, fx_gram_names, o->n_others + 1);
    return o->names && o->values && o->place && o->by_place && o->required && o->allowed && o->others;
}

static bool sort_props(fx_gram_builder *b, fx_gobject *o, const fx_gram_prop *props)
{
    size_t bytes = (o->n + 1) * sizeof(props);
    const fx_gram_prop **order = fx_mem_alloc(b->g->mem, bytes);
    bool ok = order != NULL;

    for (size_t i = 0; ok && i < o->n; i++)
        order[i] = &props[i];
    if (ok)
        qsort(order, o->n, sizeof(*order), by_name);
    for (size_t i = 0; ok && i < o->n; i++) {
        FX_ASSERT(i == 0 || !fx_str_eq(order[i]->name, order[i - 1]->name));
        o->names[i] = keep(b, order[i]->name);
        o->values[i] = order[i]->value;
        o->place[i] = (uint32_t)(order[i] - props);
        o->by_place[o->place[i]] = (uint32_t)i;
        o->allowed[i / 64] |= (uint64_t)(order[i]->value != FX_GNODE_NEVER) << i % 64;
        o->required[i / 64] |= (uint64_t)order[i]->required << i % 64;
        ok = !b->failed && all_made(b, &order[i]->value, 1) && fx_utf8_valid(o->names[i]);
    }
    fx_mem_free(b->g->mem, order, bytes);
    return ok;
}

static bool take_names(fx_gram_builder *b, fx_gobject *o, const fx_gram_names *others)
{
    fx_re_pool *p = b->g->pool;
    fx_re declared = fx_names_inside(o->dict, p);

    for (size_t i = 0; i < o->n_others; i++) {
        o->others[i] = others[i];
        if (!all_made(b, &others[i].value, 1))
            return false;
        if (o->n)
            o->others[i].name = fx_re_and(p, others[i].name, fx_re_not(p, declared));
        if (o->others[i].name == FX_RE_FAIL)
            return false;
    }
    return true;
}

fx_gnode fx_gram_object(fx_gram_builder *b, const fx_gram_object_spec *s)
{
    fx_gram *g = b->g;
    fx_gobject o = { .n = s->n_props, .n_others = s->n_others, .min = s->min, .max = s->max, .marks = s->marks, .any_order = s->any_order,
                     .punct = *punct_of(b) };
    fx_gnode x;

    if (!b->failed && object_arrays(b, &o) && sort_props(b, &o, s->props) &&
        (o.dict = fx_names_new(g->mem, o.names, o.n, g->pool->plain)) != NULL) {
        if (take_names(b, &o, s->others) && FX_VEC_ROOM(&g->objects, g->mem) &&
            (x = add(b, FX_G_OBJECT, (uint32_t)g->objects.n, 0, 0)) != FX_GNODE_FAIL) {
            g->objects.at[g->objects.n++] = o;
            return x;
        }
        fx_names_free(o.dict);
    }
    b->failed = true;
    return FX_GNODE_FAIL;
}

fx_gnode fx_gram_array(fx_gram_builder *b, const fx_gram_array_spec *s)
{
    fx_gram *g = b->g;
    fx_garray a = { .n_prefix = s->n_prefix, .rest = s->rest, .min = s->min, .max = s->max, .unique = s->unique,
                    .has_contains = s->contains != NULL, .punct = *punct_of(b) };
    fx_gnode x;

    if (s->contains)
        a.contains = *s->contains;
    a.prefix = FX_ARENA_NEWN(&g->arena, fx_gnode, s->n_prefix + 1);
    if (!b->failed && a.prefix && all_made(b, s->prefix, s->n_prefix) && all_made(b, &s->rest, 1) &&
        (!s->contains || (all_made(b, &a.contains.yes, 1) && all_made(b, &a.contains.no, 1))) &&
        FX_VEC_ROOM(&g->arrays, g->mem) && (x = add(b, FX_G_ARRAY, (uint32_t)g->arrays.n, 0, 0)) != FX_GNODE_FAIL) {
        if (s->n_prefix)
            memcpy(a.prefix, s->prefix, s->n_prefix * sizeof(*a.prefix));
        g->arrays.at[g->arrays.n++] = a;
        return x;
    }
    b->failed = true;
    return FX_GNODE_FAIL;
}

/* ---- Finishing ------------------------------------------------------------------------------------ */

fx_status fx_gram_finish(fx_gram **out, fx_gram_builder *b, fx_gnode root, fx_error *err)
{
    fx_gram *g = b->g;
    fx_status st = FORNAX_OK;

    *out = NULL;
    if (b->failed || fx_re_pool_failed(g->pool) || root >= g->nodes.n)
        st = fx_fail(err, FORNAX_ENOMEM, "the grammar is too large: %zu nodes and %zu bytes of expressions are its limits",
                     g->limits.max_nodes, g->limits.max_bytes);
    g->root = root;
    if (st == FORNAX_OK)
        st = fx_gram_check(g, err);
    if (st == FORNAX_OK)
        st = fx_run_new(&g->run, g, err);
    if (st == FORNAX_OK) {
        b->g = NULL;
        *out = g;
    }
    fx_gram_builder_free(b);
    return st;
}

fx_gram *fx_gram_ref(fx_gram *g)
{
    atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
    return g;
}

void fx_gram_unref(fx_gram *g)
{
    if (g && atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) == 1)
        free_gram(g);
}

size_t fx_gram_bytes(const fx_gram *g)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&g->lock;
    size_t n;

    pthread_mutex_lock(lock);
    n = sizeof(*g) + g->arena.total_bytes + g->nodes.cap * sizeof(*g->nodes.at) + g->kids.cap * sizeof(*g->kids.at) +
        fx_re_pool_bytes(g->pool) + fx_run_bytes(g->run);
    for (size_t i = 0; i < g->objects.n; i++)
        n += fx_names_bytes(g->objects.at[i].dict);
    pthread_mutex_unlock(lock);
    return n;
}

/* ---- Printing -------------------------------------------------------------------------------------- */

static void print_bounds(fx_buf *out, uint32_t min, uint32_t max)
{
    if (min == 0 && max == FX_GRAM_INF)
        return;
    if (max == FX_GRAM_INF)
        fx_buf_printf(out, " %u..", min);
    else
        fx_buf_printf(out, " %u..%u", min, max);
}

static void print_object(fx_buf *out, const fx_gobject *o)
{
    fx_buf_puts(out, o->any_order ? "object any-order" : "object");
    print_bounds(out, o->min, o->max);
    for (size_t k = 0; k < o->n; k++) {
        uint32_t i = o->by_place[k];

        fx_buf_puts(out, " \"");
        fx_buf_json(out, o->names[i]);
        fx_buf_printf(out, "\"%s=%%%u", o->required[i / 64] >> i % 64 & 1 ? "!" : "", o->values[i]);
    }
    for (size_t i = 0; i < o->n_others; i++)
        fx_buf_printf(out, " %s=%%%u", o->others[i].marks ? "marked" : "others", o->others[i].value);
}

static void print_array(fx_buf *out, const fx_garray *a)
{
    fx_buf_puts(out, a->unique ? "array unique" : "array");
    print_bounds(out, a->min, a->max);
    for (size_t i = 0; i < a->n_prefix; i++)
        fx_buf_printf(out, " %%%u", a->prefix[i]);
    if (a->has_contains) {
        fx_buf_printf(out, " contains %%%u else %%%u", a->contains.yes, a->contains.no);
        print_bounds(out, a->contains.min, a->contains.max);
    } else if (a->rest != FX_GNODE_NEVER) {
        fx_buf_printf(out, " rest=%%%u", a->rest);
    }
}

static void print_node(fx_buf *out, const fx_gram *g, fx_gnode x)
{
    static const char *const names[] = { "never", "empty", "lexeme", "token", "seq", "alt", "repeat", "rule" };
    const fx_gnode_data *n = &g->nodes.at[x];

    fx_buf_printf(out, "%%%u = ", x);
    if (n->kind == FX_G_OBJECT) {
        print_object(out, &g->objects.at[n->a]);
    } else if (n->kind == FX_G_ARRAY) {
        print_array(out, &g->arrays.at[n->a]);
    } else {
        fx_buf_puts(out, names[n->kind]);
        if (n->kind == FX_G_LEXEME || n->kind == FX_G_TOKEN)
            fx_buf_printf(out, " #%u", n->a);
        if (n->kind == FX_G_RULE)
            fx_buf_printf(out, " %.*s", FX_STR_ARG(g->rule_names.at[n->b]));
        if (n->kind == FX_G_REPEAT || n->kind == FX_G_RULE)
            fx_buf_printf(out, " %%%u", n->a);
        if (n->kind == FX_G_REPEAT)
            print_bounds(out, n->b, n->c);
        for (uint32_t i = 0; (n->kind == FX_G_SEQ || n->kind == FX_G_ALT) && i < n->b; i++)
            fx_buf_printf(out, " %%%u", g->kids.at[n->a + i]);
    }
    fx_buf_putc(out, '\n');
}

void fx_gram_print(fx_buf *out, const fx_gram *g)
{
    for (fx_gnode x = 2; x < g->nodes.n; x++)
        print_node(out, g, x);
    fx_buf_printf(out, "root %%%u\n", g->root);
}
