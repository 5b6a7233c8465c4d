/* schema.c - JSON Schema to the grammar IR: the steps in order. */
#include "grammar/schema_int.h"

static bool init(fx_sc *c)
{
    fx_rune_range any = { 0, 0x10FFFF };
    fx_snode no = { .kind = FX_SNK_FALSE }, yes = { .kind = FX_SNK_TRUE };

    no.g = FX_GNODE_NEVER;
    no.rule = yes.g = yes.rule = FX_GNODE_FAIL;
    no.empty = 1;
    yes.empty = 2;
    fx_arena_init(&c->arena, c->mem, 0);
    fx_map_init(&c->by_uri, c->mem);
    fx_map_init(&c->dynamic, c->mem);
    fx_map_init(&c->scope_ids, c->mem);
    fx_map_init(&c->node_ids, c->mem);
    fx_map_init(&c->splits, c->mem);
    fx_map_init(&c->warned, c->mem);
    c->re_bytes = fx_re_pool_bytes(c->re);
    c->any_text = fx_re_any_text(c->re, FX_SPELL_JSON);
    c->any_char = fx_re_runes(c->re, FX_SPELL_JSON, &any, 1);
    if (!FX_VEC_PUSH(&c->nodes, c->mem, no) || !FX_VEC_PUSH(&c->nodes, c->mem, yes))
        return fx_sc_nomem(c);
    return fx_split_init(c);
}

static void done(fx_sc *c)
{
    fx_sc_refs_done(c);
    FX_VEC_FREE(&c->nodes, c->mem);
    fx_map_done(&c->node_ids);
    fx_map_done(&c->splits);
    fx_map_done(&c->warned);
    fx_arena_done(&c->arena);
}

fx_status fx_schema_build(fx_gnode *root, fx_gram_builder *b, const fx_mem *mem, fx_str text,
                          const fx_schema_options *options, fx_buf *warnings, fx_error *err)
{
    static const fx_schema_options defaults = { 0 };
    fx_sc c = { .mem = mem, .b = b, .re = fx_gram_regexes(b), .opt = options ? options : &defaults,
                .warnings = warnings, .err = err };
    const fx_jv *top;

    *root = FX_GNODE_NEVER;
    if (!c.opt->any_number)
        fx_re_pool_plain(c.re);
    if (init(&c) && fx_sc_index(&c, text)) {
        top = c.place = c.documents.at[0];
        *root = fx_sc_emit(&c, fx_sn_place(&c, top, 0));
    }
    if (!c.st && (*root == FX_GNODE_FAIL || fx_re_pool_failed(c.re)))
        fx_sc_over(&c, "states");
    if (!c.st && warnings && warnings->failed)
        fx_sc_nomem(&c);
    if (c.st)
        *root = FX_GNODE_NEVER;
    done(&c);
    return c.st;
}
