"""Faults of the Ascend device at every place where a generation of 20 tokens can meet one: it ends with the right text,
or with an error and its exit code, and leaves nothing behind.

python3 tests/cli/ascend_fault_test.py [--all [KIND ...]] [--jobs N]   meets all of them and reports what came of each
"""
import argparse
import collections
import concurrent.futures
import json
import re
import subprocess
import sys
import tempfile
import unittest

import ascend
import program

PROMPT = "Question: Ada has 15 coins and gives 6 of them to Qian. How many coins are left?\nAnswer:"
ARGUMENTS = ("generate", "-m", str(program.MINI), "--dtype", "bfloat16", "--device", "ascend", "-p", PROMPT, "-n", "20",
             "--temperature", "0", "--json")
# What each word counts, by the keys of REPRISE_ACL_FAULT_COUNT.
KINDS = {kind: kind for kind in ("context", "malloc", "stream", "event", "copy", "launch", "capture", "replay", "update",
                                 "sync", "operator", "any")} | {"device": "kernel", "timeout": "kernel"}
# Exit codes of errors: of Reprise or the device, of what is not there, of a file, of memory and other resources.
EXIT_CODES = (1, 2, 3, 4)
# A run takes a fifth of a second, and a wait for the device at most a second more.
TIME_LIMIT = 60


def generate(*arguments, fault="", **settings):
    return program.run(*ARGUMENTS, *arguments, timeout=TIME_LIMIT,
                       env=ascend.environment(ACL_FAULT=fault, DEVICE_WAIT_SECONDS=1, **settings))


def count_calls(*arguments):
    """How many faults of each kind there can be, and the text without any."""
    with tempfile.NamedTemporaryFile("r") as file:
        done = generate(*arguments, ACL_FAULT_COUNT=file.name)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return json.loads(file.read()), text_of(done)


def text_of(done):
    return json.loads(done.stdout.splitlines()[0])["text"]


def judge(done, expected):
    """What came of a run, in a few words, and what is wrong with it, if anything."""
    problems = re.findall(r"acl validation: (\d+) problems?\b", done.stderr)
    if problems not in ([], ["0"]):
        return "misuse", "\n".join(line for line in done.stderr.splitlines() if "acl" in line)[:2000]
    if done.returncode == 0:
        if text_of(done) != expected:
            return "wrong text", done.stdout
        steps = json.loads(done.stdout.splitlines()[-1])["statement"]["decode_steps"]
        reasons = [reason for reason, count in steps.items() if count > 0 and reason != "replayed"]
        if reasons:
            if "eagerly" not in done.stderr:
                return "silent fallback", done.stderr
            return f"text, steps eager for {', '.join(sorted(reasons))}", None
        return "text, all replayed", None
    if done.returncode not in EXIT_CODES:
        return f"died of {done.returncode}", done.stderr[-3000:]
    if not re.search(r"^error: .+", done.stderr, re.MULTILINE):
        return "no message", done.stderr
    return f"error, exit code {done.returncode}", None


def meet(fault, expected, arguments=(), **settings):
    """What came of a fault, what is wrong with that, and how the program put it."""
    try:
        done = generate(*arguments, fault=fault, **settings)
    except subprocess.TimeoutExpired as expired:
        return "hang", str(expired.stderr)[-3000:], ""
    outcome, wrong = judge(done, expected)
    return outcome, wrong, done.stderr


class AscendFaults(unittest.TestCase):
    """Every kind of fault at its first, its last and a few places between. How a bucket's capture, a replay, its updates
    and what lies between them fail is then met by each kind."""

    def meet_some(self, faults, expected):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            met = list(pool.map(lambda fault: meet(fault, expected), faults))
        for fault, (outcome, wrong, said) in zip(faults, met):
            with self.subTest(fault=fault):
                self.assertIsNone(wrong, f"{outcome}: {wrong}")
                if outcome.startswith("error"):
                    self.assertTrue("injected fault" in said or "AICORE_EXCEPTION" in said or "come to an end" in said,
                                    said)
        return collections.Counter(outcome for outcome, _, _ in met)

    def test_a_generation_with_a_fault_anywhere_ends_well_or_with_an_error(self):
        counts, expected = count_calls()
        faults = []
        for kind, key in KINDS.items():
            count = counts[key]
            # Kernels that never end cost a second each.
            places = 2 if kind == "timeout" else 11 if kind == "any" else 4
            step = max(1, count // places)
            faults += [f"{kind}:{number}" for number in sorted({*range(1, count + 1, step), count})]
        outcomes = self.meet_some(faults, expected)
        self.assertGreater(outcomes["error, exit code 1"], 0)
        self.assertGreater(outcomes["text, steps eager for capture_failed"], 0)

    def test_a_replay_that_cannot_be_marked_or_signalled_does_not_hang(self):
        counts, expected = count_calls()
        # Of the events of one decode step in the middle.
        middle = counts["event"] * 2 // 3
        outcomes = self.meet_some([f"event:{number}" for number in range(middle, middle + 9)], expected)
        self.assertGreater(outcomes["text, all replayed"], 0, "the mark behind a replay")

    def test_memory_that_stays_short_is_told_as_such(self):
        counts, expected = count_calls()
        for first in range(1, counts["malloc"] + 1):
            fault = f"malloc:{first},malloc:{first + 1}"
            with self.subTest(fault=fault):
                outcome, wrong, said = meet(fault, expected)
                self.assertIsNone(wrong, f"{outcome}: {wrong}")
                self.assertIn(outcome, ("error, exit code 4", "text, all replayed"))


def meet_all(kinds, arguments, jobs, step):
    counts, expected = count_calls(*arguments)
    print(json.dumps(counts))
    bad = 0
    for kind in kinds:
        outcomes = collections.Counter()
        faults = [f"{kind}:{number}" for number in range(1, counts[KINDS[kind]] + 1, step)]
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for fault, (outcome, wrong, said) in zip(faults, pool.map(
                    lambda fault: meet(fault, expected, arguments), faults)):
                outcomes[outcome] += 1
                if wrong:
                    bad += 1
                    print(f"{fault}: {outcome}: {wrong}", flush=True)
        print(kind, sum(outcomes.values()), dict(outcomes), flush=True)
    return bad


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", nargs="*", metavar="KIND")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--arguments", nargs=argparse.REMAINDER, default=[])
    options, _ = parser.parse_known_args()
    if options.all is None:
        unittest.main()
    sys.exit(1 if meet_all(options.all or list(KINDS), options.arguments, options.jobs, options.step) else 0)
