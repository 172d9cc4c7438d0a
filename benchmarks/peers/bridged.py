"""VHMC as in ``ours.py``, with the weights of the modes by bridge sampling: ``result.evidence.mode_weights``.

The same calls and the same evaluations. Each draw is weighed such that the modes that VHMC found have the weights that
the bridges give; which draw belongs to which of the target's modes is then told as for every other sampler.
"""

from typing import Any

import numpy as np
import ours
from form import Case, Outcome

NAME, PACKAGE, NUM_SEEDS = "VHMC, by bridge", "vhmc_jax", None
BUDGETS, grid, TUNE_BUDGET = ours.BUDGETS, ours.grid, ours.TUNE_BUDGET


def run(case: Case, settings: dict[str, Any], budget: float, seed: int) -> Outcome:
    """One call from a cold start."""
    return ours.run(case, settings, budget, seed, log_weights=_log_weights)


def _log_weights(result: Any) -> np.ndarray:
    labels = result.modes.labels.ravel()
    counts = np.bincount(labels[labels >= 0], minlength=len(result.modes.weights)) / labels.size
    ratios = np.log(np.maximum(result.evidence.mode_weights, 1e-300) / np.maximum(counts, 1e-300))
    return np.where(labels >= 0, ratios[labels], 0.0)
