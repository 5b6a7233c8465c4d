/* chat.c - a conversation in the terminal.  cc chat.c $(pkg-config --cflags --libs fornax) */
#include <fornax.h>
#include <stdio.h>
#include <string.h>

static int print_piece(void *user, const char *text, size_t n)
{
    (void)user;
    fwrite(text, 1, n, stdout);
    return fflush(stdout);
}

int main(int argc, char **argv)
{
    fornax_error err = { 0 };
    fornax_context *ctx = NULL;
    fornax_model *model = NULL;
    fornax_engine *engine = NULL;
    fornax_session *chat = NULL;
    char line[4096];

    if (argc != 2 || fornax_context_open(&ctx, NULL, &err) || fornax_model_open(&model, ctx, argv[1], NULL, &err) ||
        fornax_engine_open(&engine, model, NULL, &err) || fornax_session_open(&chat, engine, NULL, &err))
        return fprintf(stderr, "%s\n", argc == 2 ? err.text : "usage: chat MODEL"), 1;
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (fornax_session_say(chat, line, print_piece, NULL, &err))
            fprintf(stderr, "%s", err.text);
        putchar('\n');
    }
    fornax_session_close(chat), fornax_engine_close(engine), fornax_model_close(model), fornax_context_close(ctx);
    return 0;
}
