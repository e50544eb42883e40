"""Packing: the columns of any streams are unpacked as they were packed."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headgate.spark.packing import FLAW, TAG, Packing

TYPES = [pa.int32(), pa.int64(), pa.string(), pa.timestamp("us", "UTC"), pa.float64()]


def _packed(packing: Packing, rows: list[tuple[str, list[pa.Array], int]]) -> pa.Table:
    """The result of `Packing.select` in Spark, computed without Spark."""
    tables = []
    for stream, arrays, count in rows:
        chosen = packing.select(stream)
        by_name = {f"c{i}": array for i, array in enumerate(arrays)}
        columns = {TAG: pa.array([packing.streams.index(stream)] * count, pa.int16())}
        for slot, text in zip(packing.slots, chosen[1:], strict=True):
            inside = text.removeprefix("CAST(").split(" AS ")[0]
            columns[slot.name] = pa.nulls(count, slot.type) if inside == "NULL" else by_name[inside]
        tables.append(pa.table(columns))
    return pa.concat_tables(tables)


@given(st.data())
def test_every_column_is_unpacked_unchanged(data: st.DataObject) -> None:
    shapes = data.draw(st.lists(st.lists(st.sampled_from(TYPES), min_size=1, max_size=5), min_size=1, max_size=4))
    streams = {f"s{n}": [(f"c{i}", t, f"c{i}") for i, t in enumerate(shape)] for n, shape in enumerate(shapes)}
    packing = Packing(streams)
    order = data.draw(st.lists(st.sampled_from(sorted(streams)), max_size=6))
    rows = []
    for place, stream in enumerate(order):
        count = data.draw(st.integers(1, 3))
        arrays = [
            pa.array([place * 10 + k for k in range(count)], pa.int64()).cast(pa.string() if t == pa.string() else t)
            for _, t, _ in streams[stream]
        ]
        rows.append((stream, arrays, count))
    if not rows:
        return
    packed = _packed(packing, rows).combine_chunks().to_batches()[0]
    found: list[tuple[str, list[object]]] = []
    for stream, batch, flaws, _ in packing.unpack(packed):
        assert flaws is None
        assert batch.schema.names == [name for name, _, _ in streams[stream]]
        found += [(stream, [column[row].as_py() for column in batch.columns]) for row in range(batch.num_rows)]
    wanted = [(s, [array[row].as_py() for array in arrays]) for s, arrays, count in rows for row in range(count)]
    assert found == wanted


def test_streams_of_one_shape_share_all_slots() -> None:
    shape = [("a", pa.int32(), "a"), ("b", pa.string(), "b")]
    assert len(Packing({f"s{n}": shape for n in range(27)}).slots) == 2


def test_malformed_rows_are_marked() -> None:
    packing = Packing({"a": [("x", pa.int32(), "x")], "b": [("y", pa.int32(), "y")]}, {"b": "bad"})
    assert packing.select("a")[-1] == f"CAST(NULL AS STRING) AS {FLAW}"
    packed = pa.record_batch(
        {TAG: pa.array([1, 1], pa.int16()), "t0_0": pa.array([1, None], pa.int32()), FLAW: pa.array([None, "{x"])}
    )
    [(stream, rows, flaws, _)] = packing.unpack(packed)
    assert (stream, rows.num_rows, flaws.to_pylist() if flaws is not None else None) == ("b", 2, [None, "{x"])
