"""The samplers of shapes.py in one form: ours, and three of the folder ``peers`` at a number of evaluations.

A peer runs with a guess of its budget, which tells what it costs, and once more where that was far from the number of
evaluations that is asked for. Tempered SMC has no chains: eight independent islands take an eighth each, so that their
disagreement gives the error.
"""

import importlib
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from trust_densities import Density
from trust_densities.shapes import Shape

import vhmc_jax as vj

sys.path.append(str(Path(__file__).resolve().parent / "peers"))

NUM_ISLANDS, TUNING_SEED = 8, 1000
WHOLE = {"nuts": 1e6, "smc": 2e6, "tempering": 1e6}
"""Evaluations of a whole budget, about: a first guess."""


class Run(NamedTuple):
    """What a sampler leaves.

    Attributes
    ----------
    draws
        Shape (chain, draw, d); islands count as chains.
    evaluations
        Gradients and density values, of warm-up, search and fit too.
    seconds
        With compiling for ours, without it for the peers.
    evidence
        Log Z and its error, or None.
    warnings
        What the sampler says against its answer.
    details
        Further figures for the JSON.
    """

    draws: np.ndarray
    evaluations: float
    seconds: float
    evidence: tuple[float, float] | None = None
    warnings: tuple[str, ...] = ()
    details: dict[str, Any] | None = None


class Target:
    """A shape in the form that the peers know: starts from the region, and the Gaussian with the region's moments."""

    def __init__(self, shape: Shape, density: Density):
        self.name, self.dim, self.scales = shape.case.name, density.dim, (shape.width,)
        self.target, self._region = density, density.region
        draws = self.starts(jax.random.key(0), 4096)
        self.centre, self._sds = jnp.mean(draws, axis=0), jnp.std(draws, axis=0)
        self.spread = float(jnp.sqrt(jnp.mean(self._sds**2)))

    def starts(self, rng_key: Any, num: int) -> Any:
        """Draws of the region."""
        return jax.vmap(self._region)(jax.random.split(rng_key, num))

    def prior_draws(self, rng_key: Any, num: int) -> Any:
        """Draws of the Gaussian."""
        return self.centre + self._sds * jax.random.normal(rng_key, (num, self.dim))

    def log_prior(self, x: Any) -> Any:
        """Its log density."""
        return jnp.sum(jax.scipy.stats.norm.logpdf(x, self.centre, self._sds))

    def log_likelihood(self, x: Any) -> Any:
        """What turns it into the target."""
        return self.target.logdensity(x) - self.log_prior(x)


def run_ours(density: Density, seed: int, symmetries: Any = None) -> Run:
    """``vj.sample`` with its defaults, and with symmetries where they are given."""
    started = time.perf_counter()
    key = jax.random.key(seed)
    result = vj.sample(key, density.logdensity, density.region, symmetries=symmetries, progress=False)
    seconds = time.perf_counter() - started
    return Run(
        np.asarray(result.draws),
        sum(phase.num_gradients + phase.num_densities for phase in result.phases),
        seconds,
        (float(result.log_evidence), float(result.log_evidence_error)),
        tuple(result.warnings),
        details_of(result),
    )


def details_of(result: vj.Result) -> dict[str, Any]:
    """Why a run went as it did: the guide, the jumps, the local moves, and the phases."""
    frozen, infos = result.frozen, result.infos
    report, is_jump = frozen.guide_report, np.asarray(infos.is_jump)
    local = np.asarray(infos.acceptance_rate)[~is_jump]
    guide = frozen.guide
    return {
        "guide": type(guide).__name__,
        "num_components": int(np.sum([len(m.means) for m in getattr(guide, "mixtures", [guide])])),
        "num_blocks": len(getattr(guide, "mixtures", [guide])),
        "num_modes": len(report.mode_weights),
        "expected_acceptance": float(report.expected_acceptance),
        "jumps_accepted": float(np.sum(infos.jump_accepted) / max(1, np.sum(is_jump))),
        "jump_probability": float(frozen.jump_probability),
        "num_tries": int(frozen.num_tries),
        "largest_pareto_k": float(np.max(report.pareto_k)),
        "step_size": np.atleast_1d(frozen.step_size).tolist(),
        "num_integration_steps": list(frozen.num_integration_steps),
        "local_acceptance": float(np.mean(local)) if local.size else None,
        "phases": {p.name: [p.seconds, p.num_gradients, p.num_densities] for p in result.phases},
    }


def run_peer(name: str, shape: Shape, density: Density, evaluations: float, seed: int) -> Run:
    """One of the peers, tuned, with about so many evaluations."""
    module, target = importlib.import_module(name), Target(shape, density)
    settings, tried = tuned(name, target, shape, evaluations)
    num_runs = NUM_ISLANDS if name == "smc" else 1
    first, budget = _matched(module, target, settings, evaluations / num_runs, seed * num_runs)
    others = [module.run(target, settings, budget, seed * num_runs + i) for i in range(1, num_runs)]
    outcomes = [first, *others]
    num_chains = outcomes[0].num_groups * len(outcomes)
    draws = np.concatenate([np.asarray(outcome.draws) for outcome in outcomes])
    return Run(
        draws.reshape(num_chains, -1, density.dim),
        sum(outcome.num_evaluations for outcome in outcomes),
        sum(outcome.seconds for outcome in outcomes),
        details={"settings": settings, "budget": budget, "tried": tried},
    )


def _matched(module: Any, target: Target, settings: dict[str, Any], evaluations: float, seed: int) -> tuple[Any, float]:
    """The outcome of a run that takes about so many evaluations, and its budget: by proportion from a guess."""
    budget = evaluations / WHOLE[module.__name__]
    for _ in range(4):
        outcome = module.run(target, settings, budget, seed)
        ratio = outcome.num_evaluations / evaluations
        if 0.6 < ratio < 1.8:
            break
        budget /= ratio
    return outcome, budget


def tuned(name: str, target: Target, shape: Shape, evaluations: float) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Of every other setting of the peer's grid that with the least squared error times cost, and what was tried.

    Each setting takes an eighth of the evaluations with a seed of its own, which counts nowhere.
    """
    module = importlib.import_module(name)
    grid = module.grid(target)
    if name == "nuts" or not shape.modes:
        return grid[-1 if name == "nuts" else 0], []
    tried = []
    for settings in grid[::2]:
        outcome, _ = _matched(module, target, settings, evaluations / 8, TUNING_SEED)
        draws = np.asarray(outcome.draws, np.float64).reshape(-1, target.dim)
        errors = []
        for quantity in target.target.quantities:
            values = quantity.function(draws)
            errors.append((np.mean(values) - quantity.truth) / max(float(np.std(values)), 1e-3))
        score = float(np.mean(np.square(errors))) * outcome.num_evaluations
        tried.append({"settings": settings, "score": score if np.isfinite(score) else np.inf})
    return min(tried, key=lambda row: row["score"])["settings"], tried
