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
        cases = {("--scheme", "w8a8"): "--calibrate", ("--calibrate", DATA): "w8a8-dynamic",
                 ("--scheme", "w8a8", "--format", "compressed-tensors", "--calibrate", DATA): "each token only",
                 ("--ignore", "nothing"): "nothing", ("--ignore", "("): "does not compile",
                 ("--scheme", "w4a8"): "w4a8"}
        for arguments, message in cases.items():
            with self.subTest(arguments=arguments):
                done = program.run("quantize", "-m", program.MINI, "-o", self.directory / "out", *arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(message, done.stderr)
                self.assertFalse((self.directory / "out").exists())

    def test_a_directory_that_holds_a_model_is_left_alone(self):
        self.quantize()
        done = program.run("quantize", "-m", program.MINI, "-o", self.directory / "out")
        self.assertEqual(done.returncode, 2)
        self.assertIn("already holds a model", done.stderr)


if __name__ == "__main__":
    unittest.main()
