cdef extern from "inflate_gzip.h":
    Py_ssize_t inflate_gzip(
        const unsigned char *p, size_t size, const unsigned char *readable,
        unsigned char *out, size_t most, const unsigned char *writable
    ) noexcept nogil
