"""The options of masking: the same where records are written and where masks are made on the fly."""

import dataclasses
import sys

from albert_tf.data.pretraining.masking import MaskingRule
from albert_tf.options import option

# Sequences and predictions are padded, so a typing error would fill memory and disk. Published models
# have 512.
MAX_LENGTH = 65536


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

    def warn_of_few_predictions(self, max_seq_length: int) -> None:
        """Prints a warning if a full sequence has fewer predictions than `masked_lm_prob` asks for."""
        enough = round(max_seq_length * self.masked_lm_prob)
        if enough > self.max_predictions_per_seq:
            print(
                f"warning: --max_predictions_per_seq={self.max_predictions_per_seq} is only "
                f"{self.max_predictions_per_seq / max_seq_length:.1%} of a sequence of {max_seq_length} "
                f"pieces; --masked_lm_prob={self.masked_lm_prob:g} takes {enough}",
                file=sys.stderr,
            )
