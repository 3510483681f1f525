"""Puts the tokenizer into a model for OpenVINO, so that it takes text.

OpenVINO's own operators handle the strings: its normaliser applies our normalisation
(`albert_tf.tokenization.characters`), and its SentencePiece splits the result. The rest is converted from
TensorFlow, with the rules that SavedModels for text follow.

These models need the operators of the package openvino_tokenizers. They check nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from albert_tf.data.fine_tuning.packing import BLANK, pack_choices, pack_inputs
from albert_tf.export.runtimes import convert_to_openvino
from albert_tf.export.saved_models import trace
from albert_tf.tokenization import AlbertTokenizer
from albert_tf.tokenization.characters import (
    FINAL_SIGMA,
    LOWER_SIGMA,
    SIGMA,
    compile_charsmap,
    final_sigma_pattern,
)
from albert_tf.tokenization.graph_normalization import Replacements, places_in_rows

if TYPE_CHECKING:
    import openvino

# Maps the ids of each text, int32 (B, None), to the inputs of a model.
Pack = Callable[..., Mapping[str, tf.Tensor]]

# The three tensors of a sparse matrix, in which the pieces of B texts come.
_PIECES = ("indices", "values", "shape")  # int64 (n, 2), int32 (n,), int64 (2,)
# Of strings OpenVINO has: where each begins and ends, int32, and the bytes of all, uint8 (n,).
_STRINGS = ("begins", "ends", "bytes")


def add_text_tokenizer(
    model: "openvino.Model", tokenizer: AlbertTokenizer, max_seq_length: int, pairs: bool
) -> "openvino.Model":
    """Returns a model of `text_a` and, for pairs, `text_b`, string (B,) each.

    `model`, which is used up, maps ids (B, S) to predictions.
    """
    texts = [_text_input(name) for name in ("text_a", "text_b")[: 1 + pairs]]

    def pack(ids_a, ids_b=None):
        return pack_inputs(ids_a, ids_b, tokenizer.cls_id, tokenizer.sep_id, max_seq_length)

    return _add_tokenizer(model, tokenizer, texts, [text.output(0) for text in texts], pack)


def add_choice_tokenizer(
    model: "openvino.Model",
    tokenizer: AlbertTokenizer,
    num_choices: int,
    max_seq_length: int,
    max_qa_length: int,
) -> "openvino.Model":
    """Returns a model of `article` and `question`, string (B,), and `options`, string (B, C).

    `model`, which is used up, maps ids (B, C, S) to predictions. Question and option have at most
    `max_qa_length` tokens together.
    """
    from openvino import opset15

    article, question = _text_input("article"), _text_input("question")
    options = _text_input("options", num_choices)
    joined = _convert_join(num_choices)
    parts = {}
    for name, text in (("question", question), ("options", options)):
        outputs = opset15.string_tensor_unpack(text.output(0)).outputs()
        parts |= dict(zip(_names(name, _STRINGS), outputs, strict=True))
    _connect(joined, parts)
    sources = _sources(joined)
    choices = opset15.string_tensor_pack(*(sources[name] for name in _STRINGS))

    def pack(article_ids, joined_ids):
        packed = pack_choices(
            _repeat_rows(article_ids, num_choices),
            joined_ids,
            tokenizer.cls_id,
            tokenizer.sep_id,
            max_seq_length,
            max_qa_length,
        )
        return {
            name: tf.reshape(ids, [-1, num_choices, tf.shape(ids)[1]])
            for name, ids in packed.items()
        }

    texts = [article.output(0), choices.output(0)]
    return _add_tokenizer(model, tokenizer, [article, question, options], texts, pack)


def _text_input(name: str, *sizes: int) -> "openvino.op.Parameter":
    from openvino import PartialShape, Type, op

    parameter = op.Parameter(Type.string, PartialShape([-1, *sizes]))
    parameter.set_friendly_name(name)
    parameter.output(0).set_names({name})
    return parameter


def _add_tokenizer(
    model: "openvino.Model",
    tokenizer: AlbertTokenizer,
    inputs: Sequence["openvino.op.Parameter"],
    texts: Sequence["openvino.Output"],
    pack: Pack,
) -> "openvino.Model":
    """Joins the parts: texts, string (n,) each, to pieces, to the inputs of the model, to predictions."""
    import openvino

    packed = _convert_packing(tokenizer, len(texts), pack)
    split = _splitter(tokenizer)
    pieces = {}
    for number, text in enumerate(texts):
        pieces |= dict(zip(_names(f"text{number}", _PIECES), split(text), strict=True))
    _connect(packed, pieces)
    _connect(model, _sources(packed))
    return openvino.Model(model.get_results(), list(inputs), "text_model")


def _connect(model: "openvino.Model", sources: Mapping[str, "openvino.Output"]) -> None:
    for parameter in model.get_parameters():
        parameter.output(0).replace(sources[parameter.output(0).get_any_name()])


def _sources(model: "openvino.Model") -> dict[str, "openvino.Output"]:
    """Returns the nodes' outputs that a model returns, by name."""
    return {output.get_any_name(): output.get_node().input_value(0) for output in model.outputs}


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
    charsmap = bytes_constant(compile_charsmap(tokenizer.lower_case, tokenizer.keep_accents))
    vocabulary = bytes_constant(tokenizer.vocabulary)
    replacements = [(final_sigma_pattern(), f"$1{FINAL_SIGMA}$2"), (SIGMA, LOWER_SIGMA)]
    sigmas = [
        [*create_string_constant_node(pattern), *create_string_constant_node(new)]
        for pattern, new in (replacements if tokenizer.lower_case else ())
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
        for sigma in sigmas:
            parts = factory.create(
                "RegexNormalization", [*parts, *sigma], {"global_replace": True}
            ).outputs()
        return factory.create(
            "SentencepieceTokenizer",
            [vocabulary, opset15.string_tensor_pack(*parts).output(0)],
            {"add_bos": False, "add_eos": False, "reverse": False, "alpha": 1.0, "nbest_size": 1},
        ).outputs()

    return split


def _convert(
    function: Callable[..., Mapping[str, tf.Tensor]], specs: Mapping[str, tuple[list, tf.DType]]
) -> "openvino.Model":
    module = tf.Module()
    named = {name: tf.TensorSpec(*spec, name) for name, spec in specs.items()}
    module.serve = trace(function, **named)
    return convert_to_openvino(module)


def _names(text: str, parts: Sequence[str]) -> list[str]:
    return [f"{text}_{part}" for part in parts]


def _convert_packing(tokenizer: AlbertTokenizer, num_texts: int, pack: Pack) -> "openvino.Model":
    """Converts what maps the pieces of texts to the inputs of a model."""
    digit_commas = Replacements(tokenizer.digit_comma_splits, compress=False)

    def ids_of(indices, values, shape):
        # OpenVINO finds wrong places in an empty vector, so there is one more number, beyond all rows.
        rows = tf.concat([indices[:, 0], shape[:1]], axis=0)
        row_splits = tf.searchsorted(rows, tf.range(shape[0] + 1), out_type=tf.int64)
        return digit_commas.replace(values).in_rows(row_splits)

    names = [_names(f"text{number}", _PIECES) for number in range(num_texts)]

    def predict(**pieces):
        return pack(*(ids_of(*(pieces[name] for name in of_text)) for of_text in names))

    types = [([None, 2], tf.int64), ([None], tf.int32), ([2], tf.int64)]
    return _convert(
        predict, {key: spec for of in names for key, spec in zip(of, types, strict=True)}
    )


def _convert_join(num_choices: int) -> "openvino.Model":
    """Converts what joins each question with its options by the rule of `packing.join_choice`."""
    of_question, of_options = _names("question", _STRINGS), _names("options", _STRINGS)

    def predict(**parts):
        begins, ends, question_bytes = (parts[name] for name in of_question)
        begins = tf.repeat(begins, num_choices)
        lengths = tf.repeat(ends, num_choices) - begins
        option_begins, ends, option_bytes = (parts[name] for name in of_options)
        option_begins = tf.reshape(option_begins, [-1])
        option_lengths = tf.reshape(ends, [-1]) - option_begins

        # The bytes of each question, and its end, which an option follows if there is no blank.
        splits = tf.pad(tf.cumsum(tf.cast(lengths + 1, tf.int64)), [[1, 0]])
        rows, positions = places_in_rows(splits)
        positions = tf.cast(positions, tf.int32)
        is_end = positions == tf.gather(lengths, rows)
        found = _gather_bytes(question_bytes, tf.gather(begins, rows) + positions, ~is_end)
        is_blank = ~is_end & (found == ord(BLANK))
        blanks = tf.gather(tf.pad(tf.cumsum(tf.cast(is_blank, tf.int32)), [[1, 0]]), splits)
        follows = is_end & tf.gather(blanks[1:] == blanks[:-1], rows)

        # Each of these becomes itself, an option, a space and an option, or nothing.
        spaces = tf.cast(follows, tf.int32)
        new_lengths = tf.where(
            is_blank | follows,
            tf.gather(option_lengths, rows) + spaces,
            tf.where(is_end, 0, 1),
        )
        limits = tf.pad(tf.cumsum(tf.cast(new_lengths, tf.int64)), [[1, 0]])
        origins, offsets = places_in_rows(limits)
        offsets = tf.cast(offsets, tf.int32) - tf.gather(spaces, origins)
        is_option = tf.gather(is_blank | follows, origins) & (offsets >= 0)
        places = tf.gather(option_begins, tf.gather(rows, origins)) + offsets
        itself = tf.where(tf.gather(follows, origins), ord(" "), tf.gather(found, origins))
        joined = tf.where(is_option, _gather_bytes(option_bytes, places, is_option), itself)
        new_splits = tf.cast(tf.gather(limits, splits), tf.int32)
        outputs = new_splits[:-1], new_splits[1:], tf.cast(joined, tf.uint8)
        return dict(zip(_STRINGS, outputs, strict=True))

    specs = {}
    for names, shape in ((of_question, [None]), (of_options, [None, num_choices])):
        types = [(shape, tf.int32), (shape, tf.int32), ([None], tf.uint8)]
        specs |= dict(zip(names, types, strict=True))
    return _convert(predict, specs)


def _gather_bytes(of_all: tf.Tensor, places: tf.Tensor, is_there: tf.Tensor) -> tf.Tensor:
    """Returns the bytes at some places as int32 (n,); undefined where `is_there` is false."""
    padded = tf.pad(tf.cast(of_all, tf.int32), [[0, 1]])
    return tf.gather(padded, tf.where(is_there, places, 0))


def _repeat_rows(ids: tf.RaggedTensor, times: int) -> tf.RaggedTensor:
    """Repeats each row; `tf.gather` of a ragged tensor has no counterpart in OpenVINO."""
    splits = tf.pad(tf.cumsum(tf.repeat(ids.row_lengths(), times)), [[1, 0]])
    rows, positions = places_in_rows(splits)
    places = tf.gather(tf.repeat(ids.row_starts(), times), rows) + positions
    return tf.RaggedTensor.from_row_splits(tf.gather(ids.values, places), splits, validate=False)
