"""Constraints of parameters: bijections from unconstrained arrays, with their log-Jacobians.

Notation: x is an unconstrained array, y the parameter. Each ``forward`` returns y and log |det ∂y/∂x| together, so that
the Jacobian cannot be forgotten. Values stay strictly within the constraint, also where rounding would put them on its
edge: the logarithm of a parameter, or of its distance from an end, is finite in every float type.
"""

import functools
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax.base import Array

REAL_SCALE = 10.0
"""Standard deviation of the default region of a real parameter."""
LOG_SCALE = 3.0
"""Standard deviation of the default region of the logarithm of a positive one: from 1/400 to 400 in 95 %."""


class Constraint(Protocol):
    """What ``constrain`` asks of a constraint. It is a pytree; its numbers are arguments of compiled programs."""

    def free_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of x for a parameter of a shape; a ValueError where no parameter can have it."""

    def forward(self, x: Array) -> tuple[Array, Array]:
        """Parameter y, and log |det ∂y/∂x|, one number."""

    def inverse(self, y: Array) -> Array:
        """The x of a parameter."""

    def draw(self, rng_key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
        """A draw of the default region, as a parameter."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Real:
    """No constraint. By default sought around 0 with standard deviation 10."""

    def free_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """As the parameter's."""
        return shape

    def forward(self, x: Array) -> tuple[Array, Array]:
        """The array x itself, and 0."""
        return x, jnp.zeros((), x.dtype)

    def inverse(self, y: Array) -> Array:
        """The array y itself."""
        return y

    def draw(self, rng_key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
        """Gaussian."""
        return REAL_SCALE * jax.random.normal(rng_key, shape, dtype)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class HalfLine:
    """Beyond an end: y = end + sign · exp(x). By default log |y − end| is sought around 0 with standard deviation 3.

    Attributes
    ----------
    end
        The end.
    sign
        1 above it, −1 below.
    """

    end: Any
    sign: Any

    def free_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """As the parameter's."""
        return shape

    def forward(self, x: Array) -> tuple[Array, Array]:
        """Value end + sign · exp(x), and Σ x."""
        # x is clipped, and not its exponential: the gradient of a clipped infinity is not a number.
        distance = jnp.exp(jnp.clip(x, *_log_limits(x.dtype)))
        end, sign = jnp.asarray(self.end, x.dtype), jnp.asarray(self.sign, x.dtype)
        y = end + sign * distance
        return jnp.where(y == end, _next(end, sign), y), jnp.sum(x)

    def inverse(self, y: Array) -> Array:
        """Logarithm of the distance from the end."""
        return jnp.log(jnp.asarray(self.sign, y.dtype) * (y - jnp.asarray(self.end, y.dtype)))

    def draw(self, rng_key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
        """Log-normal distance from the end."""
        return self.forward(LOG_SCALE * jax.random.normal(rng_key, shape, dtype))[0]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Interval:
    """Between two ends: y = low + (high − low) sigmoid(x). By default sought uniformly.

    Attributes
    ----------
    low, high
        The ends.
    """

    low: Any
    high: Any

    def free_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """As the parameter's."""
        return shape

    def forward(self, x: Array) -> tuple[Array, Array]:
        """The value, measured from the nearer end, and Σ log((high − low) sigmoid(x) sigmoid(−x))."""
        low, high = jnp.asarray(self.low, x.dtype), jnp.asarray(self.high, x.dtype)
        width, one = high - low, jnp.ones((), x.dtype)
        near = width * jax.nn.sigmoid(-jnp.abs(x))
        y = jnp.clip(jnp.where(x < 0, low + near, high - near), _next(low, one), _next(high, -one))
        return y, jnp.sum(jnp.log(width) + jax.nn.log_sigmoid(x) + jax.nn.log_sigmoid(-x))

    def inverse(self, y: Array) -> Array:
        """Logarithm of the ratio of the distances from both ends."""
        low, high = jnp.asarray(self.low, y.dtype), jnp.asarray(self.high, y.dtype)
        return jnp.log(y - low) - jnp.log(high - y)

    def draw(self, rng_key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
        """Uniform."""
        return self.forward(jax.random.logistic(rng_key, shape, dtype))[0]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Simplex:
    """Positive numbers along the last axis that sum to 1: y = softmax(V x). By default sought uniformly.

    The columns of V, K × (K − 1), are an orthonormal basis of the vectors that sum to zero, so that a permutation of
    y is a rotation or reflection of x: modes that differ by their labels alone look the same in x.

    References
    ----------
    Egozcue, Pawlowsky-Glahn, Mateu-Figueras & Barceló-Vidal (2003), the isometric log-ratio transformation.
    """

    def free_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """One less along the last axis."""
        if not shape or shape[-1] < 2:
            raise ValueError(f"a simplex needs at least two entries along its last axis, got shape {shape}")
        return (*shape[:-1], shape[-1] - 1)

    def forward(self, x: Array) -> tuple[Array, Array]:
        """The weights, and Σ log y + ½ log K: the volume of the first K − 1 weights."""
        basis = _basis(x.shape[-1] + 1, x.dtype)
        log_y = jax.nn.log_softmax(x @ basis.T, axis=-1)
        y = jnp.exp(jnp.maximum(log_y, _log_limits(x.dtype)[0]))
        num_rows = np.prod(x.shape[:-1], dtype=int)
        constant = jnp.asarray(0.5 * num_rows * np.log(len(basis)), x.dtype)
        return y, jnp.sum(log_y) + constant

    def inverse(self, y: Array) -> Array:
        """Coordinates of log y in the basis."""
        return jnp.log(y) @ _basis(y.shape[-1], y.dtype)

    def draw(self, rng_key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
        """Uniform: exponential variables over their sum."""
        heights = jnp.maximum(jax.random.exponential(rng_key, shape, dtype), float(jnp.finfo(dtype).eps))
        return heights / jnp.sum(heights, axis=-1, keepdims=True)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Ordered:
    """Numbers that increase along the last axis: y₁ = x₁, yₖ = yₖ₋₁ + exp(xₖ). By default sought as ordered reals."""

    def free_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """As the parameter's."""
        if not shape or shape[-1] < 1:
            raise ValueError(f"ordered needs at least one entry along its last axis, got shape {shape}")
        return shape

    def forward(self, x: Array) -> tuple[Array, Array]:
        """The sums, and the sum of x beyond the first."""
        steps, log_det = HalfLine(0.0, 1.0).forward(x[..., 1:])
        return jnp.cumsum(jnp.concatenate([x[..., :1], steps], axis=-1), axis=-1), log_det

    def inverse(self, y: Array) -> Array:
        """The first, and the logarithms of the differences."""
        return jnp.concatenate([y[..., :1], jnp.log(jnp.diff(y, axis=-1))], axis=-1)

    def draw(self, rng_key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
        """Gaussian variables, sorted."""
        return jnp.sort(Real().draw(rng_key, shape, dtype), axis=-1)


real = Real()
positive = HalfLine(0.0, 1.0)
simplex = Simplex()
ordered = Ordered()


def interval(low: float, high: float) -> Interval | HalfLine | Real:
    """The constraint low < y < high; an end may be infinite.

    Parameters
    ----------
    low, high
        The ends, numbers or arrays that broadcast to the parameter. Infinite ends are numbers.

    Returns
    -------
    The constraint.

    Examples
    --------
    >>> import jax.numpy as jnp, vhmc_jax as vj
    >>> problem = vj.constrain(lambda y: 2.0 * jnp.log(y["share"]), {"share": vj.interval(0.0, 1.0)})
    >>> float(problem.constrain({"share": jnp.zeros(())})["share"])
    0.5
    """
    ends = [np.asarray(end) for end in (low, high)]
    if any(end.dtype.kind not in "iuf" for end in ends) or not np.all(ends[0] < ends[1]):
        raise ValueError(f"low must be below high, got {low!r} and {high!r}")
    is_finite = [bool(np.all(np.isfinite(end))) for end in ends]
    if not all(finite or end.ndim == 0 for finite, end in zip(is_finite, ends, strict=True)):
        raise ValueError(f"an infinite end must be a number, got {low!r} and {high!r}")
    as_end = functools.partial(np.asarray, dtype=float)
    if all(is_finite):
        return Interval(as_end(low), as_end(high))
    if is_finite[0]:
        return HalfLine(as_end(low), 1.0)
    return HalfLine(as_end(high), -1.0) if is_finite[1] else real


@functools.cache
def _helmert(size: int) -> np.ndarray:
    """Orthonormal basis of the vectors that sum to zero, (size, size − 1): Helmert's."""
    basis = np.triu(np.ones((size, size - 1)))
    numbers = np.arange(1, size)
    basis[numbers, numbers - 1] = -numbers
    return basis / np.sqrt(numbers * (numbers + 1))


def _basis(size: int, dtype: Any) -> Array:
    return jnp.asarray(_helmert(size), dtype)


def _log_limits(dtype: Any) -> tuple[float, float]:
    """Logarithms of the least and the greatest number of a float type, with a margin for rounding."""
    limits = jnp.finfo(dtype)
    return 0.999 * float(np.log(limits.tiny)), 0.999 * float(np.log(limits.max))


def _next(end: Array, sign: Array) -> Array:
    """The next number beyond an end whose distance from it is no denormal number, which some processors take for 0."""
    beyond = jnp.nextafter(end, jnp.copysign(jnp.asarray(jnp.inf, end.dtype), sign))
    return jnp.where(jnp.abs(end) > 0, beyond, sign * float(jnp.finfo(end.dtype).tiny))
