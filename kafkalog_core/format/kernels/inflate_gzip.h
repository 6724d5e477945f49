/* gzip (RFC 1952) of one member without optional fields, and in it DEFLATE (RFC 1951).

   Codes are looked up in tables by the next bits of the stream: a main table for codes of up to as many bits as it has,
   and behind it smaller ones for what follows the first bits of longer codes. A code table that is not complete, as no
   compressor makes it, is not vouched for; but for the one distance of a block that has no other. */

#ifndef KAFKALOG_INFLATE_GZIP_H
#define KAFKALOG_INFLATE_GZIP_H

#include "inflate_copy.h"
#include "short_crc.h"

#define DEFLATE_MAX_BITS 15
#define DEFLATE_SYMBOLS 288      /* of literals and lengths; the last two are never used */
#define DEFLATE_END_OF_BLOCK 256
#define DEFLATE_DISTANCES 32     /* the last two are never used */
#define DEFLATE_SIZES 19         /* symbols of the code that codes' lengths are in */
#define DEFLATE_SIZES_BITS 7
#define DEFLATE_MAIN_BITS 11     /* of the table for literals and lengths */
#define DEFLATE_NEAR_BITS 8      /* of the table for distances */

/* The most entries of a table: a smaller one stands for two symbols at least. */
#define DEFLATE_TABLE(symbols, bits) ((1 << (bits)) + (symbols) / 2 * (1 << (DEFLATE_MAX_BITS - (bits))))

/* Entries: bits to take (0-7), those of the code alone (8-12), what it is (13-15), and its value (16-31): the literal,
   the least length or distance, to which the other bits are added, or where in the table a smaller one starts. */
#define DEFLATE_LITERAL 0x2000u
#define DEFLATE_OTHER 0x4000u /* the end of a block, or no symbol */
#define DEFLATE_TABLE_FOLLOWS 0x8000u
#define DEFLATE_VALUE(entry) ((entry) >> 16)
#define DEFLATE_TAKEN(entry) ((entry) & 255)

typedef struct {
    uint32_t literals[DEFLATE_TABLE(DEFLATE_SYMBOLS, DEFLATE_MAIN_BITS)];
    uint32_t distances[DEFLATE_TABLE(DEFLATE_DISTANCES, DEFLATE_NEAR_BITS)];
    unsigned literal_bits, distance_bits;
} deflate_code;

static uint32_t deflate_symbols[DEFLATE_SYMBOLS], deflate_distances[DEFLATE_DISTANCES], deflate_sizes[DEFLATE_SIZES];
static deflate_code deflate_fixed;

/* The code behind one of so many bits; both have their first bit lowest. */
static inline uint32_t deflate_next(uint32_t code, unsigned bits)
{
    uint32_t bit = (uint32_t)1 << (bits - 1);
    while (code & bit)
        bit >>= 1;
    return (code & (bit - 1)) | bit;
}

/* The table of a code, of up to `most` bits, from the lengths of its symbols' codes; `entries` lack those. Returns how
   many bits the table has, 0 where the code is not complete.

   Codes count up within a length and on into the next one. A table grows with the lengths: that for one bit more is
   itself twice over, as the bit that it does not know comes last. */
static unsigned deflate_table(
    uint32_t *table, unsigned most, const unsigned char *lengths, unsigned count, const uint32_t *entries)
{
    unsigned counts[DEFLATE_MAX_BITS + 1] = {0}, starts[DEFLATE_MAX_BITS + 1];
    unsigned longest = DEFLATE_MAX_BITS, bits, smaller_bits = 0;
    uint16_t sorted[DEFLATE_SYMBOLS];
    const uint16_t *next = sorted;
    int left = 1; /* codes of a length that no symbol has, nor any that is the start of them */
    uint32_t code = 0, end, smaller = 0, prefix = ~0u;
    for (unsigned symbol = 0; symbol < count; symbol++)
        counts[lengths[symbol]]++;
    while (longest > 0 && counts[longest] == 0)
        longest--;
    counts[0] = starts[0] = 0;
    for (bits = 1; bits <= longest; bits++) {
        left = 2 * left - (int)counts[bits];
        if (left < 0)
            return 0;
        starts[bits] = starts[bits - 1] + counts[bits - 1];
    }
    if (left > 0 || longest == 0)
        return 0;
    for (unsigned symbol = 0; symbol < count; symbol++)
        if (lengths[symbol])
            sorted[starts[lengths[symbol]]++] = (uint16_t)symbol;
    if (most > longest)
        most = longest;
    for (bits = 1, end = 2;; bits++, end *= 2) {
        for (unsigned i = counts[bits]; i > 0; i--) {
            table[code] = entries[*next++] + bits * 0x101;
            code = deflate_next(code, bits);
        }
        if (bits == most)
            break;
        memcpy(table + end, table, end * sizeof *table);
    }
    for (bits++; bits <= longest; bits++) {
        for (unsigned i = counts[bits]; i > 0; i--) {
            uint32_t entry = entries[*next++] + (bits - most) * 0x101;
            if ((code & (((uint32_t)1 << most) - 1)) != prefix) {
                uint32_t used = i; /* codes of this length; as many of the next one as all of them take there */
                prefix = code & (((uint32_t)1 << most) - 1);
                smaller = end;
                smaller_bits = bits - most;
                while (used < (uint32_t)1 << smaller_bits) {
                    smaller_bits++;
                    used = 2 * used + counts[most + smaller_bits];
                }
                end += (uint32_t)1 << smaller_bits;
                table[prefix] = smaller << 16 | DEFLATE_TABLE_FOLLOWS | smaller_bits << 8 | most;
            }
            for (uint32_t at = code >> most; at < (uint32_t)1 << smaller_bits; at += (uint32_t)1 << (bits - most))
                table[smaller + at] = entry;
            code = deflate_next(code, bits);
        }
    }
    return most;
}

__attribute__((constructor)) static void deflate_prepare(void)
{
    static const unsigned char extra_of_lengths[28] = {
        0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5};
    unsigned char lengths[DEFLATE_SYMBOLS];
    uint32_t value = 3;
    for (uint32_t symbol = 0; symbol < 256; symbol++)
        deflate_symbols[symbol] = symbol << 16 | DEFLATE_LITERAL;
    deflate_symbols[DEFLATE_END_OF_BLOCK] = 1 << 16 | DEFLATE_OTHER;
    for (int i = 0; i < 28; i++) {
        deflate_symbols[257 + i] = value << 16 | extra_of_lengths[i];
        value += (uint32_t)1 << extra_of_lengths[i];
    }
    deflate_symbols[285] = 258 << 16;
    deflate_symbols[286] = deflate_symbols[287] = DEFLATE_OTHER;
    value = 1;
    for (uint32_t symbol = 0; symbol < 30; symbol++) {
        uint32_t extra = symbol < 4 ? 0 : symbol / 2 - 1;
        deflate_distances[symbol] = value << 16 | extra;
        value += (uint32_t)1 << extra;
    }
    deflate_distances[30] = deflate_distances[31] = DEFLATE_OTHER;
    for (uint32_t symbol = 0; symbol < DEFLATE_SIZES; symbol++)
        deflate_sizes[symbol] = symbol << 16;
    for (int symbol = 0; symbol < DEFLATE_SYMBOLS; symbol++)
        lengths[symbol] = symbol < 144 ? 8 : symbol < 256 ? 9 : symbol < 280 ? 7 : 8;
    deflate_fixed.literal_bits =
        deflate_table(deflate_fixed.literals, DEFLATE_MAIN_BITS, lengths, DEFLATE_SYMBOLS, deflate_symbols);
    memset(lengths, 5, DEFLATE_DISTANCES);
    deflate_fixed.distance_bits =
        deflate_table(deflate_fixed.distances, DEFLATE_NEAR_BITS, lengths, DEFLATE_DISTANCES, deflate_distances);
}

/* The stream: `held` has its next bits, the first one lowest. Of those above `bits` of them some may be there already;
   they are the same ones that are loaded again. */
typedef struct {
    const unsigned char *p, *readable;
    uint64_t held;
    unsigned bits;
    int is_over; /* more was asked for than there is */
} deflate_stream;

static inline uint64_t deflate_word(const unsigned char *p)
{
    return crc_word(p);
}

/* Makes 56 bits or more of it. */
static inline void deflate_fill(deflate_stream *s)
{
    if (s->readable - s->p >= 8) {
        s->held |= deflate_word(s->p) << s->bits;
        s->p += (63 - s->bits) >> 3;
        s->bits |= 56;
        return;
    }
    if (s->bits < 56)
        s->held &= ((uint64_t)1 << s->bits) - 1;
    while (s->bits < 56) {
        if (s->p < s->readable)
            s->held |= (uint64_t)*s->p++ << s->bits;
        else
            s->is_over = 1;
        s->bits += 8;
    }
}

static inline unsigned deflate_take(deflate_stream *s, unsigned bits)
{
    unsigned value = (unsigned)s->held & ((1u << bits) - 1);
    s->held >>= bits;
    s->bits -= bits;
    return value;
}

/* The tables of a block that brings its own code; returns whether they are good. */
static int deflate_read_code(deflate_stream *s, deflate_code *code)
{
    static const unsigned char order[DEFLATE_SIZES] = {
        16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    uint32_t sizes[1 << DEFLATE_SIZES_BITS];
    unsigned char lengths[DEFLATE_SYMBOLS + DEFLATE_DISTANCES + 138];
    unsigned literals, distances, count, mask, at = 0;
    deflate_fill(s);
    literals = deflate_take(s, 5) + 257;
    distances = deflate_take(s, 5) + 1;
    count = deflate_take(s, 4) + 4;
    if (literals > 286 || distances > 30)
        return 0;
    memset(lengths, 0, DEFLATE_SIZES);
    for (unsigned i = 0; i < count; i++) {
        if (i % 14 == 0)
            deflate_fill(s);
        lengths[order[i]] = (unsigned char)deflate_take(s, 3);
    }
    mask = deflate_table(sizes, DEFLATE_SIZES_BITS, lengths, DEFLATE_SIZES, deflate_sizes);
    if (mask == 0)
        return 0;
    mask = (1u << mask) - 1;
    while (at < literals + distances) {
        uint32_t entry;
        unsigned symbol, repeat;
        unsigned char length = 0;
        deflate_fill(s);
        entry = sizes[s->held & mask];
        symbol = DEFLATE_VALUE(entry);
        deflate_take(s, DEFLATE_TAKEN(entry));
        if (symbol < 16) {
            lengths[at++] = (unsigned char)symbol;
            continue;
        }
        if (symbol == 16) {
            if (at == 0)
                return 0;
            length = lengths[at - 1];
            repeat = 3 + deflate_take(s, 2);
        } else {
            repeat = symbol == 17 ? 3 + deflate_take(s, 3) : 11 + deflate_take(s, 7);
        }
        memset(lengths + at, length, repeat);
        at += repeat;
    }
    if (at != literals + distances || lengths[DEFLATE_END_OF_BLOCK] == 0 || s->is_over)
        return 0;
    code->distance_bits =
        deflate_table(code->distances, DEFLATE_NEAR_BITS, lengths + literals, distances, deflate_distances);
    if (code->distance_bits == 0) {
        unsigned only = 0;
        for (unsigned i = 0; i < distances; i++) {
            if (lengths[literals + i] > 1 || (lengths[literals + i] && only))
                return 0;
            if (lengths[literals + i])
                only = i + 1;
        }
        if (!only)
            return 0;
        code->distances[0] = deflate_distances[only - 1] + 0x101;
        code->distances[1] = DEFLATE_OTHER;
        code->distance_bits = 1;
    }
    code->literal_bits = deflate_table(code->literals, DEFLATE_MAIN_BITS, lengths, literals, deflate_symbols);
    return code->literal_bits != 0;
}

/* A block of symbols up to its end. Returns the byte behind what it makes, `full` at most; NULL where it is odd. */
static unsigned char *deflate_block(deflate_stream *s, const deflate_code *code, const unsigned char *out,
    unsigned char *w, const unsigned char *full, const unsigned char *writable)
{
    const uint32_t *literals = code->literals, *distances = code->distances;
    const uint32_t literal_mask = ((uint32_t)1 << code->literal_bits) - 1;
    const uint32_t distance_mask = ((uint32_t)1 << code->distance_bits) - 1;
    /* Before these a turn of the loop needs no look at any end: it takes less than 16 bytes and makes less than 300. */
    const unsigned char *easy_in = s->readable - s->p > 32 ? s->readable - 32 : s->p;
    const unsigned char *easy_out = writable - w > 300 ? writable - 300 : w;
    const unsigned char *p = s->p;
    uint64_t held = s->held;
    unsigned bits = s->bits;
    uint32_t entry;
    size_t length, distance;
    if (easy_out > full)
        easy_out = full;
#define DEFLATE_FILL() (held |= deflate_word(p) << bits, p += (63 - bits) >> 3, bits |= 56)
#define DEFLATE_TAKE(entry) (held >>= DEFLATE_TAKEN(entry) & 63, bits -= DEFLATE_TAKEN(entry))
    if (p < easy_in && w < easy_out) {
        /* Each entry is looked up before more bits are loaded, as that takes time. */
        DEFLATE_FILL();
        entry = literals[held & literal_mask];
        do {
            uint32_t near;
            uint64_t before;
            if (entry & DEFLATE_LITERAL) {
                DEFLATE_TAKE(entry);
                *w++ = (unsigned char)DEFLATE_VALUE(entry);
                entry = literals[held & literal_mask];
                if (entry & DEFLATE_LITERAL) {
                    DEFLATE_TAKE(entry);
                    *w++ = (unsigned char)DEFLATE_VALUE(entry);
                    entry = literals[held & literal_mask];
                    if (entry & DEFLATE_LITERAL) {
                        DEFLATE_TAKE(entry);
                        *w++ = (unsigned char)DEFLATE_VALUE(entry);
                        entry = literals[held & literal_mask];
                        DEFLATE_FILL();
                        continue;
                    }
                }
            }
            if (__builtin_expect((entry & (DEFLATE_OTHER | DEFLATE_TABLE_FOLLOWS)) != 0, 0)) {
                if (entry & DEFLATE_TABLE_FOLLOWS) {
                    DEFLATE_TAKE(entry);
                    entry = literals[DEFLATE_VALUE(entry) + (held & (((uint32_t)1 << (entry >> 8 & 31)) - 1))];
                }
                if (entry & DEFLATE_LITERAL) {
                    DEFLATE_TAKE(entry);
                    *w++ = (unsigned char)DEFLATE_VALUE(entry);
                    entry = literals[held & literal_mask];
                    DEFLATE_FILL();
                    continue;
                }
                if (entry & DEFLATE_OTHER) {
                    DEFLATE_TAKE(entry);
                    s->p = p;
                    s->held = held;
                    s->bits = bits;
                    return DEFLATE_VALUE(entry) && w <= full ? w : NULL;
                }
            }
            before = held;
            DEFLATE_TAKE(entry);
            near = distances[held & distance_mask];
            DEFLATE_FILL();
            length = DEFLATE_VALUE(entry)
                + (size_t)((before & (((uint64_t)1 << DEFLATE_TAKEN(entry)) - 1)) >> (entry >> 8 & 31));
            if (__builtin_expect((near & (DEFLATE_OTHER | DEFLATE_TABLE_FOLLOWS)) != 0, 0)) {
                if (near & DEFLATE_OTHER)
                    return NULL;
                DEFLATE_TAKE(near);
                near = distances[DEFLATE_VALUE(near) + (held & (((uint32_t)1 << (near >> 8 & 31)) - 1))];
                if (near & DEFLATE_OTHER)
                    return NULL;
            }
            before = held;
            DEFLATE_TAKE(near);
            entry = literals[held & literal_mask];
            DEFLATE_FILL();
            distance = DEFLATE_VALUE(near)
                + (size_t)((before & (((uint64_t)1 << DEFLATE_TAKEN(near)) - 1)) >> (near >> 8 & 31));
            if (distance > (size_t)(w - out))
                return NULL;
            if (__builtin_expect(distance >= 16, 1)) {
                inflate_copy16(w, w - distance);
                inflate_copy16(w + 16, w + 16 - distance);
                if (__builtin_expect(length > 32, 0))
                    inflate_copy_long(w + 32, w + 32 - distance, length - 32);
            } else {
                inflate_repeat(w, distance, length);
            }
            w += length;
        } while (p < easy_in && w < easy_out);
    }
    s->p = p;
    s->held = held;
    s->bits = bits;
    for (;;) {
        deflate_fill(s);
        if (s->is_over)
            return NULL;
        entry = literals[s->held & literal_mask];
        if (entry & DEFLATE_TABLE_FOLLOWS) {
            deflate_take(s, DEFLATE_TAKEN(entry));
            entry = literals[DEFLATE_VALUE(entry) + (s->held & (((uint32_t)1 << (entry >> 8 & 31)) - 1))];
        }
        if (entry & DEFLATE_OTHER) {
            deflate_take(s, DEFLATE_TAKEN(entry));
            return DEFLATE_VALUE(entry) && w <= full ? w : NULL;
        }
        if (w >= full)
            return NULL;
        deflate_take(s, entry >> 8 & 31);
        if (entry & DEFLATE_LITERAL) {
            *w++ = (unsigned char)DEFLATE_VALUE(entry);
            continue;
        }
        length = DEFLATE_VALUE(entry) + deflate_take(s, DEFLATE_TAKEN(entry) - (entry >> 8 & 31));
        deflate_fill(s);
        entry = distances[s->held & distance_mask];
        if (entry & DEFLATE_TABLE_FOLLOWS) {
            deflate_take(s, DEFLATE_TAKEN(entry));
            entry = distances[DEFLATE_VALUE(entry) + (s->held & (((uint32_t)1 << (entry >> 8 & 31)) - 1))];
        }
        if (entry & DEFLATE_OTHER)
            return NULL;
        deflate_take(s, entry >> 8 & 31);
        distance = DEFLATE_VALUE(entry) + deflate_take(s, DEFLATE_TAKEN(entry) - (entry >> 8 & 31));
        if (distance > (size_t)(w - out) || length > (size_t)(full - w))
            return NULL;
        inflate_match(w, distance, length, writable);
        w += length;
    }
}

/* A block that is as it is. */
static unsigned char *deflate_stored(deflate_stream *s, const unsigned char *end, unsigned char *w,
    const unsigned char *full, const unsigned char *writable)
{
    const unsigned char *p = s->p - (s->bits >> 3);
    size_t size;
    if (s->is_over || end - p < 4)
        return NULL;
    size = inflate_load16(p);
    if ((size ^ inflate_load16(p + 2)) != 0xFFFF || size > (size_t)(end - p) - 4 || size > (size_t)(full - w))
        return NULL;
    p += 4;
    inflate_literals(w, p, size, writable, s->readable);
    s->p = p + size;
    s->held = 0;
    s->bits = 0;
    return w + size;
}

#define GZIP_HEADER_SIZE 10
#define GZIP_TRAILER_SIZE 8

/* The content of a payload that is one member, `most` bytes or less, and its size. */
static ptrdiff_t inflate_gzip(const unsigned char *p, size_t size, const unsigned char *readable, unsigned char *out,
    size_t most, const unsigned char *writable)
{
    const unsigned char *end = p + size - GZIP_TRAILER_SIZE, *full;
    unsigned char *w = out;
    deflate_stream s;
    deflate_code own;
    unsigned is_last;
    if (size < GZIP_HEADER_SIZE + GZIP_TRAILER_SIZE || memcmp(p, "\x1F\x8B\x08\0", 4) != 0) /* no flag is set */
        return INFLATE_ODD;
    if (inflate_load32(end + 4) > most)
        return INFLATE_ROOM;
    full = out + inflate_load32(end + 4);
    s = (deflate_stream){p + GZIP_HEADER_SIZE, readable, 0, 0, 0};
    do {
        unsigned kind;
        if (s.p - (s.bits >> 3) > end)
            return INFLATE_ODD;
        deflate_fill(&s);
        is_last = deflate_take(&s, 1);
        kind = deflate_take(&s, 2);
        if (kind == 0) {
            deflate_take(&s, s.bits & 7);
            w = deflate_stored(&s, end, w, full, writable);
        } else if (kind == 1) {
            w = deflate_block(&s, &deflate_fixed, out, w, full, writable);
        } else if (kind == 2 && deflate_read_code(&s, &own)) {
            w = deflate_block(&s, &own, out, w, full, writable);
        } else {
            return INFLATE_ODD;
        }
        if (w == NULL)
            return INFLATE_ODD;
    } while (!is_last);
    if (s.is_over || s.p - (s.bits >> 3) != end || w != full)
        return INFLATE_ODD;
    if (short_crc32(out, (size_t)(w - out)) != inflate_load32(end))
        return INFLATE_ODD;
    return w - out;
}

#endif
