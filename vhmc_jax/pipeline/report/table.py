"""Tables of a result, and how they are written as HTML."""

import sys
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vhmc_jax.diagnostics.modes.report import ModeReport
from vhmc_jax.diagnostics.summary import FORMATS, summary
from vhmc_jax.pipeline.produce import one_in

if TYPE_CHECKING:
    from vhmc_jax.pipeline.result import Result

MOST_ROWS, MOST_MODES = 1_000, 12
"""Rows of a table, and modes side by side."""


class Cell(NamedTuple):
    """What a cell shows, and the number that it is sorted by.

    Attributes
    ----------
    text
        What is shown.
    value
        What it is sorted by; None for the text itself.
    """

    text: str
    value: float | None = None


class Table(NamedTuple):
    """A table.

    Attributes
    ----------
    head
        Names of the columns.
    rows
        Cells of each row.
    left_out
        What it has no room for; empty if nothing.
    """

    head: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    left_out: str = ""

    def html(self) -> str:
        """The table without style, and a line on what was left out."""
        # Where a heading is broken into lines, R-hat and ± stay with what they belong to.
        names = [
            name.replace("-", "\N{NON-BREAKING HYPHEN}").replace("± ", "±\N{NO-BREAK SPACE}") for name in self.head
        ]
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        rows = "".join(f"<tr>{''.join(map(_td, row))}</tr>" for row in self.rows)
        more = f"<p>... and {escape(self.left_out)}</p>" if self.left_out else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"


def number(value: float, spec: str) -> Cell:
    """A number as a cell; a dash where it is not known."""
    return Cell("–", -sys.float_info.max) if np.isnan(value) else Cell(format(value, spec), float(value))


def mode_table(result: "Result") -> Table:
    """Modes: weights by the draws and by bridge sampling, and how chains moved."""
    report, evidence = result.modes, result.evidence
    columns = {
        "mode": [Cell(str(mode), mode) for mode in range(len(report.weights))],
        "weight by draws": [number(value, ".4f") for value in report.weights],
        "± error": [number(value, ".2g") for value in report.errors],
    }
    if evidence.mode_weights is not None and evidence.mode_weight_errors is not None:
        columns["weight by bridge"] = [number(value, ".4f") for value in evidence.mode_weights]
        columns["± its error"] = [number(value, ".2g") for value in evidence.mode_weight_errors]
    if report.guide_weights is not None:
        columns["weight in the guide"] = [number(value, ".4f") for value in report.guide_weights]
    columns["effective size"] = [number(value, ",.0f") for value in report.ess]
    columns["R-hat"] = [number(value, ".3f") for value in report.rhat]
    columns["round trips"] = [number(value, ",") for value in report.round_trips]
    columns["chains that saw it"] = [number(value, ",") for value in report.num_chains_seen]
    rows = list(zip(*columns.values(), strict=True))
    return Table(tuple(columns), rows[:MOST_ROWS], _left_out((len(rows) - MOST_ROWS, "modes")))


def location_table(report: ModeReport) -> Table | None:
    """What the parameters are in each mode; None where that is not known."""
    found = report.locations
    if found is None:
        return None
    num_modes = min(len(found.means), MOST_MODES)
    rows = []
    for i, name in enumerate(found.names[:MOST_ROWS]):
        pairs = zip(found.means[:num_modes, i], found.sds[:num_modes, i], strict=True)
        rows.append((Cell(name), *(spread(mean, sd) for mean, sd in pairs)))
    left_out = _left_out((len(found.means) - num_modes, "modes"), (len(found.names) - len(rows), "parameters"))
    return Table(("parameter", *(f"mode {mode}" for mode in range(num_modes))), rows, left_out)


def spread(mean: float, sd: float) -> Cell:
    """Mean and standard deviation, sorted by the mean."""
    return number(mean, ".4g") if np.isnan(mean) else Cell(f"{mean:.4g} ± {sd:.2g}", float(mean))


def parameter_table(result: "Result") -> Table:
    """Moments, effective sizes and R-hat of every parameter."""
    found = summary(one_in(result.judged_every, result.draws))
    rows = [
        (Cell(name), *(number(getattr(found, key)[i], spec) for key, spec in FORMATS.items()))
        for i, name in enumerate(found.names[:MOST_ROWS])
    ]
    head = ("parameter", "mean", "sd", "error of the mean", "ESS, bulk", "ESS, tail", "R-hat")
    return Table(head, rows, _left_out((len(found.names) - len(rows), "parameters")))


def cost_table(result: "Result") -> Table:
    """Time and evaluations of each phase."""
    rows = [
        (
            Cell(phase.name),
            number(phase.seconds, ".2f"),
            number(phase.compile_seconds, ".2f"),
            number(phase.num_gradients, ","),
            number(phase.num_densities, ","),
        )
        for phase in result.phases
    ]
    return Table(("phase", "seconds", "of them compiling", "gradients", "densities"), rows)


def table_of(pairs: dict[str, str]) -> Table:
    """Names and what they are."""
    return Table(("name", "value"), [(Cell(name), Cell(value)) for name, value in pairs.items()])


def _left_out(*counts: tuple[int, str]) -> str:
    return " and ".join(f"{count:,} more {what}" for count, what in counts if count > 0)


def _td(cell: Cell) -> str:
    key = "" if cell.value is None else f' data-value="{cell.value!r}"'
    return f"<td{key}>{escape(cell.text)}</td>"
