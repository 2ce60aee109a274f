#include "load/pack_cache.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hash.h"
#include "load/json.h"
#include "load/mapping_guard.h"
#include "load/new_file.h"
#include "load/sampled_hash.h"

namespace reprise::load {
namespace {

using nlohmann::json;

constexpr std::string_view kPackMagic = "REPRPACK";
/// Of entries in the file: whole pages, whatever else is aligned.
constexpr uint64_t kPieceAlignment = 4096;
/// Bytes that are copied from the device at a time.
constexpr size_t kPackChunk = size_t{4} << 20;
/// Samples of an entry, of a file, and of tensors of a file.
constexpr uint64_t kSamplesOfEntry = 16;
constexpr uint64_t kSamplesOfFile = 512;
constexpr size_t kSampledTensors = 1024;

/// The beginning of the file; the header with the names lies behind the data, whose end is known only then.
struct Preamble {
  char magic[8];
  uint32_t version;
  uint32_t reserved;
  uint64_t header_offset;
  uint64_t header_bytes;
  uint64_t header_hash;
  uint64_t file_bytes;
  uint64_t preamble_hash;  ///< of everything before it
};
static_assert(sizeof(Preamble) == 56);

uint64_t hash_of_preamble(const Preamble& preamble) {
  return hash_bytes(std::as_bytes(std::span(&preamble, 1)).first(offsetof(Preamble, preamble_hash)));
}

uint64_t to_whole_pages(uint64_t value) { return (value + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment; }

template <typename... Args>
[[noreturn]] void throw_damaged(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorCode::kCorruptData, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void throw_differs(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorCode::kFailedPrecondition, fmt::format(format, std::forward<Args>(args)...));
}

Preamble read_preamble(std::span<const std::byte> file) {
  Preamble preamble{};
  if (file.size() < sizeof(preamble)) throw_damaged("it is cut: it has {} bytes", file.size());
  std::memcpy(&preamble, file.data(), sizeof(preamble));
  if (std::string_view(preamble.magic, sizeof(preamble.magic)) != kPackMagic) throw_damaged("it is no pack cache");
  // First, since a later version may say the rest elsewhere.
  if (preamble.version != PackCache::kVersion) {
    throw_differs("it has the version {}, this program has {}", preamble.version, PackCache::kVersion);
  }
  if (preamble.preamble_hash != hash_of_preamble(preamble)) throw_damaged("the checksum of its first bytes is wrong");
  if (preamble.file_bytes != file.size()) {
    throw_damaged("it has {} bytes, not the {} that were written", file.size(), preamble.file_bytes);
  }
  if (preamble.header_offset > file.size() || preamble.header_bytes > file.size() - preamble.header_offset) {
    throw_damaged("its header lies outside of it");
  }
  if (hash_bytes(file.subspan(preamble.header_offset, preamble.header_bytes)) != preamble.header_hash) {
    throw_damaged("the checksum of its header is wrong");
  }
  return preamble;
}

/// A number as it was written: get() would convert a fraction, a negative or a far too large one to any other.
template <typename Number = uint64_t>
Number number_at(const json& object, const char* key) {
  const json& number = object.at(key);
  if (!(std::is_signed_v<Number> ? number.is_number_integer() : number.is_number_unsigned()))
    throw_damaged("its header says {} for \"{}\"", describe(number), key);
  return number.get<Number>();
}

json identity_json(const PackIdentity& identity) {
  json sources = json::array();
  for (const PackSource& source : identity.sources) {
    sources.push_back({{"name", source.name},
                       {"bytes", source.bytes},
                       {"modified_ns", source.modified_ns},
                       {"header_hash", source.header_hash},
                       {"sample_hash", source.sample_hash}});
  }
  return {{"device", identity.device},
          {"formats", identity.formats},
          {"layout", identity.layout},
          {"dtype", identity.dtype},
          {"sources", sources}};
}

/// Field by field, so that the reason is told.
void check_identity(const json& header, const PackIdentity& identity) {
  const auto check_text = [&](const char* key, const std::string& wanted) {
    const auto found = header.at(key).get<std::string>();
    if (found != wanted) throw_differs("its {} is {}, not {}", key, printable(found), printable(wanted));
  };
  check_text("device", identity.device);
  check_text("dtype", identity.dtype);
  check_text("formats", identity.formats);
  if (number_at(header, "layout") != identity.layout) {
    throw_differs("its weights are laid out as another version of the program or another processor has them");
  }
  const json& sources = header.at("sources");
  if (sources.size() != identity.sources.size()) {
    throw_differs("it was made of {} files, the model has {}", sources.size(), identity.sources.size());
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    const PackSource& now = identity.sources[i];
    const PackSource then = {sources[i].at("name").get<std::string>(), number_at(sources[i], "bytes"),
                             number_at<int64_t>(sources[i], "modified_ns"), number_at(sources[i], "header_hash"),
                             number_at(sources[i], "sample_hash")};
    if (then.name != now.name) {
      throw_differs("it was made of {}, the model has {}", printable(then.name), printable(now.name));
    }
    if (then.bytes != now.bytes) throw_differs("{} had {} bytes and has {}", now.name, then.bytes, now.bytes);
    if (then.header_hash != now.header_hash) throw_differs("{} had other tensors", now.name);
    if (then.modified_ns != now.modified_ns) throw_differs("{} was written again", now.name);
    if (then.sample_hash != now.sample_hash) {
      throw_differs("{} holds other data, though it has the time of writing that it had", now.name);
    }
  }
}

/// Of a part of a file.
uint64_t hash_of_samples(std::span<const std::byte> bytes, std::span<const uint64_t> places) {
  return sampled_hash(bytes.size(), places, [bytes](uint64_t offset, std::span<std::byte> to) {
    std::ranges::copy(bytes.subspan(offset, to.size()), to.begin());
  });
}

uint64_t hash_of_data(const MappedFile& file, std::span<const StoredTensor* const> tensors) {
  const uint64_t bytes = file.bytes().size();
  std::vector<uint64_t> places = sample_places(bytes, kSamplesOfFile);
  if (bytes > kSamplesOfFile * kSampleBytes) {
    const size_t step = (tensors.size() + kSampledTensors - 1) / kSampledTensors;
    for (size_t i = 0; i < tensors.size(); i += step) {
      const std::span<const std::byte> data = tensors[i]->bytes;
      const auto middle = static_cast<uint64_t>(data.data() - file.bytes().data()) + data.size() / 2;
      places.push_back(std::min(middle / kSampleBytes * kSampleBytes, bytes - kSampleBytes));
    }
  }
  const uint64_t hash = hash_of_samples(file.bytes(), places);
  file.release(0, file.bytes().size());
  return hash;
}

}  // namespace

std::vector<PackSource> pack_sources(const Checkpoint& checkpoint) {
  std::vector<PackSource> sources;
  std::map<const MappedFile*, std::vector<const StoredTensor*>> files;
  for (const StoredTensor& tensor : checkpoint.tensors()) files[tensor.owner.get()].push_back(&tensor);
  for (const auto& [pointer, tensors] : files) {
    const MappedFile& file = *pointer;
    uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, file.bytes().data(), sizeof(header_bytes));  // little-endian, checked when it was opened
    sources.push_back({file.path().filename().string(), file.bytes().size(), file.modified_ns(),
                       hash_bytes(file.bytes().first(sizeof(header_bytes) + header_bytes)),
                       hash_of_data(file, tensors)});
  }
  std::ranges::sort(sources, {}, &PackSource::name);
  return sources;
}

std::filesystem::path pack_cache_path(const std::filesystem::path& model, const std::filesystem::path& directory,
                                      std::string_view device, std::string_view dtype) {
  const std::string suffix = fmt::format("{}.{}.reprise-pack", device, dtype);
  const std::filesystem::path full = std::filesystem::weakly_canonical(model);
  if (!directory.empty()) {
    return directory / fmt::format("{}-{:016x}.{}", full.filename().string(), hash_text(full.string()), suffix);
  }
  if (std::filesystem::is_directory(full)) return full / ("model." + suffix);
  return full.parent_path() / fmt::format("{}.{}", full.stem().string(), suffix);
}

PackCache PackCache::open(const std::filesystem::path& path, const PackIdentity& identity) {
  PackCache result(open_guarded(path));
  const std::span<const std::byte> file = result.file_->bytes();
  const Preamble preamble = read_preamble(file);
  const std::span<const std::byte> text = file.subspan(preamble.header_offset, preamble.header_bytes);
  try {
    const json header = parse_json({reinterpret_cast<const char*>(text.data()), text.size()}, "its header");
    check_identity(header, identity);
    for (const json& item : header.at("entries")) {
      Place place{{item.at("name").get<std::string>(), number_at(item, "content"), number_at(item, "bytes")},
                  number_at(item, "offset")};
      if (place.offset % kPieceAlignment != 0 || place.offset == 0 || place.offset > preamble.header_offset ||
          place.entry.bytes > preamble.header_offset - place.offset) {
        throw_damaged("{} lies outside of it", printable(place.entry.name));
      }
      const std::span<const std::byte> bytes = file.subspan(place.offset, place.entry.bytes);
      if (hash_of_samples(bytes, sample_places(bytes.size(), kSamplesOfEntry)) != number_at(item, "sample_hash")) {
        throw_damaged("the checksum of {} is wrong", printable(place.entry.name));
      }
      result.places_.push_back(std::move(place));
    }
  } catch (const json::exception& error) {
    throw_damaged("its header is not understood: {}", error.what());
  }
  std::ranges::sort(result.places_, {}, [](const Place& place) { return place.entry.name; });
  return result;
}

std::span<const std::byte> PackCache::find(const PackEntry& entry) const {
  const auto place = std::ranges::lower_bound(places_, entry.name, {}, [](const Place& one) { return one.entry.name; });
  if (place == places_.end() || place->entry.name != entry.name || place->entry.content != entry.content ||
      place->entry.bytes != entry.bytes) {
    return {};
  }
  return file_->bytes().subspan(place->offset, place->entry.bytes);
}

void write_pack_cache(const std::filesystem::path& path, const PackIdentity& identity,
                      std::span<const PackEntry> entries, const PackReader& read) {
  uint64_t offset = to_whole_pages(sizeof(Preamble));
  json header = identity_json(identity);
  header["entries"] = json::array();
  for (size_t i = 0; i < entries.size(); ++i) {
    const PackEntry& entry = entries[i];
    const uint64_t hash = sampled_hash(entry.bytes, sample_places(entry.bytes, kSamplesOfEntry),
                                       [&](uint64_t at, std::span<std::byte> to) { read(i, at, to); });
    header["entries"].push_back({{"name", entry.name},
                                 {"content", entry.content},
                                 {"bytes", entry.bytes},
                                 {"offset", offset},
                                 {"sample_hash", hash}});
    offset = to_whole_pages(offset + entry.bytes);
  }
  const std::string text = header.dump();
  const std::span<const std::byte> header_bytes = std::as_bytes(std::span(text));

  NewFile file(path, offset + text.size());
  std::vector<std::byte> chunk;
  offset = to_whole_pages(sizeof(Preamble));
  for (size_t i = 0; i < entries.size(); ++i) {
    for (uint64_t done = 0; done < entries[i].bytes; done += chunk.size()) {
      chunk.resize(std::min<uint64_t>(kPackChunk, entries[i].bytes - done));
      read(i, done, chunk);
      file.write(offset + done, chunk);
    }
    offset = to_whole_pages(offset + entries[i].bytes);
  }
  file.write(offset, header_bytes);
  Preamble preamble{};
  std::copy(kPackMagic.begin(), kPackMagic.end(), preamble.magic);
  preamble.version = PackCache::kVersion;
  preamble.header_offset = offset;
  preamble.header_bytes = text.size();
  preamble.header_hash = hash_bytes(header_bytes);
  preamble.file_bytes = offset + text.size();
  preamble.preamble_hash = hash_of_preamble(preamble);
  file.write(0, std::as_bytes(std::span(&preamble, 1)));
  file.finish();
}

}  // namespace reprise::load
