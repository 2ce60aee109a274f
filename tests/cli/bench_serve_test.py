"""reprise bench serve against servers whose times are known. Where a time is checked, it is compared with when the
server really sent its events, because the machine may have other work."""
import json
import re
import signal
import statistics
import subprocess
import time
import unittest
import xml.etree.ElementTree

import program
from fake_server import DONE, FakeServer, event, generate_events

# What is allowed between an event's way out of one process and into the other one's books.
SLACK = 60
IDS = ("--dataset-name", "random-ids", "--vocab-size", 1000, "--random-range-ratio", 1, "--input-len", 16)
SEEDS_LINES = """\
============ Serving Benchmark Result ============
Backend:                                 sglang
Traffic request rate:                    inf
Max request concurrency:                 not set
Successful requests:                     #
Benchmark duration (s):                  #
Total input tokens:                      #
Total generated tokens:                  #
Total generated tokens (retokenized):    #
Request throughput (req/s):              #
Input token throughput (tok/s):          #
Output token throughput (tok/s):         #
Total token throughput (tok/s):          #
Concurrency:                             #
----------------End-to-End Latency----------------
Mean E2E Latency (ms):                   #
Median E2E Latency (ms):                 #
---------------Time to First Token----------------
Mean TTFT (ms):                          #
Median TTFT (ms):                        #
P99 TTFT (ms):                           #
---------------Inter-Token Latency----------------
Mean ITL (ms):                           #
Median ITL (ms):                         #
P95 ITL (ms):                            #
P99 ITL (ms):                            #
Max ITL (ms):                            #
==================================================
"""


class BenchServe(unittest.TestCase):
    def bench(self, server, *arguments, dataset=IDS, output_len=10, warmups=0):
        """Gives the report's text and its JSON object with all details."""
        out = program.temporary_directory(self) / "results.jsonl"
        done = program.run_well("bench", "serve", "--base-url", server.url, *dataset, "--output-len", output_len,
                                "--warmup-requests", warmups, "--output-file", out, "--output-details", *arguments)
        lines = program.json_lines(out.read_text())
        self.assertEqual(len(lines), 1)
        return done.stdout, lines[0]

    def number(self, text, label):
        return float(re.search(rf"^{re.escape(label)} +([\d.]+)", text, re.M).group(1))

    def test_b84_first_token_is_no_gap_and_failures_are_apart(self):
        gaps = [500] + [20] * 9
        asked = []

        def answer(path, body):
            asked.append(body)
            if len(asked) == 3:
                return 500, b'{"error": {"message": "out of luck"}}'
            if len(asked) == 4:
                return generate_events([100])
            return generate_events(gaps)

        with FakeServer(answer) as server:
            text, result = self.bench(server, "--num-prompts", 6)
        self.assertEqual((result["completed"], result["failed"]), (5, 1))
        self.assertEqual([error != "" for error in result["errors"]].count(True), 1)
        self.assertIn("HTTP status 500: out of luck", "".join(result["errors"]))
        self.assertRegex(text, r"Successful requests: +5\n")
        self.assertRegex(text, r"Failed requests: +1\n")
        whole = [i for i, length in enumerate(result["output_lens"]) if length == 10]
        self.assertEqual(len(whole), 4)
        single = result["output_lens"].index(1)
        self.assertEqual(result["itls"][single], [])
        sent = [times for times in server.sent if len(times) == 11]
        for index in whole:
            self.assertEqual(len(result["itls"][index]), 9)
            self.assertGreaterEqual(1e3 * result["ttfts"][index], 499)
            self.assertGreaterEqual(1e3 * result["latencies"][index], 679)
        self.assertLess(1e3 * result["ttfts"][whole[0]], max(times[0] for times in sent) + SLACK)
        self.assertLess(1e3 * result["latencies"][whole[0]], max(times[9] for times in sent) + SLACK)
        self.assertAlmostEqual(statistics.median(result["itls"][whole[0]]), 0.020, delta=0.008)
        self.assertAlmostEqual(result["median_tpot_ms"], 20, delta=8)
        self.assertEqual(result["total_output_tokens"], 41)
        self.assertEqual(self.number(text, "Total generated tokens:"), 41)

    def test_b84_answers_that_break_off_are_failures(self):
        def choice(text, finish=None):
            return event({"choices": [{"index": 0, "text": text, "finish_reason": finish}]})

        for backend, parts, message in (
                ("sglang", generate_events([5, 5, 5])[:2], "the stream broke off"),
                ("sglang-oai", [(5, choice("a")), (10, choice("b"))], "the stream broke off"),
                ("sglang-oai", [(5, choice("a")), (10, choice("", "abort")), (10, DONE)], "the server ended the request")):
            with self.subTest(backend=backend, message=message):
                broken = []

                def answer(path, body):
                    broken.append(path)
                    return parts if len(broken) == 1 else parts[:1] + [(10, choice("b", "length")), (10, DONE)]

                def whole(path, body):
                    broken.append(path)
                    return parts if len(broken) == 1 else generate_events([5, 5, 5])

                with FakeServer(whole if backend == "sglang" else answer) as server:
                    text, result = self.bench(server, "--num-prompts", 2, "--backend", backend)
                self.assertEqual((result["completed"], result["failed"]), (1, 1))
                self.assertIn(message, "".join(result["errors"]))

    def test_the_lines_are_those_of_the_published_report(self):
        with FakeServer(lambda path, body: generate_events([5, 5, 5])) as server:
            text, result = self.bench(server, "--num-prompts", 2, output_len=3)
        lines = re.sub(r"(?m)(: +)(?:\d+(?:\.\d\d)?|not known.*)$", r"\1#", text[:text.index("Failed requests")])
        self.assertEqual(lines, "\n" + SEEDS_LINES)
        for key in ("backend", "dataset_name", "request_rate", "max_concurrency", "random_input_len",
                    "random_output_len", "random_range_ratio", "duration", "completed", "total_input_tokens",
                    "total_output_tokens", "total_output_tokens_retokenized", "request_throughput", "input_throughput",
                    "output_throughput", "mean_e2e_latency_ms", "median_e2e_latency_ms", "std_e2e_latency_ms",
                    "p99_e2e_latency_ms", "mean_ttft_ms", "median_ttft_ms", "std_ttft_ms", "p99_ttft_ms",
                    "mean_tpot_ms", "median_tpot_ms", "std_tpot_ms", "p99_tpot_ms", "mean_itl_ms", "median_itl_ms",
                    "std_itl_ms", "p95_itl_ms", "p99_itl_ms", "concurrency", "accept_length", "input_lens",
                    "output_lens", "ttfts", "itls", "generated_texts", "errors"):
            self.assertIn(key, result)
        # A request's own fields: those that the benchmark is known for.
        body = server.posts("/generate")[-1]
        self.assertEqual(body["sampling_params"], {"temperature": 0.0, "max_new_tokens": 3, "ignore_eos": True})
        self.assertEqual(len(body["input_ids"]), 16)
        self.assertLess(max(body["input_ids"]), 1000)

    def test_b85_events_are_not_tokens(self):
        """A role alone, comments, empty deltas, four tokens an event, text held back and set free at the end, and the
        usage in an event of its own."""
        def chunk(text=None, role=None, finish=None, tokens=0, choices=True):
            delta = {} if text is None else {"content": text}
            if role:
                delta["role"] = role
            usage = {"prompt_tokens": 7, "completion_tokens": tokens, "prompt_tokens_details": {"cached_tokens": 0}}
            return event({"object": "chat.completion.chunk", "usage": usage,
                          "choices": [{"index": 0, "delta": delta, "finish_reason": finish}] if choices else []})

        def answer(path, body):
            parts = [(10, chunk("", role="assistant")), (40, b": keep-alive\n\n"), (60, chunk("")),
                     (200, chunk("abcd", tokens=4)), (230, b": keep-alive\n\n")]
            for number in range(2, 6):
                # Cut in the middle: a part of a chunk is no event.
                whole = chunk("abcd", tokens=4 * number)
                at = 200 + 80 * (number - 1)
                parts += [(at - 30, whole[:25]), (at, whole[25:])]
            # Two tokens that could have begun a stop string come with the end.
            parts += [(600, chunk("yz", finish="length", tokens=22)), (650, chunk(tokens=22, choices=False)),
                      (650, DONE)]
            return parts

        with FakeServer(answer) as server:
            text, result = self.bench(server, "--backend", "sglang-oai-chat", "--num-prompts", 2, "--dataset-name",
                                      "jsonl", "--dataset-path", self.prompts("Hello", "World"), dataset=())
        self.assertEqual(result["output_lens"], [22, 22])
        self.assertEqual(result["input_lens"], [7, 7])
        self.assertEqual(result["generated_texts"], ["abcd" * 5 + "yz"] * 2)
        for ttft, itls, latency in zip(result["ttfts"], result["itls"], result["latencies"]):
            self.assertGreaterEqual(1e3 * ttft, 199)
            self.assertLess(1e3 * ttft, max(times[3] for times in server.sent) + SLACK)
            # Four tokens came with the first content; the others have a gap each, a fourth of their event's.
            self.assertEqual(len(itls), 18)
            self.assertAlmostEqual(statistics.median(itls), 0.020, delta=0.008)
            self.assertAlmostEqual(sum(itls), latency - ttft, places=6)
            self.assertLess(1e3 * latency, 650 + SLACK)
        self.assertEqual(result["requests_with_estimated_itl"], 0)
        self.assertNotIn("deals them out", text)
        body = server.posts("/v1/chat/completions")[-1]
        asked = sorted(body["messages"][0]["content"] for body in server.posts("/v1/chat/completions"))
        self.assertEqual(asked, ["Hello", "World"])
        self.assertEqual(body["stream_options"], {"include_usage": True, "continuous_usage_stats": True})
        self.assertEqual(body["model"], "fake")

    def test_b85_usage_at_the_end_only_is_dealt_out_and_said(self):
        def answer(path, body):
            if "continuous_usage_stats" in body["stream_options"]:
                return 400, b'{"error": {"message": "unknown field continuous_usage_stats"}}'
            parts = [(50 + 40 * i, event({"choices": [{"index": 0, "text": "abcd", "finish_reason": None}]}))
                     for i in range(5)]
            return parts + [(210, event({"choices": [{"index": 0, "text": "", "finish_reason": "length"}]})),
                            (210, event({"choices": [], "usage": {"prompt_tokens": 16, "completion_tokens": 20}})),
                            (210, DONE)]

        with FakeServer(answer) as server:
            text, result = self.bench(server, "--backend", "vllm", "--num-prompts", 2, warmups=1)
        self.assertEqual(result["output_lens"], [20, 20])
        self.assertEqual([len(itls) for itls in result["itls"]], [16, 16])
        self.assertAlmostEqual(statistics.median(result["itls"][0]), 0.010, delta=0.006)
        self.assertEqual(result["requests_with_estimated_itl"], 2)
        self.assertIn("ITL deals them out evenly", text)
        self.assertRegex(text, r"Cache hit tokens: +not told by the server")
        self.assertRegex(text, r"Decode steps by mode: +not told by the server")

    def test_b87_a_warm_cache_is_said_and_can_be_emptied(self):
        cache = set()

        def answer(path, body):
            if path == "/flush_cache":
                cache.clear()
                return 200, b"Cache flushed.\n"
            key = tuple(body["input_ids"])
            hit = len(key) - 1 if key in cache else 0
            cache.add(key)
            return generate_events([2, 2], prompt_tokens=len(key), cached_tokens=hit)

        with FakeServer(answer) as server:
            first, cold = self.bench(server, "--num-prompts", 4, warmups=1)
            # The warm-up leaves none of the prompts in the cache.
            self.assertEqual(cold["cached_tokens"], 0)
            self.assertRegex(first, r"Cache hit tokens: +0 of 64 input tokens \(0\.0 %\); not emptied before")
            self.assertNotIn("Flagged", first)
            second, warm = self.bench(server, "--num-prompts", 4)
            self.assertEqual((warm["cached_tokens"], warm["cache_flagged"]), (60, True))
            self.assertRegex(second, r"Cache hit tokens: +60 of 64 input tokens \(93\.8 %\)")
            self.assertIn("Flagged: the server had 93.8 % of the prompts in its cache", second)
            third, flushed = self.bench(server, "--num-prompts", 4, "--flush-cache")
            self.assertEqual((flushed["cached_tokens"], flushed["cache_flagged"]), (0, False))
            self.assertIn("emptied before", third)
            other, _ = self.bench(server, "--num-prompts", 4, "--seed", 2)
            self.assertNotIn("Flagged", other)

    def test_b87_why_a_file_of_prompts_meets_a_warm_cache(self):
        """Texts that are fewer than the requests repeat, whatever --seed and --flush-cache say; the warm-up is none of
        them."""
        cache = set()

        def answer(path, body):
            if path == "/flush_cache":
                cache.clear()
                return 200, b"Cache flushed.\n"
            hit = 15 if body["text"] in cache else 0
            cache.add(body["text"])
            return generate_events([2, 2], prompt_tokens=16, cached_tokens=hit)

        path = program.temporary_directory(self) / "prompts.jsonl"
        path.write_text("".join(json.dumps({"prompt": f"text {i}"}) + "\n" for i in range(4)))
        dataset = ("--dataset-name", "jsonl", "--dataset-path", path, "--max-concurrency", 1)
        with FakeServer(answer) as server:
            first, cold = self.bench(server, "--num-prompts", 4, dataset=dataset, warmups=1)
            self.assertEqual(cold["cached_tokens"], 0)
            again, _ = self.bench(server, "--num-prompts", 4, dataset=dataset)
            self.assertRegex(again, "Flagged: .* a second run with the same file.* give --flush-cache\\.\n")
            twice, _ = self.bench(server, "--num-prompts", 8, "--flush-cache", dataset=dataset)
            self.assertRegex(twice, "Flagged: .* the file has 4 texts for 8 requests.* fewer --num-prompts\\.\n")
            for text in (again, twice):
                self.assertNotIn("--seed", text)

    def test_latency_counts_from_the_scheduled_arrival(self):
        """One place for requests that come faster than they are served: the time without a place is theirs."""
        with FakeServer(lambda path, body: generate_events([60, 40])) as server:
            text, result = self.bench(server, "--num-prompts", 4, "--request-rate", 1000, "--max-concurrency", 1)
            _, closed = self.bench(server, "--num-prompts", 4, "--max-concurrency", 1)
            _, again = self.bench(server, "--num-prompts", 4, "--request-rate", 1000)
        self.assertEqual(server.most_running, 4)
        self.assertEqual(result["dues"][0], 0)
        self.assertEqual(result["dues"], sorted(result["dues"]))
        self.assertEqual(result["dues"], again["dues"])
        for index, (latency, ttft) in enumerate(zip(result["latencies"], result["ttfts"])):
            self.assertGreaterEqual(latency + result["dues"][index], 0.100 * (index + 1) - 0.001)
            self.assertGreaterEqual(ttft + result["dues"][index], 0.100 * index + 0.059)
        self.assertIn("count from a request's scheduled arrival", text)
        # Without a rate there is no time at which a request should have come: it is due when it has a place.
        self.assertLess(statistics.median(closed["latencies"]), 0.100 + SLACK / 1e3)
        self.assertEqual(closed["dues"], closed["sents"])

    def test_decode_steps_by_mode_before_and_after(self):
        served = []

        def answer(path, body):
            served.append(path)
            return generate_events([1, 1])

        def metrics():
            return ("# HELP reprise_decode_steps_total steps\n# TYPE reprise_decode_steps_total counter\n"
                    f'reprise_decode_steps_total{{mode="full",reason="replayed"}} {100 + 9 * len(served)}\n'
                    f'reprise_decode_steps_total{{mode="full",reason="above_largest_bucket"}} {len(served)} 17\n'
                    'reprise_decode_steps_total{mode="full",reason="prefill"} 5\nother_metric 1\n'
                    f'reprise_decode_tokens_total{{model="m"}} {1000 + 320 * len(served)}\n'
                    f'reprise_decode_step_seconds_total{{model="m"}} {7 + 0.16 * len(served)}\n'
                    f'reprise_decode_wall_seconds_total{{model="m"}} {9 + 0.2 * len(served)}\n')

        with FakeServer(answer, {"/metrics": metrics}) as server:
            text, result = self.bench(server, "--num-prompts", 10, output_len=2, warmups=1)
        self.assertIn("full: 90 of 100 replayed (90.0 %), 10 above_largest_bucket\n", text)
        self.assertEqual(result["decode_steps_before"]["full"], {"replayed": 109, "above_largest_bucket": 1,
                                                                 "prefill": 5})
        self.assertEqual(result["decode_steps_after"]["full"]["replayed"], 199)
        self.assertIn("1600.00 while decoding, 2000.00 in decode steps alone", text)
        self.assertIn("32.00 in 16.000 ms, 4.000 ms between steps", text)
        self.assertEqual(result["decode_tokens"], 3200)

    def test_random_texts_have_exactly_so_many_tokens(self):
        with FakeServer(lambda path, body: generate_events([1])) as server:
            text, result = self.bench(server, "--tokenizer", program.MINI, "--num-prompts", 3, "--input-len", 24,
                                      "--random-range-ratio", 0.5, output_len=1, dataset=())
        prompts = [body["text"] for body in server.posts("/generate")]
        for prompt in prompts:
            done = program.run_well("tokenize", "-m", program.MINI, stdin=json.dumps({"text": prompt}))
            self.assertIn(len(json.loads(done.stdout)["ids"]), range(12, 25))
        self.assertEqual(len(set(prompts)), 3)
        self.assertIsNotNone(result["total_output_tokens_retokenized"])

    def test_the_plot_is_a_picture(self):
        out = program.temporary_directory(self) / "plot.svg"
        with FakeServer(lambda path, body: generate_events([5, 5, 5])) as server:
            self.bench(server, "--num-prompts", 5, "--plot", out)
        root = xml.etree.ElementTree.parse(out).getroot()
        kinds = [shape.get("class") for shape in root.iter("{http://www.w3.org/2000/svg}rect")]
        self.assertEqual((kinds.count("waiting"), kinds.count("receiving")), (5, 5))
        self.assertEqual(len(root.findall("{http://www.w3.org/2000/svg}polyline")), 6)

    def test_an_interrupt_ends_the_run_with_what_there_is(self):
        def answer(path, body):
            return generate_events([10, 10] if len(server.requests) < 3 else [10, 60000])

        with FakeServer(answer) as server:
            process = subprocess.Popen([program.PROGRAM, "bench", "serve", "--base-url", server.url,
                                        *map(str, IDS), "--num-prompts", "8", "--max-concurrency", "2",
                                        "--warmup-requests", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       text=True)
            deadline = time.monotonic() + 30
            while len(server.requests) < 4 and time.monotonic() < deadline:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130, errors)
        self.assertRegex(output, r"Successful requests: +2\n")
        self.assertRegex(output, r"Failed requests: +6\n")

    def test_what_is_wrong_is_named(self):
        def serve(*arguments):
            return program.run("bench", "serve", *IDS, "--num-prompts", 1, *arguments)

        refused = serve("--base-url", "https://127.0.0.1")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("plain HTTP only", refused.stderr)
        self.assertEqual(serve("--base-url", "http://127.0.0.1:99999").returncode, 2)
        nobody = serve("--base-url", "http://127.0.0.1:1")
        self.assertEqual(nobody.returncode, 3)
        self.assertIn("127.0.0.1:1", nobody.stderr)
        with FakeServer(lambda path, body: (503, b'{"error": {"message": "The request queue is full."}}')) as server:
            full = serve("--base-url", server.url)
            self.assertEqual(full.returncode, 3)
            self.assertIn("Warmup failed", full.stderr)
            self.assertIn("The request queue is full.", full.stderr)
            flush = serve("--base-url", server.url, "--warmup-requests", 0, "--flush-cache")
            self.assertIn("did not empty its cache (HTTP status 503)", flush.stderr)
            chat = serve("--base-url", server.url, "--backend", "sglang-oai-chat", "--warmup-requests", 0)
            self.assertEqual(chat.returncode, 2)
            self.assertIn("a chat takes texts", chat.stderr)
        for answer, message in (([(1, event(b"{nonsense"))], "no JSON object"),
                                ([(1, event({"error": {"message": "worn out"}}))], "worn out"),
                                ([(1, DONE)], "without any content")):
            with FakeServer(lambda path, body, parts=answer: parts) as server:
                done = serve("--base-url", server.url, "--warmup-requests", 0)
            self.assertEqual(done.returncode, 3)
            self.assertIn(message, done.stderr)

    def test_a_file_of_results_that_cannot_be_written_costs_no_run(self):
        path = program.temporary_directory(self) / "missing" / "runs.jsonl"
        done = program.run("bench", "serve", "--base-url", "http://127.0.0.1:1", "--dataset-name", "random-ids",
                           "--vocab-size", 100, "--output-file", path)
        self.assertEqual((done.returncode, done.stderr), (3, f"error: cannot write {path}\n"))

    def prompts(self, *texts):
        path = program.temporary_directory(self) / "prompts.jsonl"
        path.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in texts))
        return path


if __name__ == "__main__":
    unittest.main()
