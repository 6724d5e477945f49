from array import array

def pack_lz4(
    data: bytes | bytearray | memoryview, table: array[int], output: bytearray | memoryview, form: int
) -> int: ...
