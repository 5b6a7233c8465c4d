/* transcript.h - a conversation in a file: JSON objects, a line each, only ever appended.
 *
 * A line is written by one call of the system, so that whatever ends the program leaves whole lines and perhaps the beginning of one
 * more, which is cut off when the file is opened again.  One program at a time has it open. */
#ifndef FX_TRANSCRIPT_H
#define FX_TRANSCRIPT_H

#include <jansson.h>

#include "base/status.h"

typedef struct fx_transcript {
    const char *path;            /* kept */
    int fd;
    json_t *lines;               /* that were there */
} fx_transcript;

/* Makes the file if there is none (readable by its owner only). write false: it stays as it is. */
fx_status fx_transcript_open(fx_transcript *t, const char *path, bool write, fx_error *err);
/* Takes 'line'. */
fx_status fx_transcript_add(fx_transcript *t, json_t *line, fx_error *err);
void fx_transcript_close(fx_transcript *t);

#endif
