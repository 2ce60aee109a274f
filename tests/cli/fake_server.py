"""A server of our own making for tests of clients: it answers as told, at fixed times, and notes what it was asked and
when each event went out. Python's own library is enough."""
import contextlib
import http.server
import json
import threading
import time


def event(data):
    """One event of a stream."""
    return b"data: " + (data if isinstance(data, bytes) else json.dumps(data).encode()) + b"\n\n"


DONE = event(b"[DONE]")


class FakeServer:
    """`answer(path, body)` gives what a POST returns: either (status, bytes) or a list of (milliseconds since the
    request came, bytes) to be streamed. `pages` are the texts of GETs by path. Use it in a with statement."""

    def __init__(self, answer, pages=None):
        self.answer = answer
        self.pages = {"/v1/models": json.dumps({"object": "list", "data": [{"id": "fake"}]})}
        self.pages.update(pages or {})
        self.requests = []  # (path, body, headers), in the order of arrival
        self.sent = []  # for each streamed answer the milliseconds at which its parts really went out
        self.lock = threading.Lock()
        self.running = self.most_running = 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *arguments):
                pass

            def whole(self, status, body, kind="application/json"):
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                page = outer.pages.get(self.path)
                if page is None:
                    self.whole(404, b'{"error": {"message": "no such path"}}')
                else:
                    self.whole(200, (page() if callable(page) else page).encode())

            def do_POST(self):
                begin = time.monotonic()
                text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                body = json.loads(text) if text else None
                with outer.lock:
                    outer.requests.append((self.path, body, dict(self.headers)))
                    outer.running += 1
                    outer.most_running = max(outer.most_running, outer.running)
                try:
                    end = self.reply(outer.answer(self.path, body), begin)
                except (BrokenPipeError, ConnectionResetError):
                    end = b""
                # A client that has read the end may ask for more at once.
                with outer.lock:
                    outer.running -= 1
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    self.wfile.write(end)

            def reply(self, answer, begin):
                """Sends all but the end, which it returns."""
                if isinstance(answer, tuple):
                    self.whole(answer[0], answer[1])
                    return b""
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream; charset=utf-8")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                sent = []
                with outer.lock:
                    outer.sent.append(sent)
                for milliseconds, part in answer:
                    time.sleep(max(0, begin + milliseconds / 1e3 - time.monotonic()))
                    sent.append(1e3 * (time.monotonic() - begin))
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                    self.wfile.flush()
                return b"0\r\n\r\n"

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def posts(self, path):
        return [body for asked, body, _ in self.requests if asked == path]


def generate_events(gaps, tokens_per_event=1, prompt_tokens=16, cached_tokens=0, finish="length"):
    """What /generate streams: an event behind each gap (milliseconds), all text so far in each."""
    parts, at = [], 0
    for number, gap in enumerate(gaps, 1):
        at += gap
        last = number == len(gaps)
        parts.append((at, event({"text": "ab " * number, "meta_info": {
            "id": "1", "prompt_tokens": prompt_tokens, "completion_tokens": number * tokens_per_event,
            "cached_tokens": cached_tokens,
            "finish_reason": {"type": finish, "length": len(gaps) * tokens_per_event} if last else None}})))
    return parts + [(at, DONE)]
