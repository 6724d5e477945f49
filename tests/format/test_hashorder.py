"""The order of a snapshot's producers: against hash maps of Java and Scala that a broker was seen to use."""

from __future__ import annotations

import struct
from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.format.snapshot import java_order, scala_order

IDS = st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 300), unique=True, max_size=120)


class JavaTable:
    """java.util.HashMap without trees: buckets that are split where the table doubles."""

    def __init__(self) -> None:
        self.table: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(16)]
        self.count = 0

    def bucket(self, key: int) -> OrderedDict[int, None]:
        h = (key ^ (key >> 32)) % 2**32
        return self.table[(h ^ (h >> 16)) % len(self.table)]

    def put(self, key: int) -> None:
        self.bucket(key)[key] = None
        self.count += 1
        if self.count > 0.75 * len(self.table):
            old = self.table
            self.table = [OrderedDict() for _ in range(2 * len(old))]
            for bucket in old:
                for each in bucket:
                    self.bucket(each)[each] = None

    def keys(self) -> list[int]:
        return [key for bucket in self.table for key in bucket]


@given(IDS)
def test_java(ids):
    table = JavaTable()
    for each in ids:
        table.put(each)
    assert [ids[place] for place in java_order(ids)] == table.keys()


class ScalaTable:
    """scala.collection.mutable.HashMap of 2.12: what is new goes to the front of its bucket."""

    def __init__(self) -> None:
        self.table: list[list[int]] = [[] for _ in range(16)]
        self.count = 0

    def index(self, key: int) -> int:
        value = (((key ^ (key >> 32)) % 2**32) * 0x9E3775CD) % 2**32
        value = (struct.unpack("<I", struct.pack(">I", value))[0] * 0x9E3775CD) % 2**32
        bits = len(self.table).bit_length() - 1
        digits = f"{value:032b}"
        return int((digits[-bits:] + digits[:-bits])[:bits], 2)

    def put(self, key: int) -> None:
        self.table[self.index(key)].insert(0, key)
        self.count += 1
        if self.count > len(self.table) * 3 // 4:
            old = self.table
            self.table = [[] for _ in range(2 * len(old))]
            for bucket in old[::-1]:
                for each in bucket:
                    self.table[self.index(each)].insert(0, each)

    def keys(self) -> list[int]:
        return [key for bucket in self.table[::-1] for key in bucket]


@given(IDS)
def test_scala(ids):
    table = ScalaTable()
    for each in ids:
        table.put(each)
    assert [ids[place] for place in scala_order(ids)] == table.keys()


def test_java_by_hand():
    ids = [17, 1, 2**32, 16, 2, 33]  # 2**32 has the hash 1
    assert [ids[place] for place in java_order(ids)] == [16, 17, 1, 2**32, 33, 2]


def test_scala_as_a_broker_wrote_it():
    """Of 0.11.0.3, three producers."""
    assert list(scala_order([0, 1, 2])) == [2, 1, 0]
