#pragma once

#include <string>
#include <vector>

#include "ops/attribute.h"
#include "tensor/tensor.h"

namespace reprise::ops {

/// How far a device's result may be from the reference's: absolute + relative * |reference|. Both 0: equal bits.
struct Bound {
  double absolute = 0;
  double relative = 0;
};

/// One call of one operator, with host memory.
struct ConformanceCase {
  std::string op;
  std::string name;
  std::vector<Tensor> inputs;
  std::vector<Attribute> attributes{};
  std::vector<std::vector<int32_t>> lists{};
  Bound bound{};
  bool pack_weight = false;  ///< the device gets input 1 packed (a stack: each of its weights), the reference as it is
};

/// The cases of one operator, made anew with the same numbers at each call. Every operator of the catalogue has some;
/// any device that claims an operator must pass them.
std::vector<ConformanceCase> conformance_cases(const std::string& op);

// The parts of it, by families.
void add_elementwise_cases(std::vector<ConformanceCase>& cases);
void add_row_cases(std::vector<ConformanceCase>& cases);
void add_linear_cases(std::vector<ConformanceCase>& cases);
void add_sequence_cases(std::vector<ConformanceCase>& cases);
void add_fused_cases(std::vector<ConformanceCase>& cases);
void add_moe_cases(std::vector<ConformanceCase>& cases);
void add_measure_cases(std::vector<ConformanceCase>& cases);

/// Of results that differ by float32 arithmetic alone, rounded to a dtype: a bfloat16 may fall to the other neighbour.
Bound rounded(DType dtype, double absolute, double relative = 0);

}  // namespace reprise::ops
