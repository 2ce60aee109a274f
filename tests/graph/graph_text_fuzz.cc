#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "graph/dot.h"
#include "graph/hash.h"
#include "graph/text_parser.h"
#include "graph/text_writer.h"
#include "ops/registry.h"

// Any bytes are either refused with an Error or read as a graph, which then prints and reads back as the same.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const reprise::ops::Registry registry = reprise::ops::make_catalogue();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string printed;
  uint64_t hash = 0;
  try {
    const reprise::graph::Graph graph = reprise::graph::parse(text, registry);
    printed = to_text(graph);
    hash = structural_hash(graph);
    to_dot(graph);
  } catch (const reprise::Error&) {
    return 0;
  }
  // What was printed must not be refused: an Error here is a finding.
  const reprise::graph::Graph again = reprise::graph::parse(printed, registry);
  if (to_text(again) != printed || structural_hash(again) != hash) std::abort();
  return 0;
}
