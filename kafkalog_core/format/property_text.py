"""Writing the property files: partition.metadata whole, meta.properties mended so that good lines keep their bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.format.checkpoint_text import LineEdit
from kafkalog_core.format.properties import logical_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["encode_meta_properties", "encode_partition_metadata", "mend_meta_properties"]

_LINE_END: Final = "\n"
_ENDS: Final = b"\r\n"


def encode_partition_metadata(topic_id: str) -> bytes:
    """All bytes of a partition.metadata; a broker writes no line end behind the id."""
    return f"version: 0\ntopic_id: {topic_id}".encode("ascii")


def encode_meta_properties(properties: Iterable[tuple[str, str]]) -> bytes:
    """All bytes of a meta.properties; the comment has no date, as a broker's has."""
    return "".join(f"{line}{_LINE_END}" for line in ("#", *(f"{key}={value}" for key, value in properties))).encode(
        "ascii"
    )


def mend_meta_properties(
    data: bytes, bad_lines: Mapping[int, str], new: Mapping[str, tuple[str, str]]
) -> tuple[bytes, tuple[LineEdit, ...]]:
    """The file without its bad lines and with new keys behind the others, and the lines that are other ones.

    Args:
        data: the whole file.
        bad_lines: numbers of the lines that go, a continued one by its first line, and why.
        new: values of the keys that are added, and why.
    """
    edits: list[LineEdit] = []
    content, position = bytearray(), 0
    for line, _ in logical_lines(data):
        if line.number in bad_lines:
            content += data[position : line.position]
            position = line.position + line.size_bytes
            old = line.data.rstrip(_ENDS).decode("utf-8", "backslashreplace")
            edits.append(LineEdit(line.number, old, None, bad_lines[line.number]))
    content += data[position:]
    if new and content and content[-1] not in _ENDS:
        content += _LINE_END.encode("ascii")
    for key, (value, problem) in new.items():
        content += f"{key}={value}{_LINE_END}".encode("ascii")
        edits.append(LineEdit(None, None, f"{key}={value}", problem))
    return bytes(content), tuple(edits)
