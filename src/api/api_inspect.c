/* api_inspect.c - fornax_inspect: the readable inside of a model file. */
#include "api/api.h"
#include "format/inspect.h"

fornax_status fornax_inspect(fornax_text **out, fornax_context *ctx, const char *path, int json, fornax_error *err)
{
    fx_weights *w = NULL;
    fx_buf b;
    fx_status st;

    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(ctx);
    FX_API_NEED(path);
    FX_TRY(fx_api_usable(ctx, err));
    FX_TRY(fx_weights_open(&w, &ctx->mem, path, FX_OPEN_INSPECT, err));
    fx_buf_init(&b, &ctx->mem);
    st = fx_inspect(w, json != 0, &b, err);
    if (st == FORNAX_OK)
        st = fx_api_text(out, &ctx->mem, &b, err);
    else
        fx_buf_done(&b);
    fx_weights_close(w);
    return st;
}
