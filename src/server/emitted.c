/* emitted.c - see emitted.h. A ring, searched by hash: a few thousand numbers are read faster than a map is kept. */
#include "server/emitted.h"

#include <stdlib.h>

#include "base/compiler.h"

void fx_emitted_init(fx_emitted *e)
{
    *e = (fx_emitted){ 0 };
    pthread_mutex_init(&e->lock, NULL);
}

static fx_emitted_reply *at(const fx_emitted *e, size_t i) { return &e->ring[i % FX_EMITTED_REPLIES]; }

static void drop_oldest(fx_emitted *e)
{
    fx_emitted_reply *r = at(e, e->oldest++);

    e->tokens -= r->n;
    free(r->call);
    free(r->ids);
    *r = (fx_emitted_reply){ 0 };
}

void fx_emitted_done(fx_emitted *e)
{
    while (e->oldest < e->next)
        drop_oldest(e);
    free(e->ring);
    pthread_mutex_destroy(&e->lock);
}

static uint64_t key_of(const char *call) { return fx_hash64(call, strlen(call), 0) | 1; }

void fx_emitted_add(fx_emitted *e, const char *call, const int32_t *ids, size_t n)
{
    fx_emitted_reply r = { key_of(call), strdup(call), malloc(n * sizeof *ids + 1), n };

    if (!r.call || !r.ids || n > FX_EMITTED_TOKENS) {
        free(r.call);
        free(r.ids);
        return;
    }
    memcpy(r.ids, ids, n * sizeof *ids);
    pthread_mutex_lock(&e->lock);
    if (!e->ring)
        e->ring = calloc(FX_EMITTED_REPLIES, sizeof *e->ring);
    while (e->oldest < e->next && (e->next - e->oldest == FX_EMITTED_REPLIES || e->tokens + n > FX_EMITTED_TOKENS))
        drop_oldest(e);
    if (e->ring) {
        *at(e, e->next++) = r;
        e->tokens += n;
        r = (fx_emitted_reply){ 0 };
    }
    pthread_mutex_unlock(&e->lock);
    free(r.call);
    free(r.ids);
}

/* Under the lock: the ids of a reply as a list, new; NULL: not known, or no memory. */
static json_t *find(const fx_emitted *e, const char *call, bool *failed)
{
    uint64_t key = key_of(call);
    size_t i = e->oldest;
    json_t *list;

    while (i < e->next && (at(e, i)->key != key || strcmp(at(e, i)->call, call) != 0))
        i++;
    if (i == e->next)
        return NULL;
    list = json_array();
    for (size_t k = 0; k < at(e, i)->n; k++)
        *failed |= json_array_append_new(list, json_integer(at(e, i)->ids[k])) != 0;
    return list;
}

bool fx_emitted_attach(fx_emitted *e, json_t *messages)
{
    bool failed = false;

    for (size_t i = 0; i < json_array_size(messages); i++) {
        json_t *m = json_array_get(messages, i), *list = NULL;
        const char *role = json_string_value(json_object_get(m, "role"));
        const char *call = json_string_value(json_object_get(json_array_get(json_object_get(m, "tool_calls"), 0), "id"));

        json_object_del(m, "emitted");
        if (!role || strcmp(role, "assistant") != 0 || !call)
            continue;
        pthread_mutex_lock(&e->lock);
        list = find(e, call, &failed);
        pthread_mutex_unlock(&e->lock);
        failed |= list && json_object_set_new(m, "emitted", list) != 0;
    }
    return !failed;
}
