/* api.h - the objects behind fornax.h, and what its files share.
 *
 * A file per object: context.c, api_tokenizer.c, prompt.c, model.c, api_engine.c, session.c,
 * api_inspect.c.  Every public entry that computes goes through fx_api_usable, which
 * refuses to run in a forked child; floating-point work sets the library's mode (fpmode.h). */
#ifndef FX_API_H
#define FX_API_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "agent/codec.h"
#include "api/embed.h"
#include "api/grammar.h"
#include "base/cpu.h"
#include "base/fpmode.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/status.h"
#include "base/str.h"
#include "compile/pcode.h"
#include "format/weights.h"
#include "models/models.h"
#include "runtime/adapter.h"
#include "runtime/program.h"
#include "text/template.h"
#include "text/tokenizer.h"

struct fornax_context {
    fx_mem mem;
    fx_log log;
    fx_cpu cpu;
    fx_pool *pool;
    pid_t pid;                   /* of the process that opened it */
    int64_t pinned_now;          /* FORNAX_NOW, or -1 */
    fx_grammar_cache grammars;
    fx_store *store;             /* of packed weights, or NULL */
    size_t store_min;
    atomic_ullong serial;        /* numbers its tokenizers */
};

/* FORNAX_EARG in a forked child. */
fx_status fx_api_usable(const fornax_context *ctx, fx_error *err);
/* FORNAX_EARG if a parameter that can't be left out is NULL. */
fx_status fx_api_need(const void *given, const char *param, fx_error *err);
#define FX_API_NEED(param) FX_TRY(fx_api_need((param), #param, err))
int64_t fx_api_now(const fornax_context *ctx);      /* unix seconds */
/* The context's store, as its options say; none is not an error. */
fx_status fx_api_store_open(fornax_context *ctx, const fornax_context_options *opt, fx_error *err);

struct fornax_text {
    fx_buf buf;
    const fx_mem *mem;
};
/* Takes the bytes of 'b' (also on failure). */
fx_status fx_api_text(fornax_text **out, const fx_mem *mem, fx_buf *b, fx_error *err);

/* Copies a caller's options struct, as long as its 'size' says, over the defaults in 'out'. */
fx_status fx_api_options(void *out, size_t size, const void *given, const char *type, fx_error *err);
/* json_dumps' memory, whichever allocator jansson was given. NULL is fine. */
void fx_api_json_free(char *dumped);

struct fornax_tokenizer {
    fornax_context *ctx;
    fx_weights *weights;         /* own, opened for headers only; NULL: a model's */
    fx_tokenizer *t;             /* NULL: the folder has a template only */
    fx_arena arena;
    uint64_t serial;             /* tells it from others of the context, also closed ones */
    int32_t *eos;                /* generation ends at these */
    size_t n_eos;
    const char *template_text;   /* zero-terminated, or NULL */
    const char *tool_template;   /* used instead when there are tools, or NULL */
    json_t *trusted;             /* special tokens by name, for the template */
    /* Parsed when first used. */
    pthread_mutex_t lock;
    fx_template *parsed, *parsed_tool;
};

/* A tokenizer over 'w' (borrowed). chat_template: replaces the file's, or NULL. */
fx_status fx_api_tokenizer_new(fornax_tokenizer **out, fornax_context *ctx, fx_weights *w, const char *chat_template,
                               fx_error *err);

/* The chat template, parsed when first used; the one for tools if the model has two. FORNAX_ENOTFOUND: none. */
fx_status fx_api_template(const fx_template **out, const fornax_tokenizer *tok, bool tools, fx_error *err);

/* How its replies are written (turn.c): the row of its chat template; whether a prompt's end has opened a thought;
 * whether one of the form's tags is a control token. */
const fx_codec *fx_api_codec(const fornax_tokenizer *tok, bool tools);
bool fx_api_thinking(const fx_codec *codec, fx_str prompt);
fx_status fx_api_special_tags(bool *special, const fornax_tokenizer *tok, const fx_codec *codec, bool calls, fx_error *err);

struct fornax_model {
    fornax_context *ctx;
    fx_weights *weights;
    fornax_tokenizer *tok;
    fx_program *program;
    fx_pcode *code;              /* NULL: no kernel is generated */
    fx_arena arena;              /* strings of info */
    fornax_model_info info;
    fx_hash128 fingerprint;
    bool hidden, both_ways;      /* fx_model_desc's */
    const fx_arch *arch;         /* NULL: an encoder */
    fx_model_params params;      /* without layer_flags */
    fx_embedder embedder;        /* where 'hidden' */
    _Atomic(fx_exec *) spare_exec;   /* embed.c's, for the next call, or NULL */
    pthread_mutex_t vocab_lock;
    fx_gvocab *vocab;            /* under it; NULL until a grammar is used */
};

/* FORNAX_EUNSUP for a model that was opened for embedding. */
fx_status fx_api_has_logits(const fornax_model *m, fx_error *err);

/* fornax_model_evaluate, with an adapter or NULL. */
fx_status fx_api_evaluate(fornax_model *model, const fx_adapter *adapter, const int32_t *ids, size_t n, size_t first,
                          fornax_logits_fn each, void *user, fx_error *err);

struct fornax_adapter {
    fornax_model *model;
    fx_adapter *adapter;
    fx_hash128 identity;         /* of what it computes: every pair's names, numbers and scale */
    atomic_int refs;             /* the opener's and one a request */
};
void fx_api_adapter_drop(void *adapter);

#endif
