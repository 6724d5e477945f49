from array import array

def add_fault(
    faults: array[int],
    state: array[int],
    code: int,
    slot: int,
    first: int,
    second: int,
    position: int,
    base: int,
    last: int,
    held: int,
) -> None: ...
def set_good(state: array[int], slot: int, first: int, second: int) -> None: ...
def first_offset(s: array[int], cells: array[int], capacity: int, row: int) -> int: ...
