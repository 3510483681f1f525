"""The numbers of predictions: one interpretation of what a model returns, in Python and exported."""

import dataclasses
import typing

import numpy as np
import pytest
import tensorflow as tf
from sklearn import metrics

from albert_tf.data.fine_tuning.examples import Example
from albert_tf.data.fine_tuning.squad_questions import Answer, SquadExample
from albert_tf.evaluation.metrics import THRESHOLD_METRICS
from albert_tf.evaluation.squad_answers import RankedAnswers, ScoredAnswer
from albert_tf.kinds import Classification, MultiLabel, MultipleChoice, QuestionAnswering
from albert_tf.options.kinds import ThresholdMetric
from tests.export.kinds import KINDS, LABELS, OF_NAMES, make_inputs, make_model
from tests.helpers import refused


@pytest.mark.parametrize("name", KINDS)
def test_what_an_exported_model_returns_holds_what_the_model_returns_as_it_is(name):
    kind, model = OF_NAMES[name], make_model(name)
    returned = model(make_inputs(name))
    read = kind.read_outputs(kind.outputs(returned))
    if isinstance(returned, dict):
        returned = {part: returned[part] for part in read}
    tf.nest.map_structure(np.testing.assert_array_equal, read, returned)


def test_metrics_are_of_the_labels_that_are_predicted():
    kind = Classification(labels=LABELS)
    # In float32 the probabilities of these logits are equal.
    logits = np.array([[0.0, 1e-9, 0.0]], np.float32)
    (label,) = kind.result([], logits).label
    assert kind.measure([Example("", "x", label=label)], logits).metrics["accuracy"] == 1.0


def test_a_threshold_is_that_of_two_labels():
    with refused("^threshold_metric=f1: expected two labels; received 3$"):
        Classification(labels=LABELS, threshold_metric="f1")
    with refused("^threshold_metric=f1: the choices of multiple choice are no classes$"):
        MultipleChoice(threshold_metric="f1")
    assert {*typing.get_args(ThresholdMetric)} == {"none", *THRESHOLD_METRICS}


def test_metrics_that_only_the_user_selects_are_of_the_probabilities():
    logits = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    examples = [Example("", "x", label=LABELS[number % 3]) for number in range(40)]
    kind = Classification(labels=LABELS, metrics=("roc_auc", "accuracy"))
    values = kind.measure(examples, logits).metrics
    ids = np.arange(40) % 3
    probabilities = kind.result(examples, logits).probabilities.astype(float)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    expected = metrics.roc_auc_score(ids, probabilities, multi_class="ovr")
    assert values["roc_auc"] == pytest.approx(expected, abs=1e-6)
    assert values["loss"] == pytest.approx(metrics.log_loss(ids, probabilities), rel=1e-5)
    assert "roc_auc" not in Classification(labels=LABELS).measure(examples, logits).metrics
    sets = [Example("", "x", label="|".join(LABELS[: number % 4])) for number in range(40)]
    kind = MultiLabel(labels=LABELS, metrics=("loss", "roc_auc"))
    truth = np.arange(40)[:, None] % 4 > np.arange(3)
    area = metrics.roc_auc_score(truth, kind.result(sets, logits).probabilities)
    assert kind.measure(sets, logits).metrics["roc_auc"] == pytest.approx(area)


@pytest.mark.parametrize(("rules", "f1"), [("squad", 0.0), ("zh", 200 / 3), ("ja", 200 / 3)])
def test_answers_are_measured_by_their_rules(rules, f1):
    examples = [SquadExample("1", "?", "北京大学。", (Answer("北京大学", 0),))]
    found = RankedAnswers({"1": [ScoredAnswer("北京。", 1, 0, 0)]}, {"1": 0.0})
    kind = QuestionAnswering(answer_rules=rules, version_2_with_negative=False)
    assert kind.measure(examples, found).metrics["f1"] == pytest.approx(f1)


def test_a_question_without_an_answer_is_scored_as_it_is_learnt(capsys):
    row = {"question": "who?", "context": "Ada wrote it.", "answer_text": "Ada", "answer_start": 0}
    rows = [row | {"id": "plausible", "is_impossible": True}, row | {"id": "right"}]
    kind = QuestionAnswering(version_2_with_negative=True, null_score_diff_threshold=0.0)
    texts = {"plausible": "", "right": "Ada"}
    found = RankedAnswers(
        {name: [ScoredAnswer(text, 1, 0, 0)] for name, text in texts.items()},
        dict.fromkeys(texts, 0.0),
    )
    for split in ("train", "dev"):
        examples = kind.read(rows, split)
        metrics = kind.measure(examples, found).metrics
        assert (metrics["exact"], metrics["NoAns_total"], metrics["HasAns_total"]) == (100, 1, 1)
        assert examples[0].found_answer is None
        said = (
            f"{split}: answers to questions that are marked is_impossible: 1, skipped (plausible)"
        )
        assert said in capsys.readouterr().err


@dataclasses.dataclass(frozen=True, kw_only=True)
class Doubtful(Classification):
    """Its probabilities are those of half of the logits."""

    def interpretation(self, logits):
        return super().interpretation(logits / 2)


def test_a_change_of_the_interpretation_reaches_every_road_once():
    kind, model = Doubtful(labels=LABELS), make_model("classifier")
    returned = model(make_inputs("classifier"))
    expected = tf.nn.softmax(returned / 2).numpy()
    exported = kind.outputs(returned)
    loaded = kind.read_outputs(exported).numpy()
    for received in (
        exported["probabilities"],
        kind.result([], returned.numpy()).probabilities,
        kind.result([], loaded).probabilities,
        kind.outputs(loaded)["probabilities"],
    ):
        np.testing.assert_allclose(received, expected, rtol=1e-6)
