/* loras.h - the LoRA adapters that are served, by name, and which model a request means.
 *
 * A request holds what it was given (fx_lora_drop gives it back), so that an adapter which is
 * unloaded or replaced goes on serving those that began with it.
 *
 * Threads: any.  One lock guards the list; adapters are opened and closed outside it. */
#ifndef FX_LORAS_H
#define FX_LORAS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "base/status.h"
#include "base/str.h"
#include "fornax.h"
#include "server/server.h"

typedef struct fx_lora {
    char *name, *path;
    fornax_adapter *adapter;
    int64_t created;
    atomic_int refs;             /* the list's and one a request */
} fx_lora;

typedef struct fx_loras {
    pthread_mutex_t lock;
    FX_VEC(fx_lora *) list;      /* in the order they came */
    fornax_model *model;
    const fx_server_options *opt;
    char *root;                  /* lora_dir without links in it; NULL: nothing is loaded by request */
} fx_loras;

/* Opens those that the options name. */
fx_status fx_loras_start(fx_loras *l, fornax_model *model, const fx_server_options *opt, fx_error *err);
void fx_loras_stop(fx_loras *l);

/* replace: one of this name may be there, and makes way. */
fx_status fx_lora_load(fx_loras *l, fx_str name, const char *path, double scale, bool replace, fx_error *err);
fx_status fx_lora_unload(fx_loras *l, fx_str name, fx_error *err);
/* A path that a client gave, as one below lora_dir on which there is no link. */
fx_status fx_lora_path(const fx_loras *l, fx_str given, fx_buf *out, fx_error *err);

/* What a request's "model" means (given.p NULL: the model). *lora NULL: the model; *name as it is
 * served. FORNAX_ENOTFOUND: nothing of this name. */
fx_status fx_lora_find(fx_loras *l, fx_str given, fx_lora **lora, fx_str *name, fx_error *err);
void fx_lora_drop(fx_lora *lora);                    /* NULL is fine */
/* All of them, each to be dropped; a list of libc's memory, freed by the caller. NULL: no memory. */
fx_lora **fx_loras_all(fx_loras *l, size_t *n);

#endif
