/* store.c - the folder of artifacts: names, locks, the cap, the manifest (store.h).
 *
 * One lock of the file 'lock' guards the manifest and removals; a file that is being written has a lock by its name's
 * hash, which tells a temporary file of a living writer from one that a crash left.
 * When a file was last used is its own time of change, so that a start that finds one writes nothing. */
#include "compile/store.h"

#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/lock_file.h"
#include "base/text.h"
#include "base/thread.h"

#define SUFFIX ".fxa"
#define MANIFEST "manifest"
#define MANIFEST_HEAD "fornax artifacts 1\n"
enum { FOLDER_LOCK = 0, KEY_DIGITS = 32, LABEL_BYTES = 256, MANIFEST_BYTES = 1 << 20 };

struct fx_store {
    const fx_mem *mem;
    fx_log log;
    uint64_t cap;
    atomic_ullong hits, misses, written, removed, faults;
    size_t dir_n;
    char dir[];
};

struct fx_store_write {
    fx_store *store;
    fx_artifact_id id;
    char label[LABEL_BYTES];
    const fx_section_data *sections;     /* a copy, behind this struct */
    size_t n, bytes;                     /* bytes: of this allocation */
    pthread_t thread;
    pid_t pid;                           /* where that runs: not in a forked child */
};

fx_status fx_store_open(fx_store **out, const fx_mem *mem, const fx_log *log, const char *dir, uint64_t cap, fx_error *err)
{
    size_t n = strlen(dir);
    fx_store *s = fx_mem_zalloc(mem, sizeof *s + n + 1);

    *out = s;
    if (!s)
        return fx_nomem(err, dir);
    s->mem = mem;
    s->log = *log;
    s->cap = cap;
    s->dir_n = n;
    memcpy(s->dir, dir, n);
    return FORNAX_OK;
}

void fx_store_close(fx_store *s)
{
    if (s)
        fx_mem_free(s->mem, s, sizeof *s + s->dir_n + 1);
}

bool fx_store_writable(const fx_store *s) { return fx_folder_make(s->dir, NULL) == FORNAX_OK && access(s->dir, W_OK) == 0; }

fx_store_counts fx_store_count(fx_store *s)
{
    return (fx_store_counts){ .hits = atomic_load(&s->hits), .misses = atomic_load(&s->misses),
                              .written = atomic_load(&s->written), .removed = atomic_load(&s->removed),
                              .faults = atomic_load(&s->faults) };
}

/* Something went wrong that costs time only: a warning the first time, a note later. */
static void fault(fx_store *s, const char *what, const fx_error *err)
{
    bool first = atomic_fetch_add(&s->faults, 1) == 0;

    fx_log_print(&s->log, first ? FX_LOG_WARN : FX_LOG_INFO, "%s: %s", what, err->text);
}

/* ---- Names ---- */

typedef struct key {
    fx_hash128 hash;
    char text[KEY_DIGITS + 1];
} key;

static key key_of(const fx_artifact_id *id)
{
    key k = { .hash = fx_hash128_of(id, sizeof *id, 0) };

    fx_format(k.text, sizeof k.text, "%016llx%016llx", (unsigned long long)k.hash.hi, (unsigned long long)k.hash.lo);
    return k;
}

/* The path of a file of the folder, in 'b'; NULL: no memory. */
static const char *path_of(const fx_store *s, fx_buf *b, const char *name, const char *suffix)
{
    fx_buf_init(b, s->mem);
    fx_path_join(b, s->dir, name);
    fx_buf_puts(b, suffix);
    return b->failed ? NULL : fx_buf_view(b).p;
}

static bool is_key(fx_str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f')))
            return false;
    return s.n == KEY_DIGITS;
}

static uint64_t lock_of(fx_str key_text) { return fx_hash64(key_text.p, key_text.n, 1) | 1; }     /* never FOLDER_LOCK */

/* ---- Finding ---- */

fx_artifact *fx_store_find(fx_store *s, const fx_artifact_id *id)
{
    key k = key_of(id);
    fx_artifact *a = NULL;
    fx_error err = { 0 };
    fx_buf b;
    const char *path = path_of(s, &b, k.text, SUFFIX);
    fx_status st = path ? fx_artifact_open(&a, s->mem, path, &err) : fx_nomem(&err, s->dir);

    if (st == FORNAX_OK && !fx_artifact_id_eq(fx_artifact_id_of(a), id))
        st = fx_fail(&err, FORNAX_EFORMAT, "%s: made by another version or for another machine", path);
    if (st == FORNAX_OK && fx_artifact_is_others(a))         /* a checksum says nothing of who wrote it, and there may be code in it */
        st = fx_fail(&err, FORNAX_EFORMAT, "%s: another user owns it, or everybody may write it", path);
    if (st == FORNAX_OK)
        fx_file_touch(path, NULL);               /* of a folder that can't be written, the order doesn't matter */
    else if (st != FORNAX_ENOTFOUND)
        fault(s, "an artifact isn't used", &err);
    if (st == FORNAX_EFORMAT)
        fx_file_remove(path, NULL);
    atomic_fetch_add(st == FORNAX_OK ? &s->hits : &s->misses, 1);
    if (st != FORNAX_OK) {
        fx_artifact_close(a);
        a = NULL;
    }
    fx_buf_done(&b);
    return a;
}

void fx_store_reject(fx_store *s, const fx_artifact *a, const fx_error *err)
{
    fault(s, "an artifact isn't used", err);
    fx_file_remove(fx_artifact_path(a), NULL);
    atomic_fetch_sub(&s->hits, 1);
    atomic_fetch_add(&s->misses, 1);
}

/* ---- The folder, under its lock ---- */

typedef struct listed {
    char key[KEY_DIGITS + 1];
    uint64_t bytes, used_ns;
} listed;

typedef struct listing {
    fx_store *store;
    fx_lock_file *locks;
    uint64_t own;                        /* a lock of ours, which trying it again wouldn't tell */
    FX_VEC(listed) files;
    bool failed;
} listing;

/* Removes a temporary file if its writer is gone. Of an artifact, the name begins with its key; the manifest's
 * writers have the folder's lock, which is ours now. */
static void sweep(listing *l, fx_str name)
{
    fx_str key_text = fx_str_n(name.p, FX_MIN(name.n, (size_t)KEY_DIGITS));
    bool artifact = is_key(key_text);
    uint64_t number = artifact ? lock_of(key_text) : FOLDER_LOCK;
    bool ours = number == FOLDER_LOCK || number == l->own;
    fx_buf b;

    if ((!artifact && !fx_str_starts(name, FX_STR(MANIFEST))) || (!ours && !fx_lock_try(l->locks, number)))
        return;
    if (path_of(l->store, &b, name.p, ""))
        fx_file_remove(b.p, NULL);
    fx_buf_done(&b);
    if (!ours)
        fx_lock_drop(l->locks, number);
}

static bool list_one(void *user, const fx_folder_entry *e)
{
    listing *l = user;
    fx_str name = fx_str_of(e->name), suffix = FX_STR(SUFFIX);
    listed f = { .bytes = e->bytes, .used_ns = e->mtime_ns };

    if (fx_file_is_temporary(e->name))
        sweep(l, name);
    if (name.n != KEY_DIGITS + suffix.n || !fx_str_ends(name, suffix) || !is_key(fx_str_n(name.p, KEY_DIGITS)))
        return true;
    memcpy(f.key, name.p, KEY_DIGITS);
    l->failed |= !FX_VEC_PUSH(&l->files, l->store->mem, f);
    return !l->failed;
}

static uint64_t sum_bytes(const listing *l)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < l->files.n; i++)
        sum += l->files.at[i].bytes;
    return sum;
}

/* Removes the least recently used until 'more' bytes fit under the cap. */
static void make_room(listing *l, uint64_t more)
{
    fx_store *s = l->store;
    fx_buf b;

    while (l->files.n > 0 && (more > s->cap || sum_bytes(l) > s->cap - more)) {
        size_t oldest = 0;

        for (size_t i = 1; i < l->files.n; i++)
            if (l->files.at[i].used_ns < l->files.at[oldest].used_ns)
                oldest = i;
        if (path_of(s, &b, l->files.at[oldest].key, SUFFIX) && fx_file_remove(b.p, NULL) == FORNAX_OK) {
            atomic_fetch_add(&s->removed, 1);
            fx_log_print(&s->log, FX_LOG_INFO, "%s: removed, the least recently used", b.p);
        }
        fx_buf_done(&b);
        l->files.at[oldest] = l->files.at[--l->files.n];
    }
}

/* ---- The manifest: key, bytes and label a line ---- */

/* The label that the old manifest has for a file, "" if none. */
static fx_str old_label(fx_str manifest, const char *key_text)
{
    for (size_t at = 0; at < manifest.n;) {
        size_t end = fx_str_find(manifest, FX_STR("\n"), at);
        fx_str line = fx_str_n(manifest.p + at, (end == FX_STR_NONE ? manifest.n : end) - at);

        if (line.n > KEY_DIGITS && memcmp(line.p, key_text, KEY_DIGITS) == 0) {
            size_t blank = fx_str_find(line, FX_STR(" "), KEY_DIGITS + 1);

            return blank == FX_STR_NONE ? FX_STR("") : fx_str_n(line.p + blank + 1, line.n - blank - 1);
        }
        at += line.n + 1;
    }
    return FX_STR("");
}

static void write_manifest(const listing *l, const char *new_key, const char *new_label)
{
    fx_store *s = l->store;
    fx_error err = { 0 };
    fx_buf path, old, b;

    fx_buf_init(&old, s->mem);
    fx_buf_init(&b, s->mem);
    if (!path_of(s, &path, MANIFEST, ""))
        b.failed = true;
    else
        fx_file_read(&old, path.p, MANIFEST_BYTES, NULL);        /* missing: no labels */
    fx_buf_puts(&b, MANIFEST_HEAD);
    for (size_t i = 0; i < l->files.n; i++) {
        const listed *f = &l->files.at[i];
        fx_str label = strcmp(f->key, new_key) == 0 ? fx_str_of(new_label) : old_label(fx_buf_view(&old), f->key);

        fx_buf_printf(&b, "%s %llu %.*s\n", f->key, (unsigned long long)f->bytes, FX_STR_ARG(label));
    }
    if (b.failed || fx_file_write_atomic(path.p, fx_buf_view(&b), &err) != FORNAX_OK)
        fault(s, "the manifest of artifacts", &err);
    fx_buf_done(&path);
    fx_buf_done(&old);
    fx_buf_done(&b);
}

static fx_status list_folder(listing *l, fx_error *err)
{
    FX_TRY(fx_folder_list(l->store->dir, list_one, l, err));
    return l->failed ? fx_nomem(err, l->store->dir) : FORNAX_OK;
}

/* ---- Writing ---- */

static fx_status no_locks(const fx_store *s, fx_error *err)
{
    return fx_fail(err, FORNAX_EIO, "%s: its filesystem has no locks", s->dir);
}

/* Makes room, writes, notes it; the file's own lock is held. */
static fx_status write_locked(fx_store_write *w, const key *k, const char *path, fx_lock_file *locks, fx_error *err)
{
    fx_store *s = w->store;
    listing l = { .store = s, .locks = locks, .own = lock_of(fx_str_of(k->text)) };
    fx_status st;

    if (fx_path_exists(path))                    /* another process was quicker */
        return FORNAX_OK;
    if (!fx_lock_take(locks, FOLDER_LOCK))
        return no_locks(s, err);
    st = list_folder(&l, err);
    if (st == FORNAX_OK)
        make_room(&l, fx_artifact_file_bytes(w->sections, w->n));
    fx_lock_drop(locks, FOLDER_LOCK);
    if (st == FORNAX_OK)
        st = fx_artifact_write(path, s->mem, &w->id, w->sections, w->n, NULL, err);
    if (st == FORNAX_OK && fx_lock_take(locks, FOLDER_LOCK)) {
        atomic_fetch_add(&s->written, 1);
        l.files.n = 0;
        st = list_folder(&l, err);               /* others may have written meanwhile */
        if (st == FORNAX_OK)
            make_room(&l, 0);
        write_manifest(&l, k->text, w->label);
        fx_lock_drop(locks, FOLDER_LOCK);
    }
    FX_VEC_FREE(&l.files, s->mem);
    return st;
}

static fx_status write_one(fx_store_write *w, fx_error *err)
{
    fx_store *s = w->store;
    key k = key_of(&w->id);
    uint64_t number = lock_of(fx_str_of(k.text));
    fx_lock_file *locks = NULL;
    fx_buf path, lock_path;
    bool named = path_of(s, &path, k.text, SUFFIX) != NULL;
    fx_status st = path_of(s, &lock_path, "lock", "") && named ? FORNAX_OK : fx_nomem(err, s->dir);

    if (st == FORNAX_OK)
        st = fx_folder_make(s->dir, err);
    if (st == FORNAX_OK)
        st = fx_lock_file_open(&locks, s->mem, lock_path.p, err);
    if (st == FORNAX_OK && fx_lock_try(locks, number)) {
        st = write_locked(w, &k, path.p, locks, err);
        fx_lock_drop(locks, number);
    } else if (st == FORNAX_OK && !fx_lock_take(locks, FOLDER_LOCK)) {
        st = no_locks(s, err);
    }                                            /* else another is at it */
    fx_lock_file_close(locks);
    fx_buf_done(&path);
    fx_buf_done(&lock_path);
    return st;
}

static void *write_main(void *user)
{
    fx_store_write *w = user;
    fx_error err = { 0 };

    fx_thread_give_way(10);                      /* requests come first */
    if (write_one(w, &err) != FORNAX_OK)
        fault(w->store, w->sections[0].kind == FX_SECTION_WEIGHTS ? "packed weights aren't kept" : "compiled code isn't kept", &err);
    return NULL;
}

fx_store_write *fx_store_write_begin(fx_store *s, const fx_artifact_id *id, const char *label, const fx_section_data *sections,
                                     size_t n)
{
    size_t bytes = sizeof(fx_store_write) + n * sizeof *sections;
    uint64_t file_bytes = fx_artifact_file_bytes(sections, n);
    fx_store_write *w;

    if (!file_bytes || file_bytes > s->cap) {
        fx_log_print(&s->log, FX_LOG_INFO, "%s: %llu bytes aren't kept, the cap is %llu", label,
                     (unsigned long long)file_bytes, (unsigned long long)s->cap);
        return NULL;
    }
    w = fx_mem_zalloc(s->mem, bytes);
    if (!w)
        return NULL;
    *w = (fx_store_write){ .store = s, .id = *id, .sections = (const fx_section_data *)(const void *)(w + 1), .n = n,
                           .bytes = bytes, .pid = getpid() };
    memcpy(w + 1, sections, n * sizeof *sections);
    fx_format(w->label, sizeof w->label, "%s", label);
    for (char *p = w->label; *p; p++)
        if (*p == '\n' || *p == '\r')
            *p = ' ';
    if (fx_thread_start(&w->thread, write_main, w) == 0)    /* one signal, SIGXFSZ, would end the process where a file may not grow */
        return w;
    fx_mem_free(s->mem, w, bytes);
    return NULL;
}

void fx_store_write_end(fx_store_write *w)
{
    if (!w)
        return;
    if (w->pid == getpid())
        pthread_join(w->thread, NULL);
    fx_mem_free(w->store->mem, w, w->bytes);
}
