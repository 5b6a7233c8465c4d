/* reply.h - a model's reply, as it streams in, taken apart: thoughts, text, tool calls.
 *
 *     fx_reply *r = fx_reply_new(mem, &options);
 *     fx_reply_feed(r, piece);  ...                 parts come through options.part
 *     fx_reply_end(r);
 *     fx_reply_free(r);
 *
 * Never fails for what the model wrote: what doesn't parse as a call is text.  Parts come as soon as they
 * are certain; where the pieces are cut changes how text is cut into parts, never what the parts join to.
 * Arguments that the model writes as JSON come out byte for byte as it wrote them. */
#ifndef FX_REPLY_H
#define FX_REPLY_H

#include <jansson.h>

#include "agent/codec.h"

typedef enum fx_part_kind {
    FX_PART_TEXT,          /* text for the reader */
    FX_PART_THOUGHT,
    FX_PART_CALL,          /* a call begins; text: the tool's name */
    FX_PART_ARGUMENTS,     /* a piece of its arguments: JSON text */
    FX_PART_CALL_END       /* text: all bytes of the call as the model wrote them, tags included */
} fx_part_kind;

typedef struct fx_part {
    fx_part_kind kind;
    int32_t call;          /* 0, 1, ...; -1: not of a call */
    fx_str text;
} fx_part;

typedef struct fx_reply_options {
    const fx_codec *codec;
    const json_t *tools;   /* the request's list (borrowed), for names and argument types; NULL: calls are text */
    bool thinking;         /* the prompt has opened a thought */
    bool keep_thoughts;    /* thoughts are text */
    void (*part)(void *user, const fx_part *part);
    void *user;
} fx_reply_options;

typedef struct fx_reply fx_reply;
fx_reply *fx_reply_new(const fx_mem *mem, const fx_reply_options *options);    /* NULL: no memory */
bool fx_reply_feed(fx_reply *r, fx_str piece);                                 /* false: no memory */
bool fx_reply_end(fx_reply *r);
void fx_reply_free(fx_reply *r);

#endif
