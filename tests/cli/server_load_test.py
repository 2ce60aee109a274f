"""Many clients of one server at once: some read slowly, some go away, the others get the text they would get alone.

python3 tests/cli/server_load_test.py --requests 1000   runs the scenario once in this size and reports what it saw
python3 tests/cli/server_load_test.py --crowd 200       runs the crowd: so many clients read a byte a second, a quarter
    of that send half of a request, others have long prompts read, while /health and /metrics are asked
Other arguments go to the server: with --max-running-requests 256 all slow clients run at once. Its memory grows until
the prefix cache has filled the pool of keys and values, which --kv-tokens makes smaller. --model DIR takes another one.
"""
import argparse
import asyncio
import collections
import contextlib
import http.client
import json
import multiprocessing
import os
import pathlib
import re
import signal
import socket
import statistics
import sys
import tempfile
import time
import unittest

import program
from server import Server, chunks

# Of ten clients one reads a byte a second and one leaves in the middle of its answer.
SLOW, LEAVING = 3, 7
# Tokens of their answers: with log probabilities more than a server and two sockets hold.
LONG = 900
PROMPTS = [json.loads(line)["question"]
           for line in (program.MINI / "test.jsonl").read_text(encoding="utf-8").splitlines()[:16]]


def body_of(index, **changes):
    """The request of client `index`: a quarter of them sample, with seeds of their own."""
    sampled = index % 4 == 0
    return {"model": "mini", "prompt": f"Question: {PROMPTS[index % len(PROMPTS)]}\nAnswer:", "max_tokens": 64,
            "temperature": 0.8 if sampled else 0, "seed": index % 48, "stop": ["Question"], "stream": True} | changes


@contextlib.contextmanager
def running_server(*arguments, model=program.MINI):
    """Its engine waits while there is a file at `hold`."""
    with tempfile.TemporaryDirectory() as directory:
        hold = pathlib.Path(directory) / "hold"
        server = Server(model, *arguments, environment={**os.environ, "REPRISE_DEBUG_HOLD": str(hold)})
        server.hold = hold
        try:
            yield server
        finally:
            hold.unlink(missing_ok=True)
            server.stop()


def resident_megabytes(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
    return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) / 1024


def head_of(path, body):
    method = "GET" if body is None else "POST"
    length = "" if body is None else f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{length}\r\n".encode()


async def connect(port, receive_buffer=None):
    sock = socket.socket()
    sock.setblocking(False)
    if receive_buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    return await asyncio.open_connection(sock=sock, limit=2**20)


async def call(port, path, body=None):
    """Status and text of one exchange."""
    content = None if body is None else json.dumps(body).encode()
    reader, writer = await connect(port)
    try:
        writer.write(head_of(path, content) + (content or b""))
        answer = await reader.read()
    finally:
        writer.close()
    head, _, rest = answer.partition(b"\r\n\r\n")
    if b"chunked" in head.lower():
        rest = chunks(rest)
    return int(head.split()[1]) if head else 0, rest.decode()


def text_of(events):
    """The text of a stream, and how it ended."""
    text, finish = "", None
    for event in events.split("\n\n"):
        if not event.startswith("data: ") or event == "data: [DONE]":
            continue
        data = json.loads(event[len("data: "):])
        if "error" in data:
            return text, "error: " + json.dumps(data["error"])
        for choice in data["choices"]:
            text += choice["text"]
            finish = choice["finish_reason"] or finish
    return text, finish if events.endswith("data: [DONE]\n\n") else f"cut off after {finish}"


async def read_slowly(port, index, seconds):
    """Reads one byte a second of an answer that is far larger than what sockets hold."""
    content = json.dumps(body_of(index, max_tokens=LONG, ignore_eos=True, stop=[], logprobs=5)).encode()
    reader, writer = await connect(port, receive_buffer=4096)
    writer.write(head_of("/v1/completions", content) + content)
    end = time.monotonic() + seconds
    received = 0
    while time.monotonic() < end:
        byte = await reader.read(1)
        if not byte:
            break
        received += 1
        await asyncio.sleep(1)
    writer.close()
    return received


async def leave(port, index):
    """Goes away after the first bytes."""
    content = json.dumps(body_of(index, max_tokens=LONG, ignore_eos=True, stop=[])).encode()
    reader, writer = await connect(port)
    writer.write(head_of("/v1/completions", content) + content)
    await reader.read(1 + index % 300)
    writer.transport.abort()


def poll_health(port, stop, results):
    """In a process of its own, which the other clients do not hold up: the status and the milliseconds of /health."""
    while not stop.is_set():
        start = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", "/health")
        status = connection.getresponse().status
        connection.close()
        results.put((status, (time.monotonic() - start) * 1e3))
        time.sleep(0.1)
    results.put(None)


def poll_paths(port, paths, stop, results):
    """Path, status and milliseconds; in a process that goes before all others, so that it is the server that counts."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    while not stop.is_set():
        for path in paths:
            request = head_of(path, None)
            start = time.monotonic()
            with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
                client.sendall(request)
                answer = client.recv(1 << 20)
                end = time.monotonic()
            results.put((path, int(answer.split()[1]), (end - start) * 1e3))
        time.sleep(0.1)
    results.put(None)


class Crowd:
    """Clients that hold what they can get hold of: each comes again when the server has given it up."""

    def __init__(self, server, slow, seconds, prompt_words=800):
        self.server, self.slow_readers, self.seconds, self.prompt_words = server, slow, seconds, prompt_words
        self.seen, self.wrong, self.times = collections.Counter(), [], collections.defaultdict(list)
        self.memory, self.beside = [resident_megabytes(server)], []

    def goes_on(self):
        return time.monotonic() < self.end

    async def in_time(self, exchange):
        """What comes of it until the end, else None."""
        try:
            return await asyncio.wait_for(exchange, self.end - time.monotonic())
        except asyncio.TimeoutError:
            return None

    async def hold(self, kind, request, receive_buffer=None):
        while self.goes_on():
            reader, writer = await connect(self.server.port, receive_buffer)
            writer.write(request)
            self.seen[kind] += 1
            with contextlib.suppress(ConnectionError):
                while await self.in_time(reader.read(1)):
                    self.seen[f"bytes, {kind}"] += 1
                    await asyncio.sleep(1)
            writer.transport.abort()

    async def read_slowly(self, index):
        content = json.dumps(body_of(index, max_tokens=LONG, ignore_eos=True, stop=[], logprobs=5)).encode()
        await self.hold("slow", head_of("/v1/completions", content) + content, receive_buffer=4096)

    async def send_half(self, index):
        content = json.dumps(body_of(index)).encode()
        whole = head_of("/v1/completions", content) + content
        await self.hold("half sent", whole[:20 + index * 7 % (len(whole) - 40)])

    async def ask_with(self, kind, prompt, *expected):
        while self.goes_on():
            body = {"model": "mini", "prompt": prompt(), "max_tokens": 1, "priority": 1}
            answer = await self.in_time(call(self.server.port, "/v1/completions", body))
            self.seen[kind] += answer is not None
            if answer and answer[0] not in expected:
                self.wrong.append(f"{kind}: {answer[0]} {answer[1][:200]}")
            self.memory.append(resident_megabytes(self.server))
            await asyncio.sleep(0.05)

    async def read(self):
        """Someone who reads what comes."""
        while self.goes_on():
            start = time.monotonic()
            answer = await self.in_time(call(self.server.port, "/v1/completions", body_of(1, priority=1)))
            self.beside.append(time.monotonic() - start)
            if answer and text_of(answer[1]) != self.alone:
                self.wrong.append(f"{text_of(answer[1])} instead of {self.alone}")

    async def run(self):
        self.alone = text_of((await call(self.server.port, "/v1/completions", body_of(1)))[1])
        self.given_up = self.server.metric("reprise_http_slow_clients_total")
        stop, polled = multiprocessing.Event(), multiprocessing.Queue()
        paths = ("/health", "/metrics")
        poller = multiprocessing.Process(target=poll_paths, args=(self.server.port, paths, stop, polled))
        poller.start()
        self.end = time.monotonic() + self.seconds
        fresh = iter(range(10**9))
        await asyncio.gather(
            *map(self.read_slowly, range(self.slow_readers)), *map(self.send_half, range(self.slow_readers // 4)),
            self.ask_with("long prompts", lambda: f"{next(fresh)}" + " pens" * self.prompt_words, 200),
            self.ask_with("huge prompts", lambda: f"{next(fresh)}" + " pens" * 40_000, 200, 400), self.read())
        stop.set()
        for path, status, milliseconds in iter(polled.get, None):
            self.times[path].append(milliseconds)
            if status != 200:
                self.wrong.append(f"{path} answered {status}")
        poller.join()
        self.given_up = self.server.metric("reprise_http_slow_clients_total") - self.given_up
        self.idle = self.server.wait_for_metric("sglang:num_used_tokens", 0, seconds=60)

    def report(self):
        lines = [f"{dict(self.seen)}; {self.given_up:.0f} given up; {len(self.wrong)} wrong; a reader beside them: "
                 f"{len(self.beside)} answers, slowest {max(self.beside):.2f} s; resident {self.memory[0]:.0f} MB, "
                 f"at most {max(self.memory):.0f} MB; {'no page' if self.idle else 'pages'} left in use"]
        for path, times in self.times.items():
            cuts = statistics.quantiles(times, n=1000, method="inclusive")
            lines.append(f"{path}: {len(times)} times, median {cuts[499]:.2f} ms, 90 % {cuts[899]:.2f} ms, "
                         f"99 % {cuts[989]:.2f} ms, slowest {max(times):.2f} ms")
        return "\n".join(lines)


class Scenario:
    """The clients of one run, and what was seen."""

    def __init__(self, server, requests, slow_seconds):
        self.server, self.requests, self.slow_seconds = server, requests, slow_seconds
        self.alone, self.wrong, self.kinds = {}, [], collections.Counter()
        self.health, self.first_byte = [], []

    async def expect(self):
        """What each request gives when it is alone."""
        for index in range(min(self.requests, 48)):
            if index % 10 in (SLOW, LEAVING):
                continue
            self.alone[index % 48] = text_of((await call(self.server.port, "/v1/completions", body_of(index)))[1])
        # Every index of the full run has the request of one of these.
        for index in range(48):
            if index not in self.alone:
                self.alone[index] = text_of((await call(self.server.port, "/v1/completions", body_of(index)))[1])

    async def client(self, index):
        kind = index % 10
        if kind == SLOW:
            self.kinds["slow"] += 1
            await read_slowly(self.server.port, index, self.slow_seconds)
        elif kind == LEAVING:
            self.kinds["leaving"] += 1
            await leave(self.server.port, index)
        else:
            self.kinds["reading"] += 1
            status, events = await call(self.server.port, "/v1/completions", body_of(index))
            if status != 200:
                self.wrong.append(f"request {index}: {status} {events[:200]}")
            elif text_of(events) != self.alone[index % 48]:
                self.wrong.append(f"request {index}: {text_of(events)} instead of {self.alone[index % 48]}")

    async def run(self):
        await self.expect()
        stop, polled = multiprocessing.Event(), multiprocessing.Queue()
        poller = multiprocessing.Process(target=poll_health, args=(self.server.port, stop, polled))
        poller.start()
        start = time.monotonic()
        results = await asyncio.gather(*map(self.client, range(self.requests)), return_exceptions=True)
        self.wrong += [f"request {index}: {result!r}" for index, result in enumerate(results)
                       if isinstance(result, Exception) and index % 10 not in (SLOW, LEAVING)]
        self.seconds = time.monotonic() - start
        stop.set()
        for status, milliseconds in iter(polled.get, None):
            self.health.append(milliseconds)
            if status != 200:
                self.wrong.append(f"/health answered {status}")
        poller.join()
        await self.settle()

    async def settle(self):
        """Waits until nothing runs; then no page may be in use."""
        for _ in range(100):
            self.left = [self.server.metric(f"sglang:{name}")
                         for name in ("num_running_reqs", "num_queue_reqs", "num_used_tokens")]
            if not any(self.left):
                return
            await asyncio.sleep(0.1)

    def report(self):
        health = sorted(self.health)
        return (f"{dict(self.kinds)} in {self.seconds:.1f} s; {len(self.wrong)} wrong; /health {len(health)} times, "
                f"median {statistics.median(health):.1f} ms, slowest {health[-1]:.1f} ms; left running, waiting, "
                f"tokens in use: {self.left}; resident {resident_megabytes(self.server):.0f} MB")


class HeldLoop:
    """What /health says while nothing moves in the engine: its times, and when it begins to say that."""

    def __init__(self, server):
        self.server = server
        self.milliseconds, self.statuses, self.wedged_after = [], [], None

    def last_step(self):
        return json.loads(self.server.ask("GET", "/state?limit=0")[2])["last_index"]

    def wait_until_held(self):
        self.server.hold.touch()
        for _ in range(1000):
            before = self.last_step()
            time.sleep(0.1)
            if self.last_step() == before:
                return
        raise AssertionError("the engine goes on")

    async def run(self, health_timeout):
        """With clients whose answers are on their way; gives these answers."""
        answers = [asyncio.create_task(call(self.server.port, "/v1/completions",
                                            body_of(index, max_tokens=LONG, ignore_eos=True, stop=[])))
                   for index in range(8)]
        while not self.server.metric("sglang:num_running_reqs"):
            await asyncio.sleep(0.01)
        self.wait_until_held()
        start = time.monotonic()
        while time.monotonic() - start < health_timeout + 0.5:
            begin = time.monotonic()
            self.statuses.append((await call(self.server.port, "/health"))[0])
            self.milliseconds.append((time.monotonic() - begin) * 1e3)
            if self.statuses[-1] != 200 and self.wedged_after is None:
                self.wedged_after = begin - start
            await asyncio.sleep(0.02)
        self.server.hold.unlink()
        return await asyncio.gather(*answers)

    def report(self):
        wedged = "never" if self.wedged_after is None else f"after {self.wedged_after:.1f} s"
        return (f"while the decode loop was held: /health {len(self.milliseconds)} times, median "
                f"{statistics.median(self.milliseconds):.1f} ms, slowest {max(self.milliseconds):.1f} ms; 503 {wedged}")


class Load(unittest.TestCase):
    def test_b74_health_is_answered_while_the_decode_loop_is_held(self):
        with running_server("--max-running-requests", 4, "--health-timeout", 1.5) as server:
            alone = text_of(asyncio.run(call(server.port, "/v1/completions",
                                             body_of(1, max_tokens=LONG, ignore_eos=True, stop=[])))[1])
            held = HeldLoop(server)
            answers = asyncio.run(held.run(1.5))
            print(held.report())
            # On a machine with other work it takes its time; behind the loop it would be seconds.
            self.assertLess(max(held.milliseconds), 1000)
            self.assertEqual(held.statuses, sorted(held.statuses))
            self.assertEqual(set(held.statuses) - {200}, {503})
            self.assertGreater(len(held.statuses), 20)
            self.assertEqual(answers[1][0], 200)
            self.assertEqual(text_of(answers[1][1]), alone)
            self.assertEqual({text_of(events)[1] for _, events in answers}, {"length"})
            self.assertEqual(server.ask("GET", "/health")[0], 200)

    def test_b74_health_beside_clients_that_hold_all_they_can(self):
        with running_server() as server:
            crowd = Crowd(server, 40, seconds=4)
            asyncio.run(crowd.run())
            print(crowd.report())
            self.assertEqual(crowd.wrong, [])
            self.assertTrue(crowd.idle)
            for path in ("/health", "/metrics"):
                self.assertGreater(len(crowd.times[path]), 10)
                # On a machine with other work it takes its time; behind a prompt or a client it would be seconds.
                self.assertLess(max(crowd.times[path]), 1000)

    def test_slow_and_leaving_clients_change_nothing_for_the_others(self):
        with running_server("--max-running-requests", 16) as server:
            scenario = Scenario(server, 60, slow_seconds=2)
            asyncio.run(scenario.run())
            self.assertEqual(scenario.wrong, [])
            self.assertEqual(scenario.left, [0, 0, 0])

    def test_a_termination_in_the_middle_lets_started_answers_end(self):
        async def clients(server):
            tasks = [asyncio.create_task(call(server.port, "/v1/completions", body_of(index))) for index in range(24)]
            while not server.metric("sglang:num_running_reqs"):
                await asyncio.sleep(0.01)
            server.process.send_signal(signal.SIGTERM)
            return await asyncio.gather(*tasks)

        with running_server("--max-running-requests", 4) as server:
            answers = asyncio.run(clients(server))
            self.assertEqual(server.process.wait(timeout=30), 0)
        for status, events in answers:
            self.assertEqual(status, 200)
            self.assertIn(text_of(events)[1], ("stop", "length"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=0)
    parser.add_argument("--slow-seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--crowd", type=int, default=0)
    parser.add_argument("--crowd-seconds", type=float, default=30)
    parser.add_argument("--prompt-words", type=int, default=800)
    parser.add_argument("--model", default=program.MINI)
    options, rest = parser.parse_known_args()
    if options.crowd:
        with running_server(*rest, model=options.model) as server:
            for _ in range(options.rounds):
                crowd = Crowd(server, options.crowd, options.crowd_seconds, options.prompt_words)
                asyncio.run(crowd.run())
                print("\n".join([crowd.report(), *crowd.wrong[:10]]))
        return 0
    if not options.requests:
        return unittest.main(argv=[sys.argv[0], *rest])
    with running_server(*rest, model=options.model) as server:
        for _ in range(options.rounds):
            scenario = Scenario(server, options.requests, options.slow_seconds)
            asyncio.run(scenario.run())
            print(scenario.report())
            print("\n".join(scenario.wrong[:10]))
        held = HeldLoop(server)
        asyncio.run(held.run(1.5))
        print(held.report())
    return 0


if __name__ == "__main__":
    sys.exit(main())
