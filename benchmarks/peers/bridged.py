"""VHMC as in ``ours.py``, with the weights of the modes by bridge sampling: ``result.evidence.mode_weights``.

The same calls and the same evaluations. Each draw is weighed such that the modes that VHMC found have the weights that
the bridges give; which draw belongs to which of the target's modes is then told as for every other sampler.
"""

from typing import Any

import numpy as np
import ours
from form import Case, Outcome

from vhmc_jax.diagnostics.modes.labels import shares_of_modes, values_at

NAME, PACKAGE, NUM_SEEDS = "VHMC, by bridge", "vhmc_jax", None
BUDGETS, grid, TUNE_BUDGET = ours.BUDGETS, ours.grid, ours.TUNE_BUDGET


def run(case: Case, settings: dict[str, Any], budget: float, seed: int) -> Outcome:
    """One call from a cold start."""
    return ours.run(case, settings, budget, seed, log_weights=_log_weights)


def _log_weights(result: Any) -> np.ndarray:
    """Log Σ r_k w_k / r̄_k: with these weights the mean share of each mode that was found is that of the bridge."""
    weights = result.evidence.mode_weights
    if weights is None:
        return np.zeros(result.logdensities.size)
    components = values_at(result.draws, result.frozen.guide).shares
    _, shares = shares_of_modes(components, result.frozen.guide_report.component_modes)
    return np.log(shares @ (weights / np.maximum(shares.mean(axis=0), 1e-300)))
