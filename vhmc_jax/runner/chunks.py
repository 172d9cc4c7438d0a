"""Where a long run comes back to the host: between chunks, and when it is asked to end."""

import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple, Self

import numpy as np

from vhmc_jax.runner.loop import Schedule

CHUNK_SECONDS = 0.25
"""How long a chunk takes, about: how often a progress bar moves, and how long Ctrl-C waits."""
MOST_GROWTH = 64
"""How many times as long as the one before a chunk may be. Iterations are not alike, and the first may be quick."""


class Window(NamedTuple):
    """Draws for which there is memory at one time: those of numbers ``n * size`` to ``(n + 1) * size``.

    Attributes
    ----------
    schedule
        Numbers of iterations of the whole run.
    size
        Draws of one window.
    """

    schedule: Schedule
    size: int

    def num_draws(self, done: int) -> int:
        """Draws of each chain that so many iterations complete."""
        return max(0, done - int(self.schedule.num_burnin)) // int(self.schedule.thinning)

    def first_draw(self, done: int) -> int:
        """Number of the first draw of the window in which the next iteration lies."""
        return self.num_draws(done) // self.size * self.size

    def schedule_at(self, done: int) -> Schedule:
        """The schedule with all earlier windows as burn-in: then the window's draws are the first ones."""
        skipped = self.first_draw(done) * int(self.schedule.thinning)
        return self.schedule._replace(num_burnin=np.int32(int(self.schedule.num_burnin) + skipped))

    def end(self, done: int) -> int:
        """Iterations after which the window is full."""
        return int(self.schedule_at(done).num_burnin) + self.size * int(self.schedule.thinning)


def chunk_ends(total: int, window: Window | None = None, done: int = 0) -> Iterator[int]:
    """Numbers of iterations at which to come back to the host; the last is the total.

    The first chunk is one iteration. Each next chunk has as many iterations as will take about a quarter of a second,
    judged by the time of the one before. To come back costs about a millisecond, so a short run should seldom do it.

    Parameters
    ----------
    total
        Number of iterations of the run.
    window
        No chunk goes beyond the end of its window, where there is one.
    done
        Iterations that were taken before.
    """
    size = 1
    while done < total:
        started, before = time.perf_counter(), done
        done = min(done + size, total, total if window is None else window.end(done))
        yield done  # the caller takes these iterations
        growth = CHUNK_SECONDS / max(time.perf_counter() - started, 1e-9)
        size = max(1, int((done - before) * min(growth, MOST_GROWTH)))


class Interrupt:
    """Remembers the first Ctrl-C or SIGTERM, for a loop that looks between chunks. The second acts as usual.

    SIGTERM is what a cluster sends before it ends a job.

    Parameters
    ----------
    is_caught
        Whether to catch them at all. Only the main thread can.
    """

    def __init__(self, is_caught: bool):
        self._is_caught = is_caught and threading.current_thread() is threading.main_thread()
        self._previous: dict[int, Any] = {}
        self.is_asked = False

    def __enter__(self) -> Self:
        if self._is_caught:
            self._previous = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            if handler is not None:  # of a handler that was not set from Python nothing is known
                signal.signal(number, handler)

    def _ask(self, number: int, _: FrameType | None) -> None:
        self.is_asked = True
        signal.signal(number, self._previous[number] or signal.SIG_DFL)
