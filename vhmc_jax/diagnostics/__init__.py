"""Figures that tell whether chains mixed, and whether they saw every mode."""

from vhmc_jax.diagnostics.autocorrelation import autocorrelation
from vhmc_jax.diagnostics.ess import ess, mcse
from vhmc_jax.diagnostics.evidence import Evidence, log_evidence
from vhmc_jax.diagnostics.inference_data import to_arviz
from vhmc_jax.diagnostics.mean_error import relative_error_of_mean
from vhmc_jax.diagnostics.mmd import gaussian_kernel, mmd, mmd_curve
from vhmc_jax.diagnostics.modes.plots import plot_mode_weights, plot_transitions
from vhmc_jax.diagnostics.modes.report import ModeReport, mode_report
from vhmc_jax.diagnostics.pareto import pareto_k
from vhmc_jax.diagnostics.plots import plot_autocorrelation, plot_mmd, plot_scatter, plot_trace
from vhmc_jax.diagnostics.relabel import relabel
from vhmc_jax.diagnostics.rhat import rhat
from vhmc_jax.diagnostics.summary import Summary, problems, summary

__all__ = [
    "Evidence",
    "ModeReport",
    "Summary",
    "autocorrelation",
    "ess",
    "gaussian_kernel",
    "log_evidence",
    "mcse",
    "mmd",
    "mmd_curve",
    "mode_report",
    "pareto_k",
    "plot_autocorrelation",
    "plot_mmd",
    "plot_mode_weights",
    "plot_scatter",
    "plot_trace",
    "plot_transitions",
    "problems",
    "relabel",
    "relative_error_of_mean",
    "rhat",
    "summary",
    "to_arviz",
]
