"""The teacher of a run: its answers to the training texts, and how good it is on the dev set.

It answers once, before the training. The folder of the run keeps the answers and a note of whose they are
and what they answer, so a run that resumes needs neither the teacher nor its time.
"""

import dataclasses
import functools
import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf import files, folders
from albert_tf.checkpoints.hugging_face_reader import WEIGHTS_FILE
from albert_tf.checkpoints.stored_model import StoredModel
from albert_tf.errors import InputError, name_place
from albert_tf.kinds import Embedding, Kind
from albert_tf.kinds.taught import NOT_FINITE, TaughtKind
from albert_tf.kinds.taught_embeddings import of_length_one
from albert_tf.losses import TARGETS
from albert_tf.models.taught_embedder import TaughtEmbedder
from albert_tf.progress import SECONDS_WITHOUT_PROGRESS, Progress
from albert_tf.sources import find_model, is_path
from albert_tf.tasks.fine_tuning.data import RunData
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.fine_tuning.predictions import ExampleSet, predict_sets
from albert_tf.tasks.loaded import Loaded
from albert_tf.tasks.loading import load
from albert_tf.tasks.noted_options import note
from albert_tf.training import Trainer

# Below the output folder: the answers, and the note.
_ANSWERS, _NOTE = "teacher/answers.npy", "teacher/note.json"

# Rows of the training set that the map to the teacher's embeddings begins with: more are hardly better,
# see docs/measurements.md.
_PROJECTED_ROWS = 4096


class Teacher:
    """A teacher, which is loaded when it is needed.

    Args:
        name: what `--teacher` names.
        output_dir: the folder of the run.
        begun: the kind of the run that resumes in it; None for a new run.
    """

    def __init__(self, name: str, output_dir: str, begun: Kind | None):
        self._name = name
        self._flag = f"--teacher={name}"
        self._output_dir = output_dir
        self._begun = begun

    @functools.cached_property
    def _model(self) -> Loaded:
        with name_place("--teacher"):
            loaded = load(self._name)
        return loaded.make_embedder() if isinstance(loaded.kind, Embedding) else loaded

    def labels_of(self, kind: TaughtKind) -> Sequence[str]:
        """Returns the labels of a student whose training set has none."""
        if self._begun:
            return self._begun.labels
        with name_place(self._flag):
            kind.check_name(self._model.kind)
        return self._model.kind.labels

    def teach(self, data: RunData) -> RunData:
        """Returns the data of a run with the teacher's answers to the training set.

        Raises:
            InputError: the teacher does not fit, or a run that resumes had another one or other rows.
        """
        kind, (train,) = data.kind, data.sets["train"]
        assert isinstance(kind, TaughtKind), "others are refused when the data are read"
        _check_texts(train.examples)
        expected = {
            "teacher": note("teacher", self._name),
            "kind": kind.name,
            "labels": list(kind.labels),
            "rows": _digest([example.texts for example in train.examples]),
        }
        dev_sets = data.sets.get("dev", ())
        if not self._begun:
            expected |= {
                "files": _files_sum(self._name),
                "dev_rows": _digest_of_sets(dev_sets),
            }
        targets = self._read(expected)
        if targets is None and self._begun:
            raise InputError(
                f"{self._flag}: --output_dir={self._output_dir} holds a run with the answers of other "
                "weights, or to other rows; expected the same, or another --output_dir"
            )
        if targets is None:
            targets = self._answer(kind, train.examples)
            self._write(targets, {**expected, "metrics": self._measure(kind, dev_sets)})
            del self._model  # its memory is needed for the training
        if all(example.label is None for example in train.examples):
            kind = kind.fit_targets(targets)
        features = kind.with_targets(train.features, train.examples, targets)
        sets = {**data.sets, "train": [train._replace(features=features)]}
        return dataclasses.replace(data, kind=kind, sets=sets)

    def _read(self, expected: Mapping[str, Any]) -> np.ndarray | None:
        """Returns the answers in the folder of the run; None if they are not as expected, or missing."""
        noted = read_note(self._output_dir)
        if not noted or {name: noted.get(name) for name in expected} != expected:
            return None
        path = os.path.join(self._output_dir, _ANSWERS)
        # A process that was killed may have left answers of another note.
        if not files.exists(path) or files.sha256(path) != noted["answers"]:
            return None
        if self._begun and not self._may_be(noted["sha256"]):
            return None
        return np.load(io.BytesIO(files.read_bytes(path)), allow_pickle=False)

    def _answer(self, kind: TaughtKind, examples: Sequence[Any]) -> np.ndarray:
        with name_place(self._flag):
            kind.check_name(self._model.kind)
            kind.check_teacher(self._model.kind)
            targets = kind.targets(self._model.kind, examples, self._run(examples))
            if not np.isfinite(targets).all():
                raise InputError(NOT_FINITE)
        return targets

    def _run(self, examples: Sequence[Any]) -> Any:
        """Returns the teacher's predictions, for which labels have no meaning."""
        model = self._model
        examples = [dataclasses.replace(example, label=None) for example in examples]
        features = model.kind.encode(examples, model.tokenizer)
        with Progress(
            "teacher", "sequences", len(features), delay=SECONDS_WITHOUT_PROGRESS
        ) as progress:
            return model.run(examples, progress.update, features)

    def _measure(self, kind: TaughtKind, sets: Sequence[ExampleSet]) -> dict[str, float]:
        """Returns the metrics on the dev sets."""
        metrics: dict[str, float] = {}
        for dataset in sets:
            predictions = self._run(dataset.examples)
            quality = kind.measure_teacher(self._model.kind, dataset.examples, predictions)
            known = quality.metrics.items()
            metrics |= {dataset.prefix + name: x for name, x in known if name in kind.reported}
        return metrics

    def _write(self, targets: np.ndarray, noted: Mapping[str, Any]) -> None:
        content = io.BytesIO()
        np.save(content, targets)
        path = os.path.join(self._output_dir, _ANSWERS)
        files.make_directory(os.path.dirname(path))
        # A run that has just begun here may be learning from the answers of another teacher.
        with folders.lock_folder(self._output_dir):
            files.write_bytes(path, content.getvalue())
            noted = {**noted, "answers": files.sha256(path), "sha256": _weights_sum(self._name)}
            files.write_json(os.path.join(self._output_dir, _NOTE), noted)

    def _may_be(self, sha256: str) -> bool:
        """Returns whether the teacher has these weights, as far as that can be told without a network."""
        if not (is_path(self._name) and files.exists(self._name)):
            return True
        return _weights_sum(self._name) == sha256


def find_teacher(options: FineTuningOptions, begun: Kind | None) -> Teacher | None:
    """Returns the teacher of a run, if it has one; `begun` is that of `Teacher`."""
    if options.teacher is None:
        return None
    return Teacher(options.teacher, options.output_dir, begun)


def read_note(output_dir: str) -> dict[str, Any]:
    """Returns what the folder of a run notes of the teacher; empty without one."""
    path = os.path.join(output_dir, _NOTE)
    return files.read_json(path) if files.exists(path) else {}


def compare_with_teacher(
    options: FineTuningOptions, kind: Kind, sets: Sequence[ExampleSet]
) -> dict[str, Any]:
    """Prints the teacher's first metric on the dev sets, if it has answered these.

    Returns `{"teacher": {"name": ..., "sha256": ..., metric: value}}`, or nothing.
    """
    noted = read_note(options.output_dir)
    if not noted:
        return {}
    if noted["dev_rows"] != _digest_of_sets(sets):
        print(f"teacher {noted['teacher']}: has not answered these dev rows, so it is not compared")
        return {}
    metrics = noted["metrics"]
    for name in (dataset.prefix + kind.metrics[0] for dataset in sets):
        if name in metrics:
            print(f"teacher {noted['teacher']}, {name} on the same rows: {metrics[name]:.4f}")
    return {"teacher": {"name": noted["teacher"], "sha256": noted["sha256"], **metrics}}


def fit_projection(options: FineTuningOptions, data: RunData, trainer: Trainer) -> None:
    """Begins the map from embeddings to the teacher's, if the model that is trained has one."""
    if not isinstance(trainer.model, TaughtEmbedder):
        return
    (train,) = data.sets["train"]
    count = len(train.examples)
    rows = np.linspace(0, count - 1, min(count, _PROJECTED_ROWS)).astype(int)
    examples = [train.examples[row] for row in rows]
    part = ExampleSet("", examples, data.kind.encode(examples, data.tokenizer))
    (embeddings,) = predict_sets(data.kind, sets=[part], evaluator=trainer, options=options)
    targets = train.features.labels[TARGETS][rows]
    own, theirs = (np.reshape(x, (-1, x.shape[-1])) for x in (of_length_one(embeddings), targets))
    trainer.model.fit_projection(own, theirs)


def _check_texts(examples: Sequence[Any]) -> None:
    first = examples[0].texts
    if all(example.texts == first for example in examples):
        raise InputError(
            f"the {len(examples)} texts of the training set are all alike; expected different texts for "
            "the teacher to answer"
        )


def _digest_of_sets(sets: Sequence[ExampleSet]) -> str:
    return _digest([(each.texts, each.label) for dataset in sets for each in dataset.examples])


def _digest(rows: Sequence[Any]) -> str:
    """Returns the SHA-256 of rows that JSON can write."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row).encode())
    return digest.hexdigest()


def _weights_sum(name: str) -> str:
    """Returns the SHA-256 of a model's weights or, where they are no single file, of all of its files."""
    folder = StoredModel.find(name).folder
    if folder.holds(WEIGHTS_FILE):
        return files.sha256(os.path.join(folder.path, WEIGHTS_FILE))
    return _files_sum(name)


def _files_sum(name: str) -> str:
    """Returns a SHA-256 of all files of a model, each of which may change its answers."""
    stored = StoredModel.find(name)
    folder = (
        find_model(name) if stored.config_file is None else stored.modules or stored.folder.path
    )
    paths = sorted(
        os.path.join(parent, file) for parent, _, names in files.walk(folder) for file in names
    )
    return _digest([[os.path.relpath(path, folder), files.sha256(path)] for path in paths])
