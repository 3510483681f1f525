"""What a pre-training learns: its options, its model with the heads, and the weighted objectives.

An objective of the tokens is a row of `TOKEN_OBJECTIVES`, with an `albert_tf.losses.Objective` for each
loss and, if they need other heads, a model class of its own. A batch has the features of
`albert_tf.data.records.pretraining_record`. Of these the model sees those that its `INPUTS` names, labels
among them; the objectives read the whole batch.

`--help` reads this module, so models and losses are imported when they are made.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from albert_tf.errors import InputError
from albert_tf.options import option

if TYPE_CHECKING:
    from albert_tf.losses import Objective
    from albert_tf.models import AlbertEncoder
    from albert_tf.models.base_model import BaseModel


def _make_masked_lm(
    options: "ObjectiveOptions", encoder: "AlbertEncoder", **arguments: Any
) -> "BaseModel":
    from albert_tf.models import AlbertPretrainer

    return AlbertPretrainer(encoder, options.has_sentences, **arguments)


def _masked_lm_objectives(options: "ObjectiveOptions") -> "list[Objective]":
    from albert_tf.losses import MaskedLM

    del options
    return [MaskedLM()]


def _make_electra(
    options: "ObjectiveOptions", encoder: "AlbertEncoder", **arguments: Any
) -> "BaseModel":
    from albert_tf.models.electra import ElectraPretrainer

    return ElectraPretrainer(
        encoder,
        options.has_sentences,
        generator_hidden_size=options.generator_hidden_size,
        generator_layers=options.generator_layers,
        **arguments,
    )


def _electra_objectives(options: "ObjectiveOptions") -> "list[Objective]":
    from albert_tf.losses import MaskedLM, ReplacedTokens

    return [MaskedLM(), ReplacedTokens(options.replaced_token_weight)]


class TokenObjective(NamedTuple):
    """A value of `--objective`."""

    description: str
    make_model: "Callable[..., BaseModel]"  # of the arguments of `make_pretrainer`
    make_objectives: "Callable[[ObjectiveOptions], list[Objective]]"  # all but the sentences'
    options: tuple[str, ...] = ()  # which have an effect with it alone
    # Whether the last model is the best one, as losses of different updates are not comparable.
    keeps_last: bool = False


ObjectiveName = Literal["masked_lm", "electra"]
TOKEN_OBJECTIVES: Mapping[ObjectiveName, TokenObjective] = {
    "masked_lm": TokenObjective(
        "predict the masked pieces", _make_masked_lm, _masked_lm_objectives
    ),
    # The better the generator, the harder are its pieces to find.
    "electra": TokenObjective(
        "find the pieces that a small masked LM, which is trained together with it, has replaced",
        _make_electra,
        _electra_objectives,
        options=("generator_hidden_size", "generator_layers", "replaced_token_weight"),
        keeps_last=True,
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ObjectiveOptions:
    """The options of what is learnt, which cannot change when a run resumes."""

    sentence_objective: Literal["sop", "nsp", "none"] = option(
        "Sentence loss that the records were made for: sentence order, next sentence, or none.",
        "sop",
    )
    objective: ObjectiveName = option(
        "What the model learns of each text. "
        + "; ".join(f"{name}: {row.description}" for name, row in TOKEN_OBJECTIVES.items())
        + ".",
        "masked_lm",
    )
    # Clark et al. 2020, https://arxiv.org/abs/2003.10555, appendix A; the names of sizes are its code's.
    generator_hidden_size: float = option(
        "Width of ELECTRA's generator, and its heads and intermediate width, as a share of the model's.",
        0.25,
        least=1e-6,
        most=1,
    )
    generator_layers: float = option(
        "Number of layers of ELECTRA's generator, as a share of the model's.",
        1.0,
        least=1e-6,
        most=1,
    )
    replaced_token_weight: float = option(
        "Weight of ELECTRA's loss of replaced tokens, where the other losses have 1.",
        50.0,
        least=0,
    )

    @property
    def has_sentences(self) -> bool:
        """Whether there is a sentence loss."""
        return self.sentence_objective != "none"

    def check_objective(self) -> None:
        """Raises an `InputError` for an option without effect on the objective."""
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        for objective, row in TOKEN_OBJECTIVES.items():
            for name in row.options if objective != self.objective else ():
                if (value := getattr(self, name)) != defaults[name]:
                    raise InputError(f"--{name}={value}: expected --objective={objective}")


def make_pretrainer(
    options: ObjectiveOptions, encoder: "AlbertEncoder", **arguments: Any
) -> "BaseModel":
    """Makes the model that is trained, which returns what the objectives read.

    Args:
        options: the options.
        encoder: its encoder, of which `best/` has the weights under their usual names.
        **arguments: seed and precision of the heads.
    """
    return TOKEN_OBJECTIVES[options.objective].make_model(options, encoder, **arguments)


def make_objectives(options: ObjectiveOptions) -> "list[Objective]":
    """Makes the objectives, of whose losses, with their weights, `PretrainingLoss` is the sum."""
    from albert_tf.losses import SentenceOrder

    objectives = TOKEN_OBJECTIVES[options.objective].make_objectives(options)
    return [*objectives, SentenceOrder()] if options.has_sentences else objectives
