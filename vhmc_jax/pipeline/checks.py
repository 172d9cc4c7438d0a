"""What a caller of ``sample`` gets wrong, said before the search starts."""

import dataclasses
import difflib
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax.arguments import is_concrete
from vhmc_jax.fit import FitOptions
from vhmc_jax.guide import as_guide, require_guide_fits
from vhmc_jax.models.problem import Problem
from vhmc_jax.search.region import Box, Starts
from vhmc_jax.store.records import encode

ORDER = "the order is sample(rng_key, logdensity_fn, region)"
ELSEWHERE = {
    "it is called num_burnin here, and what a warm-up tunes is tuned before": (
        "num_warmup warmup warm_up num_warm_up n_warmup num_warmup_steps iter_warmup tune n_tune num_tune burn_in "
        "burnin n_burnin num_burn_in num_burnin_steps num_adaptation_steps discard"
    ),
    "it is called num_samples here, the stored draws of each chain": (
        "draws n_draws num_results n_samples samples num_iterations iterations n_iterations iter_sampling num_steps "
        "n_steps nsteps"
    ),
    "it is called num_chains here": "chains n_chains nchains num_walkers n_walkers nwalkers",
    "it is called target_acceptance here": (
        "target_accept target_accept_prob target_acceptance_rate target_acceptance_prob adapt_delta"
    ),
    "it is called thinning here": "thin num_steps_between_results thin_by",
    "it is called progress here": "progress_bar progressbar verbose show_progress",
    "all chains run side by side in one program, and devices says where": "cores chain_method num_cores",
    "the key is the first argument, such as jax.random.key(0)": "seed random_seed rng_seed key rng",
    "region says where to look, and chains start from the fit": (
        "initial_positions initial_position initial_state init inits initvals init_params init_position bounds box "
        "prior"
    ),
    "sample chooses it; the kernels of vhmc_jax, as vj.hmc, take it": (
        "step_size num_integration_steps num_leapfrog_steps inverse_mass_matrix mass_matrix max_tree_depth "
        "max_treedepth"
    ),
}
"""What other libraries call the options of ``sample``, by what to say of it."""
LIKE = 0.7
"""How alike two names are of which one may be meant."""


def require_order(rng_key: Any, logdensity_fn: Any) -> None:
    """Raise where the key is none, and where something else stands in the place of the log density.

    Parameters
    ----------
    rng_key, logdensity_fn
        What was given as such.
    """
    if not _is_key(rng_key):
        hint = f"; {ORDER}" if callable(rng_key) or isinstance(rng_key, Problem) else ""
        came = f"{type(rng_key).__name__}: {rng_key!r}"
        raise TypeError(f"rng_key must be one key of JAX, such as jax.random.key(0), got {came}{hint}")
    if isinstance(logdensity_fn, Box) or not (callable(logdensity_fn) or isinstance(logdensity_fn, Problem)):
        came = "a key" if _is_key(logdensity_fn) else f"{type(logdensity_fn).__name__}: {logdensity_fn!r}"
        raise TypeError(f"logdensity_fn must be a function of a position or a vj.Problem, got {came}; {ORDER}")


def check_call(values: Any, options: Iterable[str], names: Iterable[str]) -> None:
    """Raise for a call that is traced, and for an option that does not exist.

    Parameters
    ----------
    values
        Pytrees that must be concrete.
    options
        Names of the further options that were given.
    names
        Names of the options that ``sample`` has beside those of ``FitOptions``.
    """
    if not is_concrete(values):
        raise TypeError(
            "sample cannot be compiled or mapped by jit, vmap or grad: it decides in Python what to run next. Call it "
            "in a loop; data of the same shape compile nothing anew if they are passed by jax.tree_util.Partial."
        )
    # A warm-up is not what num_warmup of FitOptions is about.
    known = sorted(({field.name for field in dataclasses.fields(FitOptions)} | set(names)) - {"num_warmup"})
    for option in options:
        if option not in known:
            raise TypeError(f"sample has no option {option!r}: {_meant(option, known)}")


def _meant(option: str, known: list[str]) -> str:
    """What may be meant by an option that does not exist."""
    for said, others in ELSEWHERE.items():
        if option in others.split():
            return said
    near = difflib.get_close_matches(option, known, 1, LIKE)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"


def checked_guide(guide: Any, region: Any, num_pilot: int | None, store: Any) -> Any:
    """A guide of the caller's as kernels take it, or an error that says what does not fit.

    Parameters
    ----------
    guide
        The guide.
    region
        Where to look, which has the shapes of positions.
    num_pilot
        Draws of a pilot run, for which nothing is left to do.
    store
        The folder for records, which has to hold the guide.

    Returns
    -------
    The guide.
    """
    if num_pilot:
        raise ValueError("a pilot run is for fitting the guide: leave out num_pilot, or guide")
    guide = as_guide(guide)
    require_guide_fits(guide, Starts(jax.random.key(0), region, None).template)
    if store is not None:
        try:
            encode(guide)
        except TypeError as error:
            raise TypeError(f"store holds guides of this package alone; leave out store, or guide: {error}") from None
    return guide


def _is_key(rng_key: Any) -> bool:
    """Whether it is one key, of the new kind or of the old."""
    if not isinstance(rng_key, jax.Array | np.ndarray):
        return False
    if jnp.issubdtype(rng_key.dtype, jax.dtypes.prng_key):
        return rng_key.shape == ()
    return rng_key.dtype == np.uint32 and rng_key.shape == (2,)
