"""The codec against code that we did not write: kio and aiokafka read what it writes and write the same bytes."""

from __future__ import annotations

import importlib
import random
import re
from io import BytesIO
from pathlib import Path
from typing import Any

import kio
import pytest
from kio.serial import entity_reader, entity_writer

from kafkalog_core.wire.codec import codec
from kafkalog_core.wire.schemas import schema_of
from tests.support.messages import all_versions, message

OF_BROKERS = ("request", "response", "header", "data")
KIO = Path(kio.__file__).parent / "schema"
ENUMERATED = 7
"""Bits of numbers that kio turns into times and enumerations, which do not have every value."""


def place_in_kio(name: str, version: int) -> str:
    """The module below `kio.schema` that has a version of a message, where there is one."""
    schema = schema_of(name, version)
    package = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", re.sub("(Request|Response)$", "", name)).lower()
    return f"{package}.v{version}.{schema.kind if schema.kind in OF_BROKERS else 'data'}"


def is_in_kio(name: str, version: int) -> bool:
    """Whether kio has the message, by its text: to import all of its 750 modules takes seconds, in each worker."""
    path = KIO.joinpath(*place_in_kio(name, version).split(".")).with_suffix(".py")
    return path.is_file() and re.search(rf"^class {name}\b", path.read_text("utf-8"), re.MULTILINE) is not None


def kio_class(name: str, version: int) -> Any:
    """kio's class of a version of a message."""
    return getattr(importlib.import_module(f"kio.schema.{place_in_kio(name, version)}"), name)


COMMON = [(name, version) for name, version in all_versions() if is_in_kio(name, version)]


def test_kio_has_most_of_the_messages() -> None:
    assert len(COMMON) > 350
    assert {name for name, _ in COMMON} >= {
        "FetchRequest",
        "ProduceResponse",
        "JoinGroupRequest",
        "ApiVersionsResponse",
    }


@pytest.mark.parametrize("name", sorted({name for name, _ in COMMON}))
def test_kio_reads_what_we_write_and_writes_the_same(name: str) -> None:
    dice = random.Random(name)
    for version in (version for other, version in COMMON if other == name):
        kind, one = kio_class(name, version), codec(name, version)
        for _ in range(2):
            data = b"".join(map(bytes, one.encode(message(schema_of(name, version).fields, version, dice, ENUMERATED))))
            entity, end = entity_reader(kind)(data, 0)
            assert end == len(data)
            out = BytesIO()
            entity_writer(kind)(out, entity)
            assert out.getvalue() == data, version
