/* kept.h - replies in a rendered conversation, token for token as the model wrote them.
 *
 * An assistant's message may have "emitted": the ids that the model wrote for it.
 *
 *     FX_TRY(fx_kept_take(&kept, tok, request, err));     out of the messages: the template doesn't see them
 *     ... the request is rendered into 'r' ...
 *     FX_TRY(fx_kept_place(&kept, &r, err));              where in it they belong
 *     FX_TRY(fx_kept_encode(&kept, &r, &ids, err));       text and ids with them in their places
 *     fx_kept_done(&kept); */
#ifndef FX_KEPT_H
#define FX_KEPT_H

#include "api/api.h"

typedef struct fx_kept_prefix {
    size_t n;                    /* SIZE_MAX: not known */
    fx_hash128 hash;
} fx_kept_prefix;

typedef struct fx_kept_reply {
    size_t message;              /* its index */
    size_t nth;                  /* of the assistant's messages */
    fx_ids ids;                  /* what the model wrote, without the end token */
    int32_t end_id;              /* that, or -1 */
    bool same, thinks;           /* it says what its message says; it has a thought */
    /* What it was written behind, by length and hash; and that without the thought which the prompt had opened. */
    fx_kept_prefix before, cut;
    size_t from;                 /* ids[from..] stand for ... */
    fx_span place;               /* ... this part of the rendered text */
    bool placed;
} fx_kept_reply;

typedef struct fx_kept {
    const fornax_tokenizer *tok;
    const fx_codec *codec;
    bool special;                /* control tokens belong to replies' text */
    fx_buf header;               /* what the template writes before every reply; empty: not always the same */
    size_t header_cut;           /* of it without a thought that it opens */
    size_t n_assistant;
    json_t *request;             /* borrowed, and changed: "emitted" goes, thoughts of kept replies come back */
    FX_VEC(fx_kept_reply) replies;
} fx_kept;

/* FORNAX_EARG: "emitted" isn't a list of the tokenizer's ids. */
fx_status fx_kept_take(fx_kept *k, const fornax_tokenizer *tok, json_t *request, fx_error *err);
fx_status fx_kept_place(fx_kept *k, const fx_rendered *r, fx_error *err);
fx_status fx_kept_encode(const fx_kept *k, fx_rendered *r, fx_ids *ids, fx_error *err);
void fx_kept_done(fx_kept *k);

/* The request as text (prompt.c). */
fx_status fx_api_render(fx_rendered *out, const fornax_tokenizer *tok, json_t *request, fx_error *err);

#endif
