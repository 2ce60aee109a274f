#include "text/vocabulary.h"

#include "base/error.h"
#include "text/byte_alphabet.h"

namespace reprise::text {

void Vocabulary::reserve(size_t count) {
  ids_.reserve(count);
  entries_.reserve(count);
}

Vocabulary::Entry& Vocabulary::slot(int64_t id, std::string_view where) {
  if (id < 0 || id >= kIdLimit) {
    throw Error(ErrorCode::kCorruptData, "{}: the id {} is outside of 0 to {}", where, id, kIdLimit - 1);
  }
  if (static_cast<size_t>(id) >= entries_.size()) entries_.resize(static_cast<size_t>(id) + 1);
  return entries_[static_cast<size_t>(id)];
}

void Vocabulary::add(std::string spelling, int64_t id, std::string_view where) {
  Entry& entry = slot(id, where);
  if (entry.present) {
    throw Error(ErrorCode::kCorruptData, "{}: '{}' and '{}' have the same id {}", where, entry.spelling, spelling, id);
  }
  if (!ids_.try_emplace(spelling, static_cast<int32_t>(id)).second) {
    throw Error(ErrorCode::kCorruptData, "{}: '{}' has two ids", where, spelling);
  }
  entry.present = true;
  entry.bytes = bytes_of_spelling(spelling).value_or(spelling);
  entry.spelling = std::move(spelling);
}

void Vocabulary::add(const AddedToken& token, std::string_view where) {
  const std::optional<int32_t> known = id_of(token.content);
  if (known && *known != token.id) {
    throw Error(ErrorCode::kCorruptData, "{}: '{}' has the id {} here and {} before", where, token.content, token.id,
                *known);
  }
  if (!known) add(token.content, token.id, where);
  Entry& entry = slot(token.id, where);
  entry.special = entry.special || token.special;
  // An added token stands for its content as it is, also where that happens to be spelled in the byte alphabet.
  entry.bytes = token.content;
}

std::optional<int32_t> Vocabulary::id_of(std::string_view spelling) const {
  const auto found = ids_.find(spelling);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

const Vocabulary::Entry* Vocabulary::find(int32_t id) const {
  if (id < 0 || static_cast<size_t>(id) >= entries_.size()) return nullptr;
  const Entry& entry = entries_[static_cast<size_t>(id)];
  return entry.present ? &entry : nullptr;
}

const std::string* Vocabulary::spelling(int32_t id) const {
  const Entry* entry = find(id);
  return entry ? &entry->spelling : nullptr;
}

const std::string* Vocabulary::bytes(int32_t id) const {
  const Entry* entry = find(id);
  return entry ? &entry->bytes : nullptr;
}

bool Vocabulary::is_special(int32_t id) const {
  const Entry* entry = find(id);
  return entry && entry->special;
}

}  // namespace reprise::text
