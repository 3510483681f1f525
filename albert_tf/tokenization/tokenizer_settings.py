"""What the files beside a vocabulary say of its tokenizer: case, pieces, and rules that ours lacks.

A tokenizer of Hugging Face's is in up to five files, several of which may say the same: the vocabulary,
`tokenizer.json`, `tokenizer_config.json`, `special_tokens_map.json` and `added_tokens.json`. Whatever
would give a text other ids than our tokenizers is refused by name.
"""

import dataclasses
import functools
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf.message import DecodeError
from sentencepiece import sentencepiece_model_pb2

from albert_tf import files
from albert_tf.accounting import account_for, check_object, check_value, shown
from albert_tf.errors import InputError, warn
from albert_tf.known_files import (
    GENERIC_CLASSES,
    SENTENCEPIECE_CLASSES,
    SPECIAL_TOKENS,
    TOKENIZER_CONFIG,
    WORDPIECE_CLASSES,
    Rows,
)
from albert_tf.model_folder import ModelFolder
from albert_tf.options import check_layout
from albert_tf.tokenization.rule_notes import check_rules
from albert_tf.tokenization.sentencepiece_models import keeps_accents
from albert_tf.tokenization.special_pieces import SENTENCEPIECE, WORDPIECE
from albert_tf.tokenization.tokenizer_json import TokenizerJson
from albert_tf.tokenization.wordpiece_lines import DescribedToken, note_tokens, pieces_of_lines

TOKENIZER_FILE = "tokenizer.json"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
_SPECIAL_TOKENS_FILE = "special_tokens_map.json"
_ADDED_TOKENS_FILE = "added_tokens.json"
# Keys with lists of tokens, in the files that describe special ones.
_TOKEN_LISTS = (
    "additional_special_tokens",
    "extra_special_tokens",
    "model_specific_special_tokens",
    "never_split",
)

_PieceType = sentencepiece_model_pb2.ModelProto.SentencePiece
# A `tokenizer.json` has other scores for pieces that end in a digit and a comma, as ALBERT splits them.
_COMMA = ","
_ONE_VOCABULARY = "expected one vocabulary; remove the file that the model was not trained with"
_CASED_FOLDER = re.compile(r"(^|_)cased_L-\d")
_TOLERANCE = 1e-4  # of scores, which are stored in float32


@dataclasses.dataclass(frozen=True)
class _SentencePieces:
    """The pieces of a SentencePiece model.

    Attributes:
        pieces: the pieces.
        scores: the score of each piece that is ordinary text.
        marked: the ids of those that are not: special, control and user-defined ones.
        charsmap: the table of replacements.
    """

    pieces: list[str]
    scores: dict[str, float]
    marked: dict[str, int]
    charsmap: bytes

    @classmethod
    def parse(cls, content: bytes, path: str) -> "_SentencePieces":
        try:
            model = sentencepiece_model_pb2.ModelProto.FromString(content)
        except DecodeError as error:
            raise InputError(f"{path}: not a SentencePiece model") from error
        ordinary = [piece for piece in model.pieces if piece.type == _PieceType.NORMAL]
        return cls(
            pieces=[piece.piece for piece in model.pieces],
            scores={one.piece: one.score for one in ordinary if not one.piece.endswith(_COMMA)},
            marked={
                one.piece: id_
                for id_, one in enumerate(model.pieces)
                if one.type != _PieceType.NORMAL or one.piece in SENTENCEPIECE
            },
            charsmap=model.normalizer_spec.precompiled_charsmap,
        )


@dataclasses.dataclass(frozen=True)
class TokenizerSettings:
    """The files that describe the tokenizer of a vocabulary in a model's folder.

    Attributes:
        folder: the folder.
        vocabulary_file: the vocabulary, which may also be a `tokenizer.json`.
        is_wordpiece: whether it is one of WordPiece.
    """

    folder: ModelFolder
    vocabulary_file: str
    is_wordpiece: bool

    @functools.cached_property
    def _config(self) -> Mapping[str, Any]:
        return read_object(self.folder, TOKENIZER_CONFIG_FILE)

    @functools.cached_property
    def _json(self) -> TokenizerJson | None:
        """The `tokenizer.json` that others wrote; None if there is none."""
        if self.folder.stored_sum(TOKENIZER_FILE):
            return None  # made of the vocabulary
        return read_tokenizer_json(self.folder)

    @functools.cached_property
    def _content(self) -> bytes:
        content = files.read_bytes(self.vocabulary_file)
        if parsed := TokenizerJson.parse(content, self.vocabulary_file):
            return parsed.to_vocabulary() if self.is_wordpiece else parsed.to_sentencepiece()
        return content

    @functools.cached_property
    def _sentencepieces(self) -> _SentencePieces:
        return _SentencePieces.parse(self._content, self.vocabulary_file)

    @functools.cached_property
    def _own_tokens(self) -> Mapping[str, int]:
        """The ids of the pieces of the vocabulary that are cut out of texts, or stand for none."""
        if not self.is_wordpiece:
            return self._sentencepieces.marked
        pieces = pieces_of_lines(self._content, self.vocabulary_file)
        return {piece: id_ for id_, piece in enumerate(pieces) if piece in WORDPIECE}

    @property
    def _is_named_cased(self) -> bool:
        """Whether the folder has the name of one of Google's cased BERTs, which nothing else tells."""
        return _CASED_FOLDER.search(os.path.basename(os.path.abspath(self.folder.path))) is not None

    def _path(self, name: str) -> str:
        return os.path.join(self.folder.path, name)

    def read_case(self) -> bool:
        """Returns whether text is lower-cased, as it is by default.

        Raises:
            InputError: the files do not say the same, or have other rules than ours.
        """
        path, values, saved = self._path(TOKENIZER_CONFIG_FILE), self._config, self._json
        _account_for_all_but_roles(values, TOKENIZER_CONFIG, path)
        self._warn_of_segments()
        of_vocabulary = WORDPIECE_CLASSES if self.is_wordpiece else SENTENCEPIECE_CLASSES
        if (name := values.get("tokenizer_class")) is not None:
            check_value(
                key="tokenizer_class",
                value=name,
                accepted=(*of_vocabulary, *GENERIC_CLASSES),
                place=f"{path}: ",
            )
        lower_case = values.get("do_lower_case")
        if lower_case is None:
            lower_case = saved.lower_case if saved else not self._is_named_cased
        check_value(
            key="do_lower_case", value=lower_case, accepted=(True, False), place=f"{path}: "
        )
        self._check_same_rules(lower_case)
        if saved:
            saved.check_rules()
            if saved.lower_case != lower_case:
                raise InputError(
                    f"{path}: key 'do_lower_case' is {lower_case}, and {saved.path} has a normalizer for "
                    f"{saved.lower_case}; expected one case; --do_lower_case=true or false chooses it"
                )
        check_rules(path, values, self.is_wordpiece, lower_case)
        return lower_case

    def _warn_of_segments(self) -> None:
        path, names = self._path(TOKENIZER_CONFIG_FILE), self._config.get("model_input_names")
        if names is None:
            return
        check_layout(names, [str], path, "model_input_names")
        if "token_type_ids" not in names:
            warn(
                f"{path}: model_input_names has no token_type_ids, so transformers gives both texts of a "
                "pair segment 0; here the second one has segment 1"
            )

    def _check_same_rules(self, lower_case: bool) -> None:
        """Checks that accents, Chinese characters and words are treated as by our tokenizers."""
        if self.is_wordpiece:
            expected = {
                "strip_accents": lower_case,
                "tokenize_chinese_chars": True,
                "word_tokenizer_type": "basic",  # Japanese tokenizers have others
                "keep_accents": False,
            }
        else:
            # A model of others does not say it.
            says = self._config.get("keep_accents") is True
            given = self._config.get("keep_accents") is not None or self._json is not None
            expected = {"keep_accents": says or (given and keeps_accents(self._content))}
            if self._json and self._json.keep_accents != expected["keep_accents"]:
                raise InputError(
                    f"{self._json.path}: keeps accents: {self._json.keep_accents}; in "
                    f"{self.vocabulary_file} it is {expected['keep_accents']}; expected the same; "
                    "--do_lower_case=true or false takes the vocabulary's"
                )
        for key, value in expected.items():
            if self._config.get(key) not in (None, value):
                raise InputError(
                    f"{self._path(TOKENIZER_CONFIG_FILE)}: key '{key}' is {shown(self._config[key])}; "
                    f"with do_lower_case {lower_case} only {value!r} is supported; --do_lower_case=true "
                    "or false takes our tokenizer anyway"
                )

    def with_added_tokens(self, vocabulary: bytes) -> bytes:
        """Returns the content of a `vocab.txt` with the added tokens of the files, see `note_tokens`."""
        return note_tokens(vocabulary, self.vocabulary_file, self._added_tokens())

    def _added_tokens(self) -> list[DescribedToken]:
        """Returns the tokens of all files that are no special pieces, whose ids are checked.

        Only a WordPiece vocabulary can have any.
        """
        found = []
        for name, key, described, id_ in self._tokens():
            flags = described if isinstance(described, Mapping) else {}
            token = flags.get("content") if flags else described
            known = self._own_tokens.get(token) if isinstance(token, str) else None
            if known is not None and id_ in (None, known):
                continue
            number = "" if id_ is None else f" with the id {id_}"
            place = f"{self._path(name)}: {key} has the token {shown(token)}"
            may_be_added = self.is_wordpiece and known is None and "never_split" not in key
            is_id = id_ is None or (isinstance(id_, int) and id_ >= 0)
            if not (may_be_added and is_id and isinstance(token, str) and token):
                raise InputError(
                    f"{place}{number}, which is no special piece of "
                    f"{os.path.basename(self.vocabulary_file)}; added tokens are supported beside a "
                    "WordPiece vocabulary"
                )
            is_special = name != _ADDED_TOKENS_FILE and not flags
            found.append(DescribedToken(place, token, id_, flags, is_special))
        return found

    def check_pieces(self) -> None:
        """Raises an `InputError` if the files have other pieces than the vocabulary, or other ids."""
        added = self._added_tokens()
        if self.is_wordpiece:
            note_tokens(self._content, self.vocabulary_file, added)
        names = WORDPIECE if self.is_wordpiece else SENTENCEPIECE
        for name, values in self._descriptions():
            for role, expected in names._asdict().items():
                token = values.get(f"{role}_token")
                token = token.get("content") if isinstance(token, Mapping) else token
                if token is not None:
                    check_value(
                        key=f"{role}_token",
                        value=token,
                        accepted=(expected,),
                        place=f"{self._path(name)}: ",
                    )
        if self._json and self._json.path != self.vocabulary_file:
            self._check_same_pieces(self._json)

    def _descriptions(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yields the files that describe special tokens, and what they say."""
        yield TOKENIZER_CONFIG_FILE, self._config
        values = read_object(self.folder, _SPECIAL_TOKENS_FILE)
        path = self._path(_SPECIAL_TOKENS_FILE)
        _account_for_all_but_roles(values, SPECIAL_TOKENS, path)
        yield _SPECIAL_TOKENS_FILE, values

    def _tokens(self) -> Iterator[tuple[str, str, Any, int | None]]:
        """Yields each token that the files add: file, key, token, and its id if it is said."""
        for name, values in self._descriptions():
            for key, token in values.items():
                if _is_role(key, token) and key.removesuffix("_token") not in WORDPIECE._fields:
                    yield name, f"key '{key}'", token, None
            for key in _TOKEN_LISTS:
                listed = values.get(key) or []
                if isinstance(listed, Mapping):
                    listed = [*listed.values()]
                if not isinstance(listed, list):
                    raise InputError(
                        f"{self._path(name)}: key '{key}' is {shown(listed)}; expected a list of tokens"
                    )
                for token in listed:
                    yield name, f"key '{key}'", token, None
            by_id = values.get("added_tokens_decoder") or {}
            if not isinstance(by_id, Mapping) or not all(map(str.isdecimal, by_id)):
                raise InputError(
                    f"{self._path(name)}: key 'added_tokens_decoder' is {shown(by_id)}; expected tokens "
                    "by their ids"
                )
            for id_, token in by_id.items():
                yield name, "key 'added_tokens_decoder'", token, int(id_)
        for token, id_ in read_object(self.folder, _ADDED_TOKENS_FILE).items():
            yield _ADDED_TOKENS_FILE, "the file", token, id_
        if self._json:
            for token, id_ in self._json.added_tokens:
                yield TOKENIZER_FILE, "key 'added_tokens'", token, id_

    def _check_same_pieces(self, saved: TokenizerJson) -> None:
        """Checks that a vocabulary and the `tokenizer.json` beside it have the same pieces."""
        if self.is_wordpiece:
            saved.check_kind("WordPiece")
            ours = pieces_of_lines(self.with_added_tokens(self._content), self.vocabulary_file)
            theirs = pieces_of_lines(self.with_added_tokens(saved.to_vocabulary()), saved.path)
        else:
            saved.check_kind("Unigram")
            ours, theirs = self._sentencepieces.pieces, saved.pieces
            self._check_same_scores(saved)
        for id_, (one, other) in enumerate(zip(ours, theirs, strict=False)):
            if one != other:
                raise InputError(
                    f"{saved.path}: the piece {id_} is {other!r}; in {self.vocabulary_file} it is {one!r}"
                    f"; {_ONE_VOCABULARY}"
                )
        if len(ours) != len(theirs):
            raise InputError(
                f"{saved.path}: has {len(theirs)} pieces; {self.vocabulary_file} has {len(ours)}"
                f"; {_ONE_VOCABULARY}"
            )

    def _check_same_scores(self, saved: TokenizerJson) -> None:
        content = _SentencePieces.parse(saved.to_sentencepiece(), saved.path)
        for piece, score in self._sentencepieces.scores.items():
            if abs(content.scores.get(piece, score) - score) > _TOLERANCE * max(1, abs(score)):
                raise InputError(
                    f"{saved.path}: the piece {piece!r} has the score {content.scores[piece]}; in "
                    f"{self.vocabulary_file} it is {score}; {_ONE_VOCABULARY}"
                )
        if saved.charsmap and saved.charsmap != self._sentencepieces.charsmap:
            raise InputError(
                f"{saved.path}: has another table of replacements than {self.vocabulary_file}; "
                f"{_ONE_VOCABULARY}"
            )


def _is_role(key: str, value: Any) -> bool:
    """Returns whether a key is the role of a token, such as `entity_token`, and no `add_bos_token`."""
    return key.endswith("_token") and not isinstance(value, bool | None)


def _account_for_all_but_roles(values: Mapping[str, Any], rows: Rows, path: str) -> None:
    """Accounts for the keys of a file but the roles, whose tokens are read whatever their names are."""
    others = {key: value for key, value in values.items() if not _is_role(key, value)}
    account_for(others, rows, path)


def says_to_keep_accents(model_file: str) -> bool:
    """Returns whether the file beside a SentencePiece model says that texts keep their accents."""
    path = os.path.join(os.path.dirname(model_file), TOKENIZER_CONFIG_FILE)
    values = files.read_json(path) if files.exists(path) else None
    return isinstance(values, Mapping) and values.get("keep_accents") is True


def read_object(folder: ModelFolder, name: str) -> Mapping[str, Any]:
    """Returns the object in a JSON file; an empty one if there is no such file."""
    if not folder.holds(name):
        return {}
    path = os.path.join(folder.path, name)
    folder.check_sum(path)
    return check_object(files.read_json(path), f"{path}: ")


def read_tokenizer_json(folder: ModelFolder) -> TokenizerJson | None:
    """Returns the `tokenizer.json` of a folder; None without one, or with KerasHub's."""
    if not folder.holds(TOKENIZER_FILE):
        return None
    path = os.path.join(folder.path, TOKENIZER_FILE)
    folder.check_sum(path)
    return TokenizerJson.parse(files.read_bytes(path), path)
