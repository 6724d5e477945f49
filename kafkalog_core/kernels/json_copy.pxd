cdef extern from "json_copy.h":
    const int JSON_ESCAPES
    const int JSON_NO_TEXT
    Py_ssize_t json_integer(long long value, unsigned char *w) noexcept nogil
    int (*json_copy)(const unsigned char *p, size_t size, unsigned char *w) noexcept nogil
    size_t (*json_copy_escaped)(const unsigned char *p, size_t size, unsigned char *w) noexcept nogil
    Py_ssize_t (*csv_copy)(const unsigned char *p, size_t size, unsigned char *w) noexcept nogil
