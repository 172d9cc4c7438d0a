"""Strict settings for every test: double precision available, no silent promotion."""

from collections.abc import Iterator

import jax
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")


@pytest.fixture(autouse=True, scope="module")
def _forget_programs() -> Iterator[None]:
    """Compiled programs of one file after another: all at once are more maps of memory than Linux gives a process."""
    yield
    jax.clear_caches()
