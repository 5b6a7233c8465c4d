/* log.h - one line at a time to the application's callback; silent without one. */
#ifndef FX_LOG_H
#define FX_LOG_H
#include "base/compiler.h"
typedef enum fx_log_level { FX_LOG_ERROR, FX_LOG_WARN, FX_LOG_INFO, FX_LOG_DEBUG } fx_log_level;
typedef struct fx_log {
    void (*fn)(void *user, int level, const char *line);   /* NULL: silent */
    void *user;
    fx_log_level max;
} fx_log;
void fx_log_print(const fx_log *log, fx_log_level level, const char *fmt, ...) FX_PRINTF(3, 4);
#endif
