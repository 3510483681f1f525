"""SQuAD's layout in small, its windows, and a tokenizer of words that needs no vocabulary."""

import json
import pathlib
import re
import zlib
from typing import NamedTuple

import numpy as np

from albert_tf.data.fine_tuning.squad_questions import Answer, SquadExample
from albert_tf.data.fine_tuning.squad_windows import encode_windows


class WordTokenizer:
    """Its pieces are words with the white space before them; the id of a word is always the same."""

    pad_id, cls_id, sep_id = 0, 2, 3

    def encode_batch(self, texts, num_threads=-1):
        return [self.encode_with_offsets(text)[0] for text in texts]

    def encode_with_offsets(self, text):
        words = list(re.finditer(r"\s*\S+", text))
        return [word_id(word.group()) for word in words], [word.span() for word in words]


def word_id(word):
    return 10 + zlib.crc32(word.strip().encode()) % 9000


def make_question(id_, answers=(), question="who was it ?", **more):
    """A question whose answers are (text, start)."""
    answers = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": id_, "question": question, "answers": answers, **more}


def make_squad(*paragraphs):
    """A file with one article of paragraphs (context, questions)."""
    paragraphs = [{"context": context, "qas": questions} for context, questions in paragraphs]
    return {"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}


def write_squad(path, squad):
    path.write_text(json.dumps(squad), encoding="utf-8")
    return str(path)


def questions_of(path):
    """Returns the questions of a file, each with its passage."""
    articles = json.loads(pathlib.Path(path).read_bytes())["data"]
    paragraphs = [each for article in articles for each in article["paragraphs"]]
    return [(question, each["context"]) for each in paragraphs for question in each["qas"]]


def to_records(path):
    """Turns the questions of a file into the records of TensorFlow Datasets."""
    for question, context in questions_of(path):
        answers = {
            name: [answer[name] for answer in question["answers"]]
            for name in ("text", "answer_start")
        }
        record = {"id": question["id"], "question": question["question"], "title": ""}
        record |= {"context": context, "answers": answers}
        if "is_impossible" in question:
            record |= {"plausible_answers": answers, "is_impossible": question["is_impossible"]}
        yield record


def make_examples(count):
    """Five questions a passage, of 0 to 30 words; some impossible, some without a known answer."""
    examples = []
    for index in range(count):
        number = index // 5
        context = " ".join(f"w{number}-{word}" for word in range(number * 7 % 31))
        answers = (Answer(context.split()[-1], context.rfind("w")),) if context else ()
        examples.append(
            SquadExample(
                id=str(index),
                question=f"which word is number {index} ?",
                context=context,
                answers=answers if index % 3 == 1 else (),
                is_impossible=index % 3 == 0,
            )
        )
    return examples


class Window(NamedTuple):
    """One of `SquadWindows`, without padding."""

    example_index: int
    question_length: int
    input_ids: np.ndarray
    token_starts: np.ndarray
    token_ends: np.ndarray
    token_is_max_context: np.ndarray
    start_position: int
    end_position: int
    is_impossible: int


def make_windows(examples, tokenizer, rule):
    """Returns the windows of examples one by one."""
    features = encode_windows(examples, tokenizer, *rule)
    ends = np.cumsum(features.lengths)[:-1]
    columns = [features.example_indices.tolist(), features.first_lengths.tolist()]
    columns += [np.split(getattr(features, name), ends) for name in Window._fields[2:6]]
    columns += [values.tolist() for values in features.labels.values()]
    # Without windows `np.split` still returns a part.
    return [Window(*row) for row in zip(*columns, strict=False)]
