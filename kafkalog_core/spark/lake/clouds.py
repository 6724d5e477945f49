"""Where an output may be besides a directory: in S3, Azure Blob Storage or Google Cloud Storage.

The Delta library commits, and also writes and reads the files in Azure and Google's store: with it each object appears
as a whole, while pyarrow's client for Azure creates an empty one first. Those in S3 are written and read by pyarrow's,
as inputs are. Without credentials both look for an identity of the machine itself.
"""

from __future__ import annotations

import base64
import json
import os
import re
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.errors import SelectionError, UnsupportedError
from kafkalog_core.spark.session.errors import local_paths
from kafkalog_core.storage.object_paths import AZURE_NAMES, GOOGLE_NAMES, S3, known_options
from kafkalog_core.storage.objects import file_system, options_of
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyarrow.fs import FileSystem

    Pairs = tuple[tuple[str, str], ...]

__all__ = ["PROBE_ATTEMPTS", "Cloud", "check_installed", "cloud_of", "output_path"]

PROBE_ATTEMPTS: Final = 3
"""Of a request that shows whether a store answers at all."""
_IDENTITY: Final = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET")
_CREDENTIALS: Final = (("AZURE_STORAGE_ACCOUNT_KEY",), ("AZURE_STORAGE_SAS_TOKEN",), _IDENTITY)
_ALL_CREDENTIALS: Final = frozenset(name for kind in _CREDENTIALS for name in kind)
_AZURITE: Final = "AZURITE_BLOB_STORAGE_URL"
_ENVIRONMENT: Final = Lock()
"""Of who changes the environment of this process for a moment."""
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


class Cloud(Struct, frozen=True, kw_only=True):
    """A kind of object store.

    Args:
        scheme: how the URI of an output begins.
        form: the whole of it, for people.
        start: the part of it before the prefix.
        options: returns what is given, completed by the environment; raises SelectionError.
        place: returns pyarrow's file system, and the path of a URI in it.
        probe: the same for a request that shows whether the store answers: it is not tried for a minute.
        delta: returns the options for a URI as the Delta library names them.
        names: variables of the environment that the library must not take by itself: the options have what counts.
        excluded: characters that the two clients take differently.
    """

    scheme: str
    form: str
    start: re.Pattern[str]
    options: Callable[[Mapping[str, str]], Pairs]
    place: Callable[[str, Pairs], tuple[FileSystem, str]]
    probe: Callable[[str, Pairs], tuple[FileSystem, str]]
    delta: Callable[[str, Pairs], dict[str, str]]
    names: tuple[str, ...] = ()
    excluded: str = "#?"

    def checked(self, uri: str) -> str:
        """Return the URI of an output without a slash at its end. Raises UnsupportedError if it is not one."""
        uri = uri.rstrip("/")
        start = self.start.match(uri)
        first, *folders = uri[start.end() :].split("/") if start else [uri]
        if first or any(each in {"", ".", ".."} for each in folders) or set(uri) & {*self.excluded}:
            raise UnsupportedError(
                f"this is not {self.form}, with a prefix without {' and '.join(self.excluded)}", path=_bare(uri)
            )
        return uri

    @contextmanager
    def for_delta(self, uri: str, options: Pairs) -> Iterator[dict[str, str]]:
        """Return the options for the library, as a context in which a client is made: they are all that it takes."""
        given = self.delta(uri, options)
        if not self.names:
            yield given
            return
        # The library reads the environment of the process, so it is changed under a lock and put back.
        with _ENVIRONMENT:
            before = {name: os.environ.pop(name) for name in self.names if name in os.environ}
            if url := given.pop(_AZURITE, None):
                # It is taken from there alone
                os.environ[_AZURITE] = url
            try:
                yield given
            finally:
                if url:
                    del os.environ[_AZURITE]
                os.environ.update(before)


# --- S3 ---------------------------------------------------------------------------------------------------------------
def _place_in_s3(uri: str, options: Pairs) -> tuple[FileSystem, str]:
    return file_system(options), uri.removeprefix(S3)


def _probe_s3(uri: str, options: Pairs) -> tuple[FileSystem, str]:
    return file_system(options, PROBE_ATTEMPTS), uri.removeprefix(S3)


def _delta_on_s3(_uri: str, options: Pairs) -> dict[str, str]:
    return dict(options)


# --- Azure ------------------------------------------------------------------------------------------------------------
def _azure_options(given: Mapping[str, str]) -> Pairs:
    known = known_options(AZURE_NAMES, given)
    asked = {name for kind in _CREDENTIALS if any(map(given.get, kind)) for name in kind}
    # By options: in the place of all credentials of the environment
    if asked:
        known = {name: value for name, value in known.items() if name in asked or name not in _ALL_CREDENTIALS}
    if "AZURE_CLIENT_SECRET" in known and not all(name in known for name in _IDENTITY):
        raise SelectionError(f"{', '.join(_IDENTITY)} belong together; one of them is not set")
    if "AZURE_STORAGE_ACCOUNT_KEY" in known and "AZURE_STORAGE_SAS_TOKEN" in known:
        raise SelectionError("AZURE_STORAGE_ACCOUNT_KEY and AZURE_STORAGE_SAS_TOKEN are both set; give one of them")
    try:
        base64.b64decode(known.get("AZURE_STORAGE_ACCOUNT_KEY", ""), validate=True)
    except ValueError:
        raise SelectionError("AZURE_STORAGE_ACCOUNT_KEY is not the key of an account, which is base64") from None
    return tuple(sorted(known.items()))


def _delta_on_azure(uri: str, options: Pairs) -> dict[str, str]:
    account = uri.partition("@")[2].partition(".")[0]
    # The library takes the account from an option, pyarrow from the host name.
    return {**dict(options), "AZURE_STORAGE_ACCOUNT_NAME": account}


# --- Google -----------------------------------------------------------------------------------------------------------
def _google_options(given: Mapping[str, str]) -> Pairs:
    return tuple(sorted(known_options(GOOGLE_NAMES, given).items()))


def _delta_on_google(_uri: str, options: Pairs) -> dict[str, str]:
    known = dict(options)
    if "STORAGE_EMULATOR_HOST" not in known:
        return known
    host = known["STORAGE_EMULATOR_HOST"]
    account = {"gcs_base_url": host if "://" in host else f"http://{host}", "disable_oauth": True}
    account |= dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
    return {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(account), "ALLOW_HTTP": "true"}


# --- all --------------------------------------------------------------------------------------------------------------
def _place_in_delta(uri: str, options: Pairs) -> tuple[FileSystem, str]:
    scheme, _, rest = uri.partition("://")
    place, _, prefix = rest.partition("/")
    return _files(f"{scheme}://{place}/", options), prefix


_SOON: Final = (("connect_timeout", "2s"), ("max_retries", str(PROBE_ATTEMPTS - 1)), ("timeout", "3s"))
"""Options of the Delta library, for a request that is not tried for a minute."""


def _probe_in_delta(uri: str, options: Pairs) -> tuple[FileSystem, str]:
    scheme, _, rest = uri.partition("://")
    place, _, prefix = rest.partition("/")
    return _files(f"{scheme}://{place}/", options, _SOON), prefix


@lru_cache(maxsize=8)
def _files(top: str, options: Pairs, more: Pairs = ()) -> FileSystem:
    check_installed("abfss:// and gs:// are reached")
    from deltalake.fs import DeltaStorageHandler  # noqa: PLC0415 -- where there is work for it
    from pyarrow import PythonFile  # noqa: PLC0415
    from pyarrow.fs import PyFileSystem  # noqa: PLC0415

    class Files(DeltaStorageHandler):
        def open_output_stream(self, path: str, metadata: object = None) -> PythonFile:
            # None is asked for
            del metadata
            return PythonFile(_Output(self._handler.open_output_stream(path)), mode="w")

    cloud = next(each for each in _CLOUDS if top.startswith(each.scheme))
    with cloud.for_delta(top, options) as given:
        return PyFileSystem(Files(top, {**given, **dict(more)}))


class _Output:
    """An object that appears when it is closed. The library takes only bytes, while pyarrow writes buffers."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.closed = False

    def write(self, data: memoryview) -> int:
        try:
            return int(self._stream.write(bytes(data)))
        except OSError:
            # It cannot be finished, and its end would hide the reason
            self.closed = True
            raise

    def tell(self) -> int:
        return int(self._stream.tell())

    def flush(self) -> None:
        """Each part is sent when it is full, the last one at the end."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._stream.close()


def check_installed(what: str = "tables are written") -> None:
    """Raise UnsupportedError if the library that writes tables is not installed; `what`: for what it is needed."""
    if find_spec("deltalake") is None:
        raise UnsupportedError(
            f"{what} with the library deltalake, which is not installed; run in kafkalog's sources: "
            "pip install '.[lake]'"
        )


_CLOUDS: Final = (
    Cloud(
        scheme=S3,
        form="s3://BUCKET/PREFIX",
        start=re.compile(r"s3://[^/@]+"),
        options=options_of,
        place=_place_in_s3,
        probe=_probe_s3,
        delta=_delta_on_s3,
    ),
    Cloud(
        scheme="abfss://",
        form="abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX",
        start=re.compile(r"abfss://[a-z0-9-]{3,63}@[a-z0-9]{3,24}\.dfs\.core\.windows\.net"),
        options=_azure_options,
        place=_place_in_delta,
        probe=_probe_in_delta,
        delta=_delta_on_azure,
        names=(
            *AZURE_NAMES,
            "AZURE_STORAGE_ACCESS_KEY",
            "AZURE_STORAGE_MASTER_KEY",
            "AZURE_STORAGE_SAS_KEY",
            "AZURE_STORAGE_TOKEN",
            "AZURE_STORAGE_CLIENT_ID",
            "AZURE_STORAGE_CLIENT_SECRET",
            "AZURE_STORAGE_TENANT_ID",
            "AZURE_SKIP_SIGNATURE",
        ),
        excluded="#?%",
    ),
    Cloud(
        scheme="gs://",
        form="gs://BUCKET/PREFIX",
        start=re.compile(r"gs://[^/@]+"),
        options=_google_options,
        place=_place_in_delta,
        probe=_probe_in_delta,
        delta=_delta_on_google,
        names=(
            *GOOGLE_NAMES,
            "GOOGLE_SERVICE_ACCOUNT",
            "GOOGLE_SERVICE_ACCOUNT_PATH",
            "GOOGLE_SERVICE_ACCOUNT_KEY",
            "GOOGLE_BASE_URL",
            "GOOGLE_SKIP_SIGNATURE",
        ),
    ),
)


def _bare(uri: str) -> str:
    """Return a URI without its query, which may be a token."""
    return uri.partition("?")[0]


def cloud_of(path: str) -> Cloud | None:
    """Return the kind of object store that a path is of; None: none."""
    return next((cloud for cloud in _CLOUDS if path.startswith(cloud.scheme)), None)


def output_path(path: str) -> str:
    """Return the place of an output: an absolute path, or the URI of an object store as it is.

    Raises UnsupportedError for other URLs.
    """
    cloud = cloud_of(path)
    if cloud is not None:
        return cloud.checked(path)
    url = _URL.match(path)
    # A path that exists is a path, even if it looks like a URL.
    if url is not None and url[1] != "file" and not os.path.lexists(path):
        forms = ", ".join(cloud.form for cloud in _CLOUDS)
        raise UnsupportedError(
            f"kafkalog does not write to {url[1]}: URLs; write to a directory, or to {forms}", path=_bare(path)
        )
    return local_paths([path.removeprefix("file://") if path.startswith("file:///") else path])[0]
