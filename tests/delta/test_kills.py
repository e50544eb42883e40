"""Delta tables while the engine is killed with −9."""

from __future__ import annotations

import pytest

from tests.table_formats.kills import KillTests

pytestmark = pytest.mark.slow


class TestDeltaKills(KillTests):
    """What holds for every format."""
