"""Models as users have them, as problems that ``sample`` takes."""

from vhmc_jax.models.constrain import constrain
from vhmc_jax.models.constraints import interval, ordered, positive, real, simplex
from vhmc_jax.models.problem import Problem

__all__ = ["Problem", "constrain", "interval", "ordered", "positive", "real", "simplex"]
