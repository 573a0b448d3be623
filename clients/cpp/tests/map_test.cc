#include "xlashape/map.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "xlashape/error.h"

namespace xlashape {
namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kGreatest = std::numeric_limits<std::int64_t>::max();

/// d0 with any value, combined with 1.
v1::IndexingMap Message(v1::Expression::Kind kind, bool fits) {
  v1::IndexingMap message;
  v1::Interval* bounds = message.add_dimensions()->mutable_bounds();
  bounds->set_lower(kLeast);
  bounds->set_upper(kGreatest);
  message.add_expressions()->set_kind(v1::Expression::KIND_DIMENSION);
  v1::Expression* constant = message.add_expressions();
  constant->set_kind(v1::Expression::KIND_CONSTANT);
  constant->set_value(1);
  v1::Expression* operation = message.add_expressions();
  operation->set_kind(kind);
  operation->add_operands(0);
  operation->add_operands(1);
  message.add_results(2);
  message.set_fits_int64(fits);
  return message;
}

TEST(EvaluableMap, LeavesAMapThatDoesNotFitToTheServer) {
  try {
    EvaluableMap map(Message(v1::Expression::KIND_ADD, false));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.reason(), "SIZE_OVERFLOW");
  }
}

TEST(EvaluableMap, WrapsAroundIfTheMapLies) {
  for (const auto& [kind, result] : {std::pair{v1::Expression::KIND_ADD, kLeast}, std::pair{v1::Expression::KIND_MULTIPLY, kGreatest}}) {
    EXPECT_EQ(*EvaluableMap(Message(kind, true)).Evaluate({kGreatest}), std::vector<std::int64_t>{result});
  }
}

}  // namespace
}  // namespace xlashape
