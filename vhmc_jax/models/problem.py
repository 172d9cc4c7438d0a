"""A problem: a log density on unconstrained positions, and what its user knows about it."""

import functools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
from jax.tree_util import Partial

from vhmc_jax.base import Array, PyTree, as_pytree_function
from vhmc_jax.store.stitched import is_stitched, mapped

TAKEN = ("chain", "draw")
"""Names of the first two axes of all draws in ArviZ."""
NUM_PRIOR_DRAWS = 1000
"""Draws of a prior that is a function."""
MANY_NUMBERS = 100_000_000
"""Log likelihoods that are not computed unasked: 800 MB in double precision."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Problem:
    """A log density on unconstrained positions, with the way back to the parameters that a user knows by name.

    ``vj.sample(rng_key, problem)`` takes one. ``from_numpyro``, ``from_pymc``, ``from_log_prob`` and ``constrain``
    make one. The functions are callable pytrees: where they hold data as leaves, as ``jax.tree_util.Partial`` does,
    other data of the same shape compile nothing anew.

    Attributes
    ----------
    logdensity_fn
        Log density of an unconstrained position, up to a constant; the Jacobian of ``constrain`` is in it.
    region
        Where to look for modes, in unconstrained space, as ``sample`` takes it. None if ``sample`` is to be told.
    constrain
        From an unconstrained position to a dict of named values. None where positions are what the user knows.
    unconstrain
        The way back: from a dict of the parameters to the unconstrained position. None where it is not known. With it,
        ``symmetries`` of ``sample`` are those of the named parameters.
    parameters
        Names of the values that ``unconstrain`` takes. The other values are computed from them. None for all.
    log_likelihood
        From an unconstrained position to a dict: for each observed variable, the log likelihood of its values.
    predict
        From a key and an unconstrained position to a dict: the observed variables, drawn anew.
    prior
        The prior, as ``region`` gives positions: a function rng_key → position, or draws of it on a leading axis. None
        where it is not known.
    observed_data
        Observed values by name.
    dims
        Names of the dimensions of each variable, as ArviZ takes them.
    coords
        Labels along dimensions, as ArviZ takes them.
    """

    logdensity_fn: Callable
    region: PyTree | Callable = None
    constrain: Callable | None = None
    unconstrain: Callable | None = None
    parameters: Sequence[str] | None = None
    log_likelihood: Callable | None = None
    predict: Callable | None = None
    prior: PyTree | Callable = None
    observed_data: Mapping[str, Any] = field(default_factory=dict)
    dims: Mapping[str, Any] = field(default_factory=dict)
    coords: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("logdensity_fn", "constrain", "unconstrain", "log_likelihood", "predict"):
            function = getattr(self, name)
            if function is None and name != "logdensity_fn":
                continue
            if not callable(function):
                raise TypeError(f"{name} must be a function, got {type(function).__name__}: {function!r}")
            object.__setattr__(self, name, as_pytree_function(function))
        if self.unconstrain is not None and self.constrain is None:
            raise ValueError("unconstrain must come with constrain, which it undoes, got none")
        if clash := [name for name in (*(self.parameters or ()), *self.dims, *self.observed_data) if name in TAKEN]:
            raise ValueError(f"a variable must not be called chain or draw, as {clash[0]!r} is: ArviZ has these names")
        for variable, names in self.dims.items():
            if clash := [name for name in names if name in (*TAKEN, variable)]:
                raise ValueError(
                    f"dims of {variable!r} must not be called chain, draw or {variable}, as {clash[0]!r} is: ArviZ has "
                    "these names already"
                )

    def constrained(self, draws: PyTree) -> PyTree:
        """Draws (chain, draw, ...) of unconstrained positions as the user knows them: a dict of named values."""
        if self.constrain is None:
            return draws
        constrain = functools.partial(at_draws, self.constrain)
        return mapped(constrain, draws) if is_stitched(draws) else constrain(draws)

    def log_likelihoods(self, draws: PyTree, wanted: bool | None = True) -> dict[str, Any]:
        """Log likelihood of each observed value at unconstrained draws, (chain, draw, ...).

        Empty if it is not wanted, or not known; with None, also if it is more than 10⁸ numbers, with a warning.
        """
        if wanted is False or self.log_likelihood is None:
            return {}
        shapes = jax.eval_shape(at_draws, self.log_likelihood, draws)
        size = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))
        if wanted is None and size > MANY_NUMBERS:
            warnings.warn(
                f"The log likelihood is left out: it is {size:,} numbers. Ask for it by log_likelihood=True, or store "
                "fewer draws.",
                stacklevel=3,
            )
            return {}
        return at_draws(self.log_likelihood, draws)

    def predictions(self, rng_key: Array | None, draws: PyTree) -> dict[str, Any]:
        """Observed variables drawn anew at unconstrained draws, (chain, draw, ...). Empty without a key."""
        if rng_key is None:
            return {}
        if self.predict is None:
            raise ValueError("posterior_predictive must be left out: the problem has no predict")
        num_chains, num_draws = jax.tree.leaves(draws)[0].shape[:2]
        keys = jax.vmap(lambda key: jax.random.split(key, num_draws))(jax.random.split(rng_key, num_chains))
        return at_draws(Partial(_of_pair, self.predict), (keys, draws))

    def prior_draws(self) -> dict[str, Any]:
        """Draws of the prior as one chain, (1, draw, ...), by the names of the values. Empty where it is not known."""
        if self.prior is None:
            return {}
        positions = self.prior
        if callable(positions):
            positions = jax.vmap(positions)(jax.random.split(jax.random.key(0), NUM_PRIOR_DRAWS))
        return self.constrained(jax.tree.map(lambda leaf: leaf[None], positions))


def as_problem(logdensity_or_problem: Callable | Problem) -> Problem:
    """A problem as it is; a log density as a problem of which nothing more is known."""
    if isinstance(logdensity_or_problem, Problem):
        return logdensity_or_problem
    return Problem(logdensity_fn=as_pytree_function(logdensity_or_problem))


def _of_pair(function: Callable, pair: tuple[Any, PyTree]) -> Any:
    return function(*pair)


@jax.jit
def at_draws(function: Callable, draws: PyTree) -> Any:
    """A function of one position, at each of (chain, draw, ...). Chains go one after another, to bound the memory."""
    return jax.lax.map(jax.vmap(function), draws)
