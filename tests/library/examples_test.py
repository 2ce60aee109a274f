"""The examples do what docs/examples.md shows. After a change that is meant:

python3 tests/library/examples_test.py --update     # writes what the built examples print into the document
"""
import difflib
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("REPRISE_BUILD", ROOT / "build/release"))
DOCUMENT = ROOT / "docs/examples.md"
SOURCES = sorted((ROOT / "examples").glob("*.cc"))
MOST_LINES = 100
# A block of an example's section: what it prints, and what the library logs meanwhile.
BLOCK = re.compile(r"^```(output|log)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


def sections():
    """The document's sections by heading."""
    parts = re.split(r"^## (\w+)\n", DOCUMENT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def run(name):
    done = subprocess.run([BUILD / "examples" / name], capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, "REPRISE_LOG": "info"})
    if done.returncode != 0:
        raise AssertionError(f"{name}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return {"output": done.stdout, "log": done.stderr}


def without_what_varies(text):
    text = re.sub(r"\b\d\d:\d\d:\d\d\.\d{3}\b", "TIME", text)
    text = re.sub(r"\b0x[0-9a-f]+\b", "ADDRESS", text)
    text = re.sub(r"^nothing to do: .*$", "nothing to do: OTHERS", text, flags=re.MULTILINE)
    # The last column of a table of passes.
    return re.sub(r"^(\w+(?: +\d+){4}) +\d+\.\d{3}$", r"\1 TIME", text, flags=re.MULTILINE)


class ExamplesTest(unittest.TestCase):
    maxDiff = None

    def test_each_example_prints_what_the_document_shows(self):
        shown = sections()
        self.assertEqual(sorted(shown), [source.stem for source in SOURCES])
        for source in SOURCES:
            with self.subTest(source.stem):
                blocks = dict(BLOCK.findall(shown[source.stem]))
                for kind, text in run(source.stem).items():
                    expected = without_what_varies(blocks.get(kind, ""))
                    found = without_what_varies(text)
                    difference = difflib.unified_diff(expected.splitlines(), found.splitlines(), "document", kind,
                                                      lineterm="")
                    self.assertEqual(expected, found, "\n".join(difference))

    def test_examples_are_short(self):
        self.assertTrue(SOURCES)
        for source in SOURCES:
            lines = len(source.read_text(encoding="utf-8").splitlines())
            self.assertLess(lines, MOST_LINES, source)

    def test_the_first_program_of_the_document_is_the_one_that_is_tested(self):
        program = (ROOT / "tests/package/main.cc").read_text(encoding="utf-8")
        self.assertIn(program, (ROOT / "docs/library.md").read_text(encoding="utf-8"))


def update():
    parts = re.split(r"^(## \w+\n)", DOCUMENT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for i in range(1, len(parts), 2):
        printed = run(parts[i][3:-1])

        def renewed(block, printed=printed):
            text = printed[block[1]]
            if without_what_varies(text) == without_what_varies(block[2]):
                return block[0]
            return f"```{block[1]}\n{text}```\n"

        parts[i + 1] = BLOCK.sub(renewed, parts[i + 1])
    DOCUMENT.write_text("".join(parts), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        update()
    else:
        unittest.main()
