/* graph_module.c - modules, their text and libraries; sizes and types. */
#include <stdarg.h>

#include "api/api.h"
#include "api/graph_api.h"
#include "base/file.h"
#include "base/text.h"

#define SAME_DTYPE(name) _Static_assert((int)FORNAX_##name == (int)FX_##name, #name " is the library's " #name)
SAME_DTYPE(BOOL); SAME_DTYPE(I8); SAME_DTYPE(I16); SAME_DTYPE(I32); SAME_DTYPE(I64);
SAME_DTYPE(U8); SAME_DTYPE(U16); SAME_DTYPE(U32); SAME_DTYPE(U64);
SAME_DTYPE(F16); SAME_DTYPE(BF16); SAME_DTYPE(F32); SAME_DTYPE(F64); SAME_DTYPE(F8E4M3); SAME_DTYPE(F8E5M2);
SAME_DTYPE(Q4_0); SAME_DTYPE(Q4_1); SAME_DTYPE(Q5_0); SAME_DTYPE(Q5_1); SAME_DTYPE(Q8_0);
SAME_DTYPE(Q2_K); SAME_DTYPE(Q3_K); SAME_DTYPE(Q4_K); SAME_DTYPE(Q5_K); SAME_DTYPE(Q6_K);
SAME_DTYPE(IQ4_NL); SAME_DTYPE(IQ4_XS); SAME_DTYPE(MXFP4);
_Static_assert(FORNAX_MAX_RANK == FX_MAX_RANK, "types have as many axes outside as inside");

/* ---- Faults ----------------------------------------------------------------------------- */

void *fx_api_fault(fornax_graph *g, fx_status st, const char *fmt, ...)
{
    const char *base = g->file ? strrchr(g->file, '/') : NULL;
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    fx_vformat(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (g->file)
        return fx_module_fail(fx_api_module(g), st, "%s:%d: %s", base ? base + 1 : g->file, g->line, text);
    return fx_module_fail(fx_api_module(g), st, "%s", text);
}

void *fx_api_no_memory(fornax_graph *g)
{
    return fx_module_fail(fx_api_module(g), FORNAX_ENOMEM, "no memory for a graph");
}

/* ---- Sizes and types ---------------------------------------------------------------------- */

static fx_dim in_dim(fornax_dim d) { return (fx_dim){ d.n, d.expr }; }
static fornax_dim out_dim(fx_dim d) { return (fornax_dim){ d.n, d.sym }; }

static bool is_symbol(const char *name)
{
    for (const char *p = name; *p; p++) {
        bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_';

        if (!letter && (p == name || *p < '0' || *p > '9'))
            return false;
    }
    return *name != 0;
}

fornax_dim fornax_dim_named(fornax_module *m, const char *name)
{
    fx_dim d = fx_dim_of(0);

    if (!m || m->m->failed)
        return out_dim(d);
    if (!name || !is_symbol(name))
        fx_module_fail(m->m, FORNAX_EARG, "a size's name is a letter or _, then letters, digits and _; not %s",
                       name ? name : "NULL");
    else if (fx_dim_symbol(&m->arena, fx_str_of(name), &d) != FORNAX_OK)
        fx_module_fail(m->m, FORNAX_ENOMEM, "no memory for a graph");
    return out_dim(d);
}

fornax_dim fornax_dim_math(fornax_module *m, fornax_dim a, char op, fornax_dim b)
{
    static const struct { char op; fx_status (*fn)(fx_arena *, fx_dim, fx_dim, fx_dim *); } table[] = {
        { '+', fx_dim_add }, { '-', fx_dim_sub }, { '*', fx_dim_mul }, { '/', fx_dim_div },
    };
    fx_dim d = fx_dim_of(0);
    fx_status st = FORNAX_EARG;

    if (!m || m->m->failed)
        return out_dim(d);
    for (size_t i = 0; i < FX_COUNT(table); i++) {
        if (table[i].op == op)
            st = table[i].fn(&m->arena, in_dim(a), in_dim(b), &d);
    }
    if (st == FORNAX_ENOMEM)
        fx_module_fail(m->m, st, "no memory for a graph");
    else if (st != FORNAX_OK)
        fx_module_fail(m->m, st, st == FORNAX_EARG ? "sizes know + - * and /" : "a size is too large, or divided by 0");
    return out_dim(st == FORNAX_OK ? d : fx_dim_of(0));
}

int fornax_dim_equal(fornax_dim a, fornax_dim b)
{
    return fx_dim_eq(in_dim(a), in_dim(b));
}

bool fx_api_type(fornax_graph *g, const fornax_type *type, fx_type *out)
{
    *out = (fx_type){ .device = FX_DEVICE_CPU };
    if (!type)
        return fx_api_fault(g, FORNAX_EARG, "a type is NULL");
    if ((unsigned)type->dtype > FX_MXFP4)
        return fx_api_fault(g, FORNAX_EARG, "no dtype %d", (int)type->dtype);
    if (type->rank < 0 || type->rank > FX_MAX_RANK)
        return fx_api_fault(g, FORNAX_EARG, "%d axes, from 0 to %d are possible", type->rank, FX_MAX_RANK);
    out->dtype = (fx_dtype)type->dtype;
    out->buffer = type->buffer != 0;
    out->rank = type->rank;
    for (int i = 0; i < type->rank; i++) {
        out->dim[i] = in_dim(type->dim[i]);
        if (fx_dim_is_static(out->dim[i]) && out->dim[i].n < 0)
            return fx_api_fault(g, FORNAX_EARG, "axis %d: a size can't be negative", i);
    }
    return true;
}

fornax_type fx_api_of_type(const fx_type *t)
{
    fornax_type out = { (fornax_dtype)t->dtype, t->buffer, t->rank, { { 0, NULL } } };

    for (int i = 0; i < t->rank; i++)
        out.dim[i] = out_dim(t->dim[i]);
    return out;
}

fornax_status fornax_type_print(fornax_text **out, fornax_module *m, const fornax_type *type, fornax_error *err)
{
    fornax_module scratch;
    fornax_graph g = { .owner = &scratch };
    fx_module room;
    fx_type t;
    fx_buf b;

    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(m);
    FX_API_NEED(type);
    room = *m->m;                        /* a fault of the type isn't one of the module's graphs */
    room.failed = false;
    scratch = *m;
    scratch.m = &room;
    if (!fx_api_type(&g, type, &t))
        return fx_module_status(&room, err);
    fx_buf_init(&b, &m->ctx->mem);
    fx_type_print(&t, &b);
    return fx_api_text(out, &m->ctx->mem, &b, err);
}

/* ---- Modules -------------------------------------------------------------------------------- */

static fx_status new_module(fornax_module **out, fornax_context *ctx, fx_error *err)
{
    fornax_module *m = fx_mem_zalloc(&ctx->mem, sizeof(*m));

    if (!m)
        return fx_nomem(err, "a module");
    m->ctx = ctx;
    fx_arena_init(&m->arena, &ctx->mem, 0);
    *out = m;
    return FORNAX_OK;
}

fornax_status fornax_module_open(fornax_module **out, fornax_context *ctx, fornax_error *err)
{
    fx_status st;

    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(ctx);
    FX_TRY(fx_api_usable(ctx, err));
    FX_TRY(new_module(out, ctx, err));
    (*out)->m = fx_module_new(&(*out)->arena);
    st = (*out)->m ? FORNAX_OK : fx_nomem(err, "a module");
    if (st != FORNAX_OK) {
        fornax_module_close(*out);
        *out = NULL;
    }
    return st;
}

void fornax_module_close(fornax_module *m)
{
    fornax_context *ctx = m ? m->ctx : NULL;

    if (!m)
        return;
    fx_arena_done(&m->arena);
    fx_mem_free(&ctx->mem, m, sizeof(*m));
}

fornax_status fornax_module_check(const fornax_module *m, fornax_error *err)
{
    fx_error why = { 0 };
    fx_status st;

    FX_API_NEED(m);
    FX_TRY(fx_api_usable(m->ctx, err));
    st = fx_module_check(m->m, &why);
    if (st == FORNAX_EINTERNAL)          /* the verifier's word for passes; here the caller built it */
        st = FORNAX_EARG;
    return st == FORNAX_OK ? st : fx_fail(err, st, "%s", why.text);
}

fornax_status fornax_module_print(fornax_text **out, const fornax_module *m, fornax_error *err)
{
    fx_buf b;

    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(m);
    FX_TRY(fx_api_usable(m->ctx, err));
    fx_buf_init(&b, &m->ctx->mem);
    fx_module_print(m->m, &b);
    return fx_api_text(out, &m->ctx->mem, &b, err);
}

/* A graph's object around what the text had. */
static bool wrap_graphs(fornax_module *m)
{
    for (fx_graph *g = m->m->first; g; g = g->next) {
        fornax_graph *w = FX_ARENA_NEW(&m->arena, fornax_graph);

        if (!w)
            return false;
        w->owner = m;
        w->g = g;
        w->at = (fx_point){ fx_graph_body(g), NULL };
        *(m->last ? &m->last->next : &m->first) = w;
        m->last = w;
    }
    return true;
}

fornax_status fornax_module_parse(fornax_module **out, fornax_context *ctx, const char *name, const char *text,
                                  size_t text_n, fornax_error *err)
{
    fornax_module *m = NULL;
    fx_status st;

    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(ctx);
    FX_API_NEED(name);
    FX_API_NEED(text);
    FX_TRY(fx_api_usable(ctx, err));
    FX_TRY(new_module(&m, ctx, err));
    st = fx_module_parse(&m->m, &m->arena, name, text_n == SIZE_MAX ? fx_str_of(text) : fx_str_n(text, text_n), err);
    if (st == FORNAX_OK && !wrap_graphs(m))
        st = fx_nomem(err, "a module");
    if (st == FORNAX_OK)
        *out = m;
    else
        fornax_module_close(m);
    return st;
}

/* ---- Kernel libraries -------------------------------------------------------------------------- */

/* A shared object begins so. */
static fx_status check_package(const fx_mem *mem, const char *path, fx_error *err)
{
    fx_file *file;
    bool elf;

    FX_TRY(fx_file_map(&file, mem, path, err));
    elf = fx_str_starts(fx_file_bytes(file), FX_STR("\177ELF"));
    fx_file_unmap(file);
    return elf ? FORNAX_OK
               : fx_fail(err, FORNAX_EFORMAT, "%s: expected a package of kernels (a shared object) or a folder of sources",
                         path);
}

fornax_status fornax_module_add_library(fornax_module *m, const char *path, fornax_error *err)
{
    FX_API_NEED(m);
    FX_API_NEED(path);
    FX_TRY(fx_api_usable(m->ctx, err));
    FX_TRY(fx_module_status(m->m, err));
    if (!fx_path_is_dir(path))
        FX_TRY(check_package(&m->ctx->mem, path, err));
    return fx_module_add_library(m->m, fx_str_of(path)) ? FORNAX_OK : fx_nomem(err, "a kernel library");
}

const char *fornax_module_library(const fornax_module *m, size_t i)
{
    const fx_library *l = m ? m->m->libraries : NULL;

    for (; l && i; i--)
        l = l->next;
    return l ? l->path.p : NULL;
}

fornax_graph *fornax_module_graph(const fornax_module *m, size_t i)
{
    fornax_graph *g = m ? m->first : NULL;

    for (; g && i; i--)
        g = g->next;
    return g;
}
