"""Hugging Face folders against `transformers` itself; needs `make test-parity`."""

import numpy as np
import pytest

from albert_tf.conversion import save_hugging_face
from albert_tf.models import AlbertEncoder
from albert_tf.tokenization import AlbertTokenizer
from tests.conversion.hugging_face_folder import (
    ARCHITECTURES,
    check_same_tensors,
    inputs_for,
    load,
    outputs_of,
    read,
)
from tests.helpers import shared_path, tiny_config


def random_of_theirs(architecture, **changes):
    """Returns a random model of `transformers`, in evaluation mode."""
    torch = pytest.importorskip("torch", reason="needs the extra hf-parity: torch")
    transformers = pytest.importorskip("transformers", reason="needs the extra hf-parity")
    torch.manual_seed(1)
    values = {**tiny_config(num_hidden_groups=2, inner_group_num=2).to_dict(), **changes}
    del values["sharing"]
    config = transformers.AlbertConfig(**{"hidden_act": "gelu_new", **values})
    model = getattr(transformers, architecture)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
    return model


def outputs_of_theirs(model, inputs):
    import torch

    names = {"input_mask": "attention_mask", "segment_ids": "token_type_ids"}
    positions = inputs.get("masked_lm_positions")
    with torch.no_grad():
        outputs = model(
            **{
                names.get(name, name): torch.from_numpy(ids).long()
                for name, ids in inputs.items()
                if name != "masked_lm_positions"
            }
        )
    outputs = {name: output.numpy() for name, output in outputs.items()}
    if "MaskedLM" in type(model).__name__:
        outputs = {"prediction_logits": outputs["logits"]}
    if "prediction_logits" in outputs:
        outputs["prediction_logits"] = np.take_along_axis(
            outputs["prediction_logits"], positions[..., None], axis=1
        )
    return outputs


def check_same_outputs(ours, theirs, architecture):
    inputs = inputs_for(architecture)
    received, expected = outputs_of(ours, inputs), outputs_of_theirs(theirs, inputs)
    for name, output in expected.items():
        np.testing.assert_allclose(received[name], output, rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("hidden_act", ["gelu_new", "gelu", "relu"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_random_models_of_transformers_agree_both_ways(tmp_path, architecture, hidden_act):
    labels = {"num_labels": 3} if architecture == "AlbertForSequenceClassification" else {}
    theirs = random_of_theirs(architecture, hidden_act=hidden_act, **labels)
    theirs.save_pretrained(tmp_path / "theirs")
    ours, report = load(str(tmp_path / "theirs"))
    assert report.left == report.kept == ()
    check_same_outputs(ours, theirs, architecture)

    save_hugging_face(ours, str(tmp_path / "back"))
    check_same_tensors(read(tmp_path / "back"), read(tmp_path / "theirs"))
    again, notes = type(theirs).from_pretrained(tmp_path / "back", output_loading_info=True)
    assert not any(notes.values()), notes
    check_same_outputs(ours, again.eval(), architecture)


@pytest.mark.slow
def test_transformers_reads_our_vocabulary(tmp_path):
    transformers = pytest.importorskip("transformers", reason="needs the extra hf-parity")
    vocabulary = str(shared_path("data/sentencepiece/30k-clean.model"))
    tokenizer = AlbertTokenizer(vocabulary)
    encoder = AlbertEncoder(tiny_config(vocab_size=tokenizer.vocab_size))
    save_hugging_face(encoder, str(tmp_path / "out"), vocabulary)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    for line in ("The quick brown fox, it jumped.", "Don't panic: naïve cafés cost 12 euros!"):
        assert theirs.tokenize(line) == tokenizer.tokenize(line)
