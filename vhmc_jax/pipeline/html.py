"""A result as HTML, for notebooks."""

from html import escape

from vhmc_jax.diagnostics.modes.report import ModeReport

MOST_MODES, MOST_PARAMETERS = 20, 12
"""Rows and columns of the table."""


def as_html(report: ModeReport, warnings: tuple[str, ...], text: str, remark: str = "") -> str:
    """Warnings, a table of the modes with the parameters in each, and the whole summary folded below.

    Parameters
    ----------
    report
        Mode report.
    warnings
        Sentences.
    text
        The summary.
    remark
        What stands before all else.

    Returns
    -------
    HTML without style of its own.
    """
    trust = "Nothing disagrees with the answer." if not warnings else "Something disagrees with the answer:"
    items = "".join(f"<li>{escape(warning)}</li>" for warning in warnings)
    first = f"<p>{escape(remark)}</p>" if remark else ""
    return (
        f"{first}<p><b>{escape(trust)}</b></p>{f'<ul>{items}</ul>' if items else ''}{_table(report)}"
        f"<details><summary>Modes, moments, evidence and cost</summary><pre>{escape(text)}</pre></details>"
    )


def _table(report: ModeReport) -> str:
    found = report.locations
    names = () if found is None else found.names[:MOST_PARAMETERS]
    rows = [("mode", "weight", *names)]
    for mode, (weight, error) in enumerate(zip(report.weights, report.errors, strict=True)):
        values = () if found is None else zip(found.means[mode], found.sds[mode], strict=True)
        cells = [f"{mean:.4g} ± {sd:.2g}" for mean, sd in values][:MOST_PARAMETERS]
        rows.append((str(mode), f"{weight:.4f} ± {error:.2g}", *cells))
    left_out = []
    if len(rows) - 1 > MOST_MODES:
        left_out.append(f"{len(rows) - 1 - MOST_MODES} more modes")
    if found is not None and len(found.names) > MOST_PARAMETERS:
        left_out.append(f"{len(found.names) - MOST_PARAMETERS} more parameters")
    head, *body = ("".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) for tag, row in _tagged(rows))
    lines = "".join(f"<tr>{row}</tr>" for row in body[:MOST_MODES])
    more = f"<p>... and {' and '.join(left_out)}</p>" if left_out else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>{more}"


def _tagged(rows: list[tuple[str, ...]]) -> list[tuple[str, tuple[str, ...]]]:
    """The first row as a head, the others as a body."""
    return [("td" if number else "th", row) for number, row in enumerate(rows)]
