"""A progress bar that is driven from the host, between compiled chunks."""

import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any, Self

from tqdm import tqdm

CHUNK_SECONDS = 0.25
"""How often the bar moves, about."""
MOST_GROWTH = 64
"""Of a chunk: where iterations are not alike, the first may be quick."""


class ProgressBar:
    """Cuts a run into chunks of about a quarter of a second and shows how far it is.

    Parameters
    ----------
    total
        Number of iterations.
    description
        What stands before the bar.
    is_shown
        Whether to show it.
    is_chunked
        Whether to cut the run; otherwise it is one chunk.
    """

    def __init__(self, total: int, description: str, is_shown: bool, is_chunked: bool):
        self._total = total
        self._is_shown = is_shown
        self._is_chunked = is_chunked
        self._bar = tqdm(total=total, desc=description, unit="it", file=sys.stderr, disable=not is_shown)

    def chunk_ends(self) -> Iterator[int]:
        """Numbers of iterations at which to come back to the host; the last is the total.

        From one iteration on, each chunk has as many as will take about a quarter of a second, by the time of the one
        before: to come back costs about a millisecond, so that a short run should seldom do it.
        """
        done, size = 0, 1 if self._is_chunked else self._total
        try:
            while done < self._total:
                started = time.perf_counter()
                done = min(done + size, self._total)
                yield done
                growth = CHUNK_SECONDS / max(time.perf_counter() - started, 1e-9)
                size = max(1, int(size * min(growth, MOST_GROWTH)))
        finally:
            self._bar.close()

    def show(self, done: int, **figures: float) -> None:
        """Move the bar to ``done`` iterations and show the figures beside it."""
        if self._is_shown:
            self._bar.set_postfix({name: f"{value:.3f}" for name, value in figures.items()}, refresh=False)
            self._bar.update(done - self._bar.n)


class Interrupt:
    """Remembers the first Ctrl-C, for a loop that looks between chunks; the second one raises as usual.

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
