#include "base/error.h"

#include <gtest/gtest.h>

namespace reprise {

TEST(Error, MessageEndsWithTheRemedy) {
  const Error error = Error(ErrorCode::kInvalidArgument, "page size {} is not positive", 0).remedy("use 16");
  EXPECT_STREQ(error.what(), "page size 0 is not positive (use 16)");
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
}

TEST(Error, ContextGoesBeforeTheMessage) {
  Error error(ErrorCode::kIo, "short read");
  error.add_context("load model");
  EXPECT_STREQ(error.what(), "load model: short read");
}

TEST(Error, ExitCodesTellUserFaultsFromFilesAndResources) {
  EXPECT_EQ(exit_code(ErrorCode::kInvalidArgument), 2);
  EXPECT_EQ(exit_code(ErrorCode::kCorruptData), 3);
  EXPECT_EQ(exit_code(ErrorCode::kOutOfMemory), 4);
  EXPECT_EQ(exit_code(ErrorCode::kInternal), 1);
}

}  // namespace reprise
