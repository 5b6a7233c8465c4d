/* server.h - the OpenAI-protocol server: one entry point for the program. */
#ifndef FX_SERVER_H
#define FX_SERVER_H

#include "fornax.h"

typedef struct fx_server_lora {
    const char *name, *path;
    double scale;                /* 0: 1 */
} fx_server_lora;

typedef struct fx_server_options {
    const char *host;            /* "127.0.0.1" */
    int port;                    /* 8000; 0: any free one */
    const char *const *names;    /* the model's names; the first is shown */
    size_t n_names;
    const fx_server_lora *loras; /* adapters that requests choose by name */
    size_t n_loras;
    const char *lora_dir;        /* clients may load adapters from below it; NULL: they may not */
    int lenient_fields;          /* accept unknown request fields, reported in a header */
    size_t max_body_bytes;       /* of a request; 0: 64 MiB */
    int max_connections;         /* 0: 1024 */
    int idle_timeout_s;          /* of a connection; 0: 60 */
    int keep_alive_s;            /* a stream silent for so long gets a comment; 0: never */
    int stall_ms;                /* health fails when the engine has work and does nothing for so long; 0: 20 s */
    int any_dimensions;          /* embeddings may be shortened though the model isn't marked for it */
    int grace_ms;                /* when stopping: what runs may still finish for so long */
    const fornax_policy *policy; /* what chat requests may call; NULL: whatever tools they bring */
    void (*audit)(void *user, const char *line);   /* a line for each of them: what was open and why not */
    void *audit_user;
    double default_temperature;  /* when the request has none; < 0: 1, as the protocol says */
    /* Called once when listening, with the port in use. */
    void (*ready)(void *user, int port);
    void *ready_user;
    int (*stopping)(void *user); /* asked several times a second; nonzero: finish and return */
    void *stopping_user;
    void (*log)(void *user, const char *line);   /* one line a request, or NULL */
    void *log_user;
} fx_server_options;

/* Serves 'engine' until stopping() says so. FORNAX_EIO: can't listen (text says where). */
fornax_status fx_server_run(fornax_engine *engine, const fx_server_options *opt, fornax_error *err);

#endif
