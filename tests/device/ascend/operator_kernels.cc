#ifdef REPRISE_EMULATOR_DIR
// The contract's kernels as calls of operators: the only ones that every AscendCL has.
#include <cstring>
#include <vector>

#include "base/hash.h"
#include "device/ascend/acl_error.h"
#include "device/ascend/ascend_stream.h"
#include "device/ascend/interface/acl_operators.h"
#include "device/ascend/test_kernels.h"

namespace reprise::device::ascend {
namespace {

using SecondPhase = aclnnStatus (*)(void*, uint64_t, aclOpExecutor*, aclrtStream);

/// An operator's call behind its first phase, with what its executor refers to.
class OperatorLaunch : public PreparedLaunch {
 public:
  OperatorLaunch(const AclLibrary& library, const char* name, void* data, int64_t count, std::vector<int64_t> scalars)
      : library_(library), name_(name), address_(data), count_(count), scalars_(std::move(scalars)) {
    constexpr int64_t kContiguous = 1;
    tensor_ = library.aclCreateTensor(&count_, 1, ACL_INT32, &kContiguous, 0, ACL_FORMAT_ND, &count_, 1, data);
    for (int64_t& value : scalars_) made_.push_back(library.aclCreateScalar(&value, ACL_INT64));
  }
  ~OperatorLaunch() override {
    if (executor_ != nullptr && library_.aclDestroyAclOpExecutor != nullptr)
      library_.aclDestroyAclOpExecutor(executor_);
    library_.aclDestroyTensor(tensor_);
    for (const aclScalar* scalar : made_) library_.aclDestroyScalar(scalar);
  }
  OperatorLaunch(const OperatorLaunch&) = delete;
  OperatorLaunch& operator=(const OperatorLaunch&) = delete;

  /// Runs the first phase, `ask(first, tensor, scalars, bytes, executor)`.
  template <typename FirstPhase, typename Ask>
  void prepare(Stream& stream, Ask ask) {
    const std::string first_name = std::string(name_) + "GetWorkspaceSize";
    const auto first = reinterpret_cast<FirstPhase>(library_.find(first_name.c_str()));
    second_ = reinterpret_cast<SecondPhase>(library_.find(name_));
    if (first == nullptr || second_ == nullptr) throw Error(ErrorCode::kUnsupported, "{} is not there", name_);
    if (const aclnnStatus status = ask(first, tensor_, made_, &bytes_, &executor_))
      throw acl_error(library_, status, first_name.c_str(), "preparing a test's kernel");
    if (bytes_ > 0) workspace_ = stream.device().allocate(bytes_);
  }

  int issue(aclrtStream stream) override {
    return second_(workspace_ == nullptr ? nullptr : workspace_->data(), bytes_, std::exchange(executor_, nullptr),
                   stream);
  }
  const char* name() const override { return name_; }
  uint64_t digest() const override {
    return hash_bytes(std::as_bytes(std::span(scalars_))) ^ static_cast<uint64_t>(count_);
  }
  std::span<const void* const> addresses() const override { return {&address_, 1}; }

 private:
  const AclLibrary& library_;
  const char* name_;
  const void* address_;
  int64_t count_;
  std::vector<int64_t> scalars_;
  std::vector<aclScalar*> made_;
  aclTensor* tensor_ = nullptr;
  SecondPhase second_ = nullptr;
  uint64_t bytes_ = 0;
  aclOpExecutor* executor_ = nullptr;
  std::shared_ptr<Storage> workspace_;
};

class OperatorKernels : public contract::TestKernels {
 public:
  void add(Stream& stream, void* data, int64_t count, int32_t value) override {
    launch<decltype(&aclnnAddsGetWorkspaceSize)>(
        stream, "aclnnAdds", data, count, {value, 1},
        [](auto first, aclTensor* tensor, const auto& scalars, uint64_t* bytes, aclOpExecutor** executor) {
          return first(tensor, scalars[0], scalars[1], tensor, bytes, executor);
        });
  }
  void multiply(Stream& stream, void* data, int64_t count, int32_t value) override {
    launch<decltype(&aclnnMulsGetWorkspaceSize)>(
        stream, "aclnnMuls", data, count, {value},
        [](auto first, aclTensor* tensor, const auto& scalars, uint64_t* bytes, aclOpExecutor** executor) {
          return first(tensor, scalars[0], tensor, bytes, executor);
        });
  }
  /// The contract's lists count up, which an operator can write from host values alone. An empty list writes elsewhere:
  /// an operator with nothing to do would launch nothing.
  void store_list(Stream& stream, void* data, std::span<const int32_t> list) override {
    for (size_t i = 1; i < list.size(); ++i)
      if (list[i] != list[0] + static_cast<int32_t>(i))
        throw Error(ErrorCode::kUnsupported, "a list that does not count up");
    if (spare_ == nullptr) spare_ = stream.device().allocate(sizeof(int32_t));
    const int64_t first_value = list.empty() ? 0 : list[0];
    const int64_t count = list.empty() ? 1 : static_cast<int64_t>(list.size());
    launch<decltype(&aclnnArangeGetWorkspaceSize)>(
        stream, "aclnnArange", list.empty() ? spare_->data() : data, count, {first_value, first_value + count, 1},
        [](auto first, aclTensor* tensor, const auto& scalars, uint64_t* bytes, aclOpExecutor** executor) {
          return first(scalars[0], scalars[1], scalars[2], tensor, bytes, executor);
        });
  }

 private:
  template <typename FirstPhase, typename Ask>
  static void launch(Stream& stream, const char* name, void* data, int64_t count, std::vector<int64_t> scalars,
                     Ask ask) {
    auto& own = dynamic_cast<AscendStream&>(stream);
    auto prepared = std::make_unique<OperatorLaunch>(own.library(), name, data, count, std::move(scalars));
    const LimitScope scope(own);
    prepared->prepare<FirstPhase>(stream, ask);
    own.launch(std::move(prepared));
  }

  std::shared_ptr<Storage> spare_;
};

}  // namespace

std::unique_ptr<contract::TestKernels> make_operator_kernels() { return std::make_unique<OperatorKernels>(); }

}  // namespace reprise::device::ascend

#endif  // REPRISE_EMULATOR_DIR
