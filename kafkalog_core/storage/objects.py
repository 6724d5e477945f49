"""An object store that is read as a file system: `s3://BUCKET/PREFIX`, by pyarrow's client of S3.

A prefix that ends in a slash is a directory. Objects have no owner, mode or link: a status has those of a file that
everybody may read. The client repeats a request that was not answered, or with 503. When it gives up, every function
here raises StoreLostError.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections import OrderedDict
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from datetime import datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, TypeVar

from kafkalog_core.command_lines import shell_word
from kafkalog_core.errors import (
    AccessError,
    DeniedError,
    KafkalogError,
    NotFoundError,
    SelectionError,
    StorageError,
    StoreLostError,
    UnsupportedError,
)
from kafkalog_core.storage.object_paths import OPTION_NAMES, REACHING, S3, StorageOptions, known_options, object_parent
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from pyarrow import fs

__all__ = [
    "ListedEntry",
    "Opened",
    "answer_of",
    "entries",
    "exists",
    "file_system",
    "forget",
    "in_thread",
    "is_directory",
    "is_past_end",
    "log_bytes",
    "matching",
    "names",
    "open_object",
    "options_in_use",
    "options_of",
    "status",
    "store_error",
]

_ATTEMPTS: Final = 10  # waiting ever longer: a server that is busy for some seconds fails no run
_GLOB_MAGIC: Final = re.compile(r"[*?[]")
_NS: Final = 1_000_000_000
_DEVICE: Final = int.from_bytes(b"s3", "big")
_FILE_MODE: Final = stat.S_IFREG | 0o644
_DIRECTORY_MODE: Final = stat.S_IFDIR | 0o755
_LISTED_ENTRIES: Final = 20_000
"""Entries of the listings that are kept: about 15 MB."""
_OPENED_OBJECTS: Final = 64
"""Objects that are kept open: with their contents, of at most 128 KiB each, 8 MiB."""
_LOOK_S: Final = 0.2
"""How often it is looked whether the user has stopped the command."""
_AT_ONCE: Final = 16
"""Listings that are requested at the same time where only their sum matters."""
_LOG_SUFFIXES: Final = (".log", ".kafka")

_T = TypeVar("_T")


# --- how to reach it --------------------------------------------------------------------------------------------------
def options_of(given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return how to reach S3: what is given, and what the environment adds, as pairs of name and value.

    Raises SelectionError for an unknown name, and for credentials that are not complete.
    """
    known = known_options(OPTION_NAMES, given)
    if ("AWS_ACCESS_KEY_ID" in known) is not ("AWS_SECRET_ACCESS_KEY" in known):
        raise SelectionError("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY belong together; one of them is not set")
    if "AWS_SESSION_TOKEN" in known and "AWS_ACCESS_KEY_ID" not in known:
        raise SelectionError("AWS_SESSION_TOKEN needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    return tuple(sorted(known.items()))


def options_in_use() -> StorageOptions:
    """Return the options for readers on other machines, which have another environment.

    Where this run has not read an object, they are not completed: what is secret is sent to nobody in vain.
    """
    return StorageOptions(_options(), is_complete=True) if REACHING.is_used else REACHING.options


def _options() -> tuple[tuple[str, str], ...]:
    storage = REACHING.options
    return storage.pairs if storage.is_complete else options_of(dict(storage.pairs))


@lru_cache(maxsize=4)
def file_system(options: tuple[tuple[str, str], ...], attempts: int | None = None) -> fs.FileSystem:
    """Return pyarrow's file system; a request is tried so often, else ten times.

    Raises UnsupportedError without pyarrow.
    """
    try:
        from pyarrow import fs  # noqa: PLC0415 -- pyarrow: where there is work for it
    except ImportError as error:
        raise UnsupportedError(
            "s3:// paths are read by pyarrow, which is not installed; run in kafkalog's sources: pip install '.[lake]'"
        ) from error
    known = dict(options)
    return fs.S3FileSystem(
        access_key=known.get("AWS_ACCESS_KEY_ID"),
        secret_key=known.get("AWS_SECRET_ACCESS_KEY"),
        session_token=known.get("AWS_SESSION_TOKEN"),
        region=known.get("AWS_REGION") or known.get("AWS_DEFAULT_REGION"),
        endpoint_override=known.get("AWS_ENDPOINT_URL"),
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=attempts or _ATTEMPTS),
    )


# --- errors -----------------------------------------------------------------------------------------------------------
_AWS: Final = re.compile(
    r"AWS Error (?P<name>\w+)(?: \(HTTP status (?P<code>\d+)\))? during \w+ operation(?P<rest>.*)", re.DOTALL
)
_EXCEPTION: Final = re.compile(r"Unable to parse ExceptionName: (?P<name>\w+) Message:(?P<rest>.*)", re.DOTALL)
_REDIRECTS: Final = frozenset(
    {"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}
)
_REQUEST: Final = re.compile(r"\s*\(Request ID:[^)]*\)")
_GONE: Final = frozenset({"RESOURCE_NOT_FOUND", "NO_SUCH_KEY"})
_DENIED: Final = frozenset(
    {
        "ACCESS_DENIED",
        "AccessDenied",
        "XAdminUserNotFound",
        "INVALID_ACCESS_KEY_ID",
        "INVALID_CLIENT_TOKEN_ID",
        "INVALID_SIGNATURE",
        "SIGNATURE_DOES_NOT_MATCH",
    }
)
_EXPIRED: Final = frozenset({"expiredtoken", "invalidtoken", "tokenrefreshrequired", "requestexpired"})
"""Answers about temporary credentials, in small letters without underscores: the client writes some in its own way."""
_ARCHIVED: Final = "invalidobjectstate"
_STORAGE_CLASS: Final = "not valid for the object's storage class"
"""In S3's message of InvalidObjectState, where the client shows only the status, as of a request that is denied."""
_BUSY: Final = frozenset({"SLOW_DOWN", "SERVICE_UNAVAILABLE", "THROTTLING", "INTERNAL_FAILURE", "REQUEST_TIMEOUT"})
_CREDENTIALS: Final = (
    "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, and that this key may list the bucket and "
    "get its objects (s3:ListBucket, s3:GetObject)"
)


_SESSION: Final = (
    "the credentials or the session token have expired or are wrong; get new ones, set AWS_ACCESS_KEY_ID, "
    "AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, and run the command again"
)


def store_error(path: str, error: Exception, what: str = "read", attempts: int | None = None) -> KafkalogError:
    """Return the error that says in a sentence what the object store refused, and what to do next.

    Args:
        path: of the object or directory.
        error: pyarrow's.
        what: was wanted: "read", "listed", or "read from byte 0 to 99".
        attempts: how often it was tried; None: as often as an input is.
    """
    if isinstance(error, FileNotFoundError):
        return NotFoundError(f"there is no such object in the bucket; list it: {_list_command(path)}", path=path)
    text = str(error).partition("\n")[0]
    match = _AWS.search(text)
    name, code, rest = match.group("name", "code", "rest") if match else ("", None, text)
    # One that the client does not know
    if (other := _EXCEPTION.search(rest)) is not None:
        name, rest = other.group("name", "rest")
    if name == "NO_SUCH_BUCKET":
        return _no_bucket(path)
    refused = _refused(path, name, code or "", rest, what)
    if refused is not None:
        return refused
    if name in _GONE or code == "404":
        return NotFoundError("the object was deleted after it was listed", path=path)
    lost = _lost(name, code or "", rest, f"{what} after {attempts or _ATTEMPTS} attempts")
    return AccessError(_problem(name, rest, what), path=path) if lost is None else StoreLostError(lost, path=path)


def _refused(path: str, name: str, code: str, rest: str, what: str) -> KafkalogError | None:
    """Return the error about credentials, or about an object that cannot be read as it is; None: it is another one."""
    plain = name.replace("_", "").lower()
    # A HEAD has none, whatever the reason is
    if plain in _EXPIRED or (code == "400" and "No response body" in rest):
        return StoreLostError(f"the object store refuses the request ({name or code}): {_SESSION}", path=path)
    if plain == _ARCHIVED or _STORAGE_CLASS in rest:
        return AccessError(
            f"it cannot be {what}: the object is archived; restore it first: {_restore(path)}", path=path
        )
    if name in _DENIED or code in {"401", "403"}:
        return DeniedError(f"the object store denies access: it cannot be {what} ({name})", _CREDENTIALS, path=path)
    return None


def _lost(name: str, code: str, rest: str, what: str) -> str | None:
    """Return the sentence about a store that does not answer; None: it has answered."""
    failed = f"it cannot be {what}"
    if name in _BUSY or code.startswith("5"):
        advice = "run the command again later, with fewer --jobs or with --limit-rate"
        return f"the object store is busy: {failed} ({code or name}); {advice}"
    if name == "NETWORK_CONNECTION" or "curlCode" in rest:
        advice = "check AWS_ENDPOINT_URL and the network, and run the command again"
        return f"the connection to the object store fails: {failed}; {advice}"
    return None


def _problem(name: str, rest: str, what: str) -> str:
    """Return the sentence about another answer."""
    if name in _REDIRECTS:
        return f"it cannot be {what}: the bucket is in another region; set AWS_REGION to it"
    reason = _REQUEST.sub("", rest).strip(" :.")
    return f"it cannot be {what}: the object store answers {name + ': ' if name else ''}{reason}"


def _restore(path: str) -> str:
    bucket, _, key = _key(path).partition("/")
    return f"aws s3api restore-object --bucket {shell_word(bucket)} --key {shell_word(key)} --restore-request Days=7"


def _list_command(path: str) -> str:
    return f"aws s3 ls {shell_word(object_parent(path) + '/')}"


def is_past_end(error: Exception) -> bool:
    """Return whether an object store answers that the object ends before a range."""
    return "InvalidRange" in str(error) or "HTTP status 416" in str(error)


def _no_bucket(path: str) -> NotFoundError:
    bucket = path.removeprefix(S3).partition("/")[0]
    return NotFoundError(
        f"there is no bucket {bucket!r}; check its name, AWS_ENDPOINT_URL and AWS_REGION, and list yours: aws s3 ls",
        path=path,
    )


def _ask(path: str, request: Callable[[fs.FileSystem], _T], what: str) -> _T:
    """Return the result of a request. Raises StorageError, StoreLostError."""
    _check_path(path)
    REACHING.is_used = True
    files = file_system(_options())
    try:
        return answer_of(lambda: request(files))
    except (OSError, UnicodeError, ValueError) as error:
        # Its own text may show what a user signed with
        raise store_error(path, error, what) from None


def answer_of(request: Callable[[], _T]) -> _T:
    """Return the result of a request, or raise its error. Ctrl-C ends the wait for it, and leaves the request.

    pyarrow's client waits for an object store that does not answer for more than a minute, and sees no signal. So
    another thread waits for it. `REACHING.check` is called now and then.
    """
    # Another thread can wait by itself: only the main thread has signals to handle.
    if threading.current_thread() is not threading.main_thread():
        return request()
    future = in_thread(request)
    while not futures.wait((future,), _LOOK_S).done:
        REACHING.check()
    return future.result()


def in_thread(request: Callable[[], _T], turns: AbstractContextManager[object] | None = None) -> Future[_T]:
    """Return the future result of a request: a thread waits for it, and `REACHING.waiting` has it until then.

    turns: is entered for the time of the request; one that is cancelled before that is not made.
    """
    future: Future[_T] = Future()

    def wait() -> None:
        try:
            with turns or nullcontext():
                if future.set_running_or_notify_cancel():
                    future.set_result(request())
        except BaseException as error:  # noqa: BLE001 -- it is raised by `result`
            future.set_exception(error)
        finally:
            REACHING.waiting.discard(future)

    REACHING.waiting.add(future)
    # A daemon: a request that hangs must not keep the process from ending.
    threading.Thread(target=wait, name="kafkalog-object", daemon=True).start()
    return future


def _check_path(path: str) -> None:
    if not path.removeprefix(S3).strip("/"):
        raise NotFoundError("there is no bucket in this path; write s3://BUCKET/PREFIX", path=path)


def _key(path: str) -> str:
    return path.removeprefix(S3).rstrip("/")


# --- status and listing -----------------------------------------------------------------------------------------------
class ListedEntry(Struct, frozen=True, kw_only=True):
    """An object, or a directory, in a listing."""

    name: str
    path: str
    is_directory: bool
    status: os.stat_result


def status(path: str) -> os.stat_result:
    """Return the status of an object or a directory, by a request. Raises NotFoundError, AccessError."""
    info = _ask(path, lambda files: files.get_file_info(_key(path)), "looked at")
    if info.type.name == "NotFound":
        # A missing bucket and a missing object are the same answer to this request.
        bucket = f"{S3}{_key(path).partition('/')[0]}"
        top = _ask(bucket, lambda files: files.get_file_info(_key(bucket)), "looked at")
        if top.type.name == "NotFound":
            raise _no_bucket(path)
        raise NotFoundError(
            f"there is no such object in the bucket, and none below it; list it: {_list_command(path)}",
            path=path,
        )
    return _status_of(_key(path), info)


def _status_of(key: str, info: fs.FileInfo) -> os.stat_result:
    if info.type.name == "Directory":
        return _made(_DIRECTORY_MODE, _number(key), 0, 0)
    # A listing may have parts of a second, a status has none
    seconds = (info.mtime_ns or 0) // _NS
    return _made(_FILE_MODE, _number(f"{key}\0{info.size}\0{seconds}"), info.size, seconds)


def _made(mode: int, inode: int, size_bytes: int, seconds: int) -> os.stat_result:
    values = (mode, inode, _DEVICE, 1, 0, 0, size_bytes, seconds, seconds, seconds)
    names = dict.fromkeys(("st_atime_ns", "st_mtime_ns", "st_ctime_ns"), seconds * _NS)
    return os.stat_result(values, names)


def _number(text: str) -> int:
    """Return what replaces an inode: the same number in every process, another one for another object of the name."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogateescape"), digest_size=7).digest(), "big")


def entries(path: str, *, again: bool = False) -> list[ListedEntry]:
    """Return what is in a directory, in the order of the names: as this run has listed it before, if it has.

    Args:
        path: of the directory.
        again: whether to ask the object store in any case.

    Raises NotFoundError, AccessError.
    """
    top = f"{S3}{_key(path)}"
    known = None if again else _listed.get(top)
    if known is None:
        known = _list(path)
        _listed.keep(top, known)
    return known


def _list(path: str) -> list[ListedEntry]:
    from pyarrow.fs import FileSelector  # noqa: PLC0415 -- see `file_system`

    top = _key(path)
    infos = _ask(path, lambda files: files.get_file_info(FileSelector(top)), "listed")
    found = [
        ListedEntry(
            name=info.base_name,
            path=f"{S3}{info.path}",
            is_directory=info.type.name == "Directory",
            status=_status_of(info.path, info),
        )
        for info in infos
    ]
    found.sort(key=lambda entry: entry.name)
    return found


class _Listings:
    """The last listings: a check asks for most of them several times."""

    def __init__(self) -> None:
        self._by_path: OrderedDict[str, list[ListedEntry]] = OrderedDict()
        self._count = 0

    def get(self, path: str) -> list[ListedEntry] | None:
        """Return a listing; `None` if it is not kept."""
        return self._by_path.get(path)

    def keep(self, path: str, found: list[ListedEntry]) -> None:
        """Keep a listing, and no more of the others than there is room for."""
        self._count += len(found) - len(self._by_path.pop(path, ()))
        self._by_path[path] = found
        # The newest is kept even if it alone is too large.
        while len(self._by_path) > 1 and self._count > _LISTED_ENTRIES:
            self._count -= len(self._by_path.popitem(last=False)[1])

    def clear(self) -> None:
        """Keep none."""
        self._by_path.clear()
        self._count = 0


_listed: Final = _Listings()


def forget() -> None:
    """Forget all listings and opened objects: another run begins, for which objects may have been added or replaced."""
    _listed.clear()
    _opened.clear()


def names(path: str) -> Mapping[str, bool]:
    """Return the names in a directory, and whether each is a directory. Raises NotFoundError, AccessError."""
    return {entry.name: entry.is_directory for entry in entries(path)}


def _names_if_any(path: str) -> Mapping[str, bool]:
    try:
        return names(path)
    except NotFoundError:
        return {}


def exists(path: str) -> bool:
    """Return whether there is an object or a directory. Raises AccessError."""
    folder, name = object_parent(path), _key(path).rpartition("/")[2]
    if folder == f"{S3}{_key(path)}":
        return bool(_names_if_any(path))
    try:
        return name in _names_if_any(folder)
    # A key may read an object and not list its prefix.
    except DeniedError:
        return _kind(path) is not None


def is_directory(path: str) -> bool:
    """Return whether a path is a directory. Raises AccessError."""
    folder, name = object_parent(path), _key(path).rpartition("/")[2]
    try:
        return folder == f"{S3}{_key(path)}" or _names_if_any(folder).get(name, False)
    except DeniedError:
        return _kind(path) == "Directory"


def _kind(path: str) -> str | None:
    """Return "File" or "Directory" for a path whose parent this key may not list; None: it may not see that either."""
    try:
        info = _ask(path, lambda files: files.get_file_info(_key(path)), "looked at")
    except (DeniedError, NotFoundError):
        return None
    return None if info.type.name == "NotFound" else str(info.type.name)


def log_bytes(paths: Iterable[str]) -> int:
    """Return the bytes of log in some directories; one that cannot be listed counts 0."""
    # Round trips: a listing of a thousand directories one by one would take minutes.
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="kafkalog-list") as threads:
        return sum(threads.map(_log_bytes_in, paths))


def _log_bytes_in(path: str) -> int:
    try:
        found = _list(path)
    except StorageError:
        return 0
    return sum(entry.status.st_size for entry in found if entry.name.endswith(_LOG_SUFFIXES))


# --- patterns ---------------------------------------------------------------------------------------------------------
def matching(pattern: str) -> list[str]:
    """Return the paths that match a pattern with `*`, `?`, `[...]` and `**`, sorted, as `glob` does.

    Raises NotFoundError for a bucket that does not exist, AccessError.
    """
    bucket, *parts = _key(pattern).split("/")
    begin = next((number for number, part in enumerate(parts) if _GLOB_MAGIC.search(part)), 0)
    # Above it a key may have no right to list
    places = ["/".join((f"{S3}{bucket}", *parts[:begin]))]
    try:
        names(places[0])
    except NotFoundError:
        # glob returns nothing for a pattern without a match; a bucket that does not exist is an error all the same.
        with suppress(DeniedError):
            status(f"{S3}{bucket}")
        return []
    for number, part in enumerate(parts[begin:], begin + 1):
        is_last = number == len(parts)
        places = [path for place in places for path in _matches(place, part, is_last=is_last)]
    return sorted(dict.fromkeys(places))


def _matches(place: str, part: str, *, is_last: bool) -> Iterator[str]:
    if part == "**":
        yield from _all_below(place, is_last=is_last)
        return
    known = _names_if_any(place)
    is_hidden = part.startswith(".")
    for name in known if _GLOB_MAGIC.search(part) else (part,) if part in known else ():
        # As in the shell, `*` does not match names that begin with a dot.
        is_match = name == part or (fnmatchcase(name, part) and (is_hidden or not name.startswith(".")))
        if is_match and (is_last or known[name]):
            yield f"{place}/{name}"


def _all_below(place: str, *, is_last: bool) -> Iterator[str]:
    yield place
    for name, is_folder in list(_names_if_any(place).items()):
        if is_folder:
            yield from _all_below(f"{place}/{name}", is_last=is_last)
        elif is_last:
            yield f"{place}/{name}"


# --- opening ----------------------------------------------------------------------------------------------------------
class Opened(Struct):
    """An object that is open for reads of ranges: its status, and its entity tag; empty: the store has none.

    Args:
        content: all its bytes, if it is small and was read before; None: they are not known.
        ranges: how many of its ranges were taken.
        checked_ranges: how many had been taken when the object store was last asked whether it is the same.
    """

    file: pa.NativeFile
    status: os.stat_result
    tag: bytes
    content: bytes | None = None
    ranges: int = 0
    checked_ranges: int = 0

    @property
    def identity(self) -> tuple[int, int, bytes]:
        """What differs once another object has replaced it: number of name, size and time; size; entity tag."""
        return self.status.st_ino, self.status.st_size, self.tag


_opened: OrderedDict[str, Opened] = OrderedDict()
"""The objects that were opened last: a check opens most of them several times, and each time costs a round trip."""


def open_object(path: str, *, again: bool = False) -> Opened:
    """Open an object, by a request unless this run has opened it before. Raises NotFoundError, AccessError.

    Args:
        path: of the object.
        again: whether to ask the object store in any case, and to keep what is known of the object.
    """
    known = None if again else _opened.get(path)
    if known is not None:
        _opened.move_to_end(path)
        return known
    opened = _request(path)
    # With `again` the question is whether it was replaced, and what was opened first must stay the reference.
    if not again:
        _opened[path] = opened
        if len(_opened) > _OPENED_OBJECTS:
            _opened.popitem(last=False)
    return opened


def _request(path: str) -> Opened:
    key = _key(path)
    file = _ask(path, lambda files: files.open_input_file(key), "opened")
    facts = file.metadata() or {}
    facts = {name.decode() if isinstance(name, bytes) else name: value for name, value in facts.items()}
    changed = facts.get("Last-Modified")
    seconds = int(datetime.fromisoformat(changed.decode()).timestamp()) if changed else 0
    size_bytes = file.size()
    # Size and time make up the identity where a store has no entity tag.
    number = _number(f"{key}\0{size_bytes}\0{seconds}")
    return Opened(file, _made(_FILE_MODE, number, size_bytes, seconds), facts.get("ETag") or b"")
