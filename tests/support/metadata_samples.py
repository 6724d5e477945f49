"""Records of the metadata log with values in every field, for each type and version of the schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog_core.topics.record_decoders import metadata_record_names
from kafkalog_core.wire.schemas import schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.wire.schemas import MessageField

__all__ = ["forms", "sample"]


def forms() -> Iterator[tuple[str, int]]:
    """The name and the version of each record of the metadata log, in every version that the schemas have."""
    for name in metadata_record_names().values():
        schema = schema_of(name, 0)
        yield from ((name, version) for version in range(schema.versions.first, schema.versions.last + 1))


def _value(field: MessageField, number: int) -> Any:
    """A value of a field that is not its default, nor that of another number."""
    if field.struct is not None:
        value: Any = {each.name: _value(each, number) for each in field.struct.fields}
    else:
        value = {
            "string": f"text {number}",
            "bytes": bytes([number]) * 3,
            "uuid": bytes([number]) * 16,
            "bool": bool(number % 2),
            "float64": number / 2,
        }.get(field.type, number)
    return [value, value] if field.is_array else value


def sample(name: str, version: int, number: int) -> dict[str, Any]:
    """Return the fields of a record, none of which has its default; another number gives other values."""
    return {field.name: _value(field, number) for field in schema_of(name, version).fields if version in field.versions}
