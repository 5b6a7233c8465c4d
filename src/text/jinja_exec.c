/* jinja_exec.c - statements: output, loops, conditions, assignments, macros, blocks.
 *
 * Scopes.  A scope is a list of names with a link to the scope around it; a for
 * loop's body, a macro, with, set block, filter block and call block each run in
 * their own, if does not.  Storing binds in the innermost scope, so an assignment
 * in a loop is gone after the iteration, as Jinja has it.  A macro keeps the
 * scope it was defined in and looks names up there when it is called. */
#include "text/jinja.h"

static bool at_node(jj_run *r, const jj_node *n)
{
    r->at = n->at;
    return fx_jj_work(r, 1);
}

/* ---- assignment ---------------------------------------------------------------- */

static bool assign_tuple(jj_run *r, const jj_node *target, jj_val v)
{
    const jj_node *k = target->a;
    size_t want = 0, n = 0;
    jj_iter *it;
    int got;

    for (const jj_node *t = k; t; t = t->next)
        want++;
    if (!fx_jj_iterable(v))
        return fx_jj_fail(r, "cannot unpack non-iterable %s object", fx_jj_type_name(v));
    JJ_TRY(fx_jj_iter(r, v, &it));
    for (; k; k = k->next, n++) {
        jj_val item;

        got = fx_jj_next(r, it, &item);
        if (got == 0)
            return fx_jj_fail(r, "not enough values to unpack (expected %zu, got %zu)", want, n);
        JJ_TRY(got == 1 && fx_jj_assign(r, k, item));
    }
    got = fx_jj_next(r, it, &v);
    if (got == 1)
        return fx_jj_fail(r, "too many values to unpack (expected %zu)", want);
    return got == 0;
}

bool fx_jj_assign(jj_run *r, const jj_node *target, jj_val v)
{
    jj_val ns;

    r->at = target->at;
    if (target->kind == JJN_NAME)
        return fx_jj_bind(r, r->scope, target->sym, v);
    if (target->kind == JJN_TUPLE)
        return assign_tuple(r, target, v);
    JJ_TRY(fx_jj_lookup(r, target->sym, &ns));
    if (ns.type != JJ_NS)
        return fx_jj_fail(r, "cannot assign attribute on non-namespace object");
    return fx_jj_ns_put(r, ns.u.d, fx_jj_sv(target->str), v);
}

/* Namespaces of the target are checked before the value is made. */
static bool check_namespaces(jj_run *r, const jj_node *target)
{
    jj_val ns;

    if (target->kind == JJN_TUPLE)
        for (const jj_node *k = target->a; k; k = k->next)
            JJ_TRY(check_namespaces(r, k));
    if (target->kind != JJN_NSREF)
        return true;
    JJ_TRY(fx_jj_lookup(r, target->sym, &ns));
    r->at = target->at;
    return ns.type == JJ_NS || fx_jj_fail(r, "cannot assign attribute on non-namespace object");
}

static bool exec_set(jj_run *r, const jj_node *n)
{
    jj_val v;

    return check_namespaces(r, n->a) && fx_jj_eval(r, n->b, &v) && fx_jj_assign(r, n->a, v);
}

/* ---- captured output -------------------------------------------------------------- */

jj_flow fx_jj_capture(jj_run *r, const jj_node *list, jj_str **out)
{
    jj_buf *outer = r->out, b;
    bool capturing = r->capturing;
    jj_flow flow;

    fx_jj_buf_init(&b, r);
    r->out = &b;
    r->capturing = true;
    flow = fx_jj_exec(r, list);
    r->out = outer;
    r->capturing = capturing;
    if (flow == JJ_FAILED)
        return flow;
    *out = fx_jj_buf_take(r, &b);
    return *out ? flow : JJ_FAILED;
}

/* A body in its own scope, captured, then through the block's filters. */
static jj_flow filtered_body(jj_run *r, const jj_node *body, const jj_node *filters, jj_val *out)
{
    jj_scope *scope = r->scope;
    jj_val outer = r->block_text;
    jj_flow flow = JJ_FAILED;
    jj_str *text;

    r->scope = fx_jj_scope(r, scope);
    if (r->scope)
        flow = fx_jj_capture(r, body, &text);
    if (flow == JJ_NORMAL) {
        *out = fx_jj_sv(text);
        r->block_text = *out;
        if (filters && !fx_jj_eval(r, filters, out))
            flow = JJ_FAILED;
    }
    r->block_text = outer;
    r->scope = scope;
    return flow;
}

static bool print(jj_run *r, jj_val v)
{
    fx_jj_buf_value(r->out, v);
    return r->status == FORNAX_OK;
}

/* ---- loops -------------------------------------------------------------------------- */

static bool loop_peek(jj_run *r, jj_loop *l)
{
    int got;

    if (l->ended || fx_jj_given(l->after))
        return true;
    got = fx_jj_next(r, l->iter, &l->after);
    if (got != 1)
        l->after = (jj_val){ 0 };
    l->ended = got == 0;
    return got >= 0;
}

/* Without a length the rest is read ahead, as Jinja does. */
static bool loop_length(jj_run *r, jj_loop *l)
{
    jj_list *rest;
    jj_val src;

    if (l->length >= 0)
        return true;
    l->length = fx_jj_len(l->source);
    if (l->length >= 0)
        return true;
    src = (jj_val){ .type = JJ_ITER, .u.iter = l->iter };
    rest = fx_jj_collect(r, src);
    JJ_TRY(rest && fx_jj_iter(r, fx_jj_lv(rest), &l->iter));
    l->length = (int64_t)rest->n + l->index0 + 1 + (fx_jj_given(l->after) ? 1 : 0);
    return true;
}

static bool loop_hint(jj_run *r, const char *hint, jj_val *out)
{
    return fx_jj_undef_hint(r, fx_jj_strz(r, hint), fx_jj_none(), out);
}

bool fx_jj_loop_attr(jj_run *r, jj_val loop, fx_str name, jj_val *out, bool *found)
{
    static const char *const names[] = { "index", "index0", "first", "last", "length", "revindex", "revindex0",
                                         "previtem", "nextitem", "depth", "depth0" };
    jj_loop *l = loop.u.loop;
    size_t i = 0;

    while (i < FX_COUNT(names) && !fx_str_is(name, names[i]))
        i++;
    *found = i < FX_COUNT(names);
    if ((i >= 4 && i <= 6) && !loop_length(r, l))
        return false;
    if ((i == 3 || i == 8) && !loop_peek(r, l))
        return false;
    switch (i) {
    case 0: *out = fx_jj_int(l->index0 + 1); break;
    case 1: *out = fx_jj_int(l->index0); break;
    case 2: *out = fx_jj_bool(l->index0 == 0); break;
    case 3: *out = fx_jj_bool(!fx_jj_given(l->after)); break;
    case 4: *out = fx_jj_int(l->length); break;
    case 5: *out = fx_jj_int(l->length - l->index0); break;
    case 6: *out = fx_jj_int(l->length - l->index0 - 1); break;
    case 7:
        if (l->index0 == 0)
            return loop_hint(r, "there is no previous item", out);
        *out = l->before;
        break;
    case 8:
        if (!fx_jj_given(l->after))
            return loop_hint(r, "there is no next item", out);
        *out = l->after;
        break;
    case 9: *out = fx_jj_int(l->depth0 + 1); break;
    case 10: *out = fx_jj_int(l->depth0); break;
    default: break;
    }
    return true;
}

static int loop_next(jj_run *r, jj_loop *l, jj_val *out)
{
    int got = 1;

    if (!fx_jj_work(r, 1))
        return -1;
    if (fx_jj_given(l->after)) {
        *out = l->after;
        l->after = (jj_val){ 0 };
    } else {
        got = l->ended ? 0 : fx_jj_next(r, l->iter, out);
    }
    if (got != 1)
        return got;
    l->index0++;
    l->before = l->current;
    l->current = *out;
    return 1;
}

/* The items that pass a for's "if": tested when they are asked for. */
typedef struct tested {
    const jj_node *node;
    jj_scope *scope;        /* the test's own, over the loop's surroundings */
} tested;

static int next_tested(jj_run *r, jj_iter *it, jj_val *out)
{
    tested *t = it->user;
    jj_scope *scope = r->scope;
    bool ok = true, pass = false;
    int got = 0;

    while (ok && !pass && (got = fx_jj_next(r, it->from, out)) == 1) {
        jj_val holds;

        r->scope = t->scope;
        t->scope->n = 0;
        ok = fx_jj_assign(r, t->node->a, *out) && fx_jj_eval(r, t->node->c, &holds);
        pass = ok && fx_jj_truth(holds);
    }
    r->scope = scope;
    return ok ? got : -1;
}

static bool start_loop(jj_run *r, const jj_node *n, jj_scope *around, jj_val items, jj_loop *l)
{
    tested *t;
    jj_val it;

    *l = (jj_loop){ .source = items, .index0 = -1, .length = -1, .node = n->flag ? n : NULL, .scope = around };
    r->at = n->b->at;
    JJ_TRY(fx_jj_iter(r, items, &l->iter));
    if (!n->c)
        return true;
    t = fx_jj_alloc(r, sizeof *t);
    JJ_TRY(t);
    t->node = n;
    t->scope = fx_jj_scope(r, around);
    JJ_TRY(t->scope);
    it = fx_jj_generator(r, next_tested, l->iter, t);
    JJ_TRY(fx_jj_given(it));
    l->iter = it.u.iter;
    l->source = it;
    return true;
}

/* Runs a for over 'items'; its scopes stand in 'around'. */
static jj_flow run_loop(jj_run *r, const jj_node *n, jj_scope *around, jj_val items, int64_t depth0)
{
    jj_scope *before = r->scope, *body = fx_jj_scope(r, around);
    jj_loop *l = fx_jj_alloc(r, sizeof *l);
    jj_val self = { .type = JJ_LOOP, .u.loop = l }, v;
    bool completed = false;
    jj_flow flow = JJ_NORMAL;
    int got = 0;

    if (!body || !l || !start_loop(r, n, around, items, l))
        return JJ_FAILED;
    l->depth0 = depth0;
    while (flow == JJ_NORMAL && (got = loop_next(r, l, &v)) == 1) {
        body->n = 0;
        r->scope = body;
        if (!fx_jj_bind(r, body, r->t->sym_loop, self) || !fx_jj_assign(r, n->a, v))
            flow = JJ_FAILED;
        else
            flow = fx_jj_exec(r, n->d);
        if (flow == JJ_NORMAL)
            completed = true;       /* Jinja's else asks whether a body ran to its end */
        if (flow == JJ_CONTINUING)
            flow = JJ_NORMAL;
    }
    if (flow == JJ_BREAKING)
        flow = JJ_NORMAL;
    if (flow == JJ_NORMAL && got >= 0 && !completed && n->e) {
        r->scope = fx_jj_scope(r, around);
        flow = r->scope ? fx_jj_exec(r, n->e) : JJ_FAILED;
    }
    r->scope = before;
    return got < 0 ? JJ_FAILED : flow;
}

static jj_flow exec_for(jj_run *r, const jj_node *n)
{
    jj_val items;

    if (!fx_jj_eval(r, n->b, &items))
        return JJ_FAILED;
    return run_loop(r, n, r->scope, items, 0);
}

bool fx_jj_call_loop(jj_run *r, jj_loop *l, jj_val items, jj_val *out)
{
    jj_buf *outer = r->out, b;
    bool capturing = r->capturing;
    jj_flow flow;

    if (!l->node)
        return fx_jj_fail(r, "The loop must have the 'recursive' marker to be called recursively.");
    fx_jj_buf_init(&b, r);
    r->out = &b;
    r->capturing = true;
    flow = run_loop(r, l->node, l->scope, items, l->depth0 + 1);
    r->out = outer;
    r->capturing = capturing;
    if (flow == JJ_FAILED)
        return false;
    *out = fx_jj_sv(fx_jj_buf_take(r, &b));
    return out->type == JJ_STR;
}

/* ---- macros ------------------------------------------------------------------------------ */

static bool take_keyword(jj_args *args, fx_str name, jj_val *out)
{
    for (size_t i = 0; i < args->n_kw; i++) {
        if (fx_str_eq(fx_jj_view(args->kw[i].name), name)) {
            *out = args->kw[i].v;
            memmove(args->kw + i, args->kw + i + 1, (args->n_kw - i - 1) * sizeof *args->kw);
            args->n_kw--;
            return true;
        }
    }
    return false;
}

static fx_str macro_name(const jj_run *r, const jj_node *n)
{
    return n->sym == JJ_NO_SYM ? FX_STR("None") : r->t->syms[n->sym];
}

/* kwargs, varargs and caller, for macros whose body uses them. */
static bool bind_specials(jj_run *r, jj_scope *s, const jj_node *n, jj_args *args, size_t n_params, bool has_caller)
{
    fx_str name = macro_name(r, n);
    jj_val v;

    if ((n->op & JJ_USES_CALLER) && !has_caller) {
        if (!take_keyword(args, FX_STR("caller"), &v) || v.type == JJ_NONE)
            JJ_TRY(fx_jj_undef_hint(r, fx_jj_strz(r, "No caller defined"), fx_jj_sv(fx_jj_strz(r, "caller")), &v));
        JJ_TRY(fx_jj_bind(r, s, r->t->sym_caller, v));
    }
    if (n->op & JJ_USES_KWARGS) {
        jj_dict *d = fx_jj_dict(r);

        JJ_TRY(d);
        for (size_t i = 0; i < args->n_kw; i++)
            JJ_TRY(fx_jj_dict_put(r, d, fx_jj_sv(args->kw[i].name), args->kw[i].v));
        JJ_TRY(fx_jj_bind(r, s, r->t->sym_kwargs, fx_jj_dv(d)));
    } else if (args->n_kw) {
        if (take_keyword(args, FX_STR("caller"), &v))
            return fx_jj_fail(r, "macro '%.*s' was invoked with two values for the special caller argument. "
                              "This is most likely a bug.", FX_STR_ARG(name));
        return fx_jj_fail(r, "macro '%.*s' takes no keyword argument '%.*s'", FX_STR_ARG(name),
                          (int)FX_MIN(args->kw[0].name->n, 100), args->kw[0].name->p);
    }
    if (n->op & JJ_USES_VARARGS) {
        jj_list *l = fx_jj_list(r, 0);
        jj_val rest = { .type = JJ_TUPLE, .u.l = l };

        JJ_TRY(l);
        for (size_t i = n_params; i < args->n; i++)
            JJ_TRY(fx_jj_push(r, l, args->pos[i]));
        return fx_jj_bind(r, s, r->t->sym_varargs, rest);
    }
    if (args->n > n_params)
        return fx_jj_fail(r, "macro '%.*s' takes not more than %zu argument(s)", FX_STR_ARG(name), n_params);
    return true;
}

static bool missing_param(jj_run *r, uint32_t sym, jj_val *out)
{
    fx_str name = r->t->syms[sym];
    jj_str *s = fx_jj_str(r, name.p, name.n, false);

    return s && fx_jj_undef_hint(r, fx_jj_strf(r, "parameter '%.*s' was not provided", FX_STR_ARG(name)),
                                 fx_jj_sv(s), out);
}

/* Defaults are made in the macro's own scope, in order, when it is called. */
static bool fill_defaults(jj_run *r, jj_scope *s, const jj_node *n)
{
    uint32_t i = 0;

    for (const jj_node *p = n->a; p; p = p->next, i++) {
        jj_val v;

        if (fx_jj_given(s->at[i].v))
            continue;
        JJ_TRY(p->a ? fx_jj_eval(r, p->a, &v) : missing_param(r, p->sym, &v));
        s->at[i].v = v;
    }
    return true;
}

static bool bind_params(jj_run *r, jj_scope *s, const jj_node *n, jj_args *args)
{
    size_t n_params = 0;
    bool has_caller = false;

    for (const jj_node *p = n->a; p; p = p->next, n_params++) {
        jj_val v = { 0 };

        if (n_params < args->n)
            v = args->pos[n_params];
        else
            take_keyword(args, r->t->syms[p->sym], &v);
        has_caller = has_caller || p->sym == r->t->sym_caller;
        JJ_TRY(fx_jj_bind(r, s, p->sym, v));
    }
    return bind_specials(r, s, n, args, n_params, has_caller);
}

bool fx_jj_call_macro(jj_run *r, jj_macro *m, const jj_args *given, jj_val *out)
{
    jj_scope *before = r->scope, *s;
    jj_args args = *given;
    jj_str *text = NULL;
    bool ok;

    JJ_TRY(fx_jj_enter(r));
    if (args.n_kw) {                    /* taken apart below; *given may be shared */
        args.kw = fx_jj_alloc(r, args.n_kw * sizeof *args.kw);
        JJ_TRY(args.kw);
        memcpy(args.kw, given->kw, args.n_kw * sizeof *args.kw);
    }
    s = fx_jj_scope(r, m->scope);
    ok = s && bind_params(r, s, m->node, &args);
    if (ok) {
        r->scope = s;
        ok = fill_defaults(r, s, m->node) && fx_jj_capture(r, m->node->d, &text) != JJ_FAILED;
        r->scope = before;
    }
    fx_jj_leave(r);
    *out = fx_jj_sv(text);
    return ok;
}

static bool new_macro(jj_run *r, const jj_node *n, jj_val *out)
{
    jj_macro *m = fx_jj_alloc(r, sizeof *m);

    JJ_TRY(m);
    *m = (jj_macro){ n, r->scope };
    *out = (jj_val){ .type = JJ_MACRO, .u.macro = m };
    return true;
}

static bool exec_call_block(jj_run *r, const jj_node *n)
{
    jj_val caller, v;

    return new_macro(r, n->b, &caller) && fx_jj_eval_call(r, n->a, &caller, &v) && print(r, v);
}

/* ---- the rest ------------------------------------------------------------------------------ */

static jj_flow exec_if(jj_run *r, const jj_node *n)
{
    for (const jj_node *b = n->a; b; b = b->next) {
        jj_val test;

        if (b->a && !fx_jj_eval(r, b->a, &test))
            return JJ_FAILED;
        if (!b->a || fx_jj_truth(test))
            return fx_jj_exec(r, b->d);
    }
    return JJ_NORMAL;
}

static bool exec_print(jj_run *r, const jj_node *n)
{
    jj_val v;

    for (const jj_node *k = n->a; k; k = k->next)
        JJ_TRY(fx_jj_eval(r, k, &v) && print(r, v));
    return true;
}

static jj_flow exec_with(jj_run *r, const jj_node *n)
{
    jj_scope *before = r->scope, *s = fx_jj_scope(r, before);
    const jj_node *value = n->b;
    jj_flow flow = JJ_NORMAL;

    for (const jj_node *t = n->a; s && t && flow == JJ_NORMAL; t = t->next, value = value->next) {
        jj_val v;
        bool ok = fx_jj_eval(r, value, &v);     /* in the scope around */

        r->scope = s;
        if (!ok || !fx_jj_assign(r, t, v))
            flow = JJ_FAILED;
        r->scope = before;
    }
    if (!s || flow != JJ_NORMAL)
        return JJ_FAILED;
    r->scope = s;
    flow = fx_jj_exec(r, n->d);
    r->scope = before;
    return flow;
}

static jj_flow exec_set_block(jj_run *r, const jj_node *n)
{
    jj_val v;
    jj_flow flow = filtered_body(r, n->d, n->b, &v);

    if (flow == JJ_NORMAL && !(check_namespaces(r, n->a) && fx_jj_assign(r, n->a, v)))
        flow = JJ_FAILED;
    return flow;
}

static jj_flow exec_filter_block(jj_run *r, const jj_node *n)
{
    jj_val v;
    jj_flow flow = filtered_body(r, n->d, n->b, &v);

    if (flow == JJ_NORMAL && !print(r, v))
        flow = JJ_FAILED;
    return flow;
}

/* A body in a scope of its own over 'up', printed in place. */
static jj_flow exec_scoped(jj_run *r, const jj_node *body, jj_scope *up)
{
    jj_scope *before = r->scope;
    jj_flow flow = JJ_FAILED;

    r->scope = fx_jj_scope(r, up);
    if (r->scope)
        flow = fx_jj_exec(r, body);
    r->scope = before;
    return flow;
}

static jj_flow exec_node(jj_run *r, const jj_node *n)
{
    jj_val v;

    switch ((jj_kind)n->kind) {
    case JJN_TEXT:
        fx_jj_buf_str(r->out, n->str);
        return r->status == FORNAX_OK ? JJ_NORMAL : JJ_FAILED;
    case JJN_PRINT: return exec_print(r, n) ? JJ_NORMAL : JJ_FAILED;
    case JJN_IF: return exec_if(r, n);
    case JJN_FOR: return exec_for(r, n);
    case JJN_SET: return exec_set(r, n) ? JJ_NORMAL : JJ_FAILED;
    case JJN_SETBLOCK: return exec_set_block(r, n);
    case JJN_MACRO:
        return new_macro(r, n, &v) && fx_jj_bind(r, r->scope, n->sym, v) ? JJ_NORMAL : JJ_FAILED;
    case JJN_CALLBLOCK: return exec_call_block(r, n) ? JJ_NORMAL : JJ_FAILED;
    case JJN_FILTERBLOCK: return exec_filter_block(r, n);
    case JJN_WITH: return exec_with(r, n);
    case JJN_AUTOESCAPE:
        if (!fx_jj_eval(r, n->a, &v))
            return JJ_FAILED;
        if (fx_jj_truth(v)) {
            fx_jj_fail(r, "autoescape is not supported");
            return JJ_FAILED;
        }
        return exec_scoped(r, n->d, r->scope);
    case JJN_GENERATION: return exec_scoped(r, n->d, r->scope);
    case JJN_BLOCK: return exec_scoped(r, n->d, n->flag ? r->scope : r->root);
    case JJN_BREAK: return JJ_BREAKING;
    case JJN_CONTINUE: return JJ_CONTINUING;
    default:
        fx_jj_fail(r, "'%.*s' needs other templates, which chat templates can't load", FX_STR_ARG(fx_jj_view(n->str)));
        return JJ_FAILED;
    }
}

jj_flow fx_jj_exec(jj_run *r, const jj_node *list)
{
    jj_flow flow = JJ_NORMAL;

    if (!fx_jj_enter(r))
        return JJ_FAILED;
    for (const jj_node *n = list; n && flow == JJ_NORMAL; n = n->next)
        flow = at_node(r, n) ? exec_node(r, n) : JJ_FAILED;
    fx_jj_leave(r);
    return flow;
}
