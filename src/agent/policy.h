/* policy.h - which tools a reply may call, and with which arguments: rules as data, judged from the transcript.
 *
 *     {"default": "never",
 *      "tools": {"get_order_status": {"open": "always"},
 *                "issue_refund_quote": {"confirmed": "Yes, refund order {order_id}",
 *                                       "same_as": {"order_id": "get_order_status.order_id"}}}}
 *
 * All of a tool's rules must hold; docs/gates.md says what each means.  What is open goes into the grammar of the
 * turn, and what the rules bind is a constant there: nothing else can be spoken. */
#ifndef FX_POLICY_H
#define FX_POLICY_H

#include <jansson.h>

#include "base/status.h"
#include "base/str.h"

typedef struct fx_policy fx_policy;
fx_status fx_policy_new(fx_policy **out, const fx_mem *mem, fx_str json, fx_error *err);   /* err->param: a JSON pointer */
void fx_policy_free(fx_policy *p);

typedef struct fx_gates {
    json_t *tools;           /* the open ones, their schemas narrowed; new */
    json_t *report;          /* {"open": [{"name", "arguments"}], "closed": [{"name", "why"}]}; new */
    bool single;             /* an open tool may be called only once more */
} fx_gates;
/* tools: checked by fx_turn_check. messages: a list, or NULL for none. */
fx_status fx_policy_judge(fx_gates *out, const fx_policy *p, const json_t *tools, const json_t *messages, fx_error *err);
void fx_gates_done(fx_gates *g);

/* ---- For policy.c and gate.c ---- */

struct fx_policy {
    const fx_mem *mem;
    json_t *rules;           /* valid */
};
/* "Refund {order_id} now" against a text: each {NAME} stands for letters, digits, '_' and '-'. bound: gets the texts by name. */
bool fx_policy_matches(const char *pattern, fx_str text, json_t *bound);

#endif
