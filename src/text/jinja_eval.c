/* jinja_eval.c - expressions: names, attributes, items, slices, operators, calls.
 *
 * r->at follows the node being worked on, so that whoever fails needs no node:
 * fx_jj_fail reports that place.  Each operation sets it again after its
 * operands are evaluated. */
#include "text/jinja.h"

/* ---- names -------------------------------------------------------------------- */

jj_scope *fx_jj_scope(jj_run *r, jj_scope *up)
{
    jj_scope *s = fx_jj_alloc(r, sizeof *s);

    if (s)
        s->up = up;
    return s;
}

bool fx_jj_bind(jj_run *r, jj_scope *s, uint32_t sym, jj_val v)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->at[i].sym == sym) {
            s->at[i].v = v;
            return true;
        }
    }
    if (s->n == s->cap) {
        uint32_t cap = s->cap ? s->cap * 2 : 4;
        jj_slot *at = fx_jj_alloc(r, cap * sizeof *at);

        JJ_TRY(at);
        if (s->n)
            memcpy(at, s->at, s->n * sizeof *at);
        s->at = at;
        s->cap = cap;
    }
    s->at[s->n++] = (jj_slot){ sym, v };
    return true;
}

/* A variable passed in, or a global; converted when first asked for. */
static bool outer_value(jj_run *r, uint32_t sym, jj_val *out)
{
    fx_str name = r->t->syms[sym];
    const json_t *j = NULL;
    bool data = true;
    const jj_def *def;
    char key[256];

    if (fx_jj_given(r->outer[sym])) {
        *out = r->outer[sym];
        return true;
    }
    if (name.n < sizeof key) {
        memcpy(key, name.p, name.n);
        key[name.n] = 0;
        j = json_object_get(r->vars, key);
        if (!j && r->trusted) {
            j = json_object_get(r->trusted, key);
            data = false;
        }
    }
    if (j) {
        JJ_TRY(fx_jj_from_json(r, j, data, out));
    } else if ((def = fx_jj_global(name)) != NULL) {
        *out = (jj_val){ .type = JJ_FUNC, .u.def = def };
    } else {
        jj_str *s = fx_jj_str(r, name.p, name.n, false);

        JJ_TRY(s && fx_jj_undef(r, NULL, fx_jj_sv(s), out));
    }
    r->outer[sym] = *out;
    return true;
}

bool fx_jj_lookup(jj_run *r, uint32_t sym, jj_val *out)
{
    for (const jj_scope *s = r->scope; s; s = s->up) {
        for (uint32_t i = 0; i < s->n; i++) {
            if (s->at[i].sym != sym)
                continue;
            *out = s->at[i].v;
            if (fx_jj_given(*out))
                return true;
            fx_str name = r->t->syms[sym];      /* a parameter whose turn has not come */
            jj_str *text = fx_jj_str(r, name.p, name.n, false);

            return text && fx_jj_undef(r, NULL, fx_jj_sv(text), out);
        }
    }
    return outer_value(r, sym, out);
}

/* ---- attributes and items --------------------------------------------------------- */

/* Names every Python object has; the sandbox hides them. */
static bool is_dunder(fx_str name)
{
    return name.n > 4 && fx_str_starts(name, FX_STR("__")) && fx_str_ends(name, FX_STR("__"));
}

/* Undefined, and using it says that the access was unsafe. */
static bool unsafe(jj_run *r, jj_val obj, jj_str *name, jj_val *out)
{
    jj_str *hint = fx_jj_strf(r, "access to attribute '%.*s' of '%s' object is unsafe.",
                              (int)FX_MIN(name->n, 100), name->p, fx_jj_type_name(obj));

    return fx_jj_undef_hint(r, hint, fx_jj_sv(name), out);
}

static bool macro_attr(jj_run *r, const jj_macro *m, fx_str name, jj_val *out)
{
    static const struct { const char *name; int bit; } flags[] = {
        { "catch_kwargs", JJ_USES_KWARGS }, { "catch_varargs", JJ_USES_VARARGS }, { "caller", JJ_USES_CALLER },
    };
    jj_list *l;

    for (size_t i = 0; i < FX_COUNT(flags); i++) {
        if (fx_str_is(name, flags[i].name)) {
            *out = fx_jj_bool((m->node->op & flags[i].bit) != 0);
            return true;
        }
    }
    if (fx_str_is(name, "name")) {
        fx_str is = m->node->sym == JJ_NO_SYM ? FX_STR("") : r->t->syms[m->node->sym];

        *out = m->node->sym == JJ_NO_SYM ? fx_jj_none() : fx_jj_sv(fx_jj_str(r, is.p, is.n, false));
        return fx_jj_given(*out);
    }
    if (!fx_str_is(name, "arguments"))
        return false;
    l = fx_jj_list(r, 0);
    for (const jj_node *p = m->node->a; p && l; p = p->next)
        if (!fx_jj_push(r, l, fx_jj_sv(fx_jj_str(r, r->t->syms[p->sym].p, r->t->syms[p->sym].n, false))))
            return false;
    *out = fx_jj_lv(l);
    out->type = JJ_TUPLE;
    return l != NULL;
}

/* Attributes that are values, not methods. */
static bool value_attr(jj_run *r, jj_val obj, fx_str name, jj_val *out)
{
    bool found = false;

    if (obj.type == JJ_LOOP)
        return fx_jj_loop_attr(r, obj, name, out, &found) && found;
    if (obj.type == JJ_NS)
        return fx_jj_dict_getz(obj.u.d, name, out);
    if (obj.type == JJ_MACRO)
        return macro_attr(r, obj.u.macro, name, out);
    if (obj.type == JJ_TUPLE && obj.u.l->group && (fx_str_is(name, "grouper") || fx_str_is(name, "list"))) {
        *out = obj.u.l->at[fx_str_is(name, "list")];
        return true;
    }
    if (obj.type == JJ_RANGE && (fx_str_is(name, "start") || fx_str_is(name, "stop") || fx_str_is(name, "step"))) {
        *out = fx_jj_int(name.n == 5 ? obj.u.range->start : name.p[2] == 'o' ? obj.u.range->stop : obj.u.range->step);
        return true;
    }
    if (obj.type == JJ_CYCLER && fx_str_is(name, "current")) {
        *out = obj.u.cycler->items.at[obj.u.cycler->pos];
        return true;
    }
    if ((obj.type == JJ_INT || obj.type == JJ_BOOL || obj.type == JJ_FLOAT) &&
        (fx_str_is(name, "real") || fx_str_is(name, "imag"))) {
        *out = fx_str_is(name, "imag") ? obj.type == JJ_FLOAT ? fx_jj_float(0) : fx_jj_int(0) : obj;
        return true;
    }
    return false;
}

/* Python's getattr within the sandbox: 1 found (it may be an unsafe undefined), 0 no such, -1 failed. */
static int python_attr(jj_run *r, jj_val obj, jj_str *name, jj_val *out)
{
    fx_str n = fx_jj_view(name);
    const jj_def *def;
    jj_method *m;

    if (value_attr(r, obj, n, out))
        return 1;
    if (r->status != FORNAX_OK)
        return -1;
    if ((obj.type != JJ_NS && is_dunder(n)) || fx_jj_method_forbidden((jj_type)obj.type, n))
        return unsafe(r, obj, name, out) ? 1 : -1;
    def = fx_jj_method((jj_type)obj.type, n);
    if (obj.type == JJ_FUNC && strcmp(obj.u.def->name, "dict") == 0 && fx_str_is(n, "fromkeys"))
        def = fx_jj_method(JJ_DICT, n);
    if (!def)
        return 0;
    m = fx_jj_alloc(r, sizeof *m);
    if (!m)
        return -1;
    *m = (jj_method){ obj, def };
    *out = (jj_val){ .type = JJ_METHOD, .u.method = m };
    return 1;
}

static int64_t wrap_index(int64_t i, int64_t n)
{
    return i < 0 ? i + n : i;
}

/* obj[key]: 1 found, 0 no such item (LookupError, TypeError), -1 failed. */
static int python_item(jj_run *r, jj_val obj, jj_val key, jj_val *out)
{
    int64_t i, n;
    int got;

    if (obj.type == JJ_DICT) {
        got = fx_jj_dict_get(r, obj.u.d, key, out, false);
        return r->status != FORNAX_OK ? -1 : got == 1;
    }
    if (obj.type == JJ_UNDEF) {
        fx_jj_undef_fail(r, obj);
        return -1;
    }
    if (!fx_jj_is_int(key, &i) ||
        (obj.type != JJ_LIST && obj.type != JJ_TUPLE && obj.type != JJ_STR && obj.type != JJ_RANGE))
        return 0;
    n = fx_jj_len(obj);
    i = wrap_index(i, n);
    if (i < 0 || i >= n)
        return 0;
    if (obj.type == JJ_RANGE) {
        *out = fx_jj_int(obj.u.range->start + i * obj.u.range->step);
    } else if (obj.type == JJ_STR) {
        size_t a = fx_jj_byte_of(obj.u.s, (size_t)i), e = fx_jj_byte_of(obj.u.s, (size_t)i + 1);

        if (!fx_jj_work(r, a / 64))
            return -1;
        *out = fx_jj_sv(fx_jj_sub(r, obj.u.s, a, e));
    } else {
        *out = obj.u.l->at[i];
    }
    return fx_jj_given(*out) ? 1 : -1;
}

bool fx_jj_getattr(jj_run *r, jj_val obj, jj_str *name, jj_val *out)
{
    int got;

    if (obj.type == JJ_UNDEF)
        return fx_jj_undef_fail(r, obj);
    got = python_attr(r, obj, name, out);
    if (got == 0)
        got = python_item(r, obj, fx_jj_sv(name), out);
    if (got == 0)
        return fx_jj_undef(r, fx_jj_obj_name(obj), fx_jj_sv(name), out);
    return got == 1;
}

bool fx_jj_getitem(jj_run *r, jj_val obj, jj_val key, jj_val *out)
{
    int got = python_item(r, obj, key, out);

    if (got == 0 && key.type == JJ_STR)
        got = python_attr(r, obj, key.u.s, out);
    if (got == 0)
        return fx_jj_undef(r, fx_jj_obj_name(obj), key, out);
    return got == 1;
}

/* ---- slices --------------------------------------------------------------------------- */

/* A bound of a slice, clamped as Python does; 'none' is its default. */
static bool slice_bound(jj_run *r, const jj_node *n, int64_t len, bool down, int64_t none, int64_t *out)
{
    jj_val v;

    *out = none;
    if (!n)
        return true;
    JJ_TRY(fx_jj_eval(r, n, &v));
    r->at = n->at;
    if (v.type == JJ_NONE)
        return true;
    if (!fx_jj_is_int(v, out))
        return fx_jj_fail(r, "slice indices must be integers or None or have an __index__ method");
    if (*out < 0) {
        *out = *out < -len ? -1 : *out + len;
        if (*out < 0)
            *out = down ? -1 : 0;
    } else if (*out >= len) {
        *out = down ? len - 1 : len;
    }
    return true;
}

static bool slice_list(jj_run *r, jj_val obj, int64_t start, int64_t step, int64_t n, jj_val *out)
{
    jj_list *l = fx_jj_list(r, (size_t)n);

    JJ_TRY(l && fx_jj_work(r, (size_t)n));
    for (; n; n--, start += step)
        l->at[l->n++] = obj.u.l->at[start];
    *out = fx_jj_lv(l);
    out->type = obj.type;
    out->data = obj.data;
    return true;
}

static bool slice_range(jj_run *r, const jj_range *g, int64_t start, int64_t stop, int64_t step, int64_t n, jj_val *out)
{
    jj_range *s = fx_jj_alloc(r, sizeof *s);

    JJ_TRY(s);
    *s = (jj_range){ g->start + start * g->step, g->start + stop * g->step, g->step * step, (size_t)n };
    *out = (jj_val){ .type = JJ_RANGE, .u.range = s };
    return true;
}

static bool eval_slice(jj_run *r, jj_val obj, const jj_node *n, jj_val *out)
{
    int64_t len = fx_jj_len(obj), start, stop, step = 1, count = 0;
    jj_val v;

    if (obj.type == JJ_UNDEF)
        return fx_jj_undef_fail(r, obj);
    if (obj.type == JJ_DICT)
        return fx_jj_fail(r, "unhashable type: 'slice'");
    if (obj.type != JJ_STR && obj.type != JJ_LIST && obj.type != JJ_TUPLE && obj.type != JJ_RANGE)
        return fx_jj_fail(r, "'%s' object is not subscriptable", fx_jj_type_name(obj));
    if (n->c) {
        JJ_TRY(fx_jj_eval(r, n->c, &v));
        r->at = n->c->at;
        if (v.type != JJ_NONE && !fx_jj_is_int(v, &step))
            return fx_jj_fail(r, "slice indices must be integers or None or have an __index__ method");
        if (step == 0)
            return fx_jj_fail(r, "slice step cannot be zero");
    }
    if (step > INT32_MAX || step < -INT32_MAX)      /* no longer than any sequence */
        step = step > 0 ? INT32_MAX : -INT32_MAX;
    JJ_TRY(slice_bound(r, n->a, len, step < 0, step < 0 ? len - 1 : 0, &start));
    JJ_TRY(slice_bound(r, n->b, len, step < 0, step < 0 ? -1 : len, &stop));
    if (step > 0 ? start < stop : start > stop)
        count = step > 0 ? (stop - start - 1) / step + 1 : (start - stop - 1) / -step + 1;
    if (obj.type == JJ_RANGE)
        return slice_range(r, obj.u.range, start, stop, step, count, out);
    if (obj.type != JJ_STR)
        return slice_list(r, obj, start, step, count, out);
    JJ_TRY(fx_jj_work(r, obj.u.s->n / 64 + (step == 1 ? 0 : (size_t)count)));
    *out = fx_jj_sv(fx_jj_slice_chars(r, obj.u.s, start, step, count));
    return out->type == JJ_STR;
}

/* ---- calls ----------------------------------------------------------------------------- */

/* One name of a def's parameters from *p on; false at the end. */
static bool next_param(const char **p, fx_str *name, bool *optional)
{
    const char *at = *p;

    while (*at == ' ' || *at == '/')
        at++;
    if (!*at)
        return false;
    name->p = at;
    while (*at && *at != ' ' && *at != '?')
        at++;
    name->n = (size_t)(at - name->p);
    *optional = *at == '?';
    *p = at + *optional;
    return true;
}

static bool bind_keywords(jj_run *r, const jj_def *def, const jj_args *args, jj_val *a)
{
    if (args->n_kw && def->params[0] == '/')
        return fx_jj_fail(r, "%s() takes no keyword arguments", def->name);
    for (size_t k = 0; k < args->n_kw; k++) {
        fx_str key = fx_jj_view(args->kw[k].name), name;
        const char *p = def->params;
        bool optional, done = false;

        for (size_t i = 0; !done && next_param(&p, &name, &optional); i++) {
            if (!fx_str_eq(name, key))
                continue;
            if (fx_jj_given(a[i]))
                return fx_jj_fail(r, "%s() got multiple values for argument '%.*s'", def->name, FX_STR_ARG(name));
            a[i] = args->kw[k].v;
            done = true;
        }
        if (!done)
            return fx_jj_fail(r, "%s() got an unexpected keyword argument '%.*s'", def->name,
                              (int)FX_MIN(key.n, 100), key.p);
    }
    return true;
}

bool fx_jj_call_def(jj_run *r, const jj_def *def, jj_val self, const jj_args *args, jj_val *out)
{
    jj_val a[JJ_MAX_PARAMS] = { 0 };
    const char *p = def->params;
    size_t i = 0;
    fx_str name;
    bool optional;

    if (def->params[0] != '*') {
        for (; i < args->n; i++) {
            if (!next_param(&p, &name, &optional))
                return fx_jj_fail(r, "%s() takes at most %zu arguments (%zu given)", def->name, i, args->n);
            a[i] = args->pos[i];
        }
        JJ_TRY(bind_keywords(r, def, args, a));
        p = def->params;
        for (i = 0; next_param(&p, &name, &optional); i++)
            if (!optional && !fx_jj_given(a[i]))
                return fx_jj_fail(r, "%s() missing 1 required positional argument: '%.*s'", def->name,
                                  FX_STR_ARG(name));
    }
    *out = fx_jj_none();
    JJ_TRY(def->fn(r, self, a, args, out));
    return r->status == FORNAX_OK;
}

bool fx_jj_call(jj_run *r, jj_val f, const jj_args *args, jj_val *out)
{
    switch ((jj_type)f.type) {
    case JJ_FUNC:
        return fx_jj_call_def(r, f.u.def, f, args, out);
    case JJ_METHOD:
        return fx_jj_call_def(r, f.u.method->def, f.u.method->self, args, out);
    case JJ_MACRO:
        return fx_jj_call_macro(r, f.u.macro, args, out);
    case JJ_LOOP:
        if (args->n != 1 || args->n_kw)
            return fx_jj_fail(r, "loop() takes exactly one argument");
        return fx_jj_call_loop(r, f.u.loop, args->pos[0], out);
    case JJ_JOINER:
        if (args->n || args->n_kw)
            return fx_jj_fail(r, "a joiner takes no arguments");
        *out = f.u.cycler->pos++ ? f.u.cycler->items.at[0] : fx_jj_sv(fx_jj_strz(r, ""));
        return fx_jj_given(*out);
    case JJ_UNDEF:
        return fx_jj_undef_fail(r, f);
    default:
        return fx_jj_fail(r, "'%s' object is not callable", fx_jj_type_name(f));
    }
}

static bool push_kw(jj_run *r, jj_args *args, size_t cap, jj_str *name, jj_val v)
{
    for (size_t i = 0; i < args->n_kw; i++)
        if (fx_str_eq(fx_jj_view(args->kw[i].name), fx_jj_view(name)))
            return fx_jj_fail(r, "got multiple values for keyword argument '%.*s'", (int)FX_MIN(name->n, 100), name->p);
    if (args->n_kw == cap)
        return fx_jj_fail(r, "too many keyword arguments");
    args->kw[args->n_kw++] = (jj_kw){ name, v };
    return true;
}

static bool star_kw(jj_run *r, const jj_node *n, jj_dict **out)
{
    jj_val v;

    JJ_TRY(fx_jj_eval(r, n, &v));
    if (v.type != JJ_DICT)
        return fx_jj_fail(r, "argument after ** must be a mapping, not %s", fx_jj_type_name(v));
    for (size_t i = 0; i < v.u.d->n; i++)
        if (v.u.d->at[i].key.type != JJ_STR)
            return fx_jj_fail(r, "keywords must be strings");
    *out = v.u.d;
    return true;
}

/* Evaluates the arguments of a call, filter or test; 'caller' is a call block's. */
static bool eval_args(jj_run *r, const jj_callargs *from, const jj_val *caller, jj_args *args)
{
    jj_list *pos = fx_jj_list(r, 0);
    jj_dict *more = NULL;
    size_t cap = caller ? 1 : 0;
    jj_val v;

    *args = (jj_args){ 0 };
    JJ_TRY(pos);
    for (const jj_node *n = from ? from->pos : NULL; n; n = n->next)
        JJ_TRY(fx_jj_eval(r, n, &v) && fx_jj_push(r, pos, v));
    if (from && from->star) {
        jj_list *extra;

        JJ_TRY(fx_jj_eval(r, from->star, &v));
        extra = fx_jj_collect(r, v);
        JJ_TRY(extra);
        for (size_t i = 0; i < extra->n; i++)
            JJ_TRY(fx_jj_push(r, pos, extra->at[i]));
    }
    args->pos = pos->at;
    args->n = pos->n;
    for (const jj_node *n = from ? from->kw : NULL; n; n = n->next)
        cap++;
    if (from && from->star2)
        JJ_TRY(star_kw(r, from->star2, &more));
    cap += more ? more->n : 0;
    if (!cap)
        return true;
    args->kw = fx_jj_alloc(r, cap * sizeof *args->kw);
    JJ_TRY(args->kw);
    for (const jj_node *n = from ? from->kw : NULL; n; n = n->next)
        JJ_TRY(fx_jj_eval(r, n->a, &v) && push_kw(r, args, cap, n->str, v));
    if (caller)
        JJ_TRY(push_kw(r, args, cap, fx_jj_strz(r, "caller"), *caller));
    for (size_t i = 0; more && i < more->n; i++)
        JJ_TRY(push_kw(r, args, cap, more->at[i].key.u.s, more->at[i].value));
    return true;
}

bool fx_jj_eval_call(jj_run *r, const jj_node *n, const jj_val *caller, jj_val *out)
{
    jj_args args;
    jj_val f;

    JJ_TRY(fx_jj_eval(r, n->a, &f) && eval_args(r, n->args, caller, &args));
    r->at = n->at;
    return fx_jj_call(r, f, &args, out);
}

static bool eval_filter(jj_run *r, const jj_node *n, jj_val *out)
{
    jj_val self = r->block_text;
    jj_args args;

    if (n->a)
        JJ_TRY(fx_jj_eval(r, n->a, &self));
    JJ_TRY(eval_args(r, n->args, NULL, &args));
    r->at = n->at;
    if (!n->def)
        return fx_jj_fail(r, "no filter named '%.*s' found", (int)FX_MIN(n->str->n, 100), n->str->p);
    return fx_jj_call_def(r, n->def, self, &args, out);
}

static bool eval_test(jj_run *r, const jj_node *n, jj_val *out)
{
    jj_args args;
    jj_val self;

    JJ_TRY(fx_jj_eval(r, n->a, &self) && eval_args(r, n->args, NULL, &args));
    r->at = n->at;
    if (!n->def)
        return fx_jj_fail(r, "no test named '%.*s' found", (int)FX_MIN(n->str->n, 100), n->str->p);
    return fx_jj_call_def(r, n->def, self, &args, out);
}

/* ---- operators -------------------------------------------------------------------------- */

static bool compare(jj_run *r, jj_op op, jj_val a, jj_val b, bool *out)
{
    int got;

    switch (op) {
    case JJO_EQ: case JJO_NE: got = fx_jj_eq(r, a, b); break;
    case JJO_IN: case JJO_NOTIN: got = fx_jj_contains(r, b, a); break;
    default: got = fx_jj_less(r, a, b, op);
    }
    *out = (got == 1) ^ (op == JJO_NE || op == JJO_NOTIN);
    return got >= 0;
}

static bool eval_compare(jj_run *r, const jj_node *n, jj_val *out)
{
    jj_val left, right;
    bool holds = true;

    JJ_TRY(fx_jj_eval(r, n->a, &left));
    for (const jj_node *o = n->b; o && holds; o = o->next) {
        JJ_TRY(fx_jj_eval(r, o->a, &right));
        r->at = o->at;
        JJ_TRY(compare(r, (jj_op)o->op, left, right, &holds));
        left = right;
    }
    *out = fx_jj_bool(holds);
    return true;
}

static bool eval_concat(jj_run *r, const jj_node *n, jj_val *out)
{
    jj_str *s = NULL, *next;
    jj_val v;

    for (const jj_node *k = n->a; k; k = k->next) {
        JJ_TRY(fx_jj_eval(r, k, &v));
        r->at = n->at;
        next = fx_jj_to_str(r, v);
        JJ_TRY(next);
        if (next->markup && (next = fx_jj_sub(r, next, 0, next->n)) != NULL)
            next->markup = false;           /* str.join knows no markup */
        JJ_TRY(next);
        s = s ? fx_jj_cat(r, s, next) : next;
        JJ_TRY(s);
    }
    *out = fx_jj_sv(s);
    return true;
}

static bool eval_cond(jj_run *r, const jj_node *n, jj_val *out)
{
    jj_val test;

    JJ_TRY(fx_jj_eval(r, n->b, &test));
    if (fx_jj_truth(test))
        return fx_jj_eval(r, n->a, out);
    if (n->c)
        return fx_jj_eval(r, n->c, out);
    JJ_TRY(fx_jj_undef(r, NULL, fx_jj_none(), out));
    out->u.undef->cond_at = n->at;
    return true;
}

static bool eval_items(jj_run *r, const jj_node *n, jj_type type, jj_val *out)
{
    jj_list *l = fx_jj_list(r, 0);
    jj_val v;

    JJ_TRY(l);
    for (const jj_node *k = n->a; k; k = k->next)
        JJ_TRY(fx_jj_eval(r, k, &v) && fx_jj_push(r, l, v));
    *out = fx_jj_lv(l);
    out->type = (uint8_t)type;
    return true;
}

static bool eval_dict(jj_run *r, const jj_node *n, jj_val *out)
{
    jj_dict *d = fx_jj_dict(r);
    jj_val key, v;

    JJ_TRY(d);
    for (const jj_node *k = n->a; k; k = k->next->next) {
        JJ_TRY(fx_jj_eval(r, k, &key) && fx_jj_eval(r, k->next, &v));
        r->at = k->at;
        JJ_TRY(fx_jj_dict_put(r, d, key, v));
    }
    *out = fx_jj_dv(d);
    return true;
}

static bool eval_item(jj_run *r, const jj_node *n, jj_val *out)
{
    jj_val obj, key;

    JJ_TRY(fx_jj_eval(r, n->a, &obj));
    if (n->b->kind == JJN_SLICE) {
        r->at = n->at;
        return eval_slice(r, obj, n->b, out);
    }
    JJ_TRY(fx_jj_eval(r, n->b, &key));
    r->at = n->at;
    return fx_jj_getitem(r, obj, key, out);
}

static bool eval_logic(jj_run *r, const jj_node *n, jj_val *out)
{
    JJ_TRY(fx_jj_eval(r, n->a, out));
    if (fx_jj_truth(*out) == (n->kind == JJN_OR))
        return true;
    return fx_jj_eval(r, n->b, out);
}

static bool eval_binary(jj_run *r, const jj_node *n, jj_val *out)
{
    jj_val a, b;

    JJ_TRY(fx_jj_eval(r, n->a, &a) && fx_jj_eval(r, n->b, &b));
    r->at = n->at;
    return fx_jj_arith(r, (jj_op)n->op, a, b, out);
}

static bool eval_unary(jj_run *r, const jj_node *n, jj_val *out)
{
    jj_val v;

    JJ_TRY(fx_jj_eval(r, n->a, &v));
    r->at = n->at;
    if (n->kind != JJN_NOT)
        return fx_jj_negate(r, v, n->kind == JJN_NEG, out);
    *out = fx_jj_bool(!fx_jj_truth(v));
    return true;
}

static bool eval_node(jj_run *r, const jj_node *n, jj_val *out)
{
    jj_val obj;

    switch ((jj_kind)n->kind) {
    case JJN_CONST:
        *out = n->value;
        return true;
    case JJN_NAME:
        r->at = n->at;
        return fx_jj_lookup(r, n->sym, out);
    case JJN_ATTR:
        JJ_TRY(fx_jj_eval(r, n->a, &obj));
        r->at = n->at;
        return fx_jj_getattr(r, obj, n->str, out);
    case JJN_ITEM: return eval_item(r, n, out);
    case JJN_CALL: return fx_jj_eval_call(r, n, NULL, out);
    case JJN_FILTER: return eval_filter(r, n, out);
    case JJN_TEST: return eval_test(r, n, out);
    case JJN_AND: case JJN_OR: return eval_logic(r, n, out);
    case JJN_NOT: case JJN_NEG: case JJN_POS: return eval_unary(r, n, out);
    case JJN_BIN: return eval_binary(r, n, out);
    case JJN_CONCAT: return eval_concat(r, n, out);
    case JJN_COMPARE: return eval_compare(r, n, out);
    case JJN_COND: return eval_cond(r, n, out);
    case JJN_TUPLE: return eval_items(r, n, JJ_TUPLE, out);
    case JJN_LIST: return eval_items(r, n, JJ_LIST, out);
    case JJN_DICT: return eval_dict(r, n, out);
    default:
        r->at = n->at;
        return fx_jj_fail(r, "this can't be evaluated");
    }
}

bool fx_jj_eval(jj_run *r, const jj_node *n, jj_val *out)
{
    bool ok;

    *out = fx_jj_none();
    if (!fx_jj_enter(r) || !fx_jj_work(r, 1))
        return false;
    ok = eval_node(r, n, out);
    fx_jj_leave(r);
    return ok;
}
