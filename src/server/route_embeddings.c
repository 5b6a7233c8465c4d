/* route_embeddings.c - POST /v1/embeddings: one vector for each input. */
#include "server/fields.h"
#include "server/http.h"

#define INPUTS_MAX 2048

typedef struct embed_body {
    fx_str model, encoding;
    int64_t dimensions;
    bool truncate;
    const json_t *input;
} embed_body;

static const fx_field fields[] = {
    { "model", FX_F_STR, offsetof(embed_body, model), 0, 0 },
    { "input", FX_F_JSON, offsetof(embed_body, input), 0, 0 },
    { "encoding_format", FX_F_STR, offsetof(embed_body, encoding), 0, 0 },
    { "dimensions", FX_F_INT, offsetof(embed_body, dimensions), 1, 1e9 },
    { "truncate", FX_F_BOOL, offsetof(embed_body, truncate), 0, 0 },
    { "user", FX_F_IGNORE, 0, 0, 0 },
    { 0 },
};

typedef struct inputs {
    FX_VEC(fornax_embed_input) at;
    FX_VEC(int32_t) ids;         /* of all inputs; 'ids' of each is set once all are there */
} inputs;

static fx_status add_text(inputs *in, const json_t *v, fx_error *err)
{
    fornax_embed_input one = { .text = json_string_value(v), .n = json_string_length(v) };

    if (one.n == 0)
        return fx_fail_param(err, FORNAX_EARG, "input", "input[%zu]: expected a text that isn't empty", in->at.n);
    return FX_VEC_PUSH(&in->at, &fx_mem_libc, one) ? FORNAX_OK : fx_nomem(err, "the input");
}

static fx_status add_ids(inputs *in, const json_t *list, fx_error *err)
{
    fornax_embed_input one = { .n_ids = json_array_size(list) };

    for (size_t i = 0; i < one.n_ids; i++) {
        const json_t *v = json_array_get(list, i);

        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > INT32_MAX)
            return fx_fail_param(err, FORNAX_EARG, "input", "input[%zu]: ids[%zu]: expected a token id", in->at.n, i);
        if (!FX_VEC_PUSH(&in->ids, &fx_mem_libc, (int32_t)json_integer_value(v)))
            return fx_nomem(err, "the input");
    }
    return FX_VEC_PUSH(&in->at, &fx_mem_libc, one) ? FORNAX_OK : fx_nomem(err, "the input");
}

/* A string, token ids, or a list of either. */
static fx_status read_inputs(inputs *in, const json_t *v, fx_error *err)
{
    size_t at = 0;

    if (json_is_string(v))
        return add_text(in, v, err);
    if (!json_is_array(v) || json_array_size(v) == 0)
        return fx_fail_param(err, FORNAX_EARG, "input", "input: expected a string, token ids, or a list of either");
    if (json_is_integer(json_array_get(v, 0))) {
        FX_TRY(add_ids(in, v, err));
    } else if (json_array_size(v) > INPUTS_MAX) {
        return fx_fail_param(err, FORNAX_EARG, "input", "input: expected at most %d inputs, found %zu", INPUTS_MAX, json_array_size(v));
    } else {
        for (size_t i = 0; i < json_array_size(v); i++) {
            const json_t *one = json_array_get(v, i);

            if (!json_is_string(one) && !json_is_array(one))
                return fx_fail_param(err, FORNAX_EARG, "input", "input[%zu]: expected a string or a list of token ids", i);
            FX_TRY(json_is_string(one) ? add_text(in, one, err) : add_ids(in, one, err));
        }
    }
    for (size_t i = 0; i < in->at.n; i++) {
        if (in->at.at[i].text)
            continue;
        if (in->at.at[i].n_ids == 0)
            return fx_fail_param(err, FORNAX_EARG, "input", "input[%zu]: expected at least one token", i);
        in->at.at[i].ids = in->ids.at + at;
        at += in->at.at[i].n_ids;
    }
    return FORNAX_OK;
}

static fx_status check_body(const fx_http *h, const embed_body *b, fx_error *err)
{
    const fornax_model_info *info = fornax_model_get_info(h->model);

    if (!b->input)
        return fx_fail_param(err, FORNAX_EARG, "input", "input: missing");
    if (b->dimensions != FX_NO_INT && !info->matryoshka && !h->opt.any_dimensions)
        return fx_fail_param(err, FORNAX_EARG, "dimensions", "dimensions: the model isn't marked as made for shorter vectors");
    if (b->encoding.p && !fx_str_is(b->encoding, "float") && !fx_str_is(b->encoding, "base64"))
        return fx_fail_param(err, FORNAX_EARG, "encoding_format", "encoding_format: expected float or base64, found '%s'",
                             fx_show(b->encoding).z);
    return FORNAX_OK;
}

/* The row's floats, little-endian. */
static void put_base64(fx_buf *out, const float *row, int64_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t bytes = (size_t)n * 4;

    for (size_t i = 0; i < bytes; i += 3) {
        uint32_t bits = 0;

        for (size_t k = i; k < i + 3; k++) {
            uint32_t word = 0;

            if (k < bytes)
                memcpy(&word, row + k / 4, sizeof word);
            bits = bits << 8 | (word >> 8 * (k % 4) & 0xff);
        }
        for (size_t k = 0; k < 4; k++)
            fx_buf_putc(out, i + k <= bytes ? digits[bits >> (18 - 6 * k) & 63] : '=');
    }
}

static void put_row(fx_buf *out, const fornax_embeddings *e, size_t i, bool base64)
{
    const float *row = fornax_embeddings_row(e, i);
    int64_t n = fornax_embeddings_dim(e);

    fx_buf_printf(out, "%s{\"object\": \"embedding\", \"index\": %zu, \"embedding\": ", i ? ", " : "", i);
    if (base64) {
        fx_buf_putc(out, '"');
        put_base64(out, row, n);
        fx_buf_puts(out, "\"");
    } else {
        for (int64_t k = 0; k < n; k++) {
            fx_buf_putc(out, k ? ',' : '[');
            fx_buf_float(out, row[k]);
        }
        fx_buf_putc(out, ']');
    }
    if (fornax_embeddings_cut(e, i))
        fx_buf_printf(out, ", \"truncated_tokens\": %zu", fornax_embeddings_cut(e, i));
    fx_buf_putc(out, '}');
}

static void reply(fx_call *c, const fornax_embeddings *e, fx_str model, bool base64)
{
    size_t tokens = 0;
    fx_error err = { 0 };
    fx_buf b;

    fx_buf_init(&b, &fx_mem_libc);
    fx_buf_puts(&b, "{\"object\": \"list\", \"data\": [");
    for (size_t i = 0; i < fornax_embeddings_count(e); i++) {
        put_row(&b, e, i, base64);
        tokens += fornax_embeddings_tokens(e, i);
    }
    fx_buf_puts(&b, "], \"model\": \"");
    fx_buf_json(&b, model);
    fx_buf_printf(&b, "\", \"usage\": {\"prompt_tokens\": %zu, \"total_tokens\": %zu}}\n", tokens, tokens);
    if (b.failed) {
        fx_nomem(&err, "the answer");
        fx_reply_error(c, &err);
    } else {
        fx_reply_text(c, 200, "application/json", fx_buf_view(&b));
    }
    fx_buf_done(&b);
}

static int unwanted(void *user, double fraction)
{
    (void)fraction;
    return fx_call_unwanted(user);
}

static void embeddings(fx_call *c)
{
    embed_body body = { .dimensions = FX_NO_INT };
    fornax_embed_options opt = FORNAX_OPTIONS(fornax_embed_options);
    fornax_embeddings *e = NULL;
    json_t *json = fx_call_json(c);
    inputs in = { 0 };
    fx_error err = { 0 };
    fx_lora *lora = NULL;
    fx_str name;
    fx_status st;

    if (!json)
        return;
    st = fx_fields_read(json, fields, &body, NULL, c->http->opt.lenient_fields ? &c->ignored : NULL, &err);
    if (st == FORNAX_OK)
        st = fx_lora_find(&c->http->loras, body.model, &lora, &name, &err);
    if (st == FORNAX_OK)
        st = check_body(c->http, &body, &err);
    if (st == FORNAX_OK)
        st = read_inputs(&in, body.input, &err);
    opt.dimensions = body.dimensions == FX_NO_INT ? 0 : body.dimensions;
    opt.truncate = body.truncate;
    opt.adapter = lora ? lora->adapter : NULL;
    opt.progress = unwanted;
    opt.progress_user = c;
    if (st == FORNAX_OK)
        st = fornax_embed(&e, c->http->model, in.at.at, in.at.n, &opt, &err);
    if (st == FORNAX_OK)
        reply(c, e, name, fx_str_is(body.encoding, "base64"));
    else if (st == FORNAX_ECANCEL)
        fx_reply_unwanted(c);
    else
        fx_reply_error(c, &err);
    fornax_embeddings_close(e);
    fx_lora_drop(lora);
    FX_VEC_FREE(&in.at, &fx_mem_libc);
    FX_VEC_FREE(&in.ids, &fx_mem_libc);
    json_decref(json);
}

const fx_route fx_route_embeddings = { "POST", "/v1/embeddings", false, embeddings, false };
