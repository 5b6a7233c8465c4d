/* routes.c - the list of routes: a route is a file and a line here. */
#include "server/http.h"

extern const fx_route fx_route_page, fx_route_chat, fx_route_completions, fx_route_models, fx_route_model,
    fx_route_health, fx_route_metrics, fx_route_embeddings, fx_route_load_lora, fx_route_unload_lora;

const fx_route *const fx_routes[] = {
    &fx_route_page,
    &fx_route_chat,
    &fx_route_completions,
    &fx_route_embeddings,
    &fx_route_models,
    &fx_route_model,
    &fx_route_load_lora,
    &fx_route_unload_lora,
    &fx_route_health,
    &fx_route_metrics,
    NULL,
};
