"""A small training of each kind, and how its answers look on each road."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.data.squad_file import questions_of
from tests.tasks import animals, names, plants
from tests.tasks.animals import ANIMALS, LABELS, PLANTS, class_rows, mixed, write_table

TOPICS = [*ANIMALS, *PLANTS]


def score_rows(rng, split, count):
    """The score is the number of animals in the text: none or three."""
    for _ in range(count):
        animals_ = 3 * rng.integers(2)
        yield animals_, mixed(rng, *rng.choice(ANIMALS, animals_)), mixed(rng)


def set_rows(rng, split, count):
    """The labels are those of which the text has a word."""
    for _ in range(count):
        chosen = [name for name in LABELS if rng.random() < 0.6] or ["plant"]
        yield "|".join(chosen), mixed(rng, *(rng.choice(LABELS[name]) for name in chosen))


def choice_rows(rng, split, count):
    """The answer is the only animal among the choices."""
    for _ in range(count):
        right, choices = rng.integers(3), list(rng.choice(PLANTS, 3))
        choices[right] = rng.choice(ANIMALS)
        yield "ABC"[right], "one sees", "the big _ ?", *choices


def pair_rows(rng, split, count):
    """Pairs have the same topic; those of the dev set also different ones, with a low score."""
    for _ in range(count):
        one, other = rng.choice(TOPICS, 2)
        if rng.random() < 0.5:
            other = one
        score = [] if split == "train" else [float(one == other)]
        yield *score, mixed(rng, one), mixed(rng, one if split == "train" else other)


@dataclasses.dataclass(frozen=True)
class Sample:
    """A training of a kind."""

    least: float  # what the first metric reaches after it
    result: Callable[[Any], list]  # what `predict` returns -> something of each example
    answer: Callable[[list[str]], Any]  # fields of an answered line -> the same of its example
    rows: Callable | None = None  # yields the rows of a split; None if the module writes them
    header: tuple[str, ...] = ("label", "text_a", "text_b")  # of these rows
    options: dict[str, Any] = dataclasses.field(default_factory=dict)  # further ones
    module: Any = animals  # writes vocabulary and config, and makes the options

    def make_options(self, folder, **changes):
        """Writes the files, and returns the options of a training that predicts and exports."""
        self.module.write_data(folder)
        values = {"num_train_steps": 100, "save_checkpoints_steps": 50, **self.options}
        values["train_batch_size"] = None  # is chosen
        for split, seed, count in (("train", 1, 400), ("dev", 2, 50)) if self.rows else ():
            header = self.header[1:] if self.no_label(split) else self.header
            rows = self.rows(np.random.default_rng(seed), split, count)
            values[f"{split}_file"] = write_table(folder / f"{split}.tsv", header, rows)
        if self.rows:
            values["test_file"] = values["dev_file"]
            values["learning_rate"] = 1e-3
        values["export_dir"] = str(folder / "exported")
        return self.module.make_options(folder, folder / "out", **values, **changes)

    def no_label(self, split):
        return split == "train" and self.rows is pair_rows

    def texts(self, folder):
        """Returns the arguments of `predict` of a few dev examples: a list for each."""
        if self.module is names:
            lines = (folder / "out" / "eval_predictions.jsonl").read_text().splitlines()[:8]
            return [[json.loads(line)["text"] for line in lines]]
        if self.module is plants:
            asked = questions_of(folder / "dev-v2.json")[:8]
            return [[question["question"] for question, _ in asked], [text for _, text in asked]]
        table = (folder / "dev.tsv").read_text().splitlines()[1:9]
        columns = [list(column) for column in zip(*(row.split("\t") for row in table), strict=True)]
        if self.rows is choice_rows:
            return [*columns[1:3], [list(row) for row in zip(*columns[3:], strict=True)]]
        return columns[1:2] if self.rows is pair_rows else columns[1:]


_LABEL = {
    "result": lambda result: list(zip(result.label, result.probabilities, strict=True)),
    "answer": lambda fields: (fields[0], np.array(fields[1:], float)),
}

SAMPLES = {
    "classification": Sample(0.8, rows=class_rows, **_LABEL),
    "regression": Sample(
        0.7,
        rows=score_rows,
        result=lambda result: list(result.score),
        answer=lambda fields: float(fields[0]),
        options={"task_name": "regression"},
    ),
    "multi_label": Sample(
        0.85,
        rows=set_rows,
        header=("label", "text_a"),
        result=lambda result: list(zip(result.labels, result.probabilities, strict=True)),
        answer=lambda row: (tuple(filter(None, row[0].split("|"))), np.array(row[1:], float)),
        options={"task_name": "multi_label"},
    ),
    "multiple_choice": Sample(
        0.8,
        rows=choice_rows,
        header=("label", "text_a", "text_b", "choice_a", "choice_b", "choice_c"),
        **_LABEL,
        options={"max_qa_length": 12},
    ),
    "token_classification": Sample(
        0.8,
        result=lambda result: [[tuple(span) for span in spans] for spans in result],
        answer=lambda fields: [
            (span["start"], span["end"], span["label"], span["score"])
            for span in json.loads(fields[0])
        ],
        module=names,
    ),
    "embedding": Sample(
        0.6,
        rows=pair_rows,
        result=list,
        answer=lambda fields: np.array(json.loads(fields[0])),
        options={"task_name": "embedding"},
    ),
    "question_answering": Sample(
        60.0,
        result=lambda result: list(zip(result.answer, result.start, result.end, strict=True)),
        answer=lambda fields: (fields[0],),
        module=plants,
        options={"version": "v2", "num_train_steps": 80},
    ),
}
