/* fxtest.h - the unit tests' whole framework.
 *
 *     #include "fxtest.h"
 *     TEST(adds) { CHECK(1 + 1 == 2); CHECK_EQ_I64(1 + 1, 2); }
 *     FXTEST_MAIN()
 *
 * A failed check prints where and what, and the test goes on; REQUIRE returns
 * from the test. A binary runs all its tests, or those whose name contains an
 * argument. The last line is "N passed, N failed, N skipped". Helper functions
 * may check too. FXTEST_DATA is the folder tests/data. */
#ifndef FXTEST_H
#define FXTEST_H

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fxtest_case {
    const char *name;
    void (*fn)(void);
    struct fxtest_case *next;
} fxtest_case;

static fxtest_case *fxtest_first, **fxtest_end = &fxtest_first;
static int fxtest_bad;                  /* failed checks of the running test */
static const char *fxtest_skip;         /* why the running test is skipped */

#define TEST(id)                                                            \
    static void test_##id(void);                                            \
    __attribute__((constructor)) static void fxtest_add_##id(void)          \
    {                                                                       \
        static fxtest_case c = { #id, test_##id, NULL };                    \
        *fxtest_end = &c;                                                   \
        fxtest_end = &c.next;                                               \
    }                                                                       \
    static void test_##id(void)

#define FXTEST_FAIL(...)                                                    \
    (fxtest_bad++, printf("%s:%d: ", __FILE__, __LINE__), printf(__VA_ARGS__), putchar('\n'), (void)0)

#define CHECK(x) ((x) ? (void)0 : FXTEST_FAIL("%s", #x))
#define REQUIRE(x)                                                          \
    do {                                                                    \
        if (!(x)) {                                                         \
            FXTEST_FAIL("%s", #x);                                          \
            return;                                                         \
        }                                                                   \
    } while (0)
#define CHECK_EQ_I64(a, b)                                                  \
    do {                                                                    \
        int64_t fxa_ = (int64_t)(a), fxb_ = (int64_t)(b);                   \
        if (fxa_ != fxb_)                                                   \
            FXTEST_FAIL("%s is %" PRId64 ", expected %" PRId64, #a, fxa_, fxb_); \
    } while (0)
#define CHECK_EQ_U64(a, b)                                                  \
    do {                                                                    \
        uint64_t fxa_ = (uint64_t)(a), fxb_ = (uint64_t)(b);                \
        if (fxa_ != fxb_)                                                   \
            FXTEST_FAIL("%s is %" PRIu64 ", expected %" PRIu64, #a, fxa_, fxb_); \
    } while (0)
/* |a - b| <= tol, both NaN, or the same infinity. */
#define CHECK_NEAR(a, b, tol)                                               \
    do {                                                                    \
        double fxa_ = (a), fxb_ = (b);                                      \
        if (!(fabs(fxa_ - fxb_) <= (tol) || fxa_ == fxb_ || (isnan(fxa_) && isnan(fxb_)))) \
            FXTEST_FAIL("%s is %.9g, expected %.9g", #a, fxa_, fxb_);       \
    } while (0)
/* Zero-terminated strings; NULL equals only NULL. */
#define CHECK_STR(a, b)                                                     \
    do {                                                                    \
        const char *fxa_ = (a), *fxb_ = (b);                                \
        if (fxa_ != fxb_ && (!fxa_ || !fxb_ || strcmp(fxa_, fxb_) != 0))    \
            FXTEST_FAIL("%s is \"%s\", expected \"%s\"", #a, fxa_ ? fxa_ : "(null)", fxb_ ? fxb_ : "(null)"); \
    } while (0)
#define CHECK_MEM(a, b, n)                                                  \
    (memcmp((a), (b), (n)) == 0 ? (void)0 : FXTEST_FAIL("%s differs from %s", #a, #b))
/* The call succeeds; else its sentence is printed. 'err' is a fx_error. */
#define CHECK_OK(call, err)                                                 \
    do {                                                                    \
        if ((call) != 0)                                                    \
            FXTEST_FAIL("%s: %s", #call, (err).text);                       \
    } while (0)
/* Ends the test, which counts as skipped; say what is missing. */
#define SKIP(why)                                                           \
    do {                                                                    \
        fxtest_skip = (why);                                                \
        return;                                                             \
    } while (0)

static inline int fxtest_run(int argc, char **argv)
{
    int passed = 0, failed = 0, skipped = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (fxtest_case *c = fxtest_first; c; c = c->next) {
        bool wanted = argc < 2;

        for (int i = 1; i < argc; i++)
            wanted = wanted || strstr(c->name, argv[i]);
        if (!wanted)
            continue;
        fxtest_bad = 0;
        fxtest_skip = NULL;
        c->fn();
        if (fxtest_bad)
            printf("FAILED %s\n", c->name);
        else if (fxtest_skip)
            printf("skipped %s: %s\n", c->name, fxtest_skip);
        failed += fxtest_bad > 0;
        skipped += !fxtest_bad && fxtest_skip;
        passed += !fxtest_bad && !fxtest_skip;
    }
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed > 0;
}

#define FXTEST_MAIN() \
    int main(int argc, char **argv) { return fxtest_run(argc, argv); }

#endif
