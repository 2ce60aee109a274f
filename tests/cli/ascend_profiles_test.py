"""Chips that the emulator can be: what `reprise devices` says of each, and whether models run or are refused by name."""
import json
import os
import pathlib
import unittest

from program import MINI, MINI_MOE, PROGRAM, run

EMULATOR = pathlib.Path(PROGRAM).resolve().parents[1] / "emulator"


@unittest.skipUnless((EMULATOR / "libascendcl.so").exists(), "the emulator is not built")
class AscendProfiles(unittest.TestCase):
    def run_on(self, profile, *arguments):
        return run(*arguments, env=dict(os.environ, LD_LIBRARY_PATH=str(EMULATOR), REPRISE_ACL_PROFILE=profile))

    def generate(self, profile, model=MINI):
        return self.run_on(profile, "generate", "-m", model, "-p", "Question: 3 + 4?\nAnswer:", "--max-new-tokens", 8,
                           "--temperature", 0, "--json", "--device", "ascend")

    def features(self, profile):
        done = self.run_on(profile, "devices", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        entry = next(entry for entry in json.loads(done.stdout)["devices"] if entry["name"] == "ascend:0")
        return entry["description"], {feature["name"]: feature for feature in entry["features"]}

    def test_models_give_the_same_tokens_on_a_910b3_and_on_a_950(self):
        for model in (MINI, MINI_MOE):
            texts = []
            for profile, chip in (("910B3", "Ascend910B3"), ("950", "Ascend950PR")):
                description, features = self.features(profile)
                self.assertIn(chip, description)
                self.assertTrue(features["models"]["on"], features["models"])
                done = self.generate(profile, model)
                self.assertEqual(done.returncode, 0, done.stderr)
                texts.append(json.loads(done.stdout.splitlines()[0])["ids"])
            self.assertEqual(texts[0], texts[1])
            self.assertEqual(len(texts[0]), 8)

    def test_a_310p_is_listed_and_models_are_refused_with_what_it_lacks(self):
        description, features = self.features("310P")
        self.assertIn("Ascend310P3", description)
        self.assertFalse(features["models"]["on"])
        self.assertIn("DT_BFLOAT16", features["models"]["reason"])
        self.assertTrue(features["captured graphs"]["on"])
        done = self.generate("310P")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        for part in ("models cannot run on ascend:0", "aclnnScatterPaKvCache", "aclnnFusedInferAttentionScoreV3", "161002",
                     "support for Ascend310P is not implemented", "--device cpu"):
            self.assertIn(part, done.stderr)


if __name__ == "__main__":
    unittest.main()
