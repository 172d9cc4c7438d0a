"""Conversion to ArviZ: InferenceData of its versions 0.x, DataTree of 1.x."""

from typing import Any

import numpy as np

from vhmc_jax.diagnostics.draws import check_draws, named_leaves

# What ArviZ calls the fields of an info; the others keep their names.
USUAL_NAMES = {"is_divergent": "diverging", "num_gradients": "n_steps", "logdensity": "lp"}


def to_arviz(
    draws: Any,
    infos: Any = None,
    logdensities: Any = None,
    *,
    coords: dict[str, Any] | None = None,
    dims: dict[str, Any] | None = None,
) -> Any:
    """Draws and sample statistics as ArviZ's InferenceData (ArviZ 0.x) or DataTree (1.x).

    Parameters
    ----------
    draws
        Pytree of (chain, draw, ...) arrays. Variables are named by their paths, ``"a.b"`` for
        ``draws["a"]["b"]``, and ``"x"`` where ``draws`` is one array.
    infos
        Pytree of (chain, draw, ...) arrays, such as the infos of a run, for sample statistics. Divergences
        and gradients become ``diverging`` and ``n_steps``; other fields keep their names, ``acceptance_rate``
        being usual already.
    logdensities
        Log density at the draws, (chain, draw): ``lp``.
    coords, dims
        Names of coordinates and dimensions, as ArviZ takes them.

    Returns
    -------
    An object with groups ``posterior`` and, if there is anything to put there, ``sample_stats``.
    """
    posterior = {name: np.asarray(leaf) for name, leaf in named_leaves(check_draws(draws), "x").items()}
    stats = {_usual(name): np.asarray(leaf) for name, leaf in named_leaves(infos, "info").items()}
    if logdensities is not None:
        stats["lp"] = np.asarray(logdensities)
    shape = next(iter(posterior.values())).shape[:2]
    for name, value in stats.items():
        if value.shape[:2] != shape:
            raise ValueError(f"statistic {name} must have axes (chain, draw) = {shape}, got shape {value.shape}")
    arviz = _import_arviz()
    groups = {"posterior": posterior} | ({"sample_stats": stats} if stats else {})
    attributes = {"inference_library": "vhmc_jax"}
    if arviz.__version__.startswith("0."):
        return arviz.from_dict(**groups, coords=coords, dims=dims, attrs=attributes)
    return arviz.from_dict(groups, coords=coords, dims=dims, attrs={"/": attributes})


def _usual(name: str) -> str:
    """A name with its last part as ArviZ has it."""
    *path, field = name.split(".")
    return ".".join([*path, USUAL_NAMES.get(field, field)])


def _import_arviz() -> Any:
    try:
        import arviz
    except ImportError as error:
        raise ImportError("to_arviz needs ArviZ: pip install 'vhmc-jax[arviz]'") from error
    return arviz
