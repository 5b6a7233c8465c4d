/* frames_json.c - what may come next inside a JSON object or array.
 *
 * A comma is offered only where another member or item can follow, a closing bracket only where all
 * that is required has come; a name or item that would leave no room for what is required isn't offered. */
#include "grammar/frames.h"

/* ---- Objects ------------------------------------------------------------------------------------ */

static bool has(const uint64_t *bits, uint32_t i) { return bits[i / 64] >> i % 64 & 1; }

/* Members that have to come still for their marks, if one with 'marks' comes now. */
static uint32_t owed(const fx_run *r, const fx_gobject *o, const fx_frame *f, uint32_t marks)
{
    return o->marks ? fx_gobject_owed(r->g, o, o->marks & ~(f->r[4] | marks)) : 0;
}

/* The names that may come now into r->view; *missing_out: required ones that haven't come. */
static bool open_names(fx_run *r, const fx_gobject *o, const fx_frame *f, uint32_t *missing_out)
{
    const size_t words = fx_names_words(o->dict);
    uint64_t any = 0;
    uint32_t must;

    memset(r->view, 0, words * sizeof(*r->view));
    if (o->any_order) {
        const uint64_t *left = fx_names_view_bits(o->dict, f->r[0]);    /* names not seen yet */
        bool only_required;

        must = 0;
        for (size_t i = 0; i * 64 < o->n; i++)
            for (uint64_t x = o->required[i] & left[i]; x; x &= x - 1)
                must++;
        only_required = o->max != FX_GRAM_INF && o->max - f->r[1] <= must + owed(r, o, f, 0);
        for (size_t i = 0; i * 64 < o->n; i++)
            any |= r->view[i] = left[i] & (only_required ? o->required[i] : o->allowed[i]);
    } else {
        uint32_t left = 0, room = o->max == FX_GRAM_INF ? UINT32_MAX : o->max - f->r[1];

        must = 0;
        for (uint32_t k = (uint32_t)o->n; k-- > f->r[0];) {             /* from the last place back */
            must += has(o->required, o->by_place[k]);
            left += has(o->allowed, o->by_place[k]);
        }
        *missing_out = must;
        for (uint32_t k = f->r[0]; k < o->n; k++) {
            uint32_t i = o->by_place[k];
            bool needed = has(o->required, i);

            if (has(o->allowed, i) && (needed || room > must + owed(r, o, f, 0)) &&
                (o->n_others || f->r[1] + left >= o->min)) {
                r->view[i / 64] |= 1ull << i % 64;
                any = 1;
            }
            left -= has(o->allowed, i);
            if (needed)
                return any;
        }
        return any;
    }
    *missing_out = must;
    return any;
}

/* For a member of class i. */
static bool room_for_other(const fx_run *r, const fx_gobject *o, const fx_frame *f, uint32_t must, size_t i)
{
    if (!o->any_order && must)
        return false;                                   /* the others come after the declared ones */
    return o->max == FX_GRAM_INF || o->max - f->r[1] > must + owed(r, o, f, o->others[i].marks);
}

static fx_re free_name(closure *c, const fx_gobject *o, const fx_frame *f, size_t i)
{
    fx_re_pool *p = c->r->pool;
    fx_re quote = fx_re_literal(p, FX_STR("\"")), name = o->others[i].name, used;

    if (f->r[2] & FX_PENDING)
        c->flags |= FX_SET_NEEDS_TEXT;
    used = fx_used_names(c->r->used, p, f->r[2] & ~FX_PENDING);
    if (used != FX_RE_NONE)
        name = fx_re_and(p, name, fx_re_not(p, used));
    if (used != FX_RE_NONE && fx_re_is_none(p, name, 1500) != FX_NO)
        return FX_RE_NONE;
    return fx_re_cat(p, quote, fx_re_cat(p, name, quote));
}

static void offer_names(closure *c, const fx_gobject *o, const fx_frame *f)
{
    fx_run *r = c->r;
    uint32_t must, view;
    fx_frame k = *f;

    if (o->max != FX_GRAM_INF && f->r[1] >= o->max)
        return;
    if (open_names(r, o, f, &must)) {
        view = fx_names_view(o->dict, r->view);
        if (view == UINT32_MAX)
            r->failed = true;
        else
            fx_closure_thread(c, fx_re_cat(r->pool, fx_re_literal(r->pool, FX_STR("\"")), fx_names_key(o->dict, r->pool, view)),
                              fx_frame_with(r, f, FX_PH_KEY));
    }
    for (uint32_t i = 0; i < o->n_others; i++) {
        k.r[3] = i;
        if (!room_for_other(r, o, f, must, i))
            continue;
        fx_closure_thread(c, free_name(c, o, f, i), fx_frame_with(r, &k, FX_PH_FREE));
    }
}

/* Whether a comma may come: some name can follow it. */
static bool more_names(closure *c, const fx_gobject *o, const fx_frame *f)
{
    uint32_t must;

    if (o->max != FX_GRAM_INF && f->r[1] >= o->max)
        return false;
    if (open_names(c->r, o, f, &must))
        return true;
    for (size_t i = 0; i < o->n_others; i++)
        if (room_for_other(c->r, o, f, must, i) && ((f->r[2] & ~FX_PENDING) == 0 || free_name(c, o, f, i) != FX_RE_NONE))
            return true;
    return false;
}

static bool may_close(fx_run *r, const fx_gobject *o, const fx_frame *f)
{
    uint32_t must;

    if (f->r[1] < o->min || owed(r, o, f, 0))
        return false;
    open_names(r, o, f, &must);
    return must == 0;
}

/* A declared name came: f->r[3]. */
static uint32_t take_name(fx_run *r, const fx_gobject *o, fx_frame *f)
{
    uint32_t i = f->r[3], most = o->max == FX_GRAM_INF ? o->min : o->max;

    f->r[1] = FX_MIN(f->r[1] + 1, most);
    if (!o->any_order) {
        f->r[0] = o->place[i] + 1;
    } else {
        memcpy(r->view, fx_names_view_bits(o->dict, f->r[0]), fx_names_words(o->dict) * sizeof(*r->view));
        r->view[i / 64] &= ~(1ull << i % 64);
        f->r[0] = fx_names_view(o->dict, r->view);
        if (f->r[0] == UINT32_MAX)
            r->failed = true;
    }
    return fx_frame_with(r, f, FX_PH_COLON);
}

static uint32_t take_free_name(fx_run *r, const fx_gobject *o, fx_frame *f)
{
    uint32_t most = o->max == FX_GRAM_INF ? o->min : o->max;

    f->r[1] = FX_MIN(f->r[1] + 1, most);
    f->r[2] |= FX_PENDING;
    f->r[4] |= o->others[f->r[3]].marks;
    f->r[3] += (uint32_t)o->n;
    if (!o->any_order)
        f->r[0] = (uint32_t)o->n;
    return fx_frame_with(r, f, FX_PH_COLON);
}

static void return_to_object(closure *c, const fx_gobject *o, fx_frame f)
{
    fx_run *r = c->r;
    uint32_t x = f.r[3];

    switch ((fx_phase)f.phase) {
    case FX_PH_OPEN:
        if (may_close(r, o, &f))
            fx_closure_thread(c, o->punct.empty_object, fx_frame_with(r, &f, FX_PH_CLOSE));
        offer_names(c, o, &f);
        return;
    case FX_PH_NAMED:
        fx_closure_thread(c, o->punct.colon, take_name(r, o, &f));
        return;
    case FX_PH_FREE:
        fx_closure_thread(c, o->punct.colon, take_free_name(r, o, &f));
        c->flags |= FX_SET_PENDING;
        return;
    case FX_PH_COLON:
        f.r[3] = 0;
        fx_closure_enter(c, x < o->n ? o->values[x] : o->others[x - o->n].value, fx_frame_with(r, &f, FX_PH_VALUE));
        return;
    case FX_PH_VALUE:
        if (may_close(r, o, &f))
            fx_closure_thread(c, o->punct.close_object, fx_frame_with(r, &f, FX_PH_CLOSE));
        if (more_names(c, o, &f))
            fx_closure_thread(c, o->punct.comma, fx_frame_with(r, &f, FX_PH_COMMA));
        return;
    case FX_PH_COMMA:
        offer_names(c, o, &f);
        return;
    default:
        fx_closure_return(c, f.parent);
        return;
    }
}

/* ---- Arrays ------------------------------------------------------------------------------------------ */

/* The frame below an item that is begun, with its counters up; 'counts' says that it matches 'contains'. */
static uint32_t item_frame(fx_run *r, const fx_garray *a, const fx_frame *f, bool counts)
{
    fx_frame k = *f;
    uint32_t most = a->max == FX_GRAM_INF ? FX_MAX(a->min, (uint32_t)a->n_prefix) : a->max;

    k.r[0] = FX_MIN(k.r[0] + 1, most);
    if (counts)
        k.r[1] = FX_MIN(k.r[1] + 1, a->contains.max == FX_GRAM_INF ? a->contains.min : a->contains.max);
    return fx_frame_with(r, &k, FX_PH_VALUE);
}

/* Which items may come now: bit 0 those of the schema (or that match 'contains'), bit 1 those that don't match it. */
static unsigned open_items(const fx_garray *a, const fx_gram *g, const fx_frame *f)
{
    uint32_t room = a->max == FX_GRAM_INF ? UINT32_MAX : a->max - FX_MIN(f->r[0], a->max), need, must;
    bool yes, no;

    if (room == 0)
        return 0;
    if (!a->has_contains)
        return 1;
    need = a->contains.min > f->r[1] ? a->contains.min - f->r[1] : 0;
    yes = g->nodes.at[a->contains.yes].productive && (a->contains.max == FX_GRAM_INF || f->r[1] < a->contains.max);
    no = g->nodes.at[a->contains.no].productive && room - 1 >= need;
    /* Without 'no' items, the array must not need more items than may match. */
    must = a->min > f->r[0] ? a->min - f->r[0] : 0;
    if (yes && !g->nodes.at[a->contains.no].productive && a->contains.max != FX_GRAM_INF && must > a->contains.max - f->r[1])
        yes = false;
    return (unsigned)yes | (unsigned)no << 1;
}

static void offer_items(closure *c, const fx_garray *a, const fx_frame *f)
{
    unsigned open = open_items(a, c->r->g, f);

    if (!a->has_contains && open) {
        fx_closure_enter(c, f->r[0] < a->n_prefix ? a->prefix[f->r[0]] : a->rest, item_frame(c->r, a, f, false));
        return;
    }
    if (open & 1)
        fx_closure_enter(c, a->contains.yes, item_frame(c->r, a, f, true));
    if (open & 2)
        fx_closure_enter(c, a->contains.no, item_frame(c->r, a, f, false));
}

/* Items of an array without repeats: a scalar's expression loses the values that came. */
static void offer_new_items(closure *c, const fx_garray *a, const fx_frame *f)
{
    fx_run *r = c->r;
    fx_re used = fx_used_values(r->used, r->pool, f->r[2] & ~FX_PENDING);
    size_t first = r->scratch.n, work = r->work.n;
    uint32_t below[2] = { item_frame(r, a, f, false), item_frame(r, a, f, true) };

    if (f->r[2] & FX_PENDING)
        c->flags |= FX_SET_NEEDS_TEXT;
    offer_items(c, a, f);
    fx_closure_work(c, work);
    for (size_t i = first; i < r->scratch.n && used != FX_RE_NONE; i++) {
        fx_thread *t = &r->scratch.at[i];

        if ((t->re & FX_THREAD_TOKEN) || (t->frame != below[0] && t->frame != below[1]))
            continue;
        t->re = fx_re_and(r->pool, t->re, fx_re_not(r->pool, used));
        if (t->re == FX_RE_FAIL || fx_re_is_none(r->pool, t->re, 1500) == FX_UNKNOWN)
            r->failed = true;
        else if (fx_re_is_none(r->pool, t->re, 1500) == FX_YES)
            r->scratch.at[i--] = r->scratch.at[--r->scratch.n];
    }
}

static void return_to_array(closure *c, const fx_garray *a, fx_frame f)
{
    fx_run *r = c->r;
    bool enough = f.r[0] >= a->min && (!a->has_contains || f.r[1] >= a->contains.min);

    switch ((fx_phase)f.phase) {
    case FX_PH_OPEN:
        if (enough)
            fx_closure_thread(c, a->punct.empty_array, fx_frame_with(r, &f, FX_PH_CLOSE));
        offer_items(c, a, &f);
        return;
    case FX_PH_VALUE:
        if (a->unique) {
            f.r[2] |= FX_PENDING;
            c->flags |= FX_SET_PENDING | (a->exact ? 0 : FX_SET_REFUSES);
        }
        if (enough)
            fx_closure_thread(c, a->punct.close_array, fx_frame_with(r, &f, FX_PH_CLOSE));
        if (open_items(a, r->g, &f))
            fx_closure_thread(c, a->punct.comma, fx_frame_with(r, &f, FX_PH_COMMA));
        return;
    case FX_PH_COMMA:
        if (a->unique)
            offer_new_items(c, a, &f);
        else
            offer_items(c, a, &f);
        return;
    default:
        fx_closure_return(c, f.parent);
        return;
    }
}

/* ---- Both ------------------------------------------------------------------------------------------------ */

void fx_json_enter(closure *c, fx_gnode node, uint32_t parent)
{
    const fx_gram *g = c->r->g;
    const fx_gnode_data *n = &g->nodes.at[node];
    fx_frame f = { .node = node, .phase = FX_PH_OPEN, .parent = parent };

    fx_closure_thread(c, n->kind == FX_G_OBJECT ? g->objects.at[n->a].punct.open_object : g->arrays.at[n->a].punct.open_array,
                      fx_frame_intern(c->r, f));
}

void fx_json_return(closure *c, const fx_frame *f)
{
    const fx_gram *g = c->r->g;
    const fx_gnode_data *n = &g->nodes.at[f->node];

    if (n->kind == FX_G_OBJECT)
        return_to_object(c, &g->objects.at[n->a], *f);
    else
        return_to_array(c, &g->arrays.at[n->a], *f);
}

uint32_t fx_json_done(fx_run *r, uint32_t frame, fx_re re)
{
    fx_frame f = r->frames.at[frame];
    uint32_t i;

    if (f.node == FX_FRAME_UNION || r->g->nodes.at[f.node].kind != FX_G_OBJECT || f.phase != FX_PH_KEY)
        return frame;
    if (!fx_names_label(r->g->objects.at[r->g->nodes.at[f.node].a].dict, r->pool, re, &i)) {
        r->failed = true;
        return UINT32_MAX;
    }
    f.r[3] = i;
    return fx_frame_with(r, &f, FX_PH_NAMED);
}

/* The frame with its pending text known; UINT32_MAX: refused, or failed. */
static uint32_t settle_frame(fx_run *r, uint32_t frame, fx_str canon, fx_str name)
{
    fx_frame f = r->frames.at[frame];
    const fx_gnode_data *n = &r->g->nodes.at[f.node];
    bool again, object = n->kind == FX_G_OBJECT;
    uint32_t out;

    f.r[2] = fx_used_add(r->used, f.r[2] & ~FX_PENDING, object ? name : canon, &again);
    if (f.r[2] == FX_USED_FAIL) {
        r->failed = true;
        return UINT32_MAX;
    }
    if (again)
        return UINT32_MAX;
    out = fx_frame_with(r, &f, f.phase);
    if (object || f.phase != FX_PH_COMMA || out == UINT32_MAX)
        return out;
    /* A comma is right only where a value is left that hasn't come. */
    return fx_run_return(r, out, FX_RE_EMPTY) == FX_PLACE_DEAD ? UINT32_MAX : out;
}

static bool is_pending(const fx_run *r, uint32_t frame)
{
    const fx_frame *f = &r->frames.at[frame];
    uint8_t kind = f->node == FX_FRAME_UNION ? FX_G_EMPTY : r->g->nodes.at[f->node].kind;

    return (kind == FX_G_OBJECT || kind == FX_G_ARRAY) && (f->r[2] & FX_PENDING);
}

fx_place fx_run_settle(fx_run *r, fx_place at, fx_str text)
{
    size_t bottom = r->scratch.n;
    uint32_t n = r->sets.at[at].n, flags = r->sets.at[at].flags & FX_SET_ACCEPT;
    fx_buf canon;
    fx_place to = FX_PLACE_FAIL;

    fx_buf_init(&canon, r->mem);
    if (!fx_json_canon(&canon, fx_json_last(text), 0))
        r->failed = true;
    for (uint32_t i = 0; i < n && !r->failed; i++) {
        fx_thread t = r->threads.at[r->sets.at[at].first + i];
        fx_str c = fx_buf_view(&canon);

        if (!(t.re & FX_THREAD_TOKEN) && is_pending(r, t.frame)) {
            t.frame = settle_frame(r, t.frame, c, fx_str_n(c.p + 1, c.n ? c.n - 1 : 0));
            if (t.frame == UINT32_MAX)
                continue;
        }
        if (!FX_VEC_PUSH(&r->scratch, r->mem, t))
            r->failed = true;
    }
    fx_buf_done(&canon);
    if (!r->failed)
        to = fx_place_intern(r, bottom, flags);
    r->scratch.n = bottom;
    return to;
}
