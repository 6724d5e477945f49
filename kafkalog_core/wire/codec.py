"""The codec: a decoder and an encoder for each message and version, made from its schema when they are first used.

Both are Python functions whose source is written here from the schema: fixed fields that follow each other, and the
length of the string after them, are one `struct` call. A decoder checks every length against the bytes that are left
before it allocates anything, counts the elements of all arrays, and raises ProtocolError alone. `records` is decoded to
a view of the input. An encoder makes a list of pieces, so that a file range (anything with a length) can take the place
of records.

The encoding is that of `ByteBufferAccessor` and of the classes that Kafka generates from these schemas (KIP-482 for
flexible versions).
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from kafkalog_core.errors import ProtocolError
from kafkalog_core.structs import Struct, replace
from kafkalog_core.wire.schemas import schema_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalog_core.wire.schemas import MessageField

__all__ = ["MAX_ELEMENTS", "UNKNOWN_TAGS", "VERSION_BYTES", "Codec", "ElementLimitError", "EncodedPart", "codec"]


class EncodedPart(Protocol):
    """A part of an encoded message: bytes, or a range of a file that has this length."""

    def __len__(self) -> int:
        """Return the length in bytes."""


_FIXED: Final = {"bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q"} | {
    "float64": "d",
    "uuid": "16s",
}
VERSION_BYTES: Final = 2
"""Bytes of the type or version in front of each key and value of Kafka's own topics, which no schema has."""
_SMALLEST_ELEMENT: Final = 1
_SHORT: Final = 16
"""Arrays of fixed values with fewer elements, such as lists of replicas, have a reader made once for each length."""
MAX_ELEMENTS: Final = 1_000_000
"""Elements of the arrays of one message, each of which takes far more memory than its bytes.

The generated readers of Kafka 4.2.2 and 4.4.0 refuse an array with more; here all arrays of a message count together.
"""
UNKNOWN_TAGS: Final = "unknown_tags"
"""Key of a decoded struct: pairs of a tag that its schema does not have and its bytes, in their order, if there are."""
_MAX_TAGGED: Final = 10_000  # tagged fields of one struct, in the same readers
_MAX_STRING_BYTES: Final = 0x7FFF  # of a string with a varint length, too: MessageDataGenerator
_BAD_BYTES: Final = (struct.error, IndexError, UnicodeDecodeError)
_BAD_VALUE: Final = (struct.error, KeyError, TypeError, AttributeError, ValueError, UnicodeEncodeError)


class ElementLimitError(ProtocolError):
    """The arrays of a message have more elements than its reader takes."""


class Codec(Struct, frozen=True):
    """The codec of one version of a message."""

    name: str
    version: int
    _decode: Callable[[bytes | memoryview, int, int, list[int]], tuple[dict[str, Any], int]]
    _encode: Callable[[dict[str, Any], Callable[[EncodedPart], None]], None]

    def decode(
        self, data: bytes | memoryview, position: int = 0, *, max_elements: int = MAX_ELEMENTS
    ) -> tuple[dict[str, Any], int]:
        """Return the message at a position of some bytes, and the position after it. Raises ProtocolError.

        max_elements: of all arrays together; more of them raise ElementLimitError.
        """
        view = data if isinstance(data, bytes) else memoryview(data)  # small slices of bytes cost less than views
        try:
            return self._decode(view, position, len(view), [max_elements])
        except _BAD_BYTES as error:
            raise ProtocolError(f"{self.name} version {self.version} cannot be decoded: {error}") from error

    def decode_whole(self, data: bytes | memoryview, position: int = 0) -> dict[str, Any]:
        """Return the message that some bytes are from a position on. Raises ProtocolError, also if bytes are left."""
        message, end = self.decode(data, position)
        if end != len(data):
            raise ProtocolError(f"{self.name} version {self.version} ends at byte {end} of {len(data)}")
        return message

    def encode(self, message: dict[str, Any]) -> list[EncodedPart]:
        """Return the pieces of an encoded message. Fields with a default may be missing. Raises ProtocolError."""
        pieces: list[EncodedPart] = []
        try:
            self._encode(message, pieces.append)
        except _BAD_VALUE as error:
            raise ProtocolError(
                f"{self.name} version {self.version} cannot be encoded: {type(error).__name__}: {error}"
            ) from error
        return pieces


@cache
def codec(name: str, version: int) -> Codec:
    """Return the codec of one version of a message, by its name in Kafka's schemas. Raises ProtocolError."""
    schema = schema_of(name, version)
    writer = _Source(version, is_flexible=version in schema.flexible)
    decode = writer.decoder(schema.fields)
    encode = writer.encoder(schema.fields)
    space = writer.space
    exec("\n".join(writer.lines), space)  # noqa: S102 -- the source is written below, from our own table
    return Codec(name, version, space[decode], space[encode])


def _varint(view: bytes | memoryview, position: int) -> tuple[int, int]:
    """Return an unsigned varint of at most 32 bits, and the position after it (`ByteUtils.readUnsignedVarint`)."""
    value = shift = 0
    while True:
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise ProtocolError(f"the varint before byte {position} is longer than five bytes")
    if value > 0xFFFFFFFF:
        raise ProtocolError(f"the varint before byte {position} is larger than 32 bits")
    return value, position


def _long_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_VARINTS: Final = tuple(_long_varint(value) for value in range(1 << 10))


def _put_varint(value: int) -> bytes:
    return _VARINTS[value] if value < len(_VARINTS) else _long_varint(value)


def _varint_of(expression: str) -> str:
    """Return an expression of the encoded varint: a look-up, and a call for large numbers only."""
    return f"V[n] if (n := {expression}) < {len(_VARINTS)} else put_varint(n)"


def _short(what: str, count: int, left: int) -> ProtocolError:
    if count < 0:
        return ProtocolError(f"{what} is null, or has the length {count}")
    return ProtocolError(f"{what} has the length {count}, but {left} bytes are left")


def _many(what: str, count: int, left: int) -> ElementLimitError:
    return ElementLimitError(f"{what} has {count} elements, and at most {left} more are read of this message")


@cache
def _array_readers(code: str) -> tuple[Callable[[bytes | memoryview, int], tuple[Any, ...]], ...]:
    """Return what reads an array of fixed values, by its length while that is below `_SHORT`."""
    return tuple(struct.Struct(f">{count}{code}").unpack_from for count in range(_SHORT))


class _Source:
    """The source of the functions of one version of a message, and the names that it uses.

    Names in the source: `b` the input, `p` the position, `e` the end of the input, `c` a list with the number of
    elements that may follow; `m` a message or struct, `A` the function that appends a piece.
    """

    def __init__(self, version: int, *, is_flexible: bool) -> None:
        self.lines: list[str] = []
        self.space: dict[str, Any] = {"varint": _varint, "put_varint": _put_varint, "short": _short, "V": _VARINTS}
        self.space["many"] = _many
        self.space["unpack"] = struct.unpack_from
        self._version = version
        self._is_flexible = is_flexible
        self._count = 0

    def _new(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def _constant(self, prefix: str, value: object) -> str:
        name = self._new(prefix)
        self.space[name] = value
        return name

    def _flexible(self, field: MessageField) -> bool:
        return self._is_flexible if field.flexible is None else self._version in field.flexible

    def _split(self, fields: Sequence[MessageField]) -> tuple[list[MessageField], ...]:
        """Return the fields in the order of bytes, those with tags, and those that this version does not have."""
        there = [field for field in fields if self._version in field.versions]
        tagged = [field for field in there if self._version in field.tagged]
        plain = [field for field in there if self._version not in field.tagged]
        return plain, sorted(tagged, key=lambda field: field.tag), [field for field in fields if field not in there]

    # --- decoding -----------------------------------------------------------------------------------------------------
    def decoder(self, fields: Sequence[MessageField]) -> str:
        """Write the decoder of a struct, after those of the structs in it; return its name."""
        plain, tagged, absent = self._split(fields)
        body: list[str] = []
        run: list[tuple[str, str]] = []  # format and name of fixed values that follow each other
        for field in plain:
            self._decode_field(field, body, run)
        self._flush_reads(body, run)
        pairs = [f"{field.name!r}: v_{field.name}" for field in (*plain, *tagged)]
        pairs += [f"{field.name!r}: {self._default(field)}" for field in absent]
        message = f"{{{', '.join(pairs)}}}"
        if self._is_flexible:
            self._decode_tags(tagged, body)
            body.append(f"if u: return {{**{message}, {UNKNOWN_TAGS!r}: u}}, p")
        name = self._new("decode_")
        self.lines += [f"def {name}(b, p, e, c):", *(f"    {line}" for line in body), f"    return {message}, p"]
        return name

    def _default(self, field: MessageField) -> str:
        """Return an expression of a field's default: a new object each time if it can be changed."""
        return repr(field.default)  # a display of a list or a dict makes a new one each time

    def _flush_reads(self, body: list[str], run: list[tuple[str, str]]) -> None:
        if run:
            reader = struct.Struct(">" + "".join(code for code, _ in run))
            read = self._constant("read_", reader.unpack_from)
            body.append(f"{', '.join(name for _, name in run)}, = {read}(b, p); p += {reader.size}")
            run.clear()

    def _decode_field(self, field: MessageField, body: list[str], run: list[tuple[str, str]]) -> None:
        target = f"v_{field.name}"
        if not field.is_array and field.type in _FIXED:
            run.append((_FIXED[field.type], target))
            return
        is_nullable = self._version in field.nullable
        if field.struct is not None and not field.is_array:
            function = self.decoder(field.struct.fields)
            if is_nullable:
                run.append(("b", "n"))
            self._flush_reads(body, run)
            call = f"{target}, p = {function}(b, p, e, c)"
            body += [f"if n < 0: {target} = None", f"else: {call}"] if is_nullable else [call]
            return
        self._decode_length(field, body, run)
        what = repr(field.name)
        body.append("if n < 0:")
        body.append(f"    {target} = None" if is_nullable else f"    raise short({what}, n, e - p)")
        body.append("else:")
        inner: list[str] = []
        if field.is_array:
            self._decode_elements(field, target, inner)
        else:
            inner += ["q = p + n", f"if q > e: raise short({what}, n, e - p)"]
            value = {"string": "str({}, 'utf-8')", "bytes": "bytes({})", "records": "memoryview(b)[p:q]"}[field.type]
            inner += [f"{target} = {value.format('b[p:q]')}; p = q"]
        body += [f"    {line}" for line in inner]

    def _decode_length(self, field: MessageField, body: list[str], run: list[tuple[str, str]]) -> None:
        """Leave the length in `n`, below zero for null."""
        if self._flexible(field):
            self._flush_reads(body, run)
            body += ["n = b[p]; p += 1", "if n > 127:", "    n, p = varint(b, p - 1)"]
            if field.type == "string" and not field.is_array:
                body += [f"    if n > {_MAX_STRING_BYTES + 1}: raise short({field.name!r}, n - 1, {_MAX_STRING_BYTES})"]
            body += ["n -= 1"]
        else:
            run.append(("h" if field.type == "string" and not field.is_array else "i", "n"))
            self._flush_reads(body, run)

    def _decode_elements(self, field: MessageField, target: str, body: list[str]) -> None:
        what = repr(field.name)
        least = self._least(field)
        body.append(f"if n * {least} > e - p: raise short({what}, n, e - p)")
        body += ["c[0] -= n", f"if c[0] < 0: raise many({what}, n, c[0] + n)"]
        code = _FIXED.get(field.type)
        if code is not None:
            body.append(f"q = p + n * {least}")
            if field.type == "uuid":  # `b` and `p` in a comprehension would make all uses of them slower
                split = self._constant("split_", struct.Struct(code).iter_unpack)
                body.append(f"{target} = [x for x, in {split}(b[p:q])]; p = q")
            else:
                readers = self._constant("readers_", _array_readers(code))
                body.append(
                    f"{target} = list({readers}[n](b, p) if n < {_SHORT} else unpack(f'>{{n}}{code}', b, p)); p = q"
                )
            return
        body.append(f"{target} = []")
        body.append(f"append_{field.name} = {target}.append")
        body.append("for _ in range(n):")
        if field.struct is not None:
            function = self.decoder(field.struct.fields)
            body += [f"    x, p = {function}(b, p, e, c)", f"    append_{field.name}(x)"]
            return
        inner: list[str] = []
        run: list[tuple[str, str]] = []
        self._decode_length(replace(field, is_array=False), inner, run)
        inner += ["q = p + n", f"if n < 0 or q > e: raise short({what}, n, e - p)"]
        value = "str(b[p:q], 'utf-8')" if field.type == "string" else "bytes(b[p:q])"
        inner += [f"append_{field.name}({value}); p = q"]
        body += [f"    {line}" for line in inner]

    def _least(self, field: MessageField) -> int:
        """Return the smallest number of bytes of an element of an array."""
        if field.struct is None:
            code = _FIXED.get(field.type)
            return struct.calcsize(f">{code}") if code else (1 if self._flexible(field) else 2)
        return self._least_struct(field.struct.fields)

    def _least_struct(self, fields: Sequence[MessageField]) -> int:
        size = int(self._is_flexible)
        for field in self._split(fields)[0]:
            code = _FIXED.get(field.type)
            if code is not None and not field.is_array:
                size += struct.calcsize(f">{code}")
            elif field.struct is not None and not field.is_array:
                size += 1 if self._version in field.nullable else self._least_struct(field.struct.fields)
            elif self._flexible(field):
                size += 1
            else:
                size += 2 if field.type == "string" and not field.is_array else 4
        return max(size, _SMALLEST_ELEMENT)

    def _decode_tags(self, tagged: Sequence[MessageField], body: list[str]) -> None:
        body += [f"v_{field.name} = {self._default(field)}" for field in tagged]
        body += ["u = None", "n = b[p]; p += 1"]
        body += ["if n:", "    if n > 127: n, p = varint(b, p - 1)"]
        body += [f"    s = min(c[0], {_MAX_TAGGED})", "    if n > s: raise many('a struct with tagged fields', n, s)"]
        body += ["    c[0] -= n"]
        body += ["    for _ in range(n):"]
        inner = ["t = b[p]; p += 1", "if t > 127: t, p = varint(b, p - 1)"]
        inner += ["s = b[p]; p += 1", "if s > 127: s, p = varint(b, p - 1)", "end = p + s"]
        inner += ["if end > e: raise short('a tagged field', s, e - p)"]
        word = "if"
        for field in tagged:
            inner.append(f"{word} t == {field.tag}:")
            one: list[str] = []
            if field.struct is not None and not field.is_array and self._version in field.nullable:
                function = self.decoder(field.struct.fields)
                one += ["n, p = varint(b, p)", f"if n == 0: v_{field.name} = None"]
                one += [f"else: v_{field.name}, p = {function}(b, p, end, c)"]
            else:
                run: list[tuple[str, str]] = []
                self._decode_field(field, one, run)
                self._flush_reads(one, run)
            one += [f"if p != end: raise short({field.name!r}, s, end - p)"]
            inner += [f"    {line}" for line in one]
            word = "elif"
        # A tag of a later release is kept: a record that is decoded and encoded again is the same.
        unknown = ["if u is None: u = []", "u.append((t, bytes(b[p:end]))); p = end"]
        inner += ["else:", *(f"    {line}" for line in unknown)] if tagged else unknown
        body += [f"        {line}" for line in inner]

    # --- encoding -----------------------------------------------------------------------------------------------------
    def encoder(self, fields: Sequence[MessageField]) -> str:
        """Write the encoder of a struct, after those of the structs in it; return its name."""
        plain, tagged, absent = self._split(fields)
        body: list[str] = []
        run: list[tuple[str, str]] = []  # format and expression of fixed values that follow each other
        for field in absent:
            if not field.is_ignorable:
                body.append(f"if {field.name!r} in m and m[{field.name!r}] != {field.default!r}:")
                body.append(f"    raise ValueError({f'the version has no {field.name}'!r})")
        for field in plain:
            self._encode_field(field, self._value(field), body, run)
        self._flush_writes(body, run)
        if self._is_flexible:
            self._encode_tags(tagged, body)
        name = self._new("encode_")
        self.lines += [f"def {name}(m, A):", *(f"    {line}" for line in body or ["pass"])]
        return name

    def _value(self, field: MessageField) -> str:
        if field.has_default or field.is_ignorable:
            return f"m.get({field.name!r}, {field.default!r})"
        return f"m[{field.name!r}]"

    def _flush_writes(self, body: list[str], run: list[tuple[str, str]]) -> None:
        if run:
            pack = self._constant("pack_", struct.Struct(">" + "".join(code for code, _ in run)).pack)
            body.append(f"A({pack}({', '.join(value for _, value in run)}))")
            run.clear()

    def _encode_field(self, field: MessageField, value: str, body: list[str], run: list[tuple[str, str]]) -> None:
        if not field.is_array and field.type in _FIXED:
            run.append((_FIXED[field.type], f"uuid({value})" if field.type == "uuid" else value))
            self.space["uuid"] = _uuid
            return
        name = f"v_{field.name}"
        is_nullable = self._version in field.nullable
        body.append(f"{name} = {value}")
        if field.struct is not None and not field.is_array:
            function = self.encoder(field.struct.fields)
            if not is_nullable:
                self._flush_writes(body, run)
                body.append(f"{function}({name}, A)")
                return
            run.append(("b", f"-1 if {name} is None else 1"))
            self._flush_writes(body, run)
            body.append(f"if {name} is not None: {function}({name}, A)")
            return
        if field.type == "string" and not field.is_array:
            encoded = f"{name}.encode()"
            body.append(f"if {name} is not None: {name} = {encoded}" if is_nullable else f"{name} = {encoded}")
        self._encode_length(field, name, body, run, is_nullable=is_nullable)
        lines = self._encode_elements(field, name) if field.is_array else [f"A({name})"]
        if is_nullable:
            lines = [f"if {name} is not None:", *(f"    {line}" for line in lines)]
        body += lines

    def _encode_length(
        self, field: MessageField, name: str, body: list[str], run: list[tuple[str, str]], *, is_nullable: bool
    ) -> None:
        if self._flexible(field):
            self._flush_writes(body, run)
            length = _varint_of(f"len({name}) + 1")
            body.append(f"A(V[0] if {name} is None else {length})" if is_nullable else f"A({length})")
        else:
            code = "h" if field.type == "string" and not field.is_array else "i"
            run.append((code, f"-1 if {name} is None else len({name})" if is_nullable else f"len({name})"))
            self._flush_writes(body, run)

    def _encode_elements(self, field: MessageField, name: str) -> list[str]:
        code = _FIXED.get(field.type)
        if code is not None and code[0] != "1":
            pack = self._constant("pack_", struct.pack)
            return [f"A({pack}(f'>{{len({name})}}{code}', *{name}))"]
        if field.struct is not None:
            return [f"for x in {name}: {self.encoder(field.struct.fields)}(x, A)"]
        if code is not None:
            self.space["uuid"] = _uuid
            return [f"for x in {name}: A(uuid(x))"]
        lines = [f"for x in {name}:"]
        lines += ["    x = x.encode()"] if field.type == "string" else []
        if self._flexible(field):
            lines.append(f"    A({_varint_of('len(x) + 1')})")
        else:
            pack = self._constant("pack_", struct.Struct(">h" if field.type == "string" else ">i").pack)
            lines.append(f"    A({pack}(len(x)))")
        return [*lines, "    A(x)"]

    def _encode_tags(self, tagged: Sequence[MessageField], body: list[str]) -> None:
        body.append(f"tags = [(t, [x]) for t, x in m[{UNKNOWN_TAGS!r}]] if {UNKNOWN_TAGS!r} in m else []")
        for field in tagged:
            name = f"v_{field.name}"
            is_other = f"{name} != {field.default!r}"
            if isinstance(field.default, dict):  # a struct with its defaults filled in
                is_other = f"({name} is None or {{**{field.default!r}, **{name}}} != {field.default!r})"
            body.append(f"if {field.name!r} in m:")  # which it is not in nearly every message
            body.append(f"    {name} = m[{field.name!r}]")
            body.append(f"    if {is_other}:")
            function = self._tag_encoder(field)
            body += [f"        tag = []; {function}({name}, tag.append); tags.append(({field.tag}, tag))"]
        # Tags are in ascending order (KIP-482), and no two have one number, so their values are not compared.
        body.append("if len(tags) > 1: tags.sort(key=lambda each: each[0])")
        body.append("if not tags: A(V[0])")
        body.append("else:")
        body.append("    A(put_varint(len(tags)))")
        body.append("    for number, tag in tags:")
        body.append("        A(put_varint(number)); A(put_varint(sum(map(len, tag))))")
        body.append("        for x in tag: A(x)")

    def _tag_encoder(self, field: MessageField) -> str:
        """Write the encoder of one tagged value; return its name."""
        inner: list[str] = []
        run: list[tuple[str, str]] = []
        if field.struct is not None and not field.is_array and self._version in field.nullable:
            function = self.encoder(field.struct.fields)  # null is a varint here, and a byte elsewhere
            inner += ["if value is None: A(V[0])", f"else: A(V[1]); {function}(value, A)"]
        else:
            self._encode_field(field, "value", inner, run)
            self._flush_writes(inner, run)
        name = self._new("encode_tag_")
        self.lines += [f"def {name}(value, A):", *(f"    {line}" for line in inner)]
        return name


def _uuid(value: bytes) -> bytes:
    """Return an id of 16 bytes; `struct` would silently pad or cut another length."""
    if len(value) != 16:
        raise ValueError(f"an id has 16 bytes, not {len(value)}")
    return value
