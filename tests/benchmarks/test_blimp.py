import gzip
import json

import numpy as np

import albert_tf
from benchmarks import blimp
from benchmarks.blimp import BlimpOptions, Pair
from tests.benchmarks.samples import cells_of, write_pretrained
from tests.helpers import refused

PAIRS = [
    Pair("syntax/semantics", "the old keeper", "the keeper old"),
    Pair("morphology", "ships pass", "ships passes"),
    Pair("syntax/semantics", "his daughter reads", "his daughter read"),
]


def write_blimp(path, uids=("a", "b", "a")):
    fields = ("syntax_semantics", "morphology", "syntax/semantics")
    lines = [
        {"UID": uid, "field": field, "sentence_good": pair.good, "sentence_bad": pair.bad}
        for uid, field, pair in zip(uids, fields, PAIRS, strict=True)
    ]
    path.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))
    return str(path)


def test_pairs_are_read_from_files_and_folders(tmp_path):
    path = write_blimp(tmp_path / "pairs.jsonl.gz")
    assert blimp.read_pairs([path], None) == PAIRS
    assert blimp.read_pairs([str(tmp_path)], 1) == PAIRS[:2]


def test_other_files_are_named(tmp_path):
    (tmp_path / "pairs.jsonl").write_text('{"UID": "a"}\n')
    with refused(r"pairs.jsonl, line 1: expected an object with UID"):
        blimp.read_pairs([str(tmp_path)], None)
    (tmp_path / "pairs.jsonl").write_text("")
    with refused("holds no pair"):
        blimp.read_pairs([str(tmp_path)], None)


def test_ties_are_wrong_and_fields_are_counted(monkeypatch):
    def score(model, tokenizer, sentences, batch_size):
        assert sentences[:2] == [PAIRS[0].good, PAIRS[0].bad]
        return np.array([-3.0, -4.0, -2.0, -2.0, -6.0, -5.0])

    monkeypatch.setattr(albert_tf, "score_sentences", score)
    right = blimp.judge_pairs(None, None, PAIRS)
    assert right.tolist() == [True, False, False]
    rows = cells_of(blimp.table(PAIRS, right))[2:]
    of_fields = [["syntax/semantics", "2", "50.0"], ["morphology", "1", "0.0"]]
    assert rows[:3] == [*of_fields, ["all", "3", "33.3"]]
    assert rows[3] == ["RoBERTa-base, BabyLM 2023", "", "69.5"]


def test_a_trained_folder_is_scored(tmp_path, capsys):
    write_pretrained(tmp_path / "pretrained")
    pairs = write_blimp(tmp_path / "pairs.jsonl.gz")
    checkpoint = str(tmp_path / "pretrained" / "best")
    blimp._main(BlimpOptions(init_checkpoint=checkpoint, blimp_file=(pairs,)))
    out = capsys.readouterr().out
    assert "| all" in out
    assert "6 sentences in " in out

    (tmp_path / "pretrained" / "best" / "spiece.model").unlink()
    with refused("expected --spm_model_file or --vocab_file; there is no"):
        blimp._main(BlimpOptions(init_checkpoint=checkpoint, blimp_file=(pairs,)))
