"""Every wrong script is refused at its first error, with exactly this message."""

from __future__ import annotations

import pytest

from headgate.sql import SqlError
from tests.sql.scripts import WrongScript, declared, wrong_scripts

CASES = list(wrong_scripts())


def test_there_are_many() -> None:
    assert len(CASES) >= 200
    assert len({case.script for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.place)
def test_refused(case: WrongScript) -> None:
    catalog = declared()
    before = (set(catalog.queries), set(catalog.streams), set(catalog.classes), set(catalog.functions))
    with pytest.raises(SqlError) as refusal:
        catalog.execute(case.script, "x.sql")
    assert str(refusal.value) == f"x.sql:{case.message}"
    assert before == (set(catalog.queries), set(catalog.streams), set(catalog.classes), set(catalog.functions))
