cdef extern from "inflate_lz4.h":
    Py_ssize_t inflate_lz4(
        const unsigned char *p, size_t size, const unsigned char *readable,
        unsigned char *out, size_t most, const unsigned char *writable, bint is_excused
    ) noexcept nogil
