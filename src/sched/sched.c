/* sched.c - see sched.h.
 *
 * A plan has four passes over the sequences:
 *
 *     admit     waiting -> running, while there is a place and the pages would suffice
 *     extend    running sequences take over pages that others have computed meanwhile, then copy the
 *               beginnings of such as only begin alike; with recurrent state, choices fork here
 *     allot     the row budget: one row for each decoding sequence; of the rest, three
 *               quarters to the first prompt in order, the others shortest first
 *     reserve   in order, pages for the allotted rows; when there are none, the last in
 *               order is preempted; what is left becomes the batch
 *
 * Victims always come later in the order than who needs the page, so nothing that is
 * already in the batch is taken out again.
 *
 * Invariants, asserted by fx_sched_check: running and waiting are in order; a running
 * sequence's pages cover its computed tokens (but for those behind a window) and are
 * referred to; exactly the running ones have slots; n_running + n_following <= max_batch;
 * leading pages in the tree never exceed computed whole pages. */
#include "sched/sched.h"

/* ---- Order and lists ---------------------------------------------------------------- */

static bool before(const fx_seq *a, const fx_seq *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    if (a->arrival != b->arrival)
        return a->arrival < b->arrival;
    return a->choice < b->choice;
}

static void wait_in_order(fx_sched *s, fx_seq *seq)
{
    fx_seq *after = s->last;

    while (after && before(seq, after))
        after = after->prev;
    seq->prev = after;
    seq->next = after ? after->next : s->first;
    if (seq->next)
        seq->next->prev = seq;
    else
        s->last = seq;
    if (after)
        after->next = seq;
    else
        s->first = seq;
    seq->state = FX_SEQ_WAITING;
    s->n_waiting++;
}

static void stop_waiting(fx_sched *s, fx_seq *seq)
{
    if (seq->prev)
        seq->prev->next = seq->next;
    else
        s->first = seq->next;
    if (seq->next)
        seq->next->prev = seq->prev;
    else
        s->last = seq->prev;
    seq->prev = seq->next = NULL;
    seq->state = FX_SEQ_IDLE;
    s->n_waiting--;
}

static void start_running(fx_sched *s, fx_seq *seq)
{
    int32_t at = s->n_running++;

    for (; at > 0 && before(seq, s->running[at - 1]); at--)
        s->running[at] = s->running[at - 1];
    s->running[at] = seq;
    seq->state = FX_SEQ_RUNNING;
    if (s->recurrent)
        seq->slot = fx_kv_slot_take(s->kv);
}

static void stop_running(fx_sched *s, fx_seq *seq)
{
    int32_t at = 0;

    while (s->running[at] != seq)
        at++;
    s->n_running--;
    for (; at < s->n_running; at++)
        s->running[at] = s->running[at + 1];
    seq->state = FX_SEQ_IDLE;
    if (seq->slot)
        fx_kv_slot_drop(s->kv, seq->slot);
    seq->slot = NULL;
}

/* The sequence's page i in all columns. */
static fx_page *pages_at(const fx_sched *s, const fx_seq *seq, int32_t i)
{
    return seq->pages + (size_t)i * (size_t)s->n_columns;
}

/* ... in those of a group: the first names the set. */
static fx_page *set_at(const fx_sched *s, const fx_seq *seq, int32_t i, int g)
{
    return pages_at(s, seq, i) + s->groups[g]->first;
}

/* The set before page i, FX_PAGE_NONE: that is the first. */
static fx_page parent_at(const fx_sched *s, const fx_seq *seq, int32_t i)
{
    return i > 0 ? *pages_at(s, seq, i - 1) : FX_PAGE_NONE;
}

/* The units of page i. */
static const int32_t *units_at(const fx_sched *s, const fx_seq *seq, int32_t i)
{
    return seq->tokens + (size_t)i * (size_t)s->page_tokens;
}

/* The sequence has the set 'p' at page i. */
static void put_set(fx_sched *s, fx_seq *seq, int32_t i, int g, fx_page p)
{
    if (p != FX_PAGE_NONE)
        fx_kv_list(s->kv, p, set_at(s, seq, i, g));
    else
        memset(set_at(s, seq, i, g), 0xff, (size_t)s->groups[g]->n * sizeof(fx_page));
}

/* Children go before parents, so that the tree sees a leaf first. */
static void drop_pages(fx_sched *s, fx_seq *seq)
{
    while (seq->n_pages-- > 0)
        for (int g = s->n_groups - 1; g >= 0; g--)
            if (seq->n_pages >= seq->n_behind[g])
                fx_kv_drop(s->kv, *set_at(s, seq, seq->n_pages, g));
    memset(seq->n_behind, 0, sizeof seq->n_behind);
    seq->n_pages = seq->n_found = seq->n_known = 0;
    seq->n_computed = seq->n_in_tree = 0;
    seq->waits = false;
}

/* How many leading pages no row at 'pos' or later reads. The one before the page in progress isn't
 * counted: that will be put into the tree under it. */
static int32_t count_behind(const fx_sched *s, int g, int32_t pos)
{
    int32_t low = pos + 1 - s->groups[g]->window;

    if (s->groups[g]->window == 0 || low <= 0)
        return 0;
    return FX_MAX(FX_MIN(low / s->page_tokens, pos / s->page_tokens - 1), 0);
}

/* Whether others are likely to ask for the sequence's page i of a group: they did before, or go on from where its
 * prompt ends. Of the first group all are, since those behind a missing one are of no use. */
static bool is_likely(const fx_sched *s, const fx_seq *seq, int g, int32_t i)
{
    int32_t from = count_behind(s, g, (seq->n_prompt - 1) / s->page_tokens * s->page_tokens);

    return g == 0 || i < seq->n_found || (i >= from && i < seq->n_prompt / s->page_tokens);
}

/* Lets go of the group's pages before 'keep'. */
static void let_go(fx_sched *s, fx_seq *seq, int g, int32_t keep)
{
    for (; seq->n_behind[g] < keep; seq->n_behind[g]++) {
        fx_page p = *set_at(s, seq, seq->n_behind[g], g);

        if (p == FX_PAGE_NONE)
            continue;
        if (is_likely(s, seq, g, seq->n_behind[g]))
            fx_kv_drop(s->kv, p);
        else
            fx_kv_drop_unlikely(s->kv, p);
        put_set(s, seq, seq->n_behind[g], g, FX_PAGE_NONE);
    }
}

static void drop_behind(fx_sched *s, fx_seq *seq)
{
    for (int g = 0; g < s->n_groups; g++)
        let_go(s, seq, g, count_behind(s, g, seq->n_computed));
}

/* ---- Pages in part ------------------------------------------------------------------- */

static const fx_hash128 *key_of(const fx_sched *s, fx_seq *seq, int32_t page)
{
    for (; seq->n_keys <= page; seq->n_keys++) {
        int32_t i = seq->n_keys;

        seq->keys[i] = fx_kv_key(s->kv, seq->scope, i > 0 ? &seq->keys[i - 1] : NULL, units_at(s, seq, i));
    }
    return &seq->keys[page];
}

/* Whether pages can be of use in part: each token's state is its own, and nothing hangs on them. */
static bool has_beginnings(const fx_sched *s)
{
    return s->limits.share && !s->recurrent && s->n_groups == 1 && s->groups[0]->window == 0;
}

/* Fewer tokens than these are computed rather than copied with their page. */
static int32_t least_beginning(const fx_sched *s) { return FX_MAX(s->page_tokens / 8, 1); }

/* The page that the sequence is in goes into the tree as it is, for those that begin like it. */
static void leave_beginning(fx_sched *s, fx_seq *seq)
{
    int32_t i = seq->n_computed / s->page_tokens, m = seq->n_computed % s->page_tokens;
    fx_page parent = parent_at(s, seq, i), known;
    int32_t *units = s->units, same;
    fx_hash128 key;

    if (!has_beginnings(s) || m < least_beginning(s))
        return;
    FX_ASSERT(seq->n_in_tree == i && i < seq->n_pages);
    known = fx_kv_find_beginning(s->kv, seq->scope, parent, units_at(s, seq, i), m, &same);
    if (same == m) {
        fx_kv_renew(s->kv, known);
        return;
    }
    memcpy(units, units_at(s, seq, i), (size_t)m * sizeof *units);
    for (int32_t j = m; j < s->page_tokens; j++)
        units[j] = -1;
    key = fx_kv_key(s->kv, seq->scope, i > 0 ? key_of(s, seq, i - 1) : NULL, units);
    put_set(s, seq, i, 0, fx_kv_insert(s->kv, seq->scope, parent, &key, units, *pages_at(s, seq, i)));
}

/* A running sequence stops, but keeps its pages. */
static void leave(fx_sched *s, fx_seq *seq)
{
    leave_beginning(s, seq);
    stop_running(s, seq);
}

/* ---- Open, add, remove ---------------------------------------------------------------- */

/* The window, a chunk, and what their edges cut. */
static int32_t peak_pages(const fx_sched *s, int32_t window)
{
    int64_t tokens = (int64_t)window + FX_MIN(s->limits.prefill_chunk, s->limits.step_tokens);

    return window > 0 ? (int32_t)FX_MIN(FX_DIV_UP(tokens, s->page_tokens) + 3, INT32_MAX) : INT32_MAX;
}

fx_status fx_sched_init(fx_sched *s, const fx_mem *mem, fx_kv *kv, const fx_sched_limits *limits, fx_error *err)
{
    size_t batch = (size_t)limits->max_batch, rows = (size_t)limits->step_tokens;

    FX_ASSERT(limits->max_batch >= 1 && limits->max_batch <= limits->step_tokens && limits->prefill_chunk >= 1);
    *s = (fx_sched){ .mem = mem, .kv = kv, .limits = *limits, .page_tokens = fx_kv_page_tokens(kv),
                     .n_columns = fx_kv_columns(kv), .n_groups = fx_kv_groups(kv),
                     .recurrent = fx_kv_slot_bytes(kv) > 0 };
    for (int g = 0; g < s->n_groups; g++) {
        s->groups[g] = fx_kv_group(kv, g);
        s->peak_pages[g] = peak_pages(s, s->groups[g]->window);
    }
    s->most_snapshots = limits->step_tokens / s->page_tokens + limits->max_batch;
    s->snapshots = fx_mem_array(mem, (size_t)s->most_snapshots, sizeof *s->snapshots);
    s->running = fx_mem_array(mem, batch, sizeof *s->running);
    s->items = fx_mem_array(mem, batch, sizeof *s->items);
    s->step_seqs = fx_mem_array(mem, batch, sizeof *s->step_seqs);
    s->adapters = fx_mem_array(mem, batch, sizeof *s->adapters);
    s->logit_rows = fx_mem_array(mem, batch, sizeof *s->logit_rows);
    s->token = fx_mem_array(mem, rows, sizeof *s->token);
    s->pos = fx_mem_array(mem, rows, sizeof *s->pos);
    s->row_seq = fx_mem_array(mem, rows, sizeof *s->row_seq);
    s->units = fx_mem_array(mem, (size_t)s->page_tokens, sizeof *s->units);
    if (!s->running || !s->items || !s->step_seqs || !s->adapters || !s->logit_rows || !s->token || !s->pos || !s->row_seq ||
        !s->units || !s->snapshots) {
        fx_sched_done(s);
        return fx_nomem(err, "the scheduler's batch");
    }
    return FORNAX_OK;
}

void fx_sched_done(fx_sched *s)
{
    size_t batch = (size_t)s->limits.max_batch, rows = (size_t)s->limits.step_tokens;

    if (!s->mem)
        return;
    fx_mem_free(s->mem, s->snapshots, (size_t)s->most_snapshots * sizeof *s->snapshots);
    fx_mem_free(s->mem, s->running, batch * sizeof *s->running);
    fx_mem_free(s->mem, s->items, batch * sizeof *s->items);
    fx_mem_free(s->mem, s->step_seqs, batch * sizeof *s->step_seqs);
    fx_mem_free(s->mem, s->adapters, batch * sizeof *s->adapters);
    fx_mem_free(s->mem, s->logit_rows, batch * sizeof *s->logit_rows);
    fx_mem_free(s->mem, s->token, rows * sizeof *s->token);
    fx_mem_free(s->mem, s->pos, rows * sizeof *s->pos);
    fx_mem_free(s->mem, s->row_seq, rows * sizeof *s->row_seq);
    fx_mem_free(s->mem, s->units, (size_t)s->page_tokens * sizeof *s->units);
    *s = (fx_sched){ 0 };
}

int64_t fx_sched_pages(const fx_sched *s, int64_t n_tokens)
{
    int64_t sum = 0;

    for (int g = 0; g < s->n_groups; g++)
        sum += s->groups[g]->n * FX_MIN(FX_DIV_UP(n_tokens, s->page_tokens), (int64_t)s->peak_pages[g]);
    return sum;
}

int64_t fx_sched_longest(const fx_sched *s, int64_t n_tokens)
{
    int64_t lo = 0, hi = FX_DIV_UP(n_tokens, s->page_tokens);     /* pages of a column */

    while (lo < hi) {
        int64_t mid = lo + (hi - lo + 1) / 2;

        if (fx_sched_pages(s, mid * s->page_tokens) <= (int64_t)fx_kv_count(s->kv).total)
            lo = mid;
        else
            hi = mid - 1;
    }
    return FX_MIN(lo * s->page_tokens, n_tokens);
}

void fx_sched_add(fx_sched *s, fx_seq *seq)
{
    FX_ASSERT(seq->state == FX_SEQ_IDLE && seq->n_tokens >= 1 && seq->n_tokens <= seq->cap);
    FX_ASSERT(fx_sched_pages(s, seq->cap) <= (int64_t)fx_kv_count(s->kv).total);
    wait_in_order(s, seq);
}

void fx_sched_follow(fx_sched *s, fx_seq *seq, fx_seq *leader)
{
    FX_ASSERT(seq->state == FX_SEQ_IDLE && leader->state == FX_SEQ_WAITING);
    (void)s;
    seq->state = FX_SEQ_FOLLOWING;
    seq->leader = leader;
    seq->next_follower = leader->followers;
    leader->followers = seq;
}

static void stop_following(fx_sched *s, fx_seq *seq)
{
    fx_seq **at = &seq->leader->followers;

    while (*at != seq)
        at = &(*at)->next_follower;
    *at = seq->next_follower;
    if (seq->leader->state == FX_SEQ_RUNNING)
        s->n_following--;
    seq->leader = seq->next_follower = NULL;
    seq->state = FX_SEQ_IDLE;
}

void fx_sched_remove(fx_sched *s, fx_seq *seq)
{
    while (seq->followers) {             /* can't fork from it any more: on their own from here */
        fx_seq *f = seq->followers;

        stop_following(s, f);
        wait_in_order(s, f);
    }
    if (seq->state == FX_SEQ_WAITING)
        stop_waiting(s, seq);
    else if (seq->state == FX_SEQ_RUNNING)
        leave(s, seq);
    else if (seq->state == FX_SEQ_FOLLOWING)
        stop_following(s, seq);
    drop_pages(s, seq);
}

static int32_t count_followers(const fx_seq *seq)
{
    int32_t n = 0;

    for (const fx_seq *f = seq->followers; f; f = f->next_follower)
        n++;
    return n;
}

/* Followers have places only while their leader runs. */
void fx_sched_preempt(fx_sched *s, fx_seq *seq)
{
    FX_ASSERT(seq->state == FX_SEQ_RUNNING);
    leave(s, seq);
    s->n_following -= count_followers(seq);
    drop_pages(s, seq);
    wait_in_order(s, seq);
    seq->resumed = true;
    s->preemptions++;
}

void fx_sched_push(fx_sched *s, fx_seq *seq, int32_t token)
{
    (void)s;
    FX_ASSERT(seq->state == FX_SEQ_RUNNING && seq->n_computed >= seq->n_prompt && seq->n_tokens < seq->cap);
    seq->tokens[seq->n_tokens++] = token;
}

/* ---- Shared prefixes -------------------------------------------------------------------- */

/* Whole pages that the sequence may take over rather than compute: one token at
 * least is computed, for its logits. */
static int32_t pages_to_share(const fx_sched *s, const fx_seq *seq)
{
    return (seq->n_tokens - 1) / s->page_tokens;
}

static fx_page find_page(const fx_sched *s, fx_seq *seq, int32_t i, fx_page parent)
{
    return fx_kv_find(s->kv, seq->scope, parent, key_of(s, seq, i), units_at(s, seq, i));
}

/* How many leading pages two sequences have in common: keys are chained, so equal
 * keys mean equal pages up to there. */
static int32_t common_pages(const fx_seq *a, const fx_seq *b)
{
    int32_t lo = 0, hi = FX_MIN(a->n_keys, b->n_keys);

    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;

        if (a->keys[mid].lo == b->keys[mid].lo && a->keys[mid].hi == b->keys[mid].hi)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Whether a running sequence before this one is going to compute its page i. */
static bool computed_elsewhere(const fx_sched *s, const fx_seq *seq, int32_t i)
{
    for (int32_t r = 0; r < s->n_running && s->running[r] != seq; r++) {
        const fx_seq *o = s->running[r];

        if (o->n_keys > i && o->n_in_tree <= i && (i + 1) * s->page_tokens <= o->n_tokens &&
            o->keys[i].lo == seq->keys[i].lo && o->keys[i].hi == seq->keys[i].hi)
            return true;
    }
    return false;
}

/* Looks up the pages that follow the sequence's own, and leaves those found in its table, though they aren't its
 * yet. Returns up to where it could take them over: where recurrent state is known, and the whole
 * window of a second group; *known: how many there are. */
static int32_t find_prefix(const fx_sched *s, fx_seq *seq, int32_t *known)
{
    int32_t n = seq->n_pages, with = n, share = pages_to_share(s, seq);
    int32_t from = seq->n_behind[1];                 /* the second group is there without a gap */

    for (; n < share; n++) {
        fx_page p = find_page(s, seq, n, parent_at(s, seq, n));

        if (p == FX_PAGE_NONE)
            break;
        *pages_at(s, seq, n) = p;
        if (s->n_groups > 1 && fx_kv_hung(s->kv, p) == FX_PAGE_NONE)
            from = n + 1;
        if ((s->n_groups == 1 || from <= count_behind(s, 1, (n + 1) * s->page_tokens)) &&
            (!s->recurrent || fx_kv_has_snapshot(s->kv, p)))
            with = n + 1;
    }
    *known = n;
    return with;
}

/* The sequence owns its page i, which was found. 'keep': the first whose second group it needs. */
static void take_over(fx_sched *s, fx_seq *seq, int32_t i, int32_t keep)
{
    fx_page p = *pages_at(s, seq, i), hung = i >= keep ? fx_kv_hung(s->kv, p) : FX_PAGE_NONE;

    fx_kv_ref(s->kv, p);
    put_set(s, seq, i, 0, p);
    if (s->n_groups == 1)
        return;
    if (hung != FX_PAGE_NONE)
        fx_kv_ref(s->kv, hung);
    put_set(s, seq, i, 1, hung);
}

/* New pages of all columns at the end of the sequence's table; false: there aren't so many. */
static bool add_pages(fx_sched *s, fx_seq *seq)
{
    if (fx_kv_room(s->kv) < (uint32_t)s->n_columns)
        return false;
    for (int g = 0; g < s->n_groups; g++)
        put_set(s, seq, seq->n_pages, g, fx_kv_take(s->kv, g));
    seq->n_pages++;
    return true;
}

/* The sequence's next page begins with what it has in common with one in the tree. */
static void copy_beginning(fx_sched *s, fx_seq *seq)
{
    int32_t i = seq->n_pages, n = FX_MIN(seq->n_tokens - 1 - seq->n_computed, s->page_tokens), m;
    fx_page from;
    bool copied;

    if (n < least_beginning(s))
        return;
    from = fx_kv_find_beginning(s->kv, seq->scope, parent_at(s, seq, i), units_at(s, seq, i), n, &m);
    if (from == FX_PAGE_NONE || m < least_beginning(s))
        return;
    fx_kv_ref(s->kv, from);              /* else it may be taken for the copy */
    copied = add_pages(s, seq);
    if (copied) {
        fx_kv_copy(s->kv, *pages_at(s, seq, i), from);
        seq->n_computed += m;
    }
    if (copied && fx_kv_ends_at(s->kv, from, m)) {     /* the copy goes on from there, and will serve for both */
        fx_kv_drop_unlikely(s->kv, from);
    } else {
        fx_kv_renew(s->kv, from);
        fx_kv_drop(s->kv, from);
    }
}

/* Takes over whole pages that follow the sequence's own; sets 'waits'. */
static void share_pages(fx_sched *s, fx_seq *seq)
{
    int32_t had = seq->n_pages, known, with, keep;

    if (had >= pages_to_share(s, seq))
        return;
    with = find_prefix(s, seq, &known);
    seq->n_known = known > with ? known : 0;
    seq->waits = known < pages_to_share(s, seq) && computed_elsewhere(s, seq, known);
    if (with == had)
        return;
    keep = s->n_groups > 1 ? count_behind(s, 1, with * s->page_tokens) : 0;
    for (int32_t i = had; i < with; i++)
        take_over(s, seq, i, keep);
    seq->n_pages = seq->n_in_tree = seq->n_found = with;
    seq->n_computed = with * s->page_tokens;
    if (!seq->resumed)
        seq->n_cached += (with - had) * s->page_tokens;
    if (s->n_groups > 1)
        let_go(s, seq, 1, keep);
    if (s->recurrent)
        fx_kv_snapshot_load(s->kv, *pages_at(s, seq, with - 1), seq->slot);
}

static bool at_page_end(const fx_sched *s, const fx_seq *seq) { return seq->n_computed == seq->n_pages * s->page_tokens; }

/* Running sequences take over what others have computed of the rows that follow their own. Copies come last: a page for one might be
 * what another was going to take over. */
static void extend_all(fx_sched *s)
{
    for (int32_t r = 0; r < s->n_running; r++) {
        s->running[r]->waits = false;
        if (s->limits.share && at_page_end(s, s->running[r]))
            share_pages(s, s->running[r]);
    }
    for (int32_t r = 0; r < s->n_running; r++) {
        if (has_beginnings(s) && !s->running[r]->waits && at_page_end(s, s->running[r]))
            copy_beginning(s, s->running[r]);
    }
}

/* ---- Plan: admission --------------------------------------------------------------------- */

/* Whether what the tree has and what others compute will be of use to a sequence: pages behind a
 * window may go, and recurrent state needs a snapshot. */
static bool counts_on_sharing(const fx_sched *s)
{
    return s->limits.share && !s->recurrent && s->groups[0]->window == 0;
}

/* Leading pages that the sequence has in common with running ones before it. */
static int32_t count_common(const fx_sched *s, const fx_seq *seq)
{
    int32_t n = 0;

    for (int32_t r = 0; counts_on_sharing(s) && r < s->n_running && s->running[r] != seq; r++)
        n = FX_MAX(n, FX_MIN(common_pages(seq, s->running[r]), pages_to_share(s, seq)));
    return n;
}

/* Pages that a sequence will still take for the tokens it has, of which 'have' leading ones are there. */
static int64_t claim(const fx_sched *s, const fx_seq *seq, int32_t have)
{
    int64_t all = FX_DIV_UP(seq->n_tokens, s->page_tokens), sum = 0;

    for (int g = 0; g < s->n_groups; g++) {
        int32_t held = s->groups[g]->window > 0 ? seq->n_pages - seq->n_behind[g] : FX_MAX(have, seq->n_pages);

        sum += s->groups[g]->n * FX_MAX(FX_MIN(all, (int64_t)s->peak_pages[g]) - held, 0);
    }
    return sum;
}

/* Leading pages that a waiting sequence would take over; *idle: how many of them nobody uses now. */
static int32_t count_hits(const fx_sched *s, fx_seq *seq, int32_t *idle)
{
    int32_t known, n = counts_on_sharing(s) ? find_prefix(s, seq, &known) : 0;

    *idle = 0;
    for (int32_t i = 0; i < n; i++)
        *idle += fx_kv_refs(s->kv, *pages_at(s, seq, i)) == 0;
    return n;
}

/* Whether there are pages for all its tokens, beside those promised to running
 * sequences and one more in each column for each of these to grow. */
static bool pages_suffice(const fx_sched *s, fx_seq *seq)
{
    int64_t promised = (int64_t)(s->n_running + s->n_following) * s->n_columns;
    int32_t idle, hits = count_hits(s, seq, &idle);

    for (int32_t r = 0; r < s->n_running; r++)
        promised += claim(s, s->running[r], count_common(s, s->running[r]));
    promised += claim(s, seq, FX_MAX(hits, count_common(s, seq))) + (int64_t)idle * s->groups[0]->n;
    return promised <= (int64_t)fx_kv_room(s->kv);
}

static bool admissible(const fx_sched *s, fx_seq *seq)
{
    if (s->n_running + s->n_following + 1 + count_followers(seq) > s->limits.max_batch)
        return false;
    if (s->limits.share && seq->n_tokens >= s->page_tokens)
        key_of(s, seq, seq->n_tokens / s->page_tokens - 1);
    return s->n_running == 0 || pages_suffice(s, seq);
}

/* Only the first that waits is looked at, so that nobody overtakes it for ever. It may
 * displace running sequences of lower priority. */
static void admit(fx_sched *s)
{
    while (s->first) {
        fx_seq *seq = s->first;

        if (admissible(s, seq)) {
            stop_waiting(s, seq);
            s->n_following += count_followers(seq);
            start_running(s, seq);
        } else if (s->n_running > 0 && s->running[s->n_running - 1]->priority < seq->priority) {
            fx_sched_preempt(s, s->running[s->n_running - 1]);
        } else {
            return;
        }
    }
}

/* ---- Forks ------------------------------------------------------------------------------- */

/* The sequence shares the leader's page i. */
static void share_page(fx_sched *s, const fx_seq *leader, fx_seq *seq, int32_t i)
{
    for (int g = 0; g < s->n_groups; g++)
        if (i >= leader->n_behind[g])
            fx_kv_ref(s->kv, *set_at(s, leader, i, g));
    memcpy(pages_at(s, seq, i), pages_at(s, leader, i), (size_t)s->n_columns * sizeof(fx_page));
}

/* Gives a follower the leader's prompt but its last token, which it computes itself for
 * its own row of logits: whole pages are shared, those of that token are copied.
 * Without pages for the copy it waits like any other. */
static void fork_from(fx_sched *s, fx_seq *leader, fx_seq *seq)
{
    int32_t last = seq->n_prompt - 1, whole = last / s->page_tokens;

    stop_following(s, seq);
    seq->n_pages = whole;
    if (last % s->page_tokens != 0) {
        if (!add_pages(s, seq)) {
            seq->n_pages = 0;
            wait_in_order(s, seq);
            return;
        }
        for (int g = 0; g < s->n_groups; g++)
            fx_kv_copy(s->kv, *set_at(s, seq, whole, g), *set_at(s, leader, whole, g));
    }
    for (int32_t i = 0; i < whole; i++)
        share_page(s, leader, seq, i);
    for (int g = 0; g < s->n_groups; g++)
        seq->n_behind[g] = FX_MIN(leader->n_behind[g], whole);
    seq->n_computed = last;
    seq->n_found = FX_MIN(leader->n_found, whole);
    seq->n_in_tree = s->limits.share ? whole : 0;
    seq->resumed = true;                 /* what it finds from here on was not found for the prompt */
    start_running(s, seq);
    if (s->recurrent && last > 0)
        memcpy(seq->slot, leader->slot, fx_kv_slot_bytes(s->kv));
}

/* With recurrent state: choices fork when their leader has all of the prompt but its last token. */
static void fork_all(fx_sched *s)
{
    for (int32_t r = 0; s->recurrent && r < s->n_running; r++) {
        fx_seq *seq = s->running[r];

        while (seq->followers && seq->n_computed == seq->n_prompt - 1)
            fork_from(s, seq, seq->followers);
    }
}

/* ---- Plan: rows --------------------------------------------------------------------------- */

static int32_t rows_left(const fx_seq *seq)
{
    return seq->n_tokens - seq->n_computed;
}

/* What a chunk may have: with recurrent state, a leader stops where its followers fork. */
static int32_t rows_allowed(const fx_sched *s, const fx_seq *seq)
{
    bool forks = s->recurrent && seq->followers && seq->n_computed < seq->n_prompt - 1;

    return FX_MIN(forks ? seq->n_prompt - 1 - seq->n_computed : rows_left(seq), s->limits.prefill_chunk);
}

/* The prompt with the fewest rows left that has no allotment yet. */
static fx_seq *shortest_unallotted(const fx_sched *s)
{
    fx_seq *best = NULL;

    for (int32_t r = 0; r < s->n_running; r++) {
        fx_seq *seq = s->running[r];

        if (seq->want == 0 && !seq->waits && (!best || rows_left(seq) < rows_left(best)))
            best = seq;
    }
    return best;
}

static void allot(fx_sched *s)
{
    int32_t budget = s->limits.step_tokens, prompts = 0;
    fx_seq *head = NULL;

    for (int32_t r = 0; r < s->n_running; r++) {
        fx_seq *seq = s->running[r];

        seq->want = !seq->waits && rows_left(seq) == 1;
        budget -= seq->want;
        if (seq->waits || seq->want)
            continue;
        prompts++;
        if (!head)
            head = seq;
    }
    if (head && budget > 0) {
        int32_t share = prompts > 1 ? FX_MAX(budget - budget / 4, 1) : budget;

        head->want = FX_MIN(share, rows_allowed(s, head));
        budget -= head->want;
    }
    while (budget > 0) {
        fx_seq *seq = shortest_unallotted(s);

        if (!seq)
            break;
        seq->want = FX_MIN(budget, rows_allowed(s, seq));
        budget -= seq->want;
    }
    if (head && budget > 0)              /* nobody else needed it */
        head->want = FX_MIN(head->want + budget, rows_allowed(s, head));
}

/* The last in order that holds pages and comes after running[r]; NULL: none. */
static fx_seq *victim_after(const fx_sched *s, int32_t r)
{
    for (int32_t v = s->n_running - 1; v > r; v--)
        if (s->running[v]->n_pages > 0)
            return s->running[v];
    return NULL;
}

/* Pages for the rows that running[r] wants; returns the rows it gets. */
static int32_t reserve(fx_sched *s, int32_t r)
{
    fx_seq *seq = s->running[r];
    int32_t need = FX_DIV_UP(seq->n_computed + seq->want, s->page_tokens);

    while (seq->n_pages < need) {
        fx_seq *victim = add_pages(s, seq) ? seq : victim_after(s, r);

        if (!victim)
            break;
        if (victim != seq)
            fx_sched_preempt(s, victim);
    }
    return FX_MIN(seq->want, seq->n_pages * s->page_tokens - seq->n_computed);
}

/* Whether someone is likely to fork from this sequence at the end of page i. */
static bool is_fork(const fx_sched *s, const fx_seq *seq, int32_t i)
{
    if (i + 1 == (seq->n_prompt - 1) / s->page_tokens || i + 1 == seq->n_known)
        return true;
    for (int32_t r = 0; r < s->n_running; r++) {
        const fx_seq *o = s->running[r];

        if (o != seq && o->waits && i + 1 == FX_MIN(common_pages(seq, o), pages_to_share(s, o)))
            return true;
    }
    return false;
}

/* A place for a snapshot at the end of the sequence's page i that is likely to be of use; NULL
 * elsewhere. Of an answer the newest is, and where there is no room it takes the place of the one before. */
static uint8_t *likely_snapshot(fx_sched *s, fx_seq *seq, int32_t i)
{
    uint8_t *snapshot = NULL;

    if ((i - 1) * s->page_tokens >= seq->n_prompt) {
        snapshot = fx_kv_snapshot_take(s->kv, false);
        snapshot = snapshot ? snapshot : fx_kv_snapshot_detach(s->kv, *pages_at(s, seq, i - 1));
    } else if (i * s->page_tokens < seq->n_prompt && !is_fork(s, seq, i)) {
        return NULL;
    }
    return snapshot ? snapshot : fx_kv_snapshot_take(s->kv, true);
}

/* Where the next rows' page ends leave their snapshots. */
static void plan_snapshots(fx_sched *s, fx_seq *seq, int32_t rows)
{
    int32_t first = seq->n_computed / s->page_tokens, end = (seq->n_computed + rows) / s->page_tokens;
    uint8_t **at = s->snapshots + s->n_snapshots;

    if (end > first)
        key_of(s, seq, end - 1);
    FX_ASSERT(s->n_snapshots + end - first <= s->most_snapshots);
    for (int32_t i = first; i < end; i++)
        at[i - first] = likely_snapshot(s, seq, i);
    for (int32_t i = first; i < end; i++)
        at[i - first] = at[i - first] ? at[i - first] : fx_kv_snapshot_take(s->kv, false);
    s->n_snapshots += end - first;
}

static void add_item(fx_sched *s, fx_seq *seq, int32_t rows)
{
    fx_sched_item *item = &s->items[s->n_items];
    fx_step *step = &s->step;

    *item = (fx_sched_item){ .seq = seq, .n_rows = rows, .logit = -1 };
    s->step_seqs[s->n_items] = (fx_step_seq){
        .row0 = step->n_rows, .n_rows = rows, .pos0 = seq->n_computed, .pages = seq->pages,
        .adapter = seq->adapter ? s->n_items : -1,
        .length_class = seq->length_class, .slot = seq->slot,
    };
    s->adapters[s->n_items] = seq->adapter;
    if (seq->adapter)
        step->adapters = s->adapters;
    if (s->recurrent && s->limits.share) {
        s->step_seqs[s->n_items].snapshots = s->snapshots + s->n_snapshots;
        plan_snapshots(s, seq, rows);
    }
    for (int32_t i = 0; i < rows; i++) {
        s->token[step->n_rows + i] = seq->tokens[seq->n_computed + i];
        s->pos[step->n_rows + i] = seq->n_computed + i;
        s->row_seq[step->n_rows + i] = s->n_items;
    }
    step->n_rows += rows;
    if (seq->wants_logits && seq->n_computed + rows == seq->n_tokens) {
        item->logit = step->n_logits;
        s->logit_rows[step->n_logits++] = step->n_rows - 1;
    }
    step->n_seqs = ++s->n_items;
}

const fx_step *fx_sched_plan(fx_sched *s)
{
    s->n_items = s->n_snapshots = 0;
    s->step = (fx_step){
        .token = s->token, .pos = s->pos, .seq = s->row_seq, .seqs = s->step_seqs, .logit_rows = s->logit_rows,
        .kv = fx_kv_base(s->kv), .page_bytes = fx_kv_page_bytes(s->kv), .page_tokens = s->page_tokens,
        .n_columns = s->n_columns,
    };
    admit(s);
    extend_all(s);
    fork_all(s);
    for (int32_t r = 0; r < s->n_running; r++)
        drop_behind(s, s->running[r]);
    allot(s);
    for (int32_t r = 0; r < s->n_running; r++) {
        int32_t rows = s->running[r]->want > 0 ? reserve(s, r) : 0;

        if (rows > 0)
            add_item(s, s->running[r], rows);
    }
    return s->n_items > 0 ? &s->step : NULL;
}

/* ---- Commit ---------------------------------------------------------------------------------- */

/* The sequence's page i, full and computed, goes into the tree. */
static void publish_page(fx_sched *s, fx_seq *seq, int32_t i)
{
    put_set(s, seq, i, 0, fx_kv_insert(s->kv, seq->scope, parent_at(s, seq, i), key_of(s, seq, i), units_at(s, seq, i),
                                       *set_at(s, seq, i, 0)));
    if (s->n_groups > 1)
        put_set(s, seq, i, 1, fx_kv_hang(s->kv, *set_at(s, seq, i, 0), *set_at(s, seq, i, 1)));
}

/* The pages that the step completed, with the snapshots it wrote. */
static void publish_full_pages(fx_sched *s, fx_seq *seq, uint8_t *const *snapshots)
{
    while (s->limits.share && (seq->n_in_tree + 1) * s->page_tokens <= seq->n_computed) {
        publish_page(s, seq, seq->n_in_tree);
        if (snapshots && *snapshots)
            fx_kv_snapshot_attach(s->kv, *pages_at(s, seq, seq->n_in_tree), *snapshots);
        snapshots += snapshots != NULL;
        seq->n_in_tree++;
    }
}

void fx_sched_commit(fx_sched *s)
{
    for (int32_t i = 0; i < s->n_items; i++) {
        fx_seq *seq = s->items[i].seq;

        seq->n_computed += s->items[i].n_rows;
        publish_full_pages(s, seq, s->step_seqs[i].snapshots);
        while (!s->recurrent && seq->followers && seq->n_computed >= seq->n_prompt)
            fork_from(s, seq, seq->followers);
    }
}

/* ---- Self-check --------------------------------------------------------------------------------- */

static void check_seq(const fx_sched *s, const fx_seq *seq)
{
    FX_ASSERT(seq->n_computed <= seq->n_tokens && seq->n_tokens <= seq->cap);
    FX_ASSERT(seq->n_computed <= seq->n_pages * s->page_tokens);
    FX_ASSERT(seq->n_in_tree * s->page_tokens <= seq->n_computed);
    FX_ASSERT((seq->slot != NULL) == s->recurrent);
    for (int g = 0; g < s->n_groups; g++) {
        FX_ASSERT(seq->n_behind[g] <= seq->n_pages && seq->n_pages - seq->n_behind[g] <= s->peak_pages[g]);
        for (int32_t i = 0; i < seq->n_pages; i++) {
            fx_page p = *set_at(s, seq, i, g);

            FX_ASSERT(i < seq->n_behind[g] ? p == FX_PAGE_NONE : fx_kv_refs(s->kv, p) > 0);
        }
    }
}

void fx_sched_check(const fx_sched *s)
{
    int32_t n = 0;

    fx_kv_check(s->kv);
    FX_ASSERT(s->n_running + s->n_following <= s->limits.max_batch);
    for (int32_t r = 0; r < s->n_running; r++) {
        FX_ASSERT(s->running[r]->state == FX_SEQ_RUNNING);
        FX_ASSERT(r == 0 || before(s->running[r - 1], s->running[r]));
        check_seq(s, s->running[r]);
    }
    for (const fx_seq *q = s->first; q; q = q->next, n++) {
        FX_ASSERT(q->state == FX_SEQ_WAITING && q->n_pages == 0 && q->n_computed == 0 && !q->slot);
        FX_ASSERT(!q->next || before(q, q->next));
    }
    FX_ASSERT(n == s->n_waiting);
}
