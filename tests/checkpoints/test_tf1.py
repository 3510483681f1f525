"""Names and values of TensorFlow 1 checkpoints: published lists, reference data, own small ones."""

import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints.loading import load_checkpoint
from albert_tf.checkpoints.names import stored_as_brightmart, stored_as_original
from albert_tf.config import AlbertConfig
from albert_tf.conversion import load_model, save_tf1_checkpoint
from albert_tf.errors import InputError, StoppedError
from albert_tf.models import AlbertClassifier, AlbertEncoder, AlbertPretrainer
from tests.helpers import random_inputs, shared_path, tiny_config

ENCODERS = [
    "drop_in_config_g1_gelu",
    "e_eq_h_g1_relu",
    "e_eq_h_g2_gelu",
    "g1_gelu",
    "g1_inner2_gelu",
    "g2_gelu",
    "g2_inner2_relu",
    "g5_relu",
]
BLOCK = "bert/encoder/transformer/group_0/inner_group_0"


def write(prefix, tensors):
    """Writes a checkpoint as TensorFlow 1 does."""
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )
    return str(prefix)


def read(prefix):
    reader = tf.train.load_checkpoint(str(prefix))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def published_shapes(name):
    text = shared_path(f"data/tf1_checkpoint_variables/{name}.txt").read_text()
    rows = re.findall(r"^(\S+) \[(.*?)\] dtype", text, flags=re.MULTILINE)
    return {row: tuple(map(int, filter(None, shape.split(", ")))) for row, shape in rows}


def original_tensors(sizes=(97, 16, 48, 80, 64), seed=0):
    """Returns random tensors under the original's names, written out by hand, with pre-training heads."""
    vocab, embedding, hidden, feed_forward, positions = sizes
    shapes = {
        "bert/embeddings/word_embeddings": (vocab, embedding),
        "bert/embeddings/position_embeddings": (positions, embedding),
        "bert/embeddings/token_type_embeddings": (2, embedding),
        "bert/embeddings/LayerNorm/gamma": (embedding,),
        "bert/embeddings/LayerNorm/beta": (embedding,),
        "bert/encoder/embedding_hidden_mapping_in/kernel": (embedding, hidden),
        "bert/encoder/embedding_hidden_mapping_in/bias": (hidden,),
        f"{BLOCK}/attention_1/self/query/kernel": (hidden, hidden),
        f"{BLOCK}/attention_1/self/query/bias": (hidden,),
        f"{BLOCK}/attention_1/self/key/kernel": (hidden, hidden),
        f"{BLOCK}/attention_1/self/key/bias": (hidden,),
        f"{BLOCK}/attention_1/self/value/kernel": (hidden, hidden),
        f"{BLOCK}/attention_1/self/value/bias": (hidden,),
        f"{BLOCK}/attention_1/output/dense/kernel": (hidden, hidden),
        f"{BLOCK}/attention_1/output/dense/bias": (hidden,),
        f"{BLOCK}/LayerNorm/gamma": (hidden,),
        f"{BLOCK}/LayerNorm/beta": (hidden,),
        f"{BLOCK}/ffn_1/intermediate/dense/kernel": (hidden, feed_forward),
        f"{BLOCK}/ffn_1/intermediate/dense/bias": (feed_forward,),
        f"{BLOCK}/ffn_1/intermediate/output/dense/kernel": (feed_forward, hidden),
        f"{BLOCK}/ffn_1/intermediate/output/dense/bias": (hidden,),
        f"{BLOCK}/LayerNorm_1/gamma": (hidden,),
        f"{BLOCK}/LayerNorm_1/beta": (hidden,),
        "bert/pooler/dense/kernel": (hidden, hidden),
        "bert/pooler/dense/bias": (hidden,),
        "cls/predictions/transform/dense/kernel": (hidden, embedding),
        "cls/predictions/transform/dense/bias": (embedding,),
        "cls/predictions/transform/LayerNorm/gamma": (embedding,),
        "cls/predictions/transform/LayerNorm/beta": (embedding,),
        "cls/predictions/output_bias": (vocab,),
        "cls/seq_relationship/output_weights": (2, hidden),
        "cls/seq_relationship/output_bias": (2,),
    }
    rng = np.random.default_rng(seed)
    tensors = {name: rng.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}
    return tensors | {"global_step": np.zeros((), np.int64)}


def with_slots(tensors):
    slots = {
        f"{name}/{slot}": np.ones_like(value)
        for name, value in tensors.items()
        if name != "global_step"
        for slot in ("adam_m", "adam_v")
    }
    return tensors | slots | {"global_step": np.int64(1234)}


def test_pretrainer_reads_the_originals_weights_without_slots(tmp_path):
    tensors = original_tensors()
    prefix = write(tmp_path / "model.ckpt-best", with_slots(tensors))
    model = AlbertPretrainer(AlbertEncoder(tiny_config()))
    report = load_checkpoint(model, str(tmp_path))

    assert report.prefix == prefix
    assert {str(stored) for _, stored in report.read} == set(tensors) - {"global_step"}
    assert report.unexpected == ()
    assert len(report.optimizer) == 2 * len(report.read) + 1
    values = {variable.path: np.asarray(variable) for variable in model.weights}
    np.testing.assert_array_equal(
        values["albert_encoder/block_0/ffn_0_0/output/kernel"],
        tensors[f"{BLOCK}/ffn_1/intermediate/output/dense/kernel"],
    )
    np.testing.assert_array_equal(
        values["albert_pretrainer/sentence_order_head/dense/kernel"],
        tensors["cls/seq_relationship/output_weights"].T,
    )

    encoder_alone = load_checkpoint(AlbertEncoder(tiny_config()), prefix)
    assert set(encoder_alone.unexpected) == {name for name in tensors if name.startswith("cls/")}
    needless = (
        "; not needed by this model: 65 of the optimizer and 7 of other parts: cls/predictions"
    )
    assert needless in encoder_alone.summary()


def test_there_and_back_gives_the_same_bytes(tmp_path):
    tensors = original_tensors()
    model, _ = load_model(tiny_config(), write(tmp_path / "there", tensors))
    save_tf1_checkpoint(model, str(tmp_path / "back"))
    back = read(tmp_path / "back")
    assert set(back) == set(tensors)
    for name, value in tensors.items():
        assert back[name].dtype == value.dtype
        assert back[name].tobytes() == value.tobytes(), name
    assert not list(tmp_path.glob("*incomplete*"))


def test_classifier_head_lies_transposed(tmp_path):
    model = AlbertClassifier(AlbertEncoder(tiny_config()), num_classes=7)
    save_tf1_checkpoint(model, str(tmp_path / "ckpt"))
    tensors = read(tmp_path / "ckpt")
    assert tensors["output_weights"].shape == (7, 48)
    np.testing.assert_array_equal(tensors["output_weights"].T, model.head.dense.kernel)
    np.testing.assert_array_equal(tensors["output_bias"], model.head.dense.bias)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"bert/pooler/dense/kernel": None},
            r"'bert/pooler/dense/kernel' is not in it; the model's 'albert_encoder/pooler/dense/kernel'"
            r" has shape \(48, 48\); the closest in it is '.*' of shape",
        ),
        (
            {"bert/pooler/dense/bias": np.zeros(47, np.float32)},
            r"'bert/pooler/dense/bias' has shape \(47,\); the model's "
            r"'albert_encoder/pooler/dense/bias' has shape \(48,\)",
        ),
        (
            {"cls/seq_relationship/output_weights": np.zeros((3, 48), np.float32)},
            r"'cls/seq_relationship/output_weights' has shape \(3, 48\), transposed; "
            r"the model's '.*/sentence_order_head/dense/kernel' has shape \(48, 2\)",
        ),
        ({"cls/predictions/output_bias": None}, "'cls/predictions/output_bias' is not in it"),
        (
            {BLOCK.replace("group_0", "group_1", 1) + "/LayerNorm/beta": np.zeros(48, np.float32)},
            "holds 'bert/.*group_1/.*/beta', for which the model of this config has no place",
        ),
    ],
)
def test_checkpoint_that_does_not_fit_is_refused_and_changes_nothing(tmp_path, change, message):
    tensors = {**original_tensors(), **change}
    prefix = write(tmp_path / "c", {name: t for name, t in tensors.items() if t is not None})
    model = AlbertPretrainer(AlbertEncoder(tiny_config()))
    before = model.get_weights()
    with pytest.raises(InputError, match=f"^{prefix}: {message}"):
        load_checkpoint(model, prefix)
    for first, second in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("file", ["c.index", "c.data-00000-of-00001"])
@pytest.mark.parametrize("length", [0, 100, 1000])
def test_truncated_checkpoint_is_refused_in_one_line(tmp_path, file, length):
    prefix = write(tmp_path / "c", original_tensors())
    path = tmp_path / file
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(InputError, match="the checkpoint is damaged") as caught:
        load_checkpoint(AlbertPretrainer(AlbertEncoder(tiny_config())), prefix)
    assert "\n" not in str(caught.value)


def test_checkpoint_without_its_data_is_damaged(tmp_path):
    prefix = write(tmp_path / "c", original_tensors())
    pathlib.Path(f"{prefix}.data-00000-of-00001").unlink()
    with pytest.raises(InputError, match="the checkpoint is damaged"):
        load_checkpoint(AlbertEncoder(tiny_config()), prefix)


def test_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoppedError, match=r"file/ckpt\.index: cannot be written: "):
        save_tf1_checkpoint(AlbertEncoder(tiny_config()), str(tmp_path / "file" / "ckpt"))


@pytest.mark.parametrize(
    ("changes", "expressible"),
    [
        ({"sharing": "none"}, True),
        ({"sharing": "none", "inner_group_num": 2}, True),
        ({"sharing": "attention", "num_hidden_groups": 5}, True),
        ({"sharing": "attention", "num_hidden_groups": 2}, False),
        ({"sharing": "ffn"}, False),
        # The original's rounding leaves one of 22 groups without a layer.
        ({"sharing": "none", "num_hidden_layers": 22}, False),
    ],
)
def test_sharing_that_the_original_cannot_express(tmp_path, changes, expressible):
    config = tiny_config(**changes)
    encoder = AlbertEncoder(config, seed=1)
    prefix = str(tmp_path / "ckpt")
    if not expressible:
        with pytest.raises(InputError, match=f"sharing '{config.sharing}' with .* whole blocks"):
            save_tf1_checkpoint(encoder, prefix)
        assert not list(tmp_path.iterdir())
        return
    save_tf1_checkpoint(encoder, prefix)
    groups = tiny_config(**{**changes, "sharing": "all", "num_hidden_groups": 5})
    for other in (AlbertEncoder(config), AlbertEncoder(groups)):
        load_checkpoint(other, prefix)
        pooled, expected = (one(random_inputs())["pooled_output"] for one in (other, encoder))
        np.testing.assert_allclose(pooled, expected, rtol=0, atol=1e-6)


def brightmart_tensors():
    """Returns the original's tensors under brightmart's names, and the embedding split in two."""
    names = {
        "attention_1/self": "attention/self",
        "attention_1/output/dense": "attention/output/dense",
        "LayerNorm/": "attention/output/LayerNorm/",
        "LayerNorm_1/": "output/LayerNorm/",
        "ffn_1/intermediate/dense": "intermediate/dense",
        "ffn_1/intermediate/output/dense": "output/dense",
    }
    tensors = {}
    for name, value in original_tensors((97, 48, 48, 80, 64)).items():
        if name.startswith(BLOCK):
            rest = name.removeprefix(f"{BLOCK}/")
            (old,) = (old for old in names if rest.startswith(old))
            tensors[f"bert/encoder/layer_shared/{names[old]}{rest.removeprefix(old)}"] = value
        elif "embedding_hidden_mapping_in" not in name and name != "global_step":
            tensors[name] = value
    rng = np.random.default_rng(5)
    for name, shape in (("word_embeddings", (97, 16)), ("word_embeddings_2", (16, 48))):
        tensors[f"bert/embeddings/{name}"] = rng.normal(0, 1, shape).astype(np.float32)
    return tensors


def test_brightmarts_word_table_is_the_product_of_two(tmp_path):
    tensors = brightmart_tensors()
    prefix = write(tmp_path / "albert_model.ckpt", tensors)
    model = AlbertPretrainer(AlbertEncoder(tiny_config(embedding_size=48)))
    report = load_checkpoint(model, prefix)
    assert report.unexpected == report.optimizer == ()
    factors = [tensors[f"bert/embeddings/word_embeddings{end}"] for end in ("", "_2")]
    np.testing.assert_allclose(
        model.encoder.embedding.word_embeddings, factors[0] @ factors[1], rtol=1e-5, atol=1e-5
    )
    # Everything else is what the original's names give.
    same = {**original_tensors((97, 48, 48, 80, 64))}
    same["bert/embeddings/word_embeddings"] = np.asarray(model.encoder.embedding.word_embeddings)
    same = {n: t for n, t in same.items() if "embedding_hidden_mapping_in" not in n}
    other = AlbertPretrainer(AlbertEncoder(tiny_config(embedding_size=48)))
    load_checkpoint(other, write(tmp_path / "original", same))
    for ours, theirs in zip(model.weights, other.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_brightmarts_config_is_taken_as_it_was_published(tmp_path):
    prefix = write(tmp_path / "albert_model.ckpt", brightmart_tensors())
    model, report = load_model(tiny_config(embedding_size=16), prefix)
    assert report.unexpected == report.missing == ()
    assert model.encoder.config == tiny_config(embedding_size=48)
    expected = AlbertPretrainer(AlbertEncoder(tiny_config(embedding_size=48)))
    load_checkpoint(expected, prefix)
    for ours, theirs in zip(model.weights, expected.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, r"embedding_size is 16; expected 48, the hidden_size"),
        ({"embedding_size": 48, "inner_group_num": 2}, "the config has 1 groups of 2 blocks"),
        ({"embedding_size": 48, "sharing": "none"}, "the config has 5 groups of 1 blocks"),
        (
            {"embedding_size": 48, "sharing": "attention"},
            "sharing 'attention' .* brightmart's check",
        ),
    ],
)
def test_config_that_brightmarts_code_does_not_have(tmp_path, changes, message):
    prefix = write(tmp_path / "c", brightmart_tensors())
    with pytest.raises(InputError, match=f"{prefix} .*brightmart's names.*: {message}"):
        load_checkpoint(AlbertEncoder(tiny_config(**changes)), prefix)


@pytest.mark.parametrize("name", ["base_en", "large_en", "zh_google", "tiny_brightmart"])
def test_every_published_name_and_shape_has_its_variable(name):
    published = published_shapes(name)
    folder = shared_path("data/tf1_checkpoint_variables")
    config = AlbertConfig.from_json_file(str(folder / f"{name}.config.json"))
    layout = stored_as_original
    if name == "tiny_brightmart":
        layout = stored_as_brightmart
        config = AlbertConfig(**{**config.to_dict(), "embedding_size": config.hidden_size})
    expected = {}
    for variable in AlbertPretrainer(AlbertEncoder(config)).weights:
        stored = layout(variable.path)
        shapes = [published[name] for name in stored.names]
        product = (*shapes[0][:-1], *shapes[-1][1:]) if len(shapes) > 1 else shapes[0]
        shape = tuple(variable.shape)
        assert product == (shape[::-1] if stored.transposed else shape), variable.path
        expected.update(zip(stored.names, shapes, strict=True))
    assert set(published) - set(expected) <= {"global_step"}


@pytest.mark.parametrize("name", ENCODERS)
def test_reference_checkpoints_come_back_byte_for_byte(tmp_path, name):
    folder = shared_path(f"golden/encoder/{name}")
    config = AlbertConfig.from_json_file(str(folder / "albert_config.json"))
    model, report = load_model(config, str(folder / "ckpt_plain"))
    assert isinstance(model, AlbertPretrainer)
    assert report.unexpected == ()
    assert report.optimizer == ("global_step",)
    save_tf1_checkpoint(model, str(tmp_path / "back"))
    there, back = read(folder / "ckpt_plain" / "model.ckpt-best"), read(tmp_path / "back")
    assert set(back) == set(there)
    for key in set(there) - {"global_step"}:
        assert back[key].tobytes() == there[key].tobytes(), key


def test_reference_checkpoint_with_slots_has_the_same_weights():
    folder = shared_path("golden/encoder/g2_gelu")
    config = AlbertConfig.from_json_file(str(folder / "albert_config.json"))
    plain, _ = load_model(config, str(folder / "ckpt_plain"))
    model, report = load_model(config, str(folder / "ckpt_slots"))
    assert len(report.optimizer) == 2 * len(report.read) + 1
    assert report.unexpected == ()
    for ours, theirs in zip(model.weights, plain.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_reference_classifier_gives_its_logits(tmp_path):
    golden = np.load(shared_path("golden/finetune_heads/classifier.npz"))
    config_file = shared_path("golden/pretraining/albert_config.json")
    variables = {
        name.removeprefix("var/"): golden[name] for name in golden if name.startswith("var/")
    }
    config = AlbertConfig.from_json_file(str(config_file))
    model, report = load_model(config, write(tmp_path / "model.ckpt-best", variables))
    assert isinstance(model, AlbertClassifier)
    assert report.unexpected == report.optimizer == ()
    inputs = {name: golden[name] for name in ("input_ids", "input_mask", "segment_ids")}
    np.testing.assert_allclose(model(inputs), golden["logits"], rtol=0, atol=2e-5)
