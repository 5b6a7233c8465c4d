/* api_grammar.c - fornax_grammar, fornax_vocabulary and fornax_matcher over grammar/. */
#include <string.h>

#include "api/api.h"
#include "grammar/ebnf.h"
#include "grammar/matcher.h"

enum { CACHE_BYTES = 64 << 20, CACHE_ENTRIES = 256 };

struct fornax_grammar {
    fornax_context *ctx;
    fx_gram *g;
    fx_buf warnings;
    fx_buf key;                  /* what it was made from */
    uint64_t hash;
    atomic_int refs;             /* owners, and 1 while it is in the cache */
};

struct fornax_vocabulary {
    fornax_context *ctx;
    fx_gvocab *v;
};

struct fornax_matcher {
    fornax_context *ctx;
    fx_matcher *m;
};

/* ---- Kinds of source ------------------------------------------------------------------- */

/* The options of schemas, with the documents' list in *strs, which the caller frees. */
static fx_status schema_options(fx_schema_options *o, fx_str **strs, const fx_grammar_source *s, fx_error *err)
{
    size_t n = s->o.n_documents;

    *strs = fx_mem_array(s->mem, 2 * n + 1, sizeof(**strs));
    if (!*strs)
        return fx_nomem(err, "a grammar");
    *o = (fx_schema_options){ .any_order = s->o.any_order, .any_number = s->o.any_number,
                              .annotate_formats = s->o.annotate_formats, .strict_formats = s->o.strict_formats,
                              .remote_uris = *strs, .remote_texts = *strs + n, .n_remotes = n };
    for (size_t i = 0; i < n; i++) {
        (*strs)[i] = fx_str_of(s->o.document_uris[i]);
        (*strs)[n + i] = fx_str_of(s->o.documents[i]);
    }
    return FORNAX_OK;
}

static void free_strs(const fx_grammar_source *s, fx_str *strs)
{
    fx_mem_free(s->mem, strs, (2 * s->o.n_documents + 1) * sizeof(*strs));
}

static fx_status build_schema(fx_gnode *root, fx_gram_builder *b, const fx_grammar_source *s, fx_buf *warnings,
                              fx_error *err)
{
    fx_schema_options o;
    fx_str *strs;
    fx_status st;

    FX_TRY(schema_options(&o, &strs, s, err));
    st = fx_schema_build(root, b, s->mem, s->text, &o, warnings, err);
    free_strs(s, strs);
    return st;
}

static int32_t find_special(const void *user, fx_str spelling)
{
    const fornax_tokenizer *tok = user;
    int32_t id = tok->t ? fx_tokenizer_find(tok->t, spelling) : -1;

    return id >= 0 && fx_tokenizer_special(tok->t, id) ? id : -1;
}

static fx_status build_ebnf(fx_gnode *root, fx_gram_builder *b, const fx_grammar_source *s, fx_buf *warnings,
                            fx_error *err)
{
    const fornax_tokenizer *tok = s->o.tokenizer;
    fx_schema_options o;
    fx_str *strs;
    fx_status st;

    FX_TRY(schema_options(&o, &strs, s, err));
    st = fx_ebnf_build(root, b, s->mem, s->text,
                       &(fx_ebnf_options){ .name = "grammar", .find_token = tok ? find_special : NULL, .user = tok,
                                           .schema = &o }, warnings, err);
    free_strs(s, strs);
    return st;
}

static fx_status build_regex(fx_gnode *root, fx_gram_builder *b, const fx_grammar_source *s, fx_buf *warnings,
                             fx_error *err)
{
    fx_re re;

    (void)warnings;
    FX_TRY(fx_re_ecma(&re, fx_gram_regexes(b), FX_SPELL_UTF8, s->text, true, err));
    *root = fx_gram_lexeme(b, re);
    return FORNAX_OK;
}

static fx_status build_choice(fx_gnode *root, fx_gram_builder *b, const fx_grammar_source *s, fx_buf *warnings,
                              fx_error *err)
{
    json_error_t why;
    json_t *list = json_loadb(s->text.p, s->text.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why), *x;
    fx_re_pool *p = fx_gram_regexes(b);
    size_t i, n = json_array_size(list);
    fx_re *kids = fx_mem_array(s->mem, n + 1, sizeof(*kids));
    fx_status st = kids ? FORNAX_OK : fx_nomem(err, "a grammar");

    (void)warnings;
    if (st == FORNAX_OK && n == 0)
        st = fx_fail_param(err, FORNAX_EFORMAT, "choice", "choice: expected a JSON array of strings, one or more");
    json_array_foreach(list, i, x) {
        if (st == FORNAX_OK && !json_is_string(x))
            st = fx_fail_param(err, FORNAX_EFORMAT, "choice", "choice: expected a string at index %zu", i);
        if (st == FORNAX_OK)
            kids[i] = fx_re_literal(p, fx_str_n(json_string_value(x), json_string_length(x)));
    }
    if (st == FORNAX_OK)
        *root = fx_gram_lexeme(b, fx_re_alt_of(p, kids, n));
    fx_mem_free(s->mem, kids, (n + 1) * sizeof(*kids));
    json_decref(list);
    return st;
}

static const struct {
    const char *name;
    fx_status (*build)(fx_gnode *root, fx_gram_builder *b, const fx_grammar_source *s, fx_buf *warnings, fx_error *err);
} kinds[] = {
    { "json_schema", build_schema },
    { "regex", build_regex },
    { "choice", build_choice },
    { "ebnf", build_ebnf },
};

static const struct { const char *name; fx_gram_space space; } spaces[] = {
    { "neat", FX_SPACE_NEAT }, { "bounded", FX_SPACE_BOUNDED }, { "compact", FX_SPACE_COMPACT }, { "any", FX_SPACE_ANY },
};

/* ---- Grammars ----------------------------------------------------------------------------- */

static fx_status find_options(const fornax_grammar_options *o, size_t *kind, fx_gram_space *space, fx_error *err)
{
    size_t k = 0, s = 0;

    while (k < FX_COUNT(kinds) && o->kind && strcmp(kinds[k].name, o->kind) != 0)
        k++;
    while (s < FX_COUNT(spaces) && o->space && strcmp(spaces[s].name, o->space) != 0)
        s++;
    if (k == FX_COUNT(kinds))
        return fx_fail_param(err, FORNAX_EARG, "kind", "kind: no grammar of the kind '%s'", o->kind);
    if (s == FX_COUNT(spaces))
        return fx_fail_param(err, FORNAX_EARG, "space", "space: expected neat, bounded, compact or any, found '%s'", o->space);
    if (o->n_documents && (!o->document_uris || !o->documents))
        return fx_fail_param(err, FORNAX_EARG, "documents", "documents: NULL with a count of %zu", o->n_documents);
    *kind = k;
    *space = spaces[s].space;
    return FORNAX_OK;
}

fx_status fx_api_source(fx_grammar_source *s, const fx_mem *mem, const char *text, size_t n, const fornax_grammar_options *given,
                        fx_error *err)
{
    fx_gram_space space;
    size_t kind;

    *s = (fx_grammar_source){ .text = fx_str_n(text, n == SIZE_MAX ? strlen(text) : n), .o = FORNAX_OPTIONS(fornax_grammar_options),
                              .mem = mem };
    FX_TRY(fx_api_options(&s->o, sizeof(s->o), given, "fornax_grammar_options", err));
    return find_options(&s->o, &kind, &space, err);
}

static void put_part(fx_buf *key, fx_str part)
{
    fx_buf_printf(key, "%zu:", part.n);
    fx_buf_str(key, part);
}

/* What a grammar that names special tokens depends on: their ids and spellings. */
static uint64_t specials_hash(const fornax_tokenizer *tok)
{
    uint64_t h = 0;

    for (size_t id = 0; tok && tok->t && id < fx_tokenizer_size(tok->t); id++)
        if (fx_tokenizer_special(tok->t, (int32_t)id)) {
            fx_str s = fx_tokenizer_spelling(tok->t, (int32_t)id);

            h = fx_hash64(s.p, s.n, h ^ id * 0x9E3779B97F4A7C15ull);
        }
    return h;
}

void fx_api_source_key(fx_buf *key, const fx_grammar_source *s)
{
    const fornax_grammar_options *o = &s->o;

    fx_buf_printf(key, "%s %s %d %d %d %d %d\n", o->kind ? o->kind : "json_schema", o->space ? o->space : spaces[0].name, o->any_order != 0,
                  o->any_number != 0, o->annotate_formats != 0, o->strict_formats != 0, o->allow_never != 0);
    for (size_t i = 0; i < o->n_documents; i++) {
        put_part(key, fx_str_of(o->document_uris[i]));
        put_part(key, fx_str_of(o->documents[i]));
    }
    if (o->kind && !strcmp(o->kind, "ebnf"))
        fx_buf_printf(key, "%llx ", (unsigned long long)specials_hash(o->tokenizer));
    put_part(key, s->text);
}

fx_status fx_api_source_build(const fx_grammar_source *s, fx_gnode *root, fx_gram_builder *b, fx_buf *warnings, fx_error *err)
{
    fx_gram_space space = spaces[0].space;
    size_t kind = 0;

    FX_TRY(find_options(&s->o, &kind, &space, err));
    fx_gram_set_space(b, space);
    return kinds[kind].build(root, b, s, warnings, err);
}

/* ---- The cache: newest first ------------------------------------------------------------------ */

static void unref(fornax_grammar *g)
{
    const fx_mem *mem = &g->ctx->mem;

    if (atomic_fetch_sub(&g->refs, 1) != 1)
        return;
    if (g->g)
        fx_gram_unref(g->g);
    fx_buf_done(&g->warnings);
    fx_buf_done(&g->key);
    fx_mem_free(mem, g, sizeof(*g));
}

static fornax_grammar *find_cached(fx_grammar_cache *c, uint64_t hash, fx_str key)
{
    for (size_t i = 0; i < c->n; i++) {
        fornax_grammar *g = c->at[i];

        if (g->hash != hash || !fx_str_eq(fx_buf_view(&g->key), key))
            continue;
        memmove(c->at + 1, c->at, i * sizeof(*c->at));
        c->at[0] = g;
        atomic_fetch_add(&g->refs, 1);
        return g;
    }
    return NULL;
}

/* The lazily made states of a grammar grow after it came in, so all are counted anew. */
static void keep_cached(fx_grammar_cache *c, fornax_grammar *g)
{
    size_t bytes = 0, n = 0;

    if (fx_gram_bytes(g->g) > CACHE_BYTES)
        return;
    if (c->n == CACHE_ENTRIES)
        unref(c->at[--c->n]);
    memmove(c->at + 1, c->at, c->n * sizeof(*c->at));
    c->at[0] = g;
    c->n++;
    atomic_fetch_add(&g->refs, 1);
    while (n < c->n && (bytes += fx_gram_bytes(c->at[n]->g)) <= CACHE_BYTES)
        n++;
    while (c->n > n)
        unref(c->at[--c->n]);
}

fx_status fx_grammar_cache_init(fx_grammar_cache *c, const fx_mem *mem, fx_error *err)
{
    c->mem = mem;
    c->n = 0;
    c->at = fx_mem_array(mem, CACHE_ENTRIES, sizeof(*c->at));
    if (!c->at)
        return fx_nomem(err, "a context");
    pthread_mutex_init(&c->lock, NULL);
    return FORNAX_OK;
}

void fx_grammar_cache_done(fx_grammar_cache *c)
{
    if (!c->at)
        return;
    while (c->n > 0)
        unref(c->at[--c->n]);
    fx_mem_free(c->mem, c->at, CACHE_ENTRIES * sizeof(*c->at));
    pthread_mutex_destroy(&c->lock);
}

/* ---- Making ---------------------------------------------------------------------------------------- */

/* A new one with the key, or the cached one that has it. */
static fx_status begin(fornax_grammar **out, fornax_context *ctx, fx_buf *key, bool *cached, fx_error *err)
{
    fornax_grammar *g = fx_mem_zalloc(&ctx->mem, sizeof(*g)), *found;

    if (!g || key->failed) {
        fx_mem_free(&ctx->mem, g, g ? sizeof(*g) : 0);
        fx_buf_done(key);
        return fx_nomem(err, "a grammar");
    }
    g->ctx = ctx;
    atomic_store(&g->refs, 1);
    fx_buf_init(&g->warnings, &ctx->mem);
    g->key = *key;
    g->hash = fx_hash64(g->key.p, g->key.n, 0);
    pthread_mutex_lock(&ctx->grammars.lock);
    found = find_cached(&ctx->grammars, g->hash, fx_buf_view(&g->key));
    pthread_mutex_unlock(&ctx->grammars.lock);
    *cached = found != NULL;
    if (found)
        unref(g);
    *out = found ? found : g;
    return FORNAX_OK;
}

static fx_status build(fornax_grammar *g, const fx_gram_limits *limits, fx_grammar_build_fn fn, void *user, fx_error *err)
{
    fx_gram_builder *b = fx_gram_builder_new(&g->ctx->mem, limits);
    fx_gnode root = FX_GNODE_NEVER;
    fx_status st;

    if (!b)
        return fx_nomem(err, "a grammar");
    st = fn(user, &root, b, &g->warnings, err);
    if (st != FORNAX_OK) {
        fx_gram_builder_free(b);
        return st;
    }
    FX_TRY(fx_gram_finish(&g->g, b, root, err));
    return g->warnings.failed ? fx_nomem(err, "a grammar") : FORNAX_OK;
}

fx_status fx_api_grammar(fornax_grammar **out, fornax_context *ctx, fx_buf *key, const fx_gram_limits *limits,
                         fx_grammar_build_fn fn, void *user, fx_error *err)
{
    fornax_grammar *g = NULL;
    bool cached;
    fx_status st;

    FX_TRY(begin(&g, ctx, key, &cached, err));
    if (!cached) {
        st = build(g, limits, fn, user, err);
        if (st != FORNAX_OK) {
            unref(g);
            return st;
        }
        pthread_mutex_lock(&ctx->grammars.lock);
        keep_cached(&ctx->grammars, g);
        pthread_mutex_unlock(&ctx->grammars.lock);
    }
    *out = g;
    return FORNAX_OK;
}

static fx_status build_source(void *user, fx_gnode *root, fx_gram_builder *b, fx_buf *warnings, fx_error *err)
{
    return fx_api_source_build(user, root, b, warnings, err);
}

fornax_status fornax_grammar_open(fornax_grammar **out, fornax_context *ctx, const char *text, size_t n,
                                 const fornax_grammar_options *opt, fornax_error *err)
{
    fx_gram_limits limits = { 0 };
    fx_grammar_source s;
    fx_buf key;

    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(ctx);
    FX_API_NEED(text);
    FX_TRY(fx_api_usable(ctx, err));
    FX_TRY(fx_api_source(&s, &ctx->mem, text, n, opt, err));
    limits.allow_never = s.o.allow_never;
    fx_buf_init(&key, &ctx->mem);
    fx_api_source_key(&key, &s);
    return fx_api_grammar(out, ctx, &key, &limits, build_source, &s, err);
}

const char *fornax_grammar_warnings(const fornax_grammar *g) { return g ? fx_buf_view(&g->warnings).p : ""; }
size_t fornax_grammar_bytes(const fornax_grammar *g) { return g ? fx_gram_bytes(g->g) : 0; }
fx_gram *fx_api_gram(const fornax_grammar *g) { return g->g; }

void fornax_grammar_close(fornax_grammar *g)
{
    if (g)
        unref(g);
}

/* ---- Vocabularies ------------------------------------------------------------------------------ */

static fx_str tokenizer_bytes(const void *user, int32_t id) { return fx_tokenizer_bytes(user, id); }
static bool tokenizer_special(const void *user, int32_t id) { return fx_tokenizer_special(user, id); }

static fx_str listed_bytes(const void *user, int32_t id)
{
    const fornax_token *t = user;

    return fx_str_n(t[id].bytes, t[id].bytes ? t[id].n : 0);
}

static bool listed_special(const void *user, int32_t id) { return ((const fornax_token *)user)[id].special; }

static fx_status new_vocabulary(fornax_vocabulary **out, fornax_context *ctx, const fx_gvocab_desc *d, fx_error *err)
{
    fornax_vocabulary *v = fx_mem_zalloc(&ctx->mem, sizeof(*v));
    fx_status st;

    if (!v)
        return fx_nomem(err, "a vocabulary");
    v->ctx = ctx;
    st = fx_gvocab_new(&v->v, &ctx->mem, d, err);
    if (st != FORNAX_OK) {
        fx_mem_free(&ctx->mem, v, sizeof(*v));
        return st;
    }
    *out = v;
    return FORNAX_OK;
}

fornax_status fornax_vocabulary_open(fornax_vocabulary **out, fornax_context *ctx, const fornax_tokenizer *tok,
                                    fornax_error *err)
{
    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(ctx);
    FX_API_NEED(tok);
    FX_TRY(fx_api_usable(ctx, err));
    if (!tok->t)
        return fx_fail(err, FORNAX_EUNSUP, "the tokenizer has a chat template only");
    return new_vocabulary(out, ctx, &(fx_gvocab_desc){ .n = fx_tokenizer_size(tok->t), .bytes = tokenizer_bytes,
                                                       .special = tokenizer_special, .user = tok->t, .eos = tok->eos,
                                                       .n_eos = tok->n_eos }, err);
}

fornax_status fornax_vocabulary_open_tokens(fornax_vocabulary **out, fornax_context *ctx, const fornax_token *tokens, size_t n,
                                   const int32_t *eos, size_t n_eos, fornax_error *err)
{
    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(ctx);
    FX_API_NEED(tokens);
    if (n_eos)
        FX_API_NEED(eos);
    FX_TRY(fx_api_usable(ctx, err));
    return new_vocabulary(out, ctx, &(fx_gvocab_desc){ .n = n, .bytes = listed_bytes, .special = listed_special,
                                                       .user = tokens, .eos = eos, .n_eos = n_eos }, err);
}

/* Logits may be wider than the tokenizer: what has no bytes is never allowed. */
static fx_str model_bytes(const void *user, int32_t id)
{
    return (size_t)id < fx_tokenizer_size(user) ? fx_tokenizer_bytes(user, id) : (fx_str){ 0 };
}

static bool model_special(const void *user, int32_t id)
{
    return (size_t)id < fx_tokenizer_size(user) && fx_tokenizer_special(user, id);
}

fx_status fx_api_vocab(fx_gvocab **out, fornax_model *m, fx_error *err)
{
    const fx_gvocab_desc d = { .n = (size_t)m->info.vocab_size, .bytes = model_bytes, .special = model_special,
                               .user = m->tok->t, .eos = m->tok->eos, .n_eos = m->tok->n_eos };
    fx_status st = FORNAX_OK;

    if (!m->tok->t)
        return fx_fail_param(err, FORNAX_EUNSUP, "grammar", "grammar: the model has no tokenizer");
    pthread_mutex_lock(&m->vocab_lock);
    if (!m->vocab)
        st = fx_gvocab_new(&m->vocab, &m->ctx->mem, &d, err);
    *out = m->vocab;
    pthread_mutex_unlock(&m->vocab_lock);
    return st;
}

size_t fornax_vocabulary_words(const fornax_vocabulary *v) { return v ? fx_gvocab_words(v->v) : 0; }

void fornax_vocabulary_close(fornax_vocabulary *v)
{
    if (!v)
        return;
    fx_gvocab_unref(v->v);
    fx_mem_free(&v->ctx->mem, v, sizeof(*v));
}

/* ---- Matchers -------------------------------------------------------------------------------------- */

static fx_status wrap(fornax_matcher **out, fornax_context *ctx, fx_matcher *m, fx_error *err)
{
    fornax_matcher *x = fx_mem_zalloc(&ctx->mem, sizeof(*x));

    if (!x) {
        fx_matcher_free(m);
        return fx_nomem(err, "a matcher");
    }
    x->ctx = ctx;
    x->m = m;
    *out = x;
    return FORNAX_OK;
}

fornax_status fornax_matcher_open(fornax_matcher **out, fornax_grammar *g, fornax_vocabulary *v, fornax_error *err)
{
    fx_matcher *m;

    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(g);
    FX_API_NEED(v);
    FX_TRY(fx_api_usable(g->ctx, err));
    FX_TRY(fx_matcher_new(&m, &g->ctx->mem, g->g, v->v, err));
    return wrap(out, g->ctx, m, err);
}

fornax_status fornax_matcher_copy(fornax_matcher **out, const fornax_matcher *m, fornax_error *err)
{
    fx_matcher *c;

    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(m);
    FX_TRY(fx_api_usable(m->ctx, err));
    FX_TRY(fx_matcher_copy(&c, m->m, err));
    return wrap(out, m->ctx, c, err);
}

void fornax_matcher_close(fornax_matcher *m)
{
    if (!m)
        return;
    fx_matcher_free(m->m);
    fx_mem_free(&m->ctx->mem, m, sizeof(*m));
}

fornax_status fornax_matcher_mask(fornax_matcher *m, uint32_t *words, fornax_error *err)
{
    FX_API_NEED(m);
    FX_API_NEED(words);
    FX_TRY(fx_api_usable(m->ctx, err));
    return fx_matcher_mask(m->m, words, err);
}

fornax_status fornax_matcher_accept(fornax_matcher *m, int32_t id, fornax_error *err)
{
    FX_API_NEED(m);
    FX_TRY(fx_api_usable(m->ctx, err));
    return fx_matcher_accept(m->m, id, err);
}

fornax_status fornax_matcher_accept_text(fornax_matcher *m, const char *text, size_t n, fornax_error *err)
{
    FX_API_NEED(m);
    if (n)
        FX_API_NEED(text);
    FX_TRY(fx_api_usable(m->ctx, err));
    return fx_matcher_accept_bytes(m->m, fx_str_n(text, n), err);
}

fornax_status fornax_matcher_rollback(fornax_matcher *m, size_t n, fornax_error *err)
{
    FX_API_NEED(m);
    FX_TRY(fx_api_usable(m->ctx, err));
    if (n > fx_matcher_length(m->m))
        return fx_fail_param(err, FORNAX_EARG, "n", "n: expected at most %zu, found %zu", fx_matcher_length(m->m), n);
    fx_matcher_rollback(m->m, n);
    return FORNAX_OK;
}

int fornax_matcher_can_end(const fornax_matcher *m) { return m && fx_matcher_can_end(m->m); }
int fornax_matcher_must_end(const fornax_matcher *m) { return m && fx_matcher_must_end(m->m); }

fornax_status fornax_matcher_forced(fornax_matcher *m, size_t limit, fornax_text **out, fornax_error *err)
{
    fx_status st;
    fx_buf b;

    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(m);
    FX_TRY(fx_api_usable(m->ctx, err));
    fx_buf_init(&b, &m->ctx->mem);
    st = fx_matcher_forced(m->m, limit, &b, err);
    if (st == FORNAX_OK)
        return fx_api_text(out, &m->ctx->mem, &b, err);
    fx_buf_done(&b);
    return st;
}
