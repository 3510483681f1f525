"""Evaluates what the training does not: similarity of layers, probes of sentence pairs, BLiMP.

A process of its own, as each model's graphs take memory:

    python -m benchmarks.ablations.evaluation --model_dir=run
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from albert_tf import command_line

with command_line.quiet_start():
    import numpy as np
    import tensorflow as tf
    from sklearn.linear_model import LogisticRegression

    import albert_tf
    from albert_tf import files
    from albert_tf.data.records import pretraining_record
    from albert_tf.options import option
    from benchmarks.ablations.arms import PAIRS
    from benchmarks.blimp import judge_pairs, read_pairs
    from benchmarks.layer_similarity import measure

_BATCH_SIZE = 64


@dataclasses.dataclass(frozen=True)
class EvaluationOptions:
    """The options of this command."""

    model_dir: str = option("Trained folder with `to_evaluate.json`; gets `evaluation.json`.")


def evaluate(model_dir: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the metrics of a trained folder for what `Study` writes into `to_evaluate.json`."""
    config = albert_tf.read_config(f"{model_dir}/best/config.json")
    encoder = albert_tf.AlbertEncoder(config)
    has_head = given["objective"] != "none"
    model = albert_tf.AlbertPretrainer(encoder, sentence_head=has_head)
    albert_tf.load_checkpoint(model, f"{model_dir}/best").check_complete()

    def read(records: str, count: int) -> tf.data.Dataset:
        spec = pretraining_record(given["max_seq_length"], given["max_predictions_per_seq"])
        path = os.path.join(given["records_dir"], f"{records}.tfrecord")
        return tf.data.TFRecordDataset(path).take(count).batch(_BATCH_SIZE).map(spec.parse)

    def represent(*records) -> list[np.ndarray]:
        """Returns the pooled outputs for sentence pairs, and their labels."""
        pooled = [
            (encoder(batch)["pooled_output"], batch["next_sentence_labels"][:, 0])
            for batch in read(*records)
        ]
        return [np.concatenate(arrays) for arrays in zip(*pooled, strict=True)]

    count = given["eval_sequences"]
    changes = measure(encoder, read(f"held_out-{given['objective']}", count))
    metrics: dict[str, Any] = {
        "parameters": encoder.count_params(),
        "layer_distances": changes.distances.tolist(),
        "layer_degrees": changes.degrees.tolist(),
    }
    for name in PAIRS:
        if given["has_probes"] and name != given["objective"]:
            train = represent(f"train-{name}", given["probe_sequences"])
            probe = LogisticRegression(max_iter=1000).fit(*train)
            metrics[f"{name}_accuracy"] = probe.score(*represent(f"held_out-{name}", count))
    if given["blimp_file"]:
        tokenizer = albert_tf.AlbertTokenizer(given["spm_model_file"])
        pairs = [
            pair
            for pair in read_pairs([given["blimp_file"]], given["blimp_pairs"])
            # With [CLS] and [SEP]. All arms have the same vocabulary, so these are the same pairs.
            if max(len(tokenizer.encode(text)) for text in (pair.good, pair.bad)) + 2
            <= given["max_seq_length"]
        ]
        metrics["blimp"] = float(judge_pairs(model, tokenizer, pairs).mean())
        metrics["blimp_pairs"] = len(pairs)
    return metrics


def _main(options: EvaluationOptions) -> None:
    given = files.read_json(f"{options.model_dir}/to_evaluate.json")
    files.write_json(f"{options.model_dir}/evaluation.json", evaluate(options.model_dir, given))


if __name__ == "__main__":
    command_line.run(EvaluationOptions, _main)
