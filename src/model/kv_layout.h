#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace reprise::model {

/// One buffer of the KV cache as a model wants it. Kept once per token in pages, or once per sequence (the state of a
/// convolution, say).
struct KvBuffer {
  enum class Granularity { kToken, kSequence };

  std::string name;  ///< "layers.3.k", or of an int8 cache "layers.3.k_scales" beside it
  Granularity granularity = Granularity::kToken;
  DType dtype = DType::kBF16;
  Shape entry;  ///< of one token or one sequence, e.g. [kv heads, head dim]

  /// Bytes of one entry.
  size_t entry_bytes() const { return static_cast<size_t>(entry.elements()) * size_of(dtype); }
};

/// Named buffers in the order in which forward() takes them. On the device a buffer kept per token is
/// [pages, page size, entry...], one kept per sequence is [sequence slots, entry...].
struct KvLayout {
  std::vector<KvBuffer> buffers;

  /// Bytes of all per-token buffers for one token.
  size_t bytes_per_token() const;
};

}  // namespace reprise::model
