"""The sentences about consumers and leaders are those of the kept table of what real ones did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.findings.catalog import FINDING_TYPES
from kafkalog_core.findings.client_reads import CONSUMERS, READS, consumers
from kafkalog_core.findings.logs import OF_ONE_BATCH
from tests.support import client_table
from tests.support.figures import run
from tests.support.wrong_batches import BEFORE, KINDS, Kind

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.figures import Row

FORMS = tuple(dict.fromkeys((kind.magic, kind.codec) for kind in KINDS))


def test_the_table_of_the_product_is_what_the_clients_did() -> None:
    assert [tuple(each) for each in READS] == client_table.reads()
    codes = {code for each in READS for code in each.codes.split()}
    assert codes <= FINDING_TYPES.keys()
    assert codes - OF_ONE_BATCH <= {"batch.negative-timestamp"}, "which is reported once for a file"


def test_a_sentence_names_each_client() -> None:
    assert consumers(2, "lz4", ["batch.payload-dependent"]) == (
        "Consumers with default settings: Java 4.3 stops there; librdkafka reads all of its records; "
        "kafka-python reads all of its records."
    )
    in_order = {codec: consumers(2, codec, ["record.offset-order"]) for codec in ("none", "gzip")}
    assert in_order["none"].endswith("A leader of 4.3 appends such a batch if a producer sends it.")
    assert in_order["gzip"].endswith("A leader of 4.3 refuses such a batch from a producer.")


def test_a_batch_that_was_not_tried_has_no_sentence() -> None:
    assert consumers(2, "lz4", ["batch.payload-dependent", "record.length"]) == ""
    assert consumers(2, "gzip", ["batch.payload-dependent"]) == ""
    assert consumers(1, "lz4", ["batch.payload-dependent"]) == ""
    assert consumers(2, "none", ["dir.unclean"]) == ""


BY_START = frozenset({"batch.crc-mismatch", "log.unknown-magic"})
"""Findings whose text is that of the simulated start."""


def _action(code: str) -> str:
    return FINDING_TYPES[code].broker_action or ""


def of_batch(kind: Kind, place: Path) -> list[Row]:
    """The findings about the wrong batch, which is after the good ones."""
    client_table.lay(place / "t-0", kind)
    found = run("verify", place / "t-0", "--kafka", "4.3").of("finding")
    good = kind.log().index(kind.make(BEFORE))
    return [each for each in found if each["code"] in OF_ONE_BATCH and each["position"] >= good]


@pytest.mark.parametrize(("magic", "codec"), FORMS)
def test_verify_names_the_batch_as_the_table_does(magic: int, codec: str, tmp_path: Path) -> None:
    """And says once a batch what consumers do with it, at the worst of its findings."""
    unserved = {tuple(row.values())[:3] for row in client_table.read() if row["java"] == "-"}
    for number, kind in enumerate(KINDS):
        if (kind.magic, kind.codec) != (magic, codec):
            continue
        found = of_batch(kind, tmp_path / str(number))
        assert {each["code"] for each in found} == set(kind.codes.split()) & OF_ONE_BATCH, kind.title
        said = consumers(magic, codec, kind.codes.split())
        texts = [each["broker_action"] or "" for each in found]
        assert not any(CONSUMERS in text for text in texts), kind.title
        asks = [code for code in kind.codes.split() if code in BY_START or CONSUMERS in _action(code)]
        with_sentence = [each for each, text in zip(found, texts, strict=True) if "Consumers with default" in text]
        assert len({each["position"] for each in with_sentence}) == len(with_sentence), kind.title
        is_served = client_table.key(kind) not in unserved
        assert bool(with_sentence) == bool(said and asks and is_served), kind.title
        for each in with_sentence:
            assert said
            assert said in each["broker_action"], kind.title


def test_the_documentation_shows_the_table() -> None:
    page = (client_table.ROOT / "docs" / "wrong-batches.md").read_text(encoding="utf-8")
    assert page.endswith(client_table.page())
