// SPDX-License-Identifier: Apache-2.0
#include "policy/file/json_source.h"

#include <gtest/gtest.h>

namespace cinch::policy {
namespace {

JsonSource parsed(std::string_view text) {
  auto result = parse_json(text);
  EXPECT_TRUE(std::holds_alternative<JsonSource>(result)) << text;
  return std::get<JsonSource>(std::move(result));
}

JsonError refused(std::string_view text) {
  auto result = parse_json(text);
  EXPECT_TRUE(std::holds_alternative<JsonError>(result)) << text;
  return std::get<JsonError>(std::move(result));
}

TEST(JsonSource, RecordsWhereEveryTokenBegins) {
  const std::string_view text = R"({ "a": 12, "b":[true ,-3.5,"x\"y",null, {"c":{}}],"d" : "e"})";
  const JsonSource source = parsed(text);
  const auto value_at = [&](const std::string& pointer) {
    return text.substr(source.locations.at(pointer).value, 4);
  };
  const auto key_at = [&](const std::string& pointer) {
    return text.substr(source.locations.at(pointer).key.value(), 3);
  };
  EXPECT_EQ(value_at(""), "{ \"a");
  EXPECT_EQ(key_at("/a"), "\"a\"");
  EXPECT_EQ(value_at("/a"), "12, ");
  EXPECT_EQ(value_at("/b"), "[tru");
  EXPECT_EQ(value_at("/b/0"), "true");
  EXPECT_EQ(value_at("/b/1"), "-3.5");
  EXPECT_EQ(value_at("/b/2"), "\"x\\\"");
  EXPECT_EQ(value_at("/b/3"), "null");
  EXPECT_EQ(value_at("/b/4"), "{\"c\"");
  EXPECT_EQ(value_at("/b/4/c"), "{}}]");
  EXPECT_EQ(key_at("/d"), "\"d\"");
  EXPECT_EQ(value_at("/d"), "\"e\"}");
}

TEST(JsonSource, NumbersNextToBracketsAreFoundToo) {
  const std::string_view text = "[[1],[2,3],4]";
  const JsonSource source = parsed(text);
  EXPECT_EQ(source.locations.at("/0/0").value, 2U);
  EXPECT_EQ(source.locations.at("/1").value, 5U);
  EXPECT_EQ(source.locations.at("/1/1").value, 8U);
  EXPECT_EQ(source.locations.at("/2").value, 11U);
}

TEST(JsonSource, SyntaxErrorsCarryTheirPlace) {
  const JsonError error = refused("{\n  \"version\": 1,\n  \"policy\" \"off\"\n}\n");
  EXPECT_EQ(error.where.line, 3);
  EXPECT_EQ(error.where.column, 16);
  EXPECT_EQ(error.pointer, "");
  EXPECT_NE(error.message.find("expected ':'"), std::string::npos) << error.message;
  EXPECT_EQ(error.message.find("json.exception"), std::string::npos) << error.message;
}

TEST(JsonSource, EmptyAndTruncatedTextsAreErrors) {
  EXPECT_EQ(refused("").where.line, 1);
  EXPECT_EQ(refused("{\n\"a\": [1,\n").where.line, 3);
  EXPECT_EQ(refused("{} x").where.column, 4);
}

TEST(JsonSource, DuplicateKeysAreErrors) {
  const JsonError error = refused("{\"a\": {\"b\": 1,\n \"b\": 2}}");
  EXPECT_EQ(error.where.line, 2);
  EXPECT_EQ(error.where.column, 2);
  EXPECT_EQ(error.pointer, "/a/b");
  EXPECT_EQ(error.message, "found the key \"b\" a second time, expected each key once");
}

TEST(JsonSource, DeepNestingIsNoTrouble) {
  EXPECT_EQ(refused(std::string(20000, '[')).where.line, 1);
}

TEST(PositionAt, CountsCharactersNotBytes) {
  const TextPosition where = position_at("a\n\"\xC3\xA9\xE2\x82\xAC\" x", 10);
  EXPECT_EQ(where.line, 2);
  EXPECT_EQ(where.column, 6);
}

TEST(FieldPath, ReadsLikeCode) {
  EXPECT_EQ(field_path(""), "");
  EXPECT_EQ(field_path("/rules/1/match/op"), "rules[1].match.op");
  EXPECT_EQ(field_path("/a~1b/c~0d"), "a/b.c~d");
  EXPECT_EQ(pointer_append("/rules", "a/b~"), "/rules/a~1b~0");
}

}  // namespace
}  // namespace cinch::policy
