/* stream.c - see stream.h.
 *
 * Each stop string has a Knuth-Morris-Pratt automaton: 'matched' is the length of its
 * longest prefix that the text ends with.  The longest of these is what must be held
 * back; a match can't reach into released text, since while its bytes arrived they were
 * such a prefix.  Stop strings are valid UTF-8 and text comes in whole characters, so
 * held text begins at a character. */
#include "engine/stream.h"

#include "base/text.h"

#define USUAL_TEXT 512              /* reserved beside the longest stop string */

static void find_borders(fx_stop *stop)
{
    int32_t k = 0;

    for (size_t i = 1; i < stop->text.n; i++) {
        while (k > 0 && stop->text.p[i] != stop->text.p[k])
            k = stop->border[k - 1];
        if (stop->text.p[i] == stop->text.p[k])
            k++;
        stop->border[i] = k;
    }
}

fx_status fx_stops_init(fx_stops *s, fx_arena *arena, const fornax_string *strings, size_t n, fx_error *err)
{
    *s = (fx_stops){ 0 };
    if (n > INT32_MAX)
        return fx_fail_param(err, FORNAX_EARG, "stop", "stop: %zu strings", n);
    s->at = FX_ARENA_NEWN(arena, fx_stop, n ? n : 1);
    if (!s->at)
        return fx_nomem(err, "stop strings");
    for (size_t i = 0; i < n; i++) {
        fx_stop *stop = &s->at[i];
        size_t len = strings[i].p && strings[i].n == SIZE_MAX ? strlen(strings[i].p) : strings[i].n;

        if (!strings[i].p || len == 0 || len > INT32_MAX / 4)
            return fx_fail_param(err, FORNAX_EARG, "stop", "stop[%zu]: expected a string of at least one byte", i);
        if (!fx_utf8_valid(fx_str_n(strings[i].p, len)))
            return fx_fail_param(err, FORNAX_EARG, "stop", "stop[%zu]: expected UTF-8", i);
        stop->text = fx_str_n(fx_arena_strdup(arena, strings[i].p, len), len);
        stop->border = FX_ARENA_NEWN(arena, int32_t, len);
        if (!stop->text.p || !stop->border)
            return fx_nomem(err, "stop strings");
        find_borders(stop);
        s->longest = FX_MAX(s->longest, len);
    }
    s->n = (int32_t)n;
    return FORNAX_OK;
}

fx_status fx_stream_init(fx_stream *s, const fx_mem *mem, fx_arena *arena, const fx_tokenizer *tokenizer,
                         const fx_stops *stops, fx_error *err)
{
    *s = (fx_stream){ .stops = stops, .tokenizer = tokenizer, .stop = -1 };
    fx_buf_init(&s->held, mem);
    fx_buf_init(&s->out, mem);
    s->matched = FX_ARENA_NEWN(arena, int32_t, stops->n ? (size_t)stops->n : 1);
    if (!s->matched || !fx_buf_reserve(&s->held, stops->longest + USUAL_TEXT) ||
        !fx_buf_reserve(&s->out, stops->longest + USUAL_TEXT)) {
        fx_stream_done(s);
        return fx_nomem(err, "streamed text");
    }
    if (tokenizer) {
        fx_detok_init(&s->detok, tokenizer, true);
        s->detok.first = false;           /* the text goes on after the prompt: a leading space stays */
    }
    return FORNAX_OK;
}

void fx_stream_done(fx_stream *s)
{
    if (!s->held.mem)
        return;
    fx_buf_done(&s->held);
    fx_buf_done(&s->out);
}

/* Length of the longest stop string that ends with this byte, its index in s->stop; or 0. */
static size_t step_stops(fx_stream *s, char c)
{
    size_t longest = 0;

    for (int32_t i = 0; i < s->stops->n; i++) {
        const fx_stop *stop = &s->stops->at[i];
        int32_t k = s->matched[i];

        while (k > 0 && stop->text.p[k] != c)
            k = stop->border[k - 1];
        if (stop->text.p[k] == c)
            k++;
        s->matched[i] = k;
        if ((size_t)k == stop->text.n && stop->text.n > longest) {
            longest = stop->text.n;
            s->stop = i;
        }
    }
    return longest;
}

/* Bytes of 'held' that may go, having looked at those from 'from' on. */
static size_t releasable(fx_stream *s, size_t from, bool may_stop, bool last)
{
    int32_t hold = 0;

    for (size_t i = from; may_stop && i < s->held.n; i++) {
        size_t match = step_stops(s, s->held.p[i]);

        if (match > 0)
            return i + 1 - match;
    }
    for (int32_t i = 0; i < s->stops->n; i++) {
        if (!may_stop)
            s->matched[i] = 0;
        hold = FX_MAX(hold, s->matched[i]);
    }
    return last ? s->held.n : s->held.n - (size_t)hold;
}

static bool release(fx_stream *s, size_t from, bool may_stop, bool last)
{
    size_t n;

    if (s->held.failed)
        return false;
    n = releasable(s, from, may_stop, last);
    fx_buf_add(&s->out, s->held.p ? s->held.p : "", n);
    if (s->held.n > n)
        memmove(s->held.p, s->held.p + n, s->held.n - n);
    s->held.n -= n;
    return !s->out.failed;
}

bool fx_stream_push(fx_stream *s, int32_t id, bool may_stop)
{
    size_t from = s->held.n;

    FX_ASSERT(s->stop < 0);
    fx_buf_clear(&s->out);
    if (!s->tokenizer)
        return true;
    fx_detok_push(&s->detok, id, &s->held);
    return release(s, from, may_stop, false);
}

bool fx_stream_finish(fx_stream *s, bool may_stop)
{
    size_t from = s->held.n;

    fx_buf_clear(&s->out);
    if (!s->tokenizer || s->stop >= 0)
        return true;
    fx_detok_flush(&s->detok, &s->held);
    return release(s, from, may_stop, true);
}
