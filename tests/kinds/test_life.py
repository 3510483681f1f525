"""The life of a kind, as its interface tells it: who calls which method, and one road to the logits."""

import dataclasses
import inspect
import re

import numpy as np
import tensorflow as tf

from albert_tf.data.fine_tuning.batches import make_batch
from albert_tf.kinds import Kind, TokenClassification
from albert_tf.tokenization import WordPieceTokenizer
from tests.export.kinds import TAGS
from tests.helpers import ROOT, write_wordpiece

_ROW = re.compile(r"^    ([a-z_, ]+?)  +(\S+\.py)  +\S", re.MULTILINE)


def test_each_method_is_called_where_the_interface_says():
    rows = _ROW.findall(inspect.getmodule(Kind).__doc__)
    assert len(rows) == 16
    for names, module in rows:
        text = (ROOT / "albert_tf" / module).read_text()
        for name in names.split(", "):
            assert hasattr(Kind, name)
            assert re.search(rf"kind\.{name}\b", text), f"{module} does not call {name}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Halved(TokenClassification):
    def logits(self, outputs):
        return outputs / 2


def test_logits_of_tags_are_made_on_every_road(tmp_path):
    write_wordpiece(tmp_path / "vocab.txt", ("cat", "dog"))
    halved = Halved(labels=TAGS, max_seq_length=8)
    examples = halved.make_examples(["cat dog"])
    features = halved.encode(examples, WordPieceTokenizer(str(tmp_path / "vocab.txt")))
    shape = (*make_batch(features, np.array([0]))["input_ids"].shape, len(TAGS))
    outputs = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    predictions = halved.decode(examples, features, [(np.array([0]), outputs)])
    expected = halved.outputs(tf.constant(outputs))["probabilities"][0, 1:3]
    np.testing.assert_array_equal(halved.probabilities(predictions.logits), expected)
