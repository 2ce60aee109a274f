#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/ascend/acl_features.h"
#include "device/ascend/acl_symbols.h"
#include "device/ascend/interface/acl_graph.h"
#include "device/ascend/interface/acl_meta.h"
#include "device/ascend/interface/acl_runtime.h"

namespace reprise::device::ascend {

struct LibraryOptions {
  /// Where the libraries are, e.g. an emulator's folder; empty: where the dynamic linker and CANN's variables say.
  std::string folder;
  /// Names for which it says true are taken as missing: for tests of what an older CANN lacks.
  std::function<bool(std::string_view symbol)> hide;
};

/// AscendCL, opened at run time: a member of the function's own name for each entry of acl_symbols.h, null when the
/// installed libraries do not have it. Initialised with the first library and finalised with the last one.
class AclLibrary {
 public:
// NOLINTBEGIN(bugprone-macro-parentheses): a symbol is a name
#define REPRISE_ACL_MEMBER(feature, symbol) decltype(&::symbol) symbol = nullptr;
  REPRISE_ACL_SYMBOLS(REPRISE_ACL_MEMBER)
#undef REPRISE_ACL_MEMBER
  // NOLINTEND(bugprone-macro-parentheses)

  /// kNotFound when there is no library, kUnsupported when it lacks what every device needs; both say what was tried.
  static std::shared_ptr<const AclLibrary> open(const LibraryOptions& options = {});
  ~AclLibrary();
  AclLibrary(const AclLibrary&) = delete;
  AclLibrary& operator=(const AclLibrary&) = delete;

  const FeatureSet& features() const { return features_; }
  /// The files that were opened, in the order in which they are searched.
  const std::vector<std::string>& files() const { return files_; }
  /// Whether it is an emulator, which is no device unless it is asked for by name.
  bool is_emulator() const { return is_emulator_; }
  /// "1.17.0"; empty when it does not say.
  std::string version() const;

  /// A function of the operators' libraries, null when none has it. An operator X is there when "aclnnX" and
  /// "aclnnXGetWorkspaceSize" both are.
  void* find(const char* symbol) const;

 private:
  class Process;
  struct Handle {
    std::string file;
    void* handle;
  };

  AclLibrary() = default;
  bool open_first(std::span<const std::string> names, std::string& tried);
  void open_all(std::span<const std::string> names);
  void load(const LibraryOptions& options);

  std::vector<Handle> handles_;
  std::vector<std::string> files_;
  FeatureSet features_;
  std::function<bool(std::string_view)> hide_;
  bool is_emulator_ = false;
  std::shared_ptr<Process> process_;
};

}  // namespace reprise::device::ascend
