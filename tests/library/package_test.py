"""An installed Reprise is found by find_package(), and a user's program compiles, links and runs with it."""
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("REPRISE_BUILD", ROOT / "build/release"))


def run(*command):
    """Runs a command that must succeed, and gives what it writes."""
    done = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=300, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        # Not the prefix that the build was configured for: an installation can be anywhere.
        cls.prefix = pathlib.Path(cls.folder.name) / "prefix"
        cls.build = pathlib.Path(cls.folder.name) / "build"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)

    def configure(self, *options, version="0.1"):
        return run("cmake", "-G", "Ninja", "-S", ROOT / "tests/package", "-B", self.build, "-DCMAKE_BUILD_TYPE=Release",
                   f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DREPRISE_WANTED_VERSION={version}", *options)

    def test_a_program_of_a_user_compiles_a_method_and_calls_it(self):
        self.configure()
        run("cmake", "--build", self.build, "--target", "uses_reprise")
        lines = run(self.build / "uses_reprise").splitlines()
        # x + x = [6, 8], whose mean of squares is 50.
        self.assertEqual(lines[:3], ["0.8485 11.3137"] * 3)
        self.assertIn("traces: 1", lines)
        self.assertIn("captures: 1", lines)
        self.assertIn("replays: 3", lines)

    def test_every_installed_header_finds_what_it_includes(self):
        include = self.prefix / "include"
        headers = sorted(include.rglob("*.h"))
        self.assertGreater(len(headers), 50)
        names = [str(header.relative_to(include)).removeprefix("reprise/layers/") for header in headers]
        source = pathlib.Path(self.folder.name) / "headers.cc"
        source.write_text("".join(f'#include "{name}"\n' for name in names), encoding="utf-8")
        self.configure(f"-DREPRISE_HEADERS={source}")
        run("cmake", "--build", self.build, "--target", "headers")

    def test_the_package_names_no_place_of_the_build(self):
        for path in self.prefix.rglob("*.cmake"):
            self.assertNotIn(str(ROOT), path.read_text(encoding="utf-8"), path)

    def test_another_version_is_not_found(self):
        with self.assertRaisesRegex(AssertionError, "compatible with requested version"):
            self.configure(version="9.0")

    def test_the_program_is_installed(self):
        self.assertIn("compile", run(self.prefix / "bin/reprise", "--help"))


if __name__ == "__main__":
    unittest.main()
