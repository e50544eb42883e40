"""The layout of the drawing: no box on another, edges go to the right, whatever the graph."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from headgate.explanation.layout import layout


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[int, tuple[float, float]], list[tuple[int, int]]]:
    """A random graph without cycles, with boxes of random sizes."""
    count = draw(st.integers(1, 14))
    sizes = {n: (float(draw(st.integers(20, 200))), float(draw(st.integers(10, 90)))) for n in range(count)}
    pairs = list(combinations(range(count), 2))
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=25)) if pairs else []
    return sizes, edges


@given(graphs())
def test_boxes_never_touch(graph: tuple[dict[int, tuple[float, float]], list[tuple[int, int]]]) -> None:
    sizes, edges = graph
    placed = layout(sizes, edges)
    for a, b in combinations(placed.boxes.values(), 2):
        apart_across = a.x + a.width <= b.x or b.x + b.width <= a.x
        apart_down = a.y + a.height <= b.y + 1e-6 or b.y + b.height <= a.y + 1e-6
        assert apart_across or apart_down


@given(graphs())
def test_edges_go_to_the_right_around_the_boxes(
    graph: tuple[dict[int, tuple[float, float]], list[tuple[int, int]]],
) -> None:
    sizes, edges = graph
    placed = layout(sizes, edges)
    for one, other in edges:
        points = [placed.boxes[one].x + placed.boxes[one].width]
        points += [x for x, _ in placed.bends[one, other]]
        points.append(placed.boxes[other].x)
        assert points == sorted(points)
        for x, y in placed.bends[one, other]:
            assert not any(b.x < x < b.x + b.width and b.y < y < b.y + b.height for b in placed.boxes.values())


def test_the_drawing_holds_all_boxes() -> None:
    placed = layout({1: (50.0, 20.0), 2: (60.0, 30.0), 3: (10.0, 10.0)}, [(1, 2), (1, 3)])
    assert placed.boxes[1].x == 0.0
    assert max(b.x + b.width for b in placed.boxes.values()) <= placed.width
    assert max(b.y + b.height for b in placed.boxes.values()) <= placed.height
    assert min(b.y for b in placed.boxes.values()) == 0.0
