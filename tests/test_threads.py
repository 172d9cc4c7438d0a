"""One thread of BLAS within a function, and as many as before outside of it."""

import threading

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from vhmc_jax.threads import one_blas_thread


def num_threads():
    """Threads of each BLAS that is loaded."""
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_one_thread_within_and_as_many_as_before_outside():
    """A second thread that a caller asked for comes back, after an error too."""

    @one_blas_thread
    def fail(counts):
        counts += num_threads()
        raise ValueError("stop")

    with threadpool_limits(limits=2, user_api="blas"):
        before, within = num_threads(), []
        with pytest.raises(ValueError, match="stop"):
            fail(within)
        assert set(within) == {1}
        assert num_threads() == before


def test_calls_that_overlap_leave_as_many_as_before():
    """The one that began first ends first: had each put back what it found, one thread would be left for good."""
    first_may_end, has_begun = threading.Event(), threading.Event()

    @one_blas_thread
    def first():
        has_begun.set()
        assert first_may_end.wait(60)

    @one_blas_thread
    def second(thread):
        first_may_end.set()
        thread.join()
        return num_threads()

    with threadpool_limits(limits=2, user_api="blas"):
        before, thread = num_threads(), threading.Thread(target=first)
        thread.start()
        assert has_begun.wait(60)
        assert set(second(thread)) == {1}
        assert num_threads() == before


def test_the_function_keeps_its_name_and_its_value():
    """So that documents and errors name it."""

    @one_blas_thread
    def double(x):
        """Twice."""
        return 2 * x

    assert double(3) == 6
    assert (double.__name__, double.__doc__) == ("double", "Twice.")
