/* split_regex.c - compiling and matching; the rewriting is in split_syntax.c. */
#include "text/split_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/text.h"

#define MATCH_LIMIT 50000000u           /* steps of one match */
#define HEAP_LIMIT_KIB (256u * 1024u)   /* of the interpreter, when the JIT's stack ran out */
#define PATTERN_LIMIT (64u * 1024u)     /* bytes of pattern after rewriting */

struct fx_regex {
    const fx_mem *mem;
    pcre2_general_context *general;
    pcre2_match_context *limits;
    pcre2_code *code;
    fx_buf source;              /* as the file has it */
    bool jit;
};

struct fx_match {
    const fx_mem *mem;
    pcre2_match_data *data;
};

/* PCRE2 frees without saying the size, so each block remembers it. */
typedef struct block_head {
    size_t size;
    size_t pad;
} block_head;

static void *pcre_alloc(PCRE2_SIZE n, void *user)
{
    block_head *h = n > SIZE_MAX - sizeof(*h) ? NULL : fx_mem_alloc(user, n + sizeof(*h));

    if (!h)
        return NULL;
    h->size = n + sizeof(*h);
    return h + 1;
}

static void pcre_free(void *p, void *user)
{
    block_head *h = p;

    if (p)
        fx_mem_free(user, h - 1, h[-1].size);
}

static fx_status compile_failed(int code, PCRE2_SIZE at, const char *where, fx_error *err)
{
    PCRE2_UCHAR text[128] = "";

    pcre2_get_error_message(code, text, sizeof(text));
    if (code == PCRE2_ERROR_HEAP_FAILED || code == PCRE2_ERROR_NOMEMORY)
        return fx_nomem(err, "a regular expression");
    return fx_fail(err, FORNAX_EUNSUP, "%s: expected a regular expression that PCRE2 accepts, at byte %zu: %s", where,
                   (size_t)at, (const char *)text);
}

static fx_status compile_code(fx_regex *re, fx_str pattern, const char *where, fx_error *err)
{
    pcre2_compile_context *cc = pcre2_compile_context_create(re->general);
    uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    PCRE2_SIZE at = 0;
    int code = 0;

    if (!cc)
        return fx_nomem(err, "a regular expression");
    pcre2_set_newline(cc, PCRE2_NEWLINE_LF);
    pcre2_set_bsr(cc, PCRE2_BSR_UNICODE);
    pcre2_set_max_pattern_length(cc, PATTERN_LIMIT);
    re->code = pcre2_compile((PCRE2_SPTR)pattern.p, pattern.n, options, &code, &at, cc);
    pcre2_compile_context_free(cc);
    if (!re->code)
        return compile_failed(code, at, where, err);
    re->jit = pcre2_jit_compile(re->code, PCRE2_JIT_COMPLETE) == 0;     /* else interpreted */
    return FORNAX_OK;
}

fx_status fx_regex_compile(fx_regex **out, const fx_mem *mem, fx_str pattern, const char *where, fx_error *err)
{
    fx_regex *re = fx_mem_zalloc(mem, sizeof(*re));
    fx_buf text;
    fx_status st;

    *out = NULL;
    if (!re)
        return fx_nomem(err, "a regular expression");
    re->mem = mem;
    fx_buf_init(&text, mem);
    fx_buf_init(&re->source, mem);
    fx_buf_str(&re->source, pattern);
    re->general = pcre2_general_context_create(pcre_alloc, pcre_free, (void *)(uintptr_t)mem);
    re->limits = re->general ? pcre2_match_context_create(re->general) : NULL;
    if (!re->limits || re->source.failed) {
        st = fx_nomem(err, "a regular expression");
    } else {
        pcre2_set_match_limit(re->limits, MATCH_LIMIT);
        pcre2_set_heap_limit(re->limits, HEAP_LIMIT_KIB);
        st = fx_regex_translate(&text, pattern, where, err);
        if (st == FORNAX_OK)
            st = compile_code(re, fx_buf_view(&text), where, err);
    }
    fx_buf_done(&text);
    if (st != FORNAX_OK)
        fx_regex_free(re);
    else
        *out = re;
    return st;
}

void fx_regex_free(fx_regex *re)
{
    if (!re)
        return;
    pcre2_code_free(re->code);
    pcre2_match_context_free(re->limits);
    pcre2_general_context_free(re->general);
    fx_buf_done(&re->source);
    fx_mem_free(re->mem, re, sizeof(*re));
}

fx_str fx_regex_source(const fx_regex *re)
{
    return fx_buf_view(&re->source);
}

fx_match *fx_match_new(const fx_regex *re, const fx_mem *mem)
{
    fx_match *m = fx_mem_zalloc(mem, sizeof(*m));

    if (!m)
        return NULL;
    m->mem = mem;
    m->data = pcre2_match_data_create(1, re->general);
    if (!m->data) {
        fx_mem_free(mem, m, sizeof(*m));
        return NULL;
    }
    return m;
}

void fx_match_free(fx_match *m)
{
    if (!m)
        return;
    pcre2_match_data_free(m->data);
    fx_mem_free(m->mem, m, sizeof(*m));
}

static int match_at(const fx_regex *re, fx_match *m, fx_str text, size_t from)
{
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;

    if (re->jit)
        rc = pcre2_jit_match(re->code, (PCRE2_SPTR)text.p, text.n, from, PCRE2_NO_UTF_CHECK, m->data, re->limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(re->code, (PCRE2_SPTR)text.p, text.n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, m->data,
                         re->limits);
    return rc;
}

/* The next match at or after scan->from. */
static fx_status next_match(const fx_regex *re, fx_match *m, fx_str text, fx_scan *scan, fx_error *err)
{
    const PCRE2_SIZE *at;
    int rc = match_at(re, m, text, scan->from);

    scan->found = false;
    if (rc == PCRE2_ERROR_NOMATCH)
        return FORNAX_OK;
    if (rc == PCRE2_ERROR_NOMEMORY)
        return fx_nomem(err, "matching a split pattern");
    if (rc < 0)
        return fx_fail(err, FORNAX_EFORMAT, "split pattern: expected a match within its limits, gave up at byte %zu (PCRE2 %d)",
                       scan->from, rc);
    at = pcre2_get_ovector_pointer(m->data);
    if (at[0] > at[1] || at[0] < scan->from)    /* \K inside a lookaround */
        return fx_fail(err, FORNAX_EUNSUP, "split pattern: a match that ends before it begins");
    scan->begin = at[0];
    scan->end = at[1];
    scan->found = true;
    return FORNAX_OK;
}

fx_status fx_regex_scan(const fx_regex *re, fx_match *m, fx_str text, fx_scan *scan, fx_error *err)
{
    for (;;) {
        scan->found = false;
        if (scan->from > text.n)
            return FORNAX_OK;
        FX_TRY(next_match(re, m, text, scan, err));
        if (!scan->found)
            return FORNAX_OK;
        if (scan->begin == scan->end && scan->end == scan->last) {
            if (scan->from < text.n)
                fx_utf8_next(text, &scan->from);
            else
                scan->from++;
            continue;
        }
        scan->from = scan->last = scan->end;
        return FORNAX_OK;
    }
}
