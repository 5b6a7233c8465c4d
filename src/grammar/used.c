/* used.c - lists of names and values that came already, interned: equal lists have equal numbers.
 *
 * A list is (rest, text), the latest text first. */
#include "grammar/run.h"

#include <ctype.h>

typedef struct entry {
    uint32_t rest;              /* the list before this text came */
    fx_str text;
    fx_re names, values;        /* as expressions; 0: not made */
} entry;

struct fx_used {
    const fx_mem *mem;
    fx_arena arena;
    FX_VEC(entry) at;           /* 0: the empty list */
    fx_map index;               /* of (rest, text) */
    fx_buf key;                 /* scratch */
};

struct fx_used *fx_used_new(const fx_mem *mem)
{
    struct fx_used *u = fx_mem_zalloc(mem, sizeof(*u));

    if (!u)
        return NULL;
    u->mem = mem;
    fx_arena_init(&u->arena, mem, 0);
    fx_map_init(&u->index, mem);
    fx_buf_init(&u->key, mem);
    if (!FX_VEC_PUSH(&u->at, mem, ((entry){ .names = FX_RE_NONE, .values = FX_RE_NONE }))) {
        fx_used_free(u);
        return NULL;
    }
    return u;
}

void fx_used_free(struct fx_used *u)
{
    if (!u)
        return;
    FX_VEC_FREE(&u->at, u->mem);
    fx_map_done(&u->index);
    fx_buf_done(&u->key);
    fx_arena_done(&u->arena);
    fx_mem_free(u->mem, u, sizeof(*u));
}

size_t fx_used_bytes(const struct fx_used *u)
{
    return sizeof(*u) + u->arena.total_bytes + u->at.cap * sizeof(*u->at.at) + u->index.cap * 32;
}

uint32_t fx_used_add(struct fx_used *u, uint32_t list, fx_str text, bool *again)
{
    size_t n = sizeof(list) + text.n;
    char *key;
    uint64_t id;

    *again = false;
    for (uint32_t at = list; at && !*again; at = u->at.at[at].rest)
        *again = fx_str_eq(u->at.at[at].text, text);
    if (*again)
        return list;
    fx_buf_clear(&u->key);
    fx_buf_add(&u->key, &list, sizeof(list));
    fx_buf_str(&u->key, text);
    if (u->key.failed)
        return FX_USED_FAIL;
    if (fx_map_get(&u->index, fx_buf_view(&u->key), &id))
        return (uint32_t)id;
    key = fx_arena_strdup(&u->arena, u->key.p, n);
    if (!key || u->at.n >= FX_PENDING ||
        !FX_VEC_PUSH(&u->at, u->mem, ((entry){ list, fx_str_n(key + sizeof(list), text.n), FX_RE_NONE, FX_RE_NONE })))
        return FX_USED_FAIL;
    if (!fx_map_put(&u->index, fx_str_n(key, n), u->at.n - 1)) {
        u->at.n--;
        return FX_USED_FAIL;
    }
    return (uint32_t)u->at.n - 1;
}

fx_re fx_used_names(struct fx_used *u, fx_re_pool *p, uint32_t list)
{
    if (list && !u->at.at[list].names) {
        fx_re rest = fx_used_names(u, p, u->at.at[list].rest);

        u->at.at[list].names = fx_re_alt(p, rest, fx_re_text(p, FX_SPELL_JSON, u->at.at[list].text));
    }
    return u->at.at[list].names;
}

/* A canonical number (see canon.c: digits 'e' exponent) without an exponent, zeros after the point allowed. */
static fx_re number_spellings(fx_re_pool *p, fx_str canon)
{
    bool minus = canon.p[0] == '-';
    size_t i = minus, e = fx_str_find(canon, FX_STR("e"), 0), n;
    long exponent = 0;
    fx_re zeros = fx_re_repeat(p, fx_re_literal(p, FX_STR("0")), 0, FX_RE_INF), whole, part = FX_RE_EMPTY;
    bool negative = e + 1 < canon.n && canon.p[e + 1] == '-';
    fx_str digits = fx_str_n(canon.p + i, e - i);

    for (size_t k = e + 1 + negative; k < canon.n && exponent < 100000; k++)
        exponent = exponent * 10 + (canon.p[k] - '0');
    if (exponent > 400)
        return FX_RE_NONE;                      /* nobody writes that out; settling compares it */
    n = (size_t)exponent;
    if (!negative) {
        whole = fx_re_cat(p, fx_re_literal(p, digits), fx_re_repeat(p, fx_re_literal(p, FX_STR("0")), (uint32_t)n, (uint32_t)n));
    } else if (digits.n > n) {
        whole = fx_re_literal(p, fx_str_n(digits.p, digits.n - n));
        part = fx_re_literal(p, fx_str_n(digits.p + digits.n - n, n));
    } else {
        whole = fx_re_literal(p, FX_STR("0"));
        part = fx_re_cat(p, fx_re_repeat(p, whole, (uint32_t)(n - digits.n), (uint32_t)(n - digits.n)),
                         fx_re_literal(p, digits));
    }
    part = fx_re_cat(p, fx_re_literal(p, FX_STR(".")), fx_re_cat(p, part, zeros));
    if (!negative)
        part = fx_re_alt(p, part, FX_RE_EMPTY);
    whole = fx_re_cat(p, whole, part);
    if (fx_str_is(digits, "0"))
        return fx_re_cat(p, fx_re_alt(p, FX_RE_EMPTY, fx_re_literal(p, FX_STR("-"))), whole);
    return minus ? fx_re_cat(p, fx_re_literal(p, FX_STR("-")), whole) : whole;
}

static fx_re value_spellings(fx_re_pool *p, fx_str canon)
{
    fx_re quote = fx_re_literal(p, FX_STR("\""));

    if (canon.p[0] == '"')
        return fx_re_cat(p, quote, fx_re_cat(p, fx_re_text(p, FX_SPELL_JSON, fx_str_n(canon.p + 1, canon.n - 1)), quote));
    if (canon.p[0] == '-' || isdigit((unsigned char)canon.p[0]))
        return number_spellings(p, canon);
    return canon.p[0] == '{' || canon.p[0] == '[' ? FX_RE_NONE : fx_re_literal(p, canon);
}

fx_re fx_used_values(struct fx_used *u, fx_re_pool *p, uint32_t list)
{
    if (list && !u->at.at[list].values) {
        fx_re rest = fx_used_values(u, p, u->at.at[list].rest);

        u->at.at[list].values = fx_re_alt(p, rest, value_spellings(p, u->at.at[list].text));
    }
    return u->at.at[list].values;
}
