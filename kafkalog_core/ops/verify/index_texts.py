"""What is said of an index entry that is wrong: what it says, and what the log holds there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.format.kernels import constants as c

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CODES", "describe"]

CODES: Final = {
    c.FAULT_UNSORTED: "unsorted",
    c.FAULT_BASE: "before-base",
    c.FAULT_BEYOND: "beyond-log",
    c.FAULT_POSITION: "wrong-position",
    c.FAULT_OFFSET: "wrong-offset",
    c.FAULT_INSIDE: "wrong-offset",
    c.FAULT_REACH: "wrong-offset",
    c.FAULT_GAP: "wrong-offset",
    c.FAULT_TIME: "wrong-timestamp",
    c.FAULT_MAXIMUM: "wrong-timestamp",
}
"""The part of a finding's code behind the dot, by kind of fault."""


def describe(fault: list[int], *, is_time: bool) -> str:
    """A phrase about a row of faults: its entries, what the first of them says, what the log holds there."""
    slot, count = fault[c.F_SLOT], fault[c.F_COUNT]
    said = _said(fault[c.F_FIRST], fault[c.F_SECOND], is_time=is_time)
    who = f"entry {slot} says {said}"
    if count > 1:
        who = f"{count} in a row, entries {slot} to {slot + count - 1}, of which the first says {said}"
    return who + _HELD[fault[c.F_CODE]](fault, is_time)


def _said(first: int, second: int, *, is_time: bool) -> str:
    return f"timestamp {first} at offset {second}" if is_time else f"offset {first} at byte {second}"


def _batch(fault: list[int]) -> str:
    return f"the batch of offsets {fault[c.F_BASE]} to {fault[c.F_LAST]} at byte {fault[c.F_POSITION]}"


def _unsorted(fault: list[int], is_time: bool) -> str:
    if fault[c.F_GOOD] < 0:
        return ", which does not go with the entries behind it"
    good = _said(fault[c.F_GOOD_FIRST], fault[c.F_GOOD_SECOND], is_time=is_time)
    return f", between entry {fault[c.F_GOOD]} before it, which says {good}, and those behind it"


def _beyond(fault: list[int], _: bool) -> str:
    return f", and the log ends at byte {fault[c.F_POSITION]} with offset {fault[c.F_LAST]}"


def _position(fault: list[int], _: bool) -> str:
    if fault[c.F_POSITION] >= 0:
        return f", inside of {_batch(fault)}"
    if fault[c.F_SECOND] < 0:
        return ", where no file has a byte"
    return ", and the first batch of a segment is never indexed"


def _gap(fault: list[int], is_time: bool) -> str:
    return ", an offset that no batch holds" + ("" if is_time else f" between there and byte {fault[c.F_POSITION]}")


_HELD: Final[dict[int, Callable[[list[int], bool], str]]] = {
    c.FAULT_UNSORTED: _unsorted,
    c.FAULT_BASE: lambda *_: "",
    c.FAULT_BEYOND: _beyond,
    c.FAULT_POSITION: _position,
    c.FAULT_OFFSET: lambda fault, _: f", where {_batch(fault)} starts",
    c.FAULT_INSIDE: lambda fault, _: f", which is in the middle of {_batch(fault)}",
    c.FAULT_REACH: lambda fault, _: f", which is not before {_batch(fault)}, where the next entry is",
    c.FAULT_GAP: _gap,
    c.FAULT_TIME: lambda fault, _: f", where {_batch(fault)} has {fault[c.F_HELD]}",
    c.FAULT_MAXIMUM: lambda fault, _: f", and a batch before that has {fault[c.F_HELD]}",
}
