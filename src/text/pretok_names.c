/* pretok_names.c - split patterns by the name that a GGUF gives them.
 *
 * The patterns are those of the models' own tokenizer.json.  Byte-level text
 * follows them in every case. */
#include "text/pretok_names.h"

#include "text/tokenizer_impl.h"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define BLANKS "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GPT4(digits) CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" BLANKS
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(upper, lower, tail)                                                                              \
    "[^\\r\\n\\p{L}\\p{N}]?" upper "*" lower "+" tail "|[^\\r\\n\\p{L}\\p{N}]?" upper "+" lower "*" tail
#define NOT_HAN_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define NOT_HAN_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define DEEPSEEK3                                                                                               \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "        \
    "?[\\p{P}\\p{S}]+[\\r\\n]*" BLANKS
#define DEEPSEEK_LETTERS                                                                                        \
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗ"           \
    "\\u1F59\\u1F5B\\u1F5D\\u1F5F-\\u1F7D\\u1F80-\\u1FB4\\u1FB6-\\u1FBC\\u1FBE\\u1FC2-\\u1FC4\\u1FC6-\\u1FCC\\u1FD0-\\u1FD3"  \
    "\\u1FD6-\\u1FDB\\u1FE0-\\u1FEC\\u1FF2-\\u1FF4\\u1FF6-\\u1FFCℂℇℊ-ℓℕℙ-ℝℤ\\u2126ℨ\\u212A-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮ"     \
    "ⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"
#define BLOOM " ?[^(\\s|.,!?…。，、।۔،)]+"

static const fx_pretok_name rows[] = {
    { .names = "default", .patterns = { "[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]" } },
    { .names = "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2",
      .patterns = { GPT4("\\p{N}{1,3}") }, .ignore_merges = true, .add_bos = true },
    { .names = "dbrx smaug-bpe glm4 chatglm-bpe", .patterns = { GPT4("\\p{N}{1,3}") } },
    { .names = "qwen2 deepseek-r1-qwen megrez", .patterns = { GPT4("\\p{N}") }, .nfc = true },
    { .names = "qwen35",
      .patterns = { CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" BLANKS },
      .nfc = true },
    { .names = "stablelm2 hunyuan grok-2", .patterns = { GPT4("\\p{N}") } },
    { .names = "gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de gigachat a.x-4.0 mellum modern-bert jais trillion "
               "granite-docling exaone4",
      .patterns = { GPT2 } },
    { .names = "mpt olmo", .patterns = { GPT2 }, .nfc = true },
    { .names = "smollm starcoder refact codeshell exaone minerva-7b", .patterns = { "\\p{N}", GPT2 } },
    { .names = "command-r", .patterns = { "\\p{N}", GPT2 }, .nfc = true },
    { .names = "falcon", .patterns = { "[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]" } },
    { .names = "deepseek-llm",
      .patterns = { "[\\r\\n]", DEEPSEEK_LETTERS, "\\s?[!-/:-~！-／：-～‘-‟\\u3000-。]+", "\\s+$",
                    "[一-龥\\u0800-一가-\\uD7FF]+", "\\p{N}" } },
    { .names = "deepseek-coder",
      .patterns = { "[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥\\u0800-一가-\\uD7FF]+", "\\p{N}" } },
    { .names = "deepseek-v3 hunyuan-dense",
      .patterns = { "\\p{N}{1,3}", "[一-龥\\u3040-ゟ゠-ヿ]+", DEEPSEEK3 } },
    { .names = "tekken",
      .patterns = { CASED(UPPER, LOWER, "") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" BLANKS },
      .ignore_merges = true, .add_bos = true },
    { .names = "gpt-4o llama4 kanana2 minimax-m2",
      .patterns = { CASED(UPPER, LOWER, CONTRACTIONS "?") "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" BLANKS } },
    { .names = "kimi-k2",
      .patterns = { "[\\p{Han}]+|" CASED(NOT_HAN_UPPER, NOT_HAN_LOWER, CONTRACTIONS "?")
                    "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" BLANKS } },
    { .names = "poro-chat bloom gpt3-finnish", .patterns = { BLOOM } },
    { .names = "viking", .patterns = { BLOOM, "\\p{N}" } },
    { .names = "bailingmoe bailingmoe2 llada-moe",
      .patterns = { "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|"
                    "\\s+(?!\\S)|\\s+" } },
    { .names = "seed-coder",
      .patterns = { CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" BLANKS } },
    { .names = "chameleon",
      .patterns = { "<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", "\\p{N}",
                    "[\\p{P}!-/:-@\\[-`{-~]", GPT2 },
      .add_bos = true },
};

static bool is_named(const char *names, fx_str name)
{
    while (*names) {
        size_t n = strcspn(names, " ");

        if (fx_str_eq(fx_str_n(names, n), name))
            return true;
        names += n + (names[n] == ' ');
    }
    return false;
}

const fx_pretok_name *fx_pretok_find(fx_str name)
{
    if (!name.n)
        return &rows[0];
    for (size_t i = 0; i < FX_COUNT(rows); i++)
        if (is_named(rows[i].names, name))
            return &rows[i];
    return NULL;
}

static bool same_patterns(const fx_pretok_name *row, const fx_str *patterns, size_t n)
{
    for (size_t i = 0; i < FX_COUNT(row->patterns); i++)
        if (i < n ? !row->patterns[i] || !fx_str_is(patterns[i], row->patterns[i]) : row->patterns[i] != NULL)
            return false;
    return n <= FX_COUNT(row->patterns);
}

fx_str fx_pretok_name_of(const fx_str *patterns, size_t n, const fx_pretok_name *traits)
{
    for (size_t i = 0; i < FX_COUNT(rows); i++)
        if (rows[i].nfc == traits->nfc && rows[i].ignore_merges == traits->ignore_merges &&
            same_patterns(&rows[i], patterns, n))
            return fx_str_n(rows[i].names, strcspn(rows[i].names, " "));
    return FX_STR("");
}
