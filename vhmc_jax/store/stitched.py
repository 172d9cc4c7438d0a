"""Arrays whose parts lie in several files, one after another along an axis."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from vhmc_jax.base import PyTree


class Stitched:
    """An array (chain, draw, ...) in parts along the second axis. What is not asked for is not read.

    ``numpy.asarray`` reads all of it, and so does any function of NumPy.

    Parameters
    ----------
    parts
        Functions that give the parts. A part is read by its indexing, as a ``numpy.memmap`` is.
    lengths
        How many draws each part has.
    shape
        Shape of one draw of all chains, (chain, ...).
    dtype
        Dtype of the array.
    """

    def __init__(
        self, parts: Sequence[Callable[[], np.ndarray]], lengths: list[int], shape: tuple[int, ...], dtype: Any
    ):
        self._parts = parts
        self._ends = np.cumsum([0, *lengths])
        self.shape = (shape[0], int(self._ends[-1]), *shape[1:])
        self.dtype = np.dtype(dtype)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape))

    @property
    def nbytes(self) -> int:
        """Bytes that all of it would take in memory."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Stitched(shape={self.shape}, dtype={self.dtype}, {len(self._parts)} parts on disk)"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self[:]
        return array if dtype is None else array.astype(dtype, copy=False)

    def __getitem__(self, index: Any) -> np.ndarray:
        index = index if isinstance(index, tuple) else (index,)
        if len(index) > self.ndim or not all(isinstance(part, int | np.integer | slice) for part in index):
            return np.asarray(self)[index]  # lists, masks, new axes: NumPy knows how
        chains, draws, *rest = (*index, slice(None), slice(None))[: max(2, len(index))]
        return self._read(chains, draws, rest)

    def _read(self, chains: Any, draws: Any, rest: list) -> np.ndarray:
        """What lies at these chains, these draws, and the rest of the index."""
        numbers = range(self.shape[1])[draws]
        if isinstance(numbers, int):
            part = int(np.searchsorted(self._ends, numbers, side="right")) - 1
            return np.array(self._parts[part]()[(chains, numbers - int(self._ends[part]), *rest)])
        found = (self._piece(part, numbers, chains, rest) for part in range(len(self._parts)))
        pieces = [piece for piece in found if piece is not None] or [self._none[(chains, draws, *rest)]]
        return np.concatenate(pieces[:: 1 if numbers.step > 0 else -1], axis=1 if isinstance(chains, slice) else 0)

    @property
    def _none(self) -> np.ndarray:
        """An array of this shape that takes no memory, to tell the shape of what is empty."""
        return np.broadcast_to(np.zeros((), self.dtype), self.shape)

    def _piece(self, part: int, numbers: range, chains: Any, rest: list) -> np.ndarray | None:
        """Those of the draws of these numbers that lie in a part; None where none does."""
        start, end = int(self._ends[part]), int(self._ends[part + 1])
        upward = numbers if numbers.step > 0 else numbers[::-1]
        first = upward.start + max(0, -(-(start - upward.start) // upward.step)) * upward.step
        last = min(end, upward.stop)
        if first >= last:
            return None
        # A copy, so that the file is let go of: pages of a mapped file count as memory of the process.
        piece = np.array(self._parts[part]()[(chains, slice(first - start, last - start, upward.step), *rest)])
        axis = 1 if isinstance(chains, slice) else 0
        return piece if numbers.step > 0 else np.flip(piece, axis)


class Joined(Stitched):
    """Arrays (chain, draw, ...) in parts, one after another along the first axis; draws that all of them have.

    Parameters
    ----------
    arrays
        The arrays.
    """

    def __init__(self, arrays: Sequence[Stitched]):
        self.arrays = tuple(arrays)
        self._chains = np.cumsum([0, *(len(array) for array in arrays)])
        num_draws = min(array.shape[1] for array in arrays)
        self.shape = (int(self._chains[-1]), num_draws, *arrays[0].shape[2:])
        self.dtype = arrays[0].dtype

    def __repr__(self) -> str:
        return f"Joined(shape={self.shape}, dtype={self.dtype}, {len(self.arrays)} processes' parts on disk)"

    def _read(self, chains: Any, draws: Any, rest: list) -> np.ndarray:
        numbers = range(self.shape[1])[draws]
        if isinstance(numbers, range):  # counted from the front, as each array may have more draws than all have
            stop = numbers.stop if numbers.stop >= 0 else None
            numbers = slice(numbers.start, stop, numbers.step) if len(numbers) else slice(0, 0)
        wanted = np.arange(len(self))[chains]
        owners = np.searchsorted(self._chains, wanted, side="right") - 1
        if wanted.ndim == 0:
            return self.arrays[owners][(int(wanted - self._chains[owners]), numbers, *rest)]
        pieces = []
        for owner in sorted(set(owners.tolist()), reverse=bool(len(wanted)) and bool(wanted[0] > wanted[-1])):
            own = wanted[owners == owner] - self._chains[owner]
            step = int(own[1] - own[0]) if len(own) > 1 else 1
            stop = int(own[-1]) + (1 if step > 0 else -1)
            pieces.append(self.arrays[owner][(slice(int(own[0]), None if stop < 0 else stop, step), numbers, *rest)])
        return np.concatenate(pieces) if pieces else self._none[(chains, numbers, *rest)]


def is_stitched(tree: PyTree) -> bool:
    """Whether the arrays of a pytree lie in files."""
    return all(isinstance(leaf, Stitched) for leaf in jax.tree.leaves(tree))


def mapped(function: Callable[[PyTree], PyTree], tree: PyTree) -> PyTree:
    """A function of draws, applied to each part when it is looked at.

    Parameters
    ----------
    function
        Takes a pytree of (chain, draw, ...) arrays, any number of draws, and returns another one.
    tree
        A pytree of :class:`Stitched`, all from the same files.
    """
    leaves, treedef = jax.tree.flatten(tree)
    like: Stitched = leaves[0]
    if isinstance(like, Joined):
        trees = [
            mapped(function, jax.tree.unflatten(treedef, arrays))
            for arrays in zip(*(x.arrays for x in leaves), strict=True)
        ]
        return jax.tree.map(lambda *parts: Joined(parts), *trees)
    one = [jax.ShapeDtypeStruct((leaf.shape[0], 1, *leaf.shape[2:]), leaf.dtype) for leaf in leaves]
    outputs, structure = jax.tree.flatten(jax.eval_shape(function, jax.tree.unflatten(treedef, one)))

    def part(file: int, number: int) -> np.ndarray:
        pieces = [leaf._parts[file]() for leaf in leaves]
        return np.asarray(jax.tree.leaves(function(jax.tree.unflatten(treedef, pieces)))[number])

    def stitched(number: int, output: Any) -> Stitched:
        parts = [functools.partial(part, file, number) for file in range(len(like._parts))]
        lengths = [int(length) for length in np.diff(like._ends)]
        return Stitched(parts, lengths, (output.shape[0], *output.shape[2:]), output.dtype)

    return jax.tree.unflatten(structure, [stitched(number, output) for number, output in enumerate(outputs)])
