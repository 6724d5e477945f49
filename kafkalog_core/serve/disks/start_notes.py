"""What the user should know about directories before clients connect: who else writes there, what cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.storage.access import denial
from kafkalog_core.storage.locks import lock_holder
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.kafka.sim.logdir.top_files import BrokerDir

__all__ = ["finding_notes", "holder_notes", "is_text", "undecodable_notes", "unreadable_notes"]

_MOST: Final = 5


def holder_notes(log_dirs: Iterable[str]) -> Iterator[str]:
    """Yield a warning for each log directory that another process writes to while it is served read-only."""
    for path in log_dirs:
        holder = lock_holder(path)
        if holder is not None:
            yield (
                f"warning: {path}: {holder.sentence}, holds the lock and may write there: each log is served as it was "
                "when a client first used it, and may look damaged at its end; read from that broker, or stop it first"
            )


def finding_notes(broker_dir: BrokerDir) -> Iterator[str]:
    """Yield a warning for each of the first errors in the files of a log directory itself, such as meta.properties."""
    errors = [each for each in broker_dir.findings if each.severity == "error"]
    if broker_dir.meta is None and broker_dir.is_kraft:
        yield (
            f"warning: {broker_dir.path}: there is no meta.properties, so clients see made-up ids of cluster and "
            f"broker; a broker does not start without it (kafkalog verify {broker_dir.path} shows what to do)"
        )
    for each in errors[:_MOST]:
        yield f"warning: {each.path}: {each.message} ({each.code}: kafkalog verify {broker_dir.path} shows what to do)"
    if len(errors) > _MOST:
        yield f"warning: {broker_dir.path}: {count_of(len(errors) - _MOST, 'more error')}; kafkalog verify lists them"


def unreadable_notes(partitions: Iterable[str]) -> Iterator[str]:
    """Yield a warning if this user may not read some of the partition directories."""
    denied = [error for path in partitions if (error := denial(path, is_directory=True)) is not None]
    if denied:
        have = "1 partition has" if len(denied) == 1 else f"{len(denied)} partitions have"
        yield f"warning: {have} no leader: {denied[0]}"


def is_text(name: str) -> bool:
    """Return whether a name of a file is UTF-8, as every name in Kafka's protocol is."""
    return name.isascii() or not any("\ud800" <= each <= "\udfff" for each in name)


def undecodable_notes(names: Iterable[str]) -> Iterator[str]:
    """Yield a note about partition directories whose names the protocol cannot hold."""
    found = [each for each in names if not is_text(each)]
    if found:
        shown = found[0].encode(errors="replace").decode()
        yield f"not served: {count_of(len(found), 'directory')} whose name is not UTF-8, such as {shown}"
