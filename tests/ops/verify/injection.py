"""Random damage of a log directory: bits, lengths, batches, entries, lines and whole files, as new contents of files.

Nothing is written here: a `Damage` names the files that change and what they hold then.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import crc32c

from tests.ops.verify.injected_log import Segment
from tests.support.build import offset_index, time_index

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from tests.ops.verify.injected_log import Batch, Broker, Log

__all__ = ["KINDS", "Damage", "contents", "inject"]

Files = dict[str, bytes]
_ENTRY_SIZES: Final = {"index": 8, "timeindex": 12, "txnindex": 34}
_SNAPSHOT_HEAD: Final = 10
_SNAPSHOT_ENTRY: Final = 46


@dataclass(frozen=True, slots=True)
class Damage:
    """`changes`: new contents by file, null where it is gone; `words` say what was done."""

    kind: str
    words: str
    changes: Mapping[str, bytes | None]


def contents(broker: Broker) -> Files:
    """All files of a log directory, named from there on."""
    paths = sorted(path for path in broker.path.rglob("*") if path.is_file())
    return {path.relative_to(broker.path).as_posix(): path.read_bytes() for path in paths}


def inject(kind: str, broker: Broker, files: Files, random: Random) -> Damage | None:
    """One damage of a kind; null where there is nothing to do it to, or where it changed nothing."""
    damage = KINDS[kind](broker, files, random)
    if damage is None or all(files.get(name) == data for name, data in damage.changes.items()):
        return None
    return Damage(kind, damage.words, damage.changes)


def _changed(words: str, changes: Mapping[str, bytes | None]) -> Damage:
    return Damage("", words, changes)


def _pick(files: Files, random: Random, *suffixes: str) -> str | None:
    names = [name for name in files if name.endswith(suffixes) and files[name]]
    return random.choice(names) if names else None


# --- bytes ------------------------------------------------------------------------------------------------------------
def _flip(broker: Broker, files: Files, random: Random) -> Damage | None:
    """One bit, in the small files as often as in the logs."""
    del broker
    suffix = random.choice(
        ("log", "index", "timeindex", "txnindex", "snapshot", "checkpoint", "metadata", "properties")
    )
    name = _pick(files, random, suffix)
    if name is None:
        return None
    data = bytearray(files[name])
    bit = random.randrange(8 * len(data))
    data[bit // 8] ^= 1 << bit % 8
    return _changed(f"bit {bit % 8} of byte {bit // 8} of {name}", {name: bytes(data)})


def _flip_header(broker: Broker, files: Files, random: Random) -> Damage | None:
    """One bit of what no checksum covers: offsets and leader epochs."""
    log = random.choice(broker.logs)
    segment = random.choice(log.segments)
    row = random.randrange(len(segment.batches))
    byte = random.choice((*range(8), *range(4, 8), *((12, 13, 14, 15, 15) if not segment.batches[row].is_v1 else ())))
    name = f"{log.topic}-0/{segment.name}.log"
    data = bytearray(files[name])
    bit = random.randrange(8)
    data[segment.positions[row] + byte] ^= 1 << bit
    return _changed(f"bit {bit} of byte {byte} of batch {row} of {name}", {name: bytes(data)})


def _cut(broker: Broker, files: Files, random: Random) -> Damage | None:
    del broker
    name = random.choice(sorted(files))
    if not files[name]:
        return None
    size = random.randrange(len(files[name]))
    return _changed(f"{name} cut to {size} bytes", {name: files[name][:size]})


# --- batches ----------------------------------------------------------------------------------------------------------
def _place(broker: Broker, random: Random) -> tuple[Log, Segment, int]:
    """A batch: often the first or the last of its segment, and of the log."""
    log = random.choice(broker.logs)
    segment = random.choice((*log.segments, log.segments[0], log.segments[-1]))
    last = len(segment.batches) - 1
    return log, segment, random.choice((0, last, random.randint(0, last)))


def _rewritten(log: Log, segment: Segment, batches: list[Batch], *, is_indexed: bool) -> dict[str, bytes | None]:
    """A segment's log with other batches; `is_indexed`: and its indexes made again."""
    changed = Segment(segment.base, batches)
    prefix = f"{log.topic}-0/{segment.name}"
    changes: dict[str, bytes | None] = {f"{prefix}.log": changed.data}
    if is_indexed:
        offsets, times = changed.indexes()
        changes |= {f"{prefix}.index": offset_index(offsets), f"{prefix}.timeindex": time_index(times)}
    return changes


def _lose_batch(broker: Broker, files: Files, random: Random) -> Damage | None:
    del files
    log, segment, row = _place(broker, random)
    is_indexed = random.random() < 0.5
    kept = segment.batches[:row] + segment.batches[row + 1 :]
    how = ", indexes made anew" if is_indexed else ""
    words = f"batch {row} of {log.topic} {segment.base} lost{how}"
    return _changed(words, _rewritten(log, segment, kept, is_indexed=is_indexed))


def _swap_batches(broker: Broker, files: Files, random: Random) -> Damage | None:
    del files
    log, segment, row = _place(broker, random)
    other = random.randrange(len(segment.batches))
    batches = list(segment.batches)
    batches[row], batches[other] = batches[other], batches[row]
    return _changed(
        f"batches {row} and {other} of {log.topic} {segment.base} swapped",
        _rewritten(log, segment, batches, is_indexed=random.random() < 0.5),
    )


def _repeat_batch(broker: Broker, files: Files, random: Random) -> Damage | None:
    del files
    log, segment, row = _place(broker, random)
    batches = [*segment.batches[: row + 1], segment.batches[row], *segment.batches[row + 1 :]]
    return _changed(
        f"batch {row} of {log.topic} {segment.base} twice",
        _rewritten(log, segment, batches, is_indexed=random.random() < 0.5),
    )


# --- entries ----------------------------------------------------------------------------------------------------------
def _entries(broker: Broker, files: Files, random: Random) -> Damage | None:
    """Entries of an index lost, added, altered or swapped."""
    del broker
    suffix = random.choice(tuple(_ENTRY_SIZES))
    size = _ENTRY_SIZES[suffix]
    name = _pick(files, random, f".{suffix}")
    if name is None:
        return None
    entries = [files[name][at : at + size] for at in range(0, len(files[name]), size)]
    what = _shuffle(entries, random, size)
    return _changed(f"entry {what} in {name}", {name: b"".join(entries)})


def _shuffle(entries: list[bytes], random: Random, size: int) -> str:
    """Change a list of entries in place, and say how."""
    row, other = random.randrange(len(entries)), random.randrange(len(entries))
    what = random.choice(("lost", "repeated", "altered", "nudged", "swapped"))
    if what == "lost":
        del entries[row]
    elif what == "repeated":
        entries.insert(row, entries[other])
    elif what == "altered":
        entries[row] = random.randbytes(size)
    elif what == "nudged":  # one field by one
        entry = bytearray(entries[row])
        entry[random.choice((size - 1, size - 5, 3, 7)) % size] ^= 1 << random.randrange(3)
        entries[row] = bytes(entry)
    else:
        entries[row], entries[other] = entries[other], entries[row]
    return f"{row} {what}"


def _true_entry(broker: Broker, files: Files, random: Random) -> Damage | None:
    """An index entry more, of a batch that has none, as it might have been made."""
    log, segment, row = _place(broker, random)
    name = f"{log.topic}-0/{segment.name}.index"
    entries = [entry for entry in struct.iter_unpack(">ii", files[name]) if any(entry)]
    room = files[name][8 * len(entries) :]
    batch = segment.batches[row]
    entry = (random.choice((batch.base, batch.last)) - segment.base, segment.positions[row])
    return _changed(f"entry {entry} added to {name}", {name: offset_index(sorted({*entries, entry})) + room})


def _snapshot(broker: Broker, files: Files, random: Random) -> Damage | None:
    """Entries of a snapshot changed under a checksum that is right."""
    del broker
    name = _pick(files, random, ".snapshot")
    if name is None or len(files[name]) == _SNAPSHOT_HEAD:
        return None
    body = files[name][_SNAPSHOT_HEAD:]
    entries = [body[at : at + _SNAPSHOT_ENTRY] for at in range(0, len(body), _SNAPSHOT_ENTRY)]
    what = _shuffle(entries, random, _SNAPSHOT_ENTRY)
    covered = struct.pack(">i", len(entries)) + b"".join(entries)
    return _changed(f"entry {what} in {name}", {name: struct.pack(">hI", 1, crc32c.crc32c(covered)) + covered})


# --- lines ------------------------------------------------------------------------------------------------------------
def _lines(broker: Broker, files: Files, random: Random) -> Damage | None:
    """Lines of a checkpoint lost, repeated, altered or swapped, with the right number of them in line 2."""
    del broker
    names = [name for name in files if name.endswith("checkpoint") and files[name].count(b"\n") > 2]
    name = random.choice(names)
    version, _, *lines = files[name].decode().splitlines()
    row, other = random.randrange(len(lines)), random.randrange(len(lines))
    what = random.choice(("lost", "repeated", "altered", "nudged", "swapped"))
    if what == "lost":
        del lines[row]
    elif what == "repeated":
        lines.insert(row, lines[other])
    elif what == "swapped":
        lines[row], lines[other] = lines[other], lines[row]
    else:
        words = lines[row].split(" ")
        at = random.randrange(len(words))
        step = random.randint(-3, 3) if what == "nudged" else random.randint(-10, 1000)
        words[at] = str(int(words[at]) + step) if words[at].isdigit() else "elsewhere"
        lines[row] = " ".join(words)
    text = "".join(f"{line}\n" for line in (version, str(len(lines)), *lines))
    return _changed(f"line {row} {what} in {name}", {name: text.encode()})


# --- files ------------------------------------------------------------------------------------------------------------
def _remove(broker: Broker, files: Files, random: Random) -> Damage | None:
    del broker
    name = random.choice(sorted(files))
    return _changed(f"{name} removed", {name: None})


def _remove_segment(broker: Broker, files: Files, random: Random) -> Damage | None:
    log, segment, _ = _place(broker, random)
    prefix = f"{log.topic}-0/{segment.name}."
    return _changed(f"{prefix}* removed", {name: None for name in files if name.startswith(prefix)})


def _rename(broker: Broker, files: Files, random: Random) -> Damage | None:
    """A file of a segment gets the number behind its own."""
    del broker
    name = _pick(files, random, "log", "index", "timeindex", "txnindex", "snapshot")
    if name is None:
        return None
    directory, _, file = name.partition("/")
    number, _, suffix = file.partition(".")
    other = f"{directory}/{int(number) + random.choice((1, 2, 1000)):020d}.{suffix}"
    return _changed(f"{name} renamed to {other}", {name: None, other: files[name]})


def _exchange(broker: Broker, files: Files, random: Random) -> Damage | None:
    """A file and that of the same name of the other partition."""
    first, second = (f"{log.topic}-0/" for log in broker.logs)
    names = [
        name.removeprefix(first)
        for name in files
        if name.startswith(first) and second + name.removeprefix(first) in files
    ]
    if not names:
        return None
    name = random.choice(names)
    return _changed(f"{name} exchanged", {first + name: files[second + name], second + name: files[first + name]})


KINDS: Final[dict[str, Callable[[Broker, Files, Random], Damage | None]]] = {
    "flip": _flip,
    "flip-header": _flip_header,
    "cut": _cut,
    "lose-batch": _lose_batch,
    "swap-batches": _swap_batches,
    "repeat-batch": _repeat_batch,
    "entries": _entries,
    "true-entry": _true_entry,
    "snapshot": _snapshot,
    "lines": _lines,
    "remove": _remove,
    "remove-segment": _remove_segment,
    "rename": _rename,
    "exchange": _exchange,
}
