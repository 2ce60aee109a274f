"""What the tests of the program share: calling it as a user does, and reading what it writes. Python's own library is
enough."""
import array
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("REPRISE", str(ROOT / "build/release/src/reprise"))
MINI = ROOT / "models/mini"
MINI_MOE = ROOT / "models/mini-moe"
CHECKPOINTS = ROOT / "tests/data/models"
MODES = ("eager", "aot_eager", "force_eager", "full")


def run(*arguments, stdin="", timeout=120, **options):
    """Runs the program to its end; gives its exit code, standard output and standard error as text."""
    return subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, capture_output=True, text=True,
                          timeout=timeout, check=False, **options)


def run_well(*arguments, **options):
    """The same for a call that must succeed."""
    done = run(*arguments, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, arguments))}: exit code {done.returncode}\n{done.stderr}")
    return done


def json_lines(text):
    return [json.loads(line) for line in text.splitlines()]


def temporary_directory(test):
    """A directory that goes with the test."""
    directory = tempfile.TemporaryDirectory()
    test.addCleanup(directory.cleanup)
    return pathlib.Path(directory.name)


def read_safetensors(path):
    """Tensors by name: (shape, array)."""
    data = pathlib.Path(path).read_bytes()
    (header_bytes,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + header_bytes])
    tensors = {}
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        values = array.array({"F32": "f", "I32": "i"}[tensor["dtype"]])
        begin, end = tensor["data_offsets"]
        values.frombytes(data[8 + header_bytes + begin:8 + header_bytes + end])
        if sys.byteorder == "big":
            values.byteswap()
        tensors[name] = (tensor["shape"], values)
    return tensors
