"""Evaluates a pre-trained model: masked LM, sentence pairs, similarity of layers, BLiMP.

A process of its own, as each model's graphs take memory:

    python -m benchmarks.ablations.evaluation --model_dir=run --spm_model_file=vocabulary.model \
        --records_dir=records --objective=sop --output_file=evaluation.json
"""

import collections
import dataclasses
import os
from typing import Any

from albert_tf import command_line

with command_line.quiet_start():
    import numpy as np
    import tensorflow as tf
    from sklearn.linear_model import LogisticRegression

    import albert_tf
    from albert_tf import files
    from albert_tf.data.record_spec import pretraining_record
    from albert_tf.options import option
    from benchmarks.ablations.arms import PAIRS
    from benchmarks.blimp import judge_pairs, read_pairs
    from benchmarks.layer_similarity import mean_changes, sum_changes

_BATCH_SIZE = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """The options of the evaluation."""

    model_dir: str = option("Folder that run_pretraining.py trained.")
    spm_model_file: str = option("SentencePiece model of its vocabulary.")
    records_dir: str = option("Folder with train-NAME and held_out-NAME.tfrecord by objective.")
    objective: str = option("Sentence objective of the model.")
    output_file: str = option("JSON file to write.")
    max_seq_length: int = option("Pieces in a sequence.")
    max_predictions_per_seq: int = option("Most masked pieces in a sequence.")
    eval_sequences: int = option("Held-out sequences to evaluate on.")
    probe_sequences: int = option("Training sequences to fit a linear probe to; 0: no probe.", 0)
    blimp_file: str | None = option("BLiMP's minimal pairs, JSON lines, compressed.", None)
    blimp_pairs: int = option("Pairs of each paradigm.", 50)


class Model:
    """A pre-trained model and the outputs for a batch."""

    def __init__(self, model_dir: str, objective: str):
        config = albert_tf.AlbertConfig.from_json_file(
            os.path.join(model_dir, "albert_config.json")
        )
        self.pretrainer = albert_tf.AlbertPretrainer(
            albert_tf.AlbertEncoder(config), sentence_head=objective != "none"
        )
        best = os.path.join(model_dir, "best")
        albert_tf.load_checkpoint(self.pretrainer, best).check_complete()

    @tf.function(reduce_retracing=True, autograph=False)
    def predict(self, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns sums of the masked LM, the pair's labels and representation, and layer distances."""
        encoder = self.pretrainer.encoder
        encoded = encoder(batch)
        logits = self.pretrainer.masked_lm_head(
            encoded["sequence_output"],
            batch["masked_lm_positions"],
            encoder.embedding.word_embeddings,
        )
        ids, weights = batch["masked_lm_ids"], batch["masked_lm_weights"]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(ids, logits)
        correct = tf.cast(tf.argmax(logits, -1, ids.dtype) == ids, tf.float32)
        outputs = {
            "count": tf.reduce_sum(weights),
            "loss": tf.reduce_sum(weights * losses),
            "correct": tf.reduce_sum(weights * correct),
            **sum_changes(encoder, batch, encoded["encoder_outputs"]),
            "labels": batch["next_sentence_labels"][:, 0],
            "pooled": encoded["pooled_output"],
        }
        head = self.pretrainer.sentence_order_head
        if head is not None:
            outputs["sentence"] = tf.argmax(head(encoded["pooled_output"]), -1)
        return outputs


def evaluate(options: EvaluationOptions) -> dict[str, Any]:
    """Returns the metrics of a model."""
    model = Model(options.model_dir, options.objective)
    own = _predict(model, options, f"held_out-{options.objective}", options.eval_sequences)
    changes = mean_changes(own)
    metrics: dict[str, Any] = {
        "parameters": model.pretrainer.encoder.count_params(),
        "masked_lm_loss": float(own["loss"] / own["count"]),
        "masked_lm_accuracy": float(own["correct"] / own["count"]),
        "layer_distances": changes.distances.tolist(),
        "layer_degrees": changes.degrees.tolist(),
    }
    for name in PAIRS:
        if name == options.objective:
            metrics[f"{name}_accuracy"] = float(np.mean(own["sentence"] == own["labels"]))
        elif options.probe_sequences:
            held_out = _predict(model, options, f"held_out-{name}", options.eval_sequences)
            train = _predict(model, options, f"train-{name}", options.probe_sequences)
            probe = LogisticRegression(max_iter=1000).fit(train["pooled"], train["labels"])
            metrics[f"{name}_accuracy"] = probe.score(held_out["pooled"], held_out["labels"])
    if options.blimp_file:
        tokenizer = albert_tf.AlbertTokenizer(options.spm_model_file)
        pairs = [
            pair
            for pair in read_pairs([options.blimp_file], options.blimp_pairs)
            # With [CLS] and [SEP]. All arms have the same vocabulary, so these are the same pairs.
            if max(len(tokenizer.encode(text)) for text in (pair.good, pair.bad)) + 2
            <= options.max_seq_length
        ]
        metrics["blimp"] = float(judge_pairs(model.pretrainer, tokenizer, pairs).mean())
        metrics["blimp_pairs"] = len(pairs)
    return metrics


def _predict(
    model: Model, options: EvaluationOptions, records: str, count: int
) -> dict[str, np.ndarray]:
    """Returns the outputs for the first records of a file: sums, and arrays (count, ...) of rows."""
    spec = pretraining_record(options.max_seq_length, options.max_predictions_per_seq)
    path = os.path.join(options.records_dir, f"{records}.tfrecord")
    dataset = tf.data.TFRecordDataset(path).take(count).batch(_BATCH_SIZE).map(spec.parse)
    collected = collections.defaultdict(list)
    for batch in dataset:
        for name, output in model.predict(batch).items():
            collected[name].append(output.numpy())
    rows = ("labels", "pooled", "sentence")
    return {
        name: np.concatenate(outputs) if name in rows else np.sum(outputs, axis=0)
        for name, outputs in collected.items()
    }


def _main(options: EvaluationOptions) -> None:
    files.write_json(options.output_file, evaluate(options))


if __name__ == "__main__":
    command_line.run(EvaluationOptions, _main)
