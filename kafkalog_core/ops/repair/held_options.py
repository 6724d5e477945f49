"""Options for all topics that contradict a topic's own setting: they are held back unless the topic is named.

`--set retention.ms=1` or a policy of the user's own is one option for all topics. A topic that is kept for ever by its
own setting was not meant by it, unless the command line names the topic; if that topic has no limit of time or none of
size, the option for the other limit does not mean it either. So such an option acts on named topics and on those that
follow the broker's defaults (`Settings`). A run that names none is refused if it holds one. `--force` of compact is
different: it decides when a log is cleaned, and a clean keeps what the topic's settings keep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_word
from kafkalog_core.kafka.rules.setting_table import BY_NAME
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.structs import Struct
from kafkalog_core.text import first_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from kafkalog_core.command_lines import CommandLine
    from kafkalog_core.kafka.rules.setting_table import Definition, Setting

__all__ = ["HeldOption", "held_note", "held_options", "held_refusal"]

_NAMING: Final = "--topic TOPIC"
_SET: Final = "--set"


class HeldOption(Struct, frozen=True):
    """An option that does not act on a topic, and the known setting that it would act against.

    Args:
        option: `retention.ms=300000` of `--set` or its short form, or `--policy MODULE:FUNCTION`.
        topic: the topic.
        setting: `retention.ms=-1`.
        origin: where that is from.
    """

    option: str
    topic: str
    setting: str
    origin: str

    @property
    def is_of_other_setting(self) -> bool:
        """Whether the topic has no value of its own for what the option sets, but is kept by another setting."""
        return self.option.startswith("--") or _definition_of(self.option).name != self.setting.partition("=")[0]

    @property
    def kept(self) -> str:
        """`retention.ms=-1 of topic orders (where that is from)`."""
        return f"{self.setting} of topic {self.topic} ({self.origin})"


def held_options(topic: str | None, settings: Iterable[Setting]) -> Iterator[HeldOption]:
    """Yield the options that do not act on a topic, by its settings."""
    for setting in settings:
        for option in setting.held:
            yield HeldOption(option, topic or "", f"{setting.name}={setting.text}", setting.origin)


def held_note(held: Sequence[HeldOption]) -> str:
    """Return the first sentences of a forecast with options that do not act on all topics."""
    return f"Not applied to topics that are not named: {_clause(held)}. To apply it to a topic, add {_NAMING}."


def held_refusal(held: Sequence[HeldOption], line: CommandLine | None) -> Refusal:
    """Return why a run that names no topic is refused, with each command that settles it.

    Args:
        held: at least one.
        line: what was typed; None: unknown.
    """
    options = list(dict.fromkeys(each.option for each in held))
    ways = [WayOut("name the topics that are meant", _NAMING if line is None else line.with_options(_NAMING))]
    if line is not None:
        less, defaults = _without(line, options, {each.option for each in held if each.is_of_other_setting})
        if defaults:
            command = less.with_options(*defaults)
            ways.append(WayOut("set the broker's default, which a topic's own setting overrides", command))
        else:
            ways.append(WayOut("keep what is set", less.with_options()))
    return Refusal(f"no topic is named, and this would act against topics' own settings: {_clause(held)}", tuple(ways))


def _clause(held: Sequence[HeldOption]) -> str:
    """Return each option with the settings that it would act against."""
    kept: dict[str, list[str]] = {}
    for each in dict.fromkeys(held):
        kept.setdefault(each.option, []).append(each.kept)
    return "; ".join(f"{option}, against {first_of(texts)}" for option, texts in kept.items())


def _definition_of(option: str) -> Definition:
    """Return the setting of an option `NAME=VALUE`."""
    name = option.partition("=")[0]
    return next(each for each in BY_NAME.values() if name in {each.name, each.override})


def _without(line: CommandLine, options: Iterable[str], of_others: Collection[str]) -> tuple[CommandLine, list[str]]:
    """Return a command line without options, and with what the values are given as defaults of the broker.

    of_others: options that have no such default: no setting of a topic would override it.
    """
    defaults: list[str] = []
    for option in options:
        if option.startswith("--"):
            line = line.without(*option.split(" ", 1))
            continue
        name, _, value = option.partition("=")
        definition = _definition_of(option)
        line = line.without(_SET, f"{name}=")
        for short in _short_forms(definition.name):
            line = line.without(f"--{short}", "")
        if definition.keys and option not in of_others:
            defaults.append(f"{_SET} {shell_word(f'{definition.keys[0].name}={value}')}")
    return line, defaults


def _short_forms(name: str) -> Iterator[str]:
    """Yield the options for one setting without their dashes: `retention-ms`, `retention-minutes`."""
    keys = (key.name.removeprefix("log.") for key in BY_NAME[name].keys)
    yield from (text.replace(".", "-") for text in dict.fromkeys((name, *keys)))
