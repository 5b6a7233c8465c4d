/* api_grammar.c - fornax_grammar, fornax_vocabulary and fornax_matcher over grammar/. */
#include "api/api.h"
#include "grammar/matcher.h"
#include "grammar/schema.h"

struct fornax_grammar {
    fornax_context *ctx;
    fx_gram *g;
    fx_buf warnings;
};

struct fornax_vocabulary {
    fornax_context *ctx;
    fx_gvocab *v;
};

struct fornax_matcher {
    fornax_context *ctx;
    fx_matcher *m;
};

typedef struct source {
    fornax_context *ctx;
    fx_str text;
    const fornax_grammar_options *opt;
    fx_buf *warnings;
} source;

/* ---- Kinds of source ------------------------------------------------------------------- */

static fx_status build_schema(fx_gnode *root, fx_gram_builder *b, const source *s, fx_error *err)
{
    const fx_mem *mem = &s->ctx->mem;
    size_t n = s->opt->n_documents;
    fx_str *strs = fx_mem_array(mem, 2 * n + 1, sizeof(*strs));
    fx_schema_options o = { .any_order = s->opt->any_order, .any_number = s->opt->any_number,
                            .annotate_formats = s->opt->annotate_formats, .strict_formats = s->opt->strict_formats,
                            .remote_uris = strs, .remote_texts = strs + n, .n_remotes = n };
    fx_status st;

    if (!strs)
        return fx_nomem(err, "a grammar");
    for (size_t i = 0; i < n; i++) {
        strs[i] = fx_str_of(s->opt->document_uris[i]);
        strs[n + i] = fx_str_of(s->opt->documents[i]);
    }
    st = fx_schema_build(root, b, mem, s->text, &o, s->warnings, err);
    fx_mem_free(mem, strs, (2 * n + 1) * sizeof(*strs));
    return st;
}

static fx_status build_regex(fx_gnode *root, fx_gram_builder *b, const source *s, fx_error *err)
{
    fx_re re;

    FX_TRY(fx_re_ecma(&re, fx_gram_regexes(b), FX_SPELL_UTF8, s->text, true, err));
    *root = fx_gram_lexeme(b, re);
    return FORNAX_OK;
}

static fx_status build_choice(fx_gnode *root, fx_gram_builder *b, const source *s, fx_error *err)
{
    json_error_t why;
    json_t *list = json_loadb(s->text.p, s->text.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why), *x;
    fx_re_pool *p = fx_gram_regexes(b);
    size_t i, n = json_array_size(list);
    fx_re *kids = fx_mem_array(&s->ctx->mem, n + 1, sizeof(*kids));
    fx_status st = kids ? FORNAX_OK : fx_nomem(err, "a grammar");

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
    fx_mem_free(&s->ctx->mem, kids, (n + 1) * sizeof(*kids));
    json_decref(list);
    return st;
}

static const struct {
    const char *name;
    fx_status (*build)(fx_gnode *root, fx_gram_builder *b, const source *s, fx_error *err);
} kinds[] = {
    { "json_schema", build_schema },
    { "regex", build_regex },
    { "choice", build_choice },
};

static const struct { const char *name; fx_gram_space space; } spaces[] = {
    { "bounded", FX_SPACE_BOUNDED }, { "compact", FX_SPACE_COMPACT }, { "any", FX_SPACE_ANY },
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
        return fx_fail_param(err, FORNAX_EARG, "space", "space: expected bounded, compact or any, found '%s'", o->space);
    if (o->n_documents && (!o->document_uris || !o->documents))
        return fx_fail_param(err, FORNAX_EARG, "documents", "documents: NULL with a count of %zu", o->n_documents);
    *kind = k;
    *space = spaces[s].space;
    return FORNAX_OK;
}

static fx_status build(fx_gram **out, const source *s, fx_error *err)
{
    fx_gram_limits limits = { .allow_never = s->opt->allow_never };
    fx_gram_space space = FX_SPACE_BOUNDED;
    fx_gram_builder *b;
    fx_gnode root = FX_GNODE_NEVER;
    fx_status st;
    size_t kind = 0;

    FX_TRY(find_options(s->opt, &kind, &space, err));
    b = fx_gram_builder_new(&s->ctx->mem, &limits);
    if (!b)
        return fx_nomem(err, "a grammar");
    fx_gram_set_space(b, space);
    st = kinds[kind].build(&root, b, s, err);
    if (st != FORNAX_OK) {
        fx_gram_builder_free(b);
        return st;
    }
    return fx_gram_finish(out, b, root, err);
}

fornax_status fornax_grammar_new(fornax_grammar **out, fornax_context *ctx, const char *text, size_t n,
                                 const fornax_grammar_options *opt, fornax_error *err)
{
    fornax_grammar_options o = FORNAX_OPTIONS(fornax_grammar_options);
    fornax_grammar *g;
    fx_status st;

    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(ctx);
    FX_API_NEED(text);
    FX_TRY(fx_api_usable(ctx, err));
    FX_TRY(fx_api_options(&o, sizeof(o), opt, "fornax_grammar_options", err));
    g = fx_mem_zalloc(&ctx->mem, sizeof(*g));
    if (!g)
        return fx_nomem(err, "a grammar");
    g->ctx = ctx;
    fx_buf_init(&g->warnings, &ctx->mem);
    st = build(&g->g, &(source){ ctx, fx_str_n(text, n), &o, &g->warnings }, err);
    if (st == FORNAX_OK && g->warnings.failed)
        st = fx_nomem(err, "a grammar");
    if (st != FORNAX_OK) {
        fornax_grammar_close(g);
        return st;
    }
    *out = g;
    return FORNAX_OK;
}

const char *fornax_grammar_warnings(const fornax_grammar *g) { return g ? fx_buf_view(&g->warnings).p : ""; }
size_t fornax_grammar_bytes(const fornax_grammar *g) { return g ? fx_gram_bytes(g->g) : 0; }

void fornax_grammar_close(fornax_grammar *g)
{
    if (!g)
        return;
    fx_gram_unref(g->g);
    fx_buf_done(&g->warnings);
    fx_mem_free(&g->ctx->mem, g, sizeof(*g));
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

fornax_status fornax_vocabulary_new(fornax_vocabulary **out, fornax_context *ctx, const fornax_tokenizer *tok,
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

fornax_status fornax_vocabulary_of(fornax_vocabulary **out, fornax_context *ctx, const fornax_token *tokens, size_t n,
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

fornax_status fornax_matcher_new(fornax_matcher **out, fornax_grammar *g, fornax_vocabulary *v, fornax_error *err)
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
