"""How a guide is fitted."""

from dataclasses import dataclass
from typing import Any

from vhmc_jax.arguments import as_count, as_parameter
from vhmc_jax.base import Array

GOOD_ACCEPTANCE = 0.9
"""From here on a mode is well described, and one candidate enough: others would cost more than the jumps they save."""

REFINEMENTS = ("draws", "product", "chains", "population", "growth")
"""What may be tried where Laplace's approximation does not suffice, in this order."""


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Options of ``fit_guide``, checked when they are made.

    Parameters
    ----------
    num_draws
        Draws for each mode that needs them, over all its chains.
    num_chains
        Chains for each such mode.
    num_warmup
        Iterations in which the step size of each mode is found.
    num_weight_draws
        Draws for the weight of each component, half of them from its halo at twice the scale; each costs one density
        value. They judge the guide as well. By default 1,024, and fewer for more than 8 modes.
    num_tries
        Candidates of a jump, for which the envelope is chosen; None for one where nine jumps in ten then succeed, else
        four.
    target_acceptance
        Acceptance of the local chains.
    max_components
        Most components for one mode; 1 for a Gaussian a mode.
    df
        Degrees of freedom of Student-t components; None for Gaussian ones.
    good_acceptance
        Expected acceptance of jumps from a mode whose Laplace approximation will do; 1 to draw around every mode.
    defensive_weight
        Weight of one wide component over everything; 0 for none.
    weight_floor
        Least weight of a mode in the guide, as a share of 1/k, so that none is lost.
    refinements
        What may be tried where Laplace's approximation does not suffice: components fitted to their own draws, a
        ``product`` over blocks of coordinates, ``chains`` around modes, a mixture for a ``population``, and ``growth``
        where draws find more mass. Each is tried only where those before it do not do. What is left out is forbidden.
    """

    num_draws: int = 1024
    num_chains: int = 16
    num_warmup: int = 64
    num_weight_draws: int | None = None
    num_tries: int | None = 4
    target_acceptance: Any = 0.8
    max_components: int = 4
    df: float | None = None
    good_acceptance: float = GOOD_ACCEPTANCE
    defensive_weight: float = 0.01
    weight_floor: float = 0.01
    refinements: tuple[str, ...] = REFINEMENTS

    def __post_init__(self) -> None:
        for name in ("num_draws", "num_chains", "num_warmup", "max_components"):
            as_count(name, getattr(self, name), 1)
        if self.num_weight_draws is not None:
            as_count("num_weight_draws", self.num_weight_draws, 16)
        if self.num_tries is not None:
            as_count("num_tries", self.num_tries, 1)
        as_parameter("target_acceptance", self.target_acceptance, positive=True, at_most=1.0)
        if self.df is not None:
            as_parameter("df", self.df, positive=True)
        for name in ("defensive_weight", "weight_floor"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 0 and below 1, got {getattr(self, name)}")
        if isinstance(self.refinements, str) or (unknown := set(self.refinements) - set(REFINEMENTS)):
            named = repr(self.refinements) if isinstance(self.refinements, str) else ", ".join(map(repr, unknown))
            raise ValueError(f"refinements must be a tuple of some of {', '.join(REFINEMENTS)}, got {named}")
        if not 0 <= self.good_acceptance <= 1:
            raise ValueError(f"good_acceptance must be from 0 to 1, got {self.good_acceptance}")

    @property
    def acceptance(self) -> Array:
        """Acceptance of the local chains, as an argument of compiled programs."""
        return as_parameter("target_acceptance", self.target_acceptance)

    @property
    def draws_per_chain(self) -> int:
        """Draws of each chain around a mode."""
        return max(1, self.num_draws // self.num_chains)

    def weight_draws(self, num_modes: int) -> int:
        """Draws for the weight of each component."""
        return min(1024, max(16, 8192 // num_modes)) if self.num_weight_draws is None else self.num_weight_draws
