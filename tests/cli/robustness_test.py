"""What a clumsy or hostile caller may do: odd numbers, closed and full streams, files that are not what they seem. The
program says what is wrong with the documented exit code; nothing is taken for something else."""
import json
import os
import shutil
import signal
import subprocess
import time
import unittest

import program

PROMPT = "Question: Tom has 3 apples and buys 4 more. How many apples does he have?\nAnswer:"


class Robustness(unittest.TestCase):
    def fails(self, code, message, *arguments, **options):
        done = program.run(*arguments, **options)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(message, done.stderr)

    def generate_fails(self, code, message, *arguments, **options):
        self.fails(code, message, "generate", "-m", program.MINI, "-p", PROMPT, *arguments, **options)

    def test_numbers_are_plain_decimal_ones_in_range(self):
        for name, value in (("--max-new-tokens", ""), ("--max-new-tokens", "1e3"), ("--max-new-tokens", "0x10"),
                            ("--max-new-tokens", "99999999999"), ("--max-new-tokens", " 5"),
                            ("--max-new-tokens", "+-5"), ("--temperature", ""), ("--temperature", "1e999"),
                            ("--top-k", ""), ("--top-k", "2147483648"),
                            ("--seed", ""), ("--seed", "-1"), ("--seed", "18446744073709551616"), ("--seed", "1.5"),
                            ("--graph-bs", "x"), ("--graph-bs", "1,010x"), ("--logprobs", "")):
            with self.subTest(name=name, value=value):
                self.generate_fails(2, f"{name}: '{value.split(',')[-1]}' is not", name, value)
        for numbers in ("64,,32", ",1", "1,", ","):
            with self.subTest(numbers=numbers):
                self.generate_fails(2, "--graph-bs: '' is not", "--graph-bs", numbers)
        seeds = [program.json_lines(program.run_well("generate", "-m", program.MINI, "-p", PROMPT, "-n", "02", "--json",
                                                     "--seed", seed).stdout)[0]["seed"]
                 for seed in ("010", "+7", "18446744073709551615")]
        self.assertEqual(seeds, [10, 7, 2**64 - 1])

    def test_faults_of_arguments_begin_like_all_others(self):
        for message, *arguments in (("error: there is no option '--max-new-token' (did you mean '--max-new-tokens'?)",
                                     "--max-new-token=3"),
                                    ("error: there is no option '--bogus' (--help lists them)", "--bogus"),
                                    ("error: --mode: fast not in {eager,", "--mode", "fast"),
                                    ("error: --top-k: '' is not an integer", "--top-k", "")):
            with self.subTest(arguments=arguments):
                done = program.run("generate", "-m", program.MINI, "-p", PROMPT, *arguments)
                self.assertEqual(done.returncode, 2)
                self.assertTrue(done.stderr.startswith(message), done.stderr)

    def test_texts_are_taken_as_they_are(self):
        for stop in ("[4]", "[a,b]", "a,b", "-n", "--json", '"', "'", "\\n", "%s{}"):
            with self.subTest(stop=stop):
                call = ("-n", "8", "--ignore-eos", "--quiet", "--logprobs", "0")
                plain = program.run_well("generate", "-m", program.MINI, "-p", PROMPT + stop, *call).stdout
                read = program.run_well("generate", "-m", program.MINI, *call, stdin=PROMPT + stop).stdout
                self.assertEqual(plain, read)
                self.assertEqual(
                    program.run_well("generate", "-m", program.MINI, "-p", PROMPT + stop, *call, "--stop", stop,
                                     "--stop", "zzz").stdout, plain)
                self.assertTrue(
                    program.run_well("tokenize", "-m", program.MINI, stdin=json.dumps({"text": stop})).stdout.endswith(
                        f'"decoded":{json.dumps(stop)}}}\n'))

    def test_engine_options_out_of_range_are_named(self):
        for option, field, value in (("page-size", "page-size", 0), ("page-size", "page-size", -1),
                                     ("page-size", "page-size", 65537), ("max-context", "max-context", -1),
                                     ("max-prefill-tokens", "max-prefill-tokens", 0),
                                     ("retrace-every", "retrace-every", -1)):
            with self.subTest(option=option, value=value):
                self.generate_fails(2, field, f"--{option}={value}")

    def test_largest_limits_cost_nothing(self):
        done = program.run_well("generate", "-m", program.MINI, "-p", PROMPT, "-n", "3", "--max-prefill-tokens",
                                2**31 - 1, "--max-running", 2**20, "--graph-max-bs", 2**31 - 1, timeout=30)
        self.assertIn("2 replayed, 0 eager", done.stderr)
        self.generate_fails(2, "--graph-bs is 2147483647", "--graph-bs", 2**31 - 1)

    def test_a_lost_standard_error_changes_nothing_else(self):
        call = [program.PROGRAM, "generate", "-m", str(program.MINI), "-p", PROMPT, "-n", "3"]
        expected = program.run_well(*call[1:]).stdout
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run(call, stdout=subprocess.PIPE, stderr=full, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, expected))
        done = subprocess.run(["sh", "-c", '"$@" 2>&-', "sh", *call], stdout=subprocess.PIPE, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, expected))
        done = subprocess.run(["sh", "-c", '"$@" 2>&- >&-', "sh", *call], check=False)
        self.assertEqual(done.returncode, 3)

    def test_messages_never_land_in_a_file_of_the_program(self):
        directory = program.temporary_directory(self)
        (directory / "ids.json").write_text("[1, 2, 3]")
        call = ("logits", "-m", program.MINI, "--ids", directory / "ids.json", "-o")
        program.run_well(*call, directory / "open.safetensors")
        command = [program.PROGRAM, *map(str, call), str(directory / "closed.safetensors")]
        done = subprocess.run(["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *command], check=False)
        self.assertEqual(done.returncode, 0)
        self.assertEqual((directory / "closed.safetensors").read_bytes(), (directory / "open.safetensors").read_bytes())

    def test_output_that_cannot_be_written_is_exit_code_3(self):
        for arguments in (["--help"], ["--version"], ["generate", "--help"], ["graph", "-m", program.MINI],
                          ["generate", "-m", program.MINI, "-p", PROMPT, "-n", "3"]):
            with self.subTest(arguments=arguments), open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([program.PROGRAM, *map(str, arguments)], stdout=full, stderr=subprocess.PIPE,
                                      check=False)
                self.assertEqual(done.returncode, 3, done.stderr)

    def test_links_in_a_circle_are_bad_files(self):
        directory = program.temporary_directory(self)
        for name in ("config.json", "model.safetensors", "tokenizer.json", "generation_config.json"):
            with self.subTest(name=name):
                model = directory / name
                shutil.copytree(program.MINI, model)
                os.remove(model / name)
                os.symlink(name, model / name)
                self.fails(3, name, "generate", "-m", model, "-p", PROMPT)

    def test_a_file_in_the_working_directory_needs_no_path(self):
        whole = program.run_well("generate", "-m", program.MINI, "-p", PROMPT, "-n", "3", "--quiet")
        for name in (".", "model.safetensors", "./model.safetensors"):
            with self.subTest(name=name):
                done = program.run_well("generate", "-m", name, "-p", PROMPT, "-n", "3", "--quiet", cwd=program.MINI)
                self.assertEqual(done.stdout, whole.stdout)

    def test_lines_of_prompts_say_what_is_wrong_with_which(self):
        prompts = program.temporary_directory(self) / "prompts.jsonl"
        call = ("generate", "-m", program.MINI, "-n", "2", "--prompts")
        prompts.write_text('{"prompt": "Question: 1"}\n\n{"prompt": ""}\n')
        self.fails(2, "prompt 1: ", *call, prompts)
        prompts.write_text('{"prompt": "Question: 1", "temperature": 1, "text": "Question: 2"}\r\n\r\n"Question: 3"')
        done = program.run_well(*call, prompts)
        self.assertIn("temperature, text", done.stderr)
        self.assertIn("--- 1: length (2 tokens)", done.stdout)
        self.fails(3, "cannot open", *call, "")
        self.fails(3, 'line 1: expected {"text": "..."}', "tokenize", "-m", program.MINI, stdin="[]")

    def test_options_without_effect_are_named(self):
        call = ("generate", "-m", program.MINI, "-p", PROMPT, "-n", "2")
        self.assertIn("--top-p, --min-p", program.run_well(*call, "--top-p", "0.5", "--min-p", "0.1").stderr)
        self.assertNotIn("--top-p", program.run_well(*call, "--top-p", "0.5", "--temperature", "1").stderr)
        self.assertIn("REPRISE_LOG", program.run_well(*call, env={**os.environ, "REPRISE_LOG": "loud"}).stderr)

    def test_an_interrupted_synth_leaves_no_file_behind(self):
        directory = program.temporary_directory(self)
        call = [program.PROGRAM, "synth", "qwen3-0.6b", str(directory / "model")]
        with subprocess.Popen(call, stderr=subprocess.PIPE, text=True) as running:
            partial = directory / "model/model.safetensors.partial"
            while running.poll() is None and not partial.exists():
                time.sleep(0.01)
            running.send_signal(signal.SIGINT)
            errors = running.communicate(timeout=60)[1]
        self.assertEqual(running.returncode, 130, errors)
        self.assertIn("interrupted", errors)
        self.assertEqual([path.name for path in directory.rglob("*.safetensors*")], [])

    def test_graph_shows_the_batch_that_was_asked_for(self):
        def graph(*arguments):
            return program.run_well("graph", "-m", program.MINI, *arguments).stdout

        self.assertIn("symbol s1 sequences [1, 64]", graph("--batch", "64"))
        self.assertIn("symbol s1 sequences [1, 32]", graph())
        self.assertTrue(graph("--program", "40").startswith("captured graph"))
        for code, message, arguments in ((2, "--program", ("--program", "-1")), (2, "--batch", ("--batch", "0")),
                                         (2, "--batch", ("--batch", 2**31 - 1)),
                                         (2, "--dot", ("--program", "1", "--dot")),
                                         (2, "eager", ("--program", "1", "--mode", "eager"))):
            with self.subTest(arguments=arguments):
                self.fails(code, message, "graph", "-m", program.MINI, *arguments)

    def test_the_statement_of_logits_counts_tokens(self):
        directory = program.temporary_directory(self)
        (directory / "ids.json").write_text("[1, 2, 3, 4, 5]")
        call = ("logits", "-m", program.MINI, "--ids", directory / "ids.json", "-o", directory / "out.safetensors")
        self.assertRegex(program.run_well(*call, "--chunk", "2").stderr, r"prefill +5 tokens, .* 3 eager")
        self.assertRegex(program.run_well(*call, "--decode").stderr, r"decode +5 tokens, .* 5 replayed")

    def test_the_statement_names_the_kernels(self):
        done = program.run_well("generate", "-m", program.MINI, "-p", PROMPT, "-n", "2",
                                env={**os.environ, "REPRISE_CPU_ISA": "portable"})
        self.assertIn("portable kernels", done.stderr)


if __name__ == "__main__":
    unittest.main()
