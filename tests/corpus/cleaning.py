"""What real cleaners found and what they made of it, pass by pass: nothing here comes from this project's own code.

A copy of a log directory was taken before a broker ran with its cleaner on, and one after it. In between there may have
been several passes, and records may have been appended. The broker's log names each pass with its range and its
segments. What a pass found is in the first copy or, renamed by the broker itself, in the `.deleted` files of the second
one; what it made is in the second one. A segment that a later pass took the place of twice is gone: see `Pair.lost`.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from tests.corpus.cleaner_logs import LoggedPass, Session, sessions
from tests.corpus.histories import History
from tests.support.corpus import archives

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.support.corpus.archives import Contents

_CLEANER_LOG: Final = re.compile(r"(?P<case>.+)/(?P<stage>after-(?P<number>\d+))\.cleaner\.log")
_BROKER_LOG: Final = "/broker.log.gz"
_START: Final = re.compile(r"broker \S+ started with")
_CREATE: Final = re.compile(r"(?:create|alter) topic (\S+) (?:partitions=\d+ )?(\{.*\})$")
_ALL_TOPICS: Final = re.compile(r"topic config (\S+?)=(\S+) on all topics")
_COPIED: Final = re.compile(r"copy log dir as stage (\S+)")
_WROTE: Final = re.compile(r"produce |manual commits |transactional producer")
_OWN_TOPICS: Final = {
    "__consumer_offsets": "offsets.topic.segment.bytes",
    "__transaction_state": "transaction.state.log.segment.bytes",
}
_OF_NO_MATTER: Final = ("compression.type", "message.format.version")
"""A cleaner keeps codec and magic; nothing that this project does depends on them."""
_CHECKPOINTS: Final = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")
_BESIDE: Final = ("meta.properties", ".kafka_cleanshutdown", "log-start-offset-checkpoint", *_CHECKPOINTS)
_HAS_HORIZON: Final = 0x40


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """A broker that ran with its cleaner on, between two copies of its log directory.

    Args:
        case: its path in the corpus.
        name: of the copy afterwards, below the case.
        release: of the broker.
        before: the log directory as it was found.
        after: as it was left.
        config: the broker's settings.
        topics: what each topic is configured with.
        session: what its log says.
        wrote: records were appended meanwhile.
        mtimes: modification times in milliseconds by path in the corpus, finer than an archive keeps them.
    """

    case: str
    name: str
    release: str
    before: str
    after: str
    config: Mapping[str, str]
    topics: Mapping[str, Mapping[str, str]]
    session: Session
    wrote: bool
    mtimes: Mapping[str, int]

    def options(self, into: Path, topic: str) -> dict[str, Any]:
        """The option `kafka` of a plan: the release and the settings in force."""
        path = into / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in self.config.items()))
        values = dict(self.topics.get(topic, {}))
        if topic in _OWN_TOPICS:
            values = {"cleanup.policy": "compact", "segment.bytes": self.config[_OWN_TOPICS[topic]]} | values
        return {
            "kafka": self.release,
            "config": str(path),
            "assignments": [],
            "topic_assignments": [
                f"{topic}:{key}={value}" for key, value in values.items() if key not in _OF_NO_MATTER
            ],
            "assume_defaults": True,  # the topic was created with these values and no others
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One pass of a real cleaner over one partition: what it found and what it made.

    Args:
        stay: the broker's run.
        number: of the pass over this partition in that run, from 1.
        logged: what the broker's log says of it.
        found: file name -> where its bytes are in the corpus, of all segments that it read and of the active one.
        lost: base offsets of segments that it found and of which no copy is left.
        made: the same as `found` for what it wrote, as far as a copy is left.
        gone: base offsets of segments that were there before and not afterwards.
        is_last: the copy afterwards is what this pass left, but for the active segment.
        others: where the snapshots and such of its directory are in the corpus.
    """

    stay: Stay
    number: int
    logged: LoggedPass
    found: Mapping[str, str]
    lost: frozenset[int]
    made: Mapping[str, str]
    gone: frozenset[int]
    is_last: bool
    others: tuple[str, ...]

    @property
    def id(self) -> str:
        """Name of the test, and of lines in lists."""
        return f"{self.stay.case}/{self.stay.name}/{self.logged.partition}#{self.number}"

    @property
    def topic(self) -> str:
        """Of its partition."""
        return self.logged.partition.rpartition("-")[0]

    def now_ms(self, corpus: Path) -> int:
        """What the cleaner took for now.

        The log says it to a few milliseconds; a delete horizon that the pass has set says it exactly.
        """
        retention = self.stay.topics.get(self.topic, {}).get("delete.retention.ms", "86400000")
        known = self._horizons(corpus, self.found)
        new = {horizon - int(retention) for horizon in self._horizons(corpus, self.made) - known}
        assert len(new) <= 1, f"{self.id}: more than one time in its horizons: {new}"
        return min(new, default=self.logged.began_ms)

    @staticmethod
    def _horizons(corpus: Path, files: Mapping[str, str]) -> set[int]:
        paths = [corpus / path for name, path in files.items() if name.endswith(".log")]
        return {horizon for path in paths for horizon in horizons(path.read_bytes())}

    def lay(self, corpus: Path, into: Path) -> Path:
        """Put what the pass found below a directory, as a log directory with this partition alone."""
        directory = into / self.logged.partition
        directory.mkdir(parents=True)
        for name, path in self.found.items():
            shutil.copy2(corpus / path, directory / name)
            self._date(directory / name, path)
        for path in self.others:
            shutil.copy2(corpus / path, directory / PurePosixPath(path).name)
        for name in _BESIDE:
            source = corpus / (self.stay.after if self.stay.wrote else self.stay.before) / name
            if source.exists():
                shutil.copy2(source, into / name)
        if self.logged.first_dirty:
            line = f"{self.topic} {self.logged.partition.rpartition('-')[2]} {self.logged.first_dirty}"
            (into / "cleaner-offset-checkpoint").write_text(f"0\n1\n{line}\n")
        return into

    def _date(self, copy: Path, path: str) -> None:
        stated = {base: mtime for swap in self.logged.swaps for base, mtime in swap.source_mtimes}
        base, _, kind = copy.name.partition(".")
        mtime = self.stay.mtimes.get(path, stated.get(int(base)) if kind == "log" else None)
        if mtime is not None:
            os.utime(copy, ns=(mtime * 1_000_000, mtime * 1_000_000))


def horizons(log: bytes) -> Iterator[int]:
    """The delete horizons of the batches of magic 2."""
    at = 0
    while at + 12 <= len(log):
        size = int.from_bytes(log[at + 8 : at + 12], "big") + 12
        if at + size > len(log):
            return
        if log[at + 16] == 2 and log[at + 22] & _HAS_HORIZON:
            yield int.from_bytes(log[at + 27 : at + 35], "big", signed=True)
        at += size


def pairs() -> list[Pair]:
    """All passes, in a stable order."""
    contents = archives.contents(archives.source())
    found = [pair for stay in stays() for pair in _pairs(stay, contents.files)]
    return sorted(found, key=lambda pair: pair.id)


def stays() -> Iterator[Stay]:
    """All runs of brokers with their cleaner on of which both copies are there."""
    contents = archives.contents(archives.source())
    for path, text in contents.logs.items():
        if path.endswith(_BROKER_LOG):
            yield from _old(path.removesuffix(_BROKER_LOG), gzip.decompress(text).decode(errors="replace"), contents)
        elif match := _CLEANER_LOG.fullmatch(path):
            yield _modern(match["case"], match["stage"], int(match["number"]), text.decode(), contents)


def _modern(case: str, stage: str, number: int, log: str, contents: Contents) -> Stay:
    sheet = json.loads(contents.texts[f"{case}/case.json"])
    changed = next(each["settings_changed"] for each in sheet["passes"] if each["label"] == stage)
    topics = {
        topic: {key: str(value) for key, value in {**values, **changed}.items()}
        for topic, values in sheet["topic_configs"].items()
    }
    return Stay(
        case=case,
        name=stage,
        release=sheet["kafka"],
        before=f"{case}/{'before' if number == 1 else f'before-{number}'}",
        after=f"{case}/{stage}",
        config={key: str(value) for key, value in sheet["server_props"].items()},
        topics=topics,
        session=_only(sessions(log)),
        wrote=False,
        mtimes={},
    )


def _only(found: list[Session]) -> Session:
    assert len(found) == 1
    return found[0]


def _old(case: str, log: str, contents: Contents) -> Iterator[Stay]:
    """The steps of the sheet say in their order what was started, written, configured and copied."""
    sheet = json.loads(contents.texts[f"{case}/case.json"])
    runs = iter(sessions(log))
    topics: dict[str, dict[str, str]] = defaultdict(dict)
    brokers = iter(sheet.get("broker_configs", ()))
    broker: dict[str, Any] = {}
    stage, session, wrote = None, None, False
    for step in sheet["steps"]:
        if _START.match(step):
            broker = next(brokers)
            session, wrote = (next(runs) if broker["config"].get("log.cleaner.enable") == "true" else None), False
        elif match := _CREATE.match(step):
            topics[match[1]].update(json.loads(match[2]))
        elif match := _ALL_TOPICS.match(step):
            for values in topics.values():
                values[match[1]] = match[2]
        elif _WROTE.match(step):
            wrote = True
        elif match := _COPIED.match(step):
            if session is not None and stage is not None:
                yield Stay(
                    case=case,
                    name=match[1],
                    release=broker["release"],
                    before=f"{case}/{stage}/logdir",
                    after=f"{case}/{match[1]}/logdir",
                    config=broker["config"],
                    topics={topic: dict(values) for topic, values in topics.items()},
                    session=session,
                    wrote=wrote,
                    mtimes=_mtimes(contents, f"{case}/{stage}") | _mtimes(contents, f"{case}/{match[1]}"),
                )
            stage = match[1]


def _mtimes(contents: Contents, stage: str) -> dict[str, int]:
    listed = json.loads(contents.logs.get(f"{stage}/files.json", b"[]"))
    return {f"{stage}/logdir/{each['path']}": each["mtime_ms"] for each in listed}


def _pairs(stay: Stay, files: frozenset[str]) -> Iterator[Pair]:
    for partition in sorted({event.partition for event in stay.session.events}):
        history = History(files, f"{stay.before}/{partition}/", f"{stay.after}/{partition}/", stay.mtimes)
        if not history.is_there:
            continue
        steps = list(history.play(stay.session.of(partition)))
        for number, (logged, found, made, gone) in enumerate(steps, 1):
            there = {base: history.copies(base, version, is_closed=not stay.wrote) for base, version in found.items()}
            if not there[logged.end] or logged.end == history.first_active:
                there[logged.end] = history.any_copy(logged.end)
            yield Pair(
                stay=stay,
                number=number,
                logged=logged,
                found={name: path for copies in there.values() for name, path in copies.items()},
                lost=frozenset(base for base, copies in there.items() if not copies),
                made={
                    name: path
                    for base, version in made.items()
                    for name, path in history.copies(base, version, is_closed=True).items()
                },
                gone=gone,
                is_last=number == len(steps),
                others=tuple(sorted(history.others(logged.end, wrote=stay.wrote))),
            )
