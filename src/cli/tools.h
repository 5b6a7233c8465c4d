/* tools.h - the tools of `fornax agent`: commands and servers named in a JSON file (docs/agent.md).
 *
 *     FX_TRY(fx_tools_read(&t, text, path, err));        checked whole: an error names the JSON pointer
 *     FX_TRY(fx_tools_start(&t, log_to, err));           servers are started, their tools listed
 *     fx_tool_run(tool, arguments, &content);            never fails: what goes wrong is for the model to read
 *     fx_tools_done(&t); */
#ifndef FX_TOOLS_H
#define FX_TOOLS_H

#include <jansson.h>

#include "base/status.h"
#include "base/str.h"
#include "cli/mcp.h"

typedef struct fx_tool_server {
    const char *name;
    const json_t *spec;          /* of the file */
    const char **argv;
    fx_mcp *mcp;
} fx_tool_server;

typedef struct fx_tool {
    const char *name;            /* what the model calls it */
    json_t *declared;            /* {"type": "function", "function": {...}} */
    const json_t *spec;          /* of a command */
    fx_tool_server *server;      /* of a server's; then spec is NULL */
    const char *server_name;     /* what it is called there */
    double timeout_s;
    size_t max_output;
    bool allowed;                /* to run without asking */
} fx_tool;

typedef struct fx_tools {
    const char *path;
    json_t *file;
    FX_VEC(fx_tool) list;
    FX_VEC(fx_tool_server) servers;
} fx_tools;

fx_status fx_tools_read(fx_tools *t, fx_str json, const char *path, fx_error *err);
fx_status fx_tools_start(fx_tools *t, int log_to, fx_error *err);
/* Some server changed its tools: the list is made anew, as its allowances. */
fx_status fx_tools_refresh(fx_tools *t, bool *changed, fx_error *err);
fx_tool *fx_tools_find(const fx_tools *t, fx_str name);
/* Declarations as a list, new; NULL: no memory. */
json_t *fx_tools_declared(const fx_tools *t);
void fx_tools_drop(fx_tools *t, size_t i);
void fx_tools_done(fx_tools *t);

/* What the tool says, or {"error": ...}, appended. False: it was interrupted. */
bool fx_tool_run(const fx_tool *tool, const json_t *arguments, fx_buf *content);
/* {"error": text}. */
void fx_tool_error(fx_buf *content, const char *text);
/* The arguments put into a command's "argv": strings to be freed, ending with NULL. FORNAX_EARG: they can't be. */
fx_status fx_tool_argv(char ***argv, const fx_tool *tool, const json_t *arguments, fx_error *err);
void fx_tool_argv_free(char **argv);

#endif
