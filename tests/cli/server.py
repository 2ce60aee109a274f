"""A running `reprise serve`, and clients that see every byte."""
import http.client
import json
import re
import socket
import subprocess
import tempfile
import time

from program import PROGRAM


class Server:
    """Started with a free port; ready when the constructor returns, unless `wait` is false."""

    def __init__(self, model, *arguments, wait=True, environment=None):
        # A pipe that nobody reads would fill with the lines about steps, and stop whoever writes them.
        self.log = ""
        self.log_file = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "-m", str(model), "--port", "0", *map(str, arguments)], stdout=subprocess.PIPE,
            stderr=self.log_file, text=True, env=environment)
        self.port = int(re.search(r":(\d+)$", self.process.stdout.readline().strip()).group(1))
        self.ready_line = self.process.stdout.readline() if wait else ""

    def stop(self):
        """Ends it as an operator would; gives its exit code and its log."""
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate(timeout=60)
        if not self.log_file.closed:
            self.log_file.seek(0)
            self.log = self.log_file.read()
            self.log_file.close()
        return self.process.returncode, self.log

    def connect(self, timeout=30):
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def ask(self, method, path, body=None, headers=None):
        """(status, headers, body as bytes). A body that is no bytes is sent as JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            sent = {} if body is None else {"Content-Type": "application/json"}
            sent.update(headers or {})
            if body is not None and not isinstance(body, bytes):
                body = json.dumps(body).encode()
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def post(self, path, body, headers=None):
        """(status, parsed answer)."""
        status, _, answer = self.ask("POST", path, body, headers)
        return status, json.loads(answer.decode("utf-8", "strict"))

    def begin(self, path, body):
        """Sends a request and gives the socket."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        client = self.connect()
        client.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                       % (path.encode(), len(data)) + data)
        return client

    def stream_bytes(self, path, body):
        """The body of a stream as it came over the socket, without the frames of chunks."""
        with self.begin(path, body) as client:
            data = b""
            while not data.endswith(b"\r\n0\r\n\r\n") and b"\r\n\r\n" not in data or not complete(data):
                more = client.recv(65536)
                if not more:
                    break
                data += more
        head, _, rest = data.partition(b"\r\n\r\n")
        if b"200 OK" not in head.split(b"\r\n")[0]:
            raise AssertionError(data.decode())
        return chunks(rest)

    def stream(self, path, body):
        """The JSON values of a stream's events; checks the frames of all events."""
        text = self.stream_bytes(path, body).decode("utf-8", "strict")
        if not text.endswith("data: [DONE]\n\n") or text.count("[DONE]") != 1:
            raise AssertionError(text[-200:])
        events = text.removesuffix("\n\n").split("\n\n")
        if not all(event.startswith("data: ") and "\n" not in event for event in events):
            raise AssertionError(text)
        return [json.loads(event.removeprefix("data: ")) for event in events[:-1]]

    def metric(self, name):
        """The sum of a metric's samples."""
        _, _, page = self.ask("GET", "/metrics")
        values = [float(line.rsplit(" ", 1)[1]) for line in page.decode().splitlines()
                  if re.match(re.escape(name) + r"[{ ]", line)]
        if not values:
            raise AssertionError(f"no metric {name}")
        return sum(values)

    def wait_for_metric(self, name, value, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.metric(name) == value:
                return True
            time.sleep(0.01)
        return False


def complete(data):
    """Whether a response is there as a whole."""
    head, found, rest = data.partition(b"\r\n\r\n")
    if not found:
        return False
    length = re.search(rb"\r\nContent-Length: (\d+)", head)
    if length:
        return len(rest) >= int(length.group(1))
    return rest.endswith(b"0\r\n\r\n")


def chunks(data):
    """The body that comes in chunks."""
    body = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        length = int(size, 16)
        body += data[:length]
        data = data[length + 2:]
        if length == 0:
            break
    return body
