/* route_models.c - GET /v1/models and /v1/models/{id}. */
#include "server/fields.h"
#include "server/http.h"

static json_t *model_object(const fx_http *h, const char *name)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:I}", "id", name, "object", "model", "created", (json_int_t)h->started,
                     "owned_by", "fornax", "max_model_len", (json_int_t)fornax_model_get_info(h->model)->max_context);
}

static void models(fx_call *c)
{
    json_t *list = json_array();

    for (size_t i = 0; i < c->http->opt.n_names; i++)
        json_array_append_new(list, model_object(c->http, c->http->opt.names[i]));
    fx_reply_json(c, 200, json_pack("{s:s, s:o}", "object", "list", "data", list));
}

static void model(fx_call *c)
{
    const char *name = c->path + strlen("/v1/models/");
    fx_error err = { 0 };

    for (size_t i = 0; i < c->http->opt.n_names; i++) {
        if (strcmp(name, c->http->opt.names[i]) == 0) {
            fx_reply_json(c, 200, model_object(c->http, name));
            return;
        }
    }
    fx_fail_param(&err, FORNAX_ENOTFOUND, "model", "model '%s': not served here", fx_show(fx_str_of(name)).z);
    fx_reply_error(c, &err);
}

const fx_route fx_route_models = { "GET", "/v1/models", false, models };
const fx_route fx_route_model = { "GET", "/v1/models/", true, model };
