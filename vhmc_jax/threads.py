"""One thread for NumPy's products of matrices.

Search, fit and diagnostics multiply matrices of some thousand rows and a few columns, thousands of times. Threads of
BLAS gain little there. On a machine that runs other programs too, each product waits for the slowest of them: a fit
took 31 s of processor time with two threads, and 7 s with one. With several threads the last bits of a product depend
on their number, so that a run that goes on on another machine could end with other draws.
"""

import functools
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from threadpoolctl import threadpool_limits

P = ParamSpec("P")
T = TypeVar("T")


class _OneThread:
    """The limit, while anyone wants it. It is one of the whole process: the last to leave lifts it."""

    def __init__(self) -> None:
        self._lock, self._num_users = threading.Lock(), 0
        self._limits: list[Any] = []

    def __enter__(self) -> None:
        with self._lock:
            self._num_users += 1
            # Each time anew, for libraries that have been loaded meanwhile.
            self._limits.append(threadpool_limits(limits=1, user_api="blas"))

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._num_users -= 1
            while self._num_users == 0 and self._limits:
                self._limits.pop().restore_original_limits()


_ONE_THREAD = _OneThread()


def one_blas_thread(function: Callable[P, T]) -> Callable[P, T]:
    """The same function, in which BLAS has one thread. Afterwards it has as many as before."""

    @functools.wraps(function)
    def limited(*arguments: P.args, **named: P.kwargs) -> T:
        with _ONE_THREAD:
            return function(*arguments, **named)

    return limited
