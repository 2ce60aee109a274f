#include "device/cpu/segment_runner.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "device/cpu/event_state.h"
#include "device/cpu/launch_accesses.h"
#include "device/cpu/task_group.h"

namespace reprise::device::cpu {
namespace {

/// What a launch must gain by being shared, on paper: a little more than what handing work to another core and hearing
/// that it is done costs on a machine without other work.
constexpr float kLeastGain = 300;  // nanoseconds
/// Chunks are about so long where the launch is long enough for several of each thread: then a thread that comes late,
/// or loses its CPU, leaves its part to the others but for one chunk.
constexpr float kChunkNanoseconds = 5000;
/// Chunks of each thread, at most; and as long as nothing is known of a launch.
constexpr int kMostChunks = 8;
constexpr int kUsualChunks = 4;
/// Kernels do several short tiles together faster than one by one.
constexpr int64_t kTilesTogether = 4;
constexpr float kLongTile = 2000;  // nanoseconds
/// Launches up to so long are observed while one thread does them, longer ones as they run.
constexpr float kShortLaunch = 20000;  // nanoseconds
/// Of launches outside of captured graphs the second to this one are observed, then one in so many.
constexpr uint32_t kObservedLaunches = 4;
constexpr uint32_t kObserveLaunchEvery = 64;
/// What takes longer than it did was interrupted, or has more to do: it counts by so much, and at most this many times.
constexpr float kLongerCounts = 0.25f;
constexpr float kPlausible = 3;

int64_t part(int64_t count, int chunk, int chunks) { return count * chunk / chunks; }

/// The first tile of a chunk. Where chunks hold enough of them, kernels find whole groups of tiles.
int64_t first_tile(int64_t tiles, int chunk, int chunks) {
  const int64_t tile = part(tiles, chunk, chunks);
  return chunk == chunks || tiles < 2 * kTilesTogether * chunks ? tile : tile / kTilesTogether * kTilesTogether;
}

/// What one thread takes for a launch; 0: not known.
float nanoseconds_of(const Instruction& launch) {
  return launch.tile_nanoseconds * static_cast<float>(launch.launch.tiles);
}

/// What several threads gain on paper by sharing what one does in `alone`.
float gain_of(float alone, int threads) { return alone - alone / static_cast<float>(threads); }

/// Calls what may throw: host functions, updates that need memory, and kernels that break their promise.
template <typename Function>
void call_guarded(const Function& function, std::exception_ptr& error) {
  try {
    function();
  } catch (...) {
    if (error == nullptr) error = std::current_exception();
  }
}

static_assert(std::chrono::steady_clock::period::den == 1000000000, "observers are told nanoseconds");

/// What observers are told of: work, and not what orders it.
const char* observed_name(const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::kLaunch:
      return instruction.launch.kernel->name;
    case Opcode::kCopy:
    case Opcode::kFill:
    case Opcode::kHostFunction:
      return name_of(instruction.opcode).data();  // a literal
    default:
      return nullptr;
  }
}

}  // namespace

int SegmentRunner::chunks_of(const Instruction& launch, int threads) {
  if (threads <= 1) return 1;
  const int64_t tiles = launch.launch.tiles;
  int64_t chunks = kUsualChunks;
  int64_t most = tiles;
  if (launch.tile_nanoseconds > 0) {
    const float alone = nanoseconds_of(launch);
    if (gain_of(alone, threads) < kLeastGain) return 1;
    const float each = alone / static_cast<float>(threads) / kChunkNanoseconds;
    chunks = static_cast<int64_t>(std::clamp(each, 1.0f, static_cast<float>(kMostChunks)));
    if (launch.tile_nanoseconds < kLongTile) most = std::max<int64_t>(tiles / kTilesTogether, threads);
  }
  return static_cast<int>(std::min({chunks * threads, most, tiles, int64_t{ThreadTeam::kMaxChunks}}));
}

void SegmentRunner::launch(const Instruction& instruction, int threads) {
  const LaunchOperands& launch = instruction.launch;
  const int chunks = chunks_of(instruction, threads);
  if (chunks <= 1) {
    if (launch.tiles > 0) launch.kernel->run(launch.arguments, 0, launch.tiles);
    return;
  }
  team_.share(threads, chunks, [&launch, chunks](int first, int last) {
    launch.kernel->run(launch.arguments, first_tile(launch.tiles, first, chunks),
                       first_tile(launch.tiles, last, chunks));
  });
}

void SegmentRunner::launch_together(std::span<const Instruction> launches, std::exception_ptr& error) {
  struct Piece {
    const LaunchOperands* launch;
    int first;  ///< chunk
    int chunks;
  };
  std::array<Piece, LaunchAccesses::kMostLaunches> pieces{};
  size_t count = 0;
  int chunks = 0;
  int threads = team_.size();
  float alone = 0;  // nanoseconds, of those that are known
  bool all_known = true;
  for (const Instruction& instruction : launches) {
    if (instruction.opcode != Opcode::kLaunch || instruction.launch.tiles == 0) continue;
    if (instruction.threads != 0) threads = std::min<int>(threads, instruction.threads);
    const int parts = chunks_of(instruction, width_of(instruction, team_.size()));
    pieces[count++] = {&instruction.launch, chunks, parts};
    chunks += parts;
    alone += nanoseconds_of(instruction);
    all_known = all_known && instruction.tile_nanoseconds > 0;
  }
  if (threads == 1 || (all_known && gain_of(alone, threads) < kLeastGain)) {
    for (const Instruction& instruction : launches) perform(instruction, 1, error);
    return;
  }
  team_.share(threads, chunks, [&pieces, count](int first, int last) {
    for (const Piece& piece : std::span(pieces).first(count)) {
      const int begin = std::max(first - piece.first, 0);
      const int end = std::min(last - piece.first, piece.chunks);
      if (begin >= end) continue;
      const LaunchOperands& launch = *piece.launch;
      launch.kernel->run(launch.arguments, first_tile(launch.tiles, begin, piece.chunks),
                         first_tile(launch.tiles, end, piece.chunks));
    }
  });
}

void SegmentRunner::observe(Instruction& instruction, int threads) {
  const auto tiles = static_cast<float>(instruction.launch.tiles);
  float& known = instruction.tile_nanoseconds;
  if (known * tiles < kShortLaunch && known > 0) threads = 1;
  const auto begin = std::chrono::steady_clock::now();
  launch(instruction, threads);
  const auto end = std::chrono::steady_clock::now();
  const float taken = std::chrono::duration<float, std::nano>(end - begin).count();
  const float each = std::max(taken, 1.0f) * static_cast<float>(threads) / tiles;
  if (known == 0 || each < known) {
    known = each;
  } else {
    known += kLongerCounts * (std::min(each, kPlausible * known) - known);
  }
}

void SegmentRunner::launch_once(const Instruction& instruction) {
  if (instruction.launch.tiles == 0) return;
  LaunchTimes::Entry& known = times_.find(instruction);
  Instruction launched = instruction;
  launched.tile_nanoseconds = known.tile_nanoseconds;
  const int threads = width_of(instruction, team_.size());
  const bool is_observed =
      known.launches > 1 && (known.launches <= kObservedLaunches || known.launches % kObserveLaunchEvery == 0);
  is_observed ? observe(launched, threads) : launch(launched, threads);
  known.tile_nanoseconds = launched.tile_nanoseconds;
}

/// Does an instruction with up to `threads` threads.
void SegmentRunner::perform(const Instruction& instruction, int threads, std::exception_ptr& error) {
  switch (instruction.opcode) {
    case Opcode::kLaunch:
      launch(instruction, threads);
      break;
    case Opcode::kCopy: {
      const CopyOperands& copy = instruction.copy;
      team_.share(threads, threads, [&copy, threads](int first, int last) {
        const int64_t begin = part(static_cast<int64_t>(copy.bytes), first, threads);
        const int64_t end = part(static_cast<int64_t>(copy.bytes), last, threads);
        std::memmove(static_cast<std::byte*>(copy.destination) + begin,
                     static_cast<const std::byte*>(copy.source) + begin, static_cast<size_t>(end - begin));
      });
      break;
    }
    case Opcode::kFill: {
      const FillOperands& fill = instruction.fill;
      team_.share(threads, threads, [&fill, threads](int first, int last) {
        const int64_t begin = part(static_cast<int64_t>(fill.bytes), first, threads);
        const int64_t end = part(static_cast<int64_t>(fill.bytes), last, threads);
        std::memset(static_cast<std::byte*>(fill.destination) + begin, fill.value, static_cast<size_t>(end - begin));
      });
      break;
    }
    case Opcode::kHostFunction:
      call_guarded([&] { instruction.host.function(instruction.host.data); }, error);
      break;
    case Opcode::kExternalRecord:
      instruction.event.event->signalled = true;
      break;
    case Opcode::kRecord:
      instruction.event.event->reach(instruction.event.ticket);
      break;
    case Opcode::kRecordEdge:
      if (instruction.edge.done != nullptr) *instruction.edge.done = 1;
      break;
    case Opcode::kUpdateLaunch:
      call_guarded([&] { instruction.update.target->replace(instruction); }, error);
      break;
    case Opcode::kExternalWait:  // the waits are over when a segment runs
    case Opcode::kWait:
    case Opcode::kWaitEdge:
    case Opcode::kReplay:
    case Opcode::kBeginGroup:
    case Opcode::kEndGroup:
      break;
  }
}

void SegmentRunner::run_alone(std::span<const Instruction> segment, std::exception_ptr& error) {
  for (const Instruction& instruction : segment) perform(instruction, 1, error);
}

void SegmentRunner::run_shared(std::span<const Instruction> segment, std::exception_ptr& error) {
  for (size_t i = 0; i < segment.size();) {
    const size_t together = segment[i].independent;
    if (together > 1) {
      launch_together(segment.subspan(i, together), error);
      i += together;
    } else {
      perform(segment[i], width_of(segment[i], team_.size()), error);
      ++i;
    }
  }
}

void SegmentRunner::run_observed(std::span<Instruction> segment, int threads, std::exception_ptr& error) {
  for (Instruction& instruction : segment) {
    if (instruction.opcode == Opcode::kLaunch && instruction.launch.tiles > 0) {
      observe(instruction, width_of(instruction, threads));
    } else {
      perform(instruction, width_of(instruction, threads), error);
    }
  }
}

void SegmentRunner::run_profiled(std::span<const Instruction> segment, int most_threads, std::exception_ptr& error) {
  const auto now = [] { return std::chrono::steady_clock::now().time_since_epoch().count(); };
  for (const Instruction& instruction : segment) {
    const char* name = observed_name(instruction);
    const int64_t begin = now();
    perform(instruction, width_of(instruction, most_threads), error);
    if (name != nullptr) observer_->on_work({name, instruction.label, instruction.lane, begin, now()});
  }
}

void SegmentRunner::run(std::span<const Instruction> segment, std::exception_ptr& error) {
  call_guarded(
      [&] {
        if (observer_ != nullptr) [[unlikely]]
          return run_profiled(segment, team_.size(), error);
        for (const Instruction& instruction : segment) {
          const int threads = width_of(instruction, team_.size());
          if (instruction.opcode == Opcode::kLaunch && threads > 1) {
            launch_once(instruction);
          } else {
            perform(instruction, threads, error);
          }
        }
      },
      error);
}

void SegmentRunner::run(std::span<Instruction> segment, Options options, std::exception_ptr& error) {
  const int threads = options.alone ? 1 : team_.size();
  call_guarded(
      [&] {
        if (observer_ != nullptr) [[unlikely]]
          return run_profiled(segment, threads, error);
        if (options.observe && team_.size() > 1) {
          run_observed(segment, threads, error);
        } else {
          threads == 1 ? run_alone(segment, error) : run_shared(segment, error);
        }
      },
      error);
}

}  // namespace reprise::device::cpu
