/* spm_file.h - the protobuf of a SentencePiece tokenizer.model, read field by field.
 *
 * Only what tokenizing needs is kept; unknown fields are skipped by their wire type.
 * Texts point into the file. */
#ifndef FX_SPM_FILE_H
#define FX_SPM_FILE_H

#include "base/status.h"
#include "base/str.h"

typedef enum fx_spm_type { FX_SPM_UNIGRAM = 1, FX_SPM_BPE, FX_SPM_WORD, FX_SPM_CHAR } fx_spm_type;

typedef struct fx_spm_piece {
    fx_str text;
    float score;
    int32_t type;                   /* FX_PIECE_.. (tokenizer_impl.h) */
} fx_spm_piece;

typedef struct fx_spm_file {
    const fx_mem *mem;
    fx_str bytes;
    FX_VEC(fx_spm_piece) pieces;
    int64_t model_type;             /* fx_spm_type */
    int64_t unk, bos, eos, pad;     /* -1: none */
    bool suffix, byte_fallback;
    fx_str charsmap;
    bool prefix, remove_extra, escape;
} fx_spm_file;

fx_status fx_spm_file_read(fx_spm_file *f, const fx_mem *mem, fx_str bytes, fx_error *err);
void fx_spm_file_done(fx_spm_file *f);

#endif
