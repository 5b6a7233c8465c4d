/* spm_file.c - a reader of protobuf's wire format, and the fields of ModelProto.
 *
 * A message is a run of (field number << 3 | wire type, value).  Every length is held
 * against the bytes that are left. */
#include "text/spm_file.h"

enum { WIRE_VARINT, WIRE_64, WIRE_BYTES, WIRE_32 = 5 };

typedef struct field {
    uint64_t number;
    int wire;
    uint64_t value;                 /* VARINT, 64, 32 */
    fx_str bytes;                   /* BYTES */
} field;

static bool read_varint(fx_str *s, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; s->n && shift < 70; shift += 7) {
        unsigned char c = (unsigned char)*s->p;

        *s = fx_str_n(s->p + 1, s->n - 1);
        *out |= shift < 64 ? (uint64_t)(c & 0x7f) << shift : 0;
        if (!(c & 0x80))
            return true;
    }
    return false;
}

static bool read_fixed(fx_str *s, size_t n, uint64_t *out)
{
    *out = 0;
    if (s->n < n)
        return false;
    for (size_t i = n; i-- > 0;)
        *out = *out << 8 | (unsigned char)s->p[i];
    *s = fx_str_n(s->p + n, s->n - n);
    return true;
}

static bool next_field(fx_str *s, field *f)
{
    uint64_t key, n;

    *f = (field){ 0 };
    if (!read_varint(s, &key))
        return false;
    f->number = key >> 3;
    f->wire = (int)(key & 7);
    switch (f->wire) {
    case WIRE_VARINT: return read_varint(s, &f->value);
    case WIRE_64: return read_fixed(s, 8, &f->value);
    case WIRE_32: return read_fixed(s, 4, &f->value);
    case WIRE_BYTES:
        if (!read_varint(s, &n) || n > s->n)
            return false;
        f->bytes = fx_str_n(s->p, (size_t)n);
        *s = fx_str_n(s->p + n, s->n - (size_t)n);
        return true;
    default: return false;
    }
}

/* The next field; a fault names the byte at which it begins. */
static fx_status read_field(const fx_spm_file *f, fx_str *s, const char *what, field *out, fx_error *err)
{
    size_t at = (size_t)(s->p - f->bytes.p);

    if (next_field(s, out))
        return FORNAX_OK;
    return fx_fail(err, FORNAX_EFORMAT, "tokenizer.model: byte %zu: %s: expected a protobuf field within its message", at, what);
}

static float float_of(uint64_t bits)
{
    uint32_t b = (uint32_t)bits;
    float x;

    memcpy(&x, &b, sizeof(x));
    return x;
}

static fx_status read_piece(fx_spm_file *f, fx_str s, fx_error *err)
{
    fx_spm_piece p = { .text = FX_STR(""), .type = 1 };
    size_t at = (size_t)(s.p - f->bytes.p);
    field v;

    while (s.n) {
        FX_TRY(read_field(f, &s, "pieces", &v, err));
        if (v.number == 1 && v.wire == WIRE_BYTES)
            p.text = v.bytes;
        else if (v.number == 2 && v.wire == WIRE_32)
            p.score = float_of(v.value);
        else if (v.number == 3 && v.wire == WIRE_VARINT)
            p.type = v.value <= 6 ? (int32_t)v.value : 0;
    }
    if (p.type < 1 || !(p.score - p.score == 0))
        return fx_fail(err, FORNAX_EFORMAT, "tokenizer.model: byte %zu: piece %zu: expected a type from 1 to 6 and a finite score",
                       at, f->pieces.n);
    return FX_VEC_PUSH(&f->pieces, f->mem, p) ? FORNAX_OK : fx_nomem(err, "pieces");
}

/* Integers of protobuf's int32 are sign-extended. */
static void read_trainer_field(fx_spm_file *f, const field *v)
{
    switch (v->number) {
    case 3: f->model_type = (int64_t)v->value; break;
    case 24: f->suffix = v->value != 0; break;
    case 35: f->byte_fallback = v->value != 0; break;
    case 40: f->unk = (int32_t)(uint32_t)v->value; break;
    case 41: f->bos = (int32_t)(uint32_t)v->value; break;
    case 42: f->eos = (int32_t)(uint32_t)v->value; break;
    case 43: f->pad = (int32_t)(uint32_t)v->value; break;
    default: break;
    }
}

static fx_status read_trainer(fx_spm_file *f, fx_str s, fx_error *err)
{
    field v;

    while (s.n) {
        FX_TRY(read_field(f, &s, "trainer_spec", &v, err));
        if (v.wire == WIRE_VARINT)
            read_trainer_field(f, &v);
    }
    return FORNAX_OK;
}

static fx_status read_normalizer(fx_spm_file *f, fx_str s, fx_error *err)
{
    field v;

    while (s.n) {
        FX_TRY(read_field(f, &s, "normalizer_spec", &v, err));
        if (v.number == 2 && v.wire == WIRE_BYTES)
            f->charsmap = v.bytes;
        if (v.wire != WIRE_VARINT)
            continue;
        if (v.number == 3)
            f->prefix = v.value != 0;
        else if (v.number == 4)
            f->remove_extra = v.value != 0;
        else if (v.number == 5)
            f->escape = v.value != 0;
    }
    return FORNAX_OK;
}

fx_status fx_spm_file_read(fx_spm_file *f, const fx_mem *mem, fx_str bytes, fx_error *err)
{
    field v;

    *f = (fx_spm_file){ .mem = mem, .bytes = bytes, .model_type = FX_SPM_UNIGRAM, .unk = 0, .bos = 1, .eos = 2, .pad = -1, .prefix = true,
                        .remove_extra = true, .escape = true };
    while (bytes.n) {
        FX_TRY(read_field(f, &bytes, "file", &v, err));
        if (v.wire != WIRE_BYTES)
            continue;
        if (v.number == 1)
            FX_TRY(read_piece(f, v.bytes, err));
        else if (v.number == 2)
            FX_TRY(read_trainer(f, v.bytes, err));
        else if (v.number == 3)
            FX_TRY(read_normalizer(f, v.bytes, err));
    }
    if (!f->pieces.n)
        return fx_fail(err, FORNAX_EFORMAT, "tokenizer.model: expected pieces, found none");
    return FORNAX_OK;
}

void fx_spm_file_done(fx_spm_file *f)
{
    FX_VEC_FREE(&f->pieces, f->mem);
}
