"""Files of an object store through the client of the Delta library, as a file system of pyarrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from deltalake.fs import DeltaStorageHandler

__all__ = ["DeltaFiles"]


class DeltaFiles(DeltaStorageHandler):
    """The library's own handler, whose streams take only bytes, while pyarrow writes its buffers."""

    def open_output_stream(self, path: str, metadata: object = None) -> pa.PythonFile:
        """Create an object, which appears when the file is closed."""
        del metadata  # none is asked for
        return pa.PythonFile(_Output(self._handler.open_output_stream(path)), mode="w")


class _Output:
    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.closed = False

    def write(self, data: memoryview) -> int:
        return int(self._stream.write(bytes(data)))

    def tell(self) -> int:
        return int(self._stream.tell())

    def flush(self) -> None:
        """The client writes parts as they are full, and the rest at the end."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._stream.close()
