#pragma once

#include <map>
#include <memory>

#include "device/cpu/cpu_device.h"
#include "engine/engine.h"
#include "kernels/cpu/register_cpu_kernels.h"
#include "model/factory.h"
#include "text/tokenizer.h"

namespace reprise::engine {

/// The bundled model on the CPU.
struct MiniMachine {
  explicit MiniMachine(int threads) : registry(ops::make_catalogue()) {
    kernels::cpu::register_cpu_kernels(registry);
    device = device::cpu::create_cpu_device({.threads = threads});
    model = model::load_model(REPRISE_SOURCE_DIR "/models/mini", registry, *device);
  }
  ops::Registry registry;
  std::unique_ptr<device::Device> device;
  std::shared_ptr<const model::Model> model;
};

/// Loaded once for each number of threads. For one thread at a time.
inline MiniMachine& mini_machine(int threads = 1) {
  static std::map<int, std::unique_ptr<MiniMachine>> machines;
  std::unique_ptr<MiniMachine>& found = machines[threads];
  if (found == nullptr) found = std::make_unique<MiniMachine>(threads);
  return *found;
}

inline const text::Tokenizer& mini_tokenizer() {
  static const text::Tokenizer loaded = text::load_tokenizer(REPRISE_SOURCE_DIR "/models/mini");
  return loaded;
}

inline std::unique_ptr<Engine> make_mini_engine(const EngineOptions& options, int threads = 1) {
  MiniMachine& used = mini_machine(threads);
  return Engine::create(*used.device, used.registry, used.model, mini_tokenizer(), options);
}

}  // namespace reprise::engine
