"""Distances of many points from many centres, each with a metric of its own."""

import numpy as np

BLOCK_SIZE = 2**17
"""Numbers in one block of whitened points, so that they stay in the cache."""


def squared_distances(x: np.ndarray, means: np.ndarray, whitenings: np.ndarray) -> np.ndarray:
    """|W_k (x − m_k)|² in double precision.

    Parameters
    ----------
    x
        Points, shape (n, d).
    means, whitenings
        Shapes (k, d) and (k, d, d).

    Returns
    -------
    Shape (n, k); NaN or infinite for a point that is not finite. In memory the distances from one centre lie together,
    and so does what NumPy computes from them: sums over a few centres are then many times as fast.
    """
    k, d = means.shape
    result = np.empty((k, len(x)))
    # One product for all centres: their whitenings one above the other.
    stacked = whitenings.astype(np.float64).reshape(k * d, d)
    offsets = np.einsum("kij,kj->ki", whitenings, means, dtype=np.float64)[..., None]
    size = max(1, BLOCK_SIZE // (k * d))
    with np.errstate(invalid="ignore", over="ignore"):
        for start in range(0, len(x), size):
            white = (stacked @ x[start : start + size].T.astype(np.float64)).reshape(k, d, -1)
            white -= offsets
            np.sum(np.square(white, out=white), axis=1, out=result[:, start : start + size])
    return result.T
