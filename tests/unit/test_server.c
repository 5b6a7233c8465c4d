/* test_server.c - the server's field tables, names from clients, and the queue of jobs. */
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include "fxtest.h"
#include "server/fields.h"
#include "server/jobs.h"

typedef struct body {
    bool flag;
    int64_t count;
    double rate;
    fx_str name;
    const json_t *any;
} body;

static const fx_field table[] = {
    { "flag", FX_F_BOOL, offsetof(body, flag), 0, 0 },
    { "count", FX_F_INT, offsetof(body, count), -5, 1e9 },
    { "rate", FX_F_NUM, offsetof(body, rate), 0, 2 },
    { "name", FX_F_STR, offsetof(body, name), 0, 0 },
    { "any", FX_F_JSON, offsetof(body, any), 0, 0 },
    { "user", FX_F_IGNORE, 0, 0, 0 },
    { "audio", FX_F_REFUSE, 0, 0, 0 },
    { 0 },
};

static fx_status read_text(const char *text, body *out, fx_buf *unknown, fx_error *err)
{
    json_t *v = json_loads(text, JSON_ALLOW_NUL, NULL);
    fx_status st;

    *out = (body){ .count = FX_NO_INT, .rate = NAN };
    *err = (fx_error){ 0 };
    if (!v) {
        FXTEST_FAIL("not JSON: %s", text);
        return FORNAX_EINTERNAL;
    }
    st = fx_fields_read(v, table, out, NULL, unknown, err);
    if (out->name.p)
        out->name.p = NULL;              /* would not outlive v */
    out->any = NULL;
    json_decref(v);
    return st;
}

TEST(fields_values)
{
    static const struct { const char *text; int64_t count; double rate; bool flag; } cases[] = {
        { "{}", FX_NO_INT, NAN, false },
        { "{\"count\": null, \"rate\": null, \"flag\": null, \"audio\": null}", FX_NO_INT, NAN, false },
        { "{\"count\": -5, \"rate\": 2, \"flag\": true}", -5, 2, true },
        { "{\"count\": 7.0, \"rate\": 0.25, \"flag\": false}", 7, 0.25, false },
        { "{\"count\": 1000000000, \"rate\": 0, \"user\": {\"any\": []}}", 1000000000, 0, false },
        { "{\"audio\": {}, \"rate\": 1e-300}", FX_NO_INT, 1e-300, false },
    };
    fx_error err;
    body b;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_OK(read_text(cases[i].text, &b, NULL, &err), err);
        CHECK_EQ_I64(b.count, cases[i].count);
        CHECK_NEAR(b.rate, cases[i].rate, 0);
        CHECK(b.flag == cases[i].flag);
    }
}

TEST(fields_faults)
{
    static const struct { const char *text, *param; fx_status status; } cases[] = {
        { "{\"count\": 1.5}", "count", FORNAX_EARG },
        { "{\"count\": \"1\"}", "count", FORNAX_EARG },
        { "{\"count\": true}", "count", FORNAX_EARG },
        { "{\"count\": -6}", "count", FORNAX_EARG },
        { "{\"count\": 1e300}", "count", FORNAX_EARG },
        { "{\"count\": -1e19}", "count", FORNAX_EARG },
        { "{\"count\": 9223372036854775807}", "count", FORNAX_EARG },
        { "{\"rate\": 2.0000001}", "rate", FORNAX_EARG },
        { "{\"rate\": -1e-9}", "rate", FORNAX_EARG },
        { "{\"rate\": []}", "rate", FORNAX_EARG },
        { "{\"flag\": 1}", "flag", FORNAX_EARG },
        { "{\"flag\": \"true\"}", "flag", FORNAX_EARG },
        { "{\"name\": 5}", "name", FORNAX_EARG },
        { "{\"audio\": {\"voice\": 1}}", "audio", FORNAX_EUNSUP },
        { "{\"audio\": true}", "audio", FORNAX_EUNSUP },
        { "{\"nope\": 1}", "nope", FORNAX_EARG },
        { "{\"nope\": null}", "nope", FORNAX_EARG },
        { "{\"Flag\": true}", "Flag", FORNAX_EARG },
    };
    fx_error err;
    body b;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_EQ_I64(read_text(cases[i].text, &b, NULL, &err), cases[i].status);
        CHECK_STR(err.param, cases[i].param);
        CHECK(strstr(err.text, cases[i].param) == err.text);
        CHECK(strlen(err.text) > strlen(cases[i].param) + 3);
    }
}

/* Unknown names end up in a header: they can't split it nor make it large. */
TEST(unknown_names)
{
    fx_error err;
    fx_buf names, many;
    body b;

    fx_buf_init(&names, &fx_mem_libc);
    CHECK_OK(read_text("{\"one\": 1, \"count\": 3, \"a\\r\\nSet-Cookie: x\": 1, \"\\u00e9, \": 2}", &b, &names, &err), err);
    CHECK_STR(fx_buf_view(&names).p, "one, a??Set-Cookie:?x, ????");
    CHECK_EQ_I64(b.count, 3);
    fx_buf_clear(&names);
    fx_buf_init(&many, &fx_mem_libc);
    for (int i = 0; i < 5000; i++)
        fx_buf_printf(&many, "%s\"field_number_%d\": 1", i ? ", " : "{", i);
    fx_buf_puts(&many, "}");
    CHECK_OK(read_text(many.p, &b, &names, &err), err);
    CHECK(names.n > 500 && names.n < 700);
    fx_buf_done(&many);
    fx_buf_done(&names);
}

/* ---- Jobs ---- */

typedef struct counted {
    fx_job job;
    atomic_int *count;
} counted;

static void count_one(void *user)
{
    counted *c = user;

    usleep(100);
    atomic_fetch_add(c->count, 1);
    free(c);
}

static bool push(fx_jobs *j, atomic_int *count)
{
    counted *c = calloc(1, sizeof *c);

    if (!c)
        return false;
    c->count = count;
    fx_jobs_push(j, &c->job, count_one, c);
    return true;
}

TEST(jobs_run_all)
{
    fx_error err = { 0 };
    atomic_int count = 0;
    fx_jobs j;

    CHECK_OK(fx_jobs_start(&j, &err), err);
    for (int i = 0; i < 500; i++)
        CHECK(push(&j, &count));
    fx_jobs_wait(&j);
    CHECK_EQ_I64(count, 500);
    fx_jobs_wait(&j);
    for (int i = 0; i < 100; i++)
        CHECK(push(&j, &count));
    fx_jobs_stop(&j);                    /* runs what is queued first */
    CHECK_EQ_I64(count, 600);
}

FXTEST_MAIN()
