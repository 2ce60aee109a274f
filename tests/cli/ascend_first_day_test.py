"""tools/ascend_first_day on the emulator: what it runs, what it packs, and that it goes on after a failure."""
import os
import pathlib
import subprocess
import sys
import tarfile
import time
import unittest

from program import PROGRAM, ROOT, temporary_directory

BUILD = pathlib.Path(PROGRAM).resolve().parents[1]
STEPS = ("environment", "questions", "contract", "kernels", "checkpoints", "tokens", "benchmark")


@unittest.skipUnless((BUILD / "emulator/libascendcl.so").exists(), "the emulator is not built")
class AscendFirstDay(unittest.TestCase):
    def run_day(self, *options, build=BUILD, **variables):
        """Runs the script; gives its result and the directory of results."""
        results = temporary_directory(self) / "day"
        done = subprocess.run([sys.executable, ROOT / "tools/ascend_first_day", "--emulator", "--short", "--build", build,
                               "--results", results, *options], capture_output=True, text=True, timeout=200, check=False,
                              env=dict(os.environ, **variables))
        return done, results

    def test_passes_every_step_and_packs_the_summary_on_top(self):
        done, results = self.run_day()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with tarfile.open(str(results) + ".tar.gz") as archive:
            names = archive.getnames()
            summary = archive.extractfile(names[0]).read().decode()
        self.assertEqual(names[0], "day/summary.txt")
        self.assertIn(f"{len(STEPS)} steps passed, 0 failed", summary)
        for step in STEPS:
            self.assertIn(f"day/{step}.log", names)
            self.assertRegex(summary, rf"\n{step} +[0-9.]+ s  passed\n")
            self.assertIn(f"/{len(STEPS)}] {step}: ", done.stdout)
        for fact in ("answer: Ascend910B3: ", "cases passed, 0 failed", "bench decode: mode piecewise",
                     "bench batch: mode full", "the CPU gives the same text"):
            self.assertIn(fact, summary)

    def test_goes_on_after_a_step_that_fails(self):
        done, results = self.run_day("--only", "environment,questions", ASCEND_LAUNCH_BLOCKING="1")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        summary = (results / "summary.txt").read_text()
        self.assertRegex(summary, r"\nenvironment .* FAILED: ASCEND_LAUNCH_BLOCKING=1: ")
        self.assertRegex(summary, r"\nquestions .* passed\n")

    def test_runs_nothing_else_without_a_device(self):
        done, results = self.run_day("--device", "8")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        summary = (results / "summary.txt").read_text()
        self.assertRegex(summary, r"\nenvironment .* FAILED: there is no ascend:8: ")
        self.assertEqual(summary.count("FAILED: not run without a device"), len(STEPS) - 1)

    def test_tells_the_error_of_a_program(self):
        done, results = self.run_day("--only", "tokens", REPRISE_ACL_PROFILE="310P")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex((results / "summary.txt").read_text(), r"tokens .* exit status 2: error: models cannot run on ")

    def test_names_the_cases_that_fail(self):
        done, results = self.run_day("--only", "questions", REPRISE_ACL_FAULT="stream:3=207008")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex((results / "summary.txt").read_text(), r"failed: OpenQuestions\.\w+")

    def make_build(self, **programs):
        """A directory like a build's, with these scripts for programs."""
        build = temporary_directory(self)
        for path, text in {"src/reprise": "#!/bin/sh\n", **programs}.items():
            (build / path).parent.mkdir(exist_ok=True)
            (build / path).write_text(text)
            (build / path).chmod(0o755)
        return build

    def test_runs_cases_by_themselves_when_one_takes_the_process_down(self):
        # Two of the three pass when nothing dies before them.
        program = f"""#!{sys.executable}
import json, os, sys
names = ["WhatLives", "WhatDies", "WhatLivesToo"]
options = dict(option.partition("=")[::2] for option in sys.argv[1:])
wanted = options["--gtest_filter"]
if "--gtest_list_tests" in options:
    print("Running main() from here\\nOpenQuestions.")
    [print("  " + name) for name in names]
    sys.exit()
if wanted.endswith("*") or wanted.endswith("WhatDies"):
    os.abort()
case = {{"name": wanted.partition(".")[2], "result": "COMPLETED"}}
with open(options["--gtest_output"].partition(":")[2], "w") as file:
    json.dump({{"testsuites": [{{"name": "OpenQuestions", "testsuite": [case]}}]}}, file)
"""
        build = self.make_build(**{"tests/device_test": program})
        done, results = self.run_day("--only", "questions", build=build)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        summary = (results / "summary.txt").read_text()
        self.assertIn("2 cases passed, 1 failed, 0 skipped", summary)
        self.assertIn("failed: OpenQuestions.WhatDies (ends the process)\n", summary)

    def test_ends_what_takes_too_long(self):
        build = self.make_build(**{"src/reprise": "#!/bin/sh\nsleep 100\n"})
        start = time.monotonic()
        done, _ = self.run_day("--only", "environment", "--limit", "1", build=build)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("took more than 1 s and was ended: reprise", done.stdout)
        self.assertLess(time.monotonic() - start, 60)

    def test_refuses_steps_and_builds_that_are_not_there(self):
        for options, message in ((("--only", "tea"), "there is no step 'tea'"), (("--build", "/nowhere"), "build first")):
            done, results = self.run_day(*options)
            self.assertEqual(done.returncode, 2)
            self.assertIn(message, done.stderr)
            self.assertFalse(results.exists())


if __name__ == "__main__":
    unittest.main()
