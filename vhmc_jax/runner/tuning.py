"""Step size, trajectory length and mass of a kernel with trajectories, measured on many chains.

Lengths on a ladder are tried one after another, each for a few iterations of all chains, and the one is taken at which
an independent draw costs least: see ``runner.lengths``.

Notation: ε step size, ℓ the mean number of leapfrog steps.
"""

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vhmc_jax import random
from vhmc_jax.arguments import as_count, as_parameter, as_position
from vhmc_jax.base import Array, PRNGKey, PyTree, as_pytree_function
from vhmc_jax.programs import SOON_COMPILED, program
from vhmc_jax.runner.adaptation import DualAverage, keys_of, update
from vhmc_jax.runner.lengths import Stage, best_of, efficiencies_of, interval_of

LENGTHS = (2, 4, 8, 16, 32, 64)
"""Mean numbers of leapfrog steps that are tried."""
PATIENCE = 2
"""Longer trajectories are not tried where so many in a row did no better."""
NUM_MASS_ROUNDS, MASS_LENGTH = 3, 4
"""Rounds in which the mass is found, where it is not given, and the length of the trajectories there."""
MAX_DENSE = 64
"""Up to this dimension the mass is a matrix, beyond it a diagonal: a product with a matrix would cost more than most
gradients."""


class Trial(NamedTuple):
    """One length that was tried.

    Attributes
    ----------
    length
        ℓ.
    efficiency
        Independent draws that a gradient is worth.
    step_size
        ε at its end.
    acceptance_rate
        Mean acceptance.
    """

    length: int
    efficiency: float
    step_size: float
    acceptance_rate: float


class TunedTrajectory(NamedTuple):
    """What was chosen, and what it took.

    Attributes
    ----------
    step_size
        ε.
    num_integration_steps
        (low, high): from half the chosen length to one and a half times, so that no period is met always.
    inverse_mass_matrix
        M⁻¹, as given or as found.
    acceptance_rate
        Mean acceptance at the end, near the target where the step size converged.
    trials
        Every length that was tried.
    positions
        Where the chains ended, on a leading axis.
    num_gradients
        Gradients taken by all chains.
    """

    step_size: float
    num_integration_steps: tuple[int, int]
    inverse_mass_matrix: Any
    acceptance_rate: float
    trials: tuple[Trial, ...]
    positions: PyTree
    num_gradients: int


def tune(
    rng_key: PRNGKey,
    factory: Callable,
    initial_positions: PyTree,
    *,
    inverse_mass_matrix: Any = None,
    labels: Any = None,
    target_acceptance: Any = 0.8,
    initial_step_size: Any = 1.0,
    lengths: tuple[int, ...] = LENGTHS,
    num_iterations: int = 32,
) -> TunedTrajectory:
    """Choose step size, trajectory length and mass for a kernel with trajectories.

    Parameters
    ----------
    rng_key
        Key of all chains.
    factory
        ``factory(step_size, num_integration_steps, inverse_mass_matrix) -> Kernel``, for instance
        ``lambda *numbers: vj.hmc(logdensity, **dict(zip(("step_size", "num_integration_steps",
        "inverse_mass_matrix"), numbers)))``. The numbers of steps are a pair (low, high), and traced.
    initial_positions
        Where the chains start, on a leading axis: 16 or more, about where the density is large.
    inverse_mass_matrix
        M⁻¹; None to find it: the covariance of the chains up to 64 dimensions, their variances beyond. Where modes
        are far apart the covariance is not that of a mode: give one.
    labels
        Where modes are far apart, the number of the mode in which each chain starts, shape (chain,): a move of the
        kernel is then compared with the variance within a mode, which is all that it can reach.
    target_acceptance
        Mean acceptance that the step size is to reach.
    initial_step_size
        Where the step size starts. It need not be near.
    lengths
        Mean numbers of leapfrog steps to try, rising.
    num_iterations
        Iterations of all chains with each of them.

    Returns
    -------
    The numbers, to be frozen.

    Examples
    --------
    >>> import jax, vhmc_jax as vj
    >>> def kernel(step_size, num_integration_steps, inverse_mass_matrix):
    ...     return vj.hmc(
    ...         lambda x: -0.5 * (x[0] ** 2 + x[1] ** 2 / 100),
    ...         step_size=step_size,
    ...         num_integration_steps=num_integration_steps,
    ...         inverse_mass_matrix=inverse_mass_matrix,
    ...     )
    >>> starts = jax.random.normal(jax.random.key(0), (32, 2))
    >>> tuned = vj.tune(jax.random.key(1), kernel, starts)
    >>> kernel = kernel(tuned.step_size, tuned.num_integration_steps, tuned.inverse_mass_matrix)
    """
    target = as_parameter("target_acceptance", target_acceptance, positive=True, at_most=1.0)
    step_size = as_parameter("initial_step_size", initial_step_size, positive=True)
    num_iterations = as_count("num_iterations", num_iterations, 4)
    lengths = tuple(as_count("lengths", length, 1) for length in lengths)
    if not lengths or list(lengths) != sorted(set(lengths)):
        raise ValueError(f"lengths must be one or more rising numbers, got {lengths}")
    positions = as_position(initial_positions, "initial_positions")
    if len(jax.tree.leaves(positions)[0]) < 2:
        raise ValueError("initial_positions must hold at least 2 chains on a leading axis, got 1")
    num_chains = len(jax.tree.leaves(positions)[0])
    labels = np.zeros(num_chains, int) if labels is None else np.asarray(labels)
    if labels.shape != (num_chains,):
        raise ValueError(f"labels must have the shape ({num_chains},), one for each chain, got {labels.shape}")
    factory, num_gradients = as_pytree_function(factory, "factory"), 0
    keys = (random.as_jax_key(random.fold_in(rng_key, number)) for number in itertools.count())

    def run(length: int, positions: PyTree, step_size: Any, is_first: bool = False) -> Stage:
        nonlocal num_gradients
        # At first the step size may be far off: dual averaging then leans toward greater ones.
        lean = np.asarray(10.0 if is_first else 1.0, step_size.dtype)
        interval = tuple(np.int32(end) for end in interval_of(length))
        stage = _stage(next(keys), factory, positions, interval, mass, target, step_size, lean, num_iterations)
        num_gradients += int(stage.num_gradients)
        return stage

    mass: Any = inverse_mass_matrix
    if inverse_mass_matrix is None:
        dim = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], positions))[0].size
        mass = np.ones(dim) if dim > MAX_DENSE else np.eye(dim)
        for number in range(NUM_MASS_ROUNDS):
            stage = run(MASS_LENGTH, positions, step_size, is_first=True)
            positions, mass = stage.positions, covariance_of(np.asarray(stage.path, np.float64), number)
    stages: list[Stage] = []
    for number, length in enumerate(lengths):
        stages.append(jax.tree.map(np.asarray, run(length, positions, step_size, is_first=not number)))
        positions, step_size = stages[-1].positions, stages[-1].step_size
        best = best_of(efficiencies := efficiencies_of(stages, labels))
        if number - best >= PATIENCE:
            break
    last = stages[0] if len(lengths) == 1 else run(lengths[best], positions, stages[best].step_size)
    trials = (
        Trial(length, float(efficiency), float(stage.step_size), float(stage.acceptance_rate))
        for length, efficiency, stage in zip(lengths, efficiencies, stages, strict=False)
    )
    return TunedTrajectory(
        step_size=float(last.step_size),
        num_integration_steps=interval_of(lengths[best]),
        inverse_mass_matrix=mass,
        acceptance_rate=float(last.acceptance_rate),
        trials=tuple(trials),
        positions=last.positions,
        num_gradients=num_gradients,
    )


@functools.partial(program, options=SOON_COMPILED, static_argnames="num_iterations")
def _stage(
    rng_key: PRNGKey,
    factory: Callable,
    positions: PyTree,
    interval: tuple[Array, Array],
    inverse_mass_matrix: Array,
    target: Array,
    step_size: Array,
    lean: Array,
    num_iterations: int,
) -> Stage:
    """A few iterations of all chains with trajectories of one length, while the step size adapts."""
    centre, start = jnp.log(lean * step_size), jnp.log(step_size)
    states = jax.vmap(factory(step_size, interval, inverse_mass_matrix).init)(positions)
    num_chains = len(states.logdensity)
    flat = jax.vmap(lambda position: ravel_pytree(position)[0])

    def iteration(carry: tuple[Any, DualAverage], at: tuple[Array, Any]) -> tuple[Any, tuple[Array, ...]]:
        (states, average), (t, keys) = carry, at
        kernel = factory(jnp.exp(average.log_step_size), interval, inverse_mass_matrix)
        states, infos = jax.vmap(kernel.step)(keys, states)
        acceptance = jnp.mean(jnp.nan_to_num(infos.acceptance_rate)).astype(centre.dtype)
        average = update(average, target - acceptance, centre, (t + 1).astype(centre.dtype))
        seen = flat(states.position), states.logdensity, acceptance, jnp.sum(infos.num_gradients)
        return (states, average), seen

    average = DualAverage(start, start, jnp.zeros_like(start))
    numbers, keys = jnp.arange(num_iterations), keys_of(rng_key, num_iterations, num_chains)
    (ends, average), seen = jax.lax.scan(iteration, (states, average), (numbers, keys))
    path, logdensities, acceptances, gradients = seen
    return Stage(
        positions=ends.position,
        path=jnp.concatenate([flat(states.position)[None], path]),
        logdensities=jnp.concatenate([states.logdensity[None], logdensities]),
        step_size=jnp.exp(average.log_average),
        acceptance_rate=jnp.mean(acceptances[num_iterations // 2 :]),
        num_gradients=jnp.sum(gradients),
    )


def covariance_of(path: np.ndarray, number: int) -> np.ndarray:
    """Covariance of the chains over the second half of a path, or their variances in many dimensions.

    Early rounds have not seen everything: off the diagonal they count less.
    """
    x = path[len(path) // 2 :].reshape(-1, path.shape[-1])
    dim = x.shape[1]
    variances = np.maximum(x.var(axis=0), 1e-12 * np.maximum(np.mean(x**2, axis=0), 1e-30))
    if dim > MAX_DENSE:
        return variances
    scales = np.sqrt(variances)
    # Chains of a few iterations are worth a draw or two each.
    worth, prior = (number + 1) * path.shape[1], dim + 1.0
    correlations = np.corrcoef(x, rowvar=False).reshape(dim, dim)
    correlations = (worth * np.nan_to_num(correlations) + prior * np.eye(dim)) / (worth + prior)
    return scales[:, None] * correlations * scales
