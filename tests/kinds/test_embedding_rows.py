"""What an embedder learns from pairs, pairs with scores and triplets, and the cosines of its pairs."""

import functools

import numpy as np
import pytest
from scipy import stats

import albert_tf
from albert_tf.kinds.registry import read_kind
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.fine_tuning.run import run
from tests.helpers import refused
from tests.kinds.samples import TOPICS
from tests.tasks.animals import mixed, training_of, write_model


def rows_of(form, count, seed=1):
    """Rows whose texts have the same topic; negatives, and texts of pairs with score 0, have another."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        one, other = rng.choice(TOPICS, 2, replace=False)
        row = {"text_a": mixed(rng, one), "text_b": mixed(rng, one)}
        if form == "triplets":
            yield {**row, "negative": mixed(rng, other)}
        elif form == "scored_pairs":
            score = rng.integers(2)
            yield {**row, "text_b": mixed(rng, one if score else other), "score": 5 * score}
        else:
            yield row


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """A folder with a vocabulary and the config of a tiny model."""
    folder = tmp_path_factory.mktemp("encoder")
    write_model(folder)
    return folder


def options_of(encoder, out, **changes):
    flags = {"learning_rate": 1e-3, "train_batch_size": 32, "num_train_steps": 100}
    flags |= {"max_seq_length": 16, "task_name": "embedding", "train_file": "train"}
    return FineTuningOptions(**{**training_of(encoder, out), **flags, **changes})


@pytest.fixture(scope="module")
def trained(encoder, tmp_path_factory):
    """A function from a form of rows to the folder and the metrics of a training on it."""

    @functools.cache
    def train(form):
        out = tmp_path_factory.mktemp(form)
        data = {"train": [*rows_of(form, 300)]}
        dev = {}
        if form == "triplets":  # the others have a dev set among their rows, or none
            data["dev"], dev = [*rows_of("scored_pairs", 60, seed=2)], {"dev_file": "dev"}
        return out, run(options_of(encoder, out, **dev), data)

    return train


@pytest.mark.parametrize("form", ["scored_pairs", "triplets"])
def test_cosines_learn_the_order_of_scores(form, trained, capsys):
    out, metrics = trained(form)
    assert metrics["spearman"] > 0.6
    assert read_kind(str(out / "best")).rows == form
    if form == "scored_pairs":
        assert len((out / "eval_predictions.tsv").read_text().splitlines()) == 1 + 30


def test_pairs_have_cosines(trained):
    model = albert_tf.load(trained("scored_pairs")[0])
    pairs = [*rows_of("scored_pairs", 40, seed=3)]
    first, second = ([pair[name] for pair in pairs] for name in ("text_a", "text_b"))
    cosines = model.predict(first, second)
    assert (cosines.shape, cosines.dtype) == ((40,), np.float32)
    embeddings = [model.predict(texts) for texts in (first, second)]
    np.testing.assert_allclose(cosines, (embeddings[0] * embeddings[1]).sum(axis=1), atol=1e-6)
    np.testing.assert_array_equal(embeddings[0], model.embed(first))
    answers = [answer["prediction"] for answer in model.predict_json(first, second)]
    np.testing.assert_array_equal(np.float32(answers), cosines)
    scores = [pair["score"] for pair in pairs]
    expected = stats.spearmanr(scores, cosines).statistic
    assert model.evaluate(pairs)["spearman"] == pytest.approx(expected, abs=1e-6)
    assert model.predict("a cat", "the old cat").shape == (1,)
    with refused("^expected as many of text_a and text_b; received 40 and 1$"):
        model.predict(first, "a cat")


def test_cosines_do_not_depend_on_the_length_of_embeddings(encoder, trained):
    model = albert_tf.load(trained("scored_pairs")[0])
    plain = model.make_embedder(normalize=False)
    texts = ["a cat", "one sees an oak", "cat"], ["the old cat", "under a rose", "a"]
    assert (np.linalg.norm(plain.embed(texts[0]), axis=1) > 1.01).all()
    np.testing.assert_allclose(plain.predict(*texts), model.predict(*texts), atol=1e-6)


def test_pairs_without_scores_are_trained_to_the_end(encoder, tmp_path):
    data = {"train": [*rows_of("pairs", 40)]}
    for asked in ({}, {"do_eval": False, "early_stopping_evaluations": 2}):
        flag = "early_stopping_evaluations" if asked else "do_eval"
        message = f"^--{flag}: train has no labels to evaluate on; expected --dev_file$"
        with refused(message, folder=tmp_path):
            run(options_of(encoder, tmp_path / "out", **asked), data)
    options = options_of(encoder, tmp_path / "out", do_eval=False, num_train_steps=2)
    assert run(options.with_evaluation(), data) == {}
    assert read_kind(str(tmp_path / "out" / "best")).rows == "pairs"


def test_few_pairs_with_scores_are_refused(encoder, tmp_path):
    with refused("^train: too few rows to evaluate on"):
        run(options_of(encoder, tmp_path / "out"), {"train": [*rows_of("scored_pairs", 4)]})


def test_dev_pairs_of_training_triplets_are_counted(encoder, tmp_path, capsys):
    train = [*rows_of("triplets", 40)]
    dev = [*rows_of("scored_pairs", 30, seed=2)]
    dev += [{"text_a": row["text_a"], "text_b": row["text_b"], "score": 5} for row in train[:3]]
    few = {"train_batch_size": 2, "accumulate_steps": 2}
    with refused("^--train_batch_size=2: expected 2 examples or more for each micro-batch"):
        run(
            options_of(encoder, tmp_path / "out", dev_file="dev", **few),
            {"train": train, "dev": dev},
        )
    said = capsys.readouterr().err
    assert "warning: 3 of 33 dev rows have the texts of a training row" in said
