/* fuzz_rpc.c - what a server of the Model Context Protocol may send: any bytes, in pieces of any size.
 *
 * The first byte says how the rest is cut; cut or whole, the same messages come out, and no more is held than the limit allows. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/mcp.h"
#include "cli/rpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LIMIT = 4096 };

static void take_messages(fx_rpc_reader *r, fx_buf *log)
{
    fx_rpc_message m;
    fx_rpc_kind kind;

    while ((kind = fx_rpc_next(r, &m)) != FX_RPC_NONE) {
        fx_buf_printf(log, "%d %lld %s %s\n", (int)kind, (long long)m.id, m.method ? m.method : "", m.why);
        if ((kind == FX_RPC_BAD) != (m.json == NULL) || (kind == FX_RPC_BAD) != (m.why[0] != 0))
            abort();
        if (kind == FX_RPC_RESPONSE) {
            fx_buf_printf(log, "%d ", fx_mcp_result_text(log, json_object_get(m.json, "result")));
        }
        fx_rpc_message_done(&m);
    }
}

static void read_all(fx_buf *log, fx_str all, size_t piece)
{
    fx_rpc_reader r;

    fx_rpc_init(&r, LIMIT);
    for (size_t at = 0; at < all.n; at += piece) {
        if (!fx_rpc_feed(&r, fx_str_n(all.p + at, FX_MIN(piece, all.n - at))))
            abort();
        take_messages(&r, log);
        if (r.held.n - r.at > LIMIT)
            abort();
    }
    fx_rpc_done(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fx_buf whole, cut;

    if (size < 1)
        return 0;
    fx_buf_init(&whole, &fx_mem_libc);
    fx_buf_init(&cut, &fx_mem_libc);
    read_all(&whole, fx_str_n((const char *)data + 1, size - 1), SIZE_MAX / 2);
    read_all(&cut, fx_str_n((const char *)data + 1, size - 1), (size_t)data[0] + 1);
    if (!fx_str_eq(fx_buf_view(&whole), fx_buf_view(&cut)))
        abort();
    fx_buf_done(&whole);
    fx_buf_done(&cut);
    return 0;
}
