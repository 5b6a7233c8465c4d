/* mcp.h - a client of the Model Context Protocol: a server that was started here, spoken to over its standard input and output.
 *
 *     fx_mcp *m;
 *     FX_TRY(fx_mcp_open(&m, &options, err));            starts it, agrees on a version, asks for its tools
 *     fx_mcp_tools(m)                                    [{"name", "description", "inputSchema"}, ...]
 *     fx_mcp_call(m, "add", arguments, &text, err);      an error is for the model to read
 *     fx_mcp_close(m);
 *
 * The server isn't trusted: lines have a limit, every answer a deadline, lists an end.  One that died or broke the protocol
 * stays known, and every call of it says why.  ^C ends a call (FORNAX_ECANCEL), not the server. */
#ifndef FX_MCP_H
#define FX_MCP_H

#include <jansson.h>

#include "base/status.h"
#include "base/str.h"

typedef struct fx_mcp fx_mcp;

typedef struct fx_mcp_options {
    const char *name;            /* for messages */
    const char *const *argv;     /* ends with NULL */
    const char *dir;
    const json_t *env;
    double start_timeout_s, timeout_s;
    size_t max_output;           /* bytes of an answer's text that are kept */
    int log_to;                  /* a descriptor for its standard error; -1: nowhere */
} fx_mcp_options;

/* Keeps the options' pointers until it's closed. */
fx_status fx_mcp_open(fx_mcp **out, const fx_mcp_options *o, fx_error *err);
const json_t *fx_mcp_tools(const fx_mcp *m);
/* Its tools changed and were asked for again, or it just said so: *changed. */
fx_status fx_mcp_refresh(fx_mcp *m, bool *changed, fx_error *err);
/* 'text' (initialized) gets what the tool says. FORNAX_EFORMAT: the tool itself reports an error, which is the text. */
fx_status fx_mcp_call(fx_mcp *m, const char *tool, const json_t *arguments, fx_buf *text, fx_error *err);
void fx_mcp_close(fx_mcp *m);

/* A result of tools/call as text. False: it reports an error. */
bool fx_mcp_result_text(fx_buf *out, const json_t *result);

#endif
