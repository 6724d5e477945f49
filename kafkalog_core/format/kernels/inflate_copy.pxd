cdef extern from "inflate_copy.h":
    const Py_ssize_t INFLATE_ODD
    const Py_ssize_t INFLATE_ROOM
