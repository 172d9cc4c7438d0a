"""A result that was put together by hand, since a run takes seconds to compile."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np

import vhmc_jax as vj
from vhmc_jax.diagnostics import Evidence, mode_report
from vhmc_jax.pipeline.phase import Phase

GENERATOR = np.random.default_rng(0)


def result_of(num_modes=2, dimension=2, warnings=(), names=None):
    """Independent draws of Gaussians at 0, 10, 20, ... in every coordinate, with the guide that they came from."""
    labels = GENERATOR.integers(num_modes, size=(4, 200))
    x = 10.0 * labels[..., None] + GENERATOR.normal(size=(4, 200, dimension))
    guide = vj.GaussianMixture(
        jnp.full(num_modes, -np.log(num_modes)),
        10.0 * jnp.broadcast_to(jnp.arange(num_modes, dtype=jnp.float64)[:, None], (num_modes, dimension)),
        jnp.broadcast_to(jnp.eye(dimension), (num_modes, dimension, dimension)),
    )
    logdensities = guide.on_host().at(x.reshape(-1, dimension)).log_prob.reshape(4, 200)
    draws = x if names is None else {name: x[..., i] for i, name in enumerate(names)}
    weights = np.bincount(labels.ravel(), minlength=num_modes) / labels.size
    population = SimpleNamespace(flat=x[0], logdensities=logdensities[0])
    frozen = vj.Frozen(
        modes=SimpleNamespace(num_starts=256),
        guide=guide,
        guide_report=SimpleNamespace(expected_acceptance=0.9, log_evidence=0.0, description="Guide: two Gaussians."),
        log_envelope=1.0,
        num_tries=4,
        jump_probability=0.5,
        step_size=(0.1, 1.0),
        num_integration_steps=(1, 3),
        friction=0.5,
        inverse_mass_matrix=1.0,
        acceptance_rate=0.8,
        population=population,
        notes=(),
    )
    return vj.Result(
        draws=draws,
        unconstrained=x,
        infos=vj.VHMCInfo(*(np.zeros((4, 200)) for _ in vj.VHMCInfo._fields))._replace(
            is_jump=np.ones((4, 200), bool), jump_accepted=np.ones((4, 200), bool)
        ),
        logdensities=logdensities,
        modes=mode_report(labels=labels, num_modes=num_modes).located(draws),
        evidence=Evidence(0.0, 0.01, 0.0, 0.01, 800.0, 0.1, weights, np.full(num_modes, 0.001), ()),
        frozen=frozen,
        phases=(Phase("discover", 1.0, 0.5, 1_000, 10), Phase("produce", 2.0, 1.5, 5_000, 0)),
        warnings=warnings,
        is_complete=True,
        final_states=None,
        next_iteration=200,
        problem=None,
    )
