"""A folder of `albert-convert --to=onnx` gives the same answers to 200 texts wherever it is read.

The tests need the group parity (`make test-parity`); that of transformers.js also npm and its registry.
"""

import functools
import json
import shutil
import subprocess

import numpy as np
import pytest

import albert_tf
from albert_tf.kinds import Classification
from tests.conversion.onnx_folders import write_onnx_folders
from tests.helpers import shared_path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

# No text is longer: transformers.js would take its [SEP] away.
KIND = Classification(labels=("negative", "positive"), max_seq_length=96)
TASKS = {"small_en": "fill-mask", "classifier": "text-classification"}
_TRUNCATED = {"classifier": {"truncation": True}}
TRANSFORMERS_JS = "@huggingface/transformers@4.3.1"
PIPELINES = """
import { env, pipeline } from "@huggingface/transformers";
import fs from "fs";
Object.assign(env, { allowRemoteModels: false, localModelPath: "./" });
const [task, name] = process.argv.slice(2);
const ask = await pipeline(task, name, { dtype: "fp32" });
const answers = [];
for (const text of JSON.parse(fs.readFileSync("texts.json"))[name]) {
  const [best] = await ask(text, { top_k: 1 });
  answers.push([best.token_str ?? best.label, best.score]);
}
fs.writeFileSync("answers.json", JSON.stringify(answers));
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with both models, and `texts.json` with the texts of each."""
    lines = shared_path("data/glue/SST-2/dev.tsv").read_text().splitlines()[1:]
    texts = [line.split("\t")[0].strip() for line in lines if line.count(" ") > 5][:200]
    words = map(str.split, texts)
    masked = [" ".join([*text[:2], "[MASK]", *text[3:]]) for text in words]
    folder = tmp_path_factory.mktemp("onnx")
    (folder / "texts.json").write_text(json.dumps({"classifier": texts, "small_en": masked}))
    write_onnx_folders(folder, KIND)
    return folder


def texts_of(folder, name):
    return json.loads((folder / "texts.json").read_text())[name]


@functools.cache
def expected_answers(folder, name):
    """Returns the best label or piece of each text, and its probability, as in Python."""
    loaded, texts = albert_tf.load(folder / name), texts_of(folder, name)
    if name == "classifier":
        answers = loaded.predict(texts)
        return list(zip(answers.label, answers.probabilities.max(axis=-1), strict=True))
    best = [fillings[0] for text in texts for fillings in loaded.fill_mask(text, top_k=1)]
    return [(filling.text, filling.probability) for filling in best]


def assert_same(received, expected):
    assert len(received) == len(expected) == 200
    names, probabilities = zip(*received, strict=True)
    expected_names, expected_probabilities = zip(*expected, strict=True)
    assert names == expected_names
    np.testing.assert_allclose(probabilities, expected_probabilities, rtol=0, atol=1e-5)
    difference = np.abs(np.subtract(probabilities, expected_probabilities)).max()
    print(f"largest difference of a probability: {difference:.1e}")


@pytest.mark.parametrize("name", TASKS)
def test_transformers(folder, name):
    transformers = pytest.importorskip("transformers", reason="needs the group parity")
    ask = transformers.pipeline(TASKS[name], model=str(folder / name), device="cpu")
    answers = ask(texts_of(folder, name), top_k=1, **_TRUNCATED.get(name, {}))
    best = [answer[0] for answer in answers]
    received = [(each.get("token_str") or each["label"], each["score"]) for each in best]
    assert_same(received, expected_answers(folder, name))


@pytest.mark.parametrize("name", TASKS)
def test_onnx_runtime(folder, name):
    import onnxruntime

    transformers = pytest.importorskip("transformers", reason="needs the group parity")
    session = onnxruntime.InferenceSession(folder / name / "onnx" / "model.onnx")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / name)
    received = []
    for text in texts_of(folder, name):
        inputs = tokenizer(text, truncation=True, return_tensors="np")
        (logits,) = session.run(["logits"], dict(inputs))
        if name == "small_en":
            logits = logits[inputs["input_ids"] == tokenizer.mask_token_id]
        (powers,) = np.exp(logits - logits.max())
        best = powers.argmax()
        shown = KIND.labels[best] if name == "classifier" else tokenizer.decode([best])
        received.append((shown, powers[best] / powers.sum()))
    assert_same(received, expected_answers(folder, name))


@pytest.fixture(scope="module")
def packages(folder):
    """Installs transformers.js, without the downloads for GPUs of its ONNX Runtime."""
    if shutil.which("npm") is None:
        pytest.skip("needs npm")
    command = ["npm", "install", "--ignore-scripts", TRANSFORMERS_JS]
    if subprocess.run(command, cwd=folder, check=False).returncode:
        pytest.skip("needs npm's registry")
    (folder / "pipelines.mjs").write_text(PIPELINES)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.usefixtures("packages")
def test_transformers_js(folder, name):
    subprocess.run(["node", "pipelines.mjs", TASKS[name], name], cwd=folder, check=True)
    received = [tuple(answer) for answer in json.loads((folder / "answers.json").read_text())]
    assert_same(received, expected_answers(folder, name))
