/* gen_int.h - what gen.c (requests) and answer.c (their answers) share. */
#ifndef FX_GEN_INT_H
#define FX_GEN_INT_H

#include "server/gen.h"

/* A tool call; its arguments are gathered when not streaming. */
typedef struct fx_gen_call {
    char id[40];
    fx_buf name, arguments;
} fx_gen_call;

/* One choice of one prompt. */
typedef struct fx_gen_choice {
    fx_gen *gen;
    size_t index;
    fornax_reply *reply;         /* takes chat replies apart; NULL: the text is the answer */
    FX_VEC(fx_gen_call) calls;
    FX_VEC(int32_t) ids;         /* of a reply that is taken apart: all that was written */
    fx_buf thought;              /* gathered, when not streaming */
    fx_buf text;                 /* gathered, when not streaming */
    fx_buf lp;                   /* chat: objects of "content"; completions: tokens */
    fx_buf lp_values, lp_top, lp_offsets;    /* completions */
    size_t offset;               /* characters of text shown so far */
    bool begun;                  /* its first chunk is out */
    fornax_finish finish;
} fx_gen_choice;

typedef struct fx_gen_prompt_state {
    int32_t *ids;
    size_t n_ids;
    fx_buf text;                 /* echo */
    fornax_request *req;
    bool done;
} fx_gen_prompt_state;

struct fx_gen {
    fx_call *call;
    bool chat, stream, include_usage, echo, logprobs, failed;
    bool first_seen;             /* a token came */
    bool lost;                   /* memory ran out for part of the answer */
    int64_t created;
    size_t held;                 /* bytes gathered for a whole answer */
    fx_job job;
    fx_str model;                /* as the client named it */
    fornax_turn *turn;           /* chat: what replies may be */
    fornax_grammar *grammar;     /* completions: what the text is held to, or NULL */
    fx_lora *lora;               /* which that is, or NULL */
    fornax_request_options opt;
    FX_VEC(fornax_string) stops;
    FX_VEC(int32_t) stop_ids;
    FX_VEC(fornax_logit_bias) bias;
    char *salt;
    FX_VEC(fx_gen_prompt_state) prompts;
    fx_gen_choice *choices;      /* [prompts * n] */
    size_t n_done;
    int64_t prompt_tokens, cached_tokens, generated_tokens;
    size_t truncated;            /* tokens of the conversation that were left out */
    uint64_t news_ns;            /* when something was last sent, or it began */
};

/* answer.c: an event of a choice becomes chunks, or is gathered; what ends an answer. */
fx_status fx_answer_begin(fx_gen *g, fx_error *err);       /* the choices, ready for events */
void fx_answer_free(fx_gen *g);
void fx_answer_event(fx_gen *g, size_t index, const fornax_event *e);
void fx_answer_whole(fx_gen *g);
void fx_answer_end_stream(fx_gen *g);

#endif
