/* template.c - chat templates from outside: parse once, render often.
 *
 * A template owns an arena with its source and tree.  A rendering has an arena
 * of its own that is gone when the call returns; only the text and its data
 * spans go to the caller. */
#include <stdarg.h>
#include <stdio.h>

#include "text/jinja.h"

#define MAX_SOURCE ((size_t)16 << 20)

/* ---- the run's services --------------------------------------------------------- */

bool fx_jj_fail(jj_run *r, const char *fmt, ...)
{
    char text[900];
    va_list ap;

    if (r->status != FORNAX_OK)
        return false;
    va_start(ap, fmt);
    fx_vformat(text, sizeof text, fmt, ap);
    va_end(ap);
    r->status = fx_diag(r->err, r->t->name, r->t->source, r->at, "%s", text);
    return false;
}

bool fx_jj_nomem(jj_run *r)
{
    if (r->status == FORNAX_OK)
        r->status = fx_nomem(r->err, "rendering a chat template");
    return false;
}

bool fx_jj_work(jj_run *r, size_t units)
{
    if (r->status != FORNAX_OK)
        return false;
    r->steps += units;
    if (r->steps > r->max_steps)
        return fx_jj_fail(r, "the template takes more than %llu steps", (unsigned long long)r->max_steps);
    return true;
}

void *fx_jj_alloc(jj_run *r, size_t size)
{
    void *p;

    if (r->status != FORNAX_OK)
        return NULL;
    if (size > r->max_bytes || r->arena.total_bytes > r->max_bytes - size) {
        fx_jj_fail(r, "the template needs more than %zu MiB of memory", r->max_bytes >> 20);
        return NULL;
    }
    p = fx_arena_alloc(&r->arena, size);
    if (!p)
        fx_jj_nomem(r);
    return p;
}

bool fx_jj_enter(jj_run *r)
{
    if (r->depth >= JJ_MAX_DEPTH)
        return fx_jj_fail(r, "the template nests or recurses too deeply");
    r->depth++;
    return r->status == FORNAX_OK;
}

/* ---- parsing ------------------------------------------------------------------------ */

/* \r\n and \r become \n, and one newline at the end goes, as Jinja reads files. */
static bool copy_source(fx_template *t, fx_str source)
{
    char *p = fx_arena_alloc(&t->arena, source.n + 1);
    size_t n = 0;

    if (!p)
        return false;
    for (size_t i = 0; i < source.n; i++) {
        char c = source.p[i];

        if (c == '\r') {
            if (i + 1 < source.n && source.p[i + 1] == '\n')
                continue;
            c = '\n';
        }
        p[n++] = c;
    }
    if (n && p[n - 1] == '\n')
        n--;
    t->source = fx_str_n(p, n);
    return true;
}

fx_status fx_template_parse(fx_template **out, const fx_mem *mem, const char *name, fx_str source, fx_error *err)
{
    jj_tokens toks = { 0 };
    fx_template *t;
    fx_status st;

    *out = NULL;
    if (source.n > MAX_SOURCE)
        return fx_fail(err, FORNAX_EFORMAT, "%s: a template of %zu bytes, limit %zu", name, source.n, MAX_SOURCE);
    if (!fx_utf8_valid(source))
        return fx_fail(err, FORNAX_EFORMAT, "%s: expected UTF-8 text", name);
    t = fx_mem_zalloc(mem, sizeof *t);
    if (!t)
        return fx_nomem(err, "a template");
    t->mem = mem;
    fx_arena_init(&t->arena, mem, 0);
    t->name = fx_arena_strdup(&t->arena, name, strlen(name));
    st = t->name && copy_source(t, source) ? FORNAX_OK : fx_nomem(err, "a template");
    if (st == FORNAX_OK)
        st = fx_jj_lex(t, &toks, err);
    if (st == FORNAX_OK)
        st = fx_jj_parse(t, &toks, err);
    FX_VEC_FREE(&toks, mem);
    if (st != FORNAX_OK) {
        fx_template_free(t);
        return st;
    }
    *out = t;
    return FORNAX_OK;
}

void fx_template_free(fx_template *t)
{
    if (!t)
        return;
    fx_arena_done(&t->arena);
    fx_mem_free(t->mem, t, sizeof *t);
}

/* ---- rendering ------------------------------------------------------------------------- */

/* The buffer's text and, as spans, its data. */
static bool hand_over(const jj_buf *b, fx_rendered *out)
{
    const fx_mem *mem = out->text.mem;
    bool data = b->first;
    size_t from = 0;

    fx_buf_add(&out->text, b->p, b->n);
    if (out->text.failed)
        return false;
    for (size_t i = 0; i <= b->n_flips && b->n; i++) {
        size_t to = i < b->n_flips ? b->flips[i] : b->n;
        fx_span span = { from, to };

        if (data && to > from && !FX_VEC_PUSH(&out->data, mem, span))
            return false;
        data = !data;
        from = to;
    }
    return true;
}

static fx_status render(jj_run *r, fx_rendered *out)
{
    jj_buf b;

    fx_jj_buf_init(&b, r);
    r->out = &b;
    r->outer = fx_jj_alloc(r, r->t->n_syms * sizeof *r->outer + 1);
    r->root = r->scope = fx_jj_scope(r, NULL);
    if (!r->outer || !r->root || fx_jj_exec(r, r->t->body) == JJ_FAILED)
        return r->status != FORNAX_OK
                   ? r->status : fx_fail(r->err, FORNAX_EINTERNAL, "%s: failed without a reason", r->t->name);
    if (r->status != FORNAX_OK)
        return r->status;
    return hand_over(&b, out) ? FORNAX_OK : fx_nomem(r->err, "a rendered chat template");
}

fx_status fx_template_render(const fx_template *t, const fx_render_options *opt, fx_rendered *out, fx_error *err)
{
    jj_run r = {
        .t = t, .mem = t->mem, .err = err, .vars = opt->vars, .trusted = opt->trusted, .now = opt->now,
        .max_bytes = opt->max_memory ? opt->max_memory : JJ_MAX_BYTES,
        .max_output = opt->max_output ? opt->max_output : (size_t)64 << 20,
        .max_steps = opt->max_steps ? opt->max_steps : 50000000,
    };
    fx_status st;

    memset(out, 0, sizeof *out);
    fx_buf_init(&out->text, t->mem);
    fx_arena_init(&r.arena, t->mem, 0);
    st = render(&r, out);
    fx_arena_done(&r.arena);
    if (st != FORNAX_OK)
        fx_rendered_done(out, t->mem);
    return st;
}

void fx_rendered_done(fx_rendered *r, const fx_mem *mem)
{
    fx_buf_done(&r->text);
    FX_VEC_FREE(&r->data, mem);
}

/* ---- messages ------------------------------------------------------------------------- */

/* Adds the non-null members of 'from'. */
static bool add_members(json_t *to, const json_t *from)
{
    json_t *obj = (json_t *)(uintptr_t)from;        /* iterating doesn't change it */

    for (void *it = json_object_iter(obj); it; it = json_object_iter_next(obj, it)) {
        json_t *v = json_object_iter_value(it);

        if (!json_is_null(v) && json_object_setn(to, json_object_iter_key(it), json_object_iter_key_len(it), v) != 0)
            return false;
    }
    return true;
}

static json_t *reasoning_of(const json_t *message)
{
    static const char *const names[] = { "reasoning_content", "thinking", "reasoning" };

    for (size_t i = 0; i < FX_COUNT(names); i++) {
        json_t *v = json_object_get(message, names[i]);

        if (v && !json_is_null(v))
            return v;
    }
    return NULL;
}

/* Its order is that of the reference, for a template may print a message whole. */
static json_t *prepared(const json_t *message)
{
    json_t *out = json_object(), *reasoning = reasoning_of(message);

    if (out && (!reasoning || json_object_set(out, "thinking", reasoning) == 0) && add_members(out, message) &&
        (!reasoning || json_object_set(out, "reasoning_content", reasoning) == 0))
        return out;
    json_decref(out);
    return NULL;
}

fx_status fx_template_messages(json_t **out, const json_t *messages, fx_error *err)
{
    json_t *list = json_array();

    *out = NULL;
    for (size_t i = 0; list && i < json_array_size(messages); i++) {
        const json_t *message = json_array_get(messages, i);

        if (!json_is_object(message)) {
            json_decref(list);
            return fx_fail_param(err, FORNAX_EARG, "messages", "messages[%zu]: expected an object", i);
        }
        if (json_array_append_new(list, prepared(message)) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    if (!list)
        return fx_nomem(err, "messages");
    *out = list;
    return FORNAX_OK;
}
