/* stream.h - the token ids of one choice become text that may be released.
 *
 * Text is held back while it may be the beginning of a stop string, and ends before the
 * one that is complete first (of several that end at the same byte, the longest).  Whether
 * and where it stops depends on the text alone, not on how tokens cut it.
 *
 *     fx_stream_push(&s, id, true);
 *     s.out is what may be released now; s.stop >= 0: that stop string matched, it was the last
 *     fx_stream_finish(&s, true);         what was held back
 *
 * Threads: stops are immutable, a stream belongs to one thread at a time. */
#ifndef FX_STREAM_H
#define FX_STREAM_H

#include "base/status.h"
#include "base/str.h"
#include "text/tokenizer.h"

typedef struct fx_stop {
    fx_str text;                   /* zero-terminated */
    int32_t *border;               /* [n] longest proper prefix of text[0..i] that is its suffix */
} fx_stop;

typedef struct fx_stops {
    fx_stop *at;
    int32_t n;
    size_t longest;
} fx_stops;

/* Copies the strings into the arena. FORNAX_EARG (param "stop"): empty or not UTF-8. */
fx_status fx_stops_init(fx_stops *s, fx_arena *arena, const fornax_string *strings, size_t n, fx_error *err);

typedef struct fx_stream {
    const fx_stops *stops;
    const fx_tokenizer *tokenizer; /* NULL: no text */
    fx_detok detok;
    int32_t *matched;              /* [stops->n] bytes of each that the text ends with */
    fx_buf held, out;
    int32_t stop;                  /* index of the stop string that matched, or -1 */
} fx_stream;

fx_status fx_stream_init(fx_stream *s, const fx_mem *mem, fx_arena *arena, const fx_tokenizer *tokenizer,
                         const fx_stops *stops, fx_error *err);
void fx_stream_done(fx_stream *s);
/* may_stop false: the text of this token can't be part of a match. False: no memory. */
bool fx_stream_push(fx_stream *s, int32_t id, bool may_stop);
bool fx_stream_finish(fx_stream *s, bool may_stop);

#endif
