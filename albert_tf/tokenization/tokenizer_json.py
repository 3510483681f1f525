"""Reads the `tokenizer.json` of the library tokenizers: its vocabulary, and whether its rules are ours.

The file describes a pipeline: normalizers, a splitter into words, a model with the vocabulary, and a
processor that adds the special pieces. Ours are fixed, so each part has to be one that gives the same
ids, up to what docs/fidelity.md lists.

A WordPiece vocabulary gives the ids of the library. A unigram vocabulary becomes the SentencePiece model
that it was made of, with the ids of that model.
"""

import base64
import contextlib
import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from sentencepiece import sentencepiece_model_pb2

from albert_tf import files
from albert_tf.accounting import account_for, check_object, check_value, is_keras_hub, shown
from albert_tf.errors import InputError
from albert_tf.known_files import (
    BERT_NORMALIZER,
    ONLY_TYPE,
    SPLIT_WORD_MARKS,
    TOKENIZER,
    TRUNCATION,
    UNIGRAM,
    WORD_MARKS,
    WORDPIECE,
)
from albert_tf.options import check_layout
from albert_tf.tokenization.normalizers import sentencepiece_normalizers, wordpiece_normalizers
from albert_tf.tokenization.sentencepiece_models import mark_accents

# The models that we have, and the flag that names each.
_KINDS = {"Unigram": "--spm_model_file", "WordPiece": "--vocab_file"}
# The keys by which the library tells a WordPiece model without a type, as its older versions wrote it.
_WORDPIECE_KEYS = {"unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"}
# Normalizers of ALBERT's tokenizers, those of transformers and ours, in their order.
_NORMALIZERS = ("NFKD", "StripAccents", "Lowercase", "NFC", "Precompiled", "Strip")
# The replacements in the ALBERT tokenizers of transformers, of which ours needs none.
_REPLACEMENTS = ({"String": "``"}, {"String": "''"}, {"Regex": " {2,}"})
# The pre-tokenizers of a unigram model that put the word marks where ours does, and their keys.
_WORD_MARKERS = {
    ("Metaspace",): (WORD_MARKS,),
    ("WhitespaceSplit", "Metaspace"): (ONLY_TYPE, SPLIT_WORD_MARKS),
}
_MAX_PIECES = 10_000_000
# The roles of the pieces that begin and end a text, whose ids `Tokenizer` finds by name.
_BEGIN, _END = "[CLS]", "[SEP]"

# BERT's normalizer as the library tokenizers reads it.
_BERT_NORMALIZER_LAYOUT = {
    "lowercase": bool,
    "handle_chinese_chars": bool,
    "clean_text?": bool,
    "strip_accents?": bool | None,
}

_PieceType = sentencepiece_model_pb2.ModelProto.SentencePiece


@dataclasses.dataclass(frozen=True)
class TokenizerJson:
    """A `tokenizer.json` whose model is one of ours.

    Attributes:
        path: the file, for messages.
        values: its content.
        kind: the type of the model, a key of `_KINDS`.
    """

    path: str
    values: Mapping[str, Any]
    kind: str

    @classmethod
    def parse(cls, content: bytes, path: str) -> Self | None:
        """Returns what a file holds; None if it is a vocabulary in another format, or KerasHub's.

        Raises:
            InputError: it has a model of another type, or is damaged.
        """
        try:
            values = check_object(files.parse_json(content, path), f"{path}: ")
        except InputError:
            if path.endswith(".json"):
                raise
            return None
        if is_keras_hub(values):
            return None
        model = check_object(values.get("model"), f"{path}: model: ")
        kind = model.get("type", _untyped_kind(model))
        check_value(key="type", value=kind, accepted=(*_KINDS,), place=f"{path}: model: ")
        return cls(path, values, kind)

    @property
    def is_wordpiece(self) -> bool:
        """Whether the vocabulary is one of WordPiece, and not a unigram model."""
        return self.kind == "WordPiece"

    def check_kind(self, expected: str) -> None:
        """Raises an `InputError` if the model is of another type."""
        if self.kind != expected:
            raise InputError(
                f"{self.path}: holds a {self.kind} vocabulary, expected {expected}; "
                f"{_KINDS[self.kind]} names it"
            )

    @functools.cached_property
    def _normalizers(self) -> Sequence[Mapping[str, Any]]:
        """The normalizers, of which there may be nested sequences."""
        unread = [self.values.get("normalizer") or {"type": "Sequence", "normalizers": []}]
        normalizers = []
        with self._described():
            while unread:
                one = unread.pop(0)
                if one["type"] == "Sequence":
                    unread[:0] = one["normalizers"]
                else:
                    normalizers.append(one)
        return normalizers

    @property
    def lower_case(self) -> bool:
        """Whether text is lower-cased."""
        return any(one["type"] == "Lowercase" or one.get("lowercase") for one in self._normalizers)

    @property
    def keep_accents(self) -> bool:
        """Whether a unigram vocabulary is of text with accents."""
        return not any(one["type"] in ("NFKD", "StripAccents") for one in self._normalizers)

    @property
    def added_tokens(self) -> list[tuple[Mapping[str, Any], int]]:
        """The tokens that are cut out of a text before its words are split, with flags, and their ids."""
        with self._described():
            tokens = self.values.get("added_tokens") or ()
            return [(token, token["id"]) for token in tokens if token["content"]]

    @property
    def pieces(self) -> list[str]:
        """The pieces in the order of their ids; an id without a piece has the piece ''."""
        vocabulary = self.values["model"].get("vocab")
        with self._described():
            if not self.is_wordpiece:
                return [piece for piece, _ in vocabulary]
            by_id = {id_: piece for piece, id_ in vocabulary.items()}
            if len(by_id) == len(vocabulary) and min(by_id) >= 0 and max(by_id) < _MAX_PIECES:
                return [by_id.get(id_, "") for id_ in range(max(by_id) + 1)]
        raise InputError(
            f"{self.path}: vocab gives one id to two pieces, or one that cannot be; expected an id of "
            f"its own, from 0 to {_MAX_PIECES}, for each piece"
        )

    def to_vocabulary(self) -> bytes:
        """Returns the content of a `vocab.txt` with the pieces of a WordPiece vocabulary."""
        # No word has white space, so no text becomes such a piece, and its line has to stay one.
        lines = ("" if re.search(r"\s", piece) else piece for piece in self.pieces)
        return "".join(f"{line}\n" for line in lines).encode()

    def to_sentencepiece(self) -> bytes:
        """Returns the SentencePiece model that a unigram vocabulary was made of."""
        model = sentencepiece_model_pb2.ModelProto()
        with self._described():
            kinds = {
                token["content"]: (
                    _PieceType.CONTROL if token["special"] else _PieceType.USER_DEFINED
                )
                for token in self.values.get("added_tokens") or ()
            }
            unk_id = self.values["model"]["unk_id"]
            for id_, (piece, score) in enumerate(self.values["model"]["vocab"]):
                kind = _PieceType.UNKNOWN if id_ == unk_id else kinds.get(piece, _PieceType.NORMAL)
                model.pieces.add(piece=piece, score=score, type=kind)
            trainer = model.trainer_spec
            trainer.model_type = trainer.UNIGRAM
            trainer.vocab_size, trainer.unk_id = len(model.pieces), unk_id
            trainer.bos_id = trainer.eos_id = trainer.pad_id = -1
        if self.charsmap:
            model.normalizer_spec.precompiled_charsmap = self.charsmap
        content = model.SerializeToString()
        return mark_accents(content) if self.keep_accents else content

    @property
    def charsmap(self) -> bytes:
        """SentencePiece's table of replacements; empty if there is none."""
        with self._described():
            encoded = [one["precompiled_charsmap"] for one in self._of_type("Precompiled")]
            return base64.b64decode(encoded[0] or "") if encoded else b""

    def _of_type(self, name: str) -> list[Mapping[str, Any]]:
        return [one for one in self._normalizers if one["type"] == name]

    def check_rules(self) -> None:
        """Raises an `InputError` if a part of the pipeline gives other ids than our rules."""
        account_for(self.values, TOKENIZER, self.path)
        rows = WORDPIECE if self.is_wordpiece else UNIGRAM
        account_for(self.values["model"], rows, f"{self.path}: model")
        account_for(self.values.get("truncation") or {}, TRUNCATION, f"{self.path}: truncation")
        with self._described():
            if self.is_wordpiece:
                self._check_words()
            else:
                self._check_unigram()
            self._check_special_pieces()

    def _check_words(self) -> None:
        splitter = (self.values.get("pre_tokenizer") or {}).get("type")
        if splitter != "BertPreTokenizer":
            raise InputError(
                f"{self.path}: has the pre-tokenizer {splitter}; expected BertPreTokenizer"
            )
        is_ours = self._of_type("Replace") and self._normalizers == [
            *wordpiece_normalizers(self.lower_case)
        ]
        if is_ours:
            return
        names = [one["type"] for one in self._normalizers]
        if names != ["BertNormalizer"]:
            raise InputError(
                f"{self.path}: has the normalizers {', '.join(names)}; expected BertNormalizer"
            )
        (one,) = self._normalizers
        check_layout(one, _BERT_NORMALIZER_LAYOUT, self.path, "normalizer")
        if (
            one.get("strip_accents") not in (None, one["lowercase"])
            or not (one["handle_chinese_chars"])
        ):
            raise InputError(
                f"{self.path}: its normalizer treats accents or Chinese characters otherwise than "
                "BERT's; expected strip_accents like lowercase, and handle_chinese_chars"
            )
        account_for(one, BERT_NORMALIZER, f"{self.path}: normalizer")

    def _check_unigram(self) -> None:
        unknown = self.pieces[self.values["model"]["unk_id"]]
        if unknown != "<unk>":
            raise InputError(
                f"{self.path}: unk_id is the id of {unknown!r}; expected that of <unk>"
            )
        names = [one["type"] for one in self._normalizers if one["type"] != "Replace"]
        if others := set(names) - set(_NORMALIZERS):
            raise InputError(
                f"{self.path}: has the normalizer {min(others)}; save spiece.model of the original model "
                "beside it"
            )
        drops_accents = "StripAccents" in names or "Strip" in names  # ours ends in Strip
        if names != [name for name in _NORMALIZERS if name in names] or (
            ("NFKD" in names or "StripAccents" in names) and not ("NFKD" in names and drops_accents)
        ):
            raise InputError(
                f"{self.path}: has the normalizers {', '.join(names)}; expected them in the order of an "
                "AlbertTokenizer, and NFKD with StripAccents"
            )
        self._check_replacements()
        splitter = self.values.get("pre_tokenizer") or {"type": "Sequence", "pretokenizers": []}
        parts = splitter["pretokenizers"] if splitter["type"] == "Sequence" else [splitter]
        types = tuple(part["type"] for part in parts)
        if types not in _WORD_MARKERS:
            raise InputError(
                f"{self.path}: pre_tokenizer is {', '.join(map(str, types)) or 'empty'}; expected "
                f"{' or '.join(map(', '.join, _WORD_MARKERS))}"
            )
        for part, rows in zip(parts, _WORD_MARKERS[types], strict=True):
            account_for(part, rows, f"{self.path}: pre_tokenizer")

    def _check_replacements(self) -> None:
        others = [one for one in self._of_type("Replace") if one["pattern"] not in _REPLACEMENTS]
        if not others:
            return
        ours = sentencepiece_normalizers(
            lower_case=self.lower_case, keep_accents=self.keep_accents, charsmap=b"", composes=False
        )
        known = [one for one in ours if one["type"] == "Replace"]
        for one in others:
            if one not in known:
                raise InputError(
                    f"{self.path}: its normalizer replaces {shown(one['pattern'])}; expected the "
                    "replacements of an AlbertTokenizer"
                )

    def _check_special_pieces(self) -> None:
        """Checks that a text is [CLS] A [SEP], and a pair [CLS] A [SEP] B [SEP] with its segments."""
        # Without one no special pieces are added; only some classes of transformers 5 then set theirs.
        processor = self.values.get("post_processor") or {"type": None}
        pieces = self.pieces
        begin, end = pieces.index(_BEGIN), pieces.index(_END)
        if processor["type"] == "BertProcessing":
            received = [processor["cls"], processor["sep"]]
            is_ours = [*map(list, received)] == [[_BEGIN, begin], [_END, end]]
        else:
            ids = {name: one["ids"] for name, one in processor.get("special_tokens", {}).items()}
            pair = [(_BEGIN, 0), ("A", 0), (_END, 0), ("B", 1), (_END, 1)]
            is_ours = (
                processor["type"] == "TemplateProcessing"
                and [*_template(processor["single"])] == pair[:3]
                and [*_template(processor["pair"])] == pair
                and ids == {_BEGIN: [begin], _END: [end]}
            )
        if not is_ours:
            raise InputError(
                f"{self.path}: post_processor adds no or other special pieces, or in other places; "
                f"expected {_BEGIN} A {_END} and {_BEGIN} A {_END} B {_END}, whose segments are 0 and 1"
            )

    @contextlib.contextmanager
    def _described(self) -> Iterator[None]:
        """Makes an `InputError` of whatever happens where an object has another form than it should."""
        try:
            yield
        except InputError:
            raise
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{self.path}: does not describe a tokenizer as expected: {type(error).__name__}: {error}"
            ) from error


def _untyped_kind(model: Mapping[str, Any]) -> str | None:
    """Returns the type of a model without `type`, as the library determines it; None if not ours."""
    if isinstance(model.get("vocab"), list):
        return "Unigram"
    return "WordPiece" if model.keys() >= _WORDPIECE_KEYS and "merges" not in model else None


def _template(parts: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, int]]:
    """Yields the name and the segment of each part."""
    for part in parts:
        (content,) = part.values()
        yield content["id"], content["type_id"]
