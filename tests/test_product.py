"""Products of mixtures against the mixtures that they are made of, and as guides of whole jumps and of the evidence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import KEY, PAIR, guide_of_a_pair
from counting import compiled_during
from invariance import assert_invariant, check_invariance
from scipy import stats
from test_mixture import gaussian, student

import vhmc_jax as vj
from vhmc_jax.guide.protocol import HasBlocks, HasComponents

BLOCKS = [[4, 0], [2], [5, 1, 3]]


def parts(dtype=np.float64):
    """Blocks of unequal size and number of components, of both families, one of them of a single component."""
    return [gaussian(3, 2, dtype), student(2, 1, dtype), gaussian(1, 3, dtype)]


def product(dtype=np.float64, blocks=BLOCKS):
    return vj.ProductMixture(blocks, parts(dtype))


@jax.jit
def values(guide, points):
    """A guide is an argument of the program."""
    return jax.vmap(guide.log_prob)(points), jax.vmap(guide.block_log_probs)(points)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_density_is_the_product(dtype):
    guide, rtol = product(dtype), 2e-5 if dtype == np.float32 else 1e-12
    points = 4.0 * np.random.default_rng(1).normal(size=(30, 6)).astype(dtype)
    of_blocks = zip(parts(dtype), BLOCKS, strict=True)
    expected = np.stack([part.on_host().at(points[:, block]).log_prob for part, block in of_blocks], axis=1)
    log_prob, block_log_probs = values(guide.prepared(), points)
    assert log_prob.dtype == block_log_probs.dtype == dtype
    for one, each in ((log_prob, block_log_probs), guide.on_host().at(points)):
        np.testing.assert_allclose(each, expected, rtol=rtol)
        np.testing.assert_allclose(one, expected.sum(axis=1), rtol=rtol)
    # Power: with two coordinates of a block exchanged it is another density.
    swapped = product(dtype, [[0, 4], *BLOCKS[1:]]).prepared()
    assert np.max(np.abs(values(swapped, points)[0] - log_prob)) > 0.1


def test_draws_have_the_law_of_the_blocks():
    """Those of JAX and those of NumPy: every coordinate and every block's log density, and no link between blocks."""
    guide, generator = product(), np.random.default_rng(2)
    expected = np.empty((4000, 6))
    for part, block in zip(parts(), BLOCKS, strict=True):
        expected[:, block] = part.on_host().sample(generator, 4000)

    def seen(x):
        return np.column_stack([x, guide.on_host().at(x).block_log_probs])

    def least_p(x):
        return min(stats.ks_2samp(a, b).pvalue for a, b in zip(seen(x).T, seen(expected).T, strict=True))

    keys = jax.random.split(jax.random.key(3), 4000)
    by_jax, by_numpy = jax.jit(jax.vmap(guide.sample))(keys), guide.on_host().sample(generator, 4000)
    for draws in (np.asarray(by_jax), by_numpy):
        assert least_p(draws) > 1e-4
        correlations = np.corrcoef(seen(draws)[:, 6:], rowvar=False)
        assert np.max(np.abs(correlations - np.eye(3))) < 5 / np.sqrt(4000)
    assert least_p(0.9 * np.asarray(by_jax)) < 1e-4


def test_leaves_are_the_parameters():
    guide = product()
    assert len(jax.tree.leaves(guide)) == 3 + 4 + 3
    halved = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), guide)
    assert halved.sample(KEY).dtype == jnp.float32
    # Traced, it is prepared by JAX: the density is that of the first block's, as far as its parameters go.
    x, block = jnp.linspace(-1.0, 1.0, 6), np.array(BLOCKS[0])
    gradients = jax.jit(jax.grad(lambda guide: guide.log_prob(x)))(guide).mixtures[0]
    alone = jax.jit(jax.grad(lambda part: part.log_prob(x[block])))(parts()[0])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-12), gradients, alone)


def test_other_blocks_of_the_same_shapes_share_the_program():
    """The blocks of a guide are found from draws: another seed must not mean another program."""
    points = np.zeros((2, 6))
    first, other = product().prepared(), product(blocks=[[3, 2], [0], [1, 5, 4]]).prepared()
    values(first, points)
    _, num_compiled = compiled_during(values, other, points)
    assert num_compiled == 0


def test_blocks_and_no_components():
    guide = product()
    assert (guide.num_blocks, guide.dim) == (3, 6)
    np.testing.assert_array_equal(guide.block_of, [0, 2, 1, 2, 0, 2])
    assert isinstance(guide, HasBlocks)
    assert not isinstance(guide, HasComponents)
    with pytest.raises(ValueError, match=r"x must be a flat vector of length 6, got shape \(5,\)"):
        guide.log_prob(jnp.zeros(5))


def pair_product(dtype=jnp.float32):
    """The marginals of a guide for the pair: it has two modes more than the target."""
    whole = guide_of_a_pair(PAIR, dtype)
    marginals = [
        vj.GaussianMixture(whole.log_weights, whole.means[:, [i]], 1.2 * whole.scale_trils[:, [i]][:, :, [i]])
        for i in (1, 0)
    ]
    return vj.ProductMixture([[1], [0]], marginals)


@pytest.mark.statistical
def test_whole_jumps_are_invariant():
    """All blocks at once, as ``vhmc`` makes them; the second stage too."""
    kernel = vj.vhmc(
        PAIR.logdensity, pair_product(), step_size=1.3, num_integration_steps=1, jump_probability=0.5, log_envelope=0.5
    )
    report = check_invariance(kernel, PAIR, KEY)
    assert_invariant(report)
    assert 0.1 < report.info_means.jump_accepted / report.info_means.is_jump < 0.9
    assert report.info_means.jump_from == report.info_means.jump_to == -1


def test_evidence_by_a_product():
    draws = PAIR.sample(KEY, 4000).reshape(8, 500, 2)
    evidence = vj.diagnostics.log_evidence(KEY, PAIR.logdensity, pair_product(), draws)
    assert evidence.mode_weights is None
    assert 0 < evidence.error < 0.05
    assert abs(evidence.log_evidence - PAIR.log_normalizer) < 4 * evidence.error
    with pytest.raises(TypeError, match="mode_of is for a mixture of this package, got a ProductMixture"):
        vj.diagnostics.log_evidence(KEY, PAIR.logdensity, pair_product(), draws, mode_of=[0, 1])


def test_mode_report_needs_labels():
    draws = PAIR.sample(KEY, 400).reshape(4, 100, 2)
    with pytest.raises(TypeError, match=r"guide must have component_log_probs\(x\), got ProductMixture; for another"):
        vj.diagnostics.mode_report(draws, pair_product())
    report = vj.diagnostics.mode_report(labels=(np.asarray(draws)[..., 0] < 0).astype(int))
    assert abs(report.weights[0] - 0.7) < 0.1


ONE, TWO = gaussian(2, 1), gaussian(2, 2)
BAD = {
    "overlap": ([[0, 1], [1]], [TWO, ONE], ValueError, "blocks must be disjoint, got coordinate 1 more than once"),
    "left out": ([[0, 1], [3]], [TWO, ONE], ValueError, "leave no coordinate out, got coordinates up to 3 without 2"),
    "negative": ([[-1], [0]], [ONE, ONE], ValueError, "blocks must hold coordinates from 0 on, got -1"),
    "floating": ([[0.0], [1.0]], [ONE, ONE], ValueError, r"blocks\[0\] must be a list of coordinates, integers, got"),
    "empty block": ([[0], []], [ONE, ONE], ValueError, r"blocks\[1\] must be a list of coordinates, integers, got \[]"),
    "no block": ([], [], ValueError, "blocks must be at least one list of coordinates, got none"),
    "one number": ([0, 1], [ONE, ONE], ValueError, r"blocks\[0\] must be a list of coordinates, integers, got 0"),
    "too few mixtures": ([[0], [1]], [ONE], ValueError, "mixtures must be one for each of the 2 blocks, got 1"),
    "dimension": (
        [[0], [1]],
        [ONE, TWO],
        ValueError,
        r"mixtures\[1\] must have dimension 1, as blocks\[1\] has, got 2",
    ),
    "no mixture": ([[0], [1]], [ONE, None], TypeError, r"mixtures\[1\] must be a GaussianMixture or .* got NoneType"),
    "dtypes": (
        [[0], [1]],
        [ONE, gaussian(2, 1, np.float32)],
        ValueError,
        "mixtures must have one dtype, got float32, float64",
    ),
}


@pytest.mark.parametrize(("blocks", "mixtures", "error", "message"), BAD.values(), ids=BAD.keys())
def test_bad_argument(blocks, mixtures, error, message):
    with pytest.raises(error, match=message):
        vj.ProductMixture(blocks, mixtures)
