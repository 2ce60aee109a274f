// Many threads on one device: captures, replays, updates, external events and destruction side by side.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/error.h"
#include "device/cpu/test_kernels.h"

namespace reprise::device::cpu {
namespace {

class SharedDevice : public ::testing::TestWithParam<int> {
 protected:
  SharedDevice() : device_(create_cpu_device({.threads = GetParam()})), kernels_(make_test_kernels()) {}

  /// Runs the body on several threads and reports what it throws.
  void on_threads(int threads, const std::function<void(int)>& body) {
    std::vector<std::thread> running;
    for (int t = 0; t < threads; ++t) {
      running.emplace_back([&, t] {
        try {
          body(t);
        } catch (const std::exception& error) {
          ADD_FAILURE() << "thread " << t << ": " << error.what();
        }
      });
    }
    for (std::thread& thread : running) thread.join();
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<contract::TestKernels> kernels_;
};

TEST_P(SharedDevice, ThreadsCaptureUpdateAndReplayTheirOwnGraphs) {
  on_threads(4, [&](int t) {
    device_->exchange_capture_mode(CaptureMode::kRelaxed);
    for (int round = 0; round < 8; ++round) {
      const auto stream = device_->create_stream({.priority = t % 3 - 1, .name = {}});
      const auto updates = device_->create_stream();
      const auto gate = device_->create_event(EventKind::kExternal);
      const auto data = device_->allocate(64 * sizeof(int32_t), MemoryKind::kPinnedHost);
      stream->fill_async(data->data(), 0, data->bytes());
      stream->begin_capture(CaptureMode::kThreadLocal);
      const bool gated = round % 2 == 0;
      if (gated) stream->wait(*gate);
      stream->begin_task_group();
      kernels_->store_list(*stream, data->data(), std::vector<int32_t>{1});
      TaskGroup* group = stream->end_task_group();
      kernels_->multiply(*stream, data->data(), 64, 2);
      const auto graph = stream->end_capture();
      for (int32_t step = 0; step < 10; ++step) {
        const std::vector<int32_t> list(static_cast<size_t>(1 + step * 3), 10 * t + step);
        const auto update = [&](Stream& on) {
          on.begin_task_update(*group);
          kernels_->store_list(on, data->data(), list);
          on.end_task_update();
        };
        if (gated) {
          graph->replay(*stream);
          update(*updates);
          updates->record(*gate);
        } else {
          update(*stream);
          graph->replay(*stream);
        }
        if (step % 3 == t % 3) graph->hash(true);
        stream->synchronize();
        ASSERT_EQ(static_cast<const int32_t*>(data->data())[list.size() - 1], 2 * list.back());
      }
      // The last replay is queued when graph, group and streams go.
      if (!gated) graph->replay(*stream);
    }
  });
  device_->synchronize();
}

TEST_P(SharedDevice, OneGraphIsReplayedUpdatedAndReadByManyThreads) {
  const auto origin = device_->create_stream();
  const auto data = device_->allocate(64 * sizeof(int32_t), MemoryKind::kPinnedHost);
  const auto list = device_->allocate(8 * sizeof(int32_t), MemoryKind::kPinnedHost);
  device_->fill(data->data(), 0, data->bytes());
  origin->begin_capture(CaptureMode::kThreadLocal);
  kernels_->add(*origin, data->data(), 64, 1);
  origin->begin_task_group();
  kernels_->store_list(*origin, list->data(), std::vector<int32_t>(4, 0));
  TaskGroup* group = origin->end_task_group();
  const auto graph = origin->end_capture();
  std::atomic<int> busy = 0;
  on_threads(4, [&](int t) {
    const auto stream = device_->create_stream();
    const auto event = device_->create_event();
    for (int i = 0; i < 50; ++i) {
      graph->replay(*stream);
      stream->record(*event);
      if (t == 0) {
        EXPECT_FALSE(graph->to_text().empty());
      } else if (t == 1) {
        stream->query();
      } else {
        // Only one stream at a time may update a group; the other hears of it.
        try {
          stream->begin_task_update(*group);
          kernels_->store_list(*stream, list->data(), std::vector<int32_t>(4, t));
          stream->end_task_update();
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kTaskGroupState) << error.what();
          ++busy;
        }
      }
      event->synchronize();
    }
    stream->synchronize();
  });
  device_->synchronize();
  for (int i = 0; i < 64; ++i) EXPECT_EQ(static_cast<const int32_t*>(data->data())[i], 200);
  graph->close();
}

TEST_P(SharedDevice, AnEventGoesRoundBetweenThreads) {
  constexpr int kThreads = 3;
  std::vector<std::unique_ptr<Event>> turns;
  for (int t = 0; t < kThreads; ++t) turns.push_back(device_->create_event(EventKind::kExternal));
  const auto data = device_->allocate(64 * sizeof(int32_t), MemoryKind::kPinnedHost);
  device_->fill(data->data(), 0, data->bytes());
  device_->default_stream().record(*turns[0]);
  device_->default_stream().synchronize();
  on_threads(kThreads, [&](int t) {
    const auto stream = device_->create_stream();
    stream->begin_capture(CaptureMode::kThreadLocal);
    stream->wait(*turns[static_cast<size_t>(t)]);
    kernels_->multiply(*stream, data->data(), 64, 1);
    kernels_->add(*stream, data->data(), 64, 1);
    stream->record(*turns[static_cast<size_t>((t + 1) % kThreads)]);
    const auto graph = stream->end_capture();
    for (int i = 0; i < 30; ++i) graph->replay(*stream);
    stream->synchronize();
  });
  for (int i = 0; i < 64; ++i) EXPECT_EQ(static_cast<const int32_t*>(data->data())[i], 30 * kThreads);
}

TEST_P(SharedDevice, FailingCapturesDisturbNobody) {
  on_threads(4, [&](int t) {
    for (int round = 0; round < 20; ++round) {
      const auto stream = device_->create_stream();
      const auto side = device_->create_stream();
      const auto fork = device_->create_event();
      const auto data = device_->allocate(64 * sizeof(int32_t), MemoryKind::kPinnedHost);
      stream->fill_async(data->data(), 0, data->bytes());
      if (t < 2) {  // never joined
        stream->begin_capture(CaptureMode::kThreadLocal);
        stream->record(*fork);
        side->wait(*fork);
        kernels_->add(*side, data->data(), 64, 1);
        EXPECT_ERROR(ErrorCode::kCaptureUnjoined, stream->end_capture());
      } else if (t == 2) {  // memory runs out
        stream->begin_capture(CaptureMode::kThreadLocal);
        kernels_->add(*stream, data->data(), 64, 1);
        EXPECT_ERROR(ErrorCode::kOutOfMemory, device_->allocate(size_t{1} << 60));
        stream->end_capture()->replay(*stream);
        kernels_->add(*stream, data->data(), 64, -1);
      } else {  // the stream goes in the middle
        const auto doomed = device_->create_stream();
        doomed->begin_capture(CaptureMode::kThreadLocal);
        kernels_->add(*doomed, data->data(), 64, 1);
      }
      kernels_->add(*stream, data->data(), 64, 5);
      stream->synchronize();
      ASSERT_EQ(static_cast<const int32_t*>(data->data())[63], 5);
    }
  });
  device_->synchronize();
}

INSTANTIATE_TEST_SUITE_P(Threads, SharedDevice, ::testing::Values(1, 2, 5), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace reprise::device::cpu
