"""Values of Kafka's settings: how they are written, where they come from, whether anybody states them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from kafkalog_core.errors import SettingError
from kafkalog_core.format.textfile import parse_int32, parse_int64

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalog_core.ops.releases.release import Release
    from kafkalog_core.ops.releases.setting_table import Definition, Value

__all__ = ["Gap", "GapKind", "Setting", "TopicSettings", "parse_value"]

GapKind = Literal["zookeeper", "no-log", "damaged", "unlisted", "no-config", "other-node"]


class Gap(NamedTuple):
    """Why a stronger source of a value is not known: its kind, and a clause for a person."""

    kind: GapKind
    why: str


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting, its value in its own unit, and where the value comes from; `gap`: why it is only assumed."""

    name: str
    value: Value
    origin: str
    gap: Gap | None = None

    @property
    def text(self) -> str:
        """The value as Kafka's tools write it."""
        if isinstance(self.value, tuple):
            return ",".join(self.value)
        return str(self.value).lower() if isinstance(self.value, bool) else str(self.value)

    @property
    def source(self) -> str:
        """Where the value comes from, and why it is only assumed."""
        return self.origin if self.gap is None else f"{self.origin}, assumed: {self.gap.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """What counts for one topic; each field is the setting of its name with `.` for `_`. `settings`: with origins."""

    topic: str | None
    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    retention_ms: int
    retention_bytes: int
    local_retention_ms: int
    local_retention_bytes: int
    cleanup_policy: tuple[str, ...]
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    preallocate: bool
    max_message_bytes: int
    max_decompressed_message_bytes: int
    message_timestamp_type: str
    message_timestamp_difference_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_after_max_ms: int
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    delete_retention_ms: int
    remote_storage_enable: bool
    remote_log_copy_disable: bool
    settings: tuple[Setting, ...]

    def setting(self, name: str) -> Setting:
        """Return a setting by its Kafka name."""
        return next(setting for setting in self.settings if setting.name == name)

    def origin(self, name: str) -> str:
        """Where the value of a setting, by its Kafka name, comes from."""
        return self.setting(name).origin


def parse_value(
    definition: Definition, release: Release, text: str, factor: int, where: str, *, is_override: bool
) -> Value:
    """Return a value in the setting's own unit. Raises SettingError for one that the release does not take.

    Args:
        definition: of the setting.
        release: whose limits count.
        text: as it is written.
        factor: what makes the setting's unit of it.
        where: what the error names: where it is written, and by which key.
        is_override: whether it is given by the name that has no minimum.
    """
    value = _READERS[definition.kind](text.strip())
    if value is None:
        raise SettingError(f"{where}={text}: {_WANTED[definition.kind]} is wanted")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    minimum = None if is_override else definition.minimum(release)
    if definition.negative_is_minus_one and value < 0:
        return -1
    if minimum is not None and value * factor < minimum:
        raise SettingError(f"{where}={text}: Kafka {release} takes nothing below {minimum}")
    return value * factor


def _read_boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _read_double(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _read_list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


_READERS: Final[Mapping[str, Callable[[str], Value | None]]] = {
    "int": parse_int32,
    "long": parse_int64,
    "double": _read_double,
    "boolean": _read_boolean,
    "list": _read_list,
    "text": str,
}
_WANTED: Final = {
    "int": "a whole number of 32 bits",
    "long": "a whole number of 64 bits",
    "double": "a number",
    "boolean": "true or false",
    "list": "a list",
    "text": "a text",
}
