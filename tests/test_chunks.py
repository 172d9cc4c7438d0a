"""Where a run comes back to the host: how long chunks are, and what Ctrl-C does."""

import signal
import threading

import pytest

from vhmc_jax.runner import chunks


def test_chunks_grow_to_a_quarter_of_a_second_and_shrink_again(monkeypatch):
    now, seconds_each = 0.0, 0.0001
    monkeypatch.setattr(chunks.time, "perf_counter", lambda: now)
    ends = []
    for end in chunks.chunk_ends(10_000):
        now += seconds_each * (end - (ends[-1] if ends else 0))
        ends.append(end)
        seconds_each = 0.0001 if end < 2_000 else 0.001
    assert ends[:3] == [1, 1 + 64, 1 + 64 + 2500]
    assert ends[3] - ends[2] == 2500, "one too long, since iterations became slower"
    assert ends[4] - ends[3] == 250
    assert ends[-1] == 10_000


@pytest.fixture
def _ctrl_c_raises():
    """As in a terminal. A shell that starts a program in the background has it ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_ctrl_c_raises")
def test_the_first_interrupt_is_remembered_and_the_second_raises():
    handler = signal.getsignal(signal.SIGINT)
    with chunks.Interrupt(is_caught=True) as interrupt:
        assert not interrupt.is_asked
        signal.raise_signal(signal.SIGINT)
        assert interrupt.is_asked
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.usefixtures("_ctrl_c_raises")
def test_an_interrupt_raises_where_it_is_not_to_be_caught():
    with pytest.raises(KeyboardInterrupt), chunks.Interrupt(is_caught=False):
        signal.raise_signal(signal.SIGINT)


def test_handlers_are_left_alone_on_other_threads():
    """Python sets them on the main thread alone."""
    failures = []

    def enter():
        try:
            with chunks.Interrupt(is_caught=True):
                pass
        except ValueError as error:
            failures.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert not failures
