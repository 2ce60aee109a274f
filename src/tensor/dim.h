#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace reprise {

/// A symbol of a graph; the index into its table of symbols. Every step has the first two.
enum class Symbol : int32_t { kNone = -1, kTokens = 0, kSequences = 1 };

/// One dimension: a constant, or `scale * symbol + offset` while tracing.
class Dim {
 public:
  constexpr Dim() = default;
  constexpr Dim(int64_t constant) : offset_(constant) {}  // NOLINT: a constant reads as the dimension that it is
  static constexpr Dim symbolic(Symbol symbol, int32_t scale = 1, int64_t offset = 0) {
    Dim dim(offset);
    if (scale != 0 && symbol != Symbol::kNone) {
      dim.symbol_ = symbol;
      dim.scale_ = scale;
    }
    return dim;
  }

  constexpr bool is_constant() const { return symbol_ == Symbol::kNone; }
  constexpr Symbol symbol() const { return symbol_; }
  constexpr int32_t scale() const { return scale_; }
  constexpr int64_t offset() const { return offset_; }

  /// The constant; throws kGraphBreak on a symbolic dimension (see also at()).
  int64_t value() const {
    if (!is_constant()) [[unlikely]]
      throw_symbolic();
    return offset_;
  }
  /// The value with symbols[i] for symbol i; throws kInternal when the symbol has no value there.
  int64_t at(std::span<const int64_t> symbols) const;
  /// "4", "s0", "3*s0+1".
  std::string to_string() const;

  friend constexpr bool operator==(const Dim&, const Dim&) = default;
  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, int64_t factor);

 private:
  [[noreturn]] void throw_symbolic() const;

  int64_t offset_ = 0;
  int32_t scale_ = 0;
  Symbol symbol_ = Symbol::kNone;
};

}  // namespace reprise
