/* Pieces of JSON and CSV in C: integers, and texts that are checked and copied in one pass, sixteen bytes at a time.

   UTF-8 by table lookup: Keiser and Lemire, "Validating UTF-8 In Less Than One Instruction Per Byte" (Software:
   Practice and Experience 51, 2021). The loops of json_text.py, from which a compiler can make less, do it where the
   processor cannot; KAFKALOG_PORTABLE leaves them alone.

   A function may write up to sixteen bytes more than its result; the buffer has that room. */

#ifndef KAFKALOG_JSON_COPY_H
#define KAFKALOG_JSON_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The eight digits of a number below 10^8, the first one in the lowest byte: both halves at once, then four pairs,
   then eight digits. */
static inline uint64_t json_eight_digits(uint64_t number)
{
    uint64_t fours = number / 10000 | (number % 10000) << 32;
    uint64_t hundreds = (fours * 10486 >> 20) & 0x0000007F0000007F;
    uint64_t pairs = hundreds | (fours - hundreds * 100) << 16;
    uint64_t tens = (pairs * 103 >> 10) & 0x000F000F000F000F;
    return tens | (pairs - tens * 10) << 8;
}

/* The lowest byte first, whatever the machine. */
static inline void json_store(uint64_t word, unsigned char *w)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    memcpy(w, &word, 8);
}

/* Decimal digits of any 64-bit integer; returns how many bytes were written. */
static inline ptrdiff_t json_integer(int64_t value, unsigned char *w)
{
    const uint64_t zeros = 0x3030303030303030;
    unsigned char *start = w;
    uint64_t rest = (uint64_t)value, first;
    int more = 0, none;
    if (value < 0) {
        *w++ = '-';
        rest = 0 - rest;
    }
    for (first = rest; first >= 100000000; more++)
        first /= 100000000;
    if (first < 10) {
        *w++ = (unsigned char)('0' + first);
    } else {
        first = json_eight_digits(first);
        none = __builtin_ctzll(first) >> 3; /* leading zeros */
        json_store((first | zeros) >> 8 * none, w);
        w += 8 - none;
    }
    if (more == 2) {
        json_store(json_eight_digits(rest / 100000000 % 100000000) | zeros, w);
        w += 8;
    }
    if (more) {
        json_store(json_eight_digits(rest % 100000000) | zeros, w);
        w += 8;
    }
    return w - start;
}

#define JSON_ESCAPES 1
#define JSON_NO_TEXT 2

typedef int (*json_copy_function)(const unsigned char *p, size_t size, unsigned char *w);
typedef size_t (*json_escape_function)(const unsigned char *p, size_t size, unsigned char *w);
typedef ptrdiff_t (*csv_copy_function)(const unsigned char *p, size_t size, unsigned char *w);

/* Copies a text as it is. Returns bits: some bytes must be escaped, it is not exact UTF-8. */
static json_copy_function json_copy = NULL;
/* Copies a text that is exact UTF-8 and escapes what must be. Returns how many bytes were written. */
static json_escape_function json_copy_escaped = NULL;
/* Copies a text as a field of CSV, in quotes where it needs them. Returns how many bytes were written; -1: it is not exact
   UTF-8, or has control characters other than tab, LF and CR. */
static csv_copy_function csv_copy = NULL;

#if defined(__x86_64__) && !defined(KAFKALOG_PORTABLE)

#include <immintrin.h>

#define JSON_TARGET __attribute__((target("ssse3")))

/* Errors of a byte with the one before it, one bit each; an error has its bit in all three tables. */
#define TOO_SHORT 1
#define TOO_LONG 2
#define OVERLONG_3 4
#define TOO_LARGE 8
#define SURROGATE 16
#define OVERLONG_2 32
#define OVERLONG_4 64 /* or too large by the second byte */
#define TWO_CONTINUE (char)128
#define ANY (char)(TOO_SHORT | TOO_LONG | 128)

JSON_TARGET static inline __m128i json_halves(__m128i table, __m128i x)
{
    return _mm_shuffle_epi8(table, _mm_and_si128(x, _mm_set1_epi8(15)));
}

/* Not 0 where `x` must not follow the bytes before it, which are in the same lanes of `x1`, `x2` and `x3`. */
JSON_TARGET static inline __m128i json_wrong_utf8(__m128i x, __m128i x1, __m128i x2, __m128i x3)
{
    const __m128i first_high = _mm_setr_epi8(
        TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG,
        TWO_CONTINUE, TWO_CONTINUE, TWO_CONTINUE, TWO_CONTINUE,
        TOO_SHORT | OVERLONG_2, TOO_SHORT, TOO_SHORT | OVERLONG_3 | SURROGATE, TOO_SHORT | TOO_LARGE | OVERLONG_4);
    const __m128i first_low = _mm_setr_epi8(
        ANY | OVERLONG_3 | OVERLONG_2 | OVERLONG_4, ANY | OVERLONG_2, ANY, ANY, ANY | TOO_LARGE,
        ANY | TOO_LARGE | OVERLONG_4, ANY | TOO_LARGE | OVERLONG_4, ANY | TOO_LARGE | OVERLONG_4,
        ANY | TOO_LARGE | OVERLONG_4, ANY | TOO_LARGE | OVERLONG_4, ANY | TOO_LARGE | OVERLONG_4,
        ANY | TOO_LARGE | OVERLONG_4, ANY | TOO_LARGE | OVERLONG_4, ANY | TOO_LARGE | OVERLONG_4 | SURROGATE,
        ANY | TOO_LARGE | OVERLONG_4, ANY | TOO_LARGE | OVERLONG_4);
    const __m128i second_high = _mm_setr_epi8(
        TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT,
        TWO_CONTINUE | TOO_LONG | OVERLONG_2 | OVERLONG_3 | OVERLONG_4,
        TWO_CONTINUE | TOO_LONG | OVERLONG_2 | OVERLONG_3 | TOO_LARGE,
        TWO_CONTINUE | TOO_LONG | OVERLONG_2 | SURROGATE | TOO_LARGE,
        TWO_CONTINUE | TOO_LONG | OVERLONG_2 | SURROGATE | TOO_LARGE,
        TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT);
    __m128i wrong = _mm_and_si128(
        _mm_and_si128(json_halves(first_high, _mm_srli_epi16(x1, 4)), json_halves(first_low, x1)),
        json_halves(second_high, _mm_srli_epi16(x, 4)));
    __m128i continues = _mm_or_si128(
        _mm_subs_epu8(x2, _mm_set1_epi8(0xE0 - 0x80)), _mm_subs_epu8(x3, _mm_set1_epi8((char)(0xF0 - 0x80))));
    return _mm_xor_si128(wrong, _mm_and_si128(continues, _mm_set1_epi8((char)0x80)));
}

/* -1 at bytes of ASCII that must be escaped. */
JSON_TARGET static inline __m128i json_escapes(__m128i x)
{
    __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(x, _mm_set1_epi8(0x1F)), x);
    __m128i quote = _mm_cmpeq_epi8(x, _mm_set1_epi8('"'));
    __m128i slash = _mm_cmpeq_epi8(x, _mm_set1_epi8('\\'));
    __m128i delete = _mm_cmpeq_epi8(x, _mm_set1_epi8(0x7F));
    return _mm_or_si128(_mm_or_si128(low, quote), _mm_or_si128(slash, delete));
}

/* -1 at the second bytes of U+0080 to U+009F. */
JSON_TARGET static inline __m128i json_controls(__m128i x, __m128i x1)
{
    __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(x, _mm_set1_epi8((char)0x9F)), x);
    return _mm_and_si128(low, _mm_cmpeq_epi8(x1, _mm_set1_epi8((char)0xC2)));
}

/* The last bytes of a text, less than sixteen, then zeros. Nothing outside of the text is read. */
JSON_TARGET static inline __m128i json_last(const unsigned char *p, size_t size, size_t left)
{
    uint64_t low = 0, high = 0;
    const unsigned char *q = p + size - left;
    if (size >= 16) { /* shifted down from the end: the first half of the table selects bytes, the second one zeros */
        static const signed char shift[32] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
            -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
        return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(p + size - 16)),
            _mm_loadu_si128((const __m128i *)(shift + 16 - left)));
    }
    if (left > 8) {
        memcpy(&low, q, 8);
        memcpy(&high, q + left - 8, 8);
        high >>= 8 * (16 - left);
    } else if (left == 8) {
        memcpy(&low, q, 8);
    } else if (left >= 4) {
        uint32_t begin, end;
        memcpy(&begin, q, 4);
        memcpy(&end, q + left - 4, 4);
        low = begin | (uint64_t)end << 8 * (left - 4);
    } else if (left > 0) {
        low = q[0] | (uint64_t)q[left / 2] << 8 * (left / 2) | (uint64_t)q[left - 1] << 8 * (left - 1);
    }
    return _mm_set_epi64x((long long)high, (long long)low);
}

JSON_TARGET static int json_copy_by_16(const unsigned char *p, size_t size, unsigned char *w)
{
    __m128i before = _mm_setzero_si128(), wrong = before, escapes = before, x, x1;
    size_t i = 0;
    for (; size - i >= 16; i += 16) {
        x = _mm_loadu_si128((const __m128i *)(p + i));
        _mm_storeu_si128((__m128i *)(w + i), x);
        escapes = _mm_or_si128(escapes, json_escapes(x));
        if (_mm_movemask_epi8(_mm_or_si128(x, before)) != 0) {
            x1 = _mm_alignr_epi8(x, before, 15);
            wrong = _mm_or_si128(wrong,
                json_wrong_utf8(x, x1, _mm_alignr_epi8(x, before, 14), _mm_alignr_epi8(x, before, 13)));
            escapes = _mm_or_si128(escapes, json_controls(x, x1));
        }
        before = x;
    }
    x = json_last(p, size, size - i);
    _mm_storeu_si128((__m128i *)(w + i), x);
    if (_mm_movemask_epi8(_mm_or_si128(x, before)) != 0) { /* the zeros after the end show a cut character */
        x1 = _mm_alignr_epi8(x, before, 15);
        wrong = _mm_or_si128(wrong,
            json_wrong_utf8(x, x1, _mm_alignr_epi8(x, before, 14), _mm_alignr_epi8(x, before, 13)));
        escapes = _mm_or_si128(escapes, json_controls(x, x1));
    }
    {
        int ascii = _mm_movemask_epi8(json_escapes(x)) & ((1 << (size - i)) - 1);
        int other = _mm_movemask_epi8(escapes);
        int good = _mm_movemask_epi8(_mm_cmpeq_epi8(wrong, _mm_setzero_si128())) == 0xFFFF;
        return ((ascii | other) != 0 ? JSON_ESCAPES : 0) | (good ? 0 : JSON_NO_TEXT);
    }
}

/* The escape of each character up to U+009F; the last byte is its size. */
static unsigned char json_escape[160][8];

static void json_fill_escapes(void)
{
    static const char named[] = "\bb\tt\nn\ff\rr\"\"\\\\";
    for (int c = 0; c < 160; c++) {
        memcpy(json_escape[c], "\\u00", 4);
        json_escape[c][4] = (unsigned char)('0' + (c >> 4));
        json_escape[c][5] = (unsigned char)"0123456789abcdef"[c & 15];
        json_escape[c][7] = 6;
    }
    for (const char *name = named; *name; name += 2) {
        json_escape[(int)name[0]][1] = (unsigned char)name[1];
        json_escape[(int)name[0]][7] = 2;
    }
}

/* Of eight bytes with any of them to escape: for each byte of the result where it comes from; byte 8 is the backslash. */
static unsigned char json_spread[256][16];
static unsigned char json_spread_size[256];

static void json_fill_spreads(void)
{
    for (int stops = 0; stops < 256; stops++) {
        int size = 0;
        for (int i = 0; i < 8; i++) {
            if (stops >> i & 1)
                json_spread[stops][size++] = 8;
            json_spread[stops][size++] = (unsigned char)i;
        }
        json_spread_size[stops] = (unsigned char)size;
    }
}

/* Writes the first `count` bytes of `x` with `mark` before each of `stops`; returns the end of the result. */
JSON_TARGET static inline unsigned char *json_put_spread(
    __m128i x, unsigned stops, size_t count, char mark, unsigned char *w)
{
    __m128i marks = _mm_cvtsi32_si128(mark);
    __m128i places = _mm_loadu_si128((const __m128i *)json_spread[stops & 255]);
    _mm_storeu_si128((__m128i *)w, _mm_shuffle_epi8(_mm_unpacklo_epi64(x, marks), places));
    w += json_spread_size[stops & 255];
    if (count <= 8)
        return w - (8 - count);
    places = _mm_loadu_si128((const __m128i *)json_spread[stops >> 8]);
    _mm_storeu_si128((__m128i *)w, _mm_shuffle_epi8(_mm_unpacklo_epi64(_mm_srli_si128(x, 8), marks), places));
    return w + json_spread_size[stops >> 8] - (16 - count);
}

/* Sixteen bytes at a time, however many of them are escaped: a branch for each quote of a JSON text would be mispredicted
   more often than not. Only blocks with an escape of six bytes are left to the slow way, one escape after the other. */
JSON_TARGET static size_t json_copy_escaped_by_16(const unsigned char *p, size_t size, unsigned char *w)
{
    const __m128i letters = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 'b', 't', 'n', 0, 'f', 'r', 0, 0);
    unsigned char *start = w;
    size_t i = 0;
    while (i < size) {
        size_t left = size - i < 16 ? size - i : 16, run;
        __m128i x = left == 16 ? _mm_loadu_si128((const __m128i *)(p + i)) : json_last(p, size, left);
        __m128i x1 = i ? _mm_insert_epi16(_mm_slli_si128(x, 1), p[i - 1] | (p[i] << 8), 0) : _mm_slli_si128(x, 1);
        __m128i marked = _mm_or_si128(json_escapes(x), json_controls(x, x1));
        unsigned stops = (unsigned)_mm_movemask_epi8(marked) & ((1u << left) - 1);
        unsigned char c;
        if (stops) {
            __m128i same = _mm_or_si128(_mm_cmpeq_epi8(x, _mm_set1_epi8('"')), _mm_cmpeq_epi8(x, _mm_set1_epi8('\\')));
            unsigned others = stops & ~(unsigned)_mm_movemask_epi8(same);
            if (others) {
                __m128i small = _mm_cmpeq_epi8(_mm_min_epu8(x, _mm_set1_epi8(15)), x);
                __m128i named = _mm_and_si128(small, _mm_shuffle_epi8(letters, x));
                __m128i none = _mm_cmpeq_epi8(named, _mm_setzero_si128());
                if (others & (unsigned)_mm_movemask_epi8(none)) {
                    run = (size_t)__builtin_ctz(stops);
                    _mm_storeu_si128((__m128i *)w, x);
                    i += run;
                    w += run;
                    c = p[i];
                    w -= c >= 0x80; /* the first byte of the two is written */
                    memcpy(w, json_escape[c], 8);
                    w += json_escape[c][7];
                    i++;
                    continue;
                }
                x = _mm_or_si128(_mm_and_si128(x, none), named);
            }
        }
        w = json_put_spread(x, stops, left, '\\', w);
        i += left;
    }
    return (size_t)(w - start);
}

/* -1 at control characters of ASCII that a field may not have as text. */
JSON_TARGET static inline __m128i csv_odd(__m128i x)
{
    __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(x, _mm_set1_epi8(0x1F)), x);
    __m128i line = _mm_or_si128(_mm_cmpeq_epi8(x, _mm_set1_epi8('\n')), _mm_cmpeq_epi8(x, _mm_set1_epi8('\r')));
    __m128i good = _mm_or_si128(line, _mm_cmpeq_epi8(x, _mm_set1_epi8('\t')));
    return _mm_or_si128(_mm_andnot_si128(good, low), _mm_cmpeq_epi8(x, _mm_set1_epi8(0x7F)));
}

/* -1 at the bytes for which a field is quoted. */
JSON_TARGET static inline __m128i csv_special(__m128i x)
{
    __m128i line = _mm_or_si128(_mm_cmpeq_epi8(x, _mm_set1_epi8('\n')), _mm_cmpeq_epi8(x, _mm_set1_epi8('\r')));
    __m128i mark = _mm_or_si128(_mm_cmpeq_epi8(x, _mm_set1_epi8('"')), _mm_cmpeq_epi8(x, _mm_set1_epi8(',')));
    return _mm_or_si128(line, mark);
}

JSON_TARGET static ptrdiff_t csv_copy_by_16(const unsigned char *p, size_t size, unsigned char *w)
{
    __m128i before = _mm_setzero_si128(), wrong = before, x, x1;
    unsigned odd = 0, special = 0;
    unsigned char *start = w;
    size_t i = 0, left;
    for (;; i += 16) { /* the zeros after the end show a cut character, as in json_copy_by_16 */
        left = size - i < 16 ? size - i : 16;
        x = left == 16 ? _mm_loadu_si128((const __m128i *)(p + i)) : json_last(p, size, left);
        _mm_storeu_si128((__m128i *)(w + i), x);
        odd |= (unsigned)_mm_movemask_epi8(csv_odd(x)) & ((1u << left) - 1);
        special |= (unsigned)_mm_movemask_epi8(csv_special(x));
        if (_mm_movemask_epi8(_mm_or_si128(x, before)) != 0) {
            x1 = _mm_alignr_epi8(x, before, 15);
            wrong = _mm_or_si128(wrong,
                json_wrong_utf8(x, x1, _mm_alignr_epi8(x, before, 14), _mm_alignr_epi8(x, before, 13)));
            odd |= (unsigned)_mm_movemask_epi8(json_controls(x, x1));
        }
        before = x;
        if (left < 16)
            break;
    }
    if (odd || _mm_movemask_epi8(_mm_cmpeq_epi8(wrong, _mm_setzero_si128())) != 0xFFFF)
        return -1;
    if (!special && size)
        return (ptrdiff_t)size;
    *w++ = '"';
    for (i = 0; i < size; i += left) {
        left = size - i < 16 ? size - i : 16;
        x = left == 16 ? _mm_loadu_si128((const __m128i *)(p + i)) : json_last(p, size, left);
        special = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(x, _mm_set1_epi8('"')));
        w = json_put_spread(x, special, left, '"', w);
    }
    *w++ = '"';
    return w - start;
}

__attribute__((constructor)) static void json_use_processor(void)
{
    __builtin_cpu_init(); /* constructors may run before libgcc's own */
    if (__builtin_cpu_supports("ssse3")) {
        json_fill_escapes();
        json_fill_spreads();
        json_copy = json_copy_by_16;
        json_copy_escaped = json_copy_escaped_by_16;
        csv_copy = csv_copy_by_16;
    }
}

#undef ANY

#endif

#endif
