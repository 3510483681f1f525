"""What `albert_tf.load` returns: a model that predicts from text."""

import contextlib
import dataclasses
import inspect
import os
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf.backends import require_tensorflow
from albert_tf.data.fine_tuning.cells import answer_rows
from albert_tf.data.fine_tuning.column_names import ColumnNames
from albert_tf.errors import InputError, warn
from albert_tf.evaluation.masked_lm import Filling, fill_mask
from albert_tf.export import ExportedModel, export
from albert_tf.files import as_path
from albert_tf.kinds import Embedding, Kind
from albert_tf.kinds.kind import open_source
from albert_tf.models import AlbertEmbedder, AlbertEncoder, AlbertPretrainer
from albert_tf.options.export_forms import DEFAULT_FORM, Form, Weights
from albert_tf.options.kinds import Pooling, pooling_names
from albert_tf.progress import SECONDS_WITHOUT_PROGRESS, Progress
from albert_tf.tasks.prediction import predict
from albert_tf.tasks.vocabulary import warn_of_unknown_text
from albert_tf.tokenization import Tokenizer
from albert_tf.training import Evaluator

_BATCH_SIZE = 64
# In the text that stands for a model.
_SHOWN_LABELS = 5


class Loaded:
    """A trained model and its tokenizer.

    `pickle` and `copy.deepcopy` keep the folder, from which the copy is loaded again, e.g. in a spawned
    worker.

    Attributes:
        kind: what it predicts.
        tokenizer: the tokenizer that it was trained with.
        source: the folder or name that it was loaded from.
        num_hidden_layers: the number of layers that `albert_tf.load` was given, if any.
    """

    def __init__(
        self,
        kind: Kind,
        model: keras.Model | ExportedModel,
        tokenizer: Tokenizer,
        strategy: tf.distribute.Strategy,
        source: str = "",
        num_hidden_layers: int | None = None,
        load_again: Callable[[Tokenizer], "Loaded"] | None = None,
    ):
        self.kind = kind
        self._model = model
        self.tokenizer = tokenizer
        self.source = source
        self.num_hidden_layers = num_hidden_layers
        self._load_again = load_again
        self._strategy = strategy
        self._evaluator = Evaluator(model, None, strategy)
        embeds = isinstance(kind, Embedding) and isinstance(model, AlbertEmbedder | ExportedModel)
        self._embedders: dict[Kind, Loaded] = {kind: self} if embeds else {}

    def __reduce__(self) -> tuple[Callable[..., "Loaded"], tuple[Any, ...]]:
        if self._load_again is None:
            raise pickle.PicklingError(
                "an embedder of a loaded model has no folder to load it from"
            )
        return self._load_again, (self.tokenizer,)

    @property
    def model(self) -> keras.Model | ExportedModel:
        """A model of `albert_tf.models`; of an exported version, a function with the same outputs.

        Raises:
            InputError: in a fork of the process that loaded it.
        """
        require_tensorflow(f"load({self.source!r})")
        return self._model

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the labels, or letters of the choices; empty if there are none."""
        return self.kind.label_names

    def __repr__(self) -> str:
        names = self.labels
        shown = ", ".join(names[:_SHOWN_LABELS]) + (", ..." if len(names) > _SHOWN_LABELS else "")
        labels = f", {len(names)} labels ({shown})" if names else ""
        size = getattr(self._model, "count_params", None)
        parameters = f", {size():,} parameters" if size else ", exported"
        # Its kind is `Embedding`, since it embeds texts, too, but it was trained as a masked LM.
        task = "pre-training" if isinstance(self._model, AlbertPretrainer) else self.kind.name
        return f"<{type(self).__name__} {task}{labels}{parameters}, from {self.source!r}>"

    def summary(self) -> None:
        """Prints the line of `print(model)` and, unless the model is exported, its layers."""
        print(self)
        if isinstance(self.model, keras.Model):
            self.model.summary()

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """Predicts from a text, or from lists of texts.

        A list may also be a tuple, an array or a pandas Series; arguments and outputs depend on the kind,
        see `load`.
        """
        main = self._main
        examples = main._make_examples(*args, **kwargs)
        return main.kind.result(examples, main.run(examples))

    def _make_examples(self, *args: Any, **kwargs: Any) -> list[Any]:
        signature = inspect.signature(self.kind.make_examples)
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            expected = ", ".join(signature.parameters)
            raise InputError(f"predict: {error}; expected {expected}") from None
        examples = self.kind.make_examples(*args, **kwargs)
        if blank := sum(getattr(example, "is_blank", False) for example in examples):
            warn(f"predict: {blank} of {len(examples)} texts are empty and have no answer")
        return examples

    def run(
        self,
        examples: Sequence[Any],
        report: Callable[[int], None] | None = None,
        features: Any = None,
    ) -> Any:
        """Returns the kind's predictions for n examples, from which it makes results and metrics.

        `report` receives the number of sequences of each batch that is done. By default work of more than
        ten seconds shows its progress. `features` are those of the examples, if they are encoded already.
        """
        require_tensorflow(f"load({self.source!r})")
        if features is None:
            features = self._encode(examples, "predict")
        with contextlib.ExitStack() as stack:
            if report is None:
                total, delay = len(features), SECONDS_WITHOUT_PROGRESS
                shown = Progress("predicting", "sequences", total, delay=delay)
                report = stack.enter_context(shown).update
            return predict(
                self.kind,
                self._evaluator,
                examples,
                features,
                batch_size=_BATCH_SIZE,
                report=report,
            )

    def _encode(self, examples: Sequence[Any], name: str) -> Any:
        """Returns the features of examples; warns of text that the vocabulary does not know."""
        features = self.kind.encode(examples, self.tokenizer)
        warn_of_unknown_text(features, name, self.tokenizer)
        return features

    def predict_json(self, *args: Any, **kwargs: Any) -> list[dict[str, Any] | None]:
        """Returns the predictions for n examples as dictionaries that `json` can write.

        It is None for an example whose text is empty.

        Args:
            *args: those of `predict`.
            **kwargs: the same.

        Returns:
            What `--predict_format=jsonl` writes, e.g. `[{"prediction": "neg", "probability_neg": 0.9,
            "probability_pos": 0.1}]`.
        """
        main = self._main
        examples = main._make_examples(*args, **kwargs)
        return list(answer_rows(examples, main.kind.answers(examples, main.run(examples))))

    def evaluate(self, data: Any, **columns: str) -> dict[str, float]:
        """Returns the metrics on data with labels. A warning counts labels that cannot be predicted.

        Args:
            data: what `albert_tf.fine_tune` takes as `dev`.
            **columns: `text_column`, `label_column` and the other flags of columns, if their names are
                unusual or the table has none.

        Raises:
            InputError: a row is not as expected, or has an unknown label.
        """
        main = self._main
        path = str(data) if isinstance(data, str | os.PathLike) else "dev"
        source = open_source(
            main.kind,
            source=data,
            split="dev",
            names=ColumnNames(**columns),
            columns=main.kind.columns,
        )
        examples = main.kind.read(source, "dev")
        features = main._encode(examples, path)
        for fault in main.kind.find_faults(path, split="dev", examples=examples, features=features):
            warn(fault)
        return main.kind.measure(examples, main.run(examples, features=features)).metrics

    def export(
        self, export_dir: str, format: Form = DEFAULT_FORM, weights: Weights | None = None
    ) -> dict[str, str]:
        """Writes the model as a version folder for a server or another runtime.

        Args:
            export_dir: parent of the written folders.
            format: what `--export_format` takes.
            weights: what `--export_weights` takes, but what needs examples, which only the commands have;
                None for the type that the model computes in.

        Returns:
            The written folders by name, such as `ids` and `text`.

        Raises:
            InputError: the model has no such form, or a package that writes it is missing.
        """
        main = self._main
        if isinstance(main.model, ExportedModel):
            raise InputError(
                "an exported model cannot be exported again; expected a trained folder"
            )
        return export(main.model, main.kind, main.tokenizer, as_path(export_dir), format, weights)

    @property
    def _main(self) -> "Loaded":
        return self.make_embedder() if isinstance(self.kind, Embedding) else self

    def embed(
        self,
        texts: Sequence[str],
        pooling: Pooling | None = None,
        normalize: bool | None = None,
        max_seq_length: int | None = None,
        prompt_name: str | None = None,
    ) -> np.ndarray:
        """Returns embeddings of texts, from the model's encoder.

        Args:
            texts: n texts; of those that are too long, the front.
            pooling: such as `mean` or `cls`, see `albert_tf.AlbertEmbedder`. Default: that of
                the folder, if it holds an embedder, otherwise `mean`.
            normalize: whether embeddings have the length 1. Default: as the folder says, otherwise not.
            max_seq_length: maximum number of tokens of a text, special tokens included. Default: as the
                folder says, otherwise the encoder's number of positions.
            prompt_name: name of one of the prompts of a folder of sentence-transformers, which is put
                before each text, such as `query`; "" for none. Default: the folder's default prompt.

        Returns:
            float32 (n, H); another width than H if the folder has a Dense module.

        Raises:
            InputError: `texts` is no list of strings, another argument has no such value, or the model
                is an exported one of another task or pooling.
        """
        embedder = self.make_embedder(
            pooling=pooling,
            normalize=normalize,
            max_seq_length=max_seq_length,
            prompt_name=prompt_name,
        )
        examples = embedder.kind.make_examples(texts)
        return embedder.kind.result(examples, embedder.run(examples))

    def make_embedder(self, **given: Any) -> "Loaded":
        """Returns what embeds texts as the arguments of `embed` say; for equal ones the same object."""
        positions = self.model.config.max_position_embeddings
        kind = self.kind
        if not isinstance(kind, Embedding):
            kind = Embedding(normalize=False, max_seq_length=positions, columns=kind.columns)
        given = {name: value for name, value in given.items() if value is not None}
        if (name := given.pop("prompt_name", None)) is not None:
            kind = kind.with_prompt(name)
        kind = dataclasses.replace(kind, **given)
        if kind.max_seq_length > positions:
            raise InputError(
                f"max_seq_length={kind.max_seq_length}: expected at most {positions}, the model's number "
                "of positions"
            )
        if kind not in self._embedders:
            with self._strategy.scope():
                model = self._make_embedding_model(kind)
            self._embedders[kind] = Loaded(kind, model, self.tokenizer, self._strategy)
        return self._embedders[kind]

    def _make_embedding_model(self, kind: Embedding) -> AlbertEmbedder | ExportedModel:
        if isinstance(self.model, ExportedModel) and isinstance(self.kind, Embedding):
            for name in ("pooling", "normalize"):
                fixed, wanted = getattr(self.kind, name), getattr(kind, name)
                if fixed != wanted:
                    raise InputError(f"{name}={wanted!r}: the exported model has {fixed!r}")
            return self.model
        encoder = getattr(self.model, "encoder", self.model)
        if not isinstance(encoder, AlbertEncoder):
            raise InputError(
                "an exported model of another task has no hidden states to embed with; expected a "
                "trained folder"
            )
        projection = getattr(self.model, "projection", ())
        if projection and isinstance(self.kind, Embedding):
            names, known = pooling_names(kind.pooling), pooling_names(self.kind.pooling)
            if len(names) != len(known):
                raise InputError(
                    f"pooling={kind.pooling!r}: the layers after the pooling take the width of "
                    f"{self.kind.pooling!r}"
                )
        return AlbertEmbedder(encoder, kind.pooling, kind.normalize, seed=0, projection=projection)

    def fill_mask(self, text: str, top_k: int = 5) -> list[list[Filling]]:
        """Returns the most probable pieces for each `[MASK]`; see `albert_tf.fill_mask`.

        Raises:
            InputError: the model has no masked-LM head.
        """
        if not isinstance(self.model, AlbertPretrainer):
            raise InputError(
                "fill_mask: expected a model that predicts masked pieces; this one has no masked-LM head"
            )
        return fill_mask(self.model, self.tokenizer, text, top_k)
