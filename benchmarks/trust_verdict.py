"""Is one run right? Every known quantity is compared with its truth, in standard errors."""

import math
import time
import traceback
from typing import Any, NamedTuple

import jax
import numpy as np
from trust_densities import Density

import vhmc_jax as vj

LARGEST_Z = 4.5
"""Deviations beyond this many standard errors are wrong: with 3,000 quantities chance gives one in fifty tables."""

LARGEST_ERROR = 0.3
"""An error above this many standard deviations of a function, that is an effective size below 11, is of no use."""

LARGEST_LOG_Z_ERROR = 0.5
"""The same for the log evidence."""


class Row(NamedTuple):
    """One quantity in one run.

    Attributes
    ----------
    name, kind
        The quantity; log Z is of the kind "log Z".
    truth, estimate, error
        Its mean, that of the draws, and the standard error of the latter.
    tolerance
        A deviation below this does not matter, whatever the error.
    is_imprecise
        Whether the error is so large, or so undefined, that the figure is of no use.
    """

    name: str
    kind: str
    truth: float
    estimate: float
    error: float
    tolerance: float
    is_imprecise: bool

    @property
    def deviation(self) -> float:
        """Estimate minus truth; infinite where the estimate is none."""
        return self.estimate - self.truth if math.isfinite(self.estimate) else math.inf

    @property
    def z(self) -> float:
        """Deviation in standard errors; NaN where there is no error."""
        return self.deviation / self.error if self.error > 0 else math.nan

    @property
    def is_wrong(self) -> bool:
        """Whether it is imprecise, or far from the truth in both units. A constant function has no error."""
        is_far = not self.error > 0 or abs(self.z) > LARGEST_Z
        return self.is_imprecise or (abs(self.deviation) > self.tolerance and is_far)

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {**self._asdict(), "z": self.z, "is_wrong": self.is_wrong}


def run(density: Density, seed: int) -> dict[str, Any]:
    """One call of ``vj.sample`` with its defaults, judged."""
    started = time.process_time()
    try:
        result = vj.sample(jax.random.key(seed), density.logdensity, density.region, progress=False)
        rows = judge(density, result.draws, (result.log_evidence, result.log_evidence_error))
    except Exception as error:
        message = traceback.format_exception_only(error)[-1].strip()
        return {"seed": seed, "verdict": "failed", "message": message, "seconds": time.process_time() - started}
    is_wrong, is_warned = any(row.is_wrong for row in rows), len(result.warnings) > 0
    verdict = ("warned" if is_warned else "SILENT") if is_wrong else ("warned-right" if is_warned else "right")
    return {
        "seed": seed,
        "verdict": verdict,
        "seconds": time.process_time() - started,
        "evaluations": sum(phase.num_gradients + phase.num_densities for phase in result.phases),
        "warnings": list(result.warnings),
        "second_opinion": _second_opinion(result),
        "rows": [row.as_dict() for row in rows],
    }


def _second_opinion(result: vj.Result) -> dict[str, float]:
    """The population's log evidence above that of the chains, its error, and its share that the guide leaves out."""
    population, coverage = result.frozen.population, result.frozen.guide_report.coverage
    if population is None or coverage is None:
        return {}
    of_one_image = result.log_evidence - math.log(result.frozen.num_images)
    excess = population.log_evidence - of_one_image
    return {"excess": excess, "error": population.log_evidence_error, "uncovered": coverage.share}


def judge(density: Density, draws: Any, evidence: tuple[float, float] | None = None) -> list[Row]:
    """A row for every quantity of draws (chain, draw, d), and for log Z where it came with its error."""
    draws = np.asarray(draws, np.float64)
    flat = draws.reshape(-1, density.dim)
    rows = []
    for quantity in density.quantities:
        values = quantity.function(flat).reshape(draws.shape[:2])
        sd, error = float(np.std(values)), float(vj.diagnostics.mcse(values))
        is_imprecise = sd > 0 and not error < LARGEST_ERROR * sd
        tolerance = 0.01 * sd if quantity.kind == "mean" else tolerance_of_probability(quantity.truth)
        rows.append(Row(*quantity[:2], quantity.truth, float(np.mean(values)), error, tolerance, is_imprecise))
    if density.log_z is not None and evidence is not None:
        log_z, (estimate, error) = float(density.log_z), map(float, evidence)
        tolerance = max(0.02, float(np.spacing(np.float32(abs(log_z)))))
        is_imprecise = not error < LARGEST_LOG_Z_ERROR
        rows.append(Row("log Z", "log Z", log_z, estimate, error, tolerance, is_imprecise))
    return rows


def tolerance_of_probability(truth: float) -> float:
    """0.01, and for rare sets a tenth of their probability: else nobody would miss a mode of weight 0.005."""
    return min(0.01, 0.1 * min(truth, 1 - truth))
