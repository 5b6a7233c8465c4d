/* tokenizer_json.c - a tokenizer from tokenizer.json and tokenizer_config.json.
 *
 * The file is a chain of components, each an object with a "type".  One table per
 * kind of component maps the type to the function that turns it into steps; a
 * type that isn't in its table is FORNAX_EUNSUP and named. */
#include <jansson.h>
#include <math.h>

#include "base/text.h"
#include "text/runes.h"
#include "text/spm_file.h"
#include "text/tokenizer_impl.h"
#include "text/vocab_json.h"

#define NESTING_MAX 16          /* of Sequence in Sequence */

typedef struct loader {
    fx_tokenizer *t;
    const json_t *config;       /* tokenizer_config.json or NULL */
    fx_vocab_json tables;
    size_t n_entries;           /* distinct tokens of the model */
    fx_error *err;
    int depth;
    bool raw_added;             /* added tokens are matched in the raw text, whatever they say */
} loader;

typedef struct component {
    const char *type;
    fx_status (*read)(loader *l, const json_t *o, const char *where);
} component;

/* ---- Fields ----------------------------------------------------------------------- */

static fx_str text_of(const json_t *s)
{
    return fx_str_n(json_string_value(s), json_string_length(s));
}

static fx_status wrong(loader *l, const char *where, const char *key, const char *what)
{
    return fx_fail(l->err, FORNAX_EFORMAT, "tokenizer.json: %s: \"%s\": expected %s", where, key, what);
}

static fx_status no_room(loader *l)
{
    return fx_nomem(l->err, "a tokenizer");
}

/* A boolean; 'missing' 0 or 1 is its default, -1: it must be there. */
static fx_status get_bool(loader *l, const json_t *o, const char *where, const char *key, int missing, bool *out)
{
    const json_t *v = json_object_get(o, key);

    if (v ? !json_is_boolean(v) : missing < 0)
        return wrong(l, where, key, "true or false");
    *out = v ? json_is_true(v) : missing == 1;
    return FORNAX_OK;
}

/* A string kept in the arena; absent or null: p NULL, if 'optional'. */
static fx_status get_text(loader *l, const json_t *o, const char *where, const char *key, bool optional, fx_str *out)
{
    const json_t *v = json_object_get(o, key);

    *out = (fx_str){ NULL, 0 };
    if (optional && (!v || json_is_null(v)))
        return FORNAX_OK;
    if (!json_is_string(v))
        return wrong(l, where, key, "a string");
    *out = fx_tokenizer_keep(l->t, text_of(v));
    return out->p ? FORNAX_OK : no_room(l);
}

static fx_status get_count(loader *l, const json_t *o, const char *where, const char *key, size_t missing, size_t *out)
{
    const json_t *v = json_object_get(o, key);

    if (v && (!json_is_integer(v) || json_integer_value(v) < 0))
        return wrong(l, where, key, "a count");
    *out = v ? (size_t)json_integer_value(v) : missing;
    return FORNAX_OK;
}

/* A string of exactly one character. */
static fx_status get_character(loader *l, const json_t *o, const char *where, const char *key, fx_str *out)
{
    FX_TRY(get_text(l, o, where, key, false, out));
    return fx_utf8_count(*out) == 1 ? FORNAX_OK : wrong(l, where, key, "one character");
}

/* {"String": s} or {"Regex": r}; an empty literal would match everywhere. */
static fx_status get_pattern(loader *l, const json_t *o, const char *where, fx_regex **regex, fx_str *literal)
{
    const json_t *p = json_object_get(o, "pattern"), *s = json_object_get(p, "String"), *r = json_object_get(p, "Regex");
    char path[96];

    *regex = NULL;
    if (json_is_string(s)) {
        *literal = fx_tokenizer_keep(l->t, text_of(s));
        if (!literal->p)
            return no_room(l);
        return literal->n ? FORNAX_OK : wrong(l, where, "pattern", "a string that isn't empty");
    }
    if (!json_is_string(r))
        return wrong(l, where, "pattern", "{\"String\": ..} or {\"Regex\": ..}");
    snprintf(path, sizeof(path), "tokenizer.json: %s", where);
    return fx_regex_compile(regex, l->t->mem, text_of(r), path, l->err);
}

static fx_status dispatch(loader *l, const json_t *o, const char *where, const component *table)
{
    const json_t *type = json_object_get(o, "type");

    if (!json_is_string(type))
        return wrong(l, where, "type", "an object with a type");
    for (; table->type; table++)
        if (fx_str_is(text_of(type), table->type))
            return table->read(l, o, where);
    return fx_fail(l->err, FORNAX_EUNSUP, "tokenizer.json: %s of type \"%s\" is not supported", where,
                   FX_SHOW(text_of(type)));
}

/* A Sequence: each member of the list 'key' by the same table. */
static fx_status each(loader *l, const json_t *o, const char *where, const char *key, const component *table)
{
    const json_t *list = json_object_get(o, key), *v;
    fx_status st = FORNAX_OK;
    size_t i;

    if (!json_is_array(list))
        return wrong(l, where, key, "a list");
    if (++l->depth > NESTING_MAX)
        return fx_fail(l->err, FORNAX_EUNSUP, "tokenizer.json: %s: sequences nested deeper than %d", where, NESTING_MAX);
    json_array_foreach(list, i, v)
        if ((st = dispatch(l, v, where, table)) != FORNAX_OK)
            break;
    l->depth--;
    return st;
}

static fx_status too_many(loader *l, const char *where)
{
    return fx_fail(l->err, FORNAX_EUNSUP, "tokenizer.json: %s: more than %d steps", where, FX_STEPS_MAX);
}

/* ---- Normalizers ---------------------------------------------------------------------- */

static fx_status add_norm(loader *l, const char *where, fx_norm_kind kind, fx_norm_step **out)
{
    *out = fx_tokenizer_add_norm(l->t, kind);
    return *out ? FORNAX_OK : too_many(l, where);
}

#define PLAIN_NORM(name, kind)                                                      \
    static fx_status name(loader *l, const json_t *o, const char *where)            \
    {                                                                               \
        fx_norm_step *s;                                                            \
        (void)o;                                                                    \
        return add_norm(l, where, kind, &s);                                        \
    }
PLAIN_NORM(norm_nfc, FX_NORM_NFC)
PLAIN_NORM(norm_nfd, FX_NORM_NFD)
PLAIN_NORM(norm_nfkc, FX_NORM_NFKC)
PLAIN_NORM(norm_nfkd, FX_NORM_NFKD)
PLAIN_NORM(norm_lower, FX_NORM_LOWER)
PLAIN_NORM(norm_accents, FX_NORM_STRIP_ACCENTS)
PLAIN_NORM(norm_nmt, FX_NORM_NMT)
PLAIN_NORM(norm_bytes, FX_NORM_BYTE_LEVEL)

static fx_status norm_strip(loader *l, const json_t *o, const char *where)
{
    fx_norm_step *s;

    FX_TRY(add_norm(l, where, FX_NORM_STRIP, &s));
    FX_TRY(get_bool(l, o, where, "strip_left", -1, &s->left));
    return get_bool(l, o, where, "strip_right", -1, &s->right);
}

static fx_status norm_replace(loader *l, const json_t *o, const char *where)
{
    fx_norm_step *s;

    FX_TRY(add_norm(l, where, FX_NORM_REPLACE, &s));
    FX_TRY(get_pattern(l, o, where, &s->pattern, &s->literal));
    return get_text(l, o, where, "content", false, &s->content);
}

static fx_status norm_prepend(loader *l, const json_t *o, const char *where)
{
    fx_norm_step *s;

    FX_TRY(add_norm(l, where, FX_NORM_PREPEND, &s));
    return get_text(l, o, where, "prepend", false, &s->content);
}

static fx_status norm_bert(loader *l, const json_t *o, const char *where)
{
    const json_t *accents = json_object_get(o, "strip_accents");
    fx_norm_step *s;

    FX_TRY(add_norm(l, where, FX_NORM_BERT, &s));
    FX_TRY(get_bool(l, o, where, "clean_text", -1, &s->clean));
    FX_TRY(get_bool(l, o, where, "handle_chinese_chars", -1, &s->spaced_cjk));
    FX_TRY(get_bool(l, o, where, "lowercase", -1, &s->lower));
    s->strip_accents = s->lower;
    if (!accents || json_is_null(accents))
        return FORNAX_OK;
    return get_bool(l, o, where, "strip_accents", -1, &s->strip_accents);
}

static int base64_digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;

    return at ? (int)(at - digits) : -1;
}

/* Into the arena; p NULL: not base64, or no memory (*failed). */
static fx_str base64_decode(fx_arena *a, fx_str s, bool *failed)
{
    char *out = fx_arena_alloc(a, s.n / 4 * 3 + 3);
    uint32_t bits = 0;
    size_t n = 0, n_bits = 0;

    *failed = !out;
    while (s.n && s.p[s.n - 1] == '=')
        s.n--;
    for (size_t i = 0; out && i < s.n; i++) {
        int d = base64_digit(s.p[i]);

        if (d < 0)
            return (fx_str){ NULL, 0 };
        bits = bits << 6 | (uint32_t)d;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            out[n++] = (char)(bits >> n_bits);
        }
    }
    return fx_str_n(out, n);
}

static fx_status norm_precompiled(loader *l, const json_t *o, const char *where)
{
    const json_t *v = json_object_get(o, "precompiled_charsmap");
    bool failed;
    fx_norm_step *s;
    fx_str blob;

    if (!json_is_string(v))
        return wrong(l, where, "precompiled_charsmap", "a string");
    blob = base64_decode(&l->t->arena, text_of(v), &failed);
    if (failed)
        return no_room(l);
    if (!blob.p)
        return wrong(l, where, "precompiled_charsmap", "base64");
    FX_TRY(add_norm(l, where, FX_NORM_PRECOMPILED, &s));
    return fx_charsmap_init(&s->charsmap, blob, "tokenizer.json: normalizer: precompiled_charsmap", l->err);
}

static fx_status norm_sequence(loader *l, const json_t *o, const char *where);
static const component normalizers[] = {
    { "Sequence", norm_sequence }, { "NFC", norm_nfc }, { "NFD", norm_nfd }, { "NFKC", norm_nfkc },
    { "NFKD", norm_nfkd }, { "Lowercase", norm_lower }, { "Strip", norm_strip }, { "StripAccents", norm_accents },
    { "Replace", norm_replace }, { "Prepend", norm_prepend }, { "BertNormalizer", norm_bert }, { "Nmt", norm_nmt },
    { "ByteLevel", norm_bytes }, { "Precompiled", norm_precompiled }, { NULL, NULL }
};

static fx_status norm_sequence(loader *l, const json_t *o, const char *where)
{
    return each(l, o, where, "normalizers", normalizers);
}

/* ---- Pre-tokenizers ------------------------------------------------------------------------ */

static fx_status add_cut(loader *l, const char *where, fx_pretok_kind kind, fx_pretok_step **out)
{
    *out = fx_tokenizer_add_cut(l->t, kind);
    return *out ? FORNAX_OK : too_many(l, where);
}

static fx_status add_pattern(loader *l, const char *where, const char *pattern, fx_pretok_step **out)
{
    FX_TRY(add_cut(l, where, FX_PRETOK_SPLIT, out));
    return fx_regex_compile(&(*out)->pattern, l->t->mem, fx_str_of(pattern), where, l->err);
}

static fx_status add_characters(loader *l, const char *where, bool (*is_match)(uint32_t), fx_cut cut)
{
    fx_pretok_step *s;

    FX_TRY(add_cut(l, where, FX_PRETOK_CHARACTERS, &s));
    s->is_match = is_match;
    s->cut = cut;
    return FORNAX_OK;
}

static fx_status get_behavior(loader *l, const json_t *o, const char *where, bool optional, fx_cut *out)
{
    static const struct { const char *name; fx_cut cut; } names[] = {
        { "Isolated", FX_CUT_ISOLATED }, { "Removed", FX_CUT_REMOVED }, { "Contiguous", FX_CUT_CONTIGUOUS },
        { "MergedWithPrevious", FX_CUT_MERGED_WITH_PREVIOUS }, { "MergedWithNext", FX_CUT_MERGED_WITH_NEXT },
    };
    const json_t *v = json_object_get(o, "behavior");

    *out = FX_CUT_ISOLATED;
    if (!v && optional)
        return FORNAX_OK;
    for (size_t i = 0; i < FX_COUNT(names) && json_is_string(v); i++)
        if (fx_str_is(text_of(v), names[i].name)) {
            *out = names[i].cut;
            return FORNAX_OK;
        }
    return wrong(l, where, "behavior", "Isolated, Removed, Contiguous, MergedWithPrevious or MergedWithNext");
}

static fx_status cut_split(loader *l, const json_t *o, const char *where)
{
    fx_pretok_step *s;

    FX_TRY(add_cut(l, where, FX_PRETOK_SPLIT, &s));
    FX_TRY(get_pattern(l, o, where, &s->pattern, &s->literal));
    FX_TRY(get_behavior(l, o, where, false, &s->cut));
    return get_bool(l, o, where, "invert", -1, &s->invert);
}

static fx_status cut_byte_level(loader *l, const json_t *o, const char *where)
{
    fx_pretok_step *s;
    bool space, pattern;

    FX_TRY(get_bool(l, o, where, "add_prefix_space", -1, &space));
    FX_TRY(get_bool(l, o, where, "use_regex", 1, &pattern));
    if (pattern)
        FX_TRY(add_pattern(l, where, fx_gpt2_pattern, &s));
    else if (space)
        FX_TRY(add_cut(l, where, FX_PRETOK_SPLIT, &s));     /* by nothing */
    if (space)
        s->prefix = FX_PREFIX_ALWAYS;
    return add_cut(l, where, FX_PRETOK_BYTE_LEVEL, &s);
}

static fx_status cut_digits(loader *l, const json_t *o, const char *where)
{
    bool each_digit;

    FX_TRY(get_bool(l, o, where, "individual_digits", -1, &each_digit));
    return add_characters(l, where, fx_rune_is_numeric, each_digit ? FX_CUT_ISOLATED : FX_CUT_CONTIGUOUS);
}

static fx_status cut_punctuation(loader *l, const json_t *o, const char *where)
{
    fx_cut cut;

    FX_TRY(get_behavior(l, o, where, true, &cut));
    return add_characters(l, where, fx_rune_is_punctuation, cut);
}

static fx_status cut_whitespace(loader *l, const json_t *o, const char *where)
{
    fx_pretok_step *s;

    (void)o;
    /* Here \w is Rust's, which has the two joiners. */
    FX_TRY(add_pattern(l, where, "[\\w\\x{200c}\\x{200d}]+|[^\\w\\s\\x{200c}\\x{200d}]+", &s));
    s->cut = FX_CUT_REMOVED;
    s->invert = true;
    return FORNAX_OK;
}

static fx_status cut_blanks(loader *l, const json_t *o, const char *where)
{
    (void)o;
    return add_characters(l, where, fx_rune_is_space, FX_CUT_REMOVED);
}

static fx_status cut_bert(loader *l, const json_t *o, const char *where)
{
    FX_TRY(cut_blanks(l, o, where));
    return add_characters(l, where, fx_rune_is_punctuation, FX_CUT_ISOLATED);
}

static fx_status cut_delimiter(loader *l, const json_t *o, const char *where)
{
    fx_pretok_step *s;

    FX_TRY(add_cut(l, where, FX_PRETOK_SPLIT, &s));
    s->cut = FX_CUT_REMOVED;
    return get_character(l, o, where, "delimiter", &s->literal);
}

static fx_status cut_length(loader *l, const json_t *o, const char *where)
{
    fx_pretok_step *s;

    FX_TRY(add_cut(l, where, FX_PRETOK_FIXED_LENGTH, &s));
    FX_TRY(get_count(l, o, where, "length", 5, &s->length));
    return s->length ? FORNAX_OK : wrong(l, where, "length", "at least 1");
}

/* "prepend_scheme", or the older "add_prefix_space". */
static fx_status get_scheme(loader *l, const json_t *o, const char *where, fx_prefix *out)
{
    const json_t *v = json_object_get(o, "prepend_scheme"), *space = json_object_get(o, "add_prefix_space");

    *out = FX_PREFIX_ALWAYS;
    if (json_is_string(v) && fx_str_is(text_of(v), "never"))
        *out = FX_PREFIX_NEVER;
    else if (json_is_string(v) && fx_str_is(text_of(v), "first"))
        *out = FX_PREFIX_FIRST;
    else if (v && !(json_is_string(v) && fx_str_is(text_of(v), "always")))
        return wrong(l, where, "prepend_scheme", "always, first or never");
    if (!space || json_is_null(space) || json_is_true(space))
        return FORNAX_OK;
    if (!json_is_false(space) || (v && *out != FX_PREFIX_NEVER))
        return wrong(l, where, "add_prefix_space", "what prepend_scheme says");
    *out = FX_PREFIX_NEVER;
    return FORNAX_OK;
}

static fx_status cut_metaspace(loader *l, const json_t *o, const char *where)
{
    const json_t *split = json_object_get(o, "split");
    fx_pretok_step *s;

    FX_TRY(add_cut(l, where, FX_PRETOK_METASPACE, &s));
    FX_TRY(get_character(l, o, where, "replacement", &s->literal));
    FX_TRY(get_scheme(l, o, where, &s->prefix));
    s->cut = FX_CUT_MERGED_WITH_NEXT;
    s->split = true;
    return !split || json_is_null(split) ? FORNAX_OK : get_bool(l, o, where, "split", -1, &s->split);
}

static fx_status cut_sequence(loader *l, const json_t *o, const char *where);
static const component pretokenizers[] = {
    { "Sequence", cut_sequence }, { "Split", cut_split }, { "ByteLevel", cut_byte_level }, { "Digits", cut_digits },
    { "Punctuation", cut_punctuation }, { "Whitespace", cut_whitespace }, { "WhitespaceSplit", cut_blanks },
    { "BertPreTokenizer", cut_bert }, { "CharDelimiterSplit", cut_delimiter }, { "FixedLength", cut_length },
    { "Metaspace", cut_metaspace }, { NULL, NULL }
};

static fx_status cut_sequence(loader *l, const json_t *o, const char *where)
{
    return each(l, o, where, "pretokenizers", pretokenizers);
}

/* ---- Decoders -------------------------------------------------------------------------------- */

/* What a chain may be: changes to each token, then joining, then stripping of the whole. */
typedef enum chain_state { CHAIN_TOKENS, CHAIN_BYTES, CHAIN_WHOLE } chain_state;

static fx_status chain_unsupported(loader *l, const char *where, const char *what)
{
    return fx_fail(l->err, FORNAX_EUNSUP, "tokenizer.json: %s: %s is not supported", where, what);
}

static chain_state state_of(const loader *l)
{
    const fx_decoder *d = &l->t->decoder;

    return d->joined ? CHAIN_WHOLE : d->byte_fallback ? CHAIN_BYTES : CHAIN_TOKENS;
}

static fx_status add_edit(loader *l, const char *where, fx_token_edit_kind kind, fx_token_edit **out)
{
    fx_decoder *d = &l->t->decoder;

    if (state_of(l) != CHAIN_TOKENS || d->first != FX_FIRST_SAME || d->n_edits == FX_COUNT(d->edits))
        return chain_unsupported(l, where, "changing tokens at this place of the chain");
    d->edits[d->n_edits] = (fx_token_edit){ .kind = kind };
    *out = &d->edits[d->n_edits++];
    return FORNAX_OK;
}

static fx_status dec_byte_level(loader *l, const json_t *o, const char *where)
{
    (void)o;
    if (state_of(l) != CHAIN_TOKENS || l->t->decoder.n_edits || l->t->decoder.first != FX_FIRST_SAME)
        return chain_unsupported(l, where, "ByteLevel after other decoders");
    l->t->decoder.byte_level = l->t->decoder.joined = true;
    return FORNAX_OK;
}

static fx_status dec_fuse(loader *l, const json_t *o, const char *where)
{
    (void)o;
    (void)where;
    l->t->decoder.joined = true;
    return FORNAX_OK;
}

static fx_status dec_byte_fallback(loader *l, const json_t *o, const char *where)
{
    (void)o;
    if (state_of(l) != CHAIN_TOKENS)
        return chain_unsupported(l, where, "ByteFallback at this place of the chain");
    l->t->decoder.byte_fallback = true;
    return FORNAX_OK;
}

static fx_status dec_replace(loader *l, const json_t *o, const char *where)
{
    fx_token_edit *e = NULL;

    FX_TRY(add_edit(l, where, FX_EDIT_REPLACE, &e));
    FX_TRY(get_pattern(l, o, where, &e->pattern, &e->literal));
    return get_text(l, o, where, "content", false, &e->content);
}

static fx_status dec_strip(loader *l, const json_t *o, const char *where)
{
    fx_decoder *d = &l->t->decoder;
    fx_token_edit *e = NULL;

    if (state_of(l) == CHAIN_WHOLE) {
        if (d->strip.p)
            return chain_unsupported(l, where, "more than one Strip of the whole text");
        FX_TRY(get_character(l, o, where, "content", &d->strip));
        FX_TRY(get_count(l, o, where, "start", 0, &d->strip_start));
        return get_count(l, o, where, "stop", 0, &d->strip_stop);
    }
    FX_TRY(add_edit(l, where, FX_EDIT_STRIP, &e));
    FX_TRY(get_character(l, o, where, "content", &e->literal));
    FX_TRY(get_count(l, o, where, "start", 0, &e->start));
    return get_count(l, o, where, "stop", 0, &e->stop);
}

static fx_status dec_metaspace(loader *l, const json_t *o, const char *where)
{
    fx_decoder *d = &l->t->decoder;
    fx_token_edit *e = NULL;
    fx_prefix scheme;

    if (d->n_edits)
        return chain_unsupported(l, where, "Metaspace after other decoders");
    FX_TRY(add_edit(l, where, FX_EDIT_REPLACE, &e));
    FX_TRY(get_character(l, o, where, "replacement", &e->literal));
    FX_TRY(get_scheme(l, o, where, &scheme));
    e->content = FX_STR(" ");
    if (scheme != FX_PREFIX_NEVER) {
        d->first = FX_FIRST_METASPACE;
        d->first_text = e->literal;
    }
    return FORNAX_OK;
}

static fx_status dec_wordpiece(loader *l, const json_t *o, const char *where)
{
    fx_decoder *d = &l->t->decoder;

    if (state_of(l) != CHAIN_TOKENS || d->n_edits || d->first != FX_FIRST_SAME)
        return chain_unsupported(l, where, "WordPiece after other decoders");
    d->first = FX_FIRST_WORDPIECE;
    FX_TRY(get_bool(l, o, where, "cleanup", -1, &d->cleanup));
    return get_text(l, o, where, "prefix", false, &d->first_text);
}

static fx_status dec_sequence(loader *l, const json_t *o, const char *where);
static const component decoders[] = {
    { "Sequence", dec_sequence }, { "ByteLevel", dec_byte_level }, { "Fuse", dec_fuse },
    { "ByteFallback", dec_byte_fallback }, { "Replace", dec_replace }, { "Strip", dec_strip },
    { "Metaspace", dec_metaspace }, { "WordPiece", dec_wordpiece }, { NULL, NULL }
};

static fx_status dec_sequence(loader *l, const json_t *o, const char *where)
{
    return each(l, o, where, "decoders", decoders);
}

/* ---- Post-processors --------------------------------------------------------------------------- */

static fx_status put_around(loader *l, bool after, int64_t id, const char *where)
{
    fx_tokenizer *t = l->t;

    if (id < 0 || (size_t)id >= t->vocab.n)
        return fx_fail(l->err, FORNAX_EFORMAT, "tokenizer.json: %s: expected a token id below %zu, found %lld", where,
                       t->vocab.n, (long long)id);
    return (after ? FX_VEC_PUSH(&t->after, t->mem, (int32_t)id) : FX_VEC_PUSH(&t->before, t->mem, (int32_t)id))
               ? FORNAX_OK : no_room(l);
}

/* What a later processor puts before the text comes before what an earlier one did. */
static void rotate_before(fx_tokenizer *t, size_t n_old)
{
    size_t n_new = t->before.n - n_old;

    for (size_t i = 0; i < n_new; i++) {
        int32_t id = t->before.at[n_old + i];

        memmove(t->before.at + i + 1, t->before.at + i, n_old * sizeof(id));
        t->before.at[i] = id;
    }
}

static fx_status template_token(loader *l, const json_t *piece, const json_t *tokens, bool after, const char *where)
{
    const json_t *name = json_object_get(piece, "id"), *ids, *id;
    size_t i;

    ids = json_is_string(name) ? json_object_get(json_object_get(tokens, json_string_value(name)), "ids") : NULL;
    if (!json_is_array(ids))
        return wrong(l, where, "single", "special tokens that special_tokens lists");
    json_array_foreach(ids, i, id) {
        if (!json_is_integer(id))
            return wrong(l, where, "special_tokens", "ids");
        FX_TRY(put_around(l, after, json_integer_value(id), where));
    }
    return FORNAX_OK;
}

static fx_status post_template(loader *l, const json_t *o, const char *where)
{
    const json_t *single = json_object_get(o, "single"), *tokens = json_object_get(o, "special_tokens"), *v;
    size_t i, n_old = l->t->before.n;
    bool after = false;

    if (!json_is_array(single))
        return wrong(l, where, "single", "a list");
    json_array_foreach(single, i, v) {
        const json_t *sequence = json_object_get(v, "Sequence"), *special = json_object_get(v, "SpecialToken");
        const json_t *id = json_object_get(sequence, "id");

        if (sequence && (after || !json_is_string(id) || !fx_str_is(text_of(id), "A")))
            return chain_unsupported(l, where, "a template that isn't one sequence A among special tokens");
        if (sequence)
            after = true;
        else if (special)
            FX_TRY(template_token(l, special, tokens, after, where));
        else
            return wrong(l, where, "single", "Sequence and SpecialToken entries");
    }
    if (!after)
        return chain_unsupported(l, where, "a template without a sequence A");
    rotate_before(l->t, n_old);
    return FORNAX_OK;
}

static fx_status post_pair(loader *l, const json_t *o, const char *where)
{
    static const char *const keys[] = { "cls", "sep" };
    size_t n_old = l->t->before.n;

    for (int after = 0; after < 2; after++) {
        const json_t *pair = json_object_get(o, keys[after]), *id = json_array_get(pair, 1);

        if (json_array_size(pair) != 2 || !json_is_integer(id))
            return wrong(l, where, keys[after], "[token, id]");
        FX_TRY(put_around(l, after, json_integer_value(id), where));
    }
    rotate_before(l->t, n_old);
    return FORNAX_OK;
}

static fx_status post_byte_level(loader *l, const json_t *o, const char *where)
{
    (void)l;
    (void)o;
    (void)where;
    return FORNAX_OK;                           /* offsets only, which we don't give */
}

static fx_status post_sequence(loader *l, const json_t *o, const char *where);
static const component post_processors[] = {
    { "Sequence", post_sequence }, { "TemplateProcessing", post_template }, { "ByteLevel", post_byte_level },
    { "RobertaProcessing", post_pair }, { "BertProcessing", post_pair }, { NULL, NULL }
};

static fx_status post_sequence(loader *l, const json_t *o, const char *where)
{
    return each(l, o, where, "processors", post_processors);
}

/* ---- Models --------------------------------------------------------------------------------------- */

/* The unknown token's id, -1 if there is none; *missing: named, but not of the vocabulary. */
static fx_status get_unknown(loader *l, const json_t *o, const char *where, int32_t *out, bool *missing)
{
    fx_str s;

    FX_TRY(get_text(l, o, where, "unk_token", true, &s));
    *out = s.p ? fx_vocab_find(&l->t->vocab, s) : -1;
    *missing = s.p && *out < 0;
    l->t->unk = *out;
    return FORNAX_OK;
}

static fx_status model_bpe(loader *l, const json_t *o, const char *where)
{
    fx_bpe *b = &l->t->bpe;
    const json_t *dropout = json_object_get(o, "dropout");

    if (!l->tables.has_merges || l->tables.is_list)
        return wrong(l, where, "merges", "a vocabulary object and a list of merges");
    if (dropout && !json_is_null(dropout) && !(json_is_number(dropout) && json_number_value(dropout) == 0))
        return fx_fail(l->err, FORNAX_EUNSUP, "tokenizer.json: %s: dropout is not supported: encoding would be random", where);
    l->t->model = FX_MODEL_BPE;
    FX_TRY(get_text(l, o, where, "continuing_subword_prefix", true, &b->prefix));
    FX_TRY(get_text(l, o, where, "end_of_word_suffix", true, &b->suffix));
    FX_TRY(get_bool(l, o, where, "fuse_unk", 0, &b->fuse_unk));
    FX_TRY(get_bool(l, o, where, "byte_fallback", 0, &b->byte_fallback));
    FX_TRY(get_bool(l, o, where, "ignore_merges", 0, &b->ignore_merges));
    FX_TRY(get_unknown(l, o, where, &b->unk, &b->unk_missing));
    fx_tokenizer_choose_bytes(l->t);
    return fx_bpe_init(b, &l->t->arena, &l->t->vocab, l->tables.merges.at, l->tables.merges.n,
                       "tokenizer.json: model.merges", l->err);
}

static fx_status model_wordpiece(loader *l, const json_t *o, const char *where)
{
    fx_wordpiece *w = &l->t->wordpiece;
    bool missing;

    if (l->tables.is_list)
        return wrong(l, where, "vocab", "an object");
    l->t->model = FX_MODEL_WORDPIECE;
    FX_TRY(get_text(l, o, where, "continuing_subword_prefix", false, &w->prefix));
    FX_TRY(get_count(l, o, where, "max_input_chars_per_word", 100, &w->longest_word));
    FX_TRY(get_unknown(l, o, where, &w->unk, &missing));
    if (w->unk < 0)
        return wrong(l, where, "unk_token", "a token of the vocabulary");
    for (size_t i = 0; i < l->t->vocab.n; i++)
        if (l->t->vocab.pieces[i].at != FX_NO_TOKEN)
            w->longest = FX_MAX(w->longest, l->t->vocab.pieces[i].n);
    return FORNAX_OK;
}

static fx_status model_wordlevel(loader *l, const json_t *o, const char *where)
{
    bool missing;

    if (l->tables.is_list)
        return wrong(l, where, "vocab", "an object");
    l->t->model = FX_MODEL_WORDLEVEL;
    FX_TRY(get_unknown(l, o, where, &l->t->wordpiece.unk, &missing));
    return missing ? wrong(l, where, "unk_token", "a token of the vocabulary") : FORNAX_OK;
}

static fx_status model_unigram(loader *l, const json_t *o, const char *where)
{
    const json_t *unk = json_object_get(o, "unk_id");
    fx_unigram *u = &l->t->unigram;
    size_t n = l->tables.entries.n;
    double lowest = INFINITY;
    fx_scored *pieces;
    fx_status st;

    if (!l->tables.is_list)
        return wrong(l, where, "vocab", "a list of [piece, score]");
    if (unk && !json_is_null(unk) &&
        !(json_is_integer(unk) && json_integer_value(unk) >= 0 && (size_t)json_integer_value(unk) < n))
        return wrong(l, where, "unk_id", "the id of a piece");
    FX_TRY(get_bool(l, o, where, "byte_fallback", 0, &u->byte_fallback));
    l->t->model = FX_MODEL_UNIGRAM;
    l->t->unk = u->unk = json_is_integer(unk) ? (int32_t)json_integer_value(unk) : -1;
    pieces = fx_mem_array(l->t->mem, n + 1, sizeof(*pieces));
    if (!pieces)
        return no_room(l);
    for (size_t i = 0; i < n; i++) {
        pieces[i] = (fx_scored){ l->tables.entries.at[i].value, true };
        lowest = FX_MIN(lowest, pieces[i].score);
    }
    st = fx_unigram_init(u, &l->t->arena, &l->t->vocab, pieces, n, lowest, "tokenizer.json: model", l->err);
    fx_mem_free(l->t->mem, pieces, (n + 1) * sizeof(*pieces));
    return st;
}

static const component models[] = {
    { "BPE", model_bpe }, { "WordPiece", model_wordpiece }, { "WordLevel", model_wordlevel },
    { "Unigram", model_unigram }, { NULL, NULL }
};

/* Old files leave the model's type out. */
static fx_status read_model(loader *l, const json_t *o)
{
    if (!json_is_object(o) || !l->tables.has_vocab)
        return wrong(l, "model", "vocab", "a vocabulary");
    if (!json_object_get(o, "type"))
        return l->tables.has_merges ? model_bpe(l, o, "model") : chain_unsupported(l, "model", "a model without a type");
    return dispatch(l, o, "model", models);
}

/* ---- Tokens ------------------------------------------------------------------------------------------ */

/* How many ids, given the model's entries; sparse ones are refused rather than allocated. */
static fx_status count_ids(loader *l, size_t n_extra, size_t *out)
{
    size_t n = l->tables.entries.n, top = n;

    for (size_t i = 0; i < n && !l->tables.is_list; i++)
        top = FX_MAX(top, (size_t)l->tables.entries.at[i].value + 1);
    if (top > 4 * n + (1u << 20))
        return fx_fail(l->err, FORNAX_EUNSUP, "tokenizer.json: model.vocab: id %zu among %zu tokens is too sparse", top - 1, n);
    *out = top + n_extra;
    return FORNAX_OK;
}

static fx_status fill_vocab(loader *l, size_t n_extra, size_t extra_bytes)
{
    size_t n = 0, bytes = extra_bytes;

    for (size_t i = 0; i < l->tables.entries.n; i++)
        bytes += l->tables.entries.at[i].text.n;
    if (bytes >= FX_TEXT_SPELLING)
        return fx_fail(l->err, FORNAX_EUNSUP, "tokenizer.json: expected at most 2 GiB of spellings");
    FX_TRY(count_ids(l, n_extra, &n));
    if (!fx_vocab_init(&l->t->vocab, &l->t->arena, n, bytes) ||
        !(l->t->flags = fx_arena_alloc(&l->t->arena, n + 1)))
        return no_room(l);
    for (size_t i = 0; i < l->tables.entries.n; i++) {
        const fx_vocab_entry *e = &l->tables.entries.at[i];

        fx_vocab_put(&l->t->vocab, l->tables.is_list ? (int32_t)i : (int32_t)e->value, e->text);
    }
    return FORNAX_OK;
}

/* One added token's flags; 'named' is false where the file gives only a string. */
static fx_status read_added(loader *l, const json_t *o, const char *where, fx_added *a)
{
    FX_TRY(get_text(l, o, where, "content", false, &a->content));
    FX_TRY(get_bool(l, o, where, "single_word", 0, &a->single_word));
    FX_TRY(get_bool(l, o, where, "lstrip", 0, &a->lstrip));
    FX_TRY(get_bool(l, o, where, "rstrip", 0, &a->rstrip));
    FX_TRY(get_bool(l, o, where, "special", 0, &a->special));
    return get_bool(l, o, where, "normalized", a->special ? 0 : 1, &a->normalized);
}

/* Gives it an id: the vocabulary's, else the next one as the reference counts them,
 * unless that is taken and the file's own is free. */
static void place_added(loader *l, fx_added a, int64_t claimed, size_t *next)
{
    fx_vocab *v = &l->t->vocab;
    int32_t id = fx_vocab_find(v, a.content);

    if (id < 0) {
        id = (int32_t)*next;
        if (fx_vocab_text(v, id).p && claimed >= 0 && (size_t)claimed < v->n && !fx_vocab_text(v, (int32_t)claimed).p)
            id = (int32_t)claimed;
        else
            ++*next;
        fx_vocab_put(v, id, a.content);
    }
    a.id = id;
    a.normalized = a.normalized && !l->raw_added;
    l->t->flags[id] |= FX_TOKEN_ADDED;
    l->t->added[l->t->n_added++] = a;
}

static bool is_added(const fx_tokenizer *t, fx_str content)
{
    int32_t id = fx_vocab_find(&t->vocab, content);

    return id >= 0 && (t->flags[id] & FX_TOKEN_ADDED);
}

/* A token that the configuration names: a string or an object with the content. */
static fx_str named_token(const json_t *v)
{
    if (json_is_object(v))
        v = json_object_get(v, "content");
    return json_is_string(v) ? text_of(v) : (fx_str){ NULL, 0 };
}

static const char *const special_names[] = {
    "bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token"
};

/* Tokens of the vocabulary that only the configuration calls special. */
static fx_status add_named_tokens(loader *l, const json_t *names)
{
    for (size_t i = 0; i < FX_COUNT(special_names); i++) {
        fx_str s = named_token(json_object_get(names, special_names[i]));
        fx_added a = { .special = true };

        if (!s.n || (a.id = fx_vocab_find(&l->t->vocab, s)) < 0 || is_added(l->t, s))
            continue;
        a.content = fx_tokenizer_keep(l->t, s);
        if (!a.content.p)
            return no_room(l);
        l->t->flags[a.id] |= FX_TOKEN_ADDED;
        l->t->added[l->t->n_added++] = a;
    }
    return FORNAX_OK;
}

/* added_tokens of the file, then those that only the configuration has. */
static fx_status read_added_tokens(loader *l, const json_t *list, const json_t *more)
{
    size_t next = l->n_entries, i;
    const json_t *v;
    const char *key;
    fx_added a;

    json_array_foreach(list, i, v) {
        const json_t *id = json_object_get(v, "id");

        a = (fx_added){ 0 };
        FX_TRY(read_added(l, v, "added_tokens", &a));
        if (!json_is_integer(id))
            return wrong(l, "added_tokens", "id", "an integer");
        if (a.content.n)
            place_added(l, a, json_integer_value(id), &next);
    }
    json_object_foreach((json_t *)(uintptr_t)more, key, v) {
        int64_t id;

        a = (fx_added){ 0 };
        if (!fx_parse_i64(fx_str_of(key), &id))
            return wrong(l, "tokenizer_config", "added_tokens_decoder", "ids as keys");
        FX_TRY(read_added(l, v, "tokenizer_config: added_tokens_decoder", &a));
        if (a.content.n && !is_added(l->t, a.content))
            place_added(l, a, id, &next);
    }
    return add_named_tokens(l, l->config);
}

static size_t count_distinct(const loader *l)
{
    size_t n = 0;

    for (size_t i = 0; i < l->t->vocab.mask + 1; i++)
        n += l->t->vocab.slots[i].id >= 0;
    return n;
}

static fx_status read_tokens(loader *l, const json_t *root)
{
    const json_t *list = json_object_get(root, "added_tokens"), *v;
    const json_t *more = json_object_get(l->config, "added_tokens_decoder");
    size_t n_extra = json_array_size(list) + json_object_size(more), bytes = 0, i;
    const char *key;

    if (list && !json_is_array(list))
        return wrong(l, "top level", "added_tokens", "a list");
    json_array_foreach(list, i, v)
        bytes += json_string_length(json_object_get(v, "content"));
    json_object_foreach((json_t *)(uintptr_t)more, key, v)
        bytes += json_string_length(json_object_get(v, "content"));
    FX_TRY(fill_vocab(l, n_extra, bytes));
    l->n_entries = count_distinct(l);
    l->t->added = FX_ARENA_NEWN(&l->t->arena, fx_added, n_extra + FX_COUNT(special_names));
    if (!l->t->added)
        return no_room(l);
    return FORNAX_OK;
}

/* Ids beyond the last token were only room. */
static void trim_ids(fx_vocab *v)
{
    while (v->n && v->pieces[v->n - 1].at == FX_NO_TOKEN)
        v->n--;
}

static int32_t config_token(const loader *l, const char *name, int32_t otherwise)
{
    fx_str s = named_token(json_object_get(l->config, name));
    int32_t id = s.n ? fx_vocab_find(&l->t->vocab, s) : -1;

    return id >= 0 ? id : otherwise;
}

/* ---- The whole file --------------------------------------------------------------------------------- */

static fx_status read_part(loader *l, const json_t *root, const char *key, const component *table)
{
    const json_t *v = json_object_get(root, key);

    return !v || json_is_null(v) ? FORNAX_OK : dispatch(l, v, key, table);
}

static fx_status read_root(loader *l, const json_t *root)
{
    const json_t *decoder = json_object_get(root, "decoder"), *table = json_object_get(json_object_get(root, "model"), "vocab");
    fx_tokenizer *t = l->t;

    if (!json_is_object(root) || (table && !json_is_null(table)))
        return wrong(l, "top level", "model", "an object with a vocabulary");
    FX_TRY(read_tokens(l, root));
    FX_TRY(read_part(l, root, "normalizer", normalizers));
    FX_TRY(read_part(l, root, "pre_tokenizer", pretokenizers));
    FX_TRY(read_model(l, json_object_get(root, "model")));
    FX_TRY(read_added_tokens(l, json_object_get(root, "added_tokens"), json_object_get(l->config, "added_tokens_decoder")));
    trim_ids(&t->vocab);
    FX_TRY(read_part(l, root, "decoder", decoders));
    t->decoder.join_space = !decoder || json_is_null(decoder);
    FX_TRY(read_part(l, root, "post_processor", post_processors));
    t->bos = config_token(l, "bos_token", -1);
    t->eos = config_token(l, "eos_token", -1);
    t->unk = config_token(l, "unk_token", t->unk);
    t->pad = config_token(l, "pad_token", -1);
    return fx_tokenizer_finish(t, l->err);
}

/* whole: the file, of which 'text' may lack tables; faults are placed in it. */
static fx_status parse_json(json_t **out, fx_str text, fx_str whole, const char *name, fx_error *err)
{
    json_error_t e;

    *out = json_loadb(text.p, text.n, JSON_ALLOW_NUL, &e);
    if (*out)
        return FORNAX_OK;
    if (json_error_code(&e) == json_error_out_of_memory)
        return fx_nomem(err, name);
    json_decref(json_loadb(whole.p, whole.n, JSON_ALLOW_NUL, &e));
    return fx_fail(err, FORNAX_EFORMAT, "%s: line %d, column %d: %s", name, e.line, e.column, e.text);
}

static fx_status load(loader *l, fx_str json, fx_str config)
{
    json_t *root = NULL, *settings = NULL;
    fx_status st = fx_vocab_json_read(&l->tables, l->t->mem, json, l->err);

    if (st == FORNAX_OK)
        st = parse_json(&root, fx_buf_view(&l->tables.rest), json, "tokenizer.json", l->err);
    if (st == FORNAX_OK && config.n)
        st = parse_json(&settings, config, config, "tokenizer_config.json", l->err);
    l->config = settings;
    if (st == FORNAX_OK)
        st = read_root(l, root);
    json_decref(root);
    json_decref(settings);
    fx_vocab_json_done(&l->tables);
    return st;
}

fx_status fx_tokenizer_from_json(fx_tokenizer **out, const fx_mem *mem, fx_str json, fx_str config, fx_error *err)
{
    loader l = { .t = fx_tokenizer_new(mem), .err = err };
    fx_status st;

    *out = NULL;
    if (!l.t)
        return fx_nomem(err, "a tokenizer");
    st = load(&l, json, config);
    if (st != FORNAX_OK)
        fx_tokenizer_free(l.t);
    else
        *out = l.t;
    return st;
}

/* ---- tokenizer.model ---------------------------------------------------------------------------------- */

typedef struct spm_loader {
    loader l;
    const fx_spm_texts *texts;
    fx_spm_file file;
    json_t *config, *special, *added;
} spm_loader;

/* Tokenizers whose ids aren't the file's, or that put other tokens around a text. */
static fx_status check_class(const json_t *config, fx_error *err)
{
    static const char *const others[] = { "XLMRoberta", "Camembert", "MBart", "Barthez", "XGLM", "Pegasus", "Nllb", "M2M100",
                                          "Marian", "Albert", "XLNet", "DebertaV2", "BigBird", "FNet", "RemBert", "Speech2Text",
                                          "CpmTokenizer", "BertGeneration", "Plbart", "PLBart", "ErnieM", "SeamlessM4T" };
    fx_str name = named_token(json_object_get(config, "tokenizer_class"));

    for (size_t i = 0; i < FX_COUNT(others) && name.n; i++)
        if (fx_str_starts(name, fx_str_of(others[i])))
            return fx_fail(err, FORNAX_EUNSUP, "tokenizer_config.json: tokenizer_class %s with a tokenizer.model alone "
                           "is not supported; a tokenizer.json is needed", FX_SHOW(name));
    return FORNAX_OK;
}

/* Pieces as entries of a list, so that the vocabulary is filled as from JSON. */
static fx_status spm_entries(spm_loader *s)
{
    fx_vocab_json *v = &s->l.tables;

    v->mem = s->l.t->mem;
    v->is_list = v->has_vocab = true;
    if (!FX_VEC_RESERVE(&v->entries, v->mem, s->file.pieces.n))
        return no_room(&s->l);
    for (size_t i = 0; i < s->file.pieces.n; i++)
        v->entries.at[v->entries.n++] = (fx_vocab_entry){ s->file.pieces.at[i].text, (double)s->file.pieces.at[i].score };
    return FORNAX_OK;
}

static int32_t spm_special(const spm_loader *s, int64_t id, int type)
{
    return id >= 0 && (size_t)id < s->file.pieces.n && s->file.pieces.at[id].type == type ? (int32_t)id : -1;
}

static fx_status spm_model(spm_loader *s)
{
    const json_t *legacy = json_object_get(s->config, "legacy");
    const fx_spm_file *f = &s->file;
    fx_tokenizer *t = s->l.t;
    fx_spm m = { .bpe = f->model_type == FX_SPM_BPE, .byte_fallback = f->byte_fallback, .charsmap = f->charsmap,
                 .prefix = f->prefix, .suffix = f->suffix, .remove_extra = f->remove_extra, .escape = f->escape,
                 .first_only = json_is_false(legacy), .where = "tokenizer.model" };
    float *scores = FX_ARENA_NEWN(&t->arena, float, t->vocab.n + 1);
    int32_t *types = FX_ARENA_NEWN(&t->arena, int32_t, t->vocab.n + 1);

    if (!scores || !types)
        return no_room(&s->l);
    if (f->model_type != FX_SPM_BPE && f->model_type != FX_SPM_UNIGRAM)
        return fx_fail(s->l.err, FORNAX_EUNSUP, "tokenizer.model: model_type %lld is not supported (1 unigram, 2 bpe)",
                       (long long)f->model_type);
    for (size_t i = 0; i < t->vocab.n; i++)
        types[i] = FX_PIECE_UNUSED;                 /* added tokens */
    for (size_t i = 0; i < f->pieces.n; i++) {
        scores[i] = f->pieces.at[i].score;
        types[i] = f->pieces.at[i].type;
        if (types[i] == FX_PIECE_CONTROL || types[i] == FX_PIECE_UNKNOWN)
            t->flags[i] |= FX_TOKEN_SPECIAL;
    }
    m.scores = scores;
    m.types = types;
    t->unk = spm_special(s, f->unk, FX_PIECE_UNKNOWN);
    for (size_t i = 0; t->unk < 0 && i < f->pieces.n; i++)
        t->unk = types[i] == FX_PIECE_UNKNOWN ? (int32_t)i : -1;
    return fx_tokenizer_set_spm(t, &m, s->l.err);
}

/* In BPE, pieces that users defined are matched in the normalized text. */
static fx_status spm_user_tokens(spm_loader *s)
{
    fx_tokenizer *t = s->l.t;

    for (size_t i = 0; i < s->file.pieces.n && t->model == FX_MODEL_BPE; i++) {
        fx_added a = { .content = fx_vocab_text(&t->vocab, (int32_t)i), .id = (int32_t)i, .normalized = true, .exact = true };

        if (s->file.pieces.at[i].type != FX_PIECE_USER || t->flags[i] & FX_TOKEN_ADDED)
            continue;
        t->flags[i] |= FX_TOKEN_ADDED;
        t->added[t->n_added++] = a;
    }
    return FORNAX_OK;
}

/* added_tokens.json: {spelling: id}. */
static fx_status spm_added_tokens(spm_loader *s, size_t *next)
{
    const json_t *v;
    const char *key;

    json_object_foreach(s->added, key, v) {
        fx_added a = { .content = fx_tokenizer_keep(s->l.t, fx_str_of(key)) };

        if (!json_is_integer(v))
            return fx_fail(s->l.err, FORNAX_EFORMAT, "added_tokens.json: \"%s\": expected an id", FX_SHOW(fx_str_of(key)));
        if (!a.content.p)
            return no_room(&s->l);
        if (a.content.n && !is_added(s->l.t, a.content))
            place_added(&s->l, a, json_integer_value(v), next);
    }
    return FORNAX_OK;
}

static bool config_flag(const json_t *config, const char *key, bool otherwise)
{
    const json_t *v = json_object_get(config, key);

    return json_is_boolean(v) ? json_is_true(v) : otherwise;
}

/* Begin and end tokens: T5's end only, else as the configuration says, else a begin token. */
static fx_status spm_around(spm_loader *s)
{
    bool t5 = fx_str_starts(named_token(json_object_get(s->config, "tokenizer_class")), FX_STR("T5"));
    fx_tokenizer *t = s->l.t;

    if (config_flag(s->config, "add_bos_token", !t5) && t->bos >= 0)
        FX_TRY(put_around(&s->l, false, t->bos, "add_bos_token"));
    if (config_flag(s->config, "add_eos_token", t5) && t->eos >= 0)
        FX_TRY(put_around(&s->l, true, t->eos, "add_eos_token"));
    return FORNAX_OK;
}

/* Room for all tokens there may be, then the vocabulary. */
static fx_status spm_vocab(spm_loader *s)
{
    const json_t *more = json_object_get(s->config, "added_tokens_decoder"), *v;
    size_t n_extra = json_object_size(more) + json_object_size(s->added), bytes = 0;
    fx_tokenizer *t = s->l.t;
    const char *key;

    json_object_foreach((json_t *)(uintptr_t)more, key, v)
        bytes += json_string_length(json_object_get(v, "content"));
    json_object_foreach(s->added, key, v)
        bytes += strlen(key);
    FX_TRY(fill_vocab(&s->l, n_extra, bytes));
    s->l.n_entries = s->file.pieces.n;
    t->added = FX_ARENA_NEWN(&t->arena, fx_added, n_extra + s->file.pieces.n + 2 * FX_COUNT(special_names));
    return t->added ? FORNAX_OK : no_room(&s->l);
}

static fx_status spm_build(spm_loader *s)
{
    fx_tokenizer *t = s->l.t;
    size_t next = s->file.pieces.n;

    FX_TRY(check_class(s->config, s->l.err));
    FX_TRY(spm_entries(s));
    FX_TRY(spm_vocab(s));
    FX_TRY(spm_model(s));
    FX_TRY(read_added_tokens(&s->l, NULL, json_object_get(s->config, "added_tokens_decoder")));
    while (next < t->vocab.n && fx_vocab_text(&t->vocab, (int32_t)next).p)
        next++;
    FX_TRY(spm_added_tokens(s, &next));
    FX_TRY(add_named_tokens(&s->l, s->special));
    FX_TRY(spm_user_tokens(s));
    trim_ids(&t->vocab);
    t->bos = config_token(&s->l, "bos_token", spm_special(s, s->file.bos, FX_PIECE_CONTROL));
    t->eos = config_token(&s->l, "eos_token", spm_special(s, s->file.eos, FX_PIECE_CONTROL));
    t->pad = config_token(&s->l, "pad_token", spm_special(s, s->file.pad, FX_PIECE_CONTROL));
    FX_TRY(spm_around(s));
    return fx_tokenizer_finish(t, s->l.err);
}

static fx_status spm_json(json_t **out, fx_str text, const char *name, fx_error *err)
{
    if (!text.n)
        return FORNAX_OK;
    FX_TRY(parse_json(out, text, text, name, err));
    return json_is_object(*out) ? FORNAX_OK : fx_fail(err, FORNAX_EFORMAT, "%s: expected an object", name);
}

static fx_status spm_load(spm_loader *s)
{
    FX_TRY(spm_json(&s->config, s->texts->config, "tokenizer_config.json", s->l.err));
    FX_TRY(spm_json(&s->special, s->texts->special, "special_tokens_map.json", s->l.err));
    FX_TRY(spm_json(&s->added, s->texts->added, "added_tokens.json", s->l.err));
    s->l.config = s->config;
    FX_TRY(fx_spm_file_read(&s->file, s->l.t->mem, s->texts->model, s->l.err));
    return spm_build(s);
}

fx_status fx_tokenizer_from_spm(fx_tokenizer **out, const fx_mem *mem, const fx_spm_texts *texts, fx_error *err)
{
    spm_loader s = { .l = { .t = fx_tokenizer_new(mem), .err = err, .raw_added = true }, .texts = texts };
    fx_status st;

    *out = NULL;
    if (!s.l.t)
        return fx_nomem(err, "a tokenizer");
    s.file.mem = s.l.tables.mem = mem;
    st = spm_load(&s);
    FX_VEC_FREE(&s.l.tables.entries, mem);
    fx_spm_file_done(&s.file);
    json_decref(s.config);
    json_decref(s.special);
    json_decref(s.added);
    if (st != FORNAX_OK)
        fx_tokenizer_free(s.l.t);
    else
        *out = s.l.t;
    return st;
}
