"""Assumed values because of which a plan would lose data, and the options that state the real ones.

Only values that decide which records are lost count: the policy that deletes or compacts, the limits of age and size,
the high watermark below which all replicas have the records. Settings that only decide when a broker acts (dirty ratio,
check interval), how files are rolled and indexed (segment.bytes, index.interval.bytes), or for how long a broker keeps
the state of an idle producer, lose no record and are never asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_word
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.structs import Struct
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.command_lines import CommandLine
    from kafkalog_core.kafka.rules.setting_table import GapKind, Setting, TopicSettings
    from kafkalog_core.kafka.sim.start.segment_views import PartitionView

__all__ = [
    "ASSUME",
    "RETENTION",
    "Assumption",
    "assumed_of_broker",
    "assumed_of_topic",
    "assumed_watermark",
    "grouped",
    "refusal",
    "summary",
    "unknown_topics",
    "with_options",
]

ASSUME: Final = "--assume-defaults"
_SHOWN: Final = 4
_CONFIG: Final = "--config FILE"
RETENTION: Final = ("cleanup.policy", "retention.ms", "retention.bytes")
"""The settings by which retention deletes."""
_OF_TOPICS: Final = frozenset({"zookeeper", "damaged"})
"""The gaps of settings that a topic has itself, on a disk that shows them to be elsewhere or lost."""


class Assumption(Struct, frozen=True, kw_only=True):
    """One value that is only assumed.

    Args:
        what: the value: `cleanup.policy=delete`.
        of: what it is of: `topic customers`, `the broker`.
        why: why it is not known, a clause.
        kind: the kind of the gap; None: no setting.
        option: the option that states this value; None: there is none.
    """

    what: str
    of: str
    why: str
    kind: GapKind | None = None
    option: str | None = None

    @property
    def sentence(self) -> str:
        """`cleanup.policy=delete of topic customers (why it is not known)`."""
        return f"{self.what} of {self.of} ({self.why})"


def assumed_of_topic(topic: TopicSettings, names: Iterable[str]) -> Iterator[Assumption]:
    """Yield the assumptions among some settings of a topic."""
    for name in names:
        setting = topic.setting(name)
        if setting.gap is None:
            continue
        option = f"--topic-config {shell_word(f'{topic.topic}:{name}={setting.text}')}"
        if topic.topic is None:
            option = f"--set {shell_word(f'{name}={setting.text}')}"
        of = "the topic" if topic.topic is None else f"topic {topic.topic}"
        yield _assumption(setting, of, option)


def assumed_of_broker(settings: Iterable[Setting]) -> Iterator[Assumption]:
    """Yield the assumptions among some settings of the broker."""
    for setting in settings:
        if setting.gap is not None:
            yield _assumption(setting, "the broker", f"--set {shell_word(f'{setting.name}={setting.text}')}")


def assumed_watermark(view: PartitionView) -> Iterator[Assumption]:
    """Yield the assumption of a high watermark, if it is unknown."""
    if not view.bounds.high_watermark.is_known:
        yield Assumption(
            what=f"high watermark {view.high_watermark}, the log end offset,",
            of=f"{view.topic}-{view.number}",
            why="no replication-offset-checkpoint has it, so records may be missing on other replicas",
        )


def unknown_topics(topics: Iterable[TopicSettings], names: Sequence[str]) -> list[str]:
    """Return how many topics have settings of their own that are unknown, a sentence for each reason.

    names: of the settings on which the answer depends.
    """
    gaps: dict[str, set[str | None]] = {}
    for topic in topics:
        for gap in (topic.setting(name).gap for name in names):
            if gap is not None and gap.kind in _OF_TOPICS:
                gaps.setdefault(gap.why, set()).add(topic.topic)
    return [
        f"unknown: {_and(names)} of {count_of(len(of), 'topic')} ({why}); those of the broker are used. To state them: "
        "--topic-config TOPIC:KEY=VALUE"
        for why, of in gaps.items()
    ]


def grouped(assumptions: Sequence[Assumption]) -> list[str]:
    """Return what is assumed, a clause for each value: of several topics once, with why it is not known."""
    values: dict[tuple[str, str], dict[str, None]] = {}
    for each in assumptions:
        values.setdefault((each.of, each.why), {})[each.what] = None
    owners: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for (of, why), what in values.items():
        owners.setdefault((tuple(what), why), []).append(of)
    return [f"{_and(what)} of {_owners(of)} ({why})" for (what, why), of in owners.items()]


def summary(assumptions: Sequence[Assumption]) -> str:
    """Return what is assumed, in one clause."""
    groups = grouped(assumptions)
    more = len(groups) - _SHOWN
    return "; ".join(groups[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def refusal(assumptions: Sequence[Assumption], command_line: CommandLine | None) -> Refusal:
    """Return why a plan is refused, with each command that settles it.

    Args:
        assumptions: at least one.
        command_line: what was typed; None: unknown.
    """
    ways = []  # what finds the real values comes before what states them, and taking assumed ones last
    if any(each.kind in {"no-log", "damaged"} for each in assumptions):
        ways.append(WayOut("name the broker's log directory with the metadata log (__cluster_metadata-0) too"))
    if any(each.kind == "zookeeper" for each in assumptions):
        ways.append(WayOut("name the dataDir of a ZooKeeper server too, which has the settings of topics"))
    ways += [*_with_config(assumptions, command_line), *_stating(assumptions, command_line)]
    ways.append(WayOut("accept what is assumed", with_options(command_line, ASSUME)))
    return Refusal(f"this plan would lose records because of assumed values: {summary(assumptions)}", tuple(ways))


def with_options(command_line: CommandLine | None, *options: str) -> str:
    """Return a command line with more options, ready to paste; where it is unknown the options alone."""
    return " ".join(options) if command_line is None else command_line.with_options(*options)


def _stating(assumptions: Sequence[Assumption], line: CommandLine | None) -> Iterator[WayOut]:
    """Yield the values as options, as far as they have some; of many topics those of the first."""
    given = [each for each in assumptions if each.option is not None]
    if not given:
        return
    options = list(dict.fromkeys(str(each.option) for each in given))
    if len(given) < len(list(assumptions)):  # what no option states is accepted
        options.append(ASSUME)
    owners = list(dict.fromkeys(each.of for each in given))
    hint = ""
    if any(each.kind == "zookeeper" for each in given):
        hint = " (kafka-configs.sh --describe --entity-type topics shows them)"
    if len(owners) <= _SHOWN:
        yield WayOut(f"state the real values{hint} in place of those assumed here", with_options(line, *options))
        return
    first = dict.fromkeys(str(each.option) for each in given if each.of == owners[0])
    yield WayOut(f"state the real values{hint} of each of them, like those of {owners[0]}", with_options(line, *first))


def _with_config(assumptions: Iterable[Assumption], line: CommandLine | None) -> Iterator[WayOut]:
    """Yield the command with the broker's server.properties, where that can state all of them."""
    kinds = {each.kind for each in assumptions}
    command = with_options(line, _CONFIG)
    if kinds == {"no-config"}:
        yield WayOut("give the broker's server.properties", command)
    elif kinds <= {"no-config", "no-log"}:
        yield WayOut(
            "give the broker's server.properties, whose log.dirs or metadata.log.dir has the metadata log", command
        )


def _assumption(setting: Setting, of: str, option: str) -> Assumption:
    why, kind = ("", None) if setting.gap is None else (setting.gap.why, setting.gap.kind)
    return Assumption(what=f"{setting.name}={setting.text}", of=of, why=why, kind=kind, option=option)


def _owners(owners: Sequence[str]) -> str:
    """Return `topic a`; for several `topic a, topic b and 7 more`."""
    more = len(owners) - _SHOWN
    return _and(owners) if more <= 0 else f"{', '.join(owners[:_SHOWN])} and {more} more"


def _and(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
