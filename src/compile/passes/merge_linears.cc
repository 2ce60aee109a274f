#include "compile/passes/merge_linears.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "graph/alias.h"
#include "graph/infer.h"
#include "ops/linear.h"
#include "ops/linear_merge.h"

namespace reprise::compile {
namespace {

constexpr size_t kX = 0, kWeight = 1;  // arguments of every product
constexpr size_t kRowScales = 3;       // of int8_linear

/// An argument of a product that holds a part of the layer's weights.
struct WeightPlace {
  size_t input;
  Tensor ops::LinearWeights::* member;
  const char* suffix;  ///< of the merged parameter's label
};
constexpr WeightPlace kLinearPlaces[] = {{kWeight, &ops::LinearWeights::weight, ""},
                                         {2, &ops::LinearWeights::bias, ".bias"}};
constexpr WeightPlace kInt8Places[] = {{kWeight, &ops::LinearWeights::weight, ""},
                                       {2, &ops::LinearWeights::scale, ".scale"},
                                       {4, &ops::LinearWeights::quant_bias, ".quant_bias"},
                                       {5, &ops::LinearWeights::bias, ".bias"}};

/// Empty for operators that are no products of layers.
std::span<const WeightPlace> weight_places(const graph::Node& node) {
  if (node.op->name() == "linear") return kLinearPlaces;
  if (node.op->name() == "int8_linear") return kInt8Places;
  return {};
}

/// One layer to be merged.
struct Layer {
  graph::NodeId node = graph::kNoNode;
  size_t position = 0;
  ops::LinearWeights weights;
  std::string label;
};

/// "model.layers.0.self_attn." + "{q_proj,k_proj,v_proj}" + ".weight".
std::string merged_label(const std::vector<Layer>& layers) {
  const std::string& first = layers.front().label;
  size_t prefix = first.size();
  size_t suffix = first.size();
  for (const Layer& layer : layers) {
    const std::string& label = layer.label;
    prefix = std::min(prefix,
                      static_cast<size_t>(std::mismatch(first.begin(), first.end(), label.begin(), label.end()).first -
                                          first.begin()));
    suffix = std::min(
        suffix, static_cast<size_t>(std::mismatch(first.rbegin(), first.rend(), label.rbegin(), label.rend()).first -
                                    first.rbegin()));
  }
  // Whole words between points only: "gate_proj" and "up_proj" both end in "_proj".
  while (prefix > 0 && first[prefix - 1] != '.') --prefix;
  while (suffix > 0 && first[first.size() - suffix] != '.') --suffix;
  std::vector<std::string> words;
  for (const Layer& layer : layers) {
    const size_t end = layer.label.size() - suffix;
    words.push_back(end > prefix ? layer.label.substr(prefix, end - prefix) : "");
  }
  return fmt::format("{}{{{}}}{}", first.substr(0, prefix), fmt::join(words, ","), first.substr(first.size() - suffix));
}

/// Whether an operator promises to take rows with gaps between them. Its shape function does if it asks for rows whose
/// elements lie side by side, and is content with that; one that looks at no strides leaves them to kernels.
bool takes_rows_with_gaps(const graph::Graph& graph, const graph::Node& node, graph::ValueId value) {
  const std::string& name = node.op->name();
  if (name == "copy" || name == "cast") return true;  // any strides
  std::vector<Tensor> inputs;
  for (const graph::ValueId input : node.inputs) {
    if (input == graph::kAbsent) {
      inputs.emplace_back();
      continue;
    }
    TensorMeta meta = graph.value(input).meta;
    for (size_t axis = 0; input == value && axis < meta.shape.rank(); ++axis) meta.strides[axis] *= 2;
    inputs.push_back(Tensor::traced(meta, input));
  }
  std::vector<ops::HostList> lists;
  for (const graph::ValueId list : node.lists) lists.push_back(ops::HostList::traced(graph.value(list).length, list));
  std::vector<TensorMeta> metas(node.outputs.size());
  try {
    node.op->infer({.op = *node.op, .inputs = inputs, .lists = lists, .attributes = node.attributes, .outputs = {}},
                   metas);
  } catch (const Error&) {
    return true;
  }
  return false;
}

class Merger {
 public:
  Merger(graph::Graph& graph, const ops::Registry& registry, const std::string& device)
      : graph_(graph), registry_(registry), device_(device) {}

  PassResult run() {
    for (std::vector<Layer>& group : find_groups()) try_group(group);
    return std::move(result_);
  }

 private:
  /// The layer of a node whose weights are all there.
  std::optional<Layer> find_layer(graph::NodeId id, size_t position) const {
    const graph::Node& node = graph_.node(id);
    const std::span<const WeightPlace> places = weight_places(node);
    if (places.empty()) return std::nullopt;
    Layer layer{id, position, {}, graph_.value(node.inputs[kWeight]).label};
    for (const WeightPlace& place : places) {
      if (node.inputs[place.input] == graph::kAbsent) continue;
      const graph::Value& value = graph_.value(node.inputs[place.input]);
      if (value.kind != graph::ValueKind::kParameter || !value.tensor.defined()) return std::nullopt;
      layer.weights.*place.member = value.tensor;
    }
    return layer;
  }

  /// Layers by operator, input, dtype of the result, stream and core limit; those of one storage in the order of their
  /// memory.
  std::vector<std::vector<Layer>> find_groups() const {
    using Key = std::tuple<std::string, graph::ValueId, graph::ValueId, DType, int32_t, int, int>;
    std::map<Key, std::vector<Layer>> groups;
    const std::vector<graph::NodeId>& order = graph_.order();
    for (size_t position = 0; position < order.size(); ++position) {
      std::optional<Layer> layer = find_layer(order[position], position);
      if (!layer) continue;
      const graph::Node& node = graph_.node(order[position]);
      const graph::ValueId scales = node.op->name() == "int8_linear" ? node.inputs[kRowScales] : graph::kAbsent;
      groups[{node.op->name(), node.inputs[kX], scales, std::get<DType>(node.attributes[0]), node.stream,
              node.core_limit.matrix_cores, node.core_limit.vector_cores}]
          .push_back(std::move(*layer));
    }
    std::vector<std::vector<Layer>> result;
    for (auto& [key, layers] : groups) {
      if (layers.size() < 2) continue;
      // Storages in the order in which they are met, not in that of their addresses: two runs must agree.
      std::map<const Storage*, size_t> storages;
      for (const Layer& layer : layers) storages.emplace(layer.weights.weight.storage().get(), storages.size());
      const auto place = [&](const Layer& layer) {
        const Tensor& weight = layer.weights.weight;
        return std::pair(storages.at(weight.storage().get()), weight.offset_bytes());
      };
      std::stable_sort(layers.begin(), layers.end(),
                       [&](const Layer& a, const Layer& b) { return place(a) < place(b); });
      result.push_back(std::move(layers));
    }
    return result;
  }

  std::optional<ops::LinearWeights> join(std::span<const Layer> layers, std::string* reason) const {
    std::vector<ops::LinearWeights> weights;
    for (const Layer& layer : layers) weights.push_back(layer.weights);
    try {
      return ops::join_linear_weights(registry_, device_, weights, reason);
    } catch (const Error& error) {
      if (reason != nullptr) *reason = error.what();
      return std::nullopt;
    }
  }

  /// Merges the longest runs that can be.
  void try_group(const std::vector<Layer>& group) {
    for (size_t first = 0; first + 1 < group.size();) {
      size_t count = 1;
      std::string reason;
      while (first + count < group.size() && join(std::span(group).subspan(first, count + 1), &reason)) ++count;
      if (count == 1) {
        refuse(group[first], fmt::format("not merged with {}: {}", group[first + 1].label, reason));
        ++first;
        continue;
      }
      std::vector<Layer> layers(group.begin() + static_cast<std::ptrdiff_t>(first),
                                group.begin() + static_cast<std::ptrdiff_t>(first + count));
      reason = merge(layers);
      if (reason.empty()) {
        ++result_.matches;
      } else {
        refuse(layers.front(), reason);
      }
      first += count;
    }
  }

  void refuse(const Layer& layer, std::string_view reason) {
    result_.refusals.push_back(
        fmt::format("{}: {}: {}", graph::describe(graph_.node(layer.node)), layer.label, reason));
  }

  /// The reason why not, with the graph as it was but for an unused parameter.
  std::string merge(const std::vector<Layer>& layers) {
    const Layer& earliest = *std::min_element(layers.begin(), layers.end(),
                                              [](const Layer& a, const Layer& b) { return a.position < b.position; });
    for (const Layer& layer : layers) {
      std::string hazard = graph::move_hazard(graph_, layer.node, earliest.node);
      if (!hazard.empty()) return hazard;
      const graph::ValueId y = graph_.output_of(layer.node);
      if (graph_.is_output(y)) return fmt::format("%{} is an output of the graph", graph_.value(y).name);
    }
    const ops::LinearWeights merged = *join(layers, nullptr);
    const std::string label = merged_label(layers);
    const graph::Node& node = graph_.node(earliest.node);
    graph::NodeArguments arguments{.inputs = node.inputs,
                                   .lists = {},
                                   .attributes = node.attributes,
                                   .source = node.source,
                                   .stream = node.stream,
                                   .core_limit = node.core_limit};
    for (const WeightPlace& place : weight_places(node)) {
      const Tensor& part = merged.*place.member;
      if (part.defined()) arguments.inputs[place.input] = graph_.add_parameter(label + place.suffix, part);
    }
    const graph::NodeId product = graph_.insert_before(earliest.node, *node.op, std::move(arguments));
    inserted_ = {product};
    heads_.clear();
    replacements_.clear();
    int64_t column = 0;
    for (const Layer& layer : layers) {
      std::string reason = cut(layer, graph_.output_of(product), column, earliest.node);
      if (!reason.empty()) {
        graph_.erase_nodes(inserted_);
        return reason;
      }
      column += layer.weights.weight.size(0);
    }
    for (const auto& [before, after] : replacements_) graph_.replace_uses(before, after);
    std::vector<graph::NodeId> dead;
    for (const auto& [before, after] : replacements_) dead.push_back(graph_.value(before).producer);
    for (const Layer& layer : layers) {
      if (std::find(dead.begin(), dead.end(), layer.node) == dead.end()) dead.push_back(layer.node);
    }
    graph_.erase_nodes(dead);
    return "";
  }

  /// Plans views of the merged product for what uses a layer's result.
  std::string cut(const Layer& layer, graph::ValueId product, int64_t column, graph::NodeId next) {
    const graph::ValueId y = graph_.output_of(layer.node);
    const int64_t columns = layer.weights.weight.size(0);
    const std::vector<graph::NodeId> users = graph_.users(y);
    const graph::ValueId root = graph_.value(y).root;
    for (const graph::NodeId id : graph_.order()) {
      if (graph::writes(graph_, graph_.node(id), root)) {
        return fmt::format("{} overwrites %{}", graph::describe(graph_.node(id)), graph_.value(y).name);
      }
    }
    bool plain_users = users.empty();
    for (const graph::NodeId user : users) {
      const graph::Node node = graph_.node(user);  // a copy: nodes are added below
      if (node.op->name() != "reshape") {
        plain_users = true;
        continue;
      }
      const Shape shape = graph_.value(node.outputs[0]).meta.shape;
      const int64_t head = shape.rank() == 3 ? shape.size(2) : 0;
      const int64_t all = graph_.value(product).meta.shape.back().value();
      if (graph_.value(product).meta.shape.rank() != 2 || head == 0 ||
          !(shape[0] == graph_.value(product).meta.shape[0]) || column % head != 0 || all % head != 0) {
        return fmt::format("{} cannot be a cut of the merged product", graph::describe(node));
      }
      std::string reason = replace(
          node.outputs[0], slice(in_heads(product, head, next), 1, column / head, (column + columns) / head, next));
      if (!reason.empty()) return reason;
    }
    if (!plain_users) return "";
    const auto axis = static_cast<int64_t>(graph_.value(product).meta.shape.rank()) - 1;
    return replace(y, slice(product, axis, column, column + columns, next));
  }

  graph::ValueId insert(graph::NodeId next, const char* op, graph::ValueId x, std::vector<ops::Attribute> attributes) {
    const graph::Node& product = graph_.node(inserted_[0]);
    graph::NodeArguments arguments{.inputs = {x},
                                   .lists = {},
                                   .attributes = std::move(attributes),
                                   .source = product.source,
                                   .stream = product.stream,
                                   .core_limit = product.core_limit};
    inserted_.push_back(graph_.insert_before(next, registry_.get(op), std::move(arguments)));
    return graph_.output_of(inserted_.back());
  }

  graph::ValueId in_heads(graph::ValueId product, int64_t head, graph::NodeId next) {
    const auto known = heads_.find(head);
    if (known != heads_.end()) return known->second;
    const Shape& shape = graph_.value(product).meta.shape;
    const graph::ValueId heads = insert(next, "reshape", product, {Shape{shape[0], shape.size(1) / head, head}});
    heads_.emplace(head, heads);
    return heads;
  }

  graph::ValueId slice(graph::ValueId x, int64_t axis, int64_t begin, int64_t end, graph::NodeId next) {
    return insert(next, "slice", x, {axis, begin, end});
  }

  /// Whether every user takes the cut as well: its rows have gaps.
  std::string replace(graph::ValueId before, graph::ValueId after) {
    if (graph_.is_output(before)) return fmt::format("%{} is an output of the graph", graph_.value(before).name);
    for (const graph::NodeId user : graph_.users(before)) {
      graph::Node changed = graph_.node(user);
      if (changed.op->name() == "reshape" && is_planned(changed)) continue;
      if (!takes_rows_with_gaps(graph_, changed, before)) {
        return fmt::format("{} may not take rows with gaps between them", graph::describe(changed));
      }
      std::replace(changed.inputs.begin(), changed.inputs.end(), before, after);
      try {
        const std::vector<TensorMeta> metas = graph::infer_outputs(graph_, changed);
        for (size_t i = 0; i < metas.size(); ++i) {
          if (metas[i] == graph_.value(changed.outputs[i]).meta) continue;
          return fmt::format("{} would give {}", graph::describe(changed), metas[i].to_string());
        }
      } catch (const Error& error) {
        return error.what();
      }
    }
    replacements_.emplace_back(before, after);
    return "";
  }

  /// A reshape of the same layer whose result is cut by heads already.
  bool is_planned(const graph::Node& node) const {
    return std::any_of(replacements_.begin(), replacements_.end(),
                       [&](const auto& pair) { return pair.first == node.outputs[0]; });
  }

  graph::Graph& graph_;
  const ops::Registry& registry_;
  const std::string& device_;
  PassResult result_;
  std::vector<graph::NodeId> inserted_;
  std::map<int64_t, graph::ValueId> heads_;  ///< the product by heads, by their size
  std::vector<std::pair<graph::ValueId, graph::ValueId>> replacements_;
};

}  // namespace

PassResult merge_linears(graph::Graph& graph, const ops::Registry& registry, const std::string& device) {
  return Merger(graph, registry, device).run();
}

}  // namespace reprise::compile
