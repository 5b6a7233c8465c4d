/* jinja.h - the inside of the chat template interpreter: syntax tree, values, and
 * what its files call of each other.  Nobody outside src/text/jinja_*.c and
 * template.c includes this.
 *
 *   jinja_lex.c    source to tokens: whitespace control, raw, comments
 *   jinja_parse.c  tokens to a tree in the template's arena
 *   jinja_str.c    strings with origins, and the growing buffer behind them
 *   jinja_value.c  lists, dicts, iteration, comparison, printing
 *   jinja_json.c   JSON in and out
 *   jinja_number.c arithmetic with Python's semantics; numbers to text
 *   jinja_format.c "%" formatting, str.format, strftime
 *   jinja_eval.c   expressions
 *   jinja_exec.c   statements
 *   jinja_filters.c, jinja_sequences.c, jinja_tests.c, jinja_methods.c   the built-in names
 *
 * Rules.  A function that can fail returns false (or NULL, or -1) after it put
 * the reason into the run; the first reason stays.  Everything made while
 * rendering lives in the run's arena and is freed with it, so values are plain
 * pointers without ownership.  Values are immutable but namespaces, loops,
 * iterators, cyclers and joiners.
 *
 * Origins.  A string is bytes plus the places where its origin flips between
 * template and data; nearly all strings have no flip.  Substrings share bytes
 * and flips.  Numbers, booleans and containers carry one bit: made from data. */
#ifndef FX_JINJA_H
#define FX_JINJA_H

#include "base/diag.h"
#include "base/text.h"
#include "text/template.h"

typedef struct jj_run jj_run;
typedef struct jj_node jj_node;
typedef struct jj_scope jj_scope;

/* ---- values ------------------------------------------------------------- */

typedef enum jj_type {
    JJ_MISSING = 0,     /* no value: an argument not given, an unbound name */
    JJ_UNDEF,
    JJ_NONE,
    JJ_BOOL,
    JJ_INT,
    JJ_FLOAT,
    JJ_STR,
    JJ_LIST,
    JJ_TUPLE,
    JJ_DICT,
    JJ_VIEW,            /* dict.keys(), .values(), .items() */
    JJ_RANGE,
    JJ_ITER,            /* a generator: consumed once, has no length */
    JJ_NS,              /* namespace() */
    JJ_MACRO,
    JJ_LOOP,
    JJ_FUNC,            /* a built-in function */
    JJ_METHOD,          /* a built-in method and its object */
    JJ_CYCLER,
    JJ_JOINER
} jj_type;

typedef struct jj_str jj_str;
typedef struct jj_buf jj_buf;
typedef struct jj_list jj_list;
typedef struct jj_dict jj_dict;
typedef struct jj_view jj_view;
typedef struct jj_range jj_range;
typedef struct jj_iter jj_iter;
typedef struct jj_undef jj_undef;
typedef struct jj_macro jj_macro;
typedef struct jj_loop jj_loop;
typedef struct jj_method jj_method;
typedef struct jj_cycler jj_cycler;
typedef struct jj_def jj_def;

typedef struct jj_val {
    uint8_t type;       /* jj_type */
    bool data;          /* came from data; of strings the jj_str knows better */
    union {
        bool b;
        int64_t i;
        double f;
        jj_str *s;
        jj_list *l;
        jj_dict *d;     /* DICT, NS */
        jj_view *view;
        jj_range *range;
        jj_iter *iter;
        jj_undef *undef;
        jj_macro *macro;
        jj_loop *loop;
        jj_method *method;
        jj_cycler *cycler;      /* CYCLER, JOINER */
        const jj_def *def;
    } u;
} jj_val;

#define JJ_UNKNOWN SIZE_MAX

struct jj_str {
    const char *p;
    size_t n;               /* bytes */
    size_t chars;           /* code points, or JJ_UNKNOWN; n: plain ASCII */
    const size_t *flips;    /* where the origin changes: ascending, each within (base, base + n) */
    size_t n_flips;
    size_t base;            /* what p's first byte is called in flips */
    jj_buf *buf;            /* the buffer that p points into, or NULL: may be appended to in place */
    bool data;              /* origin of the first byte */
    bool markup;            /* result of |safe or |escape: + and methods escape the other side */
};

struct jj_buf {             /* growing bytes with origins */
    jj_run *run;
    char *p;
    size_t n, cap;
    size_t *flips;
    size_t n_flips, cap_flips;
    bool first, last;       /* origin of the first and last byte */
};

struct jj_list {
    jj_val *at;
    size_t n, cap;
    bool group;             /* a tuple of groupby: has .grouper and .list */
};

typedef struct jj_entry {
    jj_val key, value;
    uint64_t hash;
} jj_entry;

struct jj_dict {            /* insertion order; index built beyond 8 entries */
    jj_entry *at;
    size_t n, cap;
    uint32_t *index;        /* open addressing: entry number + 1 */
    size_t index_cap;
};

typedef enum jj_view_kind { JJ_KEYS, JJ_VALUES, JJ_ITEMS } jj_view_kind;
struct jj_view {
    jj_val dict;
    jj_view_kind kind;
};

struct jj_range {
    int64_t start, stop, step;
    size_t n;
};

/* 1: *out is the next item; 0: no more; -1: failed. */
typedef int (*jj_next_fn)(jj_run *r, jj_iter *it, jj_val *out);

typedef struct jj_kw {
    jj_str *name;
    jj_val v;
} jj_kw;
typedef struct jj_args {
    jj_val *pos;
    size_t n;
    jj_kw *kw;
    size_t n_kw;
} jj_args;

struct jj_iter {
    jj_next_fn next;
    jj_val src;             /* what is iterated; MISSING for made-up iterators */
    size_t i;               /* item or byte offset */
    jj_iter *from;          /* the iterator that this one draws from */
    const char *what;       /* for messages and printing: "generator" */
    void *user;             /* what the maker keeps (map, select, a for loop's test, ...) */
    bool done;
};

struct jj_undef {
    const char *obj;        /* what it was looked up on, in Jinja's words; NULL: a bare name */
    jj_str *hint;           /* the whole message, or NULL */
    uint32_t cond_at;       /* source offset of the inline if without else that made it, or 0 */
    jj_val name;
};

struct jj_macro {
    const jj_node *node;    /* MACRO */
    jj_scope *scope;        /* where it was defined */
};

struct jj_loop {
    jj_iter *iter;
    jj_val source;          /* asked for a length */
    int64_t index0, length; /* length -1: not known yet */
    int64_t depth0;
    jj_val before, current, after;     /* after: peeked, MISSING when not */
    bool ended;             /* peeking found the end */
    jj_val changed;         /* what changed() was last told */
    const jj_node *node;    /* FOR when recursive, else NULL */
    jj_scope *scope;        /* where the for stands */
};

struct jj_method {
    jj_val self;
    const jj_def *def;
};

struct jj_cycler {          /* also joiner: one item, pos says used */
    jj_list items;
    size_t pos;
};

/* A built-in filter, test, function or method.  'params' names the parameters
 * after the subject: "width? first?" ('?': may be left out), a leading '/' means
 * by position only; "*" hands over everything unbound in 'all'. */
typedef bool (*jj_fn)(jj_run *r, jj_val self, const jj_val *a, const jj_args *all, jj_val *out);
struct jj_def {
    const char *name;
    jj_fn fn;
    const char *params;
};
#define JJ_MAX_PARAMS 6

/* ---- syntax tree --------------------------------------------------------- */

typedef enum jj_kind {
    /* expressions */
    JJN_CONST,      /* value */
    JJN_NAME,       /* sym */
    JJN_NSREF,      /* sym, str: a target "ns.attr" */
    JJN_TUPLE,      /* a: items */
    JJN_LIST,       /* a: items */
    JJN_DICT,       /* a: key, value, key, value, ... */
    JJN_ATTR,       /* a, str */
    JJN_ITEM,       /* a, b */
    JJN_SLICE,      /* a, b, c: each may be NULL; only as b of ITEM */
    JJN_CALL,       /* a, args */
    JJN_FILTER,     /* a (NULL: the text of a block), str, def (NULL: unknown), args */
    JJN_TEST,       /* a, str, def, args */
    JJN_NOT, JJN_NEG, JJN_POS,          /* a */
    JJN_BIN,        /* op, a, b */
    JJN_AND, JJN_OR,                    /* a, b */
    JJN_CONCAT,     /* a: items */
    JJN_COMPARE,    /* a, b: OPERANDs */
    JJN_OPERAND,    /* op, a */
    JJN_COND,       /* a if b else c (c may be NULL) */
    JJN_KEYWORD,    /* str, a: in args */
    /* statements */
    JJN_TEXT,       /* str */
    JJN_PRINT,      /* a: expressions */
    JJN_FOR,        /* a target, b iterable, c test or NULL, d body, e else; flag: recursive */
    JJN_IF,         /* a: BRANCHes */
    JJN_BRANCH,     /* a test or NULL, d body */
    JJN_SET,        /* a target, b value */
    JJN_SETBLOCK,   /* a target, b filters or NULL, d body */
    JJN_MACRO,      /* sym (JJ_NO_SYM: of a call block), a: PARAMs, d body, op: JJ_USES_* */
    JJN_PARAM,      /* sym, a default or NULL */
    JJN_CALLBLOCK,  /* a CALL, b MACRO */
    JJN_FILTERBLOCK,/* b filters, d body */
    JJN_WITH,       /* a targets, b values, d body */
    JJN_BLOCK,      /* d body; flag: scoped */
    JJN_GENERATION, /* d body */
    JJN_AUTOESCAPE, /* a: must be false, d body */
    JJN_BREAK, JJN_CONTINUE,
    JJN_REFUSED     /* str: a statement that needs other templates; fails when reached */
} jj_kind;

typedef enum jj_op {
    JJO_ADD, JJO_SUB, JJO_MUL, JJO_DIV, JJO_FLOORDIV, JJO_MOD, JJO_POW,
    JJO_EQ, JJO_NE, JJO_LT, JJO_LE, JJO_GT, JJO_GE, JJO_IN, JJO_NOTIN
} jj_op;

enum { JJ_USES_CALLER = 1, JJ_USES_KWARGS = 2, JJ_USES_VARARGS = 4 };
#define JJ_NO_SYM UINT32_MAX

typedef struct jj_callargs {
    jj_node *pos;           /* chained by next */
    jj_node *kw;            /* KEYWORDs */
    jj_node *star, *star2;  /* *args, **kwargs or NULL */
} jj_callargs;

struct jj_node {
    uint8_t kind, op;
    bool flag;
    uint32_t at;            /* byte offset in the source */
    uint32_t sym;
    jj_node *next;
    jj_node *a, *b, *c, *d, *e;
    jj_str *str;
    jj_val value;
    jj_callargs *args;
    const jj_def *def;
};

struct fx_template {
    const fx_mem *mem;
    fx_arena arena;
    const char *name;
    fx_str source;          /* newlines normalized, the last one dropped */
    jj_node *body;
    fx_str *syms;           /* names used, by number */
    uint32_t n_syms;
    uint32_t sym_loop, sym_caller, sym_kwargs, sym_varargs;
};

/* ---- lexer and parser ---------------------------------------------------- */

typedef enum jj_tok_type {
    JJT_EOF, JJT_DATA, JJT_VAR_BEGIN, JJT_VAR_END, JJT_BLOCK_BEGIN, JJT_BLOCK_END,
    JJT_NAME, JJT_STRING, JJT_INT, JJT_FLOAT,
    JJT_ADD, JJT_SUB, JJT_DIV, JJT_FLOORDIV, JJT_MUL, JJT_MOD, JJT_POW, JJT_TILDE,
    JJT_LBRACKET, JJT_RBRACKET, JJT_LPAREN, JJT_RPAREN, JJT_LBRACE, JJT_RBRACE,
    JJT_EQ, JJT_NE, JJT_GT, JJT_GE, JJT_LT, JJT_LE, JJT_ASSIGN, JJT_DOT, JJT_COLON,
    JJT_PIPE, JJT_COMMA, JJT_SEMICOLON
} jj_tok_type;

typedef struct jj_tok {
    uint8_t type;
    uint32_t at;
    fx_str text;            /* DATA, NAME, STRING (unescaped) */
    union {
        int64_t i;
        double f;
    } u;
} jj_tok;

typedef struct jj_tokens {
    jj_tok *at;
    size_t n, cap;          /* the last one is EOF */
} jj_tokens;

fx_status fx_jj_lex(fx_template *t, jj_tokens *out, fx_error *err);
fx_status fx_jj_parse(fx_template *t, const jj_tokens *toks, fx_error *err);
const char *fx_jj_tok_name(jj_tok_type t);

/* ---- a rendering --------------------------------------------------------- */

typedef struct jj_slot {
    uint32_t sym;
    jj_val v;
} jj_slot;

struct jj_scope {           /* names of a frame; the root's is up == NULL */
    jj_scope *up;
    jj_slot *at;
    uint32_t n, cap;
};

struct jj_run {
    const fx_template *t;
    const fx_mem *mem;
    fx_arena arena;
    fx_error *err;
    fx_status status;
    size_t at;              /* source offset of what is being done, for messages */
    uint64_t steps, max_steps;
    size_t max_bytes, max_output;
    int depth;
    jj_buf *out;            /* what statements print into */
    bool capturing;         /* out is not the final text */
    jj_scope *root, *scope;
    jj_val *outer;          /* per symbol: the variables passed in, and the globals */
    jj_val block_text;      /* subject of a filter block's filters */
    const json_t *vars, *trusted;
    int64_t now;
};

#define JJ_MAX_DEPTH 1200   /* nested evaluation: 0.4 MiB of C stack in an optimized build */
#define JJ_MAX_RANGE 100000 /* items of a range, as Jinja's sandbox has it */
#define JJ_MAX_BYTES ((size_t)512 << 20)     /* memory of one rendering */

#define JJ_TRY(x)         \
    do {                  \
        if (!(x))         \
            return false; \
    } while (0)

bool fx_jj_fail(jj_run *r, const char *fmt, ...) FX_PRINTF(2, 3);   /* false */
bool fx_jj_nomem(jj_run *r);                                        /* false */
/* Counts work that isn't a node (bytes moved, items compared); false over the limit. */
bool fx_jj_work(jj_run *r, size_t units);
void *fx_jj_alloc(jj_run *r, size_t size);          /* cleared; NULL: failed */
bool fx_jj_enter(jj_run *r);                        /* pairs with leave; false: too deep */
static inline void fx_jj_leave(jj_run *r) { r->depth--; }

/* ---- strings (jinja_str.c) ------------------------------------------------ */

jj_str *fx_jj_str(jj_run *r, const char *p, size_t n, bool data);   /* borrows p */
jj_str *fx_jj_strz(jj_run *r, const char *z);                       /* template's; borrows */
jj_str *fx_jj_strf(jj_run *r, const char *fmt, ...) FX_PRINTF(2, 3);
jj_str *fx_jj_sub(jj_run *r, const jj_str *s, size_t a, size_t b);  /* bytes [a, b) */
jj_str *fx_jj_cat(jj_run *r, jj_str *a, jj_str *b);
jj_str *fx_jj_repeat(jj_run *r, jj_str *s, int64_t n);
jj_str *fx_jj_slice_chars(jj_run *r, jj_str *s, int64_t start, int64_t step, int64_t n);
size_t fx_jj_chars(jj_str *s);                      /* code points */
size_t fx_jj_byte_of(jj_str *s, size_t chars);      /* byte offset of a code point; n at the end */
bool fx_jj_origin(const jj_str *s, size_t at);      /* true: data */
static inline fx_str fx_jj_view(const jj_str *s) { return (fx_str){ s->p, s->n }; }
jj_val fx_jj_sv(jj_str *s);                         /* MISSING if s is NULL */
jj_str *fx_jj_markup(jj_run *r, jj_str *s);
jj_str *fx_jj_escape(jj_run *r, jj_str *s);         /* HTML; the result is markup */
bool fx_jj_is_space(uint32_t rune);                 /* str.isspace's idea */
bool fx_jj_is_word(uint32_t rune);                  /* \w: letters, digits, marks, '_' */
bool fx_jj_is_identifier(fx_str s);

void fx_jj_buf_init(jj_buf *b, jj_run *r);
void fx_jj_buf_add(jj_buf *b, const char *p, size_t n, bool data);
void fx_jj_buf_z(jj_buf *b, const char *z, bool data);
void fx_jj_buf_rune(jj_buf *b, uint32_t rune, bool data);
void fx_jj_buf_str(jj_buf *b, const jj_str *s);
void fx_jj_buf_sub(jj_buf *b, const jj_str *s, size_t a, size_t e);
void fx_jj_buf_pad(jj_buf *b, const jj_str *fill, size_t n);        /* n times */
/* The text as a string, leaving the buffer empty; NULL if anything failed in this run. */
jj_str *fx_jj_buf_take(jj_run *r, jj_buf *b);

/* A walk over code points that knows their origin. */
typedef struct jj_walk {
    const jj_str *s;
    size_t i;               /* byte offset of the next rune */
    size_t flip;
    bool data;              /* origin of the rune just read */
    uint32_t rune;
} jj_walk;
jj_walk fx_jj_walk(const jj_str *s);
bool fx_jj_walk_next(jj_walk *w);

typedef enum jj_case { JJ_UPPER, JJ_LOWER, JJ_TITLE, JJ_FOLD } jj_case;
void fx_jj_buf_case(jj_buf *b, uint32_t rune, jj_case how, bool data);
jj_str *fx_jj_str_case(jj_run *r, jj_str *s, jj_case how);
jj_str *fx_jj_str_title(jj_run *r, jj_str *s);      /* str.title() */
jj_str *fx_jj_str_capitalize(jj_run *r, jj_str *s);
jj_str *fx_jj_str_strip(jj_run *r, jj_str *s, const jj_str *chars, int sides /* 1 left, 2 right */);
jj_str *fx_jj_str_replace(jj_run *r, jj_str *s, jj_str *old, jj_str *with, int64_t count);
jj_str *fx_jj_str_center(jj_run *r, jj_str *s, int64_t width, jj_str *fill);
jj_list *fx_jj_str_lines(jj_run *r, jj_str *s, bool keep);
void fx_jj_repr_str(jj_buf *b, const jj_str *s);

/* ---- values (jinja_value.c) ------------------------------------------------ */

static inline jj_val fx_jj_none(void) { return (jj_val){ .type = JJ_NONE }; }
static inline jj_val fx_jj_bool(bool x) { return (jj_val){ .type = JJ_BOOL, .u.b = x }; }
static inline jj_val fx_jj_int(int64_t x) { return (jj_val){ .type = JJ_INT, .u.i = x }; }
static inline jj_val fx_jj_float(double x) { return (jj_val){ .type = JJ_FLOAT, .u.f = x }; }
static inline bool fx_jj_given(jj_val v) { return v.type != JJ_MISSING; }

const char *fx_jj_type_name(jj_val v);              /* "str", "NoneType" */
bool fx_jj_undef(jj_run *r, const char *obj, jj_val name, jj_val *out);
bool fx_jj_undef_hint(jj_run *r, jj_str *hint, jj_val name, jj_val *out);
bool fx_jj_undef_fail(jj_run *r, jj_val undef);     /* raises its message; false */
const char *fx_jj_obj_name(jj_val v);               /* "dict object", "None" */

jj_list *fx_jj_list(jj_run *r, size_t cap);
bool fx_jj_push(jj_run *r, jj_list *l, jj_val v);
jj_val fx_jj_lv(jj_list *l);
jj_val fx_jj_tuple2(jj_run *r, jj_val a, jj_val b); /* MISSING: failed */

jj_dict *fx_jj_dict(jj_run *r);
bool fx_jj_dict_put(jj_run *r, jj_dict *d, jj_val key, jj_val v);
/* 1 found, 0 not, -1 unhashable (raised only if 'raise'). */
int fx_jj_dict_get(jj_run *r, const jj_dict *d, jj_val key, jj_val *v, bool raise);
bool fx_jj_dict_getz(const jj_dict *d, fx_str key, jj_val *v);
jj_val fx_jj_dv(jj_dict *d);
/* Into a namespace, which refuses names with an underscore in front. */
bool fx_jj_ns_put(jj_run *r, jj_dict *ns, jj_val name, jj_val v);

bool fx_jj_truth(jj_val v);
int fx_jj_eq(jj_run *r, jj_val a, jj_val b);                     /* -1: failed */
int fx_jj_less(jj_run *r, jj_val a, jj_val b, jj_op op);         /* LT, LE, GT, GE */
int fx_jj_contains(jj_run *r, jj_val seq, jj_val item);
/* Items of anything with len(); -1: has none. */
int64_t fx_jj_len(jj_val v);

bool fx_jj_iter(jj_run *r, jj_val v, jj_iter **out);             /* "'int' object is not iterable" */
bool fx_jj_iterable(jj_val v);
/* As jj_next_fn says; generators over generators count as nesting. */
int fx_jj_next(jj_run *r, jj_iter *it, jj_val *out);
jj_list *fx_jj_collect(jj_run *r, jj_val v);                     /* list(v), a fresh one */
jj_val fx_jj_generator(jj_run *r, jj_next_fn next, jj_iter *from, void *user);

jj_str *fx_jj_to_str(jj_run *r, jj_val v);                       /* str(v) */
jj_str *fx_jj_repr(jj_run *r, jj_val v);
void fx_jj_buf_value(jj_buf *b, jj_val v);                       /* str(v), appended */

bool fx_jj_from_json(jj_run *r, const json_t *j, bool data, jj_val *out);
typedef struct jj_json {
    bool ensure_ascii, sort_keys, pretty;
    jj_str *indent;         /* of one level; pretty only */
    jj_str *item_sep, *key_sep;
} jj_json;
bool fx_jj_to_json(jj_run *r, jj_buf *b, jj_val v, const jj_json *how);

/* ---- numbers (jinja_number.c) ----------------------------------------------- */

bool fx_jj_arith(jj_run *r, jj_op op, jj_val a, jj_val b, jj_val *out);
bool fx_jj_negate(jj_run *r, jj_val a, bool minus, jj_val *out);
bool fx_jj_is_int(jj_val v, int64_t *out);          /* int or bool */
bool fx_jj_is_num(jj_val v, double *out);           /* int, bool or float */
size_t fx_jj_float_repr(char out[40], double x);
/* "%.*f" and so on with a '.', whatever the locale; precision up to 400. */
bool fx_jj_print_double(jj_buf *b, double x, char conv, int prec, bool alt, bool data);
bool fx_jj_round(jj_run *r, jj_val v, int64_t digits, jj_val *out);
bool fx_jj_parse_int(fx_str s, int64_t base, int64_t *out, bool *big);   /* int(s, base) */
bool fx_jj_parse_float(fx_str s, double *out);      /* float(s) */
/* Converts an argument; raises naming 'what'. */
bool fx_jj_arg_int(jj_run *r, jj_val v, const char *what, int64_t *out);
bool fx_jj_arg_str(jj_run *r, jj_val v, const char *what, jj_str **out);

/* ---- formatting (jinja_format.c) --------------------------------------------- */

jj_str *fx_jj_percent(jj_run *r, jj_str *fmt, jj_val arg);       /* fmt % arg */
jj_str *fx_jj_str_format(jj_run *r, jj_str *fmt, const jj_args *args, const jj_dict *map);
jj_str *fx_jj_strftime(jj_run *r, jj_str *fmt, int64_t unix_seconds);

/* ---- evaluation --------------------------------------------------------------- */

bool fx_jj_eval(jj_run *r, const jj_node *n, jj_val *out);
bool fx_jj_eval_call(jj_run *r, const jj_node *call, const jj_val *caller, jj_val *out);
bool fx_jj_getattr(jj_run *r, jj_val obj, jj_str *name, jj_val *out);
bool fx_jj_getitem(jj_run *r, jj_val obj, jj_val key, jj_val *out);
bool fx_jj_call(jj_run *r, jj_val f, const jj_args *args, jj_val *out);
bool fx_jj_call_def(jj_run *r, const jj_def *def, jj_val self, const jj_args *args, jj_val *out);
bool fx_jj_call_macro(jj_run *r, jj_macro *m, const jj_args *args, jj_val *out);
bool fx_jj_call_loop(jj_run *r, jj_loop *l, jj_val items, jj_val *out);
bool fx_jj_loop_attr(jj_run *r, jj_val loop, fx_str name, jj_val *out, bool *found);

typedef enum jj_flow { JJ_FAILED = -1, JJ_NORMAL, JJ_BREAKING, JJ_CONTINUING } jj_flow;
jj_flow fx_jj_exec(jj_run *r, const jj_node *list);
/* Runs 'list' with its output captured. */
jj_flow fx_jj_capture(jj_run *r, const jj_node *list, jj_str **out);
bool fx_jj_assign(jj_run *r, const jj_node *target, jj_val v);
bool fx_jj_lookup(jj_run *r, uint32_t sym, jj_val *out);
bool fx_jj_bind(jj_run *r, jj_scope *s, uint32_t sym, jj_val v);
jj_scope *fx_jj_scope(jj_run *r, jj_scope *up);

/* NULL: no such name. */
const jj_def *fx_jj_filter(fx_str name);
const jj_def *fx_jj_sequence_filter(fx_str name);   /* those of jinja_sequences.c */
const jj_def *fx_jj_test(fx_str name);
const jj_def *fx_jj_method(jj_type type, fx_str name);
bool fx_jj_method_forbidden(jj_type type, fx_str name);  /* exists in Python, changes its object */
const jj_def *fx_jj_global(fx_str name);
const jj_def *fx_jj_find(const jj_def *table, size_t n, fx_str name);

#endif
