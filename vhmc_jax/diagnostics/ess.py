"""Effective sample size and Monte Carlo standard error, with Geyer's initial monotone sequence.

Notation: m split chains of n draws, W the mean variance within chains, B/n the variance of chain means,
ρ_t the autocorrelation at lag t of all chains taken together.
"""

import math
from collections.abc import Callable
from typing import Any, Literal

import jax
import numpy as np

from vhmc_jax.arguments import is_concrete
from vhmc_jax.diagnostics.autocorrelation import centre, spectrum
from vhmc_jax.diagnostics.draws import check_draws, host_or_compiled, map_blocks, namespace, smooth_length, split_chains
from vhmc_jax.diagnostics.ranks import map_components, normal_scores, quantiles

MIN_DRAWS = 4


def _geyer_times(rho: Any) -> Any:
    """Integrated autocorrelation times from ρ (component, lag): sums of pairs, made monotone, while positive."""
    xp = namespace(rho)
    last_pair = max((rho.shape[1] - 3) // 2, 0)
    even, odd = rho[:, 0 : 2 * last_pair + 1 : 2], rho[:, 1 : 2 * last_pair + 2 : 2]
    pairs = even + odd
    stops = pairs <= 0
    stop = xp.where(stops.any(axis=1), stops.argmax(axis=1), last_pair)[:, None]
    monotone = np.minimum.accumulate(pairs, axis=1) if xp is np else jax.lax.cummin(pairs, axis=1)
    total = xp.where(xp.arange(last_pair + 1) < stop, monotone, 0).sum(axis=1)
    # Where the sum stops, the even lag of the pair is still counted once. That lowers the variance of the estimate.
    last, last_even = (xp.take_along_axis(values, stop, axis=1)[:, 0] for values in (pairs, even))
    remainder = xp.where(last < 0, xp.maximum(last_even, 0), last_even)
    time = -1 + 2 * total + remainder
    return xp.where(xp.isfinite(rho).all(axis=1), time, xp.nan)


@host_or_compiled
def split_ess(x: Any) -> Any:
    """ESS of the mean of (chain, draw, ...), with chains split in half: (...)."""
    xp, event = namespace(x), x.shape[2:]
    if x.shape[1] < MIN_DRAWS:
        return xp.full(event, xp.nan, x.dtype)
    x = x.reshape(*x.shape[:2], -1)
    num_chains, num_draws = 2 * x.shape[0], x.shape[1] // 2
    length = smooth_length(2 * num_draws)
    origin = x[0, 0]

    def block(x: Any) -> tuple[Any, Any]:
        means, deviations = centre(split_chains(x - origin))
        return means, spectrum(deviations, length).mean(axis=0)

    means, powers = map_blocks(block, x)
    sums = xp.fft.irfft(powers.mean(axis=0), n=length, axis=-1)[:, :num_draws]
    covariance = sums / num_draws
    within = covariance[:, :1] * (num_draws / (num_draws - 1))
    between = means.reshape(num_chains, -1).var(axis=0, ddof=1)[:, None]
    total = covariance[:, :1] + between
    rho = xp.where(xp.arange(num_draws) == 0, 1, 1 - (within - covariance) / total)
    rho = xp.where(total > 0, rho, xp.nan)
    size = num_chains * num_draws
    # A bound for antithetic chains: a finite sample cannot show an ESS above size · log₁₀ size.
    time = xp.maximum(_geyer_times(rho), 1 / math.log10(size))
    return (size / time).reshape(event).astype(x.dtype)


def ess(
    draws: Any,
    kind: Literal["bulk", "tail", "mean", "sd"] = "bulk",
    *,
    function: Callable[[Any], Any] | None = None,
) -> Any:
    r"""Effective sample size of (chain, draw, ...) draws.

    .. math:: \mathrm{ESS} = \frac{mn}{-1 + 2\sum_k \hat P_k}, \quad
        \hat\rho_t = 1 - \frac{W - \frac1m\sum_c \hat\gamma_{t,c}}{\frac{n-1}{n}W + B/n},
        \quad \hat P_k = \hat\rho_{2k} + \hat\rho_{2k+1}

    Parameters
    ----------
    draws
        Pytree of (chain, draw, ...) arrays.
    kind
        ``"mean"``: of the mean. ``"sd"``: of the squared deviations. Both can be used inside ``jit``.
        ``"bulk"``: of the rank-normalised draws. ``"tail"``: of the indicators of the 5 % and the 95 % quantile,
        whichever is smaller. Both rank on the host and cannot be traced.
    function
        Function of one draw whose values take the place of the draws, for example an indicator
        ``lambda x: x[0] > 3`` with ``kind="mean"``.

    Returns
    -------
    Pytree of (...) arrays. NaN with fewer than four draws, for a component that is constant over all chains,
    and for one that is not finite; :func:`problems` says which.

    References
    ----------
    Geyer (1992), section 3.3; Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), equations 10-14.
    """
    draws = check_draws(draws)
    if function is not None:
        draws = check_draws(jax.jit(jax.vmap(jax.vmap(function)))(draws), "values of function")
    if kind == "mean":
        return jax.tree.map(split_ess, draws)
    if kind == "sd":
        return jax.tree.map(lambda x: split_ess(_squared_deviations(x)), draws)
    if kind not in ("bulk", "tail"):
        raise ValueError(f"kind must be 'bulk', 'tail', 'mean' or 'sd', got {kind!r}")
    if not is_concrete(draws):
        raise TypeError(f"kind={kind!r} ranks draws on the host and cannot be traced; use kind='mean' inside jit")
    per_component = _bulk_ess if kind == "bulk" else _tail_ess
    return jax.tree.map(lambda x: map_components(per_component, x), draws)


def _bulk_ess(x: np.ndarray) -> Any:
    """ESS of the normal scores of one component (chain, draw)."""
    if x.shape[1] < MIN_DRAWS:
        return split_ess(x)
    scores = normal_scores(split_chains(x))
    # The scores are split already. Their halves are joined again, since split_ess will cut them at the same place.
    return split_ess(np.concatenate(np.split(scores, 2), axis=1))


def _tail_ess(x: np.ndarray) -> Any:
    """Smaller ESS of the indicators of one component (chain, draw) below its 5 % and 95 % quantiles."""
    low, high = quantiles(x, (0.05, 0.95))
    if not np.isfinite(x).all():
        return np.full((), np.nan, x.dtype)
    indicators = np.stack([x <= low, x <= high], axis=-1).astype(x.dtype)
    return split_ess(indicators).min()


def _squared_deviations(x: Any) -> Any:
    """(x − mean over all chains)²."""
    deviations = x - x[:1, :1]
    return (deviations - deviations.mean(axis=(0, 1))) ** 2


def mcse(draws: Any, kind: Literal["mean", "sd"] = "mean") -> Any:
    r"""Monte Carlo standard error of the mean or of the standard deviation; jit-able.

    .. math:: \mathrm{se}(\bar x) = \hat\sigma / \sqrt{\mathrm{ESS}}, \qquad
        \mathrm{se}(\hat\sigma)^2 = \mathrm{var}(y) / (4 \hat\sigma^2 \mathrm{ESS}_y), \; y = (x - \bar x)^2

    Parameters
    ----------
    draws
        Pytree of (chain, draw, ...) arrays.
    kind
        What the error is of: ``"mean"`` or ``"sd"``.

    Returns
    -------
    Pytree of (...) arrays, NaN where :func:`ess` is.
    """
    if kind not in ("mean", "sd"):
        raise ValueError(f"kind must be 'mean' or 'sd', got {kind!r}")
    return jax.tree.map(_mcse_mean if kind == "mean" else _mcse_sd, check_draws(draws))


@host_or_compiled
def _mcse_mean(x: Any) -> Any:
    size = x.shape[0] * x.shape[1]
    variance = _squared_deviations(x).mean(axis=(0, 1)) * (size / max(size - 1, 1))
    return (variance / split_ess(x)) ** 0.5


@host_or_compiled
def _mcse_sd(x: Any) -> Any:
    squares = _squared_deviations(x)
    variance = squares.mean(axis=(0, 1))
    return (squares.var(axis=(0, 1)) / split_ess(squares) / variance / 4) ** 0.5
