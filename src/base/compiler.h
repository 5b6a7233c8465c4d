/* compiler.h - the only place that knows compiler extensions. */
#ifndef FX_COMPILER_H
#define FX_COMPILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
#define FX_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define FX_LIKELY(x) __builtin_expect(!!(x), 1)
#define FX_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define FX_NORETURN __attribute__((noreturn))
#define FX_UNUSED __attribute__((unused))
#define FX_ALIGNED(n) __attribute__((aligned(n)))
#define FX_RESTRICT __restrict__
#define FX_ALWAYS_INLINE inline __attribute__((always_inline))
#define FX_PREFETCH(p) __builtin_prefetch(p)
#define FX_VECTOR(bytes) __attribute__((vector_size(bytes)))   /* lanes, with the operators of C */
#define FX_PREFETCH_L2(p) __builtin_prefetch((p), 0, 2)
#define FX_PREFETCH_WRITE(p) __builtin_prefetch((p), 1)
#define FX_PRAGMA(x) _Pragma(#x)
/* What was written to p[0, n) is to be run as code. */
#define fx_flush_code(p, n) __builtin___clear_cache((char *)(p), (char *)(p) + (n))
#else
#define FX_PRINTF(f, a)
#define FX_LIKELY(x) (x)
#define FX_UNLIKELY(x) (x)
#define FX_NORETURN
#define FX_UNUSED
#define FX_ALIGNED(n)
#define FX_RESTRICT
#define FX_ALWAYS_INLINE inline
#define FX_PREFETCH(p) ((void)(p))
#define FX_PREFETCH_L2(p) ((void)(p))
#define FX_PREFETCH_WRITE(p) ((void)(p))
#define FX_PRAGMA(x)
#define fx_flush_code(p, n) ((void)(p))
#endif
/* Before a loop of constant, small trip count: no loop remains. */
#if defined(__clang__)
#define FX_UNROLL FX_PRAGMA(clang loop unroll(full))
#else
#define FX_UNROLL FX_PRAGMA(GCC unroll 32)
#endif

#define FX_COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define FX_MIN(a, b) ((a) < (b) ? (a) : (b))
#define FX_MAX(a, b) ((a) > (b) ? (a) : (b))
#define FX_ROUND_UP(x, n) (((x) + (n) - 1) / (n) * (n))
#define FX_DIV_UP(x, n) (((x) + (n) - 1) / (n))

/* A bug of ours, never outside data.  On unless FX_NDEBUG is defined. */
FX_NORETURN void fx_assert_failed(const char *cond, const char *file, int line);
#ifdef FX_NDEBUG
#define FX_ASSERT(c) ((void)sizeof(c))
#else
#define FX_ASSERT(c) ((c) ? (void)0 : fx_assert_failed(#c, __FILE__, __LINE__))
#endif

#endif
