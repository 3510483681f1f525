"""What a pre-training learns: its options, its model with the heads, and the weighted objectives.

An objective is added here, with an `albert_tf.losses.Objective` and, if it needs other heads, a model
class of its own. A batch has the features of `albert_tf.data.records.pretraining_record`. Of these the
model sees those that its `INPUTS` names, labels among them; the objectives read the whole batch.

`--help` reads this module, so models and losses are imported when they are made.
"""

import dataclasses
from typing import TYPE_CHECKING, Any, Literal

from albert_tf.options import option

if TYPE_CHECKING:
    from albert_tf.losses import Objective
    from albert_tf.models import AlbertEncoder
    from albert_tf.models.base_model import BaseModel


@dataclasses.dataclass(frozen=True, kw_only=True)
class ObjectiveOptions:
    """The options of what is learnt, which cannot change when a run resumes."""

    sentence_objective: Literal["sop", "nsp", "none"] = option(
        "Sentence loss that the records were made for: sentence order, next sentence, or none.",
        "sop",
    )


def make_pretrainer(
    options: ObjectiveOptions, encoder: "AlbertEncoder", **arguments: Any
) -> "BaseModel":
    """Makes the model that is trained, which returns what the objectives read.

    Args:
        options: the options.
        encoder: its encoder, of which `best/` has the weights under their usual names.
        **arguments: seed and precision of the heads.
    """
    from albert_tf.models import AlbertPretrainer

    return AlbertPretrainer(encoder, options.sentence_objective != "none", **arguments)


def make_objectives(options: ObjectiveOptions) -> "list[Objective]":
    """Makes the objectives, of whose losses, with their weights, `PretrainingLoss` is the sum."""
    from albert_tf.losses import MaskedLM, SentenceOrder

    has_sentences = options.sentence_objective != "none"
    return [MaskedLM(), SentenceOrder()] if has_sentences else [MaskedLM()]
