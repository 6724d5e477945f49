"""Chunks of record rows of Kafka's own topics, with what key and value say, and what does not decode.

The kernel writes a record's line as that of any topic; the decoded columns, which are the last ones, are put in at its
end. Key and value are decoded when a row is written, so that a row that is only counted costs nothing.
"""

from __future__ import annotations

import json
from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.engine.chunks import Lines, RecordChunk
from kafkalog_core.findings import Finding, found
from kafkalog_core.format.layout import CONTROL_BIT, MAGIC_V2
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import csv_row
from kafkalog_core.text import count_of
from kafkalog_core.topics.record_decoders import DecodedText, text_decoder_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalog_core.engine.chunks import LineRoom, RowOrigin
    from kafkalog_core.format.decode import RecordRun
    from kafkalog_core.output.chunk import BytesMode
    from kafkalog_core.output.templates import Template
    from kafkalog_core.topics.record_decoders import RecordProblem

__all__ = [
    "AUTO",
    "NO_DECODING",
    "DecodedChunk",
    "DecodedLines",
    "NotDecoded",
    "Undecoded",
    "decoding_findings",
    "text_decoder",
]

AUTO: Final = "auto"
NO_DECODING: Final = "none"
"""The values of a request's `decode` that are not the name of a topic."""

_LINE_END: Final = b"}\n"
_MOST_KINDS: Final = 20
_OTHERS: Final = "of still other problems"


def text_decoder(decode: str, topic: str | None) -> Callable[[bytes | None, bytes | None], DecodedText] | None:
    """Return what decodes the records of a topic's files; None: they are shown as they are.

    decode: `auto`: those of Kafka's own topics; `none`; or the topic whose records all files hold.
    """
    return None if decode == NO_DECODING else text_decoder_of(topic if decode == AUTO else decode)


class NotDecoded(NamedTuple):
    """The records of a file with one kind of problem: how many, the first one's offset, and why it does not decode."""

    records: int
    offset: int
    why: str


class Undecoded:
    """The records that do not decode, by file and kind of problem, in the order in which they were met."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, NotDecoded]] = {}

    def note(self, path: str, problem: RecordProblem, offset: int) -> None:
        """Count a record."""
        self._add(path, problem.what, NotDecoded(1, offset, problem.why))

    def add(self, other: Undecoded) -> None:
        """Add those of the part that was read next."""
        for path, kinds in other.files.items():
            for what, those in kinds.items():
                self._add(path, what, those)

    def _add(self, path: str, what: str, those: NotDecoded) -> None:
        kinds = self.files.setdefault(path, {})
        if what not in {*kinds, _OTHERS} and len(kinds) >= _MOST_KINDS:
            what, those = _OTHERS, those._replace(why=what)
        before = kinds.get(what)
        kinds[what] = those if before is None else before._replace(records=before.records + those.records)


def decoding_findings(undecoded: Undecoded, topic: str | None, partition: int | None) -> dict[str, Finding]:
    """Return a finding for each kind of problem of each file, by file and kind."""
    return {
        f"{path}: {what}": found(
            "record.not-decoded",
            path,
            topic=topic,
            partition=partition,
            offset=those.offset,
            what=what,
            why=f" ({those.why})" if those.why else "",
            records=count_of(those.records, "record"),
        )
        for path, kinds in undecoded.files.items()
        for what, those in kinds.items()
    }


class DecodedLines(Lines):
    """The `Lines` of a file whose records are decoded.

    decode: decodes a key and a value. on_problem: takes what is wrong with a record, and its offset.
    """

    def __init__(
        self,
        place: RowOrigin,
        out: LineRoom | None,
        decode: Callable[[bytes | None, bytes | None], DecodedText],
        on_problem: Callable[[RecordProblem, int], None],
    ) -> None:
        super().__init__(place, out)
        self.decode = decode
        self.on_problem = on_problem

    def records(self, run: RecordRun, *, resynced: bool, selection: bytearray | None = None) -> DecodedChunk:
        """Return the chunk of a run of records."""
        return DecodedChunk(self, run, resynced=resynced, selection=selection)


class DecodedChunk(RecordChunk):
    """A chunk of record rows with the columns `decoded_key` and `decoded_value`."""

    def __init__(
        self, lines: DecodedLines, run: RecordRun, *, resynced: bool, selection: bytearray | None = None
    ) -> None:
        super().__init__(lines, run, resynced=resynced, selection=selection)
        self._decode = lines.decode
        self._on_problem = lines.on_problem
        self.records = run.records
        self._undecoded = RecordChunk(lines, run, resynced=resynced, selection=selection)
        self._reached = 0

    @property
    def table(self) -> tables.Table:
        """The row type."""
        return self._lines.place.table(tables.RECORD_DECODED)

    def texts(self, rows: Iterable[int] | None = None) -> Iterator[DecodedText]:
        """Yield what records say, as JSON text: of some rows, by their ascending numbers; None: of all that are shown.

        Records of control batches say nothing here: `control_type` has their meaning.
        """
        records, memory, decode = self.records, self._memory, self._decode
        columns = [records.column(name) for name in ("batch", "key_start", "key_size", "value_start", "value_size")]
        cells: Iterable[tuple[int, ...]] = zip(range(records.count), *columns, strict=False)
        if rows is not None:
            cells = ((row, *[column[row] for column in columns]) for row in rows)
        elif self._selection is not None:
            cells = compress(cells, self._selection)
        attributes, formats = self._batches.column("attributes"), self._batches.column("format")
        for row, batch, key_start, key_size, value_start, value_size in cells:
            if attributes[batch] & CONTROL_BIT and formats[batch] == MAGIC_V2:
                yield _NOTHING
                continue
            text = decode(
                None if key_size < 0 else bytes(memory[key_start : key_start + key_size]),
                None if value_size < 0 else bytes(memory[value_start : value_start + value_size]),
            )
            if row >= self._reached:
                self._reached = row + 1
                if text.problem is not None:
                    self._on_problem(text.problem, records.column("offset")[row])
            yield text

    def parts(self, bytes_mode: BytesMode) -> Iterator[bytes]:
        """Yield all rows as JSON lines, in pieces."""
        texts = self.texts()
        for part in self._undecoded.parts(bytes_mode):
            # Whole lines, or a piece of a long one: no line has another newline than its last byte.
            *ended, rest = bytes(part).split(_LINE_END)
            lines = [
                f'{str(line, "utf-8")},"decoded_key":{key or "null"},"decoded_value":{value or "null"}}}\n'
                for line, (key, value, _) in zip(ended, texts, strict=False)
            ]
            yield "".join(lines).encode() + rest

    def csv(self, header: tuple[str, ...], bytes_mode: BytesMode) -> Iterator[bytes]:
        """Yield all rows as CSV lines under these columns, a line at a time: the kernel knows no such columns."""
        for row in self.row_views():
            yield csv_row(self.table, row, header, bytes_mode)

    def _row(self, index: int, template: Template) -> dict[str, object]:
        row = super()._row(index, template)
        (text,) = self.texts((index,))
        row["decoded_key"] = None if text.key is None else json.loads(text.key)
        row["decoded_value"] = None if text.value is None else json.loads(text.value)
        return row


_NOTHING: Final = DecodedText()
