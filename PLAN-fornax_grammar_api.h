/* PLAN from the lead for the public API of grammars (fornax.h, src/api/grammar.c): the LEAD writes these two
 * (branch `lead`, lands as soon as regex/gram/matcher/vocab and fx_ebnf_build, or a refusal of it, link on main);
 * `gramcore` writes src/cli/cmd_grammar.c on top of them. Delete this file when done.
 * The lead has the engine side ready on branch `lead` (request option `const struct fornax_grammar *grammar`,
 * masks applied in fx_sample, matcher per choice) and waits for regex/gram/matcher + this API on main.
 * So: land a correct (slow) matcher early. */

/* ---- Grammars: output that can't break its contract ------------------------------------------------ */
typedef struct fornax_grammar fornax_grammar;         /* compiled; immutable; any thread; counted inside: close drops the owner's */
typedef enum fornax_grammar_kind {
    FORNAX_GRAMMAR_JSON_SCHEMA = 1,   /* text: the schema */
    FORNAX_GRAMMAR_REGEX,             /* text: an ECMA pattern that the whole output matches */
    FORNAX_GRAMMAR_EBNF,              /* text: GBNF or Lark-like */
    FORNAX_GRAMMAR_CHOICE             /* text: a JSON array of strings */
} fornax_grammar_kind;
typedef struct fornax_grammar_options {
    size_t size;
    fornax_grammar_kind kind;
    const char *text;
    size_t n;                         /* SIZE_MAX: zero-terminated */
    int space;                        /* FORNAX_SPACE_COMPACT, _BOUNDED (default 0), _ANY */
    int any_order, any_number;        /* properties in any order; any spelling of numbers */
    int annotate_formats, strict_formats;
} fornax_grammar_options;
FORNAX_API fornax_status fornax_grammar_compile(fornax_grammar **out, fornax_context *ctx, const fornax_grammar_options *opt, fornax_error *err);
FORNAX_API const char *fornax_grammar_warnings(const fornax_grammar *g);    /* one a line, or "" */
FORNAX_API void fornax_grammar_close(fornax_grammar *g);

typedef struct fornax_vocabulary fornax_vocabulary;   /* tokens prepared for masks; made once, shared */
/* of a tokenizer: kept with it (fornax_model's requests use the model's own; n = the model's vocab_size) */
FORNAX_API fornax_status fornax_vocabulary_open(fornax_vocabulary **out, const fornax_tokenizer *tok, fornax_error *err);
/* of byte strings; special[i] nonzero: no text */
FORNAX_API fornax_status fornax_vocabulary_of_tokens(fornax_vocabulary **out, fornax_context *ctx, const fornax_string *tokens,
        const unsigned char *special, size_t n, const int32_t *eos, size_t n_eos, fornax_error *err);
FORNAX_API void fornax_vocabulary_close(fornax_vocabulary *v);

typedef struct fornax_matcher fornax_matcher;         /* one sequence's place; one thread at a time */
FORNAX_API fornax_status fornax_matcher_open(fornax_matcher **out, fornax_grammar *g, fornax_vocabulary *v, fornax_error *err);
FORNAX_API fornax_status fornax_matcher_mask(fornax_matcher *m, uint32_t *bits, size_t words, fornax_error *err);
FORNAX_API fornax_status fornax_matcher_accept(fornax_matcher *m, int32_t id, fornax_error *err);
FORNAX_API void fornax_matcher_rollback(fornax_matcher *m, size_t n);
FORNAX_API int fornax_matcher_can_end(const fornax_matcher *m);
FORNAX_API void fornax_matcher_close(fornax_matcher *m);

/* in api.h, for the engine:  struct fornax_grammar { ...; fx_gram *gram; } and
 * fx_status fx_api_vocab(fx_gvocab **out, fornax_model *model, fx_error *err);   made when first asked for, under a lock */
