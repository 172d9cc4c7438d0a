"""Movements between modes on paths that can be followed by hand."""

import numpy as np

from vhmc_jax.diagnostics.modes.moves import jump_counts, pair_counts, path_of, round_trips

LABELS = np.array([[-1, 0, -1, 1, 1, 0], [2, 2, -1, -1, 2, 0]])
PATH = np.array([[-1, 0, 0, 1, 1, 0], [2, 2, 2, 2, 2, 0]])


def test_a_chain_in_no_mode_counts_for_the_one_that_it_was_in_last():
    np.testing.assert_array_equal(path_of(LABELS), PATH)


def test_a_round_trip_is_a_visit_beyond_the_first():
    np.testing.assert_array_equal(round_trips(PATH, 3), [1, 0, 0])


def test_pairs_are_counted_where_they_count():
    before, after = np.array([0, 0, 1, 2]), np.array([1, 1, 0, 2])
    found = pair_counts(before, after, np.array([True, True, False, True]), 3)
    np.testing.assert_array_equal(found, [[0, 2, 0], [0, 0, 0], [0, 0, 1]])


def test_jumps_of_components_are_counted_by_their_modes():
    """Components 0 and 1 are mode 0, component 2 is mode 1, component 3 none."""
    infos = {
        "is_jump": np.ones((1, 4), int),
        "jump_accepted": np.array([[1, 0, 1, 1]]),
        "jump_from": np.array([[0, 1, 2, 0]]),
        "jump_to": np.array([[2, 2, 1, 3]]),
    }
    tried, accepted = jump_counts(infos, (1, 4), 2, np.array([0, 0, 1, -1]))
    np.testing.assert_array_equal(tried, [[0, 2], [1, 0]])
    np.testing.assert_array_equal(accepted, [[0, 1], [1, 0]])
    assert jump_counts({"is_jump": infos["is_jump"]}, (1, 4), 2, None) == (None, None)
