/* places.h - which module of an adapter belongs to which tensor of a model.
 *
 * Adapters name modules as the hub's classes do ("model.layers.0.self_attn.q_proj"), or as
 * GGUF files ("blk.0.attn_q"); a model's file may be of the other kind, hold experts stacked
 * or apart, and its rows in another order.  So both are taken for places in the network, and
 * a link says which row of a module a row of a tensor is.
 *
 *     fx_place t = fx_place_of(&m, tensor, gguf_base), a = fx_place_of(&m, module, gguf_adapter);
 *     if (fx_place_link_of(&m, &t, FX_HALF_BOTH, &a, &link)) ... fx_place_row(&m, &link, i) ...
 */
#ifndef FX_PLACES_H
#define FX_PLACES_H

#include "models/models.h"

typedef enum fx_place_part {
    FX_PART_WHOLE,
    FX_PART_GATE, FX_PART_UP, FX_PART_DOWN, FX_PART_GATE_UP    /* of experts */
} fx_place_part;

typedef enum fx_half { FX_HALF_BOTH, FX_HALF_GATE, FX_HALF_UP } fx_half;    /* of a tensor of gate and up */

typedef struct fx_place {
    fx_str name;                 /* without ".weight" and what classes put in front */
    const char *role;            /* GGUF's name of it; NULL: not known, only equal names match */
    int64_t layer;               /* -1: not one of a layer's */
    fx_place_part part;
    int64_t expert;              /* -1: all, stacked */
    bool gguf;                   /* named and ordered as GGUF files are */
} fx_place;

typedef enum fx_place_order {
    FX_ORDER_SAME,
    FX_ORDER_TO_PAIRS, FX_ORDER_TO_HALVES,     /* rows of heads as GGUF permutes some, from the hub's; back */
    FX_ORDER_TO_ROWS, FX_ORDER_TO_GROUPS,      /* q, k and v of a fused tensor */
    FX_ORDER_STEP                              /* start + step * i */
} fx_place_order;

typedef struct fx_place_link {
    fx_place_order order;
    int64_t start, step;
} fx_place_link;

typedef struct fx_places {
    const fx_arch *arch;         /* NULL: an encoder */
    const fx_weights *weights;   /* the model's */
    const fx_model_params *params;
} fx_places;

/* The model's tensor of a place, by its role (suffix: ".weight", ".bias"); NULL: not known. */
const fx_weight *fx_place_tensor(const fx_places *m, const fx_place *p, const char *suffix);
/* The name is borrowed. */
fx_place fx_place_of(const fx_places *m, fx_str name, bool gguf);
/* False: they aren't the same place, or no order of rows leads from one to the other. Of stacked experts,
 * which of them is the caller's affair. */
bool fx_place_link_of(const fx_places *m, const fx_place *tensor, fx_half half, const fx_place *module,
                       fx_place_link *out);
/* Row i of the tensor (or of its half) is this row of the module. */
int64_t fx_place_row(const fx_places *m, const fx_place_link *link, int64_t i);

/* Of a name's experts: part, layer and expert, by the names that files have (model_moe.c). */
bool fx_expert_name(fx_str name, bool gguf, fx_place_part *part, int64_t *layer, int64_t *expert);
/* Whether a name is of a form ("blk.%d.attn_q"), and of which layer. */
bool fx_name_is(const char *form, fx_str name, int64_t *layer);
/* Of a role by a hub folder's names (any class's), or GGUF's (tensor_names.c; of encoders encoder.c); NULL: none. */
const char *fx_encoder_role_of(fx_str name, bool gguf, int64_t *layer);
const char *fx_role_of(const fx_arch *arch, fx_str name, bool gguf, int64_t *layer);
/* The architecture of a fx_model_desc; NULL: it is an encoder. */
const fx_arch *fx_arch_find(const char *name);
/* What general.architecture calls it; NULL: nothing. */
const char *fx_arch_gguf_name(const fx_arch *arch);
/* The name behind what classes put in front of it. */
fx_str fx_place_bare(fx_str name);

#endif
