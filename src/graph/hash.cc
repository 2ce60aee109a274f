#include "graph/hash.h"

#include <bit>
#include <cmath>
#include <string_view>

namespace reprise::graph {
namespace {

/// FNV-1a over 64-bit words, with a final mix of the bits (Steele, Lea and Flood, 2014: SplitMix).
class Hasher {
 public:
  void add(uint64_t word) {
    state_ = (state_ ^ word) * 0x100000001B3u;
    state_ ^= state_ >> 32;
  }
  void add(std::string_view text) {
    add(text.size());
    for (const char c : text) add(static_cast<uint64_t>(static_cast<unsigned char>(c)));
  }
  void add(const Dim& dim) {
    add(static_cast<uint64_t>(static_cast<int64_t>(dim.symbol())));
    add(static_cast<uint64_t>(static_cast<int64_t>(dim.scale())));
    add(static_cast<uint64_t>(dim.offset()));
  }
  void add(const Shape& shape) {
    add(static_cast<uint64_t>(shape.rank()));
    for (const Dim& dim : shape) add(dim);
  }
  void add(const TensorMeta& meta) {
    add(static_cast<uint64_t>(meta.dtype));
    add(meta.format.name());
    add(meta.shape);
    for (size_t axis = 0; axis < meta.shape.rank(); ++axis) add(static_cast<uint64_t>(meta.strides[axis]));
  }
  void add(const ops::Attribute& attribute) {
    add(static_cast<uint64_t>(attribute.index()));
    if (const auto* integer = std::get_if<int64_t>(&attribute)) add(static_cast<uint64_t>(*integer));
    if (const auto* number = std::get_if<double>(&attribute)) {
      add(std::isnan(*number) ? ~uint64_t{0} : std::bit_cast<uint64_t>(*number));
    }
    if (const auto* flag = std::get_if<bool>(&attribute)) add(static_cast<uint64_t>(*flag));
    if (const auto* dtype = std::get_if<DType>(&attribute)) add(static_cast<uint64_t>(*dtype));
    if (const auto* shape = std::get_if<Shape>(&attribute)) add(*shape);
    if (const auto* text = std::get_if<std::string>(&attribute)) add(std::string_view(*text));
  }
  uint64_t result() const {
    uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
    return mixed ^ (mixed >> 31);
  }

 private:
  uint64_t state_ = 0xCBF29CE484222325u;
};

}  // namespace

uint64_t structural_hash(const Graph& graph) {
  Hasher hasher;
  // Values are numbered in the order in which the text names them, so that ids do not matter.
  std::vector<uint64_t> numbers(graph.value_limit(), 0);
  uint64_t next = 1;
  const auto number = [&](ValueId id) { return id == kAbsent ? uint64_t{0} : numbers[id]; };

  hasher.add(static_cast<uint64_t>(graph.symbols().size()));
  for (const SymDim& symbol : graph.symbols()) {
    hasher.add(std::string_view(symbol.name));
    hasher.add(static_cast<uint64_t>(symbol.min));
    hasher.add(static_cast<uint64_t>(symbol.max));
  }
  hasher.add(static_cast<uint64_t>(graph.inputs().size()));
  for (const ValueId id : graph.inputs()) {
    numbers[id] = next++;
    hasher.add(graph.value(id).meta);
  }
  hasher.add(static_cast<uint64_t>(graph.parameters().size()));
  for (const ValueId id : graph.parameters()) {
    numbers[id] = next++;
    hasher.add(std::string_view(graph.value(id).label));
    hasher.add(graph.value(id).meta);
  }
  hasher.add(static_cast<uint64_t>(graph.lists().size()));
  for (const ValueId id : graph.lists()) {
    numbers[id] = next++;
    hasher.add(graph.value(id).length);
  }
  // Streams are numbered likewise; graphs without any have the hash that they had before there were streams.
  std::vector<uint64_t> stream_numbers(graph.streams().size() + 1, 0);
  uint64_t next_stream = 1;
  hasher.add(static_cast<uint64_t>(graph.order().size()));
  for (const NodeId node_id : graph.order()) {
    const Node& node = graph.node(node_id);
    hasher.add(std::string_view(node.op->name()));
    for (const ValueId id : node.inputs) hasher.add(number(id));
    for (const ValueId id : node.lists) hasher.add(number(id));
    for (const ops::Attribute& attribute : node.attributes) hasher.add(attribute);
    if (node.stream != 0) {
      uint64_t& number_of_stream = stream_numbers[static_cast<size_t>(node.stream)];
      if (number_of_stream == 0) number_of_stream = next_stream++;
      hasher.add(std::string_view("on"));
      hasher.add(number_of_stream);
    }
    if (!(node.core_limit == device::CoreLimit{})) {
      hasher.add(std::string_view("limit"));
      hasher.add(static_cast<uint64_t>(node.core_limit.matrix_cores));
      hasher.add(static_cast<uint64_t>(node.core_limit.vector_cores));
    }
    for (const ValueId id : node.outputs) {
      numbers[id] = next++;
      hasher.add(graph.value(id).meta);
    }
  }
  hasher.add(static_cast<uint64_t>(graph.outputs().size()));
  for (const ValueId id : graph.outputs()) hasher.add(number(id));
  return hasher.result();
}

}  // namespace reprise::graph
