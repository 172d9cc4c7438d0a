"""Modes that Laplace's Gaussians do not describe: draws around each, and one or several Gaussians fitted to them."""

from typing import NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax.base import Array
from vhmc_jax.density import FlatDensity
from vhmc_jax.diagnostics.ess import ess
from vhmc_jax.fit.components import Components, modes_at
from vhmc_jax.fit.em import fit_mixture
from vhmc_jax.fit.local_draws import LocalDraws, draw_locally
from vhmc_jax.fit.options import FitOptions
from vhmc_jax.fit.shrinkage import GaussianFit, fit_gaussian
from vhmc_jax.search import Modes


class LocalFit(NamedTuple):
    """Draws around some modes, and a Gaussian for each.

    Attributes
    ----------
    modes
        Numbers of the modes, shape (n,).
    draws
        From chains that started there.
    gaussians
        A fit for each mode.
    sizes
        Independent draws that those of each mode are worth.
    weights
        Of each draw, shape (n, draw): zero where it has left its mode.
    """

    modes: np.ndarray
    draws: LocalDraws
    gaussians: GaussianFit
    sizes: Array
    weights: Array

    @classmethod
    def of(
        cls,
        rng_key: Array,
        density: FlatDensity,
        flat_modes: Array,
        modes: Modes,
        numbers: np.ndarray,
        options: FitOptions,
    ) -> Self:
        """Draw around the modes of these numbers.

        Parameters
        ----------
        rng_key
            Key of the chains.
        density
            Log density of a flat vector.
        flat_modes
            All modes as rows.
        modes
            From ``find_modes``.
        numbers
            Which of them to draw around.
        options
            Numbers of chains, draws and warm-up iterations, and the acceptance of the chains.
        """
        # A power of two, so that other numbers of modes find a compiled program.
        padded = np.resize(numbers, 1 << (len(numbers) - 1).bit_length())
        some_modes, covariances = (jnp.asarray(np.asarray(array)[padded]) for array in (flat_modes, modes.covariances))
        draws = draw_locally(
            rng_key,
            density,
            some_modes,
            covariances,
            options.acceptance,
            num_chains=options.num_chains,
            num_draws=options.draws_per_chain,
            num_warmup=options.num_warmup,
        )
        labels = _labels(draws.positions, flat_modes, modes)
        belongs = labels == padded[:, None, None]
        return cls._fitted(padded, flat_modes, modes, draws, belongs)._replace(modes=numbers)

    @classmethod
    def of_pilot(cls, flat_modes: Array, modes: Modes, positions: Array, logdensities: Array) -> Self:
        """From draws of the whole target, flat (chain, draw, d): every mode has its share of them."""
        num_modes = len(flat_modes)
        labels = _labels(positions, flat_modes, modes)
        belongs = labels == np.arange(num_modes)[:, None, None]
        unknown = jnp.full(num_modes, jnp.nan)
        repeated = [jnp.broadcast_to(array, (num_modes, *array.shape)) for array in (positions, logdensities)]
        draws = LocalDraws(repeated[0], repeated[1], unknown, unknown, jnp.int32(0))
        return cls._fitted(np.arange(num_modes), flat_modes, modes, draws, belongs)

    @classmethod
    def _fitted(
        cls, numbers: np.ndarray, flat_modes: Array, modes: Modes, draws: LocalDraws, belongs: np.ndarray
    ) -> Self:
        weights = jnp.asarray(belongs, draws.positions.dtype).reshape(len(numbers), -1)
        sizes = _effective_sizes(draws, weights)
        flat_draws = draws.positions.reshape(*weights.shape, -1)
        gaussians = _fit_gaussians(flat_draws, flat_modes[numbers], _scale_trils(modes)[numbers], sizes, weights)
        return cls(numbers, *jax.tree.map(np.asarray, (draws, gaussians, sizes, weights)))

    def components(self, rng_key: Array, max_components: int) -> Components:
        """A Gaussian for each mode, or as many as held-out likelihood asks for."""
        parts = []
        for i, mode in enumerate(self.modes):
            gaussian = jax.tree.map(lambda leaf: leaf[i], self.gaussians)  # noqa: B023 - used at once
            if max_components == 1:
                parts.append((gaussian.mean[None], gaussian.scale_tril[None], [mode]))
                continue
            fit = fit_mixture(
                jax.random.fold_in(rng_key, mode),
                jnp.asarray(self.draws.positions[i].reshape(self.weights.shape[1], -1)),
                gaussian,
                effective_size=float(self.sizes[i]),
                weights=jnp.asarray(self.weights[i]),
                max_components=max_components,
            )
            parts.append((fit.mixture.means, fit.mixture.scale_trils, [mode] * fit.num_components))
        return Components(*(np.concatenate([np.asarray(a) for a in arrays]) for arrays in zip(*parts, strict=True)))

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences: what may be wrong with the fit."""
        num_draws, dim = self.weights.shape[1], self.draws.positions.shape[-1]
        if num_draws >= dim:
            return ()
        return (
            f"{num_draws} draws in {dim} dimensions: the shape of the fit is mostly that of the Hessian at the mode. "
            "Draw more for each mode (num_draws).",
        )


def _scale_trils(modes: Modes) -> Array:
    return jnp.asarray(np.linalg.cholesky(np.asarray(modes.covariances)))


def _labels(draws: Array, flat_modes: Array, modes: Modes) -> np.ndarray:
    """The mode in whose reach each draw of (..., d) lies."""
    rows = np.asarray(draws).reshape(-1, draws.shape[-1])
    return modes_at(rows, flat_modes, modes).reshape(draws.shape[:-1])


@jax.jit
def _fit_gaussians(draws: Array, modes: Array, scale_trils: Array, sizes: Array, weights: Array) -> GaussianFit:
    return jax.vmap(
        lambda draws, mode, scale, size, weights: fit_gaussian(draws, mode, scale, effective_size=size, weights=weights)
    )(draws, modes, scale_trils, sizes, weights)


def _effective_sizes(draws: LocalDraws, weights: Array) -> Array:
    """Independent draws that those of each mode are worth for a covariance, times the share that stayed.

    That is the effective size of the squares (a mean over coordinates) or of the log density, whichever is less: along
    trajectories the coordinates themselves may be anticorrelated, and worth more than the draws are for their spread.
    """
    num_modes, num_chains, num_draws, _ = draws.positions.shape
    total, dtype = num_chains * num_draws, draws.positions.dtype
    if num_draws < 8:
        sizes = np.full(num_modes, float(num_chains))
    else:
        squares = np.asarray(ess(jnp.moveaxis(draws.positions, 0, 2), kind="sd"))
        energies = np.asarray(ess(jnp.moveaxis(draws.logdensities, 0, 2), kind="mean"))
        sizes = np.nan_to_num(np.minimum(np.mean(squares, axis=-1), energies), nan=float(num_chains))
    return jnp.asarray(np.clip(sizes, 1.0, total) * np.maximum(np.mean(weights, axis=1), 1 / total), dtype)
