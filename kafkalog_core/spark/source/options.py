"""The options of the data source: names, meanings, and how Spark's strings become the values of a dump or a check."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, cast

from kafkalog_core.engine.parts import PART_BYTES
from kafkalog_core.engine.quantities import parse_size, parse_time_ms, whole_number
from kafkalog_core.engine.selection import Selection
from kafkalog_core.errors import SelectionError, SettingError
from kafkalog_core.filters.expression import Filters
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.spark.session.errors import local_paths
from kafkalog_core.storage.object_paths import OPTION_NAMES, StorageOptions, is_object
from kafkalog_core.storage.objects import options_of
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalog_core.ops.dump.runs import Committed
    from kafkalog_core.ops.verify.request import Level

__all__ = ["OPTIONS", "SourceOptions", "source_options"]

TableName = Literal["records", "batches", "segments", "findings"]
Starting = Literal["earliest", "latest"]

_DATA: Final = ("records", "batches")
_LOGS: Final = (*_DATA, "segments")
_ALL: Final = (*_LOGS, "findings")
_STREAM: Final = ("stream",)
_CONTENT: Final = ("records", *_STREAM)
_MANY: Final = 1_000_000
"""Maximum size of a range of partition numbers: more than any topic has."""


class Option(NamedTuple):
    """The meaning of an option, and the tables that accept it; `stream` is a stream of records."""

    meaning: str
    tables: tuple[str, ...]


OPTIONS: Final[dict[str, Option]] = {
    "table": Option("records (the default), batches, segments or findings", (*_ALL, *_STREAM)),
    "path": Option("a log file, a partition or log directory, or a glob pattern: the argument of load(...)", ()),
    "paths": Option("several paths as a JSON list: the argument of load([...])", ()),
    "topics": Option("topics, comma-separated; globs such as orders-*", ()),
    "excludeTopics": Option("topics to leave out, comma-separated; globs", ()),
    "topicRegex": Option("regular expression that matches the whole name of a topic", ()),
    "partitions": Option("partition numbers: 0,3,8-15", ()),
    "minOffset": Option("first offset, inclusive", (*_DATA, *_STREAM)),
    "maxOffset": Option("last offset, inclusive", _DATA),
    "since": Option("first timestamp, inclusive: ISO 8601, in UTC unless it has a zone, or ms since 1970", _DATA),
    "until": Option("last timestamp, inclusive; a date without a time means the whole day", _DATA),
    "key": Option("only records with exactly this key", _CONTENT),
    "keyRegex": Option("only records with a key in which this regular expression (over bytes) matches", _CONTENT),
    "value": Option("only records with exactly this value", _CONTENT),
    "valueRegex": Option("only records with a value in which this regular expression (over bytes) matches", _CONTENT),
    "contains": Option("only records with this text anywhere in the key, the value or the headers", _CONTENT),
    "header": Option("only records with this header: KEY, or KEY=VALUE", _CONTENT),
    "ignoreCase": Option("true: contains and regular expressions match letters of either case", _CONTENT),
    "invert": Option("true: only records that the conditions on keys, values and headers do not select", _CONTENT),
    "committed": Option("true: only what a read_committed consumer gets, up to the log end; or high-watermark", _DATA),
    "resync": Option("true: search for batches after damage", _DATA),
    "splitBytes": Option("approximate bytes of log that a task reads: 64m", (*_LOGS, *_STREAM)),
    "batchRows": Option("rows in each batch for Spark", (*_DATA, *_STREAM)),
    "batchBytes": Option("bytes of rows in each batch for Spark: 64m", (*_DATA, *_STREAM)),
    "maxBatchBytes": Option("the largest record batch that is read, also decompressed: 256m", (*_ALL, *_STREAM)),
    "level": Option("depth of the checks: headers, checksums or records", ("findings",)),
    "now": Option("time of the check: later timestamps are in the future", ("findings",)),
    "ignoreUnreadable": Option("true: leave out files and directories that cannot be read; false: fail", _LOGS),
    "startingOffsets": Option("earliest (the default) or latest: where a new stream starts", _STREAM),
    "maxBytesPerTrigger": Option("maximum bytes of log in a batch of the stream, at least one record batch", _STREAM),
    "failOnDataLoss": Option("true (the default): fail if unread records are deleted or damaged", _STREAM),
    **{
        name: Option("how to reach s3://; by default the environment of the driver", (*_ALL, *_STREAM))
        for name in OPTION_NAMES
    },
}
"""All options by name; their case is ignored. An option without tables is for all tables."""

_NAMES: Final = {name.lower(): name for name in OPTIONS}


class SourceOptions(Struct, frozen=True, kw_only=True):
    """The options as values; see `OPTIONS`."""

    table: TableName
    paths: tuple[str, ...]
    selection: Selection
    filters: Filters
    committed: Committed | None
    resync: bool
    split_bytes: int
    batch_rows: int
    batch_bytes: int
    max_batch_bytes: int
    level: Level
    now_ms: int | None
    ignores_unreadable: bool
    refuses_damage: bool
    starts_at: Starting
    max_bytes_per_trigger: int | None
    fails_on_loss: bool
    storage: StorageOptions


def source_options(given: Mapping[str, str], *, is_stream: bool = False) -> SourceOptions:
    """Return the values of options as Spark passes them: names in any case, values as strings.

    Raises SettingError for an unknown option, an option that is not for the table, and an invalid value.
    """
    values = _named(given)
    table = _one_of(values, "table", _ALL)
    _check_use(values, "stream" if is_stream else table, table)
    fails_on_loss = _flag(values, "failOnDataLoss", default=True)
    paths = _paths(values)
    return SourceOptions(
        table=cast("TableName", table),
        paths=paths,
        selection=_selection(values),
        filters=_filters(values),
        committed=_committed(values),
        resync=_flag(values, "resync", default=False),
        split_bytes=_size(values, "splitBytes", PART_BYTES),
        batch_rows=max(1, _number(values, "batchRows") or 50_000),
        batch_bytes=_size(values, "batchBytes", 64 * 1024 * 1024),
        max_batch_bytes=_size(values, "maxBatchBytes", MAX_BATCH_BYTES),
        level=cast("Level", _one_of(values, "level", ("records", "checksums", "headers"))),
        now_ms=_time(values, "now"),
        # A stream without failOnDataLoss has to go on over files that cannot be read, too.
        ignores_unreadable=_flag(values, "ignoreUnreadable", default=False) or (is_stream and not fails_on_loss),
        refuses_damage=is_stream and fails_on_loss,
        starts_at=cast("Starting", _one_of(values, "startingOffsets", ("earliest", "latest"))),
        max_bytes_per_trigger=_size(values, "maxBytesPerTrigger", 0) or None,
        fails_on_loss=fails_on_loss,
        storage=_storage(values, paths, is_stream=is_stream),
    )


def _storage(values: Mapping[str, str], paths: Iterable[str], *, is_stream: bool) -> StorageOptions:
    """Return how all tasks reach an object store; without such a path nothing is sent to them."""
    # Paths of a file system need no credentials: none are sent with the tasks.
    if not any(map(is_object, paths)):
        return StorageOptions()
    if is_stream:
        raise SettingError("a stream follows a broker's directory; objects never grow: read them with spark.read")
    given = {name: values[name] for name in OPTION_NAMES if name in values}
    try:
        # Complete: executors may have another environment than the driver.
        return StorageOptions(options_of(given), is_complete=True)
    except SelectionError as error:
        raise SettingError(error.message) from None


def _named(given: Mapping[str, str]) -> dict[str, str]:
    values = {}
    for name, value in given.items():
        if name.lower() not in _NAMES:
            raise SettingError(f"the data source kafkalog has no option {name!r}; its options are {', '.join(OPTIONS)}")
        values[_NAMES[name.lower()]] = value.strip()
    return values


def _check_use(values: Mapping[str, str], use: str, table: str) -> None:
    if use == "stream" and table != "records":
        raise SettingError(f"a stream reads only records; read rows of {table} with spark.read")
    for name in values:
        if OPTIONS[name].tables and use not in OPTIONS[name].tables:
            what = "a stream" if use == "stream" else f"table {use}"
            raise SettingError(f"option {name} ({OPTIONS[name].meaning}) does not apply to {what}; leave it out")


def _paths(values: Mapping[str, str]) -> tuple[str, ...]:
    paths = [values["path"]] if values.get("path") else []
    if "paths" in values:
        try:
            more = json.loads(values["paths"])
        except ValueError:
            more = None
        if not isinstance(more, list) or not all(isinstance(path, str) for path in more):
            raise SettingError(f"option paths must be a JSON list of paths, not {values['paths']!r}")
        paths += more
    if not paths:
        raise SettingError("no path is given; name a log file, a partition or a log directory: .load(PATH)")
    return local_paths(paths)


def _selection(values: Mapping[str, str]) -> Selection:
    selection = Selection(
        topics=_list(values, "topics"),
        topic_regex=values.get("topicRegex"),
        excludes=_list(values, "excludeTopics"),
        partitions=tuple(number for text in _list(values, "partitions") for number in _numbers(text)),
    )
    # Raised in the driver, not in the first task.
    selection.takes("", 0)  # an invalid pattern raises its error here
    return selection


def _numbers(text: str) -> range:
    first, dash, last = text.partition("-")
    try:
        start = whole_number(first)
        end = whole_number(last) if dash else start
    except SelectionError:
        raise SettingError(f"option partitions has {text!r}, which is not a partition number; write 0,3,8-15") from None
    if not 0 <= end - start < _MANY:
        raise SettingError(
            f"option partitions has {text!r}; write the lower number first, and at most {_MANY} numbers in a range"
        )
    return range(start, end + 1)


def _filters(values: Mapping[str, str]) -> Filters:
    offsets = _number(values, "minOffset"), _number(values, "maxOffset")
    times = _time(values, "since"), _time(values, "until", end_of_day=True)
    for (first, last), names in ((offsets, "minOffset and maxOffset"), (times, "since and until")):
        if first is not None and last is not None and first > last:
            raise SettingError(f"options {names} select nothing: the end is before the start")
    filters = Filters(
        offsets=offsets,
        times_ms=times,
        key=_bytes(values, "key"),
        value=_bytes(values, "value"),
        key_regex=values.get("keyRegex"),
        value_regex=values.get("valueRegex"),
        contains=_bytes(values, "contains"),
        headers=_headers(values),
        ignores_case=_flag(values, "ignoreCase", default=False),
        inverted=_flag(values, "invert", default=False),
    )
    try:
        filters.check()
    except SelectionError as error:
        raise SettingError(error.message) from None
    return filters


def _headers(values: Mapping[str, str]) -> tuple[tuple[bytes, bytes | None], ...]:
    if "header" not in values:
        return ()
    key, equals, value = values["header"].partition("=")
    return ((key.encode(), value.encode() if equals else None),)


def _bytes(values: Mapping[str, str], name: str) -> bytes | None:
    return values[name].encode() if name in values else None


def _committed(values: Mapping[str, str]) -> Committed | None:
    names = {"false": None, "true": "log-end", "log-end": "log-end", "high-watermark": "high-watermark"}
    return cast("Committed | None", names[_one_of(values, "committed", tuple(names))])


# --- values ---------------------------------------------------------------------------------------------------------
def _list(values: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in values.get(name, "").split(",") if part.strip())


def _one_of(values: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    value = values.get(name, choices[0]).lower()
    if value not in choices:
        raise SettingError(f"option {name} must be {' or '.join(choices)}, not {values[name]!r}")
    return value


def _flag(values: Mapping[str, str], name: str, *, default: bool) -> bool:
    return _one_of({name: values.get(name, str(default))}, name, ("true", "false")) == "true"


def _size(values: Mapping[str, str], name: str, default: int) -> int:
    try:
        return parse_size(values[name]) if name in values else default
    except SelectionError as error:
        raise SettingError(f"option {name}: {error.message}") from None


def _number(values: Mapping[str, str], name: str) -> int | None:
    try:
        return whole_number(values[name]) if name in values else None
    except SelectionError:
        raise SettingError(f"option {name} must be a whole number from 0 to 2^63-1, not {values[name]!r}") from None


def _time(values: Mapping[str, str], name: str, *, end_of_day: bool = False) -> int | None:
    try:
        return parse_time_ms(values[name], end_of_day=end_of_day) if name in values else None
    except SelectionError as error:
        raise SettingError(f"option {name}: {error.message}") from None
