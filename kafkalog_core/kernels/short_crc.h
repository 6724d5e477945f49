/* CRC-32 (IEEE 802.3) and CRC-32C (Castagnoli) of short spans, without a call through Python.

   For a batch of one record, the slice and the call into a library cost several times what the checksum itself does;
   long spans go to the library, which runs several streams at once. Three ways, all in the reflected form of the
   polynomials, with ones before and a complement after:
   - tables, eight bytes a step, anywhere: Kounavis and Berry, "A Systematic Approach to Building High Performance
     Software-Based CRC Generators" (ISCC 2005), known as slicing-by-8;
   - instructions for the polynomial itself: CRC-32C in SSE4.2, both in ARMv8;
   - carry-less multiplication for CRC-32 on x86-64: Gopal et al., "Fast CRC Computation for Generic Polynomials Using
     PCLMULQDQ Instruction" (Intel, 2009).
   The way is chosen once, when the extension is loaded, by what the processor has. KAFKALOG_PORTABLE leaves the tables
   alone. */

#ifndef KAFKALOG_SHORT_CRC_H
#define KAFKALOG_SHORT_CRC_H

#include <stddef.h>
#include <stdint.h>

#define CRC32_POLYNOMIAL 0xEDB88320u
#define CRC32C_POLYNOMIAL 0x82F63B78u

typedef uint32_t (*crc_function)(const unsigned char *p, size_t size);
typedef uint32_t crc_tables[8][256];

/* [k][byte]: what a byte followed by k zero bytes adds. */
static crc_tables crc32_tables, crc32c_tables;

/* Compilers make one load of this (and a byte swap where the machine is big-endian); it needs no alignment. */
static inline uint64_t crc_word(const unsigned char *p)
{
    return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 | (uint64_t)p[4] << 32
        | (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 | (uint64_t)p[7] << 56;
}

static inline uint32_t crc_by_tables(crc_tables t, uint32_t crc, const unsigned char *p, size_t size)
{
    for (; size >= 8; p += 8, size -= 8) {
        uint64_t word = crc_word(p) ^ crc;
        crc = t[7][word & 255] ^ t[6][word >> 8 & 255] ^ t[5][word >> 16 & 255] ^ t[4][word >> 24 & 255]
            ^ t[3][word >> 32 & 255] ^ t[2][word >> 40 & 255] ^ t[1][word >> 48 & 255] ^ t[0][word >> 56];
    }
    for (; size > 0; p++, size--)
        crc = t[0][(crc ^ *p) & 255] ^ crc >> 8;
    return crc;
}

static uint32_t crc32_by_tables(const unsigned char *p, size_t size)
{
    return ~crc_by_tables(crc32_tables, ~0u, p, size);
}

static uint32_t crc32c_by_tables(const unsigned char *p, size_t size)
{
    return ~crc_by_tables(crc32c_tables, ~0u, p, size);
}

static crc_function short_crc32 = crc32_by_tables;
static crc_function short_crc32c = crc32c_by_tables;

/* The longest span for which they beat the library, its call included. */
#define BYTES_BY_TABLES 320
#define BYTES_BY_PROCESSOR 2048
static ptrdiff_t short_crc32_bytes = BYTES_BY_TABLES;
static ptrdiff_t short_crc32c_bytes = BYTES_BY_TABLES;

static void crc_fill_tables(crc_tables t, uint32_t polynomial)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
        t[0][byte] = crc;
    }
    for (int zeros = 1; zeros < 8; zeros++)
        for (int byte = 0; byte < 256; byte++)
            t[zeros][byte] = t[0][t[zeros - 1][byte] & 255] ^ t[zeros - 1][byte] >> 8;
}

#if defined(__x86_64__) && !defined(KAFKALOG_PORTABLE)

#include <immintrin.h>

__attribute__((target("sse4.2"))) static uint32_t crc32c_by_instruction(const unsigned char *p, size_t size)
{
    uint64_t crc = ~0u;
    for (; size >= 8; p += 8, size -= 8)
        crc = _mm_crc32_u64(crc, crc_word(p));
    for (; size > 0; p++, size--)
        crc = _mm_crc32_u8((uint32_t)crc, *p);
    return ~(uint32_t)crc;
}

/* Moves sixteen bytes to the place of `next`, by halves: `by` is x to the power of the distance in bits,
   plus 32 and minus 32, modulo the polynomial and reflected. */
__attribute__((target("pclmul,sse2"))) static inline __m128i crc_folded(
    __m128i x, __m128i by, const unsigned char *next)
{
    __m128i low = _mm_clmulepi64_si128(x, by, 0x00);
    __m128i high = _mm_clmulepi64_si128(x, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), _mm_loadu_si128((const __m128i *)next));
}

/* Sixteen bytes stand for all before them (k3 and k4 of the paper), in long spans four times sixteen at once (k1 and
   k2). The tables finish what is left. */
__attribute__((target("pclmul,sse2"))) static uint32_t crc32_by_multiplication(const unsigned char *p, size_t size)
{
    const __m128i k1_k2 = _mm_set_epi64x(0x1C6E41596, 0x154442BD4), k3_k4 = _mm_set_epi64x(0x0CCAA009E, 0x1751997D0);
    unsigned char folded[16];
    __m128i x;
    if (size < 32)
        return crc32_by_tables(p, size);
    x = _mm_xor_si128(_mm_loadu_si128((const __m128i *)p), _mm_cvtsi32_si128(-1));
    if (size >= 128) {
        __m128i x1 = _mm_loadu_si128((const __m128i *)(p + 16)), x2 = _mm_loadu_si128((const __m128i *)(p + 32));
        __m128i x3 = _mm_loadu_si128((const __m128i *)(p + 48));
        for (p += 64, size -= 64; size >= 64; p += 64, size -= 64) {
            x = crc_folded(x, k1_k2, p);
            x1 = crc_folded(x1, k1_k2, p + 16);
            x2 = crc_folded(x2, k1_k2, p + 32);
            x3 = crc_folded(x3, k1_k2, p + 48);
        }
        _mm_storeu_si128((__m128i *)folded, x1);
        x = crc_folded(x, k3_k4, folded);
        _mm_storeu_si128((__m128i *)folded, x2);
        x = crc_folded(x, k3_k4, folded);
        _mm_storeu_si128((__m128i *)folded, x3);
        x = crc_folded(x, k3_k4, folded);
    } else {
        p += 16;
        size -= 16;
    }
    for (; size >= 16; p += 16, size -= 16)
        x = crc_folded(x, k3_k4, p);
    _mm_storeu_si128((__m128i *)folded, x);
    return ~crc_by_tables(crc32_tables, crc_by_tables(crc32_tables, 0, folded, 16), p, size);
}

static void crc_use_processor(void)
{
    __builtin_cpu_init(); /* constructors may run before libgcc's own */
    if (__builtin_cpu_supports("sse4.2")) {
        short_crc32c = crc32c_by_instruction;
        short_crc32c_bytes = BYTES_BY_PROCESSOR;
    }
    if (__builtin_cpu_supports("pclmul")) {
        short_crc32 = crc32_by_multiplication;
        short_crc32_bytes = BYTES_BY_PROCESSOR;
    }
}

#elif defined(__aarch64__) && defined(__AARCH64EL__) && defined(__linux__) && !defined(KAFKALOG_PORTABLE)

#include <sys/auxv.h>

/* By assembler: gcc and clang spell the builtins and the target attribute differently. */
#define CRC_STEP(instruction, operand, crc, value) \
    __asm__(".arch_extension crc\n\t" instruction " %w0, %w0, %" operand "1" : "+r"(crc) : "r"(value))

static uint32_t crc32_by_instruction(const unsigned char *p, size_t size)
{
    uint32_t crc = ~0u;
    for (; size >= 8; p += 8, size -= 8)
        CRC_STEP("crc32x", "x", crc, crc_word(p));
    for (; size > 0; p++, size--)
        CRC_STEP("crc32b", "w", crc, (uint32_t)*p);
    return ~crc;
}

static uint32_t crc32c_by_instruction(const unsigned char *p, size_t size)
{
    uint32_t crc = ~0u;
    for (; size >= 8; p += 8, size -= 8)
        CRC_STEP("crc32cx", "x", crc, crc_word(p));
    for (; size > 0; p++, size--)
        CRC_STEP("crc32cb", "w", crc, (uint32_t)*p);
    return ~crc;
}

static void crc_use_processor(void)
{
    if (getauxval(AT_HWCAP) & HWCAP_CRC32) {
        short_crc32 = crc32_by_instruction;
        short_crc32c = crc32c_by_instruction;
        short_crc32_bytes = short_crc32c_bytes = BYTES_BY_PROCESSOR;
    }
}

#else

static void crc_use_processor(void)
{
}

#endif

__attribute__((constructor)) static void crc_prepare(void)
{
    crc_fill_tables(crc32_tables, CRC32_POLYNOMIAL);
    crc_fill_tables(crc32c_tables, CRC32C_POLYNOMIAL);
    crc_use_processor();
}

#endif
