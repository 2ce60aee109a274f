#include "kernels/ascend/model_support.h"

#include <initializer_list>
#include <vector>

#include "base/error.h"
#include "kernels/ascend/register_common.h"

namespace reprise::kernels::ascend {
namespace {

constexpr int64_t kTokens = 2, kHeads = 2, kWidth = 64, kPages = 2, kPageSize = 128;

Tensor shape_of(DType dtype, std::initializer_list<int64_t> sizes) {
  return Tensor(TensorMeta(dtype, Shape(sizes)), nullptr);
}

/// Asks operators of the catalogue for the first phases of their calls, and keeps what is refused.
class Inquiry {
 public:
  explicit Inquiry(const ops::Registry& registry) : registry_(registry) {}

  void ask(std::string_view name, std::vector<Tensor> inputs, std::vector<ops::HostList> lists,
           std::vector<ops::Attribute> attributes) {
    const ops::OpDef& op = registry_.get(name);
    const ops::OpKernel* kernel = op.kernel(kDeviceName);
    REPRISE_CHECK(kernel != nullptr && kernel->max_workspace != nullptr);
    try {
      kernel->max_workspace({.op = op, .inputs = inputs, .lists = lists, .attributes = attributes, .outputs = {}});
    } catch (const Error& error) {
      if (!refusals_.empty()) refusals_ += "; ";
      refusals_ += error.message();
    }
  }
  const std::string& refusals() const { return refusals_; }

 private:
  const ops::Registry& registry_;
  std::string refusals_;
};

}  // namespace

std::string why_no_models(const ops::Registry& registry) {
  const Tensor rows = shape_of(DType::kBF16, {kTokens, kHeads, kWidth});
  const Tensor positions = shape_of(DType::kI32, {kTokens});
  const Tensor table = shape_of(DType::kF32, {kPageSize, kWidth});
  const Tensor cache = shape_of(DType::kBF16, {kPages, kPageSize, kHeads, kWidth});
  const Tensor pages = shape_of(DType::kI32, {kTokens, kPages});
  const ops::HostList lengths = ops::HostList::traced(kTokens, 0);
  const double scale = 1;
  Inquiry inquiry(registry);
  inquiry.ask("rope", {rows, positions, table}, {}, {});
  inquiry.ask("store_kv", {rows, rows, positions, cache, cache, Tensor(), Tensor()}, {}, {});
  inquiry.ask("paged_attention", {rows, cache, cache, pages, Tensor(), Tensor()}, {lengths, lengths}, {scale});
  return inquiry.refusals();
}

}  // namespace reprise::kernels::ascend
