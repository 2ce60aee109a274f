#include "model/kv_layout.h"

namespace reprise::model {

size_t KvLayout::bytes_per_token() const {
  size_t bytes = 0;
  for (const KvBuffer& buffer : buffers) {
    if (buffer.granularity == KvBuffer::Granularity::kToken) bytes += buffer.entry_bytes();
  }
  return bytes;
}

}  // namespace reprise::model
