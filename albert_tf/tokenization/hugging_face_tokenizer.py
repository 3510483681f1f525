"""Writes a tokenizer as the JSON files that Hugging Face's `AutoTokenizer` reads, without that library.

`tokenizer.json` describes a pipeline of the `tokenizers` library: normalizers that repeat ours and
SentencePiece's own, and the same unigram or WordPiece model. docs/fidelity.md lists what still differs.
"""

import importlib.util
import json
from collections.abc import Iterable
from typing import Any

import numpy as np
from sentencepiece import sentencepiece_model_pb2

from albert_tf import files
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError, warn
from albert_tf.model_folder import OWN
from albert_tf.tokenization.interface import Tokenizer
from albert_tf.tokenization.normalizers import sentencepiece_normalizers, wordpiece_normalizers
from albert_tf.tokenization.rule_notes import note_rules
from albert_tf.tokenization.sentencepiece_tokenizer import WORD_MARK, AlbertTokenizer
from albert_tf.tokenization.special_pieces import SENTENCEPIECE, WORDPIECE, SpecialPieces
from albert_tf.tokenization.tokenizer_settings import TOKENIZER_CONFIG_FILE, TOKENIZER_FILE
from albert_tf.tokenization.wordpiece_lines import UNREACHED
from albert_tf.tokenization.wordpiece_tokenizer import (
    CONTINUATION_MARK,
    MAX_WORD_LENGTH,
    WordPieceTokenizer,
)

_PieceType = sentencepiece_model_pb2.ModelProto.SentencePiece
# Lower than the score of any path of other pieces.
_NEVER = -1e4
# SentencePiece's score of user-defined pieces, whatever the model says.
_USER_DEFINED = -0.1

_CHECKED_LINES, _PIECES_PER_LINE = 200, 20

_Json = dict[str, Any]


def tokenizer_files(
    tokenizer: Tokenizer, config: AlbertConfig, kind: Any = None
) -> dict[str, bytes]:
    """Returns the tokenizer's files of a model's folder, name -> content.

    They are those of `hugging_face_files` or, with a warning, the vocabulary and its case alone, if
    Hugging Face has no such tokenizer. Texts are truncated as the model's `albert_tf.kinds.Kind` does;
    without one, or if it has windows, at the model's number of positions.
    """
    is_cut = kind is not None and (kind.reads_one_sequence or kind.num_choices)
    max_length = kind.max_seq_length if is_cut else config.max_position_embeddings
    try:
        return hugging_face_files(tokenizer, max_length)
    except InputError as error:
        warn(f"no {TOKENIZER_FILE}: {error}")
        return vocabulary_contents(tokenizer)


def vocabulary_contents(tokenizer: Tokenizer) -> dict[str, bytes]:
    """Returns a file with the vocabulary, and one with its case and rules, name -> content."""
    case = files.to_json(_case_and_rules(tokenizer))
    return {tokenizer.file_name: tokenizer.vocabulary, TOKENIZER_CONFIG_FILE: case.encode()}


def _case_and_rules(tokenizer: Tokenizer) -> _Json:
    """Returns the keys of `tokenizer_config.json` that a tokenizer of ours is made of again."""
    is_wordpiece = isinstance(tokenizer, WordPieceTokenizer)
    keep_accents = isinstance(tokenizer, AlbertTokenizer) and tokenizer.keep_accents
    note = note_rules(is_wordpiece, tokenizer.lower_case, keep_accents)
    return {"do_lower_case": tokenizer.lower_case, OWN: note}


def hugging_face_files(tokenizer: Tokenizer, max_length: int) -> dict[str, bytes]:
    """Returns the tokenizer's files of a Hugging Face folder, name -> content.

    Longer texts than `max_length` are truncated.
    """
    if isinstance(tokenizer, AlbertTokenizer):
        names, pipeline = SENTENCEPIECE, _sentencepiece_pipeline(tokenizer)
    else:
        assert isinstance(tokenizer, WordPieceTokenizer)
        names, pipeline = WORDPIECE, _wordpiece_pipeline(tokenizer)
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added_tokens(tokenizer, names),
        **pipeline,
        "post_processor": _post_processor(tokenizer, names),
    }
    config = {
        # With an `AlbertTokenizer`, `transformers` would rebuild parts of the pipeline itself.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "model_max_length": max_length,
        "clean_up_tokenization_spaces": False,
        **_case_and_rules(tokenizer),
        "bos_token": names.cls,
        "eos_token": names.sep,
        **{f"{role}_token": name for role, name in names._asdict().items()},
    }
    return {
        tokenizer.file_name: tokenizer.vocabulary,
        TOKENIZER_FILE: json.dumps(content, ensure_ascii=False).encode(),
        TOKENIZER_CONFIG_FILE: files.to_json(config).encode(),
    }


def check_hugging_face_files(contents: dict[str, bytes], tokenizer: Tokenizer) -> str:
    """Compares the ids of lines made of the vocabulary's pieces, if `tokenizers` is installed.

    Returns the result in one line.
    """
    if importlib.util.find_spec("tokenizers") is None:
        return f"{TOKENIZER_FILE}: not checked, as the library tokenizers is not installed"
    import tokenizers

    theirs = tokenizers.Tokenizer.from_str(contents[TOKENIZER_FILE].decode())
    ids = np.random.default_rng(0).choice(
        tokenizer.ordinary_ids, (_CHECKED_LINES, _PIECES_PER_LINE)
    )
    lines = [tokenizer.decode(row) for row in ids.tolist()]
    received = [encoding.ids for encoding in theirs.encode_batch(lines, add_special_tokens=False)]
    pairs = zip(received, tokenizer.encode_batch(lines), strict=True)
    different = sum(received != expected for received, expected in pairs)
    return f"{TOKENIZER_FILE}: {different} of {len(lines)} lines get other ids from tokenizers"


def _added_tokens(tokenizer: Tokenizer, names: SpecialPieces) -> list[_Json]:
    normalized: list[int] = []
    raw = [*tokenizer.special_ids]
    if isinstance(tokenizer, WordPieceTokenizer):
        normalized += tokenizer.added.normalized.values()
        raw += tokenizer.added.raw.values()
    return [
        {
            "id": id_,
            "content": tokenizer.pieces[id_],
            "single_word": False,
            # As in ALBERT's first `tokenizer.json`, the mask includes the space before it.
            "lstrip": tokenizer.pieces[id_] == names.mask,
            "rstrip": False,
            "normalized": id_ in normalized,
            "special": id_ not in normalized,
        }
        for id_ in sorted((*normalized, *raw))
    ]


def _post_processor(tokenizer: Tokenizer, names: SpecialPieces) -> _Json:
    def special(name: str, segment: int) -> _Json:
        return {"SpecialToken": {"id": name, "type_id": segment}}

    def text(which: str, segment: int) -> _Json:
        return {"Sequence": {"id": which, "type_id": segment}}

    single = [special(names.cls, 0), text("A", 0), special(names.sep, 0)]
    ids = {names.cls: tokenizer.cls_id, names.sep: tokenizer.sep_id}
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, text("B", 1), special(names.sep, 1)],
        "special_tokens": {
            name: {"id": name, "ids": [id_], "tokens": [name]} for name, id_ in ids.items()
        },
    }


def _sentencepiece_pipeline(tokenizer: AlbertTokenizer) -> _Json:
    model = sentencepiece_model_pb2.ModelProto.FromString(tokenizer.vocabulary)
    _check_model(model, tokenizer.vocabulary_file)
    # Of a text with special pieces in it, only the first part begins with a word mark of its own.
    metaspace = {
        "type": "Metaspace",
        "replacement": WORD_MARK,
        "prepend_scheme": "first",
        "split": False,
    }
    vocabulary = [
        [piece.piece, _NEVER if id_ in tokenizer.digit_comma_splits else _score(piece)]
        for id_, piece in enumerate(model.pieces)
    ]
    normalizers = sentencepiece_normalizers(
        lower_case=tokenizer.lower_case,
        keep_accents=tokenizer.keep_accents,
        charsmap=model.normalizer_spec.precompiled_charsmap,
        composes="nfkc" in model.normalizer_spec.name,
    )
    return {
        "normalizer": _sequence(normalizers),
        "pre_tokenizer": metaspace,
        "decoder": metaspace,
        "model": {
            "type": "Unigram",
            "unk_id": tokenizer.unk_id,
            "vocab": vocabulary,
            "byte_fallback": False,
        },
    }


def _check_model(model: sentencepiece_model_pb2.ModelProto, model_file: str) -> None:
    """Raises an `InputError` if a model needs other settings than ALBERT's."""
    trainer, normalizer = model.trainer_spec, model.normalizer_spec
    settings = (
        ("model_type", trainer.ModelType.Name(trainer.model_type), "UNIGRAM"),
        ("byte_fallback", trainer.byte_fallback, False),
        ("treat_whitespace_as_suffix", trainer.treat_whitespace_as_suffix, False),
        ("add_dummy_prefix", normalizer.add_dummy_prefix, True),
        ("remove_extra_whitespaces", normalizer.remove_extra_whitespaces, True),
        ("escape_whitespaces", normalizer.escape_whitespaces, True),
    )
    for name, value, expected in settings:
        if value != expected:
            raise InputError(
                f"{model_file}: its {name} is {value}; {TOKENIZER_FILE} supports only {expected}"
            )


def _score(piece: sentencepiece_model_pb2.ModelProto.SentencePiece) -> float:
    if piece.type == _PieceType.USER_DEFINED:
        return _USER_DEFINED
    return piece.score if piece.type == _PieceType.NORMAL else _NEVER


def _wordpiece_pipeline(tokenizer: WordPieceTokenizer) -> _Json:
    if tokenizer.added.ids and UNREACHED in tokenizer.pieces:
        raise InputError(
            f"{tokenizer.vocabulary_file}: has added tokens, and lines without a piece; "
            f"{TOKENIZER_FILE} supports only one of both"
        )
    return {
        "normalizer": _sequence(wordpiece_normalizers(tokenizer.lower_case)),
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": CONTINUATION_MARK, "cleanup": False},
        "model": {
            "type": "WordPiece",
            "unk_token": WORDPIECE.unk,
            "continuing_subword_prefix": CONTINUATION_MARK,
            "max_input_chars_per_word": MAX_WORD_LENGTH,
            # The library numbers added tokens at the end itself, from the number of these on.
            "vocab": {
                piece: id_
                for id_, piece in enumerate(tokenizer.pieces[: tokenizer.added.num_spelled])
                if piece != UNREACHED
            },
        },
    }


def _sequence(normalizers: Iterable[_Json]) -> _Json:
    return {"type": "Sequence", "normalizers": list(normalizers)}
