/* embed.h - what turns a model's rows into one vector a text: pooling and dense layers (api/ only).
 *
 * Read from the model's own files: modules.json and what it names (the sentence-transformers
 * layout), or <arch>.pooling_type of a GGUF file.  Without either: the mean of all rows. */
#ifndef FX_EMBED_H
#define FX_EMBED_H

#include "format/weights.h"
#include "text/tokenizer.h"

typedef enum fx_pooling {        /* in the order in which several are put side by side */
    FX_POOL_CLS, FX_POOL_MAX, FX_POOL_MEAN, FX_POOL_MEAN_SQRT, FX_POOL_WEIGHTED, FX_POOL_LAST,
    FX_POOL_KINDS
} fx_pooling;

typedef enum fx_dense_act { FX_DENSE_NONE, FX_DENSE_TANH, FX_DENSE_RELU, FX_DENSE_GELU, FX_DENSE_SILU, FX_DENSE_SIGMOID } fx_dense_act;

typedef struct fx_dense {        /* y = act(w x + b) */
    int64_t n_in, n_out;
    const float *w, *b;          /* [n_out][n_in]; [n_out] or NULL */
    fx_dense_act act;
} fx_dense;

#define FX_DENSE_MAX 8

typedef struct fx_embedder {
    unsigned pooling;            /* bits 1 << fx_pooling */
    fx_dense dense[FX_DENSE_MAX];
    int n_dense;
    int64_t max_tokens;          /* 0: as many as the model takes */
    fx_str prompt;               /* put before every text, or empty */
    bool lower;                  /* texts are lower-cased */
    int64_t dim;                 /* of a vector at the end */
    bool matryoshka;             /* its files say that shorter vectors are good for something */
    const int64_t *dims;         /* to which ones, or NULL: any */
    size_t n_dims;
} fx_embedder;

/* Whether the file is meant for embedding: it says how its rows are pooled, or has no output matrix. */
bool fx_embed_meant(const fx_weights *w);
/* dim: columns of a row. Everything lives in 'a'. */
fx_status fx_embedder_read(fx_embedder *e, fx_arena *a, const fx_weights *w, int64_t dim, fx_error *err);

/* Sums that grow row by row; for one text. */
typedef struct fx_pool_sums {
    double *mean, *weighted;     /* [dim] each */
    float *first, *last, *max;
    int64_t n_rows;
    double weights;
} fx_pool_sums;
size_t fx_pool_sums_doubles(int64_t dim);          /* room for one, in doubles */
void fx_pool_begin(fx_pool_sums *s, double *room, int64_t dim);
void fx_pool_row(fx_pool_sums *s, const float *row, int64_t dim);
/* Pooled, through the dense layers; 'out' [e->dim], 'work' two times the widest layer. */
void fx_embedder_finish(const fx_embedder *e, const fx_pool_sums *s, int64_t dim, float *out, double *work);
int64_t fx_embedder_widest(const fx_embedder *e, int64_t dim);

#endif
