"""Functions that only Catalyst computes, with their result types: they become columns at the source."""

from __future__ import annotations

import pyarrow as pa

from headgate.expressions.registry import typed
from headgate.expressions.signature import Literals, Signature, Types
from headgate.graph.types import BIGINT, BINARY, BOOLEAN, DATE, DOUBLE, INT, INTERVAL, STRING, TIMESTAMP, TIMESTAMP_NTZ

_RESULTS: dict[pa.DataType, str] = {
    STRING: "md5 sha sha1 sha2 get_json_object to_json base64 hex bin conv soundex format_number format_string printf "
    "overlay regexp_substr url_encode url_decode parse_url to_char to_varchar decode elt mask typeof uuid quote "
    "chr char array_join to_csv schema_of_json aes_decrypt current_timezone input_file_name version user "
    "current_user randstr validate_utf8 make_valid_utf8",
    BINARY: "unbase64 unhex encode to_binary aes_encrypt",
    BOOLEAN: "luhn_check map_contains_key arrays_overlap is_valid_utf8",
    INT: "hash levenshtein regexp_count regexp_instr bit_count find_in_set json_array_length spark_partition_id "
    "bit_get getbit",
    BIGINT: "xxhash64 crc32 width_bucket monotonically_increasing_id",
    DOUBLE: "rand random randn months_between uniform",
    DATE: "current_date curdate",
    TIMESTAMP: "current_timestamp now make_timestamp make_timestamp_ltz to_timestamp_ltz",
    TIMESTAMP_NTZ: "localtimestamp to_timestamp_ntz make_timestamp_ntz",
    INTERVAL: "make_dt_interval",
    pa.list_(STRING): "regexp_extract_all json_object_keys sentences",
    pa.map_(STRING, STRING): "str_to_map",
}


_RULED = {name: type_ for type_, names in _RESULTS.items() for name in names.split()}


def _fixed_types(name: str, types: Types, literals: Literals) -> Signature:
    return Signature(name, types, _RULED[name])


typed(*_RULED, types=_fixed_types)
