"""Records of aborted and open transactions look so in a table, and a narrow one keeps what an option asks for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.terminals import run
from tests.support import build

if TYPE_CHECKING:
    from collections.abc import Iterator

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
TIME_MS = 1_700_000_000_000
FIRST, SECOND = f"{0:020}.log", f"{7:020}.log"


def data(offset: int, producer_id: int, sequence: int, *, is_transactional: bool = True) -> bytes:
    records = [build.Record(offset=offset + n, timestamp_ms=TIME_MS, key=b"k", value=b"v") for n in range(2)]
    return build.batch_v2(
        records,
        producer_id=producer_id,
        producer_epoch=1,
        base_sequence=sequence,
        is_transactional=is_transactional,
        leader_epoch=4,
    )


def end(kind: int, offset: int) -> bytes:
    return build.txn_marker(kind, offset=offset, producer_id=7, producer_epoch=1, leader_epoch=4)


@pytest.fixture
def payments(tmp_path: Path) -> Path:
    """Transactions of producer 7: committed, aborted (its end is in the next segment) and open; producer 9 has none."""
    directory = tmp_path / "kafka" / "payments-0"
    directory.mkdir(parents=True)
    (directory / FIRST).write_bytes(
        data(0, 7, 0) + end(build.COMMIT, 2) + data(3, 7, 2) + data(5, 9, 2**31 - 1, is_transactional=False)
    )
    (directory / SECOND).write_bytes(end(build.ABORT, 7) + data(8, 7, 4))
    return directory


def notes(text: str) -> Iterator[tuple[str, str]]:
    """Offset and notes of the rows of records."""
    titles = next(line for line in text.splitlines() if line.startswith("offset"))
    start = titles.index("notes")
    for line in text.splitlines():
        if line[:6].strip().isdigit():
            yield line[:6].strip(), line[start : start + 10].split("  ")[0].strip()


EXPECTED = {
    **dict.fromkeys(("0", "1"), "txn"),
    "2": "COMMIT",
    **dict.fromkeys(("3", "4"), "ABORTED"),
    **dict.fromkeys(("5", "6"), "-"),
    "7": "ABORT",
    **dict.fromkeys(("8", "9"), "OPEN"),
}


def test_records_look_as_their_transactions_ended(payments: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (payments, payments.parent):
        text = run(monkeypatch, ["dump", "--records", "--output", "table", str(path)]).stdout
        assert dict(notes(text)) == EXPECTED
    text = run(monkeypatch, ["dump", "--records", "--output", "table", str(payments / FIRST)]).stdout
    assert dict(notes(text)) == {offset: note for offset, note in EXPECTED.items() if int(offset) < 7}
    batches = run(monkeypatch, ["dump", "--output", "table", str(payments)]).stdout
    assert [line.split()[-1] for line in batches.splitlines() if "7/1" in line] == [
        *("txn", "control", "ABORTED", "control", "OPEN")
    ]


def test_a_copy_of_one_segment_does_not_know_how_it_ended(payments: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = payments.parent.parent / FIRST
    alone.write_bytes((payments / FIRST).read_bytes())
    text = run(monkeypatch, ["dump", "--records", "--output", "table", str(alone)]).stdout
    assert dict(notes(text))["3"] == "UNDECIDED"


def test_two_directories_of_one_partition(payments: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "other" / "payments-0"
    other.mkdir(parents=True)
    (other / FIRST).write_bytes(data(0, 7, 0) + end(build.ABORT, 2))
    text = run(monkeypatch, ["dump", "--records", "--output", "table", str(payments), str(other)]).stdout
    assert [note for offset, note in notes(text) if offset == "0"] == ["txn", "ABORTED"]


def test_aborted_records_are_dim(payments: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = run(monkeypatch, ["dump", "--records", str(payments)], width=120).stdout
    assert {line.split("\x1b[2m")[-1].split()[0] for line in text.splitlines() if "ABORTED" in line} == {"3", "4"}
    assert all(line.startswith("\x1b[2m") for line in text.splitlines() if "ABORTED" in line or "OPEN" in line)


def test_the_producer_of_an_idempotent_record_is_shown(payments: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sequence numbers go from 2^31-1 to 0."""
    text = run(monkeypatch, ["dump", "--records", "--offsets", "5..6", str(payments)], width=80).stdout
    assert "9/1 #2147483647" in text
    assert "9/1 #0" in text


@pytest.mark.parametrize(
    ("options", "titles", "left_out"),
    [
        ((), ["position", "offsets", "crc", "notes"], "codec"),
        (("--offsets", "0.."), ["offsets", "max time (UTC)", "epoch", "producer"], "codec"),
        (("--codec", "none"), ["codec"], "records"),
        (("--times", "2020-01-01.."), ["max time (UTC)"], "codec"),
        (("--producer-id", "7"), ["producer", "notes"], "codec"),
        (("--records", "--offsets", "0.."), ["time (UTC)", "epoch", "producer"], "batch at"),
        (("--records", "--positions", "0.."), ["batch at"], "epoch"),
    ],
)
def test_a_narrow_table_keeps_the_columns_that_an_option_asks_for(
    payments: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], titles: list[str], left_out: str
) -> None:
    lines = run(monkeypatch, ["dump", *options, str(payments)], width=72, NO_COLOR="1").stdout.splitlines()
    plain = [line.replace("\x1b[1;4m", "").replace("\x1b[0m", "") for line in lines]
    head = next(at for at, line in enumerate(plain) if "offset" in line and "crc" in line + "crc")
    assert all(title in plain[head] for title in titles), plain[head]
    note = next(at for at, line in enumerate(plain) if "(no room for: " in line)
    assert note > head + 3, "below the table"
    assert left_out in " ".join(plain[note : note + 2])


def test_a_line_that_is_wide_enough_has_no_note(payments: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no room" not in run(monkeypatch, ["dump", str(payments)], width=200).stdout


def test_a_batch_without_a_producer_says_so_where_it_is_asked_for(
    payments: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    alone = tmp_path / "plain-0"
    alone.mkdir()
    (alone / FIRST).write_bytes(build.batch_v2([build.Record(offset=0, timestamp_ms=TIME_MS, key=b"k", value=b"v")]))
    text = run(monkeypatch, ["dump", "--output", "table", "--offsets", "0", str(alone)]).stdout
    assert "producer" in text
    assert "producer" not in run(monkeypatch, ["dump", "--output", "table", str(alone)]).stdout


@pytest.mark.parametrize(
    ("suffix", "note"),
    [
        ("-delete", "a broker was deleting this partition"),
        ("-stray", "a broker has moved this partition aside as stray"),
        ("-future", "a copy that a broker was moving here from another log directory"),
    ],
)
def test_a_directory_that_no_broker_serves_is_noted_first(
    payments: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, note: str
) -> None:
    aside = payments.with_name(f"payments-0.{'0123456789abcdef' * 2}{suffix}")
    payments.rename(aside)
    for path in (aside, aside.parent):
        lines = run(monkeypatch, ["dump", "--records", "--output", "table", str(path)]).stdout.splitlines()
        assert lines[0] == f"{aside.name}: {note}"
    assert note not in run(monkeypatch, ["dump", "--records", "--output", "csv", str(aside)]).stdout


def test_logs_with_a_hit_are_shown_and_the_others_counted(
    payments: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for number in range(1, 4):
        (payments.parent / f"payments-{number}").mkdir()
        (payments.parent / f"payments-{number}" / FIRST).write_bytes(data(0, 7, 0))
    asked = ["dump", "--count", "--offsets", "8..", str(payments.parent)]
    lines = run(monkeypatch, [*asked, "--output", "table"]).stdout.splitlines()
    assert [line.split() for line in lines[1:4]] == [
        ["topic", "partition", "records"],
        ["payments", "0", "2"],
        ["no", "such", "record", "in", "3", "logs"],
    ]
    assert run(monkeypatch, [*asked, "--output", "ndjson"]).stdout.count('"type":"count"') == 4
