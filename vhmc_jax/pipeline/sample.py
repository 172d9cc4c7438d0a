"""From a log density to draws in one call."""

import warnings
from collections.abc import Callable
from typing import Any

from vhmc_jax import random
from vhmc_jax.arguments import as_count
from vhmc_jax.base import Array, PyTree, TrustWarning
from vhmc_jax.fit import FitOptions
from vhmc_jax.models.problem import Problem, as_problem
from vhmc_jax.pipeline.checks import check_call, checked_guide, require_order
from vhmc_jax.pipeline.discover import Discovered, discover
from vhmc_jax.pipeline.fit import fit, take
from vhmc_jax.pipeline.fold import Fold, fold
from vhmc_jax.pipeline.frozen import Frozen
from vhmc_jax.pipeline.identity import stored_at
from vhmc_jax.pipeline.judge import judge
from vhmc_jax.pipeline.phase import Phases
from vhmc_jax.pipeline.produce import Amount, produce
from vhmc_jax.pipeline.result import Result
from vhmc_jax.pipeline.rounds import Answer, Call, fold_labels, refit_to_pilot, second_round
from vhmc_jax.pipeline.tune import Tuning, tune
from vhmc_jax.runner.devices import mesh_of
from vhmc_jax.runner.hosts import Hosts
from vhmc_jax.store.fingerprint import digest_of


def sample(
    rng_key: Array,
    logdensity_fn: Callable | Problem,
    region: PyTree | Callable = None,
    *,
    num_chains: int = 64,
    num_samples: int = 1000,
    num_burnin: int | None = None,
    thinning: int = 1,
    num_starts: int | None = None,
    num_pilot: int | None = None,
    max_evaluations: int = 2_000_000,
    jump_probability: float | None = None,
    friction: float | None = None,
    guide: Any = None,
    frozen: Frozen | None = None,
    symmetries: Any = None,
    progress: bool = True,
    store: Any = None,
    resume: str = "same",
    devices: Any = None,
    **fit_options: Any,
) -> Result:
    """Draw from a density with several modes.

    Five phases: discover the modes; fit a guide to them; tune step size, mass, envelope and jump probability, and
    freeze all of it; produce with VHMC; judge the draws. Nothing adapts while draws are made. Where the audit finds
    fault with the guide, there is a second round.

    Parameters
    ----------
    rng_key
        Key of everything.
    logdensity_fn
        Log density of a position (a pytree of floating arrays), up to a constant; or a ``vj.Problem``, as
        ``vj.from_numpyro`` and others make one.
    region
        Where to look for modes: positions with a leading axis, or a function rng_key → position that covers the region,
        such as ``vj.box(low, high)`` or a sampler of the prior. By default that of the problem. Not needed with
        ``frozen``.
    num_chains
        Chains, all in one compiled program; they start from the guide.
    num_samples
        Stored draws of each chain.
    num_burnin
        Iterations before the first stored one; by default 10, and more where few jumps succeed. Chains start from
        draws of the fit, and a jump that succeeds forgets where it came from.
    thinning
        One iteration in ``thinning`` is stored.
    num_starts
        Starts of the search, where they are drawn; by default as many as it takes.
    num_pilot
        Draws of each chain in a pilot run of VHMC, to which the guide is fitted once more before it is frozen; 0 for
        none. It pays where the first fit is poor: a pilot run has the right weights, and sees whole modes.
    max_evaluations
        About the most evaluations of the density before production, in each round. The search and the population stop
        there. A production that took more is not followed by a second round.
    jump_probability
        β; by default local moves get the share of the evaluations that jumps are expected to fail, from a fifth to a
        half; in a second round four fifths.
    friction
        γ of the Langevin thermostats; by default 0.5.
    guide
        A guide of the caller's, in place of the one that would be fitted: a mixture, a normalising flow, a distribution
        of another library, or anything with ``sample(rng_key)`` and ``log_prob(x)`` on flat vectors, in the order of
        ``ravel_pytree``, normalised. It is audited as a fitted one is.
    frozen
        ``result.frozen`` of an earlier call: produce with it, without searching and fitting again. What the fit would
        have decided is then not for the caller to give, but for the symmetries, which are given again.
    symmetries
        Maps that leave the density as it is, as ``vj.symmetry`` takes them: ``vj.permutations(...)``,
        ``vj.signs(...)``, maps. Of all images of a position one is sampled; the draws and the evidence cover all of
        them, and the mode report counts a mode and its images as one. Labels are put in the order of the first
        parameter that is named. A map that changes the density is an error. Those of a problem are of its named
        parameters, as ``result.draws`` has them; ``vj.permutations("component")`` are those of all that have this
        dimension. By default, where the search finds more modes than it can list, it looks for labels that may be
        exchanged, and takes them; False for none.
    progress
        Whether to show what is going on. Ctrl-C or SIGTERM from production on return the draws so far in any case.
    store
        A folder to which every phase writes what it found, and production its draws, chunk by chunk. The same call
        again goes on where the last one ended, and ends with the same bits. ``open_run`` reads the draws meanwhile.
        Draws of a run so long that only one in ``result.judged_every`` is judged stay on the disk.
    resume
        ``"same"`` to refuse a store of another call: another key, density, region, setting or version. ``"as is"`` to
        go on with it in spite of that, with a greater ``num_samples`` for instance.
    devices
        As for ``run_chains``: those among which production divides the chains. Where they are those of several
        processes, all of them make this call. The first one finds, fits and judges, and the others receive it.
    fit_options
        Those of ``FitOptions``: ``target_acceptance`` (of the local moves, too), ``num_draws`` (to fit a mode to),
        ``max_components``, ``df`` and so on, but not ``num_warmup``. ``num_tries`` is by default one where nine jumps
        in ten then succeed, else four.

    Returns
    -------
    The draws with a mode report, the evidence, what was frozen, the cost of each phase, and warnings.

    Warns
    -----
    TrustWarning
        For each of the warnings of the result: something disagrees with the answer.

    Examples
    --------
    >>> import jax, vhmc_jax as vj
    >>> target = vj.targets.far_pair(0.7)
    >>> region = vj.box(jax.numpy.full(2, -10.0), jax.numpy.full(2, 10.0))
    >>> result = vj.sample(jax.random.key(0), target.logdensity, region, progress=False)
    >>> result.draws.shape
    (64, 1000, 2)
    """
    require_order(rng_key, logdensity_fn)
    problem = as_problem(logdensity_fn)
    check_call((rng_key, problem.logdensity_fn, region), fit_options, sample.__kwdefaults__ or ())
    region = problem.region if region is None and frozen is None else region
    amount = Amount(num_chains, num_samples, num_burnin, thinning).checked()
    options = FitOptions(**{"num_tries": None} | fit_options)
    tuning = Tuning(options.target_acceptance, jump_probability, friction).checked()
    num_pilot = None if num_pilot is None else as_count("num_pilot", num_pilot, 0)
    num_starts = None if num_starts is None else as_count("num_starts", num_starts, 1)
    given: dict[str, Any] = {"num_starts": num_starts, "num_pilot": num_pilot, "jump_probability": jump_probability}
    _require_one_way(region, frozen, given | {"friction": friction, "guide": guide} | fit_options)
    guide = None if guide is None else checked_guide(guide, region, num_pilot, store)
    budget = as_count("max_evaluations", max_evaluations, 1)
    folded = fold(rng_key, problem, region, frozen, symmetries)
    settings = given | {"amount": amount, "options": options, "tuning": tuning, "max_evaluations": budget}
    settings |= {"symmetries": "none"} if symmetries is False else folded.settings
    settings |= {} if guide is None else {"guide": digest_of(guide)}
    hosts = Hosts.of(mesh_of(devices, num_chains))
    stored = stored_at(store, resume, rng_key, folded.logdensity_fn, folded.region, frozen, settings)
    phases = Phases(progress and hosts.number == 0, stored, hosts)
    phases.check_store()
    target = folded.logdensity_fn, folded.region
    call = Call(*target, num_starts, budget, progress, options, tuning, amount, devices)
    keys = [random.as_jax_key(key) for key in random.split(rng_key, 10)]
    key_discover, key_fit, key_tune, *keys_pilot, key_produce, key_judge, key_again, key_labels = keys

    found: Discovered | None = None
    if frozen is None:
        found = phases.run("discover", discover, key_discover, *call.search)
        if symmetries is None and guide is None:
            folded, call, found = fold_labels(key_labels, phases, folded, call, found)
        folded.check(found.modes.positions)
        if guide is None:
            fitted = phases.run("fit", fit, key_fit, *call.target, found, options)
        else:
            fitted = phases.run("fit", take, key_fit, call.logdensity_fn, guide, found, options)
        frozen = phases.run("tune", tune, key_tune, call.logdensity_fn, fitted, tuning).frozen
        if num_pilot:
            frozen = refit_to_pilot(keys_pilot, phases, call, found, frozen, num_pilot)
    produced = phases.run_chains("produce", produce, key_produce, call.logdensity_fn, frozen, *call.production)
    judged = phases.run_to_end("judge", judge, key_judge, call.logdensity_fn, frozen, produced)
    answer = Answer(frozen, produced, judged)
    may_go_on = guide is None and num_pilot is None and produced.is_complete and sum(produced.cost) <= budget
    if found is not None and may_go_on and judged.asks_again:
        answer = second_round(key_again, phases, call, found, answer)
    if answer.produced.is_complete:
        phases.finish(answer.judged.notes)
    for note in answer.judged.notes:
        warnings.warn(note, TrustWarning, stacklevel=2)
    return _result(problem, folded, answer, phases)


def _result(problem: Problem, folded: Fold, answer: Answer, phases: Phases) -> Result:
    """The answer as the user knows it: by the names of the problem, and for all images under its symmetries."""
    frozen, produced, judged = answer
    unconstrained = folded.unfold(produced.draws)
    draws = problem.constrained(unconstrained)
    is_seen = folded.domain is None and produced.judged_every == 1
    seen = draws if is_seen else problem.constrained(produced.seen.draws)
    return Result(
        draws=draws,
        unconstrained=unconstrained,
        infos=produced.infos,
        logdensities=produced.logdensities,
        modes=judged.modes.located(seen),
        evidence=folded.whole_evidence(judged.evidence),
        frozen=folded.remembered_by(frozen),
        phases=phases.done,
        warnings=judged.notes,
        is_complete=produced.is_complete,
        final_states=produced.final_states,
        next_iteration=produced.next_iteration,
        problem=problem,
        judged_every=produced.judged_every,
        representatives=None if folded.domain is None else produced.draws,
    )


def _require_one_way(region: Any, frozen: Frozen | None, given: dict[str, Any]) -> None:
    """Raise unless there is a region to search or a frozen kernel to produce with, and not a part of both."""
    if (region is None) == (frozen is None):
        came = "neither" if frozen is None else "both"
        raise ValueError(
            f"give a region to search for modes, such as vj.box(low, high), or frozen to produce with it, got {came}"
        )
    if frozen is not None and not isinstance(frozen, Frozen):
        raise TypeError(f"frozen must be result.frozen of an earlier call, got {type(frozen).__name__}: {frozen!r}")
    if frozen is not None and (names := [name for name, value in given.items() if value is not None]):
        raise ValueError(f"frozen has been fitted already: leave out {', '.join(names)}, or frozen")
