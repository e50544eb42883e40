"""The hash of keys is Catalyst's, for every type that a key can have."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from headgate.expressions.xxhash64 import xxhash64
from headgate.graph import types as t

COUNT = 200
CHANCE = Random(3)
FLOATS: list[float] = [0.0, -0.0, float("nan"), float("-nan"), 1.5e9, -3.5]
STRUCT = pa.struct([("a", t.INT), ("b", t.STRING), ("c", pa.struct([("d", t.DOUBLE)]))])


def decimals(digits: int) -> Callable[[], Decimal]:
    def made() -> Decimal:
        most = 10 ** CHANCE.randint(1, digits)
        return Decimal(CHANCE.randrange(1 - most, most)).scaleb(-4, Context(prec=60))

    return made


KEYS: dict[pa.DataType, Callable[[], Any]] = {
    t.BOOLEAN: lambda: CHANCE.random() < 0.5,
    t.TINYINT: lambda: CHANCE.randint(-128, 127),
    t.SMALLINT: lambda: CHANCE.randint(-(2**15), 2**15 - 1),
    t.INT: lambda: CHANCE.randint(-(2**31), 2**31 - 1),
    t.BIGINT: lambda: CHANCE.randint(-(2**63), 2**63 - 1),
    t.FLOAT: lambda: CHANCE.choice(FLOATS),
    t.DOUBLE: lambda: CHANCE.choice(FLOATS),
    t.STRING: lambda: "".join(CHANCE.choice("abcé€😀") for _ in range(CHANCE.randint(0, 90))),
    t.BINARY: lambda: CHANCE.randbytes(CHANCE.randint(0, 70)),
    t.DATE: lambda: CHANCE.randint(-90_000, 90_000),
    t.TIMESTAMP: lambda: CHANCE.randint(-(10**15), 10**16),
    t.TIMESTAMP_NTZ: lambda: CHANCE.randint(-(10**15), 10**16),
    t.TIME: lambda: CHANCE.randint(0, 86_399_999_999),
    t.INTERVAL: lambda: CHANCE.randint(-(10**15), 10**16),
    pa.decimal128(10, 4): decimals(10),
    pa.decimal128(18, 4): decimals(18),
    pa.decimal128(38, 4): decimals(38),
    STRUCT: lambda: {"a": CHANCE.choice([None, 1, 2]), "b": CHANCE.choice([None, "x"]), "c": {"d": 0.5}},
}


def array(type_: pa.DataType, made: Callable[[], Any]) -> pa.Array:
    values = [None if CHANCE.random() < 0.1 else made() for _ in range(COUNT)]
    return pa.array(values, t.INT).cast(type_) if type_ == t.DATE else pa.array(values, type_)


@pytest.mark.spark
def test_every_type_of_key_has_the_hash_of_catalyst(spark: Any) -> None:
    columns = {f"c{n}": array(type_, made) for n, (type_, made) in enumerate(KEYS.items())}
    rows = pa.table({**columns, "place": pa.array(range(COUNT), pa.int64())})
    # Each alone, several, in another order, and all.
    sets = [[name] for name in columns] + [["c7", "c3"], ["c17", "c6", "c8", "c16"], list(columns)]
    hashes = [f"xxhash64({', '.join(names)}) AS h{n}" for n, names in enumerate(sets)]
    found = spark.createDataFrame(rows).selectExpr("place", *hashes).toArrow().sort_by("place")
    for number, names in enumerate(sets):
        wanted = found[f"h{number}"].to_pylist()
        keys = [columns[name] for name in names]
        assert xxhash64(keys, COUNT).tolist() == wanted, names
        # A slice has its own offset.
        assert xxhash64([key.slice(37, 100) for key in keys], 100).tolist() == wanted[37:137], names


@pytest.mark.parametrize("type_", KEYS, ids=str)
def test_keys_without_values(type_: pa.DataType) -> None:
    assert xxhash64([pa.array([], type_)], 0).tolist() == []
    others = pa.array(["x", "y", None])
    assert xxhash64([pa.nulls(3, type_), others], 3).tolist() == xxhash64([others], 3).tolist()
