"""The same logs under other settings: what would stay of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from kafkalog_core.errors import SettingError
from kafkalog_core.format.textfile import parse_int64
from kafkalog_core.ops.releases.setting_table import SETTINGS
from kafkalog_core.ops.releases.settings import parse_assignment
from kafkalog_core.ops.retention.forecast import forecast
from kafkalog_core.ops.retention.rules import check_settings, retention_rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalog_core.ops.releases.settings import Settings
    from kafkalog_core.ops.retention.forecast import Forecast, Question

__all__ = ["Outcome", "Scenario", "totals", "under"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Settings that are other than they are, as they were written, and by their names."""

    text: str
    assignments: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """`key=value`, several with commas between them; a value may have commas too. Raises SettingError."""
        parts: list[str] = []
        for piece in text.split(","):
            if "=" in piece or not parts:
                parts.append(piece.strip())
            else:
                parts[-1] += f",{piece.strip()}"
        assignments = tuple(parse_assignment(part) for part in parts)
        names = [name for name, _ in assignments]
        for name, value in assignments:
            if names.count(name) > 1:
                raise SettingError(f"{name} is given twice; repeat --what-if for one column more")
            if (parse_int64(value) or 0) < -1:
                raise SettingError(f"{name}={value} is out of range: nothing below -1 (-1: unlimited) has a meaning")
        return cls(text, assignments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What stays of one partition, or of all of them (`topic` null), in one scenario; null: as things are."""

    scenario: str | None
    topic: str | None = None
    partition: int | None = None
    kept_segments: int = 0
    kept_bytes: int = 0
    kept_offsets: int = 0
    deleted_segments: int = 0
    deleted_bytes: int = 0
    new_log_start_offset: int | None = None

    @classmethod
    def of(cls, scenario: str | None, forecast: Forecast) -> Self:
        """Of one partition."""
        view = forecast.question.view
        return cls(
            scenario=scenario,
            topic=view.topic,
            partition=view.number,
            kept_segments=len(forecast.checked.log.segments),
            kept_bytes=forecast.kept_bytes,
            kept_offsets=forecast.kept_offsets,
            deleted_segments=len(forecast.deleted),
            deleted_bytes=forecast.deleted_bytes,
            new_log_start_offset=forecast.checked.log.start_offset,
        )

    def plus(self, other: Outcome) -> Outcome:
        """The sum of several partitions."""
        return replace(
            self,
            kept_segments=self.kept_segments + other.kept_segments,
            kept_bytes=self.kept_bytes + other.kept_bytes,
            kept_offsets=self.kept_offsets + other.kept_offsets,
            deleted_segments=self.deleted_segments + other.deleted_segments,
            deleted_bytes=self.deleted_bytes + other.deleted_bytes,
        )


def under(question: Question, settings: Settings, scenario: Scenario) -> Forecast:
    """The forecast under the settings of a scenario, which beat all others. Raises SettingError."""
    assigned = dict(scenario.assignments)
    topic_name = question.topic.topic
    try:
        changed = _overridden(settings, assigned)
        topic = changed.for_topic(topic_name)
        check_settings(topic, settings.release)
    except SettingError as error:
        raise SettingError(f"--what-if {scenario.text}: {error.message}") from error
    return forecast(replace(question, topic=topic, rules=retention_rules(topic, changed)))


def totals(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """What the scenarios come to, over all partitions, in their order."""
    sums: dict[str | None, Outcome] = {}
    for outcome in outcomes:
        sums[outcome.scenario] = sums.get(outcome.scenario, Outcome(scenario=outcome.scenario)).plus(outcome)
    return list(sums.values())


def _overridden(settings: Settings, values: Mapping[str, str]) -> Settings:
    """The settings with some that count whatever else is said, for each topic too."""
    assigned = dict(values)
    silenced: set[str] = set()
    for definition in SETTINGS:
        names = {key.name: key.factor for key in reversed(definition.keys)}
        if definition.of_topics:
            names |= {definition.name: 1} | ({} if definition.override is None else {definition.override: 1})
        said = [name for name in names if name in values]
        if not said:
            continue
        silenced |= names.keys()
        if definition.of_topics and said[-1] != definition.override:
            number = parse_int64(values[said[-1]])
            assigned[definition.name] = values[said[-1]] if number is None else str(number * names[said[-1]])
    return replace(
        settings,
        assigned={name: text for name, text in settings.assigned.items() if name not in silenced} | assigned,
        of_topics={
            topic: {name: text for name, text in given.items() if name not in silenced}
            for topic, given in settings.of_topics.items()
        },
    )
