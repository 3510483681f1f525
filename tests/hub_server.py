"""A server that speaks the part of the Hugging Face Hub's protocol that downloads need."""

import contextlib
import hashlib
import http.server
import json
import re
import threading
import urllib.parse

COMMIT = "c0ffee" * 6 + "abcd"
_ERRORS = {"missing": (404, "RepoNotFound"), "private": (401, None), "gated": (403, "GatedRepo")}


class HubServer(http.server.ThreadingHTTPServer):
    """Serves repositories, as on the Hub, and other files by their paths.

    Attributes:
        repos: repository -> file -> content; in place of the files the name of an error.
        files: path -> content.
        cuts: file -> number of bytes after which the connection is dropped, once.
        requests: the requests so far, method and path.
        tokens: the `Authorization` headers so far.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repos, self.files, self.cuts = {}, {}, {}
        self.requests, self.tokens = [], set()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        self.server.requests.append((self.command, path))
        self.server.tokens.add(self.headers.get("Authorization"))
        if path in self.server.files:
            return self._send_file(path, self.server.files[path])
        info = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?", path)
        file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        found = info or file
        repo = self.server.repos.get(found[1], "missing") if found else "missing"
        if isinstance(repo, str):
            return self._fail(*_ERRORS[repo])
        revision = (info[3] if info else file[2]) or "main"
        if revision not in ("main", "v1", COMMIT):
            return self._fail(404, "RevisionNotFound")
        if file:
            if file[3] not in repo:
                return self._fail(404, "EntryNotFound")
            return self._send_file(file[3], repo[file[3]])
        if info[2] == "tree":
            tree = [
                {"type": "file", "path": name, "size": len(content), "oid": _sum(content)}
                for name, content in repo.items()
            ]
            return self._send(json.dumps(tree).encode(), {"Content-Type": "application/json"})
        siblings = [{"rfilename": name} for name in repo]
        values = {"id": found[1], "sha": COMMIT, "siblings": siblings, "tags": [], "downloads": 0}
        return self._send(json.dumps(values).encode(), {"Content-Type": "application/json"})

    do_HEAD = do_GET  # noqa: N815

    def _send_file(self, name, content):
        start = 0
        if asked := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")):
            start = int(asked[1])
        headers = {"ETag": f'"{_sum(content)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        self._send(content[start:], headers, 206 if start else 200, self.server.cuts, name)

    def _send(self, content, headers, status=200, cuts=None, name=""):
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if cut := (cuts or {}).pop(name, None):
            self.wfile.write(content[:cut])
            self.wfile.flush()
            self.close_connection = True
            return
        self.wfile.write(content)

    def _fail(self, status, code):
        headers = {"X-Error-Code": code} if code else {}
        self._send(b'{"error": "refused"}', headers, status)

    def log_message(self, *args):
        pass


def _sum(content):
    return hashlib.sha1(content).hexdigest()


@contextlib.contextmanager
def serve():
    """Yields a running server."""
    server = HubServer()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
