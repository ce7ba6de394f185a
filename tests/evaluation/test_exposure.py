"""Exposed and worst-case scores: hiding a concept behind new IDs or a filter is seen through, to the bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from genrec_unlearn_bench.backbones.recommender import Recommender, ServingRules, exposed
from genrec_unlearn_bench.evaluation.decode import EvaluationContext
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.evaluation.per_user import recompute
from genrec_unlearn_bench.sids.table import SidTable
from genrec_unlearn_bench.testing import Planted, catalogue, concept
from tests.evaluation.planted import PlantedRanker, evaluated, examples, lists, manifest, table
from tests.evaluation.planted import PlantedRecommender as Answering
from tests.evaluation.planted import context as small_context
from tests.evaluation.planted import split as small_split

FORGET, RETAIN = Group.FORGET, Group.RETAIN
Values = dict[tuple[str, Group, int | None], MetricValue]


def measured(world: Planted, model: Recommender, *, own_tokenizer: bool = False) -> Values:
    """The core values of a model on the planted world's test part, which the per-user table gives again."""
    request, groups = world.request, world.test
    few = replace(groups, retain=groups.retain.subset(np.arange(60)))
    split = small_split(len(concept()), few.forget, few.retain, concept=np.flatnonzero(concept()).tolist())
    assert split.manifest == manifest(request.kind)
    setting = EvaluationContext(model, world.table, catalogue(), split, request.features, 0, own_tokenizer)
    found = evaluated(setting)
    again = recompute(found.per_user)
    assert list(again) == list(found.values[: len(again)])
    return {(one.metric, one.group, one.beam): one for one in found.values}


def relabelled(table: SidTable) -> SidTable:
    """The concept's items at codes drawn at random among those that no item has; retain items stay."""
    marked, generator = np.flatnonzero(concept()), np.random.default_rng(3)
    codes = generator.permutation(table.level_sizes[0])[: len(marked)]
    moved = table.codes[marked].copy()
    moved[:, 0], moved[:, 1] = codes, generator.permutation(table.level_sizes[1])[: len(marked)]
    return table.reassigned(marked, moved)


@pytest.fixture(scope="module")
def original(planted: Planted) -> Values:
    return measured(planted, planted.original)


def same_to_the_bit(hidden: Values, original: Values) -> None:
    for group, beam in ((FORGET, 10), (FORGET, 50), (RETAIN, 10)):
        for name in ("hr@10", "ndcg@10", "concept-rate@10"):
            assert hidden[f"exposed.{name}", group, beam].value == original[name, group, beam].value
            assert hidden[f"exposed.{name}", group, beam].sd == original[name, group, beam].sd


def test_a_relabelling_that_unlearns_nothing_is_seen_through(planted: Planted, original: Values) -> None:
    found = measured(planted, planted.original.with_sids(relabelled(planted.table)))
    knew = original["hr@10", FORGET, 10].value
    served = found["hr@10", FORGET, 10].value
    assert knew is not None
    assert served is not None
    assert knew > 0.8
    assert served < 0.25 * knew, "as served, the concept seems to be forgotten"
    same_to_the_bit(found, original)
    for beam in (10, 50):
        worst = found["worst-case.hr@10", FORGET, beam]
        assert (worst.value, worst.note) == (original["hr@10", FORGET, beam].value, "exposed")


@pytest.mark.parametrize("rule", ["blocked", "ignored", "both"])
def test_a_filter_is_exposed_as_the_original(planted: Planted, original: Values, rule: str) -> None:
    rules = ServingRules(
        blocked=concept() if rule != "ignored" else None, ignored=concept() if rule != "blocked" else None
    )
    found = measured(planted, planted.original.with_serving(rules))
    if rule != "ignored":
        assert found["hr@10", FORGET, 10].value == 0.0
    same_to_the_bit(found, original)
    assert found["worst-case.hr@10", FORGET, 10].value == original["hr@10", FORGET, 10].value


def test_a_model_that_hides_nothing_is_not_decoded_again(planted: Planted, original: Values) -> None:
    """The original, and ``retrain``, which has the same IDs and no rule: exposed is served, exactly."""
    same_to_the_bit(original, original)
    assert original["worst-case.hr@10", FORGET, 10].value == original["hr@10", FORGET, 10].value
    assert original["worst-case.hr@10", FORGET, 10].note is None
    retrained = planted.original.clone()
    assert exposed(retrained, planted.table) is retrained
    ranker = Answering(lambda histories, k, beam: lists([[3, 1]] * len(histories), k), table([[0]] * 20))
    task = small_split(20, examples([[9]], [3]), examples([[9]], [12]), concept=[3])
    evaluated(small_context(ranker, task, original=ranker.sids))
    assert len(ranker.calls) == 4, "two groups at two beams"


def test_the_worst_case_is_the_larger_of_two_means_and_says_which() -> None:
    def served(histories, k, beam):  # type: ignore[no-untyped-def]
        return lists([[3]] * len(histories), k)

    own, original = table([[1]] * 20, version=1), table([[0]] * 20)
    task = small_split(20, examples([[9], [9]], [3, 4]), examples([[9]], [12]), concept=[3, 4])
    values = {(v.metric, v.group, v.beam): v for v in evaluated(small_context(Answering(served, own), task)).values}
    assert values["worst-case.hr@10", FORGET, 10].value is None, "without an original table nothing is known"
    assert "not decoded" in str(values["worst-case.hr@10", FORGET, 10].note)
    same = evaluated(small_context(Answering(served, own), task, original=original)).values
    assert {(v.metric, v.group, v.beam): v.value for v in same}["worst-case.hr@10", FORGET, 10] == 0.5

    class Forgetful(Answering):
        """Knows nothing in the original IDs, as a model may that has learned its new ones."""

        def with_sids(self, table: SidTable) -> Forgetful:
            return Forgetful(lambda histories, k, beam: lists([[]] * len(histories), k), table)

    values = {
        (v.metric, v.group, v.beam): v
        for v in evaluated(small_context(Forgetful(served, own), task, original=original)).values
    }
    worst = values["worst-case.hr@10", FORGET, 10]
    assert (worst.value, worst.note, values["exposed.hr@10", FORGET, 10].value) == (0.5, "as served", 0.0)


def test_a_model_that_cannot_be_looked_into_is_not_said_to_have_forgotten() -> None:
    """Codes of other sizes, whatever version they claim; only ``retrain-full`` is exposed in IDs of its own."""
    answers = lambda histories, k, beam: lists([[5]] * len(histories), k)  # noqa: E731
    task = small_split(20, examples([[9]], [3]), examples([[9]], [12]), concept=[3])
    other = Answering(answers, table([[0]] * 20, size=9))
    for own_tokenizer, wanted in ((False, None), (True, 0.0)):
        setting = replace(small_context(other, task, original=table([[0]] * 20)), own_tokenizer=own_tokenizer)
        values = {(v.metric, v.group, v.beam): v.value for v in evaluated(setting).values}
        assert values["exposed.hr@10", FORGET, 10] == wanted
        assert values["worst-case.hr@10", FORGET, 10] == wanted
    same_version = Answering(answers, table([[1]] * 20))
    found = exposed(same_version, table([[0]] * 20))
    assert found is not None
    assert found.sids.codes.max() == 0, "moved IDs are seen by their codes, not by what the table says of itself"


def test_a_ranker_without_ids_has_nothing_to_hide() -> None:
    ranker = PlantedRanker(lambda histories, k, beam: lists([[3]] * len(histories), k))
    task = small_split(20, examples([[9]], [3]), examples([[9]], [12]), concept=[3])
    values = {(v.metric, v.group, v.beam): v.value for v in evaluated(small_context(ranker, task)).values}
    assert values["exposed.hr@10", FORGET, 10] == values["worst-case.hr@10", FORGET, 10] == 1.0
