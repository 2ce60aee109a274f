# The two commands of the README, and a few for developers. On Debian 12 both install what is missing.

.PHONY: run test build format clean

# A trained model of 2.4 million parameters solves the last problem of the example; five solved ones show it the form.
run: build
	@tail -n 2 models/mini/example.txt
	@build/release/src/reprise generate -m models/mini --stop Question < models/mini/example.txt

test:
	@scripts/install_dependencies --test
	@scripts/fetch_test_packages || echo "the tests that need npm packages will be skipped"
	@scripts/test

build:
	@scripts/install_dependencies
	@cmake --preset release >/dev/null
	@cmake --build --preset release --target reprise

format:
	@tools/check_format --fix

clean:
	rm -rf build
