/* test_base.c - errors, memory, strings, text, files, diagnostics, levels. */
#include <fcntl.h>
#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/diag.h"
#include "base/file.h"
#include "base/fpmode.h"
#include "base/log.h"
#include "base/text.h"
#include "floatmode.h"
#include "fxtest.h"

TEST(errors_are_filled_and_cut)
{
    fx_error err = { .retry_after_ms = 9 };
    char many[3000];

    CHECK_EQ_I64(fx_fail(NULL, FORNAX_EIO, "x"), FORNAX_EIO);
    CHECK_EQ_I64(fx_fail_param(&err, FORNAX_EARG, "top_p", "%s: %d", "top_p", 3), FORNAX_EARG);
    CHECK_STR(err.param, "top_p");
    CHECK_STR(err.text, "top_p: 3");
    CHECK_EQ_I64(err.retry_after_ms, 0);
    fx_fail(&err, FORNAX_EIO, "again: %s", err.text);       /* arguments may lie in err */
    CHECK_STR(err.text, "again: top_p: 3");
    CHECK_STR(err.param, "");
    for (int shift = 0; shift < 3; shift++) {
        memset(many, 'a', sizeof(many));
        for (size_t i = (size_t)shift; i + 3 < sizeof(many); i += 3)
            memcpy(many + i, "\xE2\x82\xAC", 3);
        many[sizeof(many) - 1] = 0;
        fx_fail(&err, FORNAX_EIO, "%s", many);
        CHECK(fx_utf8_valid(fx_str_of(err.text)));
        CHECK(strlen(err.text) >= sizeof(err.text) - 4);
    }
}

/* What a sentence quotes may be anyone's bytes: no control characters come through, and only a diagnostic has lines. */
TEST(errors_are_tame)
{
    fx_error err = { 0 };

    fx_fail(&err, FORNAX_EFORMAT, "near '%s'", "a\n\x1b[2J\r\tb\x7f");
    CHECK_STR(err.text, "near 'a  [2J  b '");
    fx_fail(&err, FORNAX_EFORMAT, "x\ny: %s", "z\n{{ a\n   ^");
    CHECK_STR(err.text, "x y: z\n{{ a\n   ^");
    fx_fail(&err, FORNAX_EFORMAT, "^");
    CHECK_STR(err.text, "^");
}

/* An allocator that counts bytes and can fail after some calls. */
typedef struct meter {
    size_t live;
    int calls, fail_at;
} meter;

static void *metered(void *user, void *p, size_t old_size, size_t new_size)
{
    meter *m = user;

    if (new_size && ++m->calls == m->fail_at)
        return NULL;
    p = fx_mem_libc.fn(NULL, p, old_size, new_size);
    if (!p && new_size)
        return NULL;
    m->live += new_size - old_size;
    return p;
}

TEST(memory_sizes_are_told_right)
{
    meter m = { 0 };
    fx_mem mem = { metered, &m };
    char *p = fx_mem_zalloc(&mem, 100);

    REQUIRE(p);
    CHECK(p[0] == 0 && p[99] == 0);
    p = fx_mem_resize(&mem, p, 100, 300);
    CHECK_EQ_U64(m.live, 300);
    p = fx_mem_resize(&mem, p, 300, 0);
    CHECK(p);
    fx_mem_free(&mem, p, 0);
    CHECK_EQ_U64(m.live, 0);
    CHECK(!fx_mem_array(&mem, SIZE_MAX / 2, 4));
    CHECK(!fx_mem_alloc(&mem, SIZE_MAX));
    fx_mem_free(&mem, NULL, 5);
}

TEST(arena)
{
    meter m = { 0 };
    fx_mem mem = { metered, &m };
    fx_arena a;
    size_t used;

    fx_arena_init(&a, &mem, 0);
    for (int i = 0; i < 2000; i++) {
        size_t n = (size_t)(i * 37 % 9000);
        unsigned char *p = fx_arena_alloc(&a, n);

        REQUIRE(p);
        CHECK((uintptr_t)p % 16 == 0);
        for (size_t k = 0; k < n; k++)
            CHECK(p[k] == 0);
        memset(p, 0xAB, n);
    }
    CHECK_STR(fx_arena_strdup(&a, "hello", 4), "hell");
    CHECK_STR(fx_arena_strdup(&a, NULL, 0), "");
    CHECK_STR(fx_arena_printf(&a, "%d-%s", 12, "x"), "12-x");
    CHECK(!fx_arena_array(&a, SIZE_MAX / 8, 16));
    CHECK(!fx_arena_alloc(&a, SIZE_MAX));
    CHECK_EQ_U64(a.total_bytes, m.live);
    fx_arena_reset(&a);
    CHECK_EQ_U64(a.total_bytes, m.live);
    used = m.live;
    CHECK(*(char *)fx_arena_alloc(&a, 64) == 0);
    CHECK_EQ_U64(m.live, used);
    fx_arena_done(&a);
    CHECK_EQ_U64(m.live, 0);
    m.fail_at = m.calls + 1;
    CHECK(!fx_arena_alloc(&a, 8));
    CHECK(fx_arena_alloc(&a, 8));
    fx_arena_done(&a);
    CHECK_EQ_U64(m.live, 0);
}

TEST(pages)
{
    static const size_t sizes[] = { 0, 1, 4096, 4097, (2u << 20) - 1, 2u << 20, (5u << 20) + 3 };

    for (size_t i = 0; i < FX_COUNT(sizes); i++) {
        unsigned char *p = fx_pages_alloc(sizes[i]);

        REQUIRE(p);
        CHECK((uintptr_t)p % 4096 == 0);
        if (sizes[i] >= 2u << 20)
            CHECK((uintptr_t)p % (2u << 20) == 0);
        if (sizes[i]) {
            CHECK(p[0] == 0 && p[sizes[i] - 1] == 0);
            p[0] = p[sizes[i] - 1] = 1;
        }
        fx_pages_free(p, sizes[i]);
    }
    CHECK(!fx_pages_alloc(SIZE_MAX));
    CHECK(!fx_pages_alloc(PTRDIFF_MAX));
    fx_pages_free(NULL, 3);
}

TEST(strings)
{
    CHECK(fx_str_starts(FX_STR("abc"), FX_STR("ab")) && fx_str_starts(FX_STR("abc"), FX_STR("")));
    CHECK(!fx_str_starts(FX_STR("a"), FX_STR("ab")));
    CHECK(fx_str_ends(FX_STR("abc"), FX_STR("bc")) && !fx_str_ends(FX_STR("abc"), FX_STR("b")));
    CHECK(fx_str_cmp(FX_STR("a"), FX_STR("ab")) < 0 && fx_str_cmp(FX_STR("b"), FX_STR("ab")) > 0);
    CHECK(fx_str_cmp(FX_STR("\xff"), FX_STR("a")) > 0 && fx_str_cmp(FX_STR(""), FX_STR("")) == 0);
    CHECK_EQ_U64(fx_str_find(FX_STR("abcabc"), FX_STR("bc"), 2), 4);
    CHECK_EQ_U64(fx_str_find(FX_STR("abc"), FX_STR(""), 3), 3);
    CHECK(fx_str_find(FX_STR("abc"), FX_STR(""), 4) == FX_STR_NONE);
    CHECK(fx_str_find(FX_STR("abc"), FX_STR("abcd"), 0) == FX_STR_NONE);
    CHECK(fx_str_eq(fx_str_of(NULL), FX_STR("")));
}

static const char *double_text(double x)
{
    static char out[64];
    fx_buf b;

    fx_buf_init(&b, &fx_mem_libc);
    fx_buf_double(&b, x);
    snprintf(out, sizeof(out), "%s", b.p);
    fx_buf_done(&b);
    return out;
}

static void check_doubles(void)
{
    /* Python's repr, but for its exponent style. */
    static const struct { double x; const char *text; } cases[] = {
        { 0.1, "0.1" }, { 1, "1" }, { -0.0, "-0" }, { 1e300, "1e+300" }, { 5e-324, "5e-324" },
        { 2.2250738585072014e-308, "2.2250738585072014e-308" }, { 1.0 / 3, "0.3333333333333333" },
        { 0.1 + 0.2, "0.30000000000000004" }, { 9007199254740993.0, "9007199254740992" },
        { 123456789012345680.0, "1.2345678901234568e+17" }, { 1e-320, "1e-320" },
        { HUGE_VAL, "inf" }, { -HUGE_VAL, "-inf" }, { NAN, "nan" },
    };
    static const struct { const char *text; bool ok; double x; } parses[] = {
        { "1", true, 1 }, { "-1.5e3", true, -1500 }, { ".5", true, 0.5 }, { "5.", true, 5 }, { "+2", true, 2 },
        { "1e-400", true, 0 }, { "1e400", false, 0 }, { "", false, 0 }, { ".", false, 0 }, { " 1", false, 0 },
        { "1 ", false, 0 }, { "1,5", false, 0 }, { "0x10", false, 0 }, { "inf", false, 0 }, { "nan", false, 0 },
        { "1e", false, 0 }, { "1e+", false, 0 }, { "--1", false, 0 }, { "1.2.3", false, 0 },
    };

    for (size_t i = 0; i < FX_COUNT(cases); i++)
        CHECK_STR(double_text(cases[i].x), cases[i].text);
    for (size_t i = 0; i < FX_COUNT(parses); i++) {
        double x = 0;
        bool ok = fx_parse_double(fx_str_of(parses[i].text), &x);

        if (ok != parses[i].ok || (ok && x != parses[i].x))
            FXTEST_FAIL("\"%s\": %d %g", parses[i].text, ok, x);
    }
}

TEST(doubles_in_any_locale)
{
    static const char *const comma[] = { "de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "nl_NL.UTF-8" };
    fx_buf b;

    check_doubles();
    for (size_t i = 0; i < FX_COUNT(comma); i++)
        if (setlocale(LC_ALL, comma[i]))
            break;
    check_doubles();
    fx_buf_init(&b, &fx_mem_libc);
    fx_buf_printf(&b, "%.2f", 1.5);
    CHECK_STR(b.p, "1.50");
    fx_buf_done(&b);
    setlocale(LC_ALL, "C");
}

TEST(long_numbers)
{
    char z[1001];
    double x;

    memset(z, '0', sizeof(z));
    memcpy(z, "0.", 2);
    z[999] = '7';
    z[1000] = 0;
    CHECK(fx_parse_double(fx_str_of(z), &x) && x == 0);
    memcpy(z, "1.", 2);
    CHECK(fx_parse_double(fx_str_of(z), &x) && x == 1);
}

TEST(integers)
{
    int64_t i;
    uint64_t u;

    CHECK(fx_parse_i64(FX_STR("-9223372036854775808"), &i) && i == INT64_MIN);
    CHECK(fx_parse_i64(FX_STR("+9223372036854775807"), &i) && i == INT64_MAX);
    CHECK(!fx_parse_i64(FX_STR("9223372036854775808"), &i));
    CHECK(!fx_parse_i64(FX_STR("-9223372036854775809"), &i));
    CHECK(!fx_parse_i64(FX_STR("-"), &i) && !fx_parse_i64(FX_STR(""), &i) && !fx_parse_i64(FX_STR("1a"), &i));
    CHECK(!fx_parse_i64(FX_STR("--1"), &i) && !fx_parse_i64(FX_STR(" 1"), &i));
    CHECK(fx_parse_u64(FX_STR("18446744073709551615"), &u) && u == UINT64_MAX);
    CHECK(!fx_parse_u64(FX_STR("18446744073709551616"), &u) && !fx_parse_u64(FX_STR("-1"), &u));
}

TEST(buffers)
{
    meter m = { 0 };
    fx_mem mem = { metered, &m };
    fx_buf b;

    fx_buf_init(&b, &mem);
    CHECK(fx_buf_view(&b).n == 0 && fx_buf_view(&b).p);
    fx_buf_add(&b, NULL, 0);
    CHECK_STR(b.p, "");
    for (int i = 0; i < 1000; i++)
        fx_buf_printf(&b, "%d,", i);
    CHECK_EQ_U64(b.n, 3890);
    CHECK_EQ_U64(strlen(b.p), b.n);
    fx_buf_clear(&b);
    fx_buf_printf(&b, "%*d", 500, 7);
    CHECK_EQ_U64(b.n, 500);
    m.fail_at = m.calls + 1;
    CHECK(!fx_buf_reserve(&b, 100000));
    fx_buf_puts(&b, "nothing");
    CHECK(b.failed && b.n == 500);
    fx_buf_done(&b);
    CHECK_EQ_U64(m.live, 0);
    CHECK(!fx_buf_reserve(&b, SIZE_MAX));
    fx_buf_done(&b);
}

TEST(json_text)
{
    static const struct { fx_str in; const char *out; } cases[] = {
        { FX_STR("a\"b\\c/"), "a\\\"b\\\\c/" },
        { FX_STR("\0\x01\x08\t\n\x0b\f\r\x1f\x7f"), "\\u0000\\u0001\\b\\t\\n\\u000b\\f\\r\\u001f\x7f" },
        { FX_STR("\xe2\x82\xac\xf0\x9f\x98\x80"), "\xe2\x82\xac\xf0\x9f\x98\x80" },
        { FX_STR("a\xe2\x82z\xff"), "a\xEF\xBF\xBDz\xEF\xBF\xBD" },
        { FX_STR("\xed\xa0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD" },
    };

    for (size_t i = 0; i < FX_COUNT(cases); i++) {
        fx_buf b;

        fx_buf_init(&b, &fx_mem_libc);
        fx_buf_json(&b, cases[i].in);
        CHECK_STR(fx_buf_view(&b).p, cases[i].out);
        fx_buf_done(&b);
    }
}

TEST(utf8)
{
    /* Ill-formed text and the number of replacement characters that Python's
     * bytes.decode("utf-8", "replace") makes of it. */
    static const struct { fx_str in; int bad; size_t tail; } cases[] = {
        { FX_STR(""), 0, 0 }, { FX_STR("abc"), 0, 0 }, { FX_STR("\xc2"), 1, 1 }, { FX_STR("\xe2\x82"), 1, 2 },
        { FX_STR("\xf0\x9f\x98"), 1, 3 }, { FX_STR("\xf0\x9f\x98\x80"), 0, 0 }, { FX_STR("\x80"), 1, 0 },
        { FX_STR("\xc0\x80"), 2, 0 }, { FX_STR("\xe0\x80"), 2, 0 }, { FX_STR("\xf4\x90\x80\x80"), 4, 0 },
        { FX_STR("\xf5"), 1, 0 }, { FX_STR("\xed\xa0"), 2, 0 }, { FX_STR("\xe2\x82x"), 1, 0 },
        { FX_STR("\xf0\x9f\xf0\x9f"), 2, 2 }, { FX_STR("\xe2\x82\xe2"), 2, 1 }, { FX_STR("\xc3\xa9\xa9"), 1, 0 },
    };

    for (size_t c = 0; c < FX_COUNT(cases); c++) {
        int bad = 0;

        for (size_t i = 0; i < cases[c].in.n;)
            bad += fx_utf8_next(cases[c].in, &i) == FX_BAD_RUNE;
        if (bad != cases[c].bad || fx_utf8_open_tail(cases[c].in) != cases[c].tail)
            FXTEST_FAIL("case %zu: %d bad, tail %zu", c, bad, fx_utf8_open_tail(cases[c].in));
        CHECK(fx_utf8_valid(cases[c].in) == (bad == 0));
    }
    for (uint32_t r = 0; r <= 0x10FFFF; r++) {
        char z[4];
        size_t i = 0, n = fx_utf8_put(z, r);
        uint32_t back = fx_utf8_next(fx_str_n(z, n), &i);

        if (i != n || back != (r >= 0xD800 && r < 0xE000 ? 0xFFFD : r)) {
            FXTEST_FAIL("U+%04X", r);
            break;
        }
    }
    CHECK_EQ_U64(fx_utf8_count(FX_STR("a\xc3\xa9\xff")), 3);
}

TEST(maps)
{
    meter m = { 0 };
    fx_mem mem = { metered, &m };
    static char keys[5000][16];
    uint64_t v;
    fx_map map;

    fx_map_init(&map, &mem);
    CHECK(!fx_map_get(&map, FX_STR("x"), &v));
    for (int i = 0; i < 5000; i++) {
        snprintf(keys[i], sizeof(keys[i]), "k%d", i);
        CHECK(fx_map_put(&map, fx_str_of(keys[i]), (uint64_t)i));
    }
    CHECK(fx_map_put(&map, FX_STR("k7"), 77));
    CHECK(fx_map_put(&map, FX_STR(""), 5));
    CHECK_EQ_U64(map.n, 5001);
    for (int i = 0; i < 5000; i++)
        CHECK(fx_map_get(&map, fx_str_of(keys[i]), &v) && v == (i == 7 ? 77 : (uint64_t)i));
    CHECK(fx_map_get(&map, fx_str_n(NULL, 0), &v) && v == 5);
    CHECK(!fx_map_get(&map, FX_STR("k5000"), NULL));
    CHECK(!fx_map_reserve(&map, SIZE_MAX));
    fx_map_done(&map);
    CHECK_EQ_U64(m.live, 0);
}

TEST(vectors)
{
    FX_VEC(int) v = { 0 };
    struct wide {
        char bytes[3000];
    };
    FX_VEC(struct wide) big = { 0 };

    for (int i = 0; i < 1000; i++)
        CHECK(FX_VEC_PUSH(&v, &fx_mem_libc, i));
    CHECK(v.n == 1000 && v.at[999] == 999);
    CHECK(FX_VEC_RESERVE(&v, &fx_mem_libc, 5000) && v.cap >= 6000);
    CHECK(!FX_VEC_RESERVE(&v, &fx_mem_libc, SIZE_MAX / 2));
    FX_VEC_FREE(&v, &fx_mem_libc);
    CHECK(FX_VEC_ROOM(&big, &fx_mem_libc));
    FX_VEC_FREE(&big, &fx_mem_libc);
    CHECK(!v.at && !v.cap);
}

TEST(hashes_are_xxh3)
{
    /* From the xxHash specification's reference program: XXH3 of "" with seed 0. */
    CHECK_EQ_U64(fx_hash64("", 0, 0), 0x2D06800538D394C2u);
    CHECK_EQ_U64(fx_hash64(NULL, 0, 0), 0x2D06800538D394C2u);
    CHECK_EQ_U64(fx_hash128_of("", 0, 0).lo, 0x6001C324468D497Fu);
    CHECK_EQ_U64(fx_hash128_of("", 0, 0).hi, 0x99AA06D3014798D8u);
}

TEST(files)
{
    char dir[] = "/tmp/fxbaseXXXXXX", path[64], fifo[64];
    fx_error err = { 0 };
    fx_file *f = NULL;
    fx_buf b;

    REQUIRE(mkdtemp(dir));
    fx_buf_init(&b, &fx_mem_libc);
    snprintf(path, sizeof(path), "%s/x", dir);
    CHECK_OK(fx_file_write_atomic(path, FX_STR("hello"), &err), err);
    CHECK_OK(fx_file_write_atomic(path, FX_STR("hello again"), &err), err);
    CHECK_OK(fx_file_map(&f, &fx_mem_libc, path, &err), err);
    REQUIRE(f);
    CHECK(fx_str_is(fx_file_bytes(f), "hello again"));
    CHECK_STR(fx_file_path(f), path);
    CHECK_EQ_U64(fx_file_identity(f).size, 11);
    fx_file_prefetch(f, fx_file_bytes(f).p, 11);
    fx_file_release(f, fx_file_bytes(f).p, 11);
    CHECK(fx_str_is(fx_file_bytes(f), "hello again"));
    fx_file_unmap(f);
    CHECK_OK(fx_file_read(&b, path, 11, &err), err);
    CHECK_STR(b.p, "hello again");
    CHECK_EQ_I64(fx_file_read(&b, path, 10, &err), FORNAX_EFORMAT);
    CHECK_STR(b.p, "hello again");
    CHECK_OK(fx_file_write_atomic(path, FX_STR(""), &err), err);
    CHECK_OK(fx_file_map(&f, &fx_mem_libc, path, &err), err);
    CHECK_EQ_U64(fx_file_bytes(f).n, 0);
    fx_file_unmap(f);
    CHECK(fx_path_is_dir(dir) && !fx_path_is_dir(path) && fx_path_exists(path));
    CHECK_EQ_I64(fx_file_map(&f, &fx_mem_libc, dir, &err), FORNAX_EIO);
    CHECK(!f && strstr(err.text, "folder"));
    CHECK(unlink(path) == 0);
    CHECK_EQ_I64(fx_file_map(&f, &fx_mem_libc, path, &err), FORNAX_ENOTFOUND);
    CHECK(strstr(err.text, "No such file") && strstr(err.text, path));
    snprintf(fifo, sizeof(fifo), "%s/p", dir);
    CHECK(mkfifo(fifo, 0600) == 0);
    CHECK_EQ_I64(fx_file_read(&b, fifo, 10, &err), FORNAX_EIO);
    CHECK(unlink(fifo) == 0);
    snprintf(path, sizeof(path), "%s/no/x", dir);
    CHECK_EQ_I64(fx_file_write_atomic(path, FX_STR("x"), &err), FORNAX_ENOTFOUND);
    CHECK(rmdir(dir) == 0);                     /* no temporary file is left */
    CHECK_OK(fx_file_read(&b, "/proc/self/status", 1 << 20, &err), err);
    CHECK(b.n > 50);
    fx_buf_clear(&b);
    CHECK(fx_path_join(&b, "a", "b") && fx_path_join(&b, "c/", "d"));
    CHECK_STR(b.p, "a/bc/d");
    fx_buf_done(&b);
}

TEST(diagnostics)
{
    fx_error err = { 0 };
    fx_str text = FX_STR("one\n\ttw\xc3\xa9 {{ x }\nthree");
    char line[400], wide[400];

    CHECK_EQ_I64(fx_diag(&err, "t.jinja", text, 15, "expected %s", "}}"), FORNAX_EFORMAT);
    CHECK_STR(err.text, "t.jinja:2:11: expected }}\n tw\xc3\xa9 {{ x }\n          ^");
    fx_diag(&err, "/a/folder/whose/name/is/so/long/that/not/all/of/it/is/shown/here/t.jinja", text, 15, "expected %s", "}}");
    CHECK(strstr(err.text, "/shown/here/t.jinja:2:") && strlen(err.text) < 120);
    fx_diag(&err, "t", FX_STR(""), 100, "empty");
    CHECK_STR(err.text, "t:1:1: empty\n\n^");
    memset(line, 'x', sizeof(line));
    fx_diag(&err, "t", fx_str_n(line, sizeof(line)), 200, "long");
    CHECK(strstr(err.text, "t:1:201: long\n...xxx"));
    CHECK(err.text[strlen(err.text) - 1] == '^');
    for (size_t i = 0; i < sizeof(wide); i += 4)
        memcpy(wide + i, "\xf0\x9f\x98\x80", 4);
    line[sizeof(line) - 1] = 0;
    fx_diag(&err, line, fx_str_n(wide, sizeof(wide)), 396, "%.*s", 400, wide);
    CHECK(fx_utf8_valid(fx_str_of(err.text)));
    CHECK(err.text[strlen(err.text) - 1] == '^');
    CHECK_EQ_I64(fx_diag_pos(text, 14).line, 2);
}

static void keep_line(void *user, int level, const char *line)
{
    snprintf(user, 100, "%d %s", level, line);
}

TEST(logging)
{
    char got[100] = "";
    fx_log log = { keep_line, got, FX_LOG_WARN };

    fx_log_print(&log, FX_LOG_INFO, "no");
    CHECK_STR(got, "");
    fx_log_print(&log, FX_LOG_WARN, "a\nb %d", 3);
    CHECK_STR(got, "1 a b 3");
    fx_log_print(&(fx_log){ 0 }, FX_LOG_ERROR, "silent");
    fx_log_print(NULL, FX_LOG_ERROR, "silent");
}

TEST(levels)
{
    fx_cpu best = fx_cpu_detect(), got;
    fx_error err = { 0 };

    CHECK_OK(fx_cpu_choose(&got, "scalar", &err), err);
    CHECK(got.level == FX_CPU_SCALAR && !got.avx_vnni && !got.avx512_bf16 && !got.bf16_fast && !got.dotprod && !got.i8mm);
    CHECK_OK(fx_cpu_choose(&got, fx_cpu_level_name(best.level), &err), err);
    CHECK(got.level == best.level && got.bf16_fast == best.bf16_fast && got.i8mm == best.i8mm);
    CHECK_EQ_I64(fx_cpu_choose(&got, "sse9", &err), FORNAX_EARG);
    CHECK_STR(err.param, "cpu");
    CHECK_EQ_I64(fx_cpu_choose(&got, best.level == FX_CPU_NEON ? "avx2" : "neon", &err), FORNAX_EUNSUP);
}

TEST(float_mode_is_set_and_given_back)
{
#ifdef FLOATMODE
    uint64_t before = floatmode_get();
    fx_fpmode old;
    volatile float tiny = 1e-38f, half;

    floatmode_set(FLOATMODE_ODD);
    old = fx_fpmode_enter();
    half = tiny * 0.25f;
    CHECK(half != 0);
    CHECK_EQ_U64(floatmode_get(), FLOATMODE_DEFAULT);
    fx_fpmode_leave(old);
    CHECK_EQ_U64(floatmode_get(), FLOATMODE_ODD);
    floatmode_set(before);
#else
    fx_fpmode_leave(fx_fpmode_enter());
#endif
}

TEST(clocks)
{
    uint64_t a = fx_clock_ns();

    usleep(1000);
    CHECK(fx_clock_ns() - a >= 1000000);
    CHECK(fx_clock_unix() > 1600000000);
}

TEST(names_from_outside_are_shown)
{
    char large[300];

    memset(large, 'x', sizeof(large));
    CHECK_STR(FX_SHOW(FX_STR("plain \xc3\xa9")), "plain \xc3\xa9");
    CHECK_STR(FX_SHOW(FX_STR("a\r\n\x1b[31m\x7f\0z")), "a???[31m??z");
    CHECK_STR(FX_SHOW(FX_STR("\xff\xe4\xb8 \xc2\x85")), "?? ?");
    CHECK_STR(FX_SHOW(((fx_str){ NULL, 0 })), "");
    CHECK_EQ_I64(strlen(FX_SHOW(fx_str_n(large, 100))), 100);
    CHECK_EQ_I64(strlen(FX_SHOW(fx_str_n(large, 101))), 103);
    memcpy(large + 99, "\xc3\xa9", 2);                    /* never half a character */
    CHECK_STR(FX_SHOW(fx_str_n(large, 120)) + 97, "xx...");
}

FXTEST_MAIN()
