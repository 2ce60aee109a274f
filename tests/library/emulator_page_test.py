"""The first program of docs/emulator.md, built and run as the page says, by somebody who has nothing but the page."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("REPRISE_BUILD", ROOT / "build/release"))
EMULATOR = BUILD / "emulator"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


def without_addresses(text):
    """What is the same on every machine: no addresses, and of places only the kind of call."""
    return re.sub(r" at .*", "", re.sub(r"0x[0-9a-f]+", "ADDRESS", text))


@unittest.skipUnless((EMULATOR / "libascendcl.so").exists(), "the emulator is not built")
class EmulatorPage(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        text = (ROOT / "docs/emulator.md").read_text(encoding="utf-8")
        cls.blocks = dict(BLOCK.findall(text[text.index("### A first program"):text.index("### Settings")]))
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        folder = pathlib.Path(cls.directory.name)
        (folder / "program.c").write_text(cls.blocks["c"], encoding="utf-8")
        (line,) = [line for line in cls.blocks["sh"].splitlines() if line.startswith("cc ")]
        built = subprocess.run(line.replace("-I src", f"-Wall -Wextra -Werror -I {ROOT}/src"), shell=True, cwd=folder,
                               env=dict(os.environ, E=str(EMULATOR)), capture_output=True, text=True, timeout=60,
                               check=False)
        if built.returncode != 0:
            raise AssertionError(built.stdout + built.stderr)
        cls.program = folder / "program"

    def test_has_a_kernel_that_compiles(self):
        text = (ROOT / "docs/emulator.md").read_text(encoding="utf-8")
        (kernel,) = re.findall(r"^```c\n(.*?)^```\n", text[:text.index("### A first program")], re.MULTILINE | re.DOTALL)
        kernel, launch = kernel.split("\n\naclrtLaunch")
        source = ('#include "device/ascend/interface/acl_runtime.h"\n#include "emulator/kernel.h"\n' + kernel +
                  "\nint launch(Arguments arguments, aclrtStream stream) { return aclrtLaunch" + launch + "}\n")
        done = subprocess.run(["cc", "-fsyntax-only", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}",
                               f"-I{ROOT}/src", "-xc", "-"], input=source, capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def run_program(self, *arguments, **variables):
        return subprocess.run([self.program, *arguments], capture_output=True, text=True, timeout=60, check=False,
                              env=dict(os.environ, LD_LIBRARY_PATH=str(EMULATOR), **variables))

    def test_prints_what_the_page_shows(self):
        done = self.run_program()
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, self.blocks["output"], ""))

    def test_has_no_problems_until_it_forgets_its_graph(self):
        self.assertEqual(self.run_program(REPRISE_ACL_VALIDATE="1").stderr, "acl validation: 0 problems\n")
        done = self.run_program("forget", REPRISE_ACL_VALIDATE="1")
        self.assertEqual((done.returncode, done.stdout), (0, self.blocks["output"]))
        self.assertEqual(without_addresses(done.stderr), without_addresses(self.blocks["validation"]))

    def test_meets_faults(self):
        done = self.run_program(REPRISE_ACL_FAULT="malloc:3")
        self.assertEqual((done.returncode, done.stdout), (1, self.blocks["fault"]))
        done = self.run_program(REPRISE_ACL_FAULT="device:2")
        self.assertEqual((done.returncode, done.stdout.count("injected device error")), (1, 1))
        done = self.run_program(REPRISE_ACL_FAULT="any:999")
        self.assertEqual((done.returncode, done.stderr),
                         (0, "REPRISE_ACL_FAULT: any:999 never happened: there were only 22\n"))
        done = self.run_program(REPRISE_ACL_FAULT="timeout:2", REPRISE_ACL_PROFILE="910B3,kernel_timeout_ms=100")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, r"aclrtSynchronizeStream\(stream\): 507014 ")


if __name__ == "__main__":
    unittest.main()
