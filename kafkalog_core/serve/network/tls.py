"""TLS on a connection: the standard library's, on a socket that does not block."""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.serve.logs.file_ranges import SharedFile
    from kafkalog_core.serve.network.socket_server import Socket

__all__ = ["TlsTransport", "server_context", "subject_of"]

_WRITE_BYTES: Final = 64 * 1024
_KEYWORDS: Final = {
    # the attributes that RFC 2253 names
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ENCODINGS: Final = {
    0x0C: "utf-8",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1B: "latin-1",
    0x1C: "utf-32-be",
} | {0x1E: "utf-16-be"}
"""Of the types of strings in ASN.1, by their tags."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_VERSION_TAG: Final = 0xA0
_BEFORE_SUBJECT: Final = 4  # serial number, algorithm, issuer, validity
_LONG: Final = 0x80


class TlsTransport:
    """A connection with TLS. The handshake goes on while the client's first request is read."""

    def __init__(self, connected: Socket, context: ssl.SSLContext) -> None:
        """Take over a connected, non-blocking socket."""
        self._socket = context.wrap_socket(connected, server_side=True, do_handshake_on_connect=False)
        self._is_open = False  # whether the handshake is over
        self._subject: str | None = None
        self.sends_all = False
        self.fileno = self._socket.fileno
        self.close = self._socket.close

    def receive_into(self, buffer: memoryview) -> int:
        """Read into a buffer and return the number of bytes; 0: the client closed its side."""
        try:
            size = self._socket.recv_into(buffer)
        except ssl.SSLWantReadError:
            raise BlockingIOError from None
        except ssl.SSLError as error:  # SSLWantWriteError too: a handshake fits the buffer of a new socket
            raise ConnectionError(f"TLS: {error.reason or error}") from error
        if size and not self._is_open:
            self._end_handshake()
        return size

    def _end_handshake(self) -> None:
        """Note the client's name once, on the thread of the connection, which alone uses the socket.

        `SslTransportLayer.peerPrincipal` returns what the handshake left in the session, too.
        """
        certificate = self._socket.getpeercert(binary_form=True)
        self._subject = None if certificate is None else subject_of(certificate)
        self._is_open = True

    def received(self) -> int:
        """Return how many decrypted bytes were not read yet."""
        return self._socket.pending()

    def certificate_subject(self) -> str | None:
        """Return the distinguished name in the client's certificate; None: it has none, or the handshake goes on."""
        return self._subject

    def send(self, buffers: Sequence[memoryview], more: bool) -> int:
        """Send a part of the buffers; what would wait is sent again from its first byte on."""
        del more
        data = bytearray()
        for buffer in buffers:
            data += buffer[: _WRITE_BYTES - len(data)]
        return self._send(data)

    def send_file(self, file: SharedFile, position: int, size_bytes: int) -> int:
        """Send a part of a range of a file; the kernel cannot do that for us here."""
        data = os.pread(file.descriptor, min(size_bytes, _WRITE_BYTES), position)
        return self._send(data) if data else 0

    def _send(self, data: bytes | bytearray) -> int:
        try:
            return self._socket.send(data)
        except ssl.SSLWantWriteError:
            raise BlockingIOError from None
        except ssl.SSLError as error:
            raise ConnectionError(f"TLS: {error.reason or error}") from error


def server_context(certificate: str, key: str | None, client_authorities: str | None) -> ssl.SSLContext:
    """Return how a server does TLS, from PEM files.

    key: None: it is in the file of the certificate. client_authorities: every client must have a certificate of one
    of these (ssl.client.auth=required); None: no client needs one. Raises SettingError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
        if client_authorities is not None:
            context.load_verify_locations(client_authorities)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ValueError) as error:
        files = ", ".join(each for each in (certificate, key, client_authorities) if each is not None)
        if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
            raise SettingError(f"TLS cannot use {files}: {error.strerror}") from error
        wanted = "expected PEM files of a certificate and of its key, which no password protects"
        raise SettingError(f"TLS cannot use {files}: {wanted}") from error
    return context


def subject_of(certificate: bytes) -> str:
    """Return the distinguished name of the subject of a valid certificate, DER (RFC 5280).

    It is written as `X500Principal.getName` does, which is the name of the principal for Kafka
    (`DefaultKafkaPrincipalBuilder`, ssl.principal.mapping.rules=DEFAULT): RFC 2253, the last part first.
    """
    (_, whole), *_ = _elements(certificate)
    (_, signed), *_ = _elements(whole)
    fields = _elements(signed)
    first = 1 if fields[0][0] == _VERSION_TAG else 0
    subject = fields[first + _BEFORE_SUBJECT][1]
    return ",".join("+".join(map(_attribute, _elements(part))) for _, part in reversed(_elements(subject)))


def _elements(data: bytes) -> list[tuple[int, bytes]]:
    """Return tags and contents of the DER values that follow each other."""
    found = []
    position = 0
    while position < len(data):
        tag, size = data[position], data[position + 1]
        position += 2
        if size & _LONG:
            count = size - _LONG
            size = int.from_bytes(data[position : position + count], "big")
            position += count
        found.append((tag, data[position : position + size]))
        position += size
    return found


def _attribute(element: tuple[int, bytes]) -> str:
    """Return KEYWORD=value; a value that is not a string, or of a type without a keyword, is hexadecimal."""
    (_, identifier), (tag, value) = _elements(element[1])
    name = _object_id(identifier)
    keyword, encoding = _KEYWORDS.get(name), _ENCODINGS.get(tag)
    if keyword is None or encoding is None:
        size = bytes([len(value)]) if len(value) < _LONG else _long_size(len(value))
        return f"{keyword or name}=#{(bytes([tag]) + size + value).hex()}"
    text = "".join(f"\\{each}" if each in _ESCAPED else each for each in value.decode(encoding, "replace"))
    text = text.replace("\0", "\\00")
    first, last = len(text) - len(text.lstrip(" ")), len(text.rstrip(" "))
    if last == 0:
        return f"{keyword}=" + text.replace(" ", "\\ ")
    return f"{keyword}=" + "\\ " * first + text[first:last] + "\\ " * (len(text) - last)


def _long_size(size: int) -> bytes:
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([_LONG | len(digits)]) + digits


def _object_id(data: bytes) -> str:
    """Return an object identifier in dotted form."""
    numbers = [0]
    for byte in data:
        numbers[-1] = numbers[-1] << 7 | byte & 0x7F
        if byte < _LONG:
            numbers.append(0)
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:-1])))


def _no_password() -> str:
    """Return no password: OpenSSL would ask for one on the terminal."""
    return ""
