"""Conversion to ArviZ: InferenceData of its versions 0.x, DataTree of 1.x."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vhmc_jax.arguments import as_count
from vhmc_jax.diagnostics.draws import check_draws, named_leaves

# What ArviZ calls the fields of an info; the others keep their names.
USUAL_NAMES = {"is_divergent": "diverging", "num_gradients": "n_steps", "logdensity": "lp"}


def to_arviz(
    draws: Any,
    infos: Any = None,
    logdensities: Any = None,
    *,
    labels: Any = None,
    log_likelihood: Mapping[str, Any] | None = None,
    observed_data: Mapping[str, Any] | None = None,
    posterior_predictive: Mapping[str, Any] | None = None,
    prior: Mapping[str, Any] | None = None,
    coords: Mapping[str, Any] | None = None,
    dims: Mapping[str, Any] | None = None,
    attributes: Mapping[str, Any] | None = None,
    num_chains: int | None = None,
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
    labels
        Mode of each draw, (chain, draw): ``mode`` among the sample statistics.
    log_likelihood
        Log likelihood of observed values at the draws by name, each (chain, draw, ...).
    observed_data
        The observed values by name.
    posterior_predictive
        Observed variables drawn anew at the draws by name, each (chain, draw, ...).
    prior
        Draws of the prior by name, each (chain, draw, ...) with numbers of their own.
    coords, dims
        Names of coordinates and dimensions, as ArviZ takes them.
    attributes
        Further attributes of the data: numbers, strings or lists of them.
    num_chains
        Join chains end to end until there are so many: 64 chains are too many for a picture. By default they stay as
        they are.

    Returns
    -------
    An object with groups ``posterior`` and, if there is anything to put there, ``sample_stats``, ``log_likelihood``,
    ``posterior_predictive``, ``observed_data`` and ``prior``.
    """
    posterior = {name: np.asarray(leaf) for name, leaf in named_leaves(check_draws(draws), "x").items()}
    stats = {_usual(name): np.asarray(leaf) for name, leaf in named_leaves(infos, "info").items()}
    stats |= {
        name: np.asarray(values) for name, values in (("lp", logdensities), ("mode", labels)) if values is not None
    }
    likelihoods, predictions, data, before = (
        {name: np.asarray(values) for name, values in ({} if given is None else named_leaves(given, "x")).items()}
        for given in (log_likelihood, posterior_predictive, observed_data, prior)
    )
    shape = next(iter(posterior.values())).shape[:2]
    for kind, group in (("statistic", stats), ("log likelihood", likelihoods), ("posterior predictive", predictions)):
        for name, value in group.items():
            if value.shape[:2] != shape:
                raise ValueError(f"{kind} {name} must have axes (chain, draw) = {shape}, got shape {value.shape}")
    groups = {"posterior": posterior, "sample_stats": stats, "log_likelihood": likelihoods}
    groups["posterior_predictive"] = predictions
    if num_chains is not None:
        groups = {name: _joined(group, num_chains) for name, group in groups.items()}
    groups |= {"observed_data": data, "prior": before}
    groups = {name: group for name, group in groups.items() if group}
    arviz = _import_arviz()
    named = {"coords": dict(coords or {}), "dims": {name: list(names) for name, names in (dims or {}).items()}}
    attributes = {"inference_library": "vhmc_jax"} | dict(attributes or {})
    if hasattr(arviz, "InferenceData"):
        return arviz.from_dict(**groups, **named, attrs=attributes)
    return arviz.from_dict(groups, **named, attrs={"/": attributes})


ARVIZ_FORMATS = {".nc": ("netCDF", "netcdf", "h5netcdf"), ".zarr": ("zarr", "zarr", "zarr")}
"""Suffixes of files that ArviZ opens: what the format is called, the extra that it needs, and its module."""


def write_arviz(data: Any, path: Path) -> None:
    """Write ArviZ's data structure to netCDF or zarr, by the suffix of the path.

    Parameters
    ----------
    data
        What :func:`to_arviz` returned.
    path
        Ends with ``.nc`` or ``.zarr``.
    """
    name, extra, module = ARVIZ_FORMATS[path.suffix]
    if importlib.util.find_spec(module) is None:
        raise ImportError(f"{name} needs {module}: pip install 'vhmc-jax[{extra}]'")
    tree = data.to_datatree() if hasattr(data, "to_datatree") else data
    if path.suffix == ".nc":
        tree.to_netcdf(path, engine=module)
    else:
        tree.to_zarr(path, zarr_format=2, consolidated=True)  # consolidation is no part of format 3 yet


def _joined(group: dict[str, np.ndarray], num_chains: int) -> dict[str, np.ndarray]:
    """Chains one after another, as so many."""
    for name, values in group.items():
        chains, draws = values.shape[:2]
        if chains % as_count("num_chains", num_chains, 1):
            raise ValueError(f"num_chains must divide the number of chains, {chains}, got {num_chains}")
        group = group | {name: values.reshape(num_chains, chains // num_chains * draws, *values.shape[2:])}
    return group


def _usual(name: str) -> str:
    """A name with its last part as ArviZ has it."""
    *path, field = name.split(".")
    return ".".join([*path, USUAL_NAMES.get(field, field)])


def _import_arviz() -> Any:
    """ArviZ, or the part of ArviZ 1.x that has the data structure, which is a package of its own."""
    for name in ("arviz", "arviz_base"):
        try:
            return importlib.import_module(name)
        except ImportError as error:
            missing = error
    raise ImportError("to_arviz needs ArviZ: pip install 'vhmc-jax[arviz]'") from missing
