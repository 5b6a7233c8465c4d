/* main.c - the fornax program: finds the command, parses its options, runs it. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"

static const fx_cmd *const commands[] = {
    &fx_cmd_serve, &fx_cmd_chat,    &fx_cmd_agent, &fx_cmd_generate, &fx_cmd_tokenize,
    &fx_cmd_template, &fx_cmd_logits, &fx_cmd_inspect, &fx_cmd_encode,  &fx_cmd_bench,
    &fx_cmd_quantize, &fx_cmd_grammar, &fx_cmd_compile, &fx_cmd_explain,
};

static const char *current = "";         /* the command, for messages */

/* The options of this command that were given, by their place in its table, and those of them
 * that were given by their letter. */
static struct {
    const fx_cmd *cmd;
    bool seen[64], by_letter[64];
} given;

/* An option as it was typed: "-c" or "--ctx". */
static const char *typed(const fx_opt *o, char out[40])
{
    if (given.by_letter[o - given.cmd->opts])
        snprintf(out, 40, "-%c", o->letter);
    else
        snprintf(out, 40, "--%s", o->name);
    return out;
}

/* The option that gave a parameter of the library its value, or NULL. */
static const fx_opt *option_of(const char *param)
{
    static const struct { const char *param, *option; } names[] = {
        { "max_context", "ctx" }, { "n", "choices" }, { "top_logprobs", "logprobs" }, { "queue_limit", "queue" },
        { "kv_bytes", "kv-mib" },
    };
    char name[40];
    size_t n = 0;

    for (; param[n] && n + 1 < sizeof name; n++)
        name[n] = param[n] == '_' ? '-' : param[n];
    name[n] = 0;
    for (size_t i = 0; i < FX_COUNT(names); i++) {
        if (strcmp(param, names[i].param) == 0)
            snprintf(name, sizeof name, "%s", names[i].option);
    }
    for (const fx_opt *o = given.cmd ? given.cmd->opts : NULL; o && o->name; o++) {
        if (strcmp(o->name, name) == 0 && given.seen[o - given.cmd->opts])
            return o;
    }
    return NULL;
}

int fx_cli_fail(const fornax_error *err)
{
    bool refused = err->status == FORNAX_EARG || err->status == FORNAX_EUNSUP || err->status == FORNAX_ENOMEM;
    const fx_opt *o = refused ? option_of(err->param) : NULL;
    const char *text = err->text;
    size_t n = strlen(err->param);
    char name[40];

    if (err->status == FORNAX_ECANCEL && fx_cli_interrupted())
        return FX_EXIT_INTERRUPTED;
    if (o && strncmp(text, err->param, n) == 0 && text[n] == ':')
        text += n + 1 + strspn(text + n + 1, " ");
    if (o)
        return fx_cli_usage("%s: %s", typed(o, name), text);
    fprintf(stderr, "fornax%s%s: %s\n", *current ? " " : "", current, err->text);
    return FX_EXIT_FAILED;
}

int fx_cli_usage(const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "fornax%s%s: ", *current ? " " : "", current);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "\nTry 'fornax %s%s--help'.\n", current, *current ? " " : "");
    return FX_EXIT_USAGE;
}

static bool write_failed;

bool fx_cli_output_ok(void) { return !write_failed && !ferror(stdout); }

void fx_cli_write(fx_str text)
{
    write_failed |= fflush(stdout) != 0;
    while (text.n > 0 && !write_failed) {
        ssize_t n = write(STDOUT_FILENO, text.p, text.n);

        if (n >= 0)
            text = fx_str_n(text.p + n, text.n - (size_t)n);
        else
            write_failed = errno != EINTR;
    }
}

static void print_overview(FILE *to)
{
    fprintf(to, "fornax %s - compile, run and serve language models on this machine\n\n"
                "usage: fornax COMMAND [options]\n\n", fornax_version());
    for (size_t i = 0; i < FX_COUNT(commands); i++)
        fprintf(to, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(to, "\nfornax COMMAND --help shows options and examples.\n");
}

static void print_help(const fx_cmd *c)
{
    printf("fornax %s - %s\n\nusage: fornax %s [options] %s\n\n", c->name, c->summary, c->name, c->args);
    for (const fx_opt *o = c->opts; o->name; o++) {
        char left[64];

        snprintf(left, sizeof left, "%s%c%s--%s%s%s", o->letter ? "-" : " ", o->letter ? o->letter : ' ',
                 o->letter ? ", " : "  ", o->name, o->value ? " " : "", o->value ? o->value : "");
        printf("  %-32s %s\n", left, o->help);
    }
    printf("  %-32s %s\n\nexamples:\n%s", "-h, --help", "this text", c->examples);
}

/* ---- Options ---- */

static bool set_number(const fx_opt *o, void *at, const char *text)
{
    fx_str s = fx_str_of(text);

    if (o->type == FX_OPT_INT)
        return fx_parse_i64(s, at);
    if (o->type == FX_OPT_SEED) {
        fx_seed *seed = at;
        return seed->given = fx_parse_u64(s, &seed->value);
    }
    return fx_parse_double(s, at);
}

/* A number has its option's range. */
static bool in_range(const fx_opt *o, const void *at, const char *text)
{
    double x = o->type == FX_OPT_INT ? (double)*(const int64_t *)at : o->type == FX_OPT_FLOAT ? *(const double *)at : 0;
    char name[40];

    FX_ASSERT(o->type == FX_OPT_SEED || o->min < o->max);
    if (o->type == FX_OPT_SEED || (x >= o->min && x <= o->max))
        return true;
    if (o->max == FLT_MAX)
        fx_cli_usage("%s: expected %g or more, found %s", typed(o, name), o->min, text);
    else
        fx_cli_usage("%s: expected %.0f to %.0f, found %s", typed(o, name), o->min, o->max, text);
    return false;
}

static bool set_option(const fx_opt *o, void *opts, const char *text)
{
    char name[40];
    void *at = (char *)opts + o->at;

    if (o->type == FX_OPT_FLAG) {
        *(bool *)at = true;
    } else if (o->type == FX_OPT_STR) {
        *(const char **)at = text;
    } else if (o->type == FX_OPT_STRS) {
        fx_strs *list = at;
        if (list->n == FX_COUNT(list->at)) {
            fx_cli_usage("%s: given more than %zu times", typed(o, name), FX_COUNT(list->at));
            return false;
        }
        list->at[list->n++] = text;
    } else if (!set_number(o, at, text)) {
        fx_cli_usage("%s: expected %s, found '%s'", typed(o, name), o->type == FX_OPT_FLOAT ? "a number" : "an integer",
                     text);
        return false;
    } else {
        return in_range(o, at, text);
    }
    return true;
}

static const fx_opt *find_long(const fx_cmd *c, fx_str name)
{
    for (const fx_opt *o = c->opts; o->name; o++) {
        if (fx_str_is(name, o->name))
            return o;
    }
    return NULL;
}

static const fx_opt *find_letter(const fx_cmd *c, char letter)
{
    for (const fx_opt *o = c->opts; o->name; o++) {
        if (o->letter && o->letter == letter)
            return o;
    }
    return NULL;
}

/* One argument that begins with '-'. *i moves on when it takes the next one as its value. */
static bool parse_option(const fx_cmd *c, void *opts, int argc, char **argv, int *i)
{
    const char *arg = argv[*i], *value = NULL;
    const fx_opt *o;
    char name[40];

    if (arg[1] == '-') {
        const char *eq = strchr(arg, '=');
        o = find_long(c, eq ? fx_str_n(arg + 2, (size_t)(eq - arg - 2)) : fx_str_of(arg + 2));
        value = eq ? eq + 1 : NULL;
    } else {
        o = find_letter(c, arg[1]);
        value = o && arg[2] ? arg + 2 : NULL;
    }
    if (!o) {
        fx_cli_usage("unknown option %s", arg);
        return false;
    }
    FX_ASSERT(o - c->opts < (ptrdiff_t)FX_COUNT(given.seen));
    given.seen[o - c->opts] = true;
    given.by_letter[o - c->opts] = arg[1] != '-';
    if (o->type == FX_OPT_FLAG) {
        if (value) {
            fx_cli_usage("%s takes no value", typed(o, name));
            return false;
        }
    } else if (!value) {
        if (*i + 1 >= argc) {
            fx_cli_usage("%s: a value must follow", typed(o, name));
            return false;
        }
        value = argv[++*i];
    }
    return set_option(o, opts, value);
}

static int run_command(const fx_cmd *c, int argc, char **argv)
{
    void *opts = calloc(1, c->opts_bytes + 1);
    char **args = calloc((size_t)argc + 1, sizeof *args);
    int n = 0, status = FX_EXIT_USAGE;
    bool options = true;

    if (!opts || !args) {
        fprintf(stderr, "fornax: no memory\n");
        exit(FX_EXIT_FAILED);
    }
    if (c->defaults)
        memcpy(opts, c->defaults, c->opts_bytes);
    for (int i = 0; i < argc; i++) {
        if (options && strcmp(argv[i], "--") == 0) {
            options = false;
        } else if (options && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)) {
            print_help(c);
            status = FX_EXIT_OK;
            goto done;
        } else if (options && argv[i][0] == '-' && argv[i][1]) {
            if (!parse_option(c, opts, argc, argv, &i))
                goto done;
        } else {
            args[n++] = argv[i];
        }
    }
    if (n < c->min_args || n > c->max_args)
        fx_cli_usage(n < c->min_args ? "%s is missing" : "too many arguments; expected %s", c->args);
    else
        status = c->run(opts, n, args);
done:
    free(args);
    free(opts);
    return status;
}

static const fx_cmd *find_command(const char *name)
{
    for (size_t i = 0; i < FX_COUNT(commands); i++) {
        if (strcmp(name, commands[i]->name) == 0)
            return commands[i];
    }
    return NULL;
}

static int dispatch(int argc, char **argv)
{
    const fx_cmd *c;
    bool help;

    if (argc < 2) {
        print_overview(stderr);
        return FX_EXIT_USAGE;
    }
    help = strcmp(argv[1], "help") == 0;
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || (help && argc == 2)) {
        print_overview(stdout);
        return FX_EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("fornax %s\n", fornax_version());
        return FX_EXIT_OK;
    }
    c = find_command(argv[help ? 2 : 1]);
    if (!c)
        return fx_cli_usage("unknown command '%s'", argv[help ? 2 : 1]);
    if (help) {
        print_help(c);
        return FX_EXIT_OK;
    }
    current = c->name;
    given.cmd = c;
    return run_command(c, argc - 2, argv + 2);
}

int main(int argc, char **argv)
{
    int status;

    signal(SIGPIPE, SIG_IGN);            /* a reader that went away is a write error, said below */
    status = dispatch(argc, argv);
    if (fflush(stdout) == 0 && fx_cli_output_ok())
        return status;
    fprintf(stderr, "fornax%s%s: standard output: write error\n", *current ? " " : "", current);
    return status ? status : FX_EXIT_FAILED;
}
