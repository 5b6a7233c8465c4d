/* schema_format.c - the formats that are enforced: patterns over the whole text, and ranges.
 *
 * RFC 3339 (dates with the real lengths of months), 5321, 1123, 2673, 4291, 3986, 3987, 4122, 6901, 6570. */
#include "grammar/schema_int.h"

#define D4 "[0-9]{4}"
#define LEAP "([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
#define DATE "(" D4 "-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)" \
             "|02-(0[1-9]|1[0-9]|2[0-8]))|" LEAP "-02-29)"
#define HOUR_MINUTE "([01][0-9]|2[0-3]):[0-5][0-9]"
#define OFFSET "([Zz]|[+-]" HOUR_MINUTE ")"
#define TIME "(" HOUR_MINUTE ":[0-5][0-9](\\.[0-9]+)?" OFFSET "|23:59:60(\\.[0-9]+)?([Zz]|[+-]00:00))"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define HOST LABEL "(\\." LABEL ")*"
#define OCTET "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4 OCTET "(\\." OCTET "){3}"
#define H16 "[0-9A-Fa-f]{1,4}"
#define LS32 "(" H16 ":" H16 "|" IPV4 ")"
#define IPV6 "((" H16 ":){6}" LS32 "|::(" H16 ":){5}" LS32 "|(" H16 ")?::(" H16 ":){4}" LS32 \
             "|((" H16 ":){0,1}" H16 ")?::(" H16 ":){3}" LS32 "|((" H16 ":){0,2}" H16 ")?::(" H16 ":){2}" LS32 \
             "|((" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|((" H16 ":){0,4}" H16 ")?::" LS32 \
             "|((" H16 ":){0,5}" H16 ")?::" H16 "|((" H16 ":){0,6}" H16 ")?::)"
#define ATOM(more) "[A-Za-z0-9!#$%&'*+/=?^_`{|}~" more "-]+"
#define EMAIL(more, host) "(" ATOM(more) "(\\." ATOM(more) ")*|\"([ !#-\\[\\]-~" more "]|\\\\[ -~])*\")@(" host \
                          "|\\[" IPV4 "\\]|\\[IPv6:" IPV6 "\\])"
#define BEYOND "\\u{A0}-\\u{D7FF}\\u{F900}-\\u{FDCF}\\u{FDF0}-\\u{FFEF}\\u{10000}-\\u{1FFFD}\\u{20000}-\\u{2FFFD}" \
               "\\u{30000}-\\u{3FFFD}\\u{E1000}-\\u{EFFFD}"
#define WIDE_LABEL "[A-Za-z0-9" BEYOND "]([A-Za-z0-9" BEYOND "-]*[A-Za-z0-9" BEYOND "])?"
#define PCHAR(more) "([A-Za-z0-9._~!$&'()*+,;=:@" more "-]|%[0-9A-Fa-f]{2})"
#define AUTHORITY(more) "(([A-Za-z0-9._~!$&'()*+,;=:" more "-]|%[0-9A-Fa-f]{2})*@)?(\\[(" IPV6 \
                        "|[vV][0-9A-Fa-f]+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\\]|([A-Za-z0-9._~!$&'()*+,;=" more \
                        "-]|%[0-9A-Fa-f]{2})*)(:[0-9]*)?"
#define SLASHES(more) "(/" PCHAR(more) "*)*"
#define PRIVATE "\\u{E000}-\\u{F8FF}\\u{F0000}-\\u{FFFFD}\\u{100000}-\\u{10FFFD}"      /* within queries only */
#define TAIL(more, own) "(\\?(" PCHAR(more own) "|[/?])*)?(#(" PCHAR(more) "|[/?])*)?"
#define URI(more, own) "[A-Za-z][A-Za-z0-9+.-]*:(//" AUTHORITY(more) SLASHES(more) "|/(" PCHAR(more) "+" SLASHES(more) ")?|" \
                  PCHAR(more) "+" SLASHES(more) ")?" TAIL(more, own)
#define NOCOLON(more) "([A-Za-z0-9._~!$&'()*+,;=@" more "-]|%[0-9A-Fa-f]{2})"
#define RELATIVE(more, own) "(//" AUTHORITY(more) SLASHES(more) "|/(" PCHAR(more) "+" SLASHES(more) ")?|" NOCOLON(more) "+" \
                       SLASHES(more) ")?" TAIL(more, own)
#define POINTER "(/([^/~]|~[01])*)*"
#define HEX(n) "[0-9A-Fa-f]{" #n "}"
#define VARCHAR "([A-Za-z0-9_]|%[0-9A-Fa-f]{2})"
#define VARSPEC VARCHAR "(\\.?" VARCHAR ")*(:[1-9][0-9]{0,3}|\\*)?"
/* Patterns of three levels of groups: a part of the valid ones, and only valid ones. */
#define RX_ESCAPE "\\\\([dDsSwWtnvfr0^$\\\\.*+?()\\[\\]{}|/]|c[A-Za-z]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})"
#define RX_CLASS "\\[\\^?([A-Za-z0-9 _.,:;!@#%&*+=<>?()/|$\"'~`{}]|0-9|a-z|A-Z|a-f|A-F|" RX_ESCAPE ")*-?\\]"
#define RX_RANGE "0,[0-9]|1,[1-9]|2,[2-9]|3,[3-9]|4,[4-9]|5,[5-9]|6,[6-9]|7,[7-9]|8,[89]|9,9|[0-9],[1-9][0-9]{1,2}|[1-9][0-9],[1-9][0-9]{2}"
#define RX_TIMES "([*+?]\\?{0,1}|\\{([0-9]{1,3},?|" RX_RANGE ")\\}\\?{0,1})?"
#define RX_ATOM "([^\\\\\\[\\](){}*+?|^$]|" RX_ESCAPE "|" RX_CLASS ")" RX_TIMES
#define RX_OPEN "\\((\\?:)?"
#define RX_1 "(" RX_ATOM "|[|^$])*"
#define RX_2 "(" RX_ATOM "|[|^$]|" RX_OPEN RX_1 "\\)" RX_TIMES ")*"
#define RX_3 "(" RX_ATOM "|[|^$]|" RX_OPEN RX_2 "\\)" RX_TIMES ")*"

typedef struct format {
    const char *name, *pattern;
    uint32_t max_length;        /* characters; 0: any */
    const char *without;        /* a pattern that may not match anywhere; NULL: none */
} format;

static const format formats[] = {
    { "date", DATE, 0, NULL },
    { "time", TIME, 0, NULL },
    { "date-time", DATE "[Tt]" TIME, 0, NULL },
    { "duration", "P(([0-9]+D|[0-9]+M([0-9]+D)?|[0-9]+Y([0-9]+M([0-9]+D)?)?)(T([0-9]+H([0-9]+M([0-9]+S)?)?"
                  "|[0-9]+M([0-9]+S)?|[0-9]+S))?|T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S)|[0-9]+W)", 0, NULL },
    { "email", EMAIL("", HOST), 254, NULL },
    { "idn-email", EMAIL(BEYOND, WIDE_LABEL "(\\." WIDE_LABEL ")*"), 254, NULL },
    { "hostname", HOST, 253, "(^|\\.)[A-Za-z0-9-]{2}--" },        /* whether punycode is right isn't a regular matter */
    { "ipv4", IPV4, 0, NULL },
    { "ipv6", IPV6, 0, NULL },
    { "uri", URI("", ""), 0, NULL },
    { "uri-reference", URI("", "") "|" RELATIVE("", ""), 0, NULL },
    { "iri", URI(BEYOND, PRIVATE), 0, NULL },
    { "iri-reference", URI(BEYOND, PRIVATE) "|" RELATIVE(BEYOND, PRIVATE), 0, NULL },
    { "uri-template", "([!#$&'()*+,./0-9:;=?@A-Z\\[\\]_a-z~" BEYOND "-]|%[0-9A-Fa-f]{2}|\\{[+#./;?&=,!@|]?" VARSPEC "(,"
                      VARSPEC ")*\\})*", 0, NULL },
    { "uuid", HEX(8) "-" HEX(4) "-" HEX(4) "-" HEX(4) "-" HEX(12), 0, NULL },
    { "json-pointer", POINTER, 0, NULL },
    { "relative-json-pointer", "(0|[1-9][0-9]*)(#|" POINTER ")", 0, NULL },
    { "regex", RX_3, 0, NULL },
    { "byte", "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", 0, NULL },
    { "base64", "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", 0, NULL },
};

static bool range(fx_sc *c, int64_t lo, int64_t hi, const fx_numrec **num)
{
    fx_numrec *r = FX_SC_NEWN(c, fx_numrec, 1);
    fx_dec *one = FX_SC_NEWN(c, fx_dec, 1);

    if (!r || !one)
        return true;                    /* c->st says it */
    *one = fx_dec_int(c, 1);
    *r = (fx_numrec){ .has_lo = true, .has_hi = true, .lo = fx_dec_int(c, lo), .hi = fx_dec_int(c, hi), .mult = one,
                      .n_mult = 1 };
    *num = r;
    return true;
}

static fx_status format_re(fx_sc *c, const format *f, fx_re *re, fx_error *err)
{
    fx_re other;

    FX_TRY(fx_re_ecma(re, c->re, FX_SPELL_JSON, fx_str_of(f->pattern), true, err));
    if (f->max_length)
        *re = fx_re_and(c->re, *re, fx_re_length(c, 1, f->max_length));
    if (f->without) {
        FX_TRY(fx_re_ecma(&other, c->re, FX_SPELL_JSON, fx_str_of(f->without), false, err));
        *re = fx_re_minus(c, *re, other);
    }
    return FORNAX_OK;
}

bool fx_sc_format(fx_sc *c, fx_str name, fx_re *re, const fx_numrec **num)
{
    if (fx_str_is(name, "int32"))
        return range(c, INT32_MIN, INT32_MAX, num);
    if (fx_str_is(name, "int64"))
        return range(c, INT64_MIN, INT64_MAX, num);
    for (size_t i = 0; i < FX_COUNT(formats); i++) {
        fx_error err = { 0 };
        fx_status st;

        if (!fx_str_is(name, formats[i].name))
            continue;
        st = format_re(c, &formats[i], re, &err);
        if (st != FORNAX_OK)
            fx_sc_fail(c, st == FORNAX_ENOMEM ? st : FORNAX_EINTERNAL, NULL, NULL, "the format %s: %s", formats[i].name,
                       err.text);
        return true;
    }
    return false;
}
