"""What others write into a folder is read, has no effect, or is refused by name."""

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from albert_tf import known_files
from albert_tf.accounting import account_for_files
from albert_tf.checkpoints.loading import read_config
from albert_tf.errors import InputError
from albert_tf.model_folder import ModelFolder
from albert_tf.tokenization.tokenizer_json import TokenizerJson
from albert_tf.tokenization.vocabulary_files import vocabulary_flags
from tests.checkpoints.layouts import BERT_CONFIG, CONFIG
from tests.helpers import change_json, post_processor, refused, write_wordpiece

# Keys with values as versions 2 to 5 of transformers write them for every BERT or ALBERT.
WRITTEN = {
    "_name_or_path": "bert-base-uncased",
    "_num_labels": 2,
    "add_cross_attention": False,
    "architectures": ["BertModel"],
    "attn_implementation": "sdpa",
    "bad_words_ids": None,
    "bos_token_id": None,
    "chunk_size_feed_forward": 0,
    "cross_attention_hidden_size": None,
    "directionality": "bidi",
    "do_sample": False,
    "dtype": "float16",
    "finetuning_task": "mnli",
    "gradient_checkpointing": False,
    "id2label": {"0": "LABEL_0", "1": "LABEL_1"},
    "is_decoder": False,
    "is_encoder_decoder": False,
    "label2id": {"LABEL_0": 0, "LABEL_1": 1},
    "layer_norm_eps": 1e-12,
    "length_penalty": 1.0,
    "max_length": 20,
    "num_beams": 1,
    "num_labels": 2,
    "output_attentions": False,
    "output_hidden_states": False,
    "output_past": True,
    "pad_token_id": 0,
    "pooler_fc_size": 768,
    "pooler_num_attention_heads": 12,
    "pooler_num_fc_layers": 3,
    "pooler_size_per_head": 128,
    "pooler_type": "first_token_transform",
    "position_embedding_type": "absolute",
    "prefix": None,
    "problem_type": None,
    "pruned_heads": {},
    "repetition_penalty": 1.0,
    "return_dict": True,
    "sep_token_id": None,
    "task_specific_params": None,
    "temperature": 1.0,
    "tie_encoder_decoder": False,
    "tie_word_embeddings": True,
    "tokenizer_class": "BertTokenizer",
    "top_k": 50,
    "top_p": 1.0,
    "torch_dtype": "float32",
    "torchscript": False,
    "transformers_version": "4.6.0",
    "use_bfloat16": False,
    "use_cache": True,
    "xla_device": True,
}
TOKENIZER_WRITTEN = {
    "added_tokens_decoder": {"2": {"content": "[CLS]", "special": True}},
    "additional_special_tokens": [],
    "clean_up_tokenization_spaces": True,
    "cls_token": "[CLS]",
    "do_basic_tokenize": True,
    "extra_special_tokens": {},
    "mask_token": {"__type": "AddedToken", "content": "[MASK]", "lstrip": True},
    "model_max_length": 512,
    "name_or_path": "bert-base-uncased",
    "never_split": None,
    "pad_token": "[PAD]",
    "padding_side": "left",
    "sep_token": "[SEP]",
    "special_tokens_map_file": "/home/someone/special_tokens_map.json",
    "strip_accents": None,
    "tokenize_chinese_chars": True,
    "tokenizer_class": "DistilBertTokenizer",
    "truncation_side": "right",
    "unk_token": "[UNK]",
}
# Such values change outputs.
HARMFUL = {
    "bos_token": "<s>",
    "do_basic_tokenize": False,
    "mask_token": "<mask>",
    "never_split": ["covid"],
    "sep_token": {"content": "</s>"},
    "tokenizer_class": "RobertaTokenizer",
    "tokenize_chinese_chars": False,
    "truncation_side": "left",
}
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-1, 3), st.text(max_size=3), st.just([]), st.just({})
)
# Names that mean something somewhere, and any others.
KEYS = st.one_of(
    st.sampled_from([*known_files.CONFIG, *known_files.TOKENIZER_CONFIG]), st.text(max_size=5)
)
quickly = settings(
    deadline=None,
    derandomize=True,
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def outcome(read):
    """Returns what is read, or the message of the refusal."""
    try:
        return read()
    except InputError as error:
        message = str(error)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("config", [CONFIG, BERT_CONFIG])
def test_keys_of_every_version_are_known(tmp_path, config):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    expected = read_config(str(path))
    path.write_text(json.dumps({**WRITTEN, **config}))
    assert read_config(str(path)) == expected


@quickly
@given(key=KEYS, value=VALUES)
def test_a_key_of_a_config_has_no_effect_or_is_named(tmp_path, key, value):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    expected = read_config(str(path))
    path.write_text(json.dumps({**CONFIG, key: value} if key not in CONFIG else CONFIG))
    received = outcome(lambda: read_config(str(path)))
    if received != expected:
        assert repr(key)[1:-1] in received
    elif value is not None:
        assert key in known_files.CONFIG


@pytest.fixture
def wordpiece_folder(tmp_path):
    """A folder with a vocabulary and, as transformers saves it, its `tokenizer.json`."""
    write_wordpiece(tmp_path / "vocab.txt", ["the", "##s", "cat"])
    pieces = (tmp_path / "vocab.txt").read_text().split()
    vocabulary = {piece: id_ for id_, piece in enumerate(pieces)}
    normalizer = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None}
    values = {
        "version": "1.0",
        "truncation": {
            "direction": "Right",
            "max_length": 9,
            "strategy": "LongestFirst",
            "stride": 0,
        },
        "padding": None,
        "added_tokens": [
            {"id": id_, "content": piece, "special": True}
            for piece, id_ in vocabulary.items()
            if piece.startswith("[")
        ],
        "normalizer": {"type": "BertNormalizer", "lowercase": True, **normalizer},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": post_processor(pieces),
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": vocabulary,
        },
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    (tmp_path / "tokenizer_config.json").write_text("{}")
    return tmp_path


def read_flags(folder):
    return vocabulary_flags(ModelFolder(str(folder)))


def test_keys_of_tokenizers_are_known(wordpiece_folder):
    expected = read_flags(wordpiece_folder)
    assert expected["do_lower_case"] is True
    written = {**TOKENIZER_WRITTEN, "do_lower_case": True}
    (wordpiece_folder / "tokenizer_config.json").write_text(json.dumps(written))
    (wordpiece_folder / "special_tokens_map.json").write_text('{"cls_token": "[CLS]"}')
    (wordpiece_folder / "added_tokens.json").write_text('{"[MASK]": 4}')
    assert read_flags(wordpiece_folder) == expected


def test_a_line_warns_of_pairs_without_segments(wordpiece_folder, capsys):
    path = wordpiece_folder / "tokenizer_config.json"
    path.write_text('{"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}')
    read_flags(wordpiece_folder)
    assert capsys.readouterr().err == ""
    path.write_text('{"model_input_names": ["input_ids", "attention_mask"]}')
    read_flags(wordpiece_folder)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: {path}: model_input_names has no token_type_ids, so ")


@pytest.mark.parametrize("key", HARMFUL)
def test_values_that_change_ids_are_named(wordpiece_folder, key):
    (wordpiece_folder / "tokenizer_config.json").write_text(json.dumps({key: HARMFUL[key]}))
    with refused(rf"tokenizer_config\.json: .*{key}"):
        read_flags(wordpiece_folder)


@quickly
@given(key=KEYS, value=VALUES)
def test_a_key_of_a_tokenizer_has_no_effect_or_is_named(wordpiece_folder, key, value):
    (wordpiece_folder / "tokenizer_config.json").write_text("{}")
    expected = read_flags(wordpiece_folder)
    (wordpiece_folder / "tokenizer_config.json").write_text(json.dumps({key: value}))
    received = outcome(lambda: read_flags(wordpiece_folder))
    if received != expected:
        assert repr(key)[1:-1] in received


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("added_tokens", [{"id": 9, "content": "covid"}], "has the token 'covid' with the id 9, "),
        ("added_tokens", [{"id": 6, "content": "cat"}], "has the token 'cat' with the id 6, "),
        ("added_tokens", [{"id": 3, "content": "[SEP]"}, {"id": 9}], "KeyError: 'content'"),
        (
            "added_tokens",
            [{"id": 5, "content": "[SEP]"}],
            r"token '\[SEP\]' with the id 5, which is no",
        ),
        (
            "model.continuing_subword_prefix",
            "@@",
            "key 'continuing_subword_prefix' is '@@'; only '##",
        ),
        ("model.unk_token", "[PAD]", r"key 'unk_token' is '\[PAD\]'; only '\[UNK\]' is supported"),
        (
            "model.max_input_chars_per_word",
            9,
            "key 'max_input_chars_per_word' is 9; only 100 or 200",
        ),
        (
            "model",
            {"type": "WordLevel", "vocab": {}},
            "model: key 'type' is 'WordLevel'; only 'Unigram' or 'WordPiece' is supported",
        ),
        ("model", {"vocab": {}}, "model: key 'type' is None; only 'Unigram' or 'WordPiece' is sup"),
        ("model.colour", 3, "model: key 'colour' is 3, and not known"),
        ("model.vocab.covid", 8, r"has 9 pieces; .*vocab\.txt has 8; expected one vocabulary"),
        ("model.vocab.cat", 9, "the piece 7 is ' '; in .*vocab.txt it is 'cat'"),
        ("normalizer.lowercase", False, "key 'do_lower_case' is True.* normalizer for False"),
        ("normalizer.lowercase", None, "normalizer.lowercase is null, expected true or false"),
        ("normalizer.handle_chinese_chars", 1, "normalizer.handle_chinese_chars is a whole number"),
        ("normalizer.strip_accents", False, "treats accents or Chinese characters otherwise"),
        ("normalizer.clean_text", False, "key 'clean_text' is False; only True is supported"),
        ("normalizer.type", "Lowercase", "has the normalizers Lowercase; expected BertNormalizer"),
        ("normalizer", {"type": "Sequence"}, "does not describe a tokenizer as expected: KeyError"),
        ("pre_tokenizer.type", "Whitespace", "has the pre-tokenizer Whitespace; expected BertPreT"),
        ("post_processor.single", [], "json: post_processor adds no or other special pieces"),
        ("post_processor", {"type": "RobertaProcessing"}, "post_processor adds no or other speci"),
        ("post_processor", None, "json: post_processor adds no or other special pieces, or in oth"),
        ("truncation.direction", "Left", "truncation: key 'direction' is 'Left'; only 'Right' is"),
    ],
)
def test_a_tokenizer_json_with_other_ids_is_refused(wordpiece_folder, place, value, message):
    *parents, key = place.split(".")
    path = wordpiece_folder / "tokenizer.json"
    values = json.loads(path.read_text())
    inner = values
    for parent in parents:
        inner = inner[parent]
    inner[key] = value
    path.write_text(json.dumps(values))
    change_json(wordpiece_folder / "tokenizer_config.json", do_lower_case=True)
    with refused(message):
        read_flags(wordpiece_folder)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"version": "1.', ", line 1: not JSON: Unterminated string"),
        ("[]", ": received .*an object"),
    ],
)
def test_a_damaged_file_of_a_tokenizer_is_refused(wordpiece_folder, name, content, message):
    (wordpiece_folder / name).write_text(content)
    with refused(rf"{re.escape(name)}{message}"):
        read_flags(wordpiece_folder)


@pytest.mark.parametrize("has_vocabulary", [True, False])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_the_tokenizer_json_of_an_older_version_is_read(wordpiece_folder, encoding, has_vocabulary):
    path = wordpiece_folder / "tokenizer.json"
    values = json.loads(path.read_text())
    del values["model"]["type"]
    values["normalizer"]["lowercase"] = False
    path.write_text(json.dumps(values), encoding=encoding)
    if not has_vocabulary:
        (wordpiece_folder / "vocab.txt").unlink()
    assert read_flags(wordpiece_folder)["do_lower_case"] is False


@quickly
@given(data=st.data(), value=VALUES)
def test_any_change_of_a_tokenizer_json_has_no_effect_or_is_one_line(wordpiece_folder, data, value):
    path = wordpiece_folder / "tokenizer.json"
    content = path.read_text()
    values = json.loads(content)
    places = [values]
    for place in places:
        inner = place.values() if isinstance(place, dict) else place
        places.extend(one for one in inner if isinstance(one, dict | list))
    place = data.draw(st.sampled_from([one for one in places if one]))
    keys = [*place] if isinstance(place, dict) else range(len(place))
    place[data.draw(st.sampled_from(keys))] = value
    expected = read_flags(wordpiece_folder)
    path.write_text(json.dumps(values))
    try:
        received = outcome(lambda: read_flags(wordpiece_folder))
    finally:
        path.write_text(content)
    assert received == expected or isinstance(received, str)


def test_holes_in_the_ids_of_a_tokenizer_json_remain(wordpiece_folder):
    path = wordpiece_folder / "tokenizer.json"
    (wordpiece_folder / "vocab.txt").unlink()
    values = json.loads(path.read_text())
    values["model"]["vocab"] |= {"dog": 20, "a b": 10}
    saved = TokenizerJson.parse(json.dumps(values).encode(), str(path))
    assert saved.to_vocabulary().split(b"\n")[20] == b"dog"
    assert saved.to_vocabulary().count(b"\n") == 21


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("adapter_config.json", "PEFT adds their weights"),
        ("adapter_model.safetensors", "PEFT adds their weights"),
        ("pytorch_adapter.bin", "the library adapters adds"),
        ("README.md", None),
        (".gitattributes", None),
        ("onnx", None),
        ("pytorch_model-00001-of-00002.bin", None),
        ("sentence_bert_config.json", None),
        ("eval_results_sst2.txt", None),
    ],
)
def test_files_that_change_the_model_are_refused(name, message):
    names = ["config.json", name, "model.safetensors"]
    if message is None:
        account_for_files("folder", names)
        return
    with refused(rf"^folder/{re.escape(name)}: not supported: {message}"):
        account_for_files("folder", names)
