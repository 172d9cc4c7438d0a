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


def check_call(rng_key: Any, values: Any, options: Iterable[str], names: Iterable[str]) -> None:
    """Raise for a call that is traced, a key that is none, and an option that does not exist.

    Parameters
    ----------
    rng_key
        What was given as the key.
    values
        Pytrees that must be concrete.
    options
        Names of the further options that were given.
    names
        Names of the options that ``sample`` has beside those of ``FitOptions``.
    """
    if not is_concrete(rng_key, values):
        raise TypeError(
            "sample cannot be compiled or mapped by jit, vmap or grad: it decides in Python what to run next. Call it "
            "in a loop; data of the same shape compile nothing anew if they are passed by jax.tree_util.Partial."
        )
    if not _is_key(rng_key):
        raise TypeError(
            f"rng_key must be one key of JAX, such as jax.random.key(0), got {type(rng_key).__name__}: {rng_key!r}"
        )
    known = {field.name for field in dataclasses.fields(FitOptions)} | set(names)
    for option in options:
        if option not in known:
            near = difflib.get_close_matches(option, sorted(known), 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}."
            raise TypeError(f"sample has no option {option!r}: {hint}")


def _is_key(rng_key: Any) -> bool:
    """Whether it is one key, of the new kind or of the old."""
    if not isinstance(rng_key, jax.Array | np.ndarray):
        return False
    if jnp.issubdtype(rng_key.dtype, jax.dtypes.prng_key):
        return rng_key.shape == ()
    return rng_key.dtype == np.uint32 and rng_key.shape == (2,)
