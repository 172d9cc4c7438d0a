"""PyMC's models as problems, by PyMC's own translation to JAX."""

import os
import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from vhmc_jax.base import Array, PyTree
from vhmc_jax.models.prior import Scatter, require_finite_draws, scatter_around
from vhmc_jax.models.problem import Problem
from vhmc_jax.search.region import Box, box

NUM_PRIOR_DRAWS = 2048
"""Draws of the prior that the region is made of."""
IMPROPER_WIDTH = 10.0
"""A model whose prior has no draws is sought so far around its initial point, in unconstrained coordinates."""


def from_pymc(model: Any, *, random_seed: int = 0) -> Problem:
    """A problem from a PyMC model: its posterior, given the observed variables.

    PyMC's translation to JAX sets JAX to the precision of ``pytensor.config.floatX``, double by default.

    Parameters
    ----------
    model
        A ``pymc.Model``. Its ``pm.Data`` are arguments of the compiled programs: after ``pm.set_data`` with data of the
        same shape, this function gives a problem that compiles nothing anew.
    random_seed
        Seed of the prior's draws.

    Returns
    -------
    The problem. Draws hold free and deterministic variables. The region is the prior, a density around 2,048 draws of
    it; where it has none (``pm.Flat``), a box of ±10 around the initial point in unconstrained space. Dimensions and
    coordinates are those of the model.
    """
    pymc = _import_pymc()
    if not isinstance(model, pymc.Model):
        raise TypeError(f"model must be a pymc.Model, got {type(model).__name__}: {model!r}")
    _check(model)
    _import_sampling()  # before any array is made, since it sets the precision
    graph, data = _graph_of(model)
    coords, dims = _coords_and_dims(model)
    region = _region(pymc, model, random_seed)
    problem = Problem(
        logdensity_fn=Partial(graph.logdensity, data),
        region=region,
        constrain=Partial(graph.values, data),
        unconstrain=Partial(graph.position, data),
        parameters=graph.parameters,
        prior=region.positions if isinstance(region, Scatter) else None,
        log_likelihood=Partial(graph.log_likelihood, data) if model.observed_RVs else None,
        observed_data={rv.name: _value_of(model.rvs_to_values[rv]) for rv in model.observed_RVs},
        coords=coords,
        dims=dims,
    )
    require_finite_draws(
        problem, lambda position: model.point_logps({name: np.asarray(x) for name, x in position.items()})
    )
    return problem


class Graph:
    """JAX functions of one model, translated when they are first called.

    They are compared by identity: one graph gives one program. The model's data are their first argument.

    Parameters
    ----------
    model
        A ``pymc.Model``.
    """

    def __init__(self, model: Any):
        self._inputs = model.value_vars
        self._names = [variable.name for variable in self._inputs]
        # What is translated is built here, so that nothing holds on to the model: it is the key of a cache.
        self._logp = model.logp()
        is_shown = _import_pymc().util.is_transformed_name
        self._shown = [variable for variable in model.unobserved_value_vars if not is_shown(variable.name)]
        self._observed = [variable.name for variable in model.observed_RVs]
        self._log_likelihoods = model.logp(model.observed_RVs, sum=False) if self._observed else []
        self._data = {variable.name: variable for variable in model.data_vars if hasattr(variable, "get_value")}
        self._parameters = {variable: variable.type(variable.name) for variable in model.free_RVs}
        self._coordinates = [_transformed(model, variable) for variable in model.free_RVs]

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the free variables."""
        return tuple(variable.name for variable in self._parameters)

    def logdensity(self, data: dict[str, Array], position: PyTree) -> Array:
        """Log density of an unconstrained position."""
        return self._call(self._logp_function, data, position)[0]

    def values(self, data: dict[str, Array], position: PyTree) -> dict[str, Array]:
        """Free and deterministic variables by name."""
        values = self._call(self._values_function, data, position)
        return {variable.name: value for variable, value in zip(self._shown, values, strict=True)}

    def position(self, data: dict[str, Array], values: PyTree) -> PyTree:
        """The unconstrained position at which the free variables have given values."""
        inputs = [jnp.asarray(values[name]) for name in self.parameters]
        found = self._position_function(*inputs, *(data[name] for name in self._data))
        return dict(zip(self._names, found, strict=True))

    def log_likelihood(self, data: dict[str, Array], position: PyTree) -> dict[str, Array]:
        """Log likelihood of each observed value by name."""
        return dict(zip(self._observed, self._call(self._likelihood_function, data, position), strict=True))

    def _call(self, function: Callable, data: dict[str, Array], position: PyTree) -> Any:
        inputs = [jnp.asarray(position[name]) for name in self._names]
        return function(*inputs, *(data[name] for name in self._data))

    @cached_property
    def _logp_function(self) -> Callable:
        return self._translated(self._inputs, [self._logp])

    @cached_property
    def _values_function(self) -> Callable:
        return self._translated(self._inputs, self._shown)

    @cached_property
    def _likelihood_function(self) -> Callable:
        return self._translated(self._inputs, self._log_likelihoods)

    @cached_property
    def _position_function(self) -> Callable:
        from pytensor.graph.replace import clone_replace

        outputs = clone_replace(self._coordinates, self._parameters, rebuild_strict=False)
        return self._translated(list(self._parameters.values()), outputs)

    def _translated(self, variables: list, outputs: list) -> Callable:
        """A JAX function of positions and data. Their shapes are fixed; JAX needs to know them."""
        import pytensor.tensor as pt
        from pytensor.graph.replace import clone_replace

        get_jaxified_graph = _import_sampling().get_jaxified_graph
        inputs = {
            variable: pt.tensor(name, dtype=variable.dtype, shape=variable.get_value(borrow=True).shape)
            for name, variable in self._data.items()
        }
        outputs = clone_replace(outputs, inputs, rebuild_strict=False)
        # The first call may be within a trace. Constants of the graph must not be part of it.
        with jax.ensure_compile_time_eval():
            return get_jaxified_graph([*variables, *inputs.values()], outputs)


_graphs: WeakKeyDictionary[Any, tuple[Any, Graph]] = WeakKeyDictionary()


def _graph_of(model: Any) -> tuple[Graph, dict[str, Array]]:
    """The graph of a model and its data; one graph as long as the model and the shapes stay the same."""
    variables = [*model.basic_RVs, *model.deterministics, *model.potentials, *model.data_vars]
    data = {
        variable.name: jnp.asarray(variable.get_value(borrow=True))
        for variable in model.data_vars
        if hasattr(variable, "get_value")
    }
    version = tuple(map(id, variables)), tuple((name, value.shape) for name, value in data.items())
    if model not in _graphs or _graphs[model][0] != version:
        _graphs[model] = version, Graph(model)
    return _graphs[model][1], data


def _check(model: Any) -> None:
    """Raise an error that names what cannot be sampled."""
    if discrete := [variable.name for variable in model.discrete_value_vars]:
        raise ValueError(
            f"variable {', '.join(map(repr, discrete))} must not be discrete and free: marginalise it, for a mixture "
            "by pm.Mixture or pm.NormalMixture"
        )
    if not model.free_RVs:
        raise ValueError("the model must have a free variable, got none")
    for variable in model.observed_RVs:
        if "Minibatch" in type(variable.owner.op).__name__:
            raise ValueError(
                f"variable {variable.name!r} takes a random subsample: the log density must be that of all data. Leave "
                "out total_size and pm.Minibatch."
            )
    if not model.observed_RVs and not model.potentials:
        names = ", ".join(variable.name for variable in model.free_RVs)
        warnings.warn(
            f"The model has no observed variable: the draws will be those of the prior of {names}. Were data left out?",
            stacklevel=3,
        )


def _region(pymc: Any, model: Any, random_seed: int) -> Scatter | Box:
    """The prior in unconstrained space."""
    names = [model.rvs_to_values[variable].name for variable in model.free_RVs]
    variables = [_transformed(model, variable) for variable in model.free_RVs]
    try:
        # Compiled in Python: 0.1 s instead of 2 s in C.
        draws = pymc.draw(variables, draws=NUM_PRIOR_DRAWS, random_seed=random_seed, mode="FAST_COMPILE")
    except NotImplementedError:  # an improper prior has no draws
        middle = {name: np.asarray(value, float) for name, value in model.initial_point(random_seed).items()}
        return box(*({name: x + width for name, x in middle.items()} for width in (-IMPROPER_WIDTH, IMPROPER_WIDTH)))
    return scatter_around({name: np.asarray(rows) for name, rows in zip(names, draws, strict=True)})


def _transformed(model: Any, variable: Any) -> Any:
    """A free variable in its unconstrained coordinates."""
    transform = model.rvs_to_transforms[variable]
    return variable if transform is None else transform.forward(variable, *variable.owner.inputs)


def _coords_and_dims(model: Any) -> tuple[dict[str, Any], dict[str, list[str]]]:
    coords = {name: np.asarray(values) for name, values in model.coords.items() if values is not None}
    return coords, {name: list(names) for name, names in model.named_vars_to_dims.items()}


def _value_of(variable: Any) -> np.ndarray:
    """The value of observed data: shared, or constant."""
    if hasattr(variable, "get_value"):
        return np.asarray(variable.get_value())
    return np.asarray(variable.data if hasattr(variable, "data") else variable.eval())


def _import_pymc() -> Any:
    try:
        import pymc
    except ImportError as error:
        raise ImportError("from_pymc needs PyMC: pip install 'vhmc-jax[pymc]'") from error
    return pymc


def _import_sampling() -> Any:
    """PyMC's translation to JAX.

    Its import asks XLA for 100 devices. JAX must have started before, and the environment is put back.
    """
    jax.devices()
    flags = os.environ.get("XLA_FLAGS")
    try:
        import pymc.sampling.jax
    finally:
        if flags is None:
            os.environ.pop("XLA_FLAGS", None)
        else:
            os.environ["XLA_FLAGS"] = flags
    return pymc.sampling.jax
