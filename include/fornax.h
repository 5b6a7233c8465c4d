/* fornax.h - load a language model and generate text with it, in this process.
 *
 * One header, C99 (or C++), no other Fornax header needed:
 *
 *     fornax_error err = {0};
 *     fornax_context *ctx = NULL;
 *     fornax_model *model = NULL;
 *     fornax_engine *engine = NULL;
 *     fornax_session *chat = NULL;
 *     if (fornax_context_open(&ctx, NULL, &err) || fornax_model_open(&model, ctx, "smol.gguf", NULL, &err) ||
 *         fornax_engine_open(&engine, model, NULL, &err) ||
 *         fornax_session_open(&chat, engine, NULL, &err) ||
 *         fornax_session_say(chat, "What is gravity?", print_piece, NULL, &err))
 *         fprintf(stderr, "%s\n", err.text);
 *
 * Objects:   context    allocator, log, threads, instruction-set level.
 *            model      weights, tokenizer, chat template. Immutable once open:
 *                       any number of threads and engines may share it.
 *            engine     the loop that batches requests of one model; owns the
 *                       KV cache with its shared prefixes.
 *            request    one prompt and its sampled continuation(s).
 *            session    one conversation on an engine; used by one thread at a time.
 * Errors:    every call that can fail returns a fornax_status and, if 'err' is
 *            not NULL, fills it with one sentence for a human. On failure *out
 *            is NULL and nothing is left to free. NULL where an object, a path
 *            or a text is required is FORNAX_EARG in all of these calls.
 * Ownership: whatever a call hands out through a ** parameter is yours and has
 *            a _close (which accepts NULL). Close in reverse order of opening.
 *            Every const pointer is only borrowed: it stays valid until the
 *            object it came from is changed or closed.
 * Threads:   calls on different objects may run at the same time; what one
 *            object allows is said at its calls.
 * Hosts:     no signal handlers, no setlocale, no environment changes, nothing
 *            printed. The caller's floating-point mode is restored on return.
 *            After fork() the child may only call the _close functions; others
 *            return FORNAX_EARG.
 * Options:   structs begin with 'size'; set it with FORNAX_OPTIONS(type). Zero
 *            means default for every field unless said otherwise.
 * Strings:   UTF-8. Where a length stands beside a pointer the text may hold
 *            zero bytes; lengths of SIZE_MAX mean "up to the zero". */
#ifndef FORNAX_H
#define FORNAX_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef FORNAX_API
#if defined(__GNUC__)
#define FORNAX_API __attribute__((visibility("default")))
#else
#define FORNAX_API
#endif
#endif

#define FORNAX_VERSION_MAJOR 0
#define FORNAX_VERSION_MINOR 1
#define FORNAX_VERSION_PATCH 0

/* ---- Status and errors ---------------------------------------------------- */

typedef enum fornax_status {
    FORNAX_OK = 0,
    FORNAX_ENOMEM,    /* memory or KV pages ran out                        */
    FORNAX_EIO,       /* the operating system refused; text names the path */
    FORNAX_EFORMAT,   /* a file, template or JSON text is malformed        */
    FORNAX_EUNSUP,    /* well formed, but this build can't do it           */
    FORNAX_EARG,      /* the caller broke the contract of the call         */
    FORNAX_ECANCEL,   /* the caller asked to stop                          */
    FORNAX_EBUSY,     /* queue full; retry after err->retry_after_ms       */
    FORNAX_ENOTFOUND, /* no such model, file, object                       */
    FORNAX_ETIMEOUT,  /* a deadline passed                                 */
    FORNAX_EINTERNAL  /* a bug of ours; please report                      */
} fornax_status;

typedef struct fornax_error {
    fornax_status status;
    char param[96];           /* the option, field or key at fault, or "" */
    uint32_t retry_after_ms;  /* for FORNAX_EBUSY */
    char text[1024];          /* one sentence, no newline at its end; template and
                                 grammar faults carry the line and a caret below it */
} fornax_error;

/* "FORNAX_EFORMAT" and so on; "FORNAX_E?" for a number that is none. */
FORNAX_API const char *fornax_status_name(fornax_status status);
/* "0.1.0" of the library linked at run time. */
FORNAX_API const char *fornax_version(void);

#define FORNAX_OPTIONS(type) { .size = sizeof(type) }

/* ---- Context ------------------------------------------------------------------ */

typedef struct fornax_context fornax_context;

/* Allocates (p NULL), resizes or frees (new_size 0, returns NULL) one block, at
 * least 16-byte aligned. Must be callable from any thread. NULL: out of memory. */
typedef void *(*fornax_alloc_fn)(void *user, void *p, size_t old_size, size_t new_size);
/* One line without newline. level: 0 error, 1 warning, 2 information, 3 debug. */
typedef void (*fornax_log_fn)(void *user, int level, const char *line);

typedef struct fornax_context_options {
    size_t size;
    fornax_alloc_fn alloc;    /* NULL: malloc                                          */
    void *alloc_user;
    fornax_log_fn log;        /* NULL: silent                                          */
    void *log_user;
    int log_level;            /* the most detailed level passed on; 0: errors only     */
    int threads;              /* compute threads; 0: as many as the affinity mask and
                                 the cgroup quota allow                                */
    const char *cpu;          /* "scalar", "avx2", "avx512", "neon"; NULL: environment
                                 variable FORNAX_CPU, else the best the machine has    */
    const char *cache_dir;    /* a folder where packed weights and compiled code are kept, so that later
                                 starts needn't make them. NULL: nowhere; "": the folder artifacts in that of
                                 the environment variable FORNAX_CACHE_DIR, else in fornax in
                                 XDG_CACHE_HOME, else in ~/.cache/fornax                */
    int64_t cache_bytes;      /* kept there at most; the least recently used go; 0: 16 GiB */
    int64_t cache_min_bytes;  /* packed weights of fewer bytes aren't kept; 0: 32 MiB, below
                                 which packing is as quick                              */
} fornax_context_options;

FORNAX_API fornax_status fornax_context_open(fornax_context **out, const fornax_context_options *opt,
                                             fornax_error *err);
FORNAX_API void fornax_context_close(fornax_context *ctx);
FORNAX_API int fornax_context_threads(const fornax_context *ctx);
FORNAX_API const char *fornax_context_cpu(const fornax_context *ctx);   /* "avx512" */

/* What became of cache_dir; zeros without one. A fault (a folder that can't be written, a full disk, a
 * damaged file) costs time only: the first one of a context is logged as a warning. Any thread. */
typedef struct fornax_cache_stats {
    size_t size;
    uint64_t hits;            /* of what was looked for, found: of a model, its packed weights and its code */
    uint64_t misses;          /* and not found                                 */
    uint64_t written, removed;   /* files kept; files that went for the cap's sake */
    uint64_t faults;
} fornax_cache_stats;
FORNAX_API void fornax_context_get_cache(const fornax_context *ctx, fornax_cache_stats *out);

/* ---- Model --------------------------------------------------------------------- */

typedef struct fornax_model fornax_model;
typedef struct fornax_tokenizer fornax_tokenizer;

typedef struct fornax_model_options {
    size_t size;
    const char *dtype;         /* "auto" or NULL: weights as stored, activations of quantized
                                  matmuls in int8 blocks; "f32": exact mode, everything in f32
                                  on dequantized weights; "bf16", "f16": weights converted */
    const char *kv_dtype;      /* of keys and values kept: "auto" or NULL: f16 (exact mode: f32);
                                  "f16", "bf16", "f32"; "int8": half of f16's memory, one scale
                                  a token and head                                         */
    const char *chat_template; /* Jinja text that replaces the model's own, or NULL       */
    int64_t max_context;       /* tokens in a sequence at most; 0: the model's own         */
    /* Called now and then while loading, from the calling thread; a nonzero
     * result cancels with FORNAX_ECANCEL. fraction: 0..1. */
    int (*progress)(void *user, double fraction);
    void *progress_user;
    int embeddings;            /* 1: for fornax_embed, not for generation; a model that is made for
                                  embedding (an encoder, or its files say how rows are pooled) always is */
    int adapters;              /* 1: adapters may be opened for it; costs some memory and speed */
    const char *code;          /* kernels that are generated for the model. "auto" or NULL (then the environment variable
                                  FORNAX_CODE, if it is set): used as soon as their code is there, which an earlier
                                  start kept in cache_dir, or a thread makes there beside the model's work; "now": made before
                                  this returns; "off": only hand-written kernels. The outputs are the same bits  */
} fornax_model_options;

typedef struct fornax_model_info {
    const char *architecture;   /* "llama", "qwen3"                                */
    const char *name;           /* of the file without .gguf, or of the folder      */
    const char *dtype;          /* numerics in use: "auto", "f32", ...              */
    const char *kv_dtype;
    const char *numerics_id;    /* outputs are bit-equal among equal ids            */
    int64_t n_params;           /* elements of the weight tensors                   */
    int64_t file_bytes;
    int64_t weight_bytes;       /* packed, resident                                 */
    int64_t vocab_size;         /* width of a row of logits                         */
    int64_t n_layers, n_heads, n_kv_heads, head_dim, embedding_dim;
    int64_t max_context;
    int64_t kv_bytes_per_token; /* while all layers keep it: those with a window let go of it */
    double load_ms;
    int matryoshka;             /* 1: its files say that vectors may be shortened (is_matryoshka,
                                   matryoshka_dimensions); then only to the dimensions they list, if any */
    /* What a token costs: bytes of weights that a step reads for one row, and multiplications with
     * weights for a row without logits, by how they are done: int8, bf16 weights, else f32; and what a
     * row with logits adds. */
    int64_t step_bytes;
    int64_t int8_products, bf16_products, f32_products;
    int64_t int8_logit_products, bf16_logit_products, f32_logit_products;
    /* And what each position before it adds, in layers that see all: bytes of keys and values that are
     * read, multiplications with them. */
    int64_t context_bytes, context_products;
} fornax_model_info;

/* Opens 'path': a .gguf file, or a folder with config.json and safetensors. */
FORNAX_API fornax_status fornax_model_open(fornax_model **out, fornax_context *ctx, const char *path,
                                           const fornax_model_options *opt, fornax_error *err);
/* Engines of the model must be closed first. */
FORNAX_API void fornax_model_close(fornax_model *model);
/* Waits until the code of the model's generated kernels is made, and kept if the context keeps things. FORNAX_EUNSUP: it can't
 * be made here (no LLVM, or no code for the level in use): hand-written kernels do all the work. Any thread. */
FORNAX_API fornax_status fornax_model_compile(fornax_model *model, fornax_error *err);
FORNAX_API const fornax_model_info *fornax_model_get_info(const fornax_model *model);
FORNAX_API const fornax_tokenizer *fornax_model_tokenizer(const fornax_model *model);
FORNAX_API fornax_context *fornax_model_context(const fornax_model *model);

/* What is inside a model file or folder, without loading it: header, metadata,
 * tensors; as text for people (json 0) or one JSON object (json 1). *out is
 * yours: fornax_text_close. */
typedef struct fornax_text fornax_text;
FORNAX_API fornax_status fornax_inspect(fornax_text **out, fornax_context *ctx, const char *path, int json,
                                        fornax_error *err);
/* What compiling does, for people. Of a model: the graph of a step as it is built and after each pass that changed it, and why a pass left
 * what looked like its own. Of a graph as text
 * (a path that ends in .txt; fornax_graph.h): itself, the patterns found and nearly found, which values are kept in memory and why, the launches. */
FORNAX_API fornax_status fornax_explain(fornax_text **out, fornax_context *ctx, const char *path, fornax_error *err);
FORNAX_API const char *fornax_text_bytes(const fornax_text *text, size_t *n);   /* zero-terminated */
FORNAX_API void fornax_text_close(fornax_text *text);

typedef struct fornax_quantize_options {
    size_t size;
    const char *type;          /* "q8_0", "q4_k_m", ...: f32 f16 bf16 q4_0 q4_1 q5_0 q5_1 q8_0 iq4_nl
                                  q6_k, and the mixes q2_k q3_k_s q3_k_m q3_k_l q4_k_s q4_k_m q5_k_s
                                  q5_k_m (q3_k, q4_k, q5_k: _m), which give some matrices more bits */
    int pure;                  /* 1: that type for every matrix, no mix                     */
    int (*progress)(void *user, double fraction);   /* as in fornax_model_options           */
    void *progress_user;
} fornax_quantize_options;

/* Writes the GGUF file 'in' (or its parts) to 'out' with its matrices in another type; or the hub
 * folder 'in' as a GGUF, for Llama, Mistral, Qwen2, Qwen3 and near relatives. The bytes don't
 * depend on the number of threads. 'out' appears whole or not at all, and may be 'in' if that is a
 * file. Rows that aren't whole blocks get a type that fits. */
FORNAX_API fornax_status fornax_quantize(fornax_context *ctx, const char *in, const char *out,
                                         const fornax_quantize_options *opt, fornax_error *err);

/* Runs the model over 'ids' and hands out raw logits (before any sampling step)
 * of the positions first..n-1, in order. logits: [vocab_size] f32, valid during
 * the call; a nonzero result of 'each' cancels. Any thread; makes its own KV. */
typedef int (*fornax_logits_fn)(void *user, int64_t position, const float *logits, int64_t vocab_size);
FORNAX_API fornax_status fornax_model_evaluate(fornax_model *model, const int32_t *ids, size_t n, size_t first,
                                               fornax_logits_fn each, void *user, fornax_error *err);

/* ---- Tokenizer and chat template -------------------------------------------------- */

/* Only the tokenizer and template of 'path' (a .gguf, a folder, a tokenizer.json):
 * no weights are read and need not be there. Not needed beside a model. */
FORNAX_API fornax_status fornax_tokenizer_open(fornax_tokenizer **out, fornax_context *ctx, const char *path,
                                               fornax_error *err);
FORNAX_API void fornax_tokenizer_close(fornax_tokenizer *tok);   /* not a model's */

enum {
    FORNAX_TOKENIZE_SPECIAL = 1,  /* spellings of special tokens in the text become those tokens */
    FORNAX_TOKENIZE_ADD = 2       /* add the begin and end tokens that the tokenizer's
                                     post-processor (or the GGUF's add_bos/add_eos) asks for      */
};
/* Writes at most 'cap' ids and sets *n to the number there are (call again with
 * more room if *n > cap). ids may be NULL when cap is 0. Any thread. */
FORNAX_API fornax_status fornax_tokenize(const fornax_tokenizer *tok, const char *text, size_t text_n,
                                         unsigned flags, int32_t *ids, size_t cap, size_t *n, fornax_error *err);
/* The text of 'ids'; incomplete UTF-8 becomes U+FFFD. skip_special leaves control tokens out. */
FORNAX_API fornax_status fornax_detokenize(const fornax_tokenizer *tok, const int32_t *ids, size_t n,
                                           int skip_special, fornax_text **out, fornax_error *err);
/* The bytes one token stands for in running text (not zero-terminated, may be
 * part of a character); NULL if there is no such id. */
FORNAX_API const char *fornax_token_bytes(const fornax_tokenizer *tok, int32_t id, size_t *n);
FORNAX_API int fornax_token_is_special(const fornax_tokenizer *tok, int32_t id);
/* Whether generation ends at this id. */
FORNAX_API int fornax_token_is_eos(const fornax_tokenizer *tok, int32_t id);
FORNAX_API int32_t fornax_token_find(const fornax_tokenizer *tok, const char *text, size_t n);  /* -1: none */
FORNAX_API int64_t fornax_tokenizer_size(const fornax_tokenizer *tok);   /* number of ids */
FORNAX_API const char *fornax_tokenizer_template(const fornax_tokenizer *tok);   /* Jinja text or NULL */

/* A conversation rendered by the chat template and tokenized. Special tokens come
 * from the template only: their spellings inside messages and tools stay text. */
typedef struct fornax_prompt fornax_prompt;
/* json: {"messages":[{"role","content",...}], "tools":[...],
 * "add_generation_prompt":true (default), "kwargs":{names visible to the template},
 * "now":seconds since 1970 that templates take for the time (default: the clock)}. Arguments of calls
 * are objects, or their JSON text; templates see the object.
 *
 * An assistant's message may have "emitted":[ids], the tokens that the model wrote for it, its end token included or
 * not. They stand in the prompt as they are, in place of the template's rendering of the message, so that a
 * conversation that goes on finds its pages. Only where they say what the message's content and tool_calls say (a message
 * that was changed is the template's); thoughts in them stay where the template keeps thoughts. They may hold control
 * tokens: take them from this engine, not from strangers. */
FORNAX_API fornax_status fornax_prompt_render(fornax_prompt **out, const fornax_tokenizer *tok, const char *json,
                                              size_t json_n, fornax_error *err);
FORNAX_API const char *fornax_prompt_text(const fornax_prompt *prompt, size_t *n);
FORNAX_API const int32_t *fornax_prompt_ids(const fornax_prompt *prompt, size_t *n);
FORNAX_API void fornax_prompt_close(fornax_prompt *prompt);

/* ---- Grammars ------------------------------------------------------------------------- */

/* A language that text is held to. Immutable: any number of matchers on any threads
 * share one. Made lazily, and kept by the context for when the same source comes again. What a source asks for is enforced or refused: FORNAX_EUNSUP names the
 * construct (of a schema: its JSON pointer in err->param), FORNAX_EFORMAT a fault. */
typedef struct fornax_grammar fornax_grammar;

typedef struct fornax_grammar_options {
    size_t size;
    const char *kind;         /* what the source is. NULL or "json_schema": draft 2020-12, with draft 7's
                                 spellings; "regex": ECMA-262 (flag u), for the whole text; "choice":
                                 a JSON array of strings; "ebnf": GBNF or Lark-like rules, with
                                 %json {schema} and <special tokens> inside                     */
    const char *space;        /* between JSON's tokens. NULL or "neat": behind { [ , and before ] } a space, or
                                 a line's end and up to 32 spaces, behind a colon a space; "bounded": at most
                                 64 blanks in a row; "compact": none; "any"                      */
    int any_order;            /* 1: properties in any order; 0: as the schema declares them     */
    int any_number;           /* 1: any spelling of numbers, characters; 0: no needless digits, escapes */
    int annotate_formats;     /* 1: "format" is an annotation; 0: known formats are enforced    */
    int strict_formats;       /* 1: an unknown format is refused; 0: it is a warning            */
    int allow_never;          /* 1: a language without words is no error                        */
    const char *const *document_uris, *const *documents;   /* that $ref may name                */
    size_t n_documents;
    const fornax_tokenizer *tokenizer;   /* whose special tokens "ebnf" may name, or NULL       */
} fornax_grammar_options;

FORNAX_API fornax_status fornax_grammar_open(fornax_grammar **out, fornax_context *ctx, const char *source, size_t n,
                                            const fornax_grammar_options *opt, fornax_error *err);
FORNAX_API const char *fornax_grammar_warnings(const fornax_grammar *g);    /* lines; "" if there are none */
FORNAX_API size_t fornax_grammar_bytes(const fornax_grammar *g);            /* memory, with states made so far */
FORNAX_API void fornax_grammar_close(fornax_grammar *g);                    /* matchers on it stay usable */

/* A tokenizer's tokens prepared for masks: once for all grammars, any threads. */
typedef struct fornax_vocabulary fornax_vocabulary;
typedef struct fornax_token {
    const char *bytes;        /* in running text; n 0: never text */
    size_t n;
    int special;              /* a control token: no text matches it */
} fornax_token;
FORNAX_API fornax_status fornax_vocabulary_open(fornax_vocabulary **out, fornax_context *ctx, const fornax_tokenizer *tok,
                                               fornax_error *err);
FORNAX_API fornax_status fornax_vocabulary_open_tokens(fornax_vocabulary **out, fornax_context *ctx, const fornax_token *tokens,
                                              size_t n, const int32_t *eos, size_t n_eos, fornax_error *err);
FORNAX_API size_t fornax_vocabulary_words(const fornax_vocabulary *v);      /* 32-bit words in a mask */
FORNAX_API void fornax_vocabulary_close(fornax_vocabulary *v);

/* One sequence's place in a grammar; one thread at a time. */
typedef struct fornax_matcher fornax_matcher;
FORNAX_API fornax_status fornax_matcher_open(fornax_matcher **out, fornax_grammar *g, fornax_vocabulary *v,
                                            fornax_error *err);
FORNAX_API fornax_status fornax_matcher_copy(fornax_matcher **out, const fornax_matcher *m, fornax_error *err);
FORNAX_API void fornax_matcher_close(fornax_matcher *m);
/* Bit i (word i/32, bit i%32) is set when token i may come next; those of end tokens when the text may end. */
FORNAX_API fornax_status fornax_matcher_mask(fornax_matcher *m, uint32_t *words, fornax_error *err);
/* FORNAX_EARG: not allowed here, nothing is changed. */
FORNAX_API fornax_status fornax_matcher_accept(fornax_matcher *m, int32_t id, fornax_error *err);
FORNAX_API fornax_status fornax_matcher_accept_text(fornax_matcher *m, const char *text, size_t n, fornax_error *err);
/* Undoes the last n accepted tokens (or texts). FORNAX_EARG: there were fewer. */
FORNAX_API fornax_status fornax_matcher_rollback(fornax_matcher *m, size_t n, fornax_error *err);
FORNAX_API int fornax_matcher_can_end(const fornax_matcher *m);
FORNAX_API int fornax_matcher_must_end(const fornax_matcher *m);            /* and nothing can follow */
/* The text that must come next, at most 'limit' bytes. */
FORNAX_API fornax_status fornax_matcher_forced(fornax_matcher *m, size_t limit, fornax_text **out, fornax_error *err);

/* ---- Engine --------------------------------------------------------------------- */

typedef struct fornax_engine fornax_engine;

typedef struct fornax_engine_options {
    size_t size;
    int manual;               /* 1: no thread of its own; the caller calls fornax_engine_step */
    int max_batch;            /* sequences running at once; 0: 64                             */
    int step_tokens;          /* token budget of one step; 0: 512                             */
    int prefill_chunk;        /* most prompt tokens of one sequence in a step; 0: step_tokens */
    int queue_limit;          /* requests waiting at most; 0: 256                             */
    int64_t kv_bytes;         /* of the page pool; 0: enough for the model's whole context, at
                                 least four times 4096 tokens, at most a quarter of memory;
                                 layers with a window beside others without count for four times
                                 4096 tokens, or two windows and a step if that is more.
                                 Memory is touched as it is used, by an idle thread 32 MiB before. */
    int page_tokens;          /* tokens in a KV page; 0: 32                                   */
    int no_prefix_cache;      /* 1: never reuse pages of earlier requests                     */
    int64_t snapshot_bytes;   /* of copies of recurrent state, which let prefixes of models with
                                 recurrent layers be reused; 0: for 256 of them, at least 64 MiB
                                 and at most an eighth of memory                              */
} fornax_engine_options;

typedef struct fornax_engine_stats {
    size_t size;              /* set by the caller */
    uint64_t steps;           /* forward passes done; grows while work progresses */
    uint64_t requests_total, requests_done, requests_failed, requests_cancelled, requests_rejected;
    uint64_t running, waiting;                  /* sequences, requests now */
    uint64_t prompt_tokens, cached_tokens, generated_tokens;
    uint64_t preemptions;
    /* Where some layers have a window and others don't, page_tokens tokens take several pages, each for some of
     * the layers. All are of page_bytes. cached: held by the prefix tree only. */
    uint64_t pages_total, pages_used, pages_cached;
    uint64_t step_ns_total;
    uint64_t page_tokens, page_bytes;
    uint64_t launches;                          /* kernels begun; grows within a long step too */
    uint64_t context_tokens;                    /* in a sequence at most: the model's, or what the pages hold */
    uint64_t prefill_tokens, prefill_done;      /* of the prompts being computed now: all tokens, and those there */
    uint64_t generated;                         /* of the kernels begun, generated ones */
} fornax_engine_stats;

FORNAX_API fornax_status fornax_engine_open(fornax_engine **out, fornax_model *model,
                                            const fornax_engine_options *opt, fornax_error *err);
/* Cancels what runs, waits for the step in progress. Its requests may be closed after. */
FORNAX_API void fornax_engine_close(fornax_engine *engine);
FORNAX_API fornax_model *fornax_engine_model(const fornax_engine *engine);
/* Manual engines: one step. *did (or NULL) is 0 if there was nothing to do. One thread at a time. */
FORNAX_API fornax_status fornax_engine_step(fornax_engine *engine, int *did, fornax_error *err);
/* A descriptor that polls readable while a manual engine has work (-1 otherwise). */
FORNAX_API int fornax_engine_fd(const fornax_engine *engine);
FORNAX_API void fornax_engine_get_stats(const fornax_engine *engine, fornax_engine_stats *stats);
/* Forgets all cached prefixes that nothing uses now. */
FORNAX_API void fornax_engine_drop_cache(fornax_engine *engine);

/* ---- Requests ------------------------------------------------------------------- */

typedef struct fornax_request fornax_request;

typedef struct fornax_logit_bias {
    int32_t id;
    float bias;               /* added to the logit; -100 or less bans, 100 or more forces in practice */
} fornax_logit_bias;

typedef struct fornax_string {
    const char *p;
    size_t n;
} fornax_string;

typedef enum fornax_finish {
    FORNAX_FINISH_NONE = 0,   /* not finished                      */
    FORNAX_FINISH_STOP,       /* end token, stop id or stop string */
    FORNAX_FINISH_LENGTH,     /* max_tokens or the context's end   */
    FORNAX_FINISH_CANCEL,
    FORNAX_FINISH_ERROR
} fornax_finish;

typedef struct fornax_top_logprob {
    int32_t id;
    float logprob;
} fornax_top_logprob;

typedef enum fornax_event_kind {
    FORNAX_EVENT_TOKEN = 1,   /* one sampled token of one choice; text may be empty while a
                                 character or a possible stop string is incomplete. A token
                                 that ends the choice (end token, stop id) has no such event:
                                 it is no text and has no logprob, but counts as generated  */
    FORNAX_EVENT_FINISH,      /* a choice ended; text is what was still held back, token the
                                 end token or stop id that ended it, or -1                  */
    FORNAX_EVENT_DONE         /* the last event of a request: all choices ended              */
} fornax_event_kind;

/* Valid until the next event is taken (or the callback returns). */
typedef struct fornax_event {
    fornax_event_kind kind;
    int choice;                     /* 0..n-1 */
    int32_t token;
    const char *text;               /* whole UTF-8 characters only, zero-terminated */
    size_t text_n;
    float logprob;                  /* of the sampled token; if logprobs were asked for */
    const fornax_top_logprob *top;  /* [n_top], best first; before temperature, after bias
                                       and penalties: log-softmax of what was sampled from */
    int n_top;
    fornax_finish finish;           /* FINISH and DONE */
    const char *stop_string;        /* the stop string that matched, or NULL */
    int64_t prompt_tokens, cached_tokens, generated_tokens;   /* FINISH: of the choice; DONE: of all */
    fornax_status status;           /* DONE: FORNAX_OK, or why it ended */
    const char *error;              /* the sentence for it, or NULL */
} fornax_event;

/* Changes the raw logits [vocab_size] before sampling; called on the engine's
 * thread: be quick. n_tokens ids were generated so far for this choice. */
typedef void (*fornax_logits_hook)(void *user, int choice, const int32_t *tokens, size_t n_tokens, float *logits,
                                   int64_t vocab_size);
/* Called on the engine's thread for each event instead of queueing it. A nonzero
 * result cancels the request. May submit, cancel and close requests, but not close the engine. */
typedef int (*fornax_event_fn)(void *user, const fornax_event *event);

typedef struct fornax_request_options {
    size_t size;
    const int32_t *ids;         /* the prompt, copied; at least one id */
    size_t n_ids;
    int64_t max_tokens;         /* new tokens of each choice; 0: up to the context's end (which
                                   also ends a larger number, with FORNAX_FINISH_LENGTH); -1: none
                                   (the prompt is computed and kept)                          */
    int64_t min_tokens;         /* no end token, stop id or stop string before that many      */
    int n;                      /* choices; 0: 1                                              */
    float temperature;          /* 0: greedy                                                  */
    int top_k;                  /* 0: all                                                     */
    float top_p;                /* 0 or 1: all                                                */
    float min_p;                /* relative to the best token                                 */
    float repetition_penalty;   /* 0 or 1: none; over prompt and generated tokens             */
    float frequency_penalty;    /* per occurrence in the generated tokens                     */
    float presence_penalty;
    uint64_t seed;              /* used if has_seed; else drawn                               */
    int has_seed;
    const fornax_logit_bias *logit_bias;
    size_t n_logit_bias;
    const fornax_string *stop;  /* stop strings; the text ends before the first to be complete
                                   (of several that end together, the longest)                */
    size_t n_stop;
    const int32_t *stop_ids;    /* beside the model's own end tokens                          */
    size_t n_stop_ids;
    int ignore_eos;
    int logprobs;               /* 1: logprob of each sampled token                           */
    int top_logprobs;           /* that many alternatives, 0..20                              */
    int prompt_logprobs;        /* reserved, must be 0                                        */
    int priority;               /* higher first                                               */
    int64_t deadline_ms;        /* from submission; 0: none; then FORNAX_ETIMEOUT              */
    const char *cache_salt;     /* prefixes are shared only among equal salts; NULL: ""       */
    fornax_logits_hook logits_hook;
    void *logits_user;
    fornax_event_fn on_event;   /* NULL: events are queued for fornax_request_next            */
    void *event_user;
    const struct fornax_adapter *adapter;   /* of the engine's model, kept until the request is done; NULL: none */
    const struct fornax_grammar *grammar;   /* what the text of each choice is held to; copied; NULL: nothing.
                                   Then ignore_eos must be 0. A choice ends where its text can't go on,
                                   and the end tokens come only where the text is whole; one that ends
                                   with FORNAX_FINISH_LENGTH has a prefix of such a text. What the
                                   grammar leaves no choice about isn't sampled: those tokens come
                                   at once, each with its event and a logprob of 0 (never with a
                                   logits_hook, nor where a bias or stop id names one) */
    int special_text;           /* 1: control tokens are part of the text, but those that end it      */
} fornax_request_options;

/* Queues a request. FORNAX_EBUSY: the queue is full. FORNAX_EARG: an option is out of
 * range (err->param names it), or the prompt leaves no room in the context for a new token, if any
 * is wanted (param "context_length"; the text has the counts). FORNAX_ECANCEL: the engine is being closed
 * (where a callback submits). Any thread. */
FORNAX_API fornax_status fornax_request_submit(fornax_request **out, fornax_engine *engine,
                                               const fornax_request_options *opt, fornax_error *err);
/* Waits for the next event (timeout_ms -1: for ever, 0: not at all; FORNAX_ETIMEOUT).
 * One thread at a time. Nothing follows FORNAX_EVENT_DONE: FORNAX_ENOTFOUND. With a
 * callback no event is queued: FORNAX_EARG. */
FORNAX_API fornax_status fornax_request_next(fornax_request *req, const fornax_event **event, int timeout_ms,
                                             fornax_error *err);
/* A descriptor that polls readable while events are queued. -1: a callback takes them, or the
 * process has no descriptor left. */
FORNAX_API int fornax_request_fd(const fornax_request *req);
/* The seed of its draws: the one given, or the one drawn for it. The same request with this seed has the same tokens. */
FORNAX_API uint64_t fornax_request_seed(const fornax_request *req);
/* Any thread; DONE follows. One that waits keeps its place in the queue until the engine's next step. */
FORNAX_API void fornax_request_cancel(fornax_request *req);
/* Cancels if need be. Afterwards its callback isn't called again, nor still running. */
FORNAX_API void fornax_request_close(fornax_request *req);

/* ---- Adapters ---------------------------------------------------------------------- */

/* A low-rank adapter (LoRA, arXiv 2106.09685): PEFT's folder with adapter_config.json and
 * adapter_model.safetensors, or a GGUF file. Either goes with either form of the model. Immutable
 * once open; requests with different adapters and without run in one batch, and those without get
 * the bits of the bare model. Cached prefixes are shared among requests whose adapters have equal
 * content and scale, whatever their names or paths. */
typedef struct fornax_adapter fornax_adapter;

typedef struct fornax_adapter_options {
    size_t size;
    double scale;             /* factor on what the adapter adds; 0: 1 */
} fornax_adapter_options;

/* The model must have been opened with options.adapters. */
FORNAX_API fornax_status fornax_adapter_open(fornax_adapter **out, fornax_model *model, const char *path,
                                             const fornax_adapter_options *opt, fornax_error *err);
/* Requests that use it go on; it is freed with the last of them. */
FORNAX_API void fornax_adapter_close(fornax_adapter *adapter);
/* As fornax_model_evaluate, with the adapter. */
FORNAX_API fornax_status fornax_adapter_evaluate(fornax_adapter *adapter, const int32_t *ids, size_t n, size_t first,
                                                 fornax_logits_fn each, void *user, fornax_error *err);

/* ---- Turns: thoughts and tool calls in the model's own format -------------------------------- */

/* Which tools a reply may call, and with which arguments, judged from the conversation: rules in JSON (docs/gates.md).
 * Immutable; any thread. FORNAX_EFORMAT: err->param is a JSON pointer to the rule at fault. */
typedef struct fornax_policy fornax_policy;
FORNAX_API fornax_status fornax_policy_open(fornax_policy **out, fornax_context *ctx, const char *json, size_t n, fornax_error *err);
FORNAX_API void fornax_policy_close(fornax_policy *policy);      /* turns opened with it stay usable */

/* What one reply may be: the request's tools in the form of the model's family (found from its chat template), the
 * text around them, thoughts. Immutable; any thread. */
typedef struct fornax_turn fornax_turn;

typedef struct fornax_turn_options {
    size_t size;
    const char *tools;          /* JSON list in OpenAI's form, or NULL                                */
    const char *tool_choice;    /* JSON: "auto", "none", "required", a function, allowed_tools; NULL: "auto" */
    int single_call;            /* 1: at most one call                                                */
    const char *format;         /* what text is held to: a source for fornax_grammar_open; NULL: nothing */
    size_t format_n;
    const fornax_grammar_options *format_options;
    const char *prompt;         /* the rendered prompt, whose end may have opened a thought; or NULL  */
    size_t prompt_n;
    const char *family;         /* "hermes", "mistral", ...; NULL: found from the chat template        */
    int keep_thoughts;          /* 1: thoughts are text                                               */
    const fornax_policy *policy;  /* then only the tools that it opens can be called, only with the arguments that
                                   it binds, and neither text nor thoughts can hold a call in any family's form */
    const char *messages;       /* JSON list: the conversation that the policy judges; NULL: none    */
    size_t messages_n;
} fornax_turn_options;

/* FORNAX_EARG, FORNAX_EUNSUP: err->param names the field at fault ("tools[0].function.parameters#/..."). */
FORNAX_API fornax_status fornax_turn_open(fornax_turn **out, const fornax_tokenizer *tok, const fornax_turn_options *opt,
                                          fornax_error *err);
FORNAX_API const fornax_grammar *fornax_turn_grammar(const fornax_turn *turn);   /* NULL: free text */
/* What the policy opened and why not: {"open": [{"name", "arguments": {NAME: [VALUES]}}], "closed": [{"name", "why"}]}.
 * NULL: no policy. */
FORNAX_API const char *fornax_turn_gates(const fornax_turn *turn);
FORNAX_API const char *fornax_turn_family(const fornax_turn *turn);
/* Whether the form's tags are control tokens: then set special_text in the request. */
FORNAX_API int fornax_turn_special_text(const fornax_turn *turn);
FORNAX_API void fornax_turn_close(fornax_turn *turn);

typedef enum fornax_part_kind {
    FORNAX_PART_TEXT = 1,
    FORNAX_PART_THOUGHT,
    FORNAX_PART_CALL,           /* a call begins; text: the tool's name                                */
    FORNAX_PART_ARGUMENTS,      /* a piece of its arguments: JSON text, as the model wrote it          */
    FORNAX_PART_CALL_END        /* text: all bytes of the call, tags included                          */
} fornax_part_kind;

typedef struct fornax_part {
    fornax_part_kind kind;
    int call;                   /* 0, 1, ... in the reply; -1: not of a call                           */
    const char *text;           /* not zero-terminated; valid during the call                          */
    size_t n;
} fornax_part;
typedef void (*fornax_part_fn)(void *user, const fornax_part *part);

/* Takes a reply apart as it streams in. One thread at a time. What doesn't parse as a call is text. */
typedef struct fornax_reply fornax_reply;
FORNAX_API fornax_status fornax_reply_open(fornax_reply **out, const fornax_turn *turn, fornax_part_fn part, void *user,
                                           fornax_error *err);
FORNAX_API fornax_status fornax_reply_feed(fornax_reply *r, const char *text, size_t n, fornax_error *err);
FORNAX_API fornax_status fornax_reply_end(fornax_reply *r, fornax_error *err);
FORNAX_API void fornax_reply_close(fornax_reply *r);

/* ---- Sessions: a conversation in a few lines ----------------------------------------- */

typedef struct fornax_session fornax_session;

typedef struct fornax_session_options {
    size_t size;
    const char *system;                       /* system message or NULL          */
    const fornax_request_options *sampling;   /* copied; ids and on_event unused, n: 1 or 0; an adapter
                                                 must stay open as long as the session */
    const char *kwargs;                       /* JSON object for the template, or NULL */
} fornax_session_options;

/* A piece of the reply; nonzero stops it: no other follows, what came so far is kept, the
 * call returns FORNAX_ECANCEL. */
typedef int (*fornax_piece_fn)(void *user, const char *text, size_t n);

FORNAX_API fornax_status fornax_session_open(fornax_session **out, fornax_engine *engine,
                                             const fornax_session_options *opt, fornax_error *err);
/* Sends a user message, streams the reply, keeps both. Steps the engine if that is manual. */
FORNAX_API fornax_status fornax_session_say(fornax_session *s, const char *text, fornax_piece_fn piece, void *user,
                                            fornax_error *err);
FORNAX_API const char *fornax_session_messages(const fornax_session *s);   /* JSON array; NULL: no memory */
FORNAX_API void fornax_session_clear(fornax_session *s);                   /* forgets all but the system message */
FORNAX_API void fornax_session_close(fornax_session *s);

/* ---- Embeddings ------------------------------------------------------------------ */

/* One text, or ids as they are to be run (then text is NULL). */
typedef struct fornax_embed_input {
    const char *text;
    size_t n;
    const int32_t *ids;
    size_t n_ids;
} fornax_embed_input;

typedef struct fornax_embed_options {
    size_t size;
    int64_t dimensions;       /* only the first so many numbers, normalized again; 0: all            */
    int no_normalize;         /* 1: vectors keep their lengths; else they are of length 1            */
    int truncate;             /* 1: texts longer than the model takes are cut (fornax_embeddings_cut);
                                 else they are FORNAX_EARG with both counts                          */
    const struct fornax_adapter *adapter;   /* of the model, open until the call returns; NULL: none */
    /* Called before every text is read and before every step (some hundred tokens, or one long text), from
     * the calling thread; a nonzero result ends the call with FORNAX_ECANCEL. fraction: 0..1. */
    int (*progress)(void *user, double fraction);
    void *progress_user;
} fornax_embed_options;

/* One vector for each input, pooled as the model's files say.  The same input has the same
 * vector, bit for bit, whatever is beside it.  Any number of threads. */
typedef struct fornax_embeddings fornax_embeddings;
FORNAX_API fornax_status fornax_embed(fornax_embeddings **out, fornax_model *model, const fornax_embed_input *inputs,
                                      size_t n, const fornax_embed_options *opt, fornax_error *err);
FORNAX_API size_t fornax_embeddings_count(const fornax_embeddings *e);
FORNAX_API int64_t fornax_embeddings_dim(const fornax_embeddings *e);
FORNAX_API const float *fornax_embeddings_row(const fornax_embeddings *e, size_t i);   /* [dim]; NULL: no such input */
FORNAX_API size_t fornax_embeddings_tokens(const fornax_embeddings *e, size_t i);      /* that were run */
FORNAX_API size_t fornax_embeddings_cut(const fornax_embeddings *e, size_t i);         /* that were left out */
FORNAX_API void fornax_embeddings_close(fornax_embeddings *e);

#ifdef __cplusplus
}
#endif
#endif
