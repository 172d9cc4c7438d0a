"""A result in a notebook: short, and without style of its own."""

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from vhmc_jax.diagnostics.modes.report import ModeReport
from vhmc_jax.pipeline.report.table import Cell, Table, spread

if TYPE_CHECKING:
    from vhmc_jax.pipeline.result import Result

MOST_MODES, MOST_PARAMETERS = 20, 12
"""Rows and columns of the table."""
CUT_SHORT = "Cut short by Ctrl-C or SIGTERM: draws are missing, or the second round that the audit asked for."


def fragment(result: "Result") -> str:
    """Warnings, a table of the modes with the parameters in each, and the whole summary folded below."""
    return (
        f"{verdict(result)}{_modes(result.modes).html()}"
        f"<details><summary>Modes, moments, evidence and cost</summary><pre>{escape(result.summary())}</pre></details>"
    )


def title(result: "Result") -> str:
    """What was drawn, in one line."""
    num_chains, num_draws = np.shape(result.logdensities)
    num_modes = len(result.modes.weights)
    return f"{num_chains:,} chains of {num_draws:,} draws, {num_modes:,} mode{'' if num_modes == 1 else 's'}"


def verdict(result: "Result") -> str:
    """Whether all draws are there, whether the result is trusted, and the warnings."""
    trust = "Nothing disagrees with the answer." if result.is_trusted else "Something disagrees with the answer:"
    items = "".join(f"<li>{escape(warning)}</li>" for warning in result.warnings)
    remark = "" if result.is_complete else f"<p>{CUT_SHORT}</p>"
    return f"{remark}<p><b>{trust}</b></p>{f'<ul>{items}</ul>' if items else ''}"


def _modes(report: ModeReport) -> Table:
    found = report.locations
    names = () if found is None else found.names[:MOST_PARAMETERS]
    rows = []
    for mode, (weight, error) in enumerate(zip(report.weights[:MOST_MODES], report.errors, strict=False)):
        values = () if found is None else zip(found.means[mode], found.sds[mode], strict=True)
        cells = [Cell(spread(mean, sd).text) for mean, sd in values][:MOST_PARAMETERS]
        rows.append((Cell(str(mode)), Cell(f"{weight:.4f} ± {error:.2g}"), *cells))
    num_hidden = 0 if found is None else len(found.names) - len(names)
    counts = (len(report.weights) - len(rows), "modes"), (num_hidden, "parameters")
    left_out = " and ".join(f"{count} more {what}" for count, what in counts if count > 0)
    return Table(("mode", "weight", *names), rows, left_out)
