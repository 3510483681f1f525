import dataclasses

import pytest

from albert_tf.config import PRESETS, AlbertConfig
from tests.helpers import change_json, refused, tiny_config


def test_json_file_gives_the_config_back(tmp_path):
    config = tiny_config(sharing="ffn", hidden_dropout_prob=0.25)
    path = str(tmp_path / "albert_config.json")
    config.to_json_file(path)
    assert AlbertConfig.from_json_file(path) == config
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.hidden_size = 7


SIZES = ("vocab_size", "hidden_size", "intermediate_size", "embedding_size", "type_vocab_size")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(
            ({name: 10**12}, rf"\b{name} {10**12}\b.*: expected a matrix of at most 1e\+10 param")
            for name in (*SIZES, "max_position_embeddings")
        ),
        ({"hidden_size": 50}, "hidden_size 50 is not a multiple of num_attention_heads 4"),
        ({"num_hidden_groups": 6}, "num_hidden_groups 6 is greater than num_hidden_layers 3"),
        ({"vocab_size": 0}, "vocab_size 0 is not a positive integer"),
        ({"vocab_size": "97"}, "vocab_size '97' is not a positive integer"),
        ({"hidden_dropout_prob": 1.0}, r"hidden_dropout_prob 1.0 is not a number in \[0, 1\)"),
        ({"sharing": "some"}, "sharing 'some' is not one of all, attention, ffn, none"),
        (
            {"num_hidden_layers": 10**5},
            "num_hidden_layers 100000 x .* 100000 blocks; .*most 10000",
        ),
        ({"inner_group_num": 3334}, "num_hidden_layers 3 x inner_group_num 3334 are 10002 blocks"),
        ({"hidden_act": "swish"}, "hidden_act 'swish' is not one of gelu, gelu_erf, relu"),
    ],
)
def test_values_out_of_range_are_refused(changes, message):
    with refused(message):
        tiny_config(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hiden_size": 3}, "unknown key 'hiden_size'; the closest known key is 'hidden_size'$"),
        ({"layer_norm_eps": 1e-12}, "unknown key 'layer_norm_eps'; `albert_tf.read_config` .*Hug"),
        ({"intermediate_size": None}, "key 'intermediate_size' is missing"),
        ({"net_structure_type": 1}, "key 'net_structure_type' is 1; only 0 is supported"),
    ],
)
def test_keys_are_named_with_their_file(tmp_path, changes, message):
    path = tmp_path / "albert_config.json"
    tiny_config().to_json_file(str(path))
    change_json(path, **changes)
    with refused(f"^{path}: {message}"):
        AlbertConfig.from_json_file(str(path))


@pytest.mark.parametrize("content", ["[1]", "{", "\xff"])
def test_files_that_hold_no_object_are_refused(tmp_path, content):
    path = tmp_path / "albert_config.json"
    path.write_text(content, encoding="latin-1")
    with refused(str(path)):
        AlbertConfig.from_json_file(str(path))
    with refused("expected a JSON object, received a str"):
        AlbertConfig.from_dict(content)


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ("base", (12, 768, 3072, 12)),
        ("large", (24, 1024, 4096, 16)),
        ("xlarge", (24, 2048, 8192, 16)),
        ("xxlarge", (12, 4096, 16384, 64)),
    ],
)
def test_presets_are_the_published_sizes(size, version, expected):
    config = AlbertConfig.from_preset(f"{size}_{version}")
    assert (config.num_hidden_layers, config.hidden_size) == expected[:2]
    assert (config.intermediate_size, config.num_attention_heads) == expected[2:]
    dropout = 0.1 if version == "v1" and size != "xxlarge" else 0.0
    assert config.hidden_dropout_prob == config.attention_probs_dropout_prob == dropout


def test_presets_take_changes_and_unknown_ones_are_refused():
    assert AlbertConfig.from_preset("bert_base", vocab_size=5).vocab_size == 5
    with refused("unknown preset 'base'"):
        AlbertConfig.from_preset("base")
    assert len(PRESETS) == 11
