"""`run_classifier.py --task_name=embedding`, from files of pairs to every form of the model."""

import json

import numpy as np
import pytest
from scipy import stats

import albert_tf
from albert_tf.errors import InputError
from albert_tf.tasks import embedding
from albert_tf.tasks.fine_tuning.classification import ClassificationOptions, run
from tests.kinds.samples import pair_rows, write_table
from tests.tasks.animals import make_options, read_table


def write(path, count, seed, scored=False):
    """Writes pairs of the same topic or, with scores, of any two topics."""
    rows = pair_rows(np.random.default_rng(seed), "dev" if scored else "train", count)
    return write_table(path, ("label", "text_a", "text_b")[not scored :], rows)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    return {
        "train_file": write(folder / "train.tsv", 300, 1),
        "dev_file": write(folder / "dev.tsv", 100, 2, scored=True),
        "test_file": write(folder / "test.tsv", 20, 3),
    }


@pytest.fixture(scope="module")
def embed_options(data, files):
    """Returns the options of a short training."""

    def make(output_dir, **changes):
        asked = {**files, "task_name": "embedding", "learning_rate": 1e-3, **changes}
        return make_options(data, output_dir, **asked)

    return make


@pytest.fixture(scope="module")
def embedder(embed_options, tmp_path_factory):
    """Metrics, trained folder and exported models."""
    folder = tmp_path_factory.mktemp("embedder")
    options = embed_options(
        folder / "out",
        pooling="weighted_layers",
        do_predict=True,
        export_dir=str(folder / "exported"),
    )
    return run(options), folder / "out", folder / "exported"


def column(rows, name):
    return np.array([float(row[name]) for row in rows])


def test_learns_and_scipy_agrees(embedder, files):
    metrics, out, _ = embedder
    assert metrics["spearman"] > 0.6
    assert set(metrics) == {"spearman", "pearson"}
    rows = read_table(out / "eval_predictions.tsv")
    sides = column(rows, "label"), column(rows, "prediction")
    for name, correlation in (("spearman", stats.spearmanr), ("pearson", stats.pearsonr)):
        assert correlation(*sides).statistic == pytest.approx(metrics[name], abs=1e-5)
    assert [row["label"] for row in rows] == [row["label"] for row in read_table(files["dev_file"])]
    reports = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    losses = [report["loss"] for report in reports if report["split"] == "train"]
    assert losses[-1] < 0.7 * np.log(16)  # that of guessing


def test_embed_texts_reads_the_trained_folder(embedder, tmp_path):
    _, out, _ = embedder
    (tmp_path / "texts.txt").write_text("the old cat\na rose\n")
    output = tmp_path / "embeddings.npy"
    options = embedding.EmbeddingOptions(
        model=str(out), input_file=str(tmp_path / "texts.txt"), output_file=str(output)
    )
    embedding.run(options)
    model = albert_tf.load(out)
    np.testing.assert_array_equal(np.load(output), model.embed(["the old cat", "a rose"]))
    # Trained weights of layers, which other poolings do not have.
    weights = model.make_embedder().model.embedding_head.layer_weights
    assert np.ptp(weights) > 0
    assert not model.make_embedder(pooling="cls").model.embedding_head.weights


@pytest.mark.slow
def test_a_training_resumes_and_starts_another_one(embed_options, tmp_path):
    asked = {"save_checkpoints_steps": 1, "do_eval": False}
    run(embed_options(tmp_path / "out", num_train_steps=2, **asked))
    assert json.loads((tmp_path / "out" / "task.json").read_text())["pooling"] == "mean"
    run(embed_options(tmp_path / "out", num_train_steps=3, **asked))
    # From its weights, another one starts with equal weights of all layers.
    more = {**asked, "init_checkpoint": str(tmp_path / "out" / "best"), "num_train_steps": 1}
    run(embed_options(tmp_path / "more", **more, pooling="weighted_layers"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dev_file": None}, "--task_name=embedding: expected --dev_file; received none"),
        ({"temperature": 0.0}, "temperature=0.0: expected at least 0.0001"),
        (
            {"task_name": "tsv", "pooling": "cls"},
            "--pooling=cls: .* has no such option; it is one of embedding",
        ),
        (
            {"train_batch_size": 1},
            "--train_batch_size=1: expected two pairs or more for each micro",
        ),
        ({"accumulate_steps": 16}, "--train_batch_size=16: expected two pairs or more for each mi"),
    ],
)
def test_contradictory_flags_are_refused(embed_options, tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        run(embed_options(tmp_path / "out", **changes))


def test_the_folder_of_another_pooling_or_task_is_refused(embed_options, embedder, trained):
    _, out, exported = embedder
    message = r"--output_dir=.*: holds the checkpoints of a run with pooling weighted_layers; --poo"
    with pytest.raises(InputError, match=message):
        run(embed_options(out, pooling="cls"))
    place = {"exported_model": str(exported / "ids" / "1"), "predict_file": "-"}
    with pytest.raises(
        InputError, match=r"--exported_model=.*: holds the checkpoints of a run with pooling w"
    ):
        run(ClassificationOptions(pooling="mean", **place))
    with pytest.raises(InputError, match=r"holds a model of another task: task_name tsv, but this"):
        run(embed_options(trained))
