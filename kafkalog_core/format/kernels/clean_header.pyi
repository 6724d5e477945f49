from collections.abc import MutableSequence, Sequence

def put_header(
    output: memoryview, b: Sequence[int], capacity: int, k: Sequence[int], o: memoryview, s: MutableSequence[int]
) -> None: ...
