"""Potential scale reduction: whether chains, and the two halves of each chain, agree."""

from typing import Any, Literal

import jax
import numpy as np

from vhmc_jax.arguments import is_concrete
from vhmc_jax.diagnostics.autocorrelation import centre
from vhmc_jax.diagnostics.draws import check_draws, host_or_compiled, map_blocks, namespace, split_chains
from vhmc_jax.diagnostics.ess import MIN_DRAWS
from vhmc_jax.diagnostics.ranks import map_components, normal_scores_and_folded


@host_or_compiled
def _split_rhat(x: Any) -> Any:
    """R-hat of (chain, draw, ...) with chains split in half: (...)."""
    xp = namespace(x)
    if x.shape[1] < MIN_DRAWS:
        return xp.full(x.shape[2:], xp.nan, x.dtype)
    num_draws = x.shape[1] // 2
    origin = x[0, 0]

    def block(x: Any) -> tuple[Any, Any]:
        means, deviations = centre(split_chains(x - origin))
        return means, (deviations**2).mean(axis=(0, 1))

    means, variances = map_blocks(block, x)
    within = variances.mean(axis=0) * (num_draws / (num_draws - 1))
    between = means.reshape(-1, *x.shape[2:]).var(axis=0, ddof=1)
    return xp.sqrt(between / within + (num_draws - 1) / num_draws)


def _rank_rhat(x: np.ndarray) -> Any:
    """Larger R-hat of one component's normal scores (chain, draw) and of those of its folded draws."""
    if x.shape[1] < MIN_DRAWS:
        return _split_rhat(x)
    both = np.stack(normal_scores_and_folded(split_chains(x)), axis=-1)
    # The scores are split already. Their halves are joined again, since _split_rhat will cut them at the same place.
    return _split_rhat(np.concatenate(np.split(both, 2), axis=1)).max()


def rhat(draws: Any, kind: Literal["rank", "split"] = "rank") -> Any:
    r"""Potential scale reduction of (chain, draw, ...) draws, chains split in half.

    .. math:: \hat R = \sqrt{\frac{\frac{n-1}{n} W + \frac1n B}{W}}

    A value near 1 says that the chains agree with one another, not that they saw every mode: chains that all
    miss the same mode agree perfectly. See :func:`mode_report`.

    Parameters
    ----------
    draws
        Pytree of (chain, draw, ...) arrays; one chain will do, since its halves are compared.
    kind
        ``"rank"``: of the normal scores of the draws, or of their distances from the median, whichever is larger. It
        ranks on the host and cannot be traced. ``"split"``: of the draws themselves. It can be used inside ``jit``.

    Returns
    -------
    Pytree of (...) arrays. NaN with fewer than four draws, for a component that is constant over all chains,
    and for one that holds NaN; infinite where chains are constant and differ.

    References
    ----------
    Gelman & Rubin (1992); Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), equations 1-4 and section 4.
    """
    draws = check_draws(draws)
    if kind == "split":
        return jax.tree.map(_split_rhat, draws)
    if kind != "rank":
        raise ValueError(f"kind must be 'rank' or 'split', got {kind!r}")
    if not is_concrete(draws):
        raise TypeError("kind='rank' ranks draws on the host and cannot be traced; use kind='split' inside jit")
    return jax.tree.map(lambda x: map_components(_rank_rhat, x), draws)
