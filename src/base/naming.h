/* naming.h - what the values of a text form are called when they are printed.
 *
 * A value is called by its hint where that is a name and free, by the hint with a number behind it where it isn't free, and
 * by a number where there is no hint.
 *
 *     fx_naming_init(&n, mem);
 *     fx_naming_add(&n, value, value->name);
 *     fx_buf_str(out, fx_naming_of(&n, value));
 *
 * Values are known by their addresses. */
#ifndef FX_NAMING_H
#define FX_NAMING_H

#include "base/str.h"

typedef struct fx_naming {
    fx_map names;                /* taken: text to 1; its keys live in 'arena' */
    fx_map ids;                  /* address to fx_str* */
    fx_arena arena;
    int numbers;
    bool failed;                 /* memory ran out */
} fx_naming;

void fx_naming_init(fx_naming *n, const fx_mem *mem);
void fx_naming_done(fx_naming *n);
/* Chooses what the value is called, and remembers it. */
fx_str fx_naming_add(fx_naming *n, const void *value, fx_str hint);
fx_str fx_naming_of(const fx_naming *n, const void *value);      /* "?": was never added */

#endif
