import csv
import hashlib
import json

import numpy as np
import pytest

from benchmarks import sentences
from benchmarks.sentences import Pair, SentencesOptions
from benchmarks.trainings import Results
from tests.benchmarks.samples import cells_of, write_pretrained
from tests.helpers import refused

SCORED = [("the old keeper", "an old keeper", 4.5), ("ships pass", "his daughter read", 0.5)] * 2


def write_tables(folder):
    for split in ("train", "dev"):
        path = folder / "glue" / "STS-B" / f"{split}.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [("index", "sentence1", "sentence2", "score")]
        lines += [(n, *row) for n, row in enumerate(SCORED)]
        path.write_text("".join("\t".join(map(str, line)) + "\n" for line in lines))
    for name in ("trec", "reviews", "films", "sms"):
        (folder / "small" / name).mkdir(parents=True)
        for split in ("train", "test"):
            rows = [(f"a {'good' if n % 2 else 'bad'} film {n}", "ny"[n % 2]) for n in range(12)]
            with open(folder / "small" / name / f"{split}.csv", "w", newline="") as file:
                csv.writer(file).writerows([("text", "label"), *rows])


def held_out(*paragraphs):
    """Returns a document with a hash of those that are held out."""
    for number in range(1000):
        document = "\n\n".join([*paragraphs, f"See note {number}."])
        if hashlib.sha256(document.encode()).hexdigest()[0] in "0123":
            return document
    raise AssertionError


def write_questions(path, documents):
    path.write_text("".join(json.dumps({"text": document}) + "\n" for document in documents))
    return str(path)


def test_pairs_are_those_of_held_out_documents(tmp_path):
    document = held_out(
        *("What is a keeper?", "One who keeps.", "Was it asked before? No.", "Really?"),
        *("How many are there?", "What do they keep?", "Ships.", "The old keeper", "keeps."),
    )
    other = next(
        text
        for text in (f"What is {n}?\n\nA number." for n in range(100))
        if hashlib.sha256(text.encode()).hexdigest()[0] not in "0123"
    )
    # Its questions stand in the first already.
    again = held_out("What is a keeper?", "Another answer.", "What do they keep?", "Cats.")
    path = write_questions(tmp_path / "questions.jsonl", [document, other, again])
    pairs = sentences.read_pairs(path)
    assert sorted(pair.question for pair in pairs) == ["What do they keep?", "What is a keeper?"]
    first = next(iter(sorted([document, again], key=lambda x: hashlib.sha256(x.encode()).digest())))
    if first == document:
        answer = "One who keeps. Was it asked before? No."
        assert pairs[0] == Pair("What is a keeper?", answer)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['{"text": 1}'], "line 1: expected an object with a text"),
        (['["text"]'], "line 1: expected an object with a text"),
        ([], "holds 0 held-out questions with answers"),
    ],
)
def test_other_files_are_named(tmp_path, lines, message):
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    with refused(message):
        sentences.read_pairs(str(tmp_path / "x.jsonl"))


def test_equal_cosines_are_wrong():
    vectors = {"a": [1, 0], "b": [0, 1], "c": [1, 0], "A": [1, 0], "B": [0, 1], "C": [1, 0]}

    def embed(texts, normalize):
        assert normalize
        return np.array([vectors[text] for text in texts], np.float32)

    pairs = [Pair("a", "A"), Pair("b", "B"), Pair("c", "C")]
    assert sentences.score_retrieval(pairs, embed) == {"first": pytest.approx(1 / 3), "among_10": 1}


def test_a_model_stands_beside_the_bag_of_words_and_missing_files_are_said(tmp_path, capsys):
    write_pretrained(tmp_path / "pretrained")
    write_tables(tmp_path)
    model = str(tmp_path / "pretrained" / "best")
    values = {
        "models": (model,),
        "glue_dir": str(tmp_path / "glue"),
        "data_dir": str(tmp_path / "small"),
        "questions_file": str(tmp_path / "questions.jsonl"),
        "results": str(tmp_path / "results.jsonl"),
        "rows": 8,
        "test_rows": 10,
        "max_seq_length": 64,
    }
    options = SentencesOptions(**values)
    sentences._main(options)
    out = capsys.readouterr().out
    assert "retrieval: not measured: --questions_file=" in out
    rows = cells_of(out)
    assert rows[0] == ["%", "bag of words", "best"]
    names = [row[0] for row in rows[2:]]
    assert names == [
        "STS-B, dev: spearman",
        *(f"8 rows of {x}: accuracy / macro f1" for x in ("trec", "reviews", "films", "sms")),
        "8 rows, mean: accuracy / macro f1",
    ]
    assert all(cell for row in rows for cell in row)

    documents = [held_out("What keeps?", "A keeper keeps."), held_out("Who reads?", "She reads.")]
    write_questions(tmp_path / "questions.jsonl", documents)
    sentences._main(options)
    lines = Results(options.results).lines
    assert [line["measure"] for line in lines] == [
        *["similarity", "few rows"] * 2,
        *["retrieval"] * 2,
    ]
    last = cells_of(capsys.readouterr().out)[-1]
    assert last[:2] == ["retrieval, 2 questions: first / among 10", "100.0 / 100.0"]
