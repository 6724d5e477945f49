"""Fingerprints of files: which bytes they cover, what is not read, and what is no file of a broker's."""

from __future__ import annotations

import errno
import hashlib
import os
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import AccessError
from kafkalog_core.storage.changing.changes import (
    Fingerprint,
    fingerprint,
    fingerprint_of_bytes,
    fingerprint_start,
    pieces,
    status_of,
    whole_hash,
)
from kafkalog_core.storage.source import Source, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MIB = 1024 * 1024
BLOCK = 4096
WHOLE = 16 * MIB


def sha(*content: bytes) -> str:
    return hashlib.sha256(b"".join(content)).hexdigest()


def zeros_but(content: dict[int, bytes], size_bytes: int) -> bytes:
    whole = bytearray(size_bytes)
    for position, part in content.items():
        whole[position : position + len(part)] = part
    return bytes(whole)


@pytest.mark.parametrize("size_bytes", [0, 1, MIB, 2 * MIB + 1])
def test_all_of_a_file_of_ordinary_size_is_hashed(tmp_path: Path, size_bytes: int) -> None:
    path, content = tmp_path / "x", b"abcdefg" * (size_bytes // 7 + 1)
    path.write_bytes(content[:size_bytes])
    status = path.stat()
    hashed = sha(content[:size_bytes])
    assert fingerprint(str(path)) == Fingerprint(size_bytes, status.st_mtime_ns, hashed)
    assert fingerprint_of_bytes(content[:size_bytes], 7) == Fingerprint(size_bytes, 7, hashed)
    assert whole_hash(str(path)) == hashed


def test_journals_of_all_releases_agree_from_which_size_on_only_the_ends_are_hashed(tmp_path: Path) -> None:
    """A journal keeps fingerprints; the release that undoes the run computes them again."""
    path = tmp_path / "x"
    content = zeros_but({MIB - 1: b"ab", WHOLE // 2: b"c", WHOLE - MIB: b"de"}, WHOLE + 1)
    path.write_bytes(content)
    ends = sha(content[:MIB], content[-MIB:])
    assert fingerprint_start(str(path), WHOLE + 1, 7) == Fingerprint(WHOLE + 1, 7, ends)
    assert fingerprint_of_bytes(content, 7).sha256 == ends
    assert fingerprint_start(str(path), WHOLE, 7) == Fingerprint(WHOLE, 7, sha(content[:WHOLE]))


def test_the_fingerprint_of_the_first_bytes_is_that_of_a_file_that_ends_there(tmp_path: Path) -> None:
    path, content = tmp_path / "x", b"0123456789" * (MIB // 4)
    path.write_bytes(content)
    for size_bytes in (0, 1, MIB - 1, MIB, MIB + 1, len(content)):
        assert fingerprint_start(str(path), size_bytes, 7) == fingerprint_of_bytes(content[:size_bytes], 7)


def test_pieces_are_exactly_the_bytes_that_were_asked_for(tmp_path: Path) -> None:
    path, content = tmp_path / "x", b"0123456789" * (MIB // 4)
    path.write_bytes(content)
    for start, end in ((0, None), (3, None), (3, 10), (10, 10), (MIB - 1, MIB + 1), (5, 2 * MIB + 5), (MIB, None)):
        got = b"".join(bytes(piece) for piece in pieces(str(path), start, end))
        assert got == content[start:end], (start, end)


def test_a_file_that_ends_before_the_end_that_was_asked_for_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(30))
    with pytest.raises(UnreadableError) as caught:
        list(pieces(str(path), 10, 50))
    assert (caught.value.position, caught.value.size_bytes, caught.value.path) == (30, 20, str(path))
    with pytest.raises(UnreadableError):
        fingerprint_start(str(path), 31, 0)


@pytest.fixture
def broken_from(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Let the disk be unable to read a range of bytes, of whole blocks."""

    def break_disk(first: int, end: int) -> None:
        def pread(self: Source, target: memoryview, position: int) -> int:
            if first <= position < end:
                raise OSError(errno.EIO, "eio")
            if position < first:
                target = target[: first - position]
            return really(self, target, position)

        really = Source._pread
        monkeypatch.setattr(Source, "_pread", pread)

    return break_disk


def test_bytes_that_the_disk_cannot_read_are_a_part_of_the_fingerprint_and_those_after_them_are_too(
    tmp_path: Path, broken_from: Callable[[int, int], None]
) -> None:
    """A log with a bad sector can be repaired, and what is around the sector must not change meanwhile."""
    path, content = tmp_path / "x", b"ab" * (2 * BLOCK)
    path.write_bytes(content)
    broken_from(BLOCK, 2 * BLOCK)
    before = fingerprint(str(path))
    assert before is not None
    assert before.sha256 == sha(content[:BLOCK], f"unreadable {BLOCK} {BLOCK}".encode(), content[2 * BLOCK :])
    assert fingerprint(str(path)) == before
    with pytest.raises(UnreadableError):
        whole_hash(str(path))
    for changed in (0, len(content) - 1):
        other = bytearray(content)
        other[changed] ^= 1
        path.write_bytes(other)
        assert fingerprint_start(str(path), len(content), before.mtime_ns) != before


def test_only_a_regular_file_is_changed(tmp_path: Path) -> None:
    file, link, fifo = tmp_path / "file", tmp_path / "link", tmp_path / "fifo"
    file.touch()
    link.symlink_to(file)
    os.mkfifo(fifo)
    status = status_of(str(file))
    assert status is not None
    assert os.path.samestat(status, file.stat())
    for path, problem in (
        (link, "is a symbolic link, which kafkalog does not follow to change a file; put the file itself here"),
        (tmp_path, "is not a regular file, and is not changed; move it out of this directory first"),
        (fifo, "is not a regular file, and is not changed; move it out of this directory first"),
    ):
        for look in (status_of, fingerprint):
            with pytest.raises(AccessError) as caught:
                look(str(path))
            assert str(caught.value) == f"{path}: {problem}"
    assert status_of(str(tmp_path / "none")) is None
    assert fingerprint(str(tmp_path / "none")) is None
