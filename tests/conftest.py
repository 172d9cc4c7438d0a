"""Strict settings for every test: double precision available, no silent promotion."""

from collections.abc import Iterator

import chex
import jax
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--all-hostile`` runs every case of ``test_hostile.py``, of which there is otherwise a sample."""
    parser.addoption("--all-hostile", action="store_true", help="run every case of test_hostile.py")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what runs on demand alone."""
    if not config.getoption("--all-hostile"):
        left_out = [item for item in items if item.get_closest_marker("hostile")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("hostile")]


@pytest.fixture(autouse=True, scope="module")
def _forget_programs() -> Iterator[None]:
    """Clear JAX's caches after each file.

    Every compiled program holds maps of memory, of which Linux gives a process 65,530 by default. One process for all
    tests crashed in XLA's compiler, and too many maps are the likely cause.
    """
    yield
    jax.clear_caches()


@pytest.fixture(autouse=True)
def _forget_traces() -> None:
    """``chex.assert_max_traces`` knows a function by its source, so the runs of one parametrised test share a count."""
    chex.clear_trace_counter()
