// docs/options.md and the table of options say the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "compile/option_names.h"

namespace reprise::compile {
namespace {

/// The cells of a table's row, without spaces around them.
std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> cells;
  for (size_t begin = 1; begin < line.size();) {
    const size_t end = std::min(line.find('|', begin), line.size());
    const std::string cell = line.substr(begin, end - begin);
    const size_t first = cell.find_first_not_of(' ');
    cells.push_back(first == std::string::npos ? "" : cell.substr(first, cell.find_last_not_of(' ') - first + 1));
    begin = end + 1;
  }
  return cells;
}

/// Rows of the first table, whose head has the column "interactions".
std::vector<std::vector<std::string>> document_rows() {
  std::ifstream file(std::filesystem::path(REPRISE_SOURCE_DIR) / "docs/options.md");
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("| `")) {
      if (!rows.empty()) break;
      continue;
    }
    rows.push_back(cells(line));
  }
  return rows;
}

}  // namespace

TEST(OptionsDocument, ItsTableIsThatOfTheCode) {
  const std::vector<std::vector<std::string>> rows = document_rows();
  const std::span<const OptionInfo> options = option_table();
  ASSERT_EQ(rows.size(), options.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i].size(), 6U) << rows[i][0];
    EXPECT_EQ(rows[i][0], fmt::format("`{}`", options[i].name));
    EXPECT_EQ(rows[i][1], options[i].default_text) << options[i].name;
    EXPECT_EQ(rows[i][2], options[i].rule) << options[i].name;
    EXPECT_EQ(rows[i][3], options[i].effect) << options[i].name;
    EXPECT_NE(rows[i][4], "") << options[i].name;
    EXPECT_EQ(rows[i][5], name_of(options[i].state)) << options[i].name;
  }
}

TEST(OptionsDocument, ItNamesTheBuiltOptionsThatLeaveTheKeyAlone) {
  std::ifstream file(std::filesystem::path(REPRISE_SOURCE_DIR) / "docs/options.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::string names;
  std::vector<std::string_view> alone;
  for (const OptionInfo& option : option_table()) {
    if (option.state == OptionState::kBuilt && !option.changes_code) alone.push_back(option.name);
  }
  for (size_t i = 0; i < alone.size(); ++i) {
    names += fmt::format("{}`{}`", i == 0 ? "" : i + 1 == alone.size() ? " and " : ", ", alone[i]);
  }
  EXPECT_NE(text.find(fmt::format("All built options but {} change", names)), std::string::npos) << names;
}

}  // namespace reprise::compile
