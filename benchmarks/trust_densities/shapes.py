"""Twenty densities whose modes are bent, heavy-tailed, symmetric or too many to list."""

from functools import partial
from typing import Any, NamedTuple

import vhmc_jax as vj
from trust_densities import curved, hierarchies, labels, mixtures, products, tails
from trust_densities.fields import lattice
from trust_densities.record import Case, cube
from trust_densities.regression import regression
from trust_densities.sensors import sensors


class Shape(NamedTuple):
    """A density beside its peers.

    Attributes
    ----------
    case
        The density by name.
    modes
        Names of the quantities that tell its modes apart; none where there is one mode.
    width
        Standard deviation of a mode, about: the scale of the coldest replica in parallel tempering.
    symmetries
        What leaves the density as it is, as ``sample`` takes it; None where a run without them is enough.
    """

    case: Case
    modes: tuple[str, ...]
    width: float
    symmetries: Any = None


def unimodal(name: str, build: object, width: float = 1.0) -> Shape:
    return Shape(Case(name, "unimodal", build), (), width)


def multimodal(name: str, build: object, modes: tuple[str, ...], width: float = 1.0) -> Shape:
    return Shape(Case(name, "multi-modal", build), modes, width)


ORDERS = ("P(x0 is least)", "P(x0 < x1)")
CORRELATED = mixtures.autoregressive_cholesky(0.9, 100)

SHAPES = [
    unimodal("banana d = 2", partial(curved.bananas, 1, cube(2, 15.0))),
    unimodal("banana d = 20", partial(curved.twisted, 20)),
    unimodal("Rosenbrock d = 2", partial(curved.rosenbrock, 1), 0.3),
    unimodal("Rosenbrock d = 10", partial(curved.rosenbrock, 5), 0.3),
    unimodal("funnel d = 10", partial(hierarchies.funnel, 10)),
    unimodal("eight schools, centred", hierarchies.schools),
    unimodal("eight schools, scaled", partial(hierarchies.schools, False)),
    unimodal("logistic regression d = 30", regression, 0.3),
    unimodal("correlated Gaussian d = 100", partial(mixtures.one, CORRELATED, cube(100, 5.0)), 0.3),
    multimodal("two bananas d = 20", partial(curved.two_twisted, 20), ("P(x2 < 0)",)),
    multimodal("two funnels d = 5", partial(hierarchies.two_funnels, 5), ("P(x1 < 0)",), 0.5),
    multimodal("ten Student-t d = 10", partial(tails.student_mixture, 10, 10),
               ("the heaviest mode", "the lightest mode")),
    multimodal("many-well d = 32", partial(products.many_well, 32), ("P(x0 < 0)", "P(x15 < 0)"), 0.3),
    multimodal("φ⁴ chain d = 100", partial(products.chain, 100, 0.0), ("P(x50 < 0.005)",), 0.1),
    multimodal("φ⁴ lattice 14 × 14", lattice, ("P(mean > 0)",), 0.2),
    multimodal("sensors d = 8", sensors, ("P(x0 < 0.4)", "P(x4 < 0.5)"), 0.05),
    *(multimodal(f"labels K = {k}", partial(labels.labels, k), ORDERS, 0.35)._replace(symmetries=vj.permutations())
      for k in labels.CENTRES),
    multimodal("1024 modes d = 10", partial(products.signs, 10), ("P(x0 < 0)", "P(x9 < 0)"), 0.6),
]  # fmt: skip
"""In the order of the table: nine with one mode, eleven with several."""
