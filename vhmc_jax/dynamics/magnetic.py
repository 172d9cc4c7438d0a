"""Leapfrog in a magnetic field: kicks, and drifts that bend the trajectory. The drifts are exact.

Notation: G is the field, an antisymmetric matrix, and σ = ±1 its sign. W = M⁻¹ = C Cᵀ.

A drift follows θ' = W p, p' = σ G W p for a time ε. The equation is linear, so its solution is a matrix exponential.
Write B = Cᵀ G C, which is antisymmetric too, and φ₁(z) = (eᶻ − 1)/z. Then the drift moves

    θ by Δ = ε C φ₁(σεB) Cᵀ p    and    p by σ G Δ.

The second follows from p' = σ G θ'. To compute φ₁(σεB), split it into a part that is even in σ and one that is odd.
With z = ε (BᵀB)^½ and B² = −BᵀB these are sin(z)/z and σεB (1 − cos z)/z². Both are smooth functions of the symmetric
matrix BᵀB, so the field may be singular.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from vhmc_jax.arguments import is_concrete
from vhmc_jax.base import Array, State
from vhmc_jax.density import FlatDensity
from vhmc_jax.dynamics.kinetic import GaussianKinetic, multiply
from vhmc_jax.dynamics.leapfrog import kick_drift_kick


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MagneticFlow:
    """The matrices of a drift for one step size.

    The field acts on all coordinates, or on the plane of the first two alone.

    Attributes
    ----------
    field
        G: a matrix, or the pair (s, −s) of a plane's [[0, s], [−s, 0]].
    even
        The part of Δ that does not depend on the sign of the field: a symmetric matrix that multiplies p, or its
        diagonal.
    odd
        The part that changes its sign with the field: an antisymmetric matrix, or a pair as in ``field``.
    """

    field: Array
    even: Array
    odd: Array

    def displacement(self, momentum: Array, sign: Array) -> Array:
        """Δ = (even + σ odd) p. All chains share both matrices, whatever their signs."""
        return multiply(self.even, momentum) + sign * _multiply_antisymmetric(self.odd, momentum)

    def turn(self, displacement: Array, sign: Array) -> Array:
        """The change of the momentum, σ G Δ."""
        return sign * _multiply_antisymmetric(self.field, displacement)


def _multiply_antisymmetric(factor: Array, vector: Array) -> Array:
    return multiply(factor, vector) if factor.ndim == 2 else factor * vector[::-1]


def as_field(field: Any) -> Array:
    """Check a field: antisymmetric, or the strength s of [[0, s], [−s, 0]] in the first two coordinates.

    Parameters
    ----------
    field
        A scalar or a square matrix.

    Returns
    -------
    A scalar, or an exactly antisymmetric matrix, of the default float type.
    """
    field = jnp.asarray(field, dtype=float)
    if field.shape and (field.ndim != 2 or field.shape[0] != field.shape[1]):
        raise ValueError(f"field must be a scalar or a square matrix, got shape {field.shape}")
    if is_concrete(field) and not jnp.all(jnp.isfinite(field)):
        raise ValueError(f"field must be finite, got {field}")
    if not field.shape:
        return field
    if is_concrete(field) and not jnp.allclose(field, -field.T, rtol=1e-4, atol=1e-6 * jnp.max(jnp.abs(field))):
        raise ValueError(f"field must be antisymmetric, that is, field.T == -field, got {field}")
    return 0.5 * (field - field.T)


def magnetic_flow(field: Array, inverse_mass_factor: Array, step_size: Array) -> MagneticFlow:
    """Precompute the matrices of the drift.

    Parameters
    ----------
    field
        G as ``as_field`` returns it.
    inverse_mass_factor
        C with C Cᵀ = M⁻¹: a scalar, a vector or a matrix.
    step_size
        ε.

    Returns
    -------
    The flow. It is that of a plane where the field is a scalar or 2 × 2 and the mass is no matrix.
    """
    factor, size = inverse_mass_factor, len(inverse_mass_factor) if inverse_mass_factor.ndim else None
    if field.ndim == 0 and size == 1:
        raise ValueError(
            "a scalar field acts in the plane of the first two coordinates, "
            f"got an inverse_mass_matrix of one, shape {factor.shape}"
        )
    if field.ndim == 2 and size not in (None, len(field)):
        raise ValueError(
            f"field and inverse_mass_matrix must be of one dimension, got shapes {field.shape} and {factor.shape}"
        )
    if factor.ndim < 2 and field.shape in ((), (2, 2)):
        return _flow_in_a_plane(field if field.ndim == 0 else field[0, 1], factor, step_size)
    if field.ndim == 0:
        field = jnp.zeros_like(factor).at[0, 1].set(field).at[1, 0].set(-field)
    return _flow(field, factor, step_size)


def _sinc(angle: Array) -> Array:
    return jnp.sinc(angle / jnp.pi)


@jax.jit
def _flow(field: Array, factor: Array, step_size: Array) -> MagneticFlow:
    """The parts of ε C φ₁(σεB) Cᵀ, with (1 − cos z)/z² = ½ (sin(½z)/(½z))²."""
    with jax.default_matmul_precision("highest"):
        c = factor if factor.ndim == 2 else factor * jnp.eye(len(field), dtype=field.dtype)
        b = c.T @ field @ c
        squares, vectors = jnp.linalg.eigh(b.T @ b)
        angles = step_size * jnp.sqrt(jnp.maximum(squares, 0.0))
        even = (vectors * _sinc(angles)) @ vectors.T
        odd = b @ (vectors * (0.5 * _sinc(0.5 * angles) ** 2)) @ vectors.T
        return MagneticFlow(field, step_size * (c @ even @ c.T), step_size**2 * (c @ odd @ c.T))


@jax.jit
def _flow_in_a_plane(strength: Array, factor: Array, step_size: Array) -> MagneticFlow:
    """The same for two coordinates and a scalar or diagonal mass, where B = s √(W₁W₂) [[0, 1], [−1, 0]]."""
    inverse_mass = jnp.broadcast_to(factor[:2] if factor.ndim else factor, (2,)) ** 2
    pair = jnp.array([1.0, -1.0], strength.dtype) * strength
    angle = step_size * strength * jnp.sqrt(jnp.prod(inverse_mass))
    odd = 0.5 * _sinc(0.5 * angle) ** 2 * jnp.prod(inverse_mass) * pair
    return MagneticFlow(pair, step_size * _sinc(angle) * inverse_mass, step_size**2 * odd)


def magnetic_drift(
    momentum: Array, kinetic: GaussianKinetic, flow: MagneticFlow, step_size: Array, sign: Array
) -> tuple[Array, Array]:
    """How much position and momentum change when θ' = M⁻¹p, p' = σ G M⁻¹p is followed for a time ε."""
    size = len(flow.field)
    move = flow.displacement(momentum[:size], sign)
    turn = flow.turn(move, sign)
    if size < momentum.size:
        move = jnp.concatenate([move, step_size * kinetic.velocity(momentum)[size:]])
        turn = jnp.pad(turn, (0, momentum.size - size))
    return move, turn


def magnetic_leapfrog(
    density: FlatDensity,
    kinetic: GaussianKinetic,
    flow: MagneticFlow,
    step_size: Array,
    num_steps: int | Array,
    start: State,
    momentum: Array,
    sign: Array,
) -> tuple[State, Array]:
    """Take L steps, each half a kick, a magnetic drift and half a kick. Neighbouring kicks are merged: L gradients.

    A step preserves volume and is of order 2. Changing the signs of p and of σ and taking the step again leads back.

    Parameters
    ----------
    density
        The log density on flat vectors.
    kinetic
        The kinetic energy.
    flow
        The drift's matrices, of the same step size and mass.
    step_size
        ε.
    num_steps
        L, at least 1.
    start
        Flat state to start from, its gradient included.
    momentum
        Momentum to start with.
    sign
        σ, ±1.

    Returns
    -------
    The flat state at the end, with value and gradient, and the momentum there.

    References
    ----------
    Tripuraneni, Rowland, Ghahramani & Turner (2017), Magnetic Hamiltonian Monte Carlo, section 3.
    """

    def bent(x: Array, p: Array, share: Any) -> tuple[Array, Array]:
        move, turn = magnetic_drift(p, kinetic, flow, step_size, sign)
        return x + share * move, p + share * turn

    return kick_drift_kick(density, bent, step_size, num_steps, start, momentum)
