/* ll_memory.c - buffers, arrays, and what reads and writes them.
 *
 * An access that may fall outside asks first; where all of it is inside, it is one load or store. Elsewhere, aside of
 * the hot path, the lanes that are inside are accessed under a mask, and the first one that isn't is noted. */
#include <stdio.h>

#include "codegen/llvm/ll.h"

/* ---- Places ------------------------------------------------------------------------------------------ */

static LLVMTypeRef in_memory(fx_ll *l, fx_dtype t) { return t == FX_BOOL ? l->i8 : fx_ll_scalar(l, t); }

static LLVMMetadataRef string_of(fx_ll *l, const char *text) { return LLVMMDStringInContext2(l->context, text, strlen(text)); }

/* Buffers that may be the same memory have one number, that of the first. */
static int memory_of(const fx_kir_kernel *k, int buffer)
{
    int n = 0;

    for (size_t i = 0; i < k->params.n; i++) {
        const fx_kop *op = k->params.at[i];

        if (op->code == FX_KIR_BUFFER && n++ == buffer)
            return op->u.buf->same_as ? FX_MIN(op->u.buf->same_as - 1, buffer) : buffer;
    }
    return buffer;
}

/* Whether anybody writes to the memory of this buffer. */
static bool is_written(const fx_kir_kernel *k, int buffer)
{
    int n = 0, memory = memory_of(k, buffer);

    for (size_t i = 0; i < k->params.n; i++) {
        const fx_kop *op = k->params.at[i];

        if (op->code != FX_KIR_BUFFER)
            continue;
        if (memory_of(k, n) == memory && op->u.buf->access != FX_KIR_IN)
            return true;
        n++;
    }
    return false;
}

static LLVMMetadataRef scope_of(fx_ll *l, int memory)
{
    LLVMMetadataRef domain[] = { string_of(l, "fornax.buffers") }, scope[2];
    char name[24];

    snprintf(name, sizeof(name), "buffer%d", memory);
    scope[0] = string_of(l, name);
    scope[1] = LLVMMDNodeInContext2(l->context, domain, 1);
    return LLVMMDNodeInContext2(l->context, scope, 2);
}

/* The lists of this memory's scope and of all others. */
static void set_scopes(fx_ll *l, fx_ll_place *p, int buffer)
{
    int memory = memory_of(l->k, buffer), n = 0;
    LLVMMetadataRef mine = scope_of(l, memory), *others = fx_arena_array(l->arena, (size_t)l->k->n_buffers + 1, sizeof(*others));

    if (!others) {
        fx_ll_fail(l, NULL, FORNAX_ENOMEM, "no memory");
        return;
    }
    for (int i = 0; i < l->k->n_buffers; i++) {
        if (memory_of(l->k, i) == i && i != memory)
            others[n++] = scope_of(l, i);
    }
    p->scope = LLVMMetadataAsValue(l->context, LLVMMDNodeInContext2(l->context, &mine, 1));
    p->others = n ? LLVMMetadataAsValue(l->context, LLVMMDNodeInContext2(l->context, others, (size_t)n)) : NULL;
}

static void mark(fx_ll *l, LLVMValueRef instruction, const char *kind, LLVMValueRef node)
{
    if (node)
        LLVMSetMetadata(instruction, LLVMGetMDKindIDInContext(l->context, kind, (unsigned)strlen(kind)), node);
}

static LLVMValueRef load_word(fx_ll *l, LLVMTypeRef t, LLVMValueRef array, int n)
{
    LLVMValueRef at = fx_ll_index(l, n), p = LLVMBuildInBoundsGEP2(l->b, t, array, &at, 1, "");
    LLVMValueRef v = LLVMBuildLoad2(l->b, t, p, "");

    mark(l, v, "invariant.load", LLVMMetadataAsValue(l->context, l->empty));
    return v;
}

static LLVMValueRef scalar_param(fx_ll *l, const fx_kop *op)
{
    LLVMValueRef x = load_word(l, l->i64, l->args, (int)op->u.i);
    LLVMTypeRef bits = op->type.t == FX_BOOL ? l->i1 : LLVMIntTypeInContext(l->context, (unsigned)fx_dtype_size(op->type.t) * 8);

    if (bits != l->i64)
        x = LLVMBuildTrunc(l->b, x, bits, "");
    return LLVMBuildBitCast(l->b, x, fx_ll_scalar(l, op->type.t), "");
}

static LLVMValueRef size_of(fx_ll *l, const fx_kop *op)
{
    return op->code == FX_KIR_CONST ? fx_ll_index(l, op->u.i) : l->val[op->id];
}

static void set_extents(fx_ll *l, fx_ll_place *p, const fx_kir_buf *b)
{
    LLVMValueRef next = fx_ll_index(l, 1);

    for (int i = b->rank - 1; i >= 0; i--) {
        p->extent[i] = size_of(l, b->extent[i]);
        p->stride[i] = b->stride[i] ? size_of(l, b->stride[i]) : next;
        if (i > 0)
            next = LLVMBuildMul(l->b, p->stride[i], p->extent[i], "");
    }
}

/* A GPU's buffers are in its global memory. */
static LLVMValueRef buffer_param(fx_ll *l, int n)
{
    LLVMValueRef p = load_word(l, l->ptr, l->buffers, n);

    return fx_ll_gpu(l) ? LLVMBuildAddrSpaceCast(l->b, p, LLVMPointerTypeInContext(l->context, 1), "") : p;
}

void fx_ll_places(fx_ll *l)
{
    int n = 0;

    for (size_t i = 0; i < l->k->params.n; i++) {
        if (l->k->params.at[i]->code == FX_KIR_ARG)
            l->val[l->k->params.at[i]->id] = scalar_param(l, l->k->params.at[i]);
    }
    for (size_t i = 0; l->buffers && i < l->k->params.n; i++) {
        const fx_kop *op = l->k->params.at[i];
        fx_ll_place *p = &l->place[op->id];

        if (op->code != FX_KIR_BUFFER)
            continue;
        p->base = buffer_param(l, n);
        p->constant = !is_written(l->k, n);
        set_extents(l, p, op->u.buf);
        set_scopes(l, p, n++);
    }
}

/* ---- Arrays ---------------------------------------------------------------------------------------------- */

static uint64_t array_elements(const fx_kop *op)
{
    uint64_t n = 1;

    for (int i = 0; i < op->u.buf->rank; i++)
        n *= (uint64_t)op->u.buf->extent[i]->u.i;
    return n;
}

/* Zeroes by a loop of LLVM's IR, as nothing may become a call of memset. */
static void zero(fx_ll *l, LLVMValueRef base, LLVMTypeRef element, uint64_t n, bool by_threads)
{
    uint64_t size = LLVMABISizeOfType(LLVMGetModuleDataLayout(l->module), element);
    bool wide = n * size % 32 == 0;
    LLVMTypeRef piece = wide ? LLVMVectorType(l->i64, 4) : element;
    LLVMValueRef pieces = fx_ll_index(l, (int64_t)(wide ? n * size / 32 : n));
    fx_ll_loop loop;
    LLVMValueRef p;

    if (by_threads)
        fx_ll_loop_of_threads(l, &loop, fx_ll_index(l, 0), pieces);
    else
        fx_ll_loop_open(l, &loop, fx_ll_index(l, 0), pieces, NULL);
    p = LLVMBuildInBoundsGEP2(l->b, piece, base, &loop.i, 1, "");
    LLVMSetAlignment(LLVMBuildStore(l->b, LLVMConstNull(piece), p), wide ? 32 : (unsigned)size);
    fx_ll_loop_close(l, &loop);
}

/* An array that all threads of a GPU's block see. */
static LLVMValueRef shared_array(fx_ll *l, LLVMTypeRef t)
{
    LLVMValueRef g = LLVMAddGlobalInAddressSpace(l->module, t, "fx.shared", 3);

    LLVMSetLinkage(g, LLVMInternalLinkage);
    LLVMSetInitializer(g, LLVMGetUndef(t));
    LLVMSetAlignment(g, 64);
    return g;
}

void fx_ll_alloc(fx_ll *l, const fx_kop *op)
{
    fx_ll_place *p = &l->place[op->id];
    LLVMTypeRef element = in_memory(l, op->u.buf->dtype);
    uint64_t n = array_elements(op);
    LLVMTypeRef t = LLVMArrayType2(element, n);
    bool together = fx_ll_gpu(l) && !l->alone;

    p->base = together ? shared_array(l, t) : fx_ll_alloca(l, t, "array");
    if (!together)
        LLVMSetAlignment(p->base, 64);
    set_extents(l, p, op->u.buf);
    if (together)
        fx_ll_barrier(l);
    if (n)
        zero(l, p->base, element, n, together);
    if (together)
        fx_ll_barrier(l);
}

/* ---- An access --------------------------------------------------------------------------------------------- */

typedef struct access {
    const fx_kop *op;
    const fx_ll_place *place;
    int rank, lanes, from;       /* from: of the operands, the first index */
    bool contiguous;             /* lanes lie side by side */
    fx_dtype t;
    LLVMValueRef index[FX_KIR_MAX_RANK];     /* i64, scalar or [lanes] */
    LLVMValueRef mask;           /* i1 or [lanes]; NULL: all on */
    LLVMValueRef value;          /* to store, as it is in memory; NULL: a load */
} access;

static bool is_store(const fx_kop *op) { return op->code == FX_KIR_STORE || op->code == FX_KIR_SCATTER; }
static bool is_vector(LLVMValueRef x) { return LLVMGetTypeKind(LLVMTypeOf(x)) == LLVMVectorTypeKind; }
static LLVMValueRef as_lanes(fx_ll *l, const access *a, LLVMValueRef x) { return is_vector(x) ? x : fx_ll_splat(l, x, a->lanes); }

static access access_of(fx_ll *l, const fx_kop *op)
{
    const fx_kop *buf = fx_kir_buffer_of(op), *mask = fx_kir_mask_of(op);
    access a = { .op = op, .place = &l->place[buf->id], .rank = buf->u.buf->rank, .from = fx_kir_index_from(op),
                 .t = buf->u.buf->dtype, .lanes = is_store(op) ? op->in[1]->type.lanes : op->type.lanes,
                 .contiguous = op->code == FX_KIR_LOAD || op->code == FX_KIR_STORE };

    for (int i = 0; i < a.rank; i++)
        a.index[i] = l->val[op->in[a.from + i]->id];
    if (mask)
        a.mask = l->val[mask->id];
    if (is_store(op)) {
        a.value = l->val[op->in[1]->id];
        if (a.t == FX_BOOL)
            a.value = LLVMBuildZExt(l->b, a.value, fx_ll_lanes(l->i8, a.lanes), "");
    }
    return a;
}

/* Elements from the buffer's start: i64, or a vector of them. */
static LLVMValueRef offset_of(fx_ll *l, const access *a)
{
    LLVMValueRef sum = NULL, vectors = NULL;

    for (int i = 0; i < a->rank; i++) {
        bool vector = is_vector(a->index[i]);
        LLVMValueRef stride = vector ? fx_ll_splat(l, a->place->stride[i], a->lanes) : a->place->stride[i];
        LLVMValueRef x = LLVMBuildMul(l->b, a->index[i], stride, "");

        if (vector)
            vectors = vectors ? LLVMBuildAdd(l->b, vectors, x, "") : x;
        else
            sum = sum ? LLVMBuildAdd(l->b, sum, x, "") : x;
    }
    if (!sum)
        sum = fx_ll_index(l, 0);
    return vectors ? LLVMBuildAdd(l->b, vectors, fx_ll_splat(l, sum, a->lanes), "") : sum;
}

static void mark_access(fx_ll *l, const access *a, LLVMValueRef instruction)
{
    mark(l, instruction, "alias.scope", a->place->scope);
    mark(l, instruction, "noalias", a->place->others);
    if (a->place->constant && !a->value)
        mark(l, instruction, "invariant.load", LLVMMetadataAsValue(l->context, l->empty));
}

/* One load or store of all lanes, which lie side by side. */
static LLVMValueRef plain(fx_ll *l, const access *a)
{
    LLVMTypeRef element = in_memory(l, a->t);
    LLVMValueRef at = offset_of(l, a), p = LLVMBuildInBoundsGEP2(l->b, element, a->place->base, &at, 1, "");
    LLVMValueRef r = a->value ? LLVMBuildStore(l->b, a->value, p) : LLVMBuildLoad2(l->b, fx_ll_lanes(element, a->lanes), p, "");

    LLVMSetAlignment(r, (unsigned)fx_dtype_size(a->t));
    mark_access(l, a, r);
    return r;
}

/* By an intrinsic for masked lanes; mask is a vector. */
static LLVMValueRef masked(fx_ll *l, const access *a, LLVMValueRef mask)
{
    LLVMTypeRef element = in_memory(l, a->t), data = fx_ll_lanes(element, a->lanes), types[2] = { data, NULL };
    LLVMValueRef at = offset_of(l, a), p, args[4], r;
    const char *name = a->contiguous ? (a->value ? "llvm.masked.store" : "llvm.masked.load")
                                     : a->value ? "llvm.masked.scatter" : "llvm.masked.gather";
    bool aligned;                /* the alignment is an operand until LLVM 21; later ones take any without it */
    int n = 0;

    if (!a->contiguous)
        at = as_lanes(l, a, at);
    p = LLVMBuildGEP2(l->b, element, a->place->base, &at, 1, "");
    types[1] = LLVMTypeOf(p);
    aligned = fx_ll_intrinsic_params(l, name, types, 2) == 4;
    if (a->value)
        args[n++] = a->value;
    args[n++] = p;
    if (aligned)
        args[n++] = LLVMConstInt(l->i32, fx_dtype_size(a->t), 0);
    args[n++] = mask;
    if (!a->value)
        args[n++] = LLVMConstNull(data);
    r = fx_ll_intrinsic(l, name, types, 2, args, n);
    mark_access(l, a, r);
    return r;
}

static LLVMValueRef at_once(fx_ll *l, const access *a, LLVMValueRef mask)
{
    if (a->lanes == 1 || (a->contiguous && !mask))
        return plain(l, a);
    return masked(l, a, as_lanes(l, a, mask ? mask : LLVMConstInt(l->i1, 1, 0)));
}

/* 'r' if this block was left by 'then', else zeroes; NULL of stores. */
static LLVMValueRef or_zero(fx_ll *l, const access *a, LLVMValueRef r, LLVMBasicBlockRef then, LLVMBasicBlockRef other)
{
    LLVMValueRef phi;

    if (a->value)
        return NULL;
    phi = LLVMBuildPhi(l->b, LLVMTypeOf(r), "");
    LLVMAddIncoming(phi, (LLVMValueRef[]){ r, LLVMConstNull(LLVMTypeOf(r)) }, (LLVMBasicBlockRef[]){ then, other }, 2);
    return phi;
}

/* ---- Faults ------------------------------------------------------------------------------------------------------ */

/* void fx.note(fault, op, axis, index, extent): keeps the first. */
static LLVMValueRef note_function(fx_ll *l, LLVMTypeRef *type)
{
    LLVMTypeRef in[] = { l->ptr, l->i32, l->i32, l->i64, l->i64 };
    LLVMTypeRef fault = LLVMStructTypeInContext(l->context, in + 1, 4, 0);
    LLVMValueRef fn = LLVMGetNamedFunction(l->module, "fx.note"), was = l->fn, old;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b), keep, done;

    *type = LLVMFunctionType(l->none, in, 5, 0);
    if (fn)
        return fn;
    fn = LLVMAddFunction(l->module, "fx.note", *type);
    LLVMSetLinkage(fn, LLVMInternalLinkage);
    fx_ll_flag(l, fn, LLVMAttributeFunctionIndex, "cold", 0);
    fx_ll_flag(l, fn, LLVMAttributeFunctionIndex, "noinline", 0);
    fx_ll_flag(l, fn, LLVMAttributeFunctionIndex, "memory", 3);        /* reads and writes what its arguments point to only */
    l->fn = fn;
    fx_ll_at(l, fx_ll_block(l, "entry"));
    keep = fx_ll_block(l, "keep");
    done = fx_ll_block(l, "done");
    old = LLVMBuildLoad2(l->b, l->i32, LLVMGetParam(fn, 0), "");
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntSLT, old, LLVMConstInt(l->i32, 0, 0), ""), keep, done);
    fx_ll_at(l, keep);
    for (unsigned i = 0; i < 4; i++)
        LLVMBuildStore(l->b, LLVMGetParam(fn, i + 1), LLVMBuildStructGEP2(l->b, fault, LLVMGetParam(fn, 0), i, ""));
    LLVMBuildBr(l->b, done);
    fx_ll_at(l, done);
    LLVMBuildRetVoid(l->b);
    l->fn = was;
    fx_ll_at(l, here);
    return fn;
}

/* Index of axis i in every lane: those of an access side by side count up. */
static LLVMValueRef lane_index(fx_ll *l, const access *a, int i)
{
    LLVMValueRef x = as_lanes(l, a, a->index[i]);

    if (a->contiguous && i == a->rank - 1 && a->lanes > 1)
        x = LLVMBuildAdd(l->b, x, fx_ll_iota(l, l->i64, a->lanes), "");
    return x;
}

static LLVMValueRef inside(fx_ll *l, const access *a, LLVMValueRef index, int i)
{
    LLVMValueRef extent = is_vector(index) ? fx_ll_splat(l, a->place->extent[i], a->lanes) : a->place->extent[i];

    return LLVMBuildICmp(l->b, LLVMIntULT, index, extent, "");
}

/* Extents are sizes: not negative. */
static LLVMValueRef all_inside(fx_ll *l, const access *a)
{
    LLVMValueRef all = NULL;

    for (int i = 0; i < a->rank; i++) {
        LLVMValueRef ok, room;

        if (fx_kir_in_bounds(a->op, i))
            continue;
        if (a->contiguous && i == a->rank - 1 && a->lanes > 1) {
            room = LLVMBuildSub(l->b, a->place->extent[i], fx_ll_index(l, a->lanes), "");
            ok = LLVMBuildAnd(l->b, LLVMBuildICmp(l->b, LLVMIntSGE, a->index[i], fx_ll_index(l, 0), ""),
                              LLVMBuildICmp(l->b, LLVMIntSLE, a->index[i], room, ""), "");
        } else {
            ok = inside(l, a, a->index[i], i);
        }
        if (is_vector(ok) && a->mask)
            ok = LLVMBuildOr(l->b, ok, LLVMBuildNot(l->b, as_lanes(l, a, a->mask), ""), "");
        if (is_vector(ok))
            ok = fx_ll_call1(l, "llvm.vector.reduce.and", ok);
        all = all ? LLVMBuildAnd(l->b, all, ok, "") : ok;
    }
    return all;
}

/* Calls fx.note for the first lane that is on and outside, of its first such axis. */
static void note(fx_ll *l, const access *a, LLVMValueRef on)
{
    LLVMTypeRef type;
    LLVMValueRef fn = note_function(l, &type), lane = NULL, args[5];
    LLVMValueRef ok[FX_KIR_MAX_RANK], index[FX_KIR_MAX_RANK], all = NULL, axis, at, extent;

    for (int i = 0; i < a->rank; i++) {
        index[i] = lane_index(l, a, i);
        ok[i] = inside(l, a, index[i], i);
        all = all ? LLVMBuildAnd(l->b, all, ok[i], "") : ok[i];
    }
    if (a->lanes > 1) {
        LLVMTypeRef bits = LLVMIntTypeInContext(l->context, (unsigned)a->lanes);
        LLVMValueRef wrong = LLVMBuildAnd(l->b, LLVMBuildNot(l->b, all, ""), as_lanes(l, a, on), "");
        LLVMValueRef in[] = { LLVMBuildBitCast(l->b, wrong, bits, ""), LLVMConstNull(l->i1) };

        lane = fx_ll_intrinsic(l, "llvm.cttz", &bits, 1, in, 2);
        lane = LLVMBuildIntCast2(l->b, lane, l->i32, 0, "");
        lane = LLVMBuildAnd(l->b, lane, LLVMConstInt(l->i32, (uint64_t)a->lanes - 1, 0), "");
    }
    axis = LLVMConstInt(l->i32, (uint64_t)(a->rank - 1), 0);
    at = extent = NULL;
    for (int i = a->rank - 1; i >= 0; i--) {
        LLVMValueRef good = lane ? LLVMBuildExtractElement(l->b, ok[i], lane, "") : ok[i];
        LLVMValueRef x = lane ? LLVMBuildExtractElement(l->b, index[i], lane, "") : index[i];

        at = at ? LLVMBuildSelect(l->b, good, at, x, "") : x;
        extent = extent ? LLVMBuildSelect(l->b, good, extent, a->place->extent[i], "") : a->place->extent[i];
        axis = LLVMBuildSelect(l->b, good, axis, LLVMConstInt(l->i32, (uint64_t)i, 0), "");
    }
    args[0] = l->fault;
    args[1] = LLVMConstInt(l->i32, (uint64_t)a->op->id, 0);
    args[2] = axis;
    args[3] = at;
    args[4] = extent;
    LLVMBuildCall2(l->b, type, fn, args, 5, "");
}

/* Of a vector access, the lanes that are on and inside. */
static LLVMValueRef lanes_inside(fx_ll *l, const access *a)
{
    LLVMValueRef on = a->mask ? as_lanes(l, a, a->mask) : NULL;

    for (int i = 0; i < a->rank; i++) {
        LLVMValueRef ok = inside(l, a, lane_index(l, a, i), i);

        on = on ? LLVMBuildAnd(l->b, on, ok, "") : ok;
    }
    return on;
}

static LLVMValueRef any_lane(fx_ll *l, const access *a, LLVMValueRef on, LLVMValueRef inside_too)
{
    LLVMValueRef out = LLVMBuildXor(l->b, as_lanes(l, a, on), inside_too, "");

    return fx_ll_call1(l, "llvm.vector.reduce.or", out);
}

/* Some lane may be outside: a scalar does nothing, a vector what its mask says. */
static LLVMValueRef outside(fx_ll *l, const access *a)
{
    LLVMValueRef yes = LLVMConstInt(l->i1, 1, 0), on = a->mask ? a->mask : yes, in;
    LLVMBasicBlockRef wrong, go_on;

    if (a->lanes == 1) {
        note(l, a, yes);
        return a->value ? NULL : LLVMConstNull(in_memory(l, a->t));
    }
    in = lanes_inside(l, a);
    wrong = fx_ll_block(l, "fault");
    go_on = fx_ll_block(l, "masked");
    LLVMBuildCondBr(l->b, any_lane(l, a, on, in), wrong, go_on);
    fx_ll_at(l, wrong);
    note(l, a, on);
    LLVMBuildBr(l->b, go_on);
    fx_ll_at(l, go_on);
    return masked(l, a, in);
}

static LLVMValueRef checked(fx_ll *l, const access *a, LLVMValueRef all)
{
    LLVMBasicBlockRef in = fx_ll_block(l, "inside"), out = fx_ll_block(l, "outside"), after = fx_ll_block(l, "after");
    LLVMValueRef r[2], phi;
    LLVMBasicBlockRef from[2];

    LLVMSetMetadata(LLVMBuildCondBr(l->b, all, in, out), LLVMGetMDKindIDInContext(l->context, "prof", 4), l->likely);
    fx_ll_at(l, in);
    r[0] = at_once(l, a, a->mask);
    from[0] = LLVMGetInsertBlock(l->b);
    LLVMBuildBr(l->b, after);
    fx_ll_at(l, out);
    r[1] = outside(l, a);
    from[1] = LLVMGetInsertBlock(l->b);
    LLVMBuildBr(l->b, after);
    fx_ll_at(l, after);
    if (a->value)
        return NULL;
    phi = LLVMBuildPhi(l->b, LLVMTypeOf(r[0]), "");
    LLVMAddIncoming(phi, r, from, 2);
    return phi;
}

static LLVMValueRef unmasked_scalar(fx_ll *l, const access *a)
{
    LLVMValueRef all = all_inside(l, a);

    return all ? checked(l, a, all) : at_once(l, a, a->mask);
}

/* A scalar under a mask: a branch around all of it. */
static LLVMValueRef masked_scalar(fx_ll *l, access *a)
{
    LLVMBasicBlockRef from = LLVMGetInsertBlock(l->b), then = fx_ll_block(l, "on"), after = fx_ll_block(l, "after"), end;
    LLVMValueRef mask = a->mask, r;

    a->mask = NULL;
    LLVMBuildCondBr(l->b, mask, then, after);
    fx_ll_at(l, then);
    r = unmasked_scalar(l, a);
    end = LLVMGetInsertBlock(l->b);
    LLVMBuildBr(l->b, after);
    fx_ll_at(l, after);
    return or_zero(l, a, r, end, from);
}

LLVMValueRef fx_ll_access(fx_ll *l, const fx_kop *op)
{
    access a = access_of(l, op);
    LLVMBasicBlockRef after = is_store(op) ? fx_ll_first_thread_open(l) : NULL;
    LLVMValueRef r = a.lanes == 1 && a.mask ? masked_scalar(l, &a) : unmasked_scalar(l, &a);

    if (is_store(op))
        fx_ll_first_thread_close(l, after);
    if (is_store(op) || a.t != FX_BOOL)
        return r;
    return LLVMBuildICmp(l->b, LLVMIntNE, r, LLVMConstNull(LLVMTypeOf(r)), "");
}
