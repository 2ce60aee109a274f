#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "reprise/compile.h"
#include "reprise/ops.h"

namespace reprise {

/// `count` numbers around zero, of which neighbours differ; another seed gives others.
inline std::vector<float> numbers(int64_t count, int seed = 0) {
  std::vector<float> values;
  uint32_t state = 2654435761u * static_cast<uint32_t>(seed + 1);
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    values.push_back(static_cast<float>(state >> 8) / 8388608.0f - 1.0f);
  }
  return values;
}

inline Tensor random_tensor(const Library& library, const Shape& shape, int seed = 0) {
  return library.from_floats(shape, numbers(shape.elements(), seed));
}

inline Tensor constant_tensor(const Library& library, const Shape& shape, float value) {
  return library.from_floats(shape, std::vector<float>(static_cast<size_t>(shape.elements()), value));
}

inline Tensor integer_tensor(const Library& library, const Shape& shape, const std::vector<int32_t>& values) {
  return library.from_bytes(TensorMeta(DType::kI32, shape), std::as_bytes(std::span(values)));
}

/// The bits of a float32 tensor: NaN equals itself.
inline std::vector<std::byte> bits(const Library& library, const Tensor& tensor) { return library.to_bytes(tensor); }

/// Operators of a method's graph behind the passes, in order.
inline std::vector<std::string> op_names(const CompiledMethod& method, int64_t variant = 0) {
  std::vector<std::string> names;
  const graph::Graph& graph = method.graph(variant);
  for (const graph::NodeId id : graph.order()) names.push_back(graph.node(id).op->name());
  return names;
}

/// The text of the error that a call throws, whose code is checked.
template <typename Function>
std::string error_of(ErrorCode code, Function function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error_code_name(error.code()), error_code_name(code)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing is thrown";
  return "";
}

inline void expect_text(const std::string& text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in:\n" << text;
}

inline int64_t count_of(const std::string& text, std::string_view part) {
  int64_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// What a call writes to the log.
template <typename Function>
std::string log_of(Function function) {
  set_log_level(LogLevel::kInfo);
  testing::internal::CaptureStderr();
  function();
  return testing::internal::GetCapturedStderr();
}

inline MethodOptions named(std::string name, std::vector<std::string> arguments = {}) {
  MethodOptions options;
  options.name = std::move(name);
  options.argument_names = std::move(arguments);
  return options;
}

/// y = silu(x)
inline auto silu_method() {
  return [](Context& context, Tensor x) { return ops::silu(context, x); };
}

/// x = x + x, in place.
inline void double_in_place(Context& context, const Tensor& x) { ops::copy_(context, x, ops::add(context, x, x)); }

/// A weight of a linear layer in the device's format.
inline Tensor pack_weight(Library& library, const Tensor& weight) {
  MethodOptions options;
  options.mode = Mode::kEager;
  const Tensor packed =
      library.compile([](Context& context, Tensor w) { return ops::pack_linear_weight(context, w); }, options)(weight);
  library.synchronize();
  return packed;
}

/// A test with a library on the CPU.
class LibraryTest : public ::testing::Test {
 protected:
  Tensor random(const Shape& shape, int seed = 0) const { return random_tensor(library_, shape, seed); }
  Tensor constant(const Shape& shape, float value) const { return constant_tensor(library_, shape, value); }
  Tensor pack(const Tensor& weight) { return pack_weight(library_, weight); }
  std::vector<float> floats(const Tensor& tensor) const { return library_.to_floats(tensor); }

  Library library_ = Library::open("cpu", 2);
};

}  // namespace reprise
