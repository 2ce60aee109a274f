#include "compile/option_names.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace reprise::compile {
namespace {

std::string refusal(std::string_view name, std::string_view value, ErrorCode code) {
  PassOptions options;
  try {
    set_option(options, name, value);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST(OptionNames, EachSwitchTurnsExactlyItsOwnFieldOff) {
  for (const std::string& name : option_names()) {
    PassOptions options;
    set_option(options, name, "false");
    const int off = int{!options.remove_noop_ops} + int{!options.pattern_fusion_pass} + int{!options.remove_cat_ops} +
                    int{!options.inplace_pass} + int{!options.input_inplace_pass};
    EXPECT_EQ(off, 1) << name;
    set_option(options, name, "true");
    EXPECT_TRUE(options.remove_noop_ops && options.pattern_fusion_pass && options.remove_cat_ops &&
                options.inplace_pass && options.input_inplace_pass)
        << name;
  }
}

TEST(OptionNames, ABoolIsNothingElse) {
  for (const char* value : {"0", "1", "False", "yes", "", " true"}) {
    EXPECT_NE(refusal("inplace_pass", value, ErrorCode::kInvalidArgument).find("must be true or false"),
              std::string::npos)
        << value;
  }
}

TEST(OptionNames, AnUnknownNameIsAnsweredWithTheNearestAndAnUnbuiltOneByName) {
  EXPECT_EQ(refusal("inplace_pas", "true", ErrorCode::kInvalidArgument),
            "there is no option 'inplace_pas' (did you mean 'inplace_pass'?)");
  for (const std::string& name : unbuilt_option_names()) {
    EXPECT_EQ(refusal(name, "true", ErrorCode::kUnsupported), "option " + name + " is not built yet");
  }
}

}  // namespace reprise::compile
