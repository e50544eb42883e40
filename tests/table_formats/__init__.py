"""Tests that every table format with transactions inherits; pytest explains their assertions as those of test files."""

import pytest

pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in ("kills", "sink", "source")))
