cdef extern from "short_crc.h":
    long long short_crc32(const unsigned char *p, size_t size) noexcept nogil
    long long short_crc32c(const unsigned char *p, size_t size) noexcept nogil
    const Py_ssize_t short_crc32_bytes
    const Py_ssize_t short_crc32c_bytes
