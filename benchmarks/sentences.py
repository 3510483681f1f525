"""Measures how well embeddings tell what texts mean, without training, next to a bag of words.

Usage:
    python -m benchmarks.sentences --models=small_en,medium_en

Three measures, each of which is left out if its files are not there:

- the cosines of the pairs of STS-B's dev set against people's scores, Spearman's correlation;
- logistic regression on embeddings of a few rows of the sets of `benchmarks.few_rows`;
- retrieval: of questions and answers in held-out documents, how often the answer that belongs to a
  question is the nearest of all answers, and how often among the nearest ten. Ties count as wrong.

The bag of words has the cosines of TF-IDF vectors, and logistic regression on TF-IDF; for retrieval it
sees whole answers, and the models the first `--max_seq_length` tokens. Each result adds a line to
`--results`, and the same command measures the missing ones.
"""

import dataclasses
import functools
import hashlib
import os
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

import albert_tf
from albert_tf import command_line, files
from albert_tf.data.fine_tuning.task_table import find_task
from albert_tf.errors import InputError
from albert_tf.evaluation.metrics import METRICS
from albert_tf.options import check_ranges, option
from benchmarks.few_rows import (
    FewRowsOptions,
    draw,
    read_rows,
    regression_on_vectors,
    regression_on_words,
    score,
)
from benchmarks.harness import markdown_table, processor
from benchmarks.small_en import score_tf_idf
from benchmarks.trainings import Line, Results, weights_checksum

_RESULTS = pathlib.Path(__file__).with_name("sentences.jsonl")
_WORDS = "bag of words"
_SETS = FewRowsOptions.sets
# The documents of which `embed` of the shipped models has seen nothing are a quarter of all: those whose
# SHA-256 begins with one of these digits.
_HELD_OUT = tuple("0123")
_MOST_OF_QUESTION = 200  # characters


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentencesOptions:
    """The options of this benchmark."""

    models: tuple[str, ...] = option("Names or folders of models.", ("small_en", "medium_en"))
    glue_dir: str = option("Folder with the GLUE tasks, of which STS-B is read.", "glue")
    data_dir: str = option("Folder with a folder for each set.", "../shared/data/small")
    questions_file: str = option(
        "JSON lines, also compressed, of documents of questions, each followed by its answer.",
        "../shared/data/corpus/train/010-medquad.jsonl.zst",
    )
    max_seq_length: int = option("Tokens of a text that a model sees.", 128, least=5)
    rows: int = option("Number of training rows of a set.", 400, least=1)
    test_rows: int = option("Number of test rows, the first of a set.", 600, least=1)
    samples: int = option("Number of samples of training rows, for means.", 1, least=1)
    pairs: int = option("Most pairs of a question and its answer.", 1000, least=2)
    results: str = option("JSON lines of the results, which grow.", str(_RESULTS))

    def __post_init__(self):
        check_ranges(self)


class Pair(NamedTuple):
    """A question and its answer."""

    question: str
    answer: str


# From texts to vectors, float32 (n, H); the second argument says whether they have length 1.
Embed = Callable[[tuple[str, ...], bool], np.ndarray]
# What is scored -> metric -> value.
Scores = Mapping[str, Mapping[str, float]]


def measure_similarity(options: SentencesOptions, embed: Embed | None) -> Scores:
    """Returns the correlation of cosines with the scores of STS-B's dev set; None: the bag of words."""
    if embed is None:
        return {"STS-B, dev": score_tf_idf("sts-b", options.glue_dir)}
    row = find_task("sts-b")
    examples = row.sets["dev"][""].read(options.glue_dir, "dev", row.labels)
    first, second = (
        embed(tuple(getattr(each, name) for each in examples), True)
        for name in ("text_a", "text_b")
    )
    labels = np.array([float(each.label) for each in examples])
    spearman = METRICS["spearman"](labels, (first * second).sum(axis=1))
    return {"STS-B, dev": {"spearman": float(spearman)}}


def measure_few_rows(options: SentencesOptions, embed: Embed | None) -> Scores:
    """Returns the scores of logistic regression on a few rows; None: on the bag of words."""
    drawn = FewRowsOptions(data_dir=options.data_dir)
    if embed is None:
        make_model, encode = regression_on_words, list
    else:
        make_model, encode = regression_on_vectors, lambda texts: embed(texts, False)
    scores = {}
    for name in _SETS:
        test = read_rows(os.path.join(options.data_dir, name, "test.csv"))[: options.test_rows]
        of_samples = [
            score(make_model(), encode, draw(drawn, name, str(options.rows), sample), test)
            for sample in range(options.samples)
        ]
        scores[f"{options.rows} rows of {name}"] = _means(of_samples)
    return {**scores, f"{options.rows} rows, mean": _means([*scores.values()])}


def measure_retrieval(options: SentencesOptions, embed: Embed | None) -> Scores:
    """Returns how often questions find their answers; None: with the bag of words."""
    pairs = read_pairs(options.questions_file)[: options.pairs]
    return {f"retrieval, {len(pairs):,} questions": score_retrieval(pairs, embed)}


def score_retrieval(pairs: Sequence[Pair], embed: Embed | None) -> dict[str, float]:
    """Returns the shares of the questions whose answer is the nearest, and is among the nearest ten."""
    questions, answers = zip(*pairs, strict=True)
    if embed is None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(sublinear_tf=True).fit(answers)
        cosines = vectorizer.transform(questions) @ vectorizer.transform(answers).T
        cosines = cosines.toarray()
    else:
        cosines = embed(questions, True) @ embed(answers, True).T
    ranks = (cosines >= cosines.diagonal()[:, np.newaxis]).sum(axis=1)
    return {"first": float(np.mean(ranks == 1)), "among_10": float(np.mean(ranks <= 10))}


def read_pairs(path: str) -> list[Pair]:
    """Returns the pairs of the held-out documents, in the order of the documents' SHA-256.

    A document's first paragraph is a question, and so is each short one that is nothing but a question.
    An answer is what follows up to the next question. Of texts that occur several times the first counts.

    Raises:
        InputError: a line has no text, or there are fewer than two pairs.
    """
    documents = {}
    for number, line in files.decode_lines(files.read_content(path), path, files.decode_strictly):
        document = files.parse_json(line, path, number)
        if not isinstance(document, Mapping) or not isinstance(document.get("text"), str):
            raise InputError(f"{path}, line {number}: expected an object with a text")
        digest = hashlib.sha256(document["text"].encode()).hexdigest()
        if digest.startswith(_HELD_OUT):
            documents[digest] = document["text"]
    pairs = []
    seen = set()
    for _, document in sorted(documents.items()):
        for pair in _split(document):
            if seen.isdisjoint(pair):
                pairs.append(pair)
                seen.update(pair)
    if len(pairs) < 2:
        raise InputError(f"{path}: holds {len(pairs)} held-out questions with answers")
    return pairs


def _split(document: str) -> list[Pair]:
    """Returns the questions of a document that have an answer."""
    first, *others = document.split("\n\n")
    parts = [[first]]
    for paragraph in others:
        if _is_question(paragraph):
            parts.append([])
        parts[-1].append(paragraph)
    return [Pair(question, " ".join(answer)) for question, *answer in parts if answer]


def _is_question(paragraph: str) -> bool:
    return (
        paragraph.endswith("?")
        and len(paragraph) <= _MOST_OF_QUESTION
        and paragraph.count("?") == 1
        and "." not in paragraph
    )


def _means(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([each[name] for each in scores])) for name in scores[0]}


@dataclasses.dataclass(frozen=True)
class Measure:
    """What is measured: how, the option that says where its files are, and those that it depends on."""

    run: Callable[[SentencesOptions, Embed | None], Scores]
    place: str
    settings: Sequence[str]


MEASURES = {
    "similarity": Measure(measure_similarity, "glue_dir", ("max_seq_length",)),
    "few rows": Measure(
        measure_few_rows, "data_dir", ("max_seq_length", "rows", "test_rows", "samples")
    ),
    "retrieval": Measure(measure_retrieval, "questions_file", ("max_seq_length", "pairs")),
}


def make_embed(options: SentencesOptions, model: str) -> Embed:
    """Returns a function that embeds texts with a model, loaded at its first call."""
    loaded = functools.cache(lambda: albert_tf.load(model))

    @functools.cache
    def embed(texts: tuple[str, ...], normalize: bool) -> np.ndarray:
        return loaded().embed(
            list(texts), normalize=normalize, max_seq_length=options.max_seq_length
        )

    return embed


def finish(options: SentencesOptions, results: Results) -> None:
    """Measures what has no line yet, and says what cannot be measured."""
    measures = dict(MEASURES)
    for name, measure in MEASURES.items():
        place = getattr(options, measure.place)
        if not os.path.exists(place):
            print(f"{name}: not measured: --{measure.place}={place}: not found")
            del measures[name]
    for model in (_WORDS, *options.models):
        embed = None if model == _WORDS else make_embed(options, model)
        for name, measure in measures.items():
            if results.find(_key(options, name, model)):
                continue
            start = time.process_time()
            scores = measure.run(options, embed)
            seconds = round(time.process_time() - start, 1)
            measured = {"scores": scores, "cpu_seconds": seconds, "processor": processor()}
            results.add({"model": _column(model), **_key(options, name, model), **measured})
            print(f"{_column(model)}, {name}: {seconds} s of CPU time", flush=True)


def table(options: SentencesOptions, results: Results) -> str:
    """Returns the scores in percent, a column for each model."""
    models = (_WORDS, *options.models)
    cells: dict[str, dict[str, str]] = {}
    for name in MEASURES:
        for model in models:
            for line in results.find(_key(options, name, model))[-1:]:
                for scored, values in line["scores"].items():
                    row = f"{scored}: {' / '.join(values).replace('_', ' ')}"
                    text = " / ".join(f"{100 * value:.1f}" for value in values.values())
                    cells.setdefault(row, {})[model] = text
    rows = [[row, *(of_model.get(each, "") for each in models)] for row, of_model in cells.items()]
    return markdown_table(["%", *map(_column, models)], rows)


def _key(options: SentencesOptions, name: str, model: str) -> Line:
    """Returns what tells the line of a measure and a model from others."""
    settings = {each: getattr(options, each) for each in MEASURES[name].settings}
    weights = "" if model == _WORDS else weights_checksum(model)
    return {"measure": name, "weights": weights, **settings}


def _column(model: str) -> str:
    return os.path.basename(os.path.normpath(model))


def _main(options: SentencesOptions) -> None:
    results = Results(options.results)
    finish(options, results)
    print(table(options, results))


if __name__ == "__main__":
    command_line.run(SentencesOptions, _main)
