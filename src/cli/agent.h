/* agent.h - a conversation with tools: what `fornax agent` keeps of it, and the steps of a turn.
 *
 *     agent_reply.c   the conversation as a prompt; one reply of the model
 *     agent_calls.c   asks whether a tool may run, runs it
 *     agent_history.c the transcript: written as it goes, read again, checked
 *     cmd_agent.c     options, and who says what */
#ifndef FX_AGENT_H
#define FX_AGENT_H

#include "cli/lines.h"
#include "cli/tools.h"
#include "cli/transcript.h"

typedef struct fx_agent_opts {
    fx_model_opts model;
    fx_sampling_opts sampling;
    const char *tools, *policy, *transcript, *system, *prompt, *call, *log, *kwargs;
    fx_strs allow;
    int64_t max_rounds, max_turns;
    bool json, check;
} fx_agent_opts;

typedef struct fx_agent {
    const fx_agent_opts *opt;
    fornax_context *ctx;
    fornax_model *model;
    fornax_engine *engine;
    fornax_adapter *adapter;
    fornax_policy *policy;
    const fornax_tokenizer *tok;
    fx_tools tools;
    json_t *declared;            /* what the model is told of them */
    json_t *kwargs;              /* or NULL */
    json_t *messages;            /* as OpenAI's; the model's own have "emitted" too */
    int64_t now;                 /* when the conversation began: what templates take for the time */
    fx_transcript log;           /* fd -1: none */
    int64_t n_calls;             /* made so far: numbers their ids */
    bool streaming;              /* text is out whose line hasn't ended */
} fx_agent;

/* ---- agent_reply.c ---- */

/* The conversation up to message n, as the model is given it. */
fx_status fx_agent_prompt(fornax_prompt **out, const fx_agent *a, size_t n, fx_error *err);
/* "<n ids>:<hash>" of a prompt. */
void fx_agent_fingerprint(const fornax_prompt *p, char out[64]);
/* One reply, shown as it comes, added to the messages and the transcript.  choice: OpenAI's tool_choice as JSON.
 * FORNAX_ECANCEL: the user stopped it; what there was of it is kept. */
fx_status fx_agent_reply(fx_agent *a, const char *choice, fx_error *err);
/* Text for the reader, without what would steer a terminal. */
void fx_agent_show(fx_agent *a, fx_str text);
void fx_agent_end_line(fx_agent *a);

/* ---- agent_calls.c ---- */

/* Whether the last reply has calls that nobody answered. */
bool fx_agent_has_calls(const fx_agent *a);
/* Runs them, adds their results.  FORNAX_ECANCEL: the user stopped it; every call has a result all the same. */
fx_status fx_agent_run_calls(fx_agent *a, fx_error *err);

/* ---- agent_history.c ---- */

/* Opens the transcript, takes over what is in it. *resumed: there was something. */
fx_status fx_agent_open_history(fx_agent *a, bool *resumed, fx_error *err);
/* Adds to the messages, and with 'turn' (taken, or NULL) to the transcript. Takes 'message'. */
fx_status fx_agent_add(fx_agent *a, json_t *message, json_t *turn, fx_error *err);
fx_status fx_agent_tools_changed(fx_agent *a, fx_error *err);
/* Renders each prompt of the transcript again; *n: how many. FORNAX_EFORMAT: one came out differently. */
fx_status fx_agent_check_history(fx_agent *a, size_t *n, fx_error *err);
/* A JSON string of any bytes; what isn't UTF-8 is replaced. */
json_t *fx_agent_string(fx_str text);

#endif
