#include "xlashape/map.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "integers.h"
#include "xlashape/error.h"

namespace xlashape {
namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kGreatest = std::numeric_limits<std::int64_t>::max();

/// The reason of the error that `function` throws; empty if it throws none.
template <class Function>
std::string ReasonOf(Function function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), grpc::StatusCode::INVALID_ARGUMENT);
    return error.reason();
  }
  return "";
}

std::string Repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(Map, DividesNegativeNumbersAsXlaDoes) {
  const Map map = Map::Parse("(d0) -> (d0 floordiv 4, d0 ceildiv 4, d0 mod 4, min(d0, -2), max(d0, -2)), domain: d0 in [-9, 9]");
  for (std::int64_t value = -9; value <= 9; ++value) {
    const std::int64_t floor = (value + 12) / 4 - 3;
    const std::int64_t ceil = (value + 15) / 4 - 3;
    EXPECT_EQ(*map.Evaluate({value}), (std::vector<std::int64_t>{floor, ceil, value - 4 * floor, std::min<std::int64_t>(value, -2), std::max<std::int64_t>(value, -2)}))
        << value;
  }
}

TEST(Map, IsExactAtTheEndsOfInt64) {
  const std::string all = "[-9223372036854775808, 9223372036854775807]";
  const Map map = Map::Parse(
      "(d0, d1) -> ((d0 * d1) floordiv 9223372036854775807, (d0 * d1) mod 1000003, (d0 * d1) ceildiv 9223372036854775807, d0 + d1), domain: d0 in " +
      all + ", d1 in " + all + ", d0 + d1 in [-9223372036854775808, 9]");
  std::mt19937_64 random(1);
  const std::vector<std::int64_t> ends = {kLeast, kLeast + 1, -1, 0, 1, kGreatest - 1, kGreatest};
  for (int i = 0; i < 2000; ++i) {
    std::int64_t a = static_cast<std::int64_t>(random()) >> (random() % 64);
    std::int64_t b = static_cast<std::int64_t>(random()) >> (random() % 64);
    if (i < 49) a = ends[i / 7], b = ends[i % 7];
    const Int128 product = static_cast<Int128>(a) * b;
    const Int128 sum = static_cast<Int128>(a) + b;
    // Quotients from the nearest multiple below, found without the divisions under test.
    const auto modulo = [&](Int128 m) { return ((product % m) + m) % m; };
    const Int128 floor = (product - modulo(kGreatest)) / kGreatest;
    const Int128 ceil = floor + (modulo(kGreatest) != 0);
    const auto fits = [](Int128 value) { return value >= kLeast && value <= kGreatest; };
    if (sum < kLeast || sum > 9) {
      EXPECT_EQ(map.Evaluate({a, b}), std::nullopt);
    } else if (!fits(floor) || !fits(ceil)) {
      EXPECT_EQ(ReasonOf([&] { map.Evaluate({a, b}); }), "SIZE_OVERFLOW");
    } else {
      const std::vector<std::int64_t> expected = {static_cast<std::int64_t>(floor), static_cast<std::int64_t>(modulo(1000003)),
                                                  static_cast<std::int64_t>(ceil), static_cast<std::int64_t>(sum)};
      EXPECT_EQ(map.Evaluate({a, b}), expected) << a << " " << b;
    }
  }
}

TEST(Map, EvaluatesManyPointsAsItDoesOne) {
  const Map map = Map::Parse("(d0, d1)[s0] -> (d0 * d1 + s0, d0 mod 7), domain: d0 in [-9000000000, 9000000000], d1 in [-9000000000, 9000000000], "
                             "s0 in [0, 3], d0 * d1 in [-9000000000000000000, 9]");
  std::vector<std::int64_t> points;
  std::mt19937_64 random(2);
  const auto within = [&](std::int64_t bound) { return static_cast<std::int64_t>(random() % (2 * bound + 1)) - bound; };
  const std::size_t count = 1000;  // not a multiple of the points that are evaluated together
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t bound = i < 300 ? 100 : 9000000000;  // the products of the others exceed 64 bits
    points.insert(points.end(), {within(bound), within(bound), static_cast<std::int64_t>(random() % 5)});
  }
  const Values values = map.EvaluateBatch(points);
  ASSERT_EQ(values.in_domain.size(), count);
  ASSERT_EQ(values.results.size(), 2 * count);
  std::size_t inside = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto one = map.Evaluate({points[3 * i], points[3 * i + 1], points[3 * i + 2]});
    EXPECT_EQ(values.in_domain[i], one.has_value());
    inside += one.has_value();
    const std::vector<std::int64_t> expected = one.value_or(std::vector<std::int64_t>{0, 0});
    EXPECT_EQ((std::vector<std::int64_t>{values.results[2 * i], values.results[2 * i + 1]}), expected);
  }
  EXPECT_GT(inside, count / 10);
  EXPECT_LT(inside, count);
}

TEST(Map, AllowsLargeValuesBetween) {
  const Map map = Map::Parse("(d0) -> ((d0 * d0) floordiv 9223372036854775807), domain: d0 in [0, 9223372036854775807]");
  EXPECT_EQ(*map.Evaluate({kGreatest}), std::vector<std::int64_t>{kGreatest});
}

TEST(Map, RefusesValuesBeyond128Bits) {
  v1::IndexingMap message = Map::Parse("(d0) -> (d0), domain: d0 in [0, 9]").message();
  for (std::uint32_t i = 0; i < 40; ++i) {
    v1::Expression* node = message.add_expressions();
    node->set_kind(v1::Expression::KIND_MULTIPLY);
    node->add_operands(i);
    node->add_operands(i);
  }
  message.set_results(0, 40);
  const Map map(message);
  EXPECT_EQ(ReasonOf([&] { map.Evaluate({9}); }), "SIZE_OVERFLOW");
  EXPECT_EQ(*map.Evaluate({1}), std::vector<std::int64_t>{1});
}

TEST(Map, SaysWhichResultDoesNotFit) {
  const Map map = Map::Parse("(d0) -> (d0, d0 * -2), domain: d0 in [-9223372036854775808, 9223372036854775807]");
  try {
    map.EvaluateBatch({1, kGreatest});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "xlashape: points[1]: result 1 does not fit int64: -18446744073709551614 (SIZE_OVERFLOW)");
  }
}

TEST(Map, ChecksPoints) {
  const Map map = Map::Parse("(d0) -> (d0 * 2), domain: d0 in [0, 9]");
  EXPECT_EQ(ReasonOf([&] { map.Evaluate({1, 2}); }), "INVALID_INDEX");
  EXPECT_EQ(ReasonOf([&] { map.Evaluate({}); }), "INVALID_INDEX");
  EXPECT_EQ(ReasonOf([&] { map.EvaluateBatch({1}, std::numeric_limits<std::size_t>::max()); }), "INVALID_INDEX");
  EXPECT_EQ(ReasonOf([&] { map.EvaluateBatch({1}, 0); }), "INVALID_INDEX");
  EXPECT_TRUE(map.EvaluateBatch({}, 0).results.empty());
  const Map constant = Map::Parse("() -> (7, 8)");
  EXPECT_EQ(*constant.Evaluate({}), (std::vector<std::int64_t>{7, 8}));
  EXPECT_EQ(constant.EvaluateBatch({}, 2).results, (std::vector<std::int64_t>{7, 8, 7, 8}));
  EXPECT_EQ(ReasonOf([&] { constant.EvaluateBatch({}); }), "INVALID_INDEX");
  EXPECT_EQ(ReasonOf([&] { constant.EvaluateBatch({}, std::size_t{1} << 63); }), "INVALID_INDEX");
}

TEST(Map, HasNoPointsIfItIsEmpty) {
  EXPECT_EQ(Map::Parse(" KNOWN  EMPTY\n").Evaluate({}), std::nullopt);
  EXPECT_EQ(Map::Parse("(d0) -> (d0), domain: d0 in [3, 2]").Evaluate({3}), std::nullopt);
}

TEST(Map, RefusesWhatIsNoMap) {
  const auto reason = [](v1::Expression::Kind kind, std::int64_t value, const std::vector<std::uint32_t>& operands) {
    v1::IndexingMap message = Map::Parse("(d0) -> (d0), domain: d0 in [0, 9]").message();
    v1::Expression* node = message.add_expressions();
    node->set_kind(kind);
    node->set_value(value);
    node->mutable_operands()->Add(operands.begin(), operands.end());
    return ReasonOf([&] { Map map(message); });
  };
  EXPECT_EQ(reason(v1::Expression::KIND_ADD, 0, {0, 0}), "");
  EXPECT_EQ(reason(v1::Expression::KIND_UNSPECIFIED, 0, {}), "INVALID_MAP");
  EXPECT_EQ(reason(static_cast<v1::Expression::Kind>(99), 0, {0, 0}), "INVALID_MAP");
  EXPECT_EQ(reason(v1::Expression::KIND_ADD, 0, {0}), "INVALID_MAP");
  EXPECT_EQ(reason(v1::Expression::KIND_ADD, 0, {0, 1}), "INVALID_MAP");
  EXPECT_EQ(reason(v1::Expression::KIND_MODULO, 0, {0, 0}), "INVALID_MAP");
  EXPECT_EQ(reason(v1::Expression::KIND_DIMENSION, 1, {}), "INVALID_MAP");
  EXPECT_EQ(reason(v1::Expression::KIND_RANGE, 0, {}), "INVALID_MAP");
  EXPECT_EQ(reason(v1::Expression::KIND_DIMENSION, -1, {}), "INVALID_MAP");
  v1::IndexingMap message;
  message.add_results(0);
  EXPECT_EQ(ReasonOf([&] { Map map(message); }), "INVALID_MAP");
  message.clear_results();
  message.add_constraints()->set_expression(4000000000U);
  EXPECT_EQ(ReasonOf([&] { Map map(message); }), "INVALID_MAP");
  message.Clear();
  message.set_state(static_cast<v1::IndexingMap::State>(9));
  EXPECT_EQ(ReasonOf([&] { Map map(message); }), "INVALID_MAP");
}

TEST(Parse, RefusesMistakes) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"UNDEFINED", "INVALID_MAP"},
      {"(d0) -> (d0 mod 0), domain: d0 in [0, 3]", "INVALID_MAP"},
      {"(d0) -> (d0 mod -3), domain: d0 in [0, 3]", "INVALID_MAP"},
      {"(d0) -> (7 / d0), domain: d0 in [0, 3]", "INVALID_MAP"},
      {"(d0) -> (d1), domain: d0 in [0, 3]", "PARSE"},
      {"(d0) -> (d0)", "PARSE"},
      {"(d0, d0) -> (d0), domain: d0 in [0, 3]", "PARSE"},
      {"(min) -> (1), domain: min in [0, 3]", "PARSE"},
      {"(d0) -> (d0, domain: d0 in [0, 3]", "PARSE"},
      {"(d0) -> (d0 d0), domain: d0 in [0, 3]", "PARSE"},
      {"(d0) -> (min(d0)), domain: d0 in [0, 3]", "PARSE"},
      {"(d0) -> (max(d0, 1, 2)), domain: d0 in [0, 3]", "PARSE"},
      {"(d0) -> (d0 +), domain: d0 in [0, 3]", "PARSE"},
      {"(d0) -> ((d0), domain: d0 in [0, 3]", "PARSE"},
      {"", "PARSE"},
      {"(", "PARSE"},
      {"(d0) -> (", "PARSE"},
      {"(d0) -> (99999999999999999999), domain: d0 in [0, 3]", "PARSE"},
      {"(d0) -> (" + Repeated("(", 1000000) + "d0), domain: d0 in [0, 3]", "PARSE"},
      {"(d0) -> (d0), domain: d0 in [0, 3] and more", "PARSE"},
      {"(d0) -> (\xff), domain: d0 in [0, 3]", "PARSE"},
      {std::string("(d0) -> (d0\0), domain: d0 in [0, 3]", 36), "PARSE"},
  };
  for (const auto& [text, reason] : cases) EXPECT_EQ(ReasonOf([&, &text = text] { Map::Parse(text); }), reason) << text.substr(0, 60);
}

TEST(Parse, SaysWhere) {
  try {
    Map::Parse("(d0) -> (d0),\ndomain: d0 in [0, é]");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "xlashape: line 2, column 19: expected an integer of 64 bits, found 'é' (PARSE)");
    EXPECT_EQ(error.line(), 2);
    EXPECT_EQ(error.column(), 19);
  }
}

TEST(Parse, BindsAsXlaDoes) {
  const auto value = [](const std::string& expression) {
    return Map::Parse("(x, y) -> (" + expression + "), domain: x in [-99, 99], y in [-99, 99]").Evaluate({7, -3})->front();
  };
  EXPECT_EQ(value("x - y - 1"), 9);
  EXPECT_EQ(value("x + y * 2"), 1);
  EXPECT_EQ(value("(x + y) * 2"), 8);
  EXPECT_EQ(value("-x mod 4"), 1);
  EXPECT_EQ(value("-(x mod 4)"), -3);
  EXPECT_EQ(value("x * -y"), 21);
  EXPECT_EQ(value("x - -3"), 10);
  EXPECT_EQ(value("x -3"), 4);
  EXPECT_EQ(value("- -x"), 7);
  EXPECT_EQ(value("x / 2 * 2"), 6);
  EXPECT_EQ(value("x mod (2 * 2)"), 3);
  EXPECT_EQ(value("x floordiv (7 - 5 + 1)"), 2);
  EXPECT_EQ(value("max(x, min(y, 0)) - min(1 + 1, (x))"), 5);
  EXPECT_EQ(value("-9223372036854775808 + x"), kLeast + 7);
}

TEST(Parse, ReadsDeepExpressions) {
  constexpr int kDepth = 900;
  const std::string domain = ", domain: d0 in [0, 9]";
  EXPECT_EQ(Map::Parse("(d0) -> (" + Repeated("(", kDepth) + "d0" + Repeated(")", kDepth) + ")" + domain).Evaluate({5})->front(), 5);
  EXPECT_EQ(Map::Parse("(d0) -> (" + Repeated("-", kDepth) + "d0)" + domain).Evaluate({5})->front(), 5);
  EXPECT_EQ(Map::Parse("(d0) -> (" + Repeated("min(9, ", kDepth) + "d0" + Repeated(")", kDepth) + ")" + domain).Evaluate({5})->front(), 5);
  EXPECT_EQ(Map::Parse("(d0) -> (d0" + Repeated(" + 1", 200000) + ")" + domain).Evaluate({5})->front(), 200005);
  EXPECT_EQ(ReasonOf([&] { Map::Parse("(d0) -> (" + Repeated("-", 200000) + "d0)" + domain); }), "PARSE");
}

TEST(Parse, GivesAMapOrAnErrorForAnyText) {
  const std::string valid =
      "(d0)[s0]{rt0} -> (d0 * 4 + s0 mod 3, min(rt0, -d0) floordiv 2, (d0 - 1) ceildiv 5), domain: d0 in [0, 9], s0 in [-3, 3], rt0 in [0, 1], d0 + s0 in [0, 9]";
  const std::vector<std::string> pieces = {"(", ")", "[", "]", "{", ",", "->", "-", " min(", "mod ", " in ", "d0", "s0", "0", "-9223372036854775808",
                                           "\n", "\xc3", "is_simplified: ", "domain:", "*", std::string(1, '\0')};
  std::mt19937_64 random(3);
  int maps = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = valid;
    for (std::uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      text.replace(random() % text.size(), random() % 4, random() % 3 == 0 ? "" : pieces[random() % pieces.size()]);
    }
    try {
      const Map map = Map::Parse(text);
      ++maps;
      map.Evaluate(std::vector<std::int64_t>(map.variables(), 1));
    } catch (const Error& error) {
      EXPECT_TRUE(error.reason() == "PARSE" || error.reason() == "INVALID_MAP" || error.reason() == "SIZE_OVERFLOW") << error.what();
      EXPECT_EQ(error.line() > 0, error.reason() == "PARSE");
    }
  }
  EXPECT_GT(maps, 1000);
}

TEST(Parse, ReadsWhatTheServerWrites) {
  const Map map = Map::Parse(
      "(d0)[s0]{rt0} -> (d0 * 4 + s0, rt0),\ndomain:\nd0 in [0, 9],\ns0 in [0, 3]\nrt0 in [-1, 5],\nd0 in [2, 20],\nd0 + s0 in [0, 11], is_simplified: true\n"
      "runtime variables:\nrt0: p1; (d0) -> ()\n");
  EXPECT_EQ(map.variables(), 3U);
  EXPECT_EQ(map.results(), 2U);
  EXPECT_EQ(*map.Evaluate({9, 2, -1}), (std::vector<std::int64_t>{38, -1}));
  EXPECT_EQ(map.Evaluate({1, 2, 0}), std::nullopt);
  EXPECT_EQ(map.Evaluate({9, 3, 0}), std::nullopt);
  EXPECT_EQ(map.message().dimensions(0).bounds().lower(), 2);
  EXPECT_EQ(map.message().dimensions(0).bounds().upper(), 9);
}

}  // namespace
}  // namespace xlashape
