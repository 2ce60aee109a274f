"""reprise quantize: what it writes runs in every mode, near the float model."""
import json
import math
import unittest

import program

DATA = program.MINI / "test.jsonl"
STATIC = ("--scheme", "w8a8", "--calibrate", DATA, "--calibration-texts", 32)
FORMS = {"dynamic": (), "static": STATIC, "compressed-tensors": ("--format", "compressed-tensors"),
         "with the head": ("--head",)}


class Quantize(unittest.TestCase):
    def setUp(self):
        self.directory = program.temporary_directory(self)

    def quantize(self, *arguments, model=program.MINI, name="out"):
        return program.run_well("quantize", "-m", model, "-o", self.directory / name, *arguments)

    def logits(self, model, mode):
        (self.directory / "ids.json").write_text(json.dumps([5, 90, 17, 300, 44, 8, 61]))
        output = self.directory / "logits.safetensors"
        program.run_well("logits", "-m", model, "--ids", self.directory / "ids.json", "--mode", mode, "-o", output)
        return program.read_safetensors(output)["logits"][1]

    def test_every_form_runs_near_the_float_model_with_equal_bits_in_every_mode(self):
        exact = self.logits(program.MINI, "full")
        for name, arguments in FORMS.items():
            with self.subTest(form=name):
                done = self.quantize(*arguments, name=name)
                self.assertRegex(done.stdout, r"model\.layers\.0\.mlp\.down_proj +W8A8_DYNAMIC +0\.9999\d\d")
                first = self.logits(self.directory / name, "eager")
                cosine = math.fsum(map(float.__mul__, first, exact))
                cosine /= math.hypot(*first) * math.hypot(*exact)
                self.assertGreater(cosine, 0.999)
                self.assertLess(cosine, 1)
                for mode in program.MODES[1:]:
                    self.assertEqual(self.logits(self.directory / name, mode).tobytes(), first.tobytes(), mode)

    def test_the_quantised_bundled_model_still_solves_the_first_problems(self):
        for name, arguments in FORMS.items():
            with self.subTest(form=name):
                self.quantize(*arguments, name=name)
                done = program.run_well("eval", "gsm8k", "-m", self.directory / name, "--data", DATA,
                                        "--num-questions", 20)
                self.assertRegex(done.stdout, r"(19|20) of 20 right")

    def test_a_quantised_model_with_experts_still_solves_the_first_problems(self):
        for name, arguments in FORMS.items():
            with self.subTest(form=name):
                done = self.quantize(*arguments, model=program.MINI_MOE, name=name)
                self.assertRegex(done.stdout, r"model\.layers\.0\.mlp\.experts\.7\.up_proj +W8A8_DYNAMIC +0\.9999\d\d")
                done = program.run_well("eval", "gsm8k", "-m", self.directory / name, "--data", DATA,
                                        "--num-questions", 20)
                self.assertRegex(done.stdout, r"(19|20) of 20 right")

    def test_options_that_do_not_go_together_are_refused(self):
        cases = {("--scheme", "w8a8"): "--calibrate",
                 ("--scheme", "w8a8", "--format", "compressed-tensors", "--calibrate", DATA): "each token only",
                 ("--ignore", "nothing"): "nothing", ("--ignore", "("): "does not compile",
                 ("--ignore", ".*q_proj"): "computed with it", ("--ignore", ""): "no layer is left",
                 ("--calibration-texts", 5): "there are none", ("--dtype", "float32"): "--dtype says how",
                 ("--threads", 7): "--threads says how", ("--scheme", "w4a8"): "w4a8", ("--calibration-texts", 0): "at least 1"}
        for arguments, message in cases.items():
            with self.subTest(arguments=arguments):
                done = program.run("quantize", "-m", program.MINI, "-o", self.directory / "out", *arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(message, done.stderr)
                self.assertFalse((self.directory / "out").exists())

    def test_a_model_that_is_not_there_is_not_looked_for_in_the_parent(self):
        done = program.run("quantize", "-m", "nowhere", "-o", self.directory / "out", cwd=program.MINI)
        self.assertEqual(done.returncode, 3)
        self.assertIn("there is no model at nowhere", done.stderr)

    def test_a_directory_that_holds_a_model_is_left_alone(self):
        self.quantize()
        done = program.run("quantize", "-m", program.MINI, "-o", self.directory / "out")
        self.assertEqual(done.returncode, 2)
        self.assertIn("already holds a model", done.stderr)

    def test_the_directory_is_looked_at_before_the_texts(self):
        (self.directory / "file").write_text("")
        for output, message in ((program.MINI, "already holds a model"), ("", "has no name"), (self.directory / "file" / "x", "is none")):
            done = program.run("quantize", "-m", program.MINI, "-o", output, "--scheme", "w8a8", "--calibrate",
                               self.directory / "nowhere.txt")
            self.assertIn(message, done.stderr)
        done = program.run("quantize", "-m", program.MINI, "-o", self.directory / "out", "--calibrate",
                           self.directory / "nowhere.txt")
        self.assertEqual(done.returncode, 3)
        self.assertIn("nowhere.txt", done.stderr)
        self.assertFalse((self.directory / "out").exists())

    def test_the_outputs_of_each_layer_are_compared_on_texts(self):
        texts = ("--calibrate", DATA, "--calibration-texts", 4)
        for model, arguments in ((program.MINI, ()), (program.MINI, ("--scheme", "w8a8")), (program.MINI_MOE, ())):
            name = f"{model.name}{len(arguments)}"
            report = self.quantize(*texts, *arguments, model=model, name=name).stdout.splitlines()
            self.assertRegex(report[0], r"layer +scheme +cosine +max error +outputs +max error +of max")
            rows = {line.split()[0]: line.split() for line in report[1:]}
            for layer, row in rows.items():
                if ".experts." in layer and not layer.endswith(("gate_up_proj", ".experts.down_proj")):
                    self.assertEqual(len(row), 4, "a single expert's weights")
                    continue
                cosine, largest, of = map(float, row[-3:])
                self.assertGreater(cosine, 0.999, layer)
                self.assertLess(cosine, 1, layer)
                self.assertGreater(largest, 0, layer)
                self.assertLess(largest, of / 4, layer)
            self.assertIn("model.layers.0.self_attn.k_proj", rows)
            expected = "experts.gate_up_proj" if model is program.MINI_MOE else "down_proj"
            self.assertIn("model.layers.1.mlp." + expected, rows)


if __name__ == "__main__":
    unittest.main()
