"""Where modes lie: what the parameters are in each of them."""

from typing import Any, NamedTuple

import numpy as np

from vhmc_jax.diagnostics.draws import check_draws, named_components


class Locations(NamedTuple):
    """Values of the parameters in each mode, by the draws that belong to it.

    Attributes
    ----------
    names
        Names of the parameters' components, such as ``"mu[2]"``.
    means, sds
        Means and standard deviations, (mode, component); NaN for a mode without draws.
    """

    names: tuple[str, ...]
    means: np.ndarray
    sds: np.ndarray


def locate(draws: Any, labels: np.ndarray, num_modes: int) -> Locations:
    """Where each mode lies.

    Parameters
    ----------
    draws
        Pytree of (chain, draw, ...) arrays.
    labels
        Mode of each draw, (chain, draw); −1 for none.
    num_modes
        Number of modes.

    Returns
    -------
    The values of each component.
    """
    components = named_components(check_draws(draws))
    mode = np.ravel(labels)
    has_mode = mode >= 0
    counts = np.bincount(mode[has_mode], minlength=num_modes)
    means, sds = [], []
    for values in components.values():
        x = np.ravel(values).astype(np.float64)[has_mode]
        with np.errstate(invalid="ignore"):  # no draws, or draws that are not finite
            mean = np.bincount(mode[has_mode], x, minlength=num_modes) / counts
            deviations = (x - mean[mode[has_mode]]) ** 2
            sds.append(np.sqrt(np.bincount(mode[has_mode], deviations, minlength=num_modes) / counts))
        means.append(mean)
    return Locations(tuple(components), np.stack(means, axis=1), np.stack(sds, axis=1))
