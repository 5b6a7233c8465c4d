/* sched.h - which rows of which sequences the next step computes.
 *
 * Owns the order of sequences (waiting, running) and their pages; knows nothing of
 * sampling, text or requests (engine/).  A step is one ragged batch: decode rows of all
 * running sequences first, the rest of the row budget for prompt chunks.
 *
 *     fx_sched_add(s, &seq);                   waits until pages and a place are there
 *     const fx_step *step = fx_sched_plan(s);  NULL: nothing to do
 *     ... run the model over step ...
 *     fx_sched_commit(s);                      pages that became full may be found by others
 *     for each s->items[i] with logit >= 0: sample; fx_sched_push(s, seq, token) or
 *     fx_sched_remove(s, seq)
 *
 * Order: higher priority, then earlier arrival, then lower choice.  When pages run out,
 * the last running sequence in that order is preempted: it gives back its pages and
 * waits again, to be recomputed (its full pages stay in the prefix tree, so that
 * usually costs little).  The first in order can therefore always go on.
 *
 * Sharing: before a sequence computes a page, it looks for it in the tree; if a running
 * sequence before it is computing the same page, it waits for that. Of a page that only begins
 * like its own, the beginning is copied; a sequence that ends, or is preempted, leaves the page
 * that it was in, too (not with windows or recurrent state).  Further choices of one
 * prompt (fx_sched_follow) wait for the leader's prompt and fork from its pages.
 *
 * Windows: of layers that read no further back than a window, the pages behind it are let go of
 * as the sequence grows.  So a prefix is taken over only up to a page end before which all of their
 * window is there.
 *
 * Recurrent state: a running sequence has a slot (kv.h), which holds the state of exactly its
 * n_computed tokens.  So a prefix is taken over up to a page end that has a snapshot, which is
 * copied to the slot; steps are asked to write snapshots on their way: at every page end while
 * there is room, and rather than older ones where the next request is likely to fork (the prompt's last
 * whole page, the end of what was known or of what another waits for, an answer's newest page).
 * Choices of one prompt fork before its last token.
 *
 * Threads: one owner (the engine's step). */
#ifndef FX_SCHED_H
#define FX_SCHED_H

#include "kv/kv.h"

typedef enum fx_seq_state {
    FX_SEQ_IDLE,              /* not the scheduler's */
    FX_SEQ_WAITING,
    FX_SEQ_FOLLOWING,         /* waits for its leader's prompt; has a place while the leader runs */
    FX_SEQ_RUNNING
} fx_seq_state;

typedef struct fx_seq fx_seq;
struct fx_seq {
    /* Set by the owner; the arrays are the owner's and hold cap tokens, or pages of them. */
    int32_t *tokens;          /* [cap] prompt and generated */
    fx_page *pages;           /* [FX_DIV_UP(cap, page_tokens)][columns], as in rows.h */
    fx_hash128 *keys;         /* [FX_DIV_UP(cap, page_tokens)] of full pages */
    int32_t cap, n_prompt, n_tokens;
    int32_t length_class;     /* rows.h; the scope must tell it too */
    int32_t priority, choice;
    uint64_t arrival;
    bool wants_logits;        /* false: the tokens are computed and that's all */
    fx_kv_scope *scope;       /* joined */
    const fx_adapter *adapter;   /* NULL: none; the scope must tell it too */
    void *owner;
    /* The scheduler's. */
    fx_seq_state state;
    bool resumed;             /* was preempted or forked: n_cached is settled */
    bool waits;               /* for a page that another computes */
    int32_t n_pages, n_keys;  /* pages: in each column */
    int32_t n_behind[FX_STATE_GROUPS];   /* leading pages that were let go of: FX_PAGE_NONE */
    int32_t n_found;          /* leading pages that were taken over whole from the tree */
    int32_t n_known;          /* leading pages found in the tree, though it couldn't go on behind them */
    uint8_t *slot;            /* while it runs, if the model has recurrent state */
    int32_t n_computed;       /* tokens whose state lies in the pages */
    int32_t n_in_tree;        /* leading pages that are in the tree */
    int32_t n_cached;         /* tokens of whole pages found rather than computed, when first admitted */
    int32_t want;             /* rows wished for this step */
    fx_seq *prev, *next;      /* waiting list */
    fx_seq *leader, *followers, *next_follower;
};

typedef struct fx_sched_limits {
    int32_t max_batch;        /* sequences running at once, 1..step_tokens */
    int32_t step_tokens;      /* rows of a step */
    int32_t prefill_chunk;    /* most rows of one sequence in a step */
    bool share;               /* use the prefix tree */
} fx_sched_limits;

typedef struct fx_sched_item {
    fx_seq *seq;
    int32_t n_rows;
    int32_t logit;            /* row of the step's logits, or -1 */
} fx_sched_item;

typedef struct fx_sched {
    const fx_mem *mem;
    fx_kv *kv;
    fx_sched_limits limits;
    int32_t page_tokens, n_columns;
    int n_groups;
    const fx_state_group *groups[FX_STATE_GROUPS];
    int32_t peak_pages[FX_STATE_GROUPS];   /* a sequence holds no more at once in a column */
    bool recurrent;
    fx_seq *first, *last;     /* waiting, in order */
    int32_t n_waiting;
    fx_seq **running;         /* [max_batch] in order */
    int32_t n_running, n_following;   /* following: with a place */
    fx_sched_item *items;     /* [max_batch] of the step planned last */
    int32_t n_items;
    fx_step step;
    int32_t *token, *pos, *row_seq, *logit_rows;
    int32_t *units;           /* [page_tokens] of a page that isn't full */
    fx_step_seq *step_seqs;
    const fx_adapter **adapters;   /* of the step's sequences */
    uint8_t **snapshots;      /* [most_snapshots] of the step planned last: one a page end, or NULL */
    int32_t n_snapshots, most_snapshots;
    uint64_t preemptions;
} fx_sched;

/* Keeps kv. */
fx_status fx_sched_init(fx_sched *s, const fx_mem *mem, fx_kv *kv, const fx_sched_limits *limits, fx_error *err);
void fx_sched_done(fx_sched *s);

/* The pool must have pages for seq->cap tokens, see fx_sched_pages. */
void fx_sched_add(fx_sched *s, fx_seq *seq);
/* Another choice of leader's prompt; before any plan sees the leader. */
void fx_sched_follow(fx_sched *s, fx_seq *seq, fx_seq *leader);
/* In any state; gives back its pages. */
void fx_sched_remove(fx_sched *s, fx_seq *seq);

/* Pages that a sequence of so many tokens holds at most. */
int64_t fx_sched_pages(const fx_sched *s, int64_t n_tokens);
/* The longest sequence, of at most so many tokens, for which the pool is large enough. */
int64_t fx_sched_longest(const fx_sched *s, int64_t n_tokens);

const fx_step *fx_sched_plan(fx_sched *s);
void fx_sched_commit(fx_sched *s);
/* Appends a token to a sequence that had its logits in this step. Several may come in a row: the next
 * step computes them like a prompt, and has logits for the last. */
void fx_sched_push(fx_sched *s, fx_seq *seq, int32_t token);
/* Gives back the sequence's pages and lets it wait again. */
void fx_sched_preempt(fx_sched *s, fx_seq *seq);
void fx_sched_check(const fx_sched *s);

#endif
