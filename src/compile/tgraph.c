/* tgraph.c - graph, plan, kernels, code, in this order; and back from a file.
 *
 * In an artifact the plan is a text of numbers and names (tgraph_text.c) and the code an object file.  Both are checked when
 * read: a plan's indices against its own counts, an object as code_load.h has it. */
#include "compile/tgraph.h"

#include "codegen/code_load.h"
#include "compile/artifact.h"
#include "compile/kcode.h"
#include "compile/tgraph_int.h"
#include "fornax.h"
#include "passes/lower_kir.h"

static fx_status nomem(fx_error *err) { return fx_nomem(err, "a compiled graph"); }

static fx_status new_tgraph(fx_tgraph **out, const fx_mem *mem, fx_error *err)
{
    fx_tgraph *t = fx_mem_zalloc(mem, sizeof(*t));

    *out = t;
    if (!t)
        return nomem(err);
    t->mem = mem;
    fx_arena_init(&t->arena, mem, 0);
    fx_buf_init(&t->object, mem);
    return FORNAX_OK;
}

void fx_tgraph_free(fx_tgraph *t)
{
    if (!t)
        return;
    fx_code_free(t->loaded);
    fx_mem_free(t->mem, t->code, t->n_code * sizeof(*t->code));
    fx_buf_done(&t->object);
    fx_arena_done(&t->arena);
    fx_mem_free(t->mem, t, sizeof(*t));
}

const fx_kplan *fx_tgraph_plan(const fx_tgraph *t) { return t->plan; }
const fx_kcode *fx_tgraph_code(const fx_tgraph *t) { return t->code; }

/* ---- Compiling ------------------------------------------------------------------------------------- */

static int lanes_of(const fx_tgraph_options *o) { return o->codegen ? fx_target_lanes(o->target) : 1; }

/* A graph of nothing but others' kernels has no code of its own: a byte stands for it. */
static fx_status load_code(fx_tgraph *t, const char *name, fx_error *err)
{
    if (t->plan->n_kernels > 0)
        FX_TRY(fx_code_load(&t->loaded, t->mem, fx_buf_view(&t->object), name, err));
    t->n_code = (size_t)t->plan->n_kernels + 1;
    return fx_kcode_find(&t->code, t->mem, t->loaded, t->names, t->plan->n_kernels, err);
}

static fx_status generate(fx_tgraph *t, const fx_tgraph_options *o, fx_error *err)
{
    if (t->plan->n_kernels == 0)
        fx_buf_putc(&t->object, 0);
    else
        FX_TRY(fx_codegen_compile(o->codegen, &t->object, t->plan->module, o->target, &(fx_codegen_options){ .form = FX_CODE_OBJECT }, err));
    return o->foreign ? FORNAX_OK : load_code(t, "compiled graph", err);
}

static fx_status take_names(fx_tgraph *t, fx_error *err)
{
    t->names = FX_ARENA_NEWN(&t->arena, fx_str, (size_t)t->plan->n_kernels + 1);
    if (!t->names)
        return nomem(err);
    for (int32_t i = 0; i < t->plan->n_kernels; i++)
        t->names[i] = t->plan->kernels[i]->name;
    return FORNAX_OK;
}

/* ---- Stages, for people ------------------------------------------------------------------------------ */

enum { STAGE_GRAPH = 1, STAGE_PLAN, STAGE_KIR, STAGE_MATH, STAGE_WIDE, STAGE_LLVM, STAGE_ASM };
static const char *const stage_names[] = { "", "graph", "plan", "kir", "math", "wide", "llvm", "asm" };

/* b is done with. */
static fx_status tell(const fx_tgraph_options *o, int number, fx_buf *b, fx_error *err)
{
    fx_status st = b->failed ? nomem(err) : o->stage(o->stage_user, number, stage_names[number], fx_buf_view(b), err);

    fx_buf_done(b);
    return st;
}

static fx_status tell_kernels(const fx_tgraph *t, const fx_tgraph_options *o, int number, const fx_code_form *form, fx_error *err)
{
    fx_status st;
    fx_buf b;

    if (!o->stage)
        return FORNAX_OK;
    fx_buf_init(&b, t->mem);
    st = fx_tgraph_print(t, o->codegen, form, &b, err);
    if (st == FORNAX_OK)
        return tell(o, number, &b, err);
    fx_buf_done(&b);
    return st;
}

static fx_status tell_code(const fx_tgraph *t, const fx_tgraph_options *o, fx_error *err)
{
    static const fx_code_form llvm = FX_CODE_LLVM, assembly = FX_CODE_ASM;

    if (!o->codegen)
        return FORNAX_OK;
    FX_TRY(tell_kernels(t, o, STAGE_LLVM, &llvm, err));
    return tell_kernels(t, o, STAGE_ASM, &assembly, err);
}

/* The plan of g, whose text and explanation are told. */
static fx_status make_plan(fx_tgraph *t, const fx_graph *g, const fx_tgraph_options *o, fx_error *err)
{
    fx_lower_options lower = { .lanes = lanes_of(o), .unfused = o->unfused, .print = o->print, .n_print = o->n_print };
    fx_buf text, plan;
    fx_status st;

    if (!o->stage)
        return fx_lower_kir(&t->arena, g, &lower, &t->plan, err);
    fx_buf_init(&text, t->mem);
    fx_buf_init(&plan, t->mem);
    lower.explain = &plan;
    fx_graph_print(g, &text);
    st = tell(o, STAGE_GRAPH, &text, err);
    if (st == FORNAX_OK)
        st = fx_lower_kir(&t->arena, g, &lower, &t->plan, err);
    if (st == FORNAX_OK)
        return tell(o, STAGE_PLAN, &plan, err);
    fx_buf_done(&plan);
    return st;
}

fx_status fx_tgraph_begin(fx_tgraph **out, const fx_mem *mem, const fx_graph *g, const fx_tgraph_options *o, fx_error *err)
{
    fx_status st = new_tgraph(out, mem, err);

    if (st == FORNAX_OK && o->codegen)
        (*out)->target = *o->target;
    if (st == FORNAX_OK)
        st = make_plan(*out, g, o, err);
    if (st == FORNAX_OK)
        st = tell_kernels(*out, o, STAGE_KIR, NULL, err);
    if (st == FORNAX_OK)
        st = take_names(*out, err);
    if (st != FORNAX_OK) {
        fx_tgraph_free(*out);
        *out = NULL;
    }
    return st;
}

/* In two steps if somebody wants to see them. */
static fx_status make_ready(fx_tgraph *t, const fx_tgraph_options *o, fx_error *err)
{
    if (o->stage)
        FX_TRY(fx_kernels_ready(t->plan->kernels, t->plan->n_kernels, 1, err));
    FX_TRY(tell_kernels(t, o, STAGE_MATH, NULL, err));
    FX_TRY(fx_kernels_ready(t->plan->kernels, t->plan->n_kernels, lanes_of(o), err));
    FX_TRY(tell_kernels(t, o, STAGE_WIDE, NULL, err));
    return o->stage ? tell_code(t, o, err) : FORNAX_OK;
}

fx_status fx_tgraph_finish(fx_tgraph *t, const fx_tgraph_options *o, fx_error *err)
{
    FX_TRY(make_ready(t, o, err));
    return o->codegen && !fx_target_is_offload(o->target) ? generate(t, o, err) : FORNAX_OK;
}

fx_status fx_tgraph_compile(fx_tgraph **out, const fx_mem *mem, const fx_graph *g, const fx_tgraph_options *o, fx_error *err)
{
    fx_status st = fx_tgraph_begin(out, mem, g, o, err);

    if (st == FORNAX_OK)
        st = fx_tgraph_finish(*out, o, err);
    if (st != FORNAX_OK) {
        fx_tgraph_free(*out);
        *out = NULL;
    }
    return st;
}

/* All kernels are one module; for a GPU each is numbered by its place in the plan. */
static fx_status print_code(const fx_tgraph *t, const fx_codegen *cg, fx_code_form form, fx_buf *out, fx_error *err)
{
    int64_t *ids = fx_mem_array(t->mem, (size_t)t->plan->n_kernels + 1, sizeof(*ids));
    fx_codegen_options o = { .form = form, .ids = ids };
    fx_status st = FORNAX_OK;

    if (!ids)
        return nomem(err);
    for (int32_t i = 0; i < t->plan->n_kernels; i++)
        ids[i] = i;
    if (t->plan->n_kernels > 0)
        st = fx_codegen_compile(cg, out, t->plan->module, &t->target, &o, err);
    fx_mem_free(t->mem, ids, ((size_t)t->plan->n_kernels + 1) * sizeof(*ids));
    return st;
}

fx_status fx_tgraph_print(const fx_tgraph *t, const fx_codegen *cg, const fx_code_form *form, fx_buf *out, fx_error *err)
{
    if (!t->plan->module)
        return fx_fail(err, FORNAX_EUNSUP, "a graph that was loaded has no kernels to print, only their code");
    if (form)
        return print_code(t, cg, *form, out, err);
    fx_kir_print(t->plan->module, out);
    return FORNAX_OK;
}

/* ---- Files ----------------------------------------------------------------------------------------------- */

fx_status fx_tgraph_identity(const fx_graph *g, const fx_target *target, const fx_mem *mem, fx_artifact_id *out, fx_error *err)
{
    fx_hash128 h = { 0, 0 };
    fx_buf b;

    fx_buf_init(&b, mem);
    fx_target_print(target, &b);
    fx_buf_putc(&b, '\n');
    fx_graph_print(g, &b);
    if (!b.failed)
        h = fx_hash128_of(b.p, b.n, FX_KPLAN_VERSION);
    fx_buf_done(&b);
    *out = fx_artifact_id_make(fornax_version(), target->triple, h);
    return b.failed ? nomem(err) : FORNAX_OK;
}

fx_status fx_tgraph_sections(const fx_tgraph *t, fx_tgraph_bytes *b, fx_error *err)
{
    if (!t->object.n)
        return fx_fail(err, FORNAX_EUNSUP, "a graph that is interpreted, or for a GPU, has no code to keep");
    fx_buf_init(&b->plan, t->mem);
    fx_buf_init(&b->target, t->mem);
    fx_kplan_write(t->plan, t->names, &b->plan);
    fx_target_print(&t->target, &b->target);
    b->sections[0] = (fx_section_data){ FX_SECTION_PLAN, "plan", 64, b->plan.p, b->plan.n };
    b->sections[1] = (fx_section_data){ FX_SECTION_CODE, "object", 64, t->object.p, t->object.n };
    b->sections[2] = (fx_section_data){ FX_SECTION_CODE, "target", 64, b->target.p, b->target.n };
    if (!b->plan.failed && !b->target.failed)
        return FORNAX_OK;
    fx_tgraph_bytes_done(b);
    return nomem(err);
}

void fx_tgraph_bytes_done(fx_tgraph_bytes *b)
{
    fx_buf_done(&b->plan);
    fx_buf_done(&b->target);
}

fx_status fx_tgraph_save(const fx_tgraph *t, const char *path, fx_error *err)
{
    fx_artifact_id id = fx_artifact_id_make(fornax_version(), t->target.triple, (fx_hash128){ 0, 0 });
    fx_tgraph_bytes b;
    fx_status st;

    FX_TRY(fx_tgraph_sections(t, &b, err));
    st = fx_artifact_write(path, t->mem, &id, b.sections, FX_COUNT(b.sections), NULL, err);
    fx_tgraph_bytes_done(&b);
    return st;
}

static fx_status read_section(fx_artifact *a, fx_section_kind kind, const char *name, fx_str *out, fx_error *err)
{
    const fx_section *s = fx_artifact_find(a, kind, name);

    if (!s)
        return fx_fail(err, FORNAX_EFORMAT, "%s: it has no section %s: not a compiled graph", fx_artifact_path(a), name);
    return fx_artifact_read(a, s, NULL, out, err);
}

/* The target must be one that runs here. */
static fx_status check_target(fx_tgraph *t, fx_artifact *a, fx_str text, fx_error *err)
{
    for (int i = -1; i < 0 || fx_target_name(i); i++) {
        fx_buf b;
        bool same;

        if (fx_target_named(&t->target, fx_str_of(i < 0 ? "host" : fx_target_name(i)), NULL) != FORNAX_OK || !fx_target_runs_here(&t->target))
            continue;
        fx_buf_init(&b, t->mem);
        fx_target_print(&t->target, &b);
        same = fx_str_eq(fx_buf_view(&b), text);
        fx_buf_done(&b);
        if (same)
            return FORNAX_OK;
    }
    return fx_fail(err, FORNAX_EFORMAT, "%s: compiled for another machine", fx_artifact_path(a));
}

static fx_status take_artifact(fx_tgraph *t, fx_artifact *a, fx_error *err)
{
    fx_artifact_id own = fx_artifact_id_make(fornax_version(), "", (fx_hash128){ 0, 0 });
    const fx_artifact_id *id = fx_artifact_id_of(a);
    fx_str plan, object, target;

    if (memcmp(id->library, own.library, sizeof(own.library)) != 0)
        return fx_fail(err, FORNAX_EFORMAT, "%s: made by another version", fx_artifact_path(a));
    FX_TRY(read_section(a, FX_SECTION_PLAN, "plan", &plan, err));
    FX_TRY(read_section(a, FX_SECTION_CODE, "object", &object, err));
    FX_TRY(read_section(a, FX_SECTION_CODE, "target", &target, err));
    FX_TRY(check_target(t, a, target, err));
    FX_TRY(fx_kplan_read(&t->arena, fx_artifact_path(a), plan, &t->plan, &t->names, err));
    fx_buf_str(&t->object, object);
    if (t->object.failed)
        return nomem(err);
    return load_code(t, fx_artifact_path(a), err);
}

fx_status fx_tgraph_take(fx_tgraph **out, const fx_mem *mem, fx_artifact *a, fx_error *err)
{
    fx_status st = new_tgraph(out, mem, err);

    if (st == FORNAX_OK)
        st = take_artifact(*out, a, err);
    if (st != FORNAX_OK) {
        fx_tgraph_free(*out);
        *out = NULL;
    }
    return st;
}

fx_status fx_tgraph_load(fx_tgraph **out, const fx_mem *mem, const char *path, fx_error *err)
{
    fx_artifact *a;
    fx_status st;

    *out = NULL;
    FX_TRY(fx_artifact_open(&a, mem, path, err));
    st = fx_tgraph_take(out, mem, a, err);
    fx_artifact_close(a);
    return st;
}
