#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/stream.h"
#include "ops/attribute.h"
#include "ops/host_list.h"
#include "ops/schema.h"
#include "tensor/tensor.h"

namespace reprise::ops {

class OpDef;
class ProductTuning;

/// A decision that a host-tiled operator's plan makes, and on which it depends what the operator launches.
struct Choice {
  std::string_view name;  ///< a literal
  int64_t value = 0;
  friend bool operator==(const Choice&, const Choice&) = default;
};

/// Cuts of a host-tiled operator's work, computed on the host from host lists. Reused from call to call.
struct Tiling {
  std::vector<int32_t> values;  ///< travels with the launch; the kernel knows what it means
  int64_t tiles = 0;            ///< of the first launch
  std::vector<Choice> choices;  ///< in the order in which they were made

  /// Notes a decision on which the kernels depend that run() launches, or their number, and returns its value. Captured
  /// launches are good for the choices that they were captured with, and for no others. What is chosen may depend on
  /// earlier choices. `name` must be a literal.
  int64_t choose(std::string_view name, int64_t value);
  /// What was chosen under a name, for run(). kInternal when nothing was.
  int64_t chosen(std::string_view name) const;
  void clear();
};

/// The arguments of one operator call. Shape functions see the inputs only, kernels everything.
struct OpCall {
  const OpDef& op;
  std::span<const Tensor> inputs;  ///< in schema order; absent optional ones are not defined()
  std::span<const HostList> lists;
  std::span<const Attribute> attributes;
  std::span<Tensor> outputs;         ///< allocated, of the shapes that the shape function gave
  device::Stream* stream = nullptr;  ///< where kernels launch; null for references
  Tensor workspace{};                ///< uint8, at least max_workspace bytes; absent when that is 0
  const Tiling* tiling = nullptr;    ///< of a host-tiled operator

  int64_t int_attribute(size_t index) const { return std::get<int64_t>(attributes[index]); }
  double float_attribute(size_t index) const { return std::get<double>(attributes[index]); }
  bool bool_attribute(size_t index) const { return std::get<bool>(attributes[index]); }
  DType dtype_attribute(size_t index) const { return std::get<DType>(attributes[index]); }
  const Shape& shape_attribute(size_t index) const { return std::get<Shape>(attributes[index]); }
};

/// Where an operator rounds, which fusions must keep: nowhere (moves bits), or at the store of its results.
enum class Rounding { kNone, kAtStore };

/// Properties that passes and executors rely on.
struct Traits {
  bool view = false;        ///< output 0 aliases input 0; nothing is launched
  bool random = false;      ///< a graph break: replays would repeat the same numbers
  bool syncs = false;       ///< reads device data on the host: a graph break
  bool host_tiled = false;  ///< its launches depend on host lists
  bool rowwise = true;      ///< row i of the results depends on row i of the inputs only (and on weights and caches)
  Rounding rounding = Rounding::kAtStore;
  bool commutative = false;  ///< the first two tensors may change places without changing a bit
  bool control = false;      ///< no tensors: acts on its stream at its place, which passes keep; needs no kernel
};

/// How one device runs an operator.
struct OpKernel {
  /// Launches on call.stream; checks what only the device can know (formats, alignments) with typed errors. Safe in a
  /// capture: no allocation, no synchronisation.
  void (*run)(const OpCall& call) = nullptr;
  /// Host-tiled operators: fills `tiling`, which is empty, from the host lists and shapes. Decisions on which the
  /// launches of run() depend go through Tiling::choose(). No allocation beyond the vectors' growth.
  void (*plan)(const OpCall& call, Tiling& tiling) = nullptr;
  /// Bytes of scratch that any host values may need for inputs of these shapes; null when none is needed.
  size_t (*max_workspace)(const OpCall& call) = nullptr;
  /// Launches of one run: fixed, so that a task update can replace them one by one; where plan() chooses, those of the
  /// first choice.
  int launches = 1;
  /// For outputs that do not lie plainly in memory: sets the format of `meta` where the call leaves it to the device,
  /// and returns the bytes that its storage takes. Null: the shape function's metadata says it all.
  size_t (*output_storage)(const OpCall& call, size_t output, TensorMeta& meta) = nullptr;
  /// Of products that can go about their work in several ways: the way for each shape, which run() looks up.
  std::shared_ptr<ProductTuning> tuning = nullptr;
  /// What the functions above need beside the call, of a type that the device's registration knows.
  std::shared_ptr<const void> resources = nullptr;
};

/// One operator of the catalogue: what it means (schema, shape function, traits, reference) and how devices run it.
class OpDef {
 public:
  /// Gives the metadata of the outputs for inputs that may be symbolic, and checks them: throws kInvalidArgument naming
  /// the operator, the argument and what was expected.
  using InferFunction = void (*)(const OpCall& call, std::span<TensorMeta> outputs);
  /// The naive formula on host-addressable memory, as plain as it can be: what kernels are tested against.
  using ReferenceFunction = void (*)(const OpCall& call);
  /// Bytes from the first element of a view's input to the first of its output.
  using OffsetFunction = size_t (*)(const OpCall& call);

  /// Views have no reference: nothing is computed. `offset_function` null: they start where their input starts.
  OpDef(std::string_view schema, Traits traits, InferFunction infer_function, ReferenceFunction reference_function,
        OffsetFunction offset_function = nullptr)
      : schema_(Schema::parse(schema)),
        traits_(traits),
        infer_(infer_function),
        reference_(reference_function),
        offset_(offset_function) {}

  const std::string& name() const { return schema_.name; }
  const Schema& schema() const { return schema_; }
  const Traits& traits() const { return traits_; }
  void infer(const OpCall& call, std::span<TensorMeta> outputs) const { infer_(call, outputs); }
  bool has_shape_function() const { return infer_ != nullptr; }
  ReferenceFunction reference() const { return reference_; }
  size_t view_offset(const OpCall& call) const { return offset_ == nullptr ? 0 : offset_(call); }

  /// The kernel of a device, or null when it has none.
  const OpKernel* kernel(std::string_view device) const;
  void set_kernel(std::string device, OpKernel kernel);

 private:
  Schema schema_;
  Traits traits_;
  InferFunction infer_;
  ReferenceFunction reference_;
  OffsetFunction offset_;
  std::vector<std::pair<std::string, OpKernel>> kernels_;
};

}  // namespace reprise::ops
