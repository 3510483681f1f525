"""RACE's folder in small."""

import json

WORDS = ("sun", "moon", "sea", "hill", "road", "tree")


def make_article(name, questions, answers=True):
    """An article whose answer is the option that the article names."""
    day = name.partition(".")[0]
    article = {
        "id": name,
        "article": f"On the {day} day they saw the {WORDS[len(name) % 6]}.\n\nThen left.",
        "questions": [f"They saw the _ in {number} ." for number in range(questions)],
        "options": [[WORDS[(len(name) + k) % 6] for k in range(4)] for _ in range(questions)],
    }
    return article | {"answers": ["A"] * questions} if answers else article


def write_race(folder, together):
    """Writes three articles a level and split: in `all.txt`, or in a file each."""
    for split in ("train", "dev", "test"):
        for level in ("middle", "high"):
            directory = folder / split / level
            directory.mkdir(parents=True)
            articles = [make_article(f"{level}{n}.txt", questions=2) for n in (2, 10, 100)]
            if together:
                lines = "".join(json.dumps(article) + "\n" for article in articles)
                (directory / "all.txt").write_text(lines)
                continue
            for n, article in zip((2, 10, 100), articles, strict=True):
                (directory / f"{n}.txt").write_text(json.dumps(article))
