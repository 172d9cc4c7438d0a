"""Posteriors of mixtures, K! equal copies of one mode: the labels of the components may be exchanged.

Eight data around each of K centres, and K means to be inferred. One copy, in which the means are in order, is a chain:
data of one group depend on the means of that group and of its neighbours alone, since the others are eleven standard
deviations away (e⁻⁵⁴). Hence sums over a grid with messages along the chain.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from numpy.random import Generator
from scipy.special import gammaln

from trust_densities.record import Case, Density, cube, mean_of, moments, probability

OFFSETS = np.array([-1.4, -0.8, -0.4, -0.1, 0.2, 0.5, 0.9, 1.5])
CENTRES = {3: (-6.0, 0.3, 5.0), 4: (-9.0, -3.2, 2.5, 8.7), 6: (-15.0, -9.2, -3.1, 2.8, 8.7, 15.0)}
NUM_POINTS, HALF_WIDTH = 61, 2.2


def labels_logdensity(data: Any, x: Any) -> Any:
    """Data from unit normals of equal weight, whose means are x; prior N(0, 10²) for each mean."""
    terms = -0.5 * (data.astype(x.dtype)[:, None] - x) ** 2
    return jnp.sum(jax.nn.logsumexp(terms, axis=1)) - 0.5 * jnp.sum((x / 10) ** 2)


class Chain:
    """The law of the ordered means on a grid: log Z, and tables of p(x_{c−1} | x_c, x_{c+1}).

    The first and the last mean get a neighbour that is nowhere, so that all groups are alike: a grid of one point at
    infinity.
    """

    def __init__(self, centres: tuple[float, ...]):
        groups = np.array(centres)[:, None] + OFFSETS
        self.axes = [g.mean() + np.linspace(-HALF_WIDTH, HALF_WIDTH, NUM_POINTS) for g in groups]
        nowhere = np.array([np.inf])
        around = [nowhere, *self.axes, nowhere]
        message, self.log_z = np.ones((1, NUM_POINTS)), 0.0
        self.backward = []  # p(x_{c−1} | x_c, x_{c+1}), axes (c − 1, c, c + 1)
        for group, (before, here, after) in zip(groups, zip(around, around[1:], around[2:], strict=False), strict=True):
            factor = self._factor(group, before, here, after)
            joint = message[:, :, None] * factor
            self.log_z += np.log(total := joint.sum())
            message = joint.sum(axis=0)
            self.backward.append(joint / np.maximum(message, 1e-300))
            message = message / total
        self.log_z += sum(np.log(axis[1] - axis[0]) for axis in self.axes)
        self.last = message[:, 0]
        self.marginals = self._marginals(message)

    @staticmethod
    def _factor(group: np.ndarray, before: np.ndarray, here: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Prior of this mean, and the likelihood of the group, on the grid of three means."""
        terms = [np.exp(-0.5 * (group - grid[:, None]) ** 2) for grid in (before, here, after)]
        sums = terms[0][:, None, None] + terms[1][:, None] + terms[2]
        return np.prod(sums, axis=3) * np.exp(-0.5 * (here / 10) ** 2)[:, None]

    def _marginals(self, pair: np.ndarray) -> list[np.ndarray]:
        """Masses of each ordered mean, from the last to the first."""
        found = []
        for table in self.backward[::-1]:  # pair is p(x_c, x_{c+1})
            found.append(pair.sum(axis=1))
            pair = np.einsum("abc,bc->ab", table, pair)
        return found[::-1]

    def draw(self, rng: Generator, n: int) -> np.ndarray:
        """Ordered means, uniform within a cell of the grid."""
        here, after = rng.choice(NUM_POINTS, n, p=self.last), np.zeros(n, int)
        columns = []
        for table, axis in zip(self.backward[::-1], self.axes[::-1], strict=True):
            width = axis[1] - axis[0]
            columns.append(axis[here] + width * rng.uniform(-0.5, 0.5, n))
            cumulative = np.cumsum(table, axis=0)[:, here, after]
            before = np.sum(rng.random(n) * cumulative[-1] > cumulative, axis=0)
            here, after = before, here
        return np.stack(columns[::-1], axis=1)


def labels(num: int) -> Density:
    centres = CENTRES[num]
    chain = Chain(centres)
    means = [float(m @ axis) for m, axis in zip(chain.marginals, chain.axes, strict=True)]
    squares = [float(m @ axis**2) for m, axis in zip(chain.marginals, chain.axes, strict=True)]
    mean = np.mean(means)
    log_copies = gammaln(num + 1)
    quantities = [
        *moments(np.full(num, mean), np.full(num, np.mean(squares) - mean**2), [0, num - 1]),
        *[mean_of(f"ordered {i}", lambda x, i=i: np.sort(x, axis=1)[:, i], means[i]) for i in range(num)],
        probability("in order", lambda x: np.all(np.diff(x, axis=1) > 0, axis=1), np.exp(-log_copies)),
        probability("in reverse", lambda x: np.all(np.diff(x, axis=1) < 0, axis=1), np.exp(-log_copies)),
        probability("x0 is least", lambda x: np.argmin(x, axis=1) == 0, 1 / num),
        probability("x0 < x1", lambda x: x[:, 0] < x[:, 1], 0.5),
    ]

    def draw(rng: Generator, n: int) -> np.ndarray:
        return rng.permuted(chain.draw(rng, n), axis=1)

    data = np.add.outer(centres, OFFSETS).ravel()
    logdensity = Partial(labels_logdensity, jnp.asarray(data, jnp.float32))
    region = cube(num, 10.0 if num == 3 else max(centres) + 5.0)
    return Density(num, logdensity, region, quantities, chain.log_z + log_copies, draw)


CASES = [Case("mixture posterior d = 3", "labels", partial(labels, 3))]
