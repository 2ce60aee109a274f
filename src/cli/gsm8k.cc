#include "cli/gsm8k.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/mapped_file.h"

namespace reprise::cli {
namespace {

GradeSchoolProblem parse_problem(std::string_view line) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  if (json.is_discarded()) throw Error(ErrorCode::kCorruptData, "not valid JSON");
  const auto text = [&](const char* field) {
    if (!json.is_object() || !json.contains(field) || !json[field].is_string()) {
      throw Error(ErrorCode::kCorruptData, "'{}' is missing or no text", field);
    }
    return json[field].get<std::string>();
  };
  GradeSchoolProblem problem{text("question"), text("answer"), {}};
  const std::optional<std::string> number = final_number(problem.answer);
  if (!number) throw Error(ErrorCode::kCorruptData, "'answer' holds no number");
  problem.number = *number;
  return problem;
}

bool is_digit(char character) { return character >= '0' && character <= '9'; }

}  // namespace

std::vector<GradeSchoolProblem> read_gsm8k(const std::string& path) {
  const std::string content = read_file(path);
  std::vector<GradeSchoolProblem> problems;
  size_t number = 0;
  for (size_t begin = 0; begin < content.size();) {
    const size_t end = std::min(content.find('\n', begin), content.size());
    const std::string_view line = std::string_view(content).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    try {
      problems.push_back(parse_problem(line));
    } catch (Error& error) {
      error.add_context(fmt::format("{}, line {}", path, number));
      throw;
    }
  }
  if (problems.empty()) throw Error(ErrorCode::kCorruptData, "{} holds no problem", path);
  return problems;
}

std::optional<std::string> final_number(std::string_view text) {
  std::string plain(text);
  std::erase(plain, ',');
  const auto last = std::find_if(plain.rbegin(), plain.rend(), is_digit).base();
  if (last == plain.begin()) return std::nullopt;
  auto first = last;
  while (first != plain.begin() && is_digit(*(first - 1))) --first;
  while (last - first > 1 && *first == '0') ++first;
  return std::string(first, last);
}

std::string few_shot_examples(const std::vector<GradeSchoolProblem>& problems, size_t shots) {
  std::string examples;
  for (size_t i = 0; i < std::min(shots, problems.size()); ++i) {
    examples += fmt::format("Question: {}\nAnswer: {}\n\n", problems[i].question, problems[i].answer);
  }
  return examples;
}

std::string few_shot_prompt(const std::string& examples, const std::string& question) {
  return fmt::format("{}Question: {}\nAnswer:", examples, question);
}

}  // namespace reprise::cli
