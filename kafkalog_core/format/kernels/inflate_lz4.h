/* LZ4 frames, as the "LZ4 Frame Format Description" (1.6) and the "LZ4 Block Format Description" of its authors tell
   them, for payloads of batches: independent blocks, no dictionary; xxHash32 by Collet's specification of it.

   A block is a run of sequences: a token (length of the literals, length of the match), literals, the match's offset;
   lengths of 15 go on in further bytes. The last one has literals alone. As in the library, a match must not start
   within the last 8 bytes of input that its literals end in, nor end within the last 5 bytes that a block may hold:
   what breaks these rules of a block's end is not vouched for, nor is anything else out of the ordinary. */

#ifndef KAFKALOG_INFLATE_LZ4_H
#define KAFKALOG_INFLATE_LZ4_H

#include "inflate_copy.h"

#define LZ4_LAST_INPUT 8    /* of a block: no literals that a match follows end in these */
#define LZ4_LAST_LITERALS 5 /* that a block may hold: no match ends in these */
#define LZ4_MATCH_MARGIN 12 /* that a block may hold: no match starts in these */
#define LZ4_MIN_MATCH 4
#define LZ4_STORED 0x80000000u /* of the field before a block: it is as it is */

/* Adds bytes of a length to it, up to one that is not 255; returns the byte behind them, NULL at the end of input. */
static inline const unsigned char *lz4_length(const unsigned char *p, const unsigned char *end, size_t *length)
{
    unsigned char byte;
    do {
        if (p == end)
            return NULL;
        byte = *p++;
        *length += byte;
    } while (byte == 255);
    return p;
}

/* The content of the block `p` to `end`, `most` bytes or less, and its size; `over` where it is more. Nothing from
   `readable` on is read, nothing from `writable` on is written; both may lie behind the ends. */
static ptrdiff_t lz4_block(const unsigned char *p, const unsigned char *end, const unsigned char *readable,
    unsigned char *out, size_t most, const unsigned char *writable, ptrdiff_t over)
{
    unsigned char *w = out;
    const unsigned char *full = out + most;
    /* Before these a sequence without long lengths needs no look at any end. */
    const unsigned char *easy_in = p, *easy_out = out;
    size_t literals, match, distance;
    unsigned token;
    if (end - p > 96)
        easy_in = end - 96;
    if (full - out > 128)
        easy_out = full - 128;
    for (;;) {
        while (p < easy_in && w < easy_out) {
            token = *p++;
            literals = token >> 4;
            match = (token & 15) + LZ4_MIN_MATCH;
            inflate_copy16(w, p);
            if (__builtin_expect(literals == 15, 0)) {
                if (*p > 64 - 15)
                    goto long_literals;
                literals += *p++;
                inflate_copy16(w, p);
                inflate_copy16(w + 16, p + 16);
                inflate_copy16(w + 32, p + 32);
                inflate_copy16(w + 48, p + 48);
            }
            p += literals;
            w += literals;
            distance = inflate_load16(p);
            p += 2;
            if (__builtin_expect(match == 15 + LZ4_MIN_MATCH || distance < 16 || distance > (size_t)(w - out), 0))
                goto match;
            inflate_copy16(w, w - distance);
            memcpy(w + 16, w - distance + 16, 2);
            w += match;
        }
        if (p == end)
            return INFLATE_ODD;
        token = *p++;
        literals = token >> 4;
        match = (token & 15) + LZ4_MIN_MATCH;
        if (literals == 15) {
        long_literals:
            p = lz4_length(p, end, &literals);
            if (p == NULL)
                return INFLATE_ODD;
        }
        if (literals > (size_t)(end - p))
            return INFLATE_ODD;
        if (literals > (size_t)(full - w))
            return over;
        inflate_literals(w, p, literals, writable, readable);
        p += literals;
        w += literals;
        if (p == end)
            return w - out;
        if (end - p < LZ4_LAST_INPUT)
            return INFLATE_ODD;
        if (full - w < LZ4_MATCH_MARGIN)
            return over;
        distance = inflate_load16(p);
        p += 2;
    match:
        if (match == 15 + LZ4_MIN_MATCH) {
            p = lz4_length(p, end, &match);
            if (p == NULL || end - p <= LZ4_LAST_LITERALS)
                return INFLATE_ODD;
        }
        if (distance == 0 || distance > (size_t)(w - out))
            return INFLATE_ODD;
        if (match + LZ4_LAST_LITERALS > (size_t)(full - w))
            return over;
        inflate_match(w, distance, match, writable);
        w += match;
    }
}

#define XXH32_PRIME_1 2654435761u
#define XXH32_PRIME_2 2246822519u
#define XXH32_PRIME_3 3266489917u
#define XXH32_PRIME_4 668265263u
#define XXH32_PRIME_5 374761393u

static inline uint32_t lz4_rotated(uint32_t value, int bits)
{
    return value << bits | value >> (32 - bits);
}

static inline uint32_t lz4_hash_round(uint32_t lane, const unsigned char *p)
{
    return lz4_rotated(lane + inflate_load32(p) * XXH32_PRIME_2, 13) * XXH32_PRIME_1;
}

/* xxHash32 with seed 0, the checksum of all that a frame verifies. */
static uint32_t lz4_hash(const unsigned char *p, size_t size)
{
    const unsigned char *end = p + size;
    uint32_t hash = XXH32_PRIME_5;
    if (size >= 16) {
        uint32_t a = XXH32_PRIME_1 + XXH32_PRIME_2, b = XXH32_PRIME_2, c = 0, d = 0 - XXH32_PRIME_1;
        for (; end - p >= 16; p += 16) {
            a = lz4_hash_round(a, p);
            b = lz4_hash_round(b, p + 4);
            c = lz4_hash_round(c, p + 8);
            d = lz4_hash_round(d, p + 12);
        }
        hash = lz4_rotated(a, 1) + lz4_rotated(b, 7) + lz4_rotated(c, 12) + lz4_rotated(d, 18);
    }
    hash += (uint32_t)size;
    for (; end - p >= 4; p += 4)
        hash = lz4_rotated(hash + inflate_load32(p) * XXH32_PRIME_3, 17) * XXH32_PRIME_4;
    for (; p < end; p++)
        hash = lz4_rotated(hash + *p * XXH32_PRIME_5, 11) * XXH32_PRIME_1;
    hash = (hash ^ hash >> 15) * XXH32_PRIME_2;
    hash = (hash ^ hash >> 13) * XXH32_PRIME_3;
    return hash ^ hash >> 16;
}

#define LZ4_FRAME_MAGIC 0x184D2204u
#define LZ4_VERSION_1_INDEPENDENT 0x60 /* all of FLG but for the three flags below */
#define LZ4_BLOCK_CHECKSUM 0x10
#define LZ4_CONTENT_SIZE 0x08
#define LZ4_CONTENT_CHECKSUM 0x04
#define LZ4_KNOWN_FLAGS 0x1Cu

/* The content of a payload that is one frame, `most` bytes or less, and its size. The checksum of the frame's header is
   wrong in magic 0 (KAFKA-3160), so there it `is_excused`; the other checksums are verified. */
static ptrdiff_t inflate_lz4(const unsigned char *p, size_t size, const unsigned char *readable, unsigned char *out,
    size_t most, const unsigned char *writable, int is_excused)
{
    const unsigned char *end = p + size, *descriptor = p + 4;
    unsigned char *w = out;
    unsigned flags;
    uint64_t content_size = 0;
    size_t block_most;
    if (size < 11 || inflate_load32(p) != LZ4_FRAME_MAGIC)
        return INFLATE_ODD;
    flags = p[4];
    if ((flags & ~LZ4_KNOWN_FLAGS) != LZ4_VERSION_1_INDEPENDENT)
        return INFLATE_ODD;
    if (p[5] & 0x8F || p[5] < 0x40) /* reserved bits; blocks of 64 KiB to 4 MiB */
        return INFLATE_ODD;
    block_most = (size_t)1 << (2 * (p[5] >> 4) + 8);
    p += 6;
    if (flags & LZ4_CONTENT_SIZE) {
        if (size < 19)
            return INFLATE_ODD;
        content_size = inflate_load32(p) | (uint64_t)inflate_load32(p + 4) << 32;
        p += 8;
    }
    if (!is_excused && (lz4_hash(descriptor, (size_t)(p - descriptor)) >> 8 & 255) != *p)
        return INFLATE_ODD;
    p++;
    for (int parts = 0;; parts++) {
        size_t block_size, room = most - (size_t)(w - out);
        ptrdiff_t written, over = room < block_most ? INFLATE_ROOM : INFLATE_ODD;
        const unsigned char *block;
        uint32_t field;
        if (end - p < 4)
            return INFLATE_ODD;
        field = inflate_load32(p);
        p += 4;
        if (field == 0)
            break;
        if (parts == INFLATE_MAX_PARTS)
            return INFLATE_ODD;
        block = p;
        block_size = field & ~LZ4_STORED;
        if (block_size > block_most || block_size > (size_t)(end - p))
            return INFLATE_ODD;
        p += block_size;
        if (flags & LZ4_BLOCK_CHECKSUM) {
            if (end - p < 4 || lz4_hash(block, block_size) != inflate_load32(p))
                return INFLATE_ODD;
            p += 4;
        }
        if (room > block_most)
            room = block_most;
        if (field & LZ4_STORED) {
            if (block_size > room)
                return over;
            inflate_literals(w, block, block_size, writable, readable);
            written = (ptrdiff_t)block_size;
        } else {
            written = lz4_block(block, block + block_size, readable, w, room, writable, over);
            if (written < 0)
                return written;
        }
        w += written;
    }
    if (flags & LZ4_CONTENT_CHECKSUM) {
        if (end - p < 4 || lz4_hash(out, (size_t)(w - out)) != inflate_load32(p))
            return INFLATE_ODD;
        p += 4;
    }
    if (p != end || (flags & LZ4_CONTENT_SIZE && content_size != (uint64_t)(w - out)))
        return INFLATE_ODD;
    return w - out;
}

#endif
