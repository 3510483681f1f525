import hashlib
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.checkpoints.loading import load_checkpoint, read_config
from albert_tf.checkpoints.tensors import write_checkpoint
from albert_tf.conversion import load_model, save_model, save_tf1_checkpoint
from albert_tf.errors import StoppedError
from albert_tf.kinds.registry import read_kind
from albert_tf.models import AlbertClassifier, AlbertEncoder, AlbertPretrainer
from albert_tf.tasks.conversion import TARGETS, ConversionOptions, _difference, run
from albert_tf.tokenization import train_vocabulary
from tests.checkpoints.layouts import (
    MODELS,
    brightmart_pretrainer,
    check_same_tensors,
    folder_tensors,
    model_of,
    read_folder,
    write_folder,
)
from tests.export.runtimes import need
from tests.helpers import (
    assert_same_weights,
    change_json,
    contents_of,
    largest_file,
    refused,
    slow_except,
    tiny_config,
    write_wordpiece,
)
from tests.tokenization.conftest import train_model


def save_ours(folder, model):
    save_model(model, str(folder / "ours"))
    return folder / "ours"


@pytest.fixture
def model(tmp_path):
    model = AlbertPretrainer(AlbertEncoder(tiny_config(), seed=1), seed=2)
    save_ours(tmp_path, model)
    return model


def convert(source, to, output, **options):
    files = {"init_checkpoint": str(source), "output_checkpoint": str(output)}
    return run(ConversionOptions(to=to, **files, **options))


def convert_ours(folder, **changes):
    """Converts `ours` to `out/model.ckpt-best` of the original's format, or as the changes say."""
    output = folder / "out" / "model.ckpt-best"
    return convert(**{"source": folder / "ours", "to": "tf1", "output": output, **changes})


def test_hugging_face_folder_to_a_checkpoint_and_back(tmp_path, capsys):
    folder = write_folder(tmp_path / "theirs", architecture := "AlbertForPreTraining")
    there, back = tmp_path / "there", str(tmp_path / "back")
    convert(folder, "tf1", there / "model.ckpt-best")
    names = {f"model.ckpt-best.{end}" for end in ("data-00000-of-00001", "index")}
    assert {path.name for path in there.iterdir()} == {"albert_config.json", *names}
    config = read_config(str(there / "albert_config.json"))
    assert config == read_config(f"{folder}/config.json")
    convert(there, "hugging_face", back)
    shown = capsys.readouterr().out
    row = next(line for line in shown.splitlines() if "seq_relationship/output_weights" in line)
    assert row.split()[0] == "sop_classifier.classifier.weight"
    assert row.split()[1:] == ["cls/seq_relationship/output_weights", "(2,", "48)"]
    assert shown.count("its outputs differ by at most 0.0e+00") == 2
    content = pathlib.Path(folder, "model.safetensors").read_bytes()
    assert f"; SHA-256 of model.safetensors: {hashlib.sha256(content).hexdigest()}\n" in shown
    check_same_tensors(read_folder(back), folder_tensors(architecture, with_prefix=True))
    assert read_json(pathlib.Path(back, "config.json"))["architectures"] == [architecture]


def as_tf1(folder, with_config=True):
    save_tf1_checkpoint(AlbertEncoder(tiny_config()), str(folder / "there"))
    if with_config:
        tiny_config().to_json_file(str(folder / "albert_config.json"))
    return folder / "there"


def with_exact_gelu(folder):
    return write_folder(folder / "theirs", "AlbertModel", hidden_act="gelu")


def of(name):
    return lambda folder: save_ours(folder, MODELS[name](AlbertEncoder(tiny_config())))


HUGGING_FACE = {"to": "hugging_face"}
EXISTS = r"--output_checkpoint: '.*out.*' exists already"


@pytest.mark.parametrize(
    ("make", "changes", "message"),
    [
        (of("token classifier"), {}, "has no model with such"),
        (of("conditional span labeler"), HUGGING_FACE, "has no model with such"),
        (
            of("encoder"),
            {"spm_model_file": "words/150.model"},
            r"150 pieces; .* says vocab_size 97",
        ),
        (
            lambda folder: as_tf1(folder, with_config=False),
            HUGGING_FACE,
            "expected --albert_config_file; there is no albert_config.json next to --i.*there$",
        ),
        (with_exact_gelu, {}, "hidden_act 'gelu_erf': the original's gelu is the tanh"),
        (of("encoder"), {"output": "out/there"}, EXISTS),
        (of("encoder"), {"output": "out", **HUGGING_FACE}, EXISTS),
        (of("encoder"), {"output": "out/there.index", **HUGGING_FACE}, EXISTS),
    ],
)
def test_what_is_refused_leaves_nothing(tmp_path, monkeypatch, make, changes, message):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("words").mkdir()
    pathlib.Path("words/150.model").write_bytes(train_model())
    pathlib.Path("out").mkdir()
    pathlib.Path("out/there.index").write_text("notes")
    source = make(tmp_path)
    with refused(message, tmp_path):
        convert(**{"source": source, "to": "tf1", "output": "out/model.ckpt-best", **changes})


def test_weights_for_exact_gelu_are_the_originals_with_its_own_config(tmp_path):
    tiny_config(num_hidden_groups=2, inner_group_num=2).to_json_file(str(tmp_path / "config"))
    folder, output = with_exact_gelu(tmp_path), tmp_path / "out" / "ckpt"
    convert(folder, "tf1", output, albert_config_file=str(tmp_path / "config"))
    assert (tmp_path / "out" / "ckpt.index").exists()


@pytest.mark.usefixtures("model")
def test_a_hugging_face_folder_in_half_precision(tmp_path):
    sizes = {}
    for dtype in ("float32", "float16"):
        folder = tmp_path / dtype
        convert_ours(tmp_path, to="hugging_face", output=folder, output_dtype=dtype)
        sizes[dtype] = (folder / "model.safetensors").stat().st_size
        model, _ = load_model(read_config(str(folder / "config.json")), str(folder))
        for weight in map(np.asarray, model.weights):
            assert (weight == weight.astype(dtype)).all()
        card = (folder / "README.md").read_text()
        assert card.startswith("---\nlibrary_name: transformers\npipeline_tag: fill-mask\n")
        assert f"stored in {dtype}; 97 pieces" in card
    assert sizes["float16"] < 0.6 * sizes["float32"]


@pytest.mark.usefixtures("model")
def test_a_full_disk_names_what_the_user_named(tmp_path):
    folder = tmp_path / "theirs"
    with largest_file(100_000), pytest.raises(StoppedError) as error:
        convert_ours(tmp_path, to="hugging_face", output=folder)
    assert str(error.value).startswith(f"{folder}/model.safetensors: cannot be written: ")
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith("theirs")]


def test_brightmarts_published_config_becomes_one_that_loads(tmp_path):
    write_checkpoint(str(tmp_path / "theirs"), brightmart_pretrainer()[1])
    tiny_config(embedding_size=16).to_json_file(str(tmp_path / "albert_config.json"))
    output = tmp_path / "out"
    convert(tmp_path / "theirs", "hugging_face", output)
    config = read_config(str(output / "config.json"))
    assert config == tiny_config(embedding_size=48)
    assert load_checkpoint(AlbertPretrainer(AlbertEncoder(config)), str(output)).missing == ()


@pytest.mark.parametrize("to", slow_except(TARGETS, "tf1"))
def test_outputs_that_are_no_numbers_are_not_called_done(tmp_path, model, vocabulary, to, capsys):
    need(to)
    embeddings = model.encoder.weights[0]
    embeddings.assign(np.full(embeddings.shape, 3e38, np.float32))  # whose sums are infinite
    save_model(model, str(tmp_path / "diverged"))
    with refused("best: not written: its outputs would differ by nan"):
        convert_ours(tmp_path, source=tmp_path / "diverged", to=to, spm_model_file=vocabulary)
    assert "wrote" not in capsys.readouterr().out
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]


def test_original_has_the_classifiers_names_for_multiple_choice(tmp_path):
    folder = write_folder(tmp_path / "theirs", "AlbertForMultipleChoice")
    output = str(tmp_path / "out" / "ckpt")
    convert(folder, "tf1", output)
    model, _ = load_model(read_config(f"{folder}/config.json"), output)
    assert isinstance(model, AlbertClassifier)
    assert_same_weights(model, model_of("AlbertForMultipleChoice"))


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("vocabulary") / "97.model")
    letters = np.random.default_rng(0).integers(ord("a"), ord("z") + 1, (300, 8))
    text = ["".join(map(chr, row)) for row in letters]
    train_vocabulary(text, path, vocab_size=97)
    return path


def read_json(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_trained_folder_is_converted_with_its_kind(trained, tmp_path):
    there = tmp_path / "there"
    convert(trained, "hugging_face", there)
    config = read_json(there / "config.json")
    assert config["id2label"] == {"0": "animal", "1": "plant"}
    assert config["label2id"] == {"animal": 0, "plant": 1}
    assert config["problem_type"] == "single_label_classification"
    for name in ("model.safetensors", "spiece.model", "tokenizer.json"):
        assert (there / name).read_bytes() == (trained / "best" / name).read_bytes()
    assert "Lowercase" in (there / "tokenizer.json").read_text()
    assert albert_tf.load(there).kind == albert_tf.load(trained).kind


@pytest.mark.parametrize(
    ("kind", "names", "changes"),
    [
        # To `transformers`, a single output without a problem type is one.
        ("regression", ["LABEL_0"], {}),
        ("multi_label", ["no", "if", "yes"], {"problem_type": "multi_label_classification"}),
        (None, ["LABEL_0", "LABEL_1", "LABEL_2"], {"id2label": None, "num_labels": 3}),
    ],
)
def test_kind_of_a_hugging_face_folder_is_kept(tmp_path, kind, names, changes):
    architecture = "AlbertForSequenceClassification"
    tensors = folder_tensors(architecture)
    for name in ("classifier.weight", "classifier.bias"):
        tensors[name] = tensors[name][: len(names)]
    changes = {"id2label": dict(enumerate(names)), **changes}
    theirs = write_folder(tmp_path / "theirs", architecture, tensors, **changes)
    convert(theirs, "hugging_face", tmp_path / "back")
    config = read_json(tmp_path / "back" / "config.json")
    assert list(config["id2label"].values()) == names
    if kind is None:
        assert "problem_type" not in config
        return
    assert read_kind(str(tmp_path / "back")).name == kind
    assert config["problem_type"].startswith(kind)


_TEXTS = ["batch_size", "sequence_length"]
_OUTPUTS = {
    "Model": {"last_hidden_state": [*_TEXTS, 48], "pooler_output": ["batch_size", 48]},
    "ForPreTraining": {"logits": [*_TEXTS, 97]},
    "ForMaskedLM": {"logits": [*_TEXTS, 97]},
    "ForSequenceClassification": {"logits": ["batch_size", 3]},
    "ForTokenClassification": {"logits": [*_TEXTS, 3]},
    "ForMultipleChoice": {"logits": ["batch_size", "num_choices"]},
    "ForQuestionAnswering": {"start_logits": _TEXTS, "end_logits": _TEXTS},
}


# The conversion itself compares the outputs.
@pytest.mark.parametrize("name", slow_except(_OUTPUTS, "ForPreTraining"))
def test_onnx_files_have_the_names_of_transformers(tmp_path, name, capsys):
    need("onnx")
    import onnxruntime

    source = write_folder(tmp_path / "theirs", f"Albert{name}")
    convert(source, "onnx", tmp_path / "there")
    assert "its outputs differ by at most" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "there" / "onnx").iterdir()} == {"model.onnx"}
    config = read_config(str(tmp_path / "there" / "config.json"))
    assert load_model(config, str(tmp_path / "there"))[1].missing == ()
    session = onnxruntime.InferenceSession(tmp_path / "there" / "onnx" / "model.onnx")
    axes = ["batch_size", "num_choices", "sequence_length"] if "Choice" in name else _TEXTS
    inputs = {one.name: (one.type, one.shape) for one in session.get_inputs()}
    names = ("input_ids", "attention_mask", "token_type_ids")
    assert inputs == dict.fromkeys(names, ("tensor(int64)", axes))
    outputs = {one.name: one.shape for one in session.get_outputs()}
    assert outputs.items() >= _OUTPUTS[name].items()


def test_an_onnx_file_stores_each_matrix_once(tmp_path):
    need("onnx")
    model = AlbertPretrainer(AlbertEncoder(tiny_config(vocab_size=9000), seed=1), seed=2)
    save_ours(tmp_path, model)
    convert_ours(tmp_path, to="onnx", output=tmp_path / "there", output_dtype="float16")
    (path,) = (tmp_path / "there" / "onnx").iterdir()
    assert path.name == "model_fp16.onnx"
    # The bias of the pieces remains in float32; a second word table would take more than the graph.
    assert path.stat().st_size < 2 * model.count_params() + 2 * 9000 + 200_000


def test_wordpiece_vocabulary_goes_along(tmp_path):
    theirs, back = tmp_path / "theirs", tmp_path / "back"
    source = save_ours(tmp_path, AlbertEncoder(tiny_config()))
    write_wordpiece(source / "vocab.txt", map(str, range(92)))
    convert(source, "hugging_face", theirs)
    change_json(theirs / "config.json", albert_tf=None)  # as others write it
    assert read_json(theirs / "tokenizer.json")["model"]["type"] == "WordPiece"
    convert(theirs, "tf1", back / "ckpt")
    assert (back / "vocab.txt").read_bytes() == (source / "vocab.txt").read_bytes()
    # A tokenizer that is not ours is refused, unless the user chooses ours.
    for key in ("strip_accents", "tokenize_chinese_chars", "word_tokenizer_type"):
        change_json(theirs / "tokenizer_config.json", **{key: False})
        with refused(f"tokenizer_config.json: key '{key}' is False; with"):
            convert(theirs, "tf1", tmp_path / key / "ckpt")
        convert(theirs, "tf1", tmp_path / key / "ckpt", do_lower_case=True)
        change_json(theirs / "tokenizer_config.json", **{key: None})


def test_vocabulary_that_tokenizers_cannot_express_goes_alone(tmp_path, capsys):
    source = save_ours(tmp_path, AlbertEncoder(tiny_config(vocab_size=150)))
    (source / "spiece.model").write_bytes(train_model(model_type="bpe"))
    output = tmp_path / "theirs"
    convert(source, "hugging_face", output)
    assert "warning: no tokenizer.json: " in capsys.readouterr().err
    names = {"README.md", "config.json", "model.safetensors", "spiece.model"}
    assert {path.name for path in output.iterdir()} == {*names, "tokenizer_config.json"}


@pytest.mark.usefixtures("model")
def test_config_and_vocabulary_beside_a_checkpoint_are_taken(tmp_path, vocabulary):
    theirs, there = tmp_path / "theirs", tmp_path / "there" / "ckpt"
    # An empty folder may be there, and what is next to it does not matter.
    theirs.mkdir()
    (tmp_path / "spiece.model").write_bytes(b"other pieces")
    convert_ours(tmp_path, to="hugging_face", output=theirs, spm_model_file=vocabulary)
    assert (theirs / "spiece.model").read_bytes() == pathlib.Path(vocabulary).read_bytes()
    convert(theirs, "tf1", there)
    assert len(contents_of(theirs)) == 6
    for source in (there.parent, there):
        convert(source, "hugging_face", tmp_path / f"of {source.name}")
        assert contents_of(tmp_path / f"of {source.name}") == contents_of(theirs)


def test_hub_encoder_of_a_pretrainer_keeps_its_masked_lm_head(tmp_path, model, capsys):
    out, encoder = tmp_path / "out", model.encoder
    # Makes logits so large that their last digits stand for more than 1e-5.
    embeddings = encoder.weights[0]
    embeddings.assign(1e4 * embeddings)
    convert(save_ours(tmp_path, model), "hub", out)
    shown = capsys.readouterr().out.splitlines()
    names = [f"albert_pretrainer/sentence_order_head/dense/{part}" for part in ("bias", "kernel")]
    assert shown[-3] == f"not written, as hub has no place for them: {', '.join(names)}"
    assert shown[-2] == "no vocabulary, therefore no preprocessor next to the encoder"
    assert shown[-1].startswith(f"wrote {out}; its outputs differ by at most ")
    loaded = tf.saved_model.load(str(out / "encoder" / "1"))
    assert len(loaded.mlm.trainable_variables) == len(encoder.weights) + 5


def test_impossible_values_hide_no_difference():
    ours, theirs = np.array([1.0, -1e30]), np.array([1.5, -1e30])
    assert _difference(ours, theirs) == 0.5
    assert np.isnan(_difference(np.array([np.nan, 1.0]), theirs))
