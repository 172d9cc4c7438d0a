"""Which mode each draw belongs to: by a guide's responsibilities, by centres with covariances, or as labelled."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from vhmc_jax.base import as_pytree_function
from vhmc_jax.diagnostics.draws import flatten_draws, map_draws
from vhmc_jax.guide import HasComponents, Mixture
from vhmc_jax.guide.distances import squared_distances
from vhmc_jax.guide.host import GuideValues, log_sum_and_shares

FAR = 1e-9
"""Probability that a draw of a Gaussian mode counts as far from that mode."""


class ModeLabels(NamedTuple):
    """Draws seen as modes.

    Attributes
    ----------
    responsibilities
        Probability of each mode at each draw, (chain, draw, mode); zero for a draw that belongs to none.
    labels
        The most probable mode, (chain, draw), or −1 for a draw that belongs to none.
    far_share
        Share of draws far from every mode; NaN where the modes' locations and spreads are not known.
    """

    responsibilities: np.ndarray
    labels: np.ndarray
    far_share: float


def modes_of_components(draws: Any, guide: Any, mode_of: Sequence[int] | None) -> np.ndarray:
    """Mode of each component of a guide, −1 for one that belongs to none (a wide defensive one).

    By default every component is a mode.
    """
    if not isinstance(guide, HasComponents):
        raise TypeError(
            f"guide must have component_log_probs(x), got {type(guide).__name__}; "
            "for another kind of guide give centres and covariances, or labels"
        )
    point = jax.eval_shape(lambda x: flatten_draws(x)[0, 0], draws)
    num_components = jax.eval_shape(guide.component_log_probs, point).shape[0]
    modes = np.asarray(range(num_components) if mode_of is None else mode_of)
    if modes.shape != (num_components,) or modes.dtype.kind not in "iu" or modes.max(initial=-1) < 0:
        raise ValueError(f"mode_of must name a mode for each of {num_components} components, got {modes}")
    return modes


def labels_from_guide(draws: Any, guide: Any, mode_of: np.ndarray, values: GuideValues | None = None) -> ModeLabels:
    """Modes by the responsibilities of a guide, those of components of one mode summed.

    Parameters
    ----------
    draws
        Pytree of (chain, draw, ...) arrays.
    guide
        A guide with components. Draws far from every component are counted where it is a mixture of this package.
    mode_of
        Mode of each component, from :func:`modes_of_components`.
    values
        The values of a mixture of this package at the draws, where they have been computed before.
    """
    x = flatten_draws(draws)
    if (values := values_at(x, guide, values)) is not None:
        shares = values.shares
        far_share = _far_share(values.squared[:, mode_of >= 0], x.shape[-1])
    else:
        log_probs = map_draws(as_pytree_function(guide.component_log_probs), x, len(mode_of))
        _, shares = log_sum_and_shares(_rows(log_probs).astype(np.float64))
        far_share = np.nan
    _, shares = shares_of_modes(shares, mode_of)
    return _labelled(shares.reshape(*x.shape[:2], -1).astype(x.dtype), far_share)


def values_at(x: Any, guide: Any, given: GuideValues | None = None) -> GuideValues | None:
    """Values of a mixture of this package at flat draws (chain, draw, d), given or computed; None for other guides."""
    if not isinstance(guide, Mixture):
        if given is not None:
            raise TypeError(f"guide_values are for a mixture of this package, got a {type(guide).__name__}")
        return None
    if given is None:
        return guide.on_host().at(_rows(x))
    if given.shares.shape != (size := x.shape[0] * x.shape[1], guide.num_components):
        raise ValueError(
            f"guide_values must be of {guide.num_components} components at {size} draws, got {given.shares.shape}"
        )
    return given


def _rows(x: Any) -> np.ndarray:
    """(chain, draw, d) on the host as (chain · draw, d)."""
    return np.asarray(x).reshape(-1, x.shape[-1])


def shares_of_modes(shares: np.ndarray, mode_of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shares of components, (n, component) or (component,), summed over those of each mode, (n, mode) or (mode,).

    Returns
    -------
    The sums; and the sums scaled to a total of one, so that components without a mode do not count. Where all sums are
    zero, so are these.
    """
    # The transposes keep the shares of a mode together in memory, as those of a component are.
    own = ((np.arange(mode_of.max() + 1)[:, None] == mode_of).astype(shares.dtype) @ shares.T).T
    total = own.sum(axis=-1, keepdims=True)
    return own, own / np.where(total > 0, total, 1)


def labels_from_centres(draws: Any, centres: Any, covariances: Any) -> ModeLabels:
    """The mode of a draw is the Gaussian N(centre, covariance) with the greatest density there, all weights equal.

    Parameters
    ----------
    draws
        Pytree of (chain, draw, ...) arrays.
    centres
        Pytree like one draw with a leading axis of modes, (mode, ...).
    covariances
        (mode, d, d), in the order of ``ravel_pytree``.
    """
    x = flatten_draws(draws)
    centres = np.asarray(flatten_draws(jax.tree.map(np.asarray, centres), num_leading=1), np.float64)
    covariances = np.asarray(covariances, np.float64)
    k, d = centres.shape
    if d != x.shape[-1] or covariances.shape != (k, d, d):
        raise ValueError(
            f"expected centres (k, {x.shape[-1]}) and covariances (k, {x.shape[-1]}, {x.shape[-1]}), "
            f"got {centres.shape} and {covariances.shape}"
        )
    try:
        scale_trils = np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError:
        raise ValueError("covariances must be positive definite") from None
    if not np.all(np.isfinite(scale_trils)):
        raise ValueError("covariances must be positive definite, got some that are not finite")
    log_dets = np.log(np.diagonal(scale_trils, axis1=1, axis2=2)).sum(axis=1)
    squared = squared_distances(_rows(x), centres, np.linalg.inv(scale_trils))
    shares = np.eye(k, dtype=x.dtype)[np.argmin(squared / 2 + log_dets, axis=1)]
    shares = np.where(np.isfinite(squared), shares, 0).reshape(*x.shape[:2], k)
    return _labelled(shares, _far_share(squared, d))


def labels_as_given(labels: Any, num_modes: int | None) -> ModeLabels:
    """Modes as the user labels them: integers (chain, draw), −1 for none."""
    labels = np.asarray(labels)
    if labels.ndim != 2 or labels.dtype.kind not in "iu" or 0 in labels.shape:
        raise ValueError(f"labels must be integers (chain, draw), got {labels.dtype} of shape {labels.shape}")
    num_modes = int(labels.max()) + 1 if num_modes is None else num_modes
    if labels.min() < -1 or labels.max() >= num_modes or num_modes < 1:
        raise ValueError(f"labels must lie in -1, ..., {num_modes - 1}, got {labels.min()} to {labels.max()}")
    shares = (labels[..., None] == np.arange(num_modes)).astype(jnp.result_type(float))
    return ModeLabels(shares, labels.astype(np.int32), np.nan)


def _labelled(shares: Any, far_share: float) -> ModeLabels:
    """Most probable mode of each draw; a draw without finite shares belongs to none."""
    shares = np.asarray(shares)
    total = shares.sum(axis=-1)
    valid = np.isfinite(total) & (total > 0)
    shares = np.where(valid[..., None], shares, 0).astype(shares.dtype)
    labels = np.where(valid, np.argmax(shares, axis=-1), -1)
    return ModeLabels(shares, labels.astype(np.int32), far_share)


def _far_share(squared: np.ndarray, dim: int) -> float:
    """Share of draws farther from every mode than a draw of a Gaussian is once in 10⁹."""
    return float(np.mean(squared.min(axis=1) > scipy.special.chdtri(dim, FAR)))
