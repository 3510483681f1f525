"""`transformers` reads trained folders as they are, and we what it saves; needs `make test-parity`."""

import numpy as np
import pytest

import albert_tf
from albert_tf.checkpoints.loading import read_config
from albert_tf.conversion import load_model
from albert_tf.tasks import pretraining_run
from albert_tf.tasks.fine_tuning.run import run
from tests.conversion.test_transformers import outputs_of, outputs_of_theirs
from tests.helpers import random_inputs
from tests.kinds.samples import SAMPLES
from tests.tasks import language

# Kind -> the class there.
CLASSES = {
    "classification": "AutoModelForSequenceClassification",
    "regression": "AutoModelForSequenceClassification",
    "multi_label": "AutoModelForSequenceClassification",
    "multiple_choice": "AutoModelForMultipleChoice",
    "token_classification": "AutoModelForTokenClassification",
    "question_answering": "AutoModelForQuestionAnswering",
    "embedding": "AutoModel",
    "pretraining": "AutoModelForPreTraining",
    "masked_lm": "AutoModelForMaskedLM",
}
SHORT = {"num_train_steps": 2, "save_checkpoints_steps": 2}


def train(name, folder):
    """Trains a model for two updates and returns its folder."""
    if name in SAMPLES:
        head = {"head": "simple"} if name == "question_answering" else {}
        options = SAMPLES[name].make_options(folder)
        without_export = {"export_dir": None, "export_format": "saved_model"}
        run(type(options)(**{**vars(options), **SHORT, **head, **without_export}))
    else:
        data = language.write_data(folder)
        objective = {"sentence_objective": "sop" if name == "pretraining" else "none"}
        objective["vocab_file"] = str(data / "vocab.txt")
        made = language.make_options(data, folder / "out", **SHORT, **objective, max_eval_steps=1)
        pretraining_run.run(made)
    return folder / "out"


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_transformers_gives_the_same_answers(name, tmp_path):
    transformers = pytest.importorskip("transformers", reason="needs the group parity")
    best = train(name, tmp_path) / "best"
    ours, report = load_model(read_config(str(best / "config.json")), str(best))
    assert report.missing == report.unexpected == ()
    theirs, notes = getattr(transformers, CLASSES[name]).from_pretrained(
        best, output_loading_info=True
    )
    # Some of theirs have no pooler, as their heads do not read it.
    assert {name.split(".")[1] for name in notes.pop("unexpected_keys")} <= {"pooler"}
    assert not any(notes.values()), notes
    inputs = random_inputs(vocab_size=ours.config.vocab_size)
    if name == "multiple_choice":
        inputs = {key: ids.reshape(1, 3, 11) for key, ids in inputs.items()}
    elif name in ("pretraining", "masked_lm"):
        inputs["masked_lm_positions"] = np.array([[0, 4], [10, 2], [3, 3]], np.int32)
    received, expected = outputs_of(ours, inputs), outputs_of_theirs(theirs.eval(), inputs)
    for key, output in expected.items():
        np.testing.assert_allclose(received[key], output, rtol=0, atol=1e-5, err_msg=key)

    theirs.save_pretrained(tmp_path / "back")
    again, report = load_model(read_config(f"{tmp_path}/back/config.json"), f"{tmp_path}/back")
    assert report.unexpected == ()
    received = outputs_of(again, inputs)
    for key, output in expected.items():
        np.testing.assert_allclose(received[key], output, rtol=0, atol=1e-5, err_msg=key)

    tokenizer = albert_tf.load(best).tokenizer
    texts = ["the old cat", "A rose and a fern", "word1 word2"]
    ids = transformers.AutoTokenizer.from_pretrained(best)(texts)["input_ids"]
    rows = tokenizer.encode_batch(texts)
    assert ids == [[tokenizer.cls_id, *row, tokenizer.sep_id] for row in rows]


@pytest.mark.slow
def test_transformers_refuses_what_it_does_not_have(tmp_path):
    transformers = pytest.importorskip("transformers", reason="needs the group parity")
    options = SAMPLES["question_answering"].make_options(tmp_path)
    run(type(options)(**{**vars(options), **SHORT, "head": "conditional", "export_dir": None}))
    with pytest.raises(ValueError, match="albert_tf"):
        transformers.AutoModel.from_pretrained(tmp_path / "out" / "best")
    assert albert_tf.load(tmp_path / "out").model.config.hidden_size
