#include "model/kv_layout.h"

namespace reprise::model {
namespace {

size_t bytes_of(const std::vector<KvBuffer>& buffers, KvBuffer::Granularity granularity) {
  size_t bytes = 0;
  for (const KvBuffer& buffer : buffers) {
    if (buffer.granularity == granularity) bytes += buffer.entry_bytes();
  }
  return bytes;
}

}  // namespace

size_t KvLayout::bytes_per_token() const { return bytes_of(buffers, KvBuffer::Granularity::kToken); }

size_t KvLayout::bytes_per_sequence() const { return bytes_of(buffers, KvBuffer::Granularity::kSequence); }

}  // namespace reprise::model
