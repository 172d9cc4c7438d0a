"""One table of the usual figures for every component, and sentences for those that are NaN."""

from typing import Any, NamedTuple

import numpy as np

from vhmc_jax.diagnostics.draws import check_draws, named_components, named_leaves
from vhmc_jax.diagnostics.ess import MIN_DRAWS, ess, mcse
from vhmc_jax.diagnostics.rhat import rhat

MAX_ROWS = 40
FORMATS = {"mean": ".4g", "sd": ".4g", "mcse": ".2g", "ess_bulk": ",.0f", "ess_tail": ",.0f", "rhat": ".3f"}


class Summary(NamedTuple):
    """Figures of each component, in the order of ``names``; ``print(summary)`` shows the table.

    Attributes
    ----------
    names
        Names of components, such as ``"a.b[2]"``.
    mean, sd
        Of all draws.
    mcse
        Monte Carlo standard error of the mean.
    ess_bulk, ess_tail
        Effective sample sizes.
    rhat
        Rank-normalised split R-hat.
    notes
        What :func:`problems` found.
    """

    names: tuple[str, ...]
    mean: np.ndarray
    sd: np.ndarray
    mcse: np.ndarray
    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    rhat: np.ndarray
    notes: tuple[str, ...]

    def __str__(self) -> str:
        rows = [["", *FORMATS]]
        for i, name in enumerate(self.names[:MAX_ROWS]):
            rows.append([name, *(format(getattr(self, key)[i], spec) for key, spec in FORMATS.items())])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
        if len(self.names) > MAX_ROWS:
            lines.append(f"... and {len(self.names) - MAX_ROWS} more components")
        return "\n".join([*lines, *(f"- {note}" for note in self.notes)])


def summary(draws: Any) -> Summary:
    """Mean, spread, Monte Carlo error, effective sizes and R-hat of every component.

    Parameters
    ----------
    draws
        Pytree of (chain, draw, ...) arrays.

    Returns
    -------
    The table. Figures that cannot be had are NaN, and the notes say why.
    """
    draws = check_draws(draws)

    def concatenated(tree: Any) -> np.ndarray:
        return np.concatenate([np.ravel(leaf) for leaf in named_leaves(tree, "x").values()])

    components = named_components(draws)
    with np.errstate(invalid="ignore"):  # infinite draws
        means, sds = ([f(x, dtype=np.float64) for x in components.values()] for f in (np.mean, np.std))
    return Summary(
        names=tuple(components),
        mean=np.array(means),
        sd=np.array(sds),
        mcse=concatenated(mcse(draws)),
        ess_bulk=concatenated(ess(draws, "bulk")),
        ess_tail=concatenated(ess(draws, "tail")),
        rhat=concatenated(rhat(draws)),
        notes=problems(draws),
    )


def problems(draws: Any) -> tuple[str, ...]:
    """Why diagnostics of these draws are NaN or infinite: a sentence for each reason, none if all is well.

    Parameters
    ----------
    draws
        Pytree of (chain, draw, ...) arrays.
    """
    components = named_components(check_draws(draws))
    num_draws = next(iter(components.values())).shape[1]
    found = []
    if num_draws < MIN_DRAWS:
        found.append(f"{num_draws} draws a chain are too few: ESS, its errors and R-hat need {MIN_DRAWS} and are NaN.")
    not_finite, constant, stuck = [], [], []
    for name, x in components.items():
        finite = np.isfinite(x)
        moves = (x != x[:, :1]).any(axis=1)
        if not finite.all():
            chains = np.flatnonzero(~finite.all(axis=1))
            not_finite.append(f"{name} ({(~finite).sum():,} draws, first in chain {chains[0]})")
        elif not (x != x[0, 0]).any():
            constant.append(name)
        elif not moves.all():
            stuck.append(f"{name} (chain {_first(list(np.flatnonzero(~moves)))})")
    if not_finite:
        found.append(f"Not finite, hence NaN: {_first(not_finite)}.")
    if constant:
        found.append(f"The same in every draw, hence NaN: {_first(constant)}.")
    if stuck:
        found.append(f"Chains that never moved, which have no autocorrelation: {_first(stuck)}.")
    return tuple(found)


def _first(items: list) -> str:
    """Items with commas, the first five of many."""
    text = ", ".join(map(str, items[:5]))
    return text if len(items) <= 5 else f"{text} and {len(items) - 5} more"
