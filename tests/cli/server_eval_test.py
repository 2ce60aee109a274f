"""reprise bench one-batch-server and eval gsm8k --base-url against servers that answer as told, and the table of
--compare-modes."""
import json
import re
import time
import unittest

import program
from fake_server import DONE, FakeServer, event
from server import Server

DATA = program.MINI / "test.jsonl"
PROBLEMS = program.json_lines(DATA.read_text())


def batch_events(body, first=20, step=5, order=1):
    """What /generate streams for a batch: an event for each prompt and token, with its index."""
    count = body["sampling_params"]["max_new_tokens"]
    rows = len(body["input_ids"])
    parts = []
    for token in range(1, count + 1):
        for row in range(rows)[::order]:
            # The last prompt's first token comes when all have been read.
            at = first * (row + 1) if token == 1 else first * rows + step * (token - 1)
            parts.append((at, event({"text": "x" * token, "index": row, "meta_info": {
                "completion_tokens": token, "prompt_tokens": len(body["input_ids"][row]), "cached_tokens": 0,
                "finish_reason": {"type": "length", "length": count} if token == count else None}})))
    return sorted(parts, key=lambda part: part[0]) + [(parts[-1][0], DONE)]


class OneBatchServer(unittest.TestCase):
    def serve(self, server, *arguments):
        self.out = program.temporary_directory(self) / "result.jsonl"
        return program.run("bench", "one-batch-server", "--model", "None", "--base-url", server.url,
                           "--result-filename", self.out, *arguments)

    def test_an_answer_that_comes_at_once_has_no_rate(self):
        info = {"/get_server_info": json.dumps({"internal_states": [{"last_gen_throughput": 12.5}]})}

        def answer(path, body):
            parts = batch_events(body, first=5, step=0) if body else (200, b"Cache flushed.\n")
            return [(20, b"".join(data for _, data in parts))] if body else parts
        with FakeServer(answer, info) as server:
            done = self.serve(server, "--batch-size", 2, "--output-len", 16, "--input-len", 8, "--skip-warmup",
                              "--show-report")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("last generation throughput: not known\n", done.stdout)
        self.assertIn("\noutput throughput: not known: 32 of 32 tokens had come when each prompt had one; ", done.stdout)
        self.assertIn(" | - | - |\n", done.stdout)
        self.assertNotIn("inf", done.stdout)
        result = program.json_lines(self.out.read_text())[0]
        self.assertEqual((result["output_throughput"], result["last_gen_throughput"]), (None, None))

    def test_lines_and_results_are_those_of_the_published_benchmark(self):
        def info():
            # A new number for each run, as of a server whose interval ends in it.
            runs = len(server.posts("/generate"))
            return json.dumps({"internal_states": [{"last_gen_throughput": 12.5 + runs}]})

        with FakeServer(lambda path, body: batch_events(body) if body else (200, b"Cache flushed.\n"),
                        {"/get_server_info": info}) as server:
            done = self.serve(server, "--batch-size", 2, "--input-len", 8, "--output-len", 1, 6, "--run-name", "try")
        self.assertEqual(done.returncode, 0, done.stderr)
        number = r"\d+\.\d\d"

        def case(batch, length, tokens, last, decodes=True):
            return (rf"#Input tokens: {batch * length}\n#Output tokens: {batch * tokens}\nbatch size: {batch}\n"
                    rf"input_len: {length}\noutput_len: {tokens}\nlatency: {number} s\nttft: {number} s\n"
                    rf"last generation throughput: {last}\ninput throughput: {number} tok/s\n"
                    + (rf"output throughput: {number} tok/s\n" if decodes else "") + r"cache hit tokens: 0\n")

        self.assertRegex(done.stdout, "^======== Warmup Begin ========\n" + case(16, 8, 6, r"13\.50 tok/s") +
                         "======== Warmup End   ========\n\n" + case(2, 8, 1, "not known", decodes=False) +
                         case(2, 8, 6, r"15\.50 tok/s") +
                         rf"\nResults are saved to {re.escape(str(self.out))}\n$")
        results = program.json_lines(self.out.read_text())
        self.assertEqual([(r["run_name"], r["batch_size"], r["input_len"], r["output_len"]) for r in results],
                         [("try", 2, 8, 1), ("try", 2, 8, 6)])
        # Both prompts had a token after 40 ms; 25 ms later all was there.
        self.assertGreaterEqual(results[1]["ttft"], 0.0395)
        self.assertGreaterEqual(results[1]["latency"], 0.0645)
        self.assertLess(results[1]["ttft"], server.sent[-1][1] / 1e3 + 0.06)
        self.assertIsNone(results[0]["output_throughput"])
        # Two of the twelve tokens had come by then.
        self.assertLess(results[1]["output_throughput"] * (results[1]["latency"] - results[1]["ttft"]), 10.5)
        self.assertAlmostEqual(results[1]["overall_throughput"], 2 * 14 / results[1]["latency"], delta=2)
        flushes = [i for i, (path, _, _) in enumerate(server.requests) if path == "/flush_cache"]
        self.assertEqual(flushes, [0, 2, 4])
        body = server.posts("/generate")[-1]
        self.assertEqual(body["sampling_params"], {"temperature": 0.0, "max_new_tokens": 6, "ignore_eos": True})
        self.assertLess(max(max(ids) for ids in body["input_ids"]), 16384)

    def test_a_batch_that_does_not_end_by_its_length_is_refused(self):
        def stopped(path, body):
            if body is None:
                return 200, b""
            return [(1, event({"text": "", "index": i, "meta_info": {"completion_tokens": 1,
                                                                     "finish_reason": {"type": "stop"}}}))
                    for i in range(len(body["input_ids"]))]

        with FakeServer(stopped) as server:
            done = self.serve(server, "--skip-warmup", "--batch-size", 2, "--input-len", 4)
        self.assertEqual(done.returncode, 3)
        self.assertIn("ended with 'stop' after 1 tokens", done.stderr)

    def test_profiles_are_asked_of_the_server(self):
        with FakeServer(lambda path, body: batch_events(body) if path == "/generate" else (200, b"")) as server:
            done = self.serve(server, "--skip-warmup", "--input-len", 4, "--output-len", 2, "--profile",
                              "--show-report")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([path for path, _, _ in server.requests],
                         ["/flush_cache", "/start_profile", "/generate", "/stop_profile"])
        self.assertIn("| 1 | 4 | 2 |", done.stdout)

    def test_no_server_is_started(self):
        done = program.run("bench", "one-batch-server", "--model", program.MINI)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no server is started here", done.stderr)


class EvalServer(unittest.TestCase):
    def evaluate(self, server, *arguments):
        return program.run("eval", "gsm8k", "--base-url", server.url, "--data", DATA, *arguments)

    @staticmethod
    def solve(prompt):
        """The file's own answers, except that the fourth question gets a wrong one and the fifth one without number."""
        question = prompt.rsplit("Question: ", 1)[1].removesuffix("\nAnswer:")
        number = next(i for i, problem in enumerate(PROBLEMS) if problem["question"] == question)
        return {3: " It is 123456789.", 4: " I do not know."}.get(number, " " + PROBLEMS[number]["answer"])

    def test_the_published_lines_and_the_score(self):
        def answer(path, body):
            text = self.solve(body["text"])
            return [(5, event({"text": text[:4], "meta_info": {"completion_tokens": 1}})),
                    (10, event({"text": text, "meta_info": {"completion_tokens": 7,
                                                            "finish_reason": {"type": "stop", "matched": "Question"}}})),
                    (10, DONE)]

        out = program.temporary_directory(self) / "answers.jsonl"
        with FakeServer(answer) as server:
            done = self.evaluate(server, "--num-questions", 10, "--parallel", 3, "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^Accuracy: 0\.800\nInvalid: 0\.100\nLatency: \d+\.\d{3} s\n"
                                      r"Output throughput: \d+\.\d{3} token/s\n8 of 10 right\n$")
        self.assertIn("decode steps: not told by the server", done.stderr)
        self.assertEqual(server.most_running, 3)
        self.assertEqual([line["right"] for line in program.json_lines(out.read_text())],
                         [True] * 3 + [False] * 2 + [True] * 5)
        body = server.posts("/generate")[0]
        self.assertEqual(body["sampling_params"]["stop"], ["Question", "Assistant:", "<|separator|>"])
        self.assertEqual(body["sampling_params"]["max_new_tokens"], 512)
        self.assertFalse(body["sampling_params"]["ignore_eos"])
        self.assertEqual(body["text"].count("Question: "), 6)

    def test_the_openai_interface_gives_the_same_score(self):
        def answer(path, body):
            text = self.solve(body["prompt"])
            return [(1, event({"choices": [{"index": 0, "text": text, "finish_reason": "stop"}]})),
                    (1, event({"choices": [], "usage": {"completion_tokens": 7, "prompt_tokens": 9}})), (1, DONE)]

        with FakeServer(answer) as server:
            done = self.evaluate(server, "--num-questions", 10, "--backend", "sglang-oai", "--json")
        result = json.loads(done.stdout)
        self.assertEqual((result["right"], result["output_tokens"], result["model"]), (8, 70, "fake"))

    def test_failed_answers_are_no_score(self):
        with FakeServer(lambda path, body: (500, b"broken")) as server:
            done = self.evaluate(server, "--num-questions", 2)
        self.assertEqual(done.returncode, 3)
        self.assertIn("2 of 2 questions failed; the first one: HTTP status 500: broken", done.stderr)

    def test_options_without_effect_are_refused(self):
        for arguments, name in ((("-m", program.MINI), "--model"), (("--mode", "eager"), "--mode"),
                                (("--compare-modes",), "--compare-modes")):
            done = program.run("eval", "gsm8k", "--base-url", "http://127.0.0.1:1", "--data", DATA, *arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"{name} has no effect with --base-url", done.stderr)
        for arguments, message in ((("--backend", "vllm"), "--backend has no effect without --base-url"),
                                   (("--quantized", "x"), "no modes are compared"),
                                   (("--compare-modes", "--mode", "full"), "--mode has no effect")):
            done = program.run("eval", "gsm8k", "-m", program.MINI, "--data", DATA, *arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn(message, done.stderr)


class AgainstReprise(unittest.TestCase):
    """The clients and the server of this project, with each other."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server(program.MINI)
        cls.url = f"http://127.0.0.1:{cls.server.port}"

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def test_bench_serve_over_every_interface(self):
        out = program.temporary_directory(self) / "results.jsonl"
        gaps = 0
        for backend, dataset in (("sglang", "random-ids"), ("sglang-oai", "random-ids"), ("vllm", "random"),
                                 ("sglang-oai-chat", "random")):
            done = program.run_well("bench", "serve", "--base-url", self.url, "--backend", backend, "--dataset-name",
                                    dataset, "--tokenizer", program.MINI, "--num-prompts", 6, "--input-len", 24,
                                    "--output-len", 7, "--random-range-ratio", 1, "--max-concurrency", 3,
                                    "--flush-cache", "--output-file", out, "--output-details")
            result = program.json_lines(out.read_text())[-1]
            self.assertEqual((result["completed"], result["failed"]), (6, 0), done.stderr)
            self.assertEqual(result["total_output_tokens"], 42)
            if backend != "sglang-oai-chat":  # whose template adds tokens
                self.assertEqual(result["total_input_tokens"], 144)
                # Six gaps of seven tokens, less those within one event, which may be all of a fast model's.
                self.assertLessEqual(sum(map(len, result["itls"])), 36)
                gaps += sum(map(len, result["itls"]))
            self.assertEqual(result["requests_without_usage"], 0)
            self.assertEqual(result["requests_with_estimated_itl"], 0)
            steps = re.search(r"Decode steps by mode: +full: (\d+) of (\d+) replayed", done.stdout)
            self.assertIsNotNone(steps, done.stdout)
            self.assertGreaterEqual(int(steps.group(1)), 6)
            self.assertIn("emptied before", done.stdout)
        self.assertGreater(gaps, 0)

    def test_one_batch_server(self):
        out = program.temporary_directory(self) / "result.jsonl"
        done = program.run_well("bench", "one-batch-server", "--model", "None", "--base-url", self.url, "--batch-size",
                                1, 4, "--input-len", 32, "--output-len", 8, "--result-filename", out)
        self.assertEqual(len(program.json_lines(out.read_text())), 2)
        self.assertRegex(done.stdout, r"decode steps: full: (7 of 7|\d+ of \d+) replayed")

    def test_the_last_throughput_is_that_of_the_run(self):
        # The server's own number is a mean over seconds in which it may have been idle.
        time.sleep(0.5)
        for case in (("--output-len", 64), ("--output-len", 1)):
            out = program.temporary_directory(self) / "result.jsonl"
            done = program.run_well("bench", "one-batch-server", "--model", "None", "--base-url", self.url,
                                    "--skip-warmup", "--batch-size", 4, "--input-len", 32, *case, "--result-filename",
                                    out)
            result = program.json_lines(out.read_text())[0]
            if case[1] == 1:
                self.assertIsNone(result["last_gen_throughput"])
                self.assertIn("last generation throughput: not known\n", done.stdout)
            else:
                # 252 tokens in less than the whole answer took.
                self.assertGreater(result["last_gen_throughput"], 252 / result["latency"])
                self.assertLess(result["last_gen_throughput"], 1e6)

    def test_gsm8k_gives_the_score_of_the_model_here(self):
        arguments = ["eval", "gsm8k", "--data", DATA, "--num-questions", 12, "--json"]
        here = json.loads(program.run_well(*arguments, "-m", program.MINI).stdout)
        for backend in ("sglang", "sglang-oai"):
            there = json.loads(program.run_well(*arguments, "--base-url", self.url, "--backend", backend).stdout)
            self.assertEqual((there["right"], there["output_tokens"]), (here["right"], here["output_tokens"]))
            self.assertIn("replayed", there["decode_steps"])


class CompareModes(unittest.TestCase):
    def test_every_mode_has_a_line_with_its_interval(self):
        quantized = program.temporary_directory(self) / "w8a8"
        program.run_well("quantize", "-m", program.MINI, "-o", quantized)
        done = program.run_well("eval", "gsm8k", "-m", program.MINI, "--data", DATA, "--num-questions", 12,
                                "--compare-modes", "--quantized", quantized)
        for name in ("eager", "full", "piecewise"):
            self.assertRegex(done.stdout, rf"\n{name} +100\.0% +75\.8 to 100\.0% +12 of 12 +0 +12 +[\d.]+ +[\d.]+\n")
        self.assertRegex(done.stdout, r"\nW8A8 dynamic, full +\d+\.\d% +[\d.]+ to [\d.]+% +\d+ of 12 ")
        self.assertRegex(done.stdout, r"\neager: decode steps 0 replayed, \d+ eager")
        self.assertRegex(done.stdout, r"\nfull: decode steps [1-9]\d* replayed, 0 eager")
        refused = program.run("eval", "gsm8k", "-m", program.MINI, "--data", DATA, "--num-questions", 12,
                              "--compare-modes", "--quantized", program.MINI)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("whose weights are not quantised", refused.stderr)


if __name__ == "__main__":
    unittest.main()
