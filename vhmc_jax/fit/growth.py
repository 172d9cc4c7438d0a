"""How a guide grows: components that are divided in two, and further ones where its halos find mass."""

import numpy as np

from vhmc_jax.fit.attempt import LEAST_RISE, NUM_ITERATIONS, Attempt, Fitting
from vhmc_jax.fit.components import Components
from vhmc_jax.fit.em import Parts, improve
from vhmc_jax.fit.pool import MOST_HALOS

APART = 0.8
"""How far the halves of a component lie from its mean, in standard deviations."""
LEAST_UNCOVERED, MOST_ROUNDS, MOST_CHILDREN, LEAST_FALL = 5e-5, 8, 4, 0.8
"""The share of the mass at uncovered draws for which a guide grows; in how many rounds, by how many components in each;
and the factor by which that share has to fall in two rounds. With 2e-4 and five rounds the ends of Rosenbrock's valley,
from three standard deviations on, were left out in one of ten seeds, and its variance was 7 % too small."""


def divided(fitting: Fitting, attempt: Attempt, good_acceptance: float, max_components: int) -> Attempt:
    """The guide with twice as many components, as long as that pays.

    Few particles may show one component where there are two. Each becomes two that lie along its longest axis, and
    all of them are refined.
    """
    while len(attempt.poor_modes(good_acceptance)) and 2 * len(attempt.kept.modes) <= max_components:
        kept = attempt.kept
        vectors, lengths, _ = np.linalg.svd(kept.scale_trils)
        steps = APART * lengths[:, :1] * vectors[:, :, 0]
        doubled = kept._replace(means=kept.means - steps).joined(kept._replace(means=kept.means + steps))
        other = fitting.refined(fitting.assess(fitting.redraw(doubled, attempt.pool)), good_acceptance)
        if other.score < attempt.score + LEAST_RISE:
            return attempt.with_cost_of(other)
        attempt = other
    return attempt


def grown(fitting: Fitting, attempt: Attempt) -> Attempt:
    """The guide with further components where draws of its halos find mass that it does not cover.

    Each round reaches a little further: along the ends of a valley, for instance, to which few particles came.
    With too many components for halos there is nothing to learn from them.
    """
    if len(attempt.kept.modes) > MOST_HALOS:
        return attempt
    shares: list[float] = []
    for _ in range(MOST_ROUNDS):
        uncovered = attempt.uncovered_importance()
        shares.append(float(uncovered.sum()))
        # What a round covers may show more beyond. Two rounds without a fall are the end.
        if shares[-1] < LEAST_UNCOVERED or shares[-1] > LEAST_FALL * min(shares[:-2], default=np.inf):
            break
        pool = attempt.pool
        parents = np.repeat(np.arange(len(pool.counts)), pool.counts)
        by_parent = np.bincount(parents, uncovered, len(pool.counts))
        heaviest = np.argsort(-by_parent)[: min(MOST_CHILDREN, np.count_nonzero(by_parent))]
        chosen = pool.components.select(heaviest)
        parts = Parts(by_parent[heaviest] / by_parent[heaviest].sum(), chosen.means, chosen.scale_trils)
        is_uncovered = uncovered > 0
        parts = improve(parts, pool.points[is_uncovered], uncovered[is_uncovered], NUM_ITERATIONS)
        children = Components(parts.means, parts.scale_trils, chosen.modes)
        attempt = fitting.assess(pool.extended(fitting.draw(children, has_ladders=False), fitting.mixture_of))
    return attempt
