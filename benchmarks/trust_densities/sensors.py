"""Four sensors in the plane, located by a few distances between them and to two anchors.

The posterior has several modes, since distances leave reflections open. Exact draws: a sensor on the circle around one
anchor, accepted by the other distances. The truths are means of such draws, and of long importance sampling.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.random import Generator

from trust_densities.record import Density, cube, mean_of, probability

ANCHORS = ((0.5, 0.3), (0.3, 0.7))
REACH, NOISE, PRIOR = 0.3, 0.02, 10.0
SEEN = {(0, 4): 0.6103, (0, 5): 0.3631, (2, 4): 0.2995, (2, 5): 0.5656, (0, 3): 0.9266, (1, 2): 0.2970, (1, 3): 0.8524}
"""Distances by pair; 4 and 5 are the anchors."""
PAIRS = [(i, j) for i in range(4) for j in range(i + 1, 6)]
UNSEEN = [pair for pair in PAIRS if pair not in SEEN]
LOG_Z = -37.926
MEANS: tuple[float, ...] = (0.2789, 0.7396, 0.5344, 0.2247, 0.5134, 0.2690, 0.4075, 0.4723)
SDS: tuple[float, ...] = (0.3199, 0.1623, 0.4121, 0.2760, 0.2647, 0.1346, 0.7217, 0.5577)
"""Of the coordinates x₁, y₁, x₂, y₂ …"""
LEFT = (0.5015, 0.5048)
"""P(x₁ < 0.4) and P(x₃ < 0.5): gaps between two positions of a sensor."""


def sensors_logdensity(x: Any) -> Any:
    """A pair at distance r is seen with probability exp(−r²/(2·0.3²)), and its distance with an error of 0.02."""
    points = jnp.concatenate([x.reshape(4, 2), jnp.asarray(ANCHORS, x.dtype)])

    def squares(pairs: Any) -> Any:
        first, second = np.array(pairs).T
        return jnp.sum((points[first] - points[second]) ** 2, axis=1)

    seen, unseen = squares(list(SEEN)), squares(UNSEEN)
    distances = jnp.sqrt(seen + 1e-12)
    errors = (jnp.asarray(list(SEEN.values()), x.dtype) - distances) / NOISE
    log_seen = -seen / (2 * REACH**2) - 0.5 * errors**2 - np.log(NOISE) - 0.5 * np.log(2 * np.pi)
    log_unseen = jnp.log(-jnp.expm1(-unseen / (2 * REACH**2) - 1e-12))
    log_prior = -0.5 * jnp.sum((x / PRIOR) ** 2) - 8 * (np.log(PRIOR) + 0.5 * np.log(2 * np.pi))
    return log_prior + jnp.sum(log_seen) + jnp.sum(log_unseen)


def _around(rng: Generator, centres: np.ndarray, distance: float) -> tuple[np.ndarray, np.ndarray]:
    """Points at a noisy distance in any direction, and the log of what the proposal leaves out: r exp(−r²/(2·0.3²))."""
    r = distance + NOISE * rng.standard_normal(len(centres))
    angle = rng.uniform(0, 2 * np.pi, len(centres))
    points = centres + r[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return points, np.log(2 * np.pi * np.maximum(r, 1e-9)) - r**2 / (2 * REACH**2)


def _log_seen(a: np.ndarray, b: np.ndarray, distance: float) -> np.ndarray:
    r = np.linalg.norm(a - b, axis=1)
    log_normal = -0.5 * ((distance - r) / NOISE) ** 2 - np.log(NOISE) - 0.5 * np.log(2 * np.pi)
    return log_normal - r**2 / (2 * REACH**2)


def _log_unseen(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.log(-np.expm1(-np.sum((a - b) ** 2, axis=1) / (2 * REACH**2)))


def _log_prior(a: np.ndarray) -> np.ndarray:
    return -0.5 * np.sum((a / PRIOR) ** 2, axis=1) - 2 * (np.log(PRIOR) + 0.5 * np.log(2 * np.pi))


def _rejected(rng: Generator, columns: np.ndarray, log_weights: np.ndarray, top: float) -> np.ndarray:
    return columns[np.log(rng.random(len(columns))) < log_weights - top]


def _located(rng: Generator, sensor: int, n: int) -> tuple[np.ndarray, float]:
    """Sensor 0 or 2 by both its anchors: about n exact draws of that factor, and the log of its integral.

    Two distances meet in two points; the weight has the Jacobian of that map.
    """
    near, far = np.array(ANCHORS)
    a, b = (SEEN[sensor, anchor] + NOISE * rng.standard_normal(n) for anchor in (4, 5))
    axis, gap = (far - near) / np.linalg.norm(far - near), np.linalg.norm(far - near)
    along = (a**2 - b**2 + gap**2) / (2 * gap)
    square = a**2 - along**2
    across = np.sqrt(np.maximum(square, 1e-12)) * rng.choice([-1.0, 1.0], n)
    points = near + along[:, None] * axis + across[:, None] * np.array([-axis[1], axis[0]])
    log_weights = np.log(2 * a * b / (gap * np.abs(across))) - (a**2 + b**2) / (2 * REACH**2) + _log_prior(points)
    log_weights = np.where(square > 0, log_weights, -np.inf)
    return _rejected(rng, points, log_weights, log_weights.max()), float(np.log(np.mean(np.exp(log_weights))))


def draw_sensors(rng: Generator, n: int, batch: int = 500_000) -> tuple[np.ndarray, float]:
    """Exact draws (n, 8) by rejection, and log Z. The bound of the weights is the largest of the first batch."""
    drawn, top, masses = [], -np.inf, []
    while sum(map(len, drawn)) < n:
        (first, log_first), (third, log_third) = (_located(rng, sensor, batch) for sensor in (0, 2))
        num = min(len(first), len(third))
        first, third = first[:num], third[:num]
        second, log_second = _around(rng, third, SEEN[1, 2])
        fourth, log_fourth = _around(rng, first, SEEN[0, 3])
        points = [first, second, third, fourth, *(np.broadcast_to(a, first.shape) for a in np.array(ANCHORS))]
        log_weights = log_second + log_fourth + _log_prior(second) + _log_prior(fourth)
        log_weights += _log_seen(second, fourth, SEEN[1, 3])
        log_weights += sum(_log_unseen(points[i], points[j]) for i, j in UNSEEN)
        top = max(top, log_weights.max()) if not drawn else top
        drawn.append(_rejected(rng, np.concatenate(points[:4], axis=1), log_weights, top))
        masses.append(np.mean(np.exp(log_weights)) * np.exp(log_first + log_third))
    return np.concatenate(drawn)[:n], float(np.log(np.mean(masses)))


def sensors() -> Density:
    quantities = [mean_of(f"mean x{i}", lambda x, i=i: x[:, i], MEANS[i]) for i in range(8)]
    quantities += [mean_of(f"var. x{i}", lambda x, i=i: (x[:, i] - MEANS[i]) ** 2, SDS[i] ** 2) for i in (0, 2, 4, 6)]
    quantities += [probability("x0 < 0.4", lambda x: x[:, 0] < 0.4, LEFT[0])]
    quantities += [probability("x4 < 0.5", lambda x: x[:, 4] < 0.5, LEFT[1])]
    return Density(8, sensors_logdensity, cube(8, 2.0), quantities, LOG_Z, lambda rng, n: draw_sensors(rng, n)[0])
