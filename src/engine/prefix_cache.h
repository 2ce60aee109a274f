#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::engine {

/// Which full pages of the KV cache hold the entries of which tokens: a tree whose nodes are pages, found by the node
/// before, and by their own tokens. Tokens are compared, not only hashed, so a page is never taken for another. Nodes
/// that nobody uses are kept in the order in which they were given up. Allocates nothing after construction, but for
/// salts. For one thread.
class PrefixCache {
 public:
  /// A node's number is never given again, so what was found under it stays behind when it goes.
  using NodeId = uint64_t;
  static constexpr NodeId kRoot = 0;
  struct Node {
    int32_t page = -1;
    NodeId id = kRoot;
  };

  /// For pages [0, pages) of `page_size` tokens.
  PrefixCache(int32_t pages, int32_t page_size);

  /// The page that holds `tokens` (a page full of them) behind the node `parent`; behind the root only that of the same
  /// salt.
  std::optional<Node> find(NodeId parent, std::string_view salt, std::span<const int32_t> tokens) const;
  /// Adds what find() did not find. The page must not be a node.
  Node insert(int32_t page, NodeId parent, std::string_view salt, std::span<const int32_t> tokens);
  /// A node goes, used or not. What is behind it is not found any more.
  void erase(int32_t page);
  bool contains(int32_t page) const { return entry(page).id != kRoot; }

  /// Nobody uses the node from now on.
  void add_unused(int32_t page);
  /// Somebody uses it again.
  void take_unused(int32_t page);
  /// The one that was given up first; -1 when all are used.
  int32_t oldest_unused() const { return oldest_; }
  int32_t unused() const { return unused_; }

 private:
  struct Entry {
    NodeId id = kRoot;  // kRoot: the page is no node
    NodeId parent = kRoot;
    uint64_t hash = 0;
    std::string salt;    // of nodes behind the root
    int32_t next = -1;   // of the same bucket
    int32_t older = -1;  // of unused ones
    int32_t newer = -1;
    bool is_unused = false;
  };

  const Entry& entry(int32_t page) const { return entries_[static_cast<size_t>(page)]; }
  Entry& entry(int32_t page) { return entries_[static_cast<size_t>(page)]; }
  std::span<int32_t> tokens_of(int32_t page) {
    return std::span(tokens_).subspan(static_cast<size_t>(page) * page_size_, page_size_);
  }
  int32_t& bucket(uint64_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }

  size_t page_size_;
  std::vector<Entry> entries_;    // by page
  std::vector<int32_t> tokens_;   // of each page
  std::vector<int32_t> buckets_;  // a power of two: first page of each
  NodeId last_id_ = kRoot;
  int32_t oldest_ = -1;
  int32_t newest_ = -1;
  int32_t unused_ = 0;
};

}  // namespace reprise::engine
