/* wanted.h - what a request says its text must be: response_format, regex, grammar, choice. */
#ifndef FX_WANTED_H
#define FX_WANTED_H

#include "server/gen.h"

typedef struct fx_wanted {
    bool on;
    const char *field;               /* of the body, that the text came from */
    fornax_grammar_options o;
    char *text;                      /* the source */
    size_t n;
} fx_wanted;

/* At most one of the fields. */
fx_status fx_wanted_read(fx_wanted *f, const fx_gen_body *b, fx_error *err);
void fx_wanted_free(fx_wanted *f);
/* A fault inside the format's text is named by its field: "response_format.json_schema.schema#/properties/a". */
void fx_wanted_fault(const fx_wanted *f, fx_error *err);

#endif
