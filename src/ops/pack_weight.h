#pragma once

#include <cstddef>
#include <string_view>

#include "device/device.h"
#include "ops/registry.h"

namespace reprise::ops {

// pack_linear_weight for loaders, which say where the packed weight goes: several in one storage, or a large one in
// parts.

struct PackedLayout {
  TensorMeta meta;   ///< in the device's format
  size_t bytes = 0;  ///< of storage
};
/// What packing makes of a plain weight [N, K]; without packing on this device, the weight as it is.
PackedLayout packed_layout(const Registry& registry, std::string_view device, const TensorMeta& plain);

/// Throws kUnsupported when a call of pack_linear_weight asks by name for another format than the one that the device
/// has for its weight.
void check_wanted_format(const OpCall& call, const Format& format);

/// Whether a weight of `rows` rows can be followed by the packed form of more rows as if both had been packed together.
bool fills_packed_blocks(const Registry& registry, std::string_view device, const TensorMeta& plain, int64_t rows);

/// Packs into memory that is there: `packed` has the metadata of packed_layout() and may be a view into a larger
/// storage. Queues the work on `stream`. kUnsupported when the device has no kernel for it.
void pack_weight_into(const Registry& registry, const device::Device& device, device::Stream& stream,
                      const Tensor& plain, const Tensor& packed);

}  // namespace reprise::ops
