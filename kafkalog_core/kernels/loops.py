# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""All kernels as one module: the build compiles a copy in which the text of each kernel module replaces its import.

Code that calls a kernel imports it from here (through the package), so that it gets the compiled function where there
is one. The modules imported here are never compiled by themselves: C inlines functions within one module only.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is needed at build time only; the interpreted kernels need only its name
    from kafkalog_core.kernels import _cython as cython

from kafkalog_core.kernels.batch_checks import check_batches, find_contradiction, find_outside
from kafkalog_core.kernels.blocks import pack_lz4, unpack_rows
from kafkalog_core.kernels.clean_judge import judge, take_rows
from kafkalog_core.kernels.clean_write import finish_batch, note_batch, stamp_batches, write_batches, write_records
from kafkalog_core.kernels.fields import uncleared
from kafkalog_core.kernels.gather import gather_headers, gather_rows, gather_texts, measure_rows
from kafkalog_core.kernels.index_checks import check_entries, is_ordered, mark_disorder
from kafkalog_core.kernels.key_map import find_key, map_records, merge_entries, pack_entries, put_key, weigh_keys
from kafkalog_core.kernels.lines import write_rows
from kafkalog_core.kernels.matching import (
    keep_bits,
    keep_equal,
    keep_header,
    keep_holding,
    keep_times,
    keep_within,
)
from kafkalog_core.kernels.newest import join_newest, keep_newest
from kafkalog_core.kernels.producers import find_producer, index_producers, replay
from kafkalog_core.kernels.rebuild import rebuild
from kafkalog_core.kernels.record_checks import check_records, find_odd_marker, read_markers
from kafkalog_core.kernels.records import decode_messages, decode_v2
from kafkalog_core.kernels.search import find_candidate, find_candidate_v07
from kafkalog_core.kernels.walk import walk, walk_over, walk_v07, weave

__all__ = [
    "check_batches",
    "check_entries",
    "check_records",
    "decode_messages",
    "decode_v2",
    "find_candidate",
    "find_candidate_v07",
    "find_contradiction",
    "find_key",
    "find_odd_marker",
    "find_outside",
    "find_producer",
    "finish_batch",
    "gather_headers",
    "gather_rows",
    "gather_texts",
    "index_producers",
    "is_ordered",
    "join_newest",
    "judge",
    "keep_bits",
    "keep_equal",
    "keep_header",
    "keep_holding",
    "keep_newest",
    "keep_times",
    "keep_within",
    "map_records",
    "mark_disorder",
    "measure_rows",
    "merge_entries",
    "note_batch",
    "pack_entries",
    "pack_lz4",
    "put_key",
    "read_markers",
    "rebuild",
    "replay",
    "stamp_batches",
    "take_rows",
    "uncleared",
    "unpack_rows",
    "walk",
    "walk_over",
    "walk_v07",
    "weave",
    "weigh_keys",
    "write_batches",
    "write_records",
    "write_rows",
]

COMPILED = cython.compiled
SOURCE_HASH = "interpreted"
