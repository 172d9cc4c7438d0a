"""What tells one call of ``sample`` from another, so that a store is resumed by the same call alone."""

from collections.abc import Callable
from typing import Any

import jax

from vhmc_jax.base import Array, PyTree
from vhmc_jax.pipeline.frozen import Frozen
from vhmc_jax.pipeline.phase import Stored
from vhmc_jax.search.region import Starts
from vhmc_jax.store.fingerprint import array_digest, arrays_of, digest_of, function_digest, versions
from vhmc_jax.store.folder import path_of, require_resume


def stored_at(
    store: Any,
    resume: str,
    rng_key: Array,
    logdensity_fn: Callable,
    region: PyTree | Callable | None,
    frozen: Frozen | None,
    settings: dict[str, Any],
) -> Stored | None:
    """Where the phases of a call keep their records.

    Parameters
    ----------
    store
        The folder; None for nowhere.
    resume
        ``"same"`` or ``"as is"``.
    rng_key, logdensity_fn, region, frozen
        As for ``sample``.
    settings
        Its other arguments by name.

    Returns
    -------
    The folder with what tells this call from another one.
    """
    require_resume(resume)
    if store is None:
        return None
    template = Starts(rng_key, region, None).template if frozen is None else frozen.modes.template
    fingerprint = {
        "rng_key": array_digest(rng_key),
        "logdensity_fn": function_digest(logdensity_fn, template),
        "constants of logdensity_fn": arrays_of(logdensity_fn),
        "region": _region(rng_key, region),
        "frozen": None if frozen is None else digest_of(frozen),
        **{name: str(value) for name, value in settings.items()},
        "version": versions(),
    }
    return Stored(path_of(store), fingerprint, resume)


def _region(rng_key: Array, region: PyTree | Callable | None) -> Any:
    """Positions by their values; a sampler by its program and its arrays."""
    if region is None or not callable(region):
        return digest_of(region)
    arrays = {} if jax.tree_util.all_leaves([region]) else arrays_of(region)
    return {"program": function_digest(region, rng_key), **arrays}
