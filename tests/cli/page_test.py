"""The page of reprise serve in a browser: see page_browser.mjs. Needs Node.js, Debian's chromium and playwright-core."""
import os
import shutil
import subprocess
import sys

import program

PACKAGES = program.ROOT / "build/npm"


def main():
    environment = {**os.environ, "PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD": "1"}
    fetched = subprocess.run([program.ROOT / "scripts/fetch_test_packages"], capture_output=True, text=True, check=False,
                             env=environment)
    browser = shutil.which("chromium")
    if browser is None or shutil.which("node") is None or not (PACKAGES / "node_modules/playwright-core").is_dir():
        print(f"0 passed, 0 failed: no browser, Node.js or playwright-core here {fetched.stderr}")
        return 0
    done = subprocess.run(["node", program.ROOT / "tests/cli/page_browser.mjs", PACKAGES, browser, program.PROGRAM,
                           program.MINI, *sys.argv[1:]], timeout=300, check=False, env=environment)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
