"""meta.properties: bad lines go, and what is missing is taken from where the same broker says it.

The sources, the surest first: the file's own good lines, meta.properties of the broker's other log directories, its
server.properties. A directory.id that is lost is the one that the broker registered with, by the cluster's metadata
log, and that none of its other directories has. It is not made up: with a new one the cluster does not find the
partitions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kafkalog_core.findings import found
from kafkalog_core.format.names import FileKind
from kafkalog_core.format.properties import PropertyFile, read_meta_properties
from kafkalog_core.format.property_text import encode_meta_properties, mend_meta_properties
from kafkalog_core.format.textfile import parse_int32
from kafkalog_core.ops.mending.mend import Mend, Verdict, read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.logdirs.brokerdir import BrokerDir

__all__ = ["MetaSources", "mend_meta"]

_WORDS: Final = ("bad-directory-id", "bad-node-id", "malformed-line", "missing-key", "unsupported-version")
_CODES: Final = frozenset(
    {*(f"meta.{word}" for word in _WORDS), "meta.missing", "meta.missing-kraft", "meta.no-broker-id", "meta.no-version"}
)
_ID_KEYS: Final = ("node.id", "broker.id")
_DIRECTORY_ID: Final = "directory.id"
_VERSIONS: Final = {"1": "node.id", "0": "broker.id"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaSources:
    """Where else ids stand.

    Args:
        beside: other log directories of the broker.
        server: its server.properties, as far as it is known.
        registered_dirs: ids of the log directories that a node registered with; empty: not known.
    """

    beside: Sequence[BrokerDir]
    server: Mapping[str, str]
    registered_dirs: Callable[[str | None], Sequence[str]]


def mend_meta(broker_dir: BrokerDir, findings: tuple[Finding, ...], sources: Callable[[], MetaSources]) -> Mend | None:
    """What becomes of the file; null: there is none, and none is missed.

    Args:
        broker_dir: the log directory.
        findings: those about the file.
        sources: asked where the file is bad.
    """
    meta, path = broker_dir.meta, broker_dir.meta_path
    if meta is None and not findings:
        return None
    mend = Mend(
        path=path,
        kind=FileKind.META_PROPERTIES,
        entries=None if meta is None else len(meta.contents.properties),
        findings=findings,
        mended=_CODES,
    )
    if not any(finding.code in _CODES for finding in findings):
        return mend if meta is not None else replace(mend, verdict="missing")
    data = b"" if meta is None else read_text(path)
    if data is None:
        return replace(mend, verdict="left")
    return _Meta(broker_dir, data, sources()).mended(mend)


class _Meta:
    """One file under repair."""

    def __init__(self, broker_dir: BrokerDir, data: bytes, sources: MetaSources) -> None:
        self._broker_dir = broker_dir
        self._data = data
        self._file = PropertyFile() if broker_dir.meta is None else broker_dir.meta.contents
        self._sources = sources
        self._others = [other for other in sources.beside if other.meta is not None and not other.meta.is_refused]
        self._bad: dict[int, str] = {line.line: line.problem for line in self._file.malformed}
        self._new: dict[str, tuple[str, str]] = {}

    def mended(self, mend: Mend) -> Mend:
        """New content, checked with the rules of a broker; else a refusal that says what is missing."""
        version = self._version()
        id_key = _VERSIONS[version]
        self._keep_or_add("version", version, "as the other keys are of this version", lambda text: text == version)
        node_id = self._known(_ID_KEYS)
        self._keep_or_add(id_key, node_id[0], node_id[1], lambda text: parse_int32(text) is not None)
        cluster_id = self._known(("cluster.id",))
        self._keep_or_add("cluster.id", cluster_id[0], cluster_id[1], bool)
        is_lost = version == "1" and not self._keep_or_find_directory_id(node_id[0])
        if self._data:
            content, edits = mend_meta_properties(self._data, self._bad, self._new)
        else:
            content = encode_meta_properties((key, value) for key, (value, _) in self._new.items())
            edits = mend_meta_properties(b"", {}, self._new)[1]
        refusal = read_meta_properties(content).refusal
        is_whole = refusal is None and (version != "0" or id_key in self._new or self._file.get(id_key) is not None)
        if not is_whole:
            problem = refusal.problem if refusal is not None else f"there is no {id_key}"
            return replace(mend, verdict="left", refusals=(found("meta.not-known", mend.path, problem=problem),))
        refusals = (found("meta.directory-id-lost", mend.path),) if is_lost else ()
        verdict: Verdict = "mended" if edits else "left"
        return replace(mend, verdict=verdict, content=content if edits else None, edits=edits, refusals=refusals)

    def _version(self) -> str:
        """1 where a KRaft node says so, else 0, by the keys and by what lies in the directory."""
        text = self._file.get("version")
        if text in _VERSIONS:
            return text
        for others in (self._file, *(other.meta.contents for other in self._others if other.meta is not None)):
            for version, key in _VERSIONS.items():
                if others.get(key) is not None:
                    return version
        return "1" if self._broker_dir.is_kraft else "0"

    def _keep_or_add(self, key: str, value: str | None, source: str, is_good: Callable[[str], bool]) -> None:
        """Leave a good line as it is; put another one in the place of a bad or a lost one."""
        known = self._file.get(key)
        if known is not None and is_good(known):
            return
        self._bad |= {item.line: f"{item.value!r} is no {key}" for item in self._file.properties if item.key == key}
        if value is not None and is_good(value):
            self._new[key] = value, source

    def _known(self, keys: Sequence[str]) -> tuple[str | None, str]:
        """A value of another place of the same broker, and which place that is."""
        for other in self._others:
            contents = PropertyFile() if other.meta is None else other.meta.contents
            value = next((text for key in keys if (text := contents.get(key)) is not None), None)
            if value is not None:
                return value, f"as in {other.meta_path}"
        value = next((self._sources.server[key] for key in keys if key in self._sources.server), None)
        return value, "as in server.properties"

    def _keep_or_find_directory_id(self, node_id: str | None) -> bool:
        """Whether the id of the directory is known: by the file, else as the one registered that no other one has."""
        bad = [item for item in self._file.properties if item.key == _DIRECTORY_ID and _is_refused_id(item.value or "")]
        self._bad |= {item.line: "no id of a directory" for item in bad}
        if not bad and self._file.get(_DIRECTORY_ID) is not None:
            return True
        known = self._file.get("node.id") or node_id
        others = {other.directory_id for other in self._others}
        left = [each for each in self._sources.registered_dirs(known) if each not in others]
        if len(left) == 1:
            self._new[_DIRECTORY_ID] = left[0], "the one that the broker registered with and no other directory has"
        return len(left) == 1


def _is_refused_id(text: str) -> bool:
    file = read_meta_properties(f"broker.id=0\ndirectory.id={text}\n".encode("latin-1", "backslashreplace"))
    return file.refusal is not None
