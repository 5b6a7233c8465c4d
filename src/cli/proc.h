/* proc.h - other programs: started with pipes, in a process group of their own, and ended with all that they started.
 *
 * No shell, no descriptors but the three, signals as a program expects them.  All reading and writing has a deadline and
 * stops at ^C. */
#ifndef FX_PROC_H
#define FX_PROC_H

#include <jansson.h>
#include <sys/types.h>

#include "base/status.h"
#include "base/str.h"

typedef struct fx_proc_spec {
    const char *const *argv;     /* ends with NULL; argv[0] is looked for in PATH */
    const char *dir;             /* where it runs; NULL: here */
    const json_t *env;           /* object of strings, on top of our own environment; NULL: nothing */
    bool with_input;             /* else its standard input is empty */
    bool with_errors;            /* standard error through a pipe; else to errors_to */
    int errors_to;               /* a descriptor; -1: nowhere */
} fx_proc_spec;

typedef struct fx_proc {
    pid_t pid;                   /* 0: none, or it was waited for */
    int in, out, err;            /* our ends, -1: closed; never block */
    int status;                  /* of waitpid, once pid is 0 */
} fx_proc;

/* FORNAX_ENOTFOUND: no such program. */
fx_status fx_proc_start(fx_proc *p, const fx_proc_spec *spec, fx_error *err);
bool fx_proc_over(fx_proc *p);                    /* it has ended; doesn't wait */
/* Closes its pipes; if it doesn't end by itself within 'patience_ms', it and all of its group are ended. */
void fx_proc_stop(fx_proc *p, int patience_ms);
/* Of waitpid: "exit status 3", "signal 9". */
const char *fx_proc_how(int status, char out[64]);

typedef struct fx_proc_result {
    fx_buf out, errors;          /* at most 'cap' bytes of each */
    size_t out_bytes;            /* that it wrote */
    bool timed_out, interrupted;
    int status;                  /* of waitpid */
} fx_proc_result;
/* Runs it to its end; everything that it left running is ended too. */
fx_status fx_proc_run(fx_proc_result *r, const fx_proc_spec *spec, fx_str input, double timeout_s, size_t cap, fx_error *err);
void fx_proc_result_done(fx_proc_result *r);

#endif
