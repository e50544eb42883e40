"""The examples in docstrings run as tests."""

from __future__ import annotations

from pathlib import Path


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Modules without examples are left out: each process of a run would import all of them to find that out."""
    if collection_path.suffix == ".py" and b">>> " not in collection_path.read_bytes():
        return True
    return None
