import json

import pytest

from albert_tf.checkpoints.hugging_face import HuggingFaceConfig
from albert_tf.checkpoints.loading import read_config
from tests.checkpoints.layouts import CONFIG
from tests.helpers import refused, tiny_config


def write(path, **changes):
    values = {key: value for key, value in {**CONFIG, **changes}.items() if value is not None}
    path.write_text(json.dumps(values))
    return str(path)


TANH = "gelu_pytorch_tanh"


@pytest.mark.parametrize(
    ("theirs", "ours", "written"),
    [("gelu_new", "gelu", "gelu_new"), ("gelu", "gelu_erf", "gelu"), (TANH, "gelu", "gelu_new")],
)
def test_forms_of_gelu(tmp_path, theirs, ours, written):
    config = read_config(write(tmp_path / "config.json", hidden_act=theirs))
    assert config.hidden_act == ours
    assert HuggingFaceConfig(config, "AlbertModel").to_dict()["hidden_act"] == written
    # In a published config, which the same function reads, the word has the original's meaning.
    path = str(tmp_path / "albert_config.json")
    tiny_config(hidden_act="gelu").to_json_file(path)
    assert read_config(path) == tiny_config(hidden_act="gelu")


GROUPS = {"num_hidden_layers": 23, "num_hidden_groups": 23}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "roberta"}, "is of a model_type 'roberta'; expected 'albert' or 'bert'$"),
        ({"hidden_act": "silu"}, "hidden_act 'silu' is not one of gelu_new, gelu_pytorch_tanh, "),
        ({"hidden_act": ["gelu"]}, r"hidden_act \['gelu'\] is not one of gelu_new"),
        ({"id2label": 3}, "key 'id2label' is 3; expected an object"),
        ({"architectures": "AlbertModel"}, "key 'architectures' is 'AlbertModel'; expected a list"),
        ({"architectures": [["AlbertModel"]]}, "key 'architectures' is .*; expected a list of na"),
        ({"classifier_dropout_prob": "x"}, r"key 'cl.*_prob' is 'x'; expected a number in \[0, 1"),
        ({"classifier_dropout_prob": 1.5}, "key 'classifier_dropout_prob' is 1.5; expected a num"),
        ({"id2label": {"0": "a", "2": "b"}}, "key 'id2label' is .*; expected .* each of .0., .1."),
        ({"id2label": {"0": [1]}}, "key 'id2label' is .*; expected an object with a label"),
        ({"colour": 3}, "key 'colour' is 3, and not known: it may change what the model computes"),
        ({"auto_map": {"AutoModel": "m.M"}}, "key 'auto_map' is .*; only {} is supported"),
        ({"problem_type": "ranking"}, "key 'problem_type' is 'ranking'; expected one of single_"),
        ({"layer_norm_eps": 1e-5}, "key 'layer_norm_eps' is 1e-05; only 1e-12 is supported"),
        ({"position_embedding_type": "relative_key"}, ".*'relative_key'; only 'absolute' is sup"),
        ({"tie_word_embeddings": False}, "key 'tie_word_embeddings' is False; only True"),
        ({"is_decoder": True}, "key 'is_decoder' is True; only False is supported"),
        ({"quantization_config": {"bits": 8}}, "key 'quantization_config' is"),
        ({"hidden_size": None}, "key 'hidden_size' is missing"),
        ({"num_attention_heads": 5}, "hidden_size 48 is not a multiple of num_attention_heads 5"),
        (GROUPS, "23 layers in 23 groups: layer .* belongs to group .* in a Hugging Face model"),
    ],
)
def test_what_we_cannot_express_is_named(tmp_path, changes, message):
    path = write(tmp_path / "config.json", **changes)
    with refused(f"^{path}: {message}"):
        read_config(path)
