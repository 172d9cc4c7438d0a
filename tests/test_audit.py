"""The audit: silent on a good run, and one sentence for each thing that disagrees."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vhmc_jax as vj
from vhmc_jax.fit.coverage import Coverage
from vhmc_jax.pipeline.agreement import Round
from vhmc_jax.pipeline.audit import audit
from vhmc_jax.pipeline.phase import Cost
from vhmc_jax.pipeline.produce import Produced

pytestmark = pytest.mark.slow
TARGET = vj.targets.far_pair(0.7)


@pytest.fixture(scope="module")
def result():
    region = vj.box(jnp.full(2, -10.0), jnp.full(2, 10.0))
    return vj.sample(jax.random.key(0), TARGET.logdensity, region, num_chains=16, num_samples=300, progress=False)


@pytest.fixture(scope="module")
def good(result):
    """The four records that an audit looks at."""
    produced = Produced(
        np.asarray(result.draws),
        jax.tree.map(np.asarray, result.infos),
        np.asarray(result.logdensities),
        result.final_states,
        result.next_iteration,
        Cost(0, 0),
    )
    return {"frozen": result.frozen, "produced": produced, "report": result.modes, "evidence": result.evidence}


def sentences(good, **changed):
    return audit(**(good | changed)).notes


def only_sentence(good, **changed):
    (sentence,) = sentences(good, **changed)
    return sentence


def test_a_good_run_has_nothing_to_say(result, good):
    assert sentences(good) == ()
    assert result.is_trusted
    assert result.frozen.population.has_arrived
    assert result.frozen.guide_report.coverage is not None


def test_chains_at_different_places_are_told(good):
    produced = good["produced"]
    shifts = np.linspace(-3.0, 3.0, 16)[:, None, None] * np.array([0.0, 1.0])
    found = sentences(good, produced=produced._replace(draws=produced.draws + shifts))
    assert found[0].startswith("Chains disagree: R-hat of coordinate 1 is 1.")
    small = sentences(good, produced=produced._replace(draws=produced.draws + 1e-3 * shifts))
    assert small == ()


def test_parameters_with_names_are_called_by_them(good):
    produced = good["produced"]
    shifts = np.linspace(-3.0, 3.0, 16)[:, None, None] * np.array([0.0, 1.0])
    found = sentences(good, produced=produced._replace(draws={"mu": produced.draws + shifts}))
    assert found[0].startswith("Chains disagree: R-hat of mu[1] is 1.")
    earlier = Round(produced._replace(draws={"mu": produced.draws + 1.0}), good["evidence"])
    found = sentences(good, produced=produced._replace(draws={"mu": produced.draws}), before=earlier)
    assert any("The two rounds disagree about mu[" in sentence for sentence in found)


def test_chains_whose_log_densities_disagree_are_told(good):
    produced = good["produced"]
    shifts = np.linspace(-2.0, 2.0, 16)[:, None]
    found = sentences(good, produced=produced._replace(logdensities=produced.logdensities + shifts))
    assert found[0].startswith("Chains disagree: R-hat of the log density is 1.")


def test_chains_of_different_spread_are_told(good):
    """Means that agree are not enough: half of the chains are twice as wide as the others."""
    produced, generator = good["produced"], np.random.default_rng(2)
    widths = np.where(np.arange(16) % 2, 1.0, 2.0)[:, None, None]
    draws = generator.normal(size=(16, 300, 2))
    assert sentences(good, produced=produced._replace(draws=draws)) == ()
    found = sentences(good, produced=produced._replace(draws=widths * draws))
    assert any("Chains disagree: R-hat of coordinate" in sentence for sentence in found)


def test_draws_that_repeat_are_told(good):
    produced = good["produced"]
    # Each draw fifty times over: sixteen chains with six draws each, in an order that leaves R-hat near one.
    numbers = np.repeat(np.arange(6), 50)
    mean = produced.draws.mean(axis=1, keepdims=True)
    found = sentences(good, produced=produced._replace(draws=(produced.draws - mean)[:, numbers]))
    assert any("The effective size of coordinate" in sentence and "raise num_samples" in sentence for sentence in found)


def test_a_chain_that_stood_still_is_told(good):
    produced = good["produced"]
    draws = produced.draws.copy()
    draws[3] = draws[3, 0]
    assert any("Chains disagree" in sentence for sentence in sentences(good, produced=produced._replace(draws=draws)))


def test_few_draws_need_not_reach_four_hundred(good):
    produced = good["produced"]
    few = produced._replace(draws=produced.draws[:2, :20], logdensities=produced.logdensities[:2, :20])
    assert not any("below 400" in sentence for sentence in sentences(good, produced=few))


def test_modes_whose_weights_disagree_are_told(good):
    report = good["report"]
    found = only_sentence(good, report=dataclasses.replace(report, rhat=np.array([1.3, 1.001])))
    assert found.startswith("Chains disagree about the weights of modes 0 (R-hat above 1.05)")
    light = dataclasses.replace(report, rhat=np.array([1.3, 1.3]), weights=np.array([0.999, 0.001]))
    assert sentences(good, report=light) == (), "nobody asks chains to agree about a mode of weight 0.001"


def test_modes_that_were_never_visited_are_told(good):
    report = dataclasses.replace(good["report"], unseen_modes=(1,))
    found = only_sentence(good, report=report)
    assert found.startswith("Modes 1 have weight in the fit and were never visited")
    frozen = good["frozen"]
    light = frozen.guide_report._replace(mode_weights=np.array([0.9998, 0.0002]), mode_weight_errors=np.full(2, 1e-5))
    assert sentences(good, report=report, frozen=frozen._replace(guide_report=light)) == (), "nobody wonders at one"


def with_jumps(good, share):
    """The run, with that share of its jumps accepted."""
    produced, infos = good["produced"], good["produced"].infos
    accepted = infos.is_jump & (np.random.default_rng(0).uniform(size=infos.is_jump.shape) < share)
    return produced._replace(infos=infos._replace(jump_accepted=accepted))


def test_jumps_that_fail_are_told(good):
    expected = good["frozen"].guide_report.expected_acceptance
    assert expected > 0.9
    found = only_sentence(good, produced=with_jumps(good, 0.6))
    assert "of jumps were accepted where" in found
    assert f"{expected:.0%} were expected" in found
    assert sentences(good, produced=with_jumps(good, expected - 0.05)) == ()
    assert only_sentence(good, produced=with_jumps(good, 0.0)).startswith("No jump was accepted")


def test_a_run_without_jumps_is_not_blamed_for_them(good):
    infos = good["produced"].infos
    none = infos._replace(is_jump=np.zeros_like(infos.is_jump), jump_accepted=np.zeros_like(infos.jump_accepted))
    assert sentences(good, produced=good["produced"]._replace(infos=none)) == ()


def with_coverage(good, coverage):
    frozen = good["frozen"]
    return frozen._replace(guide_report=frozen.guide_report._replace(coverage=coverage))


def test_a_population_that_is_not_covered_is_told(good):
    found = only_sentence(good, frozen=with_coverage(good, Coverage(0.12, 0.16)))
    assert found.startswith("12.0% of a population of particles (at most 16.0%) lies where the guide")
    assert sentences(good, frozen=with_coverage(good, Coverage(0.04, 0.06))) == ()
    assert sentences(good, frozen=with_coverage(good, None)) == ()


def with_population(good, **changed):
    return good["frozen"]._replace(population=good["frozen"].population._replace(**changed))


def test_a_population_that_sees_more_mass_is_told(good):
    log_evidence = good["evidence"].log_evidence
    more = with_population(good, log_evidence=log_evidence + 4.0, log_evidence_error=0.1)
    found = only_sentence(good, frozen=more)
    assert found.startswith("The population's log evidence is ")
    assert "the chains miss mass" in found
    assert sentences(good, frozen=more._replace(population=None)) == ()
    unsure = with_population(good, log_evidence=log_evidence + 4.0, log_evidence_error=0.6)
    assert sentences(good, frozen=unsure) == (), "four standard errors"
    less = with_population(good, log_evidence=log_evidence - 9.0, log_evidence_error=0.1)
    assert sentences(good, frozen=less) == (), "a population that lost a mode says nothing about the chains"


def test_a_population_that_missed_the_mass_is_no_second_opinion(good):
    population = good["frozen"].population
    missed = population._replace(log_evidence=population.log_evidence - 30.0)
    sentence = only_sentence(good, frozen=good["frozen"]._replace(population=missed))
    assert "it did not find the mass, so that there is no second opinion" in sentence
    nearly = population._replace(log_evidence=population.log_evidence - 5.0)
    assert sentences(good, frozen=good["frozen"]._replace(population=nearly)) == ()


def test_a_population_that_stopped_short_is_told(good):
    path = good["frozen"].population.path
    short = with_population(good, path=path._replace(temperatures=0.5 * path.temperatures))
    assert "no second opinion" in only_sentence(good, frozen=short)


def with_modes(good, **changed):
    return good["frozen"]._replace(modes=good["frozen"].modes._replace(**changed))


def test_modes_still_to_be_found_are_told(good):
    found = only_sentence(good, frozen=with_modes(good, undiscovered_mass=0.2, num_starts=1024))
    assert found.startswith("Modes with 20.0% of the mass were seen only once or twice in 1,024 starts")
    assert sentences(good, frozen=with_modes(good, undiscovered_mass=0.005)) == ()


def test_divergences_are_told(good):
    infos = good["produced"].infos
    is_divergent = np.arange(infos.is_divergent.size).reshape(infos.is_divergent.shape) % 5 == 0
    found = only_sentence(good, produced=good["produced"]._replace(infos=infos._replace(is_divergent=is_divergent)))
    assert found.startswith("20.0% of steps diverged")


@pytest.mark.parametrize("reason", ["escaped", "flat"])
def test_starts_that_ran_off_are_told(good, reason):
    modes = good["frozen"].modes
    frozen = with_modes(good, failures=modes.failures._replace(**{reason: modes.num_starts // 10}))
    assert "starts ran off to infinity or ended where the density does not fall" in only_sentence(good, frozen=frozen)
    saddles = with_modes(good, failures=modes.failures._replace(saddle=modes.num_starts // 10))
    assert sentences(good, frozen=saddles) == ()


def test_no_second_round_is_asked_for_where_most_starts_ran_off(good):
    """Another guide does not make the density proper."""
    failing = {"produced": with_jumps(good, 0.5)}
    modes = good["frozen"].modes
    for num, asks_again in ((modes.num_starts // 3, True), (modes.num_starts, False)):
        frozen = with_modes(good, failures=modes.failures._replace(flat=num))
        assert audit(**good | failing | {"frozen": frozen}).asks_again == asks_again


def test_notes_of_the_evidence_are_passed_on(good):
    assert sentences(good, evidence=good["evidence"]._replace(notes=("A note.",))) == ("A note.",)


def test_causes_come_before_what_follows_from_them(good):
    """The first line is what people read."""
    modes = good["frozen"].modes._replace(undiscovered_mass=0.2)
    frozen = with_coverage(good, Coverage(0.2, 0.3))._replace(
        modes=modes._replace(failures=modes.failures._replace(flat=modes.num_starts)), notes=("A note of the search.",)
    )
    produced = with_jumps(good, 0.5)
    shifted = produced._replace(draws=produced.draws + np.linspace(-3.0, 3.0, 16)[:, None, None])
    evidence = good["evidence"]._replace(notes=("A note of the evidence.",))
    found = sentences(good, frozen=frozen, produced=shifted, evidence=evidence)
    order = ["it may be improper", "of the search", "seen only once", "hardly any density", "of the evidence"]
    order += ["of jumps were accepted", "Chains disagree"]
    assert [next(i for i, note in enumerate(found) if part in note) for part in order] == list(range(len(order)))


def test_long_tails_do_not_hide_chains_that_disagree(good):
    """Cauchy draws have no variance. What is looked at is mapped into an interval."""
    generator = np.random.default_rng(1)
    cauchy = generator.standard_cauchy(size=(16, 300, 2))
    logdensities = -np.log1p(cauchy**2).sum(axis=-1)
    produced = good["produced"]._replace(draws=cauchy, logdensities=logdensities)
    assert sentences(good, produced=produced) == ()
    shifted = produced._replace(draws=cauchy + np.linspace(-1.0, 1.0, 16)[:, None, None])
    assert any("Chains disagree" in sentence for sentence in sentences(good, produced=shifted))


def test_a_second_round_is_asked_for_where_the_guide_is_to_blame(good):
    assert not audit(**good).asks_again
    assert audit(**good | {"produced": with_jumps(good, 0.5)}).asks_again
    assert audit(**good | {"frozen": with_coverage(good, Coverage(0.2, 0.3))}).asks_again
    noted = audit(**good | {"evidence": good["evidence"]._replace(notes=("A note.",))})
    assert noted.notes
    assert not noted.asks_again, "another guide would not help"


def test_climbs_that_lead_to_where_the_guide_is_thin(good):
    """They are told of, and a second round is asked for; not where the guide is as dense as the target there."""
    frozen, log_z = good["frozen"], good["evidence"].log_evidence
    failures = frozen.modes.failures._replace(unconverged=frozen.modes.num_starts // 2)
    ends = np.random.default_rng(0).normal(size=(40, frozen.population.flat.shape[1]))
    heights = frozen.guide.on_host().at(ends).log_prob + log_z
    for excess, share in ((20.0, 1.0), (20.0, 0.3), (20.0, 0.1), (0.0, 1.0)):
        higher = heights + excess * (np.arange(40) < 40 * share)
        found = audit(**good | {"frozen": with_modes(good, failures=failures, failed_ends=(ends, higher))})
        is_thin = excess > 0 and share > 0.2
        assert any("climbs did not end" in note for note in found.notes) == is_thin
        assert found.asks_again == is_thin
