/* naming.c - names for values that are printed; see naming.h. */
#include "base/naming.h"

void fx_naming_init(fx_naming *n, const fx_mem *mem)
{
    *n = (fx_naming){ .failed = false };
    fx_map_init(&n->names, mem);
    fx_map_init(&n->ids, mem);
    fx_arena_init(&n->arena, mem, 0);
}

void fx_naming_done(fx_naming *n)
{
    fx_arena_done(&n->arena);
    fx_map_done(&n->ids);
    fx_map_done(&n->names);
}

static bool is_name_char(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (!first && ((c >= '0' && c <= '9') || c == '.'));
}

/* Whether a hint can be written as it is: a letter first, then letters, digits, '_', '.'. */
static bool is_name(fx_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!is_name_char(s.p[i], i == 0))
            return false;
    }
    return s.n > 0 && !fx_str_is(s, "_");
}

static fx_str key_of(const void *const *value) { return fx_str_n((const char *)value, sizeof(*value)); }

/* The first free 'hint.NUMBER' behind the number that the hint was last given. */
static char *numbered(fx_naming *n, fx_str hint, uint64_t last)
{
    uint64_t used;
    char *text;

    do
        text = fx_arena_printf(&n->arena, "%.*s.%llu", FX_STR_ARG(hint), (unsigned long long)++last);
    while (text && fx_map_get(&n->names, fx_str_of(text), &used));
    n->failed = n->failed || !fx_map_put(&n->names, hint, last);
    return text;
}

fx_str fx_naming_add(fx_naming *n, const void *value, fx_str hint)
{
    char *text = NULL;
    uint64_t used;
    const void **key = FX_ARENA_NEW(&n->arena, const void *);
    fx_str *spelled = FX_ARENA_NEW(&n->arena, fx_str);

    if (is_name(hint)) {
        text = fx_arena_strdup(&n->arena, hint.p, hint.n);
        if (fx_map_get(&n->names, hint, &used))
            text = numbered(n, hint, used);
    } else {
        text = fx_arena_printf(&n->arena, "%d", n->numbers++);
    }
    if (!key || !spelled || !text) {
        n->failed = true;
        return FX_STR("?");
    }
    *key = value;
    *spelled = fx_str_of(text);
    if (!fx_map_put(&n->names, *spelled, 1) || !fx_map_put(&n->ids, key_of(key), (uint64_t)(uintptr_t)spelled))
        n->failed = true;
    return *spelled;
}

fx_str fx_naming_of(const fx_naming *n, const void *value)
{
    uint64_t at;

    return fx_map_get(&n->ids, key_of(&value), &at) ? *(const fx_str *)(uintptr_t)at : FX_STR("?");
}
