"""The sentences about consumers and leaders are those of the kept table of what real ones did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.findings.catalog import FINDING_TYPES
from kafkalog_core.findings.client_reads import CLIENT_READS, LEADER_APPENDS, consumers, leader
from tests.support import client_table
from tests.support.figures import run
from tests.support.wrong_batches import KINDS, Kind

if TYPE_CHECKING:
    from pathlib import Path


def test_the_table_of_the_product_is_what_the_clients_did() -> None:
    assert {code: tuple(reads) for code, reads in CLIENT_READS.items()} == client_table.reads_by_finding()
    assert client_table.appends_by_finding() == LEADER_APPENDS
    assert FINDING_TYPES.keys() >= CLIENT_READS.keys() | LEADER_APPENDS.keys()


def test_a_sentence_names_each_client() -> None:
    assert consumers("batch.payload-dependent") == (
        "Consumers with default settings: Java 4.3 stops there; librdkafka reads all of its records; "
        "kafka-python reads all of its records."
    )
    assert leader("record.offset-order").startswith(
        "A leader of 4.3 appends such a batch if a producer sends it without"
    )
    assert consumers("dir.unclean") == leader("dir.unclean") == ""


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.magic} {kind.name}")
def test_verify_names_the_batch_as_the_table_does(kind: Kind, tmp_path: Path) -> None:
    client_table.lay(tmp_path / "t-0", kind)
    codes = {row["code"] for row in run("verify", tmp_path / "t-0", "--kafka", "4.3").of("finding")}
    about_batches = codes - {"epochs.missing", "partition.at-risk", "snapshot.missing"}
    assert kind.code in codes if kind.code else not about_batches


def test_the_documentation_shows_the_table() -> None:
    page = (client_table.ROOT / "docs" / "wrong-batches.md").read_text(encoding="utf-8")
    assert page.endswith(client_table.page())
