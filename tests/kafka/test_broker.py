"""`python -m headgate.feeder.broker`: one broker that outlives the command, until it is stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.feeder import broker as module
from headgate.feeder.broker import Broker, main
from tests.kafka.topics import Topics

pytestmark = pytest.mark.slow


def test_start_and_stop(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    del broker  # the jars are there
    monkeypatch.setattr(module, "cache", lambda: tmp_path)
    [port] = module._free_ports(1)
    note = tmp_path / "kafka" / "running"
    assert main(["stop"]) == 1
    assert capsys.readouterr().out == "no broker was started\n"
    assert main(["start", "--port", str(port)]) == 0
    pid, folder = note.read_text().split("\n")
    try:
        assert f"listens on 127.0.0.1:{port}" in capsys.readouterr().out
        topics = Topics(f"127.0.0.1:{port}", "started")
        topics.send("t", [{"v": 1}])
        assert len(topics.read("t")) == 1
        assert main(["start", "--port", str(port)]) == 1
        assert folder in capsys.readouterr().out
    finally:
        assert main(["stop"]) == 0
    assert not note.exists()
    assert not Path(folder).exists()
    assert not module._is_broker(int(pid), folder)
