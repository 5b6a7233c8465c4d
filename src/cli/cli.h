/* cli.h - the commands of the program: a table of commands, each with a table of options.
 *
 * A command is a file cmd_<name>.c that defines one fx_cmd row, listed in main.c.
 * Options are rows too: they parse, check, print the help and name themselves in
 * errors.  Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
 *
 * Uses fornax.h and base/ only: what the program does, any C program can do. */
#ifndef FX_CLI_H
#define FX_CLI_H

#include <float.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/str.h"
#include "base/text.h"
#include "fornax.h"

enum { FX_EXIT_OK = 0, FX_EXIT_FAILED = 1, FX_EXIT_USAGE = 2, FX_EXIT_INTERRUPTED = 130 };

typedef enum fx_opt_type {
    FX_OPT_FLAG,                 /* bool         */
    FX_OPT_INT,                  /* int64_t      */
    FX_OPT_FLOAT,                /* double       */
    FX_OPT_SEED,                 /* fx_seed      */
    FX_OPT_STR,                  /* const char * */
    FX_OPT_STRS                  /* fx_strs      */
} fx_opt_type;

typedef struct fx_opt {
    const char *name;            /* "max-tokens" */
    char letter;                 /* 'n' or 0 */
    fx_opt_type type;
    size_t at;                   /* offset in the command's option struct */
    const char *value;           /* "N", "FILE"; NULL for flags */
    const char *help;
    double min, max;             /* of numbers, but for seeds */
} fx_opt;

typedef struct fx_seed {
    bool given;
    uint64_t value;
} fx_seed;

/* A repeated option. */
typedef struct fx_strs {
    const char *at[64];
    size_t n;
} fx_strs;

typedef struct fx_cmd {
    const char *name;
    const char *args;            /* "MODEL", "FILE" or "" : positional */
    int min_args, max_args;
    const char *summary;         /* one line */
    const char *examples;        /* lines, two blanks before each */
    const fx_opt *opts;          /* ends with name NULL */
    size_t opts_bytes;           /* of the option struct */
    const void *defaults;        /* initial value of it, or NULL: zeros */
    int (*run)(const void *opts, int n_args, char **args);
} fx_cmd;

extern const fx_cmd fx_cmd_serve, fx_cmd_chat, fx_cmd_generate, fx_cmd_tokenize, fx_cmd_template, fx_cmd_logits,
    fx_cmd_inspect, fx_cmd_encode, fx_cmd_bench, fx_cmd_quantize, fx_cmd_grammar, fx_cmd_agent, fx_cmd_compile, fx_cmd_explain;

/* ---- What several commands share (common.c) ---- */

/* Options every command that loads a model has, as the first member of its struct. */
typedef struct fx_model_opts {
    int64_t threads;
    const char *dtype, *kv_dtype, *chat_template;
    int64_t ctx;
    bool verbose, quiet;
    const char *cache;           /* folder for packed weights; NULL: the user's */
    bool no_cache;
    int64_t cache_mib;           /* 0: the library's default */
    const char *code;
    const char *lora;            /* an adapter: the model is opened with room for it (FX_LORA_OPT) */
    bool adapters;               /* room for adapters without one */
} fx_model_opts;
#define FX_MODEL_OPTS(type, m)                                                                                       \
    { "threads", 't', FX_OPT_INT, offsetof(type, m.threads), "N", "compute threads (default: all this process may use)", 0, 1024 }, \
    { "dtype", 0, FX_OPT_STR, offsetof(type, m.dtype), "T", "auto, f32 (exact mode), bf16 or f16 (default: auto)", 0, 0 },  \
    { "kv-dtype", 0, FX_OPT_STR, offsetof(type, m.kv_dtype), "T", "keys and values kept: auto, f16, bf16, f32, int8 (default: auto)", 0, 0 }, \
    { "chat-template", 0, FX_OPT_STR, offsetof(type, m.chat_template), "FILE", "use this Jinja template instead of the model's", 0, 0 }, \
    { "ctx", 'c', FX_OPT_INT, offsetof(type, m.ctx), "N", "longest sequence in tokens (default: the model's)", 0, INT32_MAX },     \
    { "verbose", 'v', FX_OPT_FLAG, offsetof(type, m.verbose), NULL, "log to stderr", 0, 0 },                               \
    { "quiet", 'q', FX_OPT_FLAG, offsetof(type, m.quiet), NULL, "no progress display", 0, 0 },                             \
    { "cache", 0, FX_OPT_STR, offsetof(type, m.cache), "DIR", "keep weights and code there, of small models too (default: the user's)", 0, 0 }, \
    { "cache-mib", 0, FX_OPT_INT, offsetof(type, m.cache_mib), "N", "size of that folder at most (default: 16384)", 1, INT32_MAX }, \
    { "no-cache", 0, FX_OPT_FLAG, offsetof(type, m.no_cache), NULL, "keep nothing and use nothing kept", 0, 0 }, \
    { "code", 0, FX_OPT_STR, offsetof(type, m.code), "WHEN", "kernels made for the model: auto, now (before it runs), off (default: auto)", 0, 0 }

/* For commands that run one request with an adapter or none. */
#define FX_LORA_OPT(type, m) \
    { "lora", 0, FX_OPT_STR, offsetof(type, m.lora), "PATH[:SCALE]", "apply this LoRA adapter: PEFT's folder or a .gguf", 0, 0 }

/* Sampling options; defaults are what 'greedy unless asked' users of the model expect. */
typedef struct fx_sampling_opts {
    double temperature, top_p, min_p, repetition_penalty, frequency_penalty, presence_penalty;
    int64_t top_k, max_tokens, min_tokens, n, logprobs;
    fx_seed seed;
    bool ignore_eos;
    fx_strs stop;
} fx_sampling_opts;
#define FX_SAMPLING_DEFAULTS { .temperature = 0, .max_tokens = 0, .n = 1, .logprobs = -1 }
#define FX_SAMPLING_OPTS(type, m)                                                                                    \
    { "temperature", 'T', FX_OPT_FLOAT, offsetof(type, m.temperature), "X", "0: greedy (default: 0)", 0, FLT_MAX },              \
    { "top-k", 0, FX_OPT_INT, offsetof(type, m.top_k), "N", "sample among the N best (default: all)", 0, INT32_MAX },              \
    { "top-p", 0, FX_OPT_FLOAT, offsetof(type, m.top_p), "X", "sample among the best that sum to X (default: 1)", 0, 1 },  \
    { "min-p", 0, FX_OPT_FLOAT, offsetof(type, m.min_p), "X", "drop tokens below X times the best (default: 0)", 0, 1 },   \
    { "repetition-penalty", 0, FX_OPT_FLOAT, offsetof(type, m.repetition_penalty), "X", "over prompt and output (default: 1)", 0, FLT_MAX }, \
    { "frequency-penalty", 0, FX_OPT_FLOAT, offsetof(type, m.frequency_penalty), "X", "per occurrence in the output (default: 0)", -2, 2 }, \
    { "presence-penalty", 0, FX_OPT_FLOAT, offsetof(type, m.presence_penalty), "X", "once per token in the output (default: 0)", -2, 2 }, \
    { "seed", 's', FX_OPT_SEED, offsetof(type, m.seed), "N", "same seed, same text (default: drawn)", 0, 0 },            \
    { "max-tokens", 'n', FX_OPT_INT, offsetof(type, m.max_tokens), "N", "new tokens at most (default: to the context's end)", 0, INT32_MAX }, \
    { "min-tokens", 0, FX_OPT_INT, offsetof(type, m.min_tokens), "N", "no end before N tokens (default: 0)", 0, INT32_MAX },       \
    { "stop", 0, FX_OPT_STRS, offsetof(type, m.stop), "TEXT", "end before this text; may be given again", 0, 0 },          \
    { "ignore-eos", 0, FX_OPT_FLAG, offsetof(type, m.ignore_eos), NULL, "go on after the end token", 0, 0 }

/* What the output is held to; at most one of them. */
typedef struct fx_held_opts {
    const char *schema, *regex, *grammar;
    fx_strs choice;
} fx_held_opts;
#define FX_HELD_OPTS(type, m)                                                                                        \
    { "schema", 0, FX_OPT_STR, offsetof(type, m.schema), "FILE", "write JSON that this JSON Schema accepts", 0, 0 },       \
    { "regex", 0, FX_OPT_STR, offsetof(type, m.regex), "PATTERN", "write what this ECMA-262 pattern matches as a whole", 0, 0 }, \
    { "grammar", 0, FX_OPT_STR, offsetof(type, m.grammar), "FILE", "write what these rules (GBNF or Lark-like) derive", 0, 0 }, \
    { "choice", 0, FX_OPT_STRS, offsetof(type, m.choice), "TEXT", "write one of these texts; may be given again", 0, 0 }
/* False: more than one was given. */
bool fx_cli_held_once(const fx_held_opts *h);
/* NULL: none was given. Warnings go to standard error. */
fornax_status fx_cli_held(fornax_grammar **out, fornax_context *ctx, const fx_held_opts *h, fornax_error *err);
#define FX_HELD_TWICE "give one of --schema, --regex, --grammar and --choice"

/* Prints "fornax COMMAND: text" and returns FX_EXIT_FAILED (or FX_EXIT_INTERRUPTED, saying nothing,
 * when the user asked to stop and that is what failed).  A parameter that the library refuses is wrong
 * usage where an option had its value. */
int fx_cli_fail(const fornax_error *err);
int fx_cli_usage(const char *fmt, ...) FX_PRINTF(1, 2);     /* returns FX_EXIT_USAGE */

fornax_status fx_cli_context(fornax_context **ctx, const fx_model_opts *m, fornax_error *err);
/* Context and model, with a progress display on a terminal. */
fornax_status fx_cli_model(fornax_context **ctx, fornax_model **model, const char *path, const fx_model_opts *m,
                           fornax_error *err);
fornax_status fx_cli_model_for(fornax_context **ctx, fornax_model **model, const char *path, const fx_model_opts *m,
                               bool embeddings, fornax_error *err);
/* "path" or "path:0.5": *path is a copy without the scale, which the caller frees. */
bool fx_cli_lora(const char *value, char **path, double *scale);
/* The adapter that FX_LORA_OPT names, NULL if none. */
fornax_status fx_cli_adapter(fornax_adapter **adapter, fornax_model *model, const fx_model_opts *m, fornax_error *err);
/* Borrows the strings of 's'; 'strings' must hold s->stop.n entries. */
void fx_cli_sampling(fornax_request_options *out, const fx_sampling_opts *s, fornax_string *strings);

/* Whole of a file ("-": standard input) or fail with a message. */
bool fx_cli_read(fx_buf *out, const char *path);
/* "1,2,3", the value of an option, to ids; false after a usage message. Memory: FX_VEC from libc. */
typedef FX_VEC(int32_t) fx_id_vec;
bool fx_cli_ids(fx_id_vec *out, const char *option, const char *list);
bool fx_cli_tokenize(fx_id_vec *out, const fornax_tokenizer *tok, fx_str text, unsigned flags, fornax_error *err);

/* Standard output took everything so far. */
bool fx_cli_output_ok(void);
/* Writes at once, after what stdio holds. A signal in the middle is no error: the rest follows. */
void fx_cli_write(fx_str text);

/* ^C, SIGTERM, SIGHUP: the first sets a flag, the second ends the program. */
void fx_cli_catch_interrupt(void);
bool fx_cli_interrupted(void);
int fx_cli_check_interrupt(void *user, double fraction);    /* a progress callback that only looks for one */
bool fx_cli_terminated(void);        /* not by ^C */
void fx_cli_clear_interrupt(void);   /* ^C only */
void fx_cli_kill_at_exit(pid_t process_group);   /* when a second signal ends the program; 0: none */

#endif
