"""From a log density to draws: the phases, what is frozen, what is reported, and what is refused."""

import signal
import warnings

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
import pytest
from cases import FAR_ENVELOPE, HOLE, log_weight_difference

import vhmc_jax as vj
from vhmc_jax.moves.candidate import Jump
from vhmc_jax.pipeline.produce import num_burnin_for
from vhmc_jax.pipeline.tune import LOCAL_SHARE_AGAIN, jump_probability_for
from vhmc_jax.runner import chunks
from vhmc_jax.runner.progress import ProgressBar

mpl.use("Agg")
pytestmark = pytest.mark.slow
KEY = jax.random.key(31)
TARGET = vj.targets.far_pair(0.7)
MEAN = jnp.array([6.5, -6.5])


def logdensity(position):
    """The far pair over a pytree, with a second mode of half the scale: weights 0.7 and 0.3."""
    x = jnp.stack([position["a"], position["b"]])
    first = jnp.log(0.7) - 0.5 * jnp.sum((x - MEAN) ** 2)
    second = jnp.log(0.3 / 0.25) - 0.5 * jnp.sum((x + MEAN) ** 2) / 0.25
    return jnp.logaddexp(first, second) - jnp.log(2 * jnp.pi) + 3.0


REGION = vj.box({"a": jnp.array(-10.0), "b": jnp.array(-10.0)}, {"a": jnp.array(10.0), "b": jnp.array(10.0)})
SETTINGS = {"num_chains": 32, "num_samples": 400, "progress": False}


@pytest.fixture(scope="module")
def result():
    return vj.sample(KEY, logdensity, REGION, **SETTINGS)


def test_weights_moments_and_evidence(result):
    assert result.draws["a"].shape == result.draws["b"].shape == (32, 400)
    heavy = int(np.argmax(result.modes.weights))
    assert abs(result.modes.weights[heavy] - 0.7) < 4 * result.modes.errors[heavy] < 0.04
    assert abs(result.log_evidence - 3.0) < 4 * result.log_evidence_error < 0.05
    assert abs(np.mean(result.draws["a"]) - 0.4 * 6.5) < 4 * vj.diagnostics.mcse(result.draws)["a"]
    second = np.asarray(result.modes.labels) != heavy
    np.testing.assert_allclose(np.std(np.asarray(result.draws["b"])[second]), 0.5, rtol=0.1)
    assert result.warnings == ()


def test_log_densities_are_those_of_the_draws(result):
    np.testing.assert_allclose(result.logdensities, jax.vmap(jax.vmap(logdensity))(result.draws), rtol=1e-10)


def test_phases_and_summary(result):
    assert [phase.name for phase in result.phases] == ["discover", "fit", "tune", "produce", "judge"]
    assert all(0 <= phase.compile_seconds <= phase.seconds for phase in result.phases)
    infos = result.infos
    assert result.phases[3].num_gradients >= int(np.sum(infos.num_gradients))  # the burn-in counts too
    assert result.num_gradients == sum(phase.num_gradients for phase in result.phases)
    text = str(result)
    for part in ("Mode report", "Log evidence", "produce", "Jumps: probability", "ess_bulk"):
        assert part in text
    assert repr(result) == text
    assert "Warnings" not in text


def test_a_stored_result_has_the_same_figure_and_page(result, tmp_path):
    result.save(tmp_path / "run.npz")
    again = vj.load(tmp_path / "run.npz")
    assert len(again.plot().axes) == 6, "five pictures and a colour bar"
    again.to_html(tmp_path / "run.html")
    assert "weight by bridge" in (tmp_path / "run.html").read_text(encoding="utf-8")


def test_frozen_produces_more_and_nothing_of_it_changes(result):
    again = vj.sample(jax.random.key(5), logdensity, frozen=result.frozen, **SETTINGS)
    assert [phase.name for phase in again.phases] == ["produce", "judge"]
    assert again.frozen is result.frozen
    assert not np.array_equal(again.draws["a"], result.draws["a"])
    assert again.phases[0].compile_seconds < 0.05, "the same program, compiled once"
    kernel = result.frozen.kernel(logdensity)
    longer = vj.run_chains(KEY, kernel, initial_states=result.final_states, first_iteration=result.next_iteration)
    assert longer.draws["a"].shape == (32, 1000)


def test_burnin_goes_on_until_chains_have_jumped(result):
    frozen = result.frozen
    assert num_burnin_for(frozen) == 10
    assert num_burnin_for(frozen._replace(jump_probability=0.2)) == 40
    assert num_burnin_for(frozen._replace(jump_probability=0.0)) == 80


def test_what_was_fitted_already_is_not_for_the_caller(result):
    with pytest.raises(ValueError, match="leave out num_tries, df, or frozen"):
        vj.sample(KEY, logdensity, frozen=result.frozen, num_tries=3, df=5.0)


def test_a_pilot_run_refits_the_guide(result):
    again = vj.sample(KEY, logdensity, REGION, num_pilot=100, **SETTINGS)
    names = ["discover", "fit", "tune", "pilot", "refit", "retune", "produce", "judge"]
    assert [phase.name for phase in again.phases] == names
    assert not again.frozen.guide_report.is_laplace
    assert 0.6 < again.frozen.acceptance_rate < 0.95
    assert again.frozen.guide_report.expected_acceptance > 0.9
    assert not np.array_equal(again.frozen.guide.means, result.frozen.guide.means)
    heavy = int(np.argmax(again.modes.weights))
    assert abs(again.modes.weights[heavy] - 0.7) < 4 * again.modes.errors[heavy] < 0.04


def test_frozen_is_what_the_fit_said(result):
    frozen = result.frozen
    assert frozen.log_envelope == frozen.guide_report.log_envelope
    assert frozen.num_tries == frozen.guide_report.num_tries == 1, "nearly all jumps succeed with one candidate"
    assert frozen.guide_report.is_laplace, "Laplace's Gaussians will do, and tell the step size"
    assert np.isnan(frozen.acceptance_rate), "nothing was measured"
    assert 0.85 < frozen.jump_probability < 0.95, "a fifth of the evaluations for local moves"
    poor = {"expected_acceptance": 0.4, "expected_acceptance_by_mode": np.array([0.4, 0.3]), "num_tries": 4}
    poor_report = frozen.guide_report._replace(**poor)
    assert jump_probability_for(poor_report, (1, 3)) == pytest.approx(4 / (4 + 2.8)), "half of them"
    assert jump_probability_for(poor_report, (8, 16)) == pytest.approx(14 / (14 + 2.8)), "more jumps where moves cost"
    again = jump_probability_for(poor_report, (1, 3), LOCAL_SHARE_AGAIN)
    assert again * 2.8 / ((1 - again) * 4) == pytest.approx(0.2 / 0.8), "in a second round moves take four fifths"
    precisions = np.einsum("k,kij->ij", frozen.guide_report.mode_weights, np.linalg.inv(frozen.modes.covariances))
    np.testing.assert_allclose(frozen.inverse_mass_matrix @ precisions, np.eye(2), atol=1e-8)


def test_interrupt_returns_what_was_drawn(result, monkeypatch):
    def interrupt(self, done, acceptance_rates):
        if done >= 100:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(chunks, "CHUNK_SECONDS", 0.0)  # chunks stay as short as they can be
    monkeypatch.setattr(ProgressBar, "show", interrupt)
    handler = signal.getsignal(signal.SIGINT)
    cut = vj.sample(KEY, logdensity, frozen=result.frozen, **SETTINGS)
    assert signal.getsignal(signal.SIGINT) is handler
    assert not cut.is_complete
    assert cut.summary().startswith("Cut short by Ctrl-C")
    assert "Cut short by Ctrl-C" in cut._repr_html_()
    num_draws = cut.draws["a"].shape[1]
    assert 50 <= num_draws < 400
    whole = vj.sample(KEY, logdensity, frozen=result.frozen, num_chains=32, num_samples=num_draws, progress=False)
    np.testing.assert_array_equal(cut.draws["a"], whole.draws["a"])


def test_arviz(result):
    pytest.importorskip("arviz")
    data = result.to_arviz()
    assert data.posterior["a"].shape == (32, 400)
    assert "lp" in data.sample_stats
    assert "diverging" in data.sample_stats


def test_starts_in_one_mode_are_warned_of():
    starts = TARGET.means[0] + 0.5 * jax.random.normal(KEY, (20, 2))
    with pytest.warns(vj.TrustWarning, match="Give a region that covers more"):
        found = vj.sample(KEY, TARGET.logdensity, starts, **SETTINGS)
    assert len(found.modes.weights) == 1
    assert not found.is_trusted
    assert any("Give a region that covers more" in warning for warning in found.warnings)
    assert "Warnings" in found.summary()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_chains": 0}, "num_chains must be at least 1, got 0"),
        ({"num_samples": -1}, "num_samples must be at least 1, got -1"),
        ({"thinning": 0}, "thinning must be at least 1, got 0"),
        ({"num_tries": 0}, "num_tries must be at least 1, got 0"),
        ({"jump_probability": 1.5}, "jump_probability must be"),
        ({"region": None}, "give a region to search for modes, such as vj.box.*, or frozen"),
        ({"friction": -1.0}, "friction must not be negative"),
        ({"df": -1.0}, "df must be positive"),
    ],
)
def test_bad_input_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        vj.sample(**({"rng_key": KEY, "logdensity_fn": logdensity, "region": REGION} | options))


def test_warnings_of_others_pass():
    """What the user's own density warns of is the user's to see."""

    def warns(position):
        warnings.warn("from the user's density", stacklevel=1)
        return logdensity(position)

    with pytest.warns(UserWarning, match="from the user's density"):
        found = vj.sample(KEY, warns, REGION, **SETTINGS)
    assert not any("user's density" in warning for warning in found.warnings)


def test_a_log_density_of_the_wrong_shape_or_that_raises_is_named():
    with pytest.raises(ValueError, match="logdensity_fn must return one real number"):
        vj.sample(KEY, lambda position: jnp.stack([position["a"]] * 2), REGION)

    def broken(position):
        raise RuntimeError("inside the user's density")

    with pytest.raises(RuntimeError, match="inside the user's density"):
        vj.sample(KEY, broken, REGION)


def worst_z(result):
    """The largest |z| of means and squares against the Gaussian with a hole."""
    draws = np.asarray(result.draws, np.float64)
    assert result.draws.dtype == jnp.float32
    truths = {1: HOLE.mean, 2: np.diag(HOLE.covariance) + HOLE.mean**2}
    scores = [(np.mean(draws**n, (0, 1)) - truth) / vj.diagnostics.mcse(draws**n) for n, truth in truths.items()]
    return np.max(np.abs(scores))


@pytest.mark.statistical
def test_a_penalty_in_single_precision(monkeypatch):
    """A hole in a Gaussian as −10¹⁰: the guide cannot show it, and the jump must."""
    region = vj.box(jnp.full(2, -5.0, jnp.float32), jnp.full(2, 5.0, jnp.float32))
    results = [vj.sample(jax.random.key(seed), HOLE.logdensity, region, progress=False) for seed in range(4)]
    for result in results:
        assert abs(result.frozen.log_envelope - HOLE.log_normalizer) < 10
        assert worst_z(result) < 4
    # Power: an envelope from the guide's lowest values, and weights that are rounded with it.
    monkeypatch.setattr(Jump, "log_weight_ratio", log_weight_difference)
    frozen = results[0].frozen._replace(log_envelope=FAR_ENVELOPE)
    jax.clear_caches()
    with pytest.warns(vj.TrustWarning, match="of jumps were accepted where"):
        rounded = vj.sample(KEY, HOLE.logdensity, frozen=frozen, progress=False)
    assert worst_z(rounded) > 8
    jax.clear_caches()
