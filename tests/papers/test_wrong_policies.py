"""Every experiment can fail: under a wrong policy (turned or random ranks, another algorithm) its claim is rejected."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headgate import papers
from tests.papers.checks import CHECKS, forget_runs
from tests.papers.wrong import Spoil


@pytest.fixture(autouse=True)
def no_cached_runs() -> Iterator[None]:
    forget_runs()
    yield
    forget_runs()


def marks(name: str) -> tuple[pytest.MarkDecorator, ...]:
    return (pytest.mark.slow,) if CHECKS[name].slow else ()


NAMES = [pytest.param(name, id=name, marks=marks(name)) for name in CHECKS]
SPOILED = [
    pytest.param(name, spoil, id=f"{name}-{number}", marks=marks(name))
    for name, check in CHECKS.items()
    for number, spoil in enumerate(check.wrong, 1)
]


def test_every_experiment_has_a_check_with_a_wrong_policy() -> None:
    """A new experiment needs one in `tests/papers/checks.py`."""
    assert set(CHECKS) == set(papers.EXPERIMENTS)
    assert all(check.wrong for check in CHECKS.values())


@pytest.mark.parametrize("name", NAMES)
def test_the_rule_accepts_what_the_paper_states(name: str) -> None:
    check = CHECKS[name]
    outcome = check.run()
    assert outcome.name == name
    if check.accepted is None:
        assert outcome.holds, outcome.measured
    else:
        assert outcome.rule(outcome.paper, check.accepted(outcome))


@pytest.mark.parametrize(("name", "spoil"), SPOILED)
def test_a_wrong_policy_makes_the_claim_fail(name: str, spoil: Spoil, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch)
    outcome = CHECKS[name].run()
    assert not outcome.holds, outcome.measured
