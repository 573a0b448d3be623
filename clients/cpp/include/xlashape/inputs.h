/// @file
/// What the functions of the client take in several forms, and what they give of two parts.

#ifndef XLASHAPE_INPUTS_H_
#define XLASHAPE_INPUTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xlashape/map.h"
#include "xlashape/v1/types.pb.h"

namespace xlashape {

/// A shape as the bytes of an xla.ShapeProto.
v1::ShapeInput SerializedShape(std::string proto);

/// A shape in any form: XLA's text, in which a missing layout stands for the default layout, or a message. For parameters.
class AnyShape {
 public:
  /// A shape in XLA's text.
  AnyShape(const char* text) { input_.set_text(text); }
  /// A shape in XLA's text.
  AnyShape(std::string text) { input_.set_text(std::move(text)); }
  /// A shape in XLA's text.
  AnyShape(std::string_view text) { input_.set_text(text.data(), text.size()); }
  /// A shape as a request has it.
  AnyShape(v1::ShapeInput input) : input_(std::move(input)) {}
  /// A shape as fields.
  AnyShape(v1::Shape shape) { *input_.mutable_shape() = std::move(shape); }

  /// The shape as a request has it.
  const v1::ShapeInput& input() const { return input_; }

 private:
  v1::ShapeInput input_;
};

/// A map in any form: text, a message, or an EvaluableMap. For parameters.
class AnyMap {
 public:
  /// A map in text.
  AnyMap(const char* text) { input_.set_text(text); }
  /// A map in text.
  AnyMap(std::string text) { input_.set_text(std::move(text)); }
  /// A map in text.
  AnyMap(std::string_view text) { input_.set_text(text.data(), text.size()); }
  /// A map as a request has it.
  AnyMap(v1::MapInput input) : input_(std::move(input)) {}
  /// A map as fields.
  AnyMap(v1::IndexingMap map) { *input_.mutable_map() = std::move(map); }
  /// A map that is checked.
  AnyMap(const EvaluableMap& map) { *input_.mutable_map() = map.message(); }

  /// The map as a request has it.
  const v1::MapInput& input() const { return input_; }

 private:
  v1::MapInput input_;
};

/// The elements at some positions of a buffer.
struct Elements {
  /// The indices one after another, each with one number for every dimension of the shape. The numbers of a position that is padding are -1.
  std::vector<std::int64_t> indices;
  /// For each position, whether it holds an element. If not, it is padding.
  std::vector<bool> is_element;
};

}  // namespace xlashape

#endif  // XLASHAPE_INPUTS_H_
