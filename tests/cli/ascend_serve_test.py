"""`reprise serve` on the emulated Ascend device: sixteen clients at once, and a device that fails in the middle.

python3 tests/cli/ascend_serve_test.py [--requests N] [--clients N]   runs the first scenario once in this size
"""
import argparse
import concurrent.futures
import contextlib
import json
import re
import sys
import time
import unittest

import ascend
import program
from server import Server

CLIENTS = 16
PROMPTS = [json.loads(line)["question"]
           for line in (program.MINI / "test.jsonl").read_text(encoding="utf-8").splitlines()[:48]]
# One whose text goes on until its tokens are used up.
LONG = {"prompt": "Question: Ada", "max_tokens": 400, "temperature": 0, "ignore_eos": True, "stop": []}


def body_of(index, **changes):
    """The request of client `index`: a quarter of them sample, with seeds of their own."""
    return {"model": "mini", "prompt": f"Question: {PROMPTS[index % len(PROMPTS)]}\nAnswer:",
            "max_tokens": 24 + index % 16, "temperature": 0.8 if index % 4 == 0 else 0, "seed": index,
            "stop": ["Question"]} | changes


@contextlib.contextmanager
def running_server(*arguments, **settings):
    """Watched for misuse of AscendCL, which its log tells when it has stopped."""
    server = Server(program.MINI, "--dtype", "bfloat16", "--device", "ascend", "--served-model-name", "mini",
                    *arguments, environment=ascend.environment(**settings))
    try:
        yield server
    finally:
        server.stop()


def ask_all(server, bodies, clients=CLIENTS):
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        return list(pool.map(lambda body: server.post("/v1/completions", body), bodies))


def texts_of(answers):
    """What each answer says, and why it ended."""
    return [(answer["choices"][0]["text"], answer["choices"][0]["finish_reason"]) if status == 200 else (status, answer)
            for status, answer in answers]


def decode_steps(server):
    """By reason, those that there were."""
    _, _, page = server.ask("GET", "/metrics")
    found = re.findall(r'^reprise_decode_steps_total\{.*reason="(\w+)"\} (\d+)$', page.decode(), re.MULTILINE)
    return {reason: int(count) for reason, count in found if int(count) > 0}


def serve_many(requests, clients):
    """Texts of requests that come one after the other, and of the same all at once; and the server, which has ended."""
    bodies = [body_of(index) for index in range(requests)]
    with running_server("--poison", "--capture-before-ready", "--graph-bs", 1, 2, 4, 8, 16, "--max-running-requests",
                        16, ACL_POISON=1) as server:
        alone = texts_of(ask_all(server, bodies, 1))
        steps_alone = decode_steps(server)
        together = texts_of(ask_all(server, bodies, clients))
        steps = decode_steps(server)
        # One is in the middle when the server is told to end, and may come to its end.
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            last = pool.submit(server.post, "/v1/completions", body_of(1, **LONG))
            if not server.wait_for_metric("sglang:num_running_reqs", 1):
                raise AssertionError("the last request does not run")
            code, log = server.stop()
            return alone, together, steps_alone, steps, texts_of([last.result()]), code, log


class AscendServe(unittest.TestCase):
    def check_watched(self, server):
        self.assertEqual(re.findall("^acl validation: .*", server.log, re.MULTILINE), ["acl validation: 0 problems"])

    def test_sixteen_clients_get_the_texts_that_each_gets_alone(self):
        alone, together, steps_alone, steps, last, code, log = serve_many(CLIENTS, CLIENTS)
        self.assertEqual(together, alone)
        self.assertTrue(all(isinstance(text, str) and len(text) > 10 for text, _ in alone), alone)
        self.assertEqual(list(steps), ["replayed"])
        # Many were in one step each.
        self.assertLess(steps["replayed"] - steps_alone["replayed"], steps_alone["replayed"] / 3)
        self.assertEqual(last[0][1], "length", last)
        self.assertEqual(code, 0, log)
        self.assertEqual(re.findall("^acl validation: .*", log, re.MULTILINE), ["acl validation: 0 problems"])

    def lose_device(self, fault, message, **settings):
        with running_server(ACL_FAULT=fault, **settings) as server:
            self.assertEqual(server.ask("GET", "/health")[0], 200)
            answers = ask_all(server, [body_of(index, **LONG) for index in range(4)], 4)
            for status, answer in answers:
                self.assertEqual(status, 500, answer)
                self.assertIn(message, answer["error"]["message"])
            self.assertEqual(server.ask("GET", "/health")[0], 503)
            status, answer = server.post("/v1/completions", body_of(1))
            self.assertEqual(status, 503, answer)
            self.assertIn("failed", answer["error"]["message"])
            begin = time.monotonic()
            server.stop()
            self.assertLess(time.monotonic() - begin, 5)
        self.assertEqual(server.process.returncode, 1, server.log)
        self.assertIn(message, server.log)
        self.check_watched(server)

    def test_a_device_error_ends_every_request_and_the_health(self):
        self.lose_device("device:3000", "507015")

    def test_a_submission_that_tells_of_a_lost_device_ends_the_engine(self):
        self.lose_device("event:150=507015", "507015")

    def test_a_captured_operator_that_fails_leaves_no_executor(self):
        with running_server(ACL_FAULT="operator:700") as server:
            # Which of an operator's phases meets the fault is a matter of time; a step that fails may end requests.
            for status, answer in ask_all(server, [body_of(index, **LONG) for index in range(4)], 4):
                self.assertIn(status, (200, 500), answer)
            self.assertEqual(server.stop()[0], 0)
        self.check_watched(server)

    def test_a_kernel_that_never_ends_ends_every_request_and_the_health(self):
        self.lose_device("timeout:3000", "has not come to an end within 1.0 s", DEVICE_WAIT_SECONDS=1)

    def test_a_server_that_waits_for_its_device_ends_when_it_is_told_to(self):
        with running_server("--drain-seconds", "0.3", "--health-timeout", "0.5", ACL_FAULT="timeout:3000") as server:
            with server.begin("/v1/completions", body_of(1, **LONG)):
                self.assertTrue(server.wait_for_metric("sglang:num_running_reqs", 1))
                time.sleep(0.5)
                begin = time.monotonic()
                server.stop()
                self.assertLess(time.monotonic() - begin, 5)
        self.assertEqual(server.process.returncode, 1, server.log)
        self.assertRegex(server.log, r"the engine was not seen for \d\.\d s: the server ends without it")

    def test_a_step_that_fails_costs_the_requests_in_it(self):
        with running_server(ACL_FAULT="sync:100") as server:
            status, answer = server.post("/v1/completions", body_of(1, **LONG))
            self.assertEqual(status, 500, answer)
            self.assertIn("injected fault (sync:100)", answer["error"]["message"])
            self.assertEqual(server.ask("GET", "/health")[0], 200)
            status, answer = server.post("/v1/completions", body_of(1))
            self.assertEqual(status, 200, answer)
            code, log = server.stop()
        self.assertEqual(code, 0, log)
        self.check_watched(server)

    def lose_update(self, fault, *arguments):
        """Decode steps after a request whose step failed in an update, and what the server tells of its captures."""
        body = body_of(1, temperature=0)
        with running_server(*arguments) as server:
            [expected] = texts_of([server.post("/v1/completions", body)])
        with running_server(*arguments, ACL_FAULT=fault) as server:
            status, answer = server.post("/v1/completions", body)
            self.assertEqual(status, 500, answer)
            self.assertIn(f"injected fault ({fault})", answer["error"]["message"])
            self.assertEqual(texts_of(ask_all(server, [body] * 2, 1)), [expected] * 2)
            steps = decode_steps(server)
            _, _, page = server.ask("GET", "/metrics")
            code, log = server.stop()
        self.assertEqual(code, 0, log)
        self.check_watched(server)
        [recaptures] = re.findall(r"^reprise_recaptures_total\S* (\d+)$", page.decode(), re.MULTILINE)
        return steps, int(recaptures)

    def test_an_update_that_breaks_off_costs_the_requests_in_its_step(self):
        # A begin, which changes nothing, and ends, after which nobody can say what the graph holds.
        for fault, arguments in (("update:5", ()), ("update:6", ()),
                                 ("update:6", ("--update-order", "update-then-replay"))):
            with self.subTest(fault=fault, arguments=arguments):
                steps, recaptures = self.lose_update(fault, *arguments)
                self.assertEqual(list(steps), ["replayed"])
                self.assertEqual(recaptures, 1)

    def test_a_capture_without_resources_costs_its_batch_size(self):
        bodies = [body_of(index, max_tokens=12, temperature=0) for index in range(4)]
        # The first size that is captured is the largest.
        with running_server("--capture-before-ready", "--graph-bs", 1, 2, 4, ACL_FAULT="capture:5") as server:
            together = texts_of(ask_all(server, bodies, 4))
            steps = decode_steps(server)
            alone = texts_of(ask_all(server, bodies, 1))
            steps_then = decode_steps(server)
            code, log = server.stop()
        self.assertEqual(together, alone)
        self.assertRegex(log, r"capture of batch size 4 failed, its steps run eagerly: .*207008")
        self.assertEqual(steps.keys() - {"replayed"}, {"capture_failed"})
        self.assertEqual(steps_then["capture_failed"], steps["capture_failed"])
        self.assertGreater(steps_then["replayed"], steps.get("replayed", 0) + 20)
        self.assertEqual(code, 0, log)
        self.check_watched(server)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    options, _ = parser.parse_known_args()
    if options.requests is None:
        unittest.main()
    alone, together, _, steps, last, code, log = serve_many(options.requests, options.clients)
    problems = re.findall("^acl validation: .*", log, re.MULTILINE)
    print(f"{options.requests} requests of {options.clients} clients: "
          f"{sum(a == b for a, b in zip(alone, together))} texts as alone; decode steps {steps}; "
          f"the last one ended by {last[0][1]}; exit code {code}; {'; '.join(problems)}")
    sys.exit(0 if alone == together and list(steps) == ["replayed"] and code == 0 else 1)


if __name__ == "__main__":
    main()
