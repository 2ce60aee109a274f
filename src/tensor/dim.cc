#include "tensor/dim.h"

#include "base/error.h"

namespace reprise {

void Dim::throw_symbolic() const {
  throw Error(ErrorCode::kGraphBreak, "the value of the symbolic dimension {} is not known while tracing", to_string())
      .remedy(
          "take the dimension itself, as shape()[0]; branch with is_equal(), is_less() or is_at_most(); or pass the "
          "number as an argument");
}

int64_t Dim::at(std::span<const int64_t> symbols) const {
  if (is_constant()) return offset_;
  const size_t index = static_cast<size_t>(symbol_);
  if (index >= symbols.size()) throw Error(ErrorCode::kInternal, "symbol {} has no value", to_string());
  return scale_ * symbols[index] + offset_;
}

std::string Dim::to_string() const {
  if (is_constant()) return fmt::format("{}", offset_);
  std::string text = scale_ == 1 ? "" : fmt::format("{}*", scale_);
  text += fmt::format("s{}", static_cast<int32_t>(symbol_));
  if (offset_ != 0) text += fmt::format("{:+}", offset_);
  return text;
}

namespace {

/// `scale * symbol + offset` from numbers that were computed with wraparound checks; throws kUnsupported on overflow.
Dim checked_dim(Symbol symbol, int64_t scale, int64_t offset, bool overflow, const Dim& a, char op, int64_t b) {
  if (overflow || scale != static_cast<int32_t>(scale)) {
    throw Error(ErrorCode::kUnsupported, "the dimension {} {} {} is too large", a.to_string(), op, b);
  }
  return Dim::symbolic(symbol, static_cast<int32_t>(scale), offset);
}

}  // namespace

Dim operator+(const Dim& a, const Dim& b) {
  if (!a.is_constant() && !b.is_constant() && a.symbol_ != b.symbol_) {
    throw Error(ErrorCode::kUnsupported, "dimensions {} and {} of different symbols cannot be added", a.to_string(),
                b.to_string());
  }
  int64_t offset = 0;
  const bool overflow = __builtin_add_overflow(a.offset_, b.offset_, &offset);
  return checked_dim(a.is_constant() ? b.symbol_ : a.symbol_, int64_t{a.scale_} + b.scale_, offset, overflow, a, '+',
                     b.offset_);
}

Dim operator-(const Dim& a, const Dim& b) { return a + b * -1; }

Dim operator*(const Dim& a, int64_t factor) {
  int64_t scale = 0;
  int64_t offset = 0;
  bool overflow = __builtin_mul_overflow(int64_t{a.scale_}, factor, &scale);
  overflow = __builtin_mul_overflow(a.offset_, factor, &offset) || overflow;
  return checked_dim(a.symbol_, scale, offset, overflow, a, '*', factor);
}

}  // namespace reprise
