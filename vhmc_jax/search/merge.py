"""From end points to modes: which ends are one mode, and which are none.

Two points are one mode when they are close in the metric of the local curvature and no barrier stands on
the segment between them. Euclidean distance would not do: a mode of width 0.1 and one of width 3 live in one
target. The best end is polished first and takes in every other end that belongs to it; then the best of the
rest, until none is left. So Hessians are computed for modes, not for starts, and an end that stopped early on
a ridge is polished on its own account and recognised at the top.
"""

from collections import Counter
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from vhmc_jax.density import FlatDensity
from vhmc_jax.search.ascent import ARRIVED, ESCAPED, OUTSIDE, UNCONVERGED, Ascent
from vhmc_jax.search.polish import BARRIER, PROFILE, SEGMENT, Top, depth_between, polish, profile_widths

CLOSE = 0.2
"""Within so many standard deviations of a top, a point whose density fits the curvature belongs to it."""

REACH = 3.0
"""Beyond, a point is polished on its own account, whatever stands between."""

SEGMENT_BLOCK = 32
STATUS_NAMES = {OUTSIDE: "outside", ESCAPED: "escaped", UNCONVERGED: "unconverged"}


@dataclass
class FoundMode:
    """A mode: where, how high, which shape, and how many starts ended there."""

    position: np.ndarray
    logdensity: float
    covariance: np.ndarray
    whitening: np.ndarray
    is_gaussian: bool
    count: int = 0

    @property
    def reach(self) -> float:
        """How far a point may be: a flat top has no width to measure by, and barriers alone decide."""
        return REACH if self.is_gaussian else np.inf

    def squared_distances(self, points: np.ndarray) -> np.ndarray:
        """Squared distances from the top, in standard deviations of this mode."""
        return np.sum(((points - self.position) @ self.whitening.T) ** 2, axis=-1)


class FoundModes:
    """The modes found so far, the starts that failed by reason, and the evaluations spent.

    Parameters
    ----------
    density
        Log density of flat positions.
    scale
        Spread of the starts, shape (d,).
    tolerance
        Distance to the top, in standard deviations, to which a mode is polished.
    """

    def __init__(self, density: FlatDensity, scale: np.ndarray, tolerance: float):
        self._density = density
        self._scale = scale
        self._tolerance = np.asarray(tolerance, scale.dtype)
        self._eps = float(jnp.finfo(scale.dtype).eps)
        self.modes: list[FoundMode] = []
        self.failures: Counter[str] = Counter()
        self.num_gradients = 0
        self.num_densities = 0

    def add(self, ascent: Ascent) -> None:
        """Sort the ends of one block of starts into known modes, new modes and failures."""
        statuses = np.asarray(ascent.statuses)
        self.num_gradients += int(np.sum(ascent.num_gradients))
        self.failures.update(STATUS_NAMES[int(status)] for status in statuses if status != ARRIVED)
        ends = np.asarray(ascent.positions)[statuses == ARRIVED]
        heights = np.asarray(ascent.logdensities, np.float64)[statuses == ARRIVED]
        is_free = np.ones(len(ends), bool)
        for mode in self.modes:
            self._take_in(mode, ends, heights, is_free)
        for best in np.argsort(-heights):
            if not is_free[best]:
                continue
            is_free[best] = False
            mode_or_reason = self._examine(ends[best])
            if isinstance(mode_or_reason, str):
                self.failures[mode_or_reason] += 1
                continue
            mode = self._recognise(mode_or_reason)
            mode.count += 1
            self._take_in(mode, ends, heights, is_free)

    def _take_in(self, mode: FoundMode, ends: np.ndarray, heights: np.ndarray, is_free: np.ndarray) -> None:
        """Count the free ends that belong to the mode, and mark them as taken."""
        squared = mode.squared_distances(ends)
        belongs = is_free & self._fits(mode.logdensity - heights, squared)
        doubtful = is_free & ~belongs & (squared <= mode.reach**2)
        belongs[doubtful] = ~self._has_barrier(mode, ends[doubtful])
        mode.count += int(np.sum(belongs))
        is_free &= ~belongs

    def _recognise(self, candidate: FoundMode) -> FoundMode:
        """The known mode that the candidate is, or else the candidate, now known."""
        for mode in self.modes:
            squared = min(mode.squared_distances(candidate.position), candidate.squared_distances(mode.position))
            if self._fits(mode.logdensity - candidate.logdensity, squared):
                return mode
            if (
                squared <= max(mode.reach, candidate.reach) ** 2
                and not self._has_barrier(mode, candidate.position[None])[0]
            ):
                return mode
        self.modes.append(candidate)
        return candidate

    def _fits(self, falls: np.ndarray | float, squared: np.ndarray | float) -> np.ndarray:
        """Whether points are close, and as high as the curvature has it: no room for a barrier."""
        slack = 0.5 * CLOSE**2 + self._rounding()
        return (np.asarray(squared) <= CLOSE**2) & (np.abs(falls - 0.5 * squared) <= slack)

    def _rounding(self) -> float:
        """What rounding may do to a difference of log densities."""
        highest = max((abs(mode.logdensity) for mode in self.modes), default=0.0)
        return 100 * self._eps * highest

    def _has_barrier(self, mode: FoundMode, points: np.ndarray) -> np.ndarray:
        depths = [np.zeros(0)]
        for first in range(0, len(points), SEGMENT_BLOCK):
            block = points[first : first + SEGMENT_BLOCK]
            padded = np.concatenate([block, np.repeat(block[:1], SEGMENT_BLOCK - len(block), axis=0)])
            found = depth_between(self._density, self._array(mode.position), self._array(padded))
            depths.append(np.asarray(found)[: len(block)])
        self.num_densities += len(points) * len(SEGMENT)
        return np.concatenate(depths) > BARRIER + self._rounding()

    def _examine(self, end: np.ndarray) -> FoundMode | str:
        """Polish one end: a mode, or the reason why it is none."""
        top = polish(self._density, self._array(end), self._scale, self._tolerance)
        self.num_gradients += int(top.num_gradients)
        self.num_densities += int(top.num_densities)
        eigenvalues = np.asarray(top.eigenvalues, np.float64)
        if not (top.is_converged or top.is_stuck) or not np.all(np.isfinite(eigenvalues)):
            return "unconverged"
        if eigenvalues.min() < -np.sqrt(self._eps):
            return "saddle" if top.is_converged else "unconverged"
        # An edge of the support on one side, where the fall is infinite, does not make the Hessian wrong.
        mean_falls = np.mean(np.minimum(np.nan_to_num(top.falls, nan=np.inf), 3.0), axis=0)
        is_as_curved = (eigenvalues > 32 * self._eps) & (mean_falls > 1 / 8) & (mean_falls < 2)
        if top.is_converged and np.all(is_as_curved):
            return self._mode(top, np.ones_like(eigenvalues), is_gaussian=True)
        widths, rises = (np.asarray(a, np.float64) for a in profile_widths(self._density, top))
        self.num_densities += 2 * len(PROFILE) * len(widths)
        if np.any(rises):
            return "saddle" if top.is_converged else "unconverged"
        if np.any(np.isinf(widths)):
            return "flat"
        return self._mode(top, np.where(is_as_curved, 1.0, widths), is_gaussian=False)

    def _mode(self, top: Top, widths: np.ndarray, *, is_gaussian: bool) -> FoundMode:
        axes = np.asarray(top.axes, np.float64) * widths
        return FoundMode(
            position=np.asarray(top.position),
            logdensity=float(top.logdensity),
            covariance=axes @ axes.T,
            whitening=np.linalg.inv(axes),
            is_gaussian=is_gaussian,
        )

    def _array(self, values: np.ndarray) -> np.ndarray:
        return values.astype(self._scale.dtype)
