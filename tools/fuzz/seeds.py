"""Where a corpus starts: real files of `fixtures/`, cut to what a family takes, and bytes of the tests' builders."""

from __future__ import annotations

import hashlib
import re
import struct
import tarfile
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from tests.support import build, build_files
from tests.support.framing import FRAMINGS, compress
from tools.fuzz.seed_dirs import DUMP_OPTIONS, VERIFY_OPTIONS, directory_seeds, repair_seeds
from tools.fuzz.seed_records import record_seeds
from tools.fuzz.seed_zookeeper import zookeeper_seeds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["write_seeds"]

FIXTURES: Final = Path(__file__).resolve().parents[2] / "fixtures"
MAX_SEEDS: Final = 400
_MAX_FILE_BYTES: Final = 64 * 1024  # of each real file, its start
_DIRECTORY_BYTES: Final = 3000
_TEXT: Final = b'caf\xc3\xa9 "quoted" \\ \x00\x1f\x7f \xf0\x9f\x98\x80 \xed\xa0\x80 \xff'
_CHECKPOINT_NAMES: Final = ("recovery-point-offset-checkpoint", "leader-epoch-checkpoint")
_PROPERTY_NAMES: Final = ("meta.properties", "partition.metadata", ".kafka_cleanshutdown", "quorum-state")
_INDEX_SUFFIXES: Final = (".index", ".timeindex", ".txnindex", ".snapshot")


def write_seeds(family: str, directory: Path, max_bytes: int) -> int:
    """Write the family's seeds, named by their content, and give their number."""
    seeds = _chosen((seed[:max_bytes] for seed in _SEEDS[family]()), MAX_SEEDS)
    for seed in seeds:
        (directory / _digest(seed)[:40]).write_bytes(seed)
    return len(seeds)


def _chosen(seeds: Iterable[bytes], wanted: int) -> list[bytes]:
    """Return at most `wanted` seeds, some of each kind (the first two bytes), in an arbitrary order."""
    kinds: dict[bytes, list[bytes]] = {}
    for seed in sorted(set(seeds), key=_digest):
        kinds.setdefault(seed[:2], []).append(seed)
    ranked = [(rank, seed) for kind in kinds.values() for rank, seed in enumerate(kind)]
    return [seed for _, seed in sorted(ranked)[:wanted]]


def _digest(seed: bytes) -> str:
    return hashlib.sha256(seed).hexdigest()


@cache
def _real_files() -> tuple[tuple[str, bytes], ...]:
    """Name and start of all files that ship in the fixtures."""
    found = [
        (str(path), path.read_bytes()[:_MAX_FILE_BYTES])
        for path in sorted(FIXTURES.glob("demo/**/*"))
        if path.is_file()
    ]
    for archive in sorted(FIXTURES.glob("*/*.tar.gz")):
        with tarfile.open(archive) as tar:
            for member in tar:
                file = tar.extractfile(member) if member.isfile() else None
                if file is not None:
                    found.append((member.name, file.read(_MAX_FILE_BYTES)))
    return tuple(found)


def _starts_of(suffixes: tuple[str, ...]) -> Iterator[tuple[int, bytes]]:
    """Which suffix it was, and the start of a file."""
    for name, data in _real_files():
        for kind, suffix in enumerate(suffixes):
            if name.endswith(suffix) and data:
                yield kind, data


def _entries() -> Iterator[tuple[int, bytes]]:
    """Magic and bytes of the batches and messages in all real `.log` files: of the smallest of each kind, some."""
    kinds: dict[tuple[int, int, int], set[bytes]] = {}
    for _, data in _starts_of((".log",)):
        for entry in _framed(data, 17, 8, 12):
            magic = entry[16]
            attributes = int.from_bytes(entry[21:23], "big") if magic == 2 else entry[17]
            kinds.setdefault((magic, attributes, len(entry).bit_length()), set()).add(entry)
    for (magic, _, _), entries in sorted(kinds.items()):
        yield from ((magic, entry) for entry in sorted(entries)[:4])


def _framed(data: bytes, header: int, size_at: int, overhead: int) -> Iterator[bytes]:
    at = 0
    while at + header <= len(data):
        (size,) = struct.unpack_from(">i", data, at + size_at)
        if size < 5 or at + overhead + size > len(data):
            return
        yield data[at : at + overhead + size]
        at += overhead + size


def _messages_v07() -> Iterator[bytes]:
    for _, data in _starts_of((".kafka",)):
        yield from _framed(data, 5, 0, 4)


def _records() -> list[build.Record]:
    headers = ((b"h", b"1"), (b"\xff", None), (b"", b""))
    values = ((b"k", b"v"), (None, None), (b"", b""), (_TEXT, _TEXT * 2))
    return [
        build.Record(offset=7 + 3 * at, timestamp_ms=1000 - at, key=key, value=value, headers=headers[:at])
        for at, (key, value) in enumerate(values)
    ]


def _built_v2() -> Iterator[bytes]:
    records, last = _records(), [build.Record(offset=2**63 - 1, value=b"last")]
    for codec in range(6):
        plain = build.batch_v2(records)
        yield plain[:22] + bytes([codec]) + plain[23:]  # the target compresses the records
    yield build.batch_v2(records, log_append_time_ms=5, is_transactional=True, producer_id=4, base_sequence=2**31 - 2)
    yield build.batch_v2(records, delete_horizon_ms=77) + build.batch_v2(last)
    yield build.empty_batch(5, 9)
    yield b"".join(build.batch_v2([build.Record(offset=at, value=b"x" * at)]) for at in range(5))
    yield build.txn_marker(build.COMMIT, offset=3, producer_id=9)
    yield build.control_batch(9, b"", offset=3)


def _built_legacy() -> Iterator[bytes]:
    for message in (build.message_v0, build.message_v1):
        inner = b"".join(message(record) for record in _records())
        yield inner
        for codec in range(1, 5):
            yield message(build.Record(offset=20, key=b"k", value=inner, timestamp_ms=9), attributes=codec)
            yield message(build.Record(offset=20, value=inner, timestamp_ms=9), attributes=codec | 8)
        yield message(build.Record(offset=20, value=None), attributes=1)


def _built_v07() -> Iterator[bytes]:
    """Wrappers whose sets stand plain, for the target to compress."""
    level = build.message_v07(b"zero", magic=0) + build.message_v07(_TEXT)
    for depth in range(8):
        yield level
        level = build.message_v07(b"between") + build.message_v07(level, attributes=1 + depth % 2)
    yield build.message_v07(b"", attributes=3) + build.message_v07(b"", magic=0)


def _switched(files: Iterable[bytes], *switches: int) -> Iterator[bytes]:
    for file in files:
        for switch in switches:
            yield switch.to_bytes(2, "big") + file


def _walk() -> Iterator[bytes]:
    logs = [*_built_v2(), *_built_legacy(), *(entry for _, entry in _entries())]
    damaged = [logs[0][:40] + logs[6], bytes(30) + logs[6], logs[6] + bytes(70), logs[6] + b"\x7f" * 20 + logs[6]]
    yield from _switched(logs, 0x0000, 0x0100)
    yield from _switched(damaged, 0x0200, 0x0300, 0x4300)
    yield from _switched([*_built_v07(), *_messages_v07()], 0x0800, 0x0900)
    yield from _switched([b"garbage" + message for message in _built_v07()], 0x0A00, 0x0B00)


def _v2() -> Iterator[bytes]:
    yield from _switched(_built_v2(), 0x0400, 0x0483, 0x0400)
    yield from _switched([entry for magic, entry in _entries() if magic == 2], 0x0000, 0x0082)


def _legacy() -> Iterator[bytes]:
    yield from _switched(_built_legacy(), 0x0400, 0x0482)
    yield from _switched([entry for magic, entry in _entries() if magic < 2], 0x0000, 0x0082)


def _v07() -> Iterator[bytes]:
    yield from _switched(_built_v07(), 0x0400, 0x0482)
    yield from _switched(_messages_v07(), 0x0000)


def _lines() -> Iterator[bytes]:
    logs = [*_built_v2(), *_built_legacy()]
    yield from _switched(logs, 0x0420, 0x0448, 0x0490, 0x04E1)
    yield from _switched(_built_v07(), 0x0C00, 0x0C29, 0x0C52)


def _codecs() -> Iterator[bytes]:
    contents = (b"", b"a", _TEXT * 4, bytes(70_000), bytes(range(256)) * 6)
    for codec, framings in FRAMINGS.items():
        for framing in framings:
            for content in contents:
                yield bytes([codec | 16]) + compress(codec, content, framing=framing)
                if 0 < codec < 4:
                    yield bytes([codec | 128]) + compress(codec, content, magic=0, framing=framing)
    for magic, entry in _entries():
        if magic == 2 and len(entry) > 61 and entry[22] & 7:
            yield bytes([entry[22] & 7 | 16]) + entry[61:]


def _indexes() -> Iterator[bytes]:
    for kind, data in _starts_of(_INDEX_SUFFIXES):
        yield bytes([kind]) + data
        yield bytes([kind]) + data[: 240 - 48 * (kind == 3)] + bytes(48)
    yield b"\x00" + build.offset_index([(0, 0), (5, 4096), (2**31 - 1, -1)])
    yield b"\x01" + build.time_index([(0, 0), (-1, 5), (2**63 - 1, 9)])
    yield b"\x02" + build.txn_index([(1, 2, 3, 4)]) + build.txn_index([(5, 6, 7, 8)], version=256)
    producers = [
        build_files.Producer(producer_id=4),
        build_files.Producer(producer_id=5, last_offset=9, offset_delta=3),
    ]
    yield from (bytes([kind]) + build.snapshot(producers) for kind in (3, 7))


def _checkpoints() -> Iterator[bytes]:
    for kind, data in _starts_of(_CHECKPOINT_NAMES):
        yield from (bytes([kind + 2 * size]) + data for size in (0, 15))
    yield b"\x04" + build.offset_checkpoint([("orders", 0, 5), ("a b", -1, 2**63)], count=9).replace(b"\n", b"\r\n")
    yield b"\x05" + build.epoch_checkpoint([(0, 0), (-1, 7), (3, 2**63 - 1)]) + b"\xff\r\r"
    yield "\x04\u0660\n+1\nt\t0 \u0663\n\n".encode()


def _properties() -> Iterator[bytes]:
    for kind, data in _starts_of(_PROPERTY_NAMES):
        yield bytes([kind]) + data
    yield b"\x00a\\ b : \\u00e9\\\n  c\n!x\nversion=1\nnode.id=3\ncluster.id=x\ndirectory.id=\\ud83d\\ude00\n"
    yield b'\x03{"data_version":0,"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
    yield b'\x03{"data_version":1,"leaderId":1,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"a","x":[{"y":1e9}]}'
    yield b'\x02{"version":0,"brokerEpoch":12}'


def _control() -> Iterator[bytes]:
    voters = [(1, bytes(range(16)), [("C", "host", 9093)], (0, 1)), (2, bytes(16), [], (0, 0))]
    values = (
        struct.pack(">hi", 0, 7),
        struct.pack(">hi", 1, 7),
        build.leader_change_value(1, [1, 2], [2]),
        build.snapshot_header_value(99),
        build.snapshot_footer_value(),
        build.kraft_version_value(1),
        build.kraft_voters_value(voters),
    )
    for kind, value in enumerate(values):
        yield bytes([kind + 1]) + value
        yield bytes([kind + 1]) + value[:-1] + b"\x02\x05\x01x\x07\x00"
    yield b"\xff" + struct.pack(">hh", 0, 3)
    yield b"\x08unknown"


def _names() -> Iterator[bytes]:
    parts = {part for name, _ in _real_files() for part in name.split("/")[-2:]}
    yield from {re.sub(r"[0-9]+", "", part): part.encode() for part in sorted(parts)}.values()  # one of each form
    yield b"t-0.0123456789abcdef-delete"
    yield b"t-00.uuid-stray"
    yield b"5_AAAAAAAAAAAAAAAAAAAAAA.index.deleted"
    yield b"5_AAAAAAAAAAAAAAAAAAAAAA.txnindex"
    yield b"00000000000000000180-0000000001.checkpoint.deleted"
    yield b"remote-log-index-cache"
    yield b"0-1-v1.log"
    yield "\u0663-\u0664.log".encode()
    yield b"-" * 120 + b"." * 120 + b"-future"


def _sniff() -> Iterator[bytes]:
    yield from (b"\0\0" + data for _, data in _real_files() if data)
    signatures = (
        b"\xff\xd8\xff",
        b"\x89PNG\r\n\x1a\n",
        b"PK\x03\x04",
        b"PAR1",
        bytes(257) + b"ustar",
        "é".encode()[:1],
    )
    yield from (b"\0\1" + signature for signature in signatures)


def _columns() -> Iterator[bytes]:
    """Bytes that mean nothing: numbers that are small, at the edges and any, of each kernel."""
    random = Random(1)  # noqa: S311 -- the same each time
    for kernel in range(4):
        for most in (127, 230, 255):
            for _ in range(10):
                yield bytes([kernel]) + bytes(random.randrange(most + 1) for _ in range(random.randrange(40, 500)))


def _one_of(*families: Callable[[], Iterator[bytes]]) -> Iterator[bytes]:
    """Seeds of a family that is several; the first byte says which."""
    for which, seeds in enumerate(families):
        yield from (bytes([which]) + seed for seed in _chosen(seeds(), MAX_SEEDS // len(families)))


_SEEDS: Final[dict[str, Callable[[], Iterator[bytes]]]] = {
    "walk": _walk,
    "records": _v2,
    "legacy": _legacy,
    "v07": _v07,
    "codecs": _codecs,
    "indexes": _indexes,
    "texts": lambda: _one_of(_checkpoints, _properties),
    "small": lambda: _one_of(_control, _names, _sniff),
    "lines": _lines,
    "decoders": lambda: record_seeds(FIXTURES),
    "zookeeper": lambda: zookeeper_seeds(FIXTURES),
    "columns": _columns,
    "dump": lambda: directory_seeds(_real_files(), DUMP_OPTIONS, _DIRECTORY_BYTES),
    "verify": lambda: directory_seeds(_real_files(), VERIFY_OPTIONS, _DIRECTORY_BYTES),
    "repair": lambda: repair_seeds(_real_files(), _DIRECTORY_BYTES),
}
