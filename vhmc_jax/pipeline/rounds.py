"""What a call of ``sample`` runs besides its five phases: a search of one image, a pilot run, and a second round."""

from collections.abc import Callable
from typing import Any, NamedTuple

from vhmc_jax import random
from vhmc_jax.base import Array, PyTree
from vhmc_jax.fit import FitOptions
from vhmc_jax.pipeline.agreement import Round
from vhmc_jax.pipeline.audit import MANY_UNDISCOVERED
from vhmc_jax.pipeline.discover import Discovered, discover, rediscover
from vhmc_jax.pipeline.exchange import exchangeable_labels, starts_of
from vhmc_jax.pipeline.fit import fit
from vhmc_jax.pipeline.fold import Fold, fold
from vhmc_jax.pipeline.frozen import Frozen
from vhmc_jax.pipeline.judge import Judged, judge
from vhmc_jax.pipeline.phase import Phases
from vhmc_jax.pipeline.produce import Amount, Produced, produce
from vhmc_jax.pipeline.tune import Tuning, tune


class Call(NamedTuple):
    """What a call of ``sample`` asks of its phases.

    Attributes
    ----------
    logdensity_fn
        Log density of a pytree position.
    region
        Where to look for modes.
    num_starts
        Starts of the search; None for as many as it takes.
    max_evaluations
        About the most evaluations before production.
    progress
        Whether to show what is going on.
    options
        How to fit.
    tuning
        What is wanted of the kernel.
    amount
        How much to produce.
    devices
        Where the chains run.
    """

    logdensity_fn: Callable
    region: PyTree | Callable
    num_starts: int | None
    max_evaluations: int
    progress: bool
    options: FitOptions
    tuning: Tuning
    amount: Amount
    devices: Any

    @property
    def search(self) -> tuple[Any, ...]:
        """The arguments of ``discover`` after the key."""
        return self.logdensity_fn, self.region, self.num_starts, self.max_evaluations, self.progress

    @property
    def target(self) -> tuple[Any, ...]:
        """Those of ``fit`` that come first."""
        return self.logdensity_fn, self.region

    @property
    def production(self) -> tuple[Any, ...]:
        """The last ones of ``produce``."""
        return self.amount, self.progress, self.devices


def fold_labels(
    rng_key: Array, phases: Phases, folded: Fold, call: Call, found: Discovered
) -> tuple[Fold, Call, Discovered]:
    """The search once more for one of all images, where it found too many modes and labels may be exchanged."""
    if found.modes.undiscovered_mass <= MANY_UNDISCOVERED:
        return folded, call, found
    key_fold, key_starts, key_discover = (random.as_jax_key(key) for key in random.split(rng_key, 3))
    labels = exchangeable_labels(folded.problem, found.modes, starts_of(key_starts, call.region))
    if labels is None:
        return folded, call, found
    folded = fold(key_fold, folded.problem, call.region, None, labels)._replace(has_found_labels=True)
    call = call._replace(logdensity_fn=folded.logdensity_fn, region=folded.region)
    return folded, call, phases.run("discover one image", discover, key_discover, *call.search)


class Answer(NamedTuple):
    """What a round leads to.

    Attributes
    ----------
    frozen
        The kernel.
    produced
        Its draws.
    judged
        What they are worth.
    """

    frozen: Frozen
    produced: Produced
    judged: Judged


def refit_to_pilot(
    rng_keys: list[Array], phases: Phases, call: Call, found: Discovered, frozen: Frozen, num_pilot: int
) -> Frozen:
    """A kernel whose guide is fitted to a pilot run of the one that is given, of so many draws a chain."""
    key_pilot, key_refit, key_retune = rng_keys
    short = call._replace(amount=call.amount._replace(num_samples=num_pilot, thinning=1))
    pilot = phases.run_chains("pilot", produce, key_pilot, call.logdensity_fn, frozen, *short.production)
    fitted = phases.run("refit", fit, key_refit, *call.target, found, call.options, pilot)
    return phases.run("retune", tune, key_retune, call.logdensity_fn, fitted, call.tuning).frozen


def second_round(rng_key: Array, phases: Phases, call: Call, found: Discovered, first: Answer) -> Answer:
    """The phases once more, with the draws of the first round to look at. Ctrl-C returns the first round's answer."""
    keys = [random.as_jax_key(key) for key in random.split(rng_key, 5)]
    key_discover, key_fit, key_tune, key_produce, key_judge = keys
    logdensity_fn, before = call.logdensity_fn, Round(first.produced, first.judged.evidence)
    try:
        if phases.is_interrupted:
            raise KeyboardInterrupt
        found = phases.run("rediscover", rediscover, key_discover, *call.search, found, first.produced)
        fitted = phases.run("refit", fit, key_fit, *call.target, found, call.options, None, True)
        frozen = phases.run("retune", tune, key_tune, logdensity_fn, fitted, call.tuning._replace(is_again=True)).frozen
        produced = phases.run_chains("reproduce", produce, key_produce, logdensity_fn, frozen, *call.production)
        if not produced.is_complete:
            raise KeyboardInterrupt
        judged = phases.run_to_end("rejudge", judge, key_judge, logdensity_fn, frozen, produced, before)
    except KeyboardInterrupt:
        return first._replace(produced=first.produced._replace(is_complete=False))
    return Answer(frozen, produced, judged)
