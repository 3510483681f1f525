"""All steps of ALBERT on text that is already on this machine, in nine to twenty minutes on two cores.

First pre-training in small: text, vocabulary, records, and a few minutes in which the losses fall. Then
fine-tuning: the shipped model, pre-trained for hours, learns to find slips in sentences, next to the same
model without pre-training and to a classifier that counts words; its SavedModel answers in a new process.
Each step is a command, printed before it runs. Complete steps are kept, so a stopped run resumes.

Usage:
    python -m examples.quickstart.run [--output_dir=quickstart_output]
"""

import argparse
import csv
import dataclasses
import json
import math
import os
import pathlib
import shlex
import signal
import subprocess
import sys

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import albert_tf
from albert_tf.processor import has_bfloat16

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
        **{f"{split}_file": corpus / f"{split}.csv" for split in ("train", "dev", "test")},
        "max_seq_length": 64,
        "do_train": True,
        "do_eval": True,
        "do_predict": True,
        "train_batch_size": 32,
        "learning_rate": 1e-4,
        "save_checkpoints_steps": 200,
        "mixed_precision": "mixed_bfloat16" if has_bfloat16() else "float32",
    }
    shipped = pathlib.Path(albert_tf.__file__).parent / "pretrained" / "small_en"
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
                "num_train_steps": 1000,
                "warmup_steps": 100,
                "save_checkpoints_steps": 200,
            },
            out / "pretrained" / "eval_results.json",
        ),
        Step(
            "Fine-tuning small_en, which comes with albert_tf, and exporting it",
            "run_classifier.py",
            {
                **fine_tuning,
                "num_train_epochs": 2,
                "init_checkpoint": "small_en",
                "output_dir": out / "fine_tuned",
                "export_dir": out / "exported",
            },
            out / "exported" / "text" / "1",
        ),
        Step(
            "The same without pre-training, to compare with",
            "run_classifier.py",
            {
                **fine_tuning,
                "num_train_epochs": 3,  # after two it still guesses
                "albert_config_file": shipped / "config.json",
                "spm_model_file": shipped / "spiece.model",
                "output_dir": out / "from_scratch",
            },
            out / "from_scratch" / "eval_results.json",
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
    test = _read_rows(out / "corpus" / "test.csv", ",")
    accuracies = {
        "small_en": _test_accuracy(out / "fine_tuned", test),
        "without pre-training": _test_accuracy(out / "from_scratch", test),
        "TF-IDF and logistic regression": _score_tf_idf(out / "corpus", test),
    }
    return [
        ("corpus", _describe(stats)),
        ("vocabulary", f"{MODEL['vocab_size']:,} pieces"),
        (
            "masked-LM loss, held out",
            f"{evaluations[0]['masked_lm_loss']:.2f} nats before, "
            f"{final['masked_lm_loss']:.2f} after pre-training",
        ),
        ("sentence-order accuracy", f"{final['sentence_order_accuracy']:.1%}"),
        ("sentences to learn slips from", f"{sum(stats['train'].values()):,}"),
        *(
            (f"slips found, {name}", f"{accuracy:.1%} ± {_standard_error(accuracy, len(test)):.1%}")
            for name, accuracy in accuracies.items()
        ),
        ("SavedModel, raw text", str(out / "exported" / "text" / "1")),
        ("SavedModel, ids", str(out / "exported" / "ids" / "1")),
        ("learning curves", str(draw_curves(out))),
    ]


def _describe(stats: dict) -> str:
    counts = stats["corpus"]
    return f"{counts['documents']:,} documents, {counts['words']:,} words"


def _test_accuracy(run: pathlib.Path, test: list[dict]) -> float:
    predictions = _read_rows(run / "test_results.tsv", "\t")
    pairs = zip(predictions, test, strict=True)
    return sum(found["prediction"] == row["label"] for found, row in pairs) / len(test)


def _standard_error(accuracy: float, count: int) -> float:
    """Returns the standard error of a share of `count` independent rows."""
    return math.sqrt(accuracy * (1 - accuracy) / count)


def _score_tf_idf(corpus: pathlib.Path, test: list[dict]) -> float:
    """Returns the accuracy of counting words and pairs of words, of one letter, too."""
    train = _read_rows(corpus / "train.csv", ",")
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\w+")
    classifier = make_pipeline(vectorizer, LogisticRegression(max_iter=1000))
    classifier.fit(*([row[column] for row in train] for column in ("text", "label")))
    return classifier.score(*([row[column] for row in test] for column in ("text", "label")))


def _read_rows(path: pathlib.Path, delimiter: str) -> list[dict]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


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
    rows = _read_rows(out / "corpus" / "test.csv", ",")[:TEXTS_TO_PREDICT]
    lines = predict(out / "exported" / "text" / "1", [row["text"] for row in rows])
    for row, line in zip(rows, lines, strict=True):
        print(f"  {line}  (true: {row['label']})  {row['text']}")


if __name__ == "__main__":
    main()
