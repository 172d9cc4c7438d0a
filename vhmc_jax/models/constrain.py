"""Constraints by hand: a log density of constrained parameters as a problem."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from vhmc_jax.arguments import as_position, describe
from vhmc_jax.base import Array, PyTree, as_pytree_function
from vhmc_jax.density import require_scalar
from vhmc_jax.models.constraints import Constraint
from vhmc_jax.models.problem import Problem
from vhmc_jax.search.region import Starts

Constraints = Mapping[str, Constraint]


def constrain(
    logdensity_fn: Callable,
    constraints: Constraints,
    shapes: Mapping[str, int | tuple[int, ...]] | None = None,
    *,
    region: PyTree | Callable = None,
    dims: Mapping[str, Any] | None = None,
    coords: Mapping[str, Any] | None = None,
) -> Problem:
    """A problem of named parameters, each under a constraint.

    The log density on unconstrained space is log p(y(x)) + log |det ∂y/∂x|: draws of y have the density p with respect
    to the usual measure. That of a simplex is the volume of its entries but the last.

    Parameters
    ----------
    logdensity_fn
        Log density of a dict of parameters, up to a constant. Data that change go in by ``jax.tree_util.Partial``.
    constraints
        For each parameter one of ``vj.real``, ``vj.positive``, ``vj.interval(low, high)``, ``vj.simplex``,
        ``vj.ordered``, or an object with their methods.
    shapes
        Shapes of the parameters; a number is a length. Those not named are scalars.
    region
        Where to look, in the units of the parameters: a box, a function rng_key → dict, or a dict of starts on a
        leading axis. It may name some of the parameters only. The others are sought where a parameter of their kind is
        by default: an interval and a simplex uniformly, the logarithm of a positive number with mean 0 and standard
        deviation 3, a real number with mean 0 and standard deviation 10.
    dims, coords
        Names of dimensions for each parameter, and labels along them, as ArviZ takes them.

    Returns
    -------
    The problem.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, vhmc_jax as vj
    >>> def logdensity(parameters):
    ...     return -parameters["scale"] + jnp.sum(jnp.log(parameters["weights"]))
    >>> problem = vj.constrain(logdensity, {"scale": vj.positive, "weights": vj.simplex}, {"weights": 3})
    >>> values = problem.constrain({"scale": jnp.zeros(()), "weights": jnp.zeros(2)})
    >>> values["weights"].shape
    (3,)
    """
    shapes = _checked_shapes(constraints, shapes or {})
    density = Partial(_logdensity, as_pytree_function(logdensity_fn, "logdensity_fn"), dict(constraints))
    template = {name: jnp.zeros(constraints[name].free_shape(shape)) for name, shape in shapes.items()}
    for name, value in jax.eval_shape(_values, dict(constraints), template).items():
        if value.shape != shapes[name]:
            raise ValueError(f"parameter {name} must have the shape of its bounds, {value.shape}, got {shapes[name]}")
    require_scalar(density, template)
    return Problem(
        logdensity_fn=density,
        region=_region(dict(constraints), shapes, region),
        constrain=Partial(_values, dict(constraints)),
        unconstrain=Partial(_unconstrained, dict(constraints)),
        parameters=tuple(constraints),
        dims=dims or {},
        coords=coords or {},
    )


def _logdensity(logdensity_fn: Callable, constraints: Constraints, position: PyTree) -> Array:
    pairs = {name: constraint.forward(position[name]) for name, constraint in constraints.items()}
    value = logdensity_fn({name: y for name, (y, _) in pairs.items()})
    return value + sum(log_det for _, log_det in pairs.values())


def _values(constraints: Constraints, position: PyTree) -> dict[str, Array]:
    return {name: constraint.forward(position[name])[0] for name, constraint in constraints.items()}


def _unconstrained(constraints: Constraints, values: Mapping[str, Array]) -> dict[str, Array]:
    return {name: constraint.inverse(values[name]) for name, constraint in constraints.items()}


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Default:
    """Draws of parameters where those of their kinds are sought, mapped to unconstrained space."""

    constraints: Any
    given: Any
    """None, or a callable pytree rng_key → dict of some of the parameters."""
    shapes: Any
    """Arrays of the parameters' shapes, as a template."""

    def __call__(self, rng_key: Array) -> dict[str, Array]:
        key_given, *keys = jax.random.split(rng_key, 1 + len(self.shapes))
        values = {} if self.given is None else dict(self.given(key_given))
        for key, (name, like) in zip(keys, self.shapes.items(), strict=True):
            if name not in values:
                values[name] = self.constraints[name].draw(key, like.shape, like.dtype)
        return _unconstrained(self.constraints, values)


def _region(constraints: Constraints, shapes: Mapping[str, tuple[int, ...]], region: Any) -> Any:
    like = {name: np.zeros(shape, jnp.result_type(float)) for name, shape in shapes.items()}
    if region is None:
        return _Default(constraints, None, like)
    region = region if callable(region) else as_position(region, "region")
    given = Starts(jax.random.key(0), region, None).template
    if not isinstance(given, dict) or not given.keys() <= like.keys():
        raise ValueError(f"region must be of parameters by name, some of {sorted(like)}, got {describe(given)}")
    for name, value in given.items():
        if np.shape(value) != shapes[name]:
            raise ValueError(f"region of parameter {name} must have shape {shapes[name]}, got {np.shape(value)}")
    if callable(region):
        return _Default(constraints, as_pytree_function(region), like)
    if missing := like.keys() - given.keys():
        raise ValueError(f"starts must have all parameters, got none for {sorted(missing)}")
    return jax.vmap(lambda values: _unconstrained(constraints, values))(region)


def _checked_shapes(constraints: Constraints, shapes: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shape of each parameter, in the order of the constraints."""
    if not isinstance(constraints, Mapping) or not constraints:
        raise TypeError(f"constraints must be a dict from names to constraints, got {constraints!r}")
    for name, constraint in constraints.items():
        if isinstance(constraint, type) or not all(hasattr(constraint, part) for part in ("forward", "inverse")):
            raise TypeError(
                f"constraints[{name!r}] must be a constraint such as vj.positive or vj.interval(0, 1), "
                f"got {constraint!r}"
            )
    if unknown := shapes.keys() - constraints.keys():
        raise ValueError(f"shapes must name parameters of constraints, {sorted(constraints)}, got {sorted(unknown)}")
    found: dict[str, tuple[int, ...]] = {}
    for name, constraint in constraints.items():
        found[name] = tuple(np.atleast_1d(shapes[name]).tolist()) if name in shapes else ()
        try:
            constraint.free_shape(found[name])
        except ValueError as error:
            raise ValueError(f"parameter {name}: {error}; say it by shapes={{{name!r}: ...}}") from None
    return found
