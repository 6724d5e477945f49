"""Where an output may be: in a new or empty directory, or in its own; never inside of a broker's."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalog_core.errors import NotFoundError, RefusedError
from kafkalog_core.storage.changing.space import broker_dir_around
from kafkalog_core.storage.source import open_error

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
    """Refuse what is no directory, is another output, or holds other people's files."""
    _refuse_log_dir(path)
    if not os.path.lexists(path):
        return
    if not os.path.isdir(path):
        raise RefusedError("is a file and not a directory; name another directory with --to", path=path)
    numbers = commit_numbers(path)
    if numbers:
        there = read_commit(path, numbers[-1]).kind
        if there != kind:
            raise RefusedError(
                f"holds the output of another job: {there}, not {kind}; name another directory with --to", path=path
            )
        return
    file = _first_file(path)
    if file is not None:
        raise RefusedError(
            f"not empty, and nothing that a run of this job has made: it holds {file!r}; name a new or empty "
            f"directory with --to",
            path=path,
        )


def refuse_inside(path: str, sources: Iterable[str]) -> None:
    """Raise RefusedError for an output inside of what is read: the next run would read it too."""
    there = os.path.realpath(path)
    for source in sources:
        if f"{there}/".startswith(f"{os.path.realpath(source).rstrip('/')}/"):
            raise RefusedError(
                f"is within {source}, which is read; name a directory outside of it with --to", path=path
            )


def _first_file(path: str) -> str | None:
    """Any file of somebody else's; a run that died early has left nothing but empty directories beside its own."""
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
    """A foreign directory at the top of a log directory stops a broker; in a partition it has no business either."""
    around = broker_dir_around(os.path.realpath(path))
    if around is not None:
        raise RefusedError(f"is within Kafka's own directory {around}; name one outside of it with --to", path=path)


INNER: Final = "_kafkalog"
SUCCESS: Final = "_SUCCESS"
FORMAT: Final = "kafkalog-commit"
VERSION: Final = 1
_ANEW: Final = "write the output again into a new directory: --to DIR"
_COMMIT_NAME: Final = re.compile(r"(\d{8,})\.json")


class Part(NamedTuple):
    """One file of a commit.

    `staged` is its name in the run's staging directory, `name` its final path below the output, `/` between the parts.
    `info` is whatever the caller wants to know about it later, as JSON.
    """

    staged: str
    name: str
    rows: int
    size_bytes: int
    info: Mapping[str, Any] = {}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Part:
        """Raises KeyError, TypeError or ValueError for anything else than `to_json` gave."""
        info = value["info"]
        if not isinstance(info, dict):
            raise TypeError("info is no object")
        return cls(str(value["staged"]), str(value["name"]), int(value["rows"]), int(value["size_bytes"]), info)

    def to_json(self) -> dict[str, object]:
        """As JSON has it."""
        return {**self._asdict(), "info": dict(self.info)}


class FileFacts(NamedTuple):
    """A file that is there now, and the number of the commit that brought it."""

    rows: int
    size_bytes: int
    info: Mapping[str, Any]
    commit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One commit.

    Args:
        kind: what the directory holds: `export`, `catalog`, ...
        number: of the commit, from 1.
        run: the id of the run that made it, which is the name of its staging directory.
        made_ms: when, in ms since 1970.
        adds: files that it brought.
        removes: names of files of earlier commits that it took away.
        state_sha256: of the file that holds the state after it.
        facts: what the run wants to be known about it, as JSON.
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
        """The text of its file."""
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
        """Raises KeyError, TypeError or ValueError for anything else than `to_bytes` gave."""
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
    """Path of a commit's file."""
    return f"{output}/{INNER}/commits/{number:08d}.json"


def state_path(output: str, number: int) -> str:
    """Path of the state after a commit."""
    return f"{output}/{INNER}/states/{number:08d}.json"


def commit_numbers(output: str) -> list[int]:
    """The numbers of its commits, in order; none where it is no output. Raises AccessError."""
    path = f"{output}/{INNER}/commits"
    try:
        names = os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise open_error(path, error) from error
    return sorted(int(match[1]) for name in names if (match := _COMMIT_NAME.fullmatch(name)))


def read_commit(output: str, number: int) -> Manifest:
    """One commit. Raises NotFoundError, AccessError, or RefusedError where its file is not what a run has written."""
    path = commit_path(output, number)
    value = _json_object(path, _read(path))
    if value.get("format") != FORMAT:
        raise RefusedError(f"no commit of kafkalog: its format is {value.get('format')!r}; {_ANEW}", path=path)
    if value.get("version") != VERSION:
        raise RefusedError(f"of another release of kafkalog, version {value.get('version')!r}; {_ANEW}", path=path)
    try:
        return Manifest.of(value)
    except (KeyError, TypeError, ValueError) as error:
        raise RefusedError(f"no commit of kafkalog, or changed since: {error!r}; {_ANEW}", path=path) from error


def read_state(output: str, manifest: Manifest) -> dict[str, Any]:
    """The state after a commit. Raises NotFoundError, AccessError, or RefusedError where the file was changed."""
    path = state_path(output, manifest.number)
    data = _read(path)
    if hashlib.sha256(data).hexdigest() != manifest.state_sha256:
        raise RefusedError(f"is not what commit {manifest.number} has written; {_ANEW}", path=path)
    return _json_object(path, data)


def read_manifest(output: str) -> Manifest:
    """The last commit of an output; takes no lock and writes nothing.

    Raises NotFoundError where nothing was ever committed, AccessError, RefusedError.
    """
    numbers = commit_numbers(output)
    if not numbers:
        raise NotFoundError("nothing has been committed here: it is no output of kafkalog", path=output)
    return read_commit(output, numbers[-1])


def live_files(path: str) -> dict[str, FileFacts]:
    """All files of all commits that no later one took away, by name."""
    found: dict[str, FileFacts] = {}
    for number in commit_numbers(path):
        manifest = read_commit(path, number)
        for part in manifest.adds:
            found[part.name] = FileFacts(part.rows, part.size_bytes, part.info, number)
        for name in manifest.removes:
            found.pop(name, None)
    return found


def lost_files(path: str) -> dict[str, FileFacts]:
    """Those of the data's live files that are not there, or not of their size: somebody else was at work there."""
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
    """The commit that `_SUCCESS` names; 0 where there is none that says so. Raises AccessError."""
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
        raise RefusedError(f"not JSON: {error}; {_ANEW}", path=path) from error
    if not isinstance(value, dict):
        raise RefusedError(f"not a JSON object; {_ANEW}", path=path)
    return value
