#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::cli {

/// One problem of a gsm8k file.
struct GradeSchoolProblem {
  std::string question;
  std::string answer;  ///< with its working; ends with "#### N"
  std::string number;  ///< N, as final_number() gives it
};

/// Reads JSON lines {"question", "answer"}; empty lines are skipped. kCorruptData naming the line of anything else, and
/// of an answer without a number.
std::vector<GradeSchoolProblem> read_gsm8k(const std::string& path);

/// The last run of digits once commas are gone, without leading zeros; absent when there is no digit. Scores are
/// comparable with those of the published script: signs and fractions do not count.
std::optional<std::string> final_number(std::string_view text);

/// "Question: Q\nAnswer: A\n\n" for each of the first `shots` problems.
std::string few_shot_examples(const std::vector<GradeSchoolProblem>& problems, size_t shots);
/// The examples, then the question in the same form with its answer left open.
std::string few_shot_prompt(const std::string& examples, const std::string& question);

}  // namespace reprise::cli
