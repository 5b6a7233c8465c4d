/* grammar_walk.h - for tests of grammars: a small vocabulary, and masks checked against brute force. */
#ifndef GRAMMAR_WALK_H
#define GRAMMAR_WALK_H

#include "fxtest.h"

#include "grammar/matcher.h"

/* Ids 0..255 are the single bytes; then some longer tokens; then two special ones, the last is the end. */
static const char *const walk_tokens[] = {
    "ab", "abc", "abcd", "aa", "aaa", "aaaa", "aaaaaa", "\":", "\": ", "\",", "\", \"", "{\"", "\"}", "}}", "\"a", "\"a\"", "\"a\":", "\"ab\":1",
    "[]", "{}", "[1", "1,", "1]", "12", "123", "]]", "],[", "},", "}, ", "true", "false", "null", ", ", ",\n", "\n  ", "    ", "\\\"",
    "\\u00", "\\n", "x\"", "foo\",\"", "b\":", "\xc3\xa9", "\xe2\x82", "\xf0\x9f\x98\x80", "\xf0\x9f", "foo", "oo", "bar\"}", "a\":tr",
    "\":{\"", "\"}]}", "1}", "1}]", "-", "-1", "0.5", ".5", "e1", "<tag>", "ab", "(a", "((", "a)", "))", "+a", "*(",
};
#define WALK_SPECIAL ((int32_t)(256 + FX_COUNT(walk_tokens)))
#define WALK_EOS (WALK_SPECIAL + 1)
#define WALK_N ((size_t)WALK_EOS + 1)

static inline fx_str walk_bytes(const void *user, int32_t id)
{
    static char single[256];

    (void)user;
    if (id < 256) {
        single[id] = (char)id;
        return fx_str_n(&single[id], 1);
    }
    return id < WALK_SPECIAL ? fx_str_of(walk_tokens[id - 256]) : FX_STR("<special>");
}

static inline bool walk_special(const void *user, int32_t id)
{
    (void)user;
    return id >= WALK_SPECIAL;
}

static inline fx_gvocab *walk_vocab(const fx_mem *mem)
{
    static const int32_t eos[] = { WALK_EOS };
    fx_gvocab_desc d = { WALK_N, walk_bytes, walk_special, NULL, eos, 1, 0 };
    fx_gvocab *v = NULL;
    fx_error err = { 0 };

    return fx_gvocab_new(&v, mem, &d, &err) == FORNAX_OK ? v : NULL;
}

/* The mask equals what each token does when it is accepted. */
static inline int walk_check_mask(fx_matcher *m, uint32_t *bits)
{
    int allowed = 0;
    fx_error err = { 0 };

    if (fx_matcher_mask(m, bits, &err) != FORNAX_OK) {
        FXTEST_FAIL("%s", err.text);
        return 0;
    }
    for (int32_t id = 0; id < (int32_t)WALK_N; id++) {
        bool bit = bits[id / 32] >> id % 32 & 1, ok = fx_matcher_accept(m, id, &err) == FORNAX_OK;

        if (ok)
            fx_matcher_rollback(m, 1);
        if (ok != bit)
            FXTEST_FAIL("token %d '%.*s': mask %d, accept %d", id, FX_STR_ARG(walk_bytes(NULL, id)), bit, ok);
        allowed += bit;
    }
    return allowed;
}

/* Whether 'text' is a word; each mask on the way is checked where 'masks'. */
static inline bool walk_accepts(fx_gram *g, fx_gvocab *v, fx_str text, bool masks)
{
    uint32_t bits[WALK_N / 32 + 1];
    fx_matcher *m;
    fx_error err = { 0 };
    bool ok = true;

    if (fx_matcher_new(&m, &fx_mem_libc, g, v, &err) != FORNAX_OK)
        return false;
    for (size_t i = 0; i < text.n && ok; i++) {
        if (masks)
            walk_check_mask(m, bits);
        ok = fx_matcher_accept_bytes(m, fx_str_n(text.p + i, 1), &err) == FORNAX_OK;
    }
    if (ok && masks)
        walk_check_mask(m, bits);
    ok = ok && fx_matcher_can_end(m);
    fx_matcher_free(m);
    return ok;
}

/* Words of the language, and others; each ended by \1. */
static inline void walk_words(fx_gram *g, fx_gvocab *v, const char *words, bool want, const char *what)
{
    while (*words) {
        size_t n = strcspn(words, "\1");

        if (walk_accepts(g, v, fx_str_n(words, n), true) != want)
            FXTEST_FAIL("%s: '%.*s' %s", what, (int)n, words, want ? "should be a word" : "shouldn't be a word");
        words += n + (words[n] == 1);
    }
}

/* Random walks through masks reach an end: at each step some token is allowed. Returns how many did. */
static inline int walk_randomly(fx_gram *g, fx_gvocab *v, int walks, int steps, uint64_t seed)
{
    uint32_t bits[WALK_N / 32 + 1];
    int ended = 0;

    for (int k = 0; k < walks; k++) {
        fx_matcher *m;
        fx_error err = { 0 };

        if (fx_matcher_new(&m, &fx_mem_libc, g, v, &err) != FORNAX_OK)
            return -1;
        for (int s = 0; s < steps; s++) {
            int n = 0;
            int32_t pick = -1;

            if (fx_matcher_mask(m, bits, &err) != FORNAX_OK) {
                FXTEST_FAIL("%s", err.text);
                break;
            }
            for (int32_t id = 0; id < (int32_t)WALK_N; id++)
                if (bits[id / 32] >> id % 32 & 1) {
                    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
                    if ((seed >> 33) % (uint64_t)++n == 0)
                        pick = id;
                }
            if (s > steps / 2 && fx_matcher_can_end(m))
                pick = WALK_EOS;
            if (pick < 0 || fx_matcher_accept(m, pick, &err) != FORNAX_OK) {
                FXTEST_FAIL("dead end after %d steps: %s", s, pick < 0 ? "no token" : err.text);
                break;
            }
            if (pick == WALK_EOS) {
                ended++;
                break;
            }
        }
        fx_matcher_free(m);
    }
    return ended;
}

#endif
