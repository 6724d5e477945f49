"""Writing partition.metadata and meta.properties: the bytes of real brokers, and repairs that keep good lines."""

from __future__ import annotations

from kafkalog_core.format.properties import (
    encode_meta_properties,
    encode_partition_metadata,
    logical_lines,
    mend_meta_properties,
    read_meta_properties,
    read_partition_metadata,
)

META = (
    b"#\n#Sat Nov 21 02:07:24 UTC 2026\nnode.id=1\ndirectory.id=7EVkxLGh-XcHy9MykOI4gg\nversion=1\n"
    b"cluster.id=JP8dLpwyRqt7lTsK7P_TbQ\n"
)


def test_partition_metadata_of_a_broker() -> None:
    written = b"version: 0\ntopic_id: dY86piI2T52nV-5FQRA3tA"
    assert encode_partition_metadata("dY86piI2T52nV-5FQRA3tA") == written
    assert read_partition_metadata(written).refusal is None


def test_meta_properties_from_nothing() -> None:
    content = encode_meta_properties([("version", "1"), ("node.id", "1"), ("cluster.id", "c")])
    assert content == b"#\nversion=1\nnode.id=1\ncluster.id=c\n"
    assert read_meta_properties(content).refusal is None


def test_a_mend_keeps_good_lines() -> None:
    content, edits = mend_meta_properties(META, {4: "no id"}, {"node.id": ("2", "as elsewhere")})
    assert content == META.replace(b"directory.id=7EVkxLGh-XcHy9MykOI4gg\n", b"") + b"node.id=2\n"
    assert [(edit.number, edit.new) for edit in edits] == [(4, None), (None, "node.id=2")]
    assert mend_meta_properties(META, {}, {}) == (META, ())


def test_a_continued_line_goes_as_a_whole_and_a_cut_one_gets_its_end() -> None:
    content, edits = mend_meta_properties(b"node.id=\\\n  x\nversion=1", {1: "no number"}, {"node.id": ("7", "why")})
    assert content == b"version=1\nnode.id=7\n"
    assert edits[0].old == "node.id=\\\n  x"


def test_a_continued_line_at_the_end_of_a_file() -> None:
    """It is a line where it has any text, as `Properties.LineReader` has it."""
    assert [text for _, text in logical_lines(b"\\")] == []
    assert [text for _, text in logical_lines(b"a=1\n  \\\n")] == ["a=1"]
    assert [text for _, text in logical_lines(b"a=1\\")] == ["a=1"]
    assert [text for _, text in logical_lines(b"a=1,\\\n  2\\\n")] == ["a=1,2"]
