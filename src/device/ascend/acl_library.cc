#include "device/ascend/acl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/log.h"
#include "device/ascend/acl_error.h"

namespace reprise::device::ascend {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

/// The libraries of operators in the order of search: a user's own, those of a split CANN, the one of an older CANN.
std::vector<std::string> operator_libraries(const std::string& folder) {
  std::vector<std::string> names;
  if (folder.empty()) {
    std::string_view custom;
    const std::string list = variable("ASCEND_CUSTOM_OPP_PATH");
    for (size_t start = 0; start < list.size(); start += custom.size() + 1) {
      custom = std::string_view(list).substr(start, std::min(list.find(':', start), list.size()) - start);
      if (!custom.empty()) names.push_back(fmt::format("{}/op_api/lib/libcust_opapi.so", custom));
    }
    if (const std::string home = variable("ASCEND_HOME_PATH"); !home.empty()) {
      std::error_code ignored;
      std::vector<std::string> split;
      for (const fs::directory_entry& entry : fs::directory_iterator(home + "/lib64", ignored)) {
        const std::string name = entry.path().filename();
        if (name.starts_with("libopapi_") && name.ends_with(".so")) split.push_back(entry.path());
      }
      std::sort(split.begin(), split.end());
      names.insert(names.end(), split.begin(), split.end());
    }
  }
  const std::string prefix = folder.empty() ? "" : folder + "/";
  for (const char* name : {"libopapi.so", "libaclnn_ops_infer.so", "libaclnn_ops_train.so", "libaclnn_math.so",
                           "libaclnn_sparse.so", "libaclnn_fft.so", "libaclnn_rand.so"})
    names.push_back(prefix + name);
  return names;
}

}  // namespace

/// AscendCL is initialised once in a process, however many devices there are.
class AclLibrary::Process {
 public:
  static std::shared_ptr<Process> of(const AclLibrary& library) {
    static std::mutex mutex;
    static std::map<void*, std::weak_ptr<Process>> processes;
    const std::lock_guard lock(mutex);
    std::weak_ptr<Process>& known = processes[reinterpret_cast<void*>(library.aclInit)];
    std::shared_ptr<Process> process = known.lock();
    if (process == nullptr) known = process = std::make_shared<Process>(library);
    return process;
  }

  explicit Process(const AclLibrary& library) : finalize_(library.aclFinalize) {
    const int code = library.aclInit(nullptr);
    // Another part of the process has initialised it, and will finalise it.
    if (code == ACL_ERROR_REPEAT_INITIALIZE) finalize_ = nullptr;
    if (code != ACL_SUCCESS && code != ACL_ERROR_REPEAT_INITIALIZE)
      throw acl_error(library, code, "aclInit", "initialising AscendCL");
  }
  ~Process() {
    if (finalize_ == nullptr) return;
    const int code = finalize_();
    if (code != ACL_SUCCESS) log_error("aclFinalize: {}", acl_code_text(code));
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

 private:
  decltype(&::aclFinalize) finalize_;
};

AclLibrary::~AclLibrary() = default;

bool AclLibrary::open_first(std::span<const std::string> names, std::string& tried) {
  for (const std::string& name : names) {
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
      handles_.push_back({name, handle});
      return true;
    }
    const char* why = dlerror();
    tried += fmt::format("{}{}", tried.empty() ? "" : "; ", why == nullptr ? name : why);
  }
  return false;
}

void AclLibrary::open_all(std::span<const std::string> names) {
  for (const std::string& name : names) {
    // Never closed: their threads run until the process ends.
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
      handles_.push_back({name, handle});
    } else {
      log_debug("{}", dlerror());
    }
  }
}

void* AclLibrary::find(const char* symbol) const {
  if (hide_ && hide_(symbol)) return nullptr;
  for (const Handle& handle : handles_) {
    if (void* found = dlsym(handle.handle, symbol)) return found;
  }
  return nullptr;
}

void AclLibrary::load(const LibraryOptions& options) {
  hide_ = options.hide;
  const std::string prefix = options.folder.empty() ? "" : options.folder + "/";
  // A library in LD_PRELOAD is there to take the place of the installed one.
  if (options.folder.empty() && !variable("LD_PRELOAD").empty() && dlsym(RTLD_DEFAULT, "aclrtMalloc") != nullptr)
    handles_.push_back({"LD_PRELOAD", RTLD_DEFAULT});
  std::string tried;
  if (handles_.empty() && !open_first(std::array{prefix + "libacl_rt.so", prefix + "libascendcl.so"}, tried)) {
    throw Error(ErrorCode::kNotFound, "AscendCL cannot be opened: {}", tried)
        .remedy(
            "install CANN and source its set_env.sh, or set LD_LIBRARY_PATH to the folder of the emulator's libraries "
            "(build/release/emulator), or use --device cpu");
  }
  open_all(std::array{prefix + "libnnopbase.so"});
  open_all(operator_libraries(options.folder));
  for (const Handle& handle : handles_) files_.push_back(handle.file);

  std::array<std::vector<std::string_view>, kFeatureCount> missing;
// NOLINTBEGIN(bugprone-macro-parentheses): a symbol is a name
#define REPRISE_ACL_LOAD(feature, symbol)                     \
  symbol = reinterpret_cast<decltype(symbol)>(find(#symbol)); \
  if (symbol == nullptr) missing[static_cast<size_t>(Feature::feature)].push_back(#symbol);
  REPRISE_ACL_SYMBOLS(REPRISE_ACL_LOAD)
#undef REPRISE_ACL_LOAD
  // NOLINTEND(bugprone-macro-parentheses)
  for (size_t i = 0; i < kFeatureCount; ++i) {
    if (missing[i].empty()) continue;
    features_.turn_off(static_cast<Feature>(i), fmt::format("{} {} not in {}", fmt::join(missing[i], ", "),
                                                            missing[i].size() == 1 ? "is" : "are", files_.front()));
  }
  // What is built on graphs is nothing without them.
  if (!features_.has(Feature::kGraph)) {
    for (const Feature feature : {Feature::kTaskUpdate, Feature::kGraphDump})
      features_.turn_off(feature, "there are no captured graphs");
  }
  is_emulator_ = find("emulatorHostAddress") != nullptr;
}

std::shared_ptr<const AclLibrary> AclLibrary::open(const LibraryOptions& options) {
  std::shared_ptr<AclLibrary> library(new AclLibrary());
  library->load(options);
  if (!library->features_.has(Feature::kRuntime)) {
    throw Error(ErrorCode::kUnsupported, "this AscendCL is too old: {}", library->features_.why_not(Feature::kRuntime))
        .remedy("install a newer CANN, or use --device cpu");
  }
  library->process_ = Process::of(*library);
  return library;
}

std::string AclLibrary::version() const {
  int32_t major = 0;
  int32_t minor = 0;
  int32_t patch = 0;
  if (aclrtGetVersion == nullptr || aclrtGetVersion(&major, &minor, &patch) != ACL_SUCCESS) return {};
  return fmt::format("{}.{}.{}", major, minor, patch);
}

}  // namespace reprise::device::ascend
