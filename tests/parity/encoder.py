"""The encoder's outputs, layer by layer."""

import keras
import numpy as np

from albert_tf.checkpoints.loading import load_checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.models import AlbertEncoder
from tests.helpers import shared_path, tiny_config
from tests.parity.difference import Difference, compare_numbers, count_unequal
from tests.parity.original import read_json

# Groups, blocks inside a group, both activations, E == H, and a config with dropout, which has no
# effect here.
CONFIGS = (
    *("g1_gelu", "g1_inner2_gelu", "g2_gelu", "g2_inner2_relu", "g5_relu"),
    *("e_eq_h_g1_relu", "e_eq_h_g2_gelu", "drop_in_config_g1_gelu"),
)


def compare_encoder(name: str) -> list[Difference]:
    """Compares every output of an encoder with a checkpoint of the original."""
    folder = shared_path(f"golden/encoder/{name}")
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
    of_empty = {
        "zeromask_all_encoder_layers": np.asarray(empty["encoder_outputs"]).swapaxes(0, 1),
        "zeromask_pooled_output": empty["pooled_output"],
    }
    expected = {key: golden[key] for key in of_empty}
    key = "zeromask_all_encoder_layers"
    expected[key] = expected[key].swapaxes(0, 1)
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
    pairs = [(f"{name}, {key}", output, golden[key]) for key, output in outputs.items()]
    pairs += [(f"{name}, {key}", x[:-1], expected[key][:-1]) for key, x in of_empty.items()]
    row_of_padding = [(f"{name}, {key}", x[-1], expected[key][-1]) for key, x in of_empty.items()]
    return [
        compare_numbers("encoder", pairs, atol=1e-5),
        # -10000 added to every score costs their last digits.
        compare_numbers("encoder, padding alone", row_of_padding, atol=2e-3),
    ]


def compare_groups() -> list[Difference]:
    """Compares each layer's group where floating point gives another one than whole numbers."""
    index = read_json("encoder/index.json")
    # All such cases of up to 48 layers.
    cases = index["group_index"]["differs_from_exact_integer_rule"]
    groups = []
    for case in cases:
        config = tiny_config(num_hidden_layers=case["layers"], num_hidden_groups=case["groups"])
        groups.append([config.group_of_layer(layer) for layer in range(case["layers"])])
    return [count_unequal("groups of layers", groups, [case["float_rule"] for case in cases])]
