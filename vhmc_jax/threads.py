"""One thread for NumPy's products of matrices.

Search and fit multiply matrices of some thousand rows and a few columns, thousands of times. Threads of BLAS gain
little there. On a machine that runs other programs too, each product waits for the slowest of them: a fit took 31 s of
processor time with two threads, and 7 s with one. With several threads the last bits of a product depend on their
number, so that a run that goes on on another machine could end with other draws.
"""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from threadpoolctl import threadpool_limits

P = ParamSpec("P")
T = TypeVar("T")


def one_blas_thread(function: Callable[P, T]) -> Callable[P, T]:
    """The same function, in which BLAS has one thread. Afterwards it has as many as before."""

    @functools.wraps(function)
    def limited(*arguments: P.args, **named: P.kwargs) -> T:
        with threadpool_limits(limits=1, user_api="blas"):
            return function(*arguments, **named)

    return limited
