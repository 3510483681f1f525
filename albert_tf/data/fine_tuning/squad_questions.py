"""Reads SQuAD 1.1 and 2.0 from the original JSON and from TensorFlow Datasets.

Files in other languages have the same layout and more mistakes. A file with another layout is refused,
with the place where it differs. A question with a mistake in its data is kept for evaluation, since the
official scores count it, and left out of training.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from albert_tf import files
from albert_tf.data.fine_tuning.tfds import decode, load_dataset
from albert_tf.errors import InputError

# Number of ids that a message names.
_IDS_SHOWN = 5

# Names of the types in JSON.
_TYPE_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a whole number",
    float: "a number with a point",
    bool: "true or false",
    type(None): "null",
}


class Answer(NamedTuple):
    """An answer to a question.

    Attributes:
        text: the answer.
        start: index of its first character in the passage, according to the data.
    """

    text: str
    start: int


@dataclasses.dataclass(frozen=True)
class SquadExample:
    """A question about a passage.

    Attributes:
        id: id of the question.
        question: text of the question.
        context: the passage. Questions about one passage share the string.
        answers: answers of several people, in the order of the data.
        is_impossible: whether the passage holds no answer, according to the data.
    """

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] = ()
    is_impossible: bool = False

    def is_at_offset(self, answer: Answer) -> bool:
        """Returns whether the text of an answer is in the passage at the answer's offset."""
        there = answer.start >= 0 and self.context.startswith(answer.text, answer.start)
        return there and bool(answer.text.strip())

    @property
    def found_answer(self) -> Answer | None:
        """The first answer that is at its offset; the original trains on the only one."""
        return next((answer for answer in self.answers if self.is_at_offset(answer)), None)

    @property
    def is_trainable(self) -> bool:
        """Whether there is a passage, and either an answer in it or the mark that it has none."""
        has_target = self.is_impossible or self.found_answer is not None
        return has_target and bool(self.context.strip())


def read_squad(path: str, labelled: bool = True) -> list[SquadExample]:
    """Reads a file with the layout `data[].paragraphs[].qas[]`.

    With `labelled` every question must have answers.
    """
    root = _Node(path, "", files.read_json(path))
    root.expect(dict)
    examples = []
    places: dict[str, str] = {}
    for article in root.items("data"):
        for paragraph in article.items("paragraphs"):
            context = paragraph.member("context", str).value
            for question in paragraph.items("qas"):
                example = _read_question(question, context, labelled)
                examples.append(example)
                first = places.setdefault(example.id, question.place)
                if first != question.place:
                    raise InputError(
                        f"{path}: {question.place}.id: '{example.id}' is also the id of {first}; "
                        "expected unique ids"
                    )
    if not examples:
        raise InputError(f"{path}: holds no question")
    return examples


def read_squad_tfds(builder: str, split: str, data_dir: str | None) -> list[SquadExample]:
    """Reads a split from TensorFlow Datasets, which downloads it if necessary.

    The builder is `squad` for version 1.1 or `squad/v2.0`.
    """
    dataset, _ = load_dataset(builder, split, data_dir)
    contexts: dict[str, str] = {}  # so that questions about one passage share the string
    examples = []
    for record in dataset:
        context = decode(record["context"])
        answers = record["answers"]
        examples.append(
            SquadExample(
                id=decode(record["id"]),
                question=decode(record["question"]),
                context=contexts.setdefault(context, context),
                answers=tuple(
                    Answer(decode(text), int(start))
                    for text, start in zip(answers["text"], answers["answer_start"], strict=True)
                ),
                is_impossible=bool(record.get("is_impossible", False)),
            )
        )
    return examples


class _Fault(NamedTuple):
    """A mistake in the data.

    Attributes:
        count: returns the number of such mistakes in an example.
        what: description, in the plural.
        in_training: consequence in training.
        in_evaluation: consequence in evaluation.
    """

    count: Callable[[SquadExample], int]
    what: str
    in_training: str
    in_evaluation: str


_FAULTS = (
    _Fault(
        lambda example: sum(not example.is_at_offset(answer) for answer in example.answers),
        "answers whose text is not at their offset",
        "skipped, with the question where it has no other",
        "kept, as scores go by the text",
    ),
    _Fault(
        lambda example: not example.answers and not example.is_impossible,
        "questions without an answer that are not marked is_impossible",
        "skipped",
        "kept",
    ),
    _Fault(
        lambda example: not example.context.strip(),
        "questions about an empty passage",
        "skipped",
        "kept, and answered with an empty text",
    ),
)


def describe_faults(examples: Sequence[SquadExample], source: str, training: bool) -> list[str]:
    """Returns a line for each type of mistake in the examples.

    Training skips examples with a mistake.
    """
    lines = []
    for fault in _FAULTS:
        counts = {example.id: fault.count(example) for example in examples}
        ids = [id_ for id_, count in counts.items() if count]
        if not ids:
            continue
        consequence = fault.in_training if training else fault.in_evaluation
        lines.append(
            f"{source}: {fault.what}: {sum(counts.values())}, {consequence} ({show_ids(ids)})"
        )
    return lines


def show_ids(ids: Sequence[str]) -> str:
    """Returns the first few ids, for a message."""
    return ", ".join(ids[:_IDS_SHOWN]) + (", ..." if len(ids) > _IDS_SHOWN else "")


class _Node(NamedTuple):
    """A value of a JSON file.

    Attributes:
        path: the file.
        place: place in the file, e.g. `data[3].paragraphs[0]`; empty for the root.
        value: the value.
    """

    path: str
    place: str
    value: Any

    def member(self, key: str, expected: type) -> "_Node":
        """Returns a member of an object; raises an error if it is missing or not of the expected type."""
        place = f"{self.place}.{key}".removeprefix(".")
        if key not in self.value:
            raise InputError(
                f"{self.path}: not SQuAD: {place} is missing, expected {_TYPE_NAMES[expected]}"
            )
        member = _Node(self.path, place, self.value[key])
        member.expect(expected)
        return member

    def items(self, key: str) -> Iterator["_Node"]:
        """Yields the objects of a member that is a list."""
        member = self.member(key, list)
        for index, value in enumerate(member.value):
            item = _Node(self.path, f"{member.place}[{index}]", value)
            item.expect(dict)
            yield item

    def expect(self, expected: type) -> None:
        """Raises an error if the value has another type."""
        # In Python `True` is an `int`.
        if type(self.value) is not expected:
            raise InputError(
                f"{self.path}: not SQuAD: {self.place or 'the file'} is {_TYPE_NAMES[type(self.value)]}, "
                f"expected {_TYPE_NAMES[expected]}"
            )


def _read_question(question: _Node, context: str, labelled: bool) -> SquadExample:
    has_answers = labelled or "answers" in question.value
    answers = question.items("answers") if has_answers else ()
    has_mark = "is_impossible" in question.value
    return SquadExample(
        id=question.member("id", str).value,
        question=question.member("question", str).value,
        context=context,
        answers=tuple(
            Answer(answer.member("text", str).value, answer.member("answer_start", int).value)
            for answer in answers
        ),
        is_impossible=has_mark and question.member("is_impossible", bool).value,
    )
