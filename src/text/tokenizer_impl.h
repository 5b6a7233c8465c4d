/* tokenizer_impl.h - what a tokenizer is made of, for the files that build one.
 *
 *   encode: special tokens of the raw text are set apart (raw_set) -> the rest is
 *           normalized (norms) -> special tokens of that (norm_set) -> cut into
 *           words (cuts) -> each word to the model -> begin and end tokens around
 *   decode: texts[id], joined as the decoder says
 *
 * A builder fills in vocab, model, norms, cuts, added, before/after and decoder,
 * then calls fx_tokenizer_finish.  flags are allocated by the builder. */
#ifndef FX_TOKENIZER_IMPL_H
#define FX_TOKENIZER_IMPL_H

#include "text/added.h"
#include "text/bpe.h"
#include "text/normalize.h"
#include "text/pretok.h"
#include "text/tokenizer.h"
#include "text/unigram.h"
#include "text/vocab.h"

#define FX_STEPS_MAX 64         /* steps of one kind in a tokenizer */

typedef enum fx_model_kind { FX_MODEL_BPE, FX_MODEL_WORDPIECE, FX_MODEL_WORDLEVEL, FX_MODEL_UNIGRAM, FX_MODEL_KINDS } fx_model_kind;

typedef struct fx_wordpiece {
    fx_str prefix;              /* of a continuing piece: "##" */
    int32_t unk;
    size_t longest_word;        /* in characters; more is unknown */
    size_t longest;             /* bytes of the longest spelling */
} fx_wordpiece;

typedef enum fx_token_edit_kind { FX_EDIT_REPLACE, FX_EDIT_STRIP } fx_token_edit_kind;
typedef struct fx_token_edit {  /* a change made to each token's text by itself */
    fx_token_edit_kind kind;
    fx_regex *pattern;          /* owned; NULL: literal */
    fx_str literal, content;
    size_t start, stop;         /* STRIP: at most that many of 'literal' */
} fx_token_edit;

typedef enum fx_first_rule {    /* how the first token's text differs */
    FX_FIRST_SAME,
    FX_FIRST_METASPACE,         /* loses 'first_text' altogether */
    FX_FIRST_WORDPIECE          /* as spelled; later ones lose "##" or gain a space */
} fx_first_rule;

typedef struct fx_decoder {
    bool byte_level;            /* texts are bytes, joined and decoded as UTF-8 */
    bool byte_fallback;         /* <0x41> is a byte */
    bool by_character;          /* a run of bytes that isn't UTF-8 still gives its whole characters */
    bool joined;                /* builders: what follows applies to the whole text */
    bool join_space;            /* a space between tokens (no decoder at all) */
    bool cleanup;               /* WORDPIECE: " ." to "." and so on, in each token */
    fx_first_rule first;
    fx_str first_text;          /* METASPACE: the mark; WORDPIECE: "##" */
    fx_token_edit edits[8];
    size_t n_edits;
    fx_str strip;               /* a character that goes from the ends of the whole text, ... */
    size_t strip_start, strip_stop;     /* ... at most that often */
} fx_decoder;

enum { FX_TOKEN_SPECIAL = 1, FX_TOKEN_BYTE = 2, FX_TOKEN_RAW = 4, FX_TOKEN_ADDED = 8 };
/* RAW: spelled as it reads */

struct fx_tokenizer {
    const fx_mem *mem;
    fx_arena arena;             /* everything but the regexes and the texts */
    fx_vocab vocab;
    unsigned char *flags;       /* [vocab.n] */
    fx_model_kind model;
    fx_bpe bpe;
    fx_wordpiece wordpiece;
    fx_unigram unigram;
    fx_norm_step norms[FX_STEPS_MAX];
    size_t n_norms;
    fx_pretok_step cuts[FX_STEPS_MAX];
    size_t n_cuts;
    fx_added *added;            /* in the file's order, ids given */
    size_t n_added;
    fx_added_set raw_set, norm_set;
    FX_VEC(int32_t) before;     /* tokens that FX_ENCODE_ADD puts around the text */
    FX_VEC(int32_t) after;
    fx_decoder decoder;
    fx_piece *texts;            /* [vocab.n]; at: FX_TEXT_SPELLING | offset in vocab.block, or offset in text_block */
    fx_buf text_block;
    int32_t bos, eos, unk, pad;
};
#define FX_TEXT_SPELLING 0x80000000u

fx_tokenizer *fx_tokenizer_new(const fx_mem *mem);      /* NULL: no memory */
/* With vocab and cuts there, before fx_bpe_init: whether the model gets raw bytes. */
void fx_tokenizer_choose_bytes(fx_tokenizer *t);
/* Derives the rest from what a builder filled in. */
fx_status fx_tokenizer_finish(fx_tokenizer *t, fx_error *err);
fx_str fx_tokenizer_keep(fx_tokenizer *t, fx_str s);    /* a copy in the arena; p NULL: no memory */

/* GPT-2's split pattern. */
extern const char fx_gpt2_pattern[];
/* Appends steps; false: too many (the caller says so). */
fx_norm_step *fx_tokenizer_add_norm(fx_tokenizer *t, fx_norm_kind kind);
fx_pretok_step *fx_tokenizer_add_cut(fx_tokenizer *t, fx_pretok_kind kind);

/* Replaces every "literal" of s by content, appended to out. */
void fx_replace_all(fx_buf *out, fx_str s, fx_str literal, fx_str content);
/* Texts of decoded tokens (detok.c). */
fx_status fx_tokenizer_make_texts(fx_tokenizer *t, fx_error *err);

/* SentencePiece's model over the vocabulary that is there (tokenizer_spm.c). */
enum { FX_PIECE_NORMAL = 1, FX_PIECE_UNKNOWN, FX_PIECE_CONTROL, FX_PIECE_USER, FX_PIECE_UNUSED, FX_PIECE_BYTE };
typedef struct fx_spm {
    const float *scores;        /* [vocab.n] */
    const int32_t *types;       /* [vocab.n] FX_PIECE_.. */
    bool bpe, byte_fallback;
    fx_str charsmap;            /* outlives the tokenizer's building; copied */
    bool prefix, suffix, remove_extra, escape;
    bool first_only;            /* the prefix is for the text's start, not each part's */
    const char *where;          /* begins the text of faults */
} fx_spm;
fx_status fx_tokenizer_set_spm(fx_tokenizer *t, const fx_spm *m, fx_error *err);

/* One word to ids (wordpiece.c). */
bool fx_wordpiece_encode(const fx_tokenizer *t, fx_str word, fx_bpe_work *w, fx_ids *ids);
bool fx_wordlevel_encode(const fx_tokenizer *t, fx_str word, fx_bpe_work *w, fx_ids *ids);

#endif
