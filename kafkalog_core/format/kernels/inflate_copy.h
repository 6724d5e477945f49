/* What the decoders of compressed streams share: loads in byte order, and copies of bytes that came before.

   Copies are made in whole words, so that they may touch bytes behind their end; a function's comment says how many.
   Those are written again by what follows, or never looked at. */

#ifndef KAFKALOG_INFLATE_COPY_H
#define KAFKALOG_INFLATE_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A decoder gives the size of the content, or one of these. What it has written until then is of no use.
   ODD: it does not vouch for the stream. That says nothing of the reason, nor that others could not read it.
   ROOM: the content is more than it was given room for, or the stream is odd. */
#define INFLATE_ODD ((ptrdiff_t)-1)
#define INFLATE_ROOM ((ptrdiff_t)-2)

/* Blocks of one stream above which it is not vouched for: how many there may be is for others to say. */
#define INFLATE_MAX_PARTS 4096

static inline uint32_t inflate_load16(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static inline uint32_t inflate_load32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline void inflate_copy8(unsigned char *w, const unsigned char *p)
{
    uint64_t word;
    memcpy(&word, p, 8);
    memcpy(w, &word, 8);
}

static inline void inflate_copy16(unsigned char *w, const unsigned char *p)
{
    uint64_t words[2];
    memcpy(words, p, 16);
    memcpy(w, words, 16);
}

/* Up to 15 bytes behind both ends are read and written. The source may lie 16 bytes or more before `w`. */
static inline void inflate_copy_long(unsigned char *w, const unsigned char *p, size_t size)
{
    unsigned char *end = w + size;
    do {
        inflate_copy16(w, p);
        w += 16;
        p += 16;
    } while (w < end);
}

/* `size` bytes from `distance` (1 to 15) bytes before, which they may come to repeat. Up to 15 behind them are written.
   What repeats at a distance does so at its multiples: words come from the first one of 8 or more. */
static inline void inflate_repeat(unsigned char *w, size_t distance, size_t size)
{
    static const unsigned char multiples[8] = {0, 8, 8, 9, 8, 10, 12, 14};
    const unsigned char *p = w - distance;
    unsigned char *end = w + size;
    if (distance < 8) {
        for (int i = 0; i < 8; i++)
            w[i] = p[i];
        w += 8;
        p = w - multiples[distance];
    }
    for (; w < end; w += 8, p += 8)
        inflate_copy8(w, p);
}

/* Bytes of the input to the output. Nothing from `readable` on is read, nothing from `writable` on is written. */
static inline void inflate_literals(unsigned char *w, const unsigned char *p, size_t size,
    const unsigned char *writable, const unsigned char *readable)
{
    if (size + 16 <= (size_t)(writable - w) && size + 16 <= (size_t)(readable - p))
        inflate_copy_long(w, p, size);
    else
        memcpy(w, p, size);
}

/* `size` bytes from `distance` bytes before, which they may come to repeat. Nothing from `writable` on is written. */
static inline void inflate_match(unsigned char *w, size_t distance, size_t size, const unsigned char *writable)
{
    const unsigned char *p = w - distance;
    if (size + 16 > (size_t)(writable - w)) {
        for (; size > 0; size--)
            *w++ = *p++;
    } else if (distance < 16) {
        inflate_repeat(w, distance, size);
    } else {
        inflate_copy_long(w, p, size);
    }
}

#endif
