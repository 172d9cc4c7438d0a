"""A result as one HTML page that needs nothing else: no network, no other file."""

import base64
import platform
from datetime import UTC, datetime
from html import escape
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from vhmc_jax.diagnostics.plots import new_axes, pyplot
from vhmc_jax.pipeline.report.figure import panels
from vhmc_jax.pipeline.report.notebook import title, verdict
from vhmc_jax.pipeline.report.table import Table, cost_table, location_table, mode_table, parameter_table, table_of

if TYPE_CHECKING:
    from vhmc_jax.pipeline.result import Result

WIDE = "Trace of one chain"
"""The picture that takes the room of two."""
PACKAGES = ("vhmc-jax", "jax", "jaxlib", "numpy", "scipy", "matplotlib")

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 72rem; margin: 0 auto;
  padding: 1rem; }
h1, h2 { line-height: 1.2; }
.verdict { border-left: 0.4rem solid #009e73; padding: 0.1rem 1rem; margin-bottom: 1rem;
  background: #f6f6f6; }
.verdict.warned { border-color: #d55e00; }
.pictures { display: flex; flex-wrap: wrap; gap: 1rem; }
figure { margin: 0; flex: 1 1 20rem; max-width: 34rem; }
figure.wide { flex: 2 1 30rem; max-width: 62rem; overflow-x: auto; }
figure.wide img { min-width: 34rem; }
figcaption { font-weight: 600; }
img { width: 100%; height: auto; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.2rem 0.7rem; text-align: right; border-bottom: 1px solid #ddd; }
td { white-space: nowrap; }
th { cursor: pointer; background: #f6f6f6; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; }
th[aria-sort=ascending]::after { content: " ▲"; }
th[aria-sort=descending]::after { content: " ▼"; }
pre { overflow-x: auto; }
"""

SCRIPT = """
const key = (row, i) => row.cells[i].dataset.value ?? row.cells[i].textContent;
const compare = (a, b) => isNaN(a) || isNaN(b) ? String(a).localeCompare(b) : a - b;
for (const head of document.querySelectorAll("th")) {
  head.tabIndex = 0;
  head.onclick = () => {
    const body = head.closest("table").tBodies[0], i = head.cellIndex;
    const sign = head.ariaSort === "descending" ? 1 : head.ariaSort === "ascending" ? -1 : head.cellIndex ? -1 : 1;
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    body.append(...[...body.rows].sort((a, b) => sign * compare(key(a, i), key(b, i))));
  };
  head.onkeydown = (event) => { if (event.key === "Enter") head.click(); };
}
"""


def page(result: "Result") -> str:
    """Verdict and warnings, pictures, tables that sort, settings and versions."""
    report = result.modes
    heading = escape(title(result))
    tables = {
        "Modes": mode_table(result),
        "The parameters in each mode": location_table(report) if len(report.weights) > 1 else None,
        "Parameters": parameter_table(result),
        "Cost": cost_table(result),
        "Settings": table_of(_settings(result)),
        "Versions": table_of(_versions()),
    }
    notes = "".join(f"<li>{escape(note)}</li>" for note in (*result.symmetry_notes, *report.notes))
    body = (
        f"<h1>{heading}</h1>"
        f'<section class="verdict{"" if result.is_trusted else " warned"}">{verdict(result)}'
        f"<p>Log evidence {result.log_evidence:.4f} ± {result.log_evidence_error:.2g}.</p></section>"
        f'<section class="pictures">{_pictures(result)}</section>'
        f"{''.join(_section(name, table) for name, table in tables.items() if table is not None)}"
        f"<h2>Notes on the modes</h2><ul>{notes}</ul>"
        f"<details><summary>The summary as text</summary><pre>{escape(result.summary())}</pre></details>"
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{heading}</title><style>{STYLE}</style></head><body>{body}<script>{SCRIPT}</script></body></html>"
    )


def _pictures(result: "Result") -> str:
    figures = []
    for name, draw in panels(result).items():
        picture = pyplot().Figure(figsize=(8.4, 3.4) if name == WIDE else (4.2, 3.4), layout="constrained")
        draw(new_axes(picture.add_subplot()))
        stream = BytesIO()
        picture.savefig(stream, format="png", dpi=160)
        data = base64.b64encode(stream.getvalue()).decode()
        style = ' class="wide"' if name == WIDE else ""
        figures.append(
            f'<figure{style}><figcaption>{escape(name)}</figcaption><img alt="{escape(name)}" '
            f'src="data:image/png;base64,{data}"></figure>'
        )
    return "".join(figures)


def _section(name: str, table: Table) -> str:
    return f'<h2>{escape(name)}</h2><div class="scroll">{table.html()}</div>'


def _settings(result: "Result") -> dict[str, str]:
    """What production ran with."""
    frozen, (num_chains, num_draws) = result.frozen, np.shape(result.logdensities)
    step_size = " to ".join(f"{size:.4g}" for size in np.atleast_1d(frozen.step_size))
    return {
        "chains": f"{num_chains:,}",
        "draws of each": f"{num_draws:,}" + ("" if result.is_complete else " (ended early)"),
        "guide": type(frozen.guide).__name__,
        "jump probability": f"{frozen.jump_probability:.3g}",
        "log envelope": f"{frozen.log_envelope:.4g}",
        "candidates of a jump, at most": str(frozen.num_tries),
        "step size": step_size,
        "leapfrog steps": " to ".join(map(str, frozen.num_integration_steps)),
        "friction": f"{frozen.friction:.3g}",
        "expected acceptance of jumps": f"{frozen.guide_report.expected_acceptance:.3f}",
        "starts of the search": f"{frozen.modes.num_starts:,}",
    }


def _versions() -> dict[str, str]:
    """Versions of what made this page."""
    found = {"Python": platform.python_version(), "system": platform.platform()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found | {"page made at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")}
