"""Folders of embedders that sentence-transformers reads, too: trained, converted, and with heads."""

import json
import shutil

import numpy as np
import pytest

import albert_tf
from albert_tf.conversion import save_model
from albert_tf.kinds import Embedding
from albert_tf.kinds.registry import read_kind
from albert_tf.kinds.sentence_transformers import module_files
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.tasks.conversion import ConversionOptions
from albert_tf.tasks.conversion import run as convert
from albert_tf.tasks.fine_tuning.run import run
from albert_tf.tokenization.hugging_face_tokenizer import tokenizer_files
from tests.helpers import change_json, contents_of, refused, tiny_config
from tests.kinds.samples import SAMPLES
from tests.tasks.animals import make_options, write_table

TEXTS = ["the old cat", "A rose and a fern", "one sees " * 9, "", "moss"]
MODULES = {
    *("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"),
    *("1_Pooling/config.json", "2_Normalize/config.json"),
}
PROMPTS = (("query", "the old "), ("passage", "a "))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The best weights of a short training; tests only read them."""
    folder = tmp_path_factory.mktemp("trained")
    short = {"num_train_steps": 2, "save_checkpoints_steps": 2, "max_seq_length": 9}
    made = SAMPLES["embedding"].make_options(folder)
    run(type(made)(**{**vars(made), **short, "export_dir": None, "pooling": "max"}))
    return folder / "out" / "best"


@pytest.fixture(scope="module")
def with_heads(data, tmp_path_factory):
    """A pre-trained model that embeds, as one that is shipped; tests only read it."""
    sizes = {"vocab_size": 50, "num_hidden_layers": 2, "max_position_embeddings": 24}
    encoder = AlbertEncoder(tiny_config(**sizes, initializer_range=0.2), seed=1)
    tokenizer = albert_tf.AlbertTokenizer(str(data / "words.model"))
    kind = Embedding(max_seq_length=11, prompts=PROMPTS, prompt="a ")
    contents = {
        **tokenizer_files(tokenizer, encoder.config),
        **module_files(kind, encoder.config),
    }
    folder = tmp_path_factory.mktemp("heads") / "model"
    save_model(AlbertPretrainer(encoder, seed=2), str(folder), contents=contents)
    return folder


@pytest.fixture(params=["trained", "with_heads"])
def folder(request):
    return request.getfixturevalue(request.param)


def of_others(folder, copy):
    """Returns a copy of a folder without what this package notes in it."""
    shutil.copytree(folder, copy)
    change_json(copy / "config.json", albert_tf=None)
    change_json(copy / "tokenizer_config.json", albert_tf=None)
    return copy


def without_task(kind):
    names = ("pooling", "normalize", "max_seq_length", "prompt", "prompts")
    return {name: getattr(kind, name) for name in names}


def test_the_files_say_what_the_folder_says(folder, tmp_path):
    assert {*contents_of(folder)} >= MODULES
    ours = albert_tf.load(folder)
    theirs = albert_tf.load(of_others(folder, tmp_path / "theirs"))
    assert without_task(theirs.kind) == without_task(ours.kind)
    for name in ("", *dict(ours.kind.prompts)):
        received, expected = (each.embed(TEXTS, prompt_name=name) for each in (theirs, ours))
        np.testing.assert_array_equal(received, expected)


def test_a_trained_folder_keeps_its_own_notes(trained):
    kind = albert_tf.load(trained).kind
    assert kind == read_kind(str(trained))
    assert (kind.pooling, kind.max_seq_length, kind.task_name) == ("max", 9, "embedding")
    assert not MODULES & {*contents_of(trained.parent / "state")}


def test_a_pre_trained_model_with_modules_does_all(with_heads, data, tmp_path):
    model = albert_tf.load(with_heads)
    embeddings = model.embed(TEXTS)
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-5)
    long = ["one sees " * 9]
    np.testing.assert_array_equal(model.embed(long), model.embed(long, max_seq_length=11))
    np.testing.assert_array_equal(model.embed(TEXTS), model.embed(TEXTS, prompt_name="passage"))
    assert len(model.fill_mask("the [MASK] cat")[0]) == 5
    start = {"init_checkpoint": str(with_heads), "albert_config_file": None, "spm_model_file": None}
    options = make_options(data, tmp_path / "out", **start, num_train_steps=1)
    assert run(options)
    assert albert_tf.load(tmp_path / "out").kind.name == "classification"
    assert not MODULES & {*contents_of(tmp_path / "out" / "best")}


@pytest.mark.parametrize("to", ["hugging_face", "tf1"])
def test_a_conversion_keeps_the_embedder(folder, to, tmp_path):
    output = tmp_path / "converted" / "model"
    asked = {"init_checkpoint": str(folder), "output_checkpoint": str(output), "to": to}
    convert(ConversionOptions(**asked))
    if to == "tf1":  # which has no place for it
        assert not MODULES & {*contents_of(output.parent)}
        return
    received = contents_of(output)
    assert {name: received[name] for name in MODULES} == {
        name: content for name, content in contents_of(folder).items() if name in MODULES
    }
    assert "library_name: sentence-transformers" in received["README.md"].decode()
    ours, theirs = albert_tf.load(folder), albert_tf.load(output)
    np.testing.assert_allclose(theirs.embed(TEXTS), ours.embed(TEXTS), atol=1e-6)


def test_modules_that_are_not_ours_are_not_converted(with_heads, tmp_path, capsys):
    folder = of_others(with_heads, tmp_path / "model")
    module = {"idx": 2, "name": "2", "path": "2_CNN", "type": "sentence_transformers.models.CNN"}
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps([*modules, module]))
    output = tmp_path / "converted"
    asked = {"init_checkpoint": str(folder), "output_checkpoint": str(output)}
    convert(ConversionOptions(**asked, to="hugging_face"))
    assert not MODULES & {*contents_of(output)}
    assert "warning: no modules.json: " in capsys.readouterr().err


def test_a_conversion_keeps_how_the_library_compares(with_heads, tmp_path):
    folder = of_others(with_heads, tmp_path / "model")
    change_json(folder / "config_sentence_transformers.json", similarity_fn_name="dot")
    asked = {"init_checkpoint": str(folder), "output_checkpoint": str(tmp_path / "converted")}
    convert(ConversionOptions(**asked, to="hugging_face"))
    content = (tmp_path / "converted" / "config_sentence_transformers.json").read_text()
    assert json.loads(content)["similarity_fn_name"] == "dot"


@pytest.mark.parametrize("name", ["1_Pooling/config.json", "config_sentence_transformers.json"])
def test_modules_of_a_trained_folder_that_were_changed_are_refused(trained, name, tmp_path):
    # The library would read them, and the kind in the config says something else.
    shutil.copytree(trained, tmp_path / "model")
    change_json(tmp_path / "model" / name, changed=True)
    with refused(rf"^.*model/{name}: has the SHA-256 .*: the file is damaged or of another model$"):
        albert_tf.load(tmp_path / "model")


def test_sentence_transformers_gives_the_same_vectors(folder):
    library = pytest.importorskip("sentence_transformers", reason="needs the group parity")
    theirs = library.SentenceTransformer(str(folder), device="cpu")
    ours = albert_tf.load(folder)
    assert theirs.max_seq_length == ours.kind.max_seq_length
    np.testing.assert_allclose(ours.embed(TEXTS), theirs.encode(TEXTS), rtol=0, atol=1e-5)
    for name in dict(ours.kind.prompts):
        expected = theirs.encode(TEXTS, prompt_name=name)
        received = ours.embed(TEXTS, prompt_name=name)
        np.testing.assert_allclose(received, expected, rtol=0, atol=1e-5)


@pytest.mark.usefixtures("eagerly")
def test_a_training_takes_up_the_pooling_of_its_embedder(
    data, trained, with_heads, tmp_path, capsys
):
    pairs = write_table(tmp_path / "pairs.tsv", ["text_a", "text_b"], [["a cat", "an oak"]] * 3)
    values = {"train_file": pairs, "dev_file": None, "test_file": None, "do_eval": False}
    values |= {"task_name": "embedding", "num_train_steps": 1, "max_seq_length": 9}
    values |= {"albert_config_file": None, "spm_model_file": None}

    def train(init, out, **more):
        given = {**values, "init_checkpoint": str(init), **more}
        options = make_options(data, tmp_path / out, **given)
        run(options)
        return options, capsys.readouterr()

    inner = of_others(trained, tmp_path / "old" / "0_Transformer")
    for name in ("1_Pooling", "2_Normalize", "modules.json"):
        shutil.move(inner / name, inner.parent / name)
    modules = json.loads((inner.parent / "modules.json").read_text())
    modules[0]["path"] = inner.name
    (inner.parent / "modules.json").write_text(json.dumps(modules))
    _, (said, _) = train(inner.parent, "of-old-layout")
    assert "--pooling=max (that of --init_checkpoint)" in said
    options, (said, warned) = train(trained, "out")
    assert "--pooling=max (that of --init_checkpoint)" in said
    assert "does not use" not in warned
    assert read_kind(str(tmp_path / "out" / "best")).pooling == "max"
    run(options)  # which resumes
    assert "--pooling=max" in capsys.readouterr().out
    train(trained, "mean", pooling="mean")
    assert read_kind(str(tmp_path / "mean" / "best")).pooling == "mean"
    theirs = of_others(with_heads, tmp_path / "theirs")
    _, (said, warned) = train(theirs, "unprompted")
    assert "--pooling=mean (that of --init_checkpoint)" in said
    unused = "the training does not use its prompt 'query', prompt 'passage'\n"
    assert f"warning: --init_checkpoint={theirs}: {unused}" in warned
    modules = json.loads((theirs / "modules.json").read_text())
    (theirs / "modules.json").write_text(json.dumps(modules[:1]))
    _, (said, warned) = train(theirs, "without")
    assert f"--init_checkpoint={theirs}: its encoder alone is used: {theirs}" in warned
    assert "--pooling" not in said
