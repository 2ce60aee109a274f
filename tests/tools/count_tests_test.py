"""scripts/count_tests counts cases, and lets no broken program pass as a green one."""

import os
import subprocess
import sys
import tempfile
import unittest

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "count_tests")

GREEN = '<testcase name="Adds" classname="Sum" status="run" result="completed" />'
RED = '<testcase name="Carries" classname="Sum" status="run" result="completed"><failure message="no"/></testcase>'
SKIPPED = '<testcase name="Wraps" classname="Sum" status="run" result="skipped"><skipped message=""/></testcase>'
DISABLED = '<testcase name="Sleeps" classname="Sum" status="notrun" result="suppressed" />'


def report(*cases):
    return "<testsuites><testsuite>" + "".join(cases) + "</testsuite></testsuites>"


def count(programs, reports):
    """The tool's lines for programs {name: ctest status} and what they wrote {name: xml}."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in reports.items():
            with open(os.path.join(folder, name + ".xml"), "w", encoding="utf-8") as file:
                file.write(text)
        junit = os.path.join(folder, "ctest.junit")
        with open(junit, "w", encoding="utf-8") as file:
            file.write("<testsuite>")
            file.writelines(f'<testcase name="{name}" status="{status}"/>' for name, status in programs.items())
            file.write("</testsuite>")
        output = subprocess.run([sys.executable, TOOL, junit, folder], stdout=subprocess.PIPE, text=True, check=True)
        return output.stdout.splitlines()


class CountTests(unittest.TestCase):
    def test_counts_the_cases_of_all_programs(self):
        lines = count({"a_test": "run", "b_test": "run"}, {"a_test": report(GREEN, GREEN), "b_test": report(GREEN, SKIPPED, DISABLED)})
        self.assertEqual(lines, ["3 0 2"])

    def test_names_failed_cases(self):
        lines = count({"a_test": "fail"}, {"a_test": report(GREEN, RED)})
        self.assertEqual(lines, ["1 1 0", "a_test: Sum.Carries"])

    def test_counts_a_crash_without_a_report(self):
        lines = count({"a_test": "fail"}, {})
        self.assertEqual(lines[0], "0 1 0")

    def test_counts_a_sanitizer_failure_after_green_cases(self):
        lines = count({"a_test": "fail"}, {"a_test": report(GREEN)})
        self.assertEqual(lines[0], "1 1 0")

    def test_counts_a_program_that_wrote_nothing(self):
        lines = count({"a_test": "run"}, {})
        self.assertEqual(lines[0], "0 1 0")

    def test_counts_one_program_by_its_exit_status(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a_test.xml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(report(GREEN))
            for status, expected in (("0", "1 0 0"), ("132", "1 1 0")):
                output = subprocess.run([sys.executable, TOOL, "--program", path, status], stdout=subprocess.PIPE,
                                        text=True, check=True)
                self.assertEqual(output.stdout.splitlines()[0], expected)


if __name__ == "__main__":
    unittest.main()
