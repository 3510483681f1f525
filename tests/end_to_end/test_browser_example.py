"""The page in examples/browser answers as Python does, in Chromium without a window and in Node.js.

It needs npm and, for its packages, npm's registry; jsdom stands for the browser in Node.js.
"""

import functools
import html
import http.server
import json
import re
import shutil
import subprocess
import threading
import urllib.parse

import numpy as np
import pytest

import albert_tf
from albert_tf.conversion import save_model
from albert_tf.kinds import Classification
from albert_tf.models import AlbertEncoder
from albert_tf.tasks import embedding
from albert_tf.tasks.conversion import ConversionOptions, run
from albert_tf.tasks.embedding_options import EmbeddingOptions
from albert_tf.tokenization import AlbertTokenizer
from albert_tf.tokenization.hugging_face_tokenizer import tokenizer_files
from tests.export.runtimes import need
from tests.helpers import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

KIND = Classification(labels=("calm", "loud", "<mute>"), pairs=True, max_seq_length=16)
# Tokens of a text that `searcher` reads
_MOST = 16
PAIRS = [
    ("A gripping, funny film.", "It cost £1,000!"),
    ("naïve cafés ﬁne", ""),
    ("one two three four five six seven eight nine ten " * 2, "a much shorter text"),
    ("short", "one two three four five six seven eight nine ten " * 2),
]


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def write_onnx_folders(folder):
    """Writes `small_en`, and, made of it, `classifier` with a random head, and `searcher`."""
    need("onnx")
    encoder = AlbertEncoder.from_preset("small_en")
    contents = tokenizer_files(AlbertTokenizer.from_preset("small_en"), encoder.config, KIND)
    model = KIND.make_model(encoder, 0.0, 1, None)
    # With large weights, so that answers differ between texts.
    model.head.dense.kernel.assign(10 * model.head.dense.kernel)
    trained = str(folder / "trained")
    save_model(model, trained, KIND, contents=contents)
    for source, name in (("small_en", "small_en"), (trained, "classifier")):
        output = str(folder / name)
        run(ConversionOptions(init_checkpoint=source, to="onnx", output_checkpoint=output))
    exported = folder / "searcher"
    embedding.run(
        EmbeddingOptions(
            model="small_en",
            max_seq_length=_MOST,
            normalize=True,
            export_dir=str(exported),
            export_format="onnx",
        )
    )
    # Under the name of int8 weights, whose vectors are only near those of Python.
    written = exported / "onnx" / "1" / "onnx" / "model.onnx"
    written.rename(written.with_name("model_quantized.onnx"))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the page, with its packages and three models."""
    if shutil.which("npm") is None:
        pytest.skip("needs npm")
    folder = tmp_path_factory.mktemp("browser")
    for name in ("index.html", "package.json", "README.md"):
        shutil.copy(ROOT / "examples" / "browser" / name, folder)
    install = ["npm", "install", "--ignore-scripts"]
    for packages in ([], ["--no-save", _JSDOM]):
        if subprocess.run([*install, *packages], cwd=folder, check=False).returncode:
            pytest.skip("needs npm's registry")
    write_onnx_folders(folder)
    return folder


@pytest.fixture(scope="module")
def address(site):
    handler = functools.partial(Handler, directory=site)
    with http.server.ThreadingHTTPServer(("localhost", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://localhost:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(params=["chromium", "node"])
def ask(request, site, address, tmp_path):
    """Returns a function from a question to the page's line and its lists of names and values."""
    if shutil.which(request.param) is None:
        pytest.skip(f"needs {request.param}")

    def command(query, file):
        if request.param == "node":
            return ["node", str(_NODE_PAGE), query, *([str(file)] if file else [])]
        if file:
            pytest.skip("chooses a file")
        # Without the budget, the page would be printed before it has loaded a model.
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=60000"]
        flags += ["--dump-dom", f"--user-data-dir={tmp_path / 'chromium'}"]
        return ["chromium", *flags, f"{address}#{query}"]

    def ask(file=None, **question):
        query = urllib.parse.urlencode(question, quote_via=urllib.parse.quote)
        page = subprocess.run(
            command(query, file), cwd=site, stdout=subprocess.PIPE, check=True, timeout=240
        ).stdout.decode()
        (line,) = re.findall('<p role="status">(.*?)</p>', page, re.DOTALL)
        lists = [
            {html.unescape(name): float(value) for name, value in re.findall(_ANSWER, found)}
            for found in re.findall("<ul>(.*?)</ul>", page)
        ]
        return html.unescape(line), lists

    return ask


_JSDOM = "jsdom@26.1.0"
_NODE_PAGE = ROOT / "tests" / "end_to_end" / "page.mjs"
_ANSWER = '<span>(.*?)</span><meter value="(.*?)">'


@pytest.mark.parametrize(
    "text", ["Paris is the [MASK] of France.", "The [MASK], it said, ate the [MASK]!"]
)
def test_masks_are_filled_as_in_python(ask, site, text):
    line, received = ask(tab="fill", text=text)
    assert re.fullmatch(r"\d+ tokens, [\d.]+ ms", line)
    expected = albert_tf.load(site / "small_en").fill_mask(text, top_k=5)
    assert len(received) == text.count("[MASK]")
    for ours, theirs in zip(received, expected, strict=True):
        assert list(ours) == [filling.text for filling in theirs]
        probabilities = [filling.probability for filling in theirs]
        np.testing.assert_allclose(list(ours.values()), probabilities, atol=1e-5)


@pytest.mark.parametrize("pair", PAIRS)
def test_texts_are_classified_as_in_python(ask, site, pair):
    text_a, text_b = pair
    _, (received,) = ask(tab="classify", text=text_a, pair=text_b)
    loaded = albert_tf.load(site / "classifier")
    arguments = ([text_a], [text_b]) if text_b else ([text_a],)
    (probabilities,) = loaded.predict(*arguments).probabilities
    for label, expected in zip(KIND.labels, probabilities, strict=True):
        assert received[label] == pytest.approx(expected, abs=1e-5)


def test_a_file_is_searched_as_in_python(ask, site, tmp_path):
    sentences = ["one two three four five six.", "seven eight nine ten again and again?", "Short!"]
    # The second paragraph is longer than the model reads, and is cut between sentences.
    parts = [
        "A gripping,\nfunny film.",
        " ".join(sentences),
        "<b>naïve</b> cafés ﬁne",
        "It rained.",
    ]
    expected = [
        *("A gripping, funny film.", sentences[0]),
        *(" ".join(sentences[1:]), "<b>naïve</b> cafés ﬁne", "It rained."),
    ]
    file = tmp_path / "notes.txt"
    file.write_text("\n\n".join(parts) + "\n \n\n", encoding="utf-8")
    query = "Is the film funny?"
    line, (received,) = ask(file=file, tab="search", text=query)
    assert re.fullmatch(r"notes.txt: 5 paragraphs, [\d.]+ ms", line)
    vectors = albert_tf.load("small_en").embed(
        [query, *expected], normalize=True, max_seq_length=_MOST
    )
    cosines = vectors[1:] @ vectors[0]
    assert list(received) == [expected[place] for place in np.argsort(-cosines)]
    for part, cosine in zip(expected, cosines, strict=True):
        assert received[part] == pytest.approx(cosine, abs=1e-5)


def test_paragraphs_leave_room_for_the_prompt(ask, site, tmp_path):
    config = site / "searcher" / "onnx" / "1" / "config.json"
    before = config.read_text()
    values = json.loads(before)
    values["albert_tf"]["kind"]["prompt"] = "a b c d e "
    file = tmp_path / "notes.txt"
    file.write_text("one two three four five. six seven eight nine ten.")
    try:
        for text, count in ((before, 1), (json.dumps(values), 2)):
            config.write_text(text)
            assert len(ask(file=file, tab="search")[1][0]) == count
    finally:
        config.write_text(before)


def test_the_page_has_a_file_to_search(ask):
    line, (received,) = ask(tab="search")
    assert re.fullmatch(r"README.md: \d+ paragraphs, [\d.]+ ms", line)
    assert len(received) == 5


@pytest.mark.parametrize(
    ("content", "line"),
    [(b" \n\n ", "x.txt: the file has no text"), (b"\xff\xfe", "x.txt: expected text in UTF-8")],
)
def test_odd_files_get_a_line(ask, tmp_path, content, line):
    (tmp_path / "x.txt").write_bytes(content)
    assert ask(file=tmp_path / "x.txt", tab="search")[0] == line


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ({"tab": "fill", "text": " "}, "Enter a text."),
        ({"tab": "fill", "text": "no"}, "Enter a text with [MASK] in it."),
        (
            {"tab": "fill", "text": "a" * 100_000 + "[MASK]"},
            "The text has 100003 tokens; the model takes at most 512.",
        ),
        ({"tab": "classify", "text": "a " * 30_000}, "16 tokens, "),
        ({"tab": "search", "text": " "}, "Enter a text."),
    ],
)
def test_odd_texts_get_a_line(ask, question, line):
    received, _ = ask(**question)
    assert received.startswith(line)
