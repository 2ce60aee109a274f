#!/usr/bin/env python3
"""reprise serve through real sockets: its answers, its clients, and how it starts and ends."""
import concurrent.futures
import json
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
import unittest

import two_servers
from program import CHECKPOINTS, MINI, run
from server import Server
from two_servers import QUESTION, TOOLS, chat, completion, counts_of, text_of


def setUpModule():
    global servers, mini, scripted
    servers = two_servers.TwoServers()
    mini, scripted = servers.mini, servers.scripted


def tearDownModule():
    servers.stop()


def metric_faults(page):
    """What is wrong with a page for Prometheus: forms, missing heads, names against their types, histograms that fall."""
    faults, types, helps, seen, buckets = [], {}, set(), set(), {}
    sample = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)$')
    for line in page.splitlines():
        if line.startswith("# "):
            _, kind, name, rest = line.split(" ", 3)
            if name in (helps if kind == "HELP" else types):
                faults.append(f"{kind} of {name} twice")
            helps.add(name) if kind == "HELP" else types.__setitem__(name, rest)
            continue
        match = sample.match(line)
        try:
            value = float(match.group(3))
        except (AttributeError, ValueError):
            faults.append(f"no sample: {line}")
            continue
        family = match.group(1) if match.group(1) in types else re.sub(r"_(bucket|sum|count)$", "", match.group(1))
        if family not in types or family not in helps:
            faults.append(f"{match.group(1)} has no type or help")
        if (types.get(family) == "counter") != match.group(1).endswith("_total"):
            faults.append(f"{match.group(1)}: only counters end with _total")
        if match.group(1, 2) in seen:
            faults.append(f"twice: {line}")
        seen.add(match.group(1, 2))
        if match.group(1).endswith("_bucket"):
            series = (family, re.sub(r',?le="[^"]*"', "", match.group(2)))
            if value < buckets.get(series, 0):
                faults.append(f"falls: {line}")
            buckets[series] = value
    return faults


class Answers(unittest.TestCase):
    def begin(self, path, body):
        client = mini.begin(path, body)
        self.addCleanup(client.close)
        return client

    def test_completion_equals_generate(self):
        expected = run("generate", "-m", MINI, "-p", QUESTION, "-n", "24", "--json", "--quiet").stdout
        expected = json.loads(expected)
        status, answer = mini.post("/v1/completions", completion())
        self.assertEqual(status, 200)
        choice = answer["choices"][0]
        self.assertEqual(choice["text"], expected["text"])
        self.assertEqual(choice["finish_reason"], expected["finish_reason"])
        self.assertEqual(answer["usage"]["completion_tokens"], len(expected["ids"]))
        self.assertEqual(answer["usage"]["prompt_tokens"], expected["prompt_tokens"])
        status, native = mini.post("/generate", {"text": QUESTION,
                                                 "sampling_params": {"max_new_tokens": 24, "temperature": 0}})
        self.assertEqual(native["text"], expected["text"])
        self.assertEqual(native["output_ids"], expected["ids"])
        self.assertEqual(native["meta_info"]["completion_tokens"], len(expected["ids"]))

    def test_streams_say_what_whole_answers_say(self):
        for path, body in (("/v1/completions", completion()), ("/v1/completions", completion(echo=True, n=2, seed=5,
                                                                                             temperature=1.0))):
            _, whole = mini.post(path, body)
            events = mini.stream(path, {**body, "stream": True, "stream_options": {"include_usage": True}})
            for choice in whole["choices"]:
                pieces = [c for e in events for c in e["choices"] if c["index"] == choice["index"]]
                self.assertEqual("".join(piece["text"] for piece in pieces), choice["text"])
                self.assertEqual(pieces[-1]["finish_reason"], choice["finish_reason"])
                self.assertTrue(all(piece["finish_reason"] is None for piece in pieces[:-1]))
            self.assertEqual(events[-1]["choices"], [])
            self.assertEqual(counts_of(events[-1]), counts_of(whole))

    def test_several_prompts_are_answered_in_order(self):
        _, both = mini.post("/v1/completions", completion(prompt=[QUESTION, "Question: 2 + 2"]))
        _, one = mini.post("/v1/completions", completion(prompt="Question: 2 + 2"))
        self.assertEqual(both["choices"][1]["text"], one["choices"][0]["text"])
        self.assertEqual([choice["index"] for choice in both["choices"]], [0, 1])
        ids = mini.post("/tokenize", {"prompt": QUESTION})[1]["tokens"]
        _, by_ids = mini.post("/v1/completions", completion(prompt=ids))
        self.assertEqual(by_ids["choices"][0]["text"], both["choices"][0]["text"])

    def test_seeds_choose_and_differ_between_the_choices_of_a_request(self):
        body = completion(temperature=1.5, seed=11, n=3)
        _, first = mini.post("/v1/completions", body)
        _, second = mini.post("/v1/completions", body)
        texts = [choice["text"] for choice in first["choices"]]
        self.assertEqual(texts, [choice["text"] for choice in second["choices"]])
        self.assertEqual(len(set(texts)), 3)
        _, alone = mini.post("/v1/completions", completion(temperature=1.5, seed=12))
        self.assertEqual(alone["choices"][0]["text"], texts[1])

    def test_chats_are_answered(self):
        status, answer = mini.post("/v1/chat/completions", chat())
        self.assertEqual(status, 200)
        self.assertEqual(answer["object"], "chat.completion")
        message = answer["choices"][0]["message"]
        self.assertEqual(message["role"], "assistant")
        self.assertNotIn("tool_calls", message)
        events = mini.stream("/v1/chat/completions", chat(stream=True))
        self.assertEqual(events[0]["choices"][0]["delta"], {"role": "assistant", "content": ""})
        deltas = [event["choices"][0]["delta"] for event in events]
        self.assertEqual("".join(delta.get("content", "") for delta in deltas), message["content"])
        self.assertEqual(events[-1]["choices"][0]["delta"], {})

    def test_without_a_limit_a_chat_ends_by_itself(self):
        body = chat()
        del body["max_tokens"]
        _, answer = mini.post("/v1/chat/completions", body)
        self.assertIn(answer["choices"][0]["finish_reason"], ("stop", "length"))

    def test_reasoning_and_tool_calls_come_in_their_fields(self):
        body = chat(tools=TOOLS, max_tokens=100)
        _, answer = scripted.post("/v1/chat/completions", body)
        choice = answer["choices"][0]
        self.assertEqual(choice["finish_reason"], "tool_calls")
        self.assertEqual(choice["message"]["reasoning_content"], "hm, the weather")
        self.assertEqual(choice["message"]["content"], "I ask for it.")
        call = choice["message"]["tool_calls"][0]
        self.assertEqual(call["type"], "function")
        self.assertEqual(call["function"]["name"], "get_weather")
        self.assertEqual(json.loads(call["function"]["arguments"]), {"city": "K\u00f6ln"})
        events = scripted.stream("/v1/chat/completions", {**body, "stream": True})
        deltas = [event["choices"][0]["delta"] for event in events]
        self.assertEqual("".join(delta.get("reasoning_content", "") for delta in deltas), "hm, the weather")
        self.assertEqual("".join(delta.get("content", "") for delta in deltas), "I ask for it.")
        calls = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
        self.assertEqual([call["function"] for call in calls], [call["function"]])
        self.assertEqual(events[-1]["choices"][0]["finish_reason"], "tool_calls")
        # The model was not told of tools: what it writes is its answer.
        _, plain = scripted.post("/v1/chat/completions", chat(max_tokens=100, separate_reasoning=False))
        self.assertIn("<tool_call>", plain["choices"][0]["message"]["content"])
        self.assertIn("<think>", plain["choices"][0]["message"]["content"])
        self.assertEqual(plain["choices"][0]["finish_reason"], "stop")

    def test_template_arguments_reach_the_template(self):
        _, thinking = scripted.post("/v1/chat/completions", chat(max_tokens=1))
        _, silent = scripted.post("/v1/chat/completions", chat(max_tokens=1, enable_thinking=False))
        _, same = scripted.post("/v1/chat/completions",
                                chat(max_tokens=1, chat_template_kwargs={"enable_thinking": False}))
        self.assertGreater(silent["usage"]["prompt_tokens"], thinking["usage"]["prompt_tokens"])
        self.assertEqual(silent["usage"]["prompt_tokens"], same["usage"]["prompt_tokens"])

    def test_control_tokens_in_messages_stay_text(self):
        _, text = scripted.post("/v1/chat/completions", chat(
            max_tokens=1, messages=[{"role": "user", "content": "<|im_end|>"}]))
        _, short = scripted.post("/v1/chat/completions", chat(max_tokens=1, messages=[{"role": "user", "content": ""}]))
        self.assertEqual(text["usage"]["prompt_tokens"] - short["usage"]["prompt_tokens"], len("<|im_end|>"))

    def test_native_interface(self):
        parameters = {"max_new_tokens": 6, "temperature": 0}
        status, batch = mini.post("/generate", {"text": [QUESTION, "Question: 2"], "rid": "job",
                                                "sampling_params": parameters})
        self.assertEqual([item["meta_info"]["id"] for item in batch], ["job_0", "job_1"])
        self.assertEqual(batch[0]["meta_info"]["finish_reason"], {"type": "length", "length": 6})
        _, several = mini.post("/generate", {"text": QUESTION, "sampling_params": {**parameters, "n": 2}})
        self.assertEqual([item["output_ids"] for item in several], [batch[0]["output_ids"]] * 2)
        ids = [item["meta_info"]["id"] for item in several]
        self.assertEqual(ids, [ids[0].removesuffix("0") + "0", ids[0].removesuffix("0") + "1"])
        for stream in (False, True):
            body = {"text": ["a", "b"], "rid": "r", "stream": stream, "sampling_params": {**parameters, "n": 2}}
            answers = mini.stream("/generate", body) if stream else mini.post("/generate", body)[1]
            self.assertEqual({answer["meta_info"]["id"] for answer in answers}, {"r_0_0", "r_0_1", "r_1_0", "r_1_1"})
        _, named = mini.post("/generate", {"text": ["a", "b"], "rid": ["x", "y"],
                                           "sampling_params": [{**parameters, "n": 2}, parameters]})
        self.assertEqual([item["meta_info"]["id"] for item in named], ["x_0", "x_1", "y"])
        events = mini.stream("/generate", {"text": QUESTION, "stream": True, "sampling_params": parameters})
        self.assertEqual(events[-1]["text"], batch[0]["text"])
        self.assertEqual(events[-1]["output_ids"], batch[0]["output_ids"])
        for before, after in zip(events, events[1:]):
            self.assertTrue(after["text"].startswith(before["text"]))
        self.assertEqual([event["meta_info"]["finish_reason"] is None for event in events],
                         [True] * (len(events) - 1) + [False])
        _, scored = mini.post("/generate", {
            "text": QUESTION, "sampling_params": parameters, "return_logprob": True, "logprob_start_len": 0,
            "top_logprobs_num": 2, "return_text_in_logprobs": True})
        meta = scored["meta_info"]
        self.assertEqual(len(meta["input_token_logprobs"]), meta["prompt_tokens"])
        self.assertIsNone(meta["input_token_logprobs"][0][0])
        self.assertEqual([entry[1] for entry in meta["output_token_logprobs"]], scored["output_ids"])
        self.assertTrue(all(len(top) == 2 for top in meta["output_top_logprobs"]))
        self.assertEqual(mini.post("/generate", {"text": "a", "input_ids": [1]})[0], 400)
        self.assertEqual(mini.post("/generate", {})[0], 400)

    def test_tokens_and_texts(self):
        _, tokens = mini.post("/v1/tokenize", {"prompt": "3 pens \u00fc\U0001F642"})
        self.assertEqual(tokens["count"], len(tokens["tokens"]))
        _, text = mini.post("/v1/detokenize", {"tokens": tokens["tokens"]})
        self.assertEqual(text["text"], "3 pens \u00fc\U0001F642")
        self.assertEqual(mini.post("/tokenize", {"prompt": ["a", "b"]})[1]["count"], [1, 1])
        self.assertEqual(mini.post("/detokenize", {"tokens": [10 ** 9]})[0], 400)

    def test_models_and_server_are_described(self):
        _, _, models = mini.ask("GET", "/v1/models")
        self.assertEqual(json.loads(models)["data"][0]["id"], "mini")
        self.assertEqual(mini.ask("GET", "/v1/models/mini")[0], 200)
        status, _, answer = mini.ask("GET", "/v1/models/other")
        self.assertEqual(status, 404)
        self.assertEqual(json.loads(answer)["error"]["code"], "model_not_found")
        info = json.loads(mini.ask("GET", "/get_server_info")[2])
        self.assertIn("last_gen_throughput", info["internal_states"][0])
        self.assertEqual("reprise " + info["version"], run("--version").stdout.strip())
        self.assertEqual(json.loads(mini.ask("GET", "/get_model_info")[2])["model_path"], str(MINI))

    def test_the_prefix_cache_is_told_and_salts_divide_it(self):
        prompt = "Question: " + "Bea has 7 apples. " * 20
        cached = lambda **fields: mini.post("/v1/completions", completion(prompt=prompt, max_tokens=1, **fields))[1][
            "usage"]["prompt_tokens_details"]["cached_tokens"]
        self.assertEqual(cached(cache_salt="a"), 0)
        self.assertGreater(cached(cache_salt="a"), 64)
        self.assertEqual(cached(cache_salt="b"), 0)
        # Streams know it from their first event on.
        expected = cached(cache_salt="a")
        options = {"stream": True, "max_tokens": 4, "cache_salt": "a",
                   "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
        messages = [{"role": "user", "content": prompt}]
        for fields in ({}, {"n": 2}):
            events = mini.stream("/v1/completions", completion(prompt=prompt, **options, **fields))
            self.assertEqual({event["usage"]["prompt_tokens_details"]["cached_tokens"] for event in events}, {expected})
            mini.stream("/v1/chat/completions", chat(messages=messages, **options, **fields))
            events = mini.stream("/v1/chat/completions", chat(messages=messages, **options, **fields))
            self.assertEqual(events[0]["choices"][0]["delta"], {"role": "assistant", "content": ""})
            self.assertEqual(events[0]["usage"]["completion_tokens"], 0)
            told = {event["usage"]["prompt_tokens_details"]["cached_tokens"] for event in events}
            self.assertEqual(len(told), 1)
            self.assertGreater(told.pop(), 64)
        events = mini.stream("/generate", {"text": prompt, "stream": True, "cache_salt": "a",
                                           "sampling_params": {"max_new_tokens": 4}})
        self.assertEqual({event["meta_info"]["cached_tokens"] for event in events}, {expected})

    def test_flush_and_abort(self):
        status, _, text = mini.ask("POST", "/flush_cache")
        self.assertEqual((status, text.split(b"\n")[0]), (200, b"Cache flushed."))
        client = self.begin("/generate", {"text": QUESTION, "rid": "long-1", "stream": True, "sampling_params": {
            "max_new_tokens": 1900, "ignore_eos": True}})
        client.recv(100)
        self.assertEqual(mini.ask("GET", "/flush_cache")[0], 400)
        mini.ask("POST", "/abort_request", {"rid": "long"})  # a prefix of a request's name alone is no name
        for body in ({}, {"rid": ""}, {"abort_all": False}):
            self.assertEqual(mini.ask("POST", "/abort_request", body)[0], 400)
        self.assertEqual(mini.metric("sglang:num_running_reqs"), 1)
        other = self.begin("/generate", {"text": QUESTION, "rid": "long-12", "sampling_params": {
            "max_new_tokens": 1900, "ignore_eos": True}})
        time.sleep(0.05)
        mini.ask("POST", "/abort_request", {"rid": "long-1"})
        self.assertIn(b'"type":"abort"', other.recv(1 << 20))
        rest = b""
        while not rest.endswith(b"0\r\n\r\n"):
            rest += client.recv(1 << 20)
        self.assertIn(b'"type":"abort"', rest)
        # Several outputs by the name of all or by that of one; what an output is called ends with its number.
        for name, ended in (("many", 4), ("many_1", 2), ("many_0_1", 1)):
            client = self.begin("/generate", {"text": ["a", "b"], "rid": "many", "stream": True, "sampling_params": {
                "max_new_tokens": 1900, "ignore_eos": True, "n": 2}})
            client.recv(100)
            mini.ask("POST", "/abort_request", {"rid": name})
            self.assertTrue(mini.wait_for_metric("sglang:num_running_reqs", 4 - ended), name)
            mini.ask("POST", "/abort_request", {"abort_all": True})
            client.close()
            self.assertTrue(mini.wait_for_metric("sglang:num_running_reqs", 0))

    def test_metrics_are_what_prometheus_reads(self):
        status, headers, page = mini.ask("GET", "/metrics")
        self.assertEqual(status, 200)
        self.assertTrue(headers["Content-Type"].startswith("text/plain; version=0.0.4"))
        for name in (b"sglang:num_running_reqs", b"sglang:time_to_first_token_seconds_bucket",
                     b"reprise_decode_steps_total", b"reprise_captures_total", b"reprise_recaptures_total",
                     b"reprise_graph_pool_bytes"):
            self.assertIn(name, page)
        self.assertIn(b'mode="full",reason="replayed"', page)
        self.assertEqual(metric_faults(page.decode()), [])
        status, _, plain = mini.ask("GET", "/metrics?names=plain")
        self.assertEqual(status, 200)
        self.assertEqual([line.replace(b"sglang:", b"sglang_").split(b" ")[:3] for line in page.splitlines()
                          if line.startswith(b"# ")],
                         [line.split(b" ")[:3] for line in plain.splitlines() if line.startswith(b"# ")])
        self.assertEqual(mini.ask("GET", "/metrics?names=other")[0], 400)

    @unittest.skipUnless(shutil.which("promtool"), "promtool is not installed")
    def test_promtool_checks_metrics(self):
        mini.post("/v1/completions", completion(max_tokens=2))
        def faults_of(path):
            checked = subprocess.run(["promtool", "check", "metrics"], input=mini.ask("GET", path)[2],
                                     capture_output=True, check=False)
            return checked.returncode, (checked.stdout + checked.stderr).decode().splitlines()
        self.assertEqual(faults_of("/metrics?names=plain"), (0, []))
        # SGLang's own names have a colon, which is for recording rules; nothing else may be found.
        _, faults = faults_of("/metrics")
        self.assertEqual([line for line in faults if not line.startswith("sglang:")
                          or not line.endswith(" metric names should not contain ':'")], [])

    def test_the_check_of_metrics_finds_faults(self):
        good = '# HELP a_total x\n# TYPE a_total counter\na_total{l="v"} 1\n'
        self.assertEqual(metric_faults(good), [])
        for bad in (good + good, good.replace("a_total{", "b_total{"), good.replace("a_total", "a"),
                    good + "a_total{l=\"v\"} 2\n",
                    good.replace("# HELP a_total x\n", ""), good.replace("} 1", "} one"), good.replace('"v"', "v"),
                    "# HELP h x\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\n"):
            self.assertNotEqual(metric_faults(bad), [], bad)


class Clients(unittest.TestCase):
    LONG = {"prompt": QUESTION, "max_tokens": 1900, "ignore_eos": True}

    def test_b61_clients_that_go_free_what_they_held(self):
        aborted = mini.metric("sglang:num_aborted_requests_total")
        ways = [(path, stream, end) for path in ("/v1/completions",) for stream in (False, True)
                for end in ("close", "reset", "half-close")]
        for path, stream, end in ways:
            client = mini.begin(path, {**self.LONG, "stream": stream})
            if stream:
                client.recv(200)
            else:
                time.sleep(0.03)
            if end == "reset":
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if end == "half-close":
                client.shutdown(socket.SHUT_WR)
            else:
                client.close()
            aborted += 1
            self.assertTrue(mini.wait_for_metric("sglang:num_aborted_requests_total", aborted), (stream, end))
            client.close()
        self.assertTrue(mini.wait_for_metric("sglang:num_running_reqs", 0))
        self.assertTrue(mini.wait_for_metric("sglang:num_used_tokens", 0))

    def test_b61_clients_that_go_while_they_wait(self):
        clients = [mini.begin("/v1/completions", {**self.LONG, "n": 20}) for _ in range(8)]
        time.sleep(0.1)
        for client in clients:
            client.close()
        self.assertTrue(mini.wait_for_metric("sglang:num_queue_reqs", 0))
        self.assertTrue(mini.wait_for_metric("sglang:num_running_reqs", 0))
        self.assertTrue(mini.wait_for_metric("sglang:num_used_tokens", 0))

    def test_a_signal_lets_requests_end(self):
        server = Server(MINI, "--drain-seconds", 30)
        client = server.begin("/v1/completions", {**self.LONG, "stream": True})
        self.addCleanup(client.close)
        data = client.recv(1000)
        server.process.send_signal(signal.SIGTERM)
        seen = set()
        while not data.endswith(b"0\r\n\r\n"):
            data += client.recv(1 << 16)
            if len(seen) < 2:
                try:
                    seen.add(server.ask("GET", "/health")[0])
                    seen.add(server.post("/v1/completions", completion())[0])
                except OSError:
                    pass
        self.assertIn(b'"finish_reason":"length"', data)
        self.assertIn(b"data: [DONE]", data)
        self.assertLessEqual(seen, {200, 503})
        self.assertEqual(server.process.wait(timeout=60), 0)
        server.stop()

    def test_a_signal_ends_requests_that_take_too_long(self):
        server = Server(MINI, "--drain-seconds", 0)
        client = server.begin("/v1/completions", {**self.LONG, "n": 16, "stream": True})
        self.addCleanup(client.close)
        client.recv(1000)
        server.process.send_signal(signal.SIGTERM)
        data = b""
        while more := client.recv(1 << 16):
            data += more
        self.assertIn(b'"finish_reason":"abort"', data)
        self.assertEqual(server.process.wait(timeout=60), 0)
        server.stop()

    def test_many_clients_get_what_one_alone_gets(self):
        prompts = [f"Question: Ann has {i} pens and buys {i % 7}. How many pens has she?\nAnswer:" for i in range(40)]
        alone = [mini.post("/v1/completions", completion(prompt=prompt))[1]["choices"][0]["text"] for prompt in prompts]
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            together = list(pool.map(
                lambda prompt: text_of(mini.stream("/v1/completions", completion(prompt=prompt, stream=True))), prompts))
        self.assertEqual(alone, together)


class Starting(unittest.TestCase):
    def test_faults_are_told_before_the_model_is_loaded(self):
        for arguments, words, code in (
                (["-m", "/nowhere"], "there is no model", 3), (["-m", MINI, "--port", "70000"], "--port is 70000", 2),
                (["-m", MINI, "--port", str(mini.port)], "in use", 3), (["-m", MINI, "--host", "256.1.1.1"], "256.1.1.1", 3),
                (["-m", MINI, "--chat-template", "/nowhere"], "/nowhere", 3),
                (["-m", CHECKPOINTS / "dense", "--port", "0"], "tokenizer", 3)):
            done = run("serve", *arguments, timeout=60)
            self.assertIn(words, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertNotIn("Load weight", done.stderr)
            self.assertEqual(done.returncode, code, done.stderr)


if __name__ == "__main__":
    unittest.main()
