"""`run_classifier.py --task_name=embedding`, from files of pairs to every form of the model."""

import csv
import json

import numpy as np
import pytest
from scipy import stats

import albert_tf
from albert_tf.errors import InputError
from albert_tf.tasks import embedding
from albert_tf.tasks.fine_tuning.classification import ClassificationOptions, run
from tests.tasks.animals import ANIMALS, OTHERS, PLANTS, make_options

TOPICS = [*ANIMALS, *PLANTS]


def write_texts(path, count, seed, columns=("text_a", "text_b")):
    """Writes texts with a topic. Pairs without a label share it, others in about half of the rows."""
    rng = np.random.default_rng(seed)
    lines = ["\t".join(columns)]
    for _ in range(count):
        one, other = rng.choice(TOPICS, 2, replace=False)
        is_same = "label" not in columns or rng.random() < 0.5
        values = {"label": f"{4.0 * is_same + rng.random():.3f}"}
        for name, topic in (("text_a", one), ("text_b", one if is_same else other)):
            words = [*rng.choice(OTHERS, rng.integers(2, 8)), topic]
            rng.shuffle(words)
            values[name] = " ".join(words)
        lines.append("\t".join(values[name] for name in columns))
    path.write_text("\n".join(lines) + "\n")
    return str(path)


SCORED = ("label", "text_a", "text_b")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    return {
        "train_file": write_texts(folder / "train.tsv", 300, 1),
        "dev_file": write_texts(folder / "dev.tsv", 100, 2, SCORED),
        "test_file": write_texts(folder / "test.tsv", 20, 3),
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


def read_table(path):
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def column(rows, name):
    return np.array([float(row[name]) for row in rows])


def cosines_of(rows, embed):
    sides = (embed([row[name] for row in rows]) for name in ("text_a", "text_b"))
    return np.multiply(*sides).sum(axis=1)


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
        ({"train_file": "gone.tsv"}, "--train_file: no file 'gone.tsv'"),
        ({"temperature": 0.0}, "temperature=0.0: expected at least 0.0001"),
        ({"label_type": "float"}, "--label_type=float: expected --task_name=tsv"),
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
