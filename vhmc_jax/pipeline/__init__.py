"""From a log density to draws: discover, fit, tune, produce, judge."""

from vhmc_jax.pipeline.frozen import Frozen
from vhmc_jax.pipeline.phase import Phase
from vhmc_jax.pipeline.result import Result
from vhmc_jax.pipeline.sample import sample

__all__ = ["Frozen", "Phase", "Result", "sample"]
