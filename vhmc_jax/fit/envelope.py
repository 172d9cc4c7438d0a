"""The envelope of the jump: which log c lets the most jumps succeed.

Notation: ℓ = log π − log q at draws from the guide q, so that e^ℓ are importance weights for the target π;
w = max(1, e^{ℓ − log c}) is the weight of the jump's correction.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from vhmc_jax.arguments import as_count, as_position
from vhmc_jax.base import Array, PyTree, as_pytree_function
from vhmc_jax.density import FlatDensity, require_scalar
from vhmc_jax.guide import as_guide
from vhmc_jax.programs import program

GRID_SIZE, NUM_ROUNDS = 24, 2
"""Values of log c that are tried, and how often between ever closer ends."""
LEAST_MASS = 1e-4
"""Share of the target's mass that lies below the least log c that is tried, and above the greatest. No envelope below
the least one accepts more by more than this share."""


def estimate_log_envelope(
    rng_key: Array,
    logdensity_fn: Callable,
    guide: Any,
    num_tries: int,
    *,
    num_draws: int = 2000,
    template: PyTree | None = None,
) -> float:
    """Estimate the log envelope that makes the most jumps succeed.

    A jump succeeds with probability [1 − (1 − p)ᴷ] E min(1, w(θ*) / w(θ)), p = E_q min(1, e^ℓ / c), for θ from the
    target and θ* in proportion to min(π, c q). All of it is estimated from draws of the guide.

    Parameters
    ----------
    rng_key
        Key of the draws.
    logdensity_fn
        Log density of a position, up to a constant.
    guide
        Anything with ``sample(rng_key)`` and ``log_prob(x)`` on flat vectors.
    num_tries
        K, the candidates of a jump.
    num_draws
        Draws of the guide; each costs one density value.
    template
        One position, where positions are pytrees and not flat vectors. Only its structure, shapes and dtypes are read.

    Returns
    -------
    log c.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, vhmc_jax as vj
    >>> guide = vj.GaussianMixture(jnp.zeros(1), jnp.zeros((1, 2)), jnp.eye(2)[None])
    >>> def logdensity(position):
    ...     return -0.5 * (position["a"] ** 2 + position["b"] ** 2)
    >>> template = {"a": jnp.array(0.0), "b": jnp.array(0.0)}
    >>> log_envelope = vj.estimate_log_envelope(jax.random.key(0), logdensity, guide, 4, template=template)
    >>> print(f"{log_envelope:.3f}")  # log 2π: the guide is the target, normalised
    1.838
    """
    guide = as_guide(guide)
    num_tries = as_count("num_tries", num_tries, 1)
    num_draws = as_count("num_draws", num_draws, 2)
    template = matching_template(guide, template)
    require_scalar(logdensity_fn, template)
    logdensities, log_probs = _heights(
        rng_key,
        FlatDensity.at(logdensity_fn, template),
        as_pytree_function(guide.sample),
        as_pytree_function(guide.log_prob),
        num_draws,
    )
    # In double precision: a log density with a large offset would round log q away.
    log_ratios = np.asarray(logdensities, np.float64) - np.asarray(log_probs, np.float64)
    log_envelope, _ = best_envelope(log_ratios, num_tries)
    return log_envelope


def matching_template(guide: Any, template: PyTree | None) -> PyTree:
    """The template, or a flat vector like the guide's where it is None; raises where the two do not fit."""
    draw = jax.eval_shape(guide.sample, jax.random.key(0))
    template = draw if template is None else as_position(template, "template")
    flat = jax.eval_shape(lambda position: ravel_pytree(position)[0], template)
    if (flat.shape, flat.dtype) != (draw.shape, draw.dtype):
        raise ValueError(
            f"guide.sample must return a flat vector like the template's, {flat.dtype}{list(flat.shape)}, "
            f"got {draw.dtype}{list(draw.shape)}"
        )
    return template


@functools.partial(program, static_argnames="num_draws")
def _heights(
    rng_key: Array, density: FlatDensity, sample: Callable, log_prob: Callable, num_draws: int
) -> tuple[Array, Array]:
    """Values of log π and log q at draws of the guide."""

    def one(key: Array) -> tuple[Array, Array]:
        x = sample(key)
        return density(x), log_prob(x)

    return jax.vmap(one)(jax.random.split(rng_key, num_draws))


def best_envelope(log_ratios: np.ndarray, num_tries: int, weights: np.ndarray | None = None) -> tuple[float, float]:
    r"""The log envelope with the greatest expected acceptance of a jump, and that acceptance.

    The search is within quantiles of ℓ under the target. A jump moves from x to y with density

    .. math:: \frac{1 - (1 - p)^K}{p}\, q(y) \min(1, e^{\ell(y)} / c) \min(1, w(y) / w(x)).

    Where ℓ(x) ≥ log c, the last three factors are q(y) min(1, e^{ℓ(y) − ℓ(x)}), whatever c is; the first grows with c.
    So with a share ε of the target below log c, no smaller envelope accepts more by more than ε. The quantile of
    ε is at least log Z + log ε, by Markov's inequality, however low the density falls where the target has no mass.

    Parameters
    ----------
    log_ratios
        ℓ at draws of the guide.
    num_tries
        K.
    weights
        Such that the sum of weights times f is the mean of f over the guide; by default 1/n.

    Returns
    -------
    log c and the probability that a jump from a draw of the target succeeds.
    """
    draws = _sorted(log_ratios, weights)
    if not np.isfinite(draws.log_ratios[-1]):
        raise ValueError(
            "the target's density is zero at every draw of the guide: fit the guide where the target has mass"
        )
    target_mass = draws.target_below[1:]
    low, high = draws.log_ratios[np.searchsorted(target_mass, np.array([LEAST_MASS, 1 - LEAST_MASS]) * target_mass[-1])]
    for _ in range(NUM_ROUNDS):
        grid = np.linspace(low, high, GRID_SIZE)
        acceptances = draws.acceptances(grid, num_tries)
        # Of values that are as good, the largest: it corrects at the fewest points.
        best = int(np.flatnonzero(acceptances >= acceptances.max() - 1e-6)[-1])
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, GRID_SIZE - 1)]
    return float(grid[best]), float(acceptances[best])


def jump_acceptance(
    log_ratios: np.ndarray,
    log_envelope: float,
    num_tries: int,
    weights: np.ndarray | None = None,
    shares: np.ndarray | None = None,
) -> Any:
    """Expected acceptance of a jump, from draws of the guide.

    Parameters
    ----------
    log_ratios
        ℓ at draws of the guide.
    log_envelope
        log c.
    num_tries
        K.
    weights
        Such that the sum of weights times f is the mean of f over the guide; by default 1/n.
    shares
        For each draw how much of it belongs to the mode from which the jump starts, (n,), or to each of several,
        (n, mode); by default all.

    Returns
    -------
    The probability that a jump from a draw of the target (in that mode, or in each) succeeds.
    """
    return _sorted(log_ratios, weights).acceptance(log_envelope, num_tries, shares)


class _Draws(NamedTuple):
    """Draws of the guide, n of them with ℓ ascending, and the sums that the acceptance of a jump is made of.

    With A_i = Σ_{j ≤ i} v_j e^ℓ_j and B_i = Σ_{j ≤ i} v_j, v the weights, and s draws below log c, a try passes with
    probability p = A_s / c + B_n − B_s. From a draw i ≤ s every candidate is accepted; from a later one those after it,
    and those before it with w*/w, (A_i e^{−ℓ_i} + B_n − B_i) / p in all. So log c decides s and p alone.

    Attributes
    ----------
    log_ratios
        ℓ.
    order
        Where the draws stood before.
    target
        v e^ℓ, the greatest e^ℓ being one.
    log_below
        log A, from −inf, shape (n + 1,).
    target_below, guide_below
        A, the greatest e^ℓ being one, and B, both from zero.
    from_later
        v (A + e^ℓ (B_n − B)): what a draw after s adds to the accepted, times p.
    """

    log_ratios: np.ndarray
    order: np.ndarray
    target: np.ndarray
    log_below: np.ndarray
    target_below: np.ndarray
    guide_below: np.ndarray
    from_later: np.ndarray

    def acceptance(self, log_envelope: float, num_tries: int, shares: np.ndarray | None = None) -> Any:
        """[1 − (1 − p)ᴷ] E min(1, w(θ*) / w(θ)), for all θ or for those of each column of shares."""
        number, passed = self._passed(log_envelope)
        accepted = np.where(np.arange(len(self.target)) < number, self.target, self.from_later / passed)
        shares = np.ones(len(accepted)) if shares is None else shares[self.order]
        return _found(passed, num_tries) * (accepted @ shares) / np.maximum(self.target @ shares, 1e-300)

    def acceptances(self, log_envelopes: np.ndarray, num_tries: int) -> np.ndarray:
        """The same of several log c, for all θ: one sum for all of them."""
        number, passed = self._passed(log_envelopes)
        after = np.append(np.cumsum(self.from_later[::-1])[::-1], 0.0)[number]
        accepted = self.target_below[number] + after / passed
        return _found(passed, num_tries) * accepted / np.maximum(self.target_below[-1], 1e-300)

    def _passed(self, log_envelopes: Any) -> tuple[Any, Any]:
        """The number s, and p."""
        number = np.searchsorted(self.log_ratios, log_envelopes)
        below = np.exp(self.log_below[number] - log_envelopes)
        return number, np.maximum(below + self.guide_below[-1] - self.guide_below[number], 1e-300)


def _found(passed: Any, num_tries: int) -> Any:
    """1 − (1 − p)ᴷ."""
    return -np.expm1(num_tries * np.log1p(-np.minimum(passed, 1 - 1e-12)))


def _sorted(log_ratios: np.ndarray, weights: np.ndarray | None) -> _Draws:
    """What is not a number, or infinite, counts as density zero."""
    values = np.asarray(log_ratios, np.float64)
    values = np.where(np.isnan(values) | (values == np.inf), -np.inf, values)
    order = np.argsort(values)
    weights = np.full(len(values), 1 / len(values)) if weights is None else weights[order]
    values = values[order]
    importance = np.exp(values - (values[-1] if np.isfinite(values[-1]) else 0.0))
    target = weights * importance
    with np.errstate(divide="ignore"):
        log_below = np.append(-np.inf, np.logaddexp.accumulate(np.log(weights) + values))
    target_below, guide_below = (np.append(0.0, np.cumsum(masses)) for masses in (target, weights))
    from_later = weights * (target_below[1:] + importance * (guide_below[-1] - guide_below[1:]))
    return _Draws(values, order, target, log_below, target_below, guide_below, from_later)
