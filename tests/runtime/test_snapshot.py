"""A network that is restored from a snapshot, at any moment, gives the results of one that was never stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headgate.runtime import Folder, Limits, Network, saved_figures
from tests.runtime.plans import above, columns, graph, per_window, query, rows, source, table
from tests.runtime.small_network import batches, expected, small
from tests.runtime.ways import POLICIES


def again(network: Network, store: Folder, policy: str) -> Network:
    manifest = json.loads(json.dumps(network.snapshot()))
    restored = Network(graph(*small()), policy, store=Folder(store.path, keep=True))
    restored.restore(manifest)
    return restored


@pytest.mark.parametrize("policy", [*POLICIES, "fifo:rows=7", "chain:rows=1", "rr:rows=30"])
def test_a_restart_between_any_two_batches_changes_nothing(policy: str, tmp_path: Path) -> None:
    store = Folder(tmp_path, keep=True)
    network = Network(graph(*small()), policy, store=store)
    for number, (stream, batch) in enumerate(batches()):
        network.push(stream, batch)
        if number % 3:
            network.run(0.0)
        network = again(network, store, policy)
    network.finish()
    network = again(network, store, policy)
    network.run()
    network = again(network, store, policy)
    found = {name: table([r.rows for r in network.take(name)]) for name in network.queries}
    assert found == expected()
    assert network.memory_bytes == 0


def test_waiting_rows_are_written_once(tmp_path: Path) -> None:
    store = Folder(tmp_path, keep=True)
    network = Network(graph(*small()), "fifo", store=store)
    network.push("s", rows(1000))
    first = network.snapshot()
    files = set(tmp_path.iterdir())
    second = network.snapshot()
    assert first["parts"] == second["parts"]
    assert set(tmp_path.iterdir()) == files
    network.push("s", rows(1000, 1, 100.0))
    third = network.snapshot()
    assert len(set(third["parts"]) - set(first["parts"])) == 1


def test_spilled_batches_are_not_written_by_a_snapshot(tmp_path: Path) -> None:
    store = Folder(tmp_path, keep=True)
    network = Network(graph(*small()), "fifo", store=store, limits=Limits(memory=1000))
    network.push("s", rows(1000))
    assert network.memory_bytes == 0
    files = set(tmp_path.iterdir())
    assert len(files) == 1
    manifest = network.snapshot()
    assert set(tmp_path.iterdir()) == files
    restored = Network(graph(*small()), "fifo", store=store)
    restored.restore(manifest)
    # Rows are read when they are needed, not when the network is restored.
    assert restored.memory_bytes == 0
    assert restored.waiting == network.waiting
    restored.run()
    assert sum(r.rows.num_rows for r in restored.take("all")) == 1000


def test_state_that_did_not_change_is_not_written_again(tmp_path: Path) -> None:
    network = Network(graph(query("windows", per_window(source()))), "fifo", store=Folder(tmp_path, keep=True))
    network.push("s", rows(1000))
    network.run()
    network.take("windows")
    first = network.snapshot()
    assert first["parts"]
    files = set(tmp_path.iterdir())
    second = network.snapshot()
    assert second["parts"] == first["parts"]
    assert set(tmp_path.iterdir()) == files


def test_queries_may_change_between_snapshot_and_restore(tmp_path: Path) -> None:
    store = Folder(tmp_path, keep=True)
    network = Network(graph(*small()), "fifo", store=store)
    network.push("s", rows(100))
    kept = small()[1]
    restored = Network(graph(kept, query("new", columns(above(source(), 5), 2))), "fifo", store=store)
    restored.restore(network.snapshot())
    restored.push("s", rows(100, 1, 50.0))
    restored.run()
    assert sum(r.rows.num_rows for r in restored.take("high")) == sum(
        int((rows(100, seed).column(2).to_numpy() > 60).sum()) for seed in (0, 1)
    )
    assert sum(r.rows.num_rows for r in restored.take("new")) == int((rows(100, 1).column(2).to_numpy() > 5).sum())
    assert restored.memory_bytes == 0


def test_a_snapshot_of_another_version_is_refused() -> None:
    network = Network(graph(*small()))
    with pytest.raises(ValueError, match="version 99, this Headgate reads versions 2 and 3"):
        network.restore({"version": 99})


def test_what_a_policy_has_learned_is_restored_unless_the_policy_changed(tmp_path: Path) -> None:
    store = Folder(tmp_path, keep=True)
    network = Network(graph(*small()), "threshold:limit=1,interval=1ms", store=store)
    network.push("s", rows(100))
    network.run(0.0)
    manifest = json.loads(json.dumps(network.snapshot(), allow_nan=False))
    manifest["policy"]["state"] = {"short": True}

    def learned(policy: str, manifest: dict[str, Any]) -> Any:
        restored = Network(graph(*small()), policy, store=store)
        restored.restore(manifest)
        return restored.snapshot()["policy"]["state"]

    assert learned("threshold:limit=1,interval=1ms", manifest) == {"short": True}
    assert learned("threshold:limit=2,interval=1ms", manifest) == {"short": False}
    assert learned("fifo", manifest) == {}
    # Version 2 had pickled it: it is not loaded.
    figures = json.loads(manifest.pop("figures"))
    for name, outbox in figures["outboxes"].items():
        outbox["batches"] = manifest["outboxes"].get(name, [])
    pickled = {"text": manifest["policy"]["text"], "pickle": "gAR9lC4="}
    older = {**manifest, **figures, "version": 2, "policy": pickled}
    assert learned("threshold:limit=1,interval=1ms", older) == {"short": False}


def test_figures_are_restored_and_may_be_a_second_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Folder(tmp_path, keep=True)
    network = Network(graph(*small()), "fifo", store=store)

    def counted() -> list[int]:
        """Result rows of each query after a restart, as the metrics have them."""
        restored = Network(graph(*small()), "fifo", store=store)
        restored.restore(json.loads(json.dumps(network.snapshot())))
        return [restored.metrics()["queries"][name]["rows"] for name in sorted(restored.queries)]

    def present() -> list[int]:
        return [network.metrics()["queries"][name]["rows"] for name in sorted(network.queries)]

    monkeypatch.setattr(saved_figures, "EVERY", 1e9)
    network.push("s", rows(100))
    network.run()
    first = present()
    assert sum(first) > 0
    assert counted() == first
    network.push("s", rows(100, 1, 50.0))
    network.run()
    assert present() != first
    assert counted() == first, "they were saved a moment ago"
    monkeypatch.setattr(saved_figures, "EVERY", 0.0)
    assert counted() == present()
