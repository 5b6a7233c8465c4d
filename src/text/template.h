/* template.h - chat templates: a Jinja interpreter whose strings remember where they came from.
 *
 * Every string carries, byte range by byte range, whether it came from the
 * template or from data (messages, tools, kwargs); all operations keep that.
 * Rendering returns the text and the spans that are data, so that a message
 * can't forge a control token.  Rendering is byte-equal to the reference
 * (Jinja2 as Hugging Face sets it up: trim_blocks, lstrip_blocks, loopcontrols,
 * tojson without HTML escaping, strftime_now, raise_exception, generation tags).
 *
 *     fx_template *t;
 *     fx_template_parse(&t, mem, "chat_template", source, err);      line and column in errors
 *     fx_template_render(t, vars_json, &opt, &result, err);
 *
 * A parsed template is immutable: any thread may render it.  Rendering is bounded:
 * steps, output bytes, memory, recursion; over them is FORNAX_EFORMAT. */
#ifndef FX_TEMPLATE_H
#define FX_TEMPLATE_H

#include <jansson.h>

#include "base/diag.h"
#include "base/status.h"
#include "base/str.h"
#include "text/tokenizer.h"

typedef struct fx_template fx_template;

fx_status fx_template_parse(fx_template **out, const fx_mem *mem, const char *name, fx_str source, fx_error *err);
void fx_template_free(fx_template *t);

typedef struct fx_rendered {
    fx_buf text;
    struct { fx_span *at; size_t n, cap; } data;    /* ascending, disjoint, merged */
} fx_rendered;

typedef struct fx_render_options {
    const json_t *vars;        /* object: messages, tools, add_generation_prompt, documents, kwargs' entries: DATA */
    const json_t *trusted;     /* object: bos_token, eos_token, ... : counts as template text; may be NULL */
    int64_t now;               /* unix seconds for strftime_now (UTC) */
    size_t max_output;         /* bytes; 0: 64 MiB */
    uint64_t max_steps;        /* 0: 50 million */
    size_t max_memory;         /* bytes for values while rendering; 0: 512 MiB */
} fx_render_options;

/* raise_exception(msg) and undefined access are FORNAX_EFORMAT with the template's line and column. */
fx_status fx_template_render(const fx_template *t, const fx_render_options *opt, fx_rendered *out, fx_error *err);
void fx_rendered_done(fx_rendered *r, const fx_mem *mem);

/* The messages as templates expect them, as transformers prepares them: keys whose
 * value is null are dropped; reasoning, given as "reasoning_content", "thinking" or
 * "reasoning", is there under the first two names.  Returns yours through *out (it
 * shares the values); FORNAX_EARG where a message isn't an object. */
fx_status fx_template_messages(json_t **out, const json_t *messages, fx_error *err);

#endif
