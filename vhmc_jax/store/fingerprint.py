"""What tells one run from another: digests of arrays and of functions, and versions.

A function is known by the program that JAX traces it to, with the constants in it. The same function written in another
way may give another program, and is then another function. Names of variables and places in the source do not count.
"""

import hashlib
import importlib.metadata
import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

ADDRESS = re.compile(r" at 0x[0-9a-f]+|id=\d+")
PACKAGES = ("vhmc-jax", "jax", "jaxlib")
SHORT = 16
"""Hexadecimal digits of a digest that are kept: 64 bits."""


def versions() -> dict[str, Any]:
    """Versions and settings that may change bits."""
    return {
        **{name: importlib.metadata.version(name) for name in PACKAGES},
        "platform": jax.default_backend(),
        "enable_x64": bool(jax.config.jax_enable_x64),  # type: ignore[attr-defined]
    }


def arrays_of(tree: Any) -> dict[str, str]:
    """Every array of a pytree by its name: a number as it is, and a digest of a larger one."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path).lstrip(".") or "value": array_digest(leaf) for path, leaf in leaves}


def digest_of(tree: Any) -> str:
    """One digest of all arrays of a pytree, and of their names."""
    return _hashed(*(f"{name}={value}" for name, value in arrays_of(tree).items()))


def function_digest(function: Callable, *arguments: Any) -> str:
    """A digest of the program of a function at arguments of these shapes, and of the arrays that it holds."""
    return program_digest(jax.make_jaxpr(function)(*arguments))


def program_digest(program: ClosedJaxpr) -> str:
    """A digest of a traced program with its constants."""
    return _closed(program, {})


def array_digest(leaf: Any) -> str:
    """One array or key as text: a few numbers as they are, and a digest of more."""
    if isinstance(leaf, jax.Array) and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return f"{jax.random.key_impl(leaf)} {array_digest(jax.random.key_data(leaf))}"
    if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
        parts = sorted(leaf.addressable_shards, key=lambda shard: str(shard.index))
        return _hashed(*(array_digest(np.asarray(part.data)) for part in parts))
    array = np.asarray(leaf)
    if array.ndim == 0 or array.size <= 2:
        return f"{array.dtype} {array.tolist()!r}"
    return f"{array.dtype}{list(array.shape)} {_hashed(np.ascontiguousarray(array).tobytes())}"


def _hashed(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else part.encode() + b"\0")
    return digest.hexdigest()[:SHORT]


def _closed(program: ClosedJaxpr, known: dict[int, str]) -> str:
    return _hashed(_program(program.jaxpr, known), *map(array_digest, program.consts))


def _program(program: Jaxpr, known: dict[int, str]) -> str:
    """A digest of equations. Variables are numbered as they come, so that their names do not count."""
    if id(program) in known:
        return known[id(program)]
    numbers: dict[Any, int] = {}

    def name_of(atom: Any) -> str:
        if isinstance(atom, Literal):
            return f"{atom.aval.str_short()} {array_digest(atom.val)}"
        return f"{numbers.setdefault(atom, len(numbers))}:{atom.aval.str_short()}"

    parts = [name_of(variable) for variable in (*program.constvars, *program.invars)]
    for equation in program.eqns:
        settings = [f"{key}={_setting(value, known)}" for key, value in sorted(equation.params.items())]
        variables = [name_of(atom) for atom in (*equation.invars, *equation.outvars)]
        parts += [equation.primitive.name, *settings, *variables]
    parts += ["->", *(name_of(atom) for atom in program.outvars)]
    known[id(program)] = _hashed(*parts)
    return known[id(program)]


def _setting(value: Any, known: dict[int, str]) -> str:
    """A parameter of an equation: a program within the program, an array, or anything that has a text."""
    if isinstance(value, ClosedJaxpr):
        return _closed(value, known)
    if isinstance(value, Jaxpr):
        return _program(value, known)
    if isinstance(value, tuple | list):
        return f"({', '.join(_setting(part, known) for part in value)})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_setting(part, known)}' for key, part in value.items())}}}"
    if isinstance(value, np.ndarray | jax.Array):
        return array_digest(value)
    if callable(value) and hasattr(value, "__qualname__"):
        return value.__qualname__
    return ADDRESS.sub("", repr(value))
