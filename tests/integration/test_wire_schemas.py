"""The table of Kafka's messages is the one that its published jars give."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog_core.wire import schemas
from tests.support import jars
from tools.make_wire_schemas import main

pytestmark = pytest.mark.java

RELEASES = ("3.9.2", jars.NEWEST)
"""The last release with the versions that 4.0 removed, and the newest."""


def test_the_table_is_made_from_the_jars() -> None:
    try:
        libs = [str(jars.fetch(release)) for release in RELEASES]
    except jars.MissingError as missing:
        pytest.skip(str(missing))
    assert Path(schemas.__file__).with_name("schemas.txt").read_text("ascii") == main(libs)
