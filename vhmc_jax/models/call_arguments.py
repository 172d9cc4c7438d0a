"""Arguments of a model: arrays that may change, and the rest that decides which program it is."""

import functools
from dataclasses import dataclass
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np


class Identity:
    """A constant of a program that is compared by identity, since it has no hash.

    Parameters
    ----------
    value
        The constant.
    """

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["arrays"], meta_fields=["constants", "structure", "is_array"]
)
@dataclass(frozen=True)
class Arguments:
    """Positional and named arguments as a pytree whose leaves are the arrays among them.

    Numbers, strings and objects are constants of the program: a model may build shapes of them.

    Attributes
    ----------
    arrays
        The arrays.
    constants
        Everything else.
    structure
        How they were nested.
    is_array
        Which leaves are arrays.
    """

    arrays: tuple[Any, ...]
    constants: tuple[Any, ...]
    structure: Any
    is_array: tuple[bool, ...]

    @classmethod
    def of(cls, positional: tuple, named: dict[str, Any], *, all_constant: bool = False) -> Self:
        """The arguments of a call; ``all_constant`` makes the arrays constants too."""
        leaves, structure = jax.tree.flatten((positional, named))
        is_array = tuple(isinstance(leaf, jax.Array | np.ndarray) and not all_constant for leaf in leaves)
        arrays = tuple(jnp.asarray(leaf) for leaf, array in zip(leaves, is_array, strict=True) if array)
        rest = (leaf for leaf, array in zip(leaves, is_array, strict=True) if not array)
        return cls(arrays, tuple(_hashable(leaf) for leaf in rest), structure, is_array)

    def call(self, function: Any) -> Any:
        """Call a function with them."""
        arrays, constants = iter(self.arrays), iter(self.constants)
        leaves = [next(arrays) if array else next(constants) for array in self.is_array]
        leaves = [leaf.value if isinstance(leaf, Identity) else leaf for leaf in leaves]
        positional, named = jax.tree.unflatten(self.structure, leaves)
        return function(*positional, **named)


def _hashable(leaf: Any) -> Any:
    try:
        hash(leaf)
    except TypeError:
        return Identity(leaf)
    return leaf
