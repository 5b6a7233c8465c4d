/* grammar.h - what the other files of api/ need of grammars. */
#ifndef FX_API_GRAMMAR_H
#define FX_API_GRAMMAR_H

#include <pthread.h>

#include "fornax.h"
#include "grammar/matcher.h"

/* Grammars by what they were made from, the latest first; the oldest leave when all are larger than a cap. */
typedef struct fx_grammar_cache {
    pthread_mutex_t lock;
    const fx_mem *mem;
    fornax_grammar **at;             /* NULL before init */
    size_t n;
} fx_grammar_cache;
fx_status fx_grammar_cache_init(fx_grammar_cache *c, const fx_mem *mem, fx_error *err);
void fx_grammar_cache_done(fx_grammar_cache *c);

/* Makes the root of a grammar in 'b'. */
typedef fx_status (*fx_grammar_build_fn)(void *user, fx_gnode *root, fx_gram_builder *b, fx_buf *warnings, fx_error *err);
/* The grammar of 'key' (whose bytes are taken), from the context's cache or built. */
fx_status fx_api_grammar(fornax_grammar **out, fornax_context *ctx, fx_buf *key, const fx_gram_limits *limits,
                         fx_grammar_build_fn fn, void *user, fx_error *err);

/* A source as fornax_grammar_open takes it. */
typedef struct fx_grammar_source {
    fx_str text;
    fornax_grammar_options o;        /* whole */
    const fx_mem *mem;
} fx_grammar_source;
fx_status fx_api_source(fx_grammar_source *s, const fx_mem *mem, const char *text, size_t n, const fornax_grammar_options *given,
                        fx_error *err);
void fx_api_source_key(fx_buf *key, const fx_grammar_source *s);
fx_status fx_api_source_build(const fx_grammar_source *s, fx_gnode *root, fx_gram_builder *b, fx_buf *warnings, fx_error *err);

fx_gram *fx_api_gram(const fornax_grammar *grammar);
/* The model's vocabulary for masks, as wide as its logits; made when first asked for. */
fx_status fx_api_vocab(fx_gvocab **out, fornax_model *model, fx_error *err);

#endif
