"""Whether NumPyro has to compare values with supports each time that it evaluates a log density.

NumPyro's log probability is −∞ outside a distribution's support. Latent values are never outside: they come from the
bijection onto it. Observed values are never outside if they are not today, unless the support depends on latent values.
Where that is so for all sites, the comparisons are left out. They took a third of the time of a gradient for a mixture
of three Gaussians and 82 values.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

WRAPPERS = ("ExpandedDistribution", "Independent", "MaskedDistribution")
"""Distributions that hand values on to their ``base_dist`` as they are."""


def must_compare(sites: Mapping[str, Any], observed: Mapping[str, np.ndarray]) -> bool:
    """Whether a value of a site may lie outside its support, or a part of its distribution outside its own.

    Parameters
    ----------
    sites
        Sites of a trace in which arguments and latent values are abstract.
    observed
        Observed values by site.

    Returns
    -------
    True where one of them may, or it is not known.
    """
    return any(_may_be_outside(site, observed.get(name)) for name, site in sites.items() if site["type"] == "sample")


def _may_be_outside(site: Mapping[str, Any], observed: np.ndarray | None) -> bool:
    distribution = unwrapped(site["fn"])
    if any(not _is_real(part.support) for part in _parts(distribution)):
        return True
    if not site["is_observed"] or type(distribution).__name__ == "Unit":
        return False
    support = distribution.support
    bounds = jax.tree.leaves(support)
    if observed is None or any(isinstance(bound, jax.core.Tracer) for bound in bounds):
        return True
    return not bool(np.all(support(observed)))


def unwrapped(distribution: Any) -> Any:
    """The distribution within those that hand values on as they are."""
    while type(distribution).__name__ in WRAPPERS:
        distribution = distribution.base_dist
    return distribution


def _is_real(support: Any) -> bool:
    """Whether a support is all of the real numbers, of any shape."""
    while hasattr(support, "base_constraint"):
        support = support.base_constraint
    return type(support).__name__ == "_Real"


def _parts(distribution: Any) -> Iterator[Any]:
    """Distributions that a distribution is made of, at any depth; not the one that weighs a mixture's components."""
    for name, value in vars(distribution).items():
        if name == "_mixing_distribution":
            continue
        for part in value if isinstance(value, list | tuple) else (value,):
            if hasattr(part, "log_prob") and hasattr(part, "support"):
                yield part
                yield from _parts(part)
