"""MD5 of many keys at once, as C by itself: under sanitizers, with and without the processor's vectors."""

from __future__ import annotations

import random
import subprocess
from hashlib import md5
from typing import TYPE_CHECKING

import pytest

from tests.support.compile_c import c_program

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
#include "key_digests.h"
#include <stdio.h>
#include <stdlib.h>

/* Sizes of keys from standard input, then the keys; digests in hex. The buffer ends where the last key does. */
int main(void)
{
    long long count, total = 0, table[3] = {0};
    if (scanf("%lld", &count) != 1)
        return 1;
    long long *starts = malloc(8 * (count + 1)), *sizes = malloc(8 * (count + 1)), *digests = malloc(16 * (count + 1));
    for (long long i = 0; i < count; i++) {
        if (scanf("%lld", &sizes[i]) != 1)
            return 1;
        starts[i] = total;
        total += sizes[i] > 0 ? sizes[i] : 0;
    }
    unsigned char *keys = malloc(total);
    getchar();
    if (fread(keys, 1, total, stdin) != (size_t)total)
        return 1;
    key_digests(keys, starts, sizes, count, digests);
    key_fetch(table, 1, digests, 0);
    for (long long i = 0; i < count; i++)
        if (sizes[i] >= 0) {
            for (int k = 0; k < 16; k++)
                printf("%02x", (unsigned)((unsigned long long)digests[2 * i + k / 8] >> 8 * (k % 8) & 0xFF));
            putchar(10);
        }
    free(starts), free(sizes), free(digests), free(keys);
    return 0;
}
"""


@pytest.fixture(scope="module", params=["", "#define KAFKALOG_PORTABLE\n"], ids=["vectors", "portable"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return c_program(tmp_path_factory.mktemp("key_digests"), request.param + PROGRAM)  # type: ignore[return-value]


@pytest.mark.parametrize("count", [0, 1, 2, 15, 16, 17, 40, 300])
def test_digests_are_those_of_the_library(program: Path, count: int) -> None:
    rng = random.Random(count)
    sizes = [rng.choice((-1, 0, 1, 3, 4, 14, 54, 55, 56, 63, 64, 65, 119, 120, 400)) for _ in range(count)]
    keys = [rng.randbytes(size) for size in sizes if size >= 0]
    text = f"{count} {' '.join(map(str, sizes))}\n".encode() + b"".join(keys)
    run = subprocess.run([str(program)], input=text, capture_output=True, check=True)
    assert run.stdout.decode().split() == [md5(key, usedforsecurity=False).hexdigest() for key in keys]
