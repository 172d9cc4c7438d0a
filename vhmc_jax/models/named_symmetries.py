"""Symmetries of a problem's named parameters, as symmetries of its positions."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from vhmc_jax.base import Array, PyTree
from vhmc_jax.models.problem import Problem
from vhmc_jax.moves.labels import Labels, labels_of
from vhmc_jax.moves.maps import Maps, flat_of
from vhmc_jax.moves.symmetries import Symmetries
from vhmc_jax.moves.values import ValueLabels, Values

MOST_OUTSIDE = 0.1
"""Share of the points whose image may lie outside the constraints, by rounding."""


def symmetries_of(problem: Problem, symmetries: Symmetries, positions: PyTree) -> tuple[list[Symmetries], PyTree]:
    """Symmetries of positions, from those of named parameters.

    Parameters
    ----------
    problem
        The problem. Where it does not know the way back from values, its symmetries are those of positions.
    symmetries
        As the user gave them. A dimension stands for the axes of this name. A second reading takes with them the axes
        without a name that have as many entries, as that of a Dirichlet distribution outside of a plate.
    positions
        Test points on a leading axis.

    Returns
    -------
    One or two readings, and the points that are the same after the way to the values and back.
    """
    values = values_of(problem, jax.tree.map(lambda leaf: leaf[0], positions))
    if values is None:
        return [symmetries], positions
    draws, is_kept = _there_and_back(values, positions)
    if not np.any(is_kept):
        raise ValueError(
            f"unconstrain must undo constrain, got another position at all of {len(is_kept)} test points: symmetries "
            "of named parameters need it"
        )
    positions = jax.tree.map(lambda leaf: leaf[is_kept], positions)
    plain, generous = [
        Symmetries(tuple(_of_set(each, problem, values, draws, takes_unnamed) for each in symmetries.sets))
        for takes_unnamed in (False, True)
    ]
    for each in plain.sets:
        if isinstance(each, ValueLabels):
            _require_within(each, positions)
    return ([plain] if _labels_in(plain) == _labels_in(generous) else [plain, generous]), positions


def values_of(problem: Problem, template: PyTree) -> Values | None:
    """The way from positions like a template to named parameters and back; None where a problem does not know it."""
    if problem.constrain is None or problem.unconstrain is None:
        return None
    names = problem.parameters or tuple(jax.eval_shape(problem.constrain, template))
    values = Values(problem.constrain, problem.unconstrain, tuple(names))
    try:
        back = jax.eval_shape(lambda position: values.position(values.at(position), position), template)
    except (TypeError, ValueError, KeyError, AttributeError, NotImplementedError):
        return None  # a bijector may have an inverse by name alone, or one that takes no dict
    return values if jax.tree.map(jnp.shape, back) == jax.tree.map(jnp.shape, template) else None


def _of_set(each: Any, problem: Problem, values: Values, draws: Mapping[str, Array], takes_unnamed: bool) -> Any:
    if isinstance(each, ValueLabels):
        return each
    if isinstance(each, Labels):
        return ValueLabels(labels_of(each.kind, _axes(each, problem, draws, takes_unnamed)), values)
    maps = tuple(Partial(_moved, values, function) for function in each.functions)
    return Maps(maps, (None,) * len(maps))


@jax.jit
def _moved(values: Values, function: Any, position: PyTree) -> PyTree:
    return values.moved(function, position)


def _labels_in(symmetries: Symmetries) -> list[Labels]:
    return [each.labels for each in symmetries.sets if isinstance(each, ValueLabels)]


def _axes(labels: Labels, problem: Problem, draws: Mapping[str, Array], takes_unnamed: bool) -> Any:
    """The axes that the user gave, as numbers, None for parameters that have none; in the user's order."""
    leaves, structure = labels.axes
    given = jax.tree.unflatten(structure, leaves)
    if isinstance(given, str):
        return _axes_of_dimension(given, problem, draws, takes_unnamed)
    if not isinstance(given, dict):
        return given
    if unknown := given.keys() - draws.keys():
        raise ValueError(f"symmetries must name parameters, which are {sorted(draws)}, got {sorted(unknown)}")
    numbers = jax.tree.unflatten(structure, range(len(leaves)))
    written = sorted(given, key=lambda name: labels.written.index(numbers[name]))
    found = {name: given[name] for name in written}
    for name, axis in found.items():
        if isinstance(axis, str):
            if axis not in problem.dims.get(name, ()):
                raise ValueError(f"{name!r} must have the dimension {axis!r}, got {list(problem.dims.get(name, ()))}")
            found[name] = list(problem.dims[name]).index(axis)
    return found | {name: None for name in draws if name not in found}


def _axes_of_dimension(dimension: str, problem: Problem, draws: Mapping[str, Array], takes_unnamed: bool) -> Any:
    """The axes with a name, those of parameters that tell labels apart first: weights that sum to one come last."""
    dims = {name: list(problem.dims.get(name, ())) for name in draws}
    found = {name: {names.index(dimension)} for name, names in dims.items() if dimension in names}
    if not found:
        raise ValueError(
            f"symmetries name the dimension {dimension!r}, which no parameter has: there are "
            f"{sorted({each for names in dims.values() for each in names})}"
        )
    first = next(iter(found))
    size = draws[first].shape[1 + min(found[first])]
    for name, values in draws.items() if takes_unnamed else ():
        unnamed = [
            axis for axis, length in enumerate(values.shape[1:]) if length == size and _is_unnamed(dims, name, axis)
        ]
        if len(unnamed) == 1:
            found[name] = found.get(name, set()) | set(unnamed)

    def is_sum_known(name: str) -> bool:
        return bool(np.all(np.ptp(np.sum(draws[name], axis=1 + min(found[name])), axis=0) < 1e-3))

    ordered = sorted(found, key=is_sum_known)
    axes = {name: found[name] if len(found[name]) > 1 else min(found[name]) for name in ordered}
    return axes | {name: None for name in draws if name not in found}


def _is_unnamed(dims: Mapping[str, list[str]], name: str, axis: int) -> bool:
    """Whether an axis has no name, or one that only numbers it."""
    return axis >= len(dims[name]) or dims[name][axis] == f"{name}_dim_{axis}"


@jax.jit
def _there_and_back(values: Values, positions: PyTree) -> tuple[dict[str, Array], Array]:
    """Values, and whether the positions are the same after the way there and back."""

    def at(position: PyTree) -> tuple[dict[str, Array], Array]:
        found = values.at(position)
        here, back = flat_of(position), flat_of(values.position(found, position))
        return found, jnp.all(_is_near(here, back))

    return jax.vmap(at)(positions)


def _require_within(each: ValueLabels, positions: PyTree) -> None:
    """Raise where images lie outside the constraints: the way back and forth does not lead to them."""
    labels, values = each.labels, each.values
    acts = labels.generators(values.like(jax.tree.map(lambda leaf: leaf[0], positions)))

    @jax.jit
    def images(positions: PyTree) -> list[tuple[dict[str, Array], dict[str, Array]]]:
        def at(position: PyTree) -> list[tuple[dict[str, Array], dict[str, Array]]]:
            moved = [act(values.at(position)).position for _, act in acts]
            return [(image, values.at(values.position(image, position))) for image in moved]

        return jax.vmap(at)(positions)

    for (label, _), (expected, found) in zip(acts, images(positions), strict=True):
        for name, image in expected.items():
            is_far = ~np.asarray(_is_near(image, found[name])).reshape(len(image), -1).all(axis=1)
            if is_far.mean() > MOST_OUTSIDE:
                value = np.array2string(np.asarray(image[np.argmax(is_far)]), precision=3, separator=", ")
                raise ValueError(
                    f"symmetries must keep parameters within their constraints, and {label} does not: it takes "
                    f"{name!r} to {value}. An ordered parameter has its labels in order, and needs no symmetry; with "
                    "bounds that differ labels are told apart"
                )


def _is_near(one: Array, other: Array) -> Array:
    tolerance = 1e-3 if one.dtype == jnp.float32 else 1e-6
    return jnp.abs(one - other) <= tolerance * (1 + jnp.abs(one))
