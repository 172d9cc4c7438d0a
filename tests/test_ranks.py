"""Normal scores against SciPy's ranks and quantiles, with ties, signed zeros and infinities."""

import numpy as np
import pytest
import scipy.stats

from vhmc_jax.diagnostics.ranks import map_components, normal_scores, normal_scores_and_folded, quantiles


def by_scipy(x):
    ranks = scipy.stats.rankdata(x, method="average").reshape(x.shape)
    return scipy.stats.norm.ppf((ranks - 0.375) / (x.size + 0.25))


RNG = np.random.default_rng(0)
CASES = {
    "continuous": RNG.normal(size=(3, 200)),
    "odd": RNG.normal(size=(3, 67)),
    "ties": np.round(RNG.normal(size=(3, 200)), 1),
    "constant": np.full((2, 5), -1.5),
    "signed zeros": RNG.choice([-0.0, 0.0, 1.0, -1.0], (3, 20)),
    "infinite": np.append(RNG.normal(size=18), [np.inf, -np.inf]).reshape(2, 10),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-12)])
def test_scores_equal_scipys(name, dtype, tolerance):
    x = CASES[name].astype(dtype)
    scores, folded = normal_scores_and_folded(x)
    assert scores.dtype == dtype
    np.testing.assert_allclose(scores, by_scipy(x), atol=tolerance)
    np.testing.assert_allclose(folded, by_scipy(np.abs(x - np.median(x))), atol=tolerance)
    np.testing.assert_array_equal(scores, normal_scores(x))


def test_nan_spoils_all_scores():
    assert np.isnan(normal_scores(np.array([[1.0, np.nan]]))).all()
    assert np.isnan(normal_scores_and_folded(np.array([[1.0, np.nan]]))).all()


def test_quantiles_are_numpys():
    x = RNG.normal(size=(4, 25))
    np.testing.assert_allclose(quantiles(x, (0.05, 0.5, 0.95, 1.0)), np.quantile(x, (0.05, 0.5, 0.95, 1.0)))


def test_components_keep_their_places():
    x = RNG.normal(size=(2, 5, 3, 4))
    np.testing.assert_allclose(map_components(lambda c: c.sum(), x), x.sum((0, 1)))
    assert map_components(lambda c: c.sum(), x[..., 0, 0]).shape == ()
