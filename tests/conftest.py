"""Strict settings for every test: double precision available, no silent promotion."""

from collections.abc import Iterator

import jax
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")


@pytest.fixture(autouse=True, scope="module")
def _forget_programs() -> Iterator[None]:
    """Clear JAX's caches after each file.

    Linux gives a process 65,530 maps of memory by default. Every compiled program holds some, and those of the whole
    suite together are too many: XLA's compiler then crashes.
    """
    yield
    jax.clear_caches()
