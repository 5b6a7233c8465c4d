/* gram_int.h - a grammar inside: its nodes, which never change once it is finished, and its run
 * (run.h), which grows as matchers go on. */
#ifndef FX_GRAMMAR_GRAM_INT_H
#define FX_GRAMMAR_GRAM_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "grammar/gram.h"
#include "grammar/names.h"

typedef struct fx_run fx_run;

typedef enum fx_gkind {
    FX_G_NEVER,
    FX_G_EMPTY,
    FX_G_LEXEME,                /* a: expression */
    FX_G_TOKEN,                 /* a: id */
    FX_G_SEQ,                   /* a: first kid, b: how many */
    FX_G_ALT,
    FX_G_REPEAT,                /* a: kid; b: min, c: max */
    FX_G_RULE,                  /* a: body, or FAIL while undefined; b: index of its name */
    FX_G_OBJECT,                /* a: index */
    FX_G_ARRAY
} fx_gkind;

typedef struct fx_gnode_data {
    uint8_t kind;
    bool productive;            /* it matches something */
    bool nullable;              /* it matches the empty string */
    uint32_t a, b, c;
} fx_gnode_data;

/* The lexemes between an object's or array's parts. */
typedef struct fx_gpunct {
    fx_re open_object, close_object, empty_object;      /* empty_*: the closing one right after the opening one */
    fx_re open_array, close_array, empty_array;
    fx_re comma, colon;
} fx_gpunct;

typedef struct fx_gobject {
    size_t n;
    fx_str *names;              /* sorted */
    fx_gnode *values;           /* NEVER: forbidden */
    uint32_t *place;            /* in declared order, by sorted index */
    uint32_t *by_place;         /* the other way round */
    uint64_t *required, *allowed;   /* subsets, by sorted index */
    fx_names *dict;
    size_t n_others;
    fx_gram_names *others;      /* name: inside of the string, declared ones taken out */
    uint32_t min, max;
    uint32_t marks;
    bool any_order;
    fx_gpunct punct;
} fx_gobject;

typedef struct fx_garray {
    size_t n_prefix;
    fx_gnode *prefix;
    fx_gnode rest;
    uint32_t min, max;
    bool has_contains, unique;
    bool exact;                 /* unique: expressions alone keep values apart, and there are more than may come */
    fx_gram_contains contains;
    fx_gpunct punct;
} fx_garray;

struct fx_gram {
    const fx_mem *mem;
    fx_gram_limits limits;
    fx_re_pool *pool;
    fx_arena arena;
    FX_VEC(fx_gnode_data) nodes;
    FX_VEC(fx_gnode) kids;
    FX_VEC(fx_str) rule_names;
    FX_VEC(fx_gobject) objects;
    FX_VEC(fx_garray) arrays;
    fx_gnode root;
    atomic_uint refs;
    pthread_mutex_t lock;       /* of 'run' and the pool */
    fx_run *run;
};

/* Takes left recursion out ('again': fails where there is some left); needs 'nullable' to be known; gram_left.c. */
fx_status fx_gram_unleft(fx_gram *g, bool again, fx_error *err);
/* How many members of the others it takes at least to bring the marks; UINT32_MAX: they can't be. */
uint32_t fx_gobject_owed(const fx_gram *g, const fx_gobject *o, uint32_t marks);
/* Marks what matches something, and what matches nothing is taken out; gram_check.c. */
fx_status fx_gram_check(fx_gram *g, fx_error *err);

#endif
