"""What the two words of a hash become: uniform or normal numbers.

In float64 both words make one number. In float32 each hash gives two numbers, returned as the real and the imaginary
part of one complex number. XLA would compute the hash again for each of two separate results.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax.base import Array

DTYPES = (jnp.dtype("float32"), jnp.dtype("float64"))
"""Those that words can become; other dtypes are left to ``jax.random``."""


def num_hashes(count: int, dtype: Any) -> int:
    """How many hashes give ``count`` numbers."""
    return count if dtype == jnp.float64 else (count + 1) // 2


def uniforms(x0: Array, x1: Array, dtype: Any) -> Array:
    """Uniform numbers on [0, 1), with as many random bits as the mantissa has."""
    if dtype == jnp.float32:
        return jax.lax.complex(_from_bits(x0 >> np.uint32(9), dtype), _from_bits(x1 >> np.uint32(9), dtype))
    words = (x0.astype(jnp.uint64) << np.uint64(32)) | x1.astype(jnp.uint64)
    return _from_bits(words >> np.uint64(12), dtype)


def _from_bits(mantissa: Array, dtype: Any) -> Array:
    """The number of [1, 2) with these bits behind its point, less 1."""
    one = np.ones((), dtype)
    return jax.lax.bitcast_convert_type(mantissa | one.view(mantissa.dtype), dtype) - one


def uniforms_on_host(x0: np.ndarray, x1: np.ndarray, count: int, dtype: np.dtype) -> np.ndarray:
    """The same numbers in NumPy, in the order of their counters: (n, count) from words (n, hashes)."""
    if dtype == np.float64:
        joined = (np.uint64(x0) << np.uint64(32)) | np.uint64(x1)
        return (joined >> np.uint64(12)).astype(dtype) * dtype.type(2.0**-52)
    both = np.concatenate([x0, x1], axis=1)[:, :count]
    return (both >> np.uint32(9)).astype(dtype) * dtype.type(2.0**-23)


def normals(x0: Array, x1: Array, dtype: Any) -> Array:
    """Standard normal numbers: Box and Muller's pair √(−2 log u) (cos 2πt, sin 2πt) in float32, √2 erf⁻¹ in float64.

    Box and Muller's pair takes a third of the time of XLA's erf⁻¹ in float32, since XLA vectorises all of its
    operations. It reaches 6.7, where erf⁻¹ of 23 random bits ends at 5.4.
    """
    if dtype == jnp.float64:
        smallest = np.nextafter(-1.0, 0.0)
        return np.sqrt(2) * jax.lax.erf_inv(jnp.maximum(2 * uniforms(x0, x1, dtype) - 1, smallest))
    u = signed(x0 >> np.uint32(1)) * np.float32(2**-31) + np.float32(2**-32)  # in (0, 1]
    t = signed(x1) * np.float32(2**-32)  # in [−½, ½]
    radius, square = jnp.sqrt(-2 * jnp.log(u)), t * t
    sine, cosine = t * _polynomial(_SINE, square), _polynomial(_COSINE, square)  # of πt
    # cos 2πt = 1 − 2 sin² πt and sin 2πt = 2 sin πt cos πt.
    return jax.lax.complex(radius * (1 - 2 * sine * sine), radius * (2 * sine * cosine))


def signed(word: Array) -> Array:
    """A word read as a signed integer, in float32."""
    return jax.lax.bitcast_convert_type(word, jnp.int32).astype(jnp.float32)


def _polynomial(coefficients: list[np.float32], x: Array) -> Array:
    """By Horner's rule. The coefficients are scalars, since a custom batching rule may not close over arrays."""
    return functools.reduce(lambda value, coefficient: value * x + coefficient, coefficients)  # type: ignore[arg-type, return-value]


def _even_polynomial(function: Callable, degree: int) -> list[np.float32]:
    """Coefficients in t², highest power first, of Chebyshev's interpolant of an even function on [−½, ½]."""
    fitted = np.polynomial.Chebyshev.interpolate(lambda square: function(np.sqrt(square)), degree, domain=[0, 0.25])
    return list(fitted.convert(kind=np.polynomial.Polynomial).coef[::-1].astype(np.float32))


_SINE = _even_polynomial(lambda t: np.pi * np.sinc(t), 5)  # sin(πt)/t and cos(πt), both to 3e-10
_COSINE = _even_polynomial(lambda t: np.cos(np.pi * t), 5)
