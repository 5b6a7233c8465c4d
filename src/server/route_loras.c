/* route_loras.c - POST /v1/load_lora_adapter and /v1/unload_lora_adapter, as vLLM has them. */
#include "base/status.h"
#include "server/fields.h"
#include "server/http.h"

typedef struct lora_body {
    fx_str name, path;
    bool inplace;
} lora_body;

static const fx_field load_fields[] = {
    { "lora_name", FX_F_STR, offsetof(lora_body, name), 0, 0 },
    { "lora_path", FX_F_STR, offsetof(lora_body, path), 0, 0 },
    { "load_inplace", FX_F_BOOL, offsetof(lora_body, inplace), 0, 0 },
    { 0 },
};
static const fx_field unload_fields[] = {
    { "lora_name", FX_F_STR, offsetof(lora_body, name), 0, 0 },
    { "lora_int_id", FX_F_IGNORE, 0, 0, 0 },
    { 0 },
};

/* Reads the body; NULL after an answer. The body's strings live as long as the result. */
static json_t *read_body(fx_call *c, const fx_field *fields, bool with_path, lora_body *out)
{
    json_t *json;
    fx_error err = { 0 };
    fx_status st;

    if (!c->http->loras.root) {
        fx_fail(&err, FORNAX_EUNSUP, "adapters aren't loaded by request here; the server's --lora-dir allows it");
        fx_reply_error_as(c, &err, 403);
        return NULL;
    }
    json = fx_call_json(c);
    if (!json)
        return NULL;
    st = fx_fields_read(json, fields, out, NULL, c->http->opt.lenient_fields ? &c->ignored : NULL, &err);
    if (st == FORNAX_OK && !out->name.p)
        st = fx_fail_param(&err, FORNAX_EARG, "lora_name", "lora_name: missing");
    if (st == FORNAX_OK && with_path && !out->path.p)
        st = fx_fail_param(&err, FORNAX_EARG, "lora_path", "lora_path: missing");
    if (st == FORNAX_OK)
        return json;
    fx_reply_error(c, &err);
    json_decref(json);
    return NULL;
}

static void reply(fx_call *c, fx_status st, const fx_error *err, fx_str name, const char *done)
{
    fx_buf b;

    if (st != FORNAX_OK) {
        fx_reply_error(c, err);
        return;
    }
    fx_buf_init(&b, &fx_mem_libc);
    fx_buf_printf(&b, "Success: LoRA adapter '%.*s' %s successfully.", FX_STR_ARG(name), done);
    fx_reply_text(c, 200, "text/plain; charset=utf-8", fx_buf_view(&b));
    c->out.failed |= b.failed;
    fx_buf_done(&b);
}

static void load(fx_call *c)
{
    lora_body body = { 0 };
    json_t *json = read_body(c, load_fields, true, &body);
    fx_error err = { 0 };
    fx_buf path;
    fx_status st;

    if (!json)
        return;
    fx_buf_init(&path, &fx_mem_libc);
    st = fx_lora_path(&c->http->loras, body.path, &path, &err);
    if (st == FORNAX_OK)
        st = fx_lora_load(&c->http->loras, body.name, fx_buf_view(&path).p, 1, body.inplace, &err);
    if (st == FORNAX_EIO || st == FORNAX_ENOTFOUND)      /* what the client named can't be read */
        st = err.status = FORNAX_EARG;
    reply(c, st, &err, body.name, "added");
    fx_buf_done(&path);
    json_decref(json);
}

static void unload(fx_call *c)
{
    lora_body body = { 0 };
    json_t *json = read_body(c, unload_fields, false, &body);
    fx_error err = { 0 };

    if (!json)
        return;
    reply(c, fx_lora_unload(&c->http->loras, body.name, &err), &err, body.name, "removed");
    json_decref(json);
}

const fx_route fx_route_load_lora = { "POST", "/v1/load_lora_adapter", false, load, false };
const fx_route fx_route_unload_lora = { "POST", "/v1/unload_lora_adapter", false, unload, false };
