"""Log densities with a bijector of another library, or of the user's own, as problems."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from vhmc_jax.arguments import describe
from vhmc_jax.base import Array, PyTree, as_pytree_function
from vhmc_jax.models.call_arguments import Arguments
from vhmc_jax.models.problem import Problem


def from_log_prob(
    log_prob: Callable,
    bijector: Any,
    *,
    region: PyTree | Callable = None,
    dims: Mapping[str, Any] | None = None,
    coords: Mapping[str, Any] | None = None,
) -> Problem:
    """A problem from a log density of constrained values and a bijector to them.

    Log density of an unconstrained x: log p(f(x)) + log |det ∂f/∂x|.

    Parameters
    ----------
    log_prob
        Log density of a constrained value, up to a constant, such as ``distribution.log_prob``.
    bijector
        The map f from unconstrained x: an object with ``forward_and_log_det(x)``, as those of distrax have, or with
        ``forward(x)`` and ``forward_log_det_jacobian(x)``, as those of TensorFlow Probability have; or a dict of such
        objects for a dict of values. The log-determinant must be one number: that of all of x.
    region
        Where to look, in the coordinates of x, as ``sample`` takes it; may be given to ``sample`` instead.
    dims, coords
        Names of dimensions for each variable, and labels along them, as ArviZ takes them.

    Returns
    -------
    The problem. Draws are the values f(x); a value that is one array is called ``"x"``.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, vhmc_jax as vj
    >>> class Exponential:
    ...     def forward_and_log_det(self, x):
    ...         return jnp.exp(x), jnp.sum(x)
    >>> problem = vj.from_log_prob(lambda y: -jnp.sum(y), Exponential())
    >>> f"{problem.logdensity_fn(jnp.zeros(2)):.1f}"
    '-2.0'
    """
    bijectors = bijector if isinstance(bijector, Mapping) else {"": bijector}
    for name, part in bijectors.items():
        if not _has_forward(part):
            where = f"bijector[{name!r}]" if name else "bijector"
            raise TypeError(
                f"{where} must have forward_and_log_det, or forward and forward_log_det_jacobian, "
                f"got {type(part).__name__}: {part!r}"
            )
    # Bijectors need not be pytrees: those that are not are constants of the program.
    held = Arguments.of((dict(bijectors) if isinstance(bijector, Mapping) else bijector,), {})
    return Problem(
        logdensity_fn=Partial(_logdensity, as_pytree_function(log_prob, "log_prob"), held),
        region=region,
        constrain=Partial(_named, held),
        unconstrain=Partial(_unconstrained, held) if all(map(_has_inverse, bijectors.values())) else None,
        dims=dims or {},
        coords=coords or {},
    )


def _has_forward(bijector: Any) -> bool:
    has = functools.partial(hasattr, bijector)
    return has("forward_and_log_det") or (has("forward") and has("forward_log_det_jacobian"))


def _logdensity(log_prob: Callable, held: Arguments, x: PyTree) -> Array:
    y, log_det = held.call(lambda bijector: _forward(bijector, x))
    value = jnp.asarray(log_prob(y))
    if value.shape != ():
        raise ValueError(f"log_prob must return one number for a value {describe(y)}, got shape {value.shape}")
    return value + log_det


def _named(held: Arguments, x: PyTree) -> dict[str, Array]:
    """The value, as a dict of named arrays."""
    y = held.call(lambda bijector: _forward(bijector, x)[0])
    return y if isinstance(y, dict) else y._asdict() if hasattr(y, "_asdict") else {"x": y}


def _has_inverse(bijector: Any) -> bool:
    return hasattr(bijector, "inverse")


def _unconstrained(held: Arguments, values: Mapping[str, Array]) -> PyTree:
    """The x of the values by name."""

    def inverse(bijector: Any) -> PyTree:
        if isinstance(bijector, Mapping):
            return {name: part.inverse(values[name]) for name, part in bijector.items()}
        return bijector.inverse(values["x"] if values.keys() == {"x"} else values)

    return held.call(inverse)


def _forward(bijector: Any, x: PyTree) -> tuple[PyTree, Array]:
    """Value and log-determinant, one number."""
    if isinstance(bijector, Mapping):
        if not isinstance(x, Mapping) or x.keys() != bijector.keys():
            raise ValueError(f"region must be of the names of bijector, {sorted(bijector)}, got {describe(x)}")
        pairs = {name: _forward(part, x[name]) for name, part in bijector.items()}
        return {name: y for name, (y, _) in pairs.items()}, jnp.sum(jnp.stack([pair[1] for pair in pairs.values()]))
    if hasattr(bijector, "forward_and_log_det"):
        y, log_det = bijector.forward_and_log_det(x)
    elif hasattr(bijector, "forward_min_event_ndims"):  # TensorFlow Probability sums over as many axes as it is told
        y = bijector.forward(x)
        log_det = bijector.forward_log_det_jacobian(x, event_ndims=jax.tree.map(jnp.ndim, x))
    else:
        y, log_det = bijector.forward(x), bijector.forward_log_det_jacobian(x)
    if jnp.shape(log_det) != ():
        raise ValueError(
            f"the log-determinant of {type(bijector).__name__} must be one number for x {describe(x)}, got shape "
            f"{jnp.shape(log_det)}: sum it over x, in distrax by distrax.Block(bijector, {jnp.ndim(log_det)})"
        )
    return y, log_det
