/* schema_emit.c - nodes to the grammar.
 *
 * A node becomes one alternative for its scalars (one lexeme) and one for each record.  A node that is met
 * again while it is being made becomes a rule. */
#include <stdlib.h>

#include "grammar/schema_int.h"

#define MAX_STATES 4096         /* of an array that needs an automaton */
#define MAX_CONTAINS 4

typedef FX_VEC(fx_gnode) gnodes;

static fx_gnode alternatives(fx_sc *c, gnodes *v)
{
    fx_gnode g = v->n == 0 ? FX_GNODE_NEVER : v->n == 1 ? v->at[0] : fx_gram_alt(c->b, v->at, v->n);

    FX_VEC_FREE(v, c->mem);
    return g;
}

static void add(fx_sc *c, gnodes *v, fx_gnode g)
{
    if (g != FX_GNODE_NEVER && !FX_VEC_PUSH(v, c->mem, g))
        fx_sc_nomem(c);
}

/* ---- scalars --------------------------------------------------------------------------- */

static fx_re word(fx_sc *c, fx_re re, bool wanted, fx_str text)
{
    return wanted ? fx_re_alt(c->re, re, fx_re_literal(c->re, text)) : re;
}

static fx_gnode scalars(fx_sc *c, const fx_split *s)
{
    fx_re_pool *p = c->re;
    fx_re re = fx_snum_re(c, s->num), inside = fx_sstr_re(c, s->str), quote = fx_re_literal(p, FX_STR("\""));

    re = word(c, re, s->null, FX_STR("null"));
    re = word(c, re, s->bools & 1, FX_STR("false"));
    re = word(c, re, s->bools & 2, FX_STR("true"));
    if (inside != FX_RE_NONE)
        re = fx_re_alt(p, re, fx_re_cat(p, quote, fx_re_cat(p, inside, quote)));
    return re == FX_RE_NONE || fx_re_empty(c, re) ? FX_GNODE_NEVER : fx_gram_lexeme(c->b, re);
}

/* ---- arrays with contains ----------------------------------------------------------------
 * A right-linear grammar over (items so far, matches so far of each contains): all counts saturate where
 * they no longer matter.  Each item falls into one of the classes "matches these, not those". */

typedef struct counts {
    uint32_t items, match[MAX_CONTAINS];
} counts;

typedef struct automaton {
    fx_sc *c;
    const fx_arec *r;
    uint32_t last_item;         /* from here on all places are alike */
    FX_VEC(counts) states;
    gnodes rules;
    fx_map ids;
} automaton;

static uint32_t count_cap(uint32_t min, uint32_t max)
{
    return max == FX_S_INF ? min : max + 1;
}

static bool accepts(const automaton *a, counts s)
{
    bool ok = s.items >= a->r->min && s.items <= a->r->max;

    for (uint32_t i = 0; i < a->r->n_contains; i++)
        ok = ok && s.match[i] >= a->r->contains[i].min && s.match[i] <= a->r->contains[i].max;
    return ok;
}

/* Its rule, which is defined when its turn comes. */
static fx_gnode state_rule(automaton *a, counts s)
{
    fx_sc *c = a->c;
    counts *kept;
    uint64_t id;

    if (fx_map_get(&a->ids, fx_str_n((char *)&s, sizeof(s)), &id))
        return a->rules.at[id];
    if (a->states.n >= MAX_STATES) {
        fx_sc_over(c, "states of contains");
        return FX_GNODE_NEVER;
    }
    kept = FX_SC_NEWN(c, counts, 1);
    if (!kept)
        return FX_GNODE_NEVER;
    *kept = s;
    if (!FX_VEC_PUSH(&a->states, c->mem, s)
        || !FX_VEC_PUSH(&a->rules, c->mem, fx_gram_rule(c->b, FX_STR("items")))
        || !fx_map_put(&a->ids, fx_str_n((char *)kept, sizeof(s)), a->states.n - 1)) {
        fx_sc_nomem(c);
        return FX_GNODE_NEVER;
    }
    return a->rules.at[a->rules.n - 1];
}

/* The state after one more item that matches the set 'mask'; false: never accepted from there. */
static bool after_item(const automaton *a, counts s, unsigned mask, counts *to)
{
    *to = s;
    to->items = FX_MIN(s.items + 1, a->last_item);
    if (to->items > a->r->max)
        return false;
    for (uint32_t i = 0; i < a->r->n_contains; i++) {
        const fx_scontains *one = &a->r->contains[i];

        if (!(mask & 1u << i) || s.items < one->from)
            continue;
        to->match[i] = FX_MIN(s.match[i] + 1, count_cap(one->min, one->max));
        if (to->match[i] > one->max)
            return false;
    }
    return true;
}

/* The item at a place that matches exactly the set among those that still count. */
static bool item_of(const automaton *a, counts s, unsigned mask, fx_sn *out)
{
    *out = fx_arec_item(a->r, s.items);
    for (uint32_t i = 0; i < a->r->n_contains; i++) {
        const fx_scontains *one = &a->r->contains[i];
        bool counts_here = s.items >= one->from && (one->max != FX_S_INF || s.match[i] < one->min);
        bool in = mask & 1u << i;

        if (!counts_here && in)
            return false;
        if (counts_here)
            *out = fx_sn_and(a->c, *out, in ? one->node : fx_sn_not(a->c, one->node));
    }
    return *out != FX_SN_FALSE;
}

static fx_gnode step(automaton *a, counts s, unsigned mask, bool first)
{
    fx_sc *c = a->c;
    counts to;
    fx_sn node;
    fx_gnode parts[3], item;

    if (!item_of(a, s, mask, &node) || !after_item(a, s, mask, &to) || (item = fx_sc_emit(c, node)) == FX_GNODE_NEVER)
        return FX_GNODE_NEVER;
    parts[0] = first ? FX_GNODE_EMPTY : fx_gram_comma(c->b);
    parts[1] = item;
    parts[2] = state_rule(a, to);
    return c->st ? FX_GNODE_NEVER : fx_gram_seq(c->b, parts, 3);
}

static fx_gnode steps(automaton *a, counts s, bool first)
{
    gnodes v = { 0 };

    for (unsigned mask = 0; mask < 1u << a->r->n_contains && !a->c->st; mask++)
        add(a->c, &v, step(a, s, mask, first));
    if (!first && accepts(a, s))
        add(a->c, &v, FX_GNODE_EMPTY);
    return alternatives(a->c, &v);
}

static fx_gnode bracketed(fx_sc *c, fx_gnode inside)
{
    fx_gnode open = fx_gram_lexeme(c->b, fx_re_literal(c->re, FX_STR("[")));
    fx_gnode close = fx_gram_lexeme(c->b, fx_re_literal(c->re, FX_STR("]"))), blanks = fx_gram_blanks(c->b);
    fx_gnode all[5] = { open, blanks, inside, blanks, close }, none[3] = { open, blanks, close };

    if (inside == FX_GNODE_NEVER)
        return inside;
    return inside == FX_GNODE_EMPTY ? fx_gram_seq(c->b, none, 3) : fx_gram_seq(c->b, all, 5);
}

static fx_gnode contains_array(fx_sc *c, const fx_arec *r)
{
    automaton a = { .c = c, .r = r };
    gnodes v = { 0 };
    counts start = { 0 };

    if (r->unique || r->n_contains > MAX_CONTAINS) {
        fx_sc_cannot(c, r->unique ? "uniqueItems beside contains" : "more than four contains at once");
        return FX_GNODE_NEVER;
    }
    a.last_item = FX_MAX(count_cap(r->min, r->max), r->n_prefix);
    for (uint32_t i = 0; i < r->n_contains; i++)
        a.last_item = FX_MAX(a.last_item, r->contains[i].from);
    fx_map_init(&a.ids, c->mem);
    if (accepts(&a, start))
        add(c, &v, bracketed(c, FX_GNODE_EMPTY));
    add(c, &v, bracketed(c, steps(&a, start, true)));
    for (size_t i = 0; i < a.states.n && !c->st; i++)
        fx_gram_define(c->b, a.rules.at[i], steps(&a, a.states.at[i], false));
    fx_map_done(&a.ids);
    FX_VEC_FREE(&a.states, c->mem);
    FX_VEC_FREE(&a.rules, c->mem);
    return alternatives(c, &v);
}

/* ---- how many values: for uniqueItems ------------------------------------------------------ */

#define MAX_COUNT 1000000u      /* more than that is many */

static uint64_t count_values(fx_sc *c, fx_sn node, int depth);

static uint64_t count_arrays(fx_sc *c, const fx_arec *r, int depth)
{
    uint64_t sum = 0, these = 1;

    for (uint32_t n = 0; n <= r->max; n++) {
        sum += n >= r->min ? these : 0;
        these *= count_values(c, fx_arec_item(r, n), depth);
        if (!these)
            break;
        if (these > MAX_COUNT || sum > MAX_COUNT || n > 4096)
            return MAX_COUNT;
    }
    return sum;
}

static uint64_t count_objects(fx_sc *c, const fx_orec *r, int depth)
{
    uint64_t n = 1;

    if (r->n_classes)
        return MAX_COUNT;
    for (uint32_t i = 0; i < r->n_props && n < MAX_COUNT; i++)
        n *= count_values(c, r->props[i].value, depth) + !r->props[i].required;
    return FX_MIN(n, MAX_COUNT);
}

/* How many values a node has at most; MAX_COUNT: many, or not known. */
static uint64_t count_values(fx_sc *c, fx_sn node, int depth)
{
    const fx_split *s = node > FX_SN_TRUE && depth < 4 ? fx_sn_expand(c, node) : NULL;
    uint64_t n;

    if (node == FX_SN_FALSE)
        return 0;
    if (!s || s->num.n_recs || s->str.gen != FX_RE_NONE)
        return MAX_COUNT;
    n = s->null + (s->bools & 1u) + (s->bools >> 1) + (uint64_t)s->num.n_fin + s->str.n_fin;
    for (uint32_t i = 0; i < s->n_arr && n < MAX_COUNT; i++)
        n += count_arrays(c, s->arr[i], depth + 1);
    for (uint32_t i = 0; i < s->n_obj && n < MAX_COUNT; i++)
        n += count_objects(c, s->obj[i], depth + 1);
    return FX_MIN(n, MAX_COUNT);
}

/* Items that run out of values: an array must not be begun that can't be ended. */
static bool limit_unique(fx_sc *c, const fx_arec *r, fx_gram_array_spec *spec, fx_gram_contains *one)
{
    uint64_t rest = count_values(c, r->rest, 0), yes, no;

    if (spec->contains) {
        yes = count_values(c, fx_sn_and(c, r->rest, r->contains[0].node), 0);
        no = count_values(c, fx_sn_and(c, r->rest, fx_sn_not(c, r->contains[0].node)), 0);
        if (yes < MAX_COUNT)
            one->max = FX_MIN(one->max, (uint32_t)yes);
        if (no < MAX_COUNT && one->max != FX_GRAM_INF)
            spec->max = FX_MIN(spec->max, one->max + (uint32_t)no);
        return one->min <= one->max;
    }
    if (!r->n_prefix && rest < MAX_COUNT)
        spec->max = FX_MIN(spec->max, (uint32_t)rest);
    for (uint32_t i = 0; i < r->min && r->n_prefix && i <= r->n_prefix; i++)
        if (count_values(c, fx_arec_item(r, i), 0) <= (i < r->n_prefix ? i : r->min - 1))
            return fx_sc_cannot(c, "uniqueItems where an item has few values");
    return true;
}

/* ---- arrays -------------------------------------------------------------------------------- */

static fx_gnode array(fx_sc *c, const fx_arec *r)
{
    fx_gram_array_spec spec = { .min = r->min, .max = r->max == FX_S_INF ? FX_GRAM_INF : r->max, .unique = r->unique };
    fx_gnode *prefix;
    fx_gram_contains one;

    if (r->n_contains > 1 || (r->n_contains && (r->n_prefix || r->contains[0].from)))
        return contains_array(c, r);
    if (!(prefix = FX_SC_NEWN(c, fx_gnode, r->n_prefix)))
        return FX_GNODE_NEVER;
    for (uint32_t i = 0; i < r->n_prefix && i < spec.max && !c->st; i++) {
        prefix[i] = fx_sc_emit(c, r->prefix[i]);
        if (prefix[i] == FX_GNODE_NEVER)
            spec.max = i;
    }
    spec.prefix = prefix;
    spec.n_prefix = FX_MIN(r->n_prefix, spec.max);
    if (r->n_contains) {
        one.yes = fx_sc_emit(c, fx_sn_and(c, r->rest, r->contains[0].node));
        one.no = fx_sc_emit(c, fx_sn_and(c, r->rest, fx_sn_not(c, r->contains[0].node)));
        one.min = r->contains[0].min;
        one.max = r->contains[0].max == FX_S_INF ? FX_GRAM_INF : r->contains[0].max;
        spec.contains = &one;
        if (one.min && one.yes == FX_GNODE_NEVER)
            return FX_GNODE_NEVER;
        spec.rest = one.yes == FX_GNODE_NEVER ? one.no : one.yes;
    } else {
        spec.rest = spec.max > spec.n_prefix ? fx_sc_emit(c, r->rest) : FX_GNODE_NEVER;
    }
    if (spec.unique && !c->st && !limit_unique(c, r, &spec, &one))
        return FX_GNODE_NEVER;
    if (spec.rest == FX_GNODE_NEVER)
        spec.max = FX_MIN(spec.max, (uint32_t)spec.n_prefix);
    return c->st || spec.min > spec.max ? FX_GNODE_NEVER : fx_gram_array(c->b, &spec);
}

/* ---- objects --------------------------------------------------------------------------------- */

/* False: the object can't be. */
static bool members(fx_sc *c, const fx_orec *r, fx_gram_prop *props, uint32_t *possible)
{
    *possible = 0;
    for (uint32_t i = 0; i < r->n_props && !c->st; i++) {
        const fx_sprop *p = &r->props[i];

        props[i] = (fx_gram_prop){ p->name, fx_sc_emit(c, p->value), p->required };
        *possible += props[i].value != FX_GNODE_NEVER;
        if (p->required && props[i].value == FX_GNODE_NEVER)
            return false;
    }
    return !c->st;
}

#define MAX_SOME 4u
#define MAX_SPLIT 54u           /* classes of names that "some" may split into: more take long to tell apart */

/* Each "some" makes three of a class at most. */
static size_t room_for_classes(const fx_orec *r)
{
    size_t n = r->n_classes;

    for (uint32_t i = 0; i < r->n_some; i++)
        n *= 3;
    return n;
}

typedef struct name_class {
    fx_re name;
    fx_sn value;
    uint32_t marks;
} name_class;

/* Splits each class by one "some": its members, others of its names, other names. */
static uint32_t split_classes(fx_sc *c, name_class *v, uint32_t n, const fx_ssome *some, uint32_t mark)
{
    uint32_t known = n;

    for (uint32_t i = 0; i < known && !c->st; i++) {
        name_class one = v[i];
        fx_re both = some->name == c->any_text ? one.name : one.name == c->any_text ? some->name
                     : fx_re_and(c->re, one.name, some->name);

        if (fx_re_empty(c, both))
            continue;
        v[i] = (name_class){ both, fx_sn_and(c, one.value, some->value), one.marks | mark };
        if (some->value != FX_SN_TRUE)
            v[n++] = (name_class){ both, fx_sn_and(c, one.value, fx_sn_not(c, some->value)), one.marks };
        if (both != one.name)
            v[n++] = (name_class){ fx_re_minus(c, one.name, some->name), one.value, one.marks };
    }
    return n;
}

/* Free names; where some member has to be one of r->some, those that can be it are marked. */
static size_t classes(fx_sc *c, const fx_orec *r, fx_gram_names *out)
{
    name_class *v = FX_SC_NEWN(c, name_class, room_for_classes(r));
    uint32_t n = 0;
    size_t kept = 0;

    for (uint32_t i = 0; v && i < r->n_classes && r->max > 0; i++)
        v[n++] = (name_class){ r->classes[i].name, r->classes[i].value, 0 };
    for (uint32_t i = 0; v && i < r->n_some; i++)
        n = split_classes(c, v, n, &r->some[i], 1u << i);
    for (uint32_t i = 0; i < n && !c->st; i++) {
        fx_gnode g = v[i].value == FX_SN_FALSE || fx_re_empty(c, v[i].name) ? FX_GNODE_NEVER : fx_sc_emit(c, v[i].value);

        if (g != FX_GNODE_NEVER)
            out[kept++] = (fx_gram_names){ v[i].name, g, v[i].marks };
    }
    return kept;
}

/* All that r->some asks for is brought by free names. */
static fx_gnode free_object(fx_sc *c, const fx_orec *r)
{
    fx_gram_object_spec spec = { .min = r->min, .max = r->max == FX_S_INF ? FX_GRAM_INF : r->max,
                                 .marks = (1u << r->n_some) - 1, .any_order = c->opt->any_order };
    fx_gram_prop *props = FX_SC_NEWN(c, fx_gram_prop, r->n_props);
    fx_gram_names *others = FX_SC_NEWN(c, fx_gram_names, room_for_classes(r));
    uint32_t possible, brought = 0;

    if (!props || !others || !members(c, r, props, &possible))
        return FX_GNODE_NEVER;
    spec.n_others = classes(c, r, others);
    spec.props = props;
    spec.n_props = r->n_props;
    spec.others = others;
    for (size_t i = 0; i < spec.n_others; i++)
        brought |= others[i].marks;
    if (c->st || brought != spec.marks || (!spec.n_others && possible < r->min))
        return FX_GNODE_NEVER;
    return fx_gram_object(c->b, &spec);
}

/* r->some before 'free' are brought by free names, the others by those or by declared ones. */
static fx_gnode object(fx_sc *c, const fx_orec *r, uint32_t free)
{
    fx_orecs v = { 0 };
    gnodes g = { 0 };

    if (r->n_some > MAX_SOME || (r->n_some > 1 && room_for_classes(r) > MAX_SPLIT)) {
        fx_sc_cannot(c, "so many members without a name given (from the negation of additionalProperties, "
                        "patternProperties or propertyNames)");
        return FX_GNODE_NEVER;
    }
    if (free == r->n_some)
        return free_object(c, r);
    add(c, &g, object(c, r, free + 1));
    fx_orec_candidates(c, &v, r, free);
    for (size_t i = 0; i < v.n && !c->st; i++)
        add(c, &g, object(c, v.at[i], 0));
    FX_VEC_FREE(&v, c->mem);
    return alternatives(c, &g);
}

/* ---- nodes -------------------------------------------------------------------------------------- */

static fx_gnode body(fx_sc *c, const fx_split *s)
{
    gnodes v = { 0 };

    add(c, &v, scalars(c, s));
    for (uint32_t i = 0; i < s->n_arr && !c->st; i++)
        add(c, &v, array(c, s->arr[i]));
    for (uint32_t i = 0; i < s->n_obj && !c->st; i++)
        add(c, &v, object(c, s->obj[i], 0));
    return alternatives(c, &v);
}

fx_gnode fx_sc_emit(fx_sc *c, fx_sn id)
{
    fx_snode *n = &c->nodes.at[id];
    const fx_jv *outer = c->place;
    const fx_split *s;
    fx_gnode g;

    if (c->st || n->g != FX_GNODE_FAIL || id == FX_SN_FALSE)
        return c->st || id == FX_SN_FALSE ? FX_GNODE_NEVER : n->g;
    if (n->emitting) {
        if (n->rule == FX_GNODE_FAIL)
            n->rule = fx_gram_rule(c->b, FX_STR("schema"));
        return n->rule;
    }
    if (c->depth >= FX_S_MAX_DEPTH) {
        fx_sc_over(c, "levels");
        return FX_GNODE_NEVER;
    }
    n->emitting = true;
    c->place = n->kind == FX_SNK_ATOM ? n->jv : outer;
    c->depth++;
    s = fx_sn_expand(c, id);
    g = s ? body(c, s) : FX_GNODE_NEVER;
    c->depth--;
    n = &c->nodes.at[id];               /* nodes may have moved */
    n->emitting = false;
    c->place = outer;
    if (n->rule != FX_GNODE_FAIL) {
        fx_gram_define(c->b, n->rule, g);
        g = g == FX_GNODE_NEVER ? g : n->rule;
    }
    if (!c->st)
        n->g = g;
    return g;
}
