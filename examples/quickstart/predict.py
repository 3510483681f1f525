"""Predicts from raw text with nothing but an exported SavedModel.

Usage:
    python examples/quickstart/predict.py quickstart_output/exported/text/1 "A text." "Another text."
"""

import sys

import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the SentencePiece operators)


def main(path: str, *texts: str) -> None:
    """Prints the label of each text and its probability."""
    classify = tf.saved_model.load(path).signatures["serving_default"]
    outputs = classify(text_a=tf.constant(list(texts)))
    for label, probabilities in zip(outputs["label"], outputs["probabilities"], strict=True):
        print(f"{label.numpy().decode()} {tf.reduce_max(probabilities).numpy():.1%}")


if __name__ == "__main__":
    main(*sys.argv[1:])
