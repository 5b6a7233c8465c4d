/* kept.c - see kept.h.
 *
 * The template renders the conversation as always; what it wrote for a kept reply is then replaced:
 *
 *     ...<|im_start|>assistant\n | what the template wrote | <|im_end|>\n...
 *                                place.begin               place.end
 *
 * It begins where the conversation before it, rendered with its generation prompt, ends.  Where the whole doesn't go on from there,
 * the prompt had opened a thought that history leaves out: then it begins before that thought's tag, and the reply's
 * own thought is left out as well.  It ends at the template's next end token.  Nearly all templates write the same
 * before each reply; where there are as many of those headers as assistant's messages, they are the beginnings, and nothing else
 * needs to be rendered.
 *
 * A reply is placed only if it says what its message says (whoever changed the message, wins), and if the part of
 * the text that it replaces, taken apart, says the same: so a template that puts something else there is left alone. */
#include "api/kept.h"

#include <string.h>

#include "agent/reply.h"

/* Text rendered only to find places; behind it further replies are the template's. */
#define MAX_EXTRA ((size_t)64 << 20)

/* ---- What a text says ---- */

typedef struct said {
    fx_buf text, thought, arguments;
    json_t *calls;               /* [name, arguments as text] */
    bool failed;
} said;

static void take_part(void *user, const fx_part *p)
{
    said *s = user;

    if (p->kind == FX_PART_CALL) {
        fx_buf_clear(&s->arguments);
        s->failed |= json_array_append_new(s->calls, json_pack("[s%]", p->text.p, p->text.n)) != 0;
    } else if (p->kind == FX_PART_CALL_END) {
        json_t *last = json_array_get(s->calls, json_array_size(s->calls) - 1);

        s->failed |= json_array_append_new(last, json_stringn(fx_buf_view(&s->arguments).p, s->arguments.n)) != 0;
    } else {
        fx_buf_str(p->kind == FX_PART_ARGUMENTS ? &s->arguments : p->kind == FX_PART_THOUGHT ? &s->thought : &s->text, p->text);
    }
}

static void said_done(said *s)
{
    if (!s->text.mem)
        return;                          /* nothing was taken apart */
    fx_buf_done(&s->text);
    fx_buf_done(&s->thought);
    fx_buf_done(&s->arguments);
    json_decref(s->calls);
}

/* said_done in any case. thinking: the text begins inside a thought. */
static fx_status take_apart(said *s, const fx_kept *k, fx_str text, bool thinking, fx_error *err)
{
    const fx_mem *mem = &k->tok->ctx->mem;
    fx_reply_options o = { .codec = k->codec, .tools = json_object_get(k->request, "tools"), .thinking = thinking,
                           .part = take_part, .user = s };
    fx_reply *r = fx_reply_new(mem, &o);
    bool ok;

    *s = (said){ .calls = json_array() };
    fx_buf_init(&s->text, mem);
    fx_buf_init(&s->thought, mem);
    fx_buf_init(&s->arguments, mem);
    ok = r && s->calls && fx_reply_feed(r, text) && fx_reply_end(r);
    fx_reply_free(r);
    return ok && !s->failed && !s->text.failed && !s->thought.failed && !s->arguments.failed ? FORNAX_OK : fx_nomem(err, "a kept reply");
}

/* ---- Does it say what the message says? ---- */

static fx_str string_of(const json_t *v) { return fx_str_n(json_string_value(v), json_string_length(v)); }
static bool equal_trimmed(fx_str a, fx_str b) { return fx_str_eq(fx_str_trim(a), fx_str_trim(b)); }

/* Arguments are an object, or its text. */
static bool equal_arguments(const json_t *given, fx_str text)
{
    json_t *a = json_is_string(given) ? json_loadb(json_string_value(given), json_string_length(given), JSON_ALLOW_NUL, NULL)
                                      : json_incref((json_t *)given);
    json_t *b = json_loadb(text.p, text.n, JSON_ALLOW_NUL, NULL);
    bool same = a && b ? json_equal(a, b) : json_is_string(given) && fx_str_eq(string_of(given), text);

    json_decref(a);
    json_decref(b);
    return same;
}

static bool equal_calls(const json_t *given, const json_t *calls)
{
    bool same = json_array_size(given) == json_array_size(calls);

    for (size_t i = 0; same && i < json_array_size(calls); i++) {
        const json_t *f = json_object_get(json_array_get(given, i), "function"), *c = json_array_get(calls, i);

        same = fx_str_eq(string_of(json_object_get(f, "name")), string_of(json_array_get(c, 0))) &&
               equal_arguments(json_object_get(f, "arguments"), string_of(json_array_get(c, 1)));
    }
    return same;
}

static bool same_text(const json_t *message, const said *s)
{
    const json_t *content = json_object_get(message, "content");

    return (!content || json_is_null(content) || json_is_string(content)) && equal_trimmed(string_of(content), fx_buf_view(&s->text));
}

/* A thought that the message lacks comes back with the reply: what the template makes of it is the template's. */
static fx_status same_thought(bool *same, json_t *message, const said *s, fx_error *err)
{
    static const char *const names[] = { "reasoning_content", "thinking", "reasoning" };
    fx_str thought = fx_buf_view(&s->thought);
    json_t *given = NULL;

    for (size_t i = 0; i < FX_COUNT(names) && !json_is_string(given); i++)
        given = json_object_get(message, names[i]);
    if (json_is_string(given))
        *same &= equal_trimmed(string_of(given), thought);
    else if (*same && thought.n > 0 && json_object_set_new(message, names[0], json_stringn(thought.p, thought.n)) != 0)
        return fx_nomem(err, "a kept reply");
    return FORNAX_OK;
}

/* ---- Taking ---- */

static fx_status read_ids(fx_kept_reply *r, const fornax_tokenizer *tok, const json_t *list, fx_error *err)
{
    char param[64];

    fx_format(param, sizeof param, "messages[%zu].emitted", r->message);
    if (!json_is_array(list) || !tok->t)
        return fx_fail_param(err, FORNAX_EARG, param, "%s: expected a list of token ids", param);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t id = json_is_integer(v) ? json_integer_value(v) : -1;

        if (id < 0 || (uint64_t)id >= fx_tokenizer_size(tok->t))
            return fx_fail_param(err, FORNAX_EARG, param, "%s[%zu]: expected an id below %zu", param, i, fx_tokenizer_size(tok->t));
        if (!fx_ids_push(&r->ids, (int32_t)id))
            return fx_nomem(err, "a kept reply");
    }
    if (r->ids.n > 0 && fornax_token_is_eos(tok, r->ids.at[r->ids.n - 1]))
        r->end_id = r->ids.at[--r->ids.n];
    return FORNAX_OK;
}

static fx_status take_one(fx_kept *k, json_t *message, size_t i, fx_error *err)
{
    json_t *list = json_object_get(message, "emitted");
    fx_kept_reply r = { .message = i, .end_id = -1, .before.n = SIZE_MAX, .cut.n = SIZE_MAX, .nth = k->n_assistant };
    fx_status st;

    k->n_assistant += fx_str_eq(string_of(json_object_get(message, "role")), FX_STR("assistant"));
    if (!list)
        return FORNAX_OK;
    fx_ids_init(&r.ids, &k->tok->ctx->mem);
    st = read_ids(&r, k->tok, list, err);
    json_object_del(message, "emitted");
    if (st == FORNAX_OK && !FX_VEC_PUSH(&k->replies, &k->tok->ctx->mem, r))
        st = fx_nomem(err, "kept replies");
    if (st != FORNAX_OK)
        fx_ids_done(&r.ids);
    return st;
}

/* The text of ids, as a reply's text is made while it streams. */
static fx_status text_of(fx_buf *out, const fx_kept *k, const int32_t *ids, size_t n, fx_error *err)
{
    fx_buf_init(out, &k->tok->ctx->mem);
    fx_tokenizer_decode(k->tok->t, ids, n, !k->special, out);
    return out->failed ? fx_nomem(err, "a kept reply") : FORNAX_OK;
}

/* The first n messages, as the model sees them; prompt: with the generation prompt behind. */
static fx_status render_first(fx_rendered *out, const fx_kept *k, size_t n, bool prompt, fx_error *err)
{
    json_t *request = json_copy(k->request), *messages = json_array();
    fx_status st = request && messages ? FORNAX_OK : fx_nomem(err, "a conversation");

    for (size_t i = 0; st == FORNAX_OK && i < n; i++)
        if (json_array_append(messages, json_array_get(json_object_get(k->request, "messages"), i)) != 0)
            st = fx_nomem(err, "a conversation");
    if (st == FORNAX_OK && (json_object_set(request, "messages", messages) != 0 ||
                            json_object_set_new(request, "add_generation_prompt", json_boolean(prompt)) != 0))
        st = fx_nomem(err, "a conversation");
    if (st == FORNAX_OK)
        st = fx_api_render(out, k->tok, request, err);
    json_decref(request);
    json_decref(messages);
    return st;
}

static fx_kept_prefix prefix_of(fx_str text) { return (fx_kept_prefix){ text.n, fx_hash128_of(text.p, text.n, 0) }; }

/* Where a thought that the prompt opened, and perhaps closed, begins; SIZE_MAX: there is none at its end. */
static size_t thought_begin(const fx_codec *c, fx_str text)
{
    fx_str open = fx_str_of(c->think_open), end = fx_str_trim(text), at;
    size_t to = (size_t)(end.p - text.p) + end.n;

    if (open.n == 0)
        return SIZE_MAX;
    if (fx_str_ends(end, fx_str_of(c->think_close))) {
        at = fx_str_trim(fx_str_n(text.p, to - strlen(c->think_close)));
        to = (size_t)(at.p - text.p) + at.n;
    }
    return fx_str_ends(fx_str_n(text.p, to), open) ? to - open.n : SIZE_MAX;
}

/* Does the reply say what its message says? behind: what it was written behind, or the end of that. */
static fx_status compare(fx_kept *k, fx_kept_reply *r, fx_str behind, fx_error *err)
{
    json_t *message = json_array_get(json_object_get(k->request, "messages"), r->message);
    fx_buf wrote;
    said s = { 0 };
    fx_status st = text_of(&wrote, k, r->ids.at, r->ids.n, err);

    if (st == FORNAX_OK)
        st = take_apart(&s, k, fx_buf_view(&wrote), fx_api_thinking(k->codec, behind), err);
    if (st == FORNAX_OK) {
        r->same = same_text(message, &s) && equal_calls(json_object_get(message, "tool_calls"), s.calls);
        st = same_thought(&r->same, message, &s, err);
        r->thinks = s.thought.n > 0;
    }
    said_done(&s);
    fx_buf_done(&wrote);
    return st;
}

/* ---- Headers ---- */

/* The next header from 'at' on that doesn't begin within data (the role in it may be data). */
static size_t next_header(const fx_rendered *r, fx_str header, size_t at, size_t *d)
{
    fx_str text = fx_buf_view(&r->text);

    while ((at = fx_str_find(text, header, at)) != FX_STR_NONE) {
        while (*d < r->data.n && r->data.at[*d].end <= at)
            ++*d;
        if (*d == r->data.n || r->data.at[*d].begin > at)
            return at;
        at++;
    }
    return FX_STR_NONE;
}

static size_t count_headers(const fx_rendered *r, fx_str header)
{
    size_t n = 0, d = 0;

    for (size_t at = 0; (at = next_header(r, header, at, &d)) != FX_STR_NONE; at += header.n)
        n++;
    return n;
}

static fx_str header_of(const fx_kept *k) { return fx_str_n(fx_buf_view(&k->header).p, k->header_cut); }

/* What the generation prompt adds, if it stands before each of the assistant's messages. */
static fx_status find_header(fx_kept *k, fx_error *err)
{
    const fx_mem *mem = &k->tok->ctx->mem;
    size_t last = k->replies.at[k->replies.n - 1].message, all = json_array_size(json_object_get(k->request, "messages")), cut;
    fx_rendered without = { 0 }, with = { 0 }, whole = { 0 };
    fx_status st = render_first(&without, k, last, false, err);

    if (st == FORNAX_OK)
        st = render_first(&with, k, last, true, err);
    if (st == FORNAX_OK)
        st = render_first(&whole, k, all, false, err);
    if (st == FORNAX_OK && fx_str_starts(fx_buf_view(&with.text), fx_buf_view(&without.text))) {
        fx_buf_str(&k->header, fx_str_n(with.text.p + without.text.n, with.text.n - without.text.n));
        cut = thought_begin(k->codec, fx_buf_view(&k->header));
        k->header_cut = FX_MIN(cut, k->header.n);
        if (k->header_cut == 0 || count_headers(&whole, header_of(k)) != k->n_assistant)
            k->header_cut = 0;
    }
    fx_rendered_done(&without, mem);
    fx_rendered_done(&with, mem);
    fx_rendered_done(&whole, mem);
    return st != FORNAX_OK ? st : k->header.failed ? fx_nomem(err, "a conversation") : FORNAX_OK;
}

/* Without a common header: the conversation before each reply, until enough was rendered. */
static fx_status look_back(fx_kept *k, fx_error *err)
{
    size_t spent = 0;

    for (size_t i = 0; i < k->replies.n && spent < MAX_EXTRA; i++) {
        fx_kept_reply *r = &k->replies.at[i];
        fx_rendered before;
        fx_status st = render_first(&before, k, r->message, true, NULL);
        fx_str text;
        size_t cut;

        if (st == FORNAX_ENOMEM)
            return fx_nomem(err, "a conversation");
        if (st != FORNAX_OK)
            continue;                    /* the template has no such place */
        text = fx_buf_view(&before.text);
        spent += text.n;
        r->before = prefix_of(text);
        cut = thought_begin(k->codec, text);
        if (cut != SIZE_MAX)
            r->cut = prefix_of(fx_str_n(text.p, cut));
        st = compare(k, r, text, err);
        fx_rendered_done(&before, &k->tok->ctx->mem);
        FX_TRY(st);
    }
    return FORNAX_OK;
}

fx_status fx_kept_take(fx_kept *k, const fornax_tokenizer *tok, json_t *request, fx_error *err)
{
    json_t *messages = json_object_get(request, "messages");
    bool calls = json_array_size(json_object_get(request, "tools")) > 0;
    fx_status st;

    *k = (fx_kept){ .tok = tok, .request = request, .codec = fx_api_codec(tok, calls) };
    fx_buf_init(&k->header, &tok->ctx->mem);
    for (size_t i = 0; i < json_array_size(messages); i++)
        FX_TRY(take_one(k, json_array_get(messages, i), i, err));
    if (k->replies.n == 0)
        return FORNAX_OK;
    FX_TRY(fx_api_special_tags(&k->special, tok, k->codec, calls, err));
    st = find_header(k, NULL);
    if (st == FORNAX_ENOMEM)
        return fx_nomem(err, "a conversation");
    if (st != FORNAX_OK || k->header_cut == 0)
        return look_back(k, err);
    for (size_t i = 0; i < k->replies.n; i++)
        FX_TRY(compare(k, &k->replies.at[i], fx_buf_view(&k->header), err));
    return FORNAX_OK;
}

/* ---- Placing ---- */

static bool begins_with(fx_str text, const fx_kept_prefix *p)
{
    fx_hash128 h;

    if (p->n > text.n)
        return false;
    h = fx_hash128_of(text.p, p->n, 0);
    return h.lo == p->hash.lo && h.hi == p->hash.hi;
}

/* The first place from 'at' on where the template, not data, has written 'tag'. */
static size_t find_templates(const fx_rendered *r, fx_str tag, size_t at)
{
    fx_str text = fx_buf_view(&r->text);
    size_t d = 0;

    while (tag.n > 0 && (at = fx_str_find(text, tag, at)) != FX_STR_NONE) {
        while (d < r->data.n && r->data.at[d].end <= at)
            d++;
        if (d == r->data.n || r->data.at[d].begin >= at + tag.n)
            return at;
        at++;
    }
    return FX_STR_NONE;
}

static size_t find_end(const fx_kept *k, const fx_kept_reply *reply, const fx_rendered *r, size_t at)
{
    size_t end = FX_STR_NONE;

    if (reply->end_id >= 0)
        end = find_templates(r, fx_tokenizer_spelling(k->tok->t, reply->end_id), at);
    for (size_t i = 0; end == FX_STR_NONE && i < k->tok->n_eos; i++)
        end = find_templates(r, fx_tokenizer_spelling(k->tok->t, k->tok->eos[i]), at);
    return end == FX_STR_NONE ? r->text.n : end;
}

/* Whether the template knows nothing of calls, so that it can't have written any. */
static bool ignores_calls(const fx_kept *k)
{
    const char *text = json_array_size(json_object_get(k->request, "tools")) > 0 && k->tok->tool_template ? k->tok->tool_template
                                                                                                           : k->tok->template_text;

    return !text || !strstr(text, "tool_calls");
}

/* What stands there says what the message says. thought: it has the thought too. */
static fx_status look_at_place(bool *same, bool *thought, const fx_kept *k, const fx_kept_reply *reply, fx_str whole, fx_error *err)
{
    const json_t *message = json_array_get(json_object_get(k->request, "messages"), reply->message);
    fx_str before = fx_str_n(whole.p, reply->place.begin), text = fx_str_n(whole.p + before.n, reply->place.end - before.n);
    said s;
    fx_status st = take_apart(&s, k, text, fx_api_thinking(k->codec, before), err);

    *same = same_text(message, &s) && (equal_calls(json_object_get(message, "tool_calls"), s.calls) ||
                                       (json_array_size(s.calls) == 0 && ignores_calls(k)));
    *thought = s.thought.n > 0;
    said_done(&s);
    return st;
}

/* Of a reply without its thought: the first id behind that and the blanks after it. False: no id begins there. */
static fx_status skip_thought(bool *ok, const fx_kept *k, fx_kept_reply *r, fx_error *err)
{
    fx_str close = fx_str_of(k->codec->think_close), text;
    size_t at, n = 0;
    fx_buf all;

    *ok = false;
    FX_TRY(text_of(&all, k, r->ids.at, r->ids.n, err));
    text = fx_buf_view(&all);
    at = close.n > 0 ? fx_str_find(text, close, 0) : FX_STR_NONE;
    if (at != FX_STR_NONE)
        for (at += close.n; at < text.n && fx_blank(text.p[at]); at++)
            ;
    for (r->from = 0; r->from < r->ids.n && n < at; r->from++) {
        int32_t id = r->ids.at[r->from];
        fx_str one = fx_tokenizer_special(k->tok->t, id) ? fx_tokenizer_spelling(k->tok->t, id) : fx_tokenizer_bytes(k->tok->t, id);

        n += one.n;
    }
    *ok = at != FX_STR_NONE && n == at;
    fx_buf_done(&all);
    return FORNAX_OK;
}

/* Where the reply begins by what it was written behind; SIZE_MAX: nowhere. */
static size_t begin_behind(const fx_kept_reply *reply, fx_str whole)
{
    const fx_kept_prefix *p = begins_with(whole, &reply->before) ? &reply->before : &reply->cut;

    return begins_with(whole, p) ? p->n : SIZE_MAX;
}

static fx_status place_one(const fx_kept *k, fx_kept_reply *reply, const fx_rendered *r, size_t begin, fx_error *err)
{
    fx_str whole = fx_buf_view(&r->text);
    bool same, thought, ok = true;

    reply->place = (fx_span){ begin, find_end(k, reply, r, begin) };
    FX_TRY(look_at_place(&same, &thought, k, reply, whole, err));
    if (same && reply->thinks && !thought)
        FX_TRY(skip_thought(&ok, k, reply, err));
    reply->placed = same && ok;
    return FORNAX_OK;
}

/* Behind the n-th header, and behind the thought that it opened where that is there too. *at, *n, *d: how far it was looked. */
static size_t begin_of_nth(const fx_kept *k, const fx_rendered *r, size_t nth, size_t *at, size_t *n, size_t *d)
{
    fx_str header = header_of(k), all = fx_buf_view(&k->header), text = fx_buf_view(&r->text);
    size_t found = FX_STR_NONE;

    for (; *n <= nth; ++*n) {
        found = next_header(r, header, *at, d);
        if (found == FX_STR_NONE)
            return FX_STR_NONE;
        *at = found + header.n;
    }
    return found != FX_STR_NONE && fx_str_starts(fx_str_n(text.p + found, text.n - found), all) ? found + all.n : *at;
}

fx_status fx_kept_place(fx_kept *k, const fx_rendered *r, fx_error *err)
{
    size_t from = 0, at = 0, n = 0, d = 0;

    for (size_t i = 0; i < k->replies.n; i++) {
        fx_kept_reply *reply = &k->replies.at[i];
        size_t begin = k->header_cut > 0 ? begin_of_nth(k, r, reply->nth, &at, &n, &d) : begin_behind(reply, fx_buf_view(&r->text));

        if (!reply->same || begin == FX_STR_NONE || begin < from)
            continue;
        FX_TRY(place_one(k, reply, r, begin, err));
        if (reply->placed)
            from = reply->place.end;
    }
    return FORNAX_OK;
}

/* ---- Encoding ---- */

/* Between replies: text[begin..end), with what of it is data. *d: the first span that may reach into it. */
static fx_status encode_between(const fx_kept *k, const fx_rendered *r, fx_span part, size_t *d, fx_ids *ids, fx_error *err)
{
    FX_VEC(fx_span) data = { 0 };
    const fx_mem *mem = &k->tok->ctx->mem;
    fx_str all = fx_buf_view(&r->text);
    fx_status st = FORNAX_OK;

    while (*d < r->data.n && r->data.at[*d].end <= part.begin)
        ++*d;
    for (size_t i = *d; st == FORNAX_OK && i < r->data.n && r->data.at[i].begin < part.end; i++) {
        fx_span s = { FX_MAX(r->data.at[i].begin, part.begin) - part.begin, FX_MIN(r->data.at[i].end, part.end) - part.begin };

        if (!FX_VEC_PUSH(&data, mem, s))
            st = fx_nomem(err, "a prompt");
    }
    if (st == FORNAX_OK)
        st = fx_tokenizer_encode(k->tok->t, fx_str_n(all.p + part.begin, part.end - part.begin), data.at, data.n, FX_ENCODE_SPECIAL, ids, err);
    FX_VEC_FREE(&data, mem);
    return st;
}

static fx_status put_reply(const fx_kept *k, const fx_kept_reply *reply, fx_buf *text, fx_ids *ids, fx_error *err)
{
    fx_buf wrote;
    fx_status st = text_of(&wrote, k, reply->ids.at + reply->from, reply->ids.n - reply->from, err);

    for (size_t i = reply->from; st == FORNAX_OK && i < reply->ids.n; i++)
        st = fx_ids_push(ids, reply->ids.at[i]) ? FORNAX_OK : fx_nomem(err, "a prompt");
    fx_buf_str(text, fx_buf_view(&wrote));
    fx_buf_done(&wrote);
    return st;
}

fx_status fx_kept_encode(const fx_kept *k, fx_rendered *r, fx_ids *ids, fx_error *err)
{
    fx_buf text;
    size_t at = 0, d = 0;
    fx_status st = FORNAX_OK;

    fx_buf_init(&text, &k->tok->ctx->mem);
    for (size_t i = 0; st == FORNAX_OK && i <= k->replies.n; i++) {
        const fx_kept_reply *reply = i < k->replies.n ? &k->replies.at[i] : NULL;
        fx_span between = { at, reply ? reply->place.begin : r->text.n };

        if (reply && !reply->placed)
            continue;
        fx_buf_add(&text, fx_buf_view(&r->text).p + at, between.end - at);
        st = encode_between(k, r, between, &d, ids, err);
        if (st == FORNAX_OK && reply)
            st = put_reply(k, reply, &text, ids, err);
        at = reply ? reply->place.end : at;
    }
    if (st == FORNAX_OK && text.failed)
        st = fx_nomem(err, "a prompt");
    fx_buf_done(&r->text);
    r->text = text;
    return st;
}

void fx_kept_done(fx_kept *k)
{
    for (size_t i = 0; i < k->replies.n; i++)
        fx_ids_done(&k->replies.at[i].ids);
    FX_VEC_FREE(&k->replies, &k->tok->ctx->mem);
    fx_buf_done(&k->header);
}
