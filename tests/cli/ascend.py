"""Running the program on the emulated Ascend device."""
import os
import pathlib

import program

EMULATOR = pathlib.Path(program.PROGRAM).resolve().parents[1] / "emulator"


def environment(**settings):
    """An environment in which AscendCL is the emulator, which watches for misuse of it. `settings` without REPRISE_."""
    libraries = [str(EMULATOR), os.environ.get("LD_LIBRARY_PATH", "")]
    result = {**os.environ, "LD_LIBRARY_PATH": ":".join(filter(None, libraries)), "REPRISE_ACL_VALIDATE": "1"}
    result.update({f"REPRISE_{name}": str(value) for name, value in settings.items()})
    return result
