#include "load/safetensors_header.h"

#include "load/test_files.h"

namespace reprise::load {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

SafetensorsHeader parse(const std::string& file) {
  return parse_safetensors_header(std::as_bytes(std::span(file)), "m.safetensors");
}

Error refused(const std::string& file) {
  return error_of([&] { parse(file); });
}

Error refused_tensor(const std::string& fields, size_t data_bytes = 16) {
  return refused(raw_safetensors("{\"w\":{" + fields + "}}", data_bytes));
}

TEST(SafetensorsHeader, ReadsEntriesInTheOrderOfTheirData) {
  const SafetensorsHeader header = parse(
      raw_safetensors(R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
                      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   )",
                      16));
  ASSERT_EQ(header.entries.size(), 2u);
  EXPECT_EQ(header.entries[0].name, "a");
  EXPECT_EQ(header.entries[0].shape.rank(), 0u);
  EXPECT_EQ(header.entries[1].name, "b");
  EXPECT_EQ(header.entries[1].dtype, DType::kBF16);
  EXPECT_EQ(header.entries[1].shape, (Shape{2, 3}));
  EXPECT_EQ(header.entries[1].begin, header.data_begin + 4);
  EXPECT_EQ(header.entries[1].end, header.data_begin + 16);
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST(SafetensorsHeader, AcceptsEmptyTensorsAndFilesWithoutTensors) {
  EXPECT_TRUE(parse(raw_safetensors("{}", 0)).entries.empty());
  const SafetensorsHeader header = parse(raw_safetensors(
      R"({"x":{"dtype":"I8","shape":[4],"data_offsets":[0,4]},"none":{"dtype":"F32","shape":[4194304,0,8],)"
      R"("data_offsets":[0,0]}})",
      4));
  EXPECT_EQ(header.entries.size(), 2u);
}

TEST(SafetensorsHeader, KnowsEveryDtypeOfTheEngine) {
  for (const DType dtype :
       {DType::kF32, DType::kBF16, DType::kF16, DType::kI8, DType::kU8, DType::kI32, DType::kI64, DType::kBool}) {
    const std::string file =
        raw_safetensors(fmt::format(R"({{"w":{{"dtype":"{}","shape":[2],"data_offsets":[0,{}]}}}})",
                                    safetensors_name(dtype), 2 * size_of(dtype)),
                        2 * size_of(dtype));
    EXPECT_EQ(parse(file).entries.at(0).dtype, dtype);
  }
}

TEST(SafetensorsHeader, B17LengthsThatDoNotFitTheFileAreRefusedNamingFileAndLength) {
  const std::string header = R"({"w":{"dtype":"I8","shape":[16],"data_offsets":[0,16]}})";
  const uint64_t file_size = 8 + header.size() + 16;
  for (const uint64_t length : {uint64_t{0}, uint64_t{1}, uint64_t{7}, file_size - 8, file_size - 7, uint64_t{1} << 31,
                                uint64_t{1} << 63, ~uint64_t{0}}) {
    const Error error = refused(raw_safetensors(header, 16, length));
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData) << length;
    EXPECT_THAT(error.what(), HasSubstr("m.safetensors")) << length;
    if (length > file_size - 8) {
      EXPECT_THAT(error.what(), HasSubstr(std::to_string(length)));
    }
  }
}

TEST(SafetensorsHeader, B17FilesTooShortForAHeaderAreRefused) {
  for (const size_t size : {0, 1, 7, 8, 9}) {
    EXPECT_THAT(refused(std::string(size, '\0')).what(), HasSubstr(fmt::format("{} bytes", size)));
  }
}

TEST(SafetensorsHeader, B17HeaderOfOneHundredMegabytesLoads) {
  std::string header = R"({"__metadata__":{"note":")" + std::string(101'000'000, 'x') +
                       R"("},"w":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}})";
  const std::string file = raw_safetensors(header, 4);
  header.clear();
  const SafetensorsHeader parsed = parse(file);
  EXPECT_EQ(parsed.entries.size(), 1u);
  EXPECT_EQ(parsed.metadata.at("note").size(), 101'000'000u);
}

TEST(SafetensorsHeader, B17HeaderWithManyTensorsLoads) {
  std::string header = "{";
  constexpr size_t kCount = 20000;
  for (size_t i = 0; i < kCount; ++i) {
    header += fmt::format(R"({}"model.layers.{}.weight":{{"dtype":"I8","shape":[1],"data_offsets":[{},{}]}})",
                          i == 0 ? "" : ",", i, i, i + 1);
  }
  EXPECT_EQ(parse(raw_safetensors(header + "}", kCount)).entries.size(), kCount);
}

TEST(SafetensorsHeader, B19OffsetsThatContradictTheShapeOrTheFileAreRefused) {
  const struct {
    const char* fields;
    const char* message;
  } cases[] = {
      {R"("dtype":"F32","shape":[1000,1000],"data_offsets":[0,4])", "4000000 bytes"},
      {R"("dtype":"F32","shape":[1],"data_offsets":[8,4])", "reversed"},
      {R"("dtype":"F32","shape":[1],"data_offsets":[-4,0])", "negative number -4"},
      {R"("dtype":"F32","shape":[1],"data_offsets":[18446744073709551608,18446744073709551612])",
       "beyond the 16 bytes"},
      {R"("dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551616])", "not an integer below 2^64"},
      {R"("dtype":"F32","shape":[8589934592,8589934592],"data_offsets":[0,16])", "63 bits"},
      {R"("dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,4])", "63 bits"},
      {R"("dtype":"F32","shape":[9223372036854775807,8,0],"data_offsets":[0,0])", "63 bits"},
      {R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])", "negative number -1"},
      {R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])", "not an integer"},
      {R"("dtype":"F32","shape":["1"],"data_offsets":[0,4])", "a string"},
      {R"("dtype":"F32","shape":[true],"data_offsets":[0,4])", "a boolean"},
      {R"("dtype":"F32","shape":[[1]],"data_offsets":[0,4])", "a list"},
      {R"("dtype":"F32","shape":null,"data_offsets":[0,4])", "null"},
      {R"("dtype":"F32","shape":4,"data_offsets":[0,16])", "a number"},
      {R"("dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4])", "too large"},
      {R"("dtype":"F32","shape":[1],"data_offsets":[0.0,4.0])", "not an integer"},
      {R"("dtype":"F32","shape":[1],"data_offsets":["0","4"])", "a string"},
      {R"("dtype":"F32","shape":[1],"data_offsets":[0,4,8])", "more than two"},
      {R"("dtype":"F32","shape":[1],"data_offsets":[0])", "1 numbers, not two"},
      {R"("dtype":"F32","shape":[1],"data_offsets":{"begin":0})", "an object"},
      {R"("dtype":"F32","shape":[4],"data_offsets":[4,20])", "beyond"},
      {R"("dtype":"F32","shape":[4])", "no data_offsets"},
      {R"("dtype":"F32","data_offsets":[0,4])", "no shape"},
      {R"("shape":[4],"data_offsets":[0,16])", "no dtype"},
      {R"("dtype":"F32","shape":[4],"data_offsets":[0,16],"shape":[4])", "shape occurs twice"},
      {R"("dtype":"F32","shape":[4],"data_offsets":[0,16],"stride":[1])", "unknown key \"stride\""},
  };
  for (const auto& [fields, message] : cases) {
    const Error error = refused_tensor(fields);
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData) << fields;
    EXPECT_THAT(error.what(), AllOf(HasSubstr("\"w\""), HasSubstr(message))) << fields;
  }
}

TEST(SafetensorsHeader, B20SharedBytesHolesAndTrailingBytesAreRefused) {
  const auto two = [](const char* first, const char* second, size_t data_bytes) {
    return raw_safetensors(fmt::format(R"({{"k_proj":{{"dtype":"I8","shape":[8],"data_offsets":{}}},)"
                                       R"("v_proj":{{"dtype":"I8","shape":[8],"data_offsets":{}}}}})",
                                       first, second),
                           data_bytes);
  };
  EXPECT_THAT(refused(two("[0,8]", "[0,8]", 8)).what(),
              AllOf(HasSubstr("k_proj"), HasSubstr("v_proj"), HasSubstr("share bytes")));
  EXPECT_THAT(refused(two("[0,8]", "[4,12]", 12)).what(), HasSubstr("share bytes"));
  EXPECT_THAT(refused(two("[0,8]", "[12,20]", 20)).what(), HasSubstr("4 bytes before tensor \"v_proj\""));
  EXPECT_THAT(refused(two("[4,12]", "[12,20]", 20)).what(), HasSubstr("4 bytes before tensor \"k_proj\""));
  EXPECT_THAT(refused(two("[0,8]", "[8,16]", 32)).what(), HasSubstr("16 bytes follow the last tensor"));
  EXPECT_EQ(parse(two("[8,16]", "[0,8]", 16)).entries.at(0).name, "v_proj");
}

TEST(SafetensorsHeader, B22UnknownDtypesAreRefusedNamingTheTensor) {
  for (const char* dtype : {"F4", "bf16", "F8_E4M3", "F64", "", "U16"}) {
    const Error error = refused_tensor(fmt::format(R"("dtype":"{}","shape":[16],"data_offsets":[0,16])", dtype));
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("\"w\""), HasSubstr(fmt::format("\"{}\"", dtype))));
  }
  EXPECT_THAT(refused_tensor(R"("dtype":1,"shape":[16],"data_offsets":[0,16])").what(), HasSubstr("dtype is a number"));
}

TEST(SafetensorsHeader, RefusesWhatIsNotAHeader) {
  const struct {
    const char* header;
    const char* message;
  } cases[] = {
      {"[]", "begin with '{'"},
      {" {}", "begin with '{'"},
      {"{\"w\":", "not valid JSON"},
      {"{} x", "not valid JSON"},
      {"{\"w\":1e999}", "not valid JSON"},
      {"{\"w\":7}", "not an object"},
      {"{\"w\":[]}", "not an object"},
      {"{\"w\":null}", "not an object"},
      {"{\"__metadata__\":{\"a\":1}}", "not a string"},
      {"{\"__metadata__\":{\"a\":\"x\",\"a\":\"y\"}}", "occurs twice"},
      {"{\"__metadata__\":[]}", "not an object"},
      {"{\"__metadata__\":{},\"__metadata__\":{}}", "occurs twice"},
      {"{\"\xff\":{}}", "not valid JSON"},
  };
  for (const auto& [header, message] : cases)
    EXPECT_THAT(refused(raw_safetensors(header, 0)).what(), HasSubstr(message));
  const std::string entry = R"("w":{"dtype":"I8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_THAT(refused(raw_safetensors("{" + entry + "," + entry + "}", 0)).what(), HasSubstr("\"w\" occurs twice"));
}

TEST(SafetensorsHeader, RefusesMoreDimensionsThanATensorHas) {
  const Error error = refused_tensor(R"("dtype":"I8","shape":[1,1,1,1,1,16],"data_offsets":[0,16])");
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(error.what(), HasSubstr("\"w\""));
}

TEST(SafetensorsHeader, NamesInMessagesAreEscapedAndCut) {
  const std::string name = "a\\n" + std::string(1'000'000, 'b');
  const std::string message = refused(raw_safetensors("{\"" + name + "\":7}", 0)).what();
  EXPECT_LT(message.size(), 400u);
  EXPECT_THAT(message, HasSubstr("a\\u000ab"));
}

}  // namespace
}  // namespace reprise::load
