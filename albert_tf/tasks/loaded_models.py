"""What `albert_tf.load` returns: models that predict from text."""

import abc
import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from albert_tf.data.fine_tuning.squad_questions import SquadExample
from albert_tf.data.fine_tuning.squad_windows import WindowConfig, encode_windows
from albert_tf.errors import ArgumentError, InputError
from albert_tf.evaluation.masked_lm import Filling, fill_mask
from albert_tf.export import ExportedModel
from albert_tf.kinds import Kind
from albert_tf.kinds.kind import rows_of
from albert_tf.layers import Pooling
from albert_tf.models import AlbertEmbedder, AlbertEncoder
from albert_tf.options import select
from albert_tf.progress import SECONDS_WITHOUT_PROGRESS, Progress
from albert_tf.tasks.fine_tuning.question_answering import QuestionAnsweringTask
from albert_tf.tasks.text_embedder import EmbeddingConfig, TextEmbedder
from albert_tf.tokenization import Tokenizer
from albert_tf.training import Evaluator

_BATCH_SIZE = 64


class Answers(NamedTuple):
    """The answers to n questions, with the numbers of `nbest_predictions.json` and `null_odds.json`.

    Attributes:
        answer: n parts of the contexts, without surrounding white space; "" for an unanswered question.
        start: int (n,), the answer's first character in the context; 0 for an unanswered question.
        end: int (n,), the character after its last one.
        score: float (n,), probability of the best span among the best ones.
        null_odds: float (n,), how surely there is no answer, on the scale of the model's head.
    """

    answer: list[str]
    start: np.ndarray
    end: np.ndarray
    score: np.ndarray
    null_odds: np.ndarray


class LoadedModel(abc.ABC):
    """A trained model and its tokenizer.

    Attributes:
        model: a model of `albert_tf.models`; of an exported version, a function with the same outputs.
        tokenizer: the tokenizer that it was trained with.
    """

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        evaluator: Evaluator,
        embedding: EmbeddingConfig | None = None,
    ):
        self.model = model
        self.tokenizer = tokenizer
        self._evaluator = _WithProgress(evaluator)
        self._strategy = evaluator.strategy
        self._embedding = embedding or EmbeddingConfig()
        self._embedders: dict[EmbeddingConfig, TextEmbedder] = {}

    @abc.abstractmethod
    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """Predicts from lists of texts; arguments and outputs depend on the task, see `load`."""

    def embed(
        self,
        texts: Sequence[str],
        pooling: Pooling | None = None,
        normalize: bool | None = None,
        max_seq_length: int | None = None,
    ) -> np.ndarray:
        """Returns embeddings of texts, from the model's encoder.

        Args:
            texts: n texts; of those that are too long, the front.
            pooling: `mean`, `cls` or `weighted_layers`, see `albert_tf.AlbertEmbedder`. Default: that of
                the folder, if it holds an embedder, otherwise `mean`.
            normalize: whether embeddings have the length 1. Default: as the folder says, otherwise not.
            max_seq_length: maximum number of tokens of a text, special tokens included. Default: as the
                folder says, otherwise the encoder's number of positions.

        Returns:
            float32 (n, H).

        Raises:
            InputError: `texts` is no list of strings, another argument has no such value, or the model
                is an exported one of another task or pooling.
        """
        rows = [text for (text,) in rows_of(texts=texts)]
        embedder = self.make_embedder(
            pooling=pooling, normalize=normalize, max_seq_length=max_seq_length
        )
        with Progress("embedding", "texts", len(rows), delay=SECONDS_WITHOUT_PROGRESS) as progress:
            return embedder.embed(rows, progress.update)

    def make_embedder(self, **given: Any) -> TextEmbedder:
        """Returns what embeds texts as the arguments of `embed` say; for equal ones the same object."""
        config = self._embedding.replace(**given)
        if config not in self._embedders:
            with self._strategy.scope():
                model = self._make_embedding_model(config)
            evaluator = Evaluator(model, None, self._strategy)
            self._embedders[config] = TextEmbedder(evaluator, self.tokenizer, config.max_seq_length)
        return self._embedders[config]

    def _make_embedding_model(self, config: EmbeddingConfig) -> AlbertEmbedder:
        encoder = getattr(self.model, "encoder", self.model)
        if not isinstance(encoder, AlbertEncoder):
            raise InputError(
                "an exported model of another task has no hidden states to embed with; expected a "
                "trained folder"
            )
        return AlbertEmbedder(encoder, config.pooling, config.normalize)


class Loaded(LoadedModel):
    """A trained model of any kind.

    Attributes:
        kind: what it predicts.
    """

    def __init__(self, kind: Kind, tokenizer: Tokenizer, evaluator: Evaluator):
        super().__init__(evaluator.model, tokenizer, evaluator)
        self.kind = kind

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the labels, or letters of the choices; empty if there are none."""
        return self.kind.label_names

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """Predicts from lists of texts; arguments and outputs depend on the kind, see `load`."""
        examples = self.kind.make_examples(*args, **kwargs)
        features = self.kind.encode(examples, self.tokenizer)
        predictions = self.kind.predict(self._evaluator, examples, features, _BATCH_SIZE)
        return self.kind.result(examples, predictions)


class LoadedQuestionAnswerer(LoadedModel):
    """Answers questions about passages."""

    def __init__(self, task: QuestionAnsweringTask, evaluator: Evaluator):
        super().__init__(evaluator.model, task.tokenizer, evaluator)
        self._task = task
        threshold = task.find_threshold()
        self._threshold = math.inf if threshold is None else threshold

    def predict(self, question: Sequence[str], context: Sequence[str]) -> Answers:
        """Answers n questions from n contexts of any length."""
        examples = [
            SquadExample(str(number), *texts)
            for number, texts in enumerate(rows_of(question=question, context=context))
        ]
        windows = encode_windows(examples, self.tokenizer, select(self._task.options, WindowConfig))
        if not len(windows):
            raise InputError("context: expected a text; received empty ones")
        task = dataclasses.replace(self._task, questions=examples, windows=windows)
        found = task.answer(self._evaluator)
        best = [answers[0] for answers in found.nbest.values()]
        # Without a valid span, the text is one that is not in the context.
        texts = [
            text if example.context.startswith(text, answer.start) else ""
            for example, text, answer in zip(
                examples, found.predictions(self._threshold).values(), best, strict=True
            )
        ]
        starts = [each.start if text else 0 for each, text in zip(best, texts, strict=True)]
        return Answers(
            texts,
            np.array(starts),
            np.array([start + len(text) for start, text in zip(starts, texts, strict=True)]),
            np.array([each.probability for each in best]),
            np.array(list(found.null_odds.values())),
        )


class LoadedEmbedder(LoadedModel):
    """Embeds texts."""

    def predict(self, texts: Sequence[str]) -> np.ndarray:
        """Returns `embed(texts)`."""
        return self.embed(texts)

    def _make_embedding_model(self, config: EmbeddingConfig) -> AlbertEmbedder | ExportedModel:
        if not isinstance(self.model, ExportedModel):
            model = super()._make_embedding_model(config)
            if getattr(self.model, "pooling", None) == config.pooling:
                model.embedding_head.set_weights(self.model.embedding_head.get_weights())
            return model
        for name in ("pooling", "normalize"):
            there, given = getattr(self._embedding, name), getattr(config, name)
            if there != given:
                raise ArgumentError(f"{name}={given!r}: the exported model has {there!r}")
        return self.model


class LoadedPretrainer(LoadedEmbedder):
    """Embeds texts, and fills masks."""

    def fill_mask(self, text: str, top_k: int = 5) -> list[list[Filling]]:
        """Returns the most probable pieces for each `[MASK]`; see `albert_tf.fill_mask`."""
        return fill_mask(self.model, self.tokenizer, text, top_k)


class _WithProgress:
    """Predicts like an evaluator, and shows the progress of what takes long."""

    def __init__(self, evaluator: Evaluator):
        self._evaluator = evaluator

    def predict(self, batches: tf.data.Dataset) -> np.ndarray:
        return np.concatenate(list(self.predict_batches(batches)))

    def predict_batches(self, batches: tf.data.Dataset) -> Iterator[Any]:
        count = int(batches.cardinality())
        with Progress("predicting", "batches", count, delay=SECONDS_WITHOUT_PROGRESS) as progress:
            for outputs in self._evaluator.predict_batches(batches):
                progress.update()
                yield outputs
