"""The candidate of a jump: the first draw of a guide that passes an envelope.

Notation: π the target, unnormalised, q the guide, normalised, c the envelope; w(θ) = max(1, π(θ) / (c q(θ))).

Rounding: log π and log c may be large, since neither is normalised, while log q and what the jump needs are not.
So large numbers are subtracted from each other first. log π − log c is exact in floating point where the two are within
a factor of two of each other, and so is log π(θ*) − log π(θ).
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from vhmc_jax import random
from vhmc_jax.arguments import as_count, as_parameter, cast
from vhmc_jax.base import Array, PyTree, State, as_pytree_function
from vhmc_jax.guide import HasComponents, Prepares, as_guide, draw_from, require_guide_fits
from vhmc_jax.lazy import lazy_cond

FORMS = ("exact", "paper")


class Heights(NamedTuple):
    """What a jump knows of a point: log π and log q there."""

    logdensity: Array
    log_prob: Array


class Candidate(NamedTuple):
    """The first of the tries that passed the envelope.

    Attributes
    ----------
    state
        The state there, with its gradient; that of some try where none passed.
    heights
        log π and log q there.
    is_found
        Whether one passed.
    jump_to
        Its component; −1 where none passed.
    num_gradients
        What the tries cost: one each.
    """

    state: Any
    heights: Heights
    is_found: Array
    jump_to: Array
    num_gradients: Array


class Try(NamedTuple):
    """The state at a draw of the guide, log π and log q, whether they passed the envelope, and the component."""

    state: Any
    heights: Heights
    is_found: Array
    label: Array


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["guide", "log_envelope"],
    meta_fields=["num_tries", "form"],
)
@dataclass(frozen=True)
class Jump:
    """A guide, an envelope and a number of tries.

    Attributes
    ----------
    guide
        Draws and densities on flat vectors, as a pytree.
    log_envelope
        log c.
    num_tries
        Candidates drawn at most.
    form
        ``"exact"``, or ``"paper"`` for w ≡ 1.
    """

    guide: Any
    log_envelope: Array
    num_tries: int
    form: str

    def heights(self, logdensity: Array, x: Array) -> Heights:
        """Both at a point x whose log π is at hand. Where that is not finite the density counts as zero."""
        return Heights(jnp.where(jnp.isfinite(logdensity), logdensity, -jnp.inf), self.guide.log_prob(x))

    def log_ratio(self, at: Heights) -> Array:
        """Log of π / (c q): −inf where π is zero, and NaN, which no try passes, where q is not a number there."""
        ratio = at.logdensity - cast(self.log_envelope, at.logdensity.dtype) - at.log_prob
        return jnp.where(at.logdensity == -jnp.inf, -jnp.inf, ratio)

    def log_weight_ratio(self, there: Heights, here: Heights) -> Array:
        """Log of w(θ*) / w(θ); 0 in the paper's form, where w ≡ 1.

        Where both points rise above the envelope, c cancels: it is left out, so that no c is too far from π / q for
        the precision at hand. Where q is not a number no jump leads, and w is infinite: none leads away.
        """
        if self.form == "paper":
            return jnp.zeros_like(there.logdensity)
        above_there, above_here = self.log_ratio(there), self.log_ratio(here)
        without_envelope = (there.logdensity - here.logdensity) - (there.log_prob - here.log_prob)
        with_envelope = jnp.maximum(above_there, 0.0) - jnp.maximum(above_here, 0.0)
        log_ratio = jnp.where((above_there > 0) & (above_here > 0), without_envelope, with_envelope)
        return jnp.where(jnp.isnan(above_here), -jnp.inf, log_ratio)

    def log_acceptance(self, candidate: Candidate, here: Heights, log_ratio: Array | float = 0.0) -> Array:
        """Log of min(1, w(θ*) / w(θ) · ratio); −inf where no candidate was found."""
        log_alpha = jnp.minimum(self.log_weight_ratio(candidate.heights, here) + log_ratio, 0.0)
        return jnp.where(candidate.is_found & ~jnp.isnan(log_alpha), log_alpha, -jnp.inf)

    def label(self, x: Array) -> Array:
        """The guide's most responsible component at x; −1 where the guide has none."""
        if not isinstance(self.guide, HasComponents):
            return jnp.int32(-1)
        return jnp.argmax(self.guide.component_log_probs(x)).astype(jnp.int32)

    def sample(self, rng_key: Any) -> Array:
        """One draw of the guide, with a key of JAX's own unless it takes any."""
        return draw_from(self.guide, rng_key)

    def draw_candidate(self, rng_key: Any, state_at: Callable) -> Candidate:
        """The first of the draws with u < π / (c q): a draw in proportion to min(π, c q).

        Parameters
        ----------
        rng_key
            Key of all tries.
        state_at
            From a flat vector to the state there.

        Returns
        -------
        The candidate.
        """

        def draw(rng_key: Any) -> tuple[State, Heights, Array]:
            x = self.sample(rng_key)
            state = state_at(x)
            return state, self.heights(state.logdensity, x), x

        return self.first_that_passes(rng_key, draw)

    def first_that_passes(self, rng_key: Any, draw: Callable) -> Candidate:
        """The first of the tries with u < π / (c q). Never the best of them.

        The first try passes more often than not. The others are evaluated, as one batch, only where it does not.

        Parameters
        ----------
        rng_key
            Key of all tries.
        draw
            From a key to a state, its heights, and the flat vector that is labelled.

        Returns
        -------
        The candidate.
        """

        def attempt(rng_key: Any) -> Try:
            key_sample, key_uniform = random.split(rng_key)
            state, heights, x = draw(key_sample)
            log_ratio = self.log_ratio(heights)
            log_uniform = jnp.log(random.uniform(key_uniform, dtype=log_ratio.dtype))
            return Try(state, heights, log_uniform < log_ratio, self.label(x))

        def later_tries() -> Try:
            numbers = jnp.arange(1, self.num_tries)
            tries = jax.vmap(lambda number: attempt(random.fold_in(key_later, number)))(numbers)
            number = jnp.argmax(tries.is_found)
            return jax.tree.map(lambda leaf: leaf[number], tries)

        key_first, key_later = random.split(rng_key)
        first = chosen = attempt(key_first)
        if self.num_tries > 1:
            chosen = lazy_cond(~first.is_found, later_tries, first)
        return Candidate(
            state=chosen.state,
            heights=chosen.heights,
            is_found=chosen.is_found,
            jump_to=jnp.where(chosen.is_found, chosen.label, -1),
            num_gradients=jnp.where(first.is_found, 1, self.num_tries).astype(jnp.int32),
        )

    def check_guide(self, position: PyTree) -> None:
        """Raise unless the guide draws vectors of the position's dimension and dtype."""
        require_guide_fits(self.guide, position)


def jump_from_guide(guide: Any, log_envelope: Any, num_tries: Any, form: str) -> Jump:
    """Check the arguments that kernels with jumps share."""
    guide = as_guide(guide)
    if form not in FORMS:
        raise ValueError(f"form must be one of {FORMS}, got {form!r}")
    return Jump(
        _as_pytree(guide), as_parameter("log_envelope", log_envelope), as_count("num_tries", num_tries, 1), form
    )


class _Methods(NamedTuple):
    """The methods of a guide, each a pytree."""

    sample: Callable
    log_prob: Callable


class _MethodsWithComponents(NamedTuple):
    """The methods of a guide that has components, each a pytree."""

    sample: Callable
    log_prob: Callable
    component_log_probs: Callable


def _as_pytree(guide: Any) -> Any:
    """A guide that is a pytree of arrays, prepared where it can be: its methods then share them. Else its methods."""
    if isinstance(guide, Prepares):
        guide = guide.prepared()
    if not jax.tree_util.all_leaves([guide]) and all(hasattr(leaf, "dtype") for leaf in jax.tree.leaves(guide)):
        return guide
    methods: Any = _MethodsWithComponents if isinstance(guide, HasComponents) else _Methods
    return methods(*(as_pytree_function(getattr(guide, name)) for name in methods._fields))
