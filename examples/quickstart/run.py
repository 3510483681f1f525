"""All steps of ALBERT on text that is already on this machine, in about eight minutes on two cores.

Vocabulary, pre-training data, pre-training, fine-tuning, evaluation, SavedModel, prediction: each step is
a command of the README, printed before it runs. Complete steps are kept, so a stopped run resumes.

Usage:
    python -m examples.quickstart.run [--output_dir=quickstart_output]
"""

import argparse
import csv
import dataclasses
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from sklearn.base import ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.pipeline import make_pipeline

ROOT = pathlib.Path(__file__).resolve().parents[2]

MODEL = {
    "vocab_size": 4000,
    "embedding_size": 128,
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 512,
    "max_position_embeddings": 128,
    # 0.02 is for a width of 768; the scale that keeps sums alike grows with 1 / sqrt(width).
    "initializer_range": 0.05,
}
# Of pre-training. Many short sequences leave the plateau of the masked-LM loss long before few long ones.
MAX_SEQ_LENGTH = 32
# A short pre-training learns more if it predicts more than the paper's 15 % of the pieces.
MASKED_LM_PROB = 0.4
MAX_PREDICTIONS_PER_SEQ = 13
FINE_TUNING_MAX_SEQ_LENGTH = 64
TEXTS_TO_PREDICT = 3


@dataclasses.dataclass(frozen=True)
class Step:
    """One command of the road.

    Attributes:
        title: a sentence about the step.
        script: the script, relative to the repository.
        flags: its flags.
        product: the file or folder that exists when the step is complete.
    """

    title: str
    script: str
    flags: dict[str, object]
    product: pathlib.Path

    def run(self) -> None:
        """Runs the command, unless its product is there already."""
        print(f"\n=== {self.title}", flush=True)
        if self.product.exists():
            print(f"complete already: {self.product}")
            return
        arguments = [_flag(name, value) for name, value in self.flags.items()]
        print("$", shlex.join(["python", self.script, *arguments]), flush=True)
        # Ctrl-C reaches the script as well. Wait for it to end, and report its exit code.
        before = signal.signal(signal.SIGINT, lambda *_: None)
        result = subprocess.run([sys.executable, self.script, *arguments], cwd=ROOT, check=False)
        signal.signal(signal.SIGINT, before)
        if result.returncode:
            sys.exit(f"quickstart: error: {self.script} ended with exit code {result.returncode}")


def _flag(name: str, value: object) -> str:
    return f"--{name}" if value is True else f"--{name}={value}"


def make_steps(out: pathlib.Path) -> list[Step]:
    """Returns the road from text to served model, below the folder `out`."""
    corpus, records = out / "corpus", out / "records"
    model = {"albert_config_file": out / "albert_config.json"}
    vocabulary = {"spm_model_file": out / "vocabulary.model"}
    sizes = {
        "max_seq_length": MAX_SEQ_LENGTH,
        "max_predictions_per_seq": MAX_PREDICTIONS_PER_SEQ,
    }
    data = {**sizes, "masked_lm_prob": MASKED_LM_PROB}
    fine_tuning = {
        "task_name": "tsv",
        "train_file": corpus / "train.tsv",
        "dev_file": corpus / "dev.tsv",
        "test_file": corpus / "test.tsv",
        **model,
        **vocabulary,
        "max_seq_length": FINE_TUNING_MAX_SEQ_LENGTH,
        "do_train": True,
        "do_eval": True,
        "do_predict": True,
        "train_batch_size": 32,
        "learning_rate": 3e-4,
        "num_train_epochs": 4,
        "dropout": 0.1,
        "classifier_dropout": 0.3,
        "save_checkpoints_steps": 200,
    }
    return [
        Step(
            "Text: docstrings and Python's documentation",
            "examples/quickstart/make_corpus.py",
            {"output_dir": corpus},
            corpus / "stats.json",
        ),
        Step(
            "Vocabulary and pre-training data",
            "create_pretraining_data.py",
            {
                "input_file": corpus / "corpus.txt",
                "output_file": records / "train.tfrecord",
                "train_vocab": True,
                "vocab_size": MODEL["vocab_size"],
                **vocabulary,
                **data,
                "dupe_factor": 3,
            },
            records / "train.tfrecord",
        ),
        Step(
            "Held-out data",
            "create_pretraining_data.py",
            {
                "input_file": corpus / "corpus_dev.txt",
                "output_file": records / "dev.tfrecord",
                **vocabulary,
                **data,
                "dupe_factor": 1,
            },
            records / "dev.tfrecord",
        ),
        Step(
            "Pre-training",
            "run_pretraining.py",
            {
                **model,
                "input_file": records / "train.tfrecord",
                "eval_input_file": records / "dev.tfrecord",
                "output_dir": out / "pretrained",
                **sizes,
                "do_train": True,
                "do_eval": True,
                "train_batch_size": 64,
                "max_eval_steps": 20,
                "learning_rate": 0.008,
                "num_train_steps": 2500,
                "warmup_steps": 250,
                "save_checkpoints_steps": 500,
            },
            out / "pretrained" / "eval_results.json",
        ),
        Step(
            "Fine-tuning from scratch, to compare with",
            "run_classifier.py",
            {**fine_tuning, "output_dir": out / "from_scratch"},
            out / "from_scratch" / "eval_results.json",
        ),
        Step(
            "Fine-tuning the pre-trained model, and exporting it",
            "run_classifier.py",
            {
                **fine_tuning,
                "init_checkpoint": out / "pretrained" / "best",
                "output_dir": out / "fine_tuned",
                "export_dir": out / "exported",
            },
            out / "exported" / "text" / "1",
        ),
    ]


def predict(saved_model: pathlib.Path, texts: list[str]) -> list[str]:
    """Returns a line of prediction for each text, made by a fresh process from raw text."""
    command = [sys.executable, "examples/quickstart/predict.py", str(saved_model), *texts]
    result = subprocess.run(
        command,
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    return result.stdout.splitlines()


def read_reports(directory: pathlib.Path, split: str) -> list[dict]:
    """Returns the reports of a run's `metrics.jsonl` on one split."""
    lines = (directory / "metrics.jsonl").read_text().splitlines()
    return [report for report in map(json.loads, lines) if report["split"] == split]


def draw_curves(out: pathlib.Path) -> pathlib.Path:
    """Draws losses and accuracies of the three runs; returns the picture."""
    panels = [
        ("Masked-LM loss (nats)", "masked_lm_loss", {"pretrained": ("train", "eval")}),
        ("Sentence-order accuracy", "sentence_order_accuracy", {"pretrained": ("train", "eval")}),
        ("Dev accuracy", "accuracy", {"fine_tuned": ("eval",), "from_scratch": ("eval",)}),
    ]
    figure, axes = pyplot.subplots(1, len(panels), figsize=(15, 4), layout="constrained")
    for axis, (title, metric, runs) in zip(axes, panels, strict=True):
        for run, splits in runs.items():
            for split in splits:
                reports = read_reports(out / run, split)
                axis.plot(
                    [report["step"] for report in reports],
                    [report[metric] for report in reports],
                    label=f"{run}, {split}",
                    marker=".",
                )
        axis.set(title=title, xlabel="updates")
        axis.legend()
        axis.grid(alpha=0.3)
    path = out / "learning_curves.png"
    figure.savefig(path, dpi=110)
    return path


def summarize(out: pathlib.Path) -> list[tuple[str, str]]:
    """Returns the rows of the table at the end."""
    stats = json.loads((out / "corpus" / "stats.json").read_text())
    evaluations = read_reports(out / "pretrained", "eval")
    final = json.loads((out / "pretrained" / "eval_results.json").read_text())
    texts, labels = _read_splits(out / "corpus")
    accuracies = {
        "pre-trained": _read_accuracies(out / "fine_tuned", labels),
        "from scratch": _read_accuracies(out / "from_scratch", labels),
        "TF-IDF and logistic regression": _score(
            make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=1000)), texts, labels
        ),
        "majority class": _score(DummyClassifier(), texts, labels),
    }
    return [
        ("corpus", _describe(stats)),
        ("vocabulary", f"{MODEL['vocab_size']:,} pieces"),
        ("parameters of the encoder", f"{_count_parameters(out):,}"),
        (
            "masked-LM loss, held out",
            f"{evaluations[0]['masked_lm_loss']:.2f} nats before, "
            f"{final['masked_lm_loss']:.2f} after pre-training",
        ),
        ("sentence-order accuracy", f"{final['sentence_order_accuracy']:.1%}"),
        *(
            (f"accuracy, {name}", f"{dev:.1%} dev, {test:.1%} test")
            for name, (dev, test) in accuracies.items()
        ),
        ("SavedModel, raw text", str(out / "exported" / "text" / "1")),
        ("SavedModel, ids", str(out / "exported" / "ids" / "1")),
        ("learning curves", str(draw_curves(out))),
    ]


def _describe(stats: dict) -> str:
    counts = stats["corpus"]
    return f"{counts['documents']:,} documents, {counts['words']:,} words"


def _count_parameters(out: pathlib.Path) -> int:
    # Imported here because skipping finished steps needs no TensorFlow.
    from albert_tf import command_line

    with command_line.quiet_start():
        from albert_tf import AlbertConfig, AlbertEncoder

    return AlbertEncoder(
        AlbertConfig.from_json_file(str(out / "albert_config.json"))
    ).count_params()


def _read_splits(corpus: pathlib.Path) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Returns the texts and the labels of each split of the task."""
    rows = {split: _read_rows(corpus / f"{split}.tsv") for split in ("train", "dev", "test")}
    texts, labels = (
        {split: [row[column] for row in of_split] for split, of_split in rows.items()}
        for column in ("text_a", "label")
    )
    return texts, labels


def _read_accuracies(run: pathlib.Path, labels: dict[str, list[str]]) -> tuple[float, float]:
    """Returns the accuracies of a fine-tuned model on dev and test."""
    dev = json.loads((run / "eval_results.json").read_text())["accuracy"]
    predictions = [row["prediction"] for row in _read_rows(run / "test_results.tsv")]
    return dev, accuracy_score(labels["test"], predictions)


def _score(
    classifier: ClassifierMixin, texts: dict[str, list[str]], labels: dict[str, list[str]]
) -> tuple[float, float]:
    """Fits a classifier of scikit-learn; returns its accuracies on dev and test."""
    classifier.fit(texts["train"], labels["train"])
    dev, test = (classifier.score(texts[split], labels[split]) for split in ("dev", "test"))
    return dev, test


def _read_rows(path: pathlib.Path) -> list[dict]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def _from_root(path: pathlib.Path) -> pathlib.Path:
    """Returns the name of the user's path for commands that run in `ROOT`, short where it can be."""
    path = path.resolve()
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def main() -> None:
    """Runs the steps and prints the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--output_dir", type=pathlib.Path, default=pathlib.Path("quickstart_output")
    )
    out = _from_root(parser.parse_args().output_dir)
    os.chdir(ROOT)
    (out / "records").mkdir(parents=True, exist_ok=True)
    (out / "albert_config.json").write_text(json.dumps(MODEL, indent=2) + "\n")
    for step in make_steps(out):
        step.run()

    print("\n=== Result")
    table = summarize(out)
    width = max(len(name) for name, _ in table)
    for name, value in table:
        print(f"{name:<{width}}  {value}")
    print("\nThree test texts, predicted by a process that knows only the SavedModel:")
    rows = _read_rows(out / "corpus" / "test.tsv")[:TEXTS_TO_PREDICT]
    lines = predict(out / "exported" / "text" / "1", [row["text_a"] for row in rows])
    for row, line in zip(rows, lines, strict=True):
        print(f"  {line}  (true: {row['label']})  {row['text_a'][:70]}")


if __name__ == "__main__":
    main()
