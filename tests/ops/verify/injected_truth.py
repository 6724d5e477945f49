"""What a damaged log directory gives away, by another hand: bytes in, the worst thing that they prove out.

Small logs of few kinds are judged here, so that this can be plain: it reads whole files, knows the healthy batches, and
asks of everything else whether a healthy broker may have left it so.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

from kafkalog_core.structs import replace
from tests.ops.verify.injected_entries import is_like_meant, is_offset_index, is_time_index, snapshot_entries
from tests.ops.verify.injected_log import Batch, Broker, Log, batches_of, states_at
from tests.support.build import snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["UNSURE", "Directory", "worst"]

ERROR, WARNING, NONE = "error", "warning", "none"
UNSURE: Final = "error or warning"
"""Of a gap that may be compacted: whether snapshots or transaction indexes tell of what was in it is not looked for."""
FEW_HOLES: Final = 1
"""So many are a loss, if what stands before them would have gone in a compaction; more are what a compacted log has."""
_ORDER: Final = (NONE, WARNING, UNSURE, ERROR)
_WITHOUT_PRODUCERS: Final = frozenset({"plain", "mixed", "legacy"})
_OFFSET_LINE: Final = re.compile(r"(\S+)\s+(-?\d+)\s+(-?\d+)\s*", re.ASCII)
_EPOCH_LINE: Final = re.compile(r"(-?\d+)\s+(-?\d+)\s*", re.ASCII)
_TOPIC_ID: Final = re.compile(rb"version: 0\ntopic_id: [\w-]{22}")
_SEGMENT_FILE: Final = re.compile(r"(\d{20})\.(\w+)")

Files = dict[str, bytes]
Verdicts: TypeAlias = "Iterable[str]"


def worst(broker: Broker, files: Files) -> str:
    """The severity of the worst thing that can be proven of a directory that has these files."""
    directory = Directory(broker, files)
    found = [NONE, *directory.checkpoints()]
    for log in broker.logs:
        found += Partition(directory, log).verdicts()
    return max(found, key=_ORDER.index)


class Directory:
    """The files at the top."""

    def __init__(self, broker: Broker, files: Files) -> None:
        self.broker = broker
        self.files = files
        self.is_clean = ".kafka_cleanshutdown" in files
        self.points = {name: self._offsets(name) for name in _CHECKPOINTS}

    def _offsets(self, kind: str) -> dict[tuple[str, int], int] | None:
        """Entries of a checkpoint; null where a broker refuses it or it is not there."""
        data = self.files.get(f"{kind}-checkpoint")
        lines = None if data is None else checkpoint_lines(data)
        matches = [_OFFSET_LINE.fullmatch(line) for line in lines or ()]
        if lines is None or not all(matches):
            return None
        return {(match[1], int(match[2])): int(match[3]) for match in matches if match}

    def checkpoints(self) -> Verdicts:
        """What is wrong in the files at the top, each by itself."""
        yield self._meta()
        marker = self.files.get(".kafka_cleanshutdown")
        if marker:
            yield NONE if _is_json(marker) else WARNING
        for name in _CHECKPOINTS:
            yield from self._checkpoint(name)

    def _checkpoint(self, name: str) -> Verdicts:
        data = self.files.get(f"{name}-checkpoint")
        is_needed = name != "cleaner-offset" and (name != "log-start-offset" or self.broker.flavour != "legacy")
        if not data or data.rstrip(b"\n") == b"0":
            if is_needed:
                yield ERROR if data is None or self.is_clean else WARNING
            return
        points = self.points[name]
        if points is None or len(points) != len(checkpoint_lines(data) or ()):
            yield ERROR  # refused, or a partition is named twice
            return
        known = {(log.topic, 0) for log in self.broker.logs}
        for key, offset in points.items():
            if offset < 0 or key[1] < 0:
                yield ERROR
            elif key not in known:
                yield WARNING

    def _meta(self) -> str:
        data = self.files.get("meta.properties")
        is_kraft = self.broker.flavour not in {"legacy", "mixed"}
        if data is None:
            return NONE if self.broker.flavour == "legacy" else ERROR
        pairs = _properties(data)
        node = pairs.get("node.id" if is_kraft else "broker.id", "")
        is_right = pairs.get("version") == ("1" if is_kraft else "0") and node.isdecimal() and node.isascii()
        if is_kraft and "cluster.id" not in pairs:
            is_right = False
        if "directory.id" in pairs and not _is_id(pairs["directory.id"]):
            is_right = False
        return NONE if is_right else ERROR


_CHECKPOINTS: Final = ("recovery-point-offset", "replication-offset", "log-start-offset", "cleaner-offset")


def _properties(data: bytes) -> dict[str, str]:
    lines = re.split("\r\n|\r|\n", data.decode("latin-1"))
    return {key: value for line in lines if line[:1] not in {"#", "!"} for key, _, value in [line.partition("=")]}


def _is_id(text: str) -> bool:
    try:
        return (
            len(base64.urlsafe_b64decode(f"{text}==")) == 16 and re.fullmatch(r"[\w-]{22}", text, re.ASCII) is not None
        )
    except (ValueError, binascii.Error):
        return False


def _is_json(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data), dict)
    except ValueError:
        return False


def checkpoint_lines(data: bytes) -> list[str] | None:
    """The entries of a checkpoint as text; null where version or count are wrong."""
    try:
        version, count, *lines = data.decode("ascii").removesuffix("\n").split("\n")
    except ValueError:
        return None
    return lines if version == "0" and count == str(len(lines)) else None


# --- one partition ----------------------------------------------------------------------------------------------------
class Partition:
    """A partition's files against what was written there."""

    def __init__(self, directory: Directory, log: Log) -> None:
        prefix = f"{log.topic}-0/"
        self._directory = directory
        self._log = log
        self._key = (log.topic, 0)
        self._is_clean = directory.is_clean
        self._flavour = directory.broker.flavour
        self._files = {
            name.removeprefix(prefix): data for name, data in directory.files.items() if name.startswith(prefix)
        }
        self._bases = sorted(
            int(match[1]) for name in self._files if (match := _SEGMENT_FILE.fullmatch(name)) and match[2] == "log"
        )
        known = {batch.data[16:]: batch for other in directory.broker.logs for batch in batches_of(other.segments)}
        self._parsed = {base: _parsed(self._file(base, "log") or b"", known) for base in self._bases}
        self._batches = [batch for base in self._bases for batch, _ in self._parsed[base][0]]

    def _file(self, base: int, suffix: str) -> bytes | None:
        return self._files.get(f"{base:020d}.{suffix}")

    @property
    def _start(self) -> int:
        return self._bases[0] if self._bases else 0

    @property
    def _end(self) -> int:
        return max(self._bases[-1], self._batches[-1].last + 1) if self._bases and self._batches else self._start

    def verdicts(self) -> Verdicts:
        """All that is wrong with it."""
        checks: tuple[Callable[[], Verdicts], ...] = (
            self._logs,
            self._order,
            self._indexes,
            self._transactions,
            self._snapshots,
            self._epochs,
            self._offsets,
            self._texts,
        )
        for check in checks:
            yield from check()

    def _logs(self) -> Verdicts:
        for base in self._bases:
            batches, is_torn = self._parsed[base]
            if is_torn is not None:
                is_crash = not self._is_clean and is_torn and base == self._bases[-1]
                yield NONE if is_crash else ERROR
            if batches and batches[0][0].base < base:
                yield ERROR
        for name in self._files:
            match = _SEGMENT_FILE.fullmatch(name)
            if match and int(match[1]) not in self._bases and match[2] != "snapshot":
                yield WARNING  # an index without a log

    def _order(self) -> Verdicts:
        """Offsets and leader epochs rise; offsets are missing nowhere, or in many places, as compaction leaves it."""
        holes, expected = 0, self._start
        epoch = -1
        keys: list[bytes | None] = []
        before: list[bytes | None] = []
        for batch in self._batches:
            if batch.base < expected or batch.last < batch.base:
                yield ERROR
            if batch.base > expected:
                holes, before = holes + 1, [*keys]
            keys += batch.keys
            expected = max(expected, batch.last + 1)
            if batch.epoch < -1 or (batch.epoch < epoch and not batch.is_v1):
                yield ERROR
            epoch = max(epoch, batch.epoch)
        if expected < (self._bases[-1] if self._bases else 0):
            holes, before = holes + 1, keys
        cleaned = self._directory.points["cleaner-offset"]
        if holes and self._key not in (cleaned or {}):
            is_proven = None in before or len({*before}) < len(before)
            is_loss = cleaned is not None and holes <= FEW_HOLES and is_proven
            yield ERROR if is_loss else WARNING if self._flavour in _WITHOUT_PRODUCERS else UNSURE

    # --- indexes --------------------------------------------------------------------------------------------------
    def _indexes(self) -> Verdicts:
        for base in self._bases:
            is_last = base == self._bases[-1]
            for suffix, size, check in (("index", 8, is_offset_index), ("timeindex", 12, is_time_index)):
                data = self._file(base, suffix)
                batches = self._indexed(base, suffix)
                if data is None:
                    yield WARNING if is_last else ERROR
                elif not check(data, base, batches, is_last=is_last):
                    yield WARNING if is_last and self._is_stale(data, size, base, batches, check) else ERROR

    def _indexed(self, base: int, suffix: str) -> list[tuple[Batch, int]]:
        """The batches of a segment, and those that a crash cut off: their entries may be there."""
        batches, is_torn = self._parsed[base]
        position = batches[-1][1] + len(batches[-1][0].data) if batches else 0
        expected = batches[-1][0].last + 1 if batches else base
        cut = [batch for batch in batches_of(self._log.segments) if is_torn and batch.base >= expected]
        return [*batches, *((batch, position) for batch in (cut[:1] if suffix == "index" else cut))]

    def _is_stale(
        self, data: bytes, size: int, base: int, batches: list[tuple[Batch, int]], check: Callable[..., bool]
    ) -> bool:
        """Whether only entries at the end are wrong, in front of the room for others that a crash leaves."""
        used = len(data.rstrip(b"\0")) + size - 1
        used -= used % size
        if self._is_clean or len(data) % size or used >= len(data):
            return False
        entries = [data[at : at + size] for at in range(0, used, size)]
        while entries and not check(b"".join(entries), base, batches, is_last=True):
            entries.pop()
        rest = [data[at : at + size] for at in range(size * len(entries), used, size)]
        return not any(check(entry, base, batches, is_last=True) for entry in rest)

    def _transactions(self) -> Verdicts:
        meant = {segment.base: segment.aborted for segment in self._log.segments}
        for base in self._bases:
            data = self._file(base, "txnindex")
            entries = meant.get(base, [])
            if (data or b"") != b"".join(struct.pack(">hqqqq", 0, *entry) for entry in entries):
                yield WARNING if is_like_meant(data or b"", entries) else ERROR

    # --- snapshots ------------------------------------------------------------------------------------------------
    def _snapshots(self) -> Verdicts:
        if self._flavour == "legacy" or not self._bases:
            return
        offsets = [int(name.split(".")[0]) for name in self._files if name.endswith(".snapshot")]
        is_last_filled = self._end > self._bases[-1]
        is_begun = len(self._bases) == 1 or self._bases[-1] in offsets
        if self._is_clean and is_last_filled and self._end not in offsets:
            yield ERROR
        # It is not forced to the disk when it is written; a clean start loads that of the end, if it is there
        if not is_begun and not (self._is_clean and self._end in offsets):
            yield ERROR if self._is_clean else WARNING
        for offset in offsets:
            if offset > self._end:
                yield ERROR
            else:
                yield self._snapshot(offset, self._files[f"{offset:020d}.snapshot"])

    def _snapshot(self, offset: int, data: bytes) -> str:
        entries = snapshot_entries(data)
        if entries is None or len({entry[0] for entry in entries}) < len(entries):
            return ERROR
        if any(entry[3] >= offset or entry[7] >= offset for entry in entries):
            return ERROR
        if self._flavour == "compacted":
            return NONE
        healthy = snapshot_entries(snapshot(states_at(self._log, offset))) or []
        return NONE if set(entries) <= set(healthy) else ERROR

    # --- leader epochs and offsets --------------------------------------------------------------------------------
    def _epochs(self) -> Verdicts:
        if self._flavour == "legacy":
            return
        data = self._files.get("leader-epoch-checkpoint")
        lines = checkpoint_lines(data) if data else ([] if data is not None else None)
        matches = [_EPOCH_LINE.fullmatch(line) for line in lines or ()]
        if lines is None or not all(matches):
            yield ERROR
            return
        entries = [(int(match[1]), int(match[2])) for match in matches if match]
        yield from self._epoch_entries(entries)

    def _epoch_entries(self, entries: list[tuple[int, int]]) -> Verdicts:
        if entries and min(min(entry) for entry in entries) < 0:
            yield ERROR
        for one, other in pairwise(entries):
            if other[0] <= one[0] or other[1] <= one[1]:
                yield ERROR
        if any(start > self._end for _, start in entries):
            yield ERROR
        if entries and entries[0][1] < self._start:
            yield ERROR if self._is_clean else WARNING
        if any(batch.is_v1 for batch in self._batches):  # an older format empties the file
            return
        starts = dict(entries)
        seen: set[int] = set()
        for batch in self._batches:
            if self._flavour == "compacted" and batch.epoch in seen:
                continue
            seen.add(batch.epoch)
            behind = min((start for epoch, start in entries if epoch > batch.epoch), default=self._end)
            last = batch.base if self._flavour == "compacted" else batch.last  # the cleaner joins batches of epochs
            # Where the first epoch starts late, followers are answered rightly all the same
            is_late = starts.get(batch.epoch, 0) > batch.base
            is_first = batch.epoch == self._batches[0].epoch == entries[0][0] if entries else False
            if batch.epoch not in starts or (is_late and not is_first) or behind <= last < self._end - 1:
                yield ERROR

    def _offsets(self) -> Verdicts:
        points = self._directory.points
        flushed = (points["recovery-point-offset"] or {}).get(self._key)
        if points["recovery-point-offset"] is not None and flushed is None:
            yield WARNING if self._is_clean else NONE
        elif flushed is not None and (flushed > self._end or (self._is_clean and flushed != self._end)):
            yield ERROR
        served = (points["replication-offset"] or {}).get(self._key)
        if served is not None and served > self._end:
            is_copy = not self._is_clean and (flushed or 0) <= self._end > self._start
            yield WARNING if is_copy else ERROR
        elif served is not None and served < self._start:
            yield WARNING
        cleaned = (points["cleaner-offset"] or {}).get(self._key)
        if cleaned is not None and cleaned > self._end:
            yield WARNING

    def _texts(self) -> Verdicts:
        if self._flavour == "legacy":
            return
        metadata = self._files.get("partition.metadata")
        if metadata is None:
            yield NONE if self._flavour == "mixed" else ERROR
        elif not _TOPIC_ID.fullmatch(metadata):
            yield ERROR


def _parsed(data: bytes, known: dict[bytes, Batch]) -> tuple[list[tuple[Batch, int]], bool | None]:
    """Whole batches and where they start, and what comes after them: nothing (null), a cut one, or damage."""
    found: list[tuple[Batch, int]] = []
    position = 0
    while position < len(data):
        if len(data) - position < 12:
            return found, True
        offset, size = struct.unpack_from(">qi", data, position)
        end = position + 12 + size
        batch = known.get(data[position + 16 : end]) if size > 4 else None
        if batch is None:
            starts = any(other.data.startswith(data[position:]) for other in known.values())
            return found, starts
        epoch = struct.unpack_from(">i", data, position + 12)[0]
        if batch.is_v1:
            if data[position + 12 : position + 16] != batch.data[12:16] or (batch.is_wrapper and offset != batch.last):
                return found, False
            moved = replace(batch, base=batch.base + offset - batch.last, last=offset)
        else:
            moved = replace(batch, base=offset, last=offset + batch.last - batch.base, epoch=epoch)
        found.append((replace(moved, top=moved.last), position))
        position = end
    return found, None
