#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

#include "device/ascend/ascend_device.h"

// Which AscendCL the tests of Ascend run on: the emulator of this build, or what the environment's REPRISE_TEST_ASCEND
// says: "system", or "system:N" for the device N, means the libraries that the dynamic linker finds, those of an
// installed CANN.

namespace reprise::device::ascend {

inline std::string_view library_named_for_tests() {
  const char* name = std::getenv("REPRISE_TEST_ASCEND");
  return name == nullptr ? std::string_view() : std::string_view(name);
}

/// Whether the tests meet the system's libraries, where the emulator's kernels are not known.
inline bool tests_system_libraries() { return library_named_for_tests().starts_with("system"); }

inline AscendOptions options_under_test(int wait_limit_ms) {
  AscendOptions options;
  options.wait_limit_ms = wait_limit_ms;
  const std::string_view name = library_named_for_tests();
  if (!name.starts_with("system")) {
    options.library.folder = REPRISE_EMULATOR_DIR;
    return options;
  }
  constexpr std::string_view kNumbered = "system:";
  if (name.starts_with(kNumbered)) options.device_id = std::stoi(std::string(name.substr(kNumbered.size())));
  return options;
}

}  // namespace reprise::device::ascend
