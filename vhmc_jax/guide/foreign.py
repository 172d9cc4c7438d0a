"""Guides of other libraries, and how NumPy asks any guide for draws and densities.

A flow of flowjax is a pytree with functions among its leaves, which no compiled program takes. A distribution of
distrax or of TensorFlow Probability takes its key by the name ``seed``. Both become guides here: their arrays are
arguments of compiled programs, and the rest is a constant.
"""

import functools
import inspect
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.tree_util import Partial

from vhmc_jax.base import Array, as_pytree_function
from vhmc_jax.guide.protocol import OnHost, require_guide
from vhmc_jax.programs import program

BATCH_SIZE = 4096
"""Points at which the density is evaluated at once: a flow needs some kilobytes for each."""


def as_guide(guide: Any) -> Any:
    """A guide as kernels take it: one of another library is wrapped, and any other stays as it is.

    Parameters
    ----------
    guide
        An object with ``sample(rng_key)`` or ``sample(seed=rng_key)``, and ``log_prob(x)``, on flat vectors.

    Returns
    -------
    The guide. Raises where it is none.
    """
    require_guide(guide)
    leaves, structure = jax.tree.flatten(guide)
    is_array = tuple(isinstance(leaf, Array | np.ndarray) for leaf in leaves)
    is_plain = all(is_array) or (len(leaves) == 1 and leaves[0] is guide)
    if is_plain and not _takes_seed(guide):
        return guide
    arrays = tuple(leaf for leaf, array in zip(leaves, is_array, strict=True) if array)
    rest = tuple(leaf for leaf, array in zip(leaves, is_array, strict=True) if not array)
    return Foreign(arrays, Skeleton(structure, rest, is_array))


def host_of(guide: Any) -> Any:
    """A guide at many points: its own way by NumPy where it has one, else JAX's.

    Parameters
    ----------
    guide
        A guide.

    Returns
    -------
    An object with ``sample(generator, n)``, draws (n, d), and ``at(x)``, which has a ``log_prob`` (n,).
    """
    return guide.on_host() if isinstance(guide, OnHost) else Host(guide)


def _takes_seed(guide: Any) -> bool:
    """Whether the key of ``sample`` is called seed, as in distrax and in TensorFlow Probability."""
    return "seed" in inspect.signature(guide.sample).parameters


class Skeleton:
    """What of an object is no array. Two are the same where the parts are the same objects.

    Parameters
    ----------
    structure
        How the leaves are nested.
    rest
        The leaves that are no arrays.
    is_array
        Which leaves are arrays.
    """

    def __init__(self, structure: Any, rest: tuple[Any, ...], is_array: tuple[bool, ...]):
        self._structure, self._rest, self._is_array = structure, rest, is_array

    def filled(self, arrays: tuple[Any, ...]) -> Any:
        """The object with these arrays."""
        given, rest = iter(arrays), iter(self._rest)
        return jax.tree.unflatten(self._structure, [next(given if array else rest) for array in self._is_array])

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Skeleton)
            and self._is_array == other._is_array
            and all(a is b for a, b in zip(self._rest, other._rest, strict=True))
            and self._structure == other._structure
        )

    def __hash__(self) -> int:
        return hash((self._is_array, tuple(map(id, self._rest))))


@functools.partial(jax.tree_util.register_dataclass, data_fields=["arrays"], meta_fields=["skeleton"])
@dataclass(frozen=True)
class Foreign:
    """A distribution of another library as a guide.

    Attributes
    ----------
    arrays
        Its arrays.
    skeleton
        Everything else.
    """

    arrays: tuple[Any, ...]
    skeleton: Skeleton

    def sample(self, rng_key: Array) -> Array:
        """One draw, a flat vector."""
        guide = self.skeleton.filled(self.arrays)
        return guide.sample(seed=rng_key) if _takes_seed(guide) else guide.sample(rng_key)

    def log_prob(self, x: Array) -> Array:
        """Log density at a flat vector."""
        return self.skeleton.filled(self.arrays).log_prob(x)


class HostValues(NamedTuple):
    """A guide at n points.

    Attributes
    ----------
    log_prob
        Log density, shape (n,).
    """

    log_prob: np.ndarray


class Host:
    """Draws and densities of a guide by JAX, as NumPy arrays.

    Parameters
    ----------
    guide
        The guide.
    """

    def __init__(self, guide: Any):
        self._sample, self._log_prob = as_pytree_function(guide.sample), as_pytree_function(guide.log_prob)

    def sample(self, generator: np.random.Generator, num_draws: int) -> np.ndarray:
        """Draws, shape (n, d)."""
        keys = jax.random.split(jax.random.key(int(generator.integers(2**32))), num_draws)
        return np.asarray(_mapped(self._sample, keys))

    def at(self, x: np.ndarray) -> HostValues:
        """Log density at points (n, d)."""
        return HostValues(np.asarray(_mapped(self._log_prob, jax.numpy.asarray(x)), np.float64))


@program
def _mapped(function: Partial, values: Array) -> Array:
    return jax.lax.map(function, values, batch_size=BATCH_SIZE)
