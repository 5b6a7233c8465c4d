/* rpc.h - JSON-RPC 2.0 over lines, from a program that isn't trusted: bytes in, messages out.
 *
 *     fx_rpc_feed(&r, bytes);
 *     while (fx_rpc_next(&r, &m) != FX_RPC_NONE) { ...; fx_rpc_message_done(&m); }
 *
 * A line is a message, or a list of messages.  What is none is FX_RPC_BAD with a reason; reading goes on behind it.  No
 * line is held beyond the limit. */
#ifndef FX_RPC_H
#define FX_RPC_H

#include <jansson.h>

#include "base/str.h"

#define FX_RPC_LINE ((size_t)8 << 20)

typedef enum fx_rpc_kind { FX_RPC_NONE, FX_RPC_RESPONSE, FX_RPC_REQUEST, FX_RPC_NOTIFICATION, FX_RPC_BAD } fx_rpc_kind;

typedef struct fx_rpc_message {
    json_t *json;                /* an object; NULL: FX_RPC_BAD */
    int64_t id;                  /* of a response; -1: not one of ours */
    const char *method;          /* of requests and notifications */
    char why[160];               /* FX_RPC_BAD */
} fx_rpc_message;

typedef struct fx_rpc_reader {
    fx_buf held;
    size_t limit, at;            /* held[at..): no message yet */
    size_t seen;                 /* held[at..seen) has no end of a line */
    bool skipping;               /* inside a line that is too long */
    json_t *batch;               /* a list whose messages from 'batch_at' on are to come */
    size_t batch_at;
} fx_rpc_reader;

void fx_rpc_init(fx_rpc_reader *r, size_t limit);
void fx_rpc_done(fx_rpc_reader *r);
bool fx_rpc_feed(fx_rpc_reader *r, fx_str bytes);     /* false: no memory */
fx_rpc_kind fx_rpc_next(fx_rpc_reader *r, fx_rpc_message *m);
void fx_rpc_message_done(fx_rpc_message *m);

#endif
