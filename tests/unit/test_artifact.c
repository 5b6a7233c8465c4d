/* test_artifact.c - the container: what was written is read, and no damage to any byte goes unnoticed. */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fxtest.h"
#include "mutate.h"

#include "compile/artifact.h"

static char dir[64], path[128];

/* A path in a folder of this test. */
static const char *at(const char *name)
{
    if (!dir[0]) {
        strcpy(dir, "/tmp/fx-artifact-XXXXXX");
        if (!mkdtemp(dir))
            abort();
    }
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static uint8_t bytes[3000000];

static void fill(void)
{
    uint32_t x = 5;

    for (size_t i = 0; i < sizeof bytes; i++) {
        x = x * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(x >> 24);
    }
}

static const fx_section_data big[] = {
    { FX_SECTION_PLAN, "step", 64, bytes, 100 },       { FX_SECTION_CODE, "step", 4096, bytes + 7, 5000 },
    { FX_SECTION_CONSTANTS, "empty", 64, bytes, 0 },   { FX_SECTION_WEIGHTS, "packed", 4096, bytes, sizeof bytes },
    { FX_SECTION_WEIGHTS, "more", 64, bytes + 1, 65 },
};
static const fx_section_data small[] = {
    { FX_SECTION_PLAN, "step", 64, bytes, 70 },
    { FX_SECTION_WEIGHTS, "packed", 4096, bytes + 70, 600 },
};

static fx_artifact_id identity(void) { return fx_artifact_id_make("fornax 1", "avx2", (fx_hash128){ 1, 2 }); }

static void write_file(const char *to, const fx_section_data *s, size_t n)
{
    fx_artifact_id id = identity();
    fx_error err = { 0 };

    fill();
    CHECK_OK(fx_artifact_write(to, &fx_mem_libc, &id, s, n, NULL, &err), err);
}

/* Opens and reads all; what is read must be what was written. Returns the first status that isn't FORNAX_OK. */
static fx_status read_all_of(const char *from, const fx_section_data *want, size_t n, fx_pool *pool, fx_error *err)
{
    fx_artifact *a = NULL;
    fx_status st = fx_artifact_open(&a, &fx_mem_libc, from, err);

    for (size_t i = 0; st == FORNAX_OK && i < fx_artifact_sections(a); i++) {
        const fx_section *s = fx_artifact_at(a, i);
        fx_str got = { 0 };

        st = fx_artifact_read(a, s, pool, &got, err);
        if (st != FORNAX_OK)
            break;
        CHECK(i < n && s->kind == want[i].kind && strcmp(s->name, want[i].name) == 0);
        CHECK(i < n && fx_str_eq(got, fx_str_n(want[i].at, want[i].bytes)));
        CHECK(i < n && (uintptr_t)got.p % want[i].align == 0);
    }
    if (st == FORNAX_OK)
        CHECK_EQ_U64(fx_artifact_sections(a), n);
    fx_artifact_close(a);
    return st;
}

TEST(what_was_written_is_read)
{
    fx_artifact_id id = identity(), other = fx_artifact_id_make("fornax 1", "avx2", (fx_hash128){ 1, 3 });
    fx_error err = { 0 };
    fx_artifact *a = NULL;
    fx_pool *pool = NULL;
    struct stat info;

    CHECK_OK(fx_pool_new(&pool, &fx_mem_libc, 3, &err), err);
    write_file(at("big"), big, FX_COUNT(big));
    CHECK_OK(read_all_of(path, big, FX_COUNT(big), NULL, &err), err);
    CHECK_OK(read_all_of(path, big, FX_COUNT(big), pool, &err), err);
    CHECK(stat(path, &info) == 0 && (uint64_t)info.st_size == fx_artifact_file_bytes(big, FX_COUNT(big)));
    CHECK_OK(fx_artifact_open(&a, &fx_mem_libc, path, &err), err);
    CHECK(fx_artifact_id_eq(fx_artifact_id_of(a), &id) && !fx_artifact_id_eq(fx_artifact_id_of(a), &other));
    CHECK(fx_artifact_find(a, FX_SECTION_WEIGHTS, "more") == fx_artifact_at(a, 4));
    CHECK(!fx_artifact_find(a, FX_SECTION_PLAN, "more") && !fx_artifact_find(a, FX_SECTION_WEIGHTS, "mor"));
    fx_artifact_close(a);
    write_file(at("none"), NULL, 0);
    CHECK_OK(read_all_of(path, NULL, 0, NULL, &err), err);
    fx_pool_free(pool);
}

TEST(sections_that_cannot_be)
{
    static const fx_section_data bad[] = {
        { FX_SECTION_PLAN, "name of twenty-four chars", 64, bytes, 1 }, { FX_SECTION_PLAN, "x", 32, bytes, 1 },
        { FX_SECTION_KINDS, "x", 64, bytes, 1 },                        { FX_SECTION_PLAN, "x", 64, bytes, SIZE_MAX },
    };
    fx_artifact_id id = identity();

    for (size_t i = 0; i < FX_COUNT(bad); i++) {
        CHECK_EQ_U64(fx_artifact_file_bytes(&bad[i], 1), 0);
        CHECK(fx_artifact_write(at("bad"), &fx_mem_libc, &id, &bad[i], 1, NULL, NULL) == FORNAX_EARG);
        CHECK(access(path, F_OK) != 0);
    }
    CHECK_EQ_U64(fx_artifact_file_bytes(big, FX_ARTIFACT_MAX_SECTIONS + 1), 0);
}

/* Of a file whose pages are small ones, and of one that may have huge ones. */
TEST(bytes_on_huge_pages)
{
    static uint8_t many[9 << 20];
    const fx_section_data s = { FX_SECTION_WEIGHTS, "packed", 64, many, sizeof many };
    fx_artifact_id id = identity();
    fx_error err = { 0 };
    fx_buf b;

    for (size_t i = 0; i < sizeof many; i++)
        many[i] = (uint8_t)(i * 7 + i / 1000);
    CHECK_OK(fx_artifact_write(at("huge"), &fx_mem_libc, &id, &s, 1, NULL, &err), err);
    fx_buf_init(&b, &fx_mem_libc);
    CHECK_OK(fx_file_read(&b, path, 16 << 20, &err), err);
    for (int little = 0; little < 2; little++) {
        fx_artifact *a = NULL;
        fx_str got = { 0 };
        void *copy = NULL;

        if (little) {
            int fd = open(at("little"), O_WRONLY | O_CREAT, 0600);

            for (size_t i = 0; i < b.n; i += 4096)
                CHECK(write(fd, b.p + i, FX_MIN(b.n - i, (size_t)4096)) > 0);
            close(fd);
        }
        CHECK_OK(fx_artifact_open(&a, &fx_mem_libc, path, &err), err);
        REQUIRE(a);
        CHECK_OK(fx_artifact_read_huge(a, fx_artifact_at(a, 0), NULL, &got, &copy, &err), err);
        CHECK(fx_str_eq(got, fx_str_n((const char *)many, sizeof many)));
        CHECK(!little || copy == got.p);
        CHECK((uintptr_t)got.p % 64 == 0);
        fx_artifact_close(a);
        if (copy)
            CHECK(fx_str_eq(got, fx_str_n((const char *)many, sizeof many)));
        fx_pages_free(copy, got.n);
    }
    fx_buf_done(&b);
}

static void put_file(const char *to, fx_str data)
{
    FILE *f = fopen(to, "wb");

    CHECK(f && fwrite(data.p, 1, data.n, f) == data.n && fclose(f) == 0);
}

static fx_buf small_file(void)
{
    fx_error err = { 0 };
    fx_buf b;

    write_file(at("small"), small, FX_COUNT(small));
    fx_buf_init(&b, &fx_mem_libc);
    CHECK_OK(fx_file_read(&b, path, 1 << 20, &err), err);
    return b;
}

/* All of a byte's bits, and one of them. */
TEST(any_changed_byte_is_noticed)
{
    fx_buf b = small_file();

    for (size_t i = 0; i < b.n; i++) {
        static const uint8_t flips[] = { 0xff, 0x01, 0x80 };

        for (size_t k = 0; k < (mutate_long() ? FX_COUNT(flips) : 1); k++) {
            fx_error err = { 0 };

            b.p[i] = (char)(b.p[i] ^ flips[k]);
            put_file(at("flipped"), fx_buf_view(&b));
            if (read_all_of(path, small, FX_COUNT(small), NULL, &err) != FORNAX_EFORMAT || !strstr(err.text, "flipped: "))
                FXTEST_FAIL("byte %zu: %s", i, err.text);
            b.p[i] = (char)(b.p[i] ^ flips[k]);
        }
    }
    fx_buf_done(&b);
}

static void damaged(void *user, fx_str data, const char *what, int number)
{
    fx_str whole = *(const fx_str *)user;
    fx_error err = { 0 };

    if (fx_str_eq(data, whole))
        return;
    put_file(at("damaged"), data);
    if (read_all_of(path, small, FX_COUNT(small), NULL, &err) != FORNAX_EFORMAT || !err.text[0])
        FXTEST_FAIL("%s %d: %s", what, number, err.text);
}

TEST(cut_and_changed_files)
{
    fx_buf b = small_file();
    fx_str whole = fx_buf_view(&b);

    each_damage(whole, 300, damaged, &whole);
    fx_buf_putc(&b, 0);                          /* a byte too many */
    put_file(at("longer"), fx_buf_view(&b));
    CHECK(read_all_of(path, small, FX_COUNT(small), NULL, NULL) == FORNAX_EFORMAT);
    fx_buf_done(&b);
}

/* A later version's file is said to be that, whatever else it holds. */
TEST(another_version)
{
    fx_buf b = small_file();
    fx_error err = { 0 };
    uint32_t version = FX_ARTIFACT_VERSION + 1;

    memcpy(b.p + 8, &version, sizeof version);
    put_file(at("later"), fx_buf_view(&b));
    CHECK(read_all_of(path, small, FX_COUNT(small), NULL, &err) == FORNAX_EFORMAT);
    CHECK(strstr(err.text, "version 2, expected 1") != NULL);
    put_file(at("none"), FX_STR("GGUF"));
    CHECK(read_all_of(path, small, FX_COUNT(small), NULL, &err) == FORNAX_EFORMAT);
    CHECK(read_all_of(at("missing"), small, FX_COUNT(small), NULL, &err) == FORNAX_ENOTFOUND);
    fx_buf_done(&b);
}

static int files_in_dir(void)
{
    char command[128];
    FILE *f;
    int n = -1;

    snprintf(command, sizeof command, "ls %s | wc -l", dir);
    f = popen(command, "r");
    if (!f || fscanf(f, "%d", &n) != 1)
        n = -1;
    if (f)
        pclose(f);
    return n;
}

/* Where a file may not grow: an error, the old file as it was, nothing left beside it. */
TEST(a_write_that_fails_leaves_nothing)
{
    fx_artifact_id id = identity();
    fx_error err = { 0 };
    struct rlimit old, tight;
    const atomic_bool stop = true;
    int before;

    write_file(at("kept"), small, FX_COUNT(small));
    before = files_in_dir();
    getrlimit(RLIMIT_FSIZE, &old);
    tight = (struct rlimit){ 1 << 20, old.rlim_max };
    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &tight) == 0);
    CHECK(fx_artifact_write(path, &fx_mem_libc, &id, big, FX_COUNT(big), NULL, &err) == FORNAX_EIO);
    CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0);
    CHECK(strstr(err.text, "kept") != NULL);
    CHECK(fx_artifact_write(path, &fx_mem_libc, &id, big, FX_COUNT(big), &stop, &err) == FORNAX_ECANCEL);
    CHECK_OK(read_all_of(path, small, FX_COUNT(small), NULL, &err), err);
    CHECK_EQ_I64(files_in_dir(), before);
}

TEST(removes_its_folder)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf %s", dir);
    CHECK(system(command) == 0);
}

FXTEST_MAIN()
