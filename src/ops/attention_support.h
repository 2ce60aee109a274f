#pragma once

#include <cstdint>
#include <string_view>

#include "ops/registry.h"
#include "tensor/dtype.h"

namespace reprise::ops {

/// How a model's steps will call paged_attention.
struct AttentionUse {
  DType dtype = DType::kBF16;  ///< of queries, and of keys and values unless they are int8
  bool int8_cache = false;
  int64_t page_size = 0;
  bool prompts = true;  ///< steps with several rows of a sequence
};

/// Throws what the device's kernel would throw in the first step that calls it so: kUnsupported, with the remedy. Asks
/// its plan; nothing is launched. Silent where the device has no such kernel.
void check_attention_support(const Registry& registry, std::string_view device, const AttentionUse& use);

}  // namespace reprise::ops
