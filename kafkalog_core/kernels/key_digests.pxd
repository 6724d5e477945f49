cdef extern from "key_digests.h":
    void (*key_digests)(
        const unsigned char *p, const long long *starts, const long long *sizes, size_t count, long long *digests
    ) noexcept nogil
    void key_fetch(
        const long long *table, unsigned long long slots, const long long *digests, size_t count
    ) noexcept nogil
