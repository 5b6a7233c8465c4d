/* codec.h - how each model family writes tool calls and thoughts: rows, chosen from the chat template.
 *
 *     reply = [thought] content [calls]
 *     calls = section_open call (between call)* section_close
 *     call  = open BODY close
 *
 * BODY by form:
 *     FX_CALL_JSON          an object with the name under name_key and the arguments under args_key
 *     FX_CALL_JSON_LIST     a list of such objects
 *     FX_CALL_NAME_JSON     before_name NAME after_name ARGUMENTS
 *     FX_CALL_XML_PAIRS     NAME (<arg_key>K</arg_key><arg_value>V</arg_value>)*      (GLM)
 *     FX_CALL_XML_FUNCTION  <function=NAME>(<parameter=K>V</parameter>)*</function>   (Qwen3-Coder)
 *     FX_CALL_XML_INVOKE    NAME">(<parameter name="K">V</parameter>)*                (MiniMax)
 *     FX_CALL_PYTHON        [NAME(K=V, ...), ...]                                     (Llama 4, LFM2)
 *     FX_CALL_HARMONY       messages on channels                                      (gpt-oss)
 *
 * Where 'open' is empty a reply is a call only if it begins as one. */
#ifndef FX_CODEC_H
#define FX_CODEC_H

#include "base/str.h"

/* What every gpt-oss message has, calls too. */
#define FX_HARMONY_MESSAGE "<|message|>"

typedef enum fx_call_form {
    FX_CALL_JSON, FX_CALL_JSON_LIST, FX_CALL_NAME_JSON, FX_CALL_XML_PAIRS, FX_CALL_XML_FUNCTION, FX_CALL_XML_INVOKE,
    FX_CALL_PYTHON, FX_CALL_HARMONY
} fx_call_form;

typedef struct fx_codec {
    const char *name;
    const char *marks[3];                /* the template has all of these */
    fx_call_form form;
    const char *section_open, *section_close;
    const char *open, *close, *between;
    const char *name_key, *args_key;     /* FX_CALL_JSON, FX_CALL_JSON_LIST */
    const char *before_name, *after_name;/* FX_CALL_NAME_JSON, FX_CALL_HARMONY */
    bool indexed;                        /* FX_CALL_NAME_JSON: a colon and the call's number follow the name */
    bool compact;                        /* FX_CALL_XML_PAIRS: no line ends between the tags */
    const char *think_open, *think_close;/* NULL: the family doesn't think aloud */
} fx_codec;

/* The first row whose marks are all in the template; the generic one if there is none. Never NULL. */
const fx_codec *fx_codec_of_template(fx_str chat_template);
const fx_codec *fx_codec_find(fx_str name);           /* NULL: no such family */
bool fx_codec_tagged(const fx_codec *c);               /* some tag begins its calls */
const fx_codec *fx_codec_at(size_t i);                /* NULL: there are no more */

#endif
