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
from vhmc_jax.search.region import Starts
from vhmc_jax.store.records import encode


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
