/* start_time.h - how long a process takes from its start to a model's first token, and what memory it needs by then. */
#ifndef FX_START_TIME_H
#define FX_START_TIME_H

#include "cli/cli.h"

typedef struct fx_start_time {
    double first_ms;             /* from fork to the first byte of text */
    int64_t rss_bytes;           /* most that the process had resident, mapped files included */
} fx_start_time;

/* Runs this program: generate MODEL -p Hello -n 1, with the options that say how a model is opened. */
fornax_status fx_start_time_measure(fx_start_time *out, const char *model, const fx_model_opts *opt, fornax_error *err);

#endif
