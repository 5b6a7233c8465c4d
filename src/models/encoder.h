/* encoder.h - models that turn a text into one vector: BERT and its kin (models/ only).
 *
 * Every row sees its whole sequence, before and after it; there are no logits.  The step
 * graph's output is the last layer's rows, f32[outs,dim]. */
#ifndef FX_ENCODER_H
#define FX_ENCODER_H

#include "models/models.h"

/* Whether the file is one of them; *known: its architecture's name here. */
bool fx_encoder_known(const fx_weights *w, const char **known);
fx_status fx_encoder_build(fx_arena *arena, const fx_weights *w, const fx_model_options *opt, fx_model_desc *out,
                           fx_error *err);

#endif
