"""reprise generate and tokenize as a user calls them."""
import json
import os
import shutil
import signal
import subprocess
import time
import unittest

import program

EXAMPLE = (program.MINI / "example.txt").read_text()
SOLVED = " 6 * 9 = 54. 54 + 24 = 78 candles.\n#### 78"


def generate(*arguments, **options):
    return program.run_well("generate", "-m", program.MINI, *arguments, **options)


class Generate(unittest.TestCase):
    def test_a_prompt_that_fails_leaves_the_others_their_outputs(self):
        directory = program.temporary_directory(self)
        model = directory / "model"
        shutil.copytree(program.MINI, model)
        (token,) = json.loads(program.run_well("tokenize", "-m", model, stdin='{"text": "Z"}').stdout)["ids"]
        # A head of its own, so that NaN in the embedding of one token is in the logits of who has read it.
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
        raw = (model / "model.safetensors").read_bytes()
        data_begin = 8 + int.from_bytes(raw[:8], "little")
        header, data = json.loads(raw[8:data_begin]), bytearray(raw[data_begin:])
        embedding = header["model.embed_tokens.weight"]
        begin, end = embedding["data_offsets"]
        header["lm_head.weight"] = {**embedding, "data_offsets": [len(data), len(data) + end - begin]}
        data += data[begin:end]
        row = (end - begin) // embedding["shape"][0]
        data[begin + token * row:begin + (token + 1) * row] = b"\xff\x7f" * (row // 2)
        text = json.dumps(header).encode()
        (model / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
        texts = ["Question: 2 + 3?", "Z bra", "Tom has 3 apples"]
        (directory / "prompts").write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in texts))
        call = ("--prompts", directory / "prompts", "--json", "--quiet", "-n", 12)
        whole = program.json_lines(program.run_well("generate", "-m", program.MINI, *call).stdout)
        done = program.run("generate", "-m", model, *call)
        self.assertEqual(done.returncode, 1)
        self.assertIn("1 of 3 prompts failed; prompt 1: the model's logit of token 0 is nan", done.stderr)
        outputs = {line["index"]: line for line in program.json_lines(done.stdout)}
        for line in whole:
            if line["index"] != 1:
                self.assertEqual(outputs[line["index"]]["text"], line["text"])
        self.assertEqual(outputs[1]["finish_reason"], "error")

    def test_solves_the_example_with_every_decode_step_replayed(self):
        done = generate("-p", EXAMPLE)
        self.assertEqual(done.stdout.strip(), SOLVED.strip())
        self.assertRegex(done.stderr, r"decode +\d+ tokens, [\d.]+ tokens/s; steps: [1-9]\d* replayed, 0 eager\n")
        self.assertIn("mode      full, bfloat16", done.stderr)
        self.assertIn("captures  ", done.stderr)

    def test_reads_the_prompt_from_standard_input(self):
        self.assertEqual(generate(stdin=EXAMPLE).stdout, generate("-p", EXAMPLE).stdout)

    def test_gives_the_same_text_in_every_mode_and_dtype(self):
        for mode in program.MODES:
            for dtype in ("float32", "bfloat16"):
                with self.subTest(mode=mode, dtype=dtype):
                    done = generate("-p", EXAMPLE, "--mode", mode, "--dtype", dtype, "--poison")
                    self.assertEqual(done.stdout.strip(), SOLVED.strip())
                    if mode != "full":
                        self.assertRegex(done.stderr, r"steps: 0 replayed, [1-9]\d* eager \(mode: \d+\)")

    def test_prompt_steps_of_given_sizes_are_replayed(self):
        for mode in ("full", "piecewise"):
            with self.subTest(mode=mode):
                done = generate("-p", EXAMPLE, "--mode", mode, "--prefill-graph-tokens", "64,16", "--poison")
                self.assertEqual(done.stdout.strip(), SOLVED.strip())
                self.assertRegex(done.stderr, r"prefill +\d+ tokens, [\d.]+ tokens/s; steps: [2-9] replayed, [01] eager")
                self.assertRegex(done.stderr, r"captures .*prefill tokens 64: ")

    def test_json_holds_the_output_and_the_statement(self):
        output, statement = program.json_lines(generate("-p", EXAMPLE, "--json").stdout)
        self.assertEqual(output["text"].strip(), SOLVED.strip())
        self.assertEqual(output["finish_reason"], "stop")
        self.assertGreater(output["prompt_tokens"], 100)
        statement = statement["statement"]
        self.assertEqual(statement["decode_steps"]["replayed"], len(output["ids"]) - 1)
        self.assertEqual(sum(statement["decode_steps"].values()), len(output["ids"]) - 1)
        self.assertEqual([capture["failure"] for capture in statement["captures"]], [""])

    def test_a_batch_gives_what_each_prompt_gives_alone(self):
        directory = program.temporary_directory(self)
        prompts = [EXAMPLE, EXAMPLE[EXAMPLE.index("Question: Finn"):], "Question: Ada has 4 coins.", "x"]
        lines = [json.dumps({"prompt": prompts[0]}), json.dumps(prompts[1]), "", json.dumps({"text": prompts[2]}),
                 json.dumps(prompts[3])]
        (directory / "prompts.jsonl").write_text("\n".join(lines))
        done = generate("--prompts", directory / "prompts.jsonl", "--json", "-n", 24)
        outputs = {line["index"]: line for line in program.json_lines(done.stdout)[:-1]}
        self.assertEqual(sorted(outputs), [0, 1, 2, 3])
        for i, prompt in enumerate(prompts):
            alone = program.json_lines(generate("-p", prompt, "--json", "-n", 24).stdout)[0]
            self.assertEqual(outputs[i]["ids"], alone["ids"])

    def test_a_seed_repeats_what_was_sampled(self):
        arguments = ("-p", EXAMPLE, "--temperature", 2, "--ignore-eos", "-n", 40, "--quiet")
        first = generate(*arguments, "--seed", 7)
        self.assertEqual(first.stdout, generate(*arguments, "--seed", 7, "--mode", "eager").stdout)
        self.assertNotEqual(first.stdout, generate(*arguments, "--seed", 8).stdout)
        self.assertEqual(first.stderr, "")

    def test_stop_strings_end_the_text_before_them(self):
        output = program.json_lines(generate("-p", EXAMPLE, "--json", "--stop", "54 +", "--stop", "####").stdout)[0]
        self.assertEqual((output["text"], output["stop"], output["finish_reason"]), (" 6 * 9 = 54. ", "54 +", "stop"))

    def test_the_statement_tells_what_ended_a_single_prompt(self):
        for end, *arguments in (("29 tokens, then an end token",), ("2 tokens, then the limit", "-n", 2),
                                (r'\d+ tokens, then the stop string "54 \+"', "--stop", "54 +")):
            with self.subTest(end=end):
                self.assertRegex(generate("-p", EXAMPLE, *arguments).stderr, f"\noutput    {end}\n")

    def test_a_limit_that_does_not_fit_is_told(self):
        call = ("generate", "-m", program.MINI, "-p", "1 + 1 =", "--max-context", 16, "-n")
        self.assertRegex(program.run_well(*call, 5000).stderr,
                         r"--max-new-tokens is 5000, but behind (\d+) prompt tokens the context of 16 has room for \d+")
        self.assertNotIn("has room for", program.run_well(*call, 3).stderr)

    def test_a_terminal_is_told_that_standard_input_is_read(self):
        master, slave = os.openpty()
        os.write(master, b"1 + 1 =\n\x04")
        done = subprocess.run([program.PROGRAM, "generate", "-m", str(program.MINI), "-n", "1"], stdin=slave,
                              capture_output=True, text=True, check=True, timeout=60)
        os.close(master)
        os.close(slave)
        self.assertIn("reading standard input up to its end (Ctrl-D)\n", done.stderr)

    def test_logprobs_are_those_of_the_chosen_tokens(self):
        output = program.json_lines(generate("-p", EXAMPLE, "--json", "--logprobs", 2, "-n", 4).stdout)[0]
        self.assertEqual([position["id"] for position in output["logprobs"]], output["ids"])
        for position in output["logprobs"]:
            self.assertEqual(position["top"][0]["id"], position["id"])
            self.assertLessEqual(position["top"][0]["logprob"], 0)
            self.assertGreaterEqual(position["top"][0]["logprob"], position["top"][1]["logprob"])

    def test_an_interrupt_ends_it_cleanly_with_the_statement(self):
        with subprocess.Popen([program.PROGRAM, "generate", "-m", program.MINI, "-p", "Question:", "-n", "2000",
                               "--ignore-eos"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.read(10)
            process.send_signal(signal.SIGINT)
            start = time.monotonic()
            _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertLess(time.monotonic() - start, 30)
        self.assertIn(b"replayed, 0 eager", errors)
        self.assertIn(b" tokens, then an interrupt\n", errors)
        self.assertTrue(errors.endswith(b"error: interrupted\n"), errors)

    def test_a_reader_that_goes_away_ends_it_quietly(self):
        with subprocess.Popen([program.PROGRAM, "generate", "-m", program.MINI, "-p", EXAMPLE, "--ignore-eos", "-n",
                               "500"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.read(1)
            process.stdout.close()
            errors = process.stderr.read()
            process.wait(60)
        self.assertEqual(process.returncode, -signal.SIGPIPE)
        self.assertEqual(errors, b"")

    def test_a_full_disk_is_reported(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([program.PROGRAM, "generate", "-m", program.MINI, "-p", EXAMPLE], stdout=full,
                                  stderr=subprocess.PIPE, timeout=60, check=False)
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"cannot write to standard output: No space left on device", done.stderr)


class Tokenize(unittest.TestCase):
    TEXTS = ["Question: Ada has 15 coins.", "e\u0301 \u00e9 \U0001f642 \ud55c\uae00", "", " two  spaces\n", "<|im_end|>"]

    def test_ids_decode_to_the_text(self):
        lines = "".join(json.dumps({"text": text}) + "\n" for text in self.TEXTS)
        encoded = program.json_lines(program.run_well("tokenize", "-m", program.MINI, stdin=lines).stdout)
        self.assertEqual(len(encoded), len(self.TEXTS))
        for text, line in zip(self.TEXTS, encoded):
            # The tokenizer normalises to NFC.
            self.assertEqual(line["decoded"], text.replace("e\u0301", "\u00e9"))
        ids = "".join(json.dumps({"ids": line["ids"]}) + "\n" + json.dumps(line["ids"]) + "\n" for line in encoded)
        decoded = program.json_lines(program.run_well("tokenize", "-m", program.MINI, "--decode", stdin=ids).stdout)
        self.assertEqual([line["text"] for line in decoded[::2]], [line["decoded"] for line in encoded])
        self.assertEqual(decoded[::2], decoded[1::2])

    def test_needs_only_the_tokenizer(self):
        directory = program.temporary_directory(self)
        (directory / "tokenizer.json").write_bytes((program.MINI / "tokenizer.json").read_bytes())
        done = program.run_well("tokenize", "-m", directory, stdin='{"text": "a b"}\n')
        self.assertEqual(program.json_lines(done.stdout)[0]["decoded"], "a b")

    def test_bad_lines_are_named(self):
        for bad in ("{", "[1]", '{"text": 5}'):
            done = program.run("tokenize", "-m", program.MINI, stdin='{"text": "a"}\n' + bad + "\n")
            self.assertEqual(done.returncode, 3)
            self.assertIn("line 2", done.stderr)
        done = program.run("tokenize", "-m", program.MINI, "--decode", stdin="[1, -1]\n")
        self.assertEqual(done.returncode, 3)
        self.assertIn("line 1", done.stderr)


if __name__ == "__main__":
    unittest.main()
