#include "base/progress_bar.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace reprise {
namespace {

constexpr std::chrono::milliseconds kSilence{1000};
constexpr std::chrono::milliseconds kRedraw{100};
constexpr int kDefaultColumns = 100;

std::string clock(double seconds) {
  const auto whole = static_cast<int64_t>(std::max(0.0, seconds));
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{:02}:{:02}", whole / 60, whole % 60);
}

/// Counts are whole numbers of small units (batches, questions) and rounded for large ones (bytes).
std::string amount(double value) {
  return value < 1e6 ? fmt::format("{:.0f}", value) : fmt::format("{:.2f}G", value / 1e9);
}

int columns_of(std::FILE* stream) {
  winsize size{};
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 20) return size.ws_col - 1;
  return kDefaultColumns;
}

// Unlike fmt::print() this does not throw: work must not end because nobody can watch it.
void write(std::FILE* stream, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

}  // namespace

ProgressBar::ProgressBar(std::FILE* stream) : stream_(stream), terminal_(::isatty(::fileno(stream)) == 1) {}

ProgressBar::~ProgressBar() { end(); }

std::string ProgressBar::line(double done, double total, const std::string& text, double seconds, int columns) {
  const double share = total > 0 ? std::clamp(done / total, 0.0, 1.0) : 0.0;
  const std::string left = share > 0 ? clock(seconds / share - seconds) : "?";
  const std::string head = fmt::format("{}: {:3.0f}%|", text, 100 * share);
  const std::string tail = fmt::format("| {}/{} [{}<{}]", amount(done), amount(total), clock(seconds), left);
  const int width = std::max(5, columns - static_cast<int>(head.size() + tail.size()));
  const int filled = static_cast<int>(std::floor(share * width));
  return head + std::string(static_cast<size_t>(filled), '#') + std::string(static_cast<size_t>(width - filled), ' ') +
         tail;
}

void ProgressBar::update(double done, double total, const std::string& text) {
  total_ = total;
  if (!text.empty()) text_ = text;
  const Clock::time_point now = Clock::now();
  const bool whole = total > 0 && done >= total;  // is shown, however soon it comes
  if (now - start_ < kSilence || (!whole && now - drawn_ < kRedraw)) return;
  if (terminal_) {
    write(stream_, "\r\x1b[K" + line(done, total, text_, seconds(), columns_of(stream_)));
  } else {
    const int quarter = total > 0 ? static_cast<int>(4 * done / total) : 0;
    if (quarter == printed_quarter_) return;
    printed_quarter_ = quarter;
    write(stream_, line(done, total, text_, seconds(), kDefaultColumns) + "\n");
  }
  drawn_ = now;
  visible_ = true;
}

void ProgressBar::finish() {
  constexpr int kAllQuarters = 4;
  if (visible_ && !terminal_ && printed_quarter_ < kAllQuarters) {
    write(stream_, line(total_, total_, text_, seconds(), kDefaultColumns) + "\n");
  }
  end();
}

void ProgressBar::end() {
  if (visible_ && terminal_) write(stream_, "\r\x1b[K");
  visible_ = false;
}

}  // namespace reprise
