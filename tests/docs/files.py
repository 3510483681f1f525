"""The files under the names that the pages use, as small as the commands accept."""

import contextlib
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable

import numpy as np

from albert_tf import AlbertConfig, AlbertEncoder, AlbertPretrainer
from albert_tf.conversion import save_model, save_tf1_checkpoint
from albert_tf.tokenization import train_vocabulary
from tests.data.squad_file import make_question, make_squad, write_squad
from tests.docs.server import PIECES
from tests.docs.snippets import Block

_WORDS = {
    "good": ["fine", "great", "gripping", "funny", "lovely"],
    "bad": ["dull", "slow", "poor", "long", "weak"],
}
_OTHERS = ["the", "film", "story", "of", "cats", "legend", "and", "was", "by", "house", "paris"]
_RNG = np.random.default_rng(0)


def _sentence(label: str = "good", count: int = 6, rng: np.random.Generator = _RNG) -> str:
    return " ".join([*rng.choice(_OTHERS, count), rng.choice(_WORDS[label])])


def _write(path: pathlib.Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*lines, ""]))


def _write_table(path: pathlib.Path, *columns: str, count: int = 12) -> None:
    """Writes rows of texts, with labels and scores in turn, as CSV or TSV."""
    values = {
        "label": ("good", "bad"),
        "score": "012345",
        "tags": ("sports|politics", "sports", "politics"),
        "gold_label": ("entailment", "neutral", "contradiction"),
        "genres": ("drama;comedy", "drama", "comedy"),
        **{"toxic": "01", "obscene": "001", "threat": "110"},
    }
    header = ["label" if column in ("score", "tags") else column for column in columns]
    rows = [
        [
            values[column][row % len(values[column])]
            if column in values
            else _sentence(values["label"][row % 2])
            for column in columns
        ]
        for row in range(count)
    ]
    separator = "," if path.suffix == ".csv" else "\t"
    _write(path, map(separator.join, [header, *rows]))


def _table(*columns: str) -> Callable[[pathlib.Path], None]:
    return lambda path: _write_table(path, *columns)


def _write_corpus(folder: pathlib.Path) -> None:
    for number in range(3):
        documents = [
            [_sentence(label).capitalize() + "." for label in ("good", "bad") * 4]
            for _ in range(10)
        ]
        _write(folder / f"{number}.txt", [line for lines in documents for line in [*lines, ""]])


def _write_json_corpus(folder: pathlib.Path) -> None:
    texts = (" ".join(_sentence().capitalize() + "." for _ in range(8)) for _ in range(20))
    folder.mkdir()
    with gzip.open(folder / "0.jsonl.gz", "wt") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in texts)


def _write_vocabulary(path: pathlib.Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)  # the same vocabulary every time
    sentences = [_sentence(label, 10, rng) for label in ("good", "bad") * 150]
    train_vocabulary(sentences, str(path), vocab_size=PIECES)


def _config(**changes) -> AlbertConfig:
    # The server has made the sizes of the presets small.
    return AlbertConfig.from_preset("base_v2", **changes)


def _write_hub_model(path: pathlib.Path) -> None:
    """Writes a small model where `huggingface_hub` looks for what it has downloaded."""
    name = str(path).removeprefix("hf:/")
    folder = pathlib.Path(os.environ["HF_HOME"], "hub", f"models--{name}".replace("/", "--"))
    snapshot = folder / "snapshots" / "1"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(snapshot.name)
    if name.startswith("sentence-transformers"):
        _write_sentence_transformer(snapshot)
        return
    _write_vocabulary(snapshot / "spiece.model")
    vocabulary = {"spiece.model": (snapshot / "spiece.model").read_bytes()}
    shutil.rmtree(snapshot)
    save_model(AlbertEncoder(_config()), str(snapshot), contents=vocabulary)


def _write_archive(folder: pathlib.Path) -> None:
    """Writes what one of Google's archives holds."""
    _write_vocabulary(folder / "30k-clean.model")
    _config().to_json_file(str(folder / "albert_config.json"))
    model = AlbertPretrainer(AlbertEncoder(_config()))
    save_tf1_checkpoint(model, str(folder / "model.ckpt-best"))


def _write_sentence_transformer(folder: pathlib.Path) -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", *letters]
    pieces += [f"##{letter}" for letter in letters]
    encoder = AlbertEncoder(AlbertConfig.from_preset("bert_base", vocab_size=len(pieces)))
    save_model(encoder, str(folder), contents={"vocab.txt": "\n".join(pieces).encode()})
    modules = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{name}"}
        for i, (name, path) in enumerate(modules)
    ]
    _write(folder / "modules.json", [json.dumps(modules)])
    _write(folder / "1_Pooling" / "config.json", ['{"pooling_mode_mean_tokens": true}'])


def _write_questions(path: pathlib.Path) -> None:
    context = "Emma was written by Jane Austen in an old house."
    answers = [("Jane Austen", context.index("Jane"))]
    questions = [
        make_question(f"{path.stem}{n}", [] if n % 2 else answers, "who", is_impossible=bool(n % 2))
        for n in range(6)
    ]
    write_squad(path, make_squad((context, questions)))


def _write_conll(path: pathlib.Path) -> None:
    _write(path, ["Jane B-PER", "Austen I-PER", "wrote O", "it O", ""] * 8)


def _write_glue(folder: pathlib.Path) -> None:
    columns = ("index", "sentence1", "sentence2")
    for split in ("train", "dev_matched", "dev_mismatched", "test_matched", "test_mismatched"):
        _write_table(folder / "MNLI" / f"{split}.tsv", *columns, "gold_label")
    _write_table(folder / "diagnostic" / "diagnostic.tsv", *columns)


# What the reader brings: name -> how it is made.
FILES: dict[str, Callable[[pathlib.Path], None]] = {
    "text": _write_corpus,
    "notes": _write_corpus,
    "corpus": _write_json_corpus,
    **dict.fromkeys(
        ("texts.txt", "sentences.txt"), lambda path: _write(path, [_sentence() for _ in range(3)])
    ),
    **dict.fromkeys(("train.csv", "dev.csv"), _table("label", "text")),
    **dict.fromkeys(("more.tsv", "other.tsv"), _table("label", "text")),
    **dict.fromkeys(("topics.tsv", "topics_dev.tsv"), _table("tags", "text")),
    "toxic.csv": lambda path: _write_table(
        path, "comment_text", "toxic", "obscene", "threat", count=60
    ),
    "films.csv": lambda path: _write_table(path, "text", "genres", count=60),
    "pairs.tsv": _table("text_a", "text_b"),
    "scored.tsv": _table("text_a", "text_b", "score"),
    **dict.fromkeys(("train.conll", "dev.conll"), _write_conll),
    **dict.fromkeys(("train-v2.0.json", "dev-v2.0.json", "questions.json"), _write_questions),
    "glue": _write_glue,
    "vocabulary.model": _write_vocabulary,
    "albert_config.json": lambda path: _config().to_json_file(str(path)),
    "two_layers.json": lambda path: _config(num_hidden_layers=2).to_json_file(str(path)),
    "six_layers.json": lambda path: _config(num_hidden_layers=6).to_json_file(str(path)),
    "albert_base": _write_archive,
    "hf://albert/albert-base-v2": _write_hub_model,
    "sentence-transformers/all-MiniLM-L6-v2": _write_hub_model,
}
_CREATE = "albert-create-pretraining-data --input_file=text --spm_model_file=vocabulary.model"
_RECORDS = f"{_CREATE} --max_predictions_per_seq=77 --output_file"
_TRAIN = "--init_checkpoint=small_en --do_train"
# What a command of another page makes: name -> the command.
RESULTS = {
    "train.tfrecord": f"{_RECORDS}=train.tfrecord",
    "dev.tfrecord": f"{_RECORDS}=dev.tfrecord",
    "train-*.tfrecord": f"{_RECORDS}=train.tfrecord --num_shards=2",
    **{
        f"train{length}-*.tfrecord": f"{_CREATE} --output_file=train{length}.tfrecord "
        f"--num_shards=2 --masking=dynamic --max_seq_length={length}"
        for length in (64, 128)
    },
    "classifier": f"albert-classify {_TRAIN} --task_name=classification --train_file=train.csv "
    "--dev_file=dev.csv --output_dir=classifier",
    "exported": "albert-classify --output_dir=classifier --export_dir=exported",
    "mnli": f"albert-classify {_TRAIN} --task_name=mnli --data_dir=glue --output_dir=mnli",
    "tagger": f"albert-classify {_TRAIN} --task_name=token_classification "
    "--train_file=train.conll --dev_file=dev.conll --output_dir=tagger",
}
_GIVEN = ".given"


def provide(blocks: Iterable[Block]) -> None:
    """Makes, in the current folder, what the blocks use and have not made themselves."""
    made: set[str] = set()
    for block in blocks:
        sources = [c for _, c in block.commands] if block.language == "bash" else [block.source]
        for source in sources if block.language in ("bash", "python") else ():
            for name in (*FILES, *RESULTS):
                mentions = re.findall(rf"(\S*?[=\"' ]){re.escape(name)}(?![\w.-])", source)
                if mentions and name not in made:
                    made.add(name)
                    if not any(_makes(mention, source) for mention in mentions):
                        _make(name)


def _makes(mention: str, command: str) -> bool:
    flag = mention.lstrip("-").partition("=")[0]
    return (
        flag in ("export_dir", "output_checkpoint", "output_file")
        or (flag == "output_dir" and re.search("--do_train|--train_file", command) is not None)
        or (flag == "spm_model_file" and "--train_vocab" in command)
        or mention.startswith(("to_json_file", "output_dir"))
    )


def _make(name: str) -> None:
    path = pathlib.Path(name)
    if list(path.parent.glob(path.name)):
        return
    if name in FILES:
        FILES[name](path)
    elif path.absolute().parent.name == _GIVEN:
        provide([Block(0, "bash", RESULTS[name])])
        subprocess.run(RESULTS[name], shell=True, check=True)
    else:
        # Elsewhere, since the page may make files of the same names.
        folder = pathlib.Path(_GIVEN).absolute()
        folder.mkdir(exist_ok=True)
        with contextlib.chdir(folder):
            _make(name)
        for made in folder.glob(name):
            copy = shutil.copytree if made.is_dir() else shutil.copy
            copy(made, made.name)
