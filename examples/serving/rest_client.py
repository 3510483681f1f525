r"""Asks TensorFlow Serving's REST interface about texts, with the standard library alone.

    python rest_client.py --url=http://localhost:8501/v1/models/text < texts.txt

Each line is an example. For a model with several inputs, --inputs names them, and a line has their texts
with tabs in between. Each answer is a line of JSON.
"""

import argparse
import base64
import http.client
import itertools
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

# Lines per request: small enough for a quick answer.
BATCH_SIZE = 32


def predict(url: str, instances: Sequence[dict[str, bytes]], timeout: float = 30) -> list[Any]:
    """Returns the predictions for examples.

    Args:
        url: address of the model.
        instances: for each example, the texts by the names of the model's inputs.
        timeout: seconds to wait for the answer.

    Returns:
        For each example, the outputs by name, or the output itself where there is only one.

    Raises:
        RuntimeError: the server refuses the request or does not answer; the message is one line.
    """
    # Base64 carries any bytes, even if they are not UTF-8.
    rows = [
        {name: {"b64": base64.b64encode(text).decode()} for name, text in instance.items()}
        for instance in instances
    ]
    body = json.dumps({"signature_name": "serving_default", "instances": rows}).encode()
    headers = {"Content-Type": "application/json"}
    try:
        request = urllib.request.Request(f"{url}:predict", body, headers)
        with urllib.request.urlopen(request, timeout=timeout) as response:
            answer = json.load(response)
    except urllib.error.HTTPError as error:
        reason = " ".join(error.read().decode(errors="replace").split())
        raise RuntimeError(f"{url}: {error.code}: {reason}") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise RuntimeError(f"{url}: no answer from TensorFlow Serving: {reason}") from error
    if not isinstance(answer, dict) or "predictions" not in answer:
        raise RuntimeError(f"{url}: expected predictions; received {json.dumps(answer)[:200]}")
    return answer["predictions"]


def read_texts(line: bytes, number: int, names: Sequence[str]) -> dict[str, bytes]:
    """Returns the texts of a line by the names of the model's inputs; exits where they do not fit."""
    texts = line.rstrip(b"\n").split(b"\t")
    if len(texts) != len(names):
        sys.exit(
            f"line {number}: received {len(texts)} columns; expected {len(names)}, with tabs between "
            f"them: {', '.join(names)}"
        )
    return dict(zip(names, texts, strict=True))


def main() -> None:
    """Answers the lines of standard input."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://localhost:8501/v1/models/text")
    parser.add_argument("--inputs", default="text_a", help="names, separated by commas")
    arguments = parser.parse_args()
    names = arguments.inputs.split(",")
    lines = enumerate(sys.stdin.buffer, start=1)
    while batch := list(itertools.islice(lines, BATCH_SIZE)):
        instances = [read_texts(line, number, names) for number, line in batch]
        try:
            predictions = predict(arguments.url, instances)
        except RuntimeError as error:
            sys.exit(str(error))
        for prediction in predictions:
            print(json.dumps(prediction, ensure_ascii=False))


if __name__ == "__main__":
    main()
