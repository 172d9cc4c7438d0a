"""Models as users have them, as problems that ``sample`` takes."""

from vhmc_jax.models.constrain import constrain
from vhmc_jax.models.constraints import interval, ordered, positive, real, simplex
from vhmc_jax.models.from_log_prob import from_log_prob
from vhmc_jax.models.from_numpyro import from_numpyro
from vhmc_jax.models.from_pymc import from_pymc
from vhmc_jax.models.problem import Problem

__all__ = [
    "Problem",
    "constrain",
    "from_log_prob",
    "from_numpyro",
    "from_pymc",
    "interval",
    "ordered",
    "positive",
    "real",
    "simplex",
]
