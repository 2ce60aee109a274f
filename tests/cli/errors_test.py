"""Wrong calls: the documented exit codes, and messages that name what is wrong."""
import json
import resource
import shutil
import unittest

import program


class Errors(unittest.TestCase):
    def fails(self, code, message, *arguments, **options):
        done = program.run(*arguments, **options)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(message, done.stderr)
        self.assertEqual(done.stdout, "")

    def generate_fails(self, code, message, *arguments, **options):
        self.fails(code, message, "generate", "-m", program.MINI, "-p", "x", *arguments, **options)

    def test_help_and_version_succeed_everywhere(self):
        self.assertRegex(program.run_well("--version").stdout, r"^reprise \d+\.\d+\.\d+\n$")
        for command in ([], ["generate"], ["logits"], ["tokenize"], ["synth"], ["graph"], ["eval"], ["eval", "gsm8k"],
                        ["bench"], ["bench", "decode"], ["bench", "prefill"], ["bench", "replay"], ["bench", "batch"]):
            with self.subTest(command=command):
                self.assertIn("--help", program.run_well(*command, "--help").stdout)
        self.assertIn("Exit codes: 0 success", program.run_well("--help").stdout)

    def test_wrong_options_are_named(self):
        self.fails(2, "generate")
        self.fails(2, "decode", "bench")
        self.fails(2, "nosuch", "nosuch")
        self.fails(2, "there is no command 'generat' (did you mean 'generate'?)", "generat", "-p", "x")
        self.fails(2, "there is no command 'decod' (did you mean 'decode'?)", "bench", "decod")
        self.fails(2, "--model is required", "generate", "-p", "x")
        self.generate_fails(2, "--bogus", "--bogus")
        self.generate_fails(2, "--mode", "--mode", "fast")
        self.generate_fails(2, "--mode: static not in", "--mode", "static")
        self.generate_fails(2, "error: --option: 'x' is not of the form NAME=VALUE", "--option", "x")
        self.generate_fails(2, "(did you mean 'pattern_fusion_pass'?)", "--option", "pattern_fusion=false")
        for mode in ("full", "eager"):
            self.generate_fails(2, "there is no pass 'swigl' to disable (did you mean 'swiglu'?)", "--mode", mode,
                                "--disable-pass", "swigl")
            self.generate_fails(3, "cannot write into the debug directory", "--mode", mode, "--debug-dir", "/proc/none")
        self.generate_fails(2, "--dtype", "--dtype", "int8")
        self.generate_fails(2, "--threads", "--threads", "-1")
        self.generate_fails(2, "--threads", "--threads", "many")
        self.generate_fails(2, "--max-running", "--max-running", "0")
        self.generate_fails(2, "--page-size", "--page-size", "0")
        self.generate_fails(2, "--max-context is 5000", "--max-context", "5000")
        self.generate_fails(2, "--max-prefill-tokens is 0", "--max-prefill-tokens", "0")
        self.generate_fails(2, "size 0", "--prefill-graph-tokens", "0")
        self.generate_fails(2, "size 64 is given twice", "--prefill-graph-tokens", "64,64")
        self.generate_fails(2, "size 513 exceeds max_prefill_tokens", "--prefill-graph-tokens", "64,513")
        self.generate_fails(2, "--mode force_eager does not", "--mode", "force_eager", "--prefill-graph-tokens", "64")
        self.generate_fails(2, "not both", "--prompts", "x.jsonl")

    def test_sampling_parameters_out_of_range_are_named(self):
        for name, value in (("temperature", "-1"), ("temperature", "nan"), ("top-p", "0"), ("top-p", "1.0001"),
                            ("min-p", "2"), ("top-k", "-2"), ("repetition-penalty", "0"), ("presence-penalty", "3"),
                            ("frequency-penalty", "-3"), ("logprobs", "21"), ("max-new-tokens", "-1"), ("stop", "")):
            with self.subTest(name=name, value=value):
                field = "stop" if name == "stop" else name.replace("-", "_")
                self.generate_fails(2, field, f"--{name}={value}")

    def test_prompts_that_cannot_run_are_refused(self):
        self.fails(2, "prompt has no tokens", "generate", "-m", program.MINI, "-p", "")
        self.fails(2, "2048", "generate", "-m", program.MINI, "-p", "1 " * 3000)
        directory = program.temporary_directory(self)
        (directory / "bad.jsonl").write_text('"a"\n{"prompt": 5}\n')
        self.fails(3, "line 2", "generate", "-m", program.MINI, "--prompts", directory / "bad.jsonl")
        (directory / "empty.jsonl").write_text("\n")
        self.fails(2, "no prompt", "generate", "-m", program.MINI, "--prompts", directory / "empty.jsonl")
        self.fails(3, "absent.jsonl", "generate", "-m", program.MINI, "--prompts", directory / "absent.jsonl")

    def test_misspelled_options_are_met_with_the_right_one(self):
        self.fails(2, "'--mode' (did you mean '--modes'?)", "bench", "decode", "-m", program.MINI, "--mode", "full")
        self.fails(2, "'--modes' (did you mean '--mode'?)", "generate", "-m", program.MINI, "-p", "x", "--modes", "full")

    def test_missing_and_broken_models_are_named(self):
        directory = program.temporary_directory(self)
        self.fails(3, "there is no model at", "generate", "-m", directory / "absent", "-p", "x")
        self.fails(3, "config.json", "generate", "-m", directory, "-p", "x")
        model = directory / "model"
        shutil.copytree(program.CHECKPOINTS / "dense", model)
        ids = directory / "ids.json"
        ids.write_text("[1, 2]")
        call = ("logits", "-m", model, "--ids", ids, "-o", directory / "out.safetensors")
        program.run_well(*call)
        config = json.loads((model / "config.json").read_text())

        def with_config(**changes):
            (model / "config.json").write_text(json.dumps({**config, **changes}))

        with_config(hidden_size="many")
        self.fails(3, "hidden_size", *call)
        with_config(architectures=["OtherForCausalLM"], model_type="other")
        self.fails(2, "other", *call)
        with_config(num_hidden_layers=3)
        self.fails(3, "model.layers.2", *call)
        (model / "config.json").write_text("{")
        self.fails(3, "config.json is not valid JSON: it ends after 1 bytes", *call)
        self.fails(2, "ids.json is neither a model's directory nor a .safetensors file", "generate", "-m", ids, "-p", "x")
        empty = directory / "empty"
        empty.mkdir()
        for command in ("chat", "render"):
            self.fails(3, "empty: it has neither config.json nor tokenizer.json", command, "-m", empty, stdin="{}")
        with_config()
        weights = (model / "model.safetensors").read_bytes()
        (model / "model.safetensors").write_bytes(weights[:-1])
        self.fails(3, "model.safetensors", *call)

    def test_ids_that_are_none_are_refused(self):
        directory = program.temporary_directory(self)
        ids = directory / "ids.json"
        call = ("logits", "-m", program.CHECKPOINTS / "dense", "--ids", ids, "-o", directory / "out.safetensors")
        self.fails(3, "ids.json", *call)
        for bad in ("", "{}", "[]", "[1.5]", '["a"]', "[-1]"):
            ids.write_text(bad)
            self.fails(3, "ids.json", *call)
        ids.write_text("[512]")
        self.fails(2, "512", *call)
        ids.write_text("[1, 2, 3]")
        self.fails(2, "chunk", *call, "--chunk", "-1")
        self.fails(2, "chunk", *call, "--chunk", "1000")

    def test_what_cannot_be_written_is_exit_code_3(self):
        directory = program.temporary_directory(self)
        (directory / "ids.json").write_text("[1, 2, 3, 4]")
        call = ("logits", "-m", program.CHECKPOINTS / "dense", "--ids", directory / "ids.json", "-o")
        self.fails(3, "absent", *call, directory / "absent/out.safetensors")
        self.fails(3, "not a regular file", *call, directory)
        self.fails(3, "not a regular file", *call, "/dev/null")
        full = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024)),
                "restore_signals": False}  # which leaves SIGXFSZ ignored, so that the write fails instead
        self.fails(3, "out.safetensors", *call, directory / "out.safetensors", **full)
        self.assertEqual([path.name for path in directory.iterdir()], ["ids.json"])


if __name__ == "__main__":
    unittest.main()
