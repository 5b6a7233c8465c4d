/* interrupt.c - ^C, SIGTERM and SIGHUP: the first is a wish, the second the end. */
#include <signal.h>
#include <unistd.h>

#include "cli/cli.h"

static volatile sig_atomic_t interrupted, terminated, group;

static void on_interrupt(int sig)
{
    if (interrupted && group > 0)
        kill(-(pid_t)group, SIGKILL);
    if (interrupted)
        _exit(FX_EXIT_INTERRUPTED);
    interrupted = 1;
    terminated = sig != SIGINT;
}

void fx_cli_catch_interrupt(void)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction sa = { .sa_handler = on_interrupt }, old;

    sigemptyset(&sa.sa_mask);
    for (size_t i = 0; i < FX_COUNT(signals); i++) {
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)     /* as nohup and & ask for */
            sigaction(signals[i], &sa, NULL);
    }
}

bool fx_cli_interrupted(void) { return interrupted != 0; }
bool fx_cli_terminated(void) { return terminated != 0; }
void fx_cli_clear_interrupt(void) { interrupted = terminated; }
void fx_cli_kill_at_exit(pid_t process_group) { group = process_group; }
