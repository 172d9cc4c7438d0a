"""A mixture and its images under a group of signed permutations: a guide that has the symmetries of its target."""

import dataclasses

import numpy as np

from vhmc_jax.guide.mixture import Mixture


def symmetrised(mixture: Mixture, indices: np.ndarray, signs: np.ndarray) -> Mixture:
    """A mixture of all different images of each component, which share its weight.

    Parameters
    ----------
    mixture
        A mixture of ours, not traced.
    indices, signs
        Shapes (n, d), as ``Symmetries.elements`` gives them: element i maps x to ``signs[i] * x[indices[i]]``.

    Returns
    -------
    A mixture of the same kind with up to n times as many components; the images of a component follow one another.
    """
    indices, signs = np.asarray(indices), np.asarray(signs, np.float64)
    if indices.ndim != 2 or indices.shape[1] != mixture.dim or signs.shape != indices.shape:
        raise ValueError(f"indices and signs must have shape (n, {mixture.dim}), got {indices.shape} and {signs.shape}")
    columns: dict[str, list[np.ndarray]] = {field.name: [] for field in dataclasses.fields(mixture)}
    for number in range(mixture.num_components):
        component = {name: np.asarray(getattr(mixture, name)[number], np.float64) for name in columns}
        means = signs * component["means"][indices]
        scale_trils = _lower_factors(signs[:, :, None] * component["scale_trils"][indices])
        kept = _different(means, scale_trils)
        images = component | {
            "log_weights": component["log_weights"] - np.log(len(kept)),
            "means": means[kept],
            "scale_trils": scale_trils[kept],
        }
        for name, values in images.items():
            columns[name].append(values if np.ndim(values) else np.full(len(kept), values))
    arrays = {name: np.concatenate(values).astype(mixture.means.dtype) for name, values in columns.items()}
    return dataclasses.replace(mixture, **arrays)


def _lower_factors(factors: np.ndarray) -> np.ndarray:
    """The Cholesky factors of F Fᵀ, shape (n, d, d), by QR: F Fᵀ itself would lose half of the digits."""
    lower = np.swapaxes(np.linalg.qr(np.swapaxes(factors, 1, 2), mode="r"), 1, 2)
    return lower * np.sign(np.diagonal(lower, axis1=1, axis2=2))[:, None, :]


def _different(means: np.ndarray, scale_trils: np.ndarray) -> np.ndarray:
    """Numbers of images that are not the same as an earlier one, in order."""
    scale = np.max(np.abs(scale_trils))
    rows = np.concatenate([means, scale_trils.reshape(len(means), -1)], axis=1) / scale
    _, first = np.unique(np.round(rows, 5) + 0.0, axis=0, return_index=True)
    return np.sort(first)
