"""So many draws of each component of a mixture, for means over the whole of it.

Drawn at random, n draws of a mixture hardly ever see a component of weight 1/n. A mean that depends on it is then wrong
by that weight, and nothing in the draws shows it. With a number of draws fixed for each component, each is seen, and
only what varies within a component makes the mean uncertain.

Notation: n draws of k components of weights w, n_i of them of component i; the mean of f is Σ w_i mean_i f.
"""

from typing import NamedTuple, Self

import numpy as np

LEAST_DRAWS = 128
"""Draws of each component, however little it weighs, where they are no more than half of all draws."""


class Strata(NamedTuple):
    """Weights of components, and numbers of draws, which lie one component after the other.

    Attributes
    ----------
    weights
        w, (k,), which sum to one.
    counts
        n_i, (k,), each at least two.
    """

    weights: np.ndarray
    counts: np.ndarray

    @classmethod
    def of_one(cls, num_draws: int) -> Self:
        """Draws of something that has no components."""
        return cls(np.ones(1), np.array([num_draws]))

    @classmethod
    def of(cls, weights: np.ndarray, num_draws: int) -> Self | None:
        """So many draws in all, in proportion to the weights but for a least number of each component.

        Parameters
        ----------
        weights
            w, (k,).
        num_draws
            n.

        Returns
        -------
        The strata, or None where there are fewer than four draws for each component.
        """
        least = min(LEAST_DRAWS, num_draws // (2 * len(weights)))
        if least < 2:
            return None
        ends = np.floor(np.cumsum(weights) / np.sum(weights) * (num_draws - least * len(weights)) + 0.5).astype(int)
        return cls(weights, least + np.diff(ends, prepend=0))

    @property
    def labels(self) -> np.ndarray:
        """The component of each draw, (n,)."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    @property
    def draw_weights(self) -> np.ndarray:
        """Weights of the draws in a mean over the mixture, (n,)."""
        return np.repeat(self.weights / self.counts, self.counts)

    @property
    def is_plain(self) -> np.ndarray:
        """The most draws of which each component has its share, (n,): they could be drawn from the mixture as it is."""
        numbers = np.arange(self.counts.sum()) - np.repeat(np.cumsum(self.counts) - self.counts, self.counts)
        # All draws of the component that weighs the most for a draw of it, and of the others what fits.
        return numbers < np.repeat(np.round(self.weights / np.max(self.weights / self.counts)), self.counts)

    def variance_of_mean(self, values: np.ndarray) -> np.ndarray:
        """Variance of the mean of values at the draws, (n, ...): that within the components."""
        starts = np.cumsum(self.counts) - self.counts
        counts = self.counts.reshape(-1, *np.ones(values.ndim - 1, int))
        means = np.add.reduceat(values, starts) / counts
        squares = np.add.reduceat((values - np.repeat(means, self.counts, axis=0)) ** 2, starts) / (counts - 1)
        return np.tensordot(self.weights**2 / self.counts, squares, axes=1)
