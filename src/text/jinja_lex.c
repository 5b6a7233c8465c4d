/* jinja_lex.c - template source to tokens.
 *
 * Two states: text, up to the next "{{", "{%" or "{#"; and inside a tag.  The
 * whitespace rules of a chat template's environment (trim_blocks and
 * lstrip_blocks on) are applied here, so the parser sees only what remains:
 *
 *   "{%-", "{{-", "{#-"   drop all blanks before the tag; "{%+" keeps them
 *   "{%", "{#"            drop the blanks before it if nothing else is on its line
 *   "-%}", "-}}", "-#}"   drop all blanks after it
 *   "%}", "#}"            drop one newline after it; "+%}", "+#}" keep it
 *
 * All tokens are made at once: a parser that looks ahead just indexes. */
#include "text/jinja.h"

enum { MAX_NESTING = 256 };     /* brackets open at once */

typedef struct lexer {
    fx_template *t;
    fx_str s;
    size_t pos;
    jj_tokens *toks;
    fx_error *err;
    bool line_start;            /* the last thing taken ended with a newline, or nothing was */
    char open[MAX_NESTING];     /* the closing brackets awaited */
    size_t n_open;
} lexer;

static fx_status fail_at(lexer *l, size_t at, const char *what)
{
    return fx_diag(l->err, l->t->name, l->s, at, "%s", what);
}

static fx_status push(lexer *l, jj_tok_type type, size_t at, fx_str text, jj_tok **made)
{
    jj_tok tok = { .type = (uint8_t)type, .at = (uint32_t)at, .text = text };

    if (!FX_VEC_PUSH(l->toks, l->t->mem, tok))
        return fx_nomem(l->err, "a template's tokens");
    if (made)
        *made = &l->toks->at[l->toks->n - 1];
    return FORNAX_OK;
}

static int peek(const lexer *l, size_t ahead)
{
    return l->pos + ahead < l->s.n ? (unsigned char)l->s.p[l->pos + ahead] : -1;
}

/* Past the blanks at 'i'. */
static size_t skip_space(fx_str s, size_t i)
{
    while (i < s.n) {
        size_t j = i;

        if (!fx_jj_is_space(fx_utf8_next(s, &j)))
            break;
        i = j;
    }
    return i;
}

/* The end of s[0..n) without its trailing blanks. */
static size_t strip_end(const char *p, size_t n)
{
    while (n) {
        size_t start = n - 1, i;

        while (start && ((unsigned char)p[start] & 0xC0) == 0x80)
            start--;
        i = start;
        if (!fx_jj_is_space(fx_utf8_next(fx_str_n(p, n), &i)) || i != n)
            break;
        n = start;
    }
    return n;
}

static bool is_at(const lexer *l, size_t at, const char *z)
{
    size_t n = strlen(z);

    return at <= l->s.n && l->s.n - at >= n && memcmp(l->s.p + at, z, n) == 0;
}

static void take(lexer *l, size_t end)
{
    if (end > l->pos)
        l->line_start = l->s.p[end - 1] == '\n';
    l->pos = end;
}

/* The text [from, to) before a tag that carries 'sign' ('-', '+' or 0). */
static fx_status push_text(lexer *l, size_t from, size_t to, char sign, bool is_variable)
{
    const char *p = l->s.p + from;
    size_t n = to - from;

    if (sign == '-') {
        n = strip_end(p, n);
    } else if (sign != '+' && !is_variable) {
        size_t line = n;

        while (line && p[line - 1] != '\n')
            line--;
        if ((line || l->line_start) && skip_space(fx_str_n(p, n), line) == n)
            n = line;
    }
    return n ? push(l, JJT_DATA, from, fx_str_n(p, n), NULL) : FORNAX_OK;
}

static char sign_at(const lexer *l, size_t at)
{
    return at < l->s.n && (l->s.p[at] == '-' || l->s.p[at] == '+') ? l->s.p[at] : 0;
}

/* After "-%}" come blanks to drop, after "%}" a newline; 'at' is behind the tag. */
static size_t after_tag(const lexer *l, size_t at, char sign, bool trim)
{
    if (sign == '-')
        return skip_space(l->s, at);
    if (sign != '+' && trim && at < l->s.n && l->s.p[at] == '\n')
        return at + 1;
    return at;
}

static fx_status lex_comment(lexer *l, size_t start)
{
    for (size_t i = l->pos; i + 1 < l->s.n; i++) {
        char sign = sign_at(l, i);

        if (is_at(l, i + (sign ? 1 : 0), "#}")) {
            take(l, after_tag(l, i + (sign ? 3 : 2), sign, true));
            return FORNAX_OK;
        }
    }
    if (l->pos >= l->s.n)
        return FORNAX_OK;       /* "{#" as the very last thing is accepted by Jinja */
    return fail_at(l, start, "this comment has no end \"#}\"");
}

/* "{% raw %}" with its signs at 'at' (behind "{%" and sign)?  The end, or 0. */
static size_t raw_tag(const lexer *l, size_t at, const char *word)
{
    at = skip_space(l->s, at);
    if (!is_at(l, at, word))
        return 0;
    return skip_space(l->s, at + strlen(word));
}

static fx_status lex_raw(lexer *l, size_t start)
{
    for (size_t i = l->pos; i + 1 < l->s.n; i++) {
        char sign, sign2;
        size_t end;

        if (!is_at(l, i, "{%"))
            continue;
        sign = sign_at(l, i + 2);
        end = raw_tag(l, i + 2 + (sign ? 1 : 0), "endraw");
        if (!end)
            continue;
        sign2 = sign_at(l, end);
        if (!is_at(l, end + (sign2 ? 1 : 0), "%}"))
            continue;
        FX_TRY(push_text(l, l->pos, i, sign, false));
        take(l, after_tag(l, end + (sign2 ? 3 : 2), sign2, true));
        return FORNAX_OK;
    }
    if (l->pos >= l->s.n)
        return FORNAX_OK;
    return fail_at(l, start, "this raw block has no end \"{% endraw %}\"");
}

/* ---- inside a tag ---------------------------------------------------------- */

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

/* Digits with single underscores between them from 'at'; the end, or 'at'. */
static size_t digits(const lexer *l, size_t at)
{
    size_t i = at;

    while (i < l->s.n) {
        if (is_digit((unsigned char)l->s.p[i]))
            i++;
        else if (i > at && l->s.p[i] == '_' && i + 1 < l->s.n && is_digit((unsigned char)l->s.p[i + 1]))
            i += 2;
        else
            break;
    }
    return i;
}

/* The end of a float at the current place, or 0. */
static size_t float_end(const lexer *l)
{
    size_t i = digits(l, l->pos), j;
    bool real = false;

    if (i == l->pos || (l->pos && l->s.p[l->pos - 1] == '.'))
        return 0;
    if (i < l->s.n && l->s.p[i] == '.' && (j = digits(l, i + 1)) > i + 1) {
        i = j;
        real = true;
    }
    if (i < l->s.n && (l->s.p[i] == 'e' || l->s.p[i] == 'E')) {
        size_t k = i + 1;

        if (k < l->s.n && (l->s.p[k] == '+' || l->s.p[k] == '-'))
            k++;
        j = digits(l, k);
        if (j > k) {
            i = j;
            real = true;
        }
    }
    return real ? i : 0;
}

static int digit_value(int c)
{
    if (is_digit(c))
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

/* The end of an integer at the current place; *base its base. */
static size_t int_end(const lexer *l, int *base)
{
    int mark = peek(l, 1) | 0x20;
    size_t i;

    *base = 10;
    if (peek(l, 0) == '0' && (mark == 'b' || mark == 'o' || mark == 'x')) {
        int b = mark == 'b' ? 2 : mark == 'o' ? 8 : 16;
        size_t end = l->pos + 2;

        for (i = end; i < l->s.n; end = ++i) {
            if (l->s.p[i] == '_')
                i++;
            if (i >= l->s.n || digit_value((unsigned char)l->s.p[i]) >= b)
                break;
        }
        if (end > l->pos + 2) {
            *base = b;
            return end;
        }
    }
    if (peek(l, 0) != '0')
        return digits(l, l->pos);
    for (i = l->pos + 1; i < l->s.n;) {
        if (l->s.p[i] == '0')
            i++;
        else if (l->s.p[i] == '_' && i + 1 < l->s.n && l->s.p[i + 1] == '0')
            i += 2;
        else
            break;
    }
    return i;
}

static fx_status lex_number(lexer *l)
{
    char buf[64];
    size_t n = 0, start = l->pos, end = float_end(l);
    bool real = end != 0;
    int base = 10;
    jj_tok *tok;
    bool big = false;

    if (!real)
        end = int_end(l, &base);
    for (size_t i = start; i < end; i++) {
        if (l->s.p[i] == '_')
            continue;
        if (n == sizeof buf)
            return fail_at(l, start, "this number has too many digits");
        buf[n++] = l->s.p[i];
    }
    FX_TRY(push(l, real ? JJT_FLOAT : JJT_INT, start, fx_str_n(l->s.p + start, end - start), &tok));
    l->pos = end;
    if (real)
        return fx_jj_parse_float(fx_str_n(buf, n), &tok->u.f) ? FORNAX_OK
                                                              : fail_at(l, start, "not a number");
    if (!fx_jj_parse_int(fx_str_n(buf + (base == 10 ? 0 : 2), n - (base == 10 ? 0 : 2)), base, &tok->u.i, &big))
        return fail_at(l, start, big ? "integers beyond 64 bits are not supported" : "not an integer");
    return FORNAX_OK;
}

static bool is_word(uint32_t rune)
{
    if (rune < 0x80)
        return is_digit((int)rune) || rune == '_' || ((rune | 0x20) >= 'a' && (rune | 0x20) <= 'z');
    return fx_jj_is_word(rune);
}

static fx_status lex_name(lexer *l)
{
    size_t start = l->pos, i = start;

    while (i < l->s.n) {
        size_t j = i;

        if (!is_word(fx_utf8_next(l->s, &j)))
            break;
        i = j;
    }
    l->pos = i;
    if (!fx_jj_is_identifier(fx_str_n(l->s.p + start, i - start)))
        return fail_at(l, start, "invalid character in identifier");
    return push(l, JJT_NAME, start, fx_str_n(l->s.p + start, i - start), NULL);
}

/* One escape behind a backslash at s[*i]; 'out' gets at most 16 bytes. Returns
 * what is wrong, or NULL. */
static const char *unescape(fx_str s, size_t *i, char out[16], size_t *n)
{
    static const char simple[] = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
    char c = s.p[*i];
    int want = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t rune = 0;

    *n = 0;
    for (size_t k = 0; k + 1 < sizeof simple - 1; k += 2) {
        if (simple[k] == c) {
            out[(*n)++] = simple[k + 1];
            ++*i;
            return NULL;
        }
    }
    if (c == '\n') {
        ++*i;
        return NULL;
    }
    if (c >= '0' && c <= '7') {
        for (int k = 0; k < 3 && *i < s.n && s.p[*i] >= '0' && s.p[*i] <= '7'; k++)
            rune = rune * 8 + (uint32_t)(s.p[(*i)++] - '0');
    } else if (want) {
        ++*i;
        for (int k = 0; k < want; k++) {
            int d = *i < s.n ? digit_value((unsigned char)s.p[*i]) : 99;

            if (d > 15)
                return "a \\x, \\u or \\U escape has too few hexadecimal digits";
            rune = rune * 16 + (uint32_t)d;
            ++*i;
        }
        if (rune > 0x10FFFF || (rune >= 0xD800 && rune <= 0xDFFF))
            return "an escape names a code point that text can't hold";
    } else if (c == 'N') {
        return "\\N{...} escapes are not supported";
    } else if ((unsigned char)c >= 0x80) {      /* Python spells it out: "\é" is "\xe9" */
        rune = fx_utf8_next(s, i);
        *n = (size_t)snprintf(out, 16, rune < 0x100 ? "\\x%02x" : rune < 0x10000 ? "\\u%04x" : "\\U%08x", rune);
        return NULL;
    } else {
        out[(*n)++] = '\\';
        out[(*n)++] = c;
        ++*i;
        return NULL;
    }
    *n = fx_utf8_put(out, rune);
    return NULL;
}

static fx_status lex_string(lexer *l)
{
    size_t start = l->pos, end = start + 1, i, n = 0;
    char quote = l->s.p[start];
    bool plain = true;
    char *text;

    for (; end < l->s.n && l->s.p[end] != quote; end++)
        if (l->s.p[end] == '\\') {
            plain = false;
            if (++end == l->s.n)
                break;
        }
    if (end >= l->s.n)
        return fail_at(l, start, "this string has no closing quote");
    l->pos = end + 1;
    if (plain)
        return push(l, JJT_STRING, start, fx_str_n(l->s.p + start + 1, end - start - 1), NULL);
    text = fx_arena_alloc(&l->t->arena, (end - start) * 3 + 16);
    if (!text)
        return fx_nomem(l->err, "a template's string");
    for (i = start + 1; i < end;) {
        fx_str inside = fx_str_n(l->s.p, end);
        const char *wrong;
        size_t got;

        if (l->s.p[i] != '\\') {
            text[n++] = l->s.p[i++];
            continue;
        }
        i++;
        wrong = unescape(inside, &i, text + n, &got);
        if (wrong)
            return fail_at(l, start, wrong);
        n += got;
    }
    return push(l, JJT_STRING, start, fx_str_n(text, n), NULL);
}

static const struct {
    char text[3];
    jj_tok_type type;
} operators[] = {       /* the longer first */
    { "**", JJT_POW }, { "//", JJT_FLOORDIV }, { "==", JJT_EQ }, { "!=", JJT_NE },
    { ">=", JJT_GE }, { "<=", JJT_LE }, { "+", JJT_ADD }, { "-", JJT_SUB }, { "/", JJT_DIV },
    { "*", JJT_MUL }, { "%", JJT_MOD }, { "~", JJT_TILDE }, { "[", JJT_LBRACKET },
    { "]", JJT_RBRACKET }, { "(", JJT_LPAREN }, { ")", JJT_RPAREN }, { "{", JJT_LBRACE },
    { "}", JJT_RBRACE }, { ">", JJT_GT }, { "<", JJT_LT }, { "=", JJT_ASSIGN }, { ".", JJT_DOT },
    { ":", JJT_COLON }, { "|", JJT_PIPE }, { ",", JJT_COMMA }, { ";", JJT_SEMICOLON },
};

const char *fx_jj_tok_name(jj_tok_type t)
{
    static const char *const words[] = {
        "end of template", "template text", "begin of print statement", "end of print statement",
        "begin of statement block", "end of statement block", "name", "string", "integer", "float"
    };

    if (t < FX_COUNT(words))
        return words[t];
    for (size_t i = 0; i < FX_COUNT(operators); i++)
        if (operators[i].type == t)
            return operators[i].text;
    return "token";
}

static fx_status balance(lexer *l, char c, size_t at)
{
    char close = c == '(' ? ')' : c == '[' ? ']' : c == '{' ? '}' : 0;

    if (close) {
        if (l->n_open == MAX_NESTING)
            return fail_at(l, at, "brackets are nested too deeply");
        l->open[l->n_open++] = close;
    } else if (c == ')' || c == ']' || c == '}') {
        if (!l->n_open)
            return fx_diag(l->err, l->t->name, l->s, at, "unexpected '%c'", c);
        if (l->open[--l->n_open] != c)
            return fx_diag(l->err, l->t->name, l->s, at, "unexpected '%c', expected '%c'", c,
                           l->open[l->n_open]);
    }
    return FORNAX_OK;
}

static fx_status lex_operator(lexer *l)
{
    for (size_t i = 0; i < FX_COUNT(operators); i++) {
        size_t n = strlen(operators[i].text);

        if (!is_at(l, l->pos, operators[i].text))
            continue;
        FX_TRY(balance(l, l->s.p[l->pos], l->pos));
        FX_TRY(push(l, operators[i].type, l->pos, fx_str_n(l->s.p + l->pos, n), NULL));
        l->pos += n;
        return FORNAX_OK;
    }
    return fail_at(l, l->pos, "unexpected character");
}

/* The tag's end at the current place, if it is there: consumed, with its sign. */
static bool at_end(lexer *l, bool is_block)
{
    char sign = sign_at(l, l->pos);
    size_t at = l->pos + (sign ? 1 : 0);

    if (l->n_open || (sign == '+' && !is_block) || !is_at(l, at, is_block ? "%}" : "}}"))
        return false;
    take(l, after_tag(l, at + 2, sign, is_block));
    return true;
}

static fx_status lex_tag(lexer *l, bool is_block)
{
    l->n_open = 0;
    for (;;) {
        size_t at;
        int c;

        at = l->pos;
        if (at_end(l, is_block))
            return push(l, is_block ? JJT_BLOCK_END : JJT_VAR_END, at, FX_STR(""), NULL);
        take(l, skip_space(l->s, l->pos));
        at = l->pos;
        if (at_end(l, is_block))
            return push(l, is_block ? JJT_BLOCK_END : JJT_VAR_END, at, FX_STR(""), NULL);
        c = peek(l, 0);
        if (c < 0)
            return FORNAX_OK;       /* the parser says what is missing */
        if (is_digit(c))
            FX_TRY(lex_number(l));
        else if (c == '\'' || c == '"')
            FX_TRY(lex_string(l));
        else {
            size_t i = at;

            if (is_word(fx_utf8_next(l->s, &i)))
                FX_TRY(lex_name(l));
            else
                FX_TRY(lex_operator(l));
        }
    }
}

/* Text up to the next tag, and that tag. */
static fx_status lex_text(lexer *l)
{
    size_t from = l->pos, i = from, end;
    char kind = 0, sign;

    for (; i + 1 < l->s.n; i++) {
        kind = l->s.p[i + 1];
        if (l->s.p[i] == '{' && (kind == '{' || kind == '%' || kind == '#'))
            break;
    }
    if (i + 1 >= l->s.n) {
        l->pos = l->s.n;
        return push(l, JJT_DATA, from, fx_str_n(l->s.p + from, l->s.n - from), NULL);
    }
    sign = sign_at(l, i + 2);
    FX_TRY(push_text(l, from, i, sign, kind == '{'));
    take(l, i + 2 + (sign ? 1 : 0));
    if (kind == '#')
        return lex_comment(l, i);
    if (kind == '%' && (end = raw_tag(l, l->pos, "raw")) != 0) {
        bool minus = is_at(l, end, "-%}");

        if (minus || is_at(l, end, "%}")) {
            take(l, minus ? skip_space(l->s, end + 3) : end + 2);
            return lex_raw(l, i);
        }
    }
    FX_TRY(push(l, kind == '%' ? JJT_BLOCK_BEGIN : JJT_VAR_BEGIN, i, FX_STR(""), NULL));
    return lex_tag(l, kind == '%');
}

fx_status fx_jj_lex(fx_template *t, jj_tokens *out, fx_error *err)
{
    lexer l = { .t = t, .s = t->source, .toks = out, .err = err, .line_start = true };

    while (l.pos < l.s.n)
        FX_TRY(lex_text(&l));
    return push(&l, JJT_EOF, l.s.n, FX_STR(""), NULL);
}
