/* reply_int.h - what reply.c and the forms of calls share. */
#ifndef FX_REPLY_INT_H
#define FX_REPLY_INT_H

#include "agent/reply.h"

/* Scans one JSON value; resumes where it stopped. */
typedef struct fx_json_scan {
    size_t at;                       /* next byte to look at */
    int depth;
    bool started, in_string, escaped, scalar, done;
} fx_json_scan;
typedef enum fx_scan { FX_SCAN_MORE, FX_SCAN_DONE, FX_SCAN_BAD } fx_scan;
/* DONE: the value ends at s->at. last: nothing follows 'text' (ends a bare number). */
fx_scan fx_json_scan_value(fx_json_scan *s, fx_str text);

/* An object {"name": ..., "arguments": ...}, scanned member by member. */
typedef struct fx_call_scan {
    int phase;
    size_t at, key_from, key_to, value_from;
    fx_json_scan value;
    bool has_name, has_args, args_open;
    size_t name_from, name_to;       /* with the quotes */
    size_t args_from, args_to;       /* args_to: scanned so far while args_open */
} fx_call_scan;
fx_scan fx_call_scan_object(fx_call_scan *s, fx_str text, const char *name_key, const char *args_key);

typedef enum fx_reply_mode { FX_IN_TEXT, FX_IN_THOUGHT, FX_IN_SECTION, FX_IN_CALL, FX_IN_HEADER, FX_IN_BODY } fx_reply_mode;

struct fx_reply {
    const fx_mem *mem;
    fx_reply_options o;
    fx_reply_mode mode;
    fx_buf held;                     /* what isn't given out yet; a call from its first tag on */
    fx_buf scratch;
    size_t body;                     /* in held: where the call's body begins */
    fx_call_scan scan;
    fx_json_scan value;
    size_t sent;                     /* of the arguments: up to here in held */
    int32_t n_calls;
    bool open, any;                  /* FX_PART_CALL was given; some text was given */
    bool skip_blanks, thought_begun; /* leading line ends are left out */
    bool failed;
    fx_part_kind channel;            /* FX_IN_BODY: what it is */
};

void fx_reply_give(fx_reply *r, fx_part_kind kind, fx_str text);
/* The call in r->held from r->body on. DONE: *end is behind it, close tag included. */
fx_scan fx_body_json(fx_reply *r, bool last, size_t *end);
fx_scan fx_body_name_json(fx_reply *r, bool last, size_t *end);
fx_scan fx_body_xml_pairs(fx_reply *r, bool last, size_t *end);
fx_scan fx_body_xml_function(fx_reply *r, bool last, size_t *end);
fx_scan fx_body_xml_invoke(fx_reply *r, bool last, size_t *end);
fx_scan fx_body_python(fx_reply *r, bool last, size_t *end);

/* A tag of the codec without the blanks around it. */
fx_str fx_tag(const char *tag);
const json_t *fx_tool_find(const json_t *tools, fx_str name);    /* its "function"; NULL: no such tool */
/* A value written as plain text: JSON where the tool's schema doesn't say string and it parses, else a string. */
void fx_put_value(fx_buf *out, const json_t *function, fx_str key, fx_str value);

#endif
