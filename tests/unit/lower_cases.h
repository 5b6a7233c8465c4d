/* lower_cases.h - graphs of tensors, their results, and how many launches they take.
 *
 * Inputs hold numbers made of their place: floats ((7 k) mod 11) - 5, integers k mod 3; the size n is 3. */
#ifndef FX_LOWER_CASES_H
#define FX_LOWER_CASES_H

#include "fxtest.h"
#include "runtime/kexec.h"

typedef struct lower_case {
    const char *name;
    int launches;
    const char *graph, *results;
} lower_case;

static const lower_case lower_cases[] = {
    { "chain", 1,
      "%x = input f32[n,4]\n%v = input f32[4]\n%a = add %x, %v\n%b = mul %a, %a\n%c = negate %b\noutput %c",
      "f32[3,4] -100 -16 -16 -100 -16 -1 -4 -25 -81 -25 -9 -0" },
    { "scalar", 1,
      "%x = input f32[n]\n%s = input f32\n%y = sub %x, %s\noutput %y",
      "f32[3] 0 7 3" },
    { "all_reduce", 1,
      "%x = input f32[n,2]\n%z = input f32[n,2]\n%y = negate %x\n%a = all_reduce %x, %y, %z, %x\noutput %a",
      "f32[3,2] -10 4 -4 10 2 -6" },
    { "all_reduce in order", 1,
      "%b = constant f32[2], {16777216, -16777216}\n%o = constant f32[2], {1, -1}\n%x = add %o, %o\n%y = sub %x, %o\n"
      "%a = all_reduce %b, %y, %o\noutput %a",
      "f32[2] 16777216 -16777216" },
    { "two readers", 1,
      "%x = input f32[n,4]\n%a = add %x, %x\n%b = mul %a, %a\n%c = sub %a, %x\noutput %b, %c",
      "f32[3,4] 100 16 16 100 4 36 64 0 64 36 4 100\nf32[3,4] -5 2 -2 5 1 -3 4 0 -4 3 -1 -5" },
    { "sum last", 1,
      "%x = input f32[n,4]\n%y = sum %x\noutput %y",
      "f32[3,1] 0 2 -7" },
    { "sum first", 1,
      "%x = input f32[n,4]\n%y = sum %x, axis=0\noutput %y",
      "f32[1,4] -8 2 1 0" },
    { "mean fused", 1,
      "%x = input f32[n,4]\n%m = mean %x\n%y = sub %x, %m\noutput %y",
      "f32[3,4] -5 2 -2 5 0.5 -3.5 3.5 -0.5 -2.25 4.75 0.75 -3.25" },
    { "max of sum", 1,
      "%x = input f32[n,4]\n%a = add %x, %x\n%y = reduce_max %a\noutput %y",
      "f32[3,1] 10 8 6" },
    { "argmax", 2,
      "%x = input f32[n,4]\n%y = argmax %x\n%z = argmin %x, axis=0\noutput %y, %z",
      "i64[3,1] 3 2 1\ni64[1,4] 0 1 0 2" },
    { "matmul with bias and relu", 1,
      "%x = input f32[n,4]\n"
      "%w = input f32[4,5]\n"
      "%b = input f32[5]\n"
      "%h = matmul %x, %w\n"
      "%y = add %h, %b\n"
      "%z = relu %y\n"
      "output %z",
      "f32[3,5] 21 0 24 0 0 0 0 4 14 13 2 26 0 0 21" },
    { "matmul of a transposed", 1,
      "%x = input f32[n,4]\n%w = input f32[5,4]\n%t = transpose %w\n%y = matmul %x, %t\noutput %y",
      "f32[3,5] 58 -19 3 -19 3 -19 26 -17 28 -15 3 -17 51 -24 44" },
    { "matmul batched", 1,
      "%x = input f32[2,n,4]\n%w = input f32[4,5]\n%y = matmul %x, %w\noutput %y",
      "f32[2,3,5] 26 -7 26 -29 -29 0 -30 6 9 12 7 24 -14 -30 20 -8 -32 10 8 17 -1 22 -10 -31 25 -5 21 -8 29 -33" },
    { "matmul of a row of unknown sizes, in wide numbers", 1,
      "%a = input f32[1,n]\n%b = input f32[n,n]\n%x = cast %a, f64\n%w = cast %b, f64\n%y = matmul %x, %w\n%z = cast %y, f32\noutput %z",
      "f32[1,3] 27 -8 12" },
    { "matmul of vectors", 2,
      "%a = input f32[4]\n"
      "%w = input f32[4,5]\n"
      "%b = input f32[4]\n"
      "%y = matmul %a, %w\n"
      "%z = matmul %a, %b\n"
      "output %y, %z",
      "f32[5] 26 -7 26 -29 -29\nf32 58" },
    { "views", 1,
      "%x = input f32[n,4]\n"
      "%t = transpose %x\n"
      "%r = reshape %t, f32[2*n,2]\n"
      "%s = slice %r, start=1, length=1, axis=1\n"
      "output %s",
      "f32[6,1] 1 2 3 4 5 -5" },
    { "concat", 1,
      "%x = input f32[n,4]\n%y = input f32[2,4]\n%c = concat %x, %y, axis=0\noutput %c",
      "f32[5,4] -5 2 -2 5 1 -3 4 0 -4 3 -1 -5 -5 2 -2 5 1 -3 4 0" },
    { "stack", 1,
      "%x = input f32[n,2]\n%y = input f32[n,2]\n%z = add %y, %y\n%c = stack %x, %z, axis=1\noutput %c",
      "f32[3,2,2] -5 2 -10 4 -2 5 -4 10 1 -3 2 -6" },
    { "pad", 1,
      "%x = input f32[n,2]\n%p = pad %x, paddings={1, 0, 0, 2}, value=7\noutput %p",
      "f32[4,4] 7 7 7 7 -5 2 7 7 -2 5 7 7 1 -3 7 7" },
    { "pad reflect", 1,
      "%x = input f32[n,4]\n%p = pad %x, paddings={2, 1, 0, 3}, mode=reflect\noutput %p",
      "f32[6,7] -4 3 -1 -5 -1 3 -4 1 -3 4 0 4 -3 1 -5 2 -2 5 -2 2 -5 1 -3 4 0 4 -3 1 -4 3 -1 -5 -1 3 -4 1 -3 4 0 4 -3 1" },
    { "pad edge", 1,
      "%x = input f32[n,2]\n%p = pad %x, paddings={1, 1, 2, 0}, mode=edge\noutput %p",
      "f32[5,4] -5 -5 -5 2 -5 -5 -5 2 -2 -2 -2 5 1 1 1 -3 1 1 1 -3" },
    { "gather", 1,
      "%x = input f32[n,4]\n%i = input i64[2,2]\n%y = gather %x, %i, axis=0\noutput %y",
      "f32[2,2,4] -5 2 -2 5 1 -3 4 0 -4 3 -1 -5 -5 2 -2 5" },
    { "scatter_add", 1,
      "%x = input f32[n,4]\n"
      "%u = input f32[2,4]\n"
      "%i = input i64[2,4]\n"
      "%y = scatter_add %x, %u, %i, axis=0\n"
      "output %y",
      "f32[3,4] -10 2 2 10 2 -1 4 0 -4 0 -3 -5" },
    { "cumsum", 3,
      "%x = input f32[n,4]\n"
      "%a = cumsum %x\n"
      "%b = cumsum %x, axis=0, exclusive=true\n"
      "%c = cumsum %x, reverse=true\n"
      "output %a, %b, %c",
      "f32[3,4] -5 -3 -5 0 1 -2 2 2 -4 -1 -2 -7\nf32[3,4] 0 0 0 0 -5 2 -2 5 -4 -1 2 5\nf32[3,4] 0 5 3 5 2 1 4 0 -7 -3 -6 -5" },
    { "argsort", 2,
      "%x = input f32[11]\n%a = argsort %x\n%d = argsort %x, ascending=false\noutput %a, %d",
      "i64[11] 0 8 5 2 10 7 4 1 9 6 3\ni64[11] 3 6 9 1 4 7 10 2 5 8 0" },
    { "top_k", 2,
      "%x = input f32[n,4]\n"
      "%v, %i = top_k %x, k=2\n"
      "%w, %j = bottom_k %x, k=2, axis=0\n"
      "output %v, %i, %w, %j",
      "f32[3,2] 5 2 4 1 3 -1\ni64[3,2] 3 1 2 0 1 2\nf32[2,4] -5 -3 -2 -5 -4 2 -1 0\ni64[2,4] 0 1 0 2 2 0 2 1" },
    { "bf16", 1,
      "%x = input f32[n,4]\n%a = cast %x, bf16\n%b = mul %a, %a\n%c = add %b, %a\noutput %c",
      "bf16[3,4] 20 6 2 30 2 6 20 0 12 12 0 20" },
    { "where and compare", 1,
      "%x = input f32[n,4]\n"
      "%y = input f32[n,4]\n"
      "%g = greater %x, %y\n"
      "%n = negate %x\n"
      "%w = where %g, %x, %n\n"
      "output %w",
      "f32[3,4] 5 -2 2 -5 -1 3 -4 -0 4 -3 1 5" },
    { "integer ops", 1,
      "%x = input i64[n,4]\n"
      "%y = input i64[4]\n"
      "%d = div %x, %y\n"
      "%m = mod %x, %y\n"
      "%c = cast %d, i32\n"
      "output %m",
      "i64[3,4] 0 0 0 0 0 0 0 0 0 0 1 0" },
    { "tile and repeat", 2,
      "%x = input f32[2,2]\n"
      "%t = tile %x, repeats={2, 3}\n"
      "%r = repeat_interleave %x, axis=1, times=2\n"
      "output %t, %r",
      "f32[4,6] -5 2 -5 2 -5 2 -2 5 -2 5 -2 5 -5 2 -5 2 -5 2 -2 5 -2 5 -2 5\nf32[2,4] -5 -5 2 2 -2 -2 5 5" },
    { "band_part", 1,
      "%x = input f32[3,4]\n%y = band_part %x, num_lower=0, num_upper=1\noutput %y",
      "f32[3,4] -5 2 0 0 0 -3 4 0 0 0 -1 -5" },
    { "conv2d", 1,
      "%x = input f32[1,3,3,2]\n"
      "%w = input f32[2,2,2,1]\n"
      "%y = conv2d %x, %w, padding={1, 1, 1, 1}\n"
      "%z = relu %y\n"
      "output %z",
      "f32[1,4,4,1] 0 0 0 10 36 46 0 3 0 31 0 0 0 0 3 23" },
    { "max_pool2d", 1,
      "%x = input f32[1,3,3,2]\n%y = max_pool2d %x, kernel={2, 2}\noutput %y",
      "f32[1,2,2,2] 4 5 1 5 5 3 5 4" },
    { "input as output", 2,
      "%x = input f32[n]\noutput %x, %x",
      "f32[3] -5 2 -2\nf32[3] -5 2 -2" },
    { "empty", 2,
      "%x = input f32[0,4]\n%y = add %x, %x\n%s = sum %x, axis=0\noutput %y, %s",
      "f32[0,4] \nf32[1,4] 0 0 0 0" },
    { "conv2d_transpose", 1,
      "%x = input f32[1,2,2,2]\n"
      "%w = input f32[2,2,3,2]\n"
      "%y = conv2d_transpose %x, %w, strides={2, 2}\n"
      "output %y",
      "f32[1,4,4,3] 29 20 -11 -20 26 -5 20 29 -17 -8 23 -23 -14 -23 23 -8 -17 29 -14 -5 26 -20 -11 20 -11 -17 10 4 -13 14 -20 -8 4 16 -16 -4 8 2 -15 12 6 -11 8 20 -12 0 12 -20" },
    { "fold", 1,
      "%x = input f32[1,4,4]\n%y = fold %x, output_size={3, 3}, kernel={2, 2}\noutput %y",
      "f32[1,1,3,3] -5 3 -3 -6 14 -2 -1 0 1" },
    { "resize_nearest", 1,
      "%x = input f32[2,3]\n"
      "%y = resize_nearest %x, shape={4, 6}, coordinates=asymmetric, round=floor\n"
      "output %y",
      "f32[4,6] -5 -5 2 2 -2 -2 -5 -5 2 2 -2 -2 5 5 1 1 -3 -3 5 5 1 1 -3 -3" },
    { "resize_linear", 1,
      "%x = input f32[3]\n%y = resize_linear %x, shape={6}\noutput %y",
      "f32[6] -5 -3.25 0.25 1 -1 -2" },
    { "random_uniform", 1,
      "%s = constant i64, {7}\n%y = random_uniform %s, f32[2,3], low=1, high=3\noutput %y",
      "f32[2,3] 2.9091942 1.8139209 1.0121503 1.7803981 1.5798572 1.677226" },
    { "call", 3,
      "graph @twice {\n"
      "%a = input f32[k]\n"
      "%b = add %a, %a\n"
      "output %b\n"
      "}\n"
      "graph @main {\n"
      "%x = input f32[n,2]\n"
      "%r = reshape %x, f32[2*n]\n"
      "%y = call %r, callee=\"twice\"\n"
      "%z = add %y, %r\n"
      "output %z\n"
      "}",
      "f32[6] -15 6 -6 15 3 -9" },
    { "cond", 9,
      "%x = input f32[n]\n"
      "%k = input i64[2]\n"
      "%i = slice %k, start=1, length=1\n"
      "%j = reshape %i, i64\n"
      "%o = constant i64, {1}\n"
      "%p = equal %j, %o\n"
      "%y = cond %p {\n"
      "%a = add %x, %x\n"
      "yield %a\n"
      "} {\n"
      "yield %x\n"
      "}\n"
      "%q = not_equal %j, %o\n"
      "%z = cond %q {\n"
      "%b = add %x, %x\n"
      "yield %b\n"
      "} {\n"
      "yield %x\n"
      "}\n"
      "output %y, %z",
      "f32[3] -10 4 -4\nf32[3] -5 2 -2" },
    { "while", 12,
      "%x = input f32[n]\n"
      "%x2 = add %x, %x\n"
      "%zero = constant i64, {0}\n"
      "%i, %a, %b = while %zero, %x, %x2 {\n"
      "%i0: i64, %a0: f32[n], %b0: f32[n]\n"
      "%four = constant i64, {4}\n"
      "%t = greater %four, %i0\n"
      "yield %t\n"
      "} {\n"
      "%i1: i64, %a1: f32[n], %b1: f32[n]\n"
      "%one = constant i64, {1}\n"
      "%i2 = add %i1, %one\n"
      "%s = add %a1, %b1\n"
      "yield %i2, %b1, %s\n"
      "}\n"
      "output %i, %a, %b",
      "i64 4\nf32[3] -40 16 -16\nf32[3] -65 26 -26" },
    { "buffers", 7,
      "%x = input f32[n]\n"
      "%c0 = chain\n"
      "%b = buffer_create buffer f32[n]\n"
      "%l0, %c1 = buffer_load %b, %c0\n"
      "%c2 = buffer_store %b, %x, %c1\n"
      "%l1, %c3 = buffer_load %b, %c2\n"
      "%one = slice %x, start=1, length=1\n"
      "%c4 = buffer_store_slice %b, %one, %c3, starts={2}\n"
      "%l2, %c5 = buffer_load %b, %c4\n"
      "output %l0, %l1, %l2",
      "f32[3] 0 0 0\nf32[3] -5 2 -2\nf32[3] -5 2 2" },
    { "places that aren't 0", 4,
      "%x = input i64[7]\n"
      "%p = nonzero %x, out_dim=k\n"
      "%y = add %p, %p\n"
      "output %p, %y\n",
      "i64[4,1] 1 2 4 5\ni64[4,1] 2 4 8 10" },
    { "places in each turn of a loop", 12,
      "%x = input i64[7]\n"
      "%zero = constant i64, {0}\n"
      "%one = constant i64, {1}\n"
      "%three = constant i64, {3}\n"
      "%s, %i = while %zero, %zero { %a: i64, %c: i64\n"
      "  %more = greater %three, %c\n"
      "  yield %more\n"
      "} { %b: i64, %d: i64\n"
      "  %e = greater_equal %x, %d\n"
      "  %p = nonzero %e, out_dim=k\n"
      "  %t = sum %p, axis=0\n"
      "  %u = reshape %t, i64\n"
      "  %v = add %b, %u\n"
      "  %n = add %d, %one\n"
      "  yield %v, %n\n"
      "}\n"
      "output %s\n",
      "i64 40" },
    { "places in either branch", 11,
      "%x = input i64[7]\n"
      "%q = input i64\n"
      "%zero = constant i64, {0}\n"
      "%c = greater %q, %zero\n"
      "%y = cond %c {\n"
      "  %a = nonzero %x, out_dim=k\n"
      "  yield %a\n"
      "} {\n"
      "  %e = equal %x, %zero\n"
      "  %b = nonzero %e, out_dim=k\n"
      "  yield %b\n"
      "}\n"
      "output %y\n",
      "i64[3,1] 0 3 6" },
    { "a size that is each call's own", 8,
      "subgraph @total {\n"
      "  %v = input i64[m]\n"
      "  %p = nonzero %v, out_dim=k\n"
      "  %s = sum %p, axis=0\n"
      "  output %s\n"
      "}\n"
      "graph @main {\n"
      "  %x = input i64[7]\n"
      "  %z = input i64[3]\n"
      "  %a = call %x, callee=\"total\"\n"
      "  %b = call %z, callee=\"total\"\n"
      "  output %a, %b\n"
      "}\n",
      "i64[1,1] 12\ni64[1,1] 3" },
    { "range of values", 4,
      "%x = input i64[4]\n"
      "%s = sum %x\n"
      "%e = reshape %s, i64\n"
      "%zero = constant i64, {0}\n"
      "%one = constant i64, {1}\n"
      "%r = range %zero, %e, %one, i64[k]\n"
      "%y = add %r, %r\n"
      "output %y\n",
      "i64[3] 0 2 4" },
    { "a size by another name", 2,
      "%x = input f32[n,4]\n"
      "%p = rebind %x, shape={m, 4}\n"
      "%y = sum %p, axis=0\n"
      "output %y\n",
      "f32[1,4] -8 2 1 0" },
    { "repeats that are values", 4,
      "%x = input f32[2,3]\n"
      "%r = input i64[3]\n"
      "%y = repeat_interleave %x, %r, axis=1, out_dim=k\n"
      "%z = negate %y\n"
      "output %z\n",
      "f32[2,3] -2 2 2 -1 3 3" },
};

#define MAX_ENDS 8
#define N 3

static inline int64_t elements(const fx_kvalue *v)
{
    int64_t n = 1;

    for (int i = 0; i < v->rank; i++)
        n *= v->dim[i];
    return n;
}

/* An input's axis: a number, or the symbol n. */
static inline int64_t size_in(const fx_kplan *p, int32_t size)
{
    const fx_plan_size *s = &p->sizes[size];

    return s->n == 1 ? p->steps[s->first].n : N;
}

static inline void make_input(const fx_kplan *p, const fx_ktensor *t, fx_kvalue *v)
{
    v->dtype = t->dtype;
    v->rank = t->rank;
    for (int i = 0; i < t->rank; i++)
        v->dim[i] = size_in(p, t->dim[i]);
    v->data = calloc((size_t)elements(v) + 1, 8);
    for (int64_t k = 0; k < elements(v); k++) {
        if (t->dtype == FX_F32)
            ((float *)v->data)[k] = (float)(k * 7 % 11 - 5);
        else
            ((int64_t *)v->data)[k] = k % 3;
    }
}

static inline double number_at(const fx_kvalue *v, int64_t k)
{
    switch (v->dtype) {
    case FX_F32: return (double)((float *)v->data)[k];
    case FX_BF16: return (double)fx_bf16_to_f32(((uint16_t *)v->data)[k]);
    case FX_I64: return (double)((int64_t *)v->data)[k];
    default: return (double)((uint8_t *)v->data)[k];
    }
}

static inline void show(fx_buf *b, const fx_kvalue *v)
{
    fx_buf_puts(b, b->n ? "\n" : "");
    fx_buf_puts(b, fx_dtype_name(v->dtype));
    for (int i = 0; i < v->rank; i++)
        fx_buf_printf(b, "%c%lld", i ? ',' : '[', (long long)v->dim[i]);
    fx_buf_puts(b, v->rank ? "] " : " ");
    for (int64_t k = 0; k < elements(v); k++) {
        fx_buf_puts(b, k ? " " : "");
        fx_buf_float(b, (float)number_at(v, k));
    }
}

#endif
