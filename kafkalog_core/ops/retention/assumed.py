"""What a deletion by retention rests on, where nobody states it.

A segment is deleted by a pass. The passes by time and size run because of the topic's cleanup.policy and delete by its
limit; a larger or smaller value of any other setting deletes other segments, not these. What is below the log start
offset is out of reach for every reader, so its deletion needs no policy (from 2.1 on, compacted logs have that pass
too).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.ops.releases.assumptions import assumed_of_broker, assumed_of_topic, assumed_watermark
from kafkalog_core.ops.retention.rules import START_OF_COMPACTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.ops.releases.assumptions import Assumption
    from kafkalog_core.ops.releases.settings import Settings
    from kafkalog_core.ops.retention.forecast import Forecast

__all__ = ["assumptions_of"]

_START: Final = "start-offset"


def assumptions_of(forecast: Forecast, settings: Settings) -> Iterator[Assumption]:
    """Yield what the deletions of a forecast rest on and nobody states."""
    question, view = forecast.question, forecast.question.view
    limits = {"time": question.rules.time_setting, "size": question.rules.size_setting}
    by = {each.rule for each in forecast.deleted}
    names = [name for rule, name in limits.items() if rule in by]
    if names or (_START in by and settings.release < START_OF_COMPACTED):
        yield from assumed_of_topic(question.topic, ["cleanup.policy", *names])
    if names and question.rules.runner == "cleaner":
        yield from assumed_of_broker([settings.broker("log.cleaner.enable")])
    is_raised = question.log.start_offset > view.log_start_offset  # a broker deletes nothing above its high watermark
    if question.rules.is_bounded and (by - {_START} or is_raised):
        yield from assumed_watermark(view)
