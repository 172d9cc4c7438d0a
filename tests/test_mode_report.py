"""The mode report's counts on small cases that can be done by hand, and what it notes."""

from typing import NamedTuple

import numpy as np
import pytest

from vhmc_jax.diagnostics import mode_report

PATHS = np.array([[0, 0, 1, 1, 0, 2, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1], [2, -1, -1, 1, 2, 2, 2, -1]])


def test_counts_by_hand():
    report = mode_report(labels=PATHS, num_modes=4)
    np.testing.assert_array_equal(report.transitions, [[2, 1, 1, 0], [1, 8, 1, 0], [1, 1, 5, 0], [0, 0, 0, 0]])
    np.testing.assert_array_equal(report.round_trips, [2, 0, 1, 0])
    np.testing.assert_array_equal(report.num_chains_seen, [1, 3, 2, 0])
    np.testing.assert_allclose(report.weights, np.array([5, 11, 5, 0]) / 24)
    np.testing.assert_allclose(report.transition_matrix[0], [0.5, 0.25, 0.25, 0])
    assert np.isnan(report.transition_matrix[3]).all()
    assert report.stuck_chains == (1,)
    assert report.unseen_modes == (3,)


def test_entropic_coverage():
    even = np.tile(np.arange(4), (2, 5))
    assert np.isclose(mode_report(labels=even).entropic_coverage, 1)
    assert np.isclose(mode_report(labels=even * 0, num_modes=4).entropic_coverage, 0)
    assert np.isnan(mode_report(labels=even * 0).entropic_coverage)


class Jumps(NamedTuple):
    """The fields of infos that the report reads."""

    is_jump: np.ndarray
    jump_accepted: np.ndarray
    jump_from: np.ndarray
    jump_to: np.ndarray


def test_jump_acceptance_by_pair():
    jumps = Jumps(
        is_jump=np.array([[1, 1, 1, 1, 0, 1, 1, 1]], bool),
        jump_accepted=np.array([[1, 0, 1, 1, 1, 0, 0, 0]], bool),
        jump_from=np.array([[0, 0, 1, 1, 0, 2, -1, 0]]),
        jump_to=np.array([[1, 1, 0, 2, 1, 0, 1, -1]]),
    )
    expected = [[np.nan, 0.5, np.nan], [1, np.nan, 1], [0, np.nan, np.nan]]
    for infos in (jumps, jumps._asdict()):
        report = mode_report(labels=PATHS[:1], infos=infos)
        np.testing.assert_array_equal(report.jump_attempts, [[0, 2, 0], [1, 0, 1], [1, 0, 0]])
        np.testing.assert_array_equal(report.jump_acceptance, expected)
    assert mode_report(labels=PATHS[:1], infos={"is_jump": jumps.is_jump}).jump_acceptance is None
    with pytest.raises(ValueError, match="shape of labels"):
        mode_report(labels=PATHS, infos=jumps)


def test_chains_that_never_moved_say_so():
    apart = np.repeat([[0], [1]], 50, axis=1)
    report = mode_report(labels=apart)
    assert any("starting points, not of the target" in note for note in report.notes)
    assert report.upper[0] - report.lower[0] > 0.8
    together = mode_report(labels=apart * 0, num_modes=2)
    assert np.isnan(together.errors).all()
    assert any("Every draw is in one mode" in note for note in together.notes)


def test_starts_remembered_are_noted_and_forgotten_ones_are_not():
    rng = np.random.default_rng(0)
    drift = (np.arange(100) > rng.integers(0, 100, (32, 1))).astype(int)
    assert any("remembers where chains started" in note for note in mode_report(labels=drift).notes)
    mixed = mode_report(labels=rng.integers(0, 2, (32, 100)))
    assert not any("remembers" in note for note in mixed.notes)
    assert len(mixed.notes) == 1


def test_too_few_draws_give_nan_with_the_reason():
    report = mode_report(labels=PATHS[:, :3])
    assert np.isnan(report.errors).all()
    assert np.isfinite(report.weights).all()
    assert any("at least four draws" in note for note in report.notes)
