/* test_model_config.c - what config.json and GGUF metadata may say: wrong types, sizes out of range or at odds
 * with each other.  Each must be refused by a sentence that names the file's own key, or accepted.
 *
 * The models have no weights but the tables that some readers look at, so "loads" means that the configuration is accepted:
 * what comes next is a tensor that is missing.  tests/data/configs.jsonl has one configuration a line, all
 * architectures; FXTEST_LONG=1 tries more changes. */
#include "fxtest.h"

#include <time.h>

#include "format_files.h"
#include "models/models.h"

/* ---- Configurations -------------------------------------------------------------------------- */

enum { MAX_CONFIGS = 128, MEMORY = 8 << 20 };

static json_t *configs[MAX_CONFIGS];
static size_t n_configs;

static bool read_configs(void)
{
    fx_error err = { 0 };
    fx_buf b;
    char *line;

    if (n_configs)
        return true;
    fx_buf_init(&b, &fx_mem_libc);
    CHECK_OK(fx_file_read(&b, FXTEST_DATA "/configs.jsonl", 1 << 20, &err), err);
    for (line = b.p ? strtok(b.p, "\n") : NULL; line && n_configs < MAX_CONFIGS; line = strtok(NULL, "\n"))
        configs[n_configs++] = json_loads(line, 0, NULL);
    fx_buf_done(&b);
    return n_configs > 0;
}

static json_t *config_of(const char *name)
{
    for (size_t i = 0; i < n_configs; i++) {
        if (!strcmp(json_string_value(json_object_get(configs[i], "name")), name))
            return json_deep_copy(configs[i]);
    }
    return NULL;
}

/* Sets "a.b.c", making objects on the way; text "-": removes it. */
static void set(json_t *config, const char *path, const char *text)
{
    const char *dot;
    json_t *at = config, *next;

    for (; (dot = strchr(path, '.')); path = dot + 1, at = next) {
        next = json_object_getn(at, path, (size_t)(dot - path));
        if (json_is_object(next))
            continue;
        next = json_object();
        json_object_setn_new(at, path, (size_t)(dot - path), next);
    }
    if (!strcmp(text, "-"))
        json_object_del(at, path);
    else
        json_object_set_new(at, path, json_loads(text, JSON_DECODE_ANY, NULL));
}

/* ---- Trying one ------------------------------------------------------------------------------------ */

/* An allocator that has so much and no more: nothing may take memory by what a file claims. */
static void *limited(void *user, void *p, size_t old_size, size_t new_size)
{
    size_t *used = user;

    if (new_size > old_size && new_size - old_size > MEMORY - *used)
        return NULL;
    p = fx_mem_libc.fn(NULL, p, old_size, new_size);
    if (p || !new_size)
        *used += new_size - old_size;
    return p;
}

static fx_status try_open(const char *path, fx_error *err)
{
    static const fx_model_options opt = { .kv_auto = true };
    size_t used = 0;
    fx_mem mem = { limited, &used };
    clock_t start = clock();
    fx_weights *w = NULL;
    fx_model_desc d;
    fx_arena a;
    fx_status st;

    *err = (fx_error){ 0 };
    fx_arena_init(&a, &mem, 0);
    st = fx_weights_open(&w, &mem, path, 0, err);
    if (st == FORNAX_OK)
        st = fx_model_build(&a, w, &opt, &d, err);
    fx_weights_close(w);
    fx_arena_done(&a);
    CHECK_EQ_U64(used, 0);
    if (st == FORNAX_ENOMEM || (double)(clock() - start) / CLOCKS_PER_SEC > 2)
        FXTEST_FAIL("%.1f s: %s", (double)(clock() - start) / CLOCKS_PER_SEC, err->text);
    return st;
}

static bool accepted(fx_status st, const fx_error *err)
{
    return st == FORNAX_OK || strstr(err->text, "is missing") || strstr(err->text, "tensor ") ||
           strstr(err->text, ".weight: expected");
}

/* A folder with the tables that encoders look for, and room for a config.json. */
static bool open_folder(scratch *s)
{
    static const char head[] =
        "{\"embeddings.word_embeddings.weight\":{\"dtype\":\"F32\",\"shape\":[8,8],\"data_offsets\":[0,256]},"
        "\"encoder.layer.0.attention.output.dense.weight\":{\"dtype\":\"F32\",\"shape\":[8,8],\"data_offsets\":[256,512]},"
        "\"encoder.layers.0.attn.out_proj.weight\":{\"dtype\":\"F32\",\"shape\":[8,8],\"data_offsets\":[512,768]}}";
    fx_buf b;

    if (!scratch_open(s))
        return false;
    fx_buf_init(&b, &fx_mem_libc);
    safetensors(&b, head, 768);
    scratch_write(s, "model.safetensors", fx_buf_view(&b));
    fx_buf_done(&b);
    return true;
}

static void close_folder(scratch *s)
{
    scratch_remove(s, "config.json");
    scratch_remove(s, "model.safetensors");
    rmdir(s->dir);
}

static fx_status try_config(scratch *s, const json_t *config, fx_error *err)
{
    char *text = json_dumps(config, 0);

    scratch_write(s, "config.json", fx_str_of(text));
    free(text);
    return try_open(s->dir, err);
}

/* ---- config.json, by hand ---------------------------------------------------------------------- */

#define LOADS NULL
/* The configuration, the change (a path and a JSON text; "-": no such key), what the sentence has. */
static const struct { const char *name, *path, *value, *path2, *value2, *says; } hub[] = {
    { "llama3", "num_hidden_layers", "1000000000", NULL, NULL, "config.json: num_hidden_layers: number of layers: expected 1 to 4096" },
    { "llama3", "num_hidden_layers", "0", NULL, NULL, "num_hidden_layers: number of layers: expected 1" },
    { "llama3", "num_hidden_layers", "-1", NULL, NULL, "num_hidden_layers: number of layers: expected 1" },
    { "llama3", "num_hidden_layers", "1e300", NULL, NULL, "num_hidden_layers: expected an integer, found a number" },
    { "llama3", "num_hidden_layers", "2.5", NULL, NULL, "num_hidden_layers: expected an integer" },
    { "llama3", "num_hidden_layers", "2.0", NULL, NULL, LOADS },
    { "llama3", "num_hidden_layers", "[2]", NULL, NULL, "num_hidden_layers: expected an integer, found a list" },
    { "llama3", "num_hidden_layers", "-", NULL, NULL, "num_hidden_layers: expected an integer, found none" },
    { "llama3", "hidden_size", "-", NULL, NULL, "hidden_size: expected an integer, found none" },
    { "llama3", "hidden_size", "9223372036854775807", NULL, NULL, "config.json: hidden_size: embedding size" },
    { "llama3", "hidden_size", "\"64\"", NULL, NULL, "hidden_size: expected an integer, found a string" },
    { "llama3", "vocab_size", "2147483648", NULL, NULL, "vocab_size: vocabulary size" },
    { "llama3", "vocab_size", "2147483647", NULL, NULL, LOADS },           /* the table's shape is checked */
    { "llama3", "vocab_size", "-5", NULL, NULL, "vocab_size: vocabulary size" },
    { "llama3", "max_position_embeddings", "0", NULL, NULL, "max_position_embeddings: context length" },
    { "llama3", "max_position_embeddings", "1e12", NULL, NULL, "max_position_embeddings: context length" },
    { "llama3", "num_attention_heads", "0", NULL, NULL, "num_attention_heads: number of heads" },
    { "llama3", "num_attention_heads", "65", "head_dim", "-", "num_attention_heads: 65 heads of 64 columns" },
    { "llama3", "num_attention_heads", "3", NULL, NULL, "num_key_value_heads: expected heads to be a multiple" },
    { "llama3", "num_key_value_heads", "8", NULL, NULL, "num_key_value_heads: number of kv heads: expected 1 to 4" },
    { "llama3", "num_key_value_heads", "0", NULL, NULL, "num_key_value_heads: number of kv heads" },
    { "llama3", "num_key_value_heads", "null", NULL, NULL, LOADS },
    { "llama3", "head_dim", "0", NULL, NULL, "head_dim: key size of a head" },
    { "llama3", "head_dim", "-16", NULL, NULL, "head_dim: key size of a head" },
    { "llama3", "head_dim", "15", NULL, NULL, "head_dim: expected an even number" },
    { "llama3", "head_dim", "null", NULL, NULL, LOADS },
    { "llama3", "intermediate_size", "1e9", NULL, NULL, "intermediate_size: feed-forward size" },
    { "llama3", "rms_norm_eps", "-1e-5", NULL, NULL, "rms_norm_eps: epsilon of norms" },
    { "llama3", "rms_norm_eps", "1e300", NULL, NULL, "rms_norm_eps: epsilon of norms" },
    { "llama3", "rms_norm_eps", "0", NULL, NULL, LOADS },
    { "llama3", "rms_norm_eps", "-", NULL, NULL, LOADS },
    { "llama3", "tie_word_embeddings", "1", NULL, NULL, "tie_word_embeddings: expected a bool" },
    { "llama3", "hidden_act", "\"xielu\\n\"", NULL, NULL, "hidden_act: \"xielu?\" isn't supported" },
    { "llama3", "hidden_act", "7", NULL, NULL, "hidden_act: expected a string" },
    { "llama3", "sliding_window", "32", NULL, NULL, LOADS },
    { "llama3", "layer_types", "\"full_attention\"", NULL, NULL, "layer_types: expected a list of" },
    { "llama3", "layer_types", "[\"full_attention\"]", NULL, NULL, "layer_types: expected a list of" },
    { "llama3", "architectures", "[\"Nobody\\u0007ForCausalLM\"]", NULL, NULL, "architectures: \"Nobody?ForCausalLM\" isn't supported (known: " },
    { "llama3", "architectures", "\"LlamaForCausalLM\"", NULL, NULL, "architectures: expected a list" },
    { "llama3", "architectures", "[]", NULL, NULL, "architectures: expected a list" },
    { "llama3", "architectures", "[[[[\"x\"]]]]", NULL, NULL, "architectures: expected a list" },

    /* Rotation */
    { "qwen2", "rope_parameters", "null", "rope_theta", "0", "rope_theta: rope base: expected 1 to 1e+30, found 0" },
    { "qwen2", "rope_parameters", "null", "rope_theta", "1e-30", "rope_theta: rope base" },
    { "qwen2", "rope_parameters", "null", "rope_theta", "-10000", "rope_theta: rope base" },
    { "qwen2", "rope_parameters", "null", "rope_theta", "1e300", "rope_theta: rope base" },
    { "qwen2", "rope_parameters", "null", "rope_theta", "1", LOADS },
    { "qwen2", "rope_parameters", "null", "partial_rotary_factor", "1e300", LOADS },       /* all of a head rotates */
    { "phi3_longrope", "rope_scaling", "null", "partial_rotary_factor", "1e300", "partial_rotary_factor: rotated part" },
    { "phi3_longrope", "rope_scaling", "null", "partial_rotary_factor", "0", "partial_rotary_factor: rotated part" },
    { "phi3_longrope", "rope_scaling", "null", "partial_rotary_factor", "-0.5", "partial_rotary_factor: rotated part" },
    { "phi3_longrope", "rope_scaling", "null", "partial_rotary_factor", "0.2", "partial_rotary_factor: expected an even number" },
    { "qwen2", "rope_parameters", "{\"rope_type\": \"yarn\", \"rope_theta\": 1, \"factor\": 4}", NULL, NULL, LOADS },
    { "qwen2", "rope_parameters", "{\"rope_type\": \"yarn\", \"factor\": 0}", NULL, NULL, "rope_parameters.factor: expected a positive" },
    { "qwen2", "rope_parameters", "{\"rope_type\": \"yarn\", \"factor\": 4, \"attention_factor\": -1}", NULL, NULL, "rope_parameters.attention_factor" },
    { "qwen2", "rope_parameters", "{\"rope_type\": \"yarn\", \"factor\": 4, \"beta_fast\": \"32\"}", NULL, NULL, "rope_parameters.beta_fast: expected a number" },
    { "qwen2", "rope_parameters", "{\"rope_type\": \"linear\", \"factor\": 1e-5}", "max_position_embeddings", "1000000", "rope_parameters.factor: pair 0 of a head turns" },
    { "qwen2", "rope_parameters", "{\"rope_type\": \"linear\", \"factor\": -2}", NULL, NULL, "rope_parameters.factor" },
    { "qwen2", "rope_parameters", "{\"rope_type\": \"spiral\"}", NULL, NULL, "rope_parameters.rope_type: \"spiral\" isn't" },
    { "qwen2", "rope_parameters", "{\"rope_type\": 3}", NULL, NULL, "rope_parameters.rope_type: expected a string" },
    { "qwen2", "rope_parameters", "{\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, \"high_freq_factor\": 4,"
      " \"original_max_position_embeddings\": 64}", NULL, NULL, LOADS },
    { "qwen2", "rope_parameters", "{\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, \"high_freq_factor\": 4,"
      " \"original_max_position_embeddings\": 1e300}", NULL, NULL, "original_max_position_embeddings" },
    { "phi3_longrope", "rope_scaling.short_factor", "[1, 2]", NULL, NULL, "rope_scaling.short_factor: expected a list of" },
    { "phi3_longrope", "rope_scaling.long_factor", "7", NULL, NULL, "rope_scaling.long_factor: expected a list of" },

    /* Experts */
    { "mixtral", "num_experts_per_tok", "99", NULL, NULL, "num_experts_per_tok: experts of a row" },
    { "mixtral", "num_experts_per_tok", "0", NULL, NULL, "num_experts_per_tok: experts of a row" },
    { "mixtral", "num_local_experts", "1000000000", NULL, NULL, "num_local_experts: number of experts" },
    { "mixtral", "num_local_experts", "-1", NULL, NULL, "num_local_experts: number of experts" },
    { "qwen3_moe", "moe_intermediate_size", "-1", NULL, NULL, "moe_intermediate_size: feed-forward size of an expert" },
    { "qwen3_moe", "decoder_sparse_step", "-1", NULL, NULL, "decoder_sparse_step" },
    { "qwen3_moe", "mlp_only_layers", "[0.5]", NULL, NULL, "mlp_only_layers" },
    { "qwen3_moe", "mlp_only_layers", "7", NULL, NULL, "mlp_only_layers" },
    { "deepseek_v2", "n_shared_experts", "9223372036854775807", NULL, NULL, "n_shared_experts" },
    { "deepseek_v2", "n_group", "3", "topk_method", "\"group_limited_greedy\"", "n_group: " },
    { "deepseek_v2", "kv_lora_rank", "0", NULL, NULL, "kv_lora_rank: expected 1 to" },
    { "deepseek_v2", "qk_nope_head_dim", "-8", NULL, NULL, "qk_nope_head_dim: expected 1 to" },
    { "deepseek_v2", "v_head_dim", "1e9", NULL, NULL, "v_head_dim: expected 1 to" },
    { "deepseek_v2", "q_lora_rank", "-1", NULL, NULL, "q_lora_rank: expected 1 to" },
    { "deepseek_v2", "scoring_func", "\"sigmoid\"", NULL, NULL, "scoring_func: \"sigmoid\"" },
    { "gpt_oss", "swiglu_limit", "-7", NULL, NULL, "swiglu_limit" },

    /* Windows and kinds of layers */
    { "mistral", "sliding_window", "-1", NULL, NULL, "sliding_window: window of attention" },
    { "mistral", "sliding_window", "2147483648", NULL, NULL, "sliding_window: window of attention" },
    { "gemma3", "layer_types", "[\"sideways_attention\"]", NULL, NULL, "layer_types: expected a list" },
    { "gemma3", "layer_types.0", "1", NULL, NULL, "layer_types: expected a list" },
    { "gemma2", "attn_logit_softcapping", "1e-300", NULL, NULL, "attn_logit_softcapping: cap of scores" },
    { "gemma2", "final_logit_softcapping", "-30", NULL, NULL, "final_logit_softcapping: cap of logits" },
    { "gemma2", "query_pre_attn_scalar", "1e300", NULL, NULL, "query_pre_attn_scalar: factor of scores" },
    { "gemma3", "sliding_window", "-", NULL, NULL, LOADS },

    /* What single architectures read */
    { "granite", "logits_scaling", "0", NULL, NULL, "logits_scaling: expected other than 0" },
    { "granite", "embedding_multiplier", "1e300", NULL, NULL, "embedding_multiplier: factor of embeddings" },
    { "minicpm3", "dim_model_base", "0", NULL, NULL, "dim_model_base: expected a positive" },
    { "minicpm3", "scale_depth", "1e300", NULL, NULL, "scale_depth: expected" },
    { "minicpm3", "num_hidden_layers", "-", NULL, NULL, "num_hidden_layers: expected an integer, found none" },
    { "mamba", "expand", "1e300", NULL, NULL, "expand: expected 1 to" },
    { "mamba", "expand", "0", NULL, NULL, "expand: expected 1 to" },
    { "mamba", "conv_kernel", "65", NULL, NULL, "conv_kernel: width of the convolution" },
    { "mamba", "state_size", "0", NULL, NULL, "state_size: state size" },
    { "mamba", "time_step_rank", "-1", NULL, NULL, "time_step_rank" },
    { "mamba2", "num_heads", "7", NULL, NULL, "num_heads: 128 columns don't make 7 heads" },
    { "mamba2", "n_groups", "3", NULL, NULL, "n_groups: " },
    { "mamba2", "head_dim", "9223372036854775807", NULL, NULL, "head_dim" },
    { "mamba2", "time_step_limit", "[2, 1]", NULL, NULL, "time_step_limit" },
    { "jamba", "mamba_expand", "0", NULL, NULL, "mamba_expand: expected 1 to" },
    { "jamba", "mamba_expand", "9223372036854775807", NULL, NULL, "mamba_expand: expected 1 to" },
    { "jamba", "attn_layer_period", "0", NULL, NULL, "attn_layer_period: expected 1" },
    { "lfm2", "block_multiple_of", "0", "block_auto_adjust_ff_dim", "true", "block_multiple_of: expected 1 to" },
    { "lfm2", "block_ffn_dim_multiplier", "1e300", "block_auto_adjust_ff_dim", "true", "block_ffn_dim_multiplier" },
    { "smollm3", "no_rope_layers", "[1]", NULL, NULL, "no_rope_layers: expected a list of" },
    { "smollm3", "no_rope_layer_interval", "0", NULL, NULL, "no_rope_layer_interval: expected 1" },
    { "qwen3_next", "linear_num_value_heads", "3", NULL, NULL, "linear_num_value_heads: " },
    { "qwen3_next", "full_attention_interval", "0", NULL, NULL, "full_attention_interval" },
    { "gpt2", "n_embd", "9223372036854775807", "n_inner", "null", "n_embd: embedding size" },
    { "gpt2", "activation_function", "\"x\"", NULL, NULL, "activation_function: \"x\"" },
    { "falcon", "multi_query", "1", NULL, NULL, "multi_query: expected a bool" },
    { "opt", "word_embed_proj_dim", "-1", NULL, NULL, "word_embed_proj_dim: width of the embedding table" },

    /* Encoders */
    { "bert_minilm", "num_attention_heads", "0", NULL, NULL, "num_attention_heads: expected 1 to" },
    { "bert_minilm", "num_attention_heads", "3", NULL, NULL, "num_attention_heads: expected 64 columns to be a multiple of 3" },
    { "bert_minilm", "num_hidden_layers", "1000000000", NULL, NULL, "num_hidden_layers: expected 1 to 4096" },
    { "bert_minilm", "layer_norm_eps", "-1", NULL, NULL, "layer_norm_eps: expected 0 to" },
    { "bert_minilm", "hidden_act", "\"mish\"", NULL, NULL, "hidden_act: \"mish\"" },
    { "xlm_roberta", "pad_token_id", "-1", NULL, NULL, "pad_token_id: expected 0 to" },
    { "nomic_bert", "n_embd", "0", "hidden_size", "-", "n_embd: expected 1 to" },
    { "nomic_bert", "rope_parameters.rope_theta", "1e-300", NULL, NULL, "rope_parameters.rope_theta: expected 1 to" },
};

TEST(values_of_config_json)
{
    scratch s;

    REQUIRE(read_configs());
    REQUIRE(open_folder(&s));
    for (size_t i = 0; i < FX_COUNT(hub); i++) {
        json_t *c = config_of(hub[i].name);
        fx_error err;
        fx_status st;

        if (!c) {
            FXTEST_FAIL("no configuration %s", hub[i].name);
            continue;
        }
        set(c, hub[i].path, hub[i].value);
        if (hub[i].path2)
            set(c, hub[i].path2, hub[i].value2);
        st = try_config(&s, c, &err);
        if (hub[i].says ? st == FORNAX_OK || !strstr(err.text, hub[i].says) : !accepted(st, &err))
            FXTEST_FAIL("%s with %s = %s: \"%s\", expected \"%s\"", hub[i].name, hub[i].path, hub[i].value, err.text,
                        hub[i].says ? hub[i].says : "loads");
        json_decref(c);
    }
    close_folder(&s);
}

TEST(an_unknown_architecture_lists_the_known)
{
    json_t *c = read_configs() ? config_of("llama3") : NULL;
    fx_error err;
    scratch s;

    REQUIRE(c && open_folder(&s));
    set(c, "architectures", "[\"NobodyForCausalLM\"]");
    CHECK_EQ_I64(try_config(&s, c, &err), FORNAX_EUNSUP);
    for (size_t i = 0; i < fx_arch_count(); i++)
        CHECK(strstr(err.text, fx_arch_name(i)));
    json_decref(c);
    close_folder(&s);
}

/* ---- config.json, all keys and values ------------------------------------------------------------- */

/* tame: may well be right, or at odds only with other keys. */
static const struct { const char *text; bool tame; } values[] = {
    { "null", true },  { "0", true },    { "1", true },        { "3", true },    { "7", true },   { "0.5", true },
    { "2.5", true },   { "true", true }, { "false", true },    { "65537", true }, { "1e9", true }, { "-1", true },
    { "2147483647", true }, { "2147483648", true }, { "1e-300", true }, { "-0.0", true }, { "-1e300", false }, { "1e300", false },
    { "9223372036854775807", false }, { "-9223372036854775808", false }, { "\"x\"", false }, { "\"\"", false }, { "[]", false }, { "[1,2]", false },
    { "{}", false }, { "[[[[1]]]]", false },
};

static uint64_t state = 88172645463325252u;

static uint64_t draw(uint64_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % n;
}

static void check_one(scratch *s, const json_t *config, const char *key, const char *value, bool tame)
{
    fx_error err;
    fx_status st = try_config(s, config, &err);
    bool names = strstr(err.text, key) != NULL;

    if (accepted(st, &err) || (st != FORNAX_EINTERNAL && !strchr(err.text, '\n') && *err.text && (tame || names)))
        return;
    FXTEST_FAIL("%s: %s = %s: status %d: \"%s\"", json_string_value(json_object_get(config, "name")), key, value, (int)st, err.text);
}

/* Each key of an object in turn has each value. */
static void sweep(scratch *s, const json_t *config, json_t *object)
{
    const char *keys[64];
    const char *key;
    json_t *value;
    size_t n = 0;

    json_object_foreach(object, key, value) {
        if (n < FX_COUNT(keys) && strcmp(key, "name"))
            keys[n++] = key;
    }
    for (size_t i = 0; i < n; i++) {
        json_t *old = json_incref(json_object_get(object, keys[i]));

        for (size_t k = 0; k < FX_COUNT(values); k++) {
            json_object_set_new(object, keys[i], json_loads(values[k].text, JSON_DECODE_ANY, NULL));
            check_one(s, config, keys[i], values[k].text, values[k].tame);
        }
        json_object_set(object, keys[i], old);
        if (json_is_object(old))
            sweep(s, config, old);
        json_decref(old);
    }
}

TEST(every_key_with_every_value)
{
    bool everything = getenv("FXTEST_LONG") != NULL;
    scratch s;

    REQUIRE(read_configs());
    REQUIRE(open_folder(&s));
    for (size_t i = 0; i < n_configs; i += everything ? 1 : 6)
        sweep(&s, configs[i], configs[i]);
    close_folder(&s);
}

/* ---- Keys that the sources name ------------------------------------------------------------------- */

enum { MAX_KEYS = 1024 };

static char keys[MAX_KEYS][64];
static size_t n_keys;

/* Words in quotes that might be keys. */
static void add_words(const char *p)
{
    for (const char *q = strchr(p, '"'); q; q = strchr(p, '"')) {
        size_t n = strspn(q + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");

        p = q[1 + n] == '"' ? q + n + 2 : q + 1;
        if (q[1 + n] != '"' || n < 4 || n >= sizeof(keys[0]) || n_keys == MAX_KEYS)
            continue;
        memcpy(keys[n_keys], q + 1, n);
        keys[n_keys++][n] = 0;
    }
}

static void read_sources(void)
{
    static const char *const files[] = {
        "params", "model_rope", "model_mla", "encoder", "llama", "gemma", "gpt2", "gpt_neox", "falcon", "phi", "phi3", "qwen2", "qwen3",
        "qwen_moe", "qwen3_next", "granite", "granitemoe", "deepseek_v2", "mamba", "jamba", "lfm2", "minicpm3", "gpt_oss", "smollm3",
        "stablelm", "starcoder2", "opt", "bloom", "cohere", "nemotron", "olmo", "olmoe", "mixtral", "bitnet",
    };
    char path[512];
    fx_buf b;

    fx_buf_init(&b, &fx_mem_libc);
    for (size_t i = 0; i < FX_COUNT(files); i++) {
        fx_error err = { 0 };

        snprintf(path, sizeof(path), FXTEST_SOURCE "/src/models/%s.c", files[i]);
        fx_buf_clear(&b);
        CHECK_OK(fx_file_read(&b, path, 1 << 20, &err), err);
        if (b.p)
            add_words(b.p);
    }
    fx_buf_done(&b);
}

TEST(any_keys_together)
{
    int rounds = getenv("FXTEST_LONG") ? 40000 : 2000;
    scratch s;

    REQUIRE(read_configs());
    read_sources();
    REQUIRE(n_keys > 200 && open_folder(&s));
    for (int i = 0; i < rounds; i++) {
        json_t *c = json_deep_copy(configs[draw(n_configs)]);

        for (uint64_t k = draw(3) + 1; k > 0; k--)
            set(c, keys[draw(n_keys)], values[draw(FX_COUNT(values))].text);
        check_one(&s, c, "any", "any", true);
        json_decref(c);
    }
    close_folder(&s);
}

/* ---- GGUF ----------------------------------------------------------------------------------------- */

typedef struct value {
    fx_meta_type type;
    uint64_t bits;                   /* or of an array: how many zeros */
} value;

#define F32(bits) { FX_META_F32, bits }
#define U32(n) { FX_META_U32, n }

/* Keys behind the architecture's name, with what makes sense. */
static const struct { const char *key; value v; } usual[] = {
    { "embedding_length", U32(64) },         { "block_count", U32(2) },
    { "attention.head_count", U32(4) },      { "attention.head_count_kv", U32(2) },
    { "attention.key_length", U32(16) },     { "attention.value_length", U32(16) },
    { "feed_forward_length", U32(96) },      { "context_length", U32(512) },
    { "attention.layer_norm_rms_epsilon", F32(0x3727c5ac) }, { "attention.layer_norm_epsilon", F32(0x3727c5ac) },
    { "rope.freq_base", F32(0x461c4000) },   { "rope.dimension_count", U32(8) },
    { "expert_count", U32(4) },              { "expert_used_count", U32(2) },
    { "expert_feed_forward_length", U32(32) }, { "expert_shared_feed_forward_length", U32(32) },
    { "expert_shared_count", U32(1) },       { "expert_weights_scale", F32(0x3f800000) },
    { "leading_dense_block_count", U32(1) }, { "expert_group_count", U32(1) }, { "expert_group_used_count", U32(1) },
    { "attention.q_lora_rank", U32(32) },    { "attention.kv_lora_rank", U32(32) },
    { "attention.sliding_window", U32(32) }, { "attention.scale", F32(0x3e800000) },
    { "attention.clamp_kqv", F32(0x41000000) }, { "embedding_scale", F32(0x3f800000) },
    { "residual_scale", F32(0x3f800000) },   { "logit_scale", F32(0x3f800000) },
    { "attn_logit_softcapping", F32(0x42480000) }, { "final_logit_softcapping", F32(0x41f00000) },
    { "ssm.conv_kernel", U32(4) },           { "ssm.inner_size", U32(128) }, { "ssm.state_size", U32(16) },
    { "ssm.time_step_rank", U32(4) },        { "ssm.group_count", U32(1) }, { "shortconv.l_cache", U32(3) },
    { "rope.scaling.factor", F32(0x40800000) }, { "rope.scaling.original_context_length", U32(64) },
    { "rope.scaling.attn_factor", F32(0x3f800000) }, { "rope.scaling.yarn_log_multiplier", F32(0x3dcccccd) },
    { "rope.scaling.low_freq_factor", F32(0x3f800000) }, { "rope.scaling.high_freq_factor", F32(0x40800000) },
    { "rope.scale_linear", F32(0x3f800000) }, { "rope.freq_base_swa", F32(0x461c4000) },
};

/* Hostile ones: NaN, infinities, huge, negative, of other types, arrays. */
static const value odd[] = {
    F32(0x7fc00000), F32(0x7f800000), F32(0xff800000), F32(0x7f7fffff), F32(0x00000001), F32(0x80000000), F32(0),
    U32(0), U32(1), U32(3), U32(65537), U32(0x7fffffff), U32(0xffffffff), U32(1000000000),
    { FX_META_U64, UINT64_MAX }, { FX_META_U64, INT64_MAX }, { FX_META_I64, (uint64_t)INT64_MIN }, { FX_META_I32, 0xffffffff },
    { FX_META_BOOL, 1 }, { FX_META_STR, 0 }, { FX_META_ARRAY, 0 }, { FX_META_ARRAY, 2 }, { FX_META_ARRAY, 3 },
};

static void put_value(fx_buf *b, const char *key, value v)
{
    static const int bytes[FX_META_TYPES] = { [FX_META_F32] = 4, [FX_META_U32] = 4, [FX_META_I32] = 4, [FX_META_BOOL] = 1,
                                              [FX_META_U64] = 8, [FX_META_I64] = 8 };

    gguf_key(b, key, v.type);
    if (v.type == FX_META_STR) {
        put_str(b, "x\n");
    } else if (v.type == FX_META_ARRAY) {
        put_le(b, FX_META_U32, 4);
        put_le(b, v.bits, 8);
        for (uint64_t i = 0; i < v.bits; i++)
            put_le(b, i, 4);
    } else {
        put_le(b, v.bits, bytes[v.type]);
    }
}

/* A file of this architecture in which key 'at' has the value v. */
static const char *write_gguf(scratch *s, const char *arch, size_t at, value v, const char *scaling)
{
    char key[160];
    const char *path;
    fx_buf b;

    fx_buf_init(&b, &fx_mem_libc);
    gguf_head(&b, 3, 1, 2 + FX_COUNT(usual));
    gguf_key(&b, "general.architecture", FX_META_STR);
    put_str(&b, arch);
    snprintf(key, sizeof(key), "%s.rope.scaling.type", arch);
    gguf_key(&b, key, FX_META_STR);
    put_str(&b, scaling);
    for (size_t i = 0; i < FX_COUNT(usual); i++) {
        snprintf(key, sizeof(key), "%s.%s", arch, usual[i].key);
        put_value(&b, key, i == at ? v : usual[i].v);
    }
    gguf_tensor(&b, "token_embd.weight", 0, 0, 2, (uint64_t)64, (uint64_t)8);
    gguf_data(&b, 32, 64 * 8 * 4);
    path = scratch_write(s, "m.gguf", fx_buf_view(&b));
    fx_buf_done(&b);
    return path;
}

static const struct { const char *arch, *key; value v; const char *says; } gguf[] = {
    { "llama", "block_count", U32(1000000000), "m.gguf: llama.block_count: number of layers: expected 1 to 4096, found 1000000000" },
    { "llama", "block_count", U32(0), "llama.block_count: number of layers" },
    { "llama", "block_count", F32(0x40000000), "llama.block_count: expected an integer, found f32" },
    { "llama", "embedding_length", U32(0xffffffff), "llama.embedding_length: embedding size" },
    { "llama", "embedding_length", { FX_META_U64, UINT64_MAX }, "llama.embedding_length: expected an integer below 2^63" },
    { "llama", "attention.head_count", U32(0), "llama.attention.head_count: number of heads" },
    { "llama", "attention.head_count", { FX_META_STR, 0 }, "llama.attention.head_count: expected an integer, found string" },
    { "llama", "attention.head_count_kv", U32(3), "llama.attention.head_count_kv: expected heads to be a multiple" },
    { "llama", "attention.head_count_kv", { FX_META_ARRAY, 3 }, "llama.attention.head_count_kv: " },
    { "llama", "attention.key_length", U32(0), "llama.attention.key_length: key size of a head" },
    { "llama", "attention.value_length", { FX_META_I64, (uint64_t)-4 }, "llama.attention.value_length: value size of a head" },
    { "llama", "rope.dimension_count", U32(17), "llama.rope.dimension_count: rotated columns" },
    { "llama", "rope.dimension_count", U32(7), "llama.rope.dimension_count: expected an even number" },
    { "llama", "rope.freq_base", F32(0x7fc00000), "llama.rope.freq_base: rope base" },
    { "llama", "rope.freq_base", F32(0), "llama.rope.freq_base: rope base" },
    { "llama", "rope.scaling.factor", F32(0x7fc00000), "llama.rope.scaling.factor: expected a positive number" },
    { "llama", "attention.layer_norm_rms_epsilon", F32(0x7fc00000), "llama.attention.layer_norm_rms_epsilon: epsilon" },
    { "llama", "attention.layer_norm_rms_epsilon", F32(0xbf800000), "llama.attention.layer_norm_rms_epsilon: epsilon" },
    { "llama", "context_length", U32(0), "llama.context_length: context length" },
    { "llama", "context_length", U32(0xffffffff), "llama.context_length: context length" },
    { "llama", "expert_used_count", U32(5), "llama.expert_used_count: experts of a row" },
    { "llama", "expert_count", U32(1), "llama.expert_used_count: experts of a row" },
    { "deepseek2", "attention.kv_lora_rank", U32(0), "deepseek2.attention.kv_lora_rank: expected 1 to" },
    { "deepseek2", "attention.key_length", U32(4), "deepseek2.attention.key_length: expected 1 to" },
    { "mamba", "ssm.inner_size", U32(0), "mamba.ssm.inner_size: columns of the scan" },
    { "mamba", "ssm.conv_kernel", U32(0), "mamba.ssm.conv_kernel: width of the convolution" },
    { "mamba2", "ssm.group_count", U32(3), "mamba2.ssm.group_count: " },
    { "bert", "attention.head_count", U32(0), "bert.attention.head_count: expected 1 to" },
    { "bert", "attention.layer_norm_epsilon", F32(0x7fc00000), "bert.attention.layer_norm_epsilon: expected 0 to" },
    { "granite", "logit_scale", F32(0), "granite.logit_scale: expected other than 0" },
    { "gemma2", "attn_logit_softcapping", F32(0x7f800000), "gemma2.attn_logit_softcapping: cap of scores" },
    { "ll\nama", "block_count", U32(2), "general.architecture: \"ll?ama\" isn't supported" },
};

static size_t usual_key(const char *key)
{
    for (size_t i = 0; i < FX_COUNT(usual); i++) {
        if (!strcmp(usual[i].key, key))
            return i;
    }
    return SIZE_MAX;
}

TEST(values_of_gguf_keys)
{
    scratch s;

    REQUIRE(scratch_open(&s));
    for (size_t i = 0; i < FX_COUNT(gguf); i++) {
        size_t at = usual_key(gguf[i].key);
        bool scaled = strstr(gguf[i].key, "scaling") != NULL;
        fx_error err;
        fx_status st;

        CHECK(at != SIZE_MAX);
        st = try_open(write_gguf(&s, gguf[i].arch, at, gguf[i].v, scaled ? "linear" : "none"), &err);
        if (st == FORNAX_OK || !strstr(err.text, gguf[i].says))
            FXTEST_FAIL("%s.%s: \"%s\", expected \"%s\"", gguf[i].arch, gguf[i].key, err.text, gguf[i].says);
    }
    scratch_remove(&s, "m.gguf");
    rmdir(s.dir);
}

static void try_gguf(scratch *s, const char *arch, size_t at, value v, const char *scaling)
{
    fx_error err;
    fx_status st = try_open(write_gguf(s, arch, at, v, scaling), &err);
    bool wild = v.type != FX_META_U32 && v.type != FX_META_F32 && v.type != FX_META_ARRAY;

    if (accepted(st, &err) || strstr(err.text, usual[at].key))
        return;
    if (wild || st == FORNAX_EINTERNAL || !*err.text || strchr(err.text, '\n') || !strstr(err.text, arch))
        FXTEST_FAIL("%s.%s with type %d, %#llx: status %d: \"%s\"", arch, usual[at].key, (int)v.type, (unsigned long long)v.bits,
                    (int)st, err.text);
}

/* The architectures' names in GGUF files. */
static size_t gguf_names(char names[64][32])
{
    static const char *const files[] = { "llama", "gemma", "gpt2", "gpt_neox", "falcon", "phi", "phi3", "qwen2", "qwen3", "qwen_moe",
                                         "granite", "granitemoe", "deepseek_v2", "mamba", "jamba", "lfm2", "minicpm3", "gpt_oss", "glm",
                                         "hunyuan", "smollm3", "stablelm", "starcoder2", "opt", "bloom", "cohere", "nemotron", "olmo", "olmoe",
                                         "bitnet", "gptj" };
    size_t n = 0;
    char path[512];
    fx_buf b;

    fx_buf_init(&b, &fx_mem_libc);
    for (size_t i = 0; i < FX_COUNT(files); i++) {
        fx_error err = { 0 };

        snprintf(path, sizeof(path), FXTEST_SOURCE "/src/models/%s.c", files[i]);
        fx_buf_clear(&b);
        CHECK_OK(fx_file_read(&b, path, 1 << 20, &err), err);
        for (char *p = b.p ? strstr(b.p, ".gguf_name = \"") : NULL; p && n < 62; p = strstr(p + 1, ".gguf_name = \""))
            n += sscanf(p, ".gguf_name = \"%31[^\"]", names[n]) == 1;
    }
    fx_buf_done(&b);
    strcpy(names[n++], "bert");
    strcpy(names[n++], "nomic-bert");
    return n;
}

TEST(every_gguf_key_with_every_value)
{
    static const char *const scalings[] = { "none", "linear", "yarn", "longrope", "llama3", "dynamic" };
    bool everything = getenv("FXTEST_LONG") != NULL;
    char names[64][32];
    size_t n = gguf_names(names), turn = 0;
    scratch s;

    REQUIRE(n > 30 && scratch_open(&s));
    for (size_t i = 0; i < n; i++) {
        for (size_t at = 0; at < FX_COUNT(usual); at++) {
            for (size_t k = 0; k < FX_COUNT(odd); k++, turn++) {
                if (everything || turn % 7 == 0)
                    try_gguf(&s, names[i], at, odd[k], scalings[turn / 7 % FX_COUNT(scalings)]);
            }
        }
    }
    scratch_remove(&s, "m.gguf");
    rmdir(s.dir);
}

FXTEST_MAIN()
