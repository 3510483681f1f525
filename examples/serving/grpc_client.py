r"""Asks TensorFlow Serving's gRPC interface about texts; needs `pip install tensorflow-serving-api`.

    python grpc_client.py --server=localhost:8500 < texts.txt

Each line is an example. For a model with several inputs, --inputs names them, and a line has their texts
with tabs in between. Each answer is a line of JSON.
"""

import argparse
import itertools
import json
import sys
from collections.abc import Mapping, Sequence

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

# Lines per request: small enough for a quick answer.
BATCH_SIZE = 32


def predict(
    server: str, model: str, inputs: Mapping[str, Sequence[bytes]], timeout: float = 30
) -> dict[str, np.ndarray]:
    """Returns the model's outputs by name, with a row for each example.

    Args:
        server: host and port.
        model: its name in `models.config`.
        inputs: the texts (B,) by the names of the model's inputs.
        timeout: seconds to wait for the answer.

    Raises:
        grpc.RpcError: the server refuses the request or does not answer.
    """
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = "serving_default"
    for name, texts in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(list(texts), tf.string))
    with grpc.insecure_channel(server) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        response = stub.Predict(request, timeout)
    return {name: tf.make_ndarray(proto) for name, proto in response.outputs.items()}


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
    parser.add_argument("--server", default="localhost:8500")
    parser.add_argument("--model", default="text")
    parser.add_argument("--inputs", default="text_a", help="names, separated by commas")
    arguments = parser.parse_args()
    names = arguments.inputs.split(",")
    lines = enumerate(sys.stdin.buffer, start=1)
    while batch := list(itertools.islice(lines, BATCH_SIZE)):
        rows = [read_texts(line, number, names) for number, line in batch]
        inputs = {name: [row[name] for row in rows] for name in names}
        try:
            outputs = predict(arguments.server, arguments.model, inputs)
        except grpc.RpcError as error:
            reason = " ".join(error.details().split())
            sys.exit(f"{arguments.server}: {error.code().name}: {reason}")
        for row in zip(*(values.tolist() for values in outputs.values()), strict=True):
            answer = dict(zip(outputs, row, strict=True))
            print(json.dumps(answer, default=bytes.decode, ensure_ascii=False))


if __name__ == "__main__":
    main()
