#include "emulator/operators/attention.h"

#include <algorithm>
#include <string_view>

#include "emulator/operators/attention_kernel.h"

namespace reprise::emulator {
namespace {

constexpr int64_t kMostHeads = 256;
constexpr int64_t kMostColumns = 512;
constexpr int64_t kMostSequences = 4096;
constexpr int64_t kMaskOfModes = 2048;
constexpr int64_t kUnbounded = int64_t{1} << 40;

/// How a tensor of tokens lies: sizes, and elements between neighbours.
struct Layout {
  int64_t batches = 0;
  int64_t tokens = 0;  ///< of each batch; of all sequences together when they lie one behind the other (TND)
  int64_t batch_stride = 0;
  TokenStrides strides;
  bool joined = false;
};

/// `heads` heads of `columns` in a contiguous tensor of a layout.
Layout layout_of(const TensorArgument& tensor, std::string_view name, int64_t heads, int64_t columns,
                 const char* what) {
  const auto& dims = tensor.dims;
  const auto fits = [&](int32_t rank, bool sizes) {
    require(tensor.rank == rank && sizes, "{} has the wrong shape for the layout {}", what, name);
  };
  if (name == "TND") {
    fits(3, dims[1] == heads && dims[2] == columns);
    return {1, dims[0], 0, {heads * columns, columns}, true};
  }
  if (name == "NTD") {
    fits(3, dims[0] == heads && dims[2] == columns);
    return {1, dims[1], 0, {columns, dims[1] * columns}, true};
  }
  if (name == "BSH") {
    fits(3, dims[2] == heads * columns);
    return {dims[0], dims[1], dims[1] * dims[2], {dims[2], columns}, false};
  }
  if (name == "BSND") {
    fits(4, dims[2] == heads && dims[3] == columns);
    return {dims[0], dims[1], dims[1] * heads * columns, {heads * columns, columns}, false};
  }
  require(name == "BNSD", "the layout is \"{}\"", name);
  fits(4, dims[1] == heads && dims[3] == columns);
  return {dims[0], dims[2], heads * dims[2] * columns, {columns, dims[2] * columns}, false};
}

/// "BNSD_BSND" is the layout of the inputs and that of the output.
std::pair<std::string_view, std::string_view> layout_names(const char* name) {
  const std::string_view both = name == nullptr ? "BSH" : name;
  const size_t split = both.find('_');
  if (split == std::string_view::npos) return {both, both};
  return {both.substr(0, split), both.substr(split + 1)};
}

int64_t columns_of(const TensorArgument& query, std::string_view layout, int64_t heads) {
  require(query.rank >= 3, "query has {} dimensions", query.rank);
  return layout == "BSH" ? query.size_back(1) / heads : query.size_back(1);
}

/// The lengths of sequences from a list of the host: prefix sums or plain, null for `whole` each.
std::vector<int64_t> lengths_of(const aclIntArray* list, bool prefix_sums, int64_t sequences, int64_t whole,
                                const char* name) {
  require_live(list, name);
  std::vector<int64_t> lengths(static_cast<size_t>(sequences), whole);
  if (list == nullptr || list->values.empty()) return lengths;
  const std::vector<int64_t>& values = list->values;
  const auto count = static_cast<int64_t>(values.size());
  // Of a longer list the first ones count, of a single one all sequences.
  require(count == sequences || (!prefix_sums && (count == 1 || count > sequences)), "{} has {} elements, expected {}",
          name, count, sequences);
  for (size_t i = 0; i < lengths.size(); ++i) {
    lengths[i] = count == 1 ? values[0] : values[i];
    if (prefix_sums && i > 0) lengths[i] -= values[i - 1];
    require(lengths[i] >= 0 && lengths[i] <= whole, "{} has the length {} for sequence {}, expected 0 to {}", name,
            lengths[i], i, whole);
  }
  return lengths;
}

class Builder {
 public:
  Builder(Plan& plan, const AttentionCall& call) : plan_(plan), call_(call) {}

  void build() {
    read_tensors();
    read_layouts();
    read_keys();
    read_scales();
    read_mask();
    read_sequences();
    launch();
  }

 private:
  TensorArgument single(const aclTensorList* list, const char* name) {
    require_pointer(list, name);
    const auto tensors = plan_.input_list(list);
    require(tensors.size() == 1, "{} has {} tensors, expected 1", name, tensors.size());
    return tensors.front();
  }

  void read_tensors() {
    query_ = plan_.input(call_.query, "query");
    key_ = single(call_.key, "key");
    value_ = single(call_.value, "value");
    mask_ = plan_.optional_input(call_.mask);
    table_ = plan_.optional_input(call_.block_table);
    key_scale_ = plan_.optional_input(call_.key_scale);
    value_scale_ = plan_.optional_input(call_.value_scale);
    out_ = plan_.output(call_.out, "attentionOut");
    log_sum_exp_ = plan_.optional_output(call_.log_sum_exp);
    require(query_.dtype == ACL_FLOAT16 || query_.dtype == ACL_BF16, "query has dtype {}, expected 16-bit floats",
            static_cast<int>(query_.dtype));
    require(out_.dtype == query_.dtype && key_.dtype == value_.dtype, "attentionOut or value has another dtype");
    require(key_.dtype == query_.dtype || key_.dtype == ACL_INT8, "key has dtype {}", static_cast<int>(key_.dtype));
    p_.heads = call_.heads;
    p_.kv_heads = call_.kv_heads == 0 ? call_.heads : call_.kv_heads;
    require(p_.heads > 0 && p_.heads <= kMostHeads && p_.kv_heads > 0 && p_.heads % p_.kv_heads == 0,
            "numHeads is {}, numKeyValueHeads {}", p_.heads, p_.kv_heads);
    p_.scale = call_.scale;
  }

  void read_layouts() {
    const auto [in, to] = layout_names(call_.layout);
    in_name_ = in;
    p_.columns = columns_of(query_, in, p_.heads);
    require(p_.columns > 0 && p_.columns <= kMostColumns, "heads of {} columns", p_.columns);
    in_ = layout_of(query_, in, p_.heads, p_.columns, "query");
    to_ = layout_of(out_, to, p_.heads, p_.columns, "attentionOut");
    require(to_.batches == in_.batches && to_.tokens == in_.tokens, "attentionOut has another size than query");
    p_.query = in_.strides;
    p_.out = to_.strides;
    if (in_.joined) require(call_.lengths != nullptr && call_.kv_lengths != nullptr, "no lengths in layout {}", in);
    sequences_ = in_.joined ? static_cast<int64_t>(call_.lengths->values.size()) : in_.batches;
    require(sequences_ > 0 && sequences_ <= kMostSequences, "there are {} sequences", sequences_);
  }

  void read_keys() {
    require(std::ranges::equal(key_.shape(), value_.shape()), "key and value have different shapes");
    if (!table_.defined()) {
      keys_ = layout_of(key_, in_name_, p_.kv_heads, p_.columns, "key");
      p_.key = keys_.strides;
      return;
    }
    require(table_.dtype == ACL_INT32 && table_.rank == 2 && table_.dims[0] == sequences_,
            "blockTable is not int32 [{}, ..]", sequences_);
    require(call_.kv_lengths != nullptr, "a block table without actualSeqLengthsKv");
    const bool heads_outside =
        key_.rank == 4;  // [pages, heads, page, columns], otherwise [pages, page, heads * columns]
    p_.pages = key_.dims[0];
    p_.page = key_.dims[heads_outside ? 2 : 1];
    const bool fits = heads_outside ? key_.dims[1] == p_.kv_heads && key_.dims[3] == p_.columns
                                    : key_.rank == 3 && key_.dims[2] == p_.kv_heads * p_.columns;
    require(fits && p_.page == call_.block_size, "key has the wrong shape for pages of {}", call_.block_size);
    require(p_.page % 16 == 0 && p_.page > 0 && p_.page <= 512, "blockSize is {}", p_.page);
    require(key_.contiguous() && value_.contiguous(), "a paged cache is not contiguous");
    require(!heads_outside || (in_name_ != "BSH" && in_name_ != "BSND"), "pages with heads outside for the layout {}",
            in_name_);
    require(heads_outside || p_.kv_heads * p_.columns <= 65535, "rows of {} elements in a page, expected at most 65535",
            p_.kv_heads * p_.columns);
    p_.page_stride = p_.kv_heads * p_.page * p_.columns;
    p_.key = heads_outside ? TokenStrides{p_.columns, p_.page * p_.columns}
                           : TokenStrides{p_.kv_heads * p_.columns, p_.columns};
  }

  Antiquant antiquant(const TensorArgument& scale, int64_t mode) const {
    require(scale.defined() == (key_.dtype == ACL_INT8), "int8 keys and values need scales, others have none");
    if (!scale.defined()) return Antiquant::kNone;
    const auto kind = static_cast<Antiquant>(mode);
    const int64_t count = scale.elements();
    bool fits = false;
    if (kind == Antiquant::kChannel) fits = scale.contiguous() && (count == 1 || count == p_.kv_heads * p_.columns);
    if (kind == Antiquant::kPagedToken) fits = scale.rank == 2 && scale.dims[0] == p_.pages && scale.dims[1] == p_.page;
    if (kind == Antiquant::kPagedTokenHead) {
      fits = scale.rank == 3 && scale.dims[0] == p_.pages && scale.dims[1] == p_.kv_heads && scale.dims[2] == p_.page;
    }
    require(fits && (kind == Antiquant::kChannel || p_.page > 0), "a scale of antiquant mode {} has the wrong shape",
            mode);
    return kind;
  }

  void read_scales() {
    p_.key_antiquant = antiquant(key_scale_, call_.key_antiquant_mode);
    p_.value_antiquant = antiquant(value_scale_, call_.value_antiquant_mode);
  }

  void read_mask() {
    p_.band = {kUnbounded, kUnbounded, 0};
    const int64_t mode = call_.sparse_mode;
    require(mode >= 0 && mode <= 4, "sparseMode is {}, expected 0 to 4", mode);
    if (mode >= 2) {
      const bool fits = mask_.defined() && mask_.rank >= 2 && mask_.size_back(1) == kMaskOfModes &&
                        mask_.size_back(2) == kMaskOfModes;
      require(fits, "sparseMode {} without a mask of 2048 x 2048", mode);
    }
    require(!mask_.defined() || size_of(mask_.dtype) == 1, "attenMask has dtype {}", static_cast<int>(mask_.dtype));
    if (mode == 0 && mask_.defined()) p_.band = {call_.before, call_.after, 0};
    if (mode == 2) p_.band = {kUnbounded, 0, 0};
    if (mode == 3) p_.band = {kUnbounded, 0, 1};
    if (mode == 4) p_.band = {call_.before, call_.after, 1};
    // One row of each sequence sees all keys whatever the mode.
    if (!in_.joined && in_.tokens == 1 && mode >= 2) p_.band = {kUnbounded, kUnbounded, 0};
    // Modes 2 to 4 say what the mask would.
    if (mode >= 2) mask_ = {};
  }

  void read_sequences() {
    const int64_t paged_keys = table_.defined() ? table_.dims[1] * p_.page : 0;
    // Without effect where every sequence has one row.
    const bool one_row = !in_.joined && in_.tokens == 1;
    const auto rows =
        lengths_of(one_row ? nullptr : call_.lengths, in_.joined, sequences_, in_.tokens, "actualSeqLengths");
    const bool paged_scales = p_.key_antiquant != Antiquant::kNone && p_.key_antiquant != Antiquant::kChannel;
    require(!paged_scales || std::ranges::max(rows) <= 1, "scales of pages with more than one row a sequence");
    const auto keys = lengths_of(call_.kv_lengths, in_.joined && !table_.defined(), sequences_,
                                 table_.defined() ? paged_keys : keys_.tokens, "actualSeqLengthsKv");
    if (in_.joined) {
      require(call_.lengths->values.back() == in_.tokens, "actualSeqLengths ends with {}, but query has {} rows",
              call_.lengths->values.back(), in_.tokens);
    }
    int64_t row = 0;
    int64_t key = 0;
    for (int64_t i = 0; i < sequences_; ++i) {
      const auto at = static_cast<size_t>(i);
      AttentionSequence sequence;
      sequence.rows = rows[at];
      sequence.keys = keys[at];
      sequence.query = i * in_.batch_stride + row * in_.strides.token;
      sequence.out = i * to_.batch_stride + row * to_.strides.token;
      sequence.key = table_.defined() ? i * table_.dims[1] : i * keys_.batch_stride + key * keys_.strides.token;
      sequence.log_sum_exp = in_.joined ? row * p_.heads : i * p_.heads * in_.tokens;
      sequence.mask = mask_of(i, rows[at], keys[at]);
      if (in_.joined) {
        row += rows[at];
        key += keys[at];
      } else {
        sequence.padding_rows = in_.tokens - rows[at];
      }
      most_keys_ = std::max(most_keys_, keys[at]);
      const auto values = std::bit_cast<std::array<int64_t, kSequenceValues>>(sequence);
      tail_.insert(tail_.end(), values.begin(), values.end());
    }
    if (call_.largest_workspace) most_keys_ = table_.defined() ? paged_keys : keys_.tokens;
  }

  /// Where the mask of a sequence begins: there is one for all, or one for each.
  int64_t mask_of(int64_t sequence, int64_t rows, int64_t keys) const {
    if (!mask_.defined()) return 0;
    const int64_t size = mask_.size_back(2) * mask_.size_back(1);
    require(mask_.size_back(2) >= rows && mask_.size_back(1) >= keys && size > 0, "attenMask is too small");
    return mask_.elements() == size ? 0 : sequence * size;
  }

  void launch() {
    p_.sequences = sequences_;
    if (!call_.wants_log_sum_exp) log_sum_exp_ = {};
    require(call_.wants_log_sum_exp == log_sum_exp_.defined(), "softmaxLse is a null pointer");
    if (log_sum_exp_.defined()) {
      require(log_sum_exp_.dtype == ACL_FLOAT && log_sum_exp_.elements() == in_.batches * in_.tokens * p_.heads,
              "softmaxLse has {} elements, expected {} of float32", log_sum_exp_.elements(),
              in_.batches * in_.tokens * p_.heads);
      p_.log_sum_exp = in_.joined ? TokenStrides{p_.heads, 1} : TokenStrides{1, in_.tokens};
    }
    constexpr int64_t kKeysOfTile = 512;
    const int64_t tiles = std::max<int64_t>((most_keys_ + kKeysOfTile - 1) / kKeysOfTile, 1);
    const TensorArgument scores = plan_.scratch({core_limit(Cores::kCube), tiles * kKeysOfTile}, ACL_FLOAT);
    const bool paged = table_.defined();
    plan_.launch(
        attention_kernel(),
        {plan_.contiguous(query_), paged ? key_ : plan_.contiguous(key_), paged ? value_ : plan_.contiguous(value_),
         plan_.contiguous(mask_), plan_.contiguous(table_), key_scale_, value_scale_},
        {plan_.staged(out_), plan_.staged(log_sum_exp_), scores}, p_, tail_, sequences_ * p_.kv_heads);
  }

  Plan& plan_;
  const AttentionCall& call_;
  TensorArgument query_, key_, value_, mask_, table_, key_scale_, value_scale_, out_, log_sum_exp_;
  AttentionParameters p_;
  std::string_view in_name_;
  Layout in_, to_, keys_;
  int64_t sequences_ = 0;
  int64_t most_keys_ = 0;
  std::vector<int64_t> tail_;
};

}  // namespace

void build_attention(Plan& plan, const AttentionCall& call) { Builder(plan, call).build(); }

}  // namespace reprise::emulator
