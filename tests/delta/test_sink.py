"""Delta tables as sinks."""

from __future__ import annotations

import pytest

from tests.table_formats.sink import SinkTests

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class TestDeltaSink(SinkTests):
    """What holds for every format."""
