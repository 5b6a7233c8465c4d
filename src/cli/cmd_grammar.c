/* cmd_grammar.c - fornax grammar check: compiles a grammar and judges texts by it.
 *
 * Without a tokenizer, for people: a line for the grammar, a line a text.  With one, for programs: texts
 * come as lines of JSON with their token ids and are walked token by token, mask, test, commit, as a decoder
 * would; --batch takes a grammar a line.  Times are CPU times: the thread's for masks and commits, the
 * process's for compiling. */
#include <ctype.h>
#include <stdlib.h>
#include <time.h>

#include "cli/cli.h"

typedef struct grammar_opts {
    const char *schema, *regex, *choice, *grammar, *tokenizer, *formats, *space;
    bool batch, declared_order, plain_numbers, strict_formats;
    int64_t verify, slots;
    fx_strs remote;
} grammar_opts;

static const fx_opt opts[] = {
    { "schema", 0, FX_OPT_STR, offsetof(grammar_opts, schema), "FILE", "a JSON Schema (-: standard input)", 0, 0 },
    { "regex", 0, FX_OPT_STR, offsetof(grammar_opts, regex), "PATTERN", "an ECMA-262 pattern for the whole text", 0, 0 },
    { "grammar", 0, FX_OPT_STR, offsetof(grammar_opts, grammar), "FILE", "a grammar in GBNF or Lark's manner", 0, 0 },
    { "choice", 0, FX_OPT_STR, offsetof(grammar_opts, choice), "JSON", "an array of strings", 0, 0 },
    { "remote", 0, FX_OPT_STRS, offsetof(grammar_opts, remote), "URI=FILE", "a document that $ref may name; may be given again", 0, 0 },
    { "tokenizer", 0, FX_OPT_STR, offsetof(grammar_opts, tokenizer), "PATH",
      "a .gguf, a folder or a .ftok: read lines {\"i\", \"tokens\"} and answer in JSON", 0, 0 },
    { "batch", 0, FX_OPT_FLAG, offsetof(grammar_opts, batch), NULL, "read lines {\"id\", \"schema\", \"tests\"} instead", 0, 0 },
    { "formats", 0, FX_OPT_STR, offsetof(grammar_opts, formats), "HOW", "enforce, annotate or strict (default: enforce)", 0, 0 },
    { "space", 0, FX_OPT_STR, offsetof(grammar_opts, space), "HOW", "bounded, neat, compact or any (default: bounded)", 0, 0 },
    { "declared-order", 0, FX_OPT_FLAG, offsetof(grammar_opts, declared_order), NULL, "properties in the schema's order only", 0, 0 },
    { "plain-numbers", 0, FX_OPT_FLAG, offsetof(grammar_opts, plain_numbers), NULL, "no needless digits and escapes", 0, 0 },
    { "verify-mask", 0, FX_OPT_INT, offsetof(grammar_opts, verify), "N", "compare every N-th mask with each token tried", 1, INT32_MAX },
    { "slots", 0, FX_OPT_INT, offsetof(grammar_opts, slots), "N",
      "then walk each accepted text with N matchers, spread over it: their masks' time by step, \"slots_ns\"", 1, 4096 },
    { 0 },
};

/* ---- JSON as text ----------------------------------------------------------------------- */

/* The lines hold schemas whose text must stay as it is, so values are found, not parsed. */

static size_t skip_blanks(fx_str s, size_t i)
{
    while (i < s.n && fx_blank(s.p[i]))
        i++;
    return i;
}

static size_t skip_string(fx_str s, size_t i)
{
    for (i++; i < s.n && s.p[i] != '"'; i++)
        i += s.p[i] == '\\';
    return FX_MIN(i + 1, s.n);
}

/* Past the value that begins at i. */
static size_t skip_value(fx_str s, size_t i)
{
    int depth = 0;

    do {
        char c = i < s.n ? s.p[i] : 0;

        if (c == '"') {
            i = skip_string(s, i);
            continue;
        }
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        i++;
        if (depth == 0 && c != '}' && c != ']')
            while (i < s.n && !strchr(",]} \t\r\n", s.p[i]))
                i++;
    } while (depth > 0 && i < s.n);
    return FX_MIN(i, s.n);
}

/* The value of a member of the object 's', as text; p NULL: it has none. */
static fx_str member(fx_str s, const char *name)
{
    size_t i = skip_blanks(s, 0) + 1;

    while (i < s.n && s.p[i = skip_blanks(s, i)] == '"') {
        size_t end = skip_string(s, i), from = skip_blanks(s, skip_blanks(s, end) + 1), to = skip_value(s, from);

        if (fx_str_is(fx_str_n(s.p + i + 1, end - i - 2), name))
            return fx_str_n(s.p + from, to - from);
        i = skip_blanks(s, to) + 1;
    }
    return fx_str_n(NULL, 0);
}

/* The next item of the array 's' from *i on, which begins at 0; false: there is none. */
static bool next_item(fx_str s, size_t *i, fx_str *out)
{
    size_t from = skip_blanks(s, *i == 0 ? skip_blanks(s, 0) + 1 : *i);

    if (from >= s.n || s.p[from] == ']')
        return false;
    if (s.p[from] == ',')
        from = skip_blanks(s, from + 1);
    *i = skip_value(s, from);
    *out = fx_str_n(s.p + from, *i - from);
    return out->n > 0;
}

/* ---- Tokenizers ------------------------------------------------------------------------------ */

static int hex(char c) { return isdigit((unsigned char)c) ? c - '0' : (c | 32) - 'a' + 10; }

typedef struct token_file {
    FX_VEC(fornax_token) tokens;
    FX_VEC(int32_t) eos;
    fx_buf bytes;
} token_file;

/* A line "ID<tab>HEX<tab>FLAG" of an .ftok; bytes go to the buffer, by offset for now. */
static bool token_line(token_file *f, fx_str line)
{
    size_t tab = fx_str_find(line, FX_STR("\t"), 0), flag = tab == FX_STR_NONE ? tab : fx_str_find(line, FX_STR("\t"), tab + 1);
    fornax_token t = { .bytes = NULL };
    size_t at = f->bytes.n;
    int64_t id;

    if (flag == FX_STR_NONE || flag + 1 >= line.n || (flag - tab) % 2 == 0 ||
        !fx_parse_i64(fx_str_n(line.p, tab), &id) || (size_t)id != f->tokens.n)
        return false;
    for (size_t i = tab + 1; i + 1 < flag; i += 2) {
        if (!isxdigit((unsigned char)line.p[i]) || !isxdigit((unsigned char)line.p[i + 1]))
            return false;
        fx_buf_putc(&f->bytes, (char)(hex(line.p[i]) * 16 + hex(line.p[i + 1])));
    }
    t.n = line.p[flag + 1] == 'u' ? 0 : f->bytes.n - at;
    t.special = line.p[flag + 1] == 's';
    return FX_VEC_PUSH(&f->tokens, &fx_mem_libc, t);
}

static bool read_tokens(token_file *f, fx_str text)
{
    size_t end = fx_str_find(text, FX_STR("\n"), 0), at = 0, i = 0;
    fx_str list, item;
    int64_t id;

    if (end == FX_STR_NONE)
        return false;
    list = member(fx_str_n(text.p, end), "eos");
    while (list.p && next_item(list, &i, &item))
        if (!fx_parse_i64(item, &id) || !FX_VEC_PUSH(&f->eos, &fx_mem_libc, (int32_t)id))
            return false;
    for (size_t from = end + 1; from < text.n; from = end + 1) {
        end = fx_str_find(text, FX_STR("\n"), from);
        end = end == FX_STR_NONE ? text.n : end;
        if (!token_line(f, fx_str_n(text.p + from, end - from)))
            return false;
    }
    for (i = 0; i < f->tokens.n; i++) {
        f->tokens.at[i].bytes = fx_buf_view(&f->bytes).p + at;
        at += f->tokens.at[i].n;
    }
    return !f->bytes.failed;
}

static fornax_status vocabulary_of_file(fornax_vocabulary **v, fornax_context *ctx, const char *path, fornax_error *err)
{
    token_file f = { 0 };
    fornax_status st = FORNAX_EFORMAT;
    fx_buf text;

    fx_buf_init(&text, &fx_mem_libc);
    fx_buf_init(&f.bytes, &fx_mem_libc);
    fx_format(err->text, sizeof err->text, "%s: expected a JSON header and lines of id, bytes and flag", path);
    if (fx_cli_read(&text, path) && read_tokens(&f, fx_buf_view(&text)))
        st = fornax_vocabulary_open_tokens(v, ctx, f.tokens.at, f.tokens.n, f.eos.at, f.eos.n, err);
    FX_VEC_FREE(&f.tokens, &fx_mem_libc);
    FX_VEC_FREE(&f.eos, &fx_mem_libc);
    fx_buf_done(&f.bytes);
    fx_buf_done(&text);
    return st;
}

/* path NULL: the 256 single bytes, for texts. */
static fornax_status open_vocabulary(fornax_vocabulary **v, fornax_tokenizer **tok, fornax_context *ctx, const char *path,
                                     fornax_error *err)
{
    fornax_token bytes[256];
    char all[256];
    fornax_status st;

    if (path && fx_str_ends(fx_str_of(path), FX_STR(".ftok")))
        return vocabulary_of_file(v, ctx, path, err);
    if (path) {
        st = fornax_tokenizer_open(tok, ctx, path, err);
        return st == FORNAX_OK ? fornax_vocabulary_open(v, ctx, *tok, err) : st;
    }
    for (int i = 0; i < 256; i++) {
        all[i] = (char)i;
        bytes[i] = (fornax_token){ &all[i], 1, 0 };
    }
    return fornax_vocabulary_open_tokens(v, ctx, bytes, 256, NULL, 0, err);
}

/* ---- Walking -------------------------------------------------------------------------------------- */

typedef struct checker {
    const grammar_opts *opt;
    fornax_context *ctx;
    fornax_tokenizer *tok;      /* NULL: none, or an .ftok */
    fornax_vocabulary *v;
    uint32_t *mask;
    size_t words;
    int64_t n_masks;
    FX_VEC(int64_t) mask_ns, commit_ns, slots_ns;
    FX_VEC(int32_t) ids;        /* of the instance */
    FX_VEC(const char *) uris, documents;
    fx_buf out;
    bool differs;               /* a mask was wrong */
} checker;

static int64_t now(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static bool has_bit(const checker *c, int64_t id)
{
    return id >= 0 && (size_t)id < c->words * 32 && (c->mask[id / 32] >> id % 32 & 1);
}

/* Each token tried on the matcher; says which differ on standard error. */
static void verify(checker *c, fornax_matcher *m)
{
    fornax_error err;
    int64_t wrong = 0, first = -1;

    for (int64_t id = 0; id < (int64_t)c->words * 32; id++) {
        bool ok = fornax_matcher_accept(m, (int32_t)id, &err) == FORNAX_OK;

        if (ok)
            fornax_matcher_rollback(m, 1, &err);
        if (ok != has_bit(c, id) && wrong++ == 0)
            first = id;
    }
    if (wrong) {
        fprintf(stderr, "fornax grammar: mask %lld is wrong for %lld tokens, the first is %lld\n", (long long)c->n_masks,
                (long long)wrong, (long long)first);
        c->differs = true;
    }
}

/* Fills the mask, timed. */
static fornax_status timed_mask(checker *c, fornax_matcher *m, fornax_error *err)
{
    int64_t t = now(CLOCK_THREAD_CPUTIME_ID);
    fornax_status st = fornax_matcher_mask(m, c->mask, err);

    t = now(CLOCK_THREAD_CPUTIME_ID) - t;
    if (!FX_VEC_PUSH(&c->mask_ns, &fx_mem_libc, t))
        st = FORNAX_ENOMEM;
    c->n_masks++;
    if (st == FORNAX_OK && c->opt->verify > 0 && c->n_masks % c->opt->verify == 0)
        verify(c, m);
    return st;
}

/* Walks the ids; *fail_at is the index of the first that isn't allowed, -1 if all are. */
static bool walk(checker *c, fornax_matcher *m, fx_str ids, int64_t *fail_at, fornax_error *err)
{
    size_t i = 0;
    fx_str item;
    int64_t k = 0, id, t;
    fornax_status st;

    for (*fail_at = -1; next_item(ids, &i, &item); k++) {
        if (!fx_parse_i64(item, &id) || timed_mask(c, m, err) != FORNAX_OK || !has_bit(c, id)) {
            *fail_at = k;
            return false;
        }
        t = now(CLOCK_THREAD_CPUTIME_ID);
        st = fornax_matcher_accept(m, (int32_t)id, err);
        t = now(CLOCK_THREAD_CPUTIME_ID) - t;
        if (st != FORNAX_OK || !FX_VEC_PUSH(&c->commit_ns, &fx_mem_libc, t) || !FX_VEC_PUSH(&c->ids, &fx_mem_libc, (int32_t)id)) {
            *fail_at = k;
            return false;
        }
    }
    *fail_at = k;
    if (timed_mask(c, m, err) != FORNAX_OK || !fornax_matcher_can_end(m))
        return false;
    *fail_at = -1;
    return true;
}

/* ---- Many at once ---- */

typedef struct slot {
    fornax_matcher *m;
    size_t next;                /* the token it takes next */
} slot;

/* The k-th of n matchers has come k/n of the way. */
static fornax_status open_slot(slot *s, checker *c, fornax_grammar *g, size_t k, fornax_error *err)
{
    fornax_status st = fornax_matcher_open(&s->m, g, c->v, err);

    for (s->next = 0; st == FORNAX_OK && s->next < k * c->ids.n / (size_t)c->opt->slots; s->next++)
        st = fornax_matcher_accept(s->m, c->ids.at[s->next], err);
    return st;
}

/* A mask of each, timed together; then each takes its token, and those at the end begin anew. */
static fornax_status step_slots(checker *c, slot *all, fornax_grammar *g, fornax_error *err)
{
    int64_t t = now(CLOCK_THREAD_CPUTIME_ID);
    fornax_status st = FORNAX_OK;

    for (int64_t k = 0; st == FORNAX_OK && k < c->opt->slots; k++)
        st = fornax_matcher_mask(all[k].m, c->mask, err);
    t = now(CLOCK_THREAD_CPUTIME_ID) - t;
    for (int64_t k = 0; st == FORNAX_OK && k < c->opt->slots; k++) {
        if (all[k].next < c->ids.n) {
            st = fornax_matcher_accept(all[k].m, c->ids.at[all[k].next++], err);
        } else {
            fornax_matcher_close(all[k].m);
            all[k].m = NULL;
            st = open_slot(&all[k], c, g, 0, err);
        }
    }
    return st == FORNAX_OK && !FX_VEC_PUSH(&c->slots_ns, &fx_mem_libc, t) ? FORNAX_ENOMEM : st;
}

/* The whole text's masks have been made once, so all of them are warm. */
static fornax_status walk_slots(checker *c, fornax_grammar *g, fornax_error *err)
{
    slot *all = calloc((size_t)c->opt->slots, sizeof *all);
    fornax_status st = all ? FORNAX_OK : FORNAX_ENOMEM;

    c->slots_ns.n = 0;
    for (int64_t k = 0; st == FORNAX_OK && k < c->opt->slots; k++)
        st = open_slot(&all[k], c, g, (size_t)k, err);
    for (size_t i = 0; st == FORNAX_OK && i <= c->ids.n; i++)
        st = step_slots(c, all, g, err);
    for (int64_t k = 0; all && k < c->opt->slots; k++)
        fornax_matcher_close(all[k].m);
    free(all);
    return st;
}

/* ---- One instance ---- */

static void put_times(fx_buf *b, const char *name, const int64_t *at, size_t n)
{
    fx_buf_printf(b, ",\"%s\":[", name);
    for (size_t i = 0; i < n; i++)
        fx_buf_printf(b, "%s%lld", i ? "," : "", (long long)at[i]);
    fx_buf_puts(b, "]");
}

/* One instance: {"i", "tokens"} in, its verdict appended. */
static void check_instance(checker *c, fornax_grammar *g, fx_str line)
{
    fornax_matcher *m = NULL;
    fornax_error err = { 0 };
    fx_str i = member(line, "i"), ids = member(line, "tokens");
    int64_t fail_at = 0;
    bool accept = false;

    c->mask_ns.n = c->commit_ns.n = c->ids.n = 0;
    if (ids.p && fornax_matcher_open(&m, g, c->v, &err) == FORNAX_OK)
        accept = walk(c, m, ids, &fail_at, &err);
    fornax_matcher_close(m);
    fx_buf_printf(&c->out, "{\"i\":%.*s,\"accept\":%s,\"fail_at\":", i.p ? (int)i.n : 4, i.p ? i.p : "null",
                  accept ? "true" : "false");
    if (accept)
        fx_buf_puts(&c->out, "null");
    else
        fx_buf_printf(&c->out, "%lld", (long long)fail_at);
    put_times(&c->out, "mask_ns", c->mask_ns.at, c->mask_ns.n);
    put_times(&c->out, "commit_ns", c->commit_ns.at, c->commit_ns.n);
    if (accept && c->opt->slots > 0) {
        if (walk_slots(c, g, &err) != FORNAX_OK)
            fprintf(stderr, "fornax grammar: --slots: %s\n", err.text);
        put_times(&c->out, "slots_ns", c->slots_ns.at, c->slots_ns.n);
    }
    fx_buf_puts(&c->out, "}");
}

static fornax_grammar_options options_of(const checker *c)
{
    const grammar_opts *o = c->opt;
    fornax_grammar_options g = FORNAX_OPTIONS(fornax_grammar_options);

    g.kind = o->regex ? "regex" : o->choice ? "choice" : o->grammar ? "ebnf" : "json_schema";
    g.tokenizer = c->tok;
    g.space = o->space ? o->space : "bounded";
    g.any_order = !o->declared_order;
    g.any_number = !o->plain_numbers;
    g.annotate_formats = o->formats && !strcmp(o->formats, "annotate");
    g.strict_formats = o->formats && !strcmp(o->formats, "strict");
    g.allow_never = 1;
    g.document_uris = c->uris.at;
    g.documents = c->documents.at;
    g.n_documents = c->uris.n;
    return g;
}

/* Compiles, and appends "compile", "error" and "compile_ns" without braces. */
static fornax_grammar *compile(checker *c, fx_str source)
{
    fornax_grammar_options o = options_of(c);
    int64_t t = now(CLOCK_PROCESS_CPUTIME_ID);
    fornax_grammar *g = NULL;
    fornax_error err = { 0 };

    fornax_grammar_open(&g, c->ctx, source.p, source.n, &o, &err);
    t = now(CLOCK_PROCESS_CPUTIME_ID) - t;
    fx_buf_printf(&c->out, "\"compile\":\"%s\",\"compile_ns\":%lld", g ? "ok" : "error", (long long)t);
    if (!g) {
        fx_buf_puts(&c->out, ",\"error\":\"");
        if (err.param[0]) {
            fx_buf_json(&c->out, fx_str_of(err.param));
            fx_buf_puts(&c->out, ": ");
        }
        fx_buf_json(&c->out, fx_str_of(err.text));
        fx_buf_puts(&c->out, "\"");
    } else if (fornax_grammar_warnings(g)[0]) {
        fx_buf_puts(&c->out, ",\"warnings\":\"");
        fx_buf_json(&c->out, fx_str_of(fornax_grammar_warnings(g)));
        fx_buf_puts(&c->out, "\"");
    }
    return g;
}

static bool flush_line(checker *c)
{
    bool ok;

    fx_buf_putc(&c->out, '\n');
    ok = !c->out.failed;
    if (ok)
        fx_cli_write(fx_buf_view(&c->out));
    fx_buf_clear(&c->out);
    return ok && fx_cli_output_ok();
}

/* ---- Lines in, lines out ----------------------------------------------------------------------------- */

static bool next_line(char **line, size_t *cap, fx_str *out)
{
    ssize_t n = getline(line, cap, stdin);

    while (n > 0 && ((*line)[n - 1] == '\n' || (*line)[n - 1] == '\r'))
        n--;
    *out = fx_str_n(*line, n > 0 ? (size_t)n : 0);
    return n >= 0;
}

static int batch(checker *c)
{
    char *line = NULL;
    size_t cap = 0;
    fx_str s, item;
    bool ok;

    fx_buf_puts(&c->out, "{\"ready\":\"fornax\"}");
    ok = flush_line(c);
    while (ok && !fx_cli_interrupted() && next_line(&line, &cap, &s)) {
        fx_str id = member(s, "id"), source = member(s, "schema"), tests = member(s, "tests");
        fornax_grammar *g;
        size_t i = 0;

        if (s.n == 0)
            continue;
        fx_buf_printf(&c->out, "{\"id\":%.*s,", id.p ? (int)id.n : 4, id.p ? id.p : "null");
        g = compile(c, source.p ? source : FX_STR(""));
        fx_buf_puts(&c->out, ",\"tests\":[");
        for (bool first = true; g && tests.p && next_item(tests, &i, &item); first = false) {
            if (!first)
                fx_buf_putc(&c->out, ',');
            check_instance(c, g, item);
        }
        fx_buf_puts(&c->out, "]}");
        fornax_grammar_close(g);
        ok = flush_line(c);
    }
    free(line);
    return ok && !c->differs ? FX_EXIT_OK : FX_EXIT_FAILED;
}

static int one_grammar(checker *c, fx_str source)
{
    fornax_grammar *g;
    char *line = NULL;
    size_t cap = 0;
    bool ok;
    fx_str s;

    fx_buf_putc(&c->out, '{');
    g = compile(c, source);
    fx_buf_putc(&c->out, '}');
    ok = flush_line(c);
    while (g && ok && next_line(&line, &cap, &s)) {
        if (s.n == 0)
            continue;
        check_instance(c, g, s);
        ok = flush_line(c);
    }
    free(line);
    ok = ok && g && !c->differs;
    fornax_grammar_close(g);
    return ok ? FX_EXIT_OK : FX_EXIT_FAILED;
}

/* ---- For people ------------------------------------------------------------------------------------------- */

/* A text byte by byte, so that the place of a fault is known. */
static bool judge_file(checker *c, fornax_grammar *g, const char *path)
{
    fornax_matcher *m = NULL;
    fornax_error err = { 0 };
    fx_buf text;
    size_t i = 0;
    bool ok;

    fx_buf_init(&text, &fx_mem_libc);
    ok = fx_cli_read(&text, path) && fornax_matcher_open(&m, g, c->v, &err) == FORNAX_OK;
    while (ok && text.n && strchr(" \t\r\n", text.p[text.n - 1]))          /* an editor's last newline */
        text.n--;
    while (ok && i < text.n && fornax_matcher_accept_text(m, text.p + i, 1, &err) == FORNAX_OK)
        i++;
    ok = ok && (i == text.n || err.status == FORNAX_EARG);
    if (!ok)
        fprintf(stderr, "fornax grammar: %s: %s\n", path, err.text);
    else if (i < text.n)
        printf("%s: refused at byte %zu\n", path, i);
    else
        printf("%s: %s\n", path, fornax_matcher_can_end(m) ? "accepted" : "refused: it isn't complete");
    ok = ok && i == text.n && fornax_matcher_can_end(m);
    fornax_matcher_close(m);
    fx_buf_done(&text);
    return ok;
}

static int for_people(checker *c, fx_str source, int n, char **paths)
{
    fornax_grammar_options o = options_of(c);
    fornax_grammar *g = NULL;
    fornax_error err = { 0 };
    int64_t t = now(CLOCK_PROCESS_CPUTIME_ID);
    bool ok = true;

    if (fornax_grammar_open(&g, c->ctx, source.p, source.n, &o, &err) != FORNAX_OK) {
        fprintf(stderr, "fornax grammar: %s%s%s\n", err.param, err.param[0] ? ": " : "", err.text);
        return FX_EXIT_FAILED;
    }
    t = now(CLOCK_PROCESS_CPUTIME_ID) - t;
    fputs(fornax_grammar_warnings(g), stderr);
    printf("the grammar is fine: compiled in %.2f ms, %zu KiB\n", (double)t / 1e6, fornax_grammar_bytes(g) / 1024);
    for (int i = 0; i < n; i++)
        ok = judge_file(c, g, paths[i]) && ok;
    fornax_grammar_close(g);
    return ok ? FX_EXIT_OK : FX_EXIT_FAILED;
}

/* ---- The command ----------------------------------------------------------------------------------------------- */

/* URI=FILE; the texts stay until the end. */
static bool read_remotes(checker *c)
{
    for (size_t i = 0; i < c->opt->remote.n; i++) {
        const char *eq = strrchr(c->opt->remote.at[i], '=');
        char *uri = eq ? strndup(c->opt->remote.at[i], (size_t)(eq - c->opt->remote.at[i])) : NULL;
        fx_buf text;

        fx_buf_init(&text, &fx_mem_libc);
        if (!uri) {
            fx_cli_usage("--remote: expected URI=FILE, found '%s'", c->opt->remote.at[i]);
            return false;
        }
        if (!FX_VEC_PUSH(&c->uris, &fx_mem_libc, uri) || !fx_cli_read(&text, eq + 1) ||
            !FX_VEC_PUSH(&c->documents, &fx_mem_libc, fx_buf_view(&text).p)) {
            fx_buf_done(&text);
            return false;
        }
    }
    return true;
}

static int check(checker *c, int n, char **paths)
{
    const grammar_opts *o = c->opt;
    int status = FX_EXIT_FAILED;
    fx_buf source;

    if (o->batch)
        return batch(c);
    fx_buf_init(&source, &fx_mem_libc);
    if (o->regex || o->choice)
        fx_buf_puts(&source, o->regex ? o->regex : o->choice);
    if (o->regex || o->choice || fx_cli_read(&source, o->grammar ? o->grammar : o->schema))
        status = o->tokenizer ? one_grammar(c, fx_buf_view(&source)) : for_people(c, fx_buf_view(&source), n, paths);
    fx_buf_done(&source);
    return status;
}

static int wrong_usage(const grammar_opts *o, int n, char **args)
{
    int sources = (o->schema != NULL) + (o->regex != NULL) + (o->choice != NULL) + (o->grammar != NULL);

    if (strcmp(args[0], "check") != 0)
        return fx_cli_usage("expected 'check', found '%s'", args[0]);
    if (o->batch ? sources != 0 : sources != 1)
        return fx_cli_usage(o->batch ? "--batch reads its schemas from standard input"
                                     : "expected one of --schema, --regex, --grammar and --choice");
    if (o->batch && !o->tokenizer)
        return fx_cli_usage("--batch needs --tokenizer");
    if (o->tokenizer && n > 1)
        return fx_cli_usage("files are judged without --tokenizer");
    if (o->formats && strcmp(o->formats, "enforce") && strcmp(o->formats, "annotate") && strcmp(o->formats, "strict"))
        return fx_cli_usage("--formats: expected enforce, annotate or strict, found '%s'", o->formats);
    return FX_EXIT_OK;
}

static int run(const void *o, int n, char **args)
{
    checker c = { .opt = o };
    fornax_error err = { 0 };
    int status = wrong_usage(o, n, args);

    if (status != FX_EXIT_OK)
        return status;
    fx_buf_init(&c.out, &fx_mem_libc);
    if (!read_remotes(&c))
        status = FX_EXIT_FAILED;
    else if (fx_cli_context(&c.ctx, &(fx_model_opts){ .threads = 1 }, &err) != FORNAX_OK ||
             open_vocabulary(&c.v, &c.tok, c.ctx, c.opt->tokenizer, &err) != FORNAX_OK)
        status = fx_cli_fail(&err);
    else {
        c.words = fornax_vocabulary_words(c.v);
        c.mask = calloc(c.words, sizeof(*c.mask));
        status = c.mask ? check(&c, n - 1, args + 1) : FX_EXIT_FAILED;
    }
    fornax_vocabulary_close(c.v);
    fornax_tokenizer_close(c.tok);
    fornax_context_close(c.ctx);
    free(c.mask);
    fx_buf_done(&c.out);
    for (size_t i = 0; i < c.uris.n; i++)
        free((void *)(uintptr_t)c.uris.at[i]);
    for (size_t i = 0; i < c.documents.n; i++)
        free((void *)(uintptr_t)c.documents.at[i]);
    FX_VEC_FREE(&c.uris, &fx_mem_libc);
    FX_VEC_FREE(&c.documents, &fx_mem_libc);
    FX_VEC_FREE(&c.mask_ns, &fx_mem_libc);
    FX_VEC_FREE(&c.commit_ns, &fx_mem_libc);
    FX_VEC_FREE(&c.slots_ns, &fx_mem_libc);
    FX_VEC_FREE(&c.ids, &fx_mem_libc);
    return status;
}

const fx_cmd fx_cmd_grammar = {
    .name = "grammar", .args = "check [FILE...]", .min_args = 1, .max_args = 1000,
    .summary = "compile a JSON Schema or another grammar and judge texts by it",
    .examples = "  fornax grammar check --schema person.json alice.json bob.json\n"
                "  fornax grammar check --regex '[a-z]+@[a-z]+' address.txt\n"
                "  fornax grammar check --schema person.json --tokenizer model.gguf < lines.jsonl\n",
    .opts = opts, .opts_bytes = sizeof(grammar_opts), .run = run,
};
