/* run.h - a grammar being matched: places in it, made lazily and shared by all its matchers.
 *
 * A thread is (expression that is being matched, frame: what to do when it is done).  A frame names its
 * parent, so a whole stack is one number; equal stacks are the same number.  Where several stacks go
 * on alike but for their parents, the parent is a union of frames.  A place is a set of threads, and whether
 * the text may end here; places are interned too, so that a step is a lookup once it was made.
 *
 * What a place can't know is the text that led to it: which free name a key had, which values an array
 * has seen.  Such a frame is 'pending' right after the name or value, until fx_run_settle is told the text.
 *
 * Threads: under the grammar's lock. */
#ifndef FX_GRAMMAR_RUN_H
#define FX_GRAMMAR_RUN_H

#include "grammar/gram_int.h"
#include "grammar/regex_int.h"

typedef uint32_t fx_place;
#define FX_PLACE_DEAD ((fx_place)0)         /* no thread, no end */
#define FX_PLACE_ENDED ((fx_place)1)        /* after the end token */
#define FX_PLACE_FAIL ((fx_place)UINT32_MAX)    /* memory or a limit ran out */

#define FX_FRAME_END 0u                     /* below the root: the text may end */
#define FX_FRAME_UNION UINT32_MAX           /* 'node' of a union: r[0] members from r[1] on in 'lists' */
#define FX_PENDING 0x80000000u              /* in r[2]: a name or value isn't known yet */
#define FX_THREAD_TOKEN 0x80000000u         /* in 're': a special token's id instead */

typedef enum fx_phase {
    FX_PH_OPEN,                 /* the opening bracket */
    FX_PH_KEY,                  /* a declared name */
    FX_PH_NAMED,                /* just after it; r[3]: which */
    FX_PH_FREE,                 /* a free name; r[3]: its class */
    FX_PH_COLON,                /* r[3]: which name, or n + class */
    FX_PH_VALUE,                /* a member's or item's value */
    FX_PH_COMMA,
    FX_PH_CLOSE
} fx_phase;

/* Registers: object: r[0] names seen (a view of its dictionary, or the next place in declared order), r[1] members,
 * r[2] free names used, r[3] as above, r[4] marks that came.  array: r[0] items, r[1] that match
 * 'contains', r[2] values seen. */
typedef struct fx_frame {
    uint32_t node;
    uint32_t phase;             /* or the position in a sequence, or the count of a repeat */
    uint32_t r[5];
    uint32_t parent;
    uint32_t closed;            /* the place that returning here leads to, + 1; 0: not made */
    uint32_t depth;
} fx_frame;

typedef struct fx_thread {
    fx_re re;
    uint32_t frame;
} fx_thread;

enum {
    FX_SET_ACCEPT = 1,          /* the text may end */
    FX_SET_PENDING = 2,         /* a thread's frame is pending */
    FX_SET_REFUSES = 4,         /* and settling may refuse it */
    FX_SET_NEEDS_TEXT = 8,      /* made from a pending frame whose text matters: settle first */
    FX_SET_ENDED = 16           /* it has ended: behind an end token nothing comes, not another one either */
};

typedef struct fx_set {
    uint32_t first, n;          /* in 'threads' */
    uint32_t flags;
    uint32_t hash;
} fx_set;

typedef struct fx_step_slot {
    uint64_t key;               /* place << 8 | byte, + 1; 0: free */
    fx_place to;
} fx_step_slot;

typedef struct fx_used_list fx_used_list;

typedef struct fx_visit {
    uint64_t item, closure;
} fx_visit;

struct fx_run {
    fx_gram *g;
    const fx_mem *mem;
    uint32_t refs;              /* matchers on it, and the grammar while it is the current one */
    fx_re_pool *pool;           /* a copy of the grammar's, that grows */
    bool failed;
    bool has_unique;            /* some array's items must differ */
    fx_arena arena;             /* rows, texts */
    FX_VEC(uint32_t *) rows;    /* by expression: 256 derivatives each, FX_RE_FAIL: not made; NULL: none made */
    FX_VEC(uint8_t) ends;       /* by expression: 1: may go on, 2: is only the empty string; 0: not known */
    FX_VEC(uint8_t) covers;     /* by expression: 1: holds every interior character, 2: doesn't; 0: not known */
    fx_re interior;             /* one interior character (gvocab.h); 0: not made */
    FX_VEC(fx_frame) frames;
    FX_VEC(uint32_t) lists;     /* members of unions */
    uint32_t *frame_table;
    size_t frame_cap;
    FX_VEC(fx_set) sets;
    FX_VEC(fx_thread) threads;
    uint32_t *set_table;
    size_t set_cap;
    fx_step_slot *steps;
    size_t step_cap, n_steps;
    FX_VEC(fx_thread) scratch;  /* threads of the places being made, from the bottom up */
    FX_VEC(uint64_t) work;      /* of closures */
    fx_visit *visited;          /* items of closures, open addressing; only those of the current one count */
    size_t visited_cap;
    uint64_t closure;           /* the current one */
    uint32_t n_joins;           /* frames put together for the place being made */
    uint64_t *view;             /* room for a subset of the largest object's names */
    size_t view_words;
    struct fx_used *used;       /* used.c */
    struct fx_walks *walks;     /* mask.c: one a vocabulary */
    fx_place start;
};

fx_status fx_run_new(fx_run **out, fx_gram *g, fx_error *err);
/* The grammar's run, or a new one where that has grown large or failed; counted. These two lock. */
fx_status fx_run_take(fx_run **out, fx_gram *g, fx_error *err);
void fx_run_drop(fx_run *r);
void fx_run_free(fx_run *r);
size_t fx_run_bytes(const fx_run *r);

/* Lexer: the derivative, or FX_RE_NONE where nothing can follow; FX_RE_FAIL. */
fx_re fx_run_fill(fx_run *r, fx_re re, unsigned char byte);
static inline fx_re fx_run_next(fx_run *r, fx_re re, unsigned char byte)
{
    const uint32_t *row = re < r->rows.n ? r->rows.at[re] : NULL;

    return row && row[byte] != FX_RE_FAIL ? row[byte] : fx_run_fill(r, re, byte);
}
bool fx_run_goes_on(fx_run *r, fx_re re);       /* more than the empty string is in it */

/* Where a thread of 'frame' leads when its expression, now 're', is done. */
fx_place fx_run_return(fx_run *r, uint32_t frame, fx_re re);
fx_place fx_run_step(fx_run *r, fx_place at, unsigned char byte);
fx_place fx_run_token(fx_run *r, fx_place at, int32_t id);
fx_place fx_run_join(fx_run *r, fx_place x, fx_place y);     /* in one or the other */
/* 'at' with the JSON value that ends 'text' known. FX_PLACE_DEAD: it may not come again. */
fx_place fx_run_settle(fx_run *r, fx_place at, fx_str text);

static inline const fx_set *fx_run_set(const fx_run *r, fx_place at) { return &r->sets.at[at]; }

/* used.c: lists of names and values that came. */
struct fx_used *fx_used_new(const fx_mem *mem);
void fx_used_free(struct fx_used *u);
size_t fx_used_bytes(const struct fx_used *u);
#define FX_USED_FAIL UINT32_MAX
/* The list with 'text' (canonical) added; *again: it is in it. 0 is the empty list. */
uint32_t fx_used_add(struct fx_used *u, uint32_t list, fx_str text, bool *again);
/* All spellings of the names on the list; of the values (scalars only; their usual spellings). */
fx_re fx_used_names(struct fx_used *u, fx_re_pool *p, uint32_t list);
fx_re fx_used_values(struct fx_used *u, fx_re_pool *p, uint32_t list);

/* canon.c: a JSON value so that equal values have equal text. false: not JSON, or no memory. */
bool fx_json_canon(fx_buf *out, fx_str json, int depth);
/* The JSON value that 'text' ends with (a string, number, word, object or array). */
fx_str fx_json_last(fx_str text);

#endif
