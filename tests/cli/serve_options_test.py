"""The options of reprise serve: SGLang's names, files, and what the server says of its steps."""
import json
import re
import time
import unittest

import program
from server import Server

# A value that each option which takes one accepts.
VALUES = {"--served-model-name": "name", "--chat-template": "file", "--sampling-defaults": "openai",
          "--quantization": "w8a8_int8", "--host": "::1", "--api-key": "key", "--device": "cpu", "--log-level": "error",
          "--dtype": "float32", "--kv-cache-dtype": "int8", "--init-expert-location": "trivial",
          "--ep-dispatch-algorithm": "dynamic", "--model-path": str(program.MINI), "--http-threads": "3", "--stream-gather-ms": "7",
          "--mode": "piecewise", "--kv-dtype": "int8", "--cors-origin": "https://example.org",
          "--option": "capture_limit=4", "--disable-pass": "in_place", "--max-context": "64",
          "--compilation-config": '{"splitting_ops": ["linear"]}'}


# What an option needs beside it.
NEEDED = {"--compilation-config": ["--mode", "piecewise"], "--autotune-cache": ["--autotune"],
          "--ep-dispatch-algorithm": ["--ep-num-redundant-experts", "2"],
          "--eplb-num-ranks": ["--ep-num-redundant-experts", "2"]}


def settings(*arguments):
    """What --print-config says, by option."""
    done = program.run_well("serve", *arguments, "--print-config")
    return dict(line.split("  #")[0].split(": ", 1) for line in done.stdout.splitlines() if not line.startswith("#"))


def documented_flags():
    """The table of SGLang's flags: (name, what it becomes)."""
    text = (program.ROOT / "docs/options.md").read_text()
    table = text[text.index("| SGLang | here |"):]
    return re.findall(r"^\| `(--[a-z-]+)` \| (.*) \|$", table, re.MULTILINE)


class ServeOptions(unittest.TestCase):
    def test_every_documented_flag_of_sglang_does_what_the_table_says(self):
        flags = documented_flags()
        self.assertGreater(len(flags), 100)
        plain = settings("-m", program.MINI_MOE)
        for name, becomes in flags:
            with self.subTest(flag=name):
                model = [] if name == "--model-path" else ["-m", program.MINI_MOE]
                if becomes.startswith("refused: "):
                    for value in ([], ["1"]):
                        done = program.run("serve", *model, name, *value, "--print-config")
                        if "takes no value" not in done.stderr:
                            self.assertEqual(done.returncode, 2)
                            self.assertIn(f"{name} of SGLang has no meaning here (", done.stderr)
                elif becomes == "always so":
                    self.assertEqual(settings(*model, name), plain)
                elif becomes.startswith("accepted: "):
                    for value in re.findall("`([^`]+)`", becomes):
                        self.assertEqual(settings(*model, name, value), plain)
                    done = program.run("serve", *model, name, "nonsense", "--print-config")
                    self.assertEqual(done.returncode, 2)
                    self.assertIn(f"{name} nonsense is not built", done.stderr)
                else:
                    target = name if becomes == "the same option" else re.match("`(--[a-z-]+)", becomes).group(1)
                    if plain.get(target[2:]) == "false" or name.startswith(("--disable", "--enable")):
                        value = []
                    else:
                        value = [VALUES.get(name, "7")]
                    changed = settings(*model, name, *value, *NEEDED.get(name, []))
                    if name == "--api-key":
                        continue
                    if name == "--enable-torch-compile":  # asks for what is the default
                        self.assertEqual(changed["mode"], '"full"')
                        continue
                    if VALUES.get(name) != "trivial":
                        self.assertNotEqual(changed[target[2:]], plain[target[2:]])
                    self.assertEqual({key for key in plain if changed[key] != plain[key]} - {target[2:], "model", *(word[2:] for word in NEEDED.get(name, []))}, set())

    def test_a_printed_configuration_reads_back_as_it_is(self):
        directory = program.temporary_directory(self)
        path = directory / "server.yaml"
        named, other = directory / "a 'b' \"c\": #d", directory / "other"
        for link in (named, other):
            link.symlink_to(program.MINI)
        arguments = ["-m", str(named), "--cuda-graph-bs", "1", "2", "--enable-piecewise-npu-graph-decode",
                     "--compilation-config", '{"splitting_ops": ["atb._npu_paged_attention"]}', "-O", "inplace_pass=false",
                     "-O", "capture_limit=4", "--cors-origin", "", "--pack-cache", "--random-seed", "18446744073709551615",
                     "--max-queued-requests", "3", "--access-log", "--drain-seconds", "0.5", "--served-model-name", "ü\n"]
        first = program.run_well("serve", *arguments, "--print-config").stdout
        self.assertIn('mode: "piecewise"\n', first)
        self.assertIn("graph-bs: [1, 2]\n", first)
        self.assertIn('compilation-config: "{\\"splitting_ops\\":[\\"paged_attention\\"]}"\n', first)
        self.assertIn('option: ["inplace_pass=false", "capture_limit=4"]\n', first)
        path.write_text(first)
        self.reads_back(path, first)
        changed = settings("--config", path, "--graph-bs", "8", "-m", str(other))
        self.assertEqual((changed["graph-bs"], changed["model"]), ("[8]", f'"{other}"'))

    def reads_back(self, path, printed):
        path.write_text(printed)
        self.assertEqual(program.run_well("serve", "--config", path, "--print-config").stdout, printed)

    def test_every_option_reads_back_from_a_printed_configuration(self):
        """Set to a value of its own and left alone, also where a server takes some options for given only if they are."""
        path = program.temporary_directory(self) / "server.yaml"
        plain = program.run_well("serve", "-m", program.MINI_MOE, "--print-config").stdout
        self.assertIn("kv-tokens: null  # by rule\n", plain)
        self.reads_back(path, plain)
        every = []
        for line in plain.splitlines():
            name, value = line.split("  #")[0].split(": ", 1)
            if name in ("model", "api-key"):
                continue
            number = '"' not in value and value not in ("null", "false", "[]")
            own = VALUES.get("--" + name)
            candidates = [[]] if value == "false" else [[own]] if own else [["4096"]] if number else [
                ["a b"], ["7"], ["auto"], ["update-then-replay"]]
            for given in candidates:
                done = program.run("serve", "-m", program.MINI_MOE, f"--{name}", *given, *NEEDED.get(f"--{name}", []),
                                   "--print-config")
                if done.returncode == 0:
                    break
            self.assertEqual(done.returncode, 0, done.stderr)
            self.reads_back(path, done.stdout)
            every += [f"--{name}", *given]
        self.reads_back(path, program.run_well("serve", "-m", program.MINI_MOE, *every, "--print-config").stdout)

    def test_a_server_starts_with_a_printed_configuration(self):
        path = program.temporary_directory(self) / "server.yaml"
        for given in ([], ["-O", "force_eager=true", "--log-level", "off"]):
            path.write_text(program.run_well("serve", "-m", program.MINI, *given, "--print-config").stdout)
            server = Server(program.MINI, "--config", path)
            self.addCleanup(server.stop)
            self.assertIn("fired up", server.ready_line)
            self.assertEqual(server.stop()[0], 0)

    def test_what_a_server_would_refuse_is_not_printed(self):
        path = program.temporary_directory(self) / "server.yaml"
        cases = {("--mode", "static"): (2, "--mode: static not in"), ("-m", "/no/model"): (3, "no model at /no/model"),
                 ("--prefill-graph-tokens", "8", "4000"): (2, "--prefill-graph-tokens: prefill graph size 4000"),
                 ("--disable-radix-cache=x",): (2, "--disable-radix-cache: 'x' is not true or false"),
                 ("--threads", "100000"): (2, "--threads is 100000, must be between 0 and 65535"),
                 ("--device", "ascend", "--threads", "2"): (2, "ascend:0 has no threads"),
                 ("--health-timeout", "0.05"): (2, "--health-timeout is 0.05, must be between 0.5 and 1000000")}
        for arguments, (code, text) in cases.items():
            model = [] if "-m" in arguments else ["-m", program.MINI]
            done = program.run("serve", *model, *arguments, "--print-config")
            self.assertEqual((done.returncode, done.stdout), (code, ""))
            self.assertIn(text, done.stderr)
        path.write_text(f"model: {program.MINI}\ngraph-bs:\n- 1\n- null\n")
        done = program.run("serve", "--config", path, "--print-config")
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"{path}, line 4: the list of --graph-bs holds null", done.stderr)

    def test_the_mode_of_the_line_takes_the_place_of_the_files_flags(self):
        path = program.temporary_directory(self) / "server.yaml"
        path.write_text(f"model: {program.MINI}\ndisable-cuda-graph: true\n")
        self.assertEqual(settings("--config", path)["mode"], '"eager"')
        for line, mode in ((["--enable-torch-compile"], "full"), (["--mode", "piecewise"], "piecewise"),
                           (["--enable-piecewise-npu-graph-decode"], "piecewise")):
            self.assertEqual(settings("--config", path, *line)["mode"], f'"{mode}"')

    def test_the_key_is_not_printed(self):
        done = program.run_well("serve", "-m", program.MINI, "--api-key", "secret", "--print-config")
        self.assertNotIn("secret", done.stdout)
        self.assertIn("# api-key: given", done.stdout)

    def test_faults_are_told_before_a_model_is_loaded(self):
        directory = program.temporary_directory(self)
        path = directory / "server.yaml"
        path.write_text("model: d\nport: 1\nmodle: e\n")
        done = program.run("serve", "--config", path)
        self.assertEqual(done.returncode, 2)
        self.assertIn("line 3: there is no option 'modle'", done.stderr)
        for text, fault in (("port: 65536", "--port is 65536"), ("port: http", "--port: 'http' is not an integer"),
                            ("mode: fast", "--mode: fast not in"), ("access-log: maybe", "access-log is maybe, must be"),
                            ("max-total-tokens: x", "--kv-tokens: 'x' is not"), ("option: [foo=1]", "--option: there is no"),
                            ("disable-pass: [x]", "--disable-pass: there is no pass 'x'"),
                            ("graph-bs: [1, 0]", "--graph-bs: graph batch size 0"), ("page-size: 0", "--page-size is 0"),
                            ("device: abacus", "--device: there is no device"),
                            ("cors-origin: example.org", "--cors-origin is 'example.org', must be an origin"),
                            ("cors-origin: https://example.org/", "--cors-origin is 'https://example.org/', must be"),
                            ("model-path: e", "'model-path' is another name of 'model', which was given in line 1"),
                            ("mode: static", "--mode: static not in"),
                            ("max-context: 5000", "--max-context is 5000, must be between 0 and 2048"),
                            ("retrace-every: -1", "--retrace-every is -1"), ("expert-load: true", "--expert-load: the"),
                            ("compilation-config: {splitting_ops: [linear]}", "--compilation-config cuts graphs"),
                            ("prefill-graph-tokens: [600]", "--prefill-graph-tokens: prefill graph size 600")):
            with self.subTest(text=text):
                path.write_text(f"model: {program.MINI}\n{text}\n")
                done = program.run("serve", "--config", path)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertIn(f"{path}, line 2: {fault}", done.stderr)
        self.assertEqual(program.run("serve", "--config", directory / "missing").returncode, 3)
        done = program.run("serve", "-m", program.MINI, "--quantization", "w8a8_int8")
        self.assertEqual(done.returncode, 2)
        self.assertIn("but the model is not quantised", done.stderr)
        quantised = program.CHECKPOINTS / "dense-w8a8-dynamic"
        self.assertIn("one of modelslim", program.run("serve", "-m", quantised, "--quantization", "compressed-tensors").stderr)

    def test_steps_are_logged_in_sglangs_form(self):
        server = Server(program.MINI, "--decode-log-interval", "5", "--capture-before-ready", "--graph-bs", "1,2")
        self.addCleanup(server.stop)
        status, answer = server.post("/v1/completions", {"prompt": "Question:", "max_tokens": 200, "temperature": 0,
                                                         "ignore_eos": True})
        self.assertEqual(status, 200)
        self.assertEqual(answer["usage"]["completion_tokens"], 200)
        code, log = server.stop()
        self.assertEqual(code, 0)
        for pattern in (
                r"Device: \S.* kernels\n",
                r"what it did:\n\S.* kernels\nmode +full",
                r"Load weight begin\. avail mem=[\d.]+ GB",
                r"Load weight end\. type=qwen3, dtype=bfloat16, avail mem=[\d.]+ GB, mem usage=-?[\d.]+ GB\.",
                r"KV Cache is allocated\. #tokens: \d+, K size: [\d.]+ GB, V size: [\d.]+ GB",
                r"max_total_num_tokens=\d+, chunked_prefill_size=512, max_prefill_tokens=512, max_running_requests=64, "
                r"context_len=2048, available_gpu_mem=[\d.]+ GB",
                r"Capture cpu graph begin\. This can take up to several minutes\. avail mem=[\d.]+ GB",
                r"Capture cpu graph bs \[1, 2\]",
                r"Capture cpu graph end\. Time elapsed: [\d.]+ s\. mem usage=[\d.]+ GB\. avail mem=[\d.]+ GB\.",
                r"Prefill batch\. #new-seq: 1, #new-token: \d+, #cached-token: 0, token usage: 0\.\d\d, #running-req: [01], "
                r"#queue-req: 0, ",
                r"Decode batch, #running-req: 1, #token: \d+, token usage: 0\.\d\d, cpu graph: True, gen throughput "
                r"\(token/s\): [1-9][\d.]*, #queue-req: 0, "):
            self.assertRegex(log, pattern)

    def test_the_log_says_what_was_done(self):
        """Prompts of one token, or of which the cache has left one, are no decode steps, though they are replayed as such."""
        directory = program.temporary_directory(self)
        server = Server(program.MINI_MOE, "--drain-seconds", "0.2", "--expert-load", "--autotune", "--autotune-cache",
                        directory / "tuned.json", "--decode-log-interval", 8, "--page-size", 16)
        self.addCleanup(server.stop)
        for ids in ([9], list(range(7, 24)), list(range(7, 24))):
            status, answer = server.post("/generate", {"input_ids": ids, "sampling_params": {
                "max_new_tokens": 17, "temperature": 0, "ignore_eos": True}})
            self.assertEqual((status, answer["meta_info"]["completion_tokens"]), (200, 17))
        self.assertEqual(answer["meta_info"]["cached_tokens"], 16)
        self.assertTrue(server.wait_for_metric("reprise_decode_steps_total", 48))
        self.assertEqual(server.metric("reprise_prefill_steps_total"), 3)
        code, log = server.stop()
        self.assertEqual(code, 0)
        self.assertIn("requests have 0.2 s to end", log)
        self.assertRegex(log, r"Tuned: \d+ products")
        self.assertRegex(log, r"\nprefill   19 tokens, [\d.]+ tokens/s; steps: 2 replayed, 1 eager \(prefill: 1\)\n")
        self.assertRegex(log, r"\ndecode    48 tokens, [\d.]+ tokens/s; steps: 48 replayed, 0 eager\n")
        self.assertRegex(log, r"\ntuned     \d+ products")
        # 67 tokens were read, each by two of eight experts in every layer.
        self.assertRegex(log, r"\nexperts   layer 0: 134 rows, one for each token and expert it goes to; expert \d has the "
                              r"most, \d+, which is \d\.\d\d times the mean; experts 0 to 7 have(?: \d+){8}\n")
        decode_lines = re.findall(r"Decode batch.*cpu graph: (\w+)", log)
        self.assertEqual(set(decode_lines), {"True"}, log)

    def test_nothing_is_logged_of_steps_when_that_is_off(self):
        server = Server(program.MINI, "--decode-log-interval", "0")
        self.addCleanup(server.stop)
        server.post("/v1/completions", {"prompt": "Question:", "max_tokens": 100, "ignore_eos": True})
        log = server.stop()[1]
        self.assertNotIn("batch", log)
        quiet = Server(program.MINI, "--log-level", "warning")
        self.addCleanup(quiet.stop)
        self.assertEqual(quiet.stop(), (0, ""))

    def test_sampling_defaults_and_seeds_are_the_servers(self):
        def text(*arguments):
            server = Server(program.MINI, *arguments)
            self.addCleanup(server.stop)
            answer = server.post("/v1/completions", {"prompt": "Question:", "max_tokens": 16, "ignore_eos": True})[1]
            server.stop()
            return answer["choices"][0]["text"]
        greedy = text()
        sampled = text("--sampling-defaults", "openai")
        self.assertNotEqual(sampled, greedy)
        self.assertEqual(text("--sampling-defaults", "openai"), sampled)
        self.assertNotEqual(text("--sampling-defaults", "openai", "--random-seed", "5"), sampled)


class State(unittest.TestCase):
    def test_tells_of_the_last_steps(self):
        server = Server(program.MINI)
        self.addCleanup(server.stop)
        before = json.loads(server.ask("GET", "/state")[2])
        self.assertEqual((before["state"], before["chat"], before["last_index"], before["steps"]), ("ready", True, -1, []))
        server.post("/v1/completions", {"prompt": "Question:", "max_tokens": 20, "temperature": 0, "ignore_eos": True})
        # The last answer is there a moment before its step is told of.
        end = time.monotonic() + 20
        state = {"last_index": -1}
        while state["last_index"] < 19 and time.monotonic() < end:
            state = json.loads(server.ask("GET", "/state?after=-1")[2])
        self.assertEqual(len(state["steps"]), 20)
        self.assertEqual(state["steps"][0]["kind"], "prefill")
        self.assertEqual([step["index"] for step in state["steps"]], list(range(20)))
        self.assertEqual({step["reason"] for step in state["steps"][1:]}, {"replayed"})
        self.assertEqual(state["step_counts"]["decode"], {"replayed": 19})
        self.assertEqual((state["running"], state["generated_tokens"]), (0, 20))
        after = json.loads(server.ask("GET", "/state?after=17&limit=1")[2])
        self.assertEqual([step["index"] for step in after["steps"]], [19])
        # One who has seen a server that ran before finds out.
        self.assertEqual(json.loads(server.ask("GET", "/state?after=4000")[2])["last_index"], 19)
        self.assertEqual(server.ask("GET", "/state?after=x")[0], 400)
        for query in ("limit=-1", "after=-2", "x=1", "after=0&after=1", "after"):
            self.assertEqual(server.ask("GET", "/state?" + query)[0], 400 if query != "after" else 200, query)

    def test_the_page_needs_no_key_and_nothing_from_elsewhere(self):
        server = Server(program.MINI, "--api-key", "secret")
        self.addCleanup(server.stop)
        status, headers, page = server.ask("GET", "/")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        self.assertEqual(page, (program.ROOT / "src/server/page/page.html").read_bytes())
        self.assertEqual(re.findall(rb'(?:src|href)="(?!data:)[^"]*"|https?://(?!www\.w3\.org/2000/svg)\S+', page), [])
        self.assertEqual(server.ask("GET", "/state")[0], 401)
        self.assertEqual(server.ask("GET", "/state", headers={"Authorization": "Bearer secret"})[0], 200)


if __name__ == "__main__":
    unittest.main()
