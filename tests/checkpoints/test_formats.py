"""Models of every format into ours and back: small ones, published lists of names, reference data."""

import json
import re

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from albert_tf import load
from albert_tf.checkpoints.loading import load_checkpoint, read_config
from albert_tf.config import AlbertConfig
from albert_tf.conversion import load_model, save_model, save_tf1_checkpoint
from albert_tf.errors import StoppedError
from albert_tf.models import AlbertClassifier, AlbertEmbedder, AlbertEncoder, AlbertPretrainer
from tests.checkpoints.layouts import (
    ARCHITECTURES,
    KERAS_HUB_CONFIG,
    MODELS,
    NO_WEIGHTS,
    brightmart_pretrainer,
    check_same_tensors,
    config_of,
    folder_tensors,
    is_bert,
    keras_hub_tensors,
    model_of,
    model_of_keras_hub,
    original_tensors,
    random_model,
    read_folder,
    read_original,
    with_slots,
    write_folder,
    write_google_bert,
    write_original,
    write_preset,
)
from tests.helpers import (
    assert_same_weights,
    change_json,
    largest_file,
    refused,
    shared_path,
    slow_except,
    tiny_config,
)
from tests.parity.encoder import CONFIGS


def load_same(config, path, expected):
    """Loads the model that a checkpoint holds, which is `expected`, and returns it and the report."""
    model, report = load_model(config, str(path))
    assert type(model) is type(expected)
    assert_same_weights(model, expected)
    assert report.missing == report.unexpected == ()
    assert len(report.read) == len(model.weights)
    return model, report


@pytest.mark.parametrize("kind", MODELS)
def test_our_own_there_and_back(tmp_path, kind):
    config = tiny_config(sharing="attention")
    model = random_model(kind, config)
    save_model(model, str(tmp_path / "ours"))
    assert read_config(str(tmp_path / "ours" / "config.json")) == config
    _, report = load_same(config, tmp_path / "ours", model)
    assert report.format_name == "albert_tf"
    encoder = AlbertEncoder(config)
    load_checkpoint(encoder, str(tmp_path / "ours"))
    assert_same_weights(encoder, getattr(model, "encoder", model))
    with refused(r"config\.json has sharing 'attention'; the model's config"):
        load_checkpoint(AlbertEncoder(tiny_config()), str(tmp_path / "ours"))


OF_OTHERS = ("token classifier", "multiple choice")


@pytest.mark.parametrize("kind", [kind for kind in MODELS if kind not in OF_OTHERS])
def test_the_originals_there_and_back(tmp_path, kind):
    config = tiny_config(num_hidden_groups=2, inner_group_num=2)
    model = random_model(kind, config)
    tensors = original_tensors(model)
    prefix = write_original(tmp_path / "model.ckpt-best", with_slots(tensors))
    again, report = load_same(config, tmp_path, model)
    assert report.prefix == prefix
    assert {str(stored) for _, stored in report.read} == set(tensors) - {"global_step"}
    assert len(report.optimizer) == 2 * len(report.read) + 1
    save_tf1_checkpoint(again, str(tmp_path / "back"))
    check_same_tensors(read_original(tmp_path / "back"), tensors)
    assert not list(tmp_path.glob("*incomplete*"))
    encoder = AlbertEncoder(config)
    of_encoder = load_checkpoint(encoder, prefix)
    assert_same_weights(encoder, getattr(model, "encoder", model))
    heads = {name for name in tensors if not name.startswith("bert/")} - {"global_step"}
    assert (set(of_encoder.unexpected), of_encoder.unknown) == (heads, ())
    assert f"not needed by this model: {len(report.optimizer)} of" in of_encoder.summary()


def with_rows(tensors, *names, count):
    """Returns tensors of which those with a row per piece have more rows."""
    added = {
        name: np.concatenate(
            [tensors[name], np.ones((count, *tensors[name].shape[1:]), np.float32)]
        )
        for name in names
    }
    return {**tensors, **added}


PIECES = ("bert/embeddings/word_embeddings", "cls/predictions/output_bias")
VARIANTS = {
    "slots of any optimizer": lambda x: {
        **x,
        **{f"{name}/AdamWeightDecayOptimizer": x[name] for name in x if name != "global_step"},
        **{f"{name}/LAMB/part_0": x[name] for name in x if name != "global_step"},
        "bert/pooler/dense/kernel/ExponentialMovingAverage": np.ones((48, 48)),
        **{"beta1_power": np.float32(0.9), "good_steps": np.int64(7)},
    },
    "module of TensorFlow Hub": lambda x: {f"module/{name}": each for name, each in x.items()},
    "float64": lambda x: {name: each.astype(np.float64) for name, each in x.items()},
    "word table padded to a multiple of 8": lambda x: with_rows(x, PIECES[0], count=7),
    "padded to a multiple of 128": lambda x: with_rows(x, *PIECES, count=31),
}


@pytest.mark.parametrize("change", VARIANTS.values(), ids=VARIANTS)
def test_checkpoints_with_the_originals_names(tmp_path, change, capsys):
    model = random_model("pretrainer", tiny_config())
    tensors = original_tensors(model)
    changed = change(tensors)
    prefix = write_original(tmp_path / "model.ckpt", changed)
    _, report = load_same(tiny_config(), prefix, model)
    assert len(report.read) + len(report.optimizer) == len(changed)
    padded = [name for name in PIECES if name in changed and len(changed[name]) > 97]
    lines = capsys.readouterr().err.splitlines()
    assert [re.search("'(.*)' has .* rows for 97 pieces", line)[1] for line in lines] == padded


def test_brightmarts_word_table_is_the_product_of_two(tmp_path):
    expected, tensors = brightmart_pretrainer()
    prefix = write_original(tmp_path / "albert_model.ckpt", tensors)
    # The config is taken as it was published.
    model, report = load_same(tiny_config(embedding_size=16), prefix, expected)
    assert report.optimizer == ()
    assert model.encoder.config == tiny_config(embedding_size=48)


@pytest.mark.parametrize("kind", ["encoder", "pretrainer", "classifier", "span labeler"])
def test_googles_bert_is_read_as_it_is_unpacked(tmp_path, kind):
    config = tiny_config(
        embedding_size=48, sharing="none", hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1
    )
    model = random_model(kind, config)
    folder = write_google_bert(tmp_path / "uncased_L-3_H-48_A-4", model)
    assert read_config(f"{folder}/bert_config.json") == config
    assert AlbertConfig.from_json_file(f"{folder}/bert_config.json") == config
    _, report = load_same(config, folder, model)
    assert report.format_name == "google_bert"
    encoder = AlbertEncoder.from_preset(f"{folder}/bert_model.ckpt")
    assert_same_weights(encoder, getattr(model, "encoder", model))


def test_a_berts_checkpoint_needs_the_config_of_a_bert(tmp_path):
    model = random_model("encoder", tiny_config(embedding_size=48, sharing="none"))
    folder = write_google_bert(tmp_path / "bert", model)
    with refused("BERT's names.*sharing 'all'.*a BERT's, as a file named bert_config.json means"):
        load_checkpoint(AlbertEncoder(tiny_config()), folder)


@pytest.fixture(scope="module")
def bert():
    """A model that tests only read."""
    return random_model("pretrainer", tiny_config(embedding_size=48, sharing="none"))


@pytest.mark.parametrize(
    ("name", "is_lower_cased"),
    [
        ("uncased_L-3_H-48_A-4", True),
        ("cased_L-3_H-48_A-4", False),
        ("multi_cased_L-3_H-48_A-4", False),
        ("wwm_uncased_L-3_H-48_A-4", True),
    ],
)
def test_the_name_of_googles_folder_tells_the_case(bert, tmp_path, eagerly, name, is_lower_cased):
    loaded = load(write_google_bert(tmp_path / name, bert))
    assert loaded.tokenizer.lower_case == is_lower_cased
    assert loaded.predict(["Abc"]).shape == (1, 48)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_hugging_faces_there_and_back(tmp_path, architecture):
    folder = write_folder(tmp_path / "theirs", architecture)
    config = read_config(f"{folder}/config.json")
    assert config == config_of(architecture)
    model, _ = load_same(config, folder, model_of(architecture))
    assert load_checkpoint(getattr(model, "encoder", model), folder).unknown == ()

    save_model(model, str(tmp_path / "back"))
    expected = folder_tensors(architecture, with_prefix=True)
    check_same_tensors(read_folder(tmp_path / "back"), expected)
    with safetensors.safe_open(tmp_path / "back" / "model.safetensors", "numpy") as file:
        assert file.metadata()["format"] == "pt"
    paths = (tmp_path / name / "config.json" for name in ("theirs", "back"))
    there, back = (json.loads(path.read_text()) for path in paths)
    assert back["architectures"] == [architecture]
    assert len(back.get("id2label", "ab")) == len(there.get("id2label", "ab"))
    has_dropout = architecture.endswith(("Classification", "ForMultipleChoice"))
    dropout = "classifier_dropout" if is_bert(architecture) else "classifier_dropout_prob"
    assert back[dropout] == (0.3 if has_dropout else 0.1)
    without_effect = {"position_embedding_type", "use_cache", "gradient_checkpointing"}
    names = set(there) - {"transformers_version", "torch_dtype", "net_structure_type"}
    for name in names - without_effect - {"_name_or_path", "id2label", dropout}:
        assert back[name] == there[name], name


@pytest.mark.parametrize("family", ["albert", "bert"])
@pytest.mark.parametrize("copy", ["decoder.weight", "decoder.bias", None])
def test_folders_with_only_one_of_two_copies(tmp_path, family, copy):
    architecture = f"{family.capitalize()}ForMaskedLM"
    tensors = folder_tensors(architecture)
    head = "predictions" if family == "albert" else "cls.predictions"
    table = f"{family}.embeddings.word_embeddings.weight"
    if copy:
        name = {"decoder.weight": table, "decoder.bias": f"{head}.bias"}[copy]
        tensors = {**tensors, f"{head}.{copy}": tensors[name]}
        del tensors[name]
    else:  # float64, and padded
        tensors = {name: x.astype(np.float64) for name, x in tensors.items()}
        tensors = with_rows(tensors, table, f"{head}.bias", count=7)
    folder = write_folder(tmp_path / "theirs", architecture, tensors)
    load_same(config_of(architecture), folder, model_of(architecture))


@pytest.mark.parametrize("old", [False, True], ids=["albert", "bert"])
def test_published_folders_have_old_names_and_copies(tmp_path, old):
    family, heads = ("bert", "cls.predictions") if old else ("albert", "predictions")
    architecture = "BertForPreTraining" if old else "AlbertForMaskedLM"
    tensors = folder_tensors(f"{family.capitalize()}ForPreTraining")
    changes = {}
    if old:
        # Old files say less than today's.
        absent = ("classifier_dropout", "position_embedding_type", "hidden_dropout_prob")
        changes = dict.fromkeys(absent)
    else:
        # These have a pooler, unlike those that `transformers` writes today.
        tensors = {name: x for name, x in tensors.items() if not name.startswith("sop_")}
    theirs = {
        f"{heads}.decoder.weight": tensors[f"{family}.embeddings.word_embeddings.weight"],
        f"{heads}.decoder.bias": tensors[f"{heads}.bias"],
        f"{family}.embeddings.position_ids": np.arange(64)[None],
    }
    for name, tensor in tensors.items():
        if old:
            name = re.sub(r"LayerNorm\.weight$", "LayerNorm.gamma", name)
            name = re.sub(r"LayerNorm\.bias$", "LayerNorm.beta", name)
        theirs[name] = tensor
    folder = write_folder(tmp_path / "theirs", architecture, theirs, **changes)
    model, report = load_model(read_config(f"{folder}/config.json"), folder)
    assert model.encoder.with_pooler
    assert report.unexpected == ()
    assert model.encoder.config.hidden_dropout_prob == 0.1
    save_model(model, str(tmp_path / "back"))
    check_same_tensors(read_folder(tmp_path / "back"), tensors)


@pytest.mark.parametrize("kind", ["encoder", "classifier", "masked lm"])
def test_keras_hubs_presets(tmp_path, kind):
    backbone, head = keras_hub_tensors(kind)
    path = write_preset(tmp_path / "preset", {**backbone, **NO_WEIGHTS}, head)
    assert read_config(f"{path}/config.json") == KERAS_HUB_CONFIG
    _, report = load_same(KERAS_HUB_CONFIG, path, model_of_keras_hub(kind))
    assert report.format_name == "keras_hub"
    assert len(report.optimizer) == 2


def test_half_precision_is_read_as_float32_without_loss(tmp_path):
    import h5py

    word_table = "layers/reversible_embedding/vars/0"
    backbone, _ = keras_hub_tensors()
    halves = {name: tensor.astype(ml_dtypes.bfloat16) for name, tensor in backbone.items()}
    preset = write_preset(tmp_path / "preset", backbone)
    with h5py.File(f"{preset}/model.weights.h5", "w") as file:
        for name, tensor in halves.items():
            file.create_dataset(name, data=tensor).attrs["dtype"] = "bfloat16"
    encoder = AlbertEncoder(KERAS_HUB_CONFIG)
    load_checkpoint(encoder, preset)
    table = halves[word_table].astype(np.float32)
    np.testing.assert_array_equal(encoder.embedding.word_embeddings, table)
    for dtype in (np.float16, ml_dtypes.bfloat16):
        tensors = {name: x.astype(dtype) for name, x in folder_tensors("AlbertModel").items()}
        folder = write_folder(tmp_path / np.dtype(dtype).name, "AlbertModel", tensors)
        encoder = AlbertEncoder(config_of("AlbertModel"))
        load_checkpoint(encoder, folder)
        table = tensors["embeddings.word_embeddings.weight"].astype(np.float32)
        np.testing.assert_array_equal(encoder.embedding.word_embeddings, table)


@pytest.mark.parametrize(
    ("save", "changes", "expressible"),
    [
        (save_tf1_checkpoint, {"sharing": "none"}, True),
        (save_model, {"sharing": "none"}, True),
        (save_model, {"sharing": "none", "inner_group_num": 2}, True),
        (save_tf1_checkpoint, {"sharing": "attention", "num_hidden_groups": 3}, True),
        (save_tf1_checkpoint, {"sharing": "attention", "num_hidden_groups": 2}, False),
        # The original's rounding leaves one of 22 groups without a layer.
        (save_tf1_checkpoint, {"sharing": "none", "num_hidden_layers": 22}, False),
    ],
)
def test_unshared_layers_become_groups(tmp_path, save, changes, expressible):
    config = tiny_config(**changes)
    encoder = AlbertEncoder(config, seed=1)
    path = str(tmp_path / "there")
    if not expressible:
        with refused(f"sharing '{config.sharing}' with .* whole blocks", tmp_path):
            save(encoder, path)
        return
    save(encoder, path)
    groups = tiny_config(**{**changes, "sharing": "all", "num_hidden_groups": 3})
    for other in (AlbertEncoder(config), AlbertEncoder(groups)):
        load_checkpoint(other, path)
        assert_same_weights(other, encoder)


@pytest.mark.parametrize("make", [MODELS["token classifier"], AlbertEmbedder])
def test_heads_that_the_original_does_not_have_are_not_written(tmp_path, make):
    with refused(r"^Albert\w+: the original has no model with such heads", tmp_path):
        save_tf1_checkpoint(make(AlbertEncoder(tiny_config())), str(tmp_path / "there"))


def published_shapes(name):
    text = shared_path(f"data/tf1_checkpoint_variables/{name}.txt").read_text()
    rows = re.findall(r"^(\S+) \[(.*?)\] dtype", text, flags=re.MULTILINE)
    return {row: tuple(map(int, filter(None, shape.split(", ")))) for row, shape in rows}


@pytest.mark.parametrize("name", ["base_en", "large_en", "zh_google", "tiny_brightmart"])
def test_checkpoints_with_every_published_name_are_read(tmp_path, name):
    folder = shared_path("data/tf1_checkpoint_variables")
    config = AlbertConfig.from_json_file(str(folder / f"{name}.config.json"))
    small = tiny_config(num_hidden_layers=config.num_hidden_layers).to_dict()
    sizes = {value: small[key] for key, value in config.to_dict().items() if "_size" in key}
    sizes[config.max_position_embeddings] = small["max_position_embeddings"]
    rng = np.random.default_rng(0)
    tensors = {
        name: rng.normal(size=[sizes.get(size, size) for size in shape]).astype(np.float32)
        for name, shape in published_shapes(name).items()
    }
    prefix = write_original(tmp_path / "model.ckpt", {**tensors, "global_step": np.int64(7)})
    model, report = load_model(AlbertConfig(**small), prefix)
    assert isinstance(model, AlbertPretrainer)
    assert report.missing == report.unexpected == ()
    read = {name for _, stored in report.read for name in stored.names}
    assert read == tensors.keys() - {"global_step"}


@pytest.mark.parametrize("name", slow_except(CONFIGS, "g2_gelu", "e_eq_h_g1_relu"))
def test_reference_checkpoints_come_back_byte_for_byte(tmp_path, name):
    folder = shared_path(f"golden/encoder/{name}")
    config = AlbertConfig.from_json_file(str(folder / "albert_config.json"))
    model, report = load_model(config, str(folder / "ckpt_plain"))
    assert isinstance(model, AlbertPretrainer)
    assert (report.unexpected, report.optimizer) == ((), ("global_step",))
    save_tf1_checkpoint(model, str(tmp_path / "back"))
    there = read_original(folder / "ckpt_plain" / "model.ckpt-best")
    back = read_original(tmp_path / "back")
    check_same_tensors({**back, "global_step": there["global_step"]}, there)
    if name == "g2_gelu":
        _, report = load_same(config, folder / "ckpt_slots", model)
        assert len(report.optimizer) == 2 * len(report.read) + 1


# What we write for Hugging Face


def load_folder(folder):
    return load_model(read_config(f"{folder}/config.json"), str(folder))[0]


@pytest.mark.parametrize("with_head", [False, True])
def test_model_without_projection_there_and_back(tmp_path, with_head):
    model = encoder = AlbertEncoder(tiny_config(embedding_size=48), seed=1)
    if with_head:
        model = AlbertClassifier(encoder, 2)
    save_model(model, str(tmp_path / "there"))
    weight = "albert.encoder.embedding_hidden_mapping_in.weight"
    tensors = read_folder(tmp_path / "there")
    np.testing.assert_array_equal(tensors[weight], np.eye(48))
    assert_same_weights(load_folder(tmp_path / "there"), model)
    tensors[weight][3, 4] = 0.1
    safetensors.numpy.save_file(tensors, tmp_path / "there" / "model.safetensors")
    change_json(tmp_path / "there" / "config.json", albert_tf=None)
    with refused(r"holds 'albert\.encoder\.embedding_hidden_mapping_in"):
        load_folder(tmp_path / "there")


def test_what_hugging_face_does_not_have_is_ours(tmp_path):
    groups = {"num_hidden_layers": 22, "num_hidden_groups": 22}
    for number, changes in enumerate((groups, {"sharing": "ffn"})):
        encoder = AlbertEncoder(tiny_config(**changes))
        save_model(encoder, str(tmp_path / str(number)))
        config = json.loads((tmp_path / str(number) / "config.json").read_text())
        assert (config["model_type"], config["architectures"]) == ("albert_tf", ["AlbertEncoder"])
        assert load_folder(tmp_path / str(number)).config == encoder.config


def test_folder_is_replaced_as_a_whole_or_left(tmp_path):
    def content():
        return {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}

    save_model(AlbertEncoder(tiny_config(), seed=1), str(tmp_path / "out"))
    before = content()
    with (
        largest_file(20_000),
        pytest.raises(StoppedError, match=r"out/model\.safetensors: cannot b"),
    ):
        save_model(AlbertEncoder(tiny_config(), seed=2), str(tmp_path / "out"))
    assert content() == before
    save_model(AlbertEncoder(tiny_config(), seed=2), str(tmp_path / "out"))
    assert content().keys() == before.keys()
    assert content()["model.safetensors"] != before["model.safetensors"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
