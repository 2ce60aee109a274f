// aclnnScatterPaKvCache: rows of keys and values into the pages that their slots name.
#include <algorithm>
#include <string_view>

#include "emulator/operators/kernel_call.h"
#include "emulator/operators/plan.h"
#include "emulator/operators/rows.h"

namespace reprise::emulator {
namespace {

struct PageParameters {
  int64_t slots = 0;
  int64_t page = 0;        ///< slots of a page
  int64_t nz_columns = 0;  ///< of blocks in a page (PA_NZ); 0: plain pages
};

/// A slot below 0 is left out; one behind the last page is a write outside of the cache.
bool scatter_rows(const PageParameters& p, const HostTensor& rows, const HostTensor& slots, const HostTensor& cache) {
  const int64_t width = rows->size_back(2) * rows->size_back(1);
  const int64_t head = rows->size_back(1);
  const size_t size = size_of(cache->dtype);
  const int64_t piece = p.nz_columns == 0 ? head : std::min(p.nz_columns, head);
  for (int64_t row = 0; row < rows->dims[0]; ++row) {
    const int64_t slot = integer_at(slots.at(0), slots->dtype, row);
    if (slot < 0) continue;
    if (slot >= p.slots) return false;
    for (int64_t i = 0; i < width; i += piece) {
      const std::byte* from = rows.at(row * rows->strides[0] + i / head * rows->strides[1] + i % head);
      const int64_t to = p.nz_columns == 0 ? slot * width + i
                                           : slot / p.page * p.page * width + i / p.nz_columns * p.page * p.nz_columns +
                                                 slot % p.page * p.nz_columns + i % p.nz_columns;
      std::memcpy(cache.at(to), from, static_cast<size_t>(piece) * size);
    }
  }
  return true;
}

struct CacheParameters {
  PageParameters keys;
  PageParameters values;
};

/// Keys, values (or none), slots, both caches.
bool run_scatter(const KernelCall<CacheParameters>& call) {
  const auto& [keys, values] = call.parameters();
  return scatter_rows(keys, call[0], call[2], call[3]) &&
         (!call[1].defined() || scatter_rows(values, call[1], call[2], call[4]));
}

KernelCost scatter_cost(const ArgumentReader& arguments) {
  const auto tensors = arguments.tensors();
  const uint64_t rows = tensors[0].bytes() + tensors[1].bytes();
  return {.bytes_read = rows + tensors[2].bytes(), .bytes_written = rows};
}

constexpr Kernel kScatterPaKvCache = make_kernel<CacheParameters, run_scatter, scatter_cost>("ScatterPaKvCache");

bool is_named(const char* name, std::string_view wanted, bool when_null) {
  return name == nullptr ? when_null : name == wanted;
}

PageParameters check_pages(const TensorArgument& rows, const TensorArgument& slots, const TensorArgument& cache,
                           bool blocked) {
  require(rows.dtype == cache.dtype, "rows and cache have the dtypes {} and {}", static_cast<int>(rows.dtype),
          static_cast<int>(cache.dtype));
  require(rows.dtype == ACL_FLOAT16 || rows.dtype == ACL_BF16 || rows.dtype == ACL_INT8, "the dtype is {}",
          static_cast<int>(rows.dtype));
  require(rows.rank == 3 && cache.rank == 4 && cache.contiguous(), "the cache is not contiguous, or of the wrong rank");
  require(slots.elements() == rows.dims[0], "slotMapping has {} elements, expected {}", slots.elements(), rows.dims[0]);
  PageParameters parameters;
  parameters.page = cache.dims[blocked ? 2 : 1];
  parameters.slots = cache.dims[0] * parameters.page;
  if (blocked) {
    parameters.nz_columns = cache.dims[3];
    require(cache.dims[1] * cache.dims[3] == rows.dims[1] * rows.dims[2] && rows.dims[2] % cache.dims[3] == 0,
            "the cache's shape is wrong");
  } else {
    require(cache.dims[2] == rows.dims[1] && cache.dims[3] == rows.dims[2], "the cache's shape is wrong");
  }
  return parameters;
}

TensorArgument dense_rows(Plan& plan, const TensorArgument& rows) {
  return rows.strides[2] == 1 || rows.dims[2] == 1 ? rows : plan.contiguous(rows);
}

}  // namespace
}  // namespace reprise::emulator

using namespace reprise::emulator;

extern "C" aclnnStatus aclnnScatterPaKvCacheGetWorkspaceSize(
    const aclTensor* key, aclTensor* keyCacheRef, const aclTensor* slotMapping, const aclTensor* value,
    aclTensor* valueCacheRef, const aclTensor* compressLensOptional, const aclTensor* compressSeqOffsetOptional,
    const aclTensor* seqLensOptional, char* cacheModeOptional, char* scatterModeOptional,
    const aclIntArray* stridesOptional, const aclIntArray* offsetsOptional, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return phase_one("aclnnScatterPaKvCache",
                   EMULATOR_GIVEN(key, keyCacheRef, slotMapping, value, valueCacheRef, compressLensOptional,
                                  compressSeqOffsetOptional, seqLensOptional, cacheModeOptional, scatterModeOptional,
                                  stridesOptional, offsetsOptional),
                   workspaceSize, executor, [&](Plan& plan) {
                     const TensorArgument keys = plan.input(key, "key");
                     const TensorArgument key_cache = plan.in_place(keyCacheRef, "keyCacheRef");
                     const TensorArgument slots = plan.contiguous(plan.input(slotMapping, "slotMapping"));
                     const TensorArgument values = plan.input(value, "value");
                     const TensorArgument value_cache = plan.in_place(valueCacheRef, "valueCacheRef");
                     require(slots.dtype == ACL_INT32 || slots.dtype == ACL_INT64, "slotMapping has dtype {}",
                             static_cast<int>(slots.dtype));
                     require(compressLensOptional == nullptr && compressSeqOffsetOptional == nullptr &&
                                 seqLensOptional == nullptr && stridesOptional == nullptr && offsetsOptional == nullptr,
                             "compressed caches and strides by list are not supported");
                     const bool blocked = is_named(cacheModeOptional, "PA_NZ", false);
                     require(blocked || is_named(cacheModeOptional, "Norm", true), "cacheMode is \"{}\"",
                             cacheModeOptional == nullptr ? "" : cacheModeOptional);
                     require(is_named(scatterModeOptional, "None", true), "scatterMode is \"{}\"",
                             scatterModeOptional == nullptr ? "" : scatterModeOptional);
                     CacheParameters parameters{check_pages(keys, slots, key_cache, blocked), {}};
                     // An empty value: there are keys only.
                     const bool both = values.elements() > 0 || value_cache.elements() > 0;
                     if (both) parameters.values = check_pages(values, slots, value_cache, blocked);
                     plan.launch(kScatterPaKvCache,
                                 {dense_rows(plan, keys), both ? dense_rows(plan, values) : TensorArgument(), slots},
                                 {key_cache, both ? value_cache : TensorArgument()}, parameters, {}, keys.dims[0]);
                   });
}
EMULATOR_PHASE_TWO(aclnnScatterPaKvCache)
