"""What every diagnostic expects: a pytree of (chain, draw, ...) arrays, checked once and read in blocks.

Blocks bound the memory: a thousand long chains are read a few chains at a time. Each block is small enough to stay in
the cache while it is transposed and transformed. Draws that fit into one block are handled in NumPy, since JAX would
compile for longer than the work takes.
"""

import math
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vhmc_jax.arguments import is_concrete
from vhmc_jax.programs import SOON_COMPILED, program

BLOCK_SIZE = 2**20
"""Numbers in one block of chains. The ESS of 10⁸ draws took the same time with blocks of 2¹⁹ to 2²² numbers."""


def check_draws(draws: Any, name: str = "draws") -> Any:
    """Check that every leaf is (chain, draw, ...) and real; integers, booleans and half floats become floats.

    Parameters
    ----------
    draws
        Pytree of arrays whose two leading axes are chain and draw.
    name
        What the caller's argument is called, for the error message.

    Returns
    -------
    The pytree with leaves of 32 or 64 bits; those of NumPy stay NumPy's.
    """
    paths, treedef = jax.tree_util.tree_flatten_with_path(draws)
    if not paths:
        raise ValueError(f"{name} must hold at least one (chain, draw, ...) array, got an empty pytree")
    leaves = []
    for path, value in paths:
        leaf = value if isinstance(value, Array | np.ndarray) else np.asarray(value)
        where = name + jax.tree_util.keystr(path)
        if leaf.ndim < 2 or 0 in leaf.shape[:2]:
            raise ValueError(f"{where} must have axes (chain, draw, ...), got shape {leaf.shape}")
        if not (jnp.issubdtype(leaf.dtype, np.floating) or leaf.dtype.kind in "biu"):
            raise TypeError(f"{where} must be real numbers, got dtype {leaf.dtype}")
        leaves.append(leaf if leaf.dtype in (np.float32, np.float64) else leaf.astype(_float_for(leaf.dtype)))
    shapes = {leaf.shape[:2] for leaf in leaves}
    if len(shapes) > 1:
        raise ValueError(f"leaves of {name} must agree on (chain, draw), got {sorted(shapes)}")
    return jax.tree.unflatten(treedef, leaves)


def _float_for(dtype: Any) -> Any:
    """Single precision for half precision, which has no FFT; the default float for integers and booleans."""
    half = jnp.issubdtype(dtype, np.floating)
    return np.float32 if half else jax.dtypes.canonicalize_dtype(np.float64)


def named_leaves(tree: Any, name_alone: str) -> dict[str, Any]:
    """Leaves by their paths, ``"a.b"`` for ``tree["a"]["b"]``; one leaf by itself is ``name_alone``."""
    paths = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator=".") or name_alone: leaf for path, leaf in paths}


def named_components(draws: Any) -> dict[str, np.ndarray]:
    """Each (chain, draw) component on the host by its name, ``"a.b[2]"``, in ``ravel_pytree``'s order."""
    result = {}
    for name, leaf in named_leaves(draws, "x").items():
        host = np.asarray(leaf)
        for index in np.ndindex(host.shape[2:]):
            suffix = f"[{', '.join(map(str, index))}]" if index else ""
            result[name + suffix] = host[(slice(None), slice(None), *index)]
    return result


def coordinate_names(draws: Any) -> list[str]:
    """What a sentence calls each component: ``"a.b[2]"`` as tables do, ``"coordinate 2"`` of one array by itself."""
    names = list(named_components(draws))
    if jax.tree_util.all_leaves([draws]):
        return [f"coordinate {i}" for i in range(len(names))]
    return [f"component {name}" if name[0].isdigit() else name for name in names]


def flatten_draws(draws: Any, num_leading: int = 2) -> Array:
    """Leaves of (chain, draw, ...) side by side: (chain, draw, d), in the order of ``ravel_pytree``."""
    leaves = jax.tree.leaves(draws)
    dtype = jax.dtypes.canonicalize_dtype(np.result_type(*(leaf.dtype for leaf in leaves)))
    lead = leaves[0].shape[:num_leading]
    return jnp.concatenate([jnp.asarray(leaf, dtype).reshape(*lead, -1) for leaf in leaves], axis=-1)


def split_chains(x: Any) -> Any:
    """Halve each chain: (chain, draw, ...) to (2 chain, draw // 2, ...). The middle of an odd number is left out."""
    num_draws = x.shape[1]
    half = num_draws // 2
    return namespace(x).concatenate([x[:, :half], x[:, num_draws - half :]], axis=0)


def namespace(x: Any) -> Any:
    """``numpy`` or ``jax.numpy``, whichever x is an array of."""
    return np if isinstance(x, np.ndarray) else jnp


def host_or_compiled(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of one array that runs in NumPy where the array is concrete and fits into one block, else compiled.

    ``function`` takes NumPy's arrays and JAX's; :func:`namespace` tells it which ones it got.
    """
    compiled = jax.jit(function)

    @wraps(function)
    def either(x: Any) -> Any:
        if not is_concrete(x) or x.size > BLOCK_SIZE:
            return compiled(x)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            return function(np.asarray(x, jax.dtypes.canonicalize_dtype(x.dtype)))

    return either


def map_blocks(function: Callable[[Array], Any], x: Array, block_size: int = BLOCK_SIZE) -> Any:
    """Apply a function of (block of chains, draw, ...) to all chains; outputs lead with a block axis.

    The block is the largest divisor of the number of chains that holds at most ``block_size`` elements.
    """
    num_chains = x.shape[0]
    largest = max(1, block_size * num_chains // max(x.size, 1))
    block = max(b for b in range(1, num_chains + 1) if num_chains % b == 0 and b <= largest)
    if block == num_chains:
        return jax.tree.map(lambda y: y[None], function(x))
    return jax.lax.map(function, x.reshape(num_chains // block, block, *x.shape[1:]))


@partial(program, options=SOON_COMPILED, static_argnums=2)
def map_draws(function: Callable[[Array], Array], x: Array, num_outputs: int) -> Array:
    """A function of one flat draw, at each draw of x (chain, draw, d): (chain, draw, output).

    ``function`` must be a pytree, and return ``num_outputs`` numbers.
    """
    blocks = map_blocks(jax.vmap(jax.vmap(function)), x, max(1, BLOCK_SIZE // num_outputs))
    return blocks.reshape(*x.shape[:2], num_outputs)


def smooth_length(at_least: int) -> int:
    """The smallest 2^a 3^b 5^c that is not below ``at_least``. The FFT is fast for such lengths."""
    best = 2 ** math.ceil(math.log2(max(at_least, 1)))
    fives = 1
    while fives < best:
        threes = fives
        while threes < best:
            twos = 2 ** max(0, math.ceil(math.log2(at_least / threes)))
            best = min(best, threes * twos) if threes * twos >= at_least else best
            threes *= 3
        fives *= 5
    return best
