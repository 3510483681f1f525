"""Puts the tokenizer into a model for OpenVINO, so that it takes text.

OpenVINO's own operators handle the strings: its normaliser applies the rules of
`albert_tf.tokenization.normalization`, and its SentencePiece splits the result. The rest is converted
from TensorFlow, with the rules that SavedModels for text follow.
"""

import tempfile
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from albert_tf.export.saved_models import trace
from albert_tf.tokenization import AlbertTokenizer
from albert_tf.tokenization.character_tables import mark_order_replacements
from albert_tf.tokenization.graph_normalization import Replacements
from albert_tf.tokenization.lower_case import sigma_replacements
from albert_tf.tokenization.packing import pack_inputs
from albert_tf.tokenization.sentencepiece_characters import compile_charsmap

if TYPE_CHECKING:
    import openvino

# The three tensors of a sparse matrix, in which the pieces of B texts come.
_PIECES = {
    "indices": ([None, 2], tf.int64),
    "values": ([None], tf.int32),
    "shape": ([2], tf.int64),
}


def add_tokenizer(
    model: "openvino.Model", tokenizer: AlbertTokenizer, names: Sequence[str], max_seq_length: int
) -> "openvino.Model":
    """Returns a model of texts, string (B,) each: of a text or, with two names, of pairs.

    `model`, which is used up, maps ids (B, S) to predictions.
    """
    import openvino

    packing = _convert_packing(tokenizer, names, max_seq_length)
    split = _splitter(tokenizer)
    texts: list[openvino.op.Parameter] = []
    pieces: dict[str, openvino.Output] = {}
    for name in names:
        text = openvino.op.Parameter(openvino.Type.string, openvino.PartialShape([-1]))
        text.set_friendly_name(name)
        text.output(0).set_names({name})
        texts.append(text)
        outputs = split(text.output(0))
        pieces |= {f"{name}_{part}": out for part, out in zip(_PIECES, outputs, strict=True)}
    _connect(packing, pieces)
    packed = {out.get_any_name(): out.get_node().input_value(0) for out in packing.outputs}
    _connect(model, packed)
    return openvino.Model(model.get_results(), texts, "text_model")


def _connect(model: "openvino.Model", sources: dict[str, "openvino.Output"]) -> None:
    for parameter in model.get_parameters():
        parameter.output(0).replace(sources[parameter.output(0).get_any_name()])


def _splitter(
    tokenizer: AlbertTokenizer,
) -> Callable[["openvino.Output"], Sequence["openvino.Output"]]:
    """Returns a function that splits texts, string (n,), into the ids of pieces, as a sparse matrix."""
    from openvino import opset15
    from openvino_tokenizers import _get_factory
    from openvino_tokenizers.utils import create_string_constant_node

    def bytes_constant(content: bytes):
        return opset15.constant(np.frombuffer(content, np.uint8)).output(0)

    factory = _get_factory()
    replaced = [*mark_order_replacements(group="$")] if tokenizer.keep_accents else []
    if tokenizer.lower_case:
        replaced += sigma_replacements(group="$")
    charsmap = bytes_constant(compile_charsmap(tokenizer.lower_case, tokenizer.keep_accents))
    vocabulary = bytes_constant(tokenizer.vocabulary)
    replacements = [
        [*create_string_constant_node(pattern), *create_string_constant_node(new)]
        for pattern, new in replaced
    ]

    def split(text):
        parts = opset15.string_tensor_unpack(text).outputs()
        parts = factory.create(
            "CharsMapNormalization",
            [*parts, charsmap],
            {
                "normalization_form": "",
                "add_dummy_prefix": False,
                "remove_extra_whitespaces": True,
                "escape_whitespaces": False,
                "case_fold": False,
                "nmt": False,
            },
        ).outputs()
        for replacement in replacements:
            parts = factory.create(
                "RegexNormalization", [*parts, *replacement], {"global_replace": True}
            ).outputs()
        return factory.create(
            "SentencepieceTokenizer",
            [vocabulary, opset15.string_tensor_pack(*parts).output(0)],
            {"add_bos": False, "add_eos": False, "reverse": False, "alpha": 1.0, "nbest_size": 1},
        ).outputs()

    return split


def _convert_packing(
    tokenizer: AlbertTokenizer, names: Sequence[str], max_seq_length: int
) -> "openvino.Model":
    """Converts what maps the pieces of texts to the inputs of a model."""
    digit_commas = Replacements(tokenizer.digit_comma_splits, compress=False)

    def ids_of(indices, values, shape):
        # OpenVINO finds wrong places in an empty vector, so there is one more number, beyond all rows.
        rows = tf.concat([indices[:, 0], shape[:1]], axis=0)
        row_splits = tf.searchsorted(rows, tf.range(shape[0] + 1), out_type=tf.int64)
        return digit_commas.replace(values).to_ragged(row_splits)

    def pack(**pieces):
        ids = [ids_of(*(pieces[f"{name}_{part}"] for part in _PIECES)) for name in names]
        ids_a, ids_b = ids if len(ids) == 2 else (ids[0], None)
        return pack_inputs(
            ids_a,
            ids_b,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            max_seq_length=max_seq_length,
        )

    parts = {f"{name}_{part}": spec for name in names for part, spec in _PIECES.items()}
    module = tf.Module()
    module.serve = trace(pack, **{key: tf.TensorSpec(*spec, key) for key, spec in parts.items()})
    return convert_to_openvino(module)


def convert_to_openvino(module: tf.Module) -> "openvino.Model":
    """Converts a module; the inputs and outputs of its `serve` keep their names."""
    import openvino
    from openvino import opset15
    from openvino.frontend.tensorflow import ConversionExtension

    def search(node, right_mode: bool):
        # TensorFlow leaves out an attribute that has its default.
        is_int64 = "64" in str(node.get_attribute("out_type", "i32"))
        found = opset15.search_sorted(node.get_input(0), node.get_input(1), right_mode=right_mode)
        return opset15.convert(found, "i64" if is_int64 else "i32").outputs()

    # The two forms of `tf.searchsorted`, which the converter does not know.
    extensions = [
        ConversionExtension("LowerBound", lambda node: search(node, right_mode=False)),
        ConversionExtension("UpperBound", lambda node: search(node, right_mode=True)),
    ]
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, signatures=module.serve)
        return openvino.convert_model(folder, extension=extensions)
