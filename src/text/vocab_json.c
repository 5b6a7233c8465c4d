/* vocab_json.c - a scanner for the tables of a tokenizer.json (see vocab_json.h). */
#include "text/vocab_json.h"

#include "base/text.h"

typedef struct scanner {
    fx_str in;
    size_t i;
    fx_vocab_json *v;
    fx_error *err;
} scanner;

static fx_status expected(const scanner *s, const char *what)
{
    return fx_fail(s->err, FORNAX_EFORMAT, "tokenizer.json: byte %zu: expected %s", s->i, what);
}

static int skip_blanks(scanner *s)          /* the byte after them, or -1 */
{
    while (s->i < s->in.n && (s->in.p[s->i] == ' ' || s->in.p[s->i] == '\n' || s->in.p[s->i] == '\t' || s->in.p[s->i] == '\r'))
        s->i++;
    return s->i < s->in.n ? (unsigned char)s->in.p[s->i] : -1;
}

static bool take(scanner *s, char c)
{
    if (skip_blanks(s) != (unsigned char)c)
        return false;
    s->i++;
    return true;
}

/* ---- Strings -------------------------------------------------------------------------- */

static bool hex4(const scanner *s, size_t at, uint32_t *out)
{
    uint32_t x = 0;

    if (s->in.n - s->i < at + 4)
        return false;
    for (size_t k = 0; k < 4; k++) {
        unsigned char c = (unsigned char)s->in.p[s->i + at + k];
        uint32_t d = c >= '0' && c <= '9' ? c - 48u : c >= 'a' && c <= 'f' ? c - 87u : c >= 'A' && c <= 'F' ? c - 55u : 16u;

        if (d == 16)
            return false;
        x = x * 16 + d;
    }
    *out = x;
    return true;
}

/* \uXXXX, perhaps a pair of them, at the cursor; its bytes appended to the scratch. */
static bool unicode_escape(scanner *s)
{
    uint32_t r, low;
    size_t n = 6;

    if (!hex4(s, 2, &r) || (r >= 0xdc00 && r < 0xe000))
        return false;
    if (r >= 0xd800 && r < 0xdc00) {
        if (s->in.n - s->i < 12 || s->in.p[s->i + 6] != '\\' || s->in.p[s->i + 7] != 'u' || !hex4(s, 8, &low) ||
            low < 0xdc00 || low >= 0xe000)
            return false;
        r = 0x10000 + ((r - 0xd800) << 10) + (low - 0xdc00);
        n = 12;
    }
    s->v->scratch_n += fx_utf8_put(s->v->scratch + s->v->scratch_n, r);     /* shorter than the escape */
    s->i += n;
    return true;
}

static bool escape(scanner *s)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *at;

    if (s->in.n - s->i < 2)
        return false;
    if (s->in.p[s->i + 1] == 'u')
        return unicode_escape(s);
    at = memchr(names, s->in.p[s->i + 1], sizeof(names) - 1);
    if (!at)
        return false;
    s->v->scratch[s->v->scratch_n++] = values[at - names];
    s->i += 2;
    return true;
}

/* The rest of a string with escapes; 'begin' is where its text began. */
static fx_status escaped_string(scanner *s, size_t begin, fx_str *out)
{
    size_t at = s->v->scratch_n;

    if (!s->v->scratch) {
        s->v->scratch_cap = s->in.n;
        s->v->scratch = fx_mem_alloc(s->v->mem, s->v->scratch_cap);
        if (!s->v->scratch)
            return fx_nomem(s->err, "tokens");
    }
    memcpy(s->v->scratch + at, s->in.p + begin, s->i - begin);
    s->v->scratch_n += s->i - begin;
    while (s->i < s->in.n && s->in.p[s->i] != '"') {
        if ((unsigned char)s->in.p[s->i] < 0x20)
            return expected(s, "no control character in a string");
        if (s->in.p[s->i] != '\\')
            s->v->scratch[s->v->scratch_n++] = s->in.p[s->i++];
        else if (!escape(s))
            return expected(s, "a string escape");
    }
    if (s->i == s->in.n)
        return expected(s, "the string's closing quote");
    s->i++;
    *out = fx_str_n(s->v->scratch + at, s->v->scratch_n - at);
    return FORNAX_OK;
}

static fx_status string(scanner *s, fx_str *out)
{
    size_t begin;

    if (!take(s, '"'))
        return expected(s, "a string");
    begin = s->i;
    while (s->i < s->in.n) {
        unsigned char c = (unsigned char)s->in.p[s->i];

        if (c == '"') {
            *out = fx_str_n(s->in.p + begin, s->i++ - begin);
            return FORNAX_OK;
        }
        if (c == '\\')
            return escaped_string(s, begin, out);
        if (c < 0x20)
            return expected(s, "no control character in a string");
        s->i++;
    }
    return expected(s, "the string's closing quote");
}

/* ---- The tables --------------------------------------------------------------------------- */

static fx_status number(scanner *s, double *out)
{
    size_t begin;
    int64_t x = 0;

    skip_blanks(s);
    begin = s->i;
    while (s->i < s->in.n && s->i - begin < 15 && s->in.p[s->i] >= '0' && s->in.p[s->i] <= '9')
        x = x * 10 + (s->in.p[s->i++] - '0');
    *out = (double)x;
    if (s->i > begin && s->i < s->in.n && !memchr(".eE+-0123456789", s->in.p[s->i], 15))
        return FORNAX_OK;
    while (s->i < s->in.n && memchr(".eE+-0123456789", s->in.p[s->i], 15))
        s->i++;
    return fx_parse_double(fx_str_n(s->in.p + begin, s->i - begin), out) ? FORNAX_OK : expected(s, "a number");
}

static fx_status keep_entry(scanner *s, fx_str text, double value)
{
    return FX_VEC_PUSH(&s->v->entries, s->v->mem, ((fx_vocab_entry){ text, value })) ? FORNAX_OK
                                                                                      : fx_nomem(s->err, "tokens");
}

/* {"piece": id, ..} after its brace. */
static fx_status vocab_object(scanner *s)
{
    if (take(s, '}'))
        return FORNAX_OK;
    do {
        fx_str text;
        double id;

        FX_TRY(string(s, &text));
        if (!take(s, ':'))
            return expected(s, "a colon");
        FX_TRY(number(s, &id));
        if (!(id >= 0 && id <= INT32_MAX && id == (double)(int64_t)id))
            return expected(s, "a token id before this");
        FX_TRY(keep_entry(s, text, id));
    } while (take(s, ','));
    return take(s, '}') ? FORNAX_OK : expected(s, "a comma or the vocabulary's end");
}

/* [["piece", score], ..] after its bracket. */
static fx_status vocab_list(scanner *s)
{
    s->v->is_list = true;
    if (take(s, ']'))
        return FORNAX_OK;
    do {
        fx_str text;
        double score;

        if (!take(s, '['))
            return expected(s, "[piece, score]");
        FX_TRY(string(s, &text));
        if (!take(s, ','))
            return expected(s, "a comma");
        FX_TRY(number(s, &score));
        if (!take(s, ']'))
            return expected(s, "the pair's end");
        FX_TRY(keep_entry(s, text, score));
    } while (take(s, ','));
    return take(s, ']') ? FORNAX_OK : expected(s, "a comma or the vocabulary's end");
}

/* "left right" or ["left", "right"]. */
static fx_status merge(scanner *s)
{
    fx_merge_text m;
    fx_str line;
    size_t blank;

    if (take(s, '[')) {
        FX_TRY(string(s, &m.left));
        if (!take(s, ','))
            return expected(s, "a comma");
        FX_TRY(string(s, &m.right));
        if (!take(s, ']'))
            return expected(s, "the pair's end");
    } else {
        FX_TRY(string(s, &line));
        if (fx_str_starts(line, FX_STR("#version")))
            return FORNAX_OK;
        blank = fx_str_find(line, FX_STR(" "), 0);
        if (blank == FX_STR_NONE || fx_str_find(line, FX_STR(" "), blank + 1) != FX_STR_NONE)
            return expected(s, "two tokens with a space between them in the merge before this");
        m.left = fx_str_n(line.p, blank);
        m.right = fx_str_n(line.p + blank + 1, line.n - blank - 1);
    }
    return FX_VEC_PUSH(&s->v->merges, s->v->mem, m) ? FORNAX_OK : fx_nomem(s->err, "merges");
}

static fx_status merge_list(scanner *s)
{
    if (take(s, ']'))
        return FORNAX_OK;
    do
        FX_TRY(merge(s));
    while (take(s, ','));
    return take(s, ']') ? FORNAX_OK : expected(s, "a comma or the end of the merges");
}

/* ---- Finding them ------------------------------------------------------------------------ */

static bool skip_string(scanner *s)         /* at its quote */
{
    for (s->i++; s->i < s->in.n; s->i++) {
        if (s->in.p[s->i] == '"') {
            s->i++;
            return true;
        }
        s->i += s->in.p[s->i] == '\\';
    }
    s->i = s->in.n;
    return false;
}

/* Over any value, well formed or nearly. False: the text ends within it. */
static bool skip_value(scanner *s)
{
    size_t depth = 0;

    do {
        int c = skip_blanks(s);

        if (c < 0)
            return false;
        if (c == '"') {
            if (!skip_string(s))
                return false;
        } else {
            depth += c == '{' || c == '[';
            if (depth == 0 && (c == ',' || c == '}' || c == ']' || c == ':'))
                return false;
            depth -= depth > 0 && (c == '}' || c == ']');
            s->i++;
            while (depth == 0 && s->i < s->in.n && !memchr(",}] \t\r\n", s->in.p[s->i], 7) && c != '}' && c != ']')
                s->i++;                         /* the rest of a number or a word */
        }
    } while (depth > 0);
    return true;
}

/* A table at the cursor: read, and null put into the rest. */
static fx_status table(scanner *s, bool is_vocab, size_t *copied)
{
    bool list = s->in.p[s->i] == '[';
    bool *has = is_vocab ? &s->v->has_vocab : &s->v->has_merges;

    if (*has)
        return expected(s, is_vocab ? "one model.vocab" : "one model.merges");
    *has = true;
    fx_buf_add(&s->v->rest, s->in.p + *copied, s->i - *copied);
    fx_buf_puts(&s->v->rest, "null");
    s->i++;
    FX_TRY(!is_vocab ? merge_list(s) : list ? vocab_list(s) : vocab_object(s));
    *copied = s->i;
    return FORNAX_OK;
}

/* The members of an object; *more is false where it isn't what was expected. */
static bool next_key(scanner *s, fx_str *key)
{
    size_t begin;

    if (skip_blanks(s) != '"')
        return false;
    begin = s->i + 1;
    if (!skip_string(s))
        return false;
    *key = fx_str_n(s->in.p + begin, s->i - 1 - begin);
    return take(s, ':');
}

static fx_status walk_model(scanner *s, size_t *copied, bool *ok)
{
    fx_str key;

    *ok = false;
    s->i++;                                     /* its brace */
    if (take(s, '}')) {
        *ok = true;
        return FORNAX_OK;
    }
    do {
        int c;

        if (!next_key(s, &key))
            return FORNAX_OK;
        c = skip_blanks(s);
        if (fx_str_is(key, "vocab") && (c == '{' || c == '['))
            FX_TRY(table(s, true, copied));
        else if (fx_str_is(key, "merges") && c == '[')
            FX_TRY(table(s, false, copied));
        else if (!skip_value(s))
            return FORNAX_OK;
    } while (take(s, ','));
    *ok = take(s, '}');
    return FORNAX_OK;
}

static fx_status walk(scanner *s, size_t *copied)
{
    bool ok = true;
    fx_str key;

    if (!take(s, '{') || take(s, '}'))
        return FORNAX_OK;
    do {
        if (!next_key(s, &key))
            return FORNAX_OK;
        if (fx_str_is(key, "model") && skip_blanks(s) == '{')
            FX_TRY(walk_model(s, copied, &ok));
        else
            ok = skip_value(s);
    } while (ok && take(s, ','));
    return FORNAX_OK;
}

static size_t first_bad(fx_str s)
{
    size_t at = 0, next = 0;

    while (next < s.n && fx_utf8_next(s, &next) != FX_BAD_RUNE)
        at = next;
    return at;
}

fx_status fx_vocab_json_read(fx_vocab_json *v, const fx_mem *mem, fx_str json, fx_error *err)
{
    scanner s = { .in = json, .v = v, .err = err };
    size_t copied = 0;
    fx_status st;

    *v = (fx_vocab_json){ .mem = mem };
    fx_buf_init(&v->rest, mem);
    if (!fx_utf8_valid(json))
        return fx_fail(err, FORNAX_EFORMAT, "tokenizer.json: byte %zu: expected UTF-8", first_bad(json));
    st = walk(&s, &copied);
    fx_buf_add(&v->rest, json.p + copied, json.n - copied);
    return st == FORNAX_OK && v->rest.failed ? fx_nomem(err, "tokenizer.json") : st;
}

void fx_vocab_json_done(fx_vocab_json *v)
{
    FX_VEC_FREE(&v->entries, v->mem);
    FX_VEC_FREE(&v->merges, v->mem);
    fx_mem_free(v->mem, v->scratch, v->scratch_cap);
    fx_buf_done(&v->rest);
}
