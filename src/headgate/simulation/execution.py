"""Runs grants in virtual time: rows out of a queue, through the modelled operators of a unit, into queues and results.

The counterpart of `runtime/dataflow.py` and `runtime/queue.py`; see `kernel.py` for what the two executors share.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from math import ceil, inf
from random import Random

from headgate.scheduling.cut import Routes, Unit, Units
from headgate.scheduling.topology import Topology
from headgate.scheduling.view import View
from headgate.simulation.models import ModelState
from headgate.simulation.recorder import Levels, QueryOutput

# A waiting row: arrival time (of the row it stems from), number of tuples (a fraction, or 1), cost per tuple if that is
# drawn at random, and the number of remaining readers of a fork's shared copy.
Row = tuple[float, float, float, list[int] | None]
# The rows a grant wrote, for each queued edge, in the order in which the edges were first written.
Outbox = list[tuple[int, list[Row]]]
# The outcome of a grant: end, number of rows taken, number of rows written, the rows written.
Done = tuple[float, float, float, Outbox]
Observer = Callable[[str, int, Row, float], None]

# (rows, begin, deadline): takes at most `rows` rows through a unit; after the deadline no new row is begun.
Runner = Callable[[float, float, float], Done]


class Execution:
    """The queues and operators of one run, and their counters.

    `runners[unit]` runs a grant. A train of rows through one operator of fixed cost and selectivity is run in one
    step (`_train`); everything else row by row, depth first through the unit (`_rows`). Both produce the same rows at
    the same times.
    """

    def __init__(
        self,
        topology: Topology,
        models: Sequence[ModelState],
        view: View,
        levels: Levels,
        *,
        sizes: Sequence[float],
        made: Sequence[float],
        tuples: str,
        seed: int,
        observer: Observer | None,
    ) -> None:
        count = len(topology.operators)
        self.queues: list[deque[Row]] = [deque() for _ in topology.edges]
        self.outputs = [QueryOutput() for _ in topology.queries]
        self.rows_in = [0.0] * count
        self.rows_out = [0.0] * count
        self.busy = [0.0] * count
        self.arrived = [0.0] * count
        self.total_rows = 0.0
        self._topology = topology
        self._models = models
        self._view = view
        self._levels = levels
        self._sizes = sizes
        self._made = made
        self._tuples = tuples
        self._observer = observer
        self._consumers = [edge.consumer for edge in topology.edges]
        self._ports = [edge.port for edge in topology.edges]
        self._draws = [None if models[o].seconds is not None else models[o].draw for o in self._consumers]
        # A random generator per operator: the same rows pass it under every policy.
        self._chance = [Random(f"{seed}/{name}/selectivity").random for name in topology.operators]
        self._carry = [0.0] * count
        self._direct: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        self._queued: list[list[int]] = [[] for _ in range(count)]
        self.runners: list[Runner] = []
        self._outbox: dict[int, list[Row]] = {}
        self._process = self._processor()

    def prepare(self, units: Units, routes: Routes) -> None:
        """Set up the runners of new units."""
        for operator in range(len(self._models)):
            # In place: the closures hold on to the lists.
            self._direct[operator][:] = routes.direct[operator]
            self._queued[operator][:] = routes.queued[operator]
        self.runners = [
            self._train(unit) if self._is_plain(unit) else partial(self._rows, unit) for unit in units.units
        ]

    def call(self, operator: int, port: int, now: float) -> Done:
        """A source's own thread takes a row through the operator and everything that it calls directly."""
        outbox: dict[int, list[Row]] = {}
        self._outbox = outbox
        draw = None if self._models[operator].seconds is not None else self._models[operator].draw
        t = self._process(operator, port, now, 1.0, draw() if draw else 0.0, now)
        return t, 1.0, 0.0, list(outbox.items())

    def arrive(self, edges: Sequence[int], moment: float) -> Outbox:
        """A row of a stream, for each of the queued edges that read it."""
        if len(edges) == 1 and self._observer is None:
            edge = edges[0]
            draw, size, levels = self._draws[edge], self._sizes[edge], self._levels
            levels.times.append(moment)
            levels.rows.append(1.0)
            levels.bytes.append(size)
            self._view.queues.memory += size
            return [(edge, [(moment, 1.0, 0.0 if draw is None else draw(), None)])]
        outbox: dict[int, list[Row]] = {}
        self._outbox = outbox
        shared = [len(edges)] if len(edges) > 1 else None
        for edge in edges:
            self._enter(moment, edge, moment, 1.0, shared, edge == edges[0])
        return list(outbox.items())

    def begin_with(self, edge: int, arrivals: Sequence[float], rows: float) -> list[Row]:
        """Rows for one queued edge, not shared with others: `rows` of them (or a part of one) for each arrival."""
        draw, levels = self._draws[edge], self._levels
        size = rows * self._sizes[edge]
        for arrival in arrivals:
            levels.times.append(max(0.0, arrival))
            levels.rows.append(rows)
            levels.bytes.append(size)
        self._view.queues.memory += size * len(arrivals)
        return [(arrival, rows, 0.0 if draw is None else draw(), None) for arrival in arrivals]

    def put(self, edge: int, rows: list[Row]) -> bool:
        """Makes rows visible in a queue; True if it was empty."""
        queue, state = self.queues[edge], self._view.queues
        empty = not queue
        queue.extend(rows)
        total = rows[0][1] if len(rows) == 1 else sum([row[1] for row in rows])
        state.rows[edge] += total
        state.bytes[edge] += total * self._sizes[edge]
        self.total_rows += total
        self.arrived[self._consumers[edge]] += total
        if empty:
            state.oldest[edge] = rows[0][0]
        return empty

    def _is_plain(self, unit: Unit) -> bool:
        """Whether the unit is a single operator with the same cost and selectivity for every row."""
        if len(unit.entries) > 1 or self._observer is not None:
            return False
        operator = self._consumers[unit.entries[0]]
        model = self._models[operator]
        return model.seconds is not None and model.selectivity is not None and not self._direct[operator]

    def _train(self, unit: Unit) -> Runner:
        """The function that takes a train through the unit's operator; a closure because this is the hot path."""
        entry = unit.entries[0]
        operator = self._consumers[entry]
        queue = self.queues[entry]
        seconds, selectivity = self._models[operator].seconds or 0.0, self._models[operator].selectivity or 0.0
        size_in, size_out = self._sizes[entry], self._made[operator]
        edges = tuple(self._queued[operator])
        fan = len(edges)
        # One reader, with the same cost for every row: by far the most common case.
        plainly = fan == 1 and self._draws[edges[0]] is None
        target = edges[0] if plainly else -1
        draws = [self._draws[e] for e in edges]
        outputs = tuple(self.outputs[q] for q in self._topology.results[operator])
        fractional, accumulate = self._tuples == "fractional", self._tuples == "whole"
        state, performance = self._view.queues, self._view.performance
        waiting, waiting_bytes, oldest = state.rows, state.bytes, state.oldest
        log_time, log_rows, log_bytes = self._levels.times.append, self._levels.rows.append, self._levels.bytes.append
        carried, chance = self._carry, self._chance[operator]
        busy, rows_in, rows_out = self.busy, self.rows_in, self.rows_out

        def train(limit: float, t: float, deadline: float) -> Done:
            begun = t
            left = len(queue)
            if limit < left:
                left = ceil(limit)
            box: list[Row] = []
            outbox: Outbox = [(target, box)] if plainly else [(edge, []) for edge in edges]
            carry = carried[operator]
            taken = made = freed = 0.0
            while left > 0:
                left -= 1
                arrival, rows, _, shared = queue.popleft()
                taken += rows
                t += seconds * rows
                out = rows * selectivity
                if fractional:
                    copies = 1 if out > 0 else 0
                elif accumulate:
                    out += carry
                    copies = int(out + 1e-9)
                    carry = out - copies
                    out = 1.0
                else:
                    copies = int(out)
                    copies += chance() < out - copies
                    out = 1.0
                size = rows * size_in
                if shared is not None:
                    shared[0] -= 1
                    if shared[0]:
                        size = 0.0
                if copies:
                    results = out * copies
                    made += results
                    rows -= results * fan
                    for output in outputs:
                        output.time.append(t)
                        output.latency.append(t - arrival)
                        output.rows.append(results)
                        performance.results += results
                        performance.delay += results * (t - arrival)
                    if plainly:
                        size -= results * size_out
                        box += [(arrival, out, 0.0, None)] * copies
                    elif fan:
                        size -= results * size_out
                        for _ in range(copies):
                            mates = [fan] if fan > 1 else None
                            for (_, into), draw in zip(outbox, draws, strict=True):
                                into.append((arrival, out, 0.0 if draw is None else draw(), mates))
                freed += size
                # The row leaves and its results appear at the same moment: one change of the levels.
                log_time(t)
                log_rows(-rows)
                log_bytes(-size)
                if t >= deadline:
                    break
            carried[operator] = carry
            rows_in[operator] += taken
            rows_out[operator] += made
            busy[operator] += t - begun
            self.total_rows -= taken
            state.memory -= freed
            if queue:
                waiting[entry] -= taken
                waiting_bytes[entry] -= taken * size_in
                oldest[entry] = queue[0][0]
            else:
                # Exactly zero: a rounding error of fractions must not look like a waiting row.
                waiting[entry] = waiting_bytes[entry] = 0.0
                oldest[entry] = inf
            return t, taken, made, outbox if made else []

        return train

    def _rows(self, unit: Unit, limit: float, t: float, deadline: float) -> Done:
        outbox: dict[int, list[Row]] = {}
        self._outbox = outbox
        process, consumers, ports, queues = self._process, self._consumers, self._ports, self.queues
        entries = unit.entries
        single = entries[0] if len(entries) == 1 else None
        left: float = min(limit, sum([len(queues[e]) for e in entries]))
        taken = 0.0
        while left > 0:
            left -= 1
            entry = self._oldest_entry(entries) if single is None else single
            row = queues[entry].popleft()
            t = process(consumers[entry], ports[entry], row[0], row[1], row[2], t)
            taken += row[1]
            self._release(entry, row, t)
            if t >= deadline:
                break
        made = sum([row[1] for rows in outbox.values() for row in rows])
        return t, taken, made, list(outbox.items())

    def _oldest_entry(self, entries: Sequence[int]) -> int:
        queues = self.queues
        # Ties go to the longest queue: the readers of a fork take turns, and its rows are freed early.
        return min([e for e in entries if queues[e]], key=lambda e: (queues[e][0][0], -len(queues[e])))

    def _enter(self, t: float, edge: int, arrival: float, rows: float, shared: list[int] | None, first: bool) -> None:
        """Creates a row for a queued edge; from now on it takes memory, once for all readers of a fork."""
        draw = self._draws[edge]
        row: Row = (arrival, rows, 0.0 if draw is None else draw(), shared)
        size = rows * self._sizes[edge] if first else 0.0
        levels = self._levels
        levels.times.append(t)
        levels.rows.append(rows)
        levels.bytes.append(size)
        self._view.queues.memory += size
        if self._observer is not None:
            self._observer("in", edge, row, t)
        box = self._outbox.get(edge)
        if box is None:
            self._outbox[edge] = [row]
        else:
            box.append(row)

    def _release(self, edge: int, row: Row, t: float) -> None:
        """A row has passed its unit: its memory is free unless another branch of the fork still needs it."""
        queue, state, levels = self.queues[edge], self._view.queues, self._levels
        rows, shared = row[1], row[3]
        size = rows * self._sizes[edge]
        self.total_rows -= rows
        if queue:
            state.rows[edge] -= rows
            state.bytes[edge] -= size
            state.oldest[edge] = queue[0][0]
        else:
            # Exactly zero, as above.
            state.rows[edge] = state.bytes[edge] = 0.0
            state.oldest[edge] = inf
        if shared is not None:
            shared[0] -= 1
            if shared[0]:
                size = 0.0
        state.memory -= size
        levels.times.append(t)
        levels.rows.append(-rows)
        levels.bytes.append(-size)
        if self._observer is not None:
            self._observer("out", edge, row, t)

    def _processor(self) -> Callable[[int, int, float, float, float, float], float]:
        """The function that takes one row depth first through its unit; a closure because it is hot too."""
        models = self._models
        seconds = [m.seconds for m in models]
        selectivity = [m.selectivity for m in models]
        results = self._topology.results
        outputs, performance = self.outputs, self._view.performance
        busy, rows_in, rows_out = self.busy, self.rows_in, self.rows_out
        direct, queued, enter = self._direct, self._queued, self._enter
        fractional, accumulate = self._tuples == "fractional", self._tuples == "whole"
        carry, chance = self._carry, self._chance

        def process(operator: int, port: int, arrival: float, rows: float, drawn: float, t: float) -> float:
            fixed = seconds[operator]
            cost = (drawn if fixed is None else fixed) * rows
            share = selectivity[operator]
            if share is None:
                extra, out = models[operator].take(port, arrival, rows)
                cost += extra
            else:
                out = rows * share
            t += cost
            busy[operator] += cost
            rows_in[operator] += rows
            if fractional:
                copies = 1 if out > 0 else 0
            else:
                if accumulate:
                    out += carry[operator]
                    copies = int(out + 1e-9)
                    carry[operator] = out - copies
                else:
                    copies = int(out)
                    copies += chance[operator]() < out - copies
                out = 1.0
            if not copies:
                return t
            made = out * copies
            rows_out[operator] += made
            for query in results[operator]:
                output = outputs[query]
                output.time.append(t)
                output.latency.append(t - arrival)
                output.rows.append(made)
                performance.results += made
                performance.delay += made * (t - arrival)
            readers = queued[operator]
            for _ in range(copies):
                if readers:
                    shared = [len(readers)] if len(readers) > 1 else None
                    for edge in readers:
                        enter(t, edge, arrival, out, shared, edge == readers[0])
                for consumer, side in direct[operator]:
                    model = models[consumer]
                    own = 0.0 if model.seconds is not None else model.draw()
                    t = process(consumer, side, arrival, out, own, t)
            return t

        return process
