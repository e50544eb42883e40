"""Workers whose Python has no Headgate: they get it from the driver, and say in one line what else they lack."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import first_result
from tests.cluster.standalone import StandaloneCluster, standalone
from tests.cluster.workers_python import workers_python

pytestmark = [pytest.mark.slow, pytest.mark.spark]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with pytest.MonkeyPatch.context() as patch:
        # The nodes know nothing of this repository.
        patch.delenv("PYTHONPATH", raising=False)
        with standalone(tmp_path_factory.mktemp("cluster")) as running:
            yield running


def test_workers_get_headgate_and_the_modules_of_functions(cluster: StandaloneCluster, tmp_path: Path) -> None:
    root = tmp_path / "run"
    first_result.prepare(root)
    found = first_result.run(cluster, root, workers_python(tmp_path / "python"))
    assert found.rows == first_result.WANTED, found.output
    assert found.code == 0, found.output
    # A restart continues, and ships again.
    (root / "in" / "b.json").write_text('{"k": "b", "v": 100}\n')
    for file in (root / "out").glob("*.parquet"):
        file.unlink()
    assert first_result.run(cluster, root, str(tmp_path / "python" / "bin" / "python")).rows == [200]


def test_a_worker_that_lacks_a_package_is_reported_in_one_line(cluster: StandaloneCluster, tmp_path: Path) -> None:
    root = tmp_path / "run"
    first_result.prepare(root)
    python = workers_python(tmp_path / "python", without=("pyarrow",))
    found = first_result.run(cluster, root, python)
    assert found.code == 1, found.output
    [said] = [line for line in found.output.splitlines() if "pyarrow" in line]
    assert f"the workers' Python, {python} on" in said
    assert "has no pyarrow: install what is missing there (pip install pyarrow)" in said
    assert "Traceback" not in found.output
