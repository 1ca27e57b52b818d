#include "backends/common/safetensors.h"

#include <gmock/gmock.h>

#include <cmath>

#include "backends/common/file_writer.h"
#include "tests/temporary_folder.h"

namespace trainyard {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string file_of(const std::string& header, const std::string& data) {
  return bytes_of<std::uint64_t>(header.size()) + header + data;
}

std::string floats(std::initializer_list<float> values) {
  std::string bytes;
  for (const float value : values) bytes += bytes_of(value);
  return bytes;
}

class Broken {
 public:
  std::string error(const std::string& content) const {
    const auto path = write_file(folder_ / "x.safetensors", content);
    return config_error_of([&] { SafetensorsFile{path}; });
  }

 private:
  TemporaryFolder folder_;
};

TEST(Safetensors, ReadsTheFormatsOwnExample) {
  TemporaryFolder folder;
  const SafetensorsFile file(write_file(
      folder / "x",
      file_of(
          R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[],"data_offsets":[8,12]},)"
          R"("a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}  )",
          floats({1, 2, 3}))));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  ASSERT_EQ(file.entries().size(), 2u);
  EXPECT_THAT(file.at("a").shape, ElementsAre(1, 2));
  EXPECT_THAT(to_floats(file, file.at("a")), ElementsAre(1, 2));
  EXPECT_THAT(to_floats(file, file.at("b")), ElementsAre(3));
  EXPECT_THAT(config_error_of([&] { file.at("c"); }), HasSubstr("no tensor \"c\""));
}

TEST(Safetensors, WritesRectanglesOfMemoryAsTensors) {
  TemporaryFolder folder;
  const std::vector<float> matrix{1, 2, 3, 4, 5, 6};  // [2, 3]
  const std::vector<std::uint16_t> half{0x3f80};
  SafetensorsSource columns = contiguous_source("columns", DType::fp32, {2, 2}, &matrix[1]);
  columns.rows = 2, columns.row_bytes = 8, columns.stride_bytes = 12;
  const SafetensorsSource sources[] = {columns,
                                       contiguous_source("one", DType::bf16, {1}, half.data())};
  FileWriter writer(folder / "x");
  write_safetensors(writer, sources, {{"step", "7"}});
  writer.close();
  const SafetensorsFile file(folder / "x");
  EXPECT_THAT(to_floats(file, file.at("columns")), ElementsAre(2, 3, 5, 6));
  EXPECT_THAT(to_floats(file, file.at("one")), ElementsAre(1));
  EXPECT_EQ(file.metadata().at("step"), "7");
  EXPECT_EQ(load_as<std::uint64_t>(file.bytes().data()) % 8, 0u);
}

TEST(Safetensors, AWrittenFileIsByteForByteTheFormat) {
  TemporaryFolder folder;
  const std::vector<float> values{1, 2};
  const SafetensorsSource sources[] = {
      contiguous_source("weights", DType::fp32, {2}, values.data())};
  FileWriter writer(folder / "x");
  write_safetensors(writer, sources, {});
  writer.close();
  std::string header = R"({"weights":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  header.resize(64, ' ');
  EXPECT_EQ(read_file(folder / "x"), file_of(header, floats({1, 2})));
}

TEST(Safetensors, HalfPrecisionNumbersAreReadExactly) {
  TemporaryFolder folder;
  std::string data;
  // 1, -2, the largest, the smallest subnormal, infinity, -0 (IEEE 754 binary16).
  for (const std::uint16_t bits : {0x3c00, 0xc000, 0x7bff, 0x0001, 0x7c00, 0x8000})
    data += bytes_of(bits);
  const SafetensorsFile file(write_file(
      folder / "x", file_of(R"({"h":{"dtype":"F16","shape":[6],"data_offsets":[0,12]}})", data)));
  const std::vector<float> values = to_floats(file, file.at("h"));
  EXPECT_THAT(values, ElementsAre(1, -2, 65504, 0x1p-24f, INFINITY, 0));
  EXPECT_TRUE(std::signbit(values[5]));
}

TEST(Safetensors, BrokenHeadersAreNamed) {
  const Broken x;
  EXPECT_THAT(x.error("1234567"), HasSubstr("x.safetensors: a safetensors file has at least 8"));
  EXPECT_THAT(x.error(bytes_of<std::uint64_t>(100'000'001)), HasSubstr("larger than 100000000"));
  EXPECT_THAT(x.error(bytes_of<std::uint64_t>(~0ull)), HasSubstr("larger than"));
  EXPECT_THAT(x.error(bytes_of<std::uint64_t>(3) + "{}"), HasSubstr("only 2 follow"));
  EXPECT_THAT(x.error(file_of("[]", "")), HasSubstr("no JSON object"));
  EXPECT_THAT(x.error(file_of("{", "")), HasSubstr("no JSON object"));
  EXPECT_THAT(x.error(file_of(R"({"a":1})", "")), HasSubstr("tensor \"a\": expected dtype"));
  EXPECT_THAT(x.error(file_of(R"({"__metadata__":{"a":1}})", "")), HasSubstr("\"a\" is no string"));
}

TEST(Safetensors, BrokenTensorsAreNamed) {
  const Broken x;
  const auto one = [&](const std::string& fields, const std::string& data = floats({1, 2})) {
    return x.error(file_of(R"({"a":{)" + fields + "}}", data));
  };
  EXPECT_THAT(one(R"("dtype":"F31","shape":[2],"data_offsets":[0,8])"), HasSubstr("\"F31\""));
  EXPECT_THAT(one(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"),
              HasSubstr("shape [3] of F32 needs 12 bytes, data_offsets give 8"));
  EXPECT_THAT(one(R"("dtype":"F32","shape":[3],"data_offsets":[0,12])"),
              HasSubstr("data_offsets 0 to 12, but the data has 8 bytes"));
  EXPECT_THAT(one(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), HasSubstr("8 to 0"));
  EXPECT_THAT(one(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), HasSubstr("expected"));
  EXPECT_THAT(one(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), HasSubstr("expected"));
  EXPECT_THAT(one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])"),
              HasSubstr("too many elements"));
  EXPECT_THAT(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"),
              HasSubstr("4 bytes at the end belong to no tensor"));
  EXPECT_THAT(one(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"),
              HasSubstr("4 bytes before tensor \"a\" belong to none"));
}

TEST(Safetensors, TensorsMayNeitherOverlapNorRepeat) {
  const Broken x;
  const std::string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const std::string b = R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]})";
  EXPECT_THAT(x.error(file_of("{" + a + "," + b + "}", floats({1, 2}))),
              HasSubstr("tensor \"b\" overlaps"));
  EXPECT_THAT(x.error(file_of("{" + a + "," + a + "}", floats({1, 2}))),
              HasSubstr("tensor \"a\" is listed twice"));
}

// XXH64 with seed 0 of nothing and of "abc" (xxHash's own sanity values).
TEST(FileWriter, TheHashIsXxh64) {
  EXPECT_EQ(hash_bytes({}), 0xEF46DB3751D8E999u);
  EXPECT_EQ(hash_bytes(std::as_bytes(std::span("abc", 3))), 0x44BC2CF5AD770999u);
}

TEST(FileWriter, LargeAndSmallPiecesArriveInOrderAndAreHashed) {
  TemporaryFolder folder;
  std::string expected;
  FileWriter writer(folder / "x", Durability::synced);
  for (int i = 0; i < 20; ++i) {
    const std::string piece(static_cast<std::size_t>(1) << i, static_cast<char>('a' + i));
    expected += piece;
    writer.write(piece);
  }
  const std::string large(5 << 20, 'z');
  writer.write(large);
  writer.write("end");
  expected += large + "end";
  EXPECT_EQ(writer.size(), static_cast<std::int64_t>(expected.size()));
  EXPECT_EQ(writer.hash(), hash_bytes(std::as_bytes(std::span(expected))));
  EXPECT_FALSE(std::filesystem::exists(folder / "x"));
  writer.close();
  EXPECT_EQ(read_file(folder / "x"), expected);
}

TEST(FileWriter, AFolderThatIsMissingIsNamed) {
  TemporaryFolder folder;
  try {
    FileWriter writer(folder / "none/x");
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("none/x: cannot be written"),
                                    HasSubstr("No such file or directory")));
  }
}

}  // namespace
}  // namespace trainyard
