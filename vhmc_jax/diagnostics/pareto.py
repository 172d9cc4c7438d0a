"""Pareto-k: how heavy the tail of importance weights is, hence how far a mean over them can be trusted."""

from typing import Any

import numpy as np

MIN_TAIL = 5
ROUNDING = 1e-12
"""Log weights that differ by less count as equal. A guide that is the target itself then has no tail."""


HIGH_PARETO_K = 0.7
"""Above it the importance weights have no variance that a sample could show: the guide's tails are too light."""
LEAST_LOG = -600.0
"""Log weights so far below the greatest count as nothing. Exceedances near exp(-700) would overflow when inverted."""


def pareto_k(log_weights: Any) -> float:
    r"""Shape k of the generalised Pareto distribution fitted to the largest importance weights.

    The tail is the largest min(S/5, 3√S) of S weights. The weights have moments of order below 1/k. So with k < 0.5
    their variance is finite. With k up to 0.7 their mean converges at a useful rate. With k above 1 they have no mean.

    Parameters
    ----------
    log_weights
        Logarithms of the weights, up to a constant; any shape.

    Returns
    -------
    k, or NaN where fewer than five weights stand above the rest (as when all are equal) or one is not finite.

    References
    ----------
    Vehtari, Simpson, Gelman, Yao & Gabry (2024), section 3; Zhang & Stephens (2009), section 3.
    """
    x = np.sort(np.asarray(log_weights, np.float64).ravel())
    if x.size < 2 or not np.isfinite(x[-1]):  # NaN sorts last
        return float("nan")
    x = x - x[-1]
    tail_size = int(np.ceil(min(x.size / 5, 3 * np.sqrt(x.size))))
    cutoff = max(x[-tail_size - 1], LEAST_LOG)
    tail = x[x > cutoff + ROUNDING]
    if tail.size < MIN_TAIL:
        return float("nan")
    shape, _ = fit_generalised_pareto(np.exp(tail) - np.exp(cutoff))
    return shape


def fit_generalised_pareto(exceedances: np.ndarray) -> tuple[float, float]:
    r"""Shape k and scale σ of a generalised Pareto distribution by Zhang & Stephens' quasi-Bayesian estimate.

    .. math:: f(x) = \sigma^{-1} (1 + k x / \sigma)^{-1/k - 1}

    In terms of b = −k/σ the profile likelihood has one parameter, since the best k for b is mean log(1 − b x). The
    estimate of b is the mean over a grid of values, weighted by likelihood and a weak prior. Then k is shrunk toward ½,
    as if ten more observations had been seen there.

    Parameters
    ----------
    exceedances
        Positive values in ascending order, at least ``MIN_TAIL``.

    Returns
    -------
    k and σ.
    """
    n = exceedances.size
    grid_size = 30 + int(np.sqrt(n))
    quartile = exceedances[int(n / 4 + 0.5) - 1]
    b = 1 / exceedances[-1] + (1 - np.sqrt(grid_size / (np.arange(grid_size) + 0.5))) / (3 * quartile)
    k = np.log1p(-b[:, None] * exceedances).mean(axis=1)
    log_likelihood = n * (np.log(-b / k) - k - 1)
    weights = np.exp(log_likelihood - log_likelihood.max())
    b_mean = np.sum(b * weights) / weights.sum()
    k_mean = np.log1p(-b_mean * exceedances).mean()
    return float((n * k_mean + 5) / (n + 10)), float(-k_mean / b_mean)
