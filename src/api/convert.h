/* convert.h - a hub folder seen as a GGUF (api/ only). */
#ifndef FX_CONVERT_H
#define FX_CONVERT_H

#include "api/api.h"

typedef struct fx_converted {
    fx_weights *w;               /* its tensors lie in the folder's files */
    const int64_t *turn;         /* as in fx_export, for each tensor */
    fx_arena arena;
} fx_converted;

/* 'folder' must outlive it. */
fx_status fx_api_convert(fornax_context *ctx, fx_weights *folder, fx_converted *out, fx_error *err);
void fx_api_converted_done(fx_converted *c);

#endif
