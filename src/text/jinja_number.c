/* jinja_number.c - numbers with Python's semantics: arithmetic, rounding, reading, printing.
 *
 * Integers are 64 bits; what would need more is an error that says so, never a
 * wrapped or rounded number.  true counts as 1. */
#include <math.h>
#include <stdio.h>

#include "text/jinja.h"

bool fx_jj_is_int(jj_val v, int64_t *out)
{
    if (v.type == JJ_INT)
        *out = v.u.i;
    else if (v.type == JJ_BOOL)
        *out = v.u.b;
    else
        return false;
    return true;
}

bool fx_jj_is_num(jj_val v, double *out)
{
    int64_t i;

    if (v.type == JJ_FLOAT)
        *out = v.u.f;
    else if (fx_jj_is_int(v, &i))
        *out = (double)i;
    else
        return false;
    return true;
}

static bool too_big(jj_run *r)
{
    return fx_jj_fail(r, "integers beyond 64 bits are not supported");
}

bool fx_jj_arg_int(jj_run *r, jj_val v, const char *what, int64_t *out)
{
    if (fx_jj_is_int(v, out))
        return true;
    if (v.type == JJ_UNDEF)
        return fx_jj_undef_fail(r, v);
    return fx_jj_fail(r, "%s: expected an integer, found '%s'", what, fx_jj_type_name(v));
}

bool fx_jj_arg_str(jj_run *r, jj_val v, const char *what, jj_str **out)
{
    if (v.type != JJ_STR)
        return fx_jj_fail(r, "%s: expected a string, found '%s'", what, fx_jj_type_name(v));
    *out = v.u.s;
    return true;
}

/* ---- arithmetic ------------------------------------------------------------------ */

static bool add(int64_t a, int64_t b, int64_t *out)
{
    if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b)
        return false;
    *out = a + b;
    return true;
}

static bool sub(int64_t a, int64_t b, int64_t *out)
{
    if (b < 0 ? a > INT64_MAX + b : a < INT64_MIN + b)
        return false;
    *out = a - b;
    return true;
}

static bool mul(int64_t a, int64_t b, int64_t *out)
{
    if (a == 0 || b == 0) {
        *out = 0;
        return true;
    }
    if ((a == -1 && b == INT64_MIN) || (b == -1 && a == INT64_MIN))
        return false;
    if (a > 0 ? (b > 0 ? a > INT64_MAX / b : b < INT64_MIN / a)
              : (b > 0 ? a < INT64_MIN / b : a < INT64_MAX / b))
        return false;
    *out = a * b;
    return true;
}

/* Rounds to minus infinity, as Python. b is not 0. */
static bool floor_div(int64_t a, int64_t b, int64_t *out)
{
    if (a == INT64_MIN && b == -1)
        return false;
    *out = a / b - (a % b != 0 && (a < 0) != (b < 0));
    return true;
}

static int64_t floor_mod(int64_t a, int64_t b)
{
    int64_t m;

    if (b == -1)
        return 0;
    m = a % b;
    return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}

static double float_mod(double a, double b)
{
    double m = fmod(a, b);

    if (m == 0)
        return copysign(0.0, b);
    return (m < 0) != (b < 0) ? m + b : m;
}

static double float_floor_div(double a, double b)
{
    double m = fmod(a, b), div = (a - m) / b, down;

    if (m != 0 && (m < 0) != (b < 0))
        div -= 1.0;
    if (div == 0)
        return copysign(0.0, a / b);
    down = floor(div);
    return div - down > 0.5 ? down + 1.0 : down;
}

static bool float_pow(jj_run *r, double a, double b, jj_val *out)
{
    double p;

    if (a == 0 && b < 0)
        return fx_jj_fail(r, "0.0 cannot be raised to a negative power");
    if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
        return fx_jj_fail(r, "complex numbers are not supported");
    p = pow(a, b);
    if (isinf(p) && isfinite(a) && isfinite(b))
        return fx_jj_fail(r, "numerical result out of range");
    *out = fx_jj_float(p);
    return true;
}

static bool int_pow(jj_run *r, int64_t a, int64_t b, jj_val *out)
{
    int64_t p = 1;

    if (b < 0)
        return float_pow(r, (double)a, (double)b, out);
    while (b) {
        if ((b & 1) && !mul(p, a, &p))
            return too_big(r);
        b >>= 1;
        if (b && !mul(a, a, &a))
            return too_big(r);
    }
    *out = fx_jj_int(p);
    return true;
}

static bool int_arith(jj_run *r, jj_op op, int64_t a, int64_t b, jj_val *out)
{
    int64_t x = 0;
    bool ok = true;

    if (b == 0 && op == JJO_DIV)
        return fx_jj_fail(r, "division by zero");
    if (b == 0 && (op == JJO_FLOORDIV || op == JJO_MOD))
        return fx_jj_fail(r, op == JJO_MOD ? "integer modulo by zero" : "integer division or modulo by zero");
    switch (op) {
    case JJO_ADD: ok = add(a, b, &x); break;
    case JJO_SUB: ok = sub(a, b, &x); break;
    case JJO_MUL: ok = mul(a, b, &x); break;
    case JJO_FLOORDIV: ok = floor_div(a, b, &x); break;
    case JJO_MOD: x = floor_mod(a, b); break;
    case JJO_DIV: *out = fx_jj_float((double)a / (double)b); return true;
    default: return int_pow(r, a, b, out);
    }
    *out = fx_jj_int(x);
    return ok || too_big(r);
}

static bool float_arith(jj_run *r, jj_op op, double a, double b, jj_val *out)
{
    if (b == 0 && op == JJO_DIV)
        return fx_jj_fail(r, "float division by zero");
    if (b == 0 && op == JJO_FLOORDIV)
        return fx_jj_fail(r, "float floor division by zero");
    if (b == 0 && op == JJO_MOD)
        return fx_jj_fail(r, "float modulo");
    switch (op) {
    case JJO_ADD: *out = fx_jj_float(a + b); break;
    case JJO_SUB: *out = fx_jj_float(a - b); break;
    case JJO_MUL: *out = fx_jj_float(a * b); break;
    case JJO_DIV: *out = fx_jj_float(a / b); break;
    case JJO_FLOORDIV: *out = fx_jj_float(float_floor_div(a, b)); break;
    case JJO_MOD: *out = fx_jj_float(float_mod(a, b)); break;
    default: return float_pow(r, a, b, out);
    }
    return true;
}

/* A string, list or tuple n times. */
static bool repeat(jj_run *r, jj_val seq, int64_t n, jj_val *out)
{
    const jj_list *from = seq.u.l;
    jj_list *l;

    if (seq.type == JJ_STR) {
        *out = fx_jj_sv(fx_jj_repeat(r, seq.u.s, n));
        return out->type == JJ_STR;
    }
    if (n < 0 || !from->n)
        n = 0;
    if (from->n && (uint64_t)n > r->max_bytes / sizeof *l->at / from->n)
        return fx_jj_fail(r, "a list exceeds the memory limit");
    l = fx_jj_list(r, (size_t)n * from->n);
    JJ_TRY(l && fx_jj_work(r, (size_t)n * from->n));
    for (; n; n--)
        for (size_t i = 0; i < from->n; i++)
            JJ_TRY(fx_jj_push(r, l, from->at[i]));
    *out = fx_jj_lv(l);
    out->type = seq.type;
    out->data = seq.data;
    return true;
}

static bool add_lists(jj_run *r, jj_val a, jj_val b, jj_val *out)
{
    jj_list *l = fx_jj_list(r, a.u.l->n + b.u.l->n);

    JJ_TRY(l && fx_jj_work(r, l->cap));
    for (size_t i = 0; i < a.u.l->n; i++)
        JJ_TRY(fx_jj_push(r, l, a.u.l->at[i]));
    for (size_t i = 0; i < b.u.l->n; i++)
        JJ_TRY(fx_jj_push(r, l, b.u.l->at[i]));
    *out = fx_jj_lv(l);
    out->type = a.type;
    out->data = a.data && b.data;
    return true;
}

static bool add_strings(jj_run *r, jj_str *a, jj_str *b, jj_val *out)
{
    if (a->markup != b->markup) {       /* the plain side is escaped */
        if (!a->markup)
            a = fx_jj_escape(r, a);
        else
            b = fx_jj_escape(r, b);
    }
    *out = a && b ? fx_jj_sv(fx_jj_cat(r, a, b)) : (jj_val){ 0 };
    return out->type == JJ_STR;
}

static bool no_operator(jj_run *r, jj_op op, jj_val a, jj_val b)
{
    static const char *const sign[] = { "+", "-", "*", "/", "//", "%", "** or pow()" };

    if (a.type == JJ_UNDEF)
        return fx_jj_undef_fail(r, a);
    if (b.type == JJ_UNDEF)
        return fx_jj_undef_fail(r, b);
    if (op == JJO_ADD && (a.type == JJ_STR || a.type == JJ_LIST || a.type == JJ_TUPLE))
        return fx_jj_fail(r, "can only concatenate %s (not \"%s\") to %s", fx_jj_type_name(a),
                          fx_jj_type_name(b), fx_jj_type_name(a));
    if (op == JJO_MUL && (a.type == JJ_STR || a.type == JJ_LIST || a.type == JJ_TUPLE))
        return fx_jj_fail(r, "can't multiply sequence by non-int of type '%s'", fx_jj_type_name(b));
    if (op == JJO_MUL && (b.type == JJ_STR || b.type == JJ_LIST || b.type == JJ_TUPLE))
        return fx_jj_fail(r, "can't multiply sequence by non-int of type '%s'", fx_jj_type_name(a));
    return fx_jj_fail(r, "unsupported operand type(s) for %s: '%s' and '%s'", sign[op], fx_jj_type_name(a),
                      fx_jj_type_name(b));
}

bool fx_jj_arith(jj_run *r, jj_op op, jj_val a, jj_val b, jj_val *out)
{
    int64_t i = 0, j = 0;
    double f, g;
    bool ai = fx_jj_is_int(a, &i), bi = fx_jj_is_int(b, &j);

    if (ai && bi) {
        JJ_TRY(int_arith(r, op, i, j, out));
        out->data = a.data || b.data;
        return true;
    }
    if (op == JJO_ADD && a.type == JJ_STR && b.type == JJ_STR)
        return add_strings(r, a.u.s, b.u.s, out);
    if (op == JJO_MOD && a.type == JJ_STR) {
        *out = fx_jj_sv(fx_jj_percent(r, a.u.s, b));
        return out->type == JJ_STR;
    }
    if (fx_jj_is_num(a, &f) && fx_jj_is_num(b, &g)) {
        JJ_TRY(float_arith(r, op, f, g, out));
        out->data = a.data || b.data;
        return true;
    }
    if (op == JJO_ADD && a.type == b.type && (a.type == JJ_LIST || a.type == JJ_TUPLE))
        return add_lists(r, a, b, out);
    if (op == JJO_MUL && bi && (a.type == JJ_STR || a.type == JJ_LIST || a.type == JJ_TUPLE))
        return repeat(r, a, j, out);
    if (op == JJO_MUL && ai && (b.type == JJ_STR || b.type == JJ_LIST || b.type == JJ_TUPLE))
        return repeat(r, b, i, out);
    return no_operator(r, op, a, b);
}

bool fx_jj_negate(jj_run *r, jj_val a, bool minus, jj_val *out)
{
    int64_t i;

    if (a.type == JJ_UNDEF)
        return fx_jj_undef_fail(r, a);
    if (fx_jj_is_int(a, &i)) {
        if (minus && i == INT64_MIN)
            return too_big(r);
        *out = fx_jj_int(minus ? -i : i);
    } else if (a.type == JJ_FLOAT) {
        *out = fx_jj_float(minus ? -a.u.f : a.u.f);
    } else {
        return fx_jj_fail(r, "bad operand type for unary %c: '%s'", minus ? '-' : '+', fx_jj_type_name(a));
    }
    out->data = a.data;
    return true;
}

/* ---- printing ---------------------------------------------------------------------- */

static bool reads_back(const char *digits, int n, int exp, double x)
{
    char text[48];
    double back;
    int len = snprintf(text, sizeof text, "%.*se%d", n, digits, exp - (n - 1));

    return fx_parse_double(fx_str_n(text, (size_t)len), &back) && back == x;
}

/* One unit in the last place up; false if that carries out of all digits. */
static bool next_digits(char *digits, int n)
{
    while (n-- > 1) {
        if (digits[n] != '9') {
            digits[n]++;
            return true;
        }
        digits[n] = '0';
    }
    return false;
}

/* The shortest digits that read back as x (finite, positive): their number; value d.ddd * 10^exp. */
static int shortest(double x, char digits[20], int *exp)
{
    int n;

    for (n = x < 2.3e-308 ? 1 : 15; n <= 17; n++) {
        char text[40], up[20];
        int64_t e = 0;
        int len = fx_format(text, sizeof text, "%.*e", n - 1, x), at = n > 1 ? n + 1 : 1;

        digits[0] = text[0];
        memcpy(digits + 1, text + 2, (size_t)n - 1);
        digits[n] = 0;
        at += text[at + 1] == '+' ? 2 : 1;
        if (!fx_parse_i64(fx_str_n(text + at, (size_t)(len - at)), &e))
            break;
        *exp = (int)e;
        if (n == 17 || reads_back(digits, n, *exp, x))
            break;
        /* At a power of two the spacing below is half: the digits above may still do. */
        memcpy(up, digits, sizeof up);
        if (next_digits(up, n) && reads_back(up, n, *exp, x)) {
            memcpy(digits, up, sizeof up);
            break;
        }
    }
    while (n > 1 && digits[n - 1] == '0')
        n--;
    digits[n] = 0;
    return n;
}

size_t fx_jj_float_repr(char out[40], double x)
{
    char digits[20];
    int exp = 0, n, len = 0;

    if (isnan(x) || isinf(x))
        return (size_t)snprintf(out, 40, "%s", isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
    if (signbit(x))
        out[len++] = '-';
    if (x == 0)
        return (size_t)(len + snprintf(out + len, (size_t)(40 - len), "0.0"));
    n = shortest(fabs(x), digits, &exp);
    if (exp < -4 || exp >= 16) {
        len += snprintf(out + len, (size_t)(40 - len), "%c%s%s", digits[0], n > 1 ? "." : "", digits + 1);
        len += snprintf(out + len, (size_t)(40 - len), "e%c%02d", exp < 0 ? '-' : '+', exp < 0 ? -exp : exp);
    } else if (exp < 0) {
        len += snprintf(out + len, (size_t)(40 - len), "0.%.*s%s", -exp - 1, "000", digits);
    } else if (n > exp + 1) {
        len += snprintf(out + len, (size_t)(40 - len), "%.*s.%s", exp + 1, digits, digits + exp + 1);
    } else {
        len += snprintf(out + len, (size_t)(40 - len), "%s%.*s.0", digits, exp + 1 - n, "0000000000000000");
    }
    return (size_t)len;
}

bool fx_jj_print_double(jj_buf *b, double x, char conv, int prec, bool alt, bool data)
{
    char text[800];
    bool upper = conv < 'a';
    int n;

    if (prec > 400)
        return fx_jj_fail(b->run, "a precision above 400 is not supported");
    if (isnan(x) || isinf(x)) {
        fx_jj_buf_z(b, isnan(x) ? (upper ? "NAN" : "nan") : x < 0 ? (upper ? "-INF" : "-inf")
                                                                  : (upper ? "INF" : "inf"), data);
        return true;
    }
    switch (conv) {
    case 'e': n = fx_format(text, sizeof text, alt ? "%#.*e" : "%.*e", prec, x); break;
    case 'E': n = fx_format(text, sizeof text, alt ? "%#.*E" : "%.*E", prec, x); break;
    case 'g': n = fx_format(text, sizeof text, alt ? "%#.*g" : "%.*g", prec, x); break;
    case 'G': n = fx_format(text, sizeof text, alt ? "%#.*G" : "%.*G", prec, x); break;
    default: n = fx_format(text, sizeof text, alt ? "%#.*f" : "%.*f", prec, x);
    }
    if (n < 0)
        return fx_jj_nomem(b->run);
    fx_jj_buf_add(b, text, FX_MIN((size_t)n, sizeof text - 1), data);
    return true;
}

/* ---- rounding ------------------------------------------------------------------------ */

/* To a multiple of 10^digits, ties to even. */
static bool round_int(jj_run *r, int64_t x, int64_t digits, jj_val *out)
{
    int64_t unit = 1, m, q;

    if (digits > 18) {                  /* 10^19 and more: nothing in 64 bits is nearer than half */
        if (digits == 19 && (x > 5000000000000000000 || x < -5000000000000000000))
            return too_big(r);
        *out = fx_jj_int(0);
        return true;
    }
    for (; digits > 0; digits--)
        unit *= 10;
    m = floor_mod(x, unit);
    floor_div(x, unit, &q);
    if (m > unit - m || (m == unit - m && (q & 1)))
        q++;
    if (!mul(q, unit, &x))
        return too_big(r);
    *out = fx_jj_int(x);
    return true;
}

bool fx_jj_round(jj_run *r, jj_val v, int64_t digits, jj_val *out)
{
    char text[800];
    int64_t i;
    double back;
    int n;

    if (fx_jj_is_int(v, &i)) {
        *out = fx_jj_int(i);
        if (digits < 0)
            JJ_TRY(round_int(r, i, digits < -20 ? 20 : -digits, out));
        out->data = v.data;
        return true;
    }
    if (v.type != JJ_FLOAT)
        return fx_jj_fail(r, "type %s doesn't define __round__ method", fx_jj_type_name(v));
    *out = v;
    if (!isfinite(v.u.f) || v.u.f == 0 || digits > 323)
        return true;
    if (digits >= 0) {
        n = fx_format(text, sizeof text, "%.*f", (int)digits, v.u.f);
    } else {                            /* digits before the point: through the exponent form */
        int exp = (int)floor(log10(fabs(v.u.f))), keep;

        if (fabs(v.u.f) >= pow(10.0, exp + 1))
            exp++;
        keep = digits < -400 ? -1 : exp + (int)digits;
        if (keep < 0) {
            double unit = digits < -308 ? HUGE_VAL : pow(10.0, (double)-digits);

            back = fabs(v.u.f) > unit / 2 ? unit : 0;
            *out = fx_jj_float(copysign(back, v.u.f));
            out->data = v.data;
            return true;
        }
        n = fx_format(text, sizeof text, "%.*e", keep, v.u.f);
    }
    if (n < 0 || !fx_parse_double(fx_str_n(text, (size_t)n), &back))
        return fx_jj_fail(r, "rounded value too large to represent");
    *out = fx_jj_float(back);
    out->data = v.data;
    return true;
}

/* ---- reading --------------------------------------------------------------------------- */

static fx_str trimmed(fx_str s)
{
    size_t i = 0;

    while (i < s.n) {
        size_t j = i;

        if (!fx_jj_is_space(fx_utf8_next(s, &j)))
            break;
        i = j;
    }
    s.p += i;
    s.n -= i;
    while (s.n) {
        size_t at = s.n - 1, j;

        while (at && ((unsigned char)s.p[at] & 0xC0) == 0x80)
            at--;
        j = at;
        if (!fx_jj_is_space(fx_utf8_next(s, &j)))
            break;
        s.n = at;
    }
    return s;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

/* Past "0x" where the base allows it; sets a base of 0. */
static bool take_prefix(fx_str *s, int64_t *base)
{
    int mark = s->n > 1 && s->p[0] == '0' ? s->p[1] | 0x20 : 0;
    int64_t of = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;

    if (of && (*base == of || *base == 0)) {
        s->p += 2;
        s->n -= 2;
        *base = of;
        return true;
    }
    if (*base == 0) {
        *base = 10;
        for (size_t i = 1; i < s->n && s->p[0] == '0'; i++)
            if (s->p[i] != '0' && s->p[i] != '_')
                *base = -1;             /* "012" is refused */
    }
    return false;
}

bool fx_jj_parse_int(fx_str s, int64_t base, int64_t *out, bool *big)
{
    bool minus = false, digit_before = false;
    int64_t x = 0;

    *big = false;
    s = trimmed(s);
    if (s.n && (*s.p == '-' || *s.p == '+')) {
        minus = *s.p == '-';
        s.p++;
        s.n--;
    }
    digit_before = take_prefix(&s, &base);     /* "0x_1" is fine */
    if (!s.n || base < 2 || base > 36)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        int d = digit_of(s.p[i]);

        if (s.p[i] == '_') {
            if (!digit_before || i + 1 == s.n)
                return false;
            digit_before = false;
            continue;
        }
        if (d >= base)
            return false;
        digit_before = true;
        if (!*big && (!mul(x, base, &x) || !(minus ? sub(x, d, &x) : add(x, d, &x))))
            *big = true;
    }
    *out = x;
    return !*big;
}

bool fx_jj_parse_float(fx_str s, double *out)
{
    static const char *const names[] = { "inf", "infinity", "nan" };
    char text[512];
    size_t n = 0;
    fx_str body;
    bool huge = false;

    s = trimmed(s);
    body = s;
    if (body.n && (*body.p == '-' || *body.p == '+')) {
        body.p++;
        body.n--;
    }
    for (size_t k = 0; k < FX_COUNT(names); k++) {
        size_t i = 0;

        while (i < body.n && names[k][i] && (body.p[i] | 0x20) == names[k][i])
            i++;
        if (i == body.n && i && !names[k][i]) {
            *out = copysign(k == 2 ? NAN : HUGE_VAL, *s.p == '-' ? -1.0 : 1.0);
            return true;
        }
    }
    for (size_t i = 0; i < s.n; i++) {
        bool between = i && i + 1 < s.n && digit_of(s.p[i - 1]) < 10 && digit_of(s.p[i + 1]) < 10;

        if (s.p[i] == '_' && between)
            continue;
        if (n == sizeof text)
            return false;
        text[n++] = s.p[i];
        huge = huge || (s.p[i] | 0x20) == 'e' || n > 300;
    }
    if (fx_parse_double(fx_str_n(text, n), out))
        return true;
    if (!huge || !n)
        return false;
    /* Well formed but beyond a double?  Then its mantissa alone reads. */
    for (size_t i = 0; i + 2 < n; i++) {
        if ((text[i] | 0x20) == 'e') {
            size_t from = i + 1 + (text[i + 1] == '+');
            int64_t e;

            if (!fx_parse_i64(fx_str_n(text + from, n - from), &e) || !fx_parse_double(fx_str_n(text, i), out))
                return false;
            *out = e > 0 ? copysign(HUGE_VAL, *out) : copysign(0, *out);
            return true;
        }
    }
    return false;
}
