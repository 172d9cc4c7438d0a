"""One labelling for draws of exchangeable components."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy

from vhmc_jax.diagnostics.draws import check_draws

MOST_ROUNDS = 20
"""Rounds of assignment. On the galaxies' three components four were enough."""


def relabel(draws: Mapping[str, Any], axes: Mapping[str, int], *, by: str | None = None) -> dict[str, np.ndarray]:
    """Permute the components of each draw so that all draws have one labelling.

    By default each draw is matched with the means of the components over all draws, by the permutation with the least
    sum of squares over all parameters, each in units of its standard deviation; then the means are taken again, until
    no draw changes. It starts from components in the order of the first parameter named. With ``by``, components are
    put in the order of that parameter and nothing more.

    Parameters
    ----------
    draws
        Arrays (chain, draw, ...) by name.
    axes
        For each parameter that has components, the axis along which they lie, counted after chain and draw: 0 for a
        vector of components. Parameters that are not named stay as they are.
    by
        A parameter with one number a component, by which to order them.

    Returns
    -------
    The draws by name, with permuted components.

    References
    ----------
    Stephens (2000), Dealing with label switching in mixture models, section 4, with squared distances.

    Examples
    --------
    >>> import numpy as np, vhmc_jax as vj
    >>> draws = {"mu": np.array([[[1.0, 5.0], [5.1, 0.9]]]), "sigma": np.array([[[0.2, 0.3], [0.3, 0.2]]])}
    >>> vj.diagnostics.relabel(draws, {"mu": 0, "sigma": 0})["mu"]
    array([[[1. , 5. ],
            [0.9, 5.1]]])
    """
    found = {name: np.asarray(values) for name, values in check_draws(dict(draws)).items()}
    parts = _components_first(found, axes)
    order = _start(parts, by)
    if by is None:
        order = _matched(parts, order)
    for name, axis in axes.items():
        shape = np.moveaxis(found[name], axis + 2, 2).shape
        found[name] = np.moveaxis(_taken(parts[name], order).reshape(shape), 2, axis + 2)
    return found


def _components_first(draws: dict[str, np.ndarray], axes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Each named parameter as (draw, component, number)."""
    if not axes:
        raise ValueError("axes must name at least one parameter with components, got none")
    parts = {}
    for name, axis in axes.items():
        if name not in draws:
            raise ValueError(f"axes must name parameters of draws, {sorted(draws)}, got {name!r}")
        rank = draws[name].ndim - 2
        if not 0 <= axis < rank:
            raise ValueError(
                f"axes[{name!r}] must be from 0 to {rank - 1}, got {axis} for shape {draws[name].shape[2:]}"
            )
        moved = np.moveaxis(draws[name], axis + 2, 2)
        parts[name] = moved.reshape(-1, moved.shape[2], int(np.prod(moved.shape[3:], dtype=int)))
    sizes = {name: part.shape[1] for name, part in parts.items()}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"all parameters must have as many components, got {sizes}")
    return parts


def _start(parts: dict[str, np.ndarray], by: str | None) -> np.ndarray:
    """Components in the order of one parameter, (draw, component)."""
    if by is None:
        return np.argsort(next(iter(parts.values()))[:, :, 0], axis=1)
    if by not in parts:
        raise ValueError(f"by must be a parameter of axes, {sorted(parts)}, got {by!r}")
    if parts[by].shape[2] != 1:
        raise ValueError(f"by must have one number a component, got {parts[by].shape[2]} in {by!r}")
    return np.argsort(parts[by][:, :, 0], axis=1)


def _matched(parts: dict[str, np.ndarray], order: np.ndarray) -> np.ndarray:
    """The order in which each draw is nearest to the means, where means and order agree."""
    x = np.concatenate([part / (_spread(part) or 1.0) for part in parts.values()], axis=2)
    for _ in range(MOST_ROUNDS):
        means = _taken(x, order).mean(axis=0)
        costs = ((x[:, None, :, :] - means[None, :, None, :]) ** 2).sum(axis=-1)  # (draw, place, component)
        new = np.stack([scipy.optimize.linear_sum_assignment(cost)[1] for cost in costs])
        if np.array_equal(new, order):
            break
        order = new
    return order


def _spread(part: np.ndarray) -> float:
    return float(np.std(part, dtype=np.float64))


def _taken(part: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Components (draw, component, number) in an order (draw, place)."""
    return np.take_along_axis(part, order[:, :, None], axis=1)
