"""From a log density to draws: discover, warm up, freeze, produce."""

from vhmc_jax.pipeline.frozen import Frozen
from vhmc_jax.pipeline.result import Phase, Result
from vhmc_jax.pipeline.sample import sample

__all__ = ["Frozen", "Phase", "Result", "sample"]
