#include "compile/trace_method.h"

#include <optional>

#include "base/error.h"
#include "compile/tracer.h"
#include "graph/verify.h"

namespace reprise::compile {
namespace {

using Kind = Quantity::Kind;

/// Whether a message begins with "FILE:LINE: ".
bool names_line(std::string_view message) {
  const size_t end = message.find(": ");
  return end != std::string_view::npos && message.substr(0, end).find(':') != std::string_view::npos;
}

/// Runs a method on traced arguments and notes what it assumes.
class Tracing final : public MethodHost {
 public:
  Tracing(const ops::Registry& registry, const MethodSpec& spec, std::span<const Argument> arguments,
          const DynamicArguments& dynamic, bool frozen_parameters)
      : spec_(spec),
        arguments_(arguments),
        dynamic_(dynamic),
        frozen_(frozen_parameters),
        tracer_(registry, spec.name) {}

  TracedMethod run() {
    std::vector<MethodValue> values;
    result_.argument_symbols.assign(arguments_.size(), kConstant);
    for (size_t i = 0; i < arguments_.size(); ++i) values.push_back(value_of(static_cast<int32_t>(i)));
    MethodContext context(tracer_, *this);
    try {
      const std::vector<Tensor> outputs = spec_.method(context, values);
      result_.graph = tracer_.finish(outputs);
    } catch (Error& error) {
      if (!names_line(error.message())) {
        name_symbols(error);
        error.add_context(place());
      }
      throw;
    }
    // What the method did wrong is no fault of the first pass that would find it.
    const std::vector<std::string> faults = graph::faults(result_.graph);
    if (!faults.empty()) throw Error(ErrorCode::kInvalidArgument, "method '{}': {}", spec_.name, faults[0]);
    return std::move(result_);
  }

  /// Says which arguments the symbols are.
  void name_symbols(Error& error) const {
    for (size_t i = 0; i < result_.symbols.size(); ++i) {
      const std::string symbol = fmt::format("symbolic dimension s{} ", i);
      if (error.message().find(symbol) == std::string::npos) continue;
      error.add_context(fmt::format("s{} is {}", i, to_text(result_.symbols[i], spec_.names)));
    }
  }

  /// What is known of the line that runs, where an error does not know it: a size has no place in the source.
  std::string place() const {
    const std::string_view path = spec_.where.file_name();
    std::string text =
        fmt::format("method '{}' of {}:{}", spec_.name, path.substr(path.find_last_of('/') + 1), spec_.where.line());
    if (const std::string last = tracer_.last_node(); !last.empty()) text += ", behind " + last;
    return text;
  }

  bool branch(const Dim& left, Relation relation, const Dim& right, std::source_location where) override {
    const Term a = term_of(left);
    const Term b = term_of(right);
    const bool answer = holds(relation, left.at(hints_), right.at(hints_));
    if (!a.has_quantity && !b.has_quantity) return answer;
    Guard guard{.left = a, .relation = relation, .right = b};
    if (!answer) negate(guard);
    if (!guard.left.has_quantity && guard.relation == Relation::kEqual) std::swap(guard.left, guard.right);
    guard.from_branch = true;
    add(std::move(guard), where);
    return answer;
  }

  double item(const Tensor& /*tensor*/, std::source_location where) override {
    const std::string_view path = where.file_name();
    throw Error(ErrorCode::kGraphBreak,
                "{}:{}: item() cannot be part of a graph: it reads an element of a tensor on the host",
                path.substr(path.find_last_of('/') + 1), where.line())
        .remedy("keep the value on the device, or pass it as an argument of the method");
  }

 private:
  static constexpr int32_t kConstant = -1;

  MethodValue value_of(int32_t index) {
    const Argument& argument = arguments_[static_cast<size_t>(index)];
    switch (spec_.kinds[static_cast<size_t>(index)]) {
      case ArgumentKind::kTensor:
      case ArgumentKind::kParameter:
        return tensor_value(index, *tensor_of(argument));
      case ArgumentKind::kHostList: {
        const Dim length = size_of(index, {Kind::kLength, index, 0});
        result_.lists.push_back(index);
        return tracer_.host_list(name(index), length);
      }
      case ArgumentKind::kDimension:
        return size_of(index, {Kind::kValue, index, 0});
      case ArgumentKind::kInteger:
        expect_equal({Kind::kValue, index, 0}, std::get<int64_t>(argument));
        return Dim(std::get<int64_t>(argument));
      default:
        expect_value({Kind::kValue, index, 0});
        break;
    }
    if (const auto* number = std::get_if<double>(&argument)) return *number;
    if (const auto* flag = std::get_if<bool>(&argument)) return *flag;
    return std::get<std::string>(argument);
  }

  Tensor tensor_value(int32_t index, const Tensor& tensor) {
    const bool parameter = spec_.kinds[static_cast<size_t>(index)] == ArgumentKind::kParameter;
    expect_value({Kind::kGiven, index, 0});
    if (!tensor.defined()) return Tensor();
    expect_value({Kind::kDType, index, 0});
    expect_value({Kind::kFormat, index, 0});
    expect_equal({Kind::kRank, index, 0}, static_cast<int64_t>(tensor.rank()));
    TensorMeta meta = tensor.meta();
    for (size_t axis = 0; axis < tensor.rank(); ++axis) {
      if (axis == 0 && !parameter) {
        meta.shape[0] = size_of(index, {Kind::kSize, index, 0});
      } else {
        expect_equal({Kind::kSize, index, static_cast<int32_t>(axis)}, tensor.size(axis));
      }
    }
    // Behind the sizes, which explain most of them when they fail.
    for (size_t axis = 0; axis < tensor.rank(); ++axis) {
      expect_equal({Kind::kStride, index, static_cast<int32_t>(axis)}, tensor.stride(axis));
    }
    if (parameter && frozen_) {
      tracer_.name_parameter(name(index), tensor);
      result_.frozen.push_back({index, tensor.data()});
      return tensor;
    }
    result_.inputs.push_back(index);
    return tracer_.input(name(index), meta);
  }

  /// A constant, guarded, or a symbol.
  Dim size_of(int32_t index, const Quantity& quantity) {
    const int64_t size = read_integer(quantity, arguments_);
    const int32_t chosen =
        dynamic_.symbols.empty() ? choose_symbol(index, size) : dynamic_.symbols[static_cast<size_t>(index)];
    result_.argument_symbols[static_cast<size_t>(index)] = chosen;
    if (chosen == kConstant) {
      expect_equal(quantity, size);
      return size;
    }
    if (static_cast<size_t>(chosen) < hints_.size()) {
      const Quantity& same = result_.symbols[static_cast<size_t>(chosen)];
      add({.left = term(quantity), .relation = Relation::kEqual, .right = term(same)}, spec_.where);
      return Dim::symbolic(static_cast<Symbol>(chosen));
    }
    const Symbol symbol = tracer_.symbol(name(index), 2, kMaxDynamicSize);
    hints_.push_back(size);
    result_.symbols.push_back(quantity);
    add({.left = Term{.offset = 2}, .relation = Relation::kLessOrEqual, .right = term(quantity)}, spec_.where);
    add({.left = term(quantity), .relation = Relation::kLessOrEqual, .right = Term{.offset = kMaxDynamicSize}},
        spec_.where);
    return Dim::symbolic(symbol);
  }

  /// The symbol of a size: the one of an equal size, a new one, or none.
  int32_t choose_symbol(int32_t index, int64_t size) const {
    if (!dynamic_.dynamic[static_cast<size_t>(index)] || size < 2 || size > kMaxDynamicSize) return kConstant;
    const bool own = dynamic_.own_symbol[static_cast<size_t>(index)];
    for (size_t i = 0; i < hints_.size() && !own; ++i) {
      const bool shared = !dynamic_.own_symbol[static_cast<size_t>(result_.symbols[i].argument)];
      if (shared && hints_[i] == size) return static_cast<int32_t>(i);
    }
    return static_cast<int32_t>(hints_.size());
  }

  static Term term(const Quantity& quantity) { return {.has_quantity = true, .quantity = quantity}; }

  Term term_of(const Dim& dim) const {
    if (dim.is_constant()) return {.offset = dim.offset()};
    return {.has_quantity = true,
            .quantity = result_.symbols[static_cast<size_t>(dim.symbol())],
            .scale = dim.scale(),
            .offset = dim.offset()};
  }

  /// Turns a comparison that does not hold into one that does.
  static void negate(Guard& guard) {
    switch (guard.relation) {
      case Relation::kEqual:
        guard.relation = Relation::kNotEqual;
        return;
      case Relation::kNotEqual:
        guard.relation = Relation::kEqual;
        return;
      case Relation::kLess:
        guard.relation = Relation::kLessOrEqual;
        break;
      case Relation::kLessOrEqual:
        guard.relation = Relation::kLess;
        break;
    }
    std::swap(guard.left, guard.right);
  }

  void expect_equal(const Quantity& quantity, int64_t value) {
    add({.left = term(quantity), .relation = Relation::kEqual, .right = Term{.offset = value}}, spec_.where);
  }
  void expect_value(const Quantity& quantity) {
    Guard guard{.left = term(quantity), .by_value = true, .value = read(quantity, arguments_)};
    add(std::move(guard), spec_.where);
  }
  void add(Guard guard, const std::source_location& where) {
    const std::string_view path = where.file_name();
    guard.file = path.substr(path.find_last_of('/') + 1);
    guard.line = static_cast<int>(where.line());
    for (const Guard& known : result_.guards) {
      if (known == guard) return;
    }
    result_.guards.push_back(std::move(guard));
  }

  const std::string& name(int32_t index) const { return spec_.names[static_cast<size_t>(index)]; }

  const MethodSpec& spec_;
  std::span<const Argument> arguments_;
  const DynamicArguments& dynamic_;
  bool frozen_;
  Tracer tracer_;
  std::vector<int64_t> hints_;
  TracedMethod result_;
};

}  // namespace

TracedMethod trace_method(const ops::Registry& registry, const MethodSpec& spec, std::span<const Argument> arguments,
                          const DynamicArguments& dynamic, bool frozen_parameters) {
  return Tracing(registry, spec, arguments, dynamic, frozen_parameters).run();
}

std::vector<MethodValue> eager_values(std::span<const Argument> arguments) {
  std::vector<MethodValue> values;
  values.reserve(arguments.size());
  for (const Argument& argument : arguments) {
    if (const Tensor* tensor = tensor_of(argument)) {
      values.emplace_back(*tensor);
    } else if (const auto* list = std::get_if<std::span<const int32_t>>(&argument)) {
      values.emplace_back(ops::HostList(*list));
    } else if (const auto* integer = std::get_if<int64_t>(&argument)) {
      values.emplace_back(Dim(*integer));
    } else if (const auto* number = std::get_if<double>(&argument)) {
      values.emplace_back(*number);
    } else if (const auto* flag = std::get_if<bool>(&argument)) {
      values.emplace_back(*flag);
    } else {
      values.emplace_back(std::get<std::string>(argument));
    }
  }
  return values;
}

}  // namespace reprise::compile
