#pragma once

#include <cstddef>
#include <string>

namespace reprise::model {

/// What loading a model took, in bytes. All 0 without weights.
struct LoadReport {
  size_t weight_bytes = 0;    ///< of all weights, views of one storage counted once: the final size
  size_t mapped_bytes = 0;    ///< of them: read in place from mapped files, whose pages the system may drop
  size_t largest_tensor = 0;  ///< of the checkpoint
  size_t resident_before = 0;
  size_t peak_resident = 0;     ///< VmHWM behind loading: the process's own memory and the mapped pages it has touched
  size_t anonymous_before = 0;  ///< the process's own memory alone
  size_t peak_anonymous = 0;    ///< the largest that was seen, looked at every few megabytes of weights
  std::string pack_cache;       ///< what became of the cache of packed weights; "" when none was asked for

  /// How many times the final size the process has grown by. 0 where the system tells nothing.
  double peak_over_final() const {
    return weight_bytes == 0 || peak_resident < resident_before
               ? 0
               : static_cast<double>(peak_resident - resident_before) / static_cast<double>(weight_bytes);
  }
};

}  // namespace reprise::model
