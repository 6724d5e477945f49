"""The pages of chapters 5 and 7: Kafka's bytes, the rows, the catalogs, each from its declaration in the code."""

from __future__ import annotations

import re
import struct
from itertools import groupby
from typing import TYPE_CHECKING, Final

from kafkalog_core.findings.broker_messages import BROKER_MESSAGES
from kafkalog_core.format import layout
from kafkalog_core.format.layout import UNPROTECTED_FIELDS, UNPROTECTED_LENGTH, UNPROTECTED_VALUES
from kafkalog_core.kafka.rules.releases import LATEST
from kafkalog_core.ops.explain import entries
from kafkalog_core.output import tables
from tools import roff
from tools.untraceable import ONLY_WARNED, UNTRACEABLE, UNTRACEABLE_FIELDS

if TYPE_CHECKING:
    from kafkalog_core.format.layout import Field, Layout
    from kafkalog_core.ops.explain import Entry

__all__ = ["SECTIONS", "pages"]

SECTIONS: Final = {"kafkalog-format": 5, "kafkalog-rows": 5, "kafkalog-findings": 7, "kafkalog-messages": 7}
_TYPES = {"b": "int8", "h": "int16", "i": "int32", "I": "uint32", "q": "int64"}
_BITS = (
    (layout.CODEC_MASK, "codec, see CODECS"),
    (layout.TIMESTAMP_TYPE_BIT, "timestamp type: 0 create time, 1 log append time (magic 1 and 2)"),
    (layout.TRANSACTIONAL_BIT, "transactional (magic 2)"),
    (layout.CONTROL_BIT, "control batch (magic 2)"),
    (layout.DELETE_HORIZON_BIT, "baseTimestamp holds the delete horizon (magic 2)"),
)
_RECORD_FIELDS = (
    ("length", "varint", "bytes that follow"),
    ("attributes", "int8", "unused, 0"),
    ("timestampDelta", "varlong", "ms; timestamp - baseTimestamp of the batch"),
    ("offsetDelta", "varint", "offset - baseOffset of the batch"),
    ("keyLength", "varint", "bytes; -1: null"),
    ("key", "bytes", ""),
    ("valueLength", "varint", "bytes; -1: null, a tombstone"),
    ("value", "bytes", ""),
    ("headersCount", "varint", "headers that follow"),
    ("headerKeyLength, headerKey", "varint, bytes", "of each header; UTF-8, never null"),
    ("headerValueLength, headerValue", "varint, bytes", "of each header; -1: null"),
)


def pages() -> dict[str, str]:
    """All pages by file name."""
    return {
        "kafkalog-format.5": _format_page(),
        "kafkalog-rows.5": _rows_page(),
        "kafkalog-findings.7": _findings_page(),
        "kafkalog-messages.7": _messages_page(),
    }


def _format_page() -> str:
    text = roff.heading("kafkalog-format", 5, "the bytes of Apache Kafka's log directory")
    text += roff.section(
        "description",
        roff.paragraph(
            "What kafkalog reads, structure by structure. Integers are big-endian. For each field: its name as Kafka "
            "spells it, the byte where it starts, its type, its unit, and whether the structure's checksum covers it. "
            "Variable-length fields follow the fixed ones."
        ),
    )
    text += "".join(_layout_section(item) for item in layout.ALL_LAYOUTS)
    text += roff.section(
        '"record, magic 2"',
        roff.paragraph(
            "Follows the header of a record batch, compressed as a whole where the batch has a codec. The batch's crc "
            "covers it as it is stored. varint and varlong are zigzag-coded, of at most "
            f"{layout.MAX_VARINT_BYTES} and {layout.MAX_VARLONG_BYTES} bytes."
        )
        + "".join(roff.tagged(f"{roff.bold(name)} {kind}", note) for name, kind, note in _RECORD_FIELDS),
    )
    text += roff.section(
        '"message, magic 0 and 1, after keyLength"',
        roff.paragraph(
            "The key, valueLength (int32; negative: null) and the value. A message with a codec is a wrapper: its "
            "value is a compressed set of messages, each with its own offset and size. The payload of Kafka 0.7 "
            "follows crc directly; a wrapper holds a compressed set there, too."
        ),
    )
    text += roff.section(
        "attribute bits",
        "".join(roff.tagged(roff.bold(f"0x{mask:02x}"), meaning) for mask, meaning in _BITS),
    )
    text += roff.section("codecs", _numbered(layout.CODEC_NAMES))
    text += roff.section("control types", _numbered(layout.CONTROL_TYPE_NAMES))
    text += roff.section("what nothing protects", _unprotected())
    return text + roff.section("see also", roff.paragraph("kafkalog-dump(1), kafkalog-rows(5)"))


def _layout_section(item: Layout) -> str:
    body = roff.paragraph(f"{item.size} bytes. Source: {item.source}. Checksum: {item.checksum}.")
    for field in item.fields:
        place = f"byte {item.at(field.name)}, {_type_of(field.code)}"
        unit = f", {field.unit}" if field.unit else ""
        tag = f"{roff.bold(field.name)} {roff.literal(place + unit)}"
        body += roff.tagged(tag, ". ".join(filter(None, (field.note, _cover(field)))))
    return roff.section(f'"{item.name}"', body)


def _cover(field: Field) -> str:
    if field.name == "crc":
        return "The checksum itself."
    return "Covered." if field.covered else "Not covered."


def _type_of(code: str) -> str:
    return _TYPES.get(code, f"{struct.calcsize('>' + code)} bytes")


def _numbered(names: tuple[str, ...]) -> str:
    return "".join(roff.tagged(roff.bold(str(number)), name) for number, name in enumerate(names))


def _unprotected() -> str:
    """What leaves no trace in a log, from the list that a test proves."""
    body = roff.paragraph(
        "Changes of a log file that leave no trace in it, proven by changing every byte of small segments of each "
        "format and cutting them at every length. All other changes are found."
    )
    for item in UNPROTECTED_FIELDS:
        label = f"{roff.bold(item.field)} of {item.layout.name}"
        body += roff.tagged(label, f"{UNPROTECTED_VALUES[item.values].capitalize()}. {item.why}")
    return body + roff.tagged(roff.bold("the file's length"), UNPROTECTED_LENGTH)


def _rows_page() -> str:
    text = roff.heading("kafkalog-rows", 5, "the rows that kafkalog writes as JSON and CSV")
    text += roff.section(
        "description",
        roff.paragraph(
            "Every JSON object has a member type, which names the kind of row; the others follow in the order given "
            "here. What a format lacks is null. Times are integers, milliseconds since 1970; a position is a byte in a "
            "file, an offset is a Kafka offset."
        )
        + roff.paragraph(
            'Bytes (keys, values, header values) are text where they are exact UTF-8, as "key", and base64 where they '
            'are not, as "key_b64". With --bytes base64 or hex they always are "key_b64" or "key_hex"; header keys '
            "stay text where they can. For a null, the name is kept and the value is null."
        )
        + roff.paragraph(
            "CSV has the columns of all row types that the command line may yield, in one header line. A null is an "
            'empty field and an empty text is "". In --bytes auto a bytes column is two, key and key_b64, of which one '
            "is filled. Headers, maps and decoded records are JSON text. The summary is written to standard error."
        )
        + roff.paragraph(
            "With --path, rows of a part of a file, or of a partition, have one more column after topic, partition "
            f"and segment: {roff.bold(tables.PATH.name)} {tables.PATH.kind}, {tables.PATH.doc}."
        ),
    )
    titles = {tables.RECORD_V07: "record of Kafka 0.7", tables.RECORD_DECODED: "record of Kafka's own topics"}
    for table in (*tables.TABLES.values(), *titles):
        title = titles.get(table, table.name)
        text += roff.section(
            f'"{title}"',
            "".join(
                roff.tagged(f"{roff.bold(column.name)} {column.kind}", column.doc or column.name.replace("_", " "))
                for column in table.columns
            ),
        )
    return text + roff.section("see also", roff.paragraph("kafkalog-dump(1), kafkalog-findings(7)"))


def _findings_page() -> str:
    text = roff.heading("kafkalog-findings", 7, "the codes of what kafkalog finds")
    text += roff.section(
        "description",
        roff.paragraph(
            "A finding has a stable code, a severity, a message, what a broker does about it, and the cure. "
            "Only the severity error, and damage inside a log, make a command end with exit status 4. What is in <> "
            "differs from case to case. kafkalog explain CODE shows one of them."
        ),
    )
    known = entries()
    findings = sorted((entry for entry in known.values() if entry.kind == "finding"), key=lambda entry: entry.code)
    for subject, group in groupby(findings, key=lambda entry: entry.code.partition(".")[0]):
        text += roff.section(subject, "".join(_entry(entry) for entry in group))
    damage = sorted(entry.code for entry in known.values() if entry.kind == "damage")
    text += roff.section("reasons of damage rows", "".join(_entry(known[code]) for code in damage))
    text += roff.section("what no check can see", _untraceable())
    return text + roff.section(
        "see also", roff.paragraph("kafkalog-explain(1), kafkalog-messages(7), kafkalog-rows(5)")
    )


def _untraceable() -> str:
    """What leaves no trace in a directory, from the list that a test proves."""
    body = roff.paragraph(
        "Damage that looks like a healthy life, proven by damaging healthy directories at random: all other damage is "
        "found. kafkalog-format(5) lists what a log alone does not protect."
    )
    body += "".join(roff.tagged(roff.bold(item.what), item.why) for item in UNTRACEABLE.values())
    body += "".join(roff.tagged(roff.bold(item.what), item.why) for item in UNTRACEABLE_FIELDS.values())
    body += roff.paragraph("Only warnings, as a healthy broker may have left it so:")
    return body + "".join(roff.tagged(roff.bold(item.what), item.why) for item in ONLY_WARNED.values())


def _messages_page() -> str:
    text = roff.heading("kafkalog-messages", 7, "what brokers write into their logs about log directories")
    text += roff.section(
        "description",
        roff.paragraph(
            f"The messages of brokers from 0.8 to {LATEST} that kafkalog explain knows, in all wordings. What is in <> "
            "differs from line to line. If several match a line, the first one here applies. The severity is about "
            "the disk, not the level that the broker gives the line."
        ),
    )
    for message in BROKER_MESSAGES.values():
        body = "".join(f".br\n{roff.literal(_named(wording))}\n" for wording in message.wordings)
        parts = (message.happened, message.why, f"A broker: {message.broker_action}", f"Cure: {message.cure}")
        body += roff.paragraph(" ".join(_named(part) for part in parts))
        if message.codes:
            body += roff.paragraph(f"See: {', '.join(message.codes)}.")
        text += roff.section(f'"{message.name}, {message.severity}"', body)
    return text + roff.section("see also", roff.paragraph("kafkalog-explain(1), kafkalog-findings(7)"))


def _entry(entry: Entry) -> str:
    parts = [f"{entry.severity.capitalize()}." if entry.kind == "finding" else "", entry.meaning]
    parts += [f'"{entry.message}"' if entry.message != entry.meaning else ""]
    parts += [f"A broker: {entry.broker_action}", f"Cure: {entry.cure}"]
    return roff.tagged(roff.bold(entry.code), " ".join(filter(None, parts)))


def _named(text: str) -> str:
    return re.sub(r"\{(\w+)\}", r"<\1>", text)
