"""Checks of settings, counts, positions and paths."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vhmc_jax import arguments


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.int64(2), jnp.float32(2)])
def test_parameters_have_one_type_whatever_was_written(value):
    array = arguments.as_parameter("step_size", value, positive=True)
    assert array.dtype == jnp.float64
    assert array.shape == ()
    assert not array.weak_type


@pytest.mark.parametrize(
    ("value", "signs", "message"),
    [
        (0.0, {"positive": True}, r"step_size must be positive, got 0\.0"),
        (-0.1, {"positive": True}, r"step_size must be positive, got -0\.1"),
        (-0.1, {"nonnegative": True}, r"step_size must not be negative, got -0\.1"),
        (np.nan, {}, "step_size must be finite, got nan"),
        (np.inf, {"positive": True}, "step_size must be finite, got inf"),
        ([0.1, 0.2], {}, r"step_size must be a scalar, got shape \(2,\)"),
    ],
)
def test_bad_parameter(value, signs, message):
    with pytest.raises(ValueError, match=message):
        arguments.as_parameter("step_size", value, **signs)


def test_traced_parameter_is_not_looked_at():
    assert jax.jit(lambda value: arguments.as_parameter("step_size", value, positive=True))(-1.0) == -1.0


def test_counts():
    assert arguments.as_count("n", np.int32(3), 1) == 3
    with pytest.raises(TypeError, match=r"n must be an integer, got float: 3\.0"):
        arguments.as_count("n", 3.0, 1)
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        arguments.as_count("n", 0, 1)


def test_position_keeps_definite_dtypes():
    position = arguments.as_position({"a": np.array([1, 2], np.float32), "b": 1.5})
    assert position["a"].dtype == jnp.float32
    assert position["b"].dtype == jnp.float64
    assert not position["b"].weak_type


def test_a_path_is_told_from_what_is_none():
    assert arguments.as_path("path", "run.html", "that of a file") == Path("run.html")
    with pytest.raises(TypeError, match="store must be the path of a folder, got int: 3"):
        arguments.as_path("store", 3, "the path of a folder")
