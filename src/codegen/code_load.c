/* code_load.c - loads ELF64 relocatable objects of x86-64 and aarch64.
 *
 * The sections that need memory are laid one after another into one mapping, code first, and from a new page on the constants;
 * relocations are applied; then the pages become executable or read-only. A section that would be written to, a symbol that is
 * not defined in the object and a kind of relocation that isn't in the table are errors.
 *
 * Every offset is checked against the bytes given before it is followed (slice), every relocation against the section it
 * patches. */
#include "codegen/code_load.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_SECTIONS 4096u
#define MAX_BYTES ((size_t)64 << 20)

struct fx_code {
    const fx_mem *mem;
    uint8_t *base;
    size_t bytes, code_bytes;    /* of the mapping; of its executable part */
    fx_map functions;            /* name -> address */
    char *names;
    size_t names_bytes;
};

typedef struct loading {
    fx_code *code;
    fx_str bytes;
    const char *name;
    Elf64_Ehdr header;
    Elf64_Shdr *sections;        /* copies */
    size_t *at;                  /* where each lies in the mapping; SIZE_MAX: not in memory */
    fx_error *err;
} loading;

static fx_status bad(loading *l, const char *what)
{
    return fx_fail(l->err, FORNAX_EFORMAT, "%s: compiled code: %s", l->name, what);
}

/* n bytes at 'offset' of the object; NULL: not all there. */
static const uint8_t *slice(const loading *l, uint64_t offset, uint64_t n)
{
    return offset <= l->bytes.n && n <= l->bytes.n - offset ? (const uint8_t *)l->bytes.p + offset : NULL;
}

#if defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_X86_64
#endif

static fx_status read_header(loading *l)
{
    const uint8_t *p = slice(l, 0, sizeof(l->header));
    Elf64_Ehdr *h = &l->header;

    if (!p)
        return bad(l, "shorter than its header");
    memcpy(h, p, sizeof(*h));
    if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB ||
        h->e_type != ET_REL)
        return bad(l, "not an ELF64 object");
    if (h->e_shentsize != sizeof(Elf64_Shdr) || h->e_shnum == 0 || h->e_shnum > MAX_SECTIONS)
        return bad(l, "its table of sections has no size that can be");
    return FORNAX_OK;
}

static fx_status read_sections(loading *l)
{
    size_t n = l->header.e_shnum;
    const uint8_t *p = slice(l, l->header.e_shoff, n * sizeof(Elf64_Shdr));

    if (!p)
        return bad(l, "its table of sections is not within it");
    l->sections = fx_mem_array(l->code->mem, n, sizeof(*l->sections));
    l->at = fx_mem_array(l->code->mem, n, sizeof(*l->at));
    if (!l->sections || !l->at)
        return fx_nomem(l->err, "compiled code");
    memcpy(l->sections, p, n * sizeof(Elf64_Shdr));
    for (size_t i = 0; i < n; i++) {
        const Elf64_Shdr *s = &l->sections[i];

        l->at[i] = SIZE_MAX;
        if (s->sh_type != SHT_NOBITS && !slice(l, s->sh_offset, s->sh_size))
            return bad(l, "a section is not within it");
        if ((s->sh_flags & SHF_ALLOC) && (s->sh_type == SHT_NOBITS || (s->sh_flags & (SHF_WRITE | SHF_TLS))) && s->sh_size)
            return bad(l, "a section wants memory to write to");
    }
    return FORNAX_OK;
}

/* ---- Memory ------------------------------------------------------------------------------------------ */

/* Gives places to the sections with these flags, from *end on. */
static fx_status place_sections(loading *l, uint64_t flags, size_t *end)
{
    for (size_t i = 0; i < l->header.e_shnum; i++) {
        const Elf64_Shdr *s = &l->sections[i];
        uint64_t align = s->sh_addralign ? s->sh_addralign : 1;

        if ((s->sh_flags & (SHF_ALLOC | SHF_EXECINSTR)) != flags || !s->sh_size)
            continue;
        if ((align & (align - 1)) != 0 || align > 4096)
            return bad(l, "a section's alignment is no power of two up to 4096");
        if (s->sh_size > MAX_BYTES || *end > MAX_BYTES - s->sh_size - align)
            return bad(l, "more than 64 MiB");
        l->at[i] = FX_ROUND_UP(*end, (size_t)align);
        *end = l->at[i] + s->sh_size;
    }
    return FORNAX_OK;
}

static fx_status map_sections(loading *l)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), end = 0;
    fx_code *c = l->code;
    void *p;

    FX_TRY(place_sections(l, SHF_ALLOC | SHF_EXECINSTR, &end));
    c->code_bytes = end = FX_ROUND_UP(end, page);
    FX_TRY(place_sections(l, SHF_ALLOC, &end));
    if (end == 0)
        return bad(l, "has no code");
    p = mmap(NULL, FX_ROUND_UP(end, page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return fx_nomem(l->err, "compiled code");
    c->base = p;
    c->bytes = FX_ROUND_UP(end, page);
    for (size_t i = 0; i < l->header.e_shnum; i++) {
        if (l->at[i] != SIZE_MAX)
            memcpy(c->base + l->at[i], l->bytes.p + l->sections[i].sh_offset, l->sections[i].sh_size);
    }
    return FORNAX_OK;
}

static fx_status protect(loading *l)
{
    fx_code *c = l->code;

    fx_flush_code(c->base, c->bytes);
    if ((c->code_bytes && mprotect(c->base, c->code_bytes, PROT_READ | PROT_EXEC) != 0) ||
        (c->bytes > c->code_bytes && mprotect(c->base + c->code_bytes, c->bytes - c->code_bytes, PROT_READ) != 0))
        return fx_fail(l->err, FORNAX_EUNSUP, "%s: the system doesn't let code be made at run time", l->name);
    return FORNAX_OK;
}

/* ---- Relocations ---------------------------------------------------------------------------------------- */

/* How a relocation patches: 'bits' of the value from bit 'shift' on at bit 'to' of a word of 'size' bytes. */
typedef struct kind {
    uint32_t type;
    uint8_t size;
    bool relative, page;         /* S + A - P; of pages of 4 KiB */
    uint8_t shift, bits, to;
    bool whole;                  /* the value must fit the bits, and its shifted-out ones be 0 */
} kind;

static const kind kinds[] = {
#if defined(__aarch64__)
    { R_AARCH64_ABS64, 8, false, false, 0, 64, 0, false },
    { R_AARCH64_PREL64, 8, true, false, 0, 64, 0, false },
    { R_AARCH64_PREL32, 4, true, false, 0, 32, 0, true },
    { R_AARCH64_CALL26, 4, true, false, 2, 26, 0, true },
    { R_AARCH64_JUMP26, 4, true, false, 2, 26, 0, true },
    { R_AARCH64_CONDBR19, 4, true, false, 2, 19, 5, true },
    { R_AARCH64_ADR_PREL_PG_HI21, 4, true, true, 12, 21, 5, true },
    { R_AARCH64_ADR_PREL_LO21, 4, true, false, 0, 21, 5, true },
    { R_AARCH64_ADD_ABS_LO12_NC, 4, false, false, 0, 12, 10, false },
    { R_AARCH64_LDST8_ABS_LO12_NC, 4, false, false, 0, 12, 10, false },
    { R_AARCH64_LDST16_ABS_LO12_NC, 4, false, false, 1, 11, 10, false },
    { R_AARCH64_LDST32_ABS_LO12_NC, 4, false, false, 2, 10, 10, false },
    { R_AARCH64_LDST64_ABS_LO12_NC, 4, false, false, 3, 9, 10, false },
    { R_AARCH64_LDST128_ABS_LO12_NC, 4, false, false, 4, 8, 10, false },
#else
    { R_X86_64_64, 8, false, false, 0, 64, 0, false },
    { R_X86_64_PC64, 8, true, false, 0, 64, 0, false },
    { R_X86_64_PC32, 4, true, false, 0, 32, 0, true },
    { R_X86_64_PLT32, 4, true, false, 0, 32, 0, true },
#endif
};

static const kind *kind_of(uint32_t type)
{
    for (size_t i = 0; i < FX_COUNT(kinds); i++) {
        if (kinds[i].type == type)
            return &kinds[i];
    }
    return NULL;
}

/* Puts 'value' into the word at p; false: it doesn't fit. */
static bool patch(uint8_t *p, const kind *k, uint64_t value)
{
    uint64_t word = 0, mask = k->bits == 64 ? UINT64_MAX : ((uint64_t)1 << k->bits) - 1;
    int64_t top = (int64_t)value >> k->shift;
    uint64_t field = (uint64_t)top & mask;

    if (k->whole && top != (int64_t)(field << (64 - k->bits)) >> (64 - k->bits))
        return false;
    if (k->whole && !k->page && k->shift && (value & (((uint64_t)1 << k->shift) - 1)))
        return false;
    memcpy(&word, p, k->size);
    if (k->bits == 21)                   /* adr: its two low bits stand apart */
        word = (word & ~(uint64_t)0x60ffffe0) | (field >> 2) << 5 | (field & 3) << 29;
    else
        word = (word & ~(mask << k->to)) | field << k->to;
    memcpy(p, &word, k->size);
    return true;
}

/* Address of the symbol with this number in the table 'table'. */
static fx_status symbol_address(loading *l, const Elf64_Shdr *table, uint64_t number, uint64_t *out)
{
    Elf64_Sym s;

    if (number >= table->sh_size / sizeof(s))
        return bad(l, "a relocation's symbol is not in the table");
    memcpy(&s, l->bytes.p + table->sh_offset + number * sizeof(s), sizeof(s));
    if (s.st_shndx == SHN_UNDEF || s.st_shndx >= l->header.e_shnum || l->at[s.st_shndx] == SIZE_MAX ||
        s.st_value > l->sections[s.st_shndx].sh_size)
        return bad(l, "refers to something outside of it");
    *out = (uint64_t)(uintptr_t)l->code->base + l->at[s.st_shndx] + s.st_value;
    return FORNAX_OK;
}

static fx_status relocate(loading *l, const Elf64_Shdr *rela, const Elf64_Rela *r)
{
    const Elf64_Shdr *symbols = &l->sections[rela->sh_link], *target = &l->sections[rela->sh_info];
    const kind *k = kind_of((uint32_t)ELF64_R_TYPE(r->r_info));
    uint8_t *p;
    uint64_t s, value, place;

    if (!k)
        return bad(l, "has a relocation of a kind that isn't known");
    if (r->r_offset > target->sh_size || target->sh_size - r->r_offset < k->size)
        return bad(l, "a relocation is outside of its section");
    FX_TRY(symbol_address(l, symbols, ELF64_R_SYM(r->r_info), &s));
    p = l->code->base + l->at[rela->sh_info] + r->r_offset;
    place = (uint64_t)(uintptr_t)p;
    value = s + (uint64_t)r->r_addend;
    if (k->page)
        value = (value & ~(uint64_t)4095) - (place & ~(uint64_t)4095);
    else if (k->relative)
        value -= place;
    else if (k->bits <= 12)
        value &= 4095;
    return patch(p, k, value) ? FORNAX_OK : bad(l, "a relocation doesn't reach");
}

static fx_status relocate_section(loading *l, const Elf64_Shdr *s)
{
    if (s->sh_info >= l->header.e_shnum || s->sh_link >= l->header.e_shnum)
        return bad(l, "relocations of a section that isn't there");
    if (l->at[s->sh_info] == SIZE_MAX)
        return FORNAX_OK;                /* of a section that isn't loaded */
    if (s->sh_type == SHT_REL || s->sh_entsize != sizeof(Elf64_Rela) || l->sections[s->sh_link].sh_type != SHT_SYMTAB)
        return bad(l, "relocations that aren't of the usual form");
    for (uint64_t i = 0; i < s->sh_size / sizeof(Elf64_Rela); i++) {
        Elf64_Rela r;

        memcpy(&r, l->bytes.p + s->sh_offset + i * sizeof(r), sizeof(r));
        FX_TRY(relocate(l, s, &r));
    }
    return FORNAX_OK;
}

/* ---- Functions -------------------------------------------------------------------------------------------- */

/* Keeps the table of strings, and of each global function its name and address. */
static fx_status keep_functions(loading *l, const Elf64_Shdr *table)
{
    const Elf64_Shdr *strings;
    fx_code *c = l->code;

    if (table->sh_link >= l->header.e_shnum || c->names)
        return bad(l, "has no table of names, or two");
    strings = &l->sections[table->sh_link];
    if (strings->sh_type != SHT_STRTAB || !strings->sh_size || l->bytes.p[strings->sh_offset + strings->sh_size - 1] != 0)
        return bad(l, "its table of names doesn't end");
    c->names_bytes = strings->sh_size;
    c->names = fx_mem_alloc(c->mem, c->names_bytes);
    if (!c->names)
        return fx_nomem(l->err, "compiled code");
    memcpy(c->names, l->bytes.p + strings->sh_offset, c->names_bytes);
    for (uint64_t i = 0; i < table->sh_size / sizeof(Elf64_Sym); i++) {
        Elf64_Sym s;
        uint64_t address;

        memcpy(&s, l->bytes.p + table->sh_offset + i * sizeof(s), sizeof(s));
        if (ELF64_ST_TYPE(s.st_info) != STT_FUNC || ELF64_ST_BIND(s.st_info) != STB_GLOBAL)
            continue;
        FX_TRY(symbol_address(l, table, i, &address));
        if (s.st_name >= c->names_bytes || !(l->sections[s.st_shndx].sh_flags & SHF_EXECINSTR) ||
            s.st_value >= l->sections[s.st_shndx].sh_size)
            return bad(l, "a function is not in its code");
        if (!fx_map_put(&c->functions, fx_str_of(c->names + s.st_name), address))
            return fx_nomem(l->err, "compiled code");
    }
    return FORNAX_OK;
}

static fx_status load(loading *l)
{
    FX_TRY(read_header(l));
    if (l->header.e_machine != MACHINE)
        return bad(l, "of another kind of machine");
    FX_TRY(read_sections(l));
    FX_TRY(map_sections(l));
    for (size_t i = 0; i < l->header.e_shnum; i++) {
        if (l->sections[i].sh_type == SHT_RELA || l->sections[i].sh_type == SHT_REL)
            FX_TRY(relocate_section(l, &l->sections[i]));
        if (l->sections[i].sh_type == SHT_SYMTAB)
            FX_TRY(keep_functions(l, &l->sections[i]));
    }
    return protect(l);
}

fx_status fx_code_load(fx_code **out, const fx_mem *mem, fx_str object, const char *name, fx_error *err)
{
    loading l = { .bytes = object, .name = name, .err = err };
    fx_status st;

    *out = NULL;
    l.code = fx_mem_zalloc(mem, sizeof(*l.code));
    if (!l.code)
        return fx_nomem(err, "compiled code");
    l.code->mem = mem;
    fx_map_init(&l.code->functions, mem);
    st = load(&l);
    fx_mem_free(mem, l.sections, l.header.e_shnum * sizeof(*l.sections));
    fx_mem_free(mem, l.at, l.header.e_shnum * sizeof(*l.at));
    if (st == FORNAX_OK)
        *out = l.code;
    else
        fx_code_free(l.code);
    return st;
}

void fx_code_free(fx_code *code)
{
    if (!code)
        return;
    if (code->base)
        munmap(code->base, code->bytes);
    fx_map_done(&code->functions);
    fx_mem_free(code->mem, code->names, code->names_bytes);
    fx_mem_free(code->mem, code, sizeof(*code));
}

fx_code_fn fx_code_find(const fx_code *code, fx_str function)
{
    uint64_t address;
    fx_code_fn fn = NULL;

    if (fx_map_get(&code->functions, function, &address)) {
        void *p = (void *)(uintptr_t)address;

        memcpy(&fn, &p, sizeof(fn));
    }
    return fn;
}

static bool undefined_in(const loading *l, const Elf64_Shdr *table, fx_str *name)
{
    const Elf64_Shdr *strings = &l->sections[table->sh_link];

    for (uint64_t i = 1; i < table->sh_size / sizeof(Elf64_Sym); i++) {
        Elf64_Sym s;

        memcpy(&s, l->bytes.p + table->sh_offset + i * sizeof(s), sizeof(s));
        if (s.st_shndx != SHN_UNDEF || s.st_name >= strings->sh_size)
            continue;
        *name = fx_str_n(l->bytes.p + strings->sh_offset + s.st_name, 0);
        while (name->n < strings->sh_size - s.st_name && name->p[name->n])
            name->n++;
        return true;
    }
    return false;
}

bool fx_code_undefined(fx_str object, fx_str *name)
{
    fx_code code = { .mem = &fx_mem_libc };
    loading l = { .code = &code, .bytes = object, .name = "" };
    bool found = false;

    if (read_header(&l) == FORNAX_OK && read_sections(&l) == FORNAX_OK) {
        for (size_t i = 0; !found && i < l.header.e_shnum; i++) {
            const Elf64_Shdr *s = &l.sections[i];

            if (s->sh_type == SHT_SYMTAB && s->sh_link < l.header.e_shnum && l.sections[s->sh_link].sh_type == SHT_STRTAB)
                found = undefined_in(&l, s, name);
        }
    }
    fx_mem_free(code.mem, l.sections, l.header.e_shnum * sizeof(*l.sections));
    fx_mem_free(code.mem, l.at, l.header.e_shnum * sizeof(*l.at));
    return found;
}

size_t fx_code_bytes(const fx_code *code) { return code->bytes; }
