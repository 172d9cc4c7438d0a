"""Where a long run comes back to the host: between chunks, and when the user presses Ctrl-C."""

import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any, Self

CHUNK_SECONDS = 0.25
"""How long a chunk takes, about: how often a progress bar moves, and how long Ctrl-C waits."""
MOST_GROWTH = 64
"""How many times as long as the one before a chunk may be. Iterations are not alike, and the first may be quick."""


def chunk_ends(total: int) -> Iterator[int]:
    """Numbers of iterations at which to come back to the host; the last is the total.

    The first chunk is one iteration. Each next chunk has as many iterations as will take about a quarter of a second,
    judged by the time of the one before. To come back costs about a millisecond, so a short run should seldom do it.

    Parameters
    ----------
    total
        Number of iterations of the run.
    """
    done, size = 0, 1
    while done < total:
        started = time.perf_counter()
        done = min(done + size, total)
        yield done  # the caller takes these iterations
        growth = CHUNK_SECONDS / max(time.perf_counter() - started, 1e-9)
        size = max(1, int(size * min(growth, MOST_GROWTH)))


class Interrupt:
    """Remembers the first Ctrl-C, for a loop that looks between chunks. The second one raises as usual.

    Parameters
    ----------
    is_caught
        Whether to catch it at all. Only the main thread can.
    """

    def __init__(self, is_caught: bool):
        self._is_caught = is_caught and threading.current_thread() is threading.main_thread()
        self._previous: Any = None
        self.is_asked = False

    def __enter__(self) -> Self:
        if self._is_caught:
            self._previous = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_caught:
            signal.signal(signal.SIGINT, self._previous)

    def _ask(self, _: int, __: FrameType | None) -> None:
        self.is_asked = True
        signal.signal(signal.SIGINT, self._previous)
