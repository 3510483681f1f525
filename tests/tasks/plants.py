"""Questions that a tiny model learns in seconds: which plant does the passage name, if any?"""

import numpy as np

from albert_tf.tasks.fine_tuning.squad_options import SquadOptions
from tests.data.squad_file import make_question, make_squad, write_squad
from tests.tasks.animals import training_of, write_model

PLANTS = ["oak", "fern", "moss", "ivy", "rose"]
OTHERS = ["the", "a", "one", "sees", "old", "under", "big", "and", "near", "few", "Cat", "hens"]


def write_questions(path, count, seed, impossible=0.0, max_words=30):
    """Writes questions about passages of 5 words and more, in which one may be a plant."""
    rng = np.random.default_rng(seed)
    paragraphs = []
    for number in range(count):
        words = [str(word) for word in rng.choice(OTHERS, rng.integers(5, max_words))]
        answers = []
        more = {"is_impossible": bool(rng.random() < impossible)} if impossible else {}
        if not more.get("is_impossible"):
            place = rng.integers(len(words))
            words[place] = str(rng.choice(PLANTS))
            answers = [(words[place], len(" ".join([*words[:place], ""])))]
        question = make_question(f"q{number}", answers, "which plant near the cat", **more)
        paragraphs.append((" ".join(words), [question]))
    return write_squad(path, make_squad(*paragraphs))


def write_data(folder):
    """Writes questions of both versions, a vocabulary of 48 pieces and the config of a tiny model."""
    for version, impossible in (("v1", 0.0), ("v2", 0.4)):
        write_questions(folder / f"train-{version}.json", 300, 1, impossible)
        write_questions(folder / f"dev-{version}.json", 40, 2, impossible, max_words=60)
    words = [*PLANTS, *OTHERS, "which", "plant"]
    write_model(folder, words, 48, max_position_embeddings=40)


def make_options(data, output_dir, version="v1", **changes):
    values = {
        "train_file": str(data / f"train-{version}.json"),
        "predict_file": str(data / f"dev-{version}.json"),
        **training_of(data, output_dir),
        "max_seq_length": 40,
        "max_query_length": 7,
        "doc_stride": 17,
        "max_answer_length": 4,
        "num_train_steps": 150,
        "save_checkpoints_steps": 75,
        **changes,
    }
    return SquadOptions.from_flags(**values)
