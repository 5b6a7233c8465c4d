/* test_plan.c - from graphs to launches: places, in-place results, weights, refusals; and the
 * layout of buffers in memory. */
#include "fxtest.h"

#include "kir/plan.h"
#include "passes/passes.h"

#define HEAD "%tokens = input i32[rows]\n%logit_rows = input i32[outs]\n"
#define EMBED HEAD "%e = weight \"emb\", q8_0[100,64]\n%x = embed %tokens, %e\n"
#define TAIL(v) "%last = gather %" v ", %logit_rows, axis=0\noutput %last\n"

/* A graph and the plan it is lowered to, without its last two lines where they are the same gather. */
static const struct { const char *what, *graph, *plan; } lowered[] = {
    { "an elementwise result goes over an operand that nobody reads later",
      EMBED "%a = silu %x\n%b = relu %a\n%c = mul %b, %a\n" TAIL("c"),
      "0 embed emb[100,64] -> b0:f32[64]  # x\n"
      "1 silu b0:f32[64] -> b0:f32[64]  # a\n"
      "2 relu b0:f32[64] -> b1:f32[64]  # b\n"
      "3 mul b1:f32[64], b0:f32[64] -> b1:f32[64]  # c\n"
      "4 gather b1:f32[64] -> b2:out.f32[64]  # last\n" },
    { "or over the second one",
      EMBED "%a = silu %x\n%b = tanh %x\n%c = add %x, %b\n%d = add %x, %a\n%f = add %c, %d\n" TAIL("f"),
      "0 embed emb[100,64] -> b0:f32[64]  # x\n"
      "1 silu b0:f32[64] -> b1:f32[64]  # a\n"
      "2 tanh b0:f32[64] -> b2:f32[64]  # b\n"
      "3 add b0:f32[64], b2:f32[64] -> b2:f32[64]  # c\n"
      "4 add b0:f32[64], b1:f32[64] -> b0:f32[64]  # d\n"
      "5 add b2:f32[64], b0:f32[64] -> b2:f32[64]  # f\n"
      "6 gather b2:f32[64] -> b3:out.f32[64]  # last\n" },
    { "slices are columns of their buffer; one that is read later keeps its columns, not the others",
      EMBED "%a = slice %x, start=0, length=32\n%b = slice %x, start=32, length=32\n%c = silu %a\n%d = relu %b\n"
      "%f = mul %c, %d\n%g = add %f, %b\n" TAIL("g"),
      "0 embed emb[100,64] -> b0:f32[64]  # x\n"
      "1 silu b0:f32[64] -> b0:f32[64]  # c\n"
      "2 relu b0:f32[64]+32 -> b1:f32[32]  # d\n"
      "3 mul b0:f32[64], b1:f32[32] -> b0:f32[64]  # f\n"
      "4 add b0:f32[64], b0:f32[64]+32 -> b0:f32[64]  # g\n"
      "5 gather b0:f32[64] -> b2:out.f32[32]  # last\n" },
    { "overlapping slices keep each other",
      EMBED "%a = slice %x, start=0, length=48\n%b = slice %x, start=16, length=48\n%c = silu %a\n%d = mul %c, %b\n"
      TAIL("d"),
      "0 embed emb[100,64] -> b0:f32[64]  # x\n"
      "1 silu b0:f32[64] -> b1:f32[48]  # c\n"
      "2 mul b1:f32[48], b0:f32[64]+16 -> b1:f32[48]  # d\n"
      "3 gather b1:f32[48] -> b2:out.f32[48]  # last\n" },
    { "a product over its residual, unless that is its input",
      EMBED "%w = weight \"w\", f32[64,64]\n%b = weight \"b\", f16[64]\n%a = linear %x, %w, %b, %x, scale=0.5\n"
      "%r = relu %a\n%c = linear %r, %w, _, %a\n" TAIL("c"),
      "0 embed emb[100,64] -> b0:f32[64]  # x\n"
      "1 matmul b0:f32[64], w[64,64], b, b0:f32[64] -> b1:f32[64] scale=0.5  # a\n"
      "2 relu b1:f32[64] -> b2:f32[64]  # r\n"
      "3 matmul b2:f32[64], w[64,64], _, b1:f32[64] -> b1:f32[64]  # c\n"
      "4 gather b1:f32[64] -> b3:out.f32[64]  # last\n" },
    { "a residual that is read later stays",
      EMBED "%w = weight \"w\", f32[64,64]\n%r = relu %x\n%c = linear %r, %w, _, %x\n%d = mul %c, %x\n" TAIL("d"),
      "0 embed emb[100,64] -> b0:f32[64]  # x\n"
      "1 relu b0:f32[64] -> b1:f32[64]  # r\n"
      "2 matmul b1:f32[64], w[64,64], _, b0:f32[64] -> b2:f32[64]  # c\n"
      "3 mul b2:f32[64], b0:f32[64] -> b2:f32[64]  # d\n"
      "4 gather b2:f32[64] -> b3:out.f32[64]  # last\n" },
    { "a norm's sum goes over its input, its result then not",
      EMBED "%r = relu %x\n%w = weight \"w\", f32[64]\n%s, %n = add_rmsnorm %r, %x, %w, eps=0.25, offset=1\n"
      "%y = mul %s, %n\n" TAIL("y"),
      "0 embed emb[100,64] -> b0:f32[64]  # x\n"
      "1 relu b0:f32[64] -> b1:f32[64]  # r\n"
      "2 rmsnorm b1:f32[64], b0:f32[64], w -> b1:f32[64], b2:f32[64] eps=0.25 offset=1  # s\n"
      "3 mul b1:f32[64], b2:f32[64] -> b1:f32[64]  # y\n"
      "4 gather b1:f32[64] -> b3:out.f32[64]  # last\n" },
    { "results of a norm that nobody reads aren't made; norms by heads",
      EMBED "%w = weight \"w\", f32[16]\n%h = rmsnorm %x, %w, eps=0\n%v = weight \"v\", f32[64]\n"
      "%s, %n, %q = rmsnorm_quant %h, _, %v, eps=0\n%m = weight \"m\", q4_0[32,64]\n%y = linear %q, %m\n" TAIL("y"),
      "0 embed emb[100,64] -> b0:f32[64]  # x\n"
      "1 rmsnorm b0:f32[64], _, w -> _, b0:f32[64] eps=0 groups=4  # h\n"
      "2 rmsnorm b0:f32[64], _, v -> _, _, b1:q8[64] eps=0  # s\n"
      "3 matmul b1:q8[64], m[32,64] -> b2:f32[32]  # y\n"
      "4 gather b2:f32[32] -> b3:out.f32[32]  # last\n" },
    { "one tensor as a table and as a product's weight; rows of several; casts",
      EMBED "%w = weight \"emb\", q8_0[100,64]\n%c = cast %w, f32\n%a = weight \"p.1.a.weight\", f16[32,64]\n"
      "%b = weight \"p.1.b.weight\", f16[16,64]\n%ab = concat %a, %b, axis=0\n%y = linear %x, %ab\n"
      "%z = slice %y, start=32, length=16\n%g = gate %x, %a, %a\n%t = linear %x, %c\n%h = gather %z, %logit_rows, axis=0\n"
      "%i = gather %g, %logit_rows, axis=0\n%last = gather %t, %logit_rows, axis=0\noutput %last\n",
      "0 embed emb[100,64] -> b0:f32[64]  # x\n"
      "1 matmul b0:f32[64], p.1.a+b[48,64] -> b1:f32[48]  # y\n"
      "2 matmul b0:f32[64], p.1.a+a[64,64] paired -> b2:f32[32] beside  # g\n"
      "3 matmul b0:f32[64], emb[100,64] as f32 -> b3:f32[100] beside  # t\n"
      "4 gather b1:f32[48]+32 -> b4:out.f32[16]  # h\n"
      "5 gather b2:f32[32] -> b5:out.f32[32]  # i\n"
      "6 gather b3:f32[100] -> b6:out.f32[100]  # last\n" },
    { "a reshape of rows is a view",
      EMBED "%h = reshape %x, f32[rows,4,16]\n%s = scale %h, factor=0.5\n%r = reshape %s, f32[rows,64]\n" TAIL("r"),
      "0 embed emb[100,64] -> b0:f32[64]  # x\n"
      "1 scale b0:f32[64] -> b0:f32[64] factor=0.5  # s\n"
      "2 gather b0:f32[64] -> b1:out.f32[64]  # last\n" },
    { "q' goes over q, but not where k lies there too",
      EMBED "%c = chain\n%q = slice %x, start=0, length=32\n%k = slice %x, start=32, length=16\n"
      "%v = slice %x, start=48, length=16\n"
      "%p, %d = rope_store %q, %k, %v, _, _, _, %c, layer=0, heads=2, kv_heads=1, head_dim=16, v_dim=16, rot_dim=0, eps=0\n"
      "%a = attend %p, %d, layer=0, heads=2, kv_heads=1, head_dim=16, v_dim=16, window=8, softcap=30\n"
      "%t, %f = rope_store %a, %a, %a, _, _, _, %d, layer=1, heads=2, kv_heads=2, head_dim=16, v_dim=16, rot_dim=0, eps=0\n"
      "%b = attend %t, %f, layer=1, heads=2, kv_heads=2, head_dim=16, v_dim=16\n"
      "%last = gather %b, %logit_rows, axis=0\noutput %last, %f\n",
      "0 embed emb[100,64] -> b0:f32[64]  # x\n"
      "1 rope_store b0:f32[64], b0:f32[64]+32, b0:f32[64]+48 -> b0:f32[64] layer=0 heads=2/1 dim=16/16 rot=0  # p\n"
      "2 attend b0:f32[64] -> b1:f32[32] layer=0 heads=2/1 dim=16/16 scale=1 window=8 softcap=30  # a\n"
      "3 rope_store b1:f32[32], b1:f32[32], b1:f32[32] -> b2:f32[32] layer=1 heads=2/2 dim=16/16 rot=0  # t\n"
      "4 attend b2:f32[32] -> b3:f32[32] layer=1 heads=2/2 dim=16/16 scale=1  # b\n"
      "5 gather b3:f32[32] -> b4:out.f32[32]  # last\n" },
    { "equal constants are one",
      EMBED "%f = constant f32[2], {1, 2}\n%g = constant f32[2], {1, 2}\n%c = chain\n%k = slice %x, start=0, length=16\n"
      "%p, %d = rope_store %x, %k, %k, _, _, %f, %c, layer=0, heads=4, kv_heads=1, head_dim=16, v_dim=16, rot_dim=4, eps=0\n"
      "%t, %h = rope_store %p, %k, %k, _, _, %g, %d, layer=1, heads=4, kv_heads=1, head_dim=16, v_dim=16, rot_dim=4,"
      " style=pairs, attn_scale=1.25, eps=0\n%last = gather %t, %logit_rows, axis=0\noutput %last, %h\n",
      "0 embed emb[100,64] -> b0:f32[64]  # x\n"
      "1 rope_store b0:f32[64], b0:f32[64], b0:f32[64], _, _, c0[2] -> b1:f32[64] layer=0 heads=4/1 dim=16/16 rot=4  # p\n"
      "2 rope_store b1:f32[64], b0:f32[64], b0:f32[64], _, _, c0[2] -> b1:f32[64] layer=1 heads=4/1 dim=16/16 rot=4"
      " pairs attn_scale=1.25  # t\n"
      "3 gather b1:f32[64] -> b2:out.f32[64]  # last\n" },
};

static fx_status lower(fx_arena *a, const char *graph, fx_plan **p, fx_error *err)
{
    fx_module *m;

    *p = NULL;
    FX_TRY(fx_module_parse(&m, a, "t", fx_str_of(graph), err));
    return fx_lower_plan(a, m->first, false, p, err);
}

TEST(graphs_become_these_plans)
{
    for (size_t i = 0; i < FX_COUNT(lowered); i++) {
        fx_error err = { 0 };
        fx_arena a;
        fx_plan *p;
        fx_buf out;

        fx_arena_init(&a, &fx_mem_libc, 0);
        fx_buf_init(&out, &fx_mem_libc);
        if (lower(&a, lowered[i].graph, &p, &err) != FORNAX_OK) {
            FXTEST_FAIL("%s: %s", lowered[i].what, err.text);
        } else {
            fx_plan_check(p);
            fx_plan_print(p, &out);
            if (strcmp(out.p, lowered[i].plan))
                FXTEST_FAIL("%s:\n%sinstead of\n%s", lowered[i].what, out.p, lowered[i].plan);
        }
        fx_buf_done(&out);
        fx_arena_done(&a);
    }
}

static const struct { const char *graph, *why; } refused[] = {
    { EMBED "output %x\n", "rows of logits" },
    { HEAD "output\n", "rows of logits" },
    { EMBED "%y = gather %x, %logit_rows, axis=0\n%z = relu %y\noutput %y, %z\n", "more than one result" },
    { HEAD "%other = input i32[rows]\n%e = weight f32[100,64]\n%x = embed %other, %e\n" TAIL("x"), "row numbers" },
    { EMBED "%o = input i32[outs]\n%y = gather %x, %o, axis=0\noutput %y\n", "row numbers" },
    { EMBED "%f = constant f32[8], {1,1,1,1,1,1,1,1}\n%y = rope %x, %f, head_dim=16, rot_dim=16\n" TAIL("y"),
      "rope (y): has no kernel" },
    { EMBED "%y = concat %x, %x\n" TAIL("y"), "concat (y): has no kernel" },
    { EMBED "%b = weight f32[1]\n%y = mul %x, %b\n" TAIL("y"), "different shapes" },
    { EMBED "%h = reshape %x, f32[rows,4,16]\n%s = slice %h, start=0, length=8\n%r = reshape %s, f32[rows,32]\n" TAIL("r"),
      "slice" },
    { EMBED "%w = weight f32[64,64]\n%v = slice %w, start=0, length=32\n%k = slice %x, start=0, length=32\n"
      "%y = linear %k, %v\n" TAIL("y"), "part of a weight" },
    { EMBED "%w = weight f32[64,64]\n%s = silu %w\n%y = linear %x, %s\n" TAIL("y"), "silu" },
    { EMBED "%w = input f32[64,64]\n%y = linear %x, %w\n" TAIL("y"), "weights that aren't tensors" },
    { EMBED "%r = input f32[rows,64]\n%y = add %x, %r\n" TAIL("y"), "operand that isn't rows made" },
    { EMBED "%b = weight f32[64]\n%c = cast %b, bf16\n%w = weight f32[64,64]\n%y = linear %x, %w, %c\n" TAIL("y"),
      "rounded vector" },
    { "%tokens = input i32[n]\n%e = weight f32[100,64]\n%x = embed %tokens, %e\n%y = relu %x\noutput %y\n", "rows of f32" },
};

TEST(what_has_no_kernel_is_said)
{
    for (size_t i = 0; i < FX_COUNT(refused); i++) {
        fx_error err = { 0 };
        fx_arena a;
        fx_plan *p;

        fx_arena_init(&a, &fx_mem_libc, 0);
        if (lower(&a, refused[i].graph, &p, &err) != FORNAX_EUNSUP || p || !strstr(err.text, refused[i].why))
            FXTEST_FAIL("case %zu gives: %s, expected %s", i, err.text, refused[i].why);
        fx_arena_done(&a);
    }
}

/* ---- Layout ------------------------------------------------------------------------------------ */

static size_t q8_bytes(int64_t n_rows, int64_t k)
{
    return (size_t)(n_rows * (k + k / 8));
}

static uint32_t rng(uint32_t *s)
{
    *s = *s * 1664525 + 1013904223;
    return *s >> 8;
}

/* Buffers of all sizes and lifetimes: none that meet in time may meet in memory. */
TEST(buffers_that_live_at_once_lie_apart)
{
    for (uint32_t seed = 1; seed <= 50; seed++) {
        fx_plan_buf bufs[40];
        fx_plan p = { .bufs = bufs, .n_bufs = 40, .n_launches = 60 };
        fx_error err = { 0 };
        uint32_t s = seed;
        size_t sum = 0;

        for (int i = 0; i < 40; i++) {
            int32_t first = (int32_t)(rng(&s) % 60);

            bufs[i] = (fx_plan_buf){ .rows = rng(&s) % 4 ? FX_ROWS_STEP : FX_ROWS_LOGITS,
                                     .cols = 32 * (1 + rng(&s) % 20),
                                     .q8 = rng(&s) % 3 == 0,
                                     .first = first,
                                     .last = first + (int32_t)(rng(&s) % 6) };
        }
        CHECK_OK(fx_plan_layout(&p, &fx_mem_libc, 16, 3, q8_bytes, &err), err);
        for (int i = 0; i < 40; i++) {
            int64_t rows = bufs[i].rows == FX_ROWS_STEP ? 16 : 3;
            size_t n = bufs[i].q8 ? q8_bytes(rows, bufs[i].cols) : (size_t)(rows * bufs[i].cols) * 4;

            sum += FX_ROUND_UP(n, (size_t)64);
            CHECK(bufs[i].offset % 64 == 0 && bufs[i].offset + n <= p.bytes);
            for (int k = 0; k < 40; k++) {
                if (k != i && bufs[i].first <= bufs[k].last && bufs[k].first <= bufs[i].last &&
                    bufs[k].offset >= bufs[i].offset)
                    CHECK(bufs[k].offset >= bufs[i].offset + n);
            }
        }
        CHECK(p.bytes < sum);
    }
}

TEST(a_plan_that_is_too_large_is_refused)
{
    fx_plan_buf buf = { .cols = INT64_C(1) << 40, .first = 0, .last = 1 };
    fx_plan p = { .bufs = &buf, .n_bufs = 1, .n_launches = 1 };
    fx_error err = { 0 };

    CHECK_EQ_I64(fx_plan_layout(&p, &fx_mem_libc, INT64_C(1) << 40, 1, q8_bytes, &err), FORNAX_ENOMEM);
}

FXTEST_MAIN()
