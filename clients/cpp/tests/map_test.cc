#include "xlashape/map.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "xlashape/error.h"

namespace xlashape {
namespace {

__extension__ typedef __int128 Int128;
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

const std::string kX = "expressions {kind: KIND_DIMENSION} ";
const std::string kY = "expressions {kind: KIND_DIMENSION value: 1} ";

/// A map in protobuf's text format.
v1::IndexingMap Message(const std::string& text) {
  v1::IndexingMap message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

std::string Dimension(std::int64_t lower, std::int64_t upper) {
  return "dimensions {bounds {lower: " + std::to_string(lower) + " upper: " + std::to_string(upper) + "}} ";
}

std::string Constant(std::int64_t value) { return "expressions {kind: KIND_CONSTANT value: " + std::to_string(value) + "} "; }

/// An expression of two earlier ones.
std::string Node(const std::string& kind, int left, int right) {
  return "expressions {kind: KIND_" + kind + " operands: [" + std::to_string(left) + ", " + std::to_string(right) + "]} ";
}

TEST(EvaluableMap, DividesNegativeNumbersAsXlaDoes) {
  const EvaluableMap map(Message(Dimension(-9, 9) + kX + Constant(4) + Constant(-2) + Node("FLOOR_DIVIDE", 0, 1) + Node("CEIL_DIVIDE", 0, 1) +
                                 Node("MODULO", 0, 1) + Node("MINIMUM", 0, 2) + Node("MAXIMUM", 0, 2) + "results: [3, 4, 5, 6, 7]"));
  for (std::int64_t value = -9; value <= 9; ++value) {
    const std::int64_t floor = (value + 12) / 4 - 3;
    const std::int64_t ceil = (value + 15) / 4 - 3;
    EXPECT_EQ(*map.Evaluate({value}), (std::vector<std::int64_t>{floor, ceil, value - 4 * floor, std::min<std::int64_t>(value, -2), std::max<std::int64_t>(value, -2)}))
        << value;
  }
}

TEST(EvaluableMap, IsExactAtTheEndsOfInt64) {
  const std::string all = Dimension(kLeast, kGreatest);
  const EvaluableMap map(Message(all + all + kX + kY + Node("MULTIPLY", 0, 1) + Node("ADD", 0, 1) + Constant(kGreatest) + Constant(1000003) +
                                 Node("FLOOR_DIVIDE", 2, 4) + Node("MODULO", 2, 5) + Node("CEIL_DIVIDE", 2, 4) +
                                 "results: [6, 7, 8, 3] constraints {expression: 3 bounds {lower: -9223372036854775808 upper: 9}}"));
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

TEST(EvaluableMap, EvaluatesManyPointsAsItDoesOne) {
  const std::string bounds = Dimension(-9000000000, 9000000000);
  const EvaluableMap map(Message(bounds + bounds + "ranges {bounds {upper: 3}} expressions {kind: KIND_RANGE} " + kX + kY + Node("MULTIPLY", 1, 2) +
                                 Node("ADD", 3, 0) + Constant(7) + Node("MODULO", 1, 5) +
                                 "results: [4, 6] constraints {expression: 3 bounds {lower: -9000000000000000000 upper: 9}}"));
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

TEST(EvaluableMap, AllowsLargeValuesBetween) {
  const EvaluableMap map(
      Message(Dimension(0, kGreatest) + kX + Constant(kGreatest) + Node("MULTIPLY", 0, 0) + Node("FLOOR_DIVIDE", 2, 1) + "results: 3"));
  EXPECT_EQ(*map.Evaluate({kGreatest}), std::vector<std::int64_t>{kGreatest});
}

TEST(EvaluableMap, RefusesValuesBeyond128Bits) {
  v1::IndexingMap message = Message(Dimension(0, 9) + kX + "results: 0");
  for (std::uint32_t i = 0; i < 40; ++i) {
    v1::Expression* node = message.add_expressions();
    node->set_kind(v1::Expression::KIND_MULTIPLY);
    node->add_operands(i);
    node->add_operands(i);
  }
  message.set_results(0, 40);
  const EvaluableMap map(message);
  EXPECT_EQ(ReasonOf([&] { map.Evaluate({9}); }), "SIZE_OVERFLOW");
  EXPECT_EQ(*map.Evaluate({1}), std::vector<std::int64_t>{1});
}

TEST(EvaluableMap, SaysWhichResultDoesNotFit) {
  const EvaluableMap map(Message(Dimension(kLeast, kGreatest) + kX + Constant(-2) + Node("MULTIPLY", 0, 1) + "results: [0, 2]"));
  try {
    map.EvaluateBatch({1, kGreatest});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "xlashape: points[1]: result 1 does not fit int64: -18446744073709551614 (SIZE_OVERFLOW)");
  }
}

TEST(EvaluableMap, ChecksPoints) {
  const EvaluableMap map(Message(Dimension(0, 9) + kX + Constant(2) + Node("MULTIPLY", 0, 1) + "results: 2"));
  EXPECT_EQ(ReasonOf([&] { map.Evaluate({1, 2}); }), "INVALID_INDEX");
  EXPECT_EQ(ReasonOf([&] { map.Evaluate({}); }), "INVALID_INDEX");
  EXPECT_EQ(ReasonOf([&] { map.EvaluateBatch({1}, std::numeric_limits<std::size_t>::max()); }), "INVALID_INDEX");
  EXPECT_EQ(ReasonOf([&] { map.EvaluateBatch({1}, 0); }), "INVALID_INDEX");
  EXPECT_TRUE(map.EvaluateBatch({}, 0).results.empty());
  const EvaluableMap constant(Message(Constant(7) + Constant(8) + "results: [0, 1]"));
  EXPECT_EQ(*constant.Evaluate({}), (std::vector<std::int64_t>{7, 8}));
  EXPECT_EQ(constant.EvaluateBatch({}, 2).results, (std::vector<std::int64_t>{7, 8, 7, 8}));
  EXPECT_EQ(ReasonOf([&] { constant.EvaluateBatch({}); }), "INVALID_INDEX");
  EXPECT_EQ(ReasonOf([&] { constant.EvaluateBatch({}, std::size_t{1} << 63); }), "INVALID_INDEX");
}

TEST(EvaluableMap, HasNoPointsIfItIsEmpty) {
  EXPECT_EQ(EvaluableMap(Message("state: STATE_KNOWN_EMPTY")).Evaluate({}), std::nullopt);
  EXPECT_EQ(EvaluableMap(Message(Dimension(3, 2) + kX + "results: 0")).Evaluate({3}), std::nullopt);
}

TEST(EvaluableMap, RefusesWhatIsNoMap) {
  const auto reason = [](v1::Expression::Kind kind, std::int64_t value, const std::vector<std::uint32_t>& operands) {
    v1::IndexingMap message = Message(Dimension(0, 9) + kX + "results: 0");
    v1::Expression* node = message.add_expressions();
    node->set_kind(kind);
    node->set_value(value);
    node->mutable_operands()->Add(operands.begin(), operands.end());
    return ReasonOf([&] { EvaluableMap map(message); });
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
  EXPECT_EQ(ReasonOf([&] { EvaluableMap map(message); }), "INVALID_MAP");
  message.clear_results();
  message.add_constraints()->set_expression(4000000000U);
  EXPECT_EQ(ReasonOf([&] { EvaluableMap map(message); }), "INVALID_MAP");
  message.Clear();
  message.set_state(static_cast<v1::IndexingMap::State>(9));
  EXPECT_EQ(ReasonOf([&] { EvaluableMap map(message); }), "INVALID_MAP");
}

}  // namespace
}  // namespace xlashape
