"""The mode report as text."""

import numpy as np

from vhmc_jax.diagnostics import mode_report

LABELS = np.random.default_rng(0).integers(0, 3, (4, 200))


def test_table_shows_each_mode_and_the_caveat():
    text = str(mode_report(labels=LABELS, num_modes=4, undiscovered_share=0.0123))
    assert "Mode report: 4 chains of 200 draws, 4 modes" in text
    assert "Transition matrix" in text
    assert "Never visited: mode 3" in text
    assert "cannot be ruled out; the search estimates that 1.23% of starting points" in text
    assert text == mode_report(labels=LABELS, num_modes=4, undiscovered_share=0.0123).summary()


def test_share_not_given_is_said_and_many_modes_keep_their_matrix_to_themselves():
    text = str(mode_report(labels=LABELS, num_modes=40))
    assert "no estimate of their share was given" in text
    assert "Transition matrix" not in text
    assert "Never visited: mode 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 27 more" in text


def test_jump_acceptance_is_shown_where_known():
    fields = ("is_jump", "jump_accepted", "jump_from", "jump_to")
    infos = {name: np.ones_like(LABELS) for name in fields}
    assert "Acceptance of jumps" in str(mode_report(labels=LABELS, infos=infos))
    assert "Acceptance of jumps" not in str(mode_report(labels=LABELS))
