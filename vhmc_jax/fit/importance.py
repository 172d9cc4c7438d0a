"""What importance weights are used for, wherever a guide's draws are weighed."""

import numpy as np


def log_mean(log_importance: np.ndarray) -> float:
    """Log of the mean weight: an estimate of log ∫ π."""
    return float(np.logaddexp.reduce(log_importance) - np.log(len(log_importance)))


def resampled(generator: np.random.Generator, points: np.ndarray, log_importance: np.ndarray, most: int) -> np.ndarray:
    """Points in proportion to their weights, none of them twice or where the density is zero."""
    noisy = log_importance + generator.gumbel(size=len(log_importance))
    number = min(most, np.count_nonzero(np.isfinite(noisy)))
    return points[np.argsort(-noisy)[:number]]
