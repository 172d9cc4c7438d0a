"""Meng and Wong's optimal bridge between draws of two densities, weighted or not."""

from typing import NamedTuple

import numpy as np
import scipy

TOLERANCE = 1e-12
"""A step as small as this, relative to c where that exceeds one, is not taken: c is the root."""


class Bridge(NamedTuple):
    """ℓ = log p − log q at draws of the target p and at draws of the guide q.

    Attributes
    ----------
    at_draws, at_guide
        ℓ at the draws of each, (n,).
    draw_weights, guide_weights
        Weights of the draws, which sum to one.
    size, guide_size
        Independent draws that they are worth, n₁ and n₂.
    """

    at_draws: np.ndarray
    at_guide: np.ndarray
    draw_weights: np.ndarray
    guide_weights: np.ndarray
    size: float
    guide_size: float

    def terms(self, c: float) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities that a draw of the target is the guide's, and that one of the guide is the target's.

        They are the summands of the denominator and the numerator of the bridge, but for constants.
        """
        offset = np.log(self.size / self.guide_size) - c
        return scipy.special.expit(-(self.at_draws + offset)), scipy.special.expit(self.at_guide + offset)

    def solve(self, guess: float) -> float:
        """The c where n₁ mean P(guide | x) = n₂ mean P(target | y): the left rises with c, the right falls."""
        has_density = np.isfinite(self.at_guide)
        finite = self.at_guide[has_density]
        low, high = min(self.at_draws.min(), finite.min()), max(self.at_draws.max(), finite.max())
        if finite.size < self.at_guide.size:
            # Draws of the guide where p = 0 push c below every ratio, by no more than this.
            low += np.log(self.guide_weights[has_density].sum())
        c = guess
        for _ in range(100):
            guides, targets = self.terms(c)
            excess = self.size * (self.draw_weights @ guides) - self.guide_size * (self.guide_weights @ targets)
            slope = self.size * (self.draw_weights @ (guides * (1 - guides)))
            slope += self.guide_size * (self.guide_weights @ (targets * (1 - targets)))
            low, high = (c, high) if excess < 0 else (low, c)
            newton = c - excess / slope if slope > 0 else np.inf
            # Newton's step, or half the bracket where that leads out of it.
            step = float(newton if low < newton < high else (low + high) / 2)
            # At the root itself rounding may lead out of the bracket: there the first of the two is small.
            if min(abs(newton - c), abs(step - c)) <= TOLERANCE * max(1, abs(c)):
                break
            c = step
        return c
