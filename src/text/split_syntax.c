/* split_syntax.c - rewrites Oniguruma's syntax into PCRE2's (see split_regex.h).
 *
 * One pass over the pattern, copying.  'atom' is where the last complete atom
 * began in the output, so that a quantifier can wrap it; open groups keep theirs
 * on a stack.  A class is read into operands of &&, each a run of members that
 * PCRE2 can hold in one [...] and a list of members that it can't. */
#include <ctype.h>

#include "text/split_regex.h"

#define DEPTH_MAX 100           /* of nested groups and classes */

#define SPACE_SET "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define NOT_SPACE_SET                                                                                    \
    "\\x00-\\x08\\x0e-\\x1f\\x21-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}" \
    "\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}"
#define WORD_SET "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define HEX_SET "0-9A-Fa-f"
#define NOT_HEX_SET "\\x00-/:-@G-`g-\\x{10ffff}"

typedef struct rewriter {
    fx_str in;
    size_t i;
    const char *where;
    fx_error *err;
    size_t open[DEPTH_MAX];     /* where each open group began in the output */
    int depth;
    size_t atom;                /* FX_STR_NONE: nothing to quantify */
} rewriter;

static fx_status bad(const rewriter *r, fx_status st, const char *what)
{
    return fx_fail(r->err, st, "%s: regular expression, byte %zu: %s", r->where, r->i, what);
}

static int peek(const rewriter *r, size_t ahead)
{
    return r->in.n - r->i > ahead ? (unsigned char)r->in.p[r->i + ahead] : -1;
}

static bool looking_at(const rewriter *r, const char *z)
{
    return fx_str_starts(fx_str_n(r->in.p + r->i, r->in.n - r->i), fx_str_of(z));
}

static void copy(rewriter *r, fx_buf *out, size_t n)
{
    n = FX_MIN(n, r->in.n - r->i);
    fx_buf_add(out, r->in.p + r->i, n);
    r->i += n;
}

/* ---- Escapes and properties ----------------------------------------------------- */

/* Long names of general categories; PCRE2 knows the short ones, and scripts. */
static const struct { const char *name, *set; } property_names[] = {
    { "letter", "L" }, { "uppercaseletter", "Lu" }, { "lowercaseletter", "Ll" }, { "titlecaseletter", "Lt" },
    { "modifierletter", "Lm" }, { "otherletter", "Lo" }, { "mark", "M" }, { "nonspacingmark", "Mn" },
    { "spacingmark", "Mc" }, { "enclosingmark", "Me" }, { "number", "N" }, { "decimalnumber", "Nd" },
    { "letternumber", "Nl" }, { "othernumber", "No" }, { "punctuation", "P" }, { "connectorpunctuation", "Pc" },
    { "dashpunctuation", "Pd" }, { "openpunctuation", "Ps" }, { "closepunctuation", "Pe" },
    { "initialpunctuation", "Pi" }, { "finalpunctuation", "Pf" }, { "otherpunctuation", "Po" }, { "symbol", "S" },
    { "mathsymbol", "Sm" }, { "currencysymbol", "Sc" }, { "modifiersymbol", "Sk" }, { "othersymbol", "So" },
    { "separator", "Z" }, { "spaceseparator", "Zs" }, { "lineseparator", "Zl" }, { "paragraphseparator", "Zp" },
    { "other", "C" }, { "control", "Cc" }, { "format", "Cf" }, { "surrogate", "Cs" }, { "privateuse", "Co" },
    { "unassigned", "Cn" }, { "alpha", "Alphabetic" }, { "lower", "Lowercase" }, { "upper", "Uppercase" },
    { "digit", "Nd" }, { "cntrl", "Cc" }, { "space", "White_Space" },
};

/* \p{Name} at the cursor, into 'out' with PCRE2's name. */
static fx_status property(rewriter *r, fx_buf *out)
{
    bool negated = peek(r, 1) == 'P';
    char name[64];
    size_t n = 0, at = r->i + 2, end;

    if (peek(r, 2) != '{' || (end = fx_str_find(r->in, FX_STR("}"), at)) == FX_STR_NONE)
        return bad(r, FORNAX_EFORMAT, "expected \\p{name}");
    at++;
    if (at < end && r->in.p[at] == '^') {
        negated = !negated;
        at++;
    }
    if (end == at || end - at >= sizeof(name))
        return bad(r, FORNAX_EUNSUP, "a property of that name isn't known");
    for (size_t i = at; i < end; i++)
        if (!strchr(" _-", r->in.p[i]))
            name[n++] = (char)tolower((unsigned char)r->in.p[i]);
    name[n] = 0;
    fx_buf_puts(out, negated ? "\\P{" : "\\p{");
    for (size_t i = 0; i < FX_COUNT(property_names); i++)
        if (!strcmp(name, property_names[i].name)) {
            fx_buf_printf(out, "%s}", property_names[i].set);
            r->i = end + 1;
            return FORNAX_OK;
        }
    fx_buf_add(out, r->in.p + at, end + 1 - at);
    r->i = end + 1;
    return FORNAX_OK;
}

/* \xHH, \x{H..}, \uHHHH: a code point by number. */
static fx_status numbered(rewriter *r, fx_buf *out)
{
    bool braced = peek(r, 2) == '{';
    size_t at = braced ? 3 : 2, most = braced ? 8 : peek(r, 1) == 'u' ? 4 : 2, n = 0;
    uint32_t x = 0;

    while (n < most && peek(r, at + n) >= 0 && isxdigit(peek(r, at + n))) {
        int c = tolower(peek(r, at + n));

        x = x * 16 + (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
        n++;
    }
    if (n == 0 || (peek(r, 1) == 'u' && (n != 4 || braced)) || (braced && peek(r, at + n) != '}') || x > 0x10ffff)
        return bad(r, FORNAX_EFORMAT, "expected a code point after \\x or \\u");
    if (!braced && peek(r, 1) == 'x' && x >= 0x80)
        return bad(r, FORNAX_EUNSUP, "\\x of a single byte beyond ASCII");
    fx_buf_printf(out, "\\x{%x}", (unsigned)x);
    r->i += at + n + (braced ? 1 : 0);
    return FORNAX_OK;
}

/* A shorthand as the inside of a class, or NULL: \W has no such form (see class_member). */
static const char *shorthand_set(int c)
{
    switch (c) {
    case 's': return SPACE_SET;
    case 'S': return NOT_SPACE_SET;
    case 'd': return "\\p{Nd}";
    case 'D': return "\\P{Nd}";
    case 'w': return WORD_SET;
    case 'h': return HEX_SET;
    case 'H': return NOT_HEX_SET;
    default: return NULL;
    }
}

/* A character written by an escape that PCRE2 reads otherwise, or NULL. */
static const char *escaped_character(int c)
{
    switch (c) {
    case 'v': return "\\x0b";
    case 'a': return "\\x07";
    case 'e': return "\\x1b";
    case 'f': return "\\x0c";
    case 'n': return "\\x0a";
    case 'r': return "\\x0d";
    case 't': return "\\x09";
    default: return NULL;
    }
}

/* An escape outside a class. */
static fx_status escape(rewriter *r, fx_buf *out)
{
    int c = peek(r, 1);

    if (c < 0)
        return bad(r, FORNAX_EFORMAT, "expected a character after the backslash");
    if (c == 'p' || c == 'P')
        return property(r, out);
    if (c == 'x' || c == 'u')
        return numbered(r, out);
    if (shorthand_set(c)) {
        fx_buf_printf(out, "[%s]", shorthand_set(c));
    } else if (c == 'W') {
        fx_buf_puts(out, "[^" WORD_SET "]");
    } else if (c == 'b' || c == 'B') {
        fx_buf_puts(out, c == 'b' ? "(?:(?<=[" WORD_SET "])(?![" WORD_SET "])|(?<![" WORD_SET "])(?=[" WORD_SET "]))"
                                  : "(?:(?<=[" WORD_SET "])(?=[" WORD_SET "])|(?<![" WORD_SET "])(?![" WORD_SET "]))");
    } else if (escaped_character(c)) {
        fx_buf_puts(out, escaped_character(c));
    } else if (c < 0x80 && isalpha(c) && !strchr("AzZGRXKkg", c)) {
        fx_buf_putc(out, (char)c);              /* Oniguruma: the letter itself */
    } else if (c >= 0x80) {
        r->i++;                                 /* an escaped character beyond ASCII: itself */
        return FORNAX_OK;
    } else {
        copy(r, out, 2);
        return FORNAX_OK;
    }
    r->i += 2;
    return FORNAX_OK;
}

/* ---- Classes ----------------------------------------------------------------------- */

typedef struct operand {        /* one side of && */
    fx_buf simple;              /* what stands inside one [...] */
    fx_buf nested;              /* alternatives of their own, each after a '|' */
} operand;

static fx_status read_class(rewriter *r, fx_buf *out, int depth);

static void close_operand(operand *o, fx_buf *out)
{
    fx_str nested = fx_buf_view(&o->nested);

    if (!nested.n) {
        fx_buf_printf(out, "[%s]", o->simple.p ? o->simple.p : "");
    } else {
        fx_buf_puts(out, "(?:");
        if (o->simple.n)
            fx_buf_printf(out, "[%s]", o->simple.p);
        fx_buf_add(out, nested.p + (o->simple.n ? 0 : 1), nested.n - (o->simple.n ? 0 : 1));
        fx_buf_putc(out, ')');
    }
    out->failed |= o->simple.failed || o->nested.failed;
}

/* [:name:] within a class. */
static fx_status posix_member(rewriter *r, operand *o)
{
    size_t end = fx_str_find(r->in, FX_STR(":]"), r->i + 2);

    if (looking_at(r, "[:space:]"))
        fx_buf_puts(&o->simple, SPACE_SET);
    else if (looking_at(r, "[:^space:]"))
        fx_buf_puts(&o->simple, NOT_SPACE_SET);
    else if (looking_at(r, "[:word:]"))
        fx_buf_puts(&o->simple, WORD_SET);
    else
        fx_buf_add(&o->simple, r->in.p + r->i, end + 2 - r->i);
    r->i = end + 2;
    return FORNAX_OK;
}

static bool at_posix_member(const rewriter *r)
{
    size_t end = looking_at(r, "[:") ? fx_str_find(r->in, FX_STR(":]"), r->i + 2) : FX_STR_NONE;

    if (end == FX_STR_NONE)
        return false;
    for (size_t i = r->i + 2; i < end; i++)
        if (!isalpha((unsigned char)r->in.p[i]) && !(i == r->i + 2 && r->in.p[i] == '^'))
            return false;
    return true;
}

static fx_status class_escape(rewriter *r, operand *o)
{
    int c = peek(r, 1);

    if (c < 0)
        return bad(r, FORNAX_EFORMAT, "expected a character after the backslash");
    if (c == 'p' || c == 'P')
        return property(r, &o->simple);
    if (c == 'x' || c == 'u')
        return numbered(r, &o->simple);
    if (c == 'W')
        fx_buf_puts(&o->nested, "|[^" WORD_SET "]");
    else if (shorthand_set(c))
        fx_buf_puts(&o->simple, shorthand_set(c));
    else if (c == 'b')
        fx_buf_puts(&o->simple, "\\x08");
    else if (escaped_character(c))
        fx_buf_puts(&o->simple, escaped_character(c));
    else if (c >= 0x80 || isalpha(c))
        fx_buf_add(&o->simple, r->in.p + r->i + 1, 1);
    else
        fx_buf_add(&o->simple, r->in.p + r->i, 2);
    r->i += 2;
    return FORNAX_OK;
}

static fx_status class_member(rewriter *r, operand *o, int depth)
{
    int c = peek(r, 0);

    if (c == '\\')
        return class_escape(r, o);
    if (c != '[') {
        if (c == '^')                           /* must not come to stand first */
            fx_buf_putc(&o->simple, '\\');
        copy(r, &o->simple, 1);
        return FORNAX_OK;
    }
    if (at_posix_member(r))
        return posix_member(r, o);
    fx_buf_putc(&o->nested, '|');
    return read_class(r, &o->nested, depth + 1);
}

/* A whole class as an expression that matches exactly one character. */
static fx_status read_class(rewriter *r, fx_buf *out, int depth)
{
    bool negated = peek(r, 1) == '^', plain;
    fx_buf all;                 /* the operands before the last, as lookaheads */
    operand o;
    fx_status st = FORNAX_OK;

    if (depth > DEPTH_MAX)
        return bad(r, FORNAX_EUNSUP, "classes are nested too deep");
    fx_buf_init(&all, out->mem);
    fx_buf_init(&o.simple, out->mem);
    fx_buf_init(&o.nested, out->mem);
    r->i += negated ? 2 : 1;
    if (peek(r, 0) == ']') {                    /* first: itself */
        fx_buf_puts(&o.simple, "\\]");
        r->i++;
    }
    while (st == FORNAX_OK && peek(r, 0) != ']') {
        if (peek(r, 0) < 0) {
            st = bad(r, FORNAX_EFORMAT, "expected ] after the class");
        } else if (looking_at(r, "&&")) {
            fx_buf_puts(&all, "(?=");
            close_operand(&o, &all);
            fx_buf_putc(&all, ')');
            fx_buf_clear(&o.simple);
            fx_buf_clear(&o.nested);
            r->i += 2;
        } else {
            st = class_member(r, &o, depth);
        }
    }
    r->i++;
    if (st == FORNAX_OK && (o.simple.failed || o.nested.failed || all.failed))
        st = fx_nomem(r->err, "a regular expression");
    else if (st == FORNAX_OK && !o.simple.n && !o.nested.n)
        st = bad(r, FORNAX_EFORMAT, "an empty class");
    plain = !all.n && !o.nested.n;
    if (st == FORNAX_OK && plain) {
        fx_buf_printf(out, negated ? "[^%s]" : "[%s]", o.simple.p);
    } else if (st == FORNAX_OK) {
        fx_buf_puts(out, negated ? "(?:(?!" : "(?:");
        fx_buf_str(out, fx_buf_view(&all));
        close_operand(&o, out);
        fx_buf_puts(out, negated ? ")(?s:.))" : ")");
    }
    fx_buf_done(&all);
    fx_buf_done(&o.simple);
    fx_buf_done(&o.nested);
    return st;
}

/* ---- Groups and quantifiers ----------------------------------------------------------- */

static bool wrap_atom(fx_buf *out, size_t atom)
{
    if (!fx_buf_reserve(out, 3))
        return false;
    memmove(out->p + atom + 3, out->p + atom, out->n - atom + 1);
    memcpy(out->p + atom, "(?:", 3);
    out->n += 3;
    return true;
}

/* {n}, {n,}, {n,m}, {,m}: its length, or 0 for an ordinary brace. */
static size_t interval_length(const rewriter *r, bool *exact)
{
    size_t i = 1, low = 0, high = 0;

    for (; peek(r, i) >= '0' && peek(r, i) <= '9'; i++)
        low++;
    *exact = peek(r, i) == '}';
    if (peek(r, i) == ',')
        for (i++; peek(r, i) >= '0' && peek(r, i) <= '9'; i++)
            high++;
    return peek(r, i) == '}' && low + high > 0 ? i + 1 : 0;
}

static void interval(rewriter *r, fx_buf *out, size_t n, bool exact)
{
    int after = peek(r, n);
    bool wrap = (after == '+' || (after == '?' && exact)) && wrap_atom(out, r->atom);

    fx_buf_puts(out, peek(r, 1) == ',' ? "{0" : "{");
    r->i++;
    copy(r, out, n - 1);
    if (wrap)
        fx_buf_putc(out, ')');                  /* the + or ? then applies to the group */
    else if (after == '?')
        copy(r, out, 1);
}

/* (?imx-imx) and (?imx-imx: : Ruby's m is dot-all.  False: not such a group. */
static bool option_group(rewriter *r, fx_buf *out)
{
    size_t n = 2;

    while (peek(r, n) > 0 && strchr("imsx-", peek(r, n)))
        n++;
    if (n == 2 || (peek(r, n) != ')' && peek(r, n) != ':'))
        return false;
    for (size_t i = 0; i <= n; i++)
        fx_buf_putc(out, (char)(peek(r, i) == 'm' ? 's' : peek(r, i)));
    r->i += n + 1;
    return true;
}

static fx_status open_group(rewriter *r, fx_buf *out)
{
    size_t at = out->n;

    if (looking_at(r, "(?#")) {
        size_t end = fx_str_find(r->in, FX_STR(")"), r->i);

        if (end == FX_STR_NONE)
            return bad(r, FORNAX_EFORMAT, "expected ) after the comment");
        r->i = end + 1;
        return FORNAX_OK;
    }
    if (looking_at(r, "(?~"))
        return bad(r, FORNAX_EUNSUP, "the absence operator (?~...)");
    if (looking_at(r, "(?") && option_group(r, out)) {
        if (out->p && out->n && out->p[out->n - 1] == ')') {
            r->atom = FX_STR_NONE;
            return FORNAX_OK;
        }
    } else if (looking_at(r, "(?")) {
        copy(r, out, looking_at(r, "(?<=") || looking_at(r, "(?<!") ? 4 : 3);
    } else if (looking_at(r, "(*")) {
        return bad(r, FORNAX_EFORMAT, "nothing to repeat");
    } else {
        copy(r, out, 1);
    }
    if (r->depth == DEPTH_MAX)
        return bad(r, FORNAX_EUNSUP, "groups are nested too deep");
    r->open[r->depth++] = at;
    r->atom = FX_STR_NONE;
    return FORNAX_OK;
}

static fx_status one_atom(rewriter *r, fx_buf *out)
{
    size_t at = out->n, n;
    int c = peek(r, 0);
    bool exact;

    switch (c) {
    case '(':
        return open_group(r, out);
    case ')':
        if (r->depth == 0)
            return bad(r, FORNAX_EFORMAT, "a ) without its (");
        copy(r, out, 1);
        r->atom = r->open[--r->depth];
        return FORNAX_OK;
    case '|':
        copy(r, out, 1);
        r->atom = FX_STR_NONE;
        return FORNAX_OK;
    case '*': case '+': case '?':
        copy(r, out, peek(r, 1) == '?' || peek(r, 1) == '+' ? 2 : 1);
        return FORNAX_OK;
    case '{':
        n = interval_length(r, &exact);
        if (n && r->atom != FX_STR_NONE) {
            interval(r, out, n, exact);
            return FORNAX_OK;
        }
        fx_buf_putc(out, '\\');
        copy(r, out, 1);
        r->atom = at;
        return FORNAX_OK;
    case '[':
        r->atom = at;
        return read_class(r, out, 0);
    case '\\':
        r->atom = at;
        return escape(r, out);
    default:
        n = 1;
        while ((peek(r, n) & 0xc0) == 0x80 && peek(r, n) >= 0)     /* the rest of its UTF-8 */
            n++;
        copy(r, out, n);
        r->atom = at;
        return FORNAX_OK;
    }
}

fx_status fx_regex_translate(fx_buf *out, fx_str pattern, const char *where, fx_error *err)
{
    rewriter r = { .in = pattern, .where = where, .err = err, .atom = FX_STR_NONE };

    while (r.i < pattern.n) {
        FX_TRY(one_atom(&r, out));
        if (out->failed)
            return fx_nomem(err, "a regular expression");
    }
    if (r.depth)
        return bad(&r, FORNAX_EFORMAT, "expected ) after the group");
    if (!fx_buf_reserve(out, 1))                /* an empty pattern still needs its bytes */
        return fx_nomem(err, "a regular expression");
    return FORNAX_OK;
}
