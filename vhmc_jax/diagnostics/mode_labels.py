"""Which mode each draw belongs to: by a guide's responsibilities, by centres with covariances, or as told."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vhmc_jax.base import as_pytree_function
from vhmc_jax.diagnostics.draws import flatten_draws, map_draws

# Draws of a Gaussian mode lie this many standard deviations out, on a normal scale, once in 10^9.
FAR = 6.0


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

    responsibilities: Array
    labels: np.ndarray
    far_share: float


def modes_of_components(draws: Any, guide: Any, mode_of: Sequence[int] | None) -> np.ndarray:
    """Mode of each component of a guide, −1 for one that belongs to none (a wide defensive one).

    By default what the guide says itself, if it has a field ``mode_of``, and otherwise a mode a component.
    """
    if not hasattr(guide, "responsibilities"):
        raise TypeError(
            f"guide must have responsibilities(x), got {type(guide).__name__}; "
            "for another kind of guide give centres and covariances, or labels"
        )
    num_components = getattr(guide, "num_components", None)
    if num_components is None:
        point = jax.eval_shape(lambda x: flatten_draws(x)[0, 0], draws)
        num_components = jax.eval_shape(guide.responsibilities, point).shape[0]
    own = getattr(guide, "mode_of", None)
    modes = np.asarray(next((m for m in (mode_of, own) if m is not None), range(num_components)))
    if modes.shape != (num_components,) or modes.dtype.kind not in "iu" or modes.max(initial=-1) < 0:
        raise ValueError(f"mode_of must name a mode for each of {num_components} components, got {modes}")
    return modes


def labels_from_guide(draws: Any, guide: Any, mode_of: np.ndarray) -> ModeLabels:
    """Modes by the responsibilities of a guide, those of components of one mode summed.

    Parameters
    ----------
    draws
        Pytree of (chain, draw, ...) arrays.
    guide
        Object with ``responsibilities(x)`` for a flat vector x. Where it also has ``means`` and
        ``scale_trils``, the draws far from every component are counted.
    mode_of
        Mode of each component, from :func:`modes_of_components`.
    """
    x = flatten_draws(draws)
    membership = (mode_of[:, None] == np.arange(mode_of.max() + 1)).astype(x.dtype)
    shares = map_draws(as_pytree_function(guide.responsibilities), x, len(mode_of))
    shares = np.asarray(shares, x.dtype) @ membership  # in NumPy: what JAX does once, it compiles
    total = shares.sum(axis=-1, keepdims=True)
    shares = shares / np.where(total > 0, total, 1)
    if hasattr(guide, "means") and hasattr(guide, "scale_trils"):
        proper = mode_of >= 0
        means, scales = np.asarray(guide.means), np.asarray(guide.scale_trils)
        far_share = _far_share(x, means[proper], scales[proper])
    else:
        far_share = np.nan
    return _labelled(shares, far_share)


def labels_from_centres(draws: Any, centres: Any, covariances: Any) -> ModeLabels:
    """Modes as the Gaussian N(centre, covariance) of greatest density, all weights equal.

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
    centres = flatten_draws(jax.tree.map(lambda c: jnp.asarray(c, x.dtype), centres), num_leading=1)
    covariances = jnp.asarray(covariances, x.dtype)
    k, d = centres.shape
    if d != x.shape[-1] or covariances.shape != (k, d, d):
        raise ValueError(
            f"expected centres (k, {x.shape[-1]}) and covariances (k, {x.shape[-1]}, {x.shape[-1]}), "
            f"got {centres.shape} and {covariances.shape}"
        )
    scale_trils = jnp.linalg.cholesky(covariances)
    if not bool(jnp.all(jnp.isfinite(scale_trils))):
        raise ValueError("covariances must be positive definite")
    log_dets = jnp.sum(jnp.log(jnp.diagonal(scale_trils, axis1=1, axis2=2)), axis=1)
    distances = map_draws(jax.tree_util.Partial(_squared_distances, centres, scale_trils), x, k)
    nearest = jnp.argmin(distances / 2 + log_dets, axis=-1)
    shares = jnp.where(jnp.isfinite(distances), jax.nn.one_hot(nearest, k, dtype=x.dtype), 0)
    return _labelled(shares, _far_share(x, centres, scale_trils))


def labels_as_given(labels: Any, num_modes: int | None) -> ModeLabels:
    """Modes as the user labels them: integers (chain, draw), −1 for none."""
    labels = np.asarray(labels)
    if labels.ndim != 2 or labels.dtype.kind not in "iu" or 0 in labels.shape:
        raise ValueError(f"labels must be integers (chain, draw), got {labels.dtype} of shape {labels.shape}")
    num_modes = int(labels.max()) + 1 if num_modes is None else num_modes
    if labels.min() < -1 or labels.max() >= num_modes or num_modes < 1:
        raise ValueError(f"labels must lie in -1, ..., {num_modes - 1}, got {labels.min()} to {labels.max()}")
    shares = jax.nn.one_hot(labels, num_modes, dtype=jnp.result_type(float))
    return ModeLabels(shares, labels.astype(np.int32), np.nan)


def _labelled(shares: Any, far_share: float) -> ModeLabels:
    """Most probable mode of each draw; a draw without finite shares belongs to none."""
    shares = np.asarray(shares)
    total = shares.sum(axis=-1)
    valid = np.isfinite(total) & (total > 0)
    shares = np.where(valid[..., None], shares, 0).astype(shares.dtype)
    labels = np.where(valid, np.argmax(shares, axis=-1), -1)
    return ModeLabels(jnp.asarray(shares), labels.astype(np.int32), far_share)


@jax.jit
def _squared_distances(means: Array, scale_trils: Array, x: Array) -> Array:
    """|L_k⁻¹ (x − m_k)|² for each k, with L_k a matrix, its diagonal, or a multiple of the identity."""
    difference = x - means
    if scale_trils.ndim == 3:
        white = jax.scipy.linalg.solve_triangular(scale_trils, difference[..., None], lower=True)[..., 0]
    else:
        white = difference / scale_trils.reshape(len(means), -1)
    return jnp.sum(white**2, axis=-1)


def _far_share(x: Array, means: Any, scale_trils: Any) -> float:
    """Share of draws beyond the quantile of χ²_d at ``FAR`` (Wilson & Hilferty's formula) from every mode."""
    means, scale_trils = jnp.asarray(means, x.dtype), jnp.asarray(scale_trils, x.dtype)
    d = x.shape[-1]
    radius = d * (1 - 2 / (9 * d) + FAR * (2 / (9 * d)) ** 0.5) ** 3
    distances = map_draws(jax.tree_util.Partial(_squared_distances, means, scale_trils), x, len(means))
    return float(np.mean(np.min(np.asarray(distances), axis=-1) > radius))
