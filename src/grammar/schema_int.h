/* schema_int.h - what the files of the JSON Schema compiler share.
 *
 * A schema becomes *nodes*: Boolean formulas over places of the schema text, hash-consed (schema_ir.c).
 * Expanding a node gives its *split*: for each JSON type the values that satisfy it.  Scalars are closed
 * under and/or/not; arrays and objects are unions of records whose children are nodes again.  So allOf,
 * $ref beside keywords, not, oneOf and if are the same three operations everywhere (schema_merge.c,
 * schema_not.c), and recursion ends because equal formulas are the same node.
 *
 *     text -> fx_jv tree -> reference index -> nodes <-> splits -> grammar nodes
 *     schema_json    schema_refs         schema_ir, _keywords, ...    schema_emit
 *
 * The first fault is kept in c->st and *c->err; functions then return false, NULL or FX_SN_FALSE, and a
 * caller needs to look at c->st only before it draws conclusions. */
#ifndef FX_GRAMMAR_SCHEMA_INT_H
#define FX_GRAMMAR_SCHEMA_INT_H

#include "grammar/schema.h"

/* ---- the text as a tree (schema_json.c) ------------------------------------------ */

typedef enum fx_jtype { FX_JNULL, FX_JBOOL, FX_JNUMBER, FX_JSTRING, FX_JARRAY, FX_JOBJECT } fx_jtype;

typedef struct fx_jv fx_jv;
struct fx_jv {
    fx_jtype type;
    bool boolean;
    uint32_t n;                 /* items or members */
    fx_str text;                /* a string, decoded; a number's spelling */
    fx_jv *items;               /* items, or the values of members */
    fx_str *keys;               /* of members, in order */
    fx_jv *parent;
    uint32_t at;                /* place in the parent */
    uint32_t resource;          /* of the reference index, from 1; 0: not walked */
};

/* Strict RFC 8259; at most 256 levels; no name twice.  'name' begins messages.  Strings borrow from text. */
fx_status fx_jv_parse(fx_jv **out, fx_arena *a, const fx_mem *mem, fx_str text, const char *name, fx_error *err);
fx_jv *fx_jv_get(const fx_jv *object, fx_str key);      /* NULL: not an object, or no such member */
void fx_jv_pointer(fx_buf *out, const fx_jv *v);        /* "#/a/0" */

/* ---- numbers (schema_number*.c) ----------------------------------------------------- */

typedef struct fx_dec {         /* +-0.d1d2..dn * 10^e, no zeros at either end; n 0: zero */
    bool neg;
    uint32_t n;
    const char *d;
    int64_t e;
} fx_dec;

typedef struct fx_numrec {      /* numbers in an interval, multiples of all of mult, of none of nmult */
    bool has_lo, has_hi, lo_ex, hi_ex;
    bool whole;                 /* spelled without point and exponent: "integer" of draft 4 */
    fx_dec lo, hi;
    const fx_dec *mult, *nmult, *ex;    /* ex: values left out */
    uint32_t n_mult, n_nmult, n_ex;
} fx_numrec;

typedef struct fx_snum {        /* the union of records and of values */
    const fx_numrec *recs;
    const fx_dec *fin;          /* sorted, each once */
    uint32_t n_recs, n_fin;
} fx_snum;

typedef struct fx_sstr {        /* the union of a language (of the inside, JSON spelling) and of texts */
    fx_re gen;
    const fx_str *fin;          /* decoded, sorted, each once */
    uint32_t n_fin;
} fx_sstr;

/* ---- nodes, records, splits ------------------------------------------------------- */

typedef uint32_t fx_sn;
#define FX_SN_FALSE ((fx_sn)0)
#define FX_SN_TRUE ((fx_sn)1)
#define FX_S_INF UINT32_MAX

typedef struct fx_scontains {   /* between min and max of the items from index 'from' on match */
    fx_sn node;
    uint32_t min, max, from;
} fx_scontains;

typedef struct fx_arec {        /* arrays */
    const fx_sn *prefix;
    uint32_t n_prefix;
    fx_sn rest;
    uint32_t min, max;
    const fx_scontains *contains;
    uint32_t n_contains;
    bool unique;
    uint32_t seen_prefix;       /* evaluated items: the first ones (INF: all), and those that match ... */
    const fx_sn *seen_contains;
    uint32_t n_seen_contains;
} fx_arec;

typedef struct fx_sprop {
    fx_str name;
    fx_sn value;                /* FX_SN_FALSE: forbidden */
    bool required;
    bool seen;                  /* evaluated */
} fx_sprop;
typedef struct fx_sclass {      /* names that aren't declared; those of no class are forbidden */
    fx_re name;
    fx_sn value;
} fx_sclass;
typedef struct fx_ssome {       /* some member whose name is in 'name' has a value of 'value' */
    fx_re name;
    fx_sn value;
} fx_ssome;
typedef struct fx_orec {        /* objects */
    const fx_sprop *props;
    const uint32_t *by_name;    /* props sorted by name */
    uint32_t n_props;
    const fx_sclass *classes;   /* disjoint */
    uint32_t n_classes;
    const fx_ssome *some;
    uint32_t n_some;
    uint32_t min, max;
    fx_re seen;                 /* evaluated names, besides the props so marked */
    bool saw;                   /* it was asked what is evaluated */
    uint64_t must;              /* a bit for each required name, by its hash */
} fx_orec;

typedef struct fx_split {
    bool null;
    uint8_t bools;              /* bit 0: false, bit 1: true */
    fx_snum num;
    fx_sstr str;
    const fx_arec *const *arr;
    const fx_orec *const *obj;
    uint32_t n_arr, n_obj;
} fx_split;

typedef enum fx_snkind { FX_SNK_FALSE, FX_SNK_TRUE, FX_SNK_ATOM, FX_SNK_CONST, FX_SNK_NOT, FX_SNK_AND, FX_SNK_OR } fx_snkind;
typedef struct fx_snode {
    fx_snkind kind;
    uint32_t scope;             /* of an atom */
    const fx_jv *jv;            /* of an atom or constant */
    const fx_sn *kids;
    uint32_t n_kids;
    const fx_split *split;      /* made when asked for */
    fx_sn left, right;          /* of which it was combined */
    bool emitting;
    uint8_t empty;              /* 0: not looked at, 1: yes, 2: not known to be */
    fx_gnode g, rule;           /* emitted; FX_GNODE_FAIL: not yet */
} fx_snode;

/* ---- the compiler ------------------------------------------------------------------- */

typedef enum fx_dialect { FX_D4 = 1, FX_D6 = 2, FX_D7 = 4, FX_D2019 = 8, FX_D2020 = 16 } fx_dialect;

typedef struct fx_sresource {   /* a document, or a part of one with an $id */
    fx_str uri;                 /* absolute, without fragment */
    fx_jv *root;
    fx_dialect dialect;
} fx_sresource;

typedef struct fx_sc {
    const fx_mem *mem;
    fx_arena arena;
    fx_gram_builder *b;
    fx_re_pool *re;
    const fx_schema_options *opt;
    fx_buf *warnings;
    fx_error *err;
    fx_status st;

    FX_VEC(fx_sresource) resources;
    FX_VEC(fx_jv *) documents;
    FX_VEC(fx_str) document_names;
    fx_map by_uri;              /* uri, or uri#anchor -> fx_jv * */
    fx_map dynamic;             /* uri#name of dynamic anchors -> fx_jv * */
    FX_VEC(fx_str) dynamic_names;
    FX_VEC(fx_jv **) scopes;    /* for each dynamic name the outermost place in scope */
    fx_map scope_ids;

    FX_VEC(fx_snode) nodes;
    fx_map node_ids;
    fx_map splits;              /* of (place, scope, wants seen) -> fx_split *, or &in_progress */
    fx_map warned;
    fx_re any_text, any_char;
    size_t re_bytes;            /* of the pool at the beginning */
    const fx_split *all, *none;
    const fx_jv *place;         /* what is being expanded or emitted: for messages */
    size_t work;                /* merges so far */
    int depth, probing;
} fx_sc;

#define FX_S_MAX_NODES 200000u
#define FX_S_MAX_WORK 400000u       /* merges of records */
#define FX_S_MAX_RECORDS 1024u      /* of one type in one split, where it comes from a product */
#define FX_S_MAX_UNION 8192u        /* ... from an enum or anyOf */
#define FX_S_MAX_RE_BYTES ((size_t)8 << 20)    /* of expressions made to compare languages */
#define FX_S_MAX_POOL_BYTES ((size_t)48 << 20)  /* of all expressions, while records are merged */
#define FX_S_MAX_CLASSES 32u
#define FX_S_MAX_DEPTH 400          /* of nested expansions: the C stack */

/* Faults.  The first stays.  'at' and 'kw' (may be NULL) make the pointer. */
bool fx_sc_fail(fx_sc *c, fx_status st, const fx_jv *at, const char *kw, const char *fmt, ...) FX_PRINTF(5, 6);
bool fx_sc_nomem(fx_sc *c);
bool fx_sc_over(fx_sc *c, const char *what);        /* a budget ran out */
bool fx_sc_cannot(fx_sc *c, const char *what);      /* what can't be enforced at the place at hand */
void fx_sc_warn(fx_sc *c, const fx_jv *at, fx_str kw, const char *what);    /* once a keyword */
void *fx_sc_alloc(fx_sc *c, size_t n, size_t each);
#define FX_SC_NEWN(c, type, n) ((type *)fx_sc_alloc((c), (n), sizeof(type)))

/* ---- keywords (schema_keywords.c) --------------------------------------------------- */

#define KEYWORD(id, name, dialects, shape) FX_KW_##id,
typedef enum fx_kw {
#include "grammar/schema_keywords.def"
    FX_KW_COUNT
} fx_kw;
#undef KEYWORD
typedef enum fx_kwshape {
    FX_KWS_ANY, FX_KWS_STRING, FX_KWS_NUMBER, FX_KWS_COUNT, FX_KWS_BOOL, FX_KWS_LIST, FX_KWS_STRINGS, FX_KWS_BOUND,
    FX_KWS_TYPE, FX_KWS_SCHEMA, FX_KWS_SCHEMAS, FX_KWS_SCHEMA_MAP, FX_KWS_ITEMS, FX_KWS_DEPENDS, FX_KWS_NAME_LISTS
} fx_kwshape;
typedef struct fx_kwrow {
    const char *name;
    unsigned dialects;          /* fx_dialect bits in which it means something */
    fx_kwshape shape;
} fx_kwrow;
extern const fx_kwrow fx_kw_rows[FX_KW_COUNT];
/* FX_KW_COUNT: none. */
fx_kw fx_kw_find(fx_str name);

/* The keywords of one place, each checked for its shape; unknown ones were warned of. */
typedef struct fx_skeys {
    const fx_jv *at;
    uint32_t scope;
    fx_dialect dialect;
    const fx_jv *kw[FX_KW_COUNT];
} fx_skeys;

bool fx_sc_keys(fx_sc *c, const fx_jv *at, uint32_t scope, fx_skeys *k);
const fx_split *fx_sc_own(fx_sc *c, const fx_skeys *k, bool seen);          /* what the place says itself */

/* ---- keywords that apply schemas (schema_apply.c, schema_apply_not.c) ----------------- */

const fx_split *fx_sc_in_place(fx_sc *c, const fx_jv *jv, uint32_t scope, bool seen);
const fx_split *fx_sc_except(fx_sc *c, const fx_jv *jv, uint32_t scope);
/* Objects with the names, or without them; other types too if 'others'. */
const fx_split *fx_sc_with_names(fx_sc *c, const fx_str *names, uint32_t n, bool present, bool others);
const fx_split *fx_sc_negation(fx_sc *c, const fx_jv *jv, uint32_t scope);

/* ---- references (schema_refs.c) ------------------------------------------------------ */

bool fx_sc_index(fx_sc *c, fx_str text);            /* reads and indexes the schema: document 0 */
fx_jv *fx_sc_resolve(fx_sc *c, const fx_jv *at, const fx_jv *ref, bool dynamic, uint32_t scope);
uint32_t fx_sc_enter(fx_sc *c, uint32_t scope, const fx_jv *place);      /* the scope inside of it */
void fx_sc_refs_done(fx_sc *c);

/* ---- nodes (schema_ir.c) -------------------------------------------------------------- */

fx_sn fx_sn_place(fx_sc *c, const fx_jv *jv, uint32_t scope);    /* a schema */
fx_sn fx_sn_const(fx_sc *c, const fx_jv *jv);                    /* the value itself */
fx_sn fx_sn_and(fx_sc *c, fx_sn a, fx_sn b);
fx_sn fx_sn_or(fx_sc *c, fx_sn a, fx_sn b);
fx_sn fx_sn_not(fx_sc *c, fx_sn a);
const fx_split *fx_sn_expand(fx_sc *c, fx_sn n);
bool fx_sn_is_empty(fx_sc *c, fx_sn n);             /* false: not, or not known to be */

/* ---- splits (schema_merge.c, schema_not.c) --------------------------------------------- */

bool fx_split_init(fx_sc *c);                       /* c->all, c->none */
fx_split *fx_split_copy(fx_sc *c, const fx_split *s);
const fx_split *fx_split_and(fx_sc *c, const fx_split *a, const fx_split *b);
const fx_split *fx_split_or(fx_sc *c, const fx_split *a, const fx_split *b);
const fx_split *fx_split_not(fx_sc *c, const fx_split *a);
bool fx_split_is_none(const fx_split *s);
bool fx_split_disjoint(fx_sc *c, const fx_split *a, const fx_split *b);     /* proved quickly, or false */
const fx_split *fx_split_const(fx_sc *c, const fx_jv *v);
typedef enum fx_place_how {
    FX_PLACE_PLAIN,
    FX_PLACE_SEEN,              /* with what is evaluated */
    FX_PLACE_NOT                /* its complement */
} fx_place_how;
const fx_split *fx_split_place(fx_sc *c, const fx_jv *jv, uint32_t scope, fx_place_how how);

/* Records: add* drop what is plainly empty and what is there already. */
typedef FX_VEC(const fx_arec *) fx_arecs;
typedef FX_VEC(const fx_orec *) fx_orecs;
bool fx_arecs_add(fx_sc *c, fx_arecs *v, const fx_arec *r);
bool fx_orecs_add(fx_sc *c, fx_orecs *v, const fx_orec *r);
bool fx_split_keep_arrays(fx_sc *c, fx_split *s, fx_arecs *v);              /* moves them into s; frees v */
bool fx_split_keep_objects(fx_sc *c, fx_split *s, fx_orecs *v);
const fx_arec *fx_arec_and(fx_sc *c, const fx_arec *a, const fx_arec *b);   /* NULL: plainly empty */
const fx_orec *fx_orec_and(fx_sc *c, const fx_orec *a, const fx_orec *b);
fx_sn fx_arec_item(const fx_arec *r, uint32_t i);
const fx_arec *fx_arec_any(fx_sc *c);
const fx_orec *fx_orec_any(fx_sc *c);
bool fx_orec_sort(fx_sc *c, fx_orec *r);            /* fills by_name */
const fx_sprop *fx_orec_find(const fx_orec *r, fx_str name);
fx_sn fx_orec_value(fx_sc *c, const fx_orec *r, fx_str name);               /* what a name's value must be */
/* Instead of r->some[at]: one record for each declared member that can be it. */
bool fx_orec_candidates(fx_sc *c, fx_orecs *v, const fx_orec *r, uint32_t at);
fx_orec *fx_orec_copy(fx_sc *c, const fx_orec *r, uint32_t more);           /* room for more props */

/* ---- strings (schema_string.c, schema_format.c) ------------------------------------------ */

fx_sstr fx_sstr_and(fx_sc *c, fx_sstr a, fx_sstr b);
fx_sstr fx_sstr_or(fx_sc *c, fx_sstr a, fx_sstr b);
fx_sstr fx_sstr_not(fx_sc *c, fx_sstr a);
bool fx_sstr_is_none(fx_sc *c, fx_sstr a, size_t budget);       /* false: not, or not within the budget */
bool fx_re_has_text(fx_sc *c, fx_re re, fx_str text);
bool fx_re_empty(fx_sc *c, fx_re re);
fx_re fx_sstr_re(fx_sc *c, fx_sstr s);
fx_re fx_texts_re(fx_sc *c, const fx_str *texts, uint32_t n);   /* sorted */
fx_re fx_re_length(fx_sc *c, uint32_t min, uint32_t max);       /* characters */
fx_re fx_re_minus(fx_sc *c, fx_re a, fx_re b);
bool fx_sc_pattern(fx_sc *c, const fx_jv *at, const char *kw, fx_str pattern, fx_re *out);
void fx_sort_texts(fx_str *texts, uint32_t *n);                 /* and drops what is there twice */
/* false: not known.  Otherwise a language in *re, or a range of integers in *num. */
bool fx_sc_format(fx_sc *c, fx_str name, fx_re *re, const fx_numrec **num);

/* ---- numbers ------------------------------------------------------------------------------ */

bool fx_dec_parse(fx_sc *c, const fx_jv *number, fx_dec *out);
fx_dec fx_dec_trimmed(const char *d, size_t n, int64_t e);      /* without zeros at the ends */
int fx_dec_cmp(fx_dec a, fx_dec b);
fx_dec fx_dec_int(fx_sc *c, int64_t v);
bool fx_dec_count(fx_dec d, uint32_t *out);                     /* a whole number from 0; saturates */
bool fx_dec_ratio(fx_dec m, uint64_t *p, int64_t *s);           /* m = p / 10^s; false: p is too large */
fx_snum fx_snum_and(fx_sc *c, fx_snum a, fx_snum b);
fx_snum fx_snum_or(fx_sc *c, fx_snum a, fx_snum b);
fx_snum fx_snum_not(fx_sc *c, fx_snum a);
fx_snum fx_snum_of(fx_sc *c, const fx_numrec *r);
fx_snum fx_snum_all(fx_sc *c);
fx_snum fx_snum_integers(fx_sc *c, bool whole);
void fx_sort_decs(fx_dec *v, uint32_t *n);
fx_re fx_snum_re(fx_sc *c, fx_snum s);

/* ---- objects and arrays from keywords ------------------------------------------------------- */

const fx_orec *fx_sc_object(fx_sc *c, const fx_skeys *k, bool seen);
const fx_arec *fx_sc_array(fx_sc *c, const fx_skeys *k, bool seen);
const fx_split *fx_sc_unseen_props(fx_sc *c, const fx_split *s, fx_sn rest, bool seen);
const fx_split *fx_sc_unseen_items(fx_sc *c, const fx_split *s, fx_sn rest, bool seen);
bool fx_sc_count(fx_sc *c, const fx_skeys *k, fx_kw kw, uint32_t *out);     /* leaves *out where it isn't given */

/* ---- to the grammar (schema_emit.c) ----------------------------------------------------------- */

fx_gnode fx_sc_emit(fx_sc *c, fx_sn n);

#endif
