/* route_page.c - GET /: a page to chat and to watch the engine; page/index.html, put into the
 * program by the build (cmake/embed.cmake). */
#include "server/http.h"

extern const unsigned char fx_page_html[];
extern const size_t fx_page_html_n;

static void page(fx_call *c)
{
    fx_reply_text(c, 200, "text/html; charset=utf-8", fx_str_n((const char *)fx_page_html, fx_page_html_n));
}

const fx_route fx_route_page = { "GET", "/", false, page, false };
