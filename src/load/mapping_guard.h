#pragma once

#include <cstddef>
#include <memory>

#include "base/mapped_file.h"

namespace reprise::load {

/// Installs, for the whole process, a handler that turns a SIGBUS inside a guarded mapping into one line on standard
/// error that names the file, and ends the process with exit code 3. Such a fault means that a mapped model file was
/// cut short (or its disk failed) while it was in use: the tensor's bytes no longer exist, so no work can go on. Any
/// other SIGBUS goes to the handler that was there before. Sizes are checked when a file is opened; this is for what
/// happens afterwards. Call it once, early in main(); further calls do nothing. Throws kInternal when the system
/// refuses.
void install_sigbus_guard();

/// Maps a file as MappedFile::open does and guards the mapping until its last owner lets go. A process has room for
/// 1024 guarded mappings; beyond them a file is mapped unguarded.
std::shared_ptr<const MappedFile> open_guarded(const std::filesystem::path& path);

}  // namespace reprise::load
