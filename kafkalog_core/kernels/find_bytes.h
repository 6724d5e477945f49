/* The search for a short literal in the bytes of a field, sixteen positions at a time.

   Two bytes of the literal, the rarest ones, are compared at every position; only where both agree is the whole literal
   compared (as ripgrep's memchr crate does: "Packed pair"). A byte that matches in either case has 0x20 in its mask: it
   is compared after a bitwise or with the mask. KAFKALOG_PORTABLE leaves the plain loop alone. */

#ifndef KAFKALOG_FIND_BYTES_H
#define KAFKALOG_FIND_BYTES_H

#include <stddef.h>

/* A literal with its masks, `size` bytes each, and the positions in it that are compared first. */
typedef struct {
    const unsigned char *text;
    const unsigned char *mask;
    ptrdiff_t size;
    ptrdiff_t first;
    ptrdiff_t second;
} find_literal;

static inline int find_is_at(const unsigned char *p, const find_literal *literal)
{
    for (ptrdiff_t i = 0; i < literal->size; i++)
        if ((p[i] | literal->mask[i]) != literal->text[i])
            return 0;
    return 1;
}

#if defined(__SSE2__) && !defined(KAFKALOG_PORTABLE)

#include <emmintrin.h>

/* Returns whether the literal is in p[0:size]. `room` bytes from `p` on may be read, at least `size`. */
static inline int find_bytes(const unsigned char *p, ptrdiff_t size, ptrdiff_t room, const find_literal *literal)
{
    const ptrdiff_t count = size - literal->size + 1; /* positions where it may start */
    const ptrdiff_t reach = (literal->first > literal->second ? literal->first : literal->second) + 16;
    const __m128i first = _mm_set1_epi8((char)literal->text[literal->first]);
    const __m128i second = _mm_set1_epi8((char)literal->text[literal->second]);
    const __m128i first_mask = _mm_set1_epi8((char)literal->mask[literal->first]);
    const __m128i second_mask = _mm_set1_epi8((char)literal->mask[literal->second]);
    ptrdiff_t i = 0;
    for (; i < count && i + reach <= room; i += 16) {
        const __m128i x = _mm_loadu_si128((const __m128i *)(p + i + literal->first));
        const __m128i y = _mm_loadu_si128((const __m128i *)(p + i + literal->second));
        unsigned hits = (unsigned)_mm_movemask_epi8(_mm_and_si128(
            _mm_cmpeq_epi8(_mm_or_si128(x, first_mask), first), _mm_cmpeq_epi8(_mm_or_si128(y, second_mask), second)));
        if (count - i < 16)
            hits &= (1u << (count - i)) - 1;
        for (; hits; hits &= hits - 1)
            if (find_is_at(p + i + __builtin_ctz(hits), literal))
                return 1;
    }
    for (; i < count; i++)
        if (find_is_at(p + i, literal))
            return 1;
    return 0;
}

#else

static inline int find_bytes(const unsigned char *p, ptrdiff_t size, ptrdiff_t room, const find_literal *literal)
{
    const unsigned char first = literal->text[literal->first], mask = literal->mask[literal->first];
    (void)room;
    for (ptrdiff_t i = 0; i + literal->size <= size; i++)
        if ((p[i + literal->first] | mask) == first && find_is_at(p + i, literal))
            return 1;
    return 0;
}

#endif

#endif
