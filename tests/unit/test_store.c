/* test_store.c - the folder of artifacts: found again, under its cap, shared by processes that may be killed at any moment,
 * and no fault of a disk or file more than a miss. */
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fxtest.h"
#include "mutate.h"

#include "compile/store.h"

enum { BYTES = 300000, CAP = 1 << 20 };          /* three fit */

static char root[64], folder[128], said[512];
static int warnings;

static void log_line(void *user, int level, const char *line)
{
    (void)user;
    warnings += level <= FX_LOG_WARN;
    snprintf(said, sizeof said, "%s", line);
}

/* A store over a new folder of this test's. */
static fx_store *open_at(const char *dir, uint64_t cap)
{
    const fx_log log = { log_line, NULL, FX_LOG_INFO };
    fx_store *s = NULL;
    fx_error err = { 0 };

    warnings = 0;
    CHECK_OK(fx_store_open(&s, &fx_mem_libc, &log, dir, cap, &err), err);
    return s;
}

static const char *new_folder(const char *name)
{
    if (!root[0]) {
        strcpy(root, "/tmp/fx-store-XXXXXX");
        if (!mkdtemp(root))
            abort();
    }
    snprintf(folder, sizeof folder, "%s/%s/artifacts", root, name);
    return folder;
}

/* What the artifact number n holds. */
static uint8_t *content(int n)
{
    static uint8_t bytes[BYTES];

    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)(i * 31 + i / 251 + (size_t)n * 17);
    return bytes;
}

static fx_artifact_id id_of(int n) { return fx_artifact_id_make("fornax 1", "avx2", (fx_hash128){ (uint64_t)n, 9 }); }

static void write_to(fx_store *s, int n)
{
    const fx_artifact_id id = id_of(n);
    const fx_section_data section = { FX_SECTION_WEIGHTS, "packed", 4096, content(n), BYTES };
    char label[32];

    snprintf(label, sizeof label, "model %d", n);
    fx_store_write_end(fx_store_write_begin(s, &id, label, &section, 1));
}

/* Is artifact n there? If so, it must be as it was written. */
static bool has(fx_store *s, int n)
{
    const fx_artifact_id id = id_of(n);
    fx_artifact *a = fx_store_find(s, &id);
    const fx_section *section = a ? fx_artifact_find(a, FX_SECTION_WEIGHTS, "packed") : NULL;
    fx_error err = { 0 };
    fx_str got;

    if (!a)
        return false;
    CHECK(section != NULL);
    if (section && fx_artifact_read(a, section, NULL, &got, &err) == FORNAX_OK)
        CHECK(fx_str_eq(got, fx_str_n((const char *)content(n), BYTES)));
    else
        fx_store_reject(s, a, &err);
    fx_artifact_close(a);
    return !err.text[0];
}

static char *file_of(int n)
{
    static char at[256];
    const fx_artifact_id id = id_of(n);
    fx_hash128 h = fx_hash128_of(&id, sizeof id, 0);

    snprintf(at, sizeof at, "%s/%016llx%016llx.fxa", folder, (unsigned long long)h.hi, (unsigned long long)h.lo);
    return at;
}

typedef struct files {
    int artifacts, temporary, others;
    uint64_t bytes;
} files;

static bool count_file(void *user, const fx_folder_entry *e)
{
    files *f = user;
    bool artifact = strstr(e->name, ".fxa") != NULL, temporary = fx_file_is_temporary(e->name);

    f->artifacts += artifact && !temporary;
    f->temporary += temporary;
    f->others += !artifact && !temporary;
    f->bytes += artifact ? e->bytes : 0;
    return true;
}

static files files_in(const char *dir)
{
    files f = { 0 };

    fx_folder_list(dir, count_file, &f, NULL);
    return f;
}

TEST(found_again)
{
    fx_store *s = open_at(new_folder("again"), CAP);
    fx_store_counts c;
    fx_buf b;

    CHECK(!has(s, 1));
    CHECK(access(folder, F_OK) != 0);            /* looking makes nothing */
    write_to(s, 1);
    CHECK(has(s, 1) && !has(s, 2));
    fx_store_close(s);
    s = open_at(folder, CAP);
    CHECK(has(s, 1));
    write_to(s, 1);                              /* is there */
    c = fx_store_count(s);
    CHECK(c.hits == 1 && c.misses == 0 && c.written == 0 && c.faults == 0);
    write_to(s, 2);
    fx_store_close(s);
    fx_buf_init(&b, &fx_mem_libc);
    CHECK(fx_file_read(&b, strcat(folder, "/manifest"), 1 << 20, NULL) == FORNAX_OK);
    CHECK(strncmp(b.p, "fornax artifacts 1\n", 19) == 0 && strstr(b.p, " model 1\n") && strstr(b.p, " model 2\n"));
    fx_buf_done(&b);
    CHECK_EQ_I64(warnings, 0);
}

static void make_older(int n, int seconds)
{
    struct timespec now, times[2];

    clock_gettime(CLOCK_REALTIME, &now);
    now.tv_sec -= seconds;
    times[0] = times[1] = now;
    CHECK(utimensat(AT_FDCWD, file_of(n), times, 0) == 0);
}

TEST(the_least_recently_used_goes)
{
    fx_store *s = open_at(new_folder("cap"), CAP);

    for (int n = 1; n <= 3; n++) {
        write_to(s, n);
        make_older(n, 100 - n);
    }
    CHECK(has(s, 1));                            /* now the newest; 2 is the oldest */
    write_to(s, 4);
    CHECK(has(s, 1) && !has(s, 2) && has(s, 3) && has(s, 4));
    CHECK(files_in(folder).bytes <= CAP);
    CHECK_EQ_U64(fx_store_count(s).removed, 1);
    fx_store_close(s);

    s = open_at(folder, BYTES);                  /* a smaller cap than the file */
    write_to(s, 5);
    CHECK(!has(s, 5) && has(s, 4));
    CHECK_EQ_I64(warnings, 0);
    fx_store_close(s);
}

/* Damage costs one warning and a miss; the next write puts it right. */
TEST(a_damaged_file_is_made_anew)
{
    fx_store *s = open_at(new_folder("damage"), CAP);

    write_to(s, 1);
    for (int where = 0; where < 2; where++) {    /* the head, the section */
        FILE *f = fopen(file_of(1), "r+b");

        REQUIRE(f);
        fseek(f, where ? 100000 : 40, SEEK_SET);
        fputc(0x5a, f);
        fclose(f);
        CHECK(!has(s, 1));
        CHECK(access(file_of(1), F_OK) != 0);
        CHECK(strstr(said, where ? "isn't what was written" : "an artifact isn't used"));
        write_to(s, 1);
        CHECK(has(s, 1));
    }
    CHECK(truncate(file_of(1), 100) == 0);
    CHECK(!has(s, 1));
    CHECK_EQ_I64(warnings, 1);
    CHECK_EQ_U64(fx_store_count(s).faults, 3);
    fx_store_close(s);
}

/* A file under our name that another version made: not used, made anew. */
TEST(a_foreign_file_is_made_anew)
{
    fx_store *s = open_at(new_folder("foreign"), CAP);
    const fx_artifact_id other = fx_artifact_id_make("fornax 2", "avx512", (fx_hash128){ 1, 9 });
    const fx_section_data section = { FX_SECTION_WEIGHTS, "packed", 4096, content(7), BYTES };

    write_to(s, 1);
    CHECK(fx_artifact_write(file_of(1), &fx_mem_libc, &other, &section, 1, NULL, NULL) == FORNAX_OK);
    CHECK(!has(s, 1));
    CHECK(strstr(said, "made by another version or for another machine"));
    write_to(s, 1);
    CHECK(has(s, 1));
    fx_store_close(s);
}

/* Code that others may have written isn't used, whatever its checksum. */
TEST(a_file_of_another_user_is_made_anew)
{
    fx_store *s = open_at(new_folder("others"), CAP);

    write_to(s, 1);
    CHECK(chmod(file_of(1), 0666) == 0);
    CHECK(!has(s, 1));
    CHECK(strstr(said, "another user owns it, or everybody may write it"));
    write_to(s, 1);
    CHECK(has(s, 1));
    if (geteuid() == 0) {
        CHECK(chown(file_of(1), 12345, 12345) == 0);
        CHECK(!has(s, 1));
        write_to(s, 1);
        CHECK(has(s, 1));
    }
    CHECK_EQ_I64(warnings, 1);
    fx_store_close(s);
}

TEST(folders_that_cannot_be_written)
{
    char file[128], below[160];
    fx_store *s;
    FILE *f;

    new_folder("none");
    snprintf(file, sizeof file, "%s/plain", root);
    f = fopen(file, "w");
    REQUIRE(f && fclose(f) == 0);
    snprintf(below, sizeof below, "%s/artifacts", file);
    s = open_at(below, CAP);
    CHECK(!has(s, 1));
    CHECK_EQ_I64(warnings, 0);
    write_to(s, 1);
    write_to(s, 2);
    CHECK_EQ_I64(warnings, 1);
    CHECK(strstr(said, "packed weights aren't kept") && strstr(said, file));
    CHECK(!has(s, 1));
    fx_store_close(s);
}

/* A child that may do as it likes with its limits and mounts; what it returns. */
static int in_child(int (*fn)(void))
{
    int status = 0;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0)
        _exit(fn());
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The signal that comes with it must not end the process. */
static int file_limit(void)
{
    struct rlimit tight = { 100000, 100000 };
    fx_store *s = open_at(folder, CAP);

    fxtest_bad = 0;
    CHECK(setrlimit(RLIMIT_FSIZE, &tight) == 0);
    write_to(s, 1);
    CHECK(!has(s, 1) && warnings == 1 && fx_store_count(s).faults == 1);
    CHECK(files_in(folder).artifacts == 0 && files_in(folder).temporary == 0);
    fx_store_close(s);
    return fxtest_bad;
}

TEST(a_file_that_may_not_grow)
{
    new_folder("limit");
    CHECK_EQ_I64(in_child(file_limit), 0);
}

enum { NO_MOUNT = 77 };

static int full_disk(void)
{
    fx_store *s;

    fxtest_bad = 0;
    if (fx_folder_make(folder, NULL) != FORNAX_OK || unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", folder, "tmpfs", 0, "size=500k") != 0)
        return NO_MOUNT;
    s = open_at(folder, CAP);
    write_to(s, 1);
    CHECK(has(s, 1) && warnings == 0);
    write_to(s, 2);
    CHECK(!has(s, 2) && has(s, 1) && warnings == 1 && fx_store_count(s).faults == 1);
    CHECK(files_in(folder).temporary == 0);
    CHECK(mount("none", folder, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
    CHECK(has(s, 1));                            /* what is there can be used */
    write_to(s, 3);
    CHECK(!has(s, 3) && warnings == 1 && fx_store_count(s).faults == 2);
    fx_store_close(s);
    return fxtest_bad;
}

TEST(a_full_disk_and_one_that_is_read_only)
{
    int rc;

    new_folder("full");
    rc = in_child(full_disk);
    if (rc == NO_MOUNT)
        fxtest_skip = "no mounts for this user";
    else
        CHECK_EQ_I64(rc, 0);
}

/* ---- Several processes, some killed ---- */

static void write_forever(int first)
{
    fx_store *s = open_at(folder, CAP);

    for (int i = 0;; i++) {
        int n = (first + i) % 5 + 1;

        has(s, n);
        write_to(s, n);
        if (fxtest_bad)
            _exit(1);
        if (i % 3 == 2)
            unlink(file_of(n));                  /* to be written again */
    }
}

static pid_t start_writer(int first)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        fxtest_bad = 0;
        write_forever(first);
    }
    return pid;
}

/* Two processes at once write, read and remove; one is killed at a random moment. Whatever is there then is whole, and the
 * next write sweeps up. */
TEST(killed_at_any_moment)
{
    int tries = mutate_long() ? 200 : 20, status;

    new_folder("killed");
    mutate_state = (uint64_t)getpid() << 20 | 88172645463325252u;
    for (int t = 0; t < tries; t++) {
        pid_t a = start_writer(t), b = start_writer(t + 1);
        const struct timespec wait = { 0, (long)draw(25000000) };
        fx_store *s;

        nanosleep(&wait, NULL);
        CHECK(kill(a, SIGKILL) == 0 && waitpid(a, &status, 0) == a && WIFSIGNALED(status));
        s = open_at(folder, CAP);
        for (int n = 1; n <= 5; n++)
            has(s, n);
        CHECK(kill(b, SIGKILL) == 0 && waitpid(b, &status, 0) == b);
        if (!WIFSIGNALED(status))
            FXTEST_FAIL("the other writer saw a wrong file, status %d", status);
        unlink(file_of(1));
        write_to(s, 1);
        CHECK(has(s, 1));
        CHECK_EQ_I64(files_in(folder).temporary, 0);
        CHECK(files_in(folder).bytes <= CAP);
        CHECK_EQ_U64(fx_store_count(s).faults, 0);
        fx_store_close(s);
    }
}

TEST(removes_its_folder)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf %s", root);
    CHECK(system(command) == 0);
}

FXTEST_MAIN()
