#include "replay/static_inputs.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "engine/fake_device.h"

namespace reprise::replay {
namespace {

class InputsDevice final : public engine::FakeDevice {
 public:
  explicit InputsDevice(bool shares_host_cores) { capabilities_.shares_host_cores = shares_host_cores; }
  const device::Capabilities& capabilities() const override { return capabilities_; }

 private:
  device::Capabilities capabilities_;
};

/// Copies at once, counts, and can lose what it is given.
class CopyStream final : public device::Stream {
 public:
  explicit CopyStream(device::Device& device) : device_(device) {}
  int copies = 0;
  bool loses = false;
  int fails_after = -1;  ///< this many more copies: an error

  void copy_async(void* destination, const void* source, size_t bytes, device::CopyKind) override {
    if (fails_after >= 0 && fails_after-- == 0) throw Error(ErrorCode::kInternal, "a copy fails");
    ++copies;
    if (!loses) std::memcpy(destination, source, bytes);
  }
  device::Device& device() override { return device_; }
  const device::StreamOptions& options() const override { return options_; }
  void synchronize() override {}
  bool synchronize_for(int) override { return true; }
  bool query() override { return true; }
  void close() override {}
  void fill_async(void*, unsigned char, size_t) override { unused(); }
  void host_function(void (*)(void*), void*) override { unused(); }
  void record(device::Event&) override { unused(); }
  void wait(device::Event&) override { unused(); }
  void begin_capture(device::CaptureMode) override { unused(); }
  std::unique_ptr<device::CapturedGraph> end_capture() override { unused(); }
  device::CaptureInfo capture_info() override { return {}; }
  void begin_task_group() override { unused(); }
  device::TaskGroup* end_task_group() override { unused(); }
  void begin_task_update(device::TaskGroup&) override { unused(); }
  void end_task_update() override { unused(); }
  void set_core_limit(device::CoreLimit) override {}
  device::CoreLimit core_limit() const override { return {}; }

 private:
  [[noreturn]] static void unused() { throw Error(ErrorCode::kInternal, "the stream copies only"); }
  device::Device& device_;
  device::StreamOptions options_;
};

constexpr StepLimits kLimits{24, 6, 5, true};

StepBatch random_batch(std::mt19937& random, int32_t sequences, bool decode) {
  const auto any = [&](int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(random); };
  StepBatch batch;
  batch.max_pages = any(1, kLimits.pages);
  for (int32_t i = 0; i < sequences; ++i) {
    const int32_t count = decode ? 1 : any(1, 4);
    batch.query_lengths.push_back(count);
    batch.kv_lengths.push_back(count + any(0, 9));
    batch.sequence_slots.push_back(any(0, 9));
    for (int32_t token = 0; token < count; ++token) {
      batch.token_ids.push_back(any(0, 3));
      batch.positions.push_back(any(0, 3));
      batch.slots.push_back(any(0, 3));
    }
    for (int32_t page = 0; page < batch.max_pages; ++page) batch.block_tables.push_back(any(0, 3));
  }
  return batch;
}

void expect_on_device(const StaticInputs& inputs, const StepBatch& batch, int32_t tokens, int32_t sequences,
                      bool poison) {
  const std::vector<Tensor> views = inputs.tensors(tokens, sequences, false);
  const auto at = [&](size_t view, int32_t index) { return views[view].data_as<const int32_t>()[index]; };
  const auto padded = [&](size_t view, const std::vector<int32_t>& values, int32_t rows, auto neutral) {
    for (int32_t i = 0; i < rows; ++i) {
      const auto index = static_cast<size_t>(i);
      ASSERT_EQ(at(view, i), index < values.size() ? values[index] : neutral(i)) << "view " << view << ", row " << i;
    }
  };
  const auto own_row = [](int32_t row) { return row; };
  padded(0, batch.token_ids, tokens, [&](int32_t) { return poison ? 0x7FFFFFFF : 0; });
  padded(1, batch.positions, tokens, [](int32_t) { return 0; });
  padded(2, batch.slots, tokens, own_row);
  for (int32_t row = 0; row < sequences; ++row) {
    for (int32_t page = 0; page < kLimits.pages; ++page) {
      const bool used = row < batch.sequences() && page < batch.max_pages;
      if (!used && !poison) continue;
      const int32_t expected =
          used ? batch.block_tables[static_cast<size_t>(row * batch.max_pages + page)] : 0x7FFFFFFF;
      ASSERT_EQ(at(3, row * kLimits.pages + page), expected) << row << ", " << page;
    }
  }
  ASSERT_EQ(at(4, 0), batch.tokens());
  std::vector<int32_t> last_rows;
  for (const int32_t count : batch.query_lengths) {
    last_rows.push_back((last_rows.empty() ? -1 : last_rows.back()) + count);
  }
  padded(5, last_rows, sequences, own_row);
  padded(6, batch.sequence_slots, sequences, own_row);
}

class StaticInputsOf : public testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(StaticInputsOf, HoldEachStepWhateverCameBefore) {
  const auto [shares_host_cores, poison] = GetParam();
  InputsDevice device(shares_host_cores);
  CopyStream stream(device);
  StaticInputs inputs(device, kLimits, poison);
  std::mt19937 random(5);
  for (int step = 0; step < 300; ++step) {
    const auto sequences = static_cast<int32_t>(1 + random() % 6);
    const bool decode = random() % 3 > 0;
    const StepBatch batch = random_batch(random, sequences, decode);
    const int32_t rows = decode ? 6 : sequences;
    const int32_t tokens = decode ? 6 : batch.tokens();
    if (random() % 10 == 0) {
      // What was written and not sent is sent with the next step, of which nobody says that one failed.
      stream.fails_after = static_cast<int>(random() % 6);
      try {
        inputs.write(stream, batch, tokens, rows);
      } catch (const Error&) {
      }
      stream.fails_after = -1;
      continue;
    }
    stream.loses = random() % 10 == 0;  // the step fails
    inputs.write(stream, batch, tokens, rows);
    if (stream.loses) {
      inputs.send_all();
    } else {
      expect_on_device(inputs, batch, tokens, rows, poison);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, StaticInputsOf, testing::Combine(testing::Bool(), testing::Bool()));

TEST(StaticInputs, OfDecodeStepsInARowAreSentWhereTheyDiffer) {
  InputsDevice device(false);
  CopyStream stream(device);
  StaticInputs inputs(device, kLimits, false);
  StepBatch batch;
  batch.max_pages = 2;
  for (int32_t i = 0; i < 4; ++i) {
    batch.token_ids.push_back(7 + i);
    batch.positions.push_back(20 + i);
    batch.slots.push_back(100 + 20 * i);
    batch.query_lengths.push_back(1);
    batch.kv_lengths.push_back(21 + i);
    batch.sequence_slots.push_back(i + 3);
    batch.block_tables.insert(batch.block_tables.end(), {i + 1, i + 9});
  }
  const auto copies = [&] {
    stream.copies = 0;
    inputs.write(stream, batch, 6, 6);
    expect_on_device(inputs, batch, 6, 6, false);
    return stream.copies;
  };
  copies();
  EXPECT_EQ(copies(), 0);
  for (size_t i = 0; i < 4; ++i) {
    ++batch.token_ids[i];
    ++batch.positions[i];
    ++batch.slots[i];
    ++batch.kv_lengths[i];
  }
  EXPECT_EQ(copies(), 3);
  EXPECT_EQ(inputs.lists(6)[1].values[3], 25) << "the host's lists are always the step's";
  batch.block_tables[5] = 77;
  ++batch.token_ids[2];
  EXPECT_EQ(copies(), 2) << "one sequence has got a page";
}

TEST(StaticInputs, AreSentAsAWholeWhereTheHostsCoresRun) {
  InputsDevice device(true);
  CopyStream stream(device);
  StaticInputs inputs(device, {4, 4, 5, false}, false);
  StepBatch batch;
  batch.max_pages = 1;
  for (std::vector<int32_t>* list : {&batch.token_ids, &batch.positions, &batch.slots, &batch.block_tables})
    *list = {1};
  batch.query_lengths = batch.kv_lengths = {1};
  inputs.write(stream, batch, 4, 4);
  const int first = stream.copies;
  inputs.write(stream, batch, 4, 4);
  EXPECT_EQ(stream.copies, 2 * first);
}

}  // namespace
}  // namespace reprise::replay
