#include "tensor/dim.h"

#include "base/error.h"

namespace reprise {

void Dim::throw_symbolic() const {
  throw Error(ErrorCode::kGraphBreak, "the value of the symbolic dimension {} is not known while tracing", to_string())
      .remedy("pass it as a host argument, or guard on it");
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

Dim operator+(const Dim& a, const Dim& b) {
  if (a.is_constant()) return Dim::symbolic(b.symbol_, b.scale_, a.offset_ + b.offset_);
  if (b.is_constant()) return Dim::symbolic(a.symbol_, a.scale_, a.offset_ + b.offset_);
  if (a.symbol_ != b.symbol_) {
    throw Error(ErrorCode::kUnsupported, "dimensions {} and {} of different symbols cannot be added", a.to_string(),
                b.to_string());
  }
  return Dim::symbolic(a.symbol_, a.scale_ + b.scale_, a.offset_ + b.offset_);
}

Dim operator-(const Dim& a, const Dim& b) { return a + b * -1; }

Dim operator*(const Dim& a, int64_t factor) {
  return Dim::symbolic(a.symbol_, static_cast<int32_t>(a.scale_ * factor), a.offset_ * factor);
}

}  // namespace reprise
