#include "load/safetensors_header.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "load/json.h"

namespace reprise::load {
namespace {

constexpr size_t kLengthBytes = 8;
/// "{}", a file without tensors.
constexpr uint64_t kMinHeaderBytes = 2;
constexpr std::string_view kMetadataKey = "__metadata__";

constexpr std::array<std::pair<DType, std::string_view>, 8> kNames = {{{DType::kF32, "F32"},
                                                                       {DType::kBF16, "BF16"},
                                                                       {DType::kF16, "F16"},
                                                                       {DType::kI8, "I8"},
                                                                       {DType::kU8, "U8"},
                                                                       {DType::kI32, "I32"},
                                                                       {DType::kI64, "I64"},
                                                                       {DType::kBool, "BOOL"}}};

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  for (const auto& [dtype, known] : kNames) {
    if (known == name) return dtype;
  }
  return std::nullopt;
}

/// Receives the events of nlohmann's parser, so that a header of a hundred megabytes needs no document tree, and every
/// value is checked as what it was written: an integer, a float or a string.
class HeaderHandler {
 public:
  using json = nlohmann::json;
  HeaderHandler(const std::string& what, size_t data_bytes) : what_(what), data_bytes_(data_bytes) {}

  bool null() { return refuse_value("null"); }
  bool boolean(bool) { return refuse_value("a boolean"); }
  bool number_integer(json::number_integer_t value) {
    if (place_ == Place::kShape || place_ == Place::kOffsets) {
      fail("tensor {}: {} holds the negative number {}", printable(name_), list_name(), value);
    }
    return refuse_value("a number");
  }
  bool number_float(json::number_float_t, const std::string& text) {
    if (place_ == Place::kShape || place_ == Place::kOffsets) {
      fail("tensor {}: {} holds {}, which is not an integer below 2^64", printable(name_), list_name(),
           printable(text));
    }
    return refuse_value("a number");
  }
  bool number_unsigned(json::number_unsigned_t value) {
    if (place_ == Place::kShape) {
      if (dims_.size() == Shape::kMaxRank) {
        throw Error(ErrorCode::kUnsupported, "{}: tensor {} has more than {} dimensions", what_, printable(name_),
                    Shape::kMaxRank);
      }
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        fail("tensor {}: dimension {} is too large", printable(name_), value);
      }
      dims_.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (place_ == Place::kOffsets) {
      if (offsets_.size() == 2) fail("tensor {}: data_offsets holds more than two numbers", printable(name_));
      offsets_.push_back(value);
      return true;
    }
    return refuse_value("a number");
  }
  bool string(std::string& value) {
    if (place_ == Place::kMetadata) {
      header_.metadata[key_] = std::move(value);
      return true;
    }
    if (place_ == Place::kTensor && key_ == "dtype") {
      dtype_ = dtype_from_safetensors(value);
      if (!dtype_) {
        throw Error(ErrorCode::kUnsupported, "{}: tensor {} has the unknown dtype {}", what_, printable(name_),
                    printable(value))
            .remedy("known are F32, BF16, F16, I8, U8, I32, I64 and BOOL");
      }
      return true;
    }
    return refuse_value("a string");
  }
  bool binary(json::binary_t&) { return refuse_value("binary data"); }

  bool start_object(size_t) {
    if (place_ == Place::kOutside) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop && name_ == kMetadataKey) {
      place_ = Place::kMetadata;
    } else if (place_ == Place::kTop) {
      place_ = Place::kTensor;
      dtype_.reset();
      dims_.clear();
      offsets_.clear();
      has_dtype_ = has_shape_ = has_offsets_ = false;
    } else {
      return refuse_value("an object");
    }
    return true;
  }
  bool key(std::string& key) {
    if (place_ == Place::kTop) {
      if (!names_.insert(key).second) fail("{} occurs twice", printable(key));
      name_ = std::move(key);
      return true;
    }
    key_ = std::move(key);
    if (place_ == Place::kMetadata) {
      if (header_.metadata.contains(key_)) fail("__metadata__ key {} occurs twice", printable(key_));
      return true;
    }
    bool* seen = key_ == "dtype"          ? &has_dtype_
                 : key_ == "shape"        ? &has_shape_
                 : key_ == "data_offsets" ? &has_offsets_
                                          : nullptr;
    if (seen == nullptr) fail("tensor {} has the unknown key {}", printable(name_), printable(key_));
    if (*seen) fail("tensor {}: key {} occurs twice", printable(name_), key_);
    *seen = true;
    return true;
  }
  bool end_object() {
    if (place_ == Place::kTensor) finish_tensor();
    place_ = place_ == Place::kTop ? Place::kOutside : Place::kTop;
    return true;
  }
  bool start_array(size_t) {
    if (place_ == Place::kTensor && key_ == "shape") {
      place_ = Place::kShape;
    } else if (place_ == Place::kTensor && key_ == "data_offsets") {
      place_ = Place::kOffsets;
    } else {
      return refuse_value("a list");
    }
    return true;
  }
  bool end_array() {
    place_ = Place::kTensor;
    return true;
  }
  bool parse_error(size_t position, const std::string&, const json::exception&) {
    fail("the header is not valid JSON: error at its byte {}", position);
  }

  SafetensorsHeader take() { return std::move(header_); }

 private:
  enum class Place { kOutside, kTop, kMetadata, kTensor, kShape, kOffsets };

  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorCode::kCorruptData, what_ + ": " + fmt::format(format, std::forward<Args>(args)...));
  }
  std::string_view list_name() const { return place_ == Place::kShape ? "shape" : "data_offsets"; }

  /// Names the value that may not stand where it stands.
  bool refuse_value(std::string_view kind) const {
    switch (place_) {
      case Place::kOutside:
        fail("the header is {}, not an object", kind);
      case Place::kTop:
        fail("the value of {} is {}, not an object", printable(name_), kind);
      case Place::kMetadata:
        fail("__metadata__ key {} is {}, not a string", printable(key_), kind);
      case Place::kTensor:
        fail("tensor {}: {} is {}", printable(name_), key_, kind);
      case Place::kShape:
      case Place::kOffsets:
        fail("tensor {}: {} holds {}, not only integers", printable(name_), list_name(), kind);
    }
    return false;
  }

  void finish_tensor() {
    if (!has_dtype_) fail("tensor {} has no dtype", printable(name_));
    if (!has_shape_) fail("tensor {} has no shape", printable(name_));
    if (!has_offsets_) fail("tensor {} has no data_offsets", printable(name_));
    if (offsets_.size() != 2)
      fail("tensor {}: data_offsets holds {} numbers, not two", printable(name_), offsets_.size());
    const uint64_t begin = offsets_[0];
    const uint64_t end = offsets_[1];
    if (begin > end) fail("tensor {}: data_offsets [{}, {}] are reversed", printable(name_), begin, end);
    if (end > data_bytes_) {
      fail("tensor {}: data_offsets [{}, {}] reach beyond the {} bytes of data in the file", printable(name_), begin,
           end, data_bytes_);
    }
    const Shape shape{std::span<const int64_t>(dims_)};
    // Signed, and over the dimensions that are not zero, so that no later product of a part of them can overflow.
    int64_t bytes = static_cast<int64_t>(size_of(*dtype_));
    bool empty = false;
    for (const int64_t dim : dims_) {
      empty = empty || dim == 0;
      if (dim != 0 && __builtin_mul_overflow(bytes, dim, &bytes)) {
        fail("tensor {}: shape {} has more bytes than 63 bits can count", printable(name_), shape.to_string());
      }
    }
    if (empty) bytes = 0;
    if (static_cast<uint64_t>(bytes) != end - begin) {
      fail("tensor {}: {}{} takes {} bytes, but data_offsets [{}, {}] give it {}", printable(name_),
           safetensors_name(*dtype_), shape.to_string(), bytes, begin, end, end - begin);
    }
    header_.entries.push_back({name_, *dtype_, shape, begin, end});
  }

  const std::string& what_;
  const size_t data_bytes_;
  SafetensorsHeader header_;
  std::unordered_set<std::string> names_;
  Place place_ = Place::kOutside;
  std::string name_;  // of the tensor
  std::string key_;   // inside the tensor or the metadata
  std::optional<DType> dtype_;
  std::vector<int64_t> dims_;
  std::vector<uint64_t> offsets_;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
};

/// The length of the header, checked against the file and the limit.
size_t header_length(std::span<const std::byte> file, const std::string& what) {
  constexpr std::string_view kPointer = "version https://git-lfs";
  if (file.size() >= kPointer.size() && std::memcmp(file.data(), kPointer.data(), kPointer.size()) == 0) {
    throw Error(ErrorCode::kCorruptData, "{} is a Git LFS pointer, not the file that it points to", what)
        .remedy("fetch it with 'git lfs pull'");
  }
  if (file.size() < kLengthBytes + kMinHeaderBytes) {
    throw Error(ErrorCode::kCorruptData, "{} has {} bytes, too few for a safetensors file", what, file.size());
  }
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= static_cast<uint64_t>(file[i]) << (8 * i);
  const uint64_t available = file.size() - kLengthBytes;
  if (length > available) {
    throw Error(ErrorCode::kCorruptData, "{}: the header should have {} bytes, but only {} follow in the file", what,
                length, available)
        .remedy("the file is cut short, or not a safetensors file");
  }
  if (length < kMinHeaderBytes) {
    throw Error(ErrorCode::kCorruptData, "{}: a header of {} bytes is too short to be JSON", what, length);
  }
  if (length > kMaxHeaderBytes) {
    throw Error(ErrorCode::kUnsupported, "{}: the header has {} bytes, more than the limit of {}", what, length,
                kMaxHeaderBytes);
  }
  return static_cast<size_t>(length);
}

/// Refuses overlap, holes and trailing bytes. `entries` are sorted by their place and still relative to the data.
void check_coverage(const std::vector<HeaderEntry>& entries, size_t data_bytes, const std::string& what) {
  size_t covered = 0;
  const HeaderEntry* previous = nullptr;
  for (const HeaderEntry& entry : entries) {
    if (entry.begin < covered) {
      throw Error(ErrorCode::kCorruptData, "{}: tensors {} and {} share bytes ([{}, {}] and [{}, {}])", what,
                  printable(previous->name), printable(entry.name), previous->begin, previous->end, entry.begin,
                  entry.end);
    }
    if (entry.begin > covered) {
      throw Error(ErrorCode::kCorruptData, "{}: {} bytes before tensor {} belong to no tensor", what,
                  entry.begin - covered, printable(entry.name));
    }
    covered = entry.end;
    previous = &entry;
  }
  if (covered != data_bytes) {
    throw Error(ErrorCode::kCorruptData, "{}: {} bytes follow the last tensor", what, data_bytes - covered);
  }
}

}  // namespace

std::string_view safetensors_name(DType dtype) {
  for (const auto& [known, name] : kNames) {
    if (known == dtype) return name;
  }
  return "?";
}

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& what) {
  const size_t length = header_length(file, what);
  const size_t data_begin = kLengthBytes + length;
  const size_t data_bytes = file.size() - data_begin;
  const char* text = reinterpret_cast<const char*>(file.data()) + kLengthBytes;
  if (text[0] != '{') throw Error(ErrorCode::kCorruptData, "{}: the header does not begin with '{{'", what);

  HeaderHandler handler(what, data_bytes);
  nlohmann::json::sax_parse(text, text + length, &handler);
  SafetensorsHeader header = handler.take();
  // An empty tensor lies before the tensor that begins at the same place.
  std::sort(header.entries.begin(), header.entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_coverage(header.entries, data_bytes, what);
  header.data_begin = data_begin;
  for (HeaderEntry& entry : header.entries) {
    entry.begin += data_begin;
    entry.end += data_begin;
  }
  return header;
}

}  // namespace reprise::load
