"""SQuAD 1.1 and 2.0 -> examples, from the JSON of the original data and from TensorFlow Datasets.

Files of other languages and other makers have the same layout and more mistakes. A file of another
layout is refused, with the place where it differs. A question whose own text is at fault is kept for
evaluation, where the official scores count it, and left out of training.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from albert_tf import files
from albert_tf.data.fine_tuning.tfds import decode, load_dataset
from albert_tf.errors import InputError

# How many ids a message names.
_IDS_SHOWN = 5

# What JSON calls Python's types.
_KINDS = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a whole number",
    float: "a number with a point",
    bool: "true or false",
    type(None): "null",
}


class Answer(NamedTuple):
    """What somebody gave as the answer to a question.

    Attributes:
        text: the answer.
        start: its first character in the passage, as the data say.
    """

    text: str
    start: int


@dataclasses.dataclass(frozen=True)
class SquadExample:
    """A question about a passage.

    Attributes:
        id: the question's.
        question: its text.
        context: the passage; questions about one passage share the string.
        answers: several people's, in the order of the data.
        is_impossible: whether the data say that the passage does not answer the question.
    """

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] = ()
    is_impossible: bool = False

    def stands(self, answer: Answer) -> bool:
        """Returns whether the passage has an answer's text where the answer says."""
        there = answer.start >= 0 and self.context.startswith(answer.text, answer.start)
        return there and bool(answer.text.strip())

    @property
    def found_answer(self) -> Answer | None:
        """The first answer that stands where it says; the original trains on the only one."""
        return next((answer for answer in self.answers if self.stands(answer)), None)

    @property
    def is_trainable(self) -> bool:
        """Whether there is a passage, and an answer in it or the word that it has none."""
        has_target = self.is_impossible or self.found_answer is not None
        return has_target and bool(self.context.strip())


def read_squad(path: str, labelled: bool = True) -> list[SquadExample]:
    """Reads a file of the layout `data[].paragraphs[].qas[]`.

    Args:
        path: a JSON file of SQuAD 1.1 or 2.0.
        labelled: whether every question must have the key `answers`.

    Raises:
        InputError: the file cannot be read, is not JSON or of another layout, holds no question, or
            two questions have one id.
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
                        f"{path}: {question.place}.id: '{example.id}' is the id of {first}, too; "
                        "expected another id for each question"
                    )
    if not examples:
        raise InputError(f"{path}: holds no question")
    return examples


def read_squad_tfds(builder: str, split: str, data_dir: str | None) -> list[SquadExample]:
    """Reads a split from TensorFlow Datasets, which downloads it where it is not there.

    Args:
        builder: `squad` for version 1.1, `squad/v2.0`.
        split: `train` or `validation`.
        data_dir: folder of TensorFlow Datasets; None for its own, `~/tensorflow_datasets`.

    Raises:
        InputError: the package is missing, or the download fails.
    """
    dataset, _ = load_dataset(builder, split, data_dir)
    contexts: dict[str, str] = {}  # each text once, as every record has its own
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


def select_trainable(examples: Iterable[SquadExample]) -> list[SquadExample]:
    """Returns the examples that a model can be trained on."""
    return [example for example in examples if example.is_trainable]


class _Fault(NamedTuple):
    """A kind of mistake in an example.

    Attributes:
        count: how often an example makes it.
        what: its name, of several.
        in_training: what becomes of it there.
        in_evaluation: what becomes of it there.
    """

    count: Callable[[SquadExample], int]
    what: str
    in_training: str
    in_evaluation: str


_FAULTS = (
    _Fault(
        lambda example: sum(not example.stands(answer) for answer in example.answers),
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
    """Returns a line for each kind of mistake that some examples make; none where all are sound.

    Args:
        examples: the examples.
        source: where they are from.
        training: whether they are for training, which leaves such examples out.
    """
    lines = []
    for fault in _FAULTS:
        counts = {example.id: fault.count(example) for example in examples}
        ids = [id_ for id_, count in counts.items() if count]
        if not ids:
            continue
        what_follows = fault.in_training if training else fault.in_evaluation
        lines.append(
            f"{source}: {fault.what}: {sum(counts.values())}, {what_follows} ({show_ids(ids)})"
        )
    return lines


def show_ids(ids: Sequence[str]) -> str:
    """Returns some ids for a message, the first of many."""
    return ", ".join(ids[:_IDS_SHOWN]) + (", ..." if len(ids) > _IDS_SHOWN else "")


class _Node(NamedTuple):
    """A value of a JSON file.

    Attributes:
        path: the file.
        place: where in it, as `data[3].paragraphs[0]`; empty for all of it.
        value: the value.
    """

    path: str
    place: str
    value: Any

    def member(self, key: str, kind: type) -> "_Node":
        """Returns a member of an object; refuses the file where it is not there or no `kind`."""
        place = f"{self.place}.{key}".removeprefix(".")
        if key not in self.value:
            raise InputError(f"{self.path}: not SQuAD: {place} is missing, expected {_KINDS[kind]}")
        member = _Node(self.path, place, self.value[key])
        member.expect(kind)
        return member

    def items(self, key: str) -> Iterator["_Node"]:
        """Yields the objects of a list that is a member."""
        member = self.member(key, list)
        for index, value in enumerate(member.value):
            item = _Node(self.path, f"{member.place}[{index}]", value)
            item.expect(dict)
            yield item

    def expect(self, kind: type) -> None:
        """Refuses the file where the value is of another kind."""
        # Python's true is a number, JSON's is not.
        if type(self.value) is not kind:
            raise InputError(
                f"{self.path}: not SQuAD: {self.place or 'the file'} is {_KINDS[type(self.value)]}, "
                f"expected {_KINDS[kind]}"
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
