"""What ``sample`` returns."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from vhmc_jax.arguments import as_path
from vhmc_jax.base import Array, PyTree
from vhmc_jax.diagnostics import to_arviz
from vhmc_jax.diagnostics.evidence import Evidence
from vhmc_jax.diagnostics.inference_data import ARVIZ_FORMATS, write_arviz
from vhmc_jax.diagnostics.modes.report import ModeReport
from vhmc_jax.diagnostics.summary import summary
from vhmc_jax.models.problem import Problem
from vhmc_jax.pipeline.frozen import Frozen
from vhmc_jax.pipeline.phase import Phase
from vhmc_jax.pipeline.produce import one_in
from vhmc_jax.pipeline.report.figure import figure
from vhmc_jax.pipeline.report.notebook import CUT_SHORT, fragment
from vhmc_jax.pipeline.report.page import page
from vhmc_jax.store import save

MOST_WEIGHTS = 6
"""Modes whose weights stand in one line of the summary."""


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """Draws, and what is needed to trust them; ``print(result)`` shows the summary.

    Attributes
    ----------
    draws
        Draws, (chain, draw, ...): of a problem the constrained values by name, of a log density its positions.
    unconstrained
        Positions as they were sampled, (chain, draw, ...).
    infos
        What happened at each step, (chain, draw).
    logdensities
        Log density at the draws, (chain, draw).
    modes
        Mode report: weights with errors, transitions, chains that never left their mode.
    evidence
        Log evidence with its error and its check.
    frozen
        The parameters of production; give them to ``sample`` again for more draws without fitting.
    phases
        Time and evaluations of each phase.
    warnings
        Sentences: what may be wrong, and what to do about it.
    is_complete
        Whether all draws were made: not where Ctrl-C or SIGTERM ended production.
    final_states, next_iteration
        To continue with ``run_chains``.
    problem
        What was sampled.
    judged_every
        One draw in so many was judged: all of them, but of a run of millions. Mode report, evidence, summary and ArviZ
        have these draws.
    representatives
        With symmetries, positions as the chains had them: of all images of each draw the one with labels in order, or
        positive signs. Modes and frozen are about these. None without symmetries.
    """

    draws: PyTree
    unconstrained: PyTree
    infos: Any
    logdensities: Any
    modes: ModeReport
    evidence: Evidence
    frozen: Frozen
    phases: tuple[Phase, ...]
    warnings: tuple[str, ...]
    is_complete: bool
    final_states: Any
    next_iteration: int
    problem: Problem
    judged_every: int = 1
    representatives: PyTree | None = None

    @property
    def is_trusted(self) -> bool:
        """Whether nothing disagrees with the answer: there are no warnings."""
        return not self.warnings

    @property
    def log_evidence(self) -> float:
        """Log of the normalising constant, by bridge sampling."""
        return self.evidence.log_evidence

    @property
    def log_evidence_error(self) -> float:
        """Its standard error."""
        return self.evidence.error

    @property
    def num_gradients(self) -> int:
        """Gradients of all phases."""
        return sum(phase.num_gradients for phase in self.phases)

    @property
    def symmetry_notes(self) -> tuple[str, ...]:
        """A sentence on what a mode stands for, where there are symmetries."""
        number = self.frozen.num_images
        if number == 1:
            return ()
        return (
            f"Each mode stands for its {number:,} images under the symmetries, and its weight is that of all of them. "
            "Draws and evidence cover all images.",
        )

    def summary(self) -> str:
        """Whether to trust it, modes, moments, evidence, cost and warnings as text."""
        verdict = "Nothing disagrees with the answer." if self.is_trusted else "Something disagrees: see the warnings."
        parts = [
            verdict if self.is_complete else f"{CUT_SHORT} {verdict}",
            str(self.modes),
            *self.symmetry_notes,
            str(summary(one_in(self.judged_every, self.draws))),
            _evidence(self.evidence),
            _cost_table(self.phases),
            self.frozen.guide_report.description,
            _acceptance(one_in(self.judged_every, self.infos), self.frozen),
        ]
        if self.judged_every > 1:
            parts.append(f"One draw in {self.judged_every} of each chain was judged, to bound the memory.")
        if self.warnings:
            parts.append("Warnings\n" + "\n".join(f"- {warning}" for warning in self.warnings))
        return "\n\n".join(parts)

    __str__ = __repr__ = summary

    def save(self, path: Any) -> None:
        """Write everything to one file, which ``vj.load(path)`` and ``numpy.load`` read.

        What is no data, as the functions of a model, comes back as None. A path that ends with ``.nc`` or ``.zarr`` is
        for others to read: what ``to_arviz`` returns goes there, as netCDF or zarr (extras ``netcdf`` and ``zarr``).
        """
        path = as_path("path", path, "that of a file")
        if path.suffix in ARVIZ_FORMATS:
            write_arviz(self.to_arviz(), path)
        else:
            save(path, self, is_lenient=True)

    def _repr_html_(self) -> str:
        """The summary for notebooks."""
        return fragment(self)

    def plot(self) -> Any:
        """One figure that tells at a glance whether to trust the run, as a figure of matplotlib.

        It shows the draws by mode, the weights of the modes with 95 % intervals (by the share of the draws, and by
        bridge sampling), the moves between modes, a trace, and whether the guide covers the target: how many times
        denser the target is than the guide, at the draws and at the population that audits the guide.

        Examples
        --------
        ``result.plot().savefig("run.png")`` writes it to a file.
        """
        return figure(self)

    def to_html(self, path: Any) -> None:
        """Write one page to read in a browser, without a network: warnings, pictures, tables, settings and versions."""
        as_path("path", path, "that of a file").write_text(page(self), encoding="utf-8")

    def to_arviz(
        self,
        *,
        num_chains: int | None = None,
        log_likelihood: bool | None = None,
        posterior_predictive: Array | None = None,
        **options: Any,
    ) -> Any:
        """Draws, statistics and what the problem knows as ArviZ's own data structure.

        Among the sample statistics is the mode of each draw; the weights of the modes and the warnings are attributes.
        Observed data and draws of the prior are there where the problem knows them.

        Parameters
        ----------
        num_chains
            Join chains end to end until there are so many, 4 for a trace plot that can be read. By default they stay.
        log_likelihood
            Whether to compute the log likelihood of each observed value at each draw, which ``az.loo`` needs. By
            default where the problem knows it and it is at most 10⁸ numbers.
        posterior_predictive
            A key: draw the observed variables anew at each draw. By default they are not.
        options
            Further arguments of ``vj.diagnostics.to_arviz``, such as ``coords`` and ``dims``.

        Returns
        -------
        InferenceData of ArviZ 0.x, or a DataTree of 1.x.
        """
        names = {name: {**getattr(self.problem, name), **options.pop(name, {})} for name in ("coords", "dims")}
        parts = self.draws, self.infos, self.logdensities, self.unconstrained
        draws, infos, logdensities, unconstrained = one_in(self.judged_every, parts)
        return to_arviz(
            draws,
            infos,
            logdensities,
            labels=self.modes.labels,
            log_likelihood=self.problem.log_likelihoods(unconstrained, log_likelihood),
            observed_data=self.problem.observed_data,
            posterior_predictive=self.problem.predictions(posterior_predictive, unconstrained),
            prior=self.problem.prior_draws(),
            attributes=_attributes(self),
            num_chains=num_chains,
            **names,
            **options,
        )


def _attributes(result: Result) -> dict[str, Any]:
    """Weights of the modes and warnings, as a file of ArviZ can hold them."""
    found: dict[str, Any] = {
        "log_evidence": float(result.log_evidence),
        "log_evidence_error": float(result.log_evidence_error),
        "mode_weights": np.asarray(result.modes.weights, float).tolist(),
        "mode_weight_errors": np.asarray(result.modes.errors, float).tolist(),
        "warnings": "\n".join(result.warnings),
    }
    if result.evidence.mode_weights is not None and result.evidence.mode_weight_errors is not None:
        found["mode_weights_by_bridge"] = np.asarray(result.evidence.mode_weights, float).tolist()
        found["mode_weight_errors_by_bridge"] = np.asarray(result.evidence.mode_weight_errors, float).tolist()
    return found


def _evidence(evidence: Evidence) -> str:
    """Log evidence, and the weights of the first modes that bridges give."""
    text = f"Log evidence {evidence.log_evidence:.4f} ± {evidence.error:.4f}"
    if evidence.mode_weights is None or evidence.mode_weight_errors is None or len(evidence.mode_weights) < 2:
        return text
    pairs = list(zip(evidence.mode_weights, evidence.mode_weight_errors, strict=True))
    weights = ", ".join(f"{weight:.4f} ± {error:.4f}" for weight, error in pairs[:MOST_WEIGHTS])
    return f"{text}\nMode weights by bridge sampling {weights}{', ...' if len(pairs) > MOST_WEIGHTS else ''}"


def _cost_table(phases: tuple[Phase, ...]) -> str:
    lines = [f"{'phase':<12}{'seconds':>9}{'compiling':>11}{'gradients':>12}{'densities':>12}"]
    total = Phase("total", *(sum(values) for values in zip(*(phase[1:] for phase in phases), strict=True)))
    lines += [
        f"{phase.name:<12}{phase.seconds:9.2f}{phase.compile_seconds:11.2f}"
        f"{phase.num_gradients:12,}{phase.num_densities:12,}"
        for phase in (*phases, total)
    ]
    return "\n".join(lines)


def _acceptance(infos: Any, frozen: Frozen) -> str:
    is_jump = np.asarray(infos.is_jump)
    local = np.asarray(infos.acceptance_rate)[~is_jump]
    step_size = " to ".join(f"{size:.3g}" for size in np.atleast_1d(frozen.step_size))
    return (
        f"Local moves: step size {step_size}, acceptance {np.mean(local) if local.size else np.nan:.2f}. "
        f"Jumps: probability {frozen.jump_probability:.2f}, "
        f"accepted {np.sum(infos.jump_accepted) / max(1, np.sum(is_jump)):.2f}, "
        f"expected {frozen.guide_report.expected_acceptance:.2f}."
    )
