"""The clients speak TensorFlow Serving's protocols, and its protos read the configuration."""

import base64
import concurrent.futures
import functools
import http.server
import importlib.util
import io
import json
import socket
import threading

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import ROOT

EXAMPLES = ROOT / "examples" / "serving"
# Of a request, at most.
MAX_TEXTS = 32
# Of each text.
LABELS = ["ש", ""]


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class RestHandler(http.server.BaseHTTPRequestHandler):
    """Answers with each text's length, and refuses an empty text and many, as the server writes these."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert body["signature_name"] == "serving_default"
        texts = [base64.b64decode(row["text_a"]["b64"]) for row in body["instances"]]
        known = self.path == "/v1/models/text:predict" and all(texts) and len(texts) <= MAX_TEXTS
        rows = [{"score": len(text), "label": LABELS} for text in texts]
        answer = {"predictions": rows} if known else {"error": "no"}
        self.send_response(200 if known else 400)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *arguments):
        pass


@pytest.fixture
def rest_url():
    with http.server.HTTPServer(("localhost", 0), RestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}/v1/models"
        server.shutdown()


def run_main(client, monkeypatch, lines, *flags):
    monkeypatch.setattr("sys.argv", ["client", *flags])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
    client.main()


def exit_message(client, monkeypatch, capsys, lines, *flags):
    """What a client writes to standard error before it exits with 1."""
    with pytest.raises(SystemExit) as info:
        run_main(client, monkeypatch, lines, *flags)
    assert not capsys.readouterr().out
    assert isinstance(info.value.code, str)  # Python prints it and exits with 1
    assert "\n" not in info.value.code
    return info.value.code


@pytest.fixture
def closed_port():
    with socket.socket() as unused:
        unused.bind(("localhost", 0))
        yield unused.getsockname()[1]


def test_rest_client_says_in_one_line_what_is_wrong(rest_url, closed_port, monkeypatch, capsys):
    fail = functools.partial(exit_message, load("rest_client"), monkeypatch, capsys)
    assert fail(b"cat\n", f"--url={rest_url}/none") == f'{rest_url}/none: 400: {{"error": "no"}}'
    closed = f"http://localhost:{closed_port}/v1/models/text"
    message = f"{closed}: no answer from TensorFlow Serving: "
    assert fail(b"cat\n", f"--url={closed}").startswith(message)
    for url in ("localhost:8501", "text", "http://"):
        assert fail(b"cat\n", f"--url={url}").startswith(f"{url}: no answer from TensorFlow")
    message = "line 2: received 3 columns; expected 2, with tabs between them: text_a, text_b"
    lines = b"cat\tdog\nthe\told\tman\n"
    assert fail(lines, f"--url={rest_url}/text", "--inputs=text_a,text_b") == message


@pytest.fixture
def grpc_server():
    grpc = pytest.importorskip("grpc", reason="needs grpcio")
    apis = "tensorflow_serving.apis"
    predict_pb2 = pytest.importorskip(f"{apis}.predict_pb2", reason="needs tensorflow-serving-api")
    services = pytest.importorskip(f"{apis}.prediction_service_pb2_grpc")

    class Servicer(services.PredictionServiceServicer):
        def Predict(self, request, context):  # noqa: N802, the protocol's name
            assert (request.model_spec.name, len(request.inputs)) == ("text", 1)
            texts = tf.make_ndarray(request.inputs["text_a"])
            assert len(texts) <= MAX_TEXTS
            response = predict_pb2.PredictResponse()
            lengths = np.array([len(text) for text in texts], np.float32)
            response.outputs["score"].CopyFrom(tf.make_tensor_proto(lengths))
            response.outputs["label"].CopyFrom(tf.make_tensor_proto([LABELS] * len(texts)))
            return response

    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
    services.add_PredictionServiceServicer_to_server(Servicer(), server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    yield f"localhost:{port}"
    server.stop(None)


def test_grpc_client_says_in_one_line_what_is_wrong(grpc_server, closed_port, monkeypatch, capsys):
    client = load("grpc_client")
    fail = functools.partial(exit_message, client, monkeypatch, capsys)
    closed = f"localhost:{closed_port}"
    assert fail(b"cat\n", f"--server={closed}").startswith(f"{closed}: UNAVAILABLE: ")
    message = fail(b"cat\n", f"--server={grpc_server}", "--model=none")
    assert message.startswith(f"{grpc_server}: UNKNOWN: ")
    message = "line 2: received 1 columns; expected 2, with tabs between them: text_a, text_b"
    lines = b"cat\tdog\nthe\n"
    assert fail(lines, f"--server={grpc_server}", "--inputs=text_a,text_b") == message


@pytest.mark.parametrize(
    ("name", "server", "flag"),
    [("rest_client", "rest_url", "--url={}/text"), ("grpc_client", "grpc_server", "--server={}")],
)
def test_clients_answer_lines(name, server, flag, request, monkeypatch, capsys):
    address = flag.format(request.getfixturevalue(server))
    client = load(name)
    run_main(client, monkeypatch, b"", address)
    assert not capsys.readouterr().out
    run_main(client, monkeypatch, b"cat\na dog\n" * MAX_TEXTS + b"\xff\x00\xd7\xa9", address)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [{"score": n, "label": LABELS} for n in [3, 5] * MAX_TEXTS + [4]]


def test_models_config_is_the_servers():
    name = "tensorflow_serving.config.model_server_config_pb2"
    config_pb2 = pytest.importorskip(name, reason="needs tensorflow-serving-api")
    from google.protobuf import text_format

    text = (EXAMPLES / "models.config").read_text()
    config = text_format.Parse(text, config_pb2.ModelServerConfig())
    folders = {model.name: model.base_path for model in config.model_config_list.config}
    assert folders == {"text": "/models/text", "ids": "/models/ids"}
