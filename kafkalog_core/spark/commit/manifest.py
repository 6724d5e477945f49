"""The manifests and states of an output's commits, and the checks of where an output may be.

An output is in a new or empty directory or in its own, never within a broker's directories.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalog_core.errors import NotFoundError, RefusedError
from kafkalog_core.storage.changing.space import broker_dir_around
from kafkalog_core.storage.source import open_error
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "INNER",
    "SUCCESS",
    "FileFacts",
    "Manifest",
    "Part",
    "check_place",
    "commit_numbers",
    "commit_path",
    "live_files",
    "lost_files",
    "read_commit",
    "read_manifest",
    "read_state",
    "refuse_inside",
    "settled_number",
    "state_path",
]


def check_place(path: str, kind: str) -> None:
    """Raise RefusedError for a path that is not a directory, is another job's output, or holds other files."""
    _refuse_log_dir(path)
    if not os.path.lexists(path):
        return
    if not os.path.isdir(path):
        raise RefusedError("this is a file, not a directory; name another directory with --to", path=path)
    numbers = commit_numbers(path)
    if numbers:
        there = read_commit(path, numbers[-1]).kind
        if there != kind:
            raise RefusedError(
                f"this directory holds the output of another job, {there}, not {kind}; name another one with --to",
                path=path,
            )
        return
    file = _first_file(path)
    if file is not None:
        raise RefusedError(
            f"this directory is not empty and not an output of this job: it holds {file!r}; name a new or empty "
            "directory with --to",
            path=path,
        )


def refuse_inside(path: str, sources: Iterable[str]) -> None:
    """Raise RefusedError for an output within a directory that is read: the next run would read it too."""
    there = os.path.realpath(path)
    for source in sources:
        if f"{there}/".startswith(f"{os.path.realpath(source).rstrip('/')}/"):
            raise RefusedError(
                f"this directory is within {source}, which is read; name a directory outside it with --to", path=path
            )


def _first_file(path: str) -> str | None:
    """Return any file that is not kafkalog's; a run that ended early leaves only empty directories next to its own."""
    try:
        with os.scandir(path) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.name == INNER:
                    continue
                if not entry.is_dir(follow_symlinks=False):
                    return entry.name
                inside = _first_file(entry.path)
                if inside is not None:
                    return f"{entry.name}/{inside}"
    except OSError as error:
        raise open_error(path, error) from error
    return None


def _refuse_log_dir(path: str) -> None:
    """Raise RefusedError for an output within Kafka's directories: unknown directories stop a broker."""
    around = broker_dir_around(os.path.realpath(path))
    if around is not None:
        raise RefusedError(
            f"this directory is within Kafka's own directory {around}; name a directory outside it with --to", path=path
        )


INNER: Final = "_kafkalog"
SUCCESS: Final = "_SUCCESS"
FORMAT: Final = "kafkalog-commit"
VERSION: Final = 1
_WRITE_AGAIN: Final = "write the output again into a new directory: --to DIR"
_COMMIT_NAME: Final = re.compile(r"(\d{8,})\.json")


class Part(NamedTuple):
    """One file of a commit.

    `staged` is its name in the run's staging directory, `name` its final path relative to the output, separated by `/`.
    `info` is JSON that the caller wants to read later.
    """

    staged: str
    name: str
    rows: int
    size_bytes: int
    info: Mapping[str, Any] = {}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Part:
        """Return the part from its JSON object. Raises KeyError, TypeError or ValueError for any other value."""
        info = value["info"]
        if not isinstance(info, dict):
            raise TypeError("info is not an object")
        return cls(str(value["staged"]), str(value["name"]), int(value["rows"]), int(value["size_bytes"]), info)

    def to_json(self) -> dict[str, object]:
        """Return the JSON object of the part."""
        return {**self._asdict(), "info": dict(self.info)}


class FileFacts(NamedTuple):
    """A file of the output, and the number of the commit that added it."""

    rows: int
    size_bytes: int
    info: Mapping[str, Any]
    commit: int


class Manifest(Struct, frozen=True, kw_only=True):
    """One commit.

    Args:
        kind: the job whose output this is: `export` or `catalog`.
        number: number of the commit, from 1.
        run: id of the run, which is the name of its staging directory.
        made_ms: time of the commit, in ms since 1970.
        adds: files that the commit adds.
        removes: names of files of earlier commits that it removes.
        state_sha256: SHA-256 of the file with the state after the commit.
        facts: further JSON about the commit.
    """

    kind: str
    number: int
    run: str
    made_ms: int
    adds: tuple[Part, ...]
    removes: tuple[str, ...]
    state_sha256: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return the contents of the manifest's file."""
        value = {
            "format": FORMAT,
            "version": VERSION,
            "kind": self.kind,
            "number": self.number,
            "run": self.run,
            "made_ms": self.made_ms,
            "facts": dict(self.facts),
            "state_sha256": self.state_sha256,
            "removes": list(self.removes),
            "adds": [part.to_json() for part in self.adds],
        }
        return (json.dumps(value, indent=1) + "\n").encode()

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Manifest:
        """Return the manifest from its JSON object. Raises KeyError, TypeError or ValueError for any other value."""
        return cls(
            kind=str(value["kind"]),
            number=int(value["number"]),
            run=str(value["run"]),
            made_ms=int(value["made_ms"]),
            adds=tuple(Part.from_json(part) for part in value["adds"]),
            removes=tuple(str(name) for name in value["removes"]),
            state_sha256=str(value["state_sha256"]),
            facts=dict(value["facts"]),
        )


def commit_path(output: str, number: int) -> str:
    """Return the path of a commit's manifest."""
    return f"{output}/{INNER}/commits/{number:08d}.json"


def state_path(output: str, number: int) -> str:
    """Return the path of the state after a commit."""
    return f"{output}/{INNER}/states/{number:08d}.json"


def commit_numbers(output: str) -> list[int]:
    """Return the numbers of an output's commits, in order; empty: it is not an output. Raises AccessError."""
    path = f"{output}/{INNER}/commits"
    try:
        names = os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise open_error(path, error) from error
    return sorted(int(match[1]) for name in names if (match := _COMMIT_NAME.fullmatch(name)))


def read_commit(output: str, number: int) -> Manifest:
    """Return a commit. Raises NotFoundError, AccessError, or RefusedError if its manifest was changed."""
    path = commit_path(output, number)
    value = _json_object(path, _read(path))
    if value.get("format") != FORMAT:
        raise RefusedError(
            f"not a commit of kafkalog: its format is {value.get('format')!r}; {_WRITE_AGAIN}", path=path
        )
    if value.get("version") != VERSION:
        version = value.get("version")
        raise RefusedError(f"another release of kafkalog wrote it, version {version!r}; {_WRITE_AGAIN}", path=path)
    try:
        return Manifest.of(value)
    except (KeyError, TypeError, ValueError) as error:
        raise RefusedError(
            f"not a commit of kafkalog, or changed since: {error!r}; {_WRITE_AGAIN}", path=path
        ) from error


def read_state(output: str, manifest: Manifest) -> dict[str, Any]:
    """Return the state after a commit. Raises NotFoundError, AccessError, or RefusedError if the file was changed."""
    path = state_path(output, manifest.number)
    data = _read(path)
    if hashlib.sha256(data).hexdigest() != manifest.state_sha256:
        raise RefusedError(f"changed since commit {manifest.number} wrote it; {_WRITE_AGAIN}", path=path)
    return _json_object(path, data)


def read_manifest(output: str) -> Manifest:
    """Return the last commit of an output, without taking a lock or writing.

    Raises NotFoundError if nothing was ever committed, AccessError, RefusedError.
    """
    numbers = commit_numbers(output)
    if not numbers:
        raise NotFoundError("this is not an output of kafkalog: it has no commits", path=output)
    return read_commit(output, numbers[-1])


def live_files(path: str) -> dict[str, FileFacts]:
    """Return the files of all commits that no later commit removed, by name."""
    found: dict[str, FileFacts] = {}
    for number in commit_numbers(path):
        manifest = read_commit(path, number)
        for part in manifest.adds:
            found[part.name] = FileFacts(part.rows, part.size_bytes, part.info, number)
        for name in manifest.removes:
            found.pop(name, None)
    return found


def lost_files(path: str) -> dict[str, FileFacts]:
    """Return the data files that are missing or have another size than when they were committed."""
    return {
        name: facts
        for name, facts in live_files(path).items()
        if not name.startswith(f"{INNER}/") and _size_of(f"{path}/{name}") != facts.size_bytes
    }


def _size_of(path: str) -> int | None:
    try:
        return os.stat(path).st_size
    except OSError:
        return None


def settled_number(output: str) -> int:
    """Return the number of the commit that `_SUCCESS` names; 0: none. Raises AccessError."""
    path = f"{output}/{SUCCESS}"
    try:
        value = _json_object(path, _read(path))
    except (NotFoundError, RefusedError):
        return 0
    number = value.get("commit")
    return number if isinstance(number, int) else 0


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise open_error(path, error) from error


def _json_object(path: str, data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError as error:  # Unicode's too
        raise RefusedError(f"not JSON: {error}; {_WRITE_AGAIN}", path=path) from error
    if not isinstance(value, dict):
        raise RefusedError(f"not a JSON object; {_WRITE_AGAIN}", path=path)
    return value
