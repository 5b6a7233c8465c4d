/* loras.c - the list of adapters, and what of a client's path may be opened. */
#include "server/loras.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "server/fields.h"

enum { LORAS_MAX = 256, NAME_MAX_BYTES = 200 };

/* ---- One adapter ---- */

static char *copy(fx_str s)
{
    char *p = malloc(s.n + 1);

    if (p) {
        memcpy(p, s.p, s.n);
        p[s.n] = 0;
    }
    return p;
}

void fx_lora_drop(fx_lora *lora)
{
    if (!lora || atomic_fetch_sub(&lora->refs, 1) > 1)
        return;
    fornax_adapter_close(lora->adapter);
    free(lora->name);
    free(lora->path);
    free(lora);
}

static fx_status open_lora(fx_lora **out, const fx_loras *l, fx_str name, const char *path, double scale, fx_error *err)
{
    fornax_adapter_options o = FORNAX_OPTIONS(fornax_adapter_options);
    fx_lora *lora = calloc(1, sizeof *lora);
    fx_status st;

    *out = NULL;
    if (!lora)
        return fx_nomem(err, "an adapter");
    atomic_init(&lora->refs, 1);
    lora->name = copy(name);
    lora->path = copy(fx_str_of(path));
    lora->created = fx_clock_unix();
    o.scale = scale;
    st = lora->name && lora->path ? fornax_adapter_open(&lora->adapter, l->model, path, &o, err)
                                  : fx_nomem(err, "an adapter");
    if (st != FORNAX_OK)
        fx_lora_drop(lora);
    else
        *out = lora;
    return st;
}

/* ---- The list ---- */

/* Under the lock: where an adapter of this name is; the length of the list: nowhere. */
static size_t place(const fx_loras *l, fx_str name)
{
    size_t i = 0;

    while (i < l->list.n && !fx_str_is(name, l->list.at[i]->name))
        i++;
    return i;
}

static const char *base_name(const fx_loras *l, fx_str name)
{
    for (size_t i = 0; i < l->opt->n_names; i++) {
        if (fx_str_is(name, l->opt->names[i]))
            return l->opt->names[i];
    }
    return NULL;
}

static fx_status check_name(const fx_loras *l, fx_str name, fx_error *err)
{
    if (name.n == 0 || name.n > NAME_MAX_BYTES || !fx_utf8_valid(name))
        return fx_fail_param(err, FORNAX_EARG, "lora_name", "lora_name: expected 1 to %d bytes of text, found %zu",
                             NAME_MAX_BYTES, name.n);
    for (size_t i = 0; i < name.n; i++) {
        if ((unsigned char)name.p[i] < 32 || name.p[i] == 127)
            return fx_fail_param(err, FORNAX_EARG, "lora_name", "lora_name: '%s' has a control character", fx_show(name).z);
    }
    if (base_name(l, name))
        return fx_fail_param(err, FORNAX_EARG, "lora_name", "lora_name: '%s' is the model's own name", fx_show(name).z);
    return FORNAX_OK;
}

static fx_status add(fx_loras *l, fx_lora *lora, bool replace, fx_error *err)
{
    fx_lora *old = NULL;
    fx_status st = FORNAX_OK;

    pthread_mutex_lock(&l->lock);
    size_t i = place(l, fx_str_of(lora->name));
    if (i < l->list.n && replace) {
        old = l->list.at[i];
        l->list.at[i] = lora;
    } else if (i < l->list.n) {
        st = fx_fail_param(err, FORNAX_EARG, "lora_name", "lora_name: '%s' is loaded already; load_inplace replaces it",
                           fx_show(fx_str_of(lora->name)).z);
    } else if (i == LORAS_MAX) {
        st = fx_fail_param(err, FORNAX_EARG, "lora_name", "%d adapters are loaded, which is the most there may be", LORAS_MAX);
    } else if (!FX_VEC_PUSH(&l->list, &fx_mem_libc, lora)) {
        st = fx_nomem(err, "an adapter");
    }
    pthread_mutex_unlock(&l->lock);
    fx_lora_drop(st == FORNAX_OK ? old : lora);
    return st;
}

static bool is_loaded(fx_loras *l, fx_str name)
{
    pthread_mutex_lock(&l->lock);
    bool found = place(l, name) < l->list.n;
    pthread_mutex_unlock(&l->lock);
    return found;
}

fx_status fx_lora_load(fx_loras *l, fx_str name, const char *path, double scale, bool replace, fx_error *err)
{
    fx_lora *lora;

    FX_TRY(check_name(l, name, err));
    if (!replace && is_loaded(l, name))  /* before the work; add() looks again */
        return fx_fail_param(err, FORNAX_EARG, "lora_name", "lora_name: '%s' is loaded already; load_inplace replaces it",
                             fx_show(name).z);
    FX_TRY(open_lora(&lora, l, name, path, scale, err));
    return add(l, lora, replace, err);
}

fx_status fx_lora_unload(fx_loras *l, fx_str name, fx_error *err)
{
    fx_lora *lora = NULL;

    pthread_mutex_lock(&l->lock);
    size_t i = place(l, name);
    if (i < l->list.n) {
        lora = l->list.at[i];
        memmove(&l->list.at[i], &l->list.at[i + 1], (l->list.n - i - 1) * sizeof *l->list.at);
        l->list.n--;
    }
    pthread_mutex_unlock(&l->lock);
    fx_lora_drop(lora);
    return lora ? FORNAX_OK
                : fx_fail_param(err, FORNAX_ENOTFOUND, "lora_name", "lora_name '%s': no such adapter is loaded", fx_show(name).z);
}

fx_status fx_lora_find(fx_loras *l, fx_str given, fx_lora **lora, fx_str *name, fx_error *err)
{
    const char *base = given.p ? base_name(l, given) : l->opt->names[0];

    *lora = NULL;
    if (base) {
        *name = fx_str_of(base);
        return FORNAX_OK;
    }
    pthread_mutex_lock(&l->lock);
    size_t i = place(l, given);
    if (i < l->list.n) {
        *lora = l->list.at[i];
        atomic_fetch_add(&(*lora)->refs, 1);
    }
    pthread_mutex_unlock(&l->lock);
    if (!*lora)
        return fx_fail_param(err, FORNAX_ENOTFOUND, "model", "model '%s': not served here; '%s' is", fx_show(given).z,
                             l->opt->names[0]);
    *name = fx_str_of((*lora)->name);
    return FORNAX_OK;
}

fx_lora **fx_loras_all(fx_loras *l, size_t *n)
{
    fx_lora **all;

    pthread_mutex_lock(&l->lock);
    all = calloc(l->list.n + 1, sizeof(fx_lora *));
    for (*n = 0; all && *n < l->list.n; ++*n) {
        all[*n] = l->list.at[*n];
        atomic_fetch_add(&all[*n]->refs, 1);
    }
    pthread_mutex_unlock(&l->lock);
    return all;
}

/* ---- Paths from clients ---- */

static fx_status bad_path(fx_str given, const char *what, fx_error *err)
{
    return fx_fail_param(err, FORNAX_EARG, "lora_path", "lora_path: '%s' %s", fx_show(given).z, what);
}

/* A part of a path that names something in its folder. */
static bool is_part(fx_str part)
{
    if (part.n == 0 || part.n > 255 || fx_str_is(part, ".") || fx_str_is(part, ".."))
        return false;
    for (size_t i = 0; i < part.n; i++) {
        if ((unsigned char)part.p[i] < 32 || part.p[i] == 127 || part.p[i] == '\\')
            return false;
    }
    return true;
}

/* The files of an adapter's folder aren't links. */
static bool has_links(int dir)
{
    static const char *const names[] = { "adapter_config.json", "adapter_model.safetensors" };
    struct stat s;

    for (size_t i = 0; i < FX_COUNT(names); i++) {
        if (fstatat(dir, names[i], &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(s.st_mode))
            return true;
    }
    return false;
}

/* Goes down from 'dir' part by part. Closes dir. */
static fx_status walk(int dir, fx_str rest, fx_str given, fx_error *err)
{
    char name[256];

    while (rest.n > 0) {
        const char *slash = memchr(rest.p, '/', rest.n);
        fx_str part = fx_str_n(rest.p, slash ? (size_t)(slash - rest.p) : rest.n);
        bool last = part.n == rest.n;
        int next;

        if (!is_part(part) || (slash && part.n + 1 == rest.n)) {
            close(dir);
            return bad_path(given, "isn't a path below the folder of adapters", err);
        }
        memcpy(name, part.p, part.n);
        name[part.n] = 0;
        rest = fx_str_n(rest.p + part.n + !last, rest.n - part.n - !last);
        next = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC | (last ? 0 : O_DIRECTORY));
        close(dir);
        if (next < 0)
            return bad_path(given, errno == ENOENT ? "isn't there" : "can't be opened below the folder of adapters", err);
        dir = next;
    }
    struct stat s;
    bool ok = fstat(dir, &s) == 0 && (S_ISDIR(s.st_mode) || S_ISREG(s.st_mode)) && !(S_ISDIR(s.st_mode) && has_links(dir));
    close(dir);
    return ok ? FORNAX_OK : bad_path(given, "is or holds a link", err);
}

fx_status fx_lora_path(const fx_loras *l, fx_str given, fx_buf *out, fx_error *err)
{
    fx_str rest = given;
    size_t n = strlen(l->root);
    int dir;

    if (given.n > n + 1 && memcmp(given.p, l->root, n) == 0 && given.p[n] == '/')
        rest = fx_str_n(given.p + n + 1, given.n - n - 1);
    if (rest.n == 0 || memchr(given.p, 0, given.n))
        return bad_path(given, "isn't a path below the folder of adapters", err);
    dir = open(l->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return fx_fail(err, FORNAX_EIO, "%s: the folder of adapters can't be opened", l->root);
    FX_TRY(walk(dir, rest, given, err));
    fx_buf_printf(out, "%s/%.*s", l->root, FX_STR_ARG(rest));
    return out->failed ? fx_nomem(err, "a path") : FORNAX_OK;
}

/* ---- The whole ---- */

fx_status fx_loras_start(fx_loras *l, fornax_model *model, const fx_server_options *opt, fx_error *err)
{
    char words[128];

    *l = (fx_loras){ .model = model, .opt = opt };
    pthread_mutex_init(&l->lock, NULL);
    if (opt->lora_dir && !(l->root = realpath(opt->lora_dir, NULL)))
        return fx_fail(err, FORNAX_EIO, "%s: %s", opt->lora_dir, fx_errno_text(errno, words, sizeof words));
    for (size_t i = 0; i < opt->n_loras; i++)
        FX_TRY(fx_lora_load(l, fx_str_of(opt->loras[i].name), opt->loras[i].path, opt->loras[i].scale, false, err));
    return FORNAX_OK;
}

void fx_loras_stop(fx_loras *l)
{
    for (size_t i = 0; i < l->list.n; i++)
        fx_lora_drop(l->list.at[i]);
    FX_VEC_FREE(&l->list, &fx_mem_libc);
    free(l->root);
    pthread_mutex_destroy(&l->lock);
}
