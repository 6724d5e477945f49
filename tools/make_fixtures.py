"""Make the archives of `fixtures/` from the whole corpus: `python tools/make_fixtures.py CORPUS [DESTINATION]`.

The corpus is a directory with `old/*.tar.gz` and `modern/*.tar.gz`. Every archive of the fixtures holds a part of the
archive of the same name: the members' bytes, modes and modification times are those of the corpus, but for fault
sheets (see `_without_stop`) and brokers' logs (see `_of_cleaner`). The same corpus gives the same bytes again: members
in the order of their names, no owners, no time in the gzip header.
"""

from __future__ import annotations

import fnmatch
import gzip
import io
import json
import re
import sys
import tarfile
from pathlib import Path
from typing import Final

_OLD_DATA: Final = ("*/logdir", "*/logdir/*", "*/truth/*")
_OLD_TOOL: Final = ("*/dump/*.4.3.1.txt.gz",)
_OLD_FULL: Final = (*_OLD_DATA, *_OLD_TOOL)
_MODERN: Final = ("logdir", "logdir/*", "truth/*", "cluster_state.json")
_MODERN_TOOL: Final = ("golden/*",)
_CLEANER: Final = ("broker.log.gz", "*/files.json")
_FAULT: Final = ("fault.json", "before", "before/*", "after_start.tar.gz", "truth/*")


def _stages(data: str, *names: str) -> tuple[str, ...]:
    """Globs of some stages of an old case."""
    return tuple(f"{name}/{part}" for name in names for part in (data, f"{data}/*", "truth/*", "dump/*.4.3.1.txt.gz"))


def _copies(*names: str) -> tuple[str, ...]:
    """Globs of some copies of a modern case, with what was read from them."""
    return tuple(glob for name in names for glob in (name, f"{name}/*", f"truth-{name}/*", f"golden-{name}/*"))


def _without_dumps(*names: str) -> tuple[str, ...]:
    """Globs of some copies of a modern case, and of what was read from them."""
    return tuple(glob for name in names for glob in (name, f"{name}/*", f"truth-{name}/*"))


def _faults(*names: str) -> tuple[str, ...]:
    """Globs of some faults."""
    return tuple(f"{name}/{part}" for name in names for part in _FAULT)


# What each archive keeps, as globs relative to the case (`*` crosses slashes); case.json is always kept.
SELECTION: Final[dict[str, tuple[str, ...]]] = {
    "old/k07-0.7.2": _OLD_DATA,
    "old/fmt-0.8.0": _OLD_FULL,
    "old/fmt-0.8.2.2": _OLD_FULL,
    "old/fmt-0.9.0.1": _OLD_DATA,
    "old/fmt-0.10.0.1": _OLD_DATA,
    "old/fmt-0.10.2.2": _OLD_FULL,
    "old/fmt-0.11.0.3": _OLD_DATA,
    "old/fmt-1.1.1": _OLD_DATA,
    "old/fmt-2.1.1": _OLD_DATA,
    "old/fmt-2.8.2": (*_OLD_FULL, "*/dump/plain-1.2.8.2.txt.gz", "*/dump/zstd-0.2.8.2.txt.gz"),
    "old/txn-0.11.0.3": _stages("logdir", "produced"),
    "old/txn-2.8.2": (*_OLD_FULL, *_CLEANER),
    "old/clean-0.8.2.2": _stages("logdir", "after2"),
    "old/clean-0.10.2.2": (
        *_stages("logdir", "after2"),
        *(f"{stage}/{part}" for stage in ("before", "after") for part in ("logdir", "logdir/*", "truth/*")),
        *_CLEANER,
    ),
    "old/clean-2.8.2": (
        *_stages("logdir", "after2"),
        *(f"{stage}/{part}" for stage in ("before", "after") for part in ("logdir", "logdir/*", "truth/*")),
        *_CLEANER,
    ),
    "old/mixfmt-0.10.2.2": _stages("logdir", "before"),
    "old/mixfmt-2.8.2": (*_OLD_FULL, *_CLEANER),
    "old/upgrade-0.8.2.2-0.10.0.1-0.11.0.3-2.8.2": (*_stages("logdir", "4-2.8.2", "5-cleaned"), *_CLEANER),
    "old/crash-0.8.2.2": _OLD_DATA,
    "old/crash-0.10.0.1": _OLD_DATA,
    "old/groups-0.8.0": _OLD_DATA,
    "old/groups-0.8.2.2": _OLD_DATA,
    "old/groups-0.10.2.2": (*_OLD_DATA, *_CLEANER),
    "old/groups-2.8.2": (*_OLD_FULL, *_CLEANER, "expected/*"),
    "old/mirror-0.8.2.2": _OLD_DATA,
    "modern/01-plain-3.9.1": (*_MODERN, *_MODERN_TOOL),
    "modern/01-plain-4.1.0": _MODERN,
    "modern/01-plain-4.3.1": (*_MODERN, *_MODERN_TOOL),
    "modern/01-plain-4.4.0": _MODERN,
    "modern/02-timestamps-4.3.1": (*_MODERN, *_MODERN_TOOL),
    "modern/03-transactions-3.9.1": _MODERN,
    "modern/03-transactions-4.3.1": (*_MODERN, *_MODERN_TOOL),
    "modern/04-compaction-3.9.1": (*_copies("after-2"), *_without_dumps("before-2"), "after-2.cleaner.log"),
    "modern/04-compaction-4.3.1": (
        *_copies("before", "after-2", "after-3"),
        *_without_dumps("after-1", "before-3"),
        "after-[13].cleaner.log",
    ),
    "modern/04-compaction-4.4.0": (*_without_dumps("before-2", "after-2"), "after-2.cleaner.log"),
    "modern/05-retention-4.3.1": (
        *_copies("after"),
        "after-restart",
        "after-restart/*",
        *_without_dumps("before"),
        "retention.log",
    ),
    "modern/06-crash-4.3.1": (
        *_copies("round-1-killed"),
        "round-1-truth/*",
        "round-1-recovered-running",
        "round-1-recovered-running/*",
    ),
    "modern/07-faults-4.3.1": (
        "*-metadata-log-dir.tar.gz",
        "base-*",
        "golden-*",
        "truth/*",
        *_faults("unclean/*"),
        "unclean/log.*/golden/*",
        *_faults(
            "clean/log.tail.*", "clean/log.flip.value.last", "clean/log.length.huge.*", "clean/index.random_bytes.*"
        ),
    ),
    "modern/07b-two-log-dirs-4.3.1": ("base-unclean", "base-unclean/*", *_faults("unclean/*")),
    "modern/07c-aftermath-4.3.1": ("log.tail.torn_batch/*", "log.tail.garbage/*"),
    "modern/08-internal-3.9.1": _MODERN,
    "modern/08-internal-4.3.1": (*_MODERN, *_MODERN_TOOL),
    "modern/09-replicas-4.3.1": (
        "in-sync-running/broker-2",
        "in-sync-running/broker-2/*",
        "final/broker-1",
        "final/broker-1/*",
        "truth-final/rep.[!m]*",
        "truth-final/rep.moved-0/*",
        "golden/final/broker-1/*",
    ),
    "modern/10-rolls-4.3.1": (*_MODERN, *_MODERN_TOOL),
    "modern/11-sizes-4.3.1": (*_MODERN, *_MODERN_TOOL),
}
_BROKER_LOG: Final = "broker.log.gz"
_GZIP: Final = b"\x1f\x8b"
_CLEANER_LINE: Final = re.compile(
    rb"Starting the log cleaner|Beginning cleaning of log|in offset range|Swapping in cleaned segment"
    rb"|Scheduling log segment|Deleting segments? (?:LogSegment|due)"
)
LIMIT_BYTES: Final = 15 * 1000 * 1000
# Not every copy was read or dumped, and not every fault changed a file or let the broker start.
_OPTIONAL: Final = re.compile(r"truth|golden|dump|/before|after_start")
_MACHINE_PATH: Final = re.compile(rb"(?<![\w$.-])/(?:home|root|tmp|work|mnt|Users|var/folders)/")


def main() -> None:
    """Make all archives, and say how large they are."""
    if len(sys.argv) not in {2, 3}:
        sys.exit(__doc__)
    corpus = Path(sys.argv[1])
    destination = Path(sys.argv[2]) if len(sys.argv) == 3 else Path(__file__).resolve().parents[1] / "fixtures"
    total = 0
    for case, globs in SELECTION.items():
        archive = destination / f"{case}.tar.gz"
        archive.parent.mkdir(parents=True, exist_ok=True)
        archive.write_bytes(_select(corpus / f"{case}.tar.gz", globs))
        size = archive.stat().st_size
        total += size
        print(f"{size:9} {case}")
    print(f"{total:9} in all")
    if total > LIMIT_BYTES:
        sys.exit(f"more than {LIMIT_BYTES} bytes")


def _select(source: Path, globs: tuple[str, ...]) -> bytes:
    """The part of an archive that the globs name, as a new archive."""
    packed = io.BytesIO()
    unmatched = set(globs)
    with tarfile.open(source) as tar, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as part:
        members = {member.name: member for member in tar.getmembers()}
        wanted: set[str] = set()
        for name in members:
            relative = name.partition("/")[2]
            matched = {glob for glob in globs if fnmatch.fnmatchcase(relative, glob)}
            unmatched -= matched
            if (matched or relative == "case.json") and not _is_noise(relative):
                wanted.add(name)
        for name in sorted(wanted):
            _copy(tar, members[name], part)
    if needless := sorted(glob for glob in unmatched if not _OPTIONAL.search(glob)):
        sys.exit(f"{source}: nothing matches {needless}")
    compressed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=compressed, mtime=0) as stream:
        stream.write(packed.getvalue())
    return compressed.getvalue()


def _is_noise(relative: str) -> bool:
    """Logs of brokers name the machine that they ran on; of some the lines of the cleaner and of retention are kept."""
    name = relative.rpartition("/")[2]
    return name.startswith("broker") and name.endswith((".log", ".log.gz")) and relative != _BROKER_LOG


def _copy(tar: tarfile.TarFile, member: tarfile.TarInfo, part: tarfile.TarFile) -> None:
    content = b""
    if member.isfile():
        stream = tar.extractfile(member)
        content = stream.read() if stream else b""
        if member.name.endswith("/fault.json"):
            content = _without_stop(content)
        elif member.name.endswith((f"/{_BROKER_LOG}", ".cleaner.log", "/retention.log")):
            content = _of_cleaner(content)
        _refuse_machine_paths(member.name, content)
    info = tarfile.TarInfo(member.name)
    info.size = len(content)
    info.type = member.type
    info.mode = member.mode
    info.mtime = member.mtime
    part.addfile(info, io.BytesIO(content))


def _of_cleaner(content: bytes) -> bytes:
    """The lines of a broker's log that say what its cleaner and its retention did."""
    packed = content.startswith(_GZIP)
    lines = (gzip.decompress(content) if packed else content).splitlines(keepends=True)
    kept = b"".join(line for line in lines if _CLEANER_LINE.search(line))
    return gzip.compress(kept, mtime=0) if packed else kept


def _without_stop(content: bytes) -> bytes:
    """A fault's sheet without the state that the fixtures do not hold: after the broker's stop."""
    sheet = json.loads(content)
    for name in ("after_stop", "manifest_after_stop"):
        sheet.pop(name, None)
    return json.dumps(sheet, sort_keys=True).encode()


def _refuse_machine_paths(name: str, content: bytes) -> None:
    if name.endswith(".tar.gz"):
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            for member in tar:
                if member.isfile() and (stream := tar.extractfile(member)):
                    _refuse_machine_paths(f"{name}/{member.name}", stream.read())
        return
    text = gzip.decompress(content) if name.endswith(".gz") else content
    if match := _MACHINE_PATH.search(text):
        sys.exit(
            f"{name}: a path of a machine at byte {match.start()}: {text[match.start() - 40 : match.end() + 40]!r}"
        )


if __name__ == "__main__":
    main()
