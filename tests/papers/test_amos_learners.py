"""The comparison of AMoS's learners: its scores and rule, and that our learner is ahead of the wheel."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.papers.amos.learners import LEARNERS, OURS, SPECS, WHEEL, _gain, ahead_on_every_spec, learners


def test_a_gain_is_a_mean_with_its_standard_error() -> None:
    found = _gain(np.array([1.0, 2.0, 3.0, 2.0]))
    assert found.mean == 2.0
    assert found.error == pytest.approx(np.std([1, 2, 3, 2], ddof=1) / 2)


@pytest.mark.parametrize(("all_specs", "worst", "holds"), [(3.0, 0.5, True), (3.0, -0.1, False), (1.9, 1.0, False)])
def test_the_claim_holds_if_ahead_on_every_spec(all_specs: float, worst: float, holds: bool) -> None:
    figures = {**dict.fromkeys(SPECS, 1.0), "delay (Fig. 5)": worst, "all": all_specs}
    assert ahead_on_every_spec({}, {"in standard errors": {OURS: figures}}) is holds


@pytest.mark.slow
def test_our_learner_is_ahead_on_few_seeds() -> None:
    found = learners(101, seeds=2, seconds=150.0)
    assert set(found.measured["score"]) == set(SPECS)
    for scored in found.measured["score"].values():
        assert set(LEARNERS) <= set(scored)
    assert WHEEL not in found.measured["better than the wheel by"]
    assert found.measured["better than the wheel by"][OURS]["all"] > 0
