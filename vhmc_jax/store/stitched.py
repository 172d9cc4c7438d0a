"""Arrays whose parts lie in several files, one after another along an axis."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


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
        numbers = range(self.shape[1])[draws]
        if isinstance(numbers, int):
            part = int(np.searchsorted(self._ends, numbers, side="right")) - 1
            return np.array(self._parts[part]()[(chains, numbers - int(self._ends[part]), *rest)])
        found = (self._piece(part, numbers, chains, rest) for part in range(len(self._parts)))
        pieces = [piece for piece in found if piece is not None] or [np.empty(self.shape, self.dtype)[index]]
        return np.concatenate(pieces[:: 1 if numbers.step > 0 else -1], axis=1 if isinstance(chains, slice) else 0)

    def _piece(self, part: int, numbers: range, chains: Any, rest: list) -> np.ndarray | None:
        """Those of the draws of these numbers that lie in a part; None where none does."""
        start, end = int(self._ends[part]), int(self._ends[part + 1])
        upward = numbers if numbers.step > 0 else numbers[::-1]
        first = upward.start + max(0, -(-(start - upward.start) // upward.step)) * upward.step
        last = min(end, upward.stop)
        if first >= last:
            return None
        piece = self._parts[part]()[(chains, slice(first - start, last - start, upward.step), *rest)]
        axis = 1 if isinstance(chains, slice) else 0
        return piece if numbers.step > 0 else np.flip(piece, axis)
