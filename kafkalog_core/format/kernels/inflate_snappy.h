/* Snappy, as the "Snappy compressed format description" of its authors tells it, raw or in the block stream of xerial's
   snappy-java: a header, then blocks behind their size.

   A body starts with the size of its content as a varint. Each element starts with a tag, whose low bits tell its kind:
   literals (0), or a copy of 4 to 11 bytes from up to 2 KiB before (1), of up to 64 bytes from up to 64 KiB (2) or from
   anywhere before (3). */

#ifndef KAFKALOG_INFLATE_SNAPPY_H
#define KAFKALOG_INFLATE_SNAPPY_H

#include "inflate_copy.h"

/* Elements `p` to `end`, which must make exactly `size` bytes. Nothing from `readable` on is read, nothing from
   `writable` on is written; both may lie behind the ends. Returns whether they do. */
static int snappy_elements(const unsigned char *p, const unsigned char *end, const unsigned char *readable,
    unsigned char *out, size_t size, const unsigned char *writable)
{
    unsigned char *w = out;
    const unsigned char *full = out + size;
    /* Before these a short element needs no look at any end. */
    const unsigned char *easy_in = p, *easy_out = out;
    if (end - p > 72)
        easy_in = end - 72;
    if (size > 80)
        easy_out = full - 80;
    for (;;) {
        size_t length, distance;
        unsigned tag, kind;
        while (p < easy_in && w < easy_out) {
            tag = *p;
            kind = tag & 3;
            if (kind == 0) {
                length = (tag >> 2) + 1;
                inflate_copy16(w, p + 1);
                if (__builtin_expect(length > 16, 0)) {
                    if (length > 60)
                        break;
                    inflate_copy16(w + 16, p + 17);
                    inflate_copy16(w + 32, p + 33);
                    inflate_copy16(w + 48, p + 49);
                }
                p += length + 1;
                w += length;
                continue;
            }
            if (__builtin_expect(kind == 3, 0))
                break;
            {
                size_t field = inflate_load16(p + 1), near = 0 - (size_t)(kind & 1);
                distance = (field & (0xFFFF >> (near & 8))) | (near & (size_t)(tag & 0xE0) << 3);
                length = (near & ((tag >> 2 & 7) + 4)) | (~near & ((tag >> 2) + 1));
            }
            p += kind + 1;
            if (__builtin_expect(distance < 16 || distance > (size_t)(w - out), 0)) {
                if (distance == 0 || distance > (size_t)(w - out))
                    return 0;
                inflate_match(w, distance, length, writable);
            } else {
                inflate_copy16(w, w - distance);
                if (length > 16) {
                    inflate_copy16(w + 16, w + 16 - distance);
                    inflate_copy16(w + 32, w + 32 - distance);
                    inflate_copy16(w + 48, w + 48 - distance);
                }
            }
            w += length;
        }
        if (p == end)
            return w == full;
        tag = *p++;
        kind = tag & 3;
        length = (tag >> 2) + 1;
        if (kind == 0) {
            if (length > 62) /* literals of more than 64 KiB: no writer has such blocks */
                return 0;
            if (length > 60) {
                size_t more = length - 60;
                if ((size_t)(end - p) < more)
                    return 0;
                length = (more == 1 ? p[0] : inflate_load16(p)) + 1;
                p += more;
            }
            if (length > (size_t)(end - p) || length > (size_t)(full - w))
                return 0;
            inflate_literals(w, p, length, writable, readable);
            p += length;
        } else {
            size_t more = kind == 3 ? 4 : kind;
            if ((size_t)(end - p) < more)
                return 0;
            if (kind == 1) {
                distance = (size_t)(tag & 0xE0) << 3 | p[0];
                length = (tag >> 2 & 7) + 4;
            } else {
                distance = kind == 2 ? inflate_load16(p) : inflate_load32(p);
            }
            p += more;
            if (distance == 0 || distance > (size_t)(w - out) || length > (size_t)(full - w))
                return 0;
            inflate_match(w, distance, length, writable);
        }
        w += length;
    }
}

/* One body and the size of its content, `most` bytes or less. */
static ptrdiff_t snappy_body(const unsigned char *p, const unsigned char *end, const unsigned char *readable,
    unsigned char *out, size_t most, const unsigned char *writable)
{
    size_t size = 0;
    for (int shift = 0;; shift += 7) {
        unsigned byte;
        if (p == end || shift > 21)
            return INFLATE_ODD;
        byte = *p++;
        size |= (size_t)(byte & 127) << shift;
        if (byte < 128) {
            if (byte == 0 && shift > 0)
                return INFLATE_ODD;
            break;
        }
    }
    if (size > most)
        return INFLATE_ROOM;
    return snappy_elements(p, end, readable, out, size, writable) ? (ptrdiff_t)size : INFLATE_ODD;
}

#define SNAPPY_MAGIC_SIZE 8
#define SNAPPY_HEADER_SIZE 16

/* The content of a whole payload, `most` bytes or less, and its size. */
static ptrdiff_t inflate_snappy(const unsigned char *p, size_t size, const unsigned char *readable, unsigned char *out,
    size_t most, const unsigned char *writable)
{
    /* Version 1, which is compatible with version 1: snappy-java has written no other. */
    static const unsigned char header[SNAPPY_HEADER_SIZE] = "\x82SNAPPY\0\0\0\0\1\0\0\0\1";
    const unsigned char *end = p + size;
    unsigned char *w = out;
    if (size < SNAPPY_MAGIC_SIZE || memcmp(p, header, SNAPPY_MAGIC_SIZE) != 0)
        return snappy_body(p, end, readable, out, most, writable);
    if (size < SNAPPY_HEADER_SIZE || memcmp(p, header, SNAPPY_HEADER_SIZE) != 0)
        return INFLATE_ODD;
    p += SNAPPY_HEADER_SIZE;
    for (int parts = 0; p < end; parts++) {
        ptrdiff_t written;
        size_t block_size;
        if (end - p < 4 || parts == INFLATE_MAX_PARTS)
            return INFLATE_ODD;
        block_size = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
        p += 4;
        if (block_size > (size_t)(end - p))
            return INFLATE_ODD;
        written = snappy_body(p, p + block_size, readable, w, most - (size_t)(w - out), writable);
        if (written < 0)
            return written;
        p += block_size;
        w += written;
    }
    return w - out;
}

#endif
