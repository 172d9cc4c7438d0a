"""Records as a description and arrays, and back.

A record is made of NamedTuples and dataclasses of this package, of tuples, lists, dicts, numbers, strings, None, arrays
and keys. The description is JSON. It names the package's classes, and no others: reading a file runs no code of others.
A NamedTuple of another package comes back as one of the same name and fields.
"""

import dataclasses
import functools
import importlib
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax.store.stitched import Stitched

PACKAGE = __name__.partition(".")[0]
Arrays = dict[str, Any]


def encode(record: Any, is_lenient: bool = False) -> tuple[Any, Arrays]:
    """A record as a description for JSON, and the arrays that it names.

    Parameters
    ----------
    record
        Anything made of the parts that the module's docstring names.
    is_lenient
        Whether a part that is none of these becomes None. Otherwise it is an error.

    Returns
    -------
    The description, and the arrays by their names.
    """
    encoder = _Encoder(is_lenient)
    return encoder.encode(record, ""), encoder.arrays


def decode(description: Any, array_of: Callable[[str], np.ndarray]) -> Any:
    """The record of a description.

    Parameters
    ----------
    description
        What ``encode`` returned.
    array_of
        The array of a name.

    Returns
    -------
    The record. An array of JAX is one of JAX again, unless its dtype needs the double precision that is not enabled.
    """
    kind, *content = description if isinstance(description, list) else ("constant", description)
    part = functools.partial(decode, array_of=array_of)
    if kind == "constant":
        return content[0]
    if kind == "tuple":
        return tuple(map(part, content))
    if kind == "list":
        return list(map(part, content))
    if kind == "dict":
        return {part(key): part(value) for key, value in content}
    if kind == "record":
        return _record(content[0], {name: part(value) for name, value in content[1].items()})
    if kind == "like":
        return _lookalike(content[0], tuple(content[1]))(*map(part, content[1].values()))
    if kind == "array":
        return _array(array_of(content[0]), *content[1:])
    if kind == "key":
        return jax.random.wrap_key_data(jnp.asarray(array_of(content[0])), impl=content[1])
    raise ValueError(f"a description of unknown kind {kind!r}: written by a newer version?")


class _Encoder:
    """Makes descriptions, and collects the arrays that they name."""

    def __init__(self, is_lenient: bool):
        self.arrays: Arrays = {}
        self._is_lenient = is_lenient

    def encode(self, value: Any, path: str) -> Any:
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, jax.Array | np.ndarray | np.generic | Stitched):
            return self._encode_array(value, path or "array")
        if type(value) is dict:
            pairs = ((_constant(key, path), self.encode(part, f"{path}[{key}]")) for key, part in value.items())
            return ["dict", *map(list, pairs)]
        if type(value) in (tuple, list):
            return [type(value).__name__, *(self.encode(part, f"{path}[{i}]") for i, part in enumerate(value))]
        names = _fields(value)
        if names is None or isinstance(value, type):
            if self._is_lenient:
                return None
            raise TypeError(
                f"{path or 'a record'} cannot be stored: expected arrays, numbers, strings, None, tuples, lists, "
                f"dicts, NamedTuples or records of {PACKAGE}, got {type(value).__module__}.{type(value).__qualname__}"
            )
        parts = {name: self.encode(getattr(value, name), f"{path}.{name}".lstrip(".")) for name in names}
        name = f"{type(value).__module__}:{type(value).__qualname__}"
        return ["record", name, parts] if _class_of(name) is type(value) else ["like", type(value).__name__, parts]

    def _encode_array(self, value: Any, name: str) -> list:
        while name in self.arrays:
            name += "_"
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            self.arrays[name] = np.asarray(jax.random.key_data(value))
            return ["key", name, str(jax.random.key_impl(value))]
        is_native = value.dtype.kind != "V"  # bfloat16 and its like are no dtypes of NumPy's files
        array: Any = value if isinstance(value, Stitched) and is_native else np.asarray(value)
        if array.dtype.hasobject:
            raise TypeError(f"{name}: an array of Python objects cannot be stored")
        self.arrays[name] = array if is_native else array.view(f"u{array.dtype.itemsize}")
        is_scalar = isinstance(value, np.generic)
        home = "jax" if isinstance(value, jax.Array) else "scalar" if is_scalar else "numpy"
        is_weak = bool(getattr(value, "weak_type", False))
        return ["array", name, home, str(array.dtype), *(["weak"] if is_weak else [])]


def _fields(value: Any) -> tuple[str, ...] | None:
    """Names of the fields of a NamedTuple, or of a dataclass of the package; None for anything else."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return value._fields
    if dataclasses.is_dataclass(value) and type(value).__module__.partition(".")[0] == PACKAGE:
        return tuple(field.name for field in dataclasses.fields(value))
    return None


def _constant(key: Any, path: str) -> Any:
    """A key of a dict."""
    if type(key) in (bool, int, float, str):
        return key
    if type(key) is tuple:
        return ["tuple", *(_constant(part, path) for part in key)]
    raise TypeError(f"{path}: keys of dicts must be strings or numbers to be stored, got {type(key).__name__}: {key!r}")


def _array(array: np.ndarray, home: str, dtype: str, weak: str = "") -> Any:
    array = array if str(array.dtype) == dtype else array.view(jnp.dtype(dtype))
    if home == "scalar":
        return array[()]
    if home == "numpy" or jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
        return array
    return jnp.asarray(array.item()) if weak and array.ndim == 0 else jnp.asarray(array)


def _record(name: str, parts: dict[str, Any]) -> Any:
    """An object of a class of the package, made of its fields without running its checks again."""
    cls = _class_of(name)
    if cls is None:
        raise ValueError(f"this version of {PACKAGE} has no record {name}: was the file written by another one?")
    names = getattr(cls, "_fields", None) or [field.name for field in dataclasses.fields(cls)]
    if set(names) != set(parts):
        changed = ", ".join(sorted(set(names) ^ set(parts)))
        raise ValueError(f"{name} has other fields in this version of {PACKAGE}: {changed}")
    if issubclass(cls, tuple):
        return cls(**parts)
    value: Any = object.__new__(cls)
    for field, part in parts.items():
        object.__setattr__(value, field, part)
    return value


def _class_of(name: str) -> Any:
    """The class of the package that has this name; None where there is none."""
    module, _, qualified = name.partition(":")
    if module.partition(".")[0] != PACKAGE:
        return None
    try:
        cls: Any = functools.reduce(getattr, qualified.split("."), importlib.import_module(module))
    except (ImportError, AttributeError):
        return None
    is_record = isinstance(cls, type) and (dataclasses.is_dataclass(cls) or hasattr(cls, "_fields"))
    return cls if is_record and cls.__module__ == module else None


@functools.cache
def _lookalike(name: str, fields: tuple[str, ...]) -> Any:
    return namedtuple(name, fields)
