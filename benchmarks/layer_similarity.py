"""Plots how much each layer changes the hidden states: figure 1 of the ALBERT paper.

Usage:
    python -m benchmarks.layer_similarity --init_checkpoint=albert/best,bert/best --input_file=text.txt \
        --output_file=layer_similarity.png

For each layer it takes the L2 distance and the angle between the layer's input and its output, means over
all tokens. The input of the first layer is the embedding, projected to H. Checkpoints may have any format
that `--init_checkpoint` of the scripts has; each needs its config next to it.
"""

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from albert_tf import command_line

with command_line.quiet_start():
    import numpy as np
    import tensorflow as tf

    from albert_tf import files
    from albert_tf.errors import InputError, name_place
    from albert_tf.models import AlbertEncoder
    from albert_tf.options import check_ranges, option
    from albert_tf.tasks.conversion import CheckpointOptions
    from albert_tf.tokenization import Tokenizer
    from benchmarks.harness import markdown_table
    from benchmarks.pretrained import load_pretrained, read_lines

_BATCH_SIZE = 16
_SPECIAL_PIECES = 2  # [CLS] and [SEP]


class LayerChanges(NamedTuple):
    """L2 distance and angle of each layer's input and output, float (L,), means over tokens."""

    distances: np.ndarray
    degrees: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerSimilarityOptions:
    """The options of this command."""

    init_checkpoint: tuple[str, ...] = option(
        "Checkpoints, or folders with one each. Their formats are detected."
    )
    labels: tuple[str, ...] | None = option("A name for each checkpoint. Default: its path.", None)
    spm_model_file: str | None = option(
        "SentencePiece model of all of them. Default: the one next to each checkpoint.", None
    )
    vocab_file: str | None = option("WordPiece vocabulary, instead of a SentencePiece model.", None)
    input_file: tuple[str, ...] = option("Text: files, glob patterns or folders, also compressed.")
    output_file: str = option("Picture to write, PNG.", "layer_similarity.png")
    max_seq_length: int = option("Pieces in a sequence.", 128, least=3)
    num_sequences: int = option("Number of sequences, from the start of the text.", 64, least=1)

    def __post_init__(self):
        check_ranges(self)
        if self.labels and len(self.labels) != len(self.init_checkpoint):
            raise InputError(
                f"--labels: received {len(self.labels)}; expected {len(self.init_checkpoint)}, one "
                "for each --init_checkpoint"
            )


def measure(encoder: AlbertEncoder, batches: Iterable[Mapping[str, tf.Tensor]]) -> LayerChanges:
    """Returns the changes of each layer for batches with `input_ids`, `input_mask`, `segment_ids`."""
    sums = tf.function(_sums, autograph=False, reduce_retracing=True)
    totals = collections.defaultdict(float)
    for batch in batches:
        inputs = {name: batch[name] for name in ("input_ids", "input_mask", "segment_ids")}
        for name, value in sums(encoder, inputs).items():
            totals[name] = totals[name] + value.numpy()
    tokens = totals["tokens"]
    return LayerChanges(totals["distance"] / tokens, np.degrees(totals["angle"] / tokens))


def _sums(encoder: AlbertEncoder, inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns sums over the tokens of a batch: `tokens`, and `distance` and `angle` (L,)."""
    _, hidden = encoder.embedding(inputs["input_ids"], inputs["segment_ids"])
    states = tf.stack([hidden, *encoder(inputs)["encoder_outputs"]])  # (L + 1, B, S, H)
    directions = tf.math.l2_normalize(states, axis=-1)
    before, after = directions[:-1], directions[1:]
    # The arccosine of a cosine near 1 would be inexact.
    angles = 2 * tf.atan2(tf.norm(after - before, axis=-1), tf.norm(after + before, axis=-1))
    tokens = tf.cast(inputs["input_mask"], tf.float32)
    return {
        "tokens": tf.reduce_sum(tokens),
        "distance": tf.reduce_sum(tokens * tf.norm(states[1:] - states[:-1], axis=-1), (1, 2)),
        "angle": tf.reduce_sum(tokens * angles, (1, 2)),
    }


def read_sequences(
    patterns: Sequence[str], tokenizer: Tokenizer, length: int, count: int
) -> np.ndarray:
    """Returns at most `count` full sequences from the start of a text, int32 (n, S)."""
    inner = length - _SPECIAL_PIECES
    ids: list[int] = []
    for _, _, line in read_lines(patterns):
        ids += tokenizer.encode(line)
        if len(ids) >= count * inner:
            break
    rows = min(count, len(ids) // inner)
    if not rows:
        raise InputError(f"holds {len(ids)} pieces; expected at least {inner}, for one sequence")
    pieces = np.array(ids[: rows * inner], np.int32).reshape(rows, inner)
    ends = ((0, 0), (1, 1))
    return np.pad(pieces, ends, constant_values=((0, 0), (tokenizer.cls_id, tokenizer.sep_id)))


def draw(changes: Mapping[str, LayerChanges], path: str) -> None:
    """Draws the changes of each model, by name, as PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.2), dpi=80, layout="constrained")
    panels = {"distances": "L2 distance", "degrees": "angle in degrees"}
    for axes, (name, title) in zip(figure.subplots(1, 2), panels.items(), strict=True):
        for label, of_model in changes.items():
            values = getattr(of_model, name)
            axes.plot(range(1, 1 + len(values)), values, ".-", label=label)
        axes.set(title=f"{title} of a layer's input and output", xlabel="layer")
        axes.set_ylim(bottom=0)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.3)
        axes.legend()
    files.write_picture(path, figure)


def table(changes: Mapping[str, LayerChanges]) -> str:
    """Returns distance and angle of each layer of each model."""
    depth = max(len(of_model.distances) for of_model in changes.values())
    header, columns = ["layer"], [[str(1 + layer) for layer in range(depth)]]
    for label, of_model in changes.items():
        header += [f"{label}: L2 distance", "angle, degrees"]
        for values in of_model:
            cells = [f"{value:.2f}" for value in values]
            columns.append(cells + [""] * (depth - len(cells)))
    return markdown_table(header, list(zip(*columns, strict=True)))


def _main(options: LayerSimilarityOptions) -> None:
    changes = {}
    for label, checkpoint in zip(
        options.labels or options.init_checkpoint, options.init_checkpoint, strict=True
    ):
        model, tokenizer = load_pretrained(
            CheckpointOptions(
                init_checkpoint=checkpoint,
                spm_model_file=options.spm_model_file,
                vocab_file=options.vocab_file,
            )
        )
        with name_place("--input_file"):
            input_ids = read_sequences(
                options.input_file, tokenizer, options.max_seq_length, options.num_sequences
            )
        full = {
            "input_ids": input_ids,
            "input_mask": np.ones_like(input_ids),
            "segment_ids": np.zeros_like(input_ids),
        }
        batches = tf.data.Dataset.from_tensor_slices(full).batch(_BATCH_SIZE)
        with name_place(f"--max_seq_length={options.max_seq_length}, {checkpoint}"):
            changes[label] = measure(getattr(model, "encoder", model), batches)
    draw(changes, options.output_file)
    print(f"{table(changes)}\n\nwrote {options.output_file}")


if __name__ == "__main__":
    command_line.run(LayerSimilarityOptions, _main)
