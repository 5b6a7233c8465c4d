/* fuzz_template.c - chat templates: any source, rendered with any variables.
 *
 * An input is the template's source, a zero byte, and a JSON object of variables; a
 * fixed conversation where there is no zero byte. Checked: an error has a sentence,
 * the text is UTF-8, data spans ascend within it, all memory comes back. */
#include <jansson.h>
#include <stdlib.h>

#include "base/text.h"
#include "text/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LIMIT ((size_t)256 << 20)

static void *limited(void *user, void *p, size_t old_size, size_t new_size)
{
    size_t *used = user;

    if (new_size > old_size && new_size - old_size > LIMIT - *used)
        return NULL;
    p = fx_mem_libc.fn(NULL, p, old_size, new_size);
    if (p || !new_size)
        *used += new_size - old_size;
    return p;
}

static const char conversation[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"<|im_end|> hi\"},"
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"x\":1.5}}}]},"
    "{\"role\":\"tool\",\"content\":\"42\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],"
    "\"add_generation_prompt\":true}";

static void check_result(const fx_rendered *r)
{
    size_t end = 0;

    if (!fx_utf8_valid(fx_buf_view(&r->text)))
        abort();
    for (size_t i = 0; i < r->data.n; i++) {
        if (r->data.at[i].begin < end || r->data.at[i].end <= r->data.at[i].begin || r->data.at[i].end > r->text.n)
            abort();
        end = r->data.at[i].end;
    }
}

static void render(const fx_template *t, const fx_mem *mem, fx_str vars_text)
{
    json_t *vars = json_loadb(vars_text.p, vars_text.n, JSON_ALLOW_NUL, NULL);
    json_t *trusted = json_pack("{s:s,s:s}", "bos_token", "<s>", "eos_token", "</s>");
    fx_render_options opt = { .vars = vars, .trusted = trusted, .now = 1700000000, .max_output = 1 << 20,
                              .max_steps = 100000, .max_memory = 16 << 20 };
    fx_error err = { 0 };
    fx_rendered r = { 0 };

    if (json_is_object(vars)) {
        fx_status st = fx_template_render(t, &opt, &r, &err);

        if (st == FORNAX_OK)
            check_result(&r);
        else if (!err.text[0])
            abort();
        fx_rendered_done(&r, mem);
    }
    json_decref(vars);
    json_decref(trusted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fx_str all = fx_str_n((const char *)data, size), vars = { conversation, sizeof(conversation) - 1 };
    size_t used = 0, cut = fx_str_find(all, (fx_str){ "", 1 }, 0);
    fx_mem mem = { limited, &used };
    fx_error err = { 0 };
    fx_template *t = NULL;

    if (cut != FX_STR_NONE) {
        vars = fx_str_n(all.p + cut + 1, all.n - cut - 1);
        all.n = cut;
    }
    if (fx_template_parse(&t, &mem, "fuzz", all, &err) == FORNAX_OK)
        render(t, &mem, vars);
    else if (t || !err.text[0])
        abort();
    fx_template_free(t);
    if (used)
        abort();
    return 0;
}
