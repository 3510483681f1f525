import functools

from tests.parity import encoder, features, heads, optimizers, tokenization, windows


def _each(title, compare, names):
    return {f"{title}, {name}": functools.partial(compare, name) for name in names}


# Title -> a function that returns differences.
PARTS = {
    **_each("encoder", encoder.compare_encoder, encoder.CONFIGS),
    "groups of layers": encoder.compare_groups,
    **_each("gradients", heads.compare_head, heads.HEADS),
    **_each("learning rates", optimizers.compare_schedule, optimizers.SCHEDULES),
    **_each("updates", optimizers.compare_updates, optimizers.OPTIMIZERS),
    **_each("training", optimizers.compare_training, optimizers.OPTIMIZERS),
    **_each("SentencePiece", tokenization.compare_sentencepiece, tokenization.CASES),
    "digits and commas": tokenization.compare_digit_commas,
    "WordPiece": tokenization.compare_wordpiece,
    "characters": tokenization.compare_characters,
    **_each("GLUE", features.compare_job, features.JOBS),
    "pairs around the limit": features.compare_pairs,
    "RACE": features.compare_race,
    **_each("SQuAD", windows.compare_windows, windows.GOLDEN_SETS),
}
