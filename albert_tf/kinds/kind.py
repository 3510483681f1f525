"""The interface of a kind of task: all that differs between classes, scores, spans, answers and so on.

Runs, trained folders, `albert_tf.load` and the exporter work with any kind. A method that decides
something returns a changed kind. A run calls these methods in this order; a row has the methods, the
module that calls them, and what becomes of what they return.

    read            tasks/fine_tuning/data.py         examples of a split: `fit_labels`, `encode`
    fit_labels      tasks/fine_tuning/data.py         the kind that all other rows use
    encode          tasks/fine_tuning/data.py         ids (n, S) and labels: batches
    make_model      tasks/fine_tuning/model.py        the model, which maps a batch to outputs
    loss            tasks/fine_tuning/model.py        of labels and outputs of a batch: updates
    decode          tasks/prediction.py               predictions of n examples, for the rows below
    fit             tasks/fine_tuning/training.py     in each evaluation: a kind for `measure` alone
    measure         tasks/fine_tuning/predictions.py  metrics, of which the first chooses `best/`
    stored          conversion.py                     with each new `best/`: its config, its weights
    fit, calibrate  tasks/fine_tuning/run.py          after the training: `stored` in `best/` again
    fit, measure    tasks/fine_tuning/baselines.py    metrics of simpler models on the same rows
    answers         tasks/fine_tuning/predictions.py  columns of tables, keys of JSON
    result          tasks/loaded.py                   what `predict` returns
    outputs         export/saved_models.py            what an exported model returns, in each form
    read_outputs    tasks/loading.py                  of an exported model: outputs for `decode`
    predict_texts   export/saved_models.py            what one that takes texts returns

**The numbers of a prediction.** On every road `logits` maps outputs to logits, and `interpretation`
logits to labels, probabilities and scores: in `measure`, `answers` and `result`, and in the graphs of
`outputs`. So a number that a dev set decides is

1. a field whose default changes nothing, declared with `of_weights` if `calibrate` decides it;
2. used in `interpretation`, and nowhere else;
3. decided by `fit`, if it counts in the choice of the best weights, or for these alone by `calibrate`;
4. taken up by `stored`, if other weights of the head have the same effect, for others who read `best/`.
   Its field then has the default again, and another one notes what the weights have taken up.

`config.json` of `best/` has all fields. Later runs and `albert_tf.load` read the kind from there.
"""

import abc
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self

import keras
import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.data.fine_tuning.cells import answers_to_tsv
from albert_tf.data.fine_tuning.column_names import ColumnNames, NamedColumns
from albert_tf.data.fine_tuning.features import Features
from albert_tf.data.fine_tuning.opened_tables import open_table, recall_columns
from albert_tf.data.fine_tuning.tables import Table
from albert_tf.errors import InputError
from albert_tf.models import AlbertEncoder
from albert_tf.options import check_types, option
from albert_tf.tokenization import Tokenizer
from albert_tf.training.evaluator import Loss

# Mark of the fields of `of_weights`.
_OF_WEIGHTS = "of_weights"

# Rows of features, int (B,), and what the model returns for them; a last batch may have more rows.
Batches = Iterable[tuple[np.ndarray, Any]]


def of_weights(default: Any) -> Any:
    """Declares a field that belongs to the weights of a trained folder, not to a run.

    `calibrate` decides it. An evaluation keeps that of the folder, whatever the options are.
    """
    return dataclasses.field(default=default, metadata={_OF_WEIGHTS: True})


class Quality(NamedTuple):
    """How good predictions are."""

    metrics: dict[str, float]
    is_collapsed: bool | None = None  # whether all are alike; None if that has no meaning
    # Makers of tables of the scores of labels, by file name.
    tables: Mapping[str, Callable[[], str]] = MappingProxyType({})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind(abc.ABC):
    """What a head predicts, from files to exported models.

    A subclass with the decorator `albert_tf.kinds.register` is a task of `albert-classify`. A trained
    folder stores the name and the fields in `config.json`. Fields that are declared with
    `albert_tf.options.option` are also flags.

    Predictions are what `decode` returns for n examples. They do not depend on what `fit` decides.
    """

    name: ClassVar[str]  # of the kind, and of its task with the user's own files
    texts: ClassVar[tuple[str, ...]]  # inputs of the text model
    optional_texts: ClassVar[tuple[str, ...]] = ()  # inputs that it has in a signature of their own
    fixed_options: ClassVar[tuple[str, ...]] = ()  # that must equal those of the training
    free_options: ClassVar[tuple[str, ...]] = ()  # that may change when training resumes
    length_options: ClassVar[tuple[str, ...]] = ()  # whose default is one for `max_seq_length`
    can_hold_out: ClassVar[bool | None] = True  # training rows as dev set; None: if labelled
    # Whether the pooled output becomes logits of `labels`, or a score, as `Baselines` predict them.
    reads_pooler: ClassVar[bool] = False
    least_micro_batch: ClassVar[int] = 1  # number of examples that a micro-batch needs
    # Whether the model reads the front of a text, or of a pair, as one sequence.
    reads_one_sequence: ClassVar[bool] = False
    # Whether it finds parts of texts of any length, in windows; others truncate long texts.
    finds_spans: ClassVar[bool] = False
    base_learning_rate: ClassVar[float] = 2e-5  # of ALBERT-base (the paper's table 14)
    num_choices: ClassVar[int | None] = None  # C, if an example is C sequences
    # Name of what the model returns among the outputs of the exported model; see `outputs`.
    output_name: ClassVar[str] = "logits"
    more_metrics: ClassVar[tuple[str, ...]] = ()  # that `metrics` has if the user selects by one
    num_segments: ClassVar[int] = 1  # 2 if a sequence has a second text, which is segment 1

    task_name: str = ""  # the task that the model was trained on, e.g. `cola`
    # Names of the metrics, of which the first selects the best checkpoint.
    metrics: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()  # names of the classes, if there are any
    columns: NamedColumns = ()  # that the user named for the training
    max_seq_length: int = option(
        "Maximum number of tokens per sequence, including the special ones.", 128, least=5
    )

    def __post_init__(self):
        check_types(self)
        for number, label in enumerate(self.labels):
            if label in self.labels[:number]:
                raise InputError(f"labels: received '{label}' twice; expected it once")

    # Data

    @classmethod
    def open(cls, source: Any, split: str, names: ColumnNames) -> Any:
        """Opens what the user gives for `read`. The split is `train`, `dev` or `test`."""
        for name, column in dataclasses.asdict(names).items():
            if column is not None:
                raise InputError(f"--{name}={column}: {cls.name} has columns of its own")
        return source

    @abc.abstractmethod
    def read(self, source: Any, split: str) -> list[Any]:
        """Reads the user's examples from what `open` returns.

        A split `test` may lack labels. The message of an `InputError` names file and row.
        """

    def fit_labels(self, examples: Sequence[Any], path: str) -> Self:
        """Returns the kind with what the training set in `path` decides, such as the labels."""
        return self

    @abc.abstractmethod
    def make_examples(self, *texts: Any) -> list[Any]:
        """Makes n examples without labels from lists of n texts, the arguments of `predict`."""

    @abc.abstractmethod
    def encode(self, examples: Sequence[Any], tokenizer: Tokenizer) -> Features:
        """Converts examples to ids, with labels if they have any."""

    def find_faults(
        self, path: str, split: str, examples: Sequence[Any], features: Any
    ) -> list[str]:
        """Returns a line for each type of label that the model cannot learn or predict."""
        return []

    # Model

    @property
    @abc.abstractmethod
    def loss(self) -> Loss:
        """The training loss."""

    @abc.abstractmethod
    def make_model(
        self, encoder: AlbertEncoder, dropout: float, seed: int | None, dtype: Any
    ) -> keras.Model:
        """Makes the model, with a randomly initialised head.

        `dropout` is the rate before the head, and `dtype` its data type or policy.
        """

    # Predictions

    @property
    def reported(self) -> tuple[str, ...]:
        """Names of the metrics that `measure` always returns."""
        return self.metrics

    def decode(self, examples: Sequence[Any], features: Any, batches: Batches) -> Any:
        """Returns the predictions for n examples, of which `encode` made `features`.

        `batches` are the model's outputs, in any order. By default predictions are the outputs, float32
        (n, ...), of a model with one output.
        """
        rows, padded = zip(*batches, strict=True)
        parts = [part[: len(row)] for row, part in zip(rows, padded, strict=True)]
        outputs = np.concatenate(parts)
        restored = np.empty_like(outputs)
        restored[np.concatenate(rows)] = outputs
        return restored

    def fit(self, examples: Sequence[Any], predictions: Any) -> Self:
        """Returns the kind with thresholds that suit a dev set, as each evaluation in training does."""
        return self

    def calibrate(self, examples: Sequence[Any], predictions: Any) -> tuple[Self, str]:
        """Returns the kind with what makes probabilities true on a dev set, and a line about it, if any.

        It is called once, with the best weights. The metrics of the evaluations in training are without
        it, and so is the choice of these weights. A kind that suits the predictions is returned as it is,
        since the same command, given again, calls it again.
        """
        return self, ""

    def stored(self, tensors: dict[str, np.ndarray]) -> tuple[Self, dict[str, np.ndarray]]:
        """Returns the kind and the tensors to store, given some of a trained model's.

        Tensors have Hugging Face's names. The kind does not depend on which are given.
        """
        return self, tensors

    @property
    def as_stored(self) -> Self:
        """The kind of the weights as they are stored."""
        return self.stored({})[0]

    def with_weights_of(self, trained: Self) -> Self:
        """Returns the kind with the fields of `of_weights` of that of a trained folder."""
        fields = (field for field in dataclasses.fields(self) if _OF_WEIGHTS in field.metadata)
        return dataclasses.replace(self, **{x.name: getattr(trained, x.name) for x in fields})

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of what is predicted; by default `labels`."""
        return self.labels

    def check_segments(self, config: AlbertConfig) -> None:
        """Raises an `InputError` if an encoder has fewer segments than a sequence."""
        if config.type_vocab_size < self.num_segments:
            raise InputError(
                f"type_vocab_size {config.type_vocab_size}: the model tells no second text from the "
                f"first; expected {self.num_segments}, or single texts"
            )

    @property
    def missing(self) -> str | None:
        """What predictions need but no dev set has decided yet, as text for messages; None if nothing."""
        return None

    @abc.abstractmethod
    def measure(self, examples: Sequence[Any], predictions: Any) -> Quality:
        """Measures predictions for examples with labels."""

    @abc.abstractmethod
    def result(self, examples: Sequence[Any], predictions: Any) -> Any:
        """Returns what `predict` of a loaded model returns."""

    def answers(self, examples: Sequence[Any], predictions: Any) -> Mapping[str, Sequence[Any]]:
        """Returns n values of each column of tables and of each key of JSON.

        By default they are the parts of `result`: predictions and, as columns, probabilities of labels.
        """
        values, *arrays = self.result(examples, predictions)
        columns: dict[str, Sequence[Any]] = {"prediction": values}
        for probabilities in arrays:
            names = (f"probability_{label}" for label in self.labels)
            columns |= zip(names, probabilities.T.tolist(), strict=True)
        return columns

    def prediction_files(
        self, name: str, examples: Sequence[Any], predictions: Any
    ) -> dict[str, str]:
        """Returns the files of predictions, file name -> content.

        By default it is `<name>.tsv`, a table of ids, labels if they are known, and `answers`.
        """
        columns = self.answers(examples, predictions)
        return {f"{name}.tsv": answers_to_tsv(examples, columns)}

    @abc.abstractmethod
    def example_of_line(self, fields: Sequence[str]) -> Any:
        """Makes an example of the fields of a line of standard input."""

    # The numbers of predictions, in Python and in the TensorFlow graphs of exported models

    def logits(self, outputs: Any) -> Any:
        """Maps what the model returns, an array or a tensor, to logits; by default it returns these."""
        return outputs

    def interpretation(self, logits: Any) -> dict[str, tf.Tensor]:
        """Maps logits to all that is made of them, by name, such as labels and probabilities.

        Exported models return it, and results, tables, JSON and metrics have parts of it. By default
        there is nothing.
        """
        return {}

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """Returns the probabilities of the interpretation of logits, float32 (..., k) each."""
        return self.interpretation(tf.constant(logits))["probabilities"].numpy()

    def outputs(self, outputs: Any) -> dict[str, tf.Tensor]:
        """Maps what the model returns to what the exported model returns.

        This is the interpretation, and under `output_name` what the model returns, as it is: an exported
        model that is loaded is interpreted once, as the model itself is.
        """
        return {**self.interpretation(self.logits(outputs)), self.output_name: outputs}

    def read_outputs(self, exported: Mapping[str, tf.Tensor]) -> Any:
        """Returns what the model returns, given what the exported model returns."""
        return exported[self.output_name]

    # Exported models

    @abc.abstractmethod
    def predict_texts(
        self,
        predict: Callable[..., dict[str, tf.Tensor]],
        tokenizer: Tokenizer,
        graph_tokenizer: Any,
        **texts: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """Maps texts, the inputs of the text model by name, to its outputs, in a TensorFlow graph.

        `predict` is the ids model. `graph_tokenizer` is `tokenizer` as a `GraphTokenizer`; with
        `finds_spans` it has `tokenize_with_offsets`.
        """

    # Files

    def to_dict(self) -> dict[str, Any]:
        """Returns the name and the fields, as the config of a model's folder stores them."""
        return {"kind": self.name, **dataclasses.asdict(self)}


def open_source(
    kind: type[Kind] | Kind,
    source: Any,
    split: str,
    names: ColumnNames,
    columns: NamedColumns = (),
) -> Any:
    """Opens what the user gives for `read`, with the columns that the model was trained with.

    `names` are the columns that the user names, which take precedence.
    """
    opened = kind.open(source, split, names)
    if not isinstance(opened, Table):
        return opened
    return open_table(recall_columns(opened, split, columns), split)
