"""What fake-gcs-server lacks of Google's XML interface, which the Delta library speaks: a process before it.

python -m tests.support.google_xml PORT PORT_OF_FAKE_GCS_SERVER
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import sys
import uuid
from html import unescape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

_Answer = tuple[int, list[tuple[str, str]], bytes]
"""Status, headers and data."""


class _Front(ThreadingHTTPServer):
    """Passes requests on; those of the XML interface as those of the JSON interface that ask the same.

    https://cloud.google.com/storage/docs/xml-api/put-object-upload, `x-goog-if-generation-match` of it too; and
    `start-after` of https://cloud.google.com/storage/docs/xml-api/get-bucket-list.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], behind: int) -> None:
        super().__init__(address, _Handler)
        self.behind = behind
        self.parts: dict[str, dict[int, bytes]] = {}
        """Of each upload in parts: their data by number."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Front

    def _pass(self) -> None:
        body = self._body()
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        if url.path.startswith(("/storage/", "/upload/", "/download/", "/batch/", "/_internal/")):
            self._answer(*self._ask(self.command, self.path, body))
            return
        bucket, _, name = url.path[1:].partition("/")
        if self.command == "POST" and "uploads" in query:
            upload = str(uuid.uuid4())
            self.server.parts[upload] = {}
            names = f"<Bucket>{bucket}</Bucket><Key>{name}</Key><UploadId>{upload}</UploadId>"
            self._answer(HTTPStatus.OK, [], _xml("InitiateMultipartUploadResult", names))
        elif self.command == "PUT" and "partNumber" in query:
            self.server.parts[query["uploadId"]][int(query["partNumber"])] = body
            self._answer(HTTPStatus.OK, [("ETag", f'"{query["partNumber"]}"')], b"")
        elif self.command == "DELETE" and "uploadId" in query:
            self.server.parts.pop(query["uploadId"], None)
            self._answer(HTTPStatus.NO_CONTENT, [], b"")
        elif self.command == "POST" and "uploadId" in query:
            parts = self.server.parts.pop(query["uploadId"])
            status, headers, data = self._put(bucket, name, b"".join(parts[number] for number in sorted(parts)))
            tag = f"<Bucket>{bucket}</Bucket><Key>{name}</Key><ETag>{_tag(data)}</ETag>"
            self._answer(status, headers, _xml("CompleteMultipartUploadResult", tag))
        elif self.command == "PUT":
            status, headers, data = self._put(bucket, name, body)
            self._answer(status, [*headers, ("ETag", _tag(data))] if status == HTTPStatus.OK else headers, data)
        else:
            status, headers, data = self._ask(self.command, self.path, body)
            self._answer(status, headers, _after(data, query["start-after"]) if "start-after" in query else data)

    def _put(self, bucket: str, name: str, body: bytes) -> _Answer:
        asked = {"uploadType": "media", "name": unquote(name)}
        if "x-goog-if-generation-match" in self.headers:
            asked["ifGenerationMatch"] = self.headers["x-goog-if-generation-match"]
        return self._ask("POST", f"/upload/storage/v1/b/{bucket}/o?{urlencode(asked)}", body)

    def _ask(self, command: str, path: str, body: bytes) -> _Answer:
        left_out = {"connection", "transfer-encoding", "content-length", "expect"}
        headers = {name: value for name, value in self.headers.items() if name.lower() not in left_out}
        line = http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=60)
        with contextlib.closing(line):
            line.request(command, path, body or None, {**headers, "Content-Length": str(len(body))})
            answer = line.getresponse()
            return answer.status, answer.getheaders(), answer.read()

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
        self.send_response(status)
        length = str(len(data))
        for name, value in headers:
            if name.lower() == "content-length" and self.command == "HEAD":
                length = value
            elif name.lower() not in {"content-length", "transfer-encoding", "connection", "date"}:
                self.send_header(name, value)
        if status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", length)
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(data)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = _pass  # noqa: N815 -- their names in the base class

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(parts)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- its name in the base class
        pass


def _tag(uploaded: bytes) -> str:
    return str(json.loads(uploaded).get("etag"))


def _xml(name: str, content: str) -> bytes:
    return f"<?xml version='1.0' encoding='UTF-8'?><{name}>{content}</{name}>".encode()


def _after(listing: bytes, name: str) -> bytes:
    """Leave out the objects of a listing up to a name."""
    return re.sub(
        rb"<Contents><Key>([^<]*)</Key>.*?</Contents>",
        lambda found: found[0] if unescape(found[1].decode()) > name else b"",
        listing,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    own, behind = map(int, sys.argv[1:])
    _Front(("127.0.0.1", own), behind).serve_forever()
