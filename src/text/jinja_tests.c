/* jinja_tests.c - what may stand behind "is". */
#include "text/jinja.h"

#define TEST_FN(name) \
    static bool name(jj_run *r, jj_val self, const jj_val *a, const jj_args *all, jj_val *out)

static bool give(bool holds, jj_val *out)
{
    *out = fx_jj_bool(holds);
    return true;
}

#define SIMPLE(name, cond)         \
    TEST_FN(name)                  \
    {                              \
        (void)r;                   \
        (void)self;                \
        (void)a;                   \
        (void)all;                 \
        return give((cond), out);  \
    }

static bool is_true(jj_val v) { return v.type == JJ_BOOL && v.u.b; }
static bool is_false(jj_val v) { return v.type == JJ_BOOL && !v.u.b; }

SIMPLE(t_defined, self.type != JJ_UNDEF)
SIMPLE(t_undefined, self.type == JJ_UNDEF)
SIMPLE(t_none, self.type == JJ_NONE)
SIMPLE(t_boolean, self.type == JJ_BOOL)
SIMPLE(t_true, is_true(self))
SIMPLE(t_false, is_false(self))
SIMPLE(t_integer, self.type == JJ_INT)
SIMPLE(t_float, self.type == JJ_FLOAT)
SIMPLE(t_number, self.type == JJ_INT || self.type == JJ_FLOAT || self.type == JJ_BOOL)
SIMPLE(t_string, self.type == JJ_STR)
SIMPLE(t_mapping, self.type == JJ_DICT)
SIMPLE(t_iterable, fx_jj_iterable(self) || self.type == JJ_LOOP)
/* Jinja asks for len() and [ ], which views lack. */
SIMPLE(t_sequence, fx_jj_len(self) >= 0 && self.type != JJ_VIEW)
SIMPLE(t_callable, (self.type >= JJ_MACRO && self.type != JJ_CYCLER) || self.type == JJ_UNDEF)
SIMPLE(t_escaped, self.type == JJ_STR && self.u.s->markup)
SIMPLE(t_filter, self.type == JJ_STR && fx_jj_filter(fx_jj_view(self.u.s)) != NULL)
SIMPLE(t_test, self.type == JJ_STR && fx_jj_test(fx_jj_view(self.u.s)) != NULL)

static bool remainder_is(jj_run *r, jj_val self, jj_val by, int64_t want, jj_val *out)
{
    jj_val m;

    JJ_TRY(fx_jj_arith(r, JJO_MOD, self, by, &m));
    return give(fx_jj_eq(r, m, fx_jj_int(want)) == 1, out);
}

TEST_FN(t_odd) { (void)a; (void)all; return remainder_is(r, self, fx_jj_int(2), 1, out); }
TEST_FN(t_even) { (void)a; (void)all; return remainder_is(r, self, fx_jj_int(2), 0, out); }
TEST_FN(t_divisibleby) { (void)all; return remainder_is(r, self, a[0], 0, out); }

/* All cased characters of str(self) are of that case, and there is one. */
static bool case_is(jj_run *r, jj_val self, bool upper, jj_val *out)
{
    jj_str *s = fx_jj_to_str(r, self);
    jj_list none = { 0 };
    const jj_def *def = fx_jj_method(JJ_STR, upper ? FX_STR("isupper") : FX_STR("islower"));
    jj_args args = { .pos = none.at };

    return s && fx_jj_call_def(r, def, fx_jj_sv(s), &args, out);
}

TEST_FN(t_lower) { (void)a; (void)all; return case_is(r, self, false, out); }
TEST_FN(t_upper) { (void)a; (void)all; return case_is(r, self, true, out); }

/* The same object: containers by address, the rest by value and type. */
TEST_FN(t_sameas)
{
    jj_val o = a[0];
    bool same = self.type == o.type;

    (void)all;
    if (same && (self.type == JJ_BOOL || self.type == JJ_INT || self.type == JJ_FLOAT || self.type == JJ_STR))
        same = fx_jj_eq(r, self, o) == 1;
    else if (same && self.type != JJ_NONE)
        same = self.u.s == o.u.s;
    return give(same, out);
}

static bool give_cmp(int got, bool negate, jj_val *out)
{
    return got >= 0 && give((got == 1) != negate, out);
}

TEST_FN(t_in) { (void)all; return give_cmp(fx_jj_contains(r, a[0], self), false, out); }
TEST_FN(t_eq) { (void)all; return give_cmp(fx_jj_eq(r, self, a[0]), false, out); }
TEST_FN(t_ne) { (void)all; return give_cmp(fx_jj_eq(r, self, a[0]), true, out); }
TEST_FN(t_lt) { (void)all; return give_cmp(fx_jj_less(r, self, a[0], JJO_LT), false, out); }
TEST_FN(t_le) { (void)all; return give_cmp(fx_jj_less(r, self, a[0], JJO_LE), false, out); }
TEST_FN(t_gt) { (void)all; return give_cmp(fx_jj_less(r, self, a[0], JJO_GT), false, out); }
TEST_FN(t_ge) { (void)all; return give_cmp(fx_jj_less(r, self, a[0], JJO_GE), false, out); }

static const jj_def tests[] = {
    { "!=", t_ne, "/other" },
    { "<", t_lt, "/other" },
    { "<=", t_le, "/other" },
    { "==", t_eq, "/other" },
    { ">", t_gt, "/other" },
    { ">=", t_ge, "/other" },
    { "boolean", t_boolean, "" },
    { "callable", t_callable, "" },
    { "defined", t_defined, "" },
    { "divisibleby", t_divisibleby, "num" },
    { "eq", t_eq, "/other" },
    { "equalto", t_eq, "/other" },
    { "escaped", t_escaped, "" },
    { "even", t_even, "" },
    { "false", t_false, "" },
    { "filter", t_filter, "" },
    { "float", t_float, "" },
    { "ge", t_ge, "/other" },
    { "greaterthan", t_gt, "/other" },
    { "gt", t_gt, "/other" },
    { "in", t_in, "seq" },
    { "integer", t_integer, "" },
    { "iterable", t_iterable, "" },
    { "le", t_le, "/other" },
    { "lessthan", t_lt, "/other" },
    { "lower", t_lower, "" },
    { "lt", t_lt, "/other" },
    { "mapping", t_mapping, "" },
    { "ne", t_ne, "/other" },
    { "none", t_none, "" },
    { "number", t_number, "" },
    { "odd", t_odd, "" },
    { "sameas", t_sameas, "other" },
    { "sequence", t_sequence, "" },
    { "string", t_string, "" },
    { "test", t_test, "" },
    { "true", t_true, "" },
    { "undefined", t_undefined, "" },
    { "upper", t_upper, "" },
};

const jj_def *fx_jj_test(fx_str name)
{
    return fx_jj_find(tests, FX_COUNT(tests), name);
}
