cdef extern from "find_bytes.h":
    ctypedef struct find_literal:
        const unsigned char *text
        const unsigned char *mask
        Py_ssize_t size
        Py_ssize_t first
        Py_ssize_t second
    bint find_bytes(const unsigned char *p, Py_ssize_t size, Py_ssize_t room, const find_literal *literal) noexcept nogil
