"""Hugging Face folders into models and back, against NumPy."""

import dataclasses
import json

import numpy as np
import pytest
import safetensors.numpy

from albert_tf.checkpoints.loading import load_checkpoint, read_config
from albert_tf.conversion import save_hugging_face
from albert_tf.errors import InputError, StoppedError
from albert_tf.models import (
    AlbertClassifier,
    AlbertEncoder,
    AlbertMultipleChoice,
    AlbertPretrainer,
    AlbertSpanLabeler,
    AlbertTokenClassifier,
)
from tests.conversion.hugging_face_folder import (
    ARCHITECTURES,
    as_we_write,
    check_same_tensors,
    encode,
    gelu,
    inputs_for,
    is_bert,
    layer_norm,
    linear,
    load,
    outputs_of,
    random_tensors,
    read,
    write_folder,
)
from tests.helpers import random_inputs, tiny_config

MODELS = {
    "Model": AlbertEncoder,
    "ForPreTraining": AlbertPretrainer,
    "ForMaskedLM": AlbertPretrainer,
    "ForSequenceClassification": AlbertClassifier,
    "ForTokenClassification": AlbertTokenClassifier,
    "ForMultipleChoice": AlbertMultipleChoice,
    "ForQuestionAnswering": AlbertSpanLabeler,
}


def expected_outputs(architecture, tensors, inputs):
    flat = {name: ids.reshape(-1, ids.shape[-1]) for name, ids in inputs.items()}
    hidden = encode(tensors, flat)
    heads = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
    prefix, pooler = ("bert.", "pooler.dense") if is_bert(architecture) else ("albert.", "pooler")
    if architecture.endswith("Model"):
        pooled = np.tanh(linear(hidden[:, 0], heads, pooler))
        return {"last_hidden_state": hidden, "pooler_output": pooled}
    if architecture.endswith("ForQuestionAnswering"):
        logits = linear(hidden, heads, "qa_outputs")
        return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}
    if architecture.endswith("ForTokenClassification"):
        return {"logits": linear(hidden, heads, "classifier")}
    if architecture.endswith("ForMaskedLM"):
        return {"prediction_logits": masked_lm_logits(hidden, heads, inputs)}
    pooled = np.tanh(linear(hidden[:, 0], heads, prefix + pooler))
    if architecture.endswith("ForPreTraining"):
        head = "cls.seq_relationship" if is_bert(architecture) else "sop_classifier.classifier"
        return {
            "prediction_logits": masked_lm_logits(hidden, heads, inputs),
            "sop_logits": linear(pooled, heads, head),
        }
    logits = linear(pooled, heads, "classifier")
    return {"logits": logits.reshape(1, 3) if logits.shape[1] == 1 else logits}


def masked_lm_logits(hidden, heads, inputs):
    gathered = np.take_along_axis(hidden, inputs["masked_lm_positions"][..., None], axis=1)
    if "cls.predictions.bias" in heads:
        transform = "cls.predictions.transform"
        transformed = gelu(linear(gathered, heads, f"{transform}.dense"), tanh_form=False)
        transformed = layer_norm(transformed, heads, f"{transform}.LayerNorm")
        table = heads["bert.embeddings.word_embeddings.weight"]
        return transformed @ table.T + heads["cls.predictions.bias"]
    transformed = gelu(linear(gathered, heads, "predictions.dense"))
    transformed = layer_norm(transformed, heads, "predictions.LayerNorm")
    return (
        transformed @ heads["albert.embeddings.word_embeddings.weight"].T
        + heads["predictions.bias"]
    )


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_folder_there_and_back(tmp_path, architecture):
    tensors = random_tensors(architecture)
    folder = write_folder(tmp_path / "theirs", architecture, tensors)
    model, report = load(folder)
    assert type(model) is MODELS[architecture.removeprefix("Albert").removeprefix("Bert")]
    assert report.unexpected == report.optimizer == report.missing == ()
    assert len(report.read) == len(model.weights) == len(tensors)

    inputs = inputs_for(architecture)
    received = outputs_of(model, inputs)
    expected = expected_outputs(architecture, tensors, inputs)
    assert set(received) == set(expected)
    for name, output in expected.items():
        np.testing.assert_allclose(received[name], output, rtol=0, atol=1e-5, err_msg=name)

    save_hugging_face(model, str(tmp_path / "back"))
    check_same_tensors(read(tmp_path / "back"), as_we_write(tensors))
    with safetensors.safe_open(tmp_path / "back" / "model.safetensors", "numpy") as file:
        assert file.metadata() == {"format": "pt"}
    there, back = (
        json.loads((tmp_path / name / "config.json").read_text()) for name in ("theirs", "back")
    )
    assert back["architectures"] == [architecture]
    assert len(back.get("id2label", "ab")) == len(there.get("id2label", "ab"))
    has_dropout = architecture.endswith(("Classification", "ForMultipleChoice"))
    dropout = "classifier_dropout" if is_bert(architecture) else "classifier_dropout_prob"
    assert back[dropout] == (0.3 if has_dropout else 0.1)
    without_effect = {"position_embedding_type", "use_cache", "gradient_checkpointing"}
    names = set(there) - {"transformers_version", "torch_dtype", "net_structure_type"}
    for name in names - without_effect - {"_name_or_path", "id2label", dropout}:
        assert back[name] == there[name], name


def test_two_forms_of_gelu(tmp_path):
    tensors = random_tensors("AlbertModel")
    inputs = random_inputs()
    outputs = {}
    for act, ours, written in (
        ("gelu_new", "gelu", "gelu_new"),
        ("gelu", "gelu_erf", "gelu"),
        ("gelu_pytorch_tanh", "gelu", "gelu_new"),
    ):
        folder = write_folder(tmp_path / act, "AlbertModel", tensors, hidden_act=act)
        model, _ = load(folder)
        assert model.config.hidden_act == ours
        outputs[act] = np.asarray(model(inputs)["sequence_output"])
        expected = encode(tensors, inputs, tanh_form=act != "gelu")
        np.testing.assert_allclose(outputs[act], expected, rtol=0, atol=1e-5)
        save_hugging_face(model, str(tmp_path / "back" / act))
        back = json.loads((tmp_path / "back" / act / "config.json").read_text())
        assert back["hidden_act"] == written
    assert np.abs(outputs["gelu"] - outputs["gelu_new"]).max() > 1e-4


def test_config_decides_the_form_of_gelu(tmp_path):
    folder = write_folder(tmp_path / "v1", "AlbertModel", hidden_act="gelu")
    encoder = AlbertEncoder(tiny_config(num_hidden_groups=2, inner_group_num=2, hidden_act="gelu"))
    load_checkpoint(encoder, folder)
    inputs = random_inputs()
    expected = encode(random_tensors("AlbertModel"), inputs, tanh_form=True)
    np.testing.assert_allclose(encoder(inputs)["sequence_output"], expected, rtol=0, atol=1e-5)


def test_classifier_starts_from_a_masked_lm_without_pooler(tmp_path):
    folder = write_folder(tmp_path / "theirs", "AlbertForMaskedLM")
    config = read_config(f"{folder}/config.json")
    classifier = AlbertClassifier(AlbertEncoder(config, seed=1), num_classes=2)
    before = classifier.encoder.pooler.get_weights()[0]
    report = load_checkpoint(classifier.encoder, folder)
    assert report.missing == (
        "albert_encoder/pooler/dense/kernel",
        "albert_encoder/pooler/dense/bias",
    )
    assert "albert_encoder/pooler/dense/kernel" in report.summary()
    np.testing.assert_array_equal(classifier.encoder.pooler.dense.kernel, before)
    np.testing.assert_array_equal(
        classifier.encoder.embedding.word_embeddings,
        read(folder)["albert.embeddings.word_embeddings.weight"],
    )
    assert set(report.unexpected) == set(ARCHITECTURES["AlbertForMaskedLM"][1])


def test_half_a_pooler_is_refused(tmp_path):
    tensors = random_tensors("AlbertModel")
    del tensors["pooler.bias"]
    folder = write_folder(tmp_path / "theirs", "AlbertModel", tensors)
    encoder = AlbertEncoder(read_config(f"{folder}/config.json"))
    with pytest.raises(InputError, match=r"'pooler.bias' is not in it"):
        load_checkpoint(encoder, folder)


def test_masked_lm_of_the_published_folders_has_a_pooler_and_copies(tmp_path):
    tensors = random_tensors("AlbertForPreTraining")
    tensors = {name: x for name, x in tensors.items() if not name.startswith("sop_")}
    copies = {
        "predictions.decoder.weight": tensors["albert.embeddings.word_embeddings.weight"],
        "predictions.decoder.bias": tensors["predictions.bias"],
        "albert.embeddings.position_ids": np.arange(64)[None],
    }
    folder = write_folder(tmp_path / "theirs", "AlbertForMaskedLM", {**tensors, **copies})
    model, report = load(folder)
    assert model.encoder.with_pooler
    assert report.unexpected == ()
    save_hugging_face(model, str(tmp_path / "back"))
    check_same_tensors(read(tmp_path / "back"), tensors)


def test_model_without_projection_there_and_back(tmp_path):
    encoder = AlbertEncoder(tiny_config(embedding_size=48), seed=1)
    for name, model in (("bare", encoder), ("head", AlbertClassifier(encoder, 2))):
        save_hugging_face(model, str(tmp_path / name))
        weight = "albert.encoder.embedding_hidden_mapping_in.weight"
        tensors = read(tmp_path / name)
        np.testing.assert_array_equal(tensors[weight], np.eye(48))
        again, _ = load(str(tmp_path / name))
        np.testing.assert_array_equal(
            np.asarray(getattr(again, "encoder", again)(random_inputs())["pooled_output"]),
            np.asarray(encoder(random_inputs())["pooled_output"]),
        )
        tensors[weight][3, 4] = 0.1
        changed = tmp_path / f"{name}_changed"
        changed.mkdir()
        (changed / "config.json").write_bytes((tmp_path / name / "config.json").read_bytes())
        safetensors.numpy.save_file(tensors, changed / "model.safetensors")
        with pytest.raises(
            InputError, match=r"holds 'albert\.encoder\.embedding_hidden_mapping_in"
        ):
            load(str(changed))


def test_bert_of_the_published_folders_has_old_names_and_copies(tmp_path):
    tensors = random_tensors("BertForPreTraining")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in tensors.items()
    }
    copies = {
        "cls.predictions.decoder.weight": tensors["bert.embeddings.word_embeddings.weight"],
        "cls.predictions.decoder.bias": tensors["cls.predictions.bias"],
        "bert.embeddings.position_ids": np.arange(64)[None],
    }
    # Old files say less than today's.
    absent = ("classifier_dropout", "position_embedding_type", "hidden_dropout_prob")
    folder = write_folder(
        tmp_path / "theirs", "BertForPreTraining", {**old, **copies}, **dict.fromkeys(absent)
    )
    model, report = load(folder)
    assert report.unexpected == ()
    assert model.encoder.config.hidden_dropout_prob == 0.1
    save_hugging_face(model, str(tmp_path / "back"))
    check_same_tensors(read(tmp_path / "back"), tensors)


@pytest.mark.parametrize("changes", [{"num_hidden_groups": 5}, {}])
def test_baselines_are_written_as_bert(tmp_path, changes):
    config = tiny_config(embedding_size=48, sharing="none", **changes)
    encoder = AlbertEncoder(config, seed=1)
    save_hugging_face(encoder, str(tmp_path / "theirs"))
    config = json.loads((tmp_path / "theirs" / "config.json").read_text())
    assert (config["model_type"], config["hidden_act"]) == ("bert", "gelu_new")
    assert not {"embedding_size", "num_hidden_groups", "inner_group_num"} & set(config)
    again, _ = load(str(tmp_path / "theirs"))
    assert again.config == dataclasses.replace(encoder.config, num_hidden_groups=1)
    load_checkpoint(AlbertEncoder(encoder.config), str(tmp_path / "theirs"))
    np.testing.assert_array_equal(
        np.asarray(again(random_inputs())["pooled_output"]),
        np.asarray(encoder(random_inputs())["pooled_output"]),
    )


def test_bert_does_not_load_into_an_albert(tmp_path):
    folder = write_folder(tmp_path / "theirs", "BertModel")
    for config, message in (
        (tiny_config(), "config.json has embedding_size 48; the model's config has 16"),
        (tiny_config(embedding_size=48), "config.json has sharing 'none'; .* has 'all'"),
    ):
        config = dataclasses.replace(config, hidden_act="gelu_erf")
        with pytest.raises(InputError, match=rf"theirs \(Hugging Face, BertModel\): {message}"):
            load_checkpoint(AlbertEncoder(config), folder)


def test_unshared_layers_become_groups(tmp_path):
    encoder = AlbertEncoder(tiny_config(sharing="none"), seed=1)
    save_hugging_face(encoder, str(tmp_path / "theirs"))
    assert json.loads((tmp_path / "theirs" / "config.json").read_text())["num_hidden_groups"] == 5
    again, _ = load(str(tmp_path / "theirs"))
    load_checkpoint(AlbertEncoder(encoder.config), str(tmp_path / "theirs"))
    np.testing.assert_array_equal(
        np.asarray(again(random_inputs())["pooled_output"]),
        np.asarray(encoder(random_inputs())["pooled_output"]),
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"sharing": "ffn"},
            "sharing 'ffn' with 5 layers .* Hugging Face's checkpoints hold whole",
        ),
        (
            {"num_hidden_layers": 22, "num_hidden_groups": 22},
            "layer 15 belongs to group 15 in a Hugging Face model and to group 14 in",
        ),
    ],
)
def test_models_that_they_do_not_have_are_not_written(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        save_hugging_face(AlbertEncoder(tiny_config(**changes)), str(tmp_path / "theirs"))
    assert list(tmp_path.iterdir()) == []


def test_vocabulary_goes_along_and_folder_is_complete_or_absent(tmp_path):
    encoder = AlbertEncoder(tiny_config())
    save_hugging_face(encoder, str(tmp_path / "out"), more_files={"spiece.model": b"pieces"})
    names = ["README.md", "config.json", "model.safetensors", "spiece.model"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    assert (tmp_path / "out" / "spiece.model").read_bytes() == b"pieces"
    before = (tmp_path / "out" / "model.safetensors").read_bytes()
    with pytest.raises(StoppedError, match="out: cannot be written"):
        save_hugging_face(AlbertEncoder(tiny_config()), str(tmp_path / "out"))
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"num_attention_heads": 3},
            "config.json has num_attention_heads 4; the model's config has 3",
        ),
        ({"num_hidden_layers": 6}, "config.json has num_hidden_layers 5; the model's config has 6"),
        (
            {"hidden_act": "relu"},
            "config.json has hidden_act 'gelu'; the model's config has 'relu'",
        ),
        ({"vocab_size": 96}, "config.json has vocab_size 97; the model's config has 96"),
    ],
)
def test_config_of_another_model_is_refused(tmp_path, changes, message):
    folder = write_folder(tmp_path / "theirs", "AlbertModel")
    config = tiny_config(**{"num_hidden_groups": 2, "inner_group_num": 2, **changes})
    encoder = AlbertEncoder(config)
    before = encoder.get_weights()
    with pytest.raises(InputError, match=rf"{folder} \(Hugging Face, AlbertModel\): {message}"):
        load_checkpoint(encoder, folder)
    for first, second in zip(before, encoder.get_weights(), strict=True):
        np.testing.assert_array_equal(first, second)


def test_architectures_that_we_do_not_have(tmp_path):
    for number, architectures in enumerate((["AlbertForNextSentencePrediction"], None)):
        folder = write_folder(
            tmp_path / str(number), "AlbertForQuestionAnswering", architectures=architectures
        )
        with pytest.raises(InputError, match=r"config.json: architecture .* is not one of AlbertM"):
            load(folder)
        # Its encoder is like any other's.
        encoder = AlbertEncoder(read_config(f"{folder}/config.json"))
        assert load_checkpoint(encoder, folder).unexpected == (
            "qa_outputs.bias",
            "qa_outputs.weight",
        )


def test_missing_tensors_are_named(tmp_path):
    tensors = random_tensors("AlbertForSequenceClassification")
    for number, name in enumerate(("classifier.bias", "albert.pooler.weight")):
        rest = {other: tensor for other, tensor in tensors.items() if other != name}
        folder = write_folder(tmp_path / str(number), "AlbertForSequenceClassification", rest)
        with pytest.raises(InputError, match=f"'{name}' is not in it; the model's 'albert_"):
            load(folder)
