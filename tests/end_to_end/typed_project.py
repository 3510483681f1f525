"""A project that uses the public names, for `mypy --strict`; nothing runs it.

An ignored error is one that has to be found: `--strict` reports ignores that are not needed.
"""

import keras  # type: ignore[import-untyped]
import numpy as np
import tensorflow as tf  # type: ignore[import-untyped]

import albert_tf
from albert_tf import AlbertConfig, AlbertEncoder


def tokenize(tokenizer: albert_tf.AlbertTokenizer, text: str) -> list[tuple[str, int]]:
    return list(zip(tokenizer.tokenize(text), tokenizer.encode(text), strict=True))


def build(folder: str) -> albert_tf.AlbertClassifier:
    config = AlbertConfig.from_preset("base_v2", num_hidden_layers=2)
    print(config.hidden_size + 1, albert_tf.__version__)
    encoder = AlbertEncoder(config, seed=1)
    report = albert_tf.load_checkpoint(encoder, folder)
    print([name.upper() for name in report.missing])
    return albert_tf.AlbertClassifier(encoder, num_classes=3)


def train(folder: str, vocabulary: str, texts: list[str], labels: list[int]) -> None:
    tokenizer = albert_tf.WordPieceTokenizer(vocabulary)
    preprocess = albert_tf.Preprocessor(tokenizer, max_seq_length=128, padding="max_length")
    data = tf.data.Dataset.from_tensor_slices((texts, labels)).batch(8)
    classifier = albert_tf.AlbertClassifier.from_preset(folder, num_classes=2)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    classifier.compile(albert_tf.AdamWeightDecay(2e-5, weight_decay_rate=0.01), loss)
    classifier.fit(data.map(lambda text, label: (preprocess(text), label)), epochs=2)
    classifier.save("classifier.keras")


def predict(folder: str) -> list[str]:
    model = albert_tf.load(folder)
    labels: list[str] = model.predict(["A fine film."]).label
    return labels


def score(folder: str, tokenizer: albert_tf.AlbertTokenizer) -> list[str]:
    pretrainer = albert_tf.AlbertPretrainer(AlbertEncoder(albert_tf.read_config(folder)))
    pretrainer.compile(albert_tf.Lamb(1e-3))
    scores: np.ndarray = albert_tf.score_sentences(pretrainer, tokenizer, ["The cats sleep."])
    fillings = albert_tf.fill_mask(pretrainer, tokenizer, "The [MASK] sleep.", top_k=3)
    return [filling.piece for filling in fillings[0] if filling.probability > scores.max()]


def heads(encoder: AlbertEncoder) -> list[keras.Model]:
    return [
        albert_tf.AlbertMultipleChoice(encoder),
        albert_tf.AlbertTokenClassifier(encoder, num_classes=9),
        albert_tf.AlbertEmbedder(encoder, pooling="cls"),
        albert_tf.AlbertSpanLabeler(encoder),
        albert_tf.AlbertConditionalSpanLabeler(encoder, start_n_top=3, end_n_top=2),
    ]


def mistakes(config: AlbertConfig) -> None:
    albert_tf.AlbertModel(config)  # type: ignore[attr-defined]
    albert_tf.AlbertEncoder("base_v2")  # type: ignore[arg-type]
    albert_tf.AlbertTokenizer("30k-clean.model").tokenise("a")  # type: ignore[attr-defined]
