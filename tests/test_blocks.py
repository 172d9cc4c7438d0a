"""Blocks of coordinates found from draws, and products of mixtures fitted to them. All of it runs in NumPy."""

import jax
import numpy as np
import pytest

from vhmc_jax.fit.blocks import find_blocks, fit_product, moments_of

KEY = jax.random.key(5)


def noise(num, dim, seed=0):
    return np.random.default_rng(seed).standard_normal((num, dim))


def bananas(num, num_pairs, seed=0):
    """Pairs (x, y) without correlation in which y follows x²; the second of each pair comes first."""
    x, y = 3 * noise(num, num_pairs, seed), noise(num, num_pairs, seed + 1)
    return np.stack([y + 0.1 * (x**2 - 9), x], axis=2).reshape(num, -1)


def signs(num, dim, seed=0):
    generator = np.random.default_rng(seed)
    return np.where(generator.random((num, dim)) < 0.7, -3.0, 3.0) + 0.6 * generator.standard_normal((num, dim))


def test_independent_coordinates_are_alone():
    """In 20 sets of draws; 0.2 of them are expected to have a link by chance."""
    linked = sum(len(find_blocks(noise(1000, 100, seed)).blocks) < 100 for seed in range(20))
    assert linked <= 2


def test_dependence_of_many_kinds_is_seen_among_many_coordinates():
    draws = noise(1000, 60)
    draws[:, 31] += 0.3 * draws[:, 5]  # correlation
    draws[:, 40] += 0.5 * (draws[:, 6] ** 2 - 1)  # a banana
    draws[:, 41] *= np.exp(0.5 * draws[:, 7])  # a funnel
    angle = np.arctan2(draws[:, 8], draws[:, 42])
    draws[:, [8, 42]] = np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.1 * draws[:, [9, 43]]  # a ring
    draws[:, 9], draws[:, 43] = noise(1000, 2, 1).T
    draws[:, 50] += draws[:, 10]
    draws[:, 51] += draws[:, 50]  # linked to the tenth through the fiftieth
    blocks, is_separated = find_blocks(draws)
    assert [block for block in blocks if len(block) > 1] == [(5, 31), (6, 40), (7, 41), (8, 42), (10, 50, 51)]
    assert sorted(sum(blocks, ())) == list(range(60))
    assert is_separated


def test_bananas_are_pairs():
    found = find_blocks(bananas(1000, 5))
    assert found.blocks == tuple((2 * i, 2 * i + 1) for i in range(5))
    shuffled = np.random.default_rng(1).permuted(bananas(1000, 5), axis=0)
    assert len(find_blocks(shuffled).blocks) == 10, "pairs were seen where there are none"


def test_a_large_block_is_cut_at_its_weakest_links_and_said_so():
    """A chain of eight, the link in its middle the weakest."""
    draws = noise(2000, 8)
    for i in range(1, 8):
        draws[:, i] += (0.5 if i == 4 else 2.0) * draws[:, i - 1]
    assert find_blocks(draws) == ((tuple(range(8)),), True)
    assert find_blocks(draws, max_size=4) == (((0, 1, 2, 3), (4, 5, 6, 7)), False)
    assert find_blocks(draws, max_size=1) == (tuple((i,) for i in range(8)), False)


def test_weights_and_effective_size_count():
    """Draws of weight zero do not, and draws that are worth few tell of strong links alone."""
    draws = np.concatenate([noise(1000, 2), np.repeat(noise(1000, 1, 1), 2, axis=1)])
    weights = np.repeat([1.0, 0.0], 1000)
    assert len(find_blocks(draws).blocks) == 1
    assert len(find_blocks(draws, weights=weights).blocks) == 2
    weak = noise(2000, 2)
    weak[:, 1] += 0.25 * weak[:, 0]
    assert len(find_blocks(weak).blocks) == 1
    assert len(find_blocks(weak, effective_size=100).blocks) == 2


def acceptance(guide, log_density, draws):
    """Of whole jumps between exact draws and those of the guide."""
    host = guide.on_host()
    own = host.sample(np.random.default_rng(3), len(draws))
    here, there = (log_density(x) - host.at(x).log_prob for x in (draws, own))
    return np.mean(np.exp(np.minimum(there - here, 0.0)))


def signs_log_density(x):
    parts = [np.log(w) - 0.5 * ((x - c) / 0.6) ** 2 for w, c in ((0.7, -3.0), (0.3, 3.0))]
    return np.logaddexp(*parts).sum(axis=1) - x.shape[1] * np.log(0.6 * np.sqrt(2 * np.pi))


def test_a_product_fits_what_a_mixture_cannot():
    """A thousand modes."""
    draws, others = signs(1000, 10).astype(np.float32), signs(4000, 10, seed=1)
    blocks, _ = find_blocks(draws)
    fit = fit_product(KEY, draws, blocks)
    assert fit.num_components == (2,) * 10
    assert fit.guide.sample(KEY).dtype == np.float32
    assert acceptance(fit.guide, signs_log_density, others) > 0.7
    # What is said of held-out draws is true of others.
    assert abs(fit.held_out - fit.guide.on_host().at(others).log_prob.mean()) < 0.5
    assert fit.held_out < signs_log_density(draws).mean() + 0.5
    whole = fit_product(KEY, draws, [range(10)])
    assert whole.held_out < fit.held_out - 3
    assert acceptance(whole.guide, signs_log_density, others) < 0.1


def test_held_out_likelihood_is_honest_in_many_dimensions():
    """A frame that had seen the held-out draws would seem better than the truth, and one block better than many."""
    draws, entropy = noise(400, 40), 20 * (1 + np.log(2 * np.pi))
    whole, product = (
        fit_product(KEY, draws, blocks, max_components=1) for blocks in ([range(40)], np.arange(40)[:, None])
    )
    assert whole.held_out < product.held_out
    for fit in (whole, product):
        truth = fit.guide.on_host().at(noise(4000, 40, 1)).log_prob.mean()
        assert truth < -entropy
        assert fit.held_out < truth + 1.0


def test_weighted_draws_are_fitted():
    draws = np.concatenate([noise(1000, 2), 50 + noise(1000, 2, 1)])
    fit = fit_product(KEY, draws, [[0], [1]], weights=np.repeat([1.0, 0.0], 1000))
    assert fit.num_components == (1, 1)
    one = moments_of(draws, np.repeat([2.0, 0.0], 1000))
    np.testing.assert_allclose(one.mean, draws[:1000].mean(axis=0))
    np.testing.assert_allclose([float(part.means[0, 0]) for part in fit.guide.mixtures], one.mean)
    np.testing.assert_allclose(one.scale_tril @ one.scale_tril.T, np.cov(draws[:1000].T, bias=True), atol=0.01)


@pytest.mark.parametrize(
    ("function", "arguments", "error", "message"),
    [
        (find_blocks, {"draws": np.zeros(3)}, ValueError, r"draws must have shape \(n, d\), got \(3,\)"),
        (find_blocks, {"draws": np.full((3, 2), np.nan)}, ValueError, "draws must be finite"),
        (find_blocks, {"draws": noise(3, 2), "weights": [1.0]}, ValueError, "weights must be 3 numbers"),
        (find_blocks, {"draws": noise(3, 2), "weights": -np.ones(3)}, ValueError, "weights must be 3 numbers"),
        (find_blocks, {"draws": noise(3, 2), "max_size": 0}, ValueError, "max_size must be at least 1, got 0"),
        (
            fit_product,
            {"rng_key": KEY, "draws": noise(9, 2), "blocks": [[0], [1]], "max_components": 0},
            ValueError,
            "max_components must be at least 1, got 0",
        ),
        (
            fit_product,
            {"rng_key": KEY, "draws": noise(99, 2), "blocks": [[0], [0]]},
            ValueError,
            "blocks must be disjoint, got coordinate 0 more than once",
        ),
        (
            fit_product,
            {"rng_key": KEY, "draws": noise(99, 3), "blocks": [[0], [1]]},
            ValueError,
            "blocks must hold each of the 3 coordinates of draws, got 2",
        ),
    ],
)
def test_bad_argument(function, arguments, error, message):
    with pytest.raises(error, match=message):
        function(**arguments)
