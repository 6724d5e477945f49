"""TLS on a connection: the standard library's, on a socket that does not block."""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.broker.answers import SharedFile
    from kafkalog_core.broker.network import Socket

__all__ = ["TlsTransport", "server_context"]

_WRITE_BYTES: Final = 64 * 1024


class TlsTransport:
    """A connection with TLS. The handshake goes on while the client's first request is read."""

    def __init__(self, connected: Socket, context: ssl.SSLContext) -> None:
        """Take over a connected, non-blocking socket."""
        self._socket = context.wrap_socket(connected, server_side=True, do_handshake_on_connect=False)
        self.fileno = self._socket.fileno
        self.close = self._socket.close

    def receive_into(self, buffer: memoryview) -> int:
        """Read into a buffer and return the number of bytes; 0: the client closed its side."""
        try:
            return self._socket.recv_into(buffer)
        except ssl.SSLWantReadError:
            raise BlockingIOError from None
        except ssl.SSLError as error:  # SSLWantWriteError too: a handshake fits the buffer of a new socket
            raise ConnectionError(f"TLS: {error.reason or error}") from error

    def received(self) -> int:
        """Return how many bytes were decrypted that nobody has read."""
        return self._socket.pending()

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
    of these (ssl.client.auth=required); None: nobody needs one. Raises SettingError.
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


def _no_password() -> str:
    """Return no password: OpenSSL would ask for one on the terminal."""
    return ""
