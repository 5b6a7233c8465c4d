/* messages.h - the messages of a chat request: checked, and in the shape that templates know. */
#ifndef FX_MESSAGES_H
#define FX_MESSAGES_H

#include <jansson.h>

#include "base/status.h"

/* Checks and reshapes in place: parts become one string, a missing or null content of an assistant's message "".
 * keep_developer: the template knows that role; else it becomes system. */
fx_status fx_messages_read(json_t *messages, bool keep_developer, fx_error *err);

/* System messages at the beginning become one, a blank line between them, for templates that take no second
 * one. False: there was nothing to do, or no memory. */
bool fx_messages_merge_system(json_t *messages);

/* A turn: a user's message and what follows up to the next one. */
size_t fx_messages_turns(const json_t *messages);
/* Without the first n turns; what comes before the first turn stays. New reference; NULL: no memory. */
json_t *fx_messages_without(const json_t *messages, size_t n);

#endif
