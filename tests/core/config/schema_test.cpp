#include "core/config/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/config/choices.h"
#include "core/config/toml_reader.h"
#include "core/error.h"

namespace trainyard {
namespace {

using testing::HasSubstr;

TEST(Schema, NamesEveryKeyOnceAndExplainsIt) {
  std::set<std::string> keys;
  for (const Row& row : schema()) {
    EXPECT_TRUE(keys.insert(row.key).second) << row.key;
    EXPECT_FALSE(row.doc.empty()) << row.key;
    EXPECT_FALSE(row.type.empty()) << row.key;
    EXPECT_LE(row.low, row.high) << row.key;
    for (const ChoiceText& choice : row.choices) EXPECT_FALSE(choice.doc.empty()) << row.key;
  }
}

// Something that may stand in place of the row's "*".
std::string legal_name(const Row& row) {
  if (row.key.find("measured_kernels") != std::string::npos) return "norm_forward_rms";
  return row.key.find("measured_calls") != std::string::npos ? "send" : "flash2";
}

TEST(Schema, ShowsDefaultsThatAreThemselvesLegalInput) {
  int tried = 0;
  for (const Row& row : schema()) {
    const std::string shown = row.show(row, Job{});
    if (row.required || row.derived || shown.empty() || shown == "\"\"") continue;
    const auto value = parse_toml_value(shown, {});
    ASSERT_TRUE(value) << row.key << " = " << shown;
    Job job;
    EXPECT_NO_THROW(row.assign(row, *value, legal_name(row), job)) << row.key << " = " << shown;
    EXPECT_EQ(row.show(row, job), shown) << row.key;
    ++tried;
  }
  EXPECT_GT(tried, 80);
}

TEST(Schema, FindsKeysWithANameOfTheUsersChoice) {
  std::string name;
  const Row* row = find_row("cluster.gpu.attention.flash7.forward_tflops", &name);
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(name, "flash7");
  EXPECT_EQ(find_row("cluster.gpu.attention.forward_tflops"), nullptr);
  EXPECT_EQ(find_row("cluster.gpu.attention.a.b.forward_tflops"), nullptr);
  EXPECT_TRUE(is_section("cluster.gpu.attention.flash7"));
  EXPECT_TRUE(is_section("cluster"));
  EXPECT_FALSE(is_section("cluster.gpu.attention.flash7.q"));
  EXPECT_FALSE(is_section("model.hidden"));
  EXPECT_FALSE(is_section("mod"));
}

TEST(SchemaText, HasEveryKeyWithItsUnitDefaultAndChoices) {
  const std::string text = describe_schema();
  for (const Row& row : schema()) EXPECT_THAT(text, HasSubstr(row.key + "\n"));
  EXPECT_THAT(text, HasSubstr("cluster.node.nic_gbps\n"
                              "    nominal rate of one card in one direction\n"
                              "    number in Gbit/s, 0 .. 100000; default 0\n"));
  EXPECT_THAT(text, HasSubstr("choice, adam | adamw | lamb; default \"adam\"\n"));
  EXPECT_THAT(text, HasSubstr("integer, 1 .. 100000; default required\n"));
}

TEST(SchemaText, IsATableASectionInMarkdown) {
  const std::string text = describe_schema(TextFormat::markdown, "training");
  EXPECT_EQ(text.substr(0, text.find('\n')), "### [training]");
  EXPECT_THAT(text, HasSubstr("| `clip` | number | 1 | 0 .. 1000000000 | limit of the global "
                              "gradient norm; 0 = off |\n"));
  EXPECT_THAT(text, HasSubstr("adam \\| adamw \\| lamb"));
  EXPECT_THAT(text, testing::Not(HasSubstr("hidden")));
}

TEST(SchemaText, ExplainsChoicesAndRefusesKeysWithout) {
  EXPECT_THAT(describe_choices("schedule.pipeline"), HasSubstr("  zb-2p             zero-bubble"));
  EXPECT_THROW(describe_choices("model.hidden"), ConfigError);
  EXPECT_THROW(describe_choices("model.hiden"), ConfigError);
}

TEST(Choices, AreSpelledAsInScenarios) {
  EXPECT_EQ(choice_name(Order::interleaved_1f1b), "interleaved-1f1b");
  EXPECT_EQ(choice_name(Precision::bf16), "bf16");
}

}  // namespace
}  // namespace trainyard
