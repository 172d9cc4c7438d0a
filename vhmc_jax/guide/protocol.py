"""What a guide has, and what it may have besides.

A guide is a normalised density on flat vectors that is easy to draw from: a mixture of this package, a normalising
flow, a distribution of another library. Any object with the methods of :class:`Guide` serves. A guide that is a pytree
of arrays is an argument of compiled programs; any other is a constant in them.
"""

from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from vhmc_jax import random
from vhmc_jax.arguments import is_concrete
from vhmc_jax.base import Array, PyTree


@runtime_checkable
class Guide(Protocol):
    """What every guide has: jumps and the evidence need no more."""

    def sample(self, rng_key: Array) -> Array:
        """One draw, a flat vector."""

    def log_prob(self, x: Array) -> Array:
        """Normalised log density at a flat vector, a scalar."""


@runtime_checkable
class HasComponents(Protocol):
    """A guide made of components, which tell the modes apart: in the infos of jumps, and in the mode report."""

    def component_log_probs(self, x: Array) -> Array:
        """Log of each weighted component density at a flat vector, shape (k,)."""


@runtime_checkable
class HasBlocks(Protocol):
    """A guide that is a product over blocks of coordinates, which can jump one by one."""

    block_of: Any
    """Number of the block of each coordinate, integers from 0 on, shape (d,)."""

    def block_log_probs(self, x: Array) -> Array:
        """Normalised log density of each block's coordinates of a flat vector, shape (num_blocks,)."""


@runtime_checkable
class OnHost(Protocol):
    """A guide that NumPy can evaluate at many points at once, in double precision."""

    def on_host(self) -> Any:
        """The same guide with ``sample(generator, n)``, draws (n, d), and ``at(x)``, which has a ``log_prob`` (n,)."""


@runtime_checkable
class Prepares(Protocol):
    """A guide that can compute ahead what does not depend on x. Kernels ask for it once, when they are made."""

    def prepared(self) -> Any:
        """The same guide, as a pytree that holds what was computed."""


def require_guide(guide: Any) -> None:
    """Raise unless the object is a guide."""
    if not isinstance(guide, Guide):
        raise TypeError(f"guide must have the methods sample(rng_key) and log_prob(x), got {type(guide).__name__}")


def draw_from(guide: Any, rng_key: Any) -> Array:
    """One draw of a guide, with a key of JAX's own unless it takes any."""
    takes_any_key = getattr(guide.sample, "takes_any_key", False)
    return guide.sample(rng_key if takes_any_key else random.as_jax_key(rng_key))


def require_guide_fits(guide: Any, position: PyTree) -> None:
    """Raise unless the guide draws vectors of the position's dimension and dtype, and has a density there."""
    x, _ = ravel_pytree(position)
    draw = jax.eval_shape(guide.sample, jax.random.key(0))
    if draw.shape != x.shape or draw.dtype != x.dtype:
        raise ValueError(
            f"guide.sample must return a flat vector like the position's, {x.dtype}{list(x.shape)}, "
            f"got {draw.dtype}{list(draw.shape)}"
        )
    value = jax.eval_shape(guide.log_prob, x)
    if value.shape != ():
        raise ValueError(f"guide.log_prob must return a scalar, got shape {value.shape}")
    log_prob = guide.log_prob(x)
    if is_concrete(log_prob) and jnp.isnan(log_prob):
        raise ValueError(f"guide.log_prob must be a number at the start, got NaN at {x}")
