#!/usr/bin/env python3
"""reprise serve through real sockets: requests at their limits and beyond, parameters, bodies and keys."""
import concurrent.futures
import json
import time
import unittest

import two_servers
from program import MINI
from server import Server
from two_servers import QUESTION, TOOLS, chat, completion, text_of


def setUpModule():
    global servers, mini, scripted
    servers = two_servers.TwoServers()
    mini, scripted = servers.mini, servers.scripted


def tearDownModule():
    servers.stop()


class Limits(unittest.TestCase):
    def test_b08_answers_that_end_inside_a_character(self):
        for limit in (1, 2, 3, 4):
            for fields in ({}, {"logprobs": 2}, {"stop": ["zz"]}):
                body = {"prompt": "e", "max_tokens": limit, **fields}
                _, whole = scripted.post("/v1/completions", body)
                choice = whole["choices"][0]
                self.assertEqual(choice["text"], "\U0001F642 ok" if limit == 4 else
                                 "\U0001F642" if limit == 3 else "\ufffd")
                self.assertEqual(text_of(scripted.stream("/v1/completions", {**body, "stream": True})), choice["text"])
        _, answer = scripted.post("/v1/completions", {"prompt": "e", "max_tokens": 2, "logprobs": 1})
        self.assertEqual(answer["choices"][0]["logprobs"]["tokens"], ["\ufffd", "\ufffd"])
        # The raw bytes are told where OpenAI tells them.
        first_byte = mini.post("/tokenize", {"prompt": "\U0001F642"})[1]["tokens"][0]
        for limit in (1, 2, 3, 4):
            _, answer = mini.post("/v1/chat/completions", chat(max_tokens=limit, logit_bias={str(first_byte): 100},
                                                               logprobs=True, ignore_eos=True))
            content = answer["choices"][0]["logprobs"]["content"]
            self.assertEqual(content[0]["bytes"], list(b"\xf0\x9f\x99\x82"[:len(content[0]["bytes"])]))
            self.assertNotEqual(content[0]["bytes"], [])
            self.assertEqual(answer["choices"][0]["message"]["content"], "\ufffd" * limit)

    def test_b51_a_server_that_has_just_begun(self):
        server = Server(MINI, wait=False)
        try:
            def first_answer(_):
                for _ in range(1000):
                    status, answer = server.post("/v1/completions", completion())
                    if status != 503:
                        return status, answer["choices"][0]["text"]
                    self.assertEqual(answer["error"]["code"], "loading")
                    time.sleep(0.01)
                return None
            with concurrent.futures.ThreadPoolExecutor(20) as pool:
                answers = list(pool.map(first_answer, range(20)))
            self.assertEqual({status for status, _ in answers}, {200})
            self.assertEqual(len({text for _, text in answers}), 1)
            self.assertEqual(server.ask("GET", "/health")[0], 200)
        finally:
            self.assertEqual(server.stop()[0], 0)

    def test_b59_every_value_of_max_tokens(self):
        for value, status in ((0, 200), (1, 200), (None, 200), (-1, 400), (1.5, 400), ("5", 400), (2 ** 31, 400),
                              (2 ** 70, 400), (True, 400), (5000, 400)):
            body = completion(max_tokens=value)
            self.assertEqual(mini.post("/v1/completions", body)[0], status, value)
            self.assertEqual(mini.post("/v1/chat/completions", chat(max_tokens=value))[0], status, value)
        for fields in ({}, {"echo": True}, {"echo": True, "logprobs": 1}, {"n": 2}, {"echo": True, "n": 2, "logprobs": 0}):
            body = completion(max_tokens=0, **fields)
            status, answer = mini.post("/v1/completions", body)
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["usage"]["completion_tokens"], 0)
            for choice in answer["choices"]:
                self.assertEqual(choice["text"], QUESTION if "echo" in fields else "")
                self.assertEqual(choice["finish_reason"], "length")
                if "logprobs" in fields:
                    self.assertEqual(len(choice["logprobs"]["tokens"]), answer["usage"]["prompt_tokens"])
                    self.assertIsNone(choice["logprobs"]["token_logprobs"][0])
            self.assertEqual(text_of(mini.stream("/v1/completions", {**body, "stream": True})),
                             "".join(choice["text"] for choice in answer["choices"]))
        body = completion()
        del body["max_tokens"]
        self.assertEqual(mini.post("/v1/completions", {**body, "ignore_eos": True})[1]["usage"]["completion_tokens"], 16)

    def test_b60_nothing_of_a_stop_string_leaks(self):
        whole = "ABCDEFG\U0001F642HI"
        for stop, text in (("CDE", "AB"), ("DE", "ABC"), ("G", "ABCDEF"), ("ABC", ""), ("\U0001F642", "ABCDEFG"),
                           ("I", "ABCDEFG\U0001F642H"), ("EFX", whole), (">", whole), (["FG", "DE", "x"], "ABC"),
                           (["1", "2", "3", "4", "HI"], "ABCDEFG\U0001F642"), ("CDEFG\U0001F642HI", "AB"), ([], whole)):
            for keep in (False, True):
                body = {"prompt": ">", "max_tokens": 20, "stop": stop, "no_stop_trim": keep}
                _, answer = scripted.post("/v1/completions", body)
                choice = answer["choices"][0]
                stopped = text != whole
                matched = choice["matched_stop"] if stopped else ""
                if not keep:
                    self.assertEqual(choice["text"], text, stop)
                elif stopped:
                    self.assertEqual(choice["text"], text + matched, stop)
                self.assertEqual(choice["finish_reason"], "stop")
                self.assertEqual(isinstance(choice["matched_stop"], str), stopped)
                events = scripted.stream("/v1/completions", {**body, "stream": True})
                self.assertEqual(text_of(events), choice["text"])
                self.assertEqual(events[-1]["choices"][0]["finish_reason"], "stop")
        # A control token in the middle: not part of the text, unless one asks for it.
        for stop, skip, text in (("RS", True, "PQ"), ("RS", False, "PQR<|endoftext|>STUV"),
                                 ("<|endoftext|>", True, "PQR"), ("<|endoftext|>", False, "PQR"),
                                 ("R<|endoftext|>S", True, "PQRSTUV"), ("R<|endoftext|>S", False, "PQ"),
                                 ("xt|>ST", False, "PQR<|endofte")):
            body = {"prompt": "s", "max_tokens": 20, "stop": stop, "skip_special_tokens": skip}
            choice = scripted.post("/v1/completions", body)[1]["choices"][0]
            self.assertEqual(choice["text"], text, stop)
            self.assertEqual(choice["matched_stop"] == stop, "UV" not in text)
            self.assertEqual(text_of(scripted.stream("/v1/completions", {**body, "stream": True})), text)
        for stop in ("", ["a", ""], 5, [5], {"a": 1}, ["x"] * 65):
            self.assertEqual(scripted.post("/v1/completions", {"prompt": ">", "stop": stop})[0], 400, stop)

    def test_b63_log_probabilities(self):
        for value, status in ((0, 200), (1, 200), (5, 200), (20, 200), (21, 400), (-1, 400), (True, 400), ("1", 400)):
            got, answer = mini.post("/v1/completions", completion(logprobs=value, max_tokens=4))
            self.assertEqual(got, status, value)
            if status != 200:
                continue
            logprobs = answer["choices"][0]["logprobs"]
            self.assertEqual([len(top) for top in logprobs["top_logprobs"]], [value] * 4)
            self.assertTrue(all(-9999 <= number <= 0 for number in logprobs["token_logprobs"]))
            text = answer["choices"][0]["text"]
            self.assertEqual([text[a:b] for a, b in zip(logprobs["text_offset"], logprobs["text_offset"][1:] + [None])],
                             logprobs["tokens"])
        token = mini.post("/tokenize", {"prompt": "\u00fc"})[1]["tokens"][0]
        _, forced = mini.post("/v1/completions", completion(
            logit_bias={str(token): 100}, top_k=1, logprobs=5, max_tokens=3))
        self.assertTrue(all(-9999 <= number < -1 for number in forced["choices"][0]["logprobs"]["token_logprobs"]))
        events = mini.stream("/v1/chat/completions", chat(stream=True, logprobs=True, top_logprobs=3))
        entries = [entry for event in events for choice in event["choices"] if choice["logprobs"]
                   for entry in choice["logprobs"]["content"]]
        self.assertTrue(all(len(entry["top_logprobs"]) == 3 for entry in entries))
        self.assertEqual(mini.post("/v1/chat/completions", chat(top_logprobs=3))[0], 400)
        for start in (True, -2, 10 ** 6):
            self.assertEqual(mini.post("/generate", {"text": QUESTION, "return_logprob": True,
                                                     "logprob_start_len": start})[0], 400)

    def test_b66_parameters_out_of_range_are_named(self):
        for name, wrong in (("repetition_penalty", (0, -1, "1")), ("top_k", (-2, 1.5)), ("top_p", (0, 1.0001, -1)),
                            ("min_p", (2, -0.1)), ("temperature", (-1, "0", [1])), ("presence_penalty", (2.5,)),
                            ("frequency_penalty", (-3,)), ("n", (0, -1, 129, 1.5)), ("logit_bias", ({"a": 1}, {"1": 101},
                            {"99999": 1}, [1], {"1": "x"})), ("seed", ("a", 1.5)), ("echo", ("true",)),
                            ("stream", ("yes", 1)), ("stop_token_ids", ([-1], [10 ** 6], ["a"], 5))):
            for value in wrong:
                status, answer = mini.post("/v1/completions", completion(**{name: value}))
                self.assertEqual(status, 400, (name, value))
                self.assertEqual(answer["error"]["param"], name)
        for name, right in (("repetition_penalty", 2), ("top_k", 10 ** 9), ("top_k", 0), ("min_p", 1), ("top_p", 1),
                            ("temperature", 1e-9), ("temperature", 1e9), ("logit_bias", {}), ("user", "u")):
            self.assertEqual(mini.post("/v1/completions", completion(max_tokens=2, **{name: right}))[0], 200, name)
        for name in ("banana", "guided_json", "regex", "response_format", "suffix", "best_of"):
            status, answer = mini.post("/v1/completions", completion(**{name: 5}))
            self.assertEqual((status, answer["error"]["param"]), (400, name))
        for path, fields, name, words in (
                ("/v1/completions", completion(messages=[]), "messages", "belongs to /v1/chat/completions"),
                ("/v1/completions", completion(max_completion_tokens=5), "max_completion_tokens", "called max_tokens"),
                ("/v1/completions", completion(top_logprobs=2), "top_logprobs", "logprobs is the number"),
                ("/v1/completions", completion(response_format={"type": "json_object"}), "response_format",
                 'can only be {"type": "text"}'),
                ("/v1/completions", completion(temprature=1), "temprature", "Did you mean temperature?"),
                ("/v1/completions", {"messages": []}, "prompt", "messages belong to /v1/chat/completions"),
                ("/v1/chat/completions", {"prompt": "a"}, "messages", "a prompt belongs to /v1/completions"),
                ("/v1/chat/completions", chat(echo=True), "echo", "belongs to /v1/completions"),
                ("/v1/chat/completions", chat(prompt="a"), "prompt", "messages"),
                ("/v1/chat/completions", chat(max_new_tokens=1), "max_new_tokens", "called max_tokens"),
                ("/generate", {"text": "a", "temperature": 0}, "temperature", "belongs into sampling_params"),
                ("/generate", {"text": "a", "max_tokens": 5}, "max_tokens", "sampling_params.max_new_tokens"),
                ("/generate", {"text": "a", "sampling_params": {"max_tokens": 5}}, "sampling_params.max_tokens",
                 "called max_new_tokens")):
            status, answer = mini.post(path, fields)
            self.assertEqual((status, answer["error"]["param"]), (400, name))
            self.assertIn(words, answer["error"]["message"])
        self.assertEqual(mini.post("/v1/completions", completion(max_tokens=1, response_format={"type": "text"}))[0], 200)
        self.assertEqual(mini.post("/generate", {"text": "a", "sampling_params": {"banana": 1}})[0], 400)
        for answer in (mini.post("/v1/completions", completion(min_tokens=5, max_tokens=3))[1],
                       mini.post("/v1/chat/completions", chat(min_tokens=5, max_tokens=3))[1]):
            self.assertEqual(answer["error"]["param"], "min_tokens")
            self.assertIn("max_tokens is 3", answer["error"]["message"])
        status, answer = mini.post("/v1/completions", completion(max_tokens=10 ** 20 - 1))
        self.assertEqual((status, answer["error"]["param"]), (400, "max_tokens"))
        self.assertIn("max_tokens is a number of more than 64 bits, but must be between", answer["error"]["message"])
        for ids in ([10 ** 6], [[1], [10 ** 6]], [-1], []):
            status, answer = mini.post("/generate", {"input_ids": ids})
            self.assertEqual((status, answer["error"]["param"]), (400, "input_ids"), ids)

    def test_compressed_bodies_are_refused(self):
        body = {"prompt": "a", "max_tokens": 1}
        for coding, expected in (("gzip", 415), ("deflate, gzip", 415), ("Identity", 200)):
            status, headers, answer = mini.ask("POST", "/v1/completions", body, {"Content-Encoding": coding})
            self.assertEqual(status, expected)
            if status != 200:
                self.assertEqual(json.loads(answer)["error"]["code"], "unsupported_content_encoding")
                self.assertEqual(headers["Accept-Encoding"], "identity")

    def test_a_name_that_comes_twice_is_refused(self):
        status, answer = mini.post("/generate", {"text": ["a", "b", "c"], "rid": ["x", "y", "x"]})
        self.assertEqual((status, answer["error"]["param"]), (400, "rid"))
        self.assertIn("'x' more than once", answer["error"]["message"])

    def test_numbers_are_named_as_they_came(self):
        for seed, expected in ((2 ** 63, f"seed is {2 ** 63}, but must be between -{2 ** 63} and {2 ** 63 - 1}."),
                               (1.5, "seed is 1.5, but must be an integer."),
                               ("7", "seed is string, but must be an integer.")):
            status, answer = mini.post("/v1/completions", {"prompt": "a", "seed": seed})
            self.assertEqual((status, answer["error"]["message"]), (400, expected))

    def test_messages_can_be_tokenized(self):
        """They come to what a chat reads, and to what their prompt is as a text."""
        body = chat(max_tokens=1)
        status, answer = mini.post("/tokenize", {"messages": body["messages"]})
        self.assertEqual(status, 200, answer)
        read = mini.post("/v1/chat/completions", body)[1]["usage"]["prompt_tokens"]
        self.assertEqual((answer["count"], len(answer["tokens"])), (read, read))
        open_end = mini.post("/tokenize", {"messages": body["messages"], "add_generation_prompt": False})[1]["tokens"]
        self.assertEqual(answer["tokens"][:len(open_end)], open_end)
        for wrong, param in (({"messages": body["messages"], "prompt": "a"}, "prompt"), ({"text": "a"}, "text"), ({}, "prompt"),
                             ({"messages": body["messages"], "tools": TOOLS}, "tools"),
                             ({"messages": body["messages"], "temperature": 1}, "temperature"),
                             ({"messages": body["messages"], "add_special_tokens": True}, "add_special_tokens")):
            status, answer = mini.post("/tokenize", wrong)
            self.assertEqual((status, answer["error"]["param"]), (400, param))

    def test_each_output_of_a_prompt_is_counted(self):
        before = {name: mini.metric(f"sglang:{name}_total") for name in ("num_requests", "prompt_tokens")}
        usage = mini.post("/v1/completions", {"prompt": "Count me", "n": 3, "max_tokens": 2})[1]["usage"]
        self.assertTrue(mini.wait_for_metric("sglang:num_requests_total", before["num_requests"] + 3))
        self.assertTrue(mini.wait_for_metric("sglang:prompt_tokens_total", before["prompt_tokens"] + 3 * usage["prompt_tokens"]))

    def test_what_a_template_does_not_read_is_refused(self):
        for fields, name in (({"tools": TOOLS}, "tools"), ({"enable_thinking": False}, "enable_thinking"),
                             ({"chat_template_kwargs": {"banana": 1}}, "chat_template_kwargs"),
                             ({"chat_template_kwargs": {"add_generation_prompt": 1}}, "chat_template_kwargs")):
            status, answer = mini.post("/v1/chat/completions", chat(**fields))
            self.assertEqual((status, answer["error"]["param"]), (400, name))
        self.assertEqual(mini.post("/v1/chat/completions", chat(tools=TOOLS, tool_choice="none"))[0], 200)
        self.assertEqual(scripted.post("/v1/chat/completions", chat(
            max_tokens=1, tools=TOOLS, chat_template_kwargs={"enable_thinking": True, "add_generation_prompt": True}))[0],
                         200)

    def test_b70_bodies_of_every_kind(self):
        bodies = [b"", b"{", b"[]", b"null", b"5", b'"text"', b"{}", b"\xef\xbb\xbf{}", b'{"prompt":"a"}x',
                  b'{"prompt":"a","prompt":"b"}', b'{"prompt":"a","temperature":1e999}',
                  b'{"prompt":"a","temperature":NaN}', b"[" * 10_000 + b"]" * 10_000, b" " * 10_000, b'{"prompt":{}}',
                  b'{"prompt":[]}', b'{"prompt":[[]]}', b'{"prompt":""}', b'{"prompt":[1,"a"]}', b'{"prompt":["a",1]}',
                  b'{"prompt":[99999999]}', b'{"prompt":[-1]}', b'{"prompt":null}', b'{"prompt":[1e3]}']
        for body in bodies:
            status, answer = mini.post("/v1/completions", body)
            self.assertEqual(status, 400, body)
            self.assertEqual(answer["error"]["type"], "invalid_request_error")
        begin = time.monotonic()
        status, _, answer = mini.ask("POST", "/v1/completions", completion(**{"x" * 150_000: 1}))
        self.assertEqual((status, json.loads(answer)["error"]["param"]), (400, "x" * 80 + "..."))
        self.assertLess(time.monotonic() - begin, 5)
        for messages in ("hi", [], [5], [[]], {}, None, [{}], [{"role": 5, "content": "a"}], [{"role": "user"}],
                         [{"role": "system", "content": None}],
                         [{"role": "user", "content": 5}], [{"role": "user", "content": [{"type": "image_url"}]}]):
            status, answer = mini.post("/v1/chat/completions", {"messages": messages})
            self.assertEqual(status, 400, messages)
            self.assertIn("messages", answer["error"]["message"].lower())
            self.assertEqual(answer["error"]["param"], "messages")
        other = [{"role": "observer"}, {"role": "user", "content": "a"}]
        self.assertEqual(mini.post("/v1/chat/completions", {"messages": other, "max_tokens": 1})[0], 200)
        self.assertEqual(json.loads(mini.ask("GET", "/state?x=1")[2])["error"]["param"], "x")
        for path, body, words in (("/v1/completions", completion(max_tokens=5000), "tokens from the prompt and 5000"),
                                  ("/v1/chat/completions", chat(max_tokens=5000), "tokens from the input messages and")):
            self.assertIn(words, mini.post(path, body)[1]["error"]["message"])
        for arguments in ("{", "", "[1]"):
            call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}
            status, answer = scripted.post("/v1/chat/completions", {"messages": [
                {"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": [call]}]})
            self.assertEqual(status, 400, arguments)
            self.assertIn("messages[1]", answer["error"]["message"])
        self.assertEqual(mini.post("/v1/completions", completion(max_tokens=1))[0], 200)

    def test_b71_other_encodings(self):
        for body in (b'{"prompt":"\xc4\xe3\xba\xc3"}', b'{"prompt":"\\ud800"}', b'{"prompt":"\xc0\xaf"}',
                     b'{"\xff":1}', '{"prompt":"a"}'.encode("utf-16")):
            status, _, answer = mini.ask("POST", "/v1/completions", body)
            self.assertEqual(status, 400)
            self.assertIn("message", json.loads(answer.decode("ascii"))["error"])
        self.assertEqual(mini.post("/v1/completions", completion(prompt="a\0b", max_tokens=1))[0], 200)

    def test_b73_bodies_at_the_limit(self):
        for size, status in ((200_000, 200), (200_001, 413)):
            body = json.dumps(completion(max_tokens=1)).encode()
            body += b" " * (size - len(body))
            self.assertEqual(mini.ask("POST", "/v1/completions", body)[0], status)
        status, answer = mini.post("/v1/completions", completion(prompt="Ann has 3 pens. " * 5000))
        self.assertEqual((status, answer["error"]["code"]), (400, "context_length_exceeded"))

    def test_b75_events_and_their_frames(self):
        for path, body in (("/v1/completions", completion(stream=True, n=2)), ("/v1/chat/completions", chat(stream=True)),
                           ("/generate", {"text": QUESTION, "stream": True}),
                           ("/v1/completions", {"prompt": "e", "stream": True, "logprobs": 1})):
            server = scripted if body.get("prompt") == "e" else mini
            text = server.stream_bytes(path, body).decode("utf-8", "strict")
            self.assertTrue(text.endswith("\n\ndata: [DONE]\n\n"))
            self.assertEqual(text.count("[DONE]"), 1)
            for event in text.removesuffix("\n\n").split("\n\n")[:-1]:
                json.loads(event.removeprefix("data: "))
        # Nothing comes but the end: the first token is a stop.
        events = mini.stream("/v1/completions", completion(stream=True, stop_token_ids=list(range(2043))))
        self.assertEqual([event["choices"][0]["finish_reason"] for event in events], ["stop"])
        self.assertEqual(text_of(events), "")

    def test_b77_the_key_and_pages_of_other_origins(self):
        server = Server(MINI, "--access-log", environment={"REPRISE_API_KEY": "sk-secret", "PATH": ""})
        try:
            page = {"Origin": "http://page.example", "Access-Control-Request-Method": "POST",
                    "Access-Control-Request-Headers": "authorization, content-type"}
            status, headers, _ = server.ask("OPTIONS", "/v1/chat/completions", headers=page)
            self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (204, "*"))
            self.assertIn("Authorization", headers["Access-Control-Allow-Headers"])
            for path, free in (("/health", True), ("/metrics", True), ("/v1/models", False), ("/nothing", False),
                               ("/get_server_info", False)):
                self.assertEqual(server.ask("GET", path)[0] == 401, not free, path)
            for value, status in (("Bearer sk-secret", 200), ("bearer sk-secret", 200), ("Bearer sk-secret ", 200),
                                  ("Bearer wrong", 401), ("Bearer ", 401), ("sk-secret", 401), ("Basic sk-secret", 401)):
                got, _, body = server.ask("GET", "/v1/models", headers={"Authorization": value})
                self.assertEqual(got, status, value)
                self.assertIn("error" if status == 401 else "data", json.loads(body))
            self.assertEqual(server.ask("GET", "/v1/models", headers={"X-Api-Key": "sk-secret"})[0], 401)
        finally:
            code, log = server.stop()
        self.assertEqual(code, 0)
        self.assertNotIn("sk-secret", log)


if __name__ == "__main__":
    unittest.main()
