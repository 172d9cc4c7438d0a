"""The candidate of a jump: the first draw of a guide that passes an envelope.

Notation: π the target, unnormalised, q the guide, normalised, c the envelope; w(θ) = max(1, π(θ) / (c q(θ))).
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from vhmc_jax import random
from vhmc_jax.arguments import as_count, as_parameter, cast, is_concrete
from vhmc_jax.base import Array, PyTree, State, as_pytree_function
from vhmc_jax.guide import HasComponents, Prepares, require_guide
from vhmc_jax.lazy import lazy_cond

FORMS = ("exact", "paper")


class Candidate(NamedTuple):
    """The first of the tries that passed the envelope.

    Attributes
    ----------
    state
        The state there, with its gradient; that of some try where none passed.
    log_weight
        log w there.
    is_found
        Whether one passed.
    jump_to
        Its component; −1 where none passed.
    num_gradients
        What the tries cost: one each.
    """

    state: State
    log_weight: Array
    is_found: Array
    jump_to: Array
    num_gradients: Array


class Try(NamedTuple):
    """The state at a draw of the guide, log(π / (c q)), whether that passed the envelope, and the component."""

    state: State
    log_ratio: Array
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

    def log_ratio(self, logdensity: Array, x: Array) -> Array:
        """Log of π(x) / (c q(x)): −inf where π is not finite, and NaN, which no try passes, where q is not a number."""
        ratio = logdensity - cast(self.log_envelope, x.dtype) - self.guide.log_prob(x)
        return jnp.where(jnp.isfinite(logdensity), ratio, -jnp.inf)

    def log_weight(self, log_ratio: Array) -> Array:
        """Log of w = max(1, π / (c q)); 0 in the paper's form. Where no jump leads, w is infinite: none leads away."""
        if self.form == "paper":
            return jnp.zeros_like(log_ratio)
        return jnp.where(jnp.isnan(log_ratio), jnp.inf, jnp.maximum(log_ratio, 0.0))

    def label(self, x: Array) -> Array:
        """The guide's most responsible component at x; −1 where the guide has none."""
        if not isinstance(self.guide, HasComponents):
            return jnp.int32(-1)
        return jnp.argmax(self.guide.component_log_probs(x)).astype(jnp.int32)

    def sample(self, rng_key: Any) -> Array:
        """One draw of the guide, with a key of JAX's own unless it takes any."""
        takes_any_key = getattr(self.guide.sample, "takes_any_key", False)
        return self.guide.sample(rng_key if takes_any_key else random.as_jax_key(rng_key))

    def draw_candidate(self, rng_key: Any, state_at: Callable) -> Candidate:
        """The first of the tries with u < π / (c q): a draw in proportion to min(π, c q). Never the best of them.

        The first try passes more often than not. The others are evaluated, as one batch, only where it does not.

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

        def attempt(rng_key: Any) -> Try:
            key_sample, key_uniform = random.split(rng_key)
            x = self.sample(key_sample)
            state = state_at(x)
            log_ratio = self.log_ratio(state.logdensity, x)
            log_uniform = jnp.log(random.uniform(key_uniform, dtype=log_ratio.dtype))
            return Try(state, log_ratio, log_uniform < log_ratio, self.label(x))

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
            log_weight=self.log_weight(chosen.log_ratio),
            is_found=chosen.is_found,
            jump_to=jnp.where(chosen.is_found, chosen.label, -1),
            num_gradients=jnp.where(first.is_found, 1, self.num_tries).astype(jnp.int32),
        )

    def check_guide(self, position: PyTree) -> None:
        """Raise unless the guide draws vectors of the position's dimension and dtype."""
        x, _ = ravel_pytree(position)
        draw = jax.eval_shape(self.guide.sample, jax.random.key(0))
        if draw.shape != x.shape or draw.dtype != x.dtype:
            raise ValueError(
                f"guide.sample must return a flat vector like the position's, {x.dtype}{list(x.shape)}, "
                f"got {draw.dtype}{list(draw.shape)}"
            )
        value = jax.eval_shape(self.guide.log_prob, x)
        if value.shape != ():
            raise ValueError(f"guide.log_prob must return a scalar, got shape {value.shape}")
        log_prob = self.guide.log_prob(x)
        if is_concrete(log_prob) and jnp.isnan(log_prob):
            raise ValueError(f"guide.log_prob must be a number at the start, got NaN at {x}")


def jump_from_guide(guide: Any, log_envelope: Any, num_tries: Any, form: str) -> Jump:
    """Check the arguments that kernels with jumps share."""
    require_guide(guide)
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


def jump_log_acceptance(candidate: Candidate, log_weight: Array, log_ratio: Array | float = 0.0) -> Array:
    """Log of min(1, w(θ*) / w(θ) · ratio); −inf where no candidate was found."""
    log_alpha = jnp.minimum(candidate.log_weight - log_weight + log_ratio, 0.0)
    return jnp.where(candidate.is_found & ~jnp.isnan(log_alpha), log_alpha, -jnp.inf)
