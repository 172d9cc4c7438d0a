"""Bayesian logistic regression as a target.

Notation: X the design matrix, rows xᵢ; y labels in {0, 1}, s = 2y − 1; θ the coefficients, with prior N(0, P⁻¹), P
diagonal; σ(z) = 1/(1 + e⁻ᶻ). log π(θ) = Σ log σ(sᵢ xᵢᵀθ) − ½ θᵀPθ.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax.base import Array


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True, eq=False)
class LogisticRegressionTarget:
    r"""The posterior of logistic regression with a Gaussian prior, up to its normalising constant.

    .. math:: \log\pi(\theta) = \sum_i \log\sigma(s_i x_i^\top\theta) - \tfrac12 \sum_j \theta_j^2 / v_j

    Made by ``logistic_regression``, which checks the data. Numbers are kept in NumPy's double precision; densities are
    computed in the dtype of the position. There are no exact draws; ``targets.vblr`` has approximations.

    Attributes
    ----------
    design
        X, shape (n, d), its column of ones for the intercept, if any, first.
    labels
        y, shape (n,), zeros and ones.
    prior_variance
        v, shape (d,).
    """

    design: Any
    labels: Any
    prior_variance: Any

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        """Everything is a leaf: data are arguments of a compiled program."""
        return (self.design, self.labels, self.prior_variance), None

    @classmethod
    def tree_unflatten(cls, _: None, leaves: tuple[Any, ...]) -> "LogisticRegressionTarget":
        """Rebuild; the leaves may be tracers."""
        return cls(*leaves)

    @property
    def dim(self) -> int:
        """Dimension d: the number of coefficients, the intercept included."""
        return self.design.shape[1]

    def logdensity(self, x: Array) -> Array:
        """Log density of the coefficients, up to a constant; computed in the dtype of x."""
        design, labels, variance = (jnp.asarray(a, x.dtype) for a in (self.design, self.labels, self.prior_variance))
        logits = (2 * labels - 1) * jnp.matmul(design, x, precision="highest")
        return -jnp.sum(jax.nn.softplus(-logits)) - 0.5 * jnp.sum(x**2 / variance)


def logistic_regression(
    features: Any,
    labels: Any,
    *,
    prior_variance: Any = 100.0,
    intercept: bool = True,
    names: Sequence[str] | None = None,
) -> LogisticRegressionTarget:
    """Bayesian logistic regression on checked data.

    Parameters
    ----------
    features
        Shape (n, k), one row an example. Standardise them where one prior is to fit all.
    labels
        Shape (n,), zeros and ones.
    prior_variance
        Of the coefficients, which have mean zero: a positive scalar, or one for each, the intercept's first.
    intercept
        Whether to put a column of ones before the features.
    names
        Names of the features, for messages.

    Returns
    -------
    The target, of k coefficients, or k + 1 with an intercept.

    Raises
    ------
    ValueError
        Where a column holds a number that is not finite or is constant, or labels are not zeros and ones.

    Warns
    -----
    UserWarning
        Where columns are collinear: the data say nothing of some direction, and the prior alone decides.
    """
    features, labels = np.asarray(features, np.float64), np.asarray(labels)
    if features.ndim != 2 or 0 in features.shape:
        raise ValueError(f"features must have shape (n, k) with n, k >= 1, got {features.shape}")
    if names is not None and len(names) != features.shape[1]:
        raise ValueError(f"names must be one for each of the {features.shape[1]} columns, got {len(names)}")
    if labels.shape != (len(features),):
        raise ValueError(f"labels must have shape {(len(features),)}, one for each row of features, got {labels.shape}")
    outside = labels[~np.isin(labels, (0, 1))]
    if outside.size:
        raise ValueError(f"labels must be 0 or 1, got {np.unique(outside.astype(str))[:3].tolist()}")

    def described(columns: Sequence[int]) -> str:
        listed = ", ".join(f"{j}" if names is None else f"{j} ({names[j]!r})" for j in columns)
        return f"column {listed}" if len(columns) == 1 else f"columns {listed}"

    if bad := np.flatnonzero(~np.all(np.isfinite(features), axis=0)).tolist():
        raise ValueError(f"features must be finite, got NaN or infinity in {described(bad)}")
    if bad := np.flatnonzero(np.ptp(features, axis=0) == 0).tolist():
        raise ValueError(
            f"features must vary, got a constant in {described(bad)}; the intercept is added by intercept=True"
        )
    if dependent := _dependent_columns(features, intercept):
        warnings.warn(
            f"features are collinear: {described(dependent)} can be had from those before (and the intercept); "
            "the prior alone tells their coefficients apart",
            UserWarning,
            stacklevel=2,
        )
    design = np.column_stack([np.ones(len(features)), features]) if intercept else features
    variance = np.asarray(prior_variance, np.float64)
    if variance.shape not in ((), (design.shape[1],)) or not np.all((variance > 0) & np.isfinite(variance)):
        raise ValueError(
            f"prior_variance must be a positive scalar or {design.shape[1]} positive numbers, one for each "
            f"coefficient, got {prior_variance}"
        )
    return LogisticRegressionTarget(
        design, labels.astype(np.float64), np.broadcast_to(variance, (design.shape[1],)).copy()
    )


def _dependent_columns(features: np.ndarray, intercept: bool) -> list[int]:
    """Columns that are linear combinations of those before them, by Gram and Schmidt, to rounding."""
    basis = np.ones((1, len(features))) / np.sqrt(len(features)) if intercept else np.zeros((0, len(features)))
    dependent = []
    for j, column in enumerate(features.T):
        rest = column / np.max(np.abs(column))
        norm = np.linalg.norm(rest)
        for _ in range(2):  # twice is enough: the second pass removes what rounding left
            rest = rest - basis.T @ (basis @ rest)
        if np.linalg.norm(rest) <= 1e-8 * norm:
            dependent.append(j)
        else:
            basis = np.vstack([basis, rest / np.linalg.norm(rest)])
    return dependent
