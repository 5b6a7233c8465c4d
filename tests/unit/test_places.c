/* test_places.c - which module of an adapter belongs to which tensor, by name; rows between hub and GGUF. */
#include "fxtest.h"
#include "models/places.h"

static fx_place at(const char *arch, const char *name, bool gguf)
{
    const fx_places m = { arch ? fx_arch_find(arch) : NULL, NULL, NULL };

    return fx_place_of(&m, fx_str_of(name), gguf);
}

TEST(places_by_name)
{
    static const struct { const char *arch, *name, *role; bool gguf; int64_t layer; } rows[] = {
        { "llama", "model.layers.12.self_attn.q_proj.weight", "attn_q", false, 12 },
        { "llama", "layers.0.mlp.down_proj", "ffn_down", false, 0 },
        { "llama", "model.language_model.layers.3.mlp.up_proj", "ffn_up", false, 3 },
        { "llama", "language_model.model.embed_tokens", "token_embd", false, -1 },
        { "llama", "lm_head", "output", false, -1 },
        { "llama", "blk.7.attn_k.weight", "attn_k", true, 7 },
        { "llama", "token_embd.weight", "token_embd", true, -1 },
        { "llama", "blk.7.attn_k", NULL, false, -1 },            /* GGUF's names are GGUF's */
        { "llama", "model.layers.self_attn.q_proj", NULL, false, -1 },
        { "llama", "model.layers.1x.self_attn.q_proj", NULL, false, -1 },
        { "llama", "model.layers.99999999999999999999.self_attn.q_proj", NULL, false, -1 },
        { "llama", "vision_tower.layers.0.self_attn.q_proj", NULL, false, -1 },
        { "gpt2", "transformer.h.1.attn.c_attn", "attn_qkv", false, 1 },
        { "gpt2", "h.1.mlp.c_proj", "ffn_down", false, 1 },
        { "opt", "model.decoder.layers.2.fc1", "ffn_up", false, 2 },
        { "gpt_neox", "gpt_neox.layers.2.attention.query_key_value", "attn_qkv", false, 2 },
        { NULL, "encoder.layer.4.attention.self.query", "q", false, 4 },
        { NULL, "bert.encoder.layer.4.output.dense.weight", "down", false, 4 },
        { NULL, "blk.4.ffn_down.weight", "down", true, 4 },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fx_place p = at(rows[i].arch, rows[i].name, rows[i].gguf);

        CHECK(!p.role == !rows[i].role && p.part == FX_PART_WHOLE);
        if (p.role && rows[i].role)
            CHECK_STR(p.role, rows[i].role);
        CHECK_EQ_I64(p.layer, rows[i].layer);
    }
}

TEST(experts_by_name)
{
    static const struct { const char *name; bool gguf; fx_place_part part; int64_t layer, expert; } rows[] = {
        { "model.layers.2.mlp.experts.17.gate_proj", false, FX_PART_GATE, 2, 17 },
        { "model.layers.2.block_sparse_moe.experts.3.w2.weight", false, FX_PART_DOWN, 2, 3 },
        { "model.layers.2.mlp.experts.gate_up_proj", false, FX_PART_GATE_UP, 2, -1 },
        { "model.layers.2.mlp.experts.gate_up_proj_blocks", false, FX_PART_GATE_UP, 2, -1 },
        { "model.layers.2.block_sparse_moe.input_linear.weight", false, FX_PART_GATE_UP, 2, -1 },
        { "blk.2.ffn_up_exps.weight", true, FX_PART_UP, 2, -1 },
        { "blk.2.ffn_gate.5.weight", true, FX_PART_GATE, 2, 5 },
        { "model.layers.2.mlp.experts", false, FX_PART_WHOLE, -1, -1 },
        { "model.layers.2.mlp.experts.gate_up_proj_bias", false, FX_PART_WHOLE, -1, -1 },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fx_place p = at("mixtral", rows[i].name, rows[i].gguf);

        CHECK(p.part == rows[i].part);
        CHECK_EQ_I64(p.layer, rows[i].layer);
        CHECK_EQ_I64(p.expert, rows[i].expert);
    }
}

/* Each order and its way back are each other's inverse, and q of two heads of four is as the converter has it. */
TEST(orders_of_rows)
{
    static const int64_t pairs[8] = { 0, 2, 1, 3, 4, 6, 5, 7 };
    fx_model_params p = { .heads = 4, .kv_heads = 2, .head_dim = 4, .v_dim = 4, .rot_dim = 4 };
    const fx_places m = { NULL, NULL, &p };
    const fx_place_link to = { FX_ORDER_TO_PAIRS, 0, 0 }, from = { FX_ORDER_TO_HALVES, 0, 0 };
    const fx_place_link rows = { FX_ORDER_TO_ROWS, 0, 0 }, groups = { FX_ORDER_TO_GROUPS, 0, 0 }, step = { FX_ORDER_STEP, 1, 2 };

    for (int64_t i = 0; i < 8; i++) {
        CHECK_EQ_I64(fx_place_row(&m, &to, i), pairs[i]);
        CHECK_EQ_I64(fx_place_row(&m, &from, fx_place_row(&m, &to, i)), i);
        CHECK_EQ_I64(fx_place_row(&m, &step, i), 1 + 2 * i);
    }
    for (int64_t i = 0; i < 8 * 4; i++)
        CHECK_EQ_I64(fx_place_row(&m, &groups, fx_place_row(&m, &rows, i)), i);
    CHECK_EQ_I64(fx_place_row(&m, &rows, 2 * 4), 4 * 4);         /* head 2 is the first of the second group */
    CHECK_EQ_I64(fx_place_row(&m, &rows, 4 * 4), 2 * 4);         /* k of the first group lies behind its q */
    CHECK_EQ_I64(fx_place_row(&m, &rows, 6 * 4 + 1), 3 * 4 + 1); /* and v behind that */
}

FXTEST_MAIN()
