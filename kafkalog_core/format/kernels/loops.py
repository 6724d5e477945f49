# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""All hot loops as one module, which the build compiles with the text of the modules that it imports in their place.

Whoever needs a loop takes it from here, as C where there is C: the modules themselves are never compiled.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # Cython is a build tool; the interpreted twin needs only its name
    from kafkalog_core.format.kernels import _cython as cython

from kafkalog_core.format.kernels.batch_checks import check_batches
from kafkalog_core.format.kernels.clean_judge import judge, take_rows
from kafkalog_core.format.kernels.clean_write import finish_batch, note_batch, write_batches, write_records
from kafkalog_core.format.kernels.damaged_walk import walk_over, weave
from kafkalog_core.format.kernels.gather import gather_rows
from kafkalog_core.format.kernels.gather_texts import gather_headers, gather_texts, measure_rows
from kafkalog_core.format.kernels.headers import find_contradiction, find_outside
from kafkalog_core.format.kernels.heavy_keys import weigh_keys
from kafkalog_core.format.kernels.index_checks import check_offset_entries
from kafkalog_core.format.kernels.index_order import is_ordered, mark_disorder
from kafkalog_core.format.kernels.inflate import inflate_rows, uncleared
from kafkalog_core.format.kernels.key_map import find_key, map_records, put_key
from kafkalog_core.format.kernels.legacy_records import decode_legacy
from kafkalog_core.format.kernels.log_walk import walk
from kafkalog_core.format.kernels.lz4_block import pack_lz4
from kafkalog_core.format.kernels.map_merge import merge_entries, pack_entries
from kafkalog_core.format.kernels.markers import find_odd_marker, read_markers
from kafkalog_core.format.kernels.ndjson import write_rows
from kafkalog_core.format.kernels.producer_table import find_producer, index_producers
from kafkalog_core.format.kernels.producers import replay
from kafkalog_core.format.kernels.rebuild import rebuild
from kafkalog_core.format.kernels.record_checks import check_records
from kafkalog_core.format.kernels.search import find_candidate, find_candidate_v07
from kafkalog_core.format.kernels.timeindex_checks import check_time_entries
from kafkalog_core.format.kernels.v07_records import decode_v07
from kafkalog_core.format.kernels.v07_walk import walk_v07
from kafkalog_core.format.kernels.v2_records import decode_v2

__all__ = [
    "COMPILED",
    "SOURCE_HASH",
    "check_batches",
    "check_offset_entries",
    "check_records",
    "check_time_entries",
    "decode_legacy",
    "decode_v07",
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
    "inflate_rows",
    "is_ordered",
    "judge",
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
    "take_rows",
    "uncleared",
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
