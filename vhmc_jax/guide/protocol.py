"""What a guide has, and what it may have besides.

A guide is a normalised density on flat vectors that is easy to draw from: a mixture of this package, a normalising
flow, a distribution of another library. Any object with the methods of :class:`Guide` serves. A guide that is a pytree
of arrays is an argument of compiled programs; any other is a constant in them.
"""

from typing import Any, Protocol, runtime_checkable

from vhmc_jax.base import Array


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
class Prepares(Protocol):
    """A guide that can compute ahead what does not depend on x. Kernels ask for it once, when they are made."""

    def prepared(self) -> Any:
        """The same guide, as a pytree that holds what was computed."""


def require_guide(guide: Any) -> None:
    """Raise unless the object is a guide."""
    if not isinstance(guide, Guide):
        raise TypeError(f"guide must have the methods sample(rng_key) and log_prob(x), got {type(guide).__name__}")
