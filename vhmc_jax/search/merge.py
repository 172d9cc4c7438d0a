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
from vhmc_jax.search.polish import BARRIER, PROFILE, SEGMENT_PARTS, Top, lowest_between, polish, profile_widths

CLOSE = 0.2
"""Within so many standard deviations of a top, a point whose density fits the curvature belongs to it."""

REACH = 3.0
"""Beyond, a point is polished on its own account, whatever stands between."""

MOST_MODES, LEAST_MOST, MOST_NUMBERS = 512, 16, 2_000_000
"""The most modes that are told apart: so many, and fewer in high dimension, where their covariances have no more
numbers than that. Beyond, ends that belong to none of them are counted and no more."""

MOST_EDGES = 8
"""The most ends of a block that did not converge which are looked at, highest first: a maximum may lie at an edge."""

MOST_FAILED_ENDS = 64
"""Ends that did not converge which are kept of each block, for the audit: of particles, and of starts of the region."""

MOST_FLAT, SAME_HEIGHT = 16, 0.05
"""After so many tops that are flat, an end as high as one of them is counted with it: they are a ridge or a shell."""

MANY_KNOWN, SKIPPED = 32, 7
"""After so many polished ends in a row that led to known modes, so many of the rest are counted with each that is
polished. In a bent valley most starts end far from the top, each on its own."""

FEW_FLAT = 3
"""More flat tops than this of one height are one mode."""

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
    push: np.ndarray
    count: int = 0

    @property
    def reach(self) -> float:
        """How far a point may be: a flat top has no width to measure by, and barriers alone decide."""
        return REACH if self.is_gaussian else np.inf

    @property
    def log_mass(self) -> float:
        """Log of its mass by Laplace's approximation, up to a constant of the dimension."""
        return self.logdensity - float(np.linalg.slogdet(self.whitening)[1])

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
        self.most_modes = min(MOST_MODES, max(LEAST_MOST, MOST_NUMBERS // len(scale) ** 2))
        self._tolerance = np.asarray(tolerance, scale.dtype)
        self._eps = float(jnp.finfo(scale.dtype).eps)
        self.modes: list[FoundMode] = []
        self._highest = 0.0
        self.failures: Counter[str] = Counter()
        self.failed_ends: list[tuple[np.ndarray, np.float64]] = []
        self.num_gradients = 0
        self.num_densities = 0

    def add(self, ascent: Ascent) -> None:
        """Sort the ends of one block of starts into known modes, new modes and failures."""
        statuses = np.asarray(ascent.statuses)
        self.num_gradients += int(np.sum(ascent.num_gradients))
        rows = np.flatnonzero(statuses == UNCONVERGED)[:MOST_FAILED_ENDS]
        positions, heights = np.asarray(ascent.positions), np.asarray(ascent.logdensities, np.float64)
        self.failed_ends += [(positions[row], heights[row]) for row in rows]
        self._sort(ascent, statuses == ARRIVED, len(statuses), "uncounted")
        self._sort(ascent, statuses == UNCONVERGED, MOST_EDGES, "unconverged")
        others = statuses[(statuses != ARRIVED) & (statuses != UNCONVERGED)]
        self.failures.update(STATUS_NAMES[int(status)] for status in others)

    def _sort(self, ascent: Ascent, is_chosen: np.ndarray, most: int, rest: str) -> None:
        """Sort some of the ends. At most so many are polished; those left over fail for the reason ``rest``."""
        ends = np.asarray(ascent.positions)[is_chosen]
        heights = np.asarray(ascent.logdensities, np.float64)[is_chosen]
        is_free = np.isfinite(heights)
        self._take_in_ridge(heights, is_free)
        for mode in self.modes:
            self._take_in(mode, ends, heights, is_free)
        num_polished = num_known_in_a_row = 0
        for best in np.argsort(-heights):
            self._take_in_ridge(heights, is_free)
            if not is_free[best]:
                continue
            if num_polished == most or len(self.modes) >= self.most_modes:
                break
            num_polished += 1
            is_free[best] = False
            mode_or_reason = self._examine(ends[best])
            if isinstance(mode_or_reason, str):
                self.failures[mode_or_reason] += 1
                continue
            num_known, mode = len(self.modes), self._recognise(mode_or_reason)
            mode.count += 1
            if len(self.modes) > num_known:
                self._take_in(mode, ends, heights, is_free)
                num_known_in_a_row = 0
                continue
            num_known_in_a_row += 1
            if num_known_in_a_row >= MANY_KNOWN:
                skipped = np.flatnonzero(is_free)[:SKIPPED]
                mode.count += len(skipped)
                is_free[skipped] = False
        self.failures[rest] += int(is_free.sum()) + int(np.sum(~np.isfinite(heights)))

    @property
    def has_ridge(self) -> bool:
        """Whether so many tops are flat that they are taken for a ridge."""
        return sum(not mode.is_gaussian for mode in self.modes) >= MOST_FLAT

    def _take_in_ridge(self, heights: np.ndarray, is_free: np.ndarray) -> None:
        """Count the free ends that are as high as flat tops are, once there are many of these."""
        if not self.has_ridge:
            return
        for mode in [mode for mode in self.modes if not mode.is_gaussian]:
            belongs = is_free & (np.abs(heights - mode.logdensity) < SAME_HEIGHT)
            mode.count += int(belongs.sum())
            is_free &= ~belongs

    def merge_ridges(self) -> None:
        """Make one mode of the flat tops of one height, where there are many: a shell, a ring, a ridge."""
        flat = sorted((mode for mode in self.modes if not mode.is_gaussian), key=lambda mode: -mode.logdensity)
        while flat:
            group = [mode for mode in flat if flat[0].logdensity - mode.logdensity < SAME_HEIGHT]
            flat = flat[len(group) :]
            if len(group) > FEW_FLAT:
                self.modes = [mode for mode in self.modes if all(mode is not other for other in group)]
                self.modes.append(_ridge(group))

    def _take_in(self, mode: FoundMode, ends: np.ndarray, heights: np.ndarray, is_free: np.ndarray) -> None:
        """Count the free ends that belong to the mode, and mark them as taken."""
        squared = mode.squared_distances(ends)
        belongs = is_free & self._fits(mode.logdensity - heights, squared)
        doubtful = is_free & ~belongs & (squared <= mode.reach**2)
        belongs[doubtful] = ~self._has_barrier(mode, ends[doubtful], heights[doubtful])
        mode.count += int(np.sum(belongs))
        is_free &= ~belongs

    def _recognise(self, candidate: FoundMode) -> FoundMode:
        """The known mode that the candidate is, or else the candidate, now known."""
        for mode, squared in zip(self.modes, self._squared_distances(candidate), strict=True):
            if self._fits(mode.logdensity - candidate.logdensity, squared):
                return mode
            is_near = squared <= max(mode.reach, candidate.reach) ** 2
            height = np.array([candidate.logdensity])
            if is_near and not self._has_barrier(mode, candidate.position[None], height)[0]:
                return mode
        self.modes.append(candidate)
        self._highest = max(self._highest, abs(candidate.logdensity))
        return candidate

    def _squared_distances(self, candidate: FoundMode) -> np.ndarray:
        """Squared distances to all known modes, in the smaller of the two units, shape (mode,)."""
        if not self.modes:
            return np.zeros(0)
        offsets = np.stack([mode.position for mode in self.modes]) - candidate.position
        whitenings = np.stack([mode.whitening for mode in self.modes])
        in_theirs = np.sum(np.einsum("kij,kj->ki", whitenings, offsets) ** 2, axis=1)
        return np.minimum(in_theirs, np.sum((offsets @ candidate.whitening.T) ** 2, axis=1))

    def _fits(self, falls: np.ndarray | float, squared: np.ndarray | float) -> np.ndarray:
        """Whether points are close, and as high as the curvature has it: no room for a barrier."""
        slack = 0.5 * CLOSE**2 + self._rounding()
        return (np.asarray(squared) <= CLOSE**2) & (np.abs(falls - 0.5 * squared) <= slack)

    def _rounding(self) -> float:
        """What rounding may do to a difference of log densities."""
        return 100 * self._eps * self._highest

    def _has_barrier(self, mode: FoundMode, points: np.ndarray, heights: np.ndarray) -> np.ndarray:
        """Whether the log density falls, on the segments from the mode, below the lower of their ends."""
        least = np.minimum(heights, mode.logdensity) - BARRIER - self._rounding()
        has_barrier = np.zeros(len(points), bool)
        for fractions in SEGMENT_PARTS:
            rows = np.flatnonzero(~has_barrier)
            has_barrier[rows] = self._lowest(mode, points[rows], fractions) < least[rows]
        return has_barrier

    def _lowest(self, mode: FoundMode, points: np.ndarray, fractions: np.ndarray) -> np.ndarray:
        """The least log density at these fractions of the segments from the mode to the points."""
        position, push, fractions = (self._array(values) for values in (mode.position, mode.push, fractions))
        found = [np.zeros(0)]
        for first in range(0, len(points), SEGMENT_BLOCK):
            block = points[first : first + SEGMENT_BLOCK]
            padded = np.concatenate([block, np.repeat(block[:1], SEGMENT_BLOCK - len(block), axis=0)])
            lowest = lowest_between(self._density, position, self._array(padded), push, fractions)
            found.append(np.asarray(lowest, np.float64)[: len(block)])
        self.num_densities += len(points) * len(fractions)
        return np.concatenate(found)

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
            push=np.asarray(top.push),
        )

    def _array(self, values: np.ndarray) -> np.ndarray:
        return values.astype(self._scale.dtype)


def _ridge(modes: list[FoundMode]) -> FoundMode:
    """One mode for many tops of one height, with the covariance of all of them together."""
    positions = np.stack([mode.position for mode in modes]).astype(np.float64)
    covariance = np.mean([mode.covariance for mode in modes], axis=0) + np.cov(positions.T, bias=True)
    return FoundMode(
        position=modes[0].position,
        logdensity=modes[0].logdensity,
        covariance=covariance,
        whitening=np.linalg.inv(np.linalg.cholesky(covariance)),
        is_gaussian=False,
        push=modes[0].push,
        count=sum(mode.count for mode in modes),
    )
