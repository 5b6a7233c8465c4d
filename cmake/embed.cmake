# embed.cmake - writes a file's bytes as a C source.
#
# cmake -DIN=page.html -DOUT=page_html.c -DNAME=fx_page_html -P embed.cmake
# defines  const unsigned char NAME[], a zero after the last byte, and  const size_t NAME_n.
file(READ "${IN}" hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
get_filename_component(from "${IN}" NAME)
file(WRITE "${OUT}" "/* Made from ${from} by embed.cmake. */\n#include <stddef.h>\n\n"
     "extern const unsigned char ${NAME}[];\nextern const size_t ${NAME}_n;\n"
     "const unsigned char ${NAME}[] = {\n${bytes}0 };\nconst size_t ${NAME}_n = sizeof ${NAME} - 1;\n")
