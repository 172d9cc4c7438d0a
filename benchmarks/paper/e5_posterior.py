"""The posteriors of E5: all runs of a data set in one program, and the fits that need no sampling.

Notation: X the distinct rows of the data after a column of ones; m the number of training rows of a run at each of
them, s how many of those have label 1; θ the coefficients of the run's standardised features, the intercept's first.
"""

import functools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import data
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec
from vblr import expected_sigmoid, maximum_a_posteriori, variational_logistic

import vhmc_jax as vj

PRIOR_VARIANCE = 100.0
RIDGE_VARIANCE = 1e6
"""Of LR: maximum likelihood, but for what is separable or collinear."""


class Run(NamedTuple):
    """What the posterior of a run depends on beside the shared rows; d coefficients, the intercept's first.

    Attributes
    ----------
    half_counts
        Half the number m of training rows at each distinct row.
    drive
        Xᵀ(s − m/2), s being the number of those with label 1.
    inverse_scale, shift
        The run's standardisation: the logits of θ are X w − shift·w with w = θ · inverse_scale.
    """

    half_counts: Any
    drive: Any
    inverse_scale: Any
    shift: Any


def value_and_gradient(rows: Any, run: Run, theta: Any) -> tuple[Any, Any]:
    """Log density Σ [(s − m/2) z − m log(2 cosh(z/2))] − |θ|²/200, and its gradient by hand: tanh is all it needs."""
    weights = theta * run.inverse_scale
    offset = jnp.sum(run.shift * weights)
    half_logits = 0.5 * (jnp.matmul(rows, weights) - offset)
    size = jnp.abs(half_logits)
    likelihood = jnp.sum(run.drive * weights) - offset * run.drive[0]
    likelihood -= 2 * jnp.sum(run.half_counts * (size + jnp.log1p(jnp.exp(-2 * size))))
    slope = run.drive - jnp.matmul(run.half_counts * jnp.tanh(half_logits), rows)
    gradient = run.inverse_scale * (slope - run.shift * slope[0]) - theta / PRIOR_VARIANCE
    return likelihood - 0.5 * jnp.sum(theta**2) / PRIOR_VARIANCE, gradient


@jax.custom_vjp
def logdensity(rows: Any, run: Run, theta: Any) -> Any:
    """Log density of the coefficients; what a caller does not use, value or gradient, the compiler leaves out."""
    return value_and_gradient(rows, run, theta)[0]


logdensity.defvjp(value_and_gradient, lambda gradient, cotangent: (None, None, cotangent * gradient))


class Problem(NamedTuple):
    """A data set with its splits.

    Attributes
    ----------
    table
        The data.
    is_training
        (run, row).
    means, scales
        The standardisations, (run, column).
    rows
        Distinct rows of the features, scaled to be near 1, after a column of ones.
    row_of
        Which of them each row of the table is.
    runs
        The runs' data, on a leading axis.
    """

    table: data.Table
    is_training: Any
    means: Any
    scales: Any
    rows: Any
    row_of: Any
    runs: Run


def problem(table: data.Table, num_runs: int, seed: int) -> Problem:
    """Split a data set, and gather its equal rows."""
    is_training = data.splits(np.random.default_rng(seed), table.labels, num_runs)
    means, scales = data.standardisation(table.features, is_training)
    centre, spread = table.features.mean(axis=0), table.features.std(axis=0)
    distinct, row_of = np.unique((table.features - centre) / spread, axis=0, return_inverse=True)
    rows = np.column_stack([np.ones(len(distinct)), distinct])
    belongs = np.eye(len(rows))[row_of.reshape(-1)]
    counts, positives = is_training @ belongs, (is_training * table.labels) @ belongs
    ones, zeros = np.ones((num_runs, 1)), np.zeros((num_runs, 1))
    run = Run(
        half_counts=counts / 2,
        drive=(positives - counts / 2) @ rows,
        inverse_scale=np.hstack([ones, spread / scales]),
        shift=np.hstack([zeros, (means - centre) / spread]),
    )
    run = Run(*(np.asarray(leaf, np.float32) for leaf in run))
    return Problem(table, is_training, means, scales, rows.astype(np.float32), row_of.reshape(-1), run)


# Runs in one program, shared out among the cores.


def use_every_core() -> int:
    """Let each core be a device of its own: for products this small threads within one cost more than they bring."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    flags = f"--xla_force_host_platform_device_count={cores} --xla_cpu_multi_thread_eigen=false"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
    return cores


def over_runs(function: Callable, num_runs: int) -> Callable:
    """``vmap`` over runs, jitted, an equal part of them on each core.

    Not for linear solves or factorisations: those of two devices wait for the same threads, and may do so for ever.
    """
    num_devices = max(n for n in range(1, jax.device_count() + 1) if num_runs % n == 0)
    mesh = jax.make_mesh(
        (num_devices,),
        ("runs",),
        devices=jax.devices()[:num_devices],
        axis_types=(jax.sharding.AxisType.Auto,),
    )
    runs = PartitionSpec("runs")
    return jax.jit(jax.shard_map(jax.vmap(function), mesh=mesh, in_specs=runs, out_specs=runs, check_vma=False))


def on_one_core(function: Callable) -> Callable:
    """``vmap`` over runs, jitted, with NumPy arrays back: for what factorises or solves."""
    compiled = jax.jit(jax.vmap(function))
    return lambda *arguments: jax.tree.map(np.asarray, compiled(*arguments))


def one_by_one(function: Callable) -> Callable:
    """A loop over runs, jitted, with NumPy arrays back: for kernels and guides, which solve more than one batch.

    Two batched solves at once wait for the same threads, and may do so for ever; solves of one matrix do not.
    """
    compiled = jax.jit(lambda *arguments: jax.lax.map(lambda one: function(*one), arguments))
    return lambda *arguments: jax.tree.map(np.asarray, compiled(*arguments))


# The fits.


def fits(problem: Problem) -> dict[str, Any]:
    """Maximum likelihood, the posterior's maximum and VBLR of all runs, in double precision."""
    table = problem.table
    index = np.argsort(~problem.is_training, axis=1, kind="stable")[:, : problem.is_training[0].sum()]
    designs = standardised(table.features, problem.means, problem.scales)
    labels = table.labels[index].astype(float)

    def fit_with(fit: Callable, variance: float) -> Any:
        def one(design: Any, rows: Any, labels: Any) -> Any:
            target = vj.targets.LogisticRegressionTarget(design[rows], labels, jnp.full(design.shape[1], variance))
            return fit(target)._replace(bounds=jnp.zeros(()))

        return on_one_core(one)(designs, index, labels)

    with jax.enable_x64(True):
        return {
            "LR": fit_with(maximum_a_posteriori, RIDGE_VARIANCE),
            "Laplace": fit_with(maximum_a_posteriori, PRIOR_VARIANCE),
            "VBLR": fit_with(functools.partial(variational_logistic, tolerance=1e-8), PRIOR_VARIANCE),
            "designs": designs,
        }


def standardised(features: np.ndarray, means: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Design matrices (run, row, coefficient), the column of ones first."""
    scaled = (features - means[:, None]) / scales[:, None]
    return np.concatenate([np.ones((*scaled.shape[:2], 1)), scaled], axis=2)


def log_probabilities(fitted: dict[str, Any], method: str) -> np.ndarray:
    """Log predictive probabilities of both labels, (label, run, row)."""
    fit, designs = fitted[method], fitted["designs"]
    logits = np.einsum("rnd,rd->rn", designs, fit.mean)
    if method == "LR":
        return -np.logaddexp(0, np.stack([logits, -logits]))
    variances = np.einsum("rnd,rde,rne->rn", designs, fit.covariance, designs, optimize=True)
    with jax.enable_x64(True):
        both = jax.jit(expected_sigmoid)(np.stack([-logits, logits]), np.stack([variances, variances]))
    return np.log(np.maximum(np.asarray(both), 1e-300))
