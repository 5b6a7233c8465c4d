/* route_models.c - GET /v1/models and /v1/models/{id}: the model by its names, and its adapters. */
#include <stdlib.h>

#include "server/fields.h"
#include "server/http.h"

/* lora NULL: the model itself. */
static json_t *model_object(const fx_http *h, const char *name, const fx_lora *lora)
{
    fornax_engine_stats s = FORNAX_OPTIONS(fornax_engine_stats);

    fornax_engine_get_stats(h->engine, &s);
    return json_pack("{s:s, s:s, s:I, s:s, s:I, s:s, s:s?}", "id", name, "object", "model", "created",
                     (json_int_t)(lora ? lora->created : h->started), "owned_by", "fornax", "max_model_len",
                     (json_int_t)s.context_tokens, "root", lora ? lora->path : h->opt.names[0],
                     "parent", lora ? h->opt.names[0] : NULL);
}

static void models(fx_call *c)
{
    json_t *list = json_array();
    fx_error err = { 0 };
    size_t n;
    fx_lora **loras = fx_loras_all(&c->http->loras, &n);

    if (!loras) {
        json_decref(list);
        fx_nomem(&err, "the answer");
        fx_reply_error(c, &err);
        return;
    }
    for (size_t i = 0; i < c->http->opt.n_names; i++)
        json_array_append_new(list, model_object(c->http, c->http->opt.names[i], NULL));
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(list, model_object(c->http, loras[i]->name, loras[i]));
        fx_lora_drop(loras[i]);
    }
    free(loras);
    fx_reply_json(c, 200, json_pack("{s:s, s:o}", "object", "list", "data", list));
}

static void model(fx_call *c)
{
    fx_str given = fx_str_of(c->path + strlen("/v1/models/")), name;
    fx_error err = { 0 };
    fx_lora *lora;

    if (fx_lora_find(&c->http->loras, given, &lora, &name, &err) != FORNAX_OK) {
        fx_reply_error(c, &err);
        return;
    }
    fx_reply_json(c, 200, model_object(c->http, name.p, lora));
    fx_lora_drop(lora);
}

const fx_route fx_route_models = { "GET", "/v1/models", false, models, false };
const fx_route fx_route_model = { "GET", "/v1/models/", true, model, false };
