#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/progress_bar.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/session.h"
#include "load/quantize_checkpoint.h"
#include "model/compare_outputs.h"
#include "model/factory.h"
#include "model/observe_inputs.h"
#include "text/tokenizer.h"

namespace reprise::cli {
namespace {

struct QuantizeCommand {
  SessionOptions session;
  std::string output;
  std::string scheme = "w8a8-dynamic";
  std::string format = "msmodelslim";
  std::string calibration_file;
  std::string calibration_option;  ///< one that was given and says how texts are run, "" if none was
  int32_t calibration_texts = 128;
  std::vector<std::string> ignore;
  bool head = false;
};

/// The text of a line: as it is, or of a JSON object with "text" or "prompt", or a problem with its answer.
std::string text_of_line(const std::string& line, const std::string& where) {
  if (!line.starts_with("{")) return line;
  const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
  const auto value = [&](const char* key) {
    const auto place = object.is_object() ? object.find(key) : object.end();
    return place != object.end() && place->is_string() ? place->get<std::string>() : std::string();
  };
  for (const char* key : {"text", "prompt"}) {
    if (!value(key).empty()) return value(key);
  }
  if (!value("question").empty()) return fmt::format("Question: {}\nAnswer: {}", value("question"), value("answer"));
  throw Error(ErrorCode::kCorruptData, "{}: expected a JSON object with \"text\", \"prompt\" or \"question\"", where);
}

std::vector<std::vector<int32_t>> read_texts(const QuantizeCommand& options, const text::Tokenizer& tokenizer,
                                             int64_t max_positions) {
  const std::string all = read_file(options.calibration_file);
  std::vector<std::vector<int32_t>> texts;
  size_t number = 0;
  for (size_t begin = 0; begin < all.size() && texts.size() < static_cast<size_t>(options.calibration_texts);) {
    const size_t end = std::min(all.find('\n', begin), all.size());
    const std::string line = all.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.empty()) continue;
    texts.push_back(tokenizer.encode(text_of_line(line, fmt::format("{}:{}", options.calibration_file, number))));
    if (static_cast<int64_t>(texts.back().size()) > max_positions) {
      texts.back().resize(static_cast<size_t>(max_positions));
    }
  }
  if (texts.empty()) throw Error(ErrorCode::kCorruptData, "{} holds no text", options.calibration_file);
  return texts;
}

std::string not_written(const QuantizeCommand& options) { return options.output + " is not written"; }

void stop_if_interrupted(const std::string& consequence) {
  // Thrown, so that the writer takes its unfinished file away.
  if (interrupted()) throw Error(ErrorCode::kCancelled, "interrupted: {}", consequence);
}

/// The float model, and texts to run through it.
class Calibration {
 public:
  explicit Calibration(const QuantizeCommand& options) : options_(options), session_(options.session) {
    const text::Tokenizer tokenizer = text::load_tokenizer(session_.directory());
    texts_ = read_texts(options, tokenizer, session_.model()->info().max_positions);
  }

  std::map<std::string, load::ActivationRange> ranges() {
    auto found = model::observe_linear_inputs(*session_.model(), session_.registry(), session_.device(), texts_,
                                              progress("Calibrating", not_written(options_)));
    bar_->finish();
    return found;
  }

  /// Of what has been written.
  std::map<std::string, model::OutputError> output_errors() {
    model::ModelOptions options;
    options.dtype = session_.model()->info().dtype;
    const auto quantized = model::load_model(options_.output, session_.registry(), session_.device(), options);
    auto errors = model::compare_outputs(*session_.model(), *quantized, session_.registry(), session_.device(), texts_,
                                         progress("Comparing outputs", "the outputs are not compared"));
    bar_->finish();
    return errors;
  }

 private:
  std::function<void(size_t)> progress(std::string doing, std::string consequence) {
    bar_ = std::make_unique<ProgressBar>();
    return [this, doing = std::move(doing), consequence = std::move(consequence)](size_t done) {
      stop_if_interrupted(consequence);
      bar_->update(static_cast<double>(done), static_cast<double>(texts_.size()), doing);
    };
  }

  const QuantizeCommand& options_;
  Session session_;
  std::vector<std::vector<int32_t>> texts_;
  std::unique_ptr<ProgressBar> bar_;
};

/// Errors of the weights, and where texts have been run those of the outputs beside them. The experts of a layer make
/// their outputs together.
std::string report(const std::vector<load::LayerError>& errors,
                   const std::map<std::string, model::OutputError>& output_errors) {
  constexpr const char* kRow = "{:<44}{:<14}{:>10}{:>12}{:>10}{:>12}{:>12}\n";
  const auto row = [&](const std::string& layer, std::string_view scheme, const std::string& cosine,
                       const std::string& largest) {
    const auto place = output_errors.find(layer);
    if (place == output_errors.end()) return fmt::format("{:<44}{:<14}{:>10}{:>12}\n", layer, scheme, cosine, largest);
    const model::OutputError& error = place->second;
    return fmt::format(kRow, layer, scheme, cosine, largest, fmt::format("{:.6f}", error.cosine),
                       fmt::format("{:.3e}", error.largest), fmt::format("{:.3e}", error.largest_output));
  };
  std::string text =
      output_errors.empty()
          ? fmt::format("{:<44}{:<14}{:>10}{:>12}\n", "layer", "scheme", "cosine", "max error")
          : fmt::format(kRow, "layer", "scheme", "cosine", "max error", "outputs", "max error", "of max");
  std::set<std::string> told;
  for (const load::LayerError& error : errors) {
    text += row(error.layer, name_of(error.scheme), fmt::format("{:.6f}", error.cosine),
                fmt::format("{:.3e}", error.largest));
    told.insert(error.layer);
  }
  for (const auto& [layer, _] : output_errors) {
    if (!told.contains(layer)) text += row(layer, "all experts", "", "");
  }
  return text;
}

int run_quantize(const QuantizeCommand& options) {
  if (options.calibration_texts < 1) {
    throw Error(ErrorCode::kInvalidArgument, "--calibration-texts is {}, must be at least 1",
                options.calibration_texts);
  }
  watch_interrupts();
  load::QuantizeOptions quantize;
  const bool is_static = options.scheme == "w8a8";
  if (options.calibration_file.empty() && !is_static && !options.calibration_option.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "{} says how texts are run, and there are none",
                options.calibration_option)
        .remedy("name a file with --calibrate");
  }
  quantize.scheme = is_static ? load::LinearScheme::kW8A8 : load::LinearScheme::kW8A8Dynamic;
  quantize.convention = options.format == "msmodelslim" ? load::Quantization::Convention::kModelSlim
                                                        : load::Quantization::Convention::kCompressedTensors;
  quantize.ignore = options.ignore;
  quantize.head = options.head;
  // Before the model runs: what cannot be written should not cost a calibration.
  load::check_quantize_checkpoint(options.session.model, options.output, quantize);
  const bool needs_ranges = !load::static_layers(options.session.model, quantize).empty();
  if (needs_ranges && options.calibration_file.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "the scheme w8a8 needs texts to find the ranges of activations")
        .remedy("name a file with --calibrate, or choose w8a8-dynamic");
  }
  std::optional<Calibration> calibration;
  if (!options.calibration_file.empty()) calibration.emplace(options);
  if (needs_ranges) quantize.ranges = calibration->ranges();
  ProgressBar bar;
  quantize.progress = [&](const std::string& name, uint64_t done, uint64_t total) {
    stop_if_interrupted(not_written(options));
    bar.update(static_cast<double>(done), static_cast<double>(total), "Quantising " + name);
  };
  const std::vector<load::LayerError> errors =
      load::quantize_checkpoint(options.session.model, options.output, quantize);
  bar.finish();
  // Before outputs are compared, which may be interrupted or fail.
  write_message(fmt::format("{}: written, {} layers in int8\n", options.output, errors.size()));
  write_output(
      report(errors, calibration ? calibration->output_errors() : std::map<std::string, model::OutputError>()));
  return 0;
}

}  // namespace

void add_quantize(CommandLine& program) {
  CommandLine& command = program.command("quantize", "Write a checkpoint with int8 weights and activations (W8A8)");
  const auto options = std::make_shared<QuantizeCommand>();
  options->session.add_model(command);
  command.option("-o,--out", options->output, "directory to write");
  command.required();
  command.choice(
      "--scheme", options->scheme, {"w8a8", "w8a8-dynamic"},
      "w8a8: activations have one scale for all tokens, found by --calibrate; w8a8-dynamic: each token its own");
  command.choice("--format", options->format, {"msmodelslim", "compressed-tensors"},
                 "whose names the tensors and the description follow");
  command.option("--calibrate", options->calibration_file,
                 "texts, one a line; or JSON lines with \"text\", \"prompt\", or \"question\" and \"answer\": for the "
                 "ranges of w8a8, and for the error of each layer's outputs in any scheme");
  command.option("--calibration-texts", options->calibration_texts, "how many of them are used");
  command.option(
      "--ignore", options->ignore,
      "expression for layers that stay float, matched from the beginning of their names; may be given several "
      "times");
  command.flag("--head", options->head, "quantise the output head too");
  options->session.add_device(command);
  command.on_run([options, &command] {
    for (const char* name : {"--calibration-texts", "--device", "--threads", "--dtype"}) {
      if (command.given(name)) options->calibration_option = name;
    }
    // Before its parent is taken for the directory of a file of that name.
    if (!std::filesystem::exists(options->session.model)) {
      throw Error(ErrorCode::kNotFound, "there is no model at {}", options->session.model);
    }
    return run_quantize(*options);
  });
}

}  // namespace reprise::cli
