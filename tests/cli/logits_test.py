"""Logits of the reference checkpoints: near the reference in both dtypes, and the same bits in every mode however the
prompt is cut."""
import json
import math
import unittest

import program

FORMS = {"in one piece": (), "in chunks of 1": ("--chunk", "1"), "in chunks of 5": ("--chunk", "5"),
         "in chunks of 16": ("--chunk", "16"), "token by token": ("--decode",)}
TOLERANCE = {"float32": 1e-4, "bfloat16": 5e-2}


def deviation(values):
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))


class Logits(unittest.TestCase):
    def check(self, checkpoint, dtype):
        directory = program.temporary_directory(self)
        reference = program.read_safetensors(program.CHECKPOINTS / checkpoint / "expected.safetensors")
        for case in range(len(reference) // 2):
            ids = list(reference[f"ids_{case}"][1])
            (rows, vocabulary), expected = reference[f"logits_{case}"]
            (directory / "ids.json").write_text(json.dumps(ids))
            first = None
            for mode in program.MODES:
                for form, arguments in FORMS.items():
                    with self.subTest(case=case, mode=mode, form=form):
                        output = directory / "logits.safetensors"
                        done = program.run_well("logits", "-m", program.CHECKPOINTS / checkpoint, "--ids",
                                                directory / "ids.json", "--dtype", dtype, "--mode", mode, "-o", output,
                                                *arguments)
                        shape, logits = program.read_safetensors(output)["logits"]
                        self.assertEqual(shape, [len(ids), vocabulary])
                        if mode == "full" and form == "token by token":
                            self.assertIn(f"{len(ids)} replayed, 0 eager", done.stderr)
                        if first is None:
                            first = logits
                            last_rows = logits[-rows * vocabulary:]
                            differences = [abs(a - b) for a, b in zip(last_rows, expected, strict=True)]
                            if dtype == "bfloat16" and "w8a8" in checkpoint:
                                # Single activations fall to another int8 than in float32.
                                error = math.sqrt(math.fsum(d * d for d in differences) / len(differences))
                            else:
                                error = max(differences)
                            self.assertLess(error, TOLERANCE[dtype] * deviation(expected))
                        self.assertEqual(logits.tobytes(), first.tobytes())


def add_tests():
    for checkpoint in ("dense", "dense-tied-bias", "dense-yarn", "dense-sharded", "dense-mixed-dtype",
                       "dense-w8a8-static", "dense-w8a8-dynamic", "dense-w8a8-ct"):
        for dtype in TOLERANCE:
            name = f"test_{checkpoint.replace('-', '_')}_in_{dtype}"
            setattr(Logits, name, lambda self, c=checkpoint, d=dtype: self.check(c, d))


add_tests()

if __name__ == "__main__":
    unittest.main()
