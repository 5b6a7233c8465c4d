/* ops.h - the vocabulary of graphs: opcodes, their attributes, and the table of both.
 *
 * Made from ops.def.  Whoever needs another view of the table includes ops.def again. */
#ifndef FX_OPS_H
#define FX_OPS_H

#include "base/str.h"

typedef enum fx_attr_key {
#define ATTR(key, text, kind, dflt) FX_A_##key,
#define OP(code, text, in, out, attrs, kind, rule, flags, doc)
#include "tensor/ops.def"
    FX_A_COUNT
} fx_attr_key;

typedef enum fx_opcode {
#define ATTR(key, text, kind, dflt)
#define OP(code, text, in, out, attrs, kind, rule, flags, doc) FX_OP_##code,
#include "tensor/ops.def"
    FX_OP_COUNT
} fx_opcode;

typedef enum fx_attr_kind {
    FX_ATTR_INT,
    FX_ATTR_FLOAT,
    FX_ATTR_STR,
    FX_ATTR_TYPE,
    FX_ATTR_DTYPE,
    FX_ATTR_BOOL,
    FX_ATTR_WORD,                /* one of the row's words, kept as its number */
    FX_ATTR_DIM,                 /* a size: a number or an expression of names */
    FX_ATTR_DIMS,
    FX_ATTR_INTS,
    FX_ATTR_DATA,                /* elements of the dtype that TYPE names */
    FX_ATTR_TYPES,
    FX_ATTR_PARAMS               /* named bools, integers, strings and dtypes */
} fx_attr_kind;

typedef enum fx_op_kind {
    FX_KIND_NONE,
    FX_KIND_MAP,
    FX_KIND_ROW,
    FX_KIND_CONTRACT,
    FX_KIND_VIEW,
    FX_KIND_EFFECT,
    FX_KIND_END
} fx_op_kind;

enum {
    FX_OPF_KEEP = 1,             /* stays though nobody uses its results */
    FX_OPF_CONST = 2,            /* known before any step */
    FX_OPF_END = 4,              /* last of its block */
    FX_OPF_COMMUTES = 8,
    FX_OPF_STEP = 16,            /* reads the row table of the step */
    FX_OPF_REGIONS = 32,         /* owns blocks */
    FX_OPF_BUFFERS = 64,         /* takes buffers among its operands */
    FX_OPF_MODEL = 128           /* of language models; has no function in fornax_ops.h */
};

#define FX_MAX_ATTRS 15          /* of an op */

typedef struct fx_attr_row {
    const char *text;
    fx_attr_kind kind;
    bool required;
    double dflt;
} fx_attr_row;

typedef struct fx_op_row {
    const char *text;
    const char *operands, *results;      /* names, see ops.def */
    uint8_t attrs[FX_MAX_ATTRS + 1];     /* keys, in order, then FX_A_COUNT */
    fx_op_kind kind;
    int flags;
    const char *doc;
} fx_op_row;

extern const fx_attr_row fx_attr_rows[FX_A_COUNT];
extern const fx_op_row fx_op_rows[FX_OP_COUNT];

static inline const char *fx_opcode_name(fx_opcode c) { return fx_op_rows[c].text; }
bool fx_opcode_of_name(fx_opcode *out, fx_str name);
const char *fx_op_kind_name(fx_op_kind k);
bool fx_opcode_has(fx_opcode c, fx_attr_key key);
/* Word i of an attribute of kind WORD; empty if there are fewer. */
fx_str fx_attr_word(fx_attr_key key, int64_t i);

/* A signature read: how many names, and what the i-th allows. */
typedef struct fx_op_names {
    int n;
    bool variadic;                       /* the last one */
} fx_op_names;
fx_op_names fx_op_names_of(const char *signature);
/* Name i of a signature ("w?" gives "w", optional); an empty string past the end of
 * a signature that isn't variadic. */
fx_str fx_op_name_at(const char *signature, int i, bool *optional);

/* The reference of all ops as Markdown. */
void fx_ops_document(fx_buf *out);

#endif
