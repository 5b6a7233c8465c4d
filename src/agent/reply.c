/* reply.c - see reply.h.
 *
 * What has come and isn't given out lies in 'held'.  Outside calls everything goes out but what may yet
 * turn out to be the beginning of a tag, and blanks that may stand before one.  A call stays in held until it is
 * whole, so that it can go out as text if it turns out to be none. */
#include "agent/reply.h"

#include <string.h>

#include "agent/reply_int.h"

fx_reply *fx_reply_new(const fx_mem *mem, const fx_reply_options *options)
{
    fx_reply *r = fx_mem_zalloc(mem, sizeof *r);

    if (!r)
        return NULL;
    r->mem = mem;
    r->o = *options;
    r->mode = options->thinking ? FX_IN_THOUGHT : FX_IN_TEXT;
    r->thought_begun = !options->thinking;
    r->channel = FX_PART_TEXT;
    fx_buf_init(&r->held, mem);
    fx_buf_init(&r->scratch, mem);
    return r;
}

void fx_reply_free(fx_reply *r)
{
    if (!r)
        return;
    fx_buf_done(&r->held);
    fx_buf_done(&r->scratch);
    fx_mem_free(r->mem, r, sizeof *r);
}

void fx_reply_give(fx_reply *r, fx_part_kind kind, fx_str text)
{
    bool of_call = kind == FX_PART_CALL || kind == FX_PART_ARGUMENTS || kind == FX_PART_CALL_END;
    fx_part part = { kind, of_call ? r->n_calls - (kind != FX_PART_CALL) : -1, text };

    if (kind == FX_PART_CALL) {
        r->open = true;
        r->n_calls++;
    } else if (kind == FX_PART_CALL_END) {
        r->open = false;
    } else if (text.n == 0) {
        return;
    }
    r->any |= kind == FX_PART_TEXT;
    r->o.part(r->o.user, &part);
}

/* Gives out held[0..n) and forgets it. */
static void let_go(fx_reply *r, fx_part_kind kind, size_t n)
{
    fx_reply_give(r, kind, fx_str_n(r->held.p, n));
    memmove(r->held.p, r->held.p + n, r->held.n - n);
    r->held.n -= n;
}

static void forget(fx_reply *r, size_t n)
{
    memmove(r->held.p, r->held.p + n, r->held.n - n);
    r->held.n -= n;
}

/* How much of the end of 'text' may be the beginning of 'tag'. */
static size_t partial(fx_str text, fx_str tag)
{
    for (size_t n = FX_MIN(text.n, tag.n > 0 ? tag.n - 1 : 0); n > 0; n--)
        if (memcmp(text.p + text.n - n, tag.p, n) == 0)
            return n;
    return 0;
}

/* ---- Tags that end plain text ---- */

typedef struct found {
    size_t at, n;                    /* of the tag; at FX_STR_NONE: none */
    fx_reply_mode mode;
} found;

static void look(found *f, fx_str text, fx_str tag, fx_reply_mode mode)
{
    size_t at = tag.n > 0 ? fx_str_find(text, tag, 0) : FX_STR_NONE;

    if (at != FX_STR_NONE && (f->at == FX_STR_NONE || at < f->at))
        *f = (found){ at, tag.n, mode };
}

static size_t list_tags(const fx_reply *r, fx_str tags[3], fx_reply_mode modes[3])
{
    const fx_codec *c = r->o.codec;
    fx_str section = fx_tag(c->section_open), open = fx_tag(c->open), think = fx_tag(c->think_open);
    size_t n = 0;

    if (think.n > 0 && !r->o.keep_thoughts && !r->any && r->n_calls == 0) {
        tags[n] = think;
        modes[n++] = FX_IN_THOUGHT;
    }
    if (r->o.tools && (section.n > 0 || open.n > 0)) {
        tags[n] = section.n > 0 ? section : open;
        modes[n++] = section.n > 0 ? FX_IN_SECTION : FX_IN_CALL;
    }
    return n;
}

/* What no tag and no blank before one can need. */
static size_t certain(const fx_reply *r, fx_str text, const fx_str *tags, size_t n_tags, bool last)
{
    size_t keep = 0;

    if (last)
        return text.n;
    for (size_t i = 0; i < n_tags; i++)
        keep = FX_MAX(keep, partial(text, tags[i]));
    keep = text.n - keep;
    if (r->o.tools || r->mode == FX_IN_THOUGHT)
        while (keep > 0 && fx_blank(text.p[keep - 1]))
            keep--;
    return keep;
}

/* Without tags a reply is a call only if it begins as one. */
static bool untagged(const fx_reply *r)
{
    return r->o.tools && !fx_codec_tagged(r->o.codec);
}

static void skip_blanks(fx_reply *r)
{
    size_t n = 0;

    while (n < r->held.n && (fx_blank(r->held.p[n]) || (untagged(r) && r->n_calls > 0 && r->held.p[n] == ';')))
        n++;                                 /* a semicolon stands between calls without tags */
    forget(r, n);
    r->skip_blanks = r->held.n == 0;
}

static void begin_call(fx_reply *r, size_t body)
{
    r->mode = FX_IN_CALL;
    r->body = body;
    r->scan = (fx_call_scan){ 0 };
    r->open = false;
    r->sent = 0;
}

static bool step_text(fx_reply *r, bool last)
{
    fx_str tags[3], text;
    fx_reply_mode modes[3];
    found f = { FX_STR_NONE, 0, FX_IN_TEXT };
    size_t n = list_tags(r, tags, modes), keep;

    if (r->skip_blanks)
        skip_blanks(r);
    text = fx_buf_view(&r->held);
    if (text.n == 0)
        return false;
    if (untagged(r) && !r->any) {
        fx_str t = fx_str_trim(text);

        if (t.n == 0 && !last)
            return false;
        if (t.n > 0 && t.p[0] == (r->o.codec->form == FX_CALL_PYTHON ? '[' : '{')) {
            begin_call(r, (size_t)(t.p - text.p));
            return true;
        }
    }
    for (size_t i = 0; i < n; i++)
        look(&f, text, tags[i], modes[i]);
    if (f.mode == FX_IN_THOUGHT && fx_str_trim(fx_str_n(text.p, f.at)).n > 0)
        f.at = FX_STR_NONE;                  /* thoughts come first */
    if (f.at == FX_STR_NONE) {
        keep = certain(r, text, tags, n, last);
        let_go(r, FX_PART_TEXT, keep);
        return false;
    }
    keep = f.at;
    while (keep > 0 && fx_blank(text.p[keep - 1]))
        keep--;
    let_go(r, FX_PART_TEXT, keep);
    forget(r, f.at - keep);
    if (f.mode == FX_IN_CALL) {
        begin_call(r, f.n);
    } else {
        r->mode = f.mode;
        r->thought_begun = false;
        r->body = f.n;
        if (f.mode == FX_IN_THOUGHT)
            forget(r, f.n);
    }
    return true;
}

static bool step_thought(fx_reply *r, bool last)
{
    fx_str close = fx_tag(r->o.codec->think_close), text;
    size_t at, keep;

    if (!r->thought_begun) {
        skip_blanks(r);
        r->thought_begun = r->held.n > 0;
        r->skip_blanks = false;
    }
    text = fx_buf_view(&r->held);
    at = fx_str_find(text, close, 0);
    if (at == FX_STR_NONE) {
        keep = certain(r, text, &close, 1, last);
        let_go(r, FX_PART_THOUGHT, keep);
        return false;
    }
    keep = fx_str_trim(fx_str_n(text.p, at)).n == 0 ? 0 : at;
    while (keep > 0 && fx_blank(text.p[keep - 1]))
        keep--;
    let_go(r, FX_PART_THOUGHT, keep);
    forget(r, at - keep + close.n);
    r->mode = FX_IN_TEXT;
    r->skip_blanks = true;
    return true;
}

/* ---- Calls ---- */

static fx_scan scan_call(fx_reply *r, bool last, size_t *end)
{
    switch (r->o.codec->form) {
    case FX_CALL_NAME_JSON: return fx_body_name_json(r, last, end);
    case FX_CALL_XML_PAIRS: return fx_body_xml_pairs(r, last, end);
    case FX_CALL_XML_FUNCTION: return fx_body_xml_function(r, last, end);
    case FX_CALL_XML_INVOKE: return fx_body_xml_invoke(r, last, end);
    case FX_CALL_PYTHON: return fx_body_python(r, last, end);
    default: return fx_body_json(r, last, end);
    }
}

/* Behind a call: another one of the section, or text again. */
static void after_call(fx_reply *r)
{
    r->mode = fx_tag(r->o.codec->section_open).n > 0 ? FX_IN_SECTION : FX_IN_TEXT;
    r->body = 0;
    r->skip_blanks = true;
    r->any = false;                          /* an untagged call may follow */
}

/* A call that is none is text; one that was begun ends here. */
static void give_up_call(fx_reply *r)
{
    if (r->open) {
        fx_reply_give(r, FX_PART_CALL_END, fx_str_n(r->held.p, r->sent));
        forget(r, FX_MIN(r->sent, r->held.n));
    } else {
        let_go(r, FX_PART_TEXT, FX_MAX(r->body, FX_MIN(r->held.n, (size_t)1)));
        r->any = true;
    }
    r->mode = FX_IN_TEXT;
}

static bool step_call(fx_reply *r, bool last)
{
    size_t end = 0;
    fx_scan got = scan_call(r, last, &end);

    if (got == FX_SCAN_MORE && !last)
        return false;
    if (got != FX_SCAN_DONE) {
        if (r->open && last)
            r->sent = r->held.n;             /* cut short: all of it is the call's */
        give_up_call(r);
        return r->held.n > 0;
    }
    fx_reply_give(r, FX_PART_CALL_END, fx_str_n(r->held.p, end));
    forget(r, end);
    after_call(r);
    return true;
}

/* Between the tags of a section: the next call, or the end. 'body' bytes of it are tags already seen. */
static bool step_section(fx_reply *r, bool last)
{
    const fx_codec *c = r->o.codec;
    fx_str open = fx_tag(c->open), close = fx_tag(c->section_close), text = fx_buf_view(&r->held), rest;
    size_t at = r->body;

    while (at < text.n && (fx_blank(text.p[at]) || strchr(c->form == FX_CALL_JSON_LIST ? "[," : ";", text.p[at])))
        at++;
    rest = fx_str_n(text.p + at, text.n - at);
    if (c->form == FX_CALL_JSON_LIST ? rest.n > 0 && rest.p[0] == '{' : open.n > 0 && fx_str_starts(rest, open)) {
        begin_call(r, at + open.n);
        return true;
    }
    if (close.n == 0)
        close = FX_STR("]");
    if (fx_str_starts(rest, close)) {
        forget(r, at + close.n);
        r->mode = FX_IN_TEXT;
        r->skip_blanks = true;
        return true;
    }
    if (!last && (rest.n == 0 || partial(rest, open) == rest.n || partial(rest, close) == rest.n))
        return false;
    if (last && rest.n == 0 && r->n_calls > 0)
        forget(r, r->held.n);
    r->mode = FX_IN_TEXT;
    if (r->body > 0) {                       /* the section's tag and no call: it was text */
        let_go(r, FX_PART_TEXT, FX_MIN(r->body, r->held.n));
        r->any = true;
    }
    return r->held.n > 0;
}

/* ---- Channels (harmony) ---- */

/* "<|channel|>commentary to=functions.f <|constrain|>json<|message|>": what follows is what? */
static void read_header(fx_reply *r, fx_str header)
{
    size_t to = fx_str_find(header, FX_STR("to=functions."), 0), n = 0;
    fx_str name;

    r->channel = fx_str_find(header, FX_STR("analysis"), 0) != FX_STR_NONE ? FX_PART_THOUGHT : FX_PART_TEXT;
    if (to == FX_STR_NONE || !r->o.tools)
        return;
    name = fx_str_n(header.p + to + 13, header.n - to - 13);
    while (n < name.n && !fx_blank(name.p[n]) && name.p[n] != '<')
        n++;
    name.n = n;
    if (n == 0)
        return;
    r->channel = FX_PART_ARGUMENTS;
    fx_reply_give(r, FX_PART_CALL, name);
}

static bool step_header(fx_reply *r, bool last)
{
    fx_str text = fx_buf_view(&r->held);
    size_t at = fx_str_find(text, FX_STR("<|message|>"), 0);

    if (at == FX_STR_NONE) {
        if (last)
            forget(r, r->held.n);
        return false;
    }
    read_header(r, fx_str_n(text.p, at));
    r->body = at + 11;                       /* the header is kept for the call's own bytes */
    r->sent = r->body;
    if (r->channel != FX_PART_ARGUMENTS) {
        forget(r, r->body);
        r->body = r->sent = 0;
    }
    r->value = (fx_json_scan){ .at = r->body };
    r->mode = FX_IN_BODY;
    return true;
}

/* Arguments end where their JSON does, whatever tags its strings hold: how much of held is certainly theirs. */
static size_t arguments_so_far(fx_reply *r)
{
    fx_str text = fx_buf_view(&r->held);
    fx_scan got;

    while (r->value.at < text.n && !r->value.started && !r->value.scalar && fx_blank(text.p[r->value.at]))
        r->value.at++;
    got = fx_json_scan_value(&r->value, text);
    return got == FX_SCAN_BAD ? r->sent : got == FX_SCAN_MORE && !r->value.scalar ? text.n : FX_MAX(r->sent, r->value.at);
}

static bool step_body(fx_reply *r, bool last)
{
    static const char *const ends[] = { "<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>" };
    fx_str text = fx_buf_view(&r->held), all;
    found f = { FX_STR_NONE, 0, FX_IN_HEADER };
    size_t keep;

    if (r->channel == FX_PART_ARGUMENTS) {
        size_t to = arguments_so_far(r);

        fx_reply_give(r, FX_PART_ARGUMENTS, fx_str_n(text.p + r->sent, to - r->sent));
        r->sent = to;
    }
    all = fx_str_n(text.p + r->sent, text.n - r->sent);
    keep = all.n;
    for (size_t i = 0; i < FX_COUNT(ends); i++) {
        look(&f, all, fx_str_of(ends[i]), FX_IN_HEADER);
        keep = last ? keep : FX_MIN(keep, all.n - partial(all, fx_str_of(ends[i])));
    }
    keep = f.at != FX_STR_NONE ? f.at : keep;
    if (r->channel != FX_PART_ARGUMENTS) {
        let_go(r, r->channel, keep);
        forget(r, f.at != FX_STR_NONE ? f.n : 0);
    } else {
        fx_reply_give(r, FX_PART_ARGUMENTS, fx_str_n(all.p, keep));
        r->sent += keep;
        if (f.at == FX_STR_NONE && !last)
            return false;
        fx_reply_give(r, FX_PART_CALL_END, fx_str_n(r->held.p, r->sent));
        forget(r, r->sent + (f.at != FX_STR_NONE ? f.n : 0));
        r->sent = 0;
    }
    if (f.at == FX_STR_NONE)
        return false;
    r->mode = FX_IN_HEADER;
    return r->held.n > 0;
}

/* ---- The whole ---- */

static bool step(fx_reply *r, bool last)
{
    switch (r->mode) {
    case FX_IN_TEXT: return step_text(r, last);
    case FX_IN_THOUGHT: return step_thought(r, last);
    case FX_IN_SECTION: return step_section(r, last);
    case FX_IN_CALL: return step_call(r, last);
    case FX_IN_HEADER: return step_header(r, last);
    default: return step_body(r, last);
    }
}

/* A gpt-oss reply begins inside a header; without one it is text. */
static void enter_channels(fx_reply *r)
{
    static const char *const heads[] = { "<|channel|>", "<|start|>", " to=" };
    fx_str text = fx_buf_view(&r->held);

    if (r->o.codec->form != FX_CALL_HARMONY || r->mode != FX_IN_TEXT || r->any)
        return;
    for (size_t i = 0; i < FX_COUNT(heads); i++)
        if (fx_str_starts(text, fx_str_of(heads[i])))
            r->mode = FX_IN_HEADER;
}

static bool harmony_unsure(const fx_reply *r, bool last)
{
    fx_str text = fx_buf_view(&r->held);

    return !last && r->o.codec->form == FX_CALL_HARMONY && r->mode == FX_IN_TEXT && !r->any && text.n < 11 &&
           text.n > 0 && (text.p[0] == '<' || text.p[0] == ' ');
}

static bool run(fx_reply *r, bool last)
{
    if (r->held.failed)
        return false;
    enter_channels(r);
    if (harmony_unsure(r, last))
        return true;
    while (step(r, last))
        ;
    return !r->held.failed && !r->scratch.failed;
}

bool fx_reply_feed(fx_reply *r, fx_str piece)
{
    fx_buf_str(&r->held, piece);
    return piece.n == 0 || run(r, false);
}

bool fx_reply_end(fx_reply *r)
{
    return r->held.n == 0 ? !r->held.failed : run(r, true);
}
