"""The options of masking: the same where records are written and where masks are made on the fly."""

import dataclasses

from albert_tf.data.masking import MaskingRule
from albert_tf.options import option


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskingOptions:
    """The options that make a `MaskingRule`."""

    max_predictions_per_seq: int = option(
        "Most pieces to predict in a sequence; for records with masks, as they were made.", 20
    )
    masked_lm_prob: float = option("Share of a sequence's pieces to predict.", 0.15)
    ngram: int = option("Longest n-gram to mask, in words.", 3)
    favor_shorter_ngram: bool = option("Mask an n-gram of n words with p(n) ~ 1/n.", True)
    do_whole_word_mask: bool = option("Mask words with all of their pieces.", True)

    @property
    def masking_rule(self) -> MaskingRule:
        """How pieces are chosen for prediction."""
        names = [field.name for field in dataclasses.fields(MaskingRule)]
        return MaskingRule(**{name: getattr(self, name) for name in names})
