/* emitted.h - the tokens of replies with tool calls, by the id of their first call.
 *
 * A conversation that comes back with such a call gets the tokens as they were written, so that it finds its pages and the
 * model sees its own words. Bounded: the oldest go first. Any thread. */
#ifndef FX_EMITTED_H
#define FX_EMITTED_H

#include <jansson.h>
#include <pthread.h>

#include "base/str.h"

#define FX_EMITTED_REPLIES 4096
#define FX_EMITTED_TOKENS ((size_t)4 << 20)

typedef struct fx_emitted_reply {
    uint64_t key;                /* hash of the call's id; 0: empty */
    char *call;
    int32_t *ids;
    size_t n;
} fx_emitted_reply;

typedef struct fx_emitted {
    pthread_mutex_t lock;
    fx_emitted_reply *ring;      /* [FX_EMITTED_REPLIES], made when first needed */
    size_t next, oldest;         /* where the next one goes, which goes first: counted on, not around */
    size_t tokens;
} fx_emitted;

void fx_emitted_init(fx_emitted *e);
void fx_emitted_done(fx_emitted *e);
/* Without memory nothing is kept. */
void fx_emitted_add(fx_emitted *e, const char *call, const int32_t *ids, size_t n);
/* Gives the messages that bring such a call back their "emitted" (fornax_prompt_render), and takes it from all others: it
 * isn't a client's to say. False: no memory. */
bool fx_emitted_attach(fx_emitted *e, json_t *messages);

#endif
