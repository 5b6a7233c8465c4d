/* lex.c - words of our own text forms; see lex.h. */
#include "base/lex.h"

#include <stdarg.h>

#include "base/text.h"

bool fx_lex_fault(fx_lex *l, size_t at, const char *fmt, ...)
{
    char text[460];
    va_list ap;

    if (l->st == FORNAX_OK) {
        va_start(ap, fmt);
        fx_vformat(text, sizeof(text), fmt, ap);
        va_end(ap);
        l->st = fx_diag(l->err, l->file, l->text, at, "%s", text);
    }
    return false;
}

bool fx_lex_no_memory(fx_lex *l, const char *what)
{
    if (l->st == FORNAX_OK)
        l->st = fx_nomem(l->err, what);
    return false;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '.'; }

/* Over blanks and comments; whether a line began. */
static bool skip_blanks(fx_lex *l)
{
    bool first = l->i == 0, comment = false;

    for (; l->i < l->text.n; l->i++) {
        char c = fx_lex_peek(l, 0);

        if (c == '\n') {
            first = true;
            comment = false;
            l->lines++;
        } else if (c == '#') {
            comment = true;
        } else if (!comment && !fx_blank(c)) {
            break;
        }
    }
    return first;
}

/* Digits, then whatever of letters, digits and '.' may belong to a number; signs behind an e. */
static size_t number_length(const fx_lex *l)
{
    size_t n = 0;

    while (is_word(fx_lex_peek(l, n)) || ((fx_lex_peek(l, n) == '+' || fx_lex_peek(l, n) == '-') && (fx_lex_peek(l, n - 1) | 32) == 'e'))
        n++;
    return n;
}

static bool next_string(fx_lex *l)
{
    size_t n = 1;

    while (fx_lex_peek(l, n) != '"') {
        if (l->i + n >= l->text.n || fx_lex_peek(l, n) == '\n')
            return fx_lex_fault(l, l->t.at, "the string doesn't end on its line");
        n += fx_lex_peek(l, n) == '\\' ? 2 : 1;
    }
    l->t.kind = FX_T_STRING;
    l->t.s = fx_str_n(l->text.p + l->i + 1, n - 1);
    l->i += n + 1;
    return true;
}

bool fx_lex_next(fx_lex *l)
{
    bool first = skip_blanks(l);
    char c = fx_lex_peek(l, 0);
    size_t n = 1, start = 0;

    if (l->st != FORNAX_OK)
        return false;
    l->t = (fx_token){ .kind = FX_T_END, .at = l->i, .line = l->lines + 1, .first = first };
    if (l->i >= l->text.n)
        return true;
    if (is_letter(c) || (c == '%' && is_word(fx_lex_peek(l, 1)))) {
        l->t.kind = c == '%' ? FX_T_VALUE : FX_T_NAME;
        start = c == '%';
        while (is_word(fx_lex_peek(l, n)))
            n++;
    } else if (is_digit(c)) {
        l->t.kind = FX_T_NUMBER;
        n = number_length(l);
    } else if (c && strchr(l->puncts, c) && (c != '/' || fx_lex_peek(l, 1) == '/')) {
        if (c == '"')
            return next_string(l);
        l->t.kind = FX_T_PUNCT;
        n = c == '/' ? 2 : 1;
    } else {
        return fx_lex_fault(l, l->i, "a character that means nothing here");
    }
    l->t.s = fx_str_n(l->text.p + l->i + start, n - start);
    l->i += n;
    return true;
}

bool fx_lex_take(fx_lex *l, const char *punct) { return l->st == FORNAX_OK && fx_lex_at(l, punct) && fx_lex_next(l); }

bool fx_lex_take_name(fx_lex *l, const char *name)
{
    return l->st == FORNAX_OK && fx_lex_at_name(l, name) && fx_lex_next(l);
}

bool fx_lex_expect(fx_lex *l, const char *punct)
{
    return fx_lex_at(l, punct) ? fx_lex_next(l) : fx_lex_fault(l, l->t.at, "expected %s", punct);
}

bool fx_lex_expect_name(fx_lex *l, const char *name)
{
    return fx_lex_at_name(l, name) ? fx_lex_next(l) : fx_lex_fault(l, l->t.at, "expected %s", name);
}

bool fx_lex_i64(fx_lex *l, int64_t *out)
{
    size_t at = l->t.at;
    bool minus = fx_lex_take(l, "-");
    uint64_t n;

    if (l->st != FORNAX_OK)
        return false;
    if (l->t.kind != FX_T_NUMBER || !fx_parse_u64(l->t.s, &n) || n > (uint64_t)INT64_MAX + minus)
        return fx_lex_fault(l, at, "expected a whole number");
    *out = minus ? (int64_t)(0 - n) : (int64_t)n;
    return fx_lex_next(l);
}
