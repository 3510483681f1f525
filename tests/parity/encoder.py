"""The encoder's outputs, layer by layer."""

import pathlib

import keras
import numpy as np

from albert_tf.checkpoints.loading import load_checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.models import AlbertEncoder
from tests.parity.difference import Difference, compare_numbers

# Groups, blocks inside a group, both activations, E == H, and a config with dropout, which has no
# effect here.
CONFIGS = (
    "g1_gelu",
    "g1_inner2_gelu",
    "g2_gelu",
    "g2_inner2_relu",
    "g5_relu",
    "e_eq_h_g1_relu",
    "e_eq_h_g2_gelu",
    "drop_in_config_g1_gelu",
)


def compare_encoder(golden_dir: pathlib.Path, name: str) -> list[Difference]:
    """Compares every output of an encoder with a checkpoint of the original."""
    folder = golden_dir / "encoder" / name
    encoder = AlbertEncoder(AlbertConfig.from_json_file(str(folder / "albert_config.json")))
    load_checkpoint(encoder, str(folder / "ckpt_plain"))
    golden = np.load(folder / "io.npz")
    inputs = {key: golden[key] for key in ("input_ids", "input_mask", "segment_ids")}

    def encode(inputs):
        return keras.tree.map_structure(keras.ops.convert_to_numpy, encoder(inputs))

    full = encode(inputs)
    hole = encode({**inputs, "input_mask": golden["hole_input_mask"]})
    ids_alone = encode({"input_ids": golden["input_ids"]})
    # Its last row is padding alone.
    empty = encode({**inputs, "input_mask": golden["zeromask_input_mask"]})
    outputs = {
        "embedding_output": full["embedding_output"],
        "all_encoder_layers": full["encoder_outputs"],
        "sequence_output": full["sequence_output"],
        "pooled_output": full["pooled_output"],
        "hole_all_encoder_layers": hole["encoder_outputs"],
        "hole_pooled_output": hole["pooled_output"],
        "nomask_sequence_output": ids_alone["sequence_output"],
        "nomask_pooled_output": ids_alone["pooled_output"],
    }
    layers, expected_layers = (
        np.asarray(empty["encoder_outputs"]),
        golden["zeromask_all_encoder_layers"],
    )
    pooled, expected_pooled = np.asarray(empty["pooled_output"]), golden["zeromask_pooled_output"]
    rows_with_text = [
        ("zeromask_all_encoder_layers", layers[:, :-1], expected_layers[:, :-1]),
        ("zeromask_pooled_output", pooled[:-1], expected_pooled[:-1]),
    ]
    row_of_padding = [
        ("zeromask_all_encoder_layers", layers[:, -1], expected_layers[:, -1]),
        ("zeromask_pooled_output", pooled[-1], expected_pooled[-1]),
    ]
    pairs = [(key, output, golden[key]) for key, output in outputs.items()] + rows_with_text
    return [
        compare_numbers("encoder", name, pairs, atol=1e-5),
        # -10000 added to every score costs their last digits.
        compare_numbers("encoder", f"{name}, padding alone", row_of_padding, atol=2e-3),
    ]
