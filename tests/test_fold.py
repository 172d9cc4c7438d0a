"""Folding is exact, a claimed symmetry that is none is an error, and sample takes symmetries."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import vhmc_jax as vj
from vhmc_jax.pipeline.fold import FoldedDistribution, FoldedSampler, fold
from vhmc_jax.store.stitched import Stitched

KEY = jax.random.key(17)
LABELS = vj.permutations({"mean": 0, "size": 0})
MEANS = jnp.array([-3.0, 1.0, 2.0])
ORDERS = jnp.array([[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]])
SIZES = jnp.array([0.5, 1.0, 2.0])
NUM = 20_000


def logdensity(position):
    """Gaussians around the means in all orders, with sizes that go with them; normalised."""
    deviations = position["mean"] - MEANS[ORDERS]
    terms = -0.5 * jnp.sum(deviations**2, axis=1)
    sizes = -0.5 * jnp.sum((position["size"] - SIZES[ORDERS]) ** 2, axis=1)
    return jax.nn.logsumexp(terms + sizes) - math.log(6) - 3 * math.log(2 * math.pi)


def exact(rng_key):
    """One exact draw."""
    key_order, key_noise = jax.random.split(rng_key)
    order = jax.random.choice(key_order, ORDERS)
    noise = jax.random.normal(key_noise, (2, 3))
    return {"mean": MEANS[order] + noise[0], "size": SIZES[order] + noise[1]}


PROBLEM = vj.Problem(logdensity_fn=logdensity)


class Prior:
    """The density itself as a region."""

    def __call__(self, rng_key):
        return exact(rng_key)

    def log_prob(self, position):
        return logdensity(position)


REGION = vj.box(
    {"mean": jnp.full(3, -8.0), "size": jnp.full(3, -6.0)}, {"mean": jnp.full(3, 8.0), "size": jnp.full(3, 8.0)}
)


@pytest.fixture(scope="module")
def folded():
    return fold(KEY, PROBLEM, exact, None, LABELS)


@pytest.fixture(scope="module")
def draws():
    """Exact draws, as of 20 chains."""
    found = jax.jit(jax.vmap(exact))(jax.random.split(KEY, NUM))
    return jax.tree.map(lambda leaf: leaf.reshape(20, -1, 3), found)


@pytest.mark.statistical
def test_exact_draws_folded_and_unfolded_are_exact(folded, draws):
    representatives = jax.jit(jax.vmap(jax.vmap(folded.domain.representative)))(draws)
    assert np.all(np.diff(representatives["mean"], axis=-1) >= 0)
    again = folded.unfold(representatives)
    others = jax.jit(jax.vmap(exact))(jax.random.split(jax.random.key(1), NUM))
    quantities = (
        lambda x: x["mean"][..., 0],
        lambda x: x["mean"][..., 2] * x["size"][..., 2],
        lambda x: x["size"][..., 1],
    )
    for quantity in quantities:
        assert stats.ks_2samp(np.ravel(quantity(again)), np.ravel(quantity(others))).pvalue > 1e-4
        # The control: without the way back the same test fails.
        assert stats.ks_2samp(np.ravel(quantity(representatives)), np.ravel(quantity(others))).pvalue < 1e-4
    orders = np.argsort(np.asarray(again["mean"]).reshape(-1, 3), axis=1)
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_the_folded_density_has_its_share_of_the_mass(folded, draws):
    positions = jax.tree.map(lambda leaf: leaf.reshape(-1, 3), draws)
    values = np.asarray(jax.jit(jax.vmap(folded.logdensity_fn))(positions))
    is_inside = np.isfinite(values)
    assert abs(np.mean(is_inside) - 1 / 6) < 4 * np.sqrt(5 / 36 / NUM)
    np.testing.assert_allclose(values[is_inside], jax.vmap(logdensity)(positions)[is_inside], rtol=1e-12)
    starts = jax.vmap(folded.region)(jax.random.split(KEY, 50))
    assert np.all(np.isfinite(jax.vmap(folded.logdensity_fn)(starts)))


def test_a_draw_has_one_image_whichever_draws_are_beside_it(folded, draws):
    few = jax.tree.map(lambda leaf: leaf[:2, :30], draws)
    whole = folded.unfold(few)
    part = folded.unfold(jax.tree.map(lambda leaf: leaf[:, 10:20], few))
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[:, 10:20], b), whole, part)


def test_none_are_looked_for_where_the_user_says_so():
    assert fold(KEY, PROBLEM, exact, None, False).num_images == 1


def test_draws_on_disk_are_unfolded_where_they_are_read(folded, draws):
    whole = jax.tree.map(lambda leaf: np.asarray(leaf[:3, :40]), draws)
    pieces = jax.tree.map(lambda leaf: np.split(leaf, [15], axis=1), whole)
    stitched = {
        name: Stitched([lambda part=part: part for part in parts], [15, 25], (3, 3), parts[0].dtype)
        for name, parts in pieces.items()
    }
    found, expected = folded.unfold(stitched), folded.unfold(whole)
    np.testing.assert_array_equal(found["mean"][:, 10:30:5], expected["mean"][:, 10:30:5])


def test_regions():
    """A density that has the symmetries serves the search, with as much more mass in the domain."""
    prior = Prior()
    found = fold(KEY, PROBLEM, prior, None, LABELS).region
    assert isinstance(found, FoldedDistribution)
    position = exact(KEY)
    np.testing.assert_allclose(found.log_prob(position), logdensity(position) + math.log(6))
    assert type(fold(KEY, PROBLEM, REGION, None, LABELS).region) is FoldedSampler
    starts = jax.vmap(exact)(jax.random.split(KEY, 7))
    assert np.all(np.diff(fold(KEY, PROBLEM, starts, None, LABELS).region["mean"], axis=1) >= 0)


def test_without_symmetries_everything_stays():
    found = fold(KEY, PROBLEM, REGION, None, None)
    assert found.logdensity_fn is PROBLEM.logdensity_fn
    assert found.region is REGION
    assert found.unfold("draws") == "draws"
    assert found.settings == {}


@pytest.mark.parametrize(
    ("logdensity_fn", "symmetries", "message"),
    [
        (
            lambda x: logdensity(x) - 0.1 * x["size"][0],
            LABELS,
            "the exchange of labels 0 and 1 does not: the log density is",
        ),
        (logdensity, vj.permutations({"mean": 0, "size": None}), "symmetries must leave the density as it is"),
        (logdensity, lambda x: jax.tree.map(jnp.negative, x), r"maps\[0\] does not"),
        (lambda x: jnp.where(x["mean"][0] > 0, jnp.nan, logdensity(x)), LABELS, "got|at its image"),
    ],
)
def test_a_claimed_symmetry_that_is_none(logdensity_fn, symmetries, message):
    for region in (exact, jax.vmap(exact)(jax.random.split(KEY, 7))):
        with pytest.raises(ValueError, match=message):
            vj.sample(KEY, logdensity_fn, region, symmetries=symmetries, progress=False)


@pytest.fixture(scope="module")
def result():
    return vj.sample(KEY, logdensity, REGION, symmetries=LABELS, num_chains=16, num_samples=300, progress=False)


@pytest.mark.slow
def test_sample_with_symmetries(result, tmp_path):
    assert result.is_trusted, result.warnings
    assert len(result.modes.weights) == 1
    assert abs(result.log_evidence) < 4 * result.log_evidence_error < 0.1
    assert "Each mode stands for its 6 images" in str(result)
    assert result.frozen.num_images == 6
    assert np.all(np.diff(result.representatives["mean"], axis=-1) >= 0)
    np.testing.assert_allclose(np.sort(result.draws["mean"], axis=-1), result.representatives["mean"])
    np.testing.assert_allclose(result.logdensities, jax.vmap(jax.vmap(logdensity))(result.draws), rtol=1e-8)
    errors = vj.diagnostics.mcse(result.draws)
    for name, values in (("mean", MEANS), ("size", SIZES)):
        assert np.all(np.abs(np.mean(result.draws[name], axis=(0, 1)) - values.mean()) < 4 * errors[name])
    result.save(tmp_path / "result.npz")
    assert vj.load(tmp_path / "result.npz").frozen.num_images == 6
    result.to_html(tmp_path / "page.html")
    assert "Each mode stands for its 6 images" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_more_draws_with_what_was_frozen(result):
    settings = {"frozen": result.frozen, "num_chains": 16, "num_samples": 300, "progress": False}
    again = vj.sample(jax.random.key(2), logdensity, symmetries=LABELS, **settings)
    assert abs(again.log_evidence) < 4 * again.log_evidence_error < 0.1
    assert np.std(np.mean(again.draws["mean"], axis=(0, 1))) < 0.5
    with pytest.raises(ValueError, match="symmetries must be those with which frozen was made, of 6 images, got 1"):
        vj.sample(KEY, logdensity, **settings)
    frozen = result.frozen._replace(num_images=1)
    with pytest.raises(ValueError, match="of 1 images, got 6"):
        vj.sample(KEY, logdensity, symmetries=LABELS, **settings | {"frozen": frozen})


@pytest.mark.slow
def test_a_store_knows_the_symmetries(result, tmp_path):
    settings = {"num_chains": 16, "num_samples": 300, "progress": False, "store": tmp_path / "run"}
    stored = vj.sample(KEY, logdensity, REGION, symmetries=LABELS, **settings)
    again = vj.sample(KEY, logdensity, REGION, symmetries=LABELS, **settings)
    for other in (stored, again):
        np.testing.assert_array_equal(other.draws["mean"], result.draws["mean"])
    with pytest.raises(ValueError, match="symmetries"):
        vj.sample(KEY, logdensity, REGION, **settings)
