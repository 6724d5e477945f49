"""A disk that fails under a process: a library that is loaded before the C library, and fails some of its calls.

It concerns files of one directory, and only while a flag file exists. Half of the writes that fail are short: the first
half of their bytes is written, and no error is returned.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.support.compile_c import c_library

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

TEXT: Final = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REAL(type, name, ...) static type (*real)(__VA_ARGS__); if (!real) *(void **)&real = dlsym(RTLD_NEXT, name)

static unsigned seed;

/* Whether a call on a file fails: the directory, the flag, the letter of the call, the percentage. */
static int fails(int fd, char call) {
    const char *directory = getenv("FAIL_DIR"), *calls = getenv("FAIL_CALLS");
    char link[64], path[4096];
    if (!directory || !calls || !strchr(calls, call) || access(getenv("FAIL_FLAG"), F_OK)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    if (strncmp(path, directory, strlen(directory))) return 0;
    if (!seed) seed = (unsigned)atoi(getenv("FAIL_SEED")) + 1;
    if (rand_r(&seed) % 100 >= atoi(getenv("FAIL_PERCENT"))) return 0;
    return 1;
}

/* Notes a call that fails, and returns what it returns. */
static int failed(char call) {
    int hits = open(getenv("FAIL_HITS"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    REAL(ssize_t, "write", int, const void *, size_t);
    if (hits < 0 || real(hits, &call, 1) != 1 || close(hits)) abort();
    errno = atoi(getenv("FAIL_ERRNO"));
    return -1;
}

ssize_t write(int fd, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    if (!fails(fd, 'w')) return real(fd, data, size);
    return size > 1 && rand_r(&seed) % 2 ? real(fd, data, size / 2) : failed('w');
}

int fsync(int fd) {
    REAL(int, "fsync", int);
    return fails(fd, 's') ? failed('s') : real(fd);
}

int ftruncate64(int fd, off64_t size) {
    REAL(int, "ftruncate64", int, off64_t);
    return fails(fd, 't') ? failed('t') : real(fd, size);
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }
"""


@dataclass
class FailingDisk:
    """What fails below a directory: calls by their letters (write, fsync: s, ftruncate), with an error, how often."""

    directory: Path
    calls: str
    number: int
    percent: int
    seed: int

    @property
    def _flag(self) -> Path:
        return self.directory.with_name("disk-fails")

    @property
    def _hits(self) -> Path:
        return self.directory.with_name("disk-failed")

    def environment(self, library: str) -> dict[str, str]:
        """What the process is started with."""
        return {
            "LD_PRELOAD": library,
            "FAIL_DIR": f"{os.path.realpath(self.directory)}/",
            "FAIL_FLAG": str(self._flag),
            "FAIL_HITS": str(self._hits),
            "FAIL_CALLS": self.calls,
            "FAIL_ERRNO": str(self.number),
            "FAIL_PERCENT": str(self.percent),
            "FAIL_SEED": str(self.seed),
        }

    def fail(self) -> None:
        """Begin to fail."""
        self._flag.touch()

    def work(self) -> None:
        """Work again."""
        self._flag.unlink()

    def failed(self) -> str:
        """The calls that have returned an error, each by its letter; a short write returns none."""
        return self._hits.read_text() if self._hits.exists() else ""


def failing_library(directory: Path, options: Iterable[str] = ()) -> str:
    """Path of the library. Without a compiler the test is skipped."""
    return c_library(directory, TEXT, options)
