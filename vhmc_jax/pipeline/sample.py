"""From a log density to draws in one call."""

import functools
import inspect
import math
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

from vhmc_jax import random
from vhmc_jax.arguments import as_count, as_parameter
from vhmc_jax.base import Array, PyTree, as_pytree_function
from vhmc_jax.diagnostics.draws import flatten_draws
from vhmc_jax.diagnostics.evidence import log_evidence
from vhmc_jax.diagnostics.modes.labels import values_at
from vhmc_jax.diagnostics.modes.report import mode_report
from vhmc_jax.pipeline.advice import advice, warn_of_narrow_starts
from vhmc_jax.pipeline.clock import Clock
from vhmc_jax.pipeline.frozen import Frozen, warm_up
from vhmc_jax.pipeline.result import Phase, Result
from vhmc_jax.runner.chains import Chains, run_chains
from vhmc_jax.search import Modes, find_modes

LEAST_BURNIN, MOST_BURNIN, UNFORGOTTEN = 10, 80, 1e-3
"""Burn-in goes on, within these bounds, until so few chains have not jumped."""
EVIDENCE_SHARE, MOST_EVIDENCE_DRAWS = 1 / 8, 8192
"""Draws of the guide for the evidence, for each draw of the chains, and at most."""
FITTED = ("num_starts", "target_acceptance", "num_tries", "jump_probability", "friction", "num_pilot")
"""Arguments that the search and the fit take alone."""


def sample(
    rng_key: Array,
    logdensity_fn: Callable,
    initial_positions: PyTree | Callable = None,
    *,
    num_chains: int = 64,
    num_samples: int = 1000,
    num_starts: int | None = None,
    target_acceptance: Any = 0.8,
    num_tries: int | None = None,
    jump_probability: float | None = None,
    friction: float = 0.5,
    num_burnin: int | None = None,
    thinning: int = 1,
    num_pilot: int = 0,
    frozen: Frozen | None = None,
    progress: bool = True,
    **fit_options: Any,
) -> Result:
    """Draw from a density with several modes.

    Three phases: discover the modes; warm up, that is fit the guide and choose step size, mass, envelope and jump
    probability; freeze all of it and produce with VHMC. Nothing adapts while draws are made.

    Parameters
    ----------
    rng_key
        Key of everything.
    logdensity_fn
        Log density of a position (a pytree of floating arrays), up to a constant.
    initial_positions
        Where the search for modes starts: positions with a leading axis, or a function rng_key → position that covers
        the region, such as ``vj.box(low, high)`` or a sampler of the prior. Not needed with ``frozen``.
    num_chains
        Chains, all in one compiled program; they start from the guide.
    num_samples
        Stored draws of each chain.
    num_starts
        Starts of the search, where they are drawn; by default as many as it takes.
    target_acceptance
        Acceptance of the local moves, to which the step size is found.
    num_tries
        The most candidates of a jump; by default one where nine jumps in ten then succeed, else four.
    jump_probability
        β; by default local moves take as great a share of the evaluations as that of the jumps that fail, from a
        fifth to a half.
    friction
        γ of the Langevin thermostats.
    num_burnin
        Iterations before the first stored one; by default 10, and more where few jumps succeed. Chains start from
        draws of the fit, and a jump that succeeds forgets where it came from.
    thinning
        One iteration in ``thinning`` is stored.
    num_pilot
        Draws of each chain in a pilot run of VHMC, to which the guide is fitted once more before it is frozen; 0 for
        none. It pays where the first fit is poor: a pilot run has the right weights, and sees whole modes.
    frozen
        ``result.frozen`` of an earlier call: produce with it, without searching and fitting again. What the fit would
        have decided is then not for the caller to give.
    progress
        Whether to show what is going on. Ctrl-C during production returns the draws so far in any case.
    fit_options
        Further options of ``fit_guide``: ``num_draws``, ``max_components``, ``df`` and so on.

    Returns
    -------
    The draws with a mode report, the evidence, what was frozen, the cost of each phase, and warnings.

    Examples
    --------
    >>> import jax, vhmc_jax as vj
    >>> target = vj.targets.far_pair(0.7)
    >>> region = vj.box(jax.numpy.full(2, -10.0), jax.numpy.full(2, 10.0))
    >>> result = vj.sample(jax.random.key(0), target.logdensity, region, progress=False)
    >>> result.draws.shape
    (64, 1000, 2)
    """
    logdensity_fn = as_pytree_function(logdensity_fn)
    num_chains, num_samples = as_count("num_chains", num_chains, 1), as_count("num_samples", num_samples, 1)
    if num_burnin is not None:
        num_burnin = as_count("num_burnin", num_burnin, 0)
    thinning = as_count("thinning", thinning, 1)
    num_pilot = as_count("num_pilot", num_pilot, 0)
    if num_tries is not None:
        num_tries = as_count("num_tries", num_tries, 1)
    if jump_probability is not None:
        as_parameter("jump_probability", jump_probability, nonnegative=True, at_most=1.0)
    if frozen is not None:
        values = num_starts, target_acceptance, num_tries, jump_probability, friction, num_pilot
        defaults = inspect.signature(sample).parameters
        changed = [name for name, value in zip(FITTED, values, strict=True) if value != defaults[name].default]
        if names := [*changed, *fit_options]:
            raise ValueError(f"frozen has been fitted already: leave out {', '.join(names)}, or frozen")
    if (initial_positions is None) == (frozen is None):
        given = "neither" if frozen is None else "both"
        raise ValueError(f"give initial_positions to search for modes, or frozen to produce with it, got {given}")
    key_modes, key_warmup, key_chains, key_evidence, key_pilot, key_refit = random.split(rng_key, 6)

    phases: list[Phase] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if frozen is None:
            with Clock() as clock:
                modes = find_modes(
                    random.as_jax_key(key_modes),
                    logdensity_fn,
                    initial_positions,
                    num_starts=num_starts,
                    progress=progress,
                )
                warn_of_narrow_starts(initial_positions, modes)
            phases.append(_phase("discover", clock, modes.num_gradients, modes.num_densities))
            fit = functools.partial(
                warm_up,
                logdensity_fn=logdensity_fn,
                modes=modes,
                target_acceptance=target_acceptance,
                num_tries=num_tries,
                jump_probability=jump_probability,
                friction=friction,
                **fit_options,
            )
            with Clock() as clock, _elapsed("warm-up", progress):
                frozen = fit(rng_key=random.as_jax_key(key_warmup))
            phases.append(_phase("warm up", clock, *_spent(modes, frozen)))
            if num_pilot:
                with Clock() as clock, _elapsed("pilot", progress):
                    pilot, cost = _produce(
                        random.as_jax_key(key_pilot), logdensity_fn, frozen, num_chains, num_pilot, num_burnin
                    )
                    positions, _, logdensities = pilot.kept
                    refitted = fit(rng_key=random.as_jax_key(key_refit), pilot=(positions, logdensities))
                gradients, densities = (a + b for a, b in zip(cost, _spent(modes, refitted), strict=True))
                frozen = refitted._replace(
                    num_gradients=frozen.num_gradients + gradients, num_densities=frozen.num_densities + densities
                )
                phases.append(_phase("pilot", clock, gradients, densities))

    with Clock() as clock:
        chains, cost = _produce(
            random.as_jax_key(key_chains),
            logdensity_fn,
            frozen,
            num_chains,
            num_samples,
            num_burnin,
            thinning=thinning,
            progress=progress,
            stop_on_interrupt=True,
        )
    draws, infos, logdensities = chains.kept
    phases.append(_phase("produce", clock, *cost))

    with Clock() as clock:
        at_draws = values_at(flatten_draws(draws), frozen.guide)
        report = mode_report(
            draws,
            frozen.guide,
            mode_of=frozen.guide_report.component_modes.tolist(),
            infos=infos,
            undiscovered_share=frozen.modes.undiscovered_share,
            guide_values=at_draws,
        )
        num_guide_draws = min(math.ceil(EVIDENCE_SHARE * logdensities.size), MOST_EVIDENCE_DRAWS)
        evidence = log_evidence(
            random.as_jax_key(key_evidence),
            logdensity_fn,
            frozen.guide,
            draws,
            logdensities=logdensities,
            num_guide_draws=num_guide_draws,
            mode_of=frozen.guide_report.component_modes,
            guide_values=at_draws,
        )
    phases.append(_phase("judge", clock, 0, num_guide_draws))
    return Result(
        draws=draws,
        infos=infos,
        logdensities=logdensities,
        modes=report,
        evidence=evidence,
        frozen=frozen,
        phases=tuple(phases),
        warnings=(*(str(warning.message) for warning in caught), *advice(frozen, infos, report, evidence.notes)),
        final_states=chains.final_states,
        next_iteration=chains.next_iteration,
    )


def _keep(state: Any, info: Any) -> tuple[PyTree, Any, Array]:
    return state.position, info, state.logdensity


def _phase(name: str, clock: Clock, num_gradients: int, num_densities: int) -> Phase:
    return Phase(name, clock.seconds, clock.compile_seconds, num_gradients, num_densities)


def _elapsed(name: str, progress: bool) -> tqdm:
    return tqdm(total=1, desc=name, bar_format="{desc}: {elapsed}", disable=not progress)


def _spent(modes: Modes, frozen: Frozen) -> tuple[int, int]:
    """Gradients and densities of the warm-up alone."""
    return frozen.num_gradients - modes.num_gradients, frozen.num_densities - modes.num_densities


def _produce(
    rng_key: Array,
    logdensity_fn: Callable,
    frozen: Frozen,
    num_chains: int,
    num_samples: int,
    num_burnin: int | None,
    **options: Any,
) -> tuple[Chains, tuple[int, int]]:
    """Chains of VHMC from the guide, and the gradients and densities of all iterations, stored or not."""
    key_starts, key_chains = (random.as_jax_key(key) for key in random.split(rng_key))
    starts = frozen.starts(key_starts, num_chains)
    kernel = frozen.kernel(logdensity_fn)
    num_burnin = _num_burnin(frozen) if num_burnin is None else num_burnin
    chains = run_chains(
        key_chains,
        kernel,
        starts,
        num_samples,
        num_burnin=num_burnin,
        keep=_keep,
        **options,
    )
    jax.block_until_ready(chains)
    gradients, densities = (
        round(float(np.sum(np.asarray(mean, np.float64))) * chains.next_iteration)
        for mean in (chains.info_means.num_gradients, chains.info_means.num_densities)
    )
    return chains, (gradients, densities)


def _num_burnin(frozen: Frozen) -> int:
    """Doubled from the least until all but one chain in a thousand have jumped: few numbers, so few programs."""
    stays, num = 1 - frozen.jump_probability * frozen.guide_report.expected_acceptance, LEAST_BURNIN
    while stays**num > UNFORGOTTEN and num < MOST_BURNIN:
        num *= 2
    return num
