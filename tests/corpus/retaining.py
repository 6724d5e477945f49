"""What real brokers' retention found, and what it left, partition by partition: nothing here is of this project's code.

Old cases: a broker ran between two copies with a short check interval and a long delay of deletion, so what it took
away is there as `.deleted` files. Where the cleaner ran first, they hold what it had made. Modern case: all of the copy
before, with the settings and the log start offsets of the sheet, which were altered afterwards.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from tests.corpus import cleaning
from tests.corpus.cleaner_logs import LoggedDeletion, deletions
from tests.support.corpus import archives

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_LOG: Final = "/retention.log"
_BESIDE: Final = (
    "meta.properties",
    ".kafka_cleanshutdown",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
_ENDING: Final = ".deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One partition that a broker's retention went over.

    Args:
        case: its path in the corpus.
        partition: its directory's name.
        release: of the broker.
        config: the broker's settings.
        topic_config: what the topic is configured with.
        now_ms: when the broker looked.
        start_offset: what a client had made the log start; null: nobody did.
        beside: the log directory whose checkpoints were in force.
        found: file name -> where its bytes are in the corpus.
        deleted: base offsets of the segments that were taken away.
        after: the partition's directory as it was left, in the corpus.
        mtimes: modification times in milliseconds by path in the corpus, finer than an archive keeps them.
    """

    case: str
    partition: str
    release: str
    config: Mapping[str, str]
    topic_config: Mapping[str, str]
    now_ms: int
    start_offset: int | None
    beside: str
    found: Mapping[str, str]
    deleted: frozenset[int]
    after: str
    mtimes: Mapping[str, int]

    @property
    def id(self) -> str:
        """Name of the test, and of lines in lists."""
        return f"{self.case}/{self.partition}"

    @property
    def topic(self) -> str:
        """Of the partition."""
        return self.partition.rpartition("-")[0]

    def options(self, into: Path) -> dict[str, Any]:
        """The option `kafka` of a plan: the release and the settings in force."""
        path = into / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in self.config.items()))
        return {
            "kafka": self.release,
            "config": str(path),
            "assignments": [],
            "topic_assignments": [f"{self.topic}:{key}={value}" for key, value in self.topic_config.items()],
            "assume_defaults": True,  # the topic was created with these values and no others
        }

    def lay(self, corpus: Path, into: Path) -> Path:
        """Put what was found below a directory, as a log directory with this partition alone."""
        directory = into / self.partition
        directory.mkdir(parents=True)
        for name, path in self.found.items():
            shutil.copy2(corpus / path, directory / name)
            mtime = self.mtimes.get(path)
            if mtime is not None:
                os.utime(directory / name, ns=(mtime * 1_000_000, mtime * 1_000_000))
        for name in _BESIDE:
            source = corpus / self.beside / name
            if source.exists():
                shutil.copy2(source, into / name)
        if self.start_offset is not None:
            line = f"{self.topic} {self.partition.rpartition('-')[2]} {self.start_offset}"
            (into / "log-start-offset-checkpoint").write_text(f"0\n1\n{line}\n")
        return into


def kept() -> list[Kept]:
    """All of them, in a stable order."""
    contents = archives.contents(archives.source())
    found = [each for stay in cleaning.stays() for each in _old(stay, contents.files)]
    for path, text in contents.logs.items():
        if path.endswith(_LOG):
            found += _modern(path.removesuffix(_LOG), text.decode(), contents)
    return sorted(found, key=lambda each: each.id)


def _old(stay: cleaning.Stay, files: frozenset[str]) -> Iterator[Kept]:
    """Partitions of topics with `delete` among their policies, in runs where retention had something to do."""
    gone = [event for event in stay.session.events if isinstance(event, LoggedDeletion)]
    if not gone:
        return
    last_ms = max(event.at_ms for event in gone)
    for topic, values in stay.topics.items():
        if "delete" not in values.get("cleanup.policy", "delete").split(","):
            continue
        partition = f"{topic}-0"
        directory = f"{stay.after}/{partition}/"
        names = [name.removeprefix(directory) for name in files if name.startswith(directory)]
        here = [event for event in gone if event.partition == partition]
        deleted = {f"{event.base:020d}" for event in here}
        found = {
            name.removesuffix(_ENDING): f"{directory}{name}"
            for name in names
            if name.endswith(_ENDING) == (name.partition(".")[0] in deleted) and name[:20].isdigit()
        }
        found |= {name: f"{directory}{name}" for name in names if name == "leader-epoch-checkpoint"}
        if not any(name.endswith(".log") for name in found):
            continue
        before = f"{stay.before}/{partition}/"
        found |= {name: f"{before}{name}" for name in _snapshots(files, before)}
        yield Kept(
            case=f"{stay.case}/{stay.name}",
            partition=partition,
            release=stay.release,
            config=stay.config,
            topic_config=values,
            now_ms=max((event.at_ms for event in here), default=last_ms),
            start_offset=None,
            beside=stay.before,
            found=found,
            deleted=frozenset(event.base for event in here),
            after=directory.rstrip("/"),
            mtimes=stay.mtimes,
        )


def _snapshots(files: frozenset[str], directory: str) -> list[str]:
    names = [name.removeprefix(directory) for name in files if name.startswith(directory)]
    return [name for name in names if name.endswith(".snapshot")]


def _modern(case: str, log: str, contents: archives.Contents) -> Iterator[Kept]:
    sheet = json.loads(contents.texts[f"{case}/case.json"])
    gone = deletions(log)
    altered: Mapping[str, Mapping[str, object]] = sheet["settings_altered_afterwards"]
    steps = [step for step in sheet["steps_2"] if step["op"] == "deleteRecords"]
    moved = [topic for topic in sheet["topic_configs"] if ".delete_records." in topic]
    starts = dict(zip(moved, (step["result"]["lowWatermark"] for step in steps), strict=True))
    for topic, values in sheet["topic_configs"].items():
        partition = f"{topic}-0"
        before, after = f"{case}/before/{partition}", f"{case}/after/{partition}"
        names = [name for name in contents.files if name.startswith(f"{before}/")]
        here = [event for event in gone if event.partition == partition]
        if not names or not any(name.startswith(f"{after}/") for name in contents.files):
            continue
        yield Kept(
            case=case,
            partition=partition,
            release=sheet["kafka"],
            config={key: str(value) for key, value in sheet["server_props"].items()},
            topic_config={key: str(value) for key, value in {**values, **altered.get(topic, {})}.items()},
            now_ms=max((event.at_ms for event in here), default=sheet["retention_ran_between_ms"][1]),
            start_offset=starts.get(topic),
            beside=f"{case}/before",
            found={PurePosixPath(name).name: name for name in names},
            deleted=frozenset(event.base for event in here),
            after=after,
            mtimes={},
        )
