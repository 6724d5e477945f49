"""Which kind of `untraceable` a change is of that nothing proves, by the file that changed and the log it is of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.ops.verify.injected_log import Broker
    from tests.ops.verify.injection import Damage

__all__ = ["silent_kinds", "warned_kinds"]

_AT_THE_TOP: Final = {
    "replication-offset-checkpoint": "high-watermark",
    "recovery-point-offset-checkpoint": "recovery-point-after-a-crash",
    "cleaner-offset-checkpoint": "cleaner-offset",
    "log-start-offset-checkpoint": "spelling",
    "meta.properties": "ids-of-one-directory",
    ".kafka_cleanshutdown": "clean-mark",
}
_IN_A_PARTITION: Final = {
    "index": "offset-index-entry",
    "timeindex": "time-index-entry",
    "snapshot": "producer-of-a-snapshot",
    "metadata": "topic-id",
}
_LOGS: Final = {
    "compacted": "batch-of-a-compacted-log",
    "crashed": "end-after-a-crash",
    "legacy": "start-of-an-old-log",
    "mixed": "leader-epoch-of-an-old-log",
}


def silent_kinds(broker: Broker, files: dict[str, bytes], damage: Damage) -> set[str]:
    """Kinds of what says nothing: one for each changed file, but for companions of a log that went with it."""
    changed = [name for name, data in damage.changes.items() if files.get(name) != data]
    logs = [name for name in changed if name.endswith(".log")]
    return {_silent(broker, files, name, damage) for name in logs or changed}


def _silent(broker: Broker, files: dict[str, bytes], name: str, damage: Damage) -> str:
    suffix = name.rpartition(".")[2]
    data = damage.changes[name]
    if "/" not in name:
        is_same = data is not None and _values(files[name]) == _values(data)
        return "spelling" if is_same else _AT_THE_TOP[name]
    if suffix == "log":
        return _LOGS[broker.flavour]
    if name.endswith("leader-epoch-checkpoint"):
        is_same = data is not None and _values(files[name]) == _values(data)
        of_log = "leader-epoch-of-a-compacted-log" if broker.flavour == "compacted" else "leader-epoch-of-an-old-log"
        return "spelling" if is_same else of_log
    if suffix == "snapshot" and (data is None or name not in files):
        return "older-snapshot"
    if suffix == "snapshot" and broker.flavour == "compacted":
        return "snapshot-of-a-compacted-log"
    return _IN_A_PARTITION[suffix]


def _values(data: bytes) -> list[bytes]:
    """What a text file says, whatever the order of its lines and the blanks in them."""
    return sorted(b" ".join(line.split()) for line in data.split(b"\n") if line and not line.startswith((b"#", b"!")))


def warned_kinds(broker: Broker, files: dict[str, bytes], damage: Damage) -> set[str]:
    """Kinds of what is a warning; some of the files alone may be the reason."""
    return {_warned(broker, name, damage) for name, data in damage.changes.items() if files.get(name) != data}


def _warned(broker: Broker, name: str, damage: Damage) -> str:
    suffix = name.rpartition(".")[2]
    if name == ".kafka_cleanshutdown":
        return "words-of-the-mark"
    if "/" not in name:
        return "line-of-a-partition" if damage.changes[name] else "checkpoint-after-a-crash"
    if suffix == "log":
        return _warned_log(broker, name, damage)
    if suffix in {"index", "timeindex"}:
        return "index-of-the-active-segment" if damage.changes[name] is None else "index-after-a-crash"
    if suffix == "snapshot":
        return "snapshot-after-a-crash"
    return "checkpoint-after-a-crash"


def _warned_log(broker: Broker, name: str, damage: Damage) -> str:
    if damage.changes[name] is not None:
        return "batch-in-one-place"
    is_whole = sum(other.startswith(name.removesuffix("log")) for other in damage.changes) > 1
    return "checkpoint-after-a-crash" if is_whole and not broker.is_clean else "index-without-a-log"
