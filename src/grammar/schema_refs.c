/* schema_refs.c - what $ref, $dynamicRef and $recursiveRef name.
 *
 * Each document is walked once through the keywords that hold schemas: an $id begins a *resource*,
 * anchors are entered under "uri#name".  A pointer into a part that isn't reached so (an unknown keyword)
 * is walked when it is asked for.  A *scope* is what the path of resources so far makes of each dynamic
 * anchor's name: the outermost place that has it.  Scopes are interned, so a node's key stays small. */
#include "base/text.h"
#include "grammar/schema_int.h"

#define MAX_DYNAMIC 32          /* names of dynamic anchors */

/* ---- URIs (RFC 3986) ------------------------------------------------------------- */

typedef struct uri {
    fx_str scheme, authority, path, query;      /* p NULL: not there */
} uri;

static uri uri_split(fx_str s)
{
    uri u = { { NULL, 0 }, { NULL, 0 }, { NULL, 0 }, { NULL, 0 } };
    size_t i = 0;

    while (i < s.n && !strchr(":/?#", s.p[i]))
        i++;
    if (i > 0 && i < s.n && s.p[i] == ':') {
        u.scheme = fx_str_n(s.p, i);
        s = fx_str_n(s.p + i + 1, s.n - i - 1);
    }
    if (fx_str_starts(s, FX_STR("//"))) {
        for (i = 2; i < s.n && s.p[i] != '/' && s.p[i] != '?'; i++)
            ;
        u.authority = fx_str_n(s.p + 2, i - 2);
        s = fx_str_n(s.p + i, s.n - i);
    }
    for (i = 0; i < s.n && s.p[i] != '?'; i++)
        ;
    u.path = fx_str_n(s.p, i);
    if (i < s.n)
        u.query = fx_str_n(s.p + i + 1, s.n - i - 1);
    return u;
}

/* Adds a path without "." and ".." segments. */
static void add_path(fx_buf *b, fx_str path)
{
    size_t from = b->n;

    for (size_t i = 0; i < path.n;) {
        size_t end = i + 1;
        fx_str seg;

        while (end < path.n && path.p[end] != '/')
            end++;
        seg = fx_str_n(path.p + i, end - i);        /* "/name", or "name" at the start */
        bool dot = fx_str_is(seg, "/."), up = fx_str_is(seg, "/..");
        if (up)
            while (b->n > from && b->p[--b->n] != '/')
                ;
        if (!dot && !up)
            fx_buf_str(b, seg);
        else if (end == path.n)
            fx_buf_putc(b, '/');
        i = end;
    }
}

static void add_merged_path(fx_buf *b, fx_sc *c, uri base, fx_str path)
{
    fx_buf whole;
    size_t cut = base.path.n;

    fx_buf_init(&whole, c->mem);
    if (!fx_str_starts(path, FX_STR("/"))) {
        while (cut > 0 && base.path.p[cut - 1] != '/')
            cut--;
        if (!cut && base.authority.p)
            fx_buf_putc(&whole, '/');
        fx_buf_str(&whole, fx_str_n(base.path.p, cut));
        if (fx_str_starts(path, FX_STR("./")))
            path = fx_str_n(path.p + 2, path.n - 2);
    }
    fx_buf_str(&whole, path);
    add_path(b, fx_buf_view(&whole));
    b->failed |= whole.failed;
    fx_buf_done(&whole);
}

/* Neither has a fragment. The text lies in the arena; p NULL: no memory. */
static fx_str uri_resolve(fx_sc *c, fx_str base_text, fx_str ref_text)
{
    uri base = uri_split(base_text), ref = uri_split(ref_text);
    fx_buf b;
    fx_str out = { NULL, 0 };

    if (!ref_text.n)
        return base_text;
    if (ref.scheme.p)
        return ref_text;
    fx_buf_init(&b, c->mem);
    if (base.scheme.p)
        fx_buf_printf(&b, "%.*s:", FX_STR_ARG(base.scheme));
    if (ref.authority.p || base.authority.p) {
        fx_buf_puts(&b, "//");
        fx_buf_str(&b, ref.authority.p ? ref.authority : base.authority);
    }
    if (ref.authority.p)
        add_path(&b, ref.path);
    else if (ref.path.n)
        add_merged_path(&b, c, base, ref.path);
    else
        fx_buf_str(&b, base.path);
    if (ref.query.p || (!ref.path.n && base.query.p)) {
        fx_buf_putc(&b, '?');
        fx_buf_str(&b, ref.query.p ? ref.query : base.query);
    }
    if (!b.failed)
        out = fx_str_n(fx_arena_strdup(&c->arena, b.p ? b.p : "", b.n), b.n);
    if (!out.p)
        fx_sc_nomem(c);
    fx_buf_done(&b);
    return out;
}

static fx_str before_fragment(fx_str s, fx_str *fragment)
{
    size_t at = fx_str_find(s, FX_STR("#"), 0);

    *fragment = at == FX_STR_NONE ? fx_str_n("", 0) : fx_str_n(s.p + at + 1, s.n - at - 1);
    return at == FX_STR_NONE ? s : fx_str_n(s.p, at);
}

static fx_str joined(fx_sc *c, fx_str u, fx_str name)
{
    char *p = FX_SC_NEWN(c, char, u.n + name.n + 1);

    if (!p)
        return fx_str_n(NULL, 0);
    memcpy(p, u.p, u.n);
    p[u.n] = '#';
    memcpy(p + u.n + 1, name.p, name.n);
    return fx_str_n(p, u.n + name.n + 1);
}

/* ---- the walk ---------------------------------------------------------------------- */

static fx_dialect dialect_of(fx_str schema, fx_dialect otherwise)
{
    static const struct { const char *part; fx_dialect dialect; } rows[] = {
        { "draft-03", FX_D4 }, { "draft-04", FX_D4 }, { "draft-06", FX_D6 }, { "draft-07", FX_D7 },
        { "2019-09", FX_D2019 }, { "2020-12", FX_D2020 },
    };

    for (size_t i = 0; i < FX_COUNT(rows); i++)
        if (fx_str_find(schema, fx_str_of(rows[i].part), 0) != FX_STR_NONE)
            return rows[i].dialect;
    return otherwise;
}

static bool enter_name(fx_sc *c, fx_map *map, fx_str u, fx_str name, fx_jv *place)
{
    fx_str key = joined(c, u, name);

    return key.p && (fx_map_put(map, key, (uintptr_t)place) || fx_sc_nomem(c));
}

static bool add_dynamic(fx_sc *c, fx_str u, fx_str name, fx_jv *place)
{
    bool known = false;

    for (size_t i = 0; i < c->dynamic_names.n; i++)
        known = known || fx_str_eq(c->dynamic_names.at[i], name);
    if (!known && c->dynamic_names.n == MAX_DYNAMIC)
        return fx_sc_fail(c, FORNAX_EUNSUP, place, "$dynamicAnchor", "more than 32 names of dynamic anchors");
    if (!known && !FX_VEC_PUSH(&c->dynamic_names, c->mem, name))
        return fx_sc_nomem(c);
    return enter_name(c, &c->dynamic, u, name, place);
}

static bool add_resource(fx_sc *c, fx_jv *root, fx_str u, fx_dialect dialect)
{
    const fx_jv *schema = fx_jv_get(root, FX_STR("$schema"));
    fx_sresource r = { u, root, dialect };

    if (schema && schema->type == FX_JSTRING)
        r.dialect = dialect_of(schema->text, dialect);
    if (!FX_VEC_PUSH(&c->resources, c->mem, r) || !fx_map_put(&c->by_uri, u, (uintptr_t)root))
        return fx_sc_nomem(c);
    root->resource = (uint32_t)c->resources.n;
    return true;
}

static const fx_jv *text_of(const fx_jv *place, const char *key)
{
    const fx_jv *v = fx_jv_get(place, fx_str_of(key));

    return v && v->type == FX_JSTRING ? v : NULL;
}

/* $id and anchors of one place, whose resource is that of its parent until here. */
static bool note_names(fx_sc *c, fx_jv *place)
{
    fx_sresource in = c->resources.at[place->resource - 1];
    bool old = in.dialect <= FX_D7;
    const fx_jv *id = text_of(place, "$id"), *v;
    fx_str fragment, u;

    if (!id && in.dialect == FX_D4)
        id = text_of(place, "id");
    if (id && old && fx_jv_get(place, FX_STR("$ref")))
        id = NULL;
    if (id) {
        u = before_fragment(id->text, &fragment);
        if (u.n) {
            u = uri_resolve(c, in.uri, u);
            if (!u.p || !add_resource(c, place, u, in.dialect))
                return false;
            in = c->resources.at[place->resource - 1];
        }
        if (fragment.n && fragment.p[0] != '/' && !enter_name(c, &c->by_uri, in.uri, fragment, place))
            return false;
    }
    if ((v = text_of(place, "$anchor")) && !enter_name(c, &c->by_uri, in.uri, v->text, place))
        return false;
    if ((v = text_of(place, "$dynamicAnchor")))
        if (!enter_name(c, &c->by_uri, in.uri, v->text, place) || !add_dynamic(c, in.uri, v->text, place))
            return false;
    v = fx_jv_get(place, FX_STR("$recursiveAnchor"));
    return !v || v->type != FX_JBOOL || !v->boolean || add_dynamic(c, in.uri, FX_STR(""), place);
}

static bool walk(fx_sc *c, fx_jv *place, uint32_t resource);

static bool walk_all(fx_sc *c, fx_jv *v, uint32_t resource)
{
    for (uint32_t i = 0; i < v->n; i++)
        if (!walk(c, &v->items[i], resource))
            return false;
    return true;
}

static bool walk_keyword(fx_sc *c, fx_kwshape shape, fx_jv *v, uint32_t resource)
{
    switch (shape) {
    case FX_KWS_SCHEMA:
        return walk(c, v, resource);
    case FX_KWS_SCHEMAS:
    case FX_KWS_ITEMS:
        return v->type == FX_JARRAY ? walk_all(c, v, resource) : walk(c, v, resource);
    case FX_KWS_SCHEMA_MAP:
    case FX_KWS_DEPENDS:
        return v->type != FX_JOBJECT || walk_all(c, v, resource);
    default:
        return true;
    }
}

/* The depth is that of the text, which the reader bounds. */
static bool walk(fx_sc *c, fx_jv *place, uint32_t resource)
{
    if (place->type != FX_JOBJECT || place->resource) {
        if (!place->resource)
            place->resource = resource;
        return true;
    }
    place->resource = resource;
    if (!note_names(c, place))
        return false;
    for (uint32_t i = 0; i < place->n; i++) {
        fx_kw kw = fx_kw_find(place->keys[i]);

        if (kw != FX_KW_COUNT && !walk_keyword(c, fx_kw_rows[kw].shape, &place->items[i], place->resource))
            return false;
    }
    return true;
}

static bool add_document(fx_sc *c, fx_str text, fx_str name, fx_dialect dialect, fx_jv **root)
{
    char shown[128];
    fx_error err = { 0 };
    fx_status st;

    fx_format(shown, sizeof(shown), "%.*s", (int)FX_MIN(name.n, sizeof(shown) - 1), name.p);
    st = fx_jv_parse(root, &c->arena, c->mem, text, shown, &err);
    if (st != FORNAX_OK)
        return fx_sc_fail(c, st, NULL, NULL, "%s", err.text);
    if (!FX_VEC_PUSH(&c->documents, c->mem, *root) || !FX_VEC_PUSH(&c->document_names, c->mem, name))
        return fx_sc_nomem(c);
    if (!add_resource(c, *root, name, dialect))
        return false;
    (*root)->resource = 0;          /* not walked yet */
    return walk(c, *root, (uint32_t)c->resources.n);
}

bool fx_sc_index(fx_sc *c, fx_str text)
{
    fx_jv *root;

    if (!add_document(c, text, FX_STR("schema"), FX_D2020, &root))
        return false;
    if (root->type != FX_JOBJECT && root->type != FX_JBOOL)
        return fx_sc_fail(c, FORNAX_EFORMAT, root, NULL, "a schema is an object, true or false");
    return true;
}

void fx_sc_refs_done(fx_sc *c)
{
    FX_VEC_FREE(&c->resources, c->mem);
    FX_VEC_FREE(&c->documents, c->mem);
    FX_VEC_FREE(&c->document_names, c->mem);
    FX_VEC_FREE(&c->dynamic_names, c->mem);
    FX_VEC_FREE(&c->scopes, c->mem);
    fx_map_done(&c->by_uri);
    fx_map_done(&c->dynamic);
    fx_map_done(&c->scope_ids);
}

/* ---- looking up ---------------------------------------------------------------------- */

static bool hex(char ch, unsigned *v)
{
    char low = (char)(ch | 0x20);

    if (ch >= '0' && ch <= '9')
        *v = *v * 16 + (unsigned)(ch - '0');
    else if (low >= 'a' && low <= 'f')
        *v = *v * 16 + (unsigned)(low - 'a' + 10);
    else
        return false;
    return true;
}

static fx_str percent_decoded(fx_sc *c, fx_str s)
{
    char *p;
    size_t n = 0;

    if (fx_str_find(s, FX_STR("%"), 0) == FX_STR_NONE)
        return s;
    if (!(p = FX_SC_NEWN(c, char, s.n)))
        return fx_str_n(NULL, 0);
    for (size_t i = 0; i < s.n; i++) {
        unsigned v = 0;

        if (s.p[i] == '%' && i + 2 < s.n && hex(s.p[i + 1], &v) && hex(s.p[i + 2], &v)) {
            p[n++] = (char)v;
            i += 2;
        } else {
            p[n++] = s.p[i];
        }
    }
    return fx_str_n(p, n);
}

/* One token of a pointer, unescaped into the arena. */
static fx_str pointer_token(fx_sc *c, fx_str s)
{
    char *p;
    size_t n = 0;

    if (fx_str_find(s, FX_STR("~"), 0) == FX_STR_NONE)
        return s;
    if (!(p = FX_SC_NEWN(c, char, s.n)))
        return fx_str_n(NULL, 0);
    for (size_t i = 0; i < s.n; i++) {
        bool tilde = s.p[i] == '~' && i + 1 < s.n && (s.p[i + 1] == '0' || s.p[i + 1] == '1');

        p[n++] = tilde ? (s.p[++i] == '0' ? '~' : '/') : s.p[i];
    }
    return fx_str_n(p, n);
}

static fx_jv *list_item(fx_jv *list, fx_str token)
{
    uint32_t v = 0;

    if (!token.n || token.n > 9 || (token.p[0] == '0' && token.n > 1))
        return NULL;
    for (size_t i = 0; i < token.n; i++) {
        if (token.p[i] < '0' || token.p[i] > '9')
            return NULL;
        v = v * 10 + (uint32_t)(token.p[i] - '0');
    }
    return v < list->n ? &list->items[v] : NULL;
}

/* The place that a pointer names from a resource's root; NULL: none. It has been walked. */
static fx_jv *by_pointer(fx_sc *c, fx_jv *root, fx_str pointer)
{
    fx_jv *at = root;
    uint32_t resource = root->resource;

    for (size_t i = 1; at && i <= pointer.n;) {
        size_t end = i;
        fx_str token;

        while (end < pointer.n && pointer.p[end] != '/')
            end++;
        token = pointer_token(c, fx_str_n(pointer.p + i, end - i));
        if (!token.p)
            return NULL;
        at = at->type == FX_JARRAY ? list_item(at, token) : fx_jv_get(at, token);
        if (at && at->resource)
            resource = at->resource;
        i = end + 1;
    }
    return at && walk(c, at, resource) ? at : NULL;
}

/* The root of a resource, reading a document that was given; NULL: none. */
static fx_jv *resource_root(fx_sc *c, fx_str u, fx_dialect dialect)
{
    uint64_t found;
    fx_jv *root = NULL;

    if (fx_map_get(&c->by_uri, u, &found))
        return (fx_jv *)(uintptr_t)found;
    for (size_t i = 0; i < c->opt->n_remotes; i++) {
        fx_str rest;

        if (fx_str_eq(before_fragment(c->opt->remote_uris[i], &rest), u))
            return add_document(c, c->opt->remote_texts[i], u, dialect, &root) ? root : NULL;
    }
    return NULL;
}

static fx_jv *static_target(fx_sc *c, const fx_jv *at, const fx_jv *ref, fx_str *fragment)
{
    fx_sresource in = c->resources.at[at->resource - 1];
    fx_str u = before_fragment(ref->text, fragment);
    fx_jv *root, *place = NULL;
    uint64_t found;

    *fragment = percent_decoded(c, *fragment);
    u = uri_resolve(c, in.uri, u);
    if (!u.p || !fragment->p)
        return NULL;
    root = resource_root(c, u, in.dialect);
    if (c->st)
        return NULL;
    if (!root) {
        fx_sc_fail(c, FORNAX_EUNSUP, ref, NULL, "the document \"%.*s\" isn't given", (int)FX_MIN(u.n, 200u), u.p);
        return NULL;
    }
    if (!fragment->n || fragment->p[0] == '/') {
        place = fragment->n ? by_pointer(c, root, *fragment) : root;
    } else {
        fx_str key = joined(c, c->resources.at[root->resource - 1].uri, *fragment);

        place = key.p && fx_map_get(&c->by_uri, key, &found) ? (fx_jv *)(uintptr_t)found : NULL;
    }
    if (!place)
        fx_sc_fail(c, FORNAX_EFORMAT, ref, NULL, "\"%.*s\" names no place of a schema",
                   (int)FX_MIN(ref->text.n, 200u), ref->text.p);
    return place;
}

/* What the scope says of a dynamic anchor's name; NULL: nothing. */
static fx_jv *dynamic_target(fx_sc *c, const fx_jv *place, fx_str name, uint32_t scope)
{
    fx_str key = joined(c, c->resources.at[place->resource - 1].uri, name);
    uint64_t found;

    if (!key.p || !fx_map_get(&c->dynamic, key, &found) || (fx_jv *)(uintptr_t)found != place)
        return NULL;
    for (size_t i = 0; scope && i < c->dynamic_names.n; i++)
        if (fx_str_eq(c->dynamic_names.at[i], name))
            return c->scopes.at[scope - 1][i];
    return NULL;
}

fx_jv *fx_sc_resolve(fx_sc *c, const fx_jv *at, const fx_jv *ref, bool dynamic, uint32_t scope)
{
    fx_str fragment;
    fx_jv *place = static_target(c, at, ref, &fragment), *found = NULL;

    if (!place)
        return NULL;
    if (place->type != FX_JOBJECT && place->type != FX_JBOOL) {
        fx_sc_fail(c, FORNAX_EFORMAT, ref, NULL, "\"%.*s\" names something that is no schema",
                   (int)FX_MIN(ref->text.n, 200u), ref->text.p);
        return NULL;
    }
    if (dynamic && (!fragment.n || fragment.p[0] != '/'))
        found = dynamic_target(c, place, fragment, scope);
    return c->st ? NULL : found ? found : place;
}

/* ---- scopes ----------------------------------------------------------------------------- */

static uint32_t intern_scope(fx_sc *c, fx_jv **places)
{
    fx_str key = { (const char *)places, MAX_DYNAMIC * sizeof(*places) };
    uint64_t id;

    if (fx_map_get(&c->scope_ids, key, &id))
        return (uint32_t)id;
    if (!FX_VEC_PUSH(&c->scopes, c->mem, places) || !fx_map_put(&c->scope_ids, key, c->scopes.n)) {
        fx_sc_nomem(c);
        return 0;
    }
    return (uint32_t)c->scopes.n;
}

uint32_t fx_sc_enter(fx_sc *c, uint32_t scope, const fx_jv *place)
{
    size_t n = c->dynamic_names.n;
    fx_jv **places;
    bool more = false;

    if (!n || !place->resource)
        return scope;
    if (!(places = FX_SC_NEWN(c, fx_jv *, MAX_DYNAMIC)))
        return scope;
    if (scope)
        memcpy(places, c->scopes.at[scope - 1], MAX_DYNAMIC * sizeof(*places));
    for (size_t i = 0; i < n; i++) {
        fx_str key = joined(c, c->resources.at[place->resource - 1].uri, c->dynamic_names.at[i]);
        uint64_t found;

        if (key.p && !places[i] && fx_map_get(&c->dynamic, key, &found)) {
            places[i] = (fx_jv *)(uintptr_t)found;
            more = true;
        }
    }
    return more ? intern_scope(c, places) : scope;
}
