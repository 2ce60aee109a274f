#pragma once

#include <array>
#include <cstdint>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "reprise/library.h"

namespace reprise {

/// The first parameter of every method.
using Context = compile::MethodContext;
using compile::Parameter;
using ops::HostList;

namespace detail {

template <typename T>
inline constexpr bool kNever = false;

/// How a parameter type of a method is declared, given and received.
template <typename T>
struct ArgumentType {
  static_assert(kNever<T>,
                "a method's parameters are Tensor, Parameter, HostList, Dim, int64_t, double, bool or std::string");
  using GivenType = T;
};

template <compile::ArgumentKind kKind, typename Given, typename Alternative>
struct ArgumentTypeOf {
  static constexpr compile::ArgumentKind kind = kKind;
  using GivenType = Given;
  static Alternative receive(const compile::MethodValue& value) { return std::get<Alternative>(value); }
};

template <>
struct ArgumentType<Tensor> : ArgumentTypeOf<compile::ArgumentKind::kTensor, Tensor, Tensor> {
  static compile::Argument give(Tensor tensor) { return tensor; }
};
template <>
struct ArgumentType<Parameter> : ArgumentTypeOf<compile::ArgumentKind::kParameter, Tensor, Tensor> {
  static compile::Argument give(Tensor tensor) { return Parameter{std::move(tensor)}; }
  static Parameter receive(const compile::MethodValue& value) { return {std::get<Tensor>(value)}; }
};
template <>
struct ArgumentType<HostList> : ArgumentTypeOf<compile::ArgumentKind::kHostList, std::span<const int32_t>, HostList> {
  static compile::Argument give(std::span<const int32_t> list) { return list; }
};
template <>
struct ArgumentType<Dim> : ArgumentTypeOf<compile::ArgumentKind::kDimension, int64_t, Dim> {
  static compile::Argument give(int64_t value) { return value; }
};
template <>
struct ArgumentType<int64_t> : ArgumentTypeOf<compile::ArgumentKind::kInteger, int64_t, Dim> {
  static compile::Argument give(int64_t value) { return value; }
  static int64_t receive(const compile::MethodValue& value) { return std::get<Dim>(value).value(); }
};
template <>
struct ArgumentType<double> : ArgumentTypeOf<compile::ArgumentKind::kFloat, double, double> {
  static compile::Argument give(double value) { return value; }
};
template <>
struct ArgumentType<bool> : ArgumentTypeOf<compile::ArgumentKind::kBool, bool, bool> {
  static compile::Argument give(bool value) { return value; }
};
template <>
struct ArgumentType<std::string> : ArgumentTypeOf<compile::ArgumentKind::kString, std::string, std::string> {
  static compile::Argument give(std::string value) { return value; }
};

/// What a method may return: a tensor, an array or a vector of them.
template <typename T>
struct ResultType {
  static_assert(kNever<T>, "a method returns Tensor, std::array<Tensor, N> or std::vector<Tensor>");
};
template <>
struct ResultType<Tensor> {
  static std::vector<Tensor> pack(Tensor result) { return {std::move(result)}; }
  static Tensor unpack(std::vector<Tensor> results) { return std::move(results[0]); }
};
template <>
struct ResultType<std::vector<Tensor>> {
  static std::vector<Tensor> pack(std::vector<Tensor> results) { return results; }
  static std::vector<Tensor> unpack(std::vector<Tensor> results) { return results; }
};
template <size_t kCount>
struct ResultType<std::array<Tensor, kCount>> {
  static std::vector<Tensor> pack(const std::array<Tensor, kCount>& results) {
    return {results.begin(), results.end()};
  }
  static std::array<Tensor, kCount> unpack(std::vector<Tensor> results) {
    std::array<Tensor, kCount> array;
    for (size_t i = 0; i < kCount; ++i) array[i] = std::move(results[i]);
    return array;
  }
};

template <typename T>
struct Signature {
  static_assert(kNever<T>, "a method is callable in one way, as Result(reprise::Context&, arguments...)");
};
template <typename T>
  requires requires { &T::operator(); }
struct Signature<T> : Signature<decltype(&T::operator())> {};
template <typename Class, typename Result, typename... Arguments>
struct Signature<Result (Class::*)(Context&, Arguments...) const> : Signature<Result (*)(Context&, Arguments...)> {};
template <typename Class, typename Result, typename... Arguments>
struct Signature<Result (Class::*)(Context&, Arguments...)> : Signature<Result (*)(Context&, Arguments...)> {};

}  // namespace detail

/// A compiled method with the argument and result types of the callable that it was made of.
template <typename Result, typename... Arguments>
class Compiled : public CompiledMethod {
 public:
  explicit Compiled(CompiledMethod method) : CompiledMethod(std::move(method)) {}

  Result operator()(typename detail::ArgumentType<std::decay_t<Arguments>>::GivenType... arguments) {
    const std::array<compile::Argument, sizeof...(Arguments)> list = {
        detail::ArgumentType<std::decay_t<Arguments>>::give(std::move(arguments))...};
    return detail::ResultType<Result>::unpack(CompiledMethod::operator()(list));
  }
};

namespace detail {

template <typename Result, typename... Arguments>
struct Signature<Result (*)(Context&, Arguments...)> {
  template <typename Callable, size_t... kIndex>
  static compile::Method wrap(Callable callable, std::index_sequence<kIndex...>) {
    return [callable = std::move(callable)](Context& context,
                                            [[maybe_unused]] std::span<const compile::MethodValue> values) mutable {
      return ResultType<Result>::pack(
          callable(context, ArgumentType<std::decay_t<Arguments>>::receive(values[kIndex])...));
    };
  }

  template <typename Callable>
  static Compiled<Result, Arguments...> compile(Library& library, Callable callable, MethodOptions options,
                                                std::source_location where) {
    compile::MethodSpec spec;
    spec.kinds = {ArgumentType<std::decay_t<Arguments>>::kind...};
    spec.method = wrap(std::move(callable), std::index_sequence_for<Arguments...>());
    spec.where = where;
    return Compiled<Result, Arguments...>(library.compile_method(std::move(spec), std::move(options)));
  }
};

}  // namespace detail

template <typename Callable>
auto Library::compile(Callable callable, MethodOptions options, std::source_location where) {
  return detail::Signature<std::decay_t<Callable>>::compile(*this, std::move(callable), std::move(options), where);
}

}  // namespace reprise
